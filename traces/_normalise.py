"""Bring a table from anywhere into the canonical form: types of the schema, one vocabulary, sorted; or say why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from netsim.core.errors import InputError, closest
from netsim.core.text import count
from netsim.traces import schema
from netsim.traces.schema import Column

__all__ = ["normalise", "normalise_side", "rank_ranges", "sort_ops"]

_OP_DICTIONARY = pa.array(schema.OP_NAMES, type=pa.string())
_NS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def normalise(
    table: Any, profile: str, *, subject: str = "trace", foreign: bool = False, sort: bool = True, partial: bool = False
) -> tuple[Any, list[str]]:
    """The canonical table of a profile, and notes on what was lost or left out.

    Parameters
    ----------
    table : pyarrow.Table
        Any integer widths, plain or dictionary strings, Arrow timestamps and durations, columns in any order.
    profile : str
    subject : str
        What errors are about.
    foreign : bool
        The file was not written by netsim: a time column of integers must say its unit in its name or field metadata.
    sort : bool
        Put ops in the order rank, stream, seq.
    partial : bool
        Some required columns were not asked for.

    Raises
    ------
    InputError
        Unknown profile, missing column, wrong type, null where none is allowed, number out of range, unknown operation.
    """
    if profile not in schema.COLUMNS:
        raise InputError(subject, "unknown profile", got=repr(profile), remedy=closest(profile, schema.COLUMNS))
    columns = schema.COLUMNS[profile]
    table, notes = _convert(table, columns, subject, foreign, partial)
    if profile == "ops" and sort:
        table, moved = sort_ops(table)
        if moved:
            notes.append("rows were not in the order rank, stream, seq: sorted")
    return table, notes


def normalise_side(table: Any, name: str, *, subject: str = "trace") -> Any:
    """The canonical form of a side table (``comms``, ``ranks``, ``phases``); unknown columns are dropped."""
    return _convert(table, schema.SIDE_TABLES[name], f"{subject} table {name}", False)[0]


def sort_ops(table: Any) -> tuple[Any, bool]:
    """The table in the order rank, stream, seq (stable), and whether anything had to move."""
    n = table.num_rows
    if n < 2:
        return table, False
    keys = [table.column(name).to_numpy() for name in ("seq", "stream", "rank") if name in table.column_names]
    later = np.zeros(n - 1, dtype=bool)  # row i+1 belongs before row i
    for key in keys:
        later = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & later)
    if not later.any():
        return table, False
    return table.take(pa.array(np.lexsort(keys))), True


def rank_ranges(ranks: Any) -> str:
    """Ranks for people, in ranges.

    >>> rank_ranges([5, 0, 1, 2, 7])
    'ranks 0-2, 5, 7'
    """
    ordered = np.unique(np.asarray(ranks, dtype=np.int64))
    pieces = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    shown = [f"{p[0]}-{p[-1]}" if p.size > 1 else str(p[0]) for p in pieces if p.size]
    more = f", ... ({ordered.size} in all)" if len(shown) > 8 else ""
    return ("rank " if ordered.size == 1 else "ranks ") + ", ".join(shown[:8]) + more


def _convert(
    table: Any, columns: Mapping[str, Column], subject: str, foreign: bool, partial: bool = False
) -> tuple[Any, list[str]]:
    present = table.column_names
    twice = sorted({name for name in present if present.count(name) > 1})
    if twice:
        raise InputError(f"{subject} column {twice[0]}", "occurs more than once")
    for spec in columns.values():
        if spec.required and spec.name not in present and not partial:
            raise InputError(
                subject, "required column is missing", got=f"no {spec.name!r}", remedy=f"columns: {_some(present)}"
            )
    notes = []
    extra = sorted(set(present) - set(columns))
    if extra:
        notes.append(f"unknown columns ignored: {_some(extra)}")
    fields, arrays = [], []
    for spec in columns.values():
        if spec.name not in present:
            continue
        field = table.schema.field(spec.name)
        data = table.column(spec.name)
        target = schema.arrow_type(spec)
        where = f"{subject} column {spec.name}"
        if data.type != target or spec.type == "name":
            data, lost = _cast(data, field, spec, where, foreign, table)
            notes += lost
        elif foreign and spec.is_time and not spec.name.endswith("_ns"):
            data, lost = _integer_time(data, field, spec, where, foreign)
            notes += lost
        if data.null_count and not spec.nullable:
            raise InputError(where, "must not be null", got=count(data.null_count, "null row"))
        if spec.is_list and _null_entries(data):
            raise InputError(where, "entries of lists must not be null", got=count(_null_entries(data), "null entry"))
        fields.append(
            pa.field(spec.name, target, nullable=spec.nullable, metadata={"unit": spec.unit} if spec.unit else None)
        )
        arrays.append(data)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), notes


def _null_entries(lists: Any) -> int:
    values = pc.list_flatten(lists)
    if pa.types.is_struct(values.type):
        return int(values.null_count + sum(pc.struct_field(values, i).null_count for i in (0, 1)))
    return int(values.null_count)


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


def _cast(data: Any, field: Any, spec: Column, where: str, foreign: bool, table: Any) -> tuple[Any, list[str]]:
    """Column in the type of the schema."""
    target = schema.arrow_type(spec)
    if pa.types.is_null(data.type):
        return pa.chunked_array([pa.nulls(len(data), type=target)], type=target), []
    if spec.type in ("name", "string"):
        return _names(data, spec, where, table), []
    if spec.is_time and not spec.is_list:
        return _integer_time(data, field, spec, where, foreign)
    if spec.is_list and not (pa.types.is_list(data.type) or pa.types.is_large_list(data.type)
                             or pa.types.is_fixed_size_list(data.type)):  # fmt: skip
        raise InputError(where, f"must hold {spec.type}", got=str(data.type))
    if not spec.is_list and spec.type != "float64":
        return _integers(data, target, where), []
    if spec.type == "float64" and not (pa.types.is_floating(data.type) or pa.types.is_integer(data.type)):
        raise InputError(where, "must hold numbers", got=str(data.type))
    try:
        return data.cast(target), []
    except pa.ArrowException as error:
        raise InputError(where, f"must hold {spec.type}", got=f"{data.type} ({_first_line(error)})") from None


def _integers(data: Any, target: Any, where: str) -> Any:
    if pa.types.is_floating(data.type):
        # pandas turns an integer column with holes into floats with NaN.
        data = pc.if_else(pc.is_nan(data), pa.scalar(None, type=data.type), data)
        broken = data.filter(pc.not_equal(pc.floor(data), data))
        if len(broken):
            raise InputError(where, "must hold whole numbers", got=broken[0].as_py())
    elif not pa.types.is_integer(data.type):
        raise InputError(where, "must hold whole numbers", got=str(data.type))
    try:
        return data.cast(target)
    except pa.ArrowException:
        ends = pc.min_max(data)
        bits = np.iinfo(target.to_pandas_dtype())
        worst = ends["max"].as_py() if ends["max"].as_py() > bits.max else ends["min"].as_py()
        raise InputError(where, f"must hold whole numbers from {bits.min} to {bits.max}", got=worst) from None


def _integer_time(data: Any, field: Any, spec: Column, where: str, foreign: bool) -> tuple[Any, list[str]]:
    """Times in int64 ns; the unit is in the Arrow type, the field metadata, the name, or known as the file is ours."""
    kind = data.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit, data = kind.unit, data.cast(pa.int64())
    else:
        declared = (field.metadata or {}).get(b"unit", b"").decode()
        unit = declared or ("ns" if spec.name.endswith("_ns") or not foreign else "")
        if not unit:
            raise InputError(
                where,
                "a time column of plain integers must say its unit",
                got=str(kind),
                remedy="store an Arrow timestamp or duration, or put the unit (ns, us, ms, s) in the field metadata",
            )
        if unit not in _NS_PER_UNIT:
            raise InputError(where, "unknown unit of time", got=repr(unit), remedy="use ns, us, ms or s")
        data = _integers(data, pa.int64(), where)
    factor = _NS_PER_UNIT[unit]
    if factor == 1:
        return data, []
    try:
        scaled = pc.multiply_checked(data, pa.scalar(factor, type=pa.int64()))
    except pa.ArrowException:
        raise InputError(where, "times in ns must fit 64 bits", got=f"unit {unit}") from None
    return scaled, [f"column {spec.name}: stored in {unit}, so times are only exact to {unit}"]


def _names(data: Any, spec: Column, where: str, table: Any) -> Any:
    kind = data.type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(value) or pa.types.is_large_string(value) or str(value) == "string_view"):
        raise InputError(where, "must hold names", got=str(kind))
    if spec.type == "string":
        return data.cast(pa.string())
    if not pa.types.is_dictionary(kind):
        data = data.cast(pa.string()).dictionary_encode()
    if data.type.value_type != pa.string():
        data = pa.chunked_array(
            [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.string())) for c in data.chunks]
        )
    target = schema.arrow_type(spec)
    if spec.name == "op":
        chunks = [_op_chunk(chunk) for chunk in data.chunks]
        bad = [i for i, (_, unknown) in enumerate(chunks) if unknown]
        if bad:
            raise _unknown_op(data, table, where)
        return pa.chunked_array([chunk for chunk, _ in chunks], type=target)
    return data.cast(target).unify_dictionaries() if data.num_chunks else data.cast(target)


def _op_chunk(chunk: Any) -> tuple[Any, bool]:
    """Chunk over the vocabulary of the schema, and whether it uses a name that is not in it."""
    if chunk.dictionary.equals(_OP_DICTIONARY) and chunk.indices.type == pa.int8():
        return chunk, False
    code = pc.index_in(chunk.dictionary, value_set=_OP_DICTIONARY)  # null where unknown
    indices = code.take(chunk.indices)
    unknown = bool(indices.null_count > chunk.null_count)
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int8()), _OP_DICTIONARY), unknown


def _unknown_op(data: Any, table: Any, where: str) -> InputError:
    """Names that are not in the vocabulary, each with how often and on which ranks."""
    names = np.asarray(pc.fill_null(data.cast(pa.string()), "(null)").to_numpy(), dtype=object)
    ranks = table.column("rank").to_numpy() if "rank" in table.column_names else np.zeros(len(names), dtype=np.int64)
    known = np.isin(names, [*schema.OP_NAMES, "(null)"])
    unknown = sorted(set(names[~known].tolist()))
    found = []
    for name in unknown:
        at = names == name
        found.append(f"{name!r} x {int(at.sum())} on {rank_ranges(ranks[at])}")
    hint = closest(unknown[0], schema.OP_NAMES).split(" valid:")[0]
    suggest = len(unknown) == 1 and hint.startswith("did you mean")
    remedy = hint if suggest else "map them to the vocabulary in docs/trace-format.md"
    return InputError(where, "unknown operations", got="; ".join(found[:8]), remedy=remedy)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
