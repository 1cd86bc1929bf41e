"""Bisection: the least capacity, one way, between two halves of the hosts. By formula, by trial, or between bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64
from netsim.core.rng import stream
from netsim.topologies.hyperxs import FULLY_CONNECTED, hyperx_shape
from netsim.topologies.topology import Topology
from netsim.topologies.trees import tree_shape

__all__ = ["Bisection", "bisection"]

_ENUMERATE_UP_TO = 20
_DENSE_UP_TO = 600


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """Bounds on the bisection, in bytes per second one way; equal where it is known.

    Attributes
    ----------
    lower_bytes_per_s, upper_bytes_per_s : float
        Proven lower bound (0 if none is known) and the capacity of a real cut (inf if none is known).
    method : str
        How it was found.
    """

    lower_bytes_per_s: float
    upper_bytes_per_s: float
    method: str

    @property
    def exact(self) -> bool:
        """The two bounds agree."""
        return bool(np.isclose(self.lower_bytes_per_s, self.upper_bytes_per_s, rtol=1e-9))


def bisection(topology: Topology) -> Bisection | None:
    """Bisection of the network; None where it is not defined here (hosts unevenly spread over the switches, one-way links).

    Halves are halves of the hosts; where all switches have equally many, halves of the switches, whose hosts stay with
    them.

    Notes
    -----
    Star: half the host links. Trees: with subtrees of level l joined to the rest by n_l links of capacity c_l, min
    over l of n_l c_l / 2; a cut between subtrees attains it when their number is even, and spreading any permutation
    evenly over the links shows that no cut is smaller. Torus and mesh: the cut across the longest side, exact when
    that side is even (F. T. Leighton 1992, section 1.9; Azizoglu, Egecioglu 2003). HyperX, hypercube, full mesh: see
    :func:`_fully_connected`. Others: all halves are tried up to 20 switches; above, the lower bound is the spectral
    one, lambda_2 a b / n, and the upper one a cut improved by swaps (Kernighan, Lin 1970).
    """
    if topology.n_hosts == 0 or topology.n_switches == 0:
        return None
    if topology.family == "star":
        host = np.sort(topology.link_capacity_bytes_per_s[topology.link_src < topology.n_hosts])
        value = float(host[: topology.n_hosts // 2].sum())
        return Bisection(lower_bytes_per_s=value, upper_bytes_per_s=value, method="half of the host links")
    if topology.family in ("fat_tree", "k_ary_n_tree", "xgft"):
        return _tree(topology)
    weights = _uniform_weights(topology)
    if weights is None:
        return None
    n = topology.n_switches
    if topology.family in ("torus", "mesh"):
        found = _grid(topology)
        if found is not None:
            return found
    if topology.family in FULLY_CONNECTED:
        found = _fully_connected(topology, weights)
        if found is not None:
            return found
    if n <= _ENUMERATE_UP_TO:
        value = _enumerate(weights.toarray(), n)
        return Bisection(lower_bytes_per_s=value, upper_bytes_per_s=value, method="all halves tried")
    side = np.arange(n) < n // 2
    if n > _DENSE_UP_TO:
        value = _cut(weights, side)
        return Bisection(lower_bytes_per_s=0.0, upper_bytes_per_s=value, method="cut in the middle of the numbering")
    dense = weights.toarray()
    lower, fiedler = _spectral(dense)
    starts = [side, np.argsort(np.argsort(fiedler, kind="stable")) < n // 2]
    draw = stream(0, "topologies", "bisection")
    starts += [draw.permutation(n) < n // 2 for _ in range(4)]
    upper = min(_improve(dense, start) for start in starts)
    return Bisection(
        lower_bytes_per_s=min(lower, upper), upper_bytes_per_s=upper, method="spectral bound and improved cut"
    )


def _uniform_weights(topology: Topology) -> Any:
    """Symmetric sparse matrix of capacities between switches, or None where a half of the hosts is no half of switches."""
    from scipy.sparse import coo_array

    n, base = topology.n_switches, topology.n_hosts
    ends = np.minimum(topology.link_src, topology.link_dst), np.maximum(topology.link_src, topology.link_dst)
    beside = ends[0] < base
    if np.any(ends[1][beside] < base):
        return None
    up = beside & (topology.link_src < base)
    per_switch = np.bincount(topology.link_dst[up] - base, minlength=n)
    if np.any(per_switch != per_switch[0]) or up.sum() != base or per_switch[0] == 0:
        return None
    rows, columns = topology.link_src[~beside] - base, topology.link_dst[~beside] - base
    matrix = coo_array((topology.link_capacity_bytes_per_s[~beside], (rows, columns)), shape=(n, n)).tocsr()
    if not np.all(np.isfinite(matrix.data)) or abs(matrix - matrix.T).max() > 0:
        return None
    return matrix


def _tree(topology: Topology) -> Bisection:
    m, w = tree_shape(topology)
    lower, upper = math.inf, math.inf
    subtrees, above = topology.n_hosts, list(accumulate(w, mul))
    for level in range(len(m)):
        links = np.flatnonzero(topology.link_layer == level)
        half = subtrees * above[level] * float(topology.link_capacity_bytes_per_s[links[0]]) / 2
        lower = min(lower, half)
        if subtrees % 2 == 0:
            upper = min(upper, half)
        subtrees //= m[level]
    if topology.n_hosts == 1:
        lower = upper = 0.0
    return Bisection(lower_bytes_per_s=lower, upper_bytes_per_s=upper, method="narrowest level of the tree")


def _grid(topology: Topology) -> Bisection | None:
    dims = tuple(topology.params["dims"])
    longest = max(dims)
    if longest % 2:
        return None
    inside = topology.link_src >= topology.n_hosts
    inside &= topology.link_dst >= topology.n_hosts
    capacity = np.unique(topology.link_capacity_bytes_per_s[inside])
    if capacity.size != 1:
        return None
    crossings = 2 if topology.family == "torus" and longest > 2 else 1
    value = crossings * topology.n_switches // longest * float(capacity[0])
    return Bisection(lower_bytes_per_s=value, upper_bytes_per_s=value, method="cut across the longest side")


def _fully_connected(topology: Topology, weights: Any) -> Bisection | None:
    """Exact where all links are alike, or where the thinnest dimension can be halved.

    Notes
    -----
    With c_d the capacity between two switches in dimension d of side S_d, the Laplacian's second eigenvalue is min c_d
    S_d, so that no half has a cut below min c_d S_d n / 4; the cut across that dimension has it when its side is even.
    With all c_d equal, the first n/2 switches in lexicographic order, the longest side running fastest, have the most
    links among themselves and so the least cut (J. H. Lindsey, Amer. Math. Monthly 71, 1964).
    """
    dims, trunk = hyperx_shape(topology)
    layer_capacity = [
        np.unique(topology.link_capacity_bytes_per_s[topology.link_layer == d + 1]) for d in range(len(dims))
    ]
    used = [(dims[d], trunk[d] * float(layer_capacity[d][0])) for d in range(len(dims)) if dims[d] > 1]
    if any(c.size > 1 for c in layer_capacity) or not used:
        return None
    n = topology.n_switches
    side, between = min(used, key=lambda one: one[0] * one[1])
    if side % 2 == 0:
        value = n * side / 4 * between
        return Bisection(lower_bytes_per_s=value, upper_bytes_per_s=value, method="cut across the thinnest dimension")
    if len({c for _, c in used}) > 1:
        return None
    ascending = np.argsort(dims, kind="stable")
    order = np.arange(n).reshape(dims).transpose(ascending).reshape(-1)
    half = np.zeros(n, dtype=bool)
    half[order[: n // 2]] = True
    value = _cut(weights, half)
    return Bisection(lower_bytes_per_s=value, upper_bytes_per_s=value, method="half of the switches, row by row")


def _cut(weights: Any, side: npt.NDArray[np.bool_]) -> float:
    return float(side.astype(np.float64) @ (weights @ (~side).astype(np.float64)))


def _enumerate(weights: Float64, n: int) -> float:
    """Least cut over all halves, with switch n-1 on the second side where that is no loss."""
    free = n - 1 if n % 2 == 0 else n
    best = math.inf
    block = 1 << min(free, 14)
    for begin in range(0, 1 << free, block):
        number = np.arange(begin, begin + block, dtype=np.int64)
        side = ((number[:, None] >> np.arange(n)) & 1).astype(np.float64)
        side = side[side.sum(axis=1) == n // 2]
        if side.size:
            best = min(best, float(((side @ weights) * (1 - side)).sum(axis=1).min()))
    return best


def _spectral(weights: Float64) -> tuple[float, Float64]:
    """Lower bound lambda_2 a b / n on a cut into a and b vertices, and the eigenvector."""
    n = weights.shape[0]
    scale = max(float(weights.max()), 1.0)
    laplacian = (np.diag(weights.sum(axis=1)) - weights) / scale
    values, vectors = np.linalg.eigh(laplacian)
    a = n // 2
    # A little below the rounding of the eigenvalue, so that the bound stays one.
    return max(0.0, float(values[1]) - 1e-9) * a * (n - a) / n * scale, vectors[:, 1]


def _improve(weights: Float64, side: npt.NDArray[np.bool_]) -> float:
    """Passes of swaps (Kernighan, Lin) until none helps; returns the cut."""
    sign = np.where(side, 1.0, -1.0)
    cut = _cut(weights, side)
    while True:
        trial, locked = sign.copy(), np.zeros(side.size, dtype=bool)
        # gain[v]: how much the cut shrinks when v alone changes sides.
        gain = -trial * (weights @ trial)
        total, best, best_at, swaps = 0.0, 0.0, 0, []
        for _ in range(side.size // 2):
            left, right = np.flatnonzero((trial > 0) & ~locked), np.flatnonzero((trial < 0) & ~locked)
            pair = gain[left][:, None] + gain[right][None, :] - 2 * weights[np.ix_(left, right)]
            i, j = np.unravel_index(np.argmax(pair), pair.shape)
            u, v = left[i], right[j]
            total += float(pair[i, j])
            swaps.append((u, v))
            locked[[u, v]] = True
            # Moving u changes the gain of x by 2 w(u, x) towards u's new side.
            gain += 2 * trial * (weights[u] * trial[u] - weights[v] * trial[u])
            trial[u], trial[v] = -trial[u], -trial[v]
            if total > best + 1e-9 * abs(cut):
                best, best_at = total, len(swaps)
            if len(swaps) - best_at > 32:
                break
        if not best_at:
            return cut
        for u, v in swaps[:best_at]:
            sign[u], sign[v] = -sign[u], -sign[v]
        cut = _cut(weights, sign > 0)
