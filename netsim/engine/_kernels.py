"""The compiled event loop: a clock, a ready stack, a max-min solver. Loops and nothing else.

The loop is resumable. All state lives in arrays that the caller owns; ``advance`` returns a status when it is done, stuck, out
of room in one of its arrays, or has handled its budget of events, and continues where it stopped when called again.

Sharing is weighted max-min, exact, and settled anew at each batch of simultaneous events by ONE sweep over the levels
(rate/weight) in increasing order. A flow is *fixed* (keeps its rate), *in play* (rate not known yet) or *frozen* (new rate
known). A link that is touched stands in the level heap at its key = (capacity - fixed and frozen use) / (weight in play), and
at the level it had when some flow has its bottleneck there. Popping a key L: fixed flows above L on that link come into play;
when there are none, the flows in play on the link freeze at L and it is their bottleneck. Popping an old level: if the link
would have room left with its flows in play at that level, the flows it held back come into play, since they can rise. Keys only
grow while flows freeze, so stale ones are refreshed when popped. Every flow that comes into play had a level above the one swept
so far and ends at or above it: one pass settles all, and the bottleneck certificate (Bertsekas and Gallager, Data Networks,
section 6.5.2) holds at the end, which proves the allocation.

Transfers that are under way on the same route at the same time (same weight, no cap of their own) have the same rate, so they
share one slot: the solver sees one flow of their common weight, and a pairing heap orders them by the service at which they
drain. Service is what each of them has received since the slot was opened, in bytes. A thousand messages between two hosts cost
as much as one for the solver, and n of them of different sizes O(n log n) instead of O(n^2).

The alternative, re-solving the connected component (selective update), touches 93 to 100 % of the flows at one flow per host
or more on a fat-tree, dragonfly or torus; the sweep touches 0.5 to 4 %.
"""

from typing import NamedTuple

import numpy as np

from netsim.core.jit import kernel

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
I_LEVELS = 14  # entries in the level heap
I_SETUP = 15  # 1 once tasks without predecessors have been stacked
I_FINISHED_FLOWS = 16
I_FLOWS = 17  # transfers under way (several may share a slot)
I_FREE_NODES = 18
I_NOTED = 19  # links noted for the low class
I_CURSOR = 20  # next entry of the lists of ``act``
I_SIZE = 24

