"""One stored trace, opened: the Parquet file, its metadata and side tables; and how metadata become text."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from netsim.core.arrays import csr_ptr
from netsim.core.errors import InputError, closest
from netsim.core.text import count
from netsim.traces import schema
from netsim.traces._normalise import normalise, normalise_side
from netsim.traces.trace import Communicators, TraceMeta

__all__ = ["PREFIX", "Source", "comms_table", "is_trace_directory", "meta_entries", "pack_table"]

PREFIX = "netsim."

_NO_PARQUET = (
    "a trace is a Parquet file (docs/trace-format.md); pandas.read_csv(...).to_parquet(...) makes one of a CSV list"
)

# A file that does not say how many ranks there are has one per number up to the highest, but a damaged number is no rank.
_SPARSE_RANKS = 1 << 20
_SPARSE_ROWS = 64
_META_FIELDS = tuple(f.name for f in fields(TraceMeta) if f.name != "n_ranks")


def meta_entries(profile: str, meta: TraceMeta) -> dict[str, str]:
    """Key-value metadata of the main file: plain strings for what tools look for, JSON for the rest."""
    values = asdict(meta)
    entries = {
        "format": profile,
        "version": ".".join(str(part) for part in schema.FORMAT_VERSION),
        "n_ranks": str(meta.n_ranks),
        "time": meta.time,
        "time_quality": meta.time_quality,
        "complete": meta.complete,
        "meta": json.dumps({name: values[name] for name in _META_FIELDS}, sort_keys=True),
    }
    return {PREFIX + name: text for name, text in entries.items()}


def comms_table(comms: Communicators) -> Any:
    """The side table of the communicators."""
    members = pa.ListArray.from_arrays(pa.array(comms.ptr, pa.int32()), pa.array(comms.member, pa.int32()))
    return pa.table({"comm": pa.array(np.arange(comms.n), pa.int32()), "name": list(comms.name), "members": members})


def pack_table(table: Any) -> str:
    """A table as base64 text of a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def is_trace_directory(path: Path) -> bool:
    """Whether a directory holds the main table of a trace."""
    return any((path / f"{profile}.parquet").is_file() for profile in schema.PROFILES)


