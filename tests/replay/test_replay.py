"""Traces on networks, end to end: what a careful reader would work out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import netsim as ns
from netsim.core.errors import InputError, StuckError
from netsim.engine import CapacityChanges
from netsim.results import COLUMNS
from netsim.traffic import Protocol

IDEAL = Protocol.ideal()
SLOW_STAR = {"capacity": "100Gbps", "latency": 0.5e-6}  # 1 us from host to host


def message(size, **more):
    return ns.Trace.from_rows(
        n_ranks=2,
        rows=[
            {"rank": 0, "op": "send", "peer": 1, "tag": 0, "bytes": size},
            {"rank": 1, "op": "recv", "peer": 0, "tag": 0, "bytes": size, **more},
        ],
    )


def collective(op, n, size, **more):
    return ns.Trace.from_rows(n_ranks=n, rows=[{"rank": r, "op": op, "bytes": size, **more} for r in range(n)])


def on_star(trace, n=None, protocol=IDEAL, **options):
    star = ns.topologies.star(n=n or trace.n_ranks, **SLOW_STAR)
    return ns.replay(trace, topology=options.pop("topology", star), protocol=protocol, **options)


def test_zero_bytes_cost_the_latency_and_nothing_else():
    times = [on_star(message(size)).makespan_s for size in (0, 1, 10)]
    assert times[0] == 1e-6
    assert times == sorted(times)
    assert times[2] == pytest.approx(1e-6 + 10 / 12.5e9, rel=1e-12)


def test_latency_is_paid_once_per_link_and_bytes_once():
    # Three links of 1 us; no store and forward: 1 GB at 10 GB/s takes 100 ms in all.
    line = ns.topologies.Topology.from_links(
        n_hosts=2, n_switches=2, source=[0, 2, 2, 3, 3, 1], destination=[2, 0, 3, 2, 1, 3], capacity=10e9, latency="1us"
    )
    assert on_star(message(0), topology=line).makespan_s == pytest.approx(3e-6, rel=1e-12)
    assert on_star(message(10**9), topology=line).makespan_s == pytest.approx(3e-6 + 0.1, rel=1e-12)


@pytest.mark.parametrize(("gib", "seconds"), [(3, 0.25769803776), (10, 0.8589934592)])
def test_sizes_beyond_32_bits(gib, seconds):
    star = ns.topologies.star(n=2, capacity="100Gbps", latency=0.0)
    assert ns.replay(message(gib * 2**30), topology=star, protocol=IDEAL).makespan_s == pytest.approx(
        seconds, rel=1e-12
    )


def test_self_send_and_one_member_collective_stay_off_the_network():
    trace = ns.Trace.from_rows(
        n_ranks=2,
        rows=[
            {"rank": 0, "op": "send", "peer": 0, "tag": 0, "bytes": 2**20, "flags": 1},
            {"rank": 0, "op": "recv", "peer": 0, "tag": 0, "bytes": 2**20},
            {"rank": 0, "op": "wait", "deps": [2]},
            {"rank": 0, "op": "allreduce", "comm": 1, "bytes": 64},
        ],
        comms=[[0]],
    )
    result = on_star(trace)
    assert result.makespan_s == 0
    assert result.summary["network_bytes"] == 0
    assert result.summary["on_host_bytes"] == 2**20
    assert result.to_arrow("links").num_rows == 0


def test_bytes_between_ranks_of_one_host_are_reported():
    trace = ns.Trace.from_rows(
        n_ranks=3,
        rows=[
            {"rank": 0, "op": "send", "peer": 1, "tag": 0, "bytes": 2**20},
            {"rank": 0, "op": "send", "peer": 2, "tag": 0, "bytes": 2**20},
            {"rank": 1, "op": "recv", "peer": 0, "tag": 0, "bytes": 2**20},
            {"rank": 2, "op": "recv", "peer": 0, "tag": 0, "bytes": 2**20},
        ],
    )
    result = on_star(trace, n=2, ranks_per_host=2)
    assert result.summary["on_host_bytes"] == 2**20
    assert result.summary["network_bytes"] == 2**20
    flows = result.to_pandas("flows")
    assert flows.loc[flows.src_host == flows.dst_host, "hops"].tolist() == [0]
    local = on_star(trace, n=2, ranks_per_host=2, local_bytes_per_s=2**30)
    assert local.makespan_s > result.makespan_s


def test_more_ranks_than_hosts_names_both_numbers():
    with pytest.raises(InputError) as error:
        on_star(collective("barrier", 8, 0), n=6)
    assert str(error.value) == (
        "placement: 8 ranks at 1 per host need 8 hosts, got 6 hosts; use a larger topology or more ranks per host"
    )
    assert on_star(collective("barrier", 8, 0), n=16).provenance["placement"]["idle_hosts"] == 8


def test_unmatched_receive_ends_in_a_report_and_no_makespan():
    trace = ns.Trace.from_rows(
        n_ranks=2, rows=[{"rank": 0, "op": "barrier", "comm": 1}, {"rank": 1, "op": "recv", "peer": 0, "tag": 7, "bytes": 1000}],
        comms=[[0]],
    )  # fmt: skip
    with pytest.raises(StuckError) as error:
        on_star(trace)
    assert list(error.value.report) == [
        "rank 1, op 0 recv, communicator WORLD, peer 0, tag 7, 1 kB: waits for a message from rank 0"
    ]


def test_two_blocking_rendezvous_sends_head_to_head_are_a_deadlock():
    def exchange(size):
        return ns.Trace.from_rows(
            n_ranks=2,
            rows=[
                row
                for r in (0, 1)
                for row in (
                    {"rank": r, "op": "send", "peer": 1 - r, "tag": 0, "bytes": size},
                    {"rank": r, "op": "recv", "peer": 1 - r, "tag": 0, "bytes": size},
                )
            ],
        )

    # Eager: both sends are buffered, and the program works by luck; rendezvous: it hangs, as MPI says it may.
    assert on_star(exchange(1000)).status == "finished"
    with pytest.raises(StuckError) as error:
        on_star(exchange(10**6))
    assert [line.split(":")[0] for line in error.value.report] == [
        f"rank {r}, op 0 send, communicator WORLD, peer {1 - r}, tag 0, 1 MB" for r in (0, 1)
    ]


def test_ring_and_direct_agree_on_a_flat_switch():
    star = ns.topologies.star(n=8, capacity="50GB/s", latency=0.0)
    trace = collective("allreduce", 8, 100_000_000)
    times = [
        ns.replay(trace, topology=star, protocol=IDEAL, collectives={"allreduce": algorithm}).makespan_s
        for algorithm in ("ring", "direct")
    ]
    # 2 x 7/8 x 100 MB through each 50 GB/s NIC.
    assert times == pytest.approx([3.5e-3, 3.5e-3], rel=0.01)


def test_two_trees_carry_half_each():
    trace = collective("allreduce", 4, 1_000_000)
    result = on_star(trace, collectives={"allreduce": "double_binary_tree"})
    assert result.summary["network_bytes"] == 6_000_000


def test_uneven_chunks_keep_every_byte():
    result = on_star(collective("allreduce", 3, 10), collectives={"allreduce": "ring"})
    assert sorted(result.to_pandas("flows")["bytes"].tolist()) == sorted([4, 3, 3] * 4)
    assert result.summary["network_bytes"] == 40


def test_bandwidth_matters_exactly_when_the_network_binds():
    trace = collective("allreduce", 8, 2**30)

    def seconds(rate):
        star = ns.topologies.star(n=8, capacity=rate, latency=0.0)
        return ns.replay(trace, topology=star, protocol=IDEAL, collectives={"allreduce": "ring"})

    slow, fast = seconds("100Gbps"), seconds("1000Gbps")
    assert slow.makespan_s == pytest.approx(10 * fast.makespan_s, rel=0.01)
    assert slow.summary["network_bound"] == pytest.approx(1)
    computing = ns.Trace.from_rows(n_ranks=2, rows=[{"rank": r, "op": "compute", "gap_ns": 10**9} for r in (0, 1)])
    result = on_star(computing)
    assert result.makespan_s == pytest.approx(1)
    assert result.summary["network_bound"] == 0


def test_empty_and_silent_traces():
    empty = ns.Trace.from_rows(n_ranks=2, rows=[])
    result = on_star(empty)
    assert (result.makespan_s, result.summary["transfers"], result.status) == (0, 0, "finished")


def test_skewed_clocks_change_nothing_of_a_replay_driven_by_dependencies():
    def trace(skew):
        rows = []
        for r, shift in ((0, 0), (1, skew)):
            rows += [
                {
                    "rank": r,
                    "op": "allreduce",
                    "bytes": 8,
                    "t_start": 1000 + shift,
                    "t_end": 2000 + shift,
                    "gap_ns": 1000,
                },
                {
                    "rank": r,
                    "op": "allreduce",
                    "bytes": 8,
                    "t_start": 7000 + shift,
                    "t_end": 8000 + shift,
                    "gap_ns": 5000,
                },
            ]
        return ns.Trace.from_rows(n_ranks=2, rows=rows)

    spans = {on_star(trace(skew)).makespan_s for skew in (0, 5_000_000, -900)}
    assert len(spans) == 1


def test_a_million_sends_posted_at_once(jit):
    # 1,000 ranks, all sends at t=0 in a ring: each rank sends its messages over its own link one by one or together, same total.
    n, each = (1000, 1000) if jit else (20, 20)
    graph = ns.traffic.TaskGraph.from_edges(
        n_ranks=n,
        kind=np.ones(n * each, np.uint8),
        rank=np.repeat(np.arange(n, dtype=np.int32), each),
        peer=np.repeat((np.arange(n, dtype=np.int32) + 1) % n, each),
        amount=np.full(n * each, 1e4),
        edge_from=np.empty(0, np.int64),
        edge_to=np.empty(0, np.int64),
        edge_after=np.empty(0, np.uint8),
    )
    star = ns.topologies.star(n=n, capacity=1e9, latency=0.0)
    result = ns.simulate(graph, topology=star, bins=0)
    assert result.makespan_s == pytest.approx(each * 1e4 / 1e9, rel=1e-9)


def test_lower_bound_is_met_by_a_perfect_exchange_and_named():
    # Shift by one on a star: every host sends and receives 1 MB at once, nothing can be faster.
    n = 4
    trace = ns.Trace.from_matrix(n_ranks=n, src=np.arange(n), dst=(np.arange(n) + 1) % n, bytes=np.full(n, 10**6))
    star = ns.topologies.star(n=n, capacity=1e9, latency=0.0)
    bound = ns.replay(trace, topology=star).summary["lower_bound"]
    assert bound["injection_s"] == pytest.approx(1e-3)
    assert bound["times_lower_bound"] == pytest.approx(1)


def test_flow_lists_start_at_their_times():
    trace = ns.Trace.from_flows(n_ranks=3, start_ns=[0, 4000], src=[0, 1], dst=[2, 2], bytes=[10_000, 10_000])
    star = ns.topologies.star(n=3, capacity=1e9, latency=0.0)
    flows = ns.replay(trace, topology=star).to_pandas("flows")
    # Case 6 of any queueing course: alone until 4 us (4 kB), then half each: 16 us; the other has 4 kB left alone: 20 us.
    assert flows["end_ns"].tolist() == [16_000, 20_000]


def test_a_link_that_fails_for_a_while_delays_by_just_that_while():
    star = ns.topologies.star(n=2, capacity=1e9, latency=0.0)
    dark = CapacityChanges(
        time_s=np.array([1e-3, 3e-3]), link=np.array([0, 0], np.int32), capacity_bytes_per_s=np.array([0, 1e9])
    )
    assert ns.replay(message(5 * 10**6), topology=star, protocol=IDEAL, changes=dark).makespan_s == pytest.approx(7e-3)


def test_equal_runs_are_equal_to_the_byte_and_seeds_matter():
    trace = collective("alltoall", 16, 16 * 1000)

    def run(seed):
        return ns.replay(trace, topology="fat_tree", routing="ecmp", placement="random", seed=seed).content_hash

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize("fabric", ["star", "dragonfly", "fat_tree", "torus", "mesh"])
def test_every_allocation_of_a_replay_carries_its_certificate(fabric):
    rng = np.random.default_rng(4)
    n = 20
    src, dst = rng.integers(0, n, 60), rng.integers(0, n, 60)
    trace = ns.Trace.from_flows(
        n_ranks=n, start_ns=np.sort(rng.integers(0, 10**5, 60)), src=src, dst=dst, bytes=rng.integers(1, 10**6, 60)
    )
    result = ns.replay(trace, topology=fabric, certify=True)
    assert result.summary["engine"]["allocations_certified"] == result.summary["engine"]["events"] + 1


def test_critical_path_parts_add_up_to_the_makespan():
    trace = ns.Trace.from_rows(
        n_ranks=4,
        rows=[
            row
            for r in range(4)
            for row in (
                {"rank": r, "op": "allreduce", "bytes": 10**5, "gap_ns": 1000 * (r + 1)},
                {"rank": r, "op": "alltoall", "bytes": 4 * 10**5, "gap_ns": 500},
            )
        ],
    )
    result = ns.replay(trace, topology="torus")
    path = result.summary["critical_path"]
    parts = sum(path[f"{name}_s"] for name in ("compute", "overhead", "transfer", "sharing", "latency"))
    assert parts == pytest.approx(result.makespan_s, rel=1e-12)


def test_results_survive_the_disk(tmp_path):
    result = ns.replay(collective("allreduce", 4, 1000), topology="star")
    again = ns.read_result(result.write(tmp_path / "out"))
    assert again.content_hash == result.content_hash
    assert again.summary == json.loads(json.dumps(result.summary))
    for name in ("ops", "flows", "links", "ranks"):
        assert again.to_arrow(name).column_names == result.to_arrow(name).column_names
        assert set(result.to_arrow(name).column_names) == set(COLUMNS[name])


def test_a_folder_that_is_no_result_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"result .*: must be a folder that netsim wrote, got"):
        ns.read_result(tmp_path)
