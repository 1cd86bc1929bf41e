"""Placement: which host each rank runs on. An explicit object, so that two runs can differ in nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.core.arrays import Int32, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.core.rng import stream
from netsim.core.text import count, plural
from netsim.topologies import Topology
from netsim.topologies.graphs import MARK_HOSTS

__all__ = ["Placement", "place", "placements"]

_NUMBER = re.compile(r"[0-9]{1,18}")
_LAST_HOST = np.iinfo(np.int32).max

placements: Registry[Callable[..., Int32]] = Registry("placement", "netsim.placements")


@dataclass(frozen=True)
class Placement:
    """Host of each rank.

    Attributes
    ----------
    host : int32 array, shape (n_ranks,)
    name : str
        How it was made.
    """

    host: Int32
    name: str = "explicit"

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", frozen(self.host, np.int32))

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return int(self.host.size)

    def idle_hosts(self, n_hosts: int) -> int:
        """Hosts without a rank."""
        return n_hosts - int(np.unique(self.host).size)


def place(
    method: str | Placement = "linear", *, n_ranks: int, topology: Topology, ranks_per_host: int = 1, seed: int = 0
) -> Placement:
    """Place ranks on the hosts of a topology.

    Parameters
    ----------
    method : str or Placement
        ``linear`` (fill host after host), ``round-robin`` (deal ranks over the switches that have hosts), ``random`` (hosts
        shuffled by the seed), or ``file:PATH`` with one host number per line in rank order (or a CSV with the columns
        ``rank,host``).
    n_ranks : int
    topology : Topology
    ranks_per_host : int
        How many ranks share a host.
    seed : int
        For ``random``.

    Raises
    ------
    InputError
        Too many ranks for the hosts, or a file that does not name one host per rank.

    Examples
    --------
    >>> from netsim.topologies import star
    >>> place("linear", n_ranks=4, topology=star(n=4), ranks_per_host=2).host.tolist()
    [0, 0, 1, 1]
    >>> place(n_ranks=8, topology=star(n=6))
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: placement: 8 ranks at 1 per host need 8 hosts, got 6 hosts; use a larger topology or more ranks per host
    """
    check_ranks_per_host(ranks_per_host)
    if isinstance(method, Placement):
        chosen = method
    elif method == "file:":
        raise InputError("placement", "file: must be followed by a path", got=repr(method))
    elif method.startswith("file:"):
        chosen = Placement(_from_file(Path(method[5:]), n_ranks), method)
    else:
        rule = placements[method]
        needed = -(-n_ranks // ranks_per_host)
        if topology.n_hosts == 0 and needed:
            raise InputError(
                "placement",
                f"{count(n_ranks, 'rank')} {plural(n_ranks, 'needs', 'need')} hosts",
                got=f"a network of {count(topology.n_switches, 'switch')} without any",
                remedy=MARK_HOSTS,
            )
        if needed > topology.n_hosts:
            raise InputError(
                "placement",
                f"{count(n_ranks, 'rank')} at {ranks_per_host} per host {plural(n_ranks, 'needs', 'need')} {count(needed, 'host')}",
                got=count(topology.n_hosts, "host"),
                remedy="use a larger topology or more ranks per host",
            )
        # Rules order the hosts; ranks then fill them in that order.
        order = rule(topology, needed=needed, seed=seed)
        chosen = Placement(order[np.arange(n_ranks) // ranks_per_host], method)
    if chosen.n_ranks != n_ranks:
        raise InputError("placement", f"must place {count(n_ranks, 'rank')}", got=chosen.n_ranks)
    outside = np.flatnonzero((chosen.host < 0) | (chosen.host >= topology.n_hosts))
    if outside.size:
        raise InputError(
            f"rank {outside[0]}", f"its host must be one of 0..{topology.n_hosts - 1}", got=int(chosen.host[outside[0]])
        )
    return chosen


def check_ranks_per_host(ranks_per_host: int) -> None:
    """Refuse what cannot be a number of ranks per host."""
    if ranks_per_host < 1:
        raise InputError("ranks per host", "must be 1 or more", got=ranks_per_host)
    if ranks_per_host > _LAST_HOST:
        raise InputError("ranks per host", f"must be {_LAST_HOST} or less", got=ranks_per_host)


@placements.register("linear")
def linear(topology: Topology, *, needed: int, seed: int = 0) -> Int32:
    """Hosts in order of number: neighbours in rank are neighbours in the network."""
    return np.arange(needed, dtype=np.int32)


@placements.register("round-robin")
def round_robin(topology: Topology, *, needed: int, seed: int = 0) -> Int32:
    """One host of each switch in turn: neighbours in rank are on different switches."""
    first = np.full(topology.n_hosts, np.iinfo(np.int64).max)
    up = topology.link_src < topology.n_hosts
    np.minimum.at(first, topology.link_src[up], topology.link_dst[up].astype(np.int64))
    # Place of each host among the hosts of its switch, then by switch.
    by_switch = np.argsort(first, kind="stable")
    switch = first[by_switch]
    begin = np.r_[True, switch[1:] != switch[:-1]]
    at = np.arange(switch.size) - np.maximum.accumulate(np.where(begin, np.arange(switch.size), 0))
    order: Int32 = by_switch[np.lexsort((switch, at))].astype(np.int32)
    return order[:needed]


@placements.register("random")
def random(topology: Topology, *, needed: int, seed: int = 0) -> Int32:
    """Hosts shuffled by the seed: what a busy machine's scheduler leaves."""
    return stream(seed, "placement", "random").permutation(topology.n_hosts)[:needed].astype(np.int32)


def _from_file(path: Path, n_ranks: int) -> Int32:
    subject = f"placement file {path}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        # ValueError: not UTF-8, or a path with a NUL byte.
        raise InputError(
            subject, "must be a readable text file", got=getattr(error, "strerror", None) or error
        ) from None
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    rows = [row for row in rows if row != [""] and not row[0].startswith("#")]
    if rows and rows[0] == ["rank", "host"]:
        pairs = rows[1:]
    else:
        pairs = [[str(i), row[0]] if len(row) == 1 else row for i, row in enumerate(rows)]
    host = np.full(n_ranks, -1, np.int32)
    for entry, row in enumerate(pairs, start=1):
        if len(row) != 2 or not all(_NUMBER.fullmatch(cell) for cell in row):
            shown = repr(",".join(row) if len(row) != 2 or rows[0] == ["rank", "host"] else row[1])
            raise InputError(
                f"{subject}, entry {entry}",
                "each line must be a host number or 'rank,host'",
                got=shown if len(shown) < 60 else shown[:57] + "...",
            )
        rank, at = int(row[0]), int(row[1])
        if rank >= n_ranks:
            raise InputError(f"{subject}, entry {entry}", f"ranks must be 0..{n_ranks - 1}", got=rank)
        if at > _LAST_HOST:
            raise InputError(f"{subject}, entry {entry}", f"hosts must be 0..{_LAST_HOST}", got=at)
        if host[rank] >= 0:
            raise InputError(f"{subject}, entry {entry}", "each rank must occur once", got=f"rank {rank} again")
        host[rank] = at
    missing = np.flatnonzero(host < 0)
    if missing.size:
        raise InputError(
            subject,
            f"must place {plural(n_ranks, 'the', 'all')} {count(n_ranks, 'rank')}",
            got=f"no host for rank {missing[0]}",
        )
    return host
