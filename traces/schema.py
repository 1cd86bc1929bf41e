"""The canonical trace as data: columns, operations, flags, side tables; validation and documentation come from here.

Nothing here computes on traces and nothing heavy is imported, so that other parts can use the constants cheaply.

>>> COLUMNS["ops"]["peer"].type, OP_CODE["recv"], FLAG["nonblocking"]
('int32', 1, 1)

``python -m netsim.traces.schema`` prints the documentation page.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

__all__ = [
    "COLUMNS",
    "COMPLETE",
    "FLAG",
    "FLAGS",
    "FORMAT_VERSION",
    "GAP_CLOCK",
    "NO_TIME",
    "OPS",
    "OP_CODE",
    "OP_NAMES",
    "PROFILES",
    "SIDE_TABLES",
    "STRUCTURE",
    "TIME",
    "TIME_QUALITY",
    "Column",
    "Flag",
    "Op",
    "arrow_schema",
    "arrow_type",
    "op_codes",
]

FORMAT_VERSION: Final = (1, 0)
"""Major and minor version of the format. A reader accepts its own major version; a minor version only adds columns."""

PROFILES: Final = ("ops", "flows", "matrix")

NO_TIME: Final = -(2**63)
"""What ``Trace.column`` gives for a time that was not recorded."""

TIME: Final = ("none", "host", "gpu", "synthetic")
TIME_QUALITY: Final = ("none", "good", "unsynced", "oversubscribed")
GAP_CLOCK: Final = ("none", "thread-cpu", "wall")
COMPLETE: Final = ("true", "killed", "window", "ring-buffer", "missing-ranks")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a profile or side table.

    Attributes
    ----------
    name : str
    type : str
        In-memory Arrow type; files may use other widths. ``name`` means a dictionary-encoded string.
    required : bool
        Must be in the file; the others may be absent, which means ``default`` in every row.
    nullable : bool
        Rows may be null, which means "not known" or "does not apply".
    default : int, float or None
        What ``Trace.column`` gives for a null row and an absent column.
    unit : str
    encoding : str
        Parquet encoding the writer asks for: ``delta``, ``dict``, ``plain`` or ``split`` (byte stream split).
    profiles : tuple of str
        Tables that have the column.
    meaning : str
    """

    name: str
    type: str
    meaning: str
    required: bool = False
    nullable: bool = False
    default: int | float | None = None
    unit: str = ""
    encoding: str = "dict"
    profiles: tuple[str, ...] = ("ops",)

    @property
    def is_list(self) -> bool:
        """Whether each row holds a list."""
        return self.type.startswith("list")

    @property
    def is_time(self) -> bool:
        """Whether the values are times or durations, in ns."""
        return self.unit == "ns"


