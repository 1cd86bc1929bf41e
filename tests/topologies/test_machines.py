"""Named machines against what is published of them; Cascade groups, blocks with optical switches, edits of networks."""

from __future__ import annotations

import json
from collections import Counter

import networkx as nx
import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.topologies import (
    build,
    cascade,
    dragonfly,
    from_file,
    join_hosts,
    machines,
    optical_ports,
    rail_optimized,
    scale_links,
    star,
    topologies,
    torus,
    twisted_torus,
    with_links,
    without_links,
)


def cables_of(net, layer):
    return int((net.link_layer == net.layer_names.index(layer)).sum()) // 2


# Machines ----------------------------------------------------------------------------------------------------------


def test_frontier():
    net = build("frontier")
    # 74 groups of 512 ports; 2,701 pairs of groups with 4 links.
    assert (net.n_hosts, net.n_switches) == (74 * 512, 74 * 32)
    assert cables_of(net, "global") == 4 * 74 * 73 // 2 == 10_804
    assert cables_of(net, "local") == 74 * 32 * 31 // 2
    assert np.diff(net.out_ptr)[net.n_hosts :].max() <= 64
    out = net.link_layer == net.layer_names.index("global")
    first = np.isin((net.link_src - net.n_hosts) // 32, [0]) & out
    # The published ratio of what a group injects to what leaves it: 102.4 Tb/s to 58.4 Tb/s.
    leaves = net.link_capacity_bytes_per_s[first].sum() * 8
    assert leaves == pytest.approx(58.4e12)
    assert 512 * 200e9 / leaves == pytest.approx(1.753, abs=5e-4)


def test_theta():
    net = build("theta")
    assert (net.n_hosts, net.n_switches) == (12 * 384, 12 * 96)
    inner = np.diff(net.out_ptr)[net.n_hosts :]
    # 4 nodes, 15 links in the chassis, 15 between chassis, at most 10 optical ones.
    assert inner.max() == 4 + 15 + 15 + 10
    assert cables_of(net, "local row") == 12 * 720
    assert cables_of(net, "local column") == 12 * 720
    assert net.link_capacity_bytes_per_s[net.link_layer == net.layer_names.index("local row")][0] == 5.25e9


def test_summit():
    net = build("summit")
    assert net.n_hosts == 2 * 4608 == 2 * 18 * 256
    ports = np.diff(net.out_ptr)[net.n_hosts :]
    assert Counter(ports.tolist()) == {36: 512, 512: 18}
    net.expect(bisection_bytes_per_s=net.n_hosts / 2 * 12.5e9)


def test_tpu_v4():
    net = build("tpu_v4")
    assert net.n_hosts == 4096
    inside = sum(cables_of(net, f"dimension {d}") for d in range(3))
    optical = sum(cables_of(net, f"optical {d}") for d in range(3))
    assert (inside, optical) == (64 * 144, 3072)
    net.expect(diameter=24, bisection_bytes_per_s=512 * 50e9)
    ports = optical_ports(net)
    # 48 switches of 128 ports: 6,144 fibre ends, each used once in each direction.
    ends = set(zip(ports.switch.tolist(), ports.port_in.tolist()))
    assert len(ends) == ports.link.size == 48 * 128
    assert ends == set(zip(ports.switch.tolist(), ports.port_out.tolist()))


@pytest.mark.parametrize(
    ("units", "leaves", "spines", "cores", "cables"),
    [
        (2, 16, 8, 0, 512),
        (4, 32, 16, 0, 1024),
        (8, 64, 32, 0, 2048),
        (16, 128, 128, 64, 4096),
        (32, 256, 256, 128, 8192),
    ],
)
def test_dgx_superpod_table(units, leaves, spines, cores, cables):
    net = build("dgx_superpod", nodes=32 * units)
    kinds = Counter(net.vertex_name(v).rstrip("0123456789 ").split()[-1] for v in range(net.n_hosts, net.n_vertices))
    assert (kinds["leaf"], kinds["spine"], kinds["core"]) == (leaves, spines, cores)
    for layer in ("host", "leaf-spine", *(["spine-core"] if cores else [])):
        assert cables_of(net, layer) == cables


def test_machines_are_told_apart_from_topologies_and_say_where_they_come_from(capsys):
    from netsim.cli import main

    for name in machines:
        machine = machines[name]
        assert name not in topologies
        assert machine.family in topologies
        assert machine.sources
        assert machine.assumed
        assert machine.left_out
    with pytest.raises(SystemExit) as stop:
        main(["topologies", "theta"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert "docs.alcf.anl.gov" in said
    assert "cascade: Dragonfly of Cray Cascade" in said
    with pytest.raises(InputError, match=r"unknown name, got 'fronteer'; did you mean 'frontier'\?"):
        build("fronteer")


def test_parameters_of_a_machine_can_be_changed():
    assert build("dgx_superpod", nodes=32).n_hosts == 256
    with pytest.raises(InputError, match="topology dragonfly: unknown parameter, got 'nodes'"):
        build("frontier", nodes=3)


# Cascade -----------------------------------------------------------------------------------------------------------


def test_a_group_of_cascade_is_a_flattened_butterfly():
    net = cascade(p=1, rows=3, columns=4, h=1, g=1, row_trunk=2)
    found: nx.MultiGraph = nx.MultiGraph()
    for u, v in zip(net.link_src[0::2].tolist(), net.link_dst[0::2].tolist()):
        if u >= net.n_hosts:
            found.add_edge(u - net.n_hosts, v - net.n_hosts)
    for u in range(12):
        for v in range(u):
            same_row, same_column = u // 4 == v // 4, u % 4 == v % 4
            assert found.number_of_edges(u, v) == (1 if same_row else 2 if same_column else 0)


def test_groups_of_cascade_are_joined_alike():
    net = cascade(p=2, rows=2, columns=3, h=2, g=5)
    links = net.link_layer == net.layer_names.index("global")
    here, there = ((end[links] - net.n_hosts) // 6 for end in (net.link_src, net.link_dst))
    pairs = Counter(zip(here.tolist(), there.tolist()))
    assert len(pairs) == 20
    assert set(pairs.values()) == {6 * 2 // 4}
    net.expect(links_per_group_pair=3)
    assert net.vertex_name(net.n_hosts + 6 + 4) == "group 1 router (1, 1)"
    with pytest.raises(InputError, match="cascade: 6 routers and h=2 join at most 13 groups, got g=14; take g=13"):
        cascade(p=2, rows=2, columns=3, h=2, g=14)


# Blocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(4, 4, 8), (2, 4, 6), (4, 1, 2)])
def test_blocks_change_layers_not_links(dims):
    block = tuple(2 if side % 2 == 0 else 1 for side in dims)
    plain, net = torus(dims), torus(dims, block=block, optical_latency="1us")
    ends = [sorted(zip(t.link_src.tolist(), t.link_dst.tolist())) for t in (plain, net)]
    assert ends[0] == ends[1]
    inside = net.link_src >= net.n_hosts
    inside &= net.link_dst >= net.n_hosts
    place = [
        np.stack(np.unravel_index(end[inside] - net.n_hosts, dims), axis=1) // block
        for end in (net.link_src, net.link_dst)
    ]
    optical = np.array([name.startswith("optical") for name in net.layer_names])[net.link_layer][inside]
    assert np.all(optical[np.any(place[0] != place[1], axis=1)])
    assert np.all((net.link_latency_s[inside] == 1e-6) == optical)


@pytest.mark.parametrize("net", [torus((4, 4), block=(2, 2)), torus((4, 4), block=(4, 2)), torus((6, 3), block=(1, 3)),
                                 twisted_torus((8, 4), block=(4, 4))], ids=repr)  # fmt: skip
def test_circuits_of_blocks_are_matchings(net):
    found = optical_ports(net)
    for ports in (found.port_in, found.port_out):
        taken = Counter(zip(found.switch.tolist(), ports.tolist()))
        assert set(taken.values()) == {1}
    # The other direction of a cable goes the other way through the same ports.
    there = {(s, a, b) for s, a, b in zip(found.switch.tolist(), found.port_in.tolist(), found.port_out.tolist())}
    assert {(s, b, a) for s, a, b in there} == there


def test_paths_on_blocks_are_those_of_the_torus():
    pairs = np.arange(64)
    plain, net = torus((4, 4, 4)), torus((4, 4, 4), block=(2, 2, 2))
    here, there = np.repeat(pairs, 64), np.tile(pairs, 64)
    routes = [ns.routing.paths(t, here, there, routing="dimension-order") for t in (plain, net)]
    for t, found in zip((plain, net), routes):
        ns.routing.check_paths(t, found, here, there)
    assert np.array_equal(routes[0].ptr, routes[1].ptr)
    assert np.array_equal(plain.link_dst[routes[0].link], net.link_dst[routes[1].link])


def test_bad_blocks():
    for call, message in (
        (lambda: torus((4, 6), block=(4, 4)), "torus block: must divide the side of 6 of dimension 1, got 4"),
        (lambda: torus((4, 4), block=(4,)), "torus block: must have one number for each of the 2 sides, got 1"),
        (
            lambda: twisted_torus((8, 4), (0, 2), block=(4, 4)),
            "twist: must be a multiple of the block's side of 4, got 2",
        ),
        (lambda: optical_ports(torus((4, 4))), "topology torus: has no blocks; build a torus with block=4x4x4"),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert message in str(error.value)


# Edits -------------------------------------------------------------------------------------------------------------


def test_added_links():
    net = dragonfly(1)
    more = with_links(net, [6, 7], [9, 9], capacity=[1e9, 2e9], latency="1us", layer="extra")
    assert more.n_links == net.n_links + 4
    assert np.array_equal(more.link_src[: net.n_links], net.link_src)
    assert more.link_capacity_bytes_per_s[net.n_links :].tolist() == [1e9, 1e9, 2e9, 2e9]
    assert more.vertex_name(9) == net.vertex_name(9)
    # What was added can be taken away.
    assert without_links(more, [net.n_links, net.n_links + 2]).n_links == net.n_links
    assert with_links(net, [6], [7], both_ways=False, layer="local").layer_names == net.layer_names
    with pytest.raises(InputError, match="must have as many sources as destinations, got 2 and 1"):
        with_links(net, [6, 7], [9])
    with pytest.raises(InputError, match="must be one of the 12 vertices, got 99"):
        with_links(net, [6], [99])


def test_hosts_with_several_cards():
    net = dragonfly(2)
    joined = join_hosts(net, 2)
    assert (joined.n_hosts, joined.n_links) == (36, net.n_links)
    assert np.all(np.diff(joined.out_ptr)[:36] == 2)
    # Both cards of a host are on one switch: its links are parallel, and it can send at twice the rate.
    at, count = joined.links_between(np.arange(36), 36 + np.arange(36))
    assert np.all(count == 2)
    here, there = np.repeat(np.arange(36), 36), np.tile(np.arange(36), 36)
    found = ns.routing.paths(joined, here, there, routing="ecmp", flow=np.arange(here.size))
    ns.routing.check_paths(joined, found, here, there)
    used = np.bincount(found.link, minlength=joined.n_links)
    assert np.all(used[joined.link_at(at)] > 0)
    assert np.all(used[joined.link_at(at + 1)] > 0)


def test_rails_are_hosts_joined_by_hand():
    # One card per rail, each to the leaf of its rail: the hosts of a star per rail joined.
    stars = ns.topologies.full_mesh(2, hosts=3)
    joined = join_hosts(stars, [0, 1, 2, 0, 1, 2])
    assert sorted(joined.link_dst[joined.out_links(2)].tolist()) == [3, 4]
    for into, message in (
        (4, "must divide the 6 hosts, got 4"),
        ([0, 1], "must have a number for each of the 6 hosts, got 2"),
        ([0, 2, 2, 0, 2, 2], "must be numbered from 0 without gaps, got none for host 1"),
        ([0.5] * 6, "must be whole numbers, got float64 values"),
    ):
        with pytest.raises(InputError) as error:
            join_hosts(stars, into)
        assert message in str(error.value)


def test_transit_stays_with_joined_hosts():
    assert join_hosts(ns.topologies.bcube(2, 1), 2).host_transit.all()


def test_expectations_hold_after_edits():
    net = scale_links(rail_optimized(nodes=4, gpus=2, radix=8), 2.0)
    with_links(without_links(net, [0]), [0], [net.n_hosts]).expect(n_links=net.n_links, n_components=1)
    with pytest.raises(InputError, match="topology graph: n_components was expected to be 1, got 2"):
        without_links(star(3), [0]).expect(n_components=1)


def test_expectations_on_the_command_line(capsys):
    from netsim.cli import main

    for value, code in (("3", 0), ("4", 2)):
        with pytest.raises(SystemExit) as stop:
            main(["topo", "describe", "dragonfly", "-p", "p=2", "--expect", f"diameter={value}"])
        assert stop.value.code == code
    assert "diameter was expected to be 4.0, got 3" in capsys.readouterr().err


# Files of others ---------------------------------------------------------------------------------------------------


def test_a_file_in_the_form_of_topohub_is_read(tmp_path):
    file = tmp_path / "net.json"
    nodes = [{"id": i, "name": f"N{i}", "pos": [1.5, i], "type": "Waypoint"} for i in (7, 3, 5)]
    edges = [
        {"source": 3, "target": 5, "dist": 120.5, "ecmp_fwd": {"uni": 1.0}},
        {"source": 5, "target": 7, "dist": 8.25, "ecmp_bwd": {"uni": 2.0}},
    ]
    graph = {"name": "tiny", "demands": {}, "stats": {"nodes": 3, "links": 2, "diameter_hops": 2}}
    file.write_text(
        json.dumps({"directed": False, "multigraph": False, "graph": graph, "nodes": nodes, "edges": edges})
    )
    net = from_file(file, hosts_per_switch=1)
    net.expect(n_hosts=3, n_switches=3, n_links=2 * (3 + 2), diameter=2)
