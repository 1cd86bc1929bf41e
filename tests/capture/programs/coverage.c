/* Calls every MPI function that the recorder understands, with sizes that tests/capture/expected.py knows; needs 4 ranks.
 * programs/coverage.py makes the same calls in the same order through mpi4py. */
#include <assert.h>
#include <mpi.h>
#include <stdlib.h>

#define W MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE
#define IGNORES MPI_STATUSES_IGNORE

static int r, p, right, left;
static double d[4096], e[4096], x[4096];
static int flag, n, index_, indices[8];
static MPI_Message message;
static MPI_Request q[8], one;

static void point_to_point(void)
{
    int even = r % 2 == 0, other = even ? r + 1 : r - 1;
    if (even) {
        static char space[10000];
        int size;
        void *back;
        MPI_Send(d, 10, MPI_DOUBLE, other, 1, W);
        MPI_Ssend(d, 5, MPI_INT, other, 2, W);
        MPI_Buffer_attach(space, sizeof space);
        MPI_Bsend(d, 3, MPI_BYTE, other, 3, W);
        MPI_Buffer_detach(&back, &size);
        MPI_Recv(e, 0, MPI_BYTE, other, 5, W, IGNORE);
        MPI_Rsend(d, 7, MPI_DOUBLE, other, 4, W);
    } else {
        MPI_Recv(e, 20, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, IGNORE);
        MPI_Recv(e, 5, MPI_INT, other, 2, W, IGNORE);
        MPI_Recv(e, 3, MPI_BYTE, other, MPI_ANY_TAG, W, IGNORE);
        MPI_Irecv(x, 7, MPI_DOUBLE, other, 4, W, &one);
        MPI_Send(d, 0, MPI_BYTE, other, 5, W);
        MPI_Wait(&one, IGNORE);
    }
    MPI_Send(d, 9, MPI_INT, MPI_PROC_NULL, 1, W);
    MPI_Isend(d, 9, MPI_INT, MPI_PROC_NULL, 1, W, &one);
    MPI_Wait(&one, IGNORE);
    MPI_Sendrecv(d, 6, MPI_DOUBLE, right, 11, e, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 11, W, IGNORE);
    MPI_Sendrecv_replace(d, 4, MPI_INT, left, 12, right, 12, W, IGNORE);
    MPI_Sendrecv(d, 2, MPI_INT, r + 1 < p ? r + 1 : MPI_PROC_NULL, 13, e, 2, MPI_INT, r > 0 ? r - 1 : MPI_PROC_NULL, 13, W, IGNORE);
#ifdef HAVE_Isendrecv
    MPI_Isendrecv(d, 6, MPI_INT, right, 14, e, 8, MPI_INT, MPI_ANY_SOURCE, 14, W, &one);
    MPI_Wait(&one, IGNORE);
    MPI_Isendrecv_replace(d, 3, MPI_INT, right, 15, left, 15, W, &one);
    MPI_Wait(&one, IGNORE);
#endif
    /* To itself, several at once, with one handle for all of them in some libraries. */
    MPI_Irecv(e, 1, MPI_INT, r, 16, W, &q[0]);
    MPI_Isend(d, 1, MPI_INT, r, 16, W, &q[1]);
    MPI_Waitall(2, q, IGNORES);
}

static void ring(int count, int tag)
{
    for (int i = 0; i < 3; i++) MPI_Irecv(e + 64 * i, 50, MPI_DOUBLE, MPI_ANY_SOURCE, tag + i, W, &q[i]);
    MPI_Isend(d, count, MPI_DOUBLE, right, tag, W, &q[3]);
    MPI_Isend(d, count + 1, MPI_DOUBLE, right, tag + 1, W, &q[4]);
    MPI_Issend(d, count + 2, MPI_DOUBLE, right, tag + 2, W, &q[5]);
}

static void completion(void)
{
    ring(1, 20);
    MPI_Waitall(6, q, IGNORES);
    ring(2, 30);
    for (int i = 0; i < 6; i++) MPI_Waitany(6, q, &index_, IGNORE);
    MPI_Waitany(6, q, &index_, IGNORE); /* all are null by now */
    ring(3, 40);
    for (int done = 0; done < 6; done += n) MPI_Waitsome(6, q, &n, indices, IGNORES);
    ring(4, 50);
    for (int i = 0; i < 6; i++)
        do MPI_Test(&q[i], &flag, IGNORE); while (!flag);
    ring(5, 60);
    do MPI_Testall(6, q, &flag, IGNORES); while (!flag);
    ring(6, 70);
    for (int i = 0; i < 6; i += flag) MPI_Testany(6, q, &index_, &flag, IGNORE);
    ring(7, 80);
    for (int done = 0; done < 6; done += n) MPI_Testsome(6, q, &n, indices, IGNORES);
}

