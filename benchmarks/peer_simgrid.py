"""netsim beside SimGrid: do the finish times agree, and what does each cost? And how fast is a task graph replayed?

    python benchmarks/peer_simgrid.py [--simgrid PYTHON [--headers FOLDER]] [--only CASE ...] [--record] [--into docs/performance.md]

PYTHON is an interpreter that can import simgrid 4.1 (``pip install simgrid`` compiles it and needs Boost's headers). FOLDER holds SimGrid's
C++ headers (``include`` of the unpacked ``pip download --no-binary :all: --no-deps simgrid``): with them the peer is called through a small
C++ program, which is fair to it and can run transfers that depend on each other. Without SimGrid the figures recorded by an
earlier run with ``--record`` are shown, with their date.

All figures are CPU seconds on one thread (user and system), so that other work on the machine disturbs little; compilation and set-up of
either side (the platform and its routes; netsim's is shown) are not counted. netsim: best of five. SimGrid: the faster of its two
update modes, each stopped at a limit of CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import netsim as ns
from netsim.core.errors import NetsimError
from netsim.engine import Routes, Simulation, run_flows
from netsim.routing import paths
from netsim.testing import Peer, PeerRun, find_peer, flow_simulation, run_peer
from netsim.testing.peer import MODES
from netsim.traffic.taskgraph import TRANSFER, TaskGraph
from netsim.validation.ladder import RECORDED as SMALL
from netsim.validation.report import Check, Report, write_into

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "simgrid_recorded.json"
PEER_LIMIT_S = 400.0
FULL_LIMIT_S = 100.0
RATE = 12.5e9
AGREES = 1e-9
# SimGrid rounds times and amounts on the way.
PEER_AGREES = 1e-4
REPEATS = 5
PEER_REPEATS, PEER_SHORT_S = 3, 40.0
HEAD = ("case", "transfers", "set-up", "netsim", "SimGrid", "ratio", "to SimGrid", "full solve", "to full solve")
REPLAY_HEAD = ("case", "tasks", "CPU", "tasks/s", "memory beyond the input", "to closed form")


# ---------------------------------------------------------------- cases


@dataclass
class Case:
    """Transfers on a network, all independent or with edges between them."""

    title: str
    capacity: np.ndarray
    ptr: np.ndarray
    link: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    start_s: np.ndarray
    size_bytes: np.ndarray
    edge_from: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    edge_to: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def flows(self) -> dict[str, np.ndarray]:
        return {
            "capacity_bytes_per_s": self.capacity,
            "ptr": self.ptr,
            "link": self.link,
            "start_s": self.start_s,
            "size_bytes": self.size_bytes,
        }

    def simulation(self, full: bool = False) -> tuple[Simulation, slice]:
        """The run, not begun, and where its tasks have the transfers."""
        n = self.size_bytes.size
        if not self.edge_from.size:
            return flow_simulation(**self.flows, full_solve=full), slice(n, 2 * n)
        graph = TaskGraph.from_edges(
            n_ranks=1,
            kind=np.full(n, TRANSFER, np.uint8),
            rank=np.zeros(n, np.int32),
            peer=np.zeros(n, np.int32),
            amount=self.size_bytes,
            edge_from=self.edge_from,
            edge_to=self.edge_to,
            edge_after=np.zeros(self.edge_from.size, np.uint8),
        )
        routes = Routes(
            of_task=np.arange(n, dtype=np.int32), ptr=self.ptr, link=self.link.astype(np.int32), latency_s=np.zeros(n)
        ).shared()
        return Simulation(graph=graph, routes=routes, capacity_bytes_per_s=self.capacity, full_solve=full), slice(0, n)

    def timed(self) -> tuple[float, float, np.ndarray]:
        """CPU seconds of making the simulation (checks, sharing of routes, arrays) and of running it, each the best; finish times."""
        set_up, run = np.inf, np.inf
        finish = np.empty(0)
        for _ in range(REPEATS):
            begin = time.process_time()
            simulation, at = self.simulation()
            made = time.process_time()
            finish = simulation.run().end_s[at]
            set_up, run = min(set_up, made - begin), min(run, time.process_time() - made)
        return set_up, run, finish


def on_network(title: str, network: Any, src: np.ndarray, dst: np.ndarray, start: np.ndarray, size: np.ndarray) -> Case:
    route = paths(network, src, dst)
    return Case(title, network.link_capacity_bytes_per_s, route.ptr, route.link.astype(np.int64), src, dst, start, size)


def random_flows(name: str, network: Any, kind: str, n: int, load: float = 0.5, seed: int = 1) -> Case:
    """Random pairs of hosts; arrivals as a Poisson process at a load of the hosts' links, or all at 0."""
    rng = np.random.default_rng(seed)
    hosts = network.n_hosts
    src = rng.integers(0, hosts, n)
    dst = (src + 1 + rng.integers(0, hosts - 1, n)) % hosts
    size = np.full(n, 1e6) if kind == "1 MB" else np.ceil(rng.lognormal(13, 1.5, n))
    gap = size.mean() / (load * hosts * RATE)
    start = np.zeros(n) if kind == "batch" else np.cumsum(rng.exponential(gap, n))
    text = {
        "1 MB": f"load {load:g}, 1 MB",
        "log-normal": f"load {load:g}, log-normal",
        "batch": "all at once, log-normal",
    }
    return on_network(f"{name}, {text[kind]}", network, src, dst, start, size)


