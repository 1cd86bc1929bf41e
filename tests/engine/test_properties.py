"""The engine against rational arithmetic, linear programming and itself, on random systems."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.engine import CapacityChanges, Routes, Simulation, run_flows
from netsim.testing import certificate, exact_rates, exact_simulation, lexicographic_rates
from netsim.traffic.taskgraph import GraphBuilder

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@st.composite
def systems(draw, max_flows=8, max_links=5):
    n_links = draw(st.integers(1, max_links))
    capacity = draw(st.lists(st.integers(1, 12), min_size=n_links, max_size=n_links))
    n = draw(st.integers(1, max_flows))
    paths = [
        draw(st.lists(st.integers(0, n_links - 1), min_size=1, max_size=min(n_links, 4), unique=True)) for _ in range(n)
    ]
    weight = draw(st.one_of(st.none(), st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    return capacity, paths, weight


def csr(paths):
    return np.cumsum([0, *(len(p) for p in paths)]), np.array([x for p in paths for x in p])


def allocation_of(capacity, paths, weight, cap=None):
    build = GraphBuilder(n_ranks=1)
    for _ in paths:
        build.transfer(source=0, destination=0, size_bytes=1e6)
    ptr, link = csr(paths)
    simulation = Simulation(
        graph=build.graph(),
        routes=Routes(of_task=np.arange(len(paths)), ptr=ptr, link=link, latency_s=np.zeros(len(paths))),
        capacity_bytes_per_s=capacity,
        weight=weight,
        rate_cap_bytes_per_s=cap,
    )
    simulation.step(0)
    allocation = simulation.allocation()
    return allocation.rate_bytes_per_s[np.argsort(allocation.task)], allocation


@given(systems(), st.data())
@settings(max_examples=150 if JIT else 10)
def test_one_allocation_equals_exact_fractions(system, data):
    capacity, paths, weight = system
    caps = data.draw(
        st.one_of(
            st.none(), st.lists(st.one_of(st.none(), st.integers(1, 6)), min_size=len(paths), max_size=len(paths))
        )
    )
    rate, allocation = allocation_of(
        capacity, paths, weight, None if caps is None else [np.inf if c is None else c for c in caps]
    )
    expected = exact_rates(capacity=capacity, paths=paths, weight=weight, cap=caps)
    assert rate == pytest.approx([float(x) for x in expected], rel=1e-12)
    proof = {
        "capacity": allocation.capacity_bytes_per_s,
        "ptr": allocation.ptr,
        "link": allocation.link,
        "weight": allocation.weight,
        "use": allocation.use,
    }
    assert certificate(rate=allocation.rate_bytes_per_s, **proof)
    # A certificate that cannot fail proves nothing: any single rate scaled by 0.9 must be refuted.
    for i in range(len(paths)):
        wrong = allocation.rate_bytes_per_s.copy()
        wrong[i] *= 0.9
        assert not certificate(rate=wrong, **proof)


@given(systems(max_flows=6, max_links=4))
@settings(max_examples=25 if JIT else 10)
def test_one_allocation_equals_the_lexicographic_lp(system):
    capacity, paths, weight = system
    rate, _ = allocation_of(capacity, paths, weight)
    ptr, link = csr(paths)
    assert lexicographic_rates(capacity=capacity, ptr=ptr, link=link, weight=weight) == pytest.approx(rate, rel=1e-6)


@st.composite
def graphs(draw):
    """A random DAG of delays and transfers with latencies, weights, changes: small rational numbers so that ties are frequent."""
    capacity, paths, _ = draw(systems(max_flows=9))
    n = len(paths)
    build = GraphBuilder(n_ranks=1)
    routes, sizes = [], []
    for i in range(n):
        kind = draw(st.sampled_from(["delay", "transfer", "transfer", "transfer", "local"]))
        amount = draw(st.sampled_from([0, 1, 2, 3, 6, 10, 12]))
        sizes.append(amount)
        if kind == "delay":
            build.delay(rank=0, seconds=amount)
            routes.append([])
        else:
            build.transfer(source=0, destination=0, size_bytes=amount)
            routes.append(paths[i] if kind == "transfer" else [])
        for j in range(i):
            if draw(st.integers(0, 3)) == 0:
                build.edge(j, i, draw(st.integers(0, 2)))
    latency = [draw(st.sampled_from([0, 0, 1, 2])) if r else 0 for r in routes]
    weight = draw(st.one_of(st.none(), st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    changes = sorted(
        draw(
            st.lists(
                st.tuples(st.integers(0, 12), st.integers(0, len(capacity) - 1), st.sampled_from([0, 1, 3, 8])),
                max_size=3,
            )
        ),
        key=lambda c: c[0],
    )
    return build.graph(), routes, capacity, latency, weight, changes


@given(graphs(), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=300 if JIT else 10)
def test_a_whole_run_equals_exact_fractions(case, head, full, shared):
    graph, paths, capacity, latency, weight, changes = case
    expected = exact_simulation(
        graph=graph, paths=paths, capacity=capacity, latency=latency, weight=weight, changes=changes, head=head
    )
    routed = [i for i, p in enumerate(paths) if p]
    ptr, link = csr([paths[i] for i in routed])
    of_task = np.full(len(paths), -1)
    of_task[routed] = np.arange(len(routed))
    routes = Routes(
        of_task=of_task, ptr=ptr, link=link.astype(int), latency_s=np.array([latency[i] for i in routed], float)
    )
    simulation = Simulation(
        graph=graph,
        routes=routes.shared() if shared else routes,
        capacity_bytes_per_s=capacity,
        weight=weight,
        latency_mode="head" if head else "tail",
        full_solve=full,
        changes=CapacityChanges(
            time_s=np.array([c[0] for c in changes], float),
            link=np.array([c[1] for c in changes], np.int32),
            capacity_bytes_per_s=np.array([c[2] for c in changes], float),
        ),
        bins=8,
    )
    status = "running"
    while status == "running":
        status = simulation.step(1)
        a = simulation.allocation()
        verdict = certificate(
            rate=a.rate_bytes_per_s, capacity=a.capacity_bytes_per_s, ptr=a.ptr, link=a.link, weight=a.weight, use=a.use
        )
        assert verdict, verdict.reason
    result = simulation.result(status)
    for name in ("start_s", "drain_s", "end_s"):
        got = getattr(result, name)
        want = [np.nan if x is None else float(x) for x in getattr(expected, name)]
        assert got == pytest.approx(want, rel=1e-9, abs=1e-12, nan_ok=True)
    assert (status == "finished") == all(x is not None for x in expected.end_s)
    if status == "finished":
        # Byte conservation: each link carried exactly what was routed over it, and the bins hold all of it.
        sent = np.zeros(len(capacity))
        for i in routed:
            for l in paths[i]:
                sent[l] += float(graph.amount[i])
        assert result.link_bytes == pytest.approx(sent, rel=1e-9, abs=1e-9)
        assert result.bin_bytes.sum(axis=1) == pytest.approx(sent[result.bin_link], rel=1e-9, abs=1e-9)


def random_flows(seed, n=400, links=40):
    n = n if JIT else n // 8
    rng = np.random.default_rng(seed)
    paths = [rng.choice(links, size=rng.integers(1, 6), replace=False) for _ in range(n)]
    ptr, link = csr(paths)
    return {
        "capacity_bytes_per_s": rng.choice([5.0, 10.0, 40.0], links),
        "ptr": ptr,
        "link": link,
        "start_s": np.sort(rng.exponential(1.0, n)).cumsum() * 0.02,
        "size_bytes": rng.lognormal(2, 1.5, n),
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_sweep_equals_the_full_solve(seed):
    case = random_flows(seed)
    n = case["start_s"].size
    sweep = run_flows(**case)
    build = GraphBuilder(n_ranks=1)
    for start, size in zip(case["start_s"], case["size_bytes"]):
        wait = build.delay(rank=0, seconds=start)
        build.edge(wait, build.transfer(source=0, destination=0, size_bytes=size))
    of_task = np.full(2 * n, -1)
    of_task[1::2] = np.arange(n)
    routes = Routes(of_task=of_task, ptr=case["ptr"], link=case["link"], latency_s=np.zeros(n))
    full = Simulation(
        graph=build.graph(), routes=routes, capacity_bytes_per_s=case["capacity_bytes_per_s"], full_solve=True
    ).run()
    assert sweep == pytest.approx(full.end_s[1::2], rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_scaling_laws(seed):
    case = random_flows(seed, n=150)
    base = run_flows(**case)
    faster = {**case, "capacity_bytes_per_s": 3 * case["capacity_bytes_per_s"], "size_bytes": 3 * case["size_bytes"]}
    assert run_flows(**faster) == pytest.approx(base, rel=1e-9)
    start_zero = {**case, "start_s": np.zeros(case["start_s"].size)}
    once = run_flows(**start_zero)
    assert run_flows(**{**start_zero, "size_bytes": 7 * case["size_bytes"]}) == pytest.approx(7 * once, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_renumbering_flows_and_links_permutes_the_result(seed):
    case = random_flows(seed, n=200)
    base = run_flows(**case)
    rng = np.random.default_rng(seed + 100)
    order = rng.permutation(base.size)
    relabel = rng.permutation(40)
    paths = [case["link"][case["ptr"][i] : case["ptr"][i + 1]] for i in order]
    ptr, link = csr(paths)
    capacity = np.empty(40)
    capacity[relabel] = case["capacity_bytes_per_s"]
    other = run_flows(
        capacity_bytes_per_s=capacity,
        ptr=ptr,
        link=relabel[link],
        start_s=case["start_s"][order],
        size_bytes=case["size_bytes"][order],
    )
    assert other == pytest.approx(base[order], rel=1e-9)


@given(st.data())
@settings(max_examples=150 if JIT else 10)
def test_many_transfers_on_few_routes_equal_exact_fractions(data):
    # Few routes, many transfers on each, entering at different times: what sharing a slot is for.
    capacity = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=3))
    choices = [[0], [1], [0, 1], [len(capacity) - 1]]
    build = GraphBuilder(n_ranks=1)
    paths = []
    for _ in range(data.draw(st.integers(2, 14))):
        start = data.draw(st.sampled_from([0, 0, 1, 3]))
        task = build.transfer(source=0, destination=0, size_bytes=data.draw(st.sampled_from([1, 2, 2, 5, 9])))
        paths.append(data.draw(st.sampled_from(choices)))
        if start:
            build.edge(build.delay(rank=0, seconds=start), task)
            paths.append([])
    graph = build.graph()
    expected = exact_simulation(graph=graph, paths=paths, capacity=capacity)
    routed = [i for i, p in enumerate(paths) if p]
    ptr, link = csr([paths[i] for i in routed])
    of_task = np.full(len(paths), -1)
    of_task[routed] = np.arange(len(routed))
    routes = Routes(of_task=of_task, ptr=ptr, link=link, latency_s=np.zeros(len(routed))).shared()
    assert routes.ptr.size - 1 <= len(choices)
    result = Simulation(graph=graph, routes=routes, capacity_bytes_per_s=capacity, certify=True).run()
    assert result.end_s == pytest.approx([float(x) for x in expected.end_s], rel=1e-9)


def test_a_flow_of_weight_w_equals_w_flows():
    # Three unit flows beside one, or one of weight 3 and three times the bytes.
    apart = run_flows(capacity_bytes_per_s=[8], ptr=range(5), link=[0] * 4, start_s=[0] * 4, size_bytes=[5, 5, 5, 9])
    merged = run_flows(
        capacity_bytes_per_s=[8], ptr=range(3), link=[0] * 2, start_s=[0] * 2, size_bytes=[15, 9], weight=[3, 1]
    )
    assert merged == pytest.approx([apart[0], apart[3]], rel=1e-12)


def test_same_input_same_bytes_however_the_run_is_cut():
    case = random_flows(9)
    n = case["start_s"].size
    build = GraphBuilder(n_ranks=1)
    for start, size in zip(case["start_s"], case["size_bytes"]):
        build.edge(build.delay(rank=0, seconds=start), build.transfer(source=0, destination=0, size_bytes=size))
    of_task = np.full(2 * n, -1)
    of_task[1::2] = np.arange(n)
    routes = Routes(of_task=of_task, ptr=case["ptr"], link=case["link"], latency_s=np.zeros(n))
    arguments = {"graph": build.graph(), "routes": routes, "capacity_bytes_per_s": case["capacity_bytes_per_s"]}
    whole, cut = Simulation(**arguments).run(), Simulation(**arguments).run(batches_per_call=1)
    assert whole.end_s.tobytes() == cut.end_s.tobytes()
    assert whole.link_bytes.tobytes() == cut.link_bytes.tobytes()


def test_exact_oracle_is_itself_right_on_a_case_by_hand():
    # Rates 2/3 and 1/3 by weight on a link of 1: f0 (2 bytes) ends at 3, f1 has 1 byte by then and 1 left: 4.
    build = GraphBuilder(n_ranks=1)
    build.transfer(source=0, destination=0, size_bytes=2)
    build.transfer(source=0, destination=0, size_bytes=2)
    result = exact_simulation(graph=build.graph(), paths=[[0], [0]], capacity=[1], weight=[2, 1])
    assert result.end_s == [Fraction(3), Fraction(4)]


def test_the_kernel_is_compiled_for_one_set_of_types():
    # Each further set would cost its user another 20 s; options must not change types.
    from netsim.engine import _kernels

    case = random_flows(1, n=40)
    n = case["start_s"].size
    run_flows(**case)
    run_flows(**{**case, "start_s": case["start_s"].tolist(), "size_bytes": np.full(n, 3, np.int32)})
    run_flows(**case, weight=np.full(n, 2), latency_s=[0.1] * n, rate_cap_bytes_per_s=np.full(n, 4.0))
    if JIT:
        assert len(_kernels.advance.signatures) == 1
