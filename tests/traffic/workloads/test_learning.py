"""Learning workloads: published parameter counts and formulas, bytes by parallelism, the pipeline's bubble, KV caches and migration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.core.errors import InputError
from netsim.traces.schema import OP_CODE
from netsim.traffic.workloads import (
    MODELS,
    build,
    dlrm,
    kv_migration,
    llm_serving,
    llm_training,
    migration_rounds,
    parameter_server,
    pipeline_order,
)

FAST = 1e18


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("gpt-1.7b", 1.7),
        ("gpt-7.5b", 7.5),
        ("gpt-39.1b", 39.1),
        ("gpt-145.6b", 145.6),
        ("gpt-1t", 1008.0),
        ("llama-2-7b", 6.7),
        ("llama-2-70b", 69.0),
        ("mixtral-8x7b", 46.7),
    ],
)
def test_parameters_are_those_published(name: str, billions: float) -> None:
    assert round(MODELS[name].parameters / 1e9, 1) == billions


@pytest.mark.parametrize("name", [n for n in MODELS if n.startswith("gpt")])
def test_gpt_shapes_follow_the_formulas_of_the_paper(name: str) -> None:
    m = MODELS[name]
    l, h, v, s = m.layers, m.hidden, m.vocab, m.sequence
    # Parameters: 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)).
    assert m.parameters == pytest.approx(12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h)), rel=1e-12)
    # Operations with recomputing: 96 B s l h^2 (1 + s/(6 h) + V/(16 l h)).
    batch = 8
    made = 4 * l * m.layer_flops(batch * s, s) + 3 * m.output_flops(batch * s)
    assert made == pytest.approx(96 * batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)), rel=1e-12)


def test_work_of_all_ranks_is_that_of_the_formula() -> None:
    m = MODELS["gpt-1.7b"]
    trace = llm_training(n_ranks=8, model="gpt-1.7b", tensor=2, pipeline=2, microbatches=3, recompute=True).trace()
    l, h, v, s = m.layers, m.hidden, m.vocab, m.sequence
    sequences = 2 * 3  # two data-parallel ranks
    expected = 96 * sequences * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))
    assert trace.column("gap_ns").sum() * 1e-9 * 150e12 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("recompute", "per_layer"), [(False, 4), (True, 6)])
def test_tensor_parallel_calls(ask, recompute: bool, per_layer: int) -> None:
    work = llm_training(
        n_ranks=8, model="test-gpt", tensor=4, pipeline=2, microbatches=3, microbatch=2, recompute=recompute
    )
    m = MODELS["test-gpt"]
    for rank in range(8):
        sizes = ask.sizes(work, "allreduce", rank, phase=0)
        assert sizes == [2 * 2 * m.sequence * m.hidden] * (per_layer * m.layers // 2 * 3)
    comm = work.trace().column("comm")[work.trace().column("op") == OP_CODE["allreduce"]]
    assert sorted({tuple(work.comms.members(int(c)).tolist()) for c in set(comm.tolist())}) == [
        (0, 1, 2, 3),
        (4, 5, 6, 7),
    ]


def test_pipeline_bytes(ask) -> None:
    work = llm_training(n_ranks=8, model="test-gpt", tensor=2, pipeline=4, microbatches=5, sequence=32, iterations=2)
    size = 2 * 32 * 64
    expected = np.zeros((8, 8), dtype=np.int64)
    for rank in range(6):
        expected[rank, rank + 2] = expected[rank + 2, rank] = 2 * 5 * size
    assert (ask.pairs(work) == expected).all()


@given(stages=st.integers(1, 6), microbatches=st.integers(1, 9))
def test_one_forward_one_backward(stages: int, microbatches: int) -> None:
    for stage in range(stages):
        order = pipeline_order(stages=stages, stage=stage, microbatches=microbatches)
        for kind in ("forward", "backward"):
            assert [i for k, i in order if k == kind] == list(range(microbatches))
        held = np.cumsum([1 if k == "forward" else -1 for k, _ in order])
        # At most as many micro-batches in flight as stages are left.
        assert held.max() == min(stages - stage, microbatches)
        assert held.min() >= 0
        assert order[-1] == ("backward", microbatches - 1)


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 8), (2, 1), (4, 2), (1, 3)])
def test_the_bubble_of_the_pipeline(ask, stages: int, microbatches: int) -> None:
    m, speed = MODELS["test-gpt"], 1e9
    work = llm_training(n_ranks=stages, model="test-gpt", pipeline=stages, microbatches=microbatches, flops_per_s=speed)
    forward = m.layers / stages * m.layer_flops(m.sequence, m.sequence) / speed
    output = m.output_flops(m.sequence) / speed
    # The last stage has the output layer besides, works without a break, and the others wait for it.
    expected = (stages - 1) * 3 * forward + microbatches * 3 * (forward + output)
    made = ask.star(work, rate=FAST).makespan_s
    assert made == pytest.approx(expected, rel=1e-5)
    equal = (microbatches + stages - 1) * 3 * forward
    assert made == pytest.approx(equal + microbatches * 3 * output, rel=1e-5)


def data_parallel(ask, zero: int, **more: object) -> dict[str, list[int]]:
    work = llm_training(n_ranks=4, model="test-gpt", zero=str(zero), microbatches=2, **more)
    return {op: ask.sizes(work, op, 1) for op in ("allreduce", "reduce_scatter", "allgather")}


def test_data_parallel_volume_by_zero_stage(ask) -> None:
    m = MODELS["test-gpt"]
    share = -(-2 * m.parameters // 4)
    assert data_parallel(ask, 0) == {"allreduce": [2 * m.parameters], "reduce_scatter": [], "allgather": []}
    for zero in (1, 2):
        assert data_parallel(ask, zero) == {"allreduce": [], "reduce_scatter": [share], "allgather": [share]}
    layer = -(-2 * m.dense_parameters // 4)
    # Each layer is gathered forward and backward, in both micro-batches.
    assert data_parallel(ask, 3) == {
        "allreduce": [],
        "reduce_scatter": [share],
        "allgather": [layer] * (2 * 2 * m.layers),
    }
    assert data_parallel(ask, 0, gradient="4B")["allreduce"] == [4 * m.parameters]


def test_parameters_of_all_stages_are_reduced_once(ask) -> None:
    m = MODELS["test-gpt"]
    work = llm_training(n_ranks=8, model="test-gpt", pipeline=4, microbatches=1)
    per_stage = [ask.sizes(work, "allreduce", rank)[0] for rank in range(0, 8, 2)]
    assert sum(per_stage) == 2 * m.parameters


def test_experts(ask) -> None:
    m = MODELS["test-moe"]
    work = llm_training(n_ranks=8, model="test-moe", expert=4, microbatches=3)
    # To the experts and back, forward and backward.
    assert ask.sizes(work, "alltoall", 2) == [2 * m.top_k * m.sequence * m.hidden] * (4 * m.layers * 3)
    dense, experts = ask.sizes(work, "allreduce", 2)
    assert dense == 2 * (m.layers * m.dense_parameters + m.embedding_parameters + m.output_parameters)
    assert experts == 2 * m.layers * m.expert_parameters // 4
    trace = work.trace()
    comm = trace.column("comm")[(trace.column("rank") == 2) & (trace.column("op") == OP_CODE["allreduce"])]
    assert [work.comms.members(int(c)).tolist() for c in comm] == [list(range(8)), [2, 6]]
    assert dense + 4 * experts == 2 * m.parameters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensor=3", "workload llm-training n_ranks: must be a multiple of tensor x pipeline, 3, got 16"),
        ("model=test-gpt,tensor=8", "workload llm-training tensor: must divide the 4 heads of the model, got 8"),
        (
            "model=test-gpt,pipeline=8",
            "workload llm-training pipeline: must be at most the 4 layers of the model, got 8",
        ),
        (
            "expert=2",
            "workload llm-training expert: must divide the 16 data-parallel ranks and the 1 experts of the model, got 2",
        ),
        (
            "zero=3,pipeline=2",
            "workload llm-training zero: stages 2 and 3 do not go with a pipeline, got 3; take zero=1",
        ),
        ("model=gpt4", "model: unknown name, got 'gpt4'; "),
    ],
)
def test_impossible_jobs_are_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(f"llm-training:{text}")
    assert str(caught.value).startswith(message)


def test_dlrm_sends_each_sample_its_embeddings() -> None:
    n, tables, dim, batch = 3, 7, 4, 10
    work = dlrm(n_ranks=n, tables=tables, dim=dim, batch=batch, mlp=1000, iterations=1)
    trace = work.trace()
    ptr, sent = trace.ragged("vbytes")
    rows = np.flatnonzero(trace.column("op") == OP_CODE["alltoall"])
    matrix = {0: [], 1: []}
    for row in rows:
        matrix[int(trace.column("phase")[row])].append(sent[ptr[row] : ptr[row + 1]].tolist())
    there, back = np.array(matrix[0]), np.array(matrix[1])
    assert (there == back.T).all()
    # Every sample gets an embedding of every table.
    assert there.sum() == 4 * dim * tables * batch
    assert (there == 4 * dim * np.outer([2, 2, 3], [3, 3, 4])).all()


def test_dlrm_time_on_a_star(ask) -> None:
    n, rate = 4, 1e9
    work = dlrm(n_ranks=n, tables=8, dim=64, batch=512, mlp=1000, iterations=2)
    made = ask.star(work, rate=rate, collectives={"alltoallv": "pairwise", "allreduce": "ring"}).makespan_s
    one_way = 4 * 64 * 8 * 512 * (n - 1) / n**2 / rate
    assert made == pytest.approx(2 * (2 * one_way + 2 * (n - 1) / n * 4000 / rate), rel=1e-6)


@pytest.mark.parametrize(("workers", "servers"), [(1, 1), (4, 1), (6, 3), (2, 4)])
def test_parameter_server(ask, workers: int, servers: int) -> None:
    size, rate, latency = 12_000_000, 1e9, 5e-6
    work = parameter_server(n_ranks=workers + servers, servers=servers, size=size, iterations=3, work=2e-3)
    found = ask.pairs(work)
    assert found.sum() == 3 * 2 * workers * size
    assert (found[servers:, :servers] == 3 * size // servers).all()
    assert (found == found.T).all()
    made = ask.star(work, rate=rate, latency=latency).makespan_s
    assert made == pytest.approx(3 * (2e-3 + 2 * max(workers / servers, 1) * size / rate + 2 * latency), rel=1e-9)


def test_serving_moves_each_cache_once(ask) -> None:
    m = MODELS["test-moe"]
    work = llm_serving(n_ranks=10, model="test-moe", tensor=2, prefill=2, requests=9, prompt=16, output=5, batch=2)
    found = ask.pairs(work)
    per_token = 2 * 2 * m.layers * m.kv_heads * (m.hidden // m.heads)
    assert found.sum() == 9 * 16 * per_token
    for a, b in zip(*np.nonzero(found)):
        assert a % 2 == b % 2
        assert a < 4 <= b
    # Prompts: two allreduce per layer; decoding: two per layer and token of a batch.
    assert ask.sizes(work, "allreduce", 0) == [2 * 16 * m.hidden] * (2 * m.layers * 5)
    assert ask.sizes(work, "allreduce", 4) == [2 * 2 * m.hidden] * (2 * m.layers * 5) + [2 * m.hidden] * (
        2 * m.layers * 5
    )


def test_published_grouped_queries_need_4096_bytes_per_layer_and_token() -> None:
    m = MODELS["llama-2-70b"]
    assert (m.kv_heads, m.head_dim) == (8, 128)
    assert m.kv_bytes_per_token == 80 * 4096


def test_serving_time_without_a_network(ask) -> None:
    m, speed, memory = MODELS["test-gpt"], 1e12, 1e9
    work = llm_serving(
        n_ranks=2, model="test-gpt", requests=4, prompt=64, output=3, batch=4, flops_per_s=speed, memory=memory
    )
    prompt = (m.layers * m.layer_flops(64, 64) + m.output_flops(1)) / speed
    token = 2 * (m.parameters - m.embedding_parameters) / memory
    assert ask.star(work, rate=FAST).makespan_s == pytest.approx(4 * prompt + 3 * token, rel=1e-4)


@given(st.floats(1e6, 1e11), st.floats(1e8, 1e11), st.floats(0.01, 0.95), st.floats(1e-4, 1.0))
def test_migration_rounds_shrink_to_the_pause(size: float, rate: float, part: float, pause: float) -> None:
    found = migration_rounds(size=size, rate=rate, dirty=part * rate, pause=pause)
    assert found[-1] / rate < pause
    assert all(v / rate >= pause for v in found[:-1])
    k = len(found) - 1
    assert sum(found[:-1]) == pytest.approx(size * (1 - part**k) / (1 - part), rel=1e-9, abs=1e-6)


def test_migration_of_8_gb(ask) -> None:
    work = kv_migration()
    rate = 12.5e9
    assert ask.pairs(work, phase=0)[0, 1] == 8.128e9
    assert ask.pairs(work, phase=1)[0, 1] / rate == pytest.approx(164e-6, rel=1e-2)
    made = ask.star(work, rate=rate)
    assert made.makespan_s == pytest.approx(0.650 + 0.16e-3, rel=1e-3)
    with pytest.raises(
        InputError,
        match="migration dirty: must be below the rate of the migration",
    ):
        build("kv-migration:rate=1GB/s,dirty=1GB/s")


def test_migration_that_fits_the_pause_is_one_round() -> None:
    work = kv_migration(size="1MB")
    assert list(work.phases) == ["pause"]
    assert work.trace().n_rows == 2
