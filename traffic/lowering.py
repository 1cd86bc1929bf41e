"""From a trace to a task graph: program order, matching, message protocol and collective algorithms become tasks and edges.

Each (rank, stream) is a chain. Before every call stands a delay, its local work; the end of that delay is the entry to the call.
The next delay starts when the call lets the rank go on: at once if it is non-blocking, else when it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64, csr_gather, frozen
from netsim.core.errors import InputError
from netsim.traces.trace import Trace
from netsim.traffic.assembly import Assembly
from netsim.traffic.calls import collective_calls
from netsim.traffic.choice import chooser
from netsim.traffic.collectives import build, steady_flows
from netsim.traffic.expand import Template, make_template, steady_template
from netsim.traffic.instances import Instances, find_instances
from netsim.traffic.messages import Messages, lower_messages
from netsim.traffic.moments import Moments
from netsim.traffic.notes import Note, NoteBook
from netsim.traffic.program import Gaps, Program, read_program
from netsim.traffic.protocol import Protocol
from netsim.traffic.taskgraph import AFTER_END, AFTER_START, TRANSFER, TaskGraph

__all__ = ["Lowered", "lower"]

_EXACT_NS = 2**53
_MOST_BYTES = 2.0**63
_NO_TIME_OPS = {
    "put": "one-sided",
    "get": "one-sided",
    "acc": "one-sided",
    "fence": "one-sided",
    "lock": "one-sided",
    "unlock": "one-sided",
    "flush": "one-sided",
    "post": "one-sided",
    "start": "one-sided",
    "complete": "one-sided",
    "comm_create": "communicator management",
    "comm_free": "communicator management",
    "probe": "probe",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Lowered:
    """A task graph and how it hangs together with the trace.

    Attributes
    ----------
    graph : TaskGraph
        ``graph.op`` is the row of the trace each task came from.
    op_enter : int64 array, shape (n_rows,)
        Task whose END is the moment the call was entered.
    op_leave : int64 array, shape (n_rows,)
        Task whose START is the moment the call let its rank go on.
    messages : Messages
        Sends and receives that belong together (empty for flows and matrices).
    algorithms : mapping of str to int
        Collective algorithms used, ``operation/name``, and how many calls used them.
    notes : tuple of Note
        Every approximation, default and oddity, counted.
    wire_bytes, local_bytes : int
        Bytes of all transfers between different ranks, and from a rank to itself. A member's own block in a collective is never
        sent and counts as neither.
    """

    graph: TaskGraph
    op_enter: Int64
    op_leave: Int64
    messages: Messages
    algorithms: Mapping[str, int]
    notes: tuple[Note, ...]
    wire_bytes: int
    local_bytes: int

    def count(self, kind: str) -> int:
        """Count of the note of this kind; 0 if there is none."""
        return sum(note.count for note in self.notes if note.kind == kind)


def lower(
    trace: Trace,
    *,
    protocol: Protocol | None = None,
    collectives: str | Mapping[str, str] = "mpich",
    gaps: Gaps = "auto",
    compute_scale: float = 1.0,
    flops_per_s: float | None = None,
    allow_incomplete: bool = False,
    steady_collectives: bool = False,
) -> Lowered:
    """Turn a trace into the tasks that replay it.

    Parameters
    ----------
    trace : Trace
        Of any profile. ``ops``: calls with program order; ``flows``: each flow is released at its recorded time; ``matrix``: one
        transfer per entry, all at time 0.
    protocol : Protocol, optional
        Eager limit, overheads, handshake.
    collectives : str or mapping of str to str
        Name of a rule set (``"mpich"``, ``"openmpi"``, ...), or operation -> algorithm, for example
        ``{"allreduce": "ring", "rules": "openmpi"}``: operations that are left out follow the rule set under ``rules``
        (``"mpich"`` unless given). What is said for ``allgather`` also holds for its irregular form, where the algorithm serves it.
    gaps : {"auto", "recorded", "none"}
        Local work between calls: ``auto`` uses it unless the recording was oversubscribed and its clock counted waiting.
    compute_scale : float
        Factor on local work: 0.5 is a processor twice as fast.
    flops_per_s : float, optional
        Speed of a rank, for traces that record work instead of time.
    allow_incomplete : bool
        Drop, on each communicator, everything from the first inconsistent collective on, instead of refusing the trace.
    steady_collectives : bool
        Bulk mode: rings and pairwise exchanges move all bytes of a pair as one flow instead of step by step; see
        `netsim.traffic.collectives.Steady`. Exact on a non-blocking star; the notes count what was so replayed, and what was not.

    Returns
    -------
    Lowered

    Raises
    ------
    InputError
        Inconsistent collectives, contradicting sizes, a cycle in the recorded dependencies, work without a speed.

    Notes
    -----
    Matching is first in, first out per (communicator, source, destination, tag); wildcards match as recorded. What cannot finish
    (an unmatched receive, a rendezvous send that nothing takes) waits for a transfer with an edge to itself, so that
    the engine's report can name it. Receive overheads are charged by the completing call in the order in which it names
    its requests; non-blocking collectives progress by themselves.
    Communicator management, probes and one-sided calls take no time and are counted in the notes.

    Examples
    --------
    >>> trace = Trace.from_rows(n_ranks=2, rows=[
    ...     {"rank": 0, "op": "send", "peer": 1, "tag": 7, "bytes": 1000},
    ...     {"rank": 1, "op": "recv", "peer": 0, "tag": 7, "bytes": 1000},
    ... ])
    >>> lowered = lower(trace)
    >>> lowered.graph.n_transfers, lowered.wire_bytes, lowered.notes
    (1, 1000, ())
    """
    notes = NoteBook()
    protocol = protocol or Protocol()
    if trace.profile == "flows":
        return _lower_flows(trace, notes)
    if trace.profile == "matrix":
        return _lower_matrix(trace, notes)
    program = read_program(trace, gaps=gaps, compute_scale=compute_scale, flops_per_s=flops_per_s, notes=notes)
    instances = find_instances(program, trace.comms, allow_incomplete=allow_incomplete, notes=notes)
    n = program.n
    parts = Assembly()
    rows = np.arange(n, dtype=np.int64)
    entered = parts.delays(rank=program.rank, seconds=program.gap_s, op=rows)
    done, release = Moments.at_end_of(entered), Moments.at_end_of(entered)
    messages, covered = lower_messages(
        program=program,
        instances=instances,
        protocol=protocol,
        parts=parts,
        entered=entered,
        done=done,
        release=release,
        notes=notes,
    )
    algorithms = _lower_collectives(
        trace=trace,
        program=program,
        instances=instances,
        protocol=protocol,
        rules=collectives,
        parts=parts,
        entered=entered,
        done=done,
        release=release,
        notes=notes,
        steady=steady_collectives,
    )
    op_leave = _chain(program, parts, entered, done, release, covered)
    for name, why in _NO_TIME_OPS.items():
        notes.add(f"no_time_{name}", int(np.count_nonzero(program.is_op(name))), f"{name} calls ({why}): take no time")
    return _finish(trace, parts, entered, op_leave, messages, algorithms, notes)


def _chain(
    program: Program,
    parts: Assembly,
    entered: Int64,
    done: Moments,
    release: Moments,
    covered: npt.NDArray[np.bool_],
) -> Int64:
    """Tie the calls of each stream together; returns the task at whose start each call lets go."""
    n = program.n
    held = np.zeros(n, dtype=bool)
    held[program.dep_row[~program.completion[program.dep_row]]] = True
    held[program.start_row] = True
    # The next call's delay marks the moment of letting go, unless it waits for something else as well.
    follower = np.zeros(n, dtype=bool)
    follower[:-1] = program.chained[1:] & ~held[1:]
    leave = np.arange(1, n + 1, dtype=np.int64)
    ends = np.flatnonzero(~follower)
    leave[ends] = parts.delays(rank=program.rank[ends], seconds=0.0, op=ends)
    parts.edges(release.task, leave, release.after)
    chained_but_held = np.flatnonzero(program.chained & held)
    parts.edges(leave[chained_but_held - 1], entered[chained_but_held])
    # A wait that is done is a wait that let go.
    waits = np.flatnonzero(program.completion)
    done.put(waits, leave[waits], AFTER_START)
    row, on = program.dep_row[~covered], program.dep_on[~covered]
    to_wait = program.completion[row]
    parts.edges(done.task[on[to_wait]], leave[row[to_wait]], done.after[on[to_wait]])
    parts.edges(done.task[on[~to_wait]], entered[row[~to_wait]], done.after[on[~to_wait]])
    # "Started" is the entry to a call, but the begin of a computation.
    begun = np.where(program.is_op("compute")[program.start_on], AFTER_START, AFTER_END)
    parts.edges(entered[program.start_on], entered[program.start_row], begun)
    return leave


def _lower_collectives(
    *,
    trace: Trace,
    program: Program,
    instances: Instances,
    protocol: Protocol,
    rules: str | Mapping[str, str],
    parts: Assembly,
    entered: Int64,
    done: Moments,
    release: Moments,
    notes: NoteBook,
    steady: bool,
) -> dict[str, int]:
    """Add the tasks of all collectives; returns how often each algorithm was used."""
    used: dict[str, int] = {}
    send_s = protocol.send_overhead_s if protocol.collective_overhead else 0.0
    recv_s = protocol.recv_overhead_s if protocol.collective_overhead else 0.0
    nonblocking = program.free
    choose = chooser(rules, notes)
    for call, which in collective_calls(trace=trace, program=program, instances=instances, notes=notes):
        name, count = choose(call, int(which.size)), int(which.size)
        flows = steady_flows(call, algorithm=name) if steady else None
        if flows is not None:
            full = f"{call.op}/{name.removeprefix(f'{call.op}/')}"
            template = steady_template(n_members=call.n, flows=flows, send_overhead_s=send_s, recv_overhead_s=recv_s)
            notes.add("steady_collectives", count, "collectives as steady flows, not step by step (approximate)")
        else:
            schedule = build(call, algorithm=name)
            full = schedule.algorithm
            template = make_template(
                n_members=call.n,
                step=schedule.step,
                src=schedule.src,
                dst=schedule.dst,
                size_bytes=schedule.size_bytes,
                send_overhead_s=send_s,
                recv_overhead_s=recv_s,
            )
            if steady and call.n > 1:
                notes.add("not_steady", count, "collectives by algorithms without a steady form: step by step")
        used[full] = used.get(full, 0) + count
        rows = instances.row[csr_gather(instances.ptr, which)[1]].reshape(which.size, call.n)
        exits = _instantiate(template, rows, program, parts, entered)
        flat, last = rows.ravel(), exits.ravel()
        done.put(flat, last)
        blocking = ~nonblocking[flat]
        release.put(flat[blocking], last[blocking])
    return dict(sorted(used.items()))


def _instantiate(template: Template, rows: Int64, program: Program, parts: Assembly, entered: Int64) -> Int64:
    """Tasks of one template for many collectives; ``rows`` has shape (collectives, members). Returns the exits."""
    k, n = rows.shape
    rank = program.rank[rows]
    messages = parts.transfers(
        source=rank[:, template.src].ravel(),
        destination=rank[:, template.dst].ravel(),
        size_bytes=np.tile(template.size_bytes, k),
        op=rows[:, template.src].ravel(),
        latencies=template.latencies,
    ).reshape(k, -1)
    delays = parts.delays(
        rank=rank[:, template.delay_member].ravel(),
        seconds=np.tile(template.delay_s, k),
        op=rows[:, template.delay_member].ravel(),
    ).reshape(k, -1)
    exits = parts.delays(rank=rank.ravel(), seconds=np.tile(template.exit_s, k), op=rows.ravel()).reshape(k, n)
    tasks = np.concatenate([messages, delays], axis=1)
    parts.edges(
        np.concatenate([tasks, entered[rows]], axis=1)[:, template.edge_from].ravel(),
        np.concatenate([tasks, exits], axis=1)[:, template.edge_to].ravel(),
    )
    return exits


def _lower_flows(trace: Trace, notes: NoteBook) -> Lowered:
    """Each flow waits for its recorded start, then is transferred."""
    start_ns = trace.column("start_ns")
    origin = 0
    if start_ns.size and int(start_ns.max()) > _EXACT_NS:
        # Seconds in float64 would no longer resolve single nanoseconds.
        origin = int(start_ns.min())
        notes.add(
            "flows_shifted", int(start_ns.size), "flows with very late start times: the first one starts at time 0"
        )
    return _lower_pairs(trace, (start_ns - origin) * 1e-9, np.ones(start_ns.size, dtype=bool), notes)


def _lower_matrix(trace: Trace, notes: NoteBook) -> Lowered:
    """Everything at once: one transfer per entry that is not zero."""
    size = trace.column("bytes")
    notes.add("matrix_messages_merged", int(np.count_nonzero(trace.column("count") > 1)),
              "entries of more than one message: sent as one transfer at time 0")  # fmt: skip
    return _lower_pairs(trace, np.zeros(size.size), size > 0, notes)


def _lower_pairs(
    trace: Trace, start_s: npt.NDArray[np.float64], real: npt.NDArray[np.bool_], notes: NoteBook
) -> Lowered:
    src, dst, size = trace.column("src"), trace.column("dst"), trace.column("bytes")
    rows = np.arange(size.size, dtype=np.int64)
    parts = Assembly()
    enter = parts.delays(rank=src, seconds=start_s, op=rows)
    data = parts.transfers(source=src[real], destination=dst[real], size_bytes=size[real], op=rows[real])
    leave = parts.delays(rank=src, seconds=0.0, op=rows)
    parts.edges(enter[real], data)
    parts.edges(data, leave[real])
    parts.edges(enter[~real], leave[~real])
    nothing = np.zeros(0, dtype=np.int64)
    messages = Messages(send_op=nothing, recv_op=nothing, task=nothing, rendezvous=nothing.astype(bool))
    return _finish(trace, parts, enter, leave, messages, {}, notes)


def _finish(
    trace: Trace,
    parts: Assembly,
    op_enter: Int64,
    op_leave: Int64,
    messages: Messages,
    algorithms: Mapping[str, int],
    notes: NoteBook,
) -> Lowered:
    graph = parts.graph(n_ranks=trace.n_ranks)
    sends = graph.kind == TRANSFER
    away = sends & (graph.rank != graph.peer)
    # A transfer that never starts moves nothing.
    source = np.repeat(np.arange(graph.n_tasks), np.diff(graph.succ_ptr))
    never = np.zeros(graph.n_tasks, dtype=bool)
    never[graph.succ[source == graph.succ]] = True
    total = float(graph.amount[sends].sum())
    if not total < _MOST_BYTES:
        raise InputError("trace", "all its transfers together must be below 2^63 bytes", got=f"{total:.4g} bytes")
    amount = np.where(sends, graph.amount, 0.0).astype(np.int64)
    return Lowered(
        graph=graph,
        op_enter=frozen(op_enter, np.int64),
        op_leave=frozen(op_leave, np.int64),
        messages=messages,
        algorithms=algorithms,
        notes=notes.notes(),
        wire_bytes=int(amount[away & ~never].sum()),
        local_bytes=int(amount[sends & ~away & ~never].sum()),
    )
