"""One switch with all hosts on it: the ideal crossbar that other networks are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.topologies.generators import Layers, Parameter, check_size, checked, generator, link_parameters
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology

__all__ = ["star"]

_PARAMETERS = (Parameter(name="n", kind="int", meaning="number of hosts"), *link_parameters())


def _size_for(n_hosts: int) -> dict[str, Any]:
    return {"n": n_hosts}


@generator("star", parameters=_PARAMETERS, size_for=_size_for)
def star(n: int, *, capacity: str | float = DEFAULT_CAPACITY, latency: str | float = DEFAULT_LATENCY) -> Topology:
    """One ideal switch with n hosts: only the host links can limit.

    {parameters}

    Examples
    --------
    >>> star(8).expect(n_switches=1, n_links=16)
    <Topology star: 8 hosts, 1 switches, 16 directed links>
    """
    params = {"n": n, "capacity": capacity, "latency": latency}
    values = checked(_PARAMETERS, "star", params)
    check_size("star", n_vertices=values["n"] + 1, n_links=2 * values["n"])
    layers = Layers(values)
    host = np.arange(values["n"], dtype=np.int64)
    layers.add("host", host, np.full_like(host, values["n"]))
    return layers.topology(n_hosts=values["n"], n_switches=1, family="star", params={**params, "n": values["n"]})
