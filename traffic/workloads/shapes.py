"""How ranks share work: balanced blocks of rows, balanced grids of processes, and neighbours on them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from netsim.core.errors import InputError

__all__ = ["Grid", "balanced_dims", "grid_of", "halo", "part", "parts"]


def part(total: int, n: int, i: int) -> int:
    """Items of member i when n members share ``total`` as evenly as whole numbers allow.

    >>> [part(10, 4, i) for i in range(4)]
    [2, 3, 2, 3]
    """
    return total * (i + 1) // n - total * i // n


def parts(total: int, n: int) -> list[int]:
    """Items of all members."""
    return [part(total, n, i) for i in range(n)]


def balanced_dims(n: int, dimensions: int) -> tuple[int, ...]:
    """Sides of the grid of n processes whose sides differ least, largest first.

    Least means the least sum of the sides, which for a given product is the grid nearest to a cube; then the least largest side.

    >>> balanced_dims(64, 3), balanced_dims(24, 2), balanced_dims(7, 3)
    ((4, 4, 4), (6, 4), (7, 1, 1))
    """

    def grids(product: int, left: int, most: int) -> Iterator[tuple[int, ...]]:
        if left == 1:
            if product <= most:
                yield (product,)
            return
        for side in _divisors(product):
            if side <= most:
                for rest in grids(product // side, left - 1, side):
                    yield (side, *rest)

    return min(grids(n, dimensions, n), key=lambda sides: (sum(sides), sides))


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


class Grid:
    """Ranks on a grid; the last coordinate changes fastest.

    Parameters
    ----------
    dims : sequence of int
    periodic : bool
        Neighbours across the edges.

    Examples
    --------
    >>> grid = Grid((2, 3), periodic=False)
    >>> grid.at(4), grid.rank((1, 1)), grid.neighbour(4, (0, 1)), grid.neighbour(5, (0, 1))
    ((1, 1), 4, 5, None)
    """

    def __init__(self, dims: Sequence[int], *, periodic: bool) -> None:
        self.dims = tuple(dims)
        self.periodic = periodic
        self.n = math.prod(self.dims)

    def at(self, rank: int) -> tuple[int, ...]:
        """Coordinates of a rank."""
        place = []
        for side in reversed(self.dims):
            rank, here = divmod(rank, side)
            place.append(here)
        return tuple(reversed(place))

    def rank(self, place: Sequence[int]) -> int:
        """Rank at coordinates."""
        number = 0
        for side, here in zip(self.dims, place, strict=True):
            number = number * side + here
        return number

    def neighbour(self, rank: int, step: Sequence[int]) -> int | None:
        """Rank that many steps away in each dimension; None beyond an edge."""
        place = []
        for side, here, move in zip(self.dims, self.at(rank), step, strict=True):
            there = here + move
            if self.periodic:
                there %= side
            elif not 0 <= there < side:
                return None
            place.append(there)
        return self.rank(place)

    def steps(self, *, corners: bool) -> list[tuple[int, ...]]:
        """The steps to neighbours: along one dimension, or with ``corners`` all 3^d - 1."""
        every = itertools.product((-1, 0, 1), repeat=len(self.dims))
        return [s for s in every if any(s) and (corners or sum(map(abs, s)) == 1)]


def grid_of(
    name: str, *, n_ranks: int | None, dims: Sequence[int] | None, dimensions: int, default: int, periodic: bool
) -> Grid:
    """The grid of a workload: as given, or balanced; ``n_ranks`` and ``dims`` must agree.

    >>> grid_of("halo3d", n_ranks=12, dims=None, dimensions=3, default=64, periodic=False).dims
    (3, 2, 2)
    >>> grid_of("halo3d", n_ranks=12, dims=(2, 2, 2), dimensions=3, default=64, periodic=False)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: workload halo3d dims: their product must be the number of ranks, 12, got 2x2x2
    """
    if dims is None:
        return Grid(balanced_dims(default if n_ranks is None else n_ranks, dimensions), periodic=periodic)
    shown = "x".join(map(str, dims))
    if len(dims) != dimensions:
        raise InputError(f"workload {name} dims", f"must be {dimensions} numbers", got=shown)
    if n_ranks is not None and math.prod(dims) != n_ranks:
        raise InputError(f"workload {name} dims", f"their product must be the number of ranks, {n_ranks}", got=shown)
    return Grid(dims, periodic=periodic)


def halo(
    grid: Grid, rank: int, cells: Sequence[int], *, width: int = 1, corners: bool = False
) -> list[tuple[int, int, int]]:
    """Neighbours of a rank in a halo exchange.

    Parameters
    ----------
    grid : Grid
    rank : int
    cells : sequence of int
        Cells of the whole domain in each dimension, shared by the ranks as `part` says.
    width : int
        Layers of cells exchanged.
    corners : bool
        With neighbours across edges and corners.

    Returns
    -------
    list of (peer, dimensions moved, cells)
        In the order of the steps, which two neighbours that share several borders see alike.

    Examples
    --------
    >>> halo(Grid((2, 2), periodic=False), 0, (10, 6), corners=True)
    [(1, 1, 5), (2, 1, 3), (3, 2, 1)]
    """
    own = [part(total, side, here) for total, side, here in zip(cells, grid.dims, grid.at(rank), strict=True)]
    found = []
    for step in grid.steps(corners=corners):
        if any(move and side == 1 for move, side in zip(step, grid.dims, strict=True)):
            continue
        peer = grid.neighbour(rank, step)
        if peer is not None:
            moved = sum(map(abs, step))
            found.append((peer, moved, math.prod(width if move else n for move, n in zip(step, own, strict=True))))
    return found
