"""Routing on arbitrary graphs: search against networkx, ties, parallel links, hosts in transit, islands, size."""

from __future__ import annotations

import itertools
import os
import re
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.routing import check_paths, ecmp, link_loads, minimal
from netsim.routing._kernels import shortest
from netsim.routing.graphs import shortest_paths
from netsim.routing.rails import rail_paths
from netsim.topologies import Topology, fat_tree, from_networkx, rail_optimized, to_networkx


def diamond(order: list[tuple[str, str]]) -> Topology:
    return from_networkx(nx.MultiGraph([*order, ("host1", "a"), ("host2", "d")]))


EDGES = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d")]


def test_tie_break_does_not_depend_on_the_order_of_edges() -> None:
    seen = set()
    for shift in range(4):
        for flip in (1, -1):
            net = diamond([edge[::flip] for edge in EDGES[shift:] + EDGES[:shift]])
            route = minimal(net, 0, 1)[0]
            seen.add(tuple(net.link_name(int(link)) for link in route))
    # Lowest link number, which goes by name: over b.
    assert seen == {("host1 -> a", "a -> b", "b -> d", "d -> host2")}


def test_parallel_links() -> None:
    """Four cables between two switches: one flow takes one of them, many flows take all."""
    graph = nx.MultiGraph([("host1", "a"), ("host2", "b"), *[("a", "b")] * 4])
    net = from_networkx(graph, capacity="100Gbps")
    assert net.links_between([2], [3])[1].tolist() == [4]
    one = minimal(net, [0] * 8, [1] * 8)
    assert np.count_nonzero(link_loads(net, one)) == 3
    spread = ecmp(net, [0] * 400, [1] * 400, flow=np.arange(400))
    check_paths(net, spread, [0] * 400, [1] * 400)
    load = link_loads(net, spread)[net.link_layer == net.layer_names.index("switch")]
    # 100 expected on each, standard deviation 8.7: five of them.
    assert sorted(load[load > 0].tolist()) == pytest.approx([100] * 4, abs=44)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), n=st.integers(2, 10), n_hosts=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_search_equals_networkx_on_random_multigraphs(data: st.DataObject, n: int, n_hosts: int, seed: int) -> None:
    n_hosts = min(n, n_hosts)
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    links = data.draw(st.lists(ends, min_size=1, max_size=40))
    transit = np.array(data.draw(st.lists(st.booleans(), min_size=n_hosts, max_size=n_hosts)))
    net = Topology.from_links(
        n_hosts=n_hosts,
        n_switches=n - n_hosts,
        source=[u for u, _ in links],
        destination=[v for _, v in links],
        host_transit=transit,
    )
    source, destination = np.divmod(np.arange(n_hosts**2), n_hosts)
    graph = nx.DiGraph(to_networkx(net))
    length = np.full(source.size, -1)
    for i, (s, d) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        inner = [v for v in range(n) if v in (s, d) or v >= n_hosts or transit[v]]
        if nx.has_path(graph.subgraph(inner), s, d):
            length[i] = nx.shortest_path_length(graph.subgraph(inner), s, d)
    good = np.flatnonzero(length >= 0)
    word = np.random.default_rng(seed).integers(0, 2**32, source.size)
    for routes in (
        shortest_paths(net, source[good], destination[good]),
        shortest_paths(net, source[good], destination[good], word=word[good], seed=seed),
    ):
        check_paths(net, routes, source[good], destination[good])
        assert routes.hops.tolist() == length[good].tolist()
    if good.size < source.size:
        with pytest.raises(InputError, match=rf"^routing: .*, got {source.size - good.size} pairs? without a path"):
            shortest_paths(net, source, destination)


def test_lowest_link_number_at_every_step() -> None:
    """Among all shortest link sequences the chosen one is the smallest in dictionary order."""
    net = from_networkx(nx.MultiGraph([*nx.hypercube_graph(3).edges, *nx.hypercube_graph(3).edges]), hosts="all")
    net = Topology.from_links(n_hosts=8, n_switches=0, source=net.link_src, destination=net.link_dst, host_transit=True)
    graph = to_networkx(net)
    source, destination = np.divmod(np.arange(64), 8)
    for (s, d), path in zip(zip(source.tolist(), destination.tolist(), strict=True), minimal(net, source, destination)):
        if s != d:
            best = min(
                tuple(min(graph[u][v]) for u, v in itertools.pairwise(nodes))
                for nodes in nx.all_shortest_paths(nx.DiGraph(graph), s, d)
            )
            assert tuple(path.tolist()) == best


