"""Compiled loops of the routings that search the graph."""

from __future__ import annotations

import numpy as np

from netsim.core.arrays import Float64, Int32, Int64, UInt8
from netsim.core.jit import kernel


@kernel
def mix(word: int) -> int:
    """Scramble 32 bits (two xor-shift-multiply rounds); every product stays below 2**63, so JIT and Python agree."""
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return word ^ (word >> 16)


@kernel
def shortest(
    in_ptr: Int64,
    in_link: Int64,
    out_ptr: Int64,
    out_link: Int64,
    link_src: Int32,
    link_dst: Int32,
    transit: UInt8,
    root: Int64,
    pair_ptr: Int64,
    start: Int64,
    word: Int64,
    salt: Int64,
    spread: bool,
) -> tuple[Int64, Int32]:
    """Shortest paths to each root for its pairs: a breadth-first search from the root, then one walk per pair.

    Parameters
    ----------
    in_ptr, in_link, out_ptr, out_link : int64
        Links by destination and by source vertex, ascending within a vertex. Links out of vertices that neither start
        a path nor forward may be left out of the first.
    link_src, link_dst : int32, shape (n_links,)
    transit : uint8, shape (n_vertices,)
        Vertices that forward.
    root, pair_ptr : int64, shape (n_roots,) and (n_roots + 1,)
        Pairs ``pair_ptr[r] .. pair_ptr[r + 1] - 1`` end at vertex ``root[r]``.
    start : int64, shape (n_pairs,)
        Vertex where each pair starts.
    word, salt : int64, shape (n_pairs,) and (n_vertices,)
        32-bit hashes of the pair and of the vertex; read only if ``spread``.
    spread : bool
        False: take the link with the lowest number. True: take one of the shortest next links by the hash.

    Returns
    -------
    hops : int64, shape (n_pairs,)
        Links of each path; -1 where there is none.
    link : int32, shape (sum of hops,)
        Paths one after the other.

    Notes
    -----
    Time O(n_roots * n_links + total hops * degree), memory O(n_vertices + total hops).
    """
    n = transit.size
    hops = np.empty(start.size, np.int64)
    link = np.empty(max(4 * start.size, 16), np.int32)
    filled = 0
    distance = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    wanted = np.full(n, -1, np.int64)
    for r in range(root.size):
        end = root[r]
        missing = 0
        for i in range(pair_ptr[r], pair_ptr[r + 1]):
            if start[i] != end and wanted[start[i]] != r:
                wanted[start[i]] = r
                missing += 1
        head, tail = 0, 1
        queue[0] = end
        distance[end] = 0
        while head < tail and missing > 0:
            v = queue[head]
            head += 1
            if v != end and transit[v] == 0:
                continue
            for at in range(in_ptr[v], in_ptr[v + 1]):
                u = link_src[in_link[at]]
                if distance[u] < 0:
                    distance[u] = distance[v] + 1
                    queue[tail] = u
                    tail += 1
                    if wanted[u] == r:
                        missing -= 1
        for i in range(pair_ptr[r], pair_ptr[r + 1]):
            v = start[i]
            length = distance[v]
            hops[i] = length
            if length < 0:
                continue
            if filled + length > link.size:
                bigger = np.empty(2 * (filled + length), np.int32)
                bigger[:filled] = link[:filled]
                link = bigger
            for left in range(length - 1, -1, -1):
                choice = 0
                if spread:
                    count = 0
                    for at in range(out_ptr[v], out_ptr[v + 1]):
                        u = link_dst[out_link[at]]
                        if distance[u] == left and (u == end or transit[u] != 0):
                            count += 1
                    choice = mix(word[i] ^ salt[v]) % count
                for at in range(out_ptr[v], out_ptr[v + 1]):
                    u = link_dst[out_link[at]]
                    if distance[u] == left and (u == end or transit[u] != 0):
                        if choice == 0:
                            link[filled] = out_link[at]
                            filled += 1
                            v = u
                            break
                        choice -= 1
        for at in range(tail):
            distance[queue[at]] = -1
    return hops, link[:filled].copy()


