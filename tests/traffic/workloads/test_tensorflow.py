"""The TensorFlow benchmarks: bytes and calls by formula, time on a star by closed form, and what the published ratios imply."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.traffic.workloads import build, non_scaling_share, tf_cg, tf_fft, tf_matmul, tf_stream


def test_stream_pushes_one_way(ask) -> None:
    work = tf_stream(n_ranks=4, size="1MB", iterations=3)
    expected = np.zeros((4, 4), dtype=np.int64)
    expected[1:, 0] = 3 * 10**6
    assert (ask.pairs(work) == expected).all()
    assert ask.calls(work, 1) == {"send": 3, "recv": 3}


@pytest.mark.parametrize("workers", [1, 3])
def test_stream_rate_is_half_at_the_half_bandwidth_size(ask, workers: int) -> None:
    rate, latency, overhead = 1e9, 10e-6, 80e-6
    half = round((overhead + 2 * latency) * rate)
    work = tf_stream(n_ranks=workers + 1, size=half, iterations=5, overhead=overhead)
    per_push = overhead + workers * half / rate + 2 * latency
    made = ask.star(work, rate=rate, latency=latency).makespan_s
    assert made == pytest.approx(5 * per_push, rel=1e-9)
    if workers == 1:
        assert half / (made / 5) == pytest.approx(rate / 2, rel=1e-9)


@pytest.mark.parametrize(("b", "workers"), [(2, 1), (4, 3), (3, 2)])
def test_matmul_bytes_and_the_second_hop(ask, b: int, workers: int) -> None:
    tile = 8
    work = tf_matmul(n_ranks=workers + 2, n=b * tile, tile=tile)
    found = ask.pairs(work)
    size = 4 * tile * tile
    for w in range(workers):
        assert found[2 + w, 0] == size * math.ceil((b**3 - w) / workers)
    assert found[2:, 0].sum() == 4 * (b * tile) ** 3 // tile
    assert found[0, 1] == size * b * (b * b // 2)
    assert found.sum() == found[2:, 0].sum() + found[0, 1]


def test_matmul_example_of_the_programs_pushes_32_gib() -> None:
    trace = tf_matmul(n_ranks=6).trace()
    sent = (trace.column("op") == 0) & (trace.column("peer") == 0)
    assert sent.sum() == 512
    assert trace.column("bytes")[sent].sum() == 32 * 2**30
    assert (trace.column("bytes")[sent] == 64 * 2**20).all()


def test_matmul_doubles_until_the_reducer_is_full(ask) -> None:
    # The queue is full from p* = T B / (2 F) = 4 workers on.
    tile, n, flops = 64, 512, 1e9
    b, rate = n // tile, 4 * 2 * flops / tile
    push, multiply = 4 * tile**2 / rate, 2 * tile**3 / flops
    times = {}
    for p in (1, 2, 4, 8, 16):
        work = tf_matmul(n_ranks=p + 2, n=n, tile=tile, flops_per_s=flops)
        times[p] = ask.star(work, rate=rate).makespan_s
        floor = max(b**3 / p * multiply, b**3 * push)
        # The first product is computed before anything is pushed; the last p tiles leave together; 8 of the last batch go on.
        assert floor <= times[p] <= floor + multiply + (p + 8) * push + 1e-9
    assert times[1] / times[2] == pytest.approx(2, rel=0.02)
    assert times[2] / times[4] == pytest.approx(2, rel=0.03)
    assert times[4] / times[8] == pytest.approx(1, abs=0.03)
    assert times[8] / times[16] == pytest.approx(1, abs=0.03)


def test_matmul_is_bound_by_the_shared_files(ask) -> None:
    tile, n, flops = 64, 256, 1e12
    file_rate = 1e9
    for p in (1, 4):
        work = tf_matmul(n_ranks=p + 2, n=n, tile=tile, flops_per_s=flops, file_rate=file_rate)
        read = 8 * n**3 / tile / file_rate
        tail = (p + 8) * 4 * tile**2 / 1e12
        assert read - 1e-9 <= ask.star(work, rate=1e12).makespan_s <= read + tail + 1e-7


def test_matmul_without_overlap_is_the_sum(ask) -> None:
    tile, n, p, flops, rate = 64, 256, 4, 1e10, 1e9
    work = tf_matmul(n_ranks=p + 2, n=n, tile=tile, flops_per_s=flops, overlap=False)
    made = ask.star(work, rate=rate).makespan_s
    rounds, size = (n // tile) ** 3 // p, 4 * tile**2
    # In the last batch of 16 tiles 8 are odd, and go on when the last has come.
    assert made == pytest.approx(rounds * (2 * tile**3 / flops + p * size / rate) + 8 * size / rate, rel=1e-5)


@settings(max_examples=15, deadline=None)
@given(workers=st.integers(1, 9), n=st.integers(9, 200))
def test_cg_bytes_per_iteration(ask, workers: int, n: int) -> None:
    found = ask.pairs(tf_cg(n_ranks=workers + 1, n=n, iterations=2))
    assert found[1:, 0].sum() == 2 * (16 * n + 16 * workers)
    assert (found[0, 1:] == 2 * (8 * n + 16)).all()
    assert (found[1:, 1:] == 0).all()
    # Nobody has more than one row more than another.
    assert np.ptp(found[1:, 0]) <= 2 * 16


def test_cg_makes_three_round_trips(ask) -> None:
    work = tf_cg(n_ranks=5, n=64, iterations=7)
    assert ask.calls(work, 2) == {"send": 21, "recv": 21}
    assert ask.sizes(work, "send", 2)[:3] == [8, 8, 16 * 16]
    assert ask.sizes(work, "recv", 2)[:3] == [8, 8, 8 * 64]
    for phase in range(3):
        assert ask.calls(work, 0, phase=phase) == {"send": 28, "recv": 28, "wait": 14}


def cg_time(p: int, *, n: int, memory: float, rate: float, latency: float, queue: float) -> float:
    return 8 * n**2 / (p * memory) + (16 * n + 8 * p * n + 32 * p) / rate + 6 * latency + 3 * queue


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_cg_time_on_a_star(ask, workers: int) -> None:
    n, memory, rate, latency, queue = 4096, 240e9, 1e9, 5e-6, 100e-6
    work = tf_cg(n_ranks=workers + 1, n=n, iterations=4, memory=memory, queue=queue)
    made = ask.star(work, rate=rate, latency=latency).makespan_s
    assert made == pytest.approx(
        4 * cg_time(workers, n=n, memory=memory, rate=rate, latency=latency, queue=queue), rel=1e-6
    )


def test_published_ratios_give_the_share_that_does_not_scale() -> None:
    for ratio, share, bound in ((2.0, 0.0, 2.0), (1.7, 0.3, 1.54), (1.8, 0.2, 1.67)):
        found = non_scaling_share(speedup=ratio)
        assert found == pytest.approx(share)
        # The next doubling, if the share stays: T(8) = s + (1 - s) / 2 in units of T(4).
        assert 1 / (found + (1 - found) / 2) == pytest.approx(bound, abs=0.005)
    for factor, speedup in ((3, 1.5), (4, 4), (8, 1)):
        s = non_scaling_share(speedup=speedup, factor=factor)
        assert (s + (1 - s) * factor) / 1 == pytest.approx(speedup)
    with pytest.raises(InputError, match=r"the speed-up must be from 1 to 2, got 2\.5"):
        non_scaling_share(speedup=2.5)
    with pytest.raises(InputError, match="the factor of workers must be above 1, got 1"):
        non_scaling_share(speedup=1, factor=1)


def test_cg_calibrated_to_the_published_ratio_predicts_the_next(ask) -> None:
    """The 1.7 from 2 to 4 workers fixes what one round trip costs; that it is plausible, and the step to 8, are predictions."""
    n, memory, rate, latency = 32768, 240e9, 1e9, 5e-6
    scaling = 8 * n**2 / memory
    share = non_scaling_share(speedup=1.7)
    fixed = scaling / 4 * share / (1 - share)
    assert fixed == pytest.approx(3.83e-3, rel=0.002)

    def without(p: int) -> float:
        return cg_time(p, n=n, memory=memory, rate=rate, latency=latency, queue=0.0)

    # (T(2) + 3 q) / (T(4) + 3 q) = 1.7
    queue = (without(2) - 1.7 * without(4)) / 0.7 / 3
    # (i) What is left for a step is neither negative nor longer than some message through a Python session.
    assert 0 < queue < 1e-3
    times = {}
    for p in (2, 4, 8):
        work = tf_cg(n_ranks=p + 1, n=n, iterations=2, memory=memory, queue=queue)
        times[p] = ask.star(work, rate=rate, latency=latency).makespan_s
    assert times[2] / times[4] == pytest.approx(1.7, rel=1e-6)
    # (ii) The downlink grows with p: less than if the fixed part stayed.
    assert times[4] / times[8] <= 1.54
    assert times[4] / times[8] < 2 / (1 + share) - 0.05


def test_fft_bytes_do_not_depend_on_the_workers(ask) -> None:
    for workers in (1, 3, 4):
        found = ask.pairs(tf_fft(n_ranks=workers + 1, log2_points=12, tiles=8))
        assert found[1:, 0].sum() == found.sum() == 16 * 2**12
    trace = tf_fft(n_ranks=5).trace()
    sent = trace.column("op") == 0
    assert trace.column("bytes")[sent].sum() == 8 * 2**30
    assert set(trace.column("bytes")[sent].tolist()) == {128 * 2**20}


def fft_time(p: int, *, e: int, tiles: int, flops: float, rate: float, latency: float, files: float) -> float:
    points = 2**e // tiles
    return tiles / p * 5 * points * math.log2(points) / flops + latency + 16 * 2**e / files + 16 * 2**e / rate


@pytest.mark.parametrize("workers", [1, 4])
def test_fft_time_on_a_star(ask, workers: int) -> None:
    work = tf_fft(n_ranks=workers + 1, log2_points=20, tiles=16, flops_per_s=1e10, file_rate=2e9)
    made = ask.star(work, rate=1e9, latency=3e-6).makespan_s
    assert made == pytest.approx(
        fft_time(workers, e=20, tiles=16, flops=1e10, rate=1e9, latency=3e-6, files=2e9), rel=1e-6
    )


def test_fft_calibrated_to_the_published_ratio_predicts_the_next(ask) -> None:
    e, tiles, rate = 20, 64, 1e9
    points = 2**e // tiles
    share = non_scaling_share(speedup=1.8)
    # The share of the incast floor in T(4) fixes the speed of the workers.
    floor = 16 * 2**e / rate
    flops = tiles / 4 * 5 * points * math.log2(points) / (floor * (1 - share) / share)
    times = {}
    for p in (2, 4, 8):
        work = tf_fft(n_ranks=p + 1, log2_points=e, tiles=tiles, flops_per_s=flops)
        times[p] = ask.star(work, rate=rate, latency=1e-6).makespan_s
        assert times[p] > floor
    assert times[2] / times[4] == pytest.approx(1.8, rel=1e-3)
    assert times[4] / times[8] <= 1.67


def test_ring_removes_the_incast(ask) -> None:
    """(iii) With collectives no link carries 8 p N: a worker sends (p-1)/p 8 N, and the time no longer grows with p."""
    n, rate, algorithms = 4096, 1e9, {"allreduce": "ring", "allgather": "ring"}
    longest = {}
    for p in (4, 8, 16):
        busiest = {}
        for name, work in (
            ("reducer", tf_cg(n_ranks=p + 1, n=n, iterations=1)),
            ("ring", build("tf-cg:collective=ring,iterations=1", n=n, n_ranks=p)),
        ):
            result = ask.star(work, rate=rate, collectives=algorithms)
            busiest[name] = ask.busiest_link_bytes(result)
            longest[name, p] = result.makespan_s - 8 * n * n / p / 240e9
        assert busiest["reducer"] == pytest.approx(p * (8 * n + 16))
        # Two allreduce of 8 B by ring are at most 2 x 2 x 8 B more on a link.
        assert 8 * n * (p - 1) / p <= busiest["ring"] * (1 + 1e-9)
        assert busiest["ring"] <= 8 * n * (p - 1) / p + 32.001
    assert longest["reducer", 16] > 2.5 * longest["reducer", 4]
    assert longest["ring", 16] < 1.3 * longest["ring", 4]


def test_ring_of_uneven_rows(ask) -> None:
    work = tf_cg(n_ranks=3, n=64, iterations=2, collective="ring")
    assert ask.calls(work, 1) == {"allreduce": 4, "allgather": 2}
    assert [ask.sizes(work, "allgather", r)[0] for r in range(3)] == [8 * 21, 8 * 21, 8 * 22]
    with pytest.raises(InputError, match="workload tf-cg n: must be at least the number of workers, 9, got 8"):
        tf_cg(n_ranks=10, n=8)
