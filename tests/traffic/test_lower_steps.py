"""What happens within a step of a collective, and what its overheads cost: the definition, and the same messages by hand.

Unless said otherwise: overheads 1 us, latency 5 us, 1000 bytes per us; times in us.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideal_network import evaluate
from test_lower_collectives import every, star_end
from test_lower_messages import NB, PROTOCOL, US, Run, recv, send, wait

from netsim.traces import Trace
from netsim.traffic import Protocol, lower
from netsim.traffic.collectives import Call, build
from netsim.traffic.expand import make_template
from netsim.traffic.taskgraph import TRANSFER, TaskGraph


def naive_steps(n, step, src, dst, size, *, rate, latency, o_s, o_r, arrive):
    """Leave time of each member, message by message, straight from the definition; every message has its own link."""
    at = list(map(float, arrive))
    for k in sorted(set(step)):
        now = [(s, d, b) for q, s, d, b in zip(step, src, dst, size, strict=True) if q == k]
        part = {m for s, d, _ in now for m in (s, d)}
        busy = {m: at[m] for m in part}
        # Ready for what others send: with its own first send on its way.
        ready = {m: at[m] + (o_s if any(s == m for s, _, _ in now) else 0.0) for m in part}
        over = []
        for s, d, b in now:
            busy[s] += o_s
            over.append(max(busy[s], ready[d]) + b / rate + latency)
        for m in part:
            sent = [t for t, (s, _, _) in zip(over, now, strict=True) if s == m]
            got = [t for t, (_, d, _) in zip(over, now, strict=True) if d == m]
            if len(sent) <= 1 and len(got) <= 1:
                at[m] = max(sent + got) + o_r * len(got)
                continue
            clock = busy[m]
            for t in got:
                clock = max(clock, t) + o_r
            at[m] = max([clock, *sent])
    return at


@st.composite
def schedules(draw):
    n = draw(st.integers(1, 7))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    message = st.tuples(st.integers(0, 4), pair, st.integers(0, 5000))
    messages = draw(st.lists(message, max_size=30)) if n > 1 else []
    arrive = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    return n, messages, arrive, draw(st.sampled_from([0.0, 1.0, 9.0])), draw(st.sampled_from([0.0, 2.0]))


@given(schedules())
@settings(max_examples=200, deadline=None)
def test_template_against_the_definition(case):
    """Whatever the schedule: members leave when the definition says (direct edges and own tasks alike)."""
    n, messages, arrive, o_s, o_r = case
    step, src, dst, size = ([m[0] for m in messages], [m[1][0] for m in messages], [m[1][1] for m in messages],
                            [m[2] for m in messages])  # fmt: skip
    t = make_template(
        n_members=n, step=step, src=src, dst=dst, size_bytes=size, send_overhead_s=o_s, recv_overhead_s=o_r
    )
    total = t.n_tasks + 2 * n
    kind = np.zeros(total, dtype=np.uint8)
    kind[: t.src.size] = TRANSFER
    rank, peer = np.zeros(total, dtype=np.int32), np.zeros(total, dtype=np.int32)
    rank[: t.src.size], peer[: t.src.size] = t.src, t.dst
    amount = np.concatenate([t.size_bytes, t.delay_s, np.array(arrive, dtype=float), t.exit_s])
    # Entries follow the tasks, then exits.
    to = np.where(t.edge_to >= t.n_tasks, t.edge_to + n, t.edge_to)
    graph = TaskGraph.from_edges(
        n_ranks=n, kind=kind, rank=rank, peer=peer, amount=amount, edge_from=t.edge_from, edge_to=to,
        edge_after=np.zeros(to.size, dtype=np.uint8),
    )  # fmt: skip
    times = evaluate(graph, rate=100.0, latency=7.0)
    expected = naive_steps(n, step, src, dst, size, rate=100.0, latency=7.0, o_s=o_s, o_r=o_r, arrive=arrive)
    assert times.end[total - n :] == pytest.approx(expected, rel=1e-12)


def makespan_us(n, rows, *, protocol=PROTOCOL, rate=1e9, latency=5 * US, **options):
    """When the last call of any rank lets go, by the engine on a star."""
    lowered = lower(Trace.from_rows(n_ranks=n, rows=rows), protocol=protocol, **options)
    return float(np.nanmax(star_end(lowered.graph, rate=rate, latency=latency).start_s[lowered.op_leave])) / US


def by_hand(n, size):
    """All to all as a program writes it: post all receives, start all sends, wait for the receives, then the sends."""
    rows = []
    for r in range(n):
        rows += [recv(r, (r - k) % n, size, **NB) for k in range(1, n)]
        rows += [send(r, (r + k) % n, size, **NB) for k in range(1, n)]
        rows += [wait(r, *range(2 * (n - 1), 0, -1))]
    return rows


@pytest.mark.parametrize("algorithm", ["linear", "scattered"])
@pytest.mark.parametrize(("size", "handshake"), [(0, True), (700, True), (8192, True), (20_000, False)])
@pytest.mark.parametrize("n", range(2, 10))
def test_all_to_all_costs_what_the_same_messages_cost(n, size, handshake, algorithm):
    """Send overheads overlap with messages, and messages with receive overheads, inside a collective as outside."""
    protocol = Protocol(eager_threshold_bytes=8192, send_overhead_s=US, recv_overhead_s=1.5 * US, handshake=handshake)
    inside = makespan_us(
        n, every(n, "alltoall", n * size), protocol=protocol, collectives={"alltoall": algorithm}, latency=0.2 * US
    )
    assert inside == pytest.approx(makespan_us(n, by_hand(n, size), protocol=protocol, latency=0.2 * US), rel=1e-9)


def test_all_to_all_by_hand():
    """Four members, 500 bytes, o = 1, L = 5, B = 1000: sent at 1, 2, 3 and alone on its link each time (0.5 < 1): there at
    6.5, 7.5, 8.5; received at 7.5, 8.5, 9.5. 2000 bytes: link busy 1..7 without a break, shared by two or three."""
    assert makespan_us(4, every(4, "alltoall", 2000), collectives={"alltoall": "linear"}) == pytest.approx(9.5)
    # 1..2 one, 2..3 two, 3.. three: left at 3 are 0.5, 1.5, 2.0 us of wire; 0.5 * 3 -> 4.5, 1.0 * 2 -> 6.5, 0.5 -> 7.
    # There at 9.5, 11.5, 12: received at 10.5, 12.5, 13.5.
    assert makespan_us(4, every(4, "alltoall", 8000), collectives={"alltoall": "linear"}) == pytest.approx(13.5)


def test_long_send_overheads_come_before_receives():
    """o_s = 4: sends at 4, 8, 12; delivered at 9.5, 13.5, 17.5. o_r = 1: the first receive waits for the last send: 13."""
    protocol = Protocol(send_overhead_s=4 * US, recv_overhead_s=US)
    rows = every(4, "alltoall", 2000)
    assert makespan_us(4, rows, protocol=protocol, collectives={"alltoall": "linear"}) == pytest.approx(18.5)
    # o_r = 3: 12 -> 15 -> 18 -> 21 (the arrivals are no longer what is waited for).
    protocol = Protocol(send_overhead_s=4 * US, recv_overhead_s=3 * US)
    assert makespan_us(4, rows, protocol=protocol, collectives={"alltoall": "linear"}) == pytest.approx(21.0)


def test_gather_and_scatter_by_hand():
    """Root and four others, zero bytes, o = 1, L = 5: incast, all there at 6, received at 7, 8, 9, 10; outcast, sent at
    1, 2, 3, 4, there at 6, 7, 8, 9, received at 7, 8, 9, 10."""
    for op in ("gather", "scatter"):
        run = Run(5, every(5, op, 0, peer=0), collectives={op: "linear"})
        assert run.leave(0) == [10.0 if op == "gather" else 9.0]
        assert [run.leave(r) for r in range(1, 5)] == [[6.0 if op == "gather" else 6.0 + r] for r in range(1, 5)]


@pytest.mark.parametrize(
    ("op", "algorithm"), [("allreduce", "ring"), ("allreduce", "recursive_doubling"), ("allgather", "bruck")]
)
def test_one_task_between_two_steps(op, algorithm):
    """Eight members, each with one send and one receive per step: step times (o + L + o), one delay per member and step."""
    steps = {"ring": 14, "recursive_doubling": 3, "bruck": 3}[algorithm]
    t = build(Call(op=op, n=8, size_bytes=0), algorithm=algorithm)
    template = make_template(
        n_members=8, step=t.step, src=t.src, dst=t.dst, size_bytes=t.size_bytes, send_overhead_s=US, recv_overhead_s=US
    )
    assert (template.src.size, template.delay_s.size) == (8 * steps, 8 * steps)
    assert makespan_us(8, every(8, op, 0), collectives={op: algorithm}) == pytest.approx(7 * steps)


@pytest.mark.parametrize("op", ["allreduce", "bcast"])
def test_library_collectives_cost_what_the_same_messages_cost(op):
    """Overheads inside collectives: a binomial broadcast of two members is one message, a two-member exchange is a sendrecv."""
    root = {"peer": 0} if op == "bcast" else {}
    rule = {"allreduce": "recursive_doubling", "bcast": "binomial"}
    run = Run(2, every(2, op, 1000, **root), collectives=rule)
    # o + s/B + L + o for whoever receives; a member that only sends leaves at delivery (steps are synchronous).
    assert run.leave(1) == [8.0]
    assert run.leave(0) == [8.0 if op == "allreduce" else 7.0]
    free = Run(2, every(2, op, 1000, **root), collectives=rule,
               protocol=Protocol(send_overhead_s=US, recv_overhead_s=US, collective_overhead=False))  # fmt: skip
    assert free.leave(1) == [6.0]
