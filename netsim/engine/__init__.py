"""The engine: replays a TaskGraph on links, event by event, with exact max-min sharing."""

from __future__ import annotations

from netsim.engine.flows import run_flows
from netsim.engine.inputs import CapacityChanges, Routes
from netsim.engine.simulation import Allocation, EngineResult, Progress, Simulation, critical_path, load_kernels

__all__ = [
    "Allocation",
    "CapacityChanges",
    "EngineResult",
    "Progress",
    "Routes",
    "Simulation",
    "critical_path",
    "load_kernels",
    "run_flows",
]
