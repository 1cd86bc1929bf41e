"""Random programs whose ranks fit together by construction: the raw material of the property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from netsim.traces import Trace


@st.composite
def programs(draw: st.DrawFn, *, timed: bool | None = None) -> Trace:
    """A trace built event by event: each event appends its rows to all ranks that take part, so every rank agrees."""
    n = draw(st.integers(1, 5))
    groups = draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, unique=True), max_size=2))
    comms = [list(range(n)), *groups]
    rows: list[dict[str, Any]] = []
    length = [0] * n
    clock = 0

    def add(rank: int, **row: Any) -> None:
        nonlocal clock
        clock += draw(st.integers(0, 10**12))
        if with_time:
            row |= {"t_start": clock, "t_end": clock + 5}
        length[rank] += 1
        rows.append({"rank": rank, **row})

    with_time = draw(st.booleans()) if timed is None else timed
    for _ in range(draw(st.integers(0, 12))):
        comm = draw(st.integers(0, len(comms) - 1))
        members = comms[comm]
        kind = draw(st.sampled_from(["message", "request", "collective", "rooted", "alltoallv", "local"]))
        size = draw(st.sampled_from([0, 1, 7, 2**31, 2**41]))
        if kind in ("message", "request"):
            a, b = draw(st.sampled_from(members)), draw(st.sampled_from(members))
            tag = draw(st.integers(0, 3))
            wild = {"flags": ["any_source"]} if draw(st.booleans()) else {}
            if kind == "request" or a == b:
                flags = ["nonblocking"]
                add(a, op="send", peer=b, tag=tag, bytes=size, comm=comm, flags=flags)
                sent = length[a]
                add(b, op="recv", peer=a, tag=tag, bytes=size + 3, bytes_actual=size, comm=comm, flags=flags)
                got = length[b]
                add(a, op="wait", deps=[length[a] + 1 - sent])
                add(b, op="wait", deps=[length[b] + 1 - got])
            else:
                add(a, op="send", peer=b, tag=tag, bytes=size, comm=comm)
                add(b, op="recv", peer=a, tag=tag, bytes=size, comm=comm, **wild)
        elif kind == "collective":
            op = draw(st.sampled_from(["barrier", "allreduce", "allgather"]))
            for r in members:
                add(
                    r,
                    op=op,
                    comm=comm,
                    bytes=0 if op == "barrier" else size,
                    **({"redop": "sum"} if op == "allreduce" else {}),
                )
        elif kind == "rooted":
            root = draw(st.sampled_from(members))
            for r in members:
                add(r, op="bcast", comm=comm, bytes=size, peer=root, dtype="float32")
        elif kind == "alltoallv":
            table = [[draw(st.integers(0, 9)) for _ in members] for _ in members]
            for i, r in enumerate(members):
                column = [table[j][i] for j in range(len(members))]
                add(r, op="alltoall", comm=comm, bytes=sum(table[i]), vbytes=table[i], vrecv=column)
        else:
            add(draw(st.sampled_from(members)), op="compute", gap_ns=size)
    return Trace.from_rows(n_ranks=n, rows=rows, comms=groups)
