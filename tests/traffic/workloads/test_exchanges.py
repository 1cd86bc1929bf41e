"""Crystal router, FFT and sweeps: who holds what after each step, sizes of transposes, and the time of a wavefront."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.traces.schema import OP_CODE
from netsim.traffic.workloads import crystal_router, fft, sweep3d


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_crystal_router_of_a_power_of_two(ask, k: int) -> None:
    n, size = 2**k, 100
    work = crystal_router(n_ranks=n, size=size, iterations=2)
    found = ask.pairs(work)
    assert (found.sum(axis=1) == 2 * k * (n // 2 * (size + 12) + 8)).all()
    assert ((found > 0).sum(axis=1) == k).all()
    assert len(work.phases) == k


def route(n: int) -> np.ndarray:
    """Blocks by pair: every block (source, destination) is moved, one by one, as the recursion says."""
    found = np.zeros((n, n), dtype=np.int64)
    where = {(s, d): s for s in range(n) for d in range(n)}

    def split(low: int, size: int) -> None:
        if size == 1:
            return
        lower = (size + 1) // 2
        high = low + lower
        for block, here in list(where.items()):
            if not low <= here < low + size:
                continue
            wrong_half = (here < high) != (block[1] < high)
            if wrong_half:
                mirror = low + (low + size - 1 - here)
                to = high if mirror == here else mirror
                found[here, to] += 1
                where[block] = to
        split(low, lower)
        split(high, size - lower)

    split(0, n)
    assert all(here == destination for (_, destination), here in where.items())
    return found


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 11, 16, 23])
def test_crystal_router_moves_every_block_home(ask, n: int) -> None:
    blocks = route(n)
    announced = ask.pairs(crystal_router(n_ranks=n, size=0, iterations=1)) - 12 * blocks
    # What is left is 8 B per message of the recursion; a rank sends at most one per level.
    assert (announced % 8 == 0).all()
    assert (announced.sum(axis=1) <= 8 * math.ceil(math.log2(n))).all()
    assert (ask.pairs(crystal_router(n_ranks=n, size=88, iterations=1)) - announced == 100 * blocks).all()


def test_fft_transposes(ask) -> None:
    p, q, n = 2, 4, 16
    work = fft(dims=(p, q), n=n, iterations=3, flops_per_s=1e9)
    held = 16 * n**3 // (p * q)
    assert ask.sizes(work, "alltoall", 5) == [held] * 6
    trace = work.trace()
    comm = trace.column("comm")
    op = trace.column("op") == OP_CODE["alltoall"]
    for rank in range(p * q):
        mine = comm[op & (trace.column("rank") == rank)]
        assert mine.tolist() == [1 + rank // q, 1 + p + rank % q] * 3
    assert work.comms.members(1 + p + 1).tolist() == [1, 5]
    assert trace.column("gap_ns").sum() == pytest.approx(3 * 3 * 5 * n**3 * math.log2(n), rel=1e-6)


def test_fft_time_on_a_star(ask) -> None:
    p, q, n = 2, 4, 16
    work = fft(dims=(p, q), n=n, iterations=2)
    made = ask.star(work, rate=1e9, collectives={"alltoall": "pairwise"}).makespan_s
    held = 16 * n**3 / (p * q)
    assert made == pytest.approx(2 * held * ((q - 1) / q + (p - 1) / p) / 1e9, rel=1e-6)


def test_fft_of_uneven_pencils_keeps_every_point() -> None:
    n, p, q = 10, 3, 4
    trace = fft(dims=(p, q), n=n, iterations=1).trace()
    ptr, _ = trace.ragged("vbytes")
    comm = trace.column("comm")
    for rank in range(p * q):
        rows = np.flatnonzero((trace.column("rank") == rank) & (trace.column("op") == OP_CODE["alltoall"]))
        for row, number in zip(rows, (0, 1)):
            members = [r for r in range(p * q) if (r // q == rank // q if number == 0 else r % q == rank % q)]
            assert comm[row] == (1 + rank // q if number == 0 else 1 + p + rank % q)
            assert ptr[row + 1] - ptr[row] == len(members)
    # What all hold before and after each transpose is the cube.
    size = trace.column("bytes")
    for number in (0, 1):
        assert size[trace.column("phase") == number].sum() == 16 * n**3
    with pytest.raises(InputError, match="workload fft n: must be at least the side of the grid, 4, got 3"):
        fft(dims=(4, 2), n=3)


@pytest.mark.parametrize(("dims", "blocks"), [((3, 2), 5), ((1, 4), 2), ((4, 4), 1)])
def test_a_sweep_takes_blocks_plus_the_diagonal(ask, dims: tuple[int, int], blocks: int) -> None:
    work = sweep3d(dims=dims, cells=(4, 6, 10), blocks=blocks, octants=1, work=1e-3)
    # Latency counts on the way of the wave only.
    made = ask.star(work, rate=1e15).makespan_s
    assert made == pytest.approx((blocks + sum(dims) - 2) * 1e-3, rel=1e-6)


def test_sweep_bytes(ask) -> None:
    work = sweep3d(dims=(3, 3), cells=(4, 6, 10), blocks=5, angles=2, octants=8, iterations=2)
    found = ask.pairs(work)
    # Each of the eight octants crosses each border once, one way: four go up, four down.
    assert found[4, 1] == found[4, 7] == 2 * 4 * 8 * 2 * 6 * 10
    assert found[4, 3] == found[4, 5] == 2 * 4 * 8 * 2 * 4 * 10
    assert found[4].sum() == 2 * (found[4, 1] + found[4, 3])
    for octant, (up, left) in enumerate([(1, 1), (1, 1), (1, 0), (1, 0), (0, 1), (0, 1), (0, 0), (0, 0)]):
        one = ask.pairs(work, phase=octant)
        assert (one[1, 4] > 0) == bool(up)
        assert (one[3, 4] > 0) == bool(left)
    with pytest.raises(InputError, match="workload sweep3d blocks: must divide the depth, 50, got 7"):
        sweep3d(blocks=7)
