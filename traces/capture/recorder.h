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

/* ---- records ------------------------------------------------------------------------------------------------------- */

enum { NS_VERSION = 1 };
enum { NS_NO_PEER = -1, NS_PROC_NULL = -2, NS_ANY = -3, NS_ROOT = -4, NS_CANCELLED = -5 };
enum { NS_IN_PLACE = 1, NS_ANY_SOURCE = 2, NS_ANY_TAG = 4 };
enum { NS_RUNNING = 0, NS_FINALIZED = 1, NS_ABORTED = 2, NS_EXITED = 3, NS_FULL = 4 };

typedef struct {
    uint16_t fn;                /* number in the table of functions */
    uint16_t flags;
    int32_t thread;
    int32_t comm;               /* own number of the communicator, -1 = none */
    int32_t peer, tag;          /* as in the call (rank in comm); receives: resolved */
    int32_t peer2, tag2;        /* receiving half of a sendrecv; all-to-all-v: peer2 = entries of the sending half in vec */
    int32_t newcomm;            /* number of the communicator that was made */
    uint16_t dtype, redop;      /* 1 + position in the tables, 0 = none */
    uint32_t vec_n;             /* integers in the .vec file, from vec_at on */
    int64_t bytes, bytes2;      /* payload as the canonical trace defines it; receiving half of a sendrecv */
    int64_t actual;             /* bytes that a receive got, -1 = not known */
    uint64_t request;           /* own number of the request, 0 = none */
    uint64_t vec_at;
    int64_t t_start, t_end;     /* CLOCK_MONOTONIC */
    int64_t gap_cpu, gap_wall;  /* outside MPI since this thread's previous record */
} ns_record;
_Static_assert(sizeof(ns_record) == 112, "records.py expects 112 bytes");

typedef struct {
    char magic[8];
    uint32_t version, record_bytes, n_functions, names_at, names_bytes, counts_at, data_at;
    int32_t rank, size, state, abort_code, inside, cores, threads, thread_level;
    int64_t pid, start_wall, start_real;
    uint64_t job, n_records, n_vec, n_lost, n_polls;
    char host[256], token[64], library[256], built_for[256];
} ns_header;
_Static_assert(sizeof(ns_header) == 968, "records.py expects 968 bytes");

typedef struct {                /* a file that grows, mapped through a moving window */
    int fd;
    char *window;
    size_t window_at, window_bytes, used;
} ns_file;

static ns_header *ns_head;
static uint64_t *ns_uncounted;  /* per function: calls that gave no record */
static ns_file ns_records_file = {.fd = -1}, ns_vec_file = {.fd = -1};
static bool ns_on;
static pid_t ns_pid;
static pthread_mutex_t ns_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- symbols of the MPI library -------------------------------------------------------------------------------------- */

static int ns_find_library(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!strstr(name ? name : info->dlpi_name, "libmpi"))
        return 0;
    void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library && dlsym(library, "PMPI_Init")) {
        *(void **)found = library;
        return 1;
    }
    return 0;
}

/* Functions are those after our own (RTLD_NEXT). Objects are the first in the global scope (RTLD_DEFAULT): an executable may hold
 * the one copy that everybody uses (copy relocation), and then the library's own is dead. */
static void *ns_symbol(void *scope, const char *name)
{
    void *at = dlsym(scope, name);
    static void *library;
    if (!at) {
        /* The library was opened privately (Python extension): it is not in the global scope, but it is loaded. */
        if (!library)
            dl_iterate_phdr(ns_find_library, &library);
        if (library)
            at = dlsym(library, name);
    }
    if (!at) {
        fprintf(stderr, "netsim capture: the MPI library of this program has no %s; the recorder was built for %s\n", name,
                ns_built_for);
        abort();
    }
    return at;
}

