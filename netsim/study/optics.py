"""What optical circuits are worth to a recorded run: from none to perfect knowledge, beside what else their ports would buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from netsim.api import replay, resolve_topology
from netsim.core.arrays import frozen
from netsim.core.errors import InputError, closest
from netsim.core.units import format_bytes, format_time
from netsim.jobs import place
from netsim.optics import Optics, SwitchDemand, demand_between_switches, selectors
from netsim.results import Result
from netsim.routing.throughput import network_links
from netsim.topologies import Topology
from netsim.traces import Trace, read_trace
from netsim.traffic import Protocol, lower

__all__ = ["ARMS", "Arm", "compare_optics", "learnt_demand", "upgraded"]

ARMS = ("electrical", "upgrade", "random", "hottest", "stale", "measured", "given", "oracle")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One run of a comparison.

    Attributes
    ----------
    name : str
    what : str
        In words.
    makespan_s : float
    gain : float
        Part of the electrical-only makespan saved; below 0: slower.
    optical_bytes : float
        Over circuits.
    fullest_s : float
        Time that the fullest electrical link between switches was busy (its bytes over its capacity).
    circuits, reconfigurations : int
        Set up over the run.
    dark_s : float
        Sum over circuits of the time between order and light.
    """

    name: str
    what: str
    makespan_s: float
    gain: float
    optical_bytes: float
    fullest_s: float
    circuits: int
    reconfigurations: int
    dark_s: float

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        return (
            self.what,
            format_time(self.makespan_s, 5),
            f"{-100 * self.gain:+.1f} %" if self.name != "electrical" else "-",
            format_bytes(self.optical_bytes) if self.optical_bytes else "-",
            format_time(self.fullest_s),
            f"{self.circuits:,}" if self.circuits else "-",
            format_time(self.dark_s) if self.dark_s else "-",
        )


HEAD = ("arm", "makespan", "change", "over circuits", "fullest electrical link busy", "circuits set up", "dark, summed")


def upgraded(topology: Topology, optics: Optics) -> Topology:
    """The network with the money for its optical ports spent on more links between electrical switches instead.

    An optical port is taken to cost what an electrical one of the same rate costs with its part of a cable; the port of the circuit
    switch that it leads to comes for free. All links between switches get wider in the same proportion.

    Parameters
    ----------
    topology : Topology
    optics : Optics
    """
    switches = optics.switches(topology)
    inner = network_links(topology)
    rate = np.array(topology.link_capacity_bytes_per_s)
    total = float(rate[inner & np.isfinite(rate)].sum())
    if total == 0:
        return topology
    more = float(switches.ports.sum()) * switches.cores * switches.capacity_bytes_per_s
    rate[inner] *= 1.0 + more / total
    return replace(topology, link_capacity_bytes_per_s=frozen(rate, np.float64))


def learnt_demand(
    trace: Trace | str | PathLike[str], topology: Topology, *, placement: str = "linear", seed: int = 0, **lowering: Any
) -> SwitchDemand:
    """What a run sends between switches, as knowledge for another run of the same program.

    Parameters
    ----------
    trace : Trace or path
        Of the earlier run.
    topology : Topology
    placement : str
        Of the run to come.
    seed : int
    **lowering
        See `netsim.traffic.lower`.
    """
    data = trace if isinstance(trace, Trace) else read_trace(trace)
    where = place(placement, n_ranks=data.n_ranks, topology=topology, seed=seed)
    graph = lower(data, protocol=lowering.pop("protocol", None) or Protocol(), **lowering).graph
    return demand_between_switches(topology, graph, where.host)


