"""Who belongs together: the instances of each collective, and which receive gets which message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_ptr
from netsim.traces.schema import FLAG, OP_CODE, OPS, op_codes
from netsim.traces.trace import Trace

__all__ = [
    "CollectiveGroups",
    "MessageBalance",
    "collective_groups",
    "completion_rows",
    "cross_rows",
    "message_balance",
]

Bool = npt.NDArray[np.bool_]

_COLLECTIVE = np.isin(np.arange(len(OPS)), op_codes("collective"))


@dataclass(frozen=True, kw_only=True)
class CollectiveGroups:
    """Instances of collectives in CSR.

    Attributes
    ----------
    ptr : int64 array, shape (g + 1,)
    rows : int64 array, shape (m,)
        Rows of the trace, by instance, then by rank.
    comm, coll_seq : int64 array, shape (g,)
        What names an instance.
    complete : bool array, shape (g,)
        Every member of the communicator takes part exactly once.
    """

    ptr: Int64
    rows: Int64
    comm: Int64
    coll_seq: Int64
    complete: Bool

    @property
    def n(self) -> int:
        """Number of instances."""
        return int(self.comm.size)

    @property
    def sizes(self) -> Int64:
        """Rows of each instance."""
        return np.diff(self.ptr)

    def spread(self, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Smallest and largest value (one per entry of ``rows``) of each instance."""
        if self.n == 0:
            return values[:0], values[:0]
        start = self.ptr[:-1]
        return np.minimum.reduceat(values, start), np.maximum.reduceat(values, start)


