"""Pictures of networks: vertices where the structure puts them, links by layer, a legend that carries the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.core.units import format_rate, format_time
from netsim.report.style import COLOURS, FORMATS, INK, PALE, checked_file, style, write
from netsim.report.topology_layout import Layout, layout, nearest_gaps
from netsim.topologies import Topology
from netsim.topologies.prices import cable_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "LARGEST_DRAWN", "draw_topology"]

# Cables and vertices; a picture of more is a grey disc.
LARGEST_DRAWN = 300_000
# Above so many cables a vector file would be slow to open: the lines become an image inside it.
_AS_IMAGE = 12_000
# Dots of hosts would run together.
MOST_HOSTS = 4500
_CURVE = np.linspace(0.0, 1.0, 15)

_HOST_LINKS = "#b4bcc6"
_HOSTS = "#8894a3"
_SWITCHES = ("#1b2a3d", "#b3471d", "#3f7d5f", "#7d4f86", "#8a6d1f", "#2c7a93")


def draw_topology(topology: Topology, path: str | Path | None = None, *, title: str | None = None) -> Figure:
    """Draw a network: positions by structure, links coloured by layer, with a legend of counts, capacities, latencies.

    Parameters
    ----------
    topology : Topology
    path : str or Path, optional
        ``.svg``, ``.png`` or ``.pdf`` to write; the same network gives the same bytes.
    title : str, optional
        Instead of the family and its parameters of size.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        matplotlib is not installed, another suffix, a file that cannot be written, or a network of more than 300,000
        vertices and cables.

    Notes
    -----
    Parallel cables are one line, wider. Dashed ends are links that wrap around a torus. Hosts are left out where
    vertices would run together.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> figure = draw_topology(dragonfly(2))
    >>> figure.axes[0].get_title(loc="left")
    'dragonfly  p=2, a=4, h=2, g=9'
    """
    file = None if path is None else checked_file(path)
    if topology.n_vertices == 0:
        raise InputError("drawing", "needs a network with vertices", got="none")
    if topology.n_vertices + topology.n_links // 2 > LARGEST_DRAWN:
        raise InputError(
            "drawing",
            f"shows up to {LARGEST_DRAWN:,} vertices and cables",
            got=f"{topology.n_vertices + topology.n_links // 2:,}",
            remedy="draw a smaller network of the family",
        )
    with style():
        figure = _figure(topology, layout(topology), title)
        if file is not None:
            write(figure, file)
    return figure


def _figure(t: Topology, found: Layout, title: str | None) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.33, 7.5), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.07 if found.rows else 0.015, 0.02, 0.66 if found.rows else 0.715, 0.88))
    axes.set_axis_off()
    hosts_drawn = t.n_switches == 0 or (found.hosts and t.n_hosts <= MOST_HOSTS)
    spots = found.xy if hosts_drawn else found.xy[t.n_hosts :]
    low, high = spots.min(axis=0), spots.max(axis=0)
    room = 0.06 * np.maximum(high - low, 0.4 * float(max(high - low)) + 0.3)
    if found.stub.any() or found.bow.any():
        room = room + 0.5
    if found.labels and not found.rows:
        room = room + 0.1
    axes.set_xlim(low[0] - room[0], high[0] + room[0])
    axes.set_ylim(low[1] - room[1], high[1] + room[1])
    if not found.rows:
        axes.set_aspect("equal")
    drawn = _draw_links(axes, t, found, hosts_drawn)
    sizes = _draw_vertices(axes, t, found, hosts_drawn)
    for x, y, text in found.labels:
        if found.rows:
            axes.annotate(text, (x, y), xytext=(-8, 0), textcoords="offset points", ha="right", va="center", color=PALE)
        else:
            axes.text(x, y, text, ha="center", va="center", color=PALE, fontsize=9)
    axes.set_title(title or _title(t), loc="left", fontsize=15, color=INK, pad=8, fontweight="bold")
    _legend(figure, t, found, hosts_drawn, drawn, sizes)
    return figure


def _cables(t: Topology, hosts_drawn: bool) -> tuple[Int64, Int64]:
    """Cables to draw: one link of each set of parallel ones, and how many these are."""
    link, number = cable_rows(t)
    base = 0 if hosts_drawn else t.n_hosts
    inside = (t.link_src[link] >= base) & (t.link_dst[link] >= base)
    return link[inside], number[inside]


def _draw_links(axes: Axes, t: Topology, found: Layout, hosts_drawn: bool) -> dict[int, tuple[str, float, int]]:
    """Lines of all cables, layer by layer; per layer the colour, the width and the number of cables."""
    from matplotlib.collections import LineCollection

    link, parallel = _cables(t, hosts_drawn)
    layers = np.unique(t.link_layer[link]).tolist()
    beside_host = {i: bool(np.any(t.link_src[t.link_layer == i] < t.n_hosts)) for i in layers}
    free = iter(range(10**6))
    plain = {i for i in layers if t.layer_names[i] == "host" or (beside_host[i] and len(layers) == 1)}
    colour = {i: _HOST_LINKS if i in plain else COLOURS[next(free) % len(COLOURS)] for i in layers}
    gap = _gap_in_points(axes, found.xy[t.n_hosts :] if t.n_switches else found.xy)
    used = {}
    for i in sorted(layers, key=lambda i: (not beside_host[i], i)):
        mine = np.flatnonzero(t.link_layer[link] == i)
        paths_of_layer = list(_paths(t, found, link[mine], parallel[mine]))
        width, alpha = _pen(axes, paths_of_layer, 0.11 * gap)
        for paths, number, dashes in paths_of_layer:
            axes.add_collection(
                LineCollection(
                    list(paths),
                    colors=colour[i],
                    linewidths=np.minimum(width * np.sqrt(number), max(width, 2.4)),
                    alpha=alpha,
                    linestyles=dashes,
                    zorder=1 + (not beside_host[i]),
                    capstyle="round" if dashes == "solid" else "butt",
                    rasterized=bool(link.size > _AS_IMAGE),
                )
            )
        used[i] = (colour[i], max(width, 0.9), int(parallel[mine].sum()))
    return used


def _pen(axes: Axes, paths: list[tuple[Float64, Int64, Any]], widest: float) -> tuple[float, float]:
    """Width in points and opacity of lines: the more of the paper they cover, the thinner and the more transparent."""
    axes.apply_aspect()
    box = axes.get_window_extent()
    scale = 72 / axes.figure.dpi
    length = sum(
        float(
            np.linalg.norm(
                np.diff(axes.transData.transform(lines.reshape(-1, 2)).reshape(lines.shape), axis=1), axis=2
            ).sum()
        )
        for lines, _, _ in paths
    )
    paper = box.width * box.height * scale * scale / max(length * scale, 1e-9)
    width = float(np.clip(0.45 * paper, 0.3, np.clip(widest, 0.4, 1.6)))
    return width, float(np.clip(0.2 * paper / width, 0.12, 0.9))


def _paths(t: Topology, found: Layout, link: Int64, parallel: Int64) -> Iterator[tuple[Float64, Int64, Any]]:
    """Polylines of links of one form: whole links straight or bent, and both ends of those that wrap around."""
    a, b = found.xy[t.link_src[link]], found.xy[t.link_dst[link]]
    stub = found.stub[link]
    cut = np.any(stub != 0, axis=1)
    bent = ~cut & ((found.pull[link] != 0) | (found.bow[link] != 0))
    plain = ~cut & ~bent
    if plain.any():
        yield np.stack([a[plain], b[plain]], axis=1), parallel[plain], "solid"
    if bent.any():
        here, there = a[bent], b[bent]
        along = there - here
        aside = np.stack([-along[:, 1], along[:, 0]], axis=1)
        middle = (here + there) / 2 * (1 - found.pull[link][bent])[:, None] + aside * found.bow[link][bent][:, None] * 2
        s = _CURVE[None, :, None]
        yield (
            (1 - s) ** 2 * here[:, None] + 2 * s * (1 - s) * middle[:, None] + s**2 * there[:, None],
            parallel[bent],
            "solid",
        )
    if cut.any():
        ends = np.concatenate([np.stack([a, a + stub], axis=1)[cut], np.stack([b, b - stub], axis=1)[cut]])
        yield ends, np.tile(parallel[cut], 2), (0, (2.2, 1.6))


def _draw_vertices(axes: Axes, t: Topology, found: Layout, hosts_drawn: bool) -> dict[int, tuple[str, str, float]]:
    """Dots of all vertices; per kind the colour, marker and diameter in points."""
    chosen = np.arange(0 if hosts_drawn else t.n_hosts, t.n_vertices)
    gap = _gap_in_points(axes, found.xy[t.n_hosts :] if t.n_switches else found.xy)
    used = {}
    for kind in np.unique(found.kind[chosen]).tolist():
        mine = chosen[found.kind[chosen] == kind]
        if kind == 0:
            own = _gap_in_points(axes, found.xy[mine])
            size = float(np.clip(0.6 * own, 0.7, 5.0))
            colour, marker = _HOSTS, "o"
        else:
            own = min(gap, _gap_in_points(axes, found.xy[mine])) if found.rows else gap
            size = float(np.clip((0.7 if found.rows else 0.42) * own, 1.6, 13.0))
            colour, marker = _SWITCHES[(kind - 1) % len(_SWITCHES)], "s" if found.rows else "o"
        axes.plot(
            found.xy[mine, 0],
            found.xy[mine, 1],
            linestyle="none",
            marker=marker,
            markersize=size,
            markerfacecolor=colour,
            markeredgecolor="white",
            markeredgewidth=float(np.clip(0.07 * size, 0.0, 0.8)) if size > 3 else 0.0,
            zorder=4 if kind else 3,
            clip_on=False,
            rasterized=bool(mine.size > _AS_IMAGE),
        )
        used[kind] = (colour, marker, size)
    return used


def _gap_in_points(axes: Axes, spots: Float64) -> float:
    """Distance of a vertex to its nearest neighbour on paper: small, but not the smallest of all."""
    if len(spots) < 2:
        return 30.0
    axes.apply_aspect()
    on_paper = axes.transData.transform(spots) * 72 / axes.figure.dpi
    return float(np.quantile(nearest_gaps(on_paper), 0.1))


def _title(t: Topology) -> str:
    """Family and parameters of size; names of files as they are."""
    from netsim.topologies import topologies

    if t.family not in topologies:
        return t.family
    chosen = topologies[t.family]
    shown = []
    for name in chosen.size_parameters:
        value = t.params.get(name)
        if value is not None:
            shown.append(f"{name}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return f"{t.family}  {', '.join(shown)}"


def _legend(
    figure: Figure,
    t: Topology,
    found: Layout,
    hosts_drawn: bool,
    links: dict[int, tuple[str, float, int]],
    vertices: dict[int, tuple[str, str, float]],
) -> None:
    """Right of the picture: vertices by kind, links by layer, each with its numbers."""
    from matplotlib.lines import Line2D

    handles, texts = [], []
    kinds = np.bincount(found.kind, minlength=len(found.kind_names))
    for kind, (colour, marker, size) in vertices.items():
        handles.append(
            Line2D([], [], linestyle="none", marker=marker, color=colour, markersize=min(max(size, 4.0), 9.0))
        )
        texts.append(count(int(kinds[kind]), found.kind_names[kind]))
    if not hosts_drawn:
        handles.append(Line2D([], [], linestyle="none"))
        texts.append(f"{count(t.n_hosts, 'host')}, not drawn")
    for i, (colour, width, cables) in links.items():
        mine = t.link_layer == i
        handles.append(Line2D([], [], color=colour, linewidth=max(2 * width, 2.2)))
        rate, delay = t.link_capacity_bytes_per_s[mine], t.link_latency_s[mine]
        texts.append(
            f"{t.layer_names[i]}\n{count(cables, 'cable')} of {_range(rate, format_rate)}, "
            + _range(delay, format_time)
        )
    if found.stub.any():
        handles.append(Line2D([], [], color=PALE, linewidth=1.6, linestyle=(0, (2.2, 1.6))))
        texts.append("wraps around" + (",\nwith a twist" if t.family == "twisted_torus" else ""))
    # What does not fit at full size is written smaller, never cut off.
    longest = max(len(line) for text in texts for line in text.splitlines())
    legend = figure.legend(
        handles,
        texts,
        loc="center left",
        bbox_to_anchor=(0.745, 0.5),
        frameon=False,
        fontsize=min(11.0, 11 * 36 / longest),
        labelspacing=1.0,
        handlelength=1.8,
        labelcolor=INK,
    )
    legend.set_in_layout(False)


def _range(values: Float64, form: Any) -> str:
    low, high = float(values.min()), float(values.max())
    return str(form(low)) if low == high else f"{form(low)} to {form(high)}"
