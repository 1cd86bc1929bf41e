"""The registry of topology generators: their parameters as a table, from which checks and help are made."""

from __future__ import annotations

import difflib
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError, closest
from netsim.core.registry import Registry
from netsim.core.units import parse_rate, parse_time
from netsim.topologies.machines import machines
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology

__all__ = [
    "Generator",
    "Layers",
    "Parameter",
    "build",
    "cables",
    "check_size",
    "checked",
    "generator",
    "is_topology_file",
    "link_parameters",
    "shortened",
    "topologies",
]

REQUIRED = object()
# Vertices and links are numbered in int32.
MOST = 2**31 - 1
# Dimensions, or levels of a tree: with two switches or more in each there are no more below 2^31.
MOST_DIMENSIONS = 32
F = TypeVar("F", bound=Callable[..., Topology])

# Words other tools use for the same thing, to suggest ours.
_SYNONYMS = {"bandwidth": "capacity", "speed": "capacity", "rate": "capacity", "delay": "latency"}

_KINDS = {
    "int": "whole number",
    "sizes": "whole numbers, written 4x4x2 or 4,4,2",
    "rate": "rate, e.g. 100Gbps or 12.5GB/s",
    "time": "time, e.g. 200ns",
    "choice": "choice",
    "text": "text",
}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a generator.

    Attributes
    ----------
    name : str
        Keyword in Python, key on the command line and in files.
    kind : str
        ``int``, ``sizes`` (several ints), ``rate``, ``time``, ``choice`` or ``text``.
    meaning : str
        One line, with what the default means where it is None.
    default : object
        Value when not given; without it the parameter is required.
    minimum : int
        Least value of an ``int``, or of each of the ``sizes``.
    choices : tuple of str
        Valid values of a ``choice``.
    sizing : bool
        A number among those that decide the size of the network: once it is given, the network is not sized to a
        number of hosts.
    """

    name: str
    kind: Literal["int", "sizes", "rate", "time", "choice", "text"]
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
            parts: Sequence[object]
            if isinstance(value, str):
                parts = value.strip("()[] ").replace("x", ",").split(",")
            elif isinstance(value, int | np.integer):
                parts = [value]
            elif isinstance(value, Sequence | np.ndarray):
                parts = list(value)
            else:
                raise InputError(where, f"must be {_KINDS['sizes']}", got=repr(value))
            if not parts:
                raise InputError(where, "must have at least one number", got=repr(value))
            return tuple(self._int(part, where) for part in parts)
        if self.kind == "rate":
            rate = parse_rate(value, subject=where)  # type: ignore[arg-type]
            if rate == 0:
                raise InputError(where, "capacity must be above 0 bytes per second", got=value)
            return rate
        if self.kind == "time":
            delay = parse_time(value, subject=where)  # type: ignore[arg-type]
            if math.isinf(delay):
                raise InputError(where, "latency must be finite", got=value)
            return delay
        if self.kind == "choice":
            if value not in self.choices:
                raise InputError(where, "unknown choice", got=repr(value), remedy=closest(str(value), self.choices))
            return value
        return str(value)

    def _int(self, value: object, where: str) -> int:
        rule = f"must be a whole number, {self.minimum} or more"
        try:
            number = int(value.strip()) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            raise InputError(where, rule, got=shortened(repr(value))) from None
        if isinstance(value, bool) or (not isinstance(value, str) and number != value) or number < self.minimum:
            raise InputError(where, rule, got=value if abs(number) <= MOST else _count_text(number))
        if number > MOST:
            raise InputError(where, f"must be {MOST} or less", got=number if number < 10**40 else "a huge number")
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
        return {"rate": "rate (100Gbps, 12.5GB/s)", "time": "time (200ns, 1us)", "text": "text"}[self.kind]

    @property
    def default_text(self) -> str:
        """Default for help."""
        return "required" if self.default is REQUIRED else "" if self.default is None else f"default {self.default}"


@dataclass(frozen=True, kw_only=True)
class Generator:
    """A registered generator: a function, its parameter table, and how to size it.

    Attributes
    ----------
    name : str
        Name in the registry.
    function : callable
        The plain Python function; takes the parameters as keywords and returns a Topology.
    parameters : tuple of Parameter
        The table.
    sizer : callable or None
        Number of hosts to the parameters of the smallest balanced instance that holds them.
    """

    name: str
    function: Callable[..., Topology]
    parameters: tuple[Parameter, ...]
    sizer: Callable[[int], dict[str, Any]] | None = None

    def build(self, **params: object) -> Topology:
        """Build from keywords; values may be text, as on the command line.

        Raises
        ------
        InputError
            An unknown or missing parameter, or a value out of its range; the message names it.
        """
        values = checked(self.parameters, self.name, params)
        for p in self.parameters:
            # Quantities go on as they were written, so that the topology's params say "100Gbps".
            if p.kind in ("rate", "time"):
                values[p.name] = p.default if params.get(p.name) is None else params[p.name]
        return self.function(**values)

    def size_for(self, n_hosts: int) -> dict[str, Any]:
        """Parameters of the smallest balanced instance that holds ``n_hosts`` hosts."""
        if self.sizer is None:
            raise InputError(f"topology {self.name}", "cannot be sized to a number of hosts", got=n_hosts)
        if n_hosts < 1:
            raise InputError(f"topology {self.name}", "the number of hosts must be 1 or more", got=n_hosts)
        if n_hosts > MOST:
            got = _count_text(n_hosts)
            raise InputError(f"topology {self.name}", f"the number of hosts must be {MOST} or less", got=got)
        return self.sizer(int(n_hosts))

    @property
    def size_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that decide the size: whole numbers and lists of them, but for seeds and the like."""
        return tuple(p.name for p in self.parameters if p.kind in ("int", "sizes") and p.sizing)

    def summary(self) -> str:
        """First line of the docstring."""
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def help(self) -> str:
        """The parameter table as text."""
        rows = [(f"{p.name}", p.range_text, p.default_text, p.meaning) for p in self.parameters]
        width = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"  {a:{width[0]}}  {b:{width[1]}}  {c:{width[2]}}  {d}".rstrip() for a, b, c, d in rows]
        return "\n".join([f"{self.name}: {self.summary()}", *lines])


