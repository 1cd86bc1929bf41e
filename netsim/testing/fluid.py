"""Loads of equal-cost multipath routing in the plainest way: one pair of hosts after the other, link by link."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from netsim.core.arrays import Float64
from netsim.topologies import Topology

__all__ = ["enumerated_loads"]


def enumerated_loads(topology: Topology, pairs: Iterable[tuple[int, int, float]]) -> Float64:
    """Load of each link when every vertex sends equal parts over all next links of shortest paths; float64, shape (n_links,).

    Parameters
    ----------
    topology : Topology
    pairs : iterable of (host, host, amount)

    Notes
    -----
    A search in plain Python for each destination, and a walk for each pair: for networks of some hundred links.

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> net = torus((4,))
    >>> sorted(enumerated_loads(net, [(0, 2, 1.0)])[net.link_layer == 1].tolist())
    [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5]
    """
    into: list[list[int]] = [[] for _ in range(topology.n_vertices)]
    out: list[list[int]] = [[] for _ in range(topology.n_vertices)]
    start, end = topology.link_src.tolist(), topology.link_dst.tolist()
    for link in range(topology.n_links):
        into[end[link]].append(link)
        out[start[link]].append(link)
    forwards = [True] * topology.n_vertices
    forwards[: topology.n_hosts] = topology.host_transit.tolist()
    load = np.zeros(topology.n_links)
    distances: dict[int, dict[int, int]] = {}
    for source, target, amount in pairs:
        if target not in distances:
            far = {target: 0}
            queue = deque([target])
            while queue:
                at = queue.popleft()
                # A host that does not forward is an end of paths only.
                if at != target and not forwards[at]:
                    continue
                for link in into[at]:
                    if start[link] not in far:
                        far[start[link]] = far[at] + 1
                        queue.append(start[link])
            distances[target] = far
        far = distances[target]
        held = {source: amount}
        while held:
            # Farthest first, so that all that a vertex gets has arrived before it sends.
            at = max(held, key=lambda v: (far[v], v))
            have = held.pop(at)
            if at == target:
                continue
            ways = [
                link
                for link in out[at]
                if far.get(end[link], -1) == far[at] - 1 and (end[link] == target or forwards[end[link]])
            ]
            for link in ways:
                load[link] += have / len(ways)
                held[end[link]] = held.get(end[link], 0.0) + have / len(ways)
    return load
