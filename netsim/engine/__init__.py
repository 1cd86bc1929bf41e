"""The engine: replays a TaskGraph on links, event by event, with exact max-min sharing."""

from __future__ import annotations

from netsim.engine.control import Actions, Control, Transfers, View
from netsim.engine.failures import on_failure
from netsim.engine.flows import run_flows
from netsim.engine.inputs import CapacityChanges, Choices, Routes
from netsim.engine.multipath import MultiPath, PathSets, spray, sub_flows
from netsim.engine.rerouting import Rerouting
from netsim.engine.routed import ONE_PATH, Multipath, Routed, default_multipath, route_graph
from netsim.engine.simulation import Allocation, EngineResult, Progress, Simulation, critical_path, load_kernels

__all__ = [
    "ONE_PATH",
    "Actions",
    "Allocation",
    "CapacityChanges",
    "Choices",
    "Control",
    "EngineResult",
    "MultiPath",
    "Multipath",
    "PathSets",
    "Progress",
    "Rerouting",
    "Routed",
    "Routes",
    "Simulation",
    "Transfers",
    "View",
    "critical_path",
    "default_multipath",
    "load_kernels",
    "on_failure",
    "route_graph",
    "run_flows",
    "spray",
    "sub_flows",
]
