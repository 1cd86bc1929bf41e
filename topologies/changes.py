"""Networks derived from others: links left out, capacities scaled. The original stays as it is."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import frozen
from netsim.core.errors import InputError, closest
from netsim.topologies.topology import Topology

__all__ = ["scale_links", "without_links"]


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


def _as_graph(topology: Topology) -> Topology:
    """The same network without known structure: what is derived from the structure no longer holds after a change."""
    names = topology.vertex_names or tuple(topology.vertex_name(v) for v in range(topology.n_vertices))
    return replace(topology, family="graph", params=MappingProxyType({}), vertex_names=names)


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
    kept = ~gone
    plain = _as_graph(topology)
    return replace(
        plain,
        link_src=frozen(plain.link_src[kept], np.int32),
        link_dst=frozen(plain.link_dst[kept], np.int32),
        link_capacity_bytes_per_s=frozen(plain.link_capacity_bytes_per_s[kept], np.float64),
        link_latency_s=frozen(plain.link_latency_s[kept], np.float64),
        link_layer=frozen(plain.link_layer[kept], np.int16),
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
        chosen, base = _rows(topology, links), _as_graph(topology)
    elif layer is not None:
        chosen, base = topology.link_layer == topology.layer_names.index(layer), topology
    else:
        chosen, base = np.ones(topology.n_links, dtype=np.bool_), topology
    capacity = np.where(chosen, topology.link_capacity_bytes_per_s * factor, topology.link_capacity_bytes_per_s)
    return replace(base, link_capacity_bytes_per_s=frozen(capacity, np.float64))