F_NOW = 0
F_BIN = 1  # width of a time bin in seconds
F_SIZE = 4

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
    weight: np.ndarray  # float64 (n,) or (1,)
    rate_cap: np.ndarray  # float64 (n,) or (0,): none
    change_s: np.ndarray  # float64 (c,) sorted: times of capacity changes
    change_link: np.ndarray  # int32 (c,)
    change_capacity: np.ndarray  # float64 (c,)
    head: int  # 1: latency before the transfer, 0: after the drain
    full: int  # 1: put all active flows into play at each batch (the slow check of the sweep)
    local_rate: float  # bytes/s of transfers that stay on their host
    share_slots: int  # 1: transfers of one route share a slot
    low: int  # number of the link that carries the low class over link 0; 0: there is one class


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
    # transfers under way, nodes of the pairing heap of their slot
    node_task: np.ndarray  # int32 (m,)
    node_target: np.ndarray  # float64 (m,) service at which it drains
    node_entered_s: np.ndarray  # float64 (m,)
    node_child: np.ndarray  # int32 (m,) -1: none
    node_next: np.ndarray  # int32 (m,) sibling, -1: none
    free_node: np.ndarray  # int32 (m,)
    slot_of_route: np.ndarray  # int32 (r,) open slot of each route, -1
    # slots: what the solver takes for one flow
    first: np.ndarray  # int32 (s,) node that drains first
    flows: np.ndarray  # int32 (s,) transfers that share the slot
    share: np.ndarray  # float64 (s,) rate of each of them since touched_s
    served: np.ndarray  # float64 (s,) service received until touched_s
    changed: np.ndarray  # uint8 (s,) 1: transfers joined or left since its finish time was set
    rate: np.ndarray  # float64 (s,) of all of them together
    touched_s: np.ndarray  # float64 (s,)
    finish_s: np.ndarray  # float64 (s,) when the first of them drains
    flow_weight: np.ndarray  # float64 (s,) of all of them together
    bottleneck: np.ndarray  # int32 (s,) link, -1
    new_rate: np.ndarray  # float64 (s,)
    new_bottleneck: np.ndarray  # int32 (s,)
    status: np.ndarray  # uint8 (s,) 0 fixed, 1 in play, 2 frozen
    play: np.ndarray  # int32 (s,) flows that came into play
    heap: np.ndarray  # int32 (s,) indexed heap on finish_s
    heap_at: np.ndarray  # int32 (s,)
    free: np.ndarray  # int32 (s,)
    hops: np.ndarray  # int32 (s,)
    hop_link: np.ndarray  # int32 (s << shift,)
    hop_use: np.ndarray  # float64 (s << shift,)
    hop_at: np.ndarray  # int32 (s << shift,) place in the link's member list
    # links: the network's, then one private link per slot when flows have rate caps
    capacity: np.ndarray  # float64 (l,)
    used: np.ndarray  # float64 (l,)
    level: np.ndarray  # float64 (l,) of the flows it is the bottleneck of
    holds: np.ndarray  # int32 (l,) number of flows it is the bottleneck of
    member_base: np.ndarray  # int64 (l,)
    member_room: np.ndarray  # int32 (l,)
    members: np.ndarray  # int32 (l,)
    mark: np.ndarray  # int64 (l,) stamp of the last batch that touched it
    fixed: np.ndarray  # float64 (l,) use by fixed and frozen flows
    play_weight: np.ndarray  # float64 (l,)
    play_count: np.ndarray  # int32 (l,)
    updates: np.ndarray  # int32 (l,) since ``used`` was last summed afresh
    pool: np.ndarray  # int32 (p,) member lists: hop numbers
    level_key: np.ndarray  # float64 (h,) binary heap
    level_link: np.ndarray  # int32 (h,) link, or -1-link for an old level
    # bytes per link over time
    binned_s: np.ndarray  # float64 (l,) bytes are counted up to here
    link_bytes: np.ndarray  # float64 (l,)
    bin_row: np.ndarray  # int32 (l,) row of bin_bytes, -1
    bin_bytes: np.ndarray  # float64 (rows, bins)
    # two classes: network links whose use or capacity may have changed since the low class was given what is left
    noted: np.ndarray  # int32 (l,) or (0,)
    is_noted: np.ndarray  # uint8 (l,) or (0,)
    failed_s: np.ndarray  # float64 (n,) or (0,): NaN until the transfer fails
    integer: np.ndarray  # int64 (I_SIZE,)
    real: np.ndarray  # float64 (F_SIZE,)


# ---------------------------------------------------------------- heaps


@kernel
def _push_timer(key, value, n, k, v):
    i = n
    while i > 0:
        p = (i - 1) >> 1
        if key[p] < k or (key[p] == k and value[p] <= v):
            break
        key[i] = key[p]
        value[i] = value[p]
        i = p
    key[i] = k
    value[i] = v
    return n + 1