#define NS_REAL(function) \
    ({ static __typeof__(&function) ns_real; if (!ns_real) ns_real = (__typeof__(&function))ns_symbol(RTLD_NEXT, "P" #function); ns_real; })

/* ---- clocks and per-thread state --------------------------------------------------------------------------------------- */

static int64_t ns_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static int64_t ns_wall(void) { return ns_now(CLOCK_MONOTONIC); }
static int64_t ns_cpu(void) { return ns_now(CLOCK_THREAD_CPUTIME_ID); }

typedef struct {
    int inside;                     /* in an MPI call: calls that the library makes itself are not recorded */
    int number;                     /* 1 + number of the thread, 0 = not yet given */
    int64_t left_wall, left_cpu;    /* when it last left MPI */
    int64_t gap_wall, gap_cpu;      /* outside MPI since its last record; unsuccessful polls add up here */
    int64_t *vec;                   /* integers of the record in the making */
    size_t vec_n, vec_cap;
    MPI_Status *statuses;           /* when the program ignores them */
    size_t statuses_cap;
    MPI_Request *handles;           /* as they were before the call */
    size_t handles_cap;
} ns_thread;
static __thread ns_thread ns_me;
static atomic_int ns_threads;
static int64_t ns_cost_cpu, ns_cost_wall; /* of reading the clocks: taken off every gap */

typedef struct {
    ns_record rec;
    bool keep;
} ns_call;

static void ns_stop(const char *why);

static void *ns_room(void *buffer, size_t *cap, size_t n, size_t item)
{
    if (n > *cap) {
        *cap = n < 64 ? 64 : 2 * n;
        buffer = realloc(buffer, *cap * item);
        if (!buffer) {
            fprintf(stderr, "netsim capture: out of memory\n");
            abort();
        }
    }
    return buffer;
}

static void ns_push(int64_t value)
{
    ns_me.vec = ns_room(ns_me.vec, &ns_me.vec_cap, ns_me.vec_n + 1, sizeof *ns_me.vec);
    ns_me.vec[ns_me.vec_n++] = value;
}

/* ---- files ------------------------------------------------------------------------------------------------------------- */

static bool ns_open(ns_file *file, const char *path)
{
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file->fd >= 0;
}

/* The next n bytes of the file, or NULL when the disk is full (a write to an unbacked page would kill the program). */
static void *ns_reserve(ns_file *file, size_t n)
{
    const size_t page = 65536, most = (size_t)8 << 20;
    if (!file->window || file->used + n > file->window_at + file->window_bytes) {
        size_t at = file->used / page * page, least = (file->used + n - at + page - 1) / page * page;
        size_t bytes = file->window_bytes ? 2 * file->window_bytes : 4 * page;
        if (bytes > most) bytes = most;
        if (bytes < least) bytes = least;
        if (posix_fallocate(file->fd, (off_t)at, (off_t)bytes) != 0)
            return NULL;
        char *window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)at);
        if (window == MAP_FAILED)
            return NULL;
        if (file->window) munmap(file->window, file->window_bytes);
        file->window = window;
        file->window_at = at;
        file->window_bytes = bytes;
    }
    return file->window + (file->used - file->window_at);
}

static void ns_close(int state)
{
    pthread_mutex_lock(&ns_lock);
    if (ns_head && ns_head->state == NS_RUNNING) ns_head->state = state;
    /* Give back the unused end of the files; the mappings stay valid for what is in use. */
    if (ns_records_file.fd >= 0 && ftruncate(ns_records_file.fd, (off_t)ns_records_file.used) != 0) errno = 0;
    if (ns_vec_file.fd >= 0 && ftruncate(ns_vec_file.fd, (off_t)ns_vec_file.used) != 0) errno = 0;
    ns_on = false;
    pthread_mutex_unlock(&ns_lock);
}

/* Append the record, with the integers pushed since vec_from. */
static void ns_append(ns_record *rec, size_t vec_from)
{
    size_t n = ns_me.vec_n - vec_from;
    pthread_mutex_lock(&ns_lock);
    void *at = NULL, *vec_at = NULL;
    if (ns_on && ns_head->state != NS_FULL) {
        vec_at = n ? ns_reserve(&ns_vec_file, 8 * n) : ns_head;
        at = vec_at ? ns_reserve(&ns_records_file, sizeof *rec) : NULL;
        if (!at) {
            ns_head->state = NS_FULL;
            fprintf(stderr, "netsim capture: rank %d: cannot extend its records (%s); the rest of the run is not recorded\n",
                    ns_head->rank, strerror(errno));
        }
    }
    if (at) {
        rec->vec_at = ns_head->n_vec;
        rec->vec_n = (uint32_t)n;
        if (n) {
            memcpy(vec_at, ns_me.vec + vec_from, 8 * n);
            ns_vec_file.used += 8 * n;
            ns_head->n_vec += n;
        }
        memcpy(at, rec, sizeof *rec);
        ns_records_file.used += sizeof *rec;
        /* A reader of a killed run trusts this count: it goes up after the record is there. */
        atomic_thread_fence(memory_order_release);
        ns_head->n_records++;
    } else if (ns_head) {
        ns_head->n_lost++;
    }
    pthread_mutex_unlock(&ns_lock);
    ns_me.vec_n = vec_from;
}

/* ---- entering and leaving a call ------------------------------------------------------------------------------------------ */

static void ns_blank(ns_record *rec, int fn)
{
    memset(rec, 0, sizeof *rec);
    rec->fn = (uint16_t)fn;
    rec->comm = rec->newcomm = -1;
    rec->peer = rec->peer2 = NS_NO_PEER;
    rec->tag = rec->tag2 = -1;
    rec->actual = -1;
}

static bool ns_enter(ns_call *call, int fn)
{
    ns_thread *me = &ns_me;
    if (!ns_on || me->inside) return false;
    int64_t cpu = ns_cpu(), wall = ns_wall();
    me->inside = 1;
    if (!me->number) {
        me->number = 1 + atomic_fetch_add(&ns_threads, 1);
        me->left_wall = wall;
        me->left_cpu = 0;
        ns_head->threads = me->number > ns_head->threads ? me->number : ns_head->threads;
    }
    int64_t gap_cpu = cpu - me->left_cpu - ns_cost_cpu, gap_wall = wall - me->left_wall - ns_cost_wall;
    me->gap_cpu += gap_cpu > 0 ? gap_cpu : 0;
    me->gap_wall += gap_wall > 0 ? gap_wall : 0;
    ns_head->inside = fn + 1;
    ns_blank(&call->rec, fn);
    call->rec.thread = me->number - 1;
    call->keep = true;
    me->vec_n = 0;
    call->rec.t_start = ns_wall();
    return true;
}

static void ns_leave(ns_call *call, int rc)
{
    call->rec.t_end = ns_wall();
    if (rc != MPI_SUCCESS) call->keep = false;
}

static void ns_finish(ns_call *call)
{
    ns_thread *me = &ns_me;
    if (call->keep) {
        call->rec.gap_cpu = me->gap_cpu;
        call->rec.gap_wall = me->gap_wall;
        me->gap_cpu = me->gap_wall = 0;
        ns_append(&call->rec, 0);
    } else {
        pthread_mutex_lock(&ns_lock);
        ns_uncounted[call->rec.fn]++;
        pthread_mutex_unlock(&ns_lock);
    }
    ns_head->inside = 0;
    me->inside = 0;
    me->left_wall = ns_wall();
    me->left_cpu = ns_cpu();
}

/* ---- handles: which number an open request, message or communicator has ---------------------------------------------------- */

#define ns_key(handle) ((uint64_t)(uintptr_t)(handle))

enum { NS_SEND = 1, NS_RECV = 2, NS_COLLECTIVE = 3, NS_EXCHANGE = 4 };

typedef struct ns_item {
    struct ns_item *next;
    uint64_t key;
    uint64_t number;    /* request: of the operation in flight, 0 = inactive; communicator being made: its number */
    uint64_t made;      /* persistent request: number of the call that made it; else 0 */
    int32_t kind, comm, peer, tag;
} ns_item;

/* Chained hash table that keeps all items of one key, oldest first: libraries give one and the same handle to all operations
 * that were complete at once (eager sends), so a handle may stand for several requests. */
typedef struct {
    ns_item **bucket;
    size_t n_buckets, n_items;
} ns_table;
static ns_table ns_requests, ns_messages, ns_young;
static uint64_t ns_last_request;
static bool ns_cancels;

static size_t ns_hash(uint64_t key, size_t n)
{
    key = (key ^ (key >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(key >> 32) & (n - 1);
}

static ns_item **ns_end(ns_table *table, uint64_t key)
{
    ns_item **at = &table->bucket[ns_hash(key, table->n_buckets)];
    while (*at) at = &(*at)->next;
    return at;
}

static ns_item *ns_add(ns_table *table, uint64_t key)
{
    if (table->n_items >= table->n_buckets) {
        ns_table larger = {.n_buckets = table->n_buckets ? 4 * table->n_buckets : 256, .n_items = table->n_items};
        larger.bucket = calloc(larger.n_buckets, sizeof *larger.bucket);
        for (size_t i = 0; i < table->n_buckets; i++)
            for (ns_item *item = table->bucket[i], *next; item; item = next) {
                next = item->next;
                item->next = NULL;
                *ns_end(&larger, item->key) = item;
            }
        free(table->bucket);
        *table = larger;
    }
    ns_item *item = calloc(1, sizeof *item);
    item->key = key;
    *ns_end(table, key) = item;
    table->n_items++;
    return item;
}

static ns_item **ns_find(ns_table *table, uint64_t key)
{
    if (!table->n_items) return NULL;
    for (ns_item **at = &table->bucket[ns_hash(key, table->n_buckets)]; *at; at = &(*at)->next)
        if ((*at)->key == key) return at;
    return NULL;
}

/* Take the oldest item of the key out of the table; false: there is none. */
static bool ns_take(ns_table *table, uint64_t key, ns_item *out)
{
    ns_item **at = ns_find(table, key);
    if (!at) return false;
    ns_item *item = *at;
    *out = *item;
    *at = item->next;
    free(item);
    table->n_items--;
    return true;
}

/* ---- communicators ----------------------------------------------------------------------------------------------------- */

typedef struct {
    int rank, size, remote; /* remote: size of the other group, -1 for an intracommunicator */
    int in, out;            /* neighbours; -1 without a topology */
} ns_comm;
static ns_comm *ns_comms;
static size_t ns_comms_cap;
static int ns_n_comms, ns_keyval = MPI_KEYVAL_INVALID;
static MPI_Group ns_world_group;

static int ns_keep_nothing(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0; /* a duplicate is another communicator: it must not inherit the number */
    return MPI_SUCCESS;
}
static int ns_forget_nothing(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static void ns_push_world_ranks(MPI_Group group)
{
    int n;
    NS_REAL(MPI_Group_size)(group, &n);
    int *mine = malloc(sizeof(int) * 2 * (size_t)(n + 1)), *world = mine + n + 1;
    for (int i = 0; i < n; i++) mine[i] = i;
    NS_REAL(MPI_Group_translate_ranks)(group, n, mine, ns_world_group, world);
    ns_push(n);
    for (int i = 0; i < n; i++) ns_push(world[i] == MPI_UNDEFINED ? -1 : world[i]);
    free(mine);
}

static void ns_push_ranks(int n, const int *ranks)
{
    ns_push(n);
    for (int i = 0; i < n; i++) ns_push(ranks[i] == MPI_PROC_NULL ? NS_PROC_NULL : ranks[i]);
}

/* Neighbours, as ranks of the communicator, in the order in which neighbourhood collectives use them: in, then out. */
static void ns_push_neighbours(MPI_Comm comm, ns_comm *about)
{
    int kind = MPI_UNDEFINED, n = 0, m = 0, weighted, *in = NULL, *out = NULL;
    NS_REAL(MPI_Topo_test)(comm, &kind);
    if (kind == MPI_CART) {
        int dims = 0;
        NS_REAL(MPI_Cartdim_get)(comm, &dims);
        n = m = 2 * dims;
        in = out = malloc(sizeof(int) * (size_t)(n + 1));
        for (int d = 0; d < dims; d++) NS_REAL(MPI_Cart_shift)(comm, d, 1, &in[2 * d], &in[2 * d + 1]);
    } else if (kind == MPI_GRAPH) {
        NS_REAL(MPI_Graph_neighbors_count)(comm, about->rank, &n);
        m = n;
        in = out = malloc(sizeof(int) * (size_t)(n + 1));
        NS_REAL(MPI_Graph_neighbors)(comm, about->rank, n, in);
    } else if (kind == MPI_DIST_GRAPH) {
        NS_REAL(MPI_Dist_graph_neighbors_count)(comm, &n, &m, &weighted);
        /* Real arrays for the weights: MPI_UNWEIGHTED is a symbol of the library in some implementations. */
        in = malloc(sizeof(int) * 2 * (size_t)(n + m + 2));
        out = in + n + 1;
        int *weights = out + m + 1;
        NS_REAL(MPI_Dist_graph_neighbors)(comm, n, in, weights, m, out, weights + n);
    } else {
        return;
    }
    about->in = n;
    about->out = m;
    ns_push_ranks(n, in);
    ns_push_ranks(m, out);
    free(in);
}

/* Number a communicator and push its description: is it inter, members, remote members, neighbours. */
static int ns_describe(MPI_Comm comm, int number)
{
    int inter = 0;
    ns_comm about = {.remote = -1, .in = -1, .out = -1};
    MPI_Group group;
    NS_REAL(MPI_Comm_test_inter)(comm, &inter);
    NS_REAL(MPI_Comm_rank)(comm, &about.rank);
    NS_REAL(MPI_Comm_size)(comm, &about.size);
    ns_push(inter);
    NS_REAL(MPI_Comm_group)(comm, &group);
    ns_push_world_ranks(group);
    NS_REAL(MPI_Group_free)(&group);
    if (inter) {
        NS_REAL(MPI_Comm_remote_size)(comm, &about.remote);
        NS_REAL(MPI_Comm_remote_group)(comm, &group);
        ns_push_world_ranks(group);
        NS_REAL(MPI_Group_free)(&group);
    } else {
        ns_push_neighbours(comm, &about);
    }
    pthread_mutex_lock(&ns_lock);
    if (number < 0) number = ns_n_comms++;
    ns_comms = ns_room(ns_comms, &ns_comms_cap, (size_t)ns_n_comms, sizeof *ns_comms);
    ns_comms[number] = about;
    pthread_mutex_unlock(&ns_lock);
    return number;
}

static void ns_set_number(MPI_Comm comm, int number)
{
    NS_REAL(MPI_Comm_set_attr)(comm, ns_keyval, (void *)(intptr_t)(number + 1));
}

static int ns_comm_number(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL) return -1;
    if (comm == MPI_COMM_WORLD) return 0;
    void *value = NULL;
    int found = 0;
    NS_REAL(MPI_Comm_get_attr)(comm, ns_keyval, &value, &found);
    if (found) return (int)(intptr_t)value - 1;
    ns_item young;
    pthread_mutex_lock(&ns_lock);
    bool known = ns_take(&ns_young, ns_key(comm), &young);
    pthread_mutex_unlock(&ns_lock);
    if (known) { /* made by MPI_Comm_idup, which has completed since */
        ns_set_number(comm, (int)young.number);
        return (int)young.number;
    }
    /* Made by something that is not wrapped: describe it now. */
    size_t from = ns_me.vec_n;
    ns_record rec;
    ns_blank(&rec, NS_FN_SEEN);
    rec.thread = ns_me.number - 1;
    rec.newcomm = ns_describe(comm, -1);
    rec.t_start = rec.t_end = ns_wall();
    ns_append(&rec, from);
    ns_set_number(comm, rec.newcomm);
    return rec.newcomm;
}

static void ns_comm_made(ns_call *call, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL) return;
    call->rec.newcomm = ns_describe(comm, -1);
    ns_set_number(comm, call->rec.newcomm);
}

/* A duplicate in the making: same members as its parent; it gets its number now, so that all ranks count alike. */
static void ns_comm_begun(ns_call *call, MPI_Comm parent, MPI_Comm handle)
{
    int number = ns_describe(parent, -1);
    call->rec.newcomm = number;
    pthread_mutex_lock(&ns_lock);
    ns_item *item = ns_add(&ns_young, ns_key(handle));
    item->number = (uint64_t)number;
    pthread_mutex_unlock(&ns_lock);
}

static ns_comm ns_about(const ns_call *call)
{
    ns_comm none = {.remote = -1, .in = -1, .out = -1};
    if (call->rec.comm < 0) return none;
    pthread_mutex_lock(&ns_lock);
    none = ns_comms[call->rec.comm];
    pthread_mutex_unlock(&ns_lock);
    return none;
}

/* ---- sizes, types, peers ----------------------------------------------------------------------------------------------- */

static MPI_Datatype ns_dtypes[NS_N_DTYPES];
static MPI_Op ns_redops[NS_N_REDOPS];

static int64_t ns_size(int64_t count, MPI_Datatype type)
{
    if (type == MPI_DATATYPE_NULL || count <= 0) return 0;
    MPI_Count size = 0;
    NS_REAL(MPI_Type_size_x)(type, &size);
    return count * (int64_t)size;
}

static void ns_set_dtype(ns_call *call, MPI_Datatype type)
{
    for (int i = 0; i < NS_N_DTYPES; i++)
        if (ns_dtypes[i] == type) {
            call->rec.dtype = (uint16_t)(i + 1);
            return;
        }
}

static void ns_set_redop(ns_call *call, MPI_Op op)
{
    call->rec.redop = NS_N_REDOPS + 1;
    for (int i = 0; i < NS_N_REDOPS; i++)
        if (ns_redops[i] == op) call->rec.redop = (uint16_t)(i + 1);
}

static int ns_peer(int rank)
{
    return rank == MPI_PROC_NULL ? NS_PROC_NULL : rank == MPI_ANY_SOURCE ? NS_ANY : rank == MPI_ROOT ? NS_ROOT : rank;
}

static void ns_from(ns_call *call, int source, int tag, int32_t *peer, int32_t *to_tag)
{
    *peer = ns_peer(source);
    *to_tag = tag == MPI_ANY_TAG ? -1 : tag;
    if (source == MPI_ANY_SOURCE) call->rec.flags |= NS_ANY_SOURCE;
    if (tag == MPI_ANY_TAG && source != MPI_PROC_NULL) call->rec.flags |= NS_ANY_TAG;
}

static void ns_message(ns_call *call, int64_t count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    call->rec.comm = ns_comm_number(comm);
    call->rec.bytes = ns_size(count, type);
    call->rec.peer = ns_peer(dest);
    call->rec.tag = tag;
    ns_set_dtype(call, type);
}

static void ns_receive(ns_call *call, int64_t count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    call->rec.comm = ns_comm_number(comm);
    call->rec.bytes = ns_size(count, type);
    ns_from(call, source, tag, &call->rec.peer, &call->rec.tag);
    ns_set_dtype(call, type);
}

static void ns_receive2(ns_call *call, int64_t count, MPI_Datatype type, int source, int tag)
{
    call->rec.bytes2 = ns_size(count, type);
    ns_from(call, source, tag, &call->rec.peer2, &call->rec.tag2);
}

static int64_t ns_received(const MPI_Status *status)
{
    MPI_Count n = MPI_UNDEFINED;
    NS_REAL(MPI_Get_elements_x)((MPI_Status *)status, MPI_BYTE, &n);
    return n == MPI_UNDEFINED ? -1 : (int64_t)n;
}

static void ns_resolve(ns_call *call, const MPI_Status *status, int32_t *peer, int32_t *tag)
{
    if (*peer == NS_PROC_NULL) return;
    *peer = ns_peer(status->MPI_SOURCE);
    *tag = status->MPI_TAG;
    call->rec.actual = ns_received(status);
}

/* ---- statuses and requests --------------------------------------------------------------------------------------------- */

/* Own status in place of an ignored one: it is the only way to learn who answered a wildcard, and how much came. */
static MPI_Status *ns_status(MPI_Status *given)
{
    if (given != MPI_STATUS_IGNORE) return given;
    ns_me.statuses = ns_room(ns_me.statuses, &ns_me.statuses_cap, 1, sizeof *ns_me.statuses);
    return ns_me.statuses;
}

static MPI_Status *ns_statuses(MPI_Status *given, int64_t n)
{
    if (given != MPI_STATUSES_IGNORE) return given;
    ns_me.statuses = ns_room(ns_me.statuses, &ns_me.statuses_cap, n > 0 ? (size_t)n : 1, sizeof *ns_me.statuses);
    return ns_me.statuses;
}

static void ns_keep_handles(int64_t n, const MPI_Request *requests)
{
    if (n <= 0) return;
    ns_me.handles = ns_room(ns_me.handles, &ns_me.handles_cap, (size_t)n, sizeof *ns_me.handles);
    memcpy(ns_me.handles, requests, (size_t)n * sizeof *requests);
}

static void ns_request(ns_call *call, MPI_Request request, int kind, bool persistent)
{
    pthread_mutex_lock(&ns_lock);
    uint64_t number = ++ns_last_request;
    ns_item *item = ns_add(&ns_requests, ns_key(request));
    item->kind = kind;
    if (persistent)
        item->made = number;
    else
        item->number = number;
    pthread_mutex_unlock(&ns_lock);
    call->rec.request = number;
}

/* Push number, source, tag and bytes of the operation that completed through this handle. */
static void ns_completed(MPI_Request handle, const MPI_Status *status)
{
    ns_item item;
    pthread_mutex_lock(&ns_lock);
    ns_item **at = ns_find(&ns_requests, ns_key(handle));
    bool known = at != NULL;
    if (known && (*at)->made) {
        item = **at;
        (*at)->number = 0; /* inactive until the next start */
    } else if (known) {
        ns_take(&ns_requests, ns_key(handle), &item);
    }
    pthread_mutex_unlock(&ns_lock);
    if (!known || !item.number) return;
    int cancelled = 0;
    if (ns_cancels) NS_REAL(MPI_Test_cancelled)((MPI_Status *)status, &cancelled);
    ns_push((int64_t)item.number);
    if (cancelled) {
        ns_push(NS_CANCELLED), ns_push(-1), ns_push(-1);
    } else if (item.kind == NS_RECV || (item.kind == NS_EXCHANGE && NS_FOR_OPEN_MPI)) {
        /* MPICH (seen in 5.0.2) leaves garbage in the status of a non-blocking sendrecv: better nothing than that. */
        ns_push(ns_peer(status->MPI_SOURCE)), ns_push(status->MPI_TAG), ns_push(ns_received(status));
    } else {
        ns_push(NS_NO_PEER), ns_push(-1), ns_push(-1);
    }
}

/* Only null, inactive or foreign requests: nothing was waited for. */
static void ns_keep_if_any(ns_call *call)
{
    if (!ns_me.vec_n) call->keep = false;
}

static void ns_started(MPI_Request handle)
{
    pthread_mutex_lock(&ns_lock);
    ns_item **at = ns_find(&ns_requests, ns_key(handle));
    uint64_t made = at ? (*at)->made : 0, number = 0;
    if (made) (*at)->number = number = ++ns_last_request;
    pthread_mutex_unlock(&ns_lock);
    if (made) ns_push((int64_t)made), ns_push((int64_t)number);
}

static void ns_freed(MPI_Request handle)
{
    ns_item item;
    pthread_mutex_lock(&ns_lock);
    ns_take(&ns_requests, ns_key(handle), &item);
    pthread_mutex_unlock(&ns_lock);
}

/* ---- matched probes ----------------------------------------------------------------------------------------------------- */

static void ns_probed(ns_call *call, const MPI_Status *status)
{
    ns_resolve(call, status, &call->rec.peer, &call->rec.tag);
    call->rec.bytes = call->rec.actual > 0 ? call->rec.actual : 0;
}

static void ns_message_found(ns_call *call, MPI_Message message)
{
    pthread_mutex_lock(&ns_lock);
    ns_item *item = ns_add(&ns_messages, ns_key(message));
    item->comm = call->rec.comm;
    item->peer = call->rec.peer;
    item->tag = call->rec.tag;
    pthread_mutex_unlock(&ns_lock);
}

static void ns_message_taken(ns_call *call, int64_t count, MPI_Datatype type, MPI_Message message)
{
    ns_item item = {.comm = -1, .peer = NS_PROC_NULL, .tag = -1};
    pthread_mutex_lock(&ns_lock);
    ns_take(&ns_messages, ns_key(message), &item);
    pthread_mutex_unlock(&ns_lock);
    call->rec.comm = item.comm;
    call->rec.peer = item.peer;
    call->rec.tag = item.tag;
    call->rec.bytes = ns_size(count, type);
    ns_set_dtype(call, type);
}

/* ---- collectives -------------------------------------------------------------------------------------------------------- */

static ns_comm ns_collective(ns_call *call, MPI_Comm comm)
{
    call->rec.comm = ns_comm_number(comm);
    return ns_about(call);
}

/* Rooted collectives: is this the root; does it take part with data of its own (not the idle members of the root's group)? */
static bool ns_is_root(ns_call *call, ns_comm about, int root)
{
    call->rec.peer = ns_peer(root);
    return about.remote >= 0 ? root == MPI_ROOT : root == about.rank;
}
static bool ns_has_part(ns_comm about, int root) { return about.remote < 0 || root >= 0; }

#define NS_PUSH_SIZES(n, counts, type) \
    for (int ns_i = 0; ns_i < (n); ns_i++) ns_push(ns_size((int64_t)(counts)[ns_i], (type)))
#define NS_IS_IN_PLACE(buffer) ((buffer) == MPI_IN_PLACE ? (call.rec.flags |= NS_IN_PLACE, true) : false)

static int64_t ns_pushed(size_t from)
{
    int64_t sum = 0;
    for (size_t i = from; i < ns_me.vec_n; i++) sum += ns_me.vec[i];
    return sum;
}

/* ---- start and end of a run ----------------------------------------------------------------------------------------------- */

static void ns_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("netsim capture: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* Leave word for the launcher why there are no records. */
static void ns_excuse(const char *directory, const char *kind, const char *text)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s-%ld.txt", directory, kind, (long)getpid());
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

/* Handles differ between MPI families: running on the wrong library would crash later, at the first communicator. */
static void ns_check_library(const char *directory, char *library)
{
    int n = 0;
    NS_REAL(MPI_Get_library_version)(library, &n);
    library[strcspn(library, "\n")] = 0;
    for (char *p = library; *p; p++)
        if (*p == '\t') *p = ' ';
    Dl_info where = {0};
    dladdr(ns_symbol(RTLD_NEXT, "PMPI_Init"), &where);
    bool abi = where.dli_fname && strstr(where.dli_fname, "libmpi_abi");
    bool mpich = strncmp(library, "MPICH", 5) == 0 || strncmp(library, "Intel", 5) == 0 || strncmp(library, "MVAPICH", 7) == 0;
    bool open_mpi = strstr(library, "Open MPI") != NULL;
    if (NS_FOR_OPEN_MPI ? !mpich : !open_mpi && abi == NS_FOR_ABI) return;
    ns_excuse(directory, "other-mpi", library);
    ns_say("the program uses \"%s\", but the recorder was built for %s", library, ns_built_for);
    _exit(87);
}

static void ns_calibrate(void)
{
    ns_cost_cpu = ns_cost_wall = INT64_MAX;
    for (int i = 0; i < 200; i++) {
        int64_t wall = ns_wall(), cpu = ns_cpu(), cpu2 = ns_cpu(), wall2 = ns_wall();
        if (cpu2 - cpu < ns_cost_cpu) ns_cost_cpu = cpu2 - cpu;
        if (wall2 - wall < ns_cost_wall) ns_cost_wall = wall2 - wall;
    }
}

static void ns_prepare(const char *directory, const char *library)
{
    struct { int64_t job; } shared = {0};
    int rank, size, level = 0;
    ns_header head;
    memset(&head, 0, sizeof head);
    NS_REAL(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
    NS_REAL(MPI_Comm_size)(MPI_COMM_WORLD, &size);
    NS_REAL(MPI_Query_thread)(&level);
    /* One name for the job on all ranks: several jobs may run in one directory. */
    if (rank == 0) shared.job = ns_now(CLOCK_REALTIME) ^ ((int64_t)(getpid() & 0xFFFF) << 44);
    NS_REAL(MPI_Bcast)(&shared, (int)sizeof shared, MPI_BYTE, 0, MPI_COMM_WORLD);

    char path[4200];
    snprintf(path, sizeof path, "%s/%016llx-%d.vec", directory, (unsigned long long)shared.job, rank);
    bool fine = ns_open(&ns_vec_file, path);
    strcpy(path + strlen(path) - 3, "rec");
    fine = fine && ns_open(&ns_records_file, path);
    size_t names_bytes = sizeof ns_names, names_at = (sizeof head + 7) / 8 * 8;
    size_t counts_at = (names_at + names_bytes + 7) / 8 * 8, data_at = counts_at + 8 * NS_N_FUNCTIONS;
    data_at = (data_at + 65535) / 65536 * 65536;
    char *at = MAP_FAILED;
    if (fine && posix_fallocate(ns_records_file.fd, 0, (off_t)data_at) == 0)
        at = mmap(NULL, data_at, PROT_READ | PROT_WRITE, MAP_SHARED, ns_records_file.fd, 0);
    if (at == MAP_FAILED) {
        ns_say("rank %d: cannot write %s (%s); this rank is not recorded", rank, path, strerror(errno));
        return;
    }
    memcpy(head.magic, "NETSIMRC", 8);
    head.version = NS_VERSION;
    head.record_bytes = sizeof(ns_record);
    head.n_functions = NS_N_FUNCTIONS;
    head.names_at = (uint32_t)names_at;
    head.names_bytes = (uint32_t)names_bytes;
    head.counts_at = (uint32_t)counts_at;
    head.data_at = (uint32_t)data_at;
    head.rank = rank;
    head.size = size;
    head.cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    head.thread_level = level;
    head.pid = getpid();
    head.job = (uint64_t)shared.job;
    gethostname(head.host, sizeof head.host - 1);
    const char *token = getenv("NETSIM_CAPTURE_TOKEN");
    snprintf(head.token, sizeof head.token, "%s", token ? token : "");
    snprintf(head.library, sizeof head.library, "%s", library);
    snprintf(head.built_for, sizeof head.built_for, "%s", ns_built_for);
    memcpy(at, &head, sizeof head);
    memcpy(at + names_at, ns_names, names_bytes);
    ns_head = (ns_header *)at;
    ns_uncounted = (uint64_t *)(at + counts_at);
    ns_records_file.used = data_at;

    NS_REAL(MPI_Comm_create_keyval)(ns_keep_nothing, ns_forget_nothing, &ns_keyval, NULL);
    NS_REAL(MPI_Comm_group)(MPI_COMM_WORLD, &ns_world_group);
    ns_load_tables();
    ns_calibrate();
    ns_pid = getpid();
    ns_me.number = 1 + atomic_fetch_add(&ns_threads, 1);
    ns_head->threads = 1;
    NS_REAL(MPI_Barrier)(MPI_COMM_WORLD);
    ns_head->start_wall = ns_wall();
    ns_head->start_real = ns_now(CLOCK_REALTIME);
    ns_on = true;
    ns_describe(MPI_COMM_WORLD, -1);
    ns_me.vec_n = 0;
    int self = ns_describe(MPI_COMM_SELF, -1);
    ns_set_number(MPI_COMM_SELF, self);
    ns_me.vec_n = 0;
}

/* What MPI_Init and MPI_Init_thread share. The call starts the library, required and provided as in MPI_Init_thread. */
static int ns_init(int fn, int *argc, char ***argv, bool threaded, int required, int *provided)
{
    const char *directory = getenv("NETSIM_TRACE_DIR");
    bool record = directory && *directory && !ns_me.inside && !ns_head;
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    if (record) ns_check_library(directory, library);
    int outer = ns_me.inside;
    ns_me.inside = 1;
    int64_t before = ns_wall();
    int rc = threaded ? NS_REAL(MPI_Init_thread)(argc, argv, required, provided) : NS_REAL(MPI_Init)(argc, argv);
    if (record && rc == MPI_SUCCESS) {
        ns_prepare(directory, library);
        if (ns_on) {
            ns_record rec;
            ns_blank(&rec, fn);
            rec.comm = 0;
            rec.t_start = before;
            rec.t_end = ns_head->start_wall;
            ns_append(&rec, 0);
        }
    }
    ns_me.left_wall = ns_wall();
    ns_me.left_cpu = ns_cpu();
    ns_me.inside = outer;
    return rc;
}

static int ns_finalize(int fn)
{
    ns_call call;
    if (ns_enter(&call, fn)) {
        call.rec.comm = 0;
        ns_leave(&call, MPI_SUCCESS);
        ns_finish(&call);
        ns_me.inside = 1;
        NS_REAL(MPI_Group_free)(&ns_world_group);
        NS_REAL(MPI_Comm_free_keyval)(&ns_keyval);
        ns_close(NS_FINALIZED);
        ns_me.inside = 0;
    }
    return NS_REAL(MPI_Finalize)();
}

static void ns_aborted(int code)
{
    if (!ns_on) return;
    ns_head->abort_code = code;
    ns_close(NS_ABORTED);
}

/* MPI_Session_init before MPI_Init: there is no MPI_COMM_WORLD to count ranks by. */
static void ns_session(void)
{
    const char *directory = getenv("NETSIM_TRACE_DIR");
    if (!ns_head && directory && *directory) ns_excuse(directory, "sessions", "MPI_Session_init");
}

/* Leave word in which programs the recorder was loaded: it tells "not preloaded" from "never called MPI_Init". */
__attribute__((constructor)) static void ns_loaded(void)
{
    const char *directory = getenv("NETSIM_TRACE_DIR");
    if (!directory || !*directory) return;
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    ns_excuse(directory, "loaded", path);
}

__attribute__((destructor)) static void ns_unload(void)
{
    if (ns_on && getpid() == ns_pid) ns_close(NS_EXITED);
}
