"""Cases that can be checked by hand; every allocation on the way carries the bottleneck certificate."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.engine import CapacityChanges, Routes, Simulation, run_flows
from netsim.testing import certificate
from netsim.traffic.taskgraph import GraphBuilder

LETTERS = "ABCDEFGH"


def replay(capacity, flows, *, changes=(), latency_mode="tail", full=False):
    """flows: (path letters, bytes, start=0, latency=0, weight=1, cap=inf). Returns drain and end per flow, and the simulation."""
    build = GraphBuilder(n_ranks=2)
    weight, cap, of_task, latency, link, ptr = [], [], [], [], [], [0]
    tasks = []
    for flow in flows:
        path, size, start, lat, w, c = (*flow, *(0, 0.0, 1.0, np.inf)[len(flow) - 2 :])
        wait = build.delay(rank=0, seconds=start)
        task = build.transfer(source=0, destination=1, size_bytes=size)
        build.edge(wait, task)
        tasks.append(task)
        of_task += [-1, len(latency)]
        weight += [1.0, w]
        cap += [np.inf, c]
        latency.append(lat)
        link += [LETTERS.index(x) for x in path]
        ptr.append(len(link))
    simulation = Simulation(
        graph=build.graph(),
        routes=Routes(
            of_task=np.array(of_task), ptr=np.array(ptr), link=np.array(link), latency_s=np.array(latency, float)
        ),
        capacity_bytes_per_s=capacity,
        weight=weight,
        rate_cap_bytes_per_s=cap,
        latency_mode=latency_mode,
        full_solve=full,
        changes=CapacityChanges(
            time_s=np.array([c[0] for c in changes], float),
            link=np.array([LETTERS.index(c[1]) for c in changes], np.int32),
            capacity_bytes_per_s=np.array([c[2] for c in changes], float),
        ),
    )
    status = "running"
    while status == "running":
        status = simulation.step(1)
        allocation = simulation.allocation()
        verdict = certificate(
            rate=allocation.rate_bytes_per_s,
            capacity=allocation.capacity_bytes_per_s,
            ptr=allocation.ptr,
            link=allocation.link,
            weight=allocation.weight,
            use=allocation.use,
        )
        assert verdict, verdict.reason
    result = simulation.result(status)
    return result.drain_s[tasks].tolist(), result.end_s[tasks].tolist(), result


CASES = {
    "1 one flow": ([10], [("A", 100)], [10]),
    "2 equal shares, then the rest": ([10], [("A", 100), ("A", 100), ("A", 200)], [30, 30, 40]),
    "3 parking lot": ([10, 10, 10], [("ABC", 100), ("A", 100), ("B", 50), ("C", 200)], [20, 20, 10, 30]),
    "4 two levels": ([10, 20], [("AB", 100), ("A", 100), ("B", 100)], [20, 20, 20 / 3]),
    "5 triangle": ([1, 1, 1], [("AB", 1), ("BC", 2), ("CA", 3)], [2, 4, 5]),
    "6 staggered": ([10], [("A", 100), ("A", 100, 4)], [16, 20]),
    "7 weights": ([12], [("A", 60, 0, 0, 1), ("A", 60, 0, 0, 2), ("A", 60, 0, 0, 3)], [15, 12.5, 10]),
    "8 rate cap": ([10], [("A", 40, 0, 0, 1, 2), ("A", 40), ("A", 40)], [20, 10, 10]),
    "12 zero bytes": ([10], [("A", 0, 1, 2), ("A", 100)], [3, 10]),
    "13 latency after the drain": ([10, 10, 10], [("ABC", 30, 0, 3)], [6]),
    # A flow that crosses a link twice uses it twice: rate 5 on a link of 10.
    "link crossed twice": ([10], [("AA", 50)], [10]),
    # The freed share is used again: f1 held to 10 by A leaves 90 of B to f2 (100 bytes at 10/s and 900 at 90/s end together).
    "work conservation": ([10, 100], [("AB", 100), ("B", 900)], [10, 10]),
    "17 not monotone": ([10, 10], [("AB", 100), ("B", 100), ("A", 20, 2), ("A", 20, 2)], [20, 18, 8, 8]),
}


@pytest.mark.parametrize("full", [False, True], ids=["sweep", "full solve"])
@pytest.mark.parametrize("name", CASES)
def test_finish_times(name, full):
    capacity, flows, expected = CASES[name]
    _, end, _ = replay(capacity, flows, full=full)
    assert end == pytest.approx(expected, rel=1e-12)


def test_circuit_goes_dark_and_comes_back():
    _, end, _ = replay([10], [("A", 50)], changes=[(3, "A", 0), (5, "A", 10)])
    assert end == pytest.approx([7], rel=1e-12)


def test_link_degrades():
    # 40 bytes by t=4, then 60 at 5 bytes/s.
    _, end, _ = replay([10], [("A", 100)], changes=[(4, "A", 5)])
    assert end == pytest.approx([16], rel=1e-12)


def test_link_degraded_below_the_rate_of_one_of_its_flows():
    # Rates 5 and 5; at t=4 link A falls to 2: f0 2, f1 8 (B stays 10). f1: 20 + 8 t = 100 at t=14; f0: 40 by then, 60 left at 2.
    _, end, _ = replay([10, 10], [("AB", 100), ("B", 100)], changes=[(4, "A", 2)])
    assert end == pytest.approx([44, 14], rel=1e-12)


def test_latency_head_or_tail():
    flows = [("A", 40), ("A", 30, 0, 5)]
    assert replay([10], flows, latency_mode="head")[1] == pytest.approx([4, 8], rel=1e-12)
    drain, end, _ = replay([10], flows)
    assert drain == pytest.approx([7, 6], rel=1e-12)
    assert end == pytest.approx([7, 11], rel=1e-12)


def test_dependency_after_delivery():
    build = GraphBuilder(n_ranks=3)
    f1 = build.transfer(source=0, destination=1, size_bytes=100)
    pause = build.delay(rank=1, seconds=2)
    f2 = build.transfer(source=1, destination=2, size_bytes=50)
    build.edge(f1, pause)
    build.edge(pause, f2)
    routes = Routes(
        of_task=np.array([0, -1, 1]), ptr=np.array([0, 1, 2]), link=np.array([0, 1]), latency_s=np.array([1.0, 1.0])
    )
    result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10, 5]).run()
    assert result.end_s.tolist() == pytest.approx([11, 13, 24], rel=1e-12)
    assert result.critical.tolist() == [-1, 0, 1]


def test_equal_flows_finish_in_one_batch():
    _, end, result = replay([8], [("A", 7)] * 8)
    assert end == pytest.approx([7] * 8, rel=1e-12)
    assert result.counts["events"] == 1
    assert result.counts["solves"] == 1


@pytest.mark.parametrize("n", [4, 8, 12])
def test_one_capacity_changes_every_rate_of_a_chain(n):
    # c_0=1, c_i=2i+1, flow i on links i and i+1 has rates 1,2,3,...; lowering c_0 by 1/4 moves them by -1/4,+1/4,-1/4,...
    build = GraphBuilder(n_ranks=2)
    link = []
    for i in range(n):
        build.transfer(source=0, destination=1, size_bytes=1000)
        link += [i, i + 1]
    simulation = Simulation(
        graph=build.graph(),
        routes=Routes(of_task=np.arange(n), ptr=np.arange(0, 2 * n + 1, 2), link=np.array(link), latency_s=np.zeros(n)),
        capacity_bytes_per_s=[1.0, *(2 * i + 1 for i in range(1, n)), 1000.0],
        changes=CapacityChanges(
            time_s=np.array([1.0]), link=np.array([0], np.int32), capacity_bytes_per_s=np.array([0.75])
        ),
    )
    simulation.step(0)
    by_task = simulation.allocation()
    assert by_task.rate_bytes_per_s[np.argsort(by_task.task)] == pytest.approx(np.arange(1, n + 1), rel=1e-12)
    simulation.step(1)
    by_task = simulation.allocation()
    expected = np.arange(1, n + 1) + np.where(np.arange(n) % 2, 0.25, -0.25)
    assert by_task.rate_bytes_per_s[np.argsort(by_task.task)] == pytest.approx(expected, rel=1e-12)


def test_ten_thousand_equal_flows_share_one_link(jit):
    n = 10_000 if jit else 200
    _, end, result = replay([1e9], [("A", 1e6)] * n)
    assert end == pytest.approx([n * 1e6 / 1e9] * n, rel=1e-9)
    assert result.counts["solves"] == 1


def test_huge_sizes_do_not_stall():
    # Three flows of 1e15+1 bytes share a link fairly: all end at 3 (1e15 + 1) / c.
    _, end, result = replay([12.5e9], [("A", 1e15 + 1)] * 3)
    assert end == pytest.approx([3 * (1e15 + 1) / 12.5e9] * 3, rel=1e-12)
    assert result.counts["events"] == 1


def test_many_sizes_end_in_order(jit):
    # Sizes 1..n from t=0 on one link of capacity 1: flow k ends at sum_{j<=k} (n-j+1) = k n - k(k-1)/2. Only sharing a slot keeps
    # this from being quadratic.
    n = 200_000 if jit else 60
    k = np.arange(1, n + 1)
    end = run_flows(
        capacity_bytes_per_s=[1.0], ptr=np.arange(n + 1), link=np.zeros(n, int), start_s=np.zeros(n), size_bytes=k
    )
    assert np.abs(end / (k * n - k * (k - 1) / 2) - 1).max() < 1e-9
    assert (np.diff(end) >= 0).all()


def test_messages_of_one_pair_share_a_slot_and_are_counted_one_by_one():
    # Sizes 10, 10, 20 on one link of 10: rates 10/3; the first two drain at 3, the last has 10 left alone: 4.
    build = GraphBuilder(n_ranks=2)
    for size in (10, 20, 10):
        build.transfer(source=0, destination=1, size_bytes=size)
    routes = Routes(of_task=np.zeros(3, int), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    simulation = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10.0])
    simulation.step(0)
    allocation = simulation.allocation()
    assert sorted(allocation.task.tolist()) == [0, 1, 2]
    assert allocation.rate_bytes_per_s == pytest.approx([10 / 3] * 3)
    result = simulation.run()
    assert result.end_s == pytest.approx([3, 4, 3])
    assert (result.counts["flows"], result.counts["events"]) == (3, 2)


def test_clock_at_a_million_seconds():
    # Sharing late in the run is as exact as early: two flows of 1 MB at 12.5 GB/s, the second half a transfer later.
    half = 0.5e6 / 12.5e9
    _, end, _ = replay([12.5e9], [("A", 1e6, 1e6), ("A", 1e6, 1e6 + half)])
    assert end[0] - 1e6 == pytest.approx(3 * half, abs=1e-9)
    assert end[1] - 1e6 == pytest.approx(4 * half, abs=1e-9)


def test_infinite_capacity_takes_no_time_and_limits_nobody():
    _, end, _ = replay([np.inf, 10], [("A", 1e15), ("AB", 100), ("A", 5, 1)])
    assert end == pytest.approx([0, 10, 1], abs=1e-12)


def test_dark_link_ends_in_stuck():
    build = GraphBuilder(n_ranks=2)
    build.transfer(source=0, destination=1, size_bytes=1)
    routes = Routes(of_task=np.array([0]), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[0.0]).run()
    assert result.status == "stuck"
    assert np.isnan(result.end_s).all()


def test_bytes_per_link_and_bin():
    # One flow of 100 bytes at 10/s over A and B, then nothing: every bin of the first 10 s holds rate x width.
    build = GraphBuilder(n_ranks=2)
    first = build.transfer(source=0, destination=1, size_bytes=100)
    pause = build.delay(rank=0, seconds=10)
    second = build.transfer(source=0, destination=1, size_bytes=100)
    build.edge(first, pause)
    build.edge(pause, second)
    routes = Routes(
        of_task=np.array([0, -1, 1]), ptr=np.array([0, 2, 3]), link=np.array([0, 1, 1]), latency_s=np.zeros(2)
    )
    result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10, 10, 10], bins=64).run()
    assert result.link_bytes.tolist() == pytest.approx([100, 200, 0], rel=1e-12)
    assert result.bin_link.tolist() == [0, 1]
    assert result.bin_bytes.sum(axis=1) == pytest.approx([100, 200], rel=1e-12)
    edges = np.arange(65) * result.bin_s
    busy = np.clip(np.minimum(edges[1:], 10) - np.minimum(edges[:-1], 10), 0, None)
    assert result.bin_bytes[0] == pytest.approx(10 * busy, abs=1e-9)
