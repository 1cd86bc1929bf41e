"""Canonical minimal paths of the dragonfly: local, global, local."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_order
from netsim.routing.pathset import Paths
from netsim.topologies import Topology

__all__ = ["crossings", "dragonfly_minimal", "global_links", "local_hops"]


def global_links(topology: Topology) -> tuple[Int64, Int64]:
    """Global links by (group, group): CSR with row ``source group * g + destination group``, ascending link numbers."""
    a, g = topology.params["a"], topology.params["g"]
    links = np.flatnonzero(topology.link_layer == topology.layer_names.index("global"))
    group = (np.stack([topology.link_src[links], topology.link_dst[links]]).astype(np.int64) - topology.n_hosts) // a
    ptr, order = csr_order(group[0] * g + group[1], g * g)
    return ptr, links[order]


def crossings(topology: Topology, from_group: Int64, to_group: Int64, word: npt.NDArray[np.uint64]) -> Int64:
    """One global link for each pair of different groups; ``word mod m`` chooses among their m links."""
    ptr, links = global_links(topology)
    row = from_group * int(topology.params["g"]) + to_group
    m = (ptr[row + 1] - ptr[row]).astype(np.uint64)
    chosen: Int64 = links[ptr[row] + (word % m).astype(np.int64)]
    return chosen


def local_hops(topology: Topology, here: Int64, there: Int64) -> Int64:
    """The link between two routers of one group, by switch numbers; -1 where they are the same."""
    hop = np.full(here.size, -1, dtype=np.int64)
    some = np.flatnonzero(here != there)
    at, _ = topology.links_between(topology.n_hosts + here[some], topology.n_hosts + there[some])
    hop[some] = topology.link_at(at)
    return hop


def dragonfly_minimal(topology: Topology, source: Int64, destination: Int64, *, word: npt.NDArray[np.uint64]) -> Paths:
    """One local hop to the router with the global link, the global link, one local hop to the destination's router.

    Parameters
    ----------
    topology : Topology
        Of the family ``dragonfly``.
    source, destination : int64 array, shape (n,)
        Hosts.
    word : uint64 array, shape (n,)
        Hash of each flow; ``word mod m`` chooses among the m parallel links of the two groups.

    Notes
    -----
    Not always a shortest path of the graph: some router pairs have a shorter path over two global links, which
    dragonflies do not use as minimal. Kim et al., ISCA 2008, section 4.1.
    """
    p, a = int(topology.params["p"]), int(topology.params["a"])
    n_hosts = topology.n_hosts
    moves = source != destination
    from_router, to_router = source // p, destination // p
    from_group, to_group = from_router // a, to_router // a

    up = np.where(moves, topology.out_link[topology.out_ptr[source]], -1)
    down = np.where(moves, topology.in_link[topology.in_ptr[destination]], -1)
    far = np.flatnonzero(from_group != to_group)
    crossing = np.full(source.size, -1, dtype=np.int64)
    leave, enter = to_router.copy(), to_router.copy()
    if far.size:
        chosen = crossings(topology, from_group[far], to_group[far], word[far])
        crossing[far] = chosen
        leave[far] = topology.link_src[chosen] - n_hosts
        enter[far] = topology.link_dst[chosen] - n_hosts

    return Paths.from_columns(
        [up, local_hops(topology, from_router, leave), crossing, local_hops(topology, enter, to_router), down]
    )
