"""Every family of topologies at 65,536 hosts: time and memory to build and describe it and to route flows.

    python benchmarks/topologies.py [--hosts 65536] [--into docs/topologies.md]

Each line is a process of its own. Seconds are CPU seconds; paths are those of the default routing for 1,024 flows between
random hosts, after a first call on a small instance has compiled what is compiled.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import netsim as ns
from netsim.topologies import Topology
from netsim.topologies import topologies as registry
from netsim.validation.report import Check, Report, write_into

HOSTS = 65_536
FLOWS = 1024
BUILD_BUDGET_S = 10.0
HEAD = ("topology", "hosts", "switches", "links", "build", "arrays", "describe", "paths", "peak memory")


def array_bytes(net: Topology) -> int:
    return sum(x.nbytes for x in net.__dict__.values() if isinstance(x, np.ndarray))


def route(net: Topology) -> int:
    draw = np.random.default_rng(0)
    source, destination = draw.integers(0, net.n_hosts, (2, FLOWS))
    return int(ns.routing.paths(net, source, destination).hops.sum())


def child(name: str, hosts: int) -> None:
    route(ns.topologies.build(name, n_hosts=64))
    seconds = {}
    begin = time.process_time()
    net = ns.topologies.build(name, n_hosts=hosts)
    seconds["build"] = time.process_time() - begin
    size = array_bytes(net)
    for what, call in (("describe", ns.topologies.describe), ("paths", route)):
        begin = time.process_time()
        call(net)
        seconds[what] = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([net.n_hosts, net.n_switches, net.n_links, seconds, size, peak]))


def measure(name: str, hosts: int) -> Check:
    words = [sys.executable, __file__, "--child", name, "--hosts", str(hosts)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    held, switches, links, seconds, size, peak = json.loads(done.stdout)
    times = [f"{seconds[what]:.2f} s" for what in ("build", "describe", "paths")]
    cells = (name, f"{held:,}", f"{switches:,}", f"{links:,}", times[0], f"{size / 2**20:.0f} MiB", *times[1:])
    return Check(name=name, ok=seconds["build"] < BUILD_BUDGET_S, cells=(*cells, f"{peak / 2**30:.2f} GiB"))


def main(options: argparse.Namespace) -> int:
    names = [name for name in registry if registry[name].sizer is not None]
    report = Report(tables=((f"At {options.hosts:,} hosts", HEAD, tuple(measure(n, options.hosts) for n in names)),))
    note = (
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, Python {platform.python_version()}, `benchmarks/topologies.py`: CPU seconds, "
        "the smallest instance that holds the hosts; paths: 1,024 flows between random hosts, by the default routing; memory: the "
        "arrays of the network, and the peak of the whole process."
    )
    print("\n".join(report.lines()))
    if options.into is not None:
        write_into(options.into, report, mark="large", notes=(note,))
    return 0 if report.ok else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--into", metavar="PAGE", type=Path, help="write the table into this page, between its marks")
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.hosts)
        sys.exit(0)
    sys.exit(main(given))
