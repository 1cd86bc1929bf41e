"""The columns of the result tables: one place for names, units and meaning; the data dictionary is printed from here."""

from __future__ import annotations

__all__ = ["COLUMNS", "data_dictionary"]

# table -> column -> (unit, meaning)
COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "ops": {
        "rank": ("", "rank of the trace"),
        "stream": ("", "thread or GPU stream of the rank"),
        "seq": ("", "position in the (rank, stream)"),
        "op": ("", "operation"),
        "comm": ("", "communicator number of the trace"),
        "peer": ("", "peer or root, world rank; -1 if none"),
        "bytes": ("bytes", "size as recorded in the trace"),
        "enter_ns": ("ns", "simulated time at which the call was entered; null if never"),
        "leave_ns": ("ns", "simulated time at which the call returned; null if never"),
    },
    "flows": {
        "flow": ("", "task number of the transfer"),
        "op": ("", "row of the trace that caused it; -1 if none"),
        "src_rank": ("", "sending rank"),
        "dst_rank": ("", "receiving rank"),
        "src_host": ("", "host of the sending rank"),
        "dst_host": ("", "host of the receiving rank; equal to src_host: the bytes never left the host"),
        "bytes": ("bytes", "size; 0 for control messages"),
        "hops": ("", "links crossed"),
        "start_ns": ("ns", "the first byte may leave; null if never"),
        "drain_ns": ("ns", "the last byte has left the source"),
        "end_ns": ("ns", "the last byte has been delivered"),
    },
    "links": {
        "link": ("", "link number of the topology"),
        "src": ("", "name of the vertex it leaves"),
        "dst": ("", "name of the vertex it enters"),
        "layer": ("", "part of the network it belongs to"),
        "capacity_bytes_per_s": ("bytes/s", "capacity at the start of the run"),
        "bin_start_ns": ("ns", "begin of the time bin"),
        "bin_end_ns": ("ns", "end of the time bin"),
        "bytes": ("bytes", "bytes that crossed the link in the bin; bins without any are left out"),
        "utilisation": ("1", "bytes over capacity times width of the bin"),
    },
    "ranks": {
        "rank": ("", "rank of the trace"),
        "host": ("", "host it was placed on"),
        "compute_ns": ("ns", "local work between calls"),
        "in_calls_ns": ("ns", "time inside communication calls, overheads included"),
        "finish_ns": ("ns", "last call returned; null if it never did"),
        "sent_bytes": ("bytes", "sent over the network"),
        "received_bytes": ("bytes", "received over the network"),
        "on_host_bytes": ("bytes", "sent without leaving the host"),
    },
}


def data_dictionary() -> list[str]:
    """Lines that describe all columns of all tables.

    >>> data_dictionary()[1]
    'ops.rank: rank of the trace'
    """
    lines = ["Tables of a result; every column, its unit and meaning."]
    for table, columns in COLUMNS.items():
        for name, (unit, meaning) in columns.items():
            lines.append(f"{table}.{name}{f' [{unit}]' if unit else ''}: {meaning}")
    return lines
