"""Studies: many runs that answer one question."""

from netsim.study.optics import Arm, compare_optics

__all__ = ["Arm", "compare_optics"]
