"""Checks of topologies: ports, diameter, mean distance and bisection of each family against what theory says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from netsim.topologies import (
    Topology,
    describe,
    dragonfly,
    dragonfly_plus,
    fat_tree,
    full_mesh,
    hyperx,
    k_ary_n_tree,
    mesh,
    polarfly,
    slim_fly,
    torus,
)
from netsim.validation.report import Check, Table

__all__ = ["Structure", "structure_checks", "structure_tables", "structures"]

TOLERANCE = 1e-12
HEAD = (
    "network",
    "switches",
    "ports",
    "diameter",
    "mean distance",
    "found",
    "bisection",
    "found",
    "source of the formulas",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Structure:
    """What theory says of a network whose links all have capacity 1.

    Attributes
    ----------
    name : str
    topology : Topology
    ports : tuple of int
        Least and greatest number of ports of a switch.
    diameter : int
        In links between switches with hosts.
    mean_distance : float, optional
        Over ordered pairs of different ones; None where there is no formula.
    bisection : float, optional
        Least capacity between halves, in one direction.
    source : str
    """

    name: str
    topology: Topology
    ports: tuple[int, int]
    diameter: int
    mean_distance: float | None
    bisection: float | None
    source: str


def structures() -> list[Structure]:
    """All rows."""
    unit: dict[str, Any] = {"capacity": 1.0, "latency": 0.0}
    rows: list[Structure] = []

    def add(
        name: str,
        topology: Topology,
        ports: tuple[int, int] | int,
        diameter: int,
        mean: float | None,
        cut: float | None,
        source: str,
    ) -> None:
        both = (ports, ports) if isinstance(ports, int) else ports
        rows.append(
            Structure(
                name=name,
                topology=topology,
                ports=both,
                diameter=diameter,
                mean_distance=mean,
                bisection=cut,
                source=source,
            )
        )

    book = "Dally, Towles 2004, chapters 3 and 5"
    for k, n in ((4, 2), (5, 2), (4, 3), (7, 1)):
        size = k**n
        ring = k / 4 if k % 2 == 0 else (k * k - 1) / (4 * k)
        cut = 2 * size / k if k % 2 == 0 else None
        add(f"torus {k}^{n}", torus((k,) * n, **unit), 2 * n + 1, n * (k // 2), n * ring * size / (size - 1), cut, book)
        line = (k * k - 1) / (3 * k)
        cut = size / k if k % 2 == 0 else None
        ends = (n + 1, 2 * n + 1)
        add(f"mesh {k}^{n}", mesh((k,) * n, **unit), ends, n * (k - 1), n * line * size / (size - 1), cut, book)
    for n in (3, 5):
        size = 2**n
        add(f"hypercube {n}", torus((2,) * n, **unit), n + 1, n, n / 2 * size / (size - 1), size / 2, book)
    for s, d in ((4, 2), (6, 2), (3, 3)):
        size = s**d
        cut = size * s / 4 if s % 2 == 0 else None
        mean = d * (1 - 1 / s) * size / (size - 1)
        add(f"hyperx {s}^{d}", hyperx((s,) * d, 2, **unit), d * (s - 1) + 2, d, mean, cut, "Ahn et al., SC 2009")
    add("full mesh 8", full_mesh(8, 2, **unit), 9, 1, 1.0, 16.0, "complete graph")
    for q, delta in ((3, -1), (4, 0), (5, 1), (7, -1)):
        size, degree = 2 * q * q, (3 * q - delta) // 2
        mean = 2 - degree / (size - 1)
        add(
            f"slim fly q={q}",
            slim_fly(q, 2, **unit),
            degree + 2,
            2,
            mean,
            None,
            "McKay, Miller, Siran 1998; Besta, Hoefler, SC 2014",
        )
    for q in (3, 4, 5):
        size = q * q + q + 1
        # q + 1 of the vertices are their own neighbours, which no cable is.
        mean = 2 - q * (q + 1) ** 2 / (size * (size - 1))
        add(
            f"polarfly q={q}",
            polarfly(q, 2, **unit),
            (q + 2, q + 3),
            2,
            mean,
            None,
            "Erdos, Renyi 1962; Lakhotia et al., SC 2022",
        )
    for h in (1, 2, 3):
        add(f"dragonfly h={h}", dragonfly(h, 2 * h, h, **unit), 4 * h - 1, 3, None, None, "Kim et al., ISCA 2008")
    add(
        "dragonfly+ g=5",
        dragonfly_plus(2, 2, 2, 2, 5, **unit),
        4,
        3,
        (2 + 3 * 8) / 9,
        None,
        "Shpiner et al., HiPINEB 2017",
    )
    for k in (4, 6):
        edges = k * k // 2
        mean = (2 * (k // 2 - 1) + 4 * (edges - k // 2)) / (edges - 1)
        add(f"fat-tree k={k}", fat_tree(k, **unit), k, 4, mean, k**3 / 8, "Al-Fares et al., SIGCOMM 2008")
    for k, n in ((2, 3), (4, 2), (3, 3)):
        leaves = k ** (n - 1)
        mean = sum(2 * i * (k**i - k ** (i - 1)) for i in range(1, n)) / (leaves - 1)
        cut = k**n / 2 if k % 2 == 0 else None
        add(
            f"{k}-ary {n}-tree",
            k_ary_n_tree(k, n, **unit),
            (k, 2 * k),
            2 * (n - 1),
            mean,
            cut,
            "Petrini, Vanneschi 1997",
        )
    return rows


def structure_checks(rows: list[Structure] | None = None) -> list[Check]:
    """Every row against the description of its network, whose distances are searched."""
    checks = []
    for row in structures() if rows is None else rows:
        found = describe(row.topology)
        seen = found.to_dict()
        ok = (seen["switch_ports_min"], seen["switch_ports_max"]) == row.ports and seen["diameter"] == row.diameter
        if row.mean_distance is not None:
            ok &= math.isclose(seen["average_distance"], row.mean_distance, rel_tol=TOLERANCE)
        cut = found.bisection
        if row.bisection is not None:
            ok &= cut is not None and cut.lower_bytes_per_s <= row.bisection * (1 + TOLERANCE)
            ok &= cut is not None and cut.upper_bytes_per_s >= row.bisection * (1 - TOLERANCE)
        low, high = (math.nan, math.nan) if cut is None else (cut.lower_bytes_per_s, cut.upper_bytes_per_s)
        least, most = row.ports
        checks.append(
            Check(
                name=f"structure of {row.name}",
                ok=ok,
                cells=(
                    row.name,
                    str(row.topology.n_switches),
                    str(least) if least == most else f"{least} to {most}",
                    str(row.diameter),
                    "-" if row.mean_distance is None else f"{row.mean_distance:.6f}",
                    f"{seen['average_distance']:.6f}",
                    "-" if row.bisection is None else f"{row.bisection:g}",
                    _range(low, high),
                    row.source,
                ),
            )
        )
    return checks


def _range(low: float, high: float) -> str:
    if math.isnan(low):
        return "-"
    if math.isclose(low, high, rel_tol=TOLERANCE):
        return f"{low:.6g}"
    return f"{low:.6g} to {high:.6g}" if math.isfinite(high) else f"{low:.6g} or more"


def structure_tables() -> list[Table]:
    """The table of ``netsim validate routing`` about networks."""
    title = "Structure of networks (all links of capacity 1; distances between switches with hosts; ports with those of hosts)"
    return [(title, HEAD, tuple(structure_checks()))]
