"""Fluid loads against enumeration of paths, closed forms of saturation, the linear program above, the engine beside."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.cli import main
from netsim.core.errors import InputError
from netsim.routing import Demand, demand, fluid_loads, minimal, patterns, saturation
from netsim.routing.fluid import transport
from netsim.topologies import Topology, dragonfly, fat_tree, from_networkx, mesh, star, torus, xgft
from netsim.validation import throughput

PART = dict[int, float]


def enumerated(net: Topology, wanted: Demand, routes: Callable[[int, int], PART]) -> np.ndarray:
    """Loads by going through all pairs of hosts; ``routes`` gives the part of each link between two switches."""
    load = np.zeros(net.n_links)
    for s, d, share in zip(*(column.tolist() for column in wanted.pairs()), strict=True):
        up, down = int(net.out_links(s)[0]), int(net.in_link[net.in_ptr[d]])
        amount = share * net.link_capacity_bytes_per_s[up]
        for link, part in {up: 1.0, down: 1.0}.items():
            load[link] += part * amount
        for link, part in routes(int(net.link_dst[up]), int(net.link_src[down])).items():
            load[link] += part * amount
    return load


def add(*parts: tuple[float, PART]) -> PART:
    total: PART = {}
    for weight, part in parts:
        for link, x in part.items():
            total[link] = total.get(link, 0.0) + weight * x
    return total


def by_next_hop(net: Topology) -> Callable[[int, int], PART]:
    """Recursion over shortest next links, distances by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(net.n_vertices))
    graph.add_edges_from(
        (u, v) for u, v in zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True) if min(u, v) >= net.n_hosts
    )
    distance = dict(nx.all_pairs_shortest_path_length(graph))

    def routes(u: int, v: int) -> PART:
        if u == v:
            return {}
        near = [
            int(link)
            for link in net.out_links(u)
            if net.link_dst[link] >= net.n_hosts
            and distance[int(net.link_dst[link])].get(v, 10**9) == distance[u][v] - 1
        ]
        return add(*((1 / len(near), add((1, {link: 1.0}), (1, routes(int(net.link_dst[link]), v)))) for link in near))

    return routes


def canonical(net: Topology) -> Callable[[int, int], PART]:
    """Local, global, local over each link of the two groups alike."""
    a = net.params["a"]

    def hop(u: int, v: int) -> PART:
        return {int(link): 1.0 for link in net.out_links(u) if net.link_dst[link] == v} if u != v else {}

    def group(v: int) -> int:
        return (v - net.n_hosts) // a

    def routes(u: int, v: int) -> PART:
        if group(u) == group(v):
            return hop(u, v)
        over = [
            k
            for k in range(net.n_links)
            if min(net.link_src[k], net.link_dst[k]) >= net.n_hosts
            and (group(net.link_src[k]), group(net.link_dst[k])) == (group(u), group(v))
        ]
        return add(
            *(
                (1 / len(over), add((1, hop(u, net.link_src[k])), (1, {k: 1.0}), (1, hop(net.link_dst[k], v))))
                for k in over
            )
        )

    return routes


def random_demand(n: int, seed: int) -> Demand:
    rng = np.random.default_rng(seed)
    table = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
    np.fill_diagonal(table, 0.0)
    s, d = np.nonzero(table)
    if not s.size:
        s, d = np.array([0]), np.array([1])
        table[0, 1] = 1.0
    uniform = 0.25 * int(rng.integers(0, 3))
    return Demand.of(n, s, d, table[s, d] / table.sum(axis=1)[s] * (1 - uniform), uniform_share=uniform)


# Loads against enumeration --------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(n=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_equal_parts_over_next_hops(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.MultiGraph(nx.path_graph(n))
    graph.add_edges_from((int(u), int(v)) for u, v in rng.integers(0, n, (2 * n, 2)) if u != v)
    net = from_networkx(graph, hosts_per_switch=2, capacity=1.0)
    wanted = random_demand(net.n_hosts, seed)
    found = fluid_loads(net, wanted, routing="ecmp")
    assert found == pytest.approx(enumerated(net, wanted, by_next_hop(net)), rel=1e-12, abs=1e-12)


