"""What the engine is given besides the task graph: routes and capacity changes, and their validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_gather
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.traffic.taskgraph import DELAY, TaskGraph

__all__ = [
    "RULES",
    "CapacityChanges",
    "Choices",
    "Routes",
    "check_changes",
    "check_choices",
    "check_priority",
    "check_routes",
    "per_task",
]


RULES = ("first-link", "whole-path", "rate")
"""How a transfer chooses among its routes: see `Choices`."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Other routes that a transfer may take; it chooses at the moment it starts, by what is under way then.

    Attributes
    ----------
    ptr : int64 array, shape (r+1,)
        Alternatives of route i of `Routes` are ``row[ptr[i]:ptr[i+1]]``; none: transfers of that route have no choice.
    row : int32 array, shape (a,)
        Routes. The first alternative of a route is the route itself, which wins where costs are equal.
    rule : {"first-link", "whole-path", "rate"}
        What counts: hops between switches times the transfers per capacity on the first link between switches (UGAL-L), or on the
        fullest one (UGAL-G); or the rate to expect, the least capacity over transfers, itself included. Transfers are
        counted, not utilisation: under max-min sharing a bottleneck is full whatever is chosen.
    stage : uint8 array, shape (a,), optional
        1: taken instead of the first alternative, where that has won, by the cost of both from their second link between
        switches on: the second decision of progressive adaptive routing.
    """

    ptr: Int64
    row: Int32
    rule: str
    stage: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The route of every transfer, shared between transfers that take the same one.

    Attributes
    ----------
    of_task : int32 array, shape (n_tasks,)
        Row of ``ptr``; -1 for delays and for transfers that stay on their host.
    ptr, link : int64 array, shape (r+1,); int32 array, shape (hops,)
        Links of each route, in order.
    latency_s : float64 array, shape (r,)
        Sum of the link latencies.
    use : float64 array, shape (hops,), optional
        Consumption of link capacity per unit of rate (1 by default; a link listed twice is used twice).
    choices : Choices, optional
        Alternatives of the routes; ``of_task`` names the first one.
    """

    of_task: Int32
    ptr: Int64
    link: Int32
    latency_s: Float64
    use: Float64 | None = None
    choices: Choices | None = None

    def shared(self) -> Routes:
        """The same with one row for equal routes: transfers of one row that are under way together cost as much as one.

        Examples
        --------
        >>> r = Routes(of_task=np.array([0, 1, -1]), ptr=np.array([0, 2, 4]), link=np.array([5, 3, 5, 3]), latency_s=np.zeros(2))
        >>> r.shared().of_task.tolist(), r.shared().link.tolist()
        ([0, 0, -1], [5, 3])
        """
        n = self.ptr.size - 1
        if self.use is not None or self.choices is not None or n == 0 or not self.link.size:
            return self
        length = np.diff(self.ptr)
        place = np.arange(self.link.size) - np.repeat(self.ptr[:-1], length)
        word = np.zeros(n, np.uint64)
        # Sums of hashes of (link, place); equal words are compared link by link below, so a collision costs nothing but the merging.
        with np.errstate(over="ignore"):
            np.add.at(word, np.repeat(np.arange(n), length), hash64(0, self.link, place))
            word += hash64(1, length, np.asarray(self.latency_s, dtype=np.float64).view(np.int64))
        _, first, row = np.unique(word, return_index=True, return_inverse=True)
        if first.size == n:
            return self
        like = first[row]
        if (length[like] != length).any() or (self.latency_s[like] != self.latency_s).any():
            return self
        _, at = csr_gather(self.ptr, like)
        if (self.link[at] != self.link).any():
            return self
        ptr, at = csr_gather(self.ptr, first)
        of_task = np.where(self.of_task >= 0, row[self.of_task], -1).astype(np.int32)
        return Routes(of_task=of_task, ptr=ptr, link=self.link[at], latency_s=self.latency_s[first])


@dataclass(frozen=True, kw_only=True)
class CapacityChanges:
    """Capacities that change during the run: degraded links, failures (0), circuits going dark (0) and up.

    Attributes
    ----------
    time_s : float64 array, shape (c,), sorted
    link : int32 array, shape (c,)
    capacity_bytes_per_s : float64 array, shape (c,)
    """

    time_s: Float64
    link: Int32
    capacity_bytes_per_s: Float64