def collective_groups(trace: Trace) -> CollectiveGroups:
    """Group the collective calls of a valid trace by (communicator, k-th collective on it).

    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "barrier"}, {"rank": 1, "op": "barrier"}, {"rank": 0, "op": "barrier"}])
    >>> groups = collective_groups(trace)
    >>> groups.rows.tolist(), groups.ptr.tolist(), groups.complete.tolist()
    ([0, 2, 1], [0, 2, 3], [True, False])
    """
    row = np.flatnonzero(_COLLECTIVE[trace.column("op")])
    comm = trace.column("comm")[row].astype(np.int64)
    coll = trace.column("coll_seq")[row].astype(np.int64)
    width = int(coll.max(initial=0)) + 1
    key = comm * width + coll
    # The trace is sorted by rank, so a stable sort keeps the ranks of an instance in order.
    order = np.argsort(key, kind="stable")
    row, key = row[order], key[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if key.size else np.empty(0, dtype=np.int64)
    ptr = np.append(first, key.size).astype(np.int64)
    comm, coll = np.divmod(key[first], width)
    rank = trace.column("rank")[row]
    repeated = np.zeros(row.size, dtype=np.int64)
    repeated[1:] = rank[1:] == rank[:-1]
    repeated[first] = 0
    twice = np.add.reduceat(repeated, first) > 0 if first.size else np.empty(0, dtype=bool)
    complete = (np.diff(ptr) == trace.comms.sizes[comm]) & ~twice
    return CollectiveGroups(ptr=ptr, rows=row, comm=comm, coll_seq=coll, complete=complete)


@dataclass(frozen=True, kw_only=True)
class MessageBalance:
    """Sends and receives per (source, destination, communicator, tag), in the order of posting.

    Attributes
    ----------
    source, destination, comm, tag : int64 array, shape (k,)
        The channels that occur.
    n_send, n_recv : int64 array, shape (k,)
    send, recv : int64 array, shape (p,)
        Rows that match: the i-th send of a channel and its i-th receive.
    extra_send, extra_recv : int64 array
        Rows without a partner.
    explained : bool array, shape of ``extra_send``
        Sends that a receive with an unresolved wildcard at the destination may have taken.
    unresolved : int64 array
        Receive rows whose wildcard was never resolved.
    """

    source: Int64
    destination: Int64
    comm: Int64
    tag: Int64
    n_send: Int64
    n_recv: Int64
    send: Int64
    recv: Int64
    extra_send: Int64
    explained: Bool
    extra_recv: Int64
    unresolved: Int64

    def surplus_rows(self) -> Int64:
        """Rows without a partner, apart from sends that unresolved wildcards may explain."""
        return np.concatenate([self.extra_send[~self.explained], self.extra_recv])


def message_balance(trace: Trace) -> MessageBalance:
    """Match sends and receives of a valid trace first in, first out per channel; cancelled requests do not count.

    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "send", "peer": 1, "tag": 7}, {"rank": 0, "op": "send", "peer": 1, "tag": 7},
    ...     {"rank": 1, "op": "recv", "peer": 0, "tag": 7}])
    >>> balance = message_balance(trace)
    >>> balance.send.tolist(), balance.recv.tolist(), balance.extra_send.tolist()
    ([0], [2], [1])
    """
    op, flags, rank = trace.column("op"), trace.column("flags"), trace.column("rank").astype(np.int64)
    peer, tag = trace.column("peer").astype(np.int64), trace.column("tag").astype(np.int64)
    comm = trace.column("comm").astype(np.int64)
    live = (flags & FLAG["cancelled"]) == 0
    send = np.flatnonzero((op == OP_CODE["send"]) & live)
    known = (peer >= 0) & (tag >= 0)
    recv = np.flatnonzero((op == OP_CODE["recv"]) & live & known)
    unresolved = np.flatnonzero((op == OP_CODE["recv"]) & live & ~known)

    row = np.concatenate([send, recv])
    is_send = np.arange(row.size) < send.size
    source = np.where(is_send, rank[row], peer[row])
    destination = np.where(is_send, peer[row], rank[row])
    channel, first = _dense(source * max(trace.n_ranks, 1) + destination, comm[row], tag[row])
    k = first.size
    n_send = np.bincount(channel[is_send], minlength=k).astype(np.int64)
    n_recv = np.bincount(channel[~is_send], minlength=k).astype(np.int64)
    both = np.minimum(n_send, n_recv)
    send, extra_send = _split(send, channel[is_send], n_send, both)
    recv, extra_recv = _split(recv, channel[~is_send], n_recv, both)
    return MessageBalance(
        source=source[first],
        destination=destination[first],
        comm=comm[row][first],
        tag=tag[row][first],
        n_send=n_send,
        n_recv=n_recv,
        send=send,
        recv=recv,
        extra_send=extra_send,
        explained=_explained(peer[extra_send], comm[extra_send], rank[unresolved], comm[unresolved], trace.comms.n),
        extra_recv=extra_recv,
        unresolved=unresolved,
    )


def _dense(*keys: Int64) -> tuple[Int64, Int64]:
    """Number the distinct tuples of keys 0, 1, ... in their order; also one position of each."""
    code = np.zeros(keys[0].size, dtype=np.int64)
    first = np.arange(min(1, code.size))
    for key in keys:
        values, inverse = np.unique(key, return_inverse=True)
        # Both factors are at most the number of rows, so the product cannot overflow.
        _, first, code = np.unique(code * max(values.size, 1) + inverse, return_index=True, return_inverse=True)
    return code.astype(np.int64), first.astype(np.int64)


def _split(row: Int64, channel: Int64, count: Int64, both: Int64) -> tuple[Int64, Int64]:
    """Rows by channel in program order: the first ``both`` of each channel, and the rest."""
    order = np.argsort(channel, kind="stable")
    place = np.arange(row.size) - csr_ptr(count)[:-1][channel[order]]
    paired = place < both[channel[order]]
    return row[order][paired], np.sort(row[order][~paired])


def _explained(destination: Int64, comm: Int64, at: Int64, at_comm: Int64, n_comms: int) -> Bool:
    """Which extra sends the open wildcards at their destination can explain: the first ones, one per wildcard."""
    group, inverse = np.unique(
        np.concatenate([destination * n_comms + comm, at * n_comms + at_comm]), return_inverse=True
    )
    sends, wild = inverse[: destination.size], inverse[destination.size :]
    budget = np.bincount(wild, minlength=group.size)
    order = np.argsort(sends, kind="stable")
    start = csr_ptr(np.bincount(sends, minlength=group.size))[:-1]
    good = np.zeros(destination.size, dtype=bool)
    good[order] = np.arange(destination.size) - start[sends[order]] < budget[sends[order]]
    return good


def completion_rows(trace: Trace) -> Int64:
    """Row at which each call is over: itself, or for a non-blocking call the row that waits for it; -1 when none does.

    >>> trace = Trace.from_rows(n_ranks=1, rows=[
    ...     {"rank": 0, "op": "recv", "peer": 0, "tag": 0, "flags": "nonblocking"},
    ...     {"rank": 0, "op": "wait", "deps": [1]}])
    >>> completion_rows(trace).tolist()
    [1, 1]
    """
    over = np.arange(trace.n_rows, dtype=np.int64)
    over[(trace.column("flags") & FLAG["nonblocking"]) != 0] = -1
    ptr, back = trace.ragged("deps")
    row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
    waits = np.isin(trace.column("op")[row], op_codes("completion"))
    # Reversed, so that the first row that waits is the one that stays.
    over[(row - back)[waits][::-1]] = row[waits][::-1]
    return over


def cross_rows(trace: Trace, rank: npt.NDArray[Any], pairs: npt.NDArray[Any]) -> Int64:
    """Row numbers of (rank, stream, seq), or -1; needs seq = 0, 1, 2, ... in each (rank, stream)."""
    all_rank, all_stream = trace.column("rank"), trace.column("stream")
    if all_rank.size == 0 or len(pairs) == 0:
        return np.full(len(pairs), -1, dtype=np.int64)
    width = int(all_stream.max()) + 1
    lane = all_rank.astype(np.int64) * width + all_stream
    known, start, count = np.unique(lane, return_index=True, return_counts=True)
    wanted = rank.astype(np.int64) * width + pairs[:, 0]
    at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    good = (known[at] == wanted) & (pairs[:, 0] < width) & (pairs[:, 1] >= 0) & (pairs[:, 1] < count[at])
    return np.where(good, start[at] + pairs[:, 1], -1)
