"""Networks as arrays: generators by name, import from files and graphs, description.

>>> from netsim.topologies import build, dragonfly
>>> dragonfly(p=2, a=4, h=2).n_links == build("dragonfly", n_hosts=72).n_links
True
"""

from __future__ import annotations

from netsim.topologies.dragonflies import dragonfly
from netsim.topologies.generators import Generator, Parameter, build, generator, topologies
from netsim.topologies.stars import star
from netsim.topologies.topology import Topology

__all__ = ["Generator", "Parameter", "Topology", "build", "dragonfly", "generator", "star", "topologies"]
