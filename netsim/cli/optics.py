"""``netsim optics``: which circuits would be lit, and what they are worth."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import asdict, fields
from typing import Any

import click

from netsim.cli.options import PATH, TEXT, WHOLE, Choice, key_values
from netsim.cli.output import show
from netsim.cli.usage import Group

__all__ = ["optics"]

SHOWN = 20


@click.group(cls=Group)
def optics() -> None:
    """Optical circuits: which to light, what they are worth."""


@optics.command(short_help="What can be set in --optics.")
def settings() -> None:
    """List the settings of --optics with their defaults, and the methods that choose circuits."""
    from netsim.optics import Optics, selectors

    text = inspect.getdoc(Optics) or ""
    told = _attributes(text)
    rows = []
    for item in fields(Optics):
        name = "window" if item.name == "window_s" else item.name
        default = str(item.default)
        default = {"True": "yes", "False": "no"}.get(default, default)
        rows.append((f"{name}={default}", told.get(item.name, "")))
    width = max(len(name) for name, _ in rows)
    show(["METHOD:NAME=VALUE,NAME=VALUE,...  for example eefi:ports=4,delay=10ms", ""])
    show((f"{name:<{width}}  {text}" for name, text in rows[1:]), indent=width + 2)
    show(["", "methods:"])
    names = list(selectors)
    width = max(map(len, names))
    show(
        (f"{name:<{width}}  {(inspect.getdoc(selectors[name]) or '').splitlines()[0]}" for name in names),
        indent=width + 2,
    )


def _attributes(text: str) -> dict[str, str]:
    """Name to description, from the section Attributes of a docstring."""
    part = re.split(r"\n-{3,}\n", text.split("Attributes", 1)[-1])[1]
    told: dict[str, str] = {}
    names: list[str] = []
    for line in part.splitlines():
        head = re.match(r"([a-z_, ]+) : ", line)
        if head:
            names = [name.strip() for name in head.group(1).split(",")]
        elif names and line.startswith("    "):
            for name in names:
                told[name] = " ".join([told.get(name, ""), line.strip().replace("``", "")]).strip()
    return told


_TRACE = click.argument("trace", type=PATH)
_TOPO = click.option(
    "--topo", type=TEXT, default="dragonfly", show_default=True, help="Topology by name, or a graph file."
)
_PARAMS = click.option("-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the topology.")
_SPEC = click.option(
    "--optics",
    "spec",
    type=TEXT,
    default="eefi",
    show_default=True,
    help="METHOD:NAME=VALUE,...; see netsim optics settings.",
)
_PLACEMENT = click.option("--placement", type=TEXT, default="linear", show_default=True)
_SEED = click.option("--seed", type=WHOLE, default=0, show_default=True)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@optics.command(short_help="The circuits chosen for all that a run sends.")
@_TRACE
@_TOPO
@_PARAMS
@_SPEC
@_PLACEMENT
@_SEED
@_JSON
def plan(trace: str, topo: str, params: tuple[str, ...], spec: str, placement: str, seed: int, as_json: bool) -> None:
    """Choose circuits for all that TRACE sends, and show what each saves."""
    from netsim.api import resolve_topology
    from netsim.core.text import count
    from netsim.core.units import format_bytes, format_time
    from netsim.optics import Optics
    from netsim.study.optics import learnt_demand
    from netsim.traces import read_trace

    chosen = Optics.parse(spec)
    data = read_trace(trace)
    network = resolve_topology(topo, n_hosts=data.n_ranks, params=key_values(params, "-p"))
    demand = learnt_demand(data, network, placement=placement, seed=seed)
    hardware = chosen.switches(network, seed=seed)
    found = chosen.select(network, demand, hardware)
    base = network.n_hosts
    pairs = found.circuits.pairs()
    if as_json:
        click.echo(
            json.dumps(
                {
                    "settings": chosen.to_dict(),
                    "circuits": pairs,
                    "revenue": found.revenue.tolist(),
                    "before": asdict(found.before),
                    "after": asdict(found.after),
                    "notes": list(found.notes),
                    "slots": [{"length_s": length, "circuits": slot.pairs()} for length, slot in found.slots],
                },
                indent=1,
            )
        )
        return
    matrix = demand.dense()
    show(
        [
            f"{format_bytes(demand.total_bytes)} between {demand.to.size} pairs of switches of {network!r}",
            *found.lines(),
            "",
        ]
    )
    if found.slots:
        first = 0.0
        for i, (length, slot) in enumerate(found.slots[:SHOWN]):
            show([f"slot {i}: from {format_time(first)}, for {format_time(length)}, {count(len(slot), 'circuit')}"])
            first += length
        if len(found.slots) > SHOWN:
            show([f"... and {len(found.slots) - SHOWN} more"])
        show(["", "circuits of slot 0 (--json has all):"])
    width = max([len(network.vertex_name(base + s)) for pair in pairs[:SHOWN] for s in pair], default=0)
    for i, (a, b) in enumerate(pairs[:SHOWN]):
        revenue = f"  saves {found.revenue[i]:.4g}" if i < found.revenue.size else ""
        own = matrix[a, b] + (0.0 if hardware.directed else matrix[b, a])
        show(
            [
                f"{network.vertex_name(base + a):<{width}} {'->' if hardware.directed else '--'} "
                f"{network.vertex_name(base + b):<{width}}  own traffic {format_bytes(float(own))}{revenue}"
            ]
        )
    if len(pairs) > SHOWN:
        show([f"... and {len(pairs) - SHOWN} more (--json has all)"])


@optics.command(short_help="A run with and without circuits, arm by arm.")
@_TRACE
@_TOPO
@_PARAMS
@_SPEC
@_PLACEMENT
@click.option(
    "--arms",
    type=TEXT,
    help="Comma-separated: electrical, upgrade, stale, measured, given, oracle, or any method that chooses circuits.",
)
@click.option("--learn", type=PATH, help="An earlier run of the program, for the arm given.")
@click.option(
    "--gaps",
    type=Choice(["auto", "recorded", "none"]),
    default="auto",
    show_default=True,
    help="Local work between calls.",
)
@_SEED
@_JSON
def compare(
    trace: str,
    topo: str,
    params: tuple[str, ...],
    spec: str,
    placement: str,
    arms: str | None,
    learn: str | None,
    gaps: str,
    seed: int,
    as_json: bool,
) -> None:
    """Replay TRACE without circuits, with their ports as electrical links instead, and with circuits, by what the chooser knows."""
    from netsim.api import resolve_topology
    from netsim.cli.progress import ProgressReporter
    from netsim.study.optics import HEAD, compare_optics
    from netsim.traces import read_trace

    data = read_trace(trace)
    network = resolve_topology(topo, n_hosts=data.n_ranks, params=key_values(params, "-p"))
    wanted: dict[str, Any] = {} if arms is None else {"arms": [name.strip() for name in arms.split(",")]}
    if arms is None and learn is not None:
        wanted["arms"] = ["electrical", "upgrade", "random", "hottest", "stale", "measured", "given", "oracle"]
    with ProgressReporter() as reporter:
        rows, results = compare_optics(
            data,
            topology=network,
            optics=spec,
            learn=learn,
            placement=placement,
            seed=seed,
            gaps=gaps,
            progress=reporter.update,
            **wanted,
        )
    if as_json:
        click.echo(json.dumps({"arms": [asdict(r) for r in rows], "provenance": results[0].provenance}, indent=1))
        return
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    show("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in table)
