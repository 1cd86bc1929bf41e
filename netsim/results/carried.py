"""Bytes per link of a finished run: the engine's count, checked against what was routed, then made exact.

The engine counts what crosses a link as rate times elapsed time, on a clock of 53 bits. A message that is short against the
resolution of that clock (one byte after 1000 s; any message over links of infinite capacity) is counted with an error of
up to its rate times one tick, although its own moments are right. What a link carried in a finished run is known exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, csr_gather
from netsim.core.errors import InputError, NetsimError
from netsim.engine import CapacityChanges, EngineResult, Routes
from netsim.traffic.taskgraph import TaskGraph

__all__ = ["LONGEST_S", "clock_note", "settle"]

LONGEST_S = 2.0**63 / 1e9
"""Moments are stored as int64 nanoseconds: 292 years."""

# Float64 seconds and stored nanoseconds resolve the same up to here.
_FINE_S = 2.0**53 / 1e9


def settle(
    engine: EngineResult,
    *,
    graph: TaskGraph,
    routes: Routes,
    capacity_bytes_per_s: Float64,
    changes: CapacityChanges | None = None,
) -> EngineResult:
    """The same outcome with exact bytes per link and time bin, if the run finished.

    Parameters
    ----------
    engine : EngineResult
    graph : TaskGraph
    routes : Routes
    capacity_bytes_per_s : float64 array, shape (n_links,)
    changes : CapacityChanges, optional

    Raises
    ------
    InputError
        The run went on for longer than times can be stored.
    NetsimError
        The engine's count is off by more than its clock explains: a defect of the program, never of the input.
    """
    if engine.now_s >= LONGEST_S:
        raise InputError(
            "simulated time",
            f"must stay below {LONGEST_S:.3g} s, the range of 64-bit nanoseconds",
            got=f"{engine.now_s:.3g} s",
            remedy="look for a wrong unit among gaps, overheads, latencies and capacities",
        )
    if engine.status != "finished" or not routes.link.size:
        return engine
    of_task = np.asarray(routes.of_task)
    routed = np.flatnonzero(of_task >= 0)
    n_routes, n_links = routes.ptr.size - 1, engine.link_bytes.size
    hops = np.diff(routes.ptr)

    use = np.ones(routes.link.size) if routes.use is None else np.asarray(routes.use)

    def over_links(per_route: npt.NDArray[Any]) -> Float64:
        each = np.repeat(per_route, hops) * use
        return np.bincount(routes.link, weights=each, minlength=n_links).astype(np.float64)

    exact = over_links(np.bincount(of_task[routed], weights=graph.amount[routed], minlength=n_routes))
    flows = over_links(np.bincount(of_task[routed], minlength=n_routes).astype(np.float64))
    fastest = np.array(capacity_bytes_per_s, dtype=np.float64)
    if changes is not None:
        np.maximum.at(fastest, changes.link, changes.capacity_bytes_per_s)
    tick = float(np.spacing(engine.now_s))
    with np.errstate(invalid="ignore", over="ignore"):
        slack = 1e-6 * exact + np.where(flows > 0, 4.0 * flows * fastest * tick, 0.0)
    wrong = np.flatnonzero(np.abs(engine.link_bytes - exact) > np.maximum(slack, 1e-6))
    if wrong.size:
        raise NetsimError(
            "result",
            f"link {wrong[0]} must carry exactly the bytes routed over it",
            got=f"{engine.link_bytes[wrong[0]]} B of {exact[wrong[0]]} B",
            remedy="report it",
        )
    error = float((np.abs(engine.link_bytes - exact) / np.maximum(exact, 1.0)).max(initial=0.0))
    engine = replace(engine, worst_link_byte_error=error)
    return replace(engine, link_bytes=exact, bin_bytes=_settled_bins(engine, graph, routes, exact, routed))


def _settled_bins(
    engine: EngineResult, graph: TaskGraph, routes: Routes, exact: Float64, routed: npt.NDArray[np.int64]
) -> Float64:
    """Bins that add up to the exact bytes: what is missing arrived with the messages that drained, what is too much is scaled."""
    bins: Float64 = engine.bin_bytes
    if not bins.size:
        return bins
    counted, wanted = bins.sum(axis=1), exact[engine.bin_link]
    off = np.abs(counted - wanted) > 1e-12 * wanted
    if not off.any():
        return bins
    bins = np.array(bins)
    high = off & (counted > wanted)
    bins[high] *= (wanted[high] / counted[high])[:, None]
    low = off & (counted < wanted)
    row_of_link = np.full(exact.size, -1, dtype=np.int64)
    row_of_link[engine.bin_link[low]] = np.flatnonzero(low)
    ptr, hop = csr_gather(routes.ptr, np.asarray(routes.of_task)[routed])
    task = np.repeat(routed, np.diff(ptr))
    row = row_of_link[routes.link[hop]]
    use = np.ones(hop.size) if routes.use is None else np.asarray(routes.use)[hop]
    task, row, use = task[row >= 0], row[row >= 0], use[row >= 0]
    column = np.clip((engine.drain_s[task] / engine.bin_s).astype(np.int64), 0, bins.shape[1] - 1)
    # The shorter the transfer, the more of it the clock missed: instantaneous ones first.
    instant = engine.drain_s[task] <= engine.start_s[task]
    sent = graph.amount[task] * use
    share = np.where(instant, sent, 0.0)
    none = np.bincount(row, weights=share, minlength=bins.shape[0]) == 0
    share = np.where(none[row], sent, share)
    total = np.bincount(row, weights=share, minlength=bins.shape[0])
    np.add.at(bins, (row, column), share / total[row] * (wanted - counted)[row])
    return bins


def clock_note(engine: EngineResult) -> list[str]:
    """A line for people when the run is so long that its clock is coarser than a nanosecond."""
    if engine.now_s <= _FINE_S:
        return []
    return [f"the run is so long that moments at its end are known to {np.spacing(engine.now_s):.1g} s only"]
