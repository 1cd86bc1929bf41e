"""Make a usable trace of an incomplete one: drop rows and count them; dependencies and numbering stay right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from netsim.core.arrays import csr_ptr
from netsim.core.errors import InputError
from netsim.core.text import count, plural
from netsim.traces._normalise import rank_ranges
from netsim.traces._validate import missing_ranks
from netsim.traces.matching import cross_rows
from netsim.traces.schema import OP_NAMES, OPS, op_codes
from netsim.traces.trace import Trace

__all__ = ["drop_incomplete", "drop_missing_ranks", "drop_rows"]

_COLLECTIVE = np.isin(np.arange(len(OPS)), op_codes("collective"))


def drop_rows(trace: Trace, *, keep: npt.ArrayLike, reason: str) -> Trace:
    """The trace without some rows.

    ``seq`` is counted anew; ``deps``, ``sdeps`` and ``xdeps`` follow, and edges from dropped rows vanish; ``coll_seq``
    is counted anew per communicator, so that instances dropped as a whole leave no hole.

    Parameters
    ----------
    trace : Trace
        Profile ``ops``.
    keep : array_like of bool, shape (n_rows,)
    reason : str
        Name in the ledger: ``dropped <op>: <reason>``.

    Examples
    --------
    >>> trace = Trace.from_rows(n_ranks=1, rows=[
    ...     {"rank": 0, "op": "mark"}, {"rank": 0, "op": "compute"}, {"rank": 0, "op": "mark", "deps": [2]}])
    >>> shorter = drop_rows(trace, keep=[True, False, True], reason="example")
    >>> shorter.column("seq").tolist(), shorter.ragged("deps")[1].tolist(), dict(shorter.meta.ledger)
    ([0, 1], [1], {'dropped compute: example': 1})
    """
    mask = np.asarray(keep, dtype=bool)
    if trace.profile != "ops":
        raise InputError("drop_rows", "needs a trace of calls (profile ops)", got=trace.profile)
    if mask.shape != (trace.n_rows,):
        raise InputError("drop_rows", f"keep needs one value for each of the {trace.n_rows} rows", got=mask.shape)
    if bool(mask.all()):
        return trace
    old = np.flatnonzero(mask)
    new_of_old = np.full(trace.n_rows, -1, dtype=np.int64)
    new_of_old[old] = np.arange(old.size)
    seq = _positions(trace, old)
    columns: dict[str, Any] = {"seq": pa.array(seq.astype(np.int32))}
    for name in ("deps", "sdeps"):
        if trace.has(name):
            ptr, back = trace.ragged(name)
            row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
            columns[name] = _lists(
                new_of_old, mask, row, row - back, lambda new, target: pa.array(new - target, pa.int32())
            )
    if trace.has("xdeps"):
        ptr, pairs = trace.ragged("xdeps")
        row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
        target = cross_rows(trace, trace.column("rank")[row], pairs)
        stream = trace.column("stream")[old]

        def pair(new: npt.NDArray[Any], to: npt.NDArray[Any]) -> Any:
            return pa.StructArray.from_arrays(
                [pa.array(stream[to]), pa.array(seq[to].astype(np.int32))], ["stream", "seq"]
            )

        columns["xdeps"] = _lists(new_of_old, mask, row, target, pair)
    if trace.has("coll_seq"):
        columns["coll_seq"] = _count_collectives(trace, old)
    table = trace.table.take(pa.array(old))
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    dropped = np.bincount(trace.column("op")[~mask], minlength=len(OPS))
    ledger = {f"dropped {OP_NAMES[c]}: {reason}": int(dropped[c]) for c in np.flatnonzero(dropped)}
    return trace.replace(table=table, meta=trace.meta.with_notes(ledger=ledger))


def drop_missing_ranks(trace: Trace) -> Trace:
    """Without every operation that touches a rank that has no rows: its messages, and collectives it is a member of.

    >>> trace = Trace.from_rows(n_ranks=3, rows=[
    ...     {"rank": 0, "op": "send", "peer": 2, "tag": 0}, {"rank": 0, "op": "send", "peer": 1, "tag": 0},
    ...     {"rank": 1, "op": "recv", "peer": 0, "tag": 0}])
    >>> part = drop_missing_ranks(trace)
    >>> part.op_names, part.meta.complete
    (['send', 'recv'], 'missing-ranks')
    """
    missing = missing_ranks(trace)
    if missing.size == 0:
        return trace
    gone = np.zeros(trace.n_ranks + 1, dtype=bool)
    gone[missing] = True
    comms = trace.comms
    owner = np.repeat(np.arange(comms.n), comms.sizes)
    broken = np.bincount(owner[gone[comms.member]], minlength=comms.n) > 0
    op = trace.column("op")
    # A null peer is -1 and finds the False at the end of ``gone``.
    touched = np.where(_COLLECTIVE[op], broken[trace.column("comm")], gone[trace.column("peer")])
    text = f"{rank_ranges(missing)} without rows"
    n = int(touched.sum())
    part = drop_rows(trace, keep=~touched, reason=text)
    meta = part.meta.with_notes(
        f"{text}: {count(n, 'operation')} touching {plural(missing.size, 'it', 'them')} {plural(n, 'was', 'were')} dropped"
    )
    return part.replace(meta=replace(meta, complete="missing-ranks"))


def drop_incomplete(trace: Trace) -> Trace:
    """Without collectives that not all members reached (the tail of a killed run) and messages without a partner.

    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "barrier"}, {"rank": 1, "op": "barrier"}, {"rank": 0, "op": "barrier"}])
    >>> drop_incomplete(trace).op_names
    ['barrier', 'barrier']
    """
    from netsim.traces.matching import collective_groups, message_balance

    keep = np.ones(trace.n_rows, dtype=bool)
    groups = collective_groups(trace)
    keep[groups.rows[np.repeat(~groups.complete, groups.sizes)]] = False
    balance = message_balance(trace)
    keep[balance.surplus_rows()] = False
    if bool(keep.all()):
        return trace
    part = drop_rows(trace, keep=keep, reason="no counterpart")
    n = int((~keep).sum())
    note = f"{count(n, 'operation')} without counterpart on other ranks {plural(n, 'was', 'were')} dropped"
    return part.replace(meta=part.meta.with_notes(note))


def _positions(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, 2, ... within each (rank, stream) of the chosen rows."""
    rank, stream = trace.column("rank")[rows], trace.column("stream")[rows]
    start = np.flatnonzero(np.r_[True, (rank[1:] != rank[:-1]) | (stream[1:] != stream[:-1])]) if rows.size else rows
    length = np.diff(np.append(start, rows.size))
    return np.arange(rows.size) - np.repeat(start, length)


def _lists(new_of_old: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], row: Any, target: Any, values: Any) -> Any:
    """A list column over the kept rows, with the entries whose row and target are both kept."""
    alive = keep[row] & keep[target]
    new = new_of_old[row[alive]]
    ptr = csr_ptr(np.bincount(new, minlength=int(keep.sum())))
    return pa.ListArray.from_arrays(pa.array(ptr.astype(np.int32)), values(new, new_of_old[target[alive]]))


def _count_collectives(trace: Trace, rows: npt.NDArray[np.int64]) -> Any:
    """``coll_seq`` of the chosen rows without holes: the instances left on each communicator, in order."""
    coll, comm = trace.column("coll_seq")[rows].astype(np.int64), trace.column("comm")[rows].astype(np.int64)
    some = coll >= 0
    width = int(coll.max(initial=0)) + 1
    key, inverse = np.unique(comm[some] * width + coll[some], return_inverse=True)
    first = np.searchsorted(key, (key // width) * width)
    new = np.full(rows.size, -1, dtype=np.int32)
    new[some] = (np.arange(key.size) - first)[inverse]
    return pa.array(new, mask=~some)
