"""Networks derived from others: links left out or added, capacities scaled, hosts joined. The original stays."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import frozen
from netsim.core.errors import InputError, closest
from netsim.core.units import parse_rate, parse_time
from netsim.topologies.generators import cables
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology

__all__ = ["as_graph", "join_hosts", "more_links", "only_links", "scale_links", "with_links", "without_links"]


def _rows(topology: Topology, links: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which links are meant, from link numbers; bool, shape (n_links,)."""
    number = np.atleast_1d(np.asarray(links))
    if number.size and not np.issubdtype(number.dtype, np.integer):
        raise InputError("links", "must be link numbers", got=f"{number.dtype} values")
    bad = np.flatnonzero((number < 0) | (number >= topology.n_links))
    if bad.size:
        raise InputError("links", f"must be among the {topology.n_links} links", got=int(number[bad[0]]))
    chosen = np.zeros(topology.n_links, dtype=np.bool_)
    chosen[number.astype(np.int64)] = True
    return chosen


def as_graph(topology: Topology) -> Topology:
    """The same network without known structure: what is derived from the structure no longer holds after a change."""
    names = topology.vertex_names or tuple(topology.vertex_name(v) for v in range(topology.n_vertices))
    return replace(topology, family="graph", params=MappingProxyType({}), vertex_names=names)


def only_links(topology: Topology, kept: npt.NDArray[np.bool_]) -> Topology:
    """The network with some of its links, in their old order, of the same family: for callers that know what of its structure still holds.

    Parameters
    ----------
    topology : Topology
    kept : bool array, shape (n_links,)
    """
    return replace(
        topology,
        link_src=frozen(topology.link_src[kept], np.int32),
        link_dst=frozen(topology.link_dst[kept], np.int32),
        link_capacity_bytes_per_s=frozen(topology.link_capacity_bytes_per_s[kept], np.float64),
        link_latency_s=frozen(topology.link_latency_s[kept], np.float64),
        link_layer=frozen(topology.link_layer[kept], np.int16),
    )


def more_links(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    capacity_bytes_per_s: npt.ArrayLike,
    latency_s: npt.ArrayLike,
    layer: str,
) -> Topology:
    """The network with single links after its own, of the same family, unchecked: like `only_links`, for callers that know.

    Parameters
    ----------
    topology : Topology
    source, destination : int array, shape (n,)
        Vertices.
    capacity_bytes_per_s, latency_s : float or float array, shape (n,)
    layer : str
        A new one or one the network has.
    """
    names = topology.layer_names if layer in topology.layer_names else (*topology.layer_names, layer)
    n = np.size(source)

    def longer(values: npt.NDArray[Any], more: npt.ArrayLike) -> npt.NDArray[Any]:
        return frozen(np.concatenate([values, np.broadcast_to(np.asarray(more, dtype=values.dtype), n)]), values.dtype)

    return replace(
        topology,
        link_src=longer(topology.link_src, source),
        link_dst=longer(topology.link_dst, destination),
        link_capacity_bytes_per_s=longer(topology.link_capacity_bytes_per_s, capacity_bytes_per_s),
        link_latency_s=longer(topology.link_latency_s, latency_s),
        link_layer=longer(topology.link_layer, names.index(layer)),
        layer_names=names,
    )


