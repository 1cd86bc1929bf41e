"""The built-in routings; each uses the structure of the topology where it is known and searches the graph elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.rng import hash64
from netsim.routing.dragonflies import dragonfly_minimal
from netsim.routing.graphs import shortest_paths
from netsim.routing.pathset import Paths
from netsim.routing.registry import hosts, routings
from netsim.topologies import Topology

__all__ = ["minimal"]


def _star(topology: Topology, source: Int64, destination: Int64) -> Paths:
    moves = source != destination
    return Paths.from_columns(
        [
            np.where(moves, topology.out_link[topology.out_ptr[source]], -1),
            np.where(moves, topology.in_link[topology.in_ptr[destination]], -1),
        ]
    )


@routings.register("minimal")
def minimal(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """One minimal path per pair, always the same: ``flow`` and ``seed`` change nothing.

    Dragonfly: local, global, local; with several links between two groups a hash of the pair chooses. Other graphs:
    fewest links; among equals the lowest link number at each step from the source.

    Parameters and errors: see :func:`netsim.routing.paths`.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> minimal(dragonfly(p=1, a=2, h=1), [0, 0], [1, 0]).hops.tolist()
    [3, 0]
    """
    s, d = hosts(topology, source, destination)
    if topology.family == "star":
        return _star(topology, s, d)
    if topology.family == "dragonfly":
        return dragonfly_minimal(topology, s, d, word=hash64(0, s, d))
    return shortest_paths(topology, s, d)
