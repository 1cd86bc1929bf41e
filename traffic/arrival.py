"""Order of arrival on an ideal network, for receives whose source or tag was never recorded.

The calls are run once in Python: local work takes its time, everything else none, every send is buffered, and a message arrives
when it is sent. A wildcard receive takes the earliest message it accepts, ties by source rank and position, but
never one that a receive with that exact source and tag needs. The order of such a run respects cause and effect, so it cannot
make a program wait for a message that the program only sends afterwards.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_order
from netsim.traffic.instances import Instances
from netsim.traffic.matching import match_numbered
from netsim.traffic.program import Program

__all__ = ["resolve_wildcards"]

Key = tuple[int, int, int, int]


def resolve_wildcards(
    program: Program, instances: Instances, *, sends: Int64, receives: Int64, wild: Int64
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sources and tags of all rows, with those of the ``wild`` receives filled in; -1 stays where nothing arrived.

    Parameters
    ----------
    program : Program
    instances : Instances
        Collectives, which hold back their members.
    sends, receives, wild : int64 array
        Rows; ``wild`` are some of the receives.

    Returns
    -------
    peer, tag : int32 array, shape (n,)
    """
    run = _Run(program, instances, sends=sends, receives=receives, wild=wild)
    run.go()
    peer, tag = program.peer.copy(), program.tag.copy()
    for row, send in run.taken.items():
        peer[row], tag[row] = program.rank[send], program.tag[send]
    return peer, tag


class _Run:
    def __init__(self, program: Program, instances: Instances, *, sends: Int64, receives: Int64, wild: Int64) -> None:
        n = program.n
        self._n = n
        self._program = program
        self._rank = program.rank.tolist()
        self._peer = program.peer.tolist()
        self._tag = program.tag.tolist()
        self._comm = program.comm.tolist()
        self._gap = program.gap_s.tolist()
        self._is_send = np.isin(np.arange(n), sends).tolist()
        self._is_recv = np.isin(np.arange(n), receives).tolist()
        self._is_wild = np.isin(np.arange(n), wild).tolist()
        self._wire(program, instances, receives)
        # Messages per (communicator, source, destination, tag) that no receive with exactly that key needs.
        self._spare: dict[Key, int] = defaultdict(int)
        numbered = self._numbered(program, sends, receives)
        for row in sends.tolist():
            if row not in numbered:
                self._spare[self._key(row)] += 1
        for row in receives.tolist():
            if not self._is_wild[row] and row not in numbered:
                self._spare[self._recv_key(row)] -= 1
        self._numbered_send = {send: recv for recv, send in numbered.items() if self._is_recv[recv]}
        self._numbered_recv = set(self._numbered_send.values())
        self._arrived: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self._posted: dict[tuple[int, int], deque[int]] = defaultdict(deque)
        self.taken: dict[int, int] = {}

    @staticmethod
    def _numbered(program: Program, sends: Int64, receives: Int64) -> dict[int, int]:
        found = match_numbered(send_number=program.match[sends], recv_number=program.match[receives])
        hit = np.flatnonzero(found >= 0)
        pairs = list(zip(receives[hit].tolist(), sends[found[hit]].tolist(), strict=True))
        return {**dict(pairs), **{send: recv for recv, send in pairs}}

    def _wire(self, program: Program, instances: Instances, receives: Int64) -> None:
        """Moments: row entered (row), row ended (n + row), all members there (2 n + collective)."""
        n = self._n
        rows = np.arange(n)
        chained = np.flatnonzero(program.chained)
        before = np.where(program.free[chained - 1], chained - 1, n + chained - 1)
        meeting = 2 * n + np.repeat(np.arange(instances.n), instances.size)
        at_end = program.completion[program.dep_row]
        source = np.concatenate([rows, before, n + program.dep_on, program.start_on, instances.row, meeting])
        target = np.concatenate(
            [n + rows, chained, program.dep_row + np.where(at_end, n, 0), program.start_row, meeting, n + instances.row]
        )
        total = 2 * n + instances.n
        self._missing = np.bincount(target, minlength=total)
        self._missing[n + receives] += 1  # the message
        self._ptr, order = csr_order(source, total)
        self._succ = target[order].tolist()
        self._time = [0.0] * total
        self._missing_list: list[int] = self._missing.tolist()
        self._heap: list[tuple[float, int, int]] = []

    def _key(self, row: int) -> Key:
        return (self._comm[row], self._rank[row], self._peer[row], self._tag[row])

    def _recv_key(self, row: int) -> Key:
        return (self._comm[row], self._peer[row], self._rank[row], self._tag[row])

    def _push(self, moment: int) -> None:
        # Entries happen after the local work. Earliest first; ties go to the lower rank and position, ends before entries.
        time = self._time[moment]
        if moment < self._n:
            time += self._gap[moment]
            self._time[moment] = time
            heapq.heappush(self._heap, (time, self._n + moment, moment))
        else:
            heapq.heappush(self._heap, (time, 0, moment))

    def _satisfy(self, moment: int, time: float) -> None:
        self._time[moment] = max(self._time[moment], time)
        self._missing_list[moment] -= 1
        if self._missing_list[moment] == 0:
            self._push(moment)

    def go(self) -> None:
        """Run until nothing can happen any more."""
        for moment in np.flatnonzero(self._missing == 0).tolist():
            self._push(moment)
        ptr = self._ptr.tolist()
        while self._heap:
            time, _, moment = heapq.heappop(self._heap)
            if moment < self._n:
                if self._is_send[moment]:
                    self._arrive(moment, time)
                elif self._is_recv[moment]:
                    self._post(moment, time)
            for later in self._succ[ptr[moment] : ptr[moment + 1]]:
                self._satisfy(later, time)

    def _accepts(self, recv: int, send: int) -> bool:
        if self._peer[recv] >= 0 and self._peer[recv] != self._rank[send]:
            return False
        if self._tag[recv] >= 0 and self._tag[recv] != self._tag[send]:
            return False
        return not self._is_wild[recv] or self._spare[self._key(send)] > 0

    def _match(self, recv: int, send: int, time: float) -> None:
        if self._is_wild[recv]:
            self.taken[recv] = send
            self._spare[self._key(send)] -= 1
        self._satisfy(self._n + recv, time)

    def _arrive(self, send: int, time: float) -> None:
        if send in self._numbered_send:
            self._satisfy(self._n + self._numbered_send[send], time)
            return
        waiting = self._posted[self._comm[send], self._peer[send]]
        for recv in waiting:
            if self._accepts(recv, send):
                waiting.remove(recv)
                self._match(recv, send, time)
                return
        self._arrived[self._comm[send], self._peer[send]].append(send)

    def _post(self, recv: int, time: float) -> None:
        if recv in self._numbered_recv:
            return
        there = self._arrived[self._comm[recv], self._rank[recv]]
        for send in there:
            if self._accepts(recv, send):
                there.remove(send)
                self._match(recv, send, time)
                return
        self._posted[self._comm[recv], self._rank[recv]].append(recv)
