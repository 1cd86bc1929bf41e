"""Transfers that choose their route when they start: each choice is checked against who was under way at that moment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.engine import Choices, Rerouting, Routes, Simulation
from netsim.engine.inputs import RULES
from netsim.traffic.taskgraph import GraphBuilder

N_LINKS = 9


def instance(seed: int, rule: str, n: int, staged: bool):
    """Transfers at random moments, each with up to four alternatives of two to five links, the first of them its own."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(n_ranks=2)
    start = np.sort(rng.uniform(0, 10, n))
    size = rng.uniform(1, 30, n)
    tasks = []
    for i in range(n):
        wait = build.delay(rank=0, seconds=float(start[i]))
        tasks.append(build.transfer(source=0, destination=1, size_bytes=float(size[i])))
        build.edge(wait, tasks[-1])
    links, stage, row, ptr = [], [], [], [0]
    first = []
    for _ in range(n):
        first.append(len(links))
        n_alternatives = int(rng.integers(1, 5))
        for a in range(n_alternatives):
            row.append(len(links))
            stage.append(int(staged and a > 1))
            links.append(rng.choice(N_LINKS, int(rng.integers(2, 6)), replace=False))
            ptr.append(ptr[-1] + (n_alternatives if a == 0 else 0))
    of_task = np.full(2 * n, -1)
    of_task[tasks] = first
    routes = Routes(
        of_task=of_task.astype(np.int32),
        ptr=np.cumsum([0, *map(len, links)]),
        link=np.concatenate(links).astype(np.int32),
        latency_s=np.zeros(len(links)),
        choices=Choices(
            ptr=np.array(ptr),
            row=np.array(row, np.int32),
            rule=rule,
            stage=np.array(stage, np.uint8) if staged else None,
        ),
    )
    capacity = rng.uniform(1, 5, N_LINKS)
    return build.graph(), routes, capacity, np.array(tasks), links


def cost(path: np.ndarray, skip: int, count: np.ndarray, capacity: np.ndarray, rule: str) -> tuple:
    if rule == "rate":
        return (-(capacity[path] / (count[path] + 1)).min(), len(path))
    inner = path[skip:-1]
    if not inner.size:
        return (0.0,)
    load = count[inner] / capacity[inner]
    return (len(inner) * (load[0] if rule == "first-link" else load.max()),)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(RULES), st.integers(1, 14), st.booleans())
def test_every_choice_is_the_best_at_its_moment(seed: int, rule: str, n: int, staged: bool) -> None:
    staged = staged and rule != "rate"
    graph, routes, capacity, tasks, links = instance(seed, rule, n, staged)
    result = Simulation(graph=graph, routes=routes, capacity_bytes_per_s=capacity, certify=True).run()
    assert result.status == "finished"
    for i, task in enumerate(tasks):
        now = result.start_s[task]
        there = [t for t in tasks[:i] if result.drain_s[t] > now]
        count = np.bincount(
            np.concatenate([links[result.route[t]] for t in there] or [[]]).astype(int), minlength=N_LINKS
        )
        own = int(routes.of_task[task])
        alternatives = routes.choices.row[routes.choices.ptr[own] : routes.choices.ptr[own + 1]]
        early = [a for a in alternatives if not staged or routes.choices.stage[a] == 0]
        best = min(early, key=lambda a: (*cost(links[a], 1, count, capacity, rule), a))
        if staged and best == own:
            late = [own, *(a for a in alternatives if routes.choices.stage[a] == 1)]
            best = min(late, key=lambda a: (*cost(links[a], 2, count, capacity, rule), a))
        assert result.route[task] == best
    # The same routes given beforehand: the same moments.
    fixed = Routes(of_task=result.route, ptr=routes.ptr, link=routes.link, latency_s=routes.latency_s)
    again = Simulation(graph=graph, routes=fixed, capacity_bytes_per_s=capacity).run()
    np.testing.assert_array_equal(again.end_s, result.end_s)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 14), st.floats(0.05, 0.5))
def test_moves_keep_bytes_and_settle(seed: int, n: int, hysteresis: float) -> None:
    graph, routes, capacity, tasks, links = instance(seed, "rate", n, staged=False)
    moving = Rerouting(period_s=0.7, hysteresis=hysteresis)
    simulation = Simulation(graph=graph, routes=routes, capacity_bytes_per_s=capacity, certify=True)
    result = simulation.run(controller=moving.control)
    assert result.status == "finished"
    # Counts of who crosses what go back to nothing.
    assert not simulation._state.crossing.any()
    # Each byte crosses as many links as the routes between the shortest and the longest of its alternatives have.
    per_link = result.link_bytes.sum()
    sent = graph.amount[tasks]
    own = routes.of_task[tasks]
    spans = [
        [len(links[a]) for a in routes.choices.row[routes.choices.ptr[r] : routes.choices.ptr[r + 1]]] for r in own
    ]
    low, high = (float((sent * [f(s) for s in spans]).sum()) for f in (min, max))
    assert low * (1 - 1e-9) <= per_link <= high * (1 + 1e-9)


