from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from netsim.core.errors import InputError
from netsim.traces import Communicators, Trace, TraceMeta
from netsim.traces.schema import NO_TIME, OP_CODE


def message(match: str) -> str:
    """A pattern for the whole message."""
    return f"^{re.escape(match)}$"


def test_rows_are_sorted_by_rank_stream_and_numbered() -> None:
    trace = Trace.from_rows(
        n_ranks=2,
        rows=[
            {"rank": 1, "op": "mark"},
            {"rank": 0, "op": "compute", "stream": 1},
            {"rank": 0, "op": "barrier"},
            {"rank": 1, "op": "barrier"},
            {"rank": 0, "op": "mark"},
        ],
    )
    assert trace.op_names == ["barrier", "mark", "compute", "mark", "barrier"]
    assert trace.column("rank").tolist() == [0, 0, 0, 1, 1]
    assert trace.column("stream").tolist() == [0, 0, 1, 0, 0]
    assert trace.column("seq").tolist() == [0, 1, 0, 0, 1]
    assert trace.column("coll_seq").tolist() == [0, -1, -1, -1, 0]
    assert trace.meta.notes == ()


def test_collectives_are_counted_per_communicator_and_rank() -> None:
    rows = [{"rank": r, "op": "barrier", "comm": c} for c in (0, 1, 0, 1) for r in (0, 1)]
    trace = Trace.from_rows(n_ranks=2, rows=rows, comms=[[1, 0]])
    assert trace.column("coll_seq").tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_defaults_of_absent_columns_and_null_rows() -> None:
    trace = Trace.from_rows(
        n_ranks=1, rows=[{"rank": 0, "op": "mark", "t_start": 5, "t_end": 6}, {"rank": 0, "op": "mark"}]
    )
    assert trace.column("t_start").tolist() == [5, NO_TIME]
    assert trace.column("peer").tolist() == [-1, -1]
    assert trace.column("gap_ns").tolist() == [0, 0]
    assert trace.column("work").dtype == np.float64
    assert trace.column("flags").dtype == np.uint16
    assert trace.ragged("vbytes")[0].tolist() == [0, 0, 0]
    assert trace.ragged("xdeps")[1].shape == (0, 2)
    assert trace.labels("algo") == (pytest.approx([-1, -1]), ())
    assert (trace.has("t_start"), trace.has("peer")) == (True, False)


def test_flags_by_name_or_number() -> None:
    rows = [{"rank": 0, "op": "mark", "flags": f} for f in (3, "in_place", ["nonblocking", "cancelled"])]
    assert Trace.from_rows(n_ranks=1, rows=rows).column("flags").tolist() == [3, 4, 65]


def test_cross_stream_edges_are_pairs() -> None:
    rows = [{"rank": 0, "op": "mark"}, {"rank": 0, "op": "mark", "stream": 2, "xdeps": [(0, 0)]}]
    ptr, pairs = Trace.from_rows(n_ranks=1, rows=rows).ragged("xdeps")
    assert (ptr.tolist(), pairs.tolist()) == ([0, 0, 1], [[0, 0]])


def test_flows_and_matrix() -> None:
    flows = Trace.from_flows(n_ranks=3, start_ns=[0, 5], src=[0, 1], dst=[2, 2], bytes=[10, 2**40])
    assert flows.column("bytes").tolist() == [10, 2**40]
    assert flows.column("coflow").tolist() == [-1, -1]
    assert Trace.from_flows(n_ranks=0, start_ns=[], src=[], dst=[], bytes=[]).n_rows == 0
    matrix = Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[10], count=[2])
    assert matrix.column("count").tolist() == [2]


def test_op_codes_are_those_of_the_schema_whatever_the_dictionary() -> None:
    table = pa.table(
        {"rank": [0, 0], "seq": [0, 1], "op": pa.array(["mark", "init"]).dictionary_encode(), "bytes": [0, 0]}
    )
    trace = Trace(profile="ops", table=table, meta=TraceMeta(n_ranks=1), comms=Communicators.world(1))
    assert trace.column("op").tolist() == [OP_CODE["mark"], OP_CODE["init"]]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"op": "mark"}], "row 0: needs 'rank'"),
        ([{"rank": 0, "op": "mark", "size": 1}], "row 0: unknown column, got 'size'; valid: "),
        (
            [{"rank": 0, "op": "mark", "flags": "nonblockin"}],
            "row 0: unknown flag, got 'nonblockin'; did you mean 'nonblocking'? ",
        ),
        ([{"rank": 0, "op": "mark", "tag": "x"}], "column tag: must hold int32, got "),
        ([{"rank": 2**40, "op": "mark"}], "column rank: must hold int32, got "),
    ],
)  # fmt: skip
def test_bad_rows(rows: list[dict[str, object]], text: str) -> None:
    with pytest.raises(InputError) as caught:
        Trace.from_rows(n_ranks=1, rows=rows)
    assert str(caught.value).startswith(text)


def test_unknown_operations_are_listed_with_counts_and_ranks() -> None:
    names = ["send", "fused_sendrecv", "fused_sendrecv", "allgather_coalesced"]
    rows = [{"rank": r, "op": op, "peer": 0, "tag": 0} for r, op in enumerate(names)]
    want = (
        "trace column op: unknown operations, got 'allgather_coalesced' x 1 on rank 3; "
        "'fused_sendrecv' x 2 on ranks 1-2; map them to the vocabulary in docs/trace-format.md"
    )
    with pytest.raises(InputError, match=message(want)):
        Trace.from_rows(n_ranks=4, rows=rows)


