"""BCube and rail-optimised clusters against their definitions, published tables, and searches by networkx."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.routing import check_paths, paths
from netsim.topologies import Topology, bcube, build, describe, rail_optimized
from netsim.topologies.many_links import host_distances


def counted(net: Topology) -> list[int]:
    """Oracle: ordered pairs of hosts at each distance; a host that does not forward is only an end."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for u, v in zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True):
        forwards = v >= net.n_hosts or net.host_transit[v]
        # A host that ends a path is another vertex than the one that begins it.
        graph.add_edge(u, v if forwards else ("end", v))
    counts: Counter[int] = Counter()
    for s in range(net.n_hosts):
        length = nx.single_source_shortest_path_length(graph, s)
        for d in range(net.n_hosts):
            if s != d:
                counts[length[d if net.host_transit[d] else ("end", d)]] += 1
    return [counts[i] for i in range(max(counts, default=0) + 1)]


@pytest.mark.parametrize(("n", "k"), [(2, 0), (2, 1), (4, 1), (3, 2), (4, 2), (8, 1), (2, 4)])
def test_bcube(n: int, k: int) -> None:
    """Guo et al. 2009, section 3.1: n^(k+1) servers of k + 1 ports, k + 1 levels of n^k switches; distance by Hamming."""
    net = bcube(n, k)
    assert (net.n_hosts, net.n_switches) == (n ** (k + 1), (k + 1) * n**k)
    ports = np.diff(net.out_ptr)
    assert np.all(ports[: net.n_hosts] == k + 1)
    assert np.all(ports[net.n_hosts :] == n)
    assert net.host_transit.all()
    for level in range(k + 1):
        links = np.flatnonzero((net.link_layer == level) & (net.link_src < net.n_hosts))
        for switch in np.unique(net.link_dst[links]).tolist():
            assert net.vertex_name(switch).startswith(f"level {level} ")
            hosts = net.link_src[links[net.link_dst[links] == switch]]
            digits = np.stack(np.unravel_index(hosts, (n,) * (k + 1)))[::-1]
            assert sorted(digits[level].tolist()) == list(range(n))
            assert all(len(set(digits[i].tolist())) == 1 for i in range(k + 1) if i != level)
    assert host_distances(net).tolist() == counted(net)
    found = describe(net)
    assert found.between_hosts.diameter == 2 * (k + 1)
    # Server hops: digits that differ, (k + 1)(n - 1)/n on average over all pairs.
    mean = (k + 1) * (n - 1) / n * net.n_hosts / (net.n_hosts - 1)
    assert found.between_hosts.average == pytest.approx(2 * mean, rel=1e-12)
    assert "between hosts" in "\n".join(found.lines())
    assert found.n_components == 1


def count_by_name(net: Topology) -> Counter[str]:
    names = [net.vertex_name(v) for v in range(net.n_hosts, net.n_vertices)]
    assert len(set(names)) == len(names)
    return Counter(next(word for word in ("leaf", "spine", "core", "node") if word in name) for name in names)


@pytest.mark.parametrize(
    ("units", "leaves", "spines", "cores"),
    [(2, 16, 8, 0), (4, 32, 16, 0), (8, 64, 32, 0), (16, 128, 128, 64), (32, 256, 256, 128), (64, 512, 512, 256)],
)
def test_rail_optimized_is_the_superpod_table(units: int, leaves: int, spines: int, cores: int) -> None:
    """NVIDIA DGX SuperPOD reference architecture, table of scalable units; cables of each tier as many as GPUs."""
    net = rail_optimized(nodes=32 * units)
    assert net.n_hosts == 256 * units
    wanted = {"node": 32 * units, "leaf": leaves, "spine": spines, "core": cores}
    assert count_by_name(net) == Counter({key: count for key, count in wanted.items() if count})
    for i in range(len(net.layer_names)):
        assert int((net.link_layer == i).sum()) == 2 * net.n_hosts
    # Every port of leaves, spines and cores is in use.
    assert np.all(np.diff(net.out_ptr)[net.n_hosts + 32 * units :] == 64)


@settings(max_examples=40, deadline=None)
@given(
    nodes=st.integers(1, 20),
    gpus=st.integers(1, 4),
    radix=st.sampled_from([4, 6, 7, 8, 16]),
    unit=st.integers(1, 4),
    up=st.integers(1, 4),
)
def test_rail_optimized_keeps_to_its_ports_and_distances(nodes: int, gpus: int, radix: int, unit: int, up: int) -> None:
    units = -(-nodes // unit)
    if unit + up > radix or (units * gpus > radix and -(-units // (radix // 2)) * gpus > radix):
        with pytest.raises(InputError, match=r"^rail_optimized: "):
            rail_optimized(nodes, gpus, radix, unit, up)
        return
    net = rail_optimized(nodes, gpus, radix, unit, up)
    ports = np.diff(net.out_ptr)
    assert np.all(ports[: net.n_hosts] == 2)
    assert np.all(ports[net.n_hosts : net.n_hosts + nodes] == gpus)
    assert ports[net.n_hosts + nodes :].max() <= radix
    # GPU r of node i: the node's own switch, and the leaf of its unit and rail.
    for i, r in itertools.product(range(nodes), range(gpus)):
        behind = {net.vertex_name(int(v)) for v in net.link_dst[net.out_links(i * gpus + r)]}
        assert behind == {f"node {i} switch", f"unit {i // unit} rail {r} leaf"}
    count_by_name(net)
    assert host_distances(net).tolist() == counted(net)
    assert build("rail_optimized", **net.params).content_hash == net.content_hash


@pytest.mark.parametrize("net", [bcube(3, 2), rail_optimized(6, 2, 4, 2, 2), rail_optimized(6, 4, 64, 2, 1)])
@pytest.mark.parametrize("routing", ["minimal", "ecmp"])
def test_routes_are_as_short_as_the_closed_form_says(net: Topology, routing: str) -> None:
    source, destination = np.divmod(np.arange(net.n_hosts**2), net.n_hosts)
    routes = paths(net, source, destination, routing=routing)
    check_paths(net, routes, source, destination)
    counts = np.bincount(routes.hops[source != destination])
    assert counts.tolist() == host_distances(net).tolist()
    # Within a node: over the node's own switch.
    if net.family == "rail_optimized":
        near = (source // net.params["gpus"] == destination // net.params["gpus"]) & (source != destination)
        assert np.all(net.link_layer[routes.take(np.flatnonzero(near)).link] == net.layer_names.index("nvlink"))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("bcube", {"n": 2, "k": 40}, "bcube k: must be below 32, got 40"),
        ("rail_optimized", {"nodes": 8, "radix": 8, "unit": 5, "up": 4},
         "rail_optimized: a leaf has 8 ports, got unit=5 nodes and up=4 links; lower one"),
        ("rail_optimized", {"nodes": 40, "gpus": 4, "radix": 8},
         "rail_optimized: three levels of 8 ports join 32 nodes of 4, got 40; raise radix or unit"),
    ],
)  # fmt: skip
def test_bad_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        build(name, **params)
