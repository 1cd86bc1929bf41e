"""Topologies from any graph: networkx objects, and the common last step of all importers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError, closest
from netsim.core.units import parse_rate, parse_time
from netsim.topologies.generators import cables, check_size, shortened
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["HOST_RULES", "EdgeList", "from_networkx", "quantity", "quantity_key", "to_networkx"]

Bool = npt.NDArray[np.bool_]

# Layers are numbered in int16.
MOST_LAYERS = 2**15 - 1
# Of a number in a file, with its unit.
MOST_CHARACTERS = 100
HOST_RULES = ("marked", "leaves", "all", "none")
# What to do about a network without hosts; the form of options is that of the command line and of Python alike.
MARK_HOSTS = (
    'name hosts "host ...", or mark them in the file (columns source_type and target_type, attribute type=host), '
    "or take hosts=leaves, hosts=all or hosts_per_switch=N"
)


@dataclass(frozen=True, kw_only=True)
class EdgeList:
    """What an importer read, before it is put in order.

    Attributes
    ----------
    names : sequence of str
        Vertex names, all different.
    host, transit : sequence of bool
        Marked as a host; forwards traffic of others although it is a host.
    source, target : int64 array, shape (n_edges,)
        Positions in ``names``.
    capacity_bytes_per_s, latency_s : float64 array, shape (n_edges,)
    layer : sequence of str
        Layer of each edge, or "" for the default: "host" beside a host, "switch" elsewhere.
    directed : bool
        False: each edge is a cable, a link each way.
    """

    names: Sequence[str]
    host: Sequence[bool]
    transit: Sequence[bool]
    source: Int64
    target: Int64
    capacity_bytes_per_s: Float64
    latency_s: Float64
    layer: Sequence[str]
    directed: bool

    def is_host(self, rule: str) -> Bool:
        """Which vertices are hosts; bool, shape (n_vertices,).

        ``marked``: those the input marks, and those whose name begins with "host"; ``leaves``: those with exactly one
        neighbour; ``all``; ``none``.
        """
        n = len(self.names)
        if rule not in HOST_RULES:
            raise InputError("hosts", "unknown rule", got=repr(rule), remedy=closest(rule, HOST_RULES))
        if rule == "marked":
            named = np.fromiter((name.lower().startswith("host") for name in self.names), dtype=np.bool_, count=n)
            return np.asarray(named | np.asarray(self.host, dtype=np.bool_).reshape(n))
        if rule == "leaves":
            ends = np.unique(np.concatenate([self.source * n + self.target, self.target * n + self.source]))
            return np.asarray(np.bincount(ends // max(n, 1), minlength=n) == 1)
        return np.full(n, rule == "all")

    def with_hosts(self, per_switch: int, is_host: Bool, capacity: float, latency: float) -> EdgeList:
        """Add new hosts, named after it, to every switch; ``host`` of the result marks all hosts."""
        switches = np.flatnonzero(~is_host)
        new_hosts = switches.size * per_switch
        check_size(
            "hosts_per_switch",
            n_vertices=len(self.names) + new_hosts,
            n_links=2 * new_hosts + self.source.size * (1 if self.directed else 2),
        )
        behind = np.repeat(switches, per_switch)
        new = len(self.names) + np.arange(behind.size)
        suffixes = [f".{i}" if per_switch > 1 else "" for i in range(per_switch)]
        names = [f"host {self.names[s]}{suffix}" for s in switches.tolist() for suffix in suffixes]
        both = (new, behind) if not self.directed else cables(new, behind)
        return replace(
            self,
            names=[*self.names, *names],
            host=[*is_host.tolist(), *[True] * behind.size],
            transit=[*self.transit, *[False] * behind.size],
            source=np.concatenate([self.source, both[0]]),
            target=np.concatenate([self.target, both[1]]),
            capacity_bytes_per_s=np.concatenate([self.capacity_bytes_per_s, np.full(both[0].size, capacity)]),
            latency_s=np.concatenate([self.latency_s, np.full(both[0].size, latency)]),
            layer=[*self.layer, *[""] * both[0].size],
        )

    def topology(self, is_host: Bool) -> Topology:
        """Number vertices and links in an order that does not depend on the order of the input.

        Vertices: hosts, then switches, each by name, numbers in names by value. Links: by their ends, then capacity,
        latency and layer.
        """
        n = len(self.names)
        n_hosts = int(is_host.sum())
        order = sorted(range(n), key=lambda i: (not is_host[i], _natural(self.names[i])))
        number = np.empty(n, dtype=np.int64)
        number[order] = np.arange(n)
        u, v = number[self.source], number[self.target]
        loops = np.flatnonzero(u == v)
        if loops.size:
            name = self.names[int(self.source[loops[0]])]
            raise InputError(f"edge {name} - {name}", "a link must join two different vertices")
        if not self.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        default = np.where((u < n_hosts) | (v < n_hosts), "host", "switch")
        given = np.array(self.layer, dtype=np.str_).reshape(u.size)
        layer_name = np.where(given == "", default, given)
        rows = np.lexsort((layer_name, self.latency_s, self.capacity_bytes_per_s, v, u))
        u, v = u[rows], v[rows]
        capacity, latency, layer_name = self.capacity_bytes_per_s[rows], self.latency_s[rows], layer_name[rows]
        if not self.directed:
            u, v = cables(u, v)
            capacity, latency, layer_name = (np.repeat(x, 2) for x in (capacity, latency, layer_name))
        names, layer = np.unique(layer_name, return_inverse=True)
        if names.size > MOST_LAYERS:
            raise InputError("layers", f"must be {MOST_LAYERS} or fewer different names", got=names.size)
        return Topology.from_links(
            n_hosts=n_hosts,
            n_switches=n - n_hosts,
            source=u,
            destination=v,
            capacity=capacity,
            latency=latency,
            layer=layer,
            layer_names=[str(name) for name in names] or ["link"],
            vertex_names=[self.names[i] for i in order],
            host_transit=np.asarray(self.transit, dtype=np.bool_).reshape(n)[order[:n_hosts]],
        )


def _natural(name: str) -> tuple[Any, ...]:
    """Sort key that puts "host10" after "host9"; equal keys are told apart by the name itself."""
    # Digits by their number, then by themselves: their order by value, however many they are.
    parts = re.split(r"(\d+)", name)
    for at in range(1, len(parts), 2):
        parts[at] = parts[at].lstrip("0")
    return tuple((len(p) if at % 2 else -1, p) for at, p in enumerate(parts)), name


def quantity_key(kind: str, data: Mapping[Any, object], subject: str) -> Any:
    """The key under which a link has its capacity or latency, in whatever unit; None without.

    >>> quantity_key("capacity", {"layer": "x", "capacity_Gbps": 100}, "link 0")
    'capacity_Gbps'
    """
    found = [key for key in data if key == kind or str(key).startswith(kind + "_")]
    if len(found) > 1:
        raise InputError(subject, f"must have one {kind}", got=", ".join(str(key) for key in found))
    return found[0] if found else None


def quantity(kind: str, column: str, value: object, subject: str) -> float:
    """A capacity or latency, from a value with its unit or from a column whose name carries the unit.

    Parameters
    ----------
    kind : str
        ``capacity`` or ``latency``.
    column : str
        ``capacity`` (the value has its unit), ``capacity_bytes_per_s``, ``capacity_Gbps``, ``latency_ns``, ...
    value : object
        Text or number.
    subject : str
        For the error message.

    Examples
    --------
    >>> quantity("capacity", "capacity_Gbps", 100, "row 1"), quantity("latency", "latency", "2us", "row 1")
    (12500000000.0, 2e-06)
    >>> quantity("capacity", "capacity", 100, "row 1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: row 1 capacity: a bare number could mean several units of rate, got '100'; write ...
    """
    parse: Callable[..., float] = parse_rate if kind == "capacity" else parse_time
    where = f"{subject} {column}"
    unit = column.removeprefix(kind).removeprefix("_")
    try:
        text = repr(float(value)).removesuffix(".0") if isinstance(value, float) else str(value)
    except ValueError:
        text = "9" * 5000  # an integer of so many digits that Python does not write it
    if len(text) > MOST_CHARACTERS:
        raise InputError(where, f"must be a number of {MOST_CHARACTERS} characters or fewer", got=shortened(text, 20))
    if unit:
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError
            plain = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise InputError(where, "must be a number", got=repr(value)) from None
    # Text goes through the units parser, so a number without any unit is an error that names the choices.
    found = plain if unit in ("bytes_per_s", "s") else parse(text + unit, subject=where)
    if math.isinf(found) and "inf" not in text.lower():
        # A slip, not a link that never limits: that one is written "inf".
        raise InputError(where, "must be a number of less than 1.8e308", got=text)
    return found


def from_networkx(
    graph: nx.Graph[Any],
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    hosts: str = "marked",
    hosts_per_switch: int = 0,
) -> Topology:
    """A topology from a networkx graph of any class: directed or not, with parallel edges or not.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        An undirected edge is a cable: a link each way. A directed edge is one link. Edge attributes ``capacity`` and
        ``latency`` have units (``"100Gbps"``, ``"200ns"``); ``capacity_bytes_per_s`` and ``latency_s`` are plain
        numbers; ``layer`` names the layer. Node attributes: ``host=True`` or ``type="host"`` marks a host,
        ``transit=True`` a host that forwards.
    capacity, latency : str or float
        For edges without their own; numbers are bytes per second and seconds.
    hosts : str
        ``marked`` (by attribute, or by a name that begins with "host"; there may be none), ``leaves`` (nodes with
        exactly one neighbour), ``all`` or ``none``.
    hosts_per_switch : int
        Add this many new hosts to every switch, with the default capacity and latency.

    Raises
    ------
    InputError
        A bad capacity or latency (the message names the edge), a self-loop, or two nodes with the same name.

    Notes
    -----
    Vertices are numbered hosts first, by name, and links by their ends, so that the same graph built in another order
    gives the same topology, the same routes and the same hash.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.petersen_graph(), capacity="400Gbps", latency="1us")
    <Topology graph: 0 hosts, 10 switches, 30 directed links>
    >>> from_networkx(nx.star_graph(4), hosts="leaves")
    <Topology graph: 4 hosts, 1 switches, 8 directed links>
    """
    default = {
        "capacity": parse_rate(capacity, subject="capacity"),
        "latency": parse_time(latency, subject="latency"),
    }
    nodes = list(graph.nodes(data=True))
    position = {node: i for i, (node, _) in enumerate(nodes)}
    names = [str(node) for node, _ in nodes]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError("graph", "node names must differ as text", got=f"{twice!r} twice")
    edges = list(graph.edges(data=True))
    columns: dict[str, list[float]] = {"capacity": [], "latency": []}
    known: dict[tuple[Any, ...], float] = {}
    for u, v, data in edges:
        for kind, column in columns.items():
            key = quantity_key(kind, data, f"edge {u} - {v}")
            if key is None:
                column.append(default[kind])
                continue
            # By type too: True equals 1, and lists have no hash.
            value = data[key]
            slot = (key, type(value), value if isinstance(value, str | int | float) else id(value))
            if slot not in known:
                known[slot] = quantity(kind, key, value, f"edge {u} - {v}")
            column.append(known[slot])
    edge_list = EdgeList(
        names=names,
        host=[bool(data.get("host")) or data.get("type") == "host" for _, data in nodes],
        transit=[bool(data.get("transit")) for _, data in nodes],
        source=np.array([position[u] for u, _, _ in edges], dtype=np.int64),
        target=np.array([position[v] for _, v, _ in edges], dtype=np.int64),
        capacity_bytes_per_s=np.array(columns["capacity"], dtype=np.float64),
        latency_s=np.array(columns["latency"], dtype=np.float64),
        layer=[str(data.get("layer", "")) for _, _, data in edges],
        directed=graph.is_directed(),
    )
    is_host = edge_list.is_host(hosts)
    if hosts_per_switch:
        edge_list = edge_list.with_hosts(hosts_per_switch, is_host, default["capacity"], default["latency"])
        is_host = np.asarray(edge_list.host, dtype=np.bool_)
    return edge_list.topology(is_host)


def to_networkx(topology: Topology) -> nx.MultiDiGraph[Any]:
    """The topology as a networkx graph: nodes are vertex numbers, edges have the link number as key.

    Node attributes: ``name``, ``host``, ``transit``. Edge attributes: ``capacity_bytes_per_s``, ``latency_s``,
    ``layer``.

    Examples
    --------
    >>> from netsim.topologies import star
    >>> graph = to_networkx(star(3))
    >>> graph.number_of_nodes(), graph.number_of_edges()
    (4, 6)
    """
    import networkx as nx

    graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
    for i in range(topology.n_vertices):
        host = i < topology.n_hosts
        forwards = bool(topology.host_transit[i]) if host else True
        graph.add_node(i, name=topology.vertex_name(i), host=host, transit=forwards)
    rows = zip(
        topology.link_src.tolist(),
        topology.link_dst.tolist(),
        topology.link_capacity_bytes_per_s.tolist(),
        topology.link_latency_s.tolist(),
        topology.link_layer.tolist(),
        strict=True,
    )
    for link, (u, v, rate, delay, layer) in enumerate(rows):
        graph.add_edge(u, v, key=link, capacity_bytes_per_s=rate, latency_s=delay, layer=topology.layer_names[layer])
    return graph
