"""Distances in networks of known structure, counted instead of searched: exact at any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.topologies.distances import Distances, distances
from netsim.topologies.hyperxs import FULLY_CONNECTED, hyperx_shape
from netsim.topologies.topology import Topology
from netsim.topologies.trees import tree_shape

__all__ = ["distances_by_structure"]

_MOST_SOURCES = 512
# Arrangements in which turning all groups by one gives the same network.
_TURNABLE = ("palmtree", "relative", "circulant")


def distances_by_structure(topology: Topology, chosen: npt.NDArray[np.bool_]) -> Distances | None:
    """Distances between the chosen switches from what is known of the family; None where nothing is.

    Parameters
    ----------
    topology : Topology
    chosen : bool array, shape (n_switches,)
        All switches or, in a tree, those of the lowest level.

    Notes
    -----
    Torus, mesh and HyperX: distances add up over the dimensions, so that their histogram is the convolution of those
    of the rings, lines or full meshes. Twisted torus: those of one switch times the number of switches. Trees: see
    :func:`_tree`. Slim Fly and PolarFly: two that are not joined are 2 apart. Dragonfly: in the arrangements that look
    the same from every group, the distances from the routers of one group, searched, times the number of groups.
    Dragonfly+: 2 between leaves of one group, 3 between groups.

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> distances_by_structure(torus((3, 3)), np.ones(9, dtype=bool)).histogram.tolist()
    [0, 36, 36]
    """
    params, everything = topology.params, bool(chosen.all())
    if topology.family in ("torus", "mesh") and everything:
        return _grid([_line(side, wrap=topology.family == "torus") for side in params["dims"]])
    if topology.family == "twisted_torus" and everything:
        # Switches are the elements of an abelian group and links its generators: all look alike.
        one = distances(topology, chosen, sources=np.zeros(1, dtype=np.int64))
        histogram = one.histogram * topology.n_switches
        return Distances(histogram=histogram, unreachable=0, exact=True, method="symmetry of the switches")
    if topology.family in FULLY_CONNECTED and everything:
        return _grid([np.array([side, side * (side - 1)]) for side in hyperx_shape(topology)[0]])
    if topology.family in ("fat_tree", "k_ary_n_tree", "xgft"):
        m, w = tree_shape(topology)
        lowest = math.prod(m[1:]) * w[0]
        if everything or (chosen[:lowest].all() and not chosen[lowest:].any()):
            return _tree(m, w, levels=len(m) if everything else 1)
    if topology.family in ("slim_fly", "polarfly") and everything:
        n = topology.n_switches
        joined = int(((topology.link_src >= topology.n_hosts) & (topology.link_dst >= topology.n_hosts)).sum())
        histogram = np.array([0, joined, n * (n - 1) - joined], dtype=np.int64)
        return Distances(histogram=histogram, unreachable=0, exact=True, method="closed form")
    if topology.family == "dragonfly" and everything:
        a, g = int(params["a"]), int(params["g"])
        if params["arrangement"] in _TURNABLE and a <= _MOST_SOURCES:
            one = distances(topology, chosen, sources=np.arange(a, dtype=np.int64))
            return Distances(
                histogram=one.histogram * g,
                unreachable=one.unreachable * g,
                exact=True,
                method="symmetry of the groups",
            )
    if topology.family == "dragonfly_plus":
        l, s, g = (int(params[key]) for key in ("l", "s", "g"))
        leaf = np.arange(topology.n_switches) % (l + s) < l
        if np.array_equal(chosen, leaf):
            # Every leaf is joined with every spine, so that any link of two groups is 3 links from leaf to leaf.
            histogram = np.array([0, 0, g * l * (l - 1), g * l * (g - 1) * l], dtype=np.int64)
            return Distances(histogram=_without_end(histogram), unreachable=0, exact=True, method="closed form")
    return None


def _line(side: int, *, wrap: bool) -> Int64:
    """Ordered pairs at each distance, equal ones included, on a ring or a line."""
    step = np.arange(side, dtype=np.int64)
    if wrap:
        return side * np.bincount(np.minimum(step, side - step)).astype(np.int64)
    return np.where(step > 0, 2 * (side - step), side)


def _without_end(histogram: Int64) -> Int64:
    """The histogram up to the last distance that occurs, with the entry of distance 0 in any case."""
    return histogram[: 1 + max(np.flatnonzero(histogram), default=0)]


def _grid(of_dimension: Sequence[Int64]) -> Distances:
    histogram = np.ones(1, dtype=np.int64)
    for one in of_dimension:
        histogram = np.convolve(histogram, one)
    histogram[0] = 0
    return Distances(histogram=_without_end(histogram), unreachable=0, exact=True, method="closed form")


def _tree(m: tuple[int, ...], w: tuple[int, ...], *, levels: int) -> Distances:
    """Distances between the switches of levels 1 to ``levels`` of an XGFT.

    Notes
    -----
    A node of level i is written with a digit below m_p for each p > i and one below w_p for each p <= i; crossing
    between levels p - 1 and p sets digit p anew. So a way between two nodes has to span the levels lo .. hi, lo + 1 the
    lowest digit in which their w digits differ and hi the highest in which their m digits differ, and the shortest such
    way from level i to level j >= i has 2 (hi - lo) - (j - i) links. It exists when lo >= 1: hosts do not forward.
    """
    h = len(m)
    # Counts are Python numbers: the square of the number of switches may come near 2^63.
    histogram = [0] * (4 * h + 1)
    unreachable = 0
    for i in range(1, levels + 1):
        for j in range(i, levels + 1):
            ordered = 1 if i == j else 2
            nodes = math.prod(m[i:]) * math.prod(w[:i]) * ordered
            # Of the digits i + 1 .. j one end has its m digits and the other its w digits: any will do.
            free = math.prod(w[i:j])
            for lo, low in _first_difference(w[:i]):
                for up, high in _first_difference(m[j:][::-1]):
                    pairs = nodes * low * free * high
                    begin, hi = i if lo is None else lo, j if up is None else h - up
                    if begin == 0:
                        unreachable += pairs
                    else:
                        histogram[2 * (hi - begin) - (j - i)] += pairs
    # A node and itself.
    histogram[0] = 0
    last = max((d for d, pairs in enumerate(histogram) if pairs), default=0)
    counts: Int64 = np.array(histogram[: last + 1], dtype=np.int64)
    return Distances(histogram=counts, unreachable=unreachable, exact=True, method="closed form")


def _first_difference(radix: tuple[int, ...]) -> list[tuple[int | None, int]]:
    """Strings of digits by the place of their first difference from a given one (None: equal), and how many there are.

    >>> _first_difference((2, 3))
    [(None, 1), (0, 3), (1, 2)]
    """
    suffix = [math.prod(radix[at:]) for at in range(len(radix) + 1)]
    return [(None, 1), *((at, whole - rest) for at, (whole, rest) in enumerate(pairwise(suffix)))]
