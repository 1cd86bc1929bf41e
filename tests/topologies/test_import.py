"""Import from networkx and from files."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netsim import Trace, replay
from netsim.core.errors import InputError
from netsim.topologies import build, describe, dragonfly, from_file, from_networkx, to_networkx

EDGES = [("host1", "a"), ("host2", "a"), ("host10", "b"), ("a", "b"), ("a", "b")]


def write_csv(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_hosts_come_first_in_natural_order() -> None:
    net = from_networkx(nx.MultiGraph(EDGES))
    assert [net.vertex_name(i) for i in range(net.n_vertices)] == ["host1", "host2", "host10", "a", "b"]
    assert (net.n_hosts, net.n_switches, net.n_links) == (3, 2, 10)
    assert net.layer_names == ("host", "switch")
    # Parallel edges stay apart.
    assert net.links_between([3], [4])[1].tolist() == [2]


@pytest.mark.parametrize(("rule", "hosts"), [("marked", 3), ("leaves", 3), ("all", 5), ("none", 0)])
def test_host_rules(rule: str, hosts: int) -> None:
    assert from_networkx(nx.MultiGraph(EDGES), hosts=rule).n_hosts == hosts


def test_marks_by_attribute() -> None:
    graph = nx.Graph([(1, 2), (2, 3)])
    graph.nodes[3]["host"] = True
    graph.nodes[1]["type"] = "host"
    graph.nodes[1]["transit"] = True
    net = from_networkx(graph)
    assert (net.n_hosts, net.n_switches) == (2, 1)
    assert net.host_transit.tolist() == [True, False]


def test_a_graph_without_hosts_is_valid() -> None:
    net = from_networkx(nx.petersen_graph(), capacity="400Gbps", latency="1us")
    assert (net.n_hosts, net.n_switches, net.n_links) == (0, 10, 30)
    assert np.all(net.link_capacity_bytes_per_s == 50e9)
    assert np.all(net.link_latency_s == 1e-6)
    more = from_networkx(nx.petersen_graph(), hosts_per_switch=2, latency=0.0)
    assert (more.n_hosts, more.n_switches, more.n_links) == (20, 10, 70)
    assert more.vertex_name(3) == "host 1.1"
    # Host i is on switch i // 2 here, as in the generators.
    up = more.link_src < 20
    assert np.array_equal(more.link_dst[up] - 20, more.link_src[up] // 2)


def test_directed_edges_are_single_links() -> None:
    net = from_networkx(nx.DiGraph([(0, 1), (1, 0), (1, 2)]))
    assert list(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2)]


def test_edge_attributes_have_units() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, capacity="10Gbps", latency="5us", layer="long haul")
    graph.add_edge(1, 2, capacity_bytes_per_s=7.0, latency_s=0.5)
    graph.add_edge(2, 3, capacity_Gbps=8, latency_ns=20)
    net = from_networkx(graph)
    assert net.link_capacity_bytes_per_s[::2].tolist() == [1.25e9, 7.0, 1e9]
    assert net.link_latency_s[::2] == pytest.approx([5e-6, 0.5, 20e-9], rel=1e-15)
    assert net.layer_names == ("long haul", "switch")
    assert net.link_layer.tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"capacity": 100},
            "edge 0 - 1 capacity: a bare number could mean several units of rate, got '100'; "
            "write '100Gbps' or '100GB/s'",
        ),
        (
            {"capacity_Gbps": "fast"},
            "edge 0 - 1 capacity_Gbps: must be a number, got 'fast'",
        ),
        ({"latency_s": "x"}, "edge 0 - 1 latency_s: must be a number, got 'x'"),
        (
            {"capacity_bytes_per_s": math.nan},
            "link 0 (0 -> 1): capacity must be above 0 bytes per second, got nan; leave a link out to have it down",
        ),
        ({"latency_s": -1}, "link 0 (0 -> 1): latency must be finite and not negative, in seconds, got -1.0"),
    ],
)
def test_bad_attributes_name_the_edge(attributes: dict[str, Any], message: str) -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, **attributes)
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        from_networkx(graph)


def test_ambiguous_node_names() -> None:
    graph = nx.Graph()
    graph.add_edge(1, "1")
    with pytest.raises(InputError, match=r"^graph: node names must differ as text, got '1' twice$"):
        from_networkx(graph)
    with pytest.raises(InputError, match=r"^hosts: unknown rule, got 'leafs'; did you mean 'leaves'\? valid: "):
        from_networkx(nx.path_graph(2), hosts="leafs")


def test_order_of_edges_and_hash_seed_change_nothing(tmp_path: Path) -> None:
    rows = [f"{u},{v},{50 + i % 3}Gbps" for i, (u, v) in enumerate(nx.random_regular_graph(4, 20, seed=1).edges)]
    program = (
        "import sys; from netsim.topologies import from_file; print(from_file(sys.argv[1], hosts='all').content_hash)"
    )
    seen = set()
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        file = write_csv(tmp_path / f"{seed}.csv", ["source,target,capacity", *rows])
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        run = subprocess.run([sys.executable, "-c", program, file], env=environment, capture_output=True, check=True)
        seen.add(run.stdout)
    assert len(seen) == 1


# Files --------------------------------------------------------------------------------------------------------------


def test_all_formats_give_the_same_topology(tmp_path: Path) -> None:
    write_csv(
        tmp_path / "a.csv",
        ["# n_links=3 n_hosts=2", "source, target, capacity, latency_ns, layer", "h1,s1,10Gbps,100,x", "",
         "h2,s1,10Gbps,100,x", "s1,s2,40Gbps,300,y"],
    )  # fmt: skip
    rows = {
        "source": ["h1", "h2", "s1"],
        "target": ["s1", "s1", "s2"],
        "capacity_Gbps": [10, 10, 40],
        "latency": ["100ns", "100ns", "0.3us"],
        "layer": ["x", "x", "y"],
    }
    pq.write_table(pa.table(rows).replace_schema_metadata({"n_nodes": "4"}), tmp_path / "a.parquet")
    nodes = [{"id": "s2"}, {"id": "h1", "host": True}, {"id": "h2", "type": "host"}, {"id": "s1"}]
    links = [
        {"source": u, "target": v, "capacity": f"{c}Gbps", "latency": lat, "layer": layer}
        for u, v, c, lat, layer in zip(*rows.values(), strict=True)
    ]
    for dialect in ("links", "edges"):
        text = json.dumps({"directed": False, "graph": {"n_links": 3}, "nodes": nodes, dialect: links})
        (tmp_path / f"{dialect}.json").write_text(text, encoding="utf-8")
    graph = nx.Graph()
    for u, v, c, lat, layer in zip(*rows.values(), strict=True):
        graph.add_edge(u, v, capacity=f"{c}Gbps", latency=lat, layer=layer)
    for host in ("h1", "h2"):
        graph.nodes[host]["host"] = True
    nx.write_graphml(graph, tmp_path / "a.graphml")

    # The edge lists mark hosts by two more columns.
    kinds = ["source_type,target_type", "host,switch", "host,switch", "switch,switch"]
    marked = [line for line in (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    write_csv(tmp_path / "b.csv", ["# n_links=3 n_hosts=2"] + [f"{a},{b}" for a, b in zip(marked, kinds, strict=True)])
    wanted = from_networkx(graph)
    assert (wanted.n_hosts, wanted.n_switches, wanted.n_links) == (2, 2, 6)
    for name in ("b.csv", "links.json", "edges.json", "a.graphml"):
        net = from_file(tmp_path / name)
        assert net.content_hash == wanted.content_hash, name
        assert [net.vertex_name(i) for i in range(4)] == ["h1", "h2", "s1", "s2"]
    assert from_file(tmp_path / "a.parquet", hosts="none").content_hash == (
        from_networkx(graph, hosts="none").content_hash
    )
    assert build(str(tmp_path / "b.csv")).content_hash == wanted.content_hash


def test_columns_may_be_called_as_in_traces(tmp_path: Path) -> None:
    texts = {
        "a": "source,target,source_type,target_type\nx,s,host,switch\ny,s,host,switch\n",
        "b": "src,dst,src_type,dst_type\nx,s,host,switch\ny,s,host,switch\n",
        "c": "source,destination,source_type,target_type\nx,s,host,switch\ny,s,host,switch\n",
    }
    hashes = set()
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
        hashes.add(from_file(tmp_path / f"{name}.csv").content_hash)
    assert len(hashes) == 1
    (tmp_path / "d.csv").write_text("src,source,dst\nx,y,s\n")
    with pytest.raises(InputError, match=r"has more than one column of source, got src, source$"):
        from_file(tmp_path / "d.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"source": pa.array([None], pa.string()), "target": ["s"]},
            "net.parquet row 0: source and target must not be empty",
        ),
        (
            {"source": [1.0, float("nan")], "target": [2.0, 3.0]},
            "net.parquet row 1: source and target must not be empty",
        ),
        ({"source": [b"\xff"], "target": ["s"]}, "net.parquet column 'source': must hold text or numbers, got binary"),
    ],
)
def test_a_missing_name_is_no_vertex_called_none(
    tmp_path: Path, columns: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(columns), "net.parquet")
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        from_file("net.parquet")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("host1,s\nhost2,s\n", "got 'host1, s'; begin with the line source,target"),
        (
            "source;target\na;b\n",
            "got 'source;target'; begin with the line source,target; fields are separated by commas",
        ),
    ],
)
def test_a_list_without_its_header_says_so(tmp_path: Path, text: str, remedy: str) -> None:
    path = tmp_path / "net.csv"
    path.write_text(text)
    want = f"{path}: must have a header line with source and target, {remedy}"
    with pytest.raises(InputError, match=f"^{re.escape(want)}$"):
        from_file(path)


def test_a_list_without_hosts_says_how_to_mark_them(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text("src,dst\na,s\nb,s\n")
    net = from_file(tmp_path / "net.csv")
    trace = Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[1])
    text = (
        'placement: 2 ranks need hosts, got a network of 3 switches without any; name hosts "host ...", or mark them in the file '
        "(columns source_type and target_type, attribute type=host), or take hosts=leaves, hosts=all or hosts_per_switch=N"
    )
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        replay(trace, topology=net)
    assert any("hosts=leaves" in line for line in describe(net).lines())
    assert replay(trace, topology=from_file(tmp_path / "net.csv", hosts="leaves")).status == "finished"


def test_rows_as_directed_links_and_added_hosts(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "ring.csv", ["source,target", "0,1", "1,2", "2,0"])
    assert from_file(file).n_links == 6
    assert from_file(file, edges="links").n_links == 3
    net = from_file(file, edges="links", hosts_per_switch=1)
    assert (net.n_hosts, net.n_links) == (3, 9)


def test_round_trip_through_node_link(tmp_path: Path) -> None:
    net = dragonfly(1, 2, 1, capacity="7GB/s")
    file = tmp_path / "net.json"
    data = nx.node_link_data(
        nx.relabel_nodes(to_networkx(net), {i: f"{i}" for i in range(net.n_vertices)}), edges="links"
    )
    file.write_text(json.dumps(data), encoding="utf-8")
    back = from_file(file)
    assert (back.n_hosts, back.n_switches, back.n_links) == (net.n_hosts, net.n_switches, net.n_links)
    ends = [sorted(zip(t.link_src.tolist(), t.link_dst.tolist(), strict=True)) for t in (net, back)]
    assert ends[0] == ends[1]
    assert np.all(back.link_capacity_bytes_per_s == 7e9)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "# n_links=20\nsource,target\na,b\nb,c\n", "{}: declares n_links=20, got 2 in the list"),
        ("x.csv", "", "{}: must have a header line, got an empty file"),
        ("x.csv", "source,target,b\n1,2,3\n", "{}: unknown column, got 'b'; valid: capacity, latency, layer, source, source_type, "
         "target, target_type"),
        ("x.csv", "source,capacity\n1,2\n", "{}: needs a column 'target', got columns source, capacity"),
        ("x.csv", "source,target\n1,2,3\n", "{} row 1: must have 2 fields as the header, got 3"),
        ("x.csv", "source,target\n1,2\n3,\n", "{} row 2: source and target must not be empty"),
        ("x.csv", "source,target,capacity\n1,2,100\n", "{} row 1 capacity: a bare number could mean several units of "
         "rate, got '100'; write '100Gbps' or '100GB/s'"),
        ("x.csv", "source,target,capacity,capacity_Gbps\n1,2,1GB/s,3\n",
         "{}: has more than one column of capacity, got capacity, capacity_Gbps"),
        ("x.csv", "source,target,source_type,target_type\na,b,host,router\n",
         "{} row 1: target_type must be host or switch, got 'router'"),
        ("x.csv", "source,target,source_type,target_type\na,b,host,switch\nb,a,switch,switch\n",
         "{} row 2: a is a host in another row, got switch"),
        ("x.csv", "source,target\na,a\n", "edge a - a: a link must join two different vertices"),
        ("x.json", '{"n_links": 20, "nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}',
         "{}: declares n_links=20, got 1 in the list"),
        ("x.json", '{"graph": {"n_hosts": 1}, "nodes": [{"id": 0}], "links": []}',
         "{}: declares n_hosts=1, got 0 in the list"),
        ("x.json", '{"nodes": [{"id": 0}], "links": [{"source": 0, "target": 7}]}',
         "{} link 0: target must be the id of a node, got 7"),
        ("x.json", '{"nodes": [{"id": 0}, {"id": 0}], "links": []}', "{} node 1: ids must differ, got 0"),
        ("x.json", '{"nodes": [{"name": 0}], "links": []}',
         "{} node 0: must be an object with an \"id\", got {{'name': 0}}"),
        ("x.json", "[1]", '{}: must be node-link JSON with "nodes" and "links" (or "edges")'),
        ("x.json", "{", "{}: must be JSON, got Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        ("x.graphml", "no xml", "{}: must be GraphML, got syntax error: line 1, column 0"),
        ("x.txt", "", "{}: unknown kind of topology file, got '.txt'; use .csv, .parquet, .json, .graphml"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"^{re.escape(message.format(file))}$"):
        from_file(file)


def test_missing_and_broken_binary_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^nowhere\.csv: no such file; check the path$"):
        build("nowhere.csv")
    (tmp_path / "x.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(InputError, match=r"x\.parquet: must be a Parquet file, got "):
        from_file(tmp_path / "x.parquet")