def test_misspelt_operation_gets_a_suggestion() -> None:
    want = "trace column op: unknown operations, got 'al_reduce' x 1 on rank 0; did you mean 'allreduce'?"
    with pytest.raises(InputError, match=message(want)):
        Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "al_reduce"}])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: t.column("deps"), "column deps: holds lists; use Trace.ragged"),
        (lambda t: t.column("dtype"), "column dtype: holds names; use Trace.labels"),
        (lambda t: t.labels("tag"), "column tag: does not hold names; use Trace.column"),
        (lambda t: t.ragged("tag"), "column tag: does not hold lists; use Trace.column"),
    ],
)
def test_wrong_accessor_names_the_right_one(call: object, text: str) -> None:
    trace = Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark"}])
    with pytest.raises(InputError, match=message(text)):
        call(trace)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (
            {"time_quality": "god"},
            "trace metadata time_quality: unknown value, got 'god'; "
            "did you mean 'good'? valid: good, none, oversubscribed, unsynced",
        ),
        ({"n_ranks": -1}, "trace metadata n_ranks: must be a whole number, 0 or more, got -1"),
    ],
)  # fmt: skip
def test_bad_metadata(meta: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=message(text)):
        TraceMeta(**{"n_ranks": 1, **meta})  # type: ignore[arg-type]


def test_ledger_adds_up() -> None:
    meta = TraceMeta(n_ranks=1, ledger={"a": 1}).with_notes("n", ledger={"a": 2, "b": 3})
    assert (meta.ledger, meta.notes) == ({"a": 3, "b": 3}, ("n",))


def test_communicators() -> None:
    comms = Communicators.build(n_ranks=4, members=[[3, 1, 0], [2]], names=["rows", "solo"])
    assert comms.members(1).tolist() == [3, 1, 0]
    assert (comms.size(2), comms.n, comms.name) == (1, 3, ("WORLD", "rows", "solo"))
    with pytest.raises(InputError, match=message("communicators: each of the 1 communicators needs a name, got 0")):
        Communicators(np.array([0, 1]), np.array([0]), ())


# ---- content hash


def small() -> Trace:
    rows = [
        {"rank": 0, "op": "allreduce", "bytes": 8, "dtype": "float32", "redop": "sum"},
        {"rank": 1, "op": "allreduce", "bytes": 8, "dtype": "float32", "redop": "sum"},
        {"rank": 0, "op": "send", "peer": 1, "tag": 3, "bytes": 5},
        {"rank": 1, "op": "recv", "peer": 0, "tag": 3, "bytes": 5},
    ]
    return Trace.from_rows(n_ranks=2, rows=rows)


def test_hash_ignores_what_cannot_change_a_result() -> None:
    trace = small()
    meta = TraceMeta(n_ranks=2, source={"tool": "x"}, provenance="p", licence="l", notes=("n",), ledger={"a": 1})
    table = trace.table
    variants = [
        trace.replace(meta=meta),
        trace.replace(table=table.append_column("extra", pa.array([1, 2, 3, 4]))),
        trace.replace(table=table.append_column("gap_ns", pa.array([0, 0, None, 0], pa.int64()))),
        trace.replace(table=table.append_column("deps", pa.array([[], None, [], []], pa.list_(pa.int32())))),
        trace.replace(table=table.append_column("algo", pa.nulls(4, pa.string()))),
        trace.replace(
            table=table.set_column(table.column_names.index("bytes"), "bytes", table["bytes"].cast(pa.int16()))
        ),
        trace.replace(
            table=table.set_column(table.column_names.index("op"), "op", table["op"].cast(pa.large_string()))
        ),
        trace.replace(table=pa.concat_tables([table.slice(0, 1), table.slice(1)])),
        trace.replace(table=table.select(table.column_names[::-1])),
        trace.replace(table=table.take(pa.array([3, 1, 0, 2]))),
    ]
    assert [v.content_hash == trace.content_hash for v in variants] == [True] * len(variants)


def test_hash_sees_what_can_change_a_result() -> None:
    trace = small()
    table, n = trace.table, trace.table.column_names.index
    renamed = pa.array(["float32", "float64"] * 2)
    variants = [
        trace.replace(table=table.set_column(n("bytes"), "bytes", pa.array([8, 5, 8, 6]))),
        trace.replace(table=table.set_column(n("tag"), "tag", pa.array([None, 3, None, 4]))),
        trace.replace(table=table.set_column(n("dtype"), "dtype", renamed)),
        trace.replace(table=table.append_column("deps", pa.array([None, [1], None, None]))),
        trace.replace(table=table.append_column("gap_ns", pa.array([1, 0, 0, 0]))),
        trace.replace(comms=Communicators.build(n_ranks=2, members=[[1]])),
        trace.replace(comms=Communicators.build(n_ranks=2, members=[[0]])),
        trace.replace(meta=TraceMeta(n_ranks=2, time_quality="oversubscribed")),
        trace.replace(phases=pa.table({"phase": [0], "name": ["init"]})),
    ]
    assert len({v.content_hash for v in [trace, *variants]}) == len(variants) + 1


def test_a_value_may_not_slip_from_one_list_to_the_next() -> None:
    def build(lists: list[list[int]]) -> str:
        rows = [{"rank": 0, "op": "mark"}, *({"rank": 0, "op": "mark", "deps": d} for d in lists)]
        return Trace.from_rows(n_ranks=1, rows=rows).content_hash

    assert build([[1], [1, 2]]) != build(
        [
            [1],
            [1],
        ]
    )
    assert build([[1], [1], [1]]) != build([[1], [], [1, 1]])
