"""Natural parts of a network: what may be cut off from the rest, for lower bounds and summaries."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

import numpy as np

from netsim.core.arrays import Int64
from netsim.topologies.grids import coordinates
from netsim.topologies.hyperxs import FULLY_CONNECTED, hyperx_shape
from netsim.topologies.topology import Topology
from netsim.topologies.trees import tree_shape

__all__ = ["natural_parts"]


def natural_parts(topology: Topology) -> list[tuple[str, Int64]]:
    """Partitions of the vertices: each switch with its hosts; dragonfly groups; subtrees of each height; halves of a grid.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    list of (str, int64 array of shape (n_vertices,))
        What a part is called (its number goes into the braces), and the part of each vertex.

    Examples
    --------
    >>> from netsim.topologies import dragonfly, fat_tree
    >>> [(name, int(part.max()) + 1) for name, part in natural_parts(dragonfly(p=1, a=2, h=1))]
    [('switch {}', 6), ('group {}', 3)]
    >>> [name for name, _ in natural_parts(fat_tree(k=4))]
    ['switch {}', 'subtree {} of height 2']
    """
    n, switches = topology.n_hosts, topology.n_switches
    switch = np.arange(switches, dtype=np.int64)
    # A host belongs to the first switch it is wired to; one without a switch is a part of its own. Any partition gives true bounds.
    home = np.arange(switches, switches + n, dtype=np.int64)
    up = np.flatnonzero((topology.link_src < n) & (topology.link_dst >= n))[::-1]
    home[topology.link_src[up]] = topology.link_dst[up] - n
    parts = [("switch {}", np.concatenate([home, switch]))]
    family = topology.family
    if family == "dragonfly":
        a = topology.params["a"]
        parts.append(("group {}", np.concatenate([home // a, switch // a])))
    elif family in ("dragonfly_plus", "cascade"):
        params = topology.params
        of_group = params["l"] + params["s"] if family == "dragonfly_plus" else params["rows"] * params["columns"]
        parts.append(("group {}", np.concatenate([home // of_group, switch // of_group])))
    elif family in ("fat_tree", "k_ary_n_tree", "xgft"):
        m, w = tree_shape(topology)
        below, above = [1, *accumulate(m, mul)], [1, *accumulate(w, mul)]
        for height in range(2, len(m)):
            of_host = np.arange(n, dtype=np.int64) // below[height]
            rows = [of_host]
            for level in range(1, len(m) + 1):
                # Nodes of a level are numbered subtree by subtree; above this height each is a part of its own.
                count = n // below[level] * above[level]
                node = np.arange(count, dtype=np.int64)
                if level <= height:
                    rows.append(node // above[level] // (below[height] // below[level]))
                else:
                    rows.append(n + sum(row.size for row in rows) + node)
            parts.append((f"subtree {{}} of height {height}", np.concatenate(rows)))
    elif family in ("torus", "twisted_torus", "mesh", *FULLY_CONNECTED):
        dims = hyperx_shape(topology)[0] if family in FULLY_CONNECTED else topology.params["dims"]
        place = coordinates(switch, dims) if dims else switch[:, None]
        for d, side in enumerate(dims):
            if side > 1:
                half = (place[:, d] >= side // 2).astype(np.int64)
                parts.append((f"half {{}} in dimension {d}", np.concatenate([half[home] if switches else home, half])))
    return parts
