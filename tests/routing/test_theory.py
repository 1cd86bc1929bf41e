"""Figures of merit of each routing, from theory: hops, channel loads, collisions, spread."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from netsim.routing import d_mod_k, dimension_order, ecmp, link_loads, minimal
from netsim.topologies import Topology, dragonfly, fat_tree, mesh, torus, xgft


def all_pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    source, destination = np.divmod(np.arange(n * n), n)
    return source, destination


def layer(net: Topology, name: str) -> np.ndarray:
    return net.link_layer == net.layer_names.index(name)


# Dragonfly ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [1, 2, 3, 4])
@pytest.mark.parametrize("arrangement", ["palmtree", "absolute", "relative", "circulant"])
def test_canonical_dragonfly_hops(h: int, arrangement: str) -> None:
    """From a router: a-1 routers of its group at 1 hop. Of each other group one pair of routers holds the global link.

    The source router owns h of the g-1 = ah links. Destination routers over an own link: 1 at one hop (the gateway), a-1 at
    two; over another's link: 1 at two, a-1 at three. Any one-link-per-pair arrangement gives the same sum.
    """
    a, p = 2 * h, h
    g = a * h + 1
    own, others = h, a * h - h
    total = (a - 1) + own * (1 + 2 * (a - 1)) + others * (2 + 3 * (a - 1))
    expected = total / (a * g - 1)
    assert expected == pytest.approx({1: 1.8, 2: 2.371429, 3: 2.592920, 4: 2.703422}[h], abs=5e-7)

    net = dragonfly(p, a, h, arrangement=arrangement)
    routers = np.arange(0, net.n_hosts, p)
    source, destination = (routers[i] for i in all_pairs(routers.size))
    hops = minimal(net, source, destination).hops
    assert (hops[source != destination] - 2).mean() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("h", [2, 3])
@pytest.mark.parametrize("offset", [1, 2])
def test_adversarial_traffic_puts_a_whole_group_on_one_global_link(h: int, offset: int) -> None:
    """ADV+i: every host of group s sends to group s + i; one link carries all ap of them (throughput 1 / (ap))."""
    a, p = 2 * h, h
    net = dragonfly(p, a, h)
    source = np.arange(net.n_hosts)
    destination = (source + offset * a * p) % net.n_hosts
    load = link_loads(net, minimal(net, source, destination))[layer(net, "global")]
    assert Counter(load.tolist()) == {float(a * p): a * h + 1, 0.0: load.size - (a * h + 1)}


@pytest.mark.parametrize("h", [1, 2, 3])
def test_uniform_dragonfly_channel_loads(h: int) -> None:
    """One flow per ordered host pair: (ap)^2 on each global link, p^2 (1 + 2ah) at most on a local one."""
    a, p = 2 * h, h
    net = dragonfly(p, a, h)
    load = link_loads(net, minimal(net, *all_pairs(net.n_hosts)))
    assert np.all(load[layer(net, "global")] == (a * p) ** 2)
    # Local link from u to v: v's p hosts from u's p; through v's h global links the p hosts of u to ap hosts each; and what
    # arrives over u's h global links for v: ap sources, p destinations each.
    assert np.all(load[layer(net, "local")] == p * p * (1 + 2 * a * h))


def test_trunks_share_the_flows_of_a_group_pair() -> None:
    net = dragonfly(2, 4, 2, 3)  # 4 links per group pair
    for routes in (minimal(net, *all_pairs(24)), ecmp(net, *all_pairs(24), seed=1)):
        load = link_loads(net, routes)[layer(net, "global")]
        # 64 flows per group pair over 4 links: 16 each on average, none idle, no link with more than twice its share.
        assert load.mean() == 16
        assert load.min() > 0
        assert load.max() <= 32


# Trees --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", [fat_tree(4), fat_tree(8), xgft((4, 4, 4), (1, 4, 4)), xgft((3, 5), (1, 3))])
def test_every_shift_permutation_is_free_of_collisions(net: Topology) -> None:
    """Zahavi 2010: under D-mod-k no link of a full tree carries two flows of a shift permutation."""
    source = np.arange(net.n_hosts)
    for shift in range(1, net.n_hosts):
        destination = (source + shift) % net.n_hosts
        assert link_loads(net, d_mod_k(net, source, destination)).max() == 1


def test_shift_on_a_tapered_tree_meets_the_taper() -> None:
    """16 hosts, 2:1: a shift by one leaf sends 4 flows over the 2 links up of each leaf."""
    net = xgft((4, 4), (1, 2))
    source = np.arange(16)
    load = link_loads(net, d_mod_k(net, source, (source + 4) % 16))
    assert np.all(load[layer(net, "level 1-2")] == 2)


def test_d_mod_k_uses_all_links_down_and_up_evenly_under_uniform_traffic() -> None:
    """Each of the links of a level carries the pairs that cross it, over the number of links; k = 4: 16 hosts."""
    net = fat_tree(4)
    load = link_loads(net, d_mod_k(net, *all_pairs(16)))
    # A host's link: 15. An edge switch's 2 hosts send to 14 hosts outside: 28 flows over 2 links. A pod's 4 hosts to 12
    # outside: 48 flows over 4 links.
    assert np.all(load[layer(net, "host")] == 15)
    assert np.all(load[layer(net, "edge-aggregation")] == 14)
    assert np.all(load[layer(net, "aggregation-core")] == 12)


def inter_pod_flows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 16, n)
    destination = (source // 4 * 4 + rng.integers(4, 16, n)) % 16
    assert np.all(source // 4 != destination // 4)
    return source, destination


@pytest.mark.parametrize("seed", range(5))
def test_ecmp_does_not_polarise(seed: int) -> None:
    """2000 random flows between pods of a k=4 fat-tree: 500 per core expected; all links within 20 % of the mean (4 sigma)."""
    net = fat_tree(4)
    source, destination = inter_pod_flows(2000, seed)
    routes = ecmp(net, source, destination, flow=np.arange(2000), seed=seed)
    core = net.link_dst[routes.link[routes.ptr[:-1] + 2]]
    used = np.bincount(core - net.n_hosts - 16, minlength=4)
    assert used.size == 4
    assert used.max() / used.mean() <= 1.2
    assert used.min() / used.mean() >= 0.8
    # Without a salt per switch the choice at the aggregation switch would repeat that at the edge switch.
    first = net.link_dst[routes.link[routes.ptr[:-1] + 1]] % 2
    second = (core - net.n_hosts - 16) // 2
    assert np.histogram2d(first, second, bins=2)[0].min() > 400


def test_ecmp_keeps_flows_and_separates_labels_and_seeds() -> None:
    net = fat_tree(8)
    source, destination = np.zeros(200, dtype=int), np.full(200, 127)
    one = ecmp(net, source, destination)
    assert len({tuple(path.tolist()) for path in one}) == 1
    by_label = ecmp(net, source, destination, flow=np.arange(200))
    # 200 balls into 16 paths: all are used but with probability 16 (15/16)^200 = 4e-5.
    assert len({tuple(path.tolist()) for path in by_label}) == 16
    assert not np.array_equal(by_label.link, ecmp(net, source, destination, flow=np.arange(200), seed=1).link)
    backwards = ecmp(net, source, destination, flow=np.arange(200)[::-1])
    assert np.array_equal(backwards.take(np.arange(200)[::-1]).link, by_label.link)


@pytest.mark.parametrize("net", [torus((4, 4)), torus((5, 3)), mesh((4, 3))])
def test_ecmp_on_grids_can_take_every_shortest_path(net: Topology) -> None:
    import networkx as nx

    from netsim.topologies import to_networkx

    graph = nx.DiGraph(to_networkx(net))
    source, destination = all_pairs(net.n_hosts)
    paths = [set() for _ in range(source.size)]
    for seed in range(150):
        for i, path in enumerate(ecmp(net, source, destination, seed=seed)):
            paths[i].add(tuple(net.link_dst[path].tolist()))
    for i, (s, d) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        if s == d:
            continue
        wanted = {tuple(path[1:]) for path in nx.all_shortest_paths(graph, s, d)}
        assert paths[i] <= wanted
        # The rarest of few paths has probability 1/8 or more: missed in 150 draws with (7/8)^150 = 2e-9.
        if len(wanted) <= 4:
            assert paths[i] == wanted


# Torus and mesh -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(4, 4), (8,), (8, 8), (4, 4, 4), (5, 5), (5,), (8, 8, 8), (6, 6), (12, 4)])
def test_uniform_torus_channel_load(dims: tuple[int, ...]) -> None:
    """One flow per ordered pair: each link of a ring of k carries N k/8 (k even) or N (k^2 - 1) / (8k) (k odd).

    Saturation throughput (N - 1) / load is 8/k (N - 1) / N, and 8k / (k^2 - 1) (N - 1) / N.
    """
    net = torus(dims)
    load = link_loads(net, dimension_order(net, *all_pairs(net.n_hosts)))
    for d, k in enumerate(dims):
        wanted = net.n_hosts * (k / 8 if k % 2 == 0 else (k * k - 1) / (8 * k))
        assert np.all(load[layer(net, f"dimension {d}")] == wanted)


def test_ring_of_six_cannot_be_even_with_whole_paths() -> None:
    """k/8 * N = 4.5 is no whole number: links carry 4 or 5."""
    net = torus((6,))
    load = link_loads(net, dimension_order(net, *all_pairs(6)))[layer(net, "dimension 0")]
    assert Counter(load.tolist()) == {4.0: 6, 5.0: 6}


@pytest.mark.parametrize("dims", [(4, 4), (8, 8), (4, 4, 4), (5, 3)])
def test_uniform_mesh_channel_load(dims: tuple[int, ...]) -> None:
    """The link after i switches of a line of k: i (k - i) pairs of places, times N / k choices of the rest."""
    net = mesh(dims)
    load = link_loads(net, dimension_order(net, *all_pairs(net.n_hosts)))
    for d, k in enumerate(dims):
        links = load[layer(net, f"dimension {d}")]
        counts = Counter(links.tolist())
        wanted: Counter[float] = Counter()
        for i in range(1, k):
            wanted[i * (k - i) * net.n_hosts / k] += 2 * net.n_hosts // k
        assert counts == wanted


@pytest.mark.parametrize("k", [5, 7, 8])
def test_tornado_loads_one_direction(k: int) -> None:
    """Offset ceil(k/2) - 1: that many flows on every link one way, none the other way."""
    net = torus((k,))
    source = np.arange(k)
    offset = -(-k // 2) - 1
    load = link_loads(net, dimension_order(net, source, (source + offset) % k))[layer(net, "dimension 0")]
    assert sorted(load.tolist()) == [0.0] * k + [float(offset)] * k


def test_dimension_order_corrects_dimensions_in_turn() -> None:
    net = torus((5, 4, 3), 2)
    source, destination = all_pairs(net.n_hosts)
    routes = dimension_order(net, source, destination)
    order = net.link_layer[routes.link].astype(int)
    order[order == 0] = -1  # host links stand at both ends
    row = np.repeat(np.arange(len(routes)), routes.hops)
    inner = (row[1:] == row[:-1]) & (order[1:] > 0)
    assert np.all(order[1:][inner] >= order[:-1][inner])
