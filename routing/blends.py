"""Fluid forms of routings that choose: the best division of traffic between the paths they look at.

An adaptive routing leaves the minimal path when a queue has built up there, that is, when a link is full. What it can carry in
the long run is therefore the most that any division between minimal paths and detours carries: a linear program with one share per pair
of switches (UGAL-G, PAR), or one for all pairs that leave a switch over the same first links, since UGAL-L sees nothing else.
Where minimal paths carry all that hosts can send, nothing is ever full and nothing leaves them.

A fluid knows no delay between a queue and the decision that it causes: UGAL-L on a real dragonfly learns of a full global link only when
queues have grown back to its own router, and carries less (0.30 of the injection bandwidth in a packet simulation of p=2
under adv+1, where the best division gives 0.56).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.core.arrays import Float64, Int64, csr_gather, csr_ptr
from netsim.core.errors import InputError
from netsim.routing.algorithms import needs
from netsim.routing.dragonflies import global_links, local_hops
from netsim.routing.fluid import Transport, fluid_routings, minimal_loads
from netsim.routing.graphs import unreachable
from netsim.routing.kshortest import shortest_sets
from netsim.routing.patterns import switch_of_hosts
from netsim.topologies import Topology

__all__ = ["best_division", "detour_columns", "minimal_columns"]

# Pairs of switches; the columns of the linear program, and one search each where the topology has no structure.
MOST_PAIRS = 20_000
MOST_ENTRIES = 20_000_000
K_SHORTEST = 8


@fluid_routings.register("ugal-l")
def ugal_l_loads(topology: Topology, moved: Transport) -> Float64:
    """Best division between minimal paths and Valiant's detours, alike for all pairs that share their first links."""
    return _ugal("ugal-l", topology, moved)


@fluid_routings.register("ugal-g")
def ugal_g_loads(topology: Topology, moved: Transport) -> Float64:
    """Best division between minimal paths and Valiant's detours, for each pair of switches by itself."""
    return _ugal("ugal-g", topology, moved)


@fluid_routings.register("par")
def par_loads(topology: Topology, moved: Transport) -> Float64:
    """Dragonfly: as ``ugal-g``, with detours from the router that has the minimal path's global link as well."""
    if topology.family != "dragonfly":
        raise needs("par", "a dragonfly", topology, remedy="use ugal-l")
    return _ugal("par", topology, moved)


@fluid_routings.register("k-shortest")
def k_shortest_loads(topology: Topology, moved: Transport) -> Float64:
    """Equal parts over the 8 shortest paths without a loop."""
    found, ptr, link = shortest_sets(topology, moved.source, moved.destination, K_SHORTEST)
    if np.any(found == 0):
        lost = np.flatnonzero(found == 0)
        raise unreachable(topology, moved.source[lost], moved.destination[lost])
    part = np.repeat(moved.amount_bytes_per_s / found, found)
    weights = np.repeat(part, np.diff(ptr))
    return np.bincount(link, weights=weights, minlength=topology.n_links).astype(np.float64)


def _ugal(name: str, topology: Topology, moved: Transport) -> Float64:
    straight = minimal_loads(topology, moved.source, moved.destination, moved.amount_bytes_per_s)
    capacity = topology.link_capacity_bytes_per_s

    def room(load: Float64) -> float:
        used = np.flatnonzero(load > 0)
        return float((capacity[used] / load[used]).min(initial=np.inf))

    if room(straight) >= min(1.0, room(moved.host_load_bytes_per_s)):
        return straight
    if moved.source.size > MOST_PAIRS:
        raise InputError(
            f"routing {name}",
            f"must be at most {MOST_PAIRS} pairs of switches where minimal paths are not enough",
            got=moved.source.size,
            remedy="take a smaller network, or valiant and minimal, between which it lies",
        )
    columns = [minimal_columns(topology, moved), detour_columns(name, topology, moved)]
    if name == "par":
        columns.append(_gateway_columns(topology, moved))
    group = _first_links(topology, moved, columns[0]) if name == "ugal-l" else np.arange(moved.source.size)
    best = best_division(columns, moved.amount_bytes_per_s, capacity, group)
    # No more than minimal paths carry, within the solver's digits: then nothing leaves them.
    return straight if room(best) <= room(straight) * (1 + 1e-7) else best


