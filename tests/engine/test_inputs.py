"""What the engine refuses, and how a run can be watched and stopped."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.core.errors import InputError, StuckError
from netsim.engine import CapacityChanges, Routes, Simulation, run_flows
from netsim.traffic.taskgraph import GraphBuilder, TaskGraph

ROUTE = {"of_task": np.array([0]), "ptr": np.array([0, 1]), "link": np.array([0]), "latency_s": np.zeros(1)}


def graph(n=1, size=10.0):
    build = GraphBuilder(n_ranks=2)
    for _ in range(n):
        build.transfer(source=0, destination=1, size_bytes=size)
    return build.graph()


def simulation(**changes):
    arguments = {"graph": graph(), "routes": Routes(**ROUTE), "capacity_bytes_per_s": [10.0]}
    return Simulation(**{**arguments, **changes})


def routes(**changes):
    return {"routes": Routes(**{**ROUTE, **changes})}


def changes(time, link, capacity):
    return {
        "changes": CapacityChanges(
            time_s=np.array(time, float), link=np.array(link, np.int32), capacity_bytes_per_s=np.array(capacity, float)
        )
    }


BAD = {
    "capacity NaN": (
        {"capacity_bytes_per_s": [np.nan]},
        "link 0: capacity must be 0 or more bytes per second, got nan",
    ),
    "capacity negative": (
        {"capacity_bytes_per_s": [-1]},
        "link 0: capacity must be 0 or more bytes per second, got -1.0",
    ),
    "latency mode": ({"latency_mode": "middle"}, "latency mode: must be 'tail' or 'head', got 'middle'"),
    "bins": ({"bins": 3}, "time bins: must be an even number, 0 or more, got 3"),
    "local rate": ({"local_bytes_per_s": 0}, "local rate: must be positive, got 0"),
    "weights": ({"weight": [0.0]}, "weight: must be finite and above 0, got 0.0"),
    "number of weights": ({"weight": [1, 2]}, "weight: must have one value per task (1), got shape (2,)"),
    "rate cap": ({"rate_cap_bytes_per_s": [0]}, "rate cap: must be above 0 bytes per second, got 0.0"),
    "route of each task": (
        routes(of_task=np.array([0, 0])),
        "routes: must name a route for each of 1 tasks, got shape (2,)",
    ),
    "route number": (routes(of_task=np.array([1])), "routes: must be -1 or one of 1 routes, got 1"),
    "link number": (routes(link=np.array([7])), "routes: must use links 0..0, got 7"),
    "latency": (routes(latency_s=np.array([-1.0])), "routes: must have one finite latency of 0 or more seconds each"),
    "consumption": (routes(use=np.array([0.0])), "routes: must have one finite consumption above 0 per hop"),
    "empty route": (
        routes(ptr=np.array([0, 0]), link=np.array([], int)),
        "routes: must have at least one link; a transfer that stays on its host has route -1",
    ),
    "change order": (
        changes([2, 1], [0, 0], [1, 1]),
        "capacity changes: times must be finite, 0 or more, and sorted",
    ),
    "change link": (changes([1], [4], [1]), "capacity changes: links must be 0..0, got 4"),
    "change capacity": (
        changes([1], [0], [-2]),
        "capacity changes: capacities must be 0 or more bytes per second, got -2.0",
    ),
    "change lengths": (changes([1], [0, 0], [1]), "capacity changes: need one time, link and capacity each"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line(case):
    arguments, message = BAD[case]
    with pytest.raises(InputError) as error:
        simulation(**arguments)
    assert str(error.value).startswith(message)


def test_a_delay_has_no_route():
    build = GraphBuilder(n_ranks=1)
    build.delay(rank=0, seconds=1)
    with pytest.raises(InputError, match=r"^task 0: a delay has no route$"):
        simulation(graph=build.graph())


@pytest.mark.parametrize(
    ("edges", "amount", "message"),
    [
        (([0], [5]), 1.0, "task graph: edges must join tasks 0..0"),
        (([], []), np.nan, "task 0: seconds or bytes must be finite and 0 or more, got nan"),
        (([], []), -1.0, "task 0: seconds or bytes must be finite and 0 or more, got -1.0"),
    ],
)
def test_task_graphs_are_validated(edges, amount, message):
    with pytest.raises(InputError) as error:
        TaskGraph.from_edges(
            n_ranks=1,
            kind=np.zeros(1, np.uint8),
            rank=np.zeros(1, np.int32),
            peer=np.zeros(1, np.int32),
            amount=np.array([amount]),
            edge_from=np.array(edges[0], np.int64),
            edge_to=np.array(edges[1], np.int64),
            edge_after=np.zeros(len(edges[0]), np.uint8),
        )
    assert str(error.value) == message


def test_run_flows_checks_shapes_and_times():
    case = {"capacity_bytes_per_s": [1], "ptr": [0, 1], "link": [0], "start_s": [0], "size_bytes": [1]}
    for change, message in (
        ({"size_bytes": [1, 2]}, "flows: need n start times, n sizes and n+1 pointers, got (1,), (2,), (2,)"),
        ({"start_s": [-1]}, "flows: start times must be finite and 0 or more, got -1.0"),
        ({"ptr": [0, 2]}, "flows: ptr must rise from 0 to the number of hops, got 2"),
    ):
        with pytest.raises(InputError) as error:
            run_flows(**{**case, **change})
        assert str(error.value) == message
    with pytest.raises(StuckError) as stuck:
        run_flows(**{**case, "capacity_bytes_per_s": [0]})
    assert str(stuck.value) == (
        "flow 0: can never finish: it crosses a link of capacity 0, got 1 such flows; raise the capacity or drop the flows"
    )
    # A flow without links takes no time.
    assert run_flows(**{**case, "ptr": [0, 0], "link": [], "start_s": [3]}).tolist() == [3.0]


def test_progress_sees_time_and_tasks_go_forward():
    n = 50
    seen = []
    run = Simulation(
        graph=graph(n), capacity_bytes_per_s=np.arange(1.0, n + 1),
        routes=Routes(of_task=np.arange(n), ptr=np.arange(n + 1), link=np.arange(n), latency_s=np.zeros(n)),
    )  # fmt: skip
    result = run.run(progress=seen.append, batches_per_call=3)
    assert result.status == "finished"
    assert [p.tasks_done for p in seen] == sorted(p.tasks_done for p in seen)
    assert [p.simulated_s for p in seen] == sorted(p.simulated_s for p in seen)
    assert (seen[-1].tasks_done, seen[-1].tasks, seen[-1].active_flows) == (n, n, 0)


def test_ctrl_c_keeps_what_has_happened():
    n = 40

    def interrupt(state):
        if state.tasks_done >= n // 2:
            raise KeyboardInterrupt

    run = Simulation(
        graph=graph(n), capacity_bytes_per_s=np.arange(1.0, n + 1),
        routes=Routes(of_task=np.arange(n), ptr=np.arange(n + 1), link=np.arange(n), latency_s=np.zeros(n)),
    )  # fmt: skip
    result = run.run(progress=interrupt, batches_per_call=1)
    assert result.status == "interrupted"
    # Flow i drains at 10 / (i + 1): half are done, and the bytes of the others are counted up to now.
    done = ~np.isnan(result.end_s)
    assert done.sum() == n // 2
    expected = np.minimum(10.0, result.now_s * np.arange(1.0, n + 1))
    assert result.link_bytes == pytest.approx(expected, rel=1e-12)
