"""BCube from its digits: the same paths and loads as a search of the whole graph."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import netsim as ns
from netsim.routing import check_paths
from netsim.routing.algorithms import labels
from netsim.routing.cubes import cube_loads, cube_paths, cube_uniform_loads
from netsim.routing.graphs import shortest_paths
from netsim.topologies import Topology, bcube

SHAPES = [(2, 0), (3, 1), (4, 1), (2, 3), (3, 2)]


def as_graph(net: Topology) -> Topology:
    """The same links, without a family whose structure could be used."""
    return Topology.from_links(
        n_hosts=net.n_hosts,
        n_switches=net.n_switches,
        source=net.link_src,
        destination=net.link_dst,
        capacity=net.link_capacity_bytes_per_s,
        host_transit=net.host_transit,
    )


def everyone(n: int) -> tuple[np.ndarray, np.ndarray]:
    here = np.arange(n, dtype=np.int64)
    return np.repeat(here, n), np.tile(here, n)


@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("hashed", [False, True])
def test_paths_are_those_of_the_search(n: int, k: int, hashed: bool) -> None:
    net = bcube(n, k)
    here, there = everyone(net.n_hosts)
    word = np.random.default_rng(n * 10 + k).integers(0, 2**32, here.size) if hashed else None
    found, searched = (f(net, here, there, word=word, seed=5) for f in (cube_paths, shortest_paths))
    assert np.array_equal(found.ptr, searched.ptr)
    assert np.array_equal(found.link, searched.link)
    check_paths(net, found, here, there)


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_loads_are_those_of_the_search(n: int, k: int) -> None:
    net = bcube(n, k, capacity=1.0)
    draw = np.random.default_rng(n + k)
    share = draw.random(net.n_hosts**2) / net.n_hosts
    here, there = everyone(net.n_hosts)
    apart = here != there
    pattern = ns.routing.Demand.of(net.n_hosts, here[apart], there[apart], share[apart])
    loads = [ns.routing.fluid_loads(t, pattern, routing="ecmp") for t in (net, as_graph(net))]
    assert np.allclose(loads[0], loads[1], rtol=1e-12, atol=1e-12)
    assert ns.routing.fluid_loads(net, "uniform", routing="ecmp") == pytest.approx(
        ns.routing.fluid_loads(as_graph(net), "uniform", routing="ecmp"), rel=1e-12
    )


def test_load_of_one_pair_by_hand() -> None:
    net = bcube(2, 2)
    # Hosts 000 and 111: 6 orders of 3 digits; the first and last digit in 1/3 each, the middle one in 1/6.
    load = cube_loads(net, np.array([0]), np.array([7]), np.array([6.0]))
    up = load[0::2].reshape(3, 8)
    assert up[:, 0].tolist() == [2, 2, 2]
    for level, other in itertools.permutations(range(3), 2):
        assert up[level, 1 << other] == 1
        assert up[level, (1 << other) | (1 << (3 - level - other))] == 2
    # Every unit crosses three switches, up and down.
    assert load.sum() == 6 * 6


def test_uniform_load_conserves_hops() -> None:
    net = bcube(3, 2)
    here, there = everyone(net.n_hosts)
    hops = cube_paths(net, here, there).hops.sum()
    assert cube_uniform_loads(net, 1.0).sum() == pytest.approx(hops)


def test_paths_of_flows_are_spread_and_stay() -> None:
    net = bcube(4, 1)
    source, destination = np.zeros(400, dtype=np.int64), np.full(400, 15)
    routes = [
        ns.routing.paths(net, source, destination, routing="ecmp", flow=labels(None, 400) + np.arange(400))
        for _ in "ab"
    ]
    assert np.array_equal(routes[0].link, routes[1].link)
    first = routes[0].link[routes[0].ptr[:-1]]
    share = np.mean(first == first[0])
    # Two orders, each with probability 1/2: 6 standard deviations of a mean of 400.
    assert abs(share - 0.5) < 6 * 0.5 / 20


def test_65536_hosts() -> None:
    net = bcube(256, 1)
    found = ns.routing.saturation(net, pattern="uniform")
    # Every pair of differing digits crosses two levels, all links alike.
    assert found.throughput == pytest.approx((net.n_hosts - 1) / (net.n_hosts - 256) / 2, rel=1e-9)
    ns.routing.saturation(net, pattern="shift+1")
