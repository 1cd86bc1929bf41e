"""Trees of switches: Al-Fares fat-tree, k-ary n-tree, and the extended generalised fat-tree (XGFT) behind both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from netsim.core.errors import InputError
from netsim.topologies.generators import (
    MOST_DIMENSIONS,
    Layers,
    Parameter,
    check_size,
    checked,
    generator,
    link_parameters,
)
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["fat_tree", "k_ary_n_tree", "tree_shape", "xgft"]

_SWITCH = "links between switches"
_FAT_TREE = (
    Parameter(name="k", kind="int", minimum=2, meaning="ports per switch, even; k pods, k^3/4 hosts"),
    *link_parameters(
        host="host links", edge="links between edge and aggregation", core="links between aggregation and core"
    ),
)
_K_ARY_N_TREE = (
    Parameter(name="k", kind="int", minimum=2, meaning="ports down (and up) per switch"),
    Parameter(name="n", kind="int", meaning="levels of switches; k^n hosts"),
    *link_parameters(host="host links", switch=_SWITCH),
)
_XGFT = (
    Parameter(name="m", kind="sizes", meaning="children of a node at level 1, 2, ...; hosts are level 0"),
    Parameter(name="w", kind="sizes", meaning="parents of a node at level 0, 1, ...; w < m at a level is a taper"),
    *link_parameters(host="host links", switch=_SWITCH),
)


def tree_shape(topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Children m and parents w per level of a tree of any of the three generators.

    Examples
    --------
    >>> tree_shape(fat_tree(4))
    ((2, 2, 4), (1, 2, 2))
    """
    params = topology.params
    if topology.family == "fat_tree":
        half = params["k"] // 2
        return (half, half, 2 * half), (1, half, half)
    if topology.family == "k_ary_n_tree":
        k, n = params["k"], params["n"]
        return (k,) * n, (1,) + (k,) * (n - 1)
    return tuple(params["m"]), tuple(params["w"])


