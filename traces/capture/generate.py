"""Generate the recorder (one C file) for one MPI from the prototypes of its header.

Each wrapped function is defined twice, as ``MPI_X`` and ``PMPI_X``: the Fortran bindings of Open MPI call ``PMPI_X`` directly.
The folder ``recorder`` holds what is the same for every MPI.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from netsim.traces.capture.calls import DTYPES, REDOPS, Call, is_local, lookup
from netsim.traces.capture.header import Prototype

__all__ = ["GENERATOR_VERSION", "Recorder", "generate"]

GENERATOR_VERSION = 1
"""Part of the key under which built recorders are kept; changes of the C code are found by its hash."""

_BY_HAND = frozenset({"Init", "Init_thread", "Finalize", "Abort"})
_NOT_MESSAGES = frozenset({"lifecycle", "seen"})


@dataclass(frozen=True)
class Recorder:
    """A generated recorder.

    Attributes
    ----------
    source : str
        C code.
    recorded, counted : tuple of str
        Functions (without ``MPI_``) that give records, and those that are only counted by name.
    """

    source: str
    recorded: tuple[str, ...]
    counted: tuple[str, ...]


# ---- what each kind of call notes before and after the library is called: C code on the variables of the wrapper

_COLLECTIVE = {
    "Barrier": "",
    "Bcast": "ns_is_root(&call, about, root); call.rec.bytes = ns_has_part(about, root) ? ns_size(count, datatype) : 0;",
    "Reduce": "ns_is_root(&call, about, root); call.rec.bytes = ns_has_part(about, root) ? ns_size(count, datatype) : 0;",
    "Allreduce": "call.rec.bytes = ns_size(count, datatype);",
    "Scan": "call.rec.bytes = ns_size(count, datatype);",
    "Exscan": "call.rec.bytes = ns_size(count, datatype);",
    "Gather": """
    bool at_root = ns_is_root(&call, about, root);
    if (at_root && about.remote >= 0) call.rec.bytes = 0;
    else if (at_root && NS_IS_IN_PLACE(sendbuf)) call.rec.bytes = ns_size(recvcount, recvtype);
    else if (ns_has_part(about, root)) call.rec.bytes = ns_size(sendcount, sendtype);""",
    "Gatherv": """
    bool at_root = ns_is_root(&call, about, root);
    if (at_root && about.remote >= 0) call.rec.bytes = 0;
    else if (at_root && NS_IS_IN_PLACE(sendbuf)) call.rec.bytes = ns_size(recvcounts[about.rank], recvtype);
    else if (ns_has_part(about, root)) call.rec.bytes = ns_size(sendcount, sendtype);
    if (at_root && about.remote < 0) NS_PUSH_SIZES(about.size, recvcounts, recvtype);""",
    "Scatter": """
    bool at_root = ns_is_root(&call, about, root);
    if (at_root && about.remote >= 0) call.rec.bytes = 0;
    else if (at_root && NS_IS_IN_PLACE(recvbuf)) call.rec.bytes = ns_size(sendcount, sendtype);
    else if (ns_has_part(about, root)) call.rec.bytes = ns_size(recvcount, recvtype);""",
    "Scatterv": """
    bool at_root = ns_is_root(&call, about, root);
    if (at_root && about.remote >= 0) call.rec.bytes = 0;
    else if (at_root && NS_IS_IN_PLACE(recvbuf)) call.rec.bytes = ns_size(sendcounts[about.rank], sendtype);
    else if (ns_has_part(about, root)) call.rec.bytes = ns_size(recvcount, recvtype);
    if (at_root && about.remote < 0) NS_PUSH_SIZES(about.size, sendcounts, sendtype);""",
    "Allgather": "call.rec.bytes = NS_IS_IN_PLACE(sendbuf) ? ns_size(recvcount, recvtype) : ns_size(sendcount, sendtype);",
    "Allgatherv": """
    call.rec.bytes = NS_IS_IN_PLACE(sendbuf) ? ns_size(recvcounts[about.rank], recvtype) : ns_size(sendcount, sendtype);
    if (about.remote < 0) NS_PUSH_SIZES(about.size, recvcounts, recvtype);""",
    "Alltoall": """
    call.rec.bytes = NS_IS_IN_PLACE(sendbuf) ? ns_size(recvcount, recvtype) : ns_size(sendcount, sendtype);
    call.rec.bytes *= about.remote >= 0 ? about.remote : about.size;""",
    "Alltoallv": """
    int entries = about.remote >= 0 ? about.remote : about.size;
    if (NS_IS_IN_PLACE(sendbuf)) NS_PUSH_SIZES(entries, recvcounts, recvtype);
    else NS_PUSH_SIZES(entries, sendcounts, sendtype);
    call.rec.bytes = ns_pushed(0);
    call.rec.peer2 = entries;
    NS_PUSH_SIZES(entries, recvcounts, recvtype);""",
    "Alltoallw": """
    int entries = about.remote >= 0 ? about.remote : about.size;
    if (NS_IS_IN_PLACE(sendbuf)) NS_PUSH_SIZES(entries, recvcounts, recvtypes[ns_i]);
    else NS_PUSH_SIZES(entries, sendcounts, sendtypes[ns_i]);
    call.rec.bytes = ns_pushed(0);
    call.rec.peer2 = entries;
    NS_PUSH_SIZES(entries, recvcounts, recvtypes[ns_i]);""",
    "Reduce_scatter": """
    call.rec.bytes = about.remote < 0 ? ns_size(recvcounts[about.rank], datatype) : 0;
    if (about.remote < 0) NS_PUSH_SIZES(about.size, recvcounts, datatype);""",
    "Reduce_scatter_block": "call.rec.bytes = ns_size(recvcount, datatype);",
    "Neighbor_allgather": "call.rec.bytes = ns_size(sendcount, sendtype);",
    "Neighbor_allgatherv": "call.rec.bytes = ns_size(sendcount, sendtype);",
    "Neighbor_alltoall": """
    for (int ns_j = 0; ns_j < about.out; ns_j++) ns_push(ns_size(sendcount, sendtype));
    call.rec.bytes = ns_pushed(0);""",
    "Neighbor_alltoallv": "NS_PUSH_SIZES(about.out, sendcounts, sendtype); call.rec.bytes = ns_pushed(0);",
    "Neighbor_alltoallw": "NS_PUSH_SIZES(about.out, sendcounts, sendtypes[ns_i]); call.rec.bytes = ns_pushed(0);",
}

_IN_PLACE_SEND = frozenset({"Allreduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block"})

_WAIT = {
    "Wait": ("ns_keep_handles(1, request); status = ns_status(status);", "ns_completed(ns_me.handles[0], status);"),
    "Waitall": (
        "ns_keep_handles(count, requests); statuses = ns_statuses(statuses, count);",
        "for (int i = 0; i < count; i++) ns_completed(ns_me.handles[i], &statuses[i]);",
    ),
    "Waitany": (
        "ns_keep_handles(count, requests); status = ns_status(status);",
        "if (*index != MPI_UNDEFINED) ns_completed(ns_me.handles[*index], status);",
    ),
    "Waitsome": (
        "ns_keep_handles(incount, requests); statuses = ns_statuses(statuses, incount);",
        "for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++)"
        " ns_completed(ns_me.handles[indices[i]], &statuses[i]);",
    ),
    "Test": (
        "ns_keep_handles(1, request); status = ns_status(status);",
        "if (*flag) ns_completed(ns_me.handles[0], status);",
    ),
    "Testall": (
        "ns_keep_handles(count, requests); statuses = ns_statuses(statuses, count);",
        "for (int i = 0; *flag && i < count; i++) ns_completed(ns_me.handles[i], &statuses[i]);",
    ),
    "Testany": (
        "ns_keep_handles(count, requests); status = ns_status(status);",
        "if (*flag && *index != MPI_UNDEFINED) ns_completed(ns_me.handles[*index], status);",
    ),
}
_WAIT["Testsome"] = _WAIT["Waitsome"]

_REQUEST_KIND = {
    "send": "NS_SEND",
    "recv": "NS_RECV",
    "mrecv": "NS_RECV",
    "sendrecv": "NS_EXCHANGE",
    "sendrecv_replace": "NS_EXCHANGE",
}


def _request(call: Call) -> str:
    if call.mode == "blocking":
        return ""
    kind = _REQUEST_KIND.get(call.kind, "NS_COLLECTIVE")
    return f"ns_request(&call, *request, {kind}, {'true' if call.mode == 'persistent' else 'false'});"


def _code(call: Call) -> tuple[str, str]:
    """C code before and after the call of the library."""
    blocking = call.mode == "blocking"
    status = "status = ns_status(status);" if blocking else ""
    resolve = "ns_resolve(&call, status, &call.rec.{0}, &call.rec.{1});"
    match call.kind:
        case "send":
            return "ns_message(&call, count, datatype, dest, tag, comm);", _request(call)
        case "recv":
            after = resolve.format("peer", "tag") if blocking else _request(call)
            return f"ns_receive(&call, count, datatype, source, tag, comm); {status}", after
        case "sendrecv":
            before = (
                f"ns_message(&call, sendcount, sendtype, dest, sendtag, comm); "
                f"ns_receive2(&call, recvcount, recvtype, source, recvtag); {status}"
            )
            return before, resolve.format("peer2", "tag2") if blocking else _request(call)
        case "sendrecv_replace":
            before = (
                f"ns_message(&call, count, datatype, dest, sendtag, comm); "
                f"ns_receive2(&call, count, datatype, source, recvtag); {status}"
            )
            return before, resolve.format("peer2", "tag2") if blocking else _request(call)
        case "probe":
            before = "ns_receive(&call, 0, MPI_BYTE, source, tag, comm); status = ns_status(status);"
            return before, "if (*flag) ns_probed(&call, status); else call.keep = false;" if call.polls else (
                "ns_probed(&call, status);"
            )
        case "mprobe":
            before = "ns_receive(&call, 0, MPI_BYTE, source, tag, comm); status = ns_status(status);"
            found = "{ ns_probed(&call, status); ns_message_found(&call, *message); }"
            return before, f"if (*flag) {found} else call.keep = false;" if call.polls else found
        case "mrecv":
            before = f"ns_message_taken(&call, count, datatype, *message); {status}"
            return before, resolve.format("peer", "tag") if blocking else _request(call)
        case "wait":
            before, after = _WAIT[call.base]
            return before, after + " ns_keep_if_any(&call);"
        case "start":
            n = "count" if call.base == "Startall" else "1"
            handles = "requests" if call.base == "Startall" else "request"
            return f"ns_keep_handles({n}, {handles});", (
                f"for (int i = 0; i < {n}; i++) ns_started(ns_me.handles[i]); ns_keep_if_any(&call);"
            )
        case "request":
            if call.base == "Cancel":
                return "ns_cancels = true; call.keep = false;", ""
            return "ns_keep_handles(1, request); call.keep = false;", "ns_freed(ns_me.handles[0]);"
        case "collective":
            before = f"ns_comm about = ns_collective(&call, comm); (void)about;\n{_COLLECTIVE[call.base].strip()}\n"
            if "datatype" in call.parameters:
                before += " ns_set_dtype(&call, datatype);"
            elif "sendtype" in call.parameters:
                # Only one of the two need be meaningful; in place it is the receiving one.
                before += " ns_set_dtype(&call, call.rec.flags & NS_IN_PLACE ? recvtype : sendtype);"
            if "op" in call.parameters:
                before += " ns_set_redop(&call, op);"
            if call.base in _IN_PLACE_SEND:
                before += " (void)NS_IS_IN_PLACE(sendbuf);"
            if call.base == "Reduce":
                before += " (void)NS_IS_IN_PLACE(sendbuf);"
            return before, _request(call)
        case "comm_create":
            if call.mode == "nonblocking":
                return "call.rec.comm = ns_comm_number(comm);", (
                    f"ns_comm_begun(&call, comm, *newcomm); {_request(call)}"
                )
            return "call.rec.comm = ns_comm_number(comm);", "ns_comm_made(&call, *newcomm);"
        case "comm_free":
            return "call.rec.comm = ns_comm_number(*pcomm);", ""
        case _:
            raise AssertionError(call.kind)


def _lines(code: str) -> list[str]:
    """One statement a line, so that the generated file can be read; ``for`` and ``if`` keep what they govern."""
    lines: list[str] = []
    for line in code.strip().split("\n"):
        if line.strip().startswith(("for", "if", "else")) and "; " not in line.strip().rstrip(";"):
            lines.append(line.strip())
        else:
            lines += _statements(line.strip())
    return ["    " + line for line in lines if line]


def _statements(line: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(line):
        depth += (letter in "({") - (letter in ")}")
        if letter == ";" and not depth:
            parts.append(line[start : i + 1].strip())
            start = i + 1
    return [*parts, line[start:].strip()]


def _definitions(symbol: str, declared: str, arguments: str) -> str:
    return (
        f"int MPI_{symbol}({declared}) {{ return ns_{symbol}({arguments}); }}\n"
        f"int PMPI_{symbol}({declared}) {{ return ns_{symbol}({arguments}); }}\n"
    )


def _wrapper(prototype: Prototype, call: Call) -> str:
    symbol = prototype.name[4:]
    named = list(zip(prototype.parameters, call.parameters, strict=True))
    declared = ", ".join(parameter.declare(name) for parameter, name in named)
    arguments = ", ".join(call.parameters)
    before, after = _code(call)
    lines = [
        f"static int ns_{symbol}({declared})",
        "{",
        "    ns_call call;",
        f"    if (!ns_enter(&call, NS_FN_{symbol})) return NS_REAL(MPI_{symbol})({arguments});",
        *_lines(before),
        f"    int rc = NS_REAL(MPI_{symbol})({arguments});",
        "    ns_leave(&call, rc);",
    ]
    if after.strip():
        lines.append(f"    if (rc == MPI_SUCCESS) {{ {after.strip()} }}")
    lines += ["    ns_finish(&call);", "    return rc;", "}"]
    return "\n".join(lines) + "\n" + _definitions(symbol, declared, arguments)


def _counter(prototype: Prototype) -> str:
    """A function that is not understood: count it, and do not record the calls that the library makes inside."""
    prefix, symbol = prototype.name.split("_", 1)
    names = [f"a{i}" for i in range(len(prototype.parameters))]
    declared = ", ".join(p.declare(n) for p, n in zip(prototype.parameters, names, strict=True)) or "void"
    arguments = ", ".join(names)
    extra = " ns_session();" if symbol == "Session_init" else ""
    number = f"NS_FN_{'X_' if prefix == 'MPIX' else ''}{symbol}"
    body = (
        f"static int ns_{prefix}_{symbol}({declared})\n{{\n    ns_call call;{extra}\n"
        f"    if (!ns_enter(&call, {number})) return NS_REAL({prototype.name})({arguments});\n"
        f"    int rc = NS_REAL({prototype.name})({arguments});\n"
        f"    ns_leave(&call, rc);\n    call.keep = false;\n    ns_finish(&call);\n    return rc;\n}}\n"
    )
    for name in (prototype.name, "P" + prototype.name):
        body += f"int {name}({declared}) {{ return ns_{prefix}_{symbol}({arguments}); }}\n"
    return body


_HAND_WRITTEN = """
int MPI_Init(int *argc, char ***argv) { return ns_init(NS_FN_Init, argc, argv, false, 0, NULL); }
int PMPI_Init(int *argc, char ***argv) { return ns_init(NS_FN_Init, argc, argv, false, 0, NULL); }
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return ns_init(NS_FN_Init_thread, argc, argv, true, required, provided);
}
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    return ns_init(NS_FN_Init_thread, argc, argv, true, required, provided);
}
int MPI_Finalize(void) { return ns_finalize(NS_FN_Finalize); }
int PMPI_Finalize(void) { return ns_finalize(NS_FN_Finalize); }
int MPI_Abort(MPI_Comm comm, int code) { ns_aborted(code); return NS_REAL(MPI_Abort)(comm, code); }
int PMPI_Abort(MPI_Comm comm, int code) { ns_aborted(code); return NS_REAL(MPI_Abort)(comm, code); }
static int ns_pcontrol(int level)
{
    ns_call call;
    if (!ns_enter(&call, NS_FN_Pcontrol)) return NS_REAL(MPI_Pcontrol)(level);
    call.rec.tag = level;
    int rc = NS_REAL(MPI_Pcontrol)(level);
    ns_leave(&call, rc);
    ns_finish(&call);
    return rc;
}
int MPI_Pcontrol(const int level, ...) { return ns_pcontrol(level); }
int PMPI_Pcontrol(const int level, ...) { return ns_pcontrol(level); }
"""


def _plain(name: str) -> str:
    """``MPI_Send`` -> ``Send``, ``MPIX_Isend_enqueue`` -> ``X_Isend_enqueue``."""
    return name[4:] if name.startswith("MPI_") else "X_" + name[5:]


def generate(prototypes: Iterable[Prototype]) -> Recorder:
    """The recorder for these prototypes.

    A known function whose number of parameters is not that of the standard is counted, not recorded.

    Parameters
    ----------
    prototypes : iterable of Prototype
        All of the header of one MPI.

    Returns
    -------
    Recorder
    """
    recorded: list[tuple[Prototype, Call]] = []
    counted: list[Prototype] = []
    for prototype in prototypes:
        name = _plain(prototype.name)
        call = lookup(name)
        if call is not None and (call.base in _BY_HAND or call.kind in _NOT_MESSAGES or call.kind == "pcontrol"):
            continue
        if call is not None and len(call.parameters) == len(prototype.parameters) and not prototype.variadic:
            recorded.append((prototype, call))
        elif not is_local(name) and not prototype.variadic:
            counted.append(prototype)
    by_hand = ["Init", "Init_thread", "Finalize", "Pcontrol"]
    names = ["(communicator)", *by_hand, *(_plain(p.name) for p, _ in recorded), *(_plain(p.name) for p in counted)]
    symbols = ["SEEN", *names[1:]]
    text = [
        "/* Generated by netsim.traces.capture.generate; do not edit. */",
        "#define _GNU_SOURCE",
        "#include <mpi.h>",
        *(f"#define NS_FN_{symbol} {number}" for number, symbol in enumerate(symbols)),
        f"#define NS_N_FUNCTIONS {len(names)}",
        f"#define NS_N_DTYPES {len(DTYPES)}",
        f"#define NS_N_REDOPS {len(REDOPS)}",
        _FAMILY,
        # Three lists, each name ended by a zero, the lists by an empty name.
        "static const char ns_names[] =",
        *(f'    "{name}\\0"' for name in names),
        '    "\\0"',
        *(f'    "{name}\\0"' for _, name in DTYPES),
        '    "\\0"',
        *(f'    "{name}\\0"' for _, name in REDOPS),
        '    "user\\0";',
        "static void ns_load_tables(void);",
        '#include "recorder.h"',
        _tables(),
        *(_wrapper(prototype, call) for prototype, call in recorded),
        *(_counter(prototype) for prototype in counted),
        _HAND_WRITTEN,
    ]
    return Recorder(
        "\n".join(text),
        tuple(names[1 : 1 + len(by_hand) + len(recorded)]),
        tuple(names[1 + len(by_hand) + len(recorded) :]),
    )


_FAMILY = """
#define NS_TEXT_(x) #x
#define NS_TEXT(x) NS_TEXT_(x)
#if defined(OPEN_MPI)
#define NS_FOR_OPEN_MPI true
#define NS_FOR_ABI false
static const char ns_built_for[] =
    "Open MPI v" NS_TEXT(OMPI_MAJOR_VERSION) "." NS_TEXT(OMPI_MINOR_VERSION) "." NS_TEXT(OMPI_RELEASE_VERSION);
#elif defined(MPI_ABI)
#define NS_FOR_OPEN_MPI false
#define NS_FOR_ABI true
static const char ns_built_for[] = "the MPI ABI " NS_TEXT(MPI_VERSION) "." NS_TEXT(MPI_SUBVERSION);
#else
#define NS_FOR_OPEN_MPI false
#define NS_FOR_ABI false
#ifdef MPICH_VERSION
static const char ns_built_for[] = "MPICH " MPICH_VERSION;
#else
static const char ns_built_for[] = "MPI " NS_TEXT(MPI_VERSION) "." NS_TEXT(MPI_SUBVERSION) " with the handles of MPICH";
#endif
#endif
"""


def _tables() -> str:
    lines = ["static void ns_load_tables(void)", "{"]
    for i, (name, _) in enumerate(DTYPES):
        lines += [f"#ifdef MPI_{name}", f"    ns_dtypes[{i}] = MPI_{name};", "#else"]
        lines += [f"    ns_dtypes[{i}] = MPI_DATATYPE_NULL;", "#endif"]
    lines += [f"    ns_redops[{i}] = MPI_{name};" for i, (name, _) in enumerate(REDOPS)]
    return "\n".join([*lines, "}"])
