"""What E-EFI is compared with: no circuits, drawn ones, fixed ones, hottest pairs, matchings, and exact answers where they can be had."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from netsim.core.arrays import Float64, Int64, distinct_rows
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.optics.circuits import Circuits
from netsim.optics.selection import Problem, Selection, chosen, no_options, selectors

__all__ = ["exact", "exhaustive"]

# Above, the assignment problem and the program take minutes.
MOST_MATCHED = 2000
MOST_MILP = 60_000
MOST_SETS = 200_000


@selectors.register("none")
def none(problem: Problem) -> Selection:
    """No circuits: electrical only."""
    no_options(problem, "none")
    return chosen(problem, "none", Circuits.of([], directed=problem.directed))


def _fill(problem: Problem, a: Int64, b: Int64) -> Int64:
    """The first of the pairs, in the order given, that ports are left for; their numbers."""
    out, into = problem.ports.copy(), problem.ports.copy()
    kept: list[int] = []
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if len(kept) >= problem.most:
            break
        if problem.directed:
            if out[x] > 0 and into[y] > 0:
                out[x] -= 1
                into[y] -= 1
                kept.append(i)
        elif out[x] > 0 and out[y] > 0:
            out[x] -= 1
            out[y] -= 1
            kept.append(i)
    return np.array(kept, dtype=np.int64)


@selectors.register("random")
def random(problem: Problem) -> Selection:
    """Pairs of different switches drawn one after the other, without regard to the demand, until ports run out."""
    no_options(problem, "random")
    n = problem.fabric.n
    draw = stream(problem.seed, "optics", "random")
    has = np.flatnonzero(problem.ports > 0)
    if has.size < 2:
        return chosen(problem, "random", Circuits.of([], directed=problem.directed))
    wanted = int(min(problem.most, problem.ports.sum())) * 8 + 64
    a, b = has[draw.integers(0, has.size, wanted)], has[draw.integers(0, has.size, wanted)]
    apart = a != b
    a, b = a[apart], b[apart]
    _, first = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_index=True)
    first = np.sort(first)
    a, b = a[first], b[first]
    kept = _fill(problem, a, b)
    return chosen(problem, "random", Circuits(a=a[kept], b=b[kept], directed=problem.directed))


@selectors.register("shift")
def shift(problem: Problem) -> Selection:
    """Fixed circuits: switch i with i + s for s = n/2, n/2 - 1, ..., or with ``offsets`` as given, whatever the demand."""
    no_options(problem, "shift", ("offsets",))
    n = problem.fabric.n
    offsets = [int(s) for s in problem.options.get("offsets", range(max(n // 2, 1), 0, -1))]
    if any(s % max(n, 1) == 0 for s in offsets):
        raise InputError("circuit selector shift", f"offsets must not be multiples of {n}", got=offsets)
    a = np.tile(np.arange(n), len(offsets))
    b = (a + np.repeat(offsets, n)) % max(n, 1)
    if not problem.directed:
        a, b = np.minimum(a, b), np.maximum(a, b)
        _, first = np.unique(a * n + b, return_index=True)
        first = np.sort(first)
        a, b = a[first], b[first]
    kept = _fill(problem, a, b)
    return chosen(problem, "shift", Circuits(a=a[kept], b=b[kept], directed=problem.directed))


def _pair_bytes(problem: Problem) -> tuple[Int64, Int64, Float64]:
    """Bytes of each pair, both ways together for circuits that carry both ways."""
    demand, n = problem.demand, problem.fabric.n
    u, v = demand.source, demand.to
    if not problem.directed:
        u, v = np.minimum(u, v), np.maximum(u, v)
    key, row = distinct_rows(u * n + v, max(n * n, 1))
    return (
        key // max(n, 1),
        key % max(n, 1),
        np.bincount(row, weights=demand.size_bytes, minlength=key.size).astype(np.float64),
    )


@selectors.register("hottest")
def hottest(problem: Problem) -> Selection:
    """The pairs with the most bytes, one circuit each, as in c-Through and Helios; blind to distance and to what passes by."""
    no_options(problem, "hottest")
    a, b, size = _pair_bytes(problem)
    order = np.lexsort((a * problem.fabric.n + b, -size))
    kept = order[_fill(problem, a[order], b[order])]
    return chosen(problem, "hottest", Circuits(a=a[kept], b=b[kept], directed=problem.directed), revenue=size[kept])


@selectors.register("matching")
def matching(problem: Problem) -> Selection:
    """Maximum weight b-matching of byte-hops: the best choice if a circuit served the pair that it joins and nobody else.

    Directed circuits: a transportation problem, whose linear program is integral. Circuits that carry both ways: the program with
    whole numbers (HiGHS).
    """
    no_options(problem, "matching")
    a, b, weight = _pair_bytes(problem)
    hops = problem.fabric.hop_cost
    demand = problem.demand
    if problem.directed:
        weight = weight * hops[a, b]
    else:
        dense: dict[tuple[int, int], float] = {}
        for u, v, s in zip(demand.source.tolist(), demand.to.tolist(), demand.size_bytes.tolist(), strict=True):
            key = (min(u, v), max(u, v))
            dense[key] = dense.get(key, 0.0) + s * float(hops[u, v])
        weight = np.array([dense[pair] for pair in zip(a.tolist(), b.tolist(), strict=True)])
    if a.size > MOST_MILP:
        raise InputError(
            "circuit selector matching", f"takes up to {MOST_MILP} pairs", got=a.size, remedy="use hottest"
        )
    x = _milp(problem, a, b, weight)
    kept = np.flatnonzero(x)
    kept = kept[np.lexsort((kept, -weight[kept]))]
    return chosen(problem, "matching", Circuits(a=a[kept], b=b[kept], directed=problem.directed), revenue=weight[kept])


def _port_rows(problem: Problem, a: Int64, b: Int64) -> Any:
    """Which circuits take a port where: rows of the port limits."""
    from scipy.sparse import coo_array, vstack

    n, c = problem.fabric.n, a.size
    one = np.ones(c)
    at = np.arange(c)
    sends: Any = coo_array((one, (a, at)), shape=(n, c))
    receives: Any = coo_array((one, (b, at)), shape=(n, c))
    return vstack([sends, receives]) if problem.directed else sends + receives


def _milp(problem: Problem, a: Int64, b: Int64, weight: Float64) -> Int64:
    from scipy.optimize import Bounds, LinearConstraint, milp

    if a.size == 0:
        return np.empty(0, np.int64)
    limit = np.tile(problem.ports, 2 if problem.directed else 1)
    rows = [
        LinearConstraint(_port_rows(problem, a, b), ub=limit),
        LinearConstraint(np.ones((1, a.size)), ub=problem.most),
    ]
    unit = max(float(weight.max()), 1e-300)
    found = milp(-weight / unit, constraints=rows, integrality=np.ones(a.size, np.int64), bounds=Bounds(0, 1))
    if found.x is None:
        raise InputError("circuit selector matching", "the program must have an answer", got=found.message)
    return np.rint(found.x).astype(np.int64)


@selectors.register("exact")
def exact(problem: Problem) -> Selection:
    """The best choice for the objective ``sum``, at most one circuit on a path: a mixed-integer program (HiGHS), small networks.

    Variables: x of each candidate, and y of each pair and each candidate that saves it something; y <= x, one y per pair, ports.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, hstack

    no_options(problem, "exact", ("time_limit_s",))
    a, b = all_pairs(problem) if problem.candidates is None else problem.candidates
    demand, cost = problem.demand, problem.fabric.hop_cost
    u, v = demand.source, demand.to
    c = a.size
    saves = np.zeros((u.size, c))
    now = cost[u, v]
    for tail, head in ((a, b),) if problem.directed else ((a, b), (b, a)):
        via = cost[u][:, tail] + 1.0 + cost[head][:, v].T
        via[(u[:, None] == tail[None, :]) & (v[:, None] == head[None, :])] = 0.0
        saves = np.maximum(saves, now[:, None] - via)
    saves[~np.isfinite(saves)] = 0.0
    pair, candidate = np.nonzero(saves > 0)
    m = pair.size
    if m + c > MOST_MILP:
        raise InputError(
            "circuit selector exact",
            f"takes up to {MOST_MILP} variables",
            got=m + c,
            remedy="use eefi, or a smaller network",
        )
    if c == 0 or m == 0:
        return chosen(problem, "exact", Circuits.of([], directed=problem.directed))
    matrix: Any = coo_array
    worth = demand.size_bytes[pair] * saves[pair, candidate]
    unit = float(worth.max())
    ports: Any = hstack(
        [_port_rows(problem, a, b), matrix((2 * problem.fabric.n if problem.directed else problem.fabric.n, m))]
    )
    number: Any = hstack([matrix(np.ones((1, c))), matrix((1, m))])
    lit: Any = hstack(
        [
            matrix((-np.ones(m), (np.arange(m), candidate)), shape=(m, c)),
            matrix((np.ones(m), (np.arange(m), np.arange(m))), shape=(m, m)),
        ]
    )
    once: Any = hstack([matrix((u.size, c)), matrix((np.ones(m), (pair, np.arange(m))), shape=(u.size, m))])
    found = milp(
        np.concatenate([np.zeros(c), -worth / unit]),
        constraints=[
            LinearConstraint(ports, ub=np.tile(problem.ports, 2 if problem.directed else 1)),
            LinearConstraint(number, ub=problem.most),
            LinearConstraint(lit, ub=0),
            LinearConstraint(once, ub=1),
        ],
        integrality=np.concatenate([np.ones(c, np.int64), np.zeros(m, np.int64)]),
        bounds=Bounds(0, 1),
        options={"time_limit": float(problem.options.get("time_limit_s", 600.0)), "mip_rel_gap": 1e-9},
    )
    if found.x is None or found.status != 0:
        raise InputError(
            "circuit selector exact", "must be solved in its time", got=found.message, remedy="raise time_limit_s"
        )
    kept = np.flatnonzero(np.rint(found.x[:c]))
    return chosen(problem, "exact", Circuits(a=a[kept], b=b[kept], directed=problem.directed))


