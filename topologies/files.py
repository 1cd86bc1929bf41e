"""Topologies from files: edge lists (CSV, Parquet), node-link JSON, GraphML."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.core.arrays import Float64
from netsim.core.errors import InputError, closest
from netsim.core.units import parse_rate, parse_time
from netsim.topologies.generators import Parameter, checked, generator, shortened
from netsim.topologies.graphs import HOST_RULES, EdgeList, from_networkx, quantity, quantity_key
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology

__all__ = ["from_file"]

_PARAMETERS = (
    Parameter(name="path", kind="text", meaning="edge list .csv or .parquet, node-link .json, or .graphml"),
    Parameter(name="capacity", kind="rate", default=DEFAULT_CAPACITY, meaning="for links without their own"),
    Parameter(name="latency", kind="time", default=DEFAULT_LATENCY, meaning="for links without their own"),
    Parameter(
        name="hosts",
        kind="choice",
        default="marked",
        choices=HOST_RULES,
        meaning='vertices that are hosts; "marked": by the file, or a name that begins with "host"',
    ),
    Parameter(name="hosts_per_switch", kind="int", default=0, minimum=0, meaning="add new hosts to every switch"),
    Parameter(
        name="edges",
        kind="choice",
        default="cables",
        choices=("cables", "links"),
        meaning='rows of an edge list are "cables" (a link each way) or directed "links"',
    ),
)
_ALIASES = {
    "src": "source",
    "dst": "target",
    "destination": "target",
    "src_type": "source_type",
    "dst_type": "target_type",
}
_COUNT = re.compile(r"[0-9]{1,18}")
_COUNTS = ("n_nodes", "n_hosts", "n_switches", "n_links")


@generator("file", parameters=_PARAMETERS)
def from_file(
    path: str | Path,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    hosts: str = "marked",
    hosts_per_switch: int = 0,
    edges: str = "cables",
) -> Topology:
    """Read a topology from a file, by its suffix.

    Edge list (.csv, .parquet): columns ``source`` and ``target`` (or ``src`` and ``dst``) and, if wanted,
    ``capacity`` and ``latency`` with units in the values ("100Gbps") or in the column's name (``capacity_Gbps``,
    ``latency_ns``, ``capacity_bytes_per_s``), ``layer``, ``source_type`` and ``target_type`` ("host" or "switch";
    without them, hosts are the vertices whose name begins with "host"). CSV comment lines begin with #;
    ``# n_links=24`` declares a count. Node-link .json: the "links" and the "edges" dialect of networkx
    and D3; "directed" says whether a row is one link; attributes as in :func:`netsim.topologies.from_networkx`.
    Declared counts (n_nodes, n_hosts, n_switches, n_links: rows of the list), at the top or under "graph", are
    checked. GraphML: attributes as in ``from_networkx``.

    {parameters}

    Raises
    ------
    InputError
        The file cannot be read, a value has no unit, a count differs from what the file declares, a link names an
        unknown node.
    """
    params = {
        "path": path,
        "capacity": capacity,
        "latency": latency,
        "hosts": hosts,
        "hosts_per_switch": hosts_per_switch,
        "edges": edges,
    }
    values = checked(_PARAMETERS, "file", params)
    file = Path(values["path"])
    default = {"capacity": values["capacity"], "latency": values["latency"]}
    suffix = file.suffix.lower()
    if suffix not in (*_READERS, ".graphml"):
        raise InputError(
            str(file),
            "unknown kind of topology file",
            got=repr(file.suffix),
            remedy="use " + ", ".join([*_READERS, ".graphml"]),
        )
    if not file.is_file():
        raise InputError(str(file), "is a folder" if file.is_dir() else "no such file", remedy="check the path")
    if suffix == ".graphml":
        return _graphml(file, values)
    edge_list, declared = _READERS[suffix](file, default, values["edges"] == "links")
    is_host = edge_list.is_host(values["hosts"])
    n_nodes, n_hosts = len(edge_list.names), int(is_host.sum())
    counts = {
        "n_nodes": n_nodes,
        "n_hosts": n_hosts,
        "n_switches": n_nodes - n_hosts,
        "n_links": int(edge_list.source.size),
    }
    for name, count in declared.items():
        if count != counts[name]:
            raise InputError(str(file), f"declares {name}={count}", got=f"{counts[name]} in the list")
    if values["hosts_per_switch"]:
        edge_list = edge_list.with_hosts(values["hosts_per_switch"], is_host, default["capacity"], default["latency"])
        is_host = np.asarray(edge_list.host, dtype=np.bool_)
    return edge_list.topology(is_host)


def _edge_table(
    file: Path, columns: Mapping[str, Sequence[Any]], default: Mapping[str, float], directed: bool, first_row: int
) -> EdgeList:
    """An edge list from named columns."""
    columns = _renamed(file, columns)
    valid = ("source", "target", "layer", "source_type", "target_type", "capacity", "latency")
    if not {"source", "target"} & set(columns):
        remedy = "begin with the line source,target"
        if any(mark in name for name in columns for mark in ";\t "):
            remedy += "; fields are separated by commas"
        raise InputError(
            str(file),
            "must have a header line with source and target",
            got=repr(shortened(", ".join(columns))),
            remedy=remedy,
        )
    for name in columns:
        if name not in valid and not name.startswith(("capacity_", "latency_")):
            raise InputError(str(file), "unknown column", got=repr(shortened(name)), remedy=closest(name, valid))
    for name in ("source", "target"):
        if name not in columns:
            raise InputError(str(file), f"needs a column {name!r}", got="columns " + ", ".join(columns))
    n = len(columns["source"])
    ends = [["" if x is None or x != x else str(x).strip() for x in columns[name]] for name in ("source", "target")]
    for row, (u, v) in enumerate(zip(*ends, strict=True)):
        if not u or not v:
            raise InputError(f"{file} row {row + first_row}", "source and target must not be empty")
    position: dict[str, int] = {}
    for name in (*ends[0], *ends[1]):
        position.setdefault(name, len(position))
    kind: dict[str, str] = {}
    for side, column in zip(ends, ("source_type", "target_type"), strict=True):
        for row, (name, what) in enumerate(zip(side, columns.get(column, ()))):
            text = str(what).strip().lower()
            if text not in ("host", "switch"):
                raise InputError(
                    f"{file} row {row + first_row}", f"{column} must be host or switch", got=shortened(repr(what))
                )
            if kind.setdefault(name, text) != text:
                raise InputError(f"{file} row {row + first_row}", f"{name} is a {kind[name]} in another row", got=text)
    numbers = {}
    for what in ("capacity", "latency"):
        found = [name for name in columns if name == what or name.startswith(what + "_")]
        if len(found) > 1:
            raise InputError(str(file), f"has more than one column of {what}", got=", ".join(found))
        numbers[what] = (
            _column(what, found[0], columns[found[0]], default[what], file, first_row)
            if found
            else np.full(n, default[what])
        )
    return EdgeList(
        names=list(position),
        host=[kind.get(name) == "host" for name in position],
        transit=[False] * len(position),
        source=np.fromiter((position[name] for name in ends[0]), dtype=np.int64, count=n),
        target=np.fromiter((position[name] for name in ends[1]), dtype=np.int64, count=n),
        capacity_bytes_per_s=numbers["capacity"],
        latency_s=numbers["latency"],
        layer=["" if x is None else str(x).strip() for x in columns.get("layer", [""] * n)],
        directed=directed,
    )


def _renamed(file: Path, columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns under the names used here; traces and other tools say src and dst."""
    out: dict[str, Sequence[Any]] = {}
    given: dict[str, str] = {}
    for name, values in columns.items():
        known = _ALIASES.get(name, name)
        if known in out:
            raise InputError(str(file), f"has more than one column of {known}", got=f"{given[known]}, {name}")
        out[known], given[known] = values, name
    return out


