"""The same flows through netsim and SimGrid: do the finish times agree, and what does each cost?

    python benchmarks/peer_simgrid.py [--simgrid PYTHON]

PYTHON is an interpreter that can import simgrid 4.1 (``pip install simgrid`` compiles it and needs Boost headers); without one, only
netsim is run. SimGrid runs as a pure max-min simulator: all correction factors, latencies and cross traffic are off, and both of its update
modes are tried. CPU seconds, one thread, compilation and platform set-up excluded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FACTOR = 1e6  # SimGrid's clock works at about 1e-9 of its unit: give it microseconds
FLAGS = (
    "network/model:CM02", "network/crosstraffic:no", "network/TCP-gamma:0", "network/weight-S:0.0", "network/latency-factor:1.0",
    "network/bandwidth-factor:1.0", "precision/timing:1e-9", "precision/work-amount:1e-5",
)  # fmt: skip


def cases():
    """Named flow lists: network, arrival pattern, number of flows."""
    import netsim as ns
    from netsim.routing import paths

    networks = {
        "dragonfly 1056": ns.topologies.dragonfly(p=4, a=8, h=4),
        "fat-tree 1024": ns.topologies.fat_tree(k=16),
        "torus 8x8x16": ns.topologies.torus(dims=(8, 8, 16)),
    }
    for name, network in networks.items():
        for kind, n in (("poisson", 3000), ("poisson log-normal", 3000), ("dense log-normal", 2000)):
            rng = np.random.default_rng(1)
            hosts = network.n_hosts
            src = rng.integers(0, hosts, n)
            dst = (src + 1 + rng.integers(0, hosts - 1, n)) % hosts
            size = np.ceil(rng.lognormal(13, 1.5, n)) if "log-normal" in kind else np.full(n, 1e6)
            gap = size.mean() / (0.5 * hosts * 12.5e9)
            start = np.zeros(n) if "dense" in kind else np.cumsum(rng.exponential(gap, n))
            route = paths(network, src, dst)
            yield (
                f"{name}, {kind}, {n}",
                {
                    "capacity_bytes_per_s": network.link_capacity_bytes_per_s,
                    "ptr": route.ptr,
                    "link": route.link.astype(np.int64),
                    "start_s": start,
                    "size_bytes": size,
                },
                {"src": src, "dst": dst},
            )


def child(case_path: str, out_path: str, optim: str) -> None:
    """Runs inside the interpreter that has SimGrid."""
    import ctypes
    import importlib.util
    import resource

    folder = Path(importlib.util.find_spec("simgrid").origin).parent
    for library in sorted(folder.glob("libsimgrid.so.*")):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    from simgrid import Comm, Engine, LinkInRoute

    def cpu() -> float:
        use = resource.getrusage(resource.RUSAGE_SELF)
        return use.ru_utime + use.ru_stime

    case = np.load(case_path)
    flags = [f"--cfg={flag}" for flag in (*FLAGS, f"network/optim:{optim}")]
    engine = Engine(["peer", *flags, "--log=root.thres:warning", "--log=no_loc"])
    zone = engine.netzone_root.add_netzone_full("zone")
    hosts = [zone.add_host(f"h{i}", 1e9) for i in range(int(max(case["src"].max(), case["dst"].max())) + 1)]
    links = [LinkInRoute(zone.add_link(f"l{i}", c / FACTOR).seal()) for i, c in enumerate(case["capacity_bytes_per_s"])]
    known = set()
    for i in range(case["src"].size):
        pair = (int(case["src"][i]), int(case["dst"][i]))
        if pair not in known:
            known.add(pair)
            row = case["link"][case["ptr"][i] : case["ptr"][i + 1]]
            zone.add_route(hosts[pair[0]], hosts[pair[1]], [links[x] for x in row], False)
    zone.seal()
    begin = cpu()
    start = case["start_s"] * FACTOR
    comms = [None] * start.size
    for i in np.argsort(start, kind="stable"):
        if start[i] > engine.clock:
            engine.run_until(float(start[i]))
        comms[i] = Comm.sendto_init(hosts[case["src"][i]], hosts[case["dst"][i]]).set_payload_size(
            int(case["size_bytes"][i])
        )
        comms[i].start()
    engine.run()
    np.savez(out_path, finish_s=np.array([comm.finish_time for comm in comms]) / FACTOR)
    print(json.dumps({"cpu_s": cpu() - begin}))


def main(simgrid: str | None) -> None:
    from netsim.engine import run_flows

    print(
        f"{'case':<44} {'netsim CPU':>11} {'SimGrid CPU':>12} {'ratio':>7}  largest relative difference of finish times"
    )
    compiled = False
    for name, flows, ends in cases():
        if not compiled:
            run_flows(**flows)
            compiled = True
        begin = time.process_time()
        ours = run_flows(**flows)
        cost = time.process_time() - begin
        if simgrid is None:
            print(f"{name:<44} {cost:>9.3f} s {'-':>12}")
            continue
        best, theirs = np.inf, None
        with tempfile.TemporaryDirectory() as folder:
            case, out = Path(folder, "case.npz"), Path(folder, "out.npz")
            np.savez(case, **flows, **ends)
            for optim in ("Full", "Lazy"):
                outcome = subprocess.run(
                    [simgrid, __file__, "--child", str(case), str(out), optim],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                best = min(best, json.loads(outcome.stdout.splitlines()[-1])["cpu_s"])
                theirs = np.load(out)["finish_s"]
        difference = float(np.abs(ours / theirs - 1).max())
        print(f"{name:<44} {cost:>9.3f} s {best:>10.2f} s {best / cost:>6.0f}x  {difference:.1e}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simgrid", metavar="PYTHON")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.exit(child(*options.child))
    main(options.simgrid)
