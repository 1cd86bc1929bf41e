"""Every registered generator, by the same tests; then parameters, sizing, and the families one by one against theory."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.topologies import (
    Topology,
    build,
    describe,
    dragonfly,
    dragonfly_plus,
    fat_tree,
    k_ary_n_tree,
    machines,
    mesh,
    to_networkx,
    topologies,
    torus,
    xgft,
)
from netsim.topologies.dragonflies import ARRANGEMENTS, TRUNKS, global_ports
from netsim.topologies.many_links import MANY_LINKS

SIZED = [name for name in topologies if topologies[name].sizer is not None]


def switch_graph(net: Topology) -> nx.Graph[int]:
    """Oracle: a plain networkx graph of the switches."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(net.n_hosts, net.n_vertices))
    for u, v in zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True):
        if min(u, v) >= net.n_hosts:
            graph.add_edge(u, v)
    return graph


def cables_by_layer(net: Topology) -> dict[str, int]:
    return {name: int((net.link_layer == i).sum()) // 2 for i, name in enumerate(net.layer_names)}


# Every generator that can be sized ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("n_hosts", [1, 2, 7, 64, 100])
def test_sized_instance_holds_the_hosts_and_is_sound(name: str, n_hosts: int) -> None:
    net = build(name, n_hosts=n_hosts)
    assert net.family == name
    assert net.n_hosts >= n_hosts
    # Links come in cables: rows 2c and 2c + 1 are opposite and alike.
    assert np.array_equal(net.link_src[0::2], net.link_dst[1::2])
    assert np.array_equal(net.link_dst[0::2], net.link_src[1::2])
    assert np.array_equal(net.link_layer[0::2], net.link_layer[1::2])
    # Every host has one link up, but for the families made of such hosts; everything is joined.
    assert np.all(np.diff(net.out_ptr)[: net.n_hosts] == (2 if name in MANY_LINKS else 1))
    assert nx.is_connected(nx.Graph(to_networkx(net)) if name in MANY_LINKS else switch_graph(net))
    # The same call gives the same bytes, and the recorded parameters rebuild it.
    assert build(name, n_hosts=n_hosts).content_hash == net.content_hash
    assert build(name, **net.params).content_hash == net.content_hash


@pytest.mark.parametrize("name", SIZED)
def test_sized_instance_is_the_smallest_of_its_kind(name: str) -> None:
    sizes = [build(name, n_hosts=n).n_hosts for n in range(1, 120)]
    # Asking for exactly what an instance holds gives that instance, asking for one more gives a larger one.
    assert sizes == sorted(sizes)
    for held in sorted(set(sizes)):
        assert build(name, n_hosts=held).n_hosts == held
        assert build(name, n_hosts=held + 1).n_hosts > held


@pytest.mark.parametrize("name", list(topologies))
def test_documentation_is_complete(name: str) -> None:
    made = topologies[name]
    text = made.help()
    assert made.summary().endswith(".")
    assert "{parameters}" not in (made.function.__doc__ or "")
    for parameter in made.parameters:
        assert re.search(rf"^  {parameter.name} +\S", text, re.MULTILINE)
        assert f"    {parameter.name} : {parameter.range_text}" in (made.function.__doc__ or "")


@pytest.mark.parametrize("name", SIZED)
def test_capacity_and_latency_reach_the_links(name: str) -> None:
    net = build(name, n_hosts=20, capacity="40Gbps", latency="1us")
    # A layer of another kind of link has a default of its own.
    same = np.array([layer != "nvlink" for layer in net.layer_names])[net.link_layer]
    assert np.all(net.link_capacity_bytes_per_s[same] == 5e9)
    assert np.all(net.link_latency_s == 1e-6)
    default = build(name, n_hosts=20)
    assert np.all(default.link_capacity_bytes_per_s[same] == 12.5e9)
    assert np.all(default.link_capacity_bytes_per_s[~same] == 450e9)
    assert np.all(default.link_latency_s == 200e-9)


@pytest.mark.parametrize("name", SIZED)
def test_65536_hosts_take_seconds(name: str) -> None:
    begin = time.perf_counter()
    net = build(name, n_hosts=65_536)
    assert time.perf_counter() - begin < 10
    assert net.n_hosts >= 65_536


@pytest.mark.parametrize(
    ("name", "params", "layer", "key"),
    [
        ("dragonfly", {"p": 2}, "host", "host"),
        ("dragonfly", {"p": 2}, "local", "local"),
        ("dragonfly", {"p": 2}, "global", "global"),
        ("dragonfly_plus", {"p": 2}, "local", "local"),
        ("dragonfly_plus", {"p": 2}, "global", "global"),
        ("hyperx", {"dims": "3x3"}, "dimension 1", "switch"),
        ("polarfly", {"q": 3}, "quadric", "switch"),
        ("rail_optimized", {"nodes": 9}, "nvlink", "nvlink"),
        ("rail_optimized", {"nodes": 9}, "leaf-spine", "leaf"),
        ("twisted_torus", {"dims": "6x3"}, "dimension 1", "switch"),
        ("slim_fly", {"q": 3}, "across", "switch"),
        ("jellyfish", {"n_switches": 8, "degree": 3}, "switch", "switch"),
        ("fat_tree", {"k": 4}, "edge-aggregation", "edge"),
        ("fat_tree", {"k": 4}, "aggregation-core", "core"),
        ("xgft", {"m": "4,4", "w": "1,2"}, "level 1-2", "switch"),
        ("k_ary_n_tree", {"k": 2, "n": 3}, "host", "host"),
        ("torus", {"dims": "3x3"}, "dimension 1", "switch"),
        ("mesh", {"dims": "3x3"}, "host", "host"),
    ],
)
def test_layers_have_their_own_capacity_and_latency(name: str, params: Any, layer: str, key: str) -> None:
    net = build(name, **params, **{f"{key}_capacity": "1GB/s", f"{key}_latency": 3e-6})
    here = net.link_layer == net.layer_names.index(layer)
    assert np.all(net.link_capacity_bytes_per_s[here] == 1e9)
    assert np.all(net.link_latency_s[here] == 3e-6)
    others = ~here & (net.link_layer == 0) if layer != "host" else ~here
    others &= net.link_layer != (net.layer_names.index("nvlink") if "nvlink" in net.layer_names else -1)
    assert np.all(net.link_capacity_bytes_per_s[others] == 12.5e9)


# Parameters ---------------------------------------------------------------------------------------------------------


def test_text_parameters_equal_typed_ones() -> None:
    assert (
        build("dragonfly", p="2", a="4", h="2", g="5", capacity="12.5GB/s").content_hash
        == dragonfly(2, 4, 2, 5, capacity=12.5e9).content_hash
    )
    for text in ("4x2", "4,2", "(4, 2)", (4, 2), [4, 2], np.array([4, 2])):
        assert build("torus", dims=text).content_hash == torus((4, 2)).content_hash


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        (
            "dragonfly",
            {"p": 2, "bandwith": 1},
            "topology dragonfly: unknown parameter, got 'bandwith'; did you mean 'capacity'? valid: a, arrangement, capacity, g, "
            "global_capacity, global_latency, h, host_capacity, host_latency, latency, local_capacity, "
            "local_latency, p, seed, trunks",
        ),
        ("star", {"n": 2, "latancy": 1}, "topology star: unknown parameter, got 'latancy'; "
         "did you mean 'latency'? valid: capacity, latency, n"),
        ("dragonflie", {}, "topology: unknown name, got 'dragonflie'; did you mean 'dragonfly'? valid: "
         + ", ".join(sorted([*topologies, *machines]))),
        ("dragonfly", {}, "topology dragonfly: needs p="),
        ("xgft", {"m": "2,2"}, "topology xgft: needs w="),
        ("star", {"n": "four"}, "star n: must be a whole number, 1 or more, got 'four'"),
        ("star", {"n": 0}, "star n: must be a whole number, 1 or more, got 0"),
        ("star", {"n": 2.5}, "star n: must be a whole number, 1 or more, got 2.5"),
        ("star", {"n": True}, "star n: must be a whole number, 1 or more, got True"),
        ("torus", {"dims": "4x0"}, "torus dims: must be a whole number, 1 or more, got 0"),
        ("torus", {"dims": ""}, "torus dims: must be a whole number, 1 or more, got ''"),
        ("mesh", {"dims": ()}, "mesh dims: must have at least one number, got ()"),
        ("star", {"n": 2, "capacity": "100"}, "star capacity: a bare number could mean several units of rate, "
         "got '100'; write '100Gbps' or '100GB/s'"),
        ("star", {"n": 2, "capacity": 0}, "star capacity: must be above 0 bytes per second, got 0"),
        ("star", {"n": 2, "capacity": math.nan},
         "star capacity: rate in bytes per second must not be negative or NaN, got nan"),
        ("star", {"n": 2, "latency": "inf s"}, "star latency: must be finite, got inf s"),
        ("dragonfly", {"p": 1, "arrangement": "palm"}, "dragonfly arrangement: unknown choice, got 'palm'; "
         "did you mean 'palmtree'? valid: absolute, circulant, palmtree, random, relative"),
        ("dragonfly", {"p": 2, "a": 4, "h": 2, "g": 10},
         "dragonfly: a=4 and h=2 join at most 9 groups, got g=10; take g=9 or raise a or h"),
        ("fat_tree", {"k": 5}, "fat_tree k: must be even, got 5; take k=4 or k=6"),
        ("xgft", {"m": "4,4", "w": "1"},
         "xgft: m and w must have one number per level each, got 2 numbers for m and 1 for w"),
        ("xgft", {"m": "9999999,999999", "w": "1,1"},
         "xgft: must have fewer than 2^31 vertices and links, got 9999990000001 vertices and 19999980000000 links; "
         "choose a smaller network"),
        ("torus", {"dims": "99999x99999"},
         "torus: must have fewer than 2^31 vertices and links, got 19999600002 vertices and 59998800006 links; "
         "choose a smaller network"),
    ],
)  # fmt: skip
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(name, **params)


