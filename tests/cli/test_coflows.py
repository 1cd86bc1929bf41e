"""netsim coflows: what is printed agrees with what Python gives, and errors are one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from netsim.cli.main import cli, main
from netsim.optics.schedules import circuit_rules, order_rules, read_coflows, schedule_coflows, varys

FILE = str(Path(__file__).parents[2] / "examples" / "coflows" / "sixteen.txt")


def run(*words):
    found = CliRunner().invoke(cli, ["coflows", *words], catch_exceptions=False)
    assert found.exit_code == 0
    return found.output


def test_schedule_prints_what_python_gives():
    printed = json.loads(run("schedule", FILE, "--cores", "40Gbps,160Gbps", "--delay", "10ms", "--json"))
    data = read_coflows(FILE)
    found = schedule_coflows(data, capacity_bytes_per_s=[5e9, 20e9], delay_s=0.01)
    assert [c["completion_s"] for c in printed["coflows"]] == found.completion_s.tolist()
    assert printed["weighted_s"] == pytest.approx(float((found.completion_s * data.weight).sum()))
    assert 0 < printed["bound_weighted_s"] <= printed["weighted_s"]
    assert all(c["packet_bound_s"] <= c["bound_s"] <= c["completion_s"] * (1 + 1e-12) for c in printed["coflows"])
    assert printed["notes"] == ["13 flows from a port to itself left out"]
    text = run("schedule", FILE, "--cores", "40Gbps,160Gbps", "--delay", "10ms")
    assert "16 coflows, 100 flows, 6.949 GB between 12 ports" in text
    assert f"ratio {printed['ratio_weighted']:.3f}" in text


def test_compare_has_every_rule():
    rows = json.loads(run("compare", FILE, "--cores", "10Gbps", "--json"))["rows"]
    assert len(rows) == len(order_rules) * len(circuit_rules) + 2
    packet = next(r for r in rows if r["order"] == "varys")
    assert packet["total_s"] == pytest.approx(float(np.sum(varys(read_coflows(FILE), capacity_bytes_per_s=1.25e9))))
    assert [r["weighted_s"] for r in rows] == sorted(r["weighted_s"] for r in rows)


def test_rules_are_listed():
    text = run("rules")
    assert all(f"  {name} " in text for name in [*order_rules, *circuit_rules])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cores", "40"], "option --cores: a bare number could mean several units of rate, got '40'"),
        (["--delay", "5"], "option --delay: a bare number could mean several units of time, got '5'"),
        (["--order", "fif"], "coflow order: unknown name, got 'fif'; did you mean 'fifo'?"),
        (["--assign", "x"], "core assignment: unknown name, got 'x'"),
        (["--circuit", "x"], "circuit rule: unknown name, got 'x'"),
    ],
)
def test_errors(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["coflows", "schedule", FILE, *words])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith(f"netsim: error: {message}")
