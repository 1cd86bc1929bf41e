"""Checks of routing: closed forms of saturation throughput, the optimum by linear programming, and the engine.

Where a routing gives each pair of hosts one path, the engine sends equal messages along all of them at once. The fullest link is then
the first bottleneck of max-min sharing and stays full to the end, so the last message arrives after exactly what the host
sends, over its throughput.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.engine import run_flows
from netsim.routing import paths, routings, saturation
from netsim.routing.fluid import BY_PATH, injection_bytes_per_s
from netsim.routing.patterns import demand
from netsim.topologies import Topology, dragonfly, fat_tree, mesh, torus, xgft
from netsim.validation.report import Check, Table

__all__ = ["Case", "cases", "routing_checks", "routing_tables", "simulated_throughput"]

TOLERANCE = 1e-9
# The interior-point solution is that good.
LP_TOLERANCE = 1e-6
# Sources times links; above that the linear program takes too long for a check.
LP_SIZE = 12_000
HEAD = ("network", "traffic", "routing", "closed form", "fluid", "difference", "optimum (LP)", "simulated")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One row: a closed form of the throughput per host, host and link bandwidth 1.

    Attributes
    ----------
    network : str
    topology : Topology
    pattern, routing : str
    closed_form : float
        Limited by links between switches alone.
    """

    network: str
    topology: Topology
    pattern: str
    routing: str
    closed_form: float


def _dragonfly_cases(h: int) -> list[Case]:
    p, a = h, 2 * h
    g = a * h + 1
    n = a * p * g
    network = dragonfly(p, a, h, capacity=1.0, latency=0.0)
    # Uniform, minimal: a local link carries p^2 pairs of its own, and p^2 a h each of what goes to and comes from global links;
    # a global link the pairs of its two groups.
    uniform = min((n - 1) / (p * p * (1 + 2 * a * h)), (n - 1) / (a * p) ** 2)
    # Valiant: two of g - 1 links per group and byte, less what skips the two groups concerned.
    valiant = (g - 2) / (2 * (g - 1))
    rows = [
        ("uniform", "minimal", uniform),
        ("adv+1", "minimal", 1 / (a * p)),
        ("adv+1", "ecmp", 1 / (a * p)),
        ("adv+1", "valiant-group", valiant),
        ("adv+1", "valiant-router", valiant),
    ]
    if h > 1:
        # Palmtree: what comes for group s + h over one local link of the transit group has h ports behind it.
        rows += [
            (f"adv+{h}", "minimal", 1 / (a * p)),
            (f"adv+{h}", "valiant-group", (g - 2) / (h * p * (a + 2))),
            (f"adv+{h}", "valiant-router", valiant),
        ]
    if h <= 2:
        # One direct link, and half of each of the g - 2 ways over a third group.
        rows.append(("adv+1", "optimum", g / (2 * (g - 1))))
    return [Case(network=f"dragonfly h={h}", topology=network, pattern=t, routing=r, closed_form=x) for t, r, x in rows]


