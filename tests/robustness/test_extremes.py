"""Sizes, counts and times at the ends of their ranges: right answers, or one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import netsim as ns
from netsim.core.errors import InputError
from netsim.traffic import Protocol

IDEAL = Protocol.ideal()


def late_message(gap_ns, size):
    return ns.Trace.from_rows(
        n_ranks=2,
        rows=[
            {"rank": 0, "op": "compute", "gap_ns": gap_ns},
            {"rank": 0, "op": "send", "peer": 1, "bytes": size},
            {"rank": 1, "op": "recv", "peer": 0, "bytes": size},
        ],
    )


@pytest.mark.parametrize("seconds", [1, 1000, 10**6, 10**9])
@pytest.mark.parametrize("size", [1, 8, 10**6])
def test_bytes_are_exact_however_late_the_message(seconds, size):
    # At 1000 s a tick of the float64 clock is 1.1e-13 s; one byte at 100 Gb/s takes 8e-11 s.
    star = ns.topologies.star(n=2, capacity="100Gbps", latency=0.0)
    result = ns.replay(late_message(seconds * 10**9, size), topology=star, protocol=IDEAL)
    assert result.makespan_s == pytest.approx(seconds + size / 12.5e9, rel=1e-15, abs=np.spacing(float(seconds)))
    links = result.to_pandas("links").groupby("link")["bytes"].sum()
    assert sorted(links) == pytest.approx([size, size], rel=1e-12)
    assert sum(layer["bytes"] for layer in result.summary["layers"]) == 2 * size


def test_a_clock_coarser_than_a_nanosecond_is_said():
    star = ns.topologies.star(n=2)
    notes = [ns.replay(late_message(s * 10**9, 1), topology=star).summary["notes"] for s in (10**6, 10**9)]
    # A million seconds are 277.8 hours.
    kept = "1 span of local work longer than 24 h, up to {}: kept; --longest-gap drops such (longest_gap_s)"
    assert notes[0] == [kept.format("277.8 h")]
    # Doubles between 2^29 and 2^30 are 2^-23 apart.
    assert notes[1] == [
        kept.format("2.778e+05 h"),
        "the run is so long that moments at its end are known to 1e-07 s only",
    ]


@pytest.mark.parametrize("capacity", [np.inf, 1e300])
def test_links_that_never_limit_cost_latency_only_and_count_their_bytes(capacity):
    star = ns.topologies.star(n=3, capacity=capacity, latency=1e-6)
    trace = ns.Trace.from_flows(n_ranks=3, start_ns=[0, 0, 5000], src=[0, 1, 0], dst=[1, 2, 1], bytes=[10**9, 7, 1])
    result = ns.replay(trace, topology=star)
    assert result.makespan_s == pytest.approx(7e-6, rel=1e-9)
    by_link = result.to_pandas("links").groupby(["src", "dst"], observed=True)["bytes"].sum().to_dict()
    assert by_link == pytest.approx(
        {
            ("host 0", "switch 0"): 10**9 + 1,
            ("switch 0", "host 1"): 10**9 + 1,
            ("host 1", "switch 0"): 7,
            ("switch 0", "host 2"): 7,
        }
    )


def test_local_work_beyond_the_range_of_stored_times_names_the_call():
    with pytest.raises(InputError) as error:
        ns.replay(late_message(10**12, 1), topology=ns.topologies.star(n=2), compute_scale=1e308)
    assert str(error.value) == (
        "rank 0, op 0: local work must be shorter than 9.22e+09 s, the range of 64-bit nanoseconds, got inf s; "
        "check the compute scale and the speed of a rank"
    )


def test_totals_beyond_64_bits_are_refused():
    star = ns.topologies.star(n=2)
    flows = ns.Trace.from_flows(n_ranks=2, start_ns=[0] * 4, src=[0] * 4, dst=[1] * 4, bytes=[2**62] * 4)
    with pytest.raises(InputError) as error:
        ns.replay(flows, topology=star)
    assert str(error.value) == "trace: all its transfers together must be below 2^63 bytes, got 1.845e+19 bytes"
    rows = [{"rank": r, "op": "allgather", "bytes": 2**62} for r in range(8)]
    with pytest.raises(InputError) as error:
        ns.replay(ns.Trace.from_rows(n_ranks=8, rows=rows), topology=ns.topologies.star(n=8))
    assert str(error.value) == "allgather: sizes of its 8 members must add up to less than 2^63 bytes, got 3.689e+19"


def test_a_damaged_rank_number_is_no_machine_of_that_size(refused, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"src": [0, 2**31 - 1], "dst": [1, 1], "bytes": [5, 5]}), path)
    for command in (("trace", "info"), ("trace", "check"), ("replay",)):
        assert refused(*command, path) == (
            f"{path}: ranks must be numbered 0, 1, 2, ..., got rank 2147483647 in 2 rows; number the ranks that occur"
        )


def test_more_ranks_than_int32():
    with pytest.raises(InputError) as error:
        ns.Trace.from_rows(n_ranks=2**40, rows=[])
    assert str(error.value) == f"communicators: the number of ranks must be 2147483647 or less, got {2**40}"


def test_columns_are_one_dimensional():
    with pytest.raises(InputError) as error:
        ns.Trace.from_flows(n_ranks=2, start_ns=[[0]], src=[[0]], dst=[[1]], bytes=[[5]])
    assert str(error.value) == "flows trace: column start_ns must have one dimension, got shape (1, 1)"


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_traces_in_which_nothing_happens(run, tmp_path, n):
    path = tmp_path / "t.parquet"
    _write(n, path)
    assert run("trace", "info", path)[0] == 0
    assert run("trace", "check", path)[0] == 0
    status, out, err = run("replay", path, "--topo", "star")
    assert (status, err) == (0, "")
    assert "no communication" in out
    assert "network-bound   0.0 %" in out


def _write(n, path):
    from netsim.traces import write_trace

    write_trace(ns.Trace.from_rows(n_ranks=n, rows=[]), path)


def test_all_ranks_on_one_host_use_no_link():
    rows = [{"rank": r, "op": "alltoall", "bytes": 8000} for r in range(8)]
    trace = ns.Trace.from_rows(n_ranks=8, rows=rows)
    result = ns.replay(trace, topology=ns.topologies.star(n=1), ranks_per_host=8, protocol=IDEAL)
    assert result.makespan_s == 0
    # Each of 8 ranks sends 1000 bytes to each of 7 others.
    assert (result.summary["network_bytes"], result.summary["on_host_bytes"]) == (0, 56_000)
    assert result.to_arrow("links").num_rows == 0


def test_a_hundred_thousand_ranks_of_one_call_each():
    n = 100_000
    rank = np.arange(n)
    trace = ns.Trace.from_flows(
        n_ranks=n, start_ns=np.zeros(n, np.int64), src=rank, dst=rank ^ 1, bytes=np.full(n, 125)
    )
    star = ns.topologies.star(n=n, capacity="1Gbps", latency=0.0)
    # Disjoint pairs: 125 B at 125 MB/s each.
    assert ns.replay(trace, topology=star, bins=0).makespan_s == pytest.approx(1e-6, rel=1e-12)
