"""``netsim validate``: check this installation against oracles, closed forms, another simulator and real traces."""

from __future__ import annotations

import click

__all__ = ["validate"]


@click.command(short_help="Check this installation against closed forms.")
@click.argument("words", nargs=-1, metavar="[PART|TRACE]...")
@click.option(
    "--simgrid",
    metavar="PYTHON",
    help="Interpreter that can import simgrid: run it too, instead of comparing with recorded finish times.",
)
@click.option(
    "--into", "page", type=click.Path(), help="Also write the tables into this Markdown page, between its marks."
)
def validate(words: tuple[str, ...], simgrid: str | None, page: str | None) -> int:
    """Check this installation, and replay each TRACE with every allocation proven.

    PART is engine (oracles, hand cases, laws, SimGrid), models (closed forms of messages and collectives) or routing (throughput
    against closed forms and linear programs); without any, all of them.
    """
    import os
    from pathlib import Path

    from netsim.core.errors import InputError
    from netsim.validation import PARTS, write_into
    from netsim.validation import validate as run_validation

    if page is not None and not (Path(page).is_file() and os.access(page, os.W_OK)):
        # Before the minutes of work, not after them.
        raise InputError(
            f"page {page}", "must be a file that can be written", remedy="give an existing page with the marks"
        )
    traces = [word for word in words if word not in PARTS]
    parts = [word for word in words if word in PARTS]
    if traces:
        parts = [*(parts or PARTS[:-1]), "traces"]
    report = run_validation(traces, parts=parts or PARTS, simgrid=simgrid)
    click.echo("\n".join(report.lines()))
    if page is not None:
        write_into(Path(page), report)
    return 0 if report.ok else 1
