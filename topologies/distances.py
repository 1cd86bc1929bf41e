"""Distances between switches, from many sources at once: one bit per source, so that a word advances 64 searches."""

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
        All sources were searched; otherwise a sample of them, and the diameter is a lower bound.
    """

    histogram: Int64
    unreachable: int
    exact: bool

    @property
    def diameter(self) -> int:
        """Longest distance found; 0 without pairs."""
        return int(self.histogram.size - 1)

    @property
    def average(self) -> float:
        """Mean over the ordered pairs that have a path; 0 without pairs."""
        pairs = int(self.histogram.sum())
        return float(np.arange(self.histogram.size) @ self.histogram / pairs) if pairs else 0.0


def distances(topology: Topology, chosen: npt.NDArray[np.bool_], *, exact_up_to: int = EXACT_UP_TO) -> Distances:
    """Distances between the chosen vertices over the links between switches (between hosts where there are no switches).

    Parameters
    ----------
    topology : Topology
    chosen : bool array, shape (n_switches,) or, without switches, (n_hosts,)
        Vertices between which to measure; paths may cross all.
    exact_up_to : int
        Up to this many vertices every chosen one is a source; above, 512 of them, drawn with a fixed seed.

    Notes
    -----
    Time O(links * diameter * sources / 64), memory O(links).
    """
    base = topology.n_hosts if topology.n_switches else 0
    n = topology.n_switches or topology.n_hosts
    inside = (topology.link_src >= base) & (topology.link_dst >= base)
    ends = (topology.link_dst[inside].astype(np.int64) - base) * n + (topology.link_src[inside] - base)
    into, source = np.divmod(np.unique(ends), max(n, 1))
    rows, first = np.unique(into, return_index=True)

    sources = np.flatnonzero(chosen)
    exact = n <= exact_up_to or sources.size <= _SAMPLE
    if not exact:
        sources = np.sort(stream(0, "topologies", "distances").choice(sources, size=_SAMPLE, replace=False))
    histogram: list[int] = [0]
    for begin in range(0, sources.size, 64 * _WORDS):
        batch = sources[begin : begin + 64 * _WORDS]
        seen = np.zeros((n, -(-batch.size // 64)), dtype=np.uint64)
        word, bit = np.divmod(np.arange(batch.size), 64)
        seen[batch, word] = np.uint64(1) << bit.astype(np.uint64)
        front, depth = seen.copy(), 0
        while True:
            depth += 1
            reached = np.zeros_like(seen)
            if rows.size:
                reached[rows] = np.bitwise_or.reduceat(front[source], first, axis=0)
            front = reached & ~seen
            if not front.any():
                break
            seen |= front
            if len(histogram) <= depth:
                histogram.append(0)
            histogram[depth] += _count(front[chosen])
    while len(histogram) > 1 and histogram[-1] == 0:
        histogram.pop()
    pairs = sources.size * (int(chosen.sum()) - 1)
    return Distances(
        histogram=np.array(histogram, dtype=np.int64), unreachable=max(pairs, 0) - sum(histogram), exact=exact
    )


def _count(words: npt.NDArray[Any]) -> int:
    return int(_BITS[np.ascontiguousarray(words).view(np.uint16)].sum(dtype=np.int64))
