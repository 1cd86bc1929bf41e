"""Compiled loops of the optics: distances, loads over all shortest paths, and the lazy greedy choice of circuits."""

from __future__ import annotations

import numpy as np

from netsim.core.jit import kernel


@kernel
def hop_distances(ptr, head, n):
    """Hops between all switches by breadth-first search: int16, shape (n, n), row = source; -1 where there is no path.

    Parameters
    ----------
    ptr, head : int64, shapes (n + 1,) and (arcs,)
        Arcs by source switch.
    """
    distance = np.full((n, n), -1, np.int16)
    queue = np.empty(n, np.int64)
    for source in range(n):
        row = distance[source]
        row[source] = 0
        queue[0] = source
        first, last = 0, 1
        while first < last:
            v = queue[first]
            first += 1
            for at in range(ptr[v], ptr[v + 1]):
                w = head[at]
                if row[w] < 0:
                    row[w] = row[v] + 1
                    queue[last] = w
                    last += 1
    return distance


@kernel
def shortest_loads(ptr, head, n, source, demand_ptr, demand_to, demand_bytes):
    """Load of each arc when every pair's bytes spread evenly over all its shortest paths; parallel arcs count as paths of their own.

    One search forward and one sum backward per source (Brandes, J. Math. Sociology 25(2), 2001, with demands as weights).

    Parameters
    ----------
    ptr, head : int64
        Arcs by source switch; loads come in this order.
    source : int64, shape (k,)
        Sources with demand; those of ``demand_ptr`` rows.
    demand_ptr, demand_to, demand_bytes : CSR over ``source``

    Returns
    -------
    load : float64, shape (arcs,)
    lost : int
        A row of demand whose ends are not joined, or -1.
    """
    load = np.zeros(head.size)
    level = np.full(n, -1, np.int32)
    paths = np.zeros(n)
    through = np.zeros(n)
    queue = np.empty(n, np.int64)
    # Arcs of the shortest paths, in the order in which the search met them; the sum runs over them backward.
    arc = np.empty(head.size, np.int64)
    tail = np.empty(head.size, np.int64)
    for row in range(source.size):
        s = source[row]
        missing = 0
        for at in range(demand_ptr[row], demand_ptr[row + 1]):
            if demand_to[at] != s and demand_bytes[at] > 0.0:
                if through[demand_to[at]] == 0.0:
                    missing += 1
                through[demand_to[at]] += demand_bytes[at]
        if missing == 0:
            continue
        level[s] = 0
        paths[s] = 1.0
        queue[0] = s
        first, last, met = 0, 1, 0
        deepest = -1
        while first < last:
            v = queue[first]
            if missing == 0 and level[v] >= deepest:
                # All ends are found, and all paths to them.
                break
            first += 1
            for at in range(ptr[v], ptr[v + 1]):
                w = head[at]
                if level[w] < 0:
                    level[w] = level[v] + 1
                    queue[last] = w
                    last += 1
                    if through[w] > 0.0:
                        missing -= 1
                        deepest = level[w]
                if level[w] == level[v] + 1:
                    paths[w] += paths[v]
                    arc[met] = at
                    tail[met] = v
                    met += 1
        for at in range(demand_ptr[row], demand_ptr[row + 1]):
            if level[demand_to[at]] < 0 and demand_bytes[at] > 0.0:
                return load, at
        for i in range(met - 1, -1, -1):
            at = arc[i]
            w = head[at]
            if through[w] > 0.0:
                v = tail[i]
                part = through[w] * (paths[v] / paths[w])
                load[at] += part
                through[v] += part
        for i in range(last):
            v = queue[i]
            level[v] = -1
            paths[v] = 0.0
            through[v] = 0.0
    return load, np.int64(-1)


@kernel
def path_prices(ptr, head, n, price, distance):
    """Mean over all shortest paths of the sum of the prices of their arcs: float32, shape (n, n); inf where there is no path.

    The mean path price obeys, over the arcs (v, w) that end shortest paths to w: P(w) = sum of sigma_v / sigma_w (P(v) + price).
    """
    result = np.full((n, n), np.inf, np.float32)
    paths = np.zeros(n)
    mean = np.zeros(n)
    queue = np.empty(n, np.int64)
    for s in range(n):
        row = distance[s]
        paths[:] = 0.0
        mean[:] = 0.0
        paths[s] = 1.0
        queue[0] = s
        first, last = 0, 1
        while first < last:
            v = queue[first]
            first += 1
            if v != s:
                mean[v] /= paths[v]
            for at in range(ptr[v], ptr[v + 1]):
                w = head[at]
                if row[w] == row[v] + 1:
                    if paths[w] == 0.0:
                        queue[last] = w
                        last += 1
                    paths[w] += paths[v]
                    mean[w] += paths[v] * (mean[v] + price[at])
        for i in range(last):
            result[s, queue[i]] = mean[queue[i]]
    return result


