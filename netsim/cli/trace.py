"""``netsim trace``: look at traces and check them."""

from __future__ import annotations

import json

import click

from netsim.cli.options import PATH
from netsim.cli.output import show
from netsim.cli.usage import Group

__all__ = ["trace"]


@click.group(cls=Group)
def trace() -> None:
    """Look at traces and check them."""


@trace.command()
@click.argument("path", type=PATH)
@click.option("--allow-incomplete", is_flag=True, help="Drop (and count) what touches ranks without rows.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def info(path: str, allow_incomplete: bool, as_json: bool) -> None:
    """Who talked to whom: ranks, calls, bytes, phases, integrity."""
    from netsim.traces import describe_trace, read_trace

    found = describe_trace(read_trace(path, allow_incomplete=allow_incomplete))
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    else:
        show(found.lines(), indent=10)


@trace.command(short_help="Whether the calls of all ranks fit together.")
@click.argument("path", type=PATH)
@click.option("--allow-incomplete", is_flag=True, help="Drop (and count) what touches ranks without rows.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(path: str, allow_incomplete: bool, as_json: bool) -> int:
    """Integrity: collectives complete, sends equal receives, clocks monotone. Exit status 1 when something is wrong."""
    from netsim.traces import check_trace, read_trace

    report = check_trace(read_trace(path, allow_incomplete=allow_incomplete))
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=1))
    else:
        show(report.lines(), indent=10)
    return 0 if report.ok else 1
