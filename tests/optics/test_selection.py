"""Selection: lazy against plain greedy, greedy against exact, guarantees, rivals, closed cases, bad input."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.optics import Circuits, link_load, select, selectors, switch_demand, with_circuits
from netsim.optics.circuits import port_counts
from netsim.optics.loads import Fabric, Pairs
from netsim.optics.revenue import first_revenues
from netsim.optics.selection import Problem
from netsim.topologies import dragonfly, fat_tree, from_networkx, torus

GRAPHS = {
    "C9": nx.cycle_graph(9),
    "torus 3x4": nx.grid_graph((3, 4), periodic=True),
    "Q3": nx.hypercube_graph(3),
    "mesh 3x3": nx.grid_graph((3, 3)),
}


def of(graph):
    return from_networkx(nx.convert_node_labels_to_integers(graph), capacity=1.0, latency=0.0)


def heavy(rng, n, density=0.4):
    """A heavy-tailed demand."""
    return rng.pareto(1.2, (n, n)) * (rng.random((n, n)) < density)


def problem_of(net, demand, ports, directed=False, candidates=None):
    return Problem(
        fabric=Fabric(net), demand=switch_demand(net, demand), ports=port_counts(net, ports), directed=directed,
        capacity_bytes_per_s=1.0, objective="sum", most=10**6, candidates=candidates, seed=0,
    )  # fmt: skip


def saving(net, demand, pairs, directed=False):
    """The oracle of the objective: every pair tries every circuit, with distances of networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(net.n_switches))
    graph.add_edges_from(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True))
    d = dict(nx.all_pairs_shortest_path_length(graph))
    total = 0.0
    for u, v in zip(*np.nonzero(demand), strict=True):
        if u == v:
            continue
        best = 0
        for x, y in pairs:
            for a, b in [(x, y)] if directed else [(x, y), (y, x)]:
                best = max(best, d[u][v] if (u, v) == (a, b) else d[u][v] - d[u][a] - 1 - d[b][v])
        total += demand[u, v] * best
    return total


def plain_greedy(net, demand, ports, directed):
    """Look at every candidate in every round; ties go to the candidate with the lower numbers."""
    n = net.n_switches
    pairs = {(u, v) for u, v in zip(*np.nonzero(demand), strict=True) if u != v}
    if not directed:
        pairs = {(min(p), max(p)) for p in pairs}
    left, have, value = sorted((int(a), int(b)) for a, b in pairs), [], 0.0
    while True:
        out = np.bincount([a for a, _ in have] + ([] if directed else [b for _, b in have]), minlength=n)
        into = np.bincount([b for _, b in have], minlength=n) if directed else out
        gains = [
            (saving(net, demand, [*have, (a, b)], directed) - value, -i)
            for i, (a, b) in enumerate(left)
            if out[a] < ports and into[b] < ports
        ]
        if not gains or max(gains)[0] <= 1e-12:
            return have, value
        gain, at = max(gains)
        have.append(left.pop(-at))
        value += gain


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), directed=st.booleans(), name=st.sampled_from(sorted(GRAPHS)))
def test_lazy_is_plain_greedy(seed, directed, name):
    net = of(GRAPHS[name])
    demand = heavy(np.random.default_rng(seed), net.n_switches, 0.2)
    found = select(net, demand, ports=1, directed=directed)
    have, value = plain_greedy(net, demand, 1, directed)
    assert found.circuits.pairs() == have
    assert found.revenue.sum() == pytest.approx(value)
    assert (np.diff(found.revenue) <= 1e-9 * found.revenue[:1].sum()).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), directed=st.booleans())
def test_submodular_and_monotone_with_one_optical_hop(seed, directed):
    """A circuit earns no more beside a larger set, and never less than nothing."""
    rng = np.random.default_rng(seed)
    net = of(GRAPHS[sorted(GRAPHS)[seed % 4]])
    n = net.n_switches
    problem = problem_of(net, heavy(rng, n), n, directed)
    pairs = [(int(a), int(b)) for a, b in rng.integers(0, n, (8, 2)) if a != b]
    if len(pairs) < 3:
        return
    new, large = pairs[0], pairs[1:]
    small = large[: int(rng.integers(0, len(large)))]

    def value(chosen):
        return problem.saving(Circuits.of(chosen, directed=directed))

    gain_small = value([*small, new]) - value(small)
    gain_large = value([*large, new]) - value(large)
    assert gain_small >= gain_large - 1e-9 * value([*large, new])
    assert gain_large >= 0


