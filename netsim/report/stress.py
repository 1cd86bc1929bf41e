"""Positions from distances: a picture in which vertices that are few links apart stand close together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64

__all__ = ["LARGEST", "stress_layout"]

# Vertices; all pairs of them are held in memory.
LARGEST = 1500
_ROUNDS = 60
_SETTLED = 1e-4


def stress_layout(n: int, source: npt.ArrayLike, target: npt.ArrayLike) -> Float64:
    """Positions whose distances resemble those in the graph; float64, shape (n, 2), within about the unit circle.

    Parameters
    ----------
    n : int
        Vertices; 1500 at most are sensible, time and memory grow as n^2.
    source, target : array_like of int, shape (n_edges,)
        Ends of the edges; directions do not matter. Parts without a link between them stand beside each other.

    Notes
    -----
    Classical scaling for a start, then majorisation of the stress, the sum over pairs of (|x_i - x_j| - d_ij)^2 / d_ij^2:
    E. Gansner, Y. Koren, S. North, "Graph Drawing by Stress Majorization", Graph Drawing 2004. The stress never
    rises. Deterministic.

    Examples
    --------
    >>> path = stress_layout(3, [0, 1], [1, 2])
    >>> np.linalg.norm(path[0] - path[2]).round(3) == (2 * np.linalg.norm(path[0] - path[1])).round(3)
    np.True_
    """
    if n < 2:
        return np.zeros((n, 2))
    d = _graph_distances(n, np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64))
    xy = _classical_scaling(d)
    weight = np.zeros_like(d)
    off = ~np.eye(n, dtype=bool)
    weight[off] = d[off] ** -2
    laplacian = np.diag(weight.sum(axis=1)) - weight
    # Positions are free up to a shift: the first vertex stays at the origin.
    inverse = np.linalg.inv(laplacian[1:, 1:])
    stress = np.inf
    for _ in range(_ROUNDS):
        gap = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(axis=-1))
        now = float((weight * (gap - d) ** 2).sum())
        if now > (1 - _SETTLED) * stress:
            break
        stress = now
        pull = weight * d / np.maximum(gap, 1e-9)
        right = pull.sum(axis=1)[:, None] * xy - pull @ xy
        xy = np.concatenate([np.zeros((1, 2)), inverse @ right[1:]])
    xy = xy - (xy.max(axis=0) + xy.min(axis=0)) / 2
    return np.asarray(xy / max(float(np.abs(xy).max()), 1e-12), dtype=np.float64)


def _graph_distances(n: int, u: npt.NDArray[np.int64], v: npt.NDArray[np.int64]) -> Float64:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    graph = csr_array((np.ones(u.size), (u, v)), shape=(n, n))
    d: Float64 = shortest_path(graph, directed=False, unweighted=True)
    reached = np.isfinite(d)
    d[~reached] = 1.5 * d[reached].max() + 1
    return d


def _classical_scaling(d: Float64) -> Float64:
    n = len(d)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (d * d) @ centre)
    # The sign of an eigenvector is arbitrary; its largest entry shall be positive.
    best = vectors[:, -2:]
    best = best * np.sign(best[np.abs(best).argmax(axis=0), np.arange(best.shape[1])])
    start = best * np.sqrt(np.maximum(values[-2:], 1e-9))
    # A highly symmetric graph may put vertices on one spot: a small turn of each by its number parts them.
    angle = 2.399963 * np.arange(n)
    return np.asarray(start + 1e-3 * np.stack([np.cos(angle), np.sin(angle)], axis=1), dtype=np.float64)
