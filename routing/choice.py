"""Several paths for each flow, among which it chooses when it starts: what the adaptive routings offer to the engine.

>>> from netsim.routing import candidates
>>> from netsim.topologies import dragonfly
>>> offered = candidates(dragonfly(p=2, a=4, h=2), [0, 1], [70, 0], routing="ugal-l")
>>> offered.rule, int(offered.count[0]) > 1, offered.paths[0].size
('first-link', True, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_order, frozen
from netsim.core.registry import Registry
from netsim.core.rng import hash64
from netsim.routing.pathset import Paths
from netsim.topologies import Topology

__all__ = ["CandidateRouting", "Candidates", "adaptive_routings", "candidates"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Paths of each flow, without repetition; the first is the minimal one.

    Attributes
    ----------
    ptr : int64 array, shape (n_flows + 1,)
        Paths of flow i are rows ``ptr[i]`` to ``ptr[i + 1] - 1``.
    paths : Paths
    stage : uint8 array, shape (n_paths,)
        1: taken instead of the first where that has won, by the cost of both from their second link between switches on.
    rule : str
        ``"first-link"``, ``"whole-path"`` or ``"rate"``: see `netsim.engine.Choices`.
    """

    ptr: Int64
    paths: Paths
    stage: npt.NDArray[np.uint8]
    rule: str

    @property
    def count(self) -> Int64:
        """Paths of each flow, int64 of shape (n_flows,)."""
        return np.diff(self.ptr)

    @classmethod
    def of(cls, first: Sequence[Paths], second: Sequence[Paths] = (), *, rule: str) -> Candidates:
        """From sets of one path per flow; empty paths and those that a flow has already are left out.

        Parameters
        ----------
        first, second : sequences of Paths
            Of the first decision, the minimal ones in front, and of the second.
        rule : str
        """
        sets = [*first, *second]
        n = len(sets[0])
        everything = Paths.joined(sets)
        row_ptr, link, hops = everything.ptr, everything.link, everything.hops
        owner = np.tile(np.arange(n), len(sets))
        # Equal words are taken for equal paths: 64 bits, among a handful per flow.
        word = np.zeros(owner.size, np.uint64)
        at = np.arange(link.size) - np.repeat(row_ptr[:-1], hops)
        with np.errstate(over="ignore"):
            np.add.at(word, np.repeat(np.arange(owner.size), hops), hash64(0, link, at))
        key = np.stack([owner.astype(np.uint64), word])
        order = np.lexsort((np.arange(owner.size), key[1], key[0]))
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(key[:, order].astype(np.uint64), axis=1) != 0).any(axis=0)
        fresh = np.zeros(owner.size, dtype=bool)
        fresh[order[new]] = True
        # The first path stays even if empty: source and destination are one host.
        fresh &= (hops > 0) | (np.arange(owner.size) < n)
        kept = np.flatnonzero(fresh)
        ptr, by_flow = csr_order(owner[kept], n)
        rows = kept[by_flow]
        return cls(
            ptr=frozen(ptr, np.int64),
            paths=everything.take(rows),
            stage=frozen(rows >= n * len(first), np.uint8),
            rule=rule,
        )


class CandidateRouting(Protocol):
    """An adaptive routing: the paths among which each flow chooses, all flows in one call."""

    def __call__(
        self,
        topology: Topology,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        *,
        flow: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> Candidates:
        """Candidates of all flows, drawn from the seed and the flow alone."""
        ...


adaptive_routings: Registry[CandidateRouting] = Registry("adaptive routing", "netsim.adaptive_routings")


def candidates(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    routing: str,
    flow: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Candidates:
    """Paths among which flows choose by a named adaptive routing.

    Parameters
    ----------
    topology, source, destination, flow, seed
        See :func:`netsim.routing.paths`.
    routing : str
        Name in ``netsim.routing.adaptive_routings``: ``ugal-l``, ``ugal-g``, ``par``, ``adaptive``.

    Raises
    ------
    InputError
        As of :func:`netsim.routing.paths`.
    """
    return adaptive_routings[routing](topology, source, destination, flow=flow, seed=seed)
