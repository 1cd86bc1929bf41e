"""Transfers over several paths: as sub-flows that share links each for itself, or sprayed as one flow over all of them.

Both doors turn (graph, paths of each transfer) into (graph, routes) for the one solver; `MultiPath.fold` turns the result back.

- `sub_flows` (MP-k): a transfer becomes one transfer per path, each with its part of the bytes and a rate of its own; it ends when
  the last of them ends. Paths do not know of each other: a transfer with k paths over one link gets k shares of it.
- `spray` (coupled): one rate; each path carries a fixed part of it, as packet spraying does. The slowest path holds back all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64
from netsim.core.errors import InputError
from netsim.engine.inputs import Routes
from netsim.engine.simulation import EngineResult
from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_END, DELAY, TaskGraph

__all__ = ["MultiPath", "PathSets", "spray", "sub_flows"]


@dataclass(frozen=True, kw_only=True)
class PathSets:
    """The paths of every transfer; transfers may share a set.

    Attributes
    ----------
    of_task : int32 array, shape (n_tasks,)
        Row of ``set_ptr``; -1 for delays and for transfers that stay on their host.
    set_ptr : int64 array, shape (s+1,)
        Set i has the paths ``set_ptr[i] .. set_ptr[i+1] - 1``, one or more.
    ptr, link : int64 array, shape (m+1,); int32 array, shape (hops,)
        Links of each path.
    latency_s : float64 array, shape (m,)
    share : float64 array, shape (m,), optional
        Part of the bytes that goes over each path, above 0; scaled to add up to 1 in each set. Equal parts by default.
    weight : float64 array, shape (m,), optional
        For `sub_flows`: weight of the sub-flow on each path, times that of its transfer; 1 by default.
    """

    of_task: Int32
    set_ptr: Int64
    ptr: Int64
    link: Int32
    latency_s: Float64
    share: Float64 | None = None
    weight: Float64 | None = None

    def __post_init__(self) -> None:
        sets, paths = np.asarray(self.set_ptr), np.asarray(self.ptr)
        n_sets, n = sets.size - 1, paths.size - 1
        if n_sets < 0 or sets[0] != 0 or sets[-1] != n or (np.diff(sets) < 1).any():
            raise InputError("path sets", f"must each have one or more of the {n} paths, all of them in order")
        if paths[0] != 0 or paths[-1] != np.asarray(self.link).size or (np.diff(paths) < 1).any():
            raise InputError("path sets", "paths must have one link or more, ptr from 0 to the number of hops")
        of_task = np.asarray(self.of_task)
        if of_task.size and (of_task.min() < -1 or of_task.max() >= n_sets):
            raise InputError("path sets", f"must be -1 or one of {n_sets} sets", got=int(of_task.max()))
        for name in ("share", "weight"):
            values = getattr(self, name)
            if values is not None and (
                np.shape(values) != (n,) or not (np.isfinite(values) & (np.asarray(values) > 0)).all()
            ):
                raise InputError("path sets", f"need one finite {name} above 0 per path")

    def parts(self) -> Float64:
        """Part of the bytes on each path, shape (m,).

        Examples
        --------
        >>> PathSets(of_task=np.array([0]), set_ptr=np.array([0, 2]), ptr=np.array([0, 1, 2]), link=np.array([0, 1]),
        ...          latency_s=np.zeros(2), share=np.array([1.0, 3.0])).parts().tolist()
        [0.25, 0.75]
        """
        length = np.diff(self.set_ptr)
        share = np.ones(self.ptr.size - 1) if self.share is None else np.asarray(self.share, dtype=np.float64)
        of_path = np.repeat(np.arange(length.size), length)
        total = np.bincount(of_path, weights=share, minlength=length.size)
        parts: Float64 = share / total[of_path]
        return parts


@dataclass(frozen=True, kw_only=True)
class MultiPath:
    """What to run, and how to read the result. Original tasks keep their numbers; parts and joins follow.

    Attributes
    ----------
    graph : TaskGraph
    routes : Routes
    origin : int32 array, shape (n',)
        Original task of each task.
    part : float64 array, shape (n',)
        Part of the original transfer's bytes; 1 for whole ones, 0 for joins.
    weight : float64 array, shape (n',), optional
        For ``Simulation(weight=)``.
    n_tasks : int
        Number of original tasks.
    """

    graph: TaskGraph
    routes: Routes
    origin: Int32
    part: Float64
    weight: Float64 | None
    n_tasks: int

    def spread(self, values: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Values per original task as values per task: priorities; times ``part`` for rate caps of the whole."""
        return np.asarray(values)[self.origin]

    def fold(self, result: EngineResult) -> EngineResult:
        """The result in terms of the original tasks: a transfer drains and ends with its last part, and fails with its first.

        Bytes per link are those of the run.
        """
        n = self.n_tasks
        if self.origin.size == n:
            return result
        real = self.part > 0

        # A delay has part 1, so that joins alone are left out.
        def latest(moments: Float64) -> Float64:
            # A part without the moment keeps the whole from it.
            last = np.full(n, -np.inf)
            np.maximum.at(last, self.origin[real], np.where(np.isnan(moments[real]), np.inf, moments[real]))
            return np.where(np.isinf(last), np.nan, last)

        released = np.asarray(result.critical)[:n]
        critical = np.where(released >= 0, self.origin[released], -1).astype(np.int32)
        failed, which = np.unique(self.origin[result.failed], return_inverse=True)
        failed_s = np.full(failed.size, np.inf)
        np.minimum.at(failed_s, which, result.failed_s)
        return replace(
            result,
            start_s=result.start_s[:n],
            drain_s=latest(result.drain_s),
            end_s=latest(result.end_s),
            critical=critical,
            failed=failed.astype(np.int32),
            failed_s=failed_s,
            unsent_bytes=np.bincount(which, weights=result.unsent_bytes, minlength=failed.size).astype(np.float64),
        )


def sub_flows(
    graph: TaskGraph, sets: PathSets, *, weight: npt.ArrayLike | None = None, share: bool = True
) -> MultiPath:
    """Split each transfer over its paths, with a rate of its own on each.

    Parameters
    ----------
    graph : TaskGraph
    sets : PathSets
    weight : array_like of float, shape (n_tasks,), optional
        Weights of the original transfers.
    share : bool
        Give equal paths one row of the routes; without, row i is path i of ``sets``.

    Notes
    -----
    What waits for the end or the drain of a split transfer waits for a join of no duration, which waits for all parts: edges grow
    by the number of paths, not by its square.

    Examples
    --------
    Links A and B of 10 bytes/s. The first transfer may use both, the second only A: 15 and 5 bytes/s.

    >>> from netsim.engine import Simulation
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = [build.transfer(source=0, destination=1, size_bytes=size) for size in (150, 50)]
    >>> sets = PathSets(of_task=np.array([0, 1]), set_ptr=np.array([0, 2, 3]), ptr=np.array([0, 1, 2, 3]), link=np.array([0, 1, 0]),
    ...                 latency_s=np.zeros(3), share=np.array([1, 2, 1]))
    >>> both = sub_flows(build.graph(), sets)
    >>> both.fold(Simulation(graph=both.graph, routes=both.routes, capacity_bytes_per_s=[10, 10]).run()).end_s.tolist()
    [10.0, 10.0]
    """
    n = graph.n_tasks
    of_task = _checked(graph, sets)
    routed = np.flatnonzero(of_task >= 0)
    length = np.diff(sets.set_ptr)
    paths_of = np.ones(n, np.int64)
    paths_of[routed] = length[of_task[routed]]
    split = np.flatnonzero(paths_of > 1)

    # Tasks: the originals (a split one is the part on its first path), further parts, joins at the end, joins at the drain.
    more = np.repeat(split, paths_of[split] - 1)
    source = np.repeat(np.arange(n), np.diff(graph.succ_ptr))
    waits = [
        np.unique(source[(graph.succ_after == after) & (paths_of[source] > 1)]) for after in (AFTER_END, AFTER_DRAIN)
    ]
    origin = np.concatenate([np.arange(n), more, *waits])
    total = origin.size
    first_part = np.zeros(n, np.int64)
    first_part[split] = n + np.cumsum(paths_of[split] - 1) - (paths_of[split] - 1)
    join = np.full((2, n), -1)
    join[0, waits[0]] = n + more.size + np.arange(waits[0].size)
    join[1, waits[1]] = n + more.size + waits[0].size + np.arange(waits[1].size)

    # Paths: row of ``sets.ptr`` for each part.
    row = np.full(total, -1)
    row[routed] = sets.set_ptr[of_task[routed]]
    place = np.arange(more.size) - np.repeat(first_part[split] - n, paths_of[split] - 1)
    row[n : n + more.size] = row[more] + 1 + place
    part = np.ones(total)
    has_path = row >= 0
    part[has_path] = sets.parts()[row[has_path]]
    part[n + more.size :] = 0.0
    kind, amount = graph.kind[origin], graph.amount[origin] * part
    kind[n + more.size :] = DELAY
    rank, peer = graph.rank[origin], graph.peer[origin]
    # The end is seen where the data arrive, the drain where they leave.
    at_end = slice(n + more.size, n + more.size + waits[0].size)
    rank[at_end] = peer[at_end]
    peer[n + more.size :] = rank[n + more.size :]

    # Edges: from the joins of split tasks; to all parts of the later one.
    begin = source.copy()
    for which, moment in enumerate((AFTER_END, AFTER_DRAIN)):
        mine = (graph.succ_after == moment) & (join[which, source] >= 0)
        begin[mine] = join[which, source[mine]]
    released_by = np.where(begin >= n, AFTER_END, graph.succ_after)
    later = graph.succ.astype(np.int64)
    again = paths_of[later] - 1
    to_parts = np.repeat(first_part[later], again) + _places(again)
    edge_from: list[npt.NDArray[Any]] = [begin, np.repeat(begin, again)]
    edge_to: list[npt.NDArray[Any]] = [later, to_parts]
    edge_after: list[npt.NDArray[Any]] = [released_by, np.repeat(released_by, again)]
    for which, moment in enumerate((AFTER_END, AFTER_DRAIN)):
        tasks = waits[which]
        count = paths_of[tasks] - 1
        edge_from += [tasks, np.repeat(first_part[tasks], count) + _places(count)]
        edge_to += [join[which, tasks], np.repeat(join[which, tasks], count)]
        edge_after += [np.full(tasks.size + count.sum(), moment)]
    new = TaskGraph.from_edges(
        n_ranks=graph.n_ranks,
        kind=kind,
        rank=rank,
        peer=peer,
        amount=amount,
        op=graph.op[origin],
        edge_from=np.concatenate(edge_from),
        edge_to=np.concatenate(edge_to),
        edge_after=np.concatenate(edge_after).astype(np.uint8),
    )
    routes = Routes(
        of_task=row.astype(np.int32),
        ptr=np.asarray(sets.ptr, dtype=np.int64),
        link=np.asarray(sets.link, dtype=np.int32),
        latency_s=np.asarray(sets.latency_s, dtype=np.float64),
    )
    weights = None
    if weight is not None or sets.weight is not None:
        weights = np.ones(total) if weight is None else np.asarray(weight, dtype=np.float64)[origin]
        if sets.weight is not None:
            weights[has_path] *= np.asarray(sets.weight, dtype=np.float64)[row[has_path]]
    return MultiPath(
        graph=new,
        routes=routes.shared() if share else routes,
        origin=origin.astype(np.int32),
        part=part,
        weight=weights,
        n_tasks=n,
    )


def spray(graph: TaskGraph, sets: PathSets, *, weight: npt.ArrayLike | None = None) -> MultiPath:
    """Give each transfer one rate, of which each of its paths carries its share.

    A link on paths with shares a and b is used at (a + b) of the rate. The last byte arrives over the path with the largest latency.

    Parameters
    ----------
    graph : TaskGraph
    sets : PathSets
    weight : array_like of float, shape (n_tasks,), optional

    Examples
    --------
    Links A and B of 10 bytes/s. The first transfer sprays evenly over both, the second uses A: link A holds both at 20/3 bytes/s.

    >>> from netsim.engine import Simulation
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = [build.transfer(source=0, destination=1, size_bytes=20) for _ in range(2)]
    >>> sets = PathSets(of_task=np.array([0, 1]), set_ptr=np.array([0, 2, 3]), ptr=np.array([0, 1, 2, 3]), link=np.array([0, 1, 0]),
    ...                 latency_s=np.zeros(3))
    >>> both = spray(build.graph(), sets)
    >>> both.fold(Simulation(graph=both.graph, routes=both.routes, capacity_bytes_per_s=[10, 10]).run()).end_s.round(9).tolist()
    [3.0, 3.0]
    """
    n = graph.n_tasks
    of_task = _checked(graph, sets)
    link = np.asarray(sets.link, dtype=np.int64)
    n_sets, n_links = sets.set_ptr.size - 1, int(link.max(initial=0)) + 1
    hops = np.diff(sets.ptr)
    set_of_path = np.repeat(np.arange(n_sets), np.diff(sets.set_ptr))
    pair, where = np.unique(np.repeat(set_of_path, hops) * n_links + link, return_inverse=True)
    use = np.bincount(where, weights=np.repeat(sets.parts(), hops), minlength=pair.size).astype(np.float64)
    latency = np.zeros(n_sets)
    np.maximum.at(latency, set_of_path, np.asarray(sets.latency_s, dtype=np.float64))
    ptr = np.zeros(n_sets + 1, np.int64)
    np.cumsum(np.bincount(pair // n_links, minlength=n_sets), out=ptr[1:])
    return MultiPath(
        graph=graph,
        routes=Routes(
            of_task=of_task.astype(np.int32),
            ptr=ptr,
            link=(pair % n_links).astype(np.int32),
            latency_s=latency,
            use=use,
        ),
        origin=np.arange(n, dtype=np.int32),
        part=np.ones(n),
        weight=None if weight is None else np.asarray(weight, dtype=np.float64),
        n_tasks=n,
    )


def _checked(graph: TaskGraph, sets: PathSets) -> Int64:
    of_task = np.asarray(sets.of_task, dtype=np.int64)
    if of_task.shape != (graph.n_tasks,):
        raise InputError(
            "path sets", f"must name a set for each of {graph.n_tasks} tasks", got=f"shape {of_task.shape}"
        )
    moved = np.flatnonzero((of_task >= 0) & (graph.kind == DELAY))
    if moved.size:
        raise InputError(f"task {moved[0]}", "a delay has no paths")
    return of_task


def _places(counts: Int64) -> Int64:
    """0..count-1 for each count, one after the other."""
    end = np.cumsum(counts)
    places: Int64 = np.arange(int(counts.sum())) - np.repeat(end - counts, counts)
    return places
