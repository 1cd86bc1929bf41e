"""``netsim workloads`` and ``netsim generate``: a trace by name, what it holds, and refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netsim.cli import main
from netsim.cli.progress import CountReporter
from netsim.traces import read_trace
from netsim.traffic.workloads import build, workloads


@pytest.fixture
def run(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def test_lists_all_and_one(run) -> None:
    status, out, _ = run("workloads")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == list(workloads)
    status, out, _ = run("workloads", "tf-cg")
    assert status == 0
    assert "collective  reducer|ring" in out
    assert "8 N^2/(p M)" in out
    assert "Source: " in out
    assert ">>>" not in out
    status, out, _ = run("workloads", "--json")
    found = json.loads(out)
    assert list(found) == list(workloads)
    default = next(p for p in found["tf-cg"]["parameters"] if p["name"] == "iterations")
    assert default == {"name": "iterations", "type": "int >= 1", "default": "500", "meaning": "of the solver"}


def test_writes_what_python_builds(run, tmp_path: Path) -> None:
    path = tmp_path / "halo.parquet"
    status, out, _ = run("generate", "halo3d:cells=8,iterations=3,corners=yes", "--ranks", 12, "-o", path)
    assert status == 0
    trace = read_trace(path)
    assert trace.content_hash == build("halo3d:cells=8,iterations=3,corners=yes", n_ranks=12).trace().content_hash
    assert f"wrote {path}: halo3d, 12 ranks, {trace.n_rows:,} rows" in out
    assert "ranks on a grid of 3x2x2" in out
    assert "corners=yes,periodic=yes" in out


def test_counts_add_up(run, tmp_path: Path) -> None:
    path = tmp_path / "cg.parquet"
    status, out, _ = run("generate", "cg:cells=16,iterations=3,memory=1GB/s", "--ranks", 8, "-o", path, "--json")
    assert status == 0
    found = json.loads(out)
    trace = read_trace(path)
    assert found["rows"] == trace.n_rows == sum(found["calls"].values())
    assert found["messages"] == 3 * 24
    assert found["message_bytes"] == 3 * 24 * 8 * 64
    assert found["collective_calls"] == 3 * 2 * 8
    assert found["collective_bytes"] == 3 * 2 * 8 * 8
    assert found["local_work_s"] == pytest.approx(3 * 16**3 * 84e-9)
    assert found["notes"] == list(trace.meta.notes)


def test_refuses_to_overwrite(run, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_text("precious")
    status, _, err = run("generate", "tf-fft:log2_points=8,tiles=4", "-o", path)
    assert status == 2
    assert err == f"netsim: error: {path}: exists already; choose another name, or replace it with --force\n"
    assert path.read_text() == "precious"
    status, _, _ = run("generate", "tf-fft:log2_points=8,tiles=4", "-o", path, "--force")
    assert status == 0
    assert read_trace(path).n_ranks == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["halo3D", "-o", "x"], "workload: unknown name, got 'halo3D'; did you mean 'halo3d'? valid: amg, "),
        (["halo3d:cells", "-o", "x"], "workload halo3d: parameters are written key=value, got 'cells'"),
        (
            ["halo3d:dims=2x2x2", "--ranks", "9", "-o", "x"],
            "workload halo3d dims: their product must be the number of ranks, 9, got 2x2x2",
        ),
        (["lulesh", "--ranks", "10", "-o", "x"], "workload lulesh n_ranks: must be a cube, got 10; take 8 or 27"),
        (["halo3d", "--ranks", "0", "-o", "x"], "halo3d n_ranks: must be a whole number, 1 or more, got 0"),
        (["halo3d", "-o", "no/where/x"], "no/where/x: its folder must exist, got no/where"),
        (["halo3d"], "option -o: is missing; netsim generate --help shows the options"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    run, tmp_path: Path, monkeypatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run("generate", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"netsim: error: {message}")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_workload_is_named(run) -> None:
    status, _, err = run("workloads", "tf-gc")
    assert status == 2
    assert "did you mean 'tf-cg'?" in err


def test_progress_is_quiet_at_first_and_then_one_line(capsys, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("netsim.cli.progress.time.monotonic", lambda: now[0])
    with CountReporter("writing", "rank") as reporter:
        for done, at in ((1, 0.5), (2, 5.0), (3, 10.5), (4, 11.0)):
            now[0] = at
            reporter.update(done, 12)
    assert capsys.readouterr().err == "netsim: writing, 3 of 12 ranks, about 32 s left\n"