@kernel
def _pop_timer(key, value, n):
    n -= 1
    k = key[n]
    v = value[n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and (key[c + 1] < key[c] or (key[c + 1] == key[c] and value[c + 1] < value[c])):
            c += 1
        if key[c] > k or (key[c] == k and value[c] >= v):
            break
        key[i] = key[c]
        value[i] = value[c]
        i = c
    key[i] = k
    value[i] = v
    return n


@kernel
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


@kernel
def _pop_level(key, value, n):
    n -= 1
    k = key[n]
    v = value[n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and key[c + 1] < key[c]:
            c += 1
        if key[c] >= k:
            break
        key[i] = key[c]
        value[i] = value[c]
        i = c
    key[i] = k
    value[i] = v
    return n


@kernel
def _up(heap, at, key, i):
    v = heap[i]
    k = key[v]
    while i > 0:
        p = (i - 1) >> 1
        u = heap[p]
        if key[u] <= k:
            break
        heap[i] = u
        at[u] = i
        i = p
    heap[i] = v
    at[v] = i


@kernel
def _down(heap, at, key, n, i):
    v = heap[i]
    k = key[v]
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and key[heap[c + 1]] < key[heap[c]]:
            c += 1
        u = heap[c]
        if key[u] >= k:
            break
        heap[i] = u
        at[u] = i
        i = c
    heap[i] = v
    at[v] = i


# ---------------------------------------------------------------- bytes per link


@kernel
def _count(s, link, now):
    """Count the bytes that crossed the link at its present use until now."""
    begin = s.binned_s[link]
    s.binned_s[link] = now
    use = s.used[link]
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


@kernel
def _merge(s, a, b):
    """Join two pairing heaps; the smaller target on top, ties to the earlier in the first argument."""
    if a < 0:
        return b
    if b < 0:
        return a
    if s.node_target[b] < s.node_target[a]:
        a, b = b, a
    s.node_next[b] = s.node_child[a]
    s.node_child[a] = b
    return a


@kernel
def _without_first(s, top):
    """The heap without its top: merge the children in pairs, then the pairs from the last to the first."""
    child = s.node_child[top]
    pairs = np.int32(-1)
    while child >= 0:
        other = s.node_next[child]
        s.node_next[child] = -1
        if other < 0:
            later = other
            both = child
        else:
            later = s.node_next[other]
            s.node_next[other] = -1
            both = _merge(s, child, other)
        s.node_next[both] = pairs
        pairs = both
        child = later
    merged = np.int32(-1)
    while pairs >= 0:
        later = s.node_next[pairs]
        s.node_next[pairs] = -1
        merged = _merge(s, merged, pairs)
        pairs = later
    return merged


@kernel
def _serve(s, slot, now):
    """Bring the service of the slot up to date."""
    if now > s.touched_s[slot]:
        s.served[slot] += s.share[slot] * (now - s.touched_s[slot])
    s.touched_s[slot] = now


@kernel
def _new_node(p, s, task, target, now):
    s.integer[I_FREE_NODES] -= 1
    node = s.free_node[s.integer[I_FREE_NODES]]
    s.node_task[node] = task
    s.node_target[node] = target
    s.node_entered_s[node] = now
    s.node_child[node] = -1
    s.node_next[node] = -1
    s.integer[I_FLOWS] += 1
    return node


# ---------------------------------------------------------------- flows


@kernel
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
        if s.members[link] + 2 > s.member_room[link]:
            room = max(4, 2 * s.member_room[link])
            if s.integer[I_POOL] + room > s.pool.size:
                return MORE_POOL
            base = s.integer[I_POOL]
            old = s.member_base[link]
            for k in range(s.members[link]):
                s.pool[base + k] = s.pool[old + k]
            s.member_base[link] = base
            s.member_room[link] = room
            s.integer[I_POOL] = base + room
    if p.rate_cap.size > 0 and s.integer[I_POOL] + 4 > s.pool.size:
        return MORE_POOL
    return DONE


@kernel
def _touch(s, link):
    """First time in this batch that the sweep meets the link."""
    s.mark[link] = s.integer[I_STAMP]
    s.fixed[link] = s.used[link]
    s.play_weight[link] = 0.0
    s.play_count[link] = 0
    if s.holds[link] > 0:
        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], s.level[link], -1 - link)


@kernel
def _key(s, link):
    return max(s.capacity[link] - s.fixed[link], 0.0) / s.play_weight[link]


@kernel
def _into_play(s, slot, shift):
    s.status[slot] = 1
    s.play[s.integer[I_PLAY]] = slot
    s.integer[I_PLAY] += 1
    rate = s.rate[slot]
    weight = s.flow_weight[slot]
    held = s.bottleneck[slot]
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop_link[h]
        if s.mark[link] != s.integer[I_STAMP]:
            _touch(s, link)
        elif held == link and s.holds[link] > 0:
            # Its old level may have been popped before there was any room: look again.
            s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], s.level[link], -1 - link)
        s.fixed[link] -= s.hop_use[h] * rate
        s.play_weight[link] += s.hop_use[h] * weight
        s.play_count[link] += 1
        if s.play_count[link] == s.members[link]:
            # Nothing fixed is left: without this a dark link (capacity 0) would hand out the rounding error of the sum.
            s.fixed[link] = 0.0
        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], _key(s, link), link)


@kernel
def _join(p, s, slot, task, weight, now, shift):
    """Add a transfer to the slot of its route."""
    _serve(s, slot, now)
    node = _new_node(p, s, task, s.served[slot] + p.amount[task], now)
    s.first[slot] = _merge(s, s.first[slot], node)
    s.flows[slot] += 1
    s.changed[slot] = 1
    s.flow_weight[slot] = weight * s.flows[slot]
    if s.status[slot] == 0:
        _into_play(s, slot, shift)
        return
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop_link[h]
        s.play_weight[link] += s.hop_use[h] * weight
        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], _key(s, link), link)