@kernel
def _over(there, cost, u, v, x, y):
    """Price of u to v over the circuit from x to y, ``there`` being that up to its far end; 0 for the pair that it joins."""
    if u == x and v == y:
        return np.float32(0.0)
    return there + cost[y, v]


@kernel
def _improvement(x, y, both, cost, hop, ptr, to, size, now, sources, part, apply):
    """Bytes moved by circuit (x, y) and what they save, over all pairs that would use it.

    cost[u, v] : price of the electrical path; hop : price of crossing the circuit, 0 for the pair that it joins; now : present price of
    each pair. With ``apply``, ``part`` of each pair's bytes moves: its price becomes the mean.
    """
    saved = 0.0
    moved = 0.0
    for i in range(sources.size):
        u = sources[i]
        there = cost[u, x] + hop
        back = cost[u, y] + hop if both else np.float32(np.inf)
        at_end = u == x or (both and u == y)
        for at in range(ptr[u], ptr[u + 1]):
            old = now[at]
            if old <= there and old <= back and not at_end:
                continue
            v = to[at]
            new = _over(there, cost, u, v, x, y)
            if both:
                other = _over(back, cost, u, v, y, x)
                if other < new:
                    new = other
            if new < old:
                saved += size[at] * (old - new)
                moved += size[at]
                if apply:
                    now[at] = old - part * (old - new)
    return saved, moved


@kernel
def _reach(x, y, both, cost_in, hop, longest, sources, found):
    """The sources that the circuit may help: those nearer to its entry than the dearest pair they have."""
    n = 0
    row_x = cost_in[x]
    row_y = cost_in[y]
    for i in range(sources.size):
        u = sources[i]
        if u == x or row_x[u] + hop < longest[u] or (both and (u == y or row_y[u] + hop < longest[u])):
            found[n] = u
            n += 1
    return n


@kernel
def revenues(a, b, both, cost, cost_in, hop, ptr, to, size, now, sources, longest):
    """What each candidate would save now and the bytes it would carry: two float64 arrays, shape (candidates,)."""
    saved = np.empty(a.size)
    moved = np.empty(a.size)
    found = np.empty(sources.size, np.int64)
    for c in range(a.size):
        n = _reach(a[c], b[c], both, cost_in, hop, longest, sources, found)
        saved[c], moved[c] = _improvement(a[c], b[c], both, cost, hop, ptr, to, size, now, found[:n], 0.0, False)
    return saved, moved


