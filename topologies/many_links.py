"""Networks whose hosts have several links: BCube, and the rail-optimised cluster of GPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netsim.core.arrays import Int64
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

__all__ = ["MANY_LINKS", "bcube", "host_distances", "rail_optimized"]

#: Families whose hosts have more than one link: distances are counted between hosts.
MANY_LINKS = ("bcube", "rail_optimized")

_BCUBE = (
    Parameter(name="n", kind="int", minimum=2, meaning="ports per switch"),
    Parameter(
        name="k", kind="int", default=1, minimum=0, meaning="highest level, from 0: n^(k+1) hosts of k + 1 links"
    ),
    *link_parameters(),
)
_RAIL = (
    Parameter(name="nodes", kind="int", meaning="nodes (servers)"),
    Parameter(name="gpus", kind="int", default=8, meaning="GPUs per node, each with a NIC of its own: the rails"),
    Parameter(name="radix", kind="int", default=64, minimum=2, sizing=False, meaning="ports per leaf, spine and core"),
    Parameter(
        name="unit",
        kind="int",
        default=None,
        sizing=False,
        meaning="nodes per scalable unit; if not given, half the radix, or all nodes if fewer",
    ),
    Parameter(
        name="up",
        kind="int",
        default=None,
        sizing=False,
        meaning="links up per leaf; if not given, as many as nodes per unit (no taper)",
    ),
    *link_parameters(
        host="links from NIC to leaf",
        leaf="links between leaf and spine",
        spine="links between spine and core",
    ),
    Parameter(
        name="nvlink_capacity",
        kind="rate",
        default="450GB/s",
        meaning="capacity between a GPU and the switch in its node, in each direction",
    ),
    Parameter(name="nvlink_latency", kind="time", default=None, meaning="latency of that link, if not latency"),
)


def _bcube_for(n_hosts: int) -> dict[str, Any]:
    return {"n": max(2, math.isqrt(n_hosts - 1) + 1), "k": 1}


@generator("bcube", parameters=_BCUBE, size_for=_bcube_for)
def bcube(
    n: int,
    k: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
) -> Topology:
    """BCube(n, k): n^(k+1) hosts that forward traffic, k + 1 levels of n^k switches with n ports.

    A host is written with k + 1 digits below n; switch j of level l joins the n hosts that differ in digit l alone
    (digit 0 runs fastest). Two hosts that differ in h digits are 2h links apart, over h - 1 other hosts. Sized to a
    number of hosts it has two levels.

    {parameters}

    Notes
    -----
    C. Guo et al., "BCube: A High Performance, Server-centric Network Architecture for Modular Data Centers", SIGCOMM
    2009, section 3.

    Examples
    --------
    >>> bcube(n=4, k=1).expect(n_switches=2 * 4, host_ports_max=2, diameter=4)
    <Topology bcube: 16 hosts, 8 switches, 64 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_BCUBE, "bcube", params)
    n, k = int(values["n"]), int(values["k"])
    if k >= MOST_DIMENSIONS:
        raise InputError("bcube k", f"must be below {MOST_DIMENSIONS}", got=k)
    n_hosts, per_level = n ** (k + 1), n**k
    check_size("bcube", n_vertices=n_hosts + (k + 1) * per_level, n_links=2 * (k + 1) * n_hosts)
    layers = Layers(values)
    host = np.arange(n_hosts, dtype=np.int64)
    for level in range(k + 1):
        low = n**level
        # The host's number without digit `level`.
        switch = host // (low * n) * low + host % low
        layers.add(f"level {level}", host, n_hosts + level * per_level + switch)
    params.update(n=n, k=k)
    return layers.topology(
        n_hosts=n_hosts, n_switches=(k + 1) * per_level, family="bcube", params=params, host_transit=True
    )


