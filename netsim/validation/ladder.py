"""The engine against everything that could refute it: proofs, exact arithmetic, linear programs, hand cases, laws, SimGrid.

Rungs, each of which presumes those below: L0 single allocations, L1 runs that can be followed by hand, L2 laws that every run obeys,
L8 another simulator. Random instances are drawn from a fixed seed, so that the table is the same each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netsim import topologies
from netsim.core.arrays import Float64, Int64
from netsim.core.errors import NetsimError
from netsim.core.rng import stream
from netsim.engine import CapacityChanges, EngineResult, Routes, Simulation, run_flows
from netsim.routing import paths as route_paths
from netsim.testing import (
    Peer,
    Verdict,
    certificate,
    exact_rates,
    exact_simulation,
    find_peer,
    flow_simulation,
    lexicographic_rates,
    run_peer,
)
from netsim.traffic.taskgraph import GraphBuilder, TaskGraph
from netsim.validation.report import Check, Table

__all__ = [
    "HAND_CASES",
    "RECORDED",
    "HandCase",
    "engine_tables",
    "hand_checks",
    "law_checks",
    "peer_checks",
    "solver_checks",
]

HEAD = ("what", "instances", "worst error", "limit", "result")
RECORDED = Path(__file__).with_name("simgrid_recorded.json")
SEED = 1
SOLVER, LP, EVENTS, PEER = 1e-12, 1e-7, 1e-9, 1e-4
LETTERS = "ABCDEFGH"


def engine_tables(*, simgrid: str | None = None) -> list[Table]:
    """All rungs; SimGrid by its recorded finish times, and live where an interpreter has it."""
    peer = find_peer(simgrid)
    return [
        ("L0. Allocations: proof, exact arithmetic, linear programs", HEAD, tuple(solver_checks())),
        ("L1. Events that can be followed by hand", HEAD, tuple(hand_checks())),
        ("L2. Laws that every run obeys", HEAD, tuple(law_checks())),
        ("L8. SimGrid", HEAD, tuple(peer_checks(peer))),
    ]


def _check(what: str, instances: str, error: float, limit: float) -> Check:
    ok = bool(error <= limit)
    shown = ("0" if error == 0 else f"{error:.1e}", "0" if limit == 0 else f"{limit:.0e}")
    return Check(
        name=what, ok=ok, cells=(what, instances, *shown, "pass" if ok else "FAIL"), error=float(error), limit=limit
    )


def _difference(found: Any, expected: Any) -> float:
    """Largest relative difference; infinite where only one of the two is a number."""
    a, b = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if a.size == 0:
        return 0.0
    gap = np.abs(a - b) / np.where(b != 0, np.abs(b), 1.0)
    gap[np.isnan(a) & np.isnan(b)] = 0.0
    return float(np.where(np.isnan(gap), np.inf, gap).max())


# ---------------------------------------------------------------- instances


@dataclass(frozen=True)
class _System:
    capacity: list[int]
    paths: list[list[int]]
    weight: list[int] | None
    cap: list[int | None] | None

    @property
    def csr(self) -> tuple[Int64, Int64]:
        return np.cumsum([0, *(len(p) for p in self.paths)]), np.array([x for p in self.paths for x in p])

    def flows(self, size_bytes: Any, start_s: Any = None) -> dict[str, Any]:
        ptr, link = self.csr
        n = len(self.paths)
        return {
            "capacity_bytes_per_s": self.capacity,
            "ptr": ptr,
            "link": link,
            "start_s": np.zeros(n) if start_s is None else start_s,
            "size_bytes": np.broadcast_to(size_bytes, n),
            "weight": self.weight,
            "rate_cap_bytes_per_s": None if self.cap is None else [np.inf if c is None else c for c in self.cap],
        }


def _systems(
    name: str, count: int, *, flows: int, links: int, weights: bool = True, caps: bool = True
) -> Iterator[_System]:
    """Random flows on links with small whole capacities, so that ties are frequent; half with weights, half with caps."""
    rng = stream(SEED, "validation", name)
    for _ in range(count):
        m, n = int(rng.integers(1, links + 1)), int(rng.integers(1, flows + 1))
        paths = [rng.choice(m, size=int(rng.integers(1, min(m, 5) + 1)), replace=False).tolist() for _ in range(n)]
        weight = rng.integers(1, 6, n).tolist() if weights and rng.random() < 0.5 else None
        cap: list[int | None] | None = None
        if caps and rng.random() < 0.5:
            cap = [int(rng.integers(1, 9)) if rng.random() < 0.5 else None for _ in range(n)]
        yield _System(rng.integers(1, 41, m).tolist(), paths, weight, cap)


@dataclass(frozen=True)
class _Graph:
    graph: TaskGraph
    paths: list[list[int]]
    capacity: list[int]
    latency: list[int]
    weight: list[int] | None
    changes: list[tuple[int, int, int]]

    def simulation(self, **options: Any) -> Simulation:
        routed = [i for i, p in enumerate(self.paths) if p]
        of_task = np.full(len(self.paths), -1, np.int32)
        of_task[routed] = np.arange(len(routed))
        routes = Routes(
            of_task=of_task,
            ptr=np.cumsum([0, *(len(self.paths[i]) for i in routed)]),
            link=np.array([x for i in routed for x in self.paths[i]], np.int32),
            latency_s=np.array([self.latency[i] for i in routed], np.float64),
        )
        return Simulation(
            graph=self.graph,
            routes=routes.shared(),
            capacity_bytes_per_s=self.capacity,
            weight=self.weight,
            changes=CapacityChanges(
                time_s=np.array([t for t, _, _ in self.changes], np.float64),
                link=np.array([l for _, l, _ in self.changes], np.int32),
                capacity_bytes_per_s=np.array([c for _, _, c in self.changes], np.float64),
            ),
            **options,
        )


def _graphs(name: str, count: int) -> Iterator[_Graph]:
    """Random task graphs: delays and transfers that wait for each other, latencies, weights, links that change and go dark."""
    rng = stream(SEED, "validation", name)
    for system in _systems(name + " systems", count, flows=14, links=5, caps=False):
        n = len(system.paths)
        build = GraphBuilder(n_ranks=1)
        paths: list[list[int]] = []
        for i in range(n):
            amount = float(rng.choice([0, 1, 2, 3, 6, 10, 12]))
            if rng.random() < 0.2:
                build.delay(rank=0, seconds=amount)
                paths.append([])
            else:
                build.transfer(source=0, destination=0, size_bytes=20 * amount)
                paths.append(system.paths[i])
            for j in range(i):
                if rng.random() < 0.15:
                    build.edge(j, i, int(rng.integers(0, 3)))
        changes = sorted(
            (int(rng.integers(0, 20)), int(rng.integers(0, len(system.capacity))), int(rng.choice([0, 2, 7, 30])))
            for _ in range(int(rng.integers(0, 4)))
        )
        latency = [int(rng.integers(0, 3)) if p else 0 for p in paths]
        yield _Graph(build.graph(), paths, system.capacity, latency, system.weight, changes)


@cache
def _network_flows(n: int) -> dict[str, dict[str, Any]]:
    """Flows of log-normal sizes between random hosts: arrivals over time, and all at once, on three networks."""
    networks = {
        "dragonfly": topologies.dragonfly(p=2, a=4, h=2),
        "fat-tree": topologies.fat_tree(k=8),
        "torus": topologies.torus(dims=(4, 4, 4)),
    }
    out: dict[str, dict[str, Any]] = {}
    for name, network in networks.items():
        for kind in ("arrivals", "batch"):
            rng = stream(SEED, "validation", name, kind)
            hosts = network.n_hosts
            src = rng.integers(0, hosts, n)
            dst = (src + 1 + rng.integers(0, hosts - 1, n)) % hosts
            size = np.ceil(rng.lognormal(13, 1.5, n))
            # Load 1.5 of the hosts' links while flows arrive: queues build up, so that most flows share.
            gap = size.mean() / (1.5 * hosts * 12.5e9)
            route = route_paths(network, src, dst)
            out[f"{name}, {kind}"] = {
                "capacity_bytes_per_s": network.link_capacity_bytes_per_s,
                "ptr": route.ptr,
                "link": route.link.astype(np.int64),
                "start_s": np.zeros(n) if kind == "batch" else np.cumsum(rng.exponential(gap, n)),
                "size_bytes": size,
            }
    return out


def _verdict(simulation: Simulation) -> tuple[Verdict, int]:
    a = simulation.allocation()
    found = certificate(
        rate=a.rate_bytes_per_s, capacity=a.capacity_bytes_per_s, ptr=a.ptr, link=a.link, weight=a.weight, use=a.use
    )
    return found, a.task.size


# ---------------------------------------------------------------- L0


def solver_checks() -> list[Check]:
    """Single allocations, and every allocation on the way through a run."""
    checks = [_proven(), _mutated()]
    worst, count = 0.0, 0
    for system in _systems("fractions", 300, flows=30, links=12):
        expected = exact_rates(capacity=system.capacity, paths=system.paths, weight=system.weight, cap=system.cap)
        worst = max(worst, _difference(_rates(system), [float(x) for x in expected]))
        count += 1
    checks.append(
        _check("equals progressive filling in rational numbers (weights, caps)", f"{count} systems", worst, SOLVER)
    )
    worst, count = 0.0, 0
    for system in _systems("lp", 60, flows=10, links=6, caps=False):
        ptr, link = system.csr
        expected_lp = lexicographic_rates(capacity=system.capacity, ptr=ptr, link=link, weight=system.weight)
        worst = max(worst, _difference(_rates(system), expected_lp))
        count += 1
    checks.append(
        _check("equals the lexicographic maximum by linear programs (weights)", f"{count} systems", worst, LP)
    )
    return checks


def _rates(system: _System) -> Float64:
    simulation = flow_simulation(**system.flows(1e6))
    simulation.step(0)
    allocation = simulation.allocation()
    rates: Float64 = allocation.rate_bytes_per_s[np.argsort(allocation.task)]
    return rates


def _proven() -> Check:
    worst, count = 0.0, 0
    runs = [case.simulation() for case in _graphs("proofs", 60)]
    runs += [flow_simulation(**flows) for flows in _network_flows(300).values()]
    for simulation in runs:
        status = "running"
        while status == "running":
            status = simulation.step(1)
            verdict, flows = _verdict(simulation)
            worst = max(worst, verdict.error)
            count += flows > 0
    return _check(
        "bottleneck certificate after every batch of events, in runs on three networks and of random task graphs",
        f"{count:,} allocations",
        worst,
        EVENTS,
    )


def _mutated() -> Check:
    """A certificate that cannot fail proves nothing: each rate in turn is made wrong, and all must be refuted."""
    missed, count = 0, 0
    for system in _systems("mutations", 150, flows=20, links=8):
        simulation = flow_simulation(**system.flows(1e6))
        simulation.step(0)
        a = simulation.allocation()
        for i in range(a.task.size):
            for factor in (0.9, 1.1):
                rate = a.rate_bytes_per_s.copy()
                rate[i] *= factor
                missed += certificate(
                    rate=rate, capacity=a.capacity_bytes_per_s, ptr=a.ptr, link=a.link, weight=a.weight, use=a.use
                ).ok
                count += 1
    return _check("one rate times 0.9 or 1.1 is refuted by the certificate: missed", f"{count:,} mutants", missed, 0)


# ---------------------------------------------------------------- L1


@dataclass(frozen=True)
class HandCase:
    """Flows on links A, B, ... whose finish times follow by hand.

    Attributes
    ----------
    name : str
    capacity : sequence of float
        Of links A, B, ...
    flows : sequence of tuple
        Path (letters), bytes, then optionally start, latency, weight, rate cap.
    expected : sequence of float
    changes : sequence of (time, letter, capacity)
    latency_mode : str
    batches : int, optional
        How many batches of events there must be.
    """

    name: str
    capacity: Sequence[float]
    flows: Sequence[tuple[Any, ...]]
    expected: Sequence[float]
    changes: Sequence[tuple[float, str, float]] = ()
    latency_mode: str = "tail"
    batches: int | None = None

    def simulation(self, **options: Any) -> Simulation:
        """The run, not begun; flow i is task n+i."""
        rows = [(*flow, *(0.0, 0.0, 1.0, np.inf)[len(flow) - 2 :]) for flow in self.flows]
        path, size, start, latency, weight, cap = zip(*rows, strict=True)
        return flow_simulation(
            capacity_bytes_per_s=self.capacity,
            ptr=np.cumsum([0, *(len(p) for p in path)]),
            link=[LETTERS.index(x) for p in path for x in p],
            start_s=start,
            size_bytes=size,
            latency_s=latency,
            weight=None if set(weight) == {1.0} else weight,
            rate_cap_bytes_per_s=None if set(cap) == {np.inf} else cap,
            latency_mode=self.latency_mode,
            changes=CapacityChanges(
                time_s=np.array([t for t, _, _ in self.changes], np.float64),
                link=np.array([LETTERS.index(x) for _, x, _ in self.changes], np.int32),
                capacity_bytes_per_s=np.array([c for _, _, c in self.changes], np.float64),
            ),
            **options,
        )


HAND_CASES = (
    HandCase("one flow: 100 at 10/s", [10], [("A", 100)], [10]),
    HandCase("three share 10/s, then the longest alone", [10], [("A", 100), ("A", 100), ("A", 200)], [30, 30, 40]),
    HandCase(
        "parking lot of three links", [10, 10, 10], [("ABC", 100), ("A", 100), ("B", 50), ("C", 200)], [20, 20, 10, 30]
    ),
    HandCase("two levels: 5, 5, 15", [10, 20], [("AB", 100), ("A", 100), ("B", 100)], [20, 20, 20 / 3]),
    HandCase("triangle, all at 1/2", [1, 1, 1], [("AB", 1), ("BC", 2), ("CA", 3)], [2, 4, 5]),
    HandCase("staggered arrivals", [10], [("A", 100), ("A", 100, 4)], [16, 20]),
    HandCase(
        "weights 1, 2, 3 on 12/s", [12], [("A", 60, 0, 0, 1), ("A", 60, 0, 0, 2), ("A", 60, 0, 0, 3)], [15, 12.5, 10]
    ),
    HandCase("a rate cap of 2 leaves 4 each", [10], [("A", 40, 0, 0, 1, 2), ("A", 40), ("A", 40)], [20, 10, 10]),
    HandCase("a link crossed twice is used twice", [10], [("AA", 50)], [10]),
    HandCase("what a held flow leaves is used", [10, 100], [("AB", 100), ("B", 900)], [10, 10]),
    HandCase("a circuit dark from 3 to 5", [10], [("A", 50)], [7], changes=[(3, "A", 0), (5, "A", 10)]),
    HandCase("a link degraded to half at 4", [10], [("A", 100)], [16], changes=[(4, "A", 5)]),
    HandCase("no bytes: latency alone, and nobody slower", [10], [("A", 0, 1, 2), ("A", 100)], [3, 10]),
    HandCase("latency after the last byte has left", [10, 10, 10], [("ABC", 30, 0, 3)], [6]),
    HandCase("latency after the drain: links used at once", [10], [("A", 40), ("A", 30, 0, 5)], [7, 11]),
    HandCase("latency first: links used later", [10], [("A", 40), ("A", 30, 0, 5)], [4, 8], latency_mode="head"),
    # At 2 the flows on A fall from 5 to 10/3, and the one on B alone RISES to 20/3: arrivals can speed others up.
    HandCase(
        "not monotone: an arrival speeds another flow up",
        [10, 10],
        [("AB", 100), ("B", 100), ("A", 20, 2), ("A", 20, 2)],
        [20, 18, 8, 8],
    ),
    HandCase("eight equal flows end in one batch", [8], [("A", 7)] * 8, [7] * 8, batches=1),
)


def hand_checks() -> list[Check]:
    """Finish times by hand, by the sweep and by the full solve, every allocation proven on the way."""
    checks = []
    for case in HAND_CASES:
        worst = 0.0
        n = len(case.flows)
        for full in (False, True):
            simulation = case.simulation(full_solve=full, certify=True)
            result = simulation.run()
            worst = max(worst, _difference(result.end_s[n:], case.expected))
            if case.batches is not None and result.counts["events"] != case.batches:
                worst = np.inf
        times = ", ".join(f"{t:.4g}" for t in case.expected[:4]) + (", ..." if n > 4 else "")
        checks.append(_check(f"{case.name}: {times}", f"{n} flow{'s' if n > 1 else ''}", worst, SOLVER))
    # A dependent transfer: 100 bytes at 10/s and 1 s of latency, a pause of 2 s, 50 bytes at 5/s and 1 s of latency.
    build = GraphBuilder(n_ranks=3)
    first = build.transfer(source=0, destination=1, size_bytes=100)
    pause = build.delay(rank=1, seconds=2)
    build.edge(first, pause)
    build.edge(pause, build.transfer(source=1, destination=2, size_bytes=50))
    chain = _Graph(build.graph(), [[0], [], [1]], [10, 5], [1, 0, 1], None, [])
    worst = max(_difference(chain.simulation(full_solve=full).run().end_s, [11, 13, 24]) for full in (False, True))
    checks.append(_check("a transfer that waits for another and a pause: 11, 24", "3 tasks", worst, SOLVER))
    checks.append(_chain_check())
    return checks


def _chain_check() -> Check:
    """The worst case for anything local: lowering one capacity by 1/4 changes every rate, by -1/4, +1/4, -1/4, ..."""
    worst = 0.0
    lengths = (4, 8, 12, 64)
    for n in lengths:
        simulation = flow_simulation(
            capacity_bytes_per_s=[1.0, *(2 * i + 1 for i in range(1, n)), 1000.0 * n],
            ptr=np.arange(0, 2 * n + 1, 2),
            link=np.stack([np.arange(n), np.arange(n) + 1], 1).ravel(),
            start_s=np.zeros(n),
            size_bytes=np.full(n, 1000.0),
            changes=CapacityChanges(
                time_s=np.array([1.0]), link=np.array([0], np.int32), capacity_bytes_per_s=np.array([0.75])
            ),
        )
        rate = np.arange(1, n + 1)
        for step, expected in ((0, rate), (1, rate + np.where(np.arange(n) % 2, 0.25, -0.25))):
            simulation.step(step)
            a = simulation.allocation()
            worst = max(worst, _difference(a.rate_bytes_per_s[np.argsort(a.task)], expected))
    return _check(
        "one capacity changes every rate of a chain: -1/4, +1/4, ...",
        f"{len(lengths)} chains, up to 64 links",
        worst,
        SOLVER,
    )


# ---------------------------------------------------------------- L2


def law_checks() -> list[Check]:
    """Conservation, capacity, invariance, scaling, splitting; the sweep against slower ways to the same answer; repeatability."""
    cases = _network_flows(600)
    flows = sum(case["size_bytes"].size for case in cases.values())
    size = f"{len(cases)} runs, {flows:,} flows"
    finish = {name: run_flows(**case) for name, case in cases.items()}
    checks = [*_conserved(cases, size), _permuted(cases, finish, size)]

    def worst(change: Any) -> float:
        return max(_difference(*change(case, finish[name])) for name, case in cases.items())

    checks.append(
        _check(
            "capacities times 3 (starts divided by 3): times divided by 3",
            size,
            worst(
                lambda case, end: (
                    3
                    * run_flows(
                        **{
                            **case,
                            "capacity_bytes_per_s": 3 * case["capacity_bytes_per_s"],
                            "start_s": case["start_s"] / 3,
                        }
                    ),
                    end,
                )
            ),
            EVENTS,
        )
    )
    checks.append(
        _check(
            "sizes and starts times 7: times multiplied by 7",
            size,
            worst(
                lambda case, end: (
                    run_flows(**{**case, "size_bytes": 7 * case["size_bytes"], "start_s": 7 * case["start_s"]}) / 7,
                    end,
                )
            ),
            EVENTS,
        )
    )
    checks.append(_split())
    checks.append(
        _check(
            "the sweep equals the full solve",
            size,
            worst(lambda case, end: (end, flow_simulation(**case, full_solve=True).run().end_s[end.size :])),
            EVENTS,
        )
    )
    checks += _exact_runs()
    differing = 0
    for case in cases.values():
        whole, again = flow_simulation(**case, bins=16).run(), flow_simulation(**case, bins=16).run()
        cut = flow_simulation(**case, bins=16).run(batches_per_call=7)
        differing += sum(_bytes(whole) != _bytes(other) for other in (again, cut))
    checks.append(
        _check(
            "same input, same bytes, in whatever pieces it is run: runs that differ",
            f"{2 * len(cases)} pairs",
            differing,
            0,
        )
    )
    return checks


def _bytes(result: EngineResult) -> bytes:
    arrays = (result.start_s, result.drain_s, result.end_s, result.critical, result.link_bytes, result.bin_bytes)
    return b"".join(a.tobytes() for a in arrays)


def _conserved(cases: dict[str, dict[str, Any]], size: str) -> list[Check]:
    lost, over = 0.0, 0.0
    for case in cases.values():
        simulation = flow_simulation(**case)
        status = "running"
        while status == "running":
            status = simulation.step(1)
            over = max(over, _verdict(simulation)[0].overload)
        hops = np.diff(case["ptr"])
        sent = np.bincount(case["link"], np.repeat(case["size_bytes"], hops), case["capacity_bytes_per_s"].size)
        lost = max(lost, _difference(simulation.result(status).link_bytes, sent))
    return [
        _check("bytes counted on every link equal the bytes routed over it", size, lost, EVENTS),
        _check("no link above its capacity, at any event", size, over, EVENTS),
    ]


def _permuted(cases: dict[str, dict[str, Any]], finish: dict[str, Float64], size: str) -> Check:
    worst = 0.0
    for name, case in cases.items():
        rng = stream(SEED, "validation", "permutation", name)
        end = finish[name]
        order, relabel = rng.permutation(end.size), rng.permutation(case["capacity_bytes_per_s"].size)
        parts = [relabel[case["link"][case["ptr"][i] : case["ptr"][i + 1]]] for i in order]
        capacity = np.empty(relabel.size)
        capacity[relabel] = case["capacity_bytes_per_s"]
        other = run_flows(
            capacity_bytes_per_s=capacity,
            ptr=np.cumsum([0, *(p.size for p in parts)]),
            link=np.concatenate(parts),
            start_s=case["start_s"][order],
            size_bytes=case["size_bytes"][order],
        )
        worst = max(worst, _difference(other, end[order]))
    return _check("flows and links renumbered: the same times", size, worst, EVENTS)


def _split() -> Check:
    worst, count = 0.0, 0
    rng = stream(SEED, "validation", "split")
    for system in _systems("split", 60, flows=12, links=6, caps=False):
        n = len(system.paths)
        weight = rng.integers(1, 6, n)
        start, bytes_each = rng.integers(0, 10, n).astype(np.float64), rng.integers(1, 60, n)
        merged = run_flows(**{**system.flows(bytes_each * weight, start), "weight": weight})
        apart = _System(
            system.capacity, [p for p, w in zip(system.paths, weight, strict=True) for _ in range(w)], None, None
        )
        end = run_flows(**apart.flows(np.repeat(bytes_each, weight), np.repeat(start, weight)))
        worst = max(worst, _difference(end, np.repeat(merged, weight)))
        count += 1
    return _check("a flow of weight w equals w flows of 1/w of its bytes", f"{count} systems", worst, EVENTS)


def _exact_runs() -> list[Check]:
    worst = {False: 0.0, True: 0.0}
    count = 0
    for case in _graphs("exact runs", 80):
        for mode in ("tail", "head"):
            exact = exact_simulation(
                graph=case.graph,
                paths=case.paths,
                capacity=case.capacity,
                latency=case.latency,
                weight=case.weight,
                changes=case.changes,
                head=mode == "head",
            )
            for full in worst:
                result = case.simulation(full_solve=full, latency_mode=mode).run()
                for moment in ("start_s", "drain_s", "end_s"):
                    expected = [np.nan if t is None else float(t) for t in getattr(exact, moment)]
                    worst[full] = max(worst[full], _difference(getattr(result, moment), expected))
            count += 1
    return [
        _check(
            f"{name} equals the exact simulation: random task graphs, latencies, weights, links that change",
            f"{count} graphs",
            worst[full],
            EVENTS,
        )
        for full, name in ((False, "the sweep"), (True, "the full solve"))
    ]


# ---------------------------------------------------------------- L8


def peer_checks(peer: Peer | None, recorded: Path = RECORDED) -> list[Check]:
    """Finish times of SimGrid, which shares no code with this: as recorded, and of the SimGrid at hand."""
    try:
        data = json.loads(recorded.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NetsimError(str(recorded), "must hold recorded finish times", got=str(error)) from None
    checks = []
    for case in data["cases"]:
        flows: dict[str, Any] = {
            key: np.asarray(case[key], dtype=np.float64 if key.endswith("s") else np.int64)
            for key in ("capacity_bytes_per_s", "ptr", "link", "start_s", "size_bytes")
        }
        found = run_flows(**flows)
        n = f"{found.size} flows"
        checks.append(
            _check(
                f"{case['name']}: SimGrid {data['simgrid']}, recorded {data['date']}",
                n,
                _difference(found, case["finish_s"]),
                PEER,
            )
        )
        if peer is not None:
            live = run_peer(peer, **flows, src=case["src"], dst=case["dst"])
            checks.append(_check(f"{case['name']}: SimGrid run now", n, _difference(found, live.finish_s), PEER))
    return checks
