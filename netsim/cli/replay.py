"""``netsim replay``: a trace on a network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import NUMBER, PART, PATH, RATE, SIZE, TEXT, TIME, WHOLE, Choice, key_values
from netsim.cli.output import show
from netsim.core.text import count

if TYPE_CHECKING:
    from netsim.jobs import Placement
    from netsim.results import Result
    from netsim.topologies import Topology
    from netsim.traces import Trace
    from netsim.traffic import Protocol

__all__ = ["replay"]

NOTES_SHOWN = 6


@click.command()
@click.argument("trace", type=PATH)
@click.option("--ranks", type=WHOLE, help="Of a workload: number of ranks.")
@click.option(
    "--topo", "topology", type=TEXT, default="dragonfly", show_default=True, help="Registered topology or graph file."
)
@click.option("-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the topology; repeat for more.")
@click.option("--routing", type=TEXT, help="Registered routing; default: that of the topology's family.")
@click.option(
    "--multipath",
    type=TEXT,
    help="Paths per transfer: one, subflows:N, spray:N; default: subflows:8 for adaptive routings, else one.",
)
@click.option("--reroute", "reroute_s", type=TIME, help="Let transfers under way move to better paths that often.")
@click.option(
    "--hysteresis", type=PART, default="10%", show_default=True, help="Gain in rate that such a move must promise."
)
@click.option(
    "--placement", type=TEXT, default="linear", show_default=True, help="linear, round-robin, random, or file:PATH."
)
@click.option("--ranks-per-host", type=WHOLE, default=1, show_default=True)
@click.option(
    "--collectives",
    "collectives_",
    multiple=True,
    default=("mpich",),
    show_default=True,
    help="Selection rules (mpich, openmpi, nccl) and/or OP=ALGORITHM; repeat for more.",
)
@click.option("--eager", type=SIZE, default="16KiB", show_default=True, help="Largest message sent eagerly.")
@click.option("--send-overhead", type=TIME, default="0.5us", show_default=True, help="Processor time per send.")
@click.option("--recv-overhead", type=TIME, default="0.5us", show_default=True, help="Processor time per receive.")
@click.option(
    "--handshake/--no-handshake",
    default=True,
    show_default=True,
    help="Request and clearance of rendezvous messages; collectives never pay them.",
)
@click.option(
    "--gaps", type=Choice(["auto", "recorded", "none"]), default="auto", show_default=True,
    help="Local work between calls; auto drops it where the recording's clock cannot be trusted.",
)  # fmt: skip
@click.option("--compute-scale", type=NUMBER, default=1.0, show_default=True, help="Factor on local work.")
@click.option("--flops", type=NUMBER, help="Host speed in flop/s, for traces that record work instead of time.")
@click.option("--longest-gap", type=TIME, help="Drop longer local work or calls as damaged clocks; default: keep all.")
@click.option(
    "--latency-mode",
    type=Choice(["tail", "head"]),
    default="tail",
    show_default=True,
    help="Path latency after the last byte has left, or before the first one does.",
)
@click.option("--local-rate", type=RATE, help="Speed between ranks of one host; default: no time.")
@click.option("--allow-incomplete", is_flag=True, help="Drop (and count) calls that some ranks lack.")
@click.option(
    "--optics",
    type=TEXT,
    help="Optical circuits: METHOD:NAME=VALUE,..., e.g. eefi:ports=4,delay=10ms; see netsim optics settings.",
)
@click.option("--seed", type=WHOLE, default=0, show_default=True)
@click.option("--bins", type=WHOLE, default=200, show_default=True, help="Time bins of the links table.")
@click.option(
    "--steady-collectives",
    is_flag=True,
    help="Bulk mode: rings and pairwise exchanges as steady flows instead of step by step.",
)
@click.option(
    "--level-tolerance",
    type=PART,
    default="0",
    help="Bulk mode: let rates follow only when a level moves by more than this, e.g. 1%; default: exact.",
)
@click.option(
    "--completion-window",
    type=PART,
    default="0",
    help="Bulk mode: handle completions within this part of a flow's duration together, e.g. 1%; default: exact.",
)
@click.option("--certify", is_flag=True, help="Prove every allocation to be max-min fair (slower).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("-o", "--output", type=PATH, help="Write summary.json and the tables to this folder.")
@click.option("--dry-run", is_flag=True, help="Check everything and print what would run.")
def replay(
    trace: str,
    ranks: int | None,
    topology: str,
    params: tuple[str, ...],
    collectives_: tuple[str, ...],
    eager: int,
    send_overhead: float,
    recv_overhead: float,
    handshake: bool,
    flops: float | None,
    local_rate: float | None,
    longest_gap: float | None,
    ranks_per_host: int,
    as_json: bool,
    output: str | None,
    dry_run: bool,
    **options: Any,
) -> int:
    """Replay TRACE on a network and say how long it takes, and why.

    TRACE is a file, or a workload by name (netsim workloads) that is made on the way: halo3d:cells=50 --ranks 64

    A topology named without parameters is sized to the trace: the smallest balanced instance that holds its ranks.
    """
    from netsim import api
    from netsim.cli.progress import ProgressReporter
    from netsim.engine import Multipath, default_multipath, load_kernels
    from netsim.jobs import place
    from netsim.jobs.placement import check_ranks_per_host
    from netsim.results.result import probe_folder
    from netsim.routing import default_routing
    from netsim.traces import read_trace
    from netsim.traffic import Protocol

    if output is not None:
        probe_folder(output)
    data = _made(trace, ranks) or read_trace(trace, allow_incomplete=bool(options["allow_incomplete"]))
    protocol = Protocol(
        eager_threshold_bytes=eager, send_overhead_s=send_overhead, recv_overhead_s=recv_overhead, handshake=handshake
    )
    check_ranks_per_host(ranks_per_host)
    chosen = key_values(params, "-p")
    network = api.resolve_topology(topology, n_hosts=-(-data.n_ranks // ranks_per_host), params=chosen)
    sized = not chosen and network.family == topology.replace("-", "_")
    rules = _collectives(collectives_)
    placement = place(
        options["placement"],
        n_ranks=data.n_ranks,
        topology=network,
        ranks_per_host=ranks_per_host,
        seed=options["seed"],
    )
    routing = default_routing(network) if options["routing"] is None else options["routing"]
    if options["multipath"] is None and options["optics"] is None:
        options["multipath"] = default_multipath(routing)
    elif options["multipath"] is not None:
        options["multipath"] = Multipath.parse(options["multipath"])
    if not dry_run:
        # Compiling, where needed, is announced before the first line of the answer.
        load_kernels()
    if not as_json:
        show(_heading(trace, data, network, sized))
        show(_model(routing, placement, network, rules, protocol, options))
    if dry_run:
        return 0
    with ProgressReporter() as reporter:
        result = api.replay(
            data,
            topology=network,
            ranks_per_host=ranks_per_host,
            protocol=protocol,
            collectives=rules,
            flops_per_s=flops,
            longest_gap_s=float("inf") if longest_gap is None else longest_gap,
            local_bytes_per_s=float("inf") if local_rate is None else local_rate,
            progress=reporter.update,
            **options,
        )
    if output is not None:
        result.write(output)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "status": result.status,
                    "summary": result.summary,
                    "provenance": result.provenance,
                    "wall": result.wall,
                },
                indent=1,
            )
        )
    else:
        show(_outcome(result, output))
    return 0 if result.status == "finished" else 130


def _made(text: str, ranks: int | None) -> Trace | None:
    """The trace of a workload, if that is what the words name."""
    from pathlib import Path

    from netsim.core.errors import InputError
    from netsim.traffic.workloads import build, workloads

    if not Path(text).exists() and text.partition(":")[0] in workloads:
        return build(text, n_ranks=ranks).trace()
    if ranks is not None:
        raise InputError(
            "option --ranks", "goes with a workload by name", got=text, remedy="netsim workloads lists them"
        )
    return None


def _collectives(words: tuple[str, ...]) -> Any:
    from netsim.core.errors import InputError

    rules = [word for word in words if "=" not in word]
    if len(rules) > 1:
        raise InputError("option --collectives", "takes one set of rules", got=", ".join(rules))
    chosen = key_values([word for word in words if "=" in word], "--collectives")
    base = rules[0] if rules else "mpich"
    return {"rules": base, **chosen} if chosen else base


def _heading(path: str, trace: Trace, network: Topology, sized: bool) -> list[str]:
    from netsim.results.summary import rate_text

    given = {k: v for k, v in network.params.items() if not k.endswith(("capacity", "latency"))}
    name = " ".join([network.family, *(f"{k}={_short(v)}" for k, v in given.items())])
    meta = trace.meta
    marks = []
    if meta.complete != "true":
        marks.append(f"INCOMPLETE ({meta.complete})")
    if meta.time_quality == "oversubscribed":
        cores = meta.source.get("cores_per_host")
        clock = "; local work is CPU time" if meta.gap_clock == "thread-cpu" else ""
        marks.append(f"recorded with more ranks than cores{f' ({cores} per host)' if cores else ''}{clock}")
    lines = [
        f"netsim {_version()}: replay of {path}",
        f"  {'trace':<15} {trace.profile}, {count(trace.n_rows, 'row')}, {count(trace.n_ranks, 'rank')}, sha256 {trace.content_hash[:12]}",
    ]
    lines += [f"  {'':<15} {mark}" for mark in marks]
    return [
        *lines,
        f"  {'network':<15} {name}{' (sized to the ranks)' if sized else ''}: {count(network.n_hosts, 'host')}, "
        f"{count(network.n_switches, 'switch')}, {count(network.n_links, 'link')} of {rate_text(network)}",
    ]


def _model(
    routing: str, placement: Placement, network: Topology, rules: Any, protocol: Protocol, options: dict[str, Any]
) -> list[str]:
    from netsim.core.units import format_time

    named = rules if isinstance(rules, str) else ", ".join(f"{k}={v}" for k, v in rules.items())
    size = protocol.eager_threshold_bytes
    eager = f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"
    mode = "after the last byte" if options["latency_mode"] == "tail" else "before the first byte"
    bulk = [
        f"{name} {options[key]:.3g}"
        for name, key in (("level tolerance", "level_tolerance"), ("completion window", "completion_window"))
        if options[key] > 0
    ]
    several = options["multipath"]
    split = f" ({several}: sub-flows stand for decisions per packet)" if several and several.kind == "subflows" else ""
    if several and several.kind == "spray":
        split = f" ({several})"
    return [
        f"  {'model':<15} {routing} routing{split}, {placement.name} placement "
        f"({count(placement.idle_hosts(network.n_hosts), 'idle host')}), collectives as {named}",
        f"  {'':<15} messages eager up to {eager}, overheads {format_time(protocol.send_overhead_s)} to send and "
        f"{format_time(protocol.recv_overhead_s)} to receive, latency {mode}, seed {options['seed']}",
        *([f"  {'':<15} approximate sharing: {', '.join(bulk)}"] if bulk else []),
    ]


def _short(value: object) -> str:
    if isinstance(value, tuple | list):
        return "x".join(str(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _version() -> str:
    import netsim

    return netsim.__version__


def _outcome(result: Result, output: str | None) -> list[str]:
    from netsim.results.summary import screen

    lines = screen(result.summary, result.provenance, result.wall, result.status)
    notes = result.summary["notes"]
    for i, note in enumerate(notes[:NOTES_SHOWN]):
        lines.append(f"  {'notes' if i == 0 else '':<15} {note}")
    if len(notes) > NOTES_SHOWN:
        lines.append(f"  {'':<15} ... and {len(notes) - NOTES_SHOWN} more (--json shows all)")
    lines.append(f"  {'not modelled':<15} packets, queues, loss, congestion control: no word on tails or incast")
    if output is not None:
        partial = "" if result.status == "finished" else f", marked {result.status}"
        lines.append(f"  {'written':<15} {output} (ops, flows, links, ranks, summary.json{partial})")
    return lines
