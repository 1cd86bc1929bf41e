"""Write, read and check a large trace: rows per second, bytes per row, peak memory.

    python benchmarks/trace_io.py --rows 10000000

The trace is a halo exchange with an all-reduce per step, made batch by batch, so that writing shows bounded memory;
each stage runs in a process of its own so that its peak is its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from netsim.traces import TraceMeta, TraceWriter, check_trace, iter_batches, read_trace
from netsim.traces.schema import FLAG, OP_NAMES

OPS_OF_STEP = ["recv", "recv", "send", "send", "wait", "wait", "wait", "wait", "allreduce", "compute"]


def steps_of_rank(rank: int, n_ranks: int, steps: int) -> dict[str, Any]:
    """All rows of one rank: ring halo exchange (two receives, two sends, four waits), all-reduce, computation."""
    import pyarrow as pa

    k = len(OPS_OF_STEP)
    n = steps * k
    left, right = (rank - 1) % n_ranks, (rank + 1) % n_ranks
    rng = np.random.default_rng(rank)
    op = pa.DictionaryArray.from_arrays(
        np.tile(np.array([OP_NAMES.index(o) for o in OPS_OF_STEP], dtype=np.int8), steps), pa.array(OP_NAMES)
    )
    start = np.cumsum(rng.integers(500, 50_000, n))
    step = np.arange(steps, dtype=np.int32)
    coll = np.zeros(n, dtype=np.int32)
    coll[8::k] = step
    in_step = np.arange(n) % k
    ends = pa.array(np.cumsum((in_step >= 4) & (in_step < 8)), pa.int32())
    return {
        "rank": np.full(n, rank, dtype=np.int32),
        "seq": np.arange(n, dtype=np.int32),
        "op": op,
        "flags": np.where(in_step < 4, FLAG["nonblocking"], 0).astype(np.uint16),
        "peer": pa.array(np.tile([left, right, right, left, 0, 0, 0, 0, 0, 0], steps), pa.int32(), mask=in_step >= 4),
        "tag": pa.array(np.tile([1, 2, 1, 2, 0, 0, 0, 0, 0, 0], steps), pa.int32(), mask=in_step >= 4),
        "bytes": np.tile(np.array([8192] * 4 + [0] * 4 + [64, 0]), steps),
        "coll_seq": pa.array(coll, pa.int32(), mask=in_step != 8),
        "deps": pa.ListArray.from_arrays(
            pa.concat_arrays([pa.array([0], pa.int32()), ends]), pa.array(np.full(steps * 4, 4), pa.int32())
        ),
        "t_start": start,
        "t_end": start + 400,
    }


def write(path: Path, rows: int) -> tuple[float, str]:
    n_ranks = 256
    steps = rows // n_ranks // len(OPS_OF_STEP)
    begin = time.perf_counter()
    meta = TraceMeta(n_ranks=n_ranks, time="synthetic", time_quality="unsynced")
    with TraceWriter(path, profile="ops", meta=meta) as writer:
        for rank in range(n_ranks):
            writer.write(steps_of_rank(rank, n_ranks, steps))
    return time.perf_counter() - begin, f"{path.stat().st_size / writer.n_rows:.2f} bytes/row"


def stream(path: Path, rows: int) -> tuple[float, str]:
    begin = time.perf_counter()
    total = 0
    for batch in iter_batches(path, columns=["op", "bytes"]):
        total += int(batch.column("bytes").to_numpy().sum())
    return time.perf_counter() - begin, f"{total / 1e9:.1f} GB named"


def read(path: Path, rows: int) -> tuple[float, str]:
    begin = time.perf_counter()
    trace = read_trace(path)
    return time.perf_counter() - begin, f"{trace.table.nbytes / trace.n_rows:.0f} bytes/row in memory, validated"


def fingerprint(path: Path, rows: int) -> tuple[float, str]:
    trace = read_trace(path)
    begin = time.perf_counter()
    digest = trace.content_hash
    return time.perf_counter() - begin, digest[:12]


def check(path: Path, rows: int) -> tuple[float, str]:
    trace = read_trace(path)
    begin = time.perf_counter()
    report = check_trace(trace)
    return time.perf_counter() - begin, report.lines()[0]


def measured(stage: Any, path: Path, rows: int, queue: Any) -> None:
    seconds, note = stage(path, rows)
    queue.put((seconds, note, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    context = multiprocessing.get_context("spawn")
    print(f"{'stage':<12} {'seconds':>8} {'rows/s':>10} {'peak MB':>8}  note")
    with tempfile.TemporaryDirectory() as folder:
        for stage in (write, stream, read, fingerprint, check):
            queue = context.Queue()
            process = context.Process(target=measured, args=(stage, Path(folder) / "t.parquet", rows, queue))
            process.start()
            seconds, note, peak = queue.get()
            process.join()
            print(f"{stage.__name__:<12} {seconds:8.2f} {rows / max(seconds, 1e-9):10.3g} {peak:8.0f}  {note}")


if __name__ == "__main__":
    main()
