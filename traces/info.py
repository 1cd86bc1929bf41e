"""What is in a trace, on one screen: sizes, operations, who talked to whom, integrity, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.text import count
from netsim.core.units import format_bytes, format_time
from netsim.traces.check import CheckReport, check_trace
from netsim.traces.schema import FLAG, NO_TIME, OP_CODE, OP_NAMES, OPS, op_codes
from netsim.traces.times import strange_durations
from netsim.traces.trace import Trace

__all__ = ["OpCount", "PairVolume", "TraceInfo", "describe_trace"]

_SHADES = " .:-=+*#%@"
_QUANTILES = {"min": 0.0, "median": 0.5, "90 %": 0.9, "99 %": 0.99, "max": 1.0}


@dataclass(frozen=True, kw_only=True)
class OpCount:
    """Calls of one operation: how many, on how many ranks, and the sum of ``bytes``."""

    op: str
    calls: int
    ranks: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class PairVolume:
    """Point-to-point traffic from one rank to another."""

    source: int
    destination: int
    bytes: int
    messages: int


@dataclass(frozen=True, kw_only=True)
class TraceInfo:
    """Summary of a trace; ``lines()`` for people, ``to_dict()`` for programs.

    Attributes
    ----------
    profile, content_hash : str
    n_rows, n_ranks, n_streams : int
    ops : tuple of OpCount
        Largest counts first.
    p2p_bytes, p2p_messages : int
        Messages sent, or the flows or matrix entries.
    collective_bytes, collective_calls : int
        Sum of ``bytes`` over the collective calls of all ranks; what that costs depends on the algorithm.
    message_bytes : dict of str to int
        Quantiles of the sizes of messages.
    pairs : tuple of PairVolume
        The largest ones.
    n_pairs : int
    heat : tuple of tuple of int
        Bytes between blocks of ranks, at most 64 by 64.
    heat_ranks : int
        Ranks per block.
    n_comms : int
    comms : tuple of (str, int, int)
        Name, size, calls; the most used ones.
    phases : tuple of (str, int)
        Name and rows.
    time_range_s : tuple of float or None
        First start and last end.
    meta : dict
    check : CheckReport or None
    """

    profile: str
    content_hash: str
    n_rows: int
    n_ranks: int
    n_streams: int
    ops: tuple[OpCount, ...]
    p2p_bytes: int
    p2p_messages: int
    collective_bytes: int
    collective_calls: int
    message_bytes: dict[str, int]
    pairs: tuple[PairVolume, ...]
    n_pairs: int
    heat: tuple[tuple[int, ...], ...]
    heat_ranks: int
    n_comms: int
    comms: tuple[tuple[str, int, int], ...]
    phases: tuple[tuple[str, int], ...]
    time_range_s: tuple[float, float] | None
    meta: dict[str, Any]
    check: CheckReport | None

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, ready for ``json.dumps``."""
        return asdict(self) | {"check": self.check.to_dict() if self.check is not None else None}

    def lines(self, *, heat: bool = True) -> list[str]:
        """The summary for a terminal of 100 columns; ``heat=False`` leaves out the map of who talked to whom."""
        out = [
            f"{count(self.n_rows, 'row')} of {count(self.n_ranks, 'rank')}, profile {self.profile}, content {self.content_hash[:12]}"
        ]
        if self.n_streams > 1:
            out[0] += f", {self.n_streams} streams"
        out += _source_lines(self.meta)
        if self.time_range_s is not None:
            first, last = self.time_range_s
            clock, quality = self.meta["time"], self.meta["time_quality"]
            kind = f" ({clock} clocks, quality {quality})" if clock != "none" else ""
            out.append(f"time      {format_time(last - first)}{kind}")
        else:
            out.append("time      not recorded")
        if self.ops:
            more = f"; {count(len(self.ops) - 8, 'other kind')}" if len(self.ops) > 8 else ""
            out.append("calls     " + "; ".join(_op_text(o) for o in self.ops[:8]) + more)
        if self.p2p_messages:
            pairs = count(self.n_pairs, "pair of ranks")
            out.append(f"messages  {self.p2p_messages:,}, {format_bytes(self.p2p_bytes)}, over {pairs}")
            out.append("sizes     " + ", ".join(f"{k} {format_bytes(v)}" for k, v in self.message_bytes.items()))
        if self.collective_calls:
            volume = format_bytes(self.collective_bytes)
            out.append(
                f"collect.  {count(self.collective_calls, 'call')}, in which the ranks pass {volume} to the library"
            )
        if not self.p2p_messages and not self.collective_calls:
            out.append("no communication")
        if self.n_comms > 1:
            most = ", ".join(
                f"{name} ({count(size, 'rank')}, {count(calls, 'call')})" for name, size, calls in self.comms[:4]
            )
            out.append(f"comms     {self.n_comms}: {most}" + (" ..." if self.n_comms > 4 else ""))
        if self.phases:
            out.append("phases    " + ", ".join(f"{n} ({count(rows, 'row')})" for n, rows in self.phases[:6]))
        if self.pairs:
            text = ", ".join(f"{p.source} to {p.destination}: {format_bytes(p.bytes)}" for p in self.pairs[:5])
            out.append(f"largest   {text}")
        if heat and self.p2p_bytes:
            out += _heat_lines(self.heat, self.heat_ranks)
        if self.check is not None:
            out += _indent("integrity", self.check.lines())
        ledger = sorted(self.meta["ledger"].items(), key=lambda item: (-item[1], item[0]))
        if ledger:
            more = f", {count(len(ledger) - 6, 'other kind')}" if len(ledger) > 6 else ""
            out.append("ledger    " + ", ".join(f"{name}: {n:,}" for name, n in ledger[:6]) + more)
        return out + _indent("notes", [_clip(note) for note in self.meta["notes"][:5]])


