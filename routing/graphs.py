"""Shortest paths on any graph: one search per destination switch that is really used, never all pairs."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Int64, csr_order, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.core.text import count
from netsim.routing.pathset import Paths
from netsim.topologies import Topology

__all__ = ["shortest_paths", "unreachable"]


def _only_switch(topology: Topology, ptr: Int64, links: Int64, other_end: Int64) -> tuple[Int64, Int64]:
    """For each host its one link in this direction and the switch behind it; -1 where it has several or no switch."""
    hosts = np.arange(topology.n_hosts)
    single = ptr[hosts + 1] - ptr[hosts] == 1
    link = np.full(topology.n_hosts, -1, dtype=np.int64)
    link[single] = links[ptr[hosts[single]]]
    switch = np.where(link >= 0, other_end[link] if topology.n_links else -1, -1)
    link[switch < topology.n_hosts] = -1
    return link, np.where(link >= 0, switch, -1)


def shortest_paths(
    topology: Topology, source: Int64, destination: Int64, *, word: Int64 | None = None, seed: int = 0
) -> Paths:
    """A path with the fewest links for each pair of hosts; hosts forward only where ``host_transit`` says so.

    Parameters
    ----------
    topology : Topology
    source, destination : int64 array, shape (n,)
        Hosts.
    word : int64 array, shape (n,), optional
        32-bit hash of each flow: at each switch one of the shortest next links is chosen by the hash of the flow and
        the switch. Without it the next link is the shortest one with the lowest number.
    seed : int
        Salts the hash of the switches.

    Raises
    ------
    InputError
        Some pairs have no path: their number, the first of them, and the components of the graph.

    Notes
    -----
    Hosts with a single link are folded into their switch, so the number of searches is the number of switches that are
    used as destinations. Memory is O(vertices + links + hops of the result).
    """
    from netsim.routing import _kernels

    n, n_hosts = topology.n_vertices, topology.n_hosts
    up, up_switch = _only_switch(topology, topology.out_ptr, topology.out_link, topology.link_dst.astype(np.int64))
    down, down_switch = _only_switch(topology, topology.in_ptr, topology.in_link, topology.link_src.astype(np.int64))
    pairs = np.flatnonzero(source != destination)
    src, dst = source[pairs], destination[pairs]
    head, tail = up[src], down[dst]
    start = np.where(head >= 0, up_switch[src], src)
    end = np.where(tail >= 0, down_switch[dst], dst)

    transit = np.ones(n, dtype=np.uint8)
    transit[:n_hosts] = topology.host_transit
    # The search need not look at links out of hosts that only ever start a path at their switch.
    leaves = np.zeros(n, dtype=bool)
    leaves[:n_hosts] = ~topology.host_transit & (up >= 0)
    kept = topology.in_link[~leaves[topology.link_src[topology.in_link]]]
    in_ptr = csr_ptr(np.bincount(topology.link_dst[kept], minlength=n))

    root, which = np.unique(end, return_inverse=True)
    pair_ptr, order = csr_order(which, root.size)
    hops, link = _kernels.shortest(
        frozen(in_ptr, np.int64),
        frozen(kept, np.int64),
        topology.out_ptr,
        topology.out_link,
        topology.link_src,
        topology.link_dst,
        frozen(transit, np.uint8),
        frozen(root, np.int64),
        frozen(pair_ptr, np.int64),
        frozen(start[order], np.int64),
        frozen(np.zeros(order.size) if word is None else word[pairs][order], np.int64),
        frozen(np.zeros(n) if word is None else hash64(seed, np.arange(n)) >> np.uint64(32), np.int64),
        word is not None,
    )
    if np.any(hops < 0):
        lost = pairs[np.sort(order[hops < 0])]
        raise unreachable(topology, source[lost], destination[lost])

    # Put the host links around the searched part and the pairs back into their order.
    head, tail = head[order], tail[order]
    total = hops + (head >= 0) + (tail >= 0)
    ptr = csr_ptr(total)
    whole = np.empty(ptr[-1], dtype=np.int32)
    middle = np.ones(ptr[-1], dtype=bool)
    for end_link, at in ((head, ptr[:-1]), (tail, ptr[1:] - 1)):
        has = end_link >= 0
        whole[at[has]] = end_link[has]
        middle[at[has]] = False
    whole[middle] = link
    found = Paths(ptr=frozen(ptr, np.int64), link=frozen(whole, np.int32))
    back = np.full(source.size, -1, dtype=np.int64)
    back[pairs[order]] = np.arange(order.size)
    if pairs.size == source.size:
        return found.take(back)
    empty = Paths(ptr=frozen(np.append(found.ptr, found.ptr[-1]), np.int64), link=found.link)
    return empty.take(np.where(back >= 0, back, order.size))


def unreachable(topology: Topology, source: Int64, destination: Int64) -> InputError:
    """The error of pairs that are not joined: their number, the first of them, and the components of the graph."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = topology.n_vertices
    graph = coo_array((np.ones(topology.n_links), (topology.link_src, topology.link_dst)), shape=(n, n)).tocsr()
    n_parts, label = connected_components(graph, directed=True, connection="strong")
    first = ", ".join(
        f"{topology.vertex_name(int(s))} to {topology.vertex_name(int(d))}"
        for s, d in zip(source[:3], destination[:3], strict=True)
    )
    got = f"{count(source.size, 'pair')} without a path, first {first}"
    if np.all(label[source] == label[destination]):
        return InputError(
            "routing",
            "hosts do not forward traffic of others unless marked as transit",
            got=got,
            remedy="mark hosts as transit (host_transit) or join them by switches",
        )
    # Components in the order of their lowest vertex.
    _, lowest, size = np.unique(label, return_index=True, return_counts=True)
    by_vertex = np.argsort(lowest)
    parts = []
    for c in by_vertex[:4]:
        extra = f" and {size[c] - 1} more" if size[c] > 1 else ""
        parts.append(f"{topology.vertex_name(int(lowest[c]))}{extra}")
    if n_parts > 4:
        parts.append("...")
    return InputError(
        "routing",
        "every pair that communicates must be joined",
        got=got,
        remedy=f"the topology has {count(n_parts, 'component')}: {'; '.join(parts)}",
    )
