"""Times of a task graph on a network where no two transfers share a link: a few lines, independent of the engine."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from netsim.traffic.taskgraph import AFTER_DRAIN, AFTER_END, AFTER_START, DELAY, TaskGraph


@dataclass
class Times:
    """Start, drain and end of each task; inf where it never happens."""

    start: list[float]
    drain: list[float]
    end: list[float]


def evaluate(graph: TaskGraph, *, rate: float = math.inf, latency: float = 0.0) -> Times:
    """Each transfer between different ranks drains after size/rate and ends a latency later; local ones take no time."""
    n = graph.n_tasks
    missing = [0] * n
    for task in graph.succ.tolist():
        missing[task] += 1
    times = Times([math.inf] * n, [math.inf] * n, [math.inf] * n)
    ready = [0.0] * n
    heap = [(0.0, task) for task in range(n) if missing[task] == 0]
    heapq.heapify(heap)
    while heap:
        now, task = heapq.heappop(heap)
        amount = float(graph.amount[task])
        times.start[task] = now
        if graph.kind[task] == DELAY:
            times.drain[task] = times.end[task] = now + amount
        elif graph.rank[task] == graph.peer[task]:
            times.drain[task] = times.end[task] = now
        else:
            times.drain[task] = now + (amount / rate if amount else 0.0)
            times.end[task] = times.drain[task] + latency
        moment = {AFTER_END: times.end[task], AFTER_DRAIN: times.drain[task], AFTER_START: now}
        for edge in range(graph.succ_ptr[task], graph.succ_ptr[task + 1]):
            later = int(graph.succ[edge])
            ready[later] = max(ready[later], moment[int(graph.succ_after[edge])])
            missing[later] -= 1
            if missing[later] == 0:
                heapq.heappush(heap, (ready[later], later))
    return times
