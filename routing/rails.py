"""Shortest paths of rail-optimised clusters: within a node over its switch, elsewhere over the leaves."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Int64, csr_ptr, frozen
from netsim.routing.graphs import shortest_paths
from netsim.routing.pathset import Paths
from netsim.topologies import Topology
from netsim.topologies.changes import only_links

__all__ = ["rail_paths"]


def rail_paths(
    topology: Topology, source: Int64, destination: Int64, *, word: Int64 | None = None, seed: int = 0
) -> Paths:
    """The paths that :func:`netsim.routing.graphs.shortest_paths` finds, with one search per leaf instead of per GPU.

    Parameters
    ----------
    topology : Topology
        Of the family ``rail_optimized``.
    source, destination, word, seed
        As in ``shortest_paths``.

    Notes
    -----
    A node's own switch leads to the GPUs of the node only, and those do not forward. So the links to node switches are
    of no use between nodes, and without them each GPU has one link.
    """
    gpus = int(topology.params["gpus"])
    own = topology.link_layer == topology.layer_names.index("nvlink")
    up, down = np.empty(topology.n_hosts, dtype=np.int64), np.empty(topology.n_hosts, dtype=np.int64)
    links = np.flatnonzero(own & (topology.link_src < topology.n_hosts))
    up[topology.link_src[links]] = links
    links = np.flatnonzero(own & (topology.link_dst < topology.n_hosts))
    down[topology.link_dst[links]] = links

    far = source // gpus != destination // gpus
    rows = np.flatnonzero(far)
    kept = np.flatnonzero(~own)
    fabric = only_links(topology, ~own)
    across = shortest_paths(
        fabric, source[rows], destination[rows], word=None if word is None else word[rows], seed=seed
    )
    near = np.flatnonzero(~far & (source != destination))
    hops = np.zeros(source.size, dtype=np.int64)
    hops[rows] = across.hops
    hops[near] = 2
    ptr = csr_ptr(hops)
    link = np.empty(ptr[-1], dtype=np.int64)
    link[ptr[near]] = up[source[near]]
    link[ptr[near] + 1] = down[destination[near]]
    link[np.repeat(far, hops)] = kept[across.link]
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))
