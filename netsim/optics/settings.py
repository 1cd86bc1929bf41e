"""How a run uses its optical hardware: settings, their text form (``eefi:ports=4,delay=10ms``), and the deciders that follow from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from itertools import count
from typing import Any

import numpy as np

from netsim.core.arrays import Float64
from netsim.core.errors import InputError, closest
from netsim.core.units import format_time, parse_part, parse_time
from netsim.optics.circuits import Circuits, with_circuits
from netsim.optics.control import POLICIES, Answer, Decider, Window
from netsim.optics.demands import SwitchDemand
from netsim.optics.hardware import CircuitSwitches, circuit_switches
from netsim.optics.loads import efi_index, link_load
from netsim.optics.selection import OBJECTIVES, Selection, select, selectors
from netsim.topologies import Topology

__all__ = ["KNOWLEDGE", "Optics", "decider", "pays_off"]

KNOWLEDGE = ("oracle", "stale", "measured", "given")


@dataclass(frozen=True, kw_only=True)
class Optics:
    """What optical hardware there is, who chooses its circuits, and from what knowledge.

    Attributes
    ----------
    method : str
        Who chooses circuits: see `netsim.optics.select`.
    objective : str
        What eefi saves: sum (byte-hops), phi or max (the fullest links).
    ports : int
        Optical ports of each switch on each core.
    cores : int
        Optical switches side by side.
    capacity : str
        Of a circuit, each direction.
    latency : str
        Of a circuit.
    delay : str
        Time to change circuits.
    delay_per_change : str
        More of it for each circuit set up or torn down.
    guard : str
        Time to settle after a change.
    spread : str
        Law of the delay: none, uniform, exponential, lognormal.
    all_stop : bool
        All circuits of a core are dark while it changes, not only those that change.
    directed : bool
        Transmitters and receivers are switched apart.
    policy : str
        What traffic does in the dark: ``fallback``, ``wait``, ``drain``.
    know : str
        What the chooser knows. ``oracle``: what is still to be sent (within the next window, if there are windows). ``stale``: what an
        oracle would have said one window earlier. ``measured``: what was sent in the last window. ``given``: a demand given with the
        run, learnt from earlier runs.
    window_s : float
        Time between decisions; inf: one, at the start.
    repeats : float
        How often the demand is expected to come again: benefit counts so often, dark time once.
    hysteresis : bool
        Change circuits only where that pays for its dark time (`pays_off`).
    what_if : bool
        With ``oracle``, ``stale`` and ``given``: leave all dark if a run with circuits turns out slower than one without.

    Examples
    --------
    >>> Optics.parse("eefi:ports=2,delay=1ms,policy=wait").ports
    2
    >>> Optics.parse("eefi:port=2")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: optics: unknown setting, got 'port'; did you mean 'ports'? valid: all_stop, capacity, cores, delay, \