@kernel
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
    s.first[slot] = _new_node(p, s, task, p.amount[task], now)
    s.flows[slot] = 1
    s.share[slot] = 0.0
    s.served[slot] = 0.0
    s.changed[slot] = 1
    s.rate[slot] = 0.0
    s.touched_s[slot] = now
    s.finish_s[slot] = np.inf
    s.flow_weight[slot] = weight
    s.bottleneck[slot] = -1
    base = slot << shift
    n = 0
    for h in range(p.route_ptr[route], p.route_ptr[route + 1]):
        s.hop_link[base + n] = p.route_link[h]
        s.hop_use[base + n] = p.route_use[h] if p.route_use.size > 1 else p.route_use[0]
        n += 1
    if p.rate_cap.size > 0 and p.rate_cap[task] < np.inf:
        link = network_links + slot
        s.capacity[link] = p.rate_cap[task]
        if s.member_room[link] == 0:
            s.member_base[link] = s.integer[I_POOL]
            s.member_room[link] = 4
            s.integer[I_POOL] += 4
        s.hop_link[base + n] = link
        s.hop_use[base + n] = 1.0
        n += 1
    s.hops[slot] = n
    for h in range(base, base + n):
        link = s.hop_link[h]
        s.hop_at[h] = s.members[link]
        s.pool[s.member_base[link] + s.members[link]] = h
        s.members[link] += 1
    at = s.integer[I_ACTIVE]
    s.heap[at] = slot
    s.heap_at[slot] = at
    s.integer[I_ACTIVE] += 1
    _into_play(s, slot, shift)


@kernel
def _leave(s, slot, now, shift):
    """Take a finished flow off its links."""
    held = s.bottleneck[slot]
    if held >= 0:
        s.holds[held] -= 1
    base = slot << shift
    rate = s.rate[slot]
    for h in range(base, base + s.hops[slot]):
        link = s.hop_link[h]
        _count(s, link, now)
        s.members[link] -= 1
        last = s.pool[s.member_base[link] + s.members[link]]
        s.pool[s.member_base[link] + s.hop_at[h]] = last
        s.hop_at[last] = s.hop_at[h]
        s.used[link] -= s.hop_use[h] * rate
        if s.members[link] == 0:
            s.used[link] = 0.0
        if s.mark[link] != s.integer[I_STAMP]:
            _touch(s, link)
        else:
            s.fixed[link] -= s.hop_use[h] * rate
            if s.members[link] == 0:
                s.fixed[link] = 0.0
            if s.holds[link] > 0:
                s.integer[I_LEVELS] = _push_level(
                    s.level_key, s.level_link, s.integer[I_LEVELS], s.level[link], -1 - link
                )
    s.free[s.integer[I_FREE]] = slot
    s.integer[I_FREE] += 1


@kernel
def _sweep(s, now, shift, limit):
    """Settle the new rates. Returns MORE_LEVELS before anything is lost when the level heap is nearly full, else DONE."""
    while s.integer[I_LEVELS] > 0:
        if s.integer[I_LEVELS] + limit > s.level_key.size:
            return MORE_LEVELS
        level = s.level_key[0]
        value = s.level_link[0]
        s.integer[I_LEVELS] = _pop_level(s.level_key, s.level_link, s.integer[I_LEVELS])
        before = s.integer[I_PLAY]
        if value >= 0:
            link = value
            if s.play_count[link] == 0:
                continue
            key = _key(s, link)
            if key > level * (1.0 + 1e-12) + 1e-300:
                s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], key, link)
                continue
            level = key
            base = s.member_base[link]
            for q in range(s.members[link]):
                slot = s.pool[base + q] >> shift
                if s.status[slot] == 0 and s.rate[slot] > level * s.flow_weight[slot] * (1.0 + 1e-11):
                    # At most ``limit`` entries fit for sure; the rest comes at the next pop of this link.
                    if s.integer[I_LEVELS] + 4 * (1 << shift) > s.level_key.size:
                        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], level, link)
                        return MORE_LEVELS
                    _into_play(s, slot, shift)
            if s.integer[I_PLAY] == before:
                for q in range(s.members[link]):
                    slot = s.pool[base + q] >> shift
                    if s.status[slot] == 1:
                        s.status[slot] = 2
                        rate = level * s.flow_weight[slot]
                        s.new_rate[slot] = rate
                        s.new_bottleneck[slot] = link
                        first = slot << shift
                        for h in range(first, first + s.hops[slot]):
                            other = s.hop_link[h]
                            s.fixed[other] += s.hop_use[h] * rate
                            s.play_weight[other] -= s.hop_use[h] * s.flow_weight[slot]
                            s.play_count[other] -= 1
                            if s.play_count[other] == 0:
                                s.play_weight[other] = 0.0
        else:
            link = -1 - value
            if s.capacity[link] - s.fixed[link] - s.play_weight[link] * level <= s.capacity[link] * 1e-10:
                continue
            base = s.member_base[link]
            for q in range(s.members[link]):
                slot = s.pool[base + q] >> shift
                if s.status[slot] == 0 and s.bottleneck[slot] == link:
                    if s.integer[I_LEVELS] + 4 * (1 << shift) > s.level_key.size:
                        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], level, value)
                        return MORE_LEVELS
                    _into_play(s, slot, shift)
    return DONE


