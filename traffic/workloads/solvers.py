"""Solvers: Krylov methods on a stencil matrix, and dense LU factorisation on a block-cyclic grid."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.exchanges import rows_and_columns
from netsim.traffic.workloads.registry import workload
from netsim.traffic.workloads.shapes import grid_of, halo, part, parts

__all__ = ["bicgstab", "cg", "hpl"]

_DOUBLE = 8
_KRYLOV = [
    Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks; by default that of dims, or 64"),
    Parameter(name="dims", kind="sizes", default=None, meaning="grid of ranks, e.g. 4x4x4; by default the one nearest to a cube"),
    Parameter(name="cells", kind="sizes", default=(256, 256, 256), meaning="of the whole grid: rows of the matrix"),
    Parameter(name="points", kind="choice", choices=("7", "27"), default="7", meaning="of the stencil"),
    Parameter(name="iterations", kind="int", default=20, meaning="of the solver"),
    Parameter(name="memory", kind="rate", default=None, meaning="memory rate of a rank, which bounds the matrix-vector product"),
]  # fmt: skip


class _Matrix:
    """Rows of a stencil matrix on a grid of ranks: the halo and the time of a product."""

    def __init__(
        self,
        name: str,
        *,
        n_ranks: int | None,
        dims: Sequence[int] | None,
        cells: Sequence[int],
        points: str,
        memory: float | None,
    ) -> None:
        self.grid = grid_of(name, n_ranks=n_ranks, dims=dims, dimensions=3, default=64, periodic=False)
        if len(cells) not in (1, 3):
            raise InputError(f"workload {name} cells", "must be 1 or 3 numbers", got="x".join(map(str, cells)))
        self.cells = tuple(cells) * 3 if len(cells) == 1 else tuple(cells)
        if any(n < side for n, side in zip(self.cells, self.grid.dims, strict=True)):
            got = f"{'x'.join(map(str, self.cells))} on {'x'.join(map(str, self.grid.dims))} ranks"
            raise InputError(f"workload {name} cells", "each rank needs a row", got=got)
        self.points, self.memory = int(points), memory

    def product(self, made: Script, rank: int) -> None:
        """Exchange the halo, multiply."""
        found = halo(self.grid, rank, self.cells, corners=self.points == 27)
        made.exchange([peer for peer, _, _ in found], [float(_DOUBLE * n) for _, _, n in found])
        if self.memory is not None:
            place = zip(self.cells, self.grid.dims, self.grid.at(rank), strict=True)
            made.compute(12 * self.points * math.prod(part(n, side, here) for n, side, here in place) / self.memory)

    def notes(self) -> list[str]:
        work = "no local work (give memory=)"
        if self.memory is not None:
            work = "a product reads 12 B per entry of the matrix; vector updates take no time"
        return [f"ranks on a grid of {'x'.join(map(str, self.grid.dims))}, no preconditioner", work]


@workload("cg", parameters=_KRYLOV)
def cg(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    cells: Sequence[int],
    points: str,
    iterations: int,
    memory: float | None,
) -> Workload:
    """Conjugate gradients on a stencil matrix: a halo and two allreduce of 8 B per iteration.

    {parameters}

    Notes
    -----
    Per iteration one product A p with its halo, then p.Ap, then r.r. A block of a x b x c rows sends 8 B per row at a border to 6
    (7 points) or 26 neighbours (27 points): ``16 (a b + b c + c a)`` bytes from an inner rank with 7 points.

    Source: Hestenes and Stiefel, J. Res. NBS 49, 1952, with rows distributed by blocks.

    Examples
    --------
    >>> cg(n_ranks=8, cells=(16, 16, 16), iterations=2).n_ranks
    8
    """
    matrix = _Matrix("cg", n_ranks=n_ranks, dims=dims, cells=cells, points=points, memory=memory)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            made.phase(0)
            matrix.product(made, rank)
            made.phase(1)
            made.allreduce(_DOUBLE)
            made.allreduce(_DOUBLE)
        return made

    return Workload(
        name="cg", n_ranks=matrix.grid.n, script=script, phases=["halo", "dot products"], notes=matrix.notes()
    )


@workload(
    "bicgstab",
    parameters=[
        *_KRYLOV,
        Parameter(name="fused", kind="flag", default=False, meaning="dot products that are due together share an allreduce"),
    ],
)  # fmt: skip
def bicgstab(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    cells: Sequence[int],
    points: str,
    iterations: int,
    memory: float | None,
    fused: bool,
) -> Workload:
    """BiCGSTAB on a stencil matrix: two halos and five dot products per iteration.

    {parameters}

    Notes
    -----
    Per iteration: v = A p and r0.v; t = A s, then t.s and t.t; then r0.r and r.r of the new residual. Five allreduce of 8 B, or with
    ``fused`` three, of 8, 16 and 16 B. Halos as in ``cg``.

    Source: van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992, with the norm of the residual checked in each iteration.

    Examples
    --------
    >>> bicgstab(n_ranks=8, cells=(16, 16, 16), iterations=2, fused="yes").n_ranks
    8
    """
    matrix = _Matrix("bicgstab", n_ranks=n_ranks, dims=dims, cells=cells, points=points, memory=memory)

    def dots(made: Script, number: int) -> None:
        made.phase(1)
        for _ in range(1 if fused else number):
            made.allreduce(_DOUBLE * number if fused else _DOUBLE)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            made.phase(0)
            matrix.product(made, rank)
            dots(made, 1)
            made.phase(0)
            matrix.product(made, rank)
            dots(made, 2)
            dots(made, 2)
        return made

    return Workload(
        name="bicgstab", n_ranks=matrix.grid.n, script=script, phases=["halo", "dot products"], notes=matrix.notes()
    )


@workload(
    "hpl",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks; by default that of dims, or 16"),
        Parameter(name="dims", kind="sizes", default=None, meaning="grid of P x Q ranks; by default the one nearest to a square, P <= Q"),
        Parameter(name="n", kind="int", default=4096, meaning="rows of the matrix"),
        Parameter(name="nb", kind="int", default=128, meaning="columns of a panel"),
        Parameter(name="flops_per_s", kind="number", default=1e12, meaning="speed of a rank"),
    ],
)  # fmt: skip
def hpl(*, n_ranks: int | None, dims: Sequence[int] | None, n: int, nb: int, flops_per_s: float) -> Workload:
    """High-Performance Linpack: LU factorisation of a block-cyclic matrix on P x Q ranks, without look-ahead.

    {parameters}

    Notes
    -----
    Block (I, J) of nb x nb lies on rank (I mod P, J mod Q). For panel k of w columns, with m rows and c columns of a rank from there on
    (c without the panel):

    - factorisation, in process column k mod Q: w allreduce of 8 (2 w + 4) B, which find the pivot and spread its row; m w^2 operations;
    - broadcast of 8 (m w + w^2 + w) B from that column along each row;
    - row swaps, in each column, spread and roll: a scatter from row k mod P of 8 w c/P B each, and an allgather of as much: about
      2 w c numbers for a rank, where the manual of HPL_pdlaswp01N estimates 2 to 3;
    - update: w^2 c + 2 m' w c operations, m' being the rows below the panel.

    In all about 2/3 n^3 operations.

    Source: A. Petitet, R. C. Whaley, J. Dongarra, A. Cleary, HPL (netlib.org/benchmark/hpl), algorithm and scalability pages.

    Examples
    --------
    >>> hpl(dims=(2, 2), n=64, nb=16).n_ranks
    4
    """
    if dims is None:
        square = grid_of("hpl", n_ranks=n_ranks, dims=None, dimensions=2, default=16, periodic=False)
        dims = tuple(reversed(square.dims))
    grid = grid_of("hpl", n_ranks=n_ranks, dims=dims, dimensions=2, default=16, periodic=False)
    p, q = grid.dims
    blocks = [min(nb, n - start) for start in range(0, n, nb)]

    def own(first: int, side: int, here: int) -> int:
        """Rows or columns of a member in the blocks from ``first`` on."""
        return sum(width for number, width in enumerate(blocks) if number >= first and number % side == here)

    def panel(made: Script, rank: int, k: int) -> None:
        i, j = grid.at(rank)
        w = blocks[k]
        rows, below, columns = own(k, p, i), own(k + 1, p, i), own(k + 1, q, j)
        made.phase(0)
        if j == k % q:
            with made.repeat(w):
                made.compute(rows * w / flops_per_s)
                made.allreduce(_DOUBLE * (2 * w + 4), comm=1 + p + j)
        made.phase(1)
        made.bcast(_DOUBLE * (rows * w + w * w + w), grid.rank((i, k % q)), comm=1 + i)
        if k + 1 == len(blocks):
            return
        made.phase(2)
        if columns:
            sizes = [_DOUBLE * share * columns for share in parts(w, p)]
            even = len(set(sizes)) == 1
            root = grid.rank((k % p, j))
            made.collective(
                "scatter", sizes[i], comm=1 + p + j, root=root, vbytes=sizes if rank == root and not even else None
            )
            made.collective("allgather", sizes[i], comm=1 + p + j, vbytes=None if even else sizes)
        made.compute((w * w * columns + 2.0 * below * w * columns) / flops_per_s)

    def script(rank: int) -> Script:
        made = Script(rank)
        for k in range(len(blocks)):
            panel(made, rank, k)
        return made

    return Workload(
        name="hpl",
        n_ranks=grid.n,
        script=script,
        comms=rows_and_columns(grid),
        phases=["factorisation", "broadcast", "row swaps"],
        notes=[
            f"{p}x{q} ranks, {len(blocks)} panels; no look-ahead: a panel is factorised when all columns are up to date",
            "the broadcast of a panel is one bcast, whose algorithm the replay chooses; back substitution is left out",
            "pivots are taken to lie evenly on the ranks of a column",
        ],
    )