shapes = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.integers(0, 9))


@settings(max_examples=20)
@given(shape=shapes, arrangement=st.sampled_from(["palmtree", "absolute", "circulant"]), seed=st.integers(0, 10**6))
def test_dragonfly_minimal_and_valiant(shape: tuple[int, int, int, int], arrangement: str, seed: int) -> None:
    p, a, h, more = shape
    g = min(a * h + 1, 2 + more)
    net = dragonfly(p, a, h, g, arrangement=arrangement, capacity=1.0)
    wanted = random_demand(net.n_hosts, seed)
    short = canonical(net)
    group = [(v - net.n_hosts) // a for v in range(net.n_vertices)]

    def through(u: int, v: int, middles: list[list[int]]) -> PART:
        if group[u] == group[v] or not middles:
            return short(u, v)
        return add(
            *((1 / len(middles), add(*((1, short(*leg)) for leg in itertools.pairwise([u, *m, v])))) for m in middles)
        )

    def by_router(u: int, v: int) -> PART:
        inner = range(net.n_hosts, net.n_vertices)
        return through(u, v, [[x] for x in inner if group[x] not in (group[u], group[v])])

    def by_group(u: int, v: int) -> PART:
        if group[u] == group[v] or g == 2:
            return short(u, v)
        parts = []
        for x in range(g):
            if x not in (group[u], group[v]):
                # Where minimal paths into the group arrive: the far ends of its links from the source's group.
                ends = [
                    int(net.link_dst[k])
                    for k in range(net.n_links)
                    if net.link_src[k] >= net.n_hosts and net.link_dst[k] >= net.n_hosts
                    and (group[net.link_src[k]], group[net.link_dst[k]]) == (group[u], x)
                ]  # fmt: skip
                arrive = short(u, net.n_hosts + x * a)
                into = {
                    k: part for k, part in arrive.items() if group[net.link_dst[k]] != x or group[net.link_src[k]] != x
                }
                parts.append((1 / (g - 2), add((1, into), *((1 / len(ends), short(end, v)) for end in ends))))
        return add(*parts)

    for name, routes in (("ecmp", short), ("valiant-router", by_router), ("valiant-group", by_group)):
        found = fluid_loads(net, wanted, routing=name)
        assert found == pytest.approx(enumerated(net, wanted, routes), rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("net", [torus((4, 3)), torus((6,)), torus((2, 5), 2), mesh((3, 4)), torus((1, 4, 4))])
def test_dimension_order_walks(net: Topology) -> None:
    dims, wrap = net.params["dims"], net.family == "torus"
    ways = {(int(u), int(v)): i for i, (u, v) in enumerate(zip(net.link_src, net.link_dst, strict=True))}

    def routes(u: int, v: int) -> PART:
        here, end = (list(np.unravel_index(x - net.n_hosts, dims)) for x in (u, v))
        found: PART = {}
        for d, side in enumerate(dims):
            up = int(end[d] - here[d]) % side if wrap else int(end[d] - here[d])
            down = side - up
            steps = [(up, 1.0)] if not wrap or up < down else [(-down, 1.0)] if down < up else [(up, 0.5), (-down, 0.5)]
            if up == 0 or side == 2:
                steps = [(up, 1.0)]
            for step, weight in steps:
                at = list(here)
                for _ in range(abs(step)):
                    before = tuple(at)
                    at[d] = (at[d] + (1 if step > 0 else -1)) % side
                    one, two = (net.n_hosts + int(np.ravel_multi_index(tuple(x), dims)) for x in (before, at))
                    found[ways[one, two]] = found.get(ways[one, two], 0.0) + weight
            here[d] = end[d]
        return found

    wanted = random_demand(net.n_hosts, 4)
    unit = net.link_capacity_bytes_per_s[0]
    found = fluid_loads(net, wanted, routing="dimension-order") / unit
    assert found == pytest.approx(enumerated(net, wanted, routes) / unit, rel=1e-12, abs=1e-12)


def test_valiant_on_a_ring_goes_through_every_switch() -> None:
    net = torus((5,), capacity=1.0)
    short = by_next_hop(net)

    def routes(u: int, v: int) -> PART:
        return add(*((1 / 5, add((1, short(u, x)), (1, short(x, v)))) for x in range(5, 10)))

    wanted = random_demand(5, 1)
    assert fluid_loads(net, wanted, routing="valiant-router") == pytest.approx(
        enumerated(net, wanted, routes), rel=1e-12
    )


@pytest.mark.parametrize("net", [fat_tree(4), xgft((3, 2), (2, 2)), dragonfly(2, 2, 1), star(5)])
def test_folding_uniform_traffic_equals_all_its_pairs(net: Topology) -> None:
    whole = demand(net, "uniform")
    spelt = Demand.of(net.n_hosts, *whole.pairs())
    one, two = transport(net, whole), transport(net, spelt)
    assert one.amount_bytes_per_s == pytest.approx(two.amount_bytes_per_s, rel=1e-12)
    assert one.host_load_bytes_per_s == pytest.approx(two.host_load_bytes_per_s, rel=1e-12)
    assert one.total_bytes_per_s == pytest.approx(two.total_bytes_per_s, rel=1e-12)


# Throughput -------------------------------------------------------------------------------------------------------------


def test_closed_forms_hold(jit: bool) -> None:
    rows = throughput.cases()
    assert len(rows) > 60
    checks = throughput.routing_checks(rows if jit else rows[::6])
    assert [check.name for check in checks if not check.ok] == []


@pytest.mark.compiled
def test_packet_simulations_stay_below_the_fluid(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = throughput.packet_checks()
    assert len(checks) == 10
    assert all(check.ok for check in checks)
    # A fluid that carried less than packets did would be wrong.
    real = throughput.saturation

    def less(net, **options):
        found = real(net, **options)
        return dataclasses.replace(found, throughput=found.throughput * 0.5)

    monkeypatch.setattr(throughput, "saturation", less)
    assert not all(check.ok for check in throughput.packet_checks())


def test_every_family_is_checked() -> None:
    from netsim.topologies import topologies

    seen = {case.topology.family for case in throughput.cases()}
    # A star has no link between switches; hypercubes and flattened butterflies are tori and HyperX; the rest are files and machines.
    others = {
        "star",
        "hypercube",
        "flattened_butterfly",
        "file",
        "tpu_v4",
        "frontier",
        "summit",
        "theta",
        "dgx_superpod",
    }
    assert set(topologies) - others <= seen


def test_a_wrong_closed_form_is_caught() -> None:
    rows = [dataclasses.replace(case, expected=case.expected * (1 + 1e-5)) for case in throughput.cases()]
    assert not any(check.ok for check in throughput.routing_checks(rows[::7]))


@pytest.mark.parametrize("m", [1, 2, 4])
def test_trunks(m: int) -> None:
    """m links per group pair: uniform traffic puts (ap)^2 / m pairs on each, adversarial traffic ap / m flows."""
    p, a, h = 2, 4, 2
    g = a * h // m + 1
    net = dragonfly(p, a, h, g)
    layers = saturation(net, pattern="uniform", routing="ecmp").layer_throughput
    assert layers["global"] == pytest.approx(m * (net.n_hosts - 1) / (a * p) ** 2, rel=1e-12)
    assert saturation(net, pattern="adv+1", routing="ecmp").throughput == pytest.approx(m / (a * p), rel=1e-12)


@settings(max_examples=12)
@given(n=st.integers(4, 8), seed=st.integers(0, 10**6))
def test_no_routing_beats_the_optimum(n: int, seed: int) -> None:
    net = from_networkx(nx.random_regular_graph(3, n + n % 2, seed=seed), hosts_per_switch=2)
    wanted = random_demand(net.n_hosts, seed)
    best = saturation(net, pattern=wanted, routing="optimum")
    for name in ("minimal", "ecmp", "valiant-router"):
        assert saturation(net, pattern=wanted, routing=name).throughput <= best.throughput * (1 + 1e-7)
    # And the optimum is a flow: what it sends crosses every cut of one switch, and no byte takes fewer links than the shortest path.
    source, destination, share = wanted.pairs()
    shortest = np.average(minimal(net, source, destination).hops, weights=share)
    assert best.hops >= shortest * (1 - 1e-9)


def test_optimum_against_a_cut() -> None:
    """Two triangles joined by one cable: all six hosts send across, three each way over one link."""
    net = from_networkx(nx.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]), hosts_per_switch=1)
    found = saturation(net, pattern="shift+3", routing="optimum")
    assert found.throughput == pytest.approx(1 / 3, rel=1e-9)


def test_limits_and_lengths() -> None:
    net = dragonfly(2, 4, 2)
    found = saturation(net, pattern="adv+1", routing="minimal")
    assert found.limiting_layer == "global"
    assert found.layer_hops["host"] == pytest.approx(2, rel=1e-12)
    assert found.layer_hops["global"] == pytest.approx(1, rel=1e-12)
    source = np.arange(72)
    assert found.hops == pytest.approx(minimal(net, source, (source + 8) % 72).hops.mean(), rel=1e-12)
    assert found.accepted == found.throughput == pytest.approx(1 / 8, rel=1e-12)
    alone = saturation(star(4))
    assert alone.throughput == np.inf
    assert alone.accepted == pytest.approx(1, rel=1e-12)
    assert alone.limiting_link == -1
    hot = saturation(star(11), pattern="hot-spot")
    # Host 0 receives a tenth from each of ten, and a tenth of 0.9 from each besides.
    assert hot.host_throughput == pytest.approx(1 / (10 * 0.1 + 10 * 0.9 / 10), rel=1e-12)


# Patterns ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(patterns))
def test_every_pattern(name: str) -> None:
    assert (patterns[name].__doc__ or "").strip().splitlines()[0].endswith((".", ";"))
    for net in (torus((4, 4)), fat_tree(4), dragonfly(1, 4, 1, 4)):
        if name == "adv" and net.family != "dragonfly":
            with pytest.raises(InputError, match=r"^pattern adv: needs groups: a dragonfly, got a "):
                demand(net, name)
            continue
        wanted = demand(net, name, seed=3)
        source, destination, share = wanted.pairs()
        assert np.all(source != destination)
        assert np.all(share > 0)
        sent = np.bincount(source, weights=share, minlength=16)
        assert np.all((sent == 0) | (np.abs(sent - 1) < 1e-12))
        again = demand(net, name, seed=3)
        assert np.array_equal(again.destination, wanted.destination)
        if wanted.uniform_share == 0:
            assert np.unique(destination).size == destination.size


def test_patterns_by_hand() -> None:
    net = torus((16,))
    to = {name: demand(net, name).destination.tolist() for name in ("bit-complement", "shift+5", "shift-1", "tornado")}
    assert to["bit-complement"] == list(range(15, -1, -1))
    assert to["shift+5"] == [(i + 5) % 16 for i in range(16)]
    assert to["shift-1"] == [(i - 1) % 16 for i in range(16)]
    assert to["tornado"] == [(i + 7) % 16 for i in range(16)]
    reversal = demand(net, "bit-reversal")
    assert dict(zip(reversal.source.tolist(), reversal.destination.tolist(), strict=True))[0b0010] == 0b0100
    transposed = demand(net, "transpose")
    assert dict(zip(transposed.source.tolist(), transposed.destination.tolist(), strict=True))[0b0111] == 0b1101
    assert demand(torus((5, 3), 2), "tornado").destination[0] == (2 * 3 + 1) * 2
    seeds = {tuple(demand(net, "random-permutation", seed=s).destination.tolist()) for s in range(5)}
    assert len(seeds) == 5
    # On a path of four the ends exchange, or everything moves two on: the sum of distances is 8 either way, and no more.
    longest = demand(mesh((4,)), "longest-matching")
    assert np.abs(longest.source - longest.destination).sum() == 8
    pairs = demand(mesh((4,), 3), "longest-matching")
    assert sorted(pairs.destination.tolist()) == list(range(12))


@pytest.mark.parametrize(
    ("net", "pattern", "message"),
    [
        (star(6), "bit-reversal", "pattern bit-reversal: the number of hosts must be a power of 2, got 6; take 4 or 8 hosts"),
        (star(6), "bit-complement", "pattern bit-complement: the number of hosts must be a power of 2, got 6; take 4 or 8 hosts"),
        (star(6), "transpose", "pattern transpose: the number of hosts must be a square, got 6; take 4 or 9 hosts"),
        (star(6), "shift+6", "pattern shift: the offset must not be a multiple of the 6 hosts, got 6"),
        (dragonfly(1), "adv+3", "pattern adv: the offset must not be a multiple of the 3 groups, got 3"),
        (star(6), "uniform+1", "pattern uniform: has no offset, got 'uniform+1'; write uniform"),
        (star(1), "uniform", "pattern: needs two hosts or more, got 1"),
        (torus((2, 2)), "tornado", "pattern tornado: needs a ring of three or more, got "
         "<Topology torus: 4 hosts, 4 switches, 16 directed links>; take shift"),
        (star(3), Demand.of(4, [0], [1]), "demand: must be for the 3 hosts of the topology, got 4"),
    ],
)  # fmt: skip
def test_bad_patterns(net: Topology, pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        demand(net, pattern)


def test_bad_demands_and_routings() -> None:
    with pytest.raises(InputError, match=r"^pattern: unknown name, got 'unifrom'; did you mean 'uniform'\? valid: "):
        saturation(star(3), pattern="unifrom")
    with pytest.raises(InputError, match=r"^routing: unknown name, got 'ecmpp'; did you mean 'ecmp'\? valid: "):
        saturation(star(3), routing="ecmpp")
    with pytest.raises(InputError, match=r"^routing valiant-group: needs a dragonfly, got a star; use valiant-router$"):
        saturation(star(3), routing="valiant-group")
    with pytest.raises(InputError, match=r"^demand: a host must not send more than it can inject, got 1.5 by host 0$"):
        Demand.of(3, [0, 0], [1, 2], [1.0, 0.5])
    with pytest.raises(InputError, match=r"^demand: destination must be one of the 3 hosts, got 3$"):
        Demand.of(3, [0], [3])
    with pytest.raises(InputError, match=r"^demand: must be at most 20000000 pairs .*, got 24995000; take ecmp"):
        saturation(torus((5000,)), routing="minimal")
    with pytest.raises(
        InputError, match=r"^routing optimum: must be at most 150000 variables .*; take a smaller network$"
    ):
        saturation(torus((20, 20)), routing="optimum")
    apart = from_networkx(nx.Graph([(0, 1), (2, 3)]), hosts_per_switch=1)
    for name in ("ecmp", "optimum", "minimal"):
        with pytest.raises(InputError, match=r"every pair that communicates must be joined, got "):
            saturation(apart, routing=name)


# Command line -----------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_saturate_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "saturate",
                "--topo",
                "dragonfly",
                "-p",
                "p=2",
                "--routing",
                "valiant-group",
                "--pattern",
                "adv+2",
                "--json",
            ]
        )
    found = json.loads(capsys.readouterr().out)
    assert stop.value.code == 0
    assert found["throughput"] == pytest.approx(7 / (2 * 2 * 6), rel=1e-9)
    assert found["limiting_layer"] == "local"
    with pytest.raises(SystemExit):
        main(["saturate", "--topo", "star", "--hosts", "4"])
    assert "no link between switches is used" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["patterns"])
    assert len(capsys.readouterr().out.splitlines()) == len(list(patterns))


@pytest.mark.compiled
def test_validation_fails_where_a_routing_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [case for case in throughput.cases() if case.network == "torus 8"]
    monkeypatch.setattr(throughput, "cases", lambda: rows)
    with pytest.raises(SystemExit) as stop:
        main(["validate", "routing"])
    assert stop.value.code == 0
    assert "optimum (LP)" in capsys.readouterr().out
    monkeypatch.setattr(throughput, "simulated_throughput", lambda *_, **__: 0.5)
    with pytest.raises(SystemExit) as stop:
        main(["validate", "routing"])
    assert stop.value.code == 1
