"""Collectives as steady flows: the same bytes as step by step, the same time on a star, and close elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.jobs import Placement
from netsim.traffic import Protocol, lower
from netsim.traffic.collectives import Call, PairBytes, algorithms, build, closed_form_s, steady_flows

WITH = [name for name in algorithms if algorithms[name].steady is not None]
SEND_S, RECV_S = 3e-7, 2e-7


def call_of(op, n, size=1000):
    if op == "alltoallv":
        return Call(op=op, n=n, pairs=PairBytes.from_matrix((np.arange(n * n).reshape(n, n) * 7 + 3) % 11))
    if op in ("allgatherv", "reduce_scatter"):
        return Call(op=op, n=n, block_bytes=(np.arange(n) * 13 + 5) % 17)
    return Call(op=op, n=n, size_bytes=size)


def per_pair(n, src, dst, size):
    return np.bincount(np.asarray(src, int) * n + dst, weights=size, minlength=n * n).tolist()


def test_rings_and_pairwise_exchanges_have_a_steady_form():
    assert {"allreduce/ring", "reduce_scatter/ring", "allgather/ring", "alltoall/pairwise"} <= set(WITH)


@pytest.mark.parametrize("name", WITH)
@pytest.mark.parametrize("n", [*range(2, 18), 33])
def test_each_pair_gets_the_bytes_of_the_schedule(name, n):
    call = call_of(name.partition("/")[0], n)
    schedule, flows = build(call, algorithm=name), steady_flows(call, algorithm=name)
    assert per_pair(n, flows.src, flows.dst, flows.size_bytes) == (
        per_pair(n, schedule.src, schedule.dst, schedule.size_bytes)
    )
    assert not np.any(flows.src == flows.dst)
    assert np.unique(flows.src * n + flows.dst).size == flows.src.size
    if name != "alltoallv/pairwise":
        assert flows.n_steps == schedule.n_steps


def allreduce(n, size, gaps=None):
    rows = []
    for rank in range(n):
        late = {} if gaps is None else {"gap_ns": int(gaps[rank])}
        rows.append({"rank": rank, "op": "allreduce", "bytes": size, **late})
    return ns.Trace.from_rows(n_ranks=n, rows=rows)


def replay(trace, topology, *, steady, algorithm="ring", protocol=None):
    return ns.replay(
        trace,
        topology=topology,
        collectives={"allreduce": algorithm, "alltoall": "pairwise"},
        steady_collectives=steady,
        protocol=protocol or Protocol(send_overhead_s=SEND_S, recv_overhead_s=RECV_S),
    )


@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_a_ring_on_a_star_takes_its_closed_form(n):
    # 10 GB/s, 1 us from host to host; each of the 2(n-1) steps also costs a send and a receive.
    star = ns.topologies.star(n=n, capacity="80Gbps", latency=0.5e-6)
    size = 1000 * n
    result = replay(allreduce(n, size), star, steady=True)
    call = Call(op="allreduce", n=n, size_bytes=size)
    expected = closed_form_s(call, algorithm="ring", alpha_s=1e-6 + SEND_S + RECV_S, bytes_per_s=10e9)
    assert result.makespan_s == pytest.approx(expected, rel=1e-9)
    assert replay(allreduce(n, size), star, steady=False).makespan_s == pytest.approx(expected, rel=1e-9)


def test_a_late_member_of_a_ring_holds_up_everybody():
    star = ns.topologies.star(n=6, capacity="80Gbps", latency=0.5e-6)
    trace = allreduce(6, 60_000, gaps=[0, 0, 50_000, 0, 10_000, 0])
    exact, steady = (replay(trace, star, steady=s).makespan_s for s in (False, True))
    assert steady == pytest.approx(exact, rel=1e-9)


NETWORKS = {
    "tapered tree": lambda: ns.topologies.xgft(m=(4, 4), w=(1, 2)),
    "dragonfly": lambda: ns.topologies.dragonfly(p=2, a=4, h=2),
    "torus": lambda: ns.topologies.torus(dims=(4, 4)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("size", "within"), [(10**6, 0.25), (10**8, 0.05)])
def test_rings_on_shared_links_are_close_the_longer_the_closer(name, size, within):
    network = NETWORKS[name]()
    trace = allreduce(16, size)
    rng = np.random.default_rng(5)
    for order in (np.arange(16), rng.permutation(16)):
        host = np.asarray(order, dtype=np.int32)
        runs = [
            ns.replay(
                trace,
                topology=network,
                collectives={"allreduce": "ring"},
                placement=Placement(name="test", host=host),
                steady_collectives=steady,
            )
            for steady in (False, True)
        ]
        exact, steady = runs
        assert steady.makespan_s == pytest.approx(exact.makespan_s, rel=within)
        links = [r.to_pandas("links").groupby("link")["bytes"].sum() for r in runs]
        assert links[1].to_dict() == pytest.approx(links[0].to_dict(), rel=1e-9)


def test_eight_thousand_ranks_take_one_flow_each():
    lowered = lower(allreduce(8192, 10**9), collectives={"allreduce": "ring"}, steady_collectives=True)
    assert lowered.graph.n_transfers == 8192
    assert lowered.count("steady_collectives") == 1
    assert lowered.wire_bytes == 2 * 8191 * 10**9


CALLS = (("allreduce", 800), ("barrier", 0))


def test_what_was_and_was_not_steady_is_counted():
    rows = [{"rank": r, "op": op, "bytes": b} for r, (op, b) in itertools.product(range(4), CALLS)]
    trace = ns.Trace.from_rows(n_ranks=4, rows=rows)
    result = ns.replay(trace, topology="star", collectives={"allreduce": "ring"}, steady_collectives=True)
    assert result.provenance["approximations"] == {"steady_collectives": 1}
    notes = " ".join(result.summary["notes"])
    assert "1 collectives as steady flows" in notes
    assert "1 collectives by algorithms without a steady form" in notes
    exact = ns.replay(trace, topology="star", collectives={"allreduce": "ring"})
    assert exact.provenance["approximations"] == {}


def test_parameters_are_checked_as_for_schedules():
    with pytest.raises(InputError, match="unknown parameter"):
        steady_flows(Call(op="allreduce", n=4, size_bytes=8), algorithm="ring(phases=3)")
