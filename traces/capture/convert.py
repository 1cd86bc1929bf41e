"""Records of all ranks of a job to one canonical ``Trace``, with everything that was lost or approximated named and counted."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import netsim
from netsim.core.arrays import Int64, csr_ptr
from netsim.core.errors import InputError, closest
from netsim.core.text import count
from netsim.traces import schema
from netsim.traces._normalise import rank_ranges
from netsim.traces.capture import records as raw
from netsim.traces.capture.groups import global_comms, local_comms
from netsim.traces.capture.records import Job, RankRecords, read_rank
from netsim.traces.capture.rows import RankRows, rank_rows
from netsim.traces.trace import Trace, TraceMeta

__all__ = ["GAP_CLOCKS", "TIMESTAMPS", "convert"]

GAP_CLOCKS = ("thread-cpu", "wall")
TIMESTAMPS = ("auto", "keep", "drop")

_NULLABLE = {"peer": -1, "tag": -1, "bytes_actual": -1, "coll_seq": -1}
_QUIET = ("polls that found nothing", "waits for no request", "messages to or from MPI_PROC_NULL")


def _checked(name: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise InputError(f"capture {name}", "unknown value", got=repr(value), remedy=closest(value, valid))


def convert(job: Job, *, command: Sequence[str] = (), gap_clock: str = "thread-cpu", timestamps: str = "auto") -> Trace:
    """The trace of one recorded job.

    Parameters
    ----------
    job : Job
    command : sequence of str
        For the provenance.
    gap_clock : str
        Clock of ``gap_ns``: ``thread-cpu`` counts what the calling thread computed, and stays meaningful when ranks share cores;
        ``wall`` also counts waiting outside MPI (accelerators, files, other threads).
    timestamps : str
        ``keep`` or ``drop`` the times of the calls; ``auto`` drops them when there were more ranks than cores, because they then
        measure the scheduler.

    Returns
    -------
    Trace
        Profile ``ops``; ``meta.complete`` says whether every rank reached MPI_Finalize.

    Raises
    ------
    InputError
        No rank left readable records, or an option has no such value.
    """
    _checked("gap clock", gap_clock, GAP_CLOCKS)
    _checked("timestamps", timestamps, TIMESTAMPS)
    found = [read_rank(path) for path in job.files.values()]
    ranks = sorted((r for r in found if r is not None), key=lambda r: r.rank)
    if not ranks:
        raise InputError("capture", "no rank left readable records", got=f"job {job.name}")
    local = [local_comms(rank) for rank in ranks]
    comms, maps = global_comms(ranks, local)
    gap = "gap_cpu" if gap_clock == "thread-cpu" else "gap_wall"
    rows = [rank_rows(rank, c, number, gap=gap) for rank, c, number in zip(ranks, local, maps, strict=True)]
    about = _About.of(ranks)
    _shift_clocks(rows, about)
    keep_times = timestamps == "keep" or (timestamps == "auto" and about.quality != "oversubscribed")
    _find_roots(rows)
    table, phases = _table(ranks, rows, keep_times)
    complete, notes = _ending(job, ranks)
    ledger = sum((r.ledger for r in rows), Counter())
    notes += _remarks(ranks, ledger, about, gap_clock)
    meta = TraceMeta(
        n_ranks=job.size,
        time="host" if keep_times else "none",
        time_quality=about.quality,
        gap_clock=gap_clock,
        complete=complete,
        source=_source(ranks, command),
        unresolved={
            name: count
            for name, count in (
                ("wildcards", sum(r.wildcards for r in rows)),
                ("cancelled", sum(r.cancelled for r in rows)),
            )
            if count
        },
        ledger={name: count for name, count in sorted(ledger.items()) if count},
        notes=tuple(notes),
    )
    return Trace(profile="ops", table=table, meta=meta, comms=comms, ranks=_ranks_table(ranks, about), phases=phases)


# ---- clocks and machines


@dataclass(frozen=True, eq=False)
class _About:
    """Hosts and clocks of a job: quality of its times, what to add to the monotonic clock of each rank."""

    quality: str
    offset: list[int]
    local_rank: list[int]

    @staticmethod
    def of(ranks: Sequence[RankRecords]) -> _About:
        hosts = Counter(rank.host for rank in ranks)
        crowded = any(hosts[rank.host] > rank.cores > 0 for rank in ranks)
        quality = "oversubscribed" if crowded else "good" if len(hosts) == 1 else "unsynced"
        # The monotonic clock is one per machine; between machines only real time is common, as good as they keep it.
        one = len(hosts) == 1
        base = {rank.host: rank.start_real - rank.start_wall for rank in reversed(ranks)}
        first = base[ranks[0].host]
        seen: Counter[str] = Counter()
        local = []
        for rank in ranks:
            local.append(seen[rank.host])
            seen[rank.host] += 1
        return _About(quality, [0 if one else base[rank.host] - first for rank in ranks], local)


def _shift_clocks(rows: Sequence[RankRows], about: _About) -> None:
    for r, offset in zip(rows, about.offset, strict=True):
        for name in ("t_start", "t_end"):
            r.columns[name] = r.columns[name] + offset
    epoch = min((int(r.columns["t_start"].min(initial=2**62)) for r in rows), default=0)
    for r in rows:
        for name in ("t_start", "t_end"):
            r.columns[name] = r.columns[name] - epoch


def _ranks_table(ranks: Sequence[RankRecords], about: _About) -> Any:
    names = ["rank", "host", "local_rank", "clock_offset_ns"]
    data = [[r.rank for r in ranks], [r.host for r in ranks], about.local_rank, about.offset]
    return pa.table(data, schema=schema.arrow_schema("ranks", names))


# ---- the table


def _find_roots(rows: Sequence[RankRows]) -> None:
    """Rooted collectives on intercommunicators: idle members of the root's group name neither root nor length, others do."""
    if not any(r.root_unknown.any() for r in rows):
        return
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for r in rows:
        c = r.columns
        for i in np.flatnonzero((c["coll_seq"] >= 0) & (c["peer"] >= 0)).tolist():
            known[int(c["comm"][i]), int(c["coll_seq"][i])] = int(c["peer"][i]), int(c["bytes"][i])
    vectors = (schema.OP_CODE["bcast"], schema.OP_CODE["reduce"])
    for r in rows:
        c = r.columns
        for i in np.flatnonzero(r.root_unknown).tolist():
            root, size = known.get((int(c["comm"][i]), int(c["coll_seq"][i])), (int(c["rank"][i]), 0))
            c["peer"][i] = root
            if c["op"][i] in vectors:
                c["bytes"][i] = size


