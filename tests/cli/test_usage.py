"""Mistakes in the words of a command: one line each, in the form of all other errors."""

from __future__ import annotations

import pytest

from netsim.cli import main

TRACE = "run.parquet"
BAD = {
    "no subcommand": (["trace"], "netsim trace: missing command; valid: check, info"),
    "unknown subcommand": (
        ["trace", "inf"],
        "command of netsim trace: unknown name, got 'inf'; did you mean 'info'? valid: check, info",
    ),
    "unknown option": (["--versio"], "option --versio: unknown name; did you mean '--version'?"),
    "option like no other": (
        ["replay", TRACE, "--xyzzy"],
        "option --xyzzy: unknown name; netsim replay --help shows the options",
    ),
    "missing argument": (["replay"], "argument TRACE: is missing; netsim replay --help shows the options"),
    "one argument too many": (
        ["replay", "a", "b"],
        "netsim replay: got unexpected extra argument (b); netsim replay --help shows the options",
    ),
    "no value": (["replay", TRACE, "-p"], "option -p: requires an argument"),
    "value of a flag": (["replay", TRACE, "--json=3"], "option --json: does not take a value"),
    "no whole number": (["replay", TRACE, "--seed", "1.5"], "option --seed: must be a whole number, got '1.5'"),
    "huge word": (
        ["replay", TRACE, "--bins", "x" * 500],
        f"option --bins: must be a whole number, got '{'x' * 37}...'",
    ),
    "no number": (["replay", TRACE, "--flops", "fast"], "option --flops: must be a number, got 'fast'"),
    "no choice": (
        ["replay", TRACE, "--latency-mode", "tali"],
        "option --latency-mode: unknown value, got 'tali'; did you mean 'tail'? valid: head, tail",
    ),
    "no hosts": (["topo", "describe", "star", "--hosts", "0"], "option --hosts: must be 1 or more, got 0"),
    "line break": (["replay", "new\nline"], "new\\nline: no such file; check the path"),
    "terminal codes": (["replay", "\x1b[31mred"], "\\x1b[31mred: no such file; check the path"),
    "placement without a file": (
        ["replay", "{trace}", "--topo", "star", "--placement", "file:"],
        "placement: file: must be followed by a path, got 'file:'",
    ),
    "page that is not there": (
        ["validate", "--into", "/nope/page.md"],
        "page /nope/page.md: must be a file that can be written; give an existing page with the marks",
    ),
}


@pytest.fixture
def trace(tmp_path):
    import netsim as ns
    from netsim.traces import write_trace

    write_trace(ns.Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark"}]), tmp_path / TRACE)
    return tmp_path / TRACE


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_one_line(capsys, trace, case):
    words, message = BAD[case]
    with pytest.raises(SystemExit) as stop:
        main([word.format(trace=trace) for word in words])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    # How click ends its sentences, and whether it has a context to point to, differs between its versions.
    assert err.rstrip("\n").removesuffix("; netsim replay --help shows the options") == (
        f"netsim: error: {message}".removesuffix("; netsim replay --help shows the options")
    )


def test_no_words_at_all_show_the_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    out, err = capsys.readouterr()
    assert (stop.value.code, err) == (0, "")
    assert "netsim replay run.parquet" in out
    # Every command has a line that is not cut off.
    assert "..." not in out[out.index("Commands:") :]


def test_a_barrier_is_explained_without_a_size(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["explain", "barrier", "-n", "8"])
    assert stop.value.code == 0
    # log2 8 rounds of 8 messages.
    assert "3 steps, 24 messages" in capsys.readouterr().out