def best_division(columns: list[Any], amount: Float64, capacity: Float64, group: Int64) -> Float64:
    """Loads of the division of traffic between sets of paths that carries most; of all such, the one with most on the first set.

    Parameters
    ----------
    columns : list of sparse arrays, shape (n_links, n_pairs)
        For each set, what each pair puts on each link per unit that it sends over the set.
    amount : float64 array, shape (n_pairs,)
    capacity : float64 array, shape (n_links,)
    group : int64 array, shape (n_pairs,)
        Pairs of one group divide alike.

    Returns
    -------
    float64 array, shape (n_links,)
        At the full amount of all pairs.

    Notes
    -----
    Maximise t so that shares of t per group and set add up to t, and no link is above its capacity; then, at that t, the traffic on
    the first set. HiGHS.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, csr_array, hstack

    n_groups = int(group.max()) + 1
    # One column per group and set: the loads of its pairs together.
    gather: Any = csr_array((amount, (np.arange(amount.size), group)), shape=(amount.size, n_groups))
    loads: Any = csc_array(hstack([one @ gather for one in columns]))
    k = len(columns)
    used = np.flatnonzero((np.diff(csr_array(loads).indptr) > 0) & np.isfinite(capacity))
    unit = float(capacity[used].max(initial=1.0))
    limits: Any = hstack([csr_array(loads)[used] / unit, csr_array((used.size, 1))])
    ones = np.tile(np.arange(n_groups), k)
    sums: Any = hstack(
        [
            csr_array((np.ones(k * n_groups), (ones, np.arange(k * n_groups))), shape=(n_groups, k * n_groups)),
            csr_array(-np.ones((n_groups, 1))),
        ]
    )
    cost = np.zeros(k * n_groups + 1)
    cost[-1] = -1.0
    scale = capacity[used] / unit
    first = linprog(cost, A_ub=limits, b_ub=scale, A_eq=sums, b_eq=np.zeros(n_groups), bounds=(0, None), method="highs")
    if first.x is None or not first.x[-1] > 0:
        raise InputError("routing", "every pair that communicates must be joined", got=f"no division ({first.message})")
    best = float(first.x[-1])
    total = np.bincount(group, weights=amount, minlength=n_groups)
    cost = np.zeros(k * n_groups + 1)
    cost[:n_groups] = -total / total.max(initial=1e-300)
    bounds = [(0.0, None)] * (k * n_groups) + [(best * (1 - 1e-10), None)]
    second = linprog(cost, A_ub=limits, b_ub=scale, A_eq=sums, b_eq=np.zeros(n_groups), bounds=bounds, method="highs")
    x = first.x if second.x is None else second.x
    found: Float64 = np.asarray(loads @ x[:-1], dtype=np.float64) / float(x[-1])
    return found


def minimal_columns(topology: Topology, moved: Transport) -> Any:
    """What a unit of each pair puts on each link over its minimal paths; sparse, shape (n_links, n_pairs)."""
    u, v = moved.source, moved.destination
    if topology.family == "dragonfly":
        p = int(topology.params["p"])
        return _dragonfly_columns(topology, (u - topology.n_hosts) * p, (v - topology.n_hosts) * p)
    from scipy.sparse import csc_array

    rows, weights, count = [], [], []
    for i in range(u.size):
        load = minimal_loads(topology, u[i : i + 1], v[i : i + 1], np.ones(1))
        some = np.flatnonzero(load)
        rows.append(some)
        weights.append(load[some])
        count.append(some.size)
    return csc_array(
        (np.concatenate(weights), np.concatenate(rows), csr_ptr(np.array(count))), shape=(topology.n_links, u.size)
    )


def detour_columns(name: str, topology: Topology, moved: Transport) -> Any:
    """The same over Valiant's detours: third groups of a dragonfly, else all switches with hosts."""
    from scipy.sparse import coo_array, csc_array

    u, v, n_hosts = moved.source, moved.destination, topology.n_hosts
    if topology.family == "dragonfly":
        p = int(topology.params["p"])
        return _dragonfly_detours(topology, (u - n_hosts) * p, (v - n_hosts) * p)
    if np.any(u < n_hosts) or np.any(v < n_hosts):
        raise InputError(f"routing {name}", "needs hosts with one link, to a switch", got=f"a {topology.family}")
    middle = np.unique(switch_of_hosts(topology))
    middle = middle[middle >= n_hosts]
    part = np.full(middle.size, 1.0 / middle.size)
    parts = []
    for ends, outward in ((u, True), (v, False)):
        place, which = np.unique(ends, return_inverse=True)
        columns = []
        for at in place:
            others = middle != at
            here = np.full(int(others.sum()), at)
            there = middle[others]
            source, target = (here, there) if outward else (there, here)
            columns.append(minimal_loads(topology, source, target, part[others]))
        table = np.array(columns)
        link, of = np.nonzero(table.T)
        matrix: Any = csc_array(coo_array((table.T[link, of], (link, of)), shape=(topology.n_links, place.size)))
        parts.append(matrix[:, which])
    return csc_array(parts[0] + parts[1])