def without_links(topology: Topology, links: npt.ArrayLike, *, both_ways: bool = True) -> Topology:
    """The network without some links, as after failures.

    Parameters
    ----------
    topology : Topology
    links : array_like of int
        Links to leave out.
    both_ways : bool
        Leave out the other direction of the same cable too. Only where links come in cables, in rows 2c and 2c + 1, as
        the generators write them.

    Returns
    -------
    Topology
        Of the family ``graph``, with the names of the original; the links that stay are numbered in their old order.

    Raises
    ------
    InputError
        No such link, or links that are no cables.

    Examples
    --------
    >>> from netsim.topologies import describe, full_mesh
    >>> net = full_mesh(4, hosts=0)
    >>> cut = without_links(net, [0])
    >>> cut, describe(cut).between_all.diameter
    (<Topology graph: 0 hosts, 4 switches, 10 directed links>, 2)
    """
    gone = _rows(topology, links)
    if both_ways and gone.any():
        src, dst = topology.link_src, topology.link_dst
        if topology.n_links % 2 or not np.array_equal(src[0::2], dst[1::2]) or not np.array_equal(dst[0::2], src[1::2]):
            raise InputError(
                "links", "must come in cables to go both ways", got="one-way links", remedy="give both_ways=False"
            )
        gone = np.repeat(gone[0::2] | gone[1::2], 2)
    return only_links(as_graph(topology), ~gone)


def with_links(
    topology: Topology,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    *,
    capacity: str | float | npt.ArrayLike = DEFAULT_CAPACITY,
    latency: str | float | npt.ArrayLike = DEFAULT_LATENCY,
    layer: str = "added",
    both_ways: bool = True,
) -> Topology:
    """The network with more links between its vertices.

    Parameters
    ----------
    topology : Topology
    source, destination : array_like of int, shape (n,)
        Vertices.
    capacity, latency
        As in :meth:`Topology.from_links`.
    layer : str
        Layer of the new links; a new one or one the network has.
    both_ways : bool
        Add cables, a link each way, instead of single links.

    Returns
    -------
    Topology
        Of the family ``graph``, with the names of the original; the new links come after those of the original.

    Raises
    ------
    InputError
        An end is no vertex, or a bad capacity or latency.

    Examples
    --------
    >>> from netsim.topologies import describe, mesh
    >>> line = mesh((4,), hosts=0)
    >>> ring = with_links(line, [0], [3])
    >>> describe(line).between_all.diameter, ring.expect(n_links=8, diameter_all_switches=2)
    (3, <Topology graph: 0 hosts, 4 switches, 8 directed links>)
    """
    ends = [np.atleast_1d(np.asarray(end, dtype=np.int64)) for end in (source, destination)]
    if ends[0].shape != ends[1].shape:
        raise InputError("links", "must have as many sources as destinations", got=f"{ends[0].size} and {ends[1].size}")
    rate = parse_rate(capacity, subject="capacity") if isinstance(capacity, str) else capacity
    delay = parse_time(latency, subject="latency") if isinstance(latency, str) else latency
    columns = [np.broadcast_to(np.asarray(x, dtype=np.float64), ends[0].shape) for x in (rate, delay)]
    if both_ways:
        ends = list(cables(*ends))
        columns = [np.repeat(column, 2) for column in columns]
    t = as_graph(topology)
    names = t.layer_names if layer in t.layer_names else (*t.layer_names, layer)
    return Topology.from_links(
        n_hosts=t.n_hosts,
        n_switches=t.n_switches,
        source=np.concatenate([t.link_src, ends[0]]),
        destination=np.concatenate([t.link_dst, ends[1]]),
        capacity=np.concatenate([t.link_capacity_bytes_per_s, columns[0]]),
        latency=np.concatenate([t.link_latency_s, columns[1]]),
        layer=np.concatenate([t.link_layer, np.full(ends[0].size, names.index(layer))]),
        layer_names=names,
        vertex_names=t.vertex_names,
        host_transit=t.host_transit,
    )


