"""The Python side of the engine: allocate, call the compiled loop, enlarge arrays, show progress, say why a run is stuck."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_gather, frozen
from netsim.core.errors import InputError, NetsimError, StuckError
from netsim.engine import _kernels as k
from netsim.engine.control import Control, Steering
from netsim.engine.inputs import (
    RULES,
    CapacityChanges,
    Routes,
    check_changes,
    check_choices,
    check_priority,
    check_routes,
    per_task,
)
from netsim.traffic.taskgraph import AFTER_START, TRANSFER, TaskGraph

__all__ = ["CapacityChanges", "EngineResult", "Progress", "Routes", "Simulation", "critical_path", "load_kernels"]

# Largest tolerance and window of the bulk modes: beyond, results say little.
MOST_BULK = 0.25

# Batches of events in the first call of the compiled loop, and how long a call may take.
FIRST_BATCHES = 256
CALL_S = 0.1
MOST_BATCHES = 1 << 30

# Lines of a report about transfers that wait.
MOST_LINES = 50


@dataclass(frozen=True)
class Progress:
    """What a progress callback sees."""

    simulated_s: float
    tasks_done: int
    tasks: int
    events: int
    active_flows: int
    wall_s: float


@dataclass(frozen=True, kw_only=True)
class EngineResult:
    """Moments of all tasks and bytes per link.

    Attributes
    ----------
    status : str
        ``"finished"``, ``"stuck"``, ``"interrupted"``, or ``"failed"``: all has ended but transfers that failed and what waits for
        them.
    now_s : float
        Simulated time when the run ended.
    start_s, drain_s, end_s : float64 arrays, shape (n_tasks,)
        NaN where it never happened.
    critical : int32 array, shape (n_tasks,)
        The task that released this one last, -1 if none.
    link_bytes : float64 array, shape (n_links,)
    bin_s : float
        Width of a time bin.
    bin_link, bin_bytes : int32 array (rows,); float64 array (rows, bins)
        Bytes per link and time bin, for links that are on some route.
    counts : dict
        events, solves, flows, flows in play and changed: how much work the solver did.
    route : int32 array, shape (n_tasks,)
        Where transfers chose their route: the row of the given `Routes` that each took at last (beyond them: a row that a controller
        added); else empty.
    failed : int32 array, shape (f,)
        Transfers that failed. They have a start, but neither drain nor end, and release nothing that waits for these: data that
        never arrived must not let a program go on as if it had. Independent transfers go on. Rather than a flag on an
        ordinary end, which a reader of the moments can miss, NaN cannot be mistaken for a duration.
    failed_s, unsent_bytes : float64 arrays, shape (f,)
        When, and how much each had left to send; what it had sent is in ``link_bytes``.
    worst_link_byte_error : float
        How far the count of a link (rate times time) was from the bytes routed over it, relative, on the worst link.
    wall_s : float
        Wall time of the loop, without compilation.
    """

    status: str
    now_s: float
    start_s: Float64
    drain_s: Float64
    end_s: Float64
    critical: Int32
    link_bytes: Float64
    bin_s: float
    bin_link: Int32
    bin_bytes: Float64
    counts: dict[str, int] = field(default_factory=dict)
    route: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    failed: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    failed_s: Float64 = field(default_factory=lambda: np.empty(0))
    unsent_bytes: Float64 = field(default_factory=lambda: np.empty(0))
    worst_link_byte_error: float = 0.0
    wall_s: float = 0.0

    @property
    def makespan_s(self) -> float:
        """Time of the last end of a task in seconds; 0 for an empty graph."""
        return float(np.nanmax(self.end_s)) if self.end_s.size and not np.isnan(self.end_s).all() else 0.0


def critical_path(result: EngineResult) -> Int64:
    """Tasks on the critical path, earliest first: the task that ended last, the one that released it, and so on.

    Where several tasks released a later one at the same moment, the one handled last is taken.
    """
    if result.end_s.size == 0 or np.isnan(result.end_s).all():
        return np.empty(0, np.int64)
    path: Int64 = k.critical_chain(result.critical, int(np.nanargmax(result.end_s)))
    return path


class Simulation:
    """One run of a task graph over links: exact weighted max-min sharing between transfers, event by event.

    Parameters
    ----------
    graph : TaskGraph
    routes : Routes
    capacity_bytes_per_s : array_like of float, shape (n_links,)
        0 is a dark link, inf one that never limits.
    latency_mode : {"tail", "head"}
        Pay a route's latency after the drain (links used from the start) or before the transfer (as SimGrid does).
    local_bytes_per_s : float
        Speed of transfers that stay on their host; inf takes no time.
    weight, rate_cap_bytes_per_s : array_like of float, shape (n_tasks,), optional
        Share of a transfer relative to others, and its own rate limit.
    priority : array_like of int, shape (n_tasks,), optional
        0 high (the default of every transfer), 1 low. Strict and work-conserving: the high class shares the links as if the low
        one did not exist, and the low class shares what is left, both max-min. Inside, low transfers cross links of their own,
        numbered ``n_links + link``, whose capacity is what the high class leaves; less than 1e-9 of a link counts as nothing.
    changes : CapacityChanges, optional
    bins : int
        Number of time bins for bytes per link (an even number; 0: totals only). The width starts small and doubles as the run grows.
    level_tolerance : float
        Bulk mode: flows may keep a rate up to this part above what a new bottleneck grants its others, and links may keep this
        part of their capacity idle before the flows they hold rise. No link is above its capacity, and each flow crosses one of
        which at most this part is idle (``certify`` proves both); which flow has how much of the rest is not bounded, only
        measured: finish times on a loaded dragonfly were off by 0.1 % in the mean and 2 % at most with 0.01. 0 is exact.
    completion_window : float
        Bulk mode: completions are handled together until this part of the first one's duration has passed (not beyond the next
        start or capacity change). Each keeps the moment at which it drained; what it releases, and the capacity it frees, waits for
        the end of the window. 0 is exact.
    count_bytes : bool
        Count the bytes of each link as they flow; without, ``link_bytes`` are 0.
    full_solve : bool
        Re-solve all flows at each event: the slow check of the incremental sweep.
    certify : bool
        Prove every allocation by the bottleneck certificate, summed from scratch; a failure raises. Costs about as much again.

    Raises
    ------
    InputError
        A capacity, weight, cap or route is out of range.

    Examples
    --------
    Two transfers share a link of 10 bytes/s; the third task starts when the first is delivered.

    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> a = build.transfer(source=0, destination=1, size_bytes=20)
    >>> b = build.transfer(source=0, destination=1, size_bytes=40)
    >>> build.edge(a, build.delay(rank=1, seconds=1.0))
    >>> routes = Routes(of_task=np.array([0, 0, -1]), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.array([0.5]))
    >>> result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10.0]).run()
    >>> result.end_s.tolist()
    [4.5, 6.5, 5.5]

    Attributes
    ----------
    graph : TaskGraph
    routes : Routes
        As given.
    n_links : int
    is_low : bool array, shape (n_tasks,)
        Tasks in the low class.
    """

    def __init__(
        self,
        *,
        graph: TaskGraph,
        routes: Routes,
        capacity_bytes_per_s: npt.ArrayLike,
        latency_mode: str = "tail",
        local_bytes_per_s: float = np.inf,
        weight: npt.ArrayLike | None = None,
        rate_cap_bytes_per_s: npt.ArrayLike | None = None,
        priority: npt.ArrayLike | None = None,
        changes: CapacityChanges | None = None,
        bins: int = 0,
        level_tolerance: float = 0.0,
        completion_window: float = 0.0,
        count_bytes: bool = True,
        full_solve: bool = False,
        certify: bool = False,
    ) -> None:
        n, n_links = graph.n_tasks, int(np.asarray(capacity_bytes_per_s).size)
        capacity = np.array(capacity_bytes_per_s, dtype=np.float64)
        bad = np.flatnonzero(~(capacity >= 0))
        if bad.size:
            raise InputError(
                f"link {bad[0]}", "capacity must be 0 or more bytes per second", got=float(capacity[bad[0]])
            )
        if latency_mode not in ("tail", "head"):
            raise InputError("latency mode", "must be 'tail' or 'head'", got=repr(latency_mode))
        if bins < 0 or bins % 2:
            raise InputError("time bins", "must be an even number, 0 or more", got=bins)
        if not local_bytes_per_s > 0:
            raise InputError("local rate", "must be positive", got=local_bytes_per_s)
        for name, part in (("level tolerance", level_tolerance), ("completion window", completion_window)):
            if not 0 <= part <= MOST_BULK:
                raise InputError(name, f"must be from 0 to {MOST_BULK}", got=part)
        check_routes(graph, routes, n_links)
        check_choices(routes)
        weights = per_task(weight, n, "weight") if weight is not None else np.ones(1)
        if not ((weights > 0) & np.isfinite(weights)).all():
            raise InputError(
                "weight", "must be finite and above 0", got=float(weights[~((weights > 0) & np.isfinite(weights))][0])
            )
        caps = np.empty(0)
        if rate_cap_bytes_per_s is not None:
            caps = per_task(rate_cap_bytes_per_s, n, "rate cap")
            if not (caps > 0).all():
                raise InputError("rate cap", "must be above 0 bytes per second", got=float(caps[~(caps > 0)][0]))
            if np.isinf(caps).all():
                caps = np.empty(0)
        changes = changes or CapacityChanges(
            time_s=np.empty(0), link=np.empty(0, np.int32), capacity_bytes_per_s=np.empty(0)
        )
        check_changes(changes, n_links)
        low = np.zeros(n, dtype=bool) if priority is None else check_priority(priority, n)
        # The low class costs nothing where nobody is in it.
        self._low = n_links if (low & (np.asarray(routes.of_task) >= 0)).any() else 0
        self._private = n_links + self._low
        given = routes
        choices = routes.choices
        if self._low and choices is not None:
            raise InputError(
                "priority",
                "does not go with routes that are chosen at the start",
                remedy="give each transfer one route",
            )
        if self._low:
            routes = _on_low_links(routes, low, n_links)
        self.graph = graph
        self.routes = given
        self.n_links = n_links
        self.is_low = low
        self._n_routes = routes.ptr.size - 1
        longest = int(np.diff(routes.ptr).max(initial=1)) + (1 if caps.size else 0)
        self._shift = max(1, int(np.ceil(np.log2(longest))))
        # Transfers that choose write their route here; the loop reads it through a read-only view.
        self._pick: Int32 = np.array(routes.of_task if choices is not None else [], dtype=np.int32)
        self._problem = k.Problem(
            kind=graph.kind,
            amount=graph.amount,
            succ_ptr=graph.succ_ptr,
            succ=graph.succ,
            succ_after=graph.succ_after,
            route=frozen(self._pick if choices is not None else routes.of_task, np.int32),
            route_ptr=frozen(routes.ptr, np.int64),
            route_link=frozen(routes.link, np.int32),
            route_use=frozen(np.ones(1) if routes.use is None else routes.use, np.float64),
            route_latency_s=frozen(routes.latency_s, np.float64),
            latencies=graph.latencies,
            weight=frozen(weights, np.float64),
            rate_cap=frozen(caps, np.float64),
            change_s=frozen(changes.time_s, np.float64),
            change_link=frozen(changes.link, np.int32),
            change_capacity=frozen(np.minimum(changes.capacity_bytes_per_s, k.UNLIMITED), np.float64),
            head=int(latency_mode == "head"),
            full=int(full_solve),
            local_rate=float(local_bytes_per_s),
            tolerance=float(level_tolerance),
            window=float(completion_window),
            unit=int(routes.use is None),
            counting=int(count_bytes or bins > 0),
            share_slots=int(weights.size == 1 and caps.size == 0),
            low=self._low,
            choice_ptr=frozen(np.zeros(1) if choices is None else choices.ptr, np.int64),
            choice_row=frozen([] if choices is None else choices.row, np.int32),
            choice_stage=frozen(
                [] if choices is None else np.zeros(len(choices.row)) if choices.stage is None else choices.stage,
                np.uint8,
            ),
            rule=0 if choices is None else RULES.index(choices.rule),
        )
        self._caps = bool(caps.size)
        self._certify = certify
        self._certified = 0
        self._bin_link = np.empty(0, np.int32)
        if bins:
            self._bin_link = np.unique(routes.link % n_links if self._low else routes.link).astype(np.int32)
        self._state = self._allocate(np.minimum(capacity, k.UNLIMITED), bins)
        self._wall_s = 0.0

    def _allocate(self, capacity: Float64, bins: int) -> k.State:
        n, links = self.graph.n_tasks, self.n_links
        # Room for a thousand transfers at once; each enlargement later leaves and enters the compiled loop.
        slots = min(1024, max(64, n))
        rows = self._private + (slots if self._caps else 0)
        bin_row = np.full(links, -1, np.int32)
        bin_row[self._bin_link] = np.arange(self._bin_link.size, dtype=np.int32)
        if self._low:
            # The bytes of both classes go into one row.
            bin_row = np.tile(bin_row, 2)

        link = _records(k.LINK, rows)
        link["capacity"][:links] = capacity
        link["capacity"][links : links + self._low] = capacity[: self._low]
        integer = np.zeros(k.I_SIZE, np.int64)
        integer[k.I_FREE] = slots
        integer[k.I_FREE_NODES] = slots
        integer[k.I_BUCKET] = -1
        real = np.zeros(k.F_SIZE)
        real[k.F_BIN] = 1e-9
        return k.State(
            start_s=np.full(n, np.nan),
            drain_s=np.full(n, np.nan),
            end_s=np.full(n, np.nan),
            critical=np.full(n, -1, np.int32),
            waiting=np.zeros(n, np.int32),
            stack=np.empty(n + 1, np.int32),
            timer_s=np.empty(16 * slots),
            timer=np.empty(16 * slots, np.int64),
            node=_records(k.NODE, slots),
            free_node=np.arange(slots - 1, -1, -1, dtype=np.int32),
            slot_of_route=np.full(max(self._n_routes, 1), -1, np.int32),
            slot=_records(k.SLOT, slots),
            status=np.zeros(slots, np.uint8),
            changed=np.zeros(slots, np.uint8),
            finish_s=np.full(slots, np.inf),
            due_s=np.full(slots, np.inf),
            heap_at=np.zeros(slots, np.int32),
            hops=np.zeros(slots, np.int32),
            hop=_records(k.HOP, slots << self._shift),
            hop_use=np.ones(slots << self._shift),
            link=link,
            level=np.zeros(rows),
            member_base=np.zeros(rows, np.int64),
            member_room=np.zeros(rows, np.int32),
            binned_s=np.zeros(rows),
            link_bytes=np.zeros(rows),
            play=np.empty(slots, np.int32),
            heap=np.empty(slots, np.int32),
            free=np.arange(slots - 1, -1, -1, dtype=np.int32),
            touched=np.empty(rows, np.int32),
            dirty=np.empty(rows, np.int32),
            pool=np.empty(16 * slots, np.int32),
            level_key=np.empty(3 * rows + 64),
            level_node=np.empty(3 * rows + 64, np.int32),
            head=np.full(k.BUCKETS, -1, np.int32),
            bucket=np.full(2 * rows, -1, np.int32),
            before=np.empty(2 * rows, np.int32),
            after=np.empty(2 * rows, np.int32),
            some=np.zeros(k.BUCKETS // 32 + 32, np.int64),
            any=np.zeros(k.BUCKETS // 1024 + 2, np.int64),
            bin_row=bin_row,
            bin_bytes=np.zeros((self._bin_link.size, bins)),
            noted=np.zeros(self._low, np.int32),
            is_noted=np.zeros(self._low, np.uint8),
            failed_s=np.empty(0),
            pick=self._pick,
            crossing=np.zeros(rows if self.routes.choices is not None else 0, np.int32),
            integer=integer,
            real=real,
        )

    def _enlarge(self, status: int) -> None:
        s = self._state
        if status == k.MORE_TIMERS:
            size = 2 * max(s.timer_s.size, int(s.integer[k.I_FLOWS]) + 2)
            self._state = s._replace(timer_s=_longer(s.timer_s, size), timer=_longer(s.timer, size))
        elif status == k.MORE_POOL:
            self._state = s._replace(pool=_longer(s.pool, 2 * s.pool.size + 1024))
        elif status == k.MORE_LEVELS:
            size = 2 * (s.level_key.size + s.bucket.size)
            self._state = s._replace(level_key=_longer(s.level_key, size), level_node=_longer(s.level_node, size))
        elif status == k.MORE_SLOTS:
            old = s.slot.size
            size = 2 * old
            self._state = s._replace(
                slot=_records(k.SLOT, size, s.slot),
                hop=_records(k.HOP, size << self._shift, s.hop),
                hop_use=_longer(s.hop_use, size << self._shift),
                **_all_longer(s, size, "status", "changed", "finish_s", "due_s", "heap_at", "hops", "play", "heap"),
                # The free stack is empty now: it gets the new slots, lowest on top.
                free=_new_on_stack(old, size),
            )
            s.integer[k.I_FREE] = size - old
            if self._caps:
                rows = self._private + size
                self._state = self._state._replace(
                    link=_records(k.LINK, rows, s.link),
                    **_all_longer(s, rows, "level", "member_base", "member_room", "binned_s", "link_bytes"),
                    **_all_longer(s, rows, "touched", "dirty"),
                    **(_all_longer(s, rows, "crossing") if s.crossing.size else {}),
                    **_all_longer(s, 2 * rows, "before", "after"),
                    bucket=_longer(s.bucket, 2 * rows, fill=-1),
                )
        elif status == k.MORE_NODES:
            old = s.node.size
            size = 2 * old
            s.integer[k.I_FREE_NODES] = size - old
            self._state = s._replace(node=_records(k.NODE, size, s.node), free_node=_new_on_stack(old, size))
        else:
            raise AssertionError(status)

    def step(self, batches: int = 1) -> str:
        """Handle some batches of simultaneous events; returns ``"running"``, ``"finished"`` or ``"stuck"``."""
        return self._advance(batches, np.inf)

    def _advance(self, batches: int, until_s: float) -> str:
        """Like `step`, not beyond a time: ``"epoch"`` when it has come."""
        if self._certify and batches > 1:
            for _ in range(batches):
                status = self._advance(1, until_s)
                if status != "running":
                    break
            return status
        while True:
            code = k.advance(self._problem, self._state, self._private, self._shift, batches, until_s)
            if self._certify and code in (k.DONE, k.STUCK, k.BUDGET, k.EPOCH):
                self._prove()
            if code == k.DONE:
                return "finished"
            if code == k.STUCK:
                return "stuck"
            if code == k.BUDGET:
                return "running"
            if code == k.EPOCH:
                return "epoch"
            self._enlarge(code)

    def add_routes(self, *, ptr: Int64, link: Int32, latency_s: Float64, use: Float64 | None) -> None:
        """Append rows to the table of routes (validated by the caller)."""
        p, s = self._problem, self._state
        old_use = p.route_use
        if old_use.size == 1 and (use is not None or old_use[0] != 1.0):
            # One value stood for all hops.
            old_use = np.full(p.route_link.size, old_use[0])
        if old_use.size > 1 or use is not None:
            old_use = np.concatenate([old_use, np.ones(link.size) if use is None else use])
        self._problem = p._replace(
            route_ptr=frozen(np.concatenate([p.route_ptr, p.route_ptr[-1] + ptr[1:]]), np.int64),
            route_link=frozen(np.concatenate([p.route_link, link]), np.int32),
            route_latency_s=frozen(np.concatenate([p.route_latency_s, latency_s]), np.float64),
            route_use=frozen(old_use, np.float64),
            unit=int(bool((old_use == 1.0).all())),
        )
        open_slot = np.full(p.route_ptr.size - 1 + latency_s.size, -1, np.int32)
        open_slot[: min(s.slot_of_route.size, p.route_ptr.size - 1)] = s.slot_of_route[: p.route_ptr.size - 1]
        self._state = s._replace(slot_of_route=open_slot)
        longest = int(np.diff(ptr).max(initial=1)) + (1 if self._caps else 0)
        shift = int(np.ceil(np.log2(longest)))
        if shift > self._shift:
            self._widen(shift)

    def _widen(self, shift: int) -> None:
        """Give each slot room for more hops: hop h of a slot moves from ``slot << old`` to ``slot << shift``."""
        s, old = self._state, self._shift
        slots = s.slot.size
        hop, hop_use = _records(k.HOP, slots << shift), np.ones(slots << shift)
        hop.reshape(slots, 1 << shift)[:, : 1 << old] = s.hop.reshape(slots, 1 << old)
        hop_use.reshape(slots, 1 << shift)[:, : 1 << old] = s.hop_use.reshape(slots, 1 << old)
        used = int(s.integer[k.I_POOL])
        number = s.pool[:used].astype(np.int64)
        s.pool[:used] = ((number >> old) << shift) | (number & ((1 << old) - 1))
        self._state = s._replace(hop=hop, hop_use=hop_use)
        self._shift = shift

    def _prove(self) -> None:
        rows = self._state.link.size
        use = np.zeros(rows)
        task = k.certify(self._state, self._shift, use, np.empty(rows), 1e-9, 1.01 * self._problem.tolerance)
        if self._low and task < 0:
            # The certificate holds per class; what the low class shares must be what the high one leaves.
            n = self.n_links
            capacity = self._state.link["capacity"]
            wrong = np.abs(capacity[:n] - use[:n] - capacity[n : 2 * n]) > 1e-8 * capacity[:n]
            wrong &= self._state.link["members"][n : 2 * n] > 0
            if wrong.any():
                raise NetsimError(
                    f"link {np.flatnonzero(wrong)[0]} at {self.now_s} s",
                    "the low class must share what the high one leaves",
                    remedy="report it",
                )
        if task >= 0:
            raise NetsimError(
                f"transfer {task} at {self.now_s} s",
                "its rate must be max-min fair",
                got="no certificate",
                remedy="report it",
            )
        self._certified += 1

    def run(
        self,
        *,
        progress: Callable[[Progress], None] | None = None,
        batches_per_call: int | None = None,
        controller: Control | Sequence[Control] | None = None,
    ) -> EngineResult:
        """Run to the end, or until Ctrl-C, which gives a result marked ``"interrupted"``.

        Parameters
        ----------
        progress : callable, optional
            Called with a `Progress` between calls of the compiled loop.
        batches_per_call : int, optional
            Batches of events per call of the compiled loop; by default as many as take about a tenth of a second, so that Ctrl-C
            is answered soon. The results do not depend on it.
        controller : Control or sequence of Control, optional
            Python that watches and acts at given times. Controllers due at the same time are asked in this order.

        Returns
        -------
        EngineResult
        """
        status = "running"
        batches = batches_per_call or FIRST_BATCHES
        begin = time.perf_counter()
        try:
            load_kernels()
            begin = time.perf_counter()
            controls = [controller] if isinstance(controller, Control) else list(controller or ())
            step = Steering(self, controls).step if controls else self.step
            while status == "running":
                called = time.perf_counter()
                status = step(batches)
                if batches_per_call is None:
                    longer = time.perf_counter() - called < CALL_S
                    batches = min(batches * 2, MOST_BATCHES) if longer else max(1, batches // 2)
                if progress is not None:
                    progress(self._progress(time.perf_counter() - begin))
        except KeyboardInterrupt:
            status = "interrupted"
        self._wall_s += time.perf_counter() - begin
        return self.result(status)

    def _progress(self, wall_s: float) -> Progress:
        s = self._state
        return Progress(
            simulated_s=float(s.real[k.F_NOW]),
            tasks_done=int(s.integer[k.I_DONE]),
            tasks=self.graph.n_tasks,
            events=int(s.integer[k.I_EVENTS]),
            active_flows=int(s.integer[k.I_FLOWS]),
            wall_s=wall_s,
        )

    def result(self, status: str) -> EngineResult:
        """What is known now; bytes per link are counted up to the present moment."""
        s = self._state
        link_bytes = self.count_bytes()
        failed = np.flatnonzero(~np.isnan(s.failed_s)).astype(np.int32)
        if status == "stuck" and failed.size and self._only_failures(failed):
            status = "failed"
        return EngineResult(
            status=status,
            now_s=float(s.real[k.F_NOW]),
            start_s=s.start_s,
            drain_s=s.drain_s,
            end_s=s.end_s,
            critical=s.critical,
            link_bytes=link_bytes,
            bin_s=float(s.real[k.F_BIN]),
            bin_link=self._bin_link,
            bin_bytes=s.bin_bytes,
            counts={
                "events": int(s.integer[k.I_EVENTS]),
                "solves": int(s.integer[k.I_SOLVES]),
                "flows": int(s.integer[k.I_FINISHED_FLOWS]),
                "flows_in_play": int(s.integer[k.I_IN_PLAY]),
                "flows_changed": int(s.integer[k.I_CHANGED]),
                **({"allocations_certified": self._certified} if self._certify else {}),
            },
            route=self._pick.copy(),
            failed=failed,
            failed_s=s.failed_s[failed],
            unsent_bytes=self._problem.amount[failed],
            wall_s=self._wall_s,
        )

    def count_bytes(self) -> Float64:
        """Bytes that have crossed each link until now, of both classes; shape (n_links,)."""
        s = self._state
        k.settle_counts(s, float(s.real[k.F_NOW]))
        total: Float64 = s.link_bytes[: self.n_links]
        if self._low:
            total = total + s.link_bytes[self.n_links : self._private]
        return total

    def _only_failures(self, failed: Int32) -> bool:
        """Is everything that has not ended a failure, or waiting for one?"""
        graph, end = self.graph, self._state.end_s
        reached = np.zeros(graph.n_tasks, dtype=bool)
        reached[failed] = True
        front: npt.NDArray[np.integer] = failed
        while front.size:
            ptr, edge = csr_gather(graph.succ_ptr, front)
            # Those that failed did start.
            waits = np.repeat(np.isnan(self._state.start_s[front]), np.diff(ptr)) | (
                graph.succ_after[edge] != AFTER_START
            )
            later = np.unique(graph.succ[edge[waits]])
            front = later[~reached[later]]
            reached[front] = True
        return not (np.isnan(end) & ~reached).any()

    def stuck_error(self) -> StuckError:
        """The error to raise for a run that is stuck or had failures; its report names the transfers and the dark links."""
        s, graph, p = self._state, self.graph, self._problem
        dark = s.link["capacity"][: self.n_links] == 0
        left = np.flatnonzero(np.isnan(s.end_s))
        started = left[~np.isnan(s.start_s[left])]
        report = []
        for task in started[:MOST_LINES].tolist():
            what = "transfer" if graph.kind[task] == TRANSFER else "delay"
            line = f"task {task}, {what}, rank {graph.rank[task]} to {graph.peer[task]}: "
            if s.failed_s.size and not np.isnan(s.failed_s[task]):
                line += f"failed at {s.failed_s[task]:.9g} s with {p.amount[task]:.9g} B unsent"
            else:
                row = int(p.route[task])
                link = p.route_link[p.route_ptr[row] : p.route_ptr[row + 1]] if row >= 0 else p.route_link[:0]
                link = link % max(self.n_links, 1)
                links = ", ".join(str(x) for x in link[dark[link]].tolist())
                line += f"waits for dark link {links}" if links else "under way"
            report.append(line)
        if started.size > MOST_LINES:
            report.append(f"and {started.size - MOST_LINES} more")
        if left.size > started.size:
            report.append(f"{left.size - started.size} tasks wait for others that have not ended")
        error = StuckError(
            "simulation",
            f"cannot finish: at {self.now_s:.9g} s nothing more can happen",
            got=f"{left.size} of {graph.n_tasks} tasks not done",
            remedy="the report names what each transfer waits for",
        )
        error.report = report
        return error

    @property
    def now_s(self) -> float:
        """Simulated time of the last batch of events."""
        return float(self._state.real[k.F_NOW])

    def allocation(self) -> Allocation:
        """The rates in force after the last batch of events, for certificates and inspection."""
        s = self._state
        open_slots = s.heap[: int(s.integer[k.I_ACTIVE])].astype(np.int64)
        tasks, owner = [], []
        for slot in open_slots.tolist():
            # All transfers of the slot, by a walk over its heap.
            nodes = [int(s.slot[slot].first)]
            while nodes:
                node = nodes.pop()
                tasks.append(int(s.node[node].task))
                owner.append(slot)
                nodes += [int(n) for n in (s.node[node].child, s.node[node].next) if n >= 0]
        slots = np.array(owner, dtype=np.int64)
        hops = s.hops[slots].astype(np.int64)
        ptr = np.zeros(slots.size + 1, np.int64)
        np.cumsum(hops, out=ptr[1:])
        at = np.repeat(slots << self._shift, hops) + np.arange(ptr[-1]) - np.repeat(ptr[:-1], hops)
        return Allocation(
            task=np.array(tasks, dtype=np.int32),
            rate_bytes_per_s=s.slot["rate"][slots] / s.slot["flows"][slots],
            weight=s.slot["flow_weight"][slots] / s.slot["flows"][slots],
            ptr=ptr,
            link=s.hop["link"][at],
            use=s.hop_use[at],
            capacity_bytes_per_s=s.link["capacity"].copy(),
        )


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Rates of the active transfers at one moment.

    With two classes, link ``n_links + l`` is what the high class leaves of link l to the low one. Rate caps appear as private links
    after those.

    Attributes
    ----------
    task : int32 array, shape (f,)
    rate_bytes_per_s, weight : float64 arrays, shape (f,)
    ptr, link, use : CSR of the links crossed and the consumption per unit of rate
    capacity_bytes_per_s : float64 array
    """

    task: Int32
    rate_bytes_per_s: Float64
    weight: Float64
    ptr: Int64
    link: Int32
    use: Float64
    capacity_bytes_per_s: Float64


