"""Paths in CSR: what every routing returns, and the checks and sums on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int32, Int64, csr_gather, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.topologies import Topology

__all__ = ["Paths", "check_paths", "link_loads", "path_latency"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Paths:
    """One path per (source, destination, flow), as directed links in travel order.

    Attributes
    ----------
    ptr : int64 array, shape (n_paths + 1,)
        Path i is ``link[ptr[i]:ptr[i + 1]]``; empty where source and destination are the same host.
    link : int32 array, shape (total hops,)
        Links of the topology.

    Examples
    --------
    >>> paths = Paths.from_columns([[0, 4], [3, -1]])
    >>> len(paths), paths[0].tolist(), paths[1].tolist(), paths.hops.tolist()
    (2, [0, 3], [4], [2, 1])
    """

    ptr: Int64
    link: Int32

    @classmethod
    def from_columns(cls, columns: Sequence[npt.ArrayLike]) -> Paths:
        """Paths from one array per hop position, shape (n_paths,); -1 where a path has no such hop."""
        table = np.stack([np.asarray(column, dtype=np.int32) for column in columns], axis=1)
        used = table >= 0
        return cls(ptr=frozen(csr_ptr(used.sum(axis=1)), np.int64), link=frozen(table[used], np.int32))

    @classmethod
    def joined(cls, sets: Sequence[Paths]) -> Paths:
        """All paths of several sets, one set after the other.

        >>> one = Paths.from_columns([[0, 4], [3, -1]])
        >>> Paths.joined([one, one]).hops.tolist()
        [2, 1, 2, 1]
        """
        hops = np.concatenate([one.hops for one in sets]) if sets else np.zeros(0, dtype=np.int64)
        link = np.concatenate([one.link for one in sets]) if sets else np.zeros(0, dtype=np.int32)
        return cls(ptr=frozen(csr_ptr(hops), np.int64), link=frozen(link, np.int32))

    def __len__(self) -> int:
        return int(self.ptr.size - 1)

    def __getitem__(self, i: int) -> Int32:
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        return self.link[self.ptr[i] : self.ptr[i + 1]]

    def __repr__(self) -> str:
        return f"<Paths: {len(self)} paths, {self.link.size} hops>"

    @property
    def hops(self) -> Int64:
        """Links of each path, host links included; int64, shape (n_paths,)."""
        return np.diff(self.ptr)

    def take(self, rows: npt.ArrayLike) -> Paths:
        """The chosen paths, in the order given."""
        ptr, at = csr_gather(self.ptr, rows)
        return Paths(ptr=frozen(ptr, np.int64), link=frozen(self.link[at], np.int32))


def check_paths(topology: Topology, paths: Paths, source: npt.ArrayLike, destination: npt.ArrayLike) -> None:
    """Prove that every path leads from its source to its destination, link by link.

    Parameters
    ----------
    topology : Topology
    paths : Paths
    source, destination : array_like of int, shape (n_paths,)
        Hosts.

    Raises
    ------
    InputError
        A path starts or ends elsewhere, has a gap, crosses a host that may not forward, or is not empty although
        source and destination are the same. The message names the first such path.
    """
    start, end = np.asarray(source, dtype=np.int64), np.asarray(destination, dtype=np.int64)

    def fail(broken: npt.NDArray[Any], rule: str, rows: npt.NDArray[Any] | None = None) -> None:
        bad = np.flatnonzero(broken)
        if bad.size:
            i = int(bad[0] if rows is None else rows[bad[0]])
            route = ", ".join(topology.link_name(int(link)) for link in paths[i]) or "nothing"
            raise InputError(f"path {i} (host {int(start[i])} to host {int(end[i])})", rule, got=route)

    if start.size != len(paths) or end.size != len(paths):
        raise InputError("paths", f"must be one per pair, {start.size} and {end.size}", got=len(paths))
    hops = paths.hops
    fail((hops == 0) != (start == end), "must be empty exactly when source and destination are the same host")
    row = np.repeat(np.arange(len(paths)), hops)
    enter, leave = topology.link_src[paths.link], topology.link_dst[paths.link]
    some = np.flatnonzero(hops > 0)
    first, last = paths.ptr[:-1][some], paths.ptr[1:][some] - 1
    fail(enter[first] != start[some], "must start at its source", some)
    fail(leave[last] != end[some], "must end at its destination", some)
    inside = row[1:] == row[:-1]
    fail(inside & (leave[:-1] != enter[1:]), "must be without gaps", row)
    host = np.flatnonzero(inside & (leave[:-1] < topology.n_hosts))
    fail(~topology.host_transit[leave[host]], "must not cross hosts that do not forward", row[host])


def path_latency(topology: Topology, paths: Paths) -> Float64:
    """Sum of the link latencies of each path, in seconds; float64, shape (n_paths,).

    Examples
    --------
    >>> from netsim.routing import minimal
    >>> from netsim.topologies import star
    >>> net = star(2, latency="1us")
    >>> path_latency(net, minimal(net, [0, 1], [1, 1])).tolist()
    [2e-06, 0.0]
    """
    total = np.zeros(len(paths), dtype=np.float64)
    some = np.flatnonzero(paths.hops)
    if some.size:
        total[some] = np.add.reduceat(topology.link_latency_s[paths.link], paths.ptr[:-1][some])
    return total


def link_loads(topology: Topology, paths: Paths, weight: npt.ArrayLike = 1.0) -> Float64:
    """Sum of the weights (default: the number) of the paths over each link; float64, shape (n_links,)."""
    each = np.broadcast_to(np.asarray(weight, dtype=np.float64), (len(paths),))
    load = np.bincount(paths.link, weights=np.repeat(each, paths.hops), minlength=topology.n_links)
    return load.astype(np.float64)
