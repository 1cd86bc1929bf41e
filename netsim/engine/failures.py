"""What transfers do when a link of their route fails: wait, take another route, or fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_gather
from netsim.core.errors import InputError
from netsim.engine.control import Actions, Control, View
from netsim.engine.inputs import Routes

__all__ = ["PathsInCsr", "on_failure"]


class PathsInCsr(Protocol):
    """Paths of links, such as `netsim.routing.Paths`."""

    @property
    def ptr(self) -> Int64:
        """Row pointers."""

    @property
    def link(self) -> Int32:
        """Links of all paths."""


PathFinder = Callable[[Int64, Int64, npt.NDArray[np.bool_]], PathsInCsr]


def on_failure(policy: str, *, paths: PathFinder | None = None, link_latency_s: npt.ArrayLike | None = None) -> Control:
    """A controller for links that fail (capacity 0) and come back: one policy for all transfers.

    Parameters
    ----------
    policy : {"wait", "reroute", "fail"}
        wait
            Transfers on a dead link stand still until it is back: what happens without any controller.
        reroute
            They take the path that ``paths`` gives, and keep what they have sent. Those for which it finds none wait; if no repair
            comes the run ends stuck and `Simulation.stuck_error` names them. Each change of capacities is a new try. Transfers that
            have not started return to their first route once that is whole again; those under way stay where they are.
        fail
            Transfers under way on a dead link fail at once, and so do those that start while their route is dead. See ``failed`` of
            `EngineResult` for what that means.
    paths : callable, for "reroute"
        ``paths(source_rank, destination_rank, dead)`` returns one path for each pair of ranks, empty where there is none; ``dead``
        is a bool per link. `netsim.routing.paths_around` does this for hosts.
    link_latency_s : array_like of float, shape (n_links,), optional
        Latency of the new paths; 0 by default.

    Returns
    -------
    Control
        For ``Simulation.run(controller=)``, alone or after a controller that switches links.

    Raises
    ------
    InputError
        An unknown policy, or "reroute" without ``paths``.

    Examples
    --------
    Rank 0 sends to rank 1 over link 0, which dies after 2 s; link 1 is half as fast. 20 bytes, then 80 at 5 bytes/s:

    >>> from netsim.engine import CapacityChanges, Simulation
    >>> from netsim.routing import Paths
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = build.transfer(source=0, destination=1, size_bytes=100)
    >>> def run(controller):
    ...     routes = Routes(of_task=np.array([0]), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    ...     dies = CapacityChanges(time_s=np.array([2.0]), link=np.array([0]), capacity_bytes_per_s=np.array([0.0]))
    ...     return Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10, 5], changes=dies).run(controller=controller)
    >>> other = lambda source, destination, dead: Paths.from_columns([np.ones(source.size)])
    >>> run(on_failure("reroute", paths=other)).end_s.tolist()
    [18.0]
    >>> lost = run(on_failure("fail"))
    >>> lost.status, lost.failed.tolist(), lost.failed_s.tolist(), lost.unsent_bytes.tolist()
    ('failed', [0], [2.0], [80.0])
    """
    latency = None if link_latency_s is None else np.asarray(link_latency_s, dtype=np.float64)
    if policy == "wait":
        return Control(act=lambda view: None)
    if policy == "fail":
        return Control(act=_Failing(), on_change=True, times_s=[0.0])
    if policy != "reroute":
        raise InputError("failure policy", "must be 'wait', 'reroute' or 'fail'", got=repr(policy))
    if paths is None:
        raise InputError("failure policy", "'reroute' needs a function that finds paths")
    finder = paths
    return Control(act=lambda view: _reroute(view, finder, latency), on_change=True, times_s=[0.0])


def _dead_rows(view: View, ptr: npt.ArrayLike, link: Int32) -> npt.NDArray[np.bool_]:
    """Which routes cross a dead link; one more entry, False, for tasks without a route (-1)."""
    at = np.asarray(ptr, dtype=np.int64)
    row = np.repeat(np.arange(at.size - 1), np.diff(at))
    hit = (view.capacity_bytes_per_s == 0)[link]
    dead = np.zeros(at.size, dtype=bool)
    dead[row[hit]] = True
    return dead


def _open(view: View) -> npt.NDArray[np.bool_]:
    """Transfers over links that have neither drained nor failed."""
    # Delays have no route.
    routed = np.asarray(view.first_routes.of_task) >= 0
    still: npt.NDArray[np.bool_] = routed & np.isnan(view.drain_s) & np.isnan(view.failed_s)
    return still


def _of_first_routes(view: View, tasks: Int64) -> Routes:
    """The first routes of some tasks, with ``of_task`` counted over these."""
    first = view.first_routes
    rows, of_task = np.unique(np.asarray(first.of_task)[tasks], return_inverse=True)
    ptr, at = csr_gather(first.ptr, rows)
    return Routes(
        of_task=of_task.astype(np.int32),
        ptr=ptr,
        link=np.asarray(first.link)[at],
        latency_s=np.asarray(first.latency_s)[rows],
        use=None if first.use is None else np.asarray(first.use)[at],
    )


class _Failing:
    """The policy "fail"; remembers which transfers it has told to fail at their start, to take that back after a repair."""

    def __init__(self) -> None:
        self._told: npt.NDArray[np.bool_] | None = None

    def __call__(self, view: View) -> Actions | None:
        first = view.first_routes
        if self._told is None:
            self._told = np.zeros(view.graph.n_tasks, dtype=bool)
        dead = _dead_rows(view, first.ptr, np.asarray(first.link))[first.of_task]
        may = _open(view)
        fails = np.flatnonzero(may & dead & (view.route_of_task >= 0))
        back = np.flatnonzero(may & ~dead & self._told & (view.route_of_task < -1))
        self._told[fails] = True
        self._told[back] = False
        if not fails.size and not back.size:
            return None
        return Actions(fail_task=fails, reroute_task=back, routes=_of_first_routes(view, back))


def _reroute(view: View, paths: PathFinder, latency: Float64 | None) -> Actions | None:
    graph, first = view.graph, view.first_routes
    # Transfers that another controller wants to fail are its business.
    may = _open(view) & (view.route_of_task >= 0)
    dead = _dead_rows(view, view.route_ptr, view.route_link)[view.route_of_task]
    whole = ~_dead_rows(view, first.ptr, np.asarray(first.link))[first.of_task]
    home = np.flatnonzero(may & np.isnan(view.start_s) & whole & (view.route_of_task != np.asarray(first.of_task)))
    blocked = may & dead
    blocked[home] = False
    lost = np.flatnonzero(blocked)
    back = _of_first_routes(view, home)
    # One question for each pair of ranks.
    pair, which = np.unique(graph.rank[lost].astype(np.int64) * graph.n_ranks + graph.peer[lost], return_inverse=True)
    found_ptr, found_link = np.zeros(1, np.int64), np.empty(0, np.int32)
    if pair.size:
        found = paths(pair // graph.n_ranks, pair % graph.n_ranks, view.capacity_bytes_per_s == 0)
        found_ptr, found_link = np.asarray(found.ptr, dtype=np.int64), np.asarray(found.link, dtype=np.int32)
        if found_ptr.shape != (pair.size + 1,) or found_ptr[-1] != found_link.size:
            raise InputError("paths", f"must give one path for each of {pair.size} pairs", got=f"{found_ptr.size - 1}")
    reachable = np.diff(found_ptr) > 0
    lost, which = lost[reachable[which]], which[reachable[which]]
    if not lost.size and not home.size:
        return None
    # Empty rows go; the others keep their order.
    row = np.cumsum(reachable) - 1
    ptr = np.concatenate([found_ptr[:1], found_ptr[1:][reachable]])
    time_s = np.zeros(found_link.size) if latency is None else latency[found_link]
    per_path = np.bincount(np.repeat(np.arange(ptr.size - 1), np.diff(ptr)), weights=time_s, minlength=ptr.size - 1)
    use = None if back.use is None else np.concatenate([back.use, np.ones(found_link.size)])
    n = back.latency_s.size
    routes = Routes(
        of_task=np.concatenate([back.of_task, n + row[which]]).astype(np.int32),
        ptr=np.concatenate([back.ptr, back.ptr[-1] + ptr[1:]]),
        link=np.concatenate([back.link, found_link]),
        latency_s=np.concatenate([back.latency_s, per_path]),
        use=use,
    )
    return Actions(reroute_task=np.concatenate([home, lost]), routes=routes)
