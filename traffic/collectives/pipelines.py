"""Pipelined trees: chain, binary, split binary, NCCL's ring bcast and reduce, and the double binary tree."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Int64
from netsim.traffic.collectives.call import Call, chunk_bytes
from netsim.traffic.collectives.registry import algorithm
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.shapes import (
    Tree,
    binary_tree,
    chain_tree,
    cut_segments,
    double_binary_trees,
    rotated,
    tree_down,
    tree_up,
)

__all__: list[str] = []

CHAIN_SEGMENT = 128 << 10
"""Segment of Open MPI's pipeline for long vectors."""

NCCL_CHUNK = 512 << 10
"""Slot of NCCL's Simple protocol: a buffer of 4 MiB in 8 slots (NCCL_BUFFSIZE, NCCL_STEPS; from memory)."""


def _down(call: Call, tree: Tree, pieces: Int64) -> Schedule:
    steps = Steps(call, pieces)
    tree_down(steps, tree, first=0, count=pieces.size)
    return steps.schedule()


def _up(call: Call, tree: Tree, pieces: Int64) -> Schedule:
    steps = Steps(call, pieces)
    tree_up(steps, tree, first=0, count=pieces.size)
    return steps.schedule()


def _chain_cost(
    call: Call, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT
) -> tuple[float, float] | None:
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    rounds = call.n + pieces.size - 2
    return None if np.ptp(pieces) else (rounds, rounds * int(pieces[0]))


def _nccl_cost(call: Call, segments: int | None = None, segment_bytes: int = NCCL_CHUNK) -> tuple[float, float] | None:
    return _chain_cost(call, segments, segment_bytes)


@algorithm(
    "bcast/chain",
    formula="T = (n+s-2)(a + S/(sB)), s equal segments; best s = sqrt((n-2)S/(aB))",
    source="Open MPI coll/tuned (pipeline)",
    cost=_chain_cost,
)
def bcast_chain(call: Call, *, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT) -> Schedule:
    """Segments follow each other down a chain that begins at the root."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    return _down(call, chain_tree(call.n).relabelled(rotated(call)), pieces)


@algorithm(
    "reduce/chain",
    formula="T = (n+s-2)(a + S/(sB)), s equal segments",
    source="Open MPI coll/tuned (pipeline)",
    cost=_chain_cost,
)
def reduce_chain(call: Call, *, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT) -> Schedule:
    """Segments follow each other along a chain that ends at the root."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    return _up(call, chain_tree(call.n).relabelled(rotated(call)), pieces)


@algorithm(
    "bcast/nccl_ring",
    formula="T = (n+s-2)(a + S/(sB)), s equal chunks",
    source="NCCL ring broadcast; chunk of the Simple protocol from memory",
    cost=_nccl_cost,
)
def bcast_nccl_ring(call: Call, *, segments: int | None = None, segment_bytes: int = NCCL_CHUNK) -> Schedule:
    """Chunks travel along the ring from the root to the member before it."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    return _down(call, chain_tree(call.n).relabelled(rotated(call)), pieces)


@algorithm(
    "reduce/nccl_ring",
    formula="T = (n+s-2)(a + S/(sB)), s equal chunks",
    source="NCCL ring reduce; chunk of the Simple protocol from memory",
    cost=_nccl_cost,
)
def reduce_nccl_ring(call: Call, *, segments: int | None = None, segment_bytes: int = NCCL_CHUNK) -> Schedule:
    """Chunks travel along the ring from the member after the root to the root."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    # Position i of the chain is i places before the root on the ring.
    before_root = (call.root - np.arange(call.n, dtype=np.int64)) % call.n
    return _up(call, chain_tree(call.n).relabelled(before_root), pieces)


def _tree_rounds(call: Call, tree: Tree, pieces: Int64) -> tuple[float, float] | None:
    """Pipeline through a tree: rounds last as long as the root is busy; then the last segment goes down.

    The last segment takes the path on which its forwarders have the most children.
    """
    if np.ptp(pieces):
        return None
    child, parent = tree.edges
    width = np.bincount(parent, minlength=call.n)
    slowest = np.zeros(call.n, dtype=np.int64)
    for depth in range(1, tree.height + 1):
        at = child[tree.depth[child] == depth]
        slowest[at] = slowest[tree.parent[at]] + width[tree.parent[at]]
    root = int(width[0])
    rounds = (pieces.size - 1) * root + int(slowest.max())
    return pieces.size - 1 + tree.height, rounds * int(pieces[0])


def _binary_cost(
    call: Call, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT
) -> tuple[float, float] | None:
    return _tree_rounds(
        call, binary_tree(call.n), cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    )


