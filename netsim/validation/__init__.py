"""Checks of this installation that a sceptic can run: the engine against oracles, models against closed forms, real traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from netsim.core.errors import InputError
from netsim.validation.ladder import engine_tables
from netsim.validation.models import collective_checks, message_checks, model_tables, trace_checks, trace_tables
from netsim.validation.report import BEGIN, END, Check, Report, Table, write_into
from netsim.validation.structure import structure_tables
from netsim.validation.throughput import routing_tables

__all__ = [
    "BEGIN", "END", "PARTS", "Check", "Report", "collective_checks", "engine_tables", "message_checks", "routing_tables",
    "trace_checks", "validate", "write_into",
]  # fmt: skip

PARTS = ("engine", "models", "routing", "traces")


def validate(
    traces: Iterable[str | PathLike[str]] = (), *, parts: Sequence[str] = PARTS, simgrid: str | None = None
) -> Report:
    """All checks; replays of the given traces on three topologies, with every allocation certified.

    Parameters
    ----------
    traces : iterable of paths
    parts : sequence of str
        Some of ``"engine"`` (oracles, hand cases, properties, SimGrid), ``"models"`` (closed forms of messages and collectives),
        ``"routing"`` (structure of networks and saturation throughput against theory and linear programs) and ``"traces"``.
    simgrid : str, optional
        A Python interpreter that can import simgrid; by default this one when it can, else finish times recorded from it are used.

    Raises
    ------
    InputError
        A part is unknown, a trace cannot be read, or the interpreter given has no SimGrid.

    Examples
    --------
    >>> report = validate(parts=["models"])
    >>> report.ok, len(report.tables)
    (True, 2)
    """
    for part in parts:
        if part not in PARTS:
            raise InputError("part", f"must be one of {', '.join(PARTS)}", got=repr(part))
    paths = [Path(path) for path in traces]
    tables: list[Table] = []
    if "engine" in parts:
        tables += engine_tables(simgrid=simgrid)
    if "models" in parts:
        tables += model_tables()
    if "routing" in parts:
        tables += structure_tables() + routing_tables()
    if "traces" in parts and paths:
        tables += trace_tables(paths)
    return Report(tables=tuple(tables))
