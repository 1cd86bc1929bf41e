"""Dragonfly: groups of fully meshed routers, one or more links between every two groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.topologies.generators import Layers, Parameter, check_size, checked, generator, link_parameters
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["ARRANGEMENTS", "dragonfly", "global_ports"]

ARRANGEMENTS = ("palmtree", "absolute", "relative", "circulant")

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
    *link_parameters(host="host links", local="links inside a group", **{"global": "links between groups"}),
)


def _size_for(n_hosts: int) -> dict[str, Any]:
    p = 1
    while 2 * p * p * (2 * p * p + 1) < n_hosts:
        p += 1
    return {"p": p, "a": 2 * p, "h": p}


def global_ports(g: int, m: int, arrangement: str) -> tuple[Int64, Int64]:
    """Where the global ports of a group lead.

    The ``m (g - 1)`` ports in use are numbered through the group, router by router. They form m rounds of g - 1 ports;
    every round reaches every other group once, so that the m links of a group pair start at ports g - 1 apart, on
    different routers as soon as g > h.

    Parameters
    ----------
    g : int
        Groups.
    m : int
        Links per group pair.
    arrangement : str
        One of ``ARRANGEMENTS``.

    Returns
    -------
    group, port : int64 arrays, shape (g, m (g - 1))
        Port k of group s leads to port ``port[s, k]`` of group ``group[s, k]``.

    Notes
    -----
    With j = k mod (g - 1): palmtree: group s - (j + 1), far port g - 2 - j. Relative: s + (j + 1), the same far port.
    Absolute (consecutive): the j-th group when s itself is left out; far port s, or s - 1 if s is above. Circulant: s
    + 1, s - 1, s + 2, s - 2, ...; even and odd ports are joined, and for even g the last port, half way round, is
    joined with itself. Camarero et al., ACM TACO 11(4), 2014; Hastings et al., IEEE CLUSTER 2015.

    Examples
    --------
    >>> group, port = global_ports(3, 1, "palmtree")
    >>> group.tolist(), port.tolist()
    ([[2, 1], [0, 2], [1, 0]], [[1, 0], [1, 0], [1, 0]])
    """
    s = np.arange(g, dtype=np.int64)[:, None]
    k = np.arange(m * (g - 1), dtype=np.int64)[None, :]
    base, j = np.divmod(k, max(g - 1, 1))
    if arrangement == "palmtree":
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
    return np.broadcast_to(group, (g, k.size)).astype(np.int64), (port + base * (g - 1)).astype(np.int64)


@generator("dragonfly", parameters=_PARAMETERS, size_for=_size_for)
def dragonfly(
    p: int,
    a: int | None = None,
    h: int | None = None,
    g: int | None = None,
    *,
    arrangement: str = "palmtree",
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
    params: dict[str, Any] = {
        "p": p,
        "a": a,
        "h": h,
        "g": g,
        "arrangement": arrangement,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "local_capacity": local_capacity,
        "local_latency": local_latency,
        "global_capacity": global_capacity,
        "global_latency": global_latency,
    }
    values = checked(_PARAMETERS, "dragonfly", params)
    p = int(values["p"])
    a = 2 * p if values["a"] is None else int(values["a"])
    h = p if values["h"] is None else int(values["h"])
    g = a * h + 1 if values["g"] is None else int(values["g"])
    if g > a * h + 1:
        raise InputError(
            "dragonfly",
            f"a={a} and h={h} join at most {a * h + 1} groups",
            got=f"g={g}",
            remedy=f"take g={a * h + 1} or raise a or h",
        )
    m = a * h // (g - 1) if g > 1 else 0
    n_hosts = p * a * g
    n_cables = n_hosts + g * (a * (a - 1) // 2) + m * (g * (g - 1) // 2)
    check_size("dragonfly", n_vertices=n_hosts + a * g, n_links=2 * n_cables)
    layers = Layers(values)

    host = np.arange(n_hosts, dtype=np.int64)
    layers.add("host", host, n_hosts + host // p)

    first, second = np.triu_indices(a, k=1)
    router = n_hosts + a * np.arange(g, dtype=np.int64)[:, None]
    layers.add("local", (router + first).reshape(-1), (router + second).reshape(-1))

    group, port = global_ports(g, m, arrangement)
    here, k = np.nonzero(np.arange(g)[:, None] < group)
    there, far = group[here, k], port[here, k]
    layers.add("global", n_hosts + here * a + k // h, n_hosts + there * a + far // h)
    return layers.topology(
        n_hosts=n_hosts, n_switches=a * g, family="dragonfly", params={**params, "p": p, "a": a, "h": h, "g": g}
    )


@vertex_namer("dragonfly")
def _name(topology: Topology, switch: int) -> str:
    group, router = divmod(switch, topology.params["a"])
    return f"group {group} router {router}"
