"""What there is to choose from, what an algorithm does, and whether this machine is ready."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import click

from netsim.cli.options import SIZE, WHOLE
from netsim.cli.output import show

__all__ = ["collectives", "doctor", "explain", "placements", "routings", "topologies", "warmup", "workloads"]


def _first_line(thing: Any) -> str:
    text = (getattr(thing, "__doc__", None) or "").strip()
    return text.splitlines()[0] if text else ""


def _list(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    show((f"{name:<{width}}  {text}" for name, text in rows), indent=width + 2)


@click.command()
@click.argument("name", required=False)
def topologies(name: str | None) -> None:
    """List topologies and machines, or the parameters of one."""
    from netsim.topologies import machines
    from netsim.topologies import topologies as registry

    if name is None:
        _list((n, registry[n].summary()) for n in registry)
        click.echo("\nmachines, as published (netsim topologies NAME has the sources)")
        _list((n, machines[n].summary) for n in machines)
    elif name in machines:
        show(machines[name].help(name).splitlines(), indent=13)
        click.echo(f"\n{registry[machines[name].family].help()}")
    else:
        click.echo(registry[name].help())


@click.command()
def routings() -> None:
    """List routings."""
    from netsim.routing import routings as registry

    _list((n, _first_line(registry[n])) for n in registry)


@click.command()
def placements() -> None:
    """List placements."""
    from netsim.jobs import placements as registry

    _list((n, _first_line(registry[n])) for n in registry)


@click.command(short_help="List workloads by name, or the parameters of one.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def workloads(name: str | None, as_json: bool) -> None:
    """List workloads that netsim generate writes, or the parameters of one."""
    from netsim.traffic.workloads import workloads as registry

    chosen = {n: registry[n] for n in ([name] if name is not None else registry)}
    if as_json:
        click.echo(json.dumps({n: made.to_dict() for n, made in chosen.items()}, indent=1))
    elif name is None:
        _list((n, made.summary()) for n, made in chosen.items())
    else:
        show([*chosen[name].help().splitlines(), "", *chosen[name].notes()], indent=4)


@click.command()
@click.argument("op", required=False)
def collectives(op: str | None) -> None:
    """List collective algorithms, of all operations or of one."""
    from netsim.core.errors import InputError, closest
    from netsim.traffic.collectives import OPS, algorithms

    if op is not None and op not in OPS:
        raise InputError("operation", "unknown name", got=repr(op), remedy=closest(op, OPS))
    _list((n, algorithms[n].summary) for n in algorithms if op is None or algorithms[n].op == op)


@click.command()
@click.argument("op")
@click.option("--algo", help="Algorithm; default: what the rules would choose.")
@click.option("-n", "members", type=WHOLE, default=8, show_default=True, help="Members of the communicator.")
@click.option(
    "-s", "--size", type=SIZE, show_default="1MiB", help="Size per the conventions of traces (see the letters S and m)."
)
@click.option("--root", type=WHOLE, default=0, show_default=True)
@click.option("--rules", default="mpich", show_default=True, help="Selection rules when --algo is not given.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def explain(op: str, algo: str | None, members: int, size: int | None, root: int, rules: str, as_json: bool) -> None:
    """Steps, bytes per rank and formula of a collective algorithm."""
    from netsim.core.errors import InputError
    from netsim.traffic.collectives import PAIR_OPS, VECTOR_OPS
    from netsim.traffic.collectives import explain as explain_collective

    if op in VECTOR_OPS or op in PAIR_OPS:
        plain = op.removesuffix("v") if op in (*VECTOR_OPS, "alltoallv") else op.removeprefix("neighbor_")
        raise InputError(
            op,
            "has sizes of its own for each "
            + ("member" if op in VECTOR_OPS else "pair")
            + ", which a command line cannot take",
            remedy=f"explain {plain} shows equal sizes; netsim.traffic.collectives.explain in Python takes any",
        )
    if size is None:
        size = 0 if op == "barrier" else 1 << 20
    found = explain_collective(op, algorithm=algo, n=members, size_bytes=size, root=root, rules=rules)
    facts = found.to_dict()
    letters = _letters(facts["formula"], op=op, members=members, size=size)
    if as_json:
        click.echo(json.dumps({**facts, "letters": letters}, indent=1))
    else:
        lines = found.lines()
        # Below the formula, above the table of steps.
        lines.insert(lines.index(""), "  with    " + "; ".join(f"{k} = {v}" for k, v in letters.items()))
        show(lines, indent=10)


def _letters(formula: str, *, op: str, members: int, size: int) -> dict[str, str]:
    """What the letters of a formula stand for, except those that it explains itself ("s equal segments", "m nodes").

    >>> _letters("T = (n-1)(a + m/B), m = S/n", op="alltoall", members=4, size=100)["m"]
    'S/n = 25 B, the block from one member to another'
    """
    power = 1 << (members.bit_length() - 1)
    block = f"{size} B, the block of one member"
    if op == "alltoall":
        block = f"S/n = {size / members:.10g} B, the block from one member to another"
        if size % members:
            block += ", on average"
    meaning = {
        "n": f"{members} members",
        "p": f"{power}, the largest power of two up to n",
        "r": f"n - p = {members - power}",
        "S": f"{size} B, " + ("all that one member sends" if op == "alltoall" else "the vector"),
        "m": block,
        "a": "latency of one message",
        "B": "bytes per second of a host's link",
    }
    # Products are written without a sign: "nB" is n times B.
    words = [w for w in re.findall(r"[A-Za-z_]+", formula) if set(w) <= set("TaBSmnprshdg")]
    used = set("".join(words)) - {k for k in meaning if f", {k} nodes" in formula}
    if used & {"p", "r"}:
        used |= {"n", "p"}
    return {k: text for k, text in meaning.items() if k in used}


@click.command()
def warmup() -> None:
    """Compile all kernels now and keep them for later runs."""
    import netsim as ns

    trace = ns.Trace.from_rows(
        n_ranks=2,
        rows=[
            {"rank": 0, "op": "send", "peer": 1, "bytes": 10**6},
            {"rank": 1, "op": "recv", "peer": 0, "bytes": 10**6},
        ],
    )
    for name in ("dragonfly", "fat_tree", "torus", "star"):
        for routing in (None, "minimal", "ecmp", "ugal-l"):
            ns.replay(trace, topology=ns.topologies.build(name, n_hosts=2), routing=routing)
    click.echo("kernels are ready")


@click.command(short_help="Versions, kernel cache and the MPI of this machine.")
def doctor() -> None:
    """Versions, compiled-kernel cache and the MPI found on this machine."""
    import platform
    import shutil
    from importlib.metadata import PackageNotFoundError, version

    import netsim

    click.echo(f"netsim {netsim.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package in ("numpy", "numba", "pyarrow", "pandas", "scipy", "networkx", "mpi4py"):
        try:
            click.echo(f"{package:<10} {version(package)}")
        except PackageNotFoundError:
            click.echo(
                f"{package:<10} not installed{' (only for recording: pip install netsim-eo[mpi])' if package == 'mpi4py' else ''}"
            )
    from netsim.engine import _kernels

    cache = getattr(getattr(_kernels.advance, "stats", None), "cache_path", None)
    click.echo(
        f"{'kernels':<10} cached in {cache}"
        if cache
        else f"{'kernels':<10} not cached; set NUMBA_CACHE_DIR to a writable folder"
    )
    for tool in ("mpicc", "mpiexec", "cc"):
        click.echo(f"{tool:<10} {shutil.which(tool) or 'not found (only for recording)'}")
