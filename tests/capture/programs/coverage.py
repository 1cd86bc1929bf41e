"""The calls of coverage.c through mpi4py, in the same order; needs 4 ranks. Arguments: optional MPI functions to use."""

import sys

import numpy as np
from mpi4py import MPI

features = set(sys.argv[1:])
W = MPI.COMM_WORLD
r, p = W.rank, W.size
assert p == 4
right, left = (r + 1) % p, (r - 1) % p
PLACE, ANY, NULL = MPI.IN_PLACE, MPI.ANY_SOURCE, MPI.PROC_NULL
INT, DOUBLE = MPI.INT, MPI.DOUBLE
d, e, x = np.zeros(4096), np.zeros(4096), np.zeros(4096)


def ints(a, n, at=0):
    return [a.view(np.int32)[at : at + n], n, INT]


def blocks(a, n):
    """A buffer of equal blocks, one per rank: mpi4py divides when it is not given a count."""
    return [a.view(np.int32)[:n], INT]


def dbls(a, n, at=0):
    return [a[at : at + n], n, DOUBLE]


def byte(a, n):
    return [a.view(np.uint8)[:n], n, MPI.BYTE]


def point_to_point():
    other = r + 1 if r % 2 == 0 else r - 1
    if r % 2 == 0:
        W.Send(dbls(d, 10), other, 1)
        W.Ssend(ints(d, 5), other, 2)
        MPI.Attach_buffer(bytearray(10000))
        W.Bsend(byte(d, 3), other, 3)
        MPI.Detach_buffer()
        W.Recv(byte(e, 0), other, 5)
        W.Rsend(dbls(d, 7), other, 4)
    else:
        W.Recv(dbls(e, 20), ANY, MPI.ANY_TAG)
        W.Recv(ints(e, 5), other, 2)
        W.Recv(byte(e, 3), other, MPI.ANY_TAG)
        one = W.Irecv(dbls(x, 7), other, 4)
        W.Send(byte(d, 0), other, 5)
        one.Wait()
    W.Send(ints(d, 9), NULL, 1)
    W.Isend(ints(d, 9), NULL, 1).Wait()
    W.Sendrecv(dbls(d, 6), right, 11, dbls(e, 8), ANY, 11)
    W.Sendrecv_replace(ints(d, 4), left, 12, right, 12)
    W.Sendrecv(ints(d, 2), r + 1 if r + 1 < p else NULL, 13, ints(e, 2), r - 1 if r > 0 else NULL, 13)
    if "Isendrecv" in features:
        W.Isendrecv(ints(d, 6), right, 14, ints(e, 8), ANY, 14).Wait()
        W.Isendrecv_replace(ints(d, 3), right, 15, left, 15).Wait()
    MPI.Request.Waitall([W.Irecv(ints(e, 1), r, 16), W.Isend(ints(d, 1), r, 16)])


def ring(count, tag):
    return [
        *(W.Irecv(dbls(e, 50, 64 * i), ANY, tag + i) for i in range(3)),
        W.Isend(dbls(d, count), right, tag),
        W.Isend(dbls(d, count + 1), right, tag + 1),
        W.Issend(dbls(d, count + 2), right, tag + 2),
    ]


def completion():
    R = MPI.Request
    R.Waitall(ring(1, 20))
    q = ring(2, 30)
    for _ in range(7):
        R.Waitany(q)
    q, done = ring(3, 40), 0
    while done < 6:
        done += len(R.Waitsome(q))
    for one in ring(4, 50):
        while not one.Test():
            pass
    q = ring(5, 60)
    while not R.Testall(q):
        pass
    q, done = ring(6, 70), 0
    while done < 6:
        done += R.Testany(q)[1]
    q, done = ring(7, 80), 0
    while done < 6:
        done += len(R.Testsome(q))


def probes():
    one = W.Isend(ints(d, 11), right, 90)
    W.Probe(ANY, 90)
    W.Recv(ints(e, 11), left, 90, MPI.Status())
    one.Wait()
    one = W.Isend(ints(d, 12), right, 91)
    while not W.Iprobe(left, 91):
        pass
    W.Recv(ints(e, 12), left, 91)
    one.Wait()
    one = W.Isend(ints(d, 13), right, 92)
    W.Mprobe(ANY, 92).Recv(ints(e, 20))
    one.Wait()
    one = W.Isend(ints(d, 14), right, 93)
    message = None
    while message is None:
        message = W.Improbe(left, 93)
    MPI.Request.Waitall([one, message.Irecv(ints(e, 14))])


