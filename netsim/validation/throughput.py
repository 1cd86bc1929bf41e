"""Checks of routing: closed forms of saturation throughput, the optimum by linear programming, the engine, and packet simulations.

Where a routing gives each pair of hosts one path, the engine sends equal messages along all of them at once. The fullest link is then
the first bottleneck of max-min sharing and stays full to the end, so the last message arrives after exactly what the host
sends, over its throughput.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from netsim.engine import run_flows
from netsim.routing import paths, routings, saturation
from netsim.routing.fluid import BY_PATH, injection_bytes_per_s
from netsim.routing.patterns import demand
from netsim.routing.throughput import network_links
from netsim.testing import enumerated_loads
from netsim.topologies import (
    Topology,
    bcube,
    cascade,
    dragonfly,
    dragonfly_plus,
    fat_tree,
    full_mesh,
    hyperx,
    jellyfish,
    k_ary_n_tree,
    mesh,
    polarfly,
    rail_optimized,
    slim_fly,
    torus,
    twisted_torus,
    xgft,
    xpander,
)
from netsim.validation.report import Check, Table

__all__ = ["Case", "cases", "packet_checks", "routing_checks", "routing_tables", "simulated_throughput"]

TOLERANCE = 1e-9
# The interior-point solution is that good.
LP_TOLERANCE = 1e-6
# Sources times links; above that the linear program takes too long for a check.
LP_SIZE = 12_000
# Shares of a linear program's solution.
DIVISION_TOLERANCE = 1e-8
DIVIDED = ("ugal-l", "ugal-g", "par")
HEAD = ("network", "traffic", "routing", "expected", "by", "fluid", "difference", "optimum (LP)", "simulated")
PACKET_HEAD = ("network", "traffic", "routing", "packets", "fluid", "packets / fluid", "simulated", "what packets add")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One row: a closed form of the throughput per host, host and link bandwidth 1.

    Attributes
    ----------
    network : str
    topology : Topology
    pattern, routing : str
    expected : float
        Limited by links between switches alone.
    by : str
        Where it comes from: a formula, or a plain list of all paths.
    """

    network: str
    topology: Topology
    pattern: str
    routing: str
    expected: float
    by: str = "formula"


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
    # One direct link, and half of each of the g - 2 ways over a third group: what the best division can use.
    rows += [("adv+1", name, g / (2 * (g - 1))) for name in DIVIDED]
    if h > 1:
        # The direct link full, and the local links of transit groups.
        rows.append((f"adv+{h}", "ugal-g", 1 / (a * p) + (g - 2) / (h * p * (a + 2))))
    if h <= 2:
        rows.append(("adv+1", "optimum", g / (2 * (g - 1))))
    return [Case(network=f"dragonfly h={h}", topology=network, pattern=t, routing=r, expected=x) for t, r, x in rows]


