"""Saturation throughput: how much every host can send before the first link between switches is full.

>>> from netsim.routing import saturation
>>> from netsim.topologies import dragonfly
>>> round(saturation(dragonfly(p=2, a=4, h=2), pattern="adv+1", routing="valiant-group").throughput, 12)
0.4375
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64
from netsim.core.errors import InputError, closest
from netsim.routing.fluid import BY_PATH, Transport, fluid_loads, fluid_routings, injection_bytes_per_s, transport
from netsim.routing.patterns import Demand, demand
from netsim.routing.registry import routings
from netsim.topologies import Topology

__all__ = ["OPTIMUM", "Saturation", "best_loads", "default_fluid", "network_links", "saturation", "saturation_routings"]

OPTIMUM = "optimum"
# One variable per source and link: an interior-point solution of this size takes a minute or two.
MOST_VARIABLES = 150_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Saturation:
    """Fluid throughput of a routing under a pattern, and what limits it.

    Attributes
    ----------
    throughput : float
        Per host, as a share of its injection bandwidth, limited by the links between switches alone: it may exceed 1. inf where
        the pattern uses no such link.
    host_throughput : float
        What the links of hosts allow, by the same rule.
    limiting_link : int
        First of the fullest links between switches, -1 if none is used.
    limiting_layer : str
        Its layer.
    layer_throughput : dict of str to float
        What the links of each layer alone would allow.
    hops : float
        Mean number of links per byte, host links included.
    layer_hops : dict of str to float
        The same by layer.
    load : float64 array, shape (n_links,)
        Bytes per second on each link when all hosts inject at full rate.
    """

    pattern: str
    routing: str
    throughput: float
    host_throughput: float
    limiting_link: int
    limiting_layer: str
    layer_throughput: dict[str, float]
    hops: float
    layer_hops: dict[str, float]
    load: Float64

    @property
    def accepted(self) -> float:
        """What hosts can really send: no more than their links and 1."""
        return min(1.0, self.throughput, self.host_throughput)

    def to_dict(self, topology: Topology) -> dict[str, Any]:
        """Plain values for JSON; None where nothing limits."""

        def plain(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "topology": {"family": topology.family, "hosts": topology.n_hosts, "switches": topology.n_switches},
            "pattern": self.pattern,
            "routing": self.routing,
            "throughput": plain(self.throughput),
            "host_throughput": plain(self.host_throughput),
            "accepted": self.accepted,
            "limiting_layer": self.limiting_layer or None,
            "limiting_link": topology.link_name(self.limiting_link) if self.limiting_link >= 0 else None,
            "layer_throughput": {name: plain(value) for name, value in self.layer_throughput.items()},
            "mean_hops": self.hops,
            "mean_hops_by_layer": self.layer_hops,
        }

    def lines(self, topology: Topology) -> list[str]:
        """For a terminal."""
        name = topology.link_name(self.limiting_link) if self.limiting_link >= 0 else "no link between switches is used"
        limits = ", ".join(
            f"{layer} {value:.6g}" for layer, value in self.layer_throughput.items() if math.isfinite(value)
        )
        hops = ", ".join(f"{layer} {value:.4g}" for layer, value in self.layer_hops.items() if value)
        return [
            f"network           {topology.family}, {topology.n_hosts:,} hosts, {topology.n_switches:,} switches",
            f"traffic           {self.pattern}, routing {self.routing}",
            f"throughput        {self.throughput:.6g} of injection bandwidth per host (links between switches)",
            f"accepted          {self.accepted:.6g} (with the links of hosts)",
            f"limited by        {self.limiting_layer + ': ' if self.limiting_layer else ''}{name}",
            f"layers            {limits or 'none is used'}",
            f"mean path         {self.hops:.4g} links ({hops or 'none'})",
            "not modelled      packets, buffers, head-of-line blocking: a real network saturates somewhat earlier",
        ]


def network_links(topology: Topology) -> npt.NDArray[np.bool_]:
    """Links that do not end at a host, or only at hosts that forward; bool, shape (n_links,)."""
    inner = np.ones(topology.n_vertices, dtype=bool)
    inner[: topology.n_hosts] = topology.host_transit
    found: npt.NDArray[np.bool_] = inner[topology.link_src] & inner[topology.link_dst]
    return found


def default_fluid(topology: Topology) -> str:
    """Routing taken when none is named: dimension order on grids, else all minimal paths."""
    return "dimension-order" if topology.family in ("torus", "mesh") else "ecmp"


def saturation_routings() -> list[str]:
    """Names that `saturation` knows."""
    return sorted({*fluid_routings, *BY_PATH, OPTIMUM})


def saturation(
    topology: Topology, *, pattern: str | Demand = "uniform", routing: str | None = None, seed: int = 0
) -> Saturation:
    """Fluid saturation throughput per host, from the load that each link gets.

    Parameters
    ----------
    topology : Topology
    pattern : str or Demand
        A name in ``netsim.routing.patterns`` (``uniform``, ``adv+1``, ...), or who sends what to whom.
    routing : str, optional
        ``minimal``, ``ecmp``, ``dimension-order``, ``d-mod-k``, ``s-mod-k``, ``up-down``, ``k-shortest``, ``valiant``,
        ``ugal-l``, ``ugal-g``, ``par`` (`netsim.routing.blends` says what that means), or ``optimum``: the best any routing can do, by a
        linear program, for small networks. By default `default_fluid`.
    seed : int
        For patterns with randomness.

    Returns
    -------
    Saturation
        All hosts scale their traffic by one factor; the throughput is the factor at which the first link is full.

    Raises
    ------
    InputError
        An unknown name, a pattern or routing that does not fit the topology, or a network too large for it.

    Notes
    -----
    Throughput is the least capacity over load among links between switches: Dally, Towles 2004, section 3.2. Links of hosts are
    left out, so that networks with more than enough links differ; ``accepted`` includes them.

    Examples
    --------
    >>> from netsim.topologies import torus
    >>> found = saturation(torus((4, 4)), pattern="uniform")
    >>> found.throughput, found.routing, found.limiting_layer
    (1.875, 'dimension-order', 'dimension 0')
    """
    name = default_fluid(topology) if routing is None else routing
    if name not in saturation_routings():
        if name in routings:
            raise InputError(
                f"routing {name}",
                "has no fluid form",
                remedy="use netsim saturate --loads, which simulates it, or one of " + ", ".join(saturation_routings()),
            )
        raise InputError("routing", "unknown name", got=repr(name), remedy=closest(name, saturation_routings()))
    wanted = demand(topology, pattern, seed=seed)
    if name == OPTIMUM:
        moved = transport(topology, wanted)
        load = best_loads(topology, moved) + moved.host_load_bytes_per_s
    else:
        load = fluid_loads(topology, wanted, routing=name, seed=seed)
    room = np.full(topology.n_links, np.inf)
    used = np.flatnonzero(load > 0)
    room[used] = topology.link_capacity_bytes_per_s[used] / load[used]
    inner = network_links(topology)
    within = np.where(inner, room, np.inf)
    # Equal links differ in the last digits of their sums: the first of all that are full is named, on every machine.
    least = float(within.min(initial=np.inf))
    link = int(np.flatnonzero(within <= least * (1 + 1e-9))[0]) if math.isfinite(least) else -1
    layers = range(len(topology.layer_names))
    inject = injection_bytes_per_s(topology)
    sent = float((wanted.share * inject[wanted.source]).sum() + wanted.uniform_share * inject.sum())
    total = max(sent, 1e-300)
    of_layer = np.bincount(topology.link_layer, weights=load, minlength=len(layers))
    return Saturation(
        pattern=pattern if isinstance(pattern, str) else "given demand",
        routing=name,
        throughput=least,
        host_throughput=float(room[~inner].min(initial=np.inf)),
        limiting_link=link,
        limiting_layer=topology.layer_names[int(topology.link_layer[link])] if link >= 0 else "",
        layer_throughput={
            topology.layer_names[i]: float(room[topology.link_layer == i].min(initial=np.inf)) for i in layers
        },
        hops=float(load.sum()) / total,
        layer_hops={topology.layer_names[i]: float(of_layer[i]) / total for i in layers},
        load=load,
    )


def best_loads(topology: Topology, moved: Transport) -> Float64:
    """Loads of a routing with the greatest throughput, by linear programming; bytes/s at full injection, shape (n_links,).

    Maximise t such that every vertex sends t times its demand and no link is above its capacity: the concurrent flow problem, with
    one commodity per source (Leighton, Rao, J. ACM 46(6), 1999, section 1). HiGHS, interior point with crossover.

    Raises
    ------
    InputError
        More than 150,000 variables (sources times links), or pairs that are not joined.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, hstack, kron
    from scipy.sparse import identity as eye

    links = np.flatnonzero(network_links(topology) | _ends_at(topology, moved))
    root, which = np.unique(moved.source, return_inverse=True)
    k, m = root.size, links.size
    if k == 0:
        return np.zeros(topology.n_links)
    if k * m > MOST_VARIABLES:
        raise InputError(
            "routing optimum",
            f"must be at most {MOST_VARIABLES} variables (sources times links)",
            got=k * m,
            remedy="take a smaller network",
        )
    # Capacities and demands near 1 keep the solver's tolerances meaningful.
    unit = float(moved.amount_bytes_per_s.max())
    vertex, number = np.unique(
        np.concatenate([topology.link_src[links], topology.link_dst[links], moved.source, moved.destination]),
        return_inverse=True,
    )
    n = vertex.size
    tail, head = number[:m], number[m : 2 * m]
    incidence = coo_array(
        (np.concatenate([np.ones(m), -np.ones(m)]), (np.concatenate([tail, head]), np.tile(np.arange(m), 2))),
        shape=(n, m),
    )
    # Commodity s: what leaves minus what enters vertex v is t x (all of s at its source, minus its demand elsewhere).
    need = np.zeros((k, n))
    np.add.at(need, (which, number[2 * m + moved.source.size :]), moved.amount_bytes_per_s / unit)
    need[np.arange(k), np.searchsorted(vertex, root)] -= need.sum(axis=1)
    capacity = topology.link_capacity_bytes_per_s[links] / unit
    bounded = np.flatnonzero(np.isfinite(capacity))
    balance: Any = csr_array(hstack([kron(eye(k), incidence), coo_array(need.reshape(-1, 1))]))
    sums: Any = csr_array(kron(np.ones((1, k)), eye(m)))[bounded]
    limit: Any = csr_array(hstack([sums, coo_array((bounded.size, 1))]))
    cost = np.zeros(k * m + 1)
    cost[-1] = -1.0
    found = linprog(
        cost,
        A_ub=limit,
        b_ub=capacity[bounded],
        A_eq=balance,
        b_eq=np.zeros(k * n),
        bounds=(0, None),
        method="highs-ipm",
    )
    if found.x is None or not found.x[-1] > 1e-12:
        raise InputError(
            "routing optimum", "every pair that communicates must be joined", got=f"no flow ({found.message})"
        )
    load = np.zeros(topology.n_links)
    load[links] = found.x[:-1].reshape(k, m).sum(axis=0) / found.x[-1] * unit
    return load


def _ends_at(topology: Topology, moved: Transport) -> npt.NDArray[np.bool_]:
    """Links of hosts that are sources or destinations themselves, having several links: they carry what starts or ends there."""
    start = np.zeros(topology.n_vertices, dtype=bool)
    end = start.copy()
    start[moved.source[moved.source < topology.n_hosts]] = True
    end[moved.destination[moved.destination < topology.n_hosts]] = True
    found: npt.NDArray[np.bool_] = start[topology.link_src] | end[topology.link_dst]
    return found
