"""The compiled event loop: a clock, a ready stack, a max-min solver. Loops and nothing else.

The loop is resumable. All state lives in arrays that the caller owns; ``advance`` returns a status when it is done, stuck, out
of room in one of its arrays, or has handled its budget of events, and continues where it stopped when called again.

Sharing is weighted max-min, exact, and settled anew at each batch of simultaneous events by ONE sweep over the levels
(rate/weight) in increasing order. A flow is *fixed* (keeps its rate), *in play* (rate not known yet) or *frozen* (new rate
known). A link that is touched waits at its key (capacity - fixed and frozen use) / (weight in play), and at
its old level when some flow has its bottleneck there. Popping a key L: fixed flows above L on that link come
into play; when there are none, the flows in play on the link freeze at L and it is their bottleneck. Popping an old level: if the
link would have room left with its flows in play at that level, the flows it held back come into play, since they can rise. Every
flow that comes into play had a level above the one swept so far and ends at or above it: one pass settles all, and the bottleneck
certificate (Bertsekas and Gallager, Data Networks, section 6.5.2) holds at the end, which proves the allocation.

Keys and old levels wait in buckets of 0.2 to 0.4 % in width; only the bucket that the sweep has reached is a heap. Levels popped
never fall, so a bucket is opened once, and what died there in the meantime (half of all entries: links whose flows all froze
elsewhere) is dropped without having been sorted. Keys only grow while flows freeze, so an entry found too low moves up; flows that
come into play can lower a key, so the links they cross are listed and looked at once each, when all of them are in. (A heap of
everything, with an entry for each flow and hop, cost ten pops for each flow in play, and half of the time.) A flow that has
all its links for itself needs no sweep when it enters, nor when it leaves.

Transfers that are under way on the same route at the same time (same weight, no cap of their own) have the same rate, so they
share one slot: the solver sees one flow of their common weight, and a pairing heap orders them by the service at which they
drain. Service is what each of them has received since the slot was opened, in bytes. A thousand messages between two hosts cost
as much as one for the solver, and n of them of different sizes O(n log n) instead of O(n^2).

The alternative, re-solving the connected component (selective update), touches 93 to 100 % of the flows at one flow per host
or more on a fat-tree, dragonfly or torus; the sweep touches 0.5 to 4 %.
"""

from typing import NamedTuple

import numpy as np

from netsim.core.jit import bare_kernel, kernel

# What ``advance`` returns.
DONE = 0
STUCK = 1
BUDGET = 2
MORE_SLOTS = 3
MORE_POOL = 4
MORE_TIMERS = 5
MORE_LEVELS = 6
MORE_NODES = 7
EPOCH = 8

# What a timer is for.
DELAY_END = 0
DELIVERED = 1
ENTER = 2
LOCAL_END = 3

# Integer scalars of the state.
I_EVENTS = 0  # batches of simultaneous events handled
I_DONE = 1  # tasks ended
I_STACK = 2  # ready tasks waiting on the stack
I_TIMERS = 3
I_ACTIVE = 4  # slots in the finish heap
I_FREE = 5  # free slots on the free stack
I_POOL = 6  # used part of the membership pool
I_CHANGE = 7  # next capacity change
I_SOLVES = 8
I_IN_PLAY = 9  # sum over solves of flows in play
I_CHANGED = 10  # sum over solves of flows whose rate changed
I_STAMP = 11
I_PENDING = 12  # 1: the batch at time F_NOW has not been solved yet
I_PLAY = 13  # flows that came into play in this batch so far
I_LEVELS = 14  # entries in the heap of the open bucket
I_SETUP = 15  # 1 once tasks without predecessors have been stacked
I_FINISHED_FLOWS = 16
I_FLOWS = 17  # transfers under way (several may share a slot)
I_FREE_NODES = 18
I_BUCKET = 19  # the open bucket, -1: none yet
I_TOUCHED = 20  # links touched in this batch
I_DIRTY = 21  # links whose key is to be looked at before the next pop
I_OPEN = 22  # flows in play whose new rate is not known yet
I_ALONE = 23  # transfers that entered links nobody else was on
I_WAITING = 24  # nodes in buckets that are not open yet
I_NOTED = 25  # links noted for the low class
I_CURSOR = 26  # next entry of the lists of ``act``
I_SIZE = 28

F_NOW = 0
F_BIN = 1  # width of a time bin in seconds
F_SIZE = 4

# A bucket is told by the upper bits of a level as float64: sign, exponent and 8 bits of the mantissa.
BUCKET_SHIFT = 44
BUCKETS = 1 << (64 - BUCKET_SHIFT - 1)

# Stands for an infinite capacity inside the solver: a transfer of 1e15 bytes takes 1e-15 s, which rounds to nothing on any clock
# above 10 s, while sums and differences stay finite (inf - inf would not).
UNLIMITED = 1e30

ULP = 2.220446049250313e-16


class Problem(NamedTuple):
    """What does not change during a run; read-only arrays."""

    kind: np.ndarray  # uint8 (n,)
    amount: np.ndarray  # float64 (n,) seconds or bytes
    succ_ptr: np.ndarray  # int64 (n+1,)
    succ: np.ndarray  # int32 (m,)
    succ_after: np.ndarray  # uint8 (m,)
    route: np.ndarray  # int32 (n,) row of route_ptr, -1: the transfer stays on its host
    route_ptr: np.ndarray  # int64 (r+1,)
    route_link: np.ndarray  # int32 (hops,)
    route_use: np.ndarray  # float64 (hops,) or (1,): consumption per unit of rate
    route_latency_s: np.ndarray  # float64 (r,)
    latencies: np.ndarray  # int32 (n,) path latencies that a transfer pays, or (0,): 1 each
    weight: np.ndarray  # float64 (n,) or (1,)
    rate_cap: np.ndarray  # float64 (n,) or (0,): none
    change_s: np.ndarray  # float64 (c,) sorted: times of capacity changes
    change_link: np.ndarray  # int32 (c,)
    change_capacity: np.ndarray  # float64 (c,)
    head: int  # 1: latency before the transfer, 0: after the drain
    full: int  # 1: put all active flows into play at each batch (the slow check of the sweep)
    local_rate: float  # bytes/s of transfers that stay on their host
    tolerance: float  # rates follow when a level moves by more than this part of it; 0: exact
    window: float  # completions within this part of a flow's duration are one batch; 0: exact
    unit: int  # 1: each hop consumes 1 per unit of rate
    counting: int  # 1: count bytes per link while they flow
    share_slots: int  # 1: transfers of one route share a slot
    low: int  # number of the link that carries the low class over link 0; 0: there is one class
    choice_ptr: np.ndarray  # int64 (r'+1,) or (1,): alternatives of each route; routes beyond it have none
    choice_row: np.ndarray  # int32 (alternatives,) routes, the first is the route itself
    choice_stage: (
        np.ndarray
    )  # uint8 (alternatives,) 1: looked at once more from the second link on, when the first has won
    rule: int  # how a transfer chooses among them when it starts: see ``_chosen``


