"""Chains of tasks with images to load, and programs that save their state."""

from __future__ import annotations

import math

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.registry import ranks, workload

__all__ = ["checkpoint", "checkpoint_interval", "workflow"]


@workload(
    "workflow",
    parameters=[
        Parameter(name="n_ranks", kind="int", default=None, meaning="number of ranks: a registry and width x (tasks - fused)"),
        Parameter(name="tasks", kind="int", default=5, meaning="stages of the chain"),
        Parameter(name="width", kind="int", default=1, meaning="ranks of each stage; each sends to all of the next"),
        Parameter(name="time", kind="time", default="100ms", meaning="of a task"),
        Parameter(name="transfer", kind="bytes", default="10MB", minimum=0, meaning="that a rank sends to each rank of the next stage"),
        Parameter(name="image", kind="bytes", default="50MB", minimum=0, meaning="that each rank loads before it can start"),
        Parameter(name="fused", kind="int", default=0, minimum=0, meaning="stages that run with the one before, from the first on"),
        Parameter(name="preload", kind="flag", default=False, meaning="images are loaded at the start, not when a stage is due"),
        Parameter(name="runs", kind="int", default=1, meaning="of the chain, with one loading of images"),
    ],
)  # fmt: skip
def workflow(
    *,
    n_ranks: int | None,
    tasks: int,
    width: int,
    time: float,
    transfer: int,
    image: int,
    fused: int,
    preload: bool,
    runs: int,
) -> Workload:
    """Workflow of services: a chain of tasks that load images, with stages fused or images preloaded.

    {parameters}

    Notes
    -----
    With k tasks of time t, f of them fused, width 1, transfers x and images m, on a star of rate B, without latency: a run takes ``k t +
    (k - f - 1) x/B``, and the first one ``(k - f) m/B`` more when images are loaded in turn. Fusing a stage saves x/B and an image.
    Preloading sends the images in the order of the stages from the start, one stage after the other: stage i has its own after
    (i + 1) m/B. If a stage takes longer than loading an image, only the first image counts.

    Source: node fusion and image preloading as in Hu et al., ICPADS 2021 (unikernels); the law is the critical path of a chain.

    Examples
    --------
    >>> workflow(tasks=3, fused=1).n_ranks
    3
    """
    if fused >= tasks:
        raise InputError("workload workflow fused", f"must be below the number of tasks, {tasks}", got=fused)
    stages = tasks - fused
    total = 1 + width * stages
    if n_ranks is not None and n_ranks != total:
        raise InputError("workload workflow n_ranks", f"must be 1 + width x (tasks - fused), {total}", got=n_ranks)

    def of_stage(stage: int) -> range:
        return range(1 + stage * width, 1 + (stage + 1) * width) if 0 <= stage < stages else range(0)

    def load(made: Script) -> None:
        made.phase(0)
        if not preload:
            made.send(0, 0)
        made.recv(0, image)

    def registry(made: Script) -> None:
        made.phase(0)
        for stage in range(stages):
            if not preload:
                made.wait(*[made.irecv(rank, 0) for rank in of_stage(stage)])
            made.wait(*[made.isend(rank, image) for rank in of_stage(stage)])

    def script(rank: int) -> Script:
        made = Script(rank)
        if rank == 0:
            registry(made)
            return made
        stage = (rank - 1) // width
        for run in range(runs):
            if run == 0 and preload:
                load(made)
            if stage:
                made.phase(1)
                made.wait(*[made.irecv(peer, transfer) for peer in of_stage(stage - 1)])
            if run == 0 and not preload:
                load(made)
            made.phase(1)
            made.compute(time * (1 + fused if stage == 0 else 1))
            if stage + 1 < stages:
                made.wait(*[made.isend(peer, transfer) for peer in of_stage(stage + 1)])
        return made

    return Workload(
        name="workflow",
        n_ranks=total,
        script=script,
        phases=["images", "data"],
        notes=[
            "rank 0 is the registry of images; each rank runs one stage, the first one all that are fused",
            "a stage starts when it has the data of all ranks of the one before" + ("" if preload else ", then loads its image"),
        ],
    )  # fmt: skip


