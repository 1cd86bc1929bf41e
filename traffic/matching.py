"""Which receive takes which send: first in, first out per (communicator, source, destination, tag).

MPI's rule that messages between two processes do not overtake (MPI-4.1, section 3.5) makes the k-th receive of such a key take
the k-th send of it, in posting order, whatever the timing. Receives from any source or with any tag are therefore matched
by their *recorded* outcome. Only where that was never recorded does an order of arrival have to be assumed; see
``netsim.traffic.arrival``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64

__all__ = ["Endpoints", "match_fifo", "match_numbered"]

UNMATCHED = -1


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """One side of many messages, in posting order within each source (sends) or destination (receives).

    Attributes
    ----------
    comm, src, dst, tag : int array, shape (n,)
        Communicator, sending and receiving world rank, tag.
    """

    comm: npt.NDArray[np.integer]
    src: npt.NDArray[np.integer]
    dst: npt.NDArray[np.integer]
    tag: npt.NDArray[np.integer]

    def __len__(self) -> int:
        return int(self.src.size)

    def take(self, index: npt.NDArray[np.integer]) -> Endpoints:
        """The chosen ones, in the given order."""
        return Endpoints(comm=self.comm[index], src=self.src[index], dst=self.dst[index], tag=self.tag[index])


def _dense(values: npt.NDArray[np.integer]) -> tuple[Int64, int]:
    """Small non-negative codes for integers, equal where the integers are equal; and how many codes there may be."""
    if values.size == 0:
        return np.zeros(0, dtype=np.int64), 1
    wide = values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    if high - low < 2**20:
        return wide - low, high - low + 1
    unique, code = np.unique(wide, return_inverse=True)
    return code.astype(np.int64), int(unique.size)


def group_codes(columns: list[npt.NDArray[np.integer]]) -> Int64:
    """One integer per row, equal where all columns are equal.

    >>> a, b, c = group_codes([np.array([5, 5, 5]), np.array([2**31 - 1, 0, 0])])
    >>> bool(a == b), bool(b == c)
    (False, True)
    """
    code, n_codes = _dense(columns[0])
    for column in columns[1:]:
        more, n_more = _dense(column)
        if n_codes * n_more >= 2**62:
            unique, code = np.unique(code, return_inverse=True)
            n_codes = int(unique.size)
        code = code * n_more + more
        n_codes *= n_more
    return code


def _occurrence(code: Int64) -> tuple[Int64, Int64]:
    """Sort rows by code, keeping their order; also number the rows of equal code 0, 1, 2, ..."""
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    first = np.ones(code.size, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    start = np.flatnonzero(first)
    number = np.arange(code.size) - np.repeat(start, np.diff(np.append(start, code.size)))
    return order, number


def match_fifo(*, sends: Endpoints, receives: Endpoints) -> Int64:
    """Match the k-th send of each (communicator, source, destination, tag) to the k-th receive of the same key.

    Parameters
    ----------
    sends, receives : Endpoints
        In posting order.

    Returns
    -------
    int64 array, shape (number of receives,)
        Send of each receive, or -1 where there is none. O(n log n).

    Examples
    --------
    Two sends of one key, and a receive with another tag:

    >>> def side(*rows):
    ...     comm, src, dst, tag = np.array(rows).T
    ...     return Endpoints(comm=comm, src=src, dst=dst, tag=tag)
    >>> match_fifo(sends=side((0, 0, 1, 5), (0, 0, 1, 5)), receives=side((0, 0, 1, 9), (0, 0, 1, 5), (0, 0, 1, 5))).tolist()
    [-1, 0, 1]
    """
    n_sends = len(sends)
    code = group_codes(
        [np.concatenate([getattr(sends, name), getattr(receives, name)]) for name in ("comm", "src", "dst", "tag")]
    )
    send_order = np.argsort(code[:n_sends], kind="stable")
    recv_order, recv_number = _occurrence(code[n_sends:])
    # Within a code the occurrences are 0, 1, 2, ...; so receive number k of a code finds its send at (start of the code) + k.
    send_code = code[:n_sends][send_order]
    recv_code = code[n_sends:][recv_order]
    at = np.searchsorted(send_code, recv_code, side="left") + recv_number
    found = at < np.searchsorted(send_code, recv_code, side="right")
    result = np.full(len(receives), UNMATCHED, dtype=np.int64)
    result[recv_order[found]] = send_order[at[found]]
    return result


def match_numbered(*, send_number: Int64, recv_number: Int64) -> Int64:
    """Match by message numbers that the source of the trace recorded (-1: none); the first of equal numbers wins.

    Returns
    -------
    int64 array, shape (number of receives,)
        Send of each receive, or -1.

    Examples
    --------
    >>> match_numbered(send_number=np.array([7, -1, 3]), recv_number=np.array([3, -1, 8])).tolist()
    [2, -1, -1]
    """
    zero = np.zeros
    sends = np.flatnonzero(send_number >= 0)
    receives = np.flatnonzero(recv_number >= 0)
    found = match_fifo(
        sends=Endpoints(
            comm=send_number[sends], src=zero(sends.size, int), dst=zero(sends.size, int), tag=zero(sends.size, int)
        ),
        receives=Endpoints(
            comm=recv_number[receives],
            src=zero(receives.size, int),
            dst=zero(receives.size, int),
            tag=zero(receives.size, int),
        ),
    )
    result = np.full(recv_number.size, UNMATCHED, dtype=np.int64)
    hit = found >= 0
    result[receives[hit]] = sends[found[hit]]
    return result