topologies: Registry[Generator] = Registry("topology", "netsim.topologies")


def checked(parameters: Sequence[Parameter], subject: str, values: Mapping[str, object]) -> dict[str, Any]:
    """All parameters of the table, parsed; unknown names, missing names and bad values are errors."""
    known = {p.name: p for p in parameters}
    for name in values:
        if name not in known:
            meant = difflib.get_close_matches(name, _SYNONYMS, n=1)
            remedy = closest(_SYNONYMS[meant[0]] if meant else name, known)
            raise InputError(f"topology {subject}", "unknown parameter", got=repr(name), remedy=remedy)
    missing = [p.name for p in parameters if p.default is REQUIRED and values.get(p.name) is None]
    if missing:
        raise InputError(f"topology {subject}", "needs " + ", ".join(f"{name}=" for name in missing))
    given = {name: value for name, value in values.items() if value is not None}
    return {p.name: p.parse(given.get(p.name, p.default), subject) for p in parameters}


def generator(
    name: str, *, parameters: Sequence[Parameter], size_for: Callable[[int], dict[str, Any]] | None = None
) -> Callable[[F], F]:
    """Decorator: register a function under a name and write its parameter table into its docstring.

    The table replaces the line ``{parameters}`` of the docstring. The function itself stays callable as it is.
    """

    def add(function: F) -> F:
        lines = []
        for p in parameters:
            lines.append(f"{p.name} : {p.range_text}" + (f", {p.default_text}" if p.default_text else ""))
            lines.append(f"    {p.meaning}")
        table = textwrap.indent("\n".join(["Parameters", "----------", *lines]), "    ")
        function.__doc__ = (function.__doc__ or "").replace("    {parameters}", table)
        topologies.register(name)(Generator(name=name, function=function, parameters=tuple(parameters), sizer=size_for))
        return function

    return add


def link_parameters(**layers: str) -> tuple[Parameter, ...]:
    """The capacity and latency parameters every generator has, and those of each layer (keyword: what the layer is)."""
    table = [
        Parameter(
            name="capacity", kind="rate", default=DEFAULT_CAPACITY, meaning="capacity of a link in each direction"
        ),
        Parameter(name="latency", kind="time", default=DEFAULT_LATENCY, meaning="latency of a link, cable and switch"),
    ]
    for layer, meaning in layers.items():
        for kind, word in (("rate", "capacity"), ("time", "latency")):
            table.append(
                Parameter(
                    name=f"{layer}_{word}",
                    kind=kind,  # type: ignore[arg-type]
                    default=None,
                    meaning=f"{word} of {meaning}, if not {word}",
                )
            )
    return tuple(table)


def check_size(family: str, *, n_vertices: int, n_links: int) -> None:
    """Refuse a network of 2^31 vertices or directed links or more, before anything is allocated.

    >>> check_size("star", n_vertices=9 * 10**9, n_links=10**30)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: star: must have fewer than 2^31 vertices and links, got 9000000000 vertices and about 10^30 ...
    """
    if max(n_vertices, n_links) > MOST:
        raise InputError(
            family,
            "must have fewer than 2^31 vertices and links",
            got=f"{_count_text(n_vertices)} vertices and {_count_text(n_links)} links",
            remedy="choose a smaller network",
        )


