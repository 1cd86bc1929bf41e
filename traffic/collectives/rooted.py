"""Collectives with a root: bcast, reduce, gather, scatter and their v forms; pipelines are in ``pipelines``."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Int64
from netsim.traffic.collectives.call import Call
from netsim.traffic.collectives.registry import algorithm
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.shapes import Fold, ceil_log2, ring_allgather, rotated

_THAKUR = "Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1) 2005"


def _others(call: Call) -> Int64:
    return rotated(call)[1:]


def _binomial(n: int, *, outward: bool) -> list[tuple[Int64, int]]:
    """Steps of a binomial tree rooted at position 0: upper ends, and their distance to the lower ends."""
    rounds = []
    for k in range(ceil_log2(n)):
        distance = 1 << (ceil_log2(n) - 1 - k if outward else k)
        upper = np.arange(0, n - distance, 2 * distance, dtype=np.int64)
        rounds.append((upper, distance))
    return rounds


@algorithm(
    "bcast/linear",
    formula="T = a + (n-1)S/B",
    source="basic algorithm of MPICH and Open MPI",
    cost=lambda call: (1, (call.n - 1) * call.size_bytes),
)
def bcast_linear(call: Call) -> Schedule:
    """The root sends to everybody at once."""
    steps = Steps(call)
    steps.add(src=call.root, dst=_others(call))
    return steps.schedule()


@algorithm(
    "reduce/linear",
    formula="T = a + (n-1)S/B",
    source="basic algorithm of MPICH and Open MPI",
    cost=lambda call: (1, (call.n - 1) * call.size_bytes),
)
def reduce_linear(call: Call) -> Schedule:
    """Everybody sends to the root at once."""
    steps = Steps(call)
    steps.add(src=_others(call), dst=call.root, combine=True)
    return steps.schedule()


@algorithm(
    "bcast/binomial",
    formula="T = ceil(log2 n)(a + S/B)",
    source=f"{_THAKUR}, section 4.4",
    cost=lambda call: (ceil_log2(call.n), ceil_log2(call.n) * call.size_bytes),
)
def bcast_binomial(call: Call) -> Schedule:
    """Binomial tree, the farthest child first."""
    steps, member = Steps(call), rotated(call)
    for upper, distance in _binomial(call.n, outward=True):
        steps.add(src=member[upper], dst=member[upper + distance])
    return steps.schedule()


@algorithm(
    "reduce/binomial",
    formula="T = ceil(log2 n)(a + S/B)",
    source=f"{_THAKUR}, section 4.6",
    cost=lambda call: (ceil_log2(call.n), ceil_log2(call.n) * call.size_bytes),
)
def reduce_binomial(call: Call) -> Schedule:
    """Binomial tree, the nearest child first."""
    steps, member = Steps(call), rotated(call)
    for upper, distance in _binomial(call.n, outward=False):
        steps.add(src=member[upper + distance], dst=member[upper], combine=True)
    return steps.schedule()


@algorithm(
    "gather/binomial",
    formula="T = ceil(log2 n) a + (n-1)m/B",
    source="MPICH and Open MPI; Chan et al., Concurrency and Computation 19 (2007), section 4",
    cost=lambda call: (ceil_log2(call.n), (call.n - 1) * call.size_bytes),
)
def gather_binomial(call: Call) -> Schedule:
    """Binomial tree; each member passes on the blocks of its subtree."""
    steps, member, n = Steps(call), rotated(call), call.n
    for upper, distance in _binomial(n, outward=False):
        lower = upper + distance
        steps.add(src=member[lower], dst=member[upper], first=member[lower], count=np.minimum(distance, n - lower))
    return steps.schedule()


@algorithm(
    "scatter/binomial",
    formula="T = ceil(log2 n) a + (n-1)m/B",
    source="MPICH and Open MPI; Chan et al., Concurrency and Computation 19 (2007), section 4",
    cost=lambda call: (ceil_log2(call.n), (call.n - 1) * call.size_bytes),
)
def scatter_binomial(call: Call) -> Schedule:
    """Binomial tree; each member receives the blocks of its subtree."""
    steps, member, n = Steps(call), rotated(call), call.n
    for upper, distance in _binomial(n, outward=True):
        lower = upper + distance
        steps.add(src=member[upper], dst=member[lower], first=member[lower], count=np.minimum(distance, n - lower))
    return steps.schedule()


def _linear_cost(call: Call) -> tuple[float, float]:
    blocks = call.blocks
    others = np.delete(blocks, call.root)
    if call.irregular:
        others = others[others > 0]
    return int(others.size > 0), int(others.sum())


@algorithm(
    "gather/linear",
    "gatherv/linear",
    formula="T = a + (n-1)m/B; gatherv: a + (sum of the blocks of the others)/B",
    source="Open MPI (gather), MPICH and Open MPI (gatherv)",
    cost=_linear_cost,
)
def gather_linear(call: Call) -> Schedule:
    """Everybody sends its block to the root at once (incast); gatherv leaves out empty blocks."""
    steps, others = Steps(call), _others(call)
    if call.irregular:
        others = others[call.blocks[others] > 0]
    steps.add(src=others, dst=call.root, first=others, count=1)
    return steps.schedule()


@algorithm(
    "scatter/linear",
    "scatterv/linear",
    formula="T = a + (n-1)m/B; scatterv: a + (sum of the blocks of the others)/B",
    source="Open MPI (scatter), MPICH and Open MPI (scatterv)",
    cost=_linear_cost,
)
def scatter_linear(call: Call) -> Schedule:
    """The root sends its block to everybody at once; scatterv leaves out empty blocks."""
    steps, others = Steps(call), _others(call)
    if call.irregular:
        others = others[call.blocks[others] > 0]
    steps.add(src=call.root, dst=others, first=others, count=1)
    return steps.schedule()


def _scatter_pieces(call: Call) -> tuple[Steps, Int64]:
    """First half of the two long-message broadcasts: piece i of the vector goes to position i, by a binomial tree."""
    n = call.n
    whole, rest = divmod(call.size_bytes, n)
    steps, member = Steps(call, whole + (np.arange(n) < rest)), rotated(call)
    for upper, distance in _binomial(n, outward=True):
        lower = upper + distance
        steps.add(src=member[upper], dst=member[lower], first=lower, count=np.minimum(distance, n - lower))
    return steps, member


@algorithm(
    "bcast/scatter_ring",
    formula="T = (ceil(log2 n) + n-1)a + 2(n-1)/n S/B",
    source=f"van de Geijn; {_THAKUR}, section 4.4",
    cost=lambda call: (ceil_log2(call.n) + call.n - 1, 2 * (call.n - 1) * call.size_bytes / call.n),
)
def bcast_scatter_ring(call: Call) -> Schedule:
    """Binomial scatter of n pieces, then a ring allgather."""
    steps, member = _scatter_pieces(call)
    ring_allgather(steps, member[None, :], np.zeros(1, dtype=np.int64), 1)
    return steps.schedule()


def allgather_doubling_cost(n: int, block: float) -> tuple[float, float]:
    """Closed form of the recursive doubling allgather with folding."""
    fold = Fold(n)
    carried = sum(fold.heaviest(1 << k) for k in range(fold.log2))
    if fold.r:
        carried += 1 + n - 1
    return fold.log2 + 2 * (fold.r > 0), carried * block


def recursive_doubling_allgather(steps: Steps, member: Int64) -> None:
    """Position i begins with block i. Surplus members fold into their odd neighbour."""
    n = member.size
    fold = Fold(n)
    steps.add(src=member[fold.pairs], dst=member[fold.pairs + 1], first=fold.pairs, count=1)
    active = member[fold.odd]
    i = np.arange(fold.p, dtype=np.int64)
    for k in range(fold.log2):
        low = i & -(1 << k)
        first = fold.low(low)
        steps.add(src=active, dst=active[i ^ (1 << k)], first=first, count=fold.low(low + (1 << k)) - first)
    steps.add(src=member[fold.pairs + 1], dst=member[fold.pairs], first=fold.pairs + 1, count=n - 1)


def _scatter_doubling_cost(call: Call) -> tuple[float, float]:
    piece = call.size_bytes / call.n
    latencies, carried = allgather_doubling_cost(call.n, piece)
    return ceil_log2(call.n) + latencies, (call.n - 1) * piece + carried


@algorithm(
    "bcast/scatter_recursive_doubling",
    formula="n = p: T = 2 log2 n a + 2(n-1)/n S/B; else the scatter plus the folded allgather",
    source=f"{_THAKUR}, section 4.4",
    cost=_scatter_doubling_cost,
)
def bcast_scatter_recursive_doubling(call: Call) -> Schedule:
    """Binomial scatter of n pieces, then a recursive doubling allgather."""
    steps, member = _scatter_pieces(call)
    recursive_doubling_allgather(steps, member)
    return steps.schedule()


def _reduce_rabenseifner_cost(call: Call) -> tuple[float, float]:
    fold, size = Fold(call.n), call.size_bytes
    folded = int(fold.r > 0)
    return 2 * fold.log2 + folded, 2 * (fold.p - 1) * size / fold.p + folded * size


@algorithm(
    "reduce/rabenseifner",
    formula="T = (2 log2 p + [r>0])a + 2(p-1)/p S/B + [r>0] S/B",
    source=f"Rabenseifner, ICCS 2004; {_THAKUR}, section 4.6",
    cost=_reduce_rabenseifner_cost,
)
def reduce_rabenseifner(call: Call) -> Schedule:
    """Reduce-scatter by vector halving and distance doubling, then a binomial gather to the root."""
    fold, member = Fold(call.n), rotated(call)
    p = fold.p
    whole, rest = divmod(call.size_bytes, p)
    steps = Steps(call, whole + (np.arange(p) < rest))
    # The even member of each pair stays active here, so that the root (position 0) does.
    steps.add(src=member[fold.pairs + 1], dst=member[fold.pairs], combine=True)
    active = member[fold.even]
    starts = halving_distance_doubling(steps, active, fold)
    for k in reversed(range(fold.log2)):
        lower = np.arange(1 << k, 2 << k, dtype=np.int64)
        steps.add(src=active[lower], dst=active[lower - (1 << k)], first=starts[k][lower], count=p >> (k + 1))
    return steps.schedule()


def halving_distance_doubling(steps: Steps, active: Int64, fold: Fold) -> list[Int64]:
    """Reduce-scatter of p blocks among the active members; near partners exchange the large halves.

    Returns, for each step, the first of the p / 2**(k+1) blocks that each position keeps.
    """
    i = np.arange(fold.p, dtype=np.int64)
    start, starts = np.zeros(fold.p, dtype=np.int64), []
    for k in range(fold.log2):
        half = fold.p >> (k + 1)
        partner = i ^ (1 << k)
        kept = start + ((i >> k) & 1) * half
        # Partners have the same range before the step, and what one gives away is what the other keeps.
        steps.add(src=active, dst=active[partner], first=kept[partner], count=half, combine=True)
        start = kept
        starts.append(kept)
    return starts
