"""Workloads by name: what known applications communicate, at any number of ranks, with the formula behind every byte.

>>> from netsim.traffic.workloads import build
>>> build("tf-cg", n_ranks=5).n_ranks
5
"""

from __future__ import annotations

from netsim.traffic.workloads.bigdata import hadoop_shuffle, olap, spark, storm
from netsim.traffic.workloads.datacenter import FLOW_SIZES, FlowSizes, datacenter_flows, incast
from netsim.traffic.workloads.exchanges import crystal_router, fft, sweep3d
from netsim.traffic.workloads.halos import amg, halo3d, lulesh, minife, nekbone, stencil
from netsim.traffic.workloads.models import MODELS, ModelShape
from netsim.traffic.workloads.registry import WorkloadGenerator, build, workload, workloads
from netsim.traffic.workloads.serving import kv_migration, llm_serving, migration_rounds
from netsim.traffic.workloads.solvers import bicgstab, cg, hpl
from netsim.traffic.workloads.tensorflow import non_scaling_share, tf_cg, tf_fft, tf_matmul, tf_stream
from netsim.traffic.workloads.training import dlrm, llm_training, parameter_server, pipeline_order
from netsim.traffic.workloads.workflows import checkpoint, checkpoint_interval, workflow

__all__ = [
    "FLOW_SIZES",
    "MODELS",
    "FlowSizes",
    "ModelShape",
    "WorkloadGenerator",
    "amg",
    "bicgstab",
    "build",
    "cg",
    "checkpoint",
    "checkpoint_interval",
    "crystal_router",
    "datacenter_flows",
    "dlrm",
    "fft",
    "hadoop_shuffle",
    "halo3d",
    "hpl",
    "incast",
    "kv_migration",
    "llm_serving",
    "llm_training",
    "lulesh",
    "migration_rounds",
    "minife",
    "nekbone",
    "non_scaling_share",
    "olap",
    "parameter_server",
    "pipeline_order",
    "spark",
    "stencil",
    "storm",
    "sweep3d",
    "tf_cg",
    "tf_fft",
    "tf_matmul",
    "tf_stream",
    "workflow",
    "workload",
    "workloads",
]
