"""When which circuit carries which flow: the outcome of scheduling coflows on circuit switches, and its check."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Float64, Int64, csr_order, frozen
from netsim.core.errors import InputError
from netsim.optics.schedules.coflows import Coflows

__all__ = ["Timetable", "check_timetable"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Timetable:
    """Reservations of circuits; each begins with its set-up.

    Attributes
    ----------
    coflows : Coflows
    capacity_bytes_per_s : float64 array, shape (cores,)
    delay_s : float
    flow, core : int64 array, shape (reservations,)
    start_s, end_s, size_bytes : float64 array, shape (reservations,)
        Sorted by start, then core, then flow.
    setup_s : float64 array, shape (reservations,)
        The part at the start in which nothing is sent: the delay, or what was left of it.
    """

    coflows: Coflows
    capacity_bytes_per_s: Float64
    delay_s: float
    flow: Int64
    core: Int64
    start_s: Float64
    end_s: Float64
    size_bytes: Float64
    setup_s: Float64

    @classmethod
    def of(
        cls,
        coflows: Coflows,
        capacity_bytes_per_s: Float64,
        delay_s: float,
        rows: list[tuple[int, int, float, float, float, float]],
    ) -> Timetable:
        """From rows (flow, core, start, end, bytes, set-up)."""
        table = np.array(rows, dtype=np.float64).reshape(-1, 6)
        table = table[np.lexsort((table[:, 0], table[:, 1], table[:, 2]))]
        return cls(
            coflows=coflows,
            capacity_bytes_per_s=frozen(capacity_bytes_per_s, np.float64),
            delay_s=delay_s,
            flow=frozen(table[:, 0], np.int64),
            core=frozen(table[:, 1], np.int64),
            start_s=frozen(table[:, 2], np.float64),
            end_s=frozen(table[:, 3], np.float64),
            size_bytes=frozen(table[:, 4], np.float64),
            setup_s=frozen(table[:, 5], np.float64),
        )

    def __repr__(self) -> str:
        return f"<Timetable: {self.flow.size} reservations, {self.end_s.max(initial=0.0):.6g} s>"

    @property
    def end_of_coflow_s(self) -> Float64:
        """When each coflow is done, shape (m,); one without flows is done when it arrives."""
        end = np.array(self.coflows.arrival_s)
        np.maximum.at(end, self.coflows.coflow[self.flow], self.end_s)
        return end

    @property
    def completion_s(self) -> Float64:
        """Completion time of each coflow, from its arrival on, shape (m,)."""
        return self.end_of_coflow_s - self.coflows.arrival_s

    @property
    def total_s(self) -> float:
        """Sum of completion times."""
        return float(self.completion_s.sum())

    @property
    def weighted_s(self) -> float:
        """Sum of completion times times weights."""
        return float((self.completion_s * self.coflows.weight).sum())

    @property
    def setups(self) -> int:
        """Number of circuits set up."""
        return int((self.setup_s > 0).sum()) if self.delay_s > 0 else int(self.flow.size)


def check_timetable(timetable: Timetable, *, one_core_per_flow: bool = True) -> Timetable:
    """Raise unless every flow is sent in full after its arrival, each reservation has the time for its bytes, and no port is used twice.

    Knows nothing of how the timetable was made: for schedulers of your own too.

    Parameters
    ----------
    timetable : Timetable
    one_core_per_flow : bool
        No flow is divided between cores.

    Raises
    ------
    InputError
        What is broken first, with its flow or port.
    """
    t, coflows = timetable, timetable.coflows
    slack = 1e-9 * max(1.0, float(t.end_s.max(initial=0.0)))
    sent = np.bincount(t.flow, weights=t.size_bytes, minlength=coflows.source.size)
    wrong = np.flatnonzero(~np.isclose(sent, coflows.size_bytes, rtol=1e-9, atol=0.0))
    if wrong.size:
        i = int(wrong[0])
        raise InputError(f"flow {i}", f"must send {coflows.size_bytes[i]:.6g} bytes", got=f"{sent[i]:.6g}")
    early = np.flatnonzero(t.start_s < coflows.arrival_s[coflows.coflow[t.flow]] - slack)
    if early.size:
        i = int(early[0])
        raise InputError(f"flow {t.flow[i]}", "must start after its arrival", got=f"{t.start_s[i]:.6g} s")
    room = (t.end_s - t.start_s - t.setup_s + slack) * t.capacity_bytes_per_s[t.core]
    over = np.flatnonzero((room < t.size_bytes * (1 - 1e-9)) | (t.setup_s > t.delay_s + slack) | (t.setup_s < 0))
    if over.size:
        i = int(over[0])
        raise InputError(
            f"flow {t.flow[i]}",
            f"has time for {max(room[i], 0.0):.6g} bytes from {t.start_s[i]:.6g} s to {t.end_s[i]:.6g} s",
            got=f"{t.size_bytes[i]:.6g}",
        )
    if one_core_per_flow:
        first = np.full(coflows.source.size, -1, np.int64)
        first[t.flow[::-1]] = t.core[::-1]
        other = np.flatnonzero(first[t.flow] != t.core)
        if other.size:
            i = int(other[0])
            raise InputError(f"flow {t.flow[i]}", f"must stay on core {first[t.flow[i]]}", got=f"core {t.core[i]}")
    for what, port in (("sending", coflows.source), ("receiving", coflows.destination)):
        key = t.core * coflows.n_ports + port[t.flow]
        ptr, order = csr_order(key, int(t.capacity_bytes_per_s.size) * coflows.n_ports)
        for k in np.flatnonzero(np.diff(ptr) > 1).tolist():
            mine = order[ptr[k] : ptr[k + 1]]
            mine = mine[np.lexsort((t.end_s[mine], t.start_s[mine]))]
            clash = np.flatnonzero(t.start_s[mine[1:]] < t.end_s[mine[:-1]] - slack)
            if clash.size:
                a, b = int(mine[clash[0]]), int(mine[clash[0] + 1])
                raise InputError(
                    f"{what} port {k % coflows.n_ports} of core {k // coflows.n_ports}",
                    "must have one circuit at a time",
                    got=f"flow {t.flow[a]} until {t.end_s[a]:.6g} s and flow {t.flow[b]} from {t.start_s[b]:.6g} s",
                )
    _check_standing(timetable, slack)
    return timetable


def _check_standing(t: Timetable, slack: float) -> None:
    """A set-up that is shorter than the delay goes on where the same flow had its circuit, or was setting it up, until that moment."""
    ends = np.full((2, t.capacity_bytes_per_s.size, t.coflows.n_ports), -1, np.int64)
    dark = np.zeros(t.flow.size)
    for i in np.lexsort((t.end_s, t.start_s)).tolist():
        f, c = t.flow[i], t.core[i]
        s, d = t.coflows.source[f], t.coflows.destination[f]
        needed = t.delay_s
        before = int(ends[0, c, s])
        if (
            before >= 0
            and t.flow[before] == f
            and before == ends[1, c, d]
            and abs(t.end_s[before] - t.start_s[i]) <= slack
        ):
            needed = max(dark[before] - (t.end_s[before] - t.start_s[before]), 0.0)
        dark[i] = needed
        # What is broken off before its set-up is over sends nothing.
        if t.size_bytes[i] > 0 and t.setup_s[i] < needed - slack:
            raise InputError(
                f"flow {f}",
                f"must be dark for {needed:.6g} s from {t.start_s[i]:.6g} s on",
                got=f"{t.setup_s[i]:.6g} s",
            )
        ends[0, c, s] = ends[1, c, d] = i
