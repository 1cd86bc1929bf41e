"""When calls end and when they let their rank go on: moments of tasks, one pair per row of the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Int64, UInt8
from netsim.traffic.taskgraph import AFTER_END

__all__ = ["Moments"]


@dataclass(frozen=True)
class Moments:
    """For each row the task, and the moment of it, at which something happened. Arrays are filled in while lowering.

    Attributes
    ----------
    task : int64 array, shape (n,)
    after : uint8 array, shape (n,)
        ``AFTER_END``, ``AFTER_DRAIN`` or ``AFTER_START``.
    """

    task: Int64
    after: UInt8

    @classmethod
    def at_end_of(cls, task: Int64) -> Moments:
        """The ends of the given tasks."""
        return cls(task.copy(), np.full(task.size, AFTER_END, dtype=np.uint8))

    def put(self, rows: Int64, task: Int64, after: int = AFTER_END) -> None:
        """Set the moments of some rows."""
        self.task[rows] = task
        self.after[rows] = after