def all_to_all(name: str, network: Any, n: int) -> Case:
    src, dst = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    away = src != dst
    src, dst = src[away], dst[away]
    size = np.full(src.size, 1e5)
    return on_network(f"{name}, all-to-all of {n}", network, src, dst, np.zeros(src.size), size)


def ring(name: str, network: Any, n: int) -> Case:
    """Ring allreduce: 2 (n - 1) steps; a rank sends its next block once it has sent the last one and received one."""
    steps = 2 * (n - 1)
    task = np.arange(steps * n).reshape(steps, n)
    src = np.tile(np.arange(n), steps)
    before, after = task[:-1], task[1:]
    case = on_network(
        f"{name}, ring allreduce of {n}", network, src, (src + 1) % n, np.zeros(src.size), np.full(src.size, 1e5)
    )
    case.edge_from = np.concatenate([before.ravel(), np.roll(before, 1, axis=1).ravel()])
    case.edge_to = np.concatenate([after.ravel(), after.ravel()])
    return case


def dragonfly() -> Any:
    return ns.topologies.dragonfly(p=4, a=8, h=4)


def fat_tree() -> Any:
    return ns.topologies.fat_tree(k=16)


def torus() -> Any:
    return ns.topologies.torus(dims=(8, 8, 16))


DRAGONFLY, FAT_TREE, TORUS = "dragonfly 1056", "fat-tree 1024", "torus 8x8x16"
CASES: dict[str, Callable[[], Case]] = {
    "load-1k": lambda: random_flows(DRAGONFLY, dragonfly(), "1 MB", 1_000),
    "load-10k": lambda: random_flows(DRAGONFLY, dragonfly(), "1 MB", 10_000),
    "load-10k-lognormal": lambda: random_flows(DRAGONFLY, dragonfly(), "log-normal", 10_000),
    "load-10k-fat-tree": lambda: random_flows(FAT_TREE, fat_tree(), "1 MB", 10_000),
    "load-10k-lognormal-fat-tree": lambda: random_flows(FAT_TREE, fat_tree(), "log-normal", 10_000),
    "load-10k-torus": lambda: random_flows(TORUS, torus(), "1 MB", 10_000),
    "load-10k-lognormal-torus": lambda: random_flows(TORUS, torus(), "log-normal", 10_000),
    "load-100k": lambda: random_flows(DRAGONFLY, dragonfly(), "1 MB", 100_000),
    "load-100k-lognormal": lambda: random_flows(DRAGONFLY, dragonfly(), "log-normal", 100_000),
    "batch-10k": lambda: random_flows(DRAGONFLY, dragonfly(), "batch", 10_000),
    "batch-30k": lambda: random_flows(DRAGONFLY, dragonfly(), "batch", 30_000),
    "alltoall": lambda: all_to_all(FAT_TREE, fat_tree(), 256),
    "alltoall-dragonfly": lambda: all_to_all(DRAGONFLY, dragonfly(), 256),
    "ring": lambda: ring(DRAGONFLY, dragonfly(), 256),
}
REPLAYS = {"replay": 0.0, "replay-uneven": 0.01}