def persistent():
    q = [W.Recv_init(dbls(e, 40), ANY, 100), W.Send_init(dbls(d, 30), right, 100)]
    for _ in range(3):
        MPI.Prequest.Startall(q)
        MPI.Request.Waitall(q)
    q[0].Wait()
    q += [W.Recv_init(ints(e, 5), left, 101), W.Ssend_init(ints(d, 5), right, 101)]
    q[2].Start()
    q[3].Start()
    q[3].Wait()
    q[2].Wait()
    for one in q:
        one.Free()
    one = W.Irecv(ints(e, 6), left, 102)
    one.Cancel()
    one.Wait()


def share(s, t):
    return (s + 2 * t) % 3


def collectives():
    counts, displs = [1, 2, 3, 4], [0, 8, 16, 24]
    D, E, X = d.view(np.int32), e.view(np.int32), x.view(np.int32)
    sc, rc = [share(r, i) for i in range(4)], [share(i, r) for i in range(4)]
    both, at = [(r + i) % 3 for i in range(4)], [64 * i for i in range(4)]
    types = [INT if (r + i) % 2 else DOUBLE for i in range(4)]
    vector, whole = [E, counts, displs, INT], [D, counts, displs, INT]

    def root(which, buffer):
        return buffer if r == which else None

    def regular(prefix, done):
        def call(name, *args):
            result = getattr(W, prefix + name if not prefix else prefix + name.lower())(*args)
            if done:
                result.Wait()

        call("Barrier")
        call("Bcast", ints(d, 100), 1)
        call("Reduce", dbls(d, 10), root(2, dbls(e, 10)), MPI.SUM, 2)
        call("Allreduce", dbls(d, 11), dbls(e, 11), MPI.MAX)
        call("Gather", ints(d, 3), root(0, blocks(e, 12)), 0)
        call("Gatherv", ints(d, r + 1), root(3, vector), 3)
        call("Scatter", root(1, blocks(d, 20)), ints(e, 5), 1)
        call("Scatterv", root(2, whole), ints(e, r + 1), 2)
        call("Allgather", ints(d, 6), blocks(e, 24))
        call("Allgatherv", ints(d, r + 1), vector)
        call("Alltoall", blocks(d, 28), blocks(e, 28))
        call("Alltoallv", [D, sc, at, INT], [E, rc, at, INT])
        call("Alltoallw", [d, sc, at, types], [e, rc, at, types])
        call("Reduce_scatter", ints(d, 10), ints(e, r + 1), counts, MPI.SUM)
        call("Reduce_scatter_block", blocks(d, 36), ints(e, 9), MPI.SUM)
        call("Scan", ints(d, 12), ints(e, 12), MPI.SUM)
        call("Exscan", ints(d, 13), ints(e, 13), MPI.SUM)

    regular("", False)
    W.Reduce(PLACE if r == 2 else ints(d, 10), root(2, ints(e, 10)), MPI.SUM, 2)
    W.Allreduce(PLACE, ints(e, 11), MPI.SUM)
    W.Gather(PLACE if r == 0 else ints(d, 3), root(0, blocks(e, 12)), 0)
    W.Gatherv(PLACE if r == 3 else ints(d, r + 1), root(3, vector), 3)
    W.Scatter(root(1, blocks(d, 20)), PLACE if r == 1 else ints(e, 5), 1)
    W.Scatterv(root(2, whole), PLACE if r == 2 else ints(e, r + 1), 2)
    W.Allgather(PLACE, blocks(e, 24))
    W.Allgatherv(PLACE, vector)
    W.Alltoall(PLACE, blocks(e, 28))
    W.Alltoallv(PLACE, [E, both, at, INT])
    W.Reduce_scatter(PLACE, ints(e, 10), counts, MPI.SUM)
    W.Reduce_scatter_block(PLACE, blocks(e, 36), MPI.SUM)
    regular("I", True)
    MPI.Request.Waitall([W.Iallreduce(dbls(d, 1), dbls(e, 1)), W.Ibcast(dbls(x, 2), 0)])
    if "Bcast_init" in features:
        q = [
            W.Allreduce_init(dbls(d, 17), dbls(e, 17)),
            W.Bcast_init(dbls(x, 18), 3),
            W.Alltoallv_init([D, sc, at, INT], [X, rc, at, INT]),
        ]
        for i in (0, 0, 1, 2):
            q[i].Start()
            q[i].Wait()
        for one in q:
            one.Free()


def check(comm):
    comm.Allreduce(ints(d, 1), ints(e, 1))


