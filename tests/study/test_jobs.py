"""Several jobs on one machine: sharing by hand, nothing shared, later starts, and bookkeeping."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim as ns
from netsim.cli import main
from netsim.core.errors import InputError
from netsim.engine import Simulation
from netsim.engine.inputs import Routes
from netsim.study import Job, run_jobs
from netsim.topologies import star, xgft
from netsim.traffic import Protocol, TaskGraph
from netsim.traffic.taskgraph import GraphBuilder

IDEAL = Protocol.ideal()
NARROW = xgft((2, 2), (1, 1), capacity="1GB/s", latency=0.0)  # two switches of two hosts, one cable


def message(size: int) -> ns.Trace:
    rows = [{"rank": 0, "op": "send", "peer": 1, "bytes": size}, {"rank": 1, "op": "recv", "peer": 0, "bytes": size}]
    return ns.Trace.from_rows(n_ranks=2, rows=rows)


def test_two_jobs_over_one_cable_share_it() -> None:
    jobs = [Job(name="short", trace=message(10**8)), Job(name="long", trace=message(3 * 10**8))]
    run = run_jobs(jobs, topology=NARROW, allocation="interleaved", protocol=IDEAL)
    # Half each until the short one is done after 0.2 s; then the long one has 0.2 GB left and all of the cable.
    assert [j.alone_s for j in run.jobs] == pytest.approx([0.1, 0.3])
    assert [j.together_s for j in run.jobs] == pytest.approx([0.2, 0.4])
    assert [j.slowdown for j in run.jobs] == pytest.approx([2.0, 4 / 3])
    apart = run_jobs(jobs, topology=NARROW, allocation="linear", protocol=IDEAL)
    assert [j.slowdown for j in apart.jobs] == [1.0, 1.0]
    assert [host.tolist() for host in apart.hosts] == [[0, 1], [2, 3]]


def test_a_job_that_starts_later_meets_what_is_left() -> None:
    jobs = [Job(name="first", trace=message(2 * 10**8)), Job(name="second", trace=message(10**8), start_s=0.1)]
    run = run_jobs(jobs, topology=NARROW, allocation="interleaved", protocol=IDEAL)
    # The first has 0.1 GB left when the second comes: both need 0.2 s from there.
    assert [j.together_s for j in run.jobs] == pytest.approx([0.3, 0.2])
    assert run.result.makespan_s == pytest.approx(0.3)
    late = run_jobs([jobs[0], Job(name="later", trace=message(10**8), start_s=5.0)], topology=NARROW, protocol=IDEAL)
    assert [j.slowdown for j in late.jobs] == pytest.approx([1.0, 1.0])
    assert late.result.makespan_s == pytest.approx(5.1)


def test_whole_programs_on_a_switch_do_not_disturb_each_other() -> None:
    trace = "examples/traces/cg-8.parquet"
    run = run_jobs([Job(name=n, trace=trace, start_s=s) for n, s in (("a", 0.0), ("b", 1e-3))], topology=star(16))
    alone = ns.replay(trace, topology=star(8))
    for job in run.jobs:
        assert job.alone_s == pytest.approx(alone.makespan_s, rel=1e-6)
        assert job.slowdown == pytest.approx(1.0, rel=1e-6)


def test_allocations() -> None:
    jobs = [
        Job(name=str(n), trace=ns.Trace.from_rows(n_ranks=n, rows=[{"rank": r, "op": "barrier"} for r in range(n)]))
        for n in (3, 1, 2)
    ]
    net = star(8)
    dealt = run_jobs(jobs, topology=net, allocation="interleaved")
    assert [host.tolist() for host in dealt.hosts] == [[0, 3, 5], [1], [2, 4]]
    drawn = run_jobs(jobs, topology=net, allocation="random", seed=4)
    assert len({int(h) for host in drawn.hosts for h in host}) == 6
    packed = run_jobs([Job(name="a", trace=jobs[0].trace, ranks_per_host=2), jobs[2]], topology=net)
    assert [host.tolist() for host in packed.hosts] == [[0, 0, 1], [2, 3]]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=5), min_size=1, max_size=4),
    st.data(),
)
def test_graphs_side_by_side_end_as_alone(jobs: list, data: st.DataObject) -> None:
    """Chains of delays and transfers over a link of their own each: moments of each are those of it alone, moved by its start."""
    starts = [data.draw(st.sampled_from([0.0, 0.5, 3.0])) for _ in jobs]
    graphs = []
    for chain in jobs:
        build, last = GraphBuilder(n_ranks=2), None
        for amount, is_delay in chain:
            task = (
                build.delay(rank=0, seconds=amount / 10)
                if is_delay
                else build.transfer(source=0, destination=1, size_bytes=amount)
            )
            if last is not None:
                build.edge(last, task)
            last = task
        graphs.append(build.graph())
    both = TaskGraph.side_by_side(graphs, start_s=starts)
    assert both.n_tasks == sum(g.n_tasks for g in graphs) + sum(s > 0 for s in starts)

    def run(graph: TaskGraph, link_of: np.ndarray, n_links: int) -> np.ndarray:
        routes = Routes(
            of_task=np.where(graph.kind == 1, link_of, -1).astype(np.int32),
            ptr=np.arange(n_links + 1),
            link=np.arange(n_links, dtype=np.int32),
            latency_s=np.zeros(n_links),
        )
        return Simulation(graph=graph, routes=routes, capacity_bytes_per_s=np.full(n_links, 7.0)).run().end_s

    ends = run(both, both.rank // 2, len(graphs))
    first = 0
    for graph, start in zip(graphs, starts, strict=True):
        alone = run(graph, np.zeros(graph.n_tasks, np.int64), 1)
        np.testing.assert_allclose(ends[first : first + graph.n_tasks], alone + start, rtol=1e-12)
        first += graph.n_tasks


@pytest.mark.parametrize(
    ("jobs", "options", "message"),
    [
        ([], {}, "jobs: must be one or more, got none"),
        (
            [Job(name="a", trace=message(1))],
            {"allocation": "best"},
            "allocation: must be one of linear, interleaved, random, got 'best'",
        ),
        (
            [Job(name="a", trace=message(1))] * 3,
            {"topology": NARROW},
            "jobs: need 6 hosts, got 4 hosts; use a larger topology or more ranks per host",
        ),
        (
            [Job(name="a", trace=message(1), start_s=-1.0)],
            {"topology": NARROW},
            "job start: must be 0 s or more, one for each graph, got -1.0",
        ),
        ([Job(name="a", trace=message(1), ranks_per_host=0)], {}, "job a: needs one rank per host or more, got 0"),
    ],
)
def test_bad_jobs_are_one_line(jobs: list, options: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        run_jobs(jobs, **options)
    assert str(caught.value) == message


def test_the_command(capsys) -> None:
    words = [
        "jobs",
        "examples/traces/cg-8.parquet",
        "halo3d:ranks=8,cells=20,iterations=3@100us",
        "--topo",
        "torus",
        "--allocation",
        "random",
    ]
    with pytest.raises(SystemExit) as stop:
        main(words)
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "cg-8.parquet" in out
    assert "slowdown" in out
    with pytest.raises(SystemExit):
        main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [job["n_ranks"] for job in found["jobs"]] == [8, 8]
    assert all(job["slowdown"] >= 1 - 1e-9 for job in found["jobs"])
    with pytest.raises(SystemExit) as stop:
        main(["jobs", "nosuch@1ms"])
    assert stop.value.code == 2
    assert "nosuch: no such file" in capsys.readouterr().err
