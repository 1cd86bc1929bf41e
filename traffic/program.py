"""A trace of calls as arrays ready for lowering: work before each call, and which rows wait for which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.units import format_time
from netsim.traces.matching import cross_rows
from netsim.traces.schema import FLAG, NO_TIME, OP_CODE, op_codes
from netsim.traces.trace import Trace
from netsim.traffic.notes import NoteBook

# Moments are stored as int64 nanoseconds.
_LONGEST_S = 2.0**63 / 1e9

__all__ = ["Gaps", "Program", "find_cycle", "read_program"]

Gaps = Literal["auto", "recorded", "none"]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Program:
    """The calls of all ranks, sorted by rank, stream and position; arrays of shape (n,) unless said otherwise.

    Attributes
    ----------
    n_ranks : int
    rank, stream, comm, peer, tag, coll_seq : int32 array
    op : int8 array
        Codes of ``netsim.traces.schema.OPS``.
    flags : uint16 array
    size_bytes, actual_bytes, match : int64 array
        -1 where not known.
    gap_s : float64 array
        Local work before the call, in seconds, already scaled or removed.
    first : bool array
        First row of its (rank, stream).
    chained : bool array
        Waits for the row before it.
    completion : bool array
        A wait or a successful test: its dependencies are completed requests.
    dep_row, dep_on : int64 array, shape (m,)
        Row ``dep_row`` needs row ``dep_on`` to have ended; sorted by ``dep_row``.
    start_row, start_on : int64 array, shape (k,)
        The same for rows that must only have been entered.
    """

    n_ranks: int
    rank: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    op: npt.NDArray[np.int8]
    flags: npt.NDArray[np.uint16]
    comm: npt.NDArray[np.int32]
    peer: npt.NDArray[np.int32]
    tag: npt.NDArray[np.int32]
    size_bytes: Int64
    actual_bytes: Int64
    coll_seq: npt.NDArray[np.int32]
    match: Int64
    t_start: Int64
    gap_s: Float64
    first: Bool
    chained: Bool
    completion: Bool
    dep_row: Int64
    dep_on: Int64
    start_row: Int64
    start_on: Int64

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rank.size)

    def flag(self, name: str) -> Bool:
        """Rows with the flag."""
        return np.asarray((self.flags & FLAG[name]) != 0)

    @property
    def free(self) -> Bool:
        """Rows that let their rank go on at once: non-blocking calls and starts of persistent requests."""
        return self.flag("nonblocking") | self.flag("persistent")

    def is_op(self, *names: str) -> Bool:
        """Rows with one of the operations."""
        result = np.zeros(self.n, dtype=bool)
        for name in names:
            result |= self.op == OP_CODE[name]
        return result

    def is_kind(self, *kinds: str) -> Bool:
        """Rows with an operation of one of the kinds of ``schema.OPS``."""
        table = np.zeros(128, dtype=bool)
        table[list(op_codes(*kinds))] = True
        return np.asarray(table[self.op])


def read_program(
    trace: Trace, *, gaps: Gaps, compute_scale: float, flops_per_s: float | None, notes: NoteBook
) -> Program:
    """Arrays of a trace of profile ``ops``.

    Raises
    ------
    InputError
        Work without a speed, a dependency cycle, or a bad parameter.
    """
    rank, stream = trace.column("rank"), trace.column("stream")
    n = trace.n_rows
    first = np.ones(n, dtype=bool)
    first[1:] = (rank[1:] != rank[:-1]) | (stream[1:] != stream[:-1])
    flags = trace.column("flags")
    op = trace.column("op")
    completion = np.isin(op, op_codes("completion"))
    dep_row, dep_on = _edges(trace, "deps")
    start_row, start_on = _edges(trace, "sdeps")
    cross_row, cross_on = _cross_edges(trace, rank)
    if cross_row.size:
        dep_row, dep_on = np.concatenate([dep_row, cross_row]), np.concatenate([dep_on, cross_on])
        order = np.argsort(dep_row, kind="stable")
        dep_row, dep_on = dep_row[order], dep_on[order]
    program = Program(
        n_ranks=trace.n_ranks,
        rank=rank,
        stream=stream,
        op=op,
        flags=flags,
        comm=trace.column("comm"),
        peer=trace.column("peer"),
        tag=trace.column("tag"),
        size_bytes=trace.column("bytes"),
        actual_bytes=trace.column("bytes_actual"),
        coll_seq=trace.column("coll_seq"),
        match=trace.column("match"),
        t_start=trace.column("t_start"),
        gap_s=_gaps(trace, first, gaps=gaps, compute_scale=compute_scale, flops_per_s=flops_per_s, notes=notes),
        first=first,
        chained=~first & ((flags & FLAG["unchained"]) == 0),
        completion=completion,
        dep_row=dep_row,
        dep_on=dep_on,
        start_row=start_row,
        start_on=start_on,
    )
    if cross_row.size:
        # Edges within a stream point backwards; only those between streams can close a circle.
        find_cycle(program)
    return program


def _edges(trace: Trace, name: str) -> tuple[Int64, Int64]:
    """Dependencies within a stream as pairs of rows."""
    ptr, distance = trace.ragged(name)
    row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
    return row, row - distance.astype(np.int64)


def _cross_edges(trace: Trace, rank: npt.NDArray[np.int32]) -> tuple[Int64, Int64]:
    """Dependencies between streams of a rank as pairs of rows."""
    ptr, pairs = trace.ragged("xdeps")
    row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
    return row, cross_rows(trace, rank[row], pairs)


def _gaps(
    trace: Trace, first: Bool, *, gaps: Gaps, compute_scale: float, flops_per_s: float | None, notes: NoteBook
) -> Float64:
    if gaps not in ("auto", "recorded", "none"):
        raise InputError("gaps", "must be 'auto', 'recorded' or 'none'", got=repr(gaps))
    if not (compute_scale >= 0 and np.isfinite(compute_scale)):
        raise InputError("compute scale", "must be finite and 0 or more", got=compute_scale)
    if flops_per_s is not None and not 0 < flops_per_s < np.inf:
        raise InputError("speed of a rank", "must be finite and positive", got=flops_per_s)
    n = trace.n_rows
    nothing = np.zeros(n)
    if trace.has("gap_ns"):
        gap_ns = trace.column("gap_ns").astype(np.float64)
    elif trace.has("t_start") and trace.has("t_end"):
        gap_ns = _gaps_between(trace.column("t_start"), trace.column("t_end"), first)
    else:
        gap_ns = nothing
    negative = int(np.count_nonzero(gap_ns < 0))  # times between calls; the column itself is never negative
    gap_ns = np.maximum(gap_ns, 0.0)
    work = trace.column("work") if trace.has("work") else nothing
    # A row that has both was measured in time; its work is the same thing in another unit.
    work = np.where(gap_ns > 0, 0.0, work)
    present = int(np.count_nonzero((gap_ns > 0) | (work > 0)))
    meta = trace.meta
    distrusted = meta.time_quality == "oversubscribed" and meta.gap_clock != "thread-cpu"
    if gaps == "none" or (gaps == "auto" and distrusted):
        seconds = float(gap_ns.sum()) * 1e-9
        why = "as asked" if gaps == "none" else "the recording was oversubscribed and its clock counts waiting"
        notes.add("gaps_dropped", present, f"spans of local work ({format_time(seconds)} recorded) dropped: {why}")
        return nothing
    notes.add("negative_gaps", negative, "spans of local work with a negative length: taken as 0")
    if distrusted and present:
        notes.add("gaps_distrusted", present, "spans of local work from an oversubscribed recording, used as asked")
    if bool((work > 0).any()):
        if flops_per_s is None:
            raise InputError(
                "trace",
                f"its work is in {meta.work_unit or 'flops'}, which needs the speed of a rank",
                remedy="give flops_per_s, or gaps='none' to replay communication only",
            )
        with np.errstate(over="ignore"):
            gap_ns = gap_ns + work / flops_per_s * 1e9
    with np.errstate(over="ignore", invalid="ignore"):
        seconds_of = np.where(gap_ns > 0, gap_ns * (1e-9 * compute_scale), 0.0)
    row = int(seconds_of.argmax()) if n else 0
    if n and not seconds_of[row] < _LONGEST_S:
        raise InputError(
            f"rank {trace.column('rank')[row]}, op {trace.column('seq')[row]}",
            f"local work must be shorter than {_LONGEST_S:.3g} s, the range of 64-bit nanoseconds",
            got=f"{seconds_of[row]:.3g} s",
            remedy="check the compute scale and the speed of a rank",
        )
    return np.asarray(seconds_of)


def _gaps_between(t_start: Int64, t_end: Int64, first: Bool) -> Float64:
    """Time between leaving one call and entering the next, where both were recorded; 0 elsewhere and for first rows."""
    gap = np.zeros(t_start.size)
    known = ~first
    known[1:] &= (t_start[1:] != NO_TIME) & (t_end[:-1] != NO_TIME)
    at = np.flatnonzero(known)
    gap[at] = (t_start[at] - t_end[at - 1]).astype(np.float64)
    return gap


def find_cycle(program: Program) -> None:
    """Refuse recorded dependencies that wait for each other in a circle.

    Raises
    ------
    InputError
        Naming the rows of one circle.
    """
    from netsim.traffic._kernels import peel

    n = program.n
    # Two moments per row: entered (row) and ended (n + row).
    rows = np.arange(n)
    chained = np.flatnonzero(program.chained)
    before = np.where(program.free[chained - 1], chained - 1, n + chained - 1)
    at_end = program.completion[program.dep_row]
    source = np.concatenate([rows, before, n + program.dep_on, program.start_on])
    target = np.concatenate([n + rows, chained, program.dep_row + np.where(at_end, n, 0), program.start_row])
    order = np.argsort(source, kind="stable")
    ptr = csr_ptr(np.bincount(source, minlength=2 * n))
    left = peel(
        frozen(ptr, np.int64),
        frozen(target[order], np.int64),
        frozen(np.bincount(target, minlength=2 * n), np.int64),
    )
    if not left.any():
        return
    # Every moment that is left has a predecessor that is left: walking back must close a circle.
    stuck = left[source] & left[target]
    back = np.full(2 * n, -1, dtype=np.int64)
    back[target[stuck]] = source[stuck]
    seen: dict[int, int] = {}
    path: list[int] = []
    at = int(np.flatnonzero(left)[0])
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = int(back[at])
    circle = path[seen[at] :][::-1]
    named: list[int] = []
    for row in (moment % n for moment in circle):
        if row not in named:
            named.append(row)
    smallest = named.index(min(named))
    named = named[smallest:] + named[:smallest]
    raise InputError(
        "trace",
        "recorded dependencies must not form a cycle",
        got=_row_list(program, named),
        remedy="correct or drop one of these deps, sdeps or xdeps",
    )


def _row_list(program: Program, rows: list[int]) -> str:
    block_start = np.flatnonzero(program.first)
    shown = rows if len(rows) <= 8 else rows[:8]
    names = []
    for row in shown:
        seq = row - int(block_start[np.searchsorted(block_start, row, side="right") - 1])
        names.append(f"(rank {program.rank[row]}, stream {program.stream[row]}, seq {seq})")
    more = f" -> ... {len(rows) - len(shown)} more" if len(shown) < len(rows) else ""
    return " -> ".join(names) + more + f" -> {names[0]}"
