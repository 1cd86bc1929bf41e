"""Traces on disk: Parquet files, or a directory when the side tables are large. Reading, writing, streaming."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from netsim.core.errors import InputError, closest
from netsim.traces import schema
from netsim.traces._normalise import normalise, normalise_side, rank_ranges
from netsim.traces._source import PREFIX, Source, comms_table, is_trace_directory, meta_entries, pack_table
from netsim.traces._validate import missing_ranks, validate
from netsim.traces.trace import Communicators, Trace, TraceMeta

__all__ = ["ROW_GROUP_ROWS", "TraceWriter", "iter_batches", "read_trace", "write_trace"]

ROW_GROUP_ROWS = 1 << 20
"""Rows of one row group, about: groups end where a rank ends when they can."""

SIDE_LIMIT_BYTES = 4 << 20
"""Side tables below this size, all together, live in the metadata of the one file; larger ones make it a directory."""


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace, validated, atomically: the path appears complete or not at all.

    Parameters
    ----------
    trace : Trace
    path : path
        File name. It becomes a directory of that name when the side tables are larger than 4 MiB.

    Raises
    ------
    InputError
        The trace breaks a rule of the schema, or the path cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> trace = Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trace(trace, pathlib.Path(folder) / "t.parquet")
    ...     read_trace(pathlib.Path(folder) / "t.parquet").content_hash == trace.content_hash
    True
    """
    validate(trace)
    sides = {"ranks": trace.ranks, "phases": trace.phases}
    with TraceWriter(path, profile=trace.profile, meta=trace.meta, comms=trace.comms, **sides) as writer:
        writer.write(trace.table)


