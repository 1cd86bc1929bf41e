"""``netsim coflows``: groups of flows on optical circuit switches side by side."""

from __future__ import annotations

import inspect
import itertools
import json
from typing import Any

import click

from netsim.cli.options import PATH, TEXT, TIME, WHOLE
from netsim.cli.output import show
from netsim.cli.usage import Group

__all__ = ["coflows"]

SHOWN = 20
# The linear program takes seconds for so many coflows.
MOST_IN_PROGRAM = 200


@click.group(cls=Group)
def coflows() -> None:
    """Coflows on circuit switches: completion times, bounds."""


_FILE = click.argument("file", type=PATH)
_CORES = click.option(
    "--cores",
    type=TEXT,
    default="100Gbps",
    show_default=True,
    help="Capacity of a circuit on each circuit switch: 40Gbps,160Gbps is two of them.",
)
_DELAY = click.option("--delay", type=TIME, default="10ms", show_default=True, help="To set up a circuit.")
_SEED = click.option("--seed", type=WHOLE, default=0, show_default=True)
_LOCAL = click.option("--keep-local", is_flag=True, help="Keep flows from a port to itself.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


def _rates(cores: str) -> list[float]:
    from netsim.core.units import parse_rate

    return [parse_rate(word.strip(), subject="option --cores") for word in cores.split(",")]


@coflows.command(short_help="Orders, assignments and circuit rules to choose from.")
def rules() -> None:
    """List what --order, --assign and --circuit may be."""
    from netsim.optics.schedules import assign_rules, circuit_rules, order_rules

    for option, registry in (("--order", order_rules), ("--assign", assign_rules), ("--circuit", circuit_rules)):
        names = list(registry)
        show([f"{option}:"])
        show((f"  {n:<9} {(inspect.getdoc(registry[n]) or '').splitlines()[0]}" for n in names), indent=12)


@coflows.command(short_help="Completion times of coflows, and what they are measured by.")
@_FILE
@_CORES
@_DELAY
@click.option("--order", type=TEXT, default="wspt", show_default=True, help="Which coflow goes first.")
@click.option("--assign", type=TEXT, default="setups", show_default=True, help="Which flow goes to which core.")
@click.option("--circuit", type=TEXT, default="list", show_default=True, help="When each core sets up which circuit.")
@_SEED
@_LOCAL
@_JSON
def schedule(
    file: str,
    cores: str,
    delay: float,
    order: str,
    assign: str,
    circuit: str,
    seed: int,
    keep_local: bool,
    as_json: bool,
) -> None:
    """Schedule the coflows of FILE (lines of id, arrival, mappers and reducers) on circuit switches side by side.

    The bound of a coflow is what no schedule can beat, its ratio the completion time over that.
    """
    import numpy as np

    from netsim.core.text import count
    from netsim.core.units import format_bytes, format_rate, format_time
    from netsim.optics.schedules import (
        check_timetable,
        cores_bound_s,
        lp_bound_s,
        packet_bound_s,
        read_coflows,
        schedule_coflows,
    )

    rate = np.array(_rates(cores))
    data = read_coflows(file, keep_local=keep_local)
    found = check_timetable(
        schedule_coflows(
            data, capacity_bytes_per_s=rate, delay_s=delay, order=order, assign=assign, circuit=circuit, seed=seed
        )
    )
    end = found.completion_s
    bound = cores_bound_s(data, capacity_bytes_per_s=rate, delay_s=delay)
    packet = packet_bound_s(data, capacity_bytes_per_s=float(rate.sum()))
    ratio = np.divide(end, bound, out=np.ones(len(data)), where=bound > 0)
    program = lp_bound_s(data, capacity_bytes_per_s=rate, delay_s=delay) if 0 < len(data) <= MOST_IN_PROGRAM else None
    # Both hold, and rounding of the program must not make it the weaker one.
    least = max(float((bound * data.weight).sum()), program or 0.0)
    sizes = np.bincount(data.coflow, weights=data.size_bytes, minlength=len(data))
    if as_json:
        click.echo(
            json.dumps(
                {
                    "settings": {
                        "cores_bytes_per_s": rate.tolist(), "delay_s": delay, "order": order, "assign": assign,
                        "circuit": circuit, "seed": seed,
                    },
                    "coflows": [
                        {
                            "id": int(data.label[m]), "arrival_s": float(data.arrival_s[m]),
                            "weight": float(data.weight[m]), "flows": int(data.ptr[m + 1] - data.ptr[m]),
                            "size_bytes": float(sizes[m]), "completion_s": float(end[m]),
                            "bound_s": float(bound[m]), "packet_bound_s": float(packet[m]), "ratio": float(ratio[m]),
                        }
                        for m in range(len(data))
                    ],
                    "total_s": found.total_s,
                    "weighted_s": found.weighted_s,
                    "setups": found.setups,
                    "bound_total_s": float(bound.sum()),
                    "bound_weighted_s": least,
                    "program_weighted_s": program,
                    "ratio_weighted": found.weighted_s / least if least > 0 else 1.0,
                    "notes": list(data.notes),
                },
                indent=1,
            )
        )  # fmt: skip
        return
    lines = [
        f"{count(len(data), 'coflow')}, {count(data.source.size, 'flow')}, {format_bytes(float(sizes.sum()))} between "
        f"{count(data.n_ports, 'port')}; circuits of {', '.join(format_rate(float(r)) for r in rate)}, "
        f"delay {format_time(delay)}",
        *data.notes,
        f"order {order}, assignment {assign}, circuits {circuit}: {count(found.setups, 'set-up')}",
        "",
    ]
    table: list[tuple[str, ...]] = [("coflow", "flows", "size", "arrival", "completion", "bound", "ratio")]
    table += [
        (
            str(int(data.label[m])), f"{int(data.ptr[m + 1] - data.ptr[m]):,}", format_bytes(float(sizes[m])),
            format_time(float(data.arrival_s[m])), format_time(float(end[m])), format_time(float(bound[m])),
            f"{ratio[m]:.3f}",
        )
        for m in range(min(len(data), SHOWN))
    ]  # fmt: skip
    show([*lines, *_columns(table)])
    if len(data) > SHOWN:
        show([f"... and {len(data) - SHOWN} more (--json has all)"])
    part = "" if program is not None or not len(data) else f" (linear program left out above {MOST_IN_PROGRAM} coflows)"
    show(
        [
            "",
            f"sum of completion times {format_time(found.total_s, 6)}, mean {format_time(found.total_s / max(len(data), 1), 6)}",
            f"weighted sum            {format_time(found.weighted_s, 6)}, at least {format_time(least, 6)}{part}: "
            f"ratio {found.weighted_s / least if least > 0 else 1.0:.3f}",
        ]
    )


def _columns(table: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]


@coflows.command(short_help="All rules side by side.")
@_FILE
@_CORES
@_DELAY
@click.option("--orders", type=TEXT, help="Comma-separated; by default all.")
@click.option("--assigns", type=TEXT, help="Comma-separated; by default all, for one core the first.")
@click.option("--circuits", type=TEXT, help="Comma-separated; by default all.")
@_SEED
@_LOCAL
@_JSON
def compare(
    file: str,
    cores: str,
    delay: float,
    orders: str | None,
    assigns: str | None,
    circuits: str | None,
    seed: int,
    keep_local: bool,
    as_json: bool,
) -> None:
    """Schedule the coflows of FILE by every combination of rules, and on one packet switch with the capacities together."""
    import numpy as np

    from netsim.core.units import format_time
    from netsim.optics.schedules import (
        assign_rules,
        check_timetable,
        circuit_rules,
        order_rules,
        read_coflows,
        schedule_coflows,
        sincronia,
        varys,
    )

    rate = np.array(_rates(cores))
    data = read_coflows(file, keep_local=keep_local)

    def names(words: str | None, registry: Any) -> list[str]:
        return list(registry) if words is None else [word.strip() for word in words.split(",")]

    # On one core all assignments are one.
    where = names(assigns, assign_rules)[: None if rate.size > 1 else 1]
    rows: list[dict[str, Any]] = []
    for order, assign, circuit in itertools.product(names(orders, order_rules), where, names(circuits, circuit_rules)):
        found = check_timetable(
            schedule_coflows(
                data, capacity_bytes_per_s=rate, delay_s=delay, order=order, assign=assign, circuit=circuit, seed=seed
            )
        )
        rows.append(
            {
                "order": order, "assign": assign if rate.size > 1 else "-", "circuit": circuit,
                "total_s": found.total_s, "weighted_s": found.weighted_s, "setups": found.setups,
            }
        )  # fmt: skip
    for name, rule in (("varys", varys), ("sincronia", sincronia)):
        end = rule(data, capacity_bytes_per_s=float(rate.sum()))
        rows.append(
            {
                "order": name, "assign": "-", "circuit": "packet switch", "total_s": float(end.sum()),
                "weighted_s": float((end * data.weight).sum()), "setups": 0,
            }
        )  # fmt: skip
    rows.sort(key=lambda row: (row["weighted_s"], row["order"], row["assign"], row["circuit"]))
    if as_json:
        click.echo(json.dumps({"rows": rows, "notes": list(data.notes)}, indent=1))
        return
    table: list[tuple[str, ...]] = [("order", "assignment", "circuits", "sum", "weighted sum", "set-ups")]
    table += [
        (
            row["order"], row["assign"], row["circuit"], format_time(row["total_s"], 5),
            format_time(row["weighted_s"], 5), f"{row['setups']:,}" if row["setups"] else "-",
        )
        for row in rows
    ]  # fmt: skip
    show([*data.notes, *_columns(table)])
