"""What the tests of all generators ask of a workload: who sends how much to whom, and how long it takes on an ideal star."""

from __future__ import annotations

import numpy as np
import pytest

import netsim as ns
from netsim.traces.schema import OP_CODE
from netsim.traffic import Protocol, Workload

DIRECT = Protocol(eager_threshold_bytes=0, send_overhead_s=0.0, recv_overhead_s=0.0, handshake=False)


class Ask:
    @staticmethod
    def pairs(work: Workload, *, phase: int | None = None) -> np.ndarray:
        """Bytes sent point to point, by source and destination."""
        trace = work.trace()
        use = trace.column("op") == OP_CODE["send"]
        if phase is not None:
            use &= trace.column("phase") == phase
        found = np.zeros((work.n_ranks, work.n_ranks), dtype=np.int64)
        np.add.at(found, (trace.column("rank")[use], trace.column("peer")[use]), trace.column("bytes")[use])
        return found

    @staticmethod
    def calls(work: Workload, rank: int = 0, *, phase: int | None = None) -> dict[str, int]:
        """Calls of one rank, by operation."""
        trace = work.trace()
        use = trace.column("rank") == rank
        if phase is not None:
            use &= trace.column("phase") == phase
        counts = np.bincount(trace.column("op")[use])
        names = {code: name for name, code in OP_CODE.items()}
        return {names[code]: int(n) for code, n in enumerate(counts) if n}

    @staticmethod
    def sizes(work: Workload, op: str, rank: int = 0, *, phase: int | None = None) -> list[int]:
        """The sizes of a rank's calls of one operation, in program order."""
        trace = work.trace()
        use = (trace.column("rank") == rank) & (trace.column("op") == OP_CODE[op])
        if phase is not None:
            use &= trace.column("phase") == phase
        return trace.column("bytes")[use].tolist()

    @staticmethod
    def star(work: Workload, *, rate: float, latency: float = 0.0, **options: object) -> ns.results.Result:
        """Replayed on a star without software overheads or buffered sends; the latency is that between two hosts."""
        net = ns.topologies.star(n=work.n_ranks, capacity=rate, latency=latency / 2)
        return ns.replay(work.trace(), topology=net, protocol=DIRECT, bins=2, **options)

    @staticmethod
    def busiest_link_bytes(result: ns.results.Result) -> float:
        """Most bytes that a link carried."""
        links = result.to_arrow("links")
        return float(np.bincount(links.column("link"), weights=links.column("bytes")).max())


@pytest.fixture(scope="session")
def ask() -> Ask:
    return Ask()
