"""``docs/trace-format.md``, generated from the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netsim.traces import schema

__all__ = ["document"]

_INTRO = """\
# Trace format

Generated from `traces/schema.py` by `python -m netsim.traces.schema > docs/trace-format.md`; do not edit.

This is version {version}. A reader accepts every file of its own major version; a minor version only adds
columns and names.

A trace says what the ranks of a program did: one row per call and rank, in program order. Collectives stay
collectives; how they become messages is decided when they are replayed, because that is what one wants to vary.
Three profiles share one format:

- `ops`: calls, sorted by rank, stream, seq;
- `flows`: transfers that are offered at given times;
- `matrix`: bytes and messages per pair of ranks.

All integers are signed, apart from `flags`: subtracting unsigned numbers goes wrong silently.
"""

_FILE = """\
## The file

One Parquet file: zstd, data pages version 2, page index, row groups of about a million rows that end where a
rank ends when they can, so that one rank is read without the others. The side tables are Arrow streams, as
base64 text, in the key-value metadata of the file. When they reach 4 MiB, the trace is a directory instead,
with the files `ops.parquet` (or `flows.parquet`, `matrix.parquet`), `comms.parquet`, `ranks.parquet` and
`phases.parquet`. Readers accept both forms.

Key-value metadata of the main file, all strings:

| key | value |
|---|---|
| `netsim.format` | {profiles} |
| `netsim.version` | `{version}` |
| `netsim.n_ranks` | number of ranks |
| `netsim.time` | where times come from: {time} |
| `netsim.time_quality` | {quality}; with `oversubscribed`, times measure the machine, not the program |
| `netsim.complete` | {complete} |
| `netsim.meta` | JSON: the above, and `gap_clock` ({gap}), `work_unit`, \
`source`, `provenance`, `licence`, `unresolved` (counts), `ledger` (everything skipped or approximated, counted by name), `notes` |
| `netsim.comms`, `netsim.ranks`, `netsim.phases` | side tables, in the form of one file |

What readers tolerate: any integer width; strings, plain or dictionary; floats that hold whole numbers, with NaN
for null; Arrow timestamps and durations of any unit (with a note when the unit is coarser than ns); rows in any
order; unknown columns (ignored, with a note). A Parquet file that does not carry `netsim.format` is accepted
when it has the required columns of a profile; there, a time column of plain integers must say its unit in its
name (`gap_ns`) or in the field metadata `unit`, otherwise it is refused.

Absent optional columns mean the default in every row. `content_hash` is the same for all files that mean the
same.
"""

_RULES = """\
## Rules

- `seq` counts 0, 1, 2, ... in each (rank, stream); an edge of distance d in `deps` therefore points d rows up.
- A call without the flag `nonblocking` is over when the next row of its stream begins. A non-blocking call
  returns at once; the row `wait` that completes it names it in `deps`. A send-receive is three rows: a
  non-blocking send, a non-blocking receive, one wait.
- Every start of a persistent request is one row, with the flags `persistent` and `nonblocking`.
- `peer` is a world rank, also on other communicators, and for a rooted collective it is the root.
- A receive from any source carries the flag `any_source` and, in `peer`, who really sent.
- A call to or from MPI_PROC_NULL is not recorded. A cancelled request stays, with the flag `cancelled`.
- `coll_seq` of an operation on a communicator is the same on all its members, and counts only collectives of
  the table above.
- `gap_ns` is work of the program between two calls, never time spent in a call. Times serve validation, not
  replay.
"""


def document() -> str:
    """The documentation page, in Markdown.

    >>> document().splitlines()[0]
    '# Trace format'
    """
    version = ".".join(str(part) for part in schema.FORMAT_VERSION)
    parts = [_INTRO.format(version=version)]
    for profile in schema.PROFILES:
        parts.append(f"## Columns of `{profile}`\n\n" + _columns(schema.COLUMNS[profile].values()))
    ops = [(f"`{o.name}`", o.kind, o.bytes, "yes" if o.rooted else "", o.vbytes) for o in schema.OPS]
    head = ("op", "kind", "`bytes`", "root in `peer`", "`vbytes`")
    parts.append("## Operations\n\np is the size of the communicator.\n\n" + _table(head, ops))
    flags = [(str(f.bit), str(f.value), f"`{f.name}`", f.meaning) for f in schema.FLAGS]
    parts.append("## Flags\n\n" + _table(("bit", "value", "name", "meaning"), flags))
    parts.append(_RULES)
    for name, columns in schema.SIDE_TABLES.items():
        parts.append(f"## Side table `{name}`\n\n" + _columns(columns.values()))
    parts.append(
        _FILE.format(
            version=version,
            profiles=_choices(schema.PROFILES),
            time=_choices(schema.TIME),
            quality=_choices(schema.TIME_QUALITY),
            complete=_choices(schema.COMPLETE),
            gap=_choices(schema.GAP_CLOCK),
        )
    )
    return "\n".join(parts)


def _choices(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _columns(columns: Iterable[schema.Column]) -> str:
    encodings = {"delta": "delta", "dict": "dictionary", "split": "byte stream split", "plain": "plain"}
    rows = []
    for c in columns:
        presence = "required" if c.required else "optional"
        null = "null" if c.nullable else ("" if c.default is None else f"default {c.default}")
        rows.append((f"`{c.name}`", f"`{c.type}`", c.unit, presence, null, encodings[c.encoding], c.meaning))
    return _table(("column", "type", "unit", "in the file", "may be", "encoding", "meaning"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
