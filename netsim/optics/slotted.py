"""Selectors that change circuits within a window: Birkhoff-von Neumann, Solstice and Eclipse, beside the electrical network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netsim.core.arrays import Float64, Int64, frozen
from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.optics.circuits import Circuits
from netsim.optics.demands import SwitchDemand
from netsim.optics.loads import efi_index, link_load
from netsim.optics.schedules import Slots, birkhoff_von_neumann, eclipse, solstice
from netsim.optics.schedules.slots import cycles
from netsim.optics.selection import Problem, Selection, chosen, no_options, selectors

__all__ = ["slot_circuits"]

# Each slot takes a matching of all switches, and there may be as many slots as pairs.
MOST_SWITCHES = 1000
MOST_SLOTS = 100_000


@selectors.register("bvn")
def bvn(problem: Problem) -> Selection:
    """Slots of Birkhoff and von Neumann: the demand as a sum of matchings, one after the other, again and again."""
    return _slotted(problem, "bvn")


@selectors.register("solstice")
def solstice_slots(problem: Problem) -> Selection:
    """Slots of Solstice (Liu et al., CoNEXT 2015): matchings for long first, until electrical links drain the rest in time."""
    return _slotted(problem, "solstice")


@selectors.register("eclipse")
def eclipse_slots(problem: Problem) -> Selection:
    """Slots of Eclipse (Venkatakrishnan et al., SIGMETRICS 2016): what sends most per second, set-up included, comes first."""
    return _slotted(problem, "eclipse")


def _slotted(problem: Problem, method: str) -> Selection:
    """Slots for the demand between switches with ports, cut where the electrical network drains the rest in the time that they take."""
    no_options(problem, method)
    dark = chosen(problem, method, Circuits.of([], directed=problem.directed))
    switch, matrix = _between_ports(problem)
    if not matrix.any() or problem.most == 0:
        return dark
    if switch.size > MOST_SWITCHES:
        raise InputError(
            f"circuit selector {method}", f"takes up to {MOST_SWITCHES:,} switches", got=switch.size, remedy="use eefi"
        )
    capacity = problem.capacity_bytes_per_s
    at_once = int(problem.ports[switch].min())
    notes = []
    if problem.ports[switch].max() > at_once:
        notes.append(f"slots use {count(at_once, 'port')} of each switch, the fewest that one has")
    window_s = problem.window_s * at_once
    if method == "eclipse":
        slots = eclipse(
            matrix, window_s=window_s, delay_s=problem.delay_s, capacity_bytes_per_s=capacity,
            reciprocal=not problem.directed,
        )  # fmt: skip
        rows = list(zip(slots.to, slots.length_bytes.tolist(), strict=True))
    else:
        slots = (birkhoff_von_neumann if method == "bvn" else solstice)(matrix, most_bytes=window_s * capacity)
        rows = list(
            _by_pairs(slots) if not problem.directed else zip(slots.to, slots.length_bytes.tolist(), strict=True)
        )
    if len(rows) > MOST_SLOTS:
        notes.append(f"the first {MOST_SLOTS:,} of {len(rows):,} matchings")
        rows = rows[:MOST_SLOTS]
    if at_once > 1:
        # Matchings lit together last as long as the longest of them.
        rows.sort(key=lambda row: -row[1])
    parts, left = slot_circuits(
        rows, matrix, at_once=at_once, directed=problem.directed, most=problem.most,
        lost_bytes=problem.delay_s * capacity, window_bytes=problem.window_s * capacity,
    )  # fmt: skip
    length_s = np.array([problem.delay_s + length / capacity for length, _, _ in parts])
    end_s = np.cumsum(length_s)
    best = _best_number(problem, switch, end_s, left)
    if best is None:
        return dark
    number, slots_s = best
    made = tuple(
        (
            float(length_s[i]),
            Circuits(a=frozen(switch[a], np.int64), b=frozen(switch[b], np.int64), directed=problem.directed),
        )
        for i, (_, a, b) in enumerate(parts[:number])
    )
    if number < len(parts):
        notes.append(
            f"{len(parts) - number:,} more slots would take longer than electrical links need for what they carry"
        )
    return chosen(problem, method, made[0][1], slots=made, slots_s=slots_s, notes=tuple(notes))


def _between_ports(problem: Problem) -> tuple[Int64, Float64]:
    """Switches with ports and demand, and the bytes between them; for circuits that carry both ways the larger of the two directions."""
    demand, n = problem.demand, problem.fabric.n
    u, v = demand.source, demand.to
    kept = (problem.ports[u] > 0) & (problem.ports[v] > 0)
    if problem.candidates is not None:
        a, b = problem.candidates
        allowed = a * n + b if problem.directed else np.concatenate([a * n + b, b * n + a])
        kept &= np.isin(u * n + v, allowed)
    switch, at = np.unique(np.concatenate([u[kept], v[kept]]), return_inverse=True)
    half = at.size // 2
    if switch.size > MOST_SWITCHES:
        # The caller says so; no matrix of it.
        return switch, np.ones((1, 1))
    matrix = np.zeros((switch.size, switch.size))
    matrix[at[:half], at[half:]] = demand.size_bytes[kept]
    return switch, matrix if problem.directed else np.maximum(matrix, matrix.T)


def _by_pairs(slots: Slots) -> Iterator[tuple[Int64, float]]:
    """Matchings of circuits that carry both ways: each cycle of a permutation in two halves of the time, of odd length in three.

    A pair comes up once for each direction, so that half of the time each is enough (after Shannon 1949: colours for the edges of a
    multigraph, at most half as many again as the fullest vertex needs).
    """
    n = slots.to.shape[1]
    for to, length in zip(slots.to, slots.length_bytes.tolist(), strict=True):
        part = np.full((3, n), -1, np.int64)
        for cycle in cycles(to):
            size = len(cycle)
            # One port, joined to itself: no circuit.
            for i in range(size if size > 1 else 0):
                a, b = cycle[i], cycle[(i + 1) % size]
                k = 2 if size % 2 and i == size - 1 else i % 2
                part[k, a], part[k, b] = b, a
        if (part[0] == part[1]).all():
            # Pairs only: no change in the middle.
            yield part[0], length
            continue
        for row in part:
            if (row >= 0).any():
                yield row, length / 2


def slot_circuits(
    rows: list[tuple[Int64, float]],
    matrix: Float64,
    *,
    at_once: int,
    directed: bool,
    most: int,
    lost_bytes: float = 0.0,
    window_bytes: float = np.inf,
) -> tuple[list[tuple[float, Int64, Int64]], list[Float64]]:
    """Matchings as sets of circuits with something to send, so many lit at once.

    Parameters
    ----------
    rows : list of (int64 array, shape (n,); bytes that a circuit can carry)
    matrix : float64 array, shape (n, n)
        Bytes; symmetric if circuits carry both ways.
    at_once : int
        Matchings for each slot.
    directed : bool
    most : int
        Circuits of a slot, those with the most to send first.
    lost_bytes, window_bytes : float
        What a circuit could carry in the time of a set-up and in that of the window. The slot that the window ends is cut; one with no
        time but for its set-up is left out.

    Returns
    -------
    parts : list of (length in bytes, int64 array, int64 array)
        Ends of the circuits of each slot; slots without circuits are left out.
    left : list of float64 array, shape (n, n)
        What is left after the first slot, the second, ...
    """
    rest = matrix.copy()
    parts: list[tuple[float, Int64, Int64]] = []
    left: list[Float64] = []
    used = 0.0
    for begin in range(0, len(rows), at_once):
        ends: list[tuple[float, int, int]] = []
        now = rest.copy()
        length = min(max(row[1] for row in rows[begin : begin + at_once]), window_bytes - used - lost_bytes)
        # A window is a difference of times: what rounding leaves of it is nothing.
        if length <= 1e-9 * window_bytes and window_bytes < np.inf:
            break
        for to, _ in rows[begin : begin + at_once]:
            for a in np.flatnonzero(to >= 0).tolist():
                b = int(to[a])
                if a == b or now[a, b] <= 0 or not (directed or a < b):
                    continue
                sent = min(float(now[a, b]), length)
                ends.append((sent, a, b))
                now[a, b] -= sent
                if not directed:
                    now[b, a] = now[a, b]
        ends.sort(key=lambda end: (-end[0], end[1], end[2]))
        if not ends:
            continue
        used += length + lost_bytes
        for sent, a, b in ends[:most]:
            rest[a, b] -= sent
            if not directed:
                rest[b, a] = rest[a, b]
        parts.append((length, np.array([e[1] for e in ends[:most]]), np.array([e[2] for e in ends[:most]])))
        left.append(rest.copy())
    return parts, left


def _best_number(problem: Problem, switch: Int64, end_s: Float64, left: list[Float64]) -> tuple[int, float] | None:
    """How many slots to light such that they, and beside them the electrical links with the rest, are done soonest; None: none.

    The slots' time grows with their number, the rest shrinks: halved until the two meet.
    """
    if not end_s.size:
        return None
    demand = problem.demand
    place = np.full(problem.fabric.n, -1, np.int64)
    place[switch] = np.arange(switch.size)
    u, v = place[demand.source], place[demand.to]
    known = (u >= 0) & (v >= 0)

    def time_s(number: int) -> tuple[float, float]:
        size = np.array(demand.size_bytes)
        if number:
            # Of pairs that circuits serve both ways, neither direction has more left than the larger one.
            size[known] = np.minimum(size[known], left[number - 1][u[known], v[known]])
        rest = SwitchDemand.of_pairs(demand.n, demand.source, demand.to, size)
        drained = efi_index(problem.topology, link_load(problem.topology, rest, routing="electrical")).max_s
        return max(float(end_s[number - 1]) if number else 0.0, drained), drained

    low, high = 0, end_s.size
    while high - low > 1:
        middle = (low + high) // 2
        _, drained = time_s(middle)
        if drained > end_s[middle - 1]:
            low = middle
        else:
            high = middle
    found = min((time_s(number)[0], number) for number in (0, low, high))
    return (found[1], found[0]) if found[1] else None
