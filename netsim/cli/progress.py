"""Progress of long runs on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from netsim.core.text import count, plural
from netsim.core.units import format_time

if TYPE_CHECKING:
    from netsim.engine import Progress

__all__ = ["CountReporter", "ProgressReporter"]

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


class CountReporter:
    """Context manager whose ``update(done, total)`` shows how many of some things are done.

    Parameters
    ----------
    verb, thing : str
        ``"writing"``, ``"rank"``.
    """

    def __init__(self, verb: str, thing: str) -> None:
        self._verb, self._thing = verb, thing
        self._bar: Any = None
        self._task: Any = None
        self._begin = self._last = time.monotonic()

    def __enter__(self) -> CountReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show where the work is."""
        now = time.monotonic()
        if now - self._begin < QUIET_S:
            return
        if not sys.stderr.isatty():
            if now - self._last > LINE_EVERY_S:
                self._last = now
                left = (now - self._begin) * (total - done) / max(done, 1)
                print(
                    f"netsim: {self._verb}, {done:,} of {count(total, self._thing)}, about {format_time(left, 2)} left",
                    file=sys.stderr,
                    flush=True,
                )
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn(self._verb),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(f"{plural(total, self._thing)}, left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=total)
        self._bar.update(self._task, completed=done)
