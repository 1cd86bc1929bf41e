"""Halo codes: bytes and messages by formula, and by reports of real runs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.traffic.workloads import amg, build, halo3d, lulesh, minife, nekbone, stencil


@settings(max_examples=20, deadline=None)
@given(
    cells=st.tuples(*[st.integers(2, 9)] * 3), fields=st.integers(1, 3), width=st.integers(1, 2), corners=st.booleans()
)
def test_halo3d_of_a_periodic_grid(ask, cells: tuple[int, int, int], fields: int, width: int, corners: bool) -> None:
    work = halo3d(dims=(3, 3, 3), cells=cells, fields=fields, width=width, corners=corners, iterations=2)
    a, b, c = cells
    expected = 16 * fields * width * (a * b + b * c + c * a)
    if corners:
        expected += 32 * fields * width**2 * (a + b + c) + 64 * fields * width**3
    found = ask.pairs(work)
    assert (found.sum(axis=1) == 2 * expected).all()
    assert (found == found.T).all()
    assert ((found > 0).sum(axis=1) == (26 if corners else 6)).all()
    assert ask.calls(work, 5) == {
        op: 2 * n for op, n in zip(("send", "recv", "wait"), (26, 26, 1) if corners else (6, 6, 1))
    }


@pytest.mark.parametrize("n", [1, 2, 7, 30, 64])
def test_halo3d_at_any_number_of_ranks(ask, n: int) -> None:
    found = ask.pairs(build("halo3d:periodic=no,cells=4,iterations=1", n_ranks=n))
    dims = sorted(int(x) for x in build("halo3d:cells=4", n_ranks=n).notes[0].split(" of ")[1].split(",")[0].split("x"))
    assert math.prod(dims) == n
    links = sum(n // side * (side - 1) for side in dims)
    assert (found > 0).sum() == 2 * links
    assert set(found[found > 0].tolist()) <= {8 * 16}


def test_halo_time_on_a_star_is_the_bytes_of_a_rank(ask) -> None:
    work = halo3d(dims=(4, 4, 4), cells=(20, 20, 20), iterations=3, work=1e-3)
    made = ask.star(work, rate=1e9, latency=2e-6).makespan_s
    # All receive as much as they send, from as many: six equal flows share each link.
    assert made == pytest.approx(3 * (1e-3 + 6 * 8 * 400 / 1e9 + 2e-6), rel=1e-9)


@pytest.mark.parametrize(("d", "side", "cells"), [(1, 8, 64), (2, 4, 32), (3, 3, 12), (4, 2, 6)])
def test_stencil_surface_to_volume(ask, d: int, side: int, cells: int) -> None:
    n, width = side**d, 2
    work = stencil(n_ranks=n, cells=(cells,) * d, width=width, periodic=True, iterations=1, memory=1e9)
    found = ask.pairs(work)
    assert (found.sum(axis=1) == 8 * 2 * d * width * round((cells**d / n) ** ((d - 1) / d))).all()
    gaps = work.trace().column("gap_ns")
    assert gaps.sum() == pytest.approx(16 * cells**d, abs=n)


def test_stencil_of_uneven_shares(ask) -> None:
    work = stencil(dims=(3, 2), cells=(10, 7), box=True, iterations=1)
    found = ask.pairs(work)
    assert (found == found.T).all()
    # Columns of 3 and 4, rows of 3, 3 and 4 cells: rank 0 has 3 x 3.
    assert found[0].tolist() == [0, 24, 24, 8, 0, 0]
    with pytest.raises(
        InputError, match="workload stencil cells: each rank needs 2 or more in each dimension, got 3x3 on 2x2"
    ):
        stencil(dims=(2, 2), cells=(3, 3), width=2)


def lulesh_by_definition(side: int, s: int, iterations: int) -> np.ndarray:
    """Bytes by pair, from the loops of the code's communication routines."""
    found = np.zeros((side**3, side**3), dtype=np.int64)
    for place in itertools.product(range(side), repeat=3):
        me = place[0] * side * side + place[1] * side + place[2]
        for step in itertools.product((-1, 0, 1), repeat=3):
            there = [p + d for p, d in zip(place, step)]
            if not any(step) or not all(0 <= x < side for x in there):
                continue
            to = there[0] * side * side + there[1] * side + there[2]
            still = step.count(0)
            size = 8 * (s + 1) ** still
            found[me, to] += size + 3 * size * iterations  # masses, force
            # Positions go down a plane, or in the same plane down a row, or in the same row down a column.
            if step[0] < 0 or (step[0] == 0 and step[1] < 0) or (step[:2] == (0, 0) and step[2] < 0):
                found[me, to] += 6 * size * iterations
            if still == 2:
                found[me, to] += 3 * 8 * s * s * iterations
    return found


def test_lulesh_by_definition(ask) -> None:
    work = lulesh(n_ranks=27, size=5, iterations=3)
    assert (ask.pairs(work) == lulesh_by_definition(3, 5, 3)).all()
    inner = 13
    assert ask.calls(work, inner, phase=1) == {"send": 26 * 3, "recv": 26 * 3, "wait": 3}
    assert ask.calls(work, inner, phase=2) == {"send": 13 * 3, "recv": 13 * 3, "wait": 3}
    assert ask.calls(work, inner, phase=3) == {"send": 6 * 3, "recv": 6 * 3, "wait": 3}
    assert ask.calls(work, inner, phase=4) == {"allreduce": 2}


