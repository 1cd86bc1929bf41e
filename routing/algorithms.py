"""The built-in routings; each uses the structure of the topology where it is known and searches the graph elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.routing.cubes import cube_paths
from netsim.routing.dragonflies import dragonfly_minimal
from netsim.routing.graphs import shortest_paths
from netsim.routing.grids import dimension_order_paths, grid_spread_paths
from netsim.routing.pathset import Paths
from netsim.routing.rails import rail_paths
from netsim.routing.registry import hosts, routings
from netsim.routing.trees import d_mod_k_ports, tree_paths
from netsim.topologies import Topology
from netsim.topologies.trees import tree_shape

__all__ = ["d_mod_k", "dimension_order", "ecmp", "labels", "minimal", "needs", "s_mod_k"]

_TREES = ("fat_tree", "k_ary_n_tree", "xgft")
_GRIDS = ("torus", "mesh")
# The same shortest paths as by search on the whole graph, sooner.
_SEARCHES = {"bcube": cube_paths, "rail_optimized": rail_paths}


def _star(topology: Topology, source: Int64, destination: Int64) -> Paths:
    moves = source != destination
    return Paths.from_columns(
        [
            np.where(moves, topology.out_link[topology.out_ptr[source]], -1),
            np.where(moves, topology.in_link[topology.in_ptr[destination]], -1),
        ]
    )


def needs(name: str, what: str, topology: Topology, remedy: str = "use minimal or ecmp") -> InputError:
    """The error of a routing that does not fit the topology."""
    return InputError(f"routing {name}", f"needs {what}", got=f"a {topology.family}", remedy=remedy)


@routings.register("minimal")
def minimal(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """One minimal path per pair of hosts, always the same.

    Dragonfly: local, global, local; where two groups have several links a hash of the pair chooses. Trees: as
    ``d-mod-k``. Torus and mesh: as ``dimension-order``. Other graphs: fewest links, and among equals the lowest link
    number at each step from the source. ``flow`` and ``seed`` change nothing. Parameters and errors: see
    :func:`netsim.routing.paths`.

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
    if topology.family in _TREES:
        return tree_paths(topology, s, d, d_mod_k_ports(d, tree_shape(topology)[1]))
    if topology.family in _GRIDS:
        return dimension_order_paths(topology, s, d)
    return _SEARCHES.get(topology.family, shortest_paths)(topology, s, d)


@routings.register("dimension-order")
def dimension_order(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Torus and mesh: correct one dimension after the other, each the short way round.

    Half way round an even ring the direction is chosen by the parity of coordinates, so that uniform traffic splits
    evenly. Parameters and errors: see :func:`netsim.routing.paths`. Source: Sullivan, Bashkow, ISCA 1977.

    Examples
    --------
    >>> from netsim.topologies import mesh
    >>> net = mesh((2, 2))
    >>> [net.vertex_name(int(net.link_dst[link])) for link in dimension_order(net, 0, 3)[0]]
    ['switch (0, 0)', 'switch (1, 0)', 'switch (1, 1)', 'host 3']
    """
    s, d = hosts(topology, source, destination)
    if topology.family not in _GRIDS:
        raise needs("dimension-order", "a torus or mesh", topology)
    return dimension_order_paths(topology, s, d)


@routings.register("d-mod-k")
def d_mod_k(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Trees: the ports up spell the destination's number, so that no shift permutation collides in a full tree.

    Port at level l (0: the host): floor(destination / (w_1 ... w_l)) mod w_(l+1). Parameters and errors: see
    :func:`netsim.routing.paths`. Source: Zahavi, Technion CCIT 776, 2010.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> net = fat_tree(4)
    >>> [net.vertex_name(int(net.link_dst[link])) for link in d_mod_k(net, 0, 6)[0]]  # doctest: +NORMALIZE_WHITESPACE
    ['pod 0 edge 0', 'pod 0 aggregation 0', 'core 2', 'pod 1 aggregation 0', 'pod 1 edge 1', 'host 6']
    """
    s, d = hosts(topology, source, destination)
    if topology.family not in _TREES:
        raise needs("d-mod-k", "a tree (fat_tree, k_ary_n_tree, xgft)", topology)
    return tree_paths(topology, s, d, d_mod_k_ports(d, tree_shape(topology)[1]))


@routings.register("s-mod-k")
def s_mod_k(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Trees: as ``d-mod-k``, but the ports up spell the source's number: all of a host's traffic climbs one way.

    Parameters and errors: see :func:`netsim.routing.paths`. Source: Rodriguez et al., "Oblivious Routing Schemes in
    Extended Generalized Fat Tree Networks", HiPerF 2009.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> net = fat_tree(4)
    >>> [net.vertex_name(int(net.link_dst[s_mod_k(net, 2, d)[0][2]])) for d in (5, 6)]
    ['core 2', 'core 2']
    """
    s, d = hosts(topology, source, destination)
    if topology.family not in _TREES:
        raise needs("s-mod-k", "a tree (fat_tree, k_ary_n_tree, xgft)", topology)
    return tree_paths(topology, s, d, d_mod_k_ports(s, tree_shape(topology)[1]))


@routings.register("ecmp")
def ecmp(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """Each switch picks one of the next links of minimal paths by a hash of the flow, the seed and the switch.

    The switch is part of the hash, so that choices at successive switches are independent (no polarisation). A flow,
    which is (source, destination, flow label), keeps its path. Dragonfly: the choice is among the links of the two
    groups, on the canonical local-global-local path. Parameters and errors: see :func:`netsim.routing.paths`. Source:
    C. Hopps, RFC 2992.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> net = fat_tree(4)
    >>> routes = ecmp(net, [0] * 64, [15] * 64, flow=range(64))
    >>> sorted({net.vertex_name(int(net.link_dst[routes[i][2]])) for i in range(64)})
    ['core 0', 'core 1', 'core 2', 'core 3']
    """
    s, d = hosts(topology, source, destination)
    word = hash64(seed, s, d, labels(flow, s.size))
    if topology.family == "star":
        return _star(topology, s, d)
    if topology.family == "dragonfly":
        return dragonfly_minimal(topology, s, d, word=word)
    if topology.family in _TREES:
        _, w = tree_shape(topology)

        def ports(level: int, rows: Int64, node: Int64) -> Int64:
            return (hash64(level, word[rows].view(np.int64), node) % np.uint64(w[level])).astype(np.int64)

        return tree_paths(topology, s, d, ports)
    if topology.family in _GRIDS:
        return grid_spread_paths(topology, s, d, word=word)
    search = _SEARCHES.get(topology.family, shortest_paths)
    return search(topology, s, d, word=(word >> np.uint64(32)).astype(np.int64), seed=seed)


def labels(flow: npt.ArrayLike | None, n: int) -> Int64:
    """Flow labels as int64, shape (n,); without labels all flows of a pair are one."""
    if flow is None:
        return np.zeros(n, dtype=np.int64)
    label = np.asarray(flow)
    if label.size and not np.issubdtype(label.dtype, np.integer):
        raise InputError("routing", "flow labels must be whole numbers", got=f"{label.dtype} values")
    if label.shape not in ((), (n,)):
        raise InputError("routing", f"flow labels must be one per pair, {n}", got=label.size)
    return np.broadcast_to(label, (n,)).astype(np.int64)
