"""What choosing circuits costs, from 100 to 5,000 switches: time on one core, peak memory, growth.

    python benchmarks/optics.py [--into docs/optics.md] [--most SWITCHES] [--only FAMILY ...]

16 optical ports a switch, bidirectional circuits; a heavy-tailed demand: 200 destinations per switch (at 5,000 switches a million pairs)
drawn at random, bytes from a Pareto law with shape 1.2. Each case in a process of its own; CPU seconds, compilation excluded.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time

import numpy as np

from netsim.optics import link_load, select, switches_of_hosts, with_circuits
from netsim.optics.demands import SwitchDemand
from netsim.topologies import Topology, dragonfly, fat_tree, torus
from netsim.validation.report import Check, Report, write_into

PORTS = 16
PAIRS_PER_SWITCH = 200
FAMILIES = {
    # a routers a group, h global links a router: groups of a, a h + 1 of them.
    "dragonfly": [lambda: dragonfly(p=2, a=4, h=6), lambda: dragonfly(p=4, a=8, h=4), lambda: dragonfly(p=5, a=10, h=10),
                  lambda: dragonfly(p=8, a=16, h=8), lambda: dragonfly(p=9, a=18, h=15)],
    "fat-tree": [lambda: fat_tree(k=8), lambda: fat_tree(k=16), lambda: fat_tree(k=28), lambda: fat_tree(k=40), lambda: fat_tree(k=64)],
    "torus": [lambda: torus((5, 5, 5)), lambda: torus((7, 7, 7)), lambda: torus((10, 10, 10)), lambda: torus((13, 13, 13)),
              lambda: torus((17, 17, 17))],
}  # fmt: skip
HEAD = (
    "network",
    "switches",
    "pairs",
    "circuits",
    "loads, one call",
    "selection",
    "revenues looked at",
    "byte-hops",
    "peak memory",
)


def demand_of(network: Topology) -> SwitchDemand:
    rng = np.random.default_rng(1)
    n = network.n_switches
    ends = np.unique(switches_of_hosts(network))
    count = PAIRS_PER_SWITCH * n
    u, v = ends[rng.integers(0, ends.size, count)], ends[rng.integers(0, ends.size, count)]
    return SwitchDemand.of_pairs(n, u, v, rng.pareto(1.2, count) * 1e6)


def child(family: str, size: int) -> None:
    small = torus((4, 4), hosts=1)
    warm = np.random.default_rng(0).random((16, 16))
    select(small, warm, ports=1)
    select(dragonfly(p=1, a=2, h=1), np.ones((6, 6)), ports=1)
    link_load(with_circuits(small, select(small, warm, ports=1).circuits), warm, routing="one-optical-hop")
    network = FAMILIES[family][size]()
    demand = demand_of(network)
    begin = time.process_time()
    link_load(network, demand)
    loads = time.process_time()
    found = select(network, demand, ports=PORTS)
    done = time.process_time()
    base = float((demand.size_bytes * found.problem.fabric.hops[demand.source, demand.to]).sum())
    print(json.dumps({
        "switches": network.n_switches, "pairs": demand.to.size, "circuits": len(found.circuits), "loads": loads - begin,
        "select": done - loads, "evaluations": found.evaluations, "saved": found.revenue.sum() / base, "notes": found.notes,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }))  # fmt: skip


def main(options: argparse.Namespace) -> int:
    rows = []
    notes = [
        f"{time.strftime('%Y-%m-%d')}, {platform.processor() or platform.machine()}, Python {platform.python_version()}. "
        f"CPU seconds on one core without compilation; {PORTS} ports a switch, circuits both ways; demand heavy-tailed (Pareto 1.2), "
        f"{PAIRS_PER_SWITCH} pairs a switch; byte-hops: those saved, of all; memory: peak of the whole process."
    ]
    for family in options.only or FAMILIES:
        for size in range(len(FAMILIES[family])):
            if FAMILIES[family][size]().n_switches > options.most:
                continue
            out = subprocess.run(
                [sys.executable, __file__, "--child", family, str(size)], capture_output=True, text=True, check=True
            ).stdout
            m = json.loads(out.splitlines()[-1])
            notes += [f"{family} of {m['switches']}: {note}." for note in m["notes"]]
            rows.append(
                Check(
                    name=f"{family} {m['switches']}", ok=True, error=0.0, limit=0.0,
                    cells=(
                        family, f"{m['switches']:,}", f"{m['pairs']:,}", f"{m['circuits']:,}", f"{m['loads']:.2f} s",
                        f"{m['select']:.2f} s",                        f"{m['evaluations']:,}",
                        f"-{100 * m['saved']:.0f} %", f"{m['memory']:.2f} GiB",
                    ),
                )
            )  # fmt: skip
            print("  ".join(rows[-1].cells), flush=True)
    report = Report(tables=(("Choosing circuits", HEAD, tuple(rows)),))
    if options.into is not None:
        write_into(options.into, report, mark="optics-scale", notes=tuple(notes))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", metavar="PAGE", help="write the table between the marks of this page")
    parser.add_argument("--most", type=int, default=10_000, metavar="SWITCHES", help="largest network")
    parser.add_argument("--only", nargs="+", choices=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child[0], int(given.child[1]))
        sys.exit(0)
    sys.exit(main(given))
