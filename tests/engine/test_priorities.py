"""Two strict classes: by hand, and against rational arithmetic that solves one class after the other."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim as ns
from netsim.core.errors import InputError
from netsim.engine import CapacityChanges, Routes, Simulation, run_flows
from netsim.testing import exact_simulation
from netsim.traffic.taskgraph import GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def flows(capacity, rows, **more):
    """rows: (links, size, start, priority); returns finish times."""
    return run_flows(
        capacity_bytes_per_s=capacity,
        ptr=np.cumsum([0, *(len(r[0]) for r in rows)]),
        link=[x for r in rows for x in r[0]],
        size_bytes=[r[1] for r in rows],
        start_s=[r[2] for r in rows],
        priority=[r[3] for r in rows],
        **more,
    ).tolist()


def test_low_waits_for_high_and_goes_on():
    # Low alone for 2 s at 10: 20 bytes; high 2..7; low has 80 left: 15.
    assert flows([10], [([0], 100, 0, 1), ([0], 50, 2, 0)]) == pytest.approx([15, 7], rel=1e-12)


def test_low_uses_what_a_capped_high_leaves():
    # High is capped at 4 until t=10; two low ones share 6: 3 each, 30 bytes by then; 20 left each at 5: 14.
    end = flows([10], [([0], 40, 0, 0), ([0], 50, 0, 1), ([0], 50, 0, 1)], rate_cap_bytes_per_s=[4, np.inf, np.inf])
    assert end == pytest.approx([10, 14, 14], rel=1e-12)


def test_low_uses_the_link_on_which_high_is_held_up_elsewhere():
    # High over A=4 and B=10 gets 4; low on B gets 6, low on A nothing until the high one ends at 10.
    end = flows([4, 10], [([0, 1], 40, 0, 0), ([1], 30, 0, 1), ([0], 8, 0, 1)])
    assert end == pytest.approx([10, 5, 12], rel=1e-12)


def test_within_the_low_class_sharing_is_max_min():
    # Left on A 10, on B 20-5=15: parking lot in the low class: f0 over both 5, f1 on A 5, f2 on B 10.
    build = GraphBuilder(n_ranks=1)
    for _ in range(4):
        build.transfer(source=0, destination=0, size_bytes=1000)
    simulation = Simulation(
        graph=build.graph(),
        routes=Routes(
            of_task=np.array([0, 1, 2, 2]),
            ptr=np.array([0, 2, 3, 4]),
            link=np.array([0, 1, 0, 1]),
            latency_s=np.zeros(3),
        ),
        capacity_bytes_per_s=[10, 20],
        rate_cap_bytes_per_s=[np.inf, np.inf, np.inf, 5],
        priority=[1, 1, 1, 0],
        certify=True,
    )
    simulation.step(0)
    a = simulation.allocation()
    assert a.rate_bytes_per_s[np.argsort(a.task)] == pytest.approx([5, 5, 10, 5], rel=1e-12)
    # The links of the low class stand after those of the network.
    assert a.capacity_bytes_per_s[:4].tolist() == [10, 20, 10, 15]


def test_capacity_changes_reach_the_low_class_also_where_no_high_transfer_is():
    build = GraphBuilder(n_ranks=1)
    build.transfer(source=0, destination=0, size_bytes=100)
    build.transfer(source=0, destination=0, size_bytes=10)
    result = Simulation(
        graph=build.graph(),
        routes=Routes(of_task=np.array([0, 1]), ptr=np.array([0, 1, 2]), link=np.array([0, 1]), latency_s=np.zeros(2)),
        capacity_bytes_per_s=[10, 10],
        priority=[1, 0],
        changes=CapacityChanges(
            time_s=np.array([3.0, 5.0]), link=np.array([0, 0], np.int32), capacity_bytes_per_s=np.array([0.0, 5.0])
        ),
        certify=True,
    ).run()
    # 30 bytes, dark for 2 s, 70 at 5.
    assert result.end_s == pytest.approx([19, 1], rel=1e-12)


@pytest.mark.parametrize("n", [3, 7, 49, 1000])
def test_low_stands_still_while_thirds_and_sevenths_fill_the_link(n):
    # n shares of capacity/n add up to the capacity but for rounding; the low flow must not crawl on the difference.
    capacity = 12.5e9 / 3
    build = GraphBuilder(n_ranks=1)
    # All on routes of their own: one shared slot would sum nothing.
    for i in range(n):
        build.transfer(source=0, destination=0, size_bytes=1e9 * (1 + i % 2))
    low = build.transfer(source=0, destination=0, size_bytes=1.0)
    build.transfer(source=0, destination=0, size_bytes=1.0)
    simulation = Simulation(
        graph=build.graph(),
        routes=Routes(
            of_task=np.arange(n + 2), ptr=np.arange(n + 3), link=np.zeros(n + 2, int), latency_s=np.zeros(n + 2)
        ),
        capacity_bytes_per_s=[capacity],
        weight=np.where(np.arange(n + 2) % 3 == 0, 1.0, 1 / 7),
        priority=[0] * n + [1, 0],
        certify=True,
    )
    status, seen = "running", 0
    while status == "running":
        status = simulation.step(1)
        a = simulation.allocation()
        mine = a.rate_bytes_per_s[a.task == low]
        if mine.size and a.task.size > 1:
            seen += 1
            assert mine.tolist() == [0.0]
    assert seen > 1
    result = simulation.result(status)
    total = build.graph().amount.sum()
    # Work-conserving: the last byte leaves when all bytes have crossed at full speed, and it is the low one's.
    assert result.end_s[low] == pytest.approx(total / capacity, rel=1e-9)
    assert result.end_s.max() == result.end_s[low]


@st.composite
def cases(draw):
    n_links = draw(st.integers(1, 4))
    capacity = draw(st.lists(st.integers(1, 12), min_size=n_links, max_size=n_links))
    build = GraphBuilder(n_ranks=1)
    paths, priority = [], []
    for i in range(draw(st.integers(1, 9))):
        size = draw(st.sampled_from([0, 1, 2, 3, 6, 10, 12]))
        if draw(st.integers(0, 4)) == 0:
            build.delay(rank=0, seconds=size)
            paths.append([])
        else:
            build.transfer(source=0, destination=0, size_bytes=size)
            paths.append(draw(st.lists(st.integers(0, n_links - 1), min_size=1, max_size=3, unique=True)))
        priority.append(draw(st.integers(0, 1)))
        for j in range(i):
            if draw(st.integers(0, 3)) == 0:
                build.edge(j, i, draw(st.integers(0, 2)))
    n = len(paths)
    weight = draw(st.one_of(st.none(), st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    cap = draw(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=n, max_size=n)))
    changes = sorted(
        draw(
            st.lists(
                st.tuples(st.integers(0, 12), st.integers(0, n_links - 1), st.sampled_from([0, 1, 3, 8])), max_size=3
            )
        ),
        key=lambda c: c[0],
    )
    return build.graph(), paths, capacity, priority, weight, cap, changes


@given(cases(), st.booleans(), st.booleans())
@settings(max_examples=300 if JIT else 10)
def test_a_whole_run_equals_one_class_solved_after_the_other(case, full, shared):
    graph, paths, capacity, priority, weight, cap, changes = case
    moments = []
    expected = exact_simulation(
        graph=graph, paths=paths, capacity=capacity, priority=priority, weight=weight, cap=cap, changes=changes,
        on_rates=lambda now, tasks, rates: moments.append((now, dict(zip(tasks, rates)))),
    )  # fmt: skip
    routed = [i for i, p in enumerate(paths) if p]
    of_task = np.full(len(paths), -1)
    of_task[routed] = np.arange(len(routed))
    routes = Routes(
        of_task=of_task,
        ptr=np.cumsum([0, *(len(paths[i]) for i in routed)]),
        link=np.array([x for i in routed for x in paths[i]], dtype=int),
        latency_s=np.zeros(len(routed)),
    )
    simulation = Simulation(
        graph=graph,
        routes=routes.shared() if shared else routes,
        capacity_bytes_per_s=capacity,
        weight=weight,
        rate_cap_bytes_per_s=None if cap is None else [np.inf if c is None else c for c in cap],
        priority=np.array(priority, np.uint8),
        changes=CapacityChanges(
            time_s=np.array([c[0] for c in changes], float),
            link=np.array([c[1] for c in changes], np.int32),
            capacity_bytes_per_s=np.array([c[2] for c in changes], float),
        ),
        bins=8,
        full_solve=full,
        certify=True,
    )
    status = "running"
    while status == "running":
        status = simulation.step(1)
        a = simulation.allocation()
        rates = [
            r for now, r in moments if abs(float(now) - simulation.now_s) <= 1e-9 and r.keys() == set(a.task.tolist())
        ]
        assert rates or not a.task.size
        for task, rate in zip(a.task.tolist(), a.rate_bytes_per_s):
            assert any(float(r[task]) == pytest.approx(rate, rel=1e-9) for r in rates)
            # Exactly nothing where the oracle says nothing.
            assert any((r[task] == 0) == (rate == 0) for r in rates)
    result = simulation.result(status)
    for name in ("start_s", "drain_s", "end_s"):
        want = [np.nan if x is None else float(x) for x in getattr(expected, name)]
        assert getattr(result, name) == pytest.approx(want, rel=1e-9, abs=1e-12, nan_ok=True)
    assert (status == "finished") == all(x is not None for x in expected.end_s)
    if status == "finished":
        # Bytes per link and bin are those of both classes together.
        sent = np.zeros(len(capacity))
        for i in routed:
            sent[paths[i]] += float(graph.amount[i])
        assert result.link_bytes == pytest.approx(sent, rel=1e-9, abs=1e-9)
        assert result.bin_bytes.sum(axis=1) == pytest.approx(sent[result.bin_link], rel=1e-9, abs=1e-9)


def test_one_class_is_one_class_whatever_its_number():
    rng = np.random.default_rng(3)
    n = 200 if JIT else 20
    case = {
        "capacity_bytes_per_s": rng.choice([5.0, 10.0], 10), "ptr": np.arange(0, 2 * n + 1, 2),
        "link": rng.integers(0, 10, 2 * n), "start_s": rng.uniform(0, 10, n), "size_bytes": rng.lognormal(1, 1, n),
    }  # fmt: skip
    alone = run_flows(**case)
    assert run_flows(**case, priority=np.zeros(n, np.uint8)).tobytes() == alone.tobytes()
    assert run_flows(**case, priority=np.ones(n)) == pytest.approx(alone, rel=1e-9)
    # High transfers do not notice low ones.
    high = rng.random(n) < 0.5
    both = run_flows(**case, priority=~high)
    ptr = np.arange(0, 2 * high.sum() + 1, 2)
    only = {**case, "ptr": ptr, "link": case["link"][np.repeat(high, 2)]}
    only |= {name: case[name][high] for name in ("start_s", "size_bytes")}
    assert both[high] == pytest.approx(run_flows(**only), rel=1e-9)


def test_priorities_through_the_front_door():
    # Two messages into one host at 12.5e9 B/s: alone 1 ms each; the low one ends second although it was first in line.
    build = GraphBuilder(n_ranks=3)
    for source in (0, 1):
        build.transfer(source=source, destination=2, size_bytes=12.5e6)
    star = ns.topologies.star(n=3, latency=0.0)
    result = ns.simulate(build.graph(), topology=star, priority=[1, 0], certify=True)
    assert result.tables["flows"].column("end_ns").to_pylist() == [2_000_000, 1_000_000]
    # The bytes of both are on the link into the host, and utilisation is 1 there from start to end.
    links = result.tables["links"]
    into = np.bincount(links.column("link"), weights=links.column("bytes"))
    assert sorted(into[into > 0].tolist()) == pytest.approx([12.5e6, 12.5e6, 25e6], rel=1e-12)


def test_priorities_are_checked():
    case = {"capacity_bytes_per_s": [1], "ptr": [0, 1], "link": [0], "start_s": [0], "size_bytes": [1]}
    with pytest.raises(InputError, match=r"^flow 0: priority must be 0 \(high\) or 1 \(low\), got 2"):
        run_flows(**case, priority=[2])
    build = GraphBuilder(n_ranks=1)
    build.transfer(source=0, destination=0, size_bytes=1)
    routes = Routes(of_task=np.array([0]), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    with pytest.raises(InputError, match=r"^priority: must have one value per task \(1\), got shape \(2,\)"):
        Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[1], priority=[0, 1])
