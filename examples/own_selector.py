"""A circuit selector of your own: light the pairs that are farthest apart, and compare it with E-EFI.

python own_selector.py
"""

import numpy as np

from netsim.optics import Circuits, select, selectors
from netsim.optics.selection import chosen
from netsim.topologies import torus


@selectors.register("farthest")
def farthest(problem):
    """Pairs by distance, then by bytes, while ports last."""
    demand, hops = problem.demand, problem.fabric.hops
    free, pairs = problem.ports.copy(), []
    for i in np.lexsort((-demand.size_bytes, -hops[demand.source, demand.to])):
        a, b = int(demand.source[i]), int(demand.to[i])
        if free[a] and free[b] and len(pairs) < problem.most:
            free[[a, b]] -= 1
            pairs.append((a, b))
    return chosen(problem, "farthest", Circuits.of(pairs))


network = torus((6, 6))
demand = np.random.default_rng(1).pareto(1.2, (36, 36)) * 1e6
print("fullest electrical link, drained in")
for method in ("none", "farthest", "hottest", "eefi"):
    print(f"  {method:<9} {select(network, demand, method=method, ports=2).after.max_electrical_s * 1e3:6.2f} ms")
