"""Shortest paths and loads of BCube from the digits of its hosts: no search, whatever the size."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from netsim.core.arrays import Float64, Int64, csr_ptr, frozen
from netsim.core.rng import hash64
from netsim.routing.pathset import Paths
from netsim.topologies import Topology

__all__ = ["cube_loads", "cube_paths", "cube_uniform_loads"]


def _digits(topology: Topology, host: Int64) -> Int64:
    """Digits of hosts, the lowest first; int64, shape (k + 1, n)."""
    n, k = int(topology.params["n"]), int(topology.params["k"])
    return np.stack([host // n**level % n for level in range(k + 1)])


def _up(topology: Topology, level: Int64 | int, host: Int64) -> Int64:
    """The link from a host to its switch of a level; the next link is the one back."""
    return 2 * (level * topology.n_hosts + host)


def cube_paths(
    topology: Topology, source: Int64, destination: Int64, *, word: Int64 | None = None, seed: int = 0
) -> Paths:
    """The paths that :func:`netsim.routing.graphs.shortest_paths` finds: one digit after the other is set right.

    Parameters
    ----------
    topology : Topology
        Of the family ``bcube``.
    source, destination, word, seed
        As in ``shortest_paths``: without a word the lowest digit comes first, with one the flow and the host choose
        among the digits that are left.

    Notes
    -----
    Every shortest path sets the differing digits right in some order, over one switch each (Guo et al., SIGCOMM 2009,
    section 3.2).
    """
    n = int(topology.params["n"])
    wanted = _digits(topology, destination)
    left = _digits(topology, source) != wanted
    rows = np.flatnonzero(left.any(axis=0))
    ptr = csr_ptr(2 * left.sum(axis=0))
    link = np.empty(ptr[-1], dtype=np.int32)
    at = source.copy()
    step = 0
    while rows.size:
        open_digits = left[:, rows]
        choice = np.zeros(rows.size, dtype=np.int64)
        if word is not None:
            salt = (hash64(seed, at[rows]) >> np.uint64(32)).astype(np.int64)
            choice = _mix(word[rows] ^ salt) % open_digits.sum(axis=0)
        # The level of the digit with that place among those that are left.
        level = np.argmax(np.cumsum(open_digits, axis=0) > choice, axis=0)
        here = at[rows]
        there = here + (wanted[level, rows] - here // n**level % n) * n**level
        link[ptr[rows] + step] = _up(topology, level, here)
        link[ptr[rows] + step + 1] = _up(topology, level, there) + 1
        left[level, rows] = False
        at[rows] = there
        rows = rows[left[:, rows].any(axis=0)]
        step += 2
    return Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))


def _mix(word: Int64) -> Int64:
    """``_kernels.mix`` of arrays."""
    from netsim.routing import _kernels

    plain = getattr(_kernels.mix, "py_func", _kernels.mix)
    return np.asarray(plain(word), dtype=np.int64)


def cube_loads(topology: Topology, source: Int64, destination: Int64, amount_bytes_per_s: Float64) -> Float64:
    """Load of every link when each host sends equal parts over all next links of shortest paths; float64, (n_links,).

    Notes
    -----
    Of h digits to set right every order is as likely, so a set of j of them is done first with probability 1 / C(h, j),
    and each of the h - j others comes next in equal parts.
    """
    n = int(topology.params["n"])
    load = np.zeros(topology.n_links)
    have, wanted = _digits(topology, source), _digits(topology, destination)
    differs = have != wanted
    to_set = differs.sum(axis=0)
    binomial = np.array([[max(math.comb(h, j), 1) for j in range(len(have) + 1)] for h in range(len(have) + 1)])
    for done in product((False, True), repeat=len(have)):
        chosen = np.array(done)
        rows = np.flatnonzero(np.all(differs[chosen], axis=0) & (to_set > chosen.sum()))
        if not rows.size:
            continue
        j, h = int(chosen.sum()), to_set[rows]
        part = amount_bytes_per_s[rows] / (binomial[h, j] * (h - j))
        digit = np.where(chosen[:, None], wanted[:, rows], have[:, rows])
        here = (digit * n ** np.arange(len(have))[:, None]).sum(axis=0)
        for level in np.flatnonzero(~chosen).tolist():
            on = np.flatnonzero(differs[level, rows])
            there = here[on] + (wanted[level, rows[on]] - have[level, rows[on]]) * n**level
            for link in (_up(topology, level, here[on]), _up(topology, level, there) + 1):
                load += np.bincount(link, weights=part[on], minlength=load.size)
    return load


def cube_uniform_loads(topology: Topology, amount_bytes_per_s: float) -> Float64:
    """Load of every link when every host sends so much to every other one; float64, shape (n_links,).

    Notes
    -----
    By symmetry all links carry the same: each of the N hosts sends to the N - N/n whose digit of a level differs once
    up and once down at that level, where there are N links each way.
    """
    hosts = topology.n_hosts
    return np.full(topology.n_links, amount_bytes_per_s * (hosts - hosts // int(topology.params["n"])))