@kernel
def spread(
    in_ptr: Int64,
    in_link: Int64,
    out_ptr: Int64,
    out_link: Int64,
    link_src: Int32,
    link_dst: Int32,
    transit: UInt8,
    root: Int64,
    pair_ptr: Int64,
    start: Int64,
    amount: Float64,
) -> tuple[Float64, int]:
    """Load of each link when every vertex splits what it has for a root equally among its shortest next links.

    Parameters are those of `shortest`; ``amount``, float64 of shape (n_pairs,), is what each pair sends.

    Returns
    -------
    load : float64, shape (n_links,)
    lost : int
        The first pair without a path, or -1.

    Notes
    -----
    A search from the root gives distances; the vertices are then emptied in the opposite order, farthest first, so that each
    has received everything before it is emptied. Time O(n_roots * n_links).
    """
    n = transit.size
    load = np.zeros(link_src.size, np.float64)
    distance = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    held = np.zeros(n, np.float64)
    for r in range(root.size):
        end = root[r]
        head, tail = 0, 1
        queue[0] = end
        distance[end] = 0
        while head < tail:
            v = queue[head]
            head += 1
            if v != end and transit[v] == 0:
                continue
            for at in range(in_ptr[v], in_ptr[v + 1]):
                u = link_src[in_link[at]]
                if distance[u] < 0:
                    distance[u] = distance[v] + 1
                    queue[tail] = u
                    tail += 1
        for i in range(pair_ptr[r], pair_ptr[r + 1]):
            if distance[start[i]] < 0:
                return load, i
            held[start[i]] += amount[i]
        for place in range(tail - 1, 0, -1):
            v = queue[place]
            if held[v] > 0.0:
                count = 0
                for at in range(out_ptr[v], out_ptr[v + 1]):
                    u = link_dst[out_link[at]]
                    if distance[u] == distance[v] - 1 and (u == end or transit[u] != 0):
                        count += 1
                part = held[v] / count
                for at in range(out_ptr[v], out_ptr[v + 1]):
                    u = link_dst[out_link[at]]
                    if distance[u] == distance[v] - 1 and (u == end or transit[u] != 0):
                        load[out_link[at]] += part
                        held[u] += part
            held[v] = 0.0
        held[end] = 0.0
        for at in range(tail):
            distance[queue[at]] = -1
    return load, -1


@kernel
def path_cost(ptr: Int64, link: Int32, row: int, first: int, count: Int64, capacity: Float64, rule: int) -> float:
    """What a path costs a flow: see `choose`. From the link at position ``first``; rule 2: minus the rate to expect."""
    if rule == 2:
        least = np.inf
        for at in range(ptr[row], ptr[row + 1]):
            least = min(least, capacity[link[at]] / (count[link[at]] + 1))
        return float(-least)
    begin, end = ptr[row] + first, ptr[row + 1] - 1
    if end <= begin:
        return 0.0
    most = 0.0
    for at in range(begin, end if rule == 1 else begin + 1):
        if capacity[link[at]] <= 0.0:
            return np.inf
        most = max(most, count[link[at]] / capacity[link[at]])
    return float(most * (end - begin))


@kernel
def choose(of: Int64, ptr: Int64, link: Int32, stage: UInt8, capacity: Float64, rule: int) -> Int64:
    """Flow after flow takes its cheapest path, given how many flows took each link before; among equals the first.

    Parameters
    ----------
    of : int64, shape (n_flows + 1,)
        Paths of each flow, the first one minimal.
    ptr, link : int64, int32
        Links of each path.
    stage : uint8, shape (n_paths,)
        1: for a second decision where the first path has won, by the cost of both from position 2 on.
    capacity : float64, shape (n_links,)
    rule : int
        0, 1: hops between switches times the flows per capacity on the first of them, or the fullest. 2: rate to expect, the
        greatest; then fewest links.

    Returns
    -------
    int64, shape (n_flows,)
        Path of each flow.
    """
    count = np.zeros(capacity.size, np.int64)
    choice = np.zeros(of.size - 1, np.int64)
    for i in range(of.size - 1):
        best = of[i]
        cost = path_cost(ptr, link, best, 1, count, capacity, rule)
        for k in range(of[i] + 1, of[i + 1]):
            if stage[k] == 0:
                other = path_cost(ptr, link, k, 1, count, capacity, rule)
                fewer = rule == 2 and ptr[k + 1] - ptr[k] < ptr[best + 1] - ptr[best]
                if other < cost or (other == cost and fewer):
                    best, cost = k, other
        if best == of[i]:
            cost = path_cost(ptr, link, best, 2, count, capacity, rule)
            for k in range(of[i] + 1, of[i + 1]):
                if stage[k] == 1:
                    other = path_cost(ptr, link, k, 2, count, capacity, rule)
                    if other < cost:
                        best, cost = k, other
        choice[i] = best
        for at in range(ptr[best], ptr[best + 1]):
            count[link[at]] += 1
    return choice


@kernel
def before(one: Int32, n_one: int, two: Int32, n_two: int) -> bool:
    """Whether the first path comes before the second: fewer links, then lower numbers."""
    if n_one != n_two:
        return bool(n_one < n_two)
    for at in range(n_one):
        if one[at] != two[at]:
            return bool(one[at] < two[at])
    return False


