"""Three networks, one trace: which is fastest, and why?

python examples/compare_networks.py examples/traces/lammps-64.parquet
"""

import sys

import netsim as ns

trace = ns.read_trace(sys.argv[1])
print(
    f"{'network':<10} {'hosts':>6} {'makespan':>12} {'network-bound':>14} {'sharing':>9} {'x lower bound':>14}  busiest link"
)
for name in ("dragonfly", "fat_tree", "torus"):
    result = ns.replay(trace, topology=name)
    s = result.summary
    link = s["bottleneck_links"][0]
    print(
        f"{name:<10} {result.provenance['topology']['hosts']:>6} {1e3 * s['makespan_s']:>9.3f} ms {s['network_bound']:>13.1%} "
        f"{s['critical_path']['sharing_s'] / s['makespan_s']:>9.2%} {s['lower_bound']['times_lower_bound']:>14.3g}  "
        f"{link['name']} ({link['utilisation']:.1%})"
    )
