"""A workload: what every rank does, made rank by rank, so that 16,384 ranks are written without being held.

Fitted models and the generators of ``netsim.traffic.workloads`` all end here: a `Workload` gives the calls of one rank as a `Script`,
and becomes a `Trace` in memory or a file on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.traces import Communicators, Trace, TraceMeta, TraceWriter
from netsim.traces.schema import COLUMNS as TRACE_COLUMNS
from netsim.traces.schema import FLAG, OP_CODE, OP_NAMES, OPS, arrow_type

__all__ = ["Script", "Workload"]

# Columns of a script's rows; all files of workloads have them all, so that ranks need not agree on which they use.
_PLAIN: Final = ("op", "flags", "comm", "peer", "tag", "bytes", "coll_seq", "gap_ns", "phase")
_COMM: Final = _PLAIN.index("comm")
_NUMBER: Final = _PLAIN.index("coll_seq")
_LISTS: Final = ("deps", "vbytes")
_COLLECTIVE: Final = frozenset(op.name for op in OPS if op.kind == "collective")
_NULLABLE: Final = {"peer": -1, "tag": -1, "coll_seq": -1, "phase": -1}
_OP_TEXT: Final = pa.array(OP_NAMES, type=pa.string())


class Script:
    """Calls of one rank, in program order. Times are seconds, sizes bytes, peers world ranks.

    Parameters
    ----------
    rank : int

    Notes
    -----
    `repeat` multiplies whole blocks as arrays: a million iterations cost as much Python as one.

    Examples
    --------
    >>> script = Script(0)
    >>> with script.repeat(3):
    ...     script.compute(1e-6)
    ...     right = script.isend(1, 1000)
    ...     left = script.irecv(1, 1000)
    ...     script.wait(right, left)
    ...     script.allreduce(8)
    >>> script.n_rows, script.table().column("coll_seq").to_pylist()[3::4]
    (12, [0, 1, 2])
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._blocks: list[_Block] = [_Block()]
        self._phase = -1
        self._work_ns = 0.0

    @property
    def n_rows(self) -> int:
        """Calls so far."""
        return sum(block.n_rows for block in self._blocks)

    # ---- local

    def compute(self, seconds: float) -> None:
        """Local work before the next call; several add up."""
        if not 0.0 <= seconds < 9e9:
            raise InputError("workload", "local work must be 0 s or more", got=f"{seconds} s")
        self._work_ns += seconds * 1e9

    def phase(self, number: int) -> None:
        """The calls that follow belong to this phase (row of the workload's table); -1: to none."""
        self._phase = number

    # ---- point to point

    def send(self, peer: int, size_bytes: float, *, tag: int = 0) -> None:
        """A blocking send."""
        self._add("send", peer=peer, size_bytes=size_bytes, tag=tag)

    def recv(self, peer: int, size_bytes: float, *, tag: int = 0) -> None:
        """A blocking receive."""
        self._add("recv", peer=peer, size_bytes=size_bytes, tag=tag)

    def isend(self, peer: int, size_bytes: float, *, tag: int = 0) -> int:
        """A send that returns at once; the number is for `wait`."""
        return self._add("send", peer=peer, size_bytes=size_bytes, tag=tag, flags=FLAG["nonblocking"])

    def irecv(self, peer: int, size_bytes: float, *, tag: int = 0) -> int:
        """A receive that returns at once; the number is for `wait`."""
        return self._add("recv", peer=peer, size_bytes=size_bytes, tag=tag, flags=FLAG["nonblocking"])

    def wait(self, *requests: int) -> None:
        """Wait for calls that returned at once; they must stand in the same `repeat` block."""
        block = self._blocks[-1]
        here = block.n_rows
        if any(not 0 <= r < here for r in requests):
            raise InputError("workload", "a wait must name calls of its own repeat block", got=requests)
        self._add("wait", deps=[here - r for r in sorted(requests, reverse=True)])

    def sendrecv(self, to: int, send_bytes: float, source: int, receive_bytes: float, *, tag: int = 0) -> None:
        """Send and receive at once, and wait for both."""
        got = self.irecv(source, receive_bytes, tag=tag)
        gone = self.isend(to, send_bytes, tag=tag)
        self.wait(got, gone)

    def exchange(self, peers: Sequence[int], size_bytes: Sequence[float] | float, *, tag: int = 0) -> None:
        """Receive from and send to all peers at once (a halo), and wait for all."""
        sizes = [float(size_bytes)] * len(peers) if isinstance(size_bytes, int | float) else list(size_bytes)
        requests = [self.irecv(peer, size, tag=tag) for peer, size in zip(peers, sizes, strict=True)]
        requests += [self.isend(peer, size, tag=tag) for peer, size in zip(peers, sizes, strict=True)]
        if requests:
            self.wait(*requests)

    # ---- collectives

    def collective(
        self, op: str, size_bytes: float, *, comm: int = 0, root: int = -1, vbytes: Sequence[int] | None = None
    ) -> None:
        """Any collective of the trace vocabulary; ``size_bytes`` means what the trace format says for it.

        ``root`` is a world rank; ``vbytes`` the bytes per member of an irregular call.
        """
        if op not in _COLLECTIVE:
            raise InputError("workload", "not a collective", got=repr(op))
        self._add(op, peer=root, size_bytes=size_bytes, comm=comm, vbytes=vbytes)

    def barrier(self, *, comm: int = 0) -> None:
        """A barrier."""
        self._add("barrier", comm=comm)

    def allreduce(self, size_bytes: float, *, comm: int = 0) -> None:
        """An allreduce of a vector."""
        self._add("allreduce", size_bytes=size_bytes, comm=comm)

    def bcast(self, size_bytes: float, root: int, *, comm: int = 0) -> None:
        """A broadcast of a vector from a world rank."""
        self._add("bcast", size_bytes=size_bytes, comm=comm, peer=root)

    def reduce(self, size_bytes: float, root: int, *, comm: int = 0) -> None:
        """A reduction of a vector to a world rank."""
        self._add("reduce", size_bytes=size_bytes, comm=comm, peer=root)

    def allgather(self, size_bytes: float, *, comm: int = 0) -> None:
        """An allgather; the size is the own contribution."""
        self._add("allgather", size_bytes=size_bytes, comm=comm)

    def reduce_scatter(self, size_bytes: float, *, comm: int = 0) -> None:
        """A reduce-scatter; the size is the own block of the result."""
        self._add("reduce_scatter", size_bytes=size_bytes, comm=comm)

    def alltoall(self, size_bytes: float, *, comm: int = 0) -> None:
        """An all-to-all; the size is what the rank sends in total, own block included."""
        self._add("alltoall", size_bytes=size_bytes, comm=comm)

    # ---- repetition

    def repeat(self, times: int) -> _Repeat:
        """``with script.repeat(n):`` the calls inside, n times. Blocks may be nested."""
        return _Repeat(self, times)

    def table(self) -> Any:
        """Rows of this rank as an Arrow table of the profile ``ops``."""
        if len(self._blocks) != 1:
            raise InputError("workload", "a repeat block is still open")
        if self._work_ns:
            self._add("compute")
        return self._blocks[0].table(self.rank)

    def _add(
        self,
        op: str,
        *,
        peer: int = -1,
        size_bytes: float = 0,
        tag: int = -1,
        comm: int = 0,
        flags: int = 0,
        deps: Sequence[int] = (),
        vbytes: Sequence[int] | None = None,
    ) -> int:
        if not 0 <= size_bytes < 2**62:
            raise InputError("workload", "a size must be 0 B or more", got=f"{size_bytes} B")
        gap, self._work_ns = round(self._work_ns), 0.0
        block = self._blocks[-1]
        number = block.number(comm) if op in _COLLECTIVE else -1
        return block.add(
            (OP_CODE[op], flags, comm, peer, tag, round(size_bytes), number, gap, self._phase), deps, vbytes
        )