def test_lulesh_sends_what_mpip_counted() -> None:
    """LULESH 2.0 -s 35 on 64 ranks as mpiP saw it: 5007 allreduce, so 5008 steps; messages and mean size by call site."""
    steps = 5007 + 1
    # Two runs of different length give what one step and what the set-up cost.
    counts = []
    for iterations in (1, 2):
        trace = lulesh(n_ranks=64, size=35, iterations=iterations).trace()
        sent = trace.column("op") == 0
        size = trace.column("bytes")[sent]
        step = trace.column("peer")[sent] - trace.column("rank")[sent]
        counts.append(
            {
                direction: (int((step == direction).sum()), int(size[step == direction].sum()))
                for direction in (-16, 16, -20, 20)
            }
        )
    for direction, messages, mean in (
        (-16, 721200, 4.09e4),
        (16, 480816, 3.03e4),
        (-20, 360612, 1.3e3),
        (20, 180324, 864),
    ):
        one, two = counts[0][direction], counts[1][direction]
        per_step = [b - a for a, b in zip(one, two)]
        found = [a + (steps - 1) * more for a, more in zip(one, per_step)]
        assert found[0] == messages
        assert found[1] / found[0] == pytest.approx(mean, rel=5e-3)


def test_lulesh_wants_a_cube() -> None:
    with pytest.raises(InputError, match="workload lulesh n_ranks: must be a cube, got 30; take 27 or 64"):
        lulesh(n_ranks=30)


def test_minife_sends_what_mpip_counted(ask) -> None:
    """miniFE nx=614 on 64 ranks, as mpiP saw it: 188136 messages of 5.88e4 B on average in 201 exchanges; 2 allreduce per iteration."""
    work = minife(n_ranks=64, nx=614, iterations=1)
    found = ask.pairs(work)
    messages = sum(ask.calls(work, rank).get("send", 0) for rank in range(0, 64, 21))
    assert (found > 0).sum() * 201 == 188136
    assert found.sum() / (found > 0).sum() == pytest.approx(5.88e4, rel=1e-3)
    assert messages == sum((found[rank] > 0).sum() for rank in range(0, 64, 21))
    assert ask.calls(work, 0)["allreduce"] == 2
    assert ask.sizes(work, "allreduce") == [8, 8]


def test_minife_work_is_that_of_its_rows() -> None:
    trace = minife(n_ranks=8, nx=9, iterations=2, memory=1e9).trace()
    assert trace.column("gap_ns").sum() == pytest.approx(2 * 27 * 12 * 10**3, abs=16)


def test_nekbone_shares_points(ask) -> None:
    work = nekbone(dims=(3, 3, 3), elements=(2, 3, 4), order=5, iterations=2)
    found = ask.pairs(work)
    a, b, c = 11, 16, 21
    inner = found[13] // 2
    assert inner[4] == 8 * b * c
    assert inner[10] == 8 * a * c
    assert inner[12] == 8 * a * b
    assert inner[0] == 8
    assert inner.sum() == 8 * (2 * (a * b + b * c + a * c) + 4 * (a + b + c) + 8)
    assert ask.calls(work, 13) == {"send": 52, "recv": 52, "wait": 2, "allreduce": 6}
    assert set(ask.sizes(work, "allreduce", 13)) == {8}


def amg_by_definition(dims: tuple[int, int, int], cells: int, sweeps: int) -> np.ndarray:
    """Bytes by pair in one V-cycle: each level once down and once up, the coarsest once."""
    n = math.prod(dims)
    places = list(itertools.product(*map(range, dims)))
    number = {place: i for i, place in enumerate(places)}
    found = np.zeros((n, n), dtype=np.int64)
    levels = []
    level = 0
    while True:
        stride = max(1, 2 ** (level - int(math.log2(cells))))
        if level and stride >= max(dims):
            break
        levels.append((max(1, cells // 2**level), stride))
        level += 1
    for level, (side, stride) in enumerate(levels):
        for place in places:
            if any(x % stride for x in place):
                continue
            for step in itertools.product((-1, 0, 1), repeat=3):
                moved = 3 - step.count(0)
                to = tuple(p + stride * d for p, d in zip(place, step))
                if moved and to in number and (level or moved == 1):
                    times = sweeps * (1 if level == len(levels) - 1 else 2)
                    found[number[place], number[to]] += times * 8 * side ** (3 - moved)
    return found


@pytest.mark.parametrize(("dims", "cells"), [((4, 2, 2), 4), ((5, 3, 1), 8), ((2, 2, 2), 1), ((8, 1, 1), 3)])
def test_amg_by_definition(ask, dims: tuple[int, int, int], cells: int) -> None:
    work = amg(dims=dims, cells=cells, sweeps=3, iterations=1)
    assert (ask.pairs(work) == amg_by_definition(dims, cells, 3)).all()


def test_amg_reaches_further_on_coarser_levels(ask) -> None:
    work = amg(dims=(8, 1, 1), cells=4, iterations=1)
    reach = []
    for level in range(len(work.phases) - 1):
        found = ask.pairs(work, phase=level)
        distance = {abs(int(a) - int(b)) for a, b in zip(*np.nonzero(found))}
        assert len(distance) == 1
        reach.append(distance.pop())
    assert reach == [1, 1, 1, 2, 4]
    assert ask.calls(work, 1, phase=len(work.phases) - 1) == {"allreduce": 1}
