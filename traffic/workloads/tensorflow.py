"""The four benchmarks of "TensorFlow Doing HPC": workers that push tensors into queues of a few reducers.

Source: S. W. D. Chien, S. Markidis, V. Olshevsky, Y. Bulatov, E. Laure, J. S. Vetter, "TensorFlow Doing HPC", IPDPSW 2019
(arXiv:1903.04364), and the programs published with it (github.com/steven-chien/tensorflow-solvers, 2018). The roles, messages and
example sizes are those of the programs; speeds are parameters. The lowest ranks are the reducers, the others the workers.
"""

from __future__ import annotations

import math

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload
from netsim.traffic.workloads.shapes import parts

__all__ = ["non_scaling_share", "tf_cg", "tf_fft", "tf_matmul", "tf_stream"]

_DOUBLE = 8
_FLOAT = 4
_COMPLEX = 16
_QUEUE_NOTE = "the queues of TensorFlow serve the workers in turn; the counter behind its barriers is left out"


def non_scaling_share(*, speedup: float, factor: float = 2.0) -> float:
    """The part of the faster run's time that did not scale, from a speed-up on ``factor`` times as many workers.

    With T(p) = s + C/p and r = T(p) / T(f p), the share s / T(f p) is (f - r) / (f - 1).

    Parameters
    ----------
    speedup : float
        r, from 1 (nothing scales) to ``factor`` (all does).
    factor : float
        f, above 1.

    Examples
    --------
    The published speed-ups from 2 to 4 GPUs of matrix multiplication, CG and FFT:

    >>> [round(non_scaling_share(speedup=r), 12) for r in (2.0, 1.7, 1.8)]
    [0.0, 0.3, 0.2]
    """
    if not (math.isfinite(factor) and factor > 1):
        raise InputError("non-scaling share", "the factor of workers must be above 1", got=factor)
    if not 1 <= speedup <= factor:
        raise InputError("non-scaling share", f"the speed-up must be from 1 to {factor:g}", got=speedup)
    return (factor - speedup) / (factor - 1)


@workload(
    "tf-stream",
    parameters=[
        ranks(2, "one server and its workers", minimum=2),
        Parameter(name="size", kind="bytes", default="128MB", meaning="of the vector that a worker pushes"),
        Parameter(name="iterations", kind="int", default=100, meaning="pushes of each worker"),
        Parameter(name="overhead", kind="time", default="0s", meaning="of the worker before each push"),
    ],
)
def tf_stream(*, n_ranks: int, size: int, iterations: int, overhead: float) -> Workload:
    """TensorFlow STREAM: workers push a vector to a parameter server, one after the other.

    {parameters}

    Notes
    -----
    Each push (``assign_add``) sends S bytes one way and is confirmed by an empty message before the next. With one worker, link rate
    B, latency L and overhead a, a push takes ``a + S/B + 2 L``: half of the rate at large sizes is reached at ``S = (a + 2 L) B``.
    With p workers the server's link carries p S per round.

    Source: bandwidth.py of the programs; 128 MB and 100 iterations are its example.

    Examples
    --------
    >>> tf_stream(n_ranks=3, iterations=2).trace().n_rows
    20
    """

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        with made.repeat(iterations):
            if rank == 0:
                made.wait(*[made.irecv(worker, size) for worker in range(1, n_ranks)])
                made.wait(*[made.isend(worker, 0) for worker in range(1, n_ranks)])
            else:
                made.compute(overhead)
                made.send(0, size)
                made.recv(0, 0)
        return made

    return Workload(
        name="tf-stream",
        n_ranks=n_ranks,
        script=script,
        phases=["push"],
        notes=[
            "rank 0 is the parameter server; it confirms the pushes of all workers together, once per iteration",
            "adding the vector on the server takes no time",
        ],
    )


