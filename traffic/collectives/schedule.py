"""What an algorithm produces: the messages of a collective, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int32, Int64, UInt8, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.traffic.collectives.call import PAIR_OPS, Call

__all__ = ["BlockLists", "Schedule", "Steps", "at_most"]

BlockLists = Callable[[], tuple[Int64, Int64]]
_most_messages: ContextVar[int | None] = ContextVar("most_messages", default=None)


@contextmanager
def at_most(messages: int) -> Iterator[None]:
    """Let schedules of more messages fail with ``InputError`` before they take the memory.

    >>> with at_most(5):
    ...     Steps(Call(op="barrier", n=9)).add(src=0, dst=range(1, 9))
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: schedule of barrier: must have at most 5 messages, got 8 or more
    """
    token = _most_messages.set(messages)
    try:
        yield
    finally:
        _most_messages.reset(token)


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """Messages of one collective, sorted by step.

    *When.* Step-synchronous, rendezvous: a message of step k starts when both its ends have left all their earlier
    steps in which they take part; both leave step k when all their messages of that step are delivered. Messages of
    one member in one step run concurrently, and carry the data the sender had before the step. Members without a
    message in a step know nothing of it.

    *What.* The data of the collective are cut into blocks, numbered by what the operation means:

    - bcast, reduce, allreduce, scan, exscan, barrier: consecutive pieces of the vector, as many as the algorithm wants;
    - gather, scatter, allgather, reduce_scatter and their v forms: one block per member;
    - alltoall: block ``o*n + d`` is what member o sends to member d;
    - alltoallv and the neighbour collectives: block e is entry e of ``call.pairs``.

    A message carries ``count`` blocks from ``first`` on, modulo ``n_blocks``.

    Attributes
    ----------
    call : Call
    algorithm : str
        Name and parameters: ``"bcast/chain(segments=10)"``.
    step, src, dst : int32 array, shape (m,)
        Step, sending member, receiving member; never src == dst.
    size_bytes : int64 array, shape (m,)
        The sum over the blocks carried.
    first, count : int64 array, shape (m,)
        Blocks carried; ``first`` is -1 where they are not one range, then only ``carried()`` lists them.
    combine : uint8 array, shape (m,)
        1: the receiver reduces the data into what it has; 0: it stores them over what it has.
    n_blocks : int
    block_bytes : int64 array
        Block b has ``block_bytes[b % block_bytes.size]`` bytes.
    lists : callable, optional
        Gives ``(ptr, block)`` in CSR by message where ranges do not do; called only on demand.
    """

    call: Call
    algorithm: str
    step: Int32
    src: Int32
    dst: Int32
    size_bytes: Int64
    first: Int64
    count: Int64
    combine: UInt8
    n_blocks: int
    block_bytes: Int64
    lists: BlockLists | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        types = {"step": np.int32, "src": np.int32, "dst": np.int32, "combine": np.uint8}
        for name in ("step", "src", "dst", "size_bytes", "first", "count", "combine", "block_bytes"):
            object.__setattr__(self, name, frozen(getattr(self, name), types.get(name, np.int64)))
        m = self.step.size
        for name in ("src", "dst", "size_bytes", "first", "count", "combine"):
            if getattr(self, name).shape != (m,):
                raise InputError(self.subject, f"{name} must have one entry for each of the {m} messages")
        if m == 0:
            return
        if self.step[0] < 0 or np.any(self.step[1:] < self.step[:-1]):
            raise InputError(self.subject, "messages must be sorted by step, from 0")
        for name in ("src", "dst"):
            ends = getattr(self, name)
            bad = np.flatnonzero((ends < 0) | (ends >= self.call.n))
            if bad.size:
                raise InputError(
                    f"{self.subject} message {bad[0]}",
                    f"{name} must be one of the {self.call.n} members",
                    got=int(ends[bad[0]]),
                )
        bad = np.flatnonzero(self.src == self.dst)
        if bad.size:
            raise InputError(
                f"{self.subject} message {bad[0]}", "a member must not send to itself", got=int(self.src[bad[0]])
            )
        if self.size_bytes.min() < 0:
            raise InputError(self.subject, "size_bytes must be 0 or more", got=int(self.size_bytes.min()))

    @property
    def subject(self) -> str:
        """How errors call it."""
        return f"schedule of {self.algorithm or self.call.op}"

    @property
    def n_messages(self) -> int:
        """Number of messages."""
        return int(self.step.size)

    @property
    def n_steps(self) -> int:
        """Number of steps: the last step number plus one."""
        return int(self.step[-1]) + 1 if self.step.size else 0

    @property
    def step_ptr(self) -> Int64:
        """Messages ``step_ptr[k] : step_ptr[k+1]`` belong to step k; shape (n_steps+1,)."""
        return csr_ptr(np.bincount(self.step, minlength=self.n_steps))

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages together."""
        return int(self.size_bytes.sum())

    @property
    def sent_bytes(self) -> Int64:
        """Bytes each member sends, shape (n,)."""
        return self._per_member(self.src)

    @property
    def received_bytes(self) -> Int64:
        """Bytes each member receives, shape (n,)."""
        return self._per_member(self.dst)

    def _per_member(self, member: Int32) -> Int64:
        # np.bincount with weights would go through float64 and lose bytes beyond 2**53.
        total = np.zeros(self.call.n, dtype=np.int64)
        np.add.at(total, member, self.size_bytes)
        return total

    def carried(self) -> tuple[Int64, Int64]:
        """Blocks of each message, in full: ``ptr`` (m+1,) and ``block``. For checks and small schedules."""
        if self.lists is not None:
            return self.lists()
        ptr = csr_ptr(self.count)
        within = np.arange(ptr[-1], dtype=np.int64) - np.repeat(ptr[:-1], self.count)
        return ptr, (np.repeat(self.first, self.count) + within) % max(self.n_blocks, 1)


