"""Circuits during a run, by hand: make before break, break before make, drain, all stop, several ports; plans that cannot be."""

import numpy as np
import pytest

from netsim.core.errors import InputError
from netsim.engine import Routes, Simulation
from netsim.optics import Circuits, circuit_plan, circuit_switches, rotor
from netsim.optics.control import CircuitControl
from netsim.optics.fabric import optical_network
from netsim.routing import path_latency, paths
from netsim.topologies import Topology, full_mesh
from netsim.traffic.taskgraph import GraphBuilder


def network(n_hosts, n_switches, cables, at, capacity):
    """Hosts at given switches over endless links; cables of one capacity between switches."""
    rows = [(h, n_hosts + s, np.inf) for h, s in enumerate(at)]
    rows += [(n_hosts + a, n_hosts + b, capacity) for a, b in cables]
    both = [r for a, b, c in rows for r in ((a, b, c), (b, a, c))]
    source, destination, rate = zip(*both, strict=True)
    return Topology.from_links(
        n_hosts=n_hosts, n_switches=n_switches, source=source, destination=destination, capacity=rate, latency=0.0
    )


def run(net, flows, slots, policy="fallback", **hardware):
    """Finish times and the log: flows are (source host, destination host, bytes, start)."""
    switches = circuit_switches(net, **{"ports": 1, "capacity": 4000.0, "latency": 0.0, **hardware})
    plan = circuit_plan(net, switches, slots)
    lit = optical_network(net, switches)
    build = GraphBuilder(n_ranks=net.n_hosts)
    tasks = []
    for source, destination, size, start in flows:
        send = build.transfer(source=source, destination=destination, size_bytes=size)
        if start:
            build.edge(build.delay(rank=source, seconds=start), send)
        tasks.append(send)
    graph = build.graph()
    found = paths(net, [f[0] for f in flows], [f[1] for f in flows])
    of_task = np.full(graph.n_tasks, -1, np.int32)
    of_task[tasks] = np.arange(len(tasks))
    routes = Routes(of_task=of_task, ptr=found.ptr, link=found.link, latency_s=path_latency(net, found))
    control = CircuitControl(
        network=lit, graph=graph, host=np.arange(net.n_hosts, dtype=np.int32), routes=routes, policy=policy,
        decide=lambda window: (plan.at(window.now_s), None), times_s=plan.start_s,
    )  # fmt: skip
    result = Simulation(
        graph=graph, routes=routes, capacity_bytes_per_s=lit.topology.link_capacity_bytes_per_s, certify=True
    ).run(controller=control.control)
    assert result.status == "finished"
    control.finish(result.now_s)
    assert result.link_bytes[: net.n_links][net.link_src < net.n_hosts].sum() == pytest.approx(sum(f[2] for f in flows))
    return result.end_s[tasks], control.log


# Two flows share the link 0 -> 1 of 1000 B/us: one from switch 0, one from switch 2 behind it, which no circuit 0-1 helps.
SHARED = network(4, 3, [(0, 1), (2, 0)], at=[0, 1, 2, 1], capacity=1000.0)
FLOWS = [(0, 1, 50_000.0, 0.0), (2, 3, 50_000.0, 0.0)]
SLOT = [(10.0, Circuits.of([(0, 1)]))]


def test_make_before_break():
    """At 30 the first flow has 35 kB left and goes on alone at 4000: 38.75; the other has the link for itself: 65."""
    finish, log = run(SHARED, FLOWS, SLOT, delay=20.0)
    assert finish == pytest.approx([38.75, 65.0])
    assert (log.set_up, log.torn_down, log.dark_s) == (1, 0, 20.0)
    assert log.lit_s == pytest.approx(65.0 - 30.0)


def test_break_before_make():
    """Dark from 10 to 30: 45 kB left at 4000: 41.25; the other alone from 10: 55."""
    finish, _ = run(SHARED, FLOWS, SLOT, policy="wait", delay=20.0)
    assert finish == pytest.approx([41.25, 55.0])


def test_no_delay():
    """At once, at 10: 45 kB at 4000, 45 kB at 1000."""
    for policy in ("fallback", "wait", "drain"):
        finish, _ = run(SHARED, FLOWS, SLOT, policy=policy, delay=0.0)
        assert finish == pytest.approx([10 + 45 / 4, 55.0])


def test_guard_time_and_changes_count_as_delay():
    finish, _ = run(SHARED, FLOWS, SLOT, delay=12.0, delay_per_change=5.0, guard=3.0)
    assert finish == pytest.approx([38.75, 65.0])


