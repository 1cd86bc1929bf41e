"""Collectives that only move blocks between all members: allgather, alltoall, their v forms, neighbour collectives."""

from __future__ import annotations

from functools import partial

import numpy as np

from netsim.core.arrays import Int64, csr_ptr
from netsim.core.errors import InputError
from netsim.traffic.collectives.call import Call, PairBytes, chunk_bytes
from netsim.traffic.collectives.registry import algorithm
from netsim.traffic.collectives.rooted import allgather_doubling_cost, recursive_doubling_allgather
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.shapes import block_cost, ceil_log2, ring_allgather
from netsim.traffic.collectives.steady import steady_pairs, steady_pairwise, steady_ring

__all__: list[str] = []

_BRUCK = "Bruck et al., Efficient algorithms for all-to-all communications, IEEE TPDS 8(11) 1997"
_THAKUR = "Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1) 2005"


@algorithm(
    "allgather/ring",
    "allgatherv/ring",
    "allgather/nccl_ring",
    formula="T = (n-1)(a + m/B)",
    source=f"{_THAKUR}, section 4.1; MPICH, Open MPI, NCCL ring",
    cost=partial(block_cost, latencies=lambda n: n - 1),
    steady=partial(steady_ring, reduce_scatter=False, allgather=True),
)
def allgather_ring(call: Call) -> Schedule:
    """Blocks travel once around the ring."""
    steps = Steps(call)
    ring_allgather(steps, np.arange(call.n, dtype=np.int64)[None, :], np.zeros(1, dtype=np.int64), 1)
    return steps.schedule()


@algorithm(
    "allgather/bruck",
    "allgatherv/bruck",
    formula="T = ceil(log2 n) a + (n-1)m/B",
    source=f"{_BRUCK}; MPICH and Open MPI for short vectors",
    cost=partial(block_cost, latencies=ceil_log2),
)
def allgather_bruck(call: Call) -> Schedule:
    """In step k each member sends all it has (at most 2**k blocks) to the member 2**k before it."""
    steps, n, member = Steps(call), call.n, np.arange(call.n)
    for k in range(ceil_log2(n)):
        steps.add(src=member, dst=(member - (1 << k)) % n, first=member, count=min(1 << k, n - (1 << k)))
    return steps.schedule()


def _doubling_cost(call: Call) -> tuple[float, float] | None:
    block = call.equal_block_bytes
    return None if block is None else allgather_doubling_cost(call.n, block)


@algorithm(
    "allgather/recursive_doubling",
    "allgatherv/recursive_doubling",
    formula="n = p: T = log2 n a + (n-1)m/B; else 2 more steps of m and (n-1)m, and pairs count double in between",
    source=f"{_THAKUR}, section 4.1; MPICH and Open MPI",
    cost=_doubling_cost,
)
def allgather_recursive_doubling(call: Call) -> Schedule:
    """Partners at distance 1, 2, 4, ... exchange all they have; surplus members fold into their odd neighbour."""
    steps = Steps(call)
    recursive_doubling_allgather(steps, np.arange(call.n, dtype=np.int64))
    return steps.schedule()


@algorithm(
    "allgather/linear",
    "allgatherv/linear",
    formula="T = a + (n-1)m/B",
    source="basic algorithm of Open MPI",
    cost=partial(block_cost, latencies=lambda n: 1),
)
def allgather_linear(call: Call) -> Schedule:
    """Everybody sends its block to everybody at once; allgatherv leaves out empty blocks."""
    steps, n = Steps(call), call.n
    src = np.arange(n, dtype=np.int64)
    if call.irregular:
        src = src[call.blocks > 0]
    steps.add(src=src, dst=(src + np.arange(1, n)[:, None]) % n, first=src, count=1)
    return steps.schedule()