def test_transfers_on_one_route_are_counted_each() -> None:
    # Three on the first route share one place in the solver; the fourth sees three there and none on the second.
    build = GraphBuilder(n_ranks=2)
    for _ in range(4):
        build.transfer(source=0, destination=1, size_bytes=60)
    routes = Routes(
        of_task=np.array([0, 0, 0, 1], np.int32),
        ptr=np.array([0, 3, 6, 9]),
        link=np.array([0, 1, 3, 0, 1, 3, 0, 2, 3], np.int32),
        latency_s=np.zeros(3),
        choices=Choices(ptr=np.array([0, 0, 2, 2]), row=np.array([1, 2], np.int32), rule="whole-path"),
    )
    result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[100, 1, 1, 100]).run()
    assert result.route.tolist() == [0, 0, 0, 2]
    assert result.end_s.tolist() == [180.0, 180.0, 180.0, 60.0]


def test_a_dark_link_is_never_chosen_where_another_shines() -> None:
    build = GraphBuilder(n_ranks=2)
    build.transfer(source=0, destination=1, size_bytes=10)
    for rule in RULES:
        routes = Routes(
            of_task=np.array([0], np.int32),
            ptr=np.array([0, 3, 6]),
            link=np.array([0, 1, 3, 0, 2, 3], np.int32),
            latency_s=np.zeros(2),
            choices=Choices(ptr=np.array([0, 2, 2]), row=np.array([0, 1], np.int32), rule=rule),
        )
        result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[1, 0, 1, 1]).run()
        assert (result.status, result.route.tolist()) == ("finished", [1])


def test_hysteresis_holds_back_small_gains() -> None:
    # Two links of 10 and 11: after the first transfer took 11, moving back and forth would promise a tenth.
    build = GraphBuilder(n_ranks=2)
    build.transfer(source=0, destination=1, size_bytes=100)
    routes = Routes(
        of_task=np.array([0], np.int32),
        ptr=np.array([0, 1, 2]),
        link=np.array([0, 1], np.int32),
        latency_s=np.zeros(2),
        choices=Choices(ptr=np.array([0, 2, 2]), row=np.array([0, 1], np.int32), rule="first-link"),
    )
    ends = []
    for hysteresis in (0.2, 0.05):
        moving = Rerouting(period_s=1.0, hysteresis=hysteresis)
        result = Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[10, 11]).run(
            controller=moving.control
        )
        ends.append((moving.moves, round(result.end_s[0], 9)))
    # At 0 s nothing is under way yet or it has just begun: the move comes at 0 or 1 s.
    assert ends[0] == (0, 10.0)
    assert ends[1][0] == 1
    assert ends[1][1] in (round(100 / 11, 9), round(1 + 90 / 11, 9))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"ptr": [0, 2, 2], "row": [1, 0], "rule": "rate"},
            "the first alternative of a route must be the route itself",
        ),
        ({"ptr": [0, 2, 2], "row": [0, 5], "rule": "rate"}, "must be among the 2 routes, got 5"),
        ({"ptr": [0, 2], "row": [0, 1], "rule": "rate"}, "must list the alternatives of each of 2 routes, in order"),
        (
            {"ptr": [0, 2, 2], "row": [0, 1], "rule": "best"},
            "rule must be one of first-link, whole-path, rate, got 'best'",
        ),
        (
            {"ptr": [0, 2, 2], "row": [0, 1], "rule": "rate", "stage": [1, 0]},
            "need one stage per alternative, 0 for the first of each",
        ),
    ],
)
def test_bad_choices_are_refused(choices: dict, message: str) -> None:
    build = GraphBuilder(n_ranks=2)
    build.transfer(source=0, destination=1, size_bytes=10)
    stage = choices.pop("stage", None)
    routes = Routes(
        of_task=np.array([0], np.int32),
        ptr=np.array([0, 1, 2]),
        link=np.array([0, 1], np.int32),
        latency_s=np.zeros(2),
        choices=Choices(
            ptr=np.array(choices["ptr"]),
            row=np.array(choices["row"]),
            rule=choices["rule"],
            stage=None if stage is None else np.array(stage),
        ),
    )
    with pytest.raises(InputError) as caught:
        Simulation(graph=build.graph(), routes=routes, capacity_bytes_per_s=[1, 1])
    assert str(caught.value) == f"choices: {message}"
