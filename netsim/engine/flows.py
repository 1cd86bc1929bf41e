"""The stable door for comparisons: independent flows on links, finish times out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64
from netsim.core.errors import InputError, StuckError
from netsim.engine.inputs import Routes, check_priority
from netsim.engine.simulation import Simulation
from netsim.traffic.taskgraph import DELAY, TRANSFER, TaskGraph

__all__ = ["run_flows"]


def run_flows(
    *,
    capacity_bytes_per_s: npt.ArrayLike,
    ptr: npt.ArrayLike,
    link: npt.ArrayLike,
    start_s: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    latency_s: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    rate_cap_bytes_per_s: npt.ArrayLike | None = None,
    priority: npt.ArrayLike | None = None,
) -> Float64:
    """Finish time of each flow under exact weighted max-min sharing.

    Parameters
    ----------
    capacity_bytes_per_s : array_like of float, shape (n_links,)
    ptr, link : array_like of int, shapes (n_flows+1,) and (hops,)
        Links of each flow in CSR.
    start_s, size_bytes : array_like of float, shape (n_flows,)
    latency_s : array_like of float, shape (n_flows,), optional
        Added after the last byte has left.
    weight, rate_cap_bytes_per_s : array_like of float, shape (n_flows,), optional
    priority : array_like of int, shape (n_flows,), optional
        0 high, 1 low: the low class shares what the high one leaves.

    Returns
    -------
    float64 array, shape (n_flows,)
        Delivery of the last byte, in seconds.

    Raises
    ------
    InputError
        A value is out of range.
    StuckError
        A flow can never finish: it crosses a link of capacity 0.

    Examples
    --------
    A flow over two links and one on each of them (parking lot):

    >>> run_flows(capacity_bytes_per_s=[10, 20], ptr=[0, 2, 3, 4], link=[0, 1, 0, 1],
    ...           start_s=[0, 0, 0], size_bytes=[100, 100, 100]).round(6).tolist()
    [20.0, 20.0, 6.666667]

    A low flow waits for a high one, and uses at once what that leaves:

    >>> run_flows(capacity_bytes_per_s=[10], ptr=[0, 1, 2], link=[0, 0], start_s=[0, 2], size_bytes=[100, 50],
    ...           priority=[1, 0]).tolist()
    [15.0, 7.0]
    """
    start = np.asarray(start_s, dtype=np.float64)
    size = np.asarray(size_bytes, dtype=np.float64)
    pointer = np.asarray(ptr, dtype=np.int64)
    n = start.size
    if start.shape != (n,) or size.shape != (n,) or pointer.shape != (n + 1,):
        raise InputError(
            "flows", "need n start times, n sizes and n+1 pointers", got=f"{start.shape}, {size.shape}, {pointer.shape}"
        )
    if n and not (np.isfinite(start) & (start >= 0)).all():
        raise InputError("flows", "start times must be finite and 0 or more", got=float(start[~(start >= 0)][:1].sum()))
    hops = np.asarray(link)
    if n and (pointer[0] != 0 or pointer[-1] != hops.size or (np.diff(pointer) < 0).any()):
        raise InputError("flows", "ptr must rise from 0 to the number of hops", got=int(pointer[-1]))

    def per_task(values: npt.ArrayLike | None, fill: float) -> Float64 | None:
        # Task i is the delay until flow i starts, task n+i the flow.
        if values is None:
            return None
        return np.concatenate([np.full(n, fill), np.asarray(values, dtype=np.float64)])

    flow = np.arange(n)
    graph = TaskGraph.from_edges(
        n_ranks=1,
        kind=np.repeat([DELAY, TRANSFER], n).astype(np.uint8),
        rank=np.zeros(2 * n, np.int32),
        peer=np.zeros(2 * n, np.int32),
        amount=np.concatenate([start, size]),
        edge_from=flow,
        edge_to=flow + n,
        edge_after=np.zeros(n, np.uint8),
    )
    routed = np.where(np.diff(pointer) > 0, flow, -1)
    routes = Routes(
        of_task=np.concatenate([np.full(n, -1), routed]).astype(np.int32),
        ptr=pointer,
        link=hops.astype(np.int32),
        latency_s=np.zeros(n) if latency_s is None else np.asarray(latency_s, dtype=np.float64),
    )
    result = Simulation(
        graph=graph,
        routes=routes.shared(),
        capacity_bytes_per_s=capacity_bytes_per_s,
        weight=per_task(weight, 1.0),
        rate_cap_bytes_per_s=per_task(rate_cap_bytes_per_s, np.inf),
        count_bytes=False,
        priority=None if priority is None else per_task(check_priority(priority, n, "flow"), 0.0),
    ).run()
    if result.status != "finished":
        stuck = np.flatnonzero(np.isnan(result.end_s[n:]))
        raise StuckError(
            f"flow {stuck[0]}",
            "can never finish: it crosses a link of capacity 0",
            got=f"{stuck.size} such flows",
            remedy="raise the capacity or drop the flows",
        )
    finish: Float64 = result.end_s[n:]
    return finish