def _column(what: str, name: str, column: Sequence[Any], default: float, file: Path, first_row: int) -> Float64:
    """Quantities of one column; an empty cell takes the default. Every different value is parsed once."""
    known: dict[object, float] = {None: default, "": default}
    out = np.empty(len(column), dtype=np.float64)
    for row, value in enumerate(column):
        key = value.strip() if isinstance(value, str) else value
        if key not in known:
            known[key] = quantity(what, name, key, f"{file} row {row + first_row}")
        out[row] = known[key]
    return out


def _check_header(file: Path, names: Sequence[str]) -> None:
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise InputError(str(file), "column names must differ", got=f"{shortened(twice)!r} twice")


def _count(value: object, where: str) -> int:
    """A declared count: a whole number, or its digits."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18
    if whole or (isinstance(value, str) and _COUNT.fullmatch(value)):
        return int(value)  # type: ignore[call-overload, no-any-return]
    got = "a huge number" if isinstance(value, int) and abs(value) >= 10**18 else shortened(repr(value))
    raise InputError(where, "must be a whole number, 0 or more", got=got)


def _csv(file: Path, default: Mapping[str, float], directed: bool) -> tuple[EdgeList, dict[str, int]]:
    declared: dict[str, int] = {}
    lines = []
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        got = error.strerror if isinstance(error, OSError) else error
        raise InputError(str(file), "must be a readable text file", got=got) from None
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            for word in line.lstrip("# ").replace(",", " ").split():
                name, _, count = word.partition("=")
                if name in _COUNTS and _COUNT.fullmatch(count):
                    declared[name] = int(count)
        elif line.strip():
            lines.append(line)
    try:
        rows = list(csv.reader(lines))
    except csv.Error as error:
        raise InputError(str(file), "must be CSV", got=error) from None
    if not rows:
        raise InputError(str(file), "must have a header line", got="an empty file")
    header = [name.strip() for name in rows[0]]
    _check_header(file, header)
    for i, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise InputError(f"{file} row {i}", f"must have {len(header)} fields as the header", got=len(row))
    columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(header)}
    return _edge_table(file, columns, default, directed, 1), declared


def _parquet(file: Path, default: Mapping[str, float], directed: bool) -> tuple[EdgeList, dict[str, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(str(file), "must be a Parquet file", got=str(error).splitlines()[0]) from None
    _check_header(file, table.column_names)
    for field in table.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise InputError(f"{file} column {field.name!r}", "must hold text or numbers", got=field.type)
    meta = table.schema.metadata or {}
    declared = {
        name: _count(meta[name.encode()].decode(errors="replace"), f"{file} metadata {name}")
        for name in _COUNTS
        if name.encode() in meta
    }
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return _edge_table(file, columns, default, directed, 0), declared


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a name that occurs twice, JSON would silently keep the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("object", "names in an object must differ", got=f"{shortened(twice)!r} twice")
    return found


def _node_link(file: Path, default: Mapping[str, float], directed: bool) -> tuple[EdgeList, dict[str, int]]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_object)
    except InputError as error:
        raise InputError(str(file), error.rule, got=error.got) from None
    except (OSError, ValueError, RecursionError) as error:
        # ValueError: not UTF-8, not JSON, or a number of thousands of digits; RecursionError: thousands of brackets.
        raise InputError(str(file), "must be JSON", got=str(error).split(";")[0]) from None
    key = next((k for k in ("links", "edges") if isinstance(data, dict) and isinstance(data.get(k), list)), None)
    if key is None or not isinstance(data.get("nodes"), list):
        raise InputError(str(file), 'must be node-link JSON with "nodes" and "links" (or "edges")')
    extra = data.get("graph")
    declared: dict[str, int] = {}
    for name in _COUNTS:
        for place in (data, extra if isinstance(extra, dict) else {}):
            if place.get(name) is not None:
                declared[name] = _count(place[name], f"{file} {name}")
    position: dict[str, int] = {}
    for i, node in enumerate(data["nodes"]):
        if not isinstance(node, dict) or "id" not in node:
            raise InputError(f"{file} node {i}", 'must be an object with an "id"', got=shortened(repr(node)))
        if str(node["id"]) in position:
            raise InputError(f"{file} node {i}", "ids must differ", got=shortened(repr(node["id"])))
        position[str(node["id"])] = i
    ends: dict[str, list[int]] = {"source": [], "target": []}
    numbers: dict[str, list[float]] = {"capacity": [], "latency": []}
    for i, link in enumerate(data[key]):
        subject = f"{file} link {i}"
        for end, column in ends.items():
            node = link.get(end) if isinstance(link, dict) else None
            if str(node) not in position:
                raise InputError(subject, f"{end} must be the id of a node", got=shortened(repr(node)))
            column.append(position[str(node)])
        for what, values in numbers.items():
            own = quantity_key(what, link, subject)
            values.append(default[what] if own is None else quantity(what, own, link[own], subject))
    nodes = data["nodes"]
    edge_list = EdgeList(
        names=list(position),
        host=[bool(node.get("host")) or node.get("type") == "host" for node in nodes],
        transit=[bool(node.get("transit")) for node in nodes],
        source=np.array(ends["source"], dtype=np.int64),
        target=np.array(ends["target"], dtype=np.int64),
        capacity_bytes_per_s=np.array(numbers["capacity"], dtype=np.float64),
        latency_s=np.array(numbers["latency"], dtype=np.float64),
        layer=[str(link.get("layer", "")) for link in data[key]],
        directed=bool(data.get("directed", directed)),
    )
    return edge_list, declared


_READERS: dict[str, Callable[[Path, Mapping[str, float], bool], tuple[EdgeList, dict[str, int]]]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _node_link,
}


def _graphml(file: Path, values: Mapping[str, Any]) -> Topology:
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        graph = nx.read_graphml(file)
    except (ParseError, nx.NetworkXError, ValueError, KeyError) as error:
        # ValueError, KeyError: an attribute that is not of its declared type, or of none.
        raise InputError(str(file), "must be GraphML", got=shortened(str(error))) from None
    return from_networkx(
        graph,
        capacity=parse_rate(values["capacity"]),
        latency=parse_time(values["latency"]),
        hosts=values["hosts"],
        hosts_per_switch=values["hosts_per_switch"],
    )