def compare_optics(
    trace: Trace | str | PathLike[str],
    *,
    topology: Topology | str = "dragonfly",
    optics: Optics | str = "eefi",
    arms: Sequence[str] = ("electrical", "upgrade", "random", "hottest", "stale", "measured", "oracle"),
    learn: Trace | str | PathLike[str] | None = None,
    placement: str = "linear",
    seed: int = 0,
    **options: Any,
) -> tuple[list[Arm], list[Result]]:
    """Replay a trace with and without circuits.

    Parameters
    ----------
    trace : Trace or path
    topology : Topology or str
    optics : Optics or str
        Hardware and chooser; its ``know`` and ``what_if`` are set by the arms. Without a window, ``stale`` and ``measured`` decide twenty
        times in the time that the run takes without circuits, but not sooner than after two reconfigurations.
    arms : sequence of str
        ``electrical``; ``upgrade`` (see `upgraded`); ``random``, ``hottest`` or another selector (oracle demand, always lit); and what the
        chooser knows: ``stale``, ``measured``, ``given``, ``oracle``.
    learn : Trace or path, optional
        An earlier run, for ``given``.
    placement, seed
    **options
        See `netsim.replay`.

    Returns
    -------
    arms : list of Arm
    results : list of Result
    """
    settings = Optics.parse(optics) if isinstance(optics, str) else optics
    for name in arms:
        if name not in ARMS and name not in selectors:
            raise InputError("arm", "unknown name", got=repr(name), remedy=closest(name, {*ARMS, *selectors}))
    if "given" in arms and learn is None:
        raise InputError("arm given", "needs an earlier run to learn from", got="none", remedy="give learn")
    data = trace if isinstance(trace, Trace) else read_trace(trace)
    network = resolve_topology(topology, n_hosts=data.n_ranks)
    shared: dict[str, Any] = {"placement": placement, "seed": seed, **options}

    def run(**more: Any) -> Result:
        result = replay(data, **{"topology": network, **shared, **more})
        if result.status != "finished":
            # Ctrl-C ends the comparison, not one arm of it.
            raise KeyboardInterrupt
        return result

    base = run()
    dark_s = settings.switches(network).shortest_dark_s
    window_s = settings.window_s if np.isfinite(settings.window_s) else max(base.makespan_s / 20, 2 * dark_s, 1e-9)
    rows: list[Arm] = []
    results: list[Result] = []
    for name in arms:
        demand = None
        if name == "electrical":
            result, what = base, "electrical only"
        elif name == "upgrade":
            result, what = run(topology=upgraded(network, settings)), "ports as electrical links"
        else:
            used, what = _of_arm(settings, name, window_s)
            if name == "given":
                assert learn is not None
                lowering = {k: v for k, v in options.items() if k in ("protocol", "collectives", "gaps")}
                demand = learnt_demand(learn, network, placement=placement, seed=seed, **lowering)
            result = run(optics=used, optical_demand=demand)
        results.append(result)
        rows.append(_arm(name, what, result, base))
    return rows, results


def _of_arm(settings: Optics, name: str, window_s: float) -> tuple[Optics, str]:
    if name in selectors:
        always = replace(settings, method=name, know="oracle", hysteresis=False, what_if=False)
        return always, f"{name} circuits, always lit"
    words = {
        "oracle": "knows what comes",
        "given": "knows an earlier run",
        "stale": "knows it one window late",
        "measured": "knows the last window",
    }
    window = settings.window_s if name in ("oracle", "given") else window_s
    return replace(settings, know=name, window_s=window), f"{settings.method}, {words[name]}"


def _arm(name: str, what: str, result: Result, base: Result) -> Arm:
    lights = result.summary.get("optics", {})
    dark = bool(lights.get("slower")) or not lights
    table = result.to_pandas("links")
    inner = table[~table["layer"].isin(["host", "optical"])]
    carried = inner.groupby("link").agg(bytes=("bytes", "sum"), rate=("capacity_bytes_per_s", "first"))
    busy = float((carried["bytes"] / carried["rate"]).max()) if len(carried) else 0.0
    return Arm(
        name=name,
        what=what,
        makespan_s=result.makespan_s,
        gain=1.0 - result.makespan_s / base.makespan_s if base.makespan_s > 0 else 0.0,
        optical_bytes=0.0 if dark else float(lights["optical_bytes"]),
        fullest_s=busy,
        circuits=0 if dark else int(lights["circuits_set_up"]),
        reconfigurations=0 if dark else int(lights["reconfigurations"]),
        dark_s=0.0 if dark else float(lights["dark_s"]),
    )
