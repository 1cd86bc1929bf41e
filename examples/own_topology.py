"""A network of your own, from networkx: a Petersen graph of switches with two hosts each, replaying an all-to-all.

python examples/own_topology.py
"""

import networkx as nx

import netsim as ns

graph = nx.petersen_graph()
for switch in list(graph):
    for host in range(2):
        graph.add_node(f"host {switch}.{host}", host=True)
        graph.add_edge(switch, f"host {switch}.{host}")

network = ns.topologies.from_networkx(graph, capacity="100Gbps", latency="300ns")
network.expect(n_hosts=20, n_switches=10)
print("\n".join(ns.topologies.describe(network).lines()))

n = network.n_hosts
trace = ns.Trace.from_rows(n_ranks=n, rows=[{"rank": r, "op": "alltoall", "bytes": n * 100_000} for r in range(n)])
result = ns.replay(trace, topology=network)
print(
    f"all-to-all: {1e6 * result.makespan_s:.1f} us, {result.summary['lower_bound']['times_lower_bound']:.2f} x the lower bound"
)
