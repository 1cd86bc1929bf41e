"""Shares, grids and halos against what they must satisfy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.traffic.workloads.shapes import Grid, balanced_dims, halo, parts


@given(st.integers(0, 10**6), st.integers(1, 50))
def test_parts_are_all_and_as_even_as_can_be(total: int, n: int) -> None:
    found = parts(total, n)
    assert sum(found) == total
    assert max(found) - min(found) <= 1


@given(st.integers(1, 400), st.integers(1, 3))
def test_balanced_grids_have_the_least_sum_of_sides(n: int, d: int) -> None:
    found = balanced_dims(n, d)
    assert math.prod(found) == n
    assert list(found) == sorted(found, reverse=True)
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    if d == 2:
        assert sum(found) == min(a + n // a for a in divisors)
    if d == 3:
        assert sum(found) == min(a + b + n // a // b for a in divisors for b in divisors if n // a % b == 0)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("dims", [(1, 2, 3), (4, 4), (3, 1, 2), (2, 2, 2), (5,)])
def test_neighbours_agree_on_what_they_exchange(dims: tuple[int, ...], corners: bool, periodic: bool) -> None:
    grid = Grid(dims, periodic=periodic)
    cells = [7 * side + 1 for side in dims]
    seen = {rank: halo(grid, rank, cells, width=2, corners=corners) for rank in range(grid.n)}
    for rank, found in seen.items():
        assert grid.rank(grid.at(rank)) == rank
        for peer in {p for p, _, _ in found}:
            assert peer != rank
            there = [(moved, n) for p, moved, n in seen[peer] if p == rank]
            # In order: messages between two ranks overtake none.
            assert [(moved, n) for p, moved, n in found if p == peer] == there
    if not periodic and corners:
        assert sum(map(len, seen.values())) == math.prod(3 * side - 2 for side in dims) - grid.n
