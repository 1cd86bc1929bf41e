"""Three ways to the same answer on random systems and sequences of events: the sweep, the full solve, rational arithmetic."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import NetsimError
from netsim.engine import CapacityChanges, Routes, Simulation
from netsim.testing import certificate, exact_simulation, flow_simulation
from netsim.traffic.taskgraph import GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@st.composite
def busy_systems(draw):
    """Flows that arrive, wait for each other, are weighted and capped, on links that change: all features at once."""
    n_links = draw(st.integers(1, 5))
    capacity = draw(st.lists(st.integers(0, 12), min_size=n_links, max_size=n_links))
    n = draw(st.integers(1, 12))
    build = GraphBuilder(n_ranks=1)
    paths, weight, cap = [], [], []
    for _ in range(n):
        pause = draw(st.sampled_from([None, None, 1, 4]))
        if pause is not None:
            build.delay(rank=0, seconds=pause)
            paths.append([])
            weight.append(1)
            cap.append(None)
        task = build.transfer(source=0, destination=0, size_bytes=draw(st.sampled_from([0, 1, 3, 5, 12, 60])))
        if pause is not None:
            build.edge(task - 1, task)
        elif paths and draw(st.booleans()):
            build.edge(draw(st.integers(0, task - 1)), task, draw(st.integers(0, 2)))
        path = draw(st.lists(st.integers(0, n_links - 1), min_size=1, max_size=4, unique=True))
        # A link may be crossed twice.
        paths.append([*path, path[0]] if draw(st.integers(0, 3)) == 0 else path)
        weight.append(draw(st.integers(1, 4)))
        cap.append(draw(st.sampled_from([None, None, 1, 2, 7])))
    changes = draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(0, n_links - 1), st.sampled_from([0, 1, 3, 8, 40])), max_size=6
        )
    )
    return (
        build.graph(),
        paths,
        capacity,
        draw(st.sampled_from([None, weight])),
        draw(st.sampled_from([None, cap])),
        sorted(changes, key=lambda c: c[0]),
    )


def simulation_of(case, **options):
    graph, paths, capacity, weight, cap, changes = case
    routed = [i for i, p in enumerate(paths) if p]
    of_task = np.full(len(paths), -1)
    of_task[routed] = np.arange(len(routed))
    return Simulation(
        graph=graph,
        routes=Routes(
            of_task=of_task,
            ptr=np.cumsum([0, *(len(paths[i]) for i in routed)]),
            link=np.array([x for i in routed for x in paths[i]], np.int32),
            latency_s=np.zeros(len(routed)),
        ).shared(),
        capacity_bytes_per_s=capacity,
        weight=weight,
        rate_cap_bytes_per_s=None if cap is None else [np.inf if c is None else c for c in cap],
        changes=CapacityChanges(
            time_s=np.array([c[0] for c in changes], float),
            link=np.array([c[1] for c in changes], np.int32),
            capacity_bytes_per_s=np.array([c[2] for c in changes], float),
        ),
        **options,
    )


@given(busy_systems())
@settings(max_examples=400 if JIT else 8)
def test_sweep_full_solve_and_rational_arithmetic_agree(case):
    graph, paths, capacity, weight, cap, changes = case
    exact = exact_simulation(graph=graph, paths=paths, capacity=capacity, weight=weight, cap=cap, changes=changes)
    # certify: every allocation on the way is proven by the compiled certificate too.
    sweep = simulation_of(case, certify=True).run()
    full = simulation_of(case, certify=True, full_solve=True).run()
    for moment in ("start_s", "drain_s", "end_s"):
        expected = [np.nan if t is None else float(t) for t in getattr(exact, moment)]
        assert getattr(sweep, moment) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
        assert getattr(full, moment) == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
    assert sweep.status == full.status == ("stuck" if any(t is None for t in exact.end_s) else "finished")


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.0, 3.0), st.booleans())
@settings(max_examples=60 if JIT else 4)
def test_sweep_equals_full_solve_where_hundreds_of_flows_share(seed, links, crowding, weighted):
    # Too large for fractions; real numbers, so that no two levels tie.
    rng = np.random.default_rng(seed)
    n = 300 if JIT else 25
    paths = [rng.choice(links, size=rng.integers(1, min(links, 6) + 1), replace=False) for _ in range(n)]
    flows = {
        "capacity_bytes_per_s": rng.uniform(1, 10, links),
        "ptr": np.cumsum([0, *(p.size for p in paths)]),
        "link": np.concatenate(paths),
        "start_s": np.cumsum(rng.exponential(1.0, n)) * 10.0**-crowding,
        "size_bytes": rng.lognormal(1, 2, n),
        "weight": rng.uniform(0.1, 10, n) if weighted else None,
    }
    changes = CapacityChanges(
        time_s=np.sort(rng.uniform(0, flows["start_s"][-1], 5)),
        link=rng.integers(0, links, 5).astype(np.int32),
        capacity_bytes_per_s=rng.uniform(0.5, 20, 5),
    )
    sweep = flow_simulation(**flows, changes=changes).run()
    full = flow_simulation(**flows, changes=changes, full_solve=True).run()
    assert sweep.status == "finished"
    assert sweep.end_s == pytest.approx(full.end_s, rel=1e-9)
    assert sweep.link_bytes == pytest.approx(full.link_bytes, rel=1e-9)


def mutable(links=12, n=60, seed=5):
    rng = np.random.default_rng(seed)
    paths = [rng.choice(links, size=rng.integers(1, 5), replace=False) for _ in range(n)]
    return flow_simulation(
        capacity_bytes_per_s=rng.integers(5, 40, links),
        ptr=np.cumsum([0, *(p.size for p in paths)]),
        link=np.concatenate(paths),
        start_s=np.zeros(n),
        size_bytes=rng.lognormal(3, 1, n),
        certify=True,
    )


def test_a_mutated_rate_in_the_engine_is_caught_at_its_next_proof():
    # Each slot in turn gets 0.9 or 1.1 of its rate behind the engine's back; its own certificate must refuse all of them.
    simulation = mutable()
    simulation.step(0)
    state = simulation._state
    open_slots = np.flatnonzero(state.slot["flows"] > 0)
    assert open_slots.size >= 50
    for slot in open_slots:
        for factor in (0.9, 1.1):
            kept = state.slot[slot].rate
            state.slot["rate"][slot] = factor * kept
            with pytest.raises(NetsimError, match="must be max-min fair"):
                simulation._prove()
            state.slot["rate"][slot] = kept
    simulation._prove()


def test_a_solver_that_freezes_at_the_wrong_level_fails_the_certificate():
    # "Equal share of the tightest link", without handing on what others leave: feasible, plausible, and not max-min.
    ptr, link, capacity = np.array([0, 2, 3, 4, 5]), np.array([0, 1, 0, 0, 1]), np.array([9.0, 10.0])
    share = capacity / np.bincount(link)
    naive = np.array([share[link[ptr[i] : ptr[i + 1]]].min() for i in range(4)])
    assert naive.tolist() == [3, 3, 3, 5]
    refused = certificate(rate=naive, capacity=capacity, ptr=ptr, link=link)
    # Link 1 has 10 and carries 8: flow 3 could have 7.
    assert refused.reason == "flow 3: no bottleneck link"
    assert refused.error == pytest.approx(0.2)
    assert certificate(rate=[3, 3, 3, 7], capacity=capacity, ptr=ptr, link=link).error == 0


def test_the_error_of_a_certificate_is_the_tolerance_at_which_it_holds():
    proof = {"capacity": [10.0, 0.0], "ptr": [0, 1, 2, 3], "link": [0, 0, 1]}
    for rate, error, overload in (
        ([5, 5, 0], 0, 0),
        ([4, 5, 0], 0.2, 0),
        ([6, 6, 0], 0.2, 0.2),
        ([5, 5, 1e-3], np.inf, np.inf),
    ):
        verdict = certificate(rate=rate, **proof)
        assert verdict.error == pytest.approx(error, abs=1e-15)
        assert verdict.overload == pytest.approx(overload, abs=1e-15)
        if 0 < error < np.inf:
            assert certificate(rate=rate, **proof, rtol=error * 1.001).ok
            assert not certificate(rate=rate, **proof, rtol=error * 0.999).ok
