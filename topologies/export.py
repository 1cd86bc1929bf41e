"""Topologies to files: edge list, node-link JSON, GraphML; what :func:`netsim.topologies.from_file` reads."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from netsim.core.errors import InputError
from netsim.topologies.graphs import to_networkx
from netsim.topologies.topology import Topology

__all__ = ["to_file"]

_EDGE_COLUMNS = ("source", "target", "source_type", "target_type", "capacity_bytes_per_s", "latency_s", "layer")
_SUFFIXES = (".csv", ".parquet", ".json", ".graphml")


def to_file(topology: Topology, path: str | Path) -> None:
    """Write a topology to a file, by its suffix, with vertices by name.

    Parameters
    ----------
    topology : Topology
    path : str or Path
        ``.csv``, ``.parquet``: an edge list, one row per cable; it cannot hold one-way links, vertices without links and hosts that
        forward. ``.json``: node-link JSON of directed links, which also has family and parameters. ``.graphml``.

    Raises
    ------
    InputError
        Another suffix, a network that an edge list cannot hold, or a file that cannot be written.

    Notes
    -----
    Read back, the vertices have the same names and links; they are numbered by name, and the family is "graph".

    Examples
    --------
    >>> import tempfile
    >>> from netsim.topologies import from_file, slim_fly
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_file(slim_fly(3, hosts=2), f"{folder}/slim.json")
    ...     from_file(f"{folder}/slim.json")
    <Topology graph: 36 hosts, 18 switches, 162 directed links>
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            str(file), "unknown kind of topology file", got=repr(file.suffix), remedy="use " + ", ".join(_SUFFIXES)
        )
    try:
        if suffix == ".csv":
            _write_csv(topology, file)
        elif suffix == ".parquet":
            _write_parquet(topology, file)
        elif suffix == ".json":
            file.write_text(json.dumps(_node_link(topology), indent=1, allow_nan=False), encoding="utf-8")
        else:
            import networkx as nx

            graph = to_networkx(topology)
            nx.write_graphml(nx.relabel_nodes(graph, {v: graph.nodes[v]["name"] for v in graph}), file)
    except OSError as error:
        raise InputError(str(file), "cannot be written", got=error.strerror) from None


def _names(topology: Topology) -> list[str]:
    return [topology.vertex_name(v) for v in range(topology.n_vertices)]


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return "inf" if math.isinf(value) else value


def _columns(t: Topology, rows: slice) -> Any:
    return zip(
        t.link_src[rows].tolist(),
        t.link_dst[rows].tolist(),
        t.link_capacity_bytes_per_s[rows].tolist(),
        t.link_latency_s[rows].tolist(),
        t.link_layer[rows].tolist(),
        strict=True,
    )


def _node_link(t: Topology) -> dict[str, Any]:
    names = _names(t)
    nodes = [{"id": name, "host": v < t.n_hosts} for v, name in enumerate(names)]
    for v in np.flatnonzero(t.host_transit).tolist():
        nodes[v]["transit"] = True
    links = [
        {
            "source": names[u],
            "target": names[v],
            "capacity_bytes_per_s": _number(capacity),
            "latency_s": latency,
            "layer": t.layer_names[layer],
        }
        for u, v, capacity, latency, layer in _columns(t, slice(None))
    ]
    params = {
        key: value if isinstance(value, int | float | str | tuple) else str(value) for key, value in t.params.items()
    }
    graph = {
        "family": t.family,
        "params": params,
        "n_hosts": t.n_hosts,
        "n_switches": t.n_switches,
        "n_links": t.n_links,
    }
    return {"directed": True, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


def _check_edge_list(t: Topology, file: Path) -> None:
    columns = (t.link_src, t.link_dst), (t.link_dst, t.link_src)
    alike = (t.link_capacity_bytes_per_s, t.link_latency_s, t.link_layer)
    paired = t.n_links % 2 == 0 and all(np.array_equal(a[0::2], b[1::2]) for a, b in columns)
    if not paired or not all(np.array_equal(x[0::2], x[1::2]) for x in alike):
        raise InputError(str(file), "an edge list has cables", got="one-way links", remedy="write .json or .graphml")
    if t.host_transit.any():
        raise InputError(
            str(file), "an edge list has no hosts that forward", got="some", remedy="write .json or .graphml"
        )
    if np.any(np.diff(t.out_ptr) == 0):
        alone = t.vertex_name(int(np.flatnonzero(np.diff(t.out_ptr) == 0)[0]))
        raise InputError(
            str(file), "an edge list has no vertices without links", got=alone, remedy="write .json or .graphml"
        )


def _write_csv(t: Topology, file: Path) -> None:
    _check_edge_list(t, file)
    names, kind = _names(t), ["host"] * t.n_hosts + ["switch"] * t.n_switches
    with file.open("w", newline="", encoding="utf-8") as out:
        out.write(f"# n_hosts={t.n_hosts} n_switches={t.n_switches} n_links={t.n_links // 2}\n")
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(_EDGE_COLUMNS)
        for u, v, capacity, latency, layer in _columns(t, slice(0, None, 2)):
            rows.writerow([names[u], names[v], kind[u], kind[v], repr(capacity), repr(latency), t.layer_names[layer]])


def _write_parquet(t: Topology, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_edge_list(t, file)
    names = pa.array(_names(t), pa.string())
    kind = pa.array(["host", "switch"])
    layers = pa.array(t.layer_names, pa.string())
    ends = (t.link_src[0::2], t.link_dst[0::2])
    columns = [
        *(names.take(pa.array(end)) for end in ends),
        *(kind.take(pa.array((end >= t.n_hosts).astype(np.int8))) for end in ends),
        pa.array(t.link_capacity_bytes_per_s[0::2]),
        pa.array(t.link_latency_s[0::2]),
        layers.take(pa.array(t.link_layer[0::2])),
    ]
    counts = {"n_hosts": t.n_hosts, "n_switches": t.n_switches, "n_links": t.n_links // 2}
    table = pa.table(columns, names=list(_EDGE_COLUMNS)).replace_schema_metadata({k: str(v) for k, v in counts.items()})
    pq.write_table(table, file)