def all_pairs(problem: Problem) -> tuple[Int64, Int64]:
    """All pairs of switches with ports, ordered ones for directed circuits."""
    n = problem.fabric.n
    a, b = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    kept = (a != b if problem.directed else a < b) & (problem.ports[a] > 0) & (problem.ports[b] > 0)
    return a[kept], b[kept]


@selectors.register("exhaustive")
def exhaustive(problem: Problem) -> Selection:
    """Every set of circuits, for tiny networks: the best by what it saves (``sum``) or by the index under ``spill``."""
    no_options(problem, "exhaustive")
    a, b = all_pairs(problem) if problem.candidates is None else problem.candidates
    most = min(problem.most, int(problem.ports.sum()) // (1 if problem.directed else 2))
    from math import comb

    sets = sum(comb(a.size, i) for i in range(most + 1))
    if sets > MOST_SETS:
        raise InputError(
            "circuit selector exhaustive", f"looks at up to {MOST_SETS} sets", got=sets, remedy="use exact"
        )
    best: tuple[Any, Circuits] | None = None
    looked = 0
    for size in range(most + 1):
        for subset in combinations(range(a.size), size):
            at = np.array(subset, dtype=np.int64)
            out = np.bincount(a[at], minlength=problem.fabric.n)
            into = np.bincount(b[at], minlength=problem.fabric.n)
            if problem.directed:
                if (out > problem.ports).any() or (into > problem.ports).any():
                    continue
            elif (out + into > problem.ports).any():
                continue
            circuits = Circuits(a=a[at], b=b[at], directed=problem.directed)
            looked += 1
            if problem.objective == "sum":
                key: Any = -problem.saving(circuits)
            else:
                index = problem.index(circuits, "spill")
                key = index.key() if problem.objective == "max" else index.phi_s
            if best is None or key < best[0]:
                best = (key, circuits)
    assert best is not None
    return chosen(problem, "exhaustive", best[1], evaluations=looked)
