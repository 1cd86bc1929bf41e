"""Runs that end badly keep what they recorded and say so; runs that record nothing say why."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from capture_mpis import PROGRAMS, Installed, installed

from netsim.core.errors import InputError
from netsim.traces import check_trace, read_trace
from netsim.traces.capture import assemble, capture, detect

pytestmark = pytest.mark.mpi


def quiet(line: str) -> None:
    del line


@pytest.fixture
def program(mpi: Installed, tmp_path: Path) -> Path:
    return mpi.compile(PROGRAMS / "modes.c", tmp_path / "modes")


def test_complete_run(mpi: Installed, program: Path, tmp_path: Path) -> None:
    report = capture(mpi.run(3, program), output=tmp_path / "run.parquet", env=mpi.env, say=quiet)
    assert (report.exit_status, report.complete, report.n_ranks, report.n_rows) == (0, True, 3, 3 * (1 + 300 + 1 + 1))
    assert report.lines()[0].startswith(f"netsim: wrote {tmp_path}/run.parquet: 909 rows of 3 ranks, ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["modes", "run.parquet"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        # init, 100 exchanges, one barrier: nothing is lost, not even by SIGKILL
        ("crash", "rank 1 ended without MPI_Finalize; kept 102 calls"),
        ("kill", "rank 1 ended without MPI_Finalize; kept 102 calls"),
        ("abort", "rank 1 called MPI_Abort (code 5); kept 102 calls"),
        ("exit", "rank 1 exited without MPI_Finalize; kept 102 calls"),
    ],
)
def test_bad_ending(mpi: Installed, program: Path, tmp_path: Path, mode: str, said: str) -> None:
    report = capture(mpi.run(3, program, mode), output=tmp_path / "run.parquet", env=mpi.env, say=quiet)
    assert report.exit_status != 0
    trace = read_trace(tmp_path / "run.parquet")
    assert trace.meta.complete == "killed"
    assert said in trace.meta.notes
    of_rank_1 = trace.column("rank") == 1
    assert int(of_rank_1.sum()) == 1 + 300 + 1
    # The others were waiting for a message when they were sent away, or had not yet come so far.
    others = [note for note in trace.meta.notes if note != said]
    assert others
    for note in others:
        assert re.fullmatch(
            r"ranks? [02](, 2)? ended without MPI_Finalize( \(in MPI_(Barrier|Recv)\))?; kept [\d,]+ calls", note
        ), note
    assert not check_trace(trace).errors or {f.rule for f in check_trace(trace).errors} <= {"collective-members"}
    assert any("incomplete (killed)" in line for line in report.lines())


def test_deadlock_is_named(mpi: Installed, program: Path, tmp_path: Path) -> None:
    command = ["timeout", "3", *mpi.run(3, program, "deadlock")]
    capture(command, output=tmp_path / "run.parquet", env=mpi.env, say=quiet)
    notes = read_trace(tmp_path / "run.parquet").meta.notes
    assert "ranks 0, 2 ended without MPI_Finalize (in MPI_Recv); kept 204 calls" in notes
    assert "rank 1 ended without MPI_Finalize (in MPI_Barrier); kept 102 calls" in notes


def test_records_can_be_assembled_later(mpi: Installed, program: Path, tmp_path: Path) -> None:
    """What a killed launcher leaves behind is a folder of records."""
    command = mpi.run(2, program)
    report = capture(command, output=tmp_path / "run.parquet", env=mpi.env, say=quiet, keep_records=True)
    (folder,) = tmp_path.glob(".run.parquet.*.records")
    assert f"records kept in {folder}" in report.notes
    again = assemble(folder, output=tmp_path / "again.parquet")
    assert again.traces[0].content_hash == report.traces[0].content_hash
    # A file cut short by a crash of the machine: what is there is read.
    cut = next(folder.glob("*-1.rec"))
    os.truncate(cut, cut.stat().st_size - 112 * 51)
    shorter = assemble(folder, output=tmp_path / "short.parquet").traces[0]
    assert int((shorter.column("rank") == 1).sum()) == 303 - 1 - 1 - 3 * 49
    cut.unlink()
    missing = assemble(folder, output=tmp_path / "missing.parquet").traces[0]
    assert (missing.meta.complete, missing.meta.notes) == ("missing-ranks", ("rank 1 left no records",))
    with pytest.raises(InputError) as error:
        assemble(tmp_path, output=tmp_path / "x.parquet")
    assert str(error.value) == f"{tmp_path}: must be a folder with records of a capture (*.rec), got none"


def test_several_jobs(mpi: Installed, program: Path, tmp_path: Path) -> None:
    script = tmp_path / "both.sh"
    script.write_text(" ".join(mpi.run(2, program)) + "\n" + " ".join(mpi.run(3, program)) + "\n")
    report = capture(
        ["sh", str(script)], output=tmp_path / "run.parquet", mpi=mpi.folder / "mpicc", env=mpi.env, say=quiet
    )
    assert [path.name for path in report.outputs] == ["run.parquet", "run.job2.parquet"]
    assert [read_trace(path).n_ranks for path in report.outputs] == [2, 3]
    assert report.notes == ("the command ran 2 MPI jobs: one trace each",)


INSIDE = """
import sys
from netsim.traces.capture import capture
report = capture(sys.argv[2:], output=sys.argv[1])
print("\\n".join(report.lines()))
sys.exit(report.exit_status)
"""


def test_inside_the_launcher(mpi: Installed, program: Path, tmp_path: Path) -> None:
    """mpiexec -n 3 netsim capture -- program: each process records its rank, the last one to end makes the trace."""
    script = tmp_path / "inside.py"
    script.write_text(INSIDE)
    command = mpi.run(3, sys.executable, script, tmp_path / "run.parquet", program)
    done = subprocess.run(command, env=mpi.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("netsim: wrote") == 1
    trace = read_trace(tmp_path / "run.parquet")
    assert (trace.n_ranks, trace.n_rows, trace.meta.complete) == (3, 909, "true")
    assert not check_trace(trace).findings
    assert sorted(p.name for p in tmp_path.iterdir()) == ["inside.py", "modes", "run.parquet"]


def test_threads(mpi: Installed, tmp_path: Path) -> None:
    program = mpi.compile(PROGRAMS / "threads.c", tmp_path / "threads", "-pthread")
    capture(mpi.run(2, program), output=tmp_path / "run.parquet", env=mpi.env, say=quiet)
    trace = read_trace(tmp_path / "run.parquet")
    stream, op, size = trace.column("stream"), trace.op_names, trace.column("bytes")
    if stream.max() == 0:
        pytest.skip(f"{mpi.name} has no MPI_THREAD_MULTIPLE")
    assert not check_trace(trace).findings
    for rank in range(2):
        mine = trace.column("rank") == rank
        second = mine & (stream == 1)
        assert [op[i] for i in second.nonzero()[0]] == ["send", "recv", "wait"] * 50 + ["recv"]
        assert set(size[second & (trace.column("tag") >= 0)]) == {4}
        (wait,) = [row for row in trace.table.to_pylist() if row["rank"] == rank and row["xdeps"]]
        assert (wait["op"], wait["stream"], wait["xdeps"]) == ("wait", 0, [{"stream": 1, "seq": 150}])


# ---- nothing recorded


def fails(command: list[str | Path], out: Path, **options: object) -> str:
    with pytest.raises(InputError) as error:
        capture([str(word) for word in command], output=out, say=quiet, **options)  # type: ignore[arg-type]
    assert not list(out.parent.glob(".*.records")), "no litter is left"
    return str(error.value)


def test_never_calls_mpi_init(mpi: Installed, program: Path, tmp_path: Path) -> None:
    command = mpi.run(2, program, "never")
    said = fails(command, tmp_path / "run.parquet", env=mpi.env)
    assert re.fullmatch(
        re.escape(f"capture of {' '.join(command)}: recorded nothing: no process called MPI_Init, got processes of ")
        + r"[\w., -]*\bmodes\b[\w., -]*"
        + re.escape("; run an MPI program that is linked with a shared MPI library"),
        said,
    )
    said = fails([str(program), "status"], tmp_path / "run.parquet", env=mpi.env)
    assert said == (
        f"capture of {program} status: recorded nothing: no process called MPI_Init, got processes of modes "
        "(the command ended with status 9); see the command's own error messages first"
    )


def test_recorder_not_loaded(mpi: Installed, program: Path, tmp_path: Path) -> None:
    command = ["env", "-u", "LD_PRELOAD", program]
    said = fails(command, tmp_path / "run.parquet", env=mpi.env)
    assert said == (
        f"capture of env -u LD_PRELOAD {program}: recorded nothing: the recorder was not loaded into the program, got "
        "programs env; let the launcher pass LD_PRELOAD and NETSIM_TRACE_DIR on (Open MPI: -x LD_PRELOAD -x NETSIM_TRACE_DIR)"
    )


def test_static_program(any_mpi: Installed, tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    program = tmp_path / "static"
    done = subprocess.run(["cc", "-static", "-o", program, tmp_path / "empty.c"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no static C library")
    said = fails([program], tmp_path / "run.parquet", env=any_mpi.env, mpi=any_mpi.folder / "mpicc")
    assert said == (
        f"capture of {program}: recorded nothing, got {program}, which is statically linked; link it with the shared MPI library"
    )


FAKE = """
#include <stdio.h>
#include <string.h>
int PMPI_Init(int *argc, char ***argv) { puts("must not come so far"); return 0; }
int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }
int PMPI_Get_library_version(char *text, int *n) { strcpy(text, VERSION); *n = strlen(text); return 0; }
"""


def test_other_mpi(mpi: Installed, tmp_path: Path) -> None:
    """A recorder for one family in a program of the other stops before it can do harm: here a library that claims to be so."""
    version = "Open MPI v9.9.9, package: none" if "mpich" in mpi.name else "MPICH Version: 9.9.9"
    (tmp_path / "fake.c").write_text(FAKE)
    (tmp_path / "main.c").write_text(
        "int MPI_Init(int *, char ***); int main(int c, char **v) { return MPI_Init(&c, &v); }\n"
    )
    library, program = tmp_path / "libmpi.so", tmp_path / "program"
    shared = ["cc", "-shared", "-fPIC", f'-DVERSION="{version}"', "-o", library, tmp_path / "fake.c"]
    linked = ["cc", "-o", program, tmp_path / "main.c", "-L", tmp_path, "-lmpi", f"-Wl,-rpath,{tmp_path}"]
    for command in (shared, linked):
        subprocess.run([str(word) for word in command], check=True)
    said = fails([program], tmp_path / "run.parquet", env=mpi.env, mpi=mpi.folder / "mpicc")
    family = "MPICH" if "mpich" in mpi.name else "Open MPI"
    assert said == (
        f"capture of {program}: the program uses another MPI than the recorder, which was built for {family} {mpi.version} "
        f"(chosen by --mpi), got {version}; name the mpicc of the program's MPI with --mpi"
    )


def test_sessions_only(tmp_path: Path) -> None:
    able = [one for one in installed() if "Session_init" in one.functions]
    if not able:
        pytest.skip("no MPI with sessions is installed")
    (tmp_path / "sessions.c").write_text(
        "#include <mpi.h>\nint main(void) { MPI_Session s; MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);\n"
        "return MPI_Session_finalize(&s); }\n"
    )
    for mpi in able:
        program = mpi.compile(tmp_path / "sessions.c", tmp_path / "sessions")
        said = fails([program], tmp_path / "run.parquet", env=mpi.env)
        assert said == (
            f"capture of {program}: recorded nothing, got a program that uses MPI sessions without MPI_Init; "
            "only programs with MPI_COMM_WORLD can be recorded"
        )


def test_bad_command_and_output(any_mpi: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.parquet"
    mpicc = any_mpi.folder / "mpicc"
    assert fails([], out) == "capture: needs a command; netsim capture -o run.parquet -- mpiexec -n 8 ./program"
    assert fails(["./no-such-program"], out, mpi=mpicc) == (
        "command './no-such-program': cannot be run, got No such file or directory; check the words after --"
    )
    assert fails(["true"], tmp_path / "no" / "run.parquet", mpi=mpicc) == (
        f"output {tmp_path}/no/run.parquet: its folder must be writable, got No such file or directory; choose another -o"
    )
    assert fails(["true"], out, mpi="no-such-mpicc") == (
        "--mpi: must be an mpicc or the folder of an MPI, got no-such-mpicc; give the path of its mpicc"
    )
    assert fails(["true"], out, mpi=tmp_path) == (
        f"--mpi: a folder must hold bin/mpicc, got {tmp_path}; give the path of mpicc itself"
    )
    assert fails(["true"], out, gap_clock="sun", mpi=mpicc) == (
        "capture gap clock: unknown value, got 'sun'; valid: thread-cpu, wall"
    )
    monkeypatch.setattr(detect.sys, "executable", str(tmp_path / "python"))
    assert fails(["/bin/true"], out, env={"PATH": str(tmp_path)}) == (
        "capture: needs mpicc to build the recorder, got none beside the program's MPI, its launcher or on PATH; "
        "install it (pip install 'netsim-eo[mpi]', Debian: apt-get install libopenmpi-dev) or name it with --mpi"
    )


@pytest.mark.debian
def test_fortran(tmp_path: Path) -> None:
    debian = [one for one in installed() if one.name == "debian-openmpi"]
    if not debian or shutil.which("mpifort") is None:
        pytest.skip("needs Debian's Open MPI and gfortran")
    (mpi,) = debian
    program = tmp_path / "fortran"
    done = subprocess.run(
        ["mpifort", "-o", program, PROGRAMS / "coverage.f90"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    capture(mpi.run(4, program), output=tmp_path / "run.parquet", env=mpi.env, say=quiet)
    trace = read_trace(tmp_path / "run.parquet")
    assert (trace.meta.complete, check_trace(trace).findings, trace.meta.ledger) == ("true", (), {})
    for rank in range(4):
        left, right, pair = (rank - 1) % 4, (rank + 1) % 4, (2, 0) if rank % 2 == 0 else (3, 1)
        world = (0, 1, 2, 3)
        rows = [
            (
                row["op"],
                tuple(trace.comms.members(row["comm"])),
                row["peer"],
                row["tag"],
                row["bytes"],
                row["bytes_actual"],
            )
            for row in trace.table.to_pylist()
            if row["rank"] == rank and row["op"] not in ("init", "finalize", "wait")
        ]
        assert rows == [
            ("send", world, right, 1, 40, None),
            ("recv", world, left, 1, 72, 40),
            ("recv", world, left, 2, 24, 16),
            ("send", world, right, 2, 16, None),
            ("recv", world, left, 3, 16, 16),
            ("send", world, right, 3, 16, None),
            ("bcast", world, 2, None, 40, None),
            ("allreduce", world, None, None, 56, None),
            ("gather", world, 0, None, 4 * (rank + 1), None),
            ("comm_create", world, None, None, 0, None),
            ("allreduce", pair, None, None, 8, None),
            ("comm_create", pair, None, None, 0, None),
            ("barrier", pair, None, None, 0, None),
            ("comm_create", world, None, None, 0, None),
            ("neighbor_alltoall", world, None, None, 24, None),
            ("comm_free", world, None, None, 0, None),
        ]
