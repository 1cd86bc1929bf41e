/* Two threads exchange with the same threads of the other rank; a request of the second thread is completed by the first. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static int r, x[2], y[2];
static MPI_Comm comm[2];
static MPI_Request shared;

static void *second(void *unused)
{
    for (int i = 0; i < 50; i++)
        MPI_Sendrecv(&x[1], 1, MPI_INT, 1 - r, 2, &y[1], 1, MPI_INT, 1 - r, 2, comm[1], MPI_STATUS_IGNORE);
    MPI_Irecv(&y[1], 1, MPI_INT, 1 - r, 3, comm[1], &shared);
    return unused;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE) {
        puts("no threads");
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    pthread_create(&thread, NULL, second, NULL);
    for (int i = 0; i < 50; i++)
        MPI_Sendrecv(&x[0], 2, MPI_BYTE, 1 - r, 1, &y[0], 2, MPI_BYTE, 1 - r, 1, comm[0], MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
    MPI_Send(&x[0], 1, MPI_INT, 1 - r, 3, comm[1]);
    MPI_Wait(&shared, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
