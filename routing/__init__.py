"""Routing: from pairs of hosts to paths of links, all pairs in one call.

>>> from netsim.routing import default_routing, paths
>>> from netsim.topologies import dragonfly
>>> net = dragonfly(p=2, a=4, h=2)
>>> default_routing(net), paths(net, [0, 3], [5, 3]).hops.tolist()
('minimal', [3, 0])
"""

from __future__ import annotations

from netsim.routing.algorithms import d_mod_k, dimension_order, ecmp, minimal, s_mod_k
from netsim.routing.around import paths_around, shortest_walks
from netsim.routing.blends import best_division
from netsim.routing.choice import Candidates, adaptive_routings, candidates
from netsim.routing.engineering import Engineered, demand_routings, engineered
from netsim.routing.fluid import fluid_loads, fluid_routings, transport
from netsim.routing.kshortest import k_shortest
from netsim.routing.multipath import Sprayed, path_use, spray, subflows
from netsim.routing.nonminimal import adaptive, par, ugal_g, ugal_l, valiant, valiant_group, valiant_router
from netsim.routing.pathset import Paths, check_paths, link_loads, path_latency
from netsim.routing.patterns import Demand, demand, patterns
from netsim.routing.registry import Routing, default_routing, paths, routings
from netsim.routing.throughput import Saturation, saturation
from netsim.routing.updown import up_down

__all__ = [
    "Candidates",
    "Demand",
    "Engineered",
    "Paths",
    "Routing",
    "Saturation",
    "Sprayed",
    "adaptive",
    "adaptive_routings",
    "best_division",
    "candidates",
    "check_paths",
    "d_mod_k",
    "default_routing",
    "demand",
    "demand_routings",
    "dimension_order",
    "ecmp",
    "engineered",
    "fluid_loads",
    "fluid_routings",
    "k_shortest",
    "link_loads",
    "minimal",
    "par",
    "path_latency",
    "path_use",
    "paths",
    "paths_around",
    "patterns",
    "routings",
    "s_mod_k",
    "saturation",
    "shortest_walks",
    "spray",
    "subflows",
    "transport",
    "ugal_g",
    "ugal_l",
    "up_down",
    "valiant",
    "valiant_group",
    "valiant_router",
]