class Steps:
    """Collects the messages of an algorithm step by step and works out their sizes from the blocks they carry.

    Parameters
    ----------
    call : Call
    block_bytes : array_like of int, optional
        Sizes of the blocks, see ``Schedule``; without it the vector is one block (bcast, reduce, allreduce, scan,
        exscan, barrier), or the blocks are those of the call.

    Examples
    --------
    A reduction to member 0 and back, in two steps:

    >>> import numpy as np
    >>> call = Call(op="allreduce", n=4, size_bytes=100)
    >>> steps, others = Steps(call), np.arange(1, 4)
    >>> steps.add(src=others, dst=0, combine=True)
    >>> steps.add(src=0, dst=others)
    >>> schedule = steps.schedule()
    >>> schedule.n_steps, schedule.n_messages, schedule.total_bytes, schedule.sent_bytes.tolist()
    (2, 6, 600, [300, 100, 100, 100])
    """

    def __init__(self, call: Call, block_bytes: npt.ArrayLike | None = None) -> None:
        self.call = call
        if block_bytes is not None:
            sizes = np.asarray(block_bytes, dtype=np.int64)
        elif call.op == "alltoall":
            whole, rest = divmod(call.size_bytes, call.n)
            sizes = np.full(call.n, whole, dtype=np.int64)
            sizes[:rest] += 1
        elif call.op in PAIR_OPS and call.pairs is not None:
            sizes = call.pairs.size_bytes
        elif call.op in ("gather", "scatter", "allgather", "reduce_scatter", "gatherv", "scatterv", "allgatherv"):
            sizes = call.blocks
        else:
            sizes = np.array([call.size_bytes], dtype=np.int64)
        self.block_bytes = sizes
        self.n_blocks = call.n * call.n if call.op == "alltoall" else int(sizes.size)
        # Two rounds of running sums, so that a range may wrap around.
        self._sum = csr_ptr(np.concatenate([sizes, sizes]))
        self._now = self._end = self._n_messages = 0
        self._columns: list[tuple[npt.NDArray[Any], ...]] = []

    def add(
        self,
        *,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        first: npt.ArrayLike = 0,
        count: npt.ArrayLike | None = None,
        step: npt.ArrayLike | None = None,
        combine: bool = False,
        size_bytes: npt.ArrayLike | None = None,
        hold: bool = False,
    ) -> None:
        """Add messages; all arguments are broadcast against each other.

        Parameters
        ----------
        src, dst : array_like of int
            Members.
        first, count : array_like of int
            Blocks carried, modulo the number of blocks; all of them by default.
        step : array_like of int, optional
            Steps counted from the end of what was added before; without it all messages form the next step.
        combine : bool
            The receiver reduces instead of storing.
        size_bytes : array_like of int, optional
            Only where the blocks are not one range.
        hold : bool
            Do not move on: what is added next counts its steps from the same point.
        """
        shape = [src, dst, first, self.n_blocks if count is None else count, 0 if step is None else step]
        if size_bytes is not None:
            shape.append(size_bytes)
        most = _most_messages.get()
        if most is not None:
            self._n_messages += np.broadcast(*shape).size
            if self._n_messages > most:
                subject = f"schedule of {self.call.op}"
                raise InputError(subject, f"must have at most {most} messages", got=f"{self._n_messages} or more")
        arrays = [a.ravel().astype(np.int64) for a in np.broadcast_arrays(*shape)]
        begin, length, offset = arrays[2], arrays[3], arrays[4]
        if offset.size == 0:
            self._now = self._now if hold else self._end
            return
        if size_bytes is not None:
            size = arrays[5]
        elif self.block_bytes.size == self.n_blocks:
            begin = begin % self.n_blocks
            size = self._sum[begin + length] - self._sum[begin]
        else:
            size = self.block_bytes[begin % self.block_bytes.size]
        self._columns.append(
            (offset + self._now, arrays[0], arrays[1], size, begin, length, np.full(offset.size, combine))
        )
        self._end = max(self._end, self._now + int(offset.max()) + 1)
        if not hold:
            self._now = self._end

    def schedule(self, *, lists: BlockLists | None = None) -> Schedule:
        """The finished schedule."""
        if self._columns:
            columns = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        else:
            columns = [np.zeros(0, dtype=np.int64) for _ in range(7)]
        if np.any(columns[0][1:] < columns[0][:-1]):
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        step, src, dst, size, first, count, combine = columns
        return Schedule(
            call=self.call,
            algorithm="",
            step=step.astype(np.int32),
            src=src.astype(np.int32),
            dst=dst.astype(np.int32),
            size_bytes=size,
            first=first,
            count=count,
            combine=combine.astype(np.uint8),
            n_blocks=self.n_blocks,
            block_bytes=self.block_bytes,
            lists=lists,
        )
