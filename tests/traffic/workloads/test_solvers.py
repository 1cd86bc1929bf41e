"""Solvers: calls per iteration, halos, and LU against the indices of a block-cyclic matrix."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.traces.schema import OP_CODE
from netsim.traffic.workloads import bicgstab, build, cg, hpl


@pytest.mark.parametrize(("points", "neighbours"), [("7", 6), ("27", 26)])
def test_cg_is_one_halo_and_two_dots(ask, points: str, neighbours: int) -> None:
    work = cg(dims=(3, 3, 3), cells=(12, 15, 18), points=points, iterations=4)
    assert ask.calls(work, 13) == {"send": 4 * neighbours, "recv": 4 * neighbours, "wait": 4, "allreduce": 8}
    a, b, c = 4, 5, 6
    halo = 16 * (a * b + b * c + a * c) + (32 * (a + b + c) + 64 if points == "27" else 0)
    assert ask.pairs(work)[13].sum() == 4 * halo
    assert set(ask.sizes(work, "allreduce", 13)) == {8}


def test_bicgstab_is_two_halos_and_five_dots(ask) -> None:
    alone = ask.pairs(cg(dims=(2, 2, 2), cells=12, iterations=1))
    for fused, sizes in ((False, [8] * 5), (True, [8, 16, 16])):
        work = bicgstab(dims=(2, 2, 2), cells=12, iterations=3, fused=fused)
        assert (ask.pairs(work) == 3 * 2 * alone).all()
        assert ask.sizes(work, "allreduce", 5) == sizes * 3
        # In program order: product, dot, product, dots.
        trace = work.trace()
        op = trace.column("op")[trace.column("rank") == 0][: 14 + len(sizes)]
        reduce = (op == OP_CODE["allreduce"]).tolist()
        assert reduce == [False] * 7 + [True] + [False] * 7 + [True] * (len(sizes) - 1)


def test_a_product_takes_the_time_of_its_entries() -> None:
    for points, per_row in (("7", 84), ("27", 324)):
        trace = cg(dims=(2, 1, 1), cells=(10, 20, 20), points=points, iterations=2, memory=1e9).trace()
        assert trace.column("gap_ns").sum() == 2 * 4000 * per_row


def test_cg_time_on_a_star(ask) -> None:
    work = cg(dims=(2, 2, 2), cells=(40, 40, 40), iterations=3, memory=1e10)
    made = ask.star(work, rate=1e9, latency=1e-6, collectives={"allreduce": "recursive_doubling"}).makespan_s
    one = 3 * 8 * 400 / 1e9 + 1e-6 + 8000 * 84 / 1e10 + 2 * 3 * (8 / 1e9 + 1e-6)
    assert made == pytest.approx(3 * one, rel=1e-6)


def test_too_few_rows() -> None:
    with pytest.raises(InputError, match="workload cg cells: each rank needs a row, got 2x2x2 on 4x4x4 ranks"):
        build("cg:cells=2")


@pytest.mark.parametrize(("dims", "n", "nb"), [((2, 3), 50, 8), ((1, 1), 20, 5), ((3, 2), 48, 16), ((2, 2), 30, 7)])
def test_hpl_by_the_indices_of_the_matrix(dims: tuple[int, int], n: int, nb: int) -> None:
    p, q = dims
    speed = 1e6
    trace = hpl(dims=dims, n=n, nb=nb, flops_per_s=speed).trace()
    rank, op, size, comm = (trace.column(name) for name in ("rank", "op", "bytes", "comm"))
    owner = (np.arange(n) // nb)[:, None] % p * q + (np.arange(n) // nb)[None, :] % q
    starts = list(range(0, n, nb))
    flops = 0.0
    for r in range(p * q):
        i, j = divmod(r, q)
        bcast, allreduce, scatter = [], [], []
        for k, start in enumerate(starts):
            stop = min(start + nb, n)
            w = stop - start
            here = owner[start:, start:stop] == (i * q + k % q)  # the panel's rows in this row of ranks
            rows = int(here.any(axis=1).sum())
            bcast.append(8 * (rows * w + w * w + w))
            if j == k % q:
                allreduce += [8 * (2 * w + 4)] * w
                flops += rows * w * w
            if stop < n:
                trailing = owner[stop:, stop:] == r
                below = int((owner[stop:, start] // q == i).sum())
                columns = int((owner[start, stop:] % q == j).sum())
                flops += w * w * columns + 2.0 * w * trailing.sum()
                assert trailing.sum() == below * columns
                if columns:
                    scatter.append(8 * (w * (i + 1) // p - w * i // p) * columns)
        mine = rank == r
        assert size[mine & (op == OP_CODE["bcast"])].tolist() == bcast
        assert size[mine & (op == OP_CODE["allreduce"])].tolist() == allreduce
        assert size[mine & (op == OP_CODE["scatter"])].tolist() == scatter
        assert size[mine & (op == OP_CODE["allgather"])].tolist() == scatter
        assert set(comm[mine & (op == OP_CODE["bcast"])].tolist()) == {1 + i}
        assert set(comm[mine & (op == OP_CODE["allreduce"])].tolist()) <= {1 + p + j}
    assert trace.column("gap_ns").sum() / 1e9 * speed == pytest.approx(flops, rel=1e-4)


def test_hpl_does_two_thirds_of_the_cube() -> None:
    n, speed = 2048, 1e9
    trace = hpl(dims=(2, 2), n=n, nb=32, flops_per_s=speed).trace()
    assert trace.column("gap_ns").sum() * 1e-9 * speed == pytest.approx(2 / 3 * n**3, rel=0.03)


def test_hpl_takes_the_flatter_grid() -> None:
    assert hpl(n_ranks=8, n=64, nb=16).notes[0].startswith("2x4 ranks")