def small_cases() -> Iterator[Case]:
    """What is shipped with SimGrid's finish times, for the validation of every installation."""
    networks = {
        "dragonfly of 72 hosts": ns.topologies.dragonfly(p=2, a=4, h=2),
        "fat-tree of 128 hosts": ns.topologies.fat_tree(k=8),
        "torus 4x4x4": ns.topologies.torus(dims=(4, 4, 4)),
    }
    for name, network in networks.items():
        yield random_flows(name, network, "log-normal", 200, load=1.5)
        yield random_flows(name, network, "batch", 150)


# ---------------------------------------------------------------- measuring


def full_solve(case: Case) -> tuple[float, np.ndarray | None]:
    """CPU seconds and finish times of re-solving everything at each event; None when it takes too long."""
    begin = time.process_time()
    simulation, at = case.simulation(full=True)
    status = "running"
    while status == "running":
        status = simulation.step(64)
        if time.process_time() - begin > FULL_LIMIT_S:
            return FULL_LIMIT_S, None
    return time.process_time() - begin, simulation.result(status).end_s[at]


def run_simgrid(peer: Peer, case: Case) -> tuple[PeerRun, str]:
    """The faster of the two modes; the second is stopped where it can no longer win."""
    best: PeerRun | None = None
    mode_of_best = ""
    for mode in MODES:
        # Set-up counts towards the limit of the process: some room for it.
        limit = PEER_LIMIT_S if best is None or best.stopped else best.cpu_s + 15.0
        run = run_peer(
            peer, **case.flows, src=case.src, dst=case.dst, edge_from=case.edge_from, edge_to=case.edge_to, mode=mode,
            limit_s=min(limit, PEER_LIMIT_S),
        )  # fmt: skip
        if best is None or (not run.stopped and (best.stopped or run.cpu_s < best.cpu_s)):
            best, mode_of_best = run, mode
    assert best is not None
    for _ in range(PEER_REPEATS - 1):
        # Short runs vary as netsim's do: the best of several, too.
        if best.stopped or best.cpu_s > PEER_SHORT_S:
            break
        run = run_peer(
            peer, **case.flows, src=case.src, dst=case.dst, edge_from=case.edge_from, edge_to=case.edge_to, mode=mode_of_best,
            limit_s=PEER_LIMIT_S,
        )  # fmt: skip
        if run.cpu_s < best.cpu_s:
            best = run
    return best, mode_of_best


def worst(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found / expected - 1).max())


def times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 1 else f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def recalled(key: str, case: Case, old: dict[str, Any]) -> Check:
    """A row of an earlier run side by side, both figures of that day."""
    sign = ">" if old["stopped"] else ""
    difference = old["difference"]
    return Check(
        name=key,
        ok=difference is None or difference <= PEER_AGREES,
        cells=(
            f"{case.title} (run of {old['date']})",
            f"{case.size_bytes.size:,}",
            "-",
            seconds(old["netsim_cpu_s"]),
            f">{old['cpu_s']:.0f} s, stopped"
            if old["stopped"]
            else f"{seconds(old['cpu_s'])} ({old['mode']}, {old['interface']})",
            f"{sign}{times(old['cpu_s'] / old['netsim_cpu_s'])}",
            "-" if difference is None else f"{difference:.0e}",
            "-",
            "-",
        ),
        error=0.0 if difference is None else difference,
        limit=PEER_AGREES,
    )


