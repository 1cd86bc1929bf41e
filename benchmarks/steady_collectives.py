"""Ring allreduce step by step and as steady flows: how far apart, and what each costs.

    python benchmarks/steady_collectives.py

Randomly placed ranks on a tapered tree (2:1), a dragonfly and a torus; default overheads and latencies.
"""

from __future__ import annotations

import resource
import time

import netsim as ns

NETWORKS = {
    "tree 2:1": lambda n: ns.topologies.xgft(m=(16, n // 16), w=(1, 8)),
    "dragonfly": lambda n: ns.topologies.build("dragonfly", n_hosts=n),
    "torus": lambda n: ns.topologies.build("torus", n_hosts=n),
}
STEPWISE_UP_TO = 256


def run(trace, network, *, steady):
    begin = time.process_time()
    result = ns.replay(
        trace,
        topology=network,
        placement="random",
        collectives={"allreduce": "ring"},
        steady_collectives=steady,
        bins=0,
    )
    return result.makespan_s, time.process_time() - begin


def main() -> None:
    print(f"{'network':<12}{'ranks':>6}{'vector':>9}{'step by step':>16}{'steady':>16}{'error':>9}{'CPU ratio':>11}")
    for name, make in NETWORKS.items():
        for n, size in ((64, 10**6), (64, 10**8), (256, 10**7), (256, 10**9), (8192, 10**9)):
            rows = [{"rank": rank, "op": "allreduce", "bytes": size} for rank in range(n)]
            trace, network = ns.Trace.from_rows(n_ranks=n, rows=rows), make(n)
            steady_s, cost = run(trace, network, steady=True)
            line = f"{name:<12}{n:>6}{size / 1e6:>6.0f} MB"
            if n <= STEPWISE_UP_TO:
                exact_s, exact_cost = run(trace, network, steady=False)
                line += f"{exact_s * 1e3:>13.3f} ms{steady_s * 1e3:>13.3f} ms{steady_s / exact_s - 1:>9.1%}"
                line += f"{exact_cost / cost:>10.1f}x"
            else:
                line += f"{'-':>16}{steady_s * 1e3:>13.3f} ms{'-':>9}{cost:>9.1f} s"
            print(line, flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()