def _first_links(topology: Topology, moved: Transport, straight: Any) -> Int64:
    """A number per pair: equal for pairs that leave the same switch over the same links."""
    keys = []
    for i in range(moved.source.size):
        link = straight.indices[straight.indptr[i] : straight.indptr[i + 1]]
        own = link[topology.link_src[link] == moved.source[i]]
        keys.append((int(moved.source[i]), *np.sort(own).tolist()))
    number: dict[tuple[int, ...], int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def _columns(topology: Topology, n: int, row: Int64, weight: Float64, links: list[Int64]) -> Any:
    """Sparse columns from paths: column ``row[i]`` gets the weight on each link that path i has in the arrays; -1: none."""
    from scipy.sparse import coo_array, csc_array

    if row.size * len(links) > MOST_ENTRIES:
        raise InputError(
            "routing", f"must be at most {MOST_ENTRIES} hops of paths to divide among", got=row.size * len(links)
        )
    at = [np.flatnonzero(link >= 0) for link in links]
    data = np.concatenate([weight[some] for some in at])
    index = (
        np.concatenate([link[some] for link, some in zip(links, at, strict=True)]),
        np.concatenate([row[some] for some in at]),
    )
    return csc_array(coo_array((data, index), shape=(topology.n_links, n)))


def _over(topology: Topology, row: Int64, of: Int64, to: Int64, weight: Float64) -> tuple[Int64, Int64, Float64]:
    """Every global link from one group to another, for each row: number of the row, link, and the row's weight over their number."""
    ptr, links = global_links(topology)
    pair = of * int(topology.params["g"]) + to
    each, at = csr_gather(ptr, pair)
    count = np.diff(each)
    again = np.repeat(np.arange(row.size), count)
    return again, links[at], weight[again] / count[again]


def _dragonfly_columns(topology: Topology, source: Int64, destination: Int64) -> Any:
    """Local, global, local, by hosts that stand for routers."""
    p, a, n_hosts = int(topology.params["p"]), int(topology.params["a"]), topology.n_hosts
    u, v = source // p, destination // p
    row = np.arange(u.size)
    inside = np.flatnonzero(u // a == v // a)
    far = np.flatnonzero(u // a != v // a)
    again, over, weight = _over(topology, row[far], u[far] // a, v[far] // a, np.ones(far.size))
    pair = far[again]
    gate, entry = (end[over].astype(np.int64) - n_hosts for end in (topology.link_src, topology.link_dst))
    links = [local_hops(topology, u[pair], gate), over, local_hops(topology, entry, v[pair])]
    near: Any = _columns(topology, u.size, inside, np.ones(inside.size), [local_hops(topology, u[inside], v[inside])])
    return near + _columns(topology, u.size, pair, weight, links)


def _dragonfly_detours(topology: Topology, source: Int64, destination: Int64) -> Any:
    """Over every third group in equal parts; minimal within a group, and where there is no third."""
    p, a, g, n_hosts = (*(int(topology.params[key]) for key in ("p", "a", "g")), topology.n_hosts)
    u, v = source // p, destination // p
    away = (u // a != v // a) & (g > 2)
    far, stay = np.flatnonzero(away), np.flatnonzero(~away)
    from scipy.sparse import csc_array

    straight: Any = _dragonfly_columns(topology, source[stay], destination[stay])
    put: Any = csc_array((np.ones(stay.size), (np.arange(stay.size), stay)), shape=(stay.size, u.size))
    kept = straight @ put
    if not far.size:
        return kept
    # Pairs times third groups, times the links of the first crossing, times those of the second.
    pair = np.repeat(far, g)
    middle = np.tile(np.arange(g), far.size)
    third = (middle != u[pair] // a) & (middle != v[pair] // a)
    pair, middle = pair[third], middle[third]
    again, first, weight = _over(topology, pair, u[pair] // a, middle, np.full(pair.size, 1.0 / (g - 2)))
    pair, middle = pair[again], middle[again]
    again, second, weight = _over(topology, pair, middle, v[pair] // a, weight)
    pair, first = pair[again], first[again]
    out, into = (end[first].astype(np.int64) - n_hosts for end in (topology.link_src, topology.link_dst))
    leave, enter = (end[second].astype(np.int64) - n_hosts for end in (topology.link_src, topology.link_dst))
    links = [
        local_hops(topology, u[pair], out),
        first,
        local_hops(topology, into, leave),
        second,
        local_hops(topology, enter, v[pair]),
    ]
    return kept + _columns(topology, u.size, pair, weight, links)


def _gateway_columns(topology: Topology, moved: Transport) -> Any:
    """Detours that begin where the minimal path has its global link, behind the local hop to there."""
    from scipy.sparse import csc_array

    p, a, n_hosts = int(topology.params["p"]), int(topology.params["a"]), topology.n_hosts
    u, v = moved.source - n_hosts, moved.destination - n_hosts
    far = np.flatnonzero(u // a != v // a)
    again, over, weight = _over(topology, far, u[far] // a, v[far] // a, np.ones(far.size))
    pair = far[again]
    gate = topology.link_src[over].astype(np.int64) - n_hosts
    hop = _columns(topology, u.size, pair, weight, [local_hops(topology, u[pair], gate)])
    beyond: Any = _dragonfly_detours(topology, gate * p, v[pair] * p)
    put: Any = csc_array((weight, (np.arange(pair.size), pair)), shape=(pair.size, u.size))
    inside = np.flatnonzero(u // a == v // a)
    near = _columns(topology, u.size, inside, np.ones(inside.size), [local_hops(topology, u[inside], v[inside])])
    return hop + beyond @ put + near
