"""Collectives in traces: grouping, consistency, sizes, step-synchronous wiring; times from closed forms and hand arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideal_network import evaluate
from test_lower_messages import NB, PROTOCOL, Run, compute, recv, send, wait

from netsim.core.errors import InputError, closest
from netsim.engine import Routes, Simulation
from netsim.traces import Trace
from netsim.traffic import Protocol, lower
from netsim.traffic.collectives import Call, build, rule_sets
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

US = 1e-6
IDEAL = Protocol.ideal()


def every(n: int, op: str, size: int = 0, **more):
    return [{"rank": r, "op": op, "bytes": size, **more} for r in range(n)]


def star_end(graph: TaskGraph, *, rate: float, latency: float):
    """End of each task on a non-blocking star, by the engine: links 0..n-1 up, n..2n-1 down."""
    n = graph.n_ranks
    sends = np.flatnonzero((graph.kind == TRANSFER) & (graph.rank != graph.peer))
    of_task = np.full(graph.n_tasks, -1, dtype=np.int32)
    of_task[sends] = graph.rank[sends] * n + graph.peer[sends]
    source, target = np.divmod(np.arange(n * n), n)
    routes = Routes(
        of_task=of_task,
        ptr=np.arange(n * n + 1) * 2,
        link=np.stack([source, n + target], axis=1).ravel().astype(np.int32),
        latency_s=np.full(n * n, latency),
    )
    return Simulation(graph=graph, routes=routes, capacity_bytes_per_s=np.full(2 * n, rate)).run()


# ---- closed forms

CLOSED = [
    ("allreduce", "ring", 10**6, {8: 189, 6: 176 + 2 / 3}),
    ("allreduce", "recursive_doubling", 10**6, {8: 303, 6: 404}),
    ("allreduce", "rabenseifner", 10**6, {8: 181, 6: 356}),
    ("allgather", "bruck", 125_000, {8: 90.5, 6: 65.5}),
    ("allgather", "ring", 125_000, {8: 94.5, 6: 67.5}),
    ("alltoall", "bruck", 125_000, {8: 153, 6: 90.5}),
    ("alltoall", "pairwise", 125_000, {8: 94.5, 6: 67.5}),
    ("alltoall", "linear", 125_000, {8: 88.5, 6: 63.5}),
    ("gather", "linear", 125_000, {8: 88.5, 6: 63.5}),
    ("bcast", "binomial", 10**6, {8: 303, 6: 303}),
    ("scatter", "binomial", 125_000, {8: 90.5, 6: 65.5}),
    ("bcast", "chain(segments=10)", 10**6, {8: 176, 6: 154}),
    ("bcast", "scatter_ring", 10**6, {8: 185, 6: 174 + 2 / 3}),
    ("barrier", "dissemination", 0, {8: 3, 6: 3}),
]


@pytest.mark.parametrize(("op", "algorithm", "size", "expected"), CLOSED)
@pytest.mark.parametrize("n", [8, 6])
def test_closed_forms_on_a_star(op, algorithm, size, expected, n):
    """alpha = 1 us, B = 10 GB/s; the formulas are those of Thakur, Rabenseifner, Gropp (2005) and Chan et al. (2007)."""
    total = size * n if op == "alltoall" else size
    root = {"peer": 0} if op in ("bcast", "gather", "scatter") else {}
    trace = Trace.from_rows(n_ranks=n, rows=every(n, op, total, **root))
    lowered = lower(trace, protocol=IDEAL, collectives={op: algorithm})
    result = star_end(lowered.graph, rate=10e9, latency=US)
    assert np.nanmax(result.start_s[lowered.op_leave]) == pytest.approx(expected[n] * US, rel=1e-5)
    assert lowered.algorithms == {f"{op}/{algorithm}": 1}


@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "rabenseifner", "double_binary_tree"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_bytes_on_the_wire_are_those_of_the_schedule(algorithm, n):
    trace = Trace.from_rows(n_ranks=n, rows=every(n, "allreduce", 960))
    lowered = lower(trace, collectives={"allreduce": algorithm})
    assert lowered.wire_bytes == build(Call(op="allreduce", n=n, size_bytes=960), algorithm=algorithm).total_bytes
    if algorithm in ("ring", "double_binary_tree"):
        assert lowered.wire_bytes == 2 * (n - 1) * 960


def test_ring_of_three_with_ten_bytes():
    """B20: chunks 4, 3, 3; every chunk crosses 4 wires."""
    lowered = lower(Trace.from_rows(n_ranks=3, rows=every(3, "allreduce", 10)), collectives={"allreduce": "ring"})
    assert lowered.wire_bytes == 40


def test_incast_on_a_star():
    """Eight senders of 4 kB to one receiver, o = 1, L = 5, B = 1000 B/us: all delivered at 1 + 32 + 5."""
    rows = [send(r, 0, 4000) for r in range(1, 9)] + [recv(0, r, 4000, **NB) for r in range(1, 9)]
    rows += [wait(0, *range(1, 9))]
    lowered = lower(Trace.from_rows(n_ranks=9, rows=rows), protocol=PROTOCOL)
    result = star_end(lowered.graph, rate=1e9, latency=5 * US)
    assert result.end_s[lowered.messages.task] == pytest.approx(np.full(8, 38 * US), rel=1e-12)
    # Eight receive overheads follow.
    assert result.start_s[lowered.op_leave[8]] == pytest.approx(46 * US)


def test_two_messages_share_the_network_card_fairly():
    """4 kB to each of two receivers, second send 1 us later: alone 1..2, both 2..8, alone 8..9: received 14 and 15."""
    rows = [send(0, 1, 4000), send(0, 2, 4000), recv(1, 0, 4000), recv(2, 0, 4000)]
    lowered = lower(Trace.from_rows(n_ranks=3, rows=rows), protocol=PROTOCOL)
    result = star_end(lowered.graph, rate=1e9, latency=5 * US)
    assert result.start_s[lowered.op_leave[2:]] == pytest.approx([14 * US, 15 * US], rel=1e-12)


# ---- wiring


def test_barrier_is_last_entry_plus_latencies():
    """B25: dissemination on 4 ranks: two steps of 5 us after the last entry."""
    rows = [compute(r, 10 * r) for r in range(4)] + every(4, "barrier")
    run = Run(4, rows, protocol=IDEAL)
    assert max(run.leave(r)[1] for r in range(4)) == 40.0
    assert all(run.leave(r)[1] >= 35.0 for r in range(4))


def test_zero_byte_collective_releases_what_follows():
    """B02."""
    rows = [compute(3, 50), *every(4, "allreduce", 0), send(0, 1, 2**20), recv(1, 0, 2**20)]
    run = Run(4, rows, protocol=IDEAL, collectives={"allreduce": "recursive_doubling"})
    assert run.leave(0)[0] == 60.0
    assert run.leave(1)[1] == pytest.approx(60 + 2**20 / 1000 + 5)


def test_one_member():
    """B03."""
    run = Run(1, every(1, "allreduce", 2**20))
    assert run.leave(0) == [0.0]
    assert run.lowered.graph.n_transfers == 0


def test_non_blocking_collective_overlaps():
    """B25: entered by all at 0, done after one exchange of 5 us; computation of 20 us hides it, one of 2 us does not."""
    for us, expected in ((20, 20.0), (2, 5.0)):
        rows = []
        for r in (0, 1):
            rows += [{"rank": r, "op": "barrier", **NB}, compute(r, us), wait(r, 2)]
        run = Run(2, rows, protocol=IDEAL)
        assert run.leave(0) == [0.0, us, expected]


def test_sub_communicator_with_permuted_ranks():
    """B12: broadcast from member 0 of [3, 1, 0] leaves world rank 3."""
    rows = [{"rank": r, "op": "bcast", "bytes": 100, "peer": 3, "comm": 1} for r in (0, 1, 3)]
    run = Run(4, rows, comms=[[3, 1, 0]], collectives={"bcast": "linear"})
    assert run.transfers() == [(3, 0, 100.0), (3, 1, 100.0)]


def test_binomial_tree_follows_the_order_of_the_communicator():
    """Members [2, 0, 3, 1], root 2: member 0 sends to members 2 and 1, member 2 to member 3; in ranks 2->3, 2->0, 3->1."""
    rows = [{"rank": r, "op": "bcast", "bytes": 8, "peer": 2, "comm": 1} for r in range(4)]
    run = Run(4, rows, comms=[[2, 0, 3, 1]], collectives={"bcast": "binomial"})
    assert run.transfers() == [(2, 0, 8.0), (2, 3, 8.0), (3, 1, 8.0)]


def test_overlapping_groups_on_divergent_paths():
    """B14: ranks 4..7 reduce among themselves first, then all gather; the others wait for them."""
    rows = [{"rank": r, "op": "allreduce", "comm": 1, "bytes": 1024} for r in range(4, 8)]
    rows += every(8, "allgather", 64)
    run = Run(8, rows, comms=[[4, 5, 6, 7]], protocol=IDEAL)
    assert max(run.times.end) < math.inf
    assert all(run.enter(r)[-1] > 0 for r in range(4, 8))
    assert all(run.enter(r) == [0.0] for r in range(4))
    assert min(run.leave(r)[-1] for r in range(8)) > max(run.enter(r)[-1] for r in range(4, 8))


def test_interleaved_communicators_keep_their_own_count():
    rows = []
    for r in (0, 1):
        rows += [{"rank": r, "op": "barrier", "comm": c} for c in (0, 1, 0, 1)]
    run = Run(2, rows, comms=[[1, 0]], protocol=IDEAL)
    assert run.leave(0) == [5.0, 10.0, 15.0, 20.0]


# ---- consistency


def test_two_ranks_an_operation_ahead():
    """B15: both sides are named, and the tail can be dropped."""
    rows = every(32, "allgather", 64) + [{"rank": r, "op": "allgather", "bytes": 64} for r in (3, 9)]
    trace = Trace.from_rows(n_ranks=32, rows=rows)
    with pytest.raises(InputError) as error:
        lower(trace)
    assert str(error.value) == (
        "communicator 0 (WORLD): collective 1 must be one operation, called once by each of its 32 members, "
        "got allgather on 2 (ranks 3, 9), nothing on 30 (ranks 0-2, 4-8, 10-31); "
        "the recording may have been cut off: allow_incomplete drops the tail"
    )
    lowered = lower(trace, allow_incomplete=True)
    assert lowered.count("incomplete_collectives") == 1
    alone = lower(Trace.from_rows(n_ranks=32, rows=every(32, "allgather", 64)))
    assert lowered.wire_bytes == alone.wire_bytes
    assert np.isfinite(evaluate(lowered.graph).end).all()


def test_different_operations_and_roots_are_named():
    rows = [{"rank": r, "op": "barrier" if r < 2 else "allreduce"} for r in range(3)]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=3, rows=rows))
    assert "got allreduce on 1 (rank 2), barrier on 2 (ranks 0-1); " in str(error.value)
    rows = [{"rank": r, "op": "bcast", "peer": r % 2, "bytes": 8} for r in range(3)]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=3, rows=rows))
    assert "got bcast with root 0 on 2 (ranks 0, 2), bcast with root 1 on 1 (rank 1); " in str(error.value)


def test_incomplete_tail_only_touches_its_communicator():
    rows = [{"rank": 0, "op": "barrier", "comm": 1}]
    rows += every(2, "barrier")
    run = Run(2, rows, comms=[[0, 1]], allow_incomplete=True, protocol=IDEAL)
    assert run.leave(0) == [0.0, 5.0]
    assert run.notes() == {"incomplete_collectives": 1}


def test_further_inconsistent_collectives_are_counted():
    rows = [{"rank": rank, "op": "barrier"} for rank in (0, 1, 0, 1, 0, 0, 2)]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=3, rows=rows))
    # Collective 0 is complete; 1 lacks rank 2, 2 lacks ranks 1 and 2, 3 is on rank 0 only.
    assert str(error.value).startswith(
        "communicator 0 (WORLD): collective 1 must be one operation, called once by each of its 3 members, "
        "got barrier on 2 (ranks 0-1), nothing on 1 (rank 2), and 2 more such collectives; "
    )


def test_a_rank_that_calls_twice():
    rows = [{"rank": 0, "op": "barrier", "coll_seq": 0}, {"rank": 0, "op": "barrier", "coll_seq": 0}]
    with pytest.raises(InputError, match=r"got barrier on 2 \(rank 0\), nothing on 1 \(rank 1\)"):
        lower(Trace.from_rows(n_ranks=2, rows=rows))


# ---- sizes


def alltoallv(matrix, **more):
    return [{"rank": r, "op": "alltoall", "bytes": sum(row), "vbytes": row, **more} for r, row in enumerate(matrix)]


def test_irregular_all_to_all_with_zeros():
    """B16: exactly these messages; rank 2 takes part, its own block and that of rank 3 stay at home."""
    run = Run(4, alltoallv([[0, 5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 7, 3]]))
    assert run.transfers() == [(0, 1, 5.0), (1, 0, 1.0), (3, 2, 7.0)]
    assert run.lowered.wire_bytes == 13


def test_own_share_never_leaves_the_rank():
    """B18: 60 elements, splits 15, 14, 20, 11: 45 leave rank 0."""
    splits = [15, 14, 20, 11]
    run = Run(4, alltoallv([splits, [0] * 4, [0] * 4, [0] * 4]))
    assert run.transfers() == [(0, 1, 14.0), (0, 2, 20.0), (0, 3, 11.0)]


def test_splits_that_do_not_add_up():
    rows = alltoallv([[15, 14, 20, 10], [0] * 4, [0] * 4, [0] * 4])
    rows[0]["bytes"] = 60
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=4, rows=rows))
    assert str(error.value) == "communicator 0, alltoall number 0, rank 0: vbytes must add up to bytes (60), got 59"


def test_rows_that_are_not_the_transpose_of_columns():
    """B17: rank 0 sends 3 to rank 1, which expects 1."""
    rows = alltoallv([[0, 3], [2, 0]])
    rows[0]["vrecv"], rows[1]["vrecv"] = [0, 2], [1, 0]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=2, rows=rows))
    assert str(error.value) == (
        "communicator 0, alltoall number 0, rank 0: pair (0, 1): rank 0 sends 3 bytes, rank 1 must expect the same, got 1"
    )


def test_all_to_all_without_splits_is_an_estimate():
    """B18: 10 bytes over 4 members: even split, labelled; different totals too."""
    run = Run(4, every(4, "alltoall", 10), collectives={"alltoall": "linear"})
    assert run.notes() == {"alltoall_estimates": 1}
    uneven = [{"rank": r, "op": "alltoall", "bytes": b} for r, b in enumerate((12, 0, 3))]
    run = Run(3, uneven)
    # 12 = 4 + 4 + 4, 3 = 1 + 1 + 1.
    assert run.transfers() == [(0, 1, 4.0), (0, 2, 4.0), (2, 0, 1.0), (2, 1, 1.0)]
    assert run.notes() == {"alltoall_estimates": 1}


@pytest.mark.parametrize("op", ["gather", "scatter"])
@pytest.mark.parametrize("given_at_root", [True, False])
def test_irregular_rooted(op, given_at_root):
    blocks = [5, 0, 7]
    rows = [{"rank": r, "op": op, "peer": 2, "bytes": b} for r, b in enumerate(blocks)]
    if given_at_root:
        rows[2]["vbytes"] = blocks
    run = Run(3, rows, collectives={op: "linear"})
    pairs = [(r, 2) if op == "gather" else (2, r) for r in (0, 1)]
    assert [t for t in run.transfers() if t[2]] == [(*pairs[0], 5.0)]
    assert set(run.lowered.algorithms) == {f"{op}v/linear"}


def test_irregular_allgather_ring():
    """Member i's block travels n-1 times: (n-1) times the sum in all."""
    rows = [{"rank": r, "op": "allgather", "bytes": b} for r, b in enumerate((5, 1, 7, 0))]
    run = Run(4, rows, collectives={"allgather": "ring"})
    assert run.lowered.wire_bytes == 3 * 13
    assert set(run.lowered.algorithms) == {"allgatherv/ring"}


