"""Traffic patterns: who sends which part of its bandwidth to whom, for questions about throughput.

>>> from netsim.routing.patterns import demand, patterns
>>> from netsim.topologies import torus
>>> demand(torus((8,)), "tornado").destination.tolist()
[3, 4, 5, 6, 7, 0, 1, 2]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, frozen
from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.core.rng import stream
from netsim.topologies import Topology
from netsim.topologies.grids import coordinates

__all__ = ["Demand", "Pattern", "demand", "patterns", "switch_of_hosts"]

# A row is 24 bytes, and routing by paths needs some 100 more.
MOST_PAIRS = 20_000_000
# The assignment problem is cubic.
MOST_MATCHED = 3000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Demand:
    """Who sends what to whom, in shares of what the source can inject.

    Attributes
    ----------
    n_hosts : int
    source, destination : int64 array, shape (n,)
        Hosts; no host sends to itself.
    share : float64 array, shape (n,)
        Part of the source's injection bandwidth that goes to the destination, above 0.
    uniform_share : float
        What every host sends, besides, in equal parts to all others. It stands apart so that uniform traffic among many
        hosts needs no row per pair.

    Examples
    --------
    >>> Demand.of(3, [0, 1], [1, 2], 0.5)
    <Demand: 3 hosts, 2 pairs>
    """

    n_hosts: int
    source: Int64
    destination: Int64
    share: Float64
    uniform_share: float = 0.0

    @classmethod
    def of(
        cls,
        n_hosts: int,
        source: npt.ArrayLike,
        destination: npt.ArrayLike,
        share: npt.ArrayLike = 1.0,
        *,
        uniform_share: float = 0.0,
    ) -> Demand:
        """From arrays, checked; rows of a host to itself are left out.

        Raises
        ------
        InputError
            An end is no host, a share is not above 0, or a host sends more than 1 in all.
        """
        ends = [np.atleast_1d(np.asarray(end, dtype=np.int64)) for end in (source, destination)]
        s, d, part = np.broadcast_arrays(*ends, np.asarray(share, dtype=np.float64))
        for name, end in (("source", s), ("destination", d)):
            bad = np.flatnonzero((end < 0) | (end >= n_hosts))
            if bad.size:
                raise InputError("demand", f"{name} must be one of the {n_hosts} hosts", got=int(end[bad[0]]))
        if not np.all((part > 0) & (part <= 1)) or not 0 <= uniform_share <= 1:
            raise InputError("demand", "shares must be above 0 and at most 1")
        moves = s != d
        s, d, part = s[moves], d[moves], part[moves]
        total = np.bincount(s, weights=part, minlength=n_hosts) + uniform_share
        if np.any(total > 1 + 1e-9):
            host = int(np.argmax(total))
            raise InputError(
                "demand", "a host must not send more than it can inject", got=f"{total[host]:.6g} by host {host}"
            )
        return cls(
            n_hosts=n_hosts,
            source=frozen(s, np.int64),
            destination=frozen(d, np.int64),
            share=frozen(part, np.float64),
            uniform_share=float(uniform_share),
        )

    def __repr__(self) -> str:
        more = f", {self.uniform_share:g} of everything uniform" if self.uniform_share else ""
        return f"<Demand: {self.n_hosts} hosts, {self.source.size} pairs{more}>"

    def pairs(self) -> tuple[Int64, Int64, Float64]:
        """Source, destination and share of every pair, the uniform part spelled out.

        Raises
        ------
        InputError
            More than 20 million pairs.
        """
        if not self.uniform_share or self.n_hosts < 2:
            return self.source, self.destination, self.share
        n = self.n_hosts
        if n * (n - 1) > MOST_PAIRS:
            raise InputError(
                "demand",
                f"must be at most {MOST_PAIRS} pairs where each host pair has its own path",
                got=n * (n - 1),
                remedy="take ecmp, dimension-order or valiant, which are computed between switches",
            )
        s, d = np.divmod(np.arange(n * n, dtype=np.int64), n)
        share = np.full(n * n, self.uniform_share / (n - 1))
        np.add.at(share, self.source * n + self.destination, self.share)
        keep = s != d
        return s[keep], d[keep], share[keep]


class Pattern(Protocol):
    """A traffic pattern: a topology to a demand. Not every pattern uses the offset or the seed."""

    def __call__(self, topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
        """The demand of this pattern on the topology."""
        ...


patterns: Registry[Pattern] = Registry("pattern", "netsim.patterns")


def demand(topology: Topology, pattern: str | Demand = "uniform", *, seed: int = 0) -> Demand:
    """The demand of a pattern by name; ``adv+2`` and ``shift+5`` have their offset in the name.

    Parameters
    ----------
    topology : Topology
    pattern : str or Demand
        Name in ``netsim.routing.patterns``, with ``+i`` where the pattern has an offset; a Demand is checked and passed on.
    seed : int
        For patterns with randomness.

    Raises
    ------
    InputError
        Unknown name, or a pattern that is not defined on this topology: the rule and what to do.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> demand(dragonfly(p=1, a=2, h=1), "adv+1").destination.tolist()
    [2, 3, 4, 5, 0, 1]
    """
    if isinstance(pattern, Demand):
        if pattern.n_hosts != topology.n_hosts:
            raise InputError("demand", f"must be for the {topology.n_hosts} hosts of the topology", got=pattern.n_hosts)
        return pattern
    name, offset = pattern, 1
    found = re.fullmatch(r"(.*?)([+-]\d{1,18})", pattern)
    if found and pattern not in patterns:
        name, offset = found.group(1), int(found.group(2))
        if name in patterns and name not in _WITH_OFFSET:
            raise InputError(f"pattern {name}", "has no offset", got=repr(pattern), remedy=f"write {name}")
    chosen = patterns[name]
    if topology.n_hosts < 2:
        raise InputError("pattern", "needs two hosts or more", got=topology.n_hosts)
    return chosen(topology, offset=offset, seed=seed)


_WITH_OFFSET = ("adv", "shift")


def switch_of_hosts(topology: Topology) -> Int64:
    """The switch (as a vertex) of each host, int64 of shape (n_hosts,); the host itself where it has several links or none.

    Examples
    --------
    >>> from netsim.topologies import star
    >>> switch_of_hosts(star(2)).tolist()
    [2, 2]
    """
    n = topology.n_hosts
    host = np.arange(n, dtype=np.int64)
    single = (np.diff(topology.out_ptr)[:n] == 1) & (np.diff(topology.in_ptr)[:n] == 1) & ~topology.host_transit
    home = host.copy()
    some = host[single]
    above = topology.link_dst[topology.out_link[topology.out_ptr[some]]].astype(np.int64)
    below = topology.link_src[topology.in_link[topology.in_ptr[some]]]
    home[some] = np.where((above == below) & (above >= n), above, some)
    return home


def _shifted(topology: Topology, destination: Int64) -> Demand:
    return Demand.of(topology.n_hosts, np.arange(topology.n_hosts), destination)


def _power_of_two(name: str, n: int) -> int:
    """log2 of n."""
    if n & (n - 1):
        low = 1 << (n.bit_length() - 1)
        raise InputError(
            f"pattern {name}",
            "the number of hosts must be a power of 2",
            got=n,
            remedy=f"take {low} or {2 * low} hosts",
        )
    return n.bit_length() - 1


@patterns.register("uniform")
def uniform(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Every host sends equal parts to all others."""
    return Demand.of(topology.n_hosts, [], [], uniform_share=1.0)


