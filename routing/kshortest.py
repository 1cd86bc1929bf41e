"""One of the k shortest paths for each flow, by hash: what MPTCP and random-graph networks are run with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int32, Int64, csr_gather, csr_ptr, frozen
from netsim.core.rng import hash64
from netsim.routing.algorithms import labels
from netsim.routing.graphs import unreachable
from netsim.routing.pathset import Paths
from netsim.routing.patterns import switch_of_hosts
from netsim.routing.registry import hosts, routings
from netsim.topologies import Topology

__all__ = ["k_shortest", "shortest_sets"]


@routings.register("k-shortest")
def k_shortest(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
    k: int = 8,
) -> Paths:
    """One of the 8 shortest paths without a loop, by a hash of the flow and the seed; longer paths than minimal take part.

    Paths are ordered by their number of links, then by link numbers. For networks of up to some thousand switches. Parameters and errors:
    see :func:`netsim.routing.paths`; in Python ``k`` chooses how many. Source: Singla et al., "Jellyfish: Networking Data
    Centers Randomly", NSDI 2012.

    Examples
    --------
    On a ring of four, two ways to the neighbour and two across:

    >>> from netsim.topologies import torus
    >>> net = torus((4,))
    >>> sorted({int(k_shortest(net, 0, 1, flow=[i]).hops[0]) for i in range(20)})
    [3, 5]
    """
    s, d = hosts(topology, source, destination)
    label = labels(flow, s.size)
    n_hosts = topology.n_hosts
    home = switch_of_hosts(topology)
    apart = np.flatnonzero(home[s] != home[d])
    key, of_row = np.unique(home[s[apart]] * topology.n_vertices + home[d[apart]], return_inverse=True)
    start, end = np.divmod(key, topology.n_vertices)
    found, ptr, link = shortest_sets(topology, start, end, k)
    if np.any(found == 0):
        lost = apart[found[of_row] == 0]
        raise unreachable(topology, s[lost], d[lost])
    chosen = (hash64(seed, s, d, label)[apart] % found[of_row].astype(np.uint64)).astype(np.int64)
    path = csr_ptr(found)[of_row] + chosen
    inner_ptr, at = csr_gather(ptr, path)
    inner = link[at]

    # Around it the links of hosts that are folded into their switch.
    moves = s != d
    up, down = moves & (home[s] >= n_hosts), moves & (home[d] >= n_hosts)
    middle = np.zeros(s.size, dtype=np.int64)
    middle[apart] = np.diff(inner_ptr)
    whole = csr_ptr(middle + up + down)
    out = np.empty(whole[-1], dtype=np.int32)
    out[whole[:-1][up]] = topology.out_link[topology.out_ptr[s[up]]]
    out[whole[1:][down] - 1] = topology.in_link[topology.in_ptr[d[down]]]
    row = np.repeat(apart, middle[apart])
    out[whole[row] + up[row] + np.arange(row.size) - np.repeat(inner_ptr[:-1], middle[apart])] = inner
    return Paths(ptr=frozen(whole, np.int64), link=frozen(out, np.int32))


def shortest_sets(topology: Topology, start: Int64, end: Int64, k: int) -> tuple[Int64, Int64, Int32]:
    """The k shortest loop-free paths between vertices.

    Parameters
    ----------
    start, end : int64 array, shape (n,)
        Different vertices.
    k : int

    Returns
    -------
    found : int64 array, shape (n,)
        Paths of each pair, k or fewer.
    ptr, link
        All paths in CSR, pair by pair, each pair's in order.
    """
    from netsim.routing import _kernels

    transit = np.ones(topology.n_vertices, dtype=np.uint8)
    transit[: topology.n_hosts] = topology.host_transit
    found, hops, link = _kernels.k_shortest(
        topology.in_ptr,
        topology.in_link,
        topology.out_ptr,
        topology.out_link,
        topology.link_src,
        topology.link_dst,
        frozen(transit, np.uint8),
        frozen(start, np.int64),
        frozen(end, np.int64),
        int(k),
    )
    return found, csr_ptr(hops), link
