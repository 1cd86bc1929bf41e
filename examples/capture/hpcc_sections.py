"""Name the sections of HPCC in a trace of it: python hpcc_sections.py TRACE -- mpirun -n 8 hpcc

HPCC does not tell MPI where its sections begin. This runs it once more in the current folder (with the same hpccinf.txt), with
section_marks.c preloaded: rank 0 then calls MPI_Pcontrol when it writes "Begin of ... section." to its report. Every mark turns out to
stand directly after a collective on WORLD, so all ranks pass from one section to the next at that collective. The trace must have
the same sequence of collectives on WORLD as the marked run; then its phases are set, and nothing else of it is changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from netsim.traces import Trace, read_trace, write_trace
from netsim.traces.capture import capture
from netsim.traces.schema import OP_CODE, arrow_schema

HERE = Path(__file__).resolve().parent


def on_world(trace: Trace) -> npt.NDArray[np.bool_]:
    return (trace.column("comm") == 0) & (trace.column("coll_seq") >= 0)


def world_calls(trace: Trace) -> list[tuple[int, int]]:
    """Operations and sizes of the collectives on WORLD, on rank 0."""
    rows = on_world(trace) & (trace.column("rank") == 0)
    return list(zip(trace.column("op")[rows].tolist(), trace.column("bytes")[rows].tolist(), strict=True))


def borders(marked: Trace, report: str) -> tuple[list[str], list[int]]:
    """Names of the sections, and the number of the last collective on WORLD before each."""
    names = re.findall(r"^Begin of (\w+) section", report, re.MULTILINE)
    op, rank, coll = (marked.column(name) for name in ("op", "rank", "coll_seq"))
    marks = np.flatnonzero(op == OP_CODE["mark"])
    assert len(marks) == len(names), "one mark per section"
    assert not rank[marks].any(), "all marks on rank 0"
    # The last section is the summary, which only prints.
    assert names.pop() == "Summary"
    assert op[marks[-1] + 1] == OP_CODE["finalize"]
    before = marks[:-1] - 1
    assert on_world(marked)[before].all(), "a section begins after something else than a collective on WORLD"
    return names, coll[before].tolist()


def label(trace: Trace, names: list[str], border: list[int]) -> Trace:
    """The trace with the sections as phases: a row belongs to the section whose border its rank has passed last."""
    world, rank = on_world(trace), trace.column("rank")
    seen = np.where(world, trace.column("coll_seq"), -1)
    for r in range(trace.n_ranks):
        seen[rank == r] = np.maximum.accumulate(seen[rank == r])
    # The collective at a border is the last call of the section it ends.
    phase = np.searchsorted(border, np.where(world, seen - 1, seen), side="right") - 1
    phase[trace.column("op") == OP_CODE["finalize"]] = -1
    table = trace.table.drop_columns([name for name in ("phase",) if name in trace.table.column_names])
    table = table.append_column("phase", pa.array(phase.astype(np.int32), mask=phase < 0))
    data = [list(range(len(names))), names, ["benchmark"] * len(names)]
    return trace.replace(table=table, phases=pa.table(data, schema=arrow_schema("phases", ["phase", "name", "kind"])))


def main() -> None:
    path, separator, *command = sys.argv[1:]
    assert separator == "--", __doc__
    trace = read_trace(path)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "section_marks.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "section_marks.c"], check=True)
        Path("hpccoutf.txt").unlink(missing_ok=True)
        env = dict(os.environ) | {"LD_PRELOAD": str(library)}
        marked = capture(command, output=Path(folder) / "marked.parquet", env=env).traces[0]
    names, border = borders(marked, Path("hpccoutf.txt").read_text())
    assert world_calls(trace) == world_calls(marked), "another run: its collectives on WORLD are not those of the trace"
    write_trace(label(trace, names, border), path)
    print(f"{path}: {len(names)} sections: {', '.join(names)}")


if __name__ == "__main__":
    main()
