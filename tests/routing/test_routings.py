"""Every routing on every family: contiguous, loop-free, as short as it claims, deterministic; and bad input."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.routing import (
    Paths,
    adaptive_routings,
    check_paths,
    default_routing,
    link_loads,
    path_latency,
    paths,
    routings,
)
from netsim.routing.graphs import shortest_paths
from netsim.topologies import Topology, build, dragonfly, fat_tree, from_networkx, star, to_networkx, torus, xgft

NETWORKS: dict[str, dict[str, Any]] = {
    "star": {"n": 6},
    "dragonfly": {"p": 2, "a": 4, "h": 2, "g": 5},
    "fat_tree": {"k": 4},
    "k_ary_n_tree": {"k": 2, "n": 3},
    "xgft": {"m": (3, 2, 2), "w": (2, 1, 3)},
    "torus": {"dims": (4, 2, 3), "hosts": 2},
    "mesh": {"dims": (3, 1, 4)},
    "graph": {},
    "hyperx": {"dims": (3, 4), "hosts": 2, "trunk": (2, 1)},
    "flattened_butterfly": {"k": 3, "n": 3},
    "hypercube": {"n": 4},
    "full_mesh": {"n": 5, "hosts": 2, "trunk": 2},
    "slim_fly": {"q": 4, "hosts": 1},
    "polarfly": {"q": 4, "hosts": 2},
    "jellyfish": {"n_switches": 14, "degree": 3, "hosts": 2},
    "xpander": {"degree": 3, "lift": 4, "hosts": 2},
    "dragonfly_plus": {"p": 2},
    "twisted_torus": {"dims": (4, 2, 2), "hosts": 2},
    "bcube": {"n": 3, "k": 1},
    "rail_optimized": {"nodes": 9, "gpus": 2, "radix": 6},
}
TREES = ("fat_tree", "k_ary_n_tree", "xgft")
FITS = {
    "dimension-order": ("torus", "mesh"),
    "d-mod-k": TREES,
    "s-mod-k": TREES,
    "valiant-group": ("dragonfly",),
    "par": ("dragonfly",),
}
# The path of a flow depends on the flows decided before it.
ADAPTIVE = tuple(adaptive_routings)
NOT_MINIMAL = (*ADAPTIVE, "valiant", "valiant-router", "valiant-group", "k-shortest", "up-down")
ONE_LINK_PER_HOST = ("valiant", "valiant-router", "ugal-l", "ugal-g")


def refusal(name: str, net: Topology) -> str:
    """What a routing says about a network it does not fit, as a pattern; empty where it fits."""
    if net.family not in FITS.get(name, (net.family,)):
        return f"^routing {name}: needs .*, got a {net.family}; use "
    if name in ONE_LINK_PER_HOST and net.n_hosts and np.diff(net.out_ptr)[0] > 1:
        return f"^routing {name}: needs hosts with one link, to a switch, got host 0; use minimal or ecmp$"
    if name == "up-down" and net.host_transit.any():
        return (
            f"^routing {name}: every cable must lead both ways, and hosts do not forward, got pairs without such a path"
        )
    return ""


def network(name: str, **more: Any) -> Topology:
    if name == "graph":
        return from_networkx(nx.random_regular_graph(3, 12, seed=3), hosts_per_switch=2)
    return build(name, **NETWORKS[name], **more)


def all_pairs(net: Topology) -> tuple[np.ndarray, np.ndarray]:
    source, destination = np.divmod(np.arange(net.n_hosts**2), net.n_hosts)
    return source, destination


def shortest_lengths(net: Topology) -> np.ndarray:
    """Oracle: host-to-host distances by networkx."""
    graph = nx.DiGraph(to_networkx(net))
    return np.array([[nx.shortest_path_length(graph, s, d) for d in range(net.n_hosts)] for s in range(net.n_hosts)])


@pytest.mark.parametrize("family", list(NETWORKS))
@pytest.mark.parametrize("name", list(routings))
def test_every_routing_on_every_family(name: str, family: str) -> None:
    net = network(family)
    source, destination = all_pairs(net)
    if refusal(name, net):
        with pytest.raises(InputError, match=refusal(name, net)):
            routings[name](net, source, destination)
        return
    routes = routings[name](net, source, destination, flow=source, seed=5)
    check_paths(net, routes, source, destination)
    again = routings[name](net, source, destination, flow=source, seed=5)
    assert np.array_equal(routes.ptr, again.ptr)
    assert np.array_equal(routes.link, again.link)
    if name in NOT_MINIMAL:
        assert np.all(routes.hops.reshape(net.n_hosts, -1) >= shortest_lengths(net))
    elif net.family != "dragonfly":  # whose minimal paths are local-global-local, not the shortest of the graph
        assert np.array_equal(routes.hops.reshape(net.n_hosts, -1), shortest_lengths(net))
    # Each pair's path is its own: it does not depend on which other pairs are asked for.
    some = np.random.default_rng(1).permutation(source.size)[:40]
    if name in ADAPTIVE:
        some = np.arange(min(40, source.size))  # those decided first
    part = routings[name](net, source[some], destination[some], flow=source[some], seed=5)
    assert np.array_equal(part.link, routes.take(some).link)
    assert np.array_equal(part.ptr, routes.take(some).ptr)
    # Nothing to route is fine.
    assert len(routings[name](net, [], [])) == 0
    assert routings[name](net, 1, 1).hops.tolist() == [0]


@pytest.mark.parametrize("name", list(routings))
def test_every_routing_is_documented(name: str) -> None:
    assert (routings[name].__doc__ or "").strip().splitlines()[0].endswith(".")


@pytest.mark.parametrize(
    ("family", "name"),
    [("star", "minimal"), ("dragonfly", "minimal"), ("fat_tree", "d-mod-k"), ("k_ary_n_tree", "d-mod-k"),
     ("xgft", "d-mod-k"), ("torus", "dimension-order"), ("mesh", "dimension-order"), ("graph", "minimal"),
     *((name, "minimal") for name in ("flattened_butterfly", "hypercube", "slim_fly", "polarfly")),
     *((name, "ecmp") for name in ("hyperx", "full_mesh", "jellyfish", "xpander", "dragonfly_plus", "twisted_torus",
                                   "bcube", "rail_optimized"))],
)  # fmt: skip
def test_default_routing(family: str, name: str) -> None:
    net = network(family)
    assert default_routing(net) == name
    source, destination = all_pairs(net)
    assert np.array_equal(paths(net, source, destination).link, paths(net, source, destination, routing=name).link)


sizes = st.integers(1, 4)
any_network = st.one_of(
    st.builds(
        lambda p, a, h, data: dragonfly(p, a, h, 1 + data % (a * h + 1)), sizes, sizes, sizes, st.integers(0, 99)
    ),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3).map(
        lambda levels: xgft([m for m, _ in levels], [w for _, w in levels])
    ),
    st.builds(
        lambda wrap, dims, hosts: build("torus" if wrap else "mesh", dims=dims, hosts=hosts),
        st.booleans(),
        st.lists(st.integers(1, 6), min_size=1, max_size=3),
        st.integers(1, 2),
    ),
)


@settings(max_examples=60, deadline=None)
@given(net=any_network, seed=st.integers(0, 2**63))
def test_random_instances_have_contiguous_paths(net: Topology, seed: int) -> None:
    rng = np.random.default_rng(seed % 1000)
    source, destination = rng.integers(0, net.n_hosts, size=(2, 300))
    searched = shortest_paths(net, source, destination)
    check_paths(net, searched, source, destination)
    for name in routings:
        if not refusal(name, net):
            routes = routings[name](net, source, destination, flow=rng.integers(0, 2**62, size=300), seed=seed)
            check_paths(net, routes, source, destination)
            if name in NOT_MINIMAL:
                assert np.all(routes.hops >= searched.hops)
                if net.family == "dragonfly" and name not in ("k-shortest", "up-down"):
                    assert routes.hops.max(initial=0) <= 8
            elif net.family == "dragonfly":
                assert np.all(routes.hops >= searched.hops)
                assert routes.hops.max(initial=0) <= 5
            else:
                assert np.array_equal(routes.hops, searched.hops)


# Sums and proofs on paths -------------------------------------------------------------------------------------------


def test_latency_and_loads() -> None:
    net = dragonfly(p=1, a=2, h=1, host_latency="1us", local_latency="10us", global_latency="100us")
    routes = paths(net, [0, 0, 0], [1, 0, 3])
    names = [[net.layer_names[int(net.link_layer[link])] for link in routes[i]] for i in range(3)]
    # Palmtree, group 0: port 0 (router 0) leads to group 2, port 1 (router 1) to group 1, arriving at its port 0 (router 0).
    assert names == [["host", "local", "host"], [], ["host", "local", "global", "local", "host"]]
    assert path_latency(net, routes) == pytest.approx([12e-6, 0, 122e-6], rel=1e-12)
    load = link_loads(net, routes, weight=[1.0, 5.0, 2.0])
    assert load[0] == 3.0
    assert load.sum() == 3 * 1.0 + 5 * 2.0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[2], []], "path 0 (host 0 to host 1): must start at its source, got host 1 -> switch 0"),
        ([[0], []], "path 0 (host 0 to host 1): must end at its destination, got host 0 -> switch 0"),
        ([[0, 1, 3], []], "path 0 (host 0 to host 1): must be without gaps, got "
         "host 0 -> switch 0, switch 0 -> host 0, switch 0 -> host 1"),
        ([[0, 1, 0, 3], []], "path 0 (host 0 to host 1): must not cross hosts that do not forward, got "
         "host 0 -> switch 0, switch 0 -> host 0, host 0 -> switch 0, switch 0 -> host 1"),
        ([[], []], "path 0 (host 0 to host 1): must be empty exactly when source and destination are the same host, "
         "got nothing"),
        ([[0, 3], [0, 1]], "path 1 (host 0 to host 0): must be empty exactly when source and destination are the same "
         "host, got host 0 -> switch 0, switch 0 -> host 0"),
        ([[0, 3]], "paths: must be one per pair, 2 and 2, got 1"),
    ],
)  # fmt: skip
def test_check_paths_finds_every_fault(rows: list[list[int]], message: str) -> None:
    net = star(2)
    assert net.link_src.tolist() == [0, 2, 1, 2]
    wrong = Paths(
        ptr=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        link=np.array([x for row in rows for x in row], dtype=np.int32),
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_paths(net, wrong, [0, 0], [1, 0])


def test_paths_behave_like_a_sequence() -> None:
    routes = paths(star(3), [0, 1, 2], [1, 1, 0])
    assert [row.tolist() for row in routes] == [[0, 3], [], [4, 1]]
    assert routes[-1].tolist() == [4, 1]
    assert len(routes) == 3
    with pytest.raises(IndexError):
        routes[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [6]), "routing: destination must be one of the 6 hosts, got 6"),
        (([-1], [0]), "routing: source must be one of the 6 hosts, got -1"),
        (([0, 1], [0, 1, 2]), "routing: sources and destinations must be equally many, got 2 and 3"),
        (([0.5], [0]), "routing: source must be host numbers, got float64 values"),
    ],
)
@pytest.mark.parametrize("name", ["minimal", "ecmp"])
def test_bad_hosts(name: str, arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        routings[name](network("star"), *arguments)


def test_bad_names_and_labels() -> None:
    with pytest.raises(InputError, match=r"^routing: unknown name, got 'minimum'; did you mean 'minimal'\? valid: "):
        paths(star(2), [0], [1], routing="minimum")
    with pytest.raises(InputError, match=r"^routing: flow labels must be one per pair, 2, got 3$"):
        paths(star(2), [0, 1], [1, 0], routing="ecmp", flow=[1, 2, 3])
    with pytest.raises(InputError, match=r"^routing: flow labels must be whole numbers, got float64 values$"):
        paths(star(2), [0, 1], [1, 0], routing="ecmp", flow=[1.0, 2.0])


def test_same_paths_under_every_hash_seed() -> None:
    program = (
        "import hashlib, numpy as np, networkx as nx, netsim.topologies as t, netsim.routing as r\n"
        "digest = hashlib.sha256()\n"
        "for net in (t.dragonfly(2, 4, 2, 5), t.fat_tree(4), t.torus((4, 3)),"
        " t.from_networkx(nx.gnp_random_graph(20, 0.4, seed=1), hosts_per_switch=1)):\n"
        "    s, d = np.divmod(np.arange(net.n_hosts ** 2), net.n_hosts)\n"
        "    for name in ('minimal', 'ecmp'):\n"
        "        digest.update(r.paths(net, s, d, routing=name, seed=3).link.tobytes())\n"
        "print(digest.hexdigest())"
    )
    seen = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        seen.add(run.stdout)
    assert len(seen) == 1


def test_large_instances_are_routed_from_structure() -> None:
    """100,000 random pairs on 65,536 hosts and more, by structure: no all-pairs table could be built in this time."""
    rng = np.random.default_rng(0)
    for net in (build("dragonfly", n_hosts=65_536), fat_tree(64), torus((40, 41, 42))):
        source, destination = rng.integers(0, net.n_hosts, size=(2, 100_000))
        for name in (default_routing(net), "ecmp"):
            check_paths(net, paths(net, source, destination, routing=name), source, destination)
