"""Routings of your own: one that draws, one that chooses, by name in every function and command of the same process.

python examples/own_routing.py
"""

import numpy as np

import netsim as ns
from netsim.core.rng import hash64
from netsim.routing import Candidates, Paths, adaptive_routings, paths, routings
from netsim.study import load_curve


@routings.register("mostly-minimal")
def mostly_minimal(topology, source, destination, *, flow=None, seed=0):
    """Three flows of ten take a random detour, whatever the load."""
    straight = paths(topology, source, destination, routing="minimal")
    aside = paths(topology, source, destination, routing="valiant", flow=flow, seed=seed)
    strays = hash64(seed, source, destination, 0 if flow is None else flow) % np.uint64(10) < 3
    return Paths.joined([straight, aside]).take(np.arange(len(straight)) + len(straight) * strays)


@adaptive_routings.register("two-choices")
def two_choices(topology, source, destination, *, flow=None, seed=0):
    """The minimal path or one random detour, whichever promises more when the flow starts."""
    straight = paths(topology, source, destination, routing="minimal")
    aside = paths(topology, source, destination, routing="valiant", flow=flow, seed=seed)
    return Candidates.of([straight, aside], rule="rate")


network = ns.topologies.dragonfly(p=2, a=4, h=2)
for name in ("minimal", "valiant", "mostly-minimal", "two-choices"):
    (point,) = load_curve(network, pattern="adv+1", routing=name, loads=[0.6], messages_per_host=60).points
    print(
        f"{name:<15} accepts {point.accepted:.3f} of 0.6 offered, {point.minimal_share:.0%} of bytes on minimal paths"
    )
