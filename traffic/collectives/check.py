"""Does a schedule compute what its operation promises? Followed contribution by contribution.

Every member starts with its own contribution; each message is executed on sets of contributions instead of numbers.
A lost contribution, one counted twice, a block that was sent before it was there, or a size that does not fit the
blocks is an error.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.traffic.collectives.call import PAIR_OPS, VECTOR_OPS
from netsim.traffic.collectives.schedule import Schedule

__all__ = ["check_schedule", "contributions"]

Counts = npt.NDArray[np.int32]
_REDUCTIONS = ("reduce", "allreduce", "reduce_scatter", "scan", "exscan", "barrier")


def contributions(schedule: Schedule) -> Counts:
    """What every member holds in the end, by executing the schedule.

    Returns
    -------
    int32 array, shape (n, n_blocks, origins)
        How often the contribution of each origin is part of each block of each member. Reductions have n origins;
        operations that only move data have one, "the data". For scan and exscan it is the result, not the running
        sum that is passed on.

    Raises
    ------
    InputError
        A block is sent by a member that does not have it, or is written twice in one step.

    Notes
    -----
    scan and exscan: a message carries the running sum of the sender; the receiver adds it to its own running sum,
    and also to its result if the sender stands before it.
    """
    call = schedule.call
    state = _initial(schedule)
    result = state.copy() if call.op == "scan" else np.zeros_like(state)
    ptr, block = schedule.carried()
    src, dst = (np.repeat(end, np.diff(ptr)) for end in (schedule.src, schedule.dst))
    combine = np.repeat(schedule.combine, np.diff(ptr)).astype(bool)
    bounds = ptr[schedule.step_ptr]
    for step, (low, high) in enumerate(pairwise(bounds)):
        at = slice(int(low), int(high))
        carried = state[src[at], block[at]]
        empty = np.flatnonzero(carried.sum(axis=1) == 0)
        if empty.size:
            here = int(low + empty[0])
            raise InputError(
                schedule.subject,
                f"member {src[here]} sends block {block[here]} in step {step} without having it",
            )
        reduces = combine[at]
        stored = (dst[at] * schedule.n_blocks + block[at])[~reduces]
        added = (dst[at] * schedule.n_blocks + block[at])[reduces]
        if np.unique(stored).size < stored.size or np.intersect1d(stored, added).size:
            raise InputError(schedule.subject, f"a block is written twice in step {step}")
        state[dst[at][~reduces], block[at][~reduces]] = carried[~reduces]
        np.add.at(state, (dst[at][reduces], block[at][reduces]), carried[reduces])
        if call.op in ("scan", "exscan"):
            later = src[at] < dst[at]
            np.add.at(result, (dst[at][later], block[at][later]), carried[later])
    return result if call.op in ("scan", "exscan") else state


def _places(schedule: Schedule) -> tuple[Int64, Int64]:
    """Where each block begins and where it must end, for operations with one block per pair of members."""
    call = schedule.call
    if call.op == "alltoall":
        block = np.arange(call.n * call.n, dtype=np.int64)
        return block // call.n, block % call.n
    assert call.pairs is not None
    return call.pairs.src, call.pairs.dst


def _initial(schedule: Schedule) -> Counts:
    call, n, blocks = schedule.call, schedule.call.n, schedule.n_blocks
    member = np.arange(n)
    if call.op in _REDUCTIONS:
        state = np.zeros((n, blocks, n), dtype=np.int32)
        state[member, :, member] = 1
        return state
    state = np.zeros((n, blocks, 1), dtype=np.int32)
    if call.op in ("bcast", "scatter", "scatterv"):
        state[call.root] = 1
    elif call.op in ("gather", "gatherv", "allgather", "allgatherv"):
        state[member, member] = 1
    else:
        begin, _ = _places(schedule)
        state[begin, np.arange(blocks)] = 1
    return state


def _wanted(schedule: Schedule) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """The right result, and where it matters, shape (n, n_blocks)."""
    call, n, blocks = schedule.call, schedule.call.n, schedule.n_blocks
    member = np.arange(n)
    matters = np.zeros((n, blocks), dtype=np.bool_)
    if call.op in ("scan", "exscan"):
        before = member[None, :] <= member[:, None] if call.op == "scan" else member[None, :] < member[:, None]
        matters[:] = True
        return np.broadcast_to(before[:, None, :], (n, blocks, n)).astype(np.int32), matters
    if call.op in ("reduce", "gather", "gatherv"):
        matters[call.root] = True
    elif call.op in ("reduce_scatter", "scatter", "scatterv"):
        matters[member, member] = True
    elif call.op == "alltoall" or call.op in PAIR_OPS:
        matters[_places(schedule)[1], np.arange(blocks)] = True
    else:
        matters[:] = True
    origins = n if call.op in _REDUCTIONS else 1
    return np.ones((n, blocks, origins), dtype=np.int32), matters


def check_schedule(schedule: Schedule) -> None:
    """Raise ``InputError`` unless every member ends with the right data and every message has the size of its blocks.

    Needs memory for n x blocks x origins counts: meant for tests, with some dozens of members.

    Examples
    --------
    >>> from netsim.traffic.collectives import Call, Steps
    >>> steps = Steps(Call(op="bcast", n=3, size_bytes=8))
    >>> steps.add(src=0, dst=1)
    >>> check_schedule(steps.schedule())
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: schedule of bcast: member 2 must end with block 0 complete, got nothing
    """
    name = schedule.subject
    ptr, block = schedule.carried()
    size: Any = schedule.block_bytes[block % max(schedule.block_bytes.size, 1)] if block.size else block
    total = np.zeros(schedule.n_messages, dtype=np.int64)
    np.add.at(total, np.repeat(np.arange(schedule.n_messages), np.diff(ptr)), size)
    bad = np.flatnonzero(total != schedule.size_bytes)
    if bad.size:
        raise InputError(
            f"{name} message {bad[0]}", f"its blocks have {total[bad[0]]} bytes", got=int(schedule.size_bytes[bad[0]])
        )
    held = contributions(schedule)
    wanted, matters = _wanted(schedule)
    if schedule.call.op == "barrier":
        held = np.minimum(held, 1)  # hearing of somebody twice does no harm
    if schedule.call.op in (*PAIR_OPS, *VECTOR_OPS):  # nobody misses an empty block
        matters = matters & (schedule.block_bytes > 0)
    wrong = np.argwhere((held != wanted).any(axis=2) & matters)
    if wrong.size:
        rank, which = (int(x) for x in wrong[0])
        had, want = held[rank, which], wanted[rank, which]
        if not had.any():
            got = "nothing"
        elif (had > want).any():
            got = f"the contribution of member {int(np.argmax(had > want))} {int(had[np.argmax(had > want)])} times"
        else:
            got = f"no contribution of member {int(np.argmax(had < want))}"
        raise InputError(name, f"member {rank} must end with block {which} complete", got=got)
