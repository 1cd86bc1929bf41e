"""Parameters of things that are built by name, as a table: what is checked, what help says, and ``NAME:key=value,...`` as text."""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from netsim.core.errors import InputError, closest
from netsim.core.units import parse_bytes, parse_rate, parse_time

__all__ = [
    "MOST_COUNT",
    "Parameter",
    "checked_values",
    "count_text",
    "documented",
    "parse_named",
    "shortened",
    "table_lines",
]

REQUIRED: Final = object()
# What is counted by parameters (vertices, ranks, iterations) is numbered in int32.
MOST_COUNT: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a generator.

    Attributes
    ----------
    name : str
        Keyword in Python, key on the command line and in files.
    kind : str
        ``int``, ``sizes`` (several ints), ``number``, ``rate``, ``time``, ``bytes``, ``choice``, ``flag`` (yes or no) or ``text``.
    meaning : str
        One line, with what the default means where it is None.
    default : object
        Value when not given; without it the parameter is required.
    minimum : int
        Least value of an ``int``, of each of the ``sizes``, and of ``bytes``.
    choices : tuple of str
        Valid values of a ``choice``.
    sizing : bool
        A number among those that decide the size of the network: once it is given, the network is not sized to a
        number of hosts.

    Examples
    --------
    >>> Parameter(name="size", kind="bytes", meaning="of a message").parse("16KiB", "halo")
    16384
    >>> Parameter(name="n", kind="int", meaning="of all").parse("0", "halo")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: halo n: must be a whole number, 1 or more, got 0
    """

    name: str
    kind: Literal["int", "sizes", "number", "rate", "time", "bytes", "choice", "flag", "text"]
    meaning: str
    default: object = REQUIRED
    minimum: int = 1
    choices: tuple[str, ...] = ()
    sizing: bool = True

    def parse(self, value: object, subject: str) -> Any:
        """The checked value, from text or from the right type already."""
        if value is None and self.default is None:
            return None
        where = f"{subject} {self.name}"
        if self.kind == "int":
            return self._int(value, where)
        if self.kind == "sizes":
            return self._sizes(value, where)
        if self.kind == "number":
            return _number(value, where)
        if self.kind == "rate":
            rate = parse_rate(value, subject=where)  # type: ignore[arg-type]
            if rate == 0:
                raise InputError(where, "must be above 0 bytes per second", got=value)
            return rate
        if self.kind == "time":
            delay = parse_time(value, subject=where)  # type: ignore[arg-type]
            if math.isinf(delay):
                raise InputError(where, "must be finite", got=value)
            return delay
        if self.kind == "bytes":
            size = parse_bytes(value, subject=where)  # type: ignore[arg-type]
            if size < self.minimum:
                raise InputError(where, f"must be {self.minimum} B or more", got=value)
            return size
        if self.kind == "choice":
            if value not in self.choices:
                raise InputError(where, "unknown choice", got=repr(value), remedy=closest(str(value), self.choices))
            return value
        if self.kind == "flag":
            known = {"yes": True, "no": False, "true": True, "false": False}
            word = str(value).strip().lower()
            if word not in known:
                raise InputError(where, "must be yes or no", got=repr(value))
            return known[word]
        return str(value)

    def _sizes(self, value: object, where: str) -> tuple[int, ...]:
        parts: Sequence[object]
        if isinstance(value, str):
            parts = value.strip("()[] ").replace("x", ",").split(",")
        elif isinstance(value, int | np.integer):
            parts = [value]
        elif isinstance(value, Sequence | np.ndarray):
            parts = list(value)
        else:
            raise InputError(where, "must be whole numbers, written 4x4x2 or 4,4,2", got=repr(value))
        if not parts:
            raise InputError(where, "must have at least one number", got=repr(value))
        return tuple(self._int(part, where) for part in parts)

    def _int(self, value: object, where: str) -> int:
        rule = f"must be a whole number, {self.minimum} or more"
        try:
            number = int(value.strip()) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            raise InputError(where, rule, got=shortened(repr(value))) from None
        if isinstance(value, bool) or (not isinstance(value, str) and number != value) or number < self.minimum:
            raise InputError(where, rule, got=value if abs(number) <= MOST_COUNT else count_text(number))
        if number > MOST_COUNT:
            raise InputError(where, f"must be {MOST_COUNT} or less", got=number if number < 10**40 else "a huge number")
        return int(number)

    @property
    def range_text(self) -> str:
        """Type and range for help."""
        if self.kind == "int":
            return f"int >= {self.minimum}"
        if self.kind == "sizes":
            return f"ints >= {self.minimum}, e.g. 4x4x2"
        if self.kind == "choice":
            return "|".join(self.choices)
        return {
            "number": "number > 0",
            "rate": "rate (100Gbps, 12.5GB/s)",
            "time": "time (200ns, 1us)",
            "bytes": "size (16KiB, 1MB)",
            "flag": "yes|no",
            "text": "text",
        }[self.kind]

    @property
    def default_text(self) -> str:
        """Default for help."""
        if self.default is REQUIRED:
            return "required"
        if self.default is None:
            return ""
        shown = {True: "yes", False: "no"}.get(self.default, self.default) if self.kind == "flag" else self.default  # type: ignore[call-overload]
        if self.kind == "sizes" and isinstance(shown, tuple):
            shown = "x".join(map(str, shown))
        return f"default {shown:g}" if self.kind == "number" else f"default {shown}"


def _number(value: object, where: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise InputError(where, "must be a finite number above 0", got=shortened(repr(value)))
    return number


def checked_values(
    parameters: Sequence[Parameter],
    subject: str,
    values: Mapping[str, object],
    *,
    kind: str,
    synonyms: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """All parameters of a table, parsed; unknown names, missing names and bad values are errors.

    Parameters
    ----------
    parameters : sequence of Parameter
    subject : str
        Name of the thing, for messages.
    values : mapping
        What was given; None is the same as not given.
    kind : str
        What the thing is, for messages: ``"topology"``.
    synonyms : mapping of str to str, optional
        Words that other tools use, and ours.

    Examples
    --------
    >>> table = [Parameter(name="n", kind="int", meaning="members"), Parameter(name="size", kind="bytes", default="1kB", meaning="each")]
    >>> checked_values(table, "ring", {"n": "4"}, kind="workload")
    {'n': 4, 'size': 1000}
    """
    words = synonyms or {}
    known = {p.name: p for p in parameters}
    for name in values:
        if name not in known:
            meant = difflib.get_close_matches(name, words, n=1)
            remedy = closest(words[meant[0]] if meant else name, known)
            raise InputError(f"{kind} {subject}", "unknown parameter", got=repr(name), remedy=remedy)
    missing = [p.name for p in parameters if p.default is REQUIRED and values.get(p.name) is None]
    if missing:
        raise InputError(f"{kind} {subject}", "needs " + ", ".join(f"{name}=" for name in missing))
    given = {name: value for name, value in values.items() if value is not None}
    return {p.name: p.parse(given.get(p.name, p.default), subject) for p in parameters}


def parse_named(text: str, *, kind: str) -> tuple[str, dict[str, str]]:
    """``NAME`` or ``NAME:key=value,key=value`` as a name and its parameters; keys may be written with hyphens.

    Examples
    --------
    >>> parse_named("halo3d:dims=4x4x2,size=1MiB", kind="workload")
    ('halo3d', {'dims': '4x4x2', 'size': '1MiB'})
    >>> parse_named("halo3d:1MiB", kind="workload")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: workload halo3d: parameters are written key=value, got '1MiB'
    """
    name, _, rest = text.partition(":")
    name = name.strip()
    values: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or not value.strip():
            raise InputError(f"{kind} {name}", "parameters are written key=value", got=repr(shortened(part)))
        if key in values:
            raise InputError(f"{kind} {name} {key}", "was given twice", got=f"{values[key]} and {value.strip()}")
        values[key] = value.strip()
    return name, values


def table_lines(parameters: Sequence[Parameter]) -> list[str]:
    """The table for a terminal, one parameter per line."""
    rows = [(p.name, p.range_text, p.default_text, p.meaning) for p in parameters]
    width = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    return [f"  {a:{width[0]}}  {b:{width[1]}}  {c:{width[2]}}  {d}".rstrip() for a, b, c, d in rows]


def documented(docstring: str | None, parameters: Sequence[Parameter]) -> str:
    """The docstring of a function with its table in place of the line ``{parameters}``."""
    lines = []
    for p in parameters:
        lines.append(f"{p.name} : {p.range_text}" + (f", {p.default_text}" if p.default_text else ""))
        lines.append(f"    {p.meaning}")
    table = textwrap.indent("\n".join(["Parameters", "----------", *lines]), "    ")
    return (docstring or "").replace("    {parameters}", table)


def count_text(count: int) -> str:
    """A count, or its power of ten where the digits would fill the line.

    >>> count_text(12), count_text(10**30)
    ('12', 'about 10^30')
    """
    return str(count) if abs(count) < 10**15 else f"about {'-' if count < 0 else ''}10^{round(math.log10(abs(count)))}"


def shortened(text: str, most: int = 60) -> str:
    """Text of the user as an error repeats it: never more than a part of a line.

    >>> shortened("9" * 5000, 6)
    '999...'
    """
    return text if len(text) <= most else text[: most - 3] + "..."
