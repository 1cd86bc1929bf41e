"""``netsim capture``: record a run."""

from __future__ import annotations

import click

__all__ = ["capture"]


@click.command(
    short_help="Record the MPI calls of an unmodified program.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-o", "--output", type=click.Path(), default="run.parquet", show_default=True, help="Trace to write.")
@click.option("--mpi", metavar="PATH", help="mpicc (or folder) of the program's MPI, when it is not found by itself.")
@click.option(
    "--gap-clock",
    default="thread-cpu",
    show_default=True,
    metavar="CLOCK",
    help="Work between calls: thread-cpu, or wall to count accelerators, files and other threads too.",
)
@click.option(
    "--timestamps",
    default="auto",
    show_default=True,
    metavar="WHICH",
    help="Times of the calls: keep, drop, or auto, which drops them when there are more ranks than cores.",
)
@click.option("--keep-records", is_flag=True, help="Keep the raw records beside the output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def capture(
    output: str, mpi: str | None, gap_clock: str, timestamps: str, keep_records: bool, command: tuple[str, ...]
) -> int:
    """Record the MPI calls of COMMAND, unmodified: netsim capture -o run.parquet -- mpiexec -n 8 ./program"""
    from netsim.traces.capture import capture as record

    report = record(
        list(command), output=output, mpi=mpi, gap_clock=gap_clock, timestamps=timestamps, keep_records=keep_records
    )
    click.echo("\n".join(report.lines()), err=True)
    return int(report.exit_status)
