"""Traffic: from traces to the tasks that replay them, with message protocols and collective algorithms.

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.traffic.lowering import Lowered, lower
    from netsim.traffic.messages import Messages
    from netsim.traffic.notes import Note
    from netsim.traffic.protocol import Protocol
    from netsim.traffic.taskgraph import GraphBuilder, TaskGraph
    from netsim.traffic.workload import Script, Workload

_NAMES = {
    "GraphBuilder": "taskgraph",
    "Lowered": "lowering",
    "Messages": "messages",
    "Note": "notes",
    "Protocol": "protocol",
    "Script": "workload",
    "TaskGraph": "taskgraph",
    "Workload": "workload",
    "lower": "lowering",
}

__all__ = [
    "GraphBuilder",
    "Lowered",
    "Messages",
    "Note",
    "Protocol",
    "Script",
    "TaskGraph",
    "Workload",
    "collectives",
    "lower",
    "workloads",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"netsim.traffic.{_NAMES[name]}"), name)
    if name in ("collectives", "workloads"):
        return importlib.import_module(f"netsim.traffic.{name}")
    raise AttributeError(f"module 'netsim.traffic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