def checkpoint_interval(*, cost_s: float, mean_time_between_failures_s: float) -> float:
    """Work between two checkpoints that loses least time: sqrt(2 C M), for C much below M.

    Source: J. W. Young, Comm. ACM 17(9), 1974.

    Parameters
    ----------
    cost_s : float
        C, time of a checkpoint, in seconds.
    mean_time_between_failures_s : float
        M, in seconds.

    Examples
    --------
    >>> checkpoint_interval(cost_s=20.0, mean_time_between_failures_s=36000.0)
    1200.0
    """
    for name, value in (("cost", cost_s), ("mean time between failures", mean_time_between_failures_s)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"checkpoint {name}", "must be finite and above 0 s", got=value)
    return math.sqrt(2 * cost_s * mean_time_between_failures_s)


@workload(
    "checkpoint",
    parameters=[
        ranks(20, "storage ranks, which come first, and compute ranks", minimum=2),
        Parameter(name="storage", kind="int", default=4, meaning="storage ranks"),
        Parameter(name="size", kind="bytes", default="1GB", meaning="that a compute rank saves"),
        Parameter(name="interval", kind="time", default="1s", meaning="of work between two checkpoints"),
        Parameter(name="checkpoints", kind="int", default=3, meaning="in all"),
        Parameter(name="restart", kind="flag", default=False, meaning="the state is read back first"),
        Parameter(name="disk", kind="rate", default=None, meaning="rate of a storage rank; if not given, as fast as it comes"),
    ],
)  # fmt: skip
def checkpoint(
    *, n_ranks: int, storage: int, size: int, interval: float, checkpoints: int, restart: bool, disk: float | None
) -> Workload:
    """Checkpoints: all compute ranks stop, and save their state to a few storage ranks.

    {parameters}

    Notes
    -----
    Compute rank i saves to storage rank i mod s. A checkpoint of c ranks that s divides takes ``c/s S/B`` on a star of rate B, and
    ``c/s S/D`` more to disks of rate D; then an empty message lets each go on. How often to save: see `checkpoint_interval`.

    Source: coordinated checkpointing; Young, Comm. ACM 17(9), 1974.

    Examples
    --------
    >>> checkpoint(n_ranks=3, storage=1, checkpoints=1).trace().n_rows
    10
    """
    if storage >= n_ranks:
        raise InputError(
            "workload checkpoint storage", "must leave a compute rank", got=f"{storage} of {n_ranks} ranks"
        )

    def write_time(count: int) -> float:
        return 0.0 if disk is None else count * size / disk

    def script(rank: int) -> Script:
        made = Script(rank)
        mine = range(storage + rank, n_ranks, storage)
        if restart:
            made.phase(1)
            if rank >= storage:
                made.recv((rank - storage) % storage, size)
            elif mine:
                made.compute(write_time(len(mine)))
                made.wait(*[made.isend(peer, size) for peer in mine])
        made.phase(0)
        with made.repeat(checkpoints):
            if rank >= storage:
                made.compute(interval)
                made.send((rank - storage) % storage, size)
                made.recv((rank - storage) % storage, 0)
            elif mine:
                made.wait(*[made.irecv(peer, size) for peer in mine])
                made.compute(write_time(len(mine)))
                made.wait(*[made.isend(peer, 0) for peer in mine])
        return made

    return Workload(
        name="checkpoint",
        n_ranks=n_ranks,
        script=script,
        phases=["save", "restart"] if restart else ["save"],
        notes=[
            f"ranks 0 to {storage - 1} are storage; no failures happen here",
            "disks are written when all has arrived" if disk is not None else "disks take no time (give disk=)",
        ],
    )