def test_vector_of_equal_blocks_is_the_regular_operation():
    rows = [{"rank": r, "op": "allgather", "bytes": 8, "vbytes": [8, 8]} for r in range(2)]
    assert set(Run(2, rows, collectives={"allgather": "ring"}).lowered.algorithms) == {"allgather/ring"}


def test_irregular_reduce_scatter():
    rows = [{"rank": r, "op": "reduce_scatter", "bytes": b, "vbytes": [6, 2, 1]} for r, b in enumerate((6, 2, 1))]
    run = Run(3, rows, collectives={"reduce_scatter": "ring"})
    assert run.lowered.wire_bytes == 2 * 9


def test_named_algorithm_that_does_not_serve_the_irregular_form():
    run = Run(3, alltoallv([[0, 1, 2], [3, 0, 4], [5, 6, 0]]), collectives={"alltoall": "bruck"})
    assert run.notes() == {"algorithm_not_for_irregular": 1}
    assert run.lowered.wire_bytes == 21


def test_members_that_recorded_different_sizes():
    rows = [{"rank": r, "op": "allreduce", "bytes": b} for r, b in enumerate((8, 16))]
    run = Run(2, rows, collectives={"allreduce": "recursive_doubling"})
    assert run.transfers() == [(0, 1, 16.0), (1, 0, 16.0)]
    assert run.notes() == {"collective_sizes_differ": 1}


