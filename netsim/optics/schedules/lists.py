"""Circuits for coflows on one circuit switch: lists of flows into gaps (only circuits that change are dark), or all-stop slots."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Callable

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.optics.schedules.coflows import Coflows, circuit_bound_s
from netsim.optics.schedules.slots import decompositions
from netsim.optics.schedules.timetable import Timetable

__all__ = ["circuit_rules", "sunflow"]

# (flow, core, start, end, bytes, set-up)
Row = tuple[int, int, float, float, float, float]
Span = tuple[float, float]
# Coflows, their order, the flows of this core, its number, its rate, the delay.
CircuitRule = Callable[[Coflows, Int64, Int64, int, float, float], list[Row]]
circuit_rules: Registry[CircuitRule] = Registry("circuit rule", "netsim.circuit_rules")


def _by_coflow(coflows: Coflows, order: Int64, flows: Int64) -> list[tuple[int, list[int]]]:
    of = coflows.coflow[flows]
    grouped: dict[int, list[int]] = {}
    for f, m in zip(np.sort(flows).tolist(), of[np.argsort(flows)].tolist(), strict=True):
        grouped.setdefault(m, []).append(f)
    return [(m, grouped[m]) for m in order.tolist() if m in grouped]


@circuit_rules.register("list")
def list_circuits(coflows: Coflows, order: Int64, flows: Int64, core: int, rate: float, delay_s: float) -> list[Row]:
    """Each flow, in the order of coflows, then of ports, in the earliest gap at both its ports that holds all of it; never interrupted."""
    out: dict[int, list[Span]] = {}
    into: dict[int, list[Span]] = {}
    rows: list[Row] = []
    for m, members in _by_coflow(coflows, order, flows):
        arrival = float(coflows.arrival_s[m])
        for f in members:
            size = float(coflows.size_bytes[f])
            length = delay_s + size / rate
            sends = out.setdefault(int(coflows.source[f]), [])
            receives = into.setdefault(int(coflows.destination[f]), [])
            start = arrival
            while True:
                later = _gap(receives, _gap(sends, start, length), length)
                if later == start:
                    break
                start = later
            insort(sends, (start, start + length))
            insort(receives, (start, start + length))
            rows.append((f, core, start, start + length, size, delay_s))
    return rows


def _gap(busy: list[Span], start: float, length: float) -> float:
    """The first moment from ``start`` on at which a port is idle for ``length``."""
    i = bisect_right(busy, (start, np.inf)) - 1
    if i >= 0:
        start = max(start, busy[i][1])
    for begin, end in busy[i + 1 :]:
        # Sums in another order may differ in the last digit.
        if begin >= (start + length) * (1 - 1e-15):
            break
        start = max(start, end)
    return start


class _Ports:
    """Reservations of ports by earlier coflows: where is it idle, and until when."""

    def __init__(self) -> None:
        self.busy: tuple[dict[int, list[Span]], dict[int, list[Span]]] = ({}, {})

    def idle_until(self, side: int, port: int, now: float) -> float:
        """The next reservation from now on; now itself if the port is busy."""
        spans = self.busy[side].get(port)
        if not spans:
            return np.inf
        i = bisect_right(spans, (now, np.inf)) - 1
        if i >= 0 and spans[i][1] > now:
            return now
        return spans[i + 1][0] if i + 1 < len(spans) else np.inf

    def take(self, source: int, destination: int, start: float, end: float) -> None:
        insort(self.busy[0].setdefault(source, []), (start, end))
        insort(self.busy[1].setdefault(destination, []), (start, end))


def _one_coflow(
    coflows: Coflows,
    members: list[int],
    left: dict[int, float],
    ports: _Ports,
    now: float,
    rate: float,
    delay_s: float,
    standing: dict[int, float],
) -> list[Row]:
    """Intra-coflow scheduling in what earlier coflows leave: scan flows in the order of ports; then let ONE circuit end, and scan again."""
    at: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    source, destination = coflows.source, coflows.destination
    for f in members:
        at[0].setdefault(int(source[f]), []).append(f)
        at[1].setdefault(int(destination[f]), []).append(f)
    open_flows = set(members)
    taken: tuple[set[int], set[int]] = (set(), set())
    # When something frees ports: (time, order, side or 2 for both, port or flow). An earlier coflow's reservation ends before our own do.
    events: list[tuple[float, int, int, int]] = []
    for side in (0, 1):
        for port in at[side]:
            events += [(end, -1, side, port) for _, end in ports.busy[side].get(port, []) if end > now]
    heapq.heapify(events)
    rows: list[Row] = []
    # No interruption inside a coflow: what stands goes on first.
    scan = sorted(members, key=lambda f: (f not in standing, f))
    while True:
        for f in scan:
            if f not in open_flows:
                continue
            s, d = int(source[f]), int(destination[f])
            if s in taken[0] or d in taken[1]:
                continue
            until = min(ports.idle_until(0, s, now), ports.idle_until(1, d, now))
            # A circuit that stands already, or is half set up, goes on.
            dark = standing.get(f, delay_s)
            length = dark + left[f] / rate
            # A gap that has no time for a byte after the set-up is passed over.
            if now + length > until and until - now <= dark + 1.0 / rate:
                continue
            end = min(now + length, until)
            size = left[f] if end == now + length else min((end - now - dark) * rate, left[f])
            if left[f] - size <= 1e-12 * coflows.size_bytes[f]:
                size = left[f]
            rows.append((f, 0, now, end, size, dark))
            left[f] -= size
            taken[0].add(s)
            taken[1].add(d)
            heapq.heappush(events, (end, f, 2, f))
            if left[f] <= 0:
                open_flows.discard(f)
        standing = {}
        if not open_flows:
            break
        # The last flow may wait for a reservation of another coflow only; all of them are events.
        now, _, side, which = heapq.heappop(events)
        if side == 2:
            s, d = int(source[which]), int(destination[which])
            taken[0].discard(s)
            taken[1].discard(d)
            scan = sorted({*at[0][s], *at[1][d]} & open_flows)
        else:
            scan = [f for f in at[side][which] if f in open_flows]
    for f, _, start, end, _, _ in rows:
        ports.take(int(source[f]), int(destination[f]), start, end)
    return rows


@circuit_rules.register("sunflow")
def sunflow_circuits(coflows: Coflows, order: Int64, flows: Int64, core: int, rate: float, delay_s: float) -> list[Row]:
    """Sunflow: coflows in order, in gaps that earlier ones leave, cut off where a gap ends; planned anew at each arrival."""
    groups = _by_coflow(coflows, order, flows)
    left = {f: float(coflows.size_bytes[f]) for _, members in groups for f in members}
    arrivals = sorted({float(coflows.arrival_s[m]) for m, _ in groups})
    done: list[Row] = []
    standing: dict[int, float] = {}
    for number, now in enumerate(arrivals):
        ports = _Ports()
        plan: list[Row] = []
        budget = dict(left)
        for m, members in groups:
            present = [f for f in members if budget[f] > 0]
            if coflows.arrival_s[m] <= now and present:
                plan += _one_coflow(coflows, present, budget, ports, now, rate, delay_s, standing)
        until = arrivals[number + 1] if number + 1 < len(arrivals) else np.inf
        going_on: dict[int, float] = {}
        for f, _, start, end, size, dark in plan:
            if start >= until:
                continue
            if end > until:
                sent = min(max(until - start - dark, 0.0) * rate, size)
                going_on[f] = max(dark - (until - start), 0.0)
                end, size, dark = until, sent, min(dark, until - start)
            left[f] = max(left[f] - size, 0.0) if left[f] - size > 1e-12 * coflows.size_bytes[f] else 0.0
            done.append((f, core, start, end, size, dark))
        standing = going_on
    return done


def _all_stop(
    method: str, coflows: Coflows, order: Int64, flows: Int64, core: int, rate: float, delay_s: float
) -> list[Row]:
    rows: list[Row] = []
    clock = 0.0
    for m, members in _by_coflow(coflows, order, flows):
        clock = max(clock, float(coflows.arrival_s[m]))
        f = np.array(members)
        sends, i = np.unique(coflows.source[f], return_inverse=True)
        receives, j = np.unique(coflows.destination[f], return_inverse=True)
        demand = np.zeros((sends.size, receives.size))
        demand[i, j] = coflows.size_bytes[f]
        number = np.full(demand.shape, -1, np.int64)
        number[i, j] = f
        for to, length in _slots(decompositions[method](demand)):
            end = clock + delay_s + length / rate
            for s in range(sends.size):
                d = int(to[s])
                if 0 <= d < receives.size and demand[s, d] > 0:
                    size = min(float(demand[s, d]), length)
                    demand[s, d] -= size
                    rows.append((int(number[s, d]), core, clock, clock + delay_s + size / rate, size, delay_s))
            clock = end
    return rows


def _slots(slots: object) -> list[tuple[Int64, float]]:
    return list(zip(slots.to, slots.length_bytes.tolist(), strict=True))  # type: ignore[attr-defined]


@circuit_rules.register("solstice")
def solstice_circuits(
    coflows: Coflows, order: Int64, flows: Int64, core: int, rate: float, delay_s: float
) -> list[Row]:
    """One coflow after the other, in slots of Solstice; all circuits are dark between slots."""
    return _all_stop("solstice", coflows, order, flows, core, rate, delay_s)


@circuit_rules.register("bvn")
def bvn_circuits(coflows: Coflows, order: Int64, flows: Int64, core: int, rate: float, delay_s: float) -> list[Row]:
    """One coflow after the other, in slots of Birkhoff and von Neumann; all circuits are dark between slots."""
    return _all_stop("bvn", coflows, order, flows, core, rate, delay_s)


def sunflow(
    coflows: Coflows, *, capacity_bytes_per_s: float, delay_s: float, order: Int64 | None = None, alone: bool = False
) -> Timetable:
    """Circuits for coflows on one circuit switch on which only circuits that change are dark (Huang, Sun and Ng, CoNEXT 2016).

    Within a coflow: scan its flows by source and destination, reserve where both ports are idle; then let one circuit end, free its
    ports, scan again (of several that end at the same moment the one with the lower ports first: outcomes depend on it). A coflow alone
    takes at most twice `circuit_bound_s`. Between coflows: in order, each in the gaps that earlier ones leave; a reservation is cut off
    at the end of a gap, and what is left pays the delay again. All is planned anew at each arrival, and a flow whose circuit stands goes
    on; another flow between the same ports sets up its own.

    Parameters
    ----------
    coflows : Coflows
    capacity_bytes_per_s : float
    delay_s : float
    order : int64 array, shape (m,), optional
        Coflows by priority; by default the smallest bound first.
    alone : bool
        Each coflow as if it were the only one, from time 0 on: what the paper calls intra-coflow.

    Examples
    --------
    >>> pair = Coflows.of_flows([(0, 0, 0, 2), (0, 0, 1, 2), (0, 1, 0, 2)])
    >>> sunflow(pair, capacity_bytes_per_s=1.0, delay_s=0.1).completion_s.tolist()
    [4.2]
    """
    rate, delay = checked_core(capacity_bytes_per_s, delay_s)
    if order is None:
        bound = circuit_bound_s(coflows, capacity_bytes_per_s=rate, delay_s=delay)
        order = np.lexsort((np.arange(len(coflows)), bound))
    rates = np.array([rate])
    if not alone:
        rows = sunflow_circuits(coflows, order, np.arange(coflows.source.size), 0, rate, delay)
        return Timetable.of(coflows, rates, delay, rows)
    rows = []
    for m in range(len(coflows)):
        members = coflows.flows(m).tolist()
        left = {f: float(coflows.size_bytes[f]) for f in members}
        start = float(coflows.arrival_s[m])
        # Timed from 0, so that the outcome does not depend on the arrival, then moved.
        alone_rows = _one_coflow(coflows, members, left, _Ports(), 0.0, rate, delay, {}) if members else []
        rows += [(f, c, start + a, start + b, size, dark) for f, c, a, b, size, dark in alone_rows]
    return Timetable.of(coflows, rates, delay, rows)


def checked_core(capacity_bytes_per_s: float, delay_s: float) -> tuple[float, float]:
    """A capacity above 0 and a delay of 0 or more, or an error."""
    if not (capacity_bytes_per_s > 0 and np.isfinite(capacity_bytes_per_s)):
        raise InputError("core capacity", "must be finite and above 0 bytes per second", got=capacity_bytes_per_s)
    if not (delay_s >= 0 and np.isfinite(delay_s)):
        raise InputError("reconfiguration delay", "must be finite and 0 or more seconds", got=delay_s)
    return float(capacity_bytes_per_s), float(delay_s)


def rates_of(capacity_bytes_per_s: object, delay_s: float) -> Float64:
    """Rates of cores, checked."""
    rate = np.asarray(capacity_bytes_per_s, dtype=np.float64).ravel()
    if not rate.size:
        raise InputError("cores", "there must be one or more", got="none")
    for value in rate.tolist():
        checked_core(value, delay_s)
    return rate