class _Repeat:
    def __init__(self, script: Script, times: int) -> None:
        if times < 0:
            raise InputError("workload", "a block is repeated 0 times or more", got=times)
        self.script, self.times = script, times

    def __enter__(self) -> None:
        # Work that was waiting for a call belongs before the block, not into each repetition.
        if self.script._work_ns:
            self.script._add("compute")
        self.script._blocks.append(_Block())

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        script = self.script
        if kind is None and script._work_ns:
            script._add("compute")
        block = script._blocks.pop()
        if kind is None:
            script._blocks[-1].append(block.arrays(), self.times)


@dataclass
class _Arrays:
    """Rows as arrays; ``coll_seq`` counted from 0 within them."""

    plain: Int64  # shape (n_rows, len(_PLAIN))
    dep_count: Int64
    dep: Int64
    v_count: Int64
    v: Int64

    @property
    def n_rows(self) -> int:
        return int(self.dep_count.size)


@dataclass
class _Block:
    parts: list[_Arrays] = field(default_factory=list)
    n_rows: int = 0
    rows: list[tuple[int, ...]] = field(default_factory=list)
    deps: list[Sequence[int]] = field(default_factory=list)
    v: list[Sequence[int] | None] = field(default_factory=list)
    calls: dict[int, int] = field(default_factory=dict)  # collectives so far, by communicator

    def number(self, comm: int) -> int:
        """Of the next collective on a communicator."""
        number = self.calls.get(comm, 0)
        self.calls[comm] = number + 1
        return number

    def add(self, row: tuple[int, ...], deps: Sequence[int], vbytes: Sequence[int] | None) -> int:
        self.rows.append(row)
        self.deps.append(deps)
        self.v.append(vbytes)
        self.n_rows += 1
        return self.n_rows - 1

    def close(self) -> None:
        if not self.rows:
            return
        self.parts.append(
            _Arrays(
                np.array(self.rows, dtype=np.int64),
                np.array([len(d) for d in self.deps], dtype=np.int64),
                np.array([x for d in self.deps for x in d], dtype=np.int64),
                np.array([-1 if v is None else len(v) for v in self.v], dtype=np.int64),
                np.array([x for v in self.v if v is not None for x in v], dtype=np.int64),
            )
        )
        self.rows, self.deps, self.v = [], [], []

    def append(self, arrays: _Arrays, times: int) -> None:
        self.close()
        if times == 0 or arrays.n_rows == 0:
            return
        plain = np.tile(arrays.plain, (times, 1))
        numbered = np.flatnonzero(arrays.plain[:, _NUMBER] >= 0)
        comm = arrays.plain[numbered, _COMM]
        per_round = np.bincount(comm) if numbered.size else np.zeros(1, dtype=np.int64)
        before = np.array([self.calls.get(c, 0) for c in range(per_round.size)], dtype=np.int64)
        for i, more in enumerate(per_round):
            if more:
                self.calls[i] = self.calls.get(i, 0) + int(more) * times
        at = (numbered[None, :] + arrays.n_rows * np.arange(times)[:, None]).ravel()
        plain[at, _NUMBER] += (before[comm][None, :] + per_round[comm][None, :] * np.arange(times)[:, None]).ravel()
        self.parts.append(
            _Arrays(
                plain,
                np.tile(arrays.dep_count, times),
                np.tile(arrays.dep, times),
                np.tile(arrays.v_count, times),
                np.tile(arrays.v, times),
            )
        )
        self.n_rows += arrays.n_rows * times

    def arrays(self) -> _Arrays:
        self.close()
        if not self.parts:
            none = np.zeros(0, dtype=np.int64)
            return _Arrays(none.reshape(0, len(_PLAIN)), none, none, none, none)
        if len(self.parts) == 1:
            return self.parts[0]
        return _Arrays(
            np.concatenate([p.plain for p in self.parts]),
            *(np.concatenate([getattr(p, name) for p in self.parts]) for name in ("dep_count", "dep", "v_count", "v")),
        )

    def table(self, rank: int) -> Any:
        rows = self.arrays()
        columns = TRACE_COLUMNS["ops"]
        n = rows.n_rows
        plain = {name: rows.plain[:, i].copy() for i, name in enumerate(_PLAIN)}
        made: dict[str, Any] = {
            "rank": pa.array(np.full(n, rank, dtype=np.int32)),
            "seq": pa.array(np.arange(n, dtype=np.int32)),
            "op": pa.DictionaryArray.from_arrays(pa.array(plain["op"].astype(np.int8)), _OP_TEXT),
        }
        for name in _PLAIN[1:]:
            values = plain[name]
            mask = values == _NULLABLE[name] if name in _NULLABLE else None
            made[name] = pa.array(values, mask=mask).cast(arrow_type(columns[name]))
        made["deps"] = _lists(rows.dep_count, rows.dep, "deps", rows.dep_count == 0)
        made["vbytes"] = _lists(np.maximum(rows.v_count, 0), rows.v, "vbytes", rows.v_count < 0)
        return pa.table({name: made[name] for name in ("rank", "seq", *_PLAIN, *_LISTS)})