def _names(codes: npt.NDArray[np.int32], names: Sequence[str]) -> Any:
    """Codes of a table that may hold a name twice (LONG and INT64_T are both int64) to a dictionary column."""
    unique = list(dict.fromkeys(names))
    new = np.array([*(unique.index(name) for name in names), -1], dtype=np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(new, mask=new < 0), pa.array(unique, type=pa.string()))


def _list(ptr: Int64, values: npt.NDArray[Any], kind: Any) -> Any:
    """A column of lists; empty ones are null."""
    empty = np.diff(ptr) == 0
    if values.ndim == 2:
        fields = [pa.array(values[:, 0]), pa.array(values[:, 1])]
        flat: Any = pa.StructArray.from_arrays(fields, fields=[kind.value_type.field(i) for i in range(2)])
    else:
        flat = pa.array(values, type=kind.value_type)
    if ptr[-1] >= 2**31:
        raise InputError("capture", "more than 2^31 entries of vectors or dependencies in one trace", got=int(ptr[-1]))
    return pa.ListArray.from_arrays(pa.array(ptr.astype(np.int32)), flat, type=kind, mask=pa.array(empty))


def _table(ranks: Sequence[RankRecords], rows: Sequence[RankRows], keep_times: bool) -> tuple[Any, Any]:
    spec = schema.COLUMNS["ops"]
    columns: dict[str, Any] = {}

    def whole(name: str) -> npt.NDArray[Any]:
        return np.concatenate([r.columns[name] for r in rows])

    for name in (
        "rank",
        "stream",
        "seq",
        "flags",
        "comm",
        "peer",
        "tag",
        "bytes",
        "bytes_actual",
        "coll_seq",
        "gap_ns",
    ):
        values = whole(name)
        mask = values == _NULLABLE[name] if name in _NULLABLE else None
        columns[name] = pa.array(values, type=schema.arrow_type(spec[name]), mask=mask)
    columns["op"] = pa.DictionaryArray.from_arrays(pa.array(whole("op")), pa.array(schema.OP_NAMES))
    if keep_times:
        columns |= {name: pa.array(whole(name)) for name in ("t_start", "t_end")}
    columns["dtype"] = _names(whole("dtype"), ranks[0].dtypes)
    columns["redop"] = _names(whole("redop"), ranks[0].redops)
    for name in ("deps", "xdeps", "vbytes", "vpeer", "vrecv"):
        ptr = csr_ptr(np.concatenate([np.diff(r.lists[name][0]) for r in rows]))
        if ptr[-1]:
            values = np.concatenate([r.lists[name][1] for r in rows])
            columns[name] = _list(ptr, values, schema.arrow_type(spec[name]))
    levels = whole("phase")
    phases = None
    if levels.any():
        unique, index = np.unique(levels, return_inverse=True)
        shift = int(unique[0] == 0)  # level 0: outside all phases
        columns["phase"] = pa.array((index - shift).astype(np.int32), mask=index < shift)
        marked = unique[shift:].tolist()
        data = [list(range(len(marked))), [f"MPI_Pcontrol {level}" for level in marked], ["mark"] * len(marked)]
        phases = pa.table(data, schema=schema.arrow_schema("phases", ["phase", "name", "kind"]))
    return pa.table(columns), phases


