"""Which circuits to light: the problem, the answer, and the interface of all selectors.

>>> from netsim.optics import selectors
>>> "eefi" in selectors and "random" in selectors
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.core.text import count
from netsim.core.units import format_time, parse_rate
from netsim.optics import _kernels as k
from netsim.optics.circuits import Circuits, port_counts, with_circuits, without_circuits
from netsim.optics.demands import SwitchDemand, switch_demand
from netsim.optics.loads import Fabric, Index, Pairs, efi_index, link_load
from netsim.topologies import Topology

__all__ = ["OBJECTIVES", "Problem", "Selection", "chosen", "no_options", "select", "selectors"]

OBJECTIVES = ("sum", "phi", "max")
# A candidate is a pair that communicates; where evaluating all would take minutes only the heaviest are.
MOST_WORK = 4e10


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What a selector gets: everything checked.

    Attributes
    ----------
    fabric : Fabric
        Without circuits.
    demand : SwitchDemand
    ports : int64 array, shape (n_switches,)
        Optical ports; with directed circuits so many transmitters and so many receivers.
    directed : bool
    capacity_bytes_per_s : float
        Of a circuit, each direction.
    objective : str
    most : int
        Circuits at most.
    candidates : (int64 array, int64 array) or None
        The pairs among which to choose; None: the selector's own.
    seed : int
    options : dict
        Of the selector.
    delay_s, window_s : float
        To change circuits, and until the next choice: for selectors that change circuits within a window.
    """

    fabric: Fabric
    demand: SwitchDemand
    ports: Int64
    directed: bool
    capacity_bytes_per_s: float
    objective: str
    most: int
    candidates: tuple[Int64, Int64] | None
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    delay_s: float = 0.0
    window_s: float = np.inf

    @property
    def topology(self) -> Topology:
        """The network without circuits."""
        return self.fabric.topology

    def lit(self, circuits: Circuits) -> Topology:
        """The network with circuits."""
        return with_circuits(self.topology, circuits, capacity=self.capacity_bytes_per_s, latency=0.0)

    def load(self, circuits: Circuits, routing: str = "one-optical-hop") -> Float64:
        """Loads with circuits, at most one on a path."""
        return link_load(self.lit(circuits), self.demand, routing=routing)

    def index(self, circuits: Circuits, routing: str = "one-optical-hop") -> Index:
        """The index with circuits."""
        return efi_index(self.lit(circuits), self.load(circuits, routing))

    def saving(self, circuits: Circuits) -> float:
        """What the objective ``sum`` maximises, F: byte-hops saved, a circuit counting as a hop except for the pair that it joins."""
        pairs = Pairs(self.fabric, self.demand, self.fabric.hop_cost)
        best = pairs.now.copy()
        a, b = circuits.arcs()
        k.best_circuits(
            frozen(a, np.int64), frozen(b, np.int64), self.fabric.hop_cost, pairs.cost_in, np.float32(1.0),
            self.demand.ptr, self.demand.to, pairs.sources, pairs.longest, best,
        )  # fmt: skip
        return float((self.demand.size_bytes * (pairs.now - best)).sum())

    def candidate_pairs(self) -> tuple[Int64, Int64, list[str]]:
        """Pairs that communicate, the heaviest where there are too many; and notes."""
        if self.candidates is not None:
            return (*self.candidates, [])
        demand, n = self.demand, self.fabric.n
        u, v = demand.source, demand.to
        hops = self.fabric.hops[u, v]
        if (hops < 0).any():
            i = int(np.flatnonzero(hops < 0)[0])
            raise InputError(
                "demand", "every pair that communicates must be joined", got=f"no path from {u[i]} to {v[i]}"
            )
        worth = demand.size_bytes * hops
        if not self.directed:
            u, v = np.minimum(u, v), np.maximum(u, v)
        apart = (worth > 0) & (self.ports[u] > 0) & (self.ports[v] > 0)
        key, row = np.unique(u[apart] * n + v[apart], return_inverse=True)
        weight = np.bincount(row, weights=worth[apart], minlength=key.size)
        notes = []
        # Twice what bidirectional circuits could use.
        enough = int(self.ports.sum())
        work = float(key.size) * self._work()
        if work > MOST_WORK and key.size > enough:
            kept = np.sort(np.lexsort((key, -weight))[: max(enough, int(MOST_WORK / self._work()))])
            notes.append(
                f"candidates: the {kept.size} of {key.size} pairs with the most byte-hops; to look at all would take "
                f"{work:.0e} steps"
            )
            key = key[kept]
        return key // n, key % n, notes

    def _work(self) -> float:
        """Steps of one evaluation, about: the pairs of the sources near enough to a circuit's ends."""
        hops, demand = self.fabric.hops, self.demand
        rows = np.diff(demand.ptr)
        senders = np.flatnonzero(rows)
        if not senders.size:
            return 1.0
        some = senders[:: max(1, senders.size // 64)]
        longest = int(hops[demand.source, demand.to].max(initial=0))
        near = (hops[senders][:, some] >= 0) & (hops[senders][:, some] <= longest - 2)
        return float((near * rows[senders][:, None]).sum(axis=0).mean()) + 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Selection:
    """The circuits, and how they came about.

    Attributes
    ----------
    method, objective : str
    circuits : Circuits
        In the order of choice.
    revenue : float64 array, shape (n,)
        What each saved when it was chosen, in the unit of the objective: byte-hops (``sum``), else price.
    problem : Problem
        What it is a choice for.
    evaluations : int
        Revenues looked at.
    notes : tuple of str
        What was left out or is not guaranteed.
    slots : tuple of (float, Circuits)
        For a choice that changes within the window: seconds, set-up included, and circuits of each slot, repeated until the next choice.
        ``circuits`` are those of the first, and so is ``after``. Empty: ``circuits`` stay.
    slots_s : float
        Time in which one pass of the slots, and beside them the electrical links, drain the demand.
    """

    method: str
    objective: str
    circuits: Circuits
    revenue: Float64
    problem: Problem
    evaluations: int = 0
    notes: tuple[str, ...] = ()
    slots: tuple[tuple[float, Circuits], ...] = ()
    slots_s: float = 0.0

    @cached_property
    def before(self) -> Index:
        """Without circuits."""
        return self.problem.index(Circuits.of([]), "electrical")

    @cached_property
    def after(self) -> Index:
        """With them, under the routing ``spill``: the fullest link is never fuller than before."""
        return self.problem.index(self.circuits, "spill")

    def lines(self) -> list[str]:
        """For people."""
        b, a = self.before, self.after

        def change(old: float, new: float) -> str:
            return f"{new:.4g} s (electrical only: {old:.4g} s{f', {(new / old - 1) * 100:+.0f} %' if old > 0 else ''})"

        hops = b.electrical_byte_hops
        if self.slots:
            return [
                f"{self.method}: {count(len(self.slots), 'slot')}, {count(sum(len(c) for _, c in self.slots), 'circuit')} in all",
                f"one pass of {format_time(sum(t for t, _ in self.slots))} drains all, beside electrical links, in "
                f"{change(b.max_electrical_s, self.slots_s)}",
                *self.notes,
            ]
        return [
            f"{self.method}: {len(self.circuits)} circuits",
            f"fullest electrical link drained in {change(b.max_electrical_s, a.max_electrical_s)}",
            f"fullest circuit drained in {a.max_optical_s:.4g} s",
            f"electrical byte-hops {a.electrical_byte_hops:.4g}"
            + (f" ({(a.electrical_byte_hops / hops - 1) * 100:+.0f} %)" if hops > 0 else ""),
            *self.notes,
        ]


Selector = Callable[[Problem], Selection]
selectors: Registry[Selector] = Registry("circuit selector", "netsim.circuit_selectors")


def select(
    topology: Topology,
    demand: Any,
    *,
    method: str = "eefi",
    ports: int | npt.ArrayLike,
    objective: str = "sum",
    capacity: str | float = "100Gbps",
    directed: bool = False,
    most: int | None = None,
    candidates: npt.ArrayLike | None = None,
    seed: int = 0,
    delay_s: float = 0.0,
    window_s: float = np.inf,
    **options: Any,
) -> Selection:
    """Choose optical circuits for a demand.

    Parameters
    ----------
    topology : Topology
        The electrical network; circuits that it may have already are ignored.
    demand : array_like of float, shape (n_switches, n_switches), or scipy sparse array, or SwitchDemand
        Bytes in one window.
    method : str
        A name in ``selectors``: ``eefi``, or a rival.
    ports : int or array_like of int, shape (n_switches,)
        Optical ports of each switch. A circuit that carries both ways takes one at each end; with ``directed`` a circuit takes a
        transmitter and a receiver, of which there are so many each.
    objective : str
        ``sum``, ``phi`` or ``max``; see the module. Methods that know only one ignore it.
    capacity : str or float
        Of a circuit in each direction; a number is bytes per second. ``sum`` ignores it.
    directed : bool
    most : int, optional
        Circuits at most; by default as many as the ports allow.
    candidates : array_like of int, shape (c, 2), optional
        Pairs of switches to choose among; by default the pairs that communicate.
    seed : int
        For methods that draw.
    delay_s, window_s : float
        Time to change circuits, and until they are chosen again: for methods that change circuits within a window.
    **options
        Of the method.

    Returns
    -------
    Selection

    Raises
    ------
    InputError
        Bad demand, ports, names; ends that do not exist.

    Examples
    --------
    >>> import netsim as ns
    >>> demand = np.zeros((8, 8))
    >>> demand[0, 4] = demand[1, 5] = 100
    >>> found = select(ns.topologies.torus((8,), hosts=1), demand, ports=1)
    >>> found.circuits, found.revenue.tolist()
    (<Circuits: 0-4, 1-5>, [500.0, 300.0])
    """
    topology = without_circuits(topology)
    fabric = Fabric(topology)
    rows = switch_demand(topology, demand)
    own = port_counts(topology, ports)
    if objective not in OBJECTIVES:
        raise InputError("objective", f"must be one of {', '.join(OBJECTIVES)}", got=repr(objective))
    rate = parse_rate(capacity, subject="circuit capacity") if isinstance(capacity, str) else float(capacity)
    if not rate > 0:
        raise InputError("circuit capacity", "must be above 0 bytes per second", got=rate)
    if not (np.isfinite(delay_s) and delay_s >= 0 and window_s > delay_s):
        raise InputError(
            "window",
            f"must be longer than a finite delay of 0 or more, {format_time(delay_s)}",
            got=format_time(window_s),
        )
    if most is not None and most < 0:
        raise InputError("most", "must be 0 or more circuits", got=most)
    pairs = None
    if candidates is not None:
        given = Circuits.of(candidates, directed=directed).check(topology)
        a, b = given.a, given.b
        if not directed:
            a, b = np.minimum(a, b), np.maximum(a, b)
        key = np.unique(a * fabric.n + b)
        pairs = (key // fabric.n, key % fabric.n)
    problem = Problem(
        fabric=fabric,
        demand=rows,
        ports=frozen(own, np.int64),
        directed=directed,
        capacity_bytes_per_s=rate,
        objective=objective,
        most=int(own.sum()) if most is None else int(most),
        candidates=pairs,
        seed=seed,
        options=dict(options),
        delay_s=delay_s,
        window_s=window_s,
    )
    found = selectors[method](problem)
    found.circuits.check(topology, own)
    for _, circuits in found.slots:
        circuits.check(topology, own)
    return found


def chosen(
    problem: Problem,
    method: str,
    circuits: Circuits,
    *,
    revenue: npt.ArrayLike = (),
    evaluations: int = 0,
    notes: tuple[str, ...] = (),
    slots: tuple[tuple[float, Circuits], ...] = (),
    slots_s: float = 0.0,
) -> Selection:
    """Put a method's choice together with the indices before and after."""
    return Selection(
        method=method,
        objective=problem.objective,
        circuits=circuits,
        revenue=frozen(revenue, np.float64),
        problem=problem,
        evaluations=evaluations,
        notes=notes,
        slots=slots,
        slots_s=slots_s,
    )


def no_options(problem: Problem, method: str, known: tuple[str, ...] = ()) -> None:
    """Raise on options that a method does not have."""
    for name in problem.options:
        if name not in known:
            raise InputError(
                f"circuit selector {method}",
                f"has the options {', '.join(known)}" if known else "has no options",
                got=repr(name),
            )
