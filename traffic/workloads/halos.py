"""Codes whose ranks own blocks of a grid and exchange its borders: halo exchange, stencils, hydrodynamics, multigrid, finite elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload
from netsim.traffic.workloads.shapes import Grid, grid_of, halo, part

__all__ = ["amg", "halo3d", "lulesh", "minife", "nekbone", "stencil"]

_DOUBLE = 8
_ANY_RANKS = Parameter(
    name="n_ranks", kind="int", default=None, meaning="number of ranks; by default that of dims, or 64"
)
_DIMS = Parameter(
    name="dims", kind="sizes", default=None, meaning="grid of ranks, e.g. 4x4x4; by default the one nearest to a cube"
)
_WORK = Parameter(name="work", kind="time", default="0s", meaning="local work of a rank per iteration")


def _iterations(default: int) -> Parameter:
    return Parameter(name="iterations", kind="int", default=default, meaning="of the code")


def _three(name: str, key: str, values: Sequence[int], count: int = 3) -> tuple[int, ...]:
    """One number stands for all dimensions."""
    if len(values) not in (1, count):
        raise InputError(f"workload {name} {key}", f"must be 1 or {count} numbers", got="x".join(map(str, values)))
    return tuple(values) * count if len(values) == 1 else tuple(values)


def _work_note(work: float) -> str:
    return "local work is the same on all ranks" if work else "no local work: communication alone (give work=)"


@workload(
    "halo3d",
    parameters=[
        _ANY_RANKS,
        _DIMS,
        Parameter(name="cells", kind="sizes", default=(100, 100, 100), meaning="of each rank: constant work per rank"),
        Parameter(name="fields", kind="int", default=1, meaning="numbers of 8 B per cell"),
        Parameter(name="width", kind="int", default=1, meaning="layers of cells exchanged"),
        Parameter(name="corners", kind="flag", default=False, meaning="26 neighbours instead of 6"),
        Parameter(name="periodic", kind="flag", default=True, meaning="neighbours across the edges"),
        _iterations(10),
        _WORK,
    ],
)  # fmt: skip
def halo3d(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    cells: Sequence[int],
    fields: int,
    width: int,
    corners: bool,
    periodic: bool,
    iterations: int,
    work: float,
) -> Workload:
    """Halo exchange of three-dimensional blocks with 6 or 26 neighbours, constant work per rank.

    {parameters}

    Notes
    -----
    A block of a x b x c cells sends 8 f w b c bytes to each of two neighbours, and so on: ``16 f w (a b + b c + c a)`` in all on a
    periodic grid without corners. With corners the edges (``4 x 8 f w^2 (a + b + c)``) and corners (``8 x 8 f w^3``) come on top.
    Receives are posted first, then sends, then all are waited for.

    Source: domain decomposition of explicit codes; the same pattern as the motifs Halo3D and Halo3D-26 of the simulator SST (Ember).

    Examples
    --------
    >>> work = halo3d(dims=(2, 2, 2), cells=(10, 10, 10), iterations=1)
    >>> trace = work.trace()
    >>> int(trace.column("bytes")[(trace.column("op") == 0) & (trace.column("rank") == 0)].sum())
    4800
    """
    grid = grid_of("halo3d", n_ranks=n_ranks, dims=dims, dimensions=3, default=64, periodic=periodic)
    local = _three("halo3d", "cells", cells)
    total = [side * n for side, n in zip(grid.dims, local, strict=True)]

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        found = halo(grid, rank, total, width=width, corners=corners)
        with made.repeat(iterations):
            made.compute(work)
            made.exchange([peer for peer, _, _ in found], [_DOUBLE * fields * n for _, _, n in found])
        return made

    return Workload(
        name="halo3d",
        n_ranks=grid.n,
        script=script,
        phases=["halo"],
        notes=[f"ranks on a grid of {'x'.join(map(str, grid.dims))}, the last coordinate fastest", _work_note(work)],
    )


@workload(
    "stencil",
    parameters=[
        _ANY_RANKS,
        _DIMS,
        Parameter(name="cells", kind="sizes", default=(512, 512, 512), meaning="of the whole grid, in 1 to 4 dimensions"),
        Parameter(name="width", kind="int", default=1, meaning="reach of the stencil"),
        Parameter(name="box", kind="flag", default=False, meaning="stencil with diagonals: neighbours across edges and corners too"),
        Parameter(name="periodic", kind="flag", default=False, meaning="neighbours across the edges"),
        _iterations(10),
        Parameter(name="memory", kind="rate", default=None, meaning="memory rate of a rank, which bounds a sweep"),
    ],
)  # fmt: skip
def stencil(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    cells: Sequence[int],
    width: int,
    box: bool,
    periodic: bool,
    iterations: int,
    memory: float | None,
) -> Workload:
    """Stencil sweeps over a grid of fixed size in 1 to 4 dimensions: halos shrink as ranks are added.

    {parameters}

    Notes
    -----
    N^d cells of 8 B on n ranks, where n^(1/d) divides N: an inner rank sends ``2 d w (N^d/n)^((d-1)/d)`` cells per sweep to 2 d
    neighbours, and works ``16 N^d/n / M`` seconds at the memory rate M. Uneven shares differ by one cell per dimension.

    Source: strong scaling of explicit schemes (surface to volume).

    Examples
    --------
    >>> stencil(n_ranks=16, cells=(64, 64), iterations=1).trace().n_ranks
    16
    """
    d = len(cells)
    if d > 4:
        raise InputError("workload stencil cells", "must have 1 to 4 dimensions", got="x".join(map(str, cells)))
    grid = grid_of("stencil", n_ranks=n_ranks, dims=dims, dimensions=d, default=64, periodic=periodic)
    if any(n // side < width for n, side in zip(cells, grid.dims, strict=True)):
        got = f"{'x'.join(map(str, cells))} on {'x'.join(map(str, grid.dims))} ranks"
        raise InputError("workload stencil cells", f"each rank needs {width} or more in each dimension", got=got)

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        found = halo(grid, rank, cells, width=width, corners=box)
        own = math.prod(part(n, side, here) for n, side, here in zip(cells, grid.dims, grid.at(rank), strict=True))
        with made.repeat(iterations):
            made.exchange([peer for peer, _, _ in found], [_DOUBLE * n for _, _, n in found])
            made.compute(0.0 if memory is None else 2 * _DOUBLE * own / memory)
        return made

    return Workload(
        name="stencil",
        n_ranks=grid.n,
        script=script,
        phases=["halo"],
        notes=[
            f"ranks on a grid of {'x'.join(map(str, grid.dims))}, the last coordinate fastest",
            "no local work: communication alone (give memory=)" if memory is None else "cells are read and written once per sweep",
        ],
    )  # fmt: skip


@workload(
    "lulesh",
    parameters=[
        ranks(64, "number of ranks, a cube"),
        Parameter(name="size", kind="int", default=30, meaning="elements of a rank in each dimension (option -s of the code)"),
        _iterations(10),
        _WORK,
    ],
)  # fmt: skip
def lulesh(*, n_ranks: int, size: int, iterations: int, work: float) -> Workload:
    """LULESH 2.0, shock hydrodynamics: three exchanges and a minimum in each step, up to 26 neighbours, on a cube of ranks.

    {parameters}

    Notes
    -----
    With s elements and m = s + 1 nodes a side, in bytes per message to a neighbour across a face, an edge and a corner:

    - force: 24 m^2, 24 m, 24 to all neighbours (three components of the nodes);
    - position and velocity: 48 m^2, 48 m, 48, only to the 13 neighbours that come before in order of plane, row and column;
    - gradients: 24 s^2 to the neighbours across faces (three components of the elements);
    - time step: an allreduce of 8 B, in all but the first step;

    and once, before the first step, the nodal masses: 8 m^2, 8 m, 8 to all neighbours.

    Source: lulesh.cc and lulesh-comm.cc of LULESH 2.0 (github.com/LLNL/LULESH); messages and bytes agree with an mpiP report of
    64 ranks (github.com/CNCA-CeNAT/comm-patterns-clustering), see the tests.

    Examples
    --------
    >>> lulesh(n_ranks=8, size=4, iterations=2).n_ranks
    8
    """
    side = round(n_ranks ** (1 / 3))
    if side**3 != n_ranks:
        raise InputError(
            "workload lulesh n_ranks", "must be a cube", got=n_ranks, remedy=f"take {side**3} or {(side + 1) ** 3}"
        )
    grid = Grid((side, side, side), periodic=False)

    def neighbours(rank: int, *, corners: bool) -> list[tuple[tuple[int, ...], int]]:
        every = [(step, grid.neighbour(rank, step)) for step in grid.steps(corners=corners)]
        return [(step, peer) for step, peer in every if peer is not None]

    def message(step: tuple[int, ...], fields: int, side_points: int) -> int:
        return _DOUBLE * fields * int(side_points ** (3 - sum(map(abs, step))))

    def swap(made: Script, rank: int, phase: int, fields: int, points: int, corners: bool, forward: bool) -> None:
        made.phase(phase)
        requests = []
        zero = (0, 0, 0)
        for step, peer in neighbours(rank, corners=corners):
            if not forward or step > zero:
                requests.append(made.irecv(peer, message(step, fields, points), tag=phase))
        for step, peer in neighbours(rank, corners=corners):
            if not forward or step < zero:
                requests.append(made.isend(peer, message(step, fields, points), tag=phase))
        if requests:
            made.wait(*requests)

    def step(made: Script, rank: int) -> None:
        made.compute(work)
        swap(made, rank, 1, 3, size + 1, True, False)
        swap(made, rank, 2, 6, size + 1, True, True)
        swap(made, rank, 3, 3, size, False, False)

    def script(rank: int) -> Script:
        made = Script(rank)
        swap(made, rank, 0, 1, size + 1, True, False)
        step(made, rank)
        with made.repeat(iterations - 1):
            made.phase(4)
            made.allreduce(_DOUBLE)
            step(made, rank)
        return made

    return Workload(
        name="lulesh",
        n_ranks=n_ranks,
        script=script,
        phases=["mass", "force", "position and velocity", "gradients", "time step"],
        notes=[_work_note(work), "the barrier and the reduction around the time measurement are left out"],
    )


@workload(
    "amg",
    parameters=[
        _ANY_RANKS,
        _DIMS,
        Parameter(name="cells", kind="int", default=32, meaning="of a rank in each dimension on the finest level"),
        Parameter(name="sweeps", kind="int", default=2, meaning="halo exchanges on a level, each way"),
        _iterations(10),
        _WORK,
    ],
)  # fmt: skip
def amg(
    *, n_ranks: int | None, dims: Sequence[int] | None, cells: int, sweeps: int, iterations: int, work: float
) -> Workload:
    """Multigrid V-cycles: halos that shrink with each level while neighbours grow more and more distant.

    {parameters}

    Notes
    -----
    Level l coarsens each dimension by 2^l. A rank owns ``floor(c / 2^l)`` cells a side until that is 1; from there on, every second
    rank in each dimension drops out, and neighbours are 2, 4, 8, ... ranks apart, until one rank is left or none has a neighbour.
    The finest level has 6 neighbours, coarser ones 26, as Galerkin products widen the stencil. Each cycle ends with an
    allreduce of 8 B, the norm of the residual. On level l an exchange sends 8 c_l^2 bytes across a face, 8 c_l across an edge, 8 across a
    corner.

    Source: geometric model of the mini-app AMG (github.com/LLNL/AMG), whose real coarsening follows the matrix and is not regular;
    the level structure is that of textbook multigrid (Briggs, Henson, McCormick, A Multigrid Tutorial).

    Examples
    --------
    >>> amg(n_ranks=8, cells=4, iterations=1).phases
    ['level 0', 'level 1', 'level 2', 'norm']
    """
    grid = grid_of("amg", n_ranks=n_ranks, dims=dims, dimensions=3, default=64, periodic=False)
    levels: list[tuple[int, int]] = []  # cells a side, distance of neighbours
    side, stride = cells, 1
    while not levels or stride < max(grid.dims):
        levels.append((side, stride))
        side, stride = (side // 2, stride) if side > 1 else (1, 2 * stride)

    def exchange(made: Script, rank: int, level: int) -> None:
        side, stride = levels[level]
        if any(here % stride for here in grid.at(rank)):
            return
        made.phase(level)
        peers, sizes = [], []
        for step in grid.steps(corners=level > 0):
            peer = grid.neighbour(rank, [stride * move for move in step])
            if peer is not None:
                peers.append(peer)
                sizes.append(float(_DOUBLE * side ** (3 - sum(map(abs, step)))))
        with made.repeat(sweeps):
            made.exchange(peers, sizes, tag=level)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            made.compute(work)
            for level in [*range(len(levels)), *reversed(range(len(levels) - 1))]:
                exchange(made, rank, level)
            made.phase(len(levels))
            made.allreduce(_DOUBLE)
        return made

    return Workload(
        name="amg",
        n_ranks=grid.n,
        script=script,
        phases=[*(f"level {i}" for i in range(len(levels))), "norm"],
        notes=[
            f"{len(levels)} regular levels on a grid of {'x'.join(map(str, grid.dims))} ranks; algebraic coarsening is irregular",
            _work_note(work),
        ],
    )


@workload(
    "minife",
    parameters=[
        _ANY_RANKS,
        _DIMS,
        Parameter(name="nx", kind="int", default=200, meaning="elements of the whole cube in each dimension"),
        _iterations(20),
        Parameter(name="memory", kind="rate", default=None, meaning="memory rate of a rank, which bounds the sparse matrix-vector product"),
    ],
)  # fmt: skip
def minife(
    *, n_ranks: int | None, dims: Sequence[int] | None, nx: int, iterations: int, memory: float | None
) -> Workload:
    """miniFE, finite elements: conjugate gradients with a 27-point halo and two allreduce per iteration.

    {parameters}

    Notes
    -----
    The (nx+1)^3 nodes are divided among the ranks; an iteration exchanges the nodes at faces, edges and corners (8 B each) with up
    to 26 neighbours, and makes two allreduce of 8 B. On a grid of p x q x r ranks there are ``(3p-2)(3q-2)(3r-2) - pqr`` messages. The
    matrix-vector product reads 27 entries of 12 B per row.

    Source: the CG solver and exchange_externals of miniFE (github.com/Mantevo/miniFE); messages and bytes agree with an mpiP
    report of 64 ranks (github.com/CNCA-CeNAT/comm-patterns-clustering), see the tests.

    Examples
    --------
    >>> minife(n_ranks=8, nx=10, iterations=1).n_ranks
    8
    """
    grid = grid_of("minife", n_ranks=n_ranks, dims=dims, dimensions=3, default=64, periodic=False)
    nodes = nx + 1
    if nodes < max(grid.dims):
        raise InputError("workload minife nx", f"must give each of {max(grid.dims)} ranks a node", got=nx)

    def script(rank: int) -> Script:
        made = Script(rank)
        found = halo(grid, rank, (nodes,) * 3, corners=True)
        rows = math.prod(part(nodes, side, here) for side, here in zip(grid.dims, grid.at(rank), strict=True))
        with made.repeat(iterations):
            made.phase(1)
            made.allreduce(_DOUBLE)
            made.phase(0)
            made.exchange([peer for peer, _, _ in found], [float(_DOUBLE * n) for _, _, n in found])
            made.compute(0.0 if memory is None else 27 * 12 * rows / memory)
            made.phase(1)
            made.allreduce(_DOUBLE)
        return made

    return Workload(
        name="minife",
        n_ranks=grid.n,
        script=script,
        phases=["halo", "dot products"],
        notes=[
            f"ranks on a grid of {'x'.join(map(str, grid.dims))}; the code divides by recursive bisection, which may give another one",
            "setting up the matrix is left out",
            "no local work (give memory=)" if memory is None else "vector updates take no time",
        ],
    )


@workload(
    "nekbone",
    parameters=[
        _ANY_RANKS,
        _DIMS,
        Parameter(name="elements", kind="sizes", default=(8, 8, 8), meaning="spectral elements of a rank in each dimension"),
        Parameter(name="order", kind="int", default=9, meaning="of the polynomials"),
        _iterations(20),
        _WORK,
    ],
)  # fmt: skip
def nekbone(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    elements: Sequence[int],
    order: int,
    iterations: int,
    work: float,
) -> Workload:
    """Nekbone, spectral elements: conjugate gradients with a sum over shared points and three allreduce per iteration.

    {parameters}

    Notes
    -----
    A block of a x b x c elements of order N has ``(a N + 1)(b N + 1)`` points on a face, shared with one neighbour, and so on. The
    gather-scatter sends 8 B per shared point to up to 26 neighbours: whole faces, their edges to edge neighbours, single points to corner
    neighbours. Then come dot products: three allreduce of 8 B.

    Source: cg.f of Nekbone (github.com/Nek5000/Nekbone): per iteration one ax with dssum and three glsc3.

    Examples
    --------
    >>> nekbone(n_ranks=8, elements=(2, 2, 2), iterations=1).n_ranks
    8
    """
    grid = grid_of("nekbone", n_ranks=n_ranks, dims=dims, dimensions=3, default=64, periodic=False)
    points = [n * order + 1 for n in _three("nekbone", "elements", elements)]

    def script(rank: int) -> Script:
        made = Script(rank)
        found = halo(grid, rank, [side * n for side, n in zip(grid.dims, points, strict=True)], corners=True)
        with made.repeat(iterations):
            made.phase(1)
            made.allreduce(_DOUBLE)
            made.phase(0)
            made.compute(work)
            made.exchange([peer for peer, _, _ in found], [float(_DOUBLE * n) for _, _, n in found])
            made.phase(1)
            made.allreduce(_DOUBLE)
            made.allreduce(_DOUBLE)
        return made

    return Workload(
        name="nekbone",
        n_ranks=grid.n,
        script=script,
        phases=["gather-scatter", "dot products"],
        notes=[
            "pairwise gather-scatter; the code tries three ways at start and keeps the fastest",
            "without the multigrid preconditioner",
            _work_note(work),
        ],
    )
