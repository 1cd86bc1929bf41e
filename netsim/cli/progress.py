"""Progress of long runs on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from netsim.core.units import format_time

if TYPE_CHECKING:
    from netsim.engine import Progress

__all__ = ["ProgressReporter"]

# Short runs say nothing.
QUIET_S = 1.0
LINE_EVERY_S = 10.0


class ProgressReporter:
    """Context manager whose ``update`` goes to ``replay(progress=...)``."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._last = time.monotonic()

    def __enter__(self) -> ProgressReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, state: Progress) -> None:
        """Show where the run is."""
        if state.wall_s < QUIET_S:
            return
        simulated = format_time(state.simulated_s)
        if not sys.stderr.isatty():
            if time.monotonic() - self._last > LINE_EVERY_S:
                self._last = time.monotonic()
                share = state.tasks_done / max(state.tasks, 1)
                left = state.wall_s * (1 - share) / share if share > 0 else float("inf")
                print(
                    f"netsim: {100 * share:.1f} % of tasks, simulated {simulated}, {state.active_flows} active flows, "
                    f"about {format_time(left, 2)} left",
                    file=sys.stderr,
                    flush=True,
                )
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("simulating"),
                BarColumn(),
                TextColumn("{task.percentage:.0f} % of tasks"),
                TextColumn("simulated {task.fields[simulated]}, {task.fields[flows]} active flows, left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=state.tasks, simulated="", flows=0)
        self._bar.update(self._task, completed=state.tasks_done, simulated=simulated, flows=state.active_flows)