static void probes(void)
{
    MPI_Status status;
    MPI_Isend(d, 11, MPI_INT, right, 90, W, &q[0]);
    MPI_Probe(MPI_ANY_SOURCE, 90, W, IGNORE);
    MPI_Recv(e, 11, MPI_INT, left, 90, W, &status);
    MPI_Wait(&q[0], IGNORE);
    MPI_Isend(d, 12, MPI_INT, right, 91, W, &q[0]);
    do MPI_Iprobe(left, 91, W, &flag, IGNORE); while (!flag);
    MPI_Recv(e, 12, MPI_INT, left, 91, W, IGNORE);
    MPI_Wait(&q[0], IGNORE);
    MPI_Isend(d, 13, MPI_INT, right, 92, W, &q[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 92, W, &message, IGNORE);
    MPI_Mrecv(e, 20, MPI_INT, &message, IGNORE);
    MPI_Wait(&q[0], IGNORE);
    MPI_Isend(d, 14, MPI_INT, right, 93, W, &q[0]);
    do MPI_Improbe(left, 93, W, &flag, &message, IGNORE); while (!flag);
    MPI_Imrecv(e, 14, MPI_INT, &message, &q[1]);
    MPI_Waitall(2, q, IGNORES);
}

static void persistent(void)
{
    MPI_Recv_init(e, 40, MPI_DOUBLE, MPI_ANY_SOURCE, 100, W, &q[0]);
    MPI_Send_init(d, 30, MPI_DOUBLE, right, 100, W, &q[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, q);
        MPI_Waitall(2, q, IGNORES);
    }
    MPI_Wait(&q[0], IGNORE); /* inactive: returns at once */
    MPI_Recv_init(e, 5, MPI_INT, left, 101, W, &q[2]);
    MPI_Ssend_init(d, 5, MPI_INT, right, 101, W, &q[3]);
    MPI_Start(&q[2]);
    MPI_Start(&q[3]);
    MPI_Wait(&q[3], IGNORE);
    MPI_Wait(&q[2], IGNORE);
    for (int i = 0; i < 4; i++) MPI_Request_free(&q[i]);
    MPI_Irecv(e, 6, MPI_INT, left, 102, W, &one);
    MPI_Cancel(&one);
    MPI_Wait(&one, IGNORE);
}

/* Elements from s to t in the irregular all-to-alls. */
static int share(int s, int t) { return (s + 2 * t) % 3; }

static void collectives(void)
{
    int counts[4] = {1, 2, 3, 4}, displs[4] = {0, 8, 16, 24}, two[4] = {2, 2, 2, 2};
    int sc[4], rc[4], sd[4], rd[4], both[4];
    MPI_Datatype st[4], rt[4];
    for (int i = 0; i < 4; i++) {
        sc[i] = share(r, i), rc[i] = share(i, r), both[i] = (r + i) % 3;
        sd[i] = rd[i] = 64 * i;
        st[i] = rt[i] = (r + i) % 2 ? MPI_INT : MPI_DOUBLE;
    }
    MPI_Barrier(W);
    MPI_Bcast(d, 100, MPI_INT, 1, W);
    MPI_Reduce(d, e, 10, MPI_DOUBLE, MPI_SUM, 2, W);
    MPI_Allreduce(d, e, 11, MPI_DOUBLE, MPI_MAX, W);
    MPI_Gather(d, 3, MPI_INT, e, 3, MPI_INT, 0, W);
    MPI_Gatherv(d, r + 1, MPI_INT, e, counts, displs, MPI_INT, 3, W);
    MPI_Scatter(d, 5, MPI_INT, e, 5, MPI_INT, 1, W);
    MPI_Scatterv(d, counts, displs, MPI_INT, e, r + 1, MPI_INT, 2, W);
    MPI_Allgather(d, 6, MPI_INT, e, 6, MPI_INT, W);
    MPI_Allgatherv(d, r + 1, MPI_INT, e, counts, displs, MPI_INT, W);
    MPI_Alltoall(d, 7, MPI_INT, e, 7, MPI_INT, W);
    MPI_Alltoallv(d, sc, sd, MPI_INT, e, rc, rd, MPI_INT, W);
    MPI_Alltoallw(d, sc, sd, st, e, rc, rd, rt, W);
    MPI_Reduce_scatter(d, e, counts, MPI_INT, MPI_SUM, W);
    MPI_Reduce_scatter_block(d, e, 9, MPI_INT, MPI_SUM, W);
    MPI_Scan(d, e, 12, MPI_INT, MPI_SUM, W);
    MPI_Exscan(d, e, 13, MPI_INT, MPI_SUM, W);
    /* in place */
    MPI_Reduce(r == 2 ? MPI_IN_PLACE : d, e, 10, MPI_INT, MPI_SUM, 2, W);
    MPI_Allreduce(MPI_IN_PLACE, e, 11, MPI_INT, MPI_SUM, W);
    MPI_Gather(r == 0 ? MPI_IN_PLACE : d, 3, MPI_INT, e, 3, MPI_INT, 0, W);
    MPI_Gatherv(r == 3 ? MPI_IN_PLACE : d, r + 1, MPI_INT, e, counts, displs, MPI_INT, 3, W);
    MPI_Scatter(d, 5, MPI_INT, r == 1 ? MPI_IN_PLACE : e, 5, MPI_INT, 1, W);
    MPI_Scatterv(d, counts, displs, MPI_INT, r == 2 ? MPI_IN_PLACE : e, r + 1, MPI_INT, 2, W);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, e, 6, MPI_INT, W);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, e, counts, displs, MPI_INT, W);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, e, 7, MPI_INT, W);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, e, both, rd, MPI_INT, W);
    MPI_Reduce_scatter(MPI_IN_PLACE, e, counts, MPI_INT, MPI_SUM, W);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, e, 9, MPI_INT, MPI_SUM, W);
    /* non-blocking, each waited for at once */
