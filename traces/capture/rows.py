"""Records of one rank to rows of the canonical trace, in array operations.

Every record that stands for an operation becomes one row: a start of a persistent request becomes a row of the operation
that was set up, a sendrecv becomes send, receive and wait. Calls that moved nothing (MPI_PROC_NULL, waits for nothing) become
no row; the local work before them counts for the next row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_ptr
from netsim.traces.capture import records as raw
from netsim.traces.capture.calls import CALLS, Call, lookup
from netsim.traces.capture.groups import LocalComms
from netsim.traces.capture.records import RankRecords
from netsim.traces.schema import FLAG, OP_CODE

__all__ = ["RankRows", "rank_rows"]

Array = npt.NDArray[Any]

_MESSAGES = ("send", "recv", "mrecv", "probe", "mprobe")
_EXCHANGES = ("sendrecv", "sendrecv_replace")
_NEIGHBOUR = (OP_CODE["neighbor_allgather"], OP_CODE["neighbor_alltoall"])
_NONBLOCKING, _PERSISTENT = FLAG["nonblocking"], FLAG["persistent"]


@dataclass(eq=False)
class RankRows:
    """Columns of the rows of one rank, sorted by stream and seq; lists in CSR (``ptr``, values).

    ``peer`` and ``tag`` are -1 where null. ``root_unknown`` marks rows of rooted collectives on intercommunicators whose
    root another rank knows.
    """

    columns: dict[str, Array]
    lists: dict[str, tuple[Int64, Array]]
    root_unknown: Array
    ledger: Counter[str] = field(default_factory=Counter)
    wildcards: int = 0
    cancelled: int = 0


@dataclass(frozen=True, eq=False)
class _Functions:
    """What each function number means, as arrays."""

    kind: Array
    op: Array
    mode: Array
    synchronous: Array


def _functions(names: tuple[str, ...]) -> _Functions:
    calls = [lookup(name) or Call(name=name, kind="unknown", parameters=()) for name in names]
    return _Functions(
        kind=np.array([call.kind for call in calls]),
        op=np.array([OP_CODE.get(call.op, -1) for call in calls]),
        mode=np.array([call.mode for call in calls]),
        synchronous=np.array([call.base == "Ssend" for call in calls]),
    )


def _vec(rank: RankRecords, records: Array) -> tuple[Int64, Int64]:
    """The integers of each of the given records, in CSR."""
    ptr = csr_ptr(records["vec_n"])
    at = np.arange(ptr[-1], dtype=np.int64) + np.repeat(records["vec_at"].astype(np.int64) - ptr[:-1], np.diff(ptr))
    return ptr, np.asarray(rank.vec[at], dtype=np.int64)


class _Converter:
    """The steps for one rank; each fills attributes that the next ones use."""

    def __init__(self, rank: RankRecords, comms: LocalComms) -> None:
        self.rank, self.comms = rank, comms
        # Per thread in the order of the calls; records of one thread are in order already.
        self.order = np.argsort(rank.records["thread"], kind="stable")
        self.rec = np.asarray(rank.records[self.order])
        about = _functions(rank.functions)
        fn = self.rec["fn"]
        self.kind, self.op, self.mode = about.kind[fn], about.op[fn], about.mode[fn]
        self.synchronous = about.synchronous[fn]
        self.ledger: Counter[str] = Counter()
        _, starts = _vec(rank, self.rec[self.kind == "start"])
        _, waits = _vec(rank, self.rec[self.kind == "wait"])
        self.n_requests = 1 + int(
            max(self.rec["request"].max(initial=0), starts.max(initial=0), waits[::4].max(initial=0))
        )

    # ---- which records give rows

    def count_rows(self) -> None:
        """Rows per record, all but waits; persistent starts give one per request."""
        rec, kind, mode = self.rec, self.kind, self.mode
        once = mode != "persistent"
        here = rec["comm"] >= 0
        foreign = here & self.comms.foreign[np.where(here, rec["comm"], 0)]
        touches = np.isin(kind, [*_MESSAGES, *_EXCHANGES, "collective", "comm_create"])
        lost = touches & foreign
        self.ledger["calls on communicators with processes outside MPI_COMM_WORLD"] += int(lost.sum())
        usable = ~lost
        first = (rec["peer"] != raw.PROC_NULL) & usable
        second = (rec["peer2"] != raw.PROC_NULL) & usable
        message, exchange = np.isin(kind, _MESSAGES), np.isin(kind, _EXCHANGES)
        self.sends = exchange & first
        self.recvs = exchange & second
        rows = np.zeros(rec.size, dtype=np.int64)
        rows[message] = first[message]
        both = self.sends.astype(np.int64) + self.recvs
        rows[exchange] = (both + ((both > 0) & (mode == "blocking")))[exchange]
        rows[np.isin(kind, ["collective", "comm_create"]) & usable] = 1
        rows[(kind == "comm_free") & ~foreign] = 1
        rows[np.isin(kind, ["pcontrol"])] = 1
        rows[(kind == "lifecycle") & (self.op >= 0)] = 1
        self.template_rows = np.where(once, 0, rows)  # what a persistent request gives at each start
        rows[~once] = 0
        null = int((message & once & usable & ~first).sum() + (exchange & usable & ~first).sum())
        null += int((exchange & usable & ~second).sum())
        self.ledger["messages to or from MPI_PROC_NULL"] += null
        self.rows = rows

    def place_starts(self) -> None:
        """Instances of persistent requests: which record set them up, which one started them."""
        start = np.flatnonzero(self.kind == "start")
        ptr, vec = _vec(self.rank, self.rec[start])
        pairs = vec.reshape(-1, 2)
        made = np.full(self.n_requests, -1, dtype=np.int64)
        setup = np.flatnonzero(self.mode == "persistent")
        made[self.rec["request"][setup].astype(np.int64)] = setup
        self.start_record = np.repeat(start, np.diff(ptr) // 2)
        self.start_template = made[pairs[:, 0]]
        self.start_number = pairs[:, 1]
        good = (self.start_template >= 0) & (self.template_rows[self.start_template] > 0)
        self.start_record, self.start_template = self.start_record[good], self.start_template[good]
        self.start_number = self.start_number[good]
        self.rows[start] = 0
        np.add.at(self.rows, self.start_record, 1)

    def read_waits(self) -> None:
        """Completed operations of each wait; a wait for nothing that is in the trace gives no row."""
        wait = np.flatnonzero(self.kind == "wait")
        ptr, vec = _vec(self.rank, self.rec[wait])
        self.done = vec.reshape(-1, 4)
        self.done_record = np.repeat(wait, np.diff(ptr) // 4)
        request_rows = np.zeros(self.n_requests, dtype=np.int64)
        posted = (self.rec["request"] > 0) & (self.mode == "nonblocking")
        request_rows[self.rec["request"][posted].astype(np.int64)] = self.rows[posted]
        request_rows[self.start_number] = 1
        valid = request_rows[self.done[:, 0]] > 0
        self.done, self.done_record = self.done[valid], self.done_record[valid]
        self.rows[wait] = 0
        self.rows[self.done_record] = 1
        self.request_rows = request_rows

    # ---- rows

    def lay_out(self) -> None:
        """Row -> record it came from, record that says what it did, and its place among the rows of its record."""
        self.n = int(self.rows.sum())
        self.first_row = csr_ptr(self.rows)
        self.record = np.repeat(np.arange(self.rec.size), self.rows)
        self.sub = np.arange(self.n) - self.first_row[self.record]
        self.stream: Int64 = self.rec["thread"][self.record].astype(np.int64)
        self.seq: Int64 = np.arange(self.n) - np.searchsorted(self.stream, self.stream, side="left")
        self.says = self.record.copy()
        self.number = np.where(
            np.isin(self.mode[self.record], ["nonblocking"]), self.rec["request"][self.record].astype(np.int64), 0
        )
        # Starts of one record follow each other in the order of the pairs.
        nth = np.arange(self.start_record.size)
        if nth.size:
            begin = np.r_[True, self.start_record[1:] != self.start_record[:-1]]
            nth = nth - np.maximum.accumulate(np.where(begin, nth, 0))
        at = self.first_row[self.start_record] + nth
        self.says[at] = self.start_template
        self.number[at] = self.start_number
        self.started = np.zeros(self.n, dtype=bool)
        self.started[at] = True
        self.request_first = np.full(self.n_requests, -1, dtype=np.int64)
        rows = np.flatnonzero(self.number > 0)
        self.request_first[self.number[rows][::-1]] = rows[::-1]

    def fill(self) -> None:
        """Operation, flags, communicator, peer, tag and sizes of each row."""
        rec, says = self.rec, self.says
        said = rec[says]
        self.op_row = self.op[says].copy()
        self.comm = said["comm"].astype(np.int64)
        self.peer, self.tag = said["peer"].astype(np.int64), said["tag"].astype(np.int64)
        self.bytes, self.actual = said["bytes"].copy(), said["actual"].copy()
        mode = self.mode[self.record]
        flags = np.where((mode == "nonblocking") | self.started, _NONBLOCKING, 0)
        flags |= np.where(self.started, _PERSISTENT, 0)
        flags |= np.where(self.synchronous[says], FLAG["synchronous"], 0)
        flags |= np.where(said["flags"] & raw.IN_PLACE, FLAG["in_place"], 0)
        is_recv = self.op_row == OP_CODE["recv"]
        # The two or three rows of an exchange: send, receive, wait; a half with MPI_PROC_NULL is not there.
        exchange = np.isin(self.kind[self.record], _EXCHANGES)
        has_send, has_recv = self.sends[self.record], self.recvs[self.record]
        recv = exchange & has_recv & (self.sub == has_send.astype(np.int64))
        last = exchange & (self.sub == has_send.astype(np.int64) + has_recv)
        self.op_row[recv], self.op_row[last] = OP_CODE["recv"], OP_CODE["wait"]
        flags[exchange & ~last] |= _NONBLOCKING
        self.peer[recv], self.tag[recv] = said["peer2"][recv], said["tag2"][recv]
        self.bytes[recv] = said["bytes2"][recv]
        self.actual[exchange & ~recv] = -1
        self.bytes[last] = 0
        self.peer[last], self.tag[last] = -1, -1
        is_recv |= recv
        self.is_wait_of_exchange = last
        probes = self.op_row == OP_CODE["probe"]
        wild = is_recv | probes
        flags |= np.where(wild & ((said["flags"] & raw.ANY_SOURCE) != 0), FLAG["any_source"], 0)
        flags |= np.where(wild & ((said["flags"] & raw.ANY_TAG) != 0), FLAG["any_tag"], 0)
        self.actual[~is_recv] = -1
        self.is_recv = is_recv
        self.flags = flags

    def complete(self) -> None:
        """What statuses said about requests: who sent, which tag, how much, or cancelled."""
        number, source, tag, size = self.done.T
        first = self.request_first[number]
        count = self.request_rows[number]
        ptr = csr_ptr(count)
        row = np.arange(ptr[-1]) + np.repeat(first - ptr[:-1], count)
        which = np.repeat(np.arange(number.size), count)
        self.dep_row, self.dep_done = row, which
        gone = source[which] == raw.CANCELLED
        self.flags[row[gone]] |= FLAG["cancelled"]
        got = self.is_recv[row] & ~gone & (source[which] >= 0)
        target = row[got]
        self.peer[target], self.tag[target] = source[which][got], tag[which][got]
        self.actual[target] = size[which][got]

    def world(self) -> None:
        """Ranks of communicators to world ranks; roots."""
        comms = self.comms
        collective = self.kind[self.says] == "collective"
        known = (self.peer >= 0) & (self.comm >= 0)
        at = comms.peer_ptr[np.where(known, self.comm, 0)] + np.where(known, self.peer, 0)
        world = comms.peer[np.minimum(at, comms.peer.size - 1)]
        inter = collective & comms.inter[np.where(self.comm >= 0, self.comm, 0)]
        self.ledger["collectives on intercommunicators, taken as collectives of both groups together"] += int(
            inter.sum()
        )
        self.flags[inter] |= FLAG["size_unknown"]
        root_here = inter & (self.peer == raw.ROOT)
        self.root_unknown = inter & (self.peer == raw.PROC_NULL)
        self.peer = np.where(known, world, -1)
        self.peer[root_here] = self.rank.rank
        self.inter = inter
        open_ = self.is_recv & ((self.peer < 0) | (self.tag < 0)) & ((self.flags & FLAG["cancelled"]) == 0)
        self.wildcards = int(open_.sum())
        self.cancelled = int(((self.flags & FLAG["cancelled"]) != 0).sum())

    def edges(self) -> tuple[tuple[Int64, Array], tuple[Int64, Array]]:
        """``deps`` in rows back, and ``xdeps`` for requests that another thread made."""
        wait_row = self.first_row[self.done_record][self.dep_done]
        own = np.flatnonzero(self.is_wait_of_exchange)
        halves = self.sub[own]
        waiting = np.concatenate([wait_row, np.repeat(own, halves)])
        ptr = csr_ptr(halves)
        back = np.arange(ptr[-1]) - np.repeat(ptr[:-1], halves)
        target = np.concatenate([self.dep_row, np.repeat(own - halves, halves) + back])
        order = np.argsort(waiting, kind="stable")
        waiting, target = waiting[order], target[order]
        same = self.stream[waiting] == self.stream[target]
        deps_ptr = csr_ptr(np.bincount(waiting[same], minlength=self.n))
        cross_ptr = csr_ptr(np.bincount(waiting[~same], minlength=self.n))
        cross = np.stack([self.stream[target[~same]], self.seq[target[~same]]], axis=1).astype(np.int32)
        return (deps_ptr, (waiting - target)[same]), (cross_ptr, cross)

    def vectors(self) -> dict[str, tuple[Int64, Array]]:
        """Per-member sizes of irregular collectives, per-neighbour sizes and neighbours."""
        rec, comms = self.rec, self.comms
        said = rec[self.says]
        collective = self.kind[self.says] == "collective"
        neighbour = np.isin(self.op_row, _NEIGHBOUR)
        n_sent = np.where(said["peer2"] >= 0, said["peer2"], said["vec_n"]).astype(np.int64)
        sent = np.where(collective & (said["vec_n"] > 0), n_sent, 0)
        received = np.where(collective & (said["peer2"] >= 0), said["vec_n"].astype(np.int64) - n_sent, 0)
        at = said["vec_at"].astype(np.int64)
        # Neighbourhood allgather: the same to each out-neighbour.
        out_n = np.diff(comms.out_ptr)[np.where(self.comm >= 0, self.comm, 0)]
        repeat = neighbour & (self.op_row == OP_CODE["neighbor_allgather"])
        length = np.where(repeat, out_n, sent)
        ptr = csr_ptr(length)
        owner = np.repeat(np.arange(self.n), length)
        position = np.arange(ptr[-1]) - ptr[owner]
        values = np.empty(ptr[-1], dtype=np.int64)
        alike = repeat[owner]
        values[alike] = self.bytes[owner[alike]]
        values[~alike] = self.rank.vec[(at[owner] + position)[~alike]]
        received_ptr = csr_ptr(received)
        lane = np.repeat(np.arange(self.n), received)
        expected = self.rank.vec[at[lane] + n_sent[lane] + (np.arange(lane.size) - received_ptr[lane])]
        # Entries for absent neighbours go; the others get the world rank they are meant for.
        named = neighbour[owner] | self.inter[owner]
        peers = np.full(owner.size, -1, dtype=np.int64)
        near = neighbour[owner]
        number = comms.out[np.minimum((comms.out_ptr[self.comm[owner]] + position), max(comms.out.size - 1, 0))[near]]
        peers[near] = np.where(
            number >= 0, comms.peer[comms.peer_ptr[self.comm[owner[near]]] + np.maximum(number, 0)], raw.PROC_NULL
        )
        far = self.inter[owner]
        peers[far] = comms.peer[(comms.peer_ptr[self.comm[owner]] + position)[far]]
        keep = peers != raw.PROC_NULL
        # Nothing is sent to an absent neighbour, whatever its entry says.
        parted = self.op_row == OP_CODE["neighbor_alltoall"]
        self.bytes[parted] -= np.bincount(owner[~keep], weights=values[~keep], minlength=self.n).astype(np.int64)[
            parted
        ]
        named_kept = named & keep
        return {
            "vbytes": (csr_ptr(np.bincount(owner[keep], minlength=self.n)), values[keep]),
            "vpeer": (csr_ptr(np.bincount(owner[named_kept], minlength=self.n)), peers[named_kept].astype(np.int32)),
            "vrecv": (received_ptr, np.asarray(expected, dtype=np.int64)),
        }

    def gaps(self, which: str) -> Int64:
        """Local work before each row: that before its record and before skipped records since the last row."""
        total = np.cumsum(self.rec[which].astype(np.int64))
        given = np.flatnonzero(self.rows > 0)
        thread = self.rec["thread"][given]
        start = np.r_[True, thread[1:] != thread[:-1]] if given.size else np.empty(0, dtype=bool)
        before = np.r_[0, total[given][:-1]] if given.size else total[given]
        # At the first record of a thread: all that the thread did so far.
        threads = self.rec["thread"]
        first_of = np.searchsorted(threads, thread, side="left")
        base = np.where(first_of > 0, total[np.maximum(first_of - 1, 0)], 0)
        gap = np.zeros(self.n, dtype=np.int64)
        gap[self.first_row[given]] = total[given] - np.where(start, base, before)
        return gap

    def coll_seq(self, number: Int64) -> Int64:
        """k-th collective on its communicator, counted in the order of the calls of all threads."""
        out = np.full(self.n, -1, dtype=np.int64)
        row = np.flatnonzero(self.kind[self.says] == "collective")
        comm = number[self.comm[row]]
        order = np.lexsort((row, self.order[self.record[row]], comm))
        comm = comm[order]
        ptr = csr_ptr(np.bincount(comm, minlength=1)) if comm.size else np.zeros(1, dtype=np.int64)
        out[row[order]] = np.arange(row.size) - ptr[comm]
        return out

    def marks(self) -> Int64:
        """Level of the last MPI_Pcontrol before each row, in time order over all threads; 0 before the first."""
        by_call = np.lexsort((self.sub, self.order[self.record]))
        level = np.where(self.op_row == OP_CODE["mark"], self.tag, -1)[by_call]
        last = np.maximum.accumulate(np.where(level >= 0, np.arange(self.n), -1)) if self.n else level
        out = np.zeros(self.n, dtype=np.int64)
        out[by_call] = np.where(last >= 0, level[last], 0)
        return out


def rank_rows(rank: RankRecords, comms: LocalComms, number: Int64, *, gap: str) -> RankRows:
    """Rows of one rank.

    Parameters
    ----------
    rank : RankRecords
    comms : LocalComms
    number : int64 array
        Global number of each of its communicators.
    gap : str
        ``gap_cpu`` or ``gap_wall``.

    Returns
    -------
    RankRows
    """
    c = _Converter(rank, comms)
    c.count_rows()
    c.place_starts()
    c.read_waits()
    c.lay_out()
    c.fill()
    c.complete()
    c.world()
    deps, xdeps = c.edges()
    vectors = c.vectors()
    marks = c.marks()
    says = c.rec[c.says]
    waits = np.isin(c.op_row, [OP_CODE["wait"], OP_CODE["test"]])
    created = np.isin(c.kind[c.record], ["lifecycle", "pcontrol"])
    tagged = np.isin(c.op_row, [OP_CODE["send"], OP_CODE["recv"], OP_CODE["probe"]])
    columns: dict[str, Array] = {
        "rank": np.full(c.n, rank.rank, dtype=np.int32),
        "stream": c.stream.astype(np.int32),
        "seq": c.seq.astype(np.int32),
        "op": c.op_row.astype(np.int8),
        "flags": c.flags.astype(np.uint16),
        "comm": np.where(waits | created | (c.comm < 0), 0, number[np.maximum(c.comm, 0)]).astype(np.int32),
        "peer": np.where(c.peer >= 0, c.peer, -1).astype(np.int32),
        "tag": np.where(tagged, np.maximum(c.tag, -1), -1).astype(np.int32),
        "bytes": c.bytes.astype(np.int64),
        "bytes_actual": c.actual.astype(np.int64),
        "coll_seq": c.coll_seq(number).astype(np.int32),
        "gap_ns": c.gaps(gap),
        "t_start": c.rec["t_start"][c.record].astype(np.int64),
        "t_end": c.rec["t_end"][c.record].astype(np.int64),
        "dtype": np.where(waits, 0, says["dtype"]).astype(np.int32) - 1,
        "redop": says["redop"].astype(np.int32) - 1,
        "phase": marks,
    }
    c.ledger += _uncounted(rank)
    lists = {"deps": deps, "xdeps": xdeps, **vectors}
    return RankRows(columns, lists, c.root_unknown, c.ledger, c.wildcards, c.cancelled)


def _uncounted(rank: RankRecords) -> Counter[str]:
    """What the recorder counted and did not record, by reason."""
    out: Counter[str] = Counter()
    for name, count in rank.uncounted.items():
        name = name.removesuffix("_c")
        call = CALLS.get(name)
        if call is None:
            out[f"MPI{name}" if name.startswith("X_") else f"MPI_{name}"] += count
        elif call.polls:
            out["polls that found nothing"] += count
        elif call.kind in ("wait", "start", "mrecv"):
            out["waits for no request"] += count
        elif call.kind != "request":
            out[f"MPI_{name} failed"] += count
    return out
