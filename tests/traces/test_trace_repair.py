from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from trace_programs import programs

from netsim.core.errors import InputError
from netsim.traces import Trace, check_trace, drop_incomplete, drop_missing_ranks, drop_rows, validate


def edges(trace: Trace) -> set[tuple[int, int]]:
    """Dependencies as pairs of rows, by the definition: one row at a time."""
    found = set()
    for name in ("deps", "sdeps"):
        ptr, back = trace.ragged(name)
        found |= {(i - d, i) for i in range(trace.n_rows) for d in back[ptr[i] : ptr[i + 1]].tolist()}
    where = {
        key: i for i, key in enumerate(zip(*(trace.column(n).tolist() for n in ("rank", "stream", "seq")), strict=True))
    }
    ptr, pairs = trace.ragged("xdeps")
    for i in range(trace.n_rows):
        for stream, seq in pairs[ptr[i] : ptr[i + 1]].tolist():
            found.add((where[int(trace.column("rank")[i]), stream, seq], i))
    return found


@given(trace=programs(), data=st.data())
def test_edges_follow_their_rows(trace: Trace, data: st.DataObject) -> None:
    assume(trace.n_rows)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=trace.n_rows, max_size=trace.n_rows)))
    part = drop_rows(trace, keep=keep, reason="test")
    validate(part)
    new = np.cumsum(keep) - 1
    assert edges(part) == {(int(new[a]), int(new[b])) for a, b in edges(trace) if keep[a] and keep[b]}
    assert part.column("bytes").tolist() == trace.column("bytes")[keep].tolist()
    assert sum(part.meta.ledger.values()) == int((~keep).sum())


def test_edges_between_streams_follow_too() -> None:
    rows = [
        {"rank": 0, "op": "mark"},
        {"rank": 0, "op": "compute"},
        {"rank": 0, "op": "init", "stream": 1, "xdeps": [(0, 0), (0, 1)]},
    ]
    part = drop_rows(Trace.from_rows(n_ranks=1, rows=rows), keep=[False, True, True], reason="test")
    assert part.ragged("xdeps")[1].tolist() == [[0, 0]]
    assert part.op_names == ["compute", "init"]


def test_holes_in_the_numbers_of_collectives_are_closed() -> None:
    rows = [{"rank": r, "op": op} for op in ("barrier", "allreduce", "scan") for r in (0, 1)]
    trace = Trace.from_rows(n_ranks=2, rows=rows)
    part = drop_rows(trace, keep=[name != "allreduce" for name in trace.op_names], reason="test")
    assert part.column("coll_seq").tolist() == [0, 1, 0, 1]
    assert part.meta.ledger == {"dropped allreduce: test": 2}


def test_incomplete_tail_is_dropped_and_counted() -> None:
    rows: list[dict[str, Any]] = [{"rank": r, "op": "allgather", "bytes": 8} for r in (*range(32), 3, 17)]
    rows += [{"rank": 0, "op": "send", "peer": 1, "tag": 0}, {"rank": 2, "op": "recv", "peer": 5, "tag": 0}]
    trace = Trace.from_rows(n_ranks=32, rows=rows)
    assert not check_trace(trace).ok
    part = drop_incomplete(trace)
    assert check_trace(part).findings == ()
    assert (part.n_rows, part.op_names) == (32, ["allgather"] * 32)
    assert part.meta.notes == ("4 operations without counterpart on other ranks were dropped",)
    assert part.meta.ledger == {
        "dropped allgather: no counterpart": 2,
        "dropped send: no counterpart": 1,
        "dropped recv: no counterpart": 1,
    }


@given(trace=programs(), cut=st.integers(0, 10**6))
def test_a_run_that_was_killed_can_be_repaired(trace: Trace, cut: int) -> None:
    """Cut the calls of one rank at any point: after the repair no error is left."""
    assume(trace.n_rows)
    victim = int(trace.column("rank")[cut % trace.n_rows])
    at = int(trace.column("seq")[cut % trace.n_rows])
    keep = (trace.column("rank") != victim) | (trace.column("seq") < at)
    cut_trace = drop_rows(trace, keep=keep, reason="killed")
    part = drop_incomplete(cut_trace)
    # A vector in a complete instance, a root, a size: all as before.
    assert check_trace(part).errors == ()


@given(trace=programs())
def test_nothing_is_dropped_from_a_whole_trace(trace: Trace) -> None:
    assert drop_incomplete(trace) is trace


def test_missing_ranks_take_their_communicators_along() -> None:
    rows: list[dict[str, Any]] = [
        {"rank": r, "op": "barrier", "comm": c} for c, rs in ((1, [0, 1]), (2, [1])) for r in rs
    ]
    part = drop_missing_ranks(Trace.from_rows(n_ranks=3, rows=rows, comms=[[0, 1], [1, 2]]))
    assert (part.column("comm").tolist(), part.column("rank").tolist()) == ([1, 1], [0, 1])
    assert part.meta.notes == ("rank 2 without rows: 1 operation touching it was dropped",)


def test_bad_arguments() -> None:
    trace = Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark"}])
    with pytest.raises(InputError, match=r"^drop_rows: keep needs one value for each of the 1 rows, got \(2,\)$"):
        drop_rows(trace, keep=[True, True], reason="x")
    flows = Trace.from_flows(n_ranks=1, start_ns=[], src=[], dst=[], bytes=[])
    text = re.escape("drop_rows: needs a trace of calls (profile ops), got flows")
    with pytest.raises(InputError, match=f"^{text}$"):
        drop_rows(flows, keep=[], reason="x")
