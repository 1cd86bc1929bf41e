"""Dimension order on torus and mesh, and the choice among all shortest paths of a torus."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int32, Int64, csr_ptr, frozen
from netsim.core.rng import hash64
from netsim.routing.pathset import Paths
from netsim.topologies import Topology
from netsim.topologies.grids import coordinates

__all__ = ["Grid", "dimension_order_paths", "grid_spread_paths"]


class Grid:
    """Links by (dimension, direction, switch), and the signed offsets of pairs."""

    def __init__(self, topology: Topology) -> None:
        self.dims = tuple(int(side) for side in topology.params["dims"])
        self.per_switch = int(topology.params["hosts"])
        self.wrap = topology.family == "torus"
        self.n_hosts = topology.n_hosts
        n = topology.n_switches
        self.place = coordinates(np.arange(n, dtype=np.int64), self.dims)
        self.stride = [int(np.prod(self.dims[d + 1 :], dtype=np.int64)) for d in range(len(self.dims))]
        self.link = np.full((len(self.dims), 2, n), -1, dtype=np.int64)
        inside = np.flatnonzero((topology.link_src >= topology.n_hosts) & (topology.link_dst >= topology.n_hosts))
        ends = [end[inside].astype(np.int64) - topology.n_hosts for end in (topology.link_src, topology.link_dst)]
        for d, side in enumerate(self.dims):
            # Every link between switches is a step in one dimension.
            mine = np.flatnonzero(self.place[ends[0], d] != self.place[ends[1], d])
            links, src, dst = inside[mine], ends[0][mine], ends[1][mine]
            step = self.place[dst, d] - self.place[src, d]
            # On a ring of two both directions are the same link.
            for way, right in ((0, 1), (1, -1)):
                fits = (step - right) % side == 0 if self.wrap else step == right
                self.link[d, way, src[fits]] = links[fits]

    def offsets(self, source: Int64, destination: Int64) -> Int64:
        """Signed steps in each dimension the short way round, shape (n, dimensions); half way round is positive."""
        offset = self.place[destination] - self.place[source]
        if self.wrap:
            sides = np.array(self.dims)
            offset %= sides
            offset -= np.where(2 * offset > sides, sides, 0)
        return offset


def dimension_order_paths(topology: Topology, source: Int64, destination: Int64) -> Paths:
    """Correct the first dimension, then the second, and so on, each the short way round.

    On a ring of even side, pairs half way round go up or down by the parity of (the source's coordinate in that
    dimension plus the sum of both ends' coordinates in the others): this splits uniform traffic evenly wherever whole
    paths can.

    Parameters
    ----------
    topology : Topology
        Of the family ``torus`` or ``mesh``.
    source, destination : int64 array, shape (n,)
        Hosts.

    Notes
    -----
    H. Sullivan, T. Bashkow, ISCA 1977 (e-cube); Dally, Towles 2004, section 8.4.2. Time and memory O(hops of the
    result).
    """
    grid = Grid(topology)
    from_switch, to_switch = source // grid.per_switch, destination // grid.per_switch
    offset = grid.offsets(from_switch, to_switch)
    start, end = grid.place[from_switch], grid.place[to_switch]
    if grid.wrap:
        both = start.sum(axis=1) + end.sum(axis=1)
        for d, side in enumerate(grid.dims):
            tie = 2 * offset[:, d] == side
            odd = (both - end[:, d]) % 2 == 1
            offset[tie & odd, d] = -side // 2
    link, ptr = _with_host_links(topology, source, destination, np.abs(offset).sum(axis=1))
    at = ptr[:-1] + 1  # where the hops of the present dimension begin
    switch = from_switch.copy()
    for d, side in enumerate(grid.dims):
        steps = np.abs(offset[:, d])
        row = np.repeat(np.arange(source.size), steps)
        k = np.arange(row.size) - np.repeat(csr_ptr(steps)[:-1], steps)
        sign = np.sign(offset[:, d])
        along = (start[row, d] + sign[row] * k) % side
        here = switch[row] + (along - start[row, d]) * grid.stride[d]
        link[at[row] + k] = grid.link[d, (sign[row] < 0).astype(np.int64), here]
        at = at + steps
        switch += (end[:, d] - start[:, d]) * grid.stride[d]
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))


def grid_spread_paths(topology: Topology, source: Int64, destination: Int64, *, word: npt.NDArray[np.uint64]) -> Paths:
    """One of the shortest paths, chosen hop by hop by a hash of the flow and the switch among all useful directions.

    Parameters
    ----------
    topology : Topology
        Of the family ``torus`` or ``mesh``.
    source, destination : int64 array, shape (n,)
        Hosts.
    word : uint64 array, shape (n,)
        Hash of each flow.

    Notes
    -----
    On a ring of even side both directions are useful half way round, and on a ring of two they are one link. All pairs
    advance together, one hop per round; the result equals a choice on the graph of shortest paths.
    """
    grid = Grid(topology)
    switch, to_switch = source // grid.per_switch, destination // grid.per_switch
    offset = grid.offsets(switch, to_switch)
    sides = np.array(grid.dims)
    link, ptr = _with_host_links(topology, source, destination, np.abs(offset).sum(axis=1))
    at = ptr[:-1] + 1  # where the next hop of each path goes
    rows = np.flatnonzero(np.any(offset != 0, axis=1))
    while rows.size:
        left = offset[rows]
        tie = (2 * left == sides) & (sides > 2) if grid.wrap else np.zeros_like(left, dtype=bool)
        useful = np.concatenate([(left > 0), (left < 0) | tie], axis=1)
        rank = np.cumsum(useful, axis=1)
        draw = hash64(0, word[rows].view(np.int64), switch[rows]) % rank[:, -1].astype(np.uint64)
        pick = np.argmax(rank > draw.astype(np.int64)[:, None], axis=1)
        down, d = np.divmod(pick, len(grid.dims))
        hop = grid.link[d, down, switch[rows]]
        link[at[rows]] = hop
        at[rows] += 1
        flip = (down == 1) & (left[np.arange(rows.size), d] > 0)
        offset[rows, d] = np.where(flip, offset[rows, d] - sides[d], offset[rows, d]) + np.where(down == 1, 1, -1)
        switch[rows] = topology.link_dst[hop] - grid.n_hosts
        rows = rows[np.any(offset[rows] != 0, axis=1)]
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))


def _with_host_links(topology: Topology, source: Int64, destination: Int64, steps: Int64) -> tuple[Int32, Int64]:
    """Room for paths of so many steps between switches, with the host links in place; and the row pointers."""
    moves = source != destination
    ptr = csr_ptr(steps + 2 * moves)
    link = np.empty(ptr[-1], dtype=np.int32)
    some = np.flatnonzero(moves)
    link[ptr[some]] = topology.out_link[topology.out_ptr[source[some]]]
    link[ptr[some + 1] - 1] = topology.in_link[topology.in_ptr[destination[some]]]
    return link, ptr
