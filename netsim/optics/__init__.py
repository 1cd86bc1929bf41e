"""Optical circuits: which to light (E-EFI and its rivals), when (plans, controllers), and what they carry."""

from netsim.optics.circuits import OPTICAL, Circuits, electrical, with_circuits
from netsim.optics.demands import SwitchDemand, demand_between_switches, switch_demand, switches_of_hosts
from netsim.optics.hardware import CircuitSwitches, circuit_switches
from netsim.optics.loads import Index, efi_index, link_load, load_rules
from netsim.optics.plan import CircuitPlan, circuit_plan, rotor
from netsim.optics.revenue import eefi
from netsim.optics.rivals import exact, exhaustive
from netsim.optics.selection import Problem, Selection, select, selectors

__all__ = [
    "OPTICAL",
    "CircuitPlan",
    "CircuitSwitches",
    "Circuits",
    "Index",
    "Problem",
    "Selection",
    "SwitchDemand",
    "circuit_plan",
    "circuit_switches",
    "demand_between_switches",
    "eefi",
    "efi_index",
    "electrical",
    "exact",
    "exhaustive",
    "link_load",
    "load_rules",
    "rotor",
    "select",
    "selectors",
    "switch_demand",
    "switches_of_hosts",
    "with_circuits",
]
