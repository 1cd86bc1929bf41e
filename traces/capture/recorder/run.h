/* Start and end of a run. Included by recorder.h. */

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