def test_more_is_never_sent_than_the_ports_carry():
    """Two circuits side by side: two flows of one pair each get one."""
    net = network(4, 2, [(0, 1)], at=[0, 1, 0, 1], capacity=1.0)
    flows = [(0, 1, 40_000.0, 0.0), (2, 3, 40_000.0, 0.0)]
    one, _ = run(net, flows, [(0.0, Circuits.of([(0, 1)]))], delay=0.0)
    two, _ = run(net, flows, [(0.0, Circuits.of([(0, 1), (0, 1)]))], delay=0.0, ports=2)
    assert one == pytest.approx([20.0, 20.0])
    assert two == pytest.approx([10.0, 10.0])
    cores, _ = run(net, flows, [(0.0, Circuits.of([(0, 1), (0, 1)]))], delay=0.0, cores=2)
    assert cores == pytest.approx([10.0, 10.0])


# Three pairs of switches, each with a flow, electrical links of 1 B/us: in the dark next to nothing moves.
PAIRS = network(6, 6, [(0, 1), (2, 3), (4, 5), (1, 2), (3, 4)], at=[0, 1, 2, 3, 4, 5], capacity=1e-9)


def test_only_what_changes_goes_dark_unless_all_stop():
    """Circuits a (100 bytes) and b (50) at 10 B/s; at 5 b gives way to c (40), delay 2. Not all stop: 10, 5, 11; all stop: 12, 5, 11."""
    flows = [(0, 1, 100.0, 0.0), (2, 3, 50.0, 0.0), (4, 5, 40.0, 0.0)]
    slots = [(0.0, Circuits.of([(0, 1), (2, 3)])), (5.0, Circuits.of([(0, 1), (4, 5)]))]
    setting = {"capacity": 10.0, "policy": "wait"}

    def finish(**more):
        # The first setting up takes no time in the case: begin a delay earlier by starting the flows a delay later.
        late = [(s, d, size, 2.0) for s, d, size, _ in flows]
        return run(PAIRS, late, [(0.0, slots[0][1]), (7.0, slots[1][1])], delay=2.0, **setting, **more)[0] - 2.0

    assert finish() == pytest.approx([10.0, 5.0, 7.0 + 4.0], rel=1e-6)
    assert finish(all_stop=True) == pytest.approx([12.0, 5.0, 11.0], rel=1e-6)


def test_drain_waits_for_what_is_under_way():
    """b is to give way at 2 with 30 of 50 bytes left: torn down at 5, c lit at 7, done at 11."""
    flows = [(2, 3, 50.0, 0.0), (4, 5, 40.0, 0.0)]
    slots = [(0.0, Circuits.of([(2, 3)])), (2.0, Circuits.of([(4, 5)]))]
    # Both flows start once the first circuit is lit, at 2.
    late = [(s, d, size, 2.0) for s, d, size, _ in flows]
    finish, log = run(PAIRS, late, [(0.0, slots[0][1]), (4.0, slots[1][1])], policy="drain", capacity=10.0, delay=2.0)
    assert finish - 2.0 == pytest.approx([5.0, 11.0], rel=1e-6)
    assert (log.set_up, log.torn_down) == (2, 1)
    # Fallback would have sent the rest of b over the electrical link: a billion times slower here.
    wait, _ = run(PAIRS, late[1:], [(0.0, slots[0][1]), (4.0, slots[1][1])], policy="wait", capacity=10.0, delay=2.0)
    assert wait[0] - 2.0 == pytest.approx(8.0, rel=1e-6)


def test_slow_switching_closed_form():
    """L bytes of many small flows over c_e, and over c_o too from delta on: done at T* = (L + c_o delta) / (c_e + c_o)."""
    n, size, delta, c_o = 400, 2.5, 10.0, 25.0
    # One row per pair of hosts: let the flows have hosts of their own.
    wide = network(2 * n, 2, [(0, 1)], at=[0] * n + [1] * n, capacity=12.5)
    finish, _ = run(
        wide, [(i, n + i, size, 0.0) for i in range(n)], [(0.0, Circuits.of([(0, 1)]))], delay=delta, capacity=c_o
    )
    total = n * size
    best = (total + c_o * delta) / (12.5 + c_o)
    assert best <= finish.max() * (1 + 1e-9)
    # Without circuits 80; what is moved at once cannot be divided perfectly (whole flows), hence a little above.
    assert finish.max() == pytest.approx(best, rel=0.12)


def test_rotor_gives_every_pair_its_turn():
    """Each ordered pair of n switches has a circuit in one of n - 1 slots, one port each."""
    net = full_mesh(5, hosts=0)
    plan = rotor(net, circuit_switches(net, ports=1, directed=True, delay="1ms"), slot_s=0.01, until_s=0.04)
    seen = [pair for circuits in plan.circuits for pair in circuits.pairs()]
    assert sorted(seen) == [(a, b) for a in range(5) for b in range(5) if a != b]


