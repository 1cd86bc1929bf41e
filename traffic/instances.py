"""Collective calls of the ranks put together: which rows form one collective, and are they consistent?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int32, Int64
from netsim.core.errors import InputError
from netsim.traces._normalise import rank_ranges
from netsim.traces.schema import OP_NAMES, OPS
from netsim.traces.trace import Communicators
from netsim.traffic.notes import NoteBook
from netsim.traffic.program import Program

__all__ = ["Instances", "find_instances"]


@dataclass(frozen=True, kw_only=True)
class Instances:
    """Complete, consistent collectives.

    Attributes
    ----------
    ptr, row : int64 array, shape (k+1,) and (m,)
        Rows of each collective, one per member, in the order of the communicator.
    op, comm, coll_seq : int32 array, shape (k,)
    root : int32 array, shape (k,)
        Member number of the root; -1 for operations without one.
    dropped : int64 array
        Rows of collectives that were left out (``allow_incomplete``).
    """

    ptr: Int64
    row: Int64
    op: Int32
    comm: Int32
    coll_seq: Int32
    root: Int32
    dropped: Int64

    @property
    def n(self) -> int:
        """Number of collectives."""
        return int(self.op.size)

    @property
    def size(self) -> Int64:
        """Number of members of each."""
        return np.diff(self.ptr)


def find_instances(program: Program, comms: Communicators, *, allow_incomplete: bool, notes: NoteBook) -> Instances:
    """Group the collective rows by (communicator, number of the collective on it).

    Parameters
    ----------
    allow_incomplete : bool
        Leave out, on each communicator, everything from the first inconsistent collective on, instead of refusing the trace.

    Raises
    ------
    InputError
        Some members take part in a collective and others do not, or in another one, or name another root.
    """
    row = np.flatnonzero(program.is_kind("collective"))
    comm = program.comm[row].astype(np.int64)
    member = _member_numbers(program, comms, row)
    number = program.coll_seq[row].astype(np.int64)
    order = np.lexsort((member, number, comm))
    row, comm, member, number = row[order], comm[order], member[order], number[order]
    new = np.ones(row.size, dtype=bool)
    new[1:] = (comm[1:] != comm[:-1]) | (number[1:] != number[:-1])
    start = np.flatnonzero(new)
    ptr = np.append(start, row.size).astype(np.int64)
    first = row[start]
    size = np.diff(ptr)
    at = np.cumsum(new) - 1
    rooted = np.array([op.rooted for op in OPS])[program.op[first]]
    # Consistent: as many rows as members, all different members, one operation, one root.
    bad_row = program.op[row] != program.op[first][at]
    bad_row |= rooted[at] & (program.peer[row] != program.peer[first][at])
    bad_row[1:] |= ~new[1:] & (member[1:] == member[:-1])
    bad = (size != comms.sizes[comm[start]]) | (np.bincount(at, weights=bad_row, minlength=start.size) > 0)
    dropped = np.zeros(0, dtype=np.int64)
    keep = np.ones(start.size, dtype=bool)
    if bad.any():
        worst = int(np.flatnonzero(bad)[0])
        if not allow_incomplete:
            rows = row[ptr[worst] : ptr[worst + 1]]
            raise _inconsistent(program, comms, rows, int(number[start[worst]]), int(np.count_nonzero(bad)))
        # From the first inconsistent collective of a communicator on, nothing says which belong together.
        comm_of = comm[start]
        cut = np.full(comms.n, np.iinfo(np.int64).max)
        np.minimum.at(cut, comm_of[bad], number[start][bad])
        keep = number[start] < cut[comm_of]
        dropped = row[~keep[at]]
        notes.add(
            "incomplete_collectives",
            int(np.count_nonzero(~keep)),
            "collectives from the first inconsistent one of their communicator on: dropped, they take no time",
        )
    kept_rows = keep[at]
    instances = Instances(
        ptr=np.append(0, np.cumsum(size[keep])).astype(np.int64),
        row=row[kept_rows],
        op=program.op[first[keep]].astype(np.int32),
        comm=comm[start[keep]].astype(np.int32),
        coll_seq=number[start[keep]].astype(np.int32),
        root=np.full(int(keep.sum()), -1, dtype=np.int32),
        dropped=dropped,
    )
    return replace(instances, root=_roots(program, instances, rooted[keep]))


def _member_numbers(program: Program, comms: Communicators, row: Int64) -> Int64:
    """Number of the calling rank in the communicator of each row."""
    owner = np.repeat(np.arange(comms.n), comms.sizes)
    width = program.n_ranks + 1
    key = owner * width + comms.member
    order = np.argsort(key, kind="stable")
    wanted = program.comm[row].astype(np.int64) * width + program.rank[row]
    found = order[np.searchsorted(key[order], wanted)]
    return np.asarray(found - comms.ptr[owner[found]], dtype=np.int64)


def _inconsistent(program: Program, comms: Communicators, rows: Int64, number: int, n_bad: int) -> InputError:
    comm = int(program.comm[rows[0]])
    size = comms.size(comm)
    rooted = bool(OPS[program.op[rows[0]]].rooted)
    sides: dict[str, list[int]] = {}
    for row in rows.tolist():
        name = OP_NAMES[program.op[row]]
        if rooted and len(set(program.op[rows].tolist())) == 1 and len(set(program.peer[rows].tolist())) > 1:
            name += f" with root {program.peer[row]}"
        sides.setdefault(name, []).append(int(program.rank[row]))
    parts = [f"{name} on {len(ranks)} ({rank_ranges(ranks)})" for name, ranks in sorted(sides.items())]
    absent = np.setdiff1d(comms.members(comm), program.rank[rows])
    if absent.size:
        parts.append(f"nothing on {absent.size} ({rank_ranges(absent)})")
    if n_bad > 1:
        parts.append(f"and {n_bad - 1} more such collectives")
    return InputError(
        f"communicator {comm} ({comms.name[comm]})",
        f"collective {number} must be one operation, called once by each of its {size} members",
        got=", ".join(parts),
        remedy="the recording may have been cut off: allow_incomplete drops the tail",
    )


def _roots(program: Program, instances: Instances, rooted: npt.NDArray[np.bool_]) -> Int32:
    root = np.full(instances.n, -1, dtype=np.int32)
    which = np.flatnonzero(rooted)
    if which.size == 0:
        return root
    peer = program.peer[instances.row[instances.ptr[which]]]
    # The root is one of the members, and rows stand in member order: find the row whose rank is the root.
    at = np.repeat(np.arange(instances.n), instances.size)
    wanted = np.full(instances.n, -1)
    wanted[which] = peer
    hit = np.flatnonzero(rooted[at] & (program.rank[instances.row] == wanted[at]))
    root[at[hit]] = hit - instances.ptr[at[hit]]
    return root
