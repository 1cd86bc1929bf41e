"""Dragonfly and Dragonfly+: groups of fully meshed routers or of leaves and spines, links between every two groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.topologies.generators import Layers, Parameter, check_size, checked, generator, link_parameters
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["ARRANGEMENTS", "TRUNKS", "cascade", "dragonfly", "dragonfly_plus", "global_ports"]

ARRANGEMENTS = ("palmtree", "absolute", "relative", "circulant", "random")
TRUNKS = ("spread", "bundled")

_PARAMETERS = (
    Parameter(name="p", kind="int", meaning="hosts per router"),
    Parameter(name="a", kind="int", default=None, meaning="routers per group; if not given, 2p (balanced)"),
    Parameter(name="h", kind="int", default=None, meaning="global ports per router; if not given, p (balanced)"),
    Parameter(name="g", kind="int", default=None, meaning="groups, at most ah + 1; if not given, ah + 1"),
    Parameter(
        name="arrangement",
        kind="choice",
        default="palmtree",
        choices=ARRANGEMENTS,
        meaning="which global port leads to which group",
    ),
    Parameter(
        name="trunks",
        kind="choice",
        default="spread",
        choices=TRUNKS,
        meaning="parallel links of two groups: on ports g - 1 apart, or side by side",
    ),
    Parameter(name="seed", kind="int", default=0, minimum=0, sizing=False, meaning='seed of the arrangement "random"'),
    *link_parameters(host="host links", local="links inside a group", **{"global": "links between groups"}),
)
_PLUS = (
    Parameter(name="p", kind="int", meaning="hosts per leaf"),
    Parameter(name="l", kind="int", default=None, meaning="leaves per group; if not given, p (balanced)"),
    Parameter(name="s", kind="int", default=None, meaning="spines per group; if not given, p (balanced)"),
    Parameter(name="h", kind="int", default=None, meaning="global ports per spine; if not given, p (balanced)"),
    Parameter(name="g", kind="int", default=None, meaning="groups, at most sh + 1; if not given, sh + 1"),
    *_PARAMETERS[4:],
)


_CASCADE = (
    Parameter(name="p", kind="int", meaning="hosts per router"),
    Parameter(name="rows", kind="int", default=6, meaning="rows of routers in a group (Aries: chassis)"),
    Parameter(name="columns", kind="int", default=16, meaning="routers in a row (Aries: slots of a chassis)"),
    Parameter(name="h", kind="int", default=10, meaning="global ports per router"),
    Parameter(name="g", kind="int", default=None, meaning="groups; if not given, as many as there are ports for"),
    Parameter(name="column_trunk", kind="int", default=1, sizing=False, meaning="links of two routers in one row"),
    Parameter(name="row_trunk", kind="int", default=3, sizing=False, meaning="links of two routers in one column"),
    *_PARAMETERS[4:],
)


def _size_for(n_hosts: int) -> dict[str, Any]:
    p = 1
    while 2 * p * p * (2 * p * p + 1) < n_hosts:
        p += 1
    return {"p": p, "a": 2 * p, "h": p}


def global_ports(g: int, m: int, arrangement: str, trunks: str = "spread", *, seed: int = 0) -> tuple[Int64, Int64]:
    """Where the global ports of a group lead.

    The ``m (g - 1)`` ports in use are numbered through the group, router by router. Spread, they form m rounds of g - 1
    ports; every round reaches every other group once, so that the m links of a group pair start at ports g - 1 apart,
    on different routers as soon as g > h. Bundled, the m links of a pair are on m consecutive ports, of as few routers
    as possible. At random, spread or bundled makes no difference.

    Parameters
    ----------
    g : int
        Groups.
    m : int
        Links per group pair.
    arrangement : str
        One of ``ARRANGEMENTS``.
    trunks : str
        One of ``TRUNKS``.
    seed : int
        Of the arrangement "random".

    Returns
    -------
    group, port : int64 arrays, shape (g, m (g - 1))
        Port k of group s leads to port ``port[s, k]`` of group ``group[s, k]``.

    Notes
    -----
    With j = k mod (g - 1): palmtree: group s - (j + 1), far port g - 2 - j. Relative: s + (j + 1), the same far port.
    Absolute (consecutive): the j-th group when s itself is left out; far port s, or s - 1 if s is above. Circulant: s
    + 1, s - 1, s + 2, s - 2, ...; even and odd ports are joined, and for even g the last port, half way round, is
    joined with itself. Random: the ports of each group are shuffled. Camarero et al., ACM TACO 11(4), 2014; Hastings et
    al., IEEE CLUSTER 2015. Where the links of a trunk are placed matters: Alzaid et al., ICS 2020.

    Examples
    --------
    >>> group, port = global_ports(3, 1, "palmtree")
    >>> group.tolist(), port.tolist()
    ([[2, 1], [0, 2], [1, 0]], [[1, 0], [1, 0], [1, 0]])
    """
    s = np.arange(g, dtype=np.int64)[:, None]
    k = np.arange(m * (g - 1), dtype=np.int64)[None, :]
    if trunks == "spread":
        strand, j = np.divmod(k, max(g - 1, 1))
    else:
        j, strand = np.divmod(k, max(m, 1))
    if arrangement in ("palmtree", "random"):
        group, port = (s - (j + 1)) % g, np.broadcast_to(g - 2 - j, (g, k.size))
    elif arrangement == "relative":
        group, port = (s + (j + 1)) % g, np.broadcast_to(g - 2 - j, (g, k.size))
    elif arrangement == "absolute":
        group = j + (j >= s)
        port = np.where(s < group, s, s - 1)
    else:
        even = j % 2 == 0
        group = np.where(even, s + j // 2 + 1, s - (j + 1) // 2) % g
        partner = np.where(even, np.where(j == g - 2, j, j + 1), j - 1)
        port = np.broadcast_to(partner, (g, k.size))
    port = port + strand * (g - 1) if trunks == "spread" else port * m + strand
    group, port = np.broadcast_to(group, (g, k.size)).astype(np.int64), port.astype(np.int64)
    if arrangement == "random":
        # What was port k of group s becomes port new[s, k].
        draw = stream(seed, "topologies", "dragonfly", "random")
        new = draw.permuted(np.broadcast_to(k, (g, k.size)), axis=1)
        old = np.argsort(new, axis=1)
        group, port = np.take_along_axis(group, old, axis=1), np.take_along_axis(port, old, axis=1)
        port = new[group, port]
    return group, port


@generator("dragonfly", parameters=_PARAMETERS, size_for=_size_for)
def dragonfly(
    p: int,
    a: int | None = None,
    h: int | None = None,
    g: int | None = None,
    *,
    arrangement: str = "palmtree",
    trunks: str = "spread",
    seed: int = 0,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    local_capacity: str | float | None = None,
    local_latency: str | float | None = None,
    global_capacity: str | float | None = None,
    global_latency: str | float | None = None,
) -> Topology:
    """Dragonfly of g groups of a routers, each with p hosts and h global links; balanced when a = 2p = 2h.

    Groups are full meshes. With fewer than ah + 1 groups every group pair gets m = floor(ah / (g - 1)) links
    (trunking); ports left over stay empty. Host i is on router i // p, router r in group r // a.

    {parameters}

    Raises
    ------
    InputError
        More than ah + 1 groups, or a value out of range.

    Notes
    -----
    J. Kim, W. Dally, S. Scott, D. Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008, section 3.
    Arrangements: see :func:`global_ports`.

    Examples
    --------
    >>> dragonfly(p=2, a=4, h=2)
    <Topology dragonfly: 72 hosts, 36 switches, 324 directed links>
    >>> dragonfly(p=2, a=4, h=2, g=10)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: dragonfly: a=4 and h=2 join at most 9 groups, got g=10; take g=9 or raise a or h
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_PARAMETERS, "dragonfly", params)
    p = int(values["p"])
    a = 2 * p if values["a"] is None else int(values["a"])
    h = p if values["h"] is None else int(values["h"])
    g, m = _groups("dragonfly", a * h, values["g"], joined=f"a={a} and h={h}", remedy="raise a or h")
    n_hosts = p * a * g
    n_cables = n_hosts + g * (a * (a - 1) // 2) + m * (g * (g - 1) // 2)
    check_size("dragonfly", n_vertices=n_hosts + a * g, n_links=2 * n_cables)
    layers = Layers(values)

    host = np.arange(n_hosts, dtype=np.int64)
    layers.add("host", host, n_hosts + host // p)

    first, second = np.triu_indices(a, k=1)
    router = n_hosts + a * np.arange(g, dtype=np.int64)[:, None]
    layers.add("local", (router + first).reshape(-1), (router + second).reshape(-1))

    here, there = _global_cables(g, m, a, h, values)
    layers.add("global", n_hosts + here, n_hosts + there)
    params.update(p=p, a=a, h=h, g=g, **_only_used(values, m))
    return layers.topology(n_hosts=n_hosts, n_switches=a * g, family="dragonfly", params=params)


def _groups(family: str, ports: int, g: int | None, *, joined: str, remedy: str) -> tuple[int, int]:
    """Groups, and links between two of them, where each group has so many global ports; by default as many groups as these join."""
    most = ports + 1
    groups = most if g is None else int(g)
    if groups > most:
        raise InputError(
            family, f"{joined} join at most {most} groups", got=f"g={groups}", remedy=f"take g={most} or {remedy}"
        )
    return groups, ports // (groups - 1) if groups > 1 else 0


def _global_cables(g: int, m: int, a: int, h: int, values: dict[str, Any]) -> tuple[Int64, Int64]:
    """Ends of the global cables: router r of group s, the r-th of a with h global ports, is s * a + r."""
    group, port = global_ports(g, m, values["arrangement"], values["trunks"], seed=values["seed"])
    here, k = np.nonzero(np.arange(g)[:, None] < group)
    there, far = group[here, k], port[here, k]
    return here * a + k // h, there * a + far // h


def _only_used(values: dict[str, Any], m: int) -> dict[str, Any]:
    """Of the parameters that refine the arrangement, those that make a difference."""
    shuffled = values["arrangement"] == "random"
    return {
        "trunks": values["trunks"] if m > 1 and not shuffled else None,
        "seed": values["seed"] if shuffled else None,
    }


def _cascade_for(n_hosts: int) -> dict[str, Any]:
    # Groups of Aries while two or more are filled, smaller ones for fewer hosts.
    rows, columns, h = (6, 16, 10) if n_hosts > 384 else (2, 4, 2)
    p = 4
    while p * rows * columns * (rows * columns * h + 1) < n_hosts:
        p += 1
    g = max(2, -(-n_hosts // (p * rows * columns)))
    return {"p": p, "rows": rows, "columns": columns, "h": h, "g": g}


@generator("cascade", parameters=_CASCADE, size_for=_cascade_for)
def cascade(
    p: int,
    rows: int = 6,
    columns: int = 16,
    h: int = 10,
    g: int | None = None,
    *,
    column_trunk: int = 1,
    row_trunk: int = 3,
    arrangement: str = "palmtree",
    trunks: str = "spread",
    seed: int = 0,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    local_capacity: str | float | None = None,
    local_latency: str | float | None = None,
    global_capacity: str | float | None = None,
    global_latency: str | float | None = None,
) -> Topology:
    """Dragonfly of Cray Cascade (Aries): groups are flattened butterflies of rows x columns routers, not full meshes.

    Routers of one row are joined, and those of one column with ``row_trunk`` parallel links. With all global ports in
    use every group pair gets m = floor(rows columns h / (g - 1)) links. Host i is on router i // p; router r of a group
    is in row r // columns. Sized to a number of hosts it has groups of Aries with 4 hosts per router above 384 hosts,
    and groups of 2 x 4 routers up to there.

    {parameters}

    Raises
    ------
    InputError
        More groups than rows columns h + 1, or a value out of range.

    Notes
    -----
    G. Faanes et al., "Cray Cascade: a Scalable HPC System based on a Dragonfly Network", SC 2012. Arrangements: see
    :func:`global_ports`; how a machine was cabled is rarely published.

    Examples
    --------
    A group of Aries: 96 routers with 15 links in the row and 5 x 3 in the column.

    >>> cascade(p=4, g=2, h=10).expect(n_hosts=768, switch_ports_max=4 + 15 + 15 + 10)
    <Topology cascade: 768 hosts, 192 switches, 9216 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_CASCADE, "cascade", params)
    p, rows, columns, h = (int(values[key]) for key in ("p", "rows", "columns", "h"))
    a = rows * columns
    g, m = _groups("cascade", a * h, values["g"], joined=f"{a} routers and h={h}", remedy="raise h")
    widths = int(values["column_trunk"]), int(values["row_trunk"])
    n_hosts = p * a * g
    in_rows = rows * (columns * (columns - 1) // 2) * widths[0]
    in_columns = columns * (rows * (rows - 1) // 2) * widths[1]
    n_cables = n_hosts + g * (in_rows + in_columns) + m * (g * (g - 1) // 2)
    check_size("cascade", n_vertices=n_hosts + a * g, n_links=2 * n_cables)
    layers = Layers(values)

    host = np.arange(n_hosts, dtype=np.int64)
    layers.add("host", host, n_hosts + host // p)

    router = n_hosts + a * np.arange(g, dtype=np.int64)[:, None]
    for name, side, stride, begin, k in (
        ("row", columns, 1, columns * np.arange(rows, dtype=np.int64), widths[0]),
        ("column", rows, columns, np.arange(columns, dtype=np.int64), widths[1]),
    ):
        here, there = ((begin[:, None] + stride * end).reshape(-1) for end in np.triu_indices(side, k=1))
        ends = [np.repeat((router + end).reshape(-1), k) for end in (here, there)]
        layers.add(f"local {name}", ends[0], ends[1], key="local")

    ends_of = _global_cables(g, m, a, h, values)
    layers.add("global", n_hosts + ends_of[0], n_hosts + ends_of[1])
    params.update(p=p, rows=rows, columns=columns, h=h, g=g, **_only_used(values, m))
    params.update(column_trunk=widths[0], row_trunk=widths[1])
    return layers.topology(n_hosts=n_hosts, n_switches=a * g, family="cascade", params=params)


def _plus_for(n_hosts: int) -> dict[str, Any]:
    p = 1
    while p * p * (p * p + 1) < n_hosts:
        p += 1
    return {"p": p, "l": p, "s": p, "h": p}


@generator("dragonfly_plus", parameters=_PLUS, size_for=_plus_for)
def dragonfly_plus(
    p: int,
    l: int | None = None,
    s: int | None = None,
    h: int | None = None,
    g: int | None = None,
    *,
    arrangement: str = "palmtree",
    trunks: str = "spread",
    seed: int = 0,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    local_capacity: str | float | None = None,
    local_latency: str | float | None = None,
    global_capacity: str | float | None = None,
    global_latency: str | float | None = None,
) -> Topology:
    """Dragonfly+ (Megafly): g groups of l leaves and s spines, all leaves joined with all spines of their group.

    Leaves have p hosts each, spines h global links each; balanced when p = l = s = h, with switches of 2p ports. With
    fewer than sh + 1 groups every group pair gets m = floor(sh / (g - 1)) links; ports left over stay empty. Host i is
    on leaf i // p. Switches are numbered group by group, leaves first.

    {parameters}

    Raises
    ------
    InputError
        More than sh + 1 groups, or a value out of range.

    Notes
    -----
    A. Shpiner, Z. Haramaty, S. Eliad, V. Zdornov, B. Gafni, E. Zahavi, "Dragonfly+: Low Cost Topology for Scaling
    Datacenters", HiPINEB 2017; M. Flajslik, E. Borch, M. Parker, "Megafly: A Topology for Exascale Systems", ISC 2018.
    Arrangements: see :func:`global_ports`.

    Examples
    --------
    >>> dragonfly_plus(p=2).expect(n_hosts=2**2 * (2**2 + 1), switch_ports_max=4, diameter=3)
    <Topology dragonfly_plus: 20 hosts, 20 switches, 100 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_PLUS, "dragonfly_plus", params)
    p = int(values["p"])
    l, s, h = (p if values[key] is None else int(values[key]) for key in ("l", "s", "h"))
    g, m = _groups("dragonfly_plus", s * h, values["g"], joined=f"s={s} and h={h}", remedy="raise s or h")
    n_hosts, n_switches = p * l * g, (l + s) * g
    n_cables = n_hosts + g * l * s + m * (g * (g - 1) // 2)
    check_size("dragonfly_plus", n_vertices=n_hosts + n_switches, n_links=2 * n_cables)
    layers = Layers(values)

    host = np.arange(n_hosts, dtype=np.int64)
    leaf = host // p
    layers.add("host", host, n_hosts + leaf // l * (l + s) + leaf % l)

    first = n_hosts + (l + s) * np.arange(g, dtype=np.int64)[:, None]
    leaves, spines = np.divmod(np.arange(l * s, dtype=np.int64), s)
    layers.add("local", (first + leaves).reshape(-1), (first + l + spines).reshape(-1))

    ends = _global_cables(g, m, s, h, values)
    here, there = (n_hosts + end // s * (l + s) + l + end % s for end in ends)
    layers.add("global", here, there)
    params.update(p=p, l=l, s=s, h=h, g=g, **_only_used(values, m))
    return layers.topology(n_hosts=n_hosts, n_switches=n_switches, family="dragonfly_plus", params=params)


@vertex_namer("dragonfly_plus")
def _plus_name(topology: Topology, switch: int) -> str:
    l = topology.params["l"]
    group, place = divmod(switch, l + topology.params["s"])
    return f"group {group} leaf {place}" if place < l else f"group {group} spine {place - l}"


@vertex_namer("cascade")
def _cascade_name(topology: Topology, switch: int) -> str:
    columns = topology.params["columns"]
    group, router = divmod(switch, topology.params["rows"] * columns)
    return f"group {group} router ({router // columns}, {router % columns})"


@vertex_namer("dragonfly")
def _name(topology: Topology, switch: int) -> str:
    group, router = divmod(switch, topology.params["a"])
    return f"group {group} router {router}"