def measure(key: str, case: Case, peer: Peer | None, recorded: dict[str, Any], record: bool) -> Check:
    set_up, cost, finish = case.timed()
    full_cost, full = full_solve(case)
    old = recorded["cases"].get(key)
    theirs, ratio, agreed = "-", "-", "-"
    to_full = float("nan") if full is None else worst(finish, full)
    to_peer = float("nan")
    if peer is not None and not (case.edge_from.size and peer.interface == "Python"):
        run, mode = run_simgrid(peer, case)
        if not run.stopped:
            to_peer = worst(finish, run.finish_s)
        new = {
            "cpu_s": run.cpu_s,
            "stopped": run.stopped,
            "mode": mode,
            "interface": peer.interface,
            "difference": None if run.stopped else to_peer,
            "netsim_cpu_s": cost,
            "date": time.strftime("%Y-%m-%d"),
        }
        if record:
            recorded["cases"][key] = new
            RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
        sign = ">" if run.stopped else ""
        theirs = (
            f"{sign}{seconds(run.cpu_s)} ({mode}, {peer.interface})"
            if not run.stopped
            else f">{run.cpu_s:.0f} s, stopped"
        )
        ratio = f"{sign}{times(run.cpu_s / cost)}"
        agreed = "-" if run.stopped else f"{to_peer:.0e}"
    elif old is not None:
        sign = ">" if old["stopped"] else ""
        theirs = f"{sign}{seconds(old['cpu_s'])}, recorded {old['date']}"
        # The ratio of one run on one machine, not of today's figure to an old one.
        ratio = f"{sign}{times(old['cpu_s'] / old['netsim_cpu_s'])} then"
        agreed = "-" if old["difference"] is None else f"{old['difference']:.0e} then"
    return Check(
        name=key,
        ok=not (to_full > AGREES or to_peer > PEER_AGREES),
        cells=(
            case.title,
            f"{case.size_bytes.size:,}",
            seconds(set_up),
            seconds(cost),
            theirs,
            ratio,
            agreed,
            f">{full_cost:.0f} s, stopped" if full is None else seconds(full_cost),
            "-" if full is None else f"{to_full:.0e}",
        ),
        error=max(to_full, to_peer) if not np.isnan(to_peer) else to_full,
        limit=AGREES,
    )


# ---------------------------------------------------------------- replay of a task graph


