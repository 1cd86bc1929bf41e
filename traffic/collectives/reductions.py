"""Reductions without a root: allreduce, reduce_scatter, scan, exscan; and the barrier, a reduction of nothing."""

from __future__ import annotations

from functools import partial

import numpy as np

from netsim.core.errors import InputError
from netsim.traffic.collectives.call import Call, chunk_bytes
from netsim.traffic.collectives.registry import algorithm
from netsim.traffic.collectives.rooted import halving_distance_doubling
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.shapes import (
    Fold,
    binary_tree,
    block_cost,
    ceil_log2,
    ring_allgather,
    ring_reduce_scatter,
)
from netsim.traffic.collectives.steady import steady_pairwise, steady_ring

__all__: list[str] = []

_THAKUR = "Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1) 2005"
_ZERO = np.zeros(1, dtype=np.int64)


def _everybody(call: Call) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.arange(call.n, dtype=np.int64).reshape(1, call.n)


@algorithm(
    "allreduce/ring",
    "allreduce/nccl_ring",
    formula="T = 2(n-1)(a + S/(nB))",
    source="Patarasu, Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69 (2009); Open MPI; NCCL ring",
    cost=lambda call: (2 * (call.n - 1), 2 * (call.n - 1) * call.size_bytes / call.n),
    steady=partial(steady_ring, reduce_scatter=True, allgather=True),
)
def allreduce_ring(call: Call) -> Schedule:
    """Ring reduce-scatter of n chunks, then a ring allgather."""
    steps = Steps(call, chunk_bytes(call.size_bytes, call.n))
    ring_reduce_scatter(steps, _everybody(call), _ZERO, 1)
    ring_allgather(steps, _everybody(call), _ZERO, 1)
    return steps.schedule()


