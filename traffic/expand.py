"""Collectives as tasks: the messages of an algorithm, wired step by step to the calls of the members.

A message of step k starts when both its ends have left their earlier steps, and both leave step k at delivery. One
``Template`` serves every call with the same algorithm, size and root.

With overheads a member works through a step as a program does that posts its receives, starts its sends and waits for all:
its j-th send leaves after j send overheads; then its receives are completed one after the other, each when it has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_gather, csr_order, distinct, distinct_rows
from netsim.traffic.collectives import Steady

__all__ = ["Template", "make_template", "steady_template"]

_NONE: Int64 = np.zeros(0, dtype=np.int64)


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
        Tasks m .. m+d-1: a member's processor time for a send or a receive, or a bare meeting point between two of its steps.
    edge_from, edge_to : int64 array, shape (e,)
        Edges between tasks; numbers from ``n_tasks`` on mean the entry (as a source) or exit (as a target) of a member.
    exit_s : float64 array, shape (n_members,)
        Processor time of each member after its last step.
    latencies : int
        Path latencies that each message pays.
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
    latencies: int = 1

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
        Processor time per message. Within a step, the sends of a member leave one after the other, in the order of the
        schedule; then it completes its receives one after the other, in the order of the schedule.

    Notes
    -----
    Let member i enter a step at E_i and send k messages in it, the j-th of them to d. That message starts at the latest of
    E_i + j o_s and E_d + (o_s if d sends as well, else 0): d is ready once its first send is on its way. Receives, the j-th
    of them delivered at A_j, are complete at r_j = max(A_j, r_(j-1)) + o_r with r_0 = E_i + k o_s. The member leaves when
    all its sends are delivered and its receives complete. A member with at most one send and one receive (rings, trees,
    pairwise exchanges) pays o_r when both are delivered: one task then stands between two steps, instead of two.

    Examples
    --------
    Two members exchange in two steps: nothing stands between the messages of step 0 and those of step 1.

    >>> t = make_template(n_members=2, step=[0, 0, 1, 1], src=[0, 1, 0, 1], dst=[1, 0, 1, 0], size_bytes=[8, 8, 8, 8])
    >>> t.n_tasks, sorted(zip(t.edge_from.tolist(), t.edge_to.tolist()))
    (4, [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 0), (4, 1), (5, 0), (5, 1)])

    Member 0 sends twice: 1 s before the first message, 1 s more before the second.

    >>> t = make_template(n_members=3, step=[0, 0], src=[0, 0], dst=[1, 2], size_bytes=[8, 8], send_overhead_s=1.0)
    >>> t.delay_member.tolist(), t.delay_s.tolist()
    ([0, 0], [1.0, 1.0])
    """
    steps, sources, targets = (np.asarray(a, dtype=np.int64) for a in (step, src, dst))
    # Messages are numbered by step and ends; ``order`` still knows their place in the schedule.
    order = np.lexsort((targets, sources, steps))
    sources, targets = sources[order], targets[order]
    size = np.asarray(size_bytes, dtype=np.float64)[order]
    n_messages = int(order.size)
    ordered = steps[order]
    dense_step = np.cumsum(np.append(False, ordered[1:] != ordered[:-1])[:n_messages])
    n_steps = int(dense_step.max()) + 1 if n_messages else 0
    # A slot is a member in a step it takes part in; slots are sorted by member, then step.
    slots, slot_of = distinct_rows(
        np.concatenate([sources, targets]) * n_steps + np.tile(dense_step, 2), n_members * n_steps
    )
    n_slots = int(slots.size)
    src_slot, dst_slot = slot_of[:n_messages], slot_of[n_messages:]
    member = slots // max(n_steps, 1)
    first = np.ones(n_slots, dtype=bool)
    first[1:] = member[1:] != member[:-1]
    last = np.append(first[1:], True)[:n_slots]
    later = np.flatnonzero(~first)
    n_sent, n_received = (np.bincount(slot, minlength=n_slots) for slot in (src_slot, dst_slot))
    # One send and one receive: the overhead of the receive can wait for both and join what follows the step.
    joint = (n_sent <= 1) & (n_received <= 1)
    after_s = np.where(joint, recv_overhead_s * n_received, 0.0)
    ready_s: Float64 = np.where(n_sent > 0, send_overhead_s, 0.0)
    ready_s[later] += after_s[later - 1]
    exit_s = np.zeros(n_members)
    exit_s[member[last]] = after_s[last]

    # Second and further sends of a slot, and the receives of busy slots, cost a task each, one after the other.
    sends = _Chain.of(src_slot, order, np.flatnonzero(n_sent > 1) if send_overhead_s > 0 else _NONE, n_messages, skip=1)
    n_tasks = n_messages + sends.n
    receives = _Chain.of(dst_slot, order, np.flatnonzero(~joint) if recv_overhead_s > 0 else _NONE, n_tasks, skip=0)
    n_tasks += receives.n

    # What the entry to a slot lets go, and what its end waits for. A message of a member to itself counts once.
    message = np.arange(n_messages)
    two = src_slot != dst_slot
    free = np.ones(n_messages, dtype=bool)
    free[sends.message] = False
    begin_ptr, begin = _by_slot([(src_slot[free], message[free]), (dst_slot[two], message[two]),
                                 (sends.slot[sends.head], sends.task[sends.head])], n_slots)  # fmt: skip
    two[receives.message] = False
    close_ptr, close = _by_slot([(src_slot, message), (dst_slot[two], message[two]),
                                 (receives.slot[receives.tail], receives.task[receives.tail])], n_slots)  # fmt: skip
    n_out = np.diff(begin_ptr)
    n_in = np.ones(n_slots, dtype=np.int64)
    n_in[later] = np.diff(close_ptr)[later - 1]
    # A task of its own where time passes, or where it saves edges.
    own = (ready_s > 0) | (n_in * n_out > n_in + n_out)
    task = np.full(n_slots, -1, dtype=np.int64)
    task[own] = n_tasks + np.arange(int(own.sum()))
    n_tasks += int(own.sum())

    edges: list[tuple[Int64, Int64]] = []

    def lead(rows: Int64, start: Int64) -> None:
        """Edges from one task each to all that begins in each slot of ``rows``."""
        ptr, at = csr_gather(begin_ptr, rows)
        edges.append((np.repeat(start, np.diff(ptr)), begin[at]))

    def join(rows: Int64, to: Int64) -> None:
        """Edges from all that ends each slot in ``rows`` to one task each."""
        ptr, at = csr_gather(close_ptr, rows)
        edges.append((close[at], np.repeat(to, np.diff(ptr))))

    entry = n_tasks + member
    # Entry to what begins in the first slot, directly or through the member's own task.
    begin_open, begin_own = np.flatnonzero(first & ~own), np.flatnonzero(first & own)
    lead(begin_open, entry[begin_open])
    edges.append((entry[begin_own], task[begin_own]))
    # Own task to what begins in its slot, end of the slot before to the own task.
    with_task = np.flatnonzero(own)
    lead(with_task, task[with_task])
    through = np.flatnonzero(own & ~first)
    join(through - 1, task[through])
    # Without one: every pair.
    direct = np.flatnonzero(~own & ~first)
    ptr, at = csr_gather(close_ptr, direct - 1)
    slot_again = np.repeat(direct, np.diff(ptr))
    ptr2, at2 = csr_gather(begin_ptr, slot_again)
    edges.append((np.repeat(close[at], np.diff(ptr2)), begin[at2]))
    # Sends one after the other, then receives; where there is one send, no message arrives before it is under way.
    edges.extend([sends.links(), (sends.task, sends.message), receives.links(), (receives.message, receives.task)])
    sent = np.full(n_slots, -1, dtype=np.int64)
    sent[sends.slot[sends.tail]] = sends.task[sends.tail]
    to = receives.task[receives.head]
    start = sent[receives.slot[receives.head]]
    edges.append((start[start >= 0], to[start >= 0]))
    # Exits.
    end = np.flatnonzero(last)
    join(end, entry[end])
    idle = np.setdiff1d(np.arange(n_members), member)
    edges.append((n_tasks + idle, n_tasks + idle))

    edge_from = np.concatenate([a for a, _ in edges])
    edge_to = np.concatenate([b for _, b in edges])
    # Two members that meet in consecutive steps would give the same edge twice.
    both = distinct(edge_from * (n_tasks + n_members) + edge_to)
    return Template(
        n_members=n_members,
        src=sources,
        dst=targets,
        size_bytes=size,
        delay_member=member[np.concatenate([sends.slot, receives.slot, np.flatnonzero(own)])],
        delay_s=np.concatenate([np.full(sends.n, send_overhead_s), np.full(receives.n, recv_overhead_s), ready_s[own]]),
        edge_from=both // (n_tasks + n_members),
        edge_to=both % (n_tasks + n_members),
        exit_s=exit_s,
    )


