"""The registry of routings, the front function that chooses one, and the default of each family of topologies."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.routing.pathset import Paths
from netsim.topologies import Topology

__all__ = ["Routing", "default_routing", "hosts", "paths", "routings"]


class Routing(Protocol):
    """A routing: one path for each (source, destination, flow), all pairs in one call."""

    def __call__(
        self,
        topology: Topology,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        *,
        flow: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> Paths:
        """Paths of all pairs; ``flow`` labels tell apart flows of one pair where the routing hashes them."""
        ...


routings: Registry[Routing] = Registry("routing", "netsim.routings")

_DEFAULTS = {
    "dragonfly": "minimal",
    "fat_tree": "d-mod-k",
    "k_ary_n_tree": "d-mod-k",
    "xgft": "d-mod-k",
    "torus": "dimension-order",
    "mesh": "dimension-order",
    # Several shortest paths, or parallel links, of which minimal would always take the first.
    **dict.fromkeys(("hyperx", "full_mesh", "twisted_torus", "dragonfly_plus", "cascade", "rail_optimized"), "ecmp"),
    **dict.fromkeys(("jellyfish", "xpander", "bcube"), "ecmp"),
}


def default_routing(topology: Topology) -> str:
    """Name of the routing used when none is chosen.

    Trees: ``d-mod-k``; torus and mesh: ``dimension-order``; HyperX, full mesh, twisted torus, Dragonfly+,
    rail-optimised clusters, Jellyfish, Xpander and BCube, which have several shortest paths or parallel links: ``ecmp``;
    all others: ``minimal``.

    Examples
    --------
    >>> from netsim.topologies import dragonfly, star
    >>> default_routing(dragonfly(p=2, a=4, h=2)), default_routing(star(4))
    ('minimal', 'minimal')
    """
    return _DEFAULTS.get(topology.family, "minimal")


def hosts(topology: Topology, source: npt.ArrayLike, destination: npt.ArrayLike) -> tuple[Int64, Int64]:
    """Sources and destinations as two int64 arrays of one length, checked to be hosts."""
    ends = [np.atleast_1d(np.asarray(values)) for values in (source, destination)]
    for name, values in zip(("source", "destination"), ends, strict=True):
        if values.size and not np.issubdtype(values.dtype, np.integer):
            raise InputError("routing", f"{name} must be host numbers", got=f"{values.dtype} values")
        bad = np.flatnonzero((values < 0) | (values >= topology.n_hosts))
        if bad.size:
            raise InputError("routing", f"{name} must be one of the {topology.n_hosts} hosts", got=int(values[bad[0]]))
    try:
        pair = np.broadcast_arrays(ends[0].astype(np.int64), ends[1].astype(np.int64))
    except ValueError:
        raise InputError(
            "routing", "sources and destinations must be equally many", got=f"{ends[0].size} and {ends[1].size}"
        ) from None
    return pair[0], pair[1]


def paths(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    routing: str | None = None,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """One path per (source, destination, flow) by a named routing.

    Parameters
    ----------
    topology : Topology
    source, destination : array_like of int, shape (n,)
        Hosts. A path from a host to itself is empty.
    routing : str, optional
        Name in ``netsim.routing.routings``; by default the one of :func:`default_routing`.
    flow : array_like of int, shape (n,), optional
        Labels of flows; ``ecmp`` may send flows of one pair with different labels over different paths.
    seed : int
        Seed of the hash of ``ecmp``.

    Raises
    ------
    InputError
        Unknown routing, a routing that does not fit the topology, no such host, or pairs that are not joined.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> net = dragonfly(p=2, a=4, h=2)
    >>> route = paths(net, [0, 0, 0], [1, 71, 0])
    >>> route.hops.tolist()
    [2, 3, 0]
    >>> [net.link_name(link) for link in route[1]]  # doctest: +NORMALIZE_WHITESPACE
    ['host 0 -> group 0 router 0', 'group 0 router 0 -> group 8 router 3', 'group 8 router 3 -> host 71']
    """
    chosen = routings[default_routing(topology) if routing is None else routing]
    return chosen(topology, source, destination, flow=flow, seed=seed)
