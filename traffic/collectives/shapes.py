"""Shapes that algorithms share: powers of two and the folding of surplus members, rings of groups, trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.traffic.collectives.call import Call
from netsim.traffic.collectives.schedule import Steps

__all__ = [
    "Fold",
    "Tree",
    "binary_tree",
    "block_cost",
    "ceil_log2",
    "chain_tree",
    "cut_segments",
    "double_binary_trees",
    "ring_allgather",
    "ring_reduce_scatter",
    "rotated",
    "tree_down",
    "tree_up",
]


def ceil_log2(n: int) -> int:
    """Smallest k with 2**k >= n.

    >>> [ceil_log2(n) for n in (1, 2, 3, 4, 5, 8, 9)]
    [0, 1, 2, 2, 3, 3, 4]
    """
    return (n - 1).bit_length()


def block_cost(call: Call, *, latencies: Callable[[int], int]) -> tuple[float, float] | None:
    """Closed form when n-1 blocks of equal size leave each member one after the other; none for unequal blocks."""
    block = call.equal_block_bytes
    return None if block is None else (latencies(call.n), (call.n - 1) * block)


@dataclass(frozen=True)
class Fold:
    """Reduce n members to p = 2**floor(log2 n) active positions.

    The first 2r members (r = n - p) form pairs (0,1), (2,3), ... In each pair one member is idle; position i < r stands
    for the pair (2i, 2i+1), position i >= r for member i + r.

    >>> fold = Fold(6)
    >>> fold.p, fold.r, fold.odd.tolist(), fold.even.tolist()
    (4, 2, [1, 3, 4, 5], [0, 2, 4, 5])
    """

    n: int

    @property
    def p(self) -> int:
        """Number of active positions."""
        return 1 << (self.n.bit_length() - 1)

    @property
    def r(self) -> int:
        """Number of pairs."""
        return self.n - self.p

    @property
    def log2(self) -> int:
        """Steps among the active positions."""
        return self.n.bit_length() - 1

    @property
    def pairs(self) -> Int64:
        """First member of each pair, shape (r,)."""
        return 2 * np.arange(self.r, dtype=np.int64)

    @property
    def odd(self) -> Int64:
        """Active member of each position when the odd member of each pair stays active, shape (p,)."""
        i = np.arange(self.p, dtype=np.int64)
        return np.where(i < self.r, 2 * i + 1, i + self.r)

    @property
    def even(self) -> Int64:
        """Active member of each position when the even member of each pair stays active, shape (p,)."""
        i = np.arange(self.p, dtype=np.int64)
        return np.where(i < self.r, 2 * i, i + self.r)

    def low(self, position: Int64) -> Int64:
        """First member that a position stands for; ``low(p) == n``."""
        return np.asarray(position + np.minimum(position, self.r), dtype=np.int64)

    def heaviest(self, width: int) -> int:
        """Most members that ``width`` neighbouring positions stand for: those from position 0 on."""
        return width + min(width, self.r)


def ring_reduce_scatter(steps: Steps, group: Int64, base: Int64, width: int) -> None:
    """Ring reduce-scatter of several groups side by side; position c of a group ends with its chunk c.

    Parameters
    ----------
    group : int64 array, shape (groups, g)
        Members of each group in ring order.
    base : int64 array, shape (groups,)
        First block of each group; its chunk c is the blocks ``base + c*width`` and the ``width - 1`` that follow.
    """
    g = group.shape[1]
    step = np.arange(g - 1)[:, None, None]
    chunk = (np.arange(g) - 1 - step) % g
    steps.add(
        step=step,
        src=group,
        dst=np.roll(group, -1, axis=1),
        first=base[:, None] + chunk * width,
        count=width,
        combine=True,
    )


def ring_allgather(steps: Steps, group: Int64, base: Int64, width: int) -> None:
    """Ring allgather of several groups side by side; position c of a group begins with its chunk c."""
    g = group.shape[1]
    step = np.arange(g - 1)[:, None, None]
    chunk = (np.arange(g) - step) % g
    steps.add(step=step, src=group, dst=np.roll(group, -1, axis=1), first=base[:, None] + chunk * width, count=width)


@dataclass(frozen=True)
class Tree:
    """A rooted tree over members.

    Attributes
    ----------
    parent : int64 array, shape (n,)
        -1 at the root.
    depth : int64 array, shape (n,)
        0 at the root.
    """

    parent: Int64
    depth: Int64

    @classmethod
    def of(cls, parent: Int64) -> Tree:
        """Work out the depths (by pointer jumping, log2 of the height rounds)."""
        above = np.where(parent < 0, np.arange(parent.size), parent)
        depth = (parent >= 0).astype(np.int64)
        while np.any(above[above] != above):
            depth = depth + depth[above]
            above = above[above]
        return cls(parent, depth)

    @property
    def height(self) -> int:
        """Depth of the deepest member."""
        return int(self.depth.max())

    @property
    def edges(self) -> tuple[Int64, Int64]:
        """Children and their parents."""
        child = np.flatnonzero(self.parent >= 0)
        return child, self.parent[child]

    def relabelled(self, member: Int64) -> Tree:
        """Position i becomes ``member[i]``."""
        parent, depth = np.empty_like(self.parent), np.empty_like(self.depth)
        parent[member] = np.where(self.parent < 0, -1, member[self.parent])
        depth[member] = self.depth
        return Tree(parent, depth)


def chain_tree(n: int) -> Tree:
    """0 - 1 - 2 - ... - (n-1), rooted at 0."""
    position = np.arange(n, dtype=np.int64)
    return Tree(position - 1, position)


def binary_tree(n: int) -> Tree:
    """Binary tree of least height in which odd positions are below position 1 and even ones below position 2.

    Position x of level l (levels hold 1, 2, 4, ... positions) has the children x + 2**l and x + 2**(l+1).

    >>> binary_tree(7).parent.tolist()
    [-1, 0, 0, 1, 2, 1, 2]
    """
    position = np.arange(n, dtype=np.int64)
    level = np.frexp(position + 1)[1].astype(np.int64) - 1
    above = np.maximum(level - 1, 0)
    near = position - (1 << above)
    # The parent's level ends at position 2**level - 2; beyond it the child is the far one.
    parent = np.where(near <= (1 << level) - 2, near, position - (2 << above))
    parent[0] = -1
    return Tree(parent, level)


def _in_order_tree(n: int) -> Tree:
    """Position 0 above a binary search tree of 1 .. n-1 in which x is as high as its lowest set bit."""
    position = np.arange(n, dtype=np.int64)
    bit = position & -position
    up = (position - bit) | (bit << 1)
    # Where the parent would be beyond the last position, the nearest ancestor to the left takes its place.
    parent = np.where(up < n, up, position - bit)
    parent[0] = -1
    return Tree.of(parent)


def double_binary_trees(n: int, ranks_per_node: int = 1) -> tuple[Tree, Tree]:
    """Two binary trees over the same members, such that (almost) nobody is an inner node of both.

    With n even the second tree is the mirror image of the first, and nobody is; with n odd it is the first one
    shifted by one member, and one member is. With ``ranks_per_node`` the trees join the first members of the nodes,
    and the others hang below them in a chain.

    References
    ----------
    Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
    35 (2009).

    Examples
    --------
    >>> one, two = double_binary_trees(4)
    >>> one.parent.tolist(), two.parent.tolist()
    ([-1, 2, 0, 2], [1, 3, 1, -1])
    """
    nodes, rest = divmod(n, ranks_per_node)
    if rest:
        raise InputError(
            "double binary tree", f"ranks_per_node must divide the {n} members", got=ranks_per_node, remedy="use 1"
        )
    one = _in_order_tree(nodes)
    node = np.arange(nodes, dtype=np.int64)
    two = one.relabelled(nodes - 1 - node if nodes % 2 == 0 else (node + 1) % nodes)
    return _with_chains(one, ranks_per_node), _with_chains(two, ranks_per_node)


def _with_chains(tree: Tree, g: int) -> Tree:
    if g == 1:
        return tree
    member = np.arange(tree.parent.size * g, dtype=np.int64)
    head = np.where(tree.parent < 0, -1, tree.parent * g)
    return Tree(
        np.where(member % g, member - 1, np.repeat(head, g)),
        np.repeat(tree.depth, g) + member % g,
    )


def cut_segments(size_bytes: int, *, segments: int | None, segment: int) -> Int64:
    """Sizes of the pieces of a pipeline: ``segments`` nearly equal ones, else full segments and a shorter last one.

    >>> cut_segments(10, segments=3, segment=1).tolist(), cut_segments(10, segments=None, segment=4).tolist()
    ([4, 3, 3], [4, 4, 2])
    """
    if segments is not None:
        pieces = max(1, min(segments, size_bytes))
        whole, rest = divmod(size_bytes, pieces)
        return whole + (np.arange(pieces, dtype=np.int64) < rest)
    sizes = np.full(max(1, -(-size_bytes // segment)), min(segment, size_bytes), dtype=np.int64)
    sizes[-1] = size_bytes - segment * (sizes.size - 1)
    return sizes


def tree_down(steps: Steps, tree: Tree, *, first: int, count: int, start: int = 0, hold: bool = False) -> None:
    """Send ``count`` blocks from the root to all members, one block per step behind each other."""
    child, parent = tree.edges
    segment = np.arange(count)[:, None]
    steps.add(
        step=start + segment + tree.depth[child] - 1, src=parent, dst=child, first=first + segment, count=1, hold=hold
    )


def tree_up(steps: Steps, tree: Tree, *, first: int, count: int, hold: bool = False) -> None:
    """Reduce ``count`` blocks from all members to the root, one block per step behind each other."""
    child, parent = tree.edges
    segment = np.arange(count)[:, None]
    steps.add(
        step=segment + tree.height - tree.depth[child],
        src=child,
        dst=parent,
        first=first + segment,
        count=1,
        combine=True,
        hold=hold,
    )


def rotated(call: Call) -> Int64:
    """Member at each position when the root stands at position 0, shape (n,)."""
    return (np.arange(call.n, dtype=np.int64) + call.root) % call.n
