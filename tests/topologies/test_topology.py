"""The Topology container: validation, names, adjacency, hash."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.topologies import Topology, build, dragonfly, fat_tree, mesh, star, to_networkx, torus, xgft


def two_hosts(**changes: Any) -> Topology:
    arguments: dict[str, Any] = {
        "n_hosts": 2,
        "n_switches": 1,
        "source": [0, 2, 1, 2],
        "destination": [2, 0, 2, 1],
        "capacity": np.full(4, 1e9),
        "latency": np.zeros(4),
    }
    return Topology.from_links(**{**arguments, **changes})


def with_value(column: str, value: float) -> dict[str, Any]:
    values = np.full(4, 1.0)
    values[1] = value
    return {column: values}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            with_value("capacity", math.nan),
            "link 1 (switch 0 -> host 0): capacity must be above 0 bytes per second, got nan; "
            "leave a link out to have it down",
        ),
        (
            with_value("capacity", -1.0),
            "link 1 (switch 0 -> host 0): capacity must be above 0 bytes per second, got -1.0; "
            "leave a link out to have it down",
        ),
        (
            with_value("capacity", 0.0),
            "link 1 (switch 0 -> host 0): capacity must be above 0 bytes per second, got 0.0; "
            "leave a link out to have it down",
        ),
        (
            with_value("latency", math.nan),
            "link 1 (switch 0 -> host 0): latency must be finite and not negative, in seconds, got nan",
        ),
        (
            with_value("latency", -1.0),
            "link 1 (switch 0 -> host 0): latency must be finite and not negative, in seconds, got -1.0",
        ),
        (
            with_value("latency", math.inf),
            "link 1 (switch 0 -> host 0): latency must be finite and not negative, in seconds, got inf",
        ),
        ({"source": [0, 2, 1, 3]}, "link 3: its source must be one of the 3 vertices, got 3"),
        ({"destination": [2, -1, 2, 1]}, "link 1: its destination must be one of the 3 vertices, got -1"),
        (
            {"destination": [2, 0, 1, 1]},
            "link 2 (host 1 -> host 1): a link must join two different vertices, got 1",
        ),
        ({"destination": [2, 0]}, "topology: destination must have one value, or one for each of the 4, got (2,)"),
        ({"capacity": [1.0, 2.0]}, "topology: capacity must have one value, or one for each of the 4, got (2,)"),
        ({"n_hosts": -1}, "topology: the number of hosts must be a whole number, 0 or more, got -1"),
        ({"layer": [0, 1, 0, 0]}, "link 1 (switch 0 -> host 0): unknown layer, got 1"),
        ({"vertex_names": ["a"]}, "topology: vertex names must be 3, one per vertex, got 1"),
        (
            {"capacity": "100"},
            "capacity: a bare number could mean several units of rate, got '100'; write '100Gbps' or '100GB/s'",
        ),
    ],
)
def test_bad_links_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        two_hosts(**changes)


def test_infinite_capacity_and_zero_latency_are_fine() -> None:
    net = two_hosts(capacity=math.inf, latency=0.0)
    assert np.all(np.isinf(net.link_capacity_bytes_per_s))
    assert np.all(net.link_latency_s == 0)


def test_units() -> None:
    net = two_hosts(capacity="100Gbps", latency="1us")
    assert np.all(net.link_capacity_bytes_per_s == 12.5e9)
    assert np.all(net.link_latency_s == 1e-6)


def test_parallel_links_stay_apart() -> None:
    net = Topology.from_links(n_hosts=0, n_switches=2, source=[0, 1, 0, 0], destination=[1, 0, 1, 1])
    assert net.n_links == 4
    assert [net.link_name(i) for i in range(4)] == [
        "switch 0 -> switch 1 #0",
        "switch 1 -> switch 0",
        "switch 0 -> switch 1 #1",
        "switch 0 -> switch 1 #2",
    ]
    at, count = net.links_between([0, 1, 0], [1, 0, 0])
    assert count.tolist() == [3, 1, 0]
    assert net.link_at(at[0] + np.arange(3)).tolist() == [0, 2, 3]


@pytest.mark.parametrize("net", [dragonfly(p=1, a=2, h=1), torus((3, 2)), xgft((2, 3), (2, 2))])
def test_adjacency_lists_every_link_once_and_ascending(net: Topology) -> None:
    for vertex in range(net.n_vertices):
        out = net.out_link[net.out_ptr[vertex] : net.out_ptr[vertex + 1]]
        into = net.in_link[net.in_ptr[vertex] : net.in_ptr[vertex + 1]]
        assert out.tolist() == [i for i in range(net.n_links) if net.link_src[i] == vertex]
        assert into.tolist() == [i for i in range(net.n_links) if net.link_dst[i] == vertex]


def test_arrays_are_read_only_and_stay_so_through_pickle() -> None:
    net = dragonfly(p=1, a=2, h=1)
    copy = pickle.loads(pickle.dumps(net))
    assert copy.content_hash == net.content_hash
    assert dict(copy.params) == dict(net.params)
    for some in (net, copy):
        with pytest.raises(ValueError, match="read-only"):
            some.link_src[0] = 1
        with pytest.raises(TypeError):
            some.params["p"] = 2


def test_hash_sees_every_array_and_not_the_family() -> None:
    base = two_hosts()
    different = [
        two_hosts(capacity=2e9),
        two_hosts(latency=1e-9),
        two_hosts(layer=[0, 1, 0, 0], layer_names=["x", "y"]),
        two_hosts(host_transit=[True, False]),
        two_hosts(n_switches=2),
        two_hosts(source=[0, 2, 2, 1], destination=[2, 0, 1, 2]),
    ]
    assert len({net.content_hash for net in (base, *different)}) == 7
    assert two_hosts(family="other").content_hash == base.content_hash


def test_names_of_vertices() -> None:
    assert dragonfly(p=2, a=4, h=2).vertex_name(72 + 7) == "group 1 router 3"
    tree = fat_tree(4)
    assert [tree.vertex_name(16 + i) for i in (0, 1, 2, 7, 8, 15, 16, 19)] == [
        "pod 0 edge 0",
        "pod 0 edge 1",
        "pod 1 edge 0",
        "pod 3 edge 1",
        "pod 0 aggregation 0",
        "pod 3 aggregation 1",
        "core 0",
        "core 3",
    ]
    assert mesh((2, 3)).vertex_name(6 + 5) == "switch (1, 2)"
    for net in (tree, dragonfly(p=1), torus((2, 3, 4)), xgft((2, 3), (2, 2)), build("k_ary_n_tree", k=2, n=3)):
        names = [net.vertex_name(i) for i in range(net.n_vertices)]
        assert len(set(names)) == net.n_vertices
    with pytest.raises(InputError, match=r"^topology: must be one of the 36 vertices, got 36$"):
        tree.vertex_name(36)


def test_expect() -> None:
    net = dragonfly(p=2, a=4, h=2)
    assert net.expect(n_hosts=72, n_switches=36, diameter=3, links_per_group_pair=1) is net
    with pytest.raises(InputError, match=r"^topology dragonfly: n_switches was expected to be 1, got 36$"):
        net.expect(n_switches=1)
    with pytest.raises(InputError, match=r"^topology dragonfly: diameter was expected to be 2, got 3$"):
        net.expect(n_hosts=72, diameter=2)
    with pytest.raises(InputError, match=r"^expect: unknown quantity, got 'n_host'; did you mean 'n_hosts'\? valid: "):
        net.expect(n_host=72)


def test_to_networkx_keeps_every_link() -> None:
    net = star(3, capacity="10Gbps", latency="5ns")
    graph = to_networkx(net)
    assert sorted(graph.edges(keys=True)) == sorted(
        zip(net.link_src.tolist(), net.link_dst.tolist(), range(net.n_links), strict=True)
    )
    assert graph.nodes[0] == {"name": "host 0", "host": True, "transit": False}
    assert graph.edges[0, 3, 0] == {"capacity_bytes_per_s": 1.25e9, "latency_s": 5e-9, "layer": "host"}
