"""Where the vertices of a network go in a picture, by its structure: trees in rows, tori on a grid, groups on a circle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64
from netsim.report.stress import LARGEST, stress_layout
from netsim.topologies import Topology
from netsim.topologies.diameter_two import quadrics
from netsim.topologies.grids import coordinates
from netsim.topologies.hyperxs import FULLY_CONNECTED, hyperx_shape
from netsim.topologies.trees import tree_shape

__all__ = ["Layout", "layout", "nearest_gaps"]

# Of a grid, three dimensions after each other: right, up, and into the picture; further ones begin again, wider apart.
_DIRECTIONS = np.array([[1.0, 0.0], [0.0, 1.0], [0.36, 0.29]])


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Positions of vertices and the form of links.

    Attributes
    ----------
    xy : float64 array, shape (n_vertices, 2)
    kind : int64 array, shape (n_vertices,)
        Index into ``kind_names``; hosts are kind 0.
    kind_names : tuple of str
    pull : float64 array, shape (n_links,)
        How far the middle of a link is drawn toward the origin: 0 straight, 1 through it.
    bow : float64 array, shape (n_links,)
        How far the middle of a link stands aside, as a share of its length; the two directions of a cable bow alike.
    stub : float64 array, shape (n_links, 2)
        A link that leaves the picture on one side and comes back on the other: the way it leaves; 0 for all others.
    labels : tuple of (float, float, str)
        Position and text of the names of groups or rows.
    rows : bool
        The labels stand left of rows.
    hosts : bool
        Hosts have a place worth drawing.
    """

    xy: Float64
    kind: Int64
    kind_names: tuple[str, ...]
    pull: Float64
    bow: Float64
    stub: Float64
    labels: tuple[tuple[float, float, str], ...] = ()
    rows: bool = False
    hosts: bool = True


def layout(topology: Topology) -> Layout:
    """Positions for a picture of a network, by the structure of its family.

    Dragonflies, Slim Fly, PolarFly and Xpander: groups on a circle. Trees, BCube and rail-optimised clusters: rows. Torus,
    mesh, HyperX and hypercube: a grid, three dimensions in perspective. Others: by distance, see
    :func:`netsim.report.stress.stress_layout`, and beyond its size on a circle.

    Examples
    --------
    >>> from netsim.topologies import fat_tree
    >>> found = layout(fat_tree(4))
    >>> found.kind_names, np.unique(found.xy[:, 1]).tolist()
    (('host', 'edge switch', 'aggregation switch', 'core switch'), [0.0, 1.0, 2.0, 3.0])
    """
    draw = _BY_FAMILY.get(topology.family)
    if draw is not None and topology.n_switches:
        return draw(topology)
    return _by_distance(topology)


def _made(
    t: Topology,
    xy: Float64,
    *,
    kind: Int64 | None = None,
    kind_names: Sequence[str] = ("switch",),
    pull: Float64 | None = None,
    bow: Float64 | None = None,
    stub: Float64 | None = None,
    labels: Sequence[tuple[float, float, str]] = (),
    rows: bool = False,
    hosts: bool = True,
) -> Layout:
    of_switch = np.zeros(t.n_switches, dtype=np.int64) if kind is None else kind
    return Layout(
        xy=xy,
        kind=np.concatenate([np.zeros(t.n_hosts, dtype=np.int64), of_switch + 1]),
        kind_names=("host", *kind_names),
        pull=np.zeros(t.n_links) if pull is None else pull,
        bow=np.zeros(t.n_links) if bow is None else bow,
        stub=np.zeros((t.n_links, 2)) if stub is None else stub,
        labels=tuple(labels),
        rows=rows,
        hosts=hosts,
    )


def _circle(n: int, radius: float = 1.0) -> Float64:
    """Positions on a circle, clockwise from the top."""
    turn = np.pi / 2 - 2 * np.pi * np.arange(n) / max(n, 1)
    return radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _homes(t: Topology) -> Int64:
    """The switch of each host: the first it is wired to; -1 without one."""
    home = np.full(t.n_hosts, -1, dtype=np.int64)
    up = np.flatnonzero((t.link_src < t.n_hosts) & (t.link_dst >= t.n_hosts))[::-1]
    home[t.link_src[up]] = t.link_dst[up] - t.n_hosts
    return home


