from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_programs import programs

from netsim.core.errors import InputError
from netsim.traces import Communicators, Trace, TraceMeta, TraceWriter, io, iter_batches, read_trace, write_trace

once = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def whole(text: str) -> str:
    return f"^{re.escape(text)}$"


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Paths in messages are those that the user gave: work inside the folder, with relative ones."""
    with contextlib.chdir(tmp_path):
        yield Path()


def two_ranks(**meta: Any) -> Trace:
    rows = [
        {"rank": 0, "op": "send", "peer": 1, "tag": 3, "bytes": 5, "t_start": 100, "t_end": 400, "dtype": "int8"},
        {"rank": 1, "op": "recv", "peer": 0, "tag": 3, "bytes": 5, "t_start": 200, "t_end": 500, "dtype": "int8"},
    ]
    return Trace.from_rows(n_ranks=2, rows=rows, **meta)


# ---- round trips


@given(trace=programs())
@once
def test_round_trip(trace: Trace, tmp_path: Path) -> None:
    write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.table.equals(trace.table)
    assert back.content_hash == trace.content_hash
    assert back.meta == trace.meta
    assert (back.comms.ptr.tolist(), back.comms.member.tolist()) == (
        trace.comms.ptr.tolist(),
        trace.comms.member.tolist(),
    )


@given(trace=programs(), pieces=st.lists(st.integers(1, 5), min_size=1), group=st.integers(1, 12))
@once
def test_streaming_in_any_pieces_equals_writing_at_once(
    trace: Trace, pieces: list[int], group: int, tmp_path: Path
) -> None:
    path = tmp_path / "s.parquet"
    with TraceWriter(path, profile="ops", meta=trace.meta, comms=trace.comms, row_group_rows=group) as writer:
        at = 0
        while at < trace.n_rows:
            length = pieces[at % len(pieces)]
            writer.write(trace.table.slice(at, length))
            at += length
    assert writer.n_rows == trace.n_rows
    assert read_trace(path).content_hash == trace.content_hash
    # A row group holds whole ranks, or a part of one rank that is larger than a group.
    file = pq.ParquetFile(path)
    ranks = [set(file.read_row_group(i).column("rank").to_pylist()) for i in range(file.num_row_groups)]
    for before, after in pairwise(ranks):
        shared = before & after
        assert not shared or before == shared
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert all(size <= group for size in sizes)


def test_all_metadata_and_side_tables_survive(tmp_path: Path) -> None:
    meta = TraceMeta(
        n_ranks=2, time="host", time_quality="unsynced", gap_clock="thread-cpu", work_unit="flops", complete="killed",
        source={"tool": "netsim capture", "sha256": "00"}, provenance="made here", licence="CC0-1.0",
        unresolved={"wildcards": 2}, ledger={"MPI_Put": 3}, notes=("a", "b"),
    )  # fmt: skip
    trace = two_ranks().replace(
        meta=meta,
        comms=Communicators.build(n_ranks=2, members=[[1, 0], [1]], names=["turned", "solo"]),
        ranks=pa.table({"rank": [0, 1], "host": ["a", "b"], "clock_offset_ns": [0, -7]}),
        phases=pa.table({"phase": [0], "name": ["solve"], "kind": ["iteration"], "iter": [4], "parent": [None]}),
    )
    write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.meta == meta
    assert back.comms.name == ("WORLD", "turned", "solo")
    assert back.ranks.to_pydict() == {"rank": [0, 1], "host": ["a", "b"], "clock_offset_ns": [0, -7]}
    assert back.phases.to_pydict() == {
        "phase": [0],
        "name": ["solve"],
        "kind": ["iteration"],
        "iter": [4],
        "parent": [None],
    }
    assert back.content_hash == trace.content_hash


@pytest.mark.parametrize("profile", ["flows", "matrix"])
def test_other_profiles(profile: str, tmp_path: Path) -> None:
    if profile == "flows":
        trace = Trace.from_flows(n_ranks=3, start_ns=[5, 0], src=[0, 2], dst=[1, 1], bytes=[2**40, 0], coflow=[7, 7])
    else:
        trace = Trace.from_matrix(n_ranks=3, src=[0, 2], dst=[1, 1], bytes=[2**40, 0], count=[3, 1])
    write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.profile == profile
    assert back.table.equals(trace.table)


def test_empty_trace(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet", profile="ops", meta=TraceMeta(n_ranks=4)):
        pass
    back = read_trace(tmp_path / "t.parquet")
    assert (back.n_rows, back.n_ranks, back.column("bytes").tolist()) == (0, 4, [])


def test_large_side_tables_make_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = two_ranks().replace(ranks=pa.table({"rank": [0, 1], "host": ["a", "b"]}))
    single = trace.content_hash
    monkeypatch.setattr(io, "SIDE_LIMIT_BYTES", 10)
    for _ in range(2):  # the second time it replaces the first
        write_trace(trace, tmp_path / "t.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.parquet"]
    assert sorted(p.name for p in (tmp_path / "t.parquet").iterdir()) == [
        "comms.parquet",
        "ops.parquet",
        "ranks.parquet",
    ]
    back = read_trace(tmp_path / "t.parquet")
    assert back.content_hash == single
    assert back.ranks.to_pydict() == {"rank": [0, 1], "host": ["a", "b"]}
    assert [t.num_rows for t in iter_batches(tmp_path / "t.parquet")] == [2]
    monkeypatch.undo()
    write_trace(trace, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").is_file()


def test_wide_communicator_tables_pass_the_limit(tmp_path: Path) -> None:
    # 40,000 communicators of 50 random members: far above 4 MiB even compressed.
    rng = np.random.default_rng(0)
    member = np.concatenate([np.arange(5000), *(np.sort(rng.choice(5000, 50, replace=False)) for _ in range(40_000))])
    ptr = np.r_[0, 5000 + 50 * np.arange(40_001)]
    comms = Communicators(ptr, member, ("WORLD", *(f"c{i}" for i in range(40_000))))
    trace = Trace.from_rows(n_ranks=5000, rows=[{"rank": 0, "op": "mark"}], comms=comms)
    write_trace(trace, tmp_path / "wide")
    assert (tmp_path / "wide").is_dir()
    assert read_trace(tmp_path / "wide").content_hash == trace.content_hash


# ---- what is loaded


def test_columns_and_batches(tmp_path: Path) -> None:
    write_trace(two_ranks(), tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet", columns=["dtype"])
    assert trace.table.column_names == ["rank", "seq", "op", "peer", "tag", "bytes", "dtype"]
    batches = list(iter_batches(tmp_path / "t.parquet", columns=["op", "bytes"], batch_rows=1))
    assert [b.to_pydict() for b in batches] == [{"op": ["send"], "bytes": [5]}, {"op": ["recv"], "bytes": [5]}]
    with pytest.raises(InputError, match=r"^column pear: not in the profile ops; did you mean 'peer'\? "):
        read_trace(tmp_path / "t.parquet", columns=["pear"])


# ---- the same data from other writers


@pytest.mark.parametrize("width", ["int16", "int32", "int64", "uint32", "float64"])
@pytest.mark.parametrize("strings", ["string", "large_string", "dictionary"])
def test_variants_of_the_same_data_have_the_same_hash(width: str, strings: str, tmp_path: Path) -> None:
    trace = two_ranks()
    write_trace(trace, tmp_path / "ours.parquet")
    table = pq.read_table(tmp_path / "ours.parquet")
    footer = pq.ParquetFile(tmp_path / "ours.parquet").metadata.metadata
    keys = {k: v for k, v in footer.items() if k.startswith(b"netsim.")}
    kind = {
        "string": pa.string(),
        "large_string": pa.large_string(),
        "dictionary": pa.dictionary(pa.int16(), pa.string()),
    }
    for name in ("rank", "peer", "bytes", "seq"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].cast(pa.type_for_alias(width)))
    for name in ("op", "dtype"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].cast(pa.string()).cast(kind[strings]))
    table = table.select(table.column_names[::-1]).append_column("x", pa.array(["a", "b"]))
    for order in (1, -1):  # metadata in any order, among those of another writer
        metadata = dict([*keys.items(), (b"pandas", b"{}")][::order])
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "theirs.parquet", compression="snappy")
        back = read_trace(tmp_path / "theirs.parquet")
        assert back.content_hash == trace.content_hash
        assert back.meta.notes == ("unknown columns ignored: x",)


def test_through_pandas(tmp_path: Path) -> None:
    trace = Trace.from_matrix(n_ranks=3, src=[0, 1], dst=[1, 2], bytes=[10, 20], count=[1, 2])
    trace.table.to_pandas().to_parquet(tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.content_hash == trace.content_hash
    assert back.meta.notes == (
        "not written by netsim: 3 ranks going by the highest number, only the communicator WORLD",
    )


def test_shuffled_rows_are_sorted_with_a_note(tmp_path: Path) -> None:
    trace = two_ranks()
    table = trace.table.take(pa.array([1, 0]))
    pq.write_table(table.drop_columns(["t_start", "t_end"]), tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.column("rank").tolist() == [0, 1]
    assert "rows were not in the order rank, stream, seq: sorted" in back.meta.notes


@pytest.mark.parametrize("kind", ["timestamp", "duration"])
def test_time_unit_is_read_from_the_schema(kind: str, tmp_path: Path) -> None:
    # Two events 300 ns apart, saved in microseconds: both round to 1 us, and the trace says so.
    make = pa.timestamp if kind == "timestamp" else pa.duration
    base = {"rank": [0, 0], "seq": [0, 1], "op": ["mark", "mark"], "bytes": [0, 0]}
    exact = pa.array([1000, 1300], pa.int64())
    pq.write_table(pa.table({**base, "t_start": exact.cast(make("ns"))}), tmp_path / "ns.parquet")
    pq.write_table(
        pa.table({**base, "t_start": exact.cast(make("ns")).cast(make("us"), safe=False)}), tmp_path / "us.parquet"
    )
    fine, coarse = read_trace(tmp_path / "ns.parquet"), read_trace(tmp_path / "us.parquet")
    assert fine.column("t_start").tolist() == [1000, 1300]
    assert coarse.column("t_start").tolist() == [1000, 1000]
    assert "column t_start: stored in us, so times are only exact to us" in coarse.meta.notes
    assert len(fine.meta.notes) == 1


def test_integers_without_a_unit_are_refused_unless_the_field_says_it(tmp_path: Path) -> None:
    base = {"rank": [0], "seq": [0], "op": ["mark"], "bytes": [0], "gap_ns": [7], "t_start": [3]}
    table = pa.table(base)
    pq.write_table(table, tmp_path / "t.parquet")
    text = (
        "t.parquet column t_start: a time column of plain integers must say its unit, got int64; "
        "store an Arrow timestamp or duration, or put the unit (ns, us, ms, s) in the field metadata"
    )
    with pytest.raises(InputError, match=whole(text)):
        read_trace(tmp_path / "t.parquet")
    field = table.schema.field("t_start")
    for unit, value in (("ns", 3), ("us", 3000), ("s", 3 * 10**9)):
        at = table.schema.get_field_index("t_start")
        said = table.cast(table.schema.set(at, field.with_metadata({"unit": unit})))
        pq.write_table(said, tmp_path / "t.parquet")
        trace = read_trace(tmp_path / "t.parquet")
        assert (trace.column("t_start").tolist(), trace.column("gap_ns").tolist()) == ([value], [7])
    said = table.cast(table.schema.set(at, field.with_metadata({"unit": "fortnight"})))
    pq.write_table(said, tmp_path / "t.parquet")
    text = "t.parquet column t_start: unknown unit of time, got 'fortnight'; use ns, us, ms or s"
    with pytest.raises(InputError, match=whole(text)):
        read_trace(tmp_path / "t.parquet")


def test_times_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    base = {"rank": [0], "seq": [0], "op": ["mark"], "bytes": [0]}
    pq.write_table(pa.table({**base, "t_start": pa.array([2**62], pa.duration("s"))}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=whole("t.parquet column t_start: times in ns must fit 64 bits, got unit s")):
        read_trace(tmp_path / "t.parquet")


# ---- bad files


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=whole("no.parquet: no such file; check the path")):
        read_trace(tmp_path / "no.parquet")


def test_empty_file_and_other_formats(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"")
    with pytest.raises(
        InputError, match=whole("t.parquet: the file is empty, got 0 bytes; was it written completely?")
    ):
        read_trace(path)
    path.write_bytes(b"rank,op\n0,send\n")
    text = (
        "t.parquet: not a Parquet file, got first bytes b'rank'; a trace is a Parquet file (docs/trace-format.md); "
        "pandas.read_csv(...).to_parquet(...) makes one of a CSV list"
    )
    with pytest.raises(InputError, match=whole(text)):
        read_trace(path)


def test_truncated_at_any_point(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(two_ranks(), path)
    data = path.read_bytes()
    for length in (4, 5, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(
            InputError, match=r"^t\.parquet: the Parquet file is cut off or damaged, got .*; copy it again"
        ):
            read_trace(path)


def test_damaged_pages(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(two_ranks(), path)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"^t\.parquet: the Parquet file is cut off or damaged, got .*; copy it again"):
        read_trace(path)
    with pytest.raises(InputError, match=r"^t\.parquet: the Parquet file is cut off or damaged, got .*; copy it again"):
        list(iter_batches(path))


def rewrite(path: Path, **entries: str | None) -> None:
    """Write the trace at ``path`` again with other netsim metadata; None removes a key."""
    table = pq.read_table(path)
    keys = dict(pq.ParquetFile(path).metadata.metadata)
    for name, value in entries.items():
        keys.pop(f"netsim.{name}".encode())
        if value is not None:
            keys[f"netsim.{name}".encode()] = value.encode()
    pq.write_table(table.replace_schema_metadata(keys), path)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"version": "2.0"}, "t.parquet: format version must be 1.x (this netsim reads and writes 1.0), got 2.0; write the "
         "trace again, or use the netsim that wrote it"),
        ({"version": None}, "t.parquet: format version must be 1.x (this netsim reads and writes 1.0), got none; write the "
         "trace again, or use the netsim that wrote it"),
        ({"format": "opps"}, "t.parquet: unknown profile, got 'opps'; did you mean 'ops'? valid: flows, matrix, ops"),
        ({"n_ranks": "1"}, "t.parquet communicator 0 (WORLD): must be WORLD, the ranks 0..0 in order, got 2 members; put "
         "other groups at 1, 2, ..."),
        ({"meta": "{}x"}, "t.parquet: metadata are damaged, got JSONDecodeError('Extra data: line 1 column 3 (char 2)'); "
         "write the trace again"),
        ({"comms": "QUJD"}, "t.parquet: side table comms is damaged"),
        ({"comms": "%"}, "t.parquet: side table comms is damaged"),
    ],
)  # fmt: skip
def test_bad_metadata(entries: dict[str, str | None], text: str, tmp_path: Path) -> None:
    write_trace(two_ranks(), tmp_path / "t.parquet")
    rewrite(tmp_path / "t.parquet", **entries)
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path / "t.parquet")
    assert str(caught.value).startswith(text)
    assert len(str(caught.value).splitlines()) == 1


def test_minor_version_and_unknown_metadata_are_accepted(tmp_path: Path) -> None:
    write_trace(two_ranks(), tmp_path / "t.parquet")
    rewrite(tmp_path / "t.parquet", version="1.7", meta='{"time": "host", "mood": "good"}')
    assert read_trace(tmp_path / "t.parquet").meta.time == "host"


def test_missing_required_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(two_ranks(), path)
    keys = pq.ParquetFile(path).metadata.metadata
    table = pq.read_table(path).drop_columns(["bytes"])
    pq.write_table(table.replace_schema_metadata(keys), path)
    text = (
        "t.parquet: required column is missing, got no 'bytes'; "
        "columns: rank, seq, op, peer, tag, t_start, t_end, dtype"
    )
    with pytest.raises(InputError, match=whole(text)):
        read_trace(path)
    pq.write_table(table, path)
    text = (
        "t.parquet: not a netsim trace, and required columns are missing, got no bytes for the profile ops; "
        "docs/trace-format.md lists the columns"
    )
    with pytest.raises(InputError, match=whole(text)):
        read_trace(path)


def test_directory_that_is_no_trace(tmp_path: Path) -> None:
    text = f"{tmp_path}: a trace directory holds one of ops.parquet, flows.parquet, matrix.parquet, got none of them"
    with pytest.raises(InputError, match=whole(text)):
        read_trace(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "keep.txt").write_text("mine")
    with pytest.raises(InputError, match=whole("data: is a directory, but not a trace; choose another name")):
        write_trace(two_ranks(), tmp_path / "data")
    assert [p.name for p in tmp_path.rglob("*")] == ["data", "keep.txt"]


def test_missing_rank_is_named_or_dropped_with_a_count(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"rank": r, "op": "barrier", "comm": 1} for r in (0, 1)]
    rows += [{"rank": r, "op": "barrier"} for r in (0, 1, 3)]
    rows += [{"rank": 0, "op": "send", "peer": 2, "tag": 0}, {"rank": 3, "op": "recv", "peer": 2, "tag": 0}]
    write_trace(Trace.from_rows(n_ranks=4, rows=rows, comms=[[0, 1]]), tmp_path / "t.parquet")
    text = (
        "t.parquet: every rank that others communicate with must have rows, got none of rank 2; "
        "add the missing files, or drop and count what touches them (--allow-incomplete, allow_incomplete=True)"
    )
    with pytest.raises(InputError, match=whole(text)):
        read_trace(tmp_path / "t.parquet")
    part = read_trace(tmp_path / "t.parquet", allow_incomplete=True)
    assert (part.op_names, part.column("rank").tolist()) == (["barrier", "barrier"], [0, 1])
    assert part.meta.complete == "missing-ranks"
    assert part.meta.ledger == {
        "dropped barrier: rank 2 without rows": 3,
        "dropped recv: rank 2 without rows": 1,
        "dropped send: rank 2 without rows": 1,
    }


def test_a_rank_nobody_talks_to_may_be_idle(tmp_path: Path) -> None:
    trace = Trace.from_rows(n_ranks=3, rows=[{"rank": 0, "op": "compute"}])
    write_trace(trace, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").n_rows == 1


# ---- the writer


def stream(path: Path, profile: str, batches: Iterable[dict[str, list[Any]]]) -> None:
    with TraceWriter(path, profile=profile, meta=TraceMeta(n_ranks=2), row_group_rows=1) as writer:
        for batch in batches:
            writer.write(batch)


def test_writer_leaves_nothing_behind_after_an_error(tmp_path: Path) -> None:
    def batches() -> Iterator[dict[str, list[Any]]]:
        yield {"src": [0, 1], "dst": [1, 0], "bytes": [1, 1]}
        assert len(list(tmp_path.iterdir())) == 1
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match=r"^stop$"):
        stream(tmp_path / "t.parquet", "matrix", batches())
    assert list(tmp_path.iterdir()) == []


def test_writer_replaces_only_on_success(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_trace(two_ranks(), path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"required column is missing, got no 'dst'"):
        stream(path, "matrix", [{"src": [0]}])
    assert path.read_bytes() == before


def marks(rank: list[int], seq: list[int]) -> dict[str, list[Any]]:
    return {"rank": rank, "seq": seq, "op": ["mark"] * len(rank), "bytes": [0] * len(rank)}


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([marks([0, 0], [0, 1]), marks([0], [0])], "row 2: @, got (0, 0, 0) after (0, 0, 1)"),
        ([marks([0, 0], [0, 1]), marks([0], [1])], "row 2: @, got (0, 0, 1) after (0, 0, 1)"),
        ([marks([1, 0], [0, 0])], "row 1: @, got (0, 0, 0) after (1, 0, 0)"),
        ([marks([0, 0], [1, 0])], "row 1: @, got (0, 0, 0) after (0, 0, 1)"),
    ],
)
def test_writer_insists_on_the_order(batches: list[dict[str, list[Any]]], text: str, tmp_path: Path) -> None:
    text = "t.parquet " + text.replace("@", "rows must come in the order rank, stream, seq")
    with pytest.raises(InputError, match=whole(text)):
        stream(tmp_path / "t.parquet", "ops", batches)


def test_writer_insists_on_the_same_columns(tmp_path: Path) -> None:
    first = {"src": [0], "dst": [1], "bytes": [1]}
    text = "t.parquet: all batches need the same columns, got src, dst, bytes, count; the first had src, dst, bytes"
    with pytest.raises(InputError, match=whole(text)):
        stream(tmp_path / "t.parquet", "matrix", [first, {**first, "count": [1]}])


def test_writer_takes_what_is_known_at_the_end(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet", profile="ops", meta=TraceMeta(n_ranks=1)) as writer:
        writer.write({"rank": [0, 2], "seq": [0, 0], "op": ["mark", "mark"], "bytes": [0, 0]})
        writer.meta = TraceMeta(n_ranks=3, ledger={"MPI_Put": 1})
        writer.comms = Communicators.build(n_ranks=3, members=[[2]])
    back = read_trace(tmp_path / "t.parquet")
    assert (back.n_ranks, back.comms.n, back.meta.ledger) == (3, 2, {"MPI_Put": 1})


def test_unwritable_folder(tmp_path: Path) -> None:
    path = tmp_path / "no" / "t.parquet"
    with pytest.raises(InputError, match=r"^no/t\.parquet: cannot be written, got No such file or directory$"):
        write_trace(two_ranks(), path)


def test_encodings_are_those_of_the_schema(tmp_path: Path) -> None:
    rows = [{"rank": 0, "op": "alltoall", "bytes": 3, "vbytes": [3], "work": 1.5, "t_start": 1, "t_end": 2}]
    write_trace(Trace.from_rows(n_ranks=1, rows=rows, work_unit="flops"), tmp_path / "t.parquet")
    group = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {c.compression for c in columns.values()} == {"ZSTD"}
    assert "DELTA_BINARY_PACKED" in columns["t_start"].encodings
    assert "DELTA_BINARY_PACKED" in columns["vbytes.list.element"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["work"].encodings
    assert "RLE_DICTIONARY" in columns["op"].encodings


def test_large_traces_stream_in_bounded_memory(tmp_path: Path) -> None:
    """300,000 rows in row groups of 10,000: neither side may ever hold more than a few groups."""
    k, ranks = 10_000, 30
    start = pa.total_allocated_bytes()
    peak = 0
    with TraceWriter(tmp_path / "t.parquet", profile="ops", meta=TraceMeta(n_ranks=ranks), row_group_rows=k) as writer:
        for rank in range(ranks):
            seq = np.arange(k, dtype=np.int32)
            op = pa.DictionaryArray.from_arrays(np.zeros(k, dtype=np.int8), ["mark"])
            writer.write({"rank": np.full(k, rank), "seq": seq, "op": op, "bytes": np.arange(k)})
            peak = max(peak, pa.total_allocated_bytes() - start)
    total = 0
    for batch in iter_batches(tmp_path / "t.parquet", batch_rows=k):
        total += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - start)
    one_group = k * (4 + 4 + 1 + 8)
    assert total == ranks * k
    assert peak < 12 * one_group < ranks * one_group


def test_writer_takes_record_batches(tmp_path: Path) -> None:
    trace = two_ranks()
    with TraceWriter(tmp_path / "t.parquet", profile="ops", meta=trace.meta) as writer:
        for batch in trace.table.to_batches():
            writer.write(batch)
    assert read_trace(tmp_path / "t.parquet").content_hash == trace.content_hash
    with pytest.raises(InputError, match=r"^trace writer: unknown profile, got 'opps'; did you mean 'ops'\? "):
        TraceWriter(tmp_path / "t.parquet", profile="opps", meta=trace.meta)


def test_names_may_change_from_batch_to_batch(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.parquet", profile="ops", meta=TraceMeta(n_ranks=1)) as writer:
        for seq, dtype in enumerate(["int8", "float32", "int8"]):
            writer.write({"rank": [0], "seq": [seq], "op": ["mark"], "bytes": [0], "dtype": [dtype]})
    codes, names = read_trace(tmp_path / "t.parquet").labels("dtype")
    assert [names[code] for code in codes] == ["int8", "float32", "int8"]


def test_damaged_side_file_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "SIDE_LIMIT_BYTES", 10)
    write_trace(two_ranks(), tmp_path / "t")
    (tmp_path / "t" / "comms.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"^t/comms\.parquet: the Parquet file is cut off or damaged, got "):
        read_trace(tmp_path / "t")


def test_numbers_of_communicators_must_count_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "SIDE_LIMIT_BYTES", 10)
    write_trace(two_ranks(), tmp_path / "t")
    pq.write_table(
        pa.table({"comm": [0, 2], "name": ["a", "b"], "members": [[0, 1], [1]]}), tmp_path / "t" / "comms.parquet"
    )
    with pytest.raises(InputError, match=whole("t table comms: comm must count 0, 1, 2, ..., got 0, 2")):
        read_trace(tmp_path / "t")


def test_side_tables_that_cannot_be_written_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io, "SIDE_LIMIT_BYTES", 10)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(io.pq, "write_table", full)
    with pytest.raises(OSError, match=r"^no space left$"):
        write_trace(two_ranks(), tmp_path / "t")
    assert list(tmp_path.iterdir()) == []
