"""Up*/down* on any graph: deadlock-free without virtual channels, at the price of longer paths and a crowded root."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.routing.graphs import shortest_paths
from netsim.routing.pathset import Paths
from netsim.routing.registry import hosts, routings
from netsim.topologies import Topology

__all__ = ["goes_up", "up_down"]


@routings.register("up-down")
def up_down(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """The shortest path that first only climbs towards a root switch and then only descends.

    The root is the switch with most links. Hosts do not forward, even where marked as transit. Among equal paths the one with the
    lowest link number at each step. Parameters and errors: see :func:`netsim.routing.paths`. Source: Schroeder et al.,
    "Autonet: a High-Speed, Self-Configuring Local Area Network", IEEE JSAC 9(8), 1991.

    Examples
    --------
    On a ring of five with root 0, the way from 2 to 3 goes down (equal hops to the root, higher number), so that from 2 to 4 leads not
    over 3 but over the root:

    >>> from netsim.topologies import torus
    >>> net = torus((5,))
    >>> up_down(net, [2, 2, 1], [3, 4, 1]).hops.tolist()
    [3, 5, 0]
    """
    s, d = hosts(topology, source, destination)
    n, n_hosts = topology.n_vertices, topology.n_hosts
    up = goes_up(topology)
    # Two copies of every vertex: still climbing, and descending. Climbing hosts are the sources, descending ones the destinations.
    number = np.arange(n, dtype=np.int64)
    climbing = np.where(number < n_hosts, number, number + n_hosts)
    descending = np.where(number < n_hosts, number + n_hosts, number + n)
    rise, fall = np.flatnonzero(up), np.flatnonzero(~up)
    of_link = np.concatenate([rise, fall, fall])
    src, dst = topology.link_src, topology.link_dst
    twice = Topology.from_links(
        n_hosts=2 * n_hosts,
        n_switches=2 * topology.n_switches,
        source=np.concatenate([climbing[src[rise]], climbing[src[fall]], descending[src[fall]]]),
        destination=np.concatenate([climbing[dst[rise]], descending[dst[fall]], descending[dst[fall]]]),
    )
    moves = np.flatnonzero(s != d)
    try:
        found = shortest_paths(twice, s[moves], d[moves] + n_hosts)
    except InputError:
        # In the words of the network itself: where there is any path, there is one over the root.
        shortest_paths(topology, s, d)
        raise InputError(
            "routing up-down",
            "every cable must lead both ways, and hosts do not forward",
            got="pairs without such a path",
        ) from None
    hops = np.zeros(s.size, dtype=np.int64)
    hops[moves] = found.hops
    return Paths(ptr=frozen(csr_ptr(hops), np.int64), link=frozen(of_link[found.link], np.int32))


def goes_up(topology: Topology) -> npt.NDArray[np.bool_]:
    """Which links climb: towards fewer hops from the root, at equal hops towards lower numbers; out of hosts always.

    Returns
    -------
    bool array, shape (n_links,)

    Raises
    ------
    InputError
        The network has no switch.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n_hosts, n = topology.n_hosts, topology.n_vertices
    if not topology.n_switches:
        raise InputError("routing up-down", "needs a switch as root", got="none", remedy="use minimal or ecmp")
    degree = np.bincount(topology.link_src, minlength=n)[n_hosts:]
    root = n_hosts + int(np.argmax(degree))
    inner = np.flatnonzero((topology.link_src >= n_hosts) & (topology.link_dst >= n_hosts))
    graph = coo_array((np.ones(inner.size), (topology.link_src[inner], topology.link_dst[inner])), shape=(n, n)).tocsr()
    level = shortest_path(graph, directed=False, unweighted=True, indices=root)
    level[:n_hosts] = np.inf
    src, dst = topology.link_src, topology.link_dst
    lower = (level[dst] < level[src]) | ((level[dst] == level[src]) & (dst < src))
    found: npt.NDArray[np.bool_] = np.where(src < n_hosts, dst >= n_hosts, (dst >= n_hosts) & lower)
    return found