@patterns.register("adv")
def adversarial(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Dragonfly, adv+i: every host of group s sends to the same host of group s + i (Kim et al., ISCA 2008)."""
    if topology.family != "dragonfly":
        raise InputError(
            "pattern adv",
            "needs groups: a dragonfly",
            got=f"a {topology.family}",
            remedy="take shift, tornado or longest-matching",
        )
    g, per_group = topology.params["g"], topology.params["p"] * topology.params["a"]
    if offset % g == 0:
        raise InputError("pattern adv", f"the offset must not be a multiple of the {g} groups", got=offset)
    return _shifted(topology, (np.arange(topology.n_hosts) + offset * per_group) % topology.n_hosts)


@patterns.register("shift")
def shift(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """shift+i: host j sends to host j + i, modulo the number of hosts."""
    n = topology.n_hosts
    if offset % n == 0:
        raise InputError("pattern shift", f"the offset must not be a multiple of the {n} hosts", got=offset)
    return _shifted(topology, (np.arange(n) + offset) % n)


@patterns.register("tornado")
def tornado(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Just under half way round: in each dimension of a grid, among groups of a dragonfly, among hosts elsewhere.

    Half way round k is ceil(k / 2) - 1; sides of 1 and 2 do not move. Source: Dally, Towles 2004, table 3.1.
    """
    n = topology.n_hosts
    host = np.arange(n, dtype=np.int64)
    if topology.family in ("torus", "mesh"):
        dims, per_switch = topology.params["dims"], topology.params["hosts"]
        place = coordinates(host // per_switch, dims)
        sides = np.array(dims)
        place = (place + -(-sides // 2) - 1) % sides
        to = np.ravel_multi_index(tuple(place.T), tuple(dims)) * per_switch + host % per_switch
    elif topology.family == "dragonfly":
        g = topology.params["g"]
        to = (host + (-(-g // 2) - 1) * (n // g)) % n
    else:
        to = (host + -(-n // 2) - 1) % n
    if np.all(to == host):
        raise InputError("pattern tornado", "needs a ring of three or more", got=repr(topology), remedy="take shift")
    return _shifted(topology, to)


@patterns.register("bit-complement")
def bit_complement(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Every host sends to the host whose number has all bits inverted; the number of hosts must be a power of 2."""
    _power_of_two("bit-complement", topology.n_hosts)
    return _shifted(topology, topology.n_hosts - 1 - np.arange(topology.n_hosts))


@patterns.register("bit-reversal")
def bit_reversal(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Every host sends to the host whose number has the bits in reverse order; a power of 2 hosts.

    Hosts whose number reads the same both ways send nothing.
    """
    bits = _power_of_two("bit-reversal", topology.n_hosts)
    host = np.arange(topology.n_hosts, dtype=np.int64)
    to = np.zeros_like(host)
    for i in range(bits):
        to |= ((host >> i) & 1) << (bits - 1 - i)
    return _shifted(topology, to)


@patterns.register("transpose")
def transpose(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Hosts as a square matrix, row by row: element (i, j) sends to (j, i); the number of hosts must be a square.

    The diagonal sends nothing. With a power of 4 hosts the upper and the lower half of the bits change places.
    """
    n = topology.n_hosts
    side = int(np.sqrt(n) + 0.5)
    if side * side != n:
        low = int(np.sqrt(n))
        raise InputError(
            "pattern transpose",
            "the number of hosts must be a square",
            got=n,
            remedy=f"take {low * low} or {(low + 1) ** 2} hosts",
        )
    row, column = np.divmod(np.arange(n), side)
    return _shifted(topology, column * side + row)


@patterns.register("hot-spot")
def hot_spot(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Every host sends a tenth of its traffic to host 0 and the rest, as host 0 all of its own, to all others alike."""
    n = topology.n_hosts
    others = np.arange(1, n)
    # Host 0 has no hot spot to send to: what the others send there, it spreads.
    own = np.full(n - 1, 0.1 / (n - 1))
    return Demand.of(
        n,
        np.concatenate([others, np.zeros(n - 1, dtype=np.int64)]),
        np.concatenate([np.zeros(n - 1, dtype=np.int64), others]),
        np.concatenate([np.full(n - 1, 0.1), own]),
        uniform_share=0.9,
    )


@patterns.register("random-permutation")
def random_permutation(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """Every host sends to one other and receives from one other, drawn by the seed among all such permutations."""
    rng = stream(seed, "pattern", "random-permutation")
    host = np.arange(topology.n_hosts)
    to = rng.permutation(topology.n_hosts)
    # A permutation has no fixed point with probability 1/e: a few draws, and all outcomes stay equally likely.
    while np.any(to == host):
        to = rng.permutation(topology.n_hosts)
    return _shifted(topology, to)


@patterns.register("longest-matching")
def longest_matching(topology: Topology, *, offset: int = 1, seed: int = 0) -> Demand:
    """The permutation of hosts with the greatest sum of distances: near the worst case of minimal routing.

    Solved between switches where all have equally many hosts, else between hosts. Source: Jyothi et al., "Measuring and
    Understanding Throughput of Network Topologies", SC 2016.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n, vertices = topology.n_hosts, topology.n_vertices
    home = switch_of_hosts(topology)
    place, which, count = np.unique(home, return_inverse=True, return_counts=True)
    even = bool(np.all(count == count[0])) and place.size > 1
    ends = place if even else home
    if ends.size > MOST_MATCHED:
        raise InputError(
            "pattern longest-matching",
            f"must have at most {MOST_MATCHED} switches with hosts (hosts, where switches have unequally many)",
            got=ends.size,
            remedy="take random-permutation",
        )
    graph = coo_array(
        (np.ones(topology.n_links), (topology.link_src, topology.link_dst)), shape=(vertices, vertices)
    ).tocsr()
    distance = shortest_path(graph, unweighted=True, indices=np.unique(ends))[:, ends]
    distance = distance[np.searchsorted(np.unique(ends), ends)]
    if not np.all(np.isfinite(distance)):
        raise InputError(
            "pattern longest-matching", "every pair of hosts must be joined", got="a network in several parts"
        )
    if not even:
        np.fill_diagonal(distance, -n * vertices)  # a host must not be matched with itself
    _, to = linear_sum_assignment(distance, maximize=True)
    if not even:
        return _shifted(topology, to.astype(np.int64))
    # Host number i of a switch sends to host number i of the switch matched with its own.
    order = np.argsort(which, kind="stable").reshape(place.size, -1)
    destination = np.empty(n, dtype=np.int64)
    destination[order] = order[to]
    return _shifted(topology, destination)
