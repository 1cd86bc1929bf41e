"""What an algorithm does, for people: steps, bytes per member, formula, origin."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.errors import InputError
from netsim.core.units import format_bytes, format_time, parse_bytes
from netsim.traffic.collectives.call import Call, PairBytes
from netsim.traffic.collectives.registry import Algorithm, build, closed_form_s, resolve
from netsim.traffic.collectives.rules import select
from netsim.traffic.collectives.schedule import Schedule, at_most

__all__ = ["Explanation", "explain"]

_ROWS = 20
_PAIRS = 4
# What can be listed in seconds and 2 GB.
_MOST_MESSAGES = 10**7
_SMALL = (32, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A schedule with what is to be said about it.

    Attributes
    ----------
    algorithm : Algorithm
    schedule : Schedule
    terms : (float, float) or None
        Closed form on a non-blocking star: number of latencies, and bytes sent one after the other.
    time_s : float or None
        Its value, if a latency and a bandwidth were given.
    """

    algorithm: Algorithm
    schedule: Schedule
    terms: tuple[float, float] | None
    time_s: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The step table; neighbouring steps with the same pairs and sizes make one row."""
        schedule = self.schedule
        ptr = schedule.step_ptr
        rows: list[dict[str, Any]] = []
        last: tuple[bytes, ...] = ()
        for k in range(schedule.n_steps):
            at = slice(int(ptr[k]), int(ptr[k + 1]))
            size, src, dst = schedule.size_bytes[at], schedule.src[at], schedule.dst[at]
            if size.size == 0:
                continue
            order = np.lexsort((dst, src))
            same = (
                src[order].tobytes(),
                dst[order].tobytes(),
                np.sort(size).tobytes(),
                schedule.combine[at][order].tobytes(),
            )
            if same == last and rows[-1]["last_step"] == k - 1:
                rows[-1]["last_step"] = k
                continue
            last = same
            reduces = int(schedule.combine[at].sum())
            rows.append(
                {
                    "first_step": k,
                    "last_step": k,
                    "messages": int(size.size),
                    "min_bytes": int(size.min()),
                    "max_bytes": int(size.max()),
                    "receiver": "reduces" if reduces == size.size else "stores" if reduces == 0 else "both",
                    "pairs": [(int(s), int(d)) for s, d in zip(src[:_PAIRS], dst[:_PAIRS])],
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        schedule, call = self.schedule, self.schedule.call
        return {
            "op": call.op,
            "algorithm": schedule.algorithm,
            "n": call.n,
            "size_bytes": call.size_bytes,
            "root": call.root,
            "summary": self.algorithm.summary,
            "source": self.algorithm.source,
            "formula": self.algorithm.formula,
            "latency_terms": None if self.terms is None else self.terms[0],
            "serial_bytes": None if self.terms is None else self.terms[1],
            "time_s": self.time_s,
            "n_steps": schedule.n_steps,
            "n_messages": schedule.n_messages,
            "total_bytes": schedule.total_bytes,
            "sent_bytes": _spread(schedule.sent_bytes),
            "received_bytes": _spread(schedule.received_bytes),
            "steps": self.rows(),
        }

    def lines(self) -> list[str]:
        """Text for the terminal, at most about 30 lines."""
        facts = self.to_dict()
        call = self.schedule.call
        head = f"{facts['algorithm']}, {call.n} members"
        if call.size_bytes:
            head += f", {call.size_bytes} B"
        if call.root:
            head += f", root {call.root}"
        out = [head, f"  {facts['summary']}", f"  Source: {facts['source']}", f"  Star:   {facts['formula']}"]
        if self.terms is not None:
            out.append(f"          = {self.terms[0]:g} a + {format_bytes(self.terms[1])}/B" + self._time())
        out += ["", f"  {'step':>11}  {'messages':>8}  {'bytes each':>23}  {'receiver':<8}  pairs"]
        rows = facts["steps"]
        shown = rows if len(rows) <= _ROWS else [*rows[: _ROWS - 3], None, *rows[-2:]]
        for row in shown:
            out.append(f"  {'...':>11}  ({len(rows) - _ROWS + 1} more rows)" if row is None else _line(row))
        if not rows:
            out.append(f"  {'-':>11}  no messages")
        out += [
            "",
            f"  {facts['n_steps']} steps, {facts['n_messages']} messages, {facts['total_bytes']} B in total",
            "  sent per member:     " + _spread_text(facts["sent_bytes"]),
            "  received per member: " + _spread_text(facts["received_bytes"]),
        ]
        return out

    def _time(self) -> str:
        return "" if self.time_s is None else f" = {format_time(self.time_s)}"


def _spread(values: npt.NDArray[np.int64]) -> dict[str, float]:
    return {"min": int(values.min()), "mean": int(values.sum()) / values.size, "max": int(values.max())}


def _spread_text(spread: dict[str, float]) -> str:
    return f"min {spread['min']} B, mean {spread['mean']:.10g} B, max {spread['max']} B"


def _line(row: dict[str, Any]) -> str:
    first, last, low, high = row["first_step"], row["last_step"], row["min_bytes"], row["max_bytes"]
    step = str(first) if first == last else f"{first}-{last}"
    size = str(low) if low == high else f"{low}-{high}"
    pairs = " ".join(f"{s}->{d}" for s, d in row["pairs"]) + (" ..." if row["messages"] > len(row["pairs"]) else "")
    return f"  {step:>11}  {row['messages']:>8}  {size:>23}  {row['receiver']:<8}  {pairs}"


def _check_count(call: Call, algorithm: str, name: str) -> None:
    """Refuse what would clearly have too many messages, going by the same call of few members.

    Counts of messages grow as a + b n + c n log n + d n^2; where that is not quite so, the factor of 2 leaves it to the
    count while building.
    """
    if call.n <= _SMALL[-1] or call.irregular:
        return
    counts = []
    for n in _SMALL:
        try:
            with at_most(_MOST_MESSAGES):
                counts.append(build(replace(call, n=n, root=min(call.root, n - 1)), algorithm=algorithm).n_messages)
        except InputError:
            # The algorithm wants other numbers of members, or has too many messages for any.
            return
    weight = np.linalg.solve([_growth(n) for n in _SMALL], counts)

    def count(n: int) -> float:
        return float(weight @ _growth(n))

    if count(call.n) <= 2 * _MOST_MESSAGES:
        return
    few, many = _SMALL[-1], call.n
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if count(middle) <= _MOST_MESSAGES else (few, middle)
    unit = 10 ** max(len(str(few)) - 2, 0)
    raise InputError(
        f"explain {name}",
        f"must have at most {_MOST_MESSAGES} messages",
        got=f"about {count(call.n):.2g} for {call.n} members",
        remedy=f"take {few // unit * unit} members or fewer",
    )


def _growth(n: int) -> list[float]:
    return [1.0, float(n), n * math.log2(n), float(n) * n]


def explain(
    op: str,
    *,
    n: int,
    algorithm: str | None = None,
    size_bytes: int | str = 0,
    root: int = 0,
    block_bytes: npt.ArrayLike | None = None,
    pairs: PairBytes | None = None,
    rules: str = "mpich",
    alpha_s: float | None = None,
    bytes_per_s: float | None = None,
) -> Explanation:
    """Explain an algorithm on a call.

    Parameters
    ----------
    op : str
        Operation: ``"allreduce"``.
    n : int
        Members.
    algorithm : str, optional
        ``"ring"``, ``"chain(segments=10)"``; without it what ``rules`` select.
    size_bytes : int or str
        As in ``Call``; text may have a unit: ``"1MiB"``.
    root, block_bytes, pairs
        As in ``Call``.
    rules : str
        Selection rules, see ``select``.
    alpha_s, bytes_per_s : float, optional
        Latency and bandwidth at which to evaluate the closed form.

    Raises
    ------
    InputError
        Unknown names, a call the algorithm does not serve, or more than 10 million messages; those are foreseen, not
        built.

    Examples
    --------
    >>> print("\\n".join(explain("allreduce", algorithm="ring", n=4, size_bytes=1000).lines()[4:]))
              = 6 a + 1.5 kB/B
    <BLANKLINE>
             step  messages               bytes each  receiver  pairs
              0-2         4                      250  reduces   0->1 1->2 2->3 3->0
              3-5         4                      250  stores    0->1 1->2 2->3 3->0
    <BLANKLINE>
      6 steps, 24 messages, 6000 B in total
      sent per member:     min 1500 B, mean 1500 B, max 1500 B
      received per member: min 1500 B, mean 1500 B, max 1500 B
    """
    size = parse_bytes(size_bytes) if isinstance(size_bytes, str) else size_bytes
    call = Call(op=op, n=n, size_bytes=size, root=root, block_bytes=block_bytes, pairs=pairs)
    name = select(call, rules=rules) if algorithm is None else algorithm
    found, parameters = resolve(op=op, algorithm=name)
    _check_count(call, name, found.name)
    with at_most(_MOST_MESSAGES):
        schedule = build(call, algorithm=name)
    terms = found.cost(call, **parameters) if found.cost is not None and call.n > 1 else None
    time_s = None
    if terms is not None and alpha_s is not None and bytes_per_s is not None:
        time_s = closed_form_s(call, algorithm=name, alpha_s=alpha_s, bytes_per_s=bytes_per_s)
    return Explanation(algorithm=found, schedule=schedule, terms=terms, time_s=time_s)
