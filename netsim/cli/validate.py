"""``netsim validate``: check this installation against closed forms, oracles and the shipped traces."""

from __future__ import annotations

import click

__all__ = ["validate"]


@click.command()
@click.argument("traces", nargs=-1, type=click.Path())
@click.option(
    "--into", "page", type=click.Path(), help="Also write the tables into this Markdown page, between its marks."
)
def validate(traces: tuple[str, ...], page: str | None) -> int:
    """Check against closed forms, and replay TRACES on three networks with every allocation proven.

    ``netsim validate routing`` instead compares saturation throughputs with closed forms, linear programs and the engine.
    """
    from pathlib import Path

    from netsim.validation import validate as run_validation
    from netsim.validation import write_into

    if traces == ("routing",):
        from netsim.validation_routing import validate_routing

        report = validate_routing()
    else:
        report = run_validation(traces)
    click.echo("\n".join(report.lines()))
    if page is not None:
        write_into(Path(page), report)
    return 0 if report.ok else 1
