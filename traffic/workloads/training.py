"""Training of neural networks: transformers in four kinds of parallelism, recommendation models, and parameter servers."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.core.errors import InputError
from netsim.core.parameters import Parameter
from netsim.traces import Communicators
from netsim.traffic.workload import Script, Workload
from netsim.traffic.workloads.models import ModelShape, model_shape
from netsim.traffic.workloads.registry import ranks, workload
from netsim.traffic.workloads.shapes import part, parts

__all__ = ["dlrm", "llm_training", "parameter_server", "pipeline_order"]

_FLOAT = 4
_HALF = 2


def pipeline_order(*, stages: int, stage: int, microbatches: int) -> list[tuple[str, int]]:
    """What a stage does in the schedule 1F1B: ("forward" or "backward", micro-batch), in order.

    Source: Narayanan et al., SC 2021, section 2.2.1: warm-up forwards, one forward and one backward in turn, and the backwards
    that are left.

    Parameters
    ----------
    stages, stage, microbatches : int

    Examples
    --------
    >>> [f"{kind[0]}{number}" for kind, number in pipeline_order(stages=3, stage=0, microbatches=4)]
    ['f0', 'f1', 'f2', 'b0', 'f3', 'b1', 'b2', 'b3']
    """
    ahead = min(stages - stage - 1, microbatches)
    order = [("forward", i) for i in range(ahead)]
    for i in range(microbatches - ahead):
        order += [("forward", ahead + i), ("backward", i)]
    return order + [("backward", i) for i in range(microbatches - ahead, microbatches)]


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Ranks of a job: tensor parallel index fastest, then data parallel, then pipeline stage."""

    tensor: int
    data: int
    pipeline: int
    expert: int

    def at(self, rank: int) -> tuple[int, int, int]:
        """Tensor index, data index, stage."""
        return rank % self.tensor, rank // self.tensor % self.data, rank // (self.tensor * self.data)

    def rank(self, t: int, d: int, s: int) -> int:
        return (s * self.data + d) * self.tensor + t

    @property
    def n(self) -> int:
        return self.tensor * self.data * self.pipeline

    def groups(self) -> tuple[Communicators, dict[str, dict[int, int]]]:
        """Communicators, and for each kind the number of that of a rank, if it has one."""
        members: list[list[int]] = []
        names: list[str] = []
        number: dict[str, dict[int, int]] = {"tensor": {}, "data": {}, "expert": {}, "expert data": {}}

        def add(kind: str, group: list[int]) -> None:
            if len(group) > 1:
                members.append(group)
                names.append(f"{kind} of {group[0]}")
                for rank in group:
                    number[kind][rank] = len(members)

        for s in range(self.pipeline):
            for d in range(self.data):
                add("tensor", [self.rank(t, d, s) for t in range(self.tensor)])
            for t in range(self.tensor):
                add("data", [self.rank(t, d, s) for d in range(self.data)])
                for first in range(0, self.data, self.expert):
                    add("expert", [self.rank(t, first + e, s) for e in range(self.expert)])
                if self.expert > 1:
                    for e in range(self.expert):
                        add("expert data", [self.rank(t, d, s) for d in range(e, self.data, self.expert)])
        comms = Communicators.build(n_ranks=self.n, members=members, names=names)
        return comms, number


def _layout(shape: ModelShape, *, n_ranks: int, tensor: int, pipeline: int, expert: int, zero: int) -> _Layout:
    name = "workload llm-training"
    if n_ranks % (tensor * pipeline):
        rule = f"must be a multiple of tensor x pipeline, {tensor * pipeline}"
        raise InputError(f"{name} n_ranks", rule, got=n_ranks)
    data = n_ranks // (tensor * pipeline)
    if shape.heads % tensor or shape.ffn % tensor:
        raise InputError(f"{name} tensor", f"must divide the {shape.heads} heads of the model", got=tensor)
    if pipeline > shape.layers:
        raise InputError(f"{name} pipeline", f"must be at most the {shape.layers} layers of the model", got=pipeline)
    if data % expert or shape.experts % expert:
        rule = f"must divide the {data} data-parallel ranks and the {shape.experts} experts of the model"
        raise InputError(f"{name} expert", rule, got=expert)
    if zero >= 2 and pipeline > 1:
        raise InputError(f"{name} zero", "stages 2 and 3 do not go with a pipeline", got=zero, remedy="take zero=1")
    return _Layout(tensor=tensor, data=data, pipeline=pipeline, expert=expert)


