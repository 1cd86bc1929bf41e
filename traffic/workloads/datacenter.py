"""Traffic of data centres without a cause: flows of published sizes that arrive at random, and fan-in of requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from netsim.core.arrays import Float64, Int64
from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.core.rng import stream
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload

__all__ = ["FLOW_SIZES", "FlowSizes", "datacenter_flows", "incast"]

_MOST_FLOWS = 50_000_000
_PACKET = 1500


@dataclass(frozen=True, kw_only=True)
class FlowSizes:
    """A published distribution of flow sizes: points of its cumulative distribution, joined by straight lines.

    Attributes
    ----------
    size_bytes, part : tuple
        Sizes, not falling, and the part of flows up to each, from 0 to 1. Two equal sizes are a jump.
    source : str

    Examples
    --------
    >>> sizes = FLOW_SIZES["web-search"]
    >>> round(sizes.mean_bytes), sizes.quantile([0.0, 0.5, 1.0]).round().tolist()
    (1711250, [0.0, 73077.0, 30000000.0])
    """

    size_bytes: tuple[float, ...]
    part: tuple[float, ...]
    source: str

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        size, part = np.array(self.size_bytes), np.array(self.part)
        return float(np.sum((size[1:] + size[:-1]) / 2 * np.diff(part)))

    def quantile(self, part: object) -> Float64:
        """Sizes below which these parts of the flows are."""
        return np.interp(np.asarray(part, dtype=np.float64), self.part, self.size_bytes)


def _packets(points: list[tuple[int, float]], source: str) -> FlowSizes:
    return FlowSizes(
        size_bytes=tuple(float(_PACKET * n) for n, _ in points), part=tuple(p for _, p in points), source=source
    )


_TABLES: Final = "points as in github.com/HKUST-SING/TrafficGenerator, folder conf, in packets of 1500 B"
_HPCC: Final = "points as in the traffic generator of HPCC (github.com/alibaba-edu/High-Precision-Congestion-Control)"

FLOW_SIZES: Final = {
    "web-search": FlowSizes(
        size_bytes=(0, 10e3, 20e3, 30e3, 50e3, 80e3, 200e3, 1e6, 2e6, 5e6, 10e6, 30e6),
        part=(0, 0.15, 0.2, 0.3, 0.4, 0.53, 0.6, 0.7, 0.8, 0.9, 0.97, 1),
        source=f"Alizadeh et al., SIGCOMM 2010 (DCTCP); {_HPCC}",
    ),
    "data-mining": _packets(
        [(1, 0), (1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66667, 0.99), (666667, 1)],
        f"Greenberg et al., SIGCOMM 2009 (VL2); {_TABLES}",
    ),
    "cache": _packets(
        [(1, 0), (1, 0.36), (2, 0.4), (7, 0.46), (13, 0.5), (67, 0.6), (133, 0.7), (667, 0.78), (1333, 0.8), (2000, 0.9), (2667, 0.99),
         (33333, 1)],
        f"Roy et al., SIGCOMM 2015 (Facebook, cache); {_TABLES}",
    ),
    "hadoop": FlowSizes(
        size_bytes=(0, 100, 200, 300, 350, 400, 500, 600, 700, 1e3, 2e3, 7e3, 30e3, 50e3, 80e3, 120e3, 300e3, 1e6, 2e6, 10e6),
        part=(0, 0.01, 0.02, 0.05, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.67, 0.7, 0.72, 0.82, 0.87, 0.9, 0.95, 0.975, 0.99, 1),
        source=f"Roy et al., SIGCOMM 2015 (Facebook, Hadoop); {_HPCC}",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """All flows: source i offers ``flows`` of them; gaps, destinations and sizes by (source, number)."""

    n: int
    flows: int
    sizes: FlowSizes
    mean_gap_s: float
    seed: int

    @cached_property
    def drawn(self) -> tuple[Float64, Int64, Int64]:
        gap = np.empty((self.n, self.flows))
        to = np.empty((self.n, self.flows), dtype=np.int64)
        size = np.empty((self.n, self.flows), dtype=np.int64)
        for source in range(self.n):
            random = stream(self.seed, "workload", "datacenter-flows", str(source))
            gap[source] = random.exponential(self.mean_gap_s, self.flows)
            other = random.integers(0, self.n - 1, self.flows)
            to[source] = other + (other >= source)
            size[source] = np.maximum(np.rint(self.sizes.quantile(random.random(self.flows))), 1)
        return gap, to, size

    @cached_property
    def arriving(self) -> tuple[Int64, Int64]:
        """Flows in the order of destination, source, number, and where each destination's begin."""
        flat = self.drawn[1].ravel()
        order = np.argsort(flat, kind="stable")
        return order, np.searchsorted(flat[order], np.arange(self.n + 1))


