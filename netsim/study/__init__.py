"""Studies: many runs that answer one question."""

from netsim.study.load import LoadCurve, LoadPoint, load_curve
from netsim.study.optics import Arm, compare_optics

__all__ = ["Arm", "LoadCurve", "LoadPoint", "compare_optics", "load_curve"]