@pytest.mark.parametrize("op", ["neighbor_alltoall", "neighbor_allgather"])
def test_neighbour_collectives(op):
    """A periodic line of three ranks, permuted communicator: each sends to its two neighbours, in one step."""
    order = [2, 0, 1]
    rows = []
    for m, r in enumerate(order):
        peers = [order[(m + 1) % 3], order[(m - 1) % 3]]
        size = [100, 200] if op == "neighbor_alltoall" else [50, 50]
        rows.append({"rank": r, "op": op, "comm": 1, "bytes": sum(size) if op == "neighbor_alltoall" else 50,
                     "vbytes": size, "vpeer": peers})  # fmt: skip
    run = Run(3, rows, comms=[order], protocol=IDEAL)
    sizes = (100.0, 200.0) if op == "neighbor_alltoall" else (50.0, 50.0)
    assert run.transfers() == sorted(
        (r, order[(m + step) % 3], sizes[step == -1]) for m, r in enumerate(order) for step in (1, -1)
    )
    assert [run.leave(r)[0] for r in range(3)] == [5 + max(sizes) / 1000] * 3


def test_neighbour_outside_the_communicator():
    rows = [{"rank": r, "op": "neighbor_alltoall", "comm": 1, "bytes": 8, "vbytes": [8], "vpeer": [2]} for r in (0, 1)]
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=3, rows=rows, comms=[[0, 1]]))
    assert str(error.value) == (
        "communicator 1, neighbor_alltoall number 0, rank 0: vpeer must name members of the communicator, got rank 2"
    )


