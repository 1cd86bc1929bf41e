"""Circuit plans: which circuits are wanted from when on, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Float64, frozen
from netsim.core.errors import InputError
from netsim.core.units import format_time
from netsim.optics.circuits import Circuits
from netsim.optics.hardware import CircuitSwitches
from netsim.topologies import Topology

__all__ = ["CircuitPlan", "circuit_plan", "rotor"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CircuitPlan:
    """Circuits wanted from each start until the next. Made and checked by `circuit_plan`.

    Attributes
    ----------
    switches : CircuitSwitches
    start_s : float64 array, shape (slots,)
        Rising. Before the first all is dark; what the first slot asks for is set up from there, with its delay.
    circuits : tuple of Circuits
        One for each slot.
    """

    switches: CircuitSwitches
    start_s: Float64
    circuits: tuple[Circuits, ...]

    def __repr__(self) -> str:
        return f"<CircuitPlan: {self.start_s.size} slots, {sum(len(c) for c in self.circuits)} circuits in all>"

    def at(self, time_s: float) -> Circuits | None:
        """The circuits of the slot that a moment lies in; None before the first."""
        slot = int(np.searchsorted(self.start_s, time_s, side="right")) - 1
        return self.circuits[slot] if slot >= 0 else None


def circuit_plan(
    topology: Topology,
    switches: CircuitSwitches,
    slots: Sequence[tuple[float, Circuits]],
    *,
    end_s: float = np.inf,
) -> CircuitPlan:
    """Check a plan.

    Parameters
    ----------
    topology : Topology
    switches : CircuitSwitches
    slots : sequence of (start in seconds, Circuits)
    end_s : float
        End of the last slot, if there is one.

    Raises
    ------
    InputError
        Starts that do not rise, circuits that cannot be, more circuits at a switch than it has ports (both are named), or a slot that
        ends before the hardware could have lit anything in it.

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> from netsim.optics import circuit_switches
    >>> net = full_mesh(4, hosts=0)
    >>> ocs = circuit_switches(net, ports=1, delay="10ms")
    >>> circuit_plan(net, ocs, [(0.0, Circuits.of([(0, 1)])), (0.1, Circuits.of([(0, 2), (1, 3)]))])
    <CircuitPlan: 2 slots, 3 circuits in all>
    >>> circuit_plan(net, ocs, [(0.0, Circuits.of([(0, 1), (1, 2)]))])
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: slot 0, circuit 1 (1, 2): needs a free optical port at switch 1, which has 1, got all in use, \
the last by slot 0, circuit 0 (0, 1); leave one of them out or give more ports
    """
    start = np.array([t for t, _ in slots], dtype=np.float64)
    if start.size and not (np.isfinite(start).all() and start[0] >= 0):
        raise InputError("circuit plan", "slots must start at finite times of 0 or more seconds", got=start.tolist())
    for i in np.flatnonzero(np.diff(start) <= 0).tolist():
        raise InputError(
            f"slot {i + 1}", f"must start after slot {i}, at {format_time(start[i])}", got=format_time(start[i + 1])
        )
    for i, (_, circuits) in enumerate(slots):
        switches.assign(topology, circuits, f"slot {i}, circuit")
    changes_s = switches.shortest_dark_s
    length = np.diff(np.append(start, end_s))
    for i in np.flatnonzero(length <= changes_s).tolist():
        if len(slots[i][1]):
            raise InputError(
                f"slot {i}",
                f"must be longer than a reconfiguration with its guard time, at least {format_time(changes_s)}",
                got=f"{format_time(length[i])}, from {format_time(start[i])} to {format_time(start[i] + length[i])}",
                remedy="make slots longer, or delay and guard time shorter",
            )
    return CircuitPlan(
        switches=switches, start_s=frozen(start, np.float64), circuits=tuple(circuits for _, circuits in slots)
    )


def rotor(topology: Topology, switches: CircuitSwitches, *, slot_s: float, until_s: float) -> CircuitPlan:
    """Round-robin circuits, whatever the demand (RotorNet, Mellette et al., SIGCOMM 2017): each switch reaches all others in turn.

    Slot k joins switch i with i + s (mod n) for the next of the offsets s = 1 .. n - 1, as many at once as there are ports.

    Parameters
    ----------
    topology : Topology
    switches : CircuitSwitches
        Directed, with the same ports at every switch.
    slot_s, until_s : float
        Length of a slot, with its dark time, and of the plan.

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> from netsim.optics import circuit_switches
    >>> net = full_mesh(3, hosts=0)
    >>> plan = rotor(net, circuit_switches(net, ports=1, directed=True, delay="1ms"), slot_s=0.01, until_s=0.02)
    >>> [c.pairs() for c in plan.circuits]
    [[(0, 1), (1, 2), (2, 0)], [(0, 2), (1, 0), (2, 1)]]
    """
    n = topology.n_switches
    if not switches.directed:
        raise InputError("rotor", "needs directed circuits", got="circuits that carry both ways")
    ports = np.unique(switches.ports)
    if n < 2 or ports.size != 1 or ports[0] < 1:
        raise InputError("rotor", "needs two switches or more, with equally many optical ports", got=ports.tolist())
    if not (slot_s > 0 and np.isfinite(until_s)):
        raise InputError("rotor", "needs a slot above 0 seconds and an end", got=f"{slot_s}, {until_s}")
    k = min(int(ports[0]) * switches.cores, n - 1)
    slots = []
    here = np.arange(n)
    for i in range(max(1, int(np.ceil(until_s / slot_s)))):
        offset = [1 + (i * k + j) % (n - 1) for j in range(k)]
        a, b = np.tile(here, k), np.concatenate([(here + s) % n for s in offset])
        slots.append((i * slot_s, Circuits(a=frozen(a, np.int64), b=frozen(b, np.int64), directed=True)))
    return circuit_plan(topology, switches, slots, end_s=len(slots) * slot_s)
