"""What lets Python act on a run while it goes on: what a controller sees, what it may order, and when it is asked.

The compiled loop stops at a given time with all its state in arrays, so a controller costs nothing between two epochs, and a run without
one takes no other path than before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_gather, frozen
from netsim.core.errors import InputError
from netsim.engine import _kernels as k
from netsim.engine.inputs import Routes
from netsim.traffic.taskgraph import DELAY, TaskGraph

if TYPE_CHECKING:
    from netsim.engine.simulation import Simulation

__all__ = ["Actions", "Control", "Steering", "Transfers", "View"]

# Stands in the list of routes for "fails when it starts".
REFUSED = -2


@dataclass(frozen=True, kw_only=True)
class Transfers:
    """The transfers under way at one moment, in no particular order; those waiting on a dark link have rate 0.

    Attributes
    ----------
    task : int32 array, shape (f,)
    rate_bytes_per_s, remaining_bytes : float64 arrays, shape (f,)
    slot : int32 array, shape (f,)
        Transfers with one number share a route and a place in the solver.
    """

    task: Int32
    rate_bytes_per_s: Float64
    remaining_bytes: Float64
    slot: Int32


class View:
    """What a controller sees: the settled state at one moment. Arrays are made when they are asked for; do not keep the view.

    Attributes
    ----------
    now_s : float
    graph : TaskGraph
    first_routes : Routes
        Those the simulation was given.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.now_s = simulation.now_s
        self.graph: TaskGraph = simulation.graph
        self.first_routes: Routes = simulation.routes

    @cached_property
    def transfers(self) -> Transfers:
        """Transfers under way: O(their number)."""
        s = self._simulation._state
        n = int(s.integer[k.I_FLOWS])
        task, slot, rate, left = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n)
        k.transfers(s, self.now_s, task, slot, rate, left)
        return Transfers(task=task, rate_bytes_per_s=rate, remaining_bytes=left, slot=slot)

    @cached_property
    def capacity_bytes_per_s(self) -> Float64:
        """Present capacity of each link, shape (n_links,)."""
        return self._simulation._state.link["capacity"][: self._simulation.n_links].copy()

    @cached_property
    def used_bytes_per_s(self) -> Float64:
        """Present use of each link by all transfers, shape (n_links,)."""
        n, used = self._simulation.n_links, self._simulation._state.link["used"]
        total: Float64 = used[:n].copy()
        if self._simulation._low:
            total += used[n : 2 * n]
        return total

    @cached_property
    def carried_bytes(self) -> Float64:
        """Bytes that have crossed each link so far, shape (n_links,); O(links)."""
        return self._simulation.count_bytes()

    @property
    def start_s(self) -> Float64:
        """Start of each task, NaN until then; read-only."""
        return frozen(self._simulation._state.start_s, np.float64)

    @property
    def drain_s(self) -> Float64:
        """Drain of each task, NaN until then; read-only."""
        return frozen(self._simulation._state.drain_s, np.float64)

    @property
    def end_s(self) -> Float64:
        """End of each task, NaN until then; read-only."""
        return frozen(self._simulation._state.end_s, np.float64)

    @property
    def failed_s(self) -> Float64:
        """When each task failed, NaN otherwise; read-only."""
        return frozen(self._simulation._state.failed_s, np.float64)

    @property
    def route_of_task(self) -> Int32:
        """Present row of ``route_ptr`` for each task; -1: no route, -2: will fail when it starts."""
        return self._simulation._problem.route

    @property
    def route_ptr(self) -> Int64:
        """CSR pointers of the present routes; rows are added, never changed."""
        return self._simulation._problem.route_ptr

    @cached_property
    def route_link(self) -> Int32:
        """Links of the present routes."""
        link: Int32 = self._simulation._problem.route_link
        return link % self._simulation.n_links if self._simulation._low else link

    def better_routes(self, *, hysteresis: float, most: int | None = None) -> tuple[Int32, Int32]:
        """Transfers under way that another of their `Choices` promises more, and that route: tasks and rows.

        They decide in the order of their numbers, each seeing the moves before it.

        Parameters
        ----------
        hysteresis : float
            A move must promise (1 + hysteresis) times the rate to expect where the transfer is: the least capacity over transfers.
        most : int, optional
            Moves at most.
        """
        s = self._simulation
        if s.routes.choices is None:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        task = np.sort(self.transfers.task)
        row = np.empty(task.size, np.int32)
        k.reconsider(
            s._problem,
            s._state,
            task,
            frozen(s.routes.of_task, np.int32),
            1.0 + hysteresis,
            task.size if most is None else most,
            row,
        )
        moves = row >= 0
        return task[moves], row[moves]

    def path(self, task: int) -> Int32:
        """Links of the present route of a task; empty if it has none."""
        row = int(self.route_of_task[task])
        return self.route_link[self.route_ptr[row] : self.route_ptr[row + 1]] if row >= 0 else self.route_link[:0]


