"""Optical circuits between switches, and the network with them: links of one more layer, after all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, frozen
from netsim.core.errors import InputError
from netsim.core.units import parse_rate, parse_time
from netsim.topologies import Topology
from netsim.topologies.changes import more_links, only_links

__all__ = ["OPTICAL", "Circuits", "electrical", "port_counts", "with_circuits", "without_circuits"]

OPTICAL = "optical"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Circuits:
    """Circuits by their ends.

    Attributes
    ----------
    a, b : int64 array, shape (n,)
        Switch numbers. A pair may occur several times: circuits side by side.
    directed : bool
        True: each carries from a to b and takes a transmitter at a and a receiver at b. False: each carries both ways and takes
        a port at each end.

    Examples
    --------
    >>> Circuits.of([(0, 3), (1, 2)])
    <Circuits: 0-3, 1-2>
    """

    a: Int64
    b: Int64
    directed: bool = False

    @classmethod
    def of(cls, pairs: npt.ArrayLike, *, directed: bool = False) -> Circuits:
        """From a list of pairs of switch numbers."""
        ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        return cls(a=frozen(ends[:, 0], np.int64), b=frozen(ends[:, 1], np.int64), directed=directed)

    def __len__(self) -> int:
        return int(self.a.size)

    def __repr__(self) -> str:
        arrow = "->" if self.directed else "-"
        some = [f"{a}{arrow}{b}" for a, b in zip(self.a[:6].tolist(), self.b[:6].tolist(), strict=True)]
        return f"<Circuits: {', '.join(some) or 'none'}{f', ... {len(self)} in all' if len(self) > 6 else ''}>"

    def pairs(self) -> list[tuple[int, int]]:
        """The ends as a list."""
        return list(zip(self.a.tolist(), self.b.tolist(), strict=True))

    def arcs(self) -> tuple[Int64, Int64]:
        """Ends of each direction: a circuit that carries both ways gives two, one after the other."""
        if self.directed:
            return self.a, self.b
        return np.stack([self.a, self.b], 1).ravel(), np.stack([self.b, self.a], 1).ravel()

    def check(self, topology: Topology, ports: int | npt.ArrayLike | None = None) -> Circuits:
        """Raise if a circuit cannot be: its ends do not exist or are one, or more circuits end at a switch than it has ports."""
        n = topology.n_switches
        for i, (a, b) in enumerate(self.pairs()):
            if not (0 <= a < n and 0 <= b < n):
                raise InputError(f"circuit {i}", f"must join two of the {n} switches", got=f"{a} and {b}")
            if a == b:
                raise InputError(f"circuit {i}", "must join two different switches", got=f"{a} twice")
        if ports is not None:
            own = port_counts(topology, ports)
            sides = ((self.a, "transmitters"), (self.b, "receivers")) if self.directed else (
                (np.concatenate([self.a, self.b]), "optical ports"),
            )  # fmt: skip
            for end, what in sides:
                used = np.bincount(end, minlength=n)
                over = np.flatnonzero(used > own)
                if over.size:
                    s = int(over[0])
                    through = [i for i, pair in enumerate(self.pairs()) if s in pair][-2:]
                    raise InputError(
                        f"{topology.vertex_name(topology.n_hosts + s)}",
                        f"has {own[s]} {what}",
                        got=f"{used[s]} circuits, {' and '.join(f'circuit {i} {self.pairs()[i]}' for i in through)} among them",
                        remedy="leave some out or give it more ports",
                    )
        return self


def port_counts(topology: Topology, ports: int | npt.ArrayLike) -> Int64:
    """Optical ports of each switch, int64, shape (n_switches,), from one number for all or one for each."""
    n = topology.n_switches
    given = np.asarray(ports)
    if given.shape not in ((), (n,)):
        raise InputError(
            "ports", f"must be one number, or one for each of the {n} switches", got=f"shape {given.shape}"
        )
    if given.dtype == bool or not np.issubdtype(given.dtype, np.number) or not (given == np.floor(given)).all():
        raise InputError("ports", "must be whole numbers", got=ports)
    if given.size and given.min() < 0:
        raise InputError("ports", "must be 0 or more", got=int(given.min()))
    return np.broadcast_to(given, (n,)).astype(np.int64)


def electrical(topology: Topology) -> npt.NDArray[np.bool_]:
    """Links that are no circuits; bool, shape (n_links,)."""
    if OPTICAL not in topology.layer_names:
        return np.ones(topology.n_links, dtype=np.bool_)
    layer: npt.NDArray[np.bool_] = topology.link_layer != topology.layer_names.index(OPTICAL)
    return layer


def with_circuits(
    topology: Topology,
    circuits: Circuits,
    *,
    capacity: str | Float64 | float = "100Gbps",
    latency: str | float = "200ns",
    ports: int | npt.ArrayLike | None = None,
) -> Topology:
    """The network with circuits lit: links of the layer ``optical``, after all others, whose numbers stay.

    Parameters
    ----------
    topology : Topology
        May have circuits already.
    circuits : Circuits
    capacity : str or float
        Of each direction; a number is bytes per second.
    latency : str or float
        A number is seconds.
    ports : int or array_like of int, shape (n_switches,), optional
        Checked if given.

    Returns
    -------
    Topology
        Of the same family: its electrical structure is as before.

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> net = with_circuits(torus((8,)), Circuits.of([(0, 4)]))
    >>> net.n_links - torus((8,)).n_links, net.layer_names[-1], net.link_name(net.n_links - 1)
    (2, 'optical', 'switch (4) -> switch (0)')
    """
    circuits.check(topology, ports)
    rate = parse_rate(capacity, subject="circuit capacity") if isinstance(capacity, str) else capacity
    delay = parse_time(latency, subject="circuit latency") if isinstance(latency, str) else latency
    a, b = circuits.arcs()
    base = topology.n_hosts
    bad = np.asarray(rate)[~(np.asarray(rate) > 0)]
    if bad.size:
        raise InputError("circuit capacity", "must be above 0 bytes per second", got=float(bad.flat[0]))
    if not (np.isfinite(delay) and delay >= 0):
        raise InputError("circuit latency", "must be finite and 0 or more seconds", got=delay)
    return more_links(topology, a + base, b + base, capacity_bytes_per_s=rate, latency_s=delay, layer=OPTICAL)


def without_circuits(topology: Topology) -> Topology:
    """The network with its circuits dark: without links of the layer ``optical``."""
    kept = electrical(topology)
    return topology if kept.all() else only_links(topology, kept)