@algorithm(
    "allgather/neighbor_exchange",
    formula="n even: T = n/2 a + (n-1)m/B",
    source="Chen et al., HPCASIA 2005; Open MPI",
    cost=partial(block_cost, latencies=lambda n: n // 2),
)
def allgather_neighbor_exchange(call: Call) -> Schedule:
    """Members exchange by turns with the one and the other neighbour, two blocks at a time; n must be even."""
    n = call.n
    if n % 2:
        raise InputError(
            "collective algorithm 'allgather/neighbor_exchange'",
            "needs an even number of members",
            got=n,
            remedy="use 'ring'",
        )
    steps = Steps(call)
    even = np.arange(0, n, 2)
    steps.add(src=[even, even + 1], dst=[even + 1, even], first=[even, even + 1], count=1)
    for k in range(1, n // 2):
        # Pair j is the blocks 2j and 2j+1. After step k an even member of pair j got pair j-(k+1)/2 last (k odd) or
        # j+k/2 (k even); an odd member the mirror image. Each sends on what it got last.
        away = 2 * (k // 2)
        if k % 2:
            other, sent_even, sent_odd = (even - 1) % n, even + away, even - away
            steps.add(src=even, dst=other, first=sent_even, count=2, hold=True)
            steps.add(src=even + 1, dst=(even + 2) % n, first=sent_odd, count=2)
        else:
            steps.add(src=even, dst=even + 1, first=even - away, count=2, hold=True)
            steps.add(src=even + 1, dst=even, first=even + away, count=2)
    return steps.schedule()


def _alltoall_cost(latencies: int, call: Call) -> tuple[float, float]:
    return latencies, (call.n - 1) * call.size_bytes / call.n


@algorithm(
    "alltoall/linear",
    formula="T = a + (n-1)m/B, m = S/n",
    source="basic algorithm of Open MPI; NCCL grouped send and receive",
    cost=lambda call: _alltoall_cost(1, call),
)
def alltoall_linear(call: Call) -> Schedule:
    """All messages posted at once."""
    return _alltoall_batches(call, call.n)


@algorithm(
    "alltoall/scattered",
    formula="T = ceil(n/throttle) a + (n-1)m/B, m = S/n",
    source="MPICH (scattered, MPIR_CVAR_ALLTOALL_THROTTLE = 32)",
    cost=lambda call, throttle=32: _alltoall_cost(call.n - 1 if throttle == 1 else -(-call.n // throttle), call),
)
def alltoall_scattered(call: Call, *, throttle: int = 32) -> Schedule:
    """Messages posted in batches of ``throttle`` destinations, each batch after the one before."""
    return _alltoall_batches(call, throttle)


def _alltoall_batches(call: Call, throttle: int) -> Schedule:
    steps, n = Steps(call), call.n
    # A batch counts the destinations from the member itself on, which is the first destination of the first batch.
    shift, src = np.arange(1, n, dtype=np.int64)[:, None], np.arange(n, dtype=np.int64)
    dst = (src + shift) % n
    batch = shift - 1 if throttle == 1 else shift // throttle
    steps.add(step=batch, src=src, dst=dst, first=src * n + dst, count=1)
    return steps.schedule()


@algorithm(
    "alltoall/pairwise",
    formula="T = (n-1)(a + m/B), m = S/n",
    source=f"{_THAKUR}, section 4.2; MPICH and Open MPI for long messages",
    cost=lambda call: _alltoall_cost(call.n - 1, call),
    steady=steady_pairwise,
)
def alltoall_pairwise(call: Call) -> Schedule:
    """Step k: exchange with member i xor k if n is a power of two, else send to i + k and receive from i - k."""
    steps, n = Steps(call), call.n
    shift, src = np.arange(1, n, dtype=np.int64)[:, None], np.arange(n, dtype=np.int64)
    dst = src ^ shift if n & (n - 1) == 0 else (src + shift) % n
    steps.add(step=shift - 1, src=src, dst=dst, first=src * n + dst, count=1)
    return steps.schedule()


def _bruck_offsets(n: int, k: int) -> Int64:
    """Distances i in 1 .. n-1 that have bit k set: how far the blocks of step k travel in total."""
    i = np.arange(n, dtype=np.int64)
    return i[((i >> k) & 1).astype(np.bool_)]


def _bruck_blocks(n: int, k: int) -> Int64:
    """Blocks that each member sends in step k, shape (n, blocks): their lower bits are travelled already."""
    i = _bruck_offsets(n, k)
    origin = (np.arange(n, dtype=np.int64)[:, None] - (i & ((1 << k) - 1))) % n
    return origin * n + (origin + i) % n


def _bruck_lists(n: int) -> tuple[Int64, Int64]:
    rounds = [_bruck_blocks(n, k) for k in range(ceil_log2(n))]
    lengths = np.concatenate([np.full(n, blocks.shape[1]) for blocks in rounds])
    return csr_ptr(lengths), np.concatenate([blocks.ravel() for blocks in rounds])


def _bruck_cost(call: Call) -> tuple[float, float]:
    carried = sum(_bruck_offsets(call.n, k).size for k in range(ceil_log2(call.n)))
    return ceil_log2(call.n), carried * call.size_bytes / call.n


@algorithm(
    "alltoall/bruck",
    formula="T = ceil(log2 n) a + m/B * sum over k of #{i < n: bit k of i is set}, m = S/n",
    source=f"{_BRUCK}; MPICH and Open MPI for short messages",
    cost=_bruck_cost,
)
def alltoall_bruck(call: Call) -> Schedule:
    """In step k blocks whose remaining way has bit k set move on by 2**k members, all in one message."""
    steps, n = Steps(call), call.n
    member, size = np.arange(n, dtype=np.int64), chunk_bytes(call.size_bytes, n)
    for k in range(ceil_log2(n)):
        count = _bruck_offsets(n, k).size
        even = call.size_bytes % n == 0
        sent = np.full(n, count * size[0]) if even else size[_bruck_blocks(n, k) % n].sum(axis=1)
        steps.add(src=member, dst=(member + (1 << k)) % n, first=-1, count=count, size_bytes=sent)
    return steps.schedule(lists=partial(_bruck_lists, n))


def _pairs(call: Call) -> PairBytes:
    assert call.pairs is not None  # Call guarantees it for the operations below
    return call.pairs


def _entries(call: Call) -> tuple[Int64, Int64, Int64]:
    """Messages of an irregular all-to-all: nothing for empty entries, nor for what a member sends to itself."""
    pairs = _pairs(call)
    src = pairs.src
    entry = np.flatnonzero((src != pairs.dst) & (pairs.size_bytes > 0))
    return entry, src[entry], pairs.dst[entry]


@algorithm(
    "alltoallv/linear",
    formula="T >= a + max over members of max(bytes out, bytes in)/B",
    source="basic algorithm of Open MPI; NCCL grouped send and receive",
)
def alltoallv_linear(call: Call) -> Schedule:
    """All messages posted at once; empty ones and those to oneself do not exist."""
    steps = Steps(call)
    entry, src, dst = _entries(call)
    steps.add(src=src, dst=dst, first=entry, count=1)
    return steps.schedule()


@algorithm(
    "alltoallv/scattered",
    formula="T >= a + max over members of max(bytes out, bytes in)/B",
    source="MPICH (scattered, MPIR_CVAR_ALLTOALL_THROTTLE = 32)",
)
def alltoallv_scattered(call: Call, *, throttle: int = 32) -> Schedule:
    """Messages posted in batches of ``throttle`` destinations; empty ones and those to oneself do not exist."""
    steps = Steps(call)
    entry, src, dst = _entries(call)
    steps.add(step=(dst - src) % call.n // throttle, src=src, dst=dst, first=entry, count=1)
    return steps.schedule()


@algorithm(
    "alltoallv/pairwise",
    formula="T >= a + max over members of max(bytes out, bytes in)/B",
    source="Open MPI coll/tuned",
    steady=steady_pairs,
)
def alltoallv_pairwise(call: Call) -> Schedule:
    """Step k: send to member i + k, receive from i - k; empty messages and those to oneself do not exist."""
    steps = Steps(call)
    entry, src, dst = _entries(call)
    steps.add(step=(dst - src) % call.n - 1, src=src, dst=dst, first=entry, count=1)
    return steps.schedule()


def _neighbor_cost(call: Call) -> tuple[float, float] | None:
    pairs = _pairs(call)
    there = pairs.src != pairs.dst
    out, into = (np.bincount(end[there], minlength=call.n) for end in (pairs.src, pairs.dst))
    size = pairs.size_bytes[there]
    if size.size == 0 or np.ptp(out) or np.ptp(into) or np.ptp(size):
        return None
    return 1, int(out[0] * size[0])


@algorithm(
    "neighbor_allgather/direct",
    "neighbor_alltoall/direct",
    formula="d neighbours each, equal blocks: T = a + d m/B",
    source="MPICH and Open MPI (neighbour collectives are point-to-point messages)",
    cost=_neighbor_cost,
)
def neighbor_direct(call: Call) -> Schedule:
    """One message per neighbour, all at once, empty ones included."""
    steps, pairs = Steps(call), _pairs(call)
    src = pairs.src
    entry = np.flatnonzero(src != pairs.dst)
    steps.add(src=src[entry], dst=pairs.dst[entry], first=entry, count=1)
    return steps.schedule()
