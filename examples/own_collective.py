"""A collective algorithm of your own, in a few lines: every member sends to all others at once, then compare with the ring.

python examples/own_collective.py
"""

import numpy as np

import netsim as ns
from netsim.traffic.collectives import Call, Steps, algorithm, build, check_schedule


@algorithm("allgather/everybody_at_once", formula="T = a + (n-1) m/B", source="this example")
def everybody_at_once(call: Call):
    """All blocks to all members in a single step."""
    src, dst = np.divmod(np.arange(call.n**2), call.n)
    away = src != dst
    # Member i starts with block i; each message carries that one block.
    steps = Steps(call)
    steps.add(src=src[away], dst=dst[away], first=src[away], count=1)
    return steps.schedule()


n, size = 16, 1_000_000
# Proves that every member ends with every block exactly once.
check_schedule(build(Call(op="allgather", n=n, size_bytes=size), algorithm="everybody_at_once"))

trace = ns.Trace.from_rows(n_ranks=n, rows=[{"rank": r, "op": "allgather", "bytes": size} for r in range(n)])
for name in ("everybody_at_once", "ring"):
    for network in ("star", "torus"):
        result = ns.replay(trace, topology=network, collectives={"allgather": name})
        print(f"{name:<18} on {network:<6} {1e6 * result.makespan_s:8.1f} us")
