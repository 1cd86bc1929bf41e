"""Scripts of ranks: repetition is the same as writing the calls out, files are the same as memory, bad input is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.traces import read_trace
from netsim.traffic import Script, Workload

CALLS = st.sampled_from(["work", "sendrecv", "allreduce", "row", "phase"])
# A program is calls and repeated programs.
PROGRAM = st.recursive(
    st.lists(CALLS, max_size=4),
    lambda inner: st.lists(CALLS | st.tuples(st.integers(0, 3), inner), max_size=4),
    max_leaves=12,
)


def perform(script: Script, program: list, *, unrolled: bool) -> None:
    for step in program:
        match step:
            case "work":
                script.compute(2e-6)
            case "sendrecv":
                script.sendrecv(1, 10, 2, 20, tag=3)
            case "allreduce":
                script.allreduce(8)
            case "row":
                script.allgather(4, comm=1)
            case "phase":
                script.phase(1)
            case (times, inner):
                if unrolled:
                    for _ in range(times):
                        # Work left over at the end of a block is a call of its own there, as in a repeated block.
                        with script.repeat(1):
                            perform(script, inner, unrolled=True)
                else:
                    with script.repeat(times):
                        perform(script, inner, unrolled=False)


@given(PROGRAM)
def test_repetition_is_the_same_as_writing_out(program: list) -> None:
    short, long = Script(0), Script(0)
    perform(short, program, unrolled=False)
    perform(long, program, unrolled=True)
    a, b = short.table().to_pydict(), long.table().to_pydict()
    # A phase set inside a block holds from there on, in the block's second round also for the calls before it: not compared.
    for name in a:
        if name != "phase":
            assert a[name] == b[name], name


def test_file_and_memory_hold_the_same(tmp_path: Path) -> None:
    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(5):
            made.compute(1e-6 * (rank + 1))
            made.exchange([(rank - 1) % 6, (rank + 1) % 6], [100, 200] if rank % 2 else [200, 100])
            made.allreduce(8)
        return made

    work = Workload(name="ring", n_ranks=6, script=script, phases=["all"], notes=["made up"], source={"from": "here"})
    seen: list[tuple[int, int]] = []
    n_rows = work.write(tmp_path / "ring.parquet", progress=lambda done, n: seen.append((done, n)))
    back, trace = read_trace(tmp_path / "ring.parquet"), work.trace()
    assert n_rows == trace.n_rows == 6 * 5 * 6
    assert back.table.to_pydict() == trace.table.to_pydict()
    assert back.meta.notes == ("made up",)
    assert back.meta.source["workload"] == "ring"
    assert seen == [(i + 1, 6) for i in range(6)]
    gaps = np.asarray(trace.table.column("gap_ns"))
    assert gaps.sum() == sum(5 * 1000 * (rank + 1) for rank in range(6))


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda s: s.compute(-1), "workload: local work must be 0 s or more, got -1 s"),
        (lambda s: s.compute(float("nan")), "workload: local work must be 0 s or more, got nan s"),
        (lambda s: s.send(1, -5), "workload: a size must be 0 B or more, got -5 B"),
        (lambda s: s.wait(0), "workload: a wait must name calls of its own repeat block, got (0,)"),
        (lambda s: s.collective("send", 1), "workload: not a collective, got 'send'"),
        (lambda s: s.repeat(-1), "workload: a block is repeated 0 times or more, got -1"),
    ],
)
def test_bad_calls_are_one_line(do: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        do(Script(0))  # type: ignore[operator]
    assert str(caught.value) == message


def test_a_workload_needs_a_rank() -> None:
    with pytest.raises(InputError, match="workload none: needs one rank or more, got 0"):
        Workload(name="none", n_ranks=0, script=Script)