def describe_trace(trace: Trace, *, check: bool = True) -> TraceInfo:
    """Summarise a trace.

    Parameters
    ----------
    trace : Trace
    check : bool
        Also run ``check_trace``.

    Examples
    --------
    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "send", "peer": 1, "tag": 7, "bytes": 1000},
    ...     {"rank": 1, "op": "recv", "peer": 0, "tag": 7, "bytes": 1000}])
    >>> for line in describe_trace(trace).lines(heat=False)[1:]: print(line)
    time      not recorded
    calls     1 send (1 kB); 1 recv
    messages  1, 1 kB, over 1 pair of ranks
    sizes     min 1 kB, median 1 kB, 90 % 1 kB, 99 % 1 kB, max 1 kB
    largest   0 to 1: 1 kB
    integrity 2 rows of 2 ranks, 23 rules: all hold
    """
    source, destination, size, count = _messages(trace)
    n_pairs, pairs = _pairs(source, destination, size, count, max(trace.n_ranks, 1))
    heat, heat_ranks = _heat(source, destination, size, trace.n_ranks)
    ops = _ops(trace) if trace.profile == "ops" else ()
    collective = {OP_NAMES[code] for code in op_codes("collective")}
    meta = asdict(trace.meta)
    meta["source"] = dict(trace.meta.source)
    return TraceInfo(
        profile=trace.profile,
        content_hash=trace.content_hash,
        n_rows=trace.n_rows,
        n_ranks=trace.n_ranks,
        n_streams=int(trace.column("stream").max(initial=0)) + 1 if trace.profile == "ops" else 1,
        ops=ops,
        p2p_bytes=int(size.sum()),
        p2p_messages=int(count.sum()),
        collective_bytes=sum(o.bytes for o in ops if o.op in collective),
        collective_calls=sum(o.calls for o in ops if o.op in collective),
        message_bytes=_quantiles(size, count),
        pairs=pairs,
        n_pairs=n_pairs,
        heat=heat,
        heat_ranks=heat_ranks,
        n_comms=trace.comms.n,
        comms=_comms(trace),
        phases=_phases(trace),
        time_range_s=_time_range(trace),
        meta=meta,
        check=check_trace(trace) if check else None,
    )


# ---- counting


