"""The command line as a user meets it: output, exit status, one clear line for every mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
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
def trace_file(tmp_path):
    rows = [
        {"rank": r, "op": op, "bytes": size} for r in range(4) for op, size in (("allreduce", 10**6), ("barrier", 0))
    ]
    path = tmp_path / "run.parquet"
    write_trace(ns.Trace.from_rows(n_ranks=4, rows=rows), path)
    return path


def test_replay_answers_on_one_screen(run, trace_file):
    status, out, _ = run("replay", trace_file, "--topo", "dragonfly")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) <= 30
    assert max(len(line) for line in lines) <= 140 + len(str(trace_file))
    for word in (
        "makespan",
        "network-bound",
        "lower bound",
        "busiest links",
        "over the network",
        "tasks/s",
        "not modelled",
    ):
        assert word in out
    assert "sized to the ranks" in out


def test_replay_json_and_tables(run, trace_file, tmp_path):
    status, out, _ = run("replay", trace_file, "--topo", "star", "--json", "-o", tmp_path / "out")
    summary = json.loads(out)
    assert status == 0
    assert summary["status"] == "finished"
    again = ns.read_result(tmp_path / "out")
    assert again.makespan_s == summary["summary"]["makespan_s"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "flows.parquet", "links.parquet", "ops.parquet", "ranks.parquet", "summary.json"
    ]  # fmt: skip


def test_dry_run_runs_nothing(run, trace_file, tmp_path):
    status, out, _ = run("replay", trace_file, "--dry-run")
    assert status == 0
    assert "makespan" not in out


BAD = {
    "misspelt parameter": (
        ["--topo", "dragonfly", "-p", "bandwith=100Gbps"],
        "bandwith",
    ),
    "misspelt topology": (
        ["--topo", "dragonfy"],
        "netsim: error: topology: unknown name, got 'dragonfy'; did you mean 'dragonfly'? valid: ",
    ),
    "misspelt routing": (
        ["--topo", "star", "--routing", "minimall"],
        "netsim: error: routing: unknown name, got 'minimall'; did you mean 'minimal'? valid: ",
    ),
    "bare number": (
        ["--eager", "100"],
        "netsim: error: option --eager: a bare number could mean several units of size, got '100'; write '100B' or '100KiB'",
    ),
    "parameter without value": (["-p", "p"], "netsim: error: option -p: must be NAME=VALUE, got 'p'"),
    "parameter twice": (["-p", "p=1", "-p", "p=2"], "netsim: error: option -p: p was given twice, got '1' and '2'"),
    "no such option": (
        ["--topology", "star"],
        "netsim: error: option --topology: unknown name; did you mean '--topo'?",
    ),
    "two rule sets": (
        ["--collectives", "mpich", "--collectives", "nccl"],
        "netsim: error: option --collectives: takes one set of rules, got mpich, nccl",
    ),
    "ranks per host": (["--ranks-per-host", "0"], "netsim: error: ranks per host: must be 1 or more, got 0"),
    "odd bins": (
        ["--topo", "star", "--bins", "3"],
        "netsim: error: time bins: must be an even number, 0 or more, got 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_get_one_clear_line(run, trace_file, case):
    words, message = BAD[case]
    status, out, err = run("replay", trace_file, *words)
    assert status == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert "makespan" not in out


def test_files_that_cannot_be_read(run, tmp_path):
    missing = tmp_path / "none.parquet"
    status, _, err = run("replay", missing)
    assert status == 2
    assert str(missing) in err
    for name, content in (("empty", b""), ("text", b"hello, world\n" * 100), ("cut", b"PAR1" + b"\0" * 500)):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        for command in (("replay", path), ("trace", "info", path), ("trace", "check", path)):
            status, _, err = run(*command)
            assert status == 2, name
            assert len(err.strip().splitlines()) == 1
            assert str(path) in err


def test_truncated_trace(run, trace_file):
    data = trace_file.read_bytes()
    for keep in (len(data) - 1, len(data) // 2, 10):
        trace_file.write_bytes(data[:keep])
        status, _, err = run("replay", trace_file)
        assert status == 2
        assert len(err.strip().splitlines()) == 1


def test_output_is_probed_before_the_run(run, trace_file, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    status, out, err = run("replay", trace_file, "-o", blocked)
    assert status == 2
    assert err.startswith(f"netsim: error: output folder {blocked}: must be writable, got ")
    assert out == ""
    assert blocked.read_text() == "in the way"


def test_deadlock_has_its_own_status_and_no_makespan(run, tmp_path):
    path = tmp_path / "stuck.parquet"
    write_trace(
        ns.Trace.from_rows(
            n_ranks=2, rows=[{"rank": 0, "op": "mark"}, {"rank": 1, "op": "recv", "peer": 0, "tag": 3, "bytes": 8}]
        ),
        path,
    )
    status, out, err = run("replay", path, "--topo", "star")
    assert status == 3
    assert "makespan" not in out
    assert "rank 1, op 0 recv, communicator WORLD, peer 0, tag 3, 8 B: waits for a message from rank 0" in err


def test_unknown_command(run):
    status, _, err = run("repaly")
    assert status == 2
    assert err.startswith("netsim: error: command: unknown name, got 'repaly'; did you mean 'replay'? valid: ")


@pytest.mark.parametrize(
    "words",
    [
        ["topologies"],
        ["routings"],
        ["placements"],
        ["collectives"],
        ["topologies", "dragonfly"],
        ["topo", "describe", "dragonfly", "-p", "p=4", "-p", "a=8", "-p", "h=4"],
        ["explain", "allreduce", "--algo", "ring", "-n", "8", "-s", "1MiB"],
        ["doctor"],
        ["--version"],
        ["--help"],
        ["replay", "--help"],
    ],
)
def test_catalogues_and_help(run, words):
    status, out, err = run(*words)
    assert status == 0
    assert out.strip()
    assert err == ""


def test_describe_states_the_published_numbers(run):
    # Balanced dragonfly (4,8,4): 33 groups, 264 routers, 1056 hosts, 924 local and 528 global cables, diameter 3.
    _, out, _ = run("topo", "describe", "dragonfly", "-p", "p=4", "-p", "a=8", "-p", "h=4", "--json")
    found = json.loads(out)
    assert (found["n_hosts"], found["n_switches"], found["n_cables"]) == (1056, 264, 1056 + 924 + 528)
    assert found["diameter"] == 3


def test_trace_info_and_check(run, trace_file):
    status, out, _ = run("trace", "info", trace_file)
    assert status == 0
    assert "allreduce" in out
    assert run("trace", "check", trace_file)[0] == 0
    assert json.loads(run("trace", "info", trace_file, "--json")[1])


def test_trace_check_fails_on_an_unmatched_send(run, tmp_path):
    path = tmp_path / "bad.parquet"
    write_trace(
        ns.Trace.from_rows(
            n_ranks=2, rows=[{"rank": 0, "op": "send", "peer": 1, "tag": 5, "bytes": 8}, {"rank": 1, "op": "mark"}]
        ),
        path,
    )
    status, out, _ = run("trace", "check", path)
    assert status == 1
    assert "tag 5" in out


def test_same_run_same_bytes_under_any_hash_seed(trace_file, tmp_path):
    hashes = set()
    for seed in ("0", "1", "random"):
        output = subprocess.run(
            [
                sys.executable,
                "-m",
                "netsim",
                "replay",
                str(trace_file),
                "--topo",
                "fat_tree",
                "--routing",
                "ecmp",
                "-o",
                str(tmp_path / seed),
            ],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert output.stderr == "" or "compiling" in output.stderr
        hashes.add(ns.read_result(tmp_path / seed).content_hash)
        for name in ("ops", "flows", "links", "ranks"):
            hashes.add((name, (tmp_path / seed / f"{name}.parquet").read_bytes()))
    assert len(hashes) == 5


def test_a_killed_run_leaves_marked_tables(tmp_path):
    # A run far too long to end by itself: many flows of different sizes on one switch.
    n, flows = 64, 200_000
    rng = np.random.default_rng(1)
    path = tmp_path / "long.parquet"
    write_trace(
        ns.Trace.from_flows(
            n_ranks=n, start_ns=np.zeros(flows, np.int64), src=rng.integers(0, n, flows), dst=rng.integers(0, n, flows),
            bytes=rng.integers(10**3, 10**9, flows),
        ),
        path,
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "netsim", "replay", str(path), "--topo", "star", "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Wait until the heading is out and kernels are loaded, then some.
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(12)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "INTERRUPTED" in out
    result = ns.read_result(tmp_path / "out")
    assert result.status == "interrupted"
    ended = result.to_pandas("flows")["end_ns"].notna().sum()
    assert 0 <= ended < flows


def test_letters_of_a_formula_are_explained_with_their_values(run):
    # 12 members: 8 is the largest power of two, 4 fold; an all-to-all of 1200 bytes sends blocks of 100.
    out = run("explain", "allreduce", "--algo", "rabenseifner", "-n", 12, "-s", "1200B")[1]
    [line] = [line for line in out.splitlines() if line.startswith("  with ")]
    for text in (
        "n = 12 members",
        "p = 8, the largest",
        "r = n - p = 4",
        "S = 1200 B, the vector",
        "a = lat",
        "B = bytes per",
    ):
        assert text in line
    out = run("explain", "alltoall", "--algo", "pairwise", "-n", 12, "-s", "1200B")[1]
    assert "m = S/n = 100 B, the block from one member to another" in out
    letters = json.loads(run("explain", "alltoall", "-n", 7, "-s", "10B", "--json")[1])["letters"]
    assert letters["m"] == "S/n = 1.428571429 B, the block from one member to another, on average"
    # "m nodes" is explained by the formula itself, and means no block.
    out = run("explain", "allreduce", "--algo", "hierarchical(ranks_per_node=4)", "-n", 12)[1]
    assert "m = " not in out


def test_no_letter_of_any_formula_is_left_unexplained():
    import re

    from netsim.cli.catalogue import _letters
    from netsim.traffic.collectives import algorithms

    for name in algorithms:
        algorithm = algorithms[name]
        given = _letters(algorithm.formula, op=algorithm.op, members=12, size=1200)
        for letter in set(re.findall(r"(?<![A-Za-z_])[aBSnmpr](?![A-Za-z_0-9])", algorithm.formula)):
            assert letter in given or f"{letter} nodes" in algorithm.formula, (name, letter)


def test_operations_with_many_sizes_point_to_python(run):
    status, _, err = run("explain", "alltoallv")
    assert status == 2
    assert err == (
        "netsim: error: alltoallv: has sizes of its own for each pair, which a command line cannot take; explain alltoall shows "
        "equal sizes; netsim.traffic.collectives.explain in Python takes any\n"
    )
