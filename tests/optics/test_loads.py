"""Link load against the classic index, enumerated paths, and identities; circuits; bad input."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.optics import Circuits, SwitchDemand, efi_index, link_load, with_circuits
from netsim.optics.loads import Fabric, spill_shares
from netsim.topologies import from_networkx


def of(graph):
    """A network of switches only, capacity 1, from a networkx graph."""
    return from_networkx(nx.convert_node_labels_to_integers(graph), capacity=1.0, latency=0.0)


def ones(net):
    return np.ones((net.n_switches, net.n_switches))


def per_edge(net, load):
    """Both directions of each edge together."""
    key = np.sort(np.stack([net.link_src, net.link_dst], 1), axis=1)
    _, row = np.unique(key, axis=0, return_inverse=True)
    return np.bincount(row.ravel(), weights=load)


def grid(*sides, periodic=False):
    return nx.grid_graph(sides, periodic=periodic)


CLASSIC = [
    ("K5", nx.complete_graph(5), 2),
    ("K8", nx.complete_graph(8), 2),
    ("star 8", nx.star_graph(7), 2 * 7),
    ("path 8", nx.path_graph(8), 2 * 4 * 4),
    ("path 7", nx.path_graph(7), 2 * 3 * 4),
    ("cycle 7", nx.cycle_graph(7), 7**2 // 4),
    ("cycle 8", nx.cycle_graph(8), 8**2 // 4),
    ("Q3", nx.hypercube_graph(3), 2**3),
    ("Q4", nx.hypercube_graph(4), 2**4),
    ("K3,3", nx.complete_bipartite_graph(3, 3), 2 + 2 * (6 + 6) / 9),
    ("K4,4", nx.complete_bipartite_graph(4, 4), 2 + 2 * (12 + 12) / 16),
    ("K2,3", nx.complete_bipartite_graph(2, 3), 2 + 2 * (2 + 6) / 6),
    ("torus 4x4", grid(4, 4, periodic=True), 4 * 4),
    ("torus 5x5", grid(5, 5, periodic=True), 5 * 6),
    ("torus 4x6", grid(4, 6, periodic=True), 4 * 9),
    ("3-ary 3-cube", grid(3, 3, 3, periodic=True), 9 * 2),
]


@pytest.mark.parametrize(("graph", "index"), [pytest.param(g, v, id=name) for name, g, v in CLASSIC])
def test_classic_index(graph, index):
    """Heydemann, Meyer, Sotteau: even splitting attains the optimum on these graphs."""
    net = of(graph)
    load = link_load(net, ones(net))
    assert per_edge(net, load).max() == pytest.approx(index, rel=1e-12)
    # No routing is better, by linear programming: on arcs, half of it.
    if net.n_switches <= 16:
        assert link_load(net, ones(net), routing="optimum").max() == pytest.approx(index / 2, rel=1e-6)


@pytest.mark.parametrize(("sides", "best"), [((4, 4), 32), ((3, 4), 24)])
def test_routing_matters_on_a_mesh(sides, best):
    """Even splitting crowds the middle of a mesh; a straight cut gives the bound that dimension order reaches."""
    from netsim.topologies import mesh

    net = mesh(dims=sides, hosts=0, capacity=1.0)
    even, ordered = (link_load(net, ones(net), routing=name) for name in ("ecmp", "dimension-order"))
    assert per_edge(net, ordered).max() == best
    assert per_edge(net, even).max() > 1.2 * best
    # The same sum of hops: both are minimal.
    assert even.sum() == pytest.approx(ordered.sum())


def test_leaf_and_spine():
    """L leaves, S spines, h hosts a leaf, all hosts to all: h^2 (L - 1) / S on a link up, by counting."""
    leaves, spines, h = 4, 2, 4
    net = of(nx.complete_bipartite_graph(leaves, spines))
    demand = np.zeros((6, 6))
    demand[:leaves, :leaves] = h * h
    load = link_load(net, demand)
    assert load == pytest.approx(np.full(net.n_links, h * h * (leaves - 1) / spines))


def all_paths(net, demand):
    """The oracle: every shortest path of every pair, one by one, parallel links as paths of their own."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(net.n_switches))
    for link in range(net.n_links):
        graph.add_edge(int(net.link_src[link]), int(net.link_dst[link]), key=link)
    load = np.zeros(net.n_links)
    simple = nx.DiGraph(graph)
    for u, v in zip(*np.nonzero(demand), strict=True):
        if u == v:
            continue
        found = []
        for path in nx.all_shortest_paths(simple, u, v):
            ways = [[]]
            for a, b in itertools.pairwise(path):
                ways = [[*w, key] for w in ways for key in graph[a][b]]
            found += ways
        for way in found:
            load[way] += demand[u, v] / len(found)
    return load


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 9), directed=st.booleans())
def test_ecmp_is_the_mean_over_all_shortest_paths(seed, n, directed):
    rng = np.random.default_rng(seed)
    kind = nx.MultiDiGraph if directed else nx.MultiGraph
    graph = kind()
    graph.add_nodes_from(range(n))
    for i in range(n):
        graph.add_edge(i, (i + 1) % n)
    for _ in range(n):
        a, b = rng.integers(0, n, 2)
        if a != b:
            graph.add_edge(int(a), int(b))
    net = from_networkx(graph, capacity=1.0, latency=0.0)
    demand = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
    assert link_load(net, demand) == pytest.approx(all_paths(net, demand), abs=1e-12)


