"""Which MPI functions the recorder understands, and what each means: the one table behind the generator and the reader.

Parameter names are those used in the generated code; the types come from the installed header, by position. Functions of the
header that are neither here nor local (see ``is_local``) are counted by name during a run and named in the notes of its trace.

>>> CALLS["Iallgatherv"].kind, CALLS["Iallgatherv"].mode, CALLS["Iallgatherv"].op
('collective', 'nonblocking', 'allgather')
>>> is_local("Comm_rank"), is_local("Put"), is_local("Comm_split")
(True, False, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

__all__ = ["CALLS", "DTYPES", "REDOPS", "Call", "is_local", "lookup"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One MPI function.

    Attributes
    ----------
    name : str
        Without the prefix ``MPI_``.
    kind : str
        ``send``, ``recv``, ``mrecv``, ``sendrecv``, ``sendrecv_replace``, ``probe``, ``mprobe``, ``wait``, ``start``,
        ``request``, ``collective``, ``comm_create``, ``comm_free`` or ``pcontrol``.
    parameters : tuple of str
        Names, in the order of the standard.
    op : str
        Operation of the canonical trace; empty when the call gives no row of its own.
    mode : str
        ``blocking``, ``nonblocking`` or ``persistent`` (makes a request that a later start uses).
    base : str
        Name without the letter I, ``_init`` and ``_c``: ``Allgatherv``.
    """

    name: str
    kind: str
    parameters: tuple[str, ...]
    op: str = ""
    mode: str = "blocking"
    base: str = ""

    @property
    def polls(self) -> bool:
        """Whether the call may come back without having done anything (``flag`` or ``outcount`` is 0)."""
        return "flag" in self.parameters or self.base == "Testsome"


