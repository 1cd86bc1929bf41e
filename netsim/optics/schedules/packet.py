"""Coflows on packet switches, as fluids: Varys, Sincronia, and Weaver on packet switches side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64
from netsim.optics.schedules.coflows import Coflows
from netsim.optics.schedules.cores import largest_first, weaver_rule
from netsim.optics.schedules.lists import checked_core, rates_of
from netsim.optics.schedules.orders import bssi, needs_s

__all__ = ["sincronia", "varys", "weaver"]

# From what is left of each flow and which coflows are there to rates of flows.
Allocate = Callable[[Float64, Int64], Float64]


def _fluid(coflows: Coflows, allocate: Allocate) -> Float64:
    """Completion times, shape (m,): rates anew whenever a coflow arrives or a flow ends."""
    m = len(coflows)
    of = coflows.coflow
    left = np.array(coflows.size_bytes)
    end = np.array(coflows.arrival_s)
    arrivals = np.unique(coflows.arrival_s)
    now = 0.0
    while (left > 0).any():
        here = (coflows.arrival_s <= now)[of] & (left > 0)
        coming = arrivals[arrivals > now]
        until = float(coming[0]) if coming.size else np.inf
        if not here.any():
            now = until
            continue
        open_of = np.flatnonzero(np.bincount(of[here], minlength=m))
        rate = allocate(np.where(here, left, 0.0), open_of)
        moving = here & (rate > 0)
        step = np.divide(left, rate, out=np.full(left.size, np.inf), where=moving)
        length = min(float(step.min()), until - now)
        # Flows that are to end together do, whatever the rounding.
        over = moving & (step <= length * (1 + 1e-9))
        left[moving] = np.maximum(left[moving] - rate[moving] * length, 0.0)
        left[over] = 0.0
        now = until if length == until - now else now + length
        end[of[over]] = np.maximum(end[of[over]], now)
    return end - coflows.arrival_s


def _greedy(coflows: Coflows, order: Int64, left: Float64, out: Float64, into: Float64, rate: Float64) -> None:
    """Coflow by coflow, flow by flow, all that both ports have left; changes ``out``, ``into`` and ``rate``."""
    for m in order.tolist():
        for f in coflows.flows(m).tolist():
            if left[f] <= 0:
                continue
            s, d = int(coflows.source[f]), int(coflows.destination[f])
            more = min(out[s], into[d])
            if more > 0:
                rate[f] += more
                out[s] -= more
                into[d] -= more


def varys(coflows: Coflows, *, capacity_bytes_per_s: float) -> Float64:
    """Completion times on one packet switch: smallest bottleneck first, all flows of a coflow end together, what is left over is used.

    Chowdhury, Zhong and Stoica, SIGCOMM 2014 (SEBF and MADD). At each arrival and end of a flow: coflows by what is left at their fullest
    port; each gets the rates with which its flows end together at what earlier ones leave; then, in the same order, flows take what both
    their ports have left.

    Returns
    -------
    float64 array, shape (m,)
        Seconds from arrival on.

    Examples
    --------
    >>> varys(Coflows.of_flows([(0, 0, 0, 3), (1, 0, 0, 1)]), capacity_bytes_per_s=1.0).tolist()
    [4.0, 1.0]
    """
    capacity, _ = checked_core(capacity_bytes_per_s, 0.0)
    n = coflows.n_ports

    def allocate(left: Float64, present: Int64) -> Float64:
        out, into, rate = np.full(n, capacity), np.full(n, capacity), np.zeros(left.size)
        load = {}
        for m in present.tolist():
            at = coflows.flows(m)
            load[m] = (
                np.bincount(coflows.source[at], weights=left[at], minlength=n),
                np.bincount(coflows.destination[at], weights=left[at], minlength=n),
            )
        fullest = np.array([max(a.max(), b.max()) for a, b in load.values()])
        order = present[np.lexsort((present, fullest))]
        for m in order.tolist():
            at = coflows.flows(m)
            with np.errstate(divide="ignore", invalid="ignore"):
                time = max(
                    float(np.max(np.where(size > 0, size / room, 0.0)))
                    for size, room in zip(load[m], (out, into), strict=True)
                )
            if not np.isfinite(time):
                continue
            own = left[at] / time
            rate[at] = own
            out -= np.bincount(coflows.source[at], weights=own, minlength=n)
            into -= np.bincount(coflows.destination[at], weights=own, minlength=n)
            # A port used up is used up.
            for room in (out, into):
                room[room < capacity * 1e-12] = 0.0
        _greedy(coflows, order, left, out, into, rate)
        return rate

    return _fluid(coflows, allocate)


def sincronia(coflows: Coflows, *, capacity_bytes_per_s: float, order: Int64 | None = None) -> Float64:
    """Completion times on one packet switch: coflows in order, each flow takes all that its ports have left (Agarwal et al., SIGCOMM 2018).

    The order is that of `bssi`; with it, and all there from the start, the weighted sum is at most 4 times the best.

    Parameters
    ----------
    coflows : Coflows
    capacity_bytes_per_s : float
    order : int64 array, shape (m,), optional
        Another order.

    Examples
    --------
    >>> sincronia(Coflows.of_flows([(0, 0, 0, 3), (1, 0, 0, 1)]), capacity_bytes_per_s=1.0).tolist()
    [4.0, 1.0]
    """
    capacity, _ = checked_core(capacity_bytes_per_s, 0.0)
    ranked = bssi(needs_s(coflows, np.array([capacity]), 0.0), coflows.weight) if order is None else np.asarray(order)
    n = coflows.n_ports

    def allocate(left: Float64, present: Int64) -> Float64:
        out, into, rate = np.full(n, capacity), np.full(n, capacity), np.zeros(left.size)
        _greedy(coflows, ranked[np.isin(ranked, present)], left, out, into, rate)
        return rate

    return _fluid(coflows, allocate)


def weaver(coflows: Coflows, *, capacity_bytes_per_s: npt.ArrayLike) -> Float64:
    """Completion time of each coflow alone on packet switches side by side, whole flows (Weaver, Huang, Xia, Wang and Ng, IPDPS 2020).

    Parameters
    ----------
    coflows : Coflows
    capacity_bytes_per_s : array_like of float, shape (cores,)

    Examples
    --------
    >>> weaver(Coflows.of_flows([(0, 0, 0, 3), (0, 0, 1, 1)]), capacity_bytes_per_s=[1.0, 1.0]).tolist()
    [3.0]
    """
    rate = rates_of(capacity_bytes_per_s, 0.0)
    found = np.zeros(len(coflows))
    for m in range(len(coflows)):
        _, size = weaver_rule(coflows, largest_first(coflows, m), rate)
        found[m] = float((size.max(axis=1, initial=0.0) / rate).max())
    return found
