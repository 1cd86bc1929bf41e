"""Program order, local work, explicit dependencies, streams, cycles; flows and matrices; size and determinism."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideal_network import evaluate
from test_lower_messages import NB, PROTOCOL, Run, compute, recv, send, wait

from netsim.core.errors import InputError
from netsim.traces import Trace
from netsim.traces.matching import message_balance
from netsim.traffic import Protocol, lower
from netsim.traffic.taskgraph import TRANSFER

US = 1e-6
IDEAL = Protocol.ideal()


def mark(rank, **more):
    return {"rank": rank, "op": "mark", **more}


# ---- empty and small


def test_no_rows():
    """B40."""
    lowered = lower(Trace.from_rows(n_ranks=2, rows=[]))
    assert (lowered.graph.n_tasks, lowered.graph.n_ranks, lowered.wire_bytes, lowered.notes) == (0, 2, 0, ())
    assert lowered.op_enter.size == lowered.op_leave.size == 0


def test_one_computation():
    """B40."""
    run = Run(1, [compute(0, 7)])
    assert (run.enter(0), run.leave(0)) == ([7.0], [7.0])
    assert run.lowered.graph.n_transfers == 0


def test_very_deep_chain():
    """B28: 10**5 calls in a row, one microsecond each, without recursion."""
    n = 100_000
    trace = Trace.from_rows(n_ranks=1, rows=[compute(0, 1) for _ in range(n)])
    lowered = lower(trace)
    times = evaluate(lowered.graph)
    ends = np.array(times.end)[lowered.op_enter]
    assert (np.diff(ends) > 0).all()
    assert ends[-1] == pytest.approx(0.1, rel=1e-9)


# ---- local work


def test_gap_comes_before_the_call_and_not_from_waiting_in_it():
    rows = [recv(0, 1, 1000), compute(0, 2), send(1, 0, 1000, gap_ns=30_000)]
    run = Run(2, rows)
    assert run.enter(1) == [30.0]
    assert run.leave(0) == [38.0, 40.0]


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_compute_scale(scale):
    assert Run(1, [compute(0, 10), mark(0, gap_ns=4000)], compute_scale=scale).leave(0) == [10 * scale, 14 * scale]


def test_gaps_from_times():
    """Between the end of a call and the start of the next; nothing before the first call, nothing negative."""
    rows = [
        mark(0, t_start=5000, t_end=6000),
        mark(0, t_start=9000, t_end=20_000),
        mark(0, t_start=19_000, t_end=21_000),
    ]
    run = Run(1, rows, time="host", time_quality="good")
    assert run.enter(0) == [0.0, 3.0, 3.0]
    assert run.notes() == {"negative_gaps": 1}


def test_gaps_of_an_oversubscribed_recording():
    """Dropped when the clock counted waiting, used when it is the thread's own, or when asked for."""
    rows = [compute(0, 10), mark(0, gap_ns=2000)]
    wall = {"time": "host", "time_quality": "oversubscribed", "gap_clock": "wall"}
    dropped = Run(1, rows, **wall)
    assert dropped.leave(0) == [0.0, 0.0]
    assert [str(n) for n in dropped.lowered.notes] == [
        "2 spans of local work (12 us recorded) dropped: the recording was oversubscribed and its clock counts waiting"
    ]
    cpu = Run(1, rows, time="host", time_quality="oversubscribed", gap_clock="thread-cpu")
    assert (cpu.leave(0), cpu.notes()) == ([10.0, 12.0], {})
    asked = Run(1, rows, gaps="recorded", **wall)
    assert (asked.leave(0), asked.notes()) == ([10.0, 12.0], {"gaps_distrusted": 2})
    none = Run(1, rows, gaps="none")
    assert (none.leave(0), none.notes()) == ([0.0, 0.0], {"gaps_dropped": 2})


