"""Jobs on a machine: placement of ranks on hosts."""

from __future__ import annotations

from netsim.jobs.placement import Placement, place, placements

__all__ = ["Placement", "place", "placements"]
