"""A task graph replayed in rational numbers: no tolerance, no heap, no incremental anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from netsim.testing.maxmin import exact_rates
from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_END, AFTER_START, DELAY, TaskGraph

__all__ = ["ExactResult", "exact_simulation"]

Number = Fraction | int


@dataclass(frozen=True)
class ExactResult:
    """Moments of each task; None where they never came.

    Attributes
    ----------
    start_s, drain_s, end_s : list of Fraction or None
    batches : int
    failed_s : list of Fraction or None
        When the task failed.
    unsent : dict of int to Fraction
        Bytes that each failed task had left.
    """

    start_s: list[Fraction | None]
    drain_s: list[Fraction | None]
    end_s: list[Fraction | None]
    batches: int
    failed_s: list[Fraction | None] = field(default_factory=list)
    unsent: dict[int, Fraction] = field(default_factory=dict)


def exact_simulation(
    *,
    graph: TaskGraph,
    paths: Sequence[Sequence[int]],
    capacity: Sequence[Number],
    latency: Sequence[Number] | None = None,
    weight: Sequence[Number] | None = None,
    cap: Sequence[Number | None] | None = None,
    changes: Sequence[tuple[Number, int, Number]] = (),
    priority: Sequence[int] | None = None,
    orders: Sequence[tuple[Number, int, Sequence[int] | None]] = (),
    head: bool = False,
    on_rates: Callable[[Fraction, list[int], list[Fraction]], None] | None = None,
) -> ExactResult:
    """Replay with exact max-min sharing (the meaning of tasks, moments and edges is that of `TaskGraph`).

    Parameters
    ----------
    graph : TaskGraph
        Amounts are taken as the exact values of their floats.
    paths : sequence of sequences of int
        Links of each task; empty for delays and for transfers that stay on their host.
    capacity : sequence of numbers
    latency, weight, cap : one per task, optional
    changes : (time, link, new capacity), sorted by time
    priority : one per task, optional
        0 high, 1 low: the low class shares what the high one leaves.
    orders : (time, task, new path), sorted by time
        Transfers that get another path, or (None) fail: now if under way, at their start if they have not started. Orders to
        transfers that have drained or failed change nothing. They come after all else of their moment.
    head : bool
        Pay latency before the transfer.
    on_rates : callable, optional
        Called with (time, tasks, rates) after each batch.

    Examples
    --------
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=2)
    >>> _ = build.transfer(source=0, destination=1, size_bytes=100), build.transfer(source=0, destination=1, size_bytes=200)
    >>> exact_simulation(graph=build.graph(), paths=[[0], [0]], capacity=[30]).end_s
    [Fraction(20, 3), Fraction(10, 1)]
    """
    n = graph.n_tasks
    paths = [list(path) for path in paths]
    doomed: set[int] = set()
    failed: list[Fraction | None] = [None] * n
    unsent: dict[int, Fraction] = {}
    planned = [(Fraction(t), task, path) for t, task, path in orders]
    zero = Fraction(0)
    lat = [zero] * n if latency is None else [Fraction(x) for x in latency]
    room = [Fraction(x) for x in capacity]
    todo = [(Fraction(t), link, Fraction(c)) for t, link, c in changes]
    start: list[Fraction | None] = [None] * n
    drain: list[Fraction | None] = [None] * n
    end: list[Fraction | None] = [None] * n
    waiting = [0] * n
    for later in graph.succ.tolist():
        waiting[later] += 1
    timers: list[tuple[Fraction, int, str]] = []
    active: dict[int, Fraction] = {}  # remaining bytes
    rates: dict[int, Fraction] = {}
    ready = [i for i in range(n) if waiting[i] == 0]
    now, batches = zero, 0

    def moment(task: int, after: int) -> None:
        for e in range(int(graph.succ_ptr[task]), int(graph.succ_ptr[task + 1])):
            if graph.succ_after[e] == after:
                later = int(graph.succ[e])
                waiting[later] -= 1
                if waiting[later] == 0:
                    ready.append(later)

    def finish_drain(task: int) -> None:
        drain[task] = now
        moment(task, AFTER_DRAIN)
        wait = lat[task] if not head else zero
        if graph.kind[task] != DELAY and paths[task] and wait > 0:
            timers.append((now + wait, task, "end"))
        else:
            end[task] = now
            moment(task, AFTER_END)

    def fail(task: int, left: Fraction) -> None:
        failed[task] = now
        unsent[task] = left

    def enter(task: int) -> None:
        if task in doomed:
            fail(task, Fraction(float(graph.amount[task])))
            return
        size = Fraction(float(graph.amount[task]))
        if size == 0 or not paths[task]:
            finish_drain(task)
        else:
            active[task] = size

    while True:
        while ready:
            task = ready.pop()
            start[task] = now
            moment(task, AFTER_START)
            if graph.kind[task] == DELAY:
                if graph.amount[task] > 0:
                    timers.append((now + Fraction(float(graph.amount[task])), task, "drain"))
                else:
                    finish_drain(task)
            elif head and paths[task] and lat[task] > 0 and task not in doomed:
                timers.append((now + lat[task], task, "enter"))
            else:
                enter(task)
        while planned and planned[0][0] <= now:
            _, task, path = planned.pop(0)
            if drain[task] is not None or failed[task] is not None:
                continue
            doomed.discard(task)
            if path is not None:
                paths[task] = list(path)
            elif task in active:
                fail(task, active.pop(task))
            else:
                doomed.add(task)
        tasks = sorted(active)
        rates = {}
        left = list(room)
        for level in (0, 1):
            group = [i for i in tasks if (priority[i] if priority is not None else 0) == level]
            found = exact_rates(
                capacity=left,
                paths=[paths[i] for i in group],
                weight=None if weight is None else [weight[i] for i in group],
                cap=None if cap is None else [cap[i] for i in group],
            )
            rates.update(zip(group, found, strict=True))
            for i in group:
                for link in paths[i]:
                    left[link] -= rates[i]
        if on_rates is not None:
            on_rates(now, tasks, [rates[i] for i in tasks])
        finish = {i: now + active[i] / rates[i] for i in tasks if rates[i] > 0}
        times = [*finish.values(), *(t for t, _, _ in timers)]
        if todo and (times or active):
            times.append(todo[0][0])
        if planned:
            times.append(planned[0][0])
        if not times:
            return ExactResult(start, drain, end, batches, failed, unsent)
        then = max(now, min(times))
        for i in tasks:
            active[i] -= rates[i] * (then - now)
        now = then
        batches += 1
        for i in tasks:
            if finish.get(i) == now:
                del active[i]
                finish_drain(i)
        due = sorted(t for t in timers if t[0] == now)
        timers = [t for t in timers if t[0] != now]
        for _, task, what in due:
            if what == "enter":
                enter(task)
            elif what == "drain":
                finish_drain(task)
            else:
                end[task] = now
                moment(task, AFTER_END)
        while todo and todo[0][0] <= now:
            _, link, value = todo.pop(0)
            room[link] = value