def test_work_needs_a_speed():
    rows = [compute(0, 0), {"rank": 0, "op": "compute", "work": 3e6}]
    with pytest.raises(InputError) as error:
        Run(1, rows, work_unit="flops")
    assert str(error.value) == (
        "trace: its work is in flops, which needs the speed of a rank; "
        "give flops_per_s, or gaps='none' to replay communication only"
    )
    assert Run(1, rows, work_unit="flops", flops_per_s=1e9).leave(0) == [0.0, 3000.0]
    assert Run(1, rows, work_unit="flops", flops_per_s=1e9, compute_scale=2).leave(0) == [0.0, 6000.0]
    assert Run(1, rows, work_unit="flops", gaps="none").leave(0) == [0.0, 0.0]


def test_measured_time_wins_over_work():
    rows = [{"rank": 0, "op": "compute", "work": 3e6, "gap_ns": 5000}]
    assert Run(1, rows, work_unit="flops").leave(0) == [5.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gaps": "some"}, "gaps: must be 'auto', 'recorded' or 'none', got 'some'"),
        ({"compute_scale": -1.0}, "compute scale: must be finite and 0 or more, got -1.0"),
        ({"compute_scale": math.nan}, "compute scale: must be finite and 0 or more, got nan"),
        ({"flops_per_s": 0.0}, "speed of a rank: must be finite and positive, got 0.0"),
        ({"flops_per_s": math.nan}, "speed of a rank: must be finite and positive, got nan"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=1, rows=[mark(0)]), **options)
    assert str(error.value) == message


def test_clock_skew_changes_nothing():
    """B34: the clock of rank 1 is off by +-5 ms; the graph is the same, bit for bit."""
    graphs = []
    for skew in (0, 5_000_000, -5_000_000):
        rows = []
        for r, shift in ((0, 0), (1, skew)):
            base = 10_000_000 + shift
            rows += [
                compute(r, 10, t_start=base, t_end=base),
                {**(send(0, 1, 100) if r == 0 else recv(1, 0, 100)), "t_start": base + 10_000, "t_end": base + 12_000},
            ]
        graphs.append(lower(Trace.from_rows(n_ranks=2, rows=rows, time="host", time_quality="unsynced")).graph)
    for other in graphs[1:]:
        for name in ("kind", "rank", "peer", "amount", "succ_ptr", "succ", "succ_after", "op"):
            assert getattr(other, name).tobytes() == getattr(graphs[0], name).tobytes()


# ---- explicit dependencies


def test_unchained_rows_are_concurrent():
    rows = [
        compute(0, 5),
        compute(0, 7, flags=["unchained"]),
        compute(0, 2, flags=["unchained"], deps=[2, 1]),
        compute(0, 1),
    ]
    run = Run(1, rows)
    assert run.enter(0) == [5.0, 7.0, 9.0, 10.0]


def test_dependency_on_top_of_the_chain():
    """A chained row waits for the row before it and for the completion of a non-blocking receive."""
    rows = [recv(0, 1, 1000, **NB), mark(0), compute(0, 3, deps=[2]), send(1, 0, 1000)]
    run = Run(2, rows)
    # Received at 8 (no wait names it: off the chain), then 3 us of work.
    assert run.leave(0) == [0.0, 0.0, 11.0]


def test_started_and_ended_edges():
    """An edge on a start waits for the entry to a call, but for the begin of a computation."""
    rows = [compute(0, 5), compute(0, 10), compute(0, 1, flags=["unchained"], sdeps=[1]),
            recv(0, 1, 1000, flags=["unchained"]), compute(0, 1, flags=["unchained"], sdeps=[1]),
            compute(0, 1, flags=["unchained"], deps=[2]), compute(1, 20), send(1, 0, 1000)]  # fmt: skip
    run = Run(2, rows)
    assert run.enter(0) == [5.0, 15.0, 6.0, 0.0, 1.0, 29.0]


def test_dependency_on_a_wait():
    rows = [recv(0, 1, 1000, **NB), wait(0, 1), compute(0, 3, flags=["unchained"], deps=[1]), send(1, 0, 1000)]
    assert Run(2, rows).enter(0) == [0.0, 0.0, 11.0]


