"""Slim Fly and PolarFly against the theory of their graphs, and finite fields against polynomial arithmetic."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.topologies import Topology, build, polarfly, slim_fly
from netsim.topologies.diameter_two import generator_sets, points, quadrics
from netsim.topologies.distances import distances
from netsim.topologies.fields import Field, is_prime_power, prime_power

PRIME_POWERS = [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]


def adjacency(net: Topology) -> np.ndarray:
    """Links between every two switches, counted; float64, whose products are fast and, of such numbers, exact."""
    n, base = net.n_switches, net.n_hosts
    inside = np.minimum(net.link_src, net.link_dst) >= base
    matrix = np.zeros((n, n))
    np.add.at(matrix, (net.link_src[inside] - base, net.link_dst[inside] - base), 1)
    return matrix


# Finite fields ------------------------------------------------------------------------------------------------------


def test_prime_powers() -> None:
    sieve = {p**k for p in range(2, 130) if all(p % d for d in range(2, p)) for k in range(1, 8)}
    assert [q for q in range(130) if is_prime_power(q)] == sorted(q for q in sieve if q < 130)
    assert prime_power(3**7) == (3, 7)
    assert prime_power(2**31 - 1) == (2**31 - 1, 1)


@pytest.mark.parametrize("q", PRIME_POWERS)
def test_field_axioms(q: int) -> None:
    """All of them, for all elements: groups under addition and multiplication, and distributivity."""
    field, every = Field(q), np.arange(q)
    plus = field.add(every[:, None], every)
    times = field.multiply(every[:, None], every)
    for table in (plus, times):
        assert np.array_equal(table, table.T)
        assert np.array_equal(table[table[:, :, None], every], table[every[:, None, None], table])
    assert np.array_equal(np.sort(plus, axis=1), np.tile(every, (q, 1)))
    assert np.array_equal(np.sort(times[1:], axis=1), np.tile(every, (q - 1, 1)))
    assert np.array_equal(plus[0], every)
    assert np.array_equal(times[1], every)
    assert np.array_equal(times[:, plus], plus[times[:, :, None], times[:, None, :]])
    assert np.array_equal(
        field.add(field.subtract(every[:, None], every), every), np.broadcast_to(every[:, None], (q, q))
    )
    assert np.array_equal(
        field.multiply(field.divide(every[:, None], every[1:]), every[1:]), np.tile(every[:, None], q - 1)
    )
    assert sorted(field.powers.tolist()) == list(range(1, q))
    # p times anything is 0.
    total = np.zeros(q, dtype=np.int64)
    for _ in range(field.p):
        total = field.add(total, every)
    assert not total.any()


@pytest.mark.parametrize("q", [4, 8, 9, 25, 27])
def test_field_products_are_products_of_polynomials(q: int) -> None:
    """Oracle: long multiplication, reduced by x^k = the k-th power of x, which is the element p."""
    field = Field(q)
    p, k = field.p, field.k
    assert field.powers[1] == p
    tail = [int(field.powers[k]) // p**i % p for i in range(k)]
    for a, b in itertools.product(range(q), repeat=2):
        coefficient = [0] * (2 * k - 1)
        for i, j in itertools.product(range(k), repeat=2):
            coefficient[i + j] += (a // p**i % p) * (b // p**j % p)
        for at in range(2 * k - 2, k - 1, -1):
            for i in range(k):
                coefficient[at - k + i] += coefficient[at] * tail[i]
        assert field.multiply(a, b) == sum(c % p * p**i for i, c in enumerate(coefficient[:k]))


# Slim Fly -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [q for q in PRIME_POWERS if 2 < q < 30])
def test_slim_fly_is_the_mms_graph(q: int) -> None:
    """Besta, Hoefler 2014: 2q^2 routers of degree (3q - delta) / 2, diameter 2, p = ceil(degree / 2) hosts each."""
    delta = {0: 0, 1: 1, 3: -1}[q % 4]
    degree = (3 * q - delta) // 2
    net = slim_fly(q)
    matrix = adjacency(net)
    assert net.n_switches == 2 * q * q
    assert net.n_hosts == net.n_switches * -(-degree // 2)
    assert matrix.max() == 1
    assert np.array_equal(matrix, matrix.T)
    assert np.all(matrix.sum(axis=1) == degree)
    assert np.all(matrix + matrix @ matrix > 0)
    found = distances(net, np.ones(net.n_switches, dtype=bool))
    assert found.diameter == 2
    assert found.average == pytest.approx(2 - degree / (net.n_switches - 1), rel=1e-12)
    first, second = generator_sets(q)
    field = Field(q)
    for part in (first, second):
        assert len(set(part.tolist())) == part.size == (q - delta) // 2
        assert set(field.subtract(0, part).tolist()) == set(part.tolist())
    # The definition, switch by switch.
    element = np.arange(q)
    blocks = matrix.reshape(2, q, q, 2, q, q)
    for s, part in ((0, first), (1, second)):
        for x, y in itertools.product(range(min(q, 4)), repeat=2):
            wanted = np.zeros((q, q), dtype=int)
            wanted[x, field.add(y, part)] = 1
            assert np.array_equal(blocks[s, x, y, s], wanted)
    for x, y in itertools.product(range(min(q, 4)), repeat=2):
        m, c = np.nonzero(blocks[0, x, y, 1])
        assert np.array_equal(m, element)
        assert np.all(field.add(field.multiply(m, x), c) == y)


def test_slim_fly_of_five_is_hoffman_singleton() -> None:
    """The only graph of degree 7, girth 5 and 50 vertices: A^2 + A = 6 I + J."""
    matrix = adjacency(slim_fly(5))
    assert np.array_equal(matrix @ matrix + matrix, 6 * np.eye(50, dtype=int) + 1)
    graph = nx.from_numpy_array(matrix > 0)
    assert nx.girth(graph) == 5
    assert nx.is_isomorphic(graph, nx.hoffman_singleton_graph())


# PolarFly -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [q for q in PRIME_POWERS if q < 30])
def test_polarfly_is_the_polarity_graph(q: int) -> None:
    """With loops at the quadrics each two points have one common neighbour: A^2 = q I + J. Hence diameter 2."""
    net = polarfly(q)
    n = q * q + q + 1
    assert net.n_switches == n
    assert net.n_hosts == n * ((q + 2) // 2)
    matrix = adjacency(net)
    assert matrix.max() == 1
    assert not matrix.diagonal().any()
    own = quadrics(q)
    assert own.size == q + 1
    assert Counter(matrix.sum(axis=1).tolist()) == {q + 1: q * q, q: q + 1}
    assert np.all(matrix[own].sum(axis=1) == q)
    looped = matrix.copy()
    looped[own, own] = 1
    assert np.array_equal(looped @ looped, q * np.eye(n, dtype=int) + 1)
    # No two quadrics are joined.
    assert not matrix[np.ix_(own, own)].any()
    found = distances(net, np.ones(net.n_switches, dtype=bool))
    assert found.diameter == 2
    assert found.average == pytest.approx(2 - (q * (q + 1) ** 2) / (n * (n - 1)), rel=1e-12)


@pytest.mark.parametrize("q", [2, 3, 4, 7, 8, 9])
def test_polarfly_joins_points_of_product_zero(q: int) -> None:
    field, point = Field(q), points(q)
    assert len({tuple(row) for row in point.tolist()}) == q * q + q + 1
    product = np.zeros((point.shape[0], point.shape[0]), dtype=np.int64)
    for i in range(3):
        product = field.add(product, field.multiply(point[:, None, i], point[None, :, i]))
    wanted = (product == 0) & ~np.eye(point.shape[0], dtype=bool)
    assert np.array_equal(adjacency(polarfly(q)), wanted)


def test_polarfly_marks_quadrics() -> None:
    net = polarfly(5, hosts=1)
    own = set(quadrics(5).tolist())
    for i in range(net.n_switches):
        assert net.vertex_name(net.n_hosts + i).startswith("quadric (" if i in own else "switch (")
    links = net.link_layer == net.layer_names.index("quadric")
    assert int(links.sum()) == 2 * 5 * 6
    ends = np.stack([net.link_src[links], net.link_dst[links]]) - net.n_hosts
    assert np.all(np.isin(ends, list(own)).sum(axis=0) == 1)
    # 1 + 1 + 4 is not 0 modulo 5, 1 + 4 + 0 is.
    assert 7 not in own
    assert 10 in own


# Both ---------------------------------------------------------------------------------------------------------------


def test_layers_and_hosts() -> None:
    net = slim_fly(4, hosts=0, switch_capacity="400Gbps")
    assert (net.n_hosts, net.n_links) == (0, 2 * 32 * 3)
    assert np.all(net.link_capacity_bytes_per_s == 50e9)
    assert slim_fly(5).vertex_name(200 + 25 + 13) == "switch (1, 2, 3)"
    assert polarfly(3, 2, host_latency="1us").n_hosts == 26


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("slim_fly", {"q": 2}, "slim_fly q: must be a whole number, 3 or more, got 2"),
        ("slim_fly", {"q": 15}, "slim_fly q: must be a prime power, got 15; take q=13 or q=16"),
        ("polarfly", {"q": 10}, "polarfly q: must be a prime power, got 10; take q=9 or q=11"),
        ("polarfly", {"q": 2**31 - 1}, "polarfly: must have fewer than 2^31 vertices and links, got about 10^28 vertices "
         "and about 10^28 links; choose a smaller network"),
    ],
)  # fmt: skip
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(name, **params)
