"""The replayable flow pattern: a directed acyclic graph of two kinds of task, ``delay`` and ``transfer``.

MPI, NCCL, storage, shuffles and schedulers all lower to it. Eager or rendezvous, overheads, collective algorithms and
matching are decided while lowering, so the engine knows none of them.

A task has three moments. A delay *starts*, and *ends* ``amount`` seconds later. A transfer *starts* (its first byte may leave),
*drains* (its last byte has left the source; links are used in between) and *ends* (the last byte has been delivered, one path latency
after the drain). An edge says which moment of the earlier task the later one waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, UInt8, csr_order, frozen
from netsim.core.errors import InputError

__all__ = ["AFTER_DRAIN", "AFTER_END", "AFTER_START", "DELAY", "TRANSFER", "GraphBuilder", "TaskGraph"]

DELAY = 0
TRANSFER = 1

AFTER_END = 0
AFTER_DRAIN = 1
AFTER_START = 2


@dataclass(frozen=True, kw_only=True)
class TaskGraph:
    """Struct of arrays; edges in CSR by the earlier task.

    Attributes
    ----------
    n_ranks : int
        Ranks are 0 .. n_ranks-1; a placement maps them to hosts later.
    kind : uint8 array, shape (n,)
        ``DELAY`` or ``TRANSFER``.
    rank : int32 array, shape (n,)
        Rank that waits (delay) or sends (transfer).
    peer : int32 array, shape (n,)
        Rank that receives; for a delay the rank itself.
    amount : float64 array, shape (n,)
        Seconds (delay) or bytes (transfer), 0 or more.
    succ_ptr, succ : int64 array, shape (n+1,); int32 array, shape (m,)
        Later tasks of each task. A task that must never start has an edge to itself.
    succ_after : uint8 array, shape (m,)
        ``AFTER_END``, ``AFTER_DRAIN`` or ``AFTER_START``: the moment of the earlier task that releases the later one.
    op : int64 array, shape (n,)
        Row of the trace that the task came from, or -1.
    latencies : int32 array, shape (n,), or (0,)
        How many path latencies a transfer pays; 1 each if empty. More stand for the steps of a pipeline whose bytes flow as one.

    Examples
    --------
    >>> build = GraphBuilder(n_ranks=2)
    >>> work = build.delay(rank=0, seconds=1e-6)
    >>> send = build.transfer(source=0, destination=1, size_bytes=1000)
    >>> build.edge(work, send)
    >>> graph = build.graph()
    >>> graph.n_tasks, graph.n_edges, graph.total_bytes
    (2, 1, 1000.0)
    """

    n_ranks: int
    kind: UInt8
    rank: Int32
    peer: Int32
    amount: Float64
    succ_ptr: Int64
    succ: Int32
    succ_after: UInt8
    op: Int64
    latencies: Int32

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.kind.size)

    @property
    def n_edges(self) -> int:
        """Number of dependencies."""
        return int(self.succ.size)

    @property
    def n_transfers(self) -> int:
        """Number of transfers."""
        return int(np.count_nonzero(self.kind == TRANSFER))

    @property
    def total_bytes(self) -> float:
        """Sum of the sizes of all transfers, in bytes."""
        return float(self.amount[self.kind == TRANSFER].sum())

    @classmethod
    def from_edges(
        cls,
        *,
        n_ranks: int,
        kind: UInt8,
        rank: Int32,
        peer: Int32,
        amount: Float64,
        edge_from: Int64,
        edge_to: Int64,
        edge_after: UInt8,
        op: Int64 | None = None,
        latencies: Int32 | None = None,
    ) -> TaskGraph:
        """Build and validate from an edge list (any order; the order of edges of one task is kept).

        Raises
        ------
        InputError
            A rank, task number, kind, moment or amount is out of range.
        """
        n = int(np.asarray(kind).size)
        start, finish = np.asarray(edge_from, dtype=np.int64), np.asarray(edge_to, dtype=np.int64)
        if start.size and (min(start.min(), finish.min()) < 0 or max(start.max(), finish.max()) >= n):
            raise InputError("task graph", f"edges must join tasks 0..{n - 1}")
        ptr, order = csr_order(start, n)
        graph = cls(
            n_ranks=int(n_ranks),
            kind=frozen(kind, np.uint8),
            rank=frozen(rank, np.int32),
            peer=frozen(peer, np.int32),
            amount=frozen(amount, np.float64),
            succ_ptr=frozen(ptr, np.int64),
            succ=frozen(finish[order], np.int32),
            succ_after=frozen(np.asarray(edge_after, dtype=np.uint8)[order], np.uint8),
            op=frozen(np.full(n, -1) if op is None else op, np.int64),
            latencies=frozen(np.empty(0, np.int32) if latencies is None else latencies, np.int32),
        )
        graph._validate()
        return graph

    @classmethod
    def side_by_side(cls, graphs: Sequence[TaskGraph], *, start_s: Sequence[float] | None = None) -> TaskGraph:
        """Several graphs as one: ranks and tasks of the later ones are numbered after those of the earlier ones.

        Parameters
        ----------
        graphs : sequence of TaskGraph
        start_s : sequence of float, optional
            When the first tasks of each graph may start, 0 or more seconds; 0 by default.

        Notes
        -----
        A graph that starts later gets a delay, numbered after all other tasks, that releases those of its tasks that wait for nothing.

        Examples
        --------
        >>> build = GraphBuilder(n_ranks=2)
        >>> _ = build.transfer(source=0, destination=1, size_bytes=8)
        >>> both = TaskGraph.side_by_side([build.graph()] * 2, start_s=[0.0, 2.0])
        >>> both.n_ranks, both.n_tasks, both.rank.tolist(), both.succ.tolist()
        (4, 3, [0, 2, 2], [1])
        """
        starts = [0.0] * len(graphs) if start_s is None else [float(x) for x in start_s]
        bad = [x for x in starts if not 0 <= x < np.inf]
        if bad or len(starts) != len(graphs):
            raise InputError("job start", "must be 0 s or more, one for each graph", got=bad[0] if bad else len(starts))
        ranks = np.cumsum([0, *(g.n_ranks for g in graphs)])
        tasks = np.cumsum([0, *(g.n_tasks for g in graphs)])
        late = [i for i, x in enumerate(starts) if x > 0]
        edge_from, edge_to, edge_after = [], [], []
        for i, g in enumerate(graphs):
            edge_from.append(tasks[i] + np.repeat(np.arange(g.n_tasks), np.diff(g.succ_ptr)))
            edge_to.append(tasks[i] + g.succ.astype(np.int64))
            edge_after.append(g.succ_after)
        for k, i in enumerate(late):
            first = np.flatnonzero(np.bincount(graphs[i].succ, minlength=graphs[i].n_tasks) == 0)
            edge_from.append(np.full(first.size, tasks[-1] + k))
            edge_to.append(tasks[i] + first)
            edge_after.append(np.full(first.size, AFTER_END, np.uint8))
        any_latencies = any(g.latencies.size for g in graphs)

        def joined(name: str, more: Sequence[float], by_rank: bool = False) -> npt.NDArray[Any]:
            parts = [getattr(g, name) + (ranks[i] if by_rank else 0) for i, g in enumerate(graphs)]
            return np.concatenate([*parts, np.asarray(more)]) if graphs else np.asarray(more)

        own = [int(ranks[i]) for i in late]
        return cls.from_edges(
            n_ranks=int(ranks[-1]),
            kind=joined("kind", [DELAY] * len(late)).astype(np.uint8),
            rank=joined("rank", own, by_rank=True).astype(np.int32),
            peer=joined("peer", own, by_rank=True).astype(np.int32),
            amount=joined("amount", [starts[i] for i in late]).astype(np.float64),
            edge_from=np.concatenate(edge_from) if edge_from else np.zeros(0, np.int64),
            edge_to=np.concatenate(edge_to) if edge_to else np.zeros(0, np.int64),
            edge_after=np.concatenate(edge_after) if edge_after else np.zeros(0, np.uint8),
            op=joined("op", [-1] * len(late)).astype(np.int64),
            latencies=np.concatenate(
                [
                    *(g.latencies if g.latencies.size else np.ones(g.n_tasks, np.int32) for g in graphs),
                    np.ones(len(late), np.int32),
                ]
            )
            if any_latencies
            else None,
        )

    def _validate(self) -> None:
        for name in ("rank", "peer"):
            values = getattr(self, name)
            bad = np.flatnonzero((values < 0) | (values >= self.n_ranks))
            if bad.size:
                raise InputError(
                    f"task {bad[0]}", f"{name} must be one of the {self.n_ranks} ranks", got=int(values[bad[0]])
                )
        bad = np.flatnonzero(~(self.amount >= 0) | ~np.isfinite(self.amount))
        if bad.size:
            raise InputError(
                f"task {bad[0]}", "seconds or bytes must be finite and 0 or more", got=float(self.amount[bad[0]])
            )
        if self.kind.size and self.kind.max() > TRANSFER:
            raise InputError("task graph", "kind must be delay (0) or transfer (1)", got=int(self.kind.max()))
        if self.latencies.size not in (0, self.n_tasks) or (self.latencies.size and self.latencies.min() < 0):
            raise InputError("task graph", "latencies must be one number of 0 or more per task, or none")
        if self.succ_after.size and self.succ_after.max() > AFTER_START:
            raise InputError(
                "task graph", "an edge waits for end (0), drain (1) or start (2)", got=int(self.succ_after.max())
            )


class GraphBuilder:
    """Builds small graphs task by task: tests, examples, hand-written patterns. Large ones use ``TaskGraph.from_edges``."""

    def __init__(self, *, n_ranks: int) -> None:
        self._n_ranks = n_ranks
        self._tasks: list[tuple[int, int, int, float, int]] = []
        self._edges: list[tuple[int, int, int]] = []

    def delay(self, *, rank: int, seconds: float, op: int = -1) -> int:
        """Add a delay; returns its task number."""
        self._tasks.append((DELAY, rank, rank, seconds, op))
        return len(self._tasks) - 1

    def transfer(self, *, source: int, destination: int, size_bytes: float, op: int = -1) -> int:
        """Add a transfer; returns its task number."""
        self._tasks.append((TRANSFER, source, destination, size_bytes, op))
        return len(self._tasks) - 1

    def edge(self, earlier: int, later: int, after: int = AFTER_END) -> None:
        """Let ``later`` wait for a moment of ``earlier``."""
        self._edges.append((earlier, later, after))

    def graph(self) -> TaskGraph:
        """The finished graph."""
        task: list[tuple[Any, ...]] = list(zip(*self._tasks, strict=True)) if self._tasks else [()] * 5
        edge: list[tuple[Any, ...]] = list(zip(*self._edges, strict=True)) if self._edges else [()] * 3
        return TaskGraph.from_edges(
            n_ranks=self._n_ranks,
            kind=np.array(task[0], dtype=np.uint8),
            rank=np.array(task[1], dtype=np.int32),
            peer=np.array(task[2], dtype=np.int32),
            amount=np.array(task[3], dtype=np.float64),
            op=np.array(task[4], dtype=np.int64),
            edge_from=np.array(edge[0], dtype=np.int64),
            edge_to=np.array(edge[1], dtype=np.int64),
            edge_after=np.array(edge[2], dtype=np.uint8),
        )
