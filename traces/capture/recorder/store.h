/* Records, the files they go to, symbols of the MPI library, clocks, entering and leaving a call. Included by recorder.h. */

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
