"""``netsim saturate``: how much traffic of a pattern a network takes."""

from __future__ import annotations

import json
from typing import Any

import click

from netsim.cli.options import PATH, SIZE, TEXT, WHOLE, key_values
from netsim.cli.output import show

__all__ = ["patterns", "saturate"]

# Networks of more hosts are simulated only when loads are named: a point takes minutes there.
CURVE_HOSTS = 400


@click.command(short_help="How much traffic of a pattern a network takes.")
@click.option("--topo", type=TEXT, default="dragonfly", show_default=True, help="Topology by name, or a graph file.")
@click.option("-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the generator; repeat for more.")
@click.option(
    "--hosts",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Without parameters: smallest balanced instance.",
)
@click.option(
    "--routing",
    "routings_",
    multiple=True,
    type=TEXT,
    help="Routing; repeat to compare. optimum is the best possible, by a linear program.",
)
@click.option(
    "--pattern", type=TEXT, default="uniform", show_default=True, help="Traffic: uniform, adv+1, tornado, ..."
)
@click.option(
    "--loads",
    type=TEXT,
    help=f"Offered loads to simulate: FROM:TO:STEP, a list 0.2,0.5, or none; default: 0.1:1:0.1 up to {CURVE_HOSTS} hosts.",
)
@click.option("--message-size", type=SIZE, default="64KiB", show_default=True, help="Of the simulated messages.")
@click.option("--messages", type=WHOLE, help="Per host at load 1; default: 14,400 in all, 30 to 200 each.")
@click.option("--multipath", type=TEXT, help="Paths per message, as in netsim replay.")
@click.option("--plot", type=PATH, metavar="FILE", help="Draw the load curves: .svg, .png or .pdf.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random patterns, arrivals and routes.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON; several routings: a list.")
def saturate(
    topo: str,
    params: tuple[str, ...],
    hosts: int,
    routings_: tuple[str, ...],
    pattern: str,
    loads: str | None,
    message_size: int,
    messages: int | None,
    multipath: str | None,
    plot: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Saturation throughput of a network under a traffic pattern, what limits it, and load curves.

    The throughput is that of a fluid, by the loads of links. The curves are simulated, message by message: what is accepted of what is
    offered, and how much longer messages take.
    """
    from netsim.api import resolve_topology
    from netsim.cli.progress import ProgressReporter
    from netsim.core.errors import InputError
    from netsim.routing import routings, saturation
    from netsim.routing.throughput import OPTIMUM, default_fluid, saturation_routings
    from netsim.study import load_curve

    if plot is not None:
        from netsim.report.style import checked_file

        checked_file(plot)
    network = resolve_topology(topo, n_hosts=hosts, params=key_values(params, "-p"))
    chosen = _loads(loads, network.n_hosts)
    if plot is not None and not chosen:
        raise InputError(
            "option --plot",
            "needs loads to simulate",
            got=f"--loads {loads or 'of a large network'}",
            remedy="give --loads",
        )
    found: list[dict[str, Any]] = []
    curves, limits = [], []
    for name in routings_ or (default_fluid(network),):
        if name not in saturation_routings() and name in routings and chosen:
            fluid = None
        else:
            fluid = saturation(network, pattern=pattern, routing=name, seed=seed)
        curve = None
        if chosen and name != OPTIMUM:
            with ProgressReporter() as reporter:
                curve = load_curve(
                    network,
                    pattern=pattern,
                    routing=name,
                    loads=chosen,
                    message_bytes=message_size,
                    messages_per_host=messages,
                    multipath=multipath,
                    seed=seed,
                    progress=reporter.update,
                )
            curves.append(curve)
            limits.append(None if fluid is None else fluid.accepted)
        if not as_json:
            lines = (
                [f"routing           {name}: has no fluid form, simulated only"]
                if fluid is None
                else fluid.lines(network)
            )
            if curve is not None:
                lines += curve.lines()
            elif loads is None and name != OPTIMUM:
                lines.append(
                    f"load curve        not simulated for more than {CURVE_HOSTS} hosts; --loads 0.1:1:0.1 does it"
                )
            show([*([""] if found else []), *lines], indent=18)
        found.append(
            {
                **(fluid.to_dict(network) if fluid is not None else {"pattern": pattern, "routing": name}),
                "load_curve": None if curve is None else curve.to_dict(),
            }
        )
    if as_json:
        click.echo(json.dumps(found if len(found) > 1 else found[0], indent=1))
    if plot is not None:
        from netsim.report import draw_load_curves

        title = f"{network.family}, {network.n_hosts:,} hosts, {pattern}"
        draw_load_curves(curves, plot, title=title, limits=limits)
        click.echo(f"wrote {plot}", err=as_json)


def _loads(text: str | None, n_hosts: int) -> list[float]:
    """Loads from ``0.1:1:0.1``, ``0.2,0.5`` or ``none``; by default ten up to 1 for small networks."""
    from netsim.core.errors import InputError
    from netsim.study.load import LOADS

    if text is None:
        return list(LOADS) if n_hosts <= CURVE_HOSTS else []
    if text == "none":
        return []
    rule = "must be FROM:TO:STEP, a list such as 0.2,0.5, or none"
    try:
        numbers: list[Any] = [float(word) for word in text.replace(":", ",").split(",")]
    except ValueError:
        raise InputError("option --loads", rule, got=repr(text)) from None
    if ":" not in text:
        return numbers
    if (
        text.count(":") != 2
        or "," in text
        or not (numbers[2] > 0 and 0 < numbers[0] <= numbers[1] <= 1000 * numbers[2])
    ):
        raise InputError("option --loads", rule, got=repr(text))
    first, last, step = numbers
    # Rounded, so that steps of a tenth are tenths.
    return [round(first + i * step, 9) for i in range(int((last - first) / step + 1e-9) + 1)]


@click.command()
def patterns() -> None:
    """List traffic patterns."""
    from netsim.routing import patterns as registry

    names = list(registry)
    width = max(map(len, names))
    show((f"{n:<{width}}  {(registry[n].__doc__ or '').strip().splitlines()[0]}" for n in names), indent=width + 2)
