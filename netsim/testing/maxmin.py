"""Three independent views of weighted max-min fairness: a proof, exact arithmetic, and linear programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64

__all__ = ["Verdict", "certificate", "exact_rates", "lexicographic_rates"]


@dataclass(frozen=True)
class Verdict:
    """Outcome of `certificate`; true when the allocation is proven.

    Attributes
    ----------
    ok : bool
    reason : str
        Empty, or the first violation: a link above its capacity, or a flow without a bottleneck.
    error : float
        The smallest relative tolerance at which the allocation would be accepted.
    overload : float
        The largest relative excess of a link over its capacity; 0 if none.
    """

    ok: bool
    reason: str = ""
    error: float = 0.0
    overload: float = 0.0

    def __bool__(self) -> bool:
        return self.ok


def certificate(
    *,
    rate: npt.ArrayLike,
    capacity: npt.ArrayLike,
    ptr: npt.ArrayLike,
    link: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    use: npt.ArrayLike | None = None,
    rtol: float = 1e-9,
) -> Verdict:
    """Prove or refute that rates are THE weighted max-min allocation.

    They are exactly when they are feasible and every flow has a bottleneck: a saturated link on which no flow has a higher level
    (rate/weight). Source: Bertsekas and Gallager, Data Networks, section 6.5.2. Two passes over the incidences. A rate cap is a
    private link. A link of capacity 0 is saturated by rate 0.

    Parameters
    ----------
    rate, weight : array_like of float, shape (f,)
    capacity : array_like of float, shape (l,)
    ptr, link, use : array_like
        CSR of the links of each flow and the consumption per unit of rate.
    rtol : float
        Relative tolerance for saturation and for levels.

    Examples
    --------
    >>> parking_lot = dict(capacity=[10, 20], ptr=[0, 2, 3, 4], link=[0, 1, 0, 1])
    >>> certificate(rate=[5, 5, 15], **parking_lot).ok
    True
    >>> wrong = certificate(rate=[4, 6, 16], **parking_lot)
    >>> wrong.reason, round(wrong.error, 3)
    ('flow 0: no bottleneck link', 0.333)
    """
    r = np.asarray(rate, dtype=np.float64)
    c = np.asarray(capacity, dtype=np.float64)
    p = np.asarray(ptr, dtype=np.int64)
    lk = np.asarray(link, dtype=np.int64)
    w = np.ones(r.size) if weight is None else np.asarray(weight, dtype=np.float64)
    a = np.ones(lk.size) if use is None else np.asarray(use, dtype=np.float64)
    flow = np.repeat(np.arange(r.size), np.diff(p))
    if not (np.isfinite(r) & (r >= 0)).all():
        bad = np.flatnonzero(~(r >= 0) | ~np.isfinite(r))[0]
        return Verdict(False, f"flow {bad}: rate not finite or below 0", np.inf, np.inf)
    used = np.bincount(lk, weights=a * r[flow], minlength=c.size)
    level = r / w
    top = np.zeros(c.size)
    np.maximum.at(top, lk, level[flow])
    # A dark link is saturated by rate 0 and overloaded by any other.
    full = np.where(c > 0, used / np.where(c > 0, c, 1.0), np.where(used > 0, np.inf, 1.0))
    lag = 1.0 - np.divide(level[flow], top[lk], out=np.ones(lk.size), where=top[lk] > 0)
    # How far each hop is from being a bottleneck of its flow, and the nearest hop of each flow.
    gap = np.full(r.size, np.inf)
    np.minimum.at(gap, flow, np.maximum(1.0 - full[lk], lag))
    overload = max(0.0, float(full.max(initial=1.0)) - 1.0)
    error = max(overload, float(gap.max(initial=0.0)))
    if overload > rtol:
        return Verdict(False, f"link {int(full.argmax())}: above capacity", error, overload)
    if error > rtol:
        return Verdict(False, f"flow {np.flatnonzero(gap > rtol)[0]}: no bottleneck link", error, overload)
    return Verdict(True, "", error, overload)


def exact_rates(
    *,
    capacity: Sequence[Fraction | int],
    paths: Sequence[Sequence[int]],
    weight: Sequence[Fraction | int] | None = None,
    cap: Sequence[Fraction | int | None] | None = None,
    use: Sequence[Sequence[Fraction | int]] | None = None,
) -> list[Fraction]:
    """Weighted max-min rates by progressive filling in rational numbers.

    All levels rise together; flows freeze when one of their links fills or their cap is reached. O(levels x incidences).

    Examples
    --------
    >>> [str(r) for r in exact_rates(capacity=[10, 20], paths=[[0, 1], [0], [1]])]
    ['5', '5', '15']
    """
    n = len(paths)
    w = [Fraction(1)] * n if weight is None else [Fraction(x) for x in weight]
    caps: list[Fraction | None] = [None] * n if cap is None else [None if x is None else Fraction(x) for x in cap]
    room = [Fraction(x) for x in capacity]
    coefficient: list[dict[int, Fraction]] = []
    for i, path in enumerate(paths):
        row: dict[int, Fraction] = {}
        for j, l in enumerate(path):
            row[l] = row.get(l, Fraction(0)) + (Fraction(1) if use is None else Fraction(use[i][j]))
        coefficient.append(row)
    rate: list[Fraction | None] = [None] * n
    while any(r is None for r in rate):
        active = [i for i in range(n) if rate[i] is None]
        demand: dict[int, Fraction] = {}
        for i in active:
            for l, a in coefficient[i].items():
                demand[l] = demand.get(l, Fraction(0)) + a * w[i]
        levels = [room[l] / d for l, d in demand.items()]
        for i in active:
            limit = caps[i]
            if limit is not None:
                levels.append(limit / w[i])
        level = min(levels)
        full = {l for l, d in demand.items() if room[l] == level * d}
        frozen = [
            i for i in active if full & coefficient[i].keys() or (caps[i] is not None and caps[i] == level * w[i])
        ]
        for i in frozen:
            value = level * w[i]
            rate[i] = value
            for l, a in coefficient[i].items():
                room[l] -= a * value
    return [r for r in rate if r is not None]


def lexicographic_rates(
    *, capacity: npt.ArrayLike, ptr: npt.ArrayLike, link: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> Float64:
    """Weighted max-min rates as the lexicographic maximum, by a sequence of linear programs (HiGHS); for about 12 flows.

    Maximise the common level t of the free flows; then fix each free flow that cannot exceed it while the others keep at least t.

    Examples
    --------
    >>> lexicographic_rates(capacity=[10, 20], ptr=[0, 2, 3, 4], link=[0, 1, 0, 1]).round(9).tolist()
    [5.0, 5.0, 15.0]
    """
    from scipy.optimize import linprog

    c = np.asarray(capacity, dtype=np.float64)
    p = np.asarray(ptr, dtype=np.int64)
    n = p.size - 1
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    matrix = np.zeros((c.size, n))
    np.add.at(matrix, (np.asarray(link, dtype=np.int64), np.repeat(np.arange(n), np.diff(p))), 1.0)
    fixed: dict[int, float] = {}
    while len(fixed) < n:
        free = [i for i in range(n) if i not in fixed]
        # Variables: rates, then the level t.
        a_ub = np.hstack([matrix, np.zeros((c.size, 1))])
        floor = np.zeros((len(free), n + 1))
        for k, i in enumerate(free):
            floor[k, i], floor[k, n] = -1.0, w[i]
        bounds = [(fixed[i], fixed[i]) if i in fixed else (0.0, None) for i in range(n)]
        objective = np.zeros(n + 1)
        objective[n] = -1.0
        best = linprog(
            objective,
            A_ub=np.vstack([a_ub, floor]),
            b_ub=np.concatenate([c, np.zeros(len(free))]),
            bounds=[*bounds, (0.0, None)],
        )
        assert best.x is not None
        level = float(best.x[n])
        newly = []
        for i in free:
            lows = [(fixed[j], fixed[j]) if j in fixed else (w[j] * level * (1 - 1e-12), None) for j in range(n)]
            objective = np.zeros(n)
            objective[i] = -1.0
            top = linprog(objective, A_ub=matrix, b_ub=c * (1 + 1e-12), bounds=lows)
            assert top.fun is not None
            if -top.fun <= w[i] * level * (1 + 1e-8) + 1e-12:
                newly.append(i)
        for i in newly or free:
            fixed[i] = w[i] * level
    return np.array([fixed[i] for i in range(n)])
