"""Matching against a naive matcher that walks two queues, as the MPI standard words it."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.traffic.matching import Endpoints, group_codes, match_fifo, match_numbered

TAGS = st.sampled_from([0, 1, 500_000_000, 2**31 - 1])
KEY = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), TAGS)


def side(rows: list[tuple[int, int, int, int]]) -> Endpoints:
    array = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Endpoints(comm=array[:, 0], src=array[:, 1], dst=array[:, 2], tag=array[:, 3])


def naive(sends: list[tuple[int, int, int, int]], receives: list[tuple[int, int, int, int]]) -> list[int]:
    queues: dict[tuple[int, int, int, int], deque[int]] = defaultdict(deque)
    for i, key in enumerate(sends):
        queues[key].append(i)
    return [queues[key].popleft() if queues[key] else -1 for key in receives]


@given(st.lists(KEY, max_size=40), st.lists(KEY, max_size=40))
@settings(max_examples=200, deadline=None)
def test_equals_the_naive_matcher(sends, receives):
    assert match_fifo(sends=side(sends), receives=side(receives)).tolist() == naive(sends, receives)


@given(st.lists(KEY, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_non_overtaking_and_exactly_once(keys, random):
    shuffled = keys[:]
    random.shuffle(shuffled)
    found = match_fifo(sends=side(keys), receives=side(shuffled))
    assert sorted(found.tolist()) == list(range(len(keys)))
    for key in set(keys):
        mine = [int(found[i]) for i, other in enumerate(shuffled) if other == key]
        assert mine == sorted(mine)


def test_wide_keys_do_not_overflow():
    """Five columns of 20 bits: the packed key is renumbered on the way."""
    rng = np.random.default_rng(1)
    columns = [np.append([0, 2**20 - 2], rng.integers(0, 2**20 - 1, 1000)) for _ in range(5)]
    columns = [np.append(c, c[:500]) for c in columns]
    code = group_codes(columns)
    _, expected = np.unique(np.stack(columns), axis=1, return_inverse=True)
    same = code[:, None] == code[None, :]
    assert (same == (expected[:, None] == expected[None, :])).all()


def test_message_numbers_win_whatever_the_order():
    found = match_numbered(send_number=np.array([10, -1, 11]), recv_number=np.array([11, 10, -1, 12]))
    assert found.tolist() == [2, 0, -1, -1]
