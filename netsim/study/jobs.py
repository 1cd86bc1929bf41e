"""Several jobs on one machine: what each of them loses to the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from netsim.api import resolve_topology, simulate
from netsim.core.arrays import Int32
from netsim.core.errors import InputError
from netsim.core.rng import stream
from netsim.core.text import count
from netsim.core.units import format_time
from netsim.engine import Progress
from netsim.jobs import Placement
from netsim.results import Result
from netsim.topologies import Topology
from netsim.traces import Trace, read_trace
from netsim.traffic import Protocol, TaskGraph, Workload, lower

__all__ = ["ALLOCATIONS", "Interference", "Job", "JobRun", "run_jobs"]

ALLOCATIONS = ("linear", "interleaved", "random")


@dataclass(frozen=True, kw_only=True)
class Job:
    """A trace or workload, and when it starts.

    Attributes
    ----------
    name : str
    trace : Trace, Workload or path
    start_s : float
    ranks_per_host : int
    """

    name: str
    trace: Trace | Workload | str | PathLike[str]
    start_s: float = 0.0
    ranks_per_host: int = 1


@dataclass(frozen=True, kw_only=True)
class Interference:
    """One job beside the others.

    Attributes
    ----------
    name : str
    n_ranks, n_hosts : int
    start_s : float
    alone_s : float
        From its start to its end on the same hosts of an otherwise empty machine.
    together_s : float
        With the others.
    slowdown : float
        The latter over the former.
    """

    name: str
    n_ranks: int
    n_hosts: int
    start_s: float
    alone_s: float
    together_s: float
    slowdown: float


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """Jobs by their order, and the whole run.

    Attributes
    ----------
    jobs : tuple of Interference
    hosts : tuple of int32 arrays
        Host of each rank of each job.
    result : Result
        Of all jobs together; ranks are numbered job after job.
    allocation : str
    """

    jobs: tuple[Interference, ...]
    hosts: tuple[Int32, ...]
    result: Result
    allocation: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "allocation": self.allocation,
            "jobs": [dict(vars(job)) for job in self.jobs],
            "makespan_s": self.result.makespan_s,
            "summary": self.result.summary,
            "provenance": self.result.provenance,
        }

    def lines(self) -> list[str]:
        """For a terminal."""
        width = max(3, *(len(job.name) for job in self.jobs))
        rows = [
            f"{'job':<{width}}  {'ranks':>6} {'hosts':>6} {'start':>10} {'alone':>11} {'together':>11} {'slowdown':>9}"
        ]
        rows += [
            f"{job.name:<{width}}  {job.n_ranks:>6} {job.n_hosts:>6} {format_time(job.start_s):>10} {format_time(job.alone_s, 5):>11} "
            f"{format_time(job.together_s, 5):>11} {job.slowdown:>9.3f}"
            for job in self.jobs
        ]
        rows.append(
            f"all done after {format_time(self.result.makespan_s, 5)}; hosts {self.allocation}, and the same for each job alone"
        )
        return rows


def run_jobs(
    jobs: Sequence[Job],
    *,
    topology: Topology | str = "dragonfly",
    routing: str | None = None,
    allocation: str = "linear",
    protocol: Protocol | None = None,
    collectives: Any = "mpich",
    gaps: Any = "auto",
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> JobRun:
    """Run jobs together and each alone, on the same hosts.

    Parameters
    ----------
    jobs : sequence of Job
        One or more.
    topology : Topology or str
        A name is sized to hold all jobs at once.
    routing : str, optional
    allocation : {"linear", "interleaved", "random"}
        Hosts in order, job after job; dealt to the jobs in turn; or drawn by the seed. Within a job ranks fill its hosts in order.
    protocol, collectives, gaps
        As in `netsim.replay`.
    seed : int
    progress : callable, optional
    **options
        Further ones of `netsim.simulate`, such as ``multipath``.

    Raises
    ------
    InputError
        No job, an unknown allocation, or too few hosts.

    Examples
    --------
    Two jobs of two ranks on a machine whose switches share one link: each needs twice its time.

    >>> import netsim as ns
    >>> from netsim.study import Job, run_jobs
    >>> net = ns.topologies.xgft(m=(2, 2), w=(1, 1), capacity="1GB/s", latency=0.0)
    >>> rows = [{"rank": 0, "op": "send", "peer": 1, "bytes": 10**8}, {"rank": 1, "op": "recv", "peer": 0, "bytes": 10**8}]
    >>> pair = ns.Trace.from_rows(n_ranks=2, rows=rows)
    >>> done = run_jobs([Job(name="a", trace=pair), Job(name="b", trace=pair)], topology=net, allocation="interleaved",
    ...                 protocol=ns.traffic.Protocol.ideal())
    >>> [round(job.slowdown, 6) for job in done.jobs]
    [2.0, 2.0]
    """
    if not jobs:
        raise InputError("jobs", "must be one or more", got="none")
    if allocation not in ALLOCATIONS:
        raise InputError("allocation", f"must be one of {', '.join(ALLOCATIONS)}", got=repr(allocation))
    traces = [_trace(job) for job in jobs]
    needed = [-(-trace.n_ranks // job.ranks_per_host) for trace, job in zip(traces, jobs, strict=True)]
    network = resolve_topology(topology, n_hosts=sum(needed))
    hosts = [
        mine[np.arange(trace.n_ranks) // job.ranks_per_host]
        for mine, trace, job in zip(_allocate(network, needed, allocation, seed), traces, jobs, strict=True)
    ]
    graphs = [lower(t, protocol=protocol or Protocol(), collectives=collectives, gaps=gaps).graph for t in traces]

    def run(chosen: Sequence[int]) -> tuple[Result, list[float]]:
        graph = TaskGraph.side_by_side([graphs[i] for i in chosen], start_s=[jobs[i].start_s for i in chosen])
        where = Placement(np.concatenate([hosts[i] for i in chosen]), f"{allocation} jobs")
        found = simulate(
            graph, topology=network, routing=routing, placement=where, seed=seed, progress=progress, **options
        )
        if found.status != "finished":
            raise KeyboardInterrupt
        finish = found.tables["ranks"].column("finish_ns").to_numpy(zero_copy_only=False) / 1e9
        ends, first = [], 0
        for i in chosen:
            last = finish[first : first + traces[i].n_ranks]
            ends.append(float(np.nanmax(last)) if np.isfinite(last).any() else jobs[i].start_s)
            first += traces[i].n_ranks
        return found, ends

    together, ends = run(range(len(jobs)))
    rows = []
    for i, job in enumerate(jobs):
        alone = run([i])[1][0] - job.start_s
        shared = ends[i] - job.start_s
        rows.append(
            Interference(
                name=job.name,
                n_ranks=traces[i].n_ranks,
                n_hosts=needed[i],
                start_s=job.start_s,
                alone_s=alone,
                together_s=shared,
                slowdown=shared / alone if alone > 0 else 1.0,
            )
        )
    return JobRun(jobs=tuple(rows), hosts=tuple(hosts), result=together, allocation=allocation)


def _trace(job: Job) -> Trace:
    if job.ranks_per_host < 1:
        raise InputError(f"job {job.name}", "needs one rank per host or more", got=job.ranks_per_host)
    if isinstance(job.trace, Trace):
        return job.trace
    return job.trace.trace() if isinstance(job.trace, Workload) else read_trace(job.trace)


def _allocate(network: Topology, needed: Sequence[int], allocation: str, seed: int) -> list[Int32]:
    total = sum(needed)
    if total > network.n_hosts:
        raise InputError(
            "jobs",
            f"need {count(total, 'host')}",
            got=count(network.n_hosts, "host"),
            remedy="use a larger topology or more ranks per host",
        )
    order = np.arange(total)
    owner = np.repeat(np.arange(len(needed)), needed)
    if allocation == "random":
        order = stream(seed, "jobs", "allocation").permutation(network.n_hosts)[:total]
    elif allocation == "interleaved":
        # In turn, until each has what it needs.
        place = np.concatenate([np.arange(n) for n in needed])
        owner = owner[np.lexsort((owner, place))]
    return [np.asarray(order[owner == i], dtype=np.int32) for i in range(len(needed))]