def test_neighbours_that_were_not_recorded_are_counted():
    run = Run(2, every(2, "neighbor_allgather", 8))
    assert run.notes() == {"neighbours_unknown": 2}
    assert run.lowered.graph.n_transfers == 0


@given(st.integers(2, 5), st.data())
@settings(max_examples=40, deadline=None)
def test_irregular_all_to_all_conserves_bytes(n, data):
    matrix = [[data.draw(st.sampled_from([0, 1, 1000])) for _ in range(n)] for _ in range(n)]
    run = Run(n, alltoallv(matrix))
    assert run.lowered.wire_bytes == sum(b for i, row in enumerate(matrix) for j, b in enumerate(row) if i != j)
    assert max(run.times.end) < math.inf


def test_calls_are_shared_and_stay_in_order():
    """1000 identical barriers and one allreduce: two templates, times add up."""
    rows = [row for _ in range(1000) for row in every(3, "barrier")] + every(3, "allreduce", 8)
    run = Run(3, rows, protocol=IDEAL)
    assert run.leave(0)[:3] == [10.0, 20.0, 30.0]
    assert run.lowered.algorithms["barrier/dissemination"] == 1000


# ---- choice


@pytest.mark.parametrize("collectives", ["mpihc", {"rules": "mpihc"}])
def test_unknown_rules(collectives):
    with pytest.raises(InputError) as error:
        lower(Trace.from_rows(n_ranks=1, rows=every(1, "mark")), collectives=collectives)
    assert str(error.value) == f"selection rules: unknown name, got 'mpihc'; {closest('mpihc', rule_sets)}"