@dataclass(frozen=True, kw_only=True)
class Op:
    """One name of the fixed vocabulary of the column ``op``.

    Attributes
    ----------
    name : str
    kind : str
        ``p2p``, ``completion``, ``collective``, ``rma``, ``local`` or ``management``.
    bytes : str
        What the column ``bytes`` holds (p = size of the communicator).
    rooted : bool
        ``peer`` is the root.
    equal_bytes : bool
        All members of one instance have the same ``bytes``, unless one of them has ``vbytes``.
    vbytes : str
        What ``vbytes`` holds when the call is irregular; empty: never used.
    """

    name: str
    kind: str
    bytes: str
    rooted: bool = False
    equal_bytes: bool = False
    vbytes: str = ""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One bit of the column ``flags``."""

    name: str
    bit: int
    meaning: str

    @property
    def value(self) -> int:
        """The bit as a number."""
        return 1 << self.bit


def _col(name: str, type: str, meaning: str, **rest: Any) -> Column:
    return Column(name=name, type=type, meaning=meaning, **rest)


_OPT: Final = {"nullable": True}

_COLUMNS: Final = (
    _col("rank", "int32", "world rank that made the call", required=True, encoding="delta"),
    _col("stream", "int32", "ordering domain within the rank: thread or GPU stream", default=0),
    _col("seq", "int32", "position in (rank, stream): 0, 1, 2, ... without holes", required=True, encoding="delta"),
    _col("op", "name", "operation, one of the vocabulary below", required=True),
    _col("flags", "uint16", "bits, see below", default=0),
    _col("comm", "int32", "index in the table of communicators; 0 = WORLD", default=0),
    _col("peer", "int32", "world rank of the peer, or of the root of a rooted collective", default=-1, **_OPT),
    _col("tag", "int32", "message tag; null where it does not apply or was never resolved", default=-1, **_OPT),
    _col("bytes", "int64", "payload, by the table of operations", required=True, unit="B"),
    _col("bytes_actual", "int64", "bytes a receive really got, when known", default=-1, unit="B", **_OPT),
    _col("vbytes", "list<int64>", "bytes per member of an irregular collective: in the order of the members, or of "
         "`vpeer` where that is set", unit="B", encoding="delta", **_OPT),
    _col("vpeer", "list<int32>", "world ranks the entries of `vbytes` refer to, when that is not the member order: "
         "destinations of neighbour collectives", encoding="delta", **_OPT),
    _col("vrecv", "list<int64>", "bytes per member this rank expected to receive in an irregular all-to-all; lets rows "
         "be checked against columns", unit="B", encoding="delta", **_OPT),
    _col("coll_seq", "int32", "k-th collective on this communicator, the same on all members; null for other "
         "operations", default=-1, encoding="delta", **_OPT),
    _col("match", "int64", "message number shared by a send and its receive, when the source recorded it", default=-1,
         encoding="delta", **_OPT),
    _col("deps", "list<int32>", "how many rows back, in the same (rank, stream), are the rows that must have ended: on "
         "`wait` the completed requests, elsewhere explicit edges", **_OPT),
    _col("sdeps", "list<int32>", "as `deps`, but those rows must only have started", **_OPT),
    _col("xdeps", "list<struct<stream:int32,seq:int32>>", "rows of other streams of the same rank that must have ended",
         encoding="plain", **_OPT),
    _col("gap_ns", "int64", "local work before the call", default=0, unit="ns", encoding="delta", **_OPT),
    _col("work", "float64", "local work before the call, in the unit `work_unit` of the metadata, when the source has "
         "no time", default=0.0, encoding="split", **_OPT),
    _col("t_start", "int64", "call entered, since the epoch of the trace, on the corrected clock of the rank",
         default=NO_TIME, unit="ns", encoding="delta", **_OPT),
    _col("t_end", "int64", "call left", default=NO_TIME, unit="ns", encoding="delta", **_OPT),
    _col("dtype", "name", "element type: float32, bfloat16, ...", **_OPT),
    _col("redop", "name", "reduction: sum, max, ...", **_OPT),
    _col("algo", "name", "algorithm and protocol the library used: ring/ll128, ...", **_OPT),
    _col("phase", "int32", "index in the table of phases", default=-1, **_OPT),
    # flows and matrix
    _col("start_ns", "int64", "when the flow is offered, since the epoch of the trace", required=True, unit="ns",
         encoding="delta", profiles=("flows",)),
    _col("src", "int32", "sending rank", required=True, encoding="delta", profiles=("flows", "matrix")),
    _col("dst", "int32", "receiving rank", required=True, encoding="delta", profiles=("flows", "matrix")),
    _col("bytes", "int64", "payload; in a matrix the sum over all messages", required=True, unit="B",
         profiles=("flows", "matrix")),
    _col("coflow", "int64", "number of the coflow the flow belongs to", default=-1, profiles=("flows",), **_OPT),
    _col("count", "int64", "number of messages", default=1, profiles=("matrix",)),
    # side tables
    _col("comm", "int32", "0, 1, 2, ...; 0 = WORLD", required=True, profiles=("comms",)),
    _col("name", "string", "name for people", required=True, profiles=("comms",)),
    _col("members", "list<int32>", "world ranks in the order of the communicator", required=True, profiles=("comms",)),
    _col("rank", "int32", "world rank", required=True, profiles=("ranks",)),
    _col("host", "string", "machine the rank ran on", profiles=("ranks",), **_OPT),
    _col("local_rank", "int32", "number of the rank on its machine", profiles=("ranks",), **_OPT),
    _col("device", "string", "accelerator", profiles=("ranks",), **_OPT),
    _col("clock_offset_ns", "int64", "added to the clock of the rank to correct it", unit="ns",
         profiles=("ranks",), **_OPT),
    _col("clock_drift", "float64", "relative drift that was corrected", profiles=("ranks",), **_OPT),
    _col("phase", "int32", "0, 1, 2, ...", required=True, profiles=("phases",)),
    _col("name", "string", "name for people", required=True, profiles=("phases",)),
    _col("kind", "string", "iteration, layer, benchmark, ...", profiles=("phases",), **_OPT),
    _col("iter", "int64", "number of the repetition", profiles=("phases",), **_OPT),
    _col("parent", "int32", "enclosing phase", profiles=("phases",), **_OPT),
)  # fmt: skip

COLUMNS: Final = MappingProxyType(
    {p: MappingProxyType({c.name: c for c in _COLUMNS if p in c.profiles}) for p in PROFILES}
)
"""Profile -> column name -> ``Column``, in the order of the file."""

STRUCTURE: Final = MappingProxyType(
    {
        p: tuple(c.name for c in COLUMNS[p].values() if c.required)
        + (("stream", "flags", "comm", "peer", "tag", "coll_seq", "vpeer") if p == "ops" else ())
        for p in PROFILES
    }
)
"""Profile -> columns that are always loaded: without them the others cannot be understood or validated."""

SIDE_TABLES: Final = MappingProxyType(
    {p: MappingProxyType({c.name: c for c in _COLUMNS if p in c.profiles}) for p in ("comms", "ranks", "phases")}
)
"""Side table -> column name -> ``Column``."""


def _op(name: str, kind: str, bytes: str, **rest: Any) -> Op:
    return Op(name=name, kind=kind, bytes=bytes, **rest)


OPS: Final = (
    _op("send", "p2p", "message"),
    _op("recv", "p2p", "capacity of the buffer; what arrived is `bytes_actual`"),
    _op("wait", "completion", "0"),
    _op("test", "completion", "0; only tests that succeeded are recorded"),
    _op("probe", "p2p", "size of the message found"),
    _op("barrier", "collective", "0", equal_bytes=True),
    _op("bcast", "collective", "length of the vector", rooted=True, equal_bytes=True),
    _op("reduce", "collective", "length of the vector", rooted=True, equal_bytes=True),
    _op("allreduce", "collective", "length of the vector", equal_bytes=True),
    _op("gather", "collective", "own contribution", rooted=True, equal_bytes=True,
        vbytes="at the root: contribution of each member"),
    _op("scatter", "collective", "own block", rooted=True, equal_bytes=True,
        vbytes="at the root: block of each member"),
    _op("allgather", "collective", "own contribution", equal_bytes=True, vbytes="contribution of each member"),
    _op("reduce_scatter", "collective", "own block of the result", equal_bytes=True, vbytes="block of each member"),
    _op("alltoall", "collective", "sent in total, own block included (p times the block)", equal_bytes=True,
        vbytes="sent to each member"),
    _op("scan", "collective", "length of the vector", equal_bytes=True),
    _op("exscan", "collective", "length of the vector", equal_bytes=True),
    _op("neighbor_allgather", "collective", "own contribution", vbytes="sent to each neighbour in `vpeer`"),
    _op("neighbor_alltoall", "collective", "sent in total", vbytes="sent to each neighbour in `vpeer`"),
    _op("put", "rma", "message"),
    _op("get", "rma", "message"),
    _op("acc", "rma", "message"),
    _op("fence", "rma", "0"),
    _op("lock", "rma", "0"),
    _op("unlock", "rma", "0"),
    _op("flush", "rma", "0"),
    _op("post", "rma", "0"),
    _op("start", "rma", "0"),
    _op("complete", "rma", "0"),
    _op("compute", "local", "0; the work is in `gap_ns` or `work`"),
    _op("mark", "local", "0"),
    _op("init", "management", "0"),
    _op("finalize", "management", "0"),
    _op("comm_create", "management", "0; `comm` is the parent"),
    _op("comm_free", "management", "0"),
)  # fmt: skip
"""The vocabulary; ``Trace.column("op")`` gives positions in it."""

OP_NAMES: Final = tuple(op.name for op in OPS)
OP_CODE: Final = MappingProxyType({name: code for code, name in enumerate(OP_NAMES)})
"""Operation name -> code, as in ``Trace.column("op")``."""

FLAGS: Final = tuple(
    Flag(name=name, bit=bit, meaning=meaning)
    for bit, (name, meaning) in enumerate(
        (
            ("nonblocking", "the call returned at once; a `wait` row names it in `deps`"),
            ("persistent", "one start of a persistent request"),
            ("in_place", "MPI_IN_PLACE"),
            ("synchronous", "a synchronous send: it ends only when it was matched"),
            ("any_source", "the receive accepted any source; `peer` is who really sent, null if that was never known"),
            ("any_tag", "the receive accepted any tag; `tag` is the real one, null if that was never known"),
            ("cancelled", "the request was cancelled: nothing was transferred"),
            ("unchained", "does not wait for the row before it, only for its explicit edges"),
            ("grouped", "part of a group call (ncclGroupStart ... End)"),
            ("decomposed", "a message that the source's collective algorithm sent"),
            ("size_unknown", "`bytes` is a guess"),
        )
    )
)

FLAG: Final = MappingProxyType({flag.name: flag.value for flag in FLAGS})
"""Flag name -> bit as a number: ``flags & FLAG["nonblocking"]``."""


def op_codes(*kinds: str) -> tuple[int, ...]:
    """Codes of all operations of the given kinds.

    >>> [OP_NAMES[code] for code in op_codes("completion")]
    ['wait', 'test']
    """
    return tuple(code for code, op in enumerate(OPS) if op.kind in kinds)


def arrow_type(column: Column) -> Any:
    """The in-memory Arrow type of a column.

    >>> str(arrow_type(COLUMNS["ops"]["vbytes"]))
    'list<element: int64>'
    """
    import pyarrow as pa

    simple = {
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint16": pa.uint16(),
        "float64": pa.float64(),
        "string": pa.string(),
    }
    if column.name == "op":
        return pa.dictionary(pa.int8(), pa.string())
    if column.type == "name":
        return pa.dictionary(pa.int32(), pa.string())
    if column.type.startswith("list<struct"):
        pair = pa.struct([pa.field("stream", pa.int32()), pa.field("seq", pa.int32())])
        return pa.list_(pa.field("element", pair))
    if column.is_list:
        return pa.list_(pa.field("element", simple[column.type[5:-1]]))
    return simple[column.type]


def arrow_schema(table: str, names: list[str] | None = None) -> Any:
    """Arrow schema of a profile or side table, with the unit in the metadata of each field.

    >>> arrow_schema("matrix").names
    ['src', 'dst', 'bytes', 'count']
    """
    import pyarrow as pa

    columns = COLUMNS[table] if table in COLUMNS else SIDE_TABLES[table]
    return pa.schema(
        [
            pa.field(c.name, arrow_type(c), nullable=c.nullable, metadata={"unit": c.unit} if c.unit else None)
            for c in columns.values()
            if names is None or c.name in names
        ]
    )


if __name__ == "__main__":
    from netsim.traces._document import document

    print(document(), end="")