@kernel
def _sift(key, item, start, n):
    """Move one entry down a heap of largest keys; equal keys: the lower item first."""
    i = start
    k, v = key[i], item[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (
            key[child + 1] > key[child] or (key[child + 1] == key[child] and item[child + 1] < item[child])
        ):
            child += 1
        if key[child] > k or (key[child] == k and item[child] < v):
            key[i], item[i] = key[child], item[child]
            i = child
        else:
            break
    key[i], item[i] = k, v


@kernel
def lazy_greedy(
    a, b, both, bound, free_out, free_in, room, most, cost, cost_in, hop, ptr, to, size, now, sources, longest
):
    """Choose circuits by falling revenue until ports, candidates, revenue or ``most`` run out.

    ``bound`` holds revenues that are at least the true ones. Revenues only fall while circuits are added (they are submodular as
    long as nothing is cut off by ``room``), so a revenue that was found anew and still leads is the largest. Charging a candidate with
    the prices that fell since it was last looked at, instead of looking anew, was tried: a thirtieth of the looks, and as slow, since
    most pairs have fallen by then.

    Parameters
    ----------
    a, b : int64, shape (candidates,)
    both : bool
        Circuits carry both ways and take one port at each end: ``free_out`` is used for both, ``free_in`` is ignored.
    bound : float64, shape (candidates,)
    free_out, free_in : int64, shape (n,)
        Free ports; written.
    room : float64, shape (candidates,)
        Bytes that each circuit can carry; a circuit that would carry more takes that part of each pair.
    now : float32, shape (demands,)
        Present price of each pair; written.

    Returns
    -------
    chosen : int64; revenue, moved : float64
        Candidates in the order of choice, what each saved, the bytes it took.
    evaluations : int
    """
    n = a.size
    key = bound.copy()
    item = np.arange(n)
    for i in range(n // 2 - 1, -1, -1):
        _sift(key, item, i, n)
    # When each candidate was last looked at, and the bytes it would have moved then.
    fresh = np.full(n, -1, np.int64)
    would_move = np.empty(n)
    chosen = np.empty(n, np.int64)
    revenue = np.empty(n)
    carried = np.empty(n)
    found = np.empty(sources.size, np.int64)
    count = 0
    evaluations = 0
    while n > 0 and count < most:
        c = item[0]
        x, y = a[c], b[c]
        open_ports = free_out[x] > 0 and (free_out[y] > 0 if both else free_in[y] > 0)
        if open_ports and key[0] > 0.0 and fresh[c] != count:
            reached = _reach(x, y, both, cost_in, hop, longest, sources, found)
            saved, moved = _improvement(x, y, both, cost, hop, ptr, to, size, now, found[:reached], 0.0, False)
            evaluations += 1
            would_move[c] = moved
            part = min(1.0, room[c] / moved) if moved > 0.0 else 1.0
            key[0] = saved * part
            fresh[c] = count
            if key[0] > 0.0:
                _sift(key, item, 0, n)
                continue
        if open_ports and key[0] > 0.0:
            reached = _reach(x, y, both, cost_in, hop, longest, sources, found)
            part = min(1.0, room[c] / would_move[c])
            saved, moved = _improvement(x, y, both, cost, hop, ptr, to, size, now, found[:reached], part, True)
            free_out[x] -= 1
            if both:
                free_out[y] -= 1
            else:
                free_in[y] -= 1
            chosen[count] = c
            revenue[count] = saved * part
            carried[count] = moved * part
            count += 1
            if part < 1.0:
                # There is more for a second circuit beside it: it stays a candidate.
                key[0] = saved - saved * part
                _sift(key, item, 0, n)
                continue
        n -= 1
        key[0], item[0] = key[n], item[n]
        if n > 0:
            _sift(key, item, 0, n)
    return chosen[:count].copy(), revenue[:count].copy(), carried[:count].copy(), evaluations


@kernel
def best_circuits(a, b, cost, cost_in, hop, ptr, to, sources, longest, now):
    """The cheapest way of each pair over at most one circuit.

    ``now`` (float32, shape (demands,)) is the electrical price before and the best price after.

    Returns
    -------
    ways : int32, shape (demands,)
        How many circuits give that price; 0 where the electrical path is as cheap.
    """
    ways = np.zeros(now.size, np.int32)
    found = np.empty(sources.size, np.int64)
    for c in range(a.size):
        x, y = a[c], b[c]
        n = _reach(x, y, False, cost_in, hop, longest, sources, found)
        for i in range(n):
            u = found[i]
            there = cost[u, x] + hop
            for at in range(ptr[u], ptr[u + 1]):
                new = _over(there, cost, u, to[at], x, y)
                if new < now[at]:
                    now[at] = new
                    ways[at] = 1
                elif new == now[at] and ways[at] > 0:
                    ways[at] += 1
    return ways


@kernel
def over_circuits(a, b, part, cost, cost_in, hop, ptr, to, size, sources, longest, now, ways, moved):
    """Divide each pair's bytes evenly over its best circuits; of what a circuit is offered it takes ``part``.

    Parameters
    ----------
    moved : float64, shape (n, n)
        Written: bytes between the ends of the electrical ways that remain, to and from the circuits included.

    Returns
    -------
    offered : float64, shape (circuits,)
    """
    offered = np.zeros(a.size)
    found = np.empty(sources.size, np.int64)
    for c in range(a.size):
        x, y = a[c], b[c]
        n = _reach(x, y, False, cost_in, hop, longest, sources, found)
        for i in range(n):
            u = found[i]
            there = cost[u, x] + hop
            for at in range(ptr[u], ptr[u + 1]):
                v = to[at]
                new = _over(there, cost, u, v, x, y)
                if ways[at] > 0 and new == now[at]:
                    share = size[at] / ways[at]
                    offered[c] += share
                    share *= part[c]
                    moved[u, v] -= share
                    moved[u, x] += share
                    moved[y, v] += share
    return offered
