/* netsim capture: the recorder that is preloaded into each MPI process.
 *
 * The generated file defines the tables of functions, includes this file, and adds one wrapper per MPI function. A wrapper
 *   1. asks ns_enter() whether to record (not when the call comes from inside another MPI call),
 *   2. notes the arguments, calls the MPI library, notes what came out of it,
 *   3. leaves through ns_finish(), which appends one fixed-size record to a file that is mapped into memory.
 *
 * Everything written to the mapping belongs to the kernel at once: a rank that is killed, even with SIGKILL, loses nothing.
 * The library refers to no symbol of MPI: all are looked up when the first MPI call comes, so it is inert in other programs
 * (mpiexec, shells), and finds an MPI that was loaded late and privately, as mpi4py does.
 *
 * Files of a rank, little-endian: <job>-<rank>.rec = ns_header, names, counts, then records; <job>-<rank>.vec = 64-bit integers
 * that records point into. records.py reads them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(OMPI_PREDEFINED_GLOBAL)
/* Open MPI's handles are addresses of objects in its library; look them up by name instead of linking to them. */
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, object) \
    ((type)({ static void *ns_at; if (!ns_at) ns_at = ns_symbol(RTLD_DEFAULT, #object); ns_at; }))
#endif

#include "store.h"
#include "notes.h"
#include "run.h"