#define THEN_WAIT(call) (call, MPI_Wait(&one, IGNORE))
    THEN_WAIT(MPI_Ibarrier(W, &one));
    THEN_WAIT(MPI_Ibcast(d, 100, MPI_INT, 1, W, &one));
    THEN_WAIT(MPI_Ireduce(d, e, 10, MPI_DOUBLE, MPI_SUM, 2, W, &one));
    THEN_WAIT(MPI_Iallreduce(d, e, 11, MPI_DOUBLE, MPI_MAX, W, &one));
    THEN_WAIT(MPI_Igather(d, 3, MPI_INT, e, 3, MPI_INT, 0, W, &one));
    THEN_WAIT(MPI_Igatherv(d, r + 1, MPI_INT, e, counts, displs, MPI_INT, 3, W, &one));
    THEN_WAIT(MPI_Iscatter(d, 5, MPI_INT, e, 5, MPI_INT, 1, W, &one));
    THEN_WAIT(MPI_Iscatterv(d, counts, displs, MPI_INT, e, r + 1, MPI_INT, 2, W, &one));
    THEN_WAIT(MPI_Iallgather(d, 6, MPI_INT, e, 6, MPI_INT, W, &one));
    THEN_WAIT(MPI_Iallgatherv(d, r + 1, MPI_INT, e, counts, displs, MPI_INT, W, &one));
    THEN_WAIT(MPI_Ialltoall(d, 7, MPI_INT, e, 7, MPI_INT, W, &one));
    THEN_WAIT(MPI_Ialltoallv(d, sc, sd, MPI_INT, e, rc, rd, MPI_INT, W, &one));
    THEN_WAIT(MPI_Ialltoallw(d, sc, sd, st, e, rc, rd, rt, W, &one));
    THEN_WAIT(MPI_Ireduce_scatter(d, e, counts, MPI_INT, MPI_SUM, W, &one));
    THEN_WAIT(MPI_Ireduce_scatter_block(d, e, 9, MPI_INT, MPI_SUM, W, &one));
    THEN_WAIT(MPI_Iscan(d, e, 12, MPI_INT, MPI_SUM, W, &one));
    THEN_WAIT(MPI_Iexscan(d, e, 13, MPI_INT, MPI_SUM, W, &one));
    /* two at once, with work in between */
    MPI_Iallreduce(d, e, 1, MPI_DOUBLE, MPI_SUM, W, &q[0]);
    MPI_Ibcast(x, two[0], MPI_DOUBLE, 0, W, &q[1]);
    MPI_Waitall(2, q, IGNORES);
