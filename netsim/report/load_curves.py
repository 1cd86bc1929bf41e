"""Accepted throughput and slowdown against offered load: a curve per routing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.core.errors import InputError
from netsim.report.style import COLOURS, INK, PALE, checked_file, style, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.study import LoadCurve

__all__ = ["draw_load_curves"]

_MARKS = "osD^vPX"


def draw_load_curves(
    curves: Sequence[LoadCurve], path: str | Path | None = None, *, title: str = "", limits: Sequence[float | None] = ()
) -> Figure:
    """Draw load curves: left what is accepted, right how much longer messages take.

    Parameters
    ----------
    curves : sequence of LoadCurve
        Of one network and pattern.
    path : str or Path, optional
        ``.svg``, ``.png`` or ``.pdf`` to write; the same curves give the same bytes.
    title : str
    limits : sequence of float or None
        Fluid saturation throughput of each curve, drawn as a level; None: not known.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        No curve, matplotlib is not installed, another suffix, or a file that cannot be written.
    """
    if not curves:
        raise InputError("drawing", "needs a load curve or more", got="none")
    file = None if path is None else checked_file(path)
    with style():
        figure = _figure(curves, title, [*limits, *[None] * len(curves)])
        if file is not None:
            write(figure, file)
    return figure


def _figure(curves: Sequence[LoadCurve], title: str, limits: Sequence[float | None]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = Figure(figsize=(10.0, 4.3), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    taken, slow = figure.subplots(1, 2)
    highest = max(point.offered for curve in curves for point in curve.points)
    taken.plot([0, highest], [0, highest], color=PALE, linewidth=0.8, linestyle=":")
    taken.annotate(
        "all that is offered", (0.97 * min(highest, 1), 0.97 * min(highest, 1)), color=PALE, fontsize=8, ha="right"
    )
    for i, curve in enumerate(curves):
        colour, mark = COLOURS[i % len(COLOURS)], _MARKS[i % len(_MARKS)]
        offered = np.array([point.offered for point in curve.points])
        name = curve.routing if curve.multipath == "one" else f"{curve.routing} ({curve.multipath})"
        taken.plot(
            offered,
            [p.accepted for p in curve.points],
            color=colour,
            marker=mark,
            markersize=4,
            linewidth=1.5,
            label=name,
        )
        limit = limits[i]
        if limit is not None and limit <= 1.05 * highest:
            taken.axhline(limit, color=colour, linewidth=0.8, linestyle="--", alpha=0.8)
        steady = [p for p in curve.points if not p.saturated]
        x = [p.offered for p in steady]
        slow.plot(
            x, [p.slowdown_p50 for p in steady], color=colour, marker=mark, markersize=4, linewidth=1.5, label=name
        )
        slow.plot(x, [p.slowdown_p99 for p in steady], color=colour, linewidth=1.0, linestyle=(0, (4, 2)))
        rest = [p for p in curve.points if p.saturated]
        if rest:
            slow.axvline(rest[0].offered, color=colour, linewidth=0.8, linestyle=":", alpha=0.8)
    taken.set_xlim(0, 1.03 * highest)
    taken.set_ylim(0, 1.05 * min(highest, 1.0))
    slow.set_xlim(0, 1.03 * highest)
    slow.set_yscale("log")
    slow.set_ylim(bottom=0.9)
    slow.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    slow.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    slow.yaxis.set_minor_locator(NullLocator())
    taken.set_ylabel("accepted, share of injection bandwidth")
    slow.set_ylabel("slowdown: median, and 99 % dashed")
    for axes in (taken, slow):
        axes.set_xlabel("offered load, share of injection bandwidth")
        axes.grid(color="#e3e7ec", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(PALE)
        axes.tick_params(colors=INK)
    taken.legend(frameon=False, fontsize=9, loc="best")
    if any(limit is not None for limit in limits):
        taken.set_title("dashed: fluid saturation", loc="right", fontsize=8, color=PALE)
    slow.set_title("dotted: saturated from here on", loc="right", fontsize=8, color=PALE)
    if title:
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12)
    return figure
