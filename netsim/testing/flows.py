"""Independent flows as a simulation that can be stepped, certified or solved in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64
from netsim.engine import Routes, Simulation
from netsim.traffic.taskgraph import DELAY, TRANSFER, TaskGraph

__all__ = ["flow_simulation"]


def flow_simulation(
    *,
    capacity_bytes_per_s: npt.ArrayLike,
    ptr: npt.ArrayLike,
    link: npt.ArrayLike,
    start_s: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    latency_s: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    rate_cap_bytes_per_s: npt.ArrayLike | None = None,
    **options: Any,
) -> Simulation:
    """What `run_flows` runs, before it runs: task i is the delay until flow i starts, task n+i the flow.

    Parameters
    ----------
    capacity_bytes_per_s, ptr, link, start_s, size_bytes, latency_s, weight, rate_cap_bytes_per_s
        As in `netsim.engine.run_flows`.
    **options
        Passed to `Simulation`: ``full_solve``, ``certify``, ``changes``, ``bins``, ``latency_mode``.

    Examples
    --------
    The slow check of the incremental sweep:

    >>> flows = dict(capacity_bytes_per_s=[10, 20], ptr=[0, 2, 3, 4], link=[0, 1, 0, 1], start_s=[0, 0, 1], size_bytes=[100, 100, 100])
    >>> flow_simulation(**flows, full_solve=True).run().end_s[3:].round(6).tolist()
    [20.0, 20.0, 7.666667]
    """
    start, size = np.asarray(start_s, dtype=np.float64), np.asarray(size_bytes, dtype=np.float64)
    pointer = np.asarray(ptr, dtype=np.int64)
    n = start.size

    def per_task(values: npt.ArrayLike | None, fill: float) -> Float64 | None:
        return None if values is None else np.concatenate([np.full(n, fill), np.asarray(values, dtype=np.float64)])

    graph = TaskGraph.from_edges(
        n_ranks=1,
        kind=np.repeat([DELAY, TRANSFER], n).astype(np.uint8),
        rank=np.zeros(2 * n, np.int32),
        peer=np.zeros(2 * n, np.int32),
        amount=np.concatenate([start, size]),
        edge_from=np.arange(n),
        edge_to=np.arange(n) + n,
        edge_after=np.zeros(n, np.uint8),
    )
    routed = np.where(np.diff(pointer) > 0, np.arange(n), -1)
    routes = Routes(
        of_task=np.concatenate([np.full(n, -1), routed]).astype(np.int32),
        ptr=pointer,
        link=np.asarray(link, dtype=np.int32),
        latency_s=np.zeros(n) if latency_s is None else np.asarray(latency_s, dtype=np.float64),
    )
    return Simulation(
        graph=graph,
        routes=routes.shared(),
        capacity_bytes_per_s=capacity_bytes_per_s,
        weight=per_task(weight, 1.0),
        rate_cap_bytes_per_s=per_task(rate_cap_bytes_per_s, np.inf),
        **options,
    )
