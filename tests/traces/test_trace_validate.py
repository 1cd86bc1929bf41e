"""Each rule of validation, broken once: the whole message."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from netsim.core.errors import InputError
from netsim.traces import Communicators, Trace, TraceMeta, validate

SEND = {"rank": 0, "op": "send", "peer": 1, "tag": 0, "bytes": 1}
BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({**SEND, "rank": 4}, "trace row 0 (rank 4 seq 0, send): rank must be one of the 4 ranks, got 4; 1 such row"),
    ({**SEND, "rank": -1}, "trace row 0 (rank -1 seq 0, send): rank must be one of the 4 ranks, got -1; 1 such row"),
    ({**SEND, "stream": -2}, "trace row 0 (rank 0 stream -2 seq 0, send): stream must be 0 or more, got -2; 1 such row"),
    ({**SEND, "seq": 3}, "trace row 0 (rank 0 seq 3, send): seq must count 0, 1, 2, ... within (rank, stream), "
     "got 3 instead of 0; 1 such row"),
    ({**SEND, "flags": 4096}, "trace row 0 (rank 0 seq 0, send): flags must be bits of the schema, got 4096; 1 such row"),
    ({**SEND, "comm": 2}, "trace row 0 (rank 0 seq 0, send): comm must be one of the 2 communicators, got 2; 1 such row"),
    ({**SEND, "peer": 4}, "trace row 0 (rank 0 seq 0, send): peer must be one of the 4 ranks, got 4; 1 such row"),
    ({**SEND, "peer": -1}, "trace row 0 (rank 0 seq 0, send): peer must be one of the 4 ranks, got -1; 1 such row"),
    ({**SEND, "peer": None}, "trace row 0 (rank 0 seq 0, send): needs a peer, got null; 1 such row"),
    ({**SEND, "tag": None}, "trace row 0 (rank 0 seq 0, send): needs a tag, 0 or more, got null; 1 such row"),
    ({**SEND, "tag": -5}, "trace row 0 (rank 0 seq 0, send): needs a tag, 0 or more, got -5; 1 such row"),
    ({**SEND, "bytes": -1}, "trace row 0 (rank 0 seq 0, send): bytes must be 0 or more, got -1; 1 such row"),
    ({**SEND, "bytes_actual": -9}, "trace row 0 (rank 0 seq 0, send): bytes_actual must be 0 or more, got -9; 1 such row"),
    ({**SEND, "gap_ns": -1}, "trace row 0 (rank 0 seq 0, send): gap_ns must be 0 or more, got -1; 1 such row"),
    ({**SEND, "comm": 1, "peer": 1}, "trace row 0 (rank 0 seq 0, send): peer must be a member of its communicator, "
     "got rank 1 in comm 1 (comm 1: ranks 0, 2); 1 such row"),
    ({**SEND, "comm": 1, "rank": 3, "peer": 0}, "trace row 0 (rank 3 seq 0, send): rank must be a member of its "
     "communicator, got rank 3 in comm 1 (comm 1: ranks 0, 2); 1 such row"),
    ({**SEND, "flags": "any_tag"}, "trace row 0 (rank 0 seq 0, send): a send cannot have a wildcard, got 32; 1 such row"),
    ({**SEND, "coll_seq": 0}, "trace row 0 (rank 0 seq 0, send): only collectives have coll_seq, got 0; 1 such row"),
    ({**SEND, "vbytes": [1] * 4}, "trace row 0 (rank 0 seq 0, send): only collectives have vbytes, got 4 entries; 1 such row"),
    ({**SEND, "deps": [1]}, "trace row 0 (rank 0 seq 0, send): deps must point to earlier rows of the same rank and "
     "stream, got [1] rows back; 1 such row"),
    ({**SEND, "sdeps": [0]}, "trace row 0 (rank 0 seq 0, send): sdeps must point to earlier rows of the same rank and "
     "stream, got [0] rows back; 1 such row"),
    ({**SEND, "xdeps": [(0, 0)]}, "trace row 0 (rank 0 seq 0, send): xdeps must point to rows of other streams of the "
     "same rank, got (stream, seq) [[0, 0]]; 1 such row"),
    ({**SEND, "xdeps": [(9, 0)]}, "trace row 0 (rank 0 seq 0, send): xdeps must point to rows of other streams of the "
     "same rank, got (stream, seq) [[9, 0]]; 1 such row"),
    ({"rank": 0, "op": "barrier", "coll_seq": None}, "trace row 0 (rank 0 seq 0, barrier): a collective needs coll_seq, "
     "0 or more, got null; 1 such row"),
    ({"rank": 0, "op": "bcast"}, "trace row 0 (rank 0 seq 0, bcast): needs the root in peer, got null; 1 such row"),
    # B17: a split list shorter than the group.
    ({"rank": 0, "op": "alltoall", "bytes": 3, "vbytes": [1, 2]}, "trace row 0 (rank 0 seq 0, alltoall): vbytes needs one "
     "entry per member of comm or entry of vpeer, got 2 entries for 4; 1 such row"),
    ({"rank": 0, "op": "alltoall", "vbytes": [0, -1, 0, 0]}, "trace row 0 (rank 0 seq 0, alltoall): vbytes must be 0 or "
     "more, got [0, -1, 0, 0]; 1 such row"),
    ({"rank": 0, "op": "neighbor_alltoall", "vpeer": [1, 4], "vbytes": [1, 1]}, "trace row 0 (rank 0 seq 0, "
     "neighbor_alltoall): vpeer must be some of the 4 ranks, got [1, 4]; 1 such row"),
    ({"rank": 0, "op": "neighbor_alltoall", "vpeer": [1, 2], "vbytes": [1, 1, 1]}, "trace row 0 (rank 0 seq 0, "
     "neighbor_alltoall): vbytes needs one entry per member of comm or entry of vpeer, got 3 entries for 2; 1 such row"),
    ({"rank": 0, "op": "compute", "work": 1.0}, "trace: has a column work, got no work_unit in the metadata; "
     "say its unit, e.g. flops"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "text"), BAD_ROWS, ids=[text.split(": ")[1][:40] for _, text in BAD_ROWS])
def test_one_bad_row(row: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_rows(n_ranks=4, rows=[row], comms=[[2, 0]])


def test_first_offender_is_named_and_the_rest_counted() -> None:
    rows = [{**SEND, "bytes": b} for b in (5, -3, 5, -4)]
    text = "trace row 1 (rank 0 seq 1, send): bytes must be 0 or more, got -3; 2 such rows"
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_rows(n_ranks=2, rows=rows)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_work_must_be_finite(value: float) -> None:
    text = f"trace row 0 (rank 0 seq 0, compute): work must be finite and 0 or more, got {value}; 1 such row"
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "compute", "work": value}], work_unit="flops")


def test_wildcard_receives_may_lack_peer_and_tag() -> None:
    row = {"rank": 0, "op": "recv", "flags": ["any_source", "any_tag"], "bytes": 4}
    assert Trace.from_rows(n_ranks=1, rows=[row]).column("peer").tolist() == [-1]


def test_local_rows_need_no_membership() -> None:
    trace = Trace.from_rows(n_ranks=2, rows=[{"rank": 1, "op": "comm_free", "comm": 1}], comms=[[0]])
    assert trace.n_rows == 1


@pytest.mark.parametrize(
    ("comms", "text"),
    [
        (
            Communicators(np.array([0, 2]), np.array([1, 0]), ("WORLD",)),
            "trace communicator 0 (WORLD): must be WORLD, the ranks 0..1 in order, got 2 members; put other groups at 1, 2, ...",
        ),
        (
            Communicators.build(n_ranks=2, members=[[0, 5]]),
            "trace communicator 1 (comm 1): members must be some of the 2 ranks, got 5",
        ),
        (
            Communicators.build(n_ranks=2, members=[[1, 0, 1]]),
            "trace communicator 1 (comm 1): a rank may be a member only once, got rank 1",
        ),
        (
            Communicators(np.array([0]), np.array([]), ()),
            "trace communicators: number 0 must be WORLD, got no communicator",
        ),
    ],
)
def test_bad_communicators(comms: Communicators, text: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_rows(n_ranks=2, rows=[{"rank": 0, "op": "mark"}], comms=comms)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"src": [2]}, "trace row 0: src must be one of the 2 ranks, got 2; 1 such row"),
        ({"dst": [-1]}, "trace row 0: dst must be one of the 2 ranks, got -1; 1 such row"),
        ({"bytes": [-7]}, "trace row 0: bytes must be 0 or more, got -7; 1 such row"),
        ({"start_ns": [-1]}, "trace row 0: start_ns must be 0 or more, got -1; 1 such row"),
        ({"bytes": [1, 2]}, "flows trace: columns must have the same length, got {'start_ns': 1, 'src': 1, 'dst': 1, 'bytes': 2}"),
        ({"bytes": [1.5]}, "trace column bytes: must hold whole numbers, got 1.5"),
    ],
)  # fmt: skip
def test_bad_flows(columns: dict[str, Any], text: str) -> None:
    good = {"start_ns": [0], "src": [0], "dst": [1], "bytes": [1]}
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_flows(n_ranks=2, **{**good, **columns})


def test_negative_count_in_a_matrix() -> None:
    text = "trace row 0: count must be 0 or more, got -1; 1 such row"
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[1], count=[-1])


def test_phase_must_exist() -> None:
    trace = Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark", "phase": 1}])
    with pytest.raises(
        InputError, match=r"^trace row 0 \(rank 0 seq 0, mark\): phase must be one of the 1 phases, got 1;"
    ):
        validate(trace.replace(phases=pa.table({"phase": [0], "name": ["a"]})))


def test_columns_of_a_table_from_elsewhere() -> None:
    def build(**columns: Any) -> Trace:
        data = {"rank": [0], "seq": [0], "op": ["mark"], "bytes": [0], **columns}
        table = pa.table({name: values for name, values in data.items() if values is not None})
        return Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=1), comms=Communicators.world(1))

    for columns, text in [
        ({"bytes": None}, "trace: required column is missing, got no 'bytes'; columns: rank, seq, op"),
        ({"tag": ["x"]}, "trace column tag: must hold whole numbers, got string"),
        ({"op": [1]}, "trace column op: must hold names, got int64"),
        ({"vbytes": [1]}, "trace column vbytes: must hold list<int64>, got int64"),
        ({"bytes": pa.array([None], pa.int64())}, "trace column bytes: must not be null, got 1 null row"),
        ({"rank": [2**33]}, "trace column rank: must hold whole numbers from -2147483648 to 2147483647, got 8589934592"),
        ({"rank": [-1e12]}, "trace column rank: must hold whole numbers from -2147483648 to 2147483647, got -1000000000000.0"),
        ({"work": ["a"]}, "trace column work: must hold numbers, got string"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
            build(**columns)
    assert build(peer=pa.nulls(1)).column("peer").tolist() == [-1]
    assert build(peer=[float("nan")]).column("peer").tolist() == [-1]


def test_null_entries_of_lists_are_refused() -> None:
    pair = pa.struct([("stream", pa.int32()), ("seq", pa.int32())])
    base = {"rank": [0], "seq": [0], "op": ["mark"], "bytes": [0]}
    for name, values in (
        ("deps", pa.array([[1, None]], pa.list_(pa.int64()))),
        ("xdeps", pa.array([[{"stream": 1, "seq": None}]], pa.list_(pair))),
        ("xdeps", pa.array([[None]], pa.list_(pair))),
    ):
        text = f"trace column {name}: entries of lists must not be null, got "
        with pytest.raises(InputError, match=f"^{re.escape(text)}(1 null entry|[2-9] null entries)$"):
            Trace(profile="ops", table=pa.table({**base, name: values}), meta=TraceMeta(n_ranks=1), comms=WORLD_OF_ONE)


WORLD_OF_ONE = Communicators.world(1)


def test_shape_of_the_table() -> None:
    table = pa.table({"src": [0], "dst": [0], "bytes": [1]})
    text = "trace: unknown profile, got 'matrx'; did you mean 'matrix'? valid: flows, matrix, ops"
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Trace(profile="matrx", table=table, meta=TraceMeta(n_ranks=1), comms=WORLD_OF_ONE)
    twice = pa.Table.from_arrays([*table.columns, table["bytes"]], names=["src", "dst", "bytes", "bytes"])
    with pytest.raises(InputError, match=r"^trace column bytes: occurs more than once$"):
        Trace(profile="matrix", table=twice, meta=TraceMeta(n_ranks=1), comms=WORLD_OF_ONE)


def test_large_strings_in_dictionaries_and_lists_of_other_widths() -> None:
    table = pa.table({
        "rank": [0, 0], "seq": [0, 1], "bytes": [0, 0],
        "op": pa.array(["mark", "mark"]).cast(pa.large_string()).dictionary_encode(),
        "dtype": pa.array(["int8", None]).cast(pa.large_string()).dictionary_encode(),
        "deps": pa.array([None, [1]], pa.large_list(pa.uint8())),
    })  # fmt: skip
    trace = Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=1), comms=WORLD_OF_ONE)
    validate(trace)
    assert trace.op_names == ["mark", "mark"]
    assert trace.labels("dtype")[0].tolist() == [0, -1]
    assert trace.ragged("deps")[1].tolist() == [1]