@workload(
    "tf-matmul",
    parameters=[
        ranks(6, "two reducers and the workers", minimum=3),
        Parameter(name="n", kind="int", default=32768, meaning="rows of the square matrices; a multiple of tile"),
        Parameter(name="tile", kind="int", default=4096, meaning="rows of a tile"),
        Parameter(name="flops_per_s", kind="number", default=0.3e12, meaning="speed of a worker"),
        Parameter(name="file_rate", kind="rate", default=None, meaning="of the file system, shared; if not given, reading takes no time"),
        Parameter(name="batch", kind="int", default=16, meaning="tiles that a reducer takes from the queue at once"),
        Parameter(name="overlap", kind="flag", default=True, meaning="a tile is read and pushed while the next is computed"),
    ],
)  # fmt: skip
def tf_matmul(
    *, n_ranks: int, n: int, tile: int, flops_per_s: float, file_rate: float | None, batch: int, overlap: bool
) -> Workload:
    """TensorFlow tiled matrix product: tile products into one queue, half of them on to a second reducer.

    {parameters}

    Notes
    -----
    With b = N/T tiles a side there are b^3 products of float32 tiles, dealt to p workers in turn. Each is pushed to reducer 0:
    4 N^3/T bytes in all. Both queues ("even" and "odd") live there, so tiles with an odd number go on to reducer 1:
    4 T^2 b floor(b^2/2) bytes. The workers read 8 N^3/T bytes of files, which do not cross the network here.

    With ``overlap``, T(p) is about ``max(b^3 2 T^3 / (p F), 8 N^3 / (T B_fs), 4 N^3 / (T B_in))``: the queue is full from
    ``p* = T B_in / (2 F)`` workers on. Without, all workers compute, then all push: the sum of the three.

    Source: the matrix product of the programs; N = 32768, T = 4096 and batches of 16 are its example.

    Examples
    --------
    >>> trace = tf_matmul(n_ranks=4, n=4, tile=2).trace()
    >>> int(trace.column("bytes")[trace.column("op") == 0].sum())
    192
    """
    if n % tile:
        raise InputError("workload tf-matmul n", f"must be a multiple of the tile, {tile}", got=n)
    b, p, size = n // tile, n_ranks - 2, _FLOAT * tile * tile
    products = b**3
    multiply = 2.0 * tile**3 / flops_per_s
    # All workers read at once.
    read = 0.0 if file_rate is None else 2 * size * p / file_rate
    work = max(multiply, read) if overlap else multiply + read

    def odd(product: int) -> bool:
        return product // b % 2 == 1

    def worker(made: Script, mine: int) -> None:
        if mine and overlap:
            made.compute(work)
            with made.repeat(mine - 1):
                pushed = made.isend(0, size)
                made.compute(work)
                made.wait(pushed)
            made.send(0, size)
        elif mine:
            with made.repeat(mine):
                made.compute(work)
                made.send(0, size)

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        if rank >= 2:
            worker(made, len(range(rank - 2, products, p)))
            return made
        if rank == 1:
            made.phase(1)
        # Queues have room for all tiles: receives are posted at once, and taken in batches.
        came = [k for k in range(products) if rank == 0 or odd(k)]
        arriving = [made.irecv(2 + k % p if rank == 0 else 0, size) for k in came]
        leaving: list[int] = []
        for i in range(0, len(came), batch):
            made.phase(rank)
            made.wait(*arriving[i : i + batch])
            if rank == 0:
                made.phase(1)
                leaving += [made.isend(1, size) for k in came[i : i + batch] if odd(k)]
        if leaving:
            made.wait(*leaving)
        return made

    return Workload(
        name="tf-matmul",
        n_ranks=n_ranks,
        script=script,
        phases=["push", "odd tiles"],
        notes=[
            "ranks 0 and 1 are the reducers, the others workers; adding tiles on the reducers takes no time",
            "files are read at the file system's rate, shared by the workers, and do not cross the network",
            _QUEUE_NOTE,
        ],
    )


@workload(
    "tf-cg",
    parameters=[
        ranks(5, "one reducer and the workers; with collective=ring all are workers", minimum=2),
        Parameter(name="n", kind="int", default=8192, meaning="rows of the dense matrix"),
        Parameter(name="iterations", kind="int", default=500, meaning="of the solver"),
        Parameter(name="memory", kind="rate", default="240GB/s", meaning="memory rate of a worker, which bounds the matrix-vector product"),
        Parameter(name="queue", kind="time", default="0s", meaning="of the reducer between the last word from the workers and its answer"),
        Parameter(name="collective", kind="choice", choices=("reducer", "ring"), default="reducer",
                  meaning="reducer: as published; ring: allreduce and allgather among the workers instead"),
    ],
)  # fmt: skip
def tf_cg(*, n_ranks: int, n: int, iterations: int, memory: float, queue: float, collective: str) -> Workload:
    """TensorFlow conjugate gradients, dense: three round trips to one reducer in each iteration.

    {parameters}

    Notes
    -----
    Rows are split over p workers. Per iteration: partial p.q (8 B) up and alpha (8 B) down; partial r.r up and beta down; the own parts
    of x and p (16 N/p B) up and the whole p (8 N B) down to each. The reducer takes in 16 N + 16 p bytes and sends 8 p N + 16 p.
    On a star of link rate B and latency L between hosts, without software overheads:
    ``T(p) = 8 N^2/(p M) + 16 N/B + 8 p N/B + 32 p/B + 6 L + 3 queue``.

    With ``collective=ring`` the workers keep x and r to themselves: two allreduce of 8 B and one allgather of 8 N/p B each, in which a
    worker sends (p-1)/p 8 N bytes.

    Source: the CG solver of the programs; N = 8192 and 500 iterations are its example.

    Examples
    --------
    >>> tf_cg(n_ranks=3, iterations=1).trace().n_rows, tf_cg(n_ranks=3, iterations=1, collective="ring").trace().n_rows
    (30, 9)
    """
    p = n_ranks - 1 if collective == "reducer" else n_ranks
    if p > n:
        raise InputError("workload tf-cg n", f"must be at least the number of workers, {p}", got=n)
    first = n_ranks - p
    rows = parts(n, p)

    def answer(made: Script, up: list[int], down: int) -> None:
        made.wait(*[made.irecv(first + w, size) for w, size in enumerate(up)])
        made.compute(queue)
        made.wait(*[made.isend(first + w, down) for w in range(p)])

    def reducer_iteration(made: Script, rank: int) -> None:
        mine = 2 * _DOUBLE * rows[rank - first] if rank else 0
        made.phase(0)
        if rank:
            made.compute(_DOUBLE * n * rows[rank - first] / memory)
        for number, up, down in ((0, _DOUBLE, _DOUBLE), (1, _DOUBLE, _DOUBLE), (2, mine, _DOUBLE * n)):
            made.phase(number)
            if rank == 0:
                answer(made, [2 * _DOUBLE * r for r in rows] if number == 2 else [up] * p, down)
            else:
                made.send(0, up)
                made.recv(0, down)

    def ring_iteration(made: Script, rank: int) -> None:
        made.phase(0)
        made.compute(_DOUBLE * n * rows[rank] / memory)
        made.allreduce(_DOUBLE)
        made.phase(1)
        made.allreduce(_DOUBLE)
        made.phase(2)
        if len(set(rows)) == 1:
            made.allgather(_DOUBLE * rows[rank])
        else:
            made.collective("allgather", _DOUBLE * rows[rank], vbytes=[_DOUBLE * r for r in rows])

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            (reducer_iteration if collective == "reducer" else ring_iteration)(made, rank)
        return made

    notes = ["the matrix-vector product reads its rows once at the memory rate; vector updates take no time"]
    if collective == "reducer":
        notes += ["rank 0 is the reducer", _QUEUE_NOTE]
    else:
        notes.append("a variant that was not published: collectives among the workers instead of the reducer")
    return Workload(name="tf-cg", n_ranks=n_ranks, script=script, phases=["alpha", "beta", "direction"], notes=notes)


