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
def path_cost(ptr: Int64, link: Int32, row: int, first: int, count: Int64, per_unit: Float64, whole: bool) -> float:
    """Hops between switches times the load of the first of them, or of the fullest; from the link at position ``first``."""
    begin, end = ptr[row] + first, ptr[row + 1] - 1
    if end <= begin:
        return 0.0
    most = count[link[begin]] * per_unit[link[begin]]
    if whole:
        for at in range(begin + 1, end):
            most = max(most, count[link[at]] * per_unit[link[at]])
    return float(most * (end - begin))


@kernel
def choose(ptr: Int64, link: Int32, per_unit: Float64, turn: UInt8, candidates: int, whole: bool) -> Int64:
    """Flow after flow takes its cheapest path, given how many flows took each link before.

    Parameters
    ----------
    ptr, link : int64, int32
        Paths of all flows: the minimal ones, then each set of detours; with any ``turn``, as many sets again of detours that leave the
        minimal path after its second link.
    per_unit : float64, shape (n_links,)
        1 over the capacity.
    turn : uint8, shape (n_flows,)
        Flows that decide a second time where they chose the minimal path.
    candidates : int
        Sets of detours.
    whole : bool
        Cost by the fullest link of the path, not the first.

    Returns
    -------
    int64, shape (n_flows,)
        The set of the path taken, 0 for the minimal one.
    """
    n = turn.size
    count = np.zeros(per_unit.size, np.int64)
    choice = np.zeros(n, np.int64)
    for i in range(n):
        best, cost = 0, path_cost(ptr, link, i, 1, count, per_unit, whole)
        for k in range(1, candidates + 1):
            other = path_cost(ptr, link, k * n + i, 1, count, per_unit, whole)
            if other < cost:
                best, cost = k, other
        if best == 0 and turn[i] != 0:
            cost = path_cost(ptr, link, i, 2, count, per_unit, whole)
            for k in range(candidates + 1, 2 * candidates + 1):
                other = path_cost(ptr, link, k * n + i, 2, count, per_unit, whole)
                if other < cost:
                    best, cost = k, other
        choice[i] = best
        row = best * n + i
        for at in range(ptr[row], ptr[row + 1]):
            count[link[at]] += 1
    return choice