def _count_text(count: int) -> str:
    """A count, or its power of ten where the digits would fill the line."""
    return str(count) if abs(count) < 10**15 else f"about {'-' if count < 0 else ''}10^{round(math.log10(abs(count)))}"


def shortened(text: str, most: int = 60) -> str:
    """Text of the user as an error repeats it: never more than a part of a line.

    >>> shortened("9" * 5000, 6)
    '999...'
    """
    return text if len(text) <= most else text[: most - 3] + "..."


class Layers:
    """Collects the cables of a network layer by layer, with the capacity and latency of each layer.

    Parameters
    ----------
    values : mapping
        Checked parameters: ``capacity``, ``latency`` and, per layer, ``<key>_capacity`` and ``<key>_latency`` or None.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.names: list[str] = []
        self._source: list[Int64] = []
        self._destination: list[Int64] = []
        self._capacity: list[float] = []
        self._latency: list[float] = []

    def add(self, name: str, source: Int64, destination: Int64, *, key: str | None = None) -> None:
        """Add cables; ``key`` is the prefix of the layer's own parameters, by default its name."""
        self.names.append(name)
        self._source.append(source)
        self._destination.append(destination)
        for word, into in (("capacity", self._capacity), ("latency", self._latency)):
            own = self._values.get(f"{key or name}_{word}")
            into.append(self._values[word] if own is None else own)

    def topology(
        self, *, n_hosts: int, n_switches: int, family: str, params: Mapping[str, Any], host_transit: bool = False
    ) -> Topology:
        """The finished topology; each cable becomes two links, in rows 2c and 2c + 1."""
        source, destination = cables(np.concatenate(self._source), np.concatenate(self._destination))
        layer = np.repeat(np.arange(len(self.names)), [2 * part.size for part in self._source])
        capacity: Float64 = np.array(self._capacity, dtype=np.float64)[layer]
        latency: Float64 = np.array(self._latency, dtype=np.float64)[layer]
        return Topology.from_links(
            n_hosts=n_hosts,
            n_switches=n_switches,
            source=source,
            destination=destination,
            capacity=capacity,
            latency=latency,
            layer=layer,
            layer_names=self.names,
            family=family,
            params={key: value for key, value in params.items() if value is not None},
            host_transit=host_transit,
        )


def cables(source: Int64, destination: Int64) -> tuple[Int64, Int64]:
    """Directed links of cables: rows 2c and 2c + 1 are the two directions of cable c."""
    return (
        np.stack([source, destination], axis=1).reshape(-1).astype(np.int64),
        np.stack([destination, source], axis=1).reshape(-1).astype(np.int64),
    )


def build(name: str, *, n_hosts: int | None = None, **params: object) -> Topology:
    """Build a topology by name, from parameters as Python values or as text, or sized to a number of hosts.

    Parameters
    ----------
    name : str
        Name in the registry ``netsim.topologies.topologies``, of a machine in ``netsim.topologies.machines``, or path of
        a topology file.
    n_hosts : int, optional
        Where no parameter that decides the size is given: take the smallest balanced instance that holds this many
        hosts.
    **params
        Parameters of the generator.

    Raises
    ------
    InputError
        Unknown name, unknown parameter (with a suggestion), or a bad value.

    Examples
    --------
    >>> build("dragonfly", n_hosts=64)
    <Topology dragonfly: 72 hosts, 36 switches, 324 directed links>
    >>> build("frontier")
    <Topology dragonfly: 37888 hosts, 2368 switches, 170792 directed links>
    >>> build("star", n="8", capacity="400Gbps").n_hosts
    8
    >>> build("star", n=8, capasity="400Gbps")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: topology star: unknown parameter, got 'capasity'; did you mean 'capacity'? valid: ...
    """
    if name in machines:
        machine = machines[name]
        return topologies[machine.family].build(**{**machine.params, **params})
    if name not in topologies and is_topology_file(name):
        params = {"path": name, **params}
        name = "file"
    if name not in topologies:
        raise InputError("topology", "unknown name", got=repr(name), remedy=closest(name, [*topologies, *machines]))
    chosen = topologies[name]
    given = any(params.get(key) is not None for key in chosen.size_parameters)
    if n_hosts is not None and not given and chosen.sizer is not None:
        params = {**params, **chosen.size_for(n_hosts)}
    return chosen.build(**params)


def is_topology_file(name: str) -> bool:
    """Whether a name given as a topology means a file: it has a suffix or a folder, or such a file exists.

    Examples
    --------
    >>> is_topology_file("dragonfly"), is_topology_file("cluster.json")
    (False, True)
    """
    return bool(Path(name).suffix) or "/" in name or Path(name).is_file()