class Source:
    """A stored trace, opened for reading.

    Attributes
    ----------
    name : str
        What errors are about: the path as the user gave it.
    profile : str
    foreign : bool
        The file does not say that netsim wrote it.
    file : pyarrow.parquet.ParquetFile
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = str(self.path)
        self.file = _open(self._main(), self.name)
        footer = self.file.metadata.metadata or {}
        self._entries = {
            k.decode()[len(PREFIX) :]: v.decode() for k, v in footer.items() if k.startswith(PREFIX.encode())
        }
        self.foreign = "format" not in self._entries
        self.profile = self._guess_profile() if self.foreign else self._entries["format"]
        if self.profile not in schema.PROFILES:
            raise InputError(
                self.name, "unknown profile", got=repr(self.profile), remedy=closest(self.profile, schema.PROFILES)
            )
        if not self.foreign:
            self._check_version()

    def _main(self) -> Path:
        if "\0" in str(self.path):
            raise InputError(repr(str(self.path)), "a path has no NUL byte")
        if not self.path.exists():
            raise InputError(str(self.path), "no such file", remedy="check the path")
        if not self.path.is_dir():
            return self.path
        found = [self.path / f"{profile}.parquet" for profile in schema.PROFILES]
        found = [main for main in found if main.is_file()]
        if len(found) != 1:
            raise InputError(
                str(self.path),
                "a trace directory holds one of ops.parquet, flows.parquet, matrix.parquet",
                got=", ".join(main.name for main in found) or "none of them",
            )
        return found[0]

    def _guess_profile(self) -> str:
        present = set(self.file.schema_arrow.names)
        required = {p: {c.name for c in schema.COLUMNS[p].values() if c.required} for p in schema.PROFILES}
        fit = [p for p in schema.PROFILES if required[p] <= present]
        if fit and fit[0] == "matrix":
            # Without its start times a list of flows would silently become one exchange at time 0.
            start = sorted(
                name for name in present if re.match(r"(t_)?(start|begin|time|timestamp|ts)(_|$)", name.lower())
            )
            if start:
                raise InputError(
                    self.name,
                    "a list of flows keeps its start times in the column start_ns (nanoseconds, or an Arrow time type)",
                    got=f"a column {start[0]!r}",
                    remedy="rename and convert it, or leave it out for a matrix without times",
                )
        if fit:
            return fit[0]
        missing = {p: sorted(required[p] - present) for p in schema.PROFILES}
        best = min(schema.PROFILES, key=lambda p: (len(missing[p]) / len(required[p]), p))
        raise InputError(
            self.name,
            "not a netsim trace, and required columns are missing",
            got=f"no {', '.join(missing[best])} for the profile {best}",
            remedy="docs/trace-format.md lists the columns",
        )

    def _check_version(self) -> None:
        text = self._entries.get("version", "")
        major = text.split(".")[0]
        if not major.isdecimal() or int(major) != schema.FORMAT_VERSION[0]:
            ours = ".".join(str(part) for part in schema.FORMAT_VERSION)
            raise InputError(
                self.name,
                f"format version must be {schema.FORMAT_VERSION[0]}.x (this netsim reads and writes {ours})",
                got=text or "none",
                remedy="write the trace again, or use the netsim that wrote it",
            )

    def select(self, columns: Sequence[str]) -> list[str]:
        """The wanted columns that the file has, in the order of the schema; unknown names are an error."""
        known = schema.COLUMNS[self.profile]
        for name in columns:
            if name not in known:
                raise InputError(f"column {name}", f"not in the profile {self.profile}", remedy=closest(name, known))
        present = self.file.schema_arrow.names
        return [name for name in known if name in columns and name in present]

    def read(self, columns: Sequence[str] | None) -> Any:
        """The table as stored: the wanted columns and ``schema.STRUCTURE``; all when ``columns`` is None."""
        wanted = None
        if columns is not None:
            wanted = self.select([*columns, *schema.STRUCTURE[self.profile]])
        try:
            return self.file.read(columns=wanted)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.name, error) from None

    def batches(self, columns: list[str] | None, rows: int) -> Iterator[Any]:
        """Tables as stored, of up to ``rows`` rows."""
        try:
            for batch in self.file.iter_batches(batch_size=rows, columns=columns):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.name, error) from None

    def canonical(self, table: Any, *, partial: bool = False) -> tuple[Any, list[str]]:
        """A table of this file in canonical types, not sorted, and the notes on it."""
        return normalise(table, self.profile, subject=self.name, foreign=self.foreign, sort=False, partial=partial)

    def meta(self, table: Any) -> TraceMeta:
        """The metadata; for a foreign file as much as the table shows."""
        if self.foreign:
            names = ["rank"] if self.profile == "ops" else ["src", "dst"]
            if "peer" in table.column_names:
                names.append("peer")
            highest = [pc.max(table.column(name)).as_py() for name in names]
            n_ranks = max([-1, *[h for h in highest if h is not None]]) + 1
            if n_ranks > max(_SPARSE_RANKS, _SPARSE_ROWS * table.num_rows):
                raise InputError(
                    self.name,
                    "ranks must be numbered 0, 1, 2, ...",
                    got=f"rank {n_ranks - 1} in {count(table.num_rows, 'row')}",
                    remedy="number the ranks that occur",
                )
            note = f"not written by netsim: {count(n_ranks, 'rank')} going by the highest number, only the communicator WORLD"
            return TraceMeta(n_ranks=n_ranks, notes=(note,))
        try:
            values = json.loads(self._entries["meta"])
            n_ranks = int(self._entries["n_ranks"])
            values["notes"] = tuple(values.get("notes", ()))
            return TraceMeta(n_ranks=n_ranks, **{name: values[name] for name in _META_FIELDS if name in values})
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(
                self.name, "metadata are damaged", got=repr(error), remedy="write the trace again"
            ) from None

    def side(self, name: str) -> Any:
        """A side table, from the metadata or its own file; None when there is none."""
        if self.path.is_dir():
            beside = self.path / f"{name}.parquet"
            if not beside.is_file():
                return None
            return normalise_side(_open(beside, f"{self.name}/{beside.name}").read(), name, subject=self.name)
        if name not in self._entries:
            return None
        try:
            with pa.ipc.open_stream(base64.b64decode(self._entries[name], validate=True)) as reader:
                table = reader.read_all()
        except (pa.ArrowException, OSError, binascii.Error) as error:
            raise InputError(
                self.name,
                f"side table {name} is damaged",
                got=str(error).splitlines()[0],
                remedy="write the trace again",
            ) from None
        return normalise_side(table, name, subject=self.name)

    def comms(self, n_ranks: int) -> Communicators:
        """The communicators; WORLD alone when the file has none."""
        table = self.side("comms")
        if table is None:
            return Communicators.world(n_ranks)
        number = table.column("comm").to_numpy()
        if not np.array_equal(number, np.arange(number.size)):
            raise InputError(f"{self.name} table comms", "comm must count 0, 1, 2, ...", got=_head(number))
        members = table.column("members").combine_chunks()
        counts = pc.list_value_length(members).to_numpy(zero_copy_only=False)
        flat = pc.list_flatten(members).to_numpy(zero_copy_only=False)
        return Communicators(csr_ptr(counts), flat, tuple(table.column("name").to_pylist()))


def _head(values: Any) -> str:
    return str(values[:5].tolist())[1:-1] + (", ..." if len(values) > 5 else "")


def _open(path: Path, name: str) -> Any:
    try:
        try:
            return pq.ParquetFile(path)
        except UnicodeEncodeError:
            # Arrow encodes text as UTF-8 but takes bytes as they are.
            return pq.ParquetFile(pa.OSFile(os.fsencode(path)))
    except (pa.ArrowException, OSError, EOFError) as error:
        raise _damaged(name, error, path) from None


def _damaged(name: str, error: Exception, path: Path | None = None) -> InputError:
    if isinstance(error, PermissionError):
        return InputError(name, "cannot be read", got=error.strerror or str(error))
    start = b""
    if path is not None:
        try:
            with path.open("rb") as stream:
                start = stream.read(4)
        except OSError as unreadable:
            return InputError(name, "cannot be read", got=unreadable.strerror or str(unreadable))
        if not start:
            return InputError(name, "the file is empty", got="0 bytes", remedy="was it written completely?")
        if start != b"PAR1":
            return InputError(name, "not a Parquet file", got=f"first bytes {start!r}", remedy=_NO_PARQUET)
    return InputError(
        name,
        "the Parquet file is cut off or damaged",
        got=" ".join(str(error).split())[:160].rstrip("."),
        remedy="copy it again, or write it again",
    )