def neighbours():
    D, E = d.view(np.int32), e.view(np.int32)
    into, out = [(r + 3) % 4, (r + 2) % 4], [(r + 1) % 4, (r + 2) % 4]
    sc, at, far = [1, 2], [0, 64, 128, 192], [0, 512]
    same, swapped, two = [1, 2], [2, 1], [INT, INT]
    c = W.Create_cart([4], [True])
    c.Neighbor_allgather(ints(d, 3), blocks(e, 6))
    c.Neighbor_alltoall(blocks(d, 8), blocks(e, 8))
    c.Neighbor_alltoallv([D, same, at[:2], INT], [E, swapped, at[:2], INT])
    c.Neighbor_alltoallw([d, same, far, two], [e, swapped, far, two])
    c.Free()
    c = W.Create_cart([2, 2], [False, False])
    c.Neighbor_alltoall(blocks(d, 20), blocks(e, 20))
    c.Neighbor_allgatherv(ints(d, 2), [E, [2] * 4, at, INT])
    row = c.Sub([False, True])
    check(row)
    row.Free()
    c.Free()
    c = W.Create_dist_graph_adjacent(into, out, [1, 1], [1, 1])
    c.Neighbor_allgather(ints(d, 3), blocks(e, 6))
    c.Neighbor_alltoallv([D, sc, at[:2], INT], [E, sc, at[:2], INT])
    c.Ineighbor_allgather(ints(d, 3), blocks(e, 6)).Wait()
    c.Ineighbor_allgatherv(ints(d, 2), [E, [2, 2], at[:2], INT]).Wait()
    c.Ineighbor_alltoall(blocks(d, 12), blocks(e, 12)).Wait()
    c.Ineighbor_alltoallv([D, sc, at[:2], INT], [E, sc, at[:2], INT]).Wait()
    c.Ineighbor_alltoallw([d, sc, far, two], [e, sc, far, two]).Wait()
    c.Free()
    c = W.Create_dist_graph([r], [2], out, [1, 1])
    c.Neighbor_allgather(ints(d, 1), blocks(e, 2))
    c.Free()
    c = W.Create_graph([2, 4, 6, 8], [3, 1, 0, 2, 1, 3, 2, 0])
    c.Neighbor_allgather(ints(d, 2), blocks(e, 4))
    c.Free()


def communicators():
    c = W.Dup()
    check(c)
    c.Free()
    c = W.Dup_with_info(MPI.INFO_NULL)
    check(c)
    c.Free()
    c, one = W.Idup()
    one.Wait()
    check(c)
    c.Free()
    c = W.Split(0, -r)
    c.Bcast(dbls(d, 3), 0)
    c.Sendrecv(ints(d, 1), (p - r) % p, 5, ints(e, 1), ANY, 5)
    c.Free()
    c = W.Split(7 if r < 3 else MPI.UNDEFINED, r)
    if c != MPI.COMM_NULL:
        check(c)
        c.Free()
    c = W.Split_type(MPI.COMM_TYPE_SHARED, r)
    check(c)
    c.Free()
    world = W.Get_group()
    group = world.Incl([3, 1])
    c = W.Create(group)
    if c != MPI.COMM_NULL:
        check(c)
        c.Free()
    group.Free()
    group = world.Incl([0, 2])
    if r % 2 == 0:
        c = W.Create_group(group, 3)
        check(c)
        c.Free()
    group.Free()
    world.Free()
    check(MPI.COMM_SELF)
    half = W.Split(r % 2, r)
    inter = half.Create_intercomm(0, W, 0 if r % 2 else 1, 12)
    if r % 2 == 0:
        inter.Send(ints(d, 4), r // 2, 6)
    else:
        inter.Recv(ints(e, 4), ANY, 6)
    inter.Barrier()
    inter.Bcast(ints(d, 8), MPI.ROOT if r == 0 else NULL if r == 2 else 0)
    inter.Allreduce(ints(d, 2), ints(e, 2))
    merged = inter.Merge(bool(r % 2))
    check(merged)
    merged.Free()
    inter.Free()
    half.Disconnect()


def large_counts():
    # mpi4py calls the large-count functions wherever the library has them: the sections above did already.
    W.Sendrecv(dbls(d, 3), right, 110, dbls(e, 3), ANY, MPI.ANY_TAG)
    one = W.Irecv(ints(e, 3), ANY, 111)
    W.Send(ints(d, 3), right, 111)
    one.Wait()
    W.Bcast(ints(d, 3), 0)
    W.Allgatherv(ints(d, r + 1), [e.view(np.int32), [1, 2, 3, 4], [0, 8, 16, 24], INT])


def other():
    MPI.Pcontrol(2)
    win = MPI.Win.Create(e[:100], 8, comm=W)
    win.Fence()
    win.Put(dbls(d, 10), right)
    win.Fence()
    win.Free()


point_to_point()
completion()
probes()
persistent()
collectives()
neighbours()
communicators()
if "Send_c" in features:
    large_counts()
other()