def _with_hosts(t: Topology, switch_xy: Float64, outward: Float64, reach: float, spread: float) -> Float64:
    """Hosts in a fan behind their switch: ``outward`` are unit vectors, ``spread`` the angle of the fan."""
    home = _homes(t)
    xy = np.zeros((t.n_vertices, 2))
    xy[t.n_hosts :] = switch_xy
    wired = np.flatnonzero(home >= 0)
    order = wired[np.argsort(home[wired], kind="stable")]
    count = np.bincount(home[wired], minlength=max(t.n_switches, 1))
    first = np.concatenate([[0], np.cumsum(count)])[:-1]
    place = np.arange(order.size) - first[home[order]]
    many = count[home[order]]
    # Few hosts stand close together, many fill the fan.
    angle = np.where(many > 1, (place / np.maximum(many - 1, 1) - 0.5) * np.minimum(spread, 0.8 * (many - 1)), 0.0)
    out = outward[home[order]]
    turned = np.stack(
        [out[:, 0] * np.cos(angle) + out[:, 1] * np.sin(angle), out[:, 1] * np.cos(angle) - out[:, 0] * np.sin(angle)],
        axis=1,
    )
    xy[order] = switch_xy[home[order]] + reach * turned
    alone = np.flatnonzero(home < 0)
    if alone.size:
        low = switch_xy[:, 1].min(initial=0.0) - 3 * reach
        xy[alone] = np.stack([np.linspace(-1, 1, alone.size), np.full(alone.size, low)], axis=1)
    return xy


def _unit(vectors: Float64) -> Float64:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(length > 1e-12, vectors / np.maximum(length, 1e-12), [[0.0, 1.0]])


# Rows


def _in_rows(t: Topology, row: Int64, names: Sequence[str], *, host_row: int = 0) -> Layout:
    """Vertices in rows, each spread evenly over the width in the order of their numbers; ``row`` is that of switches."""
    of_vertex = np.concatenate([np.full(t.n_hosts, host_row, dtype=np.int64), row])
    xy = np.zeros((t.n_vertices, 2))
    width = 4.8
    for r in range(int(of_vertex.max(initial=0)) + 1):
        inside = np.flatnonzero(of_vertex == r)
        xy[inside] = np.stack(
            [width * ((np.arange(inside.size) + 0.5) / max(inside.size, 1) - 0.5), np.full(inside.size, float(r))],
            axis=1,
        )
    kinds = [name if name.endswith("switch") else f"{name} switch" for i, name in enumerate(names) if i != host_row]
    labels = [(-width / 2, float(r), name) for r, name in enumerate(names) if np.any(of_vertex == r)]
    kind = np.where(row > host_row, row - 1, row)
    return _made(t, xy, kind=kind, kind_names=kinds, labels=labels, rows=True)


def _tree(t: Topology) -> Layout:
    m, w = tree_shape(t)
    counts = [
        int(np.prod(m[level:], dtype=np.int64) * np.prod(w[:level], dtype=np.int64)) for level in range(1, len(m) + 1)
    ]
    row = np.repeat(np.arange(1, len(m) + 1), counts)
    names = ["edge", "aggregation", "core"] if t.family == "fat_tree" else [f"level {i}" for i in range(1, len(m) + 1)]
    return _in_rows(t, row, ["host", *names])


def _bcube(t: Topology) -> Layout:
    levels = t.params["k"] + 1
    row = 1 + np.arange(t.n_switches) // t.params["n"] ** t.params["k"]
    return _in_rows(t, row, ["host", *(f"level {i}" for i in range(levels))])


def _rail(t: Topology) -> Layout:
    names = [t.vertex_name(t.n_hosts + i).rstrip("0123456789 ").split()[-1] for i in range(t.n_switches)]
    order = ["switch", "leaf", "spine", "core"]
    place = {"switch": 0, "leaf": 2, "spine": 3, "core": 4}
    row = np.array([place[name] for name in names], dtype=np.int64)
    rows = ["node switch", "GPU", *(name for name in order[1:] if place[name] <= row.max())]
    return _in_rows(t, row, rows, host_row=1)


# Groups on a circle