def _shape(values: dict[str, Any]) -> dict[str, int]:
    """Sizes of a rail-optimised cluster: units, leaves, pods of a rail, spines, and what a spine has up."""
    nodes, gpus, radix = int(values["nodes"]), int(values["gpus"]), int(values["radix"])
    unit = min(radix // 2, nodes) if values["unit"] is None else int(values["unit"])
    up = unit if values["up"] is None else int(values["up"])
    units = -(-nodes // unit)
    # Two levels: all leaves meet at the spines. Three: the leaves of one rail, half the radix of them at most, form a pod.
    three = units * gpus > radix
    pod = radix // 2 if three else units
    return {
        "nodes": nodes,
        "gpus": gpus,
        "radix": radix,
        "unit": unit,
        "up": up,
        "units": units,
        "pod": pod,
        "pods": -(-units // pod),
        "three": int(three),
    }


def _rail_for(n_hosts: int) -> dict[str, Any]:
    return {"nodes": -(-n_hosts // 8), "gpus": 8}


@generator("rail_optimized", parameters=_RAIL, size_for=_rail_for)
def rail_optimized(
    nodes: int,
    gpus: int = 8,
    radix: int = 64,
    unit: int | None = None,
    up: int | None = None,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    leaf_capacity: str | float | None = None,
    leaf_latency: str | float | None = None,
    spine_capacity: str | float | None = None,
    spine_latency: str | float | None = None,
    nvlink_capacity: str | float = "450GB/s",
    nvlink_latency: str | float | None = None,
) -> Topology:
    """Rail-optimised GPU cluster: a switch in each node, one NIC per GPU, GPU r of every node on rail r.

    Hosts are GPUs: GPU r of node i is host i * gpus + r, with a link to the node's own switch and one to the leaf of
    its scalable unit and rail. Where all leaves fit on the ports of a spine there are two levels, every leaf joined
    with every spine; otherwise the leaves of a rail have spines of their own, half of whose ports lead to cores that
    join the rails. Links up are dealt out evenly. Hosts do not forward: traffic between rails climbs to spine or core.
    Sized to a number of hosts it has nodes of 8.

    {parameters}

    Raises
    ------
    InputError
        Nodes of a unit and links up need more ports than a leaf has, or the cluster needs a fourth level.

    Notes
    -----
    The structure of NVIDIA DGX SuperPOD with 32 nodes per scalable unit and switches of 64 ports (reference
    architectures DGX H100, 2023, and B200, 2024); W. Wang, M. Ghobadi, K. Shakeri, Y. Zhang, N. Hasani, "Rail-only: A
    Low-Cost High-Performance Network for Training LLMs with Trillion Parameters", HOTI 2024, on rails.

    Examples
    --------
    >>> rail_optimized(nodes=128, host_capacity="400Gbps")  # 128 node switches, 32 leaves, 16 spines
    <Topology rail_optimized: 1024 hosts, 176 switches, 6144 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_RAIL, "rail_optimized", params)
    shape = _shape(values)
    nodes, gpus, radix, unit, up = (shape[key] for key in ("nodes", "gpus", "radix", "unit", "up"))
    units, pods, half = shape["units"], shape["pods"], radix // 2
    if unit + up > radix:
        raise InputError(
            "rail_optimized",
            f"a leaf has {radix} ports",
            got=f"unit={unit} nodes and up={up} links",
            remedy="lower one",
        )
    if pods * gpus > radix:
        raise InputError(
            "rail_optimized",
            f"three levels of {radix} ports join {radix // gpus * half * unit} nodes of {gpus}",
            got=nodes,
            remedy="raise radix or unit",
        )
    n_hosts, n_leaves = nodes * gpus, units * gpus
    check_size(
        "rail_optimized",
        n_vertices=n_hosts + nodes + 4 * n_leaves,
        n_links=2 * (2 * n_hosts + 3 * n_leaves * max(up, half)),
    )
    layers = Layers(values)
    host = np.arange(n_hosts, dtype=np.int64)
    node, rail = np.divmod(host, gpus)
    layers.add("nvlink", host, n_hosts + node)
    first_leaf = n_hosts + nodes
    layers.add("host", host, first_leaf + node // unit * gpus + rail)

    first_spine = first_leaf + n_leaves
    leaf = np.repeat(np.arange(n_leaves, dtype=np.int64), up)
    if not shape["three"]:
        n_spines, n_cores = -(-n_leaves * up // radix), 0
        layers.add("leaf-spine", first_leaf + leaf, first_spine + np.arange(leaf.size) % n_spines, key="leaf")
    else:
        # Spines are numbered pod by pod, within a pod rail by rail.
        of_unit, of_rail = np.divmod(leaf, gpus)
        of_pod, place = np.divmod(of_unit, half)
        in_pod = np.minimum(half, units - half * np.arange(pods))
        per_rail = -(-in_pod * up // half)
        before = gpus * np.concatenate([[0], np.cumsum(per_rail)])
        turn = place * up + np.arange(leaf.size) % up
        spine = before[of_pod] + of_rail * per_rail[of_pod] + turn % per_rail[of_pod]
        layers.add("leaf-spine", first_leaf + leaf, first_spine + spine, key="leaf")
        n_spines = int(before[-1])
        # Spine i of every rail and pod meet at the cores of group i.
        group = np.concatenate([np.tile(np.arange(count), gpus) for count in per_rail.tolist()])
        members = np.bincount(group)
        rank = np.empty(n_spines, dtype=np.int64)
        rank[np.argsort(group, kind="stable")] = np.concatenate([np.arange(count) for count in members.tolist()])
        cores = -(-members * half // radix)
        first_core = np.concatenate([[0], np.cumsum(cores)])
        n_cores = int(first_core[-1])
        source = np.repeat(np.arange(n_spines, dtype=np.int64), half)
        turn = rank[source] * half + np.arange(source.size) % half
        core = first_core[group[source]] + turn % cores[group[source]]
        layers.add("spine-core", first_spine + source, first_spine + n_spines + core, key="spine")
    params.update(nodes=nodes, gpus=gpus, radix=radix, unit=unit, up=up)
    return layers.topology(
        n_hosts=n_hosts, n_switches=nodes + n_leaves + n_spines + n_cores, family="rail_optimized", params=params
    )


def host_distances(topology: Topology) -> Int64:
    """Ordered pairs of distinct hosts at each distance in links; int64, for a topology of ``MANY_LINKS``.

    Notes
    -----
    BCube: hosts that differ in h of k + 1 digits are 2h apart. Rail-optimised: 2 within a node or through a leaf, 4
    through a spine, 6 through a core.

    Examples
    --------
    >>> host_distances(bcube(n=2, k=1)).tolist()
    [0, 0, 8, 0, 4]
    """
    if topology.family == "bcube":
        n, digits = topology.params["n"], topology.params["k"] + 1
        found = np.zeros(2 * digits + 1, dtype=np.int64)
        found[2::2] = [topology.n_hosts * math.comb(digits, h) * (n - 1) ** h for h in range(1, digits + 1)]
        return found
    shape = _shape(dict(topology.params))
    nodes, gpus, unit = shape["nodes"], shape["gpus"], shape["unit"]

    def square_sum(size: int) -> int:
        return nodes // size * size * size + (nodes % size) ** 2

    near = nodes * gpus * (gpus - 1) + gpus * (square_sum(unit) - nodes)
    far = topology.n_hosts * (topology.n_hosts - 1) - near
    if not shape["three"]:
        counts = [0, 0, near, 0, far]
    else:
        middle = gpus * (square_sum(unit * shape["pod"]) - square_sum(unit))
        counts = [0, 0, near, 0, middle, 0, far - middle]
    while len(counts) > 1 and not counts[-1]:
        counts.pop()
    return np.array(counts, dtype=np.int64)


@vertex_namer("bcube")
def _bcube_name(topology: Topology, switch: int) -> str:
    level, number = divmod(switch, topology.params["n"] ** topology.params["k"])
    return f"level {level} switch {number}"


@vertex_namer("rail_optimized")
def _rail_name(topology: Topology, switch: int) -> str:
    shape = _shape(dict(topology.params))
    if switch < shape["nodes"]:
        return f"node {switch} switch"
    leaf = switch - shape["nodes"]
    if leaf < shape["units"] * shape["gpus"]:
        return f"unit {leaf // shape['gpus']} rail {leaf % shape['gpus']} leaf"
    spine = leaf - shape["units"] * shape["gpus"]
    if not shape["three"]:
        return f"spine {spine}"
    half = shape["radix"] // 2
    for pod in range(shape["pods"]):
        per_rail = -(-min(half, shape["units"] - half * pod) * shape["up"] // half)
        if spine < per_rail * shape["gpus"]:
            where = f"pod {pod} " if shape["pods"] > 1 else ""
            return f"{where}rail {spine // per_rail} spine {spine % per_rail}"
        spine -= per_rail * shape["gpus"]
    return f"core {spine}"
