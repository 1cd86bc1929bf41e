"""``netsim validate``: check this installation against closed forms, oracles and the shipped traces."""

from __future__ import annotations

import click

__all__ = ["validate"]


@click.command()
@click.argument("traces", nargs=-1, type=click.Path())
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
def validate(traces: tuple[str, ...], markdown: bool) -> int:
    """Check against closed forms and oracles, and replay TRACES on three topologies with every allocation certified."""
    from netsim.validation import validate as run_validation

    report = run_validation(traces)
    click.echo("\n".join(report.markdown() if markdown else report.lines()))
    return 0 if report.ok else 1
