"""netsim: replay what applications really communicate on electrical and optical networks.

>>> import netsim as ns
>>> ns.topologies.dragonfly(p=2, a=4, h=2).n_hosts
72

Sub-packages load on first use, so that ``import netsim`` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim import engine, jobs, optics, routing, testing, topologies, traces, traffic
    from netsim.api import replay, simulate
    from netsim.results import Result, read_result
    from netsim.traces import Trace, read_trace

__version__ = "0.1.0"

_MODULES = ("engine", "jobs", "optics", "routing", "testing", "topologies", "traces", "traffic")
_NAMES = {
    "replay": "netsim.api",
    "simulate": "netsim.api",
    "Result": "netsim.results",
    "read_result": "netsim.results",
    "Trace": "netsim.traces",
    "read_trace": "netsim.traces",
}

__all__ = [
    "Result",
    "Trace",
    "engine",
    "jobs",
    "optics",
    "read_result",
    "read_trace",
    "replay",
    "routing",
    "simulate",
    "testing",
    "topologies",
    "traces",
    "traffic",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"netsim.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'netsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