def _groups(
    t: Topology,
    group: Int64,
    *,
    label: str = "",
    inner: npt.NDArray[np.bool_] | None = None,
    columns: int = 0,
    kind_names: Sequence[str] = ("switch",),
) -> Layout:
    """Groups on a circle; in each the switches on a small circle, in rows of ``columns``, or ``inner`` ones below others."""
    n_groups = int(group.max()) + 1
    centre = _circle(n_groups) if n_groups > 1 else np.zeros((1, 2))
    outward = _unit(centre)
    radius = 0.72 * np.pi / max(n_groups, 2.4) if n_groups > 1 else 0.8
    radius = min(radius, 0.34) if n_groups > 1 else radius
    xy = np.zeros((t.n_switches, 2))
    out = np.zeros((t.n_switches, 2))
    for g in range(n_groups):
        members = np.flatnonzero(group == g)
        ahead, side = outward[g], np.array([outward[g, 1], -outward[g, 0]])
        if columns:
            row, column = np.divmod(np.arange(members.size), columns)
            spot = np.stack([column / max(columns - 1, 1), row / max(row.max(), 1)], axis=1) - 0.5
            xy[members] = centre[g] + radius * (1.5 * spot[:, :1] * side - 1.1 * spot[:, 1:] * ahead)
            out[members] = ahead
            continue
        if inner is None:
            place = _circle(members.size) if members.size > 1 else np.zeros((1, 2))
            local = 0.68 * radius * (place[:, :1] * side + place[:, 1:] * ahead)
            xy[members], out[members] = centre[g] + local, _unit(local) if members.size > 1 else ahead
            continue
        for which, depth in ((~inner[members], 0.45), (inner[members], -0.55)):
            some = members[which]
            across = np.linspace(-0.8, 0.8, some.size) if some.size > 1 else np.zeros(some.size)
            # The outer arc follows the big circle, so that neighbouring groups keep apart.
            xy[some] = centre[g] + radius * (depth * ahead + across[:, None] * side)
            out[some] = ahead
    fan = 2.4 * np.pi / np.maximum(np.bincount(group).max(), 2) if inner is None else 0.8
    reach = radius * (0.30 if inner is None else 0.34)
    if columns:
        # Within the square of a router.
        reach = radius * 0.6 / max(columns, 2)
    if inner is None and np.bincount(group).max() == 1:
        fan, reach = 1.2, min(0.16, 0.8 * np.pi / n_groups + 0.03)
    vertices = _with_hosts(t, xy, out, reach, min(fan, 1.9))
    whole = np.concatenate([np.full(t.n_hosts, -1, dtype=np.int64), group])
    far = (whole[t.link_src] != whole[t.link_dst]) & (whole[t.link_src] >= 0) & (whole[t.link_dst] >= 0)
    labels = []
    if label and 1 < n_groups <= 48:
        away = 1 + radius * 1.12 + 0.05
        labels = [(away * centre[g, 0], away * centre[g, 1], f"{label}{g}") for g in range(n_groups)]
    return _made(
        t,
        vertices,
        kind=None if inner is None else inner.astype(np.int64),
        kind_names=kind_names,
        pull=np.where(far, 0.6, 0.0),
        labels=labels,
    )


