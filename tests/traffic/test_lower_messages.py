"""Point-to-point lowering: the micro-tests of the protocol, by hand arithmetic; orphans, wildcards, waits, persistence.

Unless said otherwise: overheads 1 us, latency 5 us, 1000 bytes per us, eager up to 8 KiB; times in us.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideal_network import Times, evaluate

from netsim.traces import Trace
from netsim.traffic import Lowered, Protocol, lower
from netsim.traffic.taskgraph import TRANSFER

US = 1e-6
PROTOCOL = Protocol(eager_threshold_bytes=8192, send_overhead_s=US, recv_overhead_s=US)


def send(rank, peer, size, *, tag=0, **more):
    return {"rank": rank, "op": "send", "peer": peer, "tag": tag, "bytes": size, **more}


def recv(rank, peer, size, *, tag=0, **more):
    return {"rank": rank, "op": "recv", "peer": peer, "tag": tag, "bytes": size, **more}


def wait(rank, *back, **more):
    return {"rank": rank, "op": "wait", "deps": list(back), **more}


def compute(rank, us, **more):
    return {"rank": rank, "op": "compute", "gap_ns": int(us * 1000), **more}


NB = {"flags": ["nonblocking"]}


class Run:
    """Lowered trace with the times of its calls, in us, in the order of the rows of each rank."""

    def __init__(
        self, n_ranks: int, rows: list[dict], *, protocol: Protocol = PROTOCOL, rate=1e9, latency=5 * US, **options
    ):
        meta = {k: options.pop(k) for k in ("time", "time_quality", "gap_clock", "work_unit") if k in options}
        comms = options.pop("comms", None)
        self.trace = Trace.from_rows(n_ranks=n_ranks, rows=rows, comms=comms, **meta)
        self.lowered: Lowered = lower(self.trace, protocol=protocol, **options)
        self.times: Times = evaluate(self.lowered.graph, rate=rate, latency=latency)

    def enter(self, rank: int) -> list[float]:
        rows = np.flatnonzero(self.trace.column("rank") == rank)
        return [round(self.times.end[t] / US, 6) for t in self.lowered.op_enter[rows].tolist()]

    def leave(self, rank: int) -> list[float]:
        rows = np.flatnonzero(self.trace.column("rank") == rank)
        return [round(self.times.start[t] / US, 6) for t in self.lowered.op_leave[rows].tolist()]

    def transfers(self) -> list[tuple[int, int, float]]:
        g = self.lowered.graph
        at = np.flatnonzero(g.kind == TRANSFER)
        return sorted(zip(g.rank[at].tolist(), g.peer[at].tolist(), g.amount[at].tolist(), strict=True))

    def notes(self) -> dict[str, int]:
        return {note.kind: note.count for note in self.lowered.notes}


# ---- one message


def test_eager_both_ready():
    """o, flow of 1 us, L, o: the sender is free after o, the receiver after 2o + L + s/B."""
    run = Run(2, [send(0, 1, 1000), recv(1, 0, 1000)])
    assert run.leave(0) == [1.0]
    assert run.leave(1) == [8.0]
    assert run.lowered.graph.n_transfers == 1


def test_rendezvous_both_ready():
    """Request arrives at 6, clear at 11, flow 11..111, delivered 116, received 117; the sender is free at drain."""
    run = Run(2, [send(0, 1, 100_000), recv(1, 0, 100_000)])
    assert run.leave(0) == [111.0]
    assert run.leave(1) == [117.0]
    assert run.transfers() == [(0, 1, 0.0), (0, 1, 100_000.0), (1, 0, 0.0)]


def test_rendezvous_late_receiver():
    """Receive posted at 50: clear at 55, drain 155, received 161."""
    run = Run(2, [send(0, 1, 100_000), compute(1, 50), recv(1, 0, 100_000)])
    assert run.leave(0) == [155.0]
    assert run.enter(1) == [50.0, 50.0]
    assert run.leave(1) == [50.0, 161.0]


def test_eager_late_receiver():
    run = Run(2, [send(0, 1, 1000), compute(1, 50), recv(1, 0, 1000)])
    assert run.leave(0) == [1.0]
    assert run.leave(1)[-1] == 51.0


def test_rendezvous_without_handshake():
    """Match time instead of control messages: o + s/B + L + o."""
    protocol = Protocol(eager_threshold_bytes=8192, send_overhead_s=US, recv_overhead_s=US, handshake=False)
    run = Run(2, [send(0, 1, 100_000), recv(1, 0, 100_000)], protocol=protocol)
    assert (run.leave(0), run.leave(1)) == ([101.0], [107.0])
    late = Run(2, [send(0, 1, 100_000), compute(1, 50), recv(1, 0, 100_000)], protocol=protocol)
    assert (late.leave(0), late.leave(1)[-1]) == ([150.0], 156.0)


def test_eager_that_completes_at_drain():
    protocol = Protocol(eager_threshold_bytes=8192, send_overhead_s=US, recv_overhead_s=US, eager_completion="drain")
    run = Run(2, [send(0, 1, 4000), recv(1, 0, 4000)], protocol=protocol)
    assert (run.leave(0), run.leave(1)) == ([5.0], [11.0])


def test_synchronous_send_of_any_size_waits_for_its_receive():
    run = Run(2, [send(0, 1, 10, flags=["synchronous"]), compute(1, 50), recv(1, 0, 10)])
    assert run.leave(0) == [55.01]
    assert run.leave(1)[-1] == 61.01


def test_threshold_is_inclusive():
    eager = Run(2, [send(0, 1, 8192), recv(1, 0, 8192)])
    rendezvous = Run(2, [send(0, 1, 8193), recv(1, 0, 8193)])
    assert (eager.lowered.graph.n_transfers, rendezvous.lowered.graph.n_transfers) == (1, 3)


@pytest.mark.parametrize("size", [0, 1, 10])
def test_zero_and_tiny_messages(size):
    """B01: a message of 0 bytes takes exactly the latency when software is free."""
    run = Run(2, [send(0, 1, size), recv(1, 0, size)], protocol=Protocol.ideal(), rate=12.5e9, latency=US)
    assert run.leave(1) == [round(1.0 + size / 12.5e3, 6)]


def test_sizes_beyond_32_bits_are_exact():
    """B35: 3 GiB and 10 GiB at 100 Gb/s."""
    for gib, seconds in ((3, 0.25769803776), (10, 0.8589934592)):
        run = Run(
            2, [send(0, 1, gib * 2**30), recv(1, 0, gib * 2**30)], protocol=Protocol.ideal(), rate=12.5e9, latency=0
        )
        assert max(run.times.end) == pytest.approx(seconds, rel=1e-15)
        assert run.lowered.wire_bytes == gib * 2**30


def test_self_send_stays_local():
    """B03: rank 0 sends 1 MiB to itself; the receive must be posted first, for the message is not eager."""
    run = Run(1, [recv(0, 0, 2**20, **NB), send(0, 0, 2**20), wait(0, 2)], latency=5 * US)
    assert run.leave(0) == [0.0, 1.0, 2.0]
    assert (run.lowered.wire_bytes, run.lowered.local_bytes) == (0, 2**20)


# ---- several messages


def test_two_outstanding_receives_of_one_key():
    """B05: first in, first out; each completes once."""
    rows = [
        send(0, 1, 1 << 20, **NB), send(0, 1, 2 << 20, **NB), wait(0, 2, 1),
        recv(1, 0, 1 << 20, **NB), recv(1, 0, 2 << 20, **NB), wait(1, 2), wait(1, 2),
    ]  # fmt: skip
    run = Run(2, rows)
    m = run.lowered.messages
    assert list(zip(m.send_op.tolist(), m.recv_op.tolist(), strict=True)) == [(0, 3), (1, 4)]
    assert run.lowered.notes == ()
    assert run.leave(1)[2] < run.leave(1)[3]


@pytest.mark.parametrize("tag", [0, 500_000_000, 2**31 - 1])
def test_result_does_not_depend_on_the_tag(tag):
    """B09."""
    run = Run(2, [send(0, 1, 1000, tag=tag), recv(1, 0, 1000, tag=tag)])
    assert run.leave(1) == [8.0]


def test_messages_of_different_tags_may_be_received_out_of_order():
    rows = [send(0, 1, 1000, tag=1), send(0, 1, 2000, tag=2), recv(1, 0, 2000, tag=2), recv(1, 0, 1000, tag=1)]
    run = Run(2, rows)
    # Second message: leaves at 2, drains at 4 (own link in this network), delivered 9, received 10; first one is there already.
    assert run.leave(1) == [10.0, 11.0]


def test_send_overheads_are_serial_and_receive_overheads_too():
    """Three sends of 1 us each leave at 1, 2, 3; a wait for the three receives charges three overheads in its order."""
    rows = [send(0, r, 1000, **NB) for r in (1, 2, 3)] + [wait(0, 1, 2, 3)]
    rows += [recv(r, 0, 1000) for r in (1, 2, 3)]
    run = Run(4, rows)
    assert [run.leave(r)[0] for r in (1, 2, 3)] == [8.0, 9.0, 10.0]
    assert run.leave(0) == [1.0, 2.0, 3.0, 3.0]
    gather = [send(r, 0, 1000) for r in (1, 2, 3)] + [recv(0, r, 1000, **NB) for r in (1, 2, 3)] + [wait(0, 3, 2, 1)]
    # All delivered at 7: overheads end at 8, 9, 10.
    assert Run(4, gather).leave(0) == [0.0, 0.0, 0.0, 10.0]


def test_non_blocking_overlaps_with_computation():
    rows = [recv(1, 0, 1000, **NB), compute(1, 20), wait(1, 2), send(0, 1, 1000, **NB), compute(0, 3), wait(0, 2)]
    run = Run(2, rows)
    assert run.leave(1) == [0.0, 20.0, 21.0]
    assert run.leave(0) == [1.0, 4.0, 4.0]


def test_wait_for_a_subset():
    """Waiting for the second receive does not wait for the first."""
    rows = [
        recv(0, 1, 1000, **NB), recv(0, 2, 1000, **NB), wait(0, 1), wait(0, 3),
        compute(1, 100), send(1, 0, 1000), send(2, 0, 1000),
    ]  # fmt: skip
    assert Run(3, rows).leave(0) == [0.0, 0.0, 8.0, 108.0]


def test_wait_for_a_rendezvous_send_ends_at_drain():
    rows = [send(0, 1, 100_000, **NB), wait(0, 1), recv(1, 0, 100_000)]
    assert Run(2, rows).leave(0) == [1.0, 111.0]


def test_sendrecv_rows_exchange_without_deadlock():
    rows = []
    for rank in (0, 1):
        rows += [send(rank, 1 - rank, 100_000, **NB), recv(rank, 1 - rank, 100_000, **NB), wait(rank, 2, 1)]
    run = Run(2, rows)
    # Both requests leave at 1 and find the receives posted at 1: 117 as if alone.
    assert (run.leave(0)[-1], run.leave(1)[-1]) == (117.0, 117.0)


def test_persistent_requests_behave_like_non_blocking_ones():
    flags = {"flags": ["nonblocking", "persistent"]}
    rows = []
    for _ in range(3):
        rows += [send(0, 1, 1000, **flags), wait(0, 1), recv(1, 0, 1000, **flags), wait(1, 1)]
    run = Run(2, rows)
    # Sender free at 1, 2, 3; deliveries at 7, 8, 9; receives at 8, 9, 10.
    assert run.leave(0)[1::2] == [1.0, 2.0, 3.0]
    assert run.leave(1)[1::2] == [8.0, 9.0, 10.0]


def test_successful_test_completes_the_request():
    rows = [send(0, 1, 1000), recv(1, 0, 1000, **NB), {"rank": 1, "op": "test", "deps": [1]}]
    assert Run(2, rows).leave(1) == [0.0, 8.0]


def test_request_named_twice_is_charged_once():
    rows = [send(0, 1, 1000), recv(1, 0, 1000, **NB), wait(1, 1), wait(1, 2)]
    assert Run(2, rows).leave(1) == [0.0, 8.0, 8.0]


def test_receive_without_a_wait_is_counted_and_costs_nothing():
    run = Run(2, [send(0, 1, 1000), recv(1, 0, 1000, **NB), compute(1, 1)])
    assert run.leave(1) == [0.0, 1.0]
    assert run.notes() == {"receives_without_wait": 1}


def test_probe_takes_no_time_and_is_counted():
    rows = [send(0, 1, 1000), {"rank": 1, "op": "probe", "peer": 0, "tag": 0}, recv(1, 0, 1000)]
    run = Run(2, rows)
    assert run.leave(1) == [0.0, 8.0]
    assert run.notes() == {"no_time_probe": 1}


def test_cancelled_receive_takes_no_message():
    rows = [recv(1, 0, 8, flags=["nonblocking", "cancelled"]), recv(1, 0, 8), send(0, 1, 8)]
    run = Run(2, rows)
    assert run.leave(1)[1] == pytest.approx(7.008)
    assert run.notes() == {"cancelled": 1}


# ---- what cannot finish, and what is odd


def test_unmatched_receive_waits_for_a_transfer_that_never_starts():
    """B07: the task that never starts names rank, peer, bytes and the call."""
    run = Run(2, [recv(1, 0, 640, tag=7), compute(1, 1), compute(0, 1)])
    assert run.leave(1) == [math.inf, math.inf]
    assert run.notes() == {"unmatched_receives": 1}
    g = run.lowered.graph
    (never,) = [t for t in range(g.n_tasks) if t in g.succ[g.succ_ptr[t] : g.succ_ptr[t + 1]]]
    row = int(np.flatnonzero((run.trace.column("rank") == 1) & (run.trace.column("tag") == 7))[0])
    assert (g.kind[never], g.rank[never], g.peer[never], g.amount[never], g.op[never]) == (TRANSFER, 0, 1, 640.0, row)
    assert run.lowered.wire_bytes == 0


def test_orphan_eager_send_completes_and_is_counted():
    run = Run(2, [send(0, 1, 1000), compute(1, 1)])
    assert run.leave(0) == [1.0]
    assert [str(note) for note in run.lowered.notes] == [
        "1 eager sends that no receive takes: their bytes travel and they complete"
    ]
    assert run.lowered.wire_bytes == 1000


@pytest.mark.parametrize("handshake", [True, False])
def test_orphan_rendezvous_send_never_completes(handshake):
    protocol = Protocol(handshake=handshake)
    run = Run(2, [send(0, 1, 100_000), compute(1, 1)], protocol=protocol)
    assert run.leave(0) == [math.inf]
    assert run.notes() == {"orphan_rendezvous_sends": 1}


def test_head_to_head_rendezvous_is_a_deadlock_and_eager_is_not():
    rows = [send(0, 1, 100_000), recv(0, 1, 100_000), send(1, 0, 100_000), recv(1, 0, 100_000)]
    stuck = Run(2, rows)
    assert stuck.leave(0)[0] == stuck.leave(1)[0] == math.inf
    free = Run(2, rows, protocol=Protocol(eager_threshold_bytes=100_000))
    assert max(free.leave(0) + free.leave(1)) < math.inf


def test_sizes_that_disagree_are_counted():
    rows = [send(0, 1, 1000), recv(1, 0, 500, bytes_actual=500), send(0, 1, 8), recv(1, 0, 64, bytes_actual=8)]
    run = Run(2, rows)
    assert run.notes() == {"truncated_messages": 1, "sizes_disagree": 1}
    assert run.lowered.wire_bytes == 1008


# ---- wildcards


def test_wildcard_is_matched_as_recorded():
    """B10: a receive from any source whose message came from rank 3."""
    any_source = {"flags": ["any_source"]}
    rows = [send(r, 0, 1000) for r in (1, 2, 3)] + [recv(0, r, 1000, **any_source) for r in (3, 1, 2)]
    run = Run(4, rows)
    m = run.lowered.messages
    by_recv = {r: s for s, r in zip(m.send_op.tolist(), m.recv_op.tolist(), strict=True)}
    rank = run.trace.column("rank")
    assert [int(rank[by_recv[row]]) for row in (0, 1, 2)] == [3, 1, 2]
    assert run.lowered.notes == ()


def test_unresolved_wildcard_takes_the_earliest_arrival():
    """Arrivals at 7 (rank 1) and 6.5 (rank 2): the receive takes that of rank 2."""
    rows = [
        recv(0, None, 500, flags=["any_source"]), recv(0, None, 500, flags=["any_source"]),
        send(1, 0, 1000, gap_ns=500), send(2, 0, 1000),
    ]  # fmt: skip
    run = Run(3, rows)
    m = run.lowered.messages
    assert sorted(zip(m.recv_op.tolist(), m.send_op.tolist(), strict=True)) == [(0, 3), (1, 2)]
    assert run.notes()["wildcards_by_arrival"] == 2


def test_unresolved_wildcard_ties_go_to_the_lower_rank():
    rows = [recv(0, None, 8, flags=["any_source"]) for _ in range(3)] + [send(r, 0, 8) for r in (3, 1, 2)]
    run = Run(4, rows)
    rank = run.trace.column("rank")
    m = run.lowered.messages
    order = sorted(zip(m.recv_op.tolist(), rank[m.send_op].tolist(), strict=True))
    assert [r for _, r in order] == [1, 2, 3]


def test_unresolved_wildcard_respects_cause_and_effect():
    """Rank 1 sends only after rank 0 has received from somebody: that cannot have been rank 1, though its clock is ahead."""
    rows = [
        recv(0, None, 8, flags=["any_source"]), send(0, 1, 8), recv(0, None, 8, flags=["any_source"]),
        recv(1, 0, 8), send(1, 0, 8),
        compute(2, 100), send(2, 0, 8),
    ]  # fmt: skip
    run = Run(3, rows)
    assert max(run.leave(0)) < math.inf


def test_unresolved_wildcard_never_takes_what_a_named_receive_needs():
    rows = [
        recv(0, None, 8, flags=["any_source"]), recv(0, 1, 8),
        send(1, 0, 8), compute(2, 100), send(2, 0, 8),
    ]  # fmt: skip
    run = Run(3, rows)
    assert max(run.leave(0)) < math.inf
    assert "unmatched_receives" not in run.notes()


def test_unresolved_tag():
    rows = [
        recv(0, 1, 8, tag=None, flags=["any_tag"]),
        recv(0, 1, 8, tag=1),
        send(1, 0, 8, tag=1),
        send(1, 0, 8, tag=2),
    ]
    run = Run(2, rows)
    m = run.lowered.messages
    assert sorted(zip(m.recv_op.tolist(), m.send_op.tolist(), strict=True)) == [(0, 3), (1, 2)]


def test_unresolved_source_with_a_tag_and_unresolved_tag_with_a_source():
    """Each takes the earliest message that fits what is known of it, across a barrier and next to numbered messages."""
    rows = [
        recv(0, 2, 8, tag=9, match=1),
        {"rank": 0, "op": "barrier"},
        recv(0, None, 8, tag=5, flags=["any_source"]), recv(0, 2, 8, tag=None, flags=["any_tag"]),
        compute(1, 9), send(1, 0, 8, tag=5), {"rank": 1, "op": "barrier"}, send(1, 0, 8, tag=5),
        send(2, 0, 8, tag=9, match=1), {"rank": 2, "op": "barrier"}, compute(2, 1), send(2, 0, 8, tag=7),
        send(2, 0, 8, tag=6),
    ]  # fmt: skip
    run = Run(3, rows)
    m = run.lowered.messages
    pairs = {r: s for s, r in zip(m.send_op.tolist(), m.recv_op.tolist(), strict=True) if r >= 0}
    # Rows of rank 0 are 0..3, of rank 1 4..7, of rank 2 8..12.
    assert pairs == {0: 8, 2: 5, 3: 11}
    assert run.notes() == {"wildcards_by_arrival": 2, "orphan_eager_sends": 2}


def test_numbered_message_may_arrive_before_or_after_its_receive_is_posted():
    rows = [
        compute(0, 5), recv(0, 1, 8, match=3), recv(0, None, 8, flags=["any_source"]),
        send(1, 0, 8, match=3), compute(1, 50), send(1, 0, 8),
    ]  # fmt: skip
    m = Run(2, rows).lowered.messages
    assert sorted(zip(m.recv_op.tolist(), m.send_op.tolist(), strict=True)) == [(1, 3), (2, 5)]


def test_wildcard_that_nothing_reaches():
    run = Run(2, [recv(0, None, 8, flags=["any_source"]), compute(1, 1)])
    assert run.leave(0) == [math.inf]
    assert run.notes() == {"wildcards_by_arrival": 1, "unmatched_receives": 1}


def test_recorded_message_numbers_override_the_order():
    rows = [
        send(0, 1, 1000, match=5), send(0, 1, 2000, match=6), send(0, 1, 3000),
        recv(1, 0, 2000, match=6), recv(1, 0, 3000), recv(1, 0, 1000, match=5),
    ]  # fmt: skip
    m = Run(2, rows).lowered.messages
    assert sorted(zip(m.recv_op.tolist(), m.send_op.tolist(), strict=True)) == [(3, 1), (4, 2), (5, 0)]


# ---- random programs


@st.composite
def programs(draw):
    """Deadlock-free programs: all receives are posted before the sends, everything is waited for in the end."""
    n = draw(st.integers(1, 5))
    messages = draw(
        st.lists(
            st.tuples(
                st.integers(0, n - 1),
                st.integers(0, n - 1),
                st.integers(0, 2),
                st.sampled_from([0, 1, 8192, 8193, 10**6]),
            ),
            max_size=25,
        )
    )
    return n, messages


@given(programs())
@settings(max_examples=100, deadline=None)
def test_bytes_are_conserved_and_everything_ends(program):
    n, messages = program
    rows = []
    for rank in range(n):
        mine = [recv(rank, s, size, tag=tag, **NB) for s, d, tag, size in messages if d == rank]
        mine += [send(rank, d, size, tag=tag, **NB) for s, d, tag, size in messages if s == rank]
        rows += [*mine, wait(rank, *range(1, len(mine) + 1))]
    run = Run(n, rows)
    assert run.lowered.wire_bytes == sum(size for s, d, _, size in messages if s != d)
    assert run.lowered.local_bytes == sum(size for s, d, _, size in messages if s == d)
    assert max(run.times.end) < math.inf
    assert run.lowered.graph.n_transfers == sum(3 if size > 8192 else 1 for *_, size in messages)
    assert not {"unmatched_receives", "orphan_eager_sends", "orphan_rendezvous_sends"} & set(run.notes())
    again = lower(run.trace, protocol=PROTOCOL).graph
    for name in ("kind", "rank", "peer", "amount", "succ_ptr", "succ", "succ_after", "op"):
        assert getattr(again, name).tobytes() == getattr(run.lowered.graph, name).tobytes()