# What the solver looks at together lies together in one cache line of 64 bytes; what it scans alone (the status of flows, the keys of
# the finish heap) stays an array of its own. One array per quantity was 1.1 to 1.4 times slower, everything in records 1.2 times.
LINK = np.dtype(
    [
        ("mark", "i8"),  # stamp of the last batch that touched it
        ("capacity", "f8"),  # bytes/s
        ("fixed", "f8"),  # use by fixed and frozen flows, bytes/s
        ("play_weight", "f8"),
        ("top", "f8"),  # the key it waits at, inf: none
        ("used", "f8"),  # bytes/s, as of the last batch that touched it
        ("play_count", "i4"),
        ("members", "i4"),
        ("holds", "i4"),  # number of flows it is the bottleneck of
        ("is_dirty", "u1"),
        ("updates", "u2"),  # since ``used`` was last summed afresh
    ],
    align=True,
)
SLOT = np.dtype(
    [
        ("rate", "f8"),  # of all its transfers together, bytes/s
        ("flow_weight", "f8"),  # of all of them together
        ("bottleneck", "i4"),  # link, -1
        ("new_bottleneck", "i4"),
        ("new_rate", "f8"),
        ("share", "f8"),  # rate of each of them since touched_s
        ("served", "f8"),  # service received until touched_s, bytes
        ("touched_s", "f8"),
        ("first", "i4"),  # node that drains first
        ("flows", "i4"),  # transfers that share the slot
    ]
)
HOP = np.dtype(
    [
        ("link", "i4"),
        ("at", "i4"),  # place in the link's member list
    ]
)
NODE = np.dtype(
    [
        ("target", "f8"),  # service at which it drains
        ("entered_s", "f8"),
        ("task", "i4"),
        ("child", "i4"),  # -1: none
        ("next", "i4"),  # sibling, -1: none
        ("fill", "i4"),
    ]
)


class State(NamedTuple):
    """Everything that changes; the caller allocates and enlarges it."""

    start_s: np.ndarray  # float64 (n,) NaN until it happens
    drain_s: np.ndarray
    end_s: np.ndarray
    critical: np.ndarray  # int32 (n,) the task whose moment released this one, -1
    waiting: np.ndarray  # int32 (n,) predecessors left
    stack: np.ndarray  # int32 (n,)
    timer_s: np.ndarray  # float64 (t,) binary heap
    timer: np.ndarray  # int64 (t,) task * 4 + what for
    node: np.ndarray  # NODE (m,) transfers under way, nodes of the pairing heap of their slot
    free_node: np.ndarray  # int32 (m,)
    slot_of_route: np.ndarray  # int32 (r,) open slot of each route, -1
    slot: np.ndarray  # SLOT (s,) what the solver takes for one flow
    status: np.ndarray  # uint8 (s,) 0 fixed, 1 in play, 2 frozen
    changed: np.ndarray  # uint8 (s,) 1: transfers joined or left since its finish time was set
    finish_s: np.ndarray  # float64 (s,) when the first of its transfers drains
    due_s: np.ndarray  # float64 (s,) key in the finish heap: finish_s or earlier
    heap_at: np.ndarray  # int32 (s,) place in the finish heap
    hops: np.ndarray  # int32 (s,)
    hop: np.ndarray  # HOP (s << shift,)
    hop_use: np.ndarray  # float64 (s << shift,) consumption per unit of rate
    play: np.ndarray  # int32 (s,) flows that came into play
    heap: np.ndarray  # int32 (s,) indexed heap on due_s
    free: np.ndarray  # int32 (s,)
    link: np.ndarray  # LINK (l,) the network's links, then one private link per slot when flows have rate caps
    level: np.ndarray  # float64 (l,) of the flows it is the bottleneck of
    member_base: np.ndarray  # int64 (l,)
    member_room: np.ndarray  # int32 (l,)
    binned_s: np.ndarray  # float64 (l,) bytes are counted up to here
    link_bytes: np.ndarray  # float64 (l,)
    touched: np.ndarray  # int32 (l,)
    dirty: np.ndarray  # int32 (l,)
    pool: np.ndarray  # int32 (p,) member lists: hop numbers
    # queue of levels; node 2*link is the key of the link, node 2*link+1 its old level
    level_key: np.ndarray  # float64 (h,) binary heap: the open bucket
    level_node: np.ndarray  # int32 (h,)
    head: np.ndarray  # int32 (BUCKETS,) first node of each bucket that is not open yet, -1
    bucket: np.ndarray  # int32 (2l,) the bucket a node waits in, -1
    before: np.ndarray  # int32 (2l,) neighbours in the bucket, -1
    after: np.ndarray  # int32 (2l,)
    some: np.ndarray  # int64 (BUCKETS/32 + 32,) bit set: bucket not empty
    any: np.ndarray  # int64 (BUCKETS/1024 + 2,) bit set: some is not 0
    # bytes per link over time
    bin_row: np.ndarray  # int32 (l,) row of bin_bytes, -1
    bin_bytes: np.ndarray  # float64 (rows, bins)
    # two classes: network links whose use or capacity may have changed since the low class was given what is left
    noted: np.ndarray  # int32 (l,) or (0,)
    is_noted: np.ndarray  # uint8 (l,) or (0,)
    failed_s: np.ndarray  # float64 (n,) or (0,): NaN until the transfer fails
    # transfers that choose their route: both empty where there is nothing to choose
    pick: np.ndarray  # int32 (n,) the memory behind ``Problem.route``
    crossing: np.ndarray  # int32 (l,) transfers under way over each link
    integer: np.ndarray  # int64 (I_SIZE,)
    real: np.ndarray  # float64 (F_SIZE,)


# ---------------------------------------------------------------- heaps


@bare_kernel
def _push_timer(key, value, n, k, v):
    i = n
    while i > 0:
        p = (i - 1) >> 1
        if key[p] <= k:
            break
        key[i] = key[p]
        value[i] = value[p]
        i = p
    key[i] = k
    value[i] = v
    return n + 1


@bare_kernel
def _pop_timer(key, value, n):
    n -= 1
    k = key[n]
    v = value[n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n:
            c += int(key[c + 1] < key[c])
        if key[c] >= k:
            break
        key[i] = key[c]
        value[i] = value[c]
        i = c
    key[i] = k
    value[i] = v
    return n


@bare_kernel
def _push_level(key, value, n, k, v):
    i = n
    while i > 0:
        p = (i - 1) >> 1
        if key[p] <= k:
            break
        key[i] = key[p]
        value[i] = value[p]
        i = p
    key[i] = k
    value[i] = v
    return n + 1


@bare_kernel
def _sink_level(key, value, n, k, v):
    """Replace the top by an entry with a larger key."""
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n:
            # No branch: which child is smaller cannot be predicted.
            c += int(key[c + 1] < key[c])
        if key[c] >= k:
            break
        key[i] = key[c]
        value[i] = value[c]
        i = c
    key[i] = k
    value[i] = v


@bare_kernel
def _pop_level(key, value, n):
    n -= 1
    if n > 0:
        _sink_level(key, value, n, key[n], value[n])
    return n


@bare_kernel
def _lowest_bit(x):
    """Number of the lowest bit that is set in 32 bits (a power of 2 shows its exponent as a float)."""
    return (np.float64(x & -x).view(np.int64) >> 52) - 1023


@bare_kernel
def _bucket_of(key):
    return np.float64(key + 0.0).view(np.int64) >> BUCKET_SHIFT


@bare_kernel
def _emptied(s, bucket):
    word = bucket >> 5
    s.some[word] &= ~(1 << (bucket & 31))
    if s.some[word] == 0:
        s.any[word >> 5] &= ~(1 << (word & 31))


@bare_kernel
def _place(s, node, key):
    """Let the node wait at this level, and no longer where it waited before."""
    old = s.bucket[node]
    if old >= 0:
        s.integer[I_WAITING] -= 1
        p = s.before[node]
        q = s.after[node]
        if q >= 0:
            s.before[q] = p
        if p >= 0:
            s.after[p] = q
        else:
            s.head[old] = q
            if q < 0:
                _emptied(s, old)
    bucket = _bucket_of(key)
    if bucket <= s.integer[I_BUCKET]:
        s.bucket[node] = -1
        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_node, s.integer[I_LEVELS], key, node)
        return
    s.integer[I_WAITING] += 1
    first = s.head[bucket]
    s.bucket[node] = bucket
    s.before[node] = -1
    s.after[node] = first
    s.head[bucket] = node
    if first >= 0:
        s.before[first] = node
    else:
        word = bucket >> 5
        s.some[word] |= 1 << (bucket & 31)
        s.any[word >> 5] |= 1 << (word & 31)


