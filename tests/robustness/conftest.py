"""The command line in this process, and what every failure must look like."""

from __future__ import annotations

import pytest

import netsim as ns
from netsim.cli import main
from netsim.traces import write_trace


@pytest.fixture
def run(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def refused(run):
    """Run a command that must fail with one line; returns that line without its prefix."""

    def call(*words, status=2):
        code, _, err = run(*words)
        lines = err.strip().splitlines()
        assert code == status, err
        assert len(lines) == 1, err
        assert lines[0].startswith("netsim: error: "), err
        return lines[0].removeprefix("netsim: error: ")

    return call


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "run.parquet"
    rows = [{"rank": r, "op": "allreduce", "bytes": 10**6} for r in range(4)]
    write_trace(ns.Trace.from_rows(n_ranks=4, rows=rows), path)
    return path
