"""Selectors that change circuits within a window, and the controller that follows them; TopoOpt's alternation."""

import json

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim as ns
from netsim.cli.main import cli
from netsim.core.errors import InputError
from netsim.engine import Routes, Simulation
from netsim.optics import Circuits, circuit_switches, efi_index, link_load, ring_strides, select
from netsim.optics.control import CircuitControl
from netsim.optics.fabric import optical_network
from netsim.optics.schedules import solstice, stuffing
from netsim.routing import path_latency, paths
from netsim.study.optics import compare_optics
from netsim.topologies import from_networkx, torus
from netsim.traces import write_trace
from netsim.traffic.taskgraph import GraphBuilder

SLOTTED = ("bvn", "solstice", "eclipse")


def ring(n, capacity):
    return from_networkx(nx.cycle_graph(n), capacity=capacity, latency=0.0)


def whole(rng, n, density=0.6):
    demand = np.floor(rng.pareto(1.0, (n, n)) * 20) * (rng.random((n, n)) < density)
    np.fill_diagonal(demand, 0)
    return demand


def carried(found, demand, directed, delay):
    """What the slots can carry of a demand, worked out pair by pair; with circuits both ways of each direction."""
    left = demand.copy()
    for length, circuits in found.slots:
        room = np.zeros_like(left)
        for a, b in circuits.pairs():
            room[a, b] += length - delay
            if not directed:
                room[b, a] += length - delay
        left = np.maximum(left - room, 0)
    return left


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), directed=st.booleans(), ports=st.integers(1, 3))
@pytest.mark.parametrize("method", SLOTTED)
def test_slots_carry_all_where_electrical_links_carry_nothing(method, seed, directed, ports):
    """Ports of every slot, all bytes; for one port the time: fullest line and a delay for each slot, both ways at most half more."""
    demand = whole(np.random.default_rng(seed), 6)
    if not demand.any():
        return
    net, delay = ring(6, 1e-6), 0.25
    found = select(
        net, demand, method=method, ports=ports, directed=directed, capacity=1.0, delay_s=delay, window_s=np.inf
    )
    for length, circuits in found.slots:
        circuits.check(net, ports)
        assert length > delay
        assert len(circuits) > 0
    assert found.circuits.pairs() == found.slots[0][1].pairs()
    left = carried(found, demand, directed, delay)
    assert left.max() <= 1e-9 * demand.max()
    time = sum(length for length, _ in found.slots)
    assert found.slots_s == pytest.approx(time)
    assert found.slots_s < found.before.max_s
    both = demand if directed else np.maximum(demand, demand.T)
    fullest = max(both.sum(axis=0).max(), both.sum(axis=1).max())
    assert time >= fullest / ports
    if ports == 1 and method != "eclipse":
        # Slots without anything to send (stuffing) are left out, and with them their time.
        lit = time - len(found.slots) * delay
        assert lit <= (1.0 if directed else 1.5) * fullest * (1 + 1e-9)


def test_directed_slots_are_those_of_the_decomposition():
    rng = np.random.default_rng(1)
    # All entries above 0, so that no slot is of stuffing alone.
    demand = np.floor(rng.random((5, 5)) * 30) + 5
    np.fill_diagonal(demand, 0)
    found = select(ring(5, 1e-9), demand, method="solstice", ports=1, directed=True, capacity=1.0, delay_s=0.5)
    slots = solstice(demand)
    real = [sorted((a, int(b)) for a, b in enumerate(row) if a != b) for row in slots.to]
    assert {pair for _, c in found.slots for pair in c.pairs()} == {pair for row in real for pair in row}
    assert sum(t for t, _ in found.slots) <= slots.completion_s(capacity_bytes_per_s=1.0, delay_s=0.5) * (1 + 1e-12)
    assert stuffing(demand).sum(axis=1).max() == slots.length_bytes.sum()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), speed=st.sampled_from([0.2, 1.0, 5.0]), delay=st.sampled_from([0.1, 3.0]))
def test_the_number_of_slots_is_the_best(seed, speed, delay):
    """Every number of slots tried: slots beside electrical links with the rest."""
    demand = whole(np.random.default_rng(seed), 6)
    net = ring(6, speed)
    found = select(net, demand, method="bvn", ports=1, directed=True, capacity=1.0, delay_s=delay)
    every = select(ring(6, speed * 1e-9), demand, method="bvn", ports=1, directed=True, capacity=1.0, delay_s=delay)

    def electrical_s(rest):
        return efi_index(net, link_load(net, rest, routing="electrical")).max_s

    best, left, end = electrical_s(demand), demand.copy(), 0.0
    for length, circuits in every.slots:
        end += length
        for a, b in circuits.pairs():
            left[a, b] = max(left[a, b] - (length - delay), 0)
        best = min(best, max(end, electrical_s(left)))
    assert (found.slots_s if found.slots else electrical_s(demand)) == pytest.approx(best)
    assert [c.pairs() for _, c in found.slots] == [c.pairs() for _, c in every.slots][: len(found.slots)]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("method", SLOTTED)
