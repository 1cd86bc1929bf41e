"""The ladder of the validation command: all rungs pass, and a broken engine falls off it."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from netsim import validation
from netsim.core.errors import InputError, NetsimError
from netsim.engine import simulation as engine
from netsim.testing import Peer, run_peer
from netsim.validation import ladder


@pytest.mark.compiled
def test_all_rungs_pass():
    tables = ladder.engine_tables()
    checks = [check for _, _, rows in tables for check in rows]
    assert [title[:2] for title, _, _ in tables] == ["L0", "L1", "L2", "L8"]
    assert len(checks) >= 40
    assert [check.name for check in checks if not check.ok] == []
    # The counts of the table are those of work done.
    assert all(check.cells[1][0] in "123456789" for check in checks)


@pytest.mark.compiled
def test_an_engine_that_is_off_by_a_millionth_falls_off(monkeypatch):
    honest = engine.Simulation.result

    def late(self, status):
        result = honest(self, status)
        result.end_s[:] *= 1 + 1e-6
        return result

    monkeypatch.setattr(engine.Simulation, "result", late)
    assert sum(not check.ok for check in ladder.hand_checks()) >= len(ladder.HAND_CASES)
    broken = [check.name for check in ladder.law_checks() if not check.ok]
    assert sum("exact simulation" in name for name in broken) == 2


@pytest.mark.compiled
def test_wrong_rates_fall_off_the_first_rung(monkeypatch):
    honest = engine.Simulation.allocation

    def wrong(self):
        allocation = honest(self)
        if allocation.rate_bytes_per_s.size:
            allocation.rate_bytes_per_s[0] *= 0.9
        return allocation

    monkeypatch.setattr(engine.Simulation, "allocation", wrong)
    failed = {check.name[:30] for check in ladder.solver_checks() if not check.ok}
    assert len(failed) >= 3


def test_recorded_finish_times_are_compared(tmp_path):
    data = json.loads(ladder.RECORDED.read_text())
    assert all(check.ok for check in ladder.peer_checks(None))
    data["cases"] = data["cases"][:1]
    data["cases"][0]["finish_s"][7] *= 1.001
    page = tmp_path / "recorded.json"
    page.write_text(json.dumps(data))
    (check,) = ladder.peer_checks(None, page)
    assert not check.ok
    assert check.error == pytest.approx(0.001, rel=0.01)
    page.write_text("{")
    with pytest.raises(NetsimError, match="must hold recorded finish times"):
        ladder.peer_checks(None, page)


def test_a_failed_check_is_the_exit_status(monkeypatch, capsys):
    from netsim.cli.main import main

    report = validation.Report(tables=(("Title", ("what",), (validation.Check(name="x", ok=False, cells=("x",)),)),))
    monkeypatch.setattr(validation, "validate", lambda *_, **__: report)
    with pytest.raises(SystemExit) as stop:
        main(["validate"])
    assert stop.value.code == 1
    assert "0 of 1 checks passed; failed: x" in capsys.readouterr().out


def test_unknown_parts_and_interpreters_are_refused():
    with pytest.raises(InputError, match="must be one of engine, models, routing, traces"):
        validation.validate(parts=["engines"])
    with pytest.raises(InputError, match="must be a Python that can import simgrid"):
        validation.validate(parts=["engine"], simgrid="/nowhere/python")


# A stand-in for SimGrid that reads the case as the C++ program does: it answers with the sizes, so that the format is checked.
ECHO = """
import struct, sys
data = open(sys.argv[1], "rb").read()
links, hosts, routes, hops, n, edges = struct.unpack_from("6q", data)
at = 8 * (6 + links + 2 * routes + routes + 1 + hops + 2 * n)
start = struct.unpack_from(f"{n}d", data, at)
size = struct.unpack_from(f"{n}d", data, at + 8 * n)
assert len(data) == at + 16 * n + 16 * edges
if size[0] == 666: raise SystemExit("no")
while size[0] == 777: pass
open(sys.argv[2], "wb").write(struct.pack(f"{n}d", *(a + b for a, b in zip(start, size))))
print(0.25)
"""


def peer_and_flows(size):
    peer = Peer(command=(sys.executable, "-c", ECHO), interface="stand-in")
    flows = {
        "capacity_bytes_per_s": [1.0, 2.0], "ptr": [0, 2, 3, 5], "link": [0, 1, 1, 0, 1], "src": [0, 1, 0], "dst": [1, 2, 1],
        "start_s": [0.0, 1.0, 2.0], "size_bytes": size,
    }  # fmt: skip
    return peer, flows


def test_the_peer_is_given_the_flows_and_its_times_are_read():
    peer, flows = peer_and_flows([10, 20, 30])
    run = run_peer(peer, **flows)
    # Times go out and come back in microseconds.
    assert run.finish_s == pytest.approx(np.array([10, 1e6 + 20, 2e6 + 30]) / 1e6)
    assert (run.cpu_s, run.stopped) == (0.25, False)


def test_a_peer_that_fails_or_runs_too_long_is_told_apart():
    peer, flows = peer_and_flows([666, 1, 1])
    with pytest.raises(NetsimError, match="must run these flows, got no"):
        run_peer(peer, **flows)
    peer, flows = peer_and_flows([777, 1, 1])
    assert run_peer(peer, **flows, limit_s=1).stopped


def test_flows_that_simgrid_cannot_take_are_refused():
    peer, flows = peer_and_flows([10, 20, 30])
    with pytest.raises(InputError, match="whole bytes"):
        run_peer(peer, **{**flows, "size_bytes": [1.5, 2, 3]})
    with pytest.raises(InputError, match="one route"):
        run_peer(peer, **{**flows, "link": [0, 1, 1, 1, 0]})
    with pytest.raises(InputError, match="start time 0"):
        run_peer(peer, **flows, edge_from=[0], edge_to=[1])
