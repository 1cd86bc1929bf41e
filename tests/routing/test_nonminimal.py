"""Detours and adaptive choices: against plain loops, against the fluid they are draws of, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.engine import run_flows
from netsim.routing import Paths, check_paths, demand, fluid_loads, link_loads, paths, saturation
from netsim.routing._kernels import choose
from netsim.routing.kshortest import shortest_sets
from netsim.testing import certificate
from netsim.topologies import Topology, dragonfly, fat_tree, torus


def filled(capacity: np.ndarray, routes: Paths) -> np.ndarray:
    """Max-min rates of all flows at once, by filling the links level by level; proven."""
    n, row = len(routes), np.repeat(np.arange(len(routes)), routes.hops)
    rate, free, room = np.zeros(n), np.ones(n, dtype=bool), capacity.copy()
    while free.any():
        on = free[row]
        users = np.bincount(routes.link[on], minlength=capacity.size)
        level = np.divide(room, users, out=np.full(capacity.size, np.inf), where=users > 0)
        full = level <= level.min() * (1 + 1e-12)
        stop = np.zeros(n, dtype=bool)
        stop[row[on & full[routes.link]]] = True
        rate[stop] = level.min()
        room -= np.bincount(routes.link[stop[row]], minlength=capacity.size) * level.min()
        free &= ~stop
    assert certificate(rate=rate, capacity=capacity, ptr=routes.ptr, link=routes.link).ok
    return rate


def mean_rate(net: Topology, pattern: str, routing: str, seeds: int = 6) -> float:
    rates = []
    for seed in range(seeds):
        wanted = demand(net, pattern, seed=seed)
        routes = paths(net, wanted.source, wanted.destination, routing=routing, seed=seed)
        check_paths(net, routes, wanted.source, wanted.destination)
        rates.append(filled(net.link_capacity_bytes_per_s, routes).mean())
    return float(np.mean(rates))


@settings(max_examples=60)
@given(n=st.integers(1, 12), detours=st.integers(0, 3), rule=st.integers(0, 2), seed=st.integers(0, 10**6))
def test_decisions_against_plain_loops(n: int, detours: int, rule: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Powers of two: costs are exact, so that the order in which they are multiplied does not matter.
    capacity = 2.0 ** rng.integers(0, 3, 10)
    stages = [[0, *rng.integers(0, 1 if rule == 2 else 2, detours).tolist()] for _ in range(n)]
    sets = [[rng.integers(0, 10, rng.integers(4, 8)).tolist() for _ in stage] for stage in stages]
    flat = [path for one in sets for path in one]
    ptr = np.concatenate([[0], np.cumsum([len(path) for path in flat])]).astype(np.int64)
    link = np.array([x for path in flat for x in path], dtype=np.int32)
    of = np.arange(n + 1, dtype=np.int64) * (detours + 1)
    stage = np.array(stages, dtype=np.uint8).ravel()
    choice = choose(of, ptr, link, stage, capacity, rule) - of[:-1]

    taken: list[list[int]] = []
    for i in range(n):

        def cost(path: list[int], first: int) -> tuple[float, ...]:
            load = {x: sum(other.count(x) for other in taken) for x in path}
            if rule == 2:
                return (-min(capacity[x] / (load[x] + 1) for x in path), len(path))
            inner = [load[x] / capacity[x] for x in path[first:-1]]
            return ((max(inner) if rule == 1 else inner[0]) * len(inner),)

        best = min((cost(path, 1), k) for k, path in enumerate(sets[i]) if not stages[i][k])[1]
        if best == 0 and rule < 2:
            best = min((cost(path, 2), k) for k, path in enumerate(sets[i]) if k == 0 or stages[i][k])[1]
        assert choice[i] == best
        taken.append(sets[i][best])


@pytest.mark.parametrize(
    ("net", "name"),
    [(dragonfly(1, 3, 1), "valiant-group"), (dragonfly(1, 3, 1), "valiant-router"), (dragonfly(1, 4, 2, 4), "valiant-group"),
     (torus((5,)), "valiant-router"), (fat_tree(4), "valiant-router"), (dragonfly(1, 4, 2, 4), "ecmp")],
)  # fmt: skip
def test_paths_are_draws_of_the_fluid(net: Topology, name: str) -> None:
    """The mean over many labels tends to the fluid load: within six standard deviations on every link."""
    wanted = demand(net, "shift+3")
    each = 4000
    source, destination = (np.repeat(x, each) for x in (wanted.source, wanted.destination))
    label = np.tile(np.arange(each), wanted.source.size)
    rate = net.link_capacity_bytes_per_s[0]
    found = link_loads(net, paths(net, source, destination, routing=name, flow=label)) / each
    fluid = fluid_loads(net, wanted, routing=name) / rate
    # A link's load is a sum of at most 2 N draws between 0 and 2 of that mean.
    assert np.all(np.abs(found - fluid) <= 6 * np.sqrt(2 * fluid / each) + 1e-9)
    assert found.sum() == pytest.approx(fluid.sum(), rel=0.01)


def test_valiant_visits_another_group_and_par_may_add_one_hop() -> None:
    net = dragonfly(2, 4, 2)
    source, destination = np.divmod(np.arange(72 * 72), 72)
    crossings = {}
    for name in ("valiant-group", "valiant-router", "ugal-l", "ugal-g", "par"):
        routes = paths(net, source, destination, routing=name, seed=2)
        crossed = np.zeros(len(routes), dtype=int)
        np.add.at(crossed, np.repeat(np.arange(len(routes)), routes.hops), net.link_layer[routes.link] == 2)
        crossings[name] = crossed
    apart = source // 8 != destination // 8
    for name in ("valiant-group", "valiant-router"):
        assert np.all(crossings[name] == np.where(apart, 2, 0))
    for name in ("ugal-l", "ugal-g", "par"):
        assert np.all(crossings[name][~apart] == 0)
        assert set(crossings[name][apart].tolist()) == {1, 2}


def test_a_lone_flow_stays_minimal_and_seeds_differ() -> None:
    net = dragonfly(2, 4, 2)
    for name in ("ugal-l", "ugal-g", "par"):
        for d in (1, 5, 40, 71):
            assert np.array_equal(paths(net, 0, d, routing=name).link, paths(net, 0, d, routing="minimal").link)
        wanted = demand(net, "adv+1")
        one, same, other = (paths(net, wanted.source, wanted.destination, routing=name, seed=s).link for s in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("h", "router", "group"), [(2, 0.279, 0.309), (3, 0.266, 0.317), pytest.param(4, 0.267, 0.323)]
)
def test_figures_of_merit_under_adversarial_traffic(h: int, router: float, group: float) -> None:
    """One path per flow falls short of the fluid; single-flow means of an independent computation, six seeds, within 0.015."""
    net = dragonfly(h, 2 * h, h, capacity=1.0)
    rate = {
        name: mean_rate(net, "adv+1", name)
        for name in ("minimal", "valiant-router", "valiant-group", "ugal-l", "ugal-g", "par")
    }
    assert rate["minimal"] == pytest.approx(1 / (2 * h * h), rel=1e-9)
    assert rate["valiant-router"] == pytest.approx(router, abs=0.015)
    assert rate["valiant-group"] == pytest.approx(group, abs=0.015)
    # Balancing by what one sees is worth more than blind detours, sight of the whole path more than of its first link; and nothing
    # beats the fluid optimum g / (2 (g - 1)).
    best = (2 * h * h + 1) / (4 * h * h)
    assert rate["valiant-group"] < rate["ugal-l"] < rate["ugal-g"] < best
    assert rate["ugal-l"] < rate["par"] < best


def test_adaptive_routing_costs_little_under_benign_traffic() -> None:
    net = dragonfly(2, 4, 2, capacity=1.0)
    rate = {
        name: mean_rate(net, "random-permutation", name)
        for name in ("minimal", "valiant-group", "ugal-l", "ugal-g", "par")
    }
    for name in ("ugal-l", "ugal-g", "par"):
        assert rate[name] > 0.9 * rate["minimal"]
    assert rate["valiant-group"] < 0.75 * rate["minimal"]


@pytest.mark.parametrize("routing", ["valiant-group", "ugal-g", "par"])
def test_the_engine_shares_as_computed(routing: str) -> None:
    """Every flow gets what it moves in one second at its rate: all must end after exactly one second."""
    net = dragonfly(2, 4, 2, capacity=1.0)
    wanted = demand(net, "adv+1")
    routes = paths(net, wanted.source, wanted.destination, routing=routing, seed=1)
    finish = run_flows(
        capacity_bytes_per_s=net.link_capacity_bytes_per_s,
        ptr=routes.ptr,
        link=routes.link,
        start_s=np.zeros(len(routes)),
        size_bytes=filled(net.link_capacity_bytes_per_s, routes),
    )
    assert finish == pytest.approx(np.ones(len(routes)), rel=1e-9)


def test_adaptive_routing_on_a_torus_relieves_tornado() -> None:
    """Minimal fills one direction of each ring to 1/3; the other stands idle, and some flows find it."""
    net = torus((8,), 4, capacity=1.0)
    assert mean_rate(net, "tornado", "minimal", 1) == pytest.approx(
        saturation(net, pattern="tornado", routing="minimal").throughput
    )
    assert mean_rate(net, "tornado", "ugal-g") > 1.15 * mean_rate(net, "tornado", "minimal", 1)


# k shortest paths -------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(n=st.integers(2, 7), k=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_k_shortest_against_all_simple_paths(n: int, k: int, seed: int) -> None:
    """Random multigraphs, some with islands, some vertices hosts that may not forward: all paths listed and sorted."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (int(rng.integers(1, 14)), 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    n_hosts = int(rng.integers(1, n + 1))
    net = Topology.from_links(
        n_hosts=n_hosts,
        n_switches=n - n_hosts,
        source=ends[:, 0],
        destination=ends[:, 1],
        host_transit=rng.random(n_hosts) < 0.5,
    )
    start, end = (x.astype(np.int64) for x in np.divmod(np.arange(n * n), n))
    start, end = start[start != end], end[start != end]
    found, ptr, link = shortest_sets(net, start, end, k)
    at = 0
    for s, d, count in zip(start.tolist(), end.tolist(), found.tolist(), strict=True):
        every: list[tuple[int, ...]] = []

        def grow(
            v: int, seen: set[int], path: tuple[int, ...], d: int = d, every: list[tuple[int, ...]] = every
        ) -> None:
            if v == d:
                every.append(path)
            elif not path or v >= n_hosts or net.host_transit[v]:
                for x in net.out_links(v).tolist():
                    u = int(net.link_dst[x])
                    if u not in seen:
                        grow(u, seen | {u}, (*path, x))

        grow(s, {s}, ())
        wanted = sorted(every, key=lambda path: (len(path), path))[:k]
        assert [tuple(link[ptr[i] : ptr[i + 1]].tolist()) for i in range(at, at + count)] == wanted
        at += count


def test_k_shortest_uses_all_its_paths() -> None:
    """Between pods of a k=4 fat-tree: 4 paths of 4 links, the other 4 of 6; a thousand flows use all of them about equally."""
    net = fat_tree(4)
    routes = paths(net, [0] * 1000, [15] * 1000, routing="k-shortest", flow=np.arange(1000))
    check_paths(net, routes, [0] * 1000, [15] * 1000)
    seen, count = np.unique([hash(tuple(path.tolist())) for path in routes], return_counts=True)
    assert seen.size == 8
    # 125 expected of each, standard deviation 10.5.
    assert count.min() > 70
