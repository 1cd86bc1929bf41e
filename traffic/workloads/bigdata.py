"""Data processing: shuffles of map and reduce, stages of Spark, streams of Storm, and queries over four tiers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traces import Communicators
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload
from netsim.traffic.workloads.shapes import parts

__all__ = ["hadoop_shuffle", "olap", "spark", "storm"]


def _zipf(total: int, n: int, exponent: float | None) -> list[int]:
    """Whole shares of n, proportional to 1, 1/2^e, 1/3^e, ...; even without exponent.

    >>> _zipf(1100, 3, 1.0), _zipf(10, 3, None)
    ([600, 300, 200], [3, 3, 4])
    """
    if exponent is None:
        return parts(total, n)
    weights = [(i + 1) ** -exponent for i in range(n)]
    whole = math.fsum(weights)
    ends = [round(total * math.fsum(weights[: i + 1]) / whole) for i in range(n)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


@workload(
    "hadoop-shuffle",
    parameters=[
        ranks(8, "nodes"),
        Parameter(name="mappers", kind="int", default=32, meaning="map tasks, dealt to the nodes"),
        Parameter(name="reducers", kind="int", default=16, meaning="reduce tasks, dealt to the nodes"),
        Parameter(name="size", kind="bytes", default="10GB", meaning="of the output of all mappers"),
        Parameter(name="skew", kind="number", default=None, meaning="exponent of a Zipf law of the reducers' shares; even if not given"),
        Parameter(name="slots", kind="int", default=4, meaning="tasks that a node works on at once"),
        Parameter(name="map", kind="time", default="0s", meaning="of a map task"),
        Parameter(name="reduce", kind="time", default="0s", meaning="of a reduce task"),
    ],
)  # fmt: skip
def hadoop_shuffle(
    *,
    n_ranks: int,
    mappers: int,
    reducers: int,
    size: int,
    skew: float | None,
    slots: int,
    map: float,
    reduce: float,
) -> Workload:
    """Map and reduce: every reducer fetches its share from every mapper.

    {parameters}

    Notes
    -----
    Reducer r of R takes S_r bytes, S_r/M from each of M mappers: M x R flows, those within a node left out. Task i runs on node
    i mod n. If n divides M and R and shares are even, each node sends ``S (n-1)/n^2`` bytes and receives as many, and the shuffle takes
    that over the rate of its link. With skew the node of the first reducer is the last to finish.

    Source: Dean and Ghemawat, OSDI 2004; the shuffle as a coflow of M x R flows, Chowdhury and Stoica, HotNets 2012.

    Examples
    --------
    >>> hadoop_shuffle(n_ranks=2, mappers=2, reducers=2).trace().n_rows
    6
    """
    shares = [parts(total, mappers) for total in _zipf(size, reducers, skew)]

    def waves(tasks: int) -> int:
        return -(-tasks // slots)

    def script(rank: int) -> Script:
        made = Script(rank)
        made.phase(0)
        mine_map, mine_reduce = range(rank, mappers, n_ranks), range(rank, reducers, n_ranks)
        made.compute(map * waves(len(mine_map)))
        requests = [
            made.irecv(m % n_ranks, shares[r][m], tag=m * reducers + r)
            for m in range(mappers)
            for r in mine_reduce
            if m % n_ranks != rank
        ]
        requests += [
            made.isend(r % n_ranks, shares[r][m], tag=m * reducers + r)
            for m in mine_map
            for r in range(reducers)
            if r % n_ranks != rank
        ]
        if requests:
            made.wait(*requests)
        made.compute(reduce * waves(len(mine_reduce)))
        return made

    if mappers * reducers > 2**31 - 1:
        raise InputError("workload hadoop-shuffle mappers", "mappers x reducers must be below 2^31", got=mappers)
    return Workload(
        name="hadoop-shuffle",
        n_ranks=n_ranks,
        script=script,
        phases=["shuffle"],
        notes=[
            "a node starts its shuffle when all its map tasks are done, and its reduce tasks when it has all it takes",
            "all fetches of a node are offered at once; reading and writing disks is part of the tasks' time",
        ],
    )


@workload(
    "spark",
    parameters=[
        ranks(9, "a driver and executors", minimum=2),
        Parameter(name="stages", kind="int", default=3, meaning="of a job, each ending in a shuffle"),
        Parameter(name="size", kind="bytes", default="4GB", meaning="shuffled after the first stage"),
        Parameter(name="ratio", kind="number", default=0.5, meaning="of what a stage shuffles to what the one before did"),
        Parameter(name="broadcast", kind="bytes", default="100MB", minimum=0, meaning="of a variable that all executors get first"),
        Parameter(name="task", kind="bytes", default="10kB", minimum=0, meaning="that the driver sends an executor to start a stage"),
        Parameter(name="result", kind="bytes", default="1MB", minimum=0, meaning="that each executor returns at the end"),
        Parameter(name="jobs", kind="int", default=1, meaning="one after the other"),
        Parameter(name="work", kind="time", default="0s", meaning="of an executor per stage"),
    ],
)  # fmt: skip
def spark(
    *,
    n_ranks: int,
    stages: int,
    size: int,
    ratio: float,
    broadcast: int,
    task: int,
    result: int,
    jobs: int,
    work: float,
) -> Workload:
    """Spark: a broadcast, stages that end in shuffles among executors, and a collect at the driver.

    {parameters}

    Notes
    -----
    With e executors, per job: a bcast of V bytes to all; per stage s = 0, 1, ... a task message to each executor and an empty one
    back, then an all-to-all of ``S r^s / e`` bytes per executor, of which 1/e stays; at the end a gather of R bytes from each.

    Source: Zaharia et al., NSDI 2012 (stages end where a wide dependency needs a shuffle).

    Examples
    --------
    >>> spark(n_ranks=3, stages=2).trace().n_rows
    30
    """
    executors = n_ranks - 1
    shuffled = [round(size * ratio**s) for s in range(stages)]
    comms = Communicators.build(n_ranks=n_ranks, members=[list(range(1, n_ranks))], names=["executors"])
    slices = [parts(total, executors * executors) for total in shuffled]

    def job(made: Script, rank: int) -> None:
        made.phase(0)
        made.bcast(broadcast, 0)
        for stage in range(stages):
            made.phase(1)
            if rank == 0:
                made.wait(*[made.isend(executor, task, tag=stage) for executor in range(1, n_ranks)])
                made.wait(*[made.irecv(executor, 0, tag=stage) for executor in range(1, n_ranks)])
                continue
            made.recv(0, task, tag=stage)
            made.compute(work)
            made.phase(2)
            mine = slices[stage][(rank - 1) * executors : rank * executors]
            even = len(set(slices[stage])) == 1
            made.collective("alltoall", sum(mine), comm=1, vbytes=None if even else mine)
            made.phase(1)
            made.send(0, 0, tag=stage)
        made.phase(3)
        made.collective("gather", result if rank else 0, root=0, vbytes=None if rank else [0, *[result] * executors])

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(jobs):
            job(made, rank)
        return made

    return Workload(
        name="spark",
        n_ranks=n_ranks,
        script=script,
        comms=comms,
        phases=["broadcast", "scheduling", "shuffle", "collect"],
        notes=[
            "rank 0 is the driver; partitions are even, and a stage starts when the one before is over on all executors",
            "the broadcast is one bcast, whose algorithm the replay chooses, where Spark passes blocks around like BitTorrent",
        ],
    )


@workload(
    "storm",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks: the sum of tasks"),
        Parameter(name="tasks", kind="sizes", default=(2, 4, 2), meaning="of the spout and of each bolt after it"),
        Parameter(name="batch", kind="bytes", default="64kB", meaning="of the tuples that a spout task emits at once"),
        Parameter(name="interval", kind="time", default="1ms", meaning="between two batches of a spout task"),
        Parameter(name="batches", kind="int", default=100, meaning="of each spout task"),
        Parameter(name="selectivity", kind="number", default=1.0, meaning="bytes out per byte in, of each bolt"),
        Parameter(name="grouping", kind="choice", choices=("shuffle", "all"), default="shuffle", meaning="a share to each, or all"),
        Parameter(name="work", kind="time", default="0s", meaning="of a bolt task per batch of all its sources"),
    ],
)  # fmt: skip
def storm(
    *,
    n_ranks: int | None,
    tasks: Sequence[int],
    batch: int,
    interval: float,
    batches: int,
    selectivity: float,
    grouping: str,
    work: float,
) -> Workload:
    """Storm: a stream of batches from spouts through layers of bolts.

    {parameters}

    Notes
    -----
    With k_l tasks in layer l, a task of layer l sends each task of layer l+1 ``V_l / k_(l+1)`` bytes per batch (shuffle grouping), or V_l
    (all grouping); V_0 is the batch, V_(l+1) the selectivity times what a task of layer l+1 receives. A bolt works when the batch of all
    its sources has come. While work and transfers take less than the interval, bolts keep up, and the last batch is done one passage
    after it was emitted.

    Source: Toshniwal et al., SIGMOD 2014 (spouts, bolts, groupings).

    Examples
    --------
    >>> storm(tasks=(1, 2, 1), batches=2).n_ranks
    4
    """
    total = sum(tasks)
    if len(tasks) < 2:
        raise InputError("workload storm tasks", "needs a spout and a bolt", got="x".join(map(str, tasks)))
    if n_ranks is not None and n_ranks != total:
        raise InputError("workload storm n_ranks", f"must be the sum of tasks, {total}", got=n_ranks)
    first = [sum(tasks[:i]) for i in range(len(tasks) + 1)]
    messages: list[int] = []
    volume = float(batch)
    for layer in range(len(tasks) - 1):
        messages.append(round(volume / tasks[layer + 1] if grouping == "shuffle" else volume))
        volume = selectivity * messages[-1] * tasks[layer]

    def script(rank: int) -> Script:
        made = Script(rank)
        layer = next(i for i in range(len(tasks)) if rank < first[i + 1])
        sources = range(first[layer - 1], first[layer]) if layer else range(0)
        sinks = range(first[layer + 1], first[layer + 2]) if layer + 1 < len(tasks) else range(0)
        with made.repeat(batches):
            if sources:
                made.phase(layer - 1)
                made.wait(*[made.irecv(source, messages[layer - 1]) for source in sources])
            made.compute(work if layer else interval)
            if sinks:
                made.phase(layer)
                made.wait(*[made.isend(sink, messages[layer]) for sink in sinks])
        return made

    return Workload(
        name="storm",
        n_ranks=total,
        script=script,
        phases=[f"layer {i} to {i + 1}" for i in range(len(tasks) - 1)],
        notes=[
            "a spout emits a batch, waits until it is taken, and then for the interval; acknowledgements are left out",
            "bolts wait for a batch from each of their sources, where Storm takes tuples as they come",
        ],
    )


@workload(
    "olap",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks: the sum of tiers"),
        Parameter(name="tiers", kind="sizes", default=(4, 2, 4, 2), meaning="ranks of storage, cache, compute and accelerators"),
        Parameter(name="scan", kind="bytes", default="1GB", meaning="that a query reads"),
        Parameter(name="hit", kind="number", default=None, meaning="part of the scan that the cache holds, below 1; if not given, none"),
        Parameter(name="shuffle", kind="number", default=0.2, meaning="part of the scan that the compute ranks exchange"),
        Parameter(name="offload", kind="number", default=0.1, meaning="part of the scan that goes to the accelerators"),
        Parameter(name="chunks", kind="int", default=8, meaning="in which the scan moves"),
        Parameter(name="prefetch", kind="flag", default=True, meaning="storage sends the next chunk while the cache passes one on"),
        Parameter(name="queries", kind="int", default=1, meaning="one after the other"),
        Parameter(name="work", kind="time", default="0s", meaning="of a compute rank per query"),
    ],
)  # fmt: skip
def olap(
    *,
    n_ranks: int | None,
    tiers: Sequence[int],
    scan: int,
    hit: float | None,
    shuffle: float,
    offload: float,
    chunks: int,
    prefetch: bool,
    queries: int,
    work: float,
) -> Workload:
    """Analytic queries over four tiers: storage, cache, compute with a shuffle, accelerators.

    {parameters}

    Notes
    -----
    Per query of D bytes: ``(1 - h) D`` from storage to cache, D from cache to compute, an all-to-all of ``f D`` among compute ranks,
    ``g D`` from compute to accelerators and an empty answer. Ranks of a tier share its bytes evenly, with all ranks of the next.
    With transfers t1 from storage and t2 from cache, chunks c and prefetch, the scan takes ``(t1 + t2)/c + (c - 1)/c max(t1, t2)``;
    without, t1 + t2: the cache asks for a chunk when it has passed on the one before.

    Source: disaggregated analytic engines; the shuffle as in `hadoop_shuffle`; the law is that of a two-stage pipeline.

    Examples
    --------
    >>> olap(tiers=(1, 1, 1, 1), chunks=2).n_ranks
    4
    """
    if len(tiers) != 4:
        raise InputError("workload olap tiers", "must be 4 numbers", got="x".join(map(str, tiers)))
    total = sum(tiers)
    if n_ranks is not None and n_ranks != total:
        raise InputError("workload olap n_ranks", f"must be the sum of tiers, {total}", got=n_ranks)
    for name, value in (("hit", hit or 0.0), ("shuffle", shuffle), ("offload", offload)):
        if value >= 1 + (name != "hit"):
            raise InputError(f"workload olap {name}", f"must be below {1 + (name != 'hit')}", got=value)
    storage, cache, compute, accelerator = (range(sum(tiers[:i]), sum(tiers[: i + 1])) for i in range(4))
    missed = round((1 - (hit or 0.0)) * scan)

    def between(volume: int, sources: range, sinks: range) -> dict[tuple[int, int], int]:
        sizes = iter(parts(volume, len(sources) * len(sinks)))
        return {(a, b): next(sizes) for a in sources for b in sinks}

    fill = [between(v, storage, cache) for v in parts(missed, chunks)]
    read = [between(v, cache, compute) for v in parts(scan, chunks)]
    off = between(round(offload * scan), compute, accelerator)
    exchanged = parts(round(shuffle * scan), len(compute) ** 2)
    comms = Communicators.build(n_ranks=total, members=[list(compute)], names=["compute"])

    def take(made: Script, rank: int, flows: dict[tuple[int, int], int], tag: int) -> list[int]:
        return [made.irecv(a, size, tag=tag) for (a, b), size in flows.items() if b == rank]

    def give(made: Script, rank: int, flows: dict[tuple[int, int], int], tag: int) -> list[int]:
        return [made.isend(b, size, tag=tag) for (a, b), size in flows.items() if a == rank]

    def query(made: Script, rank: int) -> None:
        if rank in storage:
            made.phase(0)
            for c in range(chunks):
                if not prefetch:
                    made.wait(*[made.irecv(b, 0, tag=c) for b in cache])
                made.wait(*give(made, rank, fill[c], c))
        elif rank in cache:
            coming: list[int] = []
            for c in range(chunks):
                made.phase(0)
                if not prefetch:
                    made.wait(*[made.isend(a, 0, tag=c) for a in storage])
                if not prefetch or c == 0:
                    coming = take(made, rank, fill[c], c)
                made.wait(*coming)
                coming = take(made, rank, fill[c + 1], c + 1) if prefetch and c + 1 < chunks else []
                made.phase(1)
                made.wait(*give(made, rank, read[c], c))
        elif rank in compute:
            made.phase(1)
            for c in range(chunks):
                made.wait(*take(made, rank, read[c], c))
            made.compute(work)
            made.phase(2)
            i = rank - compute.start
            mine = exchanged[i * len(compute) : (i + 1) * len(compute)]
            even = len(set(exchanged)) == 1
            made.collective("alltoall", sum(mine), comm=1, vbytes=None if even else mine)
            made.phase(3)
            made.wait(*give(made, rank, off, chunks))
            made.wait(*[made.irecv(b, 0, tag=chunks) for b in accelerator])
        else:
            made.phase(3)
            made.wait(*take(made, rank, off, chunks))
            made.wait(*[made.isend(a, 0, tag=chunks) for a in compute])

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(queries):
            query(made, rank)
        return made

    return Workload(
        name="olap",
        n_ranks=total,
        script=script,
        comms=comms,
        phases=["storage to cache", "cache to compute", "shuffle", "offload"],
        notes=[
            "ranks in the order storage, cache, compute, accelerators; " + " ".join(map(str, tiers)),
            "disks are as fast as the network; a query may start on storage before the one before is over on compute",
        ],
    )