@kernel
def _set_capacity(s, link, capacity, shift, limit):
    """Change the capacity of a link within a batch. Returns MORE_LEVELS, to be called again, or DONE."""
    # All flows on the link come into play: at level 0 nothing has been swept yet, so that is always allowed.
    base = s.member_base[link]
    for q in range(s.members[link]):
        slot = s.pool[base + q] >> shift
        if s.status[slot] == 0:
            if s.integer[I_LEVELS] + limit > s.level_key.size:
                return MORE_LEVELS
            _into_play(s, slot, shift)
    if s.integer[I_LEVELS] + limit > s.level_key.size:
        return MORE_LEVELS
    if capacity < s.capacity[link]:
        # The rounding error of the sum belongs to the larger capacity: sum afresh.
        s.updates[link] = 1 << 30
    s.capacity[link] = capacity
    if s.mark[link] == s.integer[I_STAMP] and s.play_count[link] > 0:
        s.integer[I_LEVELS] = _push_level(s.level_key, s.level_link, s.integer[I_LEVELS], _key(s, link), link)
    return DONE


@kernel
def _apply(s, now, shift):
    """Give the flows in play their new rates and finish times."""
    n = s.integer[I_PLAY]
    s.integer[I_SOLVES] += 1
    s.integer[I_IN_PLAY] += n
    for i in range(n):
        slot = s.play[i]
        s.status[slot] = 0
        if s.bottleneck[slot] >= 0:
            s.holds[s.bottleneck[slot]] -= 1
    for i in range(n):
        slot = s.play[i]
        rate = s.new_rate[slot]
        old = s.rate[slot]
        link = s.new_bottleneck[slot]
        s.bottleneck[slot] = link
        s.holds[link] += 1
        s.level[link] = rate / s.flow_weight[slot]
        if s.changed[slot] == 0 and abs(rate - old) <= 1e-13 * rate and old > 0.0:
            continue
        s.integer[I_CHANGED] += 1
        _serve(s, slot, now)
        s.share[slot] = rate / s.flows[slot]
        s.changed[slot] = 0
        left = s.node_target[s.first[slot]] - s.served[slot]
        first = slot << shift
        for h in range(first, first + s.hops[slot]):
            other = s.hop_link[h]
            _count(s, other, now)
            s.used[other] += s.hop_use[h] * (rate - old)
            s.updates[other] += 1
        s.rate[slot] = rate
        was = s.finish_s[slot]
        if left <= 0.0:
            s.finish_s[slot] = now
        elif rate > 0.0:
            s.finish_s[slot] = now + left / s.share[slot]
        else:
            s.finish_s[slot] = np.inf
        if s.finish_s[slot] < was:
            _up(s.heap, s.heap_at, s.finish_s, s.heap_at[slot])
        else:
            _down(s.heap, s.heap_at, s.finish_s, s.integer[I_ACTIVE], s.heap_at[slot])
    # Running sums drift by rounding (1e-11 after 1e4 updates, measured): sum afresh now and then.
    for i in range(n):
        first = s.play[i] << shift
        for h in range(first, first + s.hops[s.play[i]]):
            other = s.hop_link[h]
            if s.capacity[other] == 0.0:
                s.used[other] = 0.0
            elif s.updates[other] >= 64 + 4 * s.members[other]:
                s.updates[other] = 0
                total = 0.0
                base = s.member_base[other]
                for q in range(s.members[other]):
                    hop = s.pool[base + q]
                    total += s.hop_use[hop] * s.rate[hop >> shift]
                s.used[other] = total
    s.integer[I_PLAY] = 0