def join_hosts(topology: Topology, into: int | npt.ArrayLike) -> Topology:
    """The network with hosts joined: what were hosts of one link each become hosts with several network cards.

    Parameters
    ----------
    topology : Topology
    into : int or array_like of int, shape (n_hosts,)
        So many hosts in a row become one; or the new number of each host, 0 .. number of new hosts - 1, all in use.

    Returns
    -------
    Topology
        Of the family ``graph``; links keep their numbers, switches their names.

    Raises
    ------
    InputError
        The number of hosts is no multiple of ``into``, or new numbers are missing.

    Examples
    --------
    Nodes with two rails, each to a switch of its own:

    >>> from netsim.topologies import full_mesh
    >>> dual = join_hosts(full_mesh(2, hosts=4), [0, 1, 2, 3, 0, 1, 2, 3])
    >>> dual, dual.link_dst[dual.out_links(1)].tolist()
    (<Topology graph: 4 hosts, 2 switches, 18 directed links>, [4, 5])
    """
    t, n = topology, topology.n_hosts
    new = np.atleast_1d(np.asarray(into))
    if new.size and not np.issubdtype(new.dtype, np.integer):
        raise InputError("hosts", "must be whole numbers", got=f"{new.dtype} values")
    if np.ndim(into) == 0:
        per_host = int(new[0])
        if per_host < 1 or n % per_host:
            raise InputError("hosts", f"must divide the {n} hosts", got=per_host)
        new = np.arange(n) // per_host
    elif new.shape != (n,):
        raise InputError("hosts", f"must have a number for each of the {n} hosts", got=new.size)
    n_new = int(new.max(initial=-1)) + 1
    missing = np.flatnonzero(np.bincount(new[new >= 0], minlength=n_new) == 0)
    if missing.size or np.any(new < 0):
        got = f"none for host {missing[0]}" if missing.size else int(new.min())
        raise InputError("hosts", "must be numbered from 0 without gaps", got=got)
    number = np.concatenate([new, n_new + np.arange(t.n_switches)]).astype(np.int64)
    transit = np.zeros(n_new, dtype=np.bool_)
    transit[new[t.host_transit]] = True
    return Topology.from_links(
        n_hosts=n_new,
        n_switches=t.n_switches,
        source=number[t.link_src],
        destination=number[t.link_dst],
        capacity=t.link_capacity_bytes_per_s,
        latency=t.link_latency_s,
        layer=t.link_layer,
        layer_names=t.layer_names,
        vertex_names=[f"host {i}" for i in range(n_new)] + [t.vertex_name(v) for v in range(n, t.n_vertices)],
        host_transit=transit,
    )


def scale_links(
    topology: Topology, factor: float, *, layer: str | None = None, links: npt.ArrayLike | None = None
) -> Topology:
    """The network with the capacity of some links multiplied.

    Parameters
    ----------
    topology : Topology
    factor : float
        Above 0 and finite; a link that is down is left out instead (:func:`without_links`).
    layer : str, optional
        Scale the links of this layer.
    links : array_like of int, optional
        Scale these links. Neither layer nor links: all of them.

    Returns
    -------
    Topology
        Of the same family where whole layers change, whose routing and description stay valid; of the family ``graph``
        where single links do. The capacities in ``params`` stay those the original was built with.

    Raises
    ------
    InputError
        A bad factor, no such layer or link, or both a layer and links.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> slim = scale_links(dragonfly(2), 0.5, layer="global")
    >>> sorted(set(slim.link_capacity_bytes_per_s.tolist())), slim.family
    ([6250000000.0, 12500000000.0], 'dragonfly')
    """
    if not (factor > 0 and np.isfinite(factor)):
        raise InputError("factor", "must be above 0 and finite", got=factor, remedy="leave a link out to have it down")
    if layer is not None and links is not None:
        raise InputError("scale_links", "takes a layer or links", got="both")
    if layer is not None and layer not in topology.layer_names:
        raise InputError("layer", "unknown name", got=repr(layer), remedy=closest(layer, topology.layer_names))
    if links is not None:
        chosen, base = _rows(topology, links), as_graph(topology)
    elif layer is not None:
        chosen, base = topology.link_layer == topology.layer_names.index(layer), topology
    else:
        chosen, base = np.ones(topology.n_links, dtype=np.bool_), topology
    capacity = np.where(chosen, topology.link_capacity_bytes_per_s * factor, topology.link_capacity_bytes_per_s)
    return replace(base, link_capacity_bytes_per_s=frozen(capacity, np.float64))
