"""Up*/down*: legal, shortest among the legal, and without a cycle of links that wait for each other."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.routing import Paths, check_paths, minimal, paths, saturation
from netsim.routing.updown import goes_up
from netsim.topologies import Topology, dragonfly, fat_tree, from_networkx, star, torus, xgft


def waits(net: Topology, routes: Paths) -> nx.DiGraph:
    """Which link waits for which: those that follow each other on a path."""
    row = np.repeat(np.arange(len(routes)), routes.hops)
    inside = np.flatnonzero(row[1:] == row[:-1])
    graph = nx.DiGraph()
    graph.add_edges_from(zip(routes.link[inside].tolist(), routes.link[inside + 1].tolist(), strict=True))
    return graph


@settings(max_examples=25)
@given(n=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_legal_shortest_and_free_of_deadlock(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.MultiGraph(nx.path_graph(n))
    graph.add_edges_from((int(u), int(v)) for u, v in rng.integers(0, n, (n, 2)) if u != v)
    net = from_networkx(graph, hosts_per_switch=1)
    source, destination = np.divmod(np.arange(n * n), n)
    routes = paths(net, source, destination, routing="up-down")
    check_paths(net, routes, source, destination)
    assert nx.is_directed_acyclic_graph(waits(net, routes))
    up = goes_up(net)
    # Each cable climbs one way and descends the other.
    assert np.all(up[0::2] != up[1::2])
    for route in routes:
        assert "du" not in "".join("u" if up[link] else "d" for link in route)
    legal = nx.DiGraph()
    for link in range(net.n_links):
        u, v = int(net.link_src[link]), int(net.link_dst[link])
        legal.add_edges_from([((u, 0), (v, 0))] if up[link] else [((u, 0), (v, 1)), ((u, 1), (v, 1))])
    wanted = [
        nx.shortest_path_length(legal, (s, 0), (d, 1)) if s != d else 0
        for s, d in zip(source, destination, strict=True)
    ]
    assert routes.hops.tolist() == wanted


def test_minimal_paths_of_a_torus_do_wait_in_a_circle() -> None:
    """The check above can fail."""
    net = torus((5,))
    source, destination = np.divmod(np.arange(25), 5)
    assert not nx.is_directed_acyclic_graph(waits(net, minimal(net, source, destination)))


@pytest.mark.parametrize("net", [fat_tree(4), star(5), xgft((3, 2), (1, 1))])
def test_trees_with_one_root_lose_nothing(net: Topology) -> None:
    source, destination = np.divmod(np.arange(net.n_hosts**2), net.n_hosts)
    routes = paths(net, source, destination, routing="up-down")
    assert np.all(routes.hops >= minimal(net, source, destination).hops)
    if net.family != "fat_tree":
        assert np.array_equal(routes.hops, minimal(net, source, destination).hops)


def test_the_root_is_crowded() -> None:
    net = dragonfly(2, 4, 2)
    assert saturation(net, routing="up-down").throughput < 0.5 * saturation(net, routing="minimal").throughput


def test_no_switch_no_root() -> None:
    net = Topology.from_links(n_hosts=2, n_switches=0, source=[0, 1], destination=[1, 0])
    with pytest.raises(InputError, match=r"^routing up-down: needs a switch as root, got none; use minimal or ecmp$"):
        paths(net, 0, 1, routing="up-down")