def cases() -> list[Case]:
    """All rows."""
    unit: dict[str, Any] = {"capacity": 1.0, "latency": 0.0}
    found = [case for h in (1, 2, 3) for case in _dragonfly_cases(h)]

    def add(network: str, topology: Topology, pattern: str, routing: str, expected: float, by: str = "formula") -> None:
        found.append(
            Case(network=network, topology=topology, pattern=pattern, routing=routing, expected=expected, by=by)
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
    for k, levels in ((2, 3), (4, 2)):
        tree, n = k_ary_n_tree(k, levels, **unit), k**levels
        # Every level above a host carries all of its traffic but what stays below, over as many links.
        add(f"{k}-ary {levels}-tree", tree, "uniform", "ecmp", (n - 1) / (n - k))
        add(f"{k}-ary {levels}-tree", tree, f"shift+{k}", "d-mod-k", 1.0)
    for side, per in ((3, 3), (4, 4), (4, 2)):
        net, n = hyperx((side, side), per, **unit), side * side * per
        # A link joins two switches that differ in its dimension: per^2 pairs of its own, and per^2 (side - 1) halves twice over.
        add(f"hyperx {side}x{side} t={per}", net, "uniform", "ecmp", (n - 1) / (per * per * side))
        add(f"hyperx {side}x{side} t={per}", net, f"shift+{per}", "minimal", 1 / per)
        # Two legs to and from any switch: per / side on each link.
        add(
            f"hyperx {side}x{side} t={per}",
            net,
            "bit-complement" if n & (n - 1) == 0 else "tornado",
            "valiant",
            side / (2 * per),
        )
    for n, per in ((5, 4), (7, 3)):
        net = full_mesh(n, per, **unit)
        add(f"full mesh {n} t={per}", net, "uniform", "ecmp", (n * per - 1) / per**2)
        add(f"full mesh {n} t={per}", net, f"shift+{per}", "ecmp", 1 / per)
        add(f"full mesh {n} t={per}", net, f"shift+{per}", "valiant", n / (2 * per))
    # Hoffman-Singleton graph: all links alike, 7 neighbours and 42 at distance 2.
    net = slim_fly(5, 4, **unit)
    add("slim fly q=5", net, "uniform", "ecmp", 50 * 7 / (50 * 4 * 4 * (7 + 2 * 42) / 199))
    listed = {
        "slim fly q=5": (net, "longest-matching"),
        "slim fly q=3": (slim_fly(3, 3, **unit), "uniform"),
        "polarfly q=5": (polarfly(5, 3, **unit), "uniform"),
        "polarfly q=3": (polarfly(3, 2, **unit), "longest-matching"),
        "jellyfish 24x6": (jellyfish(24, 6, 2, **unit), "uniform"),
        "jellyfish 16x4": (jellyfish(16, 4, 2, **unit), "longest-matching"),
        "xpander 4x4": (xpander(4, 4, 2, **unit), "uniform"),
        "dragonfly+ g=5": (dragonfly_plus(2, 2, 2, 2, 5, **unit), "uniform"),
        "cascade g=3": (cascade(2, 2, 4, 2, 3, **unit), "uniform"),
        "twisted torus 4x2": (twisted_torus((4, 2), **unit), "uniform"),
        "bcube 4, 1": (bcube(4, 1, **unit), "uniform"),
        "rails 4x4": (rail_optimized(4, 4, 8, **unit, nvlink_capacity=4.0), "uniform"),
    }
    for name, (net, pattern) in listed.items():
        add(name, net, pattern, "ecmp", _listed(net, pattern), "list of paths")
    return found


def _listed(topology: Topology, pattern: str) -> float:
    """Throughput of equal-cost multipath, from every path of every pair."""
    source, destination, share = demand(topology, pattern).pairs()
    amount = share * injection_bytes_per_s(topology)[source]
    load = enumerated_loads(topology, zip(source.tolist(), destination.tolist(), amount.tolist(), strict=True))
    used = np.flatnonzero((load > 0) & network_links(topology))
    return float((topology.link_capacity_bytes_per_s[used] / load[used]).min())


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
        difference = abs(found.throughput - case.expected) / case.expected
        ok = difference <= (LP_TOLERANCE if not exact else DIVISION_TOLERANCE if case.routing in DIVIDED else TOLERANCE)
        best = simulated = "-"
        if net.n_switches * net.n_links <= LP_SIZE:
            key = (case.network, case.pattern)
            if key not in optimum:
                optimum[key] = saturation(net, pattern=case.pattern, routing="optimum").throughput
            best = f"{optimum[key]:.6f}"
            # The optimum counts links of hosts that have several.
            ok &= min(found.throughput, found.host_throughput) <= optimum[key] * (1 + LP_TOLERANCE)
        name = {"dimension-order": "minimal"}.get(case.routing, case.routing)
        if name in BY_PATH and name in routings and net.n_hosts <= 100:
            rate = simulated_throughput(net, pattern=case.pattern, routing=name)
            simulated = f"{rate:.6f}"
            ok &= abs(rate - found.accepted) <= TOLERANCE * rate
        numbers = (f"{case.expected:.6f}", case.by, f"{found.throughput:.6f}", f"{difference:.0e}", best, simulated)
        cells = (case.network, case.pattern, case.routing, *numbers)
        checks.append(
            Check(
                name=f"{case.network} {case.pattern} {case.routing}",
                expected_s=1 / case.expected,
                found_s=1 / found.throughput,
                ok=ok,
                cells=cells,
            )
        )
    return checks


def routing_tables() -> list[Table]:
    """The table of ``netsim validate routing``."""
    title = "Saturation throughput per host (host and link bandwidth 1; fluid: links between switches; simulated: at most 1)"
    packets = "Against a packet simulation (BookSim2, recorded): a fluid never carries less, and shows neither buffers nor late decisions"
    return [(title, HEAD, tuple(routing_checks())), (packets, PACKET_HEAD, tuple(packet_checks()))]


def packet_checks() -> list[Check]:
    """Recorded packet-level throughput beside the fluid and the simulated one; the fluid must not be below."""
    recorded = json.loads((resources.files("netsim.validation") / "packet_recorded.json").read_text())
    unit: dict[str, Any] = {"capacity": 1.0, "latency": 0.0}
    networks = {
        "dragonfly p=2": dragonfly(2, 4, 2, **unit),
        "dragonfly p=3": dragonfly(3, 6, 3, **unit),
        "torus 8x8": torus((8, 8), **unit),
        "mesh 8x8": mesh((8, 8), **unit),
        "4-ary 3-tree": k_ary_n_tree(4, 3, **unit),
    }
    checks = []
    for row in recorded["rows"]:
        net, pattern, routing, accepted = networks[row["network"]], row["traffic"], row["routing"], row["accepted"]
        fluid = saturation(net, pattern=pattern, routing=routing).accepted
        full = pattern == "adv+1" and routing == "minimal"
        # One link that is always full: packets carry as much as a fluid, within the digits that were recorded.
        ok = accepted <= fluid * (1 + 1e-3) and (not full or abs(accepted - fluid) <= 5e-5)
        simulated = "-"
        name = {"dimension-order": "minimal"}.get(routing, routing)
        if name in BY_PATH:
            simulated = f"{simulated_throughput(net, pattern=pattern, routing=name):.4f}"
        adds = (
            "nothing: one link is full"
            if full
            else "late decisions, full queues"
            if routing == "ugal-l"
            else "buffers, blocking"
        )
        checks.append(
            Check(
                name=f"packets: {row['network']} {pattern} {routing}",
                expected_s=1 / accepted,
                found_s=1 / fluid,
                ok=ok,
                cells=(
                    row["network"], pattern, routing, f"{accepted:.4g}", f"{fluid:.4f}", f"{accepted / fluid:.3f}", simulated, adds,
                ),
            )
        )  # fmt: skip
    return checks