def test_not_submodular_with_more_optical_hops():
    """C7, one byte 0 to 3, circuits 0-5 and 5-3: nothing alone, a hop together under plain shortest paths."""
    net = of(nx.cycle_graph(7))
    demand = np.zeros((7, 7))
    demand[0, 3] = 1.0

    def hops(*pairs):
        return link_load(with_circuits(net, Circuits.of(pairs), capacity=1.0), demand).sum()

    assert [hops(), hops((0, 5)), hops((5, 3)), hops((0, 5), (5, 3))] == [3, 3, 3, 2]
    # At most one optical hop: no such thing.
    assert select(net, demand, ports=2, candidates=[(0, 5), (5, 3)]).revenue.size == 0


@pytest.mark.parametrize("directed", [False, True])
def test_greedy_against_exact(directed, record_property):
    """At least a third of the best on every one of 100 instances, and where it stands on average."""
    rng = np.random.default_rng(5)
    ratios = []
    for i in range(50):
        net = of(GRAPHS[sorted(GRAPHS)[i % 4]])
        demand = heavy(rng, net.n_switches, 0.25)
        ports = 1 + i % 2
        problem = problem_of(net, demand, ports, directed)

        def value(s, p=problem):
            return p.saving(s.circuits)

        greedy, best, direct = (
            value(select(net, demand, method=m, ports=ports, directed=directed)) for m in ("eefi", "exact", "matching")
        )
        upper = float((problem.demand.size_bytes * problem.fabric.hops[problem.demand.source, problem.demand.to]).sum())
        assert direct <= best * (1 + 1e-9)
        assert best / 3 <= greedy <= best * (1 + 1e-9)
        assert best <= upper * (1 + 1e-9)
        ratios.append(greedy / best if best > 0 else 1.0)
    record_property("greedy over exact", f"mean {np.mean(ratios):.3f}, least {min(ratios):.3f}")
    assert np.mean(ratios) > 0.9


def test_exact_is_exhaustive():
    rng = np.random.default_rng(3)
    for directed, objective in itertools.product((False, True), ("sum",)):
        net = of(nx.cycle_graph(6))
        demand = heavy(rng, 6)
        a, b = (select(net, demand, method=m, ports=1, most=2, directed=directed) for m in ("exact", "exhaustive"))
        assert saving(net, demand, a.circuits.pairs(), directed) == pytest.approx(
            saving(net, demand, b.circuits.pairs(), directed)
        ), objective


def test_greedy_matching_can_be_half_as_good():
    """Weights 1, 1.01, 1 along a path of pairs: the middle blocks both ends (the tight case of greedy matching)."""
    net = of(nx.star_graph(8))
    demand = np.zeros((9, 9))
    demand[1, 2], demand[2, 3], demand[3, 4] = 1.0, 1.01, 1.0
    greedy, best = (select(net, demand, method=m, ports=1) for m in ("eefi", "exact"))
    assert greedy.circuits.pairs() == [(2, 3)]
    assert sorted(best.circuits.pairs()) == [(1, 2), (3, 4)]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("net", [dragonfly(p=1, a=3, h=1), fat_tree(k=4), torus((5,)), torus((3, 4))], ids=repr)
def test_first_revenues_are_bounds(net, directed):
    """By products of matrices or one by one: what the oracle says, or above it where both directions serve a pair."""
    demand = heavy(np.random.default_rng(1), net.n_switches, 0.5)
    if net.family == "fat_tree":
        demand[8:], demand[:, 8:] = 0, 0
    problem = problem_of(net, demand, 1, directed)
    a, b, _ = problem.candidate_pairs()
    pairs = Pairs(problem.fabric, problem.demand, problem.fabric.hop_cost)
    bound = first_revenues(problem, a, b, pairs)
    true = np.array([problem.saving(Circuits.of([pair], directed=directed)) for pair in zip(a, b, strict=True)])
    assert (bound >= true * (1 - 1e-12)).all()
    if directed:
        assert bound == pytest.approx(true)