def test_params_keep_quantities_as_written() -> None:
    assert build("star", n="2", capacity="40Gbps").params == {"n": 2, "capacity": "40Gbps", "latency": "200ns"}
    # None means "not given", for every parameter.
    assert build("star", n=2, capacity=None, latency=None).content_hash == build("star", n=2).content_hash


def test_size_parameters_win_over_the_number_of_hosts() -> None:
    assert build("dragonfly", n_hosts=64, p=1, a=2, h=1).n_hosts == 6
    assert build("dragonfly", n_hosts=64, arrangement="absolute", capacity="1GB/s").n_hosts == 72


def test_sizing_needs_hosts() -> None:
    with pytest.raises(InputError, match=r"^topology star: the number of hosts must be 1 or more, got 0$"):
        build("star", n_hosts=0)


# Dragonfly ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trunks", TRUNKS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@settings(max_examples=60, deadline=None)
@given(g=st.integers(2, 14), m=st.integers(1, 4))
def test_global_ports_are_a_perfect_matching(arrangement: str, trunks: str, g: int, m: int) -> None:
    group, port = global_ports(g, m, arrangement, trunks, seed=m)
    assert group.shape == (g, m * (g - 1))
    for s, k in itertools.product(range(g), range(m * (g - 1))):
        d, far = group[s, k], port[s, k]
        assert d != s
        assert (group[d, far], port[d, far]) == (s, k)
    for s in range(g):
        assert Counter(group[s].tolist()) == {d: m for d in range(g) if d != s}
        if arrangement != "random":
            # Spread: one of each other group in every g - 1 ports. Bundled: m ports of one group side by side.
            shape = (m, g - 1) if trunks == "spread" else (g - 1, m)
            rows = [set(row) for row in group[s].reshape(shape).tolist()]
            assert all(len(row) == (g - 1 if trunks == "spread" else 1) for row in rows)