def per_task(values: npt.ArrayLike, n: int, name: str) -> Float64:
    """One float for each of n tasks."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise InputError(name, f"must have one value per task ({n})", got=f"shape {array.shape}")
    return array


def check_priority(values: npt.ArrayLike, n: int, what: str = "task") -> npt.NDArray[np.bool_]:
    """Which tasks are in the low class."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise InputError("priority", f"must have one value per {what} ({n})", got=f"shape {array.shape}")
    bad = np.flatnonzero((array != 0) & (array != 1))
    if bad.size:
        raise InputError(f"{what} {bad[0]}", "priority must be 0 (high) or 1 (low)", got=array[bad[0]])
    low: npt.NDArray[np.bool_] = array == 1
    return low


def check_routes(graph: TaskGraph, routes: Routes, n_links: int) -> None:
    """Raise unless every transfer has a usable route."""
    of_task: Int32 = np.asarray(routes.of_task)
    n_routes = int(np.asarray(routes.ptr).size) - 1
    if of_task.shape != (graph.n_tasks,):
        raise InputError("routes", f"must name a route for each of {graph.n_tasks} tasks", got=f"shape {of_task.shape}")
    if of_task.size and (of_task.max() >= n_routes or of_task.min() < -1):
        raise InputError("routes", f"must be -1 or one of {n_routes} routes", got=int(of_task.max()))
    link = np.asarray(routes.link)
    if link.size and (link.min() < 0 or link.max() >= n_links):
        raise InputError(
            "routes", f"must use links 0..{n_links - 1}", got=int(link.max() if link.max() >= n_links else link.min())
        )
    latency = np.asarray(routes.latency_s)
    if latency.shape != (n_routes,) or not ((latency >= 0) & np.isfinite(latency)).all():
        raise InputError("routes", "must have one finite latency of 0 or more seconds each")
    if routes.use is not None:
        use = np.asarray(routes.use)
        if use.shape != link.shape or not ((use > 0) & np.isfinite(use)).all():
            raise InputError("routes", "must have one finite consumption above 0 per hop")
    empty = np.flatnonzero((np.diff(routes.ptr) == 0)[of_task[of_task >= 0]]) if n_routes else np.empty(0)
    if empty.size:
        raise InputError("routes", "must have at least one link; a transfer that stays on its host has route -1")
    moved = np.flatnonzero((of_task >= 0) & (graph.kind == DELAY))
    if moved.size:
        raise InputError(f"task {moved[0]}", "a delay has no route")


def check_choices(routes: Routes) -> None:
    """Raise unless the alternatives are routes, the first of each the route itself."""
    choices = routes.choices
    if choices is None:
        return
    n = int(np.asarray(routes.ptr).size) - 1
    ptr, row = np.asarray(choices.ptr), np.asarray(choices.row)
    if choices.rule not in RULES:
        raise InputError("choices", f"rule must be one of {', '.join(RULES)}", got=repr(choices.rule))
    if ptr.shape != (n + 1,) or ptr[0] != 0 or ptr[-1] != row.size or (np.diff(ptr) < 0).any():
        raise InputError("choices", f"must list the alternatives of each of {n} routes, in order")
    if row.size and (row.min() < 0 or row.max() >= n):
        raise InputError("choices", f"must be among the {n} routes", got=int(row.max()))
    some = np.flatnonzero(np.diff(ptr) > 0)
    if (row[ptr[some]] != some).any():
        raise InputError("choices", "the first alternative of a route must be the route itself")
    stage = choices.stage
    if stage is not None and (np.shape(stage) != row.shape or np.asarray(stage)[ptr[some]].any()):
        raise InputError("choices", "need one stage per alternative, 0 for the first of each")


def check_changes(changes: CapacityChanges, n_links: int) -> None:
    """Raise unless the changes are sorted and name links."""
    times = np.asarray(changes.time_s, dtype=np.float64)
    links = np.asarray(changes.link)
    capacity = np.asarray(changes.capacity_bytes_per_s, dtype=np.float64)
    if not times.shape == links.shape == capacity.shape:
        raise InputError("capacity changes", "need one time, link and capacity each")
    if times.size == 0:
        return
    if not (np.isfinite(times) & (times >= 0)).all() or (np.diff(times) < 0).any():
        raise InputError("capacity changes", "times must be finite, 0 or more, and sorted")
    if links.min() < 0 or links.max() >= n_links:
        raise InputError("capacity changes", f"links must be 0..{n_links - 1}", got=int(links.max()))
    if not (capacity >= 0).all():
        raise InputError("capacity changes", "capacities must be 0 or more bytes per second", got=float(capacity.min()))