def _build(
    family: str,
    params: dict[str, Any],
    values: dict[str, Any],
    m: Sequence[int],
    w: Sequence[int],
    layers: Sequence[tuple[str, str]],
) -> Topology:
    """Nodes of level l are numbered A * W + B: A is the subtree of height l, B one of the W = w_1 ... w_l on top."""
    tree = Layers(values)
    below = [1, *accumulate(m, mul)]
    above = [1, *accumulate(w, mul)]
    n_hosts = below[-1]
    count = [n_hosts // low * high for low, high in zip(below, above, strict=True)]
    n_cables = sum(nodes * ports for nodes, ports in zip(count, w))
    check_size(family, n_vertices=sum(count), n_links=2 * n_cables)
    first = [0, *accumulate(count)]
    for level, (name, key) in enumerate(layers):
        node = np.arange(count[level], dtype=np.int64)
        a, b = np.divmod(node, above[level])
        port = np.arange(w[level], dtype=np.int64)
        parent = (a // m[level] * above[level + 1] + b)[:, None] + above[level] * port
        child = np.repeat(first[level] + node, w[level])
        tree.add(name, child, first[level + 1] + parent.reshape(-1), key=key)
    return tree.topology(n_hosts=n_hosts, n_switches=sum(count[1:]), family=family, params=params)


def _check_levels(subject: str, levels: int) -> None:
    if levels > MOST_DIMENSIONS:
        raise InputError(subject, f"must be {MOST_DIMENSIONS} levels or fewer", got=levels)


def _fat_tree_for(n_hosts: int) -> dict[str, Any]:
    k = 2
    while k**3 // 4 < n_hosts:
        k += 2
    return {"k": k}


@generator("fat_tree", parameters=_FAT_TREE, size_for=_fat_tree_for)
def fat_tree(
    k: int,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    edge_capacity: str | float | None = None,
    edge_latency: str | float | None = None,
    core_capacity: str | float | None = None,
    core_latency: str | float | None = None,
) -> Topology:
    """Three-level fat-tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.

    k^3/4 hosts, 5k^2/4 switches, full bisection. Host i is on edge switch i // (k/2). It is the XGFT(3; k/2, k/2, k;
    1, k/2, k/2).

    {parameters}

    Notes
    -----
    M. Al-Fares, A. Loukissas, A. Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008,
    section 3.

    Examples
    --------
    >>> fat_tree(4)
    <Topology fat_tree: 16 hosts, 20 switches, 96 directed links>
    >>> fat_tree(5)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: fat_tree k: must be even, got 5; take k=4 or k=6
    """
    params: dict[str, Any] = {
        "k": k,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "edge_capacity": edge_capacity,
        "edge_latency": edge_latency,
        "core_capacity": core_capacity,
        "core_latency": core_latency,
    }
    values = checked(_FAT_TREE, "fat_tree", params)
    k = int(values["k"])
    if k % 2:
        raise InputError("fat_tree k", "must be even", got=k, remedy=f"take k={k - 1} or k={k + 1}")
    half = k // 2
    return _build(
        "fat_tree",
        {**params, "k": k},
        values,
        (half, half, k),
        (1, half, half),
        [("host", "host"), ("edge-aggregation", "edge"), ("aggregation-core", "core")],
    )


def _levels(n: int) -> list[tuple[str, str]]:
    return [("host", "host"), *((f"level {i}-{i + 1}", "switch") for i in range(1, n))]


def _k_ary_for(n_hosts: int) -> dict[str, Any]:
    return {"k": next(k for k in range(2, n_hosts + 2) if k**3 >= n_hosts), "n": 3}


@generator("k_ary_n_tree", parameters=_K_ARY_N_TREE, size_for=_k_ary_for)
def k_ary_n_tree(
    k: int,
    n: int,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """k-ary n-tree: k^n hosts, n levels of k^(n-1) switches with k ports down and, below the top, k ports up.

    Sized to a number of hosts it has three levels.

    {parameters}

    Notes
    -----
    F. Petrini, M. Vanneschi, "k-ary n-trees: High Performance Networks for Massively Parallel Architectures", IPPS
    1997.

    Examples
    --------
    >>> k_ary_n_tree(2, 3)
    <Topology k_ary_n_tree: 8 hosts, 12 switches, 48 directed links>
    """
    params: dict[str, Any] = {
        "k": k,
        "n": n,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "switch_capacity": switch_capacity,
        "switch_latency": switch_latency,
    }
    values = checked(_K_ARY_N_TREE, "k_ary_n_tree", params)
    k, n = int(values["k"]), int(values["n"])
    _check_levels("k_ary_n_tree n", n)
    return _build("k_ary_n_tree", {**params, "k": k, "n": n}, values, (k,) * n, (1,) + (k,) * (n - 1), _levels(n))


def _xgft_for(n_hosts: int) -> dict[str, Any]:
    up = max(1, math.isqrt((n_hosts + 5) // 6))
    while 6 * up * up < n_hosts:
        up += 1
    return {"m": (2 * up, 3 * up), "w": (1, up)}


@generator("xgft", parameters=_XGFT, size_for=_xgft_for)
def xgft(
    m: Sequence[int],
    w: Sequence[int],
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Extended generalised fat-tree XGFT(h; m_1 .. m_h; w_1 .. w_h), with any taper.

    Level l (0: hosts) has m_(l+1) ... m_h * w_1 ... w_l nodes; each has w_(l+1) parents and, above the hosts, m_l
    children. The taper of level l is m_l / w_(l+1) ports down per port up. Sized to a number of hosts it has two
    levels of switches of 3u ports and a taper of 2:1: m = (2u, 3u), w = (1, u).

    {parameters}

    Notes
    -----
    S. Öhring, M. Ibel, S. Das, M. Kumar, "On Generalized Fat Trees", IPPS 1995.

    Examples
    --------
    >>> xgft(m=(4, 4), w=(1, 2))
    <Topology xgft: 16 hosts, 6 switches, 48 directed links>
    """
    params: dict[str, Any] = {
        "m": m,
        "w": w,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "switch_capacity": switch_capacity,
        "switch_latency": switch_latency,
    }
    values = checked(_XGFT, "xgft", params)
    m, w = values["m"], values["w"]
    if len(m) != len(w):
        raise InputError(
            "xgft", "m and w must have one number per level each", got=f"{len(m)} numbers for m and {len(w)} for w"
        )
    _check_levels("xgft m", len(m))
    return _build("xgft", {**params, "m": m, "w": w}, values, m, w, _levels(len(m)))


def _tree_name(topology: Topology, switch: int) -> str:
    m, w = tree_shape(topology)
    level, nodes, tops = 1, math.prod(m[1:]), w[0]
    while switch >= nodes * tops:
        switch -= nodes * tops
        nodes, tops, level = nodes // m[level], tops * w[level], level + 1
    subtree, number = divmod(switch, tops)
    if topology.family != "fat_tree":
        return f"level {level} switch {subtree}.{number}"
    half = topology.params["k"] // 2
    if level == 1:
        return f"pod {subtree // half} edge {subtree % half}"
    return f"pod {subtree} aggregation {number}" if level == 2 else f"core {number}"


for _family in ("fat_tree", "k_ary_n_tree", "xgft"):
    vertex_namer(_family)(_tree_name)
