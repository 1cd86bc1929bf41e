"""Load curves: what a network accepts of what is offered, and how much longer messages take, as every interconnect paper shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_order
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.core.units import format_bytes
from netsim.engine import Control, EngineResult, Multipath, Progress, Simulation, View, default_multipath, route_graph
from netsim.routing import Demand, adaptive_routings, demand, path_latency, paths, routings
from netsim.routing.fluid import injection_bytes_per_s
from netsim.topologies import Topology
from netsim.traffic.taskgraph import AFTER_END, DELAY, TRANSFER, TaskGraph

__all__ = ["LoadCurve", "LoadPoint", "load_curve"]

LOADS = tuple(round(0.1 * i, 1) for i in range(1, 11))
MESSAGE_BYTES = 64 * 1024
# Per host at load 1, by default: so many in all, but no fewer and no more than this for each host.
MESSAGES = 14_400
FEWEST, MOST = 30, 200
HIGHEST_LOAD = 2.0
# More make each message slower and none sooner; without a limit a saturated network holds all that ever came.
OUTSTANDING = 4
# Of the time in which messages are offered; before, the network fills up.
WARM_UP = 0.25
MOST_MESSAGES = 20_000_000
SATURATED = 0.95
# Of the slowdown.
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, kw_only=True)
class LoadPoint:
    """What happened at one offered load.

    Attributes
    ----------
    offered : float
        Bytes that came in the measured time, as a share of what hosts could inject then. What was drawn, so near the load asked for.
    accepted : float
        Bytes that left the hosts in that time, by the same measure.
    slowdown_mean, slowdown_p50, slowdown_p95, slowdown_p99 : float
        Of the messages that came in the measured time, from their coming to their last byte's arrival, over what each would take alone.
    minimal_share : float
        Part of all bytes on minimal paths.
    messages : int
        Measured.
    saturated : bool
        Less was accepted than 95 % of what was offered: slowdowns then grow with the length of the run.
    """

    offered: float
    accepted: float
    slowdown_mean: float
    slowdown_p50: float
    slowdown_p95: float
    slowdown_p99: float
    minimal_share: float
    messages: int
    saturated: bool


@dataclass(frozen=True, kw_only=True)
class LoadCurve:
    """Points by offered load, and how they were made."""

    pattern: str
    routing: str
    multipath: str
    message_bytes: float
    messages_per_host: int
    outstanding: int | None
    seed: int
    points: tuple[LoadPoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a terminal."""
        limit = "any number" if self.outstanding is None else f"up to {self.outstanding}"
        rows = [
            f"load curve        messages of {format_bytes(self.message_bytes)} in a Poisson stream per host, "
            f"{self.messages_per_host} at load 1, {limit} under way, seed {self.seed}, "
            f"routing {self.routing}{'' if self.multipath == 'one' else ', ' + self.multipath}",
            f"{'':<18}{'offered':>8} {'accepted':>9} {'slowdown mean':>14} {'median':>8} {'95 %':>8} {'99 %':>8} {'minimal':>9}",
        ]
        for p in self.points:
            rows.append(
                f"{'':<18}{p.offered:>8.3f} {p.accepted:>9.3f} {p.slowdown_mean:>14.2f} {p.slowdown_p50:>8.2f} {p.slowdown_p95:>8.2f} "
                f"{p.slowdown_p99:>8.2f} {100 * p.minimal_share:>7.1f} %{'  saturated' if p.saturated else ''}"
            )
        rows.append(
            "slowdown          time of a message from its coming, over its time alone: from sharing links and waiting at the host. "
            "Packet queues come on top; above saturation it grows with the length of the run"
        )
        return rows


