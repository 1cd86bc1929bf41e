"""``netsim validate``: check this installation against oracles, closed forms, another simulator and real traces."""

from __future__ import annotations

import click

__all__ = ["validate"]


@click.command(short_help="Check this installation against closed forms.")
@click.argument("traces", nargs=-1, type=click.Path())
@click.option(
    "--part",
    "parts",
    multiple=True,
    help="Only this part (repeatable): engine (oracles, hand cases, properties, SimGrid), models (closed forms), traces.",
)
@click.option(
    "--simgrid",
    metavar="PYTHON",
    help="Interpreter that can import simgrid: run it too, instead of comparing with recorded finish times.",
)
@click.option(
    "--into", "page", type=click.Path(), help="Also write the tables into this Markdown page, between its marks."
)
def validate(traces: tuple[str, ...], parts: tuple[str, ...], simgrid: str | None, page: str | None) -> int:
    """Check the engine against oracles and models against closed forms, and replay TRACES with every allocation proven.

    ``netsim validate routing`` instead compares saturation throughputs with closed forms, linear programs and the engine.
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
    if traces == ("routing",):
        from netsim.validation_routing import validate_routing

        report = validate_routing()
    else:
        report = run_validation(traces, parts=parts or PARTS, simgrid=simgrid)
    click.echo("\n".join(report.lines()))
    if page is not None:
        write_into(Path(page), report)
    return 0 if report.ok else 1
