"""Placements: every registered rule, and files that do not say what they should."""

from __future__ import annotations

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.jobs import Placement, place, placements

NETWORKS = {
    "star": {"n": 12},
    "dragonfly": {"p": 2, "a": 4, "h": 2},
    "fat_tree": {"k": 4},
    "torus": {"dims": (3, 4)},
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rule", list(placements))
@pytest.mark.parametrize("per_host", [1, 3])
def test_every_rule_fills_distinct_hosts(rule, network, per_host):
    topology = ns.topologies.build(network, **NETWORKS[network])
    for n in (1, 2, topology.n_hosts * per_host):
        placement = place(rule, n_ranks=n, topology=topology, ranks_per_host=per_host, seed=3)
        hosts, counts = np.unique(placement.host, return_counts=True)
        assert placement.n_ranks == n
        assert hosts.min() >= 0
        assert hosts.max() < topology.n_hosts
        # Hosts fill up one after the other: all but the last hold as many ranks as allowed.
        assert hosts.size == -(-n // per_host)
        assert sorted(counts.tolist())[1:] == [per_host] * (hosts.size - 1)
        again = place(rule, n_ranks=n, topology=topology, ranks_per_host=per_host, seed=3)
        assert (again.host == placement.host).all()


def test_round_robin_spreads_neighbours_over_switches():
    # 16 hosts on 8 edge switches of a k=4 fat-tree: the first eight ranks are on eight switches.
    tree = ns.topologies.fat_tree(k=4)
    host = place("round-robin", n_ranks=16, topology=tree).host
    switch = {
        int(tree.link_src[l]): int(tree.link_dst[l]) for l in range(tree.n_links) if tree.link_src[l] < tree.n_hosts
    }
    assert len({switch[int(h)] for h in host[:8]}) == 8
    assert len({switch[int(h)] for h in host[8:]}) == 8


def test_random_follows_the_seed():
    star = ns.topologies.star(n=40)
    hosts = [place("random", n_ranks=40, topology=star, seed=seed).host.tolist() for seed in (1, 1, 2)]
    assert hosts[0] == hosts[1] != hosts[2]
    assert sorted(hosts[0]) == list(range(40))


def test_from_file_in_both_forms(tmp_path):
    star = ns.topologies.star(n=4)
    plain, table = tmp_path / "plain.txt", tmp_path / "table.csv"
    plain.write_text("# host of each rank\n3\n1\n1\n")
    table.write_text("rank,host\n2,1\n0,3\n1,1\n")
    for path in (plain, table):
        assert place(f"file:{path}", n_ranks=3, topology=star).host.tolist() == [3, 1, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0\n1\n", ": must place all 3 ranks, got no host for rank 2"),
        ("0\n1\n2\n3\n", ", entry 4: ranks must be 0..2, got 3"),
        ("rank,host\n0,0\n0,1\n", ", entry 2: each rank must occur once, got rank 0 again"),
        ("zero\n", ", entry 1: each line must be a host number or 'rank,host', got 'zero'"),
        ("0,1,2\n", ", entry 1: each line must be a host number or 'rank,host', got '0,1,2'"),
        ("", ": must place all 3 ranks, got no host for rank 0"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "hosts.txt"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        place(f"file:{path}", n_ranks=3, topology=ns.topologies.star(n=4))
    assert str(error.value) == f"placement file {path}{message}"


def test_other_mistakes():
    star = ns.topologies.star(n=4)
    cases = [
        (("file:/nowhere", 3), "placement file /nowhere: must be a readable text file, got No such file or directory"),
        (
            ("linaer", 3),
            "placement: unknown name, got 'linaer'; did you mean 'linear'? valid: linear, random, round-robin",
        ),
        ((Placement(np.array([0, 9, 1])), 3), "rank 1: its host must be one of 0..3, got 9"),
        ((Placement(np.array([0, 1])), 3), "placement: must place 3 ranks, got 2"),
    ]
    for (method, n), message in cases:
        with pytest.raises(InputError) as error:
            place(method, n_ranks=n, topology=star)
        assert str(error.value) == message
