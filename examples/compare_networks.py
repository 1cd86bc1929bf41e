"""Three networks, one trace: which is fastest, and why? Local work is left out, so that only communication is compared.

python examples/compare_networks.py examples/traces/lammps-64.parquet
"""

import sys

import netsim as ns

trace = ns.read_trace(sys.argv[1])
makespan = {}
print(
    f"{'network':<10} {'hosts':>6} {'makespan':>12} {'network-bound':>14} {'sharing':>9} {'x lower bound':>14}  busiest link"
)
for name in ("dragonfly", "fat_tree", "torus"):
    result = ns.replay(trace, topology=name, gaps="none")
    s = result.summary
    link = s["bottleneck_links"][0]
    makespan[name] = s["makespan_s"]
    print(
        f"{name:<10} {result.provenance['topology']['hosts']:>6} {1e3 * s['makespan_s']:>9.3f} ms {s['network_bound']:>13.1%} "
        f"{s['critical_path']['sharing_s'] / s['makespan_s']:>9.2%} {s['lower_bound']['times_lower_bound']:>14.3g}  "
        f"{link['name']} ({link['utilisation']:.1%})"
    )

spread = max(makespan.values()) / min(makespan.values()) - 1
# A flow model ranks networks reliably when they differ by more than about 15 %.
print(
    f"spread {spread:.0%}: "
    + (f"{min(makespan, key=makespan.get)} wins" if spread > 0.15 else "no winner at flow level")
)
