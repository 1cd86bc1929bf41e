"""Routings that may leave the minimal path: Valiant's random detour, and the adaptive choice between the two.

The adaptive routings offer each flow some paths (`netsim.routing.choice`), drawn from the seed and the flow alone, so that the result
depends on nothing but the input. In a run the engine lets each flow choose when it starts. Called for paths, they see a batch
of flows that start together: these decide one after the other, in the order given, and each sees how many flows chose
each link before it. Counts, not utilisation, are the load: in a saturated flow-level network the bottleneck is full whatever is
chosen. Virtual channels, queues and deadlock are not modelled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.routing.algorithms import dimension_order, ecmp, labels, minimal, needs
from netsim.routing.choice import CandidateRouting, Candidates, adaptive_routings
from netsim.routing.dragonflies import crossings, local_hops
from netsim.routing.pathset import Paths
from netsim.routing.patterns import switch_of_hosts
from netsim.routing.registry import hosts, routings
from netsim.topologies import Topology

__all__ = ["adaptive", "par", "ugal_g", "ugal_l", "valiant", "valiant_group", "valiant_router"]

# Random detours that an adaptive decision looks at.
CANDIDATES = 4
RULES = ("first-link", "whole-path", "rate")
# A detour there only goes up and down once more, over links that minimal paths use as well.
_NO_DETOURS = ("star", "fat_tree", "k_ary_n_tree", "xgft", "rail_optimized")
Words = npt.NDArray[np.uint64]


@routings.register("valiant-router")
def valiant_router(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Minimal to a switch drawn for the flow, and minimal from there: no pattern is worse than uniform traffic twice.

    The switch is any that has hosts; on a dragonfly a router of a third group, and traffic within a group stays there. The legs are
    dimension order on torus and mesh, else as ``ecmp``. A path may cross a link twice. Parameters and errors: see
    :func:`netsim.routing.paths`. Source: Valiant, SIAM J. Comput. 11(2), 1982.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> net = dragonfly(p=2, a=4, h=2)
    >>> route = valiant_router(net, 0, 71)[0]
    >>> sum(net.layer_names[net.link_layer[link]] == "global" for link in route)
    2
    """
    s, d = hosts(topology, source, destination)
    label = labels(flow, s.size)
    return _by_router("valiant-router", topology, s, d, label, hash64(seed, s, d, label, 1), seed)


