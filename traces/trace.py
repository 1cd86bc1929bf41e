"""``Trace``: what each rank did, in memory, as an Arrow table with the columns of ``netsim.traces.schema``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from netsim.core.arrays import Int32, Int64, csr_ptr, frozen
from netsim.core.errors import InputError, closest
from netsim.traces import schema
from netsim.traces._normalise import normalise, normalise_side

__all__ = ["Communicators", "Trace", "TraceMeta"]

# Ranks are int32.
MOST_RANKS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Communicators:
    """Communicators in CSR: number ``i`` has the world ranks ``member[ptr[i]:ptr[i + 1]]``, in communicator order.

    Number 0 is WORLD.

    Examples
    --------
    >>> comms = Communicators.build(n_ranks=4, members=[[3, 1]])
    >>> comms.n, comms.members(1).tolist(), comms.size(0), comms.name
    (2, [3, 1], 4, ('WORLD', 'comm 1'))
    """

    ptr: Int64
    member: Int32
    name: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ptr", frozen(self.ptr, np.int64))
        object.__setattr__(self, "member", frozen(self.member, np.int32))
        object.__setattr__(self, "name", tuple(self.name))
        if len(self.name) != self.n:
            raise InputError("communicators", f"each of the {self.n} communicators needs a name", got=len(self.name))

    @classmethod
    def world(cls, n_ranks: int) -> Communicators:
        """Only WORLD."""
        return cls.build(n_ranks=n_ranks)

    @classmethod
    def build(
        cls, *, n_ranks: int, members: Sequence[Sequence[int]] = (), names: Sequence[str] | None = None
    ) -> Communicators:
        """WORLD of ``n_ranks`` ranks, followed by communicators 1, 2, ... with the given members and names."""
        if n_ranks > MOST_RANKS:
            raise InputError("communicators", f"the number of ranks must be {MOST_RANKS} or less", got=n_ranks)
        n_ranks = max(n_ranks, 0)
        rows = [list(row) for row in members]
        labels = names if names is not None else [f"comm {i}" for i in range(1, len(rows) + 1)]
        given = np.fromiter((rank for row in rows for rank in row), dtype=np.int32)
        flat = np.concatenate([np.arange(n_ranks, dtype=np.int32), given])
        return cls(csr_ptr([n_ranks, *[len(row) for row in rows]]), flat, ("WORLD", *labels))

    @property
    def n(self) -> int:
        """Number of communicators."""
        return int(self.ptr.size) - 1

    @property
    def sizes(self) -> Int64:
        """Number of members of each."""
        return np.diff(self.ptr)

    def members(self, comm: int) -> Int32:
        """World ranks of one communicator, in its order."""
        return self.member[self.ptr[comm] : self.ptr[comm + 1]]

    def size(self, comm: int) -> int:
        """Number of members of one communicator."""
        return int(self.ptr[comm + 1] - self.ptr[comm])


@dataclass(frozen=True, kw_only=True)
class TraceMeta:
    """What is known about a trace as a whole.

    Attributes
    ----------
    n_ranks : int
    time : str
        Where times come from: ``none``, ``host``, ``gpu`` or ``synthetic``.
    time_quality : str
        ``good``, ``unsynced`` (clocks of ranks do not agree), ``oversubscribed`` (more ranks than cores: do not use the
        gaps) or ``none``.
    gap_clock : str
        Clock that ``gap_ns`` was taken from: ``thread-cpu`` (free of waiting), ``wall`` or ``none``.
    work_unit : str or None
        Unit of the column ``work``, for example ``flops``.
    complete : str
        ``true``, or why it is not the whole run: ``killed``, ``window``, ``ring-buffer``, ``missing-ranks``.
    source : mapping of str to str
        Tool, version, importer, command, sha256 of the files, ...
    provenance, licence : str
        Where the data come from and under which terms.
    unresolved : mapping of str to int
        Counts of what the source left open: ``wildcards``, ``cancelled``, ``unmatched``.
    ledger : mapping of str to int
        Everything skipped or approximated on the way into the trace, counted by name.
    notes : tuple of str
        Lines for people.
    """

    n_ranks: int
    time: str = "none"
    time_quality: str = "none"
    gap_clock: str = "none"
    work_unit: str | None = None
    complete: str = "true"
    source: Mapping[str, str] = field(default_factory=dict)
    provenance: str = ""
    licence: str = ""
    unresolved: Mapping[str, int] = field(default_factory=dict)
    ledger: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, valid in (
            ("time", schema.TIME),
            ("time_quality", schema.TIME_QUALITY),
            ("gap_clock", schema.GAP_CLOCK),
            ("complete", schema.COMPLETE),
        ):
            value = getattr(self, name)
            if value not in valid:
                raise InputError(
                    f"trace metadata {name}", "unknown value", got=repr(value), remedy=closest(str(value), valid)
                )
        if self.n_ranks > MOST_RANKS:
            raise InputError("trace metadata n_ranks", f"must be {MOST_RANKS} or less", got=self.n_ranks)
        if int(self.n_ranks) != self.n_ranks or self.n_ranks < 0:
            raise InputError("trace metadata n_ranks", "must be a whole number, 0 or more", got=self.n_ranks)

    def with_notes(self, *lines: str, ledger: Mapping[str, int] | None = None) -> TraceMeta:
        """The same with more notes and a ledger increased by the given counts."""
        counts = dict(self.ledger)
        for name, count in (ledger or {}).items():
            counts[name] = counts.get(name, 0) + count
        return replace(self, notes=(*self.notes, *lines), ledger=counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A trace: one row per call of a rank (``ops``), per flow (``flows``) or per pair of ranks (``matrix``).

    The table is brought into the canonical form on construction: in-memory types of the schema, unknown columns
    dropped, ops sorted by rank, stream and seq. ``netsim.traces.validate`` checks the values; ``read_trace`` and
    ``from_*`` call it.

    Attributes
    ----------
    profile : str
        ``ops``, ``flows`` or ``matrix``.
    table : pyarrow.Table
        Columns of ``schema.COLUMNS[profile]``; optional ones may be absent.
    meta : TraceMeta
    comms : Communicators
    ranks, phases : pyarrow.Table or None
        Side tables, columns of ``schema.SIDE_TABLES``.

    Examples
    --------
    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "send", "peer": 1, "tag": 7, "bytes": 1000},
    ...     {"rank": 1, "op": "recv", "peer": 0, "tag": 7, "bytes": 1000},
    ...     {"rank": 0, "op": "barrier"},
    ...     {"rank": 1, "op": "barrier"},
    ... ])
    >>> trace.n_rows, trace.column("seq").tolist(), trace.column("coll_seq").tolist()
    (4, [0, 1, 0, 1], [-1, 0, -1, 0])
    >>> trace.op_names
    ['send', 'barrier', 'recv', 'barrier']
    """

    profile: str
    table: Any
    meta: TraceMeta
    comms: Communicators
    ranks: Any = None
    phases: Any = None

    def __post_init__(self) -> None:
        table, notes = normalise(self.table, self.profile)
        object.__setattr__(self, "table", table)
        for name in ("ranks", "phases"):
            side = getattr(self, name)
            if side is not None:
                object.__setattr__(self, name, normalise_side(side, name))
        if notes:
            object.__setattr__(self, "meta", self.meta.with_notes(*notes))

    # ---- access

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self.meta.n_ranks

    def has(self, name: str) -> bool:
        """Whether the column is there and not null everywhere."""
        return name in self.table.column_names and self.table.column(name).null_count < self.n_rows

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column as an array, shape (n_rows,), with the default of the schema for null rows and absent columns.

        ``op`` gives codes, positions in ``schema.OPS``. For ``dtype``, ``redop`` and ``algo`` use ``labels``, for lists
        ``ragged``.

        >>> Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[5]).column("count").tolist()
        [1]
        """
        spec = self._spec(name)
        if spec.is_list:
            raise InputError(f"column {name}", "holds lists", remedy="use Trace.ragged")
        if name == "op":
            return self._indices(name).astype(np.int8, copy=False)
        if spec.type == "name":
            raise InputError(f"column {name}", "holds names", remedy="use Trace.labels")
        dtype = np.dtype(spec.type)
        if name not in self.table.column_names:
            return np.full(self.n_rows, spec.default, dtype=dtype)
        data = self.table.column(name)
        if data.null_count:
            data = pc.fill_null(data, pa.scalar(spec.default, type=data.type))
        return _numpy(data, dtype)

    def labels(self, name: str) -> tuple[Int32, tuple[str, ...]]:
        """Codes (-1 for null) and names of a column of names.

        >>> trace = Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "allreduce", "dtype": "float32"}])
        >>> codes, names = trace.labels("dtype")
        >>> codes.tolist(), names
        ([0], ('float32',))
        """
        if self._spec(name).type != "name":
            raise InputError(f"column {name}", "does not hold names", remedy="use Trace.column")
        if name not in self.table.column_names:
            return np.full(self.n_rows, -1, dtype=np.int32), ()
        if name == "op":
            return self._indices(name).astype(np.int32), schema.OP_NAMES
        data = self.table.column(name)
        names = tuple(data.chunk(0).dictionary.to_pylist()) if data.num_chunks else ()
        return self._indices(name).astype(np.int32), names

    def ragged(self, name: str) -> tuple[Int64, npt.NDArray[Any]]:
        """A column of lists in CSR: ``ptr`` of shape (n_rows + 1,) and the values; null rows are empty.

        The values of ``xdeps`` have shape (m, 2): stream and seq.

        >>> trace = Trace.from_rows(n_ranks=1, rows=[{"rank": 0, "op": "mark"}, {"rank": 0, "op": "mark", "deps": [1]}])
        >>> ptr, values = trace.ragged("deps")
        >>> ptr.tolist(), values.tolist()
        ([0, 0, 1], [1])
        """
        spec = self._spec(name)
        if not spec.is_list:
            raise InputError(f"column {name}", "does not hold lists", remedy="use Trace.column")
        pairs = "struct" in spec.type
        dtype = np.dtype(np.int32 if pairs else spec.type[5:-1])
        if name not in self.table.column_names:
            empty = np.empty((0, 2) if pairs else 0, dtype=dtype)
            return np.zeros(self.n_rows + 1, dtype=np.int64), empty
        data = self.table.column(name)
        length = pc.fill_null(pc.list_value_length(data), 0)
        ptr = csr_ptr(_numpy(length, np.dtype(np.int64)))
        flat = pc.list_flatten(data)
        if pairs:
            parts = [_numpy(pc.struct_field(flat, part), dtype) for part in ("stream", "seq")]
            return ptr, np.stack(parts, axis=1)
        return ptr, _numpy(flat, dtype)

    @property
    def op_names(self) -> list[str]:
        """Operation of each row, for tests and small traces."""
        return [schema.OP_NAMES[code] for code in self.column("op").tolist()]

    @cached_property
    def content_hash(self) -> str:
        """SHA-256, in hex, of everything that can change a result.

        The same for any encoding, writer, integer width, row-group layout, order of dictionaries and of metadata, and
        for extra unknown columns; it leaves out notes, provenance, licence and source.

        >>> a = Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[5])
        >>> b = Trace.from_matrix(n_ranks=2, src=[0], dst=[1], bytes=[6])
        >>> len(a.content_hash), a.content_hash == b.content_hash
        (64, False)
        """
        from netsim.traces._hash import content_hash

        return content_hash(self)

    def replace(self, **changes: Any) -> Trace:
        """A copy with other fields."""
        return replace(self, **changes)

    def _spec(self, name: str) -> schema.Column:
        columns = schema.COLUMNS[self.profile]
        if name not in columns:
            raise InputError(f"column {name}", f"not in the profile {self.profile}", remedy=closest(name, columns))
        return columns[name]

    def _indices(self, name: str) -> npt.NDArray[Any]:
        data = self.table.column(name)
        parts = [_numpy(pc.fill_null(c.indices, -1), np.dtype(np.int32)) for c in data.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    # ---- constructors

    @classmethod
    def from_rows(
        cls,
        *,
        n_ranks: int,
        rows: Iterable[Mapping[str, Any]],
        comms: Communicators | Sequence[Sequence[int]] | None = None,
        **meta: Any,
    ) -> Trace:
        """A trace of calls from dictionaries, for tests and examples.

        Rows of one (rank, stream) are in program order; ranks may be interleaved.

        Parameters
        ----------
        n_ranks : int
        rows : iterable of mapping
            Column name to value. ``rank`` and ``op`` are needed; ``bytes`` and the ``tag`` of messages default to 0;
            ``seq`` and ``coll_seq`` are
            filled in; ``flags`` may be a number or a list of flag names.
        comms : Communicators or list of lists, optional
            All communicators, or the members of number 1, 2, ...; number 0 is WORLD.
        **meta
            Fields of ``TraceMeta``.

        Raises
        ------
        InputError
            A value breaks the schema (see ``netsim.traces.validate``).
        """
        from netsim.traces._validate import validate

        columns = schema.COLUMNS["ops"]
        table = _table_from_rows([dict(row) for row in rows], columns)
        if comms is None or not isinstance(comms, Communicators):
            comms = Communicators.build(n_ranks=n_ranks, members=comms or ())
        trace = cls(profile="ops", table=table, meta=TraceMeta(n_ranks=n_ranks, **meta), comms=comms)
        validate(trace)
        return trace

    @classmethod
    def from_flows(
        cls,
        *,
        n_ranks: int,
        start_ns: npt.ArrayLike,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        bytes: npt.ArrayLike,
        coflow: npt.ArrayLike | None = None,
        **meta: Any,
    ) -> Trace:
        """A trace of flows from arrays of shape (n,)."""
        data = {"start_ns": start_ns, "src": src, "dst": dst, "bytes": bytes, "coflow": coflow}
        return cls._from_arrays("flows", n_ranks, data, meta)

    @classmethod
    def from_matrix(
        cls,
        *,
        n_ranks: int,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        bytes: npt.ArrayLike,
        count: npt.ArrayLike | None = None,
        **meta: Any,
    ) -> Trace:
        """A traffic matrix from arrays of shape (n,), one entry per pair of ranks."""
        return cls._from_arrays("matrix", n_ranks, {"src": src, "dst": dst, "bytes": bytes, "count": count}, meta)

    @classmethod
    def _from_arrays(cls, profile: str, n_ranks: int, data: Mapping[str, Any], meta: Mapping[str, Any]) -> Trace:
        from netsim.traces._validate import validate

        arrays = {name: np.asarray(values) for name, values in data.items() if values is not None}
        for name, array in arrays.items():
            if array.ndim != 1:
                raise InputError(
                    f"{profile} trace", f"column {name} must have one dimension", got=f"shape {array.shape}"
                )
        sizes = {name: array.size for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"{profile} trace", "columns must have the same length", got=sizes)
        # An empty list is an array of float64.
        table = pa.table({n: pa.array(a if a.size else a.astype(np.int64)) for n, a in arrays.items()})
        trace = cls(
            profile=profile,
            table=table,
            meta=TraceMeta(n_ranks=n_ranks, **meta),
            comms=Communicators.world(n_ranks),
        )
        validate(trace)
        return trace


def _numpy(data: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    array = data.to_numpy() if isinstance(data, pa.ChunkedArray) else data.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(array, dtype=dtype)


def _table_from_rows(rows: list[dict[str, Any]], columns: Mapping[str, schema.Column]) -> Any:
    collective = {schema.OP_NAMES[code] for code in schema.op_codes("collective")}
    next_seq: dict[tuple[int, int], int] = {}
    next_coll: dict[tuple[int, int], int] = {}
    for i, row in enumerate(rows):
        unknown = sorted(set(row) - set(columns))
        if unknown:
            raise InputError(f"row {i}", "unknown column", got=repr(unknown[0]), remedy=closest(unknown[0], columns))
        missing = [name for name in ("rank", "op") if name not in row]
        if missing:
            raise InputError(f"row {i}", f"needs {missing[0]!r}")
        row.setdefault("bytes", 0)
        if row["op"] in ("send", "recv"):
            row.setdefault("tag", 0)
        if isinstance(row.get("flags"), str | list | tuple):
            names = [row["flags"]] if isinstance(row["flags"], str) else row["flags"]
            row["flags"] = _flag_bits(i, names)
        lane = (row["rank"], row.get("stream") or 0)
        row.setdefault("seq", next_seq.get(lane, 0))
        next_seq[lane] = row["seq"] + 1
        if row["op"] in collective:
            group = (row["rank"], row.get("comm") or 0)
            next_coll[group] = 1 + (row.setdefault("coll_seq", next_coll.get(group, 0)) or 0)
    if all(isinstance(row[name], int) for row in rows for name in ("rank", "seq")):
        rows.sort(key=lambda row: (row["rank"], row.get("stream") or 0, row["seq"]))
    used = [name for name in columns if columns[name].required or any(name in row for row in rows)]
    arrays = {}
    for name in used:
        spec = columns[name]
        values = [row.get(name, None if spec.nullable else spec.default) for row in rows]
        if "struct" in spec.type:
            values = [v and [dict(zip(("stream", "seq"), pair, strict=True)) for pair in v] for v in values]
        kind = pa.string() if spec.type == "name" else schema.arrow_type(spec)
        try:
            arrays[name] = pa.array(values, type=kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InputError(f"column {name}", f"must hold {spec.type}", got=str(error)) from None
    return pa.table(arrays)


def _flag_bits(row: int, names: Iterable[str]) -> int:
    bits = 0
    for name in names:
        if name not in schema.FLAG:
            raise InputError(f"row {row}", "unknown flag", got=repr(name), remedy=closest(name, schema.FLAG))
        bits |= schema.FLAG[name]
    return bits