def _table() -> dict[str, Call]:
    calls: dict[str, Call] = {}

    def add(name: str, kind: str, parameters: str, op: str = "", mode: str = "blocking", base: str = "") -> None:
        calls[name] = Call(
            name=name, kind=kind, parameters=tuple(parameters.split()), op=op, mode=mode, base=base or name
        )

    def family(name: str, kind: str, parameters: str, op: str, *, status: bool = False) -> None:
        """Blocking, non-blocking and persistent forms; the latter two end in a request instead of a status."""
        initial = name[0].lower() + name[1:]
        add(name, kind, parameters + (" status" if status else ""), op)
        add("I" + initial, kind, parameters + " request", op, "nonblocking", name)
        info = " info" if kind == "collective" else ""
        add(name + "_init", kind, parameters + info + " request", op, "persistent", name)

    for name in ("Send", "Bsend", "Ssend", "Rsend"):
        family(name, "send", "buf count datatype dest tag comm", "send")
    family("Recv", "recv", "buf count datatype source tag comm", "recv", status=True)
    exchange = "sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm"
    add("Sendrecv", "sendrecv", exchange + " status", "send")
    add("Isendrecv", "sendrecv", exchange + " request", "send", "nonblocking", "Sendrecv")
    exchange = "buf count datatype dest sendtag source recvtag comm"
    add("Sendrecv_replace", "sendrecv_replace", exchange + " status", "send")
    add("Isendrecv_replace", "sendrecv_replace", exchange + " request", "send", "nonblocking", "Sendrecv_replace")
    add("Probe", "probe", "source tag comm status", "probe")
    add("Iprobe", "probe", "source tag comm flag status", "probe", base="Probe")
    add("Mprobe", "mprobe", "source tag comm message status", "probe")
    add("Improbe", "mprobe", "source tag comm flag message status", "probe", base="Mprobe")
    add("Mrecv", "mrecv", "buf count datatype message status", "recv")
    add("Imrecv", "mrecv", "buf count datatype message request", "recv", "nonblocking", "Mrecv")

    add("Wait", "wait", "request status", "wait")
    add("Waitall", "wait", "count requests statuses", "wait")
    add("Waitany", "wait", "count requests index status", "wait")
    add("Waitsome", "wait", "incount requests outcount indices statuses", "wait")
    add("Test", "wait", "request flag status", "test")
    add("Testall", "wait", "count requests flag statuses", "test")
    add("Testany", "wait", "count requests index flag status", "test")
    add("Testsome", "wait", "incount requests outcount indices statuses", "test")
    add("Start", "start", "request")
    add("Startall", "start", "count requests")
    add("Request_free", "request", "request")
    add("Cancel", "request", "request")

    triple = "sendbuf sendcount sendtype recvbuf recvcount recvtype"
    vector = "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype"
    vectors = "sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes"
    for name, parameters, op in (
        ("Barrier", "comm", "barrier"),
        ("Bcast", "buffer count datatype root comm", "bcast"),
        ("Gather", triple + " root comm", "gather"),
        ("Gatherv", "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm", "gather"),
        ("Scatter", triple + " root comm", "scatter"),
        ("Scatterv", "sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm", "scatter"),
        ("Allgather", triple + " comm", "allgather"),
        ("Allgatherv", "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm", "allgather"),
        ("Alltoall", triple + " comm", "alltoall"),
        ("Alltoallv", vector + " comm", "alltoall"),
        ("Alltoallw", vectors + " comm", "alltoall"),
        ("Reduce", "sendbuf recvbuf count datatype op root comm", "reduce"),
        ("Allreduce", "sendbuf recvbuf count datatype op comm", "allreduce"),
        ("Reduce_scatter", "sendbuf recvbuf recvcounts datatype op comm", "reduce_scatter"),
        ("Reduce_scatter_block", "sendbuf recvbuf recvcount datatype op comm", "reduce_scatter"),
        ("Scan", "sendbuf recvbuf count datatype op comm", "scan"),
        ("Exscan", "sendbuf recvbuf count datatype op comm", "exscan"),
        ("Neighbor_allgather", triple + " comm", "neighbor_allgather"),
        (
            "Neighbor_allgatherv",
            "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm",
            "neighbor_allgather",
        ),
        ("Neighbor_alltoall", triple + " comm", "neighbor_alltoall"),
        ("Neighbor_alltoallv", vector + " comm", "neighbor_alltoall"),
        ("Neighbor_alltoallw", vectors + " comm", "neighbor_alltoall"),
    ):
        family(name, "collective", parameters, op)

    for name, parameters in (
        ("Comm_dup", "comm newcomm"),
        ("Comm_dup_with_info", "comm info newcomm"),
        ("Comm_split", "comm color key newcomm"),
        ("Comm_split_type", "comm type key info newcomm"),
        ("Comm_create", "comm group newcomm"),
        ("Comm_create_group", "comm group tag newcomm"),
        ("Cart_create", "comm ndims dims periods reorder newcomm"),
        ("Cart_sub", "comm remain newcomm"),
        ("Graph_create", "comm nnodes index edges reorder newcomm"),
        ("Dist_graph_create", "comm n sources degrees destinations weights info reorder newcomm"),
        (
            "Dist_graph_create_adjacent",
            "comm indegree sources sourceweights outdegree destinations destweights info reorder newcomm",
        ),
        ("Intercomm_create", "comm leader peercomm remoteleader tag newcomm"),
        ("Intercomm_merge", "comm high newcomm"),
    ):
        add(name, "comm_create", parameters, "comm_create")
    add("Comm_idup", "comm_create", "comm newcomm request", "comm_create", "nonblocking", "Comm_dup")
    add("Comm_idup_with_info", "comm_create", "comm info newcomm request", "comm_create", "nonblocking", "Comm_dup")
    add("Comm_free", "comm_free", "pcomm", "comm_free")
    add("Comm_disconnect", "comm_free", "pcomm", "comm_free")
    add("Pcontrol", "pcontrol", "level", "mark")
    # Written by hand in recorder/run.h, here so that the reader knows their names.
    add("Init", "lifecycle", "", "init")
    add("Init_thread", "lifecycle", "", "init", base="Init")
    add("Finalize", "lifecycle", "", "finalize")
    add("Abort", "lifecycle", "comm code")
    add("(communicator)", "seen", "")
    return calls


CALLS: Final = MappingProxyType(_table())
"""Name without ``MPI_`` and without ``_c`` -> ``Call``."""

