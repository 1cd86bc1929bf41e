"""Every registered algorithm computes the right thing, moves the bytes and takes the steps it should."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import ceil, log2

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.traffic.collectives import (
    PAIR_OPS,
    ROOTED_OPS,
    VECTOR_OPS,
    Call,
    PairBytes,
    Schedule,
    Steps,
    algorithms,
    build,
    check_schedule,
    chunk_bytes,
    contributions,
)
from netsim.traffic.collectives.shapes import binary_tree, double_binary_trees

# Parameters to try besides the defaults.
PIPELINES = ("(segments=1)", "(segments=3)", "(segment_bytes=300000)")
VARIANTS: dict[str, tuple[str, ...]] = {
    "bcast/chain": PIPELINES,
    "reduce/chain": PIPELINES,
    "bcast/binary": PIPELINES,
    "reduce/binary": PIPELINES,
    "bcast/nccl_ring": PIPELINES,
    "reduce/nccl_ring": PIPELINES,
    "bcast/split_binary": PIPELINES,
    "allreduce/double_binary_tree": PIPELINES,
    "allreduce/ring_segmented": ("(segment_bytes=100000)",),
    "alltoall/scattered": ("(throttle=1)", "(throttle=3)", "(throttle=32)"),
    "alltoallv/scattered": ("(throttle=1)", "(throttle=3)"),
}


def variants(name: str, n: int) -> list[str]:
    """Ways to run an algorithm on n members; none where it does not serve that number."""
    divisors = [g for g in range(1, n + 1) if n % g == 0]
    if name == "allreduce/hierarchical":
        return [f"{name}(ranks_per_node={g})" for g in divisors]
    if name == "allgather/neighbor_exchange" and n % 2:
        return []
    extra = VARIANTS.get(name, ())
    if name == "allreduce/double_binary_tree":
        extra += tuple(f"(ranks_per_node={g},segments=2)" for g in divisors)
    return [name, *(name + text for text in extra)]


def calls(op: str, n: int) -> Iterator[Call]:
    """Calls of all kinds: nothing, one byte, fewer bytes than members, sizes that do not divide, several roots."""
    random = np.random.default_rng([n, len(op)])
    roots = (0, n // 2, n - 1, n // 3) if op in ROOTED_OPS else (0, 0, 0, 0)
    if op == "barrier":
        yield Call(op=op, n=n)
    elif op in VECTOR_OPS:
        for root, high in zip(roots, (1, 2, 5, 100_000)):
            yield Call(op=op, n=n, block_bytes=random.integers(0, high, n), root=root)
    elif op in PAIR_OPS:
        for high in (1, 2, 1000):
            yield Call(op=op, n=n, pairs=PairBytes.from_matrix(random.integers(0, high, (n, n))))
    else:
        for root, size in zip(roots, (0, 1, n - 1, 1_000_003)):
            yield Call(op=op, n=n, size_bytes=size, root=root)
        if op == "reduce_scatter":
            yield Call(op=op, n=n, block_bytes=random.integers(0, 7, n))


@pytest.mark.parametrize("name", list(algorithms))
def test_every_member_ends_with_the_right_data(name: str) -> None:
    """Each contribution exactly once where it belongs, for all member counts, sizes and roots."""
    for n in range(1, 34):
        for spec in variants(name, n):
            for call in calls(algorithms[name].op, n):
                check_schedule(build(call, algorithm=spec))


def by_hand(schedule: Schedule) -> list[list[Counter[int]]]:
    """The same execution as in the package, written a second time with one multiset per member and block."""
    call, n = schedule.call, schedule.call.n
    own = [Counter({r: 1}) for r in range(n)]
    full, none = Counter({0: 1}), Counter[int]()
    if call.op in ("reduce", "allreduce", "reduce_scatter", "scan", "exscan", "barrier"):
        state = [[own[r] for _ in range(schedule.n_blocks)] for r in range(n)]
    elif call.op in ("bcast", "scatter", "scatterv"):
        state = [[full if r == call.root else none for _ in range(schedule.n_blocks)] for r in range(n)]
    elif call.op == "alltoall":
        state = [[full if b // n == r else none for b in range(n * n)] for r in range(n)]
    elif call.pairs is not None:
        state = [[full if src == r else none for src in call.pairs.src.tolist()] for r in range(n)]
    else:
        state = [[full if b == r else none for b in range(n)] for r in range(n)]
    result = [[cell if call.op == "scan" else none for cell in row] for row in state]
    ptr, block = schedule.carried()
    for step in range(schedule.n_steps):
        before = [list(row) for row in state]
        for m in np.flatnonzero(schedule.step == step).tolist():
            src, dst = int(schedule.src[m]), int(schedule.dst[m])
            for b in block[ptr[m] : ptr[m + 1]].tolist():
                state[dst][b] = state[dst][b] + before[src][b] if schedule.combine[m] else before[src][b]
                if src < dst:
                    result[dst][b] = result[dst][b] + before[src][b]
    return result if call.op in ("scan", "exscan") else state


@pytest.mark.parametrize("name", list(algorithms))
def test_contributions_against_an_independent_execution(name: str) -> None:
    for n in (2, 3, 5, 6, 8):
        for spec in variants(name, n)[:3]:
            for call in list(calls(algorithms[name].op, n))[-2:]:
                schedule = build(call, algorithm=spec)
                if schedule.n_messages > 500:
                    continue
                mine = contributions(schedule)
                for r, row in enumerate(by_hand(schedule)):
                    for b, cell in enumerate(row):
                        assert dict(cell) == {o: k for o, k in enumerate(mine[r, b].tolist()) if k}


def without(schedule: Schedule, m: int) -> Schedule:
    """The schedule without its message m."""
    keep = np.arange(schedule.n_messages) != m
    names = ("step", "src", "dst", "size_bytes", "first", "count", "combine")
    ptr, block = schedule.carried()
    kept = block[np.repeat(keep, np.diff(ptr))]
    lengths = np.diff(ptr)[keep]
    return dataclasses.replace(
        schedule,
        lists=lambda: (np.concatenate([[0], np.cumsum(lengths)]), kept),
        **{name: getattr(schedule, name)[keep] for name in names},
    )


# A barrier may hear of somebody twice; a member may get pieces again that it has from the scatter; the last message down to
# a lower member of a scan only keeps the exchange symmetric.
REDUNDANT = ("barrier/", "bcast/scatter_", "scan/recursive_doubling", "exscan/recursive_doubling")


@pytest.mark.parametrize("name", [name for name in algorithms if not name.startswith(REDUNDANT)])
def test_no_message_can_be_left_out(name: str) -> None:
    """So the check above notices any lost message, and no algorithm sends anything for nothing."""
    n = 6
    call = list(calls(algorithms[name].op, n))[-1]
    spec = variants(name, n)[-1]
    schedule = build(call, algorithm=spec)
    for m in range(min(schedule.n_messages, 40)):
        if schedule.size_bytes[m] == 0:
            continue
        with pytest.raises(InputError):
            check_schedule(without(schedule, m))


def test_check_names_what_is_wrong() -> None:
    call = Call(op="allreduce", n=3, size_bytes=9)
    twice = Steps(call)
    twice.add(src=[1, 2], dst=0, combine=True)
    twice.add(src=1, dst=0, combine=True)
    with pytest.raises(InputError) as error:
        check_schedule(twice.schedule())
    assert (
        str(error.value)
        == "schedule of allreduce: member 0 must end with block 0 complete, got the contribution of member 1 2 times"
    )
    early = Steps(Call(op="bcast", n=3, size_bytes=9))
    early.add(src=1, dst=2)
    with pytest.raises(InputError) as error:
        check_schedule(early.schedule())
    assert str(error.value) == "schedule of bcast: member 1 sends block 0 in step 0 without having it"
    clash = Steps(call)
    clash.add(src=[1, 2], dst=0)
    with pytest.raises(InputError) as error:
        check_schedule(clash.schedule())
    assert str(error.value) == "schedule of allreduce: a block is written twice in step 0"
    schedule = build(call, algorithm="ring")
    with pytest.raises(InputError) as error:
        check_schedule(dataclasses.replace(schedule, size_bytes=schedule.size_bytes + 1))
    assert str(error.value) == "schedule of allreduce/ring message 0: its blocks have 3 bytes, got 4"


# Bytes, table 5.1 style: p = largest power of two not above n, r = n - p. Sizes divide evenly.


def p_of(n: int) -> int:
    return 2 ** int(log2(n))


def up(n: int) -> int:
    return ceil(log2(n))


BRUCK_BLOCKS = {5: [2, 2, 1], 6: [3, 2, 2], 7: [3, 3, 3], 8: [4, 4, 4], 12: [6, 6, 4, 4]}

STEPS: dict[str, Callable[[int], int]] = {
    "allreduce/ring": lambda n: 2 * (n - 1),
    "allreduce/recursive_doubling": lambda n: int(log2(n)) + 2 * (n > p_of(n)),
    "allreduce/rabenseifner": lambda n: 2 * int(log2(n)) + 2 * (n > p_of(n)),
    "allreduce/reduce_bcast": lambda n: 2 * up(n),
    "allreduce/direct": lambda n: 2,
    "allreduce/double_binary_tree(segments=1)": lambda n: 2 * up(n),
    "allgather/ring": lambda n: n - 1,
    "allgather/bruck": up,
    "allgather/recursive_doubling": lambda n: int(log2(n)) + 2 * (n > p_of(n)),
    "reduce_scatter/ring": lambda n: n - 1,
    "reduce_scatter/pairwise": lambda n: n - 1,
    "reduce_scatter/recursive_halving": lambda n: int(log2(n)) + 2 * (n > p_of(n)),
    "alltoall/bruck": up,
    "alltoall/pairwise": lambda n: n - 1,
    "alltoall/linear": lambda n: 1,
    "alltoall/scattered(throttle=4)": lambda n: ceil(n / 4),
    "bcast/binomial": up,
    "bcast/scatter_ring": lambda n: up(n) + n - 1,
    "bcast/scatter_recursive_doubling": lambda n: up(n) + int(log2(n)) + 2 * (n > p_of(n)),
    "bcast/chain(segments=10)": lambda n: n + 10 - 2,
    "reduce/binomial": up,
    "reduce/chain(segments=10)": lambda n: n + 10 - 2,
    "gather/binomial": up,
    "scatter/binomial": up,
    "gather/linear": lambda n: 1,
    "barrier/dissemination": up,
    "barrier/recursive_doubling": lambda n: int(log2(n)) + 2 * (n > p_of(n)),
    "scan/linear": lambda n: n - 1,
    "scan/recursive_doubling": up,
}


@pytest.mark.parametrize("spec", list(STEPS))
def test_number_of_steps(spec: str) -> None:
    op = spec.partition("/")[0]
    for n in range(2, 34):
        size = 0 if op == "barrier" else 2 * n * p_of(n) * 10
        assert build(Call(op=op, n=n, size_bytes=size), algorithm=spec).n_steps == STEPS[spec](n), n


def sent(spec: str, n: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return build(Call(op=spec.partition("/")[0], n=n, size_bytes=size), algorithm=spec).sent_bytes


@pytest.mark.parametrize("n", range(2, 34))
def test_bytes_each_member_sends(n: int) -> None:
    """Formulas of the literature; the vector S divides into n and into p chunks, a block has m bytes."""
    p, m = p_of(n), 30
    r = n - p
    size = n * p * m
    position = np.arange(n)
    for spec in ("allreduce/ring", "allreduce/nccl_ring", "allreduce/direct"):
        assert set(sent(spec, n, size).tolist()) == {2 * size * (n - 1) // n}
    for spec in (
        "allgather/ring",
        "allgather/bruck",
        "allgather/linear",
        "reduce_scatter/ring",
        "reduce_scatter/pairwise",
    ):
        assert set(sent(spec, n, m).tolist()) == {(n - 1) * m}
    for spec in ("alltoall/pairwise", "alltoall/linear", "alltoall/scattered"):
        assert set(sent(spec, n, n * m).tolist()) == {(n - 1) * m}
    bits = sum(bin(i).count("1") for i in range(n))
    assert set(sent("alltoall/bruck", n, n * m).tolist()) == {bits * m}
    # Folded members send S once; their partners send it once more than the others.
    idle, partner = (position < 2 * r) & (position % 2 == 0), (position < 2 * r) & (position % 2 == 1)
    core = size * int(log2(n))
    assert (
        sent("allreduce/recursive_doubling", n, size).tolist() == np.where(idle, size, core + size * partner).tolist()
    )
    core = 2 * size * (p - 1) // p
    assert sent("allreduce/rabenseifner", n, size).tolist() == np.where(idle, size, core + size * partner).tolist()
    # Trees: the root of a binomial one has ceil(log2 n) children, and every other member receives once.
    broadcast = build(Call(op="bcast", n=n, size_bytes=size), algorithm="binomial")
    assert broadcast.sent_bytes[0] == size * up(n)
    assert broadcast.received_bytes.tolist() == [0] + [size] * (n - 1)
    for spec in (
        "bcast/chain(segments=10)",
        "reduce/chain(segments=3)",
        "reduce/binomial",
        "bcast/linear",
        "bcast/split_binary",
    ):
        assert sent(spec, n, size).sum() == (n - 1) * size
    assert sent("bcast/chain(segments=10)", n, size).tolist() == [size] * (n - 1) + [0]
    assert sent("allreduce/reduce_bcast", n, size).sum() == 2 * (n - 1) * size
    assert sent("allreduce/double_binary_tree", n, size).sum() == 2 * (n - 1) * size


def test_known_byte_counts() -> None:
    """Single numbers derived by hand."""
    assert max(sent("allreduce/rabenseifner", 6, 4000)) == 10_000  # 5/2 S
    assert max(sent("allreduce/rabenseifner", 12, 8000)) == 22_000  # 11/4 S
    assert sent("scatter/binomial", 6, 1).sum() == 7
    assert sent("scatter/binomial", 12, 1).sum() == 20
    for n, blocks in BRUCK_BLOCKS.items():
        schedule = build(Call(op="alltoall", n=n, size_bytes=n), algorithm="bruck")
        ptr = schedule.step_ptr
        assert [set(schedule.size_bytes[a:b].tolist()) for a, b in pairwise(ptr)] == [{count} for count in blocks]
    for n, blocks in {6: [1, 2, 2], 12: [1, 2, 4, 4]}.items():
        schedule = build(Call(op="allgather", n=n, size_bytes=1), algorithm="bruck")
        assert schedule.size_bytes[schedule.step_ptr[:-1]].tolist() == blocks


def test_sizes_that_do_not_divide() -> None:
    """10 B over 3 members are cut into 4, 3 and 3, and 40 B cross the wires."""
    assert chunk_bytes(10, 3).tolist() == [4, 3, 3]
    schedule = build(Call(op="allreduce", n=3, size_bytes=10), algorithm="ring")
    assert schedule.total_bytes == 40
    assert sorted(schedule.size_bytes.tolist()) == [3] * 8 + [4] * 4
    for n in (2, 3, 5, 6, 7, 24):
        assert build(Call(op="allreduce", n=n, size_bytes=1001), algorithm="ring").total_bytes == 2 * (n - 1) * 1001


def test_nothing_to_send_is_still_a_collective() -> None:
    """Zero bytes cost the latencies, one member costs nothing."""
    schedule = build(Call(op="allreduce", n=4, size_bytes=0), algorithm="ring")
    assert (schedule.n_steps, schedule.n_messages, schedule.total_bytes) == (6, 24, 0)
    for name in algorithms:
        for call in calls(algorithms[name].op, 1):
            assert build(call, algorithm=name).n_messages == 0


def test_sizes_beyond_32_bits() -> None:
    """1024 members gather 2 GiB each: 2**41 B arrive at everybody but for the own block."""
    schedule = build(Call(op="allgather", n=1024, size_bytes=2 << 30), algorithm="bruck")
    assert set(schedule.received_bytes.tolist()) == {1023 << 31}


def test_alltoallv_sends_only_what_is_there() -> None:
    matrix = [[0, 5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 7, 3]]
    call = Call(op="alltoallv", n=4, pairs=PairBytes.from_matrix(matrix))
    for name in ("linear", "pairwise", "scattered"):
        schedule = build(call, algorithm=name)
        flows = sorted(zip(schedule.src.tolist(), schedule.dst.tolist(), schedule.size_bytes.tolist()))
        assert flows == [(0, 1, 5), (1, 0, 1), (3, 2, 7)]


def test_neighbours_on_both_sides_are_two_messages() -> None:
    """On a ring of two both neighbours are the same member."""
    pairs = PairBytes(ptr=[0, 2, 4], dst=[1, 1, 0, 0], size_bytes=[3, 4, 5, 6])
    schedule = build(Call(op="neighbor_alltoall", n=2, pairs=pairs), algorithm="direct")
    assert (schedule.n_steps, schedule.n_messages, schedule.sent_bytes.tolist()) == (1, 4, [7, 11])


def test_sparse_matrix_is_taken_as_it_is() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = [[0, 5, 0], [0, 0, 0], [2, 0, 9]]
    one, two = PairBytes.from_matrix(matrix), PairBytes.from_matrix(sparse.csr_array(np.array(matrix)))
    assert Call(op="alltoallv", n=3, pairs=one) == Call(op="alltoallv", n=3, pairs=two)


# Double binary tree


@pytest.mark.parametrize("n", range(2, 65))
def test_double_binary_trees_share_the_work(n: int) -> None:
    """Both are binary trees over everybody; inner members of one are leaves of the other, but for one if n is odd."""
    trees = double_binary_trees(n)
    children = np.zeros((2, n), dtype=int)
    for row, tree in zip(children, trees):
        assert np.count_nonzero(tree.parent < 0) == 1
        child, parent = tree.edges
        assert (tree.depth[child] == tree.depth[parent] + 1).all()  # so everybody hangs below the root, no cycles
        np.add.at(row, parent, 1)
        assert tree.height == up(n)
    assert np.count_nonzero((children > 0).all(axis=0)) == n % 2
    assert children.max() <= 2
    if n % 2 == 0:
        assert children.sum(axis=0).max() <= 2


def test_double_binary_tree_carries_half_in_each_tree() -> None:
    """n = 4 and 1 MB: 6 MB in total, not 12."""
    schedule = build(Call(op="allreduce", n=4, size_bytes=1_000_000), algorithm="double_binary_tree")
    assert schedule.total_bytes == 6_000_000
    half = schedule.first < schedule.n_blocks // 2
    assert schedule.size_bytes[half].sum() == schedule.size_bytes[~half].sum() == 3_000_000


@pytest.mark.parametrize("n", range(2, 65))
def test_binary_tree_has_balanced_sides(n: int) -> None:
    tree = binary_tree(n)
    child, parent = tree.edges
    assert np.bincount(parent).max() <= 2
    assert tree.height == int(log2(n))
    below_one = child % 2 == 1
    assert set(parent[below_one & (parent > 0)] % 2) <= {1}
    assert set(parent[~below_one & (parent > 0)] % 2) <= {0}
