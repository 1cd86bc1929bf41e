"""Programs that make every kind of call give exactly the rows that follow from their source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from capture_expected import COUNTED, Done, expected
from capture_mpis import PROGRAMS, Installed

from netsim.traces import Trace, check_trace, read_trace
from netsim.traces.capture import capture
from netsim.traces.schema import FLAGS

pytestmark = pytest.mark.mpi

FEATURES = ("Isendrecv", "Bcast_init", "Send_c")


def features_of(mpi: Installed) -> set[str]:
    found = {name for name in FEATURES if name in mpi.functions}
    # MPICH's status of a non-blocking sendrecv holds garbage: a wildcard in it stays open.
    return found | ({"Isendrecv status"} if "mpich" not in mpi.name else set())


def rows_of(trace: Trace, rank: int) -> list[dict[str, Any]]:
    rows = [row for row in trace.table.to_pylist() if row["rank"] == rank]
    for row in rows:
        row["members"] = tuple(trace.comms.members(row["comm"]).tolist())
        row["names"] = frozenset(flag.name for flag in FLAGS if row["flags"] & flag.value)
    return rows


def compare(rows: list[dict[str, Any]], wanted: list[Any], where: str) -> None:
    """Row by row; the message shows where the two part."""
    assert rows[0]["op"] == "init"
    assert rows[-1]["op"] == "finalize"
    rows = rows[1:-1]
    at = 0
    for number, want in enumerate(wanted):
        here = f"{where}, expected row {number}: {want}"
        if isinstance(want, Done):
            completed = 0
            while completed < want.n:
                assert rows[at]["op"] == want.op, f"{here}, got {rows[at]}"
                completed += len(rows[at]["deps"])
                at += 1
            assert completed == want.n, here
            continue
        op, flags, members, peer, tag, size, got, extra = want
        row = rows[at]
        at += 1
        same = (row["op"], row["names"], row["peer"], row["tag"], row["bytes"]) == (op, flags, peer, tag, size)
        assert same, f"{here}, got {row}"
        assert op in ("wait", "test", "mark") or row["members"] == members, f"{here}, got {row}"
        assert row["bytes_actual"] == got, f"{here}, got {row}"
        for name in ("vbytes", "vpeer", "vrecv", "deps"):
            assert (row.get(name) or []) == extra.get(name, []), f"{here}, {name} of {row}"
        for name in ("dtype", "redop"):
            if name in extra:
                assert row[name] == extra[name], f"{here}, {name} of {row}"
    assert at == len(rows), f"{where}: {len(rows) - at} rows too many, the first is {rows[at]}"


def verify(path: Path, features: set[str]) -> Trace:
    trace = read_trace(path)
    assert trace.n_ranks == 4
    for rank in range(4):
        compare(rows_of(trace, rank), expected(rank, features), f"rank {rank}")
    assert trace.meta.complete == "true"
    assert {name: n for name, n in trace.meta.ledger.items() if name.startswith("MPI_")} == COUNTED
    # Each rank: three collectives on the intercommunicator; two calls and, at two ends of a line, one half to nobody.
    inter = [count for name, count in trace.meta.ledger.items() if "intercommunicators" in name]
    assert inter == [12]
    assert trace.meta.ledger["messages to or from MPI_PROC_NULL"] == 4 * 2 + 2
    open_ = 4 if "Isendrecv" in features and "Isendrecv status" not in features else 0
    assert trace.meta.unresolved == {"cancelled": 4} | ({"wildcards": open_} if open_ else {})
    findings = [(finding.rule, finding.count) for finding in check_trace(trace).findings]
    assert findings == ([("wildcards", open_)] if open_ else []), findings
    return trace


def test_c_program(mpi: Installed, tmp_path: Path) -> None:
    features = features_of(mpi)
    program = mpi.compile(
        PROGRAMS / "coverage.c",
        tmp_path / "coverage",
        *(f"-DHAVE_{name}" for name in sorted(features) if name in FEATURES),
    )
    report = capture(mpi.run(4, program), output=tmp_path / "run.parquet", env=mpi.env, say=lambda line: None)
    assert report.exit_status == 0
    trace = verify(tmp_path / "run.parquet", features)
    assert "not in the trace: 4 MPI_Put, 4 MPI_Win_create, 8 MPI_Win_fence, 4 MPI_Win_free" in trace.meta.notes
    # One MPI_Pcontrol(2): all after it is in a phase of that name.
    assert trace.phases.column("name").to_pylist() == ["MPI_Pcontrol 2"]
    phase, op = trace.column("phase"), trace.op_names
    assert [op[i] for i in (phase == 0).nonzero()[0]] == ["mark", "finalize"] * 4


def test_mpi4py_program(mpi: Installed, tmp_path: Path) -> None:
    if mpi.python is None:
        pytest.skip(f"no mpi4py for {mpi.name}")
    features = features_of(mpi)
    command = mpi.run(4, mpi.python, PROGRAMS / "coverage.py", *(name for name in features if name in FEATURES))
    report = capture(command, output=tmp_path / "run.parquet", env=mpi.env, say=lambda line: None)
    assert report.exit_status == 0
    verify(tmp_path / "run.parquet", features)