def _messages(trace: Trace) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Source, destination, bytes and number of messages: of each send, flow or matrix entry."""
    if trace.profile != "ops":
        src, dst, size = (trace.column(name).astype(np.int64) for name in ("src", "dst", "bytes"))
        count = trace.column("count") if trace.profile == "matrix" else np.ones(size.size, dtype=np.int64)
        return src, dst, size, count
    sent = (trace.column("op") == OP_CODE["send"]) & ((trace.column("flags") & FLAG["cancelled"]) == 0)
    row = np.flatnonzero(sent & (trace.column("peer") >= 0))
    rank, peer, size = (trace.column(name)[row].astype(np.int64) for name in ("rank", "peer", "bytes"))
    return rank, peer, size, np.ones(row.size, dtype=np.int64)


def _ops(trace: Trace) -> tuple[OpCount, ...]:
    op, rank = trace.column("op").astype(np.int64), trace.column("rank").astype(np.int64)
    calls = np.bincount(op, minlength=len(OPS))
    width = max(trace.n_ranks, 1)
    ranks = np.bincount(np.unique(op * width + rank) // width, minlength=len(OPS))
    size = np.zeros(len(OPS), dtype=np.int64)
    np.add.at(size, op, trace.column("bytes"))
    used = np.flatnonzero(calls)
    order = used[np.argsort(-calls[used], kind="stable")].tolist()
    return tuple(OpCount(op=OP_NAMES[c], calls=int(calls[c]), ranks=int(ranks[c]), bytes=int(size[c])) for c in order)


def _pairs(source: Any, destination: Any, size: Any, count: Any, n: int) -> tuple[int, tuple[PairVolume, ...]]:
    """How many pairs of ranks talk, and the ten that exchange most bytes."""
    key, inverse = np.unique(source * n + destination, return_inverse=True)
    volume, messages = np.zeros((2, key.size), dtype=np.int64)
    np.add.at(volume, inverse, size)
    np.add.at(messages, inverse, count)
    top = np.argsort(-volume, kind="stable")[:10].tolist()
    found = [(*divmod(int(key[k]), n), int(volume[k]), int(messages[k])) for k in top]
    return key.size, tuple(PairVolume(source=s, destination=d, bytes=b, messages=m) for s, d, b, m in found)


def _heat(source: Any, destination: Any, size: Any, n_ranks: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Bytes between blocks of ranks, and ranks per block."""
    block = max(1, -(-n_ranks // 64))
    n = -(-n_ranks // block)
    total = np.zeros((n, n), dtype=np.int64)
    np.add.at(total, (source // block, destination // block), size)
    return tuple(tuple(row) for row in total.tolist()), block


def _quantiles(size: Any, count: Any) -> dict[str, int]:
    """Quantiles of message sizes; a matrix entry counts as messages of its mean size."""
    sent = count > 0
    if not sent.any():
        return {}
    each, weight = size[sent] // count[sent], count[sent]
    order = np.argsort(each, kind="stable")
    reached = np.cumsum(weight[order])
    at = np.searchsorted(reached, np.maximum(np.ceil(np.array(list(_QUANTILES.values())) * reached[-1]), 1))
    return {name: int(each[order][k]) for name, k in zip(_QUANTILES, at.tolist(), strict=True)}


def _comms(trace: Trace) -> tuple[tuple[str, int, int], ...]:
    """Name, size and calls of the ten most used communicators."""
    if trace.profile != "ops":
        return ()
    calls = np.bincount(trace.column("comm"), minlength=trace.comms.n)
    top = np.argsort(-calls, kind="stable")[:10].tolist()
    return tuple((trace.comms.name[c], trace.comms.size(c), int(calls[c])) for c in top)


def _phases(trace: Trace) -> tuple[tuple[str, int], ...]:
    if trace.phases is None or not trace.has("phase"):
        return ()
    phase = trace.column("phase")
    rows = np.bincount(phase[phase >= 0], minlength=trace.phases.num_rows)
    return tuple(zip(trace.phases.column("name").to_pylist(), rows.tolist(), strict=True))


def _time_range(trace: Trace) -> tuple[float, float] | None:
    if trace.profile == "flows" and trace.n_rows:
        start = trace.column("start_ns")
        return float(start.min()) * 1e-9, float(start.max()) * 1e-9
    if trace.profile != "ops" or not trace.has("t_start"):
        return None
    start = trace.column("t_start")
    end = trace.column("t_end") if trace.has("t_end") else start
    # One damaged duration must not stretch the run by centuries; the integrity lines name it.
    known = (start != NO_TIME) & ~strange_durations(trace)
    if not known.any():
        return None
    return float(start[known].min()) * 1e-9, float(max(start[known].max(), end[known].max())) * 1e-9


# ---- printing


def _source_lines(meta: dict[str, Any]) -> list[str]:
    out = []
    if meta["source"]:
        out.append("source    " + _clip(", ".join(f"{k} {v}" for k, v in sorted(meta["source"].items())), 200))
    if meta["complete"] != "true":
        out.append(f"INCOMPLETE: {meta['complete']}")
    for name in ("provenance", "licence"):
        if meta[name]:
            out.append(f"{name:<9} " + _clip(meta[name]))
    return out


def _op_text(op: OpCount) -> str:
    return f"{op.calls:,} {op.op}" + (f" ({format_bytes(op.bytes)})" if op.bytes and op.op != "recv" else "")


def _heat_lines(heat: tuple[tuple[int, ...], ...], block: int) -> list[str]:
    """The map: sources downwards, destinations across, on a logarithmic scale; some sources share a line to fit."""
    total = np.array(heat, dtype=np.float64)
    n = len(total)
    per_line = -(-n // 22)
    rows = np.add.reduceat(total, np.arange(0, n, per_line), axis=0)
    some = rows[rows > 0]
    low, high = float(some.min()), float(some.max())
    step = np.log(high / low) / (len(_SHADES) - 2) if high > low else 1.0
    with np.errstate(divide="ignore"):
        level = np.where(rows > 0, 1 + np.round(np.log(np.maximum(rows, low) / low) / step), 0).astype(int)
    wide = 2 if n <= 22 else 1
    unit = f"{per_line * block} x {block} ranks per character, " if per_line * block > 1 else ""
    scale = f"'{_SHADES[1]}' {format_bytes(low)} to '{_SHADES[-1]}' {format_bytes(high)}"
    lines = [f"who sends to whom (down: from, across: to; {unit}{scale})"]
    for i, line in enumerate(level.tolist()):
        lines.append(f"{i * per_line * block:>8}  |" + "".join(_SHADES[k] * wide for k in line) + "|")
    return lines


def _indent(label: str, lines: list[str]) -> list[str]:
    return [f"{label if i == 0 else '':<9} {line}" for i, line in enumerate(lines)]


def _clip(text: str, width: int = 160) -> str:
    return text if len(text) <= width else text[: width - 4] + " ..."
