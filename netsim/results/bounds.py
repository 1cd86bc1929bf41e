"""Lower bounds that no routing can beat, and where the time on the critical path went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.engine import EngineResult, Routes, critical_path
from netsim.topologies import Topology
from netsim.topologies.parts import natural_parts
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["Bounds", "CriticalPath", "critical_path_times", "lower_bounds"]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Lower bounds on the makespan, in seconds.

    Attributes
    ----------
    injection_s : float
        The busiest host's bytes, in or out, over the capacity of its links in that direction.
    injection_host : int
        That host; -1 without traffic.
    cut_s : float
        The busiest cut around a natural part of the network (a switch with its hosts, a dragonfly group, a subtree, half of a grid):
        bytes that must cross it over the capacity of the links that do, in that direction.
    cut : str
        That part; empty if nothing crosses any.
    compute_s : float
        The most local work of one rank.
    """

    injection_s: float
    injection_host: int
    cut_s: float
    cut: str
    compute_s: float

    @property
    def makespan_s(self) -> float:
        """The largest of them."""
        return max(self.injection_s, self.cut_s, self.compute_s)


def lower_bounds(
    *, topology: Topology, src_host: Int64, dst_host: Int64, size_bytes: Float64, compute_s: float = 0.0
) -> Bounds:
    """Bounds from bytes and capacities alone; valid for any routing and any order of transfers.

    Parameters
    ----------
    topology : Topology
    src_host, dst_host : int64 arrays, shape (f,)
        Hosts of each transfer; equal: it stays on the host and does not count.
    size_bytes : float64 array, shape (f,)
    compute_s : float
        The most local work of one rank.

    Examples
    --------
    Host 0 sends 125 kB at 100 Gb/s: 10 us.

    >>> from netsim.topologies import star
    >>> b = lower_bounds(topology=star(n=2), src_host=np.array([0]), dst_host=np.array([1]), size_bytes=np.array([125e3]))
    >>> b.injection_s, b.injection_host
    (1e-05, 0)
    """
    away = src_host != dst_host
    src, dst, size = src_host[away], dst_host[away], size_bytes[away]
    n, vertices = topology.n_hosts, topology.n_vertices
    capacity, link_src, link_dst = topology.link_capacity_bytes_per_s, topology.link_src, topology.link_dst
    out_capacity = np.bincount(link_src, weights=capacity, minlength=vertices)
    in_capacity = np.bincount(link_dst, weights=capacity, minlength=vertices)
    sent, received = np.bincount(src, weights=size, minlength=n), np.bincount(dst, weights=size, minlength=n)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_host = np.maximum(
            np.where(sent > 0, sent / out_capacity[:n], 0.0), np.where(received > 0, received / in_capacity[:n], 0.0)
        )
    injection_host = int(per_host.argmax()) if per_host.size and per_host.max() > 0 else -1
    injection = float(per_host.max()) if per_host.size else 0.0

    cut, where = 0.0, ""
    for name, part in natural_parts(topology):
        across = part[link_src] != part[link_dst]
        leaves = part[src] != part[dst]
        if not leaves.any():
            continue
        n_parts = int(part.max()) + 1
        for ends, hosts in ((link_src, src), (link_dst, dst)):
            room = np.bincount(part[ends[across]], weights=capacity[across], minlength=n_parts)
            load = np.bincount(part[hosts[leaves]], weights=size[leaves], minlength=n_parts)
            with np.errstate(divide="ignore", invalid="ignore"):
                per_part = np.where(load > 0, load / room, 0.0)
            if per_part.max() > cut:
                cut, where = float(per_part.max()), _part_name(topology, name, int(per_part.argmax()))
    return Bounds(
        injection_s=injection,
        injection_host=injection_host,
        cut_s=cut,
        cut=where,
        compute_s=compute_s,
    )


def _part_name(topology: Topology, kind: str, number: int) -> str:
    named = kind == "switch {}" and number < topology.n_switches
    return topology.vertex_name(topology.n_hosts + number) if named else kind.format(number)


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """Where the makespan went, along the chain of tasks that determined it. The parts add up to the makespan.

    Attributes
    ----------
    compute_s : float
        Local work of the trace (and waiting for release times).
    overhead_s : float
        Software overhead of the protocol.
    transfer_s : float
        Transfers at the speed of the slowest link of their route.
    sharing_s : float
        What transfers took longer because they shared links.
    latency_s : float
        Path latency.
    tasks : int
        Length of the chain.
    """

    compute_s: float
    overhead_s: float
    transfer_s: float
    sharing_s: float
    latency_s: float
    tasks: int

    @property
    def network_s(self) -> float:
        """Time on the path that a faster network would shorten."""
        return self.transfer_s + self.sharing_s + self.latency_s


def critical_path_times(
    *, graph: TaskGraph, result: EngineResult, routes: Routes, capacity_bytes_per_s: Float64, is_compute: np.ndarray
) -> CriticalPath:
    """Split the makespan along the critical path.

    Parameters
    ----------
    graph : TaskGraph
    result : EngineResult
    routes : Routes
    capacity_bytes_per_s : float64 array, shape (n_links,)
    is_compute : bool array, shape (n_tasks,)
        Delays that are local work; other delays are software overhead.
    """
    path = critical_path(result)
    if path.size == 0:
        return CriticalPath(compute_s=0.0, overhead_s=0.0, transfer_s=0.0, sharing_s=0.0, latency_s=0.0, tasks=0)
    begin = result.start_s[path]
    # A task counts until the moment it released the next one; the last until its end.
    until = np.append(begin[1:], result.end_s[path[-1]])
    span = until - begin
    transfer = graph.kind[path] == TRANSFER
    compute = ~transfer & is_compute[path]
    route = np.asarray(routes.of_task)[path]
    away = transfer & (route >= 0)
    latency, ideal = np.zeros(path.size), np.zeros(path.size)
    if away.any():
        rows = route[away]
        slowest = np.minimum.reduceat(capacity_bytes_per_s[routes.link], routes.ptr[:-1])[rows]
        ideal[away] = np.minimum(graph.amount[path[away]] / slowest, span[away])
        latency[away] = np.minimum(np.asarray(routes.latency_s)[rows], span[away] - ideal[away])
        # Released at its drain: no latency was waited for.
        drained = until[away] <= result.drain_s[path[away]]
        latency[away] = np.where(drained & (result.end_s[path[away]] > result.drain_s[path[away]]), 0.0, latency[away])
    on_host = transfer & (route < 0)
    return CriticalPath(
        compute_s=float(span[compute].sum()),
        overhead_s=float(span[~transfer & ~compute].sum() + span[on_host].sum()),
        transfer_s=float(ideal.sum()),
        sharing_s=float((span - ideal - latency)[away].sum()),
        latency_s=float(latency.sum()),
        tasks=int(path.size),
    )
