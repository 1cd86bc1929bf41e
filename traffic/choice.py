"""Which algorithm performs a collective: a rule set of a library, or what the user names per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netsim.core.errors import InputError, closest
from netsim.traffic.collectives import OPS, Call, algorithms, resolve, select
from netsim.traffic.notes import NoteBook

__all__ = ["chooser"]

_IRREGULAR = {"gatherv": "gather", "scatterv": "scatter", "allgatherv": "allgather", "alltoallv": "alltoall"}


def chooser(rules: str | Mapping[str, str], notes: NoteBook) -> Callable[[Call, int], str]:
    """A function from a call, and how many collectives make it, to the name of an algorithm.

    Parameters
    ----------
    rules : str or mapping of str to str
        See ``netsim.traffic.lower``.
    notes : NoteBook
        Counts the collectives that the named algorithm does not serve in their irregular form.

    Raises
    ------
    InputError
        Unknown operation, algorithm or rule set.

    Examples
    --------
    >>> choose = chooser({"allreduce": "ring"}, NoteBook())
    >>> choose(Call(op="allreduce", n=8, size_bytes=64), 1), choose(Call(op="barrier", n=8), 1)
    ('ring', 'barrier/dissemination')
    """
    if isinstance(rules, str):
        select(Call(op="barrier", n=2), rules=rules)  # an unknown name is an error even if no collective follows
        return lambda call, count: select(call, rules=rules)
    named = dict(rules)
    default = named.pop("rules", "mpich")
    select(Call(op="barrier", n=2), rules=default)
    for op, name in named.items():
        if op not in OPS:
            raise InputError("collectives", "unknown operation", got=repr(op), remedy=closest(op, (*OPS, "rules")))
        resolve(op=op, algorithm=name)

    def choose(call: Call, count: int) -> str:
        name = named.get(call.op)
        regular = _IRREGULAR.get(call.op)
        if name is None and regular in named:
            wanted = named[regular].partition("/")[2] or named[regular]
            if f"{call.op}/{wanted.partition('(')[0].strip()}" in algorithms:
                return wanted
            notes.add(
                "algorithm_not_for_irregular",
                count,
                "irregular collectives that the named algorithm does not serve: performed by the default rules",
            )
        return name if name is not None else select(call, rules=default)

    return choose