# ---------------------------------------------------------------- two classes


@kernel
def _note(s, link):
    """Remember a network link whose use or capacity may have changed."""
    if s.is_noted[link] == 0:
        s.is_noted[link] = 1
        s.noted[s.integer[I_NOTED]] = link
        s.integer[I_NOTED] += 1


@kernel
def _note_slot(p, s, slot, shift):
    """Note where the low class has to look again: links of a high slot that low ones cross, all links of a low slot that is new."""
    base = slot << shift
    for h in range(base, base + s.hops[slot]):
        link = s.hop_link[h]
        if link < p.low:
            # Nobody needs to know what is left of other links until a low slot opens there.
            if s.members[p.low + link] > 0:
                _note(s, link)
        elif link < 2 * p.low and s.bottleneck[slot] < 0:
            _note(s, link - p.low)


@kernel
def _pass_down(p, s, shift, limit):
    """Give the low class what the high one leaves of the noted links.

    The high class is settled. Changes the capacities of the links of the low class, as a new batch at the same time. Returns
    MORE_LEVELS with the rest still noted, else DONE.
    """
    s.integer[I_STAMP] += 1
    while s.integer[I_NOTED] > 0:
        link = s.noted[s.integer[I_NOTED] - 1]
        low = p.low + link
        left = s.capacity[link] - s.used[link]
        # What is left of a full link is 0, not the rounding error of a sum: else low transfers would crawl instead of wait.
        if s.holds[link] > 0 or left <= 1e-9 * s.capacity[link]:
            left = 0.0
        old = s.capacity[low]
        if (left == 0.0) != (old == 0.0) or abs(left - old) > 1e-13 * s.capacity[link]:
            status = _set_capacity(s, low, left, shift, limit)
            if status != DONE:
                return status
        s.is_noted[link] = 0
        s.integer[I_NOTED] -= 1
    return DONE


# ---------------------------------------------------------------- tasks


@kernel
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


@kernel
def _ended(p, s, task, now):
    s.end_s[task] = now
    s.integer[I_DONE] += 1
    _release(p, s, task, 0, now)


@kernel
def _drained(p, s, task, now):
    s.drain_s[task] = now
    _release(p, s, task, 1, now)
    latency = 0.0
    if p.head == 0 and p.route[task] >= 0:
        latency = p.route_latency_s[p.route[task]]
    if latency > 0.0:
        s.integer[I_TIMERS] = _push_timer(s.timer_s, s.timer, s.integer[I_TIMERS], now + latency, task * 4 + DELIVERED)
    else:
        _ended(p, s, task, now)


@kernel
def _refused(s, task, now):
    """A transfer without any route (-2) fails: it never drains nor ends."""
    s.failed_s[task] = now


@kernel
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
    route = p.route[task]
    size = p.amount[task]
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
    latency = p.route_latency_s[route]
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
        return status
    # Entering touches a route's links: each may push three level entries.
    if s.integer[I_LEVELS] + 4 * (1 << shift) > s.level_key.size:
        return MORE_LEVELS
    s.start_s[task] = now
    _release(p, s, task, 2, now)
    _enter(p, s, task, now, network_links, shift)
    return DONE