def load_curve(
    topology: Topology,
    *,
    pattern: str | Demand = "uniform",
    routing: str,
    loads: Sequence[float] = LOADS,
    message_bytes: float = MESSAGE_BYTES,
    messages_per_host: int | None = None,
    outstanding: int | None = OUTSTANDING,
    multipath: Multipath | str | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> LoadCurve:
    """Offer more and more traffic of a pattern, message by message, and measure what arrives and when.

    Parameters
    ----------
    topology : Topology
    pattern : str or Demand
        Who sends what share of its bandwidth to whom.
    routing : str
        Registered routing. Each message is routed by itself; adaptive routings choose when it starts.
    loads : sequence of float
        Offered loads as shares of the injection bandwidth, above 0 and at most 2.
    message_bytes : float
    messages_per_host : int, optional
        Offered per host in the mean at load 1 over the run; the first quarter of the time is not measured. By default as many as make
        14,400 in all, within 30 and 200.
    outstanding : int, optional
        Messages that a host has under way at most; others wait at the host, in order. None: no limit.
    multipath : Multipath or str, optional
        As in `netsim.replay`: by default eight sub-flows for adaptive routings.
    seed : int
        Of arrivals, destinations and routes. All loads use the same draws, closer together in time.
    progress : callable, optional

    Returns
    -------
    LoadCurve

    Raises
    ------
    InputError
        A load, size or number out of range, or an unknown name.

    Notes
    -----
    Open loop: each host offers messages in a Poisson stream whether or not earlier ones have gone. Where only the host's link is shared
    that is an M/D/1 queue: with one message under way the mean slowdown is 1 + load / (2 (1 - load)); without a limit, all messages
    sharing the link, 1 / (1 - load). Kleinrock, Queueing Systems, volume 1, section 5.6, and volume 2, section 4.4.

    Examples
    --------
    >>> from netsim.topologies import dragonfly
    >>> curve = load_curve(dragonfly(p=1, a=2, h=1), pattern="adv+1", routing="minimal", loads=[0.2, 0.9], messages_per_host=400)
    >>> [round(p.accepted, 1) for p in curve.points]
    [0.2, 0.5]
    """
    if not message_bytes > 0 or not np.isfinite(message_bytes):
        raise InputError("message size", "must be above 0 B", got=f"{message_bytes} B")
    if not loads or not all(0 < load <= HIGHEST_LOAD for load in loads):
        bad = next((load for load in loads if not 0 < load <= HIGHEST_LOAD), "none")
        raise InputError("offered load", f"must be above 0 and at most {HIGHEST_LOAD:g}", got=bad)
    if messages_per_host is None:
        messages_per_host = max(FEWEST, min(MOST, MESSAGES // max(topology.n_hosts, 1)))
    if messages_per_host < 1 or messages_per_host * topology.n_hosts * max(loads) > MOST_MESSAGES:
        raise InputError(
            "load curve",
            f"must be 1 to {MOST_MESSAGES} messages in all at the highest load",
            got=f"{messages_per_host} per host on {topology.n_hosts} hosts",
            remedy="take fewer messages per host, or a smaller network",
        )
    if outstanding is not None and outstanding < 1:
        raise InputError("outstanding messages", "must be 1 or more, or no limit", got=outstanding)
    several = Multipath.parse(multipath) if isinstance(multipath, str) else multipath or default_multipath(routing)
    wanted = demand(topology, pattern, seed=seed)
    draws = _Draws(topology, wanted, message_bytes, messages_per_host, seed)
    points = tuple(_point(topology, draws, load, routing, several, outstanding, seed, progress) for load in loads)
    return LoadCurve(
        pattern=pattern if isinstance(pattern, str) else "given demand",
        routing=routing,
        multipath=str(several),
        message_bytes=float(message_bytes),
        messages_per_host=messages_per_host,
        outstanding=outstanding,
        seed=seed,
        points=points,
    )


class _Draws:
    """Messages of all hosts in the order in which they come, at load 1; other loads stretch the time between them."""

    def __init__(self, topology: Topology, wanted: Demand, size_bytes: float, per_host: int, seed: int) -> None:
        n = topology.n_hosts
        inject = injection_bytes_per_s(topology)
        share: Float64 = np.bincount(wanted.source, weights=wanted.share, minlength=n).astype(np.float64)
        share += wanted.uniform_share
        busy = np.flatnonzero(share > 0)
        if not busy.size:
            raise InputError("load curve", "some host must send something")
        # Messages per second of each host; time is that in which a host at full load sends ``per_host``.
        rate = share * inject / size_bytes
        self.inject_bytes_per_s = float((share * inject).sum())
        self.span_s = per_host / float(rate.max())
        self.size_bytes = size_bytes
        rng = stream(seed, "load curve", "arrivals")
        to = stream(seed, "load curve", "destinations")
        source, when = [], []
        ptr, order = csr_order(wanted.source, n)
        for host in busy.tolist():
            # Enough for any load: a Poisson number of mean 2 m stays below 4 m + 64.
            gaps = rng.exponential(1.0 / rate[host], size=4 * per_host + 64)
            when.append(np.cumsum(gaps))
            source.append(np.full(gaps.size, host))
        self.when: Float64 = np.concatenate(when)
        self.source: Int64 = np.concatenate(source).astype(np.int64)
        self.destination = self._destinations(wanted, ptr, order, share, to)

    def _destinations(self, wanted: Demand, ptr: Int64, order: Int64, share: Float64, to: np.random.Generator) -> Int64:
        n = wanted.n_hosts
        point = to.random(self.source.size) * share[self.source]
        other = to.integers(0, max(n - 1, 1), self.source.size)
        # By default one of all others; where the demand names pairs, by their shares.
        destination: Int64 = np.where(other >= self.source, other + 1, other).astype(np.int64)
        if wanted.source.size:
            running = np.concatenate([[0.0], np.cumsum(wanted.share[order])])
            base = running[ptr[self.source]]
            named = point < running[ptr[self.source + 1]] - base
            at = np.searchsorted(running, base + point, side="right") - 1
            at = np.clip(at, ptr[self.source], np.maximum(ptr[self.source + 1] - 1, ptr[self.source]))
            destination[named] = wanted.destination[order[at[named]]]
        return destination


def _point(
    topology: Topology,
    draws: _Draws,
    load: float,
    routing: str,
    multipath: Multipath,
    outstanding: int | None,
    seed: int,
    progress: Callable[[Progress], None] | None,
) -> LoadPoint:
    # A lower load stretches the time so that as many messages come, a higher one draws more of them, to the end of the drawn ones.
    span = draws.span_s / min(load, 1.0)
    come = draws.when / load
    kept = np.flatnonzero(come < span)
    kept = kept[np.lexsort((kept, come[kept]))]
    n = kept.size
    come, source, destination = come[kept], draws.source[kept], draws.destination[kept]
    size = np.full(n, draws.size_bytes)
    i = np.arange(n)
    begin, end = i, i + n
    if outstanding is not None:
        # A message waits for the one that came so many before it at its host.
        ptr, order = csr_order(source, topology.n_hosts)
        place = np.arange(n) - np.repeat(ptr[:-1], np.diff(ptr))
        late = np.flatnonzero(place >= outstanding)
        begin = np.concatenate([begin, order[late - outstanding] + n])
        end = np.concatenate([end, order[late] + n])
    graph = TaskGraph.from_edges(
        n_ranks=topology.n_hosts,
        kind=np.repeat([DELAY, TRANSFER], n).astype(np.uint8),
        rank=np.tile(source, 2).astype(np.int32),
        peer=np.concatenate([source, destination]).astype(np.int32),
        amount=np.concatenate([come, size]),
        edge_from=begin,
        edge_to=end,
        edge_after=np.full(begin.size, AFTER_END, np.uint8),
        op=np.tile(kept, 2),
    )
    routed = route_graph(
        graph,
        topology,
        routing=routing,
        host=np.arange(topology.n_hosts, dtype=np.int32),
        multipath=multipath,
        seed=seed,
        per_flow_labels=True,
    )
    warm = WARM_UP * span
    sent: list[float] = []

    def measure(view: View) -> None:
        under_way = view.transfers
        done = ~np.isnan(view.drain_s) & (routed.graph.kind == TRANSFER)
        amount = routed.graph.amount
        sent.append(float(amount[done].sum() + (amount[under_way.task] - under_way.remaining_bytes).sum()))

    result = Simulation(
        graph=routed.graph,
        routes=routed.routes,
        capacity_bytes_per_s=topology.link_capacity_bytes_per_s,
        count_bytes=False,
        weight=None if routed.multi is None else routed.multi.weight,
    ).run(controller=Control(act=measure, times_s=[warm, span]), progress=progress)
    if result.status == "interrupted":
        raise KeyboardInterrupt
    whole: EngineResult = result if routed.multi is None else routed.multi.fold(result)
    used = routed.use(topology, result)
    while len(sent) < 2:
        # The run was over before: everything had been sent.
        sent.append(float(size.sum()))
    time = whole.end_s[n:] - come
    alone = _alone(topology, source, destination, draws.size_bytes, routing)
    measured = come >= warm
    slow = time[measured] / alone[measured]
    middle, high, highest = np.percentile(slow, PERCENTILES) if slow.size else (np.nan,) * 3
    room = draws.inject_bytes_per_s * (span - warm)
    offered, accepted = float(size[measured].sum()) / room, (sent[1] - sent[0]) / room
    return LoadPoint(
        offered=offered,
        accepted=accepted,
        slowdown_mean=float(slow.mean()) if slow.size else float("nan"),
        slowdown_p50=float(middle),
        slowdown_p95=float(high),
        slowdown_p99=float(highest),
        minimal_share=used["minimal_share"],
        messages=int(measured.sum()),
        saturated=accepted < SATURATED * offered,
    )


def _alone(
    topology: Topology, source: npt.NDArray[Any], destination: npt.NDArray[Any], size: float, routing: str
) -> Float64:
    """Time of each message on its minimal path when nothing else is there, in seconds."""
    key, row = np.unique(source * topology.n_hosts + destination, return_inverse=True)
    name = (
        "minimal"
        if routing not in routings or routing in adaptive_routings or routing.startswith("valiant")
        else routing
    )
    routes = paths(topology, key // topology.n_hosts, key % topology.n_hosts, routing=name)
    slowest = np.minimum.reduceat(topology.link_capacity_bytes_per_s[routes.link], routes.ptr[:-1])
    alone: Float64 = size / slowest + path_latency(topology, routes)
    return alone[row]
