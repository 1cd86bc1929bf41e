"""Studies: many runs that answer one question."""

from netsim.study.jobs import Interference, Job, JobRun, run_jobs
from netsim.study.load import LoadCurve, LoadPoint, load_curve
from netsim.study.optics import Arm, compare_optics

__all__ = ["Arm", "Interference", "Job", "JobRun", "LoadCurve", "LoadPoint", "compare_optics", "load_curve", "run_jobs"]