def test_only_the_load_of_the_demand_counts_hops():
    """Sum of loads = sum of bytes times hops, on any graph under shortest paths."""
    net = of(nx.random_regular_graph(3, 20, seed=1))
    demand = np.random.default_rng(1).random((20, 20))
    hops = dict(nx.all_pairs_shortest_path_length(nx.random_regular_graph(3, 20, seed=1)))
    expected = sum(demand[u, v] * hops[u][v] for u in range(20) for v in range(20))
    assert link_load(net, demand).sum() == pytest.approx(expected)
    assert link_load(net, demand, routing="per-hop-ecmp").sum() == pytest.approx(expected)


def ring(n):
    return of(nx.cycle_graph(n))


def lit(net, *pairs, capacity=1.0):
    return with_circuits(net, Circuits.of(pairs), capacity=capacity, latency=0.0)


def test_a_chord_takes_hops_away():
    """C8, one byte a pair, chord 0-4: 128 byte-hops become 96 electrical ones; 32 = hops saved + bytes on the chord."""
    net = ring(8)
    before = efi_index(net, link_load(net, ones(net)))
    after_net = lit(net, (0, 4))
    after = efi_index(after_net, link_load(after_net, ones(net)))

    def hops(g):
        return sum(sum(d.values()) for _, d in nx.all_pairs_shortest_path_length(g))

    chord = nx.cycle_graph(8)
    chord.add_edge(0, 4)
    saved = hops(nx.cycle_graph(8)) - hops(chord)
    assert before.electrical_byte_hops == 128
    assert after.electrical_byte_hops == pytest.approx(96)
    assert saved + after.optical_bytes == pytest.approx(128 - 96)


@pytest.mark.parametrize(("n", "chord", "before", "after"), [(8, (0, 3), 8.0, 8.5), (12, (0, 3), 18.0, 20.5)])
def test_a_chord_can_fill_the_fullest_link_more(n, chord, before, after):
    """Braess: shortest paths crowd towards the chord. Not so when circuits take only what helps."""
    net = ring(n)
    assert link_load(net, ones(net)).max() == before
    more = lit(net, chord)
    assert link_load(more, ones(net))[: net.n_links].max() == after
    assert efi_index(more, link_load(more, ones(net), routing="spill")).max_s <= before


def test_one_chord_that_closes_a_path():
    net = of(nx.path_graph(8))
    assert link_load(net, ones(net)).max() == 16
    closed, short = lit(net, (0, 7)), lit(net, (2, 5))
    assert link_load(closed, ones(net)).max() == 8
    assert link_load(short, ones(net)).max() == pytest.approx(12)


def test_at_most_one_circuit_on_a_path():
    """C8 with chords 0-3 and 3-6: 0 to 6 is two circuits away, but one hop there and one back the electrical way."""
    net = lit(ring(8), (0, 3), (3, 6))
    demand = np.zeros((8, 8))
    demand[0, 6] = 1.0
    assert link_load(net, demand, routing="one-optical-hop")[-4:].sum() == 0
    demand = np.zeros((8, 8))
    demand[1, 3] = demand[0, 3] = 1.0
    load = link_load(net, demand, routing="one-optical-hop")
    # 0 to 3 takes its own circuit; 1 to 3 is as short without.
    assert load[-4:].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert load[:-4].sum() == 2.0


def test_bytes_of_a_pair_are_divided_over_circuits_side_by_side():
    net = lit(ring(8), (0, 4), (0, 4))
    demand = np.zeros((8, 8))
    demand[0, 4] = 6.0
    for routing in ("one-optical-hop", "optical-first"):
        assert link_load(net, demand, routing=routing)[-4:].tolist() == [3.0, 0.0, 3.0, 0.0]


