"""Routes made for a demand: weighted paths that come near the best that any routing can do for it.

Traffic engineering by column generation. At first prices of links grow exponentially with their load (multiplicative weights): each
round, every pair takes its cheapest path, and the loads of all rounds are averaged so that the potential falls. The paths found on the way
are the columns of a linear program that gives them their shares, and whose prices find the paths that it lacks. Prices of any kind
bound the optimum from above, so that what is lacking is known.

>>> from netsim.routing import demand, engineered, transport
>>> from netsim.topologies import torus
>>> found = engineered(torus((8,), capacity=1.0), transport(torus((8,), capacity=1.0), demand(torus((8,)), "tornado")))
>>> round(found.throughput, 3), round(found.bound, 3)
(0.533, 0.533)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.core.arrays import Float64, Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.routing.choice import Candidates
from netsim.routing.fluid import Transport, fluid_routings
from netsim.routing.graphs import unreachable
from netsim.routing.pathset import Paths, link_loads
from netsim.routing.throughput import network_links
from netsim.topologies import Topology

__all__ = ["Engineered", "demand_routings", "engineered"]

# Pairs of switches: a path each and round, and a row of the linear program.
MOST_PAIRS = 50_000
ROUNDS = 60
# Rounds with prices by load, before those with prices of the linear program; these alone would begin with wild ones.
FIRST = 10
# The latest sets of paths that stay in the linear program beside those in use.
MOST_SETS = 12
LEAST_PRICE = 1e-7
# Between the division found and the bound, when rounds stop.
GAP = 0.01
# Paths of a pair with less are left out.
LEAST_SHARE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Engineered:
    """Weighted paths between switches.

    Attributes
    ----------
    ptr : int64 array, shape (n_pairs + 1,)
        Paths of pair i of the demand are rows ``ptr[i]`` to ``ptr[i + 1] - 1``.
    paths : Paths
        Links between switches.
    share : float64 array, shape (n_paths,)
        Part of the pair's traffic; those of a pair add up to 1.
    throughput : float
        Least capacity over load when all send their full amount.
    bound : float
        No routing has more.
    """

    ptr: Int64
    paths: Paths
    share: Float64
    throughput: float
    bound: float = np.inf

    @property
    def most(self) -> int:
        """Paths of the pair that has most."""
        return int(np.diff(self.ptr).max(initial=0))


DemandRouting = Callable[[Topology, Transport], Engineered]
demand_routings: Registry[DemandRouting] = Registry("demand routing", "netsim.demand_routings")


@demand_routings.register("engineered")
def engineered(topology: Topology, moved: Transport, *, rounds: int = ROUNDS, gap: float = GAP) -> Engineered:
    """Paths and shares for a demand that keep the fullest link as empty as can be.

    Parameters
    ----------
    topology : Topology
        Hosts with one link, to a switch.
    moved : Transport
        Who sends what, between switches.
    rounds : int
        Cheapest paths found for each pair at most.
    gap : float
        Stop when the division is this near the bound, relative.

    Raises
    ------
    InputError
        More than 50,000 pairs, hosts with several links, pairs that are not joined.

    Notes
    -----
    Maximum concurrent flow by prices that grow exponentially with load: Young, "Sequential and Parallel Algorithms for Mixed Packing and
    Covering", FOCS 2001; Garg, Koenemann, SIAM J. Comput. 37(2), 2007. The bound: any lengths p of links give throughput of at most
    sum(capacity p) / sum(amount distance under p), section 2 there. Shares by HiGHS.
    """
    source, destination, amount = moved.source, moved.destination, moved.amount_bytes_per_s
    n = source.size
    if n > MOST_PAIRS:
        raise InputError("routing engineered", f"must be at most {MOST_PAIRS} pairs of switches", got=n)
    if np.any(source < topology.n_hosts) or np.any(destination < topology.n_hosts):
        raise InputError("routing engineered", "needs hosts with one link, to a switch", got=f"a {topology.family}")
    if n == 0:
        none = Paths(ptr=frozen([0], np.int64), link=frozen([], np.int32))
        return Engineered(ptr=frozen([0], np.int64), paths=none, share=np.zeros(0), throughput=np.inf, bound=np.inf)
    search = _Search(topology, source, destination)
    room = topology.link_capacity_bytes_per_s[search.links]
    average, bound = np.zeros(room.size), np.inf
    sets: list[Paths] = []
    price = 1.0 / room
    for turn in range(min(FIRST, rounds)):
        found, distance = search.cheapest(price)
        sets.append(found)
        bound = min(bound, float((room * price).sum() / (amount * distance).sum()))
        load = link_loads(topology, found, weight=amount)[search.links] / room
        sharp = 4.0 * (turn + 1) / max(float((average if turn else load).max()), 1e-300)
        step = 1.0 if turn == 0 else _best_step(average, load, sharp)
        average = average + step * (load - average)
        price = np.exp(sharp * (average - average.max())) / room
        # A price of nothing would make paths of any length alike.
        price = np.maximum(price, LEAST_PRICE * price.max())
    best, dual = _divided(topology, Candidates.of(sets, rule="rate"), amount)
    for _ in range(rounds - FIRST):
        if best.throughput >= bound * (1 - gap):
            break
        # Prices of the linear program say which paths it lacks; those of nothing are raised a little, against long ways round.
        price = np.maximum(dual[search.links], LEAST_PRICE * dual.max())
        found, distance = search.cheapest(price)
        bound = min(bound, float((room * price).sum() / (amount * distance).sum()))
        sets.append(found)
        if len(sets) > MOST_SETS:
            sets = sets[-MOST_SETS:]
        kept = [best.paths.take(best.ptr[:-1] + np.minimum(k, np.diff(best.ptr) - 1)) for k in range(best.most)]
        better, dual = _divided(topology, Candidates.of([*kept, *sets], rule="rate"), amount)
        best = better if better.throughput >= best.throughput else best
    return replace(best, bound=bound)


@fluid_routings.register("engineered")
def engineered_loads(topology: Topology, moved: Transport) -> Float64:
    """Weighted paths made for the demand, within a hundredth of the optimum or what 60 rounds reach."""
    found = engineered(topology, moved)
    pair = np.repeat(np.arange(found.ptr.size - 1), np.diff(found.ptr))
    return link_loads(topology, found.paths, weight=moved.amount_bytes_per_s[pair] * found.share)


class _Search:
    """Cheapest paths of all pairs, by prices of links."""

    def __init__(self, topology: Topology, source: Int64, destination: Int64) -> None:
        self.topology = topology
        self.links: Int64 = np.flatnonzero(network_links(topology) & (topology.link_capacity_bytes_per_s > 0))
        tail = topology.link_src[self.links].astype(np.int64)
        head = topology.link_dst[self.links].astype(np.int64)
        # Of parallel links the cheapest counts.
        self.edge, self.edge_of = np.unique(tail * topology.n_vertices + head, return_inverse=True)
        self.root, self.which = np.unique(source, return_inverse=True)
        self.source, self.destination = source, destination

    def cheapest(self, price: Float64) -> tuple[Paths, Float64]:
        """A path for each pair, and its length."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        n = self.topology.n_vertices
        order = np.lexsort((np.arange(price.size), price, self.edge_of))
        first = np.ones(order.size, dtype=bool)
        first[1:] = self.edge_of[order][1:] != self.edge_of[order][:-1]
        chosen = order[first]
        tail, head = np.divmod(self.edge, n)
        graph: Any = csr_array((price[chosen], (tail, head)), shape=(n, n))
        length, before = dijkstra(graph, indices=self.root, return_predecessors=True)
        distance = length[self.which, self.destination]
        if not np.all(np.isfinite(distance)):
            lost = np.flatnonzero(~np.isfinite(distance))
            raise unreachable(self.topology, self.source[lost], self.destination[lost])
        # Back from every destination at once.
        at = self.destination.copy()
        columns = []
        while True:
            some = np.flatnonzero(at != self.source)
            if not some.size:
                break
            previous = before[self.which[some], at[some]].astype(np.int64)
            edge = np.searchsorted(self.edge, previous * n + at[some])
            column = np.full(at.size, -1, dtype=np.int64)
            column[some] = self.links[chosen[edge]]
            columns.append(column)
            at[some] = previous
        return Paths.from_columns(columns[::-1]), distance


