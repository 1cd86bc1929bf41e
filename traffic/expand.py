"""Collectives as tasks: the messages of an algorithm, wired step by step to the calls of the members.

A message of step k starts when both its ends have left their earlier steps, and both leave step k at delivery. One
``Template`` serves every call with the same algorithm, size and root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_gather, csr_order

__all__ = ["Template", "make_template"]


@dataclass(frozen=True, kw_only=True)
class Template:
    """Tasks and edges of one collective, relative to its members.

    Attributes
    ----------
    n_members : int
    src, dst : int64 array, shape (m,)
        Member numbers of the ends of messages 0 .. m-1.
    size_bytes : float64 array, shape (m,)
    delay_member, delay_s : int64 and float64 array, shape (d,)
        Tasks m .. m+d-1: a member's processor time (or a bare meeting point) between two of its steps.
    edge_from, edge_to : int64 array, shape (e,)
        Edges between tasks; numbers from ``n_tasks`` on mean the entry (as a source) or exit (as a target) of a member.
    exit_s : float64 array, shape (n_members,)
        Processor time of each member after its last step.
    """

    n_members: int
    src: Int64
    dst: Int64
    size_bytes: Float64
    delay_member: Int64
    delay_s: Float64
    edge_from: Int64
    edge_to: Int64
    exit_s: Float64

    @property
    def n_tasks(self) -> int:
        """Number of tasks without entries and exits."""
        return int(self.src.size + self.delay_member.size)


def make_template(
    *,
    n_members: int,
    step: npt.ArrayLike,
    src: npt.ArrayLike,
    dst: npt.ArrayLike,
    size_bytes: npt.ArrayLike,
    send_overhead_s: float = 0.0,
    recv_overhead_s: float = 0.0,
) -> Template:
    """Wire the messages of a schedule.

    Parameters
    ----------
    n_members : int
    step, src, dst : array_like of int, shape (m,)
        Step of each message, and its ends as member numbers.
    size_bytes : array_like, shape (m,)
    send_overhead_s, recv_overhead_s : float
        Processor time per message: a member pays for the sends of a step before the step, for its receives after it.

    Examples
    --------
    Two members exchange in two steps: nothing stands between the messages of step 0 and those of step 1.

    >>> t = make_template(n_members=2, step=[0, 0, 1, 1], src=[0, 1, 0, 1], dst=[1, 0, 1, 0], size_bytes=[8, 8, 8, 8])
    >>> t.n_tasks, sorted(zip(t.edge_from.tolist(), t.edge_to.tolist()))
    (4, [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 0), (4, 1), (5, 0), (5, 1)])
    """
    steps, sources, targets = (np.asarray(a, dtype=np.int64) for a in (step, src, dst))
    order = np.lexsort((targets, sources, steps))
    sources, targets = sources[order], targets[order]
    size = np.asarray(size_bytes, dtype=np.float64)[order]
    n_messages = int(order.size)
    _, dense_step = np.unique(steps[order], return_inverse=True)
    n_steps = int(dense_step.max()) + 1 if n_messages else 0
    # A slot is a member in a step it takes part in; slots are sorted by member, then step.
    slots, slot_of = np.unique(
        np.concatenate([sources, targets]) * n_steps + np.tile(dense_step, 2), return_inverse=True
    )
    n_slots = int(slots.size)
    src_slot, dst_slot = slot_of[:n_messages], slot_of[n_messages:]
    member = slots // max(n_steps, 1)
    first = np.ones(n_slots, dtype=bool)
    first[1:] = member[1:] != member[:-1]
    last = np.append(first[1:], True)[:n_slots]
    received_s = recv_overhead_s * np.bincount(dst_slot, minlength=n_slots)
    ready_s: Float64 = send_overhead_s * np.bincount(src_slot, minlength=n_slots).astype(np.float64)
    later = np.flatnonzero(~first)
    ready_s[later] += received_s[later - 1]
    exit_s = np.zeros(n_members)
    exit_s[member[last]] = received_s[last]

    # Messages of each slot; a message of a member to itself counts once.
    message = np.arange(n_messages)
    two = src_slot != dst_slot
    touch_ptr, touch_order = csr_order(np.concatenate([src_slot, dst_slot[two]]), n_slots)
    touch = np.concatenate([message, message[two]])[touch_order]
    n_out = np.diff(touch_ptr)
    n_in = np.ones(n_slots, dtype=np.int64)
    n_in[later] = n_out[later - 1]
    # A task of its own where time passes, or where it saves edges.
    own = (ready_s > 0) | (n_in * n_out > n_in + n_out)
    task = np.full(n_slots, -1, dtype=np.int64)
    task[own] = n_messages + np.arange(int(own.sum()))
    n_tasks = n_messages + int(own.sum())

    edges: list[tuple[Int64, Int64]] = []

    def join(rows: Int64, to: Int64) -> None:
        """Edges from all messages of each slot in ``rows`` to one task each."""
        ptr, at = csr_gather(touch_ptr, rows)
        edges.append((touch[at], np.repeat(to, np.diff(ptr))))

    begin, begin_own = np.flatnonzero(first & ~own), np.flatnonzero(first & own)
    entry = n_tasks + member
    # Entry to the first messages, directly or through the member's own task.
    ptr, at = csr_gather(touch_ptr, begin)
    edges.append((np.repeat(entry[begin], np.diff(ptr)), touch[at]))
    edges.append((entry[begin_own], task[begin_own]))
    # Own task to the messages of its slot, messages of the slot before to the own task.
    with_task = np.flatnonzero(own)
    ptr, at = csr_gather(touch_ptr, with_task)
    edges.append((np.repeat(task[with_task], np.diff(ptr)), touch[at]))
    through = np.flatnonzero(own & ~first)
    join(through - 1, task[through])
    # Messages straight to messages: every pair.
    direct = np.flatnonzero(~own & ~first)
    ptr, at = csr_gather(touch_ptr, direct - 1)
    slot_again = np.repeat(direct, np.diff(ptr))
    ptr2, at2 = csr_gather(touch_ptr, slot_again)
    edges.append((np.repeat(touch[at], np.diff(ptr2)), touch[at2]))
    # Exits.
    end = np.flatnonzero(last)
    join(end, entry[end])
    idle = np.setdiff1d(np.arange(n_members), member)
    edges.append((n_tasks + idle, n_tasks + idle))

    edge_from = np.concatenate([a for a, _ in edges])
    edge_to = np.concatenate([b for _, b in edges])
    # Two members that meet in consecutive steps would give the same edge twice.
    both = np.unique(edge_from * (n_tasks + n_members) + edge_to)
    return Template(
        n_members=n_members,
        src=sources,
        dst=targets,
        size_bytes=size,
        delay_member=member[own],
        delay_s=ready_s[own],
        edge_from=both // (n_tasks + n_members),
        edge_to=both % (n_tasks + n_members),
        exit_s=exit_s,
    )