def test_rotor_duty():
    """All pairs send; direct circuits only (no electrical links to speak of): the mean rate is capacity x duty / (n - 1)."""
    n = 4
    net = network(n, n, [(i, (i + 1) % n) for i in range(n)], at=range(n), capacity=1e-9)
    switches = circuit_switches(net, ports=1, capacity=100.0, latency=0.0, delay=1.0, directed=True)
    slot, rounds = 5.0, 6
    plan = rotor(net, switches, slot_s=slot, until_s=slot * (n - 1) * rounds)
    size = 100.0 * (slot - 1.0) * rounds
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    finish, log = run(
        net, [(a, b, size, 0.0) for a, b in pairs], list(zip(plan.start_s.tolist(), plan.circuits, strict=True)),
        policy="wait", capacity=100.0, delay=1.0, directed=True,
    )  # fmt: skip
    # The pair whose turn comes last in a round is done exactly at the end, the others a slot or two before.
    assert finish.max() == pytest.approx(slot * (n - 1) * rounds, rel=1e-6)
    assert sorted({round(f / slot) for f in finish}) == [16, 17, 18]
    assert log.dark_s == pytest.approx(n * (n - 1) * rounds * 1.0)


BAD = [
    (
        [(0.0, Circuits.of([(0, 1), (1, 2)]))],
        {},
        "slot 0, circuit 1 (1, 2): needs a free optical port at switch 1, which has 1, got all in use, "
        "the last by slot 0, circuit 0 (0, 1); leave one of them out or give more ports",
    ),
    ([(0.0, Circuits.of([(0, 9)]))], {}, "circuit 0: must join two of the 4 switches, got 0 and 9"),
    ([(0.0, Circuits.of([])), (0.0, Circuits.of([]))], {}, "slot 1: must start after slot 0, at 0 s, got 0 s"),
    ([(-1.0, Circuits.of([]))], {}, "circuit plan: slots must start at finite times of 0 or more seconds, got [-1.0]"),
    (
        [(0.0, Circuits.of([(0, 1)])), (0.01, Circuits.of([(0, 2)]))],
        {"guard": "20ms", "delay": 0.0},
        "slot 0: must be longer than a reconfiguration with its guard time, at least 20 ms, got 10 ms, from 0 s to 10 ms; "
        "make slots longer, or delay and guard time shorter",
    ),
    (
        [(0.0, Circuits.of([(0, 1)], directed=True))],
        {},
        "slot 0, circuit: must be both ways, as the optical switches are, got <Circuits: 0->1>",
    ),
    (
        [(0.0, Circuits.of([(0, 1)]))],
        {"ports": [0, 1, 1, 1]},
        "slot 0, circuit 0 (0, 1): switch 0 must have optical ports, got none",
    ),
]


@pytest.mark.parametrize(("slots", "hardware", "message"), BAD)
def test_plans_that_cannot_be(slots, hardware, message):
    net = full_mesh(4, hosts=0)
    with pytest.raises(InputError) as error:
        circuit_plan(net, circuit_switches(net, **{"ports": 1, **hardware}), slots)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("hardware", "message"),
    [
        ({"delay": -1.0}, "reconfiguration delay: must be finite and 0 or more seconds, got -1.0"),
        ({"capacity": 0.0}, "circuit capacity: must be finite and above 0 bytes per second, got 0.0"),
        ({"cores": 0}, "optical cores: must be a whole number, 1 or more, got 0"),
        ({"spread": "normal"}, "delay spread: must be one of none, uniform, exponential, lognormal, got 'normal'"),
        ({"ports": 0.5}, "ports: must be whole numbers, got 0.5"),
    ],
)
def test_hardware_that_cannot_be(hardware, message):
    with pytest.raises(InputError) as error:
        circuit_switches(full_mesh(4, hosts=0), **hardware)
    assert str(error.value) == message


def test_delays_that_vary_have_their_mean_and_their_seed():
    net = full_mesh(4, hosts=0)
    for spread in ("uniform", "exponential", "lognormal"):
        draws = [circuit_switches(net, delay=1.0, spread=spread, seed=1).dark_s(1, i) for i in range(2000)]
        assert np.mean(draws) == pytest.approx(1.0, abs=0.08)
        assert draws[:3] == [circuit_switches(net, delay=1.0, spread=spread, seed=1).dark_s(1, i) for i in range(3)]
        assert draws[0] != circuit_switches(net, delay=1.0, spread=spread, seed=2).dark_s(1, 0)
