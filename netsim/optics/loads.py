"""Link load: what a demand between switches puts on every link, and the index that sums it up.

The extended edge-forwarding index (E-EFI, after sDNA: Shao et al., ICCD 2019, IEEE Trans. Computers 2021; the published formula was not
at hand, what follows is netsim's own) of a link is its load over its capacity: seconds to drain it when each pair of switches has sent
its bytes. With one byte per pair and capacity 1 it is the classic index of Heydemann, Meyer and Sotteau (Discrete Applied Mathematics
23, 1989), as a fraction where a pair has several paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_order, distinct, frozen
from netsim.core.errors import InputError, closest
from netsim.core.registry import Registry
from netsim.optics import _kernels as k
from netsim.optics.circuits import electrical
from netsim.optics.demands import SwitchDemand, switch_demand
from netsim.routing.fluid import Transport, fluid_routings
from netsim.routing.throughput import best_loads
from netsim.topologies import Topology
from netsim.topologies.changes import as_graph

__all__ = ["Fabric", "Index", "efi_index", "link_load", "load_rules"]

# The exponent of PHI: high enough to follow the fullest link, low enough to see the others.
PHI_POWER = 8
# All-pairs distances and prices: 6 bytes a pair.
MOST_SWITCHES = 20_000

LoadRule = Callable[["Fabric", SwitchDemand], Float64]
load_rules: Registry[LoadRule] = Registry("load routing", "netsim.load_rules")


@dataclass(frozen=True, eq=False)
class Fabric:
    """The electrical links between switches of a topology, its circuits, and the distances between switches, computed once.

    Attributes
    ----------
    topology : Topology
    """

    topology: Topology

    @cached_property
    def n(self) -> int:
        """Number of switches."""
        return self.topology.n_switches

    def arcs_of(self, chosen: npt.NDArray[np.bool_]) -> tuple[Int64, Int64, Int64]:
        """Links between switches among the chosen, by source switch: row pointers, heads, and link numbers."""
        base = self.topology.n_hosts
        link = np.flatnonzero(chosen & (self.topology.link_src >= base) & (self.topology.link_dst >= base))
        ptr, order = csr_order(self.topology.link_src[link].astype(np.int64) - base, self.n)
        link = link[order]
        return (
            frozen(ptr, np.int64),
            frozen(self.topology.link_dst[link].astype(np.int64) - base, np.int64),
            frozen(link, np.int64),
        )

    @cached_property
    def arcs(self) -> tuple[Int64, Int64, Int64]:
        """Electrical arcs: row pointers, heads, link numbers."""
        return self.arcs_of(electrical(self.topology))

    @cached_property
    def circuit_link(self) -> Int64:
        """Links that are circuits."""
        return np.flatnonzero(~electrical(self.topology))

    @cached_property
    def circuit_ends(self) -> tuple[Int64, Int64]:
        """Switches that each circuit link joins."""
        base, link = self.topology.n_hosts, self.circuit_link
        return (
            frozen(self.topology.link_src[link].astype(np.int64) - base, np.int64),
            frozen(self.topology.link_dst[link].astype(np.int64) - base, np.int64),
        )

    @cached_property
    def hops(self) -> npt.NDArray[np.int16]:
        """Electrical hops between switches, shape (n, n); -1: no path."""
        if self.n > MOST_SWITCHES:
            raise InputError("optics", f"must be {MOST_SWITCHES} switches or fewer", got=self.n)
        ptr, head, _ = self.arcs
        found: npt.NDArray[np.int16] = k.hop_distances(ptr, head, self.n)
        return found

    @cached_property
    def hop_cost(self) -> npt.NDArray[np.float32]:
        """Hops as prices: float32, inf where there is no path."""
        return np.where(self.hops >= 0, self.hops, np.inf).astype(np.float32)

    def prices(self, price: Float64) -> npt.NDArray[np.float32]:
        """Mean price of the shortest electrical paths between switches, shape (n, n), from a price per link."""
        ptr, head, link = self.arcs
        found: npt.NDArray[np.float32] = k.path_prices(ptr, head, self.n, frozen(price[link], np.float64), self.hops)
        return found

    def spread(self, arcs: tuple[Int64, Int64, Int64], demand: SwitchDemand) -> Float64:
        """Loads by link when all pairs spread evenly over all their shortest paths of the arcs."""
        ptr, head, link = arcs
        rows = np.flatnonzero(np.diff(demand.ptr))
        row_ptr = frozen(np.append(demand.ptr[rows], demand.to.size), np.int64)
        load, lost = k.shortest_loads(
            ptr, head, self.n, frozen(rows, np.int64), row_ptr, demand.to, frozen(demand.size_bytes, np.float64)
        )
        if lost >= 0:
            raise InputError(
                "demand",
                "every pair that communicates must be joined",
                got=f"no path from {self._name(int(demand.source[lost]))} to {self._name(int(demand.to[lost]))}",
            )
        result = np.zeros(self.topology.n_links)
        result[link] = load
        return result

    def _name(self, switch: int) -> str:
        return self.topology.vertex_name(self.topology.n_hosts + switch)


def link_load(topology: Topology, demand: Any, *, routing: str = "ecmp", share: npt.ArrayLike | None = None) -> Float64:
    """Bytes on every link.

    Parameters
    ----------
    topology : Topology
        With or without hosts; links of hosts carry 0 here, since the demand is between switches.
    demand : array_like of float, shape (n_switches, n_switches), or scipy sparse array, or SwitchDemand
        Bytes.
    routing : str
        ``ecmp``: evenly over all shortest paths, circuits being links like any other. ``one-optical-hop``: over at most one circuit per
        path, the pair's own or one that saves hops, otherwise electrical; evenly over circuits that save the same. ``optical-first``: over
        the pair's own circuits if it has any, otherwise electrical. ``spill``: ``one-optical-hop``, each circuit taking only as much as
        keeps the fullest link lowest. ``electrical``: circuits left dark. ``per-hop-ecmp``: evenly over the next hops at each switch, as
        hashing does. ``optimum``: the linear program. Or any fluid routing (`netsim.routing.fluid`), circuits left dark.
    share : array_like of float, shape (number of circuit links,), optional
        With ``one-optical-hop``: the part of what it is offered that each circuit takes, from 0 to 1.

    Returns
    -------
    float64 array, shape (n_links,)
        In the order of the topology's links.

    Raises
    ------
    InputError
        A bad demand, an unknown routing, or pairs that are not joined.

    Notes
    -----
    ``ecmp``: O(sources x links), one search per source (Brandes' sums with demands as weights).

    Examples
    --------
    All pairs of a ring of eight send one byte; then switches 0 and 4 get a circuit:

    >>> import netsim as ns
    >>> from netsim.optics import Circuits, link_load, with_circuits
    >>> ring = ns.topologies.torus((8,))
    >>> ones = np.ones((8, 8))
    >>> float(link_load(ring, ones).max())
    8.0
    >>> lit = with_circuits(ring, Circuits.of([(0, 4)]))
    >>> load = link_load(lit, ones)
    >>> float(load[:-2].max()), load[-2:].tolist()
    (7.5, [7.0, 7.0])
    """
    fabric = Fabric(topology)
    rows = switch_demand(topology, demand)
    if share is not None:
        if routing != "one-optical-hop":
            raise InputError("share", "goes with the routing one-optical-hop", got=routing)
        return OneOpticalHop(fabric, rows).load(share)[0]
    if routing not in load_rules and routing in fluid_routings:
        return fluid_routings[routing](topology, _transport(topology, rows))
    if routing not in load_rules:
        raise InputError(
            "load routing", "unknown name", got=repr(routing), remedy=closest(routing, [*load_rules, *fluid_routings])
        )
    return load_rules[routing](fabric, rows)


def _transport(topology: Topology, rows: SwitchDemand) -> Transport:
    return Transport(
        source=frozen(rows.source + topology.n_hosts, np.int64),
        destination=frozen(rows.to + topology.n_hosts, np.int64),
        amount_bytes_per_s=rows.size_bytes,
        host_load_bytes_per_s=np.zeros(topology.n_links),
        total_bytes_per_s=rows.total_bytes,
    )


@load_rules.register("ecmp")
def _ecmp(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """Evenly over all shortest paths, circuits included."""
    if fabric.circuit_link.size == 0:
        return fabric.spread(fabric.arcs, demand)
    return fabric.spread(fabric.arcs_of(np.ones(fabric.topology.n_links, dtype=np.bool_)), demand)


@load_rules.register("electrical")
def _electrical(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """Evenly over all shortest electrical paths."""
    return fabric.spread(fabric.arcs, demand)


@load_rules.register("per-hop-ecmp")
def _per_hop(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """Evenly over the next hops of shortest paths, at each switch anew."""
    return fluid_routings["ecmp"](as_graph(fabric.topology), _transport(fabric.topology, demand))


@load_rules.register("optimum")
def _optimum(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """Any paths: the fullest link is as empty as it can be (linear program)."""
    return best_loads(fabric.topology, _transport(fabric.topology, demand))


@load_rules.register("one-optical-hop")
def _one_optical_hop_rule(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """At most one circuit per path, the pair's own or one that saves hops."""
    return OneOpticalHop(fabric, demand).load()[0]


@load_rules.register("optical-first")
def _optical_first(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """A pair with circuits of its own uses them, evenly; all others are electrical."""
    load = np.zeros(fabric.topology.n_links)
    a, b = fabric.circuit_ends
    key, row, count = np.unique(a * fabric.n + b, return_inverse=True, return_counts=True)
    pair = demand.source * fabric.n + demand.to
    at = np.searchsorted(key, pair)
    own = np.zeros(pair.size, dtype=np.bool_)
    inside = at < key.size
    own[inside] = key[at[inside]] == pair[inside]
    of_pair = np.bincount(at[own], weights=demand.size_bytes[own], minlength=key.size)
    load[fabric.circuit_link] = (of_pair / np.maximum(count, 1))[row] if key.size else 0.0
    rest = SwitchDemand.of_pairs(fabric.n, demand.source[~own], demand.to[~own], demand.size_bytes[~own])
    return load + fabric.spread(fabric.arcs, rest)


class OneOpticalHop:
    """A demand on a fabric with circuits, at most one on a path: who takes which is found once, loads for any shares after that.

    Parameters
    ----------
    fabric : Fabric
    demand : SwitchDemand
    """

    def __init__(self, fabric: Fabric, demand: SwitchDemand) -> None:
        self._fabric, self._demand = fabric, demand
        a, b = fabric.circuit_ends
        cost = fabric.hop_cost
        pairs = Pairs(fabric, demand, cost)
        best = pairs.now.copy()
        # What both kernels read of circuits and prices, and of the sources that circuits may help.
        self._ways = (frozen(a, np.int64), frozen(b, np.int64)), (cost, pairs.cost_in, np.float32(1.0))
        self._reach = (pairs.sources, pairs.longest, best)
        self._count = k.best_circuits(*self._ways[0], *self._ways[1], demand.ptr, demand.to, *self._reach)

    def load(self, share: npt.ArrayLike | None = None) -> tuple[Float64, Float64]:
        """Loads by link, and the bytes that each circuit is offered, of which it takes its share (default: all)."""
        fabric, demand = self._fabric, self._demand
        n_circuits = fabric.circuit_link.size
        part = np.ones(n_circuits) if share is None else np.asarray(share, dtype=np.float64)
        if part.shape != (n_circuits,) or not ((part >= 0) & (part <= 1)).all():
            raise InputError("share", f"must be one number from 0 to 1 for each of the {n_circuits} circuit links")
        moved = demand.dense()
        ends, prices = self._ways
        offered = k.over_circuits(
            *ends, part, *prices, demand.ptr, demand.to, demand.size_bytes, *self._reach, self._count, moved
        )
        np.fill_diagonal(moved, 0.0)
        # Rounding leaves crumbs where all of a pair has moved.
        moved[moved < 1e-12 * max(moved.max(initial=0.0), 0.0)] = 0.0
        u, v = np.nonzero(moved)
        load = fabric.spread(fabric.arcs, SwitchDemand.of_pairs(fabric.n, u, v, moved[u, v]))
        load[fabric.circuit_link] = offered * part
        return load, offered


class Pairs:
    """A demand beside the prices of its electrical paths, as the kernels read it.

    Parameters
    ----------
    fabric : Fabric
    demand : SwitchDemand
    cost : float32 array, shape (n, n)
        Price of the electrical path from row to column.

    Attributes
    ----------
    now : float32 array, shape (pairs,)
        Price of each pair's electrical path.
    longest : float32 array, shape (n,)
        The highest of each source.
    cost_in : float32 array, shape (n, n)
        ``cost`` by destination.
    sources : int64 array
        Switches that send.
    """

    def __init__(self, fabric: Fabric, demand: SwitchDemand, cost: npt.NDArray[np.float32]) -> None:
        source = demand.source
        self.now: npt.NDArray[np.float32] = cost[source, demand.to]
        self.sources: Int64 = frozen(distinct(source), np.int64)
        self.longest = np.zeros(fabric.n, np.float32)
        np.maximum.at(self.longest, source, self.now)
        symmetric = np.array_equal(cost, cost.T)
        self.cost_in: npt.NDArray[np.float32] = cost if symmetric else np.ascontiguousarray(cost.T)


@dataclass(frozen=True, kw_only=True)
class Index:
    """What loads amount to.

    Attributes
    ----------
    max_s : float
        Seconds to drain the fullest link: a lower bound on the time of the phase under this routing.
    max_electrical_s, max_optical_s : float
        The same among electrical links and among circuits.
    phi_s : float
        Sum of c x^p, c relative to the mean, to the power 1 / p with p = 8: a smooth stand-in for the maximum that also sees the others.
    electrical_byte_hops, optical_bytes : float
        Bytes on electrical links between switches, summed over the links, and on circuits.
    """

    max_s: float
    max_electrical_s: float
    max_optical_s: float
    phi_s: float
    electrical_byte_hops: float
    optical_bytes: float

    def key(self) -> tuple[float, float, float]:
        """For comparing: the maximum first, then PHI, then byte-hops; rounded so that equal indices compare equal."""
        return tuple(float(f"{v:.12g}") for v in (self.max_s, self.phi_s, self.electrical_byte_hops))  # type: ignore[return-value]


def efi_index(topology: Topology, load: npt.ArrayLike) -> Index:
    """Maximum, PHI and sum of the extended edge-forwarding index of given loads.

    Parameters
    ----------
    topology : Topology
    load : array_like of float, shape (n_links,)
        Bytes, as `link_load` gives them.

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> ring = torus((8,), capacity=2.0)
    >>> index = efi_index(ring, link_load(ring, np.ones((8, 8))))
    >>> index.max_s, index.electrical_byte_hops
    (4.0, 128.0)
    """
    loads = np.asarray(load, dtype=np.float64)
    if loads.shape != (topology.n_links,):
        raise InputError("load", f"must be one number for each of the {topology.n_links} links", got=loads.shape)
    seconds = loads / topology.link_capacity_bytes_per_s
    copper = electrical(topology)
    top = float(seconds.max(initial=0.0))
    rate = topology.link_capacity_bytes_per_s
    finite = np.isfinite(rate)
    scale = float(rate[finite].mean()) if finite.any() else 1.0
    phi = 0.0
    if top > 0:
        # Relative to the maximum: no overflow.
        phi = top * float((rate[finite] / scale * (seconds[finite] / top) ** PHI_POWER).sum()) ** (1 / PHI_POWER)
    return Index(
        max_s=top,
        max_electrical_s=float(seconds[copper].max(initial=0.0)),
        max_optical_s=float(seconds[~copper].max(initial=0.0)),
        phi_s=phi,
        electrical_byte_hops=float(loads[copper].sum()),
        optical_bytes=float(loads[~copper].sum()),
    )


@load_rules.register("spill")
def _spill(fabric: Fabric, demand: SwitchDemand) -> Float64:
    """One optical hop, each circuit taking only as much as keeps the fullest link lowest."""
    way = OneOpticalHop(fabric, demand)
    return way.load(_spilled(fabric, way))[0]


def spill_shares(fabric: Fabric, demand: SwitchDemand, *, rounds: int = 12) -> Float64:
    """The part of its offer that each circuit takes, float64, shape (circuit links,).

    A circuit takes all it is offered up to what it drains in T seconds; T is found by bisection such that the fullest electrical
    link needs T too, or all circuits take all. The best of the rounds is kept, that without circuits included: the fullest link is never
    fuller than without circuits.
    """
    return _spilled(fabric, OneOpticalHop(fabric, demand), rounds)


def _spilled(fabric: Fabric, way: OneOpticalHop, rounds: int = 12) -> Float64:
    topology, link = fabric.topology, fabric.circuit_link
    none = np.zeros(link.size)
    dark, offered = way.load(none)
    best_share, best = none, efi_index(topology, dark).key()
    wanted_s = offered / topology.link_capacity_bytes_per_s[link]
    low, high = 0.0, min(best[0], float(wanted_s.max(initial=0.0)))
    limit = high
    for _ in range(rounds):
        share = np.minimum(1.0, np.divide(limit, wanted_s, out=np.ones(link.size), where=wanted_s > 0))
        index = efi_index(topology, way.load(share)[0])
        if index.key() < best:
            best_share, best = share, index.key()
        if index.max_electrical_s > limit:
            low = limit
        else:
            high = limit
        if high - low <= 1e-3 * high or low >= high:
            break
        limit = (low + high) / 2
    return best_share


def assigned(fabric: Fabric, u: Int64, v: Int64, size_bytes: Float64, share: Float64) -> Int64:
    """Which circuit link each whole flow takes when circuits take these shares, int64, shape (flows,): its place among them, or -1.

    What `spill_shares` gives for bytes, for flows that cannot be divided: the largest first, each to the best of its circuits that has
    the most room, as long as at least half of it fits.

    Parameters
    ----------
    fabric : Fabric
        With circuits.
    u, v : int64 array, shape (flows,)
        Switches.
    size_bytes : float64 array, shape (flows,)
    share : float64 array, shape (circuit links,)
    """
    a, b = fabric.circuit_ends
    found = np.full(u.size, -1, np.int64)
    if not a.size or not u.size:
        return found
    key, row = np.unique(u * fabric.n + v, return_inverse=True)
    pair_u, pair_v = key // fabric.n, key % fabric.n
    cost = fabric.hop_cost
    best: list[Int64] = []
    step = max(1, int(2e7 // a.size))
    for begin in range(0, key.size, step):
        s, d = pair_u[begin : begin + step], pair_v[begin : begin + step]
        via = cost[s][:, a] + np.float32(1.0) + cost[b][:, d].T
        via[(s[:, None] == a[None, :]) & (d[:, None] == b[None, :])] = 0.0
        least = via.min(axis=1)
        better = least < cost[s, d]
        best += [np.flatnonzero(via[i] == least[i]) if better[i] else np.empty(0, np.int64) for i in range(s.size)]
    ways = np.array([x.size for x in best])
    of_pair = np.bincount(row, weights=size_bytes, minlength=key.size)
    room = np.zeros(a.size)
    for i in np.flatnonzero(ways):
        room[best[i]] += of_pair[i] / ways[i]
    room *= share
    for flow in np.lexsort((np.arange(u.size), -size_bytes)).tolist():
        choice = best[row[flow]]
        if not choice.size:
            continue
        arc = int(choice[int(np.argmax(room[choice]))])
        if room[arc] >= 0.5 * size_bytes[flow] and share[arc] > 0:
            found[flow] = arc
            room[arc] -= size_bytes[flow]
    return found
