"""Collective calls of a trace as ``Call`` objects: one for all collectives that ask the same."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Int64, csr_gather
from netsim.core.errors import InputError
from netsim.traces.schema import OP_NAMES, OPS
from netsim.traces.trace import Communicators, Trace
from netsim.traffic.collectives import Call, PairBytes
from netsim.traffic.instances import Instances
from netsim.traffic.matching import group_codes
from netsim.traffic.notes import NoteBook
from netsim.traffic.program import Program

__all__ = ["collective_calls"]

_PER_PAIR = ("alltoall", "neighbor_allgather", "neighbor_alltoall")
_PER_MEMBER = {
    "gather": "gatherv",
    "scatter": "scatterv",
    "allgather": "allgatherv",
    "reduce_scatter": "reduce_scatter",
}


def collective_calls(
    *, trace: Trace, program: Program, instances: Instances, notes: NoteBook
) -> list[tuple[Call, Int64]]:
    """Which collectives are the same call.

    Returns
    -------
    list of (Call, int64 array)
        Each distinct call and the collectives (rows of ``instances``) that make it, in order of first use.

    Raises
    ------
    InputError
        The sizes of an irregular all-to-all contradict each other.
    """
    if instances.n == 0:
        return []
    size = program.size_bytes[instances.row]
    start = instances.ptr[:-1]
    low, high = np.minimum.reduceat(size, start), np.maximum.reduceat(size, start)
    vector_length = np.diff(trace.ragged("vbytes")[0])[instances.row]
    has_vector = np.add.reduceat(vector_length, start) > 0
    name = np.array(OP_NAMES)[instances.op]
    takes_vector = np.isin(name, [*_PER_PAIR, *_PER_MEMBER])
    irregular = takes_vector & (has_vector | (low != high)) | np.isin(name, _PER_PAIR[1:])
    notes.add(
        "collective_sizes_differ",
        int(np.count_nonzero(~takes_vector & (low != high))),
        "collectives whose members recorded different sizes: the largest is used",
    )
    regular = np.flatnonzero(~irregular)
    indivisible = (name[regular] == "alltoall") & (high[regular] % instances.size[regular] != 0)
    notes.add(
        "alltoall_estimates",
        int(np.count_nonzero(indivisible)),
        "all-to-all calls without the bytes per pair: split evenly, an estimate",
    )
    result: list[tuple[Call, Int64]] = []
    if regular.size:
        code = group_codes([instances.op[regular], instances.size[regular], instances.root[regular], high[regular]])
        _, first, group = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(group, kind="stable")
        bounds = np.append(0, np.cumsum(np.bincount(group)))
        for g in np.argsort(first).tolist():
            members = regular[order[bounds[g] : bounds[g + 1]]]
            i = int(members[0])
            root = max(int(instances.root[i]), 0)
            result.append(
                (Call(op=str(name[i]), n=int(instances.size[i]), size_bytes=int(high[i]), root=root), members)
            )
    calls: dict[Call, list[int]] = {}
    vectors = _Vectors(trace, program, instances, notes)
    for i in np.flatnonzero(irregular).tolist():
        calls.setdefault(vectors.call(i), []).append(i)
    result += [(call, np.array(members, dtype=np.int64)) for call, members in calls.items()]
    return result


class _Vectors:
    """Reads the sizes of irregular collectives."""

    def __init__(self, trace: Trace, program: Program, instances: Instances, notes: NoteBook) -> None:
        self._program, self._instances, self._notes = program, instances, notes
        self._comms: Communicators = trace.comms
        self._ptr, self._bytes = trace.ragged("vbytes")
        self._peer_ptr, self._peers = trace.ragged("vpeer")
        self._recv_ptr, self._recv = trace.ragged("vrecv")

    def call(self, i: int) -> Call:
        """The call that collective ``i`` makes."""
        at = self._instances
        rows = at.row[at.ptr[i] : at.ptr[i + 1]]
        op = OP_NAMES[at.op[i]]
        if op in _PER_PAIR:
            pairs = self._pairs(i, rows, op)
            return Call(op="alltoallv" if op == "alltoall" else op, n=rows.size, pairs=pairs)
        blocks = self._program.size_bytes[rows].copy()
        with_vector = rows[np.diff(self._ptr)[rows] > 0]
        if with_vector.size:
            holder = int(with_vector[0])
            blocks = self._bytes[self._ptr[holder] : self._ptr[holder + 1]]
        root = max(int(at.root[i]), 0)
        if bool((blocks == blocks[0]).all()):
            return Call(op=op, n=rows.size, size_bytes=int(blocks[0]), root=root)
        return Call(op=_PER_MEMBER[op], n=rows.size, block_bytes=blocks, root=root)

    def _pairs(self, i: int, rows: Int64, op: str) -> PairBytes:
        n = int(rows.size)
        members = self._comms.members(int(self._instances.comm[i]))
        ptr, at = csr_gather(self._ptr, rows)
        sizes = self._bytes[at].astype(np.int64)
        count = np.diff(ptr)
        src = np.repeat(np.arange(n), count)
        dst = np.arange(at.size) - np.repeat(ptr[:-1], count)
        named = np.diff(self._peer_ptr)[rows] > 0
        if named.any():
            number = np.full(self._program.n_ranks, -1, dtype=np.int64)
            number[members] = np.arange(n)
            peers = self._peers[csr_gather(self._peer_ptr, rows[named])[1]]
            dst[np.repeat(named, count)] = number[peers]
            foreign = np.flatnonzero(dst < 0)
            if foreign.size:
                raise InputError(
                    self._subject(i, rows, int(src[foreign[0]])),
                    "vpeer must name members of the communicator",
                    got=f"rank {peers[number[peers] < 0][0]}",
                )
        bare = np.flatnonzero((count == 0) & (self._program.size_bytes[rows] > 0))
        if bare.size:
            src, dst, sizes = self._estimate(rows, op, bare, src, dst, sizes)
        if op == "alltoall":
            self._check(i, rows, src, dst, sizes, count)
        away = (src != dst) & ((sizes > 0) | (op != "alltoall"))
        order = np.argsort(src[away], kind="stable")
        return PairBytes(
            ptr=np.append(0, np.cumsum(np.bincount(src[away], minlength=n))),
            dst=dst[away][order],
            size_bytes=sizes[away][order],
        )

    def _estimate(
        self, rows: Int64, op: str, bare: Int64, src: Int64, dst: Int64, sizes: Int64
    ) -> tuple[Int64, Int64, Int64]:
        """Rows without a vector: an all-to-all is split evenly; a neighbour collective without neighbours sends nothing."""
        n = int(rows.size)
        if op != "alltoall":
            self._notes.add(
                "neighbours_unknown",
                bare.size,
                "calls of neighbour collectives without recorded neighbours: nothing is sent",
            )
            return src, dst, sizes
        self._notes.add(
            "alltoall_estimates", 1, "all-to-all calls without the bytes per pair: split evenly, an estimate"
        )
        whole, rest = np.divmod(self._program.size_bytes[rows[bare]], n)
        even = whole[:, None] + (np.arange(n)[None, :] < rest[:, None])
        src = np.concatenate([src, np.repeat(bare, n)])
        dst = np.concatenate([dst, np.tile(np.arange(n), bare.size)])
        return src, dst, np.concatenate([sizes, even.ravel()])

    def _check(self, i: int, rows: Int64, src: Int64, dst: Int64, sizes: Int64, count: Int64) -> None:
        n = int(rows.size)
        total = np.zeros(n, dtype=np.int64)
        np.add.at(total, src, sizes)
        wrong = np.flatnonzero((total != self._program.size_bytes[rows]) & (count > 0))
        if wrong.size:
            m = int(wrong[0])
            raise InputError(
                self._subject(i, rows, m),
                f"vbytes must add up to bytes ({self._program.size_bytes[rows[m]]})",
                got=int(total[m]),
            )
        expecting = np.flatnonzero(np.diff(self._recv_ptr)[rows] == n)
        if expecting.size == 0:
            return
        matrix = np.zeros((n, n), dtype=np.int64)
        np.add.at(matrix, (src, dst), sizes)
        for m in expecting.tolist():
            expected = self._recv[self._recv_ptr[rows[m]] : self._recv_ptr[rows[m]] + n]
            differ = np.flatnonzero(matrix[:, m] != expected)
            if differ.size:
                s = int(differ[0])
                a, b = (int(self._program.rank[rows[k]]) for k in (s, m))
                raise InputError(
                    self._subject(i, rows, s),
                    f"pair ({a}, {b}): rank {a} sends {matrix[s, m]} bytes, rank {b} must expect the same",
                    got=int(expected[s]),
                )

    def _subject(self, i: int, rows: Int64, member: int) -> str:
        at = self._instances
        return f"communicator {at.comm[i]}, {OPS[at.op[i]].name} number {at.coll_seq[i]}, rank {self._program.rank[rows[member]]}"
