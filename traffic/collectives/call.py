"""What is asked of a collective: operation, members, sizes, root."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_ptr, frozen
from netsim.core.errors import InputError, closest

__all__ = ["OPS", "PAIR_OPS", "ROOTED_OPS", "VECTOR_OPS", "Call", "PairBytes", "chunk_bytes"]

ROOTED_OPS = ("bcast", "reduce", "gather", "scatter", "gatherv", "scatterv")
VECTOR_OPS = ("gatherv", "scatterv", "allgatherv")
PAIR_OPS = ("alltoallv", "neighbor_allgather", "neighbor_alltoall")
OPS = (
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "reduce_scatter",
    "alltoall",
    "scan",
    "exscan",
    *VECTOR_OPS,
    *PAIR_OPS,
)
"""Operations an algorithm can be registered for."""


def chunk_bytes(size_bytes: int, parts: int) -> Int64:
    """Cut a vector into nearly equal parts, the longer ones first.

    >>> chunk_bytes(10, 3).tolist(), chunk_bytes(2, 3).tolist()
    ([4, 3, 3], [1, 1, 0])
    """
    whole, rest = divmod(size_bytes, parts)
    sizes = np.full(parts, whole, dtype=np.int64)
    sizes[:rest] += 1
    return sizes


@dataclass(frozen=True, eq=False, kw_only=True)
class PairBytes:
    """Who sends how much to whom: a sparse matrix in CSR, rows are senders.

    A pair may occur more than once (a torus of width 2 has the same neighbour on both sides).

    Attributes
    ----------
    ptr : int64 array, shape (n+1,)
    dst : int64 array, shape (m,)
        Receiving member of each entry.
    size_bytes : int64 array, shape (m,)

    Examples
    --------
    >>> pairs = PairBytes.from_matrix([[0, 5], [7, 0]])
    >>> pairs.ptr.tolist(), pairs.dst.tolist(), pairs.size_bytes.tolist()
    ([0, 1, 2], [1, 0], [5, 7])
    """

    ptr: Int64
    dst: Int64
    size_bytes: Int64

    def __post_init__(self) -> None:
        for name in ("ptr", "dst", "size_bytes"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))
        n = self.ptr.size - 1
        if n < 1 or self.ptr[0] != 0 or np.any(np.diff(self.ptr) < 0) or self.ptr[-1] != self.dst.size:
            raise InputError("pair bytes", "ptr must rise from 0 to the number of entries")
        if self.size_bytes.size != self.dst.size:
            raise InputError(
                "pair bytes", f"needs one size for each of the {self.dst.size} entries", got=self.size_bytes.size
            )
        bad = np.flatnonzero((self.dst < 0) | (self.dst >= n))
        if bad.size:
            raise InputError("pair bytes", f"receivers must be members 0..{n - 1}", got=int(self.dst[bad[0]]))
        bad = np.flatnonzero(self.size_bytes < 0)
        if bad.size:
            pair = f"pair ({int(self.src[bad[0]])}, {int(self.dst[bad[0]])})"
            raise InputError(pair, "bytes must be 0 or more", got=int(self.size_bytes[bad[0]]))

    @property
    def n(self) -> int:
        """Number of members."""
        return int(self.ptr.size - 1)

    @property
    def src(self) -> Int64:
        """Sending member of each entry, shape (m,)."""
        return np.repeat(np.arange(self.n, dtype=np.int64), np.diff(self.ptr))

    @classmethod
    def from_matrix(cls, matrix: Any) -> PairBytes:
        """From an n x n array (zeros are left out), or anything with ``indptr``, ``indices`` and ``data`` (scipy CSR).

        Raises
        ------
        InputError
            The matrix is not square, or an entry is negative.
        """
        if hasattr(matrix, "indptr"):
            return cls(ptr=matrix.indptr, dst=matrix.indices, size_bytes=matrix.data)
        dense = np.asarray(matrix, dtype=np.int64)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise InputError("pair bytes", "the matrix must be square", got=dense.shape)
        row, column = np.nonzero(dense)
        return cls(
            ptr=csr_ptr(np.bincount(row, minlength=dense.shape[0])),
            dst=column.astype(np.int64),
            size_bytes=dense[row, column],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Call:
    """One collective call, seen by all members together. Hashable: equal calls have equal schedules.

    Attributes
    ----------
    op : str
        One of ``OPS``.
    n : int
        Number of members; members are numbered 0 .. n-1.
    size_bytes : int
        bcast, reduce, allreduce, scan, exscan: length of the vector; allgather, gather: contribution of one member;
        scatter, reduce_scatter: block of one member; alltoall: all that one member sends, its own block included (n
        times the block); barrier: 0. Operations whose sizes differ between members leave it at 0.
    root : int
        Root member of a rooted operation.
    block_bytes : int64 array, shape (n,), optional
        gatherv, allgatherv: contribution of each member; scatterv: block of each member; reduce_scatter: result
        block of each member, when they differ.
    pairs : PairBytes, optional
        alltoallv and the neighbour collectives: bytes of every pair.

    Examples
    --------
    >>> Call(op="bcast", n=4, size_bytes=100, root=4)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: bcast: root must be one of the 4 members, got 4
    >>> Call(op="allgatherv", n=2, block_bytes=[3, 4]) == Call(op="allgatherv", n=2, block_bytes=[3, 4])
    True
    """

    op: str
    n: int
    size_bytes: int = 0
    root: int = 0
    block_bytes: npt.ArrayLike | None = None
    pairs: PairBytes | None = None

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise InputError("collective", "unknown operation", got=repr(self.op), remedy=closest(self.op, OPS))
        for name in ("n", "size_bytes", "root"):
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.n < 1:
            raise InputError(self.op, "needs at least one member", got=self.n)
        if self.size_bytes < 0:
            raise InputError(self.op, "size_bytes must be 0 or more", got=self.size_bytes)
        if not 0 <= self.root < self.n:
            raise InputError(self.op, f"root must be one of the {self.n} members", got=self.root)
        if self.root and self.op not in ROOTED_OPS:
            raise InputError(self.op, "has no root", got=self.root, remedy="leave root out")
        if self.op == "barrier" and self.size_bytes:
            raise InputError(self.op, "carries no data", got=self.size_bytes, remedy="leave size_bytes out")
        self._check_blocks()
        self._check_pairs()
        self._check_total()
        if self.irregular and self.size_bytes:
            raise InputError(
                self.op,
                "sizes are per member",
                got=self.size_bytes,
                remedy="leave size_bytes out, give only the vector",
            )

    def _check_blocks(self) -> None:
        if self.block_bytes is None:
            if self.op in VECTOR_OPS:
                raise InputError(self.op, "needs block_bytes, one size per member")
            return
        if self.op not in (*VECTOR_OPS, "reduce_scatter"):
            raise InputError(self.op, "has no sizes per member", remedy="leave block_bytes out")
        sizes = frozen(np.array(self.block_bytes, dtype=np.int64), np.int64)
        if sizes.shape != (self.n,):
            raise InputError(self.op, f"block_bytes must hold {self.n} sizes", got=f"shape {sizes.shape}")
        bad = np.flatnonzero(sizes < 0)
        if bad.size:
            raise InputError(f"{self.op} member {bad[0]}", "bytes must be 0 or more", got=int(sizes[bad[0]]))
        object.__setattr__(self, "block_bytes", sizes)

    def _check_total(self) -> None:
        # Beyond this, sums of sizes would wrap around.
        sizes = self.block_bytes if self.block_bytes is not None else self.pairs.size_bytes if self.pairs else None
        total = self.size_bytes * self.n if sizes is None else float(np.sum(np.asarray(sizes), dtype=np.float64))
        if total >= 2**63:
            raise InputError(
                self.op, f"sizes of its {self.n} members must add up to less than 2^63 bytes", got=f"{float(total):.4g}"
            )

    def _check_pairs(self) -> None:
        if (self.pairs is None) == (self.op in PAIR_OPS):
            word = "needs pairs, the bytes of every pair" if self.pairs is None else "has no sizes per pair"
            raise InputError(self.op, word)
        if self.pairs is not None and self.pairs.n != self.n:
            raise InputError(self.op, f"pairs must have {self.n} rows", got=self.pairs.n)

    @property
    def irregular(self) -> bool:
        """Sizes differ, or may differ, between members."""
        return self.block_bytes is not None or self.pairs is not None

    @property
    def blocks(self) -> Int64:
        """Bytes of the block of each member, shape (n,); for operations with one block per member."""
        if self.block_bytes is None:
            return np.full(self.n, self.size_bytes, dtype=np.int64)
        return np.asarray(self.block_bytes, dtype=np.int64)

    @property
    def equal_block_bytes(self) -> int | None:
        """Size of the block of each member if all are equal, else None; for operations with one block per member."""
        blocks = self.blocks
        return int(blocks[0]) if np.all(blocks == blocks[0]) else None

    @property
    def key(self) -> Hashable:
        """Everything that tells two calls apart."""
        blocks = None if self.block_bytes is None else np.asarray(self.block_bytes).tobytes()
        pairs = self.pairs
        entries = None if pairs is None else (pairs.ptr.tobytes(), pairs.dst.tobytes(), pairs.size_bytes.tobytes())
        return (self.op, self.n, self.size_bytes, self.root, blocks, entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
