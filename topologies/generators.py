"""The registry of topology generators: their parameters as a table, from which checks and help are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError, closest
from netsim.core.parameters import MOST_COUNT, Parameter, checked_values, count_text, documented, shortened, table_lines
from netsim.core.registry import Registry
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

# Vertices and links are numbered in int32.
MOST = MOST_COUNT
# Dimensions, or levels of a tree: with two switches or more in each there are no more below 2^31.
MOST_DIMENSIONS = 32
F = TypeVar("F", bound=Callable[..., Topology])

# Words other tools use for the same thing, to suggest ours.
_SYNONYMS = {"bandwidth": "capacity", "speed": "capacity", "rate": "capacity", "delay": "latency"}


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
            got = count_text(n_hosts)
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
        return "\n".join([f"{self.name}: {self.summary()}", *table_lines(self.parameters)])


topologies: Registry[Generator] = Registry("topology", "netsim.topologies")


def checked(parameters: Sequence[Parameter], subject: str, values: Mapping[str, object]) -> dict[str, Any]:
    """All parameters of the table, parsed; unknown names, missing names and bad values are errors."""
    return checked_values(parameters, subject, values, kind="topology", synonyms=_SYNONYMS)


def generator(
    name: str, *, parameters: Sequence[Parameter], size_for: Callable[[int], dict[str, Any]] | None = None
) -> Callable[[F], F]:
    """Decorator: register a function under a name and write its parameter table into its docstring.

    The table replaces the line ``{parameters}`` of the docstring. The function itself stays callable as it is.
    """

    def add(function: F) -> F:
        function.__doc__ = documented(function.__doc__, parameters)
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
            got=f"{count_text(n_vertices)} vertices and {count_text(n_links)} links",
            remedy="choose a smaller network",
        )


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
