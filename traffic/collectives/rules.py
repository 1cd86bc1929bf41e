"""Which algorithm a library takes: its decision rules as tables, first match wins.

The thresholds are facts read from the libraries' sources, or, where a row says so, known from memory only. Tuning
files, hardware offload and shared-memory paths of the libraries are not modelled: communicators are flat, operations
commutative and built in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from netsim.core.errors import InputError
from netsim.core.registry import Registry
from netsim.traffic.collectives.call import Call
from netsim.traffic.collectives.nccl import NcclModel

__all__ = ["Rule", "RuleSet", "Selector", "rule_sets", "select"]

Selector = Callable[[Call, int], str]
"""Anything that names an algorithm for a call and an element size in bytes: a ``RuleSet`` or a function."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row: an algorithm and the conditions under which it is taken; a condition left out always holds.

    Attributes
    ----------
    op, algorithm : str
        Algorithm without the operation, with parameters if need be.
    max_bytes : int, optional
        Largest size, inclusive, of what ``measure`` says.
    measure : str
        ``"block"``: what one member exchanges with one other (gather, scatter, allgather, reduce_scatter, alltoall;
        the mean if they differ); ``"total"``: the blocks of all members together. For vectors both are the vector.
    min_n, max_n : int, optional
        Numbers of members, inclusive.
    power_of_two, even : bool, optional
        What n must, or must not, be.
    n_below, n_above : (float, float), optional
        (x, y): n < x * size + y, or n > x * size + y, size as in ``measure``.
    min_elements : str
        ``"p"``: at least as many elements as the largest power of two not above n; ``"n+1"``: more elements than
        members.
    note : str
        What is not certain about the row.
    """

    op: str
    algorithm: str
    max_bytes: int | None = None
    measure: str = "block"
    min_n: int = 1
    max_n: int | None = None
    power_of_two: bool | None = None
    even: bool | None = None
    n_below: tuple[float, float] | None = None
    n_above: tuple[float, float] | None = None
    min_elements: str = ""
    note: str = ""

    def holds(self, call: Call, element_bytes: int) -> bool:
        """Is this the row for the call?"""
        n = call.n
        size = _size(call, self.measure)
        elements = call.size_bytes // element_bytes
        return (
            call.op == self.op
            and (self.max_bytes is None or size <= self.max_bytes)
            and n >= self.min_n
            and (self.max_n is None or n <= self.max_n)
            and (self.power_of_two is None or (n & (n - 1) == 0) is self.power_of_two)
            and (self.even is None or (n % 2 == 0) is self.even)
            and (self.n_below is None or n < self.n_below[0] * size + self.n_below[1])
            and (self.n_above is None or n > self.n_above[0] * size + self.n_above[1])
            and (self.min_elements != "p" or elements >= 1 << (n.bit_length() - 1))
            and (self.min_elements != "n+1" or elements > n)
        )


def _size(call: Call, measure: str) -> float:
    if call.pairs is not None:
        return int(call.pairs.size_bytes.sum()) / (1 if measure == "total" else call.n * call.n)
    if call.op == "alltoall":
        return call.size_bytes if measure == "total" else call.size_bytes / call.n
    if call.op in ("gather", "scatter", "allgather", "reduce_scatter", "gatherv", "scatterv", "allgatherv"):
        total = int(call.blocks.sum())
        return total if measure == "total" else total / call.n
    return call.size_bytes


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """The table of one library.

    Attributes
    ----------
    name, version, source : str
        Library, version the facts are from, and where they were read.
    rules : tuple of Rule
    fallback : str
        Rule set asked for operations this one has no rows for.
    """

    name: str
    version: str
    source: str
    rules: tuple[Rule, ...]
    fallback: str = ""
    model: NcclModel | None = field(default=None)

    def __call__(self, call: Call, element_bytes: int) -> str:
        """Name of the algorithm, ``"operation/name(parameters)"``."""
        if self.model is not None and call.op == "allreduce":
            return self.model.choose(call)
        for rule in self.rules:
            if rule.holds(call, element_bytes):
                return f"{call.op}/{rule.algorithm}"
        if not self.fallback:
            raise InputError(
                f"selection rules {self.name!r}",
                f"no row for {call.op} on {call.n} members",
                remedy="add one, or name an algorithm",
            )
        return rule_sets[self.fallback](call, element_bytes)


rule_sets: Registry[Selector] = Registry("selection rules", "netsim.collective_rules")
"""Rule sets by name; other packages add theirs with entry points of the group ``netsim.collective_rules``."""


def select(call: Call, *, rules: str | Selector = "mpich", element_bytes: int = 8) -> str:
    """The algorithm that a library would take for a call.

    Parameters
    ----------
    call : Call
    rules : str or callable
        Name in ``rule_sets`` (``"mpich"``, ``"openmpi"``, ``"nccl"``), or a ``RuleSet`` or a function.
    element_bytes : int
        Size of one element: libraries do not cut vectors with fewer elements than members.

    Examples
    --------
    >>> select(Call(op="bcast", n=16, size_bytes=100_000))
    'bcast/scatter_recursive_doubling'
    >>> select(Call(op="bcast", n=16, size_bytes=100_000), rules="openmpi")
    'bcast/split_binary(segment_bytes=1024)'
    """
    if element_bytes < 1:
        raise InputError("select", "element_bytes must be 1 or more", got=element_bytes)
    return (rule_sets[rules] if isinstance(rules, str) else rules)(call, element_bytes)


_MEMORY = "from memory"

_MPICH = RuleSet(
    name="mpich",
    version="MPICH 3.x to 4.x",
    source="default values of the control variables, and src/mpi/coll/coll_selection.json @07f13b4; allreduce there "
    "switches at 8 B, here at MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE = 2048; hierarchical (SMP) variants are left out",
    rules=(
        Rule(op="barrier", algorithm="dissemination"),
        Rule(op="bcast", algorithm="binomial", max_n=7),
        Rule(op="bcast", algorithm="binomial", max_bytes=12287),
        Rule(op="bcast", algorithm="scatter_recursive_doubling", max_bytes=524287, power_of_two=True),
        Rule(op="bcast", algorithm="scatter_ring"),
        Rule(op="reduce", algorithm="binomial", max_bytes=2048),
        Rule(op="reduce", algorithm="rabenseifner", min_elements="p"),
        Rule(op="reduce", algorithm="binomial"),
        Rule(op="allreduce", algorithm="recursive_doubling", max_bytes=2048),
        Rule(op="allreduce", algorithm="rabenseifner", min_elements="p"),
        Rule(op="allreduce", algorithm="recursive_doubling"),
        Rule(op="gather", algorithm="binomial"),
        Rule(op="scatter", algorithm="binomial"),
        Rule(op="gatherv", algorithm="linear"),
        Rule(op="scatterv", algorithm="linear"),
        *(
            rule
            for op in ("allgather", "allgatherv")
            for rule in (
                Rule(op=op, algorithm="recursive_doubling", max_bytes=524287, measure="total", power_of_two=True),
                Rule(op=op, algorithm="bruck", max_bytes=81919, measure="total", power_of_two=False),
                Rule(op=op, algorithm="ring"),
            )
        ),
        Rule(op="reduce_scatter", algorithm="recursive_halving", max_bytes=524287, measure="total"),
        Rule(op="reduce_scatter", algorithm="pairwise"),
        Rule(op="alltoall", algorithm="bruck", max_bytes=256, min_n=8),
        Rule(op="alltoall", algorithm="scattered(throttle=32)", max_bytes=32768),
        Rule(op="alltoall", algorithm="pairwise"),
        Rule(op="alltoallv", algorithm="scattered(throttle=32)"),
        Rule(op="scan", algorithm="recursive_doubling"),
        Rule(op="exscan", algorithm="recursive_doubling"),
        Rule(op="neighbor_allgather", algorithm="direct"),
        Rule(op="neighbor_alltoall", algorithm="direct"),
    ),
)

_OPEN_MPI = RuleSet(
    name="openmpi",
    version="Open MPI 1.3",
    source="fixed decisions of coll/tuned, coll_tuned_decision_fixed.c @010080e (measured there on 64 nodes "
    "with Myrinet); newer releases have larger tables with other thresholds",
    rules=(
        Rule(op="barrier", algorithm="recursive_doubling", power_of_two=True),
        Rule(op="barrier", algorithm="dissemination"),
        Rule(op="bcast", algorithm="binomial", max_bytes=2047),
        Rule(op="bcast", algorithm="split_binary(segment_bytes=1024)", max_bytes=370727),
        Rule(op="bcast", algorithm="chain(segment_bytes=131072)", n_below=(1.6134e-6, 2.1102)),
        Rule(op="bcast", algorithm="split_binary(segment_bytes=8192)", max_n=12),
        Rule(op="bcast", algorithm="chain(segment_bytes=65536)", n_below=(2.3679e-6, 1.1787)),
        Rule(op="bcast", algorithm="chain(segment_bytes=16384)", n_below=(3.2118e-6, 8.7936)),
        Rule(op="bcast", algorithm="chain(segment_bytes=8192)"),
        Rule(op="reduce", algorithm="linear", max_bytes=511, max_n=7),
        Rule(op="reduce", algorithm="binomial", max_bytes=20479, max_n=7),
        Rule(op="reduce", algorithm="binary(segments=1)", max_bytes=2047),
        Rule(op="reduce", algorithm="binary(segment_bytes=1024)", n_above=(0.6016 / 1024, 1.3496)),
        Rule(op="reduce", algorithm="chain(segment_bytes=1024)", n_above=(0.0410 / 1024, 9.7128)),
        Rule(op="reduce", algorithm="chain(segment_bytes=32768)", n_above=(0.0422 / 1024, 1.1614)),
        Rule(op="reduce", algorithm="chain(segment_bytes=32768)", n_above=(0.0033 / 1024, 1.6761)),
        Rule(op="reduce", algorithm="chain(segment_bytes=65536)"),
        Rule(op="allreduce", algorithm="recursive_doubling", max_bytes=9999),
        # Rings only with more elements than members; the segmented one when a chunk exceeds 1 MiB: n < size / 1 MiB.
        Rule(
            op="allreduce", algorithm="ring_segmented(segment_bytes=1048576)", n_below=(2.0**-20, 0), min_elements="n+1"
        ),
        Rule(op="allreduce", algorithm="ring", min_elements="n+1"),
        Rule(op="allreduce", algorithm="reduce_bcast", note="the library uses its own reduce and bcast decisions here"),
        Rule(op="gather", algorithm="linear"),
        Rule(op="scatter", algorithm="linear"),
        Rule(op="gatherv", algorithm="linear", note=_MEMORY),
        Rule(op="scatterv", algorithm="linear", note=_MEMORY),
        Rule(op="allgather", algorithm="recursive_doubling", max_n=2),
        Rule(op="allgather", algorithm="recursive_doubling", max_bytes=49999, measure="total", power_of_two=True),
        Rule(op="allgather", algorithm="bruck", max_bytes=49999, measure="total"),
        Rule(op="allgather", algorithm="neighbor_exchange", even=True),
        Rule(op="allgather", algorithm="ring"),
        Rule(op="allgatherv", algorithm="ring", note=_MEMORY),
        Rule(op="reduce_scatter", algorithm="recursive_halving", max_bytes=12 * 1024, measure="total"),
        Rule(
            op="reduce_scatter", algorithm="recursive_halving", max_bytes=256 * 1024, measure="total", power_of_two=True
        ),
        Rule(
            op="reduce_scatter",
            algorithm="recursive_halving",
            measure="total",
            n_above=(0.0012, 8.0),
            note="the library also takes it at equality",
        ),
        Rule(op="reduce_scatter", algorithm="ring"),
        Rule(op="alltoall", algorithm="pairwise", max_n=2),
        Rule(op="alltoall", algorithm="bruck", max_bytes=199, min_n=13),
        Rule(op="alltoall", algorithm="linear", max_bytes=2999),
        Rule(op="alltoall", algorithm="pairwise"),
        Rule(op="alltoallv", algorithm="pairwise", note=_MEMORY),
        Rule(op="scan", algorithm="linear", note=_MEMORY),
        Rule(op="exscan", algorithm="linear", note=_MEMORY),
        Rule(op="neighbor_allgather", algorithm="direct", note=_MEMORY),
        Rule(op="neighbor_alltoall", algorithm="direct", note=_MEMORY),
    ),
)

_NCCL = RuleSet(
    name="nccl",
    version="NCCL 2.8",
    source="cost model of src/graph/tuning.cc @01afd20 for allreduce; the other collectives had only the ring; "
    "operations made of grouped send and receive are linear; anything else is left to the MPICH rules",
    model=NcclModel(),
    fallback="mpich",
    rules=(
        Rule(op="bcast", algorithm="nccl_ring"),
        Rule(op="reduce", algorithm="nccl_ring"),
        Rule(op="allgather", algorithm="nccl_ring"),
        Rule(op="reduce_scatter", algorithm="nccl_ring"),
        Rule(op="alltoall", algorithm="linear"),
        Rule(op="alltoallv", algorithm="linear"),
        Rule(op="gather", algorithm="linear"),
        Rule(op="scatter", algorithm="linear"),
    ),
)

for _rules in (_MPICH, _OPEN_MPI, _NCCL):
    rule_sets.register(_rules.name)(_rules)