def _lists(count: Int64, values: Int64, name: str, null: Any) -> Any:
    kind = arrow_type(TRACE_COLUMNS["ops"][name])
    ptr = np.zeros(count.size + 1, dtype=np.int32)
    np.cumsum(count, out=ptr[1:])
    # A null list is marked at its offset.
    offsets = pa.array(ptr, mask=np.append(null, False))
    return pa.ListArray.from_arrays(offsets, pa.array(values).cast(kind.value_type), type=kind)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What every rank does.

    Attributes
    ----------
    name : str
    n_ranks : int
    script : callable
        From a rank to its `Script`. Called once per rank and writing; must give the same calls each time.
    comms : Communicators, optional
        By default WORLD alone.
    phases : sequence of str
        Names that the numbers given to `Script.phase` mean.
    notes : sequence of str
        What was assumed, for people; the trace carries them.
    source : mapping of str to str
        Where the parameters come from; the trace carries it.

    Examples
    --------
    >>> def ring(rank):
    ...     script = Script(rank)
    ...     script.sendrecv((rank + 1) % 4, 1000, (rank - 1) % 4, 1000)
    ...     return script
    >>> trace = Workload(name="ring", n_ranks=4, script=ring).trace()
    >>> trace.n_rows, trace.n_ranks
    (12, 4)
    """

    name: str
    n_ranks: int
    script: Callable[[int], Script]
    comms: Communicators | None = None
    phases: Sequence[str] = ()
    notes: Sequence[str] = ()
    source: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_ranks < 1:
            raise InputError(f"workload {self.name}", "needs one rank or more", got=self.n_ranks)

    @cached_property
    def meta(self) -> TraceMeta:
        """Metadata of the traces made from it."""
        from netsim import __version__

        return TraceMeta(
            n_ranks=self.n_ranks,
            time="synthetic",
            time_quality="good",
            gap_clock="none",
            source={"tool": "netsim", "version": __version__, "workload": self.name, **self.source},
            notes=tuple(self.notes),
        )

    @cached_property
    def _phase_table(self) -> Any:
        if not self.phases:
            return None
        return pa.table({"phase": pa.array(range(len(self.phases)), pa.int32()), "name": pa.array(list(self.phases))})

    def trace(self) -> Trace:
        """All calls in memory, validated."""
        from netsim.traces import validate

        table = pa.concat_tables([self.script(rank).table() for rank in range(self.n_ranks)]).combine_chunks()
        trace = Trace(
            profile="ops",
            table=table.unify_dictionaries(),
            meta=self.meta,
            comms=self.comms or Communicators.world(self.n_ranks),
            phases=self._phase_table,
        )
        validate(trace)
        return trace

    def write(self, path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> int:
        """Write a trace file rank by rank; memory is that of a few ranks. Returns the number of rows."""
        comms = self.comms or Communicators.world(self.n_ranks)
        with TraceWriter(path, profile="ops", meta=self.meta, comms=comms, phases=self._phase_table) as writer:
            for rank in range(self.n_ranks):
                writer.write(self.script(rank).table())
                if progress is not None:
                    progress(rank + 1, self.n_ranks)
        return writer.n_rows
