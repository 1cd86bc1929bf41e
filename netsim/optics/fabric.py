"""The network with its optical hardware as the engine sees it: one vertex per optical core, one link per port and direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.optics.circuits import OPTICAL, Circuits, electrical
from netsim.optics.hardware import CircuitSwitches
from netsim.routing import Paths, shortest_walks
from netsim.topologies import Topology
from netsim.topologies.changes import as_graph, more_links

__all__ = ["Lit", "OpticalNetwork", "optical_network"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OpticalNetwork:
    """A network and the ports of its optical switches as links. A circuit from x to y is the path out of a port of x and into one of y.

    Since a port belongs to one circuit at a time, the links of the two ports carry nothing else: the circuit has their capacity.

    Attributes
    ----------
    switches : CircuitSwitches
    electrical : Topology
        Without the hardware.
    topology : Topology
        With it: a switch for each core after all others, links of the layer ``optical`` after all others. Their latency is that of a
        circuit on the way out, and 0 on the way in.
    port_ptr : int64 array, shape (n_switches + 1,)
        Ports by switch, for one core; core ``c`` adds ``c x port_ptr[-1]``.
    first_link : int
        Port ``p`` sends over link ``first_link + 2 p`` and receives over the next.
    """

    switches: CircuitSwitches
    electrical: Topology
    topology: Topology
    port_ptr: Int64
    first_link: int

    @property
    def n_ports(self) -> int:
        """Optical ports of all cores."""
        return int(self.port_ptr[-1]) * self.switches.cores

    def out_link(self, port: npt.ArrayLike) -> Int64:
        """Link over which a port sends."""
        return self.first_link + 2 * np.asarray(port, dtype=np.int64)

    def in_link(self, port: npt.ArrayLike) -> Int64:
        """Link over which a port receives."""
        return self.out_link(port) + 1

    def walks(self, source: npt.ArrayLike, destination: npt.ArrayLike, *, seed: int) -> Paths:
        """Shortest electrical paths between vertices, one of the shortest next links by a hash at each switch."""
        return shortest_walks(self.topology, source, destination, ~electrical(self.topology), seed=seed)


def optical_network(topology: Topology, switches: CircuitSwitches) -> OpticalNetwork:
    """Put optical hardware beside a network.

    Parameters
    ----------
    topology : Topology
        Without circuits.
    switches : CircuitSwitches

    Examples
    --------
    >>> from netsim.topologies import full_mesh
    >>> from netsim.optics import circuit_switches
    >>> net = full_mesh(4, hosts=2)
    >>> optical_network(net, circuit_switches(net, ports=2)).topology
    <Topology graph: 8 hosts, 5 switches, 44 directed links>
    """
    if OPTICAL in topology.layer_names:
        raise InputError("topology", "must not have circuits of its own", got=f"a layer {OPTICAL!r}")
    if switches.ports.shape != (topology.n_switches,):
        raise InputError(
            "optical switches",
            f"must be made for the {topology.n_switches} switches of the topology",
            got=switches.ports.size,
        )
    port_ptr = csr_ptr(switches.ports)
    owner = np.tile(np.repeat(np.arange(topology.n_switches), switches.ports), switches.cores) + topology.n_hosts
    core = topology.n_vertices + np.repeat(np.arange(switches.cores), int(port_ptr[-1]))
    latency = np.zeros(2 * owner.size)
    latency[0::2] = switches.latency_s
    # What is derived from the structure of the family does not know the cores.
    plain = more_links(
        as_graph(topology),
        np.stack([owner, core], 1).ravel(),
        np.stack([core, owner], 1).ravel(),
        capacity_bytes_per_s=switches.capacity_bytes_per_s,
        latency_s=latency,
        layer=OPTICAL,
    )
    with_cores = replace(
        plain,
        n_switches=topology.n_switches + switches.cores,
        vertex_names=(*(plain.vertex_names or ()), *(f"optical core {c}" for c in range(switches.cores))),
    )
    return OpticalNetwork(
        switches=switches,
        electrical=topology,
        topology=with_cores,
        port_ptr=frozen(port_ptr, np.int64),
        first_link=topology.n_links,
    )


class Lit:
    """Which circuits stand, on which ports: the state of the hardware during a run."""

    def __init__(self, network: OpticalNetwork) -> None:
        self._network = network
        ports = network.switches.ports
        self._free: list[dict[int, list[int]]] = []
        self._free_in: list[dict[int, list[int]]] = []
        for core in range(network.switches.cores):
            base = core * int(network.port_ptr[-1])
            free = {
                s: [base + int(p) for p in range(int(network.port_ptr[s + 1]) - 1, int(network.port_ptr[s]) - 1, -1)]
                for s in np.flatnonzero(ports).tolist()
            }
            self._free.append(free)
            self._free_in.append({s: list(p) for s, p in free.items()} if network.switches.directed else free)
        # (a, b, number among those of one pair) -> (core, port at a, port at b)
        self.standing: dict[tuple[int, int, int], tuple[int, int, int]] = {}

    @property
    def circuits(self) -> Circuits:
        """What stands, lit or being set up."""
        return Circuits.of([key[:2] for key in self.standing], directed=self._network.switches.directed)

    def codes(self, keys: list[tuple[int, int, int]]) -> Int64:
        """One number for the ports of each direction of standing circuits: port out x n_ports + port in."""
        _, _, out, into = self.arcs(keys)
        return out * self._network.n_ports + into

    def keys(self, circuits: Circuits) -> list[tuple[int, int, int]]:
        """Names of circuits that stay the same from one set to the next."""
        seen: dict[tuple[int, int], int] = {}
        found = []
        for a, b in circuits.pairs():
            pair = (a, b) if self._network.switches.directed or a < b else (b, a)
            found.append((*pair, seen.get(pair, 0)))
            seen[pair] = seen.get(pair, 0) + 1
        return found

    def difference(self, circuits: Circuits) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """What would have to be torn down and set up."""
        wanted = self.keys(circuits)
        have = set(wanted)
        return [key for key in self.standing if key not in have], [key for key in wanted if key not in self.standing]

    def tear_down(self, keys: list[tuple[int, int, int]]) -> None:
        """Free the ports."""
        for a, b, i in keys:
            core, p, q = self.standing.pop((a, b, i))
            self._free[core][a].append(p)
            self._free_in[core][b].append(q)

    def set_up(self, keys: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Take ports; returns those for which there were none on one core (with several cores what stands can be in the way)."""
        left = []
        for a, b, i in keys:
            for core in range(len(self._free)):
                if self._free[core].get(a) and self._free_in[core].get(b):
                    p, q = self._free[core][a].pop(), self._free_in[core][b].pop()
                    self.standing[(a, b, i)] = (core, p, q)
                    break
            else:
                left.append((a, b, i))
        return left

    def links(self, keys: list[tuple[int, int, int]]) -> Int64:
        """Links of the ports of standing circuits."""
        _, _, out, into = self.arcs(keys)
        return np.stack([self._network.out_link(out), self._network.in_link(into)], 1).ravel()

    def arcs(self, keys: list[tuple[int, int, int]]) -> tuple[Int64, Int64, Int64, Int64]:
        """From, to, port out and port in of each direction of standing circuits."""
        rows = []
        for key in keys:
            a, b, _ = key
            _, p, q = self.standing[key]
            rows.append((a, b, p, q))
            if not self._network.switches.directed:
                rows.append((b, a, q, p))
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