@routings.register("valiant-group")
def valiant_group(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Dragonfly: over a group drawn for the flow, crossing it from where the path arrives by one local hop at most.

    The group is a third one; traffic within a group stays there. Parameters and errors: see :func:`netsim.routing.paths`. Source: Kim
    et al., ISCA 2008, section 4.1.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> valiant_group(dragonfly(p=1, a=2, h=1), [0, 0], [1, 0]).hops.tolist()
    [3, 0]
    """
    s, d = hosts(topology, source, destination)
    if topology.family != "dragonfly":
        raise needs("valiant-group", "a dragonfly", topology, remedy="use valiant-router")
    return _by_group(topology, s, d, hash64(seed, s, d, labels(flow, s.size), 1))


@routings.register("ugal-l")
def ugal_l(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Minimal or one of four random detours, by the flows on the first link between switches times the hops of the path.

    All flows of the call are taken to be there at the same time; they decide in the order given. Detours are as ``valiant-group`` on a
    dragonfly, else as ``valiant-router``; equal costs go to the minimal path. Parameters and errors: see
    :func:`netsim.routing.paths`. Source: Singh, "Load-Balanced Routing in Interconnection Networks", Stanford 2005.

    Examples
    --------
    Eight hosts send to the next group. The direct link would carry all of them; some go round:

    >>> from netsim.topologies import dragonfly
    >>> net = dragonfly(p=2, a=4, h=2)
    >>> routes = ugal_l(net, range(8), range(8, 16))
    >>> crossed = [sum(net.layer_names[net.link_layer[link]] == "global" for link in route) for route in routes]
    >>> sorted(set(crossed))
    [1, 2]
    """
    return _decide(topology, adaptive_routings["ugal-l"](topology, source, destination, flow=flow, seed=seed))


@routings.register("ugal-g")
def ugal_g(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """As ``ugal-l``, but by the fullest link of the whole path: what perfect knowledge of the network would choose.

    Parameters and errors: see :func:`netsim.routing.paths`.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> ugal_g(dragonfly(p=1, a=2, h=1), [0, 0], [1, 0]).hops.tolist()
    [3, 0]
    """
    return _decide(topology, adaptive_routings["ugal-g"](topology, source, destination, flow=flow, seed=seed))


@routings.register("par")
def par(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Dragonfly: as ``ugal-l``, and a minimal choice is looked at once more at the router that has the global link.

    Progressive adaptive routing. The second decision sees the load of the global link itself; a detour from there takes one more local
    hop. Parameters and errors: see :func:`netsim.routing.paths`. Source: Jiang, Kim, Dally, "Indirect Adaptive Routing on Large
    Scale Interconnection Networks", ISCA 2009.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> par(dragonfly(p=1, a=2, h=1), [0, 0], [1, 0]).hops.tolist()
    [3, 0]
    """
    return _decide(topology, adaptive_routings["par"](topology, source, destination, flow=flow, seed=seed))


@routings.register("adaptive")
def adaptive(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """The path that promises most: the greatest of the least capacity over flows; then fewest links, then the first.

    Candidates are up to four minimal paths and four detours as of ``ugal-l``, or eight minimal paths where detours make no sense (trees,
    stars, hosts with several links). In a replay flows choose when they start, and may move on later. Parameters and
    errors: see :func:`netsim.routing.paths`.

    Examples
    --------
    Four flows of one host pair spread over all four cores:

    >>> from netsim.topologies import fat_tree
    >>> net = fat_tree(4)
    >>> routes = adaptive(net, [0, 1, 2, 3], [12, 13, 14, 15])
    >>> len({int(net.link_dst[routes[i][2]]) for i in range(4)})
    4
    """
    return _decide(topology, adaptive_routings["adaptive"](topology, source, destination, flow=flow, seed=seed))


@routings.register("valiant")
def valiant(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """``valiant-group`` on a dragonfly, ``valiant-router`` elsewhere. Parameters and errors: see :func:`netsim.routing.paths`.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> valiant(dragonfly(p=1, a=2, h=1), [0, 0], [1, 0]).hops.tolist()
    [3, 0]
    """
    s, d = hosts(topology, source, destination)
    label = labels(flow, s.size)
    word = hash64(seed, s, d, label, 1)
    if topology.family == "dragonfly":
        return _by_group(topology, s, d, word)
    return _by_router("valiant", topology, s, d, label, word, seed)


def _ugal(name: str, rule: str) -> CandidateRouting:
    def offer(
        topology: Topology,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        *,
        flow: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> Candidates:
        if name == "par" and topology.family != "dragonfly":
            raise needs("par", "a dragonfly", topology, remedy="use ugal-l")
        first, second = _offer(name, topology, source, destination, flow, seed, again=name == "par")
        return Candidates.of(first, second, rule=rule)

    return offer


adaptive_routings.register("ugal-l")(_ugal("ugal-l", "first-link"))
adaptive_routings.register("ugal-g")(_ugal("ugal-g", "whole-path"))
adaptive_routings.register("par")(_ugal("par", "first-link"))


@adaptive_routings.register("adaptive")
def adaptive_candidates(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Candidates:
    """Minimal paths, some drawn as by ``ecmp``, and where detours make sense as many of those."""
    s, d = hosts(topology, source, destination)
    label = labels(flow, s.size)
    detours = topology.family not in _NO_DETOURS and bool(np.all(switch_of_hosts(topology) >= topology.n_hosts))
    more = CANDIDATES - 1 if detours else 2 * CANDIDATES - 1
    straight = [minimal(topology, s, d)]
    for k in range(more):
        straight.append(ecmp(topology, s, d, flow=hash64(1, label, k).view(np.int64), seed=seed))
    aside = _offer("adaptive", topology, s, d, flow, seed)[0][1:] if detours else []
    return Candidates.of([*straight, *aside], rule="rate")


def _by_group(topology: Topology, source: Int64, destination: Int64, word: Words) -> Paths:
    """Over the group that the word draws; minimal where source and destination share a group or there is no third."""
    p, a, g = (int(topology.params[key]) for key in ("p", "a", "g"))
    n_hosts = topology.n_hosts
    at, end = source // p, destination // p
    group, to_group = at // a, end // a
    moves = source != destination
    columns = [np.where(moves, topology.out_link[topology.out_ptr[source]], -1)]
    far = np.flatnonzero((group != to_group) & (g > 2))
    low, high = np.minimum(group, to_group)[far], np.maximum(group, to_group)[far]
    middle = to_group.copy()
    drawn = (word[far] % np.uint64(max(g - 2, 1))).astype(np.int64)
    drawn += drawn >= low
    drawn += drawn >= high
    middle[far] = drawn
    for leg, goal in enumerate((middle, to_group)):
        rows = np.flatnonzero(at // a != goal)
        links = np.full(source.size, -1, dtype=np.int64)
        links[rows] = crossings(topology, at[rows] // a, goal[rows], hash64(leg, word[rows].view(np.int64)))
        gate = at.copy()
        gate[rows] = topology.link_src[links[rows]] - n_hosts
        columns += [local_hops(topology, at, gate), links]
        at = gate
        at[rows] = topology.link_dst[links[rows]] - n_hosts
    columns += [local_hops(topology, at, end), np.where(moves, topology.in_link[topology.in_ptr[destination]], -1)]
    return Paths.from_columns(columns)


def _by_router(
    name: str, topology: Topology, source: Int64, destination: Int64, label: Int64, word: Words, seed: int
) -> Paths:
    """To the switch that the word draws and on; minimal where that switch is one of the ends."""
    home = switch_of_hosts(topology)
    if np.any(home < topology.n_hosts):
        raise InputError(
            f"routing {name}",
            "needs hosts with one link, to a switch",
            got=topology.vertex_name(int(np.flatnonzero(home < topology.n_hosts)[0])),
            remedy="use minimal or ecmp",
        )
    _, first_host = np.unique(home, return_index=True)
    if topology.family == "dragonfly":
        p, a, g = (int(topology.params[key]) for key in ("p", "a", "g"))
        per_group = p * a
        low = np.minimum(source // per_group, destination // per_group)
        high = np.maximum(source // per_group, destination // per_group)
        drawn = (word % np.uint64(max((g - 2) * a, 1))).astype(np.int64)
        group, router = np.divmod(drawn, a)
        group += group >= low
        group += group >= high
        direct = (low == high) | (g < 3)
        middle = np.where(direct, destination, (group * a + router) * p)
    else:
        middle = first_host[(word % np.uint64(max(first_host.size, 1))).astype(np.int64)] if first_host.size else source
        direct = (home[middle] == home[source]) | (home[middle] == home[destination])
    direct = direct | (source == destination)
    middle = np.where(direct, destination, middle)

    def leg(start: Int64, end: Int64) -> Paths:
        if topology.family in ("torus", "mesh"):
            return dimension_order(topology, start, end)
        return ecmp(topology, start, end, flow=label, seed=seed)

    first, second = leg(source, middle), leg(middle, destination)
    # Without the hop down to the host that stands for the switch, and the hop up again.
    cut = (~direct).astype(np.int64)
    n_first, n_second = first.hops - cut, second.hops - cut
    ptr = csr_ptr(n_first + n_second)
    link = np.empty(ptr[-1], dtype=np.int32)
    for part, begin, count, skip in ((first, ptr[:-1], n_first, 0 * cut), (second, ptr[:-1] + n_first, n_second, cut)):
        row = np.repeat(np.arange(count.size), count)
        k = np.arange(row.size) - csr_ptr(count)[row]
        link[begin[row] + k] = part.link[part.ptr[row] + skip[row] + k]
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))


def _offer(
    name: str,
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    flow: npt.ArrayLike | None,
    seed: int,
    *,
    again: bool = False,
) -> tuple[list[Paths], list[Paths]]:
    """One minimal path and some detours for each flow, and with ``again`` detours from the gateway of the minimal path."""
    s, d = hosts(topology, source, destination)
    label = labels(flow, s.size)
    straight = minimal(topology, s, d)

    def detour(start: Int64, number: int) -> Paths:
        word = hash64(seed, s, d, label, number)
        if topology.family == "dragonfly":
            return _by_group(topology, start, d, word)
        return _by_router(name, topology, start, d, label, word, seed)

    first = [straight, *(detour(s, 1 + k) for k in range(CANDIDATES))]
    if not again:
        return first, []
    p, a = int(topology.params["p"]), int(topology.params["a"])
    # Paths of two links and more between switches whose first stays in the group, and which leave it: they pass a gateway.
    long = np.flatnonzero((straight.hops >= 4) & (s // (p * a) != d // (p * a)))
    second = straight.link[straight.ptr[long] + 1]
    gate = (topology.link_dst[second] - topology.n_hosts).astype(np.int64)
    turn = np.zeros(s.size, dtype=bool)
    turn[long] = gate // a == s[long] // (p * a)
    start = s.copy()
    start[long] = np.where(turn[long], gate * p, s[long])
    return first, [_from_gateway(straight, detour(start, 1 + CANDIDATES + k), turn) for k in range(CANDIDATES)]


def _decide(topology: Topology, offered: Candidates) -> Paths:
    """All flows together, one after the other: each sees how many chose each link before it."""
    from netsim.routing import _kernels

    choice = _kernels.choose(
        offered.ptr,
        offered.paths.ptr,
        offered.paths.link,
        offered.stage,
        topology.link_capacity_bytes_per_s,
        RULES.index(offered.rule),
    )
    return offered.paths.take(choice)


def _from_gateway(straight: Paths, detour: Paths, turn: npt.NDArray[np.bool_]) -> Paths:
    """The first two links of the minimal path, then the detour without its first link; empty where ``turn`` is false."""
    row = np.flatnonzero(turn)
    count = np.zeros(turn.size, dtype=np.int64)
    count[row] = detour.hops[row] + 1
    ptr = csr_ptr(count)
    link = np.empty(ptr[-1], dtype=np.int32)
    link[ptr[row]] = straight.link[straight.ptr[row]]
    link[ptr[row] + 1] = straight.link[straight.ptr[row] + 1]
    each = np.repeat(row, count[row] - 2)
    k = np.arange(each.size) - np.repeat(csr_ptr(count[row] - 2)[:-1], count[row] - 2)
    link[ptr[each] + 2 + k] = detour.link[detour.ptr[each] + 1 + k]
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))