def replay_input(folder: Path, n: int, spread: float) -> None:
    """A ring allreduce of n ranks on a star as arrays on disk, so that making it costs the measured process no memory."""
    steps = 2 * (n - 1)
    size = 1e5 * (1 + spread * np.random.default_rng(1).random(steps * n))
    task = np.arange(steps * n, dtype=np.int64)
    later = task + n
    # Each task releases the rank's own next one and that of the rank it sends to.
    succ = np.stack([later, later - task % n + (task + 1) % n], 1).ravel()[: 2 * n * (steps - 1)].astype(np.int32)
    ptr = np.minimum(2 * np.arange(steps * n + 1, dtype=np.int64), succ.size)
    arrays = {
        "kind": np.full(task.size, TRANSFER, np.uint8),
        "rank": (task % n).astype(np.int32),
        "peer": ((task + 1) % n).astype(np.int32),
        "amount": size,
        "succ_ptr": ptr,
        "succ": succ,
        "succ_after": np.zeros(succ.size, np.uint8),
        "op": np.full(task.size, -1, np.int64),
        "of_task": (task % n).astype(np.int32),
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


def memory(field: str) -> int:
    """A figure of this process in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field + ":"))) * 1024


def replay_child(folder: Path, n: int) -> None:
    """Load the input, run it; prints CPU seconds, memory beyond the input at its highest, and makespan."""
    run_flows(capacity_bytes_per_s=[1], ptr=[0, 1], link=[0], start_s=[0], size_bytes=[1])
    names = ("kind", "rank", "peer", "amount", "succ_ptr", "succ", "succ_after", "op")
    arrays = {name: np.load(folder / f"{name}.npy") for name in names}
    of_task = np.load(folder / "of_task.npy")
    for array in [*arrays.values(), of_task]:
        array.setflags(write=False)
    graph = TaskGraph(n_ranks=n, latencies=np.empty(0, np.int32), **arrays)
    # Host i sends on link i and receives on link n+i.
    link = np.stack([np.arange(n), n + (np.arange(n) + 1) % n], 1).ravel().astype(np.int32)
    routes = Routes(of_task=of_task, ptr=np.arange(0, 2 * n + 1, 2), link=link, latency_s=np.zeros(n))
    # Loading the compiled loop took more memory for a moment than the input does: the peak is counted from here.
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    begin = time.process_time()
    result = Simulation(graph=graph, routes=routes, capacity_bytes_per_s=np.full(2 * n, RATE)).run()
    cost = time.process_time() - begin
    print(json.dumps({"cpu_s": cost, "beyond": memory("VmHWM") - before, "makespan_s": result.makespan_s}))


def measure_replay(key: str, spread: float, n: int = 1024) -> Check:
    def child(folder: str) -> dict[str, float]:
        command = [sys.executable, __file__, "--child", folder, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    with tempfile.TemporaryDirectory() as folder:
        replay_input(Path(folder), n, spread)
        size = np.load(Path(folder, "amount.npy")).reshape(-1, n)
        runs = [child(folder) for _ in range(REPEATS)]
    # The closed form as a recurrence: no two transfers share a link, so that each ends its size later than the last of its two causes.
    end = np.zeros(n)
    for step, row in enumerate(size):
        end = (np.maximum(end, np.roll(end, 1)) if step else end) + row / RATE
    cost = min(run["cpu_s"] for run in runs)
    error = max(abs(run["makespan_s"] / end.max() - 1) for run in runs)
    beyond = max(run["beyond"] for run in runs)
    what = "equal blocks" if not spread else f"blocks uneven by {100 * spread:g} %"
    return Check(
        name=key,
        ok=error <= AGREES,
        cells=(
            f"ring allreduce of {n:,} ranks on a star, {what}",
            f"{size.size:,}",
            seconds(cost),
            f"{size.size / cost:,.0f}",
            f"{beyond / size.size:.0f} bytes/task",
            f"{error:.0e}",
        ),
        error=error,
        limit=AGREES,
    )


# ---------------------------------------------------------------- SimGrid through C++


def compiled(peer: Peer, headers: Path, folder: Path) -> Peer:
    """The peer through a C++ program, compiled against the library that its Python package brings."""
    where = (
        "import importlib.util, pathlib; folder = pathlib.Path(importlib.util.find_spec('simgrid').origin).parent; "
        "print(min(folder.glob('libsimgrid.so.*')))"
    )
    library = subprocess.run([peer.command[0], "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    made = folder / "simgrid"
    made.mkdir()
    version = Path(library).name.removeprefix("libsimgrid.so.").split(".")
    for name in ("config.h", "version.h"):
        source = headers / "simgrid" / f"{name}.in"
        if source.exists():
            # What CMake would fill in; the program asks for no optional part.
            lines = [
                f"#define {line.split()[1]} 0" if line.startswith("#cmakedefine01") else line
                for line in source.read_text().splitlines()
                if not line.startswith("#cmakedefine ")
            ]
            text = "\n".join(lines)
            for word, number in zip(("MAJOR", "MINOR", "PATCH"), [*version, "0", "0"], strict=False):
                text = text.replace(f"@SIMGRID_VERSION_{word}@", number)
            (made / name).write_text(text + "\n")
    program = folder / "driver"
    command = [
        "g++", "-O2", "-std=c++17", f"-I{folder}", f"-I{headers}", str(HERE / "simgrid_driver.cpp"), "-o", str(program), library,
        f"-Wl,-rpath,{Path(library).parent}",
    ]  # fmt: skip
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise NetsimError("SimGrid driver", "must compile", got=outcome.stderr.strip()[-500:])
    return Peer(command=(str(program),), interface="C++")


def record_small(peer: Peer) -> None:
    """Finish times that every installation is validated against; links renumbered to those in use."""
    cases = []
    for case in small_cases():
        finish = run_peer(peer, **case.flows, src=case.src, dst=case.dst).finish_s
        used, link = np.unique(case.link, return_inverse=True)
        cases.append(
            {
                "name": case.title,
                "capacity_bytes_per_s": case.capacity[used].tolist(),
                "ptr": case.ptr.tolist(),
                "link": link.tolist(),
                "src": case.src.tolist(),
                "dst": case.dst.tolist(),
                "start_s": case.start_s.tolist(),
                "size_bytes": case.size_bytes.tolist(),
                "finish_s": finish.tolist(),
            }
        )
    data = {
        "made_by": "python benchmarks/peer_simgrid.py --simgrid PYTHON --record",
        "simgrid": "4.1",
        "date": time.strftime("%Y-%m-%d"),
        "cases": cases,
    }
    SMALL.write_text(json.dumps(data, separators=(",", ":")).replace("},{", "},\n{") + "\n", encoding="utf-8")


# ---------------------------------------------------------------- the command


def machine() -> str:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main(options: argparse.Namespace) -> int:
    known = [*CASES, *REPLAYS]
    for key in options.only or []:
        if key not in known:
            sys.exit(f"case {key!r}: must be one of {', '.join(known)}")
    chosen = options.only or known
    recorded = {"machine": machine(), "cases": {}}
    if RECORDED.exists():
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    peer = find_peer(options.simgrid)
    notes = [
        f"{time.strftime('%Y-%m-%d')}, {machine()}. CPU seconds on one thread, without compilation and, on both sides, without set-up "
        f"(platform and routes; netsim's is shown). netsim: the best of {REPEATS}; SimGrid 4.1: the faster of its modes Full and Lazy, "
        f"below {PEER_SHORT_S:.0f} s the best of {PEER_REPEATS}, stopped at {PEER_LIMIT_S:.0f} s; "
        f"full solve: netsim re-solving all flows at each event, stopped at {FULL_LIMIT_S:.0f} s. "
        "*to SimGrid*, *to full solve*: largest relative difference of finish times."
    ]
    with tempfile.TemporaryDirectory() as folder:
        if peer is None:
            notes.append(
                f"SimGrid is not installed here: its figures, and the ratios, are those recorded on {recorded['machine']}."
            )
        elif options.headers is not None:
            if options.record:
                # The shipped finish times come through the interface that users have.
                record_small(peer)
            peer = compiled(peer, options.headers, Path(folder))
        else:
            if options.record:
                record_small(peer)
            notes.append(
                "SimGrid through its Python interface (--headers: through C++); it runs no dependent transfers there."
            )
        if options.record and peer is not None:
            recorded["machine"] = machine()
        print("\n".join(notes), flush=True)
        CASES["load-1k"]().timed()
        rows: list[Check] = []
        for key in chosen:
            if key in CASES:
                if key in (options.recall or []) and key in recorded["cases"]:
                    rows.append(recalled(key, CASES[key](), recorded["cases"][key]))
                else:
                    rows.append(measure(key, CASES[key](), peer, recorded, options.record))
                print("  ".join(rows[-1].cells), flush=True)
        replays = [measure_replay(key, REPLAYS[key]) for key in chosen if key in REPLAYS]
    tables: list[Any] = []
    if rows:
        tables.append(("Against SimGrid", HEAD, tuple(rows)))
    if replays:
        tables.append(("Task graphs: transfers that wait for each other", REPLAY_HEAD, tuple(replays)))
    report = Report(tables=tuple(tables))
    print("\n".join(report.lines()))
    if options.into is not None:
        write_into(options.into, report, mark="peer", notes=tuple(notes))
    return 0 if report.ok else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simgrid", metavar="PYTHON", help="interpreter that can import simgrid")
    parser.add_argument("--headers", metavar="FOLDER", type=Path, help="SimGrid's C++ headers: use its C++ interface")
    parser.add_argument("--only", metavar="CASE", nargs="+", help=f"some of {', '.join([*CASES, *REPLAYS])}")
    parser.add_argument(
        "--recall", metavar="CASE", nargs="+", help="show the recorded run of these: SimGrid takes 800 s to be stopped"
    )
    parser.add_argument("--record", action="store_true", help="keep SimGrid's figures and finish times in the checkout")
    parser.add_argument("--into", metavar="PAGE", type=Path, help="write the tables into this page, between its marks")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        replay_child(Path(given.child[0]), int(given.child[1]))
        sys.exit(0)
    try:
        sys.exit(main(given))
    except NetsimError as error:
        sys.exit(f"peer_simgrid: error: {error}")
