"""E-EFI selection: light the circuits whose traffic offloading revenue is highest.

The revenue of a circuit, given those already lit, is what it saves: bytes times the price of the electrical path that they leave, less
the price of what is left of it. A circuit counts as a hop, except for the pair of switches that it joins. With at most one circuit on a
path the savings are those of a facility location problem, a monotone submodular function: adding a circuit never raises the revenue of
another, so that a greedy choice may be lazy, and reaches at least a third of the best choice when ports are limited (Fisher, Nemhauser,
Wolsey, Math. Programming Study 8, 1978: two matroids; undirected: b-matchings are 2-extendible, Mestre, ESA 2006). With more circuits on
a path neither holds.

Prices: with the objective ``sum`` every hop costs 1 and savings are byte-hops. With ``phi`` a hop over a link costs the slope of PHI
there, (load / capacity)^7, so that bytes on the fullest links count most; circuits are chosen in rounds, and prices found anew between
them. With ``max`` single exchanges follow, as long as the fullest link gets emptier: adding circuits one at a time stops too early there,
since often only several together lower the maximum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, frozen
from netsim.optics import _kernels as k
from netsim.optics.circuits import Circuits
from netsim.optics.loads import PHI_POWER, Pairs
from netsim.optics.selection import Problem, Selection, chosen, no_options, selectors

__all__ = ["eefi", "first_revenues"]

# Rounds of prices; more changed the index by less than 1 % on the networks tried.
ROUNDS = 4


@selectors.register("eefi")
def eefi(problem: Problem) -> Selection:
    """Greedy by traffic offloading revenue (E-EFI, after sDNA), lazily; see the module for guarantees."""
    no_options(problem, "eefi")
    a, b, notes = problem.candidate_pairs()
    if problem.objective == "sum":
        order, revenue, evaluations = _greedy_hops(problem, a, b)
        circuits = Circuits(a=a[order], b=b[order], directed=problem.directed)
        return chosen(problem, "eefi", circuits, revenue=revenue, evaluations=evaluations, notes=tuple(notes))
    circuits, revenue, evaluations = _priced(problem, a, b)
    if problem.objective == "max":
        circuits, more = _exchange(problem, circuits, a, b)
        evaluations += more
        revenue = np.full(len(circuits), np.nan)
        notes.append("objective max: no guarantee; exchanges of single circuits after the choice by phi")
    return chosen(problem, "eefi", circuits, revenue=revenue, evaluations=evaluations, notes=tuple(notes))


def _greedy_hops(problem: Problem, a: Int64, b: Int64) -> tuple[Int64, Float64, int]:
    fabric, demand = problem.fabric, problem.demand
    cost = fabric.hop_cost
    pairs = Pairs(fabric, demand, cost)
    both = not problem.directed
    bound = first_revenues(problem, a, b, pairs)
    order, revenue, _, evaluations = k.lazy_greedy(
        frozen(a, np.int64), frozen(b, np.int64), both, bound, problem.ports.copy(), problem.ports.copy(),
        frozen(np.full(a.size, np.inf), np.float64), problem.most, cost, pairs.cost_in, np.float32(1.0),
        demand.ptr, demand.to, demand.size_bytes, pairs.now.copy(), pairs.sources, frozen(pairs.longest, np.float32),
    )  # fmt: skip
    return order, revenue, int(evaluations)


def first_revenues(problem: Problem, a: Int64, b: Int64, pairs: Pairs) -> Float64:
    """Revenues of the candidates without any circuit, or bounds on them from above; float64, shape (candidates,).

    A circuit from x to y saves for the pairs k hops apart that start r hops before x and end q hops behind y: k - 1 - r - q hops. On
    networks of small diameter these sums are products of sparse matrices (who is r hops away) with the demand, a hundred times cheaper
    than one look at each candidate. Both directions are added: a pair that either serves counts twice, hence a bound.
    """
    fabric, demand = problem.fabric, problem.demand
    hops = fabric.hops
    longest = int(hops[demand.source, demand.to].max(initial=0))
    if longest > 6 or a.size * 4 < demand.to.size // max(fabric.n, 1):
        return np.asarray(
            k.revenues(
                frozen(a, np.int64), frozen(b, np.int64), not problem.directed, fabric.hop_cost, pairs.cost_in,
                np.float32(1.0), demand.ptr, demand.to, demand.size_bytes, pairs.now, pairs.sources, pairs.longest,
            )[0]
        )  # fmt: skip
    from scipy import sparse

    n = fabric.n
    ends = np.unique(np.concatenate([a, b]))
    place = np.full(n, -1)
    place[ends] = np.arange(ends.size)
    apart = hops[demand.source, demand.to]
    matrix: Any = sparse.csr_array
    # The pair that the circuit joins saves one hop more than the sum says.
    alone = matrix((demand.size_bytes, (demand.source, demand.to)), shape=(n, n))
    total = _entries(alone, a, b) + (0.0 if problem.directed else _entries(alone, b, a))
    rows = hops[:, ends]
    columns = hops[ends, :]
    for distance in range(2, longest + 1):
        of = apart == distance
        if not of.any():
            continue
        d = matrix((demand.size_bytes[of], (demand.source[of], demand.to[of])), shape=(n, n))
        senders, receivers = np.unique(demand.source[of]), np.unique(demand.to[of])
        d = d[senders][:, receivers]
        for before in range(distance - 1):
            # at[i, j]: what switches `before` hops ahead of end i send to receiver j.
            at = matrix((rows[senders] == before).T.astype(np.float64)) @ d
            for behind in range(distance - 1 - before):
                reach = matrix((columns[:, receivers] == behind).T.astype(np.float64))
                gain = (at @ reach).tocsr()
                weight = distance - 1 - before - behind
                total += weight * _entries(gain, place[a], place[b])
                if not problem.directed:
                    total += weight * _entries(gain, place[b], place[a])
    # The sums are exact only up to rounding, and a bound must not be too low.
    return total * (1 + 1e-12)


def _entries(gain: Any, row: Int64, column: Int64) -> Float64:
    dense = gain.shape[0] * gain.shape[1] <= 64_000_000
    found = gain.toarray()[row, column] if dense else np.asarray(gain[row, column]).ravel()
    return np.asarray(found, dtype=np.float64)


def _priced(problem: Problem, a: Int64, b: Int64) -> tuple[Circuits, Float64, int]:
    """Rounds of greedy choices, each by the slope of PHI at the loads with the circuits chosen so far."""
    fabric, demand, topology = problem.fabric, problem.demand, problem.topology
    both = not problem.directed
    free_out, free_in = problem.ports.copy(), problem.ports.copy()
    picked: list[Int64] = []
    revenue: list[Float64] = []
    evaluations, left = 0, problem.most
    rate = topology.link_capacity_bytes_per_s
    budget = min(left, int(problem.ports.sum()) // (2 if both else 1))
    share = max(1, -(-budget // ROUNDS))
    now: npt.NDArray[np.float32] | None = None
    for _ in range(2 * ROUNDS):
        so_far = np.concatenate([*picked, np.empty(0, np.int64)])
        circuits = Circuits(a=a[so_far], b=b[so_far], directed=problem.directed)
        load = problem.load(circuits, "spill")[: topology.n_links]
        seconds = load / rate
        top = float(seconds.max(initial=0.0))
        if top <= 0 or left <= 0:
            break
        # The slope of PHI, relative to the fullest link; what a byte costs there, in bytes of the fullest.
        price = (seconds / top) ** (PHI_POWER - 1) * (float(rate[np.isfinite(rate)].max(initial=1.0)) / rate)
        price[~np.isfinite(price)] = 0.0
        cost = fabric.prices(price)
        pairs = Pairs(fabric, demand, cost)
        now = pairs.now.copy()
        # What the circuits chosen so far have taken already earns nothing again.
        arcs = circuits.arcs()
        k.best_circuits(
            frozen(arcs[0], np.int64), frozen(arcs[1], np.int64), cost, pairs.cost_in, np.float32(0.0),
            demand.ptr, demand.to, pairs.sources, frozen(pairs.longest, np.float32), now,
        )  # fmt: skip
        bound, _ = k.revenues(
            frozen(a, np.int64), frozen(b, np.int64), both, cost, pairs.cost_in, np.float32(0.0),
            demand.ptr, demand.to, demand.size_bytes, now, pairs.sources, pairs.longest,
        )  # fmt: skip
        room = np.full(a.size, (2 if both else 1) * max(top * problem.capacity_bytes_per_s, 1e-300))
        order, gains, _, looked = k.lazy_greedy(
            frozen(a, np.int64), frozen(b, np.int64), both, bound, free_out, free_in, frozen(room, np.float64),
            min(share, left), cost, pairs.cost_in, np.float32(0.0),
            demand.ptr, demand.to, demand.size_bytes, now, pairs.sources, frozen(pairs.longest, np.float32),
        )  # fmt: skip
        evaluations += int(looked) + a.size
        if not order.size:
            break
        picked.append(order)
        revenue.append(gains)
        left -= order.size
    so_far = np.concatenate([*picked, np.empty(0, np.int64)])
    return (
        Circuits(a=a[so_far], b=b[so_far], directed=problem.directed),
        np.concatenate([*revenue, np.empty(0)]),
        evaluations,
    )


def _exchange(problem: Problem, circuits: Circuits, a: Int64, b: Int64, rounds: int = 50) -> tuple[Circuits, int]:
    """Swap single circuits for candidates as long as the index (maximum, then PHI, then byte-hops) falls: small networks only."""
    n = problem.fabric.n
    have = circuits.pairs()
    key = problem.index(Circuits.of(have, directed=problem.directed), "spill").key()
    looked = 0
    budget = max(200, int(4e7 / max(n * problem.topology.n_links, 1)))
    for _ in range(rounds):
        improved = False
        for i in range(len(have) + 1):
            rest = have[:i] + have[i + 1 :]
            out = np.bincount([x for x, _ in rest] + ([] if problem.directed else [y for _, y in rest]), minlength=n)
            into = np.bincount([y for _, y in rest], minlength=n) if problem.directed else out
            if len(rest) >= problem.most:
                continue
            for x, y in zip(a.tolist(), b.tolist(), strict=True):
                if out[x] >= problem.ports[x] or into[y] >= problem.ports[y] or (i < len(have) and (x, y) == have[i]):
                    continue
                looked += 1
                if looked > budget:
                    return Circuits.of(have, directed=problem.directed), looked
                trial = problem.index(Circuits.of([*rest, (x, y)], directed=problem.directed), "spill").key()
                if trial < key:
                    have, key, improved = [*rest, (x, y)], trial, True
                    break
            if improved:
                break
        if not improved:
            break
    return Circuits.of(have, directed=problem.directed), looked
