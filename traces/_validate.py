"""Validation: every value of a trace within the rules of the schema, vectorised; the first offender is named.

This is the border: what passes here can be used without further checks. Consistency between ranks (matching,
collectives) is the business of ``netsim.traces.check``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.traces._normalise import rank_ranges
from netsim.traces.matching import cross_rows
from netsim.traces.schema import FLAG, OP_CODE, OP_NAMES, OPS, op_codes
from netsim.traces.trace import Communicators, Trace

__all__ = ["missing_ranks", "validate"]

_ALL_FLAGS = sum(FLAG.values())
_COLLECTIVE = np.isin(np.arange(len(OPS)), op_codes("collective"))
_ROOTED = np.array([op.rooted for op in OPS])
_P2P = np.isin(np.arange(len(OPS)), [OP_CODE["send"], OP_CODE["recv"]])
# Operations that need no membership: they concern the rank alone.
_LOCAL = np.isin(np.arange(len(OPS)), op_codes("local", "completion", "management"))


@dataclass(frozen=True)
class _Subject:
    """Names rows of a trace in messages."""

    trace: Trace
    name: str

    def fail(self, bad: npt.NDArray[np.bool_], rule: str, got: Any) -> None:
        """Raise for the first True of ``bad``; ``got`` is an array of values or a function of the row."""
        rows = np.flatnonzero(bad)
        if rows.size:
            first = int(rows[0])
            value = got(first) if callable(got) else got[first].item()
            raise InputError(self.row(first), rule, got=value, remedy=count(rows.size, "such row"))

    def row(self, row: int) -> str:
        if self.trace.profile != "ops":
            return f"{self.name} row {row}"
        t = self.trace
        stream = int(t.column("stream")[row])
        lane = f" stream {stream}" if stream else ""
        rank, seq, op = (t.column(name)[row] for name in ("rank", "seq", "op"))
        return f"{self.name} row {row} (rank {rank}{lane} seq {seq}, {OP_NAMES[op]})"


def validate(trace: Trace, *, subject: str = "trace") -> None:
    """Check every value of a trace against the schema.

    Parameters
    ----------
    trace : Trace
    subject : str
        What errors are about, for example the file name.

    Raises
    ------
    InputError
        One line: the first row that breaks a rule, the rule, the value, and how many rows break it.

    Examples
    --------
    >>> Trace.from_rows(n_ranks=2, rows=[{"rank": 0, "op": "send", "peer": 2, "tag": 0}])
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: trace row 0 (rank 0 seq 0, send): peer must be one of the 2 ranks, got 2; 1 such row
    """
    where = _Subject(trace, subject)
    _validate_comms(trace, subject)
    if trace.profile == "ops":
        _validate_ops(trace, where)
    else:
        n = trace.n_ranks
        for name in ("src", "dst"):
            where.fail(_outside(trace.column(name), n), f"{name} must be one of the {n} ranks", trace.column(name))
        for name in ("bytes", "start_ns") if trace.profile == "flows" else ("bytes", "count"):
            where.fail(trace.column(name) < 0, f"{name} must be 0 or more", trace.column(name))


def missing_ranks(trace: Trace) -> npt.NDArray[np.int64]:
    """Ranks without any row that others communicate with: their file was lost.

    >>> trace = Trace.from_rows(n_ranks=3, rows=[{"rank": 0, "op": "send", "peer": 2, "tag": 0}])
    >>> missing_ranks(trace).tolist()
    [2]
    """
    if trace.profile != "ops":
        return np.empty(0, dtype=np.int64)
    silent = np.ones(trace.n_ranks, dtype=bool)
    silent[trace.column("rank")] = False
    if not silent.any():
        return np.empty(0, dtype=np.int64)
    op, peer = trace.column("op"), trace.column("peer")
    wanted = np.zeros(trace.n_ranks, dtype=bool)
    wanted[peer[(peer >= 0) & ~_COLLECTIVE[op]]] = True
    for comm in np.unique(trace.column("comm")[_COLLECTIVE[op]]).tolist():
        wanted[trace.comms.members(comm)] = True
    return np.flatnonzero(silent & wanted)


def _outside(values: npt.NDArray[Any], n: int) -> npt.NDArray[np.bool_]:
    return np.asarray((values < 0) | (values >= n))


def _validate_comms(trace: Trace, subject: str) -> None:
    n, comms = trace.n_ranks, trace.comms
    if comms.n == 0:
        raise InputError(f"{subject} communicators", "number 0 must be WORLD", got="no communicator")
    if not np.array_equal(comms.members(0), np.arange(n)):
        raise InputError(
            f"{subject} communicator 0 ({comms.name[0]})",
            f"must be WORLD, the ranks 0..{n - 1} in order",
            got=f"{comms.size(0)} members",
            remedy="put other groups at 1, 2, ...",
        )
    owner = np.repeat(np.arange(comms.n), comms.sizes)
    bad = np.flatnonzero(_outside(comms.member, n))
    if bad.size:
        at = int(bad[0])
        raise InputError(
            f"{subject} communicator {owner[at]} ({comms.name[owner[at]]})",
            f"members must be some of the {n} ranks",
            got=int(comms.member[at]),
        )
    key = np.sort(owner * max(n, 1) + comms.member)
    twice = np.flatnonzero(key[1:] == key[:-1])
    if twice.size:
        comm, rank = divmod(int(key[twice[0]]), max(n, 1))
        raise InputError(
            f"{subject} communicator {comm} ({comms.name[comm]})",
            "a rank may be a member only once",
            got=f"rank {rank}",
        )


def _validate_ops(trace: Trace, where: _Subject) -> None:
    n = trace.n_ranks
    rank, seq, stream, op = (trace.column(name) for name in ("rank", "seq", "stream", "op"))
    where.fail(_outside(rank, n), f"rank must be one of the {n} ranks", rank)
    where.fail(stream < 0, "stream must be 0 or more", stream)
    _validate_order(rank, stream, seq, where)
    flags, comm, peer = trace.column("flags"), trace.column("comm"), trace.column("peer")
    where.fail((flags & np.uint16(0xFFFF ^ _ALL_FLAGS)) != 0, "flags must be bits of the schema", flags)
    where.fail(_outside(comm, trace.comms.n), f"comm must be one of the {trace.comms.n} communicators", comm)
    given = (
        trace.table.column("peer").is_valid().to_numpy() if trace.has("peer") else np.zeros(trace.n_rows, dtype=bool)
    )
    where.fail(given & _outside(peer, n), f"peer must be one of the {n} ranks", peer)
    _validate_membership(trace, where, rank, op, comm, peer)
    _validate_amounts(trace, where)
    collective = _COLLECTIVE[op]
    coll_seq = trace.column("coll_seq")
    where.fail(collective & (coll_seq < 0), "a collective needs coll_seq, 0 or more", lambda i: _value(coll_seq[i]))
    where.fail(~collective & (coll_seq != -1), "only collectives have coll_seq", coll_seq)
    where.fail(_ROOTED[op] & (peer < 0), "needs the root in peer", lambda i: "null")
    any_source = (flags & FLAG["any_source"]) != 0
    where.fail(_P2P[op] & (peer < 0) & ~any_source, "needs a peer", lambda i: "null")
    any_tag = (flags & FLAG["any_tag"]) != 0
    where.fail(
        _P2P[op] & (trace.column("tag") < 0) & ~any_tag,
        "needs a tag, 0 or more",
        lambda i: _value(trace.column("tag")[i]),
    )
    where.fail((any_source | any_tag) & (op == OP_CODE["send"]), "a send cannot have a wildcard", flags)
    _validate_vectors(trace, where, rank, op, comm)
    _validate_edges(trace, where, rank, stream, seq)


def _value(number: Any) -> Any:
    return "null" if number == -1 else number.item()


def _validate_order(rank: npt.NDArray[Any], stream: npt.NDArray[Any], seq: npt.NDArray[Any], where: _Subject) -> None:
    if rank.size == 0:
        return
    first = np.ones(rank.size, dtype=bool)
    first[1:] = (rank[1:] != rank[:-1]) | (stream[1:] != stream[:-1])
    expected = np.zeros(rank.size, dtype=np.int64)
    start = np.flatnonzero(first)
    expected[:] = np.arange(rank.size) - np.repeat(start, np.diff(np.append(start, rank.size)))
    where.fail(
        seq != expected,
        "seq must count 0, 1, 2, ... within (rank, stream)",
        lambda i: f"{seq[i]} instead of {expected[i]}",
    )


def _validate_membership(
    trace: Trace,
    where: _Subject,
    rank: npt.NDArray[Any],
    op: npt.NDArray[Any],
    comm: npt.NDArray[Any],
    peer: npt.NDArray[Any],
) -> None:
    """Ranks and peers must belong to the communicator they use. WORLD needs no look-up."""
    rows = np.flatnonzero((comm > 0) & ~_LOCAL[op])
    if rows.size == 0:
        return
    n, comms = max(trace.n_ranks, 1), trace.comms
    keys = np.sort(np.repeat(np.arange(comms.n), comms.sizes) * n + comms.member)

    def member(ranks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        key = comm[rows].astype(np.int64) * n + ranks
        at = np.minimum(np.searchsorted(keys, key), keys.size - 1)
        return np.asarray(keys[at] == key)

    for name, ranks in (("rank", rank), ("peer", peer)):
        bad = np.zeros(rank.size, dtype=bool)
        bad[rows] = ~member(ranks[rows]) & (ranks[rows] >= 0)
        where.fail(
            bad,
            f"{name} must be a member of its communicator",
            lambda i, ranks=ranks: f"rank {ranks[i]} in {_comm_text(comms, int(comm[i]))}",
        )


def _comm_text(comms: Communicators, comm: int) -> str:
    return f"comm {comm} ({comms.name[comm]}: {rank_ranges(comms.members(comm))})"


def _validate_amounts(trace: Trace, where: _Subject) -> None:
    where.fail(trace.column("bytes") < 0, "bytes must be 0 or more", trace.column("bytes"))
    for name in ("bytes_actual", "match", "phase"):
        if trace.has(name):
            where.fail(trace.column(name) < -1, f"{name} must be 0 or more", trace.column(name))
    if trace.has("gap_ns"):
        where.fail(trace.column("gap_ns") < 0, "gap_ns must be 0 or more", trace.column("gap_ns"))
    if trace.has("work"):
        work = trace.column("work")
        where.fail(~(np.isfinite(work) & (work >= 0)), "work must be finite and 0 or more", work)
        if trace.meta.work_unit is None:
            raise InputError(
                where.name, "has a column work", got="no work_unit in the metadata", remedy="say its unit, e.g. flops"
            )
    if trace.has("phase") and trace.phases is not None:
        phase = trace.column("phase")
        where.fail(phase >= trace.phases.num_rows, f"phase must be one of the {trace.phases.num_rows} phases", phase)


def _validate_vectors(
    trace: Trace, where: _Subject, rank: npt.NDArray[Any], op: npt.NDArray[Any], comm: npt.NDArray[Any]
) -> None:
    size = trace.comms.sizes[comm] if trace.n_rows else np.empty(0, dtype=np.int64)
    neighbour = np.isin(op, [OP_CODE["neighbor_allgather"], OP_CODE["neighbor_alltoall"]])
    peers = np.diff(trace.ragged("vpeer")[0])
    if trace.has("vpeer"):
        ptr, values = trace.ragged("vpeer")
        bad = _any_in_row(ptr, _outside(values, trace.n_ranks))
        where.fail(
            bad, f"vpeer must be some of the {trace.n_ranks} ranks", lambda i: values[ptr[i] : ptr[i + 1]].tolist()
        )
    for name in ("vbytes", "vrecv"):
        if not trace.has(name):
            continue
        ptr, values = trace.ragged(name)
        length = np.diff(ptr)
        where.fail(
            _any_in_row(ptr, values < 0),
            f"{name} must be 0 or more",
            lambda i, p=ptr, v=values: v[p[i] : p[i + 1]].tolist(),
        )
        where.fail(
            (length > 0) & ~_COLLECTIVE[op], f"only collectives have {name}", lambda i, k=length: f"{k[i]} entries"
        )
        expected = np.where(peers > 0, peers, size)
        wrong = (length > 0) & (length != expected) & ~(neighbour & (name == "vrecv"))
        where.fail(
            wrong,
            f"{name} needs one entry per member of comm or entry of vpeer",
            lambda i, k=length, e=expected: f"{k[i]} entries for {e[i]}",
        )


def _any_in_row(ptr: npt.NDArray[Any], bad: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    total = np.zeros(bad.size + 1, dtype=np.int64)
    np.cumsum(bad, out=total[1:])
    return np.asarray(total[ptr[1:]] > total[ptr[:-1]])


def _validate_edges(
    trace: Trace, where: _Subject, rank: npt.NDArray[Any], stream: npt.NDArray[Any], seq: npt.NDArray[Any]
) -> None:
    for name in ("deps", "sdeps"):
        if trace.has(name):
            ptr, values = trace.ragged(name)
            row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
            bad = _any_in_row(ptr, (values < 1) | (values > seq[row]))
            where.fail(
                bad,
                f"{name} must point to earlier rows of the same rank and stream",
                lambda i, p=ptr, v=values: f"{v[p[i] : p[i + 1]].tolist()} rows back",
            )
    if trace.has("xdeps"):
        ptr, pairs = trace.ragged("xdeps")
        row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
        missing = cross_rows(trace, rank[row], pairs) < 0
        bad = _any_in_row(ptr, missing | (pairs[:, 0] == stream[row]))
        where.fail(
            bad,
            "xdeps must point to rows of other streams of the same rank",
            lambda i: f"(stream, seq) {pairs[ptr[i] : ptr[i + 1]].tolist()}",
        )
