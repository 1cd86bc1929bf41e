"""Descriptions against closed forms, networkx, and brute force."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.topologies import (
    Topology,
    describe,
    dragonfly,
    dragonfly_plus,
    fat_tree,
    flattened_butterfly,
    from_networkx,
    full_mesh,
    hypercube,
    hyperx,
    k_ary_n_tree,
    mesh,
    polarfly,
    slim_fly,
    star,
    topologies,
    torus,
    xgft,
)
from netsim.topologies import distances as distances_module
from netsim.topologies.bisection import bisection
from netsim.topologies.distance_forms import distances_by_structure
from netsim.topologies.distances import distances

LINK = 12.5e9


def ring_average(k: int) -> Fraction:
    """Mean distance from a vertex of a ring of k to all k vertices, itself included."""
    return Fraction(sum(min(i, k - i) for i in range(k)), k)


def line_average(k: int) -> Fraction:
    """(k^2 - 1) / (3 k): mean over all ordered pairs of a line of k, equal ones included."""
    return Fraction(k * k - 1, 3 * k)


@pytest.mark.parametrize("dims", [(4, 4), (8, 8), (5, 5), (4, 4, 4), (8, 8, 8), (16, 16, 16), (7, 2, 3), (1, 9)])
@pytest.mark.parametrize("wrap", [True, False])
def test_grid_distances_by_closed_form(dims: tuple[int, ...], wrap: bool) -> None:
    """Distances add up over dimensions: mean = sum of the ring (line) means * n / (n - 1), diameter = sum of k/2 (k - 1)."""
    found = describe((torus if wrap else mesh)(dims)).between_hosts
    n = math.prod(dims)
    mean = sum((ring_average(k) if wrap else line_average(k)) for k in dims) * Fraction(n, n - 1)
    assert found.average == pytest.approx(float(mean), rel=1e-12)
    assert found.diameter == sum(k // 2 if wrap else k - 1 for k in dims)
    assert found.exact
    assert found.unreachable == 0


@pytest.mark.parametrize(
    ("net", "diameter", "average"),
    [
        (dragonfly(1, 2, 1), 3, 1.8),
        (dragonfly(2, 4, 2), 3, 2.342857),
        (dragonfly(2, 4, 2, 5), 3, 1.947368),
        (dragonfly(2, 4, 2, 3), 2, 1.545455),
        (dragonfly(4, 8, 4), 3, 2.686312),
    ],
)
def test_dragonfly_distances(net: Topology, diameter: int, average: float) -> None:
    found = describe(net).between_hosts
    assert found.diameter == diameter
    assert found.average == pytest.approx(average, abs=5e-7)


@pytest.mark.parametrize(("k", "n"), [(2, 3), (4, 2), (8, 2), (3, 3)])
def test_tree_distances_by_closed_form(k: int, n: int) -> None:
    """Two leaves that first meet at height l are 2 (l - 1) links apart; k^(l-1) (k-1) / k leaves meet there."""
    found = describe(k_ary_n_tree(k, n)).between_hosts
    total = sum(2 * (level - 1) * (k ** (level - 1) - k ** (level - 2)) for level in range(2, n + 1))
    assert found.average == pytest.approx(total / (k ** (n - 1) - 1), rel=1e-12)
    assert found.diameter == 2 * (n - 1)


def undirected(net: Topology) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(net.n_hosts, net.n_vertices))
    ends = zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True)
    graph.add_edges_from((u, v) for u, v in ends if min(u, v) >= net.n_hosts)
    return graph


@pytest.mark.parametrize("net", [fat_tree(4), xgft((2, 3), (1, 2)), dragonfly(1, 3, 2), torus((3, 4)), mesh((5,))])
def test_distances_over_all_switches_equal_networkx(net: Topology) -> None:
    graph, found = undirected(net), describe(net).between_all
    assert found.average == pytest.approx(nx.average_shortest_path_length(graph), rel=1e-12)
    assert found.diameter == nx.diameter(graph)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 12), p=st.floats(0, 0.6), seed=st.integers(0, 10**6), data=st.data())
def test_directed_and_disconnected_graphs_equal_networkx(n: int, p: float, seed: int, data: st.DataObject) -> None:
    graph = nx.gnp_random_graph(n, p, seed=seed, directed=True)
    net = from_networkx(graph)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    found = distances(net, chosen)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    some = np.flatnonzero(chosen).tolist()
    pairs = [lengths[u].get(v) for u in some for v in some if u != v]
    wanted = np.bincount([x for x in pairs if x is not None] or [0])
    wanted[0] = 0
    assert found.histogram.tolist() == (wanted.tolist() if wanted.any() else [0])
    assert found.unreachable == pairs.count(None)
    assert describe(net).n_components == nx.number_strongly_connected_components(graph)


def test_large_networks_are_sampled_and_say_so() -> None:
    net = torus((20, 20, 20))
    sampled = distances(net, np.ones(8000, dtype=bool))
    assert not sampled.exact
    # A torus looks the same from everywhere, so the sample must be right.
    assert sampled.average == pytest.approx(float(3 * ring_average(20) * Fraction(8000, 7999)), rel=1e-12)
    assert sampled.diameter == 30
    assert distances(net, np.ones(8000, dtype=bool), exact_up_to=10**4).exact
    # Without the name of its family nothing is known of its structure.
    plain = describe(replace(net, family="graph"))
    assert not plain.to_dict()["distances_exact"]
    assert "(search from 512 sampled sources; the diameter may be longer)" in "\n".join(plain.lines())
    assert "diameter 30, average 15.00188 (closed form)" in "\n".join(describe(net).lines())


def test_long_rings_are_searched_from_single_sources() -> None:
    """A ring of n: from every vertex two at each distance below n/2 and one at n/2; a line one way: n - 1 - i reached."""
    n = 200_000
    i = np.arange(n)
    ring = Topology.from_links(n_hosts=0, n_switches=n, source=np.r_[i, (i + 1) % n], destination=np.r_[(i + 1) % n, i])
    found = distances(ring, np.ones(n, dtype=bool))
    assert not found.exact
    n_sources, rest = divmod(int(found.histogram.sum()), n - 1)
    assert rest == found.unreachable == 0
    assert found.method == f"search from {n_sources} sampled sources"
    assert found.histogram.tolist() == [0] + [2 * n_sources] * (n // 2 - 1) + [n_sources]
    line = Topology.from_links(n_hosts=0, n_switches=n, source=i[:-1], destination=i[1:])
    some = np.array([0, n - 3], dtype=np.int64)
    assert distances(line, np.ones(n, dtype=bool), exact_up_to=0).unreachable > 0
    searched = distances_module._search_one_by_one(i[:-1], i[1:], n, some, np.ones(n, dtype=bool))
    assert searched.tolist() == [0, 2, 2] + [1] * (n - 3)


BY_STRUCTURE = [
    torus((7, 2, 3)), torus((6,)), torus((1, 4)), mesh((5, 4, 1)), fat_tree(6), k_ary_n_tree(3, 3), k_ary_n_tree(2, 1),
    # With more than one switch per host, switches of the lowest level that only hosts join.
    xgft((2, 3, 2), (2, 1, 3)), xgft((2, 3, 2), (1, 2, 3)), xgft((1, 1, 2), (3, 2, 1)), xgft((3,), (2,)),
    dragonfly(2, 4, 2), dragonfly(1, 3, 2, 4), dragonfly(1, 4, 1, 1), dragonfly(1, 3, 2, 6, arrangement="circulant"),
    dragonfly(1, 3, 2, arrangement="relative"), hyperx((3, 1, 4), 2), hyperx((5,), 1, 3), hypercube(0), hypercube(5),
    flattened_butterfly(3, 4), full_mesh(1), full_mesh(7, 3), slim_fly(4), slim_fly(7), polarfly(2), polarfly(9),
]  # fmt: skip


@pytest.mark.parametrize("net", BY_STRUCTURE)
def test_distances_by_structure_equal_the_search(net: Topology) -> None:
    with_hosts = np.zeros(net.n_switches, dtype=bool)
    with_hosts[net.link_dst[net.link_src < net.n_hosts] - net.n_hosts] = True
    for chosen in (with_hosts, np.ones(net.n_switches, dtype=bool)):
        known, searched = distances_by_structure(net, chosen), distances(net, chosen)
        assert known is not None
        assert searched.exact
        assert known.exact
        assert known.histogram.tolist() == searched.histogram.tolist()
        assert known.unreachable == searched.unreachable


@pytest.mark.parametrize("net", [dragonfly_plus(2), dragonfly_plus(1, 3, 2, 4, 3), dragonfly_plus(2, 1, 1, 1, 1)])
def test_distances_between_leaves_equal_the_search(net: Topology) -> None:
    leaf = np.zeros(net.n_switches, dtype=bool)
    leaf[net.link_dst[net.link_src < net.n_hosts] - net.n_hosts] = True
    known, searched = distances_by_structure(net, leaf), distances(net, leaf)
    assert known is not None
    assert known.histogram.tolist() == searched.histogram.tolist()
    assert distances_by_structure(net, ~leaf) is None


def test_structure_says_nothing_of_other_sets_and_arrangements() -> None:
    net = torus((4, 4))
    assert distances_by_structure(net, np.arange(16) < 5) is None
    assert distances_by_structure(dragonfly(2, 4, 2, arrangement="absolute"), np.ones(36, dtype=bool)) is None
    assert distances_by_structure(star(3), np.ones(1, dtype=bool)) is None


# Bisection ----------------------------------------------------------------------------------------------------------


def brute_force(net: Topology) -> float:
    """Least one-way capacity between two halves of the switches, each with its hosts."""
    base, n = net.n_hosts, net.n_switches
    inside = np.minimum(net.link_src, net.link_dst) >= base
    ends = list(zip((net.link_src[inside] - base).tolist(), (net.link_dst[inside] - base).tolist(), strict=True))
    rate = net.link_capacity_bytes_per_s[inside].tolist()
    best = math.inf
    for half in itertools.combinations(range(n), n // 2):
        side = set(half)
        cut = sum(c for (u, v), c in zip(ends, rate, strict=True) if u in side and v not in side)
        best = min(best, cut)
    return best


@pytest.mark.parametrize(
    "net",
    [
        dragonfly(1, 2, 1),
        dragonfly(2, 4, 2, 3),
        torus((4, 3)),
        torus((4, 2)),
        torus((6, 2)),
        torus((4, 4), switch_capacity="1GB/s"),
        torus((3, 3)),
        torus((2, 2, 3)),
        torus((5, 3)),
        mesh((4, 3)),
        mesh((4, 4)),
        mesh((2, 5)),
        mesh((3, 3)),
        mesh((2, 2, 3)),
        full_mesh(7, trunk=2),
        full_mesh(10, hosts=3),
        hypercube(4),
        hyperx((3, 3)),
        hyperx((3, 5)),
        hyperx((4, 3)),
        hyperx((3, 4), trunk=(2, 1)),
        hyperx((3, 3, 2), trunk=(1, 1, 2)),
        hyperx((5, 2), trunk=(1, 3)),
        hyperx((2, 1, 6)),
        from_networkx(nx.petersen_graph(), hosts_per_switch=2),
    ],
)
def test_bisection_equals_brute_force(net: Topology) -> None:
    found = bisection(net)
    assert found is not None
    assert found.exact
    assert found.lower_bytes_per_s == pytest.approx(brute_force(net), rel=1e-12)


@pytest.mark.parametrize(
    ("net", "links"),
    [(torus((8, 8)), 16), (torus((8, 8, 8)), 128), (mesh((4, 4, 4)), 16), (torus((2, 2, 2, 2)), 8), (star(8), 4)],
)
def test_bisection_by_formula(net: Topology, links: int) -> None:
    """Torus 2N/k, mesh N/k, hypercube N/2, star N/2 host links."""
    found = bisection(net)
    assert found is not None
    assert found.exact
    assert found.lower_bytes_per_s == links * LINK


def min_bisection_by_flow(net: Topology) -> float:
    """Oracle for trees: over all halves of the hosts, the least cut (max-flow, switches free to choose their side)."""
    graph = nx.DiGraph()
    for u, v, c in zip(
        net.link_src.tolist(), net.link_dst.tolist(), net.link_capacity_bytes_per_s.tolist(), strict=True
    ):
        graph.add_edge(u, v, capacity=c)
    best = math.inf
    for half in itertools.combinations(range(net.n_hosts), net.n_hosts // 2):
        trial = graph.copy()
        for host in range(net.n_hosts):
            trial.add_edge(*(("s", host) if host in half else (host, "t")))
        best = min(best, nx.maximum_flow_value(trial, "s", "t"))
    return best


@pytest.mark.parametrize(
    "net",
    [xgft((2, 4), (1, 2)), xgft((4, 2), (1, 2)), xgft((2, 2, 2), (1, 2, 1)), xgft((2, 4), (1, 1)), k_ary_n_tree(2, 3)],
)
def test_tree_bisection_equals_max_flow(net: Topology) -> None:
    found = bisection(net)
    assert found is not None
    assert found.exact
    assert found.lower_bytes_per_s == pytest.approx(min_bisection_by_flow(net), rel=1e-12)


def test_bisection_bounds_hold_the_known_value() -> None:
    """Dragonfly (2,4,2,9): 20 links, proven by integer programming; the improved cut finds it."""
    found = bisection(dragonfly(2, 4, 2))
    assert found is not None
    assert not found.exact
    assert found.lower_bytes_per_s <= 20 * LINK
    assert found.upper_bytes_per_s == pytest.approx(20 * LINK)
    odd = bisection(torus((5, 5)))
    assert odd is not None
    assert 0 < odd.lower_bytes_per_s <= odd.upper_bytes_per_s == pytest.approx(12 * LINK)


# The rest -----------------------------------------------------------------------------------------------------------


def test_counts_ports_and_oversubscription() -> None:
    found = describe(xgft((4, 4), (1, 2), switch_capacity="200Gbps"))
    assert (found.n_cables, found.n_one_way) == (24, 0)
    # Leaves: 4 down + 2 up; tops: 4 down.
    assert found.switch_ports == (4, 6)
    assert found.host_ports == (1, 1)
    # 4 x 100 down over 2 x 200 up.
    assert found.oversubscription == (("level 1-2", 1.0),)
    assert describe(xgft((4, 4), (1, 2))).oversubscription == (("level 1-2", 2.0),)
    assert found.injection_bytes_per_s == 16 * LINK
    assert [(layer.name, layer.n_links) for layer in found.layers] == [("host", 32), ("level 1-2", 16)]
    assert describe(dragonfly(2, 4, 2, 5)).links_per_group_pair == 2
    assert describe(dragonfly(2, 4, 2, 5)).switch_ports == (7, 7)


def test_one_way_links_are_counted() -> None:
    net = Topology.from_links(n_hosts=0, n_switches=3, source=[0, 1, 1, 1], destination=[1, 0, 2, 0])
    found = describe(net)
    assert (found.n_cables, found.n_one_way) == (1, 2)
    assert found.n_components == 2
    assert "2 one way" in found.lines()[2]


@pytest.mark.parametrize("name", [name for name in topologies if topologies[name].sizer])
def test_text_and_json_of_every_family(name: str) -> None:
    net = topologies[name].build(**topologies[name].size_for(40))
    found = describe(net)
    assert len(found.lines()) <= 20
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["n_hosts"] == net.n_hosts
    net.expect(n_hosts=net.n_hosts, diameter=found.between_hosts.diameter)


@pytest.mark.parametrize(
    "net",
    [
        from_networkx(nx.Graph()),
        from_networkx(nx.path_graph(3)),
        from_networkx(nx.path_graph(3), hosts="all"),
        from_networkx(nx.path_graph(3), capacity=math.inf, hosts="leaves"),
        star(1, capacity=math.inf, latency=0),
        torus((1,), 0),
    ],
)
def test_corner_cases_have_a_description(net: Topology) -> None:
    found = describe(net)
    assert found.lines()
    json.dumps(found.to_dict(), allow_nan=False)