def test_a_circuit_takes_no_more_than_helps():
    """Hot pair: 100 bytes 0 to 4 on a ring, circuit as fast as a link. Both ways round and the circuit share them."""
    net = lit(ring(8), (0, 4))
    demand = np.zeros((8, 8))
    demand[0, 4] = 100.0
    index = efi_index(net, link_load(net, demand, routing="spill"))
    # Two electrical ways at x / 2 each beside the circuit with 100 - x: the fullest is emptiest at x = 200 / 3.
    assert index.max_s == pytest.approx(100 / 3, rel=2e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_spilling_never_fills_the_fullest_link_more(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 12))
    net = ring(n)
    demand = rng.pareto(1.2, (n, n)) * (rng.random((n, n)) < 0.6)
    pairs = [(int(a), int(b)) for a, b in rng.integers(0, n, (4, 2)) if a != b]
    more = lit(net, *pairs, capacity=float(rng.choice([0.2, 1.0, 5.0])))
    before = link_load(net, demand).max()
    load = link_load(more, demand, routing="spill")
    assert efi_index(more, load).max_s <= before * (1 + 1e-9)
    shares = spill_shares(Fabric(more), SwitchDemand.of_pairs(n, *np.nonzero(demand), demand[np.nonzero(demand)]))
    assert ((shares >= 0) & (shares <= 1)).all()
    # Every byte arrives: what leaves each switch less what enters is what it sends less what it receives.
    demand = demand - np.diag(np.diag(demand))
    out = np.bincount(more.link_src, weights=load, minlength=n) - np.bincount(more.link_dst, weights=load, minlength=n)
    assert out == pytest.approx(demand.sum(1) - demand.sum(0), abs=1e-6 * demand.sum() + 1e-9)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_optimum_bounds_all_and_falls_with_each_circuit(seed):
    rng = np.random.default_rng(seed)
    net = ring(7)
    demand = rng.pareto(1.5, (7, 7))
    one = lit(net, (0, 3))
    two = lit(net, (0, 3), (1, 5))
    best = [efi_index(g, link_load(g, demand, routing="optimum")).max_s for g in (net, one, two)]
    assert best[0] * (1 + 1e-6) >= best[1] >= best[2] * (1 - 1e-6)
    for routing in ("ecmp", "one-optical-hop", "spill", "optical-first"):
        assert efi_index(two, link_load(two, demand, routing=routing)).max_s >= best[2] * (1 - 1e-6)


def test_the_scale_of_capacity_does_not_matter():
    small, big = of(nx.cycle_graph(6)), from_networkx(nx.cycle_graph(6), capacity=1e9, latency=0.0)
    demand = np.arange(36.0).reshape(6, 6)
    a = efi_index(small, link_load(small, demand))
    b = efi_index(big, link_load(big, demand * 1e9))
    assert b.max_s == pytest.approx(a.max_s)
    assert b.phi_s == pytest.approx(a.phi_s)


def test_loads_do_not_depend_on_how_the_demand_comes():
    from scipy import sparse

    net = ring(6)
    demand = np.arange(36.0).reshape(6, 6)
    expected = link_load(net, demand)
    assert (link_load(net, sparse.csr_array(demand)) == expected).all()
    assert (link_load(net, demand.tolist()) == expected).all()
    assert (link_load(net, np.zeros((6, 6))) == 0).all()


BAD = [
    (
        lambda net: link_load(net, np.ones((3, 3))),
        "demand: must have one row and one column for each of the 6 switches, got shape (3, 3)",
    ),
    (
        lambda net: link_load(net, np.full((6, 6), np.nan)),
        "demand from switch 0 to 0: must be finite and 0 or more bytes, got nan",
    ),
    (
        lambda net: link_load(net, -np.eye(6)),
        "demand from switch 0 to 0: must be finite and 0 or more bytes, got -1.0",
    ),
    (
        lambda net: link_load(net, "many"),
        "demand: must be a matrix of bytes, got str",
    ),
    (
        lambda net: lit(net, (0, 6)),
        "circuit 0: must join two of the 6 switches, got 0 and 6",
    ),
    (
        lambda net: lit(net, (2, 2)),
        "circuit 0: must join two different switches, got 2 twice",
    ),
    (
        lambda net: with_circuits(net, Circuits.of([(0, 2), (0, 3)]), ports=1),
        "0: has 1 optical ports, got 2 circuits, circuit 0 (0, 2) and circuit 1 (0, 3) among them; "
        "leave some out or give it more ports",
    ),
    (
        lambda net: with_circuits(net, Circuits.of([(0, 2)]), capacity=0.0),
        "circuit capacity: must be above 0 bytes per second, got 0.0",
    ),
    (
        lambda net: with_circuits(net, Circuits.of([(0, 2)]), latency=-1.0),
        "circuit latency: must be finite and 0 or more seconds, got -1.0",
    ),
    (
        lambda net: link_load(lit(net, (0, 2)), np.ones((6, 6)), routing="one-optical-hop", share=[2.0, 0.0]),
        "share: must be one number from 0 to 1 for each of the 2 circuit links",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message):
    with pytest.raises(InputError) as error:
        call(ring(6))
    assert str(error.value) == message


def test_a_pair_that_is_not_joined():
    net = of(nx.disjoint_union(nx.path_graph(2), nx.path_graph(2)))
    with pytest.raises(InputError, match="no path from 0 to 2"):
        link_load(net, ones(net))