@bare_kernel
def _next_bucket(s):
    """The first bucket after the open one that is not empty; there is one."""
    start = s.integer[I_BUCKET] + 1
    word = start >> 5
    bits = s.some[word] & (-1 << (start & 31))
    if bits == 0:
        word += 1
        group = word >> 5
        words = s.any[group] & (-1 << (word & 31))
        while words == 0:
            group += 1
            words = s.any[group]
        word = (group << 5) + _lowest_bit(words)
        bits = s.some[word]
    return (word << 5) + _lowest_bit(bits)


@bare_kernel
def _key(s, link):
    return max(s.link[link].capacity - s.link[link].fixed, 0.0) / s.link[link].play_weight


@bare_kernel
def _open(s):
    """Make a heap of the next bucket; false if there is none."""
    if s.integer[I_WAITING] == 0:
        return False
    bucket = _next_bucket(s)
    s.integer[I_BUCKET] = bucket
    node = s.head[bucket]
    s.head[bucket] = -1
    _emptied(s, bucket)
    while node >= 0:
        following = s.after[node]
        s.bucket[node] = -1
        s.integer[I_WAITING] -= 1
        link = node >> 1
        if node & 1 == 1:
            s.integer[I_LEVELS] = _push_level(s.level_key, s.level_node, s.integer[I_LEVELS], s.level[link], node)
        elif s.link[link].play_count > 0:
            # It may have grown into a later bucket.
            s.link[link].top = _key(s, link)
            _place(s, node, s.link[link].top)
        else:
            s.link[link].top = np.inf
        node = following
    return True


@bare_kernel
def _up(s, i):
    """Move entry i of the finish heap up to its place."""
    v = s.heap[i]
    k = s.due_s[v]
    while i > 0:
        p = (i - 1) >> 1
        u = s.heap[p]
        if s.due_s[u] <= k:
            break
        s.heap[i] = u
        s.heap_at[u] = i
        i = p
    s.heap[i] = v
    s.heap_at[v] = i


@bare_kernel
def _down(s, i):
    """Move entry i of the finish heap down to its place."""
    n = s.integer[I_ACTIVE]
    v = s.heap[i]
    k = s.due_s[v]
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n:
            c += int(s.due_s[s.heap[c + 1]] < s.due_s[s.heap[c]])
        u = s.heap[c]
        if s.due_s[u] >= k:
            break
        s.heap[i] = u
        s.heap_at[u] = i
        i = c
    s.heap[i] = v
    s.heap_at[v] = i


@bare_kernel
def _next_finish(s):
    """Time of the next drain. Flows that finish later than they were to when last placed are placed anew only here."""
    while s.integer[I_ACTIVE] > 0:
        slot = s.heap[0]
        if s.due_s[slot] >= s.finish_s[slot]:
            return s.finish_s[slot]
        s.due_s[slot] = s.finish_s[slot]
        _down(s, 0)
    return np.inf


# ---------------------------------------------------------------- bytes per link


