from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from trace_programs import programs

from netsim.traces import Trace, describe_trace
from netsim.traces.schema import OP_NAMES


def halo() -> Trace:
    """Four ranks in a ring, each sends 1000 B right and 10 B left; then an all-reduce of 8 B."""
    rows: list[dict[str, Any]] = []
    for r in range(4):
        for peer, size in (((r + 1) % 4, 1000), ((r - 1) % 4, 10)):
            rows.append({"rank": r, "op": "send", "peer": peer, "tag": size, "bytes": size, "flags": "nonblocking"})
        for peer, size in (((r - 1) % 4, 1000), ((r + 1) % 4, 10)):
            rows.append({"rank": r, "op": "recv", "peer": peer, "tag": size, "bytes": size})
        rows.append({"rank": r, "op": "wait", "deps": [4, 3]})
        rows.append({"rank": r, "op": "allreduce", "bytes": 8})
    return Trace.from_rows(n_ranks=4, rows=rows, provenance="made by hand", ledger={"MPI_Put": 3})


def test_numbers() -> None:
    info = describe_trace(halo())
    assert [(o.op, o.calls, o.ranks, o.bytes) for o in info.ops] == [
        ("send", 8, 4, 4040),
        ("recv", 8, 4, 4040),
        ("wait", 4, 4, 0),
        ("allreduce", 4, 4, 32),
    ]
    assert (info.p2p_messages, info.p2p_bytes, info.n_pairs) == (8, 4040, 8)
    assert (info.collective_calls, info.collective_bytes) == (4, 32)
    assert info.message_bytes == {"min": 10, "median": 10, "90 %": 1000, "99 %": 1000, "max": 1000}
    assert info.heat == ((0, 1000, 0, 10), (10, 0, 1000, 0), (0, 10, 0, 1000), (1000, 0, 10, 0))
    assert (info.pairs[0].source, info.pairs[0].destination, info.pairs[0].bytes) == (0, 1, 1000)
    assert info.check is not None
    assert info.check.ok


def test_screen() -> None:
    trace = halo()
    assert describe_trace(trace).lines() == [
        f"24 rows of 4 ranks, profile ops, content {trace.content_hash[:12]}",
        "provenance made by hand",
        "time      not recorded",
        "calls     8 send (4.04 kB); 8 recv; 4 wait; 4 allreduce (32 B)",
        "messages  8, 4.04 kB, over 8 pairs of ranks",
        "sizes     min 10 B, median 10 B, 90 % 1 kB, 99 % 1 kB, max 1 kB",
        "collect.  4 calls, in which the ranks pass 32 B to the library",
        "largest   0 to 1: 1 kB, 1 to 2: 1 kB, 2 to 3: 1 kB, 3 to 0: 1 kB, 0 to 3: 10 B",
        "who sends to whom (down: from, across: to; '.' 10 B to '@' 1 kB)",
        "       0  |  @@  ..|",
        "       1  |..  @@  |",
        "       2  |  ..  @@|",
        "       3  |@@  ..  |",
        "integrity 24 rows of 4 ranks, 23 rules: all hold",
        "ledger    MPI_Put: 3",
    ]


@pytest.mark.parametrize("n", [64, 65, 1000])
def test_large_traces_fit_one_screen(n: int) -> None:
    rank = np.arange(n)
    trace = Trace.from_matrix(n_ranks=n, src=rank, dst=(rank + 1) % n, bytes=np.full(n, 8))
    info = describe_trace(trace)
    assert sum(map(sum, info.heat)) == 8 * n
    assert len(info.heat) <= 64
    lines = info.lines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120


@given(trace=programs())
def test_sums_agree_with_the_table(trace: Trace) -> None:
    info = describe_trace(trace)
    assert sum(o.calls for o in info.ops) == trace.n_rows
    names = np.array(trace.op_names, dtype=object)
    size = trace.column("bytes").astype(object)
    assert {o.op: o.bytes for o in info.ops} == {o: sum(size[names == o]) for o in set(names.tolist())}
    assert sum(map(sum, info.heat)) == info.p2p_bytes == sum(size[names == "send"])
    assert all(o.op in OP_NAMES for o in info.ops)
    assert json.loads(json.dumps(info.to_dict()))["p2p_bytes"] == info.p2p_bytes
    assert info.lines()


def test_matrix_counts_messages() -> None:
    matrix = Trace.from_matrix(n_ranks=2, src=[0, 1], dst=[1, 0], bytes=[300, 70], count=[3, 7])
    info = describe_trace(matrix)
    assert (info.p2p_messages, info.p2p_bytes) == (10, 370)
    # Three messages of 100 B and seven of 10 B.
    assert info.message_bytes == {"min": 10, "median": 10, "90 %": 100, "99 %": 100, "max": 100}


def test_times_phases_communicators_and_incompleteness() -> None:
    rows = [{"rank": r, "op": "barrier", "comm": 1, "phase": 0, "t_start": 1_000, "t_end": 3_001_000} for r in (0, 1)]
    meta: dict[str, Any] = {"time": "host", "time_quality": "good", "complete": "killed", "source": {"tool": "x"}}
    trace = Trace.from_rows(n_ranks=2, rows=rows, comms=[[1, 0]], **meta)
    trace = trace.replace(phases=pa.table({"phase": [0], "name": ["solve"]}))
    lines = describe_trace(trace, check=False).lines()
    assert lines[1:] == [
        "source    tool x",
        "INCOMPLETE: killed",
        "time      3 ms (host clocks, quality good)",
        "calls     2 barrier",
        "collect.  2 calls, in which the ranks pass 0 B to the library",
        "comms     2: comm 1 (2 ranks, 2 calls), WORLD (2 ranks, 0 calls)",
        "phases    solve (2 rows)",
    ]


@pytest.mark.parametrize(
    "trace",
    [
        Trace.from_rows(n_ranks=0, rows=[]),
        Trace.from_rows(n_ranks=4, rows=[]),
        Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "compute", "gap_ns": 5}]),
        Trace.from_flows(n_ranks=0, start_ns=[], src=[], dst=[], bytes=[]),
    ],
    ids=["no ranks", "no rows", "only computation", "no flows"],
)
def test_no_communication_is_said(trace: Trace) -> None:
    assert "no communication" in describe_trace(trace).lines()


def test_zero_byte_messages() -> None:
    rows = [{"rank": 0, "op": "send", "peer": 0, "tag": 0}, {"rank": 0, "op": "recv", "peer": 0, "tag": 0}]
    lines = describe_trace(Trace.from_rows(n_ranks=1, rows=rows)).lines()
    assert "messages  1, 0 B, over 1 pair of ranks" in lines