#ifdef HAVE_Bcast_init
    MPI_Allreduce_init(d, e, 17, MPI_DOUBLE, MPI_SUM, W, MPI_INFO_NULL, &q[0]);
    MPI_Bcast_init(x, 18, MPI_DOUBLE, 3, W, MPI_INFO_NULL, &q[1]);
    MPI_Alltoallv_init(d, sc, sd, MPI_INT, x, rc, rd, MPI_INT, W, MPI_INFO_NULL, &q[2]);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&q[0]);
        MPI_Wait(&q[0], IGNORE);
    }
    MPI_Start(&q[1]);
    MPI_Wait(&q[1], IGNORE);
    MPI_Start(&q[2]);
    MPI_Wait(&q[2], IGNORE);
    for (int i = 0; i < 3; i++) MPI_Request_free(&q[i]);
#endif
}

static void check(MPI_Comm comm)
{
    int value = 1, sum;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
}

static void neighbours(void)
{
    int dims[2] = {4, 0}, periods[2] = {1, 0}, two[2] = {2, 2}, twos[4] = {2, 2, 2, 2}, none[2] = {0, 0};
    int in[2] = {(r + 3) % 4, (r + 2) % 4}, out[2] = {(r + 1) % 4, (r + 2) % 4}, weights[2] = {1, 1};
    int sc[4] = {1, 2, 1, 2}, d4[4] = {0, 64, 128, 192}, same[2] = {1, 2}, swapped[2] = {2, 1}, remain[2] = {0, 1};
    MPI_Aint a[2] = {0, 512};
    MPI_Datatype t[2] = {MPI_INT, MPI_INT};
    MPI_Comm c;
    MPI_Cart_create(W, 1, dims, periods, 0, &c);
    MPI_Neighbor_allgather(d, 3, MPI_INT, e, 3, MPI_INT, c);
    MPI_Neighbor_alltoall(d, 4, MPI_INT, e, 4, MPI_INT, c);
    /* right of left is this rank: what goes left (1) comes in from the right, what goes right (2) from the left */
    MPI_Neighbor_alltoallv(d, same, d4, MPI_INT, e, swapped, d4, MPI_INT, c);
    MPI_Neighbor_alltoallw(d, same, a, t, e, swapped, a, t, c);
    MPI_Comm_free(&c);
    MPI_Cart_create(W, 2, two, none, 0, &c);
    MPI_Neighbor_alltoall(d, 5, MPI_INT, e, 5, MPI_INT, c);
    MPI_Neighbor_allgatherv(d, 2, MPI_INT, e, twos, d4, MPI_INT, c);
    MPI_Comm row;
    MPI_Cart_sub(c, remain, &row);
    check(row);
    MPI_Comm_free(&row);
    MPI_Comm_free(&c);
    MPI_Dist_graph_create_adjacent(W, 2, in, weights, 2, out, weights, MPI_INFO_NULL, 0, &c);
    MPI_Neighbor_allgather(d, 3, MPI_INT, e, 3, MPI_INT, c);
    MPI_Neighbor_alltoallv(d, sc, d4, MPI_INT, e, sc, d4, MPI_INT, c);
    THEN_WAIT(MPI_Ineighbor_allgather(d, 3, MPI_INT, e, 3, MPI_INT, c, &one));
    THEN_WAIT(MPI_Ineighbor_allgatherv(d, 2, MPI_INT, e, two, d4, MPI_INT, c, &one));
    THEN_WAIT(MPI_Ineighbor_alltoall(d, 6, MPI_INT, e, 6, MPI_INT, c, &one));
    THEN_WAIT(MPI_Ineighbor_alltoallv(d, sc, d4, MPI_INT, e, sc, d4, MPI_INT, c, &one));
    THEN_WAIT(MPI_Ineighbor_alltoallw(d, sc, a, t, e, sc, a, t, c, &one));
    MPI_Comm_free(&c);
    int degree = 2;
    MPI_Dist_graph_create(W, 1, &r, &degree, out, weights, MPI_INFO_NULL, 0, &c);
    MPI_Neighbor_allgather(d, 1, MPI_INT, e, 1, MPI_INT, c);
    MPI_Comm_free(&c);
    int ends[4] = {2, 4, 6, 8}, edges[8] = {3, 1, 0, 2, 1, 3, 2, 0};
    MPI_Graph_create(W, 4, ends, edges, 0, &c);
    MPI_Neighbor_allgather(d, 2, MPI_INT, e, 2, MPI_INT, c);
    MPI_Comm_free(&c);
}