@bare_kernel
def _count(s, link, now):
    """Count the bytes that crossed the link at its present use until now."""
    begin = s.binned_s[link]
    s.binned_s[link] = now
    use = s.link[link].used
    if now <= begin or use <= 0.0:
        return
    s.link_bytes[link] += use * (now - begin)
    if link >= s.bin_row.size:
        return
    row = s.bin_row[link]
    if row < 0:
        return
    bins = s.bin_bytes.shape[1]
    while now > bins * s.real[F_BIN]:
        # The run outgrew the table: double the width of every bin by adding neighbours.
        for r in range(s.bin_bytes.shape[0]):
            for b in range(bins // 2):
                s.bin_bytes[r, b] = s.bin_bytes[r, 2 * b] + s.bin_bytes[r, 2 * b + 1]
            for b in range(bins // 2, bins):
                s.bin_bytes[r, b] = 0.0
        s.real[F_BIN] *= 2.0
    width = s.real[F_BIN]
    b = int(begin / width)
    while begin < now:
        until = min(now, (b + 1) * width)
        if until > begin:
            s.bin_bytes[row, min(b, bins - 1)] += use * (until - begin)
            begin = until
        b += 1
        if b >= bins:
            break


# ---------------------------------------------------------------- transfers that share a slot


@bare_kernel
def _merge(s, a, b):
    """Join two pairing heaps; the smaller target on top, ties to the earlier in the first argument."""
    if a < 0:
        return b
    if b < 0:
        return a
    if s.node[b].target < s.node[a].target:
        a, b = b, a
    s.node[b].next = s.node[a].child
    s.node[a].child = b
    return a


@bare_kernel
def _without_first(s, top):
    """The heap without its top: merge the children in pairs, then the pairs from the last to the first."""
    child = s.node[top].child
    pairs = np.int32(-1)
    while child >= 0:
        other = s.node[child].next
        s.node[child].next = -1
        if other < 0:
            later = other
            both = child
        else:
            later = s.node[other].next
            s.node[other].next = -1
            both = _merge(s, child, other)
        s.node[both].next = pairs
        pairs = both
        child = later
    merged = np.int32(-1)
    while pairs >= 0:
        later = s.node[pairs].next
        s.node[pairs].next = -1
        merged = _merge(s, merged, pairs)
        pairs = later
    return merged


@bare_kernel
def _serve(s, slot, now):
    """Bring the service of the slot up to date."""
    if now > s.slot[slot].touched_s:
        s.slot[slot].served += s.slot[slot].share * (now - s.slot[slot].touched_s)
    s.slot[slot].touched_s = now


@bare_kernel
def _cross(s, slot, transfers, shift):
    """Count transfers that begin (or, below 0, cease) to cross the links of a slot."""
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        s.crossing[s.hop[h].link] += transfers


@bare_kernel
def _new_node(p, s, task, target, now):
    s.integer[I_FREE_NODES] -= 1
    node = s.free_node[s.integer[I_FREE_NODES]]
    s.node[node].task = task
    s.node[node].target = target
    s.node[node].entered_s = now
    s.node[node].child = -1
    s.node[node].next = -1
    s.integer[I_FLOWS] += 1
    return node


# ---------------------------------------------------------------- flows


@bare_kernel
def _room(p, s, task, network_links, shift):
    """Is there a slot and room in the member lists for this transfer? Enlarges lists inside the pool; returns a status."""
    if s.integer[I_FREE_NODES] == 0:
        return MORE_NODES
    route = p.route[task]
    if p.share_slots == 1 and s.slot_of_route[route] >= 0:
        return DONE
    if s.integer[I_FREE] == 0:
        return MORE_SLOTS
    last = p.route_ptr[route + 1]
    for h in range(p.route_ptr[route], last):
        link = p.route_link[h]
        # A link that the route crosses twice may need two places.
        if s.link[link].members + 2 > s.member_room[link]:
            room = max(4, 2 * s.member_room[link])
            if s.integer[I_POOL] + room > s.pool.size:
                return MORE_POOL
            base = s.integer[I_POOL]
            old = s.member_base[link]
            for k in range(s.link[link].members):
                s.pool[base + k] = s.pool[old + k]
            s.member_base[link] = base
            s.member_room[link] = room
            s.integer[I_POOL] = base + room
    if p.rate_cap.size > 0 and s.integer[I_POOL] + 4 > s.pool.size:
        return MORE_POOL
    return DONE


@bare_kernel
def _touch(s, link):
    """First time in this batch that the sweep meets the link."""
    s.link[link].mark = s.integer[I_STAMP]
    s.link[link].fixed = s.link[link].used
    s.link[link].play_weight = 0.0
    s.link[link].play_count = 0
    s.link[link].top = np.inf
    s.touched[s.integer[I_TOUCHED]] = link
    s.integer[I_TOUCHED] += 1
    if s.link[link].holds > 0:
        _place(s, 2 * link + 1, s.level[link])


@bare_kernel
def _soil(s, link):
    """The key of the link may have fallen: look at it before the next pop."""
    if s.link[link].is_dirty == 0:
        s.link[link].is_dirty = 1
        s.dirty[s.integer[I_DIRTY]] = link
        s.integer[I_DIRTY] += 1


@bare_kernel
def _into_play(p, s, slot, shift):
    s.status[slot] = 1
    s.play[s.integer[I_PLAY]] = slot
    s.integer[I_PLAY] += 1
    s.integer[I_OPEN] += 1
    rate = s.slot[slot].rate
    weight = s.slot[slot].flow_weight
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop[h].link
        if s.link[link].mark != s.integer[I_STAMP]:
            _touch(s, link)
        use = 1.0 if p.unit == 1 else s.hop_use[h]
        s.link[link].fixed -= use * rate
        s.link[link].play_weight += use * weight
        s.link[link].play_count += 1
        if s.link[link].play_count == s.link[link].members:
            # Nothing fixed is left: without this a dark link (capacity 0) would hand out the rounding error of the sum.
            s.link[link].fixed = 0.0
        _soil(s, link)


@bare_kernel
def _join(p, s, slot, task, weight, now, shift):
    """Add a transfer to the slot of its route."""
    _serve(s, slot, now)
    node = _new_node(p, s, task, s.slot[slot].served + p.amount[task], now)
    s.slot[slot].first = _merge(s, s.slot[slot].first, node)
    s.slot[slot].flows += 1
    s.changed[slot] = 1
    if s.crossing.size > 0:
        _cross(s, slot, 1, shift)
    s.slot[slot].flow_weight = weight * s.slot[slot].flows
    if s.status[slot] == 0:
        _into_play(p, s, slot, shift)
        return
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop[h].link
        s.link[link].play_weight += s.hop_use[h] * weight
        _soil(s, link)


@bare_kernel
def _alone(p, s, slot, shift):
    """Has the flow all its links for itself, and has nothing happened on them in this batch?"""
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop[h].link
        if s.link[link].members != 1 or s.link[link].mark == s.integer[I_STAMP]:
            return False
    return True


@bare_kernel
def _enter(p, s, task, now, network_links, shift):
    """Give the transfer a slot, its own or that of its route, and put it into play."""
    route = p.route[task]
    weight = p.weight[task] if p.weight.size > 1 else p.weight[0]
    if p.share_slots == 1 and s.slot_of_route[route] >= 0:
        _join(p, s, s.slot_of_route[route], task, weight, now, shift)
        return
    s.integer[I_FREE] -= 1
    slot = s.free[s.integer[I_FREE]]
    if p.share_slots == 1:
        s.slot_of_route[route] = slot
    s.slot[slot].first = _new_node(p, s, task, p.amount[task], now)
    s.slot[slot].flows = 1
    s.slot[slot].share = 0.0
    s.slot[slot].served = 0.0
    s.changed[slot] = 1
    s.slot[slot].rate = 0.0
    s.slot[slot].touched_s = now
    s.finish_s[slot] = np.inf
    s.due_s[slot] = np.inf
    s.slot[slot].flow_weight = weight
    s.slot[slot].bottleneck = -1
    base = slot << shift
    n = 0
    for h in range(p.route_ptr[route], p.route_ptr[route + 1]):
        s.hop[base + n].link = p.route_link[h]
        s.hop_use[base + n] = p.route_use[h] if p.route_use.size > 1 else p.route_use[0]
        n += 1
    if p.rate_cap.size > 0 and p.rate_cap[task] < np.inf:
        link = network_links + slot
        s.link[link].capacity = p.rate_cap[task]
        if s.member_room[link] == 0:
            s.member_base[link] = s.integer[I_POOL]
            s.member_room[link] = 4
            s.integer[I_POOL] += 4
        s.hop[base + n].link = link
        s.hop_use[base + n] = 1.0
        n += 1
    s.hops[slot] = n
    if s.crossing.size > 0:
        _cross(s, slot, 1, shift)
    for h in range(base, base + n):
        link = s.hop[h].link
        s.hop[h].at = s.link[link].members
        s.pool[s.member_base[link] + s.link[link].members] = h
        s.link[link].members += 1
    at = s.integer[I_ACTIVE]
    s.heap[at] = slot
    s.heap_at[slot] = at
    s.integer[I_ACTIVE] += 1
    if p.full == 0 and p.low == 0 and _alone(p, s, slot, shift):
        level = np.inf
        for h in range(base, base + n):
            link = s.hop[h].link
            if s.link[link].capacity < level * s.hop_use[h] * weight:
                level = s.link[link].capacity / (s.hop_use[h] * weight)
                s.slot[slot].bottleneck = link
        if level > 0.0:
            held = s.slot[slot].bottleneck
            rate = level * weight
            s.link[held].holds = 1
            s.level[held] = level
            s.slot[slot].rate = rate
            s.slot[slot].share = rate
            s.changed[slot] = 0
            for h in range(base, base + n):
                s.binned_s[s.hop[h].link] = now
                s.link[s.hop[h].link].used = s.hop_use[h] * rate
            s.finish_s[slot] = now + p.amount[task] / rate
            s.due_s[slot] = s.finish_s[slot]
            s.integer[I_ALONE] += 1
            _up(s, at)
            return
        s.slot[slot].bottleneck = -1
    _into_play(p, s, slot, shift)


@bare_kernel
def _leave(p, s, slot, now, shift):
    """Take a finished flow off its links."""
    s.free[s.integer[I_FREE]] = slot
    s.integer[I_FREE] += 1
    held = s.slot[slot].bottleneck
    if held >= 0:
        s.link[held].holds -= 1
    base = slot << shift
    if _alone(p, s, slot, shift):
        for h in range(base, base + s.hops[slot]):
            link = s.hop[h].link
            if p.counting == 1:
                _count(s, link, now)
            s.link[link].members = 0
            s.link[link].used = 0.0
        return
    rate = s.slot[slot].rate
    for h in range(base, base + s.hops[slot]):
        link = s.hop[h].link
        s.link[link].members -= 1
        last = s.pool[s.member_base[link] + s.link[link].members]
        s.pool[s.member_base[link] + s.hop[h].at] = last
        s.hop[last].at = s.hop[h].at
        if s.link[link].mark != s.integer[I_STAMP]:
            _touch(s, link)
        if s.link[link].play_count == s.link[link].members:
            s.link[link].fixed = 0.0
        else:
            s.link[link].fixed -= s.hop_use[h] * rate
        if s.link[link].play_count > 0:
            _soil(s, link)


@bare_kernel
def _sweep(p, s, shift):
    """Settle the new rates. Returns MORE_LEVELS before anything is lost when the heap of keys is full, else DONE."""
    while True:
        # One turn may place every link that is dirty, one, or a whole bucket.
        if s.integer[I_LEVELS] + s.bucket.size > s.level_key.size:
            return MORE_LEVELS
        if s.integer[I_DIRTY] > 0:
            for i in range(s.integer[I_DIRTY]):
                link = s.dirty[i]
                s.link[link].is_dirty = 0
                if s.link[link].play_count > 0:
                    left = max(s.link[link].capacity - s.link[link].fixed, 0.0)
                    if left < s.link[link].top * s.link[link].play_weight:
                        key = left / s.link[link].play_weight
                        s.link[link].top = key
                        _place(s, 2 * link, key)
            s.integer[I_DIRTY] = 0
        if s.integer[I_LEVELS] == 0:
            if not _open(s):
                s.integer[I_BUCKET] = -1
                return DONE
            continue
        level = s.level_key[0]
        node = s.level_node[0]
        link = node >> 1
        if node & 1 == 0:
            if level != s.link[link].top or s.link[link].play_count == 0:
                if level == s.link[link].top:
                    s.link[link].top = np.inf
                s.integer[I_LEVELS] = _pop_level(s.level_key, s.level_node, s.integer[I_LEVELS])
                continue
            key = _key(s, link)
            if key > level * (1.0 + 1e-12) + 1e-300:
                s.link[link].top = key
                if _bucket_of(key) == s.integer[I_BUCKET]:
                    _sink_level(s.level_key, s.level_node, s.integer[I_LEVELS], key, node)
                else:
                    s.integer[I_LEVELS] = _pop_level(s.level_key, s.level_node, s.integer[I_LEVELS])
                    _place(s, node, key)
                continue
            level = key
            s.integer[I_LEVELS] = _pop_level(s.level_key, s.level_node, s.integer[I_LEVELS])
            s.link[link].top = np.inf
            before = s.integer[I_PLAY]
            base = s.member_base[link]
            above = level * (1.0 + 1e-11 + p.tolerance)
            for q in range(s.link[link].members):
                slot = s.pool[base + q] >> shift
                if s.status[slot] == 0 and s.slot[slot].rate > above * s.slot[slot].flow_weight:
                    _into_play(p, s, slot, shift)
            if s.integer[I_PLAY] == before:
                for q in range(s.link[link].members):
                    slot = s.pool[base + q] >> shift
                    if s.status[slot] == 1:
                        s.status[slot] = 2
                        s.integer[I_OPEN] -= 1
                        weight = s.slot[slot].flow_weight
                        rate = level * weight
                        s.slot[slot].new_rate = rate
                        s.slot[slot].new_bottleneck = link
                        first = slot << shift
                        for h in range(first, first + s.hops[slot]):
                            other = s.hop[h].link
                            use = 1.0 if p.unit == 1 else s.hop_use[h]
                            s.link[other].fixed += use * rate
                            s.link[other].play_weight -= use * weight
                            s.link[other].play_count -= 1
                            if s.link[other].play_count == 0:
                                s.link[other].play_weight = 0.0
        else:
            s.integer[I_LEVELS] = _pop_level(s.level_key, s.level_node, s.integer[I_LEVELS])
            if s.link[link].capacity - s.link[link].fixed - s.link[link].play_weight * level <= s.link[
                link
            ].capacity * (1e-10 + p.tolerance):
                continue
            base = s.member_base[link]
            for q in range(s.link[link].members):
                slot = s.pool[base + q] >> shift
                if s.status[slot] == 0 and s.slot[slot].bottleneck == link:
                    _into_play(p, s, slot, shift)


@bare_kernel
def _set_capacity(p, s, link, capacity, shift):
    """Change the capacity of a link within a batch."""
    # All flows on the link come into play: at level 0 nothing has been swept yet, so that is always allowed.
    base = s.member_base[link]
    for q in range(s.link[link].members):
        slot = s.pool[base + q] >> shift
        if s.status[slot] == 0:
            _into_play(p, s, slot, shift)
    if capacity < s.link[link].capacity:
        # The rounding error of the sum belongs to the larger capacity: sum afresh.
        s.link[link].updates = 60000
    s.link[link].capacity = capacity
    if s.link[link].mark == s.integer[I_STAMP] and s.link[link].play_count > 0:
        _soil(s, link)


@bare_kernel
def _apply(p, s, now, shift):
    """Give the flows in play their new rates and finish times, and the links that were touched their new use."""
    n = s.integer[I_PLAY]
    if n > 0:
        s.integer[I_SOLVES] += 1
        s.integer[I_IN_PLAY] += n
    for i in range(n):
        slot = s.play[i]
        s.status[slot] = 0
        if s.slot[slot].bottleneck >= 0:
            s.link[s.slot[slot].bottleneck].holds -= 1
    for i in range(n):
        slot = s.play[i]
        rate = s.slot[slot].new_rate
        old = s.slot[slot].rate
        link = s.slot[slot].new_bottleneck
        s.slot[slot].bottleneck = link
        s.link[link].holds += 1
        s.level[link] = rate / s.slot[slot].flow_weight
        if s.changed[slot] == 0 and abs(rate - old) <= 1e-13 * rate and old > 0.0:
            continue
        s.integer[I_CHANGED] += 1
        _serve(s, slot, now)
        s.slot[slot].share = rate / s.slot[slot].flows
        s.changed[slot] = 0
        left = s.node[s.slot[slot].first].target - s.slot[slot].served
        s.slot[slot].rate = rate
        if left <= 0.0:
            s.finish_s[slot] = now
        elif rate > 0.0:
            s.finish_s[slot] = now + left / s.slot[slot].share
        else:
            s.finish_s[slot] = np.inf
        if s.finish_s[slot] < s.due_s[slot]:
            s.due_s[slot] = s.finish_s[slot]
            _up(s, s.heap_at[slot])
    s.integer[I_PLAY] = 0
    for i in range(s.integer[I_TOUCHED]):
        link = s.touched[i]
        if p.counting == 1:
            _count(s, link, now)
        s.link[link].used = s.link[link].fixed
        s.link[link].updates += 1
        if s.link[link].members == 0 or s.link[link].capacity == 0.0:
            s.link[link].used = 0.0
        elif s.link[link].updates >= min(64 + 4 * s.link[link].members, 60000):
            # Running sums drift by rounding (1e-11 after 1e4 updates, measured): sum afresh now and then.
            s.link[link].updates = 0
            total = 0.0
            base = s.member_base[link]
            for q in range(s.link[link].members):
                hop = s.pool[base + q]
                total += s.hop_use[hop] * s.slot[hop >> shift].rate
            s.link[link].used = total
    s.integer[I_TOUCHED] = 0


# ---------------------------------------------------------------- two classes


@bare_kernel
def _note(s, link):
    """Remember a network link whose use or capacity may have changed."""
    if s.is_noted[link] == 0:
        s.is_noted[link] = 1
        s.noted[s.integer[I_NOTED]] = link
        s.integer[I_NOTED] += 1


@bare_kernel
def _note_slot(p, s, slot, shift):
    """Note where the low class has to look again: links of a high slot that low ones cross, all links of a low slot that is new."""
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop[h].link
        if link < p.low:
            # Nobody needs to know what is left of other links until a low slot opens there.
            if s.link[p.low + link].members > 0:
                _note(s, link)
        elif link < 2 * p.low and s.slot[slot].bottleneck < 0:
            _note(s, link - p.low)


@bare_kernel
def _pass_down(p, s, shift):
    """Give the low class what the high one leaves of the noted links.

    The high class is settled. Changes the capacities of the links of the low class, as a new batch at the same time.
    """
    s.integer[I_STAMP] += 1
    while s.integer[I_NOTED] > 0:
        link = s.noted[s.integer[I_NOTED] - 1]
        low = p.low + link
        capacity = s.link[link].capacity
        left = capacity - s.link[link].used
        # What is left of a full link is 0, not the rounding error of a sum: else low transfers would crawl instead of wait.
        if s.link[link].holds > 0 or left <= 1e-9 * capacity:
            left = 0.0
        old = s.link[low].capacity
        if (left == 0.0) != (old == 0.0) or abs(left - old) > 1e-13 * capacity:
            _set_capacity(p, s, low, left, shift)
        s.is_noted[link] = 0
        s.integer[I_NOTED] -= 1


# ---------------------------------------------------------------- choice of a route


@bare_kernel
def _path_cost(p, s, row, skip, whole):
    """Links between switches from number ``skip`` on, times the transfers per capacity on the first, or the fullest, of them."""
    begin = p.route_ptr[row] + skip
    end = p.route_ptr[row + 1] - 1
    most = 0.0
    for h in range(begin, end if whole else min(begin + 1, end)):
        link = p.route_link[h]
        if s.link[link].capacity <= 0.0:
            return np.inf
        most = max(most, s.crossing[link] / s.link[link].capacity)
    return most * max(end - begin, 0)


@bare_kernel
def _expected(p, s, row):
    """What one more transfer would get on the route if all its links were shared equally, bytes/s."""
    least = np.inf
    for h in range(p.route_ptr[row], p.route_ptr[row + 1]):
        link = p.route_link[h]
        least = min(least, s.link[link].capacity / (s.crossing[link] + 1))
    return least


@bare_kernel
def _chosen(p, s, row):
    """The alternative of a route that a transfer takes which starts now; among equals the first.

    Rules 0 and 1: least hops times load of the first link between switches, or of the fullest one. Rule 2: greatest expected rate, then
    fewest links.
    """
    begin = p.choice_ptr[row]
    end = p.choice_ptr[row + 1]
    best = begin
    if p.rule == 2:
        most = _expected(p, s, p.choice_row[begin])
        for i in range(begin + 1, end):
            other = p.choice_row[i]
            rate = _expected(p, s, other)
            old = p.choice_row[best]
            fewer = p.route_ptr[other + 1] - p.route_ptr[other] < p.route_ptr[old + 1] - p.route_ptr[old]
            if rate > most or (rate == most and fewer):
                most = rate
                best = i
        return p.choice_row[best]
    whole = p.rule == 1
    least = _path_cost(p, s, p.choice_row[begin], 1, whole)
    for i in range(begin + 1, end):
        if p.choice_stage[i] == 0:
            cost = _path_cost(p, s, p.choice_row[i], 1, whole)
            if cost < least:
                least = cost
                best = i
    if best == begin:
        least = _path_cost(p, s, p.choice_row[begin], 2, whole)
        for i in range(begin + 1, end):
            if p.choice_stage[i] == 1:
                cost = _path_cost(p, s, p.choice_row[i], 2, whole)
                if cost < least:
                    least = cost
                    best = i
    return p.choice_row[best]


@bare_kernel
def reconsider(p, s, tasks, nominal, better, most, new):
    """Which transfers under way would gain by another alternative, one after the other, each seeing the moves before it.

    Parameters
    ----------
    p : Problem
    s : State
        ``crossing`` is put back as it was.
    tasks : int32 array
        In the order in which they decide.
    nominal : int32 array, shape (n,)
        The route whose alternatives a task has.
    better : float
        A move must promise this many times the present rate.
    most : int
        Moves at most.
    new : int32 array, as many as tasks
        Written: new route of each, -1: it stays.
    """
    new[:] = -1
    moves = 0
    for i in range(tasks.size):
        task = tasks[i]
        row = nominal[task]
        now = p.route[task]
        if row < 0 or now < 0 or row + 1 >= p.choice_ptr.size or moves >= most:
            continue
        # As if it were not there.
        for h in range(p.route_ptr[now], p.route_ptr[now + 1]):
            s.crossing[p.route_link[h]] -= 1
        best = now
        top = _expected(p, s, now)
        least = better * top
        for a in range(p.choice_ptr[row], p.choice_ptr[row + 1]):
            promised = _expected(p, s, p.choice_row[a])
            if promised > top and promised >= least:
                top = promised
                best = p.choice_row[a]
        if best != now:
            new[i] = best
            moves += 1
        for h in range(p.route_ptr[best], p.route_ptr[best + 1]):
            s.crossing[p.route_link[h]] += 1
    for i in range(tasks.size):
        if new[i] >= 0:
            now = p.route[tasks[i]]
            for h in range(p.route_ptr[new[i]], p.route_ptr[new[i] + 1]):
                s.crossing[p.route_link[h]] -= 1
            for h in range(p.route_ptr[now], p.route_ptr[now + 1]):
                s.crossing[p.route_link[h]] += 1


# ---------------------------------------------------------------- tasks


@bare_kernel
def _release(p, s, task, after, now):
    """A moment of the task has come: successors that waited for nothing else become ready."""
    for e in range(p.succ_ptr[task], p.succ_ptr[task + 1]):
        if p.succ_after[e] == after:
            later = p.succ[e]
            s.waiting[later] -= 1
            if s.waiting[later] == 0:
                s.critical[later] = task
                s.stack[s.integer[I_STACK]] = later
                s.integer[I_STACK] += 1


@bare_kernel
def _ended(p, s, task, now):
    s.end_s[task] = now
    s.integer[I_DONE] += 1
    _release(p, s, task, 0, now)


@bare_kernel
def _latency(p, task):
    once = p.route_latency_s[p.route[task]]
    return once * p.latencies[task] if p.latencies.size > 0 else once


@bare_kernel
def _drained(p, s, task, now):
    s.drain_s[task] = now
    _release(p, s, task, 1, now)
    latency = 0.0
    if p.head == 0 and p.route[task] >= 0:
        latency = _latency(p, task)
    if latency > 0.0:
        s.integer[I_TIMERS] = _push_timer(s.timer_s, s.timer, s.integer[I_TIMERS], now + latency, task * 4 + DELIVERED)
    else:
        _ended(p, s, task, now)


@bare_kernel
def _refused(s, task, now):
    """A transfer without any route (-2) fails: it never drains nor ends."""
    s.failed_s[task] = now


@bare_kernel
def _begin(p, s, task, now, network_links, shift):
    """Start a ready task. Returns a status other than DONE, with nothing changed, when an array is too small."""
    # Each start adds one timer at most now, and one more when it drains in this batch.
    if s.integer[I_TIMERS] + 2 + s.integer[I_FLOWS] > s.timer_s.size:
        return MORE_TIMERS
    if p.kind[task] == 0:
        s.start_s[task] = now
        _release(p, s, task, 2, now)
        if p.amount[task] > 0.0:
            s.integer[I_TIMERS] = _push_timer(
                s.timer_s, s.timer, s.integer[I_TIMERS], now + p.amount[task], task * 4 + DELAY_END
            )
        else:
            s.drain_s[task] = now
            _release(p, s, task, 1, now)
            _ended(p, s, task, now)
        return DONE
    nominal = p.route[task]
    route = nominal
    size = p.amount[task]
    if (
        route >= 0
        and s.pick.size > 0
        and route + 1 < p.choice_ptr.size
        and p.choice_ptr[route + 1] > p.choice_ptr[route]
    ):
        route = _chosen(p, s, route)
        s.pick[task] = route
    if route < -1:
        s.start_s[task] = now
        _release(p, s, task, 2, now)
        _refused(s, task, now)
        return DONE
    if route < 0:
        s.start_s[task] = now
        _release(p, s, task, 2, now)
        if size > 0.0 and p.local_rate < np.inf:
            s.integer[I_TIMERS] = _push_timer(
                s.timer_s, s.timer, s.integer[I_TIMERS], now + size / p.local_rate, task * 4 + LOCAL_END
            )
        else:
            _drained(p, s, task, now)
        return DONE
    latency = _latency(p, task)
    if p.head == 1 and latency > 0.0:
        s.start_s[task] = now
        _release(p, s, task, 2, now)
        s.integer[I_TIMERS] = _push_timer(s.timer_s, s.timer, s.integer[I_TIMERS], now + latency, task * 4 + ENTER)
        return DONE
    if size <= 0.0:
        s.start_s[task] = now
        _release(p, s, task, 2, now)
        _drained(p, s, task, now)
        return DONE
    status = _room(p, s, task, network_links, shift)
    if status != DONE:
        if route != nominal:
            s.pick[task] = nominal
        return status
    s.start_s[task] = now
    _release(p, s, task, 2, now)
    _enter(p, s, task, now, network_links, shift)
    return DONE


@bare_kernel
def advance(p, s, network_links, shift, max_events, until_s):
    """Handle up to ``max_events`` batches of simultaneous events. O((active flows changed) log) per batch.

    Parameters
    ----------
    p : Problem
    s : State
        Changed in place.
    network_links : int
        Links of the network, with those of the low class; private links of slots follow them.
    shift : int
        A slot owns ``1 << shift`` hop entries.
    max_events : int
    until_s : float
        Handle nothing later than this.

    Returns
    -------
    int
        DONE, STUCK, BUDGET, EPOCH (all up to ``until_s`` is handled, and that is now), or MORE_* when an array must be enlarged
        before going on.
    """
    n_tasks = p.kind.size
    integer = s.integer
    if integer[I_SETUP] == 0:
        integer[I_SETUP] = 1
        for e in range(p.succ.size):
            s.waiting[p.succ[e]] += 1
        # The stack is last in, first out: stacked in reverse, tasks start in the order of their numbers.
        for task in range(n_tasks - 1, -1, -1):
            if s.waiting[task] == 0:
                s.stack[integer[I_STACK]] = task
                integer[I_STACK] += 1
        integer[I_PENDING] = 1
        integer[I_STAMP] = 1
    handled = 0
    while True:
        now = s.real[F_NOW]
        if integer[I_PENDING] == 0:
            if handled >= max_events:
                return BUDGET
            timer = s.timer_s[0] if integer[I_TIMERS] > 0 else np.inf
            finish = _next_finish(s)
            change = p.change_s[integer[I_CHANGE]] if integer[I_CHANGE] < p.change_s.size else np.inf
            # Nothing will happen by itself; a capacity change still to come may wake a flow that waits for a dark link.
            if timer == np.inf and finish == np.inf and (integer[I_ACTIVE] == 0 or change == np.inf):
                return DONE if integer[I_DONE] == n_tasks else STUCK
            soonest = min(timer, min(finish, change))
            if soonest > until_s:
                s.real[F_NOW] = max(now, until_s)
                return EPOCH
            now = max(now, soonest)
            if p.window > 0.0 and finish <= now:
                # Wait for more flows that drain soon; until then the capacity of the first lies idle.
                lasted = now - s.node[s.slot[s.heap[0]].first].entered_s
                now = max(now, min(now + p.window * lasted, min(timer, min(change, until_s))))
            s.real[F_NOW] = now
            handled += 1
            integer[I_EVENTS] += 1
            integer[I_STAMP] += 1
            integer[I_PENDING] = 2
        if integer[I_PENDING] == 2:
            # One batch: completions, then timers, then capacity changes, then ready tasks.
            near = now + 4.0 * ULP * now
            while _next_finish(s) < np.inf:
                slot = s.heap[0]
                slack = 1e-12 * (now - s.node[s.slot[slot].first].entered_s)
                if s.finish_s[slot] > max(near, now + slack):
                    break
                if integer[I_TIMERS] + 2 + integer[I_FLOWS] > s.timer_s.size:
                    return MORE_TIMERS
                _serve(s, slot, now)
                share = s.slot[slot].share
                weight = s.slot[slot].flow_weight / s.slot[slot].flows
                before = s.slot[slot].flows
                done = s.slot[slot].first
                rest = _without_first(s, done)
                s.slot[slot].flows -= 1
                # When they drained is earlier than this batch with a completion window: each keeps its own moment.
                s.node[done].entered_s = min(now, s.finish_s[slot]) if p.window > 0.0 else now
                idle = share * (now - s.node[done].entered_s)
                # Others of the slot that drain now: equal sizes, or equal but for rounding.
                while rest >= 0:
                    left = s.node[rest].target - s.slot[slot].served
                    slack = 1e-12 * (now - s.node[rest].entered_s)
                    if left > 0.0 and now + left / share > max(near, now + slack):
                        break
                    following = _without_first(s, rest)
                    s.node[rest].entered_s = min(now, now + left / share) if p.window > 0.0 else now
                    idle += share * (now - s.node[rest].entered_s)
                    s.node[rest].next = done
                    done = rest
                    s.slot[slot].flows -= 1
                    rest = following
                if idle > 0.0 and p.counting == 1:
                    for h in range(slot << shift, (slot << shift) + s.hops[slot]):
                        s.link_bytes[s.hop[h].link] -= s.hop_use[h] * idle
                if s.crossing.size > 0:
                    _cross(s, slot, s.slot[slot].flows - before, shift)
                if s.slot[slot].flows == 0:
                    integer[I_ACTIVE] -= 1
                    last = s.heap[integer[I_ACTIVE]]
                    if integer[I_ACTIVE] > 0:
                        s.heap[0] = last
                        s.heap_at[last] = 0
                        _down(s, 0)
                    if p.share_slots == 1:
                        s.slot_of_route[p.route[s.node[done].task]] = -1
                    if p.low > 0:
                        _note_slot(p, s, slot, shift)
                    _leave(p, s, slot, now, shift)
                else:
                    if s.slot[slot].flows == 1:
                        # One is left: count its service from here, so that a long-lived slot does not lose digits.
                        s.node[rest].target -= s.slot[slot].served
                        s.slot[slot].served = 0.0
                    s.slot[slot].first = rest
                    s.changed[slot] = 1
                    s.slot[slot].flow_weight = weight * s.slot[slot].flows
                    s.finish_s[slot] = np.inf
                    if s.status[slot] == 0:
                        _into_play(p, s, slot, shift)
                while done >= 0:
                    node = done
                    done = s.node[node].next
                    s.free_node[integer[I_FREE_NODES]] = node
                    integer[I_FREE_NODES] += 1
                    integer[I_FLOWS] -= 1
                    integer[I_FINISHED_FLOWS] += 1
                    _drained(p, s, s.node[node].task, s.node[node].entered_s)
            while integer[I_TIMERS] > 0 and s.timer_s[0] <= near:
                what = s.timer[0] & 3
                task = s.timer[0] >> 2
                if what == ENTER:
                    if p.route[task] < -1:
                        integer[I_TIMERS] = _pop_timer(s.timer_s, s.timer, integer[I_TIMERS])
                        _refused(s, task, now)
                        continue
                    if p.amount[task] > 0.0:
                        status = _room(p, s, task, network_links, shift)
                        if status != DONE:
                            return status
                    integer[I_TIMERS] = _pop_timer(s.timer_s, s.timer, integer[I_TIMERS])
                    if p.amount[task] > 0.0:
                        _enter(p, s, task, now, network_links, shift)
                    else:
                        _drained(p, s, task, now)
                    continue
                integer[I_TIMERS] = _pop_timer(s.timer_s, s.timer, integer[I_TIMERS])
                if what == DELAY_END:
                    s.drain_s[task] = now
                    _release(p, s, task, 1, now)
                    _ended(p, s, task, now)
                elif what == LOCAL_END:
                    _drained(p, s, task, now)
                else:
                    _ended(p, s, task, now)
            while integer[I_CHANGE] < p.change_s.size and p.change_s[integer[I_CHANGE]] <= near:
                link = p.change_link[integer[I_CHANGE]]
                _set_capacity(p, s, link, p.change_capacity[integer[I_CHANGE]], shift)
                if p.low > 0 and s.link[p.low + link].members > 0:
                    _note(s, link)
                integer[I_CHANGE] += 1
            integer[I_PENDING] = 1
        while integer[I_STACK] > 0:
            task = s.stack[integer[I_STACK] - 1]
            integer[I_STACK] -= 1
            status = _begin(p, s, task, now, network_links, shift)
            if status != DONE:
                s.stack[integer[I_STACK]] = task
                integer[I_STACK] += 1
                return status
        if p.full == 1 and integer[I_TOUCHED] > 0:
            for i in range(integer[I_ACTIVE]):
                slot = s.heap[i]
                if s.status[slot] == 0:
                    _into_play(p, s, slot, shift)
        if integer[I_TOUCHED] > 0:
            status = _sweep(p, s, shift)
            if status != DONE:
                return status
            if p.low > 0:
                for i in range(integer[I_PLAY]):
                    _note_slot(p, s, s.play[i], shift)
            _apply(p, s, now, shift)
        if integer[I_NOTED] > 0:
            _pass_down(p, s, shift)
            # Settle the low class; nothing else is pending.
            if integer[I_TOUCHED] > 0:
                continue
        integer[I_PENDING] = 0


# ---------------------------------------------------------------- what a controller sees and does


@kernel
def transfers(s, now, task, slot_of, rate, left):
    """Fill in the transfers under way: task, slot, bytes/s of each and bytes left. O(transfers)."""
    todo = np.empty(s.integer[I_FLOWS] + 1, np.int32)
    n = 0
    for i in range(s.integer[I_ACTIVE]):
        slot = s.heap[i]
        served = s.slot[slot].served + s.slot[slot].share * (now - s.slot[slot].touched_s)
        todo[0] = s.slot[slot].first
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = todo[waiting]
            task[n] = s.node[node].task
            slot_of[n] = slot
            rate[n] = s.slot[slot].share
            left[n] = max(s.node[node].target - served, 0.0)
            n += 1
            if s.node[node].next >= 0:
                todo[waiting] = s.node[node].next
                waiting += 1
            if s.node[node].child >= 0:
                todo[waiting] = s.node[node].child
                waiting += 1


@bare_kernel
def _withdraw(p, s, slot, row, leaving, left, now, shift):
    """Take the transfers marked in ``leaving`` out of their slot and write down what they have left."""
    _serve(s, slot, now)
    weight = s.slot[slot].flow_weight / s.slot[slot].flows
    kept = np.int32(-1)
    todo = s.slot[slot].first
    while todo >= 0:
        node = todo
        todo = s.node[node].next
        child = s.node[node].child
        while child >= 0:
            later = s.node[child].next
            s.node[child].next = todo
            todo = child
            child = later
        s.node[node].child = -1
        s.node[node].next = -1
        task = s.node[node].task
        if leaving[task] == 0:
            kept = _merge(s, kept, node)
            continue
        left[task] = max(s.node[node].target - s.slot[slot].served, 0.0)
        s.free_node[s.integer[I_FREE_NODES]] = node
        s.integer[I_FREE_NODES] += 1
        s.integer[I_FLOWS] -= 1
        s.slot[slot].flows -= 1
        if s.crossing.size > 0:
            _cross(s, slot, -1, shift)
    s.slot[slot].first = kept
    if s.slot[slot].flows > 0:
        s.changed[slot] = 1
        s.slot[slot].flow_weight = weight * s.slot[slot].flows
        s.finish_s[slot] = np.inf
        _into_play(p, s, slot, shift)
        return
    at = s.heap_at[slot]
    s.integer[I_ACTIVE] -= 1
    last = s.heap[s.integer[I_ACTIVE]]
    if last != slot:
        s.heap[at] = last
        s.heap_at[last] = at
        _up(s, at)
        _down(s, s.heap_at[last])
    if p.share_slots == 1:
        s.slot_of_route[row] = -1
    if p.low > 0:
        _note_slot(p, s, slot, shift)
    _leave(p, s, slot, now, shift)


@bare_kernel
def act(p, s, slots, rows, leaving, left, links, capacities, entering, network_links, shift):
    """Do what a controller ordered, as the first part of a batch at the present time; ``advance`` then settles the rates.

    Parameters
    ----------
    p : Problem
        With the new routes.
    s : State
    slots, rows : int32 array
        Slots that transfers leave, each once, and the routes of those slots.
    leaving : uint8 array, shape (n,)
    left : float64 array, shape (n,)
        Written: bytes left of the tasks that leave. May be the memory of ``p.amount``, for those that enter again.
    links, capacities : int32 and float64 arrays
    entering : int32 array
        Tasks that enter on their new routes.
    network_links, shift : int

    Returns
    -------
    int
        DONE, or MORE_*: enlarge and call again with the same lists.
    """
    # In this order: a slot in play cannot leave, and only leaving requires one that is not.
    now = s.real[F_NOW]
    n, m = slots.size, links.size
    while s.integer[I_CURSOR] < n + m + entering.size:
        i = s.integer[I_CURSOR]
        if i < n:
            _withdraw(p, s, slots[i], rows[i], leaving, left, now, shift)
        elif i < n + m:
            _set_capacity(p, s, links[i - n], capacities[i - n], shift)
            if p.low > 0 and s.link[p.low + links[i - n]].members > 0:
                _note(s, links[i - n])
        else:
            task = entering[i - n - m]
            status = _room(p, s, task, network_links, shift)
            if status != DONE:
                return status
            _enter(p, s, task, now, network_links, shift)
        s.integer[I_CURSOR] += 1
    s.integer[I_CURSOR] = 0
    return DONE


@bare_kernel
def settle_counts(s, now):
    """Count the bytes of all links until now (for a partial or final result)."""
    for link in range(s.link.size):
        if s.link[link].used > 0.0:
            _count(s, link, now)


@kernel
def critical_chain(critical, last):
    """Tasks on the chain of releases that ends in ``last``, earliest first. O(length)."""
    n = 0
    task = last
    while task >= 0:
        n += 1
        task = critical[task]
    chain = np.empty(n, np.int64)
    task = last
    while task >= 0:
        n -= 1
        chain[n] = task
        task = critical[task]
    return chain


@bare_kernel
def certify(s, shift, use, top, rtol, idle):
    """Prove the present allocation from scratch: nothing of the sweep's sums is used. O(incidences of active flows).

    Parameters
    ----------
    s : State
        Read only.
    shift : int
    use, top : float64 array, shape (l,)
        Scratch, one entry per link.
    rtol : float
    idle : float
        0: the certificate of max-min fairness. Above 0: only that no link is above its capacity and that each flow crosses a
        link of which at most this part is idle.

    Returns
    -------
    int
        -1: proven; otherwise the task of the first flow without a bottleneck, or on a link above its capacity.
    """
    n = s.integer[I_ACTIVE]
    for i in range(n):
        base = s.heap[i] << shift
        for h in range(base, base + s.hops[s.heap[i]]):
            use[s.hop[h].link] = 0.0
            top[s.hop[h].link] = 0.0
    for i in range(n):
        slot = s.heap[i]
        base = slot << shift
        for h in range(base, base + s.hops[slot]):
            link = s.hop[h].link
            use[link] += s.hop_use[h] * s.slot[slot].rate
            top[link] = max(top[link], s.slot[slot].rate / s.slot[slot].flow_weight)
    for i in range(n):
        slot = s.heap[i]
        base = slot << shift
        held = False
        for h in range(base, base + s.hops[slot]):
            link = s.hop[h].link
            if use[link] > s.link[link].capacity * (1.0 + rtol):
                return s.node[s.slot[slot].first].task
            highest = top[link] if idle == 0.0 else 0.0
            full = use[link] >= s.link[link].capacity * (1.0 - max(rtol, idle))
            if full and s.slot[slot].rate / s.slot[slot].flow_weight >= highest * (1.0 - rtol):
                held = True
        if not held:
            return s.node[s.slot[slot].first].task
    return -1
