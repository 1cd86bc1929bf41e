"""From a task graph and a named routing to what the engine runs: one route, a choice of routes or several paths per transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.core.arrays import Int32, Int64, csr_gather, csr_ptr, distinct_rows, frozen
from netsim.core.errors import InputError
from netsim.engine.inputs import Choices, Routes
from netsim.engine.multipath import MultiPath, PathSets, spray, sub_flows
from netsim.engine.simulation import EngineResult
from netsim.routing import (
    Candidates,
    Paths,
    adaptive_routings,
    candidates,
    demand_routings,
    path_latency,
    path_use,
    routings,
)
from netsim.routing import paths as route_paths
from netsim.routing import subflows as draw_subflows
from netsim.routing.fluid import Transport
from netsim.routing.multipath import sub_labels
from netsim.routing.patterns import switch_of_hosts
from netsim.topologies import Topology
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["ONE_PATH", "Multipath", "Routed", "default_multipath", "route_graph"]

MOST_PATHS = 4096
# Bytes of a packet (the largest InfiniBand MTU; Slingshot's is 9000): what is smaller than one on each path takes one path.
PACKET_BYTES = 4096
KINDS = ("one", "subflows", "spray")


@dataclass(frozen=True)
class Multipath:
    """How many paths a transfer has, and how it uses them.

    Attributes
    ----------
    kind : {"one", "subflows", "spray"}
        Sub-flows share links each for itself, and the last one ends the transfer; a spray sends fixed parts, at the pace of its
        slowest path.
    paths : int
        Per transfer; drawn by the routing, so that some may coincide. Transfers of less than 4 KiB for each path take one.

    Examples
    --------
    >>> Multipath.parse("subflows:8"), str(Multipath.parse("one"))
    (Multipath(kind='subflows', paths=8), 'one')
    """

    kind: str = "one"
    paths: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError("multipath", f"must be one of {', '.join(KINDS)}", got=repr(self.kind))
        if not 1 <= self.paths <= MOST_PATHS:
            raise InputError("multipath", f"must be 1 to {MOST_PATHS} paths", got=self.paths)

    @classmethod
    def parse(cls, text: str) -> Multipath:
        """From ``one``, ``subflows:8`` or ``spray:16``."""
        kind, colon, number = text.partition(":")
        if kind == "one" and not colon:
            return cls()
        if kind not in KINDS[1:] or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise InputError("multipath", "must be one, subflows:PATHS or spray:PATHS", got=repr(text))
        return cls(kind, int(number))

    def __str__(self) -> str:
        return self.kind if self.kind == "one" else f"{self.kind}:{self.paths}"


ONE_PATH = Multipath()


def default_multipath(routing: str) -> Multipath:
    """Eight sub-flows for adaptive routings, else one path per transfer.

    Fabrics that route adaptively (Slingshot, Aries, InfiniBand) decide packet by packet, so that a message uses many paths. One path per
    transfer understates them: 0.31 instead of 0.47 of the injection bandwidth on a dragonfly of h=3 under adv+1 with
    Valiant detours, while 8 sub-flows give 0.46. ECMP and other hashing keep one path per flow.

    >>> str(default_multipath("ugal-l")), str(default_multipath("ecmp"))
    ('subflows:8', 'one')
    """
    return Multipath("subflows", 8) if routing in adaptive_routings else ONE_PATH


@dataclass(frozen=True, kw_only=True, eq=False)
class Routed:
    """What the engine runs, and how to read its result.

    Attributes
    ----------
    graph : TaskGraph
        With the parts of split transfers.
    routes : Routes
        Of that graph.
    shown : Routes
        Of the transfers as given: their route, or that of their first part before anything was chosen.
    multi : MultiPath, optional
        How transfers were split or sprayed.
    sets : PathSets, optional
    """

    graph: TaskGraph
    routes: Routes
    shown: Routes
    multi: MultiPath | None = None
    sets: PathSets | None = None

    @property
    def fixed(self) -> bool:
        """Is the route of every transfer known beforehand, and the only one?"""
        return self.multi is None and self.routes.choices is None

    def taken(self, result: EngineResult) -> Routes:
        """The routes that tasks of the run took at last."""
        return replace(self.routes, of_task=result.route) if result.route.size else self.routes

    def taken_by_whole(self, result: EngineResult, n_tasks: int) -> Routes:
        """Routes of the transfers as given, as far as one row can say it: of the first part of split ones."""
        if self.multi is not None and self.multi.routes.use is not None:
            return self.shown
        return replace(self.taken(result), of_task=self.taken(result).of_task[:n_tasks], choices=None)

    def use(self, topology: Topology, result: EngineResult) -> dict[str, Any]:
        """How the run used paths, by the bytes of all transfers: see `netsim.routing.path_use`, and besides

        ``used``, ``available``: different paths taken, and those there were to choose from, over all pairs of ranks that sent something;
        ``detours``: how many of the latter were longer than the first.
        """
        of_task, amount = np.asarray(self.routes.of_task), self.graph.amount
        some = np.flatnonzero((of_task >= 0) & (amount > 0))
        detours = 0
        if self.sets is not None and self.routes.use is not None:
            # A spray sends over all paths of its set.
            sets = np.bincount(of_task[some], weights=amount[some], minlength=self.sets.set_ptr.size - 1)
            row_bytes = np.repeat(sets, np.diff(self.sets.set_ptr)) * self.sets.parts()
            row = np.flatnonzero(row_bytes)
            ptr, link, weight = self.sets.ptr, self.sets.link, row_bytes[row]
            used = available = row.size
        else:
            last = np.asarray(self.taken(result).of_task)[some]
            pair, at = np.unique(of_task[some].astype(np.int64) * self.routes.ptr.size + last, return_inverse=True)
            weight = np.bincount(at, weights=amount[some], minlength=pair.size).astype(np.float64)
            row, ptr, link = pair % self.routes.ptr.size, self.routes.ptr, self.routes.link
            used, offered = pair.size, np.unique(pair // self.routes.ptr.size)
            available = offered.size
            choices = self.routes.choices
            if choices is not None:
                available = int(np.maximum(np.diff(choices.ptr)[offered], 1).sum())
                each, at = csr_gather(choices.ptr, offered)
                hops = np.diff(self.routes.ptr)
                detours = int((hops[choices.row[at]] > np.repeat(hops[offered], np.diff(each))).sum())
        new_ptr, hop = csr_gather(ptr, row)
        routes = Paths(ptr=new_ptr, link=link[hop])
        first, end = (
            (routes.link[new_ptr[:-1]], routes.link[new_ptr[1:] - 1]) if row.size else (routes.link, routes.link)
        )
        found = path_use(topology, routes, topology.link_src[first], topology.link_dst[end], weight=weight)
        return {"used": int(used), "available": int(available), "detours": detours, **found}


def route_graph(
    graph: TaskGraph,
    topology: Topology,
    *,
    routing: str,
    host: Int32,
    multipath: Multipath = ONE_PATH,
    choose: bool = True,
    seed: int = 0,
    per_flow_labels: bool = False,
) -> Routed:
    """Routes of all transfers between different hosts.

    Parameters
    ----------
    graph : TaskGraph
    topology : Topology
    routing : str
    host : int32 array, shape (n_ranks,)
    multipath : Multipath
    choose : bool
        Adaptive routings decide when a transfer starts; without, once and for all, as if all pairs were there together.
    seed : int
    per_flow_labels : bool
        Hash each transfer by itself (flow lists). Else all messages of a pair of ranks hash alike, and choose among the same
        paths: MPI and NCCL keep one connection per pair.
    """
    transfer = np.flatnonzero(graph.kind == TRANSFER)
    src, dst = graph.rank[transfer].astype(np.int64), graph.peer[transfer].astype(np.int64)
    away = host[src] != host[dst]
    transfer, src, dst = transfer[away], src[away], dst[away]
    of_task = np.full(graph.n_tasks, -1, np.int32)
    if per_flow_labels:
        label: Int64 = graph.op[transfer].astype(np.int64)
        of_task[transfer] = np.arange(transfer.size)
    else:
        label, row = distinct_rows(src * graph.n_ranks + dst, graph.n_ranks**2)
        src, dst = label // graph.n_ranks, label % graph.n_ranks
        of_task[transfer] = row
    start, end, k = host[src].astype(np.int64), host[dst].astype(np.int64), multipath.paths
    if not transfer.size and any(routing in known for known in (routings, adaptive_routings, demand_routings)):
        nothing = _routes(topology, Paths.joined([]), of_task)
        return Routed(graph=graph, routes=nothing, shown=nothing)
    if routing in demand_routings:
        if multipath != ONE_PATH:
            raise InputError(
                "multipath",
                f"is part of routing {routing}",
                got=str(multipath),
                remedy="leave the number of paths to it",
            )
        return _made_for_demand(graph, topology, routing, of_task, start, end)
    adaptive = choose and routing in adaptive_routings
    if k == 1 and not adaptive:
        found = route_paths(topology, start, end, routing=routing, flow=label, seed=seed)
        routes = _routes(topology, found, of_task).shared()
        return Routed(graph=graph, routes=routes, shown=routes)
    # Each pair has k paths, and once more the first of them for transfers too small to split.
    first = np.arange(start.size, dtype=np.int64) * k
    again = first if k > 1 else first[:0]
    if not adaptive:
        found = draw_subflows(topology, start, end, k=k, routing=routing, flow=label, seed=seed)
        found = found.take(np.concatenate([np.arange(len(found)), again]))
        extra, choices = found.take(again[:0]), None
    else:
        if multipath.kind == "spray":
            raise InputError(
                "multipath spray",
                "sends fixed parts over paths drawn beforehand",
                got=f"routing {routing}, which chooses",
                remedy="take subflows",
            )
        offered = candidates(
            topology, np.repeat(start, k), np.repeat(end, k), routing=routing, flow=sub_labels(label, k), seed=seed
        )
        found, extra, choices = _alternatives(offered, again)
    own = _routes(topology, found, of_task)
    if k == 1:
        return Routed(graph=graph, routes=_with_more(topology, own, extra, choices), shown=own)
    small = (of_task >= 0) & (graph.amount < k * PACKET_BYTES)
    sets = PathSets(
        of_task=np.where(small, of_task + start.size, of_task).astype(np.int32),
        set_ptr=np.concatenate([np.append(first, first.size * k), first.size * k + 1 + np.arange(first.size)]),
        ptr=own.ptr,
        link=own.link,
        latency_s=own.latency_s,
    )
    shown = replace(own, of_task=np.where(of_task >= 0, of_task * k, -1).astype(np.int32))
    multi = spray(graph, sets) if multipath.kind == "spray" else sub_flows(graph, sets, share=choices is None)
    routes = _with_more(topology, multi.routes, extra, choices)
    return Routed(graph=multi.graph, routes=routes, shown=shown, multi=multi, sets=sets)


def _made_for_demand(
    graph: TaskGraph, topology: Topology, routing: str, of_task: Int32, start: Int64, end: Int64
) -> Routed:
    """Weighted paths for what the whole run sends between switches; a transfer is divided as its pair of switches is."""
    some = np.flatnonzero(of_task >= 0)
    sent = np.bincount(of_task[some], weights=graph.amount[some], minlength=start.size).astype(np.float64)
    home = switch_of_hosts(topology)
    # Pairs that send nothing but empty messages still need a path.
    key, row = np.unique(home[start] * topology.n_vertices + home[end], return_inverse=True)
    u, v = np.divmod(key, topology.n_vertices)
    amount = np.bincount(row, weights=np.maximum(sent, 1.0), minlength=key.size).astype(np.float64)
    apart = np.flatnonzero(u != v)
    moved = Transport(
        source=frozen(u[apart], np.int64),
        destination=frozen(v[apart], np.int64),
        amount_bytes_per_s=frozen(amount[apart], np.float64),
        host_load_bytes_per_s=frozen(np.zeros(topology.n_links), np.float64),
        total_bytes_per_s=float(amount.sum()),
    )
    found = demand_routings[routing](topology, moved)
    count = np.ones(key.size, np.int64)
    count[apart] = np.diff(found.ptr)
    first = np.zeros(key.size, np.int64)
    first[apart] = found.ptr[:-1]
    # Each pair of hosts: the paths of its pair of switches between its own two links; and once more the heaviest, for small transfers.
    heavy = np.zeros(key.size, np.int64)
    for i, pair in enumerate(apart.tolist()):
        heavy[pair] = int(np.argmax(found.share[found.ptr[i] : found.ptr[i + 1]]))
    whole = np.repeat(np.arange(start.size), count[row])
    place = np.arange(whole.size) - np.repeat(csr_ptr(count[row])[:-1], count[row])
    owner = np.concatenate([whole, np.arange(start.size)])
    inner = first[row[owner]] + np.concatenate([place, heavy[row]])
    across = u[row[owner]] != v[row[owner]]
    share = np.ones(owner.size)
    share[: whole.size][across[: whole.size]] = found.share[inner[: whole.size][across[: whole.size]]]
    hops = np.where(across, np.diff(found.paths.ptr)[np.where(across, inner, 0)] if len(found.paths) else 0, 0)
    ptr = csr_ptr(hops + 2)
    link = np.empty(ptr[-1], dtype=np.int32)
    link[ptr[:-1]] = topology.out_link[topology.out_ptr[start[owner]]]
    link[ptr[1:] - 1] = topology.in_link[topology.in_ptr[end[owner]]]
    _, at = csr_gather(found.paths.ptr, inner[across])
    link[np.repeat(ptr[:-1][across] + 1, hops[across]) + _places(hops[across])] = found.paths.link[at]
    own = _routes(topology, Paths(ptr=ptr, link=link), of_task)
    paths_of = count[row]
    small = (of_task >= 0) & (graph.amount < paths_of[np.maximum(of_task, 0)] * PACKET_BYTES)
    sets = PathSets(
        of_task=np.where(small, of_task + start.size, of_task).astype(np.int32),
        set_ptr=np.concatenate([csr_ptr(paths_of), whole.size + 1 + np.arange(start.size)]),
        ptr=own.ptr,
        link=own.link,
        latency_s=own.latency_s,
        share=share,
        weight=share,
    )
    shown = replace(own, of_task=np.where(of_task >= 0, csr_ptr(paths_of)[np.maximum(of_task, 0)], -1).astype(np.int32))
    multi = sub_flows(graph, sets)
    return Routed(graph=multi.graph, routes=multi.routes, shown=shown, multi=multi, sets=sets)


def _places(counts: Int64) -> Int64:
    """0..count-1 for each count, one after the other."""
    places: Int64 = np.arange(int(counts.sum())) - np.repeat(csr_ptr(counts)[:-1], counts)
    return places


def _alternatives(offered: Candidates, again: Int64) -> tuple[Paths, Paths, Choices]:
    """The first path of each flow, and of some once more; all others; and who chooses among which."""
    own = np.zeros(len(offered.paths), dtype=bool)
    own[offered.ptr[:-1]] = True
    n_flows, n_first = offered.ptr.size - 1, offered.ptr.size - 1 + again.size
    row = np.where(own, np.cumsum(own) - 1, n_first + np.cumsum(~own) - 1)
    ptr, at = csr_gather(offered.ptr, np.concatenate([np.arange(n_flows), again]))
    alternative, stage = row[at], offered.stage[at]
    alternative[ptr[n_flows:-1]] = np.arange(n_flows, n_first)
    found = offered.paths.take(np.flatnonzero(own))
    extra = offered.paths.take(np.flatnonzero(~own))
    count = np.concatenate([np.diff(ptr), np.zeros(len(extra), np.int64)])
    choices = Choices(ptr=csr_ptr(count), row=alternative.astype(np.int32), rule=offered.rule, stage=stage)
    return found.take(np.concatenate([np.arange(n_flows), again])), extra, choices


def _routes(topology: Topology, found: Paths, of_task: Int32) -> Routes:
    return Routes(of_task=of_task, ptr=found.ptr, link=found.link, latency_s=path_latency(topology, found))


def _with_more(topology: Topology, routes: Routes, extra: Paths, choices: Choices | None) -> Routes:
    if choices is None:
        return routes
    return replace(
        routes,
        ptr=np.concatenate([routes.ptr, routes.ptr[-1] + extra.ptr[1:]]),
        link=np.concatenate([routes.link, extra.link]),
        latency_s=np.concatenate([routes.latency_s, path_latency(topology, extra)]),
        choices=choices,
    )
