"""The network as arrays: hosts, switches, and directed links with a capacity and a latency.

Vertices are the hosts ``0 .. n_hosts-1``, then the switches. Parallel links are separate rows, so any directed
multigraph fits. A cable is two links, one each way; the generators put them in rows ``2c`` and ``2c + 1``. ``family``
and ``params`` say which generator made the arrays, so that routing may use their structure instead of searching for
paths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_order, frozen
from netsim.core.errors import InputError, closest
from netsim.core.units import parse_rate, parse_time

__all__ = ["DEFAULT_CAPACITY", "DEFAULT_LATENCY", "Topology", "check_expected", "vertex_namer"]

DEFAULT_CAPACITY = "100Gbps"
DEFAULT_LATENCY = "200ns"

Int16 = npt.NDArray[np.int16]
Bool = npt.NDArray[np.bool_]

_NAMERS: dict[str, Callable[[Topology, int], str]] = {}


def vertex_namer(family: str) -> Callable[[Callable[[Topology, int], str]], Callable[[Topology, int], str]]:
    """Decorator: the function that names the switches of one family, called with (topology, switch number)."""

    def add(namer: Callable[[Topology, int], str]) -> Callable[[Topology, int], str]:
        _NAMERS[family] = namer
        return namer

    return add


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Topology:
    """A directed multigraph of hosts and switches. Build it with a generator, an importer, or :meth:`from_links`.

    Attributes
    ----------
    n_hosts, n_switches : int
        Vertices ``0 .. n_hosts-1`` are hosts, the next ``n_switches`` are switches. Either may be 0.
    link_src, link_dst : int32 array, shape (n_links,)
        Ends of each directed link.
    link_capacity_bytes_per_s : float64 array, shape (n_links,)
        Above 0; ``inf`` means the link never limits.
    link_latency_s : float64 array, shape (n_links,)
        Finite, 0 or more.
    link_layer : int16 array, shape (n_links,)
        Index into ``layer_names``: which part of the machine the link belongs to.
    layer_names : tuple of str
        For example ``("host", "local", "global")``.
    family : str
        Name of the generator, or ``"graph"`` for a network without known structure.
    params : mapping
        Parameters of the generator.
    vertex_names : tuple of str or None
        Names from the file or graph that the topology came from.
    host_transit : bool array, shape (n_hosts,)
        Hosts that may forward traffic of others; by default none.

    Examples
    --------
    Two hosts on one switch, by hand:

    >>> net = Topology.from_links(
    ...     n_hosts=2, n_switches=1, source=[0, 2, 1, 2], destination=[2, 0, 2, 1], capacity="100Gbps", latency="1us"
    ... )
    >>> net.n_links, net.link_name(0), net.out_links(2).tolist()
    (4, 'host 0 -> switch 0', [1, 3])
    """

    n_hosts: int
    n_switches: int
    link_src: Int32
    link_dst: Int32
    link_capacity_bytes_per_s: Float64
    link_latency_s: Float64
    link_layer: Int16
    layer_names: tuple[str, ...]
    family: str = "graph"
    params: Mapping[str, Any] = field(default_factory=dict)
    vertex_names: tuple[str, ...] | None = None
    host_transit: Bool

    @classmethod
    def from_links(
        cls,
        *,
        n_hosts: int,
        n_switches: int,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        capacity: str | npt.ArrayLike = DEFAULT_CAPACITY,
        latency: str | npt.ArrayLike = DEFAULT_LATENCY,
        layer: npt.ArrayLike = 0,
        layer_names: Sequence[str] = ("link",),
        family: str = "graph",
        params: Mapping[str, Any] | None = None,
        vertex_names: Sequence[str] | None = None,
        host_transit: npt.ArrayLike = False,
    ) -> Topology:
        """Build and validate from lists of directed links.

        Parameters
        ----------
        n_hosts, n_switches : int
            Number of hosts (vertices ``0 .. n_hosts-1``) and switches (the vertices after them).
        source, destination : array_like of int, shape (n_links,)
            Ends of each directed link.
        capacity : str or array_like of float
            ``"100Gbps"`` for all links, or bytes per second, one for all or one per link. A capacity of 0 is an error:
            leave a link out to have it down. ``inf`` is allowed.
        latency : str or array_like of float
            ``"200ns"`` for all links, or seconds, one for all or one per link; 0 is allowed.
        layer, layer_names, family, params, vertex_names, host_transit
            See the class.

        Raises
        ------
        InputError
            An end is no vertex, a link joins a vertex with itself, a capacity is NaN, 0 or negative, a latency is NaN,
            infinite or negative, or lengths differ. The message names the first such link.
        """
        for what, count in (("hosts", n_hosts), ("switches", n_switches)):
            if int(count) != count or count < 0:
                raise InputError("topology", f"the number of {what} must be a whole number, 0 or more", got=count)
        if n_hosts + n_switches >= 2**31:
            raise InputError("topology", "vertices are numbered with 31 bits", got=f"{n_hosts + n_switches} vertices")
        src = np.atleast_1d(np.asarray(source, dtype=np.int64)) if np.size(source) else np.zeros(0, dtype=np.int64)
        rate = parse_rate(capacity, subject="capacity") if isinstance(capacity, str) else capacity
        delay = parse_time(latency, subject="latency") if isinstance(latency, str) else latency

        def column(name: str, values: npt.ArrayLike, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
            try:
                return frozen(np.broadcast_to(np.asarray(values), shape), dtype)
            except ValueError:
                raise InputError(
                    "topology", f"{name} must have one value, or one for each of the {shape[0]}", got=np.shape(values)
                ) from None

        shape = src.shape
        names = None if vertex_names is None else tuple(str(name) for name in vertex_names)
        if names is not None and len(names) != n_hosts + n_switches:
            raise InputError("topology", f"vertex names must be {n_hosts + n_switches}, one per vertex", got=len(names))
        topology = cls(
            n_hosts=int(n_hosts),
            n_switches=int(n_switches),
            link_src=frozen(src, np.int32),
            link_dst=column("destination", destination, np.int32, shape),
            link_capacity_bytes_per_s=column("capacity", rate, np.float64, shape),
            link_latency_s=column("latency", delay, np.float64, shape),
            link_layer=column("layer", layer, np.int16, shape),
            layer_names=tuple(layer_names),
            family=family,
            params=MappingProxyType(dict(params or {})),
            vertex_names=names,
            host_transit=column("host_transit", host_transit, np.bool_, (int(n_hosts),)),
        )
        topology._validate(src, np.asarray(destination))
        return topology

    def _validate(self, source: Int64, destination: npt.NDArray[Any]) -> None:
        n = self.n_vertices
        for name, end in (("source", source), ("destination", destination)):
            bad = np.flatnonzero((end < 0) | (end >= n)) if self.n_links else np.zeros(0, dtype=np.int64)
            if bad.size:
                raise InputError(f"link {bad[0]}", f"its {name} must be one of the {n} vertices", got=int(end[bad[0]]))
        rate, delay = self.link_capacity_bytes_per_s, self.link_latency_s
        checks: tuple[tuple[npt.NDArray[np.bool_], str, npt.NDArray[Any], str | None], ...] = (
            (self.link_src == self.link_dst, "a link must join two different vertices", self.link_src, None),
            # Written so that NaN fails: every comparison with NaN is false.
            (~(rate > 0), "capacity must be above 0 bytes per second", rate, "leave a link out to have it down"),
            (~((delay >= 0) & np.isfinite(delay)), "latency must be finite and not negative, in seconds", delay, None),
            (
                (self.link_layer < 0) | (self.link_layer >= len(self.layer_names)),
                "unknown layer",
                self.link_layer,
                None,
            ),
        )
        for broken, rule, values, remedy in checks:
            bad = np.flatnonzero(broken)
            if bad.size:
                first = int(bad[0])
                subject = f"link {first} ({self.link_name(first)})"
                raise InputError(subject, rule, got=values[first].item(), remedy=remedy)

    def __repr__(self) -> str:
        return (
            f"<Topology {self.family}: {self.n_hosts} hosts, {self.n_switches} switches, {self.n_links} directed links>"
        )

    def __getstate__(self) -> dict[str, Any]:
        # A mapping proxy cannot be pickled; worker processes need the rest.
        return {**self.__dict__, "params": dict(self.params)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, params=MappingProxyType(state["params"]))
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                self.__dict__[name] = frozen(value, value.dtype)

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return int(self.link_src.size)

    @property
    def n_vertices(self) -> int:
        """Hosts and switches together."""
        return self.n_hosts + self.n_switches

    @cached_property
    def _out(self) -> tuple[Int64, Int64]:
        ptr, order = csr_order(self.link_src, self.n_vertices)
        return frozen(ptr, np.int64), frozen(order, np.int64)

    @cached_property
    def _in(self) -> tuple[Int64, Int64]:
        ptr, order = csr_order(self.link_dst, self.n_vertices)
        return frozen(ptr, np.int64), frozen(order, np.int64)

    @property
    def out_ptr(self) -> Int64:
        """Rows of :attr:`out_link`, shape (n_vertices + 1,)."""
        return self._out[0]

    @property
    def out_link(self) -> Int64:
        """Links leaving each vertex, ascending within a vertex; int64, shape (n_links,)."""
        return self._out[1]

    @property
    def in_ptr(self) -> Int64:
        """Rows of :attr:`in_link`, shape (n_vertices + 1,)."""
        return self._in[0]

    @property
    def in_link(self) -> Int64:
        """Links entering each vertex, ascending within a vertex; int64, shape (n_links,)."""
        return self._in[1]

    def out_links(self, vertex: int) -> Int64:
        """Links leaving one vertex, ascending."""
        return self.out_link[self.out_ptr[vertex] : self.out_ptr[vertex + 1]]

    @cached_property
    def _by_ends(self) -> tuple[Int64, Int64]:
        key = self.link_src.astype(np.int64) * self.n_vertices + self.link_dst
        order = np.argsort(key, kind="stable")
        return key[order], order

    def links_between(self, source: npt.ArrayLike, destination: npt.ArrayLike) -> tuple[Int64, Int64]:
        """Parallel links between vertices, for many pairs at once.

        Parameters
        ----------
        source, destination : array_like of int, shape (n,)
            Vertices.

        Returns
        -------
        at, count : int64 arrays, shape (n,)
            The links of pair ``i`` are ``topology.link_at(at[i] + j)`` for ``j < count[i]``, in ascending order.
        """
        keys, _ = self._by_ends
        wanted = np.asarray(source, dtype=np.int64) * self.n_vertices + np.asarray(destination, dtype=np.int64)
        at = np.searchsorted(keys, wanted, side="left")
        return at, np.searchsorted(keys, wanted, side="right") - at

    def link_at(self, at: npt.ArrayLike) -> Int64:
        """Links at positions given by :meth:`links_between`."""
        return self._by_ends[1][np.asarray(at, dtype=np.int64)]

    def vertex_name(self, vertex: int) -> str:
        """Name of a vertex for people: ``"host 3"``, ``"group 1 router 0"``, or the name in the file it came from."""
        if not 0 <= vertex < self.n_vertices:
            raise InputError("topology", f"must be one of the {self.n_vertices} vertices", got=vertex)
        if self.vertex_names is not None:
            return self.vertex_names[vertex]
        if vertex < self.n_hosts:
            return f"host {vertex}"
        namer = _NAMERS.get(self.family)
        switch = int(vertex) - self.n_hosts
        return namer(self, switch) if namer else f"switch {switch}"

    def link_name(self, link: int) -> str:
        """Name of a link for people, from its ends; parallel links are told apart by a number."""
        source, destination = int(self.link_src[link]), int(self.link_dst[link])
        name = f"{self.vertex_name(source)} -> {self.vertex_name(destination)}"
        at, count = self.links_between([source], [destination])
        if count[0] > 1:
            name += f" #{int(np.flatnonzero(self.link_at(at[0] + np.arange(count[0])) == link)[0])}"
        return name

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that can change a result: vertices, links, their capacities, latencies and layers."""
        digest = hashlib.sha256(f"netsim topology 1 {self.n_hosts} {self.n_switches} {self.layer_names}".encode())
        for values, dtype in (
            (self.link_src, "<i4"),
            (self.link_dst, "<i4"),
            (self.link_capacity_bytes_per_s, "<f8"),
            (self.link_latency_s, "<f8"),
            (self.link_layer, "<i2"),
            (self.host_transit, "?"),
        ):
            digest.update(np.ascontiguousarray(values, dtype=dtype).tobytes())
        return digest.hexdigest()

    def expect(self, **values: float) -> Topology:
        """Assert what the topology should look like; returns it, so that calls can be chained.

        Parameters
        ----------
        **values
            Any number of ``netsim.topologies.describe(topology).to_dict()``: ``n_hosts=72``, ``diameter=3``, ...

        Raises
        ------
        InputError
            A number differs; the message has both.

        Examples
        --------
        >>> from netsim.topologies import star
        >>> star(4).expect(n_hosts=4, n_switches=1)
        <Topology star: 4 hosts, 1 switches, 8 directed links>
        >>> star(4).expect(n_hosts=5)
        Traceback (most recent call last):
        ...
        netsim.core.errors.InputError: topology star: n_hosts was expected to be 5, got 4
        """
        simple: dict[str, Any] = {
            "n_hosts": self.n_hosts,
            "n_switches": self.n_switches,
            "n_vertices": self.n_vertices,
            "n_links": self.n_links,
        }
        if values.keys() <= simple.keys():
            check_expected(f"topology {self.family}", simple, values)
        else:
            from netsim.topologies.description import describe

            describe(self).expect(**values)
        return self


def check_expected(subject: str, known: Mapping[str, float], wanted: Mapping[str, float]) -> None:
    """Compare numbers with what a user expects of them; the first that differs is an error."""
    for name, value in wanted.items():
        if name not in known:
            raise InputError("expect", "unknown quantity", got=repr(name), remedy=closest(name, known))
        if not np.isclose(known[name], value, rtol=1e-9, atol=0):
            raise InputError(subject, f"{name} was expected to be {value}", got=known[name])