def steady_template(
    *, n_members: int, flows: Steady, send_overhead_s: float = 0.0, recv_overhead_s: float = 0.0
) -> Template:
    """Wire a collective without steps: all flows start when all have entered, all leave when all flows are delivered.

    Examples
    --------
    >>> flows = Steady(src=[0, 1], dst=[1, 0], size_bytes=[8, 8], n_steps=2)
    >>> t = steady_template(n_members=2, flows=flows, send_overhead_s=1.0)
    >>> t.n_tasks, t.edge_from.tolist(), t.edge_to.tolist(), t.exit_s.tolist(), t.latencies
    (4, [4, 5, 2, 2, 0, 1, 3, 3], [2, 2, 0, 1, 3, 3, 4, 5], [2.0, 2.0], 2)
    """
    m = int(flows.src.size)
    message, member = np.arange(m), np.arange(n_members)
    begin, end, outside = np.full(m, m), np.full(m, m + 1), m + 2 + member
    edge_from = [outside, begin, message, np.full(n_members, m + 1)]
    edge_to = [np.full(n_members, m), message, end, outside]
    if m == 0:
        edge_from, edge_to = [*edge_from, np.array([0])], [*edge_to, np.array([1])]
    return Template(
        n_members=n_members,
        src=flows.src,
        dst=flows.dst,
        size_bytes=flows.size_bytes.astype(np.float64),
        delay_member=np.zeros(2, dtype=np.int64),
        delay_s=np.zeros(2),
        edge_from=np.concatenate(edge_from),
        edge_to=np.concatenate(edge_to),
        exit_s=np.full(n_members, flows.n_steps * (send_overhead_s + recv_overhead_s)),
        latencies=flows.n_steps,
    )


