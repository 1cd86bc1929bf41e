"""Coflows: groups of flows that are done when the last one is, their text format, and lower bounds on their completion times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Float64, Int64, csr_ptr, frozen
from netsim.core.errors import InputError
from netsim.core.text import count

__all__ = ["Coflows", "circuit_bound_s", "cores_bound_s", "packet_bound_s", "parse_coflows", "read_coflows"]

# The format counts in units of a million bytes, and a flow in it is never smaller than one.
BYTES_PER_MB = 1e6
MOST_PORTS = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Coflows:
    """Coflows in CSR: flows of coflow ``m`` are ``ptr[m]`` to ``ptr[m + 1]``, sorted by source and destination, one for each pair.

    Attributes
    ----------
    n_ports : int
        Sending ports, and as many receiving ports; port ``p`` sends and receives apart.
    ptr : int64 array, shape (m + 1,)
    source, destination : int64 array, shape (flows,)
    size_bytes : float64 array, shape (flows,)
        Above 0.
    arrival_s, weight : float64 array, shape (m,)
    label : int64 array, shape (m,)
        What the file calls them.
    notes : tuple of str
        What was left out while reading.
    """

    n_ports: int
    ptr: Int64
    source: Int64
    destination: Int64
    size_bytes: Float64
    arrival_s: Float64
    weight: Float64
    label: Int64
    notes: tuple[str, ...] = ()

    @classmethod
    def of_flows(
        cls,
        rows: npt.ArrayLike,
        *,
        n_ports: int | None = None,
        arrival_s: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        label: npt.ArrayLike | None = None,
        n_coflows: int | None = None,
        notes: Sequence[str] = (),
    ) -> Coflows:
        """From rows (coflow, source port, destination port, bytes); rows of one pair in one coflow are added up.

        Parameters
        ----------
        rows : array_like of float, shape (flows, 4)
        n_ports : int, optional
            By default one more than the highest port.
        arrival_s, weight : array_like of float, shape (m,), optional
            By default 0 seconds and 1.
        label : array_like of int, shape (m,), optional
        n_coflows : int, optional
            By default as many as ``arrival_s`` or ``weight`` has, or one more than the highest coflow.
        notes : sequence of str

        Raises
        ------
        InputError
            Ports or coflows out of range, sizes that are negative or not finite, arrivals below 0, weights that are not above 0.

        Examples
        --------
        >>> both = Coflows.of_flows([(0, 0, 1, 5), (1, 0, 0, 2), (0, 0, 1, 3)])
        >>> both, both.size_bytes.tolist()
        (<Coflows: 2 coflows, 2 flows, 2 ports>, [8.0, 2.0])
        """
        table = np.asarray(rows, dtype=np.float64).reshape(-1, 4)
        bad = np.flatnonzero(~(np.isfinite(table).all(axis=1) & (table >= 0).all(axis=1)))
        if bad.size:
            raise InputError(f"flow {bad[0]}", "must have finite numbers of 0 or more", got=table[bad[0]].tolist())
        bad = np.flatnonzero((table[:, :3] != np.floor(table[:, :3])).any(axis=1))
        if bad.size:
            raise InputError(f"flow {bad[0]}", "coflow and ports must be whole numbers", got=table[bad[0], :3].tolist())
        ends = table[:, :3].astype(np.int64)
        size = table[:, 3]
        sizes = [np.size(x) for x in (arrival_s, weight, label) if x is not None]
        m = n_coflows if n_coflows is not None else (sizes[0] if sizes else int(ends[:, 0].max(initial=-1)) + 1)
        n = int(ends[:, 1:].max(initial=-1)) + 1 if n_ports is None else int(n_ports)
        if n > MOST_PORTS:
            raise InputError("ports", f"must be {MOST_PORTS:,} or fewer", got=n)
        for what, column, limit in (("coflow", ends[:, :1], m), ("port", ends[:, 1:], n)):
            over = np.flatnonzero((column >= limit).any(axis=1))
            if over.size:
                raise InputError(f"flow {over[0]}", f"must have a {what} below {limit}", got=int(column[over[0]].max()))
        key, row = np.unique((ends[:, 0] * n + ends[:, 1]) * n + ends[:, 2], return_inverse=True)
        total = np.bincount(row, weights=size, minlength=key.size).astype(np.float64)
        key, total = key[total > 0], total[total > 0]
        arrival = np.zeros(m) if arrival_s is None else np.asarray(arrival_s, dtype=np.float64)
        weights = np.ones(m) if weight is None else np.asarray(weight, dtype=np.float64)
        labels = np.arange(m) if label is None else np.asarray(label, dtype=np.int64)
        for what, values, good in (
            ("arrival", arrival, np.isfinite(arrival) & (arrival >= 0)),
            ("weight", weights, np.isfinite(weights) & (weights > 0)),
            ("label", labels, np.ones(labels.shape, dtype=bool)),
        ):
            if values.shape != (m,):
                raise InputError(what, f"must be one for each of {count(m, 'coflow')}", got=f"shape {values.shape}")
            if not good.all():
                i = int(np.flatnonzero(~good)[0])
                rule = "must be finite and above 0" if what == "weight" else "must be finite and 0 or more seconds"
                raise InputError(f"{what} of coflow {i}", rule, got=float(values[i]))
        return cls(
            n_ports=n,
            ptr=frozen(csr_ptr(np.bincount(key // max(n * n, 1), minlength=m)), np.int64),
            source=frozen(key // max(n, 1) % max(n, 1), np.int64),
            destination=frozen(key % max(n, 1), np.int64),
            size_bytes=frozen(total, np.float64),
            arrival_s=frozen(arrival, np.float64),
            weight=frozen(weights, np.float64),
            label=frozen(labels, np.int64),
            notes=tuple(notes),
        )

    def __repr__(self) -> str:
        return (
            f"<Coflows: {count(len(self), 'coflow')}, {count(self.source.size, 'flow')}, {count(self.n_ports, 'port')}>"
        )

    def __len__(self) -> int:
        return int(self.ptr.size - 1)

    @property
    def coflow(self) -> Int64:
        """Coflow of each flow, int64, shape (flows,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def flows(self, m: int) -> Int64:
        """Numbers of the flows of a coflow."""
        return np.arange(self.ptr[m], self.ptr[m + 1])

    def loads(self) -> tuple[Float64, Float64]:
        """Bytes and flows of each coflow at each port, float64, shape (m, 2 n_ports): those that send, then those that receive."""
        shape = (len(self), 2 * self.n_ports)
        out = self.coflow * shape[1] + self.source
        into = self.coflow * shape[1] + self.n_ports + self.destination
        cell = np.concatenate([out, into])
        length = shape[0] * shape[1]
        size = np.bincount(cell, weights=np.tile(self.size_bytes, 2), minlength=length)
        return size.reshape(shape).astype(np.float64), np.bincount(cell, minlength=length).reshape(shape).astype(
            np.float64
        )

    def dense(self, m: int) -> Float64:
        """Bytes of one coflow as a matrix, shape (n_ports, n_ports)."""
        matrix = np.zeros((self.n_ports, self.n_ports))
        at = self.flows(m)
        matrix[self.source[at], self.destination[at]] = self.size_bytes[at]
        return matrix


def packet_bound_s(coflows: Coflows, *, capacity_bytes_per_s: float) -> Float64:
    """Bytes of the fullest port over its capacity, in seconds, shape (m,): no switch of any kind is faster.

    >>> packet_bound_s(Coflows.of_flows([(0, 0, 0, 3), (0, 0, 1, 1)]), capacity_bytes_per_s=2.0).tolist()
    [2.0]
    """
    size, _ = coflows.loads()
    bound: Float64 = size.max(axis=1, initial=0.0) / capacity_bytes_per_s
    return bound


def circuit_bound_s(coflows: Coflows, *, capacity_bytes_per_s: float, delay_s: float) -> Float64:
    """Bound for one circuit switch on which only circuits that change are dark, in seconds, shape (m,).

    Bytes and set-ups of the fullest port: each flow takes at least one set-up at both its ports (Huang, Sun and Ng, CoNEXT 2016).

    >>> circuit_bound_s(Coflows.of_flows([(0, 0, 0, 3), (0, 0, 1, 1)]), capacity_bytes_per_s=2.0, delay_s=0.5).tolist()
    [3.0]
    """
    size, flows = coflows.loads()
    bound: Float64 = (size / capacity_bytes_per_s + delay_s * flows).max(axis=1, initial=0.0)
    return bound


def cores_bound_s(coflows: Coflows, *, capacity_bytes_per_s: npt.ArrayLike, delay_s: float) -> Float64:
    """Bound for circuit switches side by side, each flow on one of them, in seconds, shape (m,).

    With rates r_k: core k is busy at port p for at least L_kp / r_k + delay x n_kp; times r_k and summed over cores that gives the first
    part, the largest flow on the fastest core the second. The smaller of rate r_min x delay per flow is what any core loses at least.

    Parameters
    ----------
    coflows : Coflows
    capacity_bytes_per_s : array_like of float, shape (cores,)
    delay_s : float

    Examples
    --------
    >>> cores_bound_s(Coflows.of_flows([(0, 0, 0, 3), (0, 0, 1, 1)]), capacity_bytes_per_s=[1.0, 1.0], delay_s=0.5).tolist()
    [3.5]
    """
    rate = np.asarray(capacity_bytes_per_s, dtype=np.float64).ravel()
    size, flows = coflows.loads()
    shared = ((size + delay_s * rate.min() * flows) / rate.sum()).max(axis=1, initial=0.0)
    largest = np.zeros(len(coflows))
    np.maximum.at(largest, coflows.coflow, coflows.size_bytes / rate.max() + delay_s)
    bound: Float64 = np.maximum(shared, largest)
    return bound


def parse_coflows(lines: Iterable[str], *, name: str = "coflows", keep_local: bool = False) -> Coflows:
    """Coflows from the text format of the coflow benchmark of Chowdhury et al. (Varys, SIGCOMM 2014).

    The first line has the number of ports and of coflows, each other line ``id arrival_ms M m_1 .. m_M R r_1:MB_1 .. r_R:MB_R``: what a
    reducer receives in MB (10^6 bytes) comes from all mappers in equal parts. Ports count from 0 or from 1: from 1 if the highest is
    the number of ports. A seventh kind of word, ``w=NUMBER`` at the end of a line, is a weight (an addition of netsim).

    Parameters
    ----------
    lines : iterable of str
        Empty lines and those that begin with ``#`` are passed over.
    name : str
        For messages.
    keep_local : bool
        Flows from a port to itself stay on the machine and are dropped and counted in the notes; True keeps them.

    Raises
    ------
    InputError
        Anything that is not of this form; the line is named.

    Examples
    --------
    >>> found = parse_coflows(["3 1", "7 20 2 0 1 1 2:4.0"])
    >>> found, found.arrival_s.tolist(), found.size_bytes.tolist()
    (<Coflows: 1 coflow, 2 flows, 3 ports>, [0.02], [2000000.0, 2000000.0])
    """
    numbered = [(i, line.split()) for i, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"]
    if not numbered:
        raise InputError(name, "must begin with a line of two numbers, ports and coflows", got="no lines")
    first, head = numbered[0]
    n, m = (
        (_whole(word, f"{name}, line {first}", "ports and coflows") for word in head)
        if len(head) == 2
        else (None, None)
    )
    if n is None or m is None:
        raise InputError(f"{name}, line {first}", "must have two numbers, ports and coflows", got=repr(" ".join(head)))
    if not 1 <= n <= MOST_PORTS:
        raise InputError(f"{name}, line {first}", f"must have 1 to {MOST_PORTS:,} ports", got=n)
    if m != len(numbered) - 1:
        raise InputError(
            f"{name}, line {first}", f"says there are {count(m, 'coflow')}", got=count(len(numbered) - 1, "line")
        )
    parsed = [_coflow(words, f"{name}, line {number}") for number, words in numbered[1:]]
    highest = max((max(p) for _, _, _, *ports, _ in parsed for p in ports if p), default=0)
    lowest = min((min(p) for _, _, _, *ports, _ in parsed for p in ports if p), default=0)
    base = 1 if highest == n and lowest >= 1 else 0
    if highest - base >= n:
        raise InputError(name, f"must have ports from 0 to {n - 1}, or from 1 to {n}", got=f"{lowest} to {highest}")
    rows: list[tuple[int, int, int, float]] = []
    local = 0
    for i, (_, _, _, mappers, reducers, sizes) in enumerate(parsed):
        for r, megabytes in zip(reducers, sizes, strict=True):
            for s in mappers:
                if s == r and not keep_local:
                    local += 1
                    continue
                rows.append((i, s - base, r - base, megabytes * BYTES_PER_MB / len(mappers)))
    notes = [f"{count(local, 'flow')} from a port to itself left out"] if local else []
    return Coflows.of_flows(
        np.array(rows, dtype=np.float64).reshape(-1, 4),
        n_ports=n,
        n_coflows=m,
        arrival_s=[p[1] for p in parsed],
        weight=[p[2] for p in parsed],
        label=[p[0] for p in parsed],
        notes=notes,
    )


def read_coflows(path: str | PathLike[str], *, keep_local: bool = False) -> Coflows:
    """Coflows from a file; see `parse_coflows`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(str(path), "must be a text file of coflows", got="bytes that are no text") from None
    return parse_coflows(text.splitlines(), name=str(path), keep_local=keep_local)


def _whole(word: str, subject: str, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise InputError(subject, f"{what} must be whole numbers", got=repr(word)) from None


def _number(word: str, subject: str, what: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = np.nan
    if not (np.isfinite(value) and value >= 0):
        raise InputError(subject, f"{what} must be a number, finite and 0 or more", got=repr(word))
    return value


def _coflow(words: list[str], subject: str) -> tuple[int, float, float, list[int], list[int], list[float]]:
    form = "must be 'id arrival_ms M m_1 .. m_M R r_1:MB .. r_R:MB'"
    weight = 1.0
    if words[-1].startswith("w="):
        weight = _number(words[-1][2:], subject, "weight")
        words = words[:-1]
    if len(words) < 3:
        raise InputError(subject, form, got=repr(" ".join(words)))
    label = _whole(words[0], subject, "id")
    arrival_s = _number(words[1], subject, "arrival_ms") / 1e3
    m = _whole(words[2], subject, "the number of mappers")
    if m < 1 or len(words) < 4 + m:
        raise InputError(subject, f"{form}, with at least one mapper", got=f"M = {m} and {count(len(words), 'word')}")
    mappers = [_whole(word, subject, "mappers") for word in words[3 : 3 + m]]
    r = _whole(words[3 + m], subject, "the number of reducers")
    rest = words[4 + m :]
    if r != len(rest):
        raise InputError(subject, form, got=f"R = {r} and {count(len(rest), 'reducer')}")
    reducers, sizes = [], []
    for word in rest:
        port, colon, megabytes = word.partition(":")
        if not colon:
            raise InputError(subject, "a reducer must be port:MB", got=repr(word))
        reducers.append(_whole(port, subject, "reducers"))
        sizes.append(_number(megabytes, subject, "MB of a reducer"))
    for what, ports in (("mapper", mappers), ("reducer", reducers)):
        if min(ports, default=0) < 0:
            raise InputError(subject, f"a {what} must be 0 or more", got=min(ports))
        if len(set(ports)) != len(ports):
            twice = next(p for p in ports if ports.count(p) > 1)
            raise InputError(subject, f"a {what} must be named once", got=f"{twice} twice")
    return label, arrival_s, weight, mappers, reducers, sizes
