"""Fully connected dimensions: HyperX, flattened butterfly, hypercube, and the full mesh as its one-dimensional case."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from netsim.topologies.grids import coordinates, nearly_equal
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["FULLY_CONNECTED", "flattened_butterfly", "full_mesh", "hypercube", "hyperx", "hyperx_shape"]

#: Families whose switches are all joined along each dimension.
FULLY_CONNECTED = ("hyperx", "flattened_butterfly", "hypercube", "full_mesh")

_LINKS = link_parameters(host="host links", switch="links between switches")
_HYPERX = (
    Parameter(name="dims", kind="sizes", meaning="switches along each dimension (S); unequal sides are allowed"),
    Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch (T)"),
    Parameter(
        name="trunk",
        kind="sizes",
        default=1,
        sizing=False,
        meaning="parallel links between two switches, for all dimensions or for each (K)",
    ),
    *_LINKS,
)
_FLATTENED = (
    Parameter(name="k", kind="int", minimum=2, meaning="switches along each dimension, and hosts per switch"),
    Parameter(name="n", kind="int", minimum=2, meaning="stages of the butterfly: n - 1 dimensions, k^n hosts"),
    *_LINKS,
)
_HYPERCUBE = (
    Parameter(name="n", kind="int", minimum=0, meaning="dimensions; 2^n switches"),
    Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch"),
    *_LINKS,
)
_FULL_MESH = (
    Parameter(name="n", kind="int", meaning="switches"),
    Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch"),
    Parameter(name="trunk", kind="int", default=1, sizing=False, meaning="parallel links between two switches"),
    *_LINKS,
)


def hyperx_shape(topology: Topology) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sides and parallel links per dimension of a network of any of the four generators.

    Examples
    --------
    >>> hyperx_shape(hypercube(3)), hyperx_shape(full_mesh(5, trunk=2))
    (((2, 2, 2), (1, 1, 1)), ((5,), (2,)))
    """
    params = topology.params
    if topology.family == "hyperx":
        dims, trunk = tuple(params["dims"]), tuple(params["trunk"])
        return dims, trunk * len(dims) if len(trunk) == 1 else trunk
    if topology.family == "flattened_butterfly":
        n = params["n"] - 1
        return (params["k"],) * n, (1,) * n
    if topology.family == "hypercube":
        return (2,) * params["n"], (1,) * params["n"]
    return (params["n"],), (params["trunk"],)