def test_slots_end_with_the_window(method, directed):
    demand = whole(np.random.default_rng(3), 6)
    for window in (0.6, 3.0, 20.0):
        found = select(
            ring(6, 1e-6), demand, method=method, ports=1, directed=directed, capacity=1.0, delay_s=0.5, window_s=window
        )
        if not found.slots:
            # So short a window may not relieve the fullest link: dark is as good.
            assert window < 20
            continue
        assert sum(t for t, _ in found.slots) <= window * (1 + 1e-12)
        assert all(t > 0.5 for t, _ in found.slots)
        # No more than that is left over, where electrical links carry nothing.
        left = efi_index(ring(6, 1e-6), link_load(ring(6, 1e-6), carried(found, demand, directed, 0.5))).max_s
        assert found.slots_s == pytest.approx(max(left, sum(t for t, _ in found.slots)), rel=1e-6)


def test_most_and_candidates():
    demand = whole(np.random.default_rng(4), 6, 1.0)
    some = [(0, 1), (1, 0), (2, 3), (4, 5)]
    for method in (*SLOTTED, "topoopt"):
        found = select(
            ring(6, 1e-6), demand, method=method, ports=2, directed=True, capacity=1.0, candidates=some, most=2
        )
        slots = [c for _, c in found.slots] or [found.circuits]
        assert all(len(c) <= 2 and set(c.pairs()) <= set(some) for c in slots)
        assert any(len(c) for c in slots)


def test_windows_must_outlast_the_delay():
    with pytest.raises(InputError, match="window: must be longer than a finite delay of 0 or more, 1 s, got 500 ms"):
        select(ring(6, 1.0), np.ones((6, 6)), method="bvn", ports=1, delay_s=1.0, window_s=0.5)


def test_the_controller_follows_the_slots():
    """Three switches, two permutations of 4 and 1 bytes: set up for 0.5, 4 s, set up for 0.5, 1 s; ends at 4.5 and 6."""
    demand = np.array([[0, 4, 1], [1, 0, 4], [4, 1, 0]], dtype=float)
    net = torus((3,), hosts=1, capacity=1e-9)
    found = select(net, demand, method="bvn", ports=1, directed=True, capacity=1.0, delay_s=0.5)
    assert sorted(t for t, _ in found.slots) == [1.5, 4.5]
    # The longer one first, whichever comes first in the decomposition.
    (first_s, first), (_, second) = sorted(found.slots, key=lambda slot: -slot[0])
    switches = circuit_switches(net, ports=1, capacity=1.0, latency=0.0, delay=0.5, directed=True)
    lit = optical_network(net, switches)
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    build = GraphBuilder(n_ranks=3)
    for a, b in pairs:
        build.transfer(source=a, destination=b, size_bytes=int(demand[a, b]))
    graph = build.graph()
    way = paths(net, [a for a, _ in pairs], [b for _, b in pairs])
    routes = Routes(of_task=np.arange(6, dtype=np.int32), ptr=way.ptr, link=way.link, latency_s=path_latency(net, way))
    capacity = np.array(lit.topology.link_capacity_bytes_per_s)
    host = (lit.topology.link_src < 3) | (lit.topology.link_dst < 3)
    capacity[host] = np.inf
    control = CircuitControl(
        network=lit, graph=graph, host=np.arange(3, dtype=np.int32), routes=routes, policy="wait",
        decide=lambda window: (first, None, iter([(first_s, second)])), times_s=np.zeros(1),
    )  # fmt: skip
    result = Simulation(graph=graph, routes=routes, capacity_bytes_per_s=capacity, certify=True).run(
        controller=control.control
    )
    control.finish(result.now_s)
    ends = dict(zip(pairs, result.end_s.tolist(), strict=True))
    for (a, b), end in ends.items():
        assert end == pytest.approx(4.5 if demand[a, b] == 4 else 6.0, rel=1e-6)
    assert (control.log.reconfigurations, control.log.set_up, control.log.torn_down) == (2, 6, 3)


