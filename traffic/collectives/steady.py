"""Collectives as steady flows: what a schedule moves in all, without its steps.

A ring of n members and 2(n-1) steps has 2n(n-1) messages, 134 million for 8,192 members. Its members are busy in every step and go at
one pace, so over its whole run each pair of neighbours is one flow of constant share. Such a form takes O(pairs) instead of O(pairs
times steps).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Int64, frozen
from netsim.core.errors import InputError
from netsim.traffic.collectives.call import Call, chunk_bytes
from netsim.traffic.collectives.schedule import Steps

__all__ = ["Steady", "steady_pairs", "steady_pairwise", "steady_ring"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Steady:
    """The flows of one collective, all under way at the same time.

    *When.* All flows start when the last member has entered, and all members leave when the last flow is delivered: a late member of a
    ring has all its steps before it, and holds up everybody. Each flow pays ``n_steps`` path latencies, each member as many
    send and receive overheads. On a non-blocking star that is exact. Where links are shared it was late by 0.2 % at most for vectors of
    1 MB and more per member, and by up to 22 % for 16 to 40 kB per member (``benchmarks/steady_collectives.py``): the slowest share
    and the longest path, which count for all, need not belong to the same pair.

    Attributes
    ----------
    src, dst : int64 array, shape (m,)
        Each pair once; never src == dst.
    size_bytes : int64 array, shape (m,)
        The sum over the steps of the schedule.
    n_steps : int
    """

    src: Int64
    dst: Int64
    size_bytes: Int64
    n_steps: int

    def __post_init__(self) -> None:
        for name in ("src", "dst", "size_bytes"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64))


def steady_ring(call: Call, *, reduce_scatter: bool, allgather: bool, phases: int = 1) -> Steady:
    """A ring of chunks: once around for a reduce-scatter, once for an allgather.

    A member passes on all chunks but its own while reducing, and all but the next member's while gathering.

    Examples
    --------
    >>> flows = steady_ring(Call(op="allreduce", n=3, size_bytes=10), reduce_scatter=True, allgather=True)
    >>> flows.size_bytes.tolist(), flows.n_steps
    ([13, 14, 13], 4)
    """
    n = call.n
    chunk = chunk_bytes(call.size_bytes, n) if call.op == "allreduce" else Steps(call).block_bytes
    size = np.zeros(n, dtype=np.int64)
    if reduce_scatter:
        size += chunk.sum() - chunk
    if allgather:
        size += chunk.sum() - np.roll(chunk, -1)
    member = np.arange(n)
    return Steady(
        src=member, dst=(member + 1) % n, size_bytes=size, n_steps=(phases * reduce_scatter + allgather) * (n - 1)
    )


def steady_pairwise(call: Call) -> Steady:
    """Everybody's block for everybody else, one partner per step."""
    n = call.n
    src, shift = np.repeat(np.arange(n), n - 1), np.tile(np.arange(1, n), n)
    dst = (src + shift) % n
    return Steady(src=src, dst=dst, size_bytes=Steps(call).block_bytes[dst], n_steps=n - 1)


def steady_pairs(call: Call) -> Steady:
    """The entries of an irregular exchange, one partner per step."""
    if call.pairs is None:
        raise InputError(f"{call.op} of {call.n} members", "needs the bytes of each pair")
    there = (call.pairs.src != call.pairs.dst) & (call.pairs.size_bytes > 0)
    src, dst, size = call.pairs.src[there], call.pairs.dst[there], call.pairs.size_bytes[there]
    pair, row = np.unique(src * call.n + dst, return_inverse=True)
    total = np.zeros(pair.size, dtype=np.int64)
    np.add.at(total, row, size)
    return Steady(src=pair // call.n, dst=pair % call.n, size_bytes=total, n_steps=call.n - 1)
