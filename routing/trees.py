"""Up and down in trees: the whole path follows from the ports taken upwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.routing.pathset import Paths
from netsim.topologies import Topology
from netsim.topologies.trees import tree_shape

__all__ = ["d_mod_k_ports", "tree_paths"]

Ports = Callable[[int, Int64, Int64], Int64]


def d_mod_k_ports(destination: Int64, w: Sequence[int]) -> Ports:
    """Port up at level l (0: the host) by the destination alone: floor(d / (w_1 ... w_l)) mod w_(l+1).

    The ports spell the number of the top switch in the mixed radix of w, so that consecutive destinations use all top
    switches in turn and each link down carries few destinations. E. Zahavi, "D-Mod-K Routing Providing Non-Blocking
    Traffic for Shift Permutations on Real Life Fat Trees", Technion CCIT 776, 2010.
    """
    above = [1, *accumulate(w, mul)]
    return lambda level, rows, _node: destination[rows] // above[level] % w[level]


def tree_paths(topology: Topology, source: Int64, destination: Int64, ports: Ports) -> Paths:
    """Up to the first level where source and destination have a common ancestor, then down; fewest links of all paths.

    Parameters
    ----------
    topology : Topology
        Of the family ``fat_tree``, ``k_ary_n_tree`` or ``xgft``.
    source, destination : int64 array, shape (n,)
        Hosts.
    ports : callable
        (level, rows, node number within the level) to the port up of these rows, ``0 .. w_(level+1) - 1``.
    """
    m, w = tree_shape(topology)
    below = np.array([1, *accumulate(m, mul)], dtype=np.int64)
    above = np.array([1, *accumulate(w, mul)], dtype=np.int64)
    # Cables of level l to l + 1 are numbered by the lower node, then by its port; row 2c goes up, 2c + 1 down.
    n_cables = topology.n_hosts // below[:-1] * above[1:]
    first = np.concatenate([[0], np.cumsum(n_cables)])
    n, levels = source.size, len(m)
    up: list[npt.NDArray[np.int64]] = []
    down: list[npt.NDArray[np.int64]] = []
    top = np.zeros(n, dtype=np.int64)  # position among the tops of the subtree, growing by one digit per level
    for level in range(levels):
        # Rows whose ends still lie in different subtrees of this height climb one more level.
        rows = np.flatnonzero(source // below[level] != destination // below[level])
        position = top[rows]
        node = source[rows] // below[level] * above[level] + position
        port = ports(level, rows, node)
        lower = destination[rows] // below[level] * above[level] + position
        for hops, here, way in ((up, node, 0), (down, lower, 1)):
            hop = np.full(n, -1, dtype=np.int64)
            hop[rows] = 2 * (first[level] + here * w[level] + port) + way
            hops.append(hop)
        top[rows] = position + above[level] * port
    return Paths.from_columns([*up, *reversed(down)])
