"""TopoOpt's way: topology given routes, routes given the topology, in turn."""

from __future__ import annotations

from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.optics.circuits import Circuits, electrical
from netsim.optics.loads import efi_index
from netsim.optics.rivals import MOST_MILP, _fill, _milp, _pair_bytes
from netsim.optics.selection import Problem, Selection, chosen, no_options, selectors

__all__ = ["ring_strides"]

ROUNDS = 12
# Full links count more: as the objective phi does.
PRICE_POWER = 7


@selectors.register("topoopt")
def topoopt(problem: Problem) -> Selection:
    """After TopoOpt (Wang et al., NSDI 2023): rings and matchings, then circuits given routes and routes given circuits in turn.

    Begins with the best of: matchings of the bytes alone, and 1, 2, ... rings of strides coprime to the number of switches that send
    (TotientPerms), those that carry most of their own bytes first, with matchings on the ports left. Then in turn: routes by ``spill``
    for the circuits as they are; links priced by how full they then are; circuits by maximum weight b-matching of bytes times the price
    of the pair's electrical path. What is no better than before is not taken, and ends it. Measured by the index (the fullest link), as
    netsim has no training strategy to search.
    """
    no_options(problem, "topoopt")
    a, b, size = _pair_bytes(problem)
    good = (problem.ports[a] > 0) & (problem.ports[b] > 0)
    if problem.candidates is not None:
        n = problem.fabric.n
        good &= np.isin(a * n + b, problem.candidates[0] * n + problem.candidates[1])
    a, b, size = a[good], b[good], size[good]
    if a.size > MOST_MILP:
        raise InputError("circuit selector topoopt", f"takes up to {MOST_MILP} pairs", got=a.size, remedy="use eefi")
    none = Circuits.of([], directed=problem.directed)
    if not a.size or problem.most == 0:
        return chosen(problem, "topoopt", none)
    looked = 0
    best, best_key, now = none, problem.index(none, "electrical").key(), "none"
    for name, circuits in [("matchings", _matched(problem, a, b, size)), *_with_rings(problem, a, b, size)]:
        key = problem.index(circuits, "spill").key()
        looked += 1
        if key < best_key:
            best, best_key, now = circuits, key, name
    begun, rounds = best_key[0], 0
    for _ in range(ROUNDS):
        weight = size * _electrical_price(problem, best)[a, b]
        circuits = _matched(problem, a, b, weight)
        key = problem.index(circuits, "spill").key()
        looked += 1
        if not key < best_key:
            break
        best, best_key, rounds = circuits, key, rounds + 1
    note = f"began with {now}, fullest link {begun:.4g} s; {count(rounds, 'round')} of circuits and routes: {best_key[0]:.4g} s"
    return chosen(problem, "topoopt", best, evaluations=looked, notes=(note,))


def ring_strides(n: int) -> list[int]:
    """Strides that visit all of n places before they return: those coprime to n.

    >>> ring_strides(12)
    [1, 5, 7, 11]
    """
    return [s for s in range(1, n) if gcd(s, n) == 1]


def _matched(problem: Problem, a: Int64, b: Int64, weight: Float64) -> Circuits:
    kept = np.flatnonzero(_milp(problem, a, b, weight))
    kept = kept[np.lexsort((kept, -weight[kept]))]
    return Circuits(a=a[kept], b=b[kept], directed=problem.directed)


def _with_rings(problem: Problem, a: Int64, b: Int64, size: Float64) -> list[tuple[str, Circuits]]:
    """1, 2, ... rings among the switches that send or receive, and what matchings find ports for beside them."""
    member = np.unique(np.concatenate([a, b]))
    m, n = member.size, problem.fabric.n
    if m < 3:
        return []
    of_pair = dict(zip((a * n + b).tolist(), size.tolist(), strict=True))
    heavy = np.lexsort((a * n + b, -size))
    rings: list[tuple[float, int, Int64, Int64]] = []
    for stride in ring_strides(m):
        if not problem.directed and stride > m // 2:
            # The same ring the other way around.
            continue
        x, y = member, member[(np.arange(m) + stride) % m]
        if not problem.directed:
            x, y = np.minimum(x, y), np.maximum(x, y)
        if problem.candidates is not None:
            inside = np.isin(x * n + y, problem.candidates[0] * n + problem.candidates[1])
            if not inside.all():
                continue
        rings.append((-sum(of_pair.get(key, 0.0) for key in (x * n + y).tolist()), stride, x, y))
    rings.sort(key=lambda ring: ring[:2])
    found = []
    most = int(problem.ports[member].max()) // (1 if problem.directed else 2)
    for number in range(1, min(most, len(rings)) + 1):
        x = np.concatenate([*(ring[2] for ring in rings[:number]), a[heavy]])
        y = np.concatenate([*(ring[3] for ring in rings[:number]), b[heavy]])
        kept = _fill(problem, x, y)
        found.append((count(number, "ring"), Circuits(a=x[kept], b=y[kept], directed=problem.directed)))
    return found


def _electrical_price(problem: Problem, circuits: Circuits) -> Float64:
    """Price of the cheapest electrical path between switches, shape (n, n), when links are priced by how full they are."""
    lit = problem.lit(circuits)
    load = problem.load(circuits, "spill")
    top = efi_index(lit, load).max_s
    topology, base = lit, lit.n_hosts
    seconds = load / topology.link_capacity_bytes_per_s
    # A little for each hop, so that empty links are not free.
    price = (seconds / top if top > 0 else seconds) ** PRICE_POWER + 1e-6
    inner = electrical(topology) & (topology.link_src >= base) & (topology.link_dst >= base)
    u, v = topology.link_src[inner].astype(np.int64) - base, topology.link_dst[inner].astype(np.int64) - base
    # Of parallel links the cheapest: sparse arrays add up what is given twice.
    order = np.lexsort((price[inner], v, u))
    first = np.append(True, (np.diff(u[order]) != 0) | (np.diff(v[order]) != 0))[: order.size]
    one = order[first]
    n = problem.fabric.n
    found: Float64 = dijkstra(csr_array((price[inner][one], (u[one], v[one])), shape=(n, n)))
    return np.where(np.isfinite(found), found, 0.0)
