"""The sections of the shipped HPCC trace: what each benchmark must and must not do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netsim.traces import read_trace
from netsim.traces.matching import collective_groups, message_balance
from netsim.traces.schema import OP_CODE


def test_sections_of_hpcc(shipped: Path) -> None:
    trace = read_trace(shipped / "hpcc-8.parquet")
    names = trace.phases.column("name").to_pylist()
    phase, op, rank = trace.column("phase"), trace.column("op"), trace.column("rank")
    assert {"HPL", "PTRANS", "MPIFFT", "MPIRandomAccess", "StarSTREAM", "StarDGEMM", "SingleDGEMM"} <= set(names)
    # All ranks go through all sections in the same order.
    for r in range(trace.n_ranks):
        mine = phase[rank == r]
        inside = np.flatnonzero(mine >= 0)
        assert (np.diff(mine[inside[0] : inside[-1] + 1]) >= 0).all()
        assert set(mine[inside]) == set(range(len(names)))
    # A collective and a message lie within one section, whoever is asked.
    groups = collective_groups(trace)
    low, high = groups.spread(phase[groups.rows])
    assert (low == high).all()
    balance = message_balance(trace)
    assert balance.send.size > 50_000
    assert (phase[balance.send] == phase[balance.recv]).all()
    # Star and Single sections compute on each rank, or on one, without messages; the others communicate.
    for number, name in enumerate(names):
        sends = int((op[phase == number] == OP_CODE["send"]).sum())
        alltoalls = int((op[phase == number] == OP_CODE["alltoall"]).sum())
        assert (sends + alltoalls == 0) == name.startswith(("Star", "Single")), name
    # The FFT transposes by all-to-all, the linear solver looks ahead by probes.
    assert (op[phase == names.index("MPIFFT")] == OP_CODE["alltoall"]).any()
    assert (op[phase == names.index("HPL")] == OP_CODE["probe"]).any()