@pytest.mark.parametrize("objective", ["sum", "phi", "max"])
@pytest.mark.parametrize("method", sorted(selectors))
def test_every_selector_keeps_to_the_ports(method, objective):
    """One test for all: ports, ends, no worse than electrical under spilling, the same again."""
    net = of(nx.cycle_graph(6))
    demand = heavy(np.random.default_rng(2), 6)
    ports = np.array([1, 2, 0, 1, 1, 2])
    for directed in (False, True):
        if method == "exhaustive" and directed:
            continue
        found = select(
            net, demand, method=method, ports=ports, objective=objective, directed=directed, capacity=1.0, most=3
        )
        found.circuits.check(net, ports)
        assert len(found.circuits) <= 3
        assert found.after.max_s <= found.before.max_s * (1 + 1e-9)
        again = select(
            net, demand, method=method, ports=ports, objective=objective, directed=directed, capacity=1.0, most=3
        )
        assert again.circuits.pairs() == found.circuits.pairs()
        assert found.lines()


def test_phi_lowers_the_fullest_link_where_sum_does_not():
    """Torus with a hot column far from the heavy long-distance pairs: byte-hops draw the circuit away from the hot link."""
    net = of(nx.cycle_graph(10))
    demand = np.zeros((10, 10))
    demand[0, 5] = 30.0  # 150 byte-hops, over two ways
    demand[7, 8] = 100.0  # 100 byte-hops on one link
    hot = {o: select(net, demand, ports=1, most=1, objective=o, capacity=1.0) for o in ("sum", "phi", "max")}
    assert hot["sum"].circuits.pairs() == [(0, 5)]
    assert hot["phi"].circuits.pairs() == hot["max"].circuits.pairs() == [(7, 8)]
    assert hot["phi"].after.max_s < hot["sum"].after.max_s


def test_max_reaches_the_exhaustive_best_on_small_networks():
    rng = np.random.default_rng(11)
    worse = []
    for _ in range(4):
        net = of(nx.cycle_graph(6))
        demand = heavy(rng, 6, 0.5)

        def pick(method, net=net, demand=demand):
            return select(net, demand, method=method, ports=1, most=2, objective="max", capacity=1.0).after.max_s

        ours, best = pick("eefi"), pick("exhaustive")
        assert ours >= best * (1 - 1e-9)
        worse.append(ours / best)
    assert np.mean(worse) < 1.2


def test_renumbering_switches_renumbers_circuits():
    rng = np.random.default_rng(9)
    graph = nx.random_regular_graph(3, 14, seed=2)
    demand = heavy(rng, 14)
    order = rng.permutation(14)
    moved = nx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    other = nx.Graph()
    other.add_nodes_from(range(14))
    other.add_edges_from(moved.edges)
    there = np.zeros((14, 14))
    there[np.ix_(order, order)] = demand
    a = select(from_networkx(graph, capacity=1.0, latency=0.0), demand, ports=1)
    b = select(from_networkx(other, capacity=1.0, latency=0.0), there, ports=1)
    mapped = [tuple(sorted((int(order[x]), int(order[y])))) for x, y in a.circuits.pairs()]
    assert mapped == b.circuits.pairs()
    assert a.revenue == pytest.approx(b.revenue)


BAD = [
    ({"method": "efi"}, "circuit selector: unknown name, got 'efi'; did you mean 'eefi'?"),
    ({"ports": -1}, "ports: must be 0 or more, got -1"),
    ({"ports": 1.5}, "ports: must be whole numbers, got 1.5"),
    ({"ports": [1, 2]}, "ports: must be one number, or one for each of the 6 switches, got shape (2,)"),
    ({"objective": "mean"}, "objective: must be one of sum, phi, max, got 'mean'"),
    ({"capacity": 0.0}, "circuit capacity: must be above 0 bytes per second, got 0.0"),
    ({"most": -1}, "most: must be 0 or more circuits, got -1"),
    ({"candidates": [(0, 9)]}, "circuit 0: must join two of the 6 switches, got 0 and 9"),
    ({"depth": 3}, "circuit selector eefi: has no options, got 'depth'"),
    ({"method": "shift", "offsets": [6]}, "circuit selector shift: offsets must not be multiples of 6, got [6]"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input(change, message):
    with pytest.raises(InputError) as error:
        select(of(nx.cycle_graph(6)), np.ones((6, 6)), **{"ports": 1, **change})
    assert str(error.value).startswith(message)


def test_nothing_to_choose():
    net = of(nx.cycle_graph(6))
    for method in sorted(selectors):
        assert len(select(net, np.zeros((6, 6)), method=method, ports=0).circuits) == 0
