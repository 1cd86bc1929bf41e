"""Pictures of networks; what needs matplotlib (the extra ``report``) is here, and nowhere else."""

from __future__ import annotations

from netsim.report.topology_drawing import draw_topology

__all__ = ["draw_topology"]
