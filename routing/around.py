"""Shortest paths that avoid dead links."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import csr_order, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.routing.pathset import Paths
from netsim.routing.registry import hosts
from netsim.topologies import Topology

__all__ = ["paths_around", "shortest_walks"]


def paths_around(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    dead: npt.ArrayLike,
    *,
    seed: int = 0,
) -> Paths:
    """Shortest paths over the links that are left; an empty path where there is none.

    One of the shortest next links is taken at each switch by a hash of the pair, as in ECMP.

    Parameters
    ----------
    topology : Topology
    source, destination : array_like of int, shape (n,)
        Hosts.
    dead : array_like of bool, shape (n_links,)
    seed : int
        For the hash.

    Raises
    ------
    InputError
        A host does not exist, or ``dead`` has another length.

    Notes
    -----
    One breadth-first search per destination host.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> net = dragonfly(p=2, a=4, h=2)
    >>> dead = np.zeros(net.n_links, dtype=bool)
    >>> direct = paths_around(net, [0], [5], dead)
    >>> dead[direct[0][1]] = True
    >>> direct.hops.tolist(), paths_around(net, [0], [5], dead).hops.tolist()
    ([3], [4])
    """
    src, dst = hosts(topology, source, destination)
    return shortest_walks(topology, src, dst, dead, seed=seed)


def shortest_walks(
    topology: Topology, source: npt.ArrayLike, destination: npt.ArrayLike, dead: npt.ArrayLike, *, seed: int = 0
) -> Paths:
    """Like `paths_around`, between any vertices, switches included; an empty path from a vertex to itself too.

    Parameters
    ----------
    topology : Topology
    source, destination : array_like of int, shape (n,)
        Vertices.
    dead : array_like of bool, shape (n_links,)
    seed : int
    """
    from netsim.routing import _kernels

    src, dst = np.asarray(source, dtype=np.int64), np.asarray(destination, dtype=np.int64)
    lost = np.asarray(dead, dtype=bool)
    if lost.shape != (topology.n_links,):
        raise InputError("dead links", f"need one value per link ({topology.n_links})", got=f"shape {lost.shape}")
    n = topology.n_vertices
    transit = np.ones(n, dtype=np.uint8)
    transit[: topology.n_hosts] = topology.host_transit
    incoming = topology.in_link[~lost[topology.in_link]]
    outgoing = topology.out_link[~lost[topology.out_link]]
    root, which = np.unique(dst, return_inverse=True)
    pair_ptr, order = csr_order(which, root.size)
    word = hash64(seed, src, dst)[order] >> np.uint64(32)
    hops, link = _kernels.shortest(
        frozen(csr_ptr(np.bincount(topology.link_dst[incoming], minlength=n)), np.int64),
        frozen(incoming, np.int64),
        frozen(csr_ptr(np.bincount(topology.link_src[outgoing], minlength=n)), np.int64),
        frozen(outgoing, topology.out_link.dtype),
        topology.link_src,
        topology.link_dst,
        frozen(transit, np.uint8),
        frozen(root, np.int64),
        frozen(pair_ptr, np.int64),
        frozen(src[order], np.int64),
        frozen(word, np.int64),
        frozen(hash64(seed, np.arange(n)) >> np.uint64(32), np.int64),
        True,
    )
    found = Paths(ptr=frozen(csr_ptr(np.maximum(hops, 0)), np.int64), link=frozen(link, np.int32))
    back = np.empty(order.size, dtype=np.int64)
    back[order] = np.arange(order.size)
    return found.take(back)
