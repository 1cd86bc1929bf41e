"""What programs/coverage.c and programs/coverage.py communicate, rank by rank, written down from what they call.

A row is (operation, flags, members of the communicator, peer, tag, bytes, bytes that arrived, extras). ``Done(op, n)`` stands for
as many wait or test rows as it takes to complete n requests: how a loop of MPI_Waitsome groups them is up to the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INT, DOUBLE = 4, 8
P = 4
WORLD = (0, 1, 2, 3)


@dataclass(frozen=True)
class Done:
    op: str
    n: int


class Rows:
    """Builds the expected rows of one rank."""

    def __init__(self, rank: int) -> None:
        self.r = rank
        self.rows: list[Any] = []
        self.right, self.left = (rank + 1) % P, (rank - 1) % P

    def add(
        self,
        op: str,
        size: int = 0,
        *flags: str,
        comm: tuple[int, ...] = WORLD,
        peer: int | None = None,
        tag: int | None = None,
        got: int | None = None,
        **extra: Any,
    ) -> None:
        self.rows.append((op, frozenset(flags), comm, peer, tag, size, got, extra))

    def send(self, size: int, peer: int, tag: int, *flags: str, **more: Any) -> None:
        self.add("send", size, *flags, peer=peer, tag=tag, **more)

    def recv(self, room: int, peer: int, tag: int, *flags: str, got: int | None = None, **more: Any) -> None:
        self.add("recv", room, *flags, peer=peer, tag=tag, got=room if got is None else got, **more)

    def wait(self, *deps: int, op: str = "wait") -> None:
        self.add(op, deps=list(deps))

    def exchange(
        self, sent: int, to: int, room: int, source: int, tag: int, *wild: str, got: int | None = None, **more: Any
    ) -> None:
        """MPI_Sendrecv: three rows."""
        self.send(sent, to, tag, "nonblocking", **more)
        self.recv(room, source, tag, "nonblocking", *wild, got=got, **more)
        self.wait(2, 1)

    def made(self, comm: tuple[int, ...] = WORLD, *flags: str) -> None:
        self.add("comm_create", 0, *flags, comm=comm)

    def freed(self, comm: tuple[int, ...]) -> None:
        self.add("comm_free", comm=comm)

    def check(self, comm: tuple[int, ...]) -> None:
        self.add("allreduce", INT, comm=comm, redop="sum", dtype="int32")


def point_to_point(t: Rows, features: set[str]) -> None:
    r, right, left = t.r, t.right, t.left
    other = r + 1 if r % 2 == 0 else r - 1
    if r % 2 == 0:
        t.send(10 * DOUBLE, other, 1, dtype="float64")
        t.send(5 * INT, other, 2, "synchronous", dtype="int32")
        t.send(3, other, 3, dtype="byte")
        t.recv(0, other, 5)
        t.send(7 * DOUBLE, other, 4)
    else:
        t.recv(20 * DOUBLE, other, 1, "any_source", "any_tag", got=10 * DOUBLE)
        t.recv(5 * INT, other, 2)
        t.recv(3, other, 3, "any_tag")
        t.recv(7 * DOUBLE, other, 4, "nonblocking")
        t.send(0, other, 5)
        t.wait(2)
    # two sends to MPI_PROC_NULL: nothing
    t.exchange(6 * DOUBLE, right, 8 * DOUBLE, left, 11, "any_source", got=6 * DOUBLE)
    t.exchange(4 * INT, left, 4 * INT, right, 12)
    if r + 1 < P:
        t.send(2 * INT, r + 1, 13, "nonblocking")
    if r > 0:
        t.recv(2 * INT, r - 1, 13, "nonblocking")
    t.wait(*range((r + 1 < P) + (r > 0), 0, -1))
    if "Isendrecv" in features:
        known = "Isendrecv status" in features
        for sent, room, wild in ((6 * INT, 8 * INT, ["any_source"]), (3 * INT, 3 * INT, [])):
            tag = 15 - len(wild)
            t.send(sent, right, tag, "nonblocking")
            source = left if known or not wild else None
            t.add("recv", room, "nonblocking", *wild, peer=source, tag=tag, got=sent if known else None)
            t.wait(2, 1)
    t.recv(INT, r, 16, "nonblocking")
    t.send(INT, r, 16, "nonblocking")
    t.wait(2, 1)


def completion(t: Rows) -> None:
    for k, op in enumerate(["all", "wait", "wait", "test", "test", "test", "test"]):
        count, tag = k + 1, 20 + 10 * k
        for i in range(3):
            t.recv(50 * DOUBLE, t.left, tag + i, "nonblocking", "any_source", got=(count + i) * DOUBLE)
        t.send(count * DOUBLE, t.right, tag, "nonblocking")
        t.send((count + 1) * DOUBLE, t.right, tag + 1, "nonblocking")
        t.send((count + 2) * DOUBLE, t.right, tag + 2, "nonblocking", "synchronous")
        if op == "all":
            t.wait(6, 5, 4, 3, 2, 1)
        else:
            t.rows.append(Done(op, 6))


def probes(t: Rows) -> None:
    for k, wild in enumerate([True, False, True, False]):
        count, tag = 11 + k, 90 + k
        t.send(count * INT, t.right, tag, "nonblocking")
        t.add("probe", count * INT, *(["any_source"] if wild else []), peer=t.left, tag=tag)
        room = 20 * INT if k == 2 else count * INT
        t.recv(room, t.left, tag, *(["nonblocking"] if k == 3 else []), got=count * INT)
        if k == 3:
            t.wait(3, 1)
        else:
            t.wait(3)


def persistent(t: Rows) -> None:
    for _ in range(3):
        t.recv(40 * DOUBLE, t.left, 100, "nonblocking", "persistent", "any_source", got=30 * DOUBLE)
        t.send(30 * DOUBLE, t.right, 100, "nonblocking", "persistent")
        t.wait(2, 1)
    t.recv(5 * INT, t.left, 101, "nonblocking", "persistent")
    t.send(5 * INT, t.right, 101, "nonblocking", "persistent", "synchronous")
    t.wait(1)
    t.wait(3)
    t.add("recv", 6 * INT, "nonblocking", "cancelled", peer=t.left, tag=102)
    t.wait(1)


def share(s: int, t: int) -> int:
    return (s + 2 * t) % 3


def collectives(t: Rows, features: set[str]) -> None:
    r = t.r
    counts = [(i + 1) * INT for i in range(P)]
    sent = [share(r, i) * INT for i in range(P)]
    expected = [share(i, r) * INT for i in range(P)]
    width = [INT if (r + i) % 2 else DOUBLE for i in range(P)]
    sent_w = [share(r, i) * width[i] for i in range(P)]
    expected_w = [share(i, r) * width[i] for i in range(P)]
    both = [(r + i) % 3 * INT for i in range(P)]

    def at(root: int, vector: list[int]) -> dict[str, Any]:
        return {"vbytes": vector} if r == root else {}

    def regular(*flags: str, done: bool = False) -> None:
        def add(op: str, size: int, **more: Any) -> None:
            t.add(op, size, *flags, **more)
            if done:
                t.wait(1)

        add("barrier", 0)
        add("bcast", 100 * INT, peer=1, dtype="int32")
        add("reduce", 10 * DOUBLE, peer=2, redop="sum", dtype="float64")
        add("allreduce", 11 * DOUBLE, redop="max", dtype="float64")
        add("gather", 3 * INT, peer=0)
        add("gather", counts[r], peer=3, **at(3, counts))
        add("scatter", 5 * INT, peer=1)
        add("scatter", counts[r], peer=2, **at(2, counts))
        add("allgather", 6 * INT)
        add("allgather", counts[r], vbytes=counts)
        add("alltoall", P * 7 * INT)
        add("alltoall", sum(sent), vbytes=sent, vrecv=expected)
        add("alltoall", sum(sent_w), vbytes=sent_w, vrecv=expected_w)
        add("reduce_scatter", counts[r], vbytes=counts, redop="sum")
        add("reduce_scatter", 9 * INT, redop="sum")
        add("scan", 12 * INT, redop="sum")
        add("exscan", 13 * INT, redop="sum")

    regular()
    inside = "in_place"
    t.add("reduce", 10 * INT, *([inside] if r == 2 else []), peer=2)
    t.add("allreduce", 11 * INT, inside)
    t.add("gather", 3 * INT, *([inside] if r == 0 else []), peer=0)
    t.add("gather", counts[r], *([inside] if r == 3 else []), peer=3, **at(3, counts))
    t.add("scatter", 5 * INT, *([inside] if r == 1 else []), peer=1)
    t.add("scatter", counts[r], *([inside] if r == 2 else []), peer=2, **at(2, counts))
    t.add("allgather", 6 * INT, inside)
    t.add("allgather", counts[r], inside, vbytes=counts)
    t.add("alltoall", P * 7 * INT, inside)
    t.add("alltoall", sum(both), inside, vbytes=both, vrecv=both)
    t.add("reduce_scatter", counts[r], inside, vbytes=counts)
    t.add("reduce_scatter", 9 * INT, inside)
    regular("nonblocking", done=True)
    t.add("allreduce", DOUBLE, "nonblocking")
    t.add("bcast", 2 * DOUBLE, "nonblocking", peer=0)
    t.wait(2, 1)
    if "Bcast_init" in features:
        start = ("nonblocking", "persistent")
        for _ in range(2):
            t.add("allreduce", 17 * DOUBLE, *start, redop="sum")
            t.wait(1)
        t.add("bcast", 18 * DOUBLE, *start, peer=3)
        t.wait(1)
        t.add("alltoall", sum(sent), *start, vbytes=sent, vrecv=expected)
        t.wait(1)


def neighbours(t: Rows) -> None:
    r = t.r
    line = [t.left, t.right]

    def near(op: str, sizes: list[int], peers: list[int], *flags: str) -> None:
        alike = op == "neighbor_allgather"
        size = sizes[0] if alike else sum(sizes)
        t.add(op, size, *flags, vbytes=sizes, vpeer=peers)

    t.made()
    near("neighbor_allgather", [3 * INT] * 2, line)
    near("neighbor_alltoall", [4 * INT] * 2, line)
    near("neighbor_alltoall", [1 * INT, 2 * INT], line)
    near("neighbor_alltoall", [1 * INT, 2 * INT], line)
    t.freed(WORLD)
    # 2 x 2 without wrap-around: of the four neighbours two are MPI_PROC_NULL; in the order up, down, left, right
    grid = [[2, 1], [3, 0], [0, 3], [1, 2]][r]
    t.made()
    near("neighbor_alltoall", [5 * INT] * 2, grid)
    near("neighbor_allgather", [2 * INT] * 2, grid)
    row = (0, 1) if r < 2 else (2, 3)
    t.made()
    t.check(row)
    t.freed(row)
    t.freed(WORLD)
    out = [(r + 1) % 4, (r + 2) % 4]
    t.made()
    near("neighbor_allgather", [3 * INT] * 2, out)
    near("neighbor_alltoall", [1 * INT, 2 * INT], out)
    for op, sizes in (
        ("neighbor_allgather", [3, 3]),
        ("neighbor_allgather", [2, 2]),
        ("neighbor_alltoall", [6, 6]),
        ("neighbor_alltoall", [1, 2]),
        ("neighbor_alltoall", [1, 2]),
    ):
        near(op, [INT * s for s in sizes], out, "nonblocking")
        t.wait(1)
    t.freed(WORLD)
    t.made()
    near("neighbor_allgather", [INT] * 2, out)
    t.freed(WORLD)
    t.made()
    near("neighbor_allgather", [2 * INT] * 2, line)
    t.freed(WORLD)


def communicators(t: Rows) -> None:
    r = t.r
    for _ in range(2):
        t.made()
        t.check(WORLD)
        t.freed(WORLD)
    t.made(WORLD, "nonblocking")
    t.wait(1)
    t.check(WORLD)
    t.freed(WORLD)
    back = (3, 2, 1, 0)
    t.made()
    t.add("bcast", 3 * DOUBLE, comm=back, peer=3)
    t.exchange(INT, t.left, INT, t.right, 5, "any_source", comm=back)
    t.freed(back)
    t.made()
    if r < 3:
        t.check((0, 1, 2))
        t.freed((0, 1, 2))
    t.made()  # split_type: all on one machine
    t.check(WORLD)
    t.freed(WORLD)
    t.made()
    if r in (1, 3):
        t.check((3, 1))
        t.freed((3, 1))
    if r in (0, 2):
        t.made()
        t.check((0, 2))
        t.freed((0, 2))
    t.check((r,))
    half = (0, 2) if r % 2 == 0 else (1, 3)
    joint = (0, 2, 1, 3)
    t.made()
    t.made(half)
    if r % 2 == 0:
        t.send(4 * INT, r + 1, 6, comm=joint)
    else:
        t.recv(4 * INT, r - 1, 6, "any_source", comm=joint)
    t.add("barrier", 0, "size_unknown", comm=joint)
    t.add("bcast", 8 * INT, "size_unknown", comm=joint, peer=0)
    t.add("allreduce", 2 * INT, "size_unknown", comm=joint)
    t.made(joint)
    t.check(joint)
    t.freed(joint)
    t.freed(joint)
    t.freed(half)


def large_counts(t: Rows) -> None:
    t.exchange(3 * DOUBLE, t.right, 3 * DOUBLE, t.left, 110, "any_source", "any_tag")
    t.recv(3 * INT, t.left, 111, "nonblocking", "any_source")
    t.send(3 * INT, t.right, 111)
    t.wait(2)
    t.add("bcast", 3 * INT, peer=0)
    t.add("allgather", (t.r + 1) * INT, vbytes=[(i + 1) * INT for i in range(P)])


def expected(rank: int, features: set[str]) -> list[Any]:
    """All rows of one rank between init and finalize."""
    t = Rows(rank)
    point_to_point(t, features)
    completion(t)
    probes(t)
    persistent(t)
    collectives(t, features)
    neighbours(t)
    communicators(t)
    if "Send_c" in features:
        large_counts(t)
    t.add("mark")
    return t.rows


COUNTED = {"MPI_Win_create": 4, "MPI_Win_fence": 8, "MPI_Put": 4, "MPI_Win_free": 4}
"""Calls of the programs that are counted by name on all four ranks."""
