"""The registry of workload generators: parameters as a table, from which checks and help are made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from netsim.core.errors import InputError, closest
from netsim.core.parameters import Parameter, checked_values, documented, parse_named, table_lines
from netsim.core.registry import Registry
from netsim.traffic.workload import Workload

__all__ = ["WorkloadGenerator", "build", "ranks", "workload", "workloads"]


@dataclass(frozen=True, kw_only=True)
class WorkloadGenerator:
    """A registered generator: a function and its parameter table.

    Attributes
    ----------
    name : str
        Name in the registry.
    function : callable
        Takes the parameters as keywords, as values or as text, and returns a `Workload`.
    parameters : tuple of Parameter
        The table.
    """

    name: str
    function: Callable[..., Workload]
    parameters: tuple[Parameter, ...]

    def summary(self) -> str:
        """First line of the docstring."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def help(self) -> str:
        """The parameter table as text."""
        return "\n".join([f"{self.name}: {self.summary()}", *table_lines(self.parameters)])

    def notes(self) -> list[str]:
        """Closed forms and source, from the docstring: its lines between the table and the examples."""
        text = inspect.getdoc(self.function) or ""
        return text.split("Notes\n-----\n")[-1].split("\nExamples\n")[0].rstrip().splitlines()

    def to_dict(self) -> dict[str, Any]:
        """For programs: summary, notes, and each parameter with its type, default and meaning."""
        table = [
            {
                "name": p.name,
                "type": p.range_text,
                "default": p.default_text.removeprefix("default "),
                "meaning": p.meaning,
            }
            for p in self.parameters
        ]
        return {"summary": self.summary(), "parameters": table, "notes": self.notes()}


workloads: Registry[WorkloadGenerator] = Registry("workload", "netsim.workloads")


def ranks(default: int, meaning: str = "number of ranks", *, minimum: int = 1) -> Parameter:
    """The parameter that every generator has."""
    return Parameter(name="n_ranks", kind="int", default=default, minimum=minimum, meaning=meaning)


def workload(
    name: str, *, parameters: Sequence[Parameter]
) -> Callable[[Callable[..., Workload]], Callable[..., Workload]]:
    """Decorator: register a function under a name; its keywords are checked against the table and filled in from it.

    The table replaces the line ``{parameters}`` of the docstring. Every parameter must be in it, ``n_ranks`` among them.
    """
    table = tuple(parameters)

    def add(function: Callable[..., Workload]) -> Callable[..., Workload]:
        @functools.wraps(function)
        def checked(**values: Any) -> Workload:
            made = function(**checked_values(table, name, values, kind="workload", synonyms={"ranks": "n_ranks"}))
            # What the trace says about itself: all parameters, those that were given as they were written.
            used = {p.name: p.default if values.get(p.name) is None else values[p.name] for p in table}
            text = ",".join(f"{key}={_text(value)}" for key, value in used.items() if value is not None)
            return replace(made, source={"parameters": text, **made.source})

        checked.__doc__ = documented(function.__doc__, table)
        workloads.register(name)(WorkloadGenerator(name=name, function=checked, parameters=table))
        return checked

    return add


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "x".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def build(spec: str, *, n_ranks: int | None = None, **params: object) -> Workload:
    """A workload by name and parameters, as text or as Python values.

    Parameters
    ----------
    spec : str
        ``NAME`` or ``NAME:key=value,key=value``, as on the command line.
    n_ranks : int, optional
        Number of ranks; some generators take only certain ones, and say so.
    **params
        More parameters; those of the text must not be among them.

    Raises
    ------
    InputError
        Unknown name or parameter (with a suggestion), or a bad value.

    Examples
    --------
    >>> build("halo3d:dims=4x2x2,fields=4").n_ranks
    16
    >>> build("halo3D")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: workload: unknown name, got 'halo3D'; did you mean 'halo3d'? valid: ...
    """
    name, written = parse_named(spec, kind="workload")
    if "ranks" in written and "n_ranks" not in written:
        written["n_ranks"] = written.pop("ranks")
    if name not in workloads:
        raise InputError("workload", "unknown name", got=repr(name), remedy=closest(name, workloads))
    more = {key: value for key, value in {"n_ranks": n_ranks, **params}.items() if value is not None}
    for key in written:
        if key in more:
            raise InputError(f"workload {name} {key}", "was given twice", got=f"{written[key]} and {more[key]}")
    return workloads[name].function(**written, **more)
