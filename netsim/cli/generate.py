"""``netsim generate``: a workload by name as a trace file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import PATH, TEXT, WHOLE
from netsim.cli.output import show

if TYPE_CHECKING:
    from netsim.traffic import Workload

__all__ = ["generate"]


@click.command(short_help="A workload by name as a trace file.")
@click.argument("spec", type=TEXT, metavar="NAME[:key=value,...]")
@click.option("--ranks", type=WHOLE, help="Number of ranks; some workloads take only certain ones.")
@click.option("-o", "--output", type=PATH, required=True, metavar="FILE", help="Trace to write.")
@click.option("--force", is_flag=True, help="Replace a trace of that name.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def generate(spec: str, ranks: int | None, output: str, force: bool, as_json: bool) -> None:
    """Write what a known application communicates as a trace: netsim generate halo3d:cells=100 --ranks 64 -o halo.parquet

    netsim workloads lists the names, netsim workloads NAME the parameters of one.
    """
    from netsim.cli.progress import CountReporter
    from netsim.core.errors import InputError
    from netsim.traffic.workloads import build

    path = Path(output)
    if path.exists() and not force:
        raise InputError(output, "exists already", remedy="choose another name, or replace it with --force")
    if not path.parent.is_dir():
        raise InputError(output, "its folder must exist", got=str(path.parent))
    work = build(spec, n_ranks=ranks)
    with CountReporter("writing", "rank") as reporter:
        work.write(path, progress=reporter.update)
    facts = _facts(work, output)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        show(_lines(facts), indent=12)


def _facts(work: Workload, output: str) -> dict[str, Any]:
    """Counts of the file just written, batch by batch."""
    import numpy as np

    from netsim.traces import iter_batches
    from netsim.traces.schema import OPS

    collective = {op.name for op in OPS if op.kind == "collective"}
    calls: Counter[str] = Counter()
    size: Counter[str] = Counter()
    work_ns = 0
    for table in iter_batches(output, columns=["op", "bytes", "gap_ns"]):
        op = table.column("op").combine_chunks()
        names = op.dictionary.to_pylist()
        index = np.asarray(op.indices)
        nbytes = table.column("bytes").to_numpy()
        for i in np.unique(index).tolist():
            mine = index == i
            calls[names[i]] += int(mine.sum())
            size[names[i]] += int(nbytes[mine].sum())
        work_ns += int(table.column("gap_ns").to_numpy().sum())
    return {
        "workload": work.name,
        "parameters": work.source.get("parameters", ""),
        "output": output,
        "ranks": work.n_ranks,
        "rows": sum(calls.values()),
        "calls": dict(sorted(calls.items(), key=lambda item: (-item[1], item[0]))),
        "messages": calls["send"],
        "message_bytes": size["send"],
        "collective_calls": sum(n for name, n in calls.items() if name in collective),
        "collective_bytes": sum(n for name, n in size.items() if name in collective),
        "local_work_s": work_ns / 1e9,
        "phases": list(work.phases),
        "notes": list(work.notes),
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    from netsim.core.text import count
    from netsim.core.units import format_bytes, format_time

    lines = [
        f"wrote {facts['output']}: {facts['workload']}, {count(facts['ranks'], 'rank')}, {count(facts['rows'], 'row')}",
        f"parameters  {facts['parameters']}",
        "calls       " + "; ".join(f"{name} {n:,}" for name, n in facts["calls"].items()),
    ]
    if facts["messages"]:
        lines.append(f"messages    {facts['messages']:,}, {format_bytes(facts['message_bytes'])}")
    if facts["collective_calls"]:
        lines.append(
            f"collect.    {count(facts['collective_calls'], 'call')}, in which the ranks pass "
            f"{format_bytes(facts['collective_bytes'])} to the library"
        )
    lines.append(f"local work  {format_time(facts['local_work_s'])} of all ranks together")
    lines.append("phases      " + ", ".join(facts["phases"]))
    lines += [f"{'notes' if i == 0 else '':<12}{note}" for i, note in enumerate(facts["notes"])]
    return lines
