"""Random regular networks: Jellyfish, and Xpander as a random lift of a full mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.topologies.generators import Layers, Parameter, check_size, checked, generator, link_parameters
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["jellyfish", "random_regular", "xpander"]

_LINKS = link_parameters(host="host links", switch="links between switches")
_SEED = Parameter(name="seed", kind="int", default=0, minimum=0, sizing=False, meaning="seed of the random choice")
_HOSTS = Parameter(name="hosts", kind="int", default=1, minimum=0, meaning="hosts per switch")
_JELLYFISH = (
    Parameter(name="n_switches", kind="int", meaning="switches"),
    Parameter(name="degree", kind="int", minimum=0, meaning="links of a switch to other switches"),
    _HOSTS,
    _SEED,
    *_LINKS,
)
_XPANDER = (
    Parameter(name="degree", kind="int", meaning="links of a switch to other switches; degree + 1 meta-nodes"),
    Parameter(name="lift", kind="int", meaning="switches per meta-node"),
    _HOSTS,
    _SEED,
    *_LINKS,
)
# Rounds of swaps without success after which the draw is begun anew; only graphs of a dozen switches come near it.
_ROUNDS = 200
# Up to this degree a pairing without loops and parallel edges comes up often enough, exp(-(degree^2 - 1) / 4), to wait
# for one, which makes all graphs equally likely.
_WAIT_UP_TO = 3


def random_regular(n: int, degree: int, draw: np.random.Generator) -> tuple[Int64, Int64]:
    """A connected random graph in which every vertex has the same degree, without loops and parallel edges.

    Parameters
    ----------
    n, degree : int
        ``n * degree`` even, ``2 <= degree < n``; or degree 1 of 2 vertices, or degree 0 of one.
    draw : numpy.random.Generator

    Returns
    -------
    low, high : int64 arrays, shape (n * degree / 2,)
        Ends of the edges, ascending.

    Notes
    -----
    Ends of edges are paired at random (B. Bollobas, Europ. J. Combin. 1, 1980). Up to degree 3 this is repeated until
    there are no loops and parallel edges, so that all simple graphs are equally likely; above, each loop or parallel
    edge is swapped with a random other edge, which is close to that. Components are joined by swaps. Above half of all
    edges the complement is drawn.
    """
    if 2 * degree > n - 1:
        # A graph in which everyone has half of the others as neighbours is connected.
        low, high = _pairing(n, n - 1 - degree, draw)
        first, second = np.triu_indices(n, k=1)
        left = ~np.isin(first * n + second, low * n + high, assume_unique=True)
        return first[left].astype(np.int64), second[left].astype(np.int64)
    low, high = _joined(n, *_pairing(n, degree, draw), draw)
    order = np.lexsort((high, low))
    return low[order], high[order]


def _pairing(n: int, degree: int, draw: np.random.Generator) -> tuple[Int64, Int64]:
    """A random regular graph, connected or not."""
    while True:
        end = draw.permutation(np.repeat(np.arange(n, dtype=np.int64), degree))
        u, v = end[0::2].copy(), end[1::2].copy()
        for _ in range(_ROUNDS):
            low, high = np.minimum(u, v), np.maximum(u, v)
            key = low * n + high
            order = np.argsort(key, kind="stable")
            bad = low == high
            bad[order[1:]] |= key[order[1:]] == key[order[:-1]]
            if not bad.any():
                return low, high
            if degree <= _WAIT_UP_TO:
                break
            wrong = draw.permutation(np.flatnonzero(bad))
            partner = draw.permutation(np.flatnonzero(~bad))[: wrong.size]
            wrong = wrong[: partner.size]
            # (a, b) and (c, d) become (a, c) and (b, d), or (a, d) and (b, c).
            flip = draw.integers(0, 2, size=partner.size) == 1
            c, d = np.where(flip, v[partner], u[partner]), np.where(flip, u[partner], v[partner])
            new = np.stack([_key(u[wrong], c, n), _key(v[wrong], d, n)])
            _, which, times = np.unique(new, return_inverse=True, return_counts=True)
            single = (times[which] == 1).reshape(new.shape)
            at = np.minimum(np.searchsorted(key[order], new), key.size - 1)
            fits = single & (key[order][at] != new) & (new // n != new % n)
            good = fits.all(axis=0)
            wrong, partner, c, d = wrong[good], partner[good], c[good], d[good]
            u[partner], v[partner] = v[wrong], d
            v[wrong] = c


def _key(a: Int64, b: Int64, n: int) -> Int64:
    return np.minimum(a, b) * n + np.maximum(a, b)


def _joined(n: int, low: Int64, high: Int64, draw: np.random.Generator) -> tuple[Int64, Int64]:
    """The same graph, its components joined: an edge of a cycle of one and any edge of the other change ends."""
    label, count = _components(n, low, high)
    if count == 1:
        return low, high
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    # An edge that a spanning tree leaves out closes a cycle; weights tell which edges the tree has.
    weight = np.arange(1, low.size + 1, dtype=np.float64)
    tree = minimum_spanning_tree(coo_array((weight, (low, high)), shape=(n, n)).tocsr())
    outside = np.setdiff1d(np.arange(low.size), np.asarray(tree.data, dtype=np.int64) - 1)
    low, high = low.copy(), high.copy()
    base = np.flatnonzero(label[low] == 0)
    component = label[low[outside]]
    for c in range(1, count):
        e = int(draw.choice(outside[component == c]))
        f = int(draw.choice(base))
        # Both rows stay edges of the joined part, so that later components may use row f again.
        high[e], low[f] = low[f], high[e]
    return np.minimum(low, high), np.maximum(low, high)


def _components(n: int, low: Int64, high: Int64) -> tuple[npt.NDArray[np.int32], int]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(low.size, dtype=np.int8), (low, high)), shape=(n, n)).tocsr()
    count, label = connected_components(graph, directed=False)
    return label, int(count)


def _most_switches(ports: int) -> int:
    """Switches of degree 3 x ports with a mean distance of 3 or less: a third of degree^3, rounded up to be even."""
    return 9 * ports**3 + ports % 2


def _jellyfish_for(n_hosts: int) -> dict[str, Any]:
    hosts = 1
    while hosts * _most_switches(hosts) < n_hosts:
        hosts += 1
    degree = 3 * hosts
    n = max(degree + 1, -(-n_hosts // hosts))
    return {"n_switches": n + n * degree % 2, "degree": degree, "hosts": hosts}


@generator("jellyfish", parameters=_JELLYFISH, size_for=_jellyfish_for)
def jellyfish(
    n_switches: int,
    degree: int,
    hosts: int = 1,
    seed: int = 0,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Jellyfish: a connected random regular graph of switches.

    The same seed gives the same network, on every machine. Host i is on switch i // hosts. Sized to a number of hosts
    it has three links to switches per host, about what uniform traffic needs at the mean distance of 3 or less.

    {parameters}

    Raises
    ------
    InputError
        There is no such graph: ``n_switches * degree`` is odd, the degree is not below the number of switches, or too
        small to join them.

    Notes
    -----
    A. Singla, C.-Y. Hong, L. Popa, P. B. Godfrey, "Jellyfish: Networking Data Centers Randomly", NSDI 2012. How the
    graph is drawn: :func:`netsim.topologies.expanders.random_regular`.

    Examples
    --------
    >>> jellyfish(n_switches=50, degree=7, hosts=4, seed=1).expect(n_components=1, switch_ports_min=11)
    <Topology jellyfish: 200 hosts, 50 switches, 750 directed links>
    >>> jellyfish(n_switches=5, degree=3)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: jellyfish: n_switches * degree must be even, got 5 * 3; take n_switches=6 or degree=2
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_JELLYFISH, "jellyfish", params)
    n, degree, hosts = (values[key] for key in ("n_switches", "degree", "hosts"))
    check_size("jellyfish", n_vertices=n * (hosts + 1), n_links=n * (2 * hosts + degree))
    if degree >= n:
        raise InputError("jellyfish degree", f"must be below n_switches={n}", got=degree)
    if n * degree % 2:
        raise InputError(
            "jellyfish",
            "n_switches * degree must be even",
            got=f"{n} * {degree}",
            remedy=f"take n_switches={n + 1} or degree={degree - 1}",
        )
    if degree < min(n - 1, 2):
        raise InputError("jellyfish degree", f"must be {min(n - 1, 2)} or more to join {n} switches", got=degree)
    params.update(n_switches=n, degree=degree, hosts=hosts, seed=values["seed"])
    low, high = random_regular(n, degree, stream(values["seed"], "topologies", "jellyfish"))
    return _with_hosts("jellyfish", params, values, n, hosts, low, high)


def _xpander_for(n_hosts: int) -> dict[str, Any]:
    hosts = 1
    while hosts * (3 * hosts + 1) * (_most_switches(hosts) // (3 * hosts + 1)) < n_hosts:
        hosts += 1
    return {"degree": 3 * hosts, "lift": -(-n_hosts // (hosts * (3 * hosts + 1))), "hosts": hosts}


@generator("xpander", parameters=_XPANDER, size_for=_xpander_for)
def xpander(
    degree: int,
    lift: int,
    hosts: int = 1,
    seed: int = 0,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Xpander: degree + 1 meta-nodes of ``lift`` switches, every two meta-nodes joined by a random matching.

    A random lift of the full mesh of degree + 1 vertices: degree-regular, no links inside a meta-node, and each switch
    has one link to each other meta-node. Switch j of meta-node i has number i * lift + j, host i is on switch i //
    hosts. The same seed gives the same network. Sized to a number of hosts it has three links to switches per host, as
    ``jellyfish``.

    {parameters}

    Raises
    ------
    InputError
        Degree 1 with a lift above 1: two meta-nodes cannot be joined to one network.

    Notes
    -----
    A. Valadarsky, G. Shahaf, M. Dinitz, M. Schapira, "Xpander: Towards Optimal-Performance Datacenters", CoNEXT 2016.
    One lift of the whole order is drawn; should it fall into components, ends are swapped within a matching, which
    leaves the structure as it is.

    Examples
    --------
    >>> xpander(degree=5, lift=4, hosts=2, seed=3).expect(n_components=1, switch_ports_min=7)
    <Topology xpander: 48 hosts, 24 switches, 216 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_XPANDER, "xpander", params)
    degree, lift, hosts = (values[key] for key in ("degree", "lift", "hosts"))
    n = (degree + 1) * lift
    check_size("xpander", n_vertices=n * (hosts + 1), n_links=n * (2 * hosts + degree))
    if degree == 1 and lift > 1:
        raise InputError("xpander lift", "must be 1 when the degree is 1", got=lift, remedy="take degree=2 or more")
    params.update(degree=degree, lift=lift, hosts=hosts, seed=values["seed"])
    draw = stream(values["seed"], "topologies", "xpander")
    first, second = np.triu_indices(degree + 1, k=1)
    partner = draw.permuted(np.tile(np.arange(lift, dtype=np.int64), (first.size, 1)), axis=1)
    low = first[:, None] * lift + np.arange(lift, dtype=np.int64)
    _join_lift(partner, low, second[:, None] * lift, n, draw)
    high = second[:, None] * lift + partner
    return _with_hosts("xpander", params, values, n, hosts, low.reshape(-1), high.reshape(-1))


def _join_lift(partner: Int64, low: Int64, base: Int64, n: int, draw: np.random.Generator) -> None:
    """Swap ends within the first matching until all is one component.

    Every component is itself a lift, so it has links in each matching, and none of them is a bridge: each lies on a
    cycle above a triangle of meta-nodes.
    """
    label, count = _components(n, low.reshape(-1), (base + partner).reshape(-1))
    if count == 1:
        return
    here = label[low[0]]
    f = int(draw.choice(np.flatnonzero(here == 0)))
    for c in range(1, count):
        e = int(draw.choice(np.flatnonzero(here == c)))
        partner[0, [e, f]] = partner[0, [f, e]]


def _with_hosts(
    family: str, params: dict[str, Any], values: dict[str, Any], n_switches: int, hosts: int, low: Int64, high: Int64
) -> Topology:
    net = Layers(values)
    n_hosts = n_switches * hosts
    host = np.arange(n_hosts, dtype=np.int64)
    net.add("host", host, n_hosts + host // max(hosts, 1))
    net.add("switch", n_hosts + low, n_hosts + high)
    return net.topology(n_hosts=n_hosts, n_switches=n_switches, family=family, params=params)


@vertex_namer("xpander")
def _xpander_name(topology: Topology, switch: int) -> str:
    node, copy = divmod(switch, topology.params["lift"])
    return f"meta-node {node} switch {copy}"
