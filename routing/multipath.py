"""Flows on several paths at once: sprayed in fixed parts, or as subflows that share for themselves; and how paths use a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.rng import hash64
from netsim.routing.algorithms import labels
from netsim.routing.pathset import Paths, link_loads
from netsim.routing.registry import hosts, paths
from netsim.routing.throughput import network_links
from netsim.topologies import Topology

__all__ = ["Sprayed", "path_use", "spray", "sub_labels", "subflows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sprayed:
    """Links of flows that send fixed parts over several paths, as the engine's routes take them.

    Attributes
    ----------
    ptr : int64 array, shape (n_flows + 1,)
    link : int32 array
        Each link of a flow once, ascending.
    use : float64 array
        Part of the flow's rate on the link: the number of its paths over the link, by all its paths.
    """

    ptr: Int64
    link: Int32
    use: Float64


def subflows(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    k: int,
    routing: str = "ecmp",
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Paths:
    """k paths for each flow, drawn by a routing that hashes labels; rows ``k i .. k i + k - 1`` are those of flow i.

    Give each a k-th of the flow's size and weight, so that a split flow gets no more than a whole one where both compete. Draws may
    coincide.

    Parameters
    ----------
    topology : Topology
    source, destination, flow, seed
        See :func:`netsim.routing.paths`.
    k : int
        Paths per flow, 1 or more.
    routing : str
        ``ecmp``, ``valiant-group``, ``k-shortest``, ...; routings that draw nothing give k times the same path.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> len(subflows(fat_tree(4), [0, 1], [14, 15], k=4))
    8
    """
    if int(k) != k or k < 1:
        raise InputError("routing", "the number of paths per flow must be a whole number, 1 or more", got=k)
    s, d = hosts(topology, source, destination)
    k = int(k)
    label = sub_labels(labels(flow, s.size), k)
    return paths(topology, np.repeat(s, k), np.repeat(d, k), routing=routing, flow=label, seed=seed)


def sub_labels(label: Int64, k: int) -> Int64:
    """Labels of k subflows for each flow, int64 of shape (n k,); the first keeps the label: one path is the routing itself."""
    number = np.tile(np.arange(k), label.size)
    each = np.repeat(label, k)
    mixed: Int64 = np.where(number == 0, each, hash64(0, each, number).view(np.int64))
    return mixed


def spray(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    k: int,
    routing: str = "ecmp",
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Sprayed:
    """A flow sends a k-th of its bytes over each of k paths; its slowest link governs the whole.

    Parameters are those of `subflows`. For packet spraying in turn; the flow stays one variable of the sharing, which uses less of
    each link.

    Examples
    --------
    Two cables between the switches, host links of the same speed: what is sprayed uses each cable in part.

    >>> from netsim.topologies import xgft
    >>> found = spray(xgft(m=(1, 2), w=(1, 2)), [0], [1], k=64)
    >>> found.link.size, float(found.use.sum())
    (6, 4.0)
    """
    s, d = hosts(topology, source, destination)
    each = subflows(topology, s, d, k=k, routing=routing, flow=flow, seed=seed)
    owner = np.repeat(np.arange(len(each)) // int(k), each.hops)
    key, count = np.unique(owner * topology.n_links + each.link, return_counts=True)
    of, link = np.divmod(key, max(topology.n_links, 1))
    return Sprayed(
        ptr=frozen(csr_ptr(np.bincount(of, minlength=s.size)), np.int64),
        link=frozen(link, np.int32),
        use=frozen(count / k, np.float64),
    )


def path_use(
    topology: Topology,
    routes: Paths,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    weight: npt.ArrayLike | None = None,
) -> dict[str, Any]:
    """How paths use a network: how many are minimal, how long they are, how evenly they load each layer.

    Parameters
    ----------
    topology : Topology
    routes : Paths
    source, destination : array_like of int, shape (n_paths,)
    weight : array_like of float, shape (n_paths,), optional
        What each path carries, such as bytes; 1 by default.

    Returns
    -------
    dict
        ``minimal_share``: part of the weight on paths no longer than ``minimal`` would be; ``mean_hops``, ``max_hops`` with the links of
        hosts; ``layers``: mean and greatest weight per link, by layer, between switches; ``max_load`` over ``mean_load`` of all
        these links.

    Examples
    --------
    >>> from netsim.routing import paths
    >>> from netsim.topologies import dragonfly
    >>> net = dragonfly(p=1, a=2, h=1)
    >>> path_use(net, paths(net, range(6), [2, 3, 4, 5, 0, 1]), range(6), [2, 3, 4, 5, 0, 1])["layers"]["global"]
    {'mean': 1.0, 'max': 2.0}
    """
    s, d = hosts(topology, source, destination)
    moves = s != d
    each = np.where(moves, 1.0 if weight is None else np.asarray(weight, dtype=np.float64), 0.0)
    total = float(each.sum())
    shortest = paths(topology, s, d, routing="minimal").hops
    load = link_loads(topology, routes, weight=each)
    inner = network_links(topology)
    layers = {}
    for i, name in enumerate(topology.layer_names):
        mine = load[inner & (topology.link_layer == i)]
        if mine.size:
            layers[name] = {"mean": float(mine.mean()), "max": float(mine.max())}
    between = load[inner]
    return {
        "paths": int(moves.sum()),
        "minimal_share": float(each[routes.hops <= shortest].sum()) / total if total > 0 else 1.0,
        "mean_hops": float((each * routes.hops).sum()) / total if total > 0 else 0.0,
        "max_hops": int(routes.hops.max(initial=0)),
        "mean_load": float(between.mean()) if between.size else 0.0,
        "max_load": float(between.max(initial=0.0)),
        "layers": layers,
    }
