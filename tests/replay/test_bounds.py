"""Lower bounds against hand calculation: the busiest host, switch, group, subtree and half."""

from __future__ import annotations

import numpy as np
import pytest

import netsim as ns
from netsim.results.bounds import lower_bounds
from netsim.topologies.parts import natural_parts

RATE = 1e9


def bounds(topology, pairs, size=1e6):
    src, dst = np.array(pairs).T
    return lower_bounds(topology=topology, src_host=src, dst_host=dst, size_bytes=np.full(len(pairs), size))


def test_injection_and_ejection():
    star = ns.topologies.star(n=4, capacity=RATE)
    assert bounds(star, [(0, 1), (0, 2)]).injection_s == pytest.approx(2e-3)
    found = bounds(star, [(0, 3), (1, 3), (2, 3)])
    assert (found.injection_s, found.injection_host) == (pytest.approx(3e-3), 3)
    assert bounds(star, [(2, 2)]).makespan_s == 0


def test_one_global_link_carries_all_of_a_group():
    # ADV+1 on dragonfly (p,a,h) = (2,4,2): 8 hosts of group 0 send 1 MB each to group 1. The group owns a h = 8 global links, and any
    # routing may use them all: 1 ms; the bound must not assume the single direct one.
    net = ns.topologies.dragonfly(p=2, a=4, h=2, capacity=RATE, local_capacity=100 * RATE, host_capacity=100 * RATE)
    found = bounds(net, [(i, 8 + i) for i in range(8)])
    assert (found.cut, found.cut_s) == ("group 0", pytest.approx(1e-3))


def test_a_tapered_tree_is_bound_by_its_subtrees():
    # XGFT(3; 2,2,2; 1,2,1): 8 hosts; a subtree of height 2 has 4 hosts and 2 x 1 links up: 4 MB over 2 links.
    tree = ns.topologies.xgft(m=(2, 2, 2), w=(1, 2, 1), capacity=RATE)
    found = bounds(tree, [(i, 4 + i) for i in range(4)])
    assert found.cut_s == pytest.approx(2e-3)
    assert found.cut in ("subtree 0 of height 2", "subtree 1 of height 2")


def test_half_of_a_torus():
    # 4x4 torus, every host to the one half way round in dimension 0: 8 MB cross the middle one way over 2 x 4 links.
    net = ns.topologies.torus(dims=(4, 4), capacity=RATE)
    found = bounds(net, [(i, (i + 8) % 16) for i in range(16)], size=1e6)
    assert found.cut_s == pytest.approx(1e-3)


@pytest.mark.parametrize("name", ["star", "dragonfly", "fat_tree", "k_ary_n_tree", "xgft", "torus", "mesh"])
def test_parts_are_partitions_and_hosts_follow_their_switch(name):
    topology = ns.topologies.build(name, n_hosts=24)
    for _, part in natural_parts(topology):
        assert part.shape == (topology.n_vertices,)
        assert part.min() >= 0
        up = topology.link_src < topology.n_hosts
        assert (part[topology.link_src[up]] == part[topology.link_dst[up]]).all()


@pytest.mark.parametrize("name", ["dragonfly", "fat_tree", "torus", "mesh", "star"])
@pytest.mark.parametrize("seed", range(3))
def test_no_replay_beats_the_bound(name, seed):
    rng = np.random.default_rng(seed)
    n = 30
    trace = ns.Trace.from_matrix(
        n_ranks=n, src=rng.integers(0, n, 90), dst=rng.integers(0, n, 90), bytes=rng.integers(0, 10**6, 90)
    )
    assert ns.replay(trace, topology=name).summary["lower_bound"]["times_lower_bound"] >= 1
