/* A ring of 100 exchanges and a barrier, then an end of the kind named in the first argument. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "ok";
    int r, p, x = 0, y = 0;
    if (!strcmp(mode, "never")) return 0;
    if (!strcmp(mode, "status")) return 9;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    MPI_Comm_size(MPI_COMM_WORLD, &p);
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(&x, 1, MPI_INT, (r + 1) % p, i, &y, 1, MPI_INT, (r + p - 1) % p, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (r == 1) {
        if (!strcmp(mode, "crash")) raise(SIGSEGV);
        if (!strcmp(mode, "kill")) kill(getpid(), SIGKILL);
        if (!strcmp(mode, "abort")) MPI_Abort(MPI_COMM_WORLD, 5);
        if (!strcmp(mode, "exit")) exit(7);
    }
    /* A message that never comes: nobody gets past the end of rank 1. */
    if (strcmp(mode, "ok") && r != 1) MPI_Recv(&x, 1, MPI_INT, 1, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(mode, "ok")) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
