"""Distances between switches: from many sources at once, one bit per source, or from one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.rng import stream
from netsim.topologies.topology import Topology

__all__ = ["EXACT_UP_TO", "Distances", "distances"]

EXACT_UP_TO = 5000
_SAMPLE = 512
_WORDS = 4  # words of 64 sources that advance together; bounds the memory to 32 bytes per link
# Link steps of a sample: a few seconds, whatever the network.
_WORK = 10**8
_SINGLE_WORK = 5 * 10**7
_BITS = np.array([bin(i).count("1") for i in range(1 << 16)], dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances in links between distinct vertices of one set.

    Attributes
    ----------
    histogram : int64 array
        Number of ordered pairs at each distance, from 0; the first entry is always 0.
    unreachable : int
        Ordered pairs without a path.
    exact : bool
        All pairs are counted; otherwise those of a sample of sources, and the diameter is a lower bound.
    method : str
        How it was found: ``"search from 64 sampled sources"``.
    """

    histogram: Int64
    unreachable: int
    exact: bool
    method: str

    @property
    def diameter(self) -> int:
        """Longest distance found; 0 without pairs."""
        return int(self.histogram.size - 1)

    @property
    def average(self) -> float:
        """Mean over the ordered pairs that have a path; 0 without pairs."""
        pairs = int(self.histogram.sum())
        return float(np.arange(self.histogram.size) @ self.histogram / pairs) if pairs else 0.0


def distances(
    topology: Topology,
    chosen: npt.NDArray[np.bool_],
    *,
    exact_up_to: int = EXACT_UP_TO,
    sources: Int64 | None = None,
) -> Distances:
    """Distances between the chosen vertices over the links between switches (between hosts where there are no switches).

    Parameters
    ----------
    topology : Topology
    chosen : bool array, shape (n_switches,) or, without switches, (n_hosts,)
        Vertices between which to measure; paths may cross all.
    exact_up_to : int
        Up to this many vertices every chosen one is a source; above, 512 of them, drawn with a fixed seed, and fewer
        where those would take more than seconds.
    sources : int64 array, optional
        Search from these instead, and nothing else.

    Notes
    -----
    64 sources together: time O(links * diameter), memory O(links). Where that is too long (a ring of 10^5 switches)
    each source has a search of its own, O(links + vertices * log diameter).
    """
    candidates = np.flatnonzero(chosen)
    if candidates.size == 0:
        return _found(np.zeros(1, dtype=np.int64), candidates, candidates)
    base = topology.n_hosts if topology.n_switches else 0
    n = topology.n_switches or topology.n_hosts
    inside = (topology.link_src >= base) & (topology.link_dst >= base)
    ends = (topology.link_dst[inside].astype(np.int64) - base) * n + (topology.link_src[inside] - base)
    into, source = np.divmod(np.unique(ends), max(n, 1))
    words = _WORDS
    if sources is None:
        sources = candidates
        if n > exact_up_to:
            some = min(_SAMPLE, candidates.size)
            # In random order, so that any first part of them is a sample too.
            sources = stream(0, "topologies", "distances").choice(candidates, size=some, replace=False)
            depth = _search_one_by_one(source, into, n, sources[:1], chosen).size
            batches = _WORK // ((into.size + n) * depth)
            if batches == 0:
                single = max(1, _SINGLE_WORK // (into.size + n))
                sources = sources[:single]
                return _found(_search_one_by_one(source, into, n, sources, chosen), sources, candidates)
            sources, words = sources[: 64 * batches], 1
    histogram = np.zeros(1, dtype=np.int64)
    for begin in range(0, sources.size, 64 * words):
        found = _search_together(source, into, n, sources[begin : begin + 64 * words], chosen)
        histogram = _add(histogram, found)
    return _found(histogram, sources, candidates)


def _found(histogram: Int64, sources: Int64, candidates: Int64) -> Distances:
    exact = sources.size == candidates.size
    while histogram.size > 1 and histogram[-1] == 0:
        histogram = histogram[:-1]
    pairs = max(sources.size * (candidates.size - 1), 0)
    return Distances(
        histogram=histogram,
        unreachable=pairs - int(histogram.sum()),
        exact=exact,
        method="search" if exact else f"search from {sources.size} sampled sources",
    )


def _add(a: Int64, b: Int64) -> Int64:
    total = np.zeros(max(a.size, b.size), dtype=np.int64)
    total[: a.size] += a
    total[: b.size] += b
    return total


def _search_together(source: Int64, into: Int64, n: int, batch: Int64, chosen: npt.NDArray[np.bool_]) -> Int64:
    """Pairs at each distance from up to 64 sources per word: one bit per source; links are sorted by ``into``."""
    rows, first = np.unique(into, return_index=True)
    seen = np.zeros((n, -(-batch.size // 64)), dtype=np.uint64)
    word, bit = np.divmod(np.arange(batch.size), 64)
    seen[batch, word] = np.uint64(1) << bit.astype(np.uint64)
    front, histogram = seen.copy(), [0]
    while True:
        reached = np.zeros_like(seen)
        if rows.size:
            reached[rows] = np.bitwise_or.reduceat(front[source], first, axis=0)
        front = reached & ~seen
        if not front.any():
            return np.array(histogram, dtype=np.int64)
        seen |= front
        histogram.append(_count(front[chosen]))


def _search_one_by_one(source: Int64, into: Int64, n: int, batch: Int64, chosen: npt.NDArray[np.bool_]) -> Int64:
    """Pairs at each distance from one source after the other: a time that does not grow with the diameter."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    graph = csr_array((np.ones(into.size, dtype=np.int8), (source, into)), shape=(n, n))
    histogram = np.zeros(1, dtype=np.int64)
    position = np.empty(n, dtype=np.int64)
    for begin in batch.tolist():
        order, parent = breadth_first_order(graph, begin, directed=True, return_predecessors=True)
        position[order] = np.arange(order.size)
        # Distances along the parents, doubling what is known in each round.
        jump = position[np.concatenate([order[:1], parent[order[1:]]])]
        depth = np.minimum(np.arange(order.size), 1)
        while jump.any():
            depth = depth + depth[jump]
            jump = jump[jump]
        there = chosen[order]
        there[0] = False
        histogram = _add(histogram, np.bincount(depth[there]).astype(np.int64))
    return histogram


def _count(words: npt.NDArray[Any]) -> int:
    return int(_BITS[np.ascontiguousarray(words).view(np.uint16)].sum(dtype=np.int64))