class TraceWriter:
    """Write a trace piece by piece in bounded memory; a context manager.

    Ops must come in the order rank, stream, seq. On success the file is renamed to its final name; after an exception
    nothing is left. Values are checked only for type and order here: ``read_trace`` validates.

    Parameters
    ----------
    path : path
    profile : str
    meta : TraceMeta
    comms : Communicators, optional
        Default: WORLD alone.
    ranks, phases : pyarrow.Table, optional

    Notes
    -----
    ``meta``, ``comms``, ``ranks`` and ``phases`` are attributes: what is only known at the end can be set until the
    writer closes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "t.parquet"
    ...     with TraceWriter(path, profile="matrix", meta=TraceMeta(n_ranks=2)) as writer:
    ...         writer.write({"src": [0], "dst": [1], "bytes": [5]})
    ...         writer.write({"src": [1], "dst": [0], "bytes": [6]})
    ...     read_trace(path).column("bytes").tolist()
    [5, 6]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        profile: str,
        meta: TraceMeta,
        comms: Communicators | None = None,
        ranks: Any = None,
        phases: Any = None,
        row_group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        if profile not in schema.PROFILES:
            raise InputError(
                "trace writer", "unknown profile", got=repr(profile), remedy=closest(profile, schema.PROFILES)
            )
        self.path = Path(path)
        self.profile = profile
        self.meta = meta
        self.comms = comms
        self.ranks = ranks
        self.phases = phases
        self.n_rows = 0
        self._row_group_rows = row_group_rows
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        self._writer: Any = None
        self._schema: Any = None
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._last: tuple[int, int, int] | None = None
        self._notes: list[str] = []

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, batch: Any) -> None:
        """Append rows: a ``pyarrow.Table`` or ``RecordBatch``, or a mapping from column name to values.

        The first batch fixes which columns the file has.
        """
        if isinstance(batch, Mapping):
            batch = pa.table(
                {name: v if isinstance(v, pa.Array | pa.ChunkedArray) else pa.array(v) for name, v in batch.items()}
            )
        elif isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        table, notes = normalise(batch, self.profile, subject=self.path.name, sort=False)
        self._notes += [note for note in notes if note not in self._notes]
        if self._schema is None:
            self._schema = table.schema
        elif table.schema != self._schema:
            raise InputError(
                self.path.name,
                "all batches need the same columns",
                got=", ".join(table.column_names),
                remedy=f"the first had {', '.join(self._schema.names)}",
            )
        if table.num_rows == 0:
            return
        if self.profile == "ops":
            self._check_order(table)
        self._pending.append(table)
        self._pending_rows += table.num_rows
        while self._pending_rows >= self._row_group_rows:
            self._flush(self._cut())

    def close(self) -> None:
        """Write what is pending and the metadata, and give the file its final name."""
        try:
            if self._schema is None:
                names = [c.name for c in schema.COLUMNS[self.profile].values() if c.required]
                self._schema = schema.arrow_schema(self.profile, names)
            self._flush(self._pending_rows)
            if self._writer is None:
                self._open()
            self._finish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Drop everything written so far."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._temporary.is_dir():
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self._temporary.unlink(missing_ok=True)

    def _check_order(self, table: Any) -> None:
        names = ("rank", "stream", "seq")
        zero = np.zeros(table.num_rows, dtype=np.int32)
        key = [table.column(name).to_numpy() if name in table.column_names else zero for name in names]
        later = np.zeros(table.num_rows - 1, dtype=bool)
        for column in reversed(key):
            later = (column[1:] < column[:-1]) | ((column[1:] == column[:-1]) & later)
        head = (int(key[0][0]), int(key[1][0]), int(key[2][0]))
        if later.any() or (self._last is not None and head <= self._last):
            at = int(np.flatnonzero(later)[0]) + 1 if later.any() else 0
            before = tuple(int(c[at - 1]) for c in key) if at else self._last
            raise InputError(
                f"{self.path.name} row {self.n_rows + self._pending_rows + at}",
                "rows must come in the order rank, stream, seq",
                got=f"{tuple(int(c[at]) for c in key)} after {before}",
            )
        self._last = (int(key[0][-1]), int(key[1][-1]), int(key[2][-1]))

    def _cut(self) -> int:
        """Rows of the next group: up to the last change of rank in the first ``row_group_rows``, or all of those."""
        limit = self._row_group_rows
        if self.profile != "ops":
            return limit
        rank = np.concatenate([table.column("rank").to_numpy() for table in self._pending])[: limit + 1]
        change = np.flatnonzero(np.diff(rank)) + 1
        return int(change[-1]) if change.size else limit

    def _flush(self, rows: int) -> None:
        if rows == 0:
            return
        table = pa.concat_tables(self._pending)
        if self._writer is None:
            self._open()
        self._writer.write_table(table.slice(0, rows).unify_dictionaries(), row_group_size=max(rows, 1))
        rest = table.slice(rows)
        self._pending = [rest] if rest.num_rows else []
        self._pending_rows = rest.num_rows
        self.n_rows += rows

    def _open(self) -> None:
        columns = schema.COLUMNS[self.profile]
        used = [columns[name] for name in self._schema.names]
        dictionary = [_leaf(c) for c in used if c.encoding == "dict"]
        encodings = {"delta": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT"}
        encoding = {_leaf(c): encodings[c.encoding] for c in used if c.encoding in encodings}
        try:
            self._temporary.open("wb").close()
        except OSError as error:
            raise InputError(str(self.path), "cannot be written", got=error.strerror) from None
        self._writer = pq.ParquetWriter(
            self._temporary,
            self._schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=dictionary,
            column_encoding=encoding,
            data_page_version="2.0",
            write_page_index=True,
            write_batch_size=1 << 16,
        )

    def _finish(self) -> None:
        meta = self.meta.with_notes(*[note for note in self._notes if note not in self.meta.notes])
        comms = self.comms if self.comms is not None else Communicators.world(meta.n_ranks)
        sides = {"comms": comms_table(comms), "ranks": self.ranks, "phases": self.phases}
        sides = {name: normalise_side(table, name) for name, table in sides.items() if table is not None}
        blobs = {name: pack_table(table) for name, table in sides.items()}
        single = sum(len(blob) for blob in blobs.values()) < SIDE_LIMIT_BYTES
        entries = meta_entries(self.profile, meta)
        if single:
            entries |= {f"{PREFIX}{name}": blob for name, blob in blobs.items()}
        self._writer.add_key_value_metadata(entries)
        self._writer.close()
        self._writer = None
        if single:
            if self.path.is_dir():
                _remove_trace_dir(self.path)
            self._temporary.replace(self.path)
            return
        inner = self._temporary.with_name(self._temporary.name + ".main")
        self._temporary.replace(inner)
        self._temporary.mkdir()
        inner.replace(self._temporary / f"{self.profile}.parquet")
        for name, table in sides.items():
            pq.write_table(table, self._temporary / f"{name}.parquet", compression="zstd")
        if self.path.is_dir():
            _remove_trace_dir(self.path)
        else:
            self.path.unlink(missing_ok=True)
        self._temporary.replace(self.path)


def read_trace(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, allow_incomplete: bool = False
) -> Trace:
    """Read a trace, bring it into canonical form, and validate it.

    Parameters
    ----------
    path : path
        Parquet file or directory written by netsim, or any Parquet file with the required columns of one profile.
    columns : list of str, optional
        Optional columns to load, besides those of ``schema.STRUCTURE``; all by default.
    allow_incomplete : bool
        Where ranks are missing, drop what touches them, counted in the ledger, instead of raising.

    Raises
    ------
    InputError
        One line: the file and what is wrong with it.
    """
    source = Source(path)
    table = source.read(columns)
    table, notes = normalise(table, source.profile, subject=source.name, foreign=source.foreign)
    meta = source.meta(table)
    comms = source.comms(meta.n_ranks)
    trace = Trace(
        profile=source.profile,
        table=table,
        meta=meta.with_notes(*[note for note in notes if note not in meta.notes]),
        comms=comms,
        ranks=source.side("ranks"),
        phases=source.side("phases"),
    )
    validate(trace, subject=source.name)
    missing = missing_ranks(trace)
    if missing.size:
        if not allow_incomplete:
            raise InputError(
                source.name,
                "every rank that others communicate with must have rows",
                got=f"none of {rank_ranges(missing)}",
                remedy="add the missing files, or drop and count what touches them (--allow-incomplete, allow_incomplete=True)",
            )
        from netsim.traces.repair import drop_missing_ranks

        trace = drop_missing_ranks(trace)
    return trace


def iter_batches(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, batch_rows: int = ROW_GROUP_ROWS
) -> Iterator[Any]:
    """Tables of up to ``batch_rows`` rows in the order of the file, in canonical types, without loading the rest.

    Rows are not validated or sorted: that needs the whole trace.

    Parameters
    ----------
    path : path
    columns : list of str, optional
        Only these; all by default. Required columns are not added.
    batch_rows : int

    Yields
    ------
    pyarrow.Table
    """
    source = Source(path)
    wanted = source.select(columns) if columns is not None else None
    for table in source.batches(wanted, batch_rows):
        yield source.canonical(table, partial=columns is not None)[0]


def _leaf(column: schema.Column) -> str:
    return f"{column.name}.list.element" if column.is_list else column.name


def _remove_trace_dir(path: Path) -> None:
    """Make room for a new trace of the same name; refuse to remove a directory that is anything else."""
    if not is_trace_directory(path):
        raise InputError(str(path), "is a directory, but not a trace", remedy="choose another name")
    shutil.rmtree(path)
