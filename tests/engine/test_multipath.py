"""Transfers over several paths: by hand, against rational arithmetic, and against what linear programming allows."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from netsim.core.errors import InputError
from netsim.engine import (
    CapacityChanges,
    Control,
    PathSets,
    Routes,
    Simulation,
    critical_path,
    on_failure,
    spray,
    sub_flows,
)
from netsim.testing import exact_rates, exact_simulation
from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_END, AFTER_START, GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
LETTERS = "ABCDEFGH"


def sets_of(transfers, share=None, weight=None, latency=None):
    """transfers: for each task the list of its paths as letters or links; None: no path."""
    paths = [p for t in transfers if t for p in t]
    size = [len(t) for t in transfers if t]
    of_task, n = [], 0
    for t in transfers:
        of_task.append(n if t else -1)
        n += bool(t)
    return PathSets(
        of_task=np.array(of_task, np.int32),
        set_ptr=np.cumsum([0, *size]),
        ptr=np.cumsum([0, *(len(p) for p in paths)]),
        link=np.array([LETTERS.index(x) if isinstance(x, str) else x for p in paths for x in p], np.int32),
        latency_s=np.zeros(len(paths)) if latency is None else np.array(latency, float),
        share=None if share is None else np.array(share, float),
        weight=None if weight is None else np.array(weight, float),
    )


def sends(*sizes):
    build = GraphBuilder(n_ranks=2)
    for size in sizes:
        build.transfer(source=0, destination=1, size_bytes=size)
    return build


def simulation(multi, capacity, **more):
    return Simulation(
        graph=multi.graph,
        routes=multi.routes,
        capacity_bytes_per_s=capacity,
        weight=multi.weight,
        certify=True,
        **more,
    )


def first_rates(multi, capacity):
    """Rates of the original transfers at time 0."""
    run = simulation(multi, capacity)
    run.step(0)
    a = run.allocation()
    return np.bincount(multi.origin[a.task], weights=a.rate_bytes_per_s, minlength=multi.n_tasks).tolist()


def test_two_paths_as_sub_flows_and_coupled():
    # A = B = 10; f1 may use both, f2 only A.
    graph, paths = sends(1000, 1000).graph(), [["A", "B"], ["A"]]
    assert first_rates(sub_flows(graph, sets_of(paths)), [10, 10]) == pytest.approx([15, 5], rel=1e-12)
    # Sprayed in halves: 1/2 r1 + r2 = 10 on A with r1 = r2.
    assert first_rates(spray(graph, sets_of(paths)), [10, 10]) == pytest.approx([20 / 3, 20 / 3], rel=1e-12)
    # The best coupled allocation is 10 and 10; spraying comes near as the share on A goes to 0: s r + r = 10.
    for share in (0.1, 1e-3, 1e-9):
        near = spray(graph, sets_of(paths, share=[share, 1 - share, 1]))
        assert first_rates(near, [10, 10]) == pytest.approx([10 / (1 + share)] * 2, rel=1e-12)


def test_weights_of_sub_flows():
    # On A the sub-flow of weight 1/2 x 2 meets one of weight 3: 10/4 and 30/4; B is its own.
    graph = sends(1000, 1000).graph()
    multi = sub_flows(graph, sets_of([["A", "B"], ["A"]], weight=[0.5, 0.5, 1]), weight=[2, 3])
    assert first_rates(multi, [10, 10]) == pytest.approx([12.5, 7.5], rel=1e-12)


def test_two_paths_over_one_link_get_two_shares_as_sub_flows_and_one_when_sprayed():
    graph = sends(1000, 1000).graph()
    paths = [["AB", "AC"], ["A"]]
    assert first_rates(sub_flows(graph, sets_of(paths)), [30, 100, 100]) == pytest.approx([20, 10], rel=1e-12)
    assert first_rates(spray(graph, sets_of(paths)), [30, 100, 100]) == pytest.approx([15, 15], rel=1e-12)


def test_parking_lot_with_a_way_around():
    # f0: 75 bytes over ABC, 25 over D. On A 5 and 5 with f1 (50 bytes) until 10; 25 left at 10: 12.5. B and C have f2, f3 at 5 each.
    multi = sub_flows(
        sends(100, 50, 50, 50).graph(), sets_of([["ABC", "D"], ["A"], ["B"], ["C"]], share=[3, 1, 1, 1, 1])
    )
    result = multi.fold(simulation(multi, [10] * 4).run())
    assert result.end_s == pytest.approx([12.5, 10, 10, 10], rel=1e-12)
    assert result.link_bytes == pytest.approx([125, 125, 125, 25], rel=1e-12)
    # Sprayed in halves: 1/2 r0 + r = 10 with r0 = r on each of A, B, C: 20/3; the others end at 7.5 with 50; f0 has 50 left, 20/s.
    multi = spray(sends(100, 50, 50, 50).graph(), sets_of([["ABC", "D"], ["A"], ["B"], ["C"]]))
    result = multi.fold(simulation(multi, [10] * 4).run())
    assert result.end_s == pytest.approx([10, 7.5, 7.5, 7.5], rel=1e-12)
    assert result.link_bytes == pytest.approx([100, 100, 100, 50], rel=1e-12)


def test_moments_of_a_split_transfer():
    # 40 bytes over A (10/s, latency 5) and 10 over B (5/s, latency 1): drains 4 and 2, ends 9 and 3.
    build = sends(50)
    waits = [build.delay(rank=1, seconds=1.0) for _ in range(3)]
    for task, after in zip(waits, (AFTER_START, AFTER_DRAIN, AFTER_END)):
        build.edge(0, task, after)
    last = build.transfer(source=1, destination=0, size_bytes=10)
    build.edge(waits[2], last)
    sets = sets_of([["A", "B"], None, None, None, ["A", "B"]], share=[4, 1, 1, 1], latency=[5, 1, 0, 0])
    multi = sub_flows(build.graph(), sets)
    run = simulation(multi, [10, 5])
    result = multi.fold(run.run())
    assert (result.start_s[0], result.drain_s[0], result.end_s[0]) == (0, 4, 9)
    # The last: halves of 5 bytes at 10 and 5 bytes/s from 10 on.
    assert result.end_s[1:] == pytest.approx([1, 5, 10, 11], rel=1e-12)
    assert critical_path(result).tolist() == [0, 3, 4]
    assert multi.spread([7, 1, 2, 3, 4]).tolist() == [7, 1, 2, 3, 4, 7, 4, 7, 7]
    # Sprayed: 4/5 on A, 1/5 on B: min(10/0.8, 5/0.2) = 12.5; the last byte comes by the slow path.
    multi = spray(build.graph(), sets)
    result = multi.fold(simulation(multi, [10, 5]).run())
    assert (result.drain_s[0], result.end_s[0]) == pytest.approx((4, 9), rel=1e-12)


def test_a_split_transfer_fails_with_its_first_part():
    multi = sub_flows(sends(100).graph(), sets_of([["A", "B"]]))
    dies = CapacityChanges(time_s=np.array([2.0]), link=np.array([1]), capacity_bytes_per_s=np.array([0.0]))
    run = simulation(multi, [10, 10], changes=dies)
    result = multi.fold(run.run(controller=on_failure("fail")))
    assert result.status == "failed"
    assert np.isnan(result.end_s).all()
    assert (result.failed.tolist(), result.failed_s.tolist(), result.unsent_bytes.tolist()) == ([0], [2.0], [30.0])


@st.composite
def cases(draw):
    n_links = draw(st.integers(1, 4))
    capacity = draw(st.lists(st.integers(1, 12), min_size=n_links, max_size=n_links))
    a_path = st.lists(st.integers(0, n_links - 1), min_size=1, max_size=3, unique=True)
    tasks = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 2, 6, 12]),
                st.one_of(st.none(), st.lists(st.tuples(a_path, st.integers(1, 3)), min_size=1, max_size=3)),
            ),
            min_size=1,
            max_size=5,
        )
    )
    edges = [
        (j, i, draw(st.integers(0, 2))) for i in range(len(tasks)) for j in range(i) if draw(st.integers(0, 2)) == 0
    ]
    return capacity, tasks, edges


@given(cases())
@settings(max_examples=200 if JIT else 10)
def test_sub_flows_equal_parts_joined_by_hand_in_exact_fractions(case):
    capacity, tasks, edges = case
    # The oracle: every part of a task waits for every part of what it waits for.
    build, parts, paths = GraphBuilder(n_ranks=1), [], []
    whole = GraphBuilder(n_ranks=1)
    for amount, ways in tasks:
        if ways is None:
            parts.append([build.delay(rank=0, seconds=amount)])
            paths.append([])
            whole.delay(rank=0, seconds=amount)
            continue
        total = sum(share for _, share in ways)
        parts.append([build.transfer(source=0, destination=0, size_bytes=60 * amount * s / total) for _, s in ways])
        paths += [way for way, _ in ways]
        whole.transfer(source=0, destination=0, size_bytes=60 * amount)
    for j, i, after in edges:
        whole.edge(j, i, after)
        for a in parts[j]:
            for b in parts[i]:
                build.edge(a, b, after)
    expected = exact_simulation(graph=build.graph(), paths=paths, capacity=[60 * c for c in capacity])
    sets = sets_of(
        [None if ways is None else [way for way, _ in ways] for _, ways in tasks],
        share=[s for _, ways in tasks if ways for _, s in ways],
    )
    multi = sub_flows(whole.graph(), sets)
    result = multi.fold(simulation(multi, [60.0 * c for c in capacity]).run())
    assert result.start_s == pytest.approx(
        [float(max(expected.start_s[p] for p in t)) for t in parts], rel=1e-9, abs=1e-12
    )
    assert result.drain_s == pytest.approx(
        [float(max(expected.drain_s[p] for p in t)) for t in parts], rel=1e-9, abs=1e-12
    )
    assert result.end_s == pytest.approx([float(max(expected.end_s[p] for p in t)) for t in parts], rel=1e-9, abs=1e-12)


@given(cases())
@settings(max_examples=200 if JIT else 10)
def test_sprayed_rates_equal_exact_fractions(case):
    capacity, tasks, _ = case
    tasks = [(amount, ways) for amount, ways in tasks if ways]
    if not tasks:
        return
    paths, use = [], []
    for _, ways in tasks:
        total = sum(share for _, share in ways)
        paths.append([x for way, _ in ways for x in way])
        use.append([Fraction(share, total) for way, share in ways for _ in way])
    expected = exact_rates(capacity=capacity, paths=paths, use=use)
    sets = sets_of([[w for w, _ in ways] for _, ways in tasks], share=[s for _, ways in tasks for _, s in ways])
    multi = spray(sends(*[1e6] * len(tasks)).graph(), sets)
    assert first_rates(multi, capacity) == pytest.approx([float(x) for x in expected], rel=1e-12)


def most_concurrent(capacity, demand, sets):
    """Largest t such that t x demand of every transfer fits over its paths, and the flow on each path: a linear program."""
    n = sets.ptr.size - 1
    flow = np.repeat(np.arange(sets.set_ptr.size - 1), np.diff(sets.set_ptr))
    load = np.zeros((len(capacity), n + 1))
    np.add.at(load, (sets.link, np.repeat(np.arange(n), np.diff(sets.ptr))), 1.0)
    served = np.zeros((len(demand), n + 1))
    served[flow, np.arange(n)] = 1.0
    served[:, n] = -np.asarray(demand)
    goal = np.zeros(n + 1)
    goal[n] = -1.0
    best = linprog(goal, A_ub=load, b_ub=capacity, A_eq=served, b_eq=np.zeros(len(demand)))
    return best.x[n], best.x[:n]


@pytest.mark.parametrize("seed", range(12))
def test_no_split_beats_the_linear_program_and_its_own_split_reaches_it(seed):
    rng = np.random.default_rng(seed)
    n, n_links = 6, 8
    capacity = rng.uniform(5, 20, n_links)
    transfers = [
        [rng.choice(n_links, rng.integers(1, 4), replace=False).tolist() for _ in range(rng.integers(1, 4))]
        for _ in range(n)
    ]
    sets = sets_of(transfers)
    size = rng.uniform(50, 500, n)
    most, on_path = most_concurrent(capacity, size, sets)
    graph = sends(*size).graph()
    for share in (None, rng.uniform(0.1, 1, sets.ptr.size - 1)):
        tried = sets_of(transfers, share=share)
        for multi in (sub_flows(graph, tried), spray(graph, tried)):
            result = multi.fold(simulation(multi, capacity).run())
            assert result.end_s.max() >= (1 - 1e-9) / most
    # The split of the linear program, in proportion to sizes, sprayed: all end exactly when the bound says, or before.
    best = sets_of(transfers, share=np.maximum(on_path, 1e-12))
    multi = spray(graph, best, weight=size)
    result = multi.fold(simulation(multi, capacity).run())
    assert result.end_s.max() == pytest.approx(1 / most, rel=1e-6)


def test_one_path_each_is_the_plain_engine():
    graph = sends(100, 200).graph()
    routes = Routes(of_task=np.array([0, 1]), ptr=np.array([0, 1, 2]), link=np.array([0, 0]), latency_s=np.zeros(2))
    plain = Simulation(graph=graph, routes=routes.shared(), capacity_bytes_per_s=[30]).run()
    multi = sub_flows(graph, sets_of([["A"], ["A"]]))
    assert multi.fold(simulation(multi, [30]).run()).end_s.tobytes() == plain.end_s.tobytes()


def test_a_task_that_never_starts_stays_so():
    build = sends(10, 10)
    build.edge(0, 0)
    multi = sub_flows(build.graph(), sets_of([["A", "B"], ["A"]]))
    result = multi.fold(simulation(multi, [10, 10]).run())
    assert result.status == "stuck"
    assert result.end_s == pytest.approx([np.nan, 1], nan_ok=True)


def test_a_controller_works_on_parts():
    multi = sub_flows(sends(100).graph(), sets_of([["A", "B"]]))
    seen = []
    watch = Control(act=lambda view: seen.append(np.sort(view.transfers.task).tolist()), times_s=[1.0, 6.0])
    simulation(multi, [10, 5]).run(controller=watch)
    assert seen == [[0, 1], [1]]


BAD = {
    "set": ({"of_task": np.array([3])}, "path sets: must be -1 or one of 1 sets, got 3"),
    "empty set": (
        {"set_ptr": np.array([0, 0, 2])},
        "path sets: must each have one or more of the 2 paths, all of them in order",
    ),
    "empty path": (
        {"ptr": np.array([0, 0, 2])},
        "path sets: paths must have one link or more, ptr from 0 to the number of hops",
    ),
    "share": ({"share": np.array([1.0, 0.0])}, "path sets: need one finite share above 0 per path"),
    "weight": ({"weight": np.array([1.0])}, "path sets: need one finite weight above 0 per path"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_sets_get_one_line(case):
    change, message = BAD[case]
    good = {
        "of_task": np.array([0]), "set_ptr": np.array([0, 2]), "ptr": np.array([0, 1, 2]), "link": np.array([0, 1]),
        "latency_s": np.zeros(2),
    }  # fmt: skip
    with pytest.raises(InputError) as error:
        PathSets(**{**good, **change})
    assert str(error.value) == message


def test_sets_must_fit_the_graph():
    build = sends(1)
    build.delay(rank=0, seconds=1)
    with pytest.raises(InputError, match=r"^path sets: must name a set for each of 2 tasks, got shape \(1,\)$"):
        sub_flows(build.graph(), sets_of([["A"]]))
    with pytest.raises(InputError, match=r"^task 1: a delay has no paths$"):
        spray(build.graph(), sets_of([["A"], ["B"]]))