def _dragonfly(t: Topology) -> Layout:
    return _groups(t, np.arange(t.n_switches) // t.params["a"], label="G", kind_names=("router",))


def _cascade(t: Topology) -> Layout:
    columns = t.params["columns"]
    group = np.arange(t.n_switches) // (t.params["rows"] * columns)
    return _groups(t, group, label="G", columns=columns, kind_names=("router",))


def _dragonfly_plus(t: Topology) -> Layout:
    l, s = t.params["l"], t.params["s"]
    group, place = np.divmod(np.arange(t.n_switches), l + s)
    return _groups(t, group, label="G", inner=place >= l, kind_names=("leaf switch", "spine switch"))


def _slim_fly(t: Topology) -> Layout:
    # Columns of the two halves alternate: links run between halves.
    q = t.params["q"]
    half, column = np.divmod(np.arange(t.n_switches) // q, q)
    return _groups(t, 2 * column + half)


def _polarfly(t: Topology) -> Layout:
    """Quadrics together, and the others by their neighbour among those of one quadric: fans of triangles.

    Notes
    -----
    K. Lakhotia et al., "PolarFly: A Cost-Effective and Flexible Low-Diameter Topology", SC 2022, section 5.
    """
    special = quadrics(t.params["q"])
    base = t.n_hosts
    between = (t.link_src >= base) & (t.link_dst >= base)
    u, v = t.link_src[between].astype(np.int64) - base, t.link_dst[between].astype(np.int64) - base
    centre = np.sort(v[u == special[0]])
    group = np.zeros(t.n_switches, dtype=np.int64)
    for i, c in enumerate(centre.tolist(), start=1):
        group[v[u == c]] = i
        group[c] = i
    group[special] = 0
    return _groups(t, np.unique(group, return_inverse=True)[1].astype(np.int64))


def _xpander(t: Topology) -> Layout:
    return _groups(t, np.arange(t.n_switches) // t.params["lift"])


def _full_mesh(t: Topology) -> Layout:
    found = _groups(t, np.arange(t.n_switches))
    # Chords of a full mesh are straight: a bundle in the middle would hide that every pair has its own.
    return Layout(**{**found.__dict__, "pull": np.zeros(t.n_links)})


def _star(t: Topology) -> Layout:
    return _made(t, np.concatenate([_circle(t.n_hosts), np.zeros((t.n_switches, 2))]))


# Grids


def _grid(t: Topology) -> Layout:
    full = t.family in FULLY_CONNECTED
    dims = tuple(hyperx_shape(t)[0] if full else t.params["dims"])
    place = coordinates(np.arange(t.n_switches, dtype=np.int64), dims)
    apart = place if t.params.get("block") is None else place + 0.9 * (place // np.array(t.params["block"]))
    # The last dimension runs fastest and goes to the right; sides of 1 need no direction.
    drawn = [d for d in range(len(dims))[::-1] if dims[d] > 1]
    step = np.zeros((len(dims), 2))
    scale = np.ones(2)
    for i, d in enumerate(drawn):
        if i and i % 3 == 0:
            extent = np.abs(step[drawn[:i]] * (np.array([dims[e] for e in drawn[:i]])[:, None] - 1)).sum(axis=0)
            scale = extent + 0.9 * scale
        step[d] = _DIRECTIONS[i % 3] * scale
    if len(drawn) == 3 and dims[drawn[2]] > 4:
        # What lies behind one switch stays within the square to its right and above.
        step[drawn[2]] *= 2.3 / (dims[drawn[2]] - 1)
    xy = apart @ step
    corner = xy.mean(axis=0)
    shortest = min((float(np.linalg.norm(step[d])) for d in drawn), default=1.0)
    outward = _unit(np.tile([[0.75, -0.66]], (t.n_switches, 1)))
    vertices = _with_hosts(t, xy - corner, outward, 0.26 * min(1.0, shortest), 2.0)
    bow, stub = np.zeros(t.n_links), np.zeros((t.n_links, 2))
    inside = np.flatnonzero((t.link_src >= t.n_hosts) & (t.link_dst >= t.n_hosts))
    here, there = place[t.link_src[inside] - t.n_hosts], place[t.link_dst[inside] - t.n_hosts]
    for d in range(len(dims)):
        gap = there[:, d] - here[:, d]
        if full:
            bow[inside] = np.where(np.abs(gap) > 1, 0.12 * (1 - 2 * (d % 2)) * np.sign(gap), bow[inside])
        elif dims[d] > 2 or t.family == "twisted_torus":
            wraps = np.abs(gap) == dims[d] - 1
            others = np.abs(there - here).sum(axis=1) - np.abs(gap)
            wraps &= (dims[d] > 2) | (others > 0)
            reach = 0.4 * min(1.0, shortest + 0.3) / max(float(np.linalg.norm(step[d])), 1e-9)
            stub[inside[wraps]] = -np.sign(gap[wraps])[:, None] * step[d] * reach
    return _made(t, vertices, bow=bow, stub=stub, hosts=t.n_switches <= 150)


# Anything else


def _by_distance(t: Topology) -> Layout:
    """Switches where their distances put them, hosts with one link behind them; hosts that matter to paths like switches."""
    links_up = np.bincount(t.link_src[t.link_src < t.n_hosts], minlength=t.n_hosts)
    behind = np.flatnonzero((links_up == 1) & (_homes(t) >= 0))
    placed = np.setdiff1d(np.arange(t.n_vertices), behind)
    number = np.full(t.n_vertices, -1, dtype=np.int64)
    number[placed] = np.arange(placed.size)
    inside = (number[t.link_src] >= 0) & (number[t.link_dst] >= 0)
    u, v = number[t.link_src[inside]], number[t.link_dst[inside]]
    on_circle = placed.size > LARGEST
    where = _circle(placed.size) if on_circle else stress_layout(placed.size, u, v)
    xy = np.zeros((t.n_vertices, 2))
    xy[placed] = where
    if behind.size:
        out = _unit(xy[t.n_hosts :] - where.mean(axis=0))
        reach = 0.55 * float(np.median(nearest_gaps(where))) if len(where) > 1 else 1.0
        fanned = _with_hosts(t, xy[t.n_hosts :], out, reach, 2.2)
        xy[behind] = fanned[behind]
    return _made(t, xy)


def nearest_gaps(where: Float64) -> Float64:
    """Distance of each of two or more points to its nearest neighbour."""
    from scipy.spatial import cKDTree

    near: Float64 = np.asarray(cKDTree(where).query(where, k=2)[0], dtype=np.float64)
    return near[:, 1]


_BY_FAMILY: dict[str, Callable[[Topology], Layout]] = {
    "bcube": _bcube,
    "cascade": _cascade,
    "dragonfly": _dragonfly,
    "dragonfly_plus": _dragonfly_plus,
    "fat_tree": _tree,
    "flattened_butterfly": _grid,
    "full_mesh": _full_mesh,
    "hypercube": _grid,
    "hyperx": _grid,
    "k_ary_n_tree": _tree,
    "mesh": _grid,
    "polarfly": _polarfly,
    "rail_optimized": _rail,
    "slim_fly": _slim_fly,
    "star": _star,
    "torus": _grid,
    "twisted_torus": _grid,
    "xgft": _tree,
    "xpander": _xpander,
}