def test_streams_are_separate_chains_joined_by_edges():
    rows = [compute(0, 10), compute(0, 1), compute(0, 3, stream=1), compute(0, 4, stream=1, xdeps=[(0, 0)]),
            mark(0, xdeps=[(1, 1)])]  # fmt: skip
    run = Run(1, rows)
    assert run.enter(0) == [10.0, 11.0, 14.0, 3.0, 14.0]


def test_a_thread_may_wait_for_the_request_of_another():
    rows = [recv(0, 1, 1000, **NB), {"rank": 0, "stream": 1, "op": "wait", "xdeps": [(0, 0)]}, send(1, 0, 1000)]
    assert Run(2, rows).leave(0) == [0.0, 8.0]


def test_messages_of_two_threads_are_matched_in_recorded_time():
    """Both threads of rank 0 send with one tag; the second thread was first."""
    rows = [
        send(0, 1, 111, t_start=5000, t_end=6000), send(0, 1, 222, stream=1, t_start=1000, t_end=2000),
        recv(1, 0, 222, t_start=0, t_end=7000), recv(1, 0, 111, t_start=7000, t_end=8000),
    ]  # fmt: skip
    run = Run(2, rows, time="host", time_quality="good")
    m = run.lowered.messages
    assert sorted(zip(m.send_op.tolist(), m.recv_op.tolist(), strict=True)) == [(0, 3), (1, 2)]
    assert run.notes() == {}
    untimed = Run(2, [{k: v for k, v in row.items() if not k.startswith("t_")} for row in rows])
    assert untimed.notes()["streams_without_time"] == 2


def test_cycle_of_three_rows():
    """B28: the error names the three rows."""
    rows = [mark(0, xdeps=[(2, 0)]), mark(0, stream=1, xdeps=[(0, 0)]), mark(0, stream=2, xdeps=[(1, 0)])]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=1, rows=rows))
    assert str(error.value) == (
        "trace: recorded dependencies must not form a cycle, got (rank 0, stream 0, seq 0) -> (rank 0, stream 1, seq 0) -> "
        "(rank 0, stream 2, seq 0) -> (rank 0, stream 0, seq 0); correct or drop one of these deps, sdeps or xdeps"
    )


def test_cycle_through_program_order():
    """Stream 0 waits in its first row for the second row of stream 1, which waits for the second row of stream 0."""
    rows = [mark(0, xdeps=[(1, 1)]), mark(0), mark(0, stream=1), mark(0, stream=1, xdeps=[(0, 1)])]
    with pytest.raises(InputError, match=r"seq 0\) -> \(rank 0, stream 0, seq 1\) -> \(rank 0, stream 1, seq 1\) -> "):
        lower(Trace.from_rows(n_ranks=1, rows=rows))


def test_non_blocking_rows_do_not_close_a_cycle():
    """A wait for another thread is entered before it ends: that thread may depend on the entry."""
    rows = [recv(0, 0, 8, **NB), wait(0, xdeps=[(1, 0)]), mark(0, sdeps=[1], flags=["unchained"]),
            send(0, 0, 8, stream=1, xdeps=[(0, 2)])]  # fmt: skip
    run = Run(1, rows)
    assert max(run.times.end) < math.inf


# ---- what takes no time


def test_unmodelled_calls_are_counted_by_name():
    """B25: listed, never ignored."""
    rows = [{"rank": 0, "op": op, **({"peer": 1} if op in ("put", "get", "acc") else {})}
            for op in ("init", "comm_create", "put", "put", "fence", "comm_free", "finalize")]  # fmt: skip
    run = Run(2, rows)
    assert run.leave(0) == [0.0] * 7
    assert run.notes() == {"no_time_put": 2, "no_time_fence": 1, "no_time_comm_create": 1, "no_time_comm_free": 1}


def test_guessed_sizes_are_counted():
    run = Run(2, [send(0, 1, 8, flags=["size_unknown"]), recv(1, 0, 8)])
    assert run.notes() == {"sizes_unknown": 1}


# ---- flows and matrices