def _best_step(average: Float64, load: Float64, sharp: float) -> float:
    """Where between two loads the potential, log of the sum of exp(sharp x load), is least: by golden section."""
    ratio = (np.sqrt(5.0) - 1.0) / 2.0

    def potential(step: float) -> float:
        value = sharp * (average + step * (load - average))
        top = float(value.max())
        return top + float(np.log(np.exp(value - top).sum()))

    low, high = 0.0, 1.0
    one, two = high - ratio * (high - low), low + ratio * (high - low)
    f_one, f_two = potential(one), potential(two)
    for _ in range(24):
        if f_one <= f_two:
            high, two, f_two = two, one, f_one
            one = high - ratio * (high - low)
            f_one = potential(one)
        else:
            low, one, f_one = one, two, f_two
            two = low + ratio * (high - low)
            f_two = potential(two)
    return (low + high) / 2


def _divided(topology: Topology, offered: Candidates, amount: Float64) -> tuple[Engineered, Float64]:
    """Shares of the paths by linear programming: the greatest t such that each pair sends t times its amount; and the prices of links."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    n, m = offered.ptr.size - 1, len(offered.paths)
    pair = np.repeat(np.arange(n), offered.count)
    capacity = topology.link_capacity_bytes_per_s
    used, row = np.unique(offered.paths.link, return_inverse=True)
    finite = np.isfinite(capacity[used])
    unit = float(amount.max())
    hop = np.repeat(np.arange(m), offered.paths.hops)
    limits: Any = csr_array((np.ones(row.size), (row, hop)), shape=(used.size, m))[np.flatnonzero(finite)]
    limits = hstack([limits, csr_array((int(finite.sum()), 1))])
    sums: Any = csr_array((np.ones(m), (pair, np.arange(m))), shape=(n, m))
    sums = hstack([sums, csr_array(-(amount / unit)[:, None])])
    cost = np.zeros(m + 1)
    cost[-1] = -1.0
    solved = linprog(
        cost,
        A_ub=limits,
        b_ub=capacity[used][finite] / unit,
        A_eq=sums,
        b_eq=np.zeros(n),
        bounds=(0, None),
        method="highs",
    )
    if solved.x is None or not solved.x[-1] > 0:
        raise InputError("routing engineered", "found no division", got=solved.message)
    flow = np.maximum(solved.x[:-1], 0.0)
    share = flow / np.bincount(pair, weights=flow, minlength=n)[pair]
    kept = np.flatnonzero(share >= LEAST_SHARE)
    ptr = csr_ptr(np.bincount(pair[kept], minlength=n))
    share = share[kept] / np.bincount(pair[kept], weights=share[kept], minlength=n)[pair[kept]]
    paths = offered.paths.take(kept)
    load = link_loads(topology, paths, weight=amount[pair[kept]] * share)
    busy = np.flatnonzero(load > 0)
    price = np.zeros(topology.n_links)
    price[used[finite]] = np.maximum(-solved.ineqlin.marginals, 0.0)
    found = Engineered(
        ptr=frozen(ptr, np.int64),
        paths=paths,
        share=frozen(share, np.float64),
        throughput=float((capacity[busy] / load[busy]).min()),
    )
    return found, price
