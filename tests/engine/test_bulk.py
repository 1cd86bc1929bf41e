"""Bulk modes: what they may change, and by how much."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim as ns
from netsim.core.errors import InputError
from netsim.engine import Routes, Simulation
from netsim.routing import paths as route_paths
from netsim.traffic.taskgraph import GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@st.composite
def batches(draw):
    """Flows that start at small whole times on a few links."""
    capacity = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    flow = st.tuples(
        st.integers(0, 8),
        st.integers(1, 50),
        st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=3, unique=True),
    )
    return capacity, draw(st.lists(flow, min_size=1, max_size=14))


def simulation_of(capacity, flows, **options):
    build = GraphBuilder(n_ranks=1)
    for start, size, _ in flows:
        build.edge(build.delay(rank=0, seconds=start), build.transfer(source=0, destination=0, size_bytes=size))
    of_task = np.full(2 * len(flows), -1)
    of_task[1::2] = np.arange(len(flows))
    ptr = np.cumsum([0, *(len(path) for *_, path in flows)])
    link = np.array([x for *_, path in flows for x in path])
    routes = Routes(of_task=of_task, ptr=ptr, link=link, latency_s=np.zeros(len(flows)))
    return Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=capacity, **options)


def finish(simulation):
    return simulation.run().end_s[1::2]


@given(batches(), st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=200 if JIT else 10)
def test_tolerant_allocations_are_feasible_and_leave_little_idle(case, tolerance):
    simulation = simulation_of(*case, level_tolerance=tolerance, certify=True)
    status = "running"
    while status == "running":
        status = simulation.step()
        now = simulation.allocation()
        use = np.bincount(
            now.link, weights=np.repeat(now.rate_bytes_per_s, np.diff(now.ptr)) * now.use, minlength=len(case[0])
        )
        assert (use <= now.capacity_bytes_per_s * (1 + 1e-9)).all()
        full = use >= now.capacity_bytes_per_s * (1 - 1.01 * tolerance)
        for first, last in itertools.pairwise(now.ptr):
            assert full[now.link[first:last]].any()
    assert status == "finished"


@given(batches())
@settings(max_examples=50 if JIT else 5)
def test_without_tolerance_and_window_nothing_changes(case):
    assert finish(simulation_of(*case)).tobytes() == (
        finish(simulation_of(*case, level_tolerance=0.0, completion_window=0.0)).tobytes()
    )


@given(batches(), st.sampled_from([0.01, 0.1]))
@settings(max_examples=100 if JIT else 5)
def test_one_link_of_windows_is_late_by_the_window_at_most(case, window):
    # On one link all flows share alike: capacity lies idle for a window after a completion at most, so the last byte is late by the
    # sum of the windows, each within that part of a duration that fits between the first start and the end.
    capacity, flows = case
    flows = [(start, size, [0]) for start, size, _ in flows]
    exact = finish(simulation_of(capacity[:1], flows))
    bulk = finish(simulation_of(capacity[:1], flows, completion_window=window))
    assert (bulk >= exact * (1 - 1e-9) - 1e-9).all()
    assert bulk.max() <= exact.max() * (1 + window) ** len(flows)


def test_a_chain_is_late_by_the_window_at_most():
    build = GraphBuilder(n_ranks=1)
    tasks = [build.transfer(source=0, destination=0, size_bytes=100) for _ in range(20)]
    for a, b in itertools.pairwise(tasks):
        build.edge(a, b)
    routes = Routes(of_task=np.zeros(20, int), ptr=np.array([0, 1]), link=np.array([0]), latency_s=np.zeros(1))
    result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[100.0], completion_window=0.01).run()
    # Each of 20 transfers takes 1 s; all but the last hold up the next by the window.
    assert result.end_s[-1] == pytest.approx(20 + 19 * 0.01, rel=1e-12)
    assert result.drain_s[0] == pytest.approx(1.0, rel=1e-12)
    assert result.link_bytes.tolist() == pytest.approx([2000.0], rel=1e-12)


@pytest.mark.compiled
def test_errors_on_a_loaded_dragonfly_are_within_a_few_tolerances():
    network = ns.topologies.dragonfly(p=2, a=4, h=2)
    rng = np.random.default_rng(3)
    n = 600
    source = rng.integers(0, network.n_hosts, n)
    target = (source + 1 + rng.integers(0, network.n_hosts - 1, n)) % network.n_hosts
    route = route_paths(network, source, target)
    size, start = rng.lognormal(13, 1.5, n), np.zeros(n)
    build = GraphBuilder(n_ranks=1)
    for s in size:
        build.transfer(source=0, destination=0, size_bytes=s)
    routes = Routes(of_task=np.arange(n), ptr=route.ptr, link=route.link, latency_s=np.zeros(n))

    def run(**options):
        return Simulation(
            graph=build.graph(), routes=routes, capacity_bytes_per_s=network.link_capacity_bytes_per_s, **options
        ).run()

    exact = run()
    for options in ({"level_tolerance": 0.01}, {"completion_window": 0.01}):
        bulk = run(**options)
        error = np.abs(bulk.end_s - exact.end_s) / (exact.end_s - start)
        assert error.mean() < 0.01
        assert error.max() < 0.05
        assert bulk.counts["flows_in_play"] < exact.counts["flows_in_play"]
        assert bulk.link_bytes == pytest.approx(exact.link_bytes, rel=1e-9)


@pytest.mark.parametrize("name", ["level_tolerance", "completion_window"])
@pytest.mark.parametrize("value", [-0.1, 0.3, float("nan")])
def test_out_of_range(name, value):
    with pytest.raises(InputError, match=r"must be from 0 to 0\.25"):
        simulation_of([1], [(0, 1, [0])], **{name: value})


def test_a_result_says_which_approximation_was_on():
    rows = [{"rank": 0, "op": "send", "peer": 1, "bytes": 10**6}, {"rank": 1, "op": "recv", "peer": 0, "bytes": 10**6}]
    trace = ns.Trace.from_rows(n_ranks=2, rows=rows)
    exact = ns.replay(trace, topology="star")
    bulk = ns.replay(trace, topology="star", level_tolerance=0.01)
    assert exact.provenance["approximations"] == {}
    assert bulk.provenance["approximations"] == {"level_tolerance": 0.01}
    assert "exact" in exact.provenance["model"]
    assert "approximate" in bulk.provenance["model"]
