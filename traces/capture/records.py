"""The files that the recorder leaves behind: one pair per rank, mapped into arrays."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64

__all__ = [
    "ABORTED",
    "EXITED",
    "FINALIZED",
    "FULL",
    "RECORD",
    "RUNNING",
    "Job",
    "RankRecords",
    "find_jobs",
    "read_rank",
]

RUNNING, FINALIZED, ABORTED, EXITED, FULL = range(5)

NO_PEER, PROC_NULL, ANY, ROOT, CANCELLED = -1, -2, -3, -4, -5
IN_PLACE, ANY_SOURCE, ANY_TAG = 1, 2, 4

RECORD = np.dtype(
    [
        ("fn", "<u2"),
        ("flags", "<u2"),
        ("thread", "<i4"),
        ("comm", "<i4"),
        ("peer", "<i4"),
        ("tag", "<i4"),
        ("peer2", "<i4"),
        ("tag2", "<i4"),
        ("newcomm", "<i4"),
        ("dtype", "<u2"),
        ("redop", "<u2"),
        ("vec_n", "<u4"),
        ("bytes", "<i8"),
        ("bytes2", "<i8"),
        ("actual", "<i8"),
        ("request", "<u8"),
        ("vec_at", "<u8"),
        ("t_start", "<i8"),
        ("t_end", "<i8"),
        ("gap_cpu", "<i8"),
        ("gap_wall", "<i8"),
    ]
)
"""``ns_record`` of recorder/store.h."""

_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("n_functions", "<u4"),
        ("names_at", "<u4"),
        ("names_bytes", "<u4"),
        ("counts_at", "<u4"),
        ("data_at", "<u4"),
        ("rank", "<i4"),
        ("size", "<i4"),
        ("state", "<i4"),
        ("abort_code", "<i4"),
        ("inside", "<i4"),
        ("cores", "<i4"),
        ("threads", "<i4"),
        ("thread_level", "<i4"),
        ("pid", "<i8"),
        ("start_wall", "<i8"),
        ("start_real", "<i8"),
        ("job", "<u8"),
        ("n_records", "<u8"),
        ("n_vec", "<u8"),
        ("n_lost", "<u8"),
        ("n_polls", "<u8"),
        ("host", "S256"),
        ("token", "S64"),
        ("library", "S256"),
        ("built_for", "S256"),
    ],
    align=True,
)
"""``ns_header`` of recorder/store.h."""


@dataclass(frozen=True, eq=False)
class RankRecords:
    """All that one rank recorded.

    Attributes
    ----------
    path : Path
    rank, size : int
        In MPI_COMM_WORLD.
    state : int
        ``FINALIZED`` when the rank reached MPI_Finalize; else how it ended.
    abort_code : int
    inside : str
        Function the rank was in when it ended, or empty.
    host : str
    cores : int
    start_wall, start_real : int
        Monotonic and real time, ns, read together just after MPI_Init.
    library, built_for : str
        The MPI that ran, and the one the recorder was built for.
    token : str
        Which launcher process started it.
    functions, dtypes, redops : tuple of str
        Names; records count types and reductions from 1.
    uncounted : mapping of str to int
        Calls that gave no record, by function.
    n_lost : int
        Records lost to a full disk.
    records : structured array, shape (n,)
        Mapped, not read.
    vec : int64 array
    """

    path: Path
    rank: int
    size: int
    state: int
    abort_code: int
    inside: str
    host: str
    cores: int
    start_wall: int
    start_real: int
    library: str
    built_for: str
    token: str
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    redops: tuple[str, ...]
    uncounted: Mapping[str, int]
    n_lost: int
    records: npt.NDArray[Any]
    vec: Int64


def _text(raw: Any) -> str:
    return bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace")


def _header(path: Path) -> Any | None:
    with path.open("rb") as file:
        raw = file.read(_HEADER.itemsize)
    if len(raw) < _HEADER.itemsize:
        return None
    head = np.frombuffer(raw, dtype=_HEADER)[0]
    known = head["magic"] == b"NETSIMRC" and head["version"] == 1 and head["record_bytes"] == RECORD.itemsize
    return head if known else None


def read_rank(path: Path) -> RankRecords | None:
    """Map the files of one rank; None when they were cut before the header was complete."""
    head = _header(path)
    if head is None:
        return None
    whole = np.memmap(path, dtype=np.uint8, mode="r")
    names = bytes(whole[head["names_at"] : head["names_at"] + head["names_bytes"]]).decode()
    functions, dtypes, redops = (tuple(part.split("\0")) for part in names.rstrip("\0").split("\0\0"))
    counts = whole[head["counts_at"] : head["counts_at"] + 8 * head["n_functions"]].view("<u8")
    # A crash of the machine, unlike one of the program, can leave less in the file than the header says.
    room = max(0, whole.size - int(head["data_at"])) // RECORD.itemsize
    n = min(int(head["n_records"]), room)
    records = whole[head["data_at"] : head["data_at"] + n * RECORD.itemsize].view(RECORD)
    vec_path, n_vec = path.with_suffix(".vec"), int(head["n_vec"])
    n_vec = min(n_vec, vec_path.stat().st_size // 8) if vec_path.exists() else 0
    vec = np.memmap(vec_path, dtype="<i8", mode="r", shape=(n_vec,)) if n_vec else np.empty(0, dtype=np.int64)
    good = records["vec_at"] + records["vec_n"] <= n_vec
    if not good.all():
        records = records[: int(np.argmin(good))]
    return RankRecords(
        path=path,
        rank=int(head["rank"]),
        size=int(head["size"]),
        state=int(head["state"]),
        abort_code=int(head["abort_code"]),
        inside=functions[head["inside"] - 1] if head["inside"] > 0 else "",
        host=_text(head["host"]) or socket.gethostname(),
        cores=int(head["cores"]),
        start_wall=int(head["start_wall"]),
        start_real=int(head["start_real"]),
        library=_text(head["library"]),
        built_for=_text(head["built_for"]),
        token=_text(head["token"]),
        functions=functions,
        dtypes=dtypes,
        redops=redops,
        uncounted={functions[i]: int(counts[i]) for i in np.flatnonzero(counts)},
        n_lost=int(head["n_lost"]),
        records=records,
        vec=vec,
    )


@dataclass(frozen=True)
class Job:
    """One MPI job (one MPI_COMM_WORLD) found in a folder of records.

    Attributes
    ----------
    name : str
        Common prefix of its files.
    size : int
        Ranks of its MPI_COMM_WORLD.
    start_real : int
        When it began, ns of real time.
    files : mapping of int to Path
        Rank to file; ranks without a readable file are absent.
    """

    name: str
    size: int
    start_real: int
    files: Mapping[int, Path]


def find_jobs(folder: Path) -> list[Job]:
    """All jobs whose records lie in a folder, in the order in which they began."""
    found: dict[str, dict[int, Path]] = {}
    about: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.glob("*.rec")):
        head = _header(path)
        if head is None:
            continue
        name = path.name.split("-")[0]
        found.setdefault(name, {})[int(head["rank"])] = path
        size, start = about.get(name, (0, int(head["start_real"])))
        about[name] = (max(size, int(head["size"])), min(start, int(head["start_real"])))
    jobs = [Job(name, about[name][0], about[name][1], dict(sorted(files.items()))) for name, files in found.items()]
    return sorted(jobs, key=lambda job: (job.start_real, job.name))