@kernel
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
    limit = 4 * (1 << shift)
    while True:
        now = s.real[F_NOW]
        if integer[I_PENDING] == 0:
            if handled >= max_events:
                return BUDGET
            timer = s.timer_s[0] if integer[I_TIMERS] > 0 else np.inf
            finish = s.finish_s[s.heap[0]] if integer[I_ACTIVE] > 0 else np.inf
            change = p.change_s[integer[I_CHANGE]] if integer[I_CHANGE] < p.change_s.size else np.inf
            # Nothing will happen by itself; a capacity change still to come may wake a flow that waits for a dark link.
            if timer == np.inf and finish == np.inf and (integer[I_ACTIVE] == 0 or change == np.inf):
                return DONE if integer[I_DONE] == n_tasks else STUCK
            soonest = min(timer, min(finish, change))
            if soonest > until_s:
                s.real[F_NOW] = max(now, until_s)
                return EPOCH
            now = max(now, soonest)
            s.real[F_NOW] = now
            handled += 1
            integer[I_EVENTS] += 1
            integer[I_STAMP] += 1
            integer[I_PENDING] = 2
        if integer[I_PENDING] == 2:
            # One batch: completions, then timers, then capacity changes, then ready tasks.
            near = now + 4.0 * ULP * now
            while integer[I_ACTIVE] > 0:
                slot = s.heap[0]
                slack = 1e-12 * (now - s.node_entered_s[s.first[slot]])
                if s.finish_s[slot] > max(near, now + slack):
                    break
                if integer[I_LEVELS] + limit > s.level_key.size:
                    return MORE_LEVELS
                if integer[I_TIMERS] + 2 + integer[I_FLOWS] > s.timer_s.size:
                    return MORE_TIMERS
                _serve(s, slot, now)
                share = s.share[slot]
                weight = s.flow_weight[slot] / s.flows[slot]
                done = s.first[slot]
                rest = _without_first(s, done)
                s.flows[slot] -= 1
                # Others of the slot that drain now: equal sizes, or equal but for rounding.
                while rest >= 0:
                    left = s.node_target[rest] - s.served[slot]
                    slack = 1e-12 * (now - s.node_entered_s[rest])
                    if left > 0.0 and now + left / share > max(near, now + slack):
                        break
                    following = _without_first(s, rest)
                    s.node_next[rest] = done
                    done = rest
                    s.flows[slot] -= 1
                    rest = following
                if s.flows[slot] == 0:
                    integer[I_ACTIVE] -= 1
                    last = s.heap[integer[I_ACTIVE]]
                    if integer[I_ACTIVE] > 0:
                        s.heap[0] = last
                        s.heap_at[last] = 0
                        _down(s.heap, s.heap_at, s.finish_s, integer[I_ACTIVE], 0)
                    if p.share_slots == 1:
                        s.slot_of_route[p.route[s.node_task[done]]] = -1
                    if p.low > 0:
                        _note_slot(p, s, slot, shift)
                    _leave(s, slot, now, shift)
                else:
                    if s.flows[slot] == 1:
                        # One is left: count its service from here, so that a long-lived slot does not lose digits.
                        s.node_target[rest] -= s.served[slot]
                        s.served[slot] = 0.0
                    s.first[slot] = rest
                    s.changed[slot] = 1
                    s.flow_weight[slot] = weight * s.flows[slot]
                    s.finish_s[slot] = np.inf
                    _down(s.heap, s.heap_at, s.finish_s, integer[I_ACTIVE], 0)
                    if s.status[slot] == 0:
                        _into_play(s, slot, shift)
                while done >= 0:
                    node = done
                    done = s.node_next[node]
                    s.free_node[integer[I_FREE_NODES]] = node
                    integer[I_FREE_NODES] += 1
                    integer[I_FLOWS] -= 1
                    integer[I_FINISHED_FLOWS] += 1
                    _drained(p, s, s.node_task[node], now)
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
                        if integer[I_LEVELS] + limit > s.level_key.size:
                            return MORE_LEVELS
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
                status = _set_capacity(s, link, p.change_capacity[integer[I_CHANGE]], shift, limit)
                if status != DONE:
                    return status
                if p.low > 0 and s.members[p.low + link] > 0:
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
        if p.full == 1 and integer[I_LEVELS] > 0:
            for i in range(integer[I_ACTIVE]):
                slot = s.heap[i]
                if s.status[slot] == 0:
                    if integer[I_LEVELS] + limit > s.level_key.size:
                        return MORE_LEVELS
                    _into_play(s, slot, shift)
        if integer[I_LEVELS] > 0:
            status = _sweep(s, now, shift, limit)
            if status != DONE:
                return status
        if p.low > 0:
            for i in range(integer[I_PLAY]):
                _note_slot(p, s, s.play[i], shift)
        if integer[I_PLAY] > 0:
            _apply(s, now, shift)
        if integer[I_NOTED] > 0:
            status = _pass_down(p, s, shift, limit)
            if status != DONE:
                return status
            # Settle the low class; nothing else is pending.
            if integer[I_LEVELS] > 0:
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
        served = s.served[slot] + s.share[slot] * (now - s.touched_s[slot])
        todo[0] = s.first[slot]
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = todo[waiting]
            task[n] = s.node_task[node]
            slot_of[n] = slot
            rate[n] = s.share[slot]
            left[n] = max(s.node_target[node] - served, 0.0)
            n += 1
            if s.node_next[node] >= 0:
                todo[waiting] = s.node_next[node]
                waiting += 1
            if s.node_child[node] >= 0:
                todo[waiting] = s.node_child[node]
                waiting += 1


