"""Fluid routing: the load that a demand puts on every link when a routing may split traffic into any parts.

A fluid routing is the expectation of the path routing of the same name: where that draws one of several next links or one
intermediate switch, the fluid sends equal parts to all of them. Loads are computed between switches and, where the structure
of the topology is known, from sums over it: no paths are listed.

>>> from netsim.routing.fluid import fluid_loads
>>> from netsim.topologies import dragonfly
>>> net = dragonfly(p=1, a=2, h=1, capacity=1.0)
>>> sorted(fluid_loads(net, "adv+1", routing="minimal")[net.link_layer == 2].tolist())
[0.0, 0.0, 0.0, 2.0, 2.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_order, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.routing.algorithms import needs
from netsim.routing.cubes import cube_loads, cube_uniform_loads
from netsim.routing.dragonflies import global_links
from netsim.routing.grids import Grid
from netsim.routing.pathset import link_loads
from netsim.routing.patterns import Demand, demand, switch_of_hosts
from netsim.routing.registry import routings
from netsim.topologies import Topology

__all__ = [
    "BY_PATH",
    "Transport",
    "fluid_loads",
    "fluid_routings",
    "injection_bytes_per_s",
    "minimal_loads",
    "transport",
]

# Valiant routing by router keeps two matrices of switches by switches.
MOST_SWITCHES = 6000


@dataclass(frozen=True, kw_only=True, eq=False)
class Transport:
    """A demand between the vertices where hosts are folded into their switch.

    Attributes
    ----------
    source, destination : int64 array, shape (n,)
        Different vertices; each pair once.
    amount_bytes_per_s : float64 array, shape (n,)
        When every host injects at the rate of its link.
    host_load_bytes_per_s : float64 array, shape (n_links,)
        Load of the links of the folded hosts; 0 on all others.
    total_bytes_per_s : float
        Of the whole demand, traffic that stays under one switch included.
    """

    source: Int64
    destination: Int64
    amount_bytes_per_s: Float64
    host_load_bytes_per_s: Float64
    total_bytes_per_s: float


FluidRouting = Callable[[Topology, Transport], Float64]
fluid_routings: Registry[FluidRouting] = Registry("fluid routing", "netsim.fluid_routings")

# Path routings whose one path per pair of hosts is what the fluid is: nothing is drawn that could be split.
BY_PATH = ("minimal", "d-mod-k", "s-mod-k", "up-down")


def _sums(index: npt.NDArray[Any], weight: Float64, n: int) -> Float64:
    """Sum of the weights by index; float64 even where there is none, unlike bincount."""
    return np.bincount(index, weights=weight, minlength=n).astype(np.float64)


def injection_bytes_per_s(topology: Topology) -> Float64:
    """What each host can send: the sum of the capacities of the links that leave it; float64, shape (n_hosts,)."""
    rate = _sums(topology.link_src, topology.link_capacity_bytes_per_s, topology.n_vertices)
    return rate[: topology.n_hosts]


def transport(topology: Topology, wanted: Demand) -> Transport:
    """Fold hosts into their switches and add up.

    Parameters
    ----------
    topology : Topology
    wanted : Demand

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> t = transport(torus((4,), capacity=1.0), demand(torus((4,)), "shift+1"))
    >>> t.source.tolist(), t.destination.tolist(), t.amount_bytes_per_s.tolist()
    ([4, 5, 6, 7], [5, 6, 7, 4], [1.0, 1.0, 1.0, 1.0])
    """
    n = topology.n_hosts
    inject = injection_bytes_per_s(topology)
    home = switch_of_hosts(topology)
    places, of_host = np.unique(home, return_inverse=True)
    k = places.size
    amount = wanted.share * inject[wanted.source]
    key, row = np.unique(of_host[wanted.source] * k + of_host[wanted.destination], return_inverse=True)
    summed = _sums(row, amount, key.size)
    sent = _sums(wanted.source, amount, n)
    received = _sums(wanted.destination, amount, n)
    if wanted.uniform_share:
        spread = inject * wanted.uniform_share / max(n - 1, 1)
        sent = sent + inject * wanted.uniform_share
        received = received + spread.sum() - spread
        from_place = _sums(of_host, spread, k)
        table = np.outer(from_place, np.bincount(of_host, minlength=k))
        np.add.at(table.reshape(-1), key, summed)
        key, summed = np.arange(k * k), table.reshape(-1)
    source, destination = places[key // k], places[key % k]
    apart = (source != destination) & (summed > 0)
    folded = np.flatnonzero(home != np.arange(n))
    host_load = np.zeros(topology.n_links)
    host_load[topology.out_link[topology.out_ptr[folded]]] = sent[folded]
    host_load[topology.in_link[topology.in_ptr[folded]]] = received[folded]
    return Transport(
        source=frozen(source[apart], np.int64),
        destination=frozen(destination[apart], np.int64),
        amount_bytes_per_s=frozen(summed[apart], np.float64),
        host_load_bytes_per_s=frozen(host_load, np.float64),
        total_bytes_per_s=float(sent.sum()),
    )


def fluid_loads(
    topology: Topology, pattern: str | Demand = "uniform", *, routing: str = "ecmp", seed: int = 0
) -> Float64:
    """Load of every link, in bytes/s, when every host injects at the full rate of its link and nothing holds it back.

    Parameters
    ----------
    topology : Topology
    pattern : str or Demand
        See `netsim.routing.demand`.
    routing : str
        A name in ``fluid_routings``, or ``minimal``, ``d-mod-k``, ``s-mod-k``, ``up-down``: one path per pair of hosts.
    seed : int
        For patterns with randomness.

    Returns
    -------
    float64 array, shape (n_links,)
        Capacity over load, at its least, is the throughput.

    Raises
    ------
    InputError
        Unknown names, a routing that does not fit the topology, or pairs that are not joined.
    """
    wanted = demand(topology, pattern, seed=seed)
    if routing in BY_PATH:
        source, destination, share = wanted.pairs()
        routes = routings[routing](topology, source, destination)
        return link_loads(topology, routes, weight=share * injection_bytes_per_s(topology)[source])
    if topology.family == "bcube" and routing == "ecmp" and wanted.uniform_share:
        # All hosts inject alike; a row for each pair would need the square of their number.
        inject = injection_bytes_per_s(topology)
        each = float(inject[0]) * wanted.uniform_share / max(topology.n_hosts - 1, 1)
        pairs = cube_loads(topology, wanted.source, wanted.destination, wanted.share * inject[wanted.source])
        return cube_uniform_loads(topology, each) + pairs
    moved = transport(topology, wanted)
    return fluid_routings[routing](topology, moved) + moved.host_load_bytes_per_s


@fluid_routings.register("ecmp")
def ecmp_loads(topology: Topology, moved: Transport) -> Float64:
    """Every switch sends equal parts over all next links of shortest paths; dragonfly: local-global-local, trunks shared."""
    if topology.family == "dragonfly":
        return _dragonfly_minimal(topology, moved.source, moved.destination, moved.amount_bytes_per_s)
    return _shortest(topology, moved.source, moved.destination, moved.amount_bytes_per_s)


@fluid_routings.register("dimension-order")
def dimension_order_loads(topology: Topology, moved: Transport) -> Float64:
    """Torus and mesh: dimension after dimension the short way; half way round an even ring, half goes each way."""
    if topology.family not in ("torus", "mesh"):
        raise needs("dimension-order", "a torus or mesh", topology)
    return _dimension_order(topology, moved.source, moved.destination, moved.amount_bytes_per_s)


@fluid_routings.register("valiant-router")
def valiant_router_loads(topology: Topology, moved: Transport) -> Float64:
    """Minimal to every switch that has hosts, in equal parts, and minimal from there (Valiant, SIAM J. Comput. 11(2), 1982).

    Dragonfly: the intermediate routers are those of the groups that are neither the source's nor the destination's, and
    traffic within a group stays there. The minimal legs are dimension order on grids, else as ``ecmp``.
    """
    n_hosts, n = topology.n_hosts, topology.n_switches
    if n > MOST_SWITCHES:
        raise InputError("routing valiant-router", f"must be {MOST_SWITCHES} switches or fewer", got=n)
    if np.any(moved.source < n_hosts) or np.any(moved.destination < n_hosts):
        raise InputError("routing valiant-router", "needs hosts with one link, to a switch", got=f"a {topology.family}")
    u, v, amount = moved.source - n_hosts, moved.destination - n_hosts, moved.amount_bytes_per_s
    first, second = np.zeros((n, n)), np.zeros((n, n))
    stay = np.zeros(0, dtype=np.int64)
    if topology.family == "dragonfly":
        a, g = int(topology.params["a"]), int(topology.params["g"])
        group_u, group_v = u // a, v // a
        # With two groups there is no third to go through.
        away = (group_u != group_v) & (g > 2)
        stay = np.flatnonzero(~away)
        u, v, amount, group_u, group_v = (x[away] for x in (u, v, amount, group_u, group_v))
        part = amount / (a * max(g - 2, 1))
        # What u sends to group D goes everywhere but to its own group and D; likewise what v receives from group S.
        by_end = _sums(u * g + group_v, part, n * g).reshape(n, g)
        by_start = _sums(v * g + group_u, part, n * g).reshape(n, g)
        group = np.arange(n) // a
        first = (by_end.sum(axis=1)[:, None] - by_end)[:, group]
        second = ((by_start.sum(axis=1)[:, None] - by_start)[:, group]).T.copy()
        first[group[:, None] == group[None, :]] = 0.0
        second[group[:, None] == group[None, :]] = 0.0
    else:
        middle = np.unique(switch_of_hosts(topology)) - n_hosts
        middle = middle[middle >= 0]
        first[:, middle] = (_sums(u, amount, n) / middle.size)[:, None]
        second[middle, :] = _sums(v, amount, n) / middle.size
    both = first + second
    np.fill_diagonal(both, 0.0)
    # Rounding of the differences above must not leave crumbs to route.
    both[both < 1e-12 * both.max(initial=0.0)] = 0.0
    at = np.flatnonzero(both)
    load = minimal_loads(topology, at // n + n_hosts, at % n + n_hosts, both.reshape(-1)[at])
    if stay.size:
        load += minimal_loads(topology, moved.source[stay], moved.destination[stay], moved.amount_bytes_per_s[stay])
    return load


@fluid_routings.register("valiant-group")
def valiant_group_loads(topology: Topology, moved: Transport) -> Float64:
    """Dragonfly: minimal to every other group than the two concerned, in equal parts, and minimal from where it arrives.

    Traffic within a group stays there. Source: Kim et al., ISCA 2008, section 4.1.
    """
    if topology.family != "dragonfly":
        raise needs("valiant-group", "a dragonfly", topology, remedy="use valiant-router")
    n_hosts, a, g = topology.n_hosts, int(topology.params["a"]), int(topology.params["g"])
    u, v, amount = moved.source - n_hosts, moved.destination - n_hosts, moved.amount_bytes_per_s
    group_u, group_v = u // a, v // a
    away = (group_u != group_v) & (g > 2)
    load = _dragonfly_minimal(topology, moved.source[~away], moved.destination[~away], amount[~away])
    u, v, amount, group_u, group_v = (x[away] for x in (u, v, amount, group_u, group_v))
    part = amount / max(g - 2, 1)
    n = a * g
    # What a router sends to each group and receives from each, and what groups exchange.
    sends = _sums(u * g + group_v, part, n * g).reshape(n, g)
    receives = _sums(v * g + group_u, part, n * g).reshape(n, g)
    between = _sums(group_u * g + group_v, part, g * g).reshape(g, g)
    ptr, links = global_links(topology)
    local = np.zeros(n * a)  # by (router, member of its group)
    member = np.arange(a)
    for x in range(g):
        for other in range(g):
            if other == x:
                continue
            # Leg 1, other -> x: everything that group sends to groups but x (and, trivially, itself).
            into = links[ptr[other * g + x] : ptr[other * g + x + 1]]
            gate, entry = topology.link_src[into] - n_hosts, topology.link_dst[into] - n_hosts
            out_of = sends[other * a + member].sum(axis=1) - sends[other * a + member, x]
            load[into] += out_of.sum() / into.size
            for port in gate.tolist():
                local[(other * a + member) * a + port % a] += out_of / into.size
            # Leg 2, in x, towards every group D: local to the gateways, over, then local to the routers of D.
            goes = between[other].copy()
            goes[x] = 0.0
            toward = np.flatnonzero(goes)
            if toward.size:
                row = x * g + toward
                count = ptr[row + 1] - ptr[row]
                at = np.repeat(ptr[row], count) + np.arange(count.sum()) - np.repeat(csr_ptr(count)[:-1], count)
                leave = topology.link_src[links[at]] - n_hosts
                weight = np.repeat(goes[toward] / count, count) / into.size
                for door in entry.tolist():
                    np.add.at(local, door * a + leave % a, weight)
            # Over x -> other: all that comes from third groups to other; then to its routers.
            over = links[ptr[x * g + other] : ptr[x * g + other + 1]]
            arriving = receives[other * a + member].sum(axis=1) - receives[other * a + member, x]
            load[over] += arriving.sum() / over.size
            for door in (topology.link_dst[over] - n_hosts).tolist():
                local[door * a + member] += arriving / over.size
    return load + _local_loads(topology, local)


@fluid_routings.register("valiant")
def valiant_loads(topology: Topology, moved: Transport) -> Float64:
    """As ``valiant-group`` on a dragonfly, as ``valiant-router`` elsewhere."""
    by = valiant_group_loads if topology.family == "dragonfly" else valiant_router_loads
    return by(topology, moved)


def minimal_loads(topology: Topology, source: Int64, destination: Int64, amount: Float64) -> Float64:
    """Loads of minimal paths between vertices: as ``dimension-order`` on torus and mesh, else as ``ecmp``."""
    if topology.family == "dragonfly":
        return _dragonfly_minimal(topology, source, destination, amount)
    if topology.family in ("torus", "mesh"):
        return _dimension_order(topology, source, destination, amount)
    return _shortest(topology, source, destination, amount)


def _local_loads(topology: Topology, local: Float64) -> Float64:
    """Loads of the links inside groups, from loads by (router, member of its group)."""
    a = int(topology.params["a"])
    links = np.flatnonzero(topology.link_layer == topology.layer_names.index("local"))
    load = np.zeros(topology.n_links)
    u, v = (end[links].astype(np.int64) - topology.n_hosts for end in (topology.link_src, topology.link_dst))
    load[links] = local[u * a + v % a]
    return load


def _dragonfly_minimal(topology: Topology, source: Int64, destination: Int64, amount: Float64) -> Float64:
    """Local, global, local; equal parts over the links of a pair of groups."""
    n_hosts, a, g = topology.n_hosts, int(topology.params["a"]), int(topology.params["g"])
    n = a * g
    u, v = source - n_hosts, destination - n_hosts
    group_u, group_v = u // a, v // a
    inside = group_u == group_v
    load = np.zeros(topology.n_links)
    # Loads inside groups by (router, member of its group).
    local = _sums(u[inside] * a + v[inside] % a, amount[inside], n * a)
    u, v, amount, group_u, group_v = (x[~inside] for x in (u, v, amount, group_u, group_v))
    if u.size:
        sends = _sums(u * g + group_v, amount, n * g).reshape(n, g)
        receives = _sums(v * g + group_u, amount, n * g).reshape(n, g)
        ptr, links = global_links(topology)
        row = np.repeat(np.arange(g * g), np.diff(ptr))
        of, to = np.divmod(row, g)
        share = 1.0 / np.diff(ptr)[row]
        gate, entry = (end[links].astype(np.int64) - n_hosts for end in (topology.link_src, topology.link_dst))
        for i in range(a):
            out = sends[of * a + i, to] * share
            local += _sums((of * a + i) * a + gate % a, out, n * a)
            load += _sums(links, out, load.size)
            local += _sums(entry * a + i, receives[to * a + i, of] * share, n * a)
    return load + _local_loads(topology, local)


def _dimension_order(topology: Topology, source: Int64, destination: Int64, amount: Float64) -> Float64:
    grid = Grid(topology)
    u, v = source - topology.n_hosts, destination - topology.n_hosts
    load = np.zeros(topology.n_links)
    n = topology.n_switches
    at = u.copy()
    for d, side in enumerate(grid.dims):
        # Traffic of one line of switches, by where it enters and where it leaves the line.
        total = _sums(at * side + grid.place[v, d], amount, n * side)
        key = np.flatnonzero(total)
        here, end = np.divmod(key, side)
        step = end - grid.place[here, d]
        weight = total[key]
        if grid.wrap:
            step %= side
            half = (2 * step == side) & (side > 2)
            step = np.where(2 * step > side, step - side, step)
            here = np.concatenate([here, here[half]])
            weight = np.concatenate([np.where(half, weight / 2, weight), weight[half] / 2])
            step = np.concatenate([step, -step[half]])
        place = grid.place[here, d]
        for k in range(int(np.abs(step).max(initial=0))):
            on = np.flatnonzero(np.abs(step) > k)
            sign = np.sign(step[on])
            along = (place[on] + sign * k) % side
            hop = grid.link[d, (sign < 0).astype(np.int64), here[on] + (along - place[on]) * grid.stride[d]]
            load += _sums(hop, weight[on], load.size)
        at = at + (grid.place[v, d] - grid.place[at, d]) * grid.stride[d]
    return load


def _shortest(topology: Topology, source: Int64, destination: Int64, amount: Float64) -> Float64:
    """Equal parts over all shortest next links, one search per destination: O(destinations x links) time."""
    from netsim.routing import _kernels

    if topology.family == "bcube":
        return cube_loads(topology, source, destination, amount)
    root, which = np.unique(destination, return_inverse=True)
    ptr, order = csr_order(which, root.size)
    transit = np.ones(topology.n_vertices, dtype=np.uint8)
    transit[: topology.n_hosts] = topology.host_transit
    load, lost = _kernels.spread(
        topology.in_ptr,
        topology.in_link,
        topology.out_ptr,
        topology.out_link,
        topology.link_src,
        topology.link_dst,
        frozen(transit, np.uint8),
        frozen(root, np.int64),
        frozen(ptr, np.int64),
        frozen(source[order], np.int64),
        frozen(amount[order], np.float64),
    )
    if lost >= 0:
        i = int(order[lost])
        raise InputError(
            "routing",
            "every pair that communicates must be joined",
            got=f"no path from {topology.vertex_name(int(source[i]))} to {topology.vertex_name(int(destination[i]))}",
        )
    return np.asarray(load, dtype=np.float64)