@workload(
    "llm-training",
    parameters=[
        ranks(16, "tensor x data x pipeline; data parallelism is what is left"),
        Parameter(name="model", kind="text", default="gpt-1.7b", meaning="shape: see netsim.traffic.workloads.MODELS"),
        Parameter(name="tensor", kind="int", default=1, meaning="ranks that share each layer"),
        Parameter(name="pipeline", kind="int", default=1, meaning="stages of layers"),
        Parameter(name="expert", kind="int", default=1, meaning="data-parallel ranks that share the experts of a layer"),
        Parameter(name="zero", kind="choice", choices=("0", "1", "2", "3"), default="0", meaning="ZeRO stage of data parallelism"),
        Parameter(name="microbatches", kind="int", default=4, meaning="of a data-parallel rank per iteration"),
        Parameter(name="microbatch", kind="int", default=1, meaning="sequences of a micro-batch"),
        Parameter(name="sequence", kind="int", default=None, meaning="tokens of a sequence, if not that of the model"),
        Parameter(name="iterations", kind="int", default=1, meaning="of training"),
        Parameter(name="flops_per_s", kind="number", default=150e12, meaning="speed of a rank that the work reaches"),
        Parameter(name="recompute", kind="flag", default=False, meaning="activations are computed again on the way back"),
        Parameter(name="gradient", kind="bytes", default="2B", meaning="of a gradient on the network"),
    ],
)  # fmt: skip
def llm_training(
    *,
    n_ranks: int,
    model: str,
    tensor: int,
    pipeline: int,
    expert: int,
    zero: str,
    microbatches: int,
    microbatch: int,
    sequence: int | None,
    iterations: int,
    flops_per_s: float,
    recompute: bool,
    gradient: int,
) -> Workload:
    """Training of a transformer with tensor, pipeline, data and expert parallelism and ZeRO.

    {parameters}

    Notes
    -----
    With b sequences of s tokens in a micro-batch, width h, tensor parallelism t, pipeline p, data parallelism d, m micro-batches:

    - tensor: per layer and micro-batch two allreduce of 2 b s h B forward and two backward, two more with ``recompute``;
    - pipeline: 2 b s h B per micro-batch and border of stages, forward and backward, in the order 1F1B, between ranks of the same
      other indices;
    - expert: per layer and micro-batch an all-to-all of 2 k b s h B to the experts and one back, forward and again backward, for k
      experts per token;
    - data: of the P parameters of a rank, per iteration an allreduce of their gradients (``zero=0``), or a reduce-scatter of them and
      an allgather of 2 P B (1 and 2). With 3 each layer's parameters are gathered before it is used, forward and backward, in each
      micro-batch, and gradients are reduce-scattered at the end. Expert parameters are reduced among the ranks that have the same experts.

    Local work is 2 operations per weight and token forward and twice that backward, and 4 s h per token and layer for attention. On
    an ideal network and with equal stages an iteration takes as long as a stage needs for m + p - 1 micro-batches: the bubble is
    (p - 1)/m of the useful time. The output layer makes the last stage longer.

    Source: Narayanan et al., SC 2021 (arXiv:2104.04473), sections 2 and 3 and appendix; Shoeybi et al., 2019 (arXiv:1909.08053); for
    ZeRO, Rajbhandari et al., SC 2020 (arXiv:1910.02054), section 7; shapes: see `MODELS`.

    Examples
    --------
    >>> work = llm_training(n_ranks=8, model="test-gpt", tensor=2, pipeline=2)
    >>> work.comms.n, work.phases
    (9, ['tensor', 'pipeline', 'data'])
    """
    shape = model_shape(model)
    stage_of_zero = int(zero)
    layout = _layout(shape, n_ranks=n_ranks, tensor=tensor, pipeline=pipeline, expert=expert, zero=stage_of_zero)
    tokens = microbatch * (shape.sequence if sequence is None else sequence)
    seq = shape.sequence if sequence is None else sequence
    activation = _HALF * tokens * shape.hidden
    comms, comm_of = layout.groups()
    kinds = [
        *(["tensor"] if tensor > 1 else []),
        *(["pipeline"] if pipeline > 1 else []),
        *(["expert"] if expert > 1 else []),
        "data",
    ]
    number = {kind: i for i, kind in enumerate(kinds)}
    forward_s = shape.layer_flops(tokens, seq) / tensor / flops_per_s
    output_s = shape.output_flops(tokens) / tensor / flops_per_s
    dense = -(-shape.dense_parameters // tensor)
    experts = -(-shape.expert_parameters // (tensor * expert))

    def layers(made: Script, rank: int, count: int, *, times: int, gathers: int) -> None:
        """So many layers of a micro-batch: ``times`` the work of a forward, allreduce and all-to-all as forward or backward need."""
        passes = 2 if times == 3 else 1  # Recomputing repeats the forward's communication.
        with made.repeat(count):
            if gathers and stage_of_zero == 3 and layout.data > 1:
                gather(made, rank, dense, experts)
            for half in range(2):
                made.compute(forward_s * times / 2)
                if half and expert > 1:
                    made.phase(number["expert"])
                    for _ in range(2 * passes):
                        made.alltoall(shape.top_k * activation, comm=comm_of["expert"][rank])
                if tensor > 1:
                    made.phase(number["tensor"])
                    for _ in range(passes):
                        made.allreduce(activation, comm=comm_of["tensor"][rank])

    def gather(made: Script, rank: int, shared: int, own: int) -> None:
        for kind, count in (("data", shared), ("data" if expert == 1 else "expert data", own)):
            comm = comm_of[kind].get(rank, 0)
            if count and comm:
                made.phase(number["data"])
                made.allgather(-(-_HALF * count // comms.size(comm)), comm=comm)

    def reduce(made: Script, rank: int, shared: int, own: int) -> None:
        for kind, count in (("data", shared), ("data" if expert == 1 else "expert data", own)):
            comm = comm_of[kind].get(rank, 0)
            if not count or not comm:
                continue
            made.phase(number["data"])
            if stage_of_zero == 0:
                made.allreduce(gradient * count, comm=comm)
                continue
            made.reduce_scatter(-(-gradient * count // comms.size(comm)), comm=comm)
            if stage_of_zero < 3:
                made.allgather(-(-_HALF * count // comms.size(comm)), comm=comm)

    def script(rank: int) -> Script:
        made = Script(rank)
        t, d, s = layout.at(rank)
        count = part(shape.layers, pipeline, s)
        first, last = s == 0, s == pipeline - 1
        before = layout.rank(t, d, s - 1)
        after = layout.rank(t, d, s + 1)
        ends = (shape.embedding_parameters if first else 0) + (shape.output_parameters if last else 0)
        with made.repeat(iterations):
            sent: list[int] = []
            made.phase(number["data"])
            for kind, mb in pipeline_order(stages=pipeline, stage=s, microbatches=microbatches):
                forward = kind == "forward"
                source, target = (before, after) if forward else (after, before)
                if not (first if forward else last):
                    made.phase(number["pipeline"])
                    made.recv(source, activation, tag=2 * mb + (not forward))
                if last and not forward:
                    made.compute(2 * output_s)
                layers(made, rank, count, times=1 if forward else 3 if recompute else 2, gathers=1)
                if last and forward:
                    made.compute(output_s)
                if not (last if forward else first):
                    made.phase(number["pipeline"])
                    sent.append(made.isend(target, activation, tag=2 * mb + (not forward)))
            if sent:
                made.wait(*sent)
            made.phase(number["data"])
            reduce(made, rank, count * dense + -(-ends // tensor), count * experts)
        return made

    return Workload(
        name="llm-training",
        n_ranks=n_ranks,
        script=script,
        comms=comms,
        phases=kinds,
        notes=[
            f"{model}: {shape.parameters / 1e9:.4g} billion parameters ({shape.source}); "
            f"tensor {tensor}, data {layout.data}, pipeline {pipeline}, expert {expert}, ZeRO {zero}",
            "communication overlaps with work only where stages do; tokens go to experts evenly; the optimiser takes no time",
            "parameters are shared evenly, rounded up; embeddings and output layer are not gathered by ZeRO 3; "
            "gradients of an output layer shared by first and last stage are not summed",
        ],
        source={"model": model},
    )


@workload(
    "dlrm",
    parameters=[
        ranks(8),
        Parameter(name="tables", kind="int", default=26, meaning="embedding tables, dealt to the ranks"),
        Parameter(name="dim", kind="int", default=64, meaning="numbers of an embedding"),
        Parameter(name="batch", kind="int", default=2048, meaning="samples of all ranks per iteration"),
        Parameter(name="mlp", kind="int", default=2_000_000, meaning="parameters of the dense layers, which all ranks have"),
        Parameter(name="iterations", kind="int", default=10, meaning="of training"),
        Parameter(name="work", kind="time", default="0s", meaning="of a rank forward, and again backward"),
    ],
)  # fmt: skip
def dlrm(*, n_ranks: int, tables: int, dim: int, batch: int, mlp: int, iterations: int, work: float) -> Workload:
    """Recommendation model: embeddings by all-to-all-v forward and backward, an allreduce of the dense layers.

    {parameters}

    Notes
    -----
    Tables are split among the ranks, samples too. Rank i has T_i tables and sends rank j, for its B_j samples, ``4 D T_i B_j`` bytes
    forward, and gets gradients of the same size backward. If n divides batch and tables, a rank sends ``4 D T B (n-1)/n^2`` each way.
    Dense layers: an allreduce of 4 B per parameter.

    Source: Naumov et al., 2019 (arXiv:1906.00091), section on parallelism; 26 tables are those of the Criteo data sets.

    Examples
    --------
    >>> dlrm(n_ranks=4, iterations=1).trace().n_rows
    12
    """
    own, samples = parts(tables, n_ranks), parts(batch, n_ranks)

    def exchange(made: Script, phase: int, sizes: list[int]) -> None:
        made.phase(phase)
        made.compute(work)
        made.collective("alltoall", sum(sizes), vbytes=sizes)

    def script(rank: int) -> Script:
        made = Script(rank)
        with made.repeat(iterations):
            exchange(made, 0, [_FLOAT * dim * own[rank] * b for b in samples])
            exchange(made, 1, [_FLOAT * dim * t * samples[rank] for t in own])
            made.phase(2)
            made.allreduce(_FLOAT * mlp)
        return made

    return Workload(
        name="dlrm",
        n_ranks=n_ranks,
        script=script,
        phases=["embeddings", "gradients", "dense layers"],
        notes=[
            "one pooled embedding per sample and table; indices are where their tables are",
            "local work is the same on all ranks" if work else "no local work: communication alone (give work=)",
        ],
    )


@workload(
    "parameter-server",
    parameters=[
        ranks(9, "servers, which come first, and workers", minimum=2),
        Parameter(name="servers", kind="int", default=1, meaning="that share the parameters"),
        Parameter(name="size", kind="bytes", default="100MB", meaning="of the parameters"),
        Parameter(name="iterations", kind="int", default=10, meaning="of training"),
        Parameter(name="work", kind="time", default="0s", meaning="of a worker per iteration"),
    ],
)  # fmt: skip
def parameter_server(*, n_ranks: int, servers: int, size: int, iterations: int, work: float) -> Workload:
    """Synchronous parameter servers: all workers push gradients, then pull parameters.

    {parameters}

    Notes
    -----
    With w workers and k servers a worker sends and receives S bytes per iteration, S/k to and from each server; a server w S/k each
    way, 2 w S in all. On a star of rate B with latency L, without software overheads: ``work + 2 max(w/k, 1) S/B + 2 L`` where k divides S.

    Source: Li et al., OSDI 2014, in the synchronous form.

    Examples
    --------
    >>> parameter_server(n_ranks=3, iterations=1).trace().n_rows
    14
    """
    if servers >= n_ranks:
        raise InputError(
            "workload parameter-server servers", "must leave a worker", got=f"{servers} of {n_ranks} ranks"
        )
    shares = parts(size, servers)
    workers = range(servers, n_ranks)

    def script(rank: int) -> Script:
        made = Script(rank)
        server = rank < servers
        peers = list(workers) if server else list(range(servers))
        sizes = [shares[rank]] * len(peers) if server else shares
        with made.repeat(iterations):
            for phase, sends in ((0, not server), (1, server)):
                made.phase(phase)
                if phase == 0 and not server:
                    made.compute(work)
                move = made.isend if sends else made.irecv
                made.wait(*[move(peer, nbytes) for peer, nbytes in zip(peers, sizes, strict=True)])
        return made

    return Workload(
        name="parameter-server",
        n_ranks=n_ranks,
        script=script,
        phases=["push", "pull"],
        notes=[
            f"ranks 0 to {servers - 1} are servers" if servers > 1 else "rank 0 is the server",
            "parameters are shared evenly by the servers, which update them in no time",
        ],
    )
