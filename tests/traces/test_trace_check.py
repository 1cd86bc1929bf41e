"""The integrity rules: silent on programs whose ranks agree, and each fault found, named and counted."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_programs import programs

from netsim.traces import Communicators, Trace, TraceMeta, check_trace
from netsim.traces.matching import collective_groups, message_balance
from netsim.traces.schema import OP_CODE

Rows = list[dict[str, Any]]


def found(trace: Trace, **options: float) -> list[tuple[str, str, int, str]]:
    return [(f.rule, f.severity, f.count, f.first) for f in check_trace(trace, **options).findings]


def build(n_ranks: int, rows: Rows, comms: list[list[int]] | None = None) -> Trace:
    return Trace.from_rows(n_ranks=n_ranks, rows=rows, comms=comms)


def all_ranks(n: int, **row: Any) -> Rows:
    return [{"rank": r, **row} for r in range(n)]


# ---- good traces


@given(trace=programs())
def test_programs_whose_ranks_agree_have_no_findings(trace: Trace) -> None:
    report = check_trace(trace)
    assert [f.rule for f in report.findings] == (["empty"] if trace.n_rows == 0 else [])
    assert report.ok


def test_empty_trace_is_said_to_be_empty() -> None:
    assert found(build(4, [])) == [("empty", "warning", 1, "no rows: nothing was communicated")]


# ---- collectives


def test_different_operations_in_one_instance() -> None:
    rows = [*all_ranks(4, op="barrier"), *all_ranks(3, op="allreduce", bytes=8), {"rank": 3, "op": "barrier"}]
    want = "comm 0 (WORLD), collective 1: allreduce on ranks 0-2, barrier on rank 3"
    assert found(build(4, rows)) == [("collective-op", "error", 1, want)]


def test_two_of_32_ranks_one_operation_ahead() -> None:
    rows = [*all_ranks(32, op="allgather", bytes=8), *({"rank": r, "op": "allgather", "bytes": 8} for r in (5, 17))]
    want = "comm 0 (WORLD): allgather called 2 times by ranks 5, 17, but once by ranks 0-4, 6-16, 18-31"
    assert found(build(32, rows)) == [("collective-members", "error", 1, want)]


def test_ranks_that_never_called_are_named() -> None:
    rows = [{"rank": r, "op": "barrier", "comm": 1} for r in (4, 0)]
    want = "comm 1 (comm 1): barrier called once by ranks 0, 4, but never by rank 2"
    assert found(build(5, rows, [[4, 2, 0]])) == [("collective-members", "error", 1, want)]


def test_equal_counts_with_different_numbers() -> None:
    rows = [{"rank": 0, "op": "barrier", "coll_seq": 0}, {"rank": 1, "op": "barrier", "coll_seq": 1}]
    want = "comm 0 (WORLD), collective 0: barrier on rank 0, not on rank 1"
    assert found(build(2, rows)) == [("collective-members", "error", 2, want)]


def test_collective_numbers_must_go_up() -> None:
    rows = [{"rank": r, "op": "barrier", "coll_seq": k} for k in (1, 0) for r in (0, 1)]
    want = "rank 0 seq 1 (barrier): coll_seq goes back on its communicator"
    assert found(build(2, rows)) == [("collective-order", "error", 2, want)]


def test_roots_must_agree() -> None:
    rows = [{"rank": r, "op": "bcast", "bytes": 8, "peer": 1 if r == 2 else 0} for r in range(3)]
    want = "comm 0 (WORLD), collective 0 (bcast): root 0 on ranks 0-1, root 1 on rank 2"
    assert found(build(3, rows)) == [("collective-root", "error", 1, want)]


@pytest.mark.parametrize("op", ["allreduce", "allgather", "alltoall", "scan", "reduce_scatter"])
def test_sizes_must_agree(op: str) -> None:
    rows = [{"rank": r, "op": op, "bytes": 9 if r == 1 else 12} for r in range(3)]
    want = f"comm 0 (WORLD), collective 0 ({op}): 12 B on ranks 0, 2, 9 B on rank 1"
    assert found(build(3, rows)) == [("collective-bytes", "error", 1, want)]


def test_guessed_sizes_may_differ() -> None:
    rows = [{"rank": r, "op": "allreduce", "bytes": r, "flags": "size_unknown"} for r in range(3)]
    assert found(build(3, rows)) == []


def test_reductions_must_agree() -> None:
    rows = [{"rank": r, "op": "allreduce", "bytes": 8, "redop": "max" if r else "sum"} for r in range(3)]
    want = "comm 0 (WORLD), collective 0 (allreduce): sum on rank 0, max on ranks 1-2"
    assert found(build(3, rows)) == [("collective-redop", "error", 1, want)]


def test_vector_must_sum_to_bytes() -> None:
    # Splits that sum to 59 in a buffer of 60.
    rows = [{"rank": r, "op": "alltoall", "bytes": 60, "vbytes": [15, 14, 20, 10 + (r > 0)]} for r in range(4)]
    want = "rank 0 seq 0 (alltoall): vbytes sum to 59 B, but bytes is 60"
    assert found(build(4, rows)) == [("vector-sum", "error", 1, want)]


def test_all_to_all_rows_against_columns() -> None:
    sends, expects = [[0, 3], [2, 0]], [[0, 2], [1, 0]]
    rows = [
        {"rank": r, "op": "alltoall", "bytes": sum(sends[r]), "vbytes": sends[r], "vrecv": expects[r]} for r in (0, 1)
    ]
    want = "comm 0 (WORLD), collective 0: rank 0 sends 3 B to rank 1, which expects 1 B"
    assert found(build(2, rows)) == [("alltoall-pairs", "error", 1, want)]


def test_all_to_all_with_permuted_members() -> None:
    # Members 3, 1, 0. Rank 3 sends 5 to rank 0; rank 0 lists its sources in the same order, so 5 stands first.
    comm = [3, 1, 0]
    sends = {3: [0, 0, 5], 1: [0, 0, 0], 0: [0, 7, 0]}
    expects = {3: [0, 0, 0], 1: [0, 0, 7], 0: [5, 0, 0]}

    def rows() -> Rows:
        return [
            {"rank": r, "op": "alltoall", "comm": 1, "bytes": sum(sends[r]), "vbytes": sends[r], "vrecv": expects[r]}
            for r in comm
        ]

    assert found(build(4, rows(), [comm])) == []
    expects[1] = [0, 0, 8]
    want = "comm 1 (comm 1), collective 0: rank 0 sends 7 B to rank 1, which expects 8 B"
    assert found(build(4, rows(), [comm])) == [("alltoall-pairs", "error", 1, want)]


@pytest.mark.parametrize("op", ["gather", "scatter", "allgather", "reduce_scatter"])
def test_vector_at_one_member_against_the_others(op: str) -> None:
    # On members 2, 0, 1 the vector [4, 5, 6] gives rank 2 four bytes, rank 0 five, rank 1 six.
    sizes = {2: 4, 0: 5, 1: 6}
    rows = [{"rank": r, "op": op, "comm": 1, "bytes": sizes[r], "peer": 0} for r in (0, 1, 2)]
    rows[0]["vbytes"] = [4, 5, 6]
    assert found(build(3, rows, [[2, 0, 1]])) == []
    rows[0]["vbytes"] = [4, 5, 7]
    want = f"comm 1 (comm 1), collective 0 ({op}): rank 0 has 7 B for rank 1, whose bytes is 6"
    assert found(build(3, rows, [[2, 0, 1]])) == [("vector-member", "error", 1, want)]


# ---- messages


def send(rank: int, peer: int, **row: Any) -> dict[str, Any]:
    return {"rank": rank, "op": "send", "peer": peer, "tag": 0, "bytes": 4, **row}


def recv(rank: int, peer: int | None, **row: Any) -> dict[str, Any]:
    return {"rank": rank, "op": "recv", "peer": peer, "tag": 0, "bytes": 4, **row}


@pytest.mark.parametrize(
    ("rows", "count", "text"),
    [
        ([send(0, 1), send(0, 1), recv(1, 0)], 1, "rank 0 to rank 1, comm 0 (WORLD), tag 0: 2 sent, 1 received"),
        ([recv(1, 0)], 1, "rank 0 to rank 1, comm 0 (WORLD), tag 0: 0 sent, 1 received"),
        ([send(0, 1, tag=5), recv(1, 0)], 2, "rank 0 to rank 1, comm 0 (WORLD), tag 5: 1 sent, 0 received"),
        ([send(0, 1, comm=1), recv(1, 0)], 2, "rank 0 to rank 1, comm 1 (comm 1), tag 0: 1 sent, 0 received"),
        ([send(0, 1), recv(0, 1)], 2, "rank 0 to rank 1, comm 0 (WORLD), tag 0: 1 sent, 0 received"),
    ],
)
def test_sends_and_receives_must_balance(rows: Rows, count: int, text: str) -> None:
    assert found(build(2, rows, [[1, 0]])) == [("messages", "error", count, text)]


def test_cancelled_requests_do_not_count() -> None:
    rows = [send(0, 1), recv(1, 0), recv(1, 0, flags=["nonblocking", "cancelled"])]
    assert found(build(2, rows)) == []


def test_open_wildcards_explain_as_many_sends_as_there_are() -> None:
    wild = recv(1, None, flags="any_source")
    note = ("wildcards", "warning", 1, "rank 1 seq 0 (recv): source or tag was never resolved")
    assert found(build(3, [send(0, 1), wild])) == [note]
    excess = ("messages", "error", 1, "rank 2 to rank 1, comm 0 (WORLD), tag 0: 1 sent, 0 received")
    assert found(build(3, [send(0, 1), send(2, 1), wild])) == [excess, note]


def test_resolved_wildcards_match_like_any_receive() -> None:
    assert found(build(4, [send(3, 1), recv(1, 3, flags=["any_source", "any_tag"])])) == []


@pytest.mark.parametrize(
    ("got", "text"),
    [
        ({"bytes": 3}, "rank 0 seq 1 (send) sends 4 B to rank 1 seq 1: room for 3 B"),
        ({"bytes": 9, "bytes_actual": 5}, "rank 0 seq 1 (send) sends 4 B to rank 1 seq 1: 5 B arrived"),
    ],
)
def test_messages_must_fit(got: dict[str, int], text: str) -> None:
    # First in, first out: the second send meets the second receive.
    rows = [send(0, 1, bytes=2), send(0, 1), recv(1, 0, bytes=2), recv(1, 0, **got)]
    assert found(build(2, rows)) == [("message-bytes", "error", 1, text)]


def test_received_before_sent_shows_clock_skew() -> None:
    rows = [send(0, 1, t_start=5_000_000, t_end=5_000_100), recv(1, 0, t_start=0, t_end=1_000)]
    want = "rank 1 seq 0 (recv) received 4.999 ms before rank 0 seq 0 (send) sent"
    assert found(build(2, rows)) == [("received-before-sent", "warning", 1, want)]


def test_a_posted_receive_is_received_when_it_is_waited_for() -> None:
    posted = recv(1, 0, flags="nonblocking", t_start=0, t_end=1)
    wait = {"rank": 1, "op": "wait", "deps": [1], "t_start": 10, "t_end": 90}
    assert found(build(2, [send(0, 1, t_start=50, t_end=60), posted, wait])) == []


# ---- requests, clocks, edges


def test_waits_complete_requests_once() -> None:
    rows = [send(0, 0, flags="nonblocking"), recv(0, 0), {"rank": 0, "op": "wait", "deps": [2]}]
    again = {"rank": 0, "op": "wait", "deps": [3]}
    assert found(build(1, rows)) == []
    assert found(build(1, [*rows, again])) == [("wait-twice", "error", 1, "rank 0 seq 0 (send) is completed 2 times")]
    other = {"rank": 0, "op": "wait", "deps": [2]}
    want = "rank 0 seq 3 (wait) waits for rank 0 seq 1 (recv), which is not a request"
    assert found(build(1, [*rows, other])) == [("wait-target", "error", 1, want)]
    assert found(build(1, rows[:2])) == [("request-open", "warning", 1, "rank 0 seq 0 (send) is never waited for")]


def test_clocks_and_durations() -> None:
    year = 365 * 86400 * 10**9
    rows = [
        {"rank": 0, "op": "mark", "t_start": 1000, "t_end": 1001},
        {"rank": 0, "op": "mark", "t_start": 400, "t_end": 399},
        {"rank": 0, "op": "mark", "t_start": 2000, "t_end": 2000 + 200 * year},
        {"rank": 1, "op": "mark", "t_start": 0, "t_end": 1},
    ]
    assert found(build(2, rows)) == [
        ("clock-monotone", "error", 1, "rank 0 seq 1 (mark) starts 600 ns before the call that precedes it"),
        ("duration-negative", "error", 1, "rank 0 seq 1 (mark) lasted -1 ns"),
        ("duration-absurd", "error", 1, "rank 0 seq 2 (mark) lasted 1.752e+06 h, more than 24 h"),
    ]
    assert [f[0] for f in found(build(2, rows), max_duration_s=300 * year * 1e-9)] == [
        "clock-monotone",
        "duration-negative",
    ]


def test_rows_without_times_are_skipped() -> None:
    rows = [{"rank": 0, "op": "mark", "t_start": t, "t_end": t} for t in (5, None, 6)]
    assert found(build(1, rows)) == []


def test_cycle_of_three_streams() -> None:
    rows = [{"rank": 0, "op": "mark", "stream": s, "xdeps": [((s + 1) % 3, 0)]} for s in range(3)]
    want = "3 rows wait for each other: rank 0 stream 1 seq 0 (mark), rank 0 stream 2 seq 0 (mark), rank 0 seq 0 (mark)"
    [(rule, severity, count, text)] = found(build(1, rows))
    assert (rule, severity, count) == ("cycle", "error", 1)
    assert text.startswith("3 rows wait for each other: ")
    assert set(text.split(": ")[1].split(", ")) == set(want.split(": ")[1].split(", "))


def test_cycle_through_program_order_unless_unchained() -> None:
    # Stream 0: a, b; stream 1: c, d. a waits for d, c waits for b: only program order closes the cycle.
    def rows(flags: list[str]) -> Rows:
        return [
            {"rank": 0, "op": "mark", "xdeps": [(1, 1)]},
            {"rank": 0, "op": "mark", "flags": flags},
            {"rank": 0, "op": "mark", "stream": 1, "xdeps": [(0, 1)]},
            {"rank": 0, "op": "mark", "stream": 1, "flags": flags},
        ]

    [(rule, _, count, text)] = found(build(1, rows([])))
    assert (rule, count, text.split(":")[0]) == ("cycle", 1, "4 rows wait for each other")
    assert found(build(1, rows(["unchained"]))) == []


def test_very_deep_chain_between_streams_is_no_cycle() -> None:
    n = 100_000
    stream = np.repeat([0, 1], n)
    seq = np.tile(np.arange(n), 2)
    # Row k of stream 1 waits for row k of stream 0, which waits for row k - 1 of stream 1.
    lists = [[{"stream": 1, "seq": k - 1}] if k else None for k in range(n)] + [
        [{"stream": 0, "seq": k}] for k in range(n)
    ]
    table = pa.table({
        "rank": np.zeros(2 * n, dtype=np.int32), "stream": stream, "seq": seq, "op": pa.array(["mark"] * (2 * n)),
        "bytes": np.zeros(2 * n, dtype=np.int64),
        "xdeps": pa.array(lists, pa.list_(pa.struct([("stream", pa.int32()), ("seq", pa.int32())]))),
    })  # fmt: skip
    trace = Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=1), comms=Communicators.world(1))
    assert found(trace) == []


# ---- other profiles, the report


def test_diagonal_of_totals_is_pointed_out() -> None:
    matrix = Trace.from_matrix(n_ranks=2, src=[0, 0, 1, 1], dst=[0, 1, 0, 1], bytes=[7, 7, 5, 5])
    want = "rank 0 to itself: 7 B, exactly what it sends to all others: probably the row total"
    assert found(matrix) == [("matrix-diagonal", "warning", 2, want)]
    honest = Trace.from_matrix(n_ranks=2, src=[0, 0, 1], dst=[0, 1, 0], bytes=[3, 7, 5])
    assert found(honest) == []


def test_a_trace_that_breaks_the_schema_is_reported_not_raised() -> None:
    trace = build(2, [send(0, 1), recv(1, 0)])
    broken = trace.replace(comms=Communicators.build(n_ranks=3))
    report = check_trace(broken)
    assert not report.ok
    assert report.rules == ("schema",)
    assert report.findings[0].first == (
        "trace communicator 0 (WORLD): must be WORLD, the ranks 0..1 in order, got 3 members; put other groups at 1, 2, ..."
    )


def test_report_as_lines_and_values() -> None:
    report = check_trace(build(2, [send(0, 1), send(0, 1), recv(1, None, flags="any_source")]))
    assert report.lines() == [
        "3 rows of 2 ranks, 23 rules: 1 error, 1 warning",
        "  error messages: rank 0 to rank 1, comm 0 (WORLD), tag 0: 2 sent, 0 received",
        "  warning wildcards: rank 1 seq 0 (recv): source or tag was never resolved",
    ]
    values = json.loads(json.dumps(report.to_dict()))
    assert (values["ok"], values["findings"][0]["rule"]) == (False, "messages")
    assert check_trace(build(1, [send(0, 0), recv(0, 0)])).lines() == ["2 rows of 1 rank, 23 rules: all hold"]


# ---- against slow and obvious code


@given(trace=programs(timed=False), drop=st.integers(0, 10**6))
def test_matching_equals_queues(trace: Trace, drop: int) -> None:
    """Queues per channel, one row at a time, are the definition of matching first in, first out."""
    keep = np.arange(trace.n_rows) != (drop % max(trace.n_rows, 1))
    op, rank, peer, tag, comm = (trace.column(n)[keep] for n in ("op", "rank", "peer", "tag", "comm"))
    rows = np.flatnonzero(keep)
    queue: dict[tuple[int, ...], list[int]] = {}
    for i in np.flatnonzero(op == OP_CODE["send"]).tolist():
        queue.setdefault((rank[i], peer[i], comm[i], tag[i]), []).append(i)
    pairs, lost = set(), 0
    for i in np.flatnonzero(op == OP_CODE["recv"]).tolist():
        waiting = queue.get((peer[i], rank[i], comm[i], tag[i]), [])
        if waiting:
            pairs.add((waiting.pop(0), i))
        else:
            lost += 1
    del rows
    table = trace.table.filter(pa.array(keep))
    part = Trace(profile="ops", table=table.drop_columns([c for c in table.column_names if c == "deps"]), meta=trace.meta,
                 comms=trace.comms)  # fmt: skip
    balance = message_balance(part)
    assert set(zip(balance.send.tolist(), balance.recv.tolist(), strict=True)) == pairs
    assert balance.extra_recv.size == lost
    assert balance.extra_send.size == sum(map(len, queue.values()))


@given(trace=programs(timed=False))
def test_groups_equal_dictionaries(trace: Trace) -> None:
    want: dict[tuple[int, int], list[int]] = {}
    coll = trace.column("coll_seq")
    for i in np.flatnonzero(coll >= 0).tolist():
        want.setdefault((int(trace.column("comm")[i]), int(coll[i])), []).append(i)
    groups = collective_groups(trace)
    got = {
        (int(groups.comm[g]), int(groups.coll_seq[g])): groups.rows[groups.ptr[g] : groups.ptr[g + 1]].tolist()
        for g in range(groups.n)
    }
    assert got == want
    assert groups.complete.all()


def test_a_million_rows_within_seconds() -> None:
    n_ranks, steps = 100, 10_000
    right, left = (np.arange(n_ranks) + 1) % n_ranks, (np.arange(n_ranks) - 1) % n_ranks
    op = pa.DictionaryArray.from_arrays(
        np.tile(np.array([0, 1], dtype=np.int8), n_ranks * steps // 2), ["send", "recv"]
    )
    peer = np.repeat(np.stack([right, left], axis=1), steps // 2, axis=0).reshape(n_ranks, -1)
    table = pa.table({
        "rank": np.repeat(np.arange(n_ranks), steps), "seq": np.tile(np.arange(steps), n_ranks), "op": op,
        "peer": peer.ravel(), "tag": np.zeros(n_ranks * steps, dtype=np.int32), "bytes": np.full(n_ranks * steps, 8),
    })  # fmt: skip
    trace = Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=n_ranks), comms=Communicators.world(n_ranks))
    begin = time.perf_counter()
    report = check_trace(trace)
    assert report.lines() == ["1,000,000 rows of 100 ranks, 23 rules: all hold"]
    assert time.perf_counter() - begin < 10  # about 0.2 s on an idle core
