"""Communicators of a captured job: from the numbers that each rank gave them to one numbering for all.

A communicator is (its ordered world ranks, the k-th one made with them): members make their communicators in the same order,
so every rank counts alike. WORLD is the first of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Int64, csr_ptr
from netsim.traces.capture.records import RankRecords
from netsim.traces.trace import Communicators

__all__ = ["LocalComms", "global_comms", "local_comms"]


@dataclass(frozen=True, eq=False)
class LocalComms:
    """Communicators as one rank knows them, in CSR by its own number: 0 = WORLD, 1 = SELF.

    Attributes
    ----------
    members : list of int64 array
        World ranks of the own group (-1: outside MPI_COMM_WORLD).
    remote : list of (int64 array or None)
        World ranks of the other group of an intercommunicator.
    inter : bool array
    foreign : bool array
        Has processes outside MPI_COMM_WORLD (spawned or connected), or was never described.
    peer_ptr, peer : int64 array
        World ranks that a rank number in a call refers to: the other group of an intercommunicator.
    out_ptr, out : int64 array
        Destinations of neighbourhood collectives, as ranks of the communicator.
    made_by : list of str
        Function that made it.
    order : list of int
        Numbers in the order of creation.
    """

    members: list[Int64]
    remote: list[Int64 | None]
    inter: np.ndarray[tuple[int], np.dtype[np.bool_]]
    foreign: np.ndarray[tuple[int], np.dtype[np.bool_]]
    peer_ptr: Int64
    peer: Int64
    out_ptr: Int64
    out: Int64
    made_by: list[str]
    order: list[int]

    @property
    def n(self) -> int:
        """How many."""
        return len(self.members)


def _described(vec: Int64) -> tuple[bool, Int64, Int64 | None, Int64]:
    """Is it inter, members, remote members, out-neighbours: what ``ns_describe`` pushed."""
    parts, at = [], 1
    while at < vec.size:
        n = int(vec[at])
        parts.append(np.asarray(vec[at + 1 : at + 1 + n], dtype=np.int64))
        at += 1 + n
    nothing = np.empty(0, dtype=np.int64)
    if vec[0]:
        return True, parts[0], parts[1], nothing
    return False, parts[0], None, parts[2] if len(parts) > 2 else nothing


def local_comms(rank: RankRecords) -> LocalComms:
    """Read the communicators that one rank made, in the order in which it made them."""
    records = rank.records
    made = np.flatnonzero(records["newcomm"] >= 0)
    n = max(2, int(records["newcomm"][made].max(initial=1)) + 1, int(records["comm"].max(initial=0)) + 1)
    nothing = np.empty(0, dtype=np.int64)
    members: list[Int64] = [nothing] * n
    remote: list[Int64 | None] = [None] * n
    out: list[Int64] = [nothing] * n
    made_by = [""] * n
    inter, known = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    members[0], members[1] = np.arange(rank.size), np.array([rank.rank])
    made_by[0], made_by[1] = "WORLD", "SELF"
    known[:2] = True
    order = [0, 1]
    for row in made.tolist():
        record = records[row]
        number = int(record["newcomm"])
        begin = int(record["vec_at"])
        vec = rank.vec[begin : begin + int(record["vec_n"])]
        inter[number], members[number], remote[number], out[number] = _described(vec)
        made_by[number] = rank.functions[record["fn"]]
        known[number] = True
        order.append(number)
    peers = [r if r is not None else m for m, r in zip(members, remote, strict=True)]
    foreign = ~known | np.array([bool((m < 0).any() or (p < 0).any()) for m, p in zip(members, peers, strict=True)])
    return LocalComms(
        members=members,
        remote=remote,
        inter=inter,
        foreign=foreign,
        peer_ptr=csr_ptr([p.size for p in peers]),
        peer=np.concatenate(peers).astype(np.int64),
        out_ptr=csr_ptr([o.size for o in out]),
        out=np.concatenate(out).astype(np.int64),
        made_by=made_by,
        order=order,
    )


def global_comms(ranks: Sequence[RankRecords], local: Sequence[LocalComms]) -> tuple[Communicators, list[Int64]]:
    """One numbering for all ranks, and each rank's map into it (-1 for a foreign communicator).

    The members of an intercommunicator are those of both groups, the group with the lowest world rank first.
    SELF gets a number only on ranks that use it.
    """
    n_ranks = ranks[0].size
    world = np.arange(n_ranks, dtype=np.int64)
    number: dict[tuple[bytes, bytes, int], int] = {(world.tobytes(), b"", 0): 0}
    rows: list[Int64] = [world]
    names = ["WORLD"]
    maps = []
    for rank, comms in zip(ranks, local, strict=True):
        mapping = np.full(comms.n, -1, dtype=np.int64)
        count: dict[tuple[bytes, bytes], int] = {}
        used = np.zeros(comms.n, dtype=bool)
        used[np.unique(rank.records["comm"][rank.records["comm"] >= 0])] = True
        for own in comms.order:
            if comms.foreign[own]:
                continue
            groups = [comms.members[own]]
            other = comms.remote[own]
            if other is not None:
                groups = sorted([comms.members[own], other], key=lambda g: int(g.min(initial=n_ranks)))
            kind = (groups[0].tobytes(), groups[1].tobytes() if len(groups) > 1 else b"")
            k = count[kind] = count.get(kind, -1) + 1
            if own == 1 and not used[1]:
                continue
            key = (*kind, k)
            if key not in number:
                number[key] = len(rows)
                rows.append(np.concatenate(groups))
                label = f"SELF of rank {rank.rank}" if own == 1 else f"{comms.made_by[own]} {len(names)}"
                names.append(label)
            mapping[own] = number[key]
        maps.append(mapping)
    member = np.concatenate(rows).astype(np.int32)
    return Communicators(csr_ptr([row.size for row in rows]), member, tuple(names)), maps