def test_unknown_operation_and_algorithm():
    trace = Trace.from_rows(n_ranks=1, rows=every(1, "mark"))
    with pytest.raises(InputError, match=r"^collectives: unknown operation, got 'alreduce'; did you mean 'allreduce'"):
        lower(trace, collectives={"alreduce": "ring"})
    with pytest.raises(
        InputError, match=r"^collective algorithm for allreduce: unknown name, got 'rings'; did you mean 'ring'"
    ):
        lower(trace, collectives={"allreduce": "rings"})


def test_mapping_with_base_rules():
    rows = every(4, "barrier") + every(4, "allreduce", 8)
    run = Run(4, rows, collectives={"rules": "openmpi", "allreduce": "ring"})
    assert run.lowered.algorithms == {"allreduce/ring": 1, "barrier/recursive_doubling": 1}


def test_sizes_beyond_32_bits():
    """B35: 1024 ranks gather 2 GiB each: every rank receives 1023 * 2**31 bytes, to the byte."""
    lowered = lower(
        Trace.from_rows(n_ranks=1024, rows=every(1024, "allgather", 2**31)), collectives={"allgather": "bruck"}
    )
    assert lowered.wire_bytes == 1024 * 1023 * 2**31
    g = lowered.graph
    received = np.bincount(g.peer[g.kind == TRANSFER], weights=g.amount[g.kind == TRANSFER])
    assert (received == 1023 * 2**31).all()