def test_slots_are_repeated_until_the_next_decision():
    """A run of two phases: what the second sends is known, its moment is not; the slots come again."""
    rows = [
        {"rank": r, "op": "send" if r == 0 else "recv", "peer": 1 - r, "bytes": 40_000}
        for _ in range(40)
        for r in (0, 1)
    ]
    trace = ns.Trace.from_rows(n_ranks=4, rows=rows)
    result = ns.replay(
        trace, topology=torus((4,), hosts=1, capacity=1e8),
        optics="solstice:ports=1,capacity=1GB/s,delay=1us,window=1ms,hysteresis=no",
    )  # fmt: skip
    assert result.status == "finished"
    assert result.summary["optics"]["optical_bytes"] > 0


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    rng = np.random.default_rng(8)
    rows = [
        {"rank": r, "op": "alltoall", "bytes": int(size)} for size in rng.integers(10**4, 10**6, 3) for r in range(8)
    ]
    path = tmp_path_factory.mktemp("slotted") / "run.parquet"
    write_trace(ns.Trace.from_rows(n_ranks=8, rows=rows), path)
    return str(path)


@pytest.mark.parametrize("method", [*SLOTTED, "topoopt"])
def test_by_name_from_the_command_line(method, trace_file):
    spec = f"{method}:ports=2,delay=10us,capacity=100Gbps"
    network = ["--topo", "torus", "-p", "dims=8", "-p", "hosts=1"]

    def run(*words):
        found = CliRunner().invoke(cli, list(words), catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.output

    planned = json.loads(run("optics", "plan", trace_file, *network, "--optics", spec, "--json"))
    assert planned["circuits"]
    assert bool(planned["slots"]) == (method in SLOTTED)
    assert f"{method}: " in run("optics", "plan", trace_file, *network, "--optics", spec)
    text = run("replay", trace_file, *network, "--gaps", "none", "--optics", spec)
    assert f"{method} (sum)" in text


def test_as_arms(trace_file):
    """Any selector is an arm; all send the same bytes."""
    rows, results = compare_optics(
        trace_file, topology=torus((8,), hosts=1), optics="eefi:ports=2,delay=10us", gaps="none",
        arms=["electrical", "bvn", "solstice", "eclipse", "topoopt", "oracle"],
    )  # fmt: skip
    assert [row.what for row in rows][1] == "bvn circuits, always lit"
    assert all(row.circuits > 0 for row in rows[1:-1])
    assert all(result.status == "finished" for result in results)
    with pytest.raises(InputError, match="arm: unknown name, got 'bwn'; did you mean 'bvn'"):
        compare_optics(trace_file, topology=torus((8,), hosts=1), arms=["bwn"])


# -- TopoOpt -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 7, 12, 16])
def test_strides_are_rings(n):
    for stride in ring_strides(n):
        seen = {(stride * i) % n for i in range(n)}
        assert len(seen) == n
    assert ring_strides(12) == [1, 5, 7, 11]


def test_topoopt_ends_no_worse_than_it_begins(record_property):
    """Below the matching of bytes that it begins with, never above electrical only, above the best there is; and it does move."""
    rng = np.random.default_rng(5)
    moved, over = 0, []
    for _ in range(12):
        demand = whole(rng, 6, 0.7)
        net = ring(6, 1.0)
        found = select(net, demand, method="topoopt", ports=1, most=2, capacity=1.0)
        best = select(net, demand, method="exhaustive", ports=1, most=2, capacity=1.0, objective="max")
        assert best.after.max_s <= found.after.max_s * (1 + 1e-9)
        assert found.after.max_s <= found.before.max_s
        if found.notes:
            moved += " 0 rounds" not in found.notes[0]
        over.append(found.after.max_s / best.after.max_s)
    record_property("topoopt_over_best", f"mean {np.mean(over):.3f}, most {max(over):.3f}")
    assert moved > 0
    assert np.mean(over) <= 1.25


def test_topoopt_lights_rings_for_rings():
    """Neighbours in the order of ranks, on a network where they are far apart: one ring, every pair of it direct."""
    order = np.random.default_rng(2).permutation(9)
    net = from_networkx(nx.relabel_nodes(nx.cycle_graph(9), dict(enumerate(order.tolist()))), capacity=1.0, latency=0.0)
    demand = np.zeros((9, 9))
    demand[np.arange(9), (np.arange(9) + 1) % 9] = 10.0
    found = select(net, demand, method="topoopt", ports=1, directed=True, capacity=100.0)
    assert sorted(found.circuits.pairs()) == [(i, (i + 1) % 9) for i in range(9)]
    # Ring links alone need 10 s and more, circuits 0.1 s; what keeps the fullest link lowest leaves a little on electrical ones.
    assert found.before.max_s >= 10
    assert found.after.max_s <= 0.1


def test_too_many_switches_for_slots():
    net = torus((32, 32), hosts=0)
    demand = np.zeros((1024, 1024))
    demand[np.arange(1024), (np.arange(1024) + 7) % 1024] = 1.0
    with pytest.raises(InputError, match="circuit selector bvn: takes up to 1,000 switches, got 1024; use eefi"):
        select(net, demand, method="bvn", ports=1)
    assert len(select(net, demand[:, :] * 0, method="bvn", ports=1).circuits) == 0
    assert Circuits.of([]).pairs() == []
