"""A task graph replayed in rational numbers: no tolerance, no heap, no incremental anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from netsim.testing.maxmin import exact_rates
from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_END, AFTER_START, DELAY, TaskGraph

__all__ = ["ExactResult", "exact_simulation"]

Number = Fraction | int


@dataclass(frozen=True)
class ExactResult:
    """Moments of each task; None where they never came."""

    start_s: list[Fraction | None]
    drain_s: list[Fraction | None]
    end_s: list[Fraction | None]
    batches: int


def exact_simulation(
    *,
    graph: TaskGraph,
    paths: Sequence[Sequence[int]],
    capacity: Sequence[Number],
    latency: Sequence[Number] | None = None,
    weight: Sequence[Number] | None = None,
    cap: Sequence[Number | None] | None = None,
    changes: Sequence[tuple[Number, int, Number]] = (),
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

    def enter(task: int) -> None:
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
            elif head and paths[task] and lat[task] > 0:
                timers.append((now + lat[task], task, "enter"))
            else:
                enter(task)
        tasks = sorted(active)
        found = exact_rates(
            capacity=room,
            paths=[paths[i] for i in tasks],
            weight=None if weight is None else [weight[i] for i in tasks],
            cap=None if cap is None else [cap[i] for i in tasks],
        )
        rates = dict(zip(tasks, found, strict=True))
        if on_rates is not None:
            on_rates(now, tasks, found)
        finish = {i: now + active[i] / rates[i] for i in tasks if rates[i] > 0}
        times = [*finish.values(), *(t for t, _, _ in timers)]
        if todo and (times or active):
            times.append(todo[0][0])
        if not times:
            return ExactResult(start, drain, end, batches)
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
