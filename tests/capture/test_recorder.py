"""The generator and the build: prototypes, coverage of the header, what the library depends on, the cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from capture_mpis import Installed

from netsim.core.errors import InputError
from netsim.traces.capture import build
from netsim.traces.capture.build import build_recorder, inspect_mpicc
from netsim.traces.capture.calls import CALLS, is_local, lookup
from netsim.traces.capture.detect import in_rank
from netsim.traces.capture.generate import generate
from netsim.traces.capture.header import parse_prototypes


def test_prototypes() -> None:
    text = """
# 1 "/usr/include/mpi.h" 1
typedef int MPI_Handler_function(MPI_Comm *, int *, ...);
extern __attribute__((visibility("default"))) int MPI_Wait(MPI_Request *request, MPI_Status *status)
    __attribute__((format(printf, 1, 2)));
int MPI_Alltoallw(const void *a, const int counts[], const MPI_Datatype types[], int ranges[][3]) ;
int MPI_Finalize(void);  int MPI_Pcontrol(const int level, ...);
int MPI_Spawn(char *, char *argv[], unsigned long);
int MPI_Op_create(void (*function)(void *, int), int commute);
int PMPI_Wait(MPI_Request *request, MPI_Status *status);
double MPI_Wtime(void);
"""
    found = {p.name: p for p in parse_prototypes(text)}
    assert sorted(found) == [
        "MPI_Alltoallw", "MPI_Finalize", "MPI_Op_create", "MPI_Pcontrol", "MPI_Spawn", "MPI_Wait"
    ]  # fmt: skip
    assert [p.declare("x") for p in found["MPI_Alltoallw"].parameters] == [
        "const void *x", "const int x[]", "const MPI_Datatype x[]", "int x[][3]"
    ]  # fmt: skip
    assert [p.declare("x") for p in found["MPI_Spawn"].parameters] == ["char *x", "char *x[]", "unsigned long x"]
    assert found["MPI_Op_create"].parameters[0].declare("f") == "void (*f)(void *, int)"
    assert found["MPI_Finalize"].parameters == ()
    assert found["MPI_Pcontrol"].variadic


def test_unknown_shape_is_counted() -> None:
    """A function of a known name with other parameters than the standard's is not recorded wrongly, only counted."""
    prototypes = parse_prototypes(
        "int MPI_Send(int a); int MPI_Recv_something(int a); int MPI_Comm_rank(int c, int *r);"
    )
    recorder = generate(prototypes)
    assert "Send" in recorder.counted
    assert "Recv_something" in recorder.counted
    assert "Comm_rank" not in recorder.recorded + recorder.counted


def test_table_is_consistent() -> None:
    assert not [name for name, call in CALLS.items() if is_local(name) and call.kind != "seen"]
    assert lookup("Ialltoallw_c") is not None
    assert {call.mode for call in CALLS.values()} == {"blocking", "nonblocking", "persistent"}


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, (3, 8)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "0"}, (5, 8)),
        # a batch script, not a step
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "4", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({}, None),
    ],
)
def test_in_rank(env: dict[str, str], rank: tuple[int, int] | None) -> None:
    assert in_rank(env) == rank


# ---- with an MPI


@pytest.mark.mpi
def test_every_function_of_the_header_is_decided(mpi: Installed) -> None:
    """Each function of the header is recorded, counted or deliberately left alone; the must-cover list is recorded."""
    prototypes = parse_prototypes(inspect_mpicc(mpi.folder / "mpicc").header)
    assert len(prototypes) > 300
    recorder = generate(prototypes)
    known = {p.name[4:] for p in prototypes if p.name.startswith("MPI_")}
    # All that the table knows and the header has.
    missing = {name for name in known if lookup(name) is not None} - set(recorder.recorded) - {"Abort"}
    assert not missing
    base = "Send Bsend Ssend Rsend Isend Issend Recv Irecv Sendrecv Sendrecv_replace Probe Iprobe Mprobe Improbe Mrecv Imrecv"
    base += " Wait Waitall Waitany Waitsome Test Testall Testany Testsome Send_init Recv_init Start Startall Request_free Cancel"
    base += " Barrier Ibcast Allreduce Ialltoallv Alltoallw Neighbor_alltoallw Ineighbor_allgatherv Exscan Reduce_scatter_block"
    base += (
        " Comm_dup Comm_idup Comm_split Comm_split_type Comm_create Comm_create_group Cart_create Cart_sub Graph_create"
    )
    base += " Dist_graph_create Dist_graph_create_adjacent Intercomm_create Intercomm_merge Comm_free Comm_disconnect"
    assert set(base.split()) <= set(recorder.recorded)
    assert {"Put", "Get", "Win_fence", "File_write_all", "Comm_spawn", "Grequest_start"} <= set(recorder.counted)


@pytest.mark.mpi
def test_library_is_inert(mpi: Installed, tmp_path: Path) -> None:
    """No symbol of MPI is needed, so the recorder loads into any program and leaves it alone."""
    library, notes = build_recorder(inspect_mpicc(mpi.folder / "mpicc"), folder=tmp_path)
    assert notes == []
    needed = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    assert "mpi" not in needed.lower()
    env = dict(os.environ) | {"LD_PRELOAD": str(library), "NETSIM_TRACE_DIR": ""}
    done = subprocess.run(["/bin/sh", "-c", "echo fine; exit 3"], capture_output=True, text=True, env=env, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 3)


@pytest.mark.mpi
def test_built_once(any_mpi: Installed, tmp_path: Path) -> None:
    said: list[str] = []
    mpi = inspect_mpicc(any_mpi.folder / "mpicc")
    first, _ = build_recorder(mpi, folder=tmp_path, say=said.append)
    second, _ = build_recorder(mpi, folder=tmp_path, say=said.append)
    assert first == second
    assert said == [f"building the recorder for {mpi.name} once, with {mpi.mpicc}"]
    # Another header is another MPI.
    other = build.Mpi(mpi.mpicc, mpi.family, mpi.version, mpi.header + "\ntypedef int MPI_New;")
    third, _ = build_recorder(other, folder=tmp_path, say=said.append)
    assert third != first
    assert len(said) == 2


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.cache_folder() == (tmp_path / "cache" / "netsim" / "capture", None)
    # A file where the folder should be: not usable, not even for root.
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(build.tempfile, "gettempdir", lambda: str(tmp_path))
    folder, note = build.cache_folder()
    assert folder == tmp_path / f"netsim-{os.getuid()}" / "capture"
    assert note == (f"recorder kept in {folder}: {tmp_path}/file/netsim/capture is not writable (set XDG_CACHE_HOME)")


def test_compiler_that_fails(tmp_path: Path) -> None:
    mpicc = tmp_path / "mpicc"
    with pytest.raises(InputError) as error:
        inspect_mpicc(mpicc)
    assert (
        str(error.value) == f"{mpicc}: cannot be run, got No such file or directory; give the mpicc of the MPI in use"
    )
    mpicc.write_text("#!/bin/sh\necho 'sh: cc: not found' >&2\nexit 127\n")
    mpicc.chmod(0o755)
    with pytest.raises(InputError) as error:
        inspect_mpicc(mpicc)
    assert str(error.value) == (
        f"{mpicc}: must preprocess a C program with mpi.h, got sh: cc: not found; "
        "install a C compiler (Debian: apt-get install gcc libc6-dev)"
    )
