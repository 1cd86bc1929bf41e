"""Bad input is named, and users can add algorithms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.traffic.collectives import (
    Call,
    PairBytes,
    Schedule,
    Steps,
    algorithm,
    algorithms,
    build,
    check_schedule,
    resolve,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Call(op="allredcue", n=2),
            "collective: unknown operation, got 'allredcue'; did you mean 'allreduce'? valid: allgather, allgatherv, "
            "allreduce, alltoall, alltoallv, barrier, bcast, exscan, gather, gatherv, neighbor_allgather, neighbor_alltoall, "
            "reduce, reduce_scatter, scan, scatter, scatterv",
        ),
        (lambda: Call(op="bcast", n=0), "bcast: needs at least one member, got 0"),
        (lambda: Call(op="bcast", n=2, size_bytes=-1), "bcast: size_bytes must be 0 or more, got -1"),
        (lambda: Call(op="bcast", n=2, root=2), "bcast: root must be one of the 2 members, got 2"),
        (lambda: Call(op="allreduce", n=2, root=1), "allreduce: has no root, got 1; leave root out"),
        (lambda: Call(op="barrier", n=2, size_bytes=1), "barrier: carries no data, got 1; leave size_bytes out"),
        (lambda: Call(op="gatherv", n=2), "gatherv: needs block_bytes, one size per member"),
        (lambda: Call(op="gatherv", n=2, block_bytes=[1]), "gatherv: block_bytes must hold 2 sizes, got shape (1,)"),
        (lambda: Call(op="gatherv", n=2, block_bytes=[1, -2]), "gatherv member 1: bytes must be 0 or more, got -2"),
        (lambda: Call(op="bcast", n=2, block_bytes=[1, 2]), "bcast: has no sizes per member; leave block_bytes out"),
        (lambda: Call(op="alltoallv", n=2), "alltoallv: needs pairs, the bytes of every pair"),
        (
            lambda: Call(op="gatherv", n=2, size_bytes=3, block_bytes=[1, 2]),
            "gatherv: sizes are per member, got 3; leave size_bytes out, give only the vector",
        ),
        (lambda: PairBytes.from_matrix([[0, 1]]), "pair bytes: the matrix must be square, got (1, 2)"),
        (lambda: PairBytes.from_matrix([[0, -1], [0, 0]]), "pair (0, 1): bytes must be 0 or more, got -1"),
        (
            lambda: PairBytes(ptr=[0, 1], dst=[3], size_bytes=[1]),
            "pair bytes: receivers must be members 0..0, got 3",
        ),
        (
            lambda: build(Call(op="allreduce", n=4), algorithm="rng"),
            "collective algorithm for allreduce: unknown name, got 'rng'; did you mean 'ring'? valid: direct, "
            "double_binary_tree, hierarchical, nccl_ring, rabenseifner, recursive_doubling, reduce_bcast, ring, ring_segmented",
        ),
        (
            lambda: build(Call(op="bcast", n=4), algorithm="chain(segment=3)"),
            "collective algorithm 'bcast/chain': unknown parameter, got 'segment'; did you mean 'segments'? valid: "
            "segment_bytes, segments",
        ),
        (
            lambda: build(Call(op="bcast", n=4), algorithm="chain(segments=0)"),
            "collective algorithm 'bcast/chain': segments must be 1 or more, got 0",
        ),
        (
            lambda: build(Call(op="bcast", n=4), algorithm="chain(segments)"),
            "collective algorithm 'chain': parameters are whole numbers, got 'segments'; write e.g. 'chain(segments=10)'",
        ),
        (
            lambda: build(Call(op="bcast", n=4), algorithm="chain)"),
            "collective algorithm: must be a name, got 'chain)'; write e.g. 'chain' or 'chain(segments=10)'",
        ),
        (
            lambda: build(Call(op="bcast", n=4), algorithm="allreduce/ring"),
            "collective algorithm 'allreduce/ring': performs allreduce, got 'bcast'",
        ),
        (
            lambda: build(Call(op="allreduce", n=6), algorithm="hierarchical(ranks_per_node=4)"),
            "collective algorithm 'allreduce/hierarchical': ranks_per_node must divide the 6 members, got 4; write e.g. "
            "'hierarchical(ranks_per_node=4)'",
        ),
        (
            lambda: build(Call(op="allgather", n=5), algorithm="neighbor_exchange"),
            "collective algorithm 'allgather/neighbor_exchange': needs an even number of members, got 5; use 'ring'",
        ),
    ],
)
def test_bad_input_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_schedules_are_validated() -> None:
    call = Call(op="bcast", n=3, size_bytes=9)
    steps = Steps(call)
    steps.add(src=0, dst=[1, 3])
    with pytest.raises(InputError) as error:
        steps.schedule()
    assert str(error.value) == "schedule of bcast message 1: dst must be one of the 3 members, got 3"
    steps = Steps(call)
    steps.add(src=1, dst=1)
    with pytest.raises(InputError) as error:
        steps.schedule()
    assert str(error.value) == "schedule of bcast message 0: a member must not send to itself, got 1"


def test_a_user_can_register_an_algorithm() -> None:
    @algorithm("allreduce/test_star", formula="T = 2(a + (n-1)S/B)", source="this test")
    def star(call: Call) -> Schedule:
        """Up to member 0 and down again."""
        steps, others = Steps(call), np.arange(1, call.n)
        steps.add(src=others, dst=0, combine=True)
        steps.add(src=0, dst=others)
        return steps.schedule()

    try:
        found, parameters = resolve(op="allreduce", algorithm="test_star")
        assert (found, parameters) == (star, {})
        schedule = build(Call(op="allreduce", n=7, size_bytes=3), algorithm="test_star")
        assert schedule.algorithm == "allreduce/test_star"
        check_schedule(schedule)
        with pytest.raises(InputError) as error:
            algorithm("allreduce/test_star", formula="", source="")(star.make)
        assert (
            str(error.value)
            == "collective algorithm: the name is taken, got 'allreduce/test_star'; choose another name"
        )
    finally:
        algorithms.unregister("allreduce/test_star")


def test_calls_are_keys() -> None:
    """Schedules are cached by call and algorithm."""
    one = Call(op="gatherv", n=2, block_bytes=[1, 2], root=1)
    assert {one: 1}[Call(op="gatherv", n=2, block_bytes=np.array([1, 2]), root=1)] == 1
    assert one != Call(op="gatherv", n=2, block_bytes=[2, 1], root=1)
    assert one != Call(op="scatterv", n=2, block_bytes=[1, 2], root=1)
