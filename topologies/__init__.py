"""Networks as arrays: generators by name, import from files and graphs, description.

>>> from netsim.topologies import build, dragonfly
>>> dragonfly(p=2, a=4, h=2).n_links == build("dragonfly", n_hosts=72).n_links
True
"""

from __future__ import annotations

from netsim.topologies.changes import join_hosts, scale_links, with_links, without_links
from netsim.topologies.description import Description, describe
from netsim.topologies.diameter_two import polarfly, slim_fly
from netsim.topologies.dragonflies import cascade, dragonfly, dragonfly_plus
from netsim.topologies.expanders import jellyfish, xpander
from netsim.topologies.export import to_file
from netsim.topologies.files import from_file
from netsim.topologies.generators import Generator, Parameter, build, generator, is_topology_file, topologies
from netsim.topologies.graphs import from_networkx, to_networkx
from netsim.topologies.grids import mesh, optical_ports, torus, twisted_torus
from netsim.topologies.hyperxs import flattened_butterfly, full_mesh, hypercube, hyperx
from netsim.topologies.machines import Machine, machines
from netsim.topologies.many_links import bcube, rail_optimized
from netsim.topologies.prices import bill, read_prices
from netsim.topologies.stars import star
from netsim.topologies.topology import Topology
from netsim.topologies.trees import fat_tree, k_ary_n_tree, xgft

__all__ = [
    "Description",
    "Generator",
    "Machine",
    "Parameter",
    "Topology",
    "bcube",
    "bill",
    "build",
    "cascade",
    "describe",
    "dragonfly",
    "dragonfly_plus",
    "fat_tree",
    "flattened_butterfly",
    "from_file",
    "from_networkx",
    "full_mesh",
    "generator",
    "hypercube",
    "hyperx",
    "is_topology_file",
    "jellyfish",
    "join_hosts",
    "k_ary_n_tree",
    "machines",
    "mesh",
    "optical_ports",
    "polarfly",
    "rail_optimized",
    "read_prices",
    "scale_links",
    "slim_fly",
    "star",
    "to_file",
    "to_networkx",
    "topologies",
    "torus",
    "twisted_torus",
    "with_links",
    "without_links",
    "xgft",
    "xpander",
]
