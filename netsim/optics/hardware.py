"""Optical circuit switches: who owns their ports, what a circuit carries, and how long it takes to change them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, frozen
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.core.units import format_time, parse_rate, parse_time
from netsim.optics.circuits import Circuits, port_counts
from netsim.topologies import Topology

__all__ = ["CircuitSwitches", "circuit_switches"]

# Each port is two links of the network that is simulated.
MOST_PORTS = 4_000_000
SPREADS = ("none", "uniform", "exponential", "lognormal")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CircuitSwitches:
    """The optical hardware beside a network of electrical switches. Made by `circuit_switches`.

    Attributes
    ----------
    ports : int64 array, shape (n_switches,)
        Optical ports of each electrical switch, on each core.
    cores : int
        Optical switches side by side; a circuit uses one of them, and each electrical switch has ``ports`` on each.
    directed : bool
        True: a port is a transmitter and a receiver that are switched apart. False: a circuit carries both ways.
    capacity_bytes_per_s, latency_s : float
        Of a circuit, each direction.
    delay_s, delay_per_change_s : float
        A reconfiguration takes ``delay_s + delay_per_change_s x (circuits torn down or set up)`` (slow controllers work through their
        ports one after the other).
    spread : str
        ``none``; or the law of a factor with mean 1 on that: ``uniform`` (0.5 to 1.5), ``exponential``, ``lognormal`` (sigma 0.5).
    guard_s : float
        Added to every reconfiguration: time until both ends have settled.
    all_stop : bool
        True: all circuits of a core are dark while it changes. False: only those that change.
    seed : int
        For ``spread``.
    """

    ports: Int64
    cores: int
    directed: bool
    capacity_bytes_per_s: float
    latency_s: float
    delay_s: float
    delay_per_change_s: float
    spread: str
    guard_s: float
    all_stop: bool
    seed: int

    def __repr__(self) -> str:
        return (
            f"<CircuitSwitches: {self.cores} cores, {int(self.ports.sum())} ports each, "
            f"delay {format_time(self.delay_s)}{', all stop' if self.all_stop else ''}>"
        )

    @property
    def shortest_dark_s(self) -> float:
        """The least time that a changed circuit is dark: of one change, without luck."""
        factor = {"none": 1.0, "uniform": 0.5}.get(self.spread, 0.0)
        return factor * (self.delay_s + self.delay_per_change_s) + self.guard_s

    def dark_s(self, n_changes: int, number: int) -> float:
        """How long a reconfiguration takes.

        Parameters
        ----------
        n_changes : int
            Circuits torn down or set up; 0 takes no time.
        number : int
            Of the reconfiguration: each has a draw of its own.

        Examples
        --------
        >>> from netsim.topologies import full_mesh
        >>> slow = circuit_switches(full_mesh(4, hosts=0), delay="10ms", delay_per_change="1ms", guard="2ms")
        >>> round(slow.dark_s(3, 0), 9), slow.dark_s(0, 1)
        (0.015, 0.0)
        """
        if n_changes == 0:
            return 0.0
        base = self.delay_s + self.delay_per_change_s * n_changes
        draw = stream(self.seed, "optics", "delay", str(number))
        factor = 1.0
        if self.spread == "uniform":
            factor = float(draw.uniform(0.5, 1.5))
        elif self.spread == "exponential":
            factor = float(draw.exponential())
        elif self.spread == "lognormal":
            factor = float(draw.lognormal(-0.125, 0.5))
        return base * factor + self.guard_s

    def assign(self, topology: Topology, circuits: Circuits, what: str = "circuit") -> Int64:
        """The core of each circuit, int64, shape (n,): the first with free ports at both ends, circuits in their order.

        Raises
        ------
        InputError
            An end does not exist or has no free port left; both circuits that want the last port are named.
        """
        circuits.check(topology)
        if circuits.directed != self.directed:
            raise InputError(
                what,
                f"must be {'directed' if self.directed else 'both ways'}, as the optical switches are",
                got=repr(circuits),
            )
        out = np.tile(self.ports, (self.cores, 1))
        into = out.copy() if self.directed else out
        holder: dict[tuple[int, int], int] = {}
        core = np.empty(len(circuits), np.int64)
        for i, (a, b) in enumerate(circuits.pairs()):
            fits = np.flatnonzero((out[:, a] > 0) & (into[:, b] > 0))
            if fits.size == 0:
                end = a if not (out[:, a] > 0).any() else b
                name = topology.vertex_name(topology.n_hosts + end)
                if self.ports[end] == 0:
                    raise InputError(f"{what} {i} ({a}, {b})", f"{name} must have optical ports", got="none")
                other = holder.get((end, 0 if end == a else 1), holder.get((end, 1 if end == a else 0), 0))
                raise InputError(
                    f"{what} {i} ({a}, {b})",
                    f"needs a free optical port at {name}, which has {int(self.ports[end]) * self.cores}",
                    got=f"all in use, the last by {what} {other} {circuits.pairs()[other]}",
                    remedy="leave one of them out or give more ports",
                )
            core[i] = fits[0]
            out[fits[0], a] -= 1
            into[fits[0], b] -= 1
            holder[(a, 0)] = holder[(b, 1)] = i
        return core


def circuit_switches(
    topology: Topology,
    *,
    ports: int | npt.ArrayLike = 4,
    cores: int = 1,
    capacity: str | float = "100Gbps",
    latency: str | float = "200ns",
    delay: str | float = "10ms",
    delay_per_change: str | float = 0.0,
    spread: str = "none",
    guard: str | float = 0.0,
    all_stop: bool = False,
    directed: bool = False,
    seed: int = 0,
) -> CircuitSwitches:
    """Optical circuit switches beside a network.

    Parameters
    ----------
    topology : Topology
        Any; each of its switches gets optical ports.
    ports : int or array_like of int, shape (n_switches,)
        Optical ports of each switch on each core; 0: none.
    cores : int
    capacity, latency : str or float
        Of a circuit; numbers are bytes per second and seconds.
    delay, delay_per_change, guard : str or float
        Numbers are seconds. MEMS switches take some 10 ms; see `CircuitSwitches`.
    spread : str
        ``none``, ``uniform``, ``exponential`` or ``lognormal``.
    all_stop, directed : bool
    seed : int

    Raises
    ------
    InputError
        Negative or endless times, a capacity of 0, no cores, ports that are no whole numbers.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> circuit_switches(dragonfly(p=2, a=4, h=2), ports=4, delay="10ms")
    <CircuitSwitches: 1 cores, 144 ports each, delay 10 ms>
    """

    def seconds(value: str | float, subject: str) -> float:
        found = parse_time(value, subject=subject) if isinstance(value, str) else float(value)
        if not (np.isfinite(found) and found >= 0):
            raise InputError(subject, "must be finite and 0 or more seconds", got=found)
        return found

    rate = parse_rate(capacity, subject="circuit capacity") if isinstance(capacity, str) else float(capacity)
    if not (rate > 0 and np.isfinite(rate)):
        raise InputError("circuit capacity", "must be finite and above 0 bytes per second", got=rate)
    if cores != int(cores) or cores < 1:
        raise InputError("optical cores", "must be a whole number, 1 or more", got=cores)
    if spread not in SPREADS:
        raise InputError("delay spread", f"must be one of {', '.join(SPREADS)}", got=repr(spread))
    own = port_counts(topology, ports)
    if float(own.sum(dtype=np.float64)) * cores > MOST_PORTS:
        raise InputError(
            "optical ports",
            f"must be {MOST_PORTS:,} or fewer in all",
            got=f"{float(own.sum(dtype=np.float64)) * cores:,.0f} on {cores} cores",
        )
    return CircuitSwitches(
        ports=frozen(own, np.int64),
        cores=int(cores),
        directed=directed,
        capacity_bytes_per_s=rate,
        latency_s=seconds(latency, "circuit latency"),
        delay_s=seconds(delay, "reconfiguration delay"),
        delay_per_change_s=seconds(delay_per_change, "delay per change"),
        spread=spread,
        guard_s=seconds(guard, "guard time"),
        all_stop=all_stop,
        seed=seed,
    )
