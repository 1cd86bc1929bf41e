"""Networks of diameter 2 near the Moore bound, from finite fields: Slim Fly and PolarFly."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.core.arrays import Int64
from netsim.core.errors import InputError
from netsim.topologies.fields import Field, is_prime_power
from netsim.topologies.generators import Layers, Parameter, check_size, checked, generator, link_parameters
from netsim.topologies.topology import DEFAULT_CAPACITY, DEFAULT_LATENCY, Topology, vertex_namer

__all__ = ["generator_sets", "points", "polarfly", "quadrics", "slim_fly"]

_LINKS = link_parameters(host="host links", switch="links between switches")
_HOSTS = "hosts per switch; if not given, half the switch's links to others, rounded up"
_SLIM_FLY = (
    Parameter(name="q", kind="int", minimum=3, meaning="prime power 4w - 1, 4w or 4w + 1; 2q^2 switches"),
    Parameter(name="hosts", kind="int", default=None, minimum=0, meaning=_HOSTS),
    *_LINKS,
)
_POLARFLY = (
    Parameter(name="q", kind="int", minimum=2, meaning="prime power; q^2 + q + 1 switches of degree q + 1"),
    Parameter(name="hosts", kind="int", default=None, minimum=0, meaning=_HOSTS),
    *_LINKS,
)


def _delta(q: int) -> int:
    """The delta of q = 4w + delta: -1, 0 or 1."""
    return (q + 1) % 4 - 1


def _check_prime_power(subject: str, q: int, least: int) -> None:
    if not is_prime_power(q):
        below = next((f"q={n} or " for n in range(q - 1, least - 1, -1) if is_prime_power(n)), "")
        above = next(n for n in range(q + 1, 2 * q + 1) if is_prime_power(n))
        raise InputError(f"{subject} q", "must be a prime power", got=q, remedy=f"take {below}q={above}")


def _smallest(q: int, n_hosts: int, count: Any) -> dict[str, Any]:
    while not is_prime_power(q) or count(q) < n_hosts:
        q += 1
    return {"q": q}


def generator_sets(q: int) -> tuple[Int64, Int64]:
    """Differences that join the switches of one column of Slim Fly, in the first and in the second half of the columns.

    Parameters
    ----------
    q : int
        Prime power 4w + delta with delta -1, 0 or 1.

    Returns
    -------
    first, second : int64 arrays, shape ((q - delta) / 2,)
        Elements of the field; each set holds with x also -x.

    Notes
    -----
    With xi primitive: delta = 1 or 0: the even and the odd powers of xi, up to exponent q - 2 and q - 1. delta = -1:
    xi^0, xi^2 .. xi^(2w-2), xi^(2w-1), xi^(2w+1) .. xi^(4w-3) and xi^1, xi^3 .. xi^(2w-1), xi^(2w), xi^(2w+2) ..
    xi^(4w-2).

    Examples
    --------
    >>> [part.tolist() for part in generator_sets(5)]
    [[1, 4], [2, 3]]
    """
    powers = Field(q).powers
    delta, w = _delta(q), (q + 1) // 4
    if delta >= 0:
        return powers[np.arange(0, q - 1, 2)], powers[np.arange(1, q, 2) % (q - 1)]
    exponents = (
        np.r_[0 : 2 * w - 1 : 2, 2 * w - 1 : 4 * w - 2 : 2],
        np.r_[1 : 2 * w : 2, 2 * w : 4 * w - 1 : 2],
    )
    return powers[exponents[0]], powers[exponents[1] % (q - 1)]


def _slim_fly_for(n_hosts: int) -> dict[str, Any]:
    return _smallest(3, n_hosts, lambda q: 2 * q * q * -(-(3 * q - _delta(q)) // 4))


@generator("slim_fly", parameters=_SLIM_FLY, size_for=_slim_fly_for)
def slim_fly(
    q: int,
    hosts: int | None = None,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """Slim Fly: the McKay-Miller-Siran graph of diameter 2, with 2q^2 switches of degree (3q - delta) / 2.

    q = 4w + delta is a prime power and delta -1, 0 or 1. Switch (s, x, y), s = 0 or 1 and x, y elements of the field of
    q, has number s q^2 + x q + y. (0, x, y) is joined with (0, x, y') where y - y' is in the first generator set, (1,
    m, c) with (1, m, c') where c - c' is in the second, and (0, x, y) with (1, m, c) where y = m x + c. Host i is on
    switch i // hosts. q = 5 is the Hoffman-Singleton graph, which meets the Moore bound.

    {parameters}

    Raises
    ------
    InputError
        ``q`` is no such prime power; the message names the nearest ones.

    Notes
    -----
    M. Besta, T. Hoefler, "Slim Fly: A Cost Effective Low-Diameter Network Topology", SC 2014; B. McKay, M. Miller, J.
    Siran, J. Combin. Theory B 74, 1998; P. Hafner, J. Combin. Theory B 90, 2004, for delta 0 and -1.

    Examples
    --------
    >>> slim_fly(5).expect(n_switches=2 * 5**2, diameter=2, switch_ports_max=7 + 4)
    <Topology slim_fly: 200 hosts, 50 switches, 750 directed links>
    >>> slim_fly(6)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: slim_fly q: must be a prime power, got 6; take q=5 or q=7
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_SLIM_FLY, "slim_fly", params)
    q = values["q"]
    _check_size("slim_fly", q, 2 * q * q, (3 * q - _delta(q)) // 2, values["hosts"])
    _check_prime_power("slim_fly", q, 3)
    degree = (3 * q - _delta(q)) // 2
    field = Field(q)
    first, second = generator_sets(q)
    element = np.arange(q, dtype=np.int64)
    within = []
    for part in (first, second):
        # Each difference and its negative give the same cable: keep the one that leads up.
        there = field.add(element[:, None], part[None, :])
        here, at = np.nonzero(there > element[:, None])
        within.append((here, there[here, at]))
    column = q * np.arange(q, dtype=np.int64)[:, None]
    source = [(column + s * q * q + within[s][0]).reshape(-1) for s in (0, 1)]
    target = [(column + s * q * q + within[s][1]).reshape(-1) for s in (0, 1)]
    x, m, c = (part.reshape(-1) for part in np.meshgrid(element, element, element, indexing="ij"))
    y = field.add(field.multiply(m, x), c)
    hosts = -(-degree // 2) if values["hosts"] is None else values["hosts"]
    params.update(q=q, hosts=hosts)
    layers = [
        ("column", np.concatenate(source), np.concatenate(target)),
        ("across", x * q + y, q * q + m * q + c),
    ]
    return _with_hosts("slim_fly", params, values, 2 * q * q, hosts, layers)


def points(q: int) -> Int64:
    """Points of the projective plane over the field of q: (1, y, z), (0, 1, z), (0, 0, 1); int64, shape (q^2+q+1, 3).

    >>> points(2).tolist()
    [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]
    """
    out = np.zeros((q * q + q + 1, 3), dtype=np.int64)
    out[: q * q, 0] = 1
    out[: q * q, 1], out[: q * q, 2] = np.divmod(np.arange(q * q), q)
    out[q * q : -1, 1], out[q * q : -1, 2] = 1, np.arange(q)
    out[-1, 2] = 1
    return out


def quadrics(q: int) -> Int64:
    """Switches of PolarFly that are their own polar, of degree q instead of q + 1: int64, shape (q + 1,).

    >>> quadrics(2).tolist()
    [1, 2, 5]
    """
    field, point = Field(q), points(q)
    x, y, z = (field.multiply(point[:, i], point[:, i]) for i in range(3))
    return np.flatnonzero(field.add(field.add(x, y), z) == 0).astype(np.int64)


def _polar_lines(q: int) -> Int64:
    """For each point (a, b, c) the q + 1 points (x, y, z) with ax + by + cz = 0: int64, shape (q^2+q+1, q + 1)."""
    field, point = Field(q), points(q)
    t = np.arange(q, dtype=np.int64)
    line = np.empty((point.shape[0], q + 1), dtype=np.int64)
    a, b, c = (point[:, i][:, None] for i in range(3))
    # c != 0: z = -(a + b y) / c for each (1, y, z), and (0, 1, -b / c).
    some = np.flatnonzero(c[:, 0] != 0)
    z = field.divide(field.subtract(0, field.add(a[some], field.multiply(b[some], t))), c[some])
    line[some, :q] = t * q + z
    line[some, q] = q * q + field.divide(field.subtract(0, b[some, 0]), c[some, 0])
    # c = 0, b != 0: y = -a / b for each (1, y, z), and (0, 0, 1).
    some = np.flatnonzero((c[:, 0] == 0) & (b[:, 0] != 0))
    y = field.divide(field.subtract(0, a[some]), b[some])
    line[some, :q] = y * q + t
    line[some, q] = q * q + q
    # (1, 0, 0): each (0, 1, z), and (0, 0, 1).
    line[0, :q] = q * q + t
    line[0, q] = q * q + q
    return line


def _polarfly_for(n_hosts: int) -> dict[str, Any]:
    return _smallest(2, n_hosts, lambda q: (q * q + q + 1) * -(-(q + 1) // 2))


@generator("polarfly", parameters=_POLARFLY, size_for=_polarfly_for)
def polarfly(
    q: int,
    hosts: int | None = None,
    *,
    capacity: str | float = DEFAULT_CAPACITY,
    latency: str | float = DEFAULT_LATENCY,
    host_capacity: str | float | None = None,
    host_latency: str | float | None = None,
    switch_capacity: str | float | None = None,
    switch_latency: str | float | None = None,
) -> Topology:
    """PolarFly: the Erdos-Renyi polarity graph of diameter 2, with q^2 + q + 1 switches of degree q + 1.

    Switches are the points of the projective plane over the field of q, joined where their dot product is 0. The q + 1
    quadrics (:func:`netsim.topologies.diameter_two.quadrics`), whose product with themselves is 0, have degree q; their
    links are a layer of their own and their names say so. Host i is on switch i // hosts.

    {parameters}

    Raises
    ------
    InputError
        ``q`` is no prime power; the message names the nearest ones.

    Notes
    -----
    K. Lakhotia, M. Besta, L. Monroe, K. Isham, P. Iff, T. Hoefler, F. Petrini, "PolarFly: A Cost-Effective and Flexible
    Low-Diameter Topology", SC 2022; P. Erdos, A. Renyi, Magyar Tud. Akad. Mat. Kut. Int. Kozl. 7, 1962.

    Examples
    --------
    >>> polarfly(7).expect(n_switches=7**2 + 7 + 1, diameter=2)
    <Topology polarfly: 228 hosts, 57 switches, 904 directed links>
    """
    params: dict[str, Any] = dict(locals())
    values = checked(_POLARFLY, "polarfly", params)
    q = values["q"]
    n = q * q + q + 1
    _check_size("polarfly", q, n, q + 1, values["hosts"])
    _check_prime_power("polarfly", q, 2)
    there = _polar_lines(q)
    here, at = np.nonzero(there > np.arange(n)[:, None])
    there = there[here, at]
    quadric = np.zeros(n, dtype=bool)
    quadric[quadrics(q)] = True
    # No two quadrics are joined.
    beside = quadric[here] | quadric[there]
    hosts = -(-(q + 1) // 2) if values["hosts"] is None else values["hosts"]
    params.update(q=q, hosts=hosts)
    layers = [("switch", here[~beside], there[~beside]), ("quadric", here[beside], there[beside])]
    return _with_hosts("polarfly", params, values, n, hosts, layers)


def _check_size(family: str, q: int, n_switches: int, degree: int, hosts: int | None) -> None:
    n_hosts = n_switches * (-(-degree // 2) if hosts is None else hosts)
    check_size(family, n_vertices=n_hosts + n_switches, n_links=2 * n_hosts + n_switches * degree)


def _with_hosts(
    family: str,
    params: dict[str, Any],
    values: dict[str, Any],
    n_switches: int,
    hosts: int,
    layers: list[tuple[str, Int64, Int64]],
) -> Topology:
    net = Layers(values)
    n_hosts = n_switches * hosts
    host = np.arange(n_hosts, dtype=np.int64)
    net.add("host", host, n_hosts + host // max(hosts, 1))
    for name, source, target in layers:
        net.add(name, n_hosts + source, n_hosts + target, key="switch")
    return net.topology(n_hosts=n_hosts, n_switches=n_switches, family=family, params=params)


@vertex_namer("slim_fly")
def _slim_fly_name(topology: Topology, switch: int) -> str:
    q = topology.params["q"]
    half, rest = divmod(switch, q * q)
    return f"switch ({half}, {rest // q}, {rest % q})"


@vertex_namer("polarfly")
def _polarfly_name(topology: Topology, switch: int) -> str:
    q = topology.params["q"]
    if switch < q * q:
        x, y, z = 1, switch // q, switch % q
    else:
        x, y, z = (0, 1, switch - q * q) if switch < q * q + q else (0, 0, 1)
    field = Field(q)
    square = field.add(field.add(field.multiply(x, x), field.multiply(y, y)), field.multiply(z, z))
    return f"{'quadric' if square == 0 else 'switch'} ({x}, {y}, {z})"
