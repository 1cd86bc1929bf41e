"""Direct networks against the definitions and numbers of their papers."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
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
    flattened_butterfly,
    full_mesh,
    hypercube,
    hyperx,
    mesh,
    torus,
    twisted_torus,
)
from netsim.topologies.distance_forms import distances_by_structure
from netsim.topologies.distances import distances

LINK = 12.5e9


def switch_cables(net: Topology) -> list[tuple[int, int]]:
    """Cables between switches as (low, high) switch numbers, parallel ones repeated."""
    base = net.n_hosts
    ends = zip((net.link_src[::2] - base).tolist(), (net.link_dst[::2] - base).tolist(), strict=True)
    return sorted((min(u, v), max(u, v)) for u, v in ends if min(u, v) >= 0)


def switch_graph(net: Topology) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(net.n_switches))
    graph.add_edges_from(switch_cables(net))
    return graph


# HyperX -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 3), hosts=st.integers(0, 2))
def test_hyperx_joins_what_differs_in_one_coordinate(data: st.DataObject, n: int, hosts: int) -> None:
    """Ahn et al. 2009, section 2: K_d links between switches whose coordinate d alone differs."""
    dims = data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    trunk = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    net = hyperx(dims, hosts, trunk)
    wanted = []
    places = list(np.ndindex(*dims))
    for (i, a), (j, b) in itertools.combinations(enumerate(places), 2):
        differ = [d for d in range(n) if a[d] != b[d]]
        if len(differ) == 1:
            wanted += [(i, j)] * trunk[differ[0]]
    assert switch_cables(net) == wanted
    ports = np.diff(net.out_ptr)[net.n_hosts :]
    assert np.all(ports == hosts + sum(k * (side - 1) for k, side in zip(trunk, dims, strict=True)))
    for d in range(n):
        links = net.link_layer == net.layer_names.index(f"dimension {d}")
        a, b = (np.array(places)[end[links] - net.n_hosts] for end in (net.link_src, net.link_dst))
        assert np.all((a != b).sum(axis=1) == 1)
        assert np.all(a[:, d] != b[:, d])
    found = describe(net).between_all
    graph = switch_graph(net)
    assert found.diameter == sum(side > 1 for side in dims) == nx.diameter(graph)
    if len(places) > 1:
        # A random other coordinate differs with probability (S - 1) / S.
        mean = sum((side - 1) / side for side in dims) * len(places) / (len(places) - 1)
        assert found.average == pytest.approx(mean, rel=1e-12)


def test_special_cases_of_hyperx() -> None:
    """Each is the same graph as the one it is a case of."""
    assert switch_cables(hypercube(4)) == switch_cables(mesh((2, 2, 2, 2))) == switch_cables(hyperx((2, 2, 2, 2)))
    assert sorted(switch_cables(hypercube(6))) == sorted(
        (i, i ^ (1 << bit)) for i in range(64) for bit in range(6) if i < i ^ (1 << bit)
    )
    assert switch_cables(full_mesh(6, trunk=2)) == sorted(2 * list(itertools.combinations(range(6), 2)))
    assert flattened_butterfly(3, 4).content_hash == hyperx((3, 3, 3), 3).content_hash
    assert (hypercube(0).n_switches, hypercube(0).n_links, hypercube(0, 0).n_links) == (1, 2, 0)
    # Sides of 2 and 1 only: a mesh; Kim et al. 2007: 8-ary 2-flat of 64 hosts, 15-port routers.
    assert switch_cables(hyperx((2, 1, 2))) == switch_cables(mesh((2, 1, 2)))
    flat = flattened_butterfly(8, 2)
    assert (flat.n_hosts, flat.n_switches, describe(flat).switch_ports) == (64, 8, (15, 15))


@pytest.mark.parametrize(
    ("net", "links"),
    [
        (hyperx((4, 4)), 16),
        (hyperx((8, 8)), 128),
        (hyperx((4, 4, 4)), 64),
        (hyperx((8, 4)), 32),
        (hyperx((8, 4), trunk=(1, 2)), 64),
        (full_mesh(8), 16),
        (hypercube(6), 32),
        (hypercube(10), 512),
    ],
)
def test_hyperx_bisection(net: Topology, links: int) -> None:
    """Ahn et al. 2009: the thinnest dimension is cut in half, N K S / 4 links; hypercube N / 2."""
    found = describe(net).bisection
    assert found is not None
    assert found.exact
    assert found.lower_bytes_per_s == links * LINK


def test_hyperx_of_unequal_capacities_has_bounds_only_where_it_must() -> None:
    odd = describe(hyperx((3, 5), trunk=(2, 1))).bisection
    assert odd is not None
    assert odd.method == "all halves tried"


def test_names_and_layers() -> None:
    assert hyperx((2, 3)).vertex_name(6 + 5) == "switch (1, 2)"
    assert hypercube(3).vertex_name(8 + 5) == "switch 101"
    assert full_mesh(3).vertex_name(3) == "switch 0"
    net = hyperx((2, 3), switch_capacity="400Gbps", host_latency="1us")
    assert np.all(net.link_capacity_bytes_per_s[net.link_layer > 0] == 50e9)
    assert np.all(net.link_latency_s[net.link_layer == 0] == 1e-6)


def test_trunk_is_no_size() -> None:
    assert build("full_mesh", n_hosts=64, trunk=2).params["n"] == 8
    assert build("hyperx", n_hosts=64, trunk="1,2").n_links == 2 * (64 + 24 + 48)


# Twisted torus ------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(data=st.data(), n=st.integers(1, 3))
def test_twisted_torus_is_a_quotient_of_the_lattice(data: st.DataObject, n: int) -> None:
    """Switches are integer points modulo S_d e_d + t_d e_L, neighbours differ by one e_d."""
    dims = data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    longest = dims.index(max(dims))
    twist = [0 if d == longest else data.draw(st.integers(0, 7)) for d in range(n)]
    net = twisted_torus(dims, twist, hosts=0)

    def reduced(point: list[int]) -> int:
        for d in range(n):
            turns = point[d] // dims[d]
            point[d] -= turns * dims[d]
            point[longest] += turns * twist[d] if d != longest else 0
        point[longest] %= dims[longest]
        return int(np.ravel_multi_index(point, dims))

    wanted = []
    for i, place in enumerate(np.ndindex(*dims)):
        for d in range(n):
            if dims[d] == 1:
                continue
            step = list(place)
            step[d] += 1
            j = reduced(step)
            # On an untwisted side of two the wrap link is the link that is there.
            if dims[d] == 2 and place[d] == 1 and twist[d] % dims[longest] == 0:
                continue
            wanted.append((min(i, j), max(i, j)))
    assert switch_cables(net) == sorted(wanted)


@pytest.mark.parametrize(
    "dims", [(2, 1), (4, 2), (6, 3), (8, 4), (4, 2, 2), (8, 4, 4), (4, 8), (4, 4, 8), (2, 1, 1), (6, 4)]
)
def test_twisted_torus_looks_the_same_from_everywhere(dims: tuple[int, ...]) -> None:
    net = twisted_torus(dims)
    graph = switch_graph(net)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    seen = {tuple(sorted(row.values())) for row in lengths.values()}
    assert len(seen) == 1
    found = describe(replace_family(net)).between_all
    everything = np.ones(net.n_switches, dtype=bool)
    known = distances_by_structure(net, everything)
    assert known is not None
    assert known.histogram.tolist() == distances(net, everything).histogram.tolist() == found.histogram.tolist()


def replace_family(net: Topology) -> Topology:
    """The same network, of which nothing is known."""
    return replace(net, family="graph")


@pytest.mark.parametrize("a", [2, 3, 4, 6, 8])
def test_rectangular_twisted_torus_beats_the_torus(a: int) -> None:
    """Camara et al. 2010: the twisted torus of sides 2a, a has diameter a, the torus a + floor(a / 2)."""
    twisted, plain = (describe(net).between_all for net in (twisted_torus((2 * a, a)), torus((2 * a, a))))
    assert twisted.diameter == a
    assert plain.diameter == a + a // 2
    assert twisted.average < plain.average


def test_twist_of_zero_is_the_torus() -> None:
    for dims in ((4, 2, 3), (5,), (2, 2), (1, 1)):
        assert twisted_torus(dims, (0,) * len(dims)).content_hash == torus(dims).content_hash
    assert twisted_torus((5,)).content_hash == torus((5,)).content_hash
    assert twisted_torus((4, 3), (0, 6)).content_hash == twisted_torus((4, 3)).content_hash
    assert twisted_torus((4, 3)).vertex_name(12 + 5) == "switch (1, 2)"


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("hyperx", {"dims": "4x4", "trunk": "1,2,3"},
         "hyperx trunk: must have one number, or one for each of the 2 sides, got 3"),
        ("twisted_torus", {"dims": "4x4", "twist": "2"},
         "twisted_torus twist: must have one number for each of the 2 sides, got 1"),
        ("twisted_torus", {"dims": "4x8", "twist": "2,2"},
         "twisted_torus twist: must be 0 in the longest dimension, number 1, got 2"),
        ("hyperx", {"dims": "4x4", "trunk": 0}, "hyperx trunk: must be a whole number, 1 or more, got 0"),
        ("hyperx", {"dims": (2,) * 40}, "hyperx: must have 32 dimensions or fewer, got 40 dimensions"),
        ("hypercube", {"n": 10**6}, "hypercube n: must be 32 or less, got 1000000"),
        ("hypercube", {"n": 31}, "hypercube: must have fewer than 2^31 vertices and links, got 4294967296 vertices and "
         "70866960384 links; choose a smaller network"),
        ("flattened_butterfly", {"k": 2, "n": 10**9}, "flattened_butterfly n: must be 33 or less, got 1000000000"),
        ("full_mesh", {"n": 10**6}, "full_mesh: must have fewer than 2^31 vertices and links, got 2000000 vertices and "
         "1000001000000 links; choose a smaller network"),
    ],
)  # fmt: skip
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(name, **params)