def _build(
    family: str,
    params: dict[str, Any],
    values: dict[str, Any],
    dims: Sequence[int],
    per_switch: int,
    trunk: Sequence[int],
) -> Topology:
    if len(dims) > MOST_DIMENSIONS:
        raise InputError(family, f"must have {MOST_DIMENSIONS} dimensions or fewer", got=f"{len(dims)} dimensions")
    n_switches = math.prod(dims)
    n_hosts = n_switches * per_switch
    n_cables = n_hosts + sum(n_switches * (side - 1) // 2 * k for side, k in zip(dims, trunk, strict=True))
    check_size(family, n_vertices=n_hosts + n_switches, n_links=2 * n_cables)
    net = Layers(values)
    host = np.arange(n_hosts, dtype=np.int64)
    net.add("host", host, n_hosts + host // max(per_switch, 1))
    stride = n_switches
    for d, (side, k) in enumerate(zip(dims, trunk, strict=True)):
        stride //= side
        first, second = np.triu_indices(side, k=1)
        # The switches whose coordinate d is 0: each begins a row along d.
        row = np.arange(n_switches // side, dtype=np.int64)
        row = n_hosts + row // stride * (stride * side) + row % stride
        here, there = (np.repeat((row[:, None] + stride * end).reshape(-1), k) for end in (first, second))
        net.add(f"dimension {d}", here, there, key="switch")
    return net.topology(n_hosts=n_hosts, n_switches=n_switches, family=family, params=params)


def _hyperx_for(n_hosts: int) -> dict[str, Any]:
    hosts, *dims = nearly_equal(n_hosts, 3)
    return {"dims": tuple(dims), "hosts": hosts}


@generator("hyperx", parameters=_HYPERX, size_for=_hyperx_for)
def hyperx(
    dims: Sequence[int],
    hosts: int = 1,
    trunk: int | Sequence[int] = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """HyperX: switches in a grid, all switches that differ in one coordinate joined.

    Sides S_d, K_d parallel links in dimension d: a switch has sum K_d (S_d - 1) ports to others, the diameter is the
    number of sides above 1. Host i is on switch i // hosts. A side of 1 has no links. Sized to a number of hosts it has
    two dimensions and about as many hosts per switch as a side is long.

    {parameters}

    Raises
    ------
    InputError
        The numbers of ``trunk`` are neither one nor as many as dimensions, or a value is out of range.

    Notes
    -----
    J. Ahn, N. Binkert, A. Davis, M. McLaren, R. Schreiber, "HyperX: Topology, Routing, and Packaging of Efficient
    Large-Scale Networks", SC 2009, section 2.

    Examples
    --------
    >>> hyperx((4, 4), hosts=4)
    <Topology hyperx: 64 hosts, 16 switches, 224 directed links>
    >>> hyperx((4, 8), hosts=4, trunk=(2, 1)).expect(diameter=2, switch_ports_max=4 + 2 * 3 + 7).n_switches
    32
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_HYPERX, "hyperx", params)
    sides, widths = values["dims"], values["trunk"]
    if len(widths) not in (1, len(sides)):
        raise InputError(
            "hyperx trunk", f"must have one number, or one for each of the {len(sides)} sides", got=len(widths)
        )
    params.update(dims=sides, hosts=values["hosts"], trunk=widths)
    return _build("hyperx", params, values, sides, values["hosts"], widths * len(sides) if len(widths) == 1 else widths)


def _flattened_for(n_hosts: int) -> dict[str, Any]:
    return {"k": next(k for k in range(2, n_hosts + 2) if k**3 >= n_hosts), "n": 3}


@generator("flattened_butterfly", parameters=_FLATTENED, size_for=_flattened_for)
def flattened_butterfly(
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
    """Flattened butterfly (k-ary n-flat): the HyperX of n - 1 equal sides k with k hosts per switch.

    k^n hosts, k^(n-1) switches of n (k - 1) + 1 ports. Sized to a number of hosts it has two dimensions.

    {parameters}

    Notes
    -----
    J. Kim, W. Dally, D. Abts, "Flattened Butterfly: A Cost-Efficient Topology for High-Radix Networks", ISCA 2007.

    Examples
    --------
    >>> flattened_butterfly(k=4, n=3).expect(n_hosts=4**3, switch_ports_max=3 * (4 - 1) + 1, diameter=2)
    <Topology flattened_butterfly: 64 hosts, 16 switches, 224 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_FLATTENED, "flattened_butterfly", params)
    k, n = values["k"], values["n"]
    params.update(k=k, n=n)
    # Checked before the sides are written out: n may be any number.
    if n - 1 > MOST_DIMENSIONS:
        raise InputError("flattened_butterfly n", f"must be {MOST_DIMENSIONS + 1} or less", got=n)
    return _build("flattened_butterfly", params, values, (k,) * (n - 1), k, (1,) * (n - 1))


def _hypercube_for(n_hosts: int) -> dict[str, Any]:
    return {"n": (n_hosts - 1).bit_length()}


@generator("hypercube", parameters=_HYPERCUBE, size_for=_hypercube_for)
def hypercube(
    n: int,
    hosts: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Hypercube (binary n-cube): 2^n switches, joined where their numbers differ in one bit.

    Host i is on switch i // hosts. Sized to a number of hosts it has one host per switch.

    {parameters}

    Notes
    -----
    W. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 5.

    Examples
    --------
    >>> hypercube(4).expect(diameter=4, bisection_bytes_per_s=16 // 2 * 12.5e9)
    <Topology hypercube: 16 hosts, 16 switches, 96 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_HYPERCUBE, "hypercube", params)
    params.update(n=values["n"], hosts=values["hosts"])
    if values["n"] > MOST_DIMENSIONS:
        raise InputError("hypercube n", f"must be {MOST_DIMENSIONS} or less", got=values["n"])
    return _build("hypercube", params, values, (2,) * values["n"], values["hosts"], (1,) * values["n"])


def _full_mesh_for(n_hosts: int) -> dict[str, Any]:
    few, many = nearly_equal(n_hosts, 2)
    return {"n": many, "hosts": few}


@generator("full_mesh", parameters=_FULL_MESH, size_for=_full_mesh_for)
def full_mesh(
    n: int,
    hosts: int = 1,
    trunk: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Full mesh: every two switches are joined.

    Host i is on switch i // hosts. Sized to a number of hosts it has about as many switches as hosts per switch, the
    most that uniform traffic over shortest paths can fill.

    {parameters}

    Examples
    --------
    >>> full_mesh(8).expect(diameter=1, bisection_bytes_per_s=4 * 4 * 12.5e9)
    <Topology full_mesh: 8 hosts, 8 switches, 72 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_FULL_MESH, "full_mesh", params)
    params.update({key: values[key] for key in ("n", "hosts", "trunk")})
    return _build("full_mesh", params, values, (values["n"],), values["hosts"], (values["trunk"],))


def _name(topology: Topology, switch: int) -> str:
    dims, _ = hyperx_shape(topology)
    if topology.family == "hypercube":
        return f"switch {switch:0{len(dims)}b}" if dims else "switch 0"
    place: Int64 = coordinates(np.array([switch]), dims)[0]
    return f"switch ({', '.join(str(c) for c in place.tolist())})" if len(dims) > 1 else f"switch {switch}"


for _family in FULLY_CONNECTED:
    vertex_namer(_family)(_name)
