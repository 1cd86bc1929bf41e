"""Pictures of networks; what needs matplotlib (the extra ``report``) is here, and nowhere else."""

from __future__ import annotations

from netsim.report.load_curves import draw_load_curves
from netsim.report.topology_drawing import draw_topology

__all__ = ["draw_load_curves", "draw_topology"]