def _on_low_links(routes: Routes, low: npt.NDArray[np.bool_], n_links: int) -> Routes:
    """Routes of their own for the transfers of the low class, over the links that stand for what is left."""
    of_task = np.array(routes.of_task, dtype=np.int64)
    mine = np.flatnonzero(low & (of_task >= 0))
    rows, row = np.unique(of_task[mine], return_inverse=True)
    ptr, at = csr_gather(routes.ptr, rows)
    of_task[mine] = routes.ptr.size - 1 + row
    return Routes(
        of_task=of_task.astype(np.int32),
        ptr=np.concatenate([routes.ptr, routes.ptr[-1] + ptr[1:]]),
        link=np.concatenate([routes.link, np.asarray(routes.link)[at] + n_links]),
        latency_s=np.concatenate([routes.latency_s, np.asarray(routes.latency_s)[rows]]),
        use=None if routes.use is None else np.concatenate([routes.use, np.asarray(routes.use)[at]]),
    )


@functools.cache
def load_kernels() -> None:
    """Compile or load the loop on an empty problem, so that neither counts as time of a run."""
    none = np.empty(0, np.int64)
    graph = TaskGraph.from_edges(
        n_ranks=1,
        kind=none.astype(np.uint8),
        rank=none.astype(np.int32),
        peer=none.astype(np.int32),
        amount=none.astype(np.float64),
        edge_from=none,
        edge_to=none,
        edge_after=none.astype(np.uint8),
    )
    routes = Routes(
        of_task=none.astype(np.int32), ptr=np.zeros(1, np.int64), link=none.astype(np.int32), latency_s=np.empty(0)
    )
    Simulation(graph=graph, routes=routes, capacity_bytes_per_s=[1.0]).step()


def _records(of: np.dtype[np.void], rows: int, old: npt.NDArray[np.void] | None = None) -> Any:
    """Zeroed records at an address divisible by 64, a cache line; the first ones taken from ``old``."""
    raw = np.zeros(rows * of.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    records = raw[start : start + rows * of.itemsize].view(of).view(np.recarray)
    if old is not None:
        records[: old.size] = old
    return records


def _new_on_stack(old: int, size: int) -> Int32:
    stack = np.empty(size, np.int32)
    stack[: size - old] = np.arange(size - 1, old - 1, -1, dtype=np.int32)
    return stack


def _longer(array: npt.NDArray[np.generic], size: int, fill: int = 0) -> npt.NDArray[np.generic]:
    """The array with zeros, or another number, after it."""
    grown = np.full(size, fill, array.dtype)
    grown[: array.size] = array
    return grown


def _all_longer(s: k.State, size: int, *names: str) -> dict[str, npt.NDArray[np.generic]]:
    return {name: _longer(getattr(s, name), size) for name in names}
