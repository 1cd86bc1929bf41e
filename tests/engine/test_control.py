"""Controllers and failure policies: by hand, and against rational arithmetic that carries out the same orders."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim as ns
from netsim.core.errors import InputError
from netsim.engine import Actions, CapacityChanges, Control, Routes, Simulation, on_failure
from netsim.routing import Paths, path_latency, paths, paths_around
from netsim.testing import certificate, exact_simulation
from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_START, GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def to(*rows):
    """Routes of these lists of links, one per transfer."""
    return Routes(
        of_task=np.arange(len(rows), dtype=np.int32),
        ptr=np.cumsum([0, *(len(r) for r in rows)]),
        link=np.array([x for r in rows for x in r], dtype=np.int32),
        latency_s=np.zeros(len(rows)),
    )


def sends(*sizes, ends=None):
    build = GraphBuilder(n_ranks=4)
    for i, size in enumerate(sizes):
        source, destination = ends[i] if ends else (0, 1)
        build.transfer(source=source, destination=destination, size_bytes=size)
    return build


def simulation(build, routes, capacity, **more):
    return Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=capacity, certify=True, **more)


def changes(*rows):
    return CapacityChanges(
        time_s=np.array([r[0] for r in rows], float),
        link=np.array([r[1] for r in rows], np.int32),
        capacity_bytes_per_s=np.array([r[2] for r in rows], float),
    )


# ---------------------------------------------------------------- what a controller sees


def test_the_view_shows_rates_remaining_bytes_routes_and_use():
    seen = []

    def look(view):
        t = view.transfers
        order = np.argsort(t.task)
        seen.append(
            (
                view.now_s,
                t.task[order].tolist(),
                t.rate_bytes_per_s[order].tolist(),
                t.remaining_bytes[order].tolist(),
                view.used_bytes_per_s.tolist(),
                view.carried_bytes.tolist(),
                [view.path(i).tolist() for i in t.task[order]],
            )
        )

    # Parking lot on 10 and 20: rates 5, 5, 15 until the third ends at 20/3; all else ends at 20.
    run = simulation(sends(100, 100, 100), to([0, 1], [0], [1]), [10, 20])
    result = run.run(controller=Control(act=look, period_s=4.0, times_s=[10.0]))
    assert [s[0] for s in seen] == [0, 4, 8, 10, 12, 16]
    assert seen[0][1:5] == ([0, 1, 2], [5, 5, 15], [100, 100, 100], [10, 20])
    assert seen[1][1:] == ([0, 1, 2], [5, 5, 15], [80, 80, 40], [10, 20], [40, 80], [[0, 1], [0], [1]])
    assert seen[3][1:5] == ([0, 1], [5, 5], [50, 50], [10, 5])
    assert result.end_s == pytest.approx([20, 20, 20 / 3], rel=1e-12)


def random_case(seed, n=300):
    n = n if JIT else n // 10
    rng = np.random.default_rng(seed)
    build = GraphBuilder(n_ranks=1)
    rows = []
    for start, size in zip(rng.exponential(0.3, n).cumsum(), rng.lognormal(2, 1.5, n)):
        wait = build.delay(rank=0, seconds=start)
        build.edge(wait, build.transfer(source=0, destination=0, size_bytes=size))
        rows.append(rng.choice(20, size=rng.integers(1, 6), replace=False).tolist())
    of_task = np.full(2 * n, -1)
    of_task[1::2] = np.arange(n)
    routes = to(*rows)
    return {
        "graph": build.graph(),
        "routes": Routes(of_task=of_task, ptr=routes.ptr, link=routes.link, latency_s=routes.latency_s),
        "capacity_bytes_per_s": rng.choice([5.0, 10.0, 40.0], 20),
    }


def test_a_controller_that_only_watches_changes_no_byte():
    case = random_case(1)
    alone = Simulation(**case).run()
    asked = []
    watched = Simulation(**case).run(
        controller=[
            Control(act=lambda view: asked.append(view.transfers.rate_bytes_per_s.sum()), period_s=1.7),
            Control(act=lambda view: Actions(), times_s=[0.0, 5.0, 11.3]),
        ]
    )
    assert len(asked) > 10
    assert watched.end_s.tobytes() == alone.end_s.tobytes()
    assert watched.link_bytes == pytest.approx(alone.link_bytes, rel=1e-12)
    assert {**watched.counts, "solves": 0} == {**alone.counts, "solves": 0}


# ---------------------------------------------------------------- what it may order


def test_a_controller_switches_a_circuit_like_a_scheduled_change():
    def switch(view):
        return Actions(set_link=[0], set_capacity_bytes_per_s=[0.0 if view.now_s == 3 else 10.0])

    result = simulation(sends(50), to([0]), [10]).run(controller=Control(act=switch, times_s=[5.0, 3.0]))
    assert result.end_s.tolist() == [7.0]


def test_a_periodic_controller_wakes_a_run_that_could_not_go_on():
    def light(view):
        return Actions(set_link=[0], set_capacity_bytes_per_s=[10.0]) if view.now_s >= 6 else None

    run = simulation(sends(50), to([0]), [0.0])
    result = run.run(controller=Control(act=light, period_s=1.5))
    assert (result.status, result.end_s.tolist()) == ("finished", [11.0])
    # One that never acts does not go on for ever.
    asked = []
    run = simulation(sends(50), to([0]), [0.0])
    result = run.run(controller=Control(act=lambda view: asked.append(view.now_s), period_s=1.5, idle_epochs=20))
    assert result.status == "stuck"
    assert 20 <= len(asked) <= 22


def test_one_of_many_on_a_route_leaves_and_keeps_what_it_has():
    # Three share link 0 of 30: 10 each. At 2: 20 sent each; the second goes to link 1 (5/s): 80 left, 16 s.
    # The others have 15 each: first 80/15; third 180 left, 80 by then, 100 at 30.
    routes = Routes(of_task=np.zeros(3, int), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    move = Control(times_s=[2.0], act=lambda view: Actions(reroute_task=[1], routes=to([1])))
    result = simulation(sends(100, 100, 200), routes, [30, 5]).run(controller=move)
    assert result.end_s == pytest.approx([2 + 80 / 15, 18, 2 + 80 / 15 + 100 / 30], rel=1e-12)
    assert result.link_bytes == pytest.approx([320, 80], rel=1e-12)


def test_rerouted_onto_the_route_of_others_it_shares_with_them():
    # Both links 10. At 5: 50 left each on links 0 and 1; then both on link 1: 5 each until 15.
    move = Control(times_s=[5.0], act=lambda view: Actions(reroute_task=[0], routes=to([1])))
    result = simulation(sends(100, 100), to([0], [1]), [10, 10]).run(controller=move)
    assert result.end_s == pytest.approx([15, 15], rel=1e-12)


def test_a_route_longer_than_any_before():
    move = Control(times_s=[1.0], act=lambda view: Actions(reroute_task=[0], routes=to(list(range(1, 12)))))
    run = simulation(
        sends(100, 100, 100, 100), to([0], [0], [1], [2]), [10.0] * 12, rate_cap_bytes_per_s=[np.inf, np.inf, 8, np.inf]
    )
    result = run.run(controller=move)
    # 5 sent at t=1; then it crosses links 1 and 2: 5 on link 2 (shared), the third gets 5 on link 1. 95 bytes at 5: 20.
    # f1 95 at 10 from 1: 10.5. f2: 8 by 1, then 5 until 19.4. f3: 10 by 1, then 5 until 19.
    # At 19 f0 has 5 left and f2 2 (shared link 1): 5 each until 19.4, then f0 3 at 10: 19.7.
    assert result.end_s == pytest.approx([19.7, 10.5, 19.4, 19.0], rel=1e-12)


def test_transfers_not_started_take_the_new_route():
    build = sends(10, 10)
    build.edge(0, 1)
    move = Control(times_s=[0.5], act=lambda view: Actions(reroute_task=[1], routes=to([1])))
    assert simulation(build, to([0], [0]), [10, 2]).run(controller=move).end_s.tolist() == [1.0, 6.0]


@pytest.mark.parametrize("started", [True, False])
def test_failed_transfers(started):
    build = sends(100, 10, 60)
    after_end, after_drain, after_start = (build.delay(rank=1, seconds=1.0) for _ in range(3))
    build.edge(0, after_end)
    build.edge(0, after_drain, AFTER_DRAIN)
    build.edge(0, after_start, AFTER_START)
    build.edge(after_end, build.delay(rank=1, seconds=1.0))
    if not started:
        build.edge(1, 0)
    routes = to([0], [1], [0])
    routes = Routes(
        of_task=np.array([0, 1, 2, -1, -1, -1, -1]), ptr=routes.ptr, link=routes.link, latency_s=routes.latency_s
    )
    stop = Control(times_s=[4.0], act=lambda view: Actions(fail_task=[0]))
    result = simulation(build, routes, [10, 1]).run(controller=stop)
    assert result.status == "failed"
    assert result.failed.tolist() == [0]
    nan = np.nan
    if started:
        # 5 each on link 0 until 4: 20 sent; then f2 has 40 left at 10.
        assert (result.failed_s.tolist(), result.unsent_bytes.tolist()) == ([4.0], [80.0])
        assert result.end_s == pytest.approx([nan, 10, 8, nan, nan, 1, nan], rel=1e-12, nan_ok=True)
        assert result.link_bytes == pytest.approx([80, 10], rel=1e-12)
    else:
        # It fails when it starts, at 10.
        assert (result.failed_s.tolist(), result.unsent_bytes.tolist()) == ([10.0], [100.0])
        assert result.start_s[0] == 10
        assert result.end_s == pytest.approx([nan, 10, 6, nan, nan, 11, nan], rel=1e-12, nan_ok=True)


def test_stuck_beats_failed_where_something_else_waits_for_ever():
    stop = Control(times_s=[1.0], act=lambda view: Actions(fail_task=[0]))
    run = simulation(sends(100, 10), to([0], [1]), [10, 0])
    result = run.run(controller=stop)
    assert result.status == "stuck"
    assert run.stuck_error().report == [
        "task 0, transfer, rank 0 to 1: failed at 1 s with 90 B unsent",
        "task 1, transfer, rank 0 to 1: waits for dark link 1",
    ]


BAD = {
    "link": (Actions(set_link=[2], set_capacity_bytes_per_s=[1.0]), "controller: can set links 0..1, got 2"),
    "lengths": (Actions(set_link=[1]), "controller: needs one capacity per link that it sets, got 1, 0"),
    "capacity": (
        Actions(set_link=[1], set_capacity_bytes_per_s=[np.nan]),
        "controller: capacities must be 0 or more bytes per second, got nan",
    ),
    "task": (Actions(fail_task=[9]), "controller: tasks are 0..1, got 9"),
    "delay": (Actions(fail_task=[1]), "controller: only a transfer that crosses links can be failed, got task 1"),
    "twice": (Actions(fail_task=[0, 0]), "controller: a transfer can be failed once at a time"),
    "both": (
        Actions(fail_task=[0], reroute_task=[0], routes=to([1])),
        "controller: a transfer either takes another route or fails",
    ),
    "no routes": (Actions(reroute_task=[0]), "controller: needs routes for the transfers that it moves"),
    "too few routes": (
        Actions(reroute_task=[0], routes=to()),
        "controller: needs one route for each of 1 rerouted transfers, got shape (0,)",
    ),
    "no such link": (Actions(reroute_task=[0], routes=to([7])), "controller: routes must use links 0..1, got 7"),
    "empty route": (
        Actions(reroute_task=[0], routes=to([])),
        "controller: routes must have at least one link each, ptr from 0 to the number of hops",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_orders_get_one_line(case):
    actions, message = BAD[case]
    build = sends(100)
    build.delay(rank=0, seconds=1)
    routes = Routes(of_task=np.array([0, -1]), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    with pytest.raises(InputError) as error:
        simulation(build, routes, [1, 1]).run(controller=Control(act=lambda view: actions, times_s=[1.0]))
    assert str(error.value) == message


def test_bad_times_get_one_line():
    with pytest.raises(InputError, match=r"^control period: must be finite and above 0 seconds, got 0"):
        Control(act=lambda view: None, period_s=0)
    with pytest.raises(InputError, match=r"^control times: must be finite and 0 or more seconds, got -1"):
        Control(act=lambda view: None, times_s=[-1])


# ---------------------------------------------------------------- against exact orders


@st.composite
def cases(draw):
    n_links = draw(st.integers(1, 4))
    capacity = draw(st.lists(st.integers(1, 12), min_size=n_links, max_size=n_links))
    a_path = st.lists(st.integers(0, n_links - 1), min_size=1, max_size=n_links, unique=True)
    few = draw(st.lists(a_path, min_size=1, max_size=2))
    build = GraphBuilder(n_ranks=1)
    routes, sends = [], []
    for i in range(draw(st.integers(1, 9))):
        size = draw(st.sampled_from([0, 1, 2, 3, 6, 10, 12]))
        if draw(st.integers(0, 4)) == 0:
            build.delay(rank=0, seconds=size)
            routes.append([])
        else:
            build.transfer(source=0, destination=0, size_bytes=size)
            # Often the same routes, so that transfers share slots.
            routes.append(draw(st.one_of(st.sampled_from(few), a_path)))
            sends.append(i)
        for j in range(i):
            if draw(st.integers(0, 4)) == 0:
                build.edge(j, i, draw(st.integers(0, 2)))
    n = len(routes)
    orders, changes = [], []
    if sends:
        order = st.tuples(
            st.integers(0, 24).map(lambda x: Fraction(x, 2)),
            st.sampled_from(sends),
            st.one_of(st.none(), a_path, a_path),
        )
        orders = sorted(draw(st.lists(order, max_size=5, unique_by=lambda o: o[:2])), key=lambda o: o[0])
    change = st.tuples(st.integers(0, 12), st.integers(0, n_links - 1), st.sampled_from([0, 1, 3, 8]))
    changes = sorted(draw(st.lists(change, max_size=2)), key=lambda c: c[0])
    latency = draw(st.sampled_from([0, 0, 1]))
    return {
        "graph": build.graph(), "paths": routes, "capacity": capacity, "orders": orders, "changes": changes,
        "latency": [latency if r else 0 for r in routes],
        "priority": draw(st.one_of(st.none(), st.lists(st.integers(0, 1), min_size=n, max_size=n))),
        "weight": draw(st.one_of(st.none(), st.lists(st.integers(1, 3), min_size=n, max_size=n))),
        "cap": draw(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=n, max_size=n))),
        "head": draw(st.booleans()),
    }  # fmt: skip


@given(cases(), st.booleans(), st.booleans())
@settings(max_examples=400 if JIT else 10)
def test_orders_are_carried_out_as_in_exact_fractions(case, by_controller, full):
    expected = exact_simulation(**case)
    graph, routed = case["graph"], [i for i, p in enumerate(case["paths"]) if p]
    latency = float(max(case["latency"], default=0))
    of_task = np.full(graph.n_tasks, -1)
    of_task[routed] = np.arange(len(routed))
    base = to(*(case["paths"][i] for i in routed))
    routes = Routes(of_task=of_task, ptr=base.ptr, link=base.link, latency_s=np.full(len(routed), latency)).shared()
    times = sorted(
        {float(o[0]) for o in case["orders"]} | ({float(c[0]) for c in case["changes"]} if by_controller else set())
    )

    def act(view):
        now = [o for o in case["orders"] if float(o[0]) == view.now_s]
        moved = [o for o in now if o[2] is not None]
        new = to(*(o[2] for o in moved))
        set_now = [c for c in case["changes"] if by_controller and float(c[0]) == view.now_s]
        return Actions(
            set_link=[c[1] for c in set_now],
            set_capacity_bytes_per_s=[c[2] for c in set_now],
            reroute_task=[o[1] for o in moved],
            routes=Routes(of_task=new.of_task, ptr=new.ptr, link=new.link, latency_s=np.full(len(moved), latency)),
            fail_task=[o[1] for o in now if o[2] is None],
        )

    run = Simulation(
        graph=graph,
        routes=routes,
        capacity_bytes_per_s=case["capacity"],
        weight=case["weight"],
        priority=case["priority"],
        rate_cap_bytes_per_s=None if case["cap"] is None else [np.inf if c is None else c for c in case["cap"]],
        latency_mode="head" if case["head"] else "tail",
        changes=None if by_controller else changes(*case["changes"]),
        full_solve=full,
        certify=True,
    )
    result = run.run(controller=Control(act=act, times_s=times), batches_per_call=2)
    for name in ("start_s", "drain_s", "end_s"):
        want = [np.nan if x is None else float(x) for x in getattr(expected, name)]
        assert getattr(result, name) == pytest.approx(want, rel=1e-9, abs=1e-12, nan_ok=True)
    assert result.failed.tolist() == [i for i, x in enumerate(expected.failed_s) if x is not None]
    assert result.failed_s == pytest.approx([float(expected.failed_s[i]) for i in result.failed], rel=1e-9)
    unsent = [float(expected.unsent[i]) for i in result.failed]
    assert result.unsent_bytes == pytest.approx(unsent, rel=1e-9, abs=1e-9)
    assert (result.status == "finished") == all(x is not None for x in expected.end_s)


@pytest.mark.parametrize("seed", range(3))
def test_rerouting_at_random_keeps_every_byte_and_every_certificate(seed):
    # Larger than the exact oracle can do: many transfers on few routes move at every epoch.
    rng = np.random.default_rng(seed)
    n, n_links = (600, 12) if JIT else (40, 12)
    build = GraphBuilder(n_ranks=1)
    for size in rng.lognormal(3, 1, n):
        build.transfer(source=0, destination=0, size_bytes=size)
    start = to(*([int(x)] for x in rng.integers(0, 4, n))).shared()
    run = Simulation(
        graph=build.graph(), routes=start, capacity_bytes_per_s=rng.choice([5.0, 10.0], n_links), certify=True
    )
    moved = []

    def act(view):
        t = view.transfers
        proof = run.allocation()
        assert certificate(
            rate=proof.rate_bytes_per_s, capacity=proof.capacity_bytes_per_s, ptr=proof.ptr, link=proof.link,
            weight=proof.weight, use=proof.use,
        )  # fmt: skip
        some = t.task[rng.random(t.task.size) < 0.3]
        moved.append(some.size)
        return Actions(
            reroute_task=some,
            routes=to(*(rng.choice(n_links, rng.integers(1, 5), replace=False).tolist() for _ in some)),
        )

    result = run.run(controller=Control(act=act, period_s=7.0))
    assert result.status == "finished"
    # The case is worth the name only if many moved, most of them from slots that they shared.
    assert len(moved) > 3
    assert sum(moved) > n / 2


def test_moving_there_and_back_at_one_moment_changes_nothing():
    case = random_case(2)
    alone = Simulation(**case).run()

    def away(view):
        t = view.transfers.task
        return Actions(reroute_task=t, routes=to(*([0] for _ in t)))

    def back(view):
        t = view.transfers.task
        return Actions(reroute_task=t, routes=to(*(first(view, i) for i in t)))

    def first(view, task):
        row = view.first_routes.of_task[task]
        return view.first_routes.link[view.first_routes.ptr[row] : view.first_routes.ptr[row + 1]].tolist()

    times = [0.5, 3.0, 10.0, 30.0]
    moved = Simulation(**case, certify=True).run(controller=[Control(act=a, times_s=times) for a in (away, back)])
    assert moved.end_s == pytest.approx(alone.end_s, rel=1e-9)
    assert moved.link_bytes == pytest.approx(alone.link_bytes, rel=1e-9)


# ---------------------------------------------------------------- links that fail


def ring(n):
    """n hosts on n switches in a ring of 10 bytes/s each way, hosts at 1000; returns the topology."""
    switch = list(range(n, 2 * n))
    after = [n + (i + 1) % n for i in range(n)]
    hosts = list(range(n))
    return ns.topologies.Topology.from_links(
        n_hosts=n,
        n_switches=n,
        source=[*hosts, *switch, *switch, *after],
        destination=[*switch, *hosts, *after, *switch],
        capacity=np.array([1000.0] * 2 * n + [10.0] * 2 * n),
        latency=0.0,
    )


def ring_run(net, ends, sizes, dies, policy, build=None, **more):
    build = build or sends(*sizes, ends=ends)
    found = paths(net, [e[0] for e in ends], [e[1] for e in ends], routing="minimal")
    routes = Routes(of_task=np.arange(len(ends)), ptr=found.ptr, link=found.link, latency_s=path_latency(net, found))
    run = Simulation(
        graph=build.graph(), routes=routes, capacity_bytes_per_s=net.link_capacity_bytes_per_s, changes=dies,
        certify=True, **more,
    )  # fmt: skip

    def around(source, destination, dead):
        return paths_around(net, source, destination, dead)

    control = on_failure(policy, paths=around, link_latency_s=net.link_latency_s)
    return run, run.run(controller=control)


def link_of(net, source, destination):
    return int(np.flatnonzero((net.link_src == source) & (net.link_dst == destination))[0])


def test_a_failed_link_of_a_ring_under_each_policy():
    net = ring(4)
    gone = link_of(net, 4, 5)
    dies = changes((2, gone, 0), (6, gone, 10))
    # Host 0 to 1: 100 bytes, 20 sent by 2. Host 2 to 1 crosses 6 -> 5 and is alone there until the other comes the long way round.
    ends, sizes = [(0, 1), (2, 1)], (100, 100)
    wait = ring_run(net, ends, sizes, dies, "wait")[1]
    assert wait.end_s == pytest.approx([14, 10], rel=1e-12)
    # The long way 4 -> 7 -> 6 -> 5 shares 6 -> 5: 5 each from 2 on, 80 left each: 18.
    reroute = ring_run(net, ends, sizes, dies, "reroute")[1]
    assert reroute.end_s == pytest.approx([18, 18], rel=1e-12)
    fail = ring_run(net, ends, sizes, dies, "fail")[1]
    assert fail.status == "failed"
    assert (fail.failed.tolist(), fail.failed_s.tolist(), fail.unsent_bytes.tolist()) == ([0], [2.0], [80.0])
    assert fail.end_s[1] == pytest.approx(10, rel=1e-12)


def test_transfers_that_start_later_take_the_way_that_is_open_then():
    net = ring(4)
    gone = link_of(net, 4, 5)
    dies = changes((2, gone, 0), (6, gone, 10))
    for start, policy, end in (
        (1, "reroute", 11.0),  # 10 bytes, then 90 the long way, alone
        (3, "reroute", 13.0),
        (7, "reroute", 17.0),  # by then its first route is whole again
        (3, "wait", 16.0),
        (7, "fail", 17.0),
        (3, "fail", np.nan),
    ):
        build = sends(100, ends=[(0, 1)])
        build.edge(build.delay(rank=0, seconds=start), 0)
        found = paths(net, [0], [1])
        routes = Routes(of_task=np.array([0, -1]), ptr=found.ptr, link=found.link, latency_s=np.zeros(1))
        run = simulation(build, routes, net.link_capacity_bytes_per_s, changes=dies)
        result = run.run(controller=on_failure(policy, paths=lambda s, d, dead: paths_around(net, s, d, dead)))
        assert result.end_s[0] == pytest.approx(end, rel=1e-12, nan_ok=True)
        # On the long way link 7 -> 6 is used, on the short way it is not.
        long_way = result.link_bytes[link_of(net, 7, 6)]
        assert long_way == pytest.approx({(1, "reroute"): 90, (3, "reroute"): 100}.get((start, policy), 0))
        if np.isnan(end):
            assert result.failed_s.tolist() == [3.0]


def test_an_unreachable_host_is_named_and_a_repair_helps():
    net = ring(4)
    cut = [link_of(net, 4, 5), link_of(net, 6, 5)]
    dies = changes((2, cut[0], 0), (3, cut[1], 0))
    run, result = ring_run(net, [(0, 1), (2, 3)], (100, 100), dies, "reroute")
    assert result.status == "stuck"
    assert result.end_s == pytest.approx([np.nan, 10], rel=1e-12, nan_ok=True)
    # At 3 it is on the long way, and stays there.
    (line,) = run.stuck_error().report
    assert line == f"task 0, transfer, rank 0 to 1: waits for dark link {cut[1]}"
    # 20 by 2, 30 by 3, then nothing until 8; 70 left.
    repaired = changes((2, cut[0], 0), (3, cut[1], 0), (8, cut[0], 10))
    assert ring_run(net, [(0, 1)], (100,), repaired, "reroute")[1].end_s == pytest.approx([15], rel=1e-12)


def test_a_controller_that_switches_links_triggers_the_policy():
    net = ring(4)
    gone = link_of(net, 4, 5)
    found = paths(net, [0], [1])
    routes = Routes(of_task=np.array([0]), ptr=found.ptr, link=found.link, latency_s=np.zeros(1))
    run = simulation(sends(100, ends=[(0, 1)]), routes, net.link_capacity_bytes_per_s)
    dark = Control(times_s=[2.0], act=lambda view: Actions(set_link=[gone], set_capacity_bytes_per_s=[0.0]))
    result = run.run(controller=[dark, on_failure("reroute", paths=lambda s, d, dead: paths_around(net, s, d, dead))])
    assert result.end_s == pytest.approx([10], rel=1e-12)
    assert result.link_bytes[[gone, link_of(net, 7, 6)]] == pytest.approx([20, 80], rel=1e-12)


def test_failure_policies_are_checked():
    with pytest.raises(InputError, match=r"^failure policy: must be 'wait', 'reroute' or 'fail', got 'hope'$"):
        on_failure("hope")
    with pytest.raises(InputError, match=r"^failure policy: 'reroute' needs a function that finds paths$"):
        on_failure("reroute")
    bad = Control(act=on_failure("reroute", paths=lambda s, d, dead: Paths.from_columns([[0, 0]])).act, times_s=[0.0])
    with pytest.raises(InputError, match=r"^paths: must give one path for each of 1 pairs, got 2$"):
        simulation(sends(1), to([0]), [0.0]).run(controller=bad)


@pytest.mark.parametrize("seed", range(3))
def test_paths_around_dead_links_are_shortest_and_alive(seed):
    import networkx as nx

    net = ns.topologies.dragonfly(p=2, a=4, h=2)
    rng = np.random.default_rng(seed)
    dead = rng.random(net.n_links) < 0.35
    source, destination = rng.integers(0, net.n_hosts, (2, 200))
    found = paths_around(net, source, destination, dead)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(net.n_vertices))
    graph.add_edges_from(zip(net.link_src[~dead].tolist(), net.link_dst[~dead].tolist()))
    lost = 0
    for i, (s, d) in enumerate(zip(source.tolist(), destination.tolist())):
        path = found[i]
        if s == d or not nx.has_path(graph, s, d):
            lost += s != d
            assert path.size == 0
            continue
        assert path.size == nx.shortest_path_length(graph, s, d)
        assert not dead[path].any()
        assert net.link_src[path].tolist() == [s, *net.link_dst[path][:-1].tolist()]
        assert net.link_dst[path][-1] == d
    assert 0 < lost < 200
