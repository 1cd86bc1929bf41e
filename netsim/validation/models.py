"""Closed forms of messages and collectives, and replays of real traces.

Everything goes through the same door as a user's run (`replay`); nothing here calls the solver directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from netsim import api
from netsim.core.units import format_bytes, format_time
from netsim.topologies import Topology, star
from netsim.traces import Trace, read_trace
from netsim.traffic import Protocol
from netsim.traffic.collectives import Call, algorithms, closed_form_s
from netsim.validation.report import Check, Table

__all__ = ["collective_checks", "message_checks", "model_tables", "trace_checks", "trace_tables"]

ALPHA_S = 1e-6
RATE = 10e9
# Divides evenly among 6 and among 8 members, which the closed forms ask for.
VECTOR = 1_200_000
BLOCK = 125_000
MEMBERS = (6, 8)
TOLERANCE = 1e-9
COLUMNS = (
    "trace", "network", "makespan", "lower bound", "network-bound", "latency", "sharing", "busiest link", "byte error", "allocations proven"
)  # fmt: skip
FABRICS = ("dragonfly", "fat_tree", "torus")

# Sizes by the convention of traces: what one member contributes, or the vector.
_SIZE = {"allgather": BLOCK, "gather": BLOCK, "scatter": BLOCK, "reduce_scatter": BLOCK, "barrier": 0}


def model_tables() -> list[Table]:
    """Messages and collectives against their closed forms."""
    head = ("case", "closed form", "simulated", "difference")
    return [
        ("Messages: eager and rendezvous (o = 1 us, L = 5 us, B = 1 GB/s)", head, tuple(message_checks())),
        (
            f"Collectives on a non-blocking star (a = 1 us, B = 10 GB/s, vector {format_bytes(VECTOR)}, block {format_bytes(BLOCK)})",
            head,
            tuple(collective_checks()),
        ),
    ]


def trace_tables(paths: Sequence[Path]) -> list[Table]:
    """Replays of the traces, with their local work and without."""
    return [
        ("Real traces on three networks", COLUMNS, tuple(trace_checks(paths))),
        ("The same without local work: communication alone", COLUMNS, tuple(trace_checks(paths, gaps="none"))),
    ]


def _compared(name: str, expected: float, found: float) -> Check:
    difference = abs(found - expected) / expected if expected else abs(found)
    return Check(
        name=name,
        expected_s=expected,
        found_s=found,
        ok=difference <= TOLERANCE,
        cells=(name, format_time(expected, 8), format_time(found, 8), f"{difference:.1e}"),
    )


def message_checks() -> list[Check]:
    """One message between two ranks: eager and rendezvous, receiver early and late; and an incast.

    With overhead o on both sides, path latency L and rate B, a message of s bytes is received at 2o + L + s/B (eager), at
    2o + 3L + s/B (rendezvous: request and clearance cost L each), or after the receive is posted.
    """
    o, latency, rate = 1e-6, 5e-6, 1e9
    network = star(n=9, capacity=rate, latency=latency / 2)
    protocol = Protocol(eager_threshold_bytes=8192, send_overhead_s=o, recv_overhead_s=o)

    def message(size: int, posted_s: float = 0.0) -> Trace:
        return Trace.from_rows(
            n_ranks=2,
            rows=[
                {"rank": 0, "op": "send", "peer": 1, "tag": 0, "bytes": size},
                {"rank": 1, "op": "recv", "peer": 0, "tag": 0, "bytes": size, "gap_ns": round(posted_s * 1e9)},
            ],
        )

    incast = Trace.from_rows(
        n_ranks=9,
        rows=[
            *({"rank": r, "op": "send", "peer": 0, "tag": 0, "bytes": 4000} for r in range(1, 9)),
            *({"rank": 0, "op": "recv", "peer": r, "tag": 0, "bytes": 4000} for r in range(1, 9)),
        ],
    )
    cases = [
        ("eager, 1 kB", message(1000), 2 * o + latency + 1000 / rate),
        ("rendezvous, 100 kB", message(100_000), 2 * o + 3 * latency + 100_000 / rate),
        # Clearance leaves when the receive is posted: L, then the data, then L and the receiver's overhead.
        ("rendezvous, receive posted at 50 us", message(100_000, 50e-6), 50e-6 + 2 * latency + 100_000 / rate + o),
        ("eager, receive posted at 50 us", message(4000, 50e-6), 50e-6 + o),
        # All eight drain together after 8 s/B; the receiver then pays one overhead per message.
        ("incast of 8 x 4 kB", incast, o + 8 * 4000 / rate + latency + 8 * o),
    ]
    return [
        _compared(name, expected, api.replay(trace, topology=network, protocol=protocol).makespan_s)
        for name, trace, expected in cases
    ]


def collective_checks(members: Sequence[int] = MEMBERS) -> list[Check]:
    """Every algorithm that has a closed form for the call, replayed on a star."""
    checks = []
    for n in members:
        network = star(n=n, capacity=RATE, latency=ALPHA_S / 2)
        for name in algorithms:
            op = algorithms[name].op
            if op in ("gatherv", "scatterv", "allgatherv", "alltoallv") or op.startswith("neighbor"):
                continue
            size = n * BLOCK if op == "alltoall" else _SIZE.get(op, VECTOR)
            call = Call(op=op, n=n, size_bytes=size)
            cost = algorithms[name].cost
            if (
                cost is None
                or any(default is None for default in algorithms[name].parameters.values())
                or cost(call) is None
            ):
                continue
            trace = Trace.from_rows(
                n_ranks=n,
                rows=[
                    {
                        "rank": r,
                        "op": op,
                        "bytes": size,
                        **({"peer": 0} if op in ("bcast", "reduce", "gather", "scatter") else {}),
                    }
                    for r in range(n)
                ],
            )
            result = api.replay(trace, topology=network, protocol=Protocol.ideal(), collectives={op: name})
            expected = closed_form_s(call, algorithm=name, alpha_s=ALPHA_S, bytes_per_s=RATE)
            checks.append(_compared(f"{name}, n={n}", expected, result.makespan_s))
    return checks


def trace_checks(
    paths: Sequence[Path], fabrics: Sequence[str | Topology] = FABRICS, gaps: Literal["auto", "none"] = "auto"
) -> list[Check]:
    """Replays of traces: every allocation proven, bytes conserved on every link, makespan not below the lower bound.

    The engine counts the bytes of a link as rate times time; the column shows by how much that differs, on the worst link, from the
    bytes of the messages routed over it.
    """
    checks = []
    for path in paths:
        trace = read_trace(path)
        for fabric in fabrics:
            result = api.replay(trace, topology=fabric, gaps=gaps, certify=True)
            s = result.summary
            lost = s["engine"]["worst_link_byte_error"]
            bound = s["lower_bound"]["largest_s"]
            where = result.provenance["topology"]
            makespan = max(result.makespan_s, 1e-300)
            times = s["lower_bound"]["times_lower_bound"]
            checks.append(
                Check(
                    name=f"{path.name} on {where['family']}, gaps {gaps}",
                    expected_s=bound,
                    found_s=result.makespan_s,
                    ok=lost <= TOLERANCE and result.makespan_s >= bound * (1 - TOLERANCE),
                    cells=(
                        path.name,
                        f"{where['family']} ({where['hosts']} hosts)",
                        format_time(result.makespan_s, 6),
                        f"{times:.3g} x" if times else "-",
                        f"{100 * s['network_bound']:.1f} %",
                        f"{100 * s['critical_path']['latency_s'] / makespan:.1f} %",
                        f"{100 * s['critical_path']['sharing_s'] / makespan:.2f} %",
                        f"{100 * s['bottleneck_links'][0]['utilisation']:.1f} %" if s["bottleneck_links"] else "-",
                        f"{lost:.0e}",
                        f"{s['engine']['allocations_certified']:,}",
                    ),
                )
            )
    return checks