@workload(
    "datacenter-flows",
    parameters=[
        ranks(32, "hosts", minimum=2),
        Parameter(name="sizes", kind="choice", choices=tuple(FLOW_SIZES), default="web-search", meaning="distribution of flow sizes"),
        Parameter(name="load", kind="number", default=0.5, meaning="mean rate that a host offers, over rate; below 1 to be stable"),
        Parameter(name="rate", kind="rate", default="100Gbps", meaning="of a host's link"),
        Parameter(name="flows", kind="int", default=100, meaning="that each host sends"),
        Parameter(name="seed", kind="int", default=0, minimum=0, meaning="of the random numbers"),
    ],
)  # fmt: skip
def datacenter_flows(*, n_ranks: int, sizes: str, load: float, rate: float, flows: int, seed: int) -> Workload:
    """Flows of published sizes between random hosts, offered as Poisson processes whatever the network does.

    {parameters}

    Notes
    -----
    Each host offers flows at exponential gaps of mean ``m / (load x rate)`` for a mean size m, each to another host, all equally likely.
    Sizes are drawn by inversion of the distribution, straight lines between its points: mean 1.71 MB (web-search), 7.67 MB (data-mining),
    936 kB (cache), 120 kB (hadoop). All receives stand from the start; at the end a host waits for all it sent and gets.

    Source: see `FLOW_SIZES` for each distribution; the arrivals are those of the papers on data centre transport since pFabric
    (Alizadeh et al., SIGCOMM 2013).

    Examples
    --------
    >>> datacenter_flows(n_ranks=4, flows=5).trace().n_rows
    44
    """
    if n_ranks * flows > _MOST_FLOWS:
        raise InputError(
            "workload datacenter-flows flows", f"all hosts' must be {_MOST_FLOWS:,} or less", got=f"{n_ranks * flows:,}"
        )
    law = FLOW_SIZES[sizes]
    draw = _Draw(n=n_ranks, flows=flows, sizes=law, mean_gap_s=law.mean_bytes / (load * rate), seed=seed)

    def script(rank: int) -> Script:
        gap, to, size = draw.drawn
        order, start = draw.arriving
        made = Script(rank)
        made.phase(0)
        requests = []
        for flow in order[start[rank] : start[rank + 1]].tolist():
            source, number = divmod(flow, flows)
            requests.append(made.irecv(source, int(size[source, number]), tag=number))
        for number in range(flows):
            made.compute(float(gap[rank, number]))
            requests.append(made.isend(int(to[rank, number]), int(size[rank, number]), tag=number))
        made.wait(*requests)
        return made

    return Workload(
        name="datacenter-flows",
        n_ranks=n_ranks,
        script=script,
        phases=["flows"],
        notes=[
            f"{sizes}: {law.source}; mean {law.mean_bytes:.4g} B",
            "gaps count from the start of the flow before, plus the time that sending takes the processor; none waits for another",
        ],
    )


@workload(
    "incast",
    parameters=[
        ranks(17, "a front end and its workers", minimum=2),
        Parameter(name="size", kind="bytes", default="64KiB", meaning="of an answer to one request"),
        Parameter(name="batch", kind="int", default=4, meaning="requests that a front end sends together"),
        Parameter(name="request", kind="bytes", default="1kB", minimum=0, meaning="of one request, to each worker"),
        Parameter(name="rounds", kind="int", default=20, meaning="one after the other"),
        Parameter(name="work", kind="time", default="0s", meaning="of a worker per batch"),
    ],
)  # fmt: skip
def incast(*, n_ranks: int, size: int, batch: int, request: int, rounds: int, work: float) -> Workload:
    """Requests that fan out to all workers, and answers that fan in at the front end's link.

    {parameters}

    Notes
    -----
    With w workers, requests of q bytes and answers of s bytes in batches of k, on a star of rate B with latency L and without software
    overheads, a round takes ``w k q/B + work + w k s/B + 2 L``.

    Source: partition and aggregate, as in Alizadeh et al., SIGCOMM 2010 (DCTCP), section 2; batching of requests as in serving systems.

    Examples
    --------
    >>> incast(n_ranks=3, rounds=1).trace().n_rows
    10
    """
    workers = range(1, n_ranks)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(rounds):
            made.phase(0)
            if rank:
                made.recv(0, batch * request)
                made.compute(work)
                made.phase(1)
                made.send(0, batch * size)
            else:
                made.wait(*[made.isend(worker, batch * request) for worker in workers])
                made.phase(1)
                made.wait(*[made.irecv(worker, batch * size) for worker in workers])
        return made

    return Workload(
        name="incast",
        n_ranks=n_ranks,
        script=script,
        phases=["requests", "answers"],
        notes=[
            "rank 0 is the front end; all workers take part in every request",
            "local work is the same on all workers",
        ],
    )
