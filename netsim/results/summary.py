"""The numbers that answer the first questions about a run, and the one screen that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.core.arrays import Float64, Int32
from netsim.core.errors import NetsimError
from netsim.core.text import count
from netsim.core.units import format_bytes, format_rate, format_time
from netsim.engine import EngineResult, Routes
from netsim.results.bounds import critical_path_times, lower_bounds
from netsim.topologies import Topology
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["screen", "summarise"]

TOP = 5


def summarise(
    *,
    graph: TaskGraph,
    result: EngineResult,
    routes: Routes,
    topology: Topology,
    host: Int32,
    is_compute: np.ndarray,
    in_calls_s: Float64,
    finish_s: Float64,
    serial: bool,
    rerouted: bool = False,
) -> dict[str, Any]:
    """Numbers of one run; plain Python values with units in their names.

    ``serial`` says that the local work of a rank is one chain, so that its sum bounds the makespan (several streams overlap).
    ``rerouted`` says that transfers left the given routes during the run: bytes are then checked where they leave the hosts.

    Raises
    ------
    NetsimError
        The makespan is below a physical lower bound, or bytes were lost: a defect of the program, never of the input.
    """
    makespan = result.makespan_s if result.status == "finished" else result.now_s
    transfer = graph.kind == TRANSFER
    src, dst = host[graph.rank[transfer]].astype(np.int64), host[graph.peer[transfer]].astype(np.int64)
    size = graph.amount[transfer]
    away = src != dst
    finished = result.status == "finished"
    per_rank = np.bincount(graph.rank[is_compute], weights=graph.amount[is_compute], minlength=graph.n_ranks)
    bounds = lower_bounds(
        topology=topology,
        src_host=src,
        dst_host=dst,
        size_bytes=size,
        compute_s=float(per_rank.max(initial=0.0)) if serial else 0.0,
    )
    if finished and makespan < bounds.makespan_s * (1 - 1e-9):
        raise NetsimError(
            "result",
            "makespan must not beat the lower bound",
            got=f"{makespan} s < {bounds.makespan_s} s",
            remedy="report it",
        )
    path = critical_path_times(
        graph=graph,
        result=result,
        routes=routes,
        capacity_bytes_per_s=topology.link_capacity_bytes_per_s,
        is_compute=is_compute,
    )
    hop_bytes = _routed_bytes(graph, routes)
    if finished:
        carried = float(result.link_bytes.sum())
        if rerouted and topology.host_transit.any():
            # What hosts forward leaves them too; bytes per link were checked against the routes taken.
            carried = hop_bytes
        elif rerouted:
            leaves = (topology.link_src < topology.n_hosts) & (topology.link_dst >= topology.n_hosts)
            carried, hop_bytes = float(result.link_bytes[leaves].sum()), float(size[away].sum())
        if abs(carried - hop_bytes) > 1e-6 * max(hop_bytes, 1.0):
            raise NetsimError(
                "result",
                "links must carry exactly the bytes routed over them",
                got=f"{carried} B of {hop_bytes} B",
                remedy="report it",
            )
    capacity = topology.link_capacity_bytes_per_s
    use = result.link_bytes / (capacity * makespan) if makespan > 0 else np.zeros(topology.n_links)
    order = np.lexsort((np.arange(use.size), -use))[:TOP]
    peak = np.zeros(topology.n_links)
    if result.bin_bytes.size:
        # Share of the busiest bin that was filled; the last bin may be cut short by the end of the run.
        edge = np.minimum(np.arange(1, result.bin_bytes.shape[1] + 1) * result.bin_s, max(makespan, 1e-300))
        width = np.maximum(edge - np.arange(result.bin_bytes.shape[1]) * result.bin_s, 1e-300)
        peak[result.bin_link] = (result.bin_bytes / width / capacity[result.bin_link][:, None]).max(axis=1)
    layers = []
    for index, name in enumerate(topology.layer_names):
        chosen = topology.link_layer == index
        if chosen.any():
            layers.append(
                {
                    "layer": name,
                    "links": int(chosen.sum()),
                    "links_used": int((result.link_bytes[chosen] > 0).sum()),
                    "bytes": float(result.link_bytes[chosen].sum()),
                    "mean_utilisation": float(use[chosen].mean()),
                    "max_utilisation": float(use[chosen].max()),
                }
            )
    waiting = in_calls_s
    slowest = np.lexsort((np.arange(waiting.size), -waiting))[:3]
    return {
        "makespan_s": float(makespan),
        "ranks": int(graph.n_ranks),
        "tasks": graph.n_tasks,
        "transfers": int(transfer.sum()),
        "network_bytes": float(size[away].sum()),
        "on_host_bytes": float(size[~away].sum()),
        "critical_path": {
            "compute_s": path.compute_s,
            "overhead_s": path.overhead_s,
            "transfer_s": path.transfer_s,
            "sharing_s": path.sharing_s,
            "latency_s": path.latency_s,
            "tasks": path.tasks,
        },
        "network_bound": path.network_s / makespan if makespan > 0 else 0.0,
        "lower_bound": {
            "injection_s": bounds.injection_s,
            "injection_host": bounds.injection_host,
            "cut_s": bounds.cut_s,
            "cut": bounds.cut or None,
            "compute_s": bounds.compute_s,
            "largest_s": bounds.makespan_s,
            "times_lower_bound": makespan / bounds.makespan_s if bounds.makespan_s > 0 else None,
        },
        "compute_per_rank_s": {
            "mean": float(per_rank.mean()) if per_rank.size else 0.0,
            "max": float(per_rank.max(initial=0.0)),
        },
        "in_calls_per_rank_s": {
            "mean": float(waiting.mean()) if waiting.size else 0.0,
            "max": float(waiting.max(initial=0.0)),
            "longest": [{"rank": int(r), "in_calls_s": float(waiting[r])} for r in slowest],
        },
        "last_rank": int(np.nanargmax(finish_s)) if finish_s.size and not np.isnan(finish_s).all() else -1,
        "bottleneck_links": [
            {
                "link": int(l),
                "name": topology.link_name(int(l)),
                "layer": topology.layer_names[int(topology.link_layer[l])],
                "bytes": float(result.link_bytes[l]),
                "utilisation": float(use[l]),
                "peak_bin_utilisation": float(peak[l]),
            }
            for l in order
            if result.link_bytes[l] > 0
        ],
        "layers": layers,
        "time_bin_s": result.bin_s,
        "engine": {**result.counts, "worst_link_byte_error": result.worst_link_byte_error},
    }


def _routed_bytes(graph: TaskGraph, routes: Routes) -> float:
    of_task = np.asarray(routes.of_task)
    routed = np.flatnonzero(of_task >= 0)
    return float((graph.amount[routed] * np.diff(routes.ptr)[of_task[routed]]).sum())


def screen(
    summary: Mapping[str, Any], provenance: Mapping[str, Any], wall: Mapping[str, Any], status: str
) -> list[str]:
    """The summary for a terminal, within one screen.

    Returns
    -------
    list of str
        Lines of at most 100 characters, except for long names.
    """
    s = summary
    makespan = s["makespan_s"]
    p = s["critical_path"]
    lines: list[str] = []

    def row(name: str, text: str) -> None:
        lines.append(f"  {name:<15} {text}")

    def share(seconds: float) -> str:
        return f"{100 * seconds / makespan:.1f} %" if makespan > 0 else "0 %"

    if status != "finished":
        lines.append(f"  {status.upper()} at simulated {format_time(makespan)}: everything below is partial")
    row("makespan", f"{format_time(makespan, 5)}   ({count(s['ranks'], 'rank')}, {count(s['transfers'], 'transfer')})")
    recorded = provenance.get("trace", {})
    if recorded.get("recorded_s") is not None:
        crowded = ", with more ranks than cores" if recorded["time_quality"] == "oversubscribed" else ""
        row(
            "recorded",
            f"{format_time(recorded['recorded_s'], 5)} from MPI_Init to MPI_Finalize{crowded}: with the network, MPI and noise of "
            "the machine that ran it, not those of the model",
        )
    if s["transfers"] == 0:
        row("network", "no communication")
    row(
        "network-bound",
        f"{100 * s['network_bound']:.1f} % of the critical path: transfer {share(p['transfer_s'])}, sharing {share(p['sharing_s'])}, "
        f"latency {share(p['latency_s'])}",
    )
    row("rest", f"local work {share(p['compute_s'])}, software overhead {share(p['overhead_s'])}")
    work, waited = s["compute_per_rank_s"], s["in_calls_per_rank_s"]
    if waited["max"] > 0:
        row("ranks", f"local work: mean {share(work['mean'])} of the makespan, most {share(work['max'])}")
        longest = ", ".join(f"rank {r['rank']} {share(r['in_calls_s'])}" for r in waited["longest"])
        row("", f"in calls, waiting for each other included: mean {share(waited['mean'])}; longest {longest}")
    bound = s["lower_bound"]
    if bound["times_lower_bound"] is not None:
        busiest = f", compute {format_time(bound['compute_s'])}" if bound["compute_s"] else ""
        cut = f", cut of {bound['cut']} {format_time(bound['cut_s'])}" if bound["cut"] else ""
        row(
            "lower bound",
            f"{format_time(bound['largest_s'])} for this traffic so placed (injection {format_time(bound['injection_s'])}{cut}{busiest}); "
            f"makespan is {bound['times_lower_bound']:.3g} x that",
        )
    stayed = ""
    if s["on_host_bytes"]:
        stayed = f", {format_bytes(s['on_host_bytes'])} stayed on a host{s['on_host_speed']}"
    row("bytes", f"{format_bytes(s['network_bytes'])} over the network{stayed}")
    if s.get("paths", {}).get("paths"):
        row("paths", paths_line(s["paths"], provenance))
    if s["bottleneck_links"]:
        lines.append(
            f"  {'busiest links':<15} {'mean':>7} {'peak':>7}  {'bytes':>9}  link (peak over {format_time(s['time_bin_s'])})"
        )
        for link in s["bottleneck_links"]:
            lines.append(
                f"  {'':<15} {100 * link['utilisation']:>6.2f}% {100 * link['peak_bin_utilisation']:>6.1f}%  "
                f"{format_bytes(link['bytes']):>9}  {link['name']} ({link['layer']})"
            )
    if "optics" in s:
        lines += [f"  {name:<15} {text}" for name, text in optics_lines(s["optics"])]
    if len(s["layers"]) > 1:
        parts = [
            f"{x['layer']} {100 * x['mean_utilisation']:.2f}/{100 * x['max_utilisation']:.2f} %" for x in s["layers"]
        ]
        row("layers", "mean/max use: " + ", ".join(parts))
    if "allocations_certified" in s["engine"]:
        row("certified", f"{count(s['engine']['allocations_certified'], 'rate allocation')}, all proven max-min fair")
    if wall:
        row(
            "simulated in",
            f"{format_time(wall['engine_s'])} ({wall['tasks_per_s']:,.0f} tasks/s, {wall['events_per_s']:,.0f} events/s); "
            f"all in all {format_time(wall['total_s'])}",
        )
    return lines


def paths_line(paths: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    """How the run used paths, for people."""
    text = f"routing {provenance['routing']}"
    if provenance.get("multipath", "one") != "one":
        text += f", {provenance['multipath']}"
    text += (
        f": {100 * paths['minimal_share']:.4g} % of bytes on minimal paths, {paths['mean_hops']:.3g} links in the mean"
    )
    if paths["available"] > paths["used"]:
        text += f"; {paths['used']:,} of {paths['available']:,} paths taken"
    if paths["mean_load"] > 0:
        text += f"; fullest link {paths['max_load'] / paths['mean_load']:.3g} x the mean"
    if "moves" in paths:
        text += f"; {count(paths['moves'], 'move')} under way"
    return text


def optics_lines(optics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the optical hardware did, for people: names and texts."""
    used = optics["settings"]
    rows = [
        (
            "optics",
            f"{used['method']} ({used['objective']}), knows: {used['know']}, {used['policy']}; {count(optics['ports'], 'port')}, "
            f"delay {used['delay']}",
        )
    ]
    if optics["slower"]:
        return [
            *rows,
            (
                "",
                f"left dark: with circuits {format_time(optics['with_circuits_s'], 5)}, without "
                f"{format_time(optics['electrical_only_s'], 5)}",
            ),
        ]
    if optics["circuits_set_up"] == 0:
        return [*rows, ("", "left dark: no change of circuits would have paid for its dark time")]
    rows.append(
        (
            "",
            f"{count(optics['circuits_set_up'], 'circuit')} set up in {count(optics['reconfigurations'], 'reconfiguration')}, "
            f"{format_bytes(optics['optical_bytes'])} over circuits",
        )
    )
    if optics["electrical_only_s"]:
        change = optics["with_circuits_s"] / optics["electrical_only_s"] - 1
        rows.append(
            ("", f"electrical only: {format_time(optics['electrical_only_s'], 5)}; circuits make {100 * change:+.1f} %")
        )
    return rows


def rate_text(topology: Topology) -> str:
    """Capacities of the links, for one line: ``100 Gb/s`` or ``25 to 100 Gb/s``."""
    rates = topology.link_capacity_bytes_per_s
    if rates.size == 0:
        return "no links"
    low, high = float(rates.min()), float(rates.max())
    return format_rate(low) if low == high else f"{format_rate(low)} to {format_rate(high)}"
