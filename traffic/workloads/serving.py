"""Serving of language models: prefill and decode on separate ranks, and live migration of what they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traces import Communicators
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.models import model_shape
from netsim.traffic.workloads.registry import ranks, workload

__all__ = ["kv_migration", "llm_serving", "migration_rounds"]

_HALF = 2


@workload(
    "llm-serving",
    parameters=[
        ranks(8, "tensor x (prefill + decode instances)", minimum=2),
        Parameter(name="model", kind="text", default="llama-2-7b", meaning="shape: see netsim.traffic.workloads.MODELS"),
        Parameter(name="tensor", kind="int", default=1, meaning="ranks of an instance"),
        Parameter(name="prefill", kind="int", default=None, meaning="prefill instances; by default half"),
        Parameter(name="requests", kind="int", default=16, meaning="in all"),
        Parameter(name="prompt", kind="int", default=512, meaning="tokens of a request's prompt"),
        Parameter(name="output", kind="int", default=64, meaning="tokens of an answer"),
        Parameter(name="batch", kind="int", default=4, meaning="requests that an instance decodes together"),
        Parameter(name="flops_per_s", kind="number", default=150e12, meaning="speed of a rank, which bounds prefill"),
        Parameter(name="memory", kind="rate", default="1.5TB/s", meaning="memory rate of a rank, which bounds decoding"),
    ],
)  # fmt: skip
def llm_serving(
    *,
    n_ranks: int,
    model: str,
    tensor: int,
    prefill: int | None,
    requests: int,
    prompt: int,
    output: int,
    batch: int,
    flops_per_s: float,
    memory: float,
) -> Workload:
    """Serving of a transformer with prefill and decoding on separate instances: the KV cache moves between them.

    {parameters}

    Notes
    -----
    Requests are dealt to prefill and decode instances in turn. For each, the prefill instance computes the prompt (two allreduce of
    2 s h B per layer among its t ranks) and each of its ranks sends its share of keys and values: ``4 layers kv_heads head_dim s / t``
    bytes, to the rank of the same index of the decode instance. That decodes its requests in batches of b: per token and layer two
    allreduce of 2 b h B. Decoding reads all weights once per token of a batch.

    Source: the split of prefill and decoding of Zhong et al., OSDI 2024 (DistServe) and Patel et al., ISCA 2024 (Splitwise); bytes from the
    shape of the model, see `MODELS`.

    Examples
    --------
    >>> work = llm_serving(n_ranks=4, model="test-gpt", tensor=2, requests=2, batch=1, prompt=8, output=3)
    >>> work.phases
    ['tensor', 'KV cache']
    """
    name = "workload llm-serving"
    shape = model_shape(model)
    if n_ranks % tensor or n_ranks // tensor < 2:
        raise InputError(f"{name} n_ranks", f"must be two or more times tensor, {tensor}", got=n_ranks)
    if shape.heads % tensor:
        raise InputError(f"{name} tensor", f"must divide the {shape.heads} heads of the model", got=tensor)
    instances = n_ranks // tensor
    first = instances // 2 if prefill is None else prefill
    if first >= instances:
        raise InputError(f"{name} prefill", "must leave an instance to decode", got=f"{first} of {instances}")
    second = instances - first
    if requests < max(first, second):
        rule = f"must give each of the {max(first, second)} instances one"
        raise InputError(f"{name} requests", rule, got=requests)
    cache = -(-shape.kv_bytes_per_token * prompt // tensor)
    weights = _HALF * (shape.parameters - shape.embedding_parameters) / tensor
    prompt_s = (shape.layers * shape.layer_flops(prompt, prompt) + shape.output_flops(1)) / tensor / flops_per_s
    members = [[i * tensor + t for t in range(tensor)] for i in range(instances)] if tensor > 1 else []
    comms = Communicators.build(n_ranks=n_ranks, members=members, names=[f"instance {i}" for i in range(len(members))])
    phases = (["tensor"] if tensor > 1 else []) + ["KV cache"]
    kv = len(phases) - 1

    def share_layers(made: Script, instance: int, tokens: int, seconds: float) -> None:
        if tensor == 1:
            made.compute(seconds)
            return
        made.phase(0)
        with made.repeat(shape.layers):
            for _ in range(2):
                made.compute(seconds / shape.layers / 2)
                made.allreduce(_HALF * tokens * shape.hidden, comm=1 + instance)

    def script(rank: int) -> Script:
        made = Script(rank)
        instance, t = divmod(rank, tensor)
        made.phase(kv)
        if instance < first:
            for request in range(instance, requests, first):
                share_layers(made, instance, prompt, prompt_s)
                made.phase(kv)
                made.send((first + request % second) * tensor + t, cache, tag=request)
            return made
        mine = list(range(instance - first, requests, second))
        for start in range(0, len(mine), batch):
            together = mine[start : start + batch]
            made.phase(kv)
            made.wait(*[made.irecv(request % first * tensor + t, cache, tag=request) for request in together])
            with made.repeat(output):
                share_layers(made, instance, len(together), weights / memory)
        return made

    return Workload(
        name="llm-serving",
        n_ranks=n_ranks,
        script=script,
        comms=comms,
        phases=phases,
        notes=[
            f"{model} ({shape.source}): {shape.kv_bytes_per_token} B of keys and values per token; "
            f"{first} prefill and {second} decode instances of {tensor} ranks",
            "all requests are there at the start and have the same lengths; a batch is decoded to its end before the next",
            "a prefill instance waits until its cache is taken; reading the cache takes no time beside the weights",
        ],
        source={"model": model},
    )


def migration_rounds(*, size: float, rate: float, dirty: float, pause: float) -> list[float]:
    """Bytes of each round of a pre-copy migration, the last one sent while all stands still.

    V_0 is all of it; while round k is sent, at rate B, V_(k+1) = V_k r/B are written anew at rate r; when V_k/B is less than the pause
    that is allowed, the writer stops and the rest is sent. The rounds before it take V_0/B (1 - (r/B)^K) / (1 - r/B) for K of them.

    Parameters
    ----------
    size : float
        Bytes.
    rate, dirty : float
        Bytes per second sent, and written anew; ``dirty`` must be below ``rate``.
    pause : float
        Longest pause, in seconds, above 0.

    Examples
    --------
    8 GB at 100 Gb/s, 0.2 GB/s written: two rounds in 650 ms, then a pause of 164 us.

    >>> [round(v) for v in migration_rounds(size=8e9, rate=12.5e9, dirty=0.2e9, pause=10e-3)]
    [8000000000, 128000000, 2048000]
    """
    if not dirty < rate:
        rule = f"must be below the rate of the migration, {rate:g} B/s, or it never ends"
        raise InputError("migration dirty", rule, got=f"{dirty:g} B/s")
    if not pause > 0:
        raise InputError("migration pause", "must be above 0 s", got=pause)
    found = [float(size)]
    while found[-1] / rate >= pause:
        found.append(found[-1] * dirty / rate)
    return found


@workload(
    "kv-migration",
    parameters=[
        ranks(2, "the first half moves to the second half", minimum=2),
        Parameter(name="size", kind="bytes", default="8GB", meaning="that each rank holds"),
        Parameter(name="rate", kind="rate", default="100Gbps", meaning="that a rank can count on"),
        Parameter(name="dirty", kind="rate", default="0.2GB/s", meaning="written anew while it moves"),
        Parameter(name="pause", kind="time", default="10ms", meaning="longest pause"),
    ],
)  # fmt: skip
def kv_migration(*, n_ranks: int, size: int, rate: float, dirty: float, pause: float) -> Workload:
    """Live migration of KV caches by pre-copy: rounds of what was written anew, then a short pause.

    {parameters}

    Notes
    -----
    Rounds and their sum: see `migration_rounds`. They are fixed by the rate that is counted on; on a slower network each takes longer than
    planned, and more would be written than the rounds send.

    Source: pre-copy of Clark et al., NSDI 2005 (live migration of virtual machines); its use for pipelines of language models in PipeLive
    (arXiv:2604.12171).

    Examples
    --------
    >>> kv_migration(n_ranks=4).trace().n_rows
    12
    """
    if n_ranks % 2:
        raise InputError("workload kv-migration n_ranks", "must be even", got=n_ranks)
    rounds: Sequence[float] = migration_rounds(size=size, rate=rate, dirty=dirty, pause=pause)
    half = n_ranks // 2

    def script(rank: int) -> Script:
        made = Script(rank)
        for number, volume in enumerate(rounds):
            made.phase(0 if number < len(rounds) - 1 else len(phases) - 1)
            if rank < half:
                made.send(rank + half, math.ceil(volume), tag=number)
            else:
                made.recv(rank - half, math.ceil(volume), tag=number)
        return made

    phases = ["pre-copy", "pause"] if len(rounds) > 1 else ["pause"]
    return Workload(
        name="kv-migration",
        n_ranks=n_ranks,
        script=script,
        phases=phases,
        notes=[
            f"{len(rounds) - 1} rounds before the pause, as planned for {rate:g} B/s; writing goes on at a steady rate",
            "requests served meanwhile are left out",
        ],
    )
