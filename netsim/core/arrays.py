"""Frozen arrays and ragged (CSR) data: the shapes in which everything travels through netsim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Float64",
    "Int32",
    "Int64",
    "UInt8",
    "csr_gather",
    "csr_order",
    "csr_ptr",
    "distinct",
    "distinct_rows",
    "frozen",
    "ragged",
]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
Float64 = npt.NDArray[np.float64]


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A read-only, C-contiguous array of the given type; copies only when it must.

    Every kernel input goes through here, so that each kernel compiles for one set of types.

    >>> a = frozen([1, 2], np.int64)
    >>> a.flags.writeable, a.dtype.name
    (False, 'int64')
    """
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.flags.writeable:
        # A view is enough when the caller's array is already the right one; freeze the view, not the caller's array.
        array = array.view()
        array.flags.writeable = False
    return array


def csr_ptr(counts: npt.ArrayLike) -> Int64:
    """Row pointers from row lengths.

    >>> csr_ptr([2, 0, 1]).tolist()
    [0, 2, 2, 3]
    """
    lengths = np.asarray(counts, dtype=np.int64)
    ptr = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=ptr[1:])
    return ptr


def distinct(values: npt.ArrayLike) -> Int64:
    """The different values, sorted; 20 times faster on millions than ``np.unique``, which hashes first in numpy 2.3 and later.

    >>> distinct([3, 1, 3]).tolist()
    [1, 3]
    """
    ordered: Int64 = np.sort(np.asarray(values, dtype=np.int64))
    new = np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]
    found: Int64 = ordered[new]
    return found


def distinct_rows(values: npt.ArrayLike, limit: int) -> tuple[Int64, Int64]:
    """The different values, sorted, and the row of each entry among them; values are from 0 to ``limit`` - 1.

    >>> [a.tolist() for a in distinct_rows([3, 1, 3], 5)]
    [[1, 3], [1, 0, 1]]
    """
    value = np.asarray(values, dtype=np.int64)
    if limit > 4 * value.size + 1024:
        found = distinct(value)
        return found, np.searchsorted(found, value).astype(np.int64)
    # Nearly every number occurs: mark them, which takes no sorting.
    present = np.zeros(limit, dtype=bool)
    present[value] = True
    row = np.cumsum(present) - 1
    return np.flatnonzero(present), row[value]


def csr_order(rows: npt.ArrayLike, n_rows: int) -> tuple[Int64, Int64]:
    """Group entries by row, keeping their order: returns ``ptr`` and the permutation of the entries.

    >>> ptr, order = csr_order([1, 0, 1], 2)
    >>> ptr.tolist(), order.tolist()
    ([0, 1, 3], [1, 0, 2])
    """
    row = np.asarray(rows, dtype=np.int64)
    return csr_ptr(np.bincount(row, minlength=n_rows)), np.argsort(row, kind="stable").astype(np.int64)


def csr_gather(ptr: npt.ArrayLike, rows: npt.ArrayLike) -> tuple[Int64, Int64]:
    """Positions of all entries of the chosen rows: returns the new ``ptr`` and the entry positions.

    >>> ptr, at = csr_gather([0, 2, 2, 3], [2, 0])
    >>> ptr.tolist(), at.tolist()
    ([0, 1, 3], [2, 0, 1])
    """
    pointer = np.asarray(ptr, dtype=np.int64)
    row = np.asarray(rows, dtype=np.int64)
    length = pointer[row + 1] - pointer[row]
    new = csr_ptr(length)
    at = np.arange(new[-1], dtype=np.int64) + np.repeat(pointer[row] - new[:-1], length)
    return new, at


def ragged(rows: Iterable[Sequence[int]]) -> tuple[Int64, Int64]:
    """CSR from a list of lists, for tests and small inputs.

    >>> ptr, values = ragged([[1, 2], [], [3]])
    >>> ptr.tolist(), values.tolist()
    ([0, 2, 2, 3], [1, 2, 3])
    """
    lists = [list(row) for row in rows]
    return csr_ptr([len(row) for row in lists]), np.array([v for row in lists for v in row], dtype=np.int64)
