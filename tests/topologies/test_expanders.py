"""Jellyfish and Xpander: regular, simple, connected, of the promised structure, the same by seed, and good expanders."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.topologies import Topology, build, jellyfish, xpander
from netsim.topologies.distances import distances
from netsim.topologies.expanders import random_regular


def adjacency(net: Topology) -> np.ndarray:
    n, base = net.n_switches, net.n_hosts
    inside = np.minimum(net.link_src, net.link_dst) >= base
    matrix = np.zeros((n, n))
    np.add.at(matrix, (net.link_src[inside] - base, net.link_dst[inside] - base), 1)
    return matrix


@pytest.mark.parametrize("n", range(3, 13))
def test_every_small_degree_exists(n: int) -> None:
    for degree in range(2, n):
        if n * degree % 2 == 0:
            for seed in range(20):
                matrix = adjacency(jellyfish(n, degree, seed=seed))
                assert matrix.max() == 1
                assert not matrix.diagonal().any()
                assert np.all(matrix.sum(axis=1) == degree)
                assert nx.is_connected(nx.from_numpy_array(matrix))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(3, 90), degree=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_jellyfish_is_regular_simple_and_connected(n: int, degree: int, seed: int) -> None:
    degree = min(degree, n - 1)
    n += n * degree % 2
    net = jellyfish(n, degree, hosts=2, seed=seed)
    matrix = adjacency(net)
    assert matrix.max() == 1
    assert np.array_equal(matrix, matrix.T)
    assert np.all(matrix.sum(axis=1) == degree)
    assert nx.is_connected(nx.from_numpy_array(matrix))
    assert net.content_hash == jellyfish(n, degree, hosts=2, seed=seed).content_hash


@pytest.mark.parametrize("n", [10, 101, 1000])
def test_rings_are_joined(n: int) -> None:
    """Degree 2: a random pairing is several rings, the network is one."""
    for seed in range(5):
        graph = nx.from_numpy_array(adjacency(jellyfish(n, 2, seed=seed)))
        assert nx.is_connected(graph)
        assert {d for _, d in graph.degree} == {2}


def test_random_regular_is_close_to_uniform() -> None:
    """Cubic graphs of 6 vertices: 60 copies of the prism and 10 of K(3,3), counted by their automorphisms (12 and 72)."""
    draw = stream(1, "test")
    kinds: Counter[bool] = Counter()
    for _ in range(2000):
        low, high = random_regular(6, 3, draw)
        kinds[nx.is_bipartite(nx.Graph(list(zip(low.tolist(), high.tolist(), strict=True))))] += 1
    # Drawn as complements of 2-regular graphs: two triangles (10 ways) or a ring of six (60 ways).
    share = kinds[True] / 2000
    assert abs(share - 10 / 70) < 5 * math.sqrt(10 / 70 * 60 / 70 / 2000)
    # Each edge is as likely as the other: n d / 2 of n (n - 1) / 2.
    count = np.zeros((12, 12))
    for _ in range(2000):
        low, high = random_regular(12, 3, draw)
        count[low, high] += 1
    seen, p = count[np.triu_indices(12, k=1)], 3 / 11
    assert np.all(np.abs(seen - 2000 * p) < 5 * math.sqrt(2000 * p * (1 - p)))


@settings(max_examples=60, deadline=None)
@given(degree=st.integers(2, 12), lift=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_xpander_is_a_lift_of_the_full_mesh(degree: int, lift: int, seed: int) -> None:
    """Valadarsky et al. 2016: a perfect matching between every two meta-nodes, nothing inside one."""
    net = xpander(degree, lift, hosts=1, seed=seed)
    matrix = adjacency(net)
    blocks = matrix.reshape(degree + 1, lift, degree + 1, lift)
    for i in range(degree + 1):
        for j in range(degree + 1):
            block = blocks[i, :, j]
            if i == j:
                assert not block.any()
            else:
                assert np.all(block.sum(axis=0) == 1)
                assert np.all(block.sum(axis=1) == 1)
                assert np.array_equal(block, blocks[j, :, i].T)
    assert nx.is_connected(nx.from_numpy_array(matrix))
    assert net.content_hash == xpander(degree, lift, hosts=1, seed=seed).content_hash


@pytest.mark.parametrize("lift", [2, 10, 500])
def test_lifts_of_a_triangle_are_joined_to_one_ring(lift: int) -> None:
    for seed in range(5):
        graph = nx.from_numpy_array(adjacency(xpander(2, lift, seed=seed)))
        assert nx.is_connected(graph)
        assert {d for _, d in graph.degree} == {2}


@pytest.mark.parametrize("net", [jellyfish(400, 8, seed=2), xpander(8, 44, seed=2)])
def test_expansion(net: Topology) -> None:
    """J. Friedman 2008: the second eigenvalue of almost every d-regular graph is below 2 sqrt(d - 1) + epsilon."""
    values = np.linalg.eigvalsh(adjacency(net))
    assert values[-1] == pytest.approx(8)
    assert max(values[-2], -values[0]) < 2 * math.sqrt(7) + 0.3


@pytest.mark.parametrize("net", [jellyfish(400, 8, seed=5), xpander(8, 44, seed=5)])
def test_distances_are_those_of_random_graphs(net: Topology) -> None:
    """Never below the Moore bound; as far as ends paired at random lead, level by level, to within 2 percent."""
    n, d = net.n_switches, 8
    bound = (8 * 1 + 56 * 2 + (n - 65) * 3) / (n - 1)
    expected, level, left = [0.0, d], float(d), float(n - 1 - d)
    while left > 0.1:
        ends = (d - 1) * level
        level = left * (1 - (1 - ends / (ends + d * left)) ** d)
        left -= level
        expected.append(level)
    mean = sum(k * count for k, count in enumerate(expected)) / sum(expected)
    found = distances(net, np.ones(n, dtype=bool))
    assert found.average >= bound
    assert found.average == pytest.approx(mean, rel=0.02)


def test_seeds_differ_and_are_no_size() -> None:
    hashes = {jellyfish(20, 4, seed=seed).content_hash for seed in range(10)}
    assert len(hashes) == 10
    assert build("jellyfish", n_hosts=30, seed=7).params["seed"] == 7
    assert build("xpander", n_hosts=30, seed=7).n_hosts >= 30
    assert jellyfish(1, 0).n_links == 2
    assert jellyfish(2, 1, 0).n_links == 2
    assert xpander(1, 1).n_switches == 2
    assert xpander(3, 4).vertex_name(16 + 5) == "meta-node 1 switch 1"


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("jellyfish", {"n_switches": 4, "degree": 4}, "jellyfish degree: must be below n_switches=4, got 4"),
        ("jellyfish", {"n_switches": 4, "degree": 1}, "jellyfish degree: must be 2 or more to join 4 switches, got 1"),
        ("jellyfish", {"n_switches": 2, "degree": 0}, "jellyfish degree: must be 1 or more to join 2 switches, got 0"),
        ("xpander", {"degree": 1, "lift": 2},
         "xpander lift: must be 1 when the degree is 1, got 2; take degree=2 or more"),
        ("xpander", {"degree": 2, "lift": 4, "seed": -1}, "xpander seed: must be a whole number, 0 or more, got -1"),
    ],
)  # fmt: skip
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(name, **params)