# ---- what to say about it


def _ending(job: Job, ranks: Sequence[RankRecords]) -> tuple[str, list[str]]:
    """Is it the whole run; if not, why, one line per way of ending."""
    complete, notes = "true", []
    missing = sorted(set(range(job.size)) - {rank.rank for rank in ranks})
    if missing:
        complete = "missing-ranks"
        notes.append(f"{rank_ranges(missing)} left no records")
    ways: dict[str, list[RankRecords]] = {}
    for rank in ranks:
        if rank.state == raw.FINALIZED and not rank.n_lost:
            continue
        inside = f" (in MPI_{rank.inside})" if rank.inside else ""
        way = {
            raw.ABORTED: f"called MPI_Abort (code {rank.abort_code})",
            raw.EXITED: "exited without MPI_Finalize",
            raw.FULL: f"could not extend its records, {count(rank.n_lost, 'call')} lost",
        }.get(rank.state, f"ended without MPI_Finalize{inside}")
        ways.setdefault(way, []).append(rank)
    for way, who in ways.items():
        complete = "killed"
        kept = sum(int(r.records.size) for r in who)
        notes.append(f"{rank_ranges([r.rank for r in who])} {way}; kept {count(kept, 'call')}")
    return complete, notes


def _remarks(ranks: Sequence[RankRecords], ledger: Mapping[str, int], about: _About, gap_clock: str) -> list[str]:
    notes = []
    lost = [f"{count:,} {name}" for name, count in sorted(ledger.items()) if count and name.startswith("MPI")]
    if lost:
        notes.append("not in the trace: " + ", ".join(lost))
    notes += [
        f"{count:,} {name}"
        for name, count in sorted(ledger.items())
        if count and not name.startswith("MPI") and name not in _QUIET
    ]
    first = ranks[0]
    if not _same_version(first.built_for, first.library):
        notes.append(
            f"recorder built for {first.built_for}, program ran with {first.library}: newer calls are not recorded"
        )
    if about.quality != "oversubscribed" and gap_clock == "thread-cpu":
        cpu, wall = (sum(int(r.records[name].sum()) for r in ranks) * 1e-9 for name in ("gap_cpu", "gap_wall"))
        if wall > 1.5 * cpu + 0.1:
            notes.append(
                f"between MPI calls {wall:.3g} s passed but the calling threads computed only {cpu:.3g} s (accelerators, files, "
                "other threads, sleep): the gap clock 'wall' would count all of it"
            )
    return notes


def _same_version(built_for: str, library: str) -> bool:
    """Whether the version the recorder was built for is that of the library (the ABI of MPI 5 fits all libraries)."""
    return "ABI" in built_for or built_for.split()[-1].lstrip("v") in library


def _source(ranks: Sequence[RankRecords], command: Sequence[str]) -> dict[str, str]:
    hosts = sorted({rank.host for rank in ranks})
    source = {
        "tool": "netsim capture",
        "version": netsim.__version__,
        "mpi": " ".join(ranks[0].library.split(",")[0].split()),
        "hosts": str(len(hosts)),
        "cores_per_host": str(ranks[0].cores),
    }
    if command:
        source["command"] = shlex.join(command)
    return source
