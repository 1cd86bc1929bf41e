"""Shuffles, streams, queries, workflows and checkpoints: bytes by pair and times by closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.traces.schema import OP_CODE
from netsim.traffic.workloads import (
    build,
    checkpoint,
    checkpoint_interval,
    hadoop_shuffle,
    olap,
    spark,
    storm,
    workflow,
)


@pytest.mark.parametrize(("n", "mappers", "reducers"), [(4, 8, 12), (2, 2, 2), (8, 8, 8)])
def test_an_even_shuffle(ask, n: int, mappers: int, reducers: int) -> None:
    size = mappers * reducers * 1000
    work = hadoop_shuffle(n_ranks=n, mappers=mappers, reducers=reducers, size=size, map=1e-3, reduce=2e-3, slots=2)
    found = ask.pairs(work)
    assert (found[~np.eye(n, dtype=bool)] == size // n**2).all()
    assert np.diag(found).sum() == 0
    assert sum(ask.calls(work, r)["send"] for r in range(n)) == mappers * reducers * (n - 1) // n
    made = ask.star(work, rate=1e9, latency=1e-6).makespan_s
    tasks = 1e-3 * math.ceil(mappers / n / 2) + 2e-3 * math.ceil(reducers / n / 2)
    assert made == pytest.approx(tasks + size * (n - 1) / n**2 / 1e9 + 1e-6, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 5),
    mappers=st.integers(1, 9),
    reducers=st.integers(1, 9),
    size=st.integers(1, 10**6),
    skew=st.none() | st.floats(0.1, 2.0),
)
def test_a_shuffle_keeps_every_byte(ask, n: int, mappers: int, reducers: int, size: int, skew: float | None) -> None:
    found = ask.pairs(hadoop_shuffle(n_ranks=n, mappers=mappers, reducers=reducers, size=size, skew=skew))
    # On twice as many nodes as tasks, nothing is local.
    many = 2 * max(mappers, reducers)
    spread = ask.pairs(hadoop_shuffle(n_ranks=many, mappers=mappers, reducers=reducers, size=size, skew=skew))
    local = sum(hadoop_local(mappers, reducers, size, skew, same=lambda m, r: m == r))
    assert spread.sum() + local == size
    assert found.sum() + sum(hadoop_local(mappers, reducers, size, skew, same=lambda m, r: m % n == r % n)) == size


def hadoop_local(mappers: int, reducers: int, size: int, skew: float | None, *, same) -> list[int]:
    """What tasks of the same node have for each other, from the two laws written out."""
    weight = np.array([1.0 if skew is None else (r + 1) ** -skew for r in range(reducers)])
    if skew is None:
        ends = [size * r // reducers for r in range(reducers + 1)]
    else:
        ends = [0, *(round(size * math.fsum(weight[: r + 1]) / math.fsum(weight)) for r in range(reducers))]
    found = []
    for r in range(reducers):
        total = ends[r + 1] - ends[r]
        found += [total * (m + 1) // mappers - total * m // mappers for m in range(mappers) if same(m, r)]
    return found


def test_skew_loads_the_first_reducer(ask) -> None:
    found = ask.pairs(hadoop_shuffle(n_ranks=4, mappers=4, reducers=4, size=25_000_000, skew=1.0))
    into = found.sum(axis=0)
    # 1 + 1/2 + 1/3 + 1/4 = 25/12; a quarter of each share is local.
    assert into.tolist() == [9_000_000, 4_500_000, 3_000_000, 2_250_000]


def test_spark_job(ask) -> None:
    e, size = 4, 16_000
    work = spark(n_ranks=e + 1, stages=3, size=size, ratio=0.5, broadcast=500, task=70, result=90, jobs=2, work=1e-3)
    assert ask.sizes(work, "bcast", 2) == [500] * 2
    assert ask.sizes(work, "alltoall", 2) == [4000, 2000, 1000] * 2
    assert ask.sizes(work, "gather", 2) == [90] * 2
    found = ask.pairs(work)
    assert (found[0, 1:] == 2 * 3 * 70).all()
    assert found[1:].sum() == 0
    assert ask.calls(work, 0, phase=1) == {"send": 24, "recv": 24, "wait": 12}
    assert work.trace().column("gap_ns").sum() == 2 * 3 * e * 10**6


def test_spark_partitions_that_do_not_divide() -> None:
    trace = spark(n_ranks=4, stages=2, size=1001, ratio=0.7).trace()
    size = trace.column("bytes")[trace.column("op") == OP_CODE["alltoall"]]
    assert size.sum() == 1001 + round(1001 * 0.7)


@pytest.mark.parametrize("grouping", ["shuffle", "all"])
def test_storm_volumes(ask, grouping: str) -> None:
    tasks, batch = (2, 4, 3), 12_000
    work = storm(tasks=tasks, batch=batch, batches=5, selectivity=0.5, grouping=grouping)
    found = ask.pairs(work)
    if grouping == "shuffle":
        first, second = 12_000 / 4, 0.5 * 2 * 3_000 / 3
    else:
        first, second = 12_000, 0.5 * 2 * 12_000
    assert (found[:2, 2:6] == 5 * first).all()
    assert (found[2:6, 6:] == 5 * second).all()
    assert found.sum() == 5 * (8 * first + 12 * second)


def test_storm_keeps_up_until_a_bolt_is_too_slow(ask) -> None:
    options = {"tasks": (1, 1, 1), "batch": 1000, "interval": 1e-3, "batches": 20}
    rate = 1e9
    hop = 1000 / rate
    fast = ask.star(storm(**options, work=0.4e-3), rate=rate).makespan_s
    # A spout's next interval begins when its batch is taken; the last batch then passes two bolts.
    assert fast == pytest.approx(20 * (1e-3 + hop) + 2 * 0.4e-3 + hop, rel=1e-6)
    slow = ask.star(storm(**options, work=3e-3), rate=rate).makespan_s
    assert slow == pytest.approx(20 * 3e-3, rel=0.1)


def olap_law(t1: float, t2: float, chunks: int, prefetch: bool) -> float:
    return (t1 + t2) / chunks + (chunks - 1) / chunks * max(t1, t2) if prefetch else t1 + t2


@pytest.mark.parametrize("prefetch", [True, False])
@pytest.mark.parametrize(("hit", "chunks"), [(None, 4), (0.5, 4), (0.75, 1)])
def test_olap_overlaps_storage_and_cache(ask, prefetch: bool, hit: float | None, chunks: int) -> None:
    scan, rate = 8_000_000, 1e9
    work = olap(
        tiers=(2, 2, 2, 2), scan=scan, hit=hit, shuffle=0.25, offload=0.5, chunks=chunks, prefetch=prefetch, work=1e-3
    )
    missed = (1 - (hit or 0)) * scan
    found = ask.pairs(work)
    assert found[:2, 2:4].sum() == missed
    assert found[2:4, 4:6].sum() == scan
    assert found[4:6, 6:].sum() == 0.5 * scan
    assert ask.sizes(work, "alltoall", 4) == [0.25 * scan / 2]
    made = ask.star(work, rate=rate).makespan_s
    law = olap_law(missed / 2 / rate, scan / 2 / rate, chunks, prefetch)
    # After the scan: work, the shuffle of which half stays, the offload.
    assert made == pytest.approx(law + 1e-3 + 0.25 * scan / 4 / rate + 0.5 * scan / 2 / rate, rel=1e-6)


def test_olap_rules() -> None:
    for text, message in (
        ("tiers=1x1x1", "workload olap tiers: must be 4 numbers, got 1x1x1"),
        ("hit=1", "workload olap hit: must be below 1, got 1.0"),
        ("n_ranks=5", "workload olap n_ranks: must be the sum of tiers, 12, got 5"),
    ):
        with pytest.raises(InputError) as caught:
            build(f"olap:{text}")
        assert str(caught.value) == message


def chain(ask, **options: object) -> float:
    return ask.star(workflow(tasks=5, time=10e-3, transfer=10**6, **options), rate=1e9).makespan_s


def test_fusion_saves_exactly_a_transfer(ask) -> None:
    times = [chain(ask, image=0, fused=f) for f in range(5)]
    assert times[0] == pytest.approx(5 * 10e-3 + 4 * 1e-3, rel=1e-9)
    assert np.diff(times) == pytest.approx(-1e-3, rel=1e-6)


def test_images_in_turn_or_before(ask) -> None:
    image = 2 * 10**6
    plain = chain(ask, image=0)
    assert chain(ask, image=image) == pytest.approx(plain + 5 * 2e-3, rel=1e-9)
    # The first stage waits for its image; those of the others come while stages before them work.
    assert chain(ask, image=image, preload=True) == pytest.approx(plain + 2e-3, rel=1e-9)
    # Images that take longer than the stages before: the last one comes after 5 x 20 ms, and its stage runs 10 ms.
    assert chain(ask, image=2 * 10**7, preload=True) == pytest.approx(5 * 20e-3 + 10e-3, rel=1e-2)
    assert chain(ask, image=image, runs=2) < chain(ask, image=image) + plain
    with_two = workflow(tasks=3, width=2, transfer=100, image=50)
    found = ask.pairs(with_two)
    assert found.sum() == 2 * 4 * 100 + 6 * 50
    with pytest.raises(InputError, match="workload workflow fused: must be below the number of tasks, 3, got 3"):
        workflow(tasks=3, fused=3)


@pytest.mark.parametrize("disk", [None, 5e8])
@pytest.mark.parametrize("restart", [False, True])
def test_checkpoints(ask, disk: float | None, restart: bool) -> None:
    size, rate, latency = 10**7, 1e9, 1e-6
    work = checkpoint(n_ranks=10, storage=2, size=size, interval=0.1, checkpoints=3, restart=restart, disk=disk)
    found = ask.pairs(work)
    assert found[2:, :2].sum() == 3 * 8 * size
    assert found[:2, 2:].sum() == (8 * size if restart else 0)
    save = 4 * size / rate + (0 if disk is None else 4 * size / disk) + 2 * latency
    read = (save - latency) if restart else 0
    assert ask.star(work, rate=rate, latency=latency).makespan_s == pytest.approx(3 * (0.1 + save) + read, rel=1e-9)


@given(st.floats(0.1, 100), st.floats(1e4, 1e7))
def test_youngs_interval_loses_least(cost: float, mtbf: float) -> None:
    best = checkpoint_interval(cost_s=cost, mean_time_between_failures_s=mtbf)

    def lost(interval: float) -> float:
        # Of each second: what checkpoints take, and half an interval per failure.
        return cost / interval + interval / 2 / mtbf

    assert lost(best) <= min(lost(best * f) for f in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))
