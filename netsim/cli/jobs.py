"""``netsim jobs``: several traces or workloads on one machine."""

from __future__ import annotations

import json
from pathlib import Path

import click

from netsim.cli.options import TEXT, WHOLE, Choice, key_values
from netsim.cli.output import show

__all__ = ["jobs"]


@click.command(short_help="Several jobs on one machine, and what each loses to the others.")
@click.argument("traces", nargs=-1, required=True, type=TEXT, metavar="TRACE|WORKLOAD[@START]...")
@click.option("--topo", type=TEXT, default="dragonfly", show_default=True, help="Topology by name, or a graph file.")
@click.option("-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the topology; repeat for more.")
@click.option("--routing", type=TEXT, help="Registered routing; default: that of the topology's family.")
@click.option(
    "--allocation",
    type=Choice(["linear", "interleaved", "random"]),
    default="linear",
    show_default=True,
    help="Hosts job after job, dealt in turn, or drawn by the seed.",
)
@click.option("--ranks-per-host", type=WHOLE, default=1, show_default=True)
@click.option(
    "--gaps", type=Choice(["auto", "recorded", "none"]), default="auto", show_default=True, help="Local work."
)
@click.option("--seed", type=WHOLE, default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def jobs(
    traces: tuple[str, ...],
    topo: str,
    params: tuple[str, ...],
    routing: str | None,
    allocation: str,
    ranks_per_host: int,
    gaps: str,
    seed: int,
    as_json: bool,
) -> None:
    """Run several jobs together and each alone on the same hosts, and show how much slower the others make it.

    A job is a trace file or a workload (lulesh:ranks=64), with @TIME if it starts later: run.parquet lulesh:ranks=64@1ms
    """
    from netsim.api import resolve_topology
    from netsim.cli.progress import ProgressReporter
    from netsim.core.errors import InputError
    from netsim.core.units import parse_time
    from netsim.study import Job, run_jobs
    from netsim.traces import read_trace
    from netsim.traffic.workloads import build, workloads

    found: list[Job] = []
    sizes: list[int] = []
    for text in traces:
        name, at, when = text.rpartition("@")
        if not at or Path(text).exists():
            name, when = text, "0s"
        start_s = parse_time(when, subject=f"job {name}")
        is_workload = not Path(name).exists() and name.partition(":")[0] in workloads
        trace = build(name).trace() if is_workload else read_trace(name)
        sizes.append(trace.n_ranks)
        found.append(Job(name=Path(name).name, trace=trace, start_s=start_s, ranks_per_host=ranks_per_host))
    if ranks_per_host < 1:
        raise InputError("ranks per host", "must be 1 or more", got=ranks_per_host)
    hosts = sum(-(-n // ranks_per_host) for n in sizes)
    network = resolve_topology(topo, n_hosts=hosts, params=key_values(params, "-p"))
    with ProgressReporter() as reporter:
        run = run_jobs(
            found,
            topology=network,
            routing=routing,
            allocation=allocation,
            gaps=gaps,
            seed=seed,
            progress=reporter.update,
        )
    if as_json:
        click.echo(json.dumps(run.to_dict(), indent=1))
    else:
        show(
            [f"{network.family}, {network.n_hosts:,} hosts, routing {run.result.provenance['routing']}", *run.lines()],
            indent=4,
        )
