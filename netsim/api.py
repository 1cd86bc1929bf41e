"""What scripts call: ``replay`` a trace on a topology, ``simulate`` a task graph."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

import netsim
from netsim.core.arrays import Float64, Int32
from netsim.core.errors import InputError, StuckError
from netsim.core.text import count
from netsim.core.units import format_bytes, format_time
from netsim.engine import (
    ONE_PATH,
    CapacityChanges,
    EngineResult,
    Multipath,
    Progress,
    Rerouting,
    Routed,
    Routes,
    Simulation,
    default_multipath,
    route_graph,
)
from netsim.jobs import Placement, place
from netsim.jobs.placement import check_ranks_per_host
from netsim.optics import CircuitControl, OpticalNetwork, Optics, SwitchDemand, decider, optical_network
from netsim.results import Result
from netsim.results.carried import clock_note, settle
from netsim.results.summary import summarise
from netsim.results.tables import flow_table, link_table, op_table, rank_table
from netsim.routing import adaptive_routings, default_routing, demand_routings
from netsim.topologies import Topology, build, topologies
from netsim.traces import Trace, drop_absurd_times, read_trace, recorded_span_s
from netsim.traces.schema import FLAG, OP_CODE
from netsim.traces.times import LONGEST_S, long_gaps
from netsim.traffic import Lowered, Protocol, Workload, lower
from netsim.traffic.taskgraph import DELAY, TRANSFER, TaskGraph

if TYPE_CHECKING:
    Collectives = str | Mapping[str, str]

__all__ = ["Progress", "replay", "resolve_topology", "simulate"]

DEFAULT_BINS = 200
MOST_BINS = 1_000_000
# Gains below that are within the error of the estimate: with none, transfers move to and fro and end later.
HYSTERESIS = 0.1


def resolve_topology(topology: Topology | str, *, n_hosts: int, params: Mapping[str, object] | None = None) -> Topology:
    """A topology from an object, a name (sized to hold ``n_hosts`` unless parameters are given) or a file.

    Parameters
    ----------
    topology : Topology or str
        A registered name such as ``"dragonfly"``, or the path of an edge list or graph file.
    n_hosts : int
        Hosts needed.
    params : mapping, optional
        Parameters of the generator, as values or as text.

    Examples
    --------
    >>> resolve_topology("dragonfly", n_hosts=64).n_hosts
    72
    """
    if isinstance(topology, Topology):
        if params:
            raise InputError("topology parameters", "go with a topology given by name", got=", ".join(params))
        return topology
    from netsim.topologies import from_file, is_topology_file

    if topology not in topologies and is_topology_file(topology):
        return from_file(topology, **dict(params or {}))  # type: ignore[arg-type]
    return build(topology, n_hosts=max(n_hosts, 1), **dict(params or {}))


def replay(
    trace: Trace | Workload | str | PathLike[str],
    *,
    topology: Topology | str = "dragonfly",
    topology_params: Mapping[str, object] | None = None,
    routing: str | None = None,
    multipath: Multipath | str | None = None,
    reroute_s: float | None = None,
    hysteresis: float = HYSTERESIS,
    placement: str | Placement = "linear",
    ranks_per_host: int = 1,
    protocol: Protocol | None = None,
    collectives: Collectives = "mpich",
    gaps: Literal["auto", "recorded", "none"] = "auto",
    compute_scale: float = 1.0,
    flops_per_s: float | None = None,
    longest_gap_s: float = np.inf,
    latency_mode: Literal["tail", "head"] = "tail",
    local_bytes_per_s: float = np.inf,
    allow_incomplete: bool = False,
    steady_collectives: bool = False,
    changes: CapacityChanges | None = None,
    optics: Optics | str | None = None,
    optical_demand: SwitchDemand | None = None,
    seed: int = 0,
    bins: int = DEFAULT_BINS,
    level_tolerance: float = 0.0,
    completion_window: float = 0.0,
    certify: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Replay a trace on a network: how long, what bound it, which links were full, which ranks waited.

    Parameters
    ----------
    trace : Trace, Workload or path
        Any of the profiles ``ops``, ``flows``, ``matrix``; a workload (`netsim.traffic.workloads`) is made in memory.
    topology : Topology or str
        An object, a registered name, or a graph file. A name without parameters is sized to the trace: the smallest balanced
        instance that holds its ranks.
    topology_params : mapping, optional
        Parameters for a topology given by name.
    routing : str, optional
        Registered routing; by default that of the topology's family. Adaptive ones (``ugal-l``, ``ugal-g``, ``par``, ``adaptive``)
        choose when a transfer starts, by what is under way then.
    multipath : Multipath or str, optional
        ``"one"`` path per transfer, ``"subflows:8"``, or ``"spray:16"``. By default eight sub-flows for adaptive routings, as a model
        of fabrics that route packet by packet, else one.
    reroute_s : float, optional
        With an adaptive routing: transfers under way may move to a better path every so many simulated seconds.
    hysteresis : float
        A move must promise this part more than the present rate to expect.
    placement, ranks_per_host
        Where ranks run: see `netsim.jobs.place`.
    protocol : Protocol, optional
        Eager threshold, overheads, rendezvous.
    collectives : str or mapping of str to str
        A selection rule set (``"mpich"``, ``"openmpi"``, ``"nccl"``) or an algorithm per operation.
    gaps, compute_scale, flops_per_s
        Local work between calls: as recorded, scaled, or none: see `netsim.traffic.lower`.
    longest_gap_s : float
        Longer local work, or a longer call, is taken for a damaged clock: its times are dropped and counted. By default
        all are kept, and work of more than a day is pointed out.
    latency_mode : {"tail", "head"}
        Path latency after the last byte has left, or before the first.
    local_bytes_per_s : float
        Speed of transfers between ranks of one host, in bytes/s; inf: they take no time.
    allow_incomplete : bool
        Drop calls that some ranks lack instead of refusing the trace; they are counted.
    steady_collectives : bool
        Bulk mode: pipelined collectives as flows without steps, see `netsim.traffic.lower`.
    changes : CapacityChanges, optional
        Links that change capacity during the run.
    optics : Optics or str, optional
        Optical circuits beside the network, and who lights which: ``"eefi:ports=4,delay=10ms"``, see `netsim.optics.Optics`.
    optical_demand : SwitchDemand, optional
        What is known from earlier runs, for ``know=given``.
    seed : int
        For random placement and hashed routing.
    bins : int
        Time bins of the ``links`` table at most.
    level_tolerance, completion_window : float
        Bulk modes of the engine, as parts (0.01 is 1 %): rates follow only when a level moves by more than the tolerance, and
        completions within that part of a flow's duration are handled together. 0 is exact; see `netsim.engine.Simulation` for
        the bounds. The result says which were on.
    certify : bool
        Prove every allocation by the bottleneck certificate.
    progress : callable, optional
        Called with a `Progress` from time to time.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        Something in the input cannot be used.
    StuckError
        The run cannot finish; its ``report`` says which rank waits for what.

    Examples
    --------
    One message of 1 MB between two hosts of a 100 Gb/s star with 1 us per link: 80 us on the wire, 2 us of latency.

    >>> import netsim as ns
    >>> trace = ns.Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "send", "peer": 1, "bytes": 10**6}, {"rank": 1, "op": "recv", "peer": 0, "bytes": 10**6}])
    >>> result = ns.replay(trace, topology=ns.topologies.star(n=2, latency="1us"), protocol=ns.traffic.Protocol.ideal())
    >>> round(result.makespan_s * 1e6, 6)
    82.0
    """
    begin = time.perf_counter()
    if isinstance(trace, Workload):
        trace = trace.trace()
    recorded = trace if isinstance(trace, Trace) else read_trace(trace, allow_incomplete=allow_incomplete)
    data = drop_absurd_times(recorded, longest_s=longest_gap_s)
    long_gap_notes = [] if gaps == "none" else _long_gap_note(data)
    protocol = protocol or Protocol()
    check_ranks_per_host(ranks_per_host)
    network = resolve_topology(topology, n_hosts=-(-data.n_ranks // ranks_per_host), params=topology_params)
    where = place(placement, n_ranks=data.n_ranks, topology=network, ranks_per_host=ranks_per_host, seed=seed)
    lowered = lower(
        data,
        protocol=protocol,
        collectives=collectives,
        gaps=gaps,
        compute_scale=compute_scale,
        flops_per_s=flops_per_s,
        allow_incomplete=allow_incomplete,
        steady_collectives=steady_collectives,
    )
    run = _run(
        lowered.graph,
        topology=network,
        routing=routing,
        multipath=multipath,
        reroute_s=reroute_s,
        hysteresis=hysteresis,
        placement=where,
        per_flow_labels=data.profile == "flows",
        latency_mode=latency_mode,
        local_bytes_per_s=local_bytes_per_s,
        changes=changes,
        optics=optics,
        optical_demand=optical_demand,
        seed=seed,
        bins=bins,
        level_tolerance=level_tolerance,
        completion_window=completion_window,
        certify=certify,
        progress=progress,
    )
    if run.engine.status == "stuck":
        raise _stuck(run, lowered, data)
    provenance = _provenance(run, seed=seed)
    provenance["trace"] = {
        "sha256": recorded.content_hash,
        "profile": data.profile,
        "rows": data.n_rows,
        "ranks": data.n_ranks,
        "source": dict(data.meta.source),
        "complete": data.meta.complete,
        "recorded_s": recorded_span_s(recorded),
        "time_quality": data.meta.time_quality,
    }
    provenance["lowering"] = {
        "protocol": asdict(protocol),
        "collectives": collectives if isinstance(collectives, str) else dict(collectives),
        "gaps": gaps,
        "compute_scale": compute_scale,
        "flops_per_s": flops_per_s,
        "longest_gap_s": _plain(longest_gap_s),
        "allow_incomplete": allow_incomplete,
    }
    steady = lowered.count("steady_collectives")
    if steady:
        provenance["approximations"]["steady_collectives"] = steady
    notes = [*data.meta.notes, *long_gap_notes, *(str(note) for note in lowered.notes), *clock_note(run.engine)]
    return _result(run, begin=begin, provenance=provenance, trace=data, lowered=lowered, notes=notes)


def simulate(
    graph: TaskGraph,
    *,
    topology: Topology,
    routing: str | None = None,
    multipath: Multipath | str | None = None,
    reroute_s: float | None = None,
    hysteresis: float = HYSTERESIS,
    placement: str | Placement = "linear",
    ranks_per_host: int = 1,
    latency_mode: Literal["tail", "head"] = "tail",
    local_bytes_per_s: float = np.inf,
    priority: npt.ArrayLike | None = None,
    changes: CapacityChanges | None = None,
    optics: Optics | str | None = None,
    optical_demand: SwitchDemand | None = None,
    seed: int = 0,
    bins: int = DEFAULT_BINS,
    level_tolerance: float = 0.0,
    completion_window: float = 0.0,
    certify: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run a task graph on a topology; the other parameters are those of `replay`.

    Parameters
    ----------
    priority : array_like of int, shape (n_tasks,), optional
        0 high, 1 low: low transfers share what the high ones leave of each link.

    Examples
    --------
    >>> import netsim as ns
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = build.transfer(source=0, destination=1, size_bytes=12.5e6)
    >>> ns.simulate(build.graph(), topology=ns.topologies.star(n=2, latency=0.0)).makespan_s
    0.001
    """
    begin = time.perf_counter()
    where = place(placement, n_ranks=graph.n_ranks, topology=topology, ranks_per_host=ranks_per_host, seed=seed)
    run = _run(
        graph,
        topology=topology,
        routing=routing,
        multipath=multipath,
        reroute_s=reroute_s,
        hysteresis=hysteresis,
        placement=where,
        per_flow_labels=False,
        latency_mode=latency_mode,
        local_bytes_per_s=local_bytes_per_s,
        priority=priority,
        changes=changes,
        optics=optics,
        optical_demand=optical_demand,
        seed=seed,
        bins=bins,
        level_tolerance=level_tolerance,
        completion_window=completion_window,
        certify=certify,
        progress=progress,
    )
    if run.engine.status == "stuck":
        raise _stuck(run, None, None)
    return _result(run, begin=begin, provenance=_provenance(run, seed=seed), trace=None, lowered=None, notes=[])


def _long_gap_note(trace: Trace) -> list[str]:
    """Local work of more than a day is possible, but more often a damaged clock, and then it is the whole makespan."""
    rows, longest_s = long_gaps(trace)
    if not rows.any():
        return []
    return [
        f"{count(int(rows.sum()), 'span')} of local work longer than {format_time(LONGEST_S)}, up to {format_time(longest_s)}: "
        "kept; --longest-gap drops such (longest_gap_s)"
    ]


@dataclass(frozen=True, kw_only=True)
class _Run:
    graph: TaskGraph
    topology: Topology
    electrical: Topology
    routing: str
    multipath: Multipath
    placement: Placement
    routed: Routed
    routes: Routes
    engine: EngineResult
    paths: dict[str, Any]
    latency_mode: str
    local_bytes_per_s: float
    approximations: dict[str, float]
    lights: dict[str, Any] | None = None


def _run(
    graph: TaskGraph,
    *,
    topology: Topology,
    routing: str | None,
    multipath: Multipath | str | None,
    reroute_s: float | None,
    hysteresis: float,
    placement: Placement,
    per_flow_labels: bool,
    latency_mode: str,
    local_bytes_per_s: float,
    changes: CapacityChanges | None,
    optics: Optics | str | None,
    optical_demand: SwitchDemand | None,
    seed: int,
    bins: int,
    level_tolerance: float,
    completion_window: float,
    certify: bool,
    progress: Callable[[Progress], None] | None,
    priority: npt.ArrayLike | None = None,
) -> _Run:
    name = default_routing(topology) if routing is None else routing
    if bins > MOST_BINS:
        raise InputError("time bins", f"must be an even number from 0 to {MOST_BINS}", got=bins)
    several = Multipath.parse(multipath) if isinstance(multipath, str) else multipath
    if several is None:
        several = default_multipath(name) if optics is None else ONE_PATH
    if optics is not None and (several.paths > 1 or name in demand_routings):
        raise InputError(
            "multipath", "does not go with optics", got=f"routing {name}, {several}", remedy="take one path"
        )
    if reroute_s is not None and (name not in adaptive_routings or optics is not None):
        raise InputError(
            "rerouting",
            "needs an adaptive routing, and no optics",
            got=f"routing {name}{'' if optics is None else ' with optics'}",
            remedy=f"take one of {', '.join(adaptive_routings)}",
        )
    # Circuits move transfers themselves: they fall back to one route that is known beforehand.
    routed = route_graph(
        graph,
        topology,
        routing=name,
        host=placement.host,
        multipath=several,
        choose=optics is None,
        seed=seed,
        per_flow_labels=per_flow_labels,
    )
    routes = routed.routes
    moving = None if reroute_s is None else Rerouting(period_s=reroute_s, hysteresis=hysteresis)
    if routed.multi is not None and priority is not None:
        priority = routed.multi.spread(priority)
    if optics is None and optical_demand is not None:
        raise InputError("optical demand", "goes with optics", got="none")
    network = topology
    lights: dict[str, Any] | None = None

    def simulation(of: Topology, along: Routes) -> Simulation:
        return Simulation(
            graph=routed.graph,
            routes=along,
            capacity_bytes_per_s=of.link_capacity_bytes_per_s,
            latency_mode=latency_mode,
            local_bytes_per_s=local_bytes_per_s,
            weight=None if routed.multi is None else routed.multi.weight,
            priority=priority,
            changes=changes,
            bins=bins,
            level_tolerance=level_tolerance,
            completion_window=completion_window,
            certify=certify,
        )

    def electrical_only() -> EngineResult:
        found = simulation(topology, routes).run(
            progress=progress, controller=None if moving is None else moving.control
        )
        if moving is not None and moving.moves:
            # Bytes lie on several routes: what the engine counted stands.
            return found
        return settle(
            found,
            graph=routed.graph,
            routes=routed.taken(found),
            capacity_bytes_per_s=topology.link_capacity_bytes_per_s,
            changes=changes,
        )

    if optics is None:
        engine = electrical_only()
    else:
        settings = Optics.parse(optics) if isinstance(optics, str) else optics
        switches = settings.switches(topology, seed=seed)
        hardware = optical_network(topology, switches)
        # Knowledge of what comes when is that of a run without circuits; it is also what circuits are measured by.
        pilot = None if settings.know == "measured" else electrical_only()
        if pilot is not None and pilot.status == "interrupted":
            # Ctrl-C ends the run, not its first half.
            engine = pilot
        else:
            engine, lights = _with_circuits(
                graph, placement.host, routes, hardware, settings, optical_demand, pilot, simulation, progress, seed
            )
            if pilot is not None and lights["slower"]:
                engine = pilot
            else:
                network = hardware.topology
    path_use = routed.use(topology, engine)
    if moving is not None:
        path_use["moves"] = moving.moves
    return _Run(
        graph=graph,
        topology=network,
        electrical=topology,
        lights=lights,
        routing=name,
        multipath=several,
        placement=placement,
        routed=routed,
        routes=routed.taken_by_whole(engine, graph.n_tasks),
        engine=engine if routed.multi is None else routed.multi.fold(engine),
        paths=path_use,
        latency_mode=latency_mode,
        local_bytes_per_s=local_bytes_per_s,
        approximations={
            name: part
            for name, part in (("level_tolerance", level_tolerance), ("completion_window", completion_window))
            if part > 0
        },
    )


def _with_circuits(
    graph: TaskGraph,
    host: Int32,
    routes: Routes,
    hardware: OpticalNetwork,
    settings: Optics,
    demand: SwitchDemand | None,
    pilot: EngineResult | None,
    simulation: Callable[[Topology, Routes], Simulation],
    progress: Callable[[Progress], None] | None,
    seed: int,
) -> tuple[EngineResult, dict[str, Any]]:
    """Run with circuits; what the hardware did, and whether that was slower than without (only then is the pilot's outcome taken)."""
    finite = np.isfinite(settings.window_s)
    control = CircuitControl(
        network=hardware,
        graph=graph,
        host=host,
        routes=routes,
        decide=decider(
            settings,
            hardware.switches,
            pilot_start_s=None if pilot is None else pilot.start_s,
            demand=demand,
        ),
        times_s=None if finite else np.zeros(1),
        period_s=settings.window_s if finite else None,
        policy=settings.policy,
        seed=seed,
    )
    # A row per port that nothing takes at first, so that the links of ports have time bins too.
    port = np.arange(hardware.first_link, hardware.topology.n_links)
    seen = Routes(
        of_task=routes.of_task,
        ptr=np.concatenate([routes.ptr, routes.ptr[-1] + 1 + np.arange(port.size)]),
        link=np.concatenate([routes.link, port.astype(routes.link.dtype)]),
        latency_s=np.concatenate([routes.latency_s, np.zeros(port.size)]),
    )
    engine = simulation(hardware.topology, seen).run(progress=progress, controller=control.control)
    control.finish(engine.now_s)
    log = control.log
    optical = engine.link_bytes[hardware.first_link :]
    lights = {
        "settings": settings.to_dict(),
        "ports": hardware.n_ports,
        "reconfigurations": log.reconfigurations,
        "circuits_set_up": log.set_up,
        "circuits_torn_down": log.torn_down,
        "circuits_most": log.most,
        "circuits_refused": log.refused,
        "dark_s": log.dark_s,
        "lit_s": log.lit_s,
        "optical_bytes": float(optical.sum() / 2),
        "moved_transfers": log.moved_transfers,
        "electrical_only_s": None,
        "slower": False,
    }
    if pilot is not None and pilot.status == engine.status == "finished":
        lights["electrical_only_s"] = pilot.makespan_s
        lights["with_circuits_s"] = engine.makespan_s
        lights["slower"] = bool(settings.what_if and engine.makespan_s > pilot.makespan_s)
    return engine, lights


def _provenance(run: _Run, *, seed: int) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "netsim": netsim.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
        "pyarrow": version("pyarrow"),
        "topology": {
            "family": run.electrical.family,
            "params": {key: _plain(value) for key, value in run.electrical.params.items()},
            "sha256": run.electrical.content_hash,
            "hosts": run.electrical.n_hosts,
            "switches": run.electrical.n_switches,
            "links": run.electrical.n_links,
        },
        "routing": run.routing,
        "multipath": str(run.multipath),
        "placement": {"name": run.placement.name, "idle_hosts": run.placement.idle_hosts(run.electrical.n_hosts)},
        "latency_mode": run.latency_mode,
        "local_bytes_per_s": _plain(run.local_bytes_per_s),
        "seed": seed,
        "approximations": run.approximations,
        "model": f"flow level, {'approximate' if run.approximations else 'exact'} max-min sharing; "
        "no packets, queues, losses or congestion control: says nothing about tails, incast or messages far below 10 kB",
    }


def _plain(value: Any) -> Any:
    """A value that JSON can hold and read back."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(v) for v in value]
    return _plain(value.item()) if isinstance(value, np.generic) else str(value)


def _moments(run: _Run, lowered: Lowered | None) -> tuple[Float64, Float64]:
    if lowered is None:
        return np.empty(0), np.empty(0)
    return run.engine.end_s[lowered.op_enter], run.engine.start_s[lowered.op_leave]


def _result(
    run: _Run,
    *,
    begin: float,
    provenance: dict[str, Any],
    trace: Trace | None,
    lowered: Lowered | None,
    notes: list[str],
) -> Result:
    graph, engine = run.graph, run.engine
    enter, leave = _moments(run, lowered)
    if lowered is None or trace is None or trace.profile != "ops":
        is_compute = graph.kind == DELAY
        serial = False
        in_calls: Float64 = np.zeros(graph.n_ranks)
        finish = _last_moment(graph, engine)
    else:
        is_compute = np.zeros(graph.n_tasks, dtype=bool)
        is_compute[lowered.op_enter] = True
        # One chain of calls per rank: no second stream, no call that skips the queue.
        serial = not trace.column("stream").any() and not (trace.column("flags") & FLAG["unchained"]).any()
        rank = trace.column("rank").astype(np.int64)
        # An op entered and never left has been in the call until now.
        span = np.where(np.isnan(enter), 0.0, np.where(np.isnan(leave), engine.now_s, leave) - enter)
        compute_row = trace.column("op") == OP_CODE["compute"]
        in_calls = np.bincount(rank[~compute_row], weights=span[~compute_row], minlength=graph.n_ranks).astype(
            np.float64
        )
        finish = np.full(graph.n_ranks, np.nan)
        np.fmax.at(finish, rank, leave)
    summary = summarise(
        graph=graph,
        result=engine,
        routes=run.routes,
        topology=run.topology,
        host=run.placement.host,
        is_compute=is_compute,
        in_calls_s=in_calls,
        finish_s=finish,
        serial=serial,
        rerouted=run.topology is not run.electrical or not run.routed.fixed,
    )
    summary["paths"] = run.paths
    if run.paths["detours"] and run.paths["minimal_share"] == 1:
        notes = [*notes, f"routing {run.routing} never left the minimal paths: no detour promised more than they did"]
    if run.lights is not None:
        summary["optics"] = run.lights
    free = run.local_bytes_per_s == np.inf
    summary["on_host_speed"] = (
        " (in no time; see --local-rate)" if free else f" (at {format_bytes(run.local_bytes_per_s)}/s)"
    )
    summary["notes"] = notes
    tables = {
        "ops": op_table(trace, enter, leave),
        "flows": flow_table(graph, engine, run.routes, run.placement.host),
        "links": link_table(run.topology, engine),
        "ranks": rank_table(
            graph=graph, host=run.placement.host, is_compute=is_compute, in_calls_s=in_calls, finish_s=finish
        ),
    }
    engine_s = max(engine.wall_s, 1e-9)
    wall = {
        "engine_s": engine.wall_s,
        "total_s": time.perf_counter() - begin,
        "tasks_per_s": graph.n_tasks / engine_s,
        "events_per_s": engine.counts["events"] / engine_s,
    }
    return Result(status=engine.status, summary=summary, tables=tables, provenance=provenance, wall=wall)


def _last_moment(graph: TaskGraph, engine: EngineResult) -> Float64:
    finish = np.full(graph.n_ranks, np.nan)
    np.fmax.at(finish, graph.rank, engine.end_s)
    np.fmax.at(finish, graph.peer, engine.end_s)
    return finish


def _stuck(run: _Run, lowered: Lowered | None, trace: Trace | None) -> StuckError:
    """Say which rank waits for what: the call each unfinished rank has entered and not left."""
    engine, graph = run.engine, run.graph
    left = int(np.isnan(engine.end_s).sum())
    report: list[str] = []
    blocked = 0
    if lowered is not None and trace is not None and trace.profile == "ops":
        enter, leave = _moments(run, lowered)
        inside = np.flatnonzero(~np.isnan(enter) & np.isnan(leave))
        rank, seq = trace.column("rank"), trace.column("seq")
        codes, names = trace.labels("op")
        comm, peer, tag, size = (trace.column(name) for name in ("comm", "peer", "tag", "bytes"))
        blocked = int(np.unique(rank[inside]).size)
        for row in inside:
            op = names[codes[row]]
            waits = _waits_for(op, int(peer[row]), trace.comms.name[int(comm[row])])
            report.append(
                f"rank {rank[row]}, op {seq[row]} {op}, communicator {trace.comms.name[int(comm[row])]}, "
                f"peer {peer[row] if peer[row] >= 0 else '-'}, tag {tag[row] if tag[row] >= 0 else '-'}, "
                f"{format_bytes(float(size[row]))}: {waits}"
            )
    else:
        for task in np.flatnonzero(np.isnan(engine.end_s))[:50]:
            what = "transfer" if graph.kind[task] == TRANSFER else "delay"
            begun = (
                "crosses a link of capacity 0"
                if not np.isnan(engine.start_s[task])
                else "waits for tasks that never ended"
            )
            report.append(f"task {task}, {what}, rank {graph.rank[task]} to {graph.peer[task]}: {begun}")
        blocked = int(np.unique(graph.rank[np.isnan(engine.end_s)]).size)
    error = StuckError(
        "replay" if lowered is not None else "simulation",
        f"cannot finish: at {engine.now_s:.9g} s nothing more can happen",
        got=f"{left} of {count(graph.n_tasks, 'task')} not done, {count(blocked, 'rank')} waiting",
        remedy="the report names what each rank waits for",
    )
    error.report = report
    return error


def _waits_for(op: str, peer: int, comm: str) -> str:
    if op == "recv":
        return f"waits for a message from rank {peer}" if peer >= 0 else "waits for a message"
    if op == "send":
        return f"waits for rank {peer} to receive"
    if op in ("wait", "test"):
        return "waits for requests that never complete"
    return f"waits for the other members of {comm}"
