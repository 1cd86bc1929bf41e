"""Schedules of optical circuit switches: demands taken apart into slots, and coflows on circuits and on packets."""

from netsim.optics.schedules.coflows import (
    Coflows,
    circuit_bound_s,
    cores_bound_s,
    packet_bound_s,
    parse_coflows,
    read_coflows,
)
from netsim.optics.schedules.cores import assign_rules, schedule_coflows
from netsim.optics.schedules.lists import circuit_rules, sunflow
from netsim.optics.schedules.orders import bssi, lp_bound_s, order_rules
from netsim.optics.schedules.packet import sincronia, varys, weaver
from netsim.optics.schedules.slots import (
    Slots,
    birkhoff_von_neumann,
    decompositions,
    eclipse,
    solstice,
    stuffing,
)
from netsim.optics.schedules.timetable import Timetable, check_timetable

__all__ = [
    "Coflows",
    "Slots",
    "Timetable",
    "assign_rules",
    "birkhoff_von_neumann",
    "bssi",
    "check_timetable",
    "circuit_bound_s",
    "circuit_rules",
    "cores_bound_s",
    "decompositions",
    "eclipse",
    "lp_bound_s",
    "order_rules",
    "packet_bound_s",
    "parse_coflows",
    "read_coflows",
    "schedule_coflows",
    "sincronia",
    "solstice",
    "stuffing",
    "sunflow",
    "varys",
    "weaver",
]