delay_per_change, directed, guard, hysteresis, know, latency, objective, policy, ports, repeats, spread, what_if, window
    """

    method: str = "eefi"
    objective: str = "sum"
    ports: int = 4
    cores: int = 1
    capacity: str = "100Gbps"
    latency: str = "200ns"
    delay: str = "10ms"
    delay_per_change: str = "0s"
    guard: str = "0s"
    spread: str = "none"
    all_stop: bool = False
    directed: bool = False
    policy: str = "fallback"
    know: str = "oracle"
    window_s: float = np.inf
    repeats: float = 1.0
    hysteresis: bool = True
    what_if: bool = True

    def __post_init__(self) -> None:
        selectors[self.method]
        for name, value, valid in (
            ("objective", self.objective, OBJECTIVES),
            ("policy", self.policy, POLICIES),
            ("know", self.know, KNOWLEDGE),
        ):
            if value not in valid:
                raise InputError(f"optics {name}", f"must be one of {', '.join(valid)}", got=repr(value))
        if not self.window_s > 0:
            raise InputError("optics window", "must be above 0 seconds", got=self.window_s)
        if not (self.repeats > 0 and np.isfinite(self.repeats)):
            raise InputError("optics repeats", "must be finite and above 0", got=self.repeats)
        if self.know == "measured" and np.isinf(self.window_s):
            raise InputError(
                "optics", "know=measured needs a window", got="none", remedy="add window=10ms, for example"
            )

    @classmethod
    def parse(cls, text: str) -> Optics:
        """From ``METHOD`` or ``METHOD:NAME=VALUE,NAME=VALUE``; names may be written with hyphens."""
        method, _, rest = text.partition(":")
        names = {("window" if f.name == "window_s" else f.name): f for f in fields(cls) if f.name != "method"}
        given: dict[str, Any] = {"method": method.strip() or "eefi"}
        for part in filter(None, (p.strip() for p in rest.split(","))):
            name, equals, value = part.partition("=")
            name = name.strip().replace("-", "_")
            if name not in names:
                raise InputError("optics", "unknown setting", got=repr(name), remedy=closest(name, sorted(names)))
            kind = names[name].type
            if not equals and kind == "bool":
                value = "yes"
            elif not equals:
                raise InputError(f"optics {name}", "needs a value", got=repr(part), remedy=f"write {name}=...")
            given[names[name].name] = _value(name, str(kind), value.strip())
        return cls(**given)

    def switches(self, topology: Topology, *, seed: int = 0) -> CircuitSwitches:
        """The hardware beside a topology."""
        return circuit_switches(
            topology,
            ports=self.ports,
            cores=self.cores,
            capacity=self.capacity,
            latency=self.latency,
            delay=self.delay,
            delay_per_change=self.delay_per_change,
            spread=self.spread,
            guard=self.guard,
            all_stop=self.all_stop,
            directed=self.directed,
            seed=seed,
        )

    def select(self, topology: Topology, demand: SwitchDemand, switches: CircuitSwitches) -> Selection:
        """The circuits that the method chooses for a demand, on all cores of the hardware."""
        return select(
            topology,
            demand,
            method=self.method,
            objective=self.objective,
            ports=switches.ports * switches.cores,
            capacity=switches.capacity_bytes_per_s,
            directed=switches.directed,
            seed=switches.seed,
            delay_s=switches.delay_s + switches.guard_s,
            window_s=self.window_s,
        )

    def to_dict(self) -> dict[str, Any]:
        """For provenance."""
        found = asdict(self)
        if np.isinf(self.window_s):
            found["window_s"] = "inf"
        return found


def _value(name: str, kind: str, text: str) -> Any:
    if kind == "bool":
        if text.lower() not in ("yes", "no", "true", "false"):
            raise InputError(f"optics {name}", "must be yes or no", got=repr(text))
        return text.lower() in ("yes", "true")
    if name == "window":
        return parse_time(text, subject="optics window")
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise InputError(f"optics {name}", "must be a whole number", got=repr(text)) from None
    if kind == "float":
        return parse_part(text, subject=f"optics {name}") if text.endswith("%") else _number(name, text)
    return text


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"optics {name}", "must be a number", got=repr(text)) from None


def pays_off(present_s: float, dark_s: float, new_s: float, delay_s: float, *, repeats: float = 1.0) -> bool:
    """Is a change of circuits worth its dark time?

    Parameters
    ----------
    present_s : float
        Time to drain the demand with the circuits as they stand.
    dark_s : float
        With those only that stay lit during the change.
    new_s : float
        With the new ones.
    delay_s : float
        Dark time. Until then the demand drains as in the dark, then as with the new circuits: ``delay + (1 - delay / dark) new`` in all.
    repeats : float
        How often the demand comes; the first time pays the dark time.

    Examples
    --------
    One bottleneck of L bytes at c_e, circuit of c_o: worth it if and only if L > c_e x delay. 1 GB, 12.5 and 25 GB/s: 125 MB for 10 ms.

    >>> drain = lambda size: (size / 12.5e9, size / 12.5e9, size / 37.5e9, 0.01)
    >>> pays_off(*drain(1e9)), pays_off(*drain(126e6)), pays_off(*drain(124e6))
    (True, True, False)
    """
    if delay_s >= dark_s:
        first = dark_s
    else:
        first = delay_s + (1.0 - delay_s / dark_s) * new_s
    # Rounding is no gain.
    return first + (repeats - 1.0) * new_s < repeats * present_s * (1.0 - 1e-9)


def decider(
    settings: Optics,
    switches: CircuitSwitches,
    *,
    pilot_start_s: Float64 | None = None,
    demand: SwitchDemand | None = None,
) -> Decider:
    """The chooser that settings describe.

    Parameters
    ----------
    settings : Optics
    switches : CircuitSwitches
    pilot_start_s : float64 array, shape (n_tasks,), optional
        When each transfer starts in a run without circuits; what ``oracle`` and ``stale`` order windows by.
    demand : SwitchDemand, optional
        For ``given``.
    """
    if settings.know == "given" and demand is None:
        raise InputError(
            "optics", "know=given needs a demand", got="none", remedy="give one learnt from an earlier run"
        )
    if settings.window_s <= switches.shortest_dark_s:
        raise InputError(
            "optics window",
            f"must be longer than a reconfiguration with its guard time, at least {format_time(switches.shortest_dark_s)}",
            got=format_time(settings.window_s),
        )
    before: list[SwitchDemand] = []

    def known(window: Window) -> SwitchDemand | None:
        view, control = window.view, window.control
        if settings.know == "given":
            return demand
        if settings.know == "measured":
            # What drained since the last decision, and what has started and has not.
            since = window.now_s - settings.window_s
            start, drain = view.start_s[control.tasks], view.drain_s[control.tasks]
            seen = (start <= window.now_s) & ~(drain <= since)
            return control.demand_of(control.tasks[seen]) if seen.any() else None
        task = control.open_tasks(view)
        if np.isfinite(settings.window_s) and pilot_start_s is not None and task.size:
            at = pilot_start_s[task]
            task = task[at <= np.nanmin(at) + settings.window_s]
        now = control.demand_of(task)
        if settings.know == "stale":
            before.append(now)
            return before[-2] if len(before) > 1 else None
        return now

    def decide(window: Window) -> Answer | None:
        wanted_for = known(window)
        if wanted_for is None or wanted_for.to.size == 0:
            return None
        topology = window.control.network.electrical
        found = settings.select(topology, wanted_for, switches)
        if found.slots:
            return _slotted(window, topology, switches, found, wanted_for, settings)
        if settings.hysteresis and not _worth(window, topology, switches, found.circuits, wanted_for, settings.repeats):
            return None
        return found.circuits, (wanted_for if settings.know == "given" else None)

    return decide


def _slotted(
    window: Window,
    topology: Topology,
    switches: CircuitSwitches,
    found: Selection,
    demand: SwitchDemand,
    settings: Optics,
) -> Answer | None:
    """The slots one after the other, again and again until the next decision; None if the circuits that stand are as fast."""
    if settings.hysteresis and found.slots_s >= _drained_s(topology, window.standing, demand, switches) * (1 - 1e-9):
        return None
    first = found.slots[0][1]
    length = np.array([seconds for seconds, _ in found.slots])
    known = demand if settings.know == "given" else None
    if length.size == 1:
        return first, known
    start, whole = np.concatenate([[0.0], np.cumsum(length)[:-1]]), float(length.sum())
    later = (
        (window.now_s + (i // length.size) * whole + float(start[i % length.size]), found.slots[i % length.size][1])
        for i in count(1)
    )
    return first, known, later


def _drained_s(topology: Topology, circuits: Circuits, demand: SwitchDemand, switches: CircuitSwitches) -> float:
    lit = with_circuits(topology, circuits, capacity=switches.capacity_bytes_per_s, latency=0.0)
    return efi_index(lit, link_load(lit, demand, routing="spill")).max_s


def _worth(
    window: Window, topology: Topology, switches: CircuitSwitches, new: Circuits, demand: SwitchDemand, repeats: float
) -> bool:
    def drained_s(circuits: Circuits) -> float:
        return _drained_s(topology, circuits, demand, switches)

    old, wanted = window.standing.pairs(), new.pairs()
    both = [pair for pair in old if pair in wanted or pair[::-1] in wanted]
    stay = Circuits.of([] if switches.all_stop else both, directed=new.directed)
    changes = len(old) + len(wanted) - 2 * len(both)
    delay = switches.delay_s + switches.delay_per_change_s * changes + switches.guard_s
    return pays_off(drained_s(window.standing), drained_s(stay), drained_s(new), delay, repeats=repeats)
