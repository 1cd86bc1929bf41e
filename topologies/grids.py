"""Torus and mesh of any number of dimensions."""

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
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["coordinates", "mesh", "nearly_equal", "torus"]

_PARAMETERS = (
    Parameter(name="dims", kind="sizes", meaning="switches along each dimension; unequal sides, 1 and 2 are allowed"),
    Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch"),
    *link_parameters(host="host links", switch="links between switches"),
)


def nearly_equal(product: int, n_dims: int) -> tuple[int, ...]:
    """Sides that differ by at most one, ascending, with the least product that is enough.

    >>> nearly_equal(64, 3), nearly_equal(65, 3)
    ((4, 4, 4), (4, 4, 5))
    """
    side = 1
    while (side + 1) ** n_dims <= product:
        side += 1
    longer = next(i for i in range(n_dims + 1) if side ** (n_dims - i) * (side + 1) ** i >= product)
    return (side,) * (n_dims - longer) + (side + 1,) * longer


def coordinates(switch: Int64, dims: Sequence[int]) -> Int64:
    """Coordinates of switches; int64, shape (n, len(dims)). The last coordinate runs fastest.

    >>> coordinates(np.array([5]), (2, 3)).tolist()
    [[1, 2]]
    """
    return np.stack(np.unravel_index(switch, tuple(dims)), axis=-1).astype(np.int64)


def _build(family: str, params: dict[str, Any], *, wrap: bool) -> Topology:
    values = checked(_PARAMETERS, family, params)
    dims, per_switch = values["dims"], values["hosts"]
    if len(dims) > MOST_DIMENSIONS:
        raise InputError(f"{family} dims", f"must be {MOST_DIMENSIONS} sides or fewer", got=f"{len(dims)} sides")
    n_switches = math.prod(dims)
    n_hosts = n_switches * per_switch
    n_cables = n_hosts + sum(n_switches // side * (side if wrap and side > 2 else side - 1) for side in dims)
    check_size(family, n_vertices=n_hosts + n_switches, n_links=2 * n_cables)
    grid = Layers(values)
    host = np.arange(n_hosts, dtype=np.int64)
    grid.add("host", host, n_hosts + host // max(per_switch, 1))
    switch = np.arange(n_switches, dtype=np.int64)
    place = coordinates(switch, dims)
    stride = n_switches
    for d, side in enumerate(dims):
        stride //= side
        # A wrap link of a side of 2 would lie beside the link that is there already; of a side of 1 it would be a loop.
        here = switch if wrap and side > 2 else switch[place[:, d] < side - 1]
        there = np.where(place[here, d] < side - 1, here + stride, here - (side - 1) * stride)
        grid.add(f"dimension {d}", n_hosts + here, n_hosts + there, key="switch")
    return grid.topology(
        n_hosts=n_hosts,
        n_switches=n_switches,
        family=family,
        params={**params, "dims": dims, "hosts": per_switch},
    )


def _torus_for(n_hosts: int) -> dict[str, Any]:
    return {"dims": nearly_equal(n_hosts, 3)}


@generator("torus", parameters=_PARAMETERS, size_for=_torus_for)
def torus(
    dims: Sequence[int],
    hosts: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Torus (k-ary n-cube when all sides are k): a ring of switches in each dimension.

    A side of 2 has one link each way, not the doubled pair that two wrap links would give; a side of 1 has none. Host
    i is on switch i // hosts. Sized to a number of hosts it has three sides that differ by at most one.

    {parameters}

    Notes
    -----
    W. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 5.

    Examples
    --------
    >>> torus((4, 4, 4))
    <Topology torus: 64 hosts, 64 switches, 512 directed links>
    """
    params: dict[str, Any] = {
        "dims": dims,
        "hosts": hosts,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "switch_capacity": switch_capacity,
        "switch_latency": switch_latency,
    }
    return _build("torus", params, wrap=True)


def _mesh_for(n_hosts: int) -> dict[str, Any]:
    return {"dims": nearly_equal(n_hosts, 2)}


@generator("mesh", parameters=_PARAMETERS, size_for=_mesh_for)
def mesh(
    dims: Sequence[int],
    hosts: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Mesh: a line of switches in each dimension, a torus without its wrap links.

    A side of 1 has no links; with sides of 2 and 1 only, mesh and torus are the same. Host i is on switch i // hosts.
    Sized to a number of hosts it has two sides that differ by at most one.

    {parameters}

    Notes
    -----
    W. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 5.

    Examples
    --------
    >>> mesh((4, 4))
    <Topology mesh: 16 hosts, 16 switches, 80 directed links>
    """
    params: dict[str, Any] = {
        "dims": dims,
        "hosts": hosts,
        "capacity": capacity,
        "latency": latency,
        "host_capacity": host_capacity,
        "host_latency": host_latency,
        "switch_capacity": switch_capacity,
        "switch_latency": switch_latency,
    }
    return _build("mesh", params, wrap=False)


def _grid_name(topology: Topology, switch: int) -> str:
    place = coordinates(np.array([switch]), topology.params["dims"])[0]
    return f"switch ({', '.join(str(c) for c in place.tolist())})"


for _family in ("torus", "mesh"):
    vertex_namer(_family)(_grid_name)
