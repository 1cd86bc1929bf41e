"""Real programs from Debian, recorded and replayed: LAMMPS and HPC Challenge."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from capture_mpis import OPEN_MPI_ENV

import netsim as ns
from netsim.traces import check_trace
from netsim.traces.capture import capture
from netsim.traces.schema import OP_CODE

MPIRUN = "/usr/bin/mpirun"
INPUTS = Path(__file__).parents[2] / "examples" / "capture"
needed = pytest.mark.skipif(
    not all(shutil.which(name, path="/usr/bin") for name in ("mpirun", "mpicc", "lmp", "hpcc")),
    reason="needs Debian's lammps, hpcc and libopenmpi-dev",
)
pytestmark = [pytest.mark.mpi, pytest.mark.debian, needed]


def record(tmp_path, ranks, *program):
    command = [MPIRUN, "--oversubscribe", "-n", str(ranks), *program]
    report = capture(command, output=tmp_path / "run.parquet", cwd=tmp_path, env={**os.environ, **OPEN_MPI_ENV})
    assert report.exit_status == 0
    (trace,) = report.traces
    assert report.complete
    assert check_trace(trace).ok
    assert trace.n_ranks == ranks
    return trace


def test_lammps_exchanges_halos_on_a_2x2x2_grid(tmp_path):
    shutil.copy(INPUTS / "in.lj", tmp_path)
    trace = record(tmp_path, 8, "lmp", "-in", "in.lj")
    op, rank, peer = (trace.column(name) for name in ("op", "rank", "peer"))
    sends = op == OP_CODE["send"]
    # Halos go to the neighbour in each of three dimensions, and all ranks but 0 report to 0 at the end.
    for r in range(8):
        to, messages = np.unique(peer[sends & (rank == r)], return_counts=True)
        often = set(to[messages > 40].tolist())
        assert often == {r ^ 1, r ^ 2, r ^ 4}
    result = ns.replay(trace, topology="torus", certify=True)
    # Wire bytes: what was sent point to point, plus collectives; never less.
    assert result.summary["network_bytes"] >= trace.column("bytes")[sends & (peer != rank)].sum()


def test_hpcc_runs_all_its_sections(tmp_path):
    shutil.copy(INPUTS / "hpccinf.txt", tmp_path)
    text = (tmp_path / "hpccinf.txt").read_text()
    (tmp_path / "hpccinf.txt").write_text(text.replace("4            Qs", "2            Qs").replace("800 ", "400 "))
    trace = record(tmp_path, 4, "hpcc")
    output = (tmp_path / "hpccoutf.txt").read_text()
    assert "End of HPC Challenge tests." in output
    op, flags = trace.column("op"), trace.column("flags")
    for name in ("send", "recv", "wait", "allreduce", "bcast", "alltoall", "barrier", "reduce"):
        assert (op == OP_CODE[name]).any(), name
    # Polls that found nothing are most of what HPCC calls; they are counted and left out.
    assert sum(count for name, count in trace.meta.ledger.items() if "poll" in name) > 10_000
    # Every wildcard receive was resolved from its status.
    assert not trace.meta.unresolved.get("wildcards", 0)
    assert flags.any()
