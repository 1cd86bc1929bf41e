"""Times of a trace that can be believed, how long the recorded run took, and how to take out those that cannot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.core.units import format_time
from netsim.traces.schema import NO_TIME, OP_CODE
from netsim.traces.trace import Trace

__all__ = ["LONGEST_S", "drop_absurd_times", "long_gaps", "recorded_span_s", "strange_durations"]

# A day inside one call, or between two, is a broken clock rather than a program.
LONGEST_S = 86400.0


def strange_durations(trace: Trace, *, longest_s: float = LONGEST_S) -> npt.NDArray[np.bool_]:
    """Rows that ended before they started, or lasted longer than ``longest_s`` seconds; bool, shape (n_rows,)."""
    if not (trace.profile == "ops" and trace.has("t_start") and trace.has("t_end")):
        return np.zeros(trace.n_rows, dtype=bool)
    start, end = trace.column("t_start"), trace.column("t_end")
    # In floats: the difference of absurd times may not fit 64 bits.
    lasted = end.astype(np.float64) - start.astype(np.float64)
    known = (start != NO_TIME) & (end != NO_TIME)
    return np.asarray(known & ((end < start) | (lasted > longest_s * 1e9)))


def long_gaps(trace: Trace, *, longest_s: float = LONGEST_S) -> tuple[npt.NDArray[np.bool_], float]:
    """Rows before which a rank worked longer than ``longest_s`` seconds, and the longest such work in seconds.

    Returns
    -------
    rows : bool array, shape (n_rows,)
    longest_s : float
        0.0 where there is none.
    """
    n = trace.n_rows
    gap_s = np.zeros(n)
    if trace.profile == "ops" and trace.has("gap_ns"):
        gap_s = trace.column("gap_ns") * 1e-9
    elif trace.profile == "ops" and trace.has("t_start") and trace.has("t_end") and n > 1:
        start, end = trace.column("t_start"), trace.column("t_end")
        same = np.ones(n - 1, dtype=bool)
        for name in ("rank", "stream"):
            same &= np.diff(trace.column(name)) == 0
        same &= (start[1:] != NO_TIME) & (end[:-1] != NO_TIME)
        gap_s[1:] = np.where(same, start[1:].astype(np.float64) - end[:-1].astype(np.float64), 0.0) * 1e-9
    rows = gap_s > longest_s
    return rows, float(gap_s[rows].max(initial=0.0))


def recorded_span_s(trace: Trace) -> float | None:
    """How long the recorded run took, in seconds: the longest time of a rank from its first call to its last.

    Starting and ending MPI do not count: from the end of ``init``, where there is one, to the start of ``finalize``.
    Per rank, so that clocks which do not agree between ranks do no harm; calls of impossible length are left out.
    None where no times were recorded.

    >>> rows = [{"rank": r, "op": "barrier", "t_start": 10**9 * r, "t_end": 10**9 * r + 500} for r in (0, 1)]
    >>> round(recorded_span_s(Trace.from_rows(n_ranks=2, rows=rows)), 9)
    5e-07
    """
    if not (trace.profile == "ops" and trace.has("t_start") and trace.has("t_end")):
        return None
    start, end = trace.column("t_start"), trace.column("t_end")
    known = np.flatnonzero((start != NO_TIME) & (end != NO_TIME) & ~strange_durations(trace))
    if known.size == 0:
        return None
    op = trace.column("op")[known]
    begin = np.where(op == OP_CODE["init"], end[known], start[known])
    finish = np.where(op == OP_CODE["finalize"], start[known], end[known])
    first = np.flatnonzero(np.diff(trace.column("rank")[known], prepend=-1))
    # In floats: the difference of absurd times may not fit 64 bits.
    span = np.maximum.reduceat(finish, first).astype(np.float64) - np.minimum.reduceat(begin, first)
    return float(span.max()) * 1e-9


def drop_absurd_times(trace: Trace, *, longest_s: float = LONGEST_S) -> Trace:
    """The trace without times that cannot be: calls stay, their impossible durations and gaps go, counted.

    Parameters
    ----------
    trace : Trace
        Of any profile; only calls (``ops``) have durations and gaps.
    longest_s : float
        Longest believable call, and longest believable local work before a call, in seconds.

    Raises
    ------
    InputError
        ``longest_s`` is negative or NaN.

    Examples
    --------
    >>> rows = [{"rank": 0, "op": "compute", "gap_ns": g} for g in (5, 10**18)]
    >>> part = drop_absurd_times(Trace.from_rows(n_ranks=1, rows=rows))
    >>> part.column("gap_ns").tolist(), part.meta.notes
    ([5, 0], ('1 span of local work longer than 24 h: dropped',))
    """
    if longest_s == np.inf:
        return trace
    if not longest_s >= 0:
        raise InputError("longest gap", "must be 0 or more seconds", got=longest_s)
    ledger, notes = {}, []
    table = trace.table
    strange = strange_durations(trace, longest_s=longest_s)
    if strange.any():
        n = int(strange.sum())
        ledger["times dropped: impossible duration"] = n
        notes.append(f"{count(n, 'call')} of negative length, or longer than {format_time(longest_s)}: times dropped")
        for name in ("t_start", "t_end"):
            table = _replaced(table, name, pa.array(trace.column(name), mask=strange | (trace.column(name) == NO_TIME)))
        trace = trace.replace(table=table)
    gaps, _ = long_gaps(trace, longest_s=longest_s)
    if gaps.any():
        n = int(gaps.sum())
        ledger["gaps dropped: longer than the limit"] = n
        notes.append(f"{count(n, 'span')} of local work longer than {format_time(longest_s)}: dropped")
        if trace.has("gap_ns"):
            table = _replaced(table, "gap_ns", pa.array(np.where(gaps, 0, trace.column("gap_ns"))))
        else:
            start = trace.column("t_start")
            table = _replaced(table, "t_start", pa.array(start, mask=gaps | (start == NO_TIME)))
        trace = trace.replace(table=table)
    return trace.replace(meta=trace.meta.with_notes(*notes, ledger=ledger)) if notes else trace


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), values.cast(table.schema.field(at).type))
