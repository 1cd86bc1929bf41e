"""The content hash: SHA-256 over values in one canonical form, column by column."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.traces import schema

if TYPE_CHECKING:
    from netsim.traces.trace import Trace

__all__ = ["content_hash"]


def content_hash(trace: Trace) -> str:
    """SHA-256 in hex of the profile, the table, the communicators, the side tables and what steers the use of times.

    A null, an absent column and the default of the schema are the same thing, and so are a null and an empty list.
    """
    meta = trace.meta
    head = {
        "format": schema.FORMAT_VERSION[0],
        "profile": trace.profile,
        "n_ranks": int(meta.n_ranks),
        "n_rows": trace.n_rows,
        "time": meta.time,
        "time_quality": meta.time_quality,
        "gap_clock": meta.gap_clock,
        "work_unit": meta.work_unit,
        "comms": list(trace.comms.name),
    }
    total = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    total.update(_bytes(trace.comms.ptr))
    total.update(_bytes(trace.comms.member))
    for spec in schema.COLUMNS[trace.profile].values():
        digest = _column_digest(trace, spec)
        if digest is not None:
            total.update(f"{spec.name}\0".encode() + digest)
    for side in ("ranks", "phases"):
        table = getattr(trace, side)
        if table is not None:
            # Small tables of text and numbers: their JSON is canonical enough.
            rows = {n: table.column(n).to_pylist() for n in sorted(table.column_names)}
            used = {n: values for n, values in rows.items() if any(v is not None for v in values)}
            total.update(f"{side}\0{json.dumps(used, sort_keys=True)}".encode())
    return total.hexdigest()


def _column_digest(trace: Trace, spec: schema.Column) -> bytes | None:
    """Digest of one column; None when it holds nothing but its default."""
    if spec.name not in trace.table.column_names:
        return None
    if spec.is_list:
        ptr, values = trace.ragged(spec.name)
        return hashlib.sha256(_bytes(ptr) + _bytes(values)).digest() if len(values) else None
    if spec.type == "name":
        codes, names = trace.labels(spec.name)
        used = sorted({names[code] for code in np.unique(codes[codes >= 0]).tolist()})
        if not used:
            return None
        place = {name: i for i, name in enumerate(used)}
        new = np.array([*(place.get(name, -1) for name in names), -1], dtype=np.int32)[codes]
        return hashlib.sha256(json.dumps(used).encode() + _bytes(new)).digest()
    values = trace.column(spec.name)
    if spec.default is not None and bool((values == spec.default).all()):
        return None
    # Adding 0.0 makes -0.0 and 0.0 one number.
    return hashlib.sha256(_bytes(values + 0.0 if values.dtype.kind == "f" else values)).digest()


def _bytes(array: Any) -> bytes:
    little = np.ascontiguousarray(array)
    return little.astype(little.dtype.newbyteorder("<"), copy=False).tobytes()
