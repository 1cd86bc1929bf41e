"""Codes whose ranks exchange with many others: crystal router, parallel FFT, transport sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traces import Communicators
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload
from netsim.traffic.workloads.shapes import Grid, grid_of, part, parts

__all__ = ["crystal_router", "fft", "rows_and_columns", "sweep3d"]

_COMPLEX = 16
_DOUBLE = 8


@workload(
    "crystal-router",
    parameters=[
        ranks(64),
        Parameter(name="size", kind="bytes", default="1kB", minimum=0, meaning="that each rank has for each other rank"),
        Parameter(name="iterations", kind="int", default=10, meaning="of the exchange"),
        Parameter(name="work", kind="time", default="0s", meaning="local work of a rank per iteration"),
    ],
)  # fmt: skip
def crystal_router(*, n_ranks: int, size: int, iterations: int, work: float) -> Workload:
    """Crystal router: all-to-all in ceil(log2 n) exchanges, each of half of what a rank holds.

    {parameters}

    Notes
    -----
    The ranks are halved again and again; a rank exchanges with its mirror image in the other half what is for that half. Blocks carry a
    header of 12 B, and each message is announced by one of 8 B. For n = 2^k a rank sends ``log2 n (n/2 (m + 12) + 8)`` bytes. Where
    a group is odd, its lower half has one more; the middle rank sends to the first rank of the upper half and receives nothing.

    Source: crystal.c of gslib, the communication library of Nek5000; G. C. Fox et al., Solving Problems on Concurrent Processors, 1988.

    Examples
    --------
    >>> trace = crystal_router(n_ranks=8, size=100, iterations=1).trace()
    >>> int(trace.column("bytes")[(trace.column("op") == 0) & (trace.column("rank") == 0)].sum()) == 3 * (4 * 112 + 8)
    True
    """
    stages = _crystal(n_ranks)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            made.compute(work)
            for number, stage in enumerate(stages):
                if rank not in stage:
                    continue
                made.phase(number)
                target, sent, incoming = stage[rank]
                # Lengths first, then the blocks.
                for bytes_per_block, fixed, tag in ((0, 8, 0), (size + 12, 0, 1)):
                    requests = [made.irecv(peer, fixed + bytes_per_block * n, tag=tag) for peer, n in incoming]
                    requests.append(made.isend(target, fixed + bytes_per_block * sent, tag=tag))
                    made.wait(*requests)
        return made

    return Workload(
        name="crystal-router",
        n_ranks=n_ranks,
        script=script,
        phases=[f"exchange {i}" for i in range(len(stages))] or ["exchange 0"],
        notes=["every rank has as much for every other one, and for itself", "copying between buffers takes no time"],
    )


def _crystal(n: int) -> list[dict[int, tuple[int, int, list[tuple[int, int]]]]]:
    """Per stage and rank: to whom, how many blocks, and from whom how many."""
    held = [1] * n  # Ranks whose blocks a rank holds, for each destination in its group.
    groups = [(0, n)]
    stages = []
    while any(size > 1 for _, size in groups):
        stage: dict[int, tuple[int, int, list[tuple[int, int]]]] = {}
        before = list(held)
        later = []
        for low, size in groups:
            if size == 1:
                later.append((low, size))
                continue
            lower = (size + 1) // 2
            high = low + lower
            target = {rank: 2 * low + size - 1 - rank for rank in range(low, low + size)}
            middle = [rank for rank, other in target.items() if rank == other]
            for rank in middle:
                target[rank] = high
            for rank in range(low, low + size):
                sent = before[rank] * (size - lower if rank < high else lower)
                sources = [other for other in target if target[other] == rank]
                # The mirror image first, as the code posts its receives.
                sources.sort(key=lambda other: other in middle)
                mine = lower if rank < high else size - lower
                stage[rank] = (target[rank], sent, [(other, before[other] * mine) for other in sources])
                held[rank] = before[rank] + sum(before[other] for other in sources)
            later += [(low, lower), (high, size - lower)]
        groups = later
        stages.append(stage)
    return stages


def rows_and_columns(grid: Grid) -> Communicators:
    """Communicators of a grid of P x Q ranks: 1 to P its rows, P + 1 to P + Q its columns.

    Examples
    --------
    >>> comms = rows_and_columns(Grid((2, 3), periodic=False))
    >>> comms.members(2).tolist(), comms.members(3).tolist(), comms.name[3]
    ([3, 4, 5], [0, 3], 'column 0')
    """
    p, q = grid.dims
    rows = [[grid.rank((i, j)) for j in range(q)] for i in range(p)]
    columns = [[grid.rank((i, j)) for i in range(p)] for j in range(q)]
    names = [*(f"row {i}" for i in range(p)), *(f"column {j}" for j in range(q))]
    return Communicators.build(n_ranks=grid.n, members=[*rows, *columns], names=names)


@workload(
    "fft",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks; by default that of dims, or 64"),
        Parameter(name="dims", kind="sizes", default=None, meaning="grid of pencils, e.g. 8x8; by default the one nearest to a square"),
        Parameter(name="n", kind="int", default=256, meaning="points of the cube in each dimension"),
        Parameter(name="iterations", kind="int", default=10, meaning="transforms, forward"),
        Parameter(name="flops_per_s", kind="number", default=None, meaning="speed of a rank; if not given, no local work"),
    ],
)  # fmt: skip
def fft(
    *, n_ranks: int | None, dims: Sequence[int] | None, n: int, iterations: int, flops_per_s: float | None
) -> Workload:
    """Three-dimensional FFT in pencils: all-to-all in rows, then in columns, of a grid of ranks.

    {parameters}

    Notes
    -----
    n^3 points of 16 B on P x Q ranks. Transform along the first dimension, transpose within a row (Q ranks), transform along the
    second, transpose within a column (P ranks), transform along the third. A rank holds ``16 n^3/(P Q)`` bytes, and sends (Q-1)/Q of
    them in the first transpose and (P-1)/P in the second. Local work is 5 log2(n) operations per point and dimension. Where P or Q do not
    divide n, sizes are those of the blocks.

    Source: the pencil decomposition of P3DFFT (Pekurovsky, SIAM J. Sci. Comput. 34, 2012) and of many others.

    Examples
    --------
    >>> work = fft(dims=(2, 4), n=16, iterations=1)
    >>> work.comms.n, work.trace().n_rows
    (7, 16)
    """
    grid = grid_of("fft", n_ranks=n_ranks, dims=dims, dimensions=2, default=64, periodic=False)
    p, q = grid.dims
    if max(p, q) > n:
        raise InputError("workload fft n", f"must be at least the side of the grid, {max(p, q)}", got=n)

    def transpose(made: Script, comm: int, sizes: list[int]) -> None:
        if len(set(sizes)) == 1 and n % p == 0 and n % q == 0:
            made.alltoall(sum(sizes), comm=comm)
        else:
            made.collective("alltoall", sum(sizes), comm=comm, vbytes=sizes)

    def script(rank: int) -> Script:
        made = Script(rank)
        i, j = grid.at(rank)
        rows, columns = part(n, p, i), part(n, q, j)
        seconds = 0.0 if flops_per_s is None else 5.0 * math.log2(n) / flops_per_s
        with made.repeat(iterations):
            # First dimension whole, second shared by the columns of the grid, third by its rows.
            made.phase(0)
            made.compute(seconds * n * columns * rows)
            transpose(made, 1 + i, [_COMPLEX * x * columns * rows for x in parts(n, q)])
            made.phase(1)
            made.compute(seconds * n * columns * rows)
            transpose(made, 1 + p + j, [_COMPLEX * columns * y * rows for y in parts(n, p)])
            made.phase(2)
            made.compute(seconds * n * columns * part(n, p, i))
        return made

    return Workload(
        name="fft",
        n_ranks=grid.n,
        script=script,
        comms=rows_and_columns(grid),
        phases=["rows", "columns"] if flops_per_s is None else ["rows", "columns", "last dimension"],
        notes=[
            f"pencils on a grid of {p}x{q}; the result stays transposed",
            "no local work (give flops_per_s=)" if flops_per_s is None else "packing of the blocks takes no time",
        ],
    )


@workload(
    "sweep3d",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks; by default that of dims, or 64"),
        Parameter(name="dims", kind="sizes", default=None, meaning="grid of ranks, e.g. 8x8; by default the one nearest to a square"),
        Parameter(name="cells", kind="sizes", default=(50, 50, 50), meaning="of a rank: across, along, and in depth"),
        Parameter(name="blocks", kind="int", default=10, meaning="into which the depth is cut; must divide it"),
        Parameter(name="angles", kind="int", default=6, meaning="per octant"),
        Parameter(name="octants", kind="int", default=8, meaning="directions of sweeps, up to 8"),
        Parameter(name="iterations", kind="int", default=1, meaning="of the code"),
        Parameter(name="work", kind="time", default="0s", meaning="of a rank on one block"),
    ],
)  # fmt: skip
def sweep3d(
    *,
    n_ranks: int | None,
    dims: Sequence[int] | None,
    cells: Sequence[int],
    blocks: int,
    angles: int,
    octants: int,
    iterations: int,
    work: float,
) -> Workload:
    """Discrete ordinates transport: sweeps from corner to corner of a grid of ranks, block by block.

    {parameters}

    Notes
    -----
    Columns of a x b x c cells on P x Q ranks, the depth cut into k blocks. For each octant and block a rank receives from the ranks
    upstream, works, and sends ``8 g b c/k`` bytes on along the first dimension and ``8 g a c/k`` along the second, for g angles. One
    octant takes ``(k + P + Q - 2)`` steps of work and messages. Octants start at the four corners of the grid in turn, down and up at each.

    Source: K. R. Koch, R. S. Baker, R. E. Alcouffe, Trans. Am. Nucl. Soc. 65, 1992 (the KBA scheme); A. Hoisie, O. Lubeck, H. Wasserman,
    Int. J. High Perform. Comput. Appl. 14, 2000 (its time).

    Examples
    --------
    >>> sweep3d(dims=(2, 2), blocks=5, octants=1).trace().n_rows
    40
    """
    grid = grid_of("sweep3d", n_ranks=n_ranks, dims=dims, dimensions=2, default=64, periodic=False)
    if len(cells) not in (1, 3):
        raise InputError("workload sweep3d cells", "must be 1 or 3 numbers", got="x".join(map(str, cells)))
    a, b, c = tuple(cells) * 3 if len(cells) == 1 else tuple(cells)
    if c % blocks:
        raise InputError("workload sweep3d blocks", f"must divide the depth, {c}", got=blocks)
    if octants > 8:
        raise InputError("workload sweep3d octants", "must be 8 or less", got=octants)
    first, second = _DOUBLE * angles * b * c // blocks, _DOUBLE * angles * a * c // blocks
    corners = [(dx, dy) for dx, dy in ((1, 1), (1, -1), (-1, 1), (-1, -1)) for _ in range(2)][:octants]

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            for number, (dx, dy) in enumerate(corners):
                made.phase(number)
                upstream = [(grid.neighbour(rank, (-dx, 0)), first), (grid.neighbour(rank, (0, -dy)), second)]
                downstream = [(grid.neighbour(rank, (dx, 0)), first), (grid.neighbour(rank, (0, dy)), second)]
                with made.repeat(blocks):
                    for peer, size in upstream:
                        if peer is not None:
                            made.recv(peer, size, tag=number)
                    made.compute(work)
                    for peer, size in downstream:
                        if peer is not None:
                            made.send(peer, size, tag=number)
        return made

    return Workload(
        name="sweep3d",
        n_ranks=grid.n,
        script=script,
        phases=[f"octant {i}" for i in range(octants)],
        notes=[
            f"ranks on a grid of {'x'.join(map(str, grid.dims))}; reductions between iterations are left out",
            "local work is the same for all blocks" if work else "no local work: communication alone (give work=)",
        ],
    )