def cases() -> list[Case]:
    """All rows."""
    unit: dict[str, Any] = {"capacity": 1.0, "latency": 0.0}
    found = [case for h in (1, 2, 3) for case in _dragonfly_cases(h)]

    def add(network: str, topology: Topology, pattern: str, routing: str, closed_form: float) -> None:
        found.append(
            Case(network=network, topology=topology, pattern=pattern, routing=routing, closed_form=closed_form)
        )

    # Trunks of m links per pair of groups.
    p, a, h, g = 2, 4, 2, 5
    m = a * h // (g - 1)
    trunked = dragonfly(p, a, h, g, **unit)
    add("dragonfly 2 links", trunked, "adv+1", "ecmp", m / (a * p))
    add("dragonfly 2 links", trunked, "adv+1", "valiant-router", (g - 2) * m / (2 * a * p))
    for dims in ((8,), (4, 4), (5, 5), (8, 8), (4, 4, 4)):
        k, n = dims[0], int(np.prod(dims))
        name = "x".join(map(str, dims))
        ring = 8 / k if k % 2 == 0 else 8 * k / (k * k - 1)
        add(f"torus {name}", torus(dims, **unit), "uniform", "dimension-order", ring * (n - 1) / n)
        # The link in the middle of a line of k: k^2/4 pairs of places, or (k^2 - 1)/4.
        add(
            f"mesh {name}",
            mesh(dims, **unit),
            "uniform",
            "dimension-order",
            (4 / k if k % 2 == 0 else 4 * k / (k * k - 1)) * (n - 1) / n,
        )
    for k in (5, 7, 8):
        add(f"torus {k}", torus((k,), **unit), "tornado", "minimal", 1 / (-(-k // 2) - 1))
        # Offset s one way and k - s the other, in the proportion that fills both directions alike.
        s = -(-k // 2) - 1
        add(f"torus {k}", torus((k,), **unit), "tornado", "optimum", 1 / s + 1 / (k - s))
    # Two legs of uniform traffic, each switch with itself included: k/8 per link and leg.
    add("torus 8", torus((8,), **unit), "tornado", "valiant-router", 4 / 8)
    for bits in (3, 4, 6):
        cube = torus((2,) * bits, **unit)
        n = 2**bits
        add(f"hypercube {bits}", cube, "uniform", "dimension-order", 2 * (n - 1) / n)
        add(f"hypercube {bits}", cube, "bit-complement", "minimal", 1.0)
        if bits % 2 == 0:
            # Half of the bits are corrected before one bit of the middle is: 2^(bits/2 - 1) sources share its link.
            add(f"hypercube {bits}", cube, "bit-reversal", "minimal", 1 / 2 ** (bits // 2 - 1))
            add(f"hypercube {bits}", cube, "transpose", "minimal", 1 / 2 ** (bits // 2 - 1))
    for k in (4, 8):
        n = k**3 // 4
        tree = fat_tree(k, **unit)
        # An edge switch's hosts send all but the part that stays under it over as many links.
        add(f"fat-tree k={k}", tree, "uniform", "ecmp", (n - 1) / (n - k // 2))
        for shift in (1, k // 2, n // 2 + 1):
            add(f"fat-tree k={k}", tree, f"shift+{shift}", "d-mod-k", 1.0)
    tapered = xgft((4, 4), (1, 2), **unit)
    add("2-level tree 2:1", tapered, "shift+4", "d-mod-k", 0.5)
    add("2-level tree 2:1", tapered, "shift+4", "ecmp", 0.5)
    add("2-level tree 2:1", tapered, "uniform", "ecmp", 2 / (4 * 12 / 15))
    return found


def simulated_throughput(topology: Topology, *, pattern: str, routing: str, seed: int = 0) -> float:
    """What the engine makes of it: every pair sends its share of 1 s of injection at once, along its one path.

    Returns
    -------
    float
        1 s over the time at which the last byte arrives.
    """
    source, destination, share = demand(topology, pattern, seed=seed).pairs()
    routes = paths(topology, source, destination, routing=routing, seed=seed)
    finish = run_flows(
        capacity_bytes_per_s=topology.link_capacity_bytes_per_s,
        ptr=routes.ptr,
        link=routes.link,
        start_s=np.zeros(source.size),
        size_bytes=share * injection_bytes_per_s(topology)[source],
    )
    return float(1.0 / finish.max())


def routing_checks(rows: list[Case] | None = None) -> list[Check]:
    """Every case by closed form, fluid loads, linear program where small, and engine where each pair has one path."""
    checks = []
    optimum: dict[tuple[str, str], float] = {}
    for case in cases() if rows is None else rows:
        net = case.topology
        found = saturation(net, pattern=case.pattern, routing=case.routing)
        exact = case.routing != "optimum"
        difference = abs(found.throughput - case.closed_form) / case.closed_form
        ok = difference <= (TOLERANCE if exact else LP_TOLERANCE)
        best = simulated = "-"
        if net.n_switches * net.n_links <= LP_SIZE:
            key = (case.network, case.pattern)
            if key not in optimum:
                optimum[key] = saturation(net, pattern=case.pattern, routing="optimum").throughput
            best = f"{optimum[key]:.6f}"
            ok &= found.throughput <= optimum[key] * (1 + LP_TOLERANCE)
        name = {"dimension-order": "minimal"}.get(case.routing, case.routing)
        if name in BY_PATH and name in routings and net.n_hosts <= 100:
            rate = simulated_throughput(net, pattern=case.pattern, routing=name)
            simulated = f"{rate:.6f}"
            ok &= abs(rate - found.accepted) <= TOLERANCE * rate
        numbers = (f"{case.closed_form:.6f}", f"{found.throughput:.6f}", f"{difference:.0e}", best, simulated)
        cells = (case.network, case.pattern, case.routing, *numbers)
        checks.append(
            Check(
                name=f"{case.network} {case.pattern} {case.routing}",
                expected_s=1 / case.closed_form,
                found_s=1 / found.throughput,
                ok=ok,
                cells=cells,
            )
        )
    return checks


def routing_tables() -> list[Table]:
    """The table of ``netsim validate routing``."""
    title = "Saturation throughput per host (host and link bandwidth 1; fluid: links between switches; simulated: at most 1)"
    return [(title, HEAD, tuple(routing_checks()))]