@algorithm(
    "bcast/binary",
    formula="T = (s-1+h)a + (2(s-1) + most children on the way)S/(sB), n > 2, s equal segments, h = floor(log2 n)",
    source="Open MPI coll/tuned (binary)",
    cost=_binary_cost,
)
def bcast_binary(call: Call, *, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT) -> Schedule:
    """Segments follow each other down a binary tree."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    return _down(call, binary_tree(call.n).relabelled(rotated(call)), pieces)


def _binary_up_cost(
    call: Call, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT
) -> tuple[float, float] | None:
    return _binary_cost(call, segments, segment_bytes) if (call.n + 1) & call.n == 0 else None


@algorithm(
    "reduce/binary",
    formula="n = 2**(h+1) - 1: T = (s-1+h)(a + 2S/(sB)), s equal segments; else not longer, as early children go ahead",
    source="Open MPI coll/tuned (binary)",
    cost=_binary_up_cost,
)
def reduce_binary(call: Call, *, segments: int | None = None, segment_bytes: int = CHAIN_SEGMENT) -> Schedule:
    """Segments follow each other up a binary tree."""
    pieces = cut_segments(call.size_bytes, segments=segments, segment=segment_bytes)
    return _up(call, binary_tree(call.n).relabelled(rotated(call)), pieces)


def _halves(call: Call, segments: int | None, segment: int) -> tuple[Int64, Int64]:
    one, two = (cut_segments(int(half), segments=segments, segment=segment) for half in chunk_bytes(call.size_bytes, 2))
    return one, two


SPLIT_SEGMENT = 1 << 10


def _split_cost(
    call: Call, segments: int | None = None, segment_bytes: int = SPLIT_SEGMENT
) -> tuple[float, float] | None:
    pieces = np.concatenate(_halves(call, segments, segment_bytes))
    if np.ptp(pieces):
        return None
    tree = _tree_rounds(call, binary_tree(call.n), pieces[: pieces.size // 2])
    return None if tree is None else (tree[0] + 1, tree[1] + call.size_bytes / 2)


@algorithm(
    "bcast/split_binary",
    formula="T = binary tree with half the vector, plus a + S/(2B)",
    source="Open MPI coll/tuned (split binary tree); pairing from memory",
    cost=_split_cost,
)
def bcast_split_binary(call: Call, *, segments: int | None = None, segment_bytes: int = SPLIT_SEGMENT) -> Schedule:
    """One half of the vector goes down each side of a binary tree; then members of the two sides swap halves in pairs.

    ``segments`` counts those of one half. Without a partner (n even) the last member gets the other half from the root.
    """
    one, two = _halves(call, segments, segment_bytes)
    steps, tree, member, n = Steps(call, np.concatenate([one, two])), binary_tree(call.n), rotated(call), call.n
    child, parent = tree.edges
    for side, first, count in ((1, 0, one.size), (0, one.size, two.size)):
        below = child % 2 == side
        src, dst = member[parent[below]], member[child[below]]
        segment = np.arange(count)[:, None]
        steps.add(
            step=segment + tree.depth[child[below]] - 1,
            src=src,
            dst=dst,
            first=first + segment,
            count=1,
            hold=side == 1,
        )
    left = np.arange(1, n, 2)
    paired = left[left + 1 < n]
    steps.add(src=member[paired], dst=member[paired + 1], first=0, count=one.size, hold=True)
    other = np.where(left + 1 < n, left + 1, 0)
    steps.add(src=member[other], dst=member[left], first=one.size, count=two.size)
    return steps.schedule()


@algorithm(
    "allreduce/double_binary_tree",
    formula="T <= (2h + s - 1)(a + 2S/(sB)), s segments per half, height h = ceil(log2 nodes) + ranks per node - 1",
    source="NCCL 2.4 and later; Sanders, Speck, Träff, Parallel Computing 35 (2009)",
)
def allreduce_double_binary_tree(
    call: Call, *, segments: int | None = None, segment_bytes: int = NCCL_CHUNK, ranks_per_node: int = 1
) -> Schedule:
    """Each half of the vector is reduced up its own binary tree and broadcast down again, in segments.

    ``segments`` counts those of one half; ``ranks_per_node`` hangs the members of a node in a chain below its first
    one.
    """
    one, two = _halves(call, segments, segment_bytes)
    steps = Steps(call, np.concatenate([one, two]))
    trees = double_binary_trees(call.n, ranks_per_node)
    for tree, first, count in zip(trees, (0, one.size), (one.size, two.size), strict=True):
        tree_up(steps, tree, first=first, count=count, hold=True)
        tree_down(steps, tree, first=first, count=count, start=tree.height, hold=True)
    return steps.schedule()
