"""``netsim topo``: describe and draw networks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from netsim.cli.options import PATH, TEXT, WHOLE, key_values
from netsim.cli.output import show
from netsim.cli.usage import Group

if TYPE_CHECKING:
    from netsim.topologies import Topology

__all__ = ["topo"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Group)
def topo() -> None:
    """Describe and draw networks."""


def _which(command: F) -> F:
    """The options that say which network; NAME alone or after --topo, as with other commands."""
    for option in (
        click.option(
            "--hosts", type=WHOLE, help="Without parameters: smallest balanced instance that holds so many hosts."
        ),
        click.option(
            "-p", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the generator; repeat for more."
        ),
        click.option("--topo", "named", type=TEXT, metavar="NAME", help="The same as NAME."),
        click.argument("name", type=TEXT, required=False),
    ):
        command = option(command)
    return command


def _network(name: str | None, named: str | None, params: tuple[str, ...], hosts: int | None) -> Topology:
    from netsim.api import resolve_topology
    from netsim.core.errors import InputError

    if (name is None) == (named is None):
        got = "none" if name is None else f"{name} and {named}"
        raise InputError("topology", "must be given once, as NAME or --topo NAME", got=got)
    if hosts is not None and hosts < 1:
        raise InputError("option --hosts", "must be 1 or more", got=hosts)
    return resolve_topology(str(name or named), n_hosts=hosts or 1, params=key_values(params, "-p"))


@topo.command(short_help="Counts, ports, distances, bisection, cost, power.")
@_which
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Fail unless this number of --json is so; repeat.",
)
@click.option("--prices", type=PATH, metavar="FILE", help="TOML file with prices of ports, cables, transceivers.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def describe(
    name: str | None,
    named: str | None,
    params: tuple[str, ...],
    hosts: int | None,
    expected: tuple[str, ...],
    prices: str | None,
    as_json: bool,
) -> None:
    """Counts, ports, distances, bisection, cost and power of a topology by NAME or from a file.

    Prices are those of the file prices.toml in the package, each with its source, where --prices does not change them.
    """
    from netsim.core.errors import InputError
    from netsim.topologies import describe as describe_topology
    from netsim.topologies import read_prices

    wanted: dict[str, float] = {}
    for key, text in key_values(expected, "--expect").items():
        try:
            wanted[key] = float(text)
        except ValueError:
            raise InputError(f"option --expect {key}", "must be a number", got=repr(text)) from None
    found = describe_topology(_network(name, named, params, hosts), prices=read_prices(prices))
    found.expect(**wanted)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    else:
        show(found.lines(), indent=18)


@topo.command(short_help="A picture, laid out by structure.")
@_which
@click.option("-o", "--output", type=PATH, required=True, metavar="FILE", help="Picture to write: .svg, .png or .pdf.")
@click.option("--title", type=TEXT, help="Title; if not given, the family and its size.")
def draw(
    name: str | None, named: str | None, params: tuple[str, ...], hosts: int | None, output: str, title: str | None
) -> None:
    """Draw a topology by NAME or from a file: groups on a circle, trees in rows, tori on a grid.

    Needs matplotlib: pip install 'netsim-eo[report]'.
    """
    from netsim.report import draw_topology

    draw_topology(_network(name, named, params, hosts), output, title=title)
    click.echo(f"wrote {output}")
