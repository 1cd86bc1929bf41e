"""Workloads by name: what known applications communicate, at any number of ranks, with the formula behind every byte.

>>> from netsim.traffic.workloads import build
>>> build("tf-cg", n_ranks=5).n_ranks
5
"""

from __future__ import annotations

from netsim.traffic.workloads.exchanges import crystal_router, fft, sweep3d
from netsim.traffic.workloads.halos import amg, halo3d, lulesh, minife, nekbone, stencil
from netsim.traffic.workloads.registry import WorkloadGenerator, build, workload, workloads
from netsim.traffic.workloads.solvers import bicgstab, cg, hpl
from netsim.traffic.workloads.tensorflow import non_scaling_share, tf_cg, tf_fft, tf_matmul, tf_stream

__all__ = [
    "WorkloadGenerator",
    "amg",
    "bicgstab",
    "build",
    "cg",
    "crystal_router",
    "fft",
    "halo3d",
    "hpl",
    "lulesh",
    "minife",
    "nekbone",
    "non_scaling_share",
    "stencil",
    "sweep3d",
    "tf_cg",
    "tf_fft",
    "tf_matmul",
    "tf_stream",
    "workload",
    "workloads",
]
