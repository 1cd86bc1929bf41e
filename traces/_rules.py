"""The rules behind ``check_trace``: each takes a valid trace and yields (rule, severity, count, first offender)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import csr_gather
from netsim.core.units import format_time
from netsim.traces._normalise import rank_ranges
from netsim.traces.matching import CollectiveGroups, collective_groups, completion_rows, cross_rows, message_balance
from netsim.traces.schema import FLAG, NO_TIME, OP_CODE, OP_NAMES, OPS, op_codes
from netsim.traces.times import long_gaps
from netsim.traces.trace import Trace

__all__ = ["RULES"]

Found = Iterator[tuple[str, str, int, str]]

_ROOTED = np.array([op.rooted for op in OPS])
_EQUAL = np.array([op.equal_bytes for op in OPS])
_PER_MEMBER = np.isin(np.arange(len(OPS)), [OP_CODE[n] for n in ("gather", "scatter", "allgather", "reduce_scatter")])


def _comm(trace: Trace, comm: int) -> str:
    return f"comm {comm} ({trace.comms.name[comm]})"


def _instance(trace: Trace, groups: CollectiveGroups, g: int) -> str:
    return f"{_comm(trace, int(groups.comm[g]))}, collective {groups.coll_seq[g]}"


def _row(trace: Trace, row: int) -> str:
    stream = int(trace.column("stream")[row])
    lane = f" stream {stream}" if stream else ""
    return (
        f"rank {trace.column('rank')[row]}{lane} seq {trace.column('seq')[row]} ({OP_NAMES[trace.column('op')[row]]})"
    )


def _sides(groups: CollectiveGroups, g: int, ranks: npt.NDArray[Any], text: Callable[[int], str]) -> str:
    """What the members of one instance say, by rank ranges: "allreduce on ranks 0-2, barrier on rank 3"."""
    rows = groups.rows[groups.ptr[g] : groups.ptr[g + 1]]
    said: dict[str, list[int]] = {}
    for row in rows.tolist():
        said.setdefault(text(row), []).append(int(ranks[row]))
    parts = [f"{what} on {rank_ranges(who)}" for what, who in said.items()]
    return ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")


# ---- collectives


def collectives(trace: Trace, _: float) -> Found:
    """One operation on all members, all members, one root, agreeing sizes."""
    groups = collective_groups(trace)
    if groups.n == 0:
        return
    op, rank, size = trace.column("op"), trace.column("rank"), trace.column("bytes")
    low, high = groups.spread(op[groups.rows])
    mixed = low != high
    if mixed.any():
        g = int(np.flatnonzero(mixed)[0])
        said = _sides(groups, g, rank, lambda row: OP_NAMES[op[row]])
        yield "collective-op", "error", int(mixed.sum()), f"{_instance(trace, groups, g)}: {said}"
    yield from _members(trace, groups)
    if _decreasing_coll_seq(trace).size:
        rows = _decreasing_coll_seq(trace)
        yield (
            "collective-order",
            "error",
            rows.size,
            f"{_row(trace, int(rows[0]))}: coll_seq goes back on its communicator",
        )
    peer = trace.column("peer")
    low_peer, high_peer = groups.spread(peer[groups.rows])
    bad = ~mixed & _ROOTED[low] & (low_peer != high_peer)
    if bad.any():
        g = int(np.flatnonzero(bad)[0])
        said = _sides(groups, g, rank, lambda row: f"root {peer[row]}")
        yield "collective-root", "error", int(bad.sum()), f"{_instance(trace, groups, g)} ({OP_NAMES[low[g]]}): {said}"
    irregular = np.diff(trace.ragged("vbytes")[0])[groups.rows]
    guess = (trace.column("flags")[groups.rows] & FLAG["size_unknown"]) != 0
    some = groups.spread((irregular > 0) | guess)[1]
    low_size, high_size = groups.spread(size[groups.rows])
    bad = ~mixed & _EQUAL[low] & ~some & (low_size != high_size)
    if bad.any():
        g = int(np.flatnonzero(bad)[0])
        said = _sides(groups, g, rank, lambda row: f"{size[row]} B")
        yield "collective-bytes", "error", int(bad.sum()), f"{_instance(trace, groups, g)} ({OP_NAMES[low[g]]}): {said}"
    codes, names = trace.labels("redop")
    low_code, high_code = groups.spread(codes[groups.rows])
    bad = ~mixed & (low_code != high_code)
    if bad.any():
        g = int(np.flatnonzero(bad)[0])
        said = _sides(groups, g, rank, lambda row: names[codes[row]] if codes[row] >= 0 else "no reduction")
        yield "collective-redop", "error", int(bad.sum()), f"{_instance(trace, groups, g)} ({OP_NAMES[low[g]]}): {said}"
    yield from _vectors(trace, groups, ~mixed & groups.complete)


def _members(trace: Trace, groups: CollectiveGroups) -> Found:
    """Instances that not every member takes part in exactly once; names both sides, those ahead and those behind."""
    short = ~groups.complete
    if not short.any():
        return
    g = int(np.flatnonzero(short)[0])
    comm = int(groups.comm[g])
    op = int(trace.column("op")[groups.rows[groups.ptr[g]]])
    mine = (trace.column("comm") == comm) & (trace.column("op") == op)
    calls = np.bincount(trace.column("rank")[mine], minlength=trace.n_ranks)[np.sort(trace.comms.members(comm))]
    members = np.sort(trace.comms.members(comm))
    times = {0: "never", 1: "once"}
    counts = np.unique(calls)[::-1].tolist()
    if len(counts) > 1:
        shown = counts if len(counts) <= 3 else [counts[0], counts[-1]]
        sides = [f"{times.get(c, f'{c} times')} by {rank_ranges(members[calls == c])}" for c in shown]
        text = f"{_comm(trace, comm)}: {OP_NAMES[op]} called {sides[0]}, but " + ", ".join(sides[1:])
    else:
        here = trace.column("rank")[groups.rows[groups.ptr[g] : groups.ptr[g + 1]]]
        absent = np.setdiff1d(members, here)
        who = f"not on {rank_ranges(absent)}" if absent.size else "more than once on some rank"
        text = f"{_instance(trace, groups, g)}: {OP_NAMES[op]} on {rank_ranges(here)}, {who}"
    yield "collective-members", "error", int(short.sum()), text


def _decreasing_coll_seq(trace: Trace) -> npt.NDArray[np.int64]:
    """Collective rows whose coll_seq is not above that of the one before on the same rank, stream and communicator."""
    coll = trace.column("coll_seq")
    row = np.flatnonzero(coll >= 0)
    comm, rank, stream = (trace.column(name)[row] for name in ("comm", "rank", "stream"))
    order = np.lexsort((row, stream, rank, comm))
    row, comm, rank, stream = row[order], comm[order], rank[order], stream[order]
    same = (comm[1:] == comm[:-1]) & (rank[1:] == rank[:-1]) & (stream[1:] == stream[:-1])
    return np.sort(row[1:][same & (coll[row[1:]] <= coll[row[:-1]])])


def _vectors(trace: Trace, groups: CollectiveGroups, good: npt.NDArray[np.bool_]) -> Found:
    """Sums, members and pairs of the vectors of irregular collectives."""
    if not trace.has("vbytes"):
        return
    op, size, rank = trace.column("op"), trace.column("bytes"), trace.column("rank")
    ptr, values = trace.ragged("vbytes")
    total = np.concatenate([[0], np.cumsum(values)])
    summed = total[ptr[1:]] - total[ptr[:-1]]
    given = np.diff(ptr) > 0
    bad = np.flatnonzero(given & np.isin(op, [OP_CODE["alltoall"], OP_CODE["neighbor_alltoall"]]) & (summed != size))
    if bad.size:
        first = int(bad[0])
        text = f"{_row(trace, first)}: vbytes sum to {summed[first]} B, but bytes is {size[first]}"
        yield "vector-sum", "error", bad.size, text

    # Entry j of a vector speaks of member j: find that member's row in the same instance.
    instance = np.repeat(np.arange(groups.n), groups.sizes)
    keep = good[instance] & given[groups.rows] & ~(np.diff(trace.ragged("vpeer")[0]) > 0)[groups.rows]
    row, g = groups.rows[keep], instance[keep]
    if row.size == 0:
        return
    _, entry = csr_gather(ptr, row)
    owner = np.repeat(np.arange(row.size), np.diff(ptr)[row])
    member = np.concatenate([[0], np.cumsum(np.diff(ptr)[row])])[:-1]
    j = np.arange(entry.size) - member[owner]
    other = groups.rows[groups.ptr[g[owner]] + _place(trace)[trace.comms.ptr[groups.comm[g[owner]]] + j]]
    per_member = _PER_MEMBER[op[row[owner]]] & (values[entry] != size[other])
    if per_member.any():
        e = int(np.flatnonzero(per_member)[0])
        mine, theirs = int(row[owner[e]]), int(other[e])
        text = (
            f"{_instance(trace, groups, int(g[owner[e]]))} ({OP_NAMES[op[mine]]}): "
            f"rank {rank[mine]} has {values[entry[e]]} B for rank {rank[theirs]}, whose bytes is {size[theirs]}"
        )
        yield "vector-member", "error", int(per_member.sum()), text
    yield from _pairs(trace, groups, row[owner], g[owner], other, values[entry])


def _place(trace: Trace) -> npt.NDArray[np.int64]:
    """For each entry of the communicator table: place of the member among the members sorted by world rank."""
    comms = trace.comms
    owner = np.repeat(np.arange(comms.n), comms.sizes)
    order = np.lexsort((comms.member, owner))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size) - comms.ptr[owner]
    return place


def _pairs(trace: Trace, groups: CollectiveGroups, sender: Any, g: Any, receiver: Any, sent: Any) -> Found:
    """All-to-all: what a sends to b is what b expects from a."""
    if not trace.has("vrecv"):
        return
    ptr, expected = trace.ragged("vrecv")
    use = (trace.column("op")[sender] == OP_CODE["alltoall"]) & (np.diff(ptr)[receiver] > 0)
    sender, g, receiver, sent = sender[use], g[use], receiver[use], sent[use]
    if sender.size == 0:
        return
    # Where in the receiver's vector the sender stands: its place in communicator order.
    comms, n = trace.comms, max(trace.n_ranks, 1)
    key = np.repeat(np.arange(comms.n), comms.sizes) * n + comms.member
    order = np.argsort(key)
    rank = trace.column("rank")
    comm = groups.comm[g]
    at = order[np.searchsorted(key, comm * n + rank[sender], sorter=order)] - comms.ptr[comm]
    wanted = expected[ptr[receiver] + at]
    bad = np.flatnonzero(sent != wanted)
    if bad.size:
        e = int(bad[0])
        a, b = rank[sender[e]], rank[receiver[e]]
        where = _instance(trace, groups, int(g[e]))
        text = f"{where}: rank {a} sends {sent[e]} B to rank {b}, which expects {wanted[e]} B"
        yield "alltoall-pairs", "error", bad.size, text


# ---- messages and requests


def messages(trace: Trace, _: float) -> Found:
    """Sends equal receives per channel; matched pairs have fitting sizes and times."""
    balance = message_balance(trace)
    rank = trace.column("rank")
    rows = balance.surplus_rows()
    if rows.size:
        row = int(rows.min())
        ends = (int(rank[row]), int(trace.column("peer")[row]))
        source, destination = ends if trace.column("op")[row] == OP_CODE["send"] else ends[::-1]
        comm, tag = int(trace.column("comm")[row]), int(trace.column("tag")[row])
        here = (balance.source == source) & (balance.destination == destination)
        k = int(np.flatnonzero(here & (balance.comm == comm) & (balance.tag == tag))[0])
        text = (
            f"rank {source} to rank {destination}, {_comm(trace, comm)}, tag {tag}: "
            f"{balance.n_send[k]} sent, {balance.n_recv[k]} received"
        )
        yield "messages", "error", rows.size, text
    if balance.unresolved.size:
        first = int(balance.unresolved[0])
        yield "wildcards", "warning", balance.unresolved.size, f"{_row(trace, first)}: source or tag was never resolved"
    size, actual = trace.column("bytes"), trace.column("bytes_actual")
    send, recv = balance.send, balance.recv
    sure = ((trace.column("flags")[send] | trace.column("flags")[recv]) & FLAG["size_unknown"]) == 0
    bad = np.flatnonzero(sure & ((size[recv] < size[send]) | ((actual[recv] >= 0) & (actual[recv] != size[send]))))
    if bad.size:
        s, r = int(send[bad[0]]), int(recv[bad[0]])
        got = f"{actual[r]} B arrived" if actual[r] >= 0 and actual[r] != size[s] else f"room for {size[r]} B"
        text = f"{_row(trace, s)} sends {size[s]} B to rank {rank[r]} seq {trace.column('seq')[r]}: {got}"
        yield "message-bytes", "error", bad.size, text
    yield from _causality(trace, send, recv)


def _causality(trace: Trace, send: npt.NDArray[np.int64], recv: npt.NDArray[np.int64]) -> Found:
    """A message cannot be complete before it was sent: if it is, the clocks of the ranks disagree."""
    if not (trace.has("t_start") and trace.has("t_end")):
        return
    over = completion_rows(trace)[recv]
    start, end = trace.column("t_start")[send], trace.column("t_end")[over]
    bad = np.flatnonzero((over >= 0) & (start != NO_TIME) & (end != NO_TIME) & (end < start))
    if bad.size:
        s, o = int(send[bad[0]]), int(over[bad[0]])
        early = format_time(float(start[bad[0]] - end[bad[0]]) * 1e-9)
        text = f"{_row(trace, o)} received {early} before {_row(trace, s)} sent"
        yield "received-before-sent", "warning", bad.size, text


def requests(trace: Trace, _: float) -> Found:
    """Waits complete requests, each at most once, and every request is waited for."""
    flags, op = trace.column("flags"), trace.column("op")
    open_ = (flags & FLAG["nonblocking"]) != 0
    ptr, back = trace.ragged("deps")
    row = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
    use = np.isin(op[row], op_codes("completion"))
    row, target = row[use], (row - back)[use]
    if trace.has("xdeps"):  # requests of another thread
        ptr, pairs = trace.ragged("xdeps")
        other = np.repeat(np.arange(trace.n_rows), np.diff(ptr))
        use = np.isin(op[other], op_codes("completion"))
        row = np.concatenate([row, other[use]])
        target = np.concatenate([target, cross_rows(trace, trace.column("rank")[other[use]], pairs[use])])
    bad = np.flatnonzero(~open_[target])
    if bad.size:
        text = f"{_row(trace, int(row[bad[0]]))} waits for {_row(trace, int(target[bad[0]]))}, which is not a request"
        yield "wait-target", "error", bad.size, text
    times = np.bincount(target, minlength=trace.n_rows)
    twice = np.flatnonzero(times > 1)
    if twice.size:
        yield "wait-twice", "error", twice.size, f"{_row(trace, int(twice[0]))} is completed {times[twice[0]]} times"
    never = np.flatnonzero(open_ & (times == 0) & ((flags & FLAG["cancelled"]) == 0))
    if never.size:
        yield "request-open", "warning", never.size, f"{_row(trace, int(never[0]))} is never waited for"


# ---- clocks and edges


def clocks(trace: Trace, max_duration_s: float) -> Found:
    """Calls of a stream start in order, end after they start; neither they nor the work between them last absurdly long."""
    gaps, longest_s = long_gaps(trace, longest_s=max_duration_s)
    if gaps.any():
        row = int(np.flatnonzero(gaps)[0])
        text = f"{_row(trace, row)} comes after local work of more than {format_time(max_duration_s)}"
        yield "gap-absurd", "warning", int(gaps.sum()), f"{text} (longest {format_time(longest_s)})"
    if not trace.has("t_start"):
        return
    start, rank, stream = trace.column("t_start"), trace.column("rank"), trace.column("stream")
    timed = np.flatnonzero(start != NO_TIME)
    same = (rank[timed[1:]] == rank[timed[:-1]]) & (stream[timed[1:]] == stream[timed[:-1]])
    back = np.flatnonzero(same & (start[timed[1:]] < start[timed[:-1]]))
    if back.size:
        row = int(timed[back[0] + 1])
        by = format_time(float(start[timed[back[0]]] - start[row]) * 1e-9)
        yield "clock-monotone", "error", back.size, f"{_row(trace, row)} starts {by} before the call that precedes it"
    if not trace.has("t_end"):
        return
    end = trace.column("t_end")
    known = (start != NO_TIME) & (end != NO_TIME)
    # In floats: the difference of absurd times may not fit 64 bits.
    lasted = np.where(known, end.astype(np.float64) - start.astype(np.float64), 0.0)
    bad = np.flatnonzero(known & (end < start))
    if bad.size:
        text = f"{_row(trace, int(bad[0]))} lasted {format_time(lasted[bad[0]] * 1e-9)}"
        yield "duration-negative", "error", bad.size, text
    bad = np.flatnonzero(lasted > max_duration_s * 1e9)
    if bad.size:
        time = format_time(lasted[bad[0]] * 1e-9)
        text = f"{_row(trace, int(bad[0]))} lasted {time}, more than {format_time(max_duration_s)}"
        yield "duration-absurd", "error", bad.size, text


def cycles(trace: Trace, _: float) -> Found:
    """Explicit edges and program order form no cycle. Only edges between streams can close one."""
    if not trace.has("xdeps"):
        return
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = trace.n_rows
    rank, stream, flags = trace.column("rank"), trace.column("stream"), trace.column("flags")
    chained = (
        np.flatnonzero((rank[1:] == rank[:-1]) & (stream[1:] == stream[:-1]) & ((flags[1:] & FLAG["unchained"]) == 0))
        + 1
    )
    before, after = [chained - 1], [chained]
    for name in ("deps", "sdeps"):
        ptr, back = trace.ragged(name)
        row = np.repeat(np.arange(n), np.diff(ptr))
        before.append(row - back)
        after.append(row)
    ptr, pairs = trace.ragged("xdeps")
    row = np.repeat(np.arange(n), np.diff(ptr))
    before.append(cross_rows(trace, rank[row], pairs))
    after.append(row)
    tail, head = np.concatenate(before), np.concatenate(after)
    graph = csr_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n, n))
    _, part = connected_components(graph, connection="strong")
    knots = np.flatnonzero(np.bincount(part) > 1)
    if knots.size:
        first = int(np.flatnonzero(np.isin(part, knots))[0])
        inside = part[tail] == part[first]
        ring = _shortest_cycle(
            first, tail[inside & (part[head] == part[first])], head[inside & (part[head] == part[first])]
        )
        shown = [_row(trace, r) for r in ring[:6]] + (["..."] if len(ring) > 6 else [])
        yield "cycle", "error", knots.size, f"{len(ring)} rows wait for each other: " + ", ".join(shown)


def _shortest_cycle(start: int, tail: npt.NDArray[Any], head: npt.NDArray[Any]) -> list[int]:
    """A shortest cycle through ``start`` by breadth-first search, in the order in which its rows wait."""
    order = np.argsort(tail, kind="stable")
    tail, head = tail[order], head[order]
    came_from: dict[int, int] = {}
    front = [start]
    while front and start not in came_from:
        ahead = []
        for row in front:
            low, high = np.searchsorted(tail, [row, row + 1])
            for successor in head[low:high].tolist():
                if successor not in came_from:
                    came_from[successor] = row
                    ahead.append(successor)
        front = ahead
    ring, row = [start], came_from[start]
    while row != start:
        ring.append(row)
        row = came_from[row]
    return ring[::-1]


# ---- matrices


def diagonal(trace: Trace, _: float) -> Found:
    """A diagonal that equals the row sums is a total, not traffic of a rank with itself."""
    src, dst, size = trace.column("src"), trace.column("dst"), trace.column("bytes")
    own = src == dst
    others = np.bincount(src[~own], weights=size[~own].astype(np.float64), minlength=trace.n_ranks)
    mine = np.bincount(src[own], weights=size[own].astype(np.float64), minlength=trace.n_ranks)
    total = (mine > 0) & (mine == others)
    if total.any() and total[mine > 0].all():
        r = int(np.flatnonzero(total)[0])
        text = f"rank {r} to itself: {int(mine[r])} B, exactly what it sends to all others: probably the row total"
        yield "matrix-diagonal", "warning", int(total.sum()), text


Rule = Callable[[Trace, float], Found]

RULES: dict[str, tuple[tuple[tuple[str, ...], Rule], ...]] = {
    "ops": (
        (
            (
                "collective-op",
                "collective-members",
                "collective-order",
                "collective-root",
                "collective-bytes",
                "collective-redop",
                "vector-sum",
                "vector-member",
                "alltoall-pairs",
            ),
            collectives,
        ),
        (("messages", "wildcards", "message-bytes", "received-before-sent"), messages),
        (("wait-target", "wait-twice", "request-open"), requests),
        (("clock-monotone", "duration-negative", "duration-absurd", "gap-absurd"), clocks),
        (("cycle",), cycles),
    ),
    "flows": (),
    "matrix": ((("matrix-diagonal",), diagonal),),
}
"""Profile -> (names of rules, the function that checks them)."""