@dataclass(frozen=True, kw_only=True)
class Actions:
    """What a controller orders; all of it happens at once, before any more time passes.

    Attributes
    ----------
    set_link : array_like of int, shape (c,)
    set_capacity_bytes_per_s : array_like of float, shape (c,)
        New capacities: 0 is dark, inf never limits.
    reroute_task : array_like of int, shape (m,)
        Transfers that take another route. Those under way keep what they have sent; those that have not started will take it; those
        that have drained or failed are left alone.
    routes : Routes, optional
        The new routes; ``of_task`` has one entry for each of ``reroute_task``. A transfer ends one latency of the route on which
        it drains after its drain.
    rows : array_like of int, shape (m,), optional
        The new routes as rows of ``View.route_ptr``.
    fail_task : array_like of int, shape (f,)
        Transfers that fail: those under way at once, those that have not started when they start, unless rerouted before. See
        ``failed`` of `EngineResult`.
    ask_s : float, optional
        Ask this controller again at this time too, besides its own; later than now.
    """

    set_link: npt.ArrayLike = ()
    set_capacity_bytes_per_s: npt.ArrayLike = ()
    reroute_task: npt.ArrayLike = ()
    routes: Routes | None = None
    rows: npt.ArrayLike | None = None
    fail_task: npt.ArrayLike = ()
    ask_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Control:
    """A controller and when it is asked: `Simulation.run` takes one or several.

    Attributes
    ----------
    act : callable
        From a `View` to `Actions`, or None to leave things as they are. It sees what is in force after all else of that moment.
    period_s : float, optional
        Asked at 0, period, 2 periods, ...
    times_s : array_like of float
        Asked at these times.
    on_change : bool
        Asked after each change of capacities: scheduled ones and those that another controller orders.
    idle_epochs : int
        When nothing can happen by itself any more, a periodic controller is asked this many times in a row before the run is given
        up as stuck.

    Examples
    --------
    A controller that moves the only transfer from the slow link 0 to the fast link 1 after 2 s:

    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> from netsim.engine import Simulation
    >>> build = GraphBuilder(n_ranks=2)
    >>> send = build.transfer(source=0, destination=1, size_bytes=100)
    >>> over = lambda link: Routes(of_task=np.array([0]), ptr=np.array([0, 1]), link=np.array([link]), latency_s=np.zeros(1))
    >>> simulation = Simulation(graph=build.graph(), routes=over(0), capacity_bytes_per_s=[10, 40])
    >>> move = Control(times_s=[2.0], act=lambda view: Actions(reroute_task=[send], routes=over(1)))
    >>> simulation.run(controller=move).end_s.tolist()
    [4.0]
    """

    act: Callable[[View], Actions | None]
    period_s: float | None = None
    times_s: npt.ArrayLike = ()
    on_change: bool = False
    idle_epochs: int = 1000

    def __post_init__(self) -> None:
        if self.period_s is not None and not (self.period_s > 0 and np.isfinite(self.period_s)):
            raise InputError("control period", "must be finite and above 0 seconds", got=self.period_s)
        times = np.asarray(self.times_s, dtype=np.float64)
        bad = times[~(np.isfinite(times) & (times >= 0))]
        if bad.size:
            raise InputError("control times", "must be finite and 0 or more seconds", got=float(bad.flat[0]))


