"""From moments and bytes to the four tables of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from netsim.core.arrays import Float64, Int32, Int64
from netsim.engine import EngineResult, Routes
from netsim.topologies import Topology
from netsim.traces import Trace
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["flow_table", "link_table", "op_table", "rank_table"]


def _ns(seconds: npt.NDArray[Any]) -> Any:
    """Nanoseconds as int64, null where the moment never came."""
    missing = np.isnan(seconds)
    return pa.array(np.rint(np.where(missing, 0.0, seconds) * 1e9).astype(np.int64), mask=missing)


def op_table(trace: Trace | None, enter_s: Float64, leave_s: Float64) -> Any:
    """One row per call of the trace; empty for traces that have no calls."""
    if trace is None or trace.profile != "ops":
        empty: dict[str, Any] = {
            name: pa.array([], pa.int64())
            for name in ("rank", "stream", "seq", "op", "comm", "peer", "bytes", "enter_ns", "leave_ns")
        }
        empty["op"] = pa.array([], pa.string())
        return pa.table(empty)
    codes, names = trace.labels("op")
    op = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string()))
    return pa.table(
        {
            "rank": trace.column("rank").astype(np.int32),
            "stream": trace.column("stream").astype(np.int32),
            "seq": trace.column("seq").astype(np.int64),
            "op": op,
            "comm": trace.column("comm").astype(np.int32),
            "peer": trace.column("peer").astype(np.int32),
            "bytes": trace.column("bytes").astype(np.int64),
            "enter_ns": _ns(enter_s),
            "leave_ns": _ns(leave_s),
        }
    )


def flow_table(graph: TaskGraph, result: EngineResult, routes: Routes, host: Int32) -> Any:
    """One row per transfer."""
    flow = np.flatnonzero(graph.kind == TRANSFER)
    route = np.asarray(routes.of_task)[flow]
    hops = np.where(route >= 0, np.diff(routes.ptr, append=routes.ptr[-1])[route], 0)
    return pa.table(
        {
            "flow": flow,
            "op": graph.op[flow],
            "src_rank": graph.rank[flow],
            "dst_rank": graph.peer[flow],
            "src_host": host[graph.rank[flow]],
            "dst_host": host[graph.peer[flow]],
            "bytes": np.rint(graph.amount[flow]).astype(np.int64),
            "hops": hops.astype(np.int32),
            "start_ns": _ns(result.start_s[flow]),
            "drain_ns": _ns(result.drain_s[flow]),
            "end_ns": _ns(result.end_s[flow]),
        }
    )


def link_table(topology: Topology, result: EngineResult) -> Any:
    """One row per link and time bin in which something crossed the link."""
    row, column = np.nonzero(result.bin_bytes)
    link = result.bin_link[row].astype(np.int64)
    width = result.bin_s
    crossed = result.bin_bytes[row, column]
    capacity = topology.link_capacity_bytes_per_s[link]
    until = np.minimum((column + 1) * width, max(result.now_s, width))
    names = [topology.vertex_name(int(v)) for v in range(topology.n_vertices)] if link.size else []
    vertex = pa.array(names, pa.string())

    def ends(of: npt.NDArray[Any]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(of[link], pa.int32()), vertex)

    layer = pa.DictionaryArray.from_arrays(
        pa.array(topology.link_layer[link], pa.int32()), pa.array(topology.layer_names, pa.string())
    )
    return pa.table(
        {
            "link": link,
            "src": ends(topology.link_src),
            "dst": ends(topology.link_dst),
            "layer": layer,
            "capacity_bytes_per_s": capacity,
            "bin_start_ns": _ns(column * width),
            "bin_end_ns": _ns(until),
            "bytes": crossed,
            "utilisation": crossed / (capacity * (until - column * width)),
        }
    )


def rank_table(
    *,
    graph: TaskGraph,
    host: Int32,
    is_compute: npt.NDArray[np.bool_],
    in_calls_s: Float64,
    finish_s: Float64,
) -> Any:
    """One row per rank."""
    n = graph.n_ranks
    transfer = graph.kind == TRANSFER
    away = transfer & (host[graph.rank] != host[graph.peer])
    stay = transfer & ~away

    def per_rank(of: Int32, chosen: npt.NDArray[np.bool_]) -> Int64:
        total = np.bincount(of[chosen], weights=graph.amount[chosen], minlength=n)
        return np.rint(total).astype(np.int64)

    compute = np.bincount(graph.rank[is_compute], weights=graph.amount[is_compute], minlength=n)
    return pa.table(
        {
            "rank": np.arange(n, dtype=np.int32),
            "host": host,
            "compute_ns": _ns(compute),
            "in_calls_ns": _ns(in_calls_s),
            "finish_ns": _ns(finish_s),
            "sent_bytes": per_rank(graph.rank, away),
            "received_bytes": per_rank(graph.peer, away),
            "on_host_bytes": per_rank(graph.rank, stay),
        }
    )
