"""Damaged input and large or odd networks, from the file to the answer; expected values are worked out by hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.engine import run_flows
from netsim.traces import check_trace, drop_absurd_times, read_trace, recorded_span_s, write_trace
from netsim.traffic.taskgraph import GraphBuilder

MB = 10**6
YEAR_NS = 365 * 86400 * 10**9


def summary_of(run, *words):
    status, out, err = run("replay", *words, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)["summary"]


# ---- work created by completions


def test_every_flow_that_a_completion_starts_ends_once_and_never_before_its_cause():
    # 1000 pairs of hosts pass a message of 1000 bytes to and fro, 100 times: each starts when the one before arrives.
    pairs, turns = 1000, 100
    build = GraphBuilder(n_ranks=2 * pairs)
    for pair in range(pairs):
        before = None
        for turn in range(turns):
            a, b = (2 * pair, 2 * pair + 1)[:: 1 if turn % 2 == 0 else -1]
            task = build.transfer(source=a, destination=b, size_bytes=1000)
            if before is not None:
                build.edge(before, task)
            before = task
    star = ns.topologies.star(n=2 * pairs, capacity="8Gbps", latency="1us")
    result = ns.simulate(build.graph(), topology=star, bins=0)
    # 1 us at 1 GB/s and twice 1 us of latency, a hundred times.
    assert result.makespan_s == pytest.approx(turns * 3e-6, rel=1e-9)
    flows = result.to_pandas("flows")
    assert len(flows) == pairs * turns
    assert flows.end_ns.notna().all()
    start, end = (flows[name].to_numpy(dtype=np.int64).reshape(pairs, turns) for name in ("start_ns", "end_ns"))
    assert (end > start).all()
    assert (start[:, 1:] >= end[:, :-1]).all()
    assert np.array_equal(end[0], 3000 * np.arange(1, turns + 1))


# ---- files of a rank that is gone


@pytest.fixture
def without_rank_2(tmp_path):
    """Four ranks; 0 and 1 exchange among themselves, 0 and 3 with the missing one."""
    rows = [{"rank": r, "op": "allreduce", "bytes": MB, "comm": 1} for r in (0, 1)]
    rows += [{"rank": r, "op": "allreduce", "bytes": MB} for r in (0, 1, 3)]
    rows += [{"rank": 3, "op": "send", "peer": 2, "bytes": MB}, {"rank": 0, "op": "recv", "peer": 2, "bytes": MB}]
    path = tmp_path / "part.parquet"
    write_trace(ns.Trace.from_rows(n_ranks=4, rows=rows, comms=[[0, 1]]), path)
    return path


def test_a_missing_rank_is_named_wherever_the_trace_is_opened(refused, without_rank_2):
    for words in (["replay"], ["trace", "info"], ["trace", "check"]):
        assert refused(*words, without_rank_2) == (
            f"{without_rank_2}: every rank that others communicate with must have rows, got none of rank 2; add the missing "
            "files, or drop and count what touches them (--allow-incomplete, allow_incomplete=True)"
        )


def test_what_touches_a_missing_rank_is_dropped_and_counted_as_asked(run, without_rank_2):
    words = [without_rank_2, "--allow-incomplete"]
    # Only the exchange of 0 and 1 is left: 1 MB each way; 3 + 1 + 1 calls touch rank 2.
    summary = summary_of(run, *words, "--topo", "star")
    assert summary["network_bytes"] == 2 * MB
    assert "rank 2 without rows: 5 operations touching it were dropped" in summary["notes"]
    assert "INCOMPLETE (missing-ranks)" in run("replay", *words)[1]
    status, out, _ = run("trace", "info", *words)
    assert status == 0
    assert "2 allreduce (2 MB)" in out
    assert run("trace", "check", *words)[0] == 0


# ---- impossible times


def damaged(gap_ns=0):
    """Two all-reduces on two ranks; between them a mark that ended before it began and one that lasted 200 years."""
    rows = []
    for r in (0, 1):
        rows += [
            {"rank": r, "op": "allreduce", "bytes": MB, "t_start": 1000, "t_end": 2000, "gap_ns": 1000},
            {"rank": r, "op": "mark", "t_start": 2500, "t_end": (2499, 2500 + 200 * YEAR_NS)[r], "gap_ns": gap_ns},
            {"rank": r, "op": "allreduce", "bytes": MB, "t_start": 3000, "t_end": 4000, "gap_ns": 1000},
        ]
    return ns.Trace.from_rows(n_ranks=2, rows=rows)


def test_rows_in_any_order_give_the_same_answer(tmp_path, run):
    trace = damaged()
    table = trace.table.drop_columns(["t_start", "t_end"])
    answers = []
    for seed in (None, 1, 2):
        order = np.arange(trace.n_rows) if seed is None else np.random.default_rng(seed).permutation(trace.n_rows)
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(table.take(pa.array(order)), path)
        summary = summary_of(run, path, "--topo", "star")
        assert ("rows were not in the order rank, stream, seq: sorted" in summary["notes"]) == (seed is not None)
        answers.append({k: v for k, v in summary.items() if k != "notes"})
    assert answers[0] == answers[1] == answers[2]


def test_impossible_durations_are_counted_and_change_nothing_else(tmp_path, run):
    path = tmp_path / "t.parquet"
    write_trace(damaged(), path)
    status, out, _ = run("trace", "check", path)
    assert status == 1
    assert "duration-negative: rank 0 seq 1 (mark) lasted -1 ns" in out
    assert "duration-absurd: rank 1 seq 1 (mark) lasted 1.752e+06 h, more than 24 h" in out
    # First call at 1000 ns, last end at 4000 ns: the two centuries are left out.
    assert "time      3 us" in run("trace", "info", path)[1]
    assert recorded_span_s(damaged()) == pytest.approx(3e-6, rel=1e-12)
    whole, cleaned = damaged(), drop_absurd_times(damaged())
    assert cleaned.meta.ledger == {"times dropped: impossible duration": 2}
    assert check_trace(cleaned).findings == ()
    assert cleaned.column("t_start").tolist().count(2500) == 0
    runs = [ns.replay(t, topology="star").to_arrow("ops") for t in (whole, cleaned)]
    assert runs[0].equals(runs[1])
    # The threshold is the user's: three centuries let the long one pass.
    assert drop_absurd_times(whole, longest_s=300 * YEAR_NS * 1e-9).meta.ledger == {
        "times dropped: impossible duration": 1
    }


def test_local_work_of_centuries_is_pointed_out_and_dropped_as_asked(tmp_path, run):
    path, clean = tmp_path / "t.parquet", tmp_path / "clean.parquet"
    write_trace(damaged(gap_ns=200 * YEAR_NS), path)
    write_trace(damaged(gap_ns=0), clean)
    kept = summary_of(run, path, "--topo", "star")
    assert kept["makespan_s"] > 200 * YEAR_NS * 1e-9
    assert (
        "2 spans of local work longer than 24 h, up to 1.752e+06 h: kept; --longest-gap drops such (longest_gap_s)"
        in kept["notes"]
    )
    dropped = summary_of(run, path, "--topo", "star", "--longest-gap", "1h")
    assert dropped["makespan_s"] == summary_of(run, clean, "--topo", "star")["makespan_s"]
    assert dropped["notes"][:2] == [
        "2 calls of negative length, or longer than 1 h: times dropped",
        "2 spans of local work longer than 1 h: dropped",
    ]
    assert "gap-absurd: rank 0 seq 1 (mark) comes after local work of more than 24 h" in run("trace", "check", path)[1]


def test_gaps_that_follow_from_times_are_dropped_too():
    rows = [
        {"rank": 0, "op": "mark", "t_start": t, "t_end": t + 10} for t in (0, 100, 100 * YEAR_NS, 100 * YEAR_NS + 60)
    ]
    trace = ns.Trace.from_rows(n_ranks=1, rows=rows)
    star = ns.topologies.star(n=1)
    # Work of 90 ns, 100 years, 50 ns.
    assert ns.replay(trace, topology=star).makespan_s == pytest.approx(100 * YEAR_NS * 1e-9)
    assert ns.replay(trace, topology=star, longest_gap_s=1.0).makespan_s == pytest.approx(140e-9, rel=1e-9)
    with pytest.raises(InputError, match=r"^longest gap: must be 0 or more seconds, got -1\.0$"):
        ns.replay(trace, topology=star, longest_gap_s=-1.0)


def test_starting_and_ending_mpi_is_no_part_of_the_recorded_time():
    times = [("init", 0, 900), ("barrier", 1000, 1500), ("finalize", 2000, 9000)]
    rows = [{"rank": r, "op": op, "t_start": a + 500 * r, "t_end": b + 600 * r} for r in (0, 1) for op, a, b in times]
    # Rank 0 from 900 to 2000, rank 1 from 1500 to 2500.
    assert recorded_span_s(ns.Trace.from_rows(n_ranks=2, rows=rows)) == pytest.approx(1100e-9, rel=1e-12)


def test_the_recorded_time_stands_beside_the_simulated_one(tmp_path, run):
    path = tmp_path / "t.parquet"
    write_trace(damaged(), path)
    out = run("replay", path, "--topo", "star")[1]
    [line] = [line for line in out.splitlines() if line.startswith("  recorded ")]
    assert line.split()[1:3] == ["3", "us"]
    untimed = tmp_path / "u.parquet"
    write_trace(ns.Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark"}]), untimed)
    assert "  recorded " not in run("replay", untimed, "--topo", "star")[1]


# ---- units of time


def test_the_unit_of_start_times_is_read_and_its_coarseness_said(tmp_path, run):
    base = {"src": [0, 2], "dst": [1, 3], "bytes": [MB, MB]}
    exact = pa.array([1000, 1300], pa.int64())
    pq.write_table(pa.table({**base, "start_ns": exact}), tmp_path / "ns.parquet")
    coarse = exact.cast(pa.duration("ns")).cast(pa.duration("us"), safe=False)
    pq.write_table(pa.table({**base, "start_ns": coarse}), tmp_path / "us.parquet")
    options = ["--topo", "star", "-p", "n=4", "-p", "latency=0", "-p", "capacity=8Gbps"]
    fine, rough = (summary_of(run, tmp_path / f"{unit}.parquet", *options) for unit in ("ns", "us"))
    # 1 MB at 1 GB/s after 1.3 us, or after 1 us where only microseconds were stored.
    assert fine["makespan_s"] == pytest.approx(1e-3 + 1.3e-6, rel=1e-12)
    assert rough["makespan_s"] == pytest.approx(1e-3 + 1e-6, rel=1e-12)
    said = "column start_ns: stored in us, so times are only exact to us"
    assert (said in fine["notes"], said in rough["notes"]) == (False, True)


@pytest.mark.parametrize("name", ["start", "start_us", "Time", "timestamp", "t_start"])
def test_start_times_without_a_known_unit_are_not_left_out_in_silence(refused, tmp_path, name):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"src": [0], "dst": [1], "bytes": [5], name: [7]}), path)
    assert refused("replay", path) == (
        f"{path}: a list of flows keeps its start times in the column start_ns (nanoseconds, or an Arrow time type), got a "
        f"column '{name}'; rename and convert it, or leave it out for a matrix without times"
    )


# ---- numbers that are none


NO_RATE = "{} row 2 capacity: rate must not be negative or NaN, got '{}'; write e.g. '100Gbps' or '100GB/s'"
NO_TIME = "{} row 2 latency: time must not be negative or NaN, got '{}'; write e.g. '1ns' or '1us'"


@pytest.mark.parametrize(
    ("capacity", "latency", "message"),
    [
        ("nanGbps", "1us", NO_RATE),
        ("-1Gbps", "1us", NO_RATE),
        ("1Gbps", "nanus", NO_TIME),
        ("1Gbps", "-1us", NO_TIME),
        ("1Gbps", "infs", "link 2 (host1 -> s): latency must be finite and not negative, in seconds, got inf"),
        (
            "0Gbps",
            "1us",
            "link 2 (host1 -> s): capacity must be above 0 bytes per second, got 0.0; leave a link out to have it down",
        ),
    ],
)
def test_impossible_links_of_a_file_are_named(refused, tmp_path, trace_file, capacity, latency, message):
    path = tmp_path / "net.csv"
    links = [f"host0,s,1Gbps,1us\nhost1,s,{capacity},{latency}\nhost2,s,1Gbps,1us\nhost3,s,1Gbps,0\n"]
    path.write_text("source,target,capacity,latency\n" + "".join(links))
    got = latency if message is NO_TIME else capacity
    assert refused("replay", trace_file, "--topo", path) == message.format(path, got)


@pytest.mark.parametrize("capacity", [np.nan, -1.0, -np.inf])
def test_the_compiled_solver_never_sees_such_a_capacity(capacity):
    with pytest.raises(InputError, match=r"^link 1: capacity must be 0 or more bytes per second, got "):
        run_flows(
            ptr=np.array([0, 2]), link=np.array([0, 1]), size_bytes=np.array([10.0]), start_s=np.zeros(1),
            capacity_bytes_per_s=np.array([1.0, capacity]),
        )  # fmt: skip


@pytest.mark.parametrize("latency", ["0", "0us"])
@pytest.mark.parametrize("capacity", ["infGbps", "80Gbps"])
def test_no_latency_and_no_limit_are_fine(run, trace_file, latency, capacity):
    options = ["--topo", "star", "-p", f"capacity={capacity}", "-p", f"latency={latency}"]
    options += ["--send-overhead", "0", "--recv-overhead", "0", "--collectives", "allreduce=recursive_doubling"]
    # Two steps of 1 MB on four ranks.
    expected = 0.0 if capacity == "infGbps" else 2 * MB / 1e10
    assert summary_of(run, trace_file, *options)["makespan_s"] == pytest.approx(expected, rel=1e-9)


# ---- nested, wide and shared networks


def test_machines_in_racks_in_pods_reach_each_other_over_equal_ways(tmp_path, run):
    # Two pods of two racks of two machines: 2, 4 or 6 links of 1 us between two machines.
    edges = [("pod" + p, "core") for p in "AB"]
    edges += [(f"rack{p}{r}", f"pod{p}") for p in "AB" for r in "12"]
    edges += [(f"host{p}{r}{m}", f"rack{p}{r}") for p in "AB" for r in "12" for m in "xy"]
    path = tmp_path / "net.csv"
    path.write_text("src,dst,latency_us\n" + "".join(f"{a},{b},1\n" for a, b in edges))
    src, dst = np.divmod(np.arange(64), 8)
    off = src != dst
    trace = tmp_path / "all.parquet"
    start = 10**6 * np.arange(off.sum())
    flows = ns.Trace.from_flows(n_ranks=8, start_ns=start, src=src[off], dst=dst[off], bytes=np.zeros(off.sum(), int))
    write_trace(flows, trace)
    status, _, err = run("replay", trace, "--topo", path, "-o", tmp_path / "out")
    assert status == 0, err
    table = ns.read_result(tmp_path / "out").to_pandas("flows")
    hops = np.zeros((8, 8), int)
    hops[table.src_rank, table.dst_rank] = table.hops
    assert np.array_equal(hops, hops.T)
    a, b = src[off], dst[off]
    expected = np.where(a // 2 == b // 2, 2, np.where(a // 4 == b // 4, 4, 6))
    assert hops[a, b].tolist() == expected.tolist()
    took = np.zeros((8, 8))
    took[table.src_rank, table.dst_rank] = table.end_ns - table.start_ns
    assert took[a, b].tolist() == (1000 * expected).tolist()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory as Linux gives it")
def test_a_wide_clos_is_replayed_in_less_than_a_gigabyte():
    # 8,192 hosts with 16 * 16 = 256 shortest paths between pods; a table of paths for all pairs would take terabytes.
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("takes minutes without JIT")
    code = (
        "import re, numpy as np, netsim as ns\n"
        "tree = ns.topologies.build('fat_tree', k=32)\n"
        "net = ns.topologies.Topology.from_links(n_hosts=tree.n_hosts, n_switches=tree.n_switches, source=tree.link_src, "
        "destination=tree.link_dst)\n"
        "n = net.n_hosts\n"
        "rank = np.arange(n)\n"
        "t = ns.Trace.from_flows(n_ranks=n, start_ns=0 * rank, src=rank, dst=(rank + n // 2) % n, bytes=0 * rank + 10**6)\n"
        "r = ns.replay(t, topology=net, routing='ecmp', bins=0)\n"
        "peak = int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read()).group(1)) * 1024\n"
        "print(n, r.status, peak, int(r.to_pandas('flows').hops.max()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hosts, status, peak, hops = done.stdout.split()
    assert (hosts, status, hops) == ("8192", "finished", "6")
    assert int(peak) < 10**9


def test_what_a_slow_link_leaves_unused_goes_to_others():
    # host0 sits behind a link of 10 GB/s, all others behind 100 GB/s; both flows end at host 2.
    net = ns.topologies.Topology.from_links(
        n_hosts=3,
        n_switches=1,
        source=[0, 1, 2, 3, 3, 3],
        destination=[3, 3, 3, 0, 1, 2],
        capacity=[10e9, 100e9, 100e9, 10e9, 100e9, 100e9],
        latency=0.0,
    )
    trace = ns.Trace.from_flows(n_ranks=3, start_ns=[0, 0], src=[0, 1], dst=[2, 2], bytes=[10**9, 9 * 10**9])
    result = ns.replay(trace, topology=net, certify=True)
    # 10 and 90 GB/s: both end at 0.1 s. An equal split of the shared link would need 0.15 s and more.
    assert result.to_pandas("flows").end_ns.tolist() == [10**8, 10**8]
    assert result.summary["bottleneck_links"][0]["utilisation"] == pytest.approx(1.0, rel=1e-9)


# ---- a recording of nothing


def test_a_recording_of_nothing_says_why_and_leaves_no_file(run, tmp_path):
    out = tmp_path / "t.parquet"
    status, _, err = run("capture", "-o", out, "--", sys.executable, "-c", "pass")
    if "needs mpicc" in err:
        pytest.skip("no MPI to record with")
    last = err.strip().splitlines()[-1]
    assert status == 2
    assert re.fullmatch(
        r"netsim: error: capture of .*: recorded nothing: no process called MPI_Init, got processes of .*; "
        r"run an MPI program that is linked with a shared MPI library",
        last,
    )
    assert list(tmp_path.iterdir()) == []


def test_read_trace_takes_what_it_wrote_after_repair(tmp_path):
    path = tmp_path / "t.parquet"
    cleaned = drop_absurd_times(damaged(gap_ns=200 * YEAR_NS))
    write_trace(cleaned, path)
    back = read_trace(path)
    assert back.meta.ledger == {
        "times dropped: impossible duration": 2,
        "gaps dropped: longer than the limit": 2,
    }
    assert back.content_hash == cleaned.content_hash