class _Clock:
    """When one control is due next."""

    def __init__(self, control: Control, change_s: Float64, now_s: float) -> None:
        self.control = control
        times = np.asarray(control.times_s, dtype=np.float64).ravel()
        self._listed = np.unique(np.concatenate([times, change_s]) if control.on_change else times)
        # A run that is taken up again does not repeat the past.
        self._at = int(np.searchsorted(self._listed, now_s, side="right" if now_s > 0 else "left"))
        self._tick = 0
        self._asked = np.inf
        if now_s > 0:
            self.pass_by(now_s)

    @property
    def next_s(self) -> float:
        listed = float(self._listed[self._at]) if self._at < self._listed.size else np.inf
        period = self.control.period_s
        return min(listed, self._asked, np.inf if period is None else self._tick * period)

    def ask(self, actions: Actions, now_s: float) -> None:
        """Take up the wish to be asked again."""
        if actions.ask_s is not None:
            if not actions.ask_s > now_s:
                raise InputError("controller", f"can ask to be asked after {now_s} s", got=actions.ask_s)
            self._asked = float(actions.ask_s)

    def pass_by(self, now_s: float) -> None:
        if self._asked <= now_s:
            self._asked = np.inf
        while self._at < self._listed.size and self._listed[self._at] <= now_s:
            self._at += 1
        if self.control.period_s is not None:
            # Multiples, not a sum of periods: no drift.
            self._tick = max(self._tick, int(now_s // self.control.period_s))
            while self._tick * self.control.period_s <= now_s:
                self._tick += 1


class Steering:
    """Runs a simulation from one epoch to the next and carries out what its controllers order. Used by `Simulation.run`."""

    def __init__(self, simulation: Simulation, controls: Sequence[Control]) -> None:
        self._simulation = simulation
        p = simulation._problem
        # Routes and sizes change under control: the loop reads them through read-only views of these.
        pick = simulation._state.pick
        self._route: Int32 = pick if pick.size else np.array(p.route)
        self._amount: Float64 = np.array(p.amount)
        simulation._problem = p._replace(route=frozen(self._route, np.int32), amount=frozen(self._amount, np.float64))
        n = simulation.graph.n_tasks
        if simulation._state.failed_s.size != n:
            simulation._state = simulation._state._replace(failed_s=np.full(n, np.nan))
        self._leaving = np.zeros(n, np.uint8)
        self._row_of: dict[bytes, int] = {}
        self._clocks = [_Clock(c, p.change_s, self._now_s) for c in controls]
        self._idle = 0
        self._idle_epochs = max((c.idle_epochs for c in controls), default=0)
        self._events = -1

    @property
    def _now_s(self) -> float:
        return float(self._simulation._state.real[k.F_NOW])

    def step(self, batches: int) -> str:
        """Like `Simulation.step`, and stops at each epoch."""
        until = min(clock.next_s for clock in self._clocks)
        status = self._simulation._advance(batches, until)
        if status == "stuck" and until < np.inf and self._idle < self._idle_epochs:
            # Nothing will happen by itself: only a controller can go on.
            real = self._simulation._state.real
            real[k.F_NOW] = max(float(real[k.F_NOW]), until)
            status = "epoch"
        if status != "epoch":
            return status
        self._epoch()
        return "running"

    def _epoch(self) -> None:
        now = self._now_s
        due = [clock for clock in self._clocks if clock.next_s <= now]
        acted, late = False, []
        for i, clock in enumerate(due):
            clock.pass_by(now)
            actions = clock.control.act(View(self._simulation))
            if actions is None:
                continue
            acted = True
            clock.ask(actions, now)
            if self._carry_out(actions):
                late += [
                    c
                    for c in self._clocks
                    if c.control.on_change and c is not clock and c not in late and c not in due[i + 1 :]
                ]
        for clock in late:
            actions = clock.control.act(View(self._simulation))
            if actions is not None:
                clock.ask(actions, now)
                self._carry_out(actions)
        events = int(self._simulation._state.integer[k.I_EVENTS])
        self._idle = 0 if acted or events != self._events else self._idle + 1
        self._events = events

    def _carry_out(self, actions: Actions) -> bool:
        """Do what is ordered and settle the rates. True if capacities changed."""
        simulation = self._simulation
        link, capacity = _checked_capacities(actions, simulation.n_links)
        graph = simulation.graph
        moving = _checked_tasks(actions.reroute_task, graph, self._route, "rerouted")
        failing = _checked_tasks(actions.fail_task, graph, self._route, "failed")
        if np.intersect1d(moving, failing).size:
            raise InputError("controller", "a transfer either takes another route or fails")
        new_row = self._rows(moving, actions.routes) if actions.rows is None else self._present(moving, actions)
        state = simulation._state

        def is_open(task: Int64) -> npt.NDArray[np.bool_]:
            still: npt.NDArray[np.bool_] = np.isnan(state.drain_s[task]) & np.isnan(state.failed_s[task])
            return still

        changed = is_open(moving) & (self._route[moving] != new_row)
        moving, new_row = moving[changed], new_row[changed]
        failing = failing[is_open(failing)]
        slots = rows = np.empty(0, np.int32)
        under_way = np.zeros(graph.n_tasks if moving.size or failing.size else 0, dtype=bool)
        if under_way.size:
            present = View(simulation).transfers
            self._leaving[moving] = 1
            self._leaving[failing] = 1
            leaves = self._leaving[present.task] == 1
            under_way[present.task[leaves]] = True
            slots, first = np.unique(present.slot[leaves], return_index=True)
            rows = self._route[present.task[leaves][first]]
            state.failed_s[failing[under_way[failing]]] = self._now_s
            # Those that have not started fail when they do.
            self._route[failing[~under_way[failing]]] = REFUSED
            self._route[moving] = new_row
        entering = moving[under_way[moving]].astype(np.int32) if moving.size else np.empty(0, np.int32)
        state.integer[k.I_STAMP] += 1
        state.integer[k.I_PENDING] = 1
        while True:
            code = k.act(
                simulation._problem,
                simulation._state,
                slots.astype(np.int32),
                rows.astype(np.int32),
                self._leaving,
                self._amount,
                link,
                capacity,
                entering,
                simulation._private,
                simulation._shift,
            )
            if code == k.DONE:
                break
            simulation._enlarge(code)
        self._leaving[moving] = 0
        self._leaving[failing] = 0
        # Settle: the next controller of this moment, and a certificate, see rates in force.
        simulation._advance(0, np.inf)
        return bool(link.size)

    def _present(self, moving: Int64, actions: Actions) -> Int64:
        """Rows that are there already, checked."""
        row = np.asarray(actions.rows, dtype=np.int64).ravel()
        n = self._simulation._problem.route_ptr.size - 1
        if (
            actions.routes is not None
            or row.shape != moving.shape
            or (row.size and not 0 <= row.min() <= row.max() < n)
        ):
            raise InputError(
                "controller",
                f"needs one of {n} rows for each rerouted transfer, and no routes besides",
                got=f"{row.size} rows",
            )
        return row

    def _rows(self, moving: Int64, routes: Routes | None) -> Int64:
        """Rows of the route table for the tasks that move; adds those that are new."""
        simulation, p = self._simulation, self._simulation._problem
        if routes is None:
            if moving.size:
                raise InputError("controller", "needs routes for the transfers that it moves")
            return np.empty(0, np.int64)
        _check_new_routes(routes, moving.size, simulation.n_links)
        routes = routes.shared()
        of_task = np.asarray(routes.of_task, dtype=np.int64)
        ptr, link = np.asarray(routes.ptr, dtype=np.int64), np.asarray(routes.link, dtype=np.int32)
        use = None if routes.use is None else np.asarray(routes.use, dtype=np.float64)
        latency = np.asarray(routes.latency_s, dtype=np.float64)
        low = simulation.is_low[moving] if simulation._low else np.zeros(moving.size, dtype=bool)
        pair, back = np.unique(2 * of_task + low, return_inverse=True)
        found = np.empty(pair.size, np.int64)
        fresh: list[int] = []
        n_rows = p.route_ptr.size - 1
        for i, (row, is_low) in enumerate(zip(pair >> 1, pair & 1, strict=True)):
            part = slice(int(ptr[row]), int(ptr[row + 1]))
            consumed = b"" if use is None else use[part].tobytes()
            key = bytes([is_low]) + latency[row].tobytes() + link[part].tobytes() + consumed
            if key not in self._row_of:
                self._row_of[key] = n_rows + len(fresh)
                fresh.append(i)
            found[i] = self._row_of[key]
        if fresh:
            rows = pair[fresh] >> 1
            new_ptr, at = csr_gather(ptr, rows)
            offset = np.repeat(simulation._low * (pair[fresh] & 1), np.diff(new_ptr))
            simulation.add_routes(
                ptr=new_ptr,
                link=(link[at] + offset).astype(np.int32),
                latency_s=latency[rows],
                use=None if use is None else use[at],
            )
        return found[back] if pair.size else np.empty(0, np.int64)


def _checked_capacities(actions: Actions, n_links: int) -> tuple[Int32, Float64]:
    link = np.asarray(actions.set_link, dtype=np.int64).ravel()
    capacity = np.asarray(actions.set_capacity_bytes_per_s, dtype=np.float64).ravel()
    if link.shape != capacity.shape:
        raise InputError("controller", "needs one capacity per link that it sets", got=f"{link.size}, {capacity.size}")
    if link.size and (link.min() < 0 or link.max() >= n_links):
        raise InputError("controller", f"can set links 0..{n_links - 1}", got=int(link.max()))
    if not (capacity >= 0).all():
        raise InputError(
            "controller", "capacities must be 0 or more bytes per second", got=float(capacity[~(capacity >= 0)][0])
        )
    return link.astype(np.int32), np.minimum(capacity, k.UNLIMITED)


def _checked_tasks(values: npt.ArrayLike, graph: TaskGraph, route: Int32, what: str) -> Int64:
    task = np.asarray(values, dtype=np.int64).ravel()
    if task.size == 0:
        return task
    if task.min() < 0 or task.max() >= graph.n_tasks:
        raise InputError("controller", f"tasks are 0..{graph.n_tasks - 1}", got=int(task.max()))
    if np.unique(task).size != task.size:
        raise InputError("controller", f"a transfer can be {what} once at a time")
    bad = task[(graph.kind[task] == DELAY) | (route[task] == -1)]
    if bad.size:
        raise InputError("controller", f"only a transfer that crosses links can be {what}", got=f"task {bad[0]}")
    return task


def _check_new_routes(routes: Routes, n: int, n_links: int) -> None:
    of_task, ptr, link = np.asarray(routes.of_task), np.asarray(routes.ptr), np.asarray(routes.link)
    if of_task.shape != (n,):
        raise InputError(
            "controller", f"needs one route for each of {n} rerouted transfers", got=f"shape {of_task.shape}"
        )
    if ptr.size < 1 or ptr[0] != 0 or ptr[-1] != link.size or (np.diff(ptr) < 1).any():
        raise InputError("controller", "routes must have at least one link each, ptr from 0 to the number of hops")
    if n and (of_task.min() < 0 or of_task.max() >= ptr.size - 1):
        raise InputError("controller", f"route must be one of {ptr.size - 1}", got=int(of_task.max()))
    if link.size and (link.min() < 0 or link.max() >= n_links):
        raise InputError("controller", f"routes must use links 0..{n_links - 1}", got=int(link.max()))
    latency = np.asarray(routes.latency_s, dtype=np.float64)
    if latency.shape != (ptr.size - 1,) or not ((latency >= 0) & np.isfinite(latency)).all():
        raise InputError("controller", "routes must have one finite latency of 0 or more seconds each")
    if routes.use is not None:
        use = np.asarray(routes.use, dtype=np.float64)
        if use.shape != link.shape or not ((use > 0) & np.isfinite(use)).all():
            raise InputError("controller", "routes must have one finite consumption above 0 per hop")
