"""Traces: what ranks did, one row per call; Parquet on disk, Arrow in memory.

Names load on first use, so that the constants of ``netsim.traces.schema`` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.traces._validate import validate
    from netsim.traces.check import CheckReport, Finding, check_trace
    from netsim.traces.info import TraceInfo, describe_trace
    from netsim.traces.io import TraceWriter, iter_batches, read_trace, write_trace
    from netsim.traces.repair import drop_incomplete, drop_missing_ranks, drop_rows
    from netsim.traces.trace import Communicators, Trace, TraceMeta

_NAMES = {
    "CheckReport": "check",
    "Communicators": "trace",
    "Finding": "check",
    "Trace": "trace",
    "TraceInfo": "info",
    "TraceMeta": "trace",
    "TraceWriter": "io",
    "check_trace": "check",
    "describe_trace": "info",
    "drop_absurd_times": "times",
    "drop_incomplete": "repair",
    "drop_missing_ranks": "repair",
    "drop_rows": "repair",
    "iter_batches": "io",
    "read_trace": "io",
    "recorded_span_s": "times",
    "validate": "_validate",
    "write_trace": "io",
}

__all__ = [
    "CheckReport",
    "Communicators",
    "Finding",
    "Trace",
    "TraceInfo",
    "TraceMeta",
    "TraceWriter",
    "check_trace",
    "describe_trace",
    "drop_absurd_times",
    "drop_incomplete",
    "drop_missing_ranks",
    "drop_rows",
    "iter_batches",
    "read_trace",
    "recorded_span_s",
    "validate",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"netsim.traces.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'netsim.traces' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