def test_hosts_forward_only_when_marked() -> None:
    ring = nx.cycle_graph(8)
    closed = from_networkx(ring, hosts="all")
    check_paths(closed, minimal(closed, [0, 7], [1, 0]), [0, 7], [1, 0])
    message = (
        "routing: hosts do not forward traffic of others unless marked as transit, got 1 pair without a path, "
        "first 0 to 2; mark hosts as transit (host_transit) or join them by switches"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        minimal(closed, [0, 0], [1, 2])
    nx.set_node_attributes(ring, True, "transit")
    open_ring = from_networkx(ring, hosts="all")
    source, destination = np.divmod(np.arange(64), 8)
    for name in (minimal, ecmp):
        routes = name(open_ring, source, destination)
        check_paths(open_ring, routes, source, destination)
        around = (destination - source) % 8
        assert routes.hops.tolist() == np.minimum(around, 8 - around).tolist()


def test_islands_are_found_before_anything_runs() -> None:
    graph = nx.Graph([("host1", "a"), ("host2", "a"), ("host3", "b"), ("host4", "b")])
    net = from_networkx(graph)
    # Traffic inside the islands is fine.
    assert minimal(net, [0, 2], [1, 3]).hops.tolist() == [2, 2]
    message = (
        "routing: every pair that communicates must be joined, got 4 pairs without a path, first host1 to host3, "
        "host1 to host4, host3 to host1; the topology has 2 components: host1 and 2 more; host3 and 2 more"
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        minimal(net, [0, 0, 0, 2, 3], [1, 2, 3, 0, 1])


def test_hosts_with_several_links_use_the_nearer_one() -> None:
    """Host 0 is on both switches, host 1 on the first, host 2 on the second: no path needs the link between switches."""
    graph = nx.Graph([("host0", "a"), ("host0", "b"), ("host1", "a"), ("host2", "b"), ("a", "b")])
    net = from_networkx(graph)
    source, destination = [0, 0, 1, 2, 1], [1, 2, 0, 0, 2]
    routes = minimal(net, source, destination)
    check_paths(net, routes, source, destination)
    assert routes.hops.tolist() == [2, 2, 2, 2, 3]


def test_nested_switches_give_symmetric_hops() -> None:
    """Machine inside rack inside pod: a route for every pair, as many hops back as there."""
    graph = nx.balanced_tree(3, 3)
    net = from_networkx(graph, hosts="leaves")
    assert net.n_hosts == 27
    source, destination = np.divmod(np.arange(27 * 27), 27)
    hops = minimal(net, source, destination).hops.reshape(27, 27)
    assert np.array_equal(hops, hops.T)
    assert sorted(np.unique(hops).tolist()) == [0, 2, 4, 6]


def test_ecmp_of_the_search_spreads_like_that_of_the_structure() -> None:
    """The k=4 fat-tree as a plain graph: 2000 random flows between pods, the same bound on the four cores."""
    tree = fat_tree(4)
    net = Topology.from_links(n_hosts=16, n_switches=20, source=tree.link_src, destination=tree.link_dst)
    rng = np.random.default_rng(2)
    source = rng.integers(0, 16, 2000)
    destination = (source // 4 * 4 + rng.integers(4, 16, 2000)) % 16
    routes = ecmp(net, source, destination, flow=np.arange(2000))
    check_paths(net, routes, source, destination)
    used = np.bincount(net.link_dst[routes.link[routes.ptr[:-1] + 2]] - 32, minlength=4)
    assert used.max() / used.mean() <= 1.2
    assert not np.array_equal(routes.link, ecmp(net, source, destination, flow=np.arange(2000), seed=1).link)


def test_wide_clos_as_a_plain_graph_needs_no_path_enumeration() -> None:
    """8,192 hosts, 32 choices up at each of two tiers: 1,024 paths per pair, never listed; well below 1 GB."""
    tree = fat_tree(32)
    assert tree.n_hosts == 8192
    net = Topology.from_links(
        n_hosts=tree.n_hosts, n_switches=tree.n_switches, source=tree.link_src, destination=tree.link_dst
    )
    rng = np.random.default_rng(0)
    compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
    source, destination = rng.integers(0, net.n_hosts, size=(2, 50_000 if compiled else 10))
    tracemalloc.start()
    routes = ecmp(net, source, destination)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    check_paths(net, routes, source, destination)
    assert routes.hops.max() == 6
    assert peak < 200e6


def test_kernel_compiles_once() -> None:
    net = from_networkx(nx.petersen_graph(), hosts_per_switch=1)
    minimal(net, [0], [1])
    ecmp(net, np.array([0], dtype=np.int32), np.array([1], dtype=np.uint8), flow=[7], seed=2)
    signatures = getattr(shortest, "signatures", None)
    assert signatures is None or len(signatures) == 1


@pytest.mark.parametrize(
    "net", [rail_optimized(9, 2, 6), rail_optimized(7, 4, 64, 2, 1), rail_optimized(1), rail_optimized(3, 1)]
)
def test_paths_over_rails_are_those_of_the_search(net: Topology) -> None:
    """The same links in the same order, for every pair and with every hash."""
    source, destination = np.divmod(np.arange(net.n_hosts**2), net.n_hosts)
    words = np.random.default_rng(0).integers(0, 2**32, size=source.size)
    for word, seed in ((None, 0), (words, 0), (words, 9)):
        fast = rail_paths(net, source, destination, word=word, seed=seed)
        slow = shortest_paths(net, source, destination, word=word, seed=seed)
        assert np.array_equal(fast.ptr, slow.ptr)
        assert np.array_equal(fast.link, slow.link)
