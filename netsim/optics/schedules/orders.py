"""In which order coflows go: rules from a set of coflows and the rates of cores to a permutation.

Every rule sees bytes and set-ups: at port p coflow m needs ``t_mp = (rho_mp + delay x r_min x tau_mp) / R`` seconds of all cores, with
rho bytes, tau flows and R the sum of rates. With delay 0 that is packet switching.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.optics.schedules.coflows import Coflows, cores_bound_s

__all__ = ["bssi", "lp_bound_s", "order_rules"]

OrderRule = Callable[[Coflows, Float64, float], Int64]
order_rules: Registry[OrderRule] = Registry("coflow order", "netsim.coflow_orders")
# The linear program grows round by round, until the bound rises by less than this part of it.
MOST_ROUNDS = 200
LEAST_GAIN = 1e-4


def needs_s(coflows: Coflows, rate: Float64, delay_s: float) -> Float64:
    """Seconds of all cores that each coflow needs at each port, shape (m, 2 n_ports)."""
    size, flows = coflows.loads()
    need: Float64 = (size + delay_s * rate.min() * flows) / rate.sum()
    return need


@order_rules.register("fifo")
def fifo(coflows: Coflows, rate: Float64, delay_s: float) -> Int64:
    """As they arrive."""
    return np.lexsort((np.arange(len(coflows)), coflows.arrival_s))


@order_rules.register("sebf")
def sebf(coflows: Coflows, rate: Float64, delay_s: float) -> Int64:
    """Smallest bottleneck first, set-ups included (Varys, SIGCOMM 2014; shortest coflow first of Sunflow)."""
    need = needs_s(coflows, rate, delay_s).max(axis=1, initial=0.0)
    return np.lexsort((np.arange(len(coflows)), need))


@order_rules.register("wspt")
def wspt(coflows: Coflows, rate: Float64, delay_s: float) -> Int64:
    """Most weight for each second of the bound `cores_bound_s` first."""
    bound = cores_bound_s(coflows, capacity_bytes_per_s=rate, delay_s=delay_s)
    per_weight = bound / coflows.weight
    return np.lexsort((np.arange(len(coflows)), per_weight))


@order_rules.register("bssi")
def bssi_order(coflows: Coflows, rate: Float64, delay_s: float) -> Int64:
    """Bottleneck, select, scale, iterate (Sincronia, SIGCOMM 2018): the last place first, at the port with the most to do."""
    return bssi(needs_s(coflows, rate, delay_s), coflows.weight)


def bssi(need: Float64, weight: Float64) -> Int64:
    """The order of Sincronia for any load by coflow and port (Agarwal et al., SIGCOMM 2018, algorithm 1).

    From the last place to the first: at the port with the most load of those not placed yet, the coflow with the least weight by load goes
    last; the others' weights shrink by what it takes of theirs. Ties: the port with the lower number, then the coflow.

    Parameters
    ----------
    need : float64 array, shape (m, ports)
    weight : float64 array, shape (m,)

    Examples
    --------
    >>> bssi(np.array([[4.0, 0.0], [2.0, 1.0]]), np.ones(2)).tolist()
    [1, 0]
    """
    m = weight.size
    left = np.ones(m, dtype=bool)
    scaled = np.array(weight, dtype=np.float64)
    order = np.empty(m, np.int64)
    for place in range(m - 1, -1, -1):
        total = need[left].sum(axis=0)
        at = int(np.argmax(total)) if total.size else 0
        load = need[:, at] if total.size else np.zeros(m)
        among = np.flatnonzero(left & (load > 0))
        if not among.size:
            # Nothing left but coflows without flows: they end when they arrive, wherever they stand.
            rest = np.flatnonzero(left)
            order[: place + 1] = rest
            break
        last = int(among[np.argmin(scaled[among] / load[among])])
        order[place] = last
        left[last] = False
        scaled[among] -= scaled[last] * load[among] / load[last]
    return order


@order_rules.register("lp")
def lp(coflows: Coflows, rate: Float64, delay_s: float) -> Int64:
    """By completion time in the linear program of `lp_bound_s`."""
    _, end = _program(coflows, rate, delay_s)
    return np.lexsort((np.arange(len(coflows)), end))


def lp_bound_s(coflows: Coflows, *, capacity_bytes_per_s: Float64, delay_s: float) -> float:
    """A lower bound on the weighted sum of completion times on circuit switches side by side: a linear program.

    Minimise ``sum w_m C_m`` with ``C_m >= `` arrival + `cores_bound_s`, and for every port and every set A of coflows
    ``sum_A t_mp C_m >= ((sum_A t_mp)^2 + sum_A t_mp^2) / 2`` (Queyranne 1993), added while they are broken: for times C the sets most
    broken are those of the first so many coflows by C. Completion times count from arrivals, so that the bound less ``sum w a`` is given.

    The sets hold on one machine whose work is t_mp; several cores are no faster than one with the sum of their rates.

    Examples
    --------
    >>> pair = Coflows.of_flows([(0, 0, 0, 1), (1, 0, 0, 1)])
    >>> lp_bound_s(pair, capacity_bytes_per_s=np.array([1.0]), delay_s=0.0)
    3.0
    """
    value, _ = _program(coflows, np.asarray(capacity_bytes_per_s, dtype=np.float64).ravel(), delay_s)
    return value - float((coflows.weight * coflows.arrival_s).sum())


def _program(coflows: Coflows, rate: Float64, delay_s: float) -> tuple[float, Float64]:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    m = len(coflows)
    if m == 0:
        return 0.0, np.empty(0)
    need = needs_s(coflows, rate, delay_s)
    need = need[:, (need > 0).any(axis=0)]
    least = coflows.arrival_s + cores_bound_s(coflows, capacity_bytes_per_s=rate, delay_s=delay_s)
    # Relative to the largest, so that the solver's tolerances mean the same for any unit.
    unit = max(float(need.sum(axis=0).max(initial=0.0)), float(least.max()), 1e-300)
    need, least = need / unit, least / unit
    rows: list[Float64] = []
    right: list[float] = []
    end = np.array(least)
    value = float(coflows.weight @ end)
    for _ in range(MOST_ROUNDS):
        order = np.lexsort((np.arange(m), end))
        t = need[order]
        total = np.cumsum(t, axis=0)
        wanted = (total**2 + np.cumsum(t**2, axis=0)) / 2
        missing = wanted - np.cumsum(t * end[order][:, None], axis=0)
        broken = False
        for p in np.flatnonzero((missing > 1e-9).any(axis=0)).tolist():
            k = int(np.argmax(missing[:, p]))
            row = np.zeros(m)
            row[order[: k + 1]] = t[: k + 1, p]
            rows.append(row)
            right.append(float(wanted[k, p]))
            broken = True
        if not broken:
            break
        # A mixed-integer solver with no integers: scipy's front end for HiGHS that takes sparse rows and separate bounds.
        found = milp(
            coflows.weight,
            constraints=LinearConstraint(csr_array(np.array(rows)), lb=np.array(right)),
            bounds=Bounds(least, np.inf),
        )
        if found.x is None:
            raise InputError("coflow order lp", "the program must have an answer", got=found.message)
        gained, end, value = float(found.fun) - value, np.asarray(found.x, dtype=np.float64), float(found.fun)
        # Stopped early it is a bound still, only a little lower.
        if gained <= LEAST_GAIN * value:
            break
        # What does not bind is dropped: it would come back if it were broken.
        binding = [row @ end - r <= 1e-7 for row, r in zip(rows, right, strict=True)]
        rows = [row for row, keep in zip(rows, binding, strict=True) if keep]
        right = [r for r, keep in zip(right, binding, strict=True) if keep]
    return value * unit, end * unit