def test_flows_are_released_at_their_times():
    trace = Trace.from_flows(n_ranks=3, start_ns=[1000, 0, 5000], src=[0, 1, 2], dst=[1, 2, 2], bytes=[1000, 0, 77])
    lowered = lower(trace)
    times = evaluate(lowered.graph, rate=1e9, latency=5 * US)
    assert [round(times.end[t] / US, 9) for t in lowered.op_enter] == [1.0, 0.0, 5.0]
    assert [round(times.start[t] / US, 9) for t in lowered.op_leave] == [7.0, 5.0, 5.0]
    assert (lowered.wire_bytes, lowered.local_bytes) == (1000, 77)


def test_flows_with_absolute_times_keep_their_distances():
    epoch = 1_700_000_000_000_000_000
    lowered = lower(Trace.from_flows(n_ranks=2, start_ns=[epoch + 3, epoch], src=[0, 1], dst=[1, 0], bytes=[1, 1]))
    times = evaluate(lowered.graph)
    assert [times.end[t] for t in lowered.op_enter] == [pytest.approx(3e-9), 0.0]
    assert lowered.count("flows_shifted") == 2


def test_matrix_is_sent_at_once():
    trace = Trace.from_matrix(n_ranks=3, src=[0, 0, 1, 2], dst=[1, 2, 1, 0], bytes=[10, 0, 5, 7], count=[2, 0, 1, 1])
    lowered = lower(trace)
    g = lowered.graph
    at = np.flatnonzero(g.kind == TRANSFER)
    assert list(zip(g.rank[at], g.peer[at], g.amount[at], strict=True)) == [(0, 1, 10.0), (1, 1, 5.0), (2, 0, 7.0)]
    assert (lowered.wire_bytes, lowered.local_bytes) == (17, 5)
    assert lowered.count("matrix_messages_merged") == 1
    times = evaluate(g, rate=1e9, latency=5 * US)
    assert {times.start[t] for t in at.tolist()} == {0.0}
    assert [round(times.start[t] / US, 9) for t in lowered.op_leave] == [5.01, 0.0, 0.0, 5.007]


@pytest.mark.parametrize("profile", ["flows", "matrix"])
def test_empty_flows_and_matrices(profile):
    empty = {"n_ranks": 2, "src": [], "dst": [], "bytes": []}
    trace = Trace.from_flows(start_ns=[], **empty) if profile == "flows" else Trace.from_matrix(**empty)
    assert lower(trace).graph.n_tasks == 0


# ---- as a whole


def test_more_tasks_than_the_graph_can_number(monkeypatch):
    monkeypatch.setattr("netsim.traffic.assembly._MAX_TASKS", 3)
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=1, rows=[mark(0) for _ in range(4)]))
    assert str(error.value) == "task graph: at most 3 tasks, got 4 or more; replay a part of the trace"


def halo(n: int, steps: int, size: int) -> list[dict]:
    rows = []
    for r in range(n):
        for _ in range(steps):
            rows += [compute(r, 10), recv(r, (r - 1) % n, size, **NB), recv(r, (r + 1) % n, size, **NB),
                     send(r, (r - 1) % n, size, **NB), send(r, (r + 1) % n, size, **NB), wait(r, 4, 3, 2, 1),
                     {"rank": r, "op": "allreduce", "bytes": 8}]  # fmt: skip
    return rows


@pytest.mark.parametrize("size", [1000, 100_000])
def test_halo_exchange(size):
    """Time of one iteration in closed form: work, two sends, message, two receives; then the reduction of 8 bytes.

    Small: the second send leaves at 2o, is delivered at 2o + s/B + L; the receives of it and of the first cost 2o if they
    arrive together or later than the first by less than o. A rendezvous message adds two latencies.
    """
    n, steps = 4, 3
    run = Run(n, halo(n, steps, size), collectives={"allreduce": "recursive_doubling"})
    wait_leave = run.leave(0)[5::7]
    reduce_leave = run.leave(0)[6::7]
    message = size / 1000 + (5 if size <= 8192 else 15)
    # Receives complete in the order named: left neighbour's message was its second send (leaves at 2), right one's its first
    # (leaves at 1): the left one is delivered at 2 + message, both overheads follow.
    first = 10 + 2 + message + 2
    assert wait_leave[0] == pytest.approx(first)
    # Two steps of send overhead, 8 bytes, latency, receive overhead.
    iteration = first + 2 * (1 + 0.008 + 5 + 1)
    assert reduce_leave == pytest.approx([iteration * k for k in (1, 2, 3)])
    assert run.lowered.wire_bytes == n * steps * (2 * size + 2 * 8)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), max_size=30))
