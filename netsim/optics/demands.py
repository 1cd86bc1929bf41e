"""What switches send to each other in one window of time: the demand that circuits are chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from netsim.core.arrays import Float64, Int32, Int64, csr_order, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.topologies import Topology
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["SwitchDemand", "demand_between_switches", "switch_demand", "switches_of_hosts"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SwitchDemand:
    """Bytes between pairs of switches, in CSR by source; no switch sends to itself.

    Attributes
    ----------
    n : int
        Number of switches.
    ptr, to : int64 array, shapes (n + 1,) and (pairs,)
    size_bytes : float64 array, shape (pairs,)
        Above 0.
    """

    n: int
    ptr: Int64
    to: Int64
    size_bytes: Float64

    @classmethod
    def of_pairs(cls, n: int, source: npt.ArrayLike, destination: npt.ArrayLike, size: npt.ArrayLike) -> SwitchDemand:
        """Add up pairs that occur several times; drop those of one switch with itself.

        >>> SwitchDemand.of_pairs(3, [0, 0, 1, 2], [1, 1, 2, 2], [1, 2, 4, 8]).dense().tolist()
        [[0.0, 3.0, 0.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]]
        """
        u, v = np.asarray(source, dtype=np.int64), np.asarray(destination, dtype=np.int64)
        amount = np.asarray(size, dtype=np.float64)
        kept = (u != v) & (amount > 0)
        key, row = np.unique(u[kept] * n + v[kept], return_inverse=True)
        total = np.bincount(row, weights=amount[kept], minlength=key.size).astype(np.float64)
        return cls(
            n=n,
            ptr=frozen(csr_ptr(np.bincount(key // max(n, 1), minlength=n)), np.int64),
            to=frozen(key % max(n, 1), np.int64),
            size_bytes=frozen(total, np.float64),
        )

    def __repr__(self) -> str:
        return f"<SwitchDemand: {self.n} switches, {self.to.size} pairs>"

    @property
    def source(self) -> Int64:
        """Source of each pair, shape (pairs,)."""
        return np.repeat(np.arange(self.n), np.diff(self.ptr))

    @property
    def total_bytes(self) -> float:
        """All bytes."""
        return float(self.size_bytes.sum())

    def dense(self) -> Float64:
        """As a matrix, shape (n, n)."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.source, self.to] = self.size_bytes
        return matrix


def switch_demand(topology: Topology, demand: Any) -> SwitchDemand:
    """Check a demand and bring it into rows.

    Parameters
    ----------
    topology : Topology
    demand : array_like of float, shape (n_switches, n_switches), or scipy sparse array, or SwitchDemand
        Bytes from switch to switch in one window; the diagonal is ignored (such traffic crosses no link between switches).

    Raises
    ------
    InputError
        Wrong shape, or entries that are negative, NaN or infinite.

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> switch_demand(full_mesh(3, hosts=0), [[0, 1, 0], [0, 0, 2], [0, 0, 9]])
    <SwitchDemand: 3 switches, 2 pairs>
    """
    n = topology.n_switches
    if isinstance(demand, SwitchDemand):
        if demand.n != n:
            raise InputError("demand", f"must be between the {n} switches of the topology", got=demand.n)
        return demand
    if sparse.issparse(demand):
        as_rows: Any = sparse.coo_array
        rows = as_rows(demand)
        shape, (u, v), size = rows.shape, (rows.row, rows.col), rows.data
    else:
        try:
            matrix = np.asarray(demand, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("demand", "must be a matrix of bytes", got=type(demand).__name__) from None
        shape = matrix.shape
        if matrix.ndim == 2:
            u, v = np.nonzero(matrix)
            size = matrix[u, v]
    if shape != (n, n):
        raise InputError(
            "demand",
            f"must have one row and one column for each of the {n} switches",
            got=f"shape {shape}",
            remedy="demand_between_switches adds up what hosts send" if shape == (topology.n_hosts,) * 2 else None,
        )
    values = np.asarray(size, dtype=np.float64)
    bad = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
    if bad.size:
        i = int(bad[0])
        raise InputError(f"demand from switch {u[i]} to {v[i]}", "must be finite and 0 or more bytes", got=values[i])
    return SwitchDemand.of_pairs(n, u, v, values)


def switches_of_hosts(topology: Topology) -> Int64:
    """Number of the switch that each host hangs on, int64, shape (n_hosts,); the first for a host with several.

    Raises
    ------
    InputError
        A host without a switch.
    """
    up = (topology.link_src < topology.n_hosts) & (topology.link_dst >= topology.n_hosts)
    ptr, order = csr_order(topology.link_src[up], topology.n_vertices)
    first = ptr[: topology.n_hosts]
    alone = np.flatnonzero(np.diff(ptr)[: topology.n_hosts] == 0)
    if alone.size:
        raise InputError(
            topology.vertex_name(int(alone[0])), "must have a link to a switch for optics between switches"
        )
    found: Int64 = topology.link_dst[up][order][first].astype(np.int64) - topology.n_hosts
    return found


def demand_between_switches(topology: Topology, graph: TaskGraph, host: Int32) -> SwitchDemand:
    """What the transfers of a task graph add up to between switches.

    Parameters
    ----------
    topology : Topology
    graph : TaskGraph
    host : int32 array, shape (n_ranks,)
        Host of each rank (``Placement.host``).

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> from netsim.traffic.taskgraph import GraphBuilder
    >>> build = GraphBuilder(n_ranks=3)
    >>> _ = build.transfer(source=0, destination=2, size_bytes=5), build.transfer(source=0, destination=1, size_bytes=7)
    >>> demand_between_switches(full_mesh(2, hosts=2), build.graph(), np.array([0, 1, 2])).dense().tolist()
    [[0.0, 5.0], [0.0, 0.0]]
    """
    transfer = np.flatnonzero(graph.kind == TRANSFER)
    home = switches_of_hosts(topology)
    u, v = home[host[graph.rank[transfer]]], home[host[graph.peer[transfer]]]
    return SwitchDemand.of_pairs(topology.n_switches, u, v, graph.amount[transfer])
