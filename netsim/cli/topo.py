"""``netsim topo``: describe networks."""

from __future__ import annotations

import json

import click

from netsim.cli.options import TEXT, WHOLE, key_values
from netsim.cli.output import show
from netsim.cli.usage import Group

__all__ = ["topo"]


@click.group(cls=Group)
def topo() -> None:
    """Describe networks."""


@topo.command(short_help="Counts, ports, distances and bisection.")
@click.argument("name", type=TEXT)
@click.option("-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the generator; repeat for more.")
@click.option(
    "--hosts",
    type=WHOLE,
    help="Without parameters: smallest balanced instance that holds so many hosts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def describe(name: str, params: tuple[str, ...], hosts: int | None, as_json: bool) -> None:
    """Counts, ports, distances and bisection of a topology by NAME or from a file."""
    from netsim.api import resolve_topology
    from netsim.core.errors import InputError
    from netsim.topologies import describe as describe_topology

    if hosts is not None and hosts < 1:
        raise InputError("option --hosts", "must be 1 or more", got=hosts)
    found = describe_topology(resolve_topology(name, n_hosts=hosts or 1, params=key_values(params, "-p")))
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    else:
        show(found.lines(), indent=18)
