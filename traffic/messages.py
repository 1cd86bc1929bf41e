"""Point-to-point calls as tasks: eager and rendezvous messages, receives, and what waits for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.traces.schema import NO_TIME
from netsim.traffic.arrival import resolve_wildcards
from netsim.traffic.assembly import Assembly
from netsim.traffic.instances import Instances
from netsim.traffic.matching import UNMATCHED, Endpoints, match_fifo, match_numbered
from netsim.traffic.moments import Moments
from netsim.traffic.notes import NoteBook
from netsim.traffic.program import Program
from netsim.traffic.protocol import Protocol
from netsim.traffic.taskgraph import AFTER_DRAIN

__all__ = ["Messages", "lower_messages"]


@dataclass(frozen=True, kw_only=True)
class Messages:
    """Every message between two calls.

    Attributes
    ----------
    send_op, recv_op : int64 array, shape (m,)
        Rows of the trace; -1 where there is no send (a receive that waits for ever) or no receive (an orphan).
    task : int64 array, shape (m,)
        The transfer of the data.
    rendezvous : bool array, shape (m,)
    """

    send_op: Int64
    recv_op: Int64
    task: Int64
    rendezvous: npt.NDArray[np.bool_]


def _pair_up(
    program: Program, instances: Instances, sends: Int64, receives: Int64, notes: NoteBook
) -> tuple[Program, Int64, Int64, Int64]:
    """Sends and receives in posting order, and the send (position in sends) of each receive."""
    unknown_source = (program.peer[receives] < 0) & program.flag("any_source")[receives]
    unknown_tag = (program.tag[receives] < 0) & program.flag("any_tag")[receives]
    wild = receives[(unknown_source | unknown_tag) & (program.match[receives] < 0)]
    if wild.size:
        peer, tag = resolve_wildcards(program, instances, sends=sends, receives=receives, wild=wild)
        program = replace(program, peer=peer, tag=tag)
        notes.add(
            "wildcards_by_arrival",
            wild.size,
            "receives whose source or tag was never recorded: matched in the order of arrival on an ideal network "
            "(earliest send first, ties by source rank and position)",
        )
    if bool((program.stream > 0).any()):
        sends, receives = (_by_time(program, rows, notes) for rows in (sends, receives))
    found = np.full(receives.size, UNMATCHED, dtype=np.int64)
    if bool((program.match[receives] >= 0).any()):
        found = match_numbered(send_number=program.match[sends], recv_number=program.match[receives])
    free_send = np.ones(sends.size, dtype=bool)
    free_send[found[found >= 0]] = False
    open_sends, open_receives = np.flatnonzero(free_send), np.flatnonzero(found < 0)
    out, into = sends[open_sends], receives[open_receives]
    rest = match_fifo(
        sends=Endpoints(comm=program.comm[out], src=program.rank[out], dst=program.peer[out], tag=program.tag[out]),
        receives=Endpoints(
            comm=program.comm[into], src=program.peer[into], dst=program.rank[into], tag=program.tag[into]
        ),
    )
    hit = rest >= 0
    found[open_receives[hit]] = open_sends[rest[hit]]
    return program, sends, receives, found


def _by_time(program: Program, rows: Int64, notes: NoteBook) -> Int64:
    """Posting order when a rank has several streams: by recorded time, else stream by stream."""
    time = program.t_start[rows]
    if bool((time == NO_TIME).any()):
        several = np.unique(program.rank[program.stream > 0])
        notes.add(
            "streams_without_time",
            int(np.count_nonzero(np.isin(program.rank[rows], several))),
            "messages of ranks with several streams and no recorded times: posted stream by stream",
        )
        return rows
    return rows[np.lexsort((rows, time, program.rank[rows]))]


def lower_messages(
    *,
    program: Program,
    instances: Instances,
    protocol: Protocol,
    parts: Assembly,
    entered: Int64,
    done: Moments,
    release: Moments,
    notes: NoteBook,
) -> tuple[Messages, npt.NDArray[np.bool_]]:
    """Add the tasks of all sends and receives; fills in when they are done and when they let go.

    Returns
    -------
    messages : Messages
    covered : bool array, shape of ``program.dep_row``
        Dependencies of waits that are wired already.

    Parameters
    ----------
    entered : int64 array, shape (n,)
        Task whose end is the entry to each call.
    done, release : Moments
        Of all rows; those of sends and receives are set here.
    """
    cancelled = program.flag("cancelled")
    p2p = program.is_op("send", "recv")
    notes.add("cancelled", int(np.count_nonzero(p2p & cancelled)), "cancelled sends and receives: they take no part")
    sends = np.flatnonzero(program.is_op("send") & ~cancelled)
    receives = np.flatnonzero(program.is_op("recv") & ~cancelled)
    program, sends, receives, send_at = _pair_up(program, instances, sends, receives, notes)
    recv_of = np.full(sends.size, -1, dtype=np.int64)
    matched = np.flatnonzero(send_at >= 0)
    recv_of[send_at[matched]] = receives[matched]
    orphan = recv_of < 0
    nonblocking = program.free
    _note_sizes(program, sends[send_at[matched]], receives[matched], notes)

    # Send overhead, then eager data or the request to send.
    src, dst, size = program.rank[sends], program.peer[sends], program.size_bytes[sends]
    injected = entered[sends]
    if protocol.send_overhead_s > 0:
        injected = parts.delays(rank=src, seconds=protocol.send_overhead_s, op=sends)
        parts.edges(entered[sends], injected)
    rendezvous = (size > protocol.eager_threshold_bytes) | program.flag("synchronous")[sends]
    data = parts.transfers(source=src, destination=dst, size_bytes=size, op=sends)
    parts.edges(injected[~rendezvous], data[~rendezvous])
    _rendezvous(
        protocol,
        parts,
        entered,
        rows=sends,
        src=src,
        dst=dst,
        injected=injected,
        data=data,
        recv_of=recv_of,
        which=rendezvous,
    )
    at_drain = rendezvous | (protocol.eager_completion == "drain")
    done.put(sends, injected)
    done.put(sends[at_drain], data[at_drain], AFTER_DRAIN)
    release.put(sends, injected)
    held = at_drain & ~nonblocking[sends]
    release.put(sends[held], data[held], AFTER_DRAIN)
    notes.add(
        "orphan_eager_sends",
        int(np.count_nonzero(orphan & ~rendezvous)),
        "eager sends that no receive takes: their bytes travel and they complete",
    )
    notes.add(
        "orphan_rendezvous_sends",
        int(np.count_nonzero(orphan & rendezvous)),
        "rendezvous sends that no receive takes: they never complete",
    )

    # Receives. One that nothing matches waits for a transfer that never starts.
    lost = receives[send_at < 0]
    source = np.where(program.peer[lost] >= 0, program.peer[lost], program.rank[lost])
    never = parts.transfers(source=source, destination=program.rank[lost], size_bytes=program.size_bytes[lost], op=lost)
    parts.edges(never, never)
    delivered = np.empty(receives.size, dtype=np.int64)
    delivered[matched] = data[send_at[matched]]
    delivered[send_at < 0] = never
    received = parts.delays(rank=program.rank[receives], seconds=protocol.recv_overhead_s, op=receives)
    parts.edges(delivered, received)
    done.put(receives, received)
    blocking = ~nonblocking[receives]
    release.put(receives[blocking], received[blocking])
    notes.add("unmatched_receives", int(lost.size), "receives that no send matches: they never complete")
    covered = _wait_chains(program, parts, entered, receives, received, blocking, release, notes)
    messages = Messages(
        send_op=np.concatenate([sends, np.full(lost.size, -1)]),
        recv_op=np.concatenate([recv_of, lost]),
        task=np.concatenate([data, never]),
        rendezvous=np.concatenate([rendezvous, np.zeros(lost.size, dtype=bool)]),
    )
    return messages, covered


def _rendezvous(
    protocol: Protocol,
    parts: Assembly,
    entered: Int64,
    *,
    rows: Int64,
    src: npt.NDArray[np.int32],
    dst: npt.NDArray[np.int32],
    injected: Int64,
    data: Int64,
    recv_of: Int64,
    which: npt.NDArray[np.bool_],
) -> None:
    """Request to send, clear to send, data; without a handshake the data wait for both sides."""
    at = np.flatnonzero(which)
    gate = data[at]
    if protocol.handshake:
        request = parts.transfers(source=src[at], destination=dst[at], size_bytes=0, op=rows[at])
        clear = parts.transfers(source=dst[at], destination=src[at], size_bytes=0, op=rows[at])
        parts.edges(injected[at], request)
        parts.edges(request, clear)
        parts.edges(clear, data[at])
        gate = clear
    else:
        parts.edges(injected[at], data[at])
    posted = recv_of[at]
    has = posted >= 0
    parts.edges(entered[posted[has]], gate[has])
    parts.edges(gate[~has], gate[~has])


def _wait_chains(
    program: Program,
    parts: Assembly,
    entered: Int64,
    receives: Int64,
    received: Int64,
    blocking: npt.NDArray[np.bool_],
    release: Moments,
    notes: NoteBook,
) -> npt.NDArray[np.bool_]:
    """Receive overheads of a wait one after the other, in the order in which it names the requests."""
    task = np.full(program.n, -1, dtype=np.int64)
    task[receives[~blocking]] = received[~blocking]
    named = np.flatnonzero(program.completion[program.dep_row] & (task[program.dep_on] >= 0))
    # The first wait that names a request completes it; dep_row is sorted.
    _, first = np.unique(program.dep_on[named], return_index=True)
    named = named[np.sort(first)]
    wait, request = program.dep_row[named], program.dep_on[named]
    chain = task[request]
    head = np.ones(named.size, dtype=bool)
    head[1:] = wait[1:] != wait[:-1]
    parts.edges(entered[wait[head]], chain[head])
    follow = np.flatnonzero(~head)
    parts.edges(chain[follow - 1], chain[follow])
    tail = np.append(head[1:], True)[: named.size]
    release.put(wait[tail], chain[tail])
    # Everything else must be posted before it can be received; in one stream a wait comes after its receive anyway.
    completed = np.zeros(program.n, dtype=bool)
    completed[request] = True
    loose = ~completed[receives]
    one_after_the_other = bool(program.chained[~program.first].all()) and not bool((program.stream > 0).any())
    posted = loose if one_after_the_other else np.ones(receives.size, dtype=bool)
    parts.edges(entered[receives[posted]], received[posted])
    notes.add(
        "receives_without_wait",
        int(np.count_nonzero(loose & ~blocking)),
        "non-blocking receives that no wait completes: they end when they end, at no cost to the rank",
    )
    covered = np.zeros(program.dep_row.size, dtype=bool)
    covered[named] = True
    return covered


def _note_sizes(program: Program, send_rows: Int64, recv_rows: Int64, notes: NoteBook) -> None:
    sent = program.size_bytes[send_rows]
    actual = program.actual_bytes[recv_rows]
    notes.add(
        "truncated_messages",
        int(np.count_nonzero(sent > program.size_bytes[recv_rows])),
        "messages larger than the receive they match: sent whole",
    )
    notes.add(
        "sizes_disagree",
        int(np.count_nonzero((actual >= 0) & (actual != sent))),
        "messages whose recorded received size is not the size that was sent: the sent size is used",
    )
    notes.add(
        "sizes_unknown",
        int(np.count_nonzero(program.flag("size_unknown"))),
        "calls whose size is a guess of the source",
    )
