"""Torus, twisted torus and mesh of any number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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

__all__ = ["OpticalPorts", "coordinates", "mesh", "nearly_equal", "optical_ports", "torus", "twisted_torus"]

_PARAMETERS = (
    Parameter(name="dims", kind="sizes", meaning="switches along each dimension; unequal sides, 1 and 2 are allowed"),
    Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch"),
    *link_parameters(host="host links", switch="links between switches"),
)


_BLOCK = (
    Parameter(
        name="block",
        kind="sizes",
        default=None,
        sizing=False,
        meaning="sides of a block with links of its own; links that leave it pass optical switches",
    ),
    *link_parameters(optical="links that leave a block")[2:],
)
_TORUS = (*_PARAMETERS, *_BLOCK)
_TWISTED = (
    _PARAMETERS[0],
    Parameter(
        name="twist",
        kind="sizes",
        default=None,
        minimum=0,
        sizing=False,
        meaning="for each dimension, steps along the longest one that its wrap links add; if not given, half the "
        "longest side in every other dimension",
    ),
    *_PARAMETERS[1:],
    *_BLOCK,
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


def _check_dimensions(family: str, dims: Sequence[int]) -> None:
    if len(dims) > MOST_DIMENSIONS:
        raise InputError(f"{family} dims", f"must be {MOST_DIMENSIONS} sides or fewer", got=f"{len(dims)} sides")


def _build(
    family: str, params: dict[str, Any], values: dict[str, Any], *, wrap: bool, twist: Sequence[int] | None = None
) -> Topology:
    """Torus or mesh; ``twist`` has the steps along the longest side, 0 <= steps < side, that each wrap link adds."""
    dims, per_switch, block = values["dims"], values["hosts"], values.get("block")
    _check_dimensions(family, dims)
    if block is not None:
        _check_block(family, dims, block, twist)
    shift = [0] * len(dims) if twist is None else twist
    # A wrap link of a side of 2 would lie beside the link that is there already, unless it is twisted; of a side of 1
    # it would be a loop.
    wraps = [wrap and (side > 2 or (side == 2 and by > 0)) for side, by in zip(dims, shift, strict=True)]
    n_switches = math.prod(dims)
    n_hosts = n_switches * per_switch
    n_cables = n_hosts + sum(n_switches // side * (side - 1 + ring) for side, ring in zip(dims, wraps, strict=True))
    check_size(family, n_vertices=n_hosts + n_switches, n_links=2 * n_cables)
    grid = Layers(values)
    host = np.arange(n_hosts, dtype=np.int64)
    # A block is made of chips that have the ports themselves.
    grid.add("host" if block is None else "chip", host, n_hosts + host // max(per_switch, 1), key="host")
    switch = np.arange(n_switches, dtype=np.int64)
    place = coordinates(switch, dims)
    longest = dims.index(max(dims))
    along = math.prod(dims[longest + 1 :])
    stride = n_switches
    for d, side in enumerate(dims):
        stride //= side
        here = switch if wraps[d] else switch[place[:, d] < side - 1]
        there = np.where(place[here, d] < side - 1, here + stride, here - (side - 1) * stride)
        if shift[d]:
            at = place[here, longest]
            moved = (at + shift[d]) % dims[longest] - at
            there = there + np.where(place[here, d] < side - 1, 0, moved * along)
        leaves = np.zeros(here.size, dtype=np.bool_) if block is None else (place[here, d] + 1) % block[d] == 0
        grid.add(f"dimension {d}", n_hosts + here[~leaves], n_hosts + there[~leaves], key="switch")
        if leaves.any():
            grid.add(f"optical {d}", n_hosts + here[leaves], n_hosts + there[leaves], key="optical")
    return grid.topology(
        n_hosts=n_hosts,
        n_switches=n_switches,
        family=family,
        params={**params, "dims": dims, "hosts": per_switch, **({"block": block} if block else {})},
    )


def _check_block(family: str, dims: Sequence[int], block: Sequence[int], twist: Sequence[int] | None) -> None:
    if len(block) != len(dims):
        raise InputError(f"{family} block", f"must have one number for each of the {len(dims)} sides", got=len(block))
    for d, (side, part) in enumerate(zip(dims, block, strict=True)):
        if side % part:
            raise InputError(f"{family} block", f"must divide the side of {side} of dimension {d}", got=part)
    # Both ends of a twisted wrap link have to be at the same place of their faces, where one optical switch joins them.
    longest = dims.index(max(dims))
    for by in twist or ():
        if by % block[longest]:
            raise InputError(f"{family} twist", f"must be a multiple of the block's side of {block[longest]}", got=by)


@dataclass(frozen=True, kw_only=True)
class OpticalPorts:
    """Result of :func:`optical_ports`: for each link through an optical switch, the switch and two of its ports."""

    link: Int64
    switch: Int64
    port_in: Int64
    port_out: Int64


def optical_ports(topology: Topology) -> OpticalPorts:
    """Which optical switch joins the blocks of a torus at each link that leaves one, and through which ports.

    There is one optical switch for each dimension and place on the face of a block. Block b, counted as switches are,
    has two ports on it: 2b for the face it leaves upwards, 2b + 1 for the other. So a link is a circuit that the switch
    can set, and other circuits between the same ports would give other networks of these blocks: larger and smaller
    tori, twisted ones, or a way around a broken block.

    Parameters
    ----------
    topology : Topology
        A torus or twisted torus with the parameter ``block``.

    Returns
    -------
    OpticalPorts
        Arrays of int64, shape (links that leave a block,), directed links as everywhere.

    Raises
    ------
    InputError
        A topology without blocks.

    Notes
    -----
    N. Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer for Machine Learning with Hardware Support for
    Embeddings", ISCA 2023, section 2: 64 blocks of 4 x 4 x 4, 48 switches of 128 ports in use.

    Examples
    --------
    >>> found = optical_ports(torus((8, 8), block=(4, 4)))
    >>> found.link.size, int(found.switch.max()) + 1, int(found.port_in.max()) + 1
    (64, 8, 8)
    """
    block = topology.params.get("block") if topology.family in ("torus", "twisted_torus") else None
    if block is None:
        raise InputError(f"topology {topology.family}", "has no blocks", remedy="build a torus with block=4x4x4")
    dims, n_hosts = topology.params["dims"], topology.n_hosts
    sides = np.array(block, dtype=np.int64)
    link, switch, ports = [], [], []
    first = 0
    for d, part in enumerate(block):
        name = f"optical {d}"
        if name not in topology.layer_names:
            continue
        mine = np.flatnonzero(topology.link_layer == topology.layer_names.index(name))
        place = [
            coordinates(end[mine].astype(np.int64) - n_hosts, dims) for end in (topology.link_src, topology.link_dst)
        ]
        number = [np.ravel_multi_index(tuple((p // sides).T), [n // b for n, b in zip(dims, block)]) for p in place]
        others = [e for e in range(len(dims)) if e != d]
        face = np.zeros(mine.size, dtype=np.int64)
        for e in others:
            face = face * block[e] + place[0][:, e] % block[e]
        # Rows 2c of a cable go up; a block of side 1 has both faces at the same place.
        up = mine % 2 == 0
        link.append(mine)
        switch.append(first + face)
        ports.append([2 * number[0] + np.where(up, 0, 1), 2 * number[1] + np.where(up, 1, 0)])
        first += math.prod(block) // part
    empty = np.zeros(0, dtype=np.int64)
    return OpticalPorts(
        link=np.concatenate([empty, *link]),
        switch=np.concatenate([empty, *switch]),
        port_in=np.concatenate([empty, *(p[0] for p in ports)]),
        port_out=np.concatenate([empty, *(p[1] for p in ports)]),
    )


def _torus_for(n_hosts: int) -> dict[str, Any]:
    return {"dims": nearly_equal(n_hosts, 3)}


@generator("torus", parameters=_TORUS, size_for=_torus_for)
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
    block: Sequence[int] | None = None,
    optical_capacity: str | float | None = None,
    optical_latency: str | float | None = None,
) -> Topology:
    """Torus (k-ary n-cube when all sides are k): a ring of switches in each dimension.

    A side of 2 has one link each way, not the doubled pair that two wrap links would give; a side of 1 has none. Host
    i is on switch i // hosts. Sized to a number of hosts it has three sides that differ by at most one.

    With ``block`` it is built of blocks, as TPU pods are: links inside a block are of the layer "dimension d", those that
    leave it are of the layer "optical d" and pass an optical switch, see :func:`optical_ports`.

    {parameters}

    Raises
    ------
    InputError
        A side is no multiple of the block's, or a value is out of range.

    Notes
    -----
    W. Dally, B. Towles, "Principles and Practices of Interconnection Networks", 2004, chapter 5.

    Examples
    --------
    >>> torus((4, 4, 4))
    <Topology torus: 64 hosts, 64 switches, 512 directed links>
    >>> net = torus((8, 8, 8), block=(4, 4, 4))
    >>> [(name, int((net.link_layer == i).sum())) for i, name in enumerate(net.layer_names) if i in (1, 2)]
    [('dimension 0', 768), ('optical 0', 256)]
    """
    params: dict[str, Any] = dict(locals())
    return _build("torus", params, checked(_TORUS, "torus", params), wrap=True)


def _twisted_for(n_hosts: int) -> dict[str, Any]:
    side = next(a for a in range(1, n_hosts + 1) if 2 * a**3 >= n_hosts)
    return {"dims": (2 * side, side, side)}


@generator("twisted_torus", parameters=_TWISTED, size_for=_twisted_for)
def twisted_torus(
    dims: Sequence[int],
    twist: Sequence[int] | None = None,
    hosts: int = 1,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
    block: Sequence[int] | None = None,
    optical_capacity: str | float | None = None,
    optical_latency: str | float | None = None,
) -> Topology:
    """Twisted torus: a torus whose wrap links also step along the longest dimension, which shortens its paths.

    With sides (2a, a) or (2a, a, a) and the default twist of a, the rectangular and the prismatic doubly twisted torus:
    all dimensions are used alike, with a shorter diameter and a lower mean than the torus of these sides. The first of
    the longest sides counts. A side of 1 has no links; a side of 2 has its wrap links only where they are twisted. Host
    i is on switch i // hosts. ``block`` as in :func:`torus`. Sized to a number of hosts it has the sides 2a, a, a.

    {parameters}

    Raises
    ------
    InputError
        ``twist`` does not have one number per side, twists the longest dimension itself, or does not fit the block.

    Notes
    -----
    J. Camara, M. Moreto, E. Vallejo, R. Beivide, J. Miguel-Alonso, C. Martinez, J. Navaridas, "Twisted Torus Topologies
    for Enhanced Interconnection Networks", IEEE TPDS 21(12), 2010.

    Examples
    --------
    >>> twisted_torus((8, 4)).expect(n_links=4 * 32 + 2 * 32, diameter=4)
    <Topology twisted_torus: 32 hosts, 32 switches, 192 directed links>
    >>> torus((8, 4)).expect(diameter=6).n_links
    192
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_TWISTED, "twisted_torus", params)
    sides = values["dims"]
    _check_dimensions("twisted_torus", sides)
    longest = sides.index(max(sides))
    steps = values["twist"]
    if steps is None:
        steps = tuple(0 if d == longest else sides[longest] // 2 for d in range(len(sides)))
    if len(steps) != len(sides):
        raise InputError(
            "twisted_torus twist", f"must have one number for each of the {len(sides)} sides", got=len(steps)
        )
    steps = tuple(by % sides[longest] for by in steps)
    if steps[longest]:
        raise InputError(
            "twisted_torus twist", f"must be 0 in the longest dimension, number {longest}", got=steps[longest]
        )
    params["twist"] = steps
    return _build("twisted_torus", params, values, wrap=True, twist=steps)


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
    return _build("mesh", params, checked(_PARAMETERS, "mesh", params), wrap=False)


def _grid_name(topology: Topology, switch: int) -> str:
    place = coordinates(np.array([switch]), topology.params["dims"])[0]
    return f"switch ({', '.join(str(c) for c in place.tolist())})"


for _family in ("torus", "twisted_torus", "mesh"):
    vertex_namer(_family)(_grid_name)
