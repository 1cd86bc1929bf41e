"""Oracles: slow and plain code to check the engine, and your own extensions, against.

`certificate` proves an allocation, `exact_rates` computes it in rational numbers, `lexicographic_rates` by linear programming, and
`exact_simulation` replays a small task graph in rational numbers. `flow_simulation` makes a simulation of independent flows that can
be stepped; `enumerated_loads` spreads traffic over shortest paths; `run_peer` sends the same flows through SimGrid.
"""

from __future__ import annotations

from netsim.testing.exact import ExactResult, exact_simulation
from netsim.testing.flows import flow_simulation
from netsim.testing.fluid import enumerated_loads
from netsim.testing.maxmin import Verdict, certificate, exact_rates, lexicographic_rates
from netsim.testing.peer import Peer, PeerRun, find_peer, run_peer

__all__ = [
    "ExactResult", "Peer", "PeerRun", "Verdict", "certificate", "enumerated_loads", "exact_rates", "exact_simulation", "find_peer",
    "flow_simulation", "lexicographic_rates", "run_peer",
]  # fmt: skip