static void communicators(void)
{
    MPI_Comm c, half, inter, merged;
    MPI_Group world, group;
    int some[2] = {3, 1}, pair[2] = {0, 2};
    MPI_Comm_dup(W, &c);
    check(c);
    MPI_Comm_free(&c);
    MPI_Comm_dup_with_info(W, MPI_INFO_NULL, &c);
    check(c);
    MPI_Comm_free(&c);
    MPI_Comm_idup(W, &c, &one);
    MPI_Wait(&one, IGNORE);
    check(c);
    MPI_Comm_free(&c);
    MPI_Comm_split(W, 0, -r, &c);
    MPI_Bcast(d, 3, MPI_DOUBLE, 0, c); /* root is world rank 3 */
    MPI_Sendrecv(d, 1, MPI_INT, (p - 1 - r + 1) % p, 5, e, 1, MPI_INT, MPI_ANY_SOURCE, 5, c, IGNORE);
    MPI_Comm_free(&c);
    MPI_Comm_split(W, r < 3 ? 7 : MPI_UNDEFINED, r, &c);
    if (c != MPI_COMM_NULL) {
        check(c);
        MPI_Comm_free(&c);
    }
    MPI_Comm_split_type(W, MPI_COMM_TYPE_SHARED, r, MPI_INFO_NULL, &c);
    check(c);
    MPI_Comm_free(&c);
    MPI_Comm_group(W, &world);
    MPI_Group_incl(world, 2, some, &group);
    MPI_Comm_create(W, group, &c);
    if (c != MPI_COMM_NULL) {
        check(c);
        MPI_Comm_free(&c);
    }
    MPI_Group_free(&group);
    MPI_Group_incl(world, 2, pair, &group);
    if (r % 2 == 0) {
        MPI_Comm_create_group(W, group, 3, &c);
        check(c);
        MPI_Comm_free(&c);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    check(MPI_COMM_SELF);
    MPI_Comm_split(W, r % 2, r, &half);
    MPI_Intercomm_create(half, 0, W, r % 2 ? 0 : 1, 12, &inter);
    if (r % 2 == 0) MPI_Send(d, 4, MPI_INT, r / 2, 6, inter);
    else MPI_Recv(e, 4, MPI_INT, MPI_ANY_SOURCE, 6, inter, IGNORE);
    MPI_Barrier(inter);
    MPI_Bcast(d, 8, MPI_INT, r == 0 ? MPI_ROOT : r == 2 ? MPI_PROC_NULL : 0, inter);
    MPI_Allreduce(d, e, 2, MPI_INT, MPI_SUM, inter);
    MPI_Intercomm_merge(inter, r % 2, &merged);
    check(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_disconnect(&half);
}

static void other(void)
{
    MPI_Win win;
    MPI_Pcontrol(2);
    MPI_Win_create(e, 800, 8, MPI_INFO_NULL, W, &win);
    MPI_Win_fence(0, win);
    MPI_Put(d, 10, MPI_DOUBLE, right, 0, 10, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

#ifdef HAVE_Send_c
static void large_counts(void)
{
    MPI_Count count = 3, counts[4] = {1, 2, 3, 4};
    MPI_Aint displs[4] = {0, 8, 16, 24};
    MPI_Sendrecv_c(d, count, MPI_DOUBLE, right, 110, e, count, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, IGNORE);
    MPI_Irecv_c(e, count, MPI_INT, MPI_ANY_SOURCE, 111, W, &one);
    MPI_Send_c(d, count, MPI_INT, right, 111, W);
    MPI_Wait(&one, IGNORE);
    MPI_Bcast_c(d, count, MPI_INT, 0, W);
    MPI_Allgatherv_c(d, r + 1, MPI_INT, e, counts, displs, MPI_INT, W);
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(W, &r);
    MPI_Comm_size(W, &p);
    if (p != 4) MPI_Abort(W, 3);
    right = (r + 1) % p, left = (r + p - 1) % p;
    point_to_point();
    completion();
    probes();
    persistent();
    collectives();
    neighbours();
    communicators();
#ifdef HAVE_Send_c
    large_counts();
#endif
    other();
    MPI_Finalize();
    return 0;
}