@settings(max_examples=100, deadline=None)
def test_matching_agrees_with_the_integrity_check_of_traces(pairs):
    """Two independent matchers: the one of lowering and the one behind ``check_trace``."""
    rows = []
    for i, (a, b, tag) in enumerate(pairs):
        rows.append(send(a, b, 8, tag=tag) if i % 2 else recv(a, b, 8, tag=tag))
    trace = Trace.from_rows(n_ranks=4, rows=rows)
    m = lower(trace, protocol=IDEAL).messages
    mine = {(s, r) for s, r in zip(m.send_op.tolist(), m.recv_op.tolist(), strict=True) if s >= 0 and r >= 0}
    balance = message_balance(trace)
    assert mine == set(zip(balance.send.tolist(), balance.recv.tolist(), strict=True))
    assert sorted(m.send_op[m.recv_op < 0].tolist()) == balance.extra_send.tolist()
    assert sorted(m.recv_op[m.send_op < 0].tolist()) == balance.extra_recv.tolist()


DIGEST = """
import hashlib, sys
sys.path.insert(0, {here!r})
from test_lower_program import halo
from netsim.traces import Trace
from netsim.traffic import lower
lowered = lower(Trace.from_rows(n_ranks=6, rows=halo(6, 4, 20_000)))
g, h = lowered.graph, hashlib.sha256()
for name in ("kind", "rank", "peer", "amount", "succ_ptr", "succ", "succ_after", "op"):
    h.update(getattr(g, name).tobytes())
print(h.hexdigest())
"""


def test_same_bytes_for_any_hash_seed():
    from pathlib import Path

    code = DIGEST.format(here=str(Path(__file__).parent))
    digests = set()
    for seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1


def test_many_rows_in_arrays():
    """2 * 10**5 messages: as many data transfers as sends, every receive matched, memory in arrays only."""
    n = 200_000
    rng = np.random.default_rng(7)
    src, tag = rng.integers(0, 64, n), rng.integers(0, 50, n)
    dst = (src + 1 + rng.integers(0, 63, n)) % 64
    order = np.lexsort((np.arange(n), src))
    back = np.lexsort((np.arange(n), dst))
    import pyarrow as pa

    from netsim.traces import Communicators, TraceMeta

    rank = np.concatenate([src[order], dst[back]])
    op = np.array(["send", "recv"])[np.repeat([0, 1], n)]
    peer = np.concatenate([dst[order], src[back]])
    where = np.argsort(rank, kind="stable")
    counts = np.bincount(rank, minlength=64)
    seq = np.arange(2 * n) - np.repeat(np.cumsum(counts) - counts, counts)
    table = pa.table(
        {
            "rank": rank[where].astype(np.int32),
            "seq": seq.astype(np.int32),
            "op": op[where],
            "peer": peer[where].astype(np.int32),
            "tag": np.concatenate([tag[order], tag[back]])[where].astype(np.int32),
            "bytes": np.full(2 * n, 100),
        }
    )
    trace = Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=64), comms=Communicators.world(64))
    lowered = lower(trace, protocol=PROTOCOL)
    assert lowered.notes == ()
    assert lowered.graph.n_transfers == n
    assert lowered.wire_bytes == 100 * n
    m = lowered.messages
    c = {name: trace.column(name) for name in ("rank", "peer", "tag")}
    assert (c["rank"][m.send_op] == c["peer"][m.recv_op]).all()
    assert (c["peer"][m.send_op] == c["rank"][m.recv_op]).all()
    assert (c["tag"][m.send_op] == c["tag"][m.recv_op]).all()
    assert np.unique(m.recv_op).size == n