DTYPES: Final = (
    ("BYTE", "byte"),
    ("CHAR", "char"),
    ("SIGNED_CHAR", "int8"),
    ("UNSIGNED_CHAR", "uint8"),
    ("SHORT", "int16"),
    ("UNSIGNED_SHORT", "uint16"),
    ("INT", "int32"),
    ("UNSIGNED", "uint32"),
    ("LONG", "int64"),
    ("UNSIGNED_LONG", "uint64"),
    ("LONG_LONG", "int64"),
    ("UNSIGNED_LONG_LONG", "uint64"),
    ("FLOAT", "float32"),
    ("DOUBLE", "float64"),
    ("LONG_DOUBLE", "long double"),
    ("INT8_T", "int8"),
    ("INT16_T", "int16"),
    ("INT32_T", "int32"),
    ("INT64_T", "int64"),
    ("UINT8_T", "uint8"),
    ("UINT16_T", "uint16"),
    ("UINT32_T", "uint32"),
    ("UINT64_T", "uint64"),
    ("C_BOOL", "bool"),
    ("C_FLOAT_COMPLEX", "complex64"),
    ("C_DOUBLE_COMPLEX", "complex128"),
    ("PACKED", "packed"),
    ("CHARACTER", "char"),
    ("LOGICAL", "logical"),
    ("INTEGER", "int32"),
    ("REAL", "float32"),
    ("DOUBLE_PRECISION", "float64"),
    ("COMPLEX", "complex64"),
    ("DOUBLE_COMPLEX", "complex128"),
)
"""Predefined types (without ``MPI_``) and their names in the trace; others have no name there, only their size."""

REDOPS: Final = (
    ("SUM", "sum"),
    ("MAX", "max"),
    ("MIN", "min"),
    ("PROD", "prod"),
    ("LAND", "land"),
    ("BAND", "band"),
    ("LOR", "lor"),
    ("BOR", "bor"),
    ("LXOR", "lxor"),
    ("BXOR", "bxor"),
    ("MINLOC", "minloc"),
    ("MAXLOC", "maxloc"),
)
"""Predefined reductions (without ``MPI_``) and their names in the trace; others are ``user``."""

# Queries, handles, types, groups, packing: no communication between ranks worth a row, so not even wrapped.
_LOCAL = re.compile(
    r"(X_)?("
    r"Abi_|Add_error|Address|Aint_|Alloc_mem|Attr_|Buffer_|Cart_(coords|get|map|rank|shift)|Cartdim_|Close_port|Dims_|"
    r"Comm_(attach_buffer|call_errhandler|compare|create_errhandler|create_keyval|delete_attr|detach_buffer|errhandler|"
    r"c2f|f2c|fromint|toint|flush_buffer|free_keyval|get_|group|is_revoked|iflush_buffer|rank|remote_|set_|size|test_inter|ack_failed|failure_|"
    r"get_failed)|"
    r"Dist_graph_neighbors|Errhandler_|Error_|File_(c2f|call_errhandler|create_errhandler|delete|f2c|fromint|get_|seek|set_(atom|err|info|view)|toint)|"
    r""
    r"Finalized|Free_mem|Get_|GPU_query|Graph_(get|map|neighbors)|Graphdims_|Group_|Grequest_complete|Info_|Initialized|"
    r"Is_thread_main|Keyval_|Lookup_name|Message_|NULL_|Op_|Open_port|Pack|Publish_name|Query_|Register_datarep|"
    r"Remove_error|Reduce_local|Request_(c|f2c|fromint|get_status|is_complete|toint)|"
    r"Session_(attach|call|create|detach|f|get|i?flush|set|toint|c2f)|Status_|T_|Test_cancelled|Topo_test|Type_|Unpack|"
    r"Unpublish_name|Win_(c2f|call_errhandler|create_errhandler|create_keyval|delete_attr|f2c|free_keyval|fromint|get_|"
    r"set_|shared_query|test$|toint)|Wtick|Wtime|DUP_FN|"
    r"(COMM|WIN|TYPE)_(DUP|NULL)|CONVERSION_FN)"
)


def is_local(name: str) -> bool:
    """Whether a function (without ``MPI``'s underscore prefix) neither communicates nor waits."""
    return _LOCAL.match(name) is not None


def lookup(name: str) -> Call | None:
    """The call of a function name as found in a header: ``Send_c`` and ``Send`` are one call.

    >>> lookup("Send_c").op, lookup("Put")
    ('send', None)
    """
    base = name.removesuffix("_c")
    call = CALLS.get(base)
    return replace(call, name=name) if call is not None else None
