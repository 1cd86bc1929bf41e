/* What wrappers note about a call: requests, communicators, sizes, peers, statuses. Included by recorder.h. */

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
static bool ns_has_part(ns_comm about, int root) { return about.remote < 0 || root >= 0 || root == MPI_ROOT; }

#define NS_PUSH_SIZES(n, counts, type) \
    for (int ns_i = 0; ns_i < (n); ns_i++) ns_push(ns_size((int64_t)(counts)[ns_i], (type)))
#define NS_IS_IN_PLACE(buffer) ((buffer) == MPI_IN_PLACE ? (call.rec.flags |= NS_IN_PLACE, true) : false)

static int64_t ns_pushed(size_t from)
{
    int64_t sum = 0;
    for (size_t i = from; i < ns_me.vec_n; i++) sum += ns_me.vec[i];
    return sum;
}
