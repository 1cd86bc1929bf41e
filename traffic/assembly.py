"""Puts a large task graph together from blocks of tasks and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.traffic.taskgraph import AFTER_END, DELAY, TRANSFER, TaskGraph

__all__ = ["Assembly"]

_MAX_TASKS = 2**31 - 1


class Assembly:
    """Collects blocks of tasks; numbers are handed out in order.

    Examples
    --------
    >>> parts = Assembly()
    >>> wait = parts.delays(rank=[0, 1], seconds=0.5, op=[0, 1])
    >>> send = parts.transfers(source=[0], destination=[1], size_bytes=8, op=[0])
    >>> parts.edges(wait[:1], send)
    >>> graph = parts.graph(n_ranks=2)
    >>> graph.n_tasks, graph.succ.tolist()
    (3, [2])
    """

    def __init__(self) -> None:
        self.n_tasks = 0
        self._latencies: list[tuple[int, int]] = []
        self._tasks: list[tuple[npt.NDArray[Any], ...]] = []
        self._edges: list[tuple[npt.NDArray[Any], ...]] = []

    def delays(self, *, rank: npt.ArrayLike, seconds: npt.ArrayLike, op: npt.ArrayLike) -> Int64:
        """Add delays; returns their numbers. Scalars serve all of them."""
        return self._add(DELAY, rank, rank, seconds, op)

    def transfers(
        self,
        *,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        size_bytes: npt.ArrayLike,
        op: npt.ArrayLike,
        latencies: int = 1,
    ) -> Int64:
        """Add transfers; returns their numbers."""
        return self._add(TRANSFER, source, destination, size_bytes, op, latencies)

    def _add(
        self,
        kind: int,
        rank: npt.ArrayLike,
        peer: npt.ArrayLike,
        amount: npt.ArrayLike,
        op: npt.ArrayLike,
        latencies: int = 1,
    ) -> Int64:
        ranks, peers, amounts, ops = np.broadcast_arrays(
            np.asarray(rank, dtype=np.int32),
            np.asarray(peer, dtype=np.int32),
            np.asarray(amount, dtype=np.float64),
            np.asarray(op, dtype=np.int64),
        )
        n = int(ranks.size)
        if self.n_tasks + n > _MAX_TASKS:
            raise InputError(
                "task graph",
                f"at most {_MAX_TASKS} tasks",
                got=f"{self.n_tasks + n} or more",
                remedy="replay a part of the trace",
            )
        self._tasks.append((np.full(n, kind, dtype=np.uint8), ranks, peers, amounts, ops))
        self._latencies.append((n, latencies))
        self.n_tasks += n
        return np.arange(self.n_tasks - n, self.n_tasks, dtype=np.int64)

    def edges(self, earlier: npt.ArrayLike, later: npt.ArrayLike, after: npt.ArrayLike = AFTER_END) -> None:
        """Let each of ``later`` wait for a moment of the same entry of ``earlier``."""
        first, second, moment = np.broadcast_arrays(
            np.asarray(earlier, dtype=np.int32), np.asarray(later, dtype=np.int32), np.asarray(after, dtype=np.uint8)
        )
        self._edges.append((first, second, moment))

    def graph(self, *, n_ranks: int) -> TaskGraph:
        """The finished graph."""
        kind, rank, peer, amount, op = (
            _join([block[i] for block in self._tasks], dtype)
            for i, dtype in enumerate((np.uint8, np.int32, np.int32, np.float64, np.int64))
        )
        edge_from, edge_to, after = (
            _join([block[i] for block in self._edges], dtype) for i, dtype in enumerate((np.int32, np.int32, np.uint8))
        )
        count, each = (np.array(column, dtype=np.int64) for column in zip(*self._latencies or [(0, 1)], strict=True))
        latencies = np.repeat(each, count).astype(np.int32) if (each != 1).any() else None
        self._tasks.clear()
        self._edges.clear()
        return TaskGraph.from_edges(
            n_ranks=n_ranks,
            kind=kind,
            rank=rank,
            peer=peer,
            amount=amount,
            op=op,
            edge_from=edge_from,
            edge_to=edge_to,
            edge_after=after,
            latencies=latencies,
        )


def _join(blocks: list[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(blocks, dtype=dtype) if blocks else np.zeros(0, dtype=dtype)
