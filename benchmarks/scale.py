"""How the cost of a run grows with flows and with hosts, up to 65,536 hosts and a million flows, 100,000 of them at once.

    python benchmarks/scale.py [--quick] [--into docs/performance.md] [--figure docs/performance-scale.svg]

Each line is a process of its own: CPU seconds on one thread without compilation, and the peak of its memory, with everything in it.
The figure needs matplotlib. SimGrid's points in it are those that peer_simgrid.py recorded.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from peer_simgrid import DRAGONFLY, RECORDED, dragonfly, machine, random_flows, seconds

import netsim as ns
from netsim.engine import Routes, Simulation, run_flows
from netsim.routing import paths
from netsim.testing import certificate, flow_simulation
from netsim.traffic.taskgraph import TRANSFER, TaskGraph
from netsim.validation.report import Check, Report, write_into

LIMIT_BYTES = 24 * 2**30
PROVEN = 1e-9
FLOWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
# Arity of the fat-tree: k^3/4 hosts.
ARITY = (16, 24, 32, 40, 48, 64)
IN_FLIGHT_PER_HOST = 1.5
ROUNDS = 10
LARGEST = (64, 1_000_000, 100_000)
HEAD = (
    "network", "hosts", "links", "flows", "at once", "set-up", "run", "per flow", "rates changed per event", "peak memory", "certificate"
)  # fmt: skip


def arrivals(n: int) -> tuple[Simulation, str, Any]:
    """Poisson arrivals at load 0.5 on the dragonfly of the comparison with SimGrid."""
    network = dragonfly()
    case = random_flows(DRAGONFLY, network, "1 MB", n)
    return flow_simulation(**case.flows), "dragonfly, load 0.5", network


def chains(k: int, flows: int, at_once: int) -> tuple[Simulation, str, Any]:
    """A closed system: each of ``at_once`` chains starts its next flow, between random hosts, when the one before has ended."""
    network = ns.topologies.fat_tree(k=k)
    rng = np.random.default_rng(1)
    hosts = network.n_hosts
    src = rng.integers(0, hosts, flows)
    dst = (src + 1 + rng.integers(0, hosts - 1, flows)) % hosts
    size = np.ceil(rng.lognormal(13, 1.5, flows))
    route = paths(network, src, dst)
    earlier = np.arange(flows - at_once)
    graph = TaskGraph.from_edges(
        n_ranks=1,
        kind=np.full(flows, TRANSFER, np.uint8),
        rank=np.zeros(flows, np.int32),
        peer=np.zeros(flows, np.int32),
        amount=size,
        edge_from=earlier,
        edge_to=earlier + at_once,
        edge_after=np.zeros(earlier.size, np.uint8),
    )
    routes = Routes(of_task=np.arange(flows, dtype=np.int32), ptr=route.ptr, link=route.link, latency_s=np.zeros(flows))
    simulation = Simulation(graph=graph, routes=routes.shared(), capacity_bytes_per_s=network.link_capacity_bytes_per_s)
    return simulation, f"fat-tree k={k}, closed", network


def child(what: list[int]) -> None:
    """One line of the tables, as JSON."""
    run_flows(capacity_bytes_per_s=[1], ptr=[0, 1], link=[0], start_s=[0], size_bytes=[1])
    small = ns.topologies.fat_tree(k=4)
    paths(small, np.array([0]), np.array([1]))
    begin = time.process_time()
    simulation, title, network = arrivals(what[0]) if len(what) == 1 else chains(*what)
    setup = time.process_time() - begin
    flows = what[0] if len(what) == 1 else what[1]
    cost, error, active = 0.0, 0.0, 0
    # In four parts, each ended by a proof of the allocation in force.
    status, part = "running", 0
    while status == "running":
        begin = time.process_time()
        status = simulation.step(flows // 4 if part else 0)
        cost += time.process_time() - begin
        part += 1
        a = simulation.allocation()
        active = max(active, a.task.size)
        if a.task.size:
            verdict = certificate(
                rate=a.rate_bytes_per_s,
                capacity=a.capacity_bytes_per_s,
                ptr=a.ptr,
                link=a.link,
                weight=a.weight,
                use=a.use,
            )
            error = max(error, verdict.error)
    result = simulation.result(status)
    found = {
        "title": title,
        "hosts": network.n_hosts,
        "links": network.n_links,
        "flows": flows,
        "at_once": active,
        "setup_s": setup,
        "cpu_s": cost,
        "changed": result.counts["flows_changed"] / max(result.counts["solves"], 1),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "error": error,
        "finished": status == "finished",
    }
    print(json.dumps(found))


def measure(*what: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", *map(str, what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    found = dict(json.loads(done.stdout.splitlines()[-1]))
    print("  ".join(check(found).cells), flush=True)
    return found


def check(m: dict[str, Any]) -> Check:
    return Check(
        name=f"{m['title']}, {m['flows']:,} flows",
        ok=m["finished"] and m["error"] <= PROVEN and m["peak_bytes"] < LIMIT_BYTES,
        cells=(
            m["title"],
            f"{m['hosts']:,}",
            f"{m['links']:,}",
            f"{m['flows']:,}",
            f"{m['at_once']:,}",
            seconds(m["setup_s"]),
            seconds(m["cpu_s"]),
            f"{1e6 * m['cpu_s'] / m['flows']:.1f} us",
            f"{m['changed']:.1f}",
            f"{m['peak_bytes'] / 2**30:.2f} GiB",
            f"{m['error']:.0e}",
        ),
        error=m["error"],
        limit=PROVEN,
    )


def draw(path: Path, by_flows: list[dict[str, Any]], by_hosts: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    matplotlib.rcParams.update(
        {
            # Letters as shapes: the same everywhere, whatever fonts the reader has.
            "svg.fonttype": "path",
            "svg.hashsalt": "netsim",
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#555555",
            "xtick.color": "#555555",
            "ytick.color": "#555555",
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "axes.axisbelow": True,
            "axes.titlesize": 11,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
        }
    )
    blue, red = "#1f5fa8", "#c1440e"
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, wspace=0.04)
    x = np.array([m["flows"] for m in by_flows])
    y = np.array([m["cpu_s"] for m in by_flows])
    left.loglog(x, y, "o-", color=blue, lw=2, ms=5)
    left.annotate("netsim", (x[-2], y[-2]), xytext=(8, -14), textcoords="offset points", color=blue, weight="bold")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"] if RECORDED.exists() else {}
    peer = [
        (n, recorded[key])
        for n, key in ((1_000, "load-1k"), (10_000, "load-10k"), (100_000, "load-100k"))
        if key in recorded
    ]
    done = [(n, r["cpu_s"]) for n, r in peer if not r["stopped"]]
    if done:
        left.loglog(*zip(*done, strict=True), "s-", color=red, lw=2, ms=5)
        left.annotate(
            "SimGrid 4.1", done[-1], xytext=(-12, 10), textcoords="offset points", color=red, weight="bold", ha="right"
        )
    for n, r in peer:
        if r["stopped"]:
            left.loglog([n], [r["cpu_s"]], "^", color=red, ms=8, mfc="white", mew=1.8)
            left.annotate(
                f"stopped at {r['cpu_s']:.0f} s", (n, r["cpu_s"]), xytext=(9, -3), textcoords="offset points", color=red
            )
    left.set(xlabel="flows", ylabel="CPU seconds")
    left.set_title("Cost of a run: 1 MB flows at load 0.5, 1,056 hosts")
    left.set_ylim(top=2000)
    h = np.array([m["hosts"] for m in by_hosts])
    u = np.array([1e6 * m["cpu_s"] / m["flows"] for m in by_hosts])
    right.semilogx(h, u, "o-", color=blue, lw=2, ms=5)
    right.set_ylim(0, 1.25 * u.max())
    last = by_hosts[-1]
    right.annotate(
        f"{last['flows']:,} flows,\n{last['at_once']:,} at once:\n{last['cpu_s']:.0f} s, {last['peak_bytes'] / 2**30:.2f} GiB",
        (h[-1], u[-1]),
        xytext=(4, -62),
        textcoords="offset points",
        ha="right",
        va="top",
        color="#333333",
    )
    right.set(xlabel="hosts of the fat-tree", ylabel="CPU microseconds per flow")
    right.set_title("Cost per flow: 1.5 flows in flight per host")
    # Labels of neighbours closer than this would touch.
    shown = [n for i, n in enumerate(h.tolist()) if i == 0 or n > 1.8 * h[i - 1]]
    right.set_xticks(shown, labels=[f"{n:,}" for n in shown])
    right.minorticks_off()
    left.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    left.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    # The drawing library ends lines with blanks; the checkout has none.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def main(options: argparse.Namespace) -> int:
    if options.figure is not None and importlib.util.find_spec("matplotlib") is None:
        sys.exit("scale: --figure needs matplotlib: pip install matplotlib")
    small = 20 if options.quick else 1
    note = (
        f"{time.strftime('%Y-%m-%d')}, {machine()}. CPU seconds on one thread without compilation; set-up is the network, its "
        "routes and the task graph; memory is the peak of the whole process; certificate: the tolerance at which the allocations "
        "in force at the start and after each quarter of the run are proven max-min fair. Sizes are 1 MB under load 0.5 and "
        "log-normal in the closed system, where a fixed number of chains start their next flow, between random hosts, when the "
        "one before has ended."
    )
    print(note, flush=True)
    by_flows = [measure(n) for n in FLOWS if n <= FLOWS[-1] // small]
    by_hosts = []
    for k in ARITY[: 3 if options.quick else -1]:
        at_once = round(IN_FLIGHT_PER_HOST * k**3 / 4)
        by_hosts.append(measure(k, ROUNDS * at_once, at_once))
    if not options.quick:
        by_hosts.append(measure(*LARGEST))
    report = Report(
        tables=(
            ("Growth with flows", HEAD, tuple(check(m) for m in by_flows)),
            ("Growth with hosts", HEAD, tuple(check(m) for m in by_hosts)),
        )
    )
    print("\n".join(report.lines()))
    if options.figure is not None:
        draw(options.figure, by_flows, by_hosts)
    if options.into is not None:
        write_into(options.into, report, mark="scale", notes=(note,))
    return 0 if report.ok else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the flows and the smaller networks")
    parser.add_argument("--into", metavar="PAGE", type=Path, help="write the tables into this page, between its marks")
    parser.add_argument("--figure", metavar="SVG", type=Path, help="draw both curves")
    parser.add_argument("--child", nargs="+", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        sys.exit(0)
    sys.exit(main(given))
