"""Optical circuits: which to light (E-EFI and its rivals), when (plans, controllers), and what they carry."""

from netsim.optics.circuits import OPTICAL, Circuits, electrical, with_circuits
from netsim.optics.control import CircuitControl, Window
from netsim.optics.demands import SwitchDemand, demand_between_switches, switch_demand, switches_of_hosts
from netsim.optics.fabric import OpticalNetwork, optical_network
from netsim.optics.hardware import CircuitSwitches, circuit_switches
from netsim.optics.loads import Index, efi_index, link_load, load_rules
from netsim.optics.plan import CircuitPlan, circuit_plan, rotor
from netsim.optics.revenue import eefi
from netsim.optics.rivals import exact, exhaustive
from netsim.optics.selection import Problem, Selection, select, selectors
from netsim.optics.settings import Optics, decider, pays_off
from netsim.optics.slotted import slot_circuits
from netsim.optics.topoopt import ring_strides

__all__ = [
    "OPTICAL",
    "CircuitControl",
    "CircuitPlan",
    "CircuitSwitches",
    "Circuits",
    "Index",
    "OpticalNetwork",
    "Optics",
    "Problem",
    "Selection",
    "SwitchDemand",
    "Window",
    "circuit_plan",
    "circuit_switches",
    "decider",
    "demand_between_switches",
    "eefi",
    "efi_index",
    "electrical",
    "exact",
    "exhaustive",
    "link_load",
    "load_rules",
    "optical_network",
    "pays_off",
    "ring_strides",
    "rotor",
    "select",
    "selectors",
    "slot_circuits",
    "switch_demand",
    "switches_of_hosts",
    "with_circuits",
]