@kernel
def k_shortest(
    in_ptr: Int64,
    in_link: Int64,
    out_ptr: Int64,
    out_link: Int64,
    link_src: Int32,
    link_dst: Int32,
    transit: UInt8,
    start: Int64,
    end: Int64,
    k: int,
) -> tuple[Int64, Int64, Int32]:
    """The first k paths without a repeated vertex, in the order of `before`, for each pair of different vertices.

    Returns
    -------
    found : int64, shape (n_pairs,)
        Paths of each pair, k or fewer.
    hops : int64, shape (sum of found,)
    link : int32, shape (sum of hops,)

    Notes
    -----
    J. Yen, Management Science 17(11), 1971: each further path leaves an earlier one at some vertex; the best way on from there is found
    by a search that avoids the vertices before it and the links already tried. Only as many candidates are kept as may still
    be needed. Time O(k * hops * n_links) per pair.
    """
    n = transit.size
    found = np.zeros(start.size, np.int64)
    hops = np.empty(start.size * k, np.int64)
    n_paths = 0
    link = np.empty(max(8 * start.size, 64), np.int32)
    filled = 0
    taken, n_taken = np.empty((k, n), np.int32), np.zeros(k, np.int64)
    waiting, n_waiting = np.empty((k + 1, n), np.int32), np.zeros(k + 1, np.int64)
    trial = np.empty(n, np.int32)
    distance, queue = np.full(n, -1, np.int64), np.empty(n, np.int64)
    closed, tried = np.zeros(n, np.uint8), np.zeros(link_src.size, np.uint8)
    for pair in range(start.size):
        have, ready = 0, 0
        while have < k:
            # Ways off the last path; at first there is none, and the one way starts at the start.
            base = have - 1
            length = n_taken[base] if have > 0 else 1
            v = start[pair]
            for off in range(length):
                for p in range(have):
                    same = n_taken[p] > off
                    for at in range(off):
                        if same and taken[p, at] != taken[base, at]:
                            same = False
                    if same:
                        tried[taken[p, off]] = 1
                # Distances to the end, without what is closed; links that were tried leave v only.
                head, tail = 0, 1
                queue[0] = end[pair]
                distance[end[pair]] = 0
                while head < tail and distance[v] < 0:
                    w = queue[head]
                    head += 1
                    if w != end[pair] and transit[w] == 0:
                        continue
                    for at in range(in_ptr[w], in_ptr[w + 1]):
                        u = link_src[in_link[at]]
                        if distance[u] < 0 and closed[u] == 0 and tried[in_link[at]] == 0:
                            distance[u] = distance[w] + 1
                            queue[tail] = u
                            tail += 1
                if distance[v] >= 0:
                    size = off
                    for at in range(off):
                        trial[at] = taken[base, at]
                    here = v
                    while here != end[pair]:
                        for at in range(out_ptr[here], out_ptr[here + 1]):
                            u = link_dst[out_link[at]]
                            if (
                                distance[u] == distance[here] - 1
                                and tried[out_link[at]] == 0
                                and (u == end[pair] or transit[u] != 0)
                            ):
                                trial[size] = out_link[at]
                                size += 1
                                here = u
                                break
                    # Into its place among those waiting, unless it is there already.
                    place = 0
                    while place < ready and before(waiting[place], n_waiting[place], trial, size):
                        place += 1
                    if place < k and (place == ready or before(trial, size, waiting[place], n_waiting[place])):
                        ready = min(ready + 1, k)
                        for at in range(ready - 1, place, -1):
                            waiting[at] = waiting[at - 1]
                            n_waiting[at] = n_waiting[at - 1]
                        waiting[place, :size] = trial[:size]
                        n_waiting[place] = size
                for at in range(tail):
                    distance[queue[at]] = -1
                for p in range(have):
                    if n_taken[p] > off:
                        tried[taken[p, off]] = 0
                if have > 0:
                    closed[v] = 1
                    v = link_dst[taken[base, off]]
            if have > 0:
                for at in range(length):
                    closed[link_src[taken[base, at]]] = 0
            if ready == 0:
                break
            n_taken[have] = n_waiting[0]
            taken[have] = waiting[0]
            have += 1
            ready -= 1
            for at in range(ready):
                waiting[at] = waiting[at + 1]
                n_waiting[at] = n_waiting[at + 1]
        found[pair] = have
        for p in range(have):
            size = n_taken[p]
            if filled + size > link.size:
                bigger = np.empty(2 * (filled + size), np.int32)
                bigger[:filled] = link[:filled]
                link = bigger
            link[filled : filled + size] = taken[p, :size]
            filled += size
            hops[n_paths] = size
            n_paths += 1
    return found, hops[:n_paths].copy(), link[:filled].copy()