def _phases(call: Call, segment_bytes: int) -> int:
    return max(1, -(-call.size_bytes // (call.n * segment_bytes)))


@algorithm(
    "allreduce/ring_segmented",
    formula="T = (s+1)(n-1)a + 2(n-1)S/(nB), s = ceil(S / (n * segment_bytes)) phases of reduce-scatter",
    source="Open MPI coll/tuned (ring_segmented); structure from memory",
    cost=lambda call, segment_bytes=1 << 20: (
        (_phases(call, segment_bytes) + 1) * (call.n - 1),
        2 * (call.n - 1) * call.size_bytes / call.n,
    ),
    steady=lambda call, segment_bytes=1 << 20: steady_ring(
        call, reduce_scatter=True, allgather=True, phases=_phases(call, segment_bytes)
    ),
)
def allreduce_ring_segmented(call: Call, *, segment_bytes: int = 1 << 20) -> Schedule:
    """Ring in which the reduce-scatter runs in phases, so that a message has at most ``segment_bytes``."""
    phases = _phases(call, segment_bytes)
    pieces = np.concatenate([chunk_bytes(int(chunk), phases) for chunk in chunk_bytes(call.size_bytes, call.n)])
    steps = Steps(call, pieces)
    group = _everybody(call)
    step, chunk = np.arange(call.n - 1)[:, None], np.arange(call.n)
    for phase in range(phases):
        first = (chunk - 1 - step) % call.n * phases + phase
        steps.add(step=step, src=group, dst=np.roll(group, -1, axis=1), first=first, count=1, combine=True)
    ring_allgather(steps, group, _ZERO, phases)
    return steps.schedule()


def _doubling_steps(fold: Fold) -> int:
    return fold.log2 + 2 * (fold.r > 0)


@algorithm(
    "allreduce/recursive_doubling",
    formula="T = (log2 p + 2[r>0])(a + S/B)",
    source=f"{_THAKUR}, section 4.5; MPICH and Open MPI",
    cost=lambda call: (_doubling_steps(Fold(call.n)), _doubling_steps(Fold(call.n)) * call.size_bytes),
)
def allreduce_recursive_doubling(call: Call) -> Schedule:
    """Partners at distance 1, 2, 4, ... exchange whole vectors; surplus members fold into their odd neighbour."""
    return _doubling(Steps(call))


def _doubling(steps: Steps) -> Schedule:
    fold = Fold(steps.call.n)
    active, i = fold.odd, np.arange(fold.p, dtype=np.int64)
    steps.add(src=fold.pairs, dst=fold.pairs + 1, combine=True)
    for k in range(fold.log2):
        steps.add(src=active, dst=active[i ^ (1 << k)], combine=True)
    steps.add(src=fold.pairs + 1, dst=fold.pairs)
    return steps.schedule()


def _rabenseifner_cost(call: Call) -> tuple[float, float]:
    fold, size = Fold(call.n), call.size_bytes
    folded = 2 * int(fold.r > 0)
    return 2 * fold.log2 + folded, 2 * (fold.p - 1) * size / fold.p + folded * size


@algorithm(
    "allreduce/rabenseifner",
    formula="T = (2 log2 p + 2[r>0])a + 2(p-1)/p S/B + 2[r>0] S/B",
    source=f"Rabenseifner, ICCS 2004; {_THAKUR}, section 4.5",
    cost=_rabenseifner_cost,
)
def allreduce_rabenseifner(call: Call) -> Schedule:
    """Reduce-scatter by vector halving and distance doubling, then the reverse as allgather; surplus members fold."""
    fold = Fold(call.n)
    steps = Steps(call, chunk_bytes(call.size_bytes, fold.p))
    active, i = fold.odd, np.arange(fold.p, dtype=np.int64)
    steps.add(src=fold.pairs, dst=fold.pairs + 1, combine=True)
    starts = halving_distance_doubling(steps, active, fold)
    for k in reversed(range(fold.log2)):
        steps.add(src=active, dst=active[i ^ (1 << k)], first=starts[k], count=fold.p >> (k + 1))
    steps.add(src=fold.pairs + 1, dst=fold.pairs)
    return steps.schedule()


@algorithm(
    "allreduce/reduce_bcast",
    formula="T = 2 ceil(log2 n)(a + S/B)",
    source="Open MPI coll/tuned (nonoverlapping), here with binomial trees",
    cost=lambda call: (2 * ceil_log2(call.n), 2 * ceil_log2(call.n) * call.size_bytes),
)
def allreduce_reduce_bcast(call: Call) -> Schedule:
    """Binomial reduce to member 0, then a binomial bcast."""
    steps, n = Steps(call), call.n
    for k in range(ceil_log2(n)):
        upper = np.arange(0, n - (1 << k), 2 << k)
        steps.add(src=upper + (1 << k), dst=upper, combine=True)
    for k in reversed(range(ceil_log2(n))):
        upper = np.arange(0, n - (1 << k), 2 << k)
        steps.add(src=upper, dst=upper + (1 << k))
    return steps.schedule()


@algorithm(
    "allreduce/direct",
    formula="T = 2(a + (n-1)S/(nB))",
    source="all chunks at once; the one-switch case of Won et al., ASTRA-sim 2.0, ISPASS 2023",
    cost=lambda call: (2, 2 * (call.n - 1) * call.size_bytes / call.n),
)
def allreduce_direct(call: Call) -> Schedule:
    """Member j reduces chunk j of everybody and sends it to everybody: two all-to-all steps."""
    steps = Steps(call, chunk_bytes(call.size_bytes, call.n))
    src, dst = _all_pairs(call.n)
    steps.add(src=src, dst=dst, first=dst, count=1, combine=True)
    steps.add(src=src, dst=dst, first=src, count=1)
    return steps.schedule()


def _all_pairs(n: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    shift = np.arange(1, n, dtype=np.int64)[:, None]
    src = np.arange(n, dtype=np.int64)
    return np.broadcast_to(src, (n - 1, n)).ravel(), ((src + shift) % n).ravel()


def _hierarchy(call: Call, ranks_per_node: int | None) -> tuple[int, int]:
    if ranks_per_node is None or call.n % ranks_per_node:
        raise InputError(
            "collective algorithm 'allreduce/hierarchical'",
            f"ranks_per_node must divide the {call.n} members",
            got=ranks_per_node,
            remedy="write e.g. 'hierarchical(ranks_per_node=4)'",
        )
    return ranks_per_node, call.n // ranks_per_node


def _hierarchical_cost(call: Call, ranks_per_node: int | None = None) -> tuple[float, float]:
    g, m = _hierarchy(call, ranks_per_node)
    size = call.size_bytes
    return 2 * (g - 1) + 2 * (m - 1), 2 * (g - 1) * size / g + 2 * (m - 1) * size / (g * m)


@algorithm(
    "allreduce/hierarchical",
    formula="T = 2(g-1)(a1 + S/(g B1)) + 2(m-1)(a2 + S/(g m B2)), g ranks per node, m nodes; 1 inside, 2 between nodes",
    source="rail-optimised allreduce, e.g. Cho et al., BlueConnect, MLSys 2019",
    cost=_hierarchical_cost,
)
def allreduce_hierarchical(call: Call, *, ranks_per_node: int | None = None) -> Schedule:
    """Ring reduce-scatter in each node, ring allreduce along each rail, ring allgather in each node.

    Member i is rank ``i % ranks_per_node`` of node ``i // ranks_per_node``; ``ranks_per_node`` must divide n.
    """
    g, m = _hierarchy(call, ranks_per_node)
    steps = Steps(call, chunk_bytes(call.size_bytes, g * m))
    node = np.arange(call.n, dtype=np.int64).reshape(m, g)
    rail = np.ascontiguousarray(node.T)
    in_node, on_rail = np.zeros(m, dtype=np.int64), np.arange(g, dtype=np.int64) * m
    ring_reduce_scatter(steps, node, in_node, m)
    ring_reduce_scatter(steps, rail, on_rail, 1)
    ring_allgather(steps, rail, on_rail, 1)
    ring_allgather(steps, node, in_node, m)
    return steps.schedule()


@algorithm(
    "reduce_scatter/ring",
    "reduce_scatter/nccl_ring",
    formula="T = (n-1)(a + m/B)",
    source="Patarasu, Yuan, JPDC 69 (2009); Open MPI; NCCL ring",
    cost=partial(block_cost, latencies=lambda n: n - 1),
    steady=partial(steady_ring, reduce_scatter=True, allgather=False),
)
def reduce_scatter_ring(call: Call) -> Schedule:
    """Partial sums travel once around the ring and end at their owner."""
    steps = Steps(call)
    ring_reduce_scatter(steps, _everybody(call), _ZERO, 1)
    return steps.schedule()


@algorithm(
    "reduce_scatter/pairwise",
    formula="T = (n-1)(a + m/B)",
    source=f"{_THAKUR}, section 4.3; MPICH for long vectors",
    cost=partial(block_cost, latencies=lambda n: n - 1),
    steady=steady_pairwise,
)
def reduce_scatter_pairwise(call: Call) -> Schedule:
    """In step k each member sends the block of the member k further on directly to it."""
    steps, n = Steps(call), call.n
    shift, src = np.arange(1, n)[:, None], np.arange(n)
    dst = (src + shift) % n
    steps.add(step=shift - 1, src=src, dst=dst, first=dst, count=1, combine=True)
    return steps.schedule()


@algorithm(
    "reduce_scatter/linear",
    formula="T = a + (n-1)m/B",
    source="all blocks at once, by analogy with the linear alltoall",
    cost=partial(block_cost, latencies=lambda n: 1),
)
def reduce_scatter_linear(call: Call) -> Schedule:
    """Everybody sends every block directly to its owner, all at once."""
    steps = Steps(call)
    src, dst = _all_pairs(call.n)
    steps.add(src=src, dst=dst, first=dst, count=1, combine=True)
    return steps.schedule()


def _halving_cost(call: Call) -> tuple[float, float] | None:
    block = call.equal_block_bytes
    if block is None:
        return None
    fold = Fold(call.n)
    blocks = sum(fold.heaviest(1 << k) for k in range(fold.log2))
    if fold.r:
        blocks += call.n + 1
    return _doubling_steps(fold), blocks * block


@algorithm(
    "reduce_scatter/recursive_halving",
    formula="n = p: T = log2 n a + (n-1)m/B; else 2 more steps of nm and m, and pairs count double in between",
    source=f"{_THAKUR}, section 4.3; MPICH and Open MPI",
    cost=_halving_cost,
)
def reduce_scatter_recursive_halving(call: Call) -> Schedule:
    """Partners at distance p/2, p/4, ..., 1 exchange the half that the other one keeps; surplus members fold."""
    steps, fold = Steps(call), Fold(call.n)
    active, i = fold.odd, np.arange(fold.p, dtype=np.int64)
    steps.add(src=fold.pairs, dst=fold.pairs + 1, combine=True)
    for k in reversed(range(fold.log2)):
        partner = i ^ (1 << k)
        low = partner & -(1 << k)
        first = fold.low(low)
        steps.add(src=active, dst=active[partner], first=first, count=fold.low(low + (1 << k)) - first, combine=True)
    steps.add(src=fold.pairs + 1, dst=fold.pairs, first=fold.pairs, count=1)
    return steps.schedule()


@algorithm(
    "scan/linear",
    "exscan/linear",
    formula="T = (n-1)(a + S/B)",
    source="basic algorithm of Open MPI",
    cost=lambda call: (call.n - 1, (call.n - 1) * call.size_bytes),
)
def scan_linear(call: Call) -> Schedule:
    """Each member adds its vector to what it got from the one before and passes the sum on."""
    steps = Steps(call)
    src = np.arange(call.n - 1)
    steps.add(step=src, src=src, dst=src + 1, combine=True)
    return steps.schedule()


@algorithm(
    "scan/recursive_doubling",
    "exscan/recursive_doubling",
    formula="T = ceil(log2 n)(a + S/B)",
    source="MPICH (scan, exscan recursive doubling); Open MPI exscan",
    cost=lambda call: (ceil_log2(call.n), ceil_log2(call.n) * call.size_bytes),
)
def scan_recursive_doubling(call: Call) -> Schedule:
    """Partners at distance 1, 2, 4, ... exchange the sums of their groups; the later one also adds it to its result."""
    steps = Steps(call)
    member = np.arange(call.n, dtype=np.int64)
    for k in range(ceil_log2(call.n)):
        partner = member ^ (1 << k)
        there = partner < call.n
        steps.add(src=member[there], dst=partner[there], combine=True)
    return steps.schedule()


@algorithm(
    "barrier/dissemination",
    formula="T = ceil(log2 n) a",
    source="Hensgen, Finkel, Manber, Two algorithms for barrier synchronization, IJPP 17(1) 1988; MPICH",
    cost=lambda call: (ceil_log2(call.n), 0),
)
def barrier_dissemination(call: Call) -> Schedule:
    """In step k each member signals the member 2**k further on."""
    steps, member = Steps(call), np.arange(call.n)
    for k in range(ceil_log2(call.n)):
        steps.add(src=member, dst=(member + (1 << k)) % call.n, combine=True)
    return steps.schedule()


@algorithm(
    "barrier/recursive_doubling",
    formula="T = (log2 p + 2[r>0]) a",
    source="Open MPI coll/tuned",
    cost=lambda call: (_doubling_steps(Fold(call.n)), 0),
)
def barrier_recursive_doubling(call: Call) -> Schedule:
    """Partners at distance 1, 2, 4, ... signal each other; surplus members fold into their odd neighbour."""
    return _doubling(Steps(call))


@algorithm(
    "barrier/tree",
    formula="T = 2 floor(log2 n) a",
    source="Open MPI coll/base (tree barrier), here a binary tree",
    cost=lambda call: (2 * (call.n.bit_length() - 1), 0),
)
def barrier_tree(call: Call) -> Schedule:
    """Signals go up a binary tree and down again."""
    steps, tree = Steps(call), binary_tree(call.n)
    child, parent = tree.edges
    steps.add(step=tree.height - tree.depth[child], src=child, dst=parent, combine=True)
    steps.add(step=tree.depth[child] - 1, src=parent, dst=child)
    return steps.schedule()
