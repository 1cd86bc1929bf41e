"""``netsim capture``: record a run."""

from __future__ import annotations

import click

__all__ = ["capture"]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-o", "--output", type=click.Path(), default="run.parquet", show_default=True, help="Trace to write.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def capture(output: str, command: tuple[str, ...]) -> int:
    """Record the MPI calls of COMMAND, unmodified: netsim capture -o run.parquet -- mpiexec -n 8 ./program"""
    from netsim.traces.capture import capture as record

    report = record(list(command), output=output)
    click.echo("\n".join(report.lines()), err=True)
    return int(report.exit_status)
