"""A demand taken apart into slots: matchings of senders and receivers, one after the other, each for some time.

All circuits are dark between slots (all-stop). Quantities are bytes that one circuit carries; sizes are counted in whole units, so that
what is taken apart adds up again exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from netsim.core.arrays import Float64, Int64, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry

__all__ = ["Slots", "birkhoff_von_neumann", "decompositions", "eclipse", "solstice", "stuffing"]

# Sums of lines stay exact in int64 and in float64.
UNITS = 2.0**50
# Matchings that Eclipse looks at in one round of its search for a duration.
TRIES = 32


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Slots:
    """Matchings in the order in which they are lit.

    Attributes
    ----------
    to : int64 array, shape (slots, n)
        The receiver of each sender, -1: none.
    length_bytes : float64 array, shape (slots,)
        What a circuit can carry in the slot: its lit time times the capacity.
    """

    to: Int64
    length_bytes: Float64

    @classmethod
    def of(cls, rows: list[tuple[Int64, float]], n: int) -> Slots:
        """From a list of matchings and lengths."""
        to = np.array([row for row, _ in rows], dtype=np.int64).reshape(-1, n)
        return cls(to=frozen(to, np.int64), length_bytes=frozen([length for _, length in rows], np.float64))

    def __len__(self) -> int:
        return int(self.length_bytes.size)

    def __repr__(self) -> str:
        return f"<Slots: {len(self)} slots, {self.length_bytes.sum():.6g} bytes long>"

    def matrix(self) -> Float64:
        """Bytes that each pair could send in all slots, shape (n, n)."""
        n = self.to.shape[1]
        total = np.zeros((n, n))
        for row, length in zip(self.to, self.length_bytes, strict=True):
            used = np.flatnonzero(row >= 0)
            total[used, row[used]] += length
        return total

    def served(self, demand: npt.ArrayLike) -> Float64:
        """Of a demand, what is sent by the end of all slots, shape (n, n)."""
        return np.minimum(np.asarray(demand, dtype=np.float64), self.matrix())

    def end_s(self, *, capacity_bytes_per_s: float, delay_s: float) -> Float64:
        """When each slot ends, shape (slots,): each begins with a reconfiguration.

        >>> solstice([[0, 4, 1], [1, 0, 4], [4, 1, 0]]).end_s(capacity_bytes_per_s=1.0, delay_s=0.5).tolist()
        [4.5, 6.0]
        """
        end: Float64 = np.cumsum(self.length_bytes / capacity_bytes_per_s + delay_s)
        return end

    def completion_s(self, *, capacity_bytes_per_s: float, delay_s: float) -> float:
        """When the last slot ends: all lengths over the capacity, and a reconfiguration for each slot."""
        return float(self.length_bytes.sum() / capacity_bytes_per_s + delay_s * len(self))


def _matrix(demand: npt.ArrayLike) -> Float64:
    matrix = np.array(demand, dtype=np.float64)
    if matrix.ndim != 2:
        raise InputError("demand", "must be a matrix of bytes", got=f"shape {matrix.shape}")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all()):
        i, j = (int(x[0]) for x in np.nonzero(~(np.isfinite(matrix) & (matrix >= 0))))
        raise InputError(f"demand from {i} to {j}", "must be finite and 0 or more bytes", got=matrix[i, j])
    n = max(matrix.shape)
    square = np.zeros((n, n))
    square[: matrix.shape[0], : matrix.shape[1]] = matrix
    return square


def _whole(matrix: Float64) -> tuple[Int64, float]:
    """In whole units, rounded up, and the bytes of a unit: 1, or a power of two for fractions and for sums above `UNITS`."""
    most = max(float(matrix.sum(axis=0).max(initial=0.0)), float(matrix.sum(axis=1).max(initial=0.0)))
    unit = 1.0
    if most > 0 and (most > UNITS or (matrix != np.floor(matrix)).any()):
        unit = 2.0 ** np.ceil(np.log2(most / UNITS))
    return np.ceil(matrix / unit).astype(np.int64), float(unit)


def stuffing(demand: npt.ArrayLike) -> Float64:
    """Raise entries until all rows and columns add up to the largest of their sums (QuickStuff; Liu et al., CoNEXT 2015).

    First entries above 0, row by row, then the others: no circuit more than needed. A demand that is not square gets ports without
    demand. Whole bytes stay whole; fractions are rounded up to 2^-50 of the largest sum.

    Parameters
    ----------
    demand : array_like of float, shape (n, n)
        Bytes.

    Returns
    -------
    float64 array, shape (n, n)

    Examples
    --------
    >>> stuffing([[3, 1], [0, 2]]).tolist()
    [[3.0, 1.0], [1.0, 3.0]]
    """
    whole, unit = _whole(_matrix(demand))
    return (_stuffed(whole) * unit).astype(np.float64)


def _stuffed(whole: Int64) -> Int64:
    full = whole.copy()
    row, column = full.sum(axis=1), full.sum(axis=0)
    most = max(int(row.max(initial=0)), int(column.max(initial=0)))
    row, column = most - row, most - column
    # Where both a row and a column have room; the second pass meets what is left of them in any entry.
    for present in (True, False):
        rows, columns = np.nonzero(whole) if present else (np.flatnonzero(row), np.flatnonzero(column))
        cells = zip(rows.tolist(), columns.tolist(), strict=True) if present else _grid(rows, columns)
        for i, j in cells:
            more = min(int(row[i]), int(column[j]))
            if more:
                full[i, j] += more
                row[i] -= more
                column[j] -= more
    return full


def _grid(rows: Int64, columns: Int64) -> Any:
    return ((i, j) for i in rows.tolist() for j in columns.tolist())


def _perfect(allowed: npt.NDArray[np.bool_]) -> Int64 | None:
    """A perfect matching on the entries that are allowed, column of each row; None if there is none."""
    found = maximum_bipartite_matching(csr_array(allowed), perm_type="column")
    return None if (found < 0).any() else found.astype(np.int64)


def _taken_apart(demand: npt.ArrayLike, most_bytes: float, first: Callable[[Int64], int]) -> Slots:
    matrix = _matrix(demand)
    n = matrix.shape[0]
    whole, unit = _whole(matrix)
    left = _stuffed(whole)
    real = whole.copy()
    here = np.arange(n)
    slots: list[tuple[Int64, float]] = []
    threshold = first(left)
    length = 0.0
    while left.any() and length < most_bytes:
        to = _perfect(left >= max(threshold, 1))
        if to is None:
            # Equal sums: a matching of entries above 0 exists always (Birkhoff), so that this ends at 1.
            threshold //= 2
            continue
        slot = int(left[here, to].min())
        left[here, to] -= slot
        slots.append((to, slot * unit))
        if (real[here, to] > 0).any():
            length += slot * unit
            real[here, to] -= slot
    return Slots.of(slots, n)


def birkhoff_von_neumann(demand: npt.ArrayLike, *, most_bytes: float = np.inf) -> Slots:
    """Any perfect matching of what is left, for as long as its smallest entry lasts (Birkhoff 1946; von Neumann 1953), after `stuffing`.

    All lengths together are the largest sum of a row or column, exactly. At most n^2 - 2n + 2 slots.

    Parameters
    ----------
    demand : array_like of float, shape (n, n)
        Bytes.
    most_bytes : float
        Stop when the slots in which there is something to send are so long.

    Examples
    --------
    >>> slots = birkhoff_von_neumann([[0, 4, 1], [1, 0, 4], [4, 1, 0]])
    >>> sorted(zip(slots.length_bytes.tolist(), slots.to.tolist()))
    [(1.0, [2, 0, 1]), (4.0, [1, 2, 0])]
    """
    return _taken_apart(demand, most_bytes, lambda left: 1)


def solstice(demand: npt.ArrayLike, *, most_bytes: float = np.inf) -> Slots:
    """Long slots first (BigSlice; Liu et al., CoNEXT 2015): perfect matchings of entries of a threshold or more, after `stuffing`.

    The threshold begins at the largest power of two (in bytes, or in the units of a demand with fractions) that is not above the largest
    entry, and is halved when there is no such matching. The paper stops where a packet switch takes the rest; here nothing is left.

    Parameters
    ----------
    demand : array_like of float, shape (n, n)
        Bytes.
    most_bytes : float
        Stop when the slots in which there is something to send are so long.

    Examples
    --------
    >>> solstice([[3, 1, 0], [0, 3, 1], [1, 0, 3]]).length_bytes.tolist()
    [3.0, 1.0]
    """
    return _taken_apart(demand, most_bytes, lambda left: 1 << max(int(left.max(initial=0)).bit_length() - 1, 0))


def eclipse(
    demand: npt.ArrayLike,
    *,
    window_s: float,
    delay_s: float,
    capacity_bytes_per_s: float,
    reciprocal: bool = False,
) -> Slots:
    """The matching and duration that send most per second, reconfiguration included, again and again until the window is full.

    Venkatakrishnan, Alizadeh and Viswanath, SIGMETRICS 2016 (Eclipse): what is sent is submodular. For one matching the bytes sent
    grow along straight lines that bend at its entries, so that the best duration is one of the entries, or all the time left. Up to 32 of
    them are all tried, of more 32 at equal steps, and then 32 between the neighbours of the best until none is left between.

    Parameters
    ----------
    demand : array_like of float, shape (n, n)
        Bytes.
    window_s, delay_s : float
        The window holds all slots, each with its reconfiguration; inf: until all is sent.
    capacity_bytes_per_s : float
        Of a circuit.
    reciprocal : bool
        Circuits carry both ways and a switch has one of them: entry (i, j) is what the pair needs, on both sides of the diagonal. The
        matching is then the best alternating part of each cycle of the best permutation (at least a third of it).

    Examples
    --------
    >>> eclipse([[0, 4, 1], [1, 0, 4], [4, 1, 0]], window_s=6.0, delay_s=0.5, capacity_bytes_per_s=1.0).length_bytes.tolist()
    [4.0, 1.0]
    """
    if np.isnan(window_s) or not (delay_s >= 0 and np.isfinite(delay_s)) or not capacity_bytes_per_s > 0:
        raise InputError(
            "eclipse", "needs a window, a finite delay of 0 or more and a capacity above 0",
            got=f"{window_s}, {delay_s}, {capacity_bytes_per_s}",
        )  # fmt: skip
    left = _matrix(demand)
    n = left.shape[0]
    here = np.arange(n)
    lost = delay_s * capacity_bytes_per_s
    time_left = window_s * capacity_bytes_per_s
    slots: list[tuple[Int64, float]] = []
    while left.any() and time_left > lost:
        most = time_left - lost
        lengths = np.unique(np.minimum(left[left > 0], most))

        def tried(length: float) -> tuple[float, Int64]:
            worth = np.minimum(left, length)
            _, to = linear_sum_assignment(worth, maximize=True)
            to = to.astype(np.int64)
            if reciprocal:
                to = _alternating(to, worth)
            sent = np.where(to >= 0, worth[here, to], 0.0)
            return float(sent.sum()) / (length + lost), np.where(sent > 0, to, -1)

        _, length, to = _best_length(lengths, tried)
        used = np.flatnonzero(to >= 0)
        left[used, to[used]] = np.maximum(left[used, to[used]] - length, 0.0)
        slots.append((to, length))
        time_left -= length + lost
    return Slots.of(slots, n)


def _best_length(lengths: Float64, tried: Callable[[float], tuple[float, Int64]]) -> tuple[float, float, Int64]:
    low, high = 0, lengths.size - 1
    best: tuple[float, float, Int64] | None = None
    known: dict[int, float] = {}
    while True:
        at = np.unique(np.linspace(low, high, min(TRIES, high - low + 1)).round().astype(np.int64))
        for i in at.tolist():
            if i in known:
                continue
            density, to = tried(float(lengths[i]))
            known[i] = density
            # Equal worth: the longer slot, which leaves less to set up later.
            if best is None or density > best[0] or (density == best[0] and lengths[i] > best[1]):
                best = (density, float(lengths[i]), to)
        if at.size == high - low + 1:
            assert best is not None
            return best
        place = int(np.argmax([known[i] for i in at.tolist()]))
        low, high = int(at[max(place - 1, 0)]), int(at[min(place + 1, at.size - 1)])


def _alternating(to: Int64, worth: Float64) -> Int64:
    """Of each cycle of a permutation the set of disjoint pairs worth most among those that take every second step; both ways."""
    found = np.full(to.size, -1, np.int64)
    for cycle in cycles(to):
        size = len(cycle)
        if size == 1:
            continue
        starts = range(size) if size % 2 else range(2)

        def pairs(start: int, cycle: list[int] = cycle, size: int = size) -> list[tuple[int, int]]:
            return [(cycle[(start + k) % size], cycle[(start + k + 1) % size]) for k in range(0, size - 1, 2)]

        best = max(starts, key=lambda s: (sum(worth[a, b] for a, b in pairs(s)), -s))
        for a, b in pairs(best):
            found[a], found[b] = b, a
    return found


def cycles(to: Int64) -> list[list[int]]:
    """The cycles of a permutation, each from its lowest number on.

    >>> cycles(np.array([1, 0, 2]))
    [[0, 1], [2]]
    """
    seen = np.zeros(to.size, dtype=bool)
    found = []
    for start in range(to.size):
        cycle, at = [], start
        while not seen[at]:
            seen[at] = True
            cycle.append(at)
            at = int(to[at])
        if cycle:
            found.append(cycle)
    return found


Decomposition = Callable[..., Slots]
decompositions: Registry[Decomposition] = Registry("decomposition", "netsim.decompositions")
decompositions.register("bvn")(birkhoff_von_neumann)
decompositions.register("solstice")(solstice)
