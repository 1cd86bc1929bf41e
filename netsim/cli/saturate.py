"""``netsim saturate``: how much traffic of a pattern a network takes."""

from __future__ import annotations

import json

import click

from netsim.cli.options import TEXT, key_values
from netsim.cli.output import show

__all__ = ["patterns", "saturate"]


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
@click.option("--routing", type=TEXT, help="Routing; optimum is the best possible, by a linear program.")
@click.option(
    "--pattern", type=TEXT, default="uniform", show_default=True, help="Traffic: uniform, adv+1, tornado, ..."
)
@click.option("--seed", type=int, default=0, show_default=True, help="For patterns with randomness.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def saturate(
    topo: str, params: tuple[str, ...], hosts: int, routing: str | None, pattern: str, seed: int, as_json: bool
) -> None:
    """Fluid saturation throughput of a network under a traffic pattern, and what limits it."""
    from netsim.api import resolve_topology
    from netsim.routing import saturation

    network = resolve_topology(topo, n_hosts=hosts, params=key_values(params, "-p"))
    found = saturation(network, pattern=pattern, routing=routing, seed=seed)
    if as_json:
        click.echo(json.dumps(found.to_dict(network), indent=1))
    else:
        show(found.lines(network), indent=18)


@click.command()
def patterns() -> None:
    """List traffic patterns."""
    from netsim.routing import patterns as registry

    names = list(registry)
    width = max(map(len, names))
    show((f"{n:<{width}}  {(registry[n].__doc__ or '').strip().splitlines()[0]}" for n in names), indent=width + 2)