@kernel
def _withdraw(p, s, slot, row, leaving, left, now, shift):
    """Take the transfers marked in ``leaving`` out of their slot and write down what they have left."""
    _serve(s, slot, now)
    weight = s.flow_weight[slot] / s.flows[slot]
    kept = np.int32(-1)
    todo = s.first[slot]
    while todo >= 0:
        node = todo
        todo = s.node_next[node]
        child = s.node_child[node]
        while child >= 0:
            later = s.node_next[child]
            s.node_next[child] = todo
            todo = child
            child = later
        s.node_child[node] = -1
        s.node_next[node] = -1
        task = s.node_task[node]
        if leaving[task] == 0:
            kept = _merge(s, kept, node)
            continue
        left[task] = max(s.node_target[node] - s.served[slot], 0.0)
        s.free_node[s.integer[I_FREE_NODES]] = node
        s.integer[I_FREE_NODES] += 1
        s.integer[I_FLOWS] -= 1
        s.flows[slot] -= 1
    s.first[slot] = kept
    if s.flows[slot] > 0:
        s.changed[slot] = 1
        s.flow_weight[slot] = weight * s.flows[slot]
        s.finish_s[slot] = np.inf
        _down(s.heap, s.heap_at, s.finish_s, s.integer[I_ACTIVE], s.heap_at[slot])
        _into_play(s, slot, shift)
        return
    at = s.heap_at[slot]
    s.integer[I_ACTIVE] -= 1
    last = s.heap[s.integer[I_ACTIVE]]
    if last != slot:
        s.heap[at] = last
        s.heap_at[last] = at
        _up(s.heap, s.heap_at, s.finish_s, at)
        _down(s.heap, s.heap_at, s.finish_s, s.integer[I_ACTIVE], s.heap_at[last])
    if p.share_slots == 1:
        s.slot_of_route[row] = -1
    if p.low > 0:
        _note_slot(p, s, slot, shift)
    _leave(s, slot, now, shift)


@kernel
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
    limit = 4 * (1 << shift)
    n, m = slots.size, links.size
    while s.integer[I_CURSOR] < n + m + entering.size:
        if s.integer[I_LEVELS] + limit > s.level_key.size:
            return MORE_LEVELS
        i = s.integer[I_CURSOR]
        if i < n:
            _withdraw(p, s, slots[i], rows[i], leaving, left, now, shift)
        elif i < n + m:
            status = _set_capacity(s, links[i - n], capacities[i - n], shift, limit)
            if status != DONE:
                return status
            if p.low > 0 and s.members[p.low + links[i - n]] > 0:
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


@kernel
def settle_counts(s, now):
    """Count the bytes of all links until now (for a partial or final result)."""
    for link in range(s.used.size):
        if s.used[link] > 0.0:
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


@kernel
def certify(s, shift, use, top, rtol):
    """Prove the present allocation from scratch: nothing of the sweep's sums is used. O(incidences of active flows).

    Parameters
    ----------
    s : State
        Read only.
    shift : int
    use, top : float64 array, shape (l,)
        Scratch, one entry per link.
    rtol : float

    Returns
    -------
    int
        -1: proven; otherwise the task of the first flow without a bottleneck, or on a link above its capacity.
    """
    n = s.integer[I_ACTIVE]
    for i in range(n):
        base = s.heap[i] << shift
        for h in range(base, base + s.hops[s.heap[i]]):
            use[s.hop_link[h]] = 0.0
            top[s.hop_link[h]] = 0.0
    for i in range(n):
        slot = s.heap[i]
        base = slot << shift
        for h in range(base, base + s.hops[slot]):
            link = s.hop_link[h]
            use[link] += s.hop_use[h] * s.rate[slot]
            top[link] = max(top[link], s.rate[slot] / s.flow_weight[slot])
    for i in range(n):
        slot = s.heap[i]
        base = slot << shift
        held = False
        for h in range(base, base + s.hops[slot]):
            link = s.hop_link[h]
            if use[link] > s.capacity[link] * (1.0 + rtol):
                return s.node_task[s.first[slot]]
            if use[link] >= s.capacity[link] * (1.0 - rtol) and s.rate[slot] / s.flow_weight[slot] >= top[link] * (
                1.0 - rtol
            ):
                held = True
        if not held:
            return s.node_task[s.first[slot]]
    return -1
