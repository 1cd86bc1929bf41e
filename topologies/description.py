"""What a topology is, in numbers a designer checks: counts, ports, distances, oversubscription, bisection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.core.text import count
from netsim.core.units import format_rate, format_time
from netsim.topologies.bisection import Bisection, bisection
from netsim.topologies.distance_forms import distances_by_structure
from netsim.topologies.distances import EXACT_UP_TO, Distances, distances
from netsim.topologies.graphs import MARK_HOSTS
from netsim.topologies.grids import optical_ports
from netsim.topologies.many_links import MANY_LINKS, host_distances
from netsim.topologies.prices import Bill, Prices, bill
from netsim.topologies.topology import Topology, check_expected
from netsim.topologies.trees import tree_shape

__all__ = ["Description", "Layer", "describe"]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Links of one layer: how many directed ones, and the range of their capacities and latencies."""

    name: str
    n_links: int
    capacity_bytes_per_s: tuple[float, float]
    latency_s: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Description:
    """Result of :func:`describe`.

    Attributes
    ----------
    topology : Topology
    n_cables, n_one_way : int
        Pairs of opposite links, and links without an opposite one.
    layers : tuple of Layer
    switch_ports, host_ports : (int, int)
        Least and most ports in use on a switch and on a host.
    links_per_group_pair : int or None
        Dragonfly, Dragonfly+, Cascade: parallel links between two groups.
    oversubscription : tuple of (str, float)
        Trees: capacity down over capacity up for the switches of each level.
    between_hosts, between_all : Distances
        Distances in links between distinct switches that have hosts, and between all distinct switches; where hosts
        have several links (BCube, rail-optimised), both are those between distinct hosts.
    n_components : int
        Strongly connected components of the whole graph; 1 means every vertex reaches every other.
    injection_bytes_per_s : float
        What all hosts together can send.
    bisection : Bisection or None
    bill : Bill
        Cost and power of ports, cables and transceivers.
    """

    topology: Topology
    n_cables: int
    n_one_way: int
    layers: tuple[Layer, ...]
    switch_ports: tuple[int, int]
    host_ports: tuple[int, int]
    links_per_group_pair: int | None
    oversubscription: tuple[tuple[str, float], ...]
    between_hosts: Distances
    between_all: Distances
    n_components: int
    injection_bytes_per_s: float
    bisection: Bisection | None
    bill: Bill

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, ready for JSON; the numbers at the top are what ``expect`` knows."""
        t = self.topology
        found: dict[str, Any] = {
            "family": t.family,
            "params": {key: _plain(value) for key, value in t.params.items()},
            "n_hosts": t.n_hosts,
            "n_switches": t.n_switches,
            "n_vertices": t.n_vertices,
            "n_links": t.n_links,
            "n_cables": self.n_cables,
            "n_one_way": self.n_one_way,
            "layers": [
                {
                    "name": layer.name,
                    "n_links": layer.n_links,
                    "capacity_bytes_per_s": [_plain(x) for x in layer.capacity_bytes_per_s],
                    "latency_s": list(layer.latency_s),
                }
                for layer in self.layers
            ],
            "switch_ports_min": self.switch_ports[0],
            "switch_ports_max": self.switch_ports[1],
            "host_ports_min": self.host_ports[0],
            "host_ports_max": self.host_ports[1],
            "diameter": self.between_hosts.diameter,
            "average_distance": self.between_hosts.average,
            "diameter_all_switches": self.between_all.diameter,
            "average_distance_all_switches": self.between_all.average,
            "distances_exact": self.between_hosts.exact and self.between_all.exact,
            "distances_method": self.between_hosts.method,
            "n_components": self.n_components,
            "injection_bytes_per_s": _plain(self.injection_bytes_per_s),
            "content_hash": t.content_hash,
            **self.bill.to_dict(),
        }
        if self.links_per_group_pair is not None:
            found["links_per_group_pair"] = self.links_per_group_pair
        if self.oversubscription:
            found["oversubscription"] = {name: _plain(ratio) for name, ratio in self.oversubscription}
        if self.bisection is not None:
            found["bisection_exact"] = self.bisection.exact
            found["bisection_method"] = self.bisection.method
            found["bisection_lower_bytes_per_s"] = _plain(self.bisection.lower_bytes_per_s)
            found["bisection_upper_bytes_per_s"] = _plain(self.bisection.upper_bytes_per_s)
            if self.bisection.exact:
                found["bisection_bytes_per_s"] = _plain(self.bisection.lower_bytes_per_s)
        return found

    def expect(self, **values: float) -> None:
        """Assert numbers of :meth:`to_dict`; see :meth:`netsim.topologies.Topology.expect`."""
        known = {key: x for key, x in self.to_dict().items() if isinstance(x, int | float)}
        check_expected(f"topology {self.topology.family}", known, values)

    def lines(self) -> list[str]:
        """One screen of text."""
        t = self.topology
        shown = ", ".join(f"{key}={_text(value)}" for key, value in t.params.items())
        rows = [
            ("topology", f"{t.family}({shown})" if shown else t.family),
            (
                "hosts, switches",
                f"{t.n_hosts}, {t.n_switches}" + ("" if t.n_hosts else f" (to replay on it: {MARK_HOSTS})"),
            ),
            ("links", f"{t.n_links:,} directed: {count(self.n_cables, 'cable')}" + _one_way(self.n_one_way)),
        ]
        width = max((len(layer.name) for layer in self.layers), default=0)
        for layer in self.layers:
            rate = _range(layer.capacity_bytes_per_s, format_rate)
            delay = _range(layer.latency_s, format_time)
            rows.append(("", f"{layer.name:{width}}  {layer.n_links:>8} directed  {rate}  {delay}"))
        rows.append(("ports in use", f"{_span(self.switch_ports)} per switch, {_span(self.host_ports)} per host"))
        if self.links_per_group_pair is not None:
            rows.append(("group pairs", f"{count(self.links_per_group_pair, 'link')} each"))
        if any(layer.name.startswith("optical ") for layer in self.layers) and t.params.get("block") is not None:
            crossing = optical_ports(t)
            n_ports = int(crossing.port_in.max()) + 1
            rows.append(("optical switches", f"{int(crossing.switch.max()) + 1}, {n_ports} ports in use of each"))
        if self.oversubscription:
            ratios = ", ".join(f"{name} {ratio:.4g}:1" for name, ratio in self.oversubscription)
            rows.append(("oversubscription", ratios))
        what = "switches with hosts" if t.n_switches and t.family not in MANY_LINKS else "hosts"
        rows.append(("distance", f"{_distance(self.between_hosts)} between {what}"))
        if t.n_switches and self.between_all is not self.between_hosts:
            rows.append(("", f"{_distance(self.between_all)} between all switches"))
        rows.append(("injection", f"{format_rate(self.injection_bytes_per_s)} by all hosts"))
        if self.bisection is not None:
            rows.append(("bisection", self._bisection_text(self.bisection)))
        if self.n_components != 1:
            rows.append(("components", f"{self.n_components}: not every vertex reaches every other"))
        rows += self.bill.lines()
        return [f"{name:16}  {text}" for name, text in rows]

    def _bisection_text(self, found: Bisection) -> str:
        half = self.injection_bytes_per_s / 2
        if found.exact:
            share = f", {found.lower_bytes_per_s / half:.3g} of half the injection" if 0 < half < math.inf else ""
            return f"{format_rate(found.lower_bytes_per_s)} one way{share} (exact: {found.method})"
        upper = format_rate(found.upper_bytes_per_s)
        if found.lower_bytes_per_s == 0:
            return f"at most {upper} one way (bound: {found.method})"
        lower = format_rate(found.lower_bytes_per_s)
        if math.isinf(found.upper_bytes_per_s):
            return f"at least {lower} one way (bound: {found.method})"
        return f"between {lower} and {upper} one way (bounds: {found.method})"


def describe(topology: Topology, *, prices: Prices | None = None) -> Description:
    """Describe a topology: counts, ports, distances, oversubscription, injection and bisection bandwidth, cost, power.

    Distances are searched up to 5000 switches; above, they follow from the structure (torus, mesh, trees, dragonflies
    that look the same from every group) or are sampled. The bisection is exact where theory gives it or the network is
    small, and bounds otherwise. The text says which. Cost and power: see :func:`netsim.topologies.prices.bill`.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> print("\\n".join(describe(fat_tree(4)).lines()))
    topology          fat_tree(k=4, capacity=100Gbps, latency=200ns)
    hosts, switches   16, 20
    links             96 directed: 48 cables
                      host                    32 directed  100 Gb/s  200 ns
                      edge-aggregation        32 directed  100 Gb/s  200 ns
                      aggregation-core        32 directed  100 Gb/s  200 ns
    ports in use      4 per switch, 1 per host
    oversubscription  edge-aggregation 1:1, aggregation-core 1:1
    distance          diameter 4, average 3.714286 between switches with hosts
                      diameter 4, average 2.589474 between all switches
    injection         1.6 Tb/s by all hosts
    bisection         800 Gb/s one way, 1 of half the injection (exact: narrowest level of the tree)
    cost, power       30,080 USD, 0.4832 kW, 1,880 USD and 30.2 W per host
    ...
    """
    t = topology
    n_cables, n_one_way = _cables(t)
    out, into = np.diff(t.out_ptr), np.diff(t.in_ptr)
    ports = np.maximum(out, into)
    with_hosts = np.zeros(t.n_switches, dtype=bool)
    for here, there in ((t.link_src, t.link_dst), (t.link_dst, t.link_src)):
        with_hosts[there[(here < t.n_hosts) & (there >= t.n_hosts)] - t.n_hosts] = True
    everything = np.ones(t.n_switches or t.n_hosts, dtype=bool)
    if not t.n_switches:
        with_hosts = everything
    between_all = _distances(t, everything)
    if t.family in MANY_LINKS:
        with_hosts = everything
    params = t.params
    return Description(
        topology=t,
        n_cables=n_cables,
        n_one_way=n_one_way,
        layers=tuple(_layer(t, i) for i in range(len(t.layer_names)) if np.any(t.link_layer == i)),
        switch_ports=_bounds(ports[t.n_hosts :]),
        host_ports=_bounds(ports[: t.n_hosts]),
        links_per_group_pair=(
            int((t.link_layer == t.layer_names.index("global")).sum()) // (params["g"] * (params["g"] - 1))
            if t.family in ("dragonfly", "dragonfly_plus", "cascade") and params["g"] > 1
            else None
        ),
        oversubscription=_oversubscription(t),
        between_hosts=between_all if with_hosts.all() else _distances(t, with_hosts),
        between_all=between_all,
        n_components=_components(t),
        injection_bytes_per_s=float(t.link_capacity_bytes_per_s[t.link_src < t.n_hosts].sum()),
        bisection=bisection(t),
        bill=bill(t, prices),
    )


def _distances(t: Topology, chosen: Any) -> Distances:
    if t.family in MANY_LINKS:
        return Distances(histogram=host_distances(t), unreachable=0, exact=True, method="closed form")
    found = distances_by_structure(t, chosen) if t.n_switches > EXACT_UP_TO else None
    return distances(t, chosen) if found is None else found


def _cables(t: Topology) -> tuple[int, int]:
    """Pairs of opposite links, and what is left over."""
    low = np.minimum(t.link_src, t.link_dst).astype(np.int64)
    key = low * t.n_vertices + np.maximum(t.link_src, t.link_dst)
    _, which = np.unique(key, return_inverse=True)
    forward = np.bincount(which, weights=t.link_src < t.link_dst)
    back = np.bincount(which, weights=t.link_src > t.link_dst)
    return int(np.minimum(forward, back).sum()), int(np.abs(forward - back).sum())


def _layer(t: Topology, index: int) -> Layer:
    links = t.link_layer == index
    rate, delay = t.link_capacity_bytes_per_s[links], t.link_latency_s[links]
    return Layer(
        name=t.layer_names[index],
        n_links=int(links.sum()),
        capacity_bytes_per_s=(float(rate.min()), float(rate.max())),
        latency_s=(float(delay.min()), float(delay.max())),
    )


def _bounds(values: Any) -> tuple[int, int]:
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _oversubscription(t: Topology) -> tuple[tuple[str, float], ...]:
    """Capacity down over capacity up of a switch, for each level that has an up."""
    if t.family not in ("fat_tree", "k_ary_n_tree", "xgft"):
        return ()
    m, w = tree_shape(t)
    rate = [float(t.link_capacity_bytes_per_s[t.link_layer == i][0]) for i in range(len(m))]
    return tuple(
        (t.layer_names[i], m[i - 1] * rate[i - 1] / (w[i] * rate[i]) if rate[i] < math.inf else 0.0)
        for i in range(1, len(m))
    )


def _components(t: Topology) -> int:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not t.n_vertices:
        return 0
    shape = (t.n_vertices, t.n_vertices)
    graph = coo_array((np.ones(t.n_links, dtype=np.int8), (t.link_src, t.link_dst)), shape=shape).tocsr()
    n_parts, _ = connected_components(graph, directed=True, connection="strong")
    return int(n_parts)


def _plain(value: Any) -> Any:
    """JSON has no infinity and no tuples."""
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return list(value) if isinstance(value, tuple) else value if isinstance(value, int | float | str) else str(value)


def _text(value: Any) -> str:
    return "x".join(str(part) for part in value) if isinstance(value, tuple) else str(value)


def _range(bounds: tuple[float, float], form: Any) -> str:
    low, high = bounds
    return str(form(low)) if low == high else f"{form(low)} to {form(high)}"


def _span(bounds: tuple[int, int]) -> str:
    return str(bounds[0]) if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"


def _one_way(n: int) -> str:
    return f", {n} one way" if n else ""


def _distance(found: Distances) -> str:
    text = f"diameter {found.diameter}, average {found.average:.7g}"
    if found.unreachable:
        text += f" ({count(found.unreachable, 'pair')} without a path)"
    if found.exact:
        return text if found.method == "search" else f"{text} ({found.method})"
    return f"{text} ({found.method}; the diameter may be longer)"