@dataclass(frozen=True)
class _Chain:
    """Processor time per message of some slots, one after the other: entries sorted by slot, then place in the schedule.

    Attributes
    ----------
    slot, message, task : int64 array, shape (n,)
    head, tail : bool array, shape (n,)
        First and last entry of each slot.
    """

    slot: Int64
    message: Int64
    task: Int64
    head: npt.NDArray[np.bool_]
    tail: npt.NDArray[np.bool_]

    @property
    def n(self) -> int:
        """Number of tasks."""
        return int(self.task.size)

    @classmethod
    def of(cls, slot_of: Int64, place: Int64, slots: Int64, first_task: int, *, skip: int) -> _Chain:
        """Chain the messages of ``slots``, without the first ``skip`` of each; tasks are numbered from ``first_task``."""
        chained = np.zeros(int(slot_of.max()) + 1 if slot_of.size else 0, dtype=bool)
        chained[slots[slots < chained.size]] = True
        message = np.flatnonzero(chained[slot_of])
        message = message[np.lexsort((place[message], slot_of[message]))]
        slot = slot_of[message]
        for _ in range(skip):
            again = np.zeros(slot.size, dtype=bool)
            again[1:] = slot[1:] == slot[:-1]
            message, slot = message[again], slot[again]
        head = np.ones(slot.size, dtype=bool)
        head[1:] = slot[1:] != slot[:-1]
        tail = np.append(head[1:], True)[: slot.size]
        return cls(slot, message, first_task + np.arange(slot.size, dtype=np.int64), head, tail)

    def links(self) -> tuple[Int64, Int64]:
        """Edges from each task to the next of its slot."""
        follow = np.flatnonzero(~self.head)
        return self.task[follow - 1], self.task[follow]


def _by_slot(entries: list[tuple[Int64, Int64]], n_slots: int) -> tuple[Int64, Int64]:
    """Tasks of each slot in CSR."""
    slot, task = (np.concatenate(columns) for columns in zip(*entries, strict=True))
    ptr, order = csr_order(slot, n_slots)
    return ptr, task[order]