@workload(
    "tf-fft",
    parameters=[
        ranks(5, "one reducer and the workers", minimum=2),
        Parameter(name="log2_points", kind="int", default=29, meaning="exponent of the number of points"),
        Parameter(name="tiles", kind="int", default=64, meaning="interleaved tiles; must divide the number of points"),
        Parameter(name="flops_per_s", kind="number", default=0.3e12, meaning="speed of a worker"),
        Parameter(name="file_rate", kind="rate", default=None, meaning="of the file system, shared; if not given, reading takes no time"),
        Parameter(name="batch", kind="int", default=16, meaning="tiles that the reducer takes from the queue at once"),
    ],
)  # fmt: skip
def tf_fft(
    *, n_ranks: int, log2_points: int, tiles: int, flops_per_s: float, file_rate: float | None, batch: int
) -> Workload:
    """TensorFlow FFT: transformed tiles of all workers into the queue of one reducer.

    {parameters}

    Notes
    -----
    2^e points of complex128 in t interleaved tiles of n = 2^e / t points; a worker reads a tile, transforms it (5 n log2 n operations)
    and pushes it before the next. The reducer takes in 16 2^e bytes, whatever the number of workers. If p divides t, all push at
    once, and on a star of rate B with latency L between hosts, without software overheads:
    ``T(p) = t/p 5 n log2 n / F + 16 2^e / B_fs + 16 2^e / B + L``.

    The last step, which merges the tiles, is done by the programs only when they check themselves, and is left out.

    Source: the FFT of the programs; 2^29 points, 64 tiles and batches of 16 are its example.

    Examples
    --------
    >>> trace = tf_fft(n_ranks=3, log2_points=10, tiles=4).trace()
    >>> int(trace.column("bytes")[trace.column("op") == 0].sum()) == 16 * 2**10
    True
    """
    if log2_points > 60:
        raise InputError("workload tf-fft log2_points", "must be 60 or less", got=log2_points)
    if 2**log2_points % tiles:
        raise InputError("workload tf-fft tiles", f"must divide the number of points, 2^{log2_points}", got=tiles)
    points, p = 2**log2_points // tiles, n_ranks - 1
    size = _COMPLEX * points
    read = 0.0 if file_rate is None else size * p / file_rate
    work = 5.0 * points * math.log2(points) / flops_per_s + read

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        if rank == 0:
            arriving = [made.irecv(1 + k % p, size) for k in range(tiles)]
            for i in range(0, tiles, batch):
                made.wait(*arriving[i : i + batch])
            return made
        with made.repeat(len(range(rank - 1, tiles, p))):
            made.compute(work)
            made.send(0, size)
        return made

    return Workload(
        name="tf-fft",
        n_ranks=n_ranks,
        script=script,
        phases=["push"],
        notes=[
            "rank 0 is the reducer; the final merge of the tiles is left out",
            "files are read at the file system's rate, shared by the workers, and do not cross the network",
            _QUEUE_NOTE,
        ],
    )
