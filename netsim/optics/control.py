"""Circuits during a run: the controller that sets them up and tears them down, and moves traffic onto them and off.

At each decision time it asks a decider which circuits are wanted. Those that have to go are darkened (with the policy ``drain``: once they
are empty), those that come are lit after the hardware's delay, and every time what stands changes, all traffic between switches that
is not over yet is divided anew between circuits and electrical paths, as the routing ``spill`` of `netsim.optics.link_load` does.

What happens to traffic in the dark:

``fallback``   it goes on over electrical paths at once, and moves to the circuit when that is lit (make before break);
``wait``       traffic meant for a circuit waits for its light (break before make);
``drain``      as ``fallback``, but a circuit is torn down only when what was under way on it has drained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from netsim.core.arrays import Float64, Int32, Int64, csr_gather, csr_order, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.engine import Actions, Control, Routes, View
from netsim.optics.circuits import Circuits, with_circuits
from netsim.optics.demands import SwitchDemand, switches_of_hosts
from netsim.optics.fabric import Lit, OpticalNetwork
from netsim.optics.loads import Fabric, assigned, spill_shares
from netsim.routing import Paths, path_latency
from netsim.traffic.taskgraph import TRANSFER, TaskGraph

__all__ = ["POLICIES", "Answer", "CircuitControl", "Decider", "Lightlog", "Window"]

POLICIES = ("fallback", "wait", "drain")


@dataclass(frozen=True, kw_only=True)
class Window:
    """What a decider may look at.

    Attributes
    ----------
    now_s : float
    view : View
        The run.
    control : CircuitControl
        ``control.demand_of(tasks)`` adds up tasks by switches, ``control.open_tasks(view)`` are those not over yet.
    standing : Circuits
        Those lit or being set up.
    """

    now_s: float
    view: View
    control: CircuitControl
    standing: Circuits


# The circuits wanted from now on, and the demand to divide between them and the electrical paths (None: what is left of the run);
# and, where they are to change before the next decision, from when on which others are wanted: rising times, possibly without end.
Answer = tuple[Circuits, SwitchDemand | None] | tuple[Circuits, SwitchDemand | None, Iterable[tuple[float, Circuits]]]
Decider = Callable[[Window], Answer | None]


@dataclass
class Lightlog:
    """What the optical hardware did during a run."""

    reconfigurations: int = 0
    set_up: int = 0
    torn_down: int = 0
    dark_s: float = 0.0
    lit_s: float = 0.0
    most: int = 0
    refused: int = 0
    moved_transfers: int = 0


class CircuitControl:
    """The controller of one run.

    Parameters
    ----------
    network : OpticalNetwork
    graph : TaskGraph
    host : int32 array, shape (n_ranks,)
    routes : Routes
        Electrical routes of the transfers.
    decide : Decider
    times_s, period_s
        When to decide.
    policy : str
    seed : int
        For the electrical parts of paths over circuits.

    Attributes
    ----------
    log : Lightlog
    """

    def __init__(
        self,
        *,
        network: OpticalNetwork,
        graph: TaskGraph,
        host: Int32,
        routes: Routes,
        decide: Decider,
        times_s: Float64 | None = None,
        period_s: float | None = None,
        policy: str = "fallback",
        seed: int = 0,
    ) -> None:
        if policy not in POLICIES:
            raise InputError("circuit policy", f"must be one of {', '.join(POLICIES)}", got=repr(policy))
        self._network, self._decide, self._policy, self._seed = network, decide, policy, seed
        self._lit = Lit(network)
        self.log = Lightlog()
        self._fabric = Fabric(network.electrical)
        home = switches_of_hosts(network.electrical)
        transfer = np.flatnonzero((graph.kind == TRANSFER) & (np.asarray(routes.of_task) >= 0))
        u, v = home[host[graph.rank[transfer]]], home[host[graph.peer[transfer]]]
        apart = u != v
        transfer, u, v = transfer[apart], u[apart], v[apart]
        # A row is what takes one electrical route, between one pair of ranks' hosts: the smallest thing that is moved together.
        ends = host[graph.rank[transfer]].astype(np.int64) * network.electrical.n_hosts + host[graph.peer[transfer]]
        key = np.stack([np.asarray(routes.of_task)[transfer].astype(np.int64), ends], 1)
        _, first, row = np.unique(key, axis=0, return_index=True, return_inverse=True)
        row = row.ravel()
        self._graph, self._routes = graph, routes
        self._task: Int64 = transfer
        self._row = row
        self._row_ptr, order = csr_order(row, first.size)
        self._row_task = transfer[order]
        self._u, self._v = u[first], v[first]
        self._source = host[graph.rank[transfer[first]]].astype(np.int64)
        self._destination = host[graph.peer[transfer[first]]].astype(np.int64)
        self._base = np.asarray(routes.of_task)[transfer[first]].astype(np.int64)
        # Which ports each transfer goes over, -1: electrical; and whether anything has been done yet.
        self._on = np.full(graph.n_tasks, -1, np.int64)
        self._begun = False
        self._row_of_task = np.full(graph.n_tasks, -1, np.int64)
        self._row_of_task[transfer] = row
        self._ready_s = np.inf
        self._coming: list[tuple[int, int, int]] = []
        self._held: list[tuple[int, int, int]] = []
        self._since: dict[tuple[int, int, int], float] = {}
        self._wanted: Circuits | None = None
        self._demand: SwitchDemand | None = None
        self._later: Iterator[tuple[float, Circuits]] = iter(())
        self._next: tuple[float, Circuits] | None = None
        self._clock = Control(
            act=self._act, times_s=() if times_s is None else times_s, period_s=period_s, idle_epochs=100_000
        )

    @property
    def control(self) -> Control:
        """For `Simulation.run`."""
        return self._clock

    def open_tasks(self, view: View) -> Int64:
        """Transfers between switches that have not drained."""
        found: Int64 = self._task[np.isnan(view.drain_s[self._task]) & np.isnan(view.failed_s[self._task])]
        return found

    def demand_of(self, task: Int64) -> SwitchDemand:
        """What tasks send between switches."""
        row = self._row_of_task[task]
        return SwitchDemand.of_pairs(self._fabric.n, self._u[row], self._v[row], self._graph.amount[task])

    @property
    def tasks(self) -> Int64:
        """All transfers between switches."""
        return self._task

    @property
    def network(self) -> OpticalNetwork:
        """The network with its hardware."""
        return self._network

    def _act(self, view: View) -> Actions | None:
        now = view.now_s
        dark: list[Int64] = []
        light: list[Int64] = []
        changed = False
        if not self._begun:
            self._begun = True
            dark.append(np.arange(self._network.first_link, self._network.topology.n_links))
        if now >= self._ready_s:
            light.append(self._light_up(now))
            changed = True
        if self._due(now):
            answer = self._decide(Window(now_s=now, view=view, control=self, standing=self._lit.circuits))
            if answer is not None:
                self._wanted, self._demand = answer[:2]
                self._later = iter(answer[2]) if len(answer) == 3 else iter(())
                self._next = next(self._later, None)
                changed = True
        while self._next is not None and self._next[0] <= now:
            self._wanted, changed = self._next[1], True
            self._next = next(self._later, None)
        ask: float | None = None
        if self._wanted is not None and self._ready_s == np.inf:
            gone, new = self._lit.difference(self._wanted)
            wait_s = self._draining(view, gone) if self._policy == "drain" and gone else 0.0
            if wait_s > 0:
                # Nothing new goes onto them (see _usable); look again when they should be empty.
                ask, changed = now + max(wait_s, 1e-12 * max(now, 1e-9)), True
            elif gone or new:
                self._begin(now, gone, new, dark)
                ask, changed = (self._ready_s if self._ready_s > now else None), True
                if self._ready_s <= now:
                    light.append(self._light_up(now))
        elif self._ready_s < np.inf:
            ask = self._ready_s
        if self._next is not None:
            ask = self._next[0] if ask is None else min(ask, self._next[0])
        if not changed and not dark:
            return None if ask is None else Actions(ask_s=ask)
        move, routes = self._divide(view)
        link = np.concatenate([*dark, *light, np.empty(0, np.int64)])
        rate = np.concatenate(
            [
                np.zeros(sum(x.size for x in dark)),
                np.full(sum(x.size for x in light), self._network.switches.capacity_bytes_per_s),
            ]
        )
        # A port that goes dark and up at the same moment ends up lit.
        _, last = np.unique(link[::-1], return_index=True)
        keep = np.sort(link.size - 1 - last)
        self.log.moved_transfers += move.size
        return Actions(
            set_link=link[keep], set_capacity_bytes_per_s=rate[keep], reroute_task=move, routes=routes, ask_s=ask
        )

    def _due(self, now: float) -> bool:
        period, times = self._clock.period_s, np.asarray(self._clock.times_s, dtype=np.float64)
        if period is not None:
            tick = round(now / period)
            return bool(tick * period == now)
        return bool((times == now).any())

    def _begin(
        self, now: float, gone: list[tuple[int, int, int]], new: list[tuple[int, int, int]], dark: list[Int64]
    ) -> None:
        if gone:
            dark.append(self._lit.links(gone))
        cores = {self._lit.standing[key][0] for key in gone}
        for key in gone:
            self._put_out(key, now)
        self._lit.tear_down(gone)
        refused = self._lit.set_up(new)
        self.log.refused += len(refused)
        self._coming = [key for key in new if key in self._lit.standing]
        # What found no ports is not wanted any more, or it would be tried for ever.
        self._wanted = self._lit.circuits
        cores |= {self._lit.standing[key][0] for key in self._coming}
        self._held = []
        if self._network.switches.all_stop:
            self._held = [
                key for key, at in self._lit.standing.items() if at[0] in cores and key not in set(self._coming)
            ]
            for key in self._held:
                self._put_out(key, now)
        if self._coming or self._held:
            dark.append(self._lit.links([*self._coming, *self._held]))
        # Cores change at the same time; the slowest sets the time.
        changes = len(gone) + len(self._coming)
        wait = self._network.switches.dark_s(changes, self.log.reconfigurations)
        self.log.reconfigurations += 1
        self.log.set_up += len(self._coming)
        self.log.torn_down += len(gone)
        self.log.dark_s += wait * (len(self._coming) + len(self._held))
        self.log.most = max(self.log.most, len(self._lit.standing))
        self._ready_s = now + wait if self._coming or self._held else np.inf

    def _light_up(self, now: float) -> Int64:
        """Everything that was waiting for its light is lit; returns the links."""
        ready = [*self._coming, *self._held]
        self._since |= dict.fromkeys(ready, now)
        self._coming, self._held, self._ready_s = [], [], np.inf
        return self._lit.links(ready)

    def _put_out(self, key: tuple[int, int, int], now: float) -> None:
        since = self._since.pop(key, None)
        if since is not None:
            self.log.lit_s += now - since

    def finish(self, now: float) -> None:
        """Close the log at the end of the run."""
        for key in list(self._since):
            self._put_out(key, now)

    def _draining(self, view: View, gone: list[tuple[int, int, int]]) -> float:
        """Seconds until what is under way on circuits that have to go has drained at present rates; 0 if nothing is."""
        present = view.transfers
        moving = np.isin(self._on[present.task], self._lit.codes(gone)) & (present.rate_bytes_per_s > 0)
        return float((present.remaining_bytes[moving] / present.rate_bytes_per_s[moving]).max(initial=0.0))

    def _usable(self) -> list[tuple[int, int, int]]:
        """Circuits that traffic may be sent over now."""
        usable = [key for key in self._lit.standing if key in self._since]
        if self._policy == "wait":
            usable = list(self._lit.standing)
        if self._policy == "drain" and self._wanted is not None:
            leaving = set(self._lit.difference(self._wanted)[0])
            usable = [key for key in usable if key not in leaving]
        return usable

    def _divide(self, view: View) -> tuple[Int64, Routes | None]:
        """Which transfers move, and where to: rows of the traffic over circuits, as many bytes as keep the fullest link lowest."""
        is_open = np.isnan(view.drain_s) & np.isnan(view.failed_s)
        left = np.where(is_open[self._row_task], self._graph.amount[self._row_task], 0.0)
        present = view.transfers
        rest = np.bincount(
            np.repeat(np.arange(self._base.size), np.diff(self._row_ptr)), weights=left, minlength=self._base.size
        )
        usable = self._usable()
        a, b, _, _ = self._lit.arcs(usable)
        on = np.full(self._base.size, -1, np.int64)
        if a.size:
            demand = self._demand or SwitchDemand.of_pairs(self._fabric.n, self._u, self._v, rest)
            lit = Fabric(
                with_circuits(
                    self._network.electrical,
                    Circuits(a=a, b=b, directed=True),
                    capacity=self._network.switches.capacity_bytes_per_s,
                    latency=0.0,
                )
            )
            share = spill_shares(lit, demand)
            arc = assigned(lit, self._u, self._v, np.maximum(rest, 1e-300), share)
            good = arc >= 0
            on[good] = self._lit.codes(usable)[arc[good]]
        want = on[self._row]
        moving = is_open[self._task] & (want != self._on[self._task])
        if self._policy == "drain" and self._wanted is not None:
            # What is under way on a circuit that has to go stays there.
            under_way = np.zeros(self._graph.n_tasks, dtype=bool)
            under_way[present.task] = True
            leaving = np.isin(self._on[self._task], self._lit.codes(self._lit.difference(self._wanted)[0]))
            moving &= ~(leaving & under_way[self._task])
        if not moving.any():
            return np.empty(0, np.int64), None
        task, rows = self._task[moving], self._row[moving]
        rows, of_task = np.unique(rows, return_inverse=True)
        self._on[task] = on[rows][of_task]
        return task, self._paths_of(rows, of_task, on[rows])

    def _paths_of(self, rows: Int64, of_task: Int64, on: Int64) -> Routes:
        net = self._network
        optical = np.flatnonzero(on >= 0)
        links: list[Int64] = [np.empty(0, np.int64)] * rows.size
        base = csr_gather(self._routes.ptr, self._base[rows])
        base_link = np.asarray(self._routes.link)[base[1]].astype(np.int64)
        if optical.size:
            out, into = on[optical] // net.n_ports, on[optical] % net.n_ports
            x = net.topology.link_src[net.out_link(out)].astype(np.int64)
            y = net.topology.link_dst[net.in_link(into)].astype(np.int64)
            head = net.walks(self._source[rows[optical]], x, seed=self._seed)
            tail = net.walks(y, self._destination[rows[optical]], seed=self._seed)
            for i, row in enumerate(optical.tolist()):
                middle = np.array([net.out_link(out[i]), net.in_link(into[i])])
                links[row] = np.concatenate([head[i].astype(np.int64), middle, tail[i].astype(np.int64)])
        for row in np.flatnonzero(on < 0).tolist():
            links[row] = base_link[base[0][row] : base[0][row + 1]]
        ptr = csr_ptr([x.size for x in links])
        link = np.concatenate([*links, np.empty(0, np.int64)]).astype(np.int32)
        paths = Paths(ptr=frozen(ptr, np.int64), link=frozen(link, np.int32))
        latency = path_latency(net.topology, paths)
        electrical = np.flatnonzero(on < 0)
        latency = np.array(latency)
        latency[electrical] = np.asarray(self._routes.latency_s)[self._base[rows[electrical]]]
        return Routes(of_task=of_task.astype(np.int32), ptr=paths.ptr, link=paths.link, latency_s=latency)
