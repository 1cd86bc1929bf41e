"""Networks written to files and read back, and networks derived from others."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.routing import check_paths, paths
from netsim.topologies import (
    Topology,
    bcube,
    build,
    describe,
    dragonfly,
    from_file,
    full_mesh,
    polarfly,
    rail_optimized,
    scale_links,
    star,
    to_file,
    topologies,
    without_links,
)


def by_name(net: Topology) -> tuple[Counter[Any], set[Any]]:
    """All that a file has to keep: links with their numbers, and vertices."""
    names = [net.vertex_name(v) for v in range(net.n_vertices)]
    links = Counter(
        (names[u], names[v], rate, delay, net.layer_names[layer])
        for u, v, rate, delay, layer in zip(
            net.link_src.tolist(),
            net.link_dst.tolist(),
            net.link_capacity_bytes_per_s.tolist(),
            net.link_latency_s.tolist(),
            net.link_layer.tolist(),
            strict=True,
        )
    )
    transit = [*net.host_transit.tolist(), *[True] * net.n_switches]
    return links, {(name, v < net.n_hosts, transit[v]) for v, name in enumerate(names)}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json", ".graphml"])
@pytest.mark.parametrize("name", [name for name in topologies if topologies[name].sizer])
def test_every_family_survives_a_file(name: str, suffix: str, tmp_path: Path) -> None:
    net = (
        build(name, n_hosts=20, host_capacity="37.5Gbps") if name not in ("star", "bcube") else build(name, n_hosts=20)
    )
    file = tmp_path / f"net{suffix}"
    if name == "bcube" and suffix in (".csv", ".parquet"):
        with pytest.raises(
            InputError, match=r"an edge list has no hosts that forward, got some; write \.json or \.graphml$"
        ):
            to_file(net, file)
        return
    to_file(net, file)
    assert by_name(from_file(file)) == by_name(net)


def test_infinite_capacities_and_one_way_links_survive_a_file(tmp_path: Path) -> None:
    net = Topology.from_links(
        n_hosts=2, n_switches=2, source=[0, 2, 2], destination=[2, 0, 1], capacity=[math.inf, 1e9, 3e-9]
    )
    for suffix in (".json", ".graphml"):
        to_file(net, tmp_path / f"net{suffix}")
        assert by_name(from_file(tmp_path / f"net{suffix}")) == by_name(net)
    with pytest.raises(InputError, match=r"an edge list has cables, got one-way links; write \.json or \.graphml$"):
        to_file(net, tmp_path / "net.csv")
    with pytest.raises(InputError, match=r"an edge list has no vertices without links, got switch 0; write"):
        to_file(full_mesh(1, 0), tmp_path / "net.csv")
    with pytest.raises(
        InputError,
        match=r"net.txt: unknown kind of topology file, got '\.txt'; use \.csv, \.parquet, \.json, \.graphml$",
    ):
        to_file(net, tmp_path / "net.txt")
    with pytest.raises(InputError, match=r"cannot be written, got No such file or directory$"):
        to_file(net, tmp_path / "nowhere" / "net.json")


def test_links_left_out() -> None:
    net = polarfly(3, hosts=1)
    wide = np.flatnonzero(net.link_src >= net.n_hosts)
    wide = wide[net.link_dst[wide] >= net.n_hosts]
    cut = without_links(net, wide[[0, 5]])
    assert (cut.family, cut.n_links, net.n_links) == ("graph", net.n_links - 4, 100 - 2 * 13)
    assert cut.vertex_name(net.n_hosts + 2) == net.vertex_name(net.n_hosts + 2)
    gone = by_name(net)[0] - by_name(cut)[0]
    assert gone == Counter(
        {one: 1 for link in (wide[0], wide[5]) for one in by_name(net)[0] if {one[0], one[1]} == _ends(net, int(link))}
    )
    # Diameter 2 and one path of length 2 for each pair: a cut pair is now 3 apart, and routing goes on.
    assert describe(cut).between_hosts.diameter == 3
    source, destination = np.divmod(np.arange(13 * 13), 13)
    check_paths(cut, paths(cut, source, destination), source, destination)
    assert without_links(net, wide[:1], both_ways=False).n_links == net.n_links - 1
    assert without_links(net, []).content_hash == net.content_hash


def _ends(net: Topology, link: int) -> set[str]:
    return {net.vertex_name(int(net.link_src[link])), net.vertex_name(int(net.link_dst[link]))}


def test_scaled_links() -> None:
    net = dragonfly(2)
    slow = scale_links(net, 0.25, layer="global")
    assert slow.family == "dragonfly"
    assert slow.content_hash == dragonfly(2, global_capacity="25Gbps").content_hash
    assert scale_links(net, 4).content_hash == dragonfly(2, capacity="400Gbps").content_hash
    one = scale_links(net, 2, links=[7])
    assert one.family == "graph"
    assert np.flatnonzero(one.link_capacity_bytes_per_s != net.link_capacity_bytes_per_s).tolist() == [7]
    assert one.link_capacity_bytes_per_s[7] == 2 * net.link_capacity_bytes_per_s[7]
    assert scale_links(rail_optimized(2), 0.5, layer="nvlink").link_capacity_bytes_per_s[0] == 225e9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scale_links(star(2), 0), "factor: must be above 0 and finite, got 0; leave a link out to have it down"),
        (lambda: scale_links(star(2), 1, layer="hosts"), "layer: unknown name, got 'hosts'; did you mean 'host'? valid: host"),
        (lambda: scale_links(star(2), 1, layer="host", links=[0]), "scale_links: takes a layer or links, got both"),
        (lambda: without_links(star(2), [4]), "links: must be among the 4 links, got 4"),
        (lambda: without_links(star(2), [0.5]), "links: must be link numbers, got float64 values"),
        (lambda: without_links(without_links(bcube(2), [0], both_ways=False), [0]),
         "links: must come in cables to go both ways, got one-way links; give both_ways=False"),
    ],
)  # fmt: skip
def test_bad_changes(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