@pytest.mark.parametrize(
    ("p", "a", "h", "g", "m"),
    [
        (1, 2, 1, 3, 1),
        (2, 4, 2, 9, 1),
        (2, 4, 2, 5, 2),
        (2, 4, 2, 3, 4),
        (4, 8, 4, 33, 1),
        (3, 5, 2, 7, 1),
        (1, 1, 4, 5, 1),
    ],
)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_dragonfly_counts(p: int, a: int, h: int, g: int, m: int, arrangement: str) -> None:
    """Kim et al. 2008: g groups of a routers in full mesh, m = floor(ah / (g-1)) links per group pair."""
    net = dragonfly(p, a, h, g, arrangement=arrangement)
    assert (net.n_hosts, net.n_switches) == (p * a * g, a * g)
    assert cables_by_layer(net) == {"host": p * a * g, "local": g * a * (a - 1) // 2, "global": m * g * (g - 1) // 2}
    group = (np.stack([net.link_src, net.link_dst]) - net.n_hosts) // a
    wide = net.link_layer == net.layer_names.index("global")
    pairs = Counter(zip(group[0, wide].tolist(), group[1, wide].tolist(), strict=True))
    assert pairs == {(s, d): m for s in range(g) for d in range(g) if s != d}
    ports = np.bincount(net.link_src[wide] - net.n_hosts, minlength=a * g)
    assert ports.max() <= h
    assert nx.is_connected(switch_graph(net))


def test_dragonfly_average_distances() -> None:
    """Values of the reference literature's arrangements, from networkx on the generated graph."""
    expected = {"palmtree": 2.342857, "relative": 2.342857, "absolute": 2.352381, "circulant": 2.328571}
    for arrangement, average in expected.items():
        graph = switch_graph(dragonfly(2, 4, 2, arrangement=arrangement))
        assert nx.average_shortest_path_length(graph) == pytest.approx(average, abs=5e-7)
        assert nx.diameter(graph) == 3


@pytest.mark.parametrize("arrangement", ARRANGEMENTS[:4])
def test_trunks_change_the_routers_not_the_pairs(arrangement: str) -> None:
    """With m = h = 2 links per pair, bundled ones share both routers and spread ones do not."""
    for trunks, parallel in (("spread", 1), ("bundled", 2)):
        net = dragonfly(2, 4, 2, 5, arrangement=arrangement, trunks=trunks)
        wide = net.link_layer == net.layer_names.index("global")
        pairs = Counter(zip(net.link_src[wide].tolist(), net.link_dst[wide].tolist(), strict=True))
        assert set(pairs.values()) == {parallel}
        assert net.params["trunks"] == trunks
        assert build("dragonfly", **net.params).content_hash == net.content_hash


def test_random_arrangement_is_by_seed() -> None:
    nets = [dragonfly(2, arrangement="random", seed=seed) for seed in (1, 1, 2)]
    assert nets[0].content_hash == nets[1].content_hash != nets[2].content_hash
    assert build("dragonfly", **nets[2].params).content_hash == nets[2].content_hash
    # A seed makes no difference elsewhere, and is no size.
    assert dragonfly(2, seed=5).params == dragonfly(2).params
    assert build("dragonfly", n_hosts=40, seed=1, arrangement="random").n_hosts == 72


@pytest.mark.parametrize(
    ("p", "l", "s", "h", "g", "m"),
    [(2, 2, 2, 2, 5, 1), (4, 4, 4, 4, 17, 1), (1, 3, 2, 4, 5, 2), (3, 2, 5, 1, 3, 2), (2, 1, 1, 1, 2, 1)],
)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_dragonfly_plus(p: int, l: int, s: int, h: int, g: int, m: int, arrangement: str) -> None:
    """Shpiner et al. 2017: leaves and spines of a group in full bipartite, m = floor(sh / (g-1)) links per pair."""
    net = dragonfly_plus(p, l, s, h, g, arrangement=arrangement)
    assert (net.n_hosts, net.n_switches) == (p * l * g, (l + s) * g)
    assert cables_by_layer(net) == {"host": p * l * g, "local": g * l * s, "global": m * g * (g - 1) // 2}
    group, place = np.divmod(np.stack([net.link_src, net.link_dst]).astype(int) - net.n_hosts, l + s)
    up, inside, wide = (net.link_layer == i for i in range(3))
    host = net.link_src < net.n_hosts
    assert np.array_equal(group[1, up & host] * l + place[1, up & host], np.arange(net.n_hosts) // p)
    assert np.all(place[1, up & host] < l)
    assert np.array_equal(group[0, inside], group[1, inside])
    assert np.all((place[:, inside] < l).sum(axis=0) == 1)
    assert len(set(zip(net.link_src[inside].tolist(), net.link_dst[inside].tolist(), strict=True))) == 2 * g * l * s
    assert np.all(place[:, wide] >= l)
    pairs = Counter(zip(group[0, wide].tolist(), group[1, wide].tolist(), strict=True))
    assert pairs == {(a, b): m for a in range(g) for b in range(g) if a != b}
    assert np.bincount(net.link_src[wide] - net.n_hosts).max() <= h
    found = describe(net).between_hosts
    assert found.diameter == (3 if g > 1 else 2)
    leaves = l * g
    assert found.average == pytest.approx((2 * (l - 1) + 3 * (leaves - l)) / (leaves - 1), rel=1e-12)
    assert describe(net).links_per_group_pair == m


@pytest.mark.parametrize(("radix", "hosts"), [(16, 4160), (36, 105_300), (64, 1_049_600)])
def test_dragonfly_plus_sizes(radix: int, hosts: int) -> None:
    """(k/2)^2 hosts per group and (k/2)^2 + 1 groups at radix k."""
    net = dragonfly_plus(radix // 2)
    assert net.n_hosts == hosts
    assert np.all(np.diff(net.out_ptr)[net.n_hosts :] == radix)
    assert net.vertex_name(net.n_hosts) == "group 0 leaf 0"
    assert net.vertex_name(net.n_hosts + radix + radix // 2) == "group 1 spine 0"


def test_dragonfly_single_group_and_balanced_default() -> None:
    alone = dragonfly(1, 4, 1, 1)
    assert cables_by_layer(alone) == {"host": 4, "local": 6, "global": 0}
    assert dragonfly(4).params["a"] == 8
    assert dragonfly(4).content_hash == dragonfly(4, 8, 4, 33).content_hash


# Trees --------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data(), levels=st.integers(1, 4))
def test_xgft_formulas(data: st.DataObject, levels: int) -> None:
    """Oehring et al. 1995: level l has prod_{i>l} m_i prod_{i<=l} w_i nodes, each with w_{l+1} parents and m_l children."""
    m = tuple(data.draw(st.lists(st.integers(1, 4), min_size=levels, max_size=levels)))
    w = tuple(data.draw(st.lists(st.integers(1, 3), min_size=levels, max_size=levels)))
    net = xgft(m, w)
    count = [math.prod(m[level:]) * math.prod(w[:level]) for level in range(levels + 1)]
    assert net.n_hosts == count[0]
    assert net.n_switches == sum(count[1:])
    assert list(cables_by_layer(net).values()) == [count[level] * w[level] for level in range(levels)]
    first = np.cumsum([0, *count])
    up = net.link_dst > net.link_src
    degree_up = np.bincount(net.link_src[up], minlength=net.n_vertices)
    degree_down = np.bincount(net.link_dst[up], minlength=net.n_vertices)
    for level in range(levels + 1):
        nodes = slice(first[level], first[level + 1])
        assert np.all(degree_up[nodes] == (w[level] if level < levels else 0))
        assert np.all(degree_down[nodes] == (m[level - 1] if level else 0))
    # A host reaches exactly the hosts of its subtree of height l by going up l levels: labels differ in the low digits only.
    graph = nx.Graph(list(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True)))
    source = data.draw(st.integers(0, net.n_hosts - 1))
    length = nx.single_source_shortest_path_length(graph, source)
    below = [math.prod(m[:level]) for level in range(levels + 1)]
    for host in range(net.n_hosts):
        height = next(level for level in range(levels + 1) if host // below[level] == source // below[level])
        assert length[host] == 2 * height


@pytest.mark.parametrize(
    ("m", "w", "nodes", "cables"),
    [
        ((4, 4), (1, 4), (16, 4, 4), (16, 16)),
        ((4, 4), (1, 2), (16, 4, 2), (16, 8)),
        ((4, 4, 4), (1, 2, 2), (64, 16, 8, 4), (64, 32, 16)),
        ((4, 4, 8), (1, 4, 4), (128, 32, 32, 16), (128, 128, 128)),
        ((18, 14), (1, 18), (252, 14, 18), (252, 252)),
    ],
)
def test_xgft_examples(m: tuple[int, ...], w: tuple[int, ...], nodes: Any, cables: Any) -> None:
    net = xgft(m, w)
    assert (net.n_hosts, net.n_switches) == (nodes[0], sum(nodes[1:]))
    assert tuple(cables_by_layer(net).values()) == cables


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_fat_tree_is_al_fares(k: int) -> None:
    net = fat_tree(k)
    assert (net.n_hosts, net.n_switches) == (k**3 // 4, 5 * k * k // 4)
    assert all(n == k**3 // 4 for n in cables_by_layer(net).values())
    # Every switch uses exactly its k ports; every core has one link to each pod.
    assert np.all(np.diff(net.out_ptr)[net.n_hosts :] == k)
    pods = {net.vertex_name(v): v for v in range(net.n_vertices)}
    for core in range((k // 2) ** 2):
        links = net.out_links(pods[f"core {core}"])
        assert sorted(net.vertex_name(int(v)).split()[1] for v in net.link_dst[links]) == sorted(map(str, range(k)))


@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 3), (4, 2), (3, 3)])
def test_k_ary_n_tree_counts(k: int, n: int) -> None:
    net = k_ary_n_tree(k, n)
    assert (net.n_hosts, net.n_switches) == (k**n, n * k ** (n - 1))
    assert sum(cables_by_layer(net).values()) == n * k**n


# Torus and mesh -----------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=3), wrap=st.booleans(), hosts=st.integers(0, 2))
def test_grid_is_the_cartesian_product_of_rings_or_lines(dims: list[int], wrap: bool, hosts: int) -> None:
    """Oracle: networkx.grid_graph, whose simple graph has one edge on a ring of two and none on a ring of one."""
    net = (torus if wrap else mesh)(dims, hosts)
    assert net.n_hosts == hosts * math.prod(dims)
    # Only sides above 2 are rings: networkx would add self-loops on a side of one.
    oracle = nx.grid_graph(dims[::-1], periodic=[wrap and side > 2 for side in dims[::-1]])
    if len(dims) == 1:
        oracle = nx.relabel_nodes(oracle, {v: (v,) for v in oracle if isinstance(v, int)})
    number = {place: net.n_hosts + i for i, place in enumerate(np.ndindex(*dims))}
    wanted = {frozenset((number[u], number[v])) for u, v in oracle.edges}
    links = [
        (u, v) for u, v in zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True) if min(u, v) >= net.n_hosts
    ]
    assert len(links) == len(set(links)) == 2 * len(wanted)
    assert {frozenset(ends) for ends in links} == wanted


def test_side_of_two_has_one_link_each_way() -> None:
    assert cables_by_layer(torus((2,))) == {"host": 2, "dimension 0": 1}
    assert cables_by_layer(torus((4, 2, 1))) == {"host": 8, "dimension 0": 8, "dimension 1": 4, "dimension 2": 0}
    assert torus((2, 2, 2)).content_hash == mesh((2, 2, 2)).content_hash
