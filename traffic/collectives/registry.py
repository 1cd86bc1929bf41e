"""The registry of algorithms, and how one is named, looked up and run.

An algorithm is a function from a ``Call`` to a ``Schedule``. Its keyword-only parameters are whole numbers and can
be set in its name: ``"bcast/chain(segments=10)"``.

>>> import numpy as np
>>> from netsim.traffic.collectives import Call, Schedule, Steps, algorithm, algorithms, build, check_schedule
>>> @algorithm("allreduce/via_member_0", formula="T = 2(a + (n-1)S/B)", source="this example",
...            cost=lambda call: (2, 2 * (call.n - 1) * call.size_bytes))
... def via_member_0(call: Call) -> Schedule:
...     '''Everybody sends to member 0, which sends the sum to everybody.'''
...     steps, others = Steps(call), np.arange(1, call.n)
...     steps.add(src=others, dst=0, combine=True)
...     steps.add(src=0, dst=others)
...     return steps.schedule()
>>> check_schedule(build(Call(op="allreduce", n=5, size_bytes=10), algorithm="via_member_0"))
>>> "allreduce/via_member_0" in algorithms
True
>>> algorithms.unregister("allreduce/via_member_0")
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from netsim.core.errors import InputError, closest
from netsim.core.registry import Registry
from netsim.traffic.collectives.call import OPS, Call
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.steady import Steady

__all__ = ["Algorithm", "Cost", "algorithm", "algorithms", "build", "closed_form_s", "resolve", "steady_flows"]

Cost = Callable[..., "tuple[float, float] | None"]
_SPEC = re.compile(r"\s*([A-Za-z0-9_/.-]+)\s*(?:\(\s*(.*?)\s*\))?\s*")


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One registered algorithm.

    Attributes
    ----------
    name : str
        ``"operation/name"``.
    make : callable
        ``make(call, **parameters) -> Schedule``; never called for one member.
    formula : str
        Time on a non-blocking star: a = latency, B = bytes/s of a member, S = vector, m = block, n = members, p =
        largest power of two not above n, r = n - p.
    source : str
        Paper or library, with section or version.
    cost : callable, optional
        ``cost(call, **parameters)`` gives the closed form as (number of latencies, bytes sent one after the other),
        or None where this call has none (unequal blocks).
    steady : callable, optional
        ``steady(call, **parameters)`` gives the same bytes as flows without steps, for schedules in which all members are
        busy in every step.
    """

    name: str
    make: Callable[..., Schedule]
    formula: str
    source: str
    cost: Cost | None = None
    steady: Callable[..., Steady] | None = None

    def __post_init__(self) -> None:
        if self.op not in OPS or "/" not in self.name:
            raise InputError(
                f"collective algorithm {self.name!r}",
                "the name must be 'operation/name'",
                remedy=closest(self.op, OPS),
            )

    @property
    def op(self) -> str:
        """The operation it performs."""
        return self.name.partition("/")[0]

    @property
    def summary(self) -> str:
        """First line of its documentation."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    @property
    def parameters(self) -> Mapping[str, int | None]:
        """Parameters and their defaults; None: derived from the call, or required."""
        signature = inspect.signature(self.make).parameters.values()
        return MappingProxyType({p.name: p.default for p in signature if p.kind is p.KEYWORD_ONLY})

    def checked(self, call: Call, parameters: Mapping[str, int]) -> None:
        """Raise ``InputError`` unless this algorithm can run the call with these parameters."""
        if call.op != self.op:
            raise InputError(f"collective algorithm {self.name!r}", f"performs {self.op}", got=repr(call.op))
        for name, value in parameters.items():
            if name not in self.parameters:
                raise InputError(
                    f"collective algorithm {self.name!r}",
                    "unknown parameter",
                    got=repr(name),
                    remedy=closest(name, self.parameters),
                )
            if value < 1:
                raise InputError(f"collective algorithm {self.name!r}", f"{name} must be 1 or more", got=value)

    def __call__(self, call: Call, **parameters: int) -> Schedule:
        """Run it."""
        self.checked(call, parameters)
        schedule = Steps(call).schedule() if call.n == 1 else self.make(call, **parameters)
        listed = ",".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        return dataclasses.replace(schedule, algorithm=f"{self.name}({listed})" if listed else self.name)


class _Algorithms(Registry[Algorithm]):
    """The registry; a name can be taken back, for tests and interactive work."""

    def unregister(self, name: str) -> None:
        """Forget a name."""
        del self._items[self[name].name]


algorithms = _Algorithms("collective algorithm", "netsim.collectives")
"""All algorithms by name. Other packages add theirs with entry points of the group ``netsim.collectives``: name
``operation/name``, object an ``Algorithm`` (what the decorator ``algorithm`` returns)."""


def algorithm(
    *names: str,
    formula: str,
    source: str,
    cost: Cost | None = None,
    steady: Callable[..., Steady] | None = None,
) -> Callable[[Callable[..., Schedule]], Algorithm]:
    """Decorator: register a function under one or more names; see ``Algorithm`` for the arguments."""

    def add(make: Callable[..., Schedule]) -> Algorithm:
        made = [
            Algorithm(name=name, make=make, formula=formula, source=source, cost=cost, steady=steady) for name in names
        ]
        for item in made:
            algorithms.register(item.name)(item)
        return made[0]

    return add


def resolve(*, op: str, algorithm: str) -> tuple[Algorithm, dict[str, int]]:
    """Look up ``"ring"``, ``"allreduce/ring"`` or ``"chain(segments=10)"``: algorithm and parameters.

    >>> found, parameters = resolve(op="bcast", algorithm="chain(segments=10)")
    >>> found.name, parameters
    ('bcast/chain', {'segments': 10})
    """
    match = _SPEC.fullmatch(algorithm)
    if match is None:
        raise InputError(
            "collective algorithm",
            "must be a name",
            got=repr(algorithm),
            remedy="write e.g. 'chain' or 'chain(segments=10)'",
        )
    name, listed = match.group(1), match.group(2)
    parameters: dict[str, int] = {}
    for part in (listed or "").split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key and not equals:
            continue
        if not (key.isidentifier() and value.isdecimal()):
            raise InputError(
                f"collective algorithm {name!r}",
                "parameters are whole numbers",
                got=repr(part.strip()),
                remedy="write e.g. 'chain(segments=10)'",
            )
        parameters[key] = int(value)
    if "/" not in name:
        short = {full.partition("/")[2]: full for full in algorithms if full.startswith(f"{op}/")}
        if name not in short:
            raise InputError(
                f"collective algorithm for {op}", "unknown name", got=repr(name), remedy=closest(name, short)
            )
        name = short[name]
    return algorithms[name], parameters


def build(call: Call, *, algorithm: str) -> Schedule:
    """The schedule of a call by a named algorithm. Callers that repeat calls cache by ``(call, algorithm)``.

    Raises
    ------
    InputError
        Unknown name or parameter, or an algorithm that does not serve this call.

    Examples
    --------
    >>> schedule = build(Call(op="allreduce", n=3, size_bytes=10), algorithm="ring")
    >>> schedule.n_steps, schedule.total_bytes, schedule.size_bytes[:3].tolist()
    (4, 40, [3, 4, 3])
    """
    found, parameters = resolve(op=call.op, algorithm=algorithm)
    return found(call, **parameters)


def steady_flows(call: Call, *, algorithm: str) -> Steady | None:
    """The call as flows without steps, or None where the algorithm has no such form (or there is one member).

    Examples
    --------
    >>> steady_flows(Call(op="alltoall", n=3, size_bytes=9), algorithm="pairwise").size_bytes.tolist()
    [3, 3, 3, 3, 3, 3]
    """
    found, parameters = resolve(op=call.op, algorithm=algorithm)
    found.checked(call, parameters)
    return None if found.steady is None or call.n == 1 else found.steady(call, **parameters)


def closed_form_s(call: Call, *, algorithm: str, alpha_s: float, bytes_per_s: float) -> float:
    """Time of a call on a non-blocking star, by the closed form of the algorithm, in seconds.

    Each member has one full-duplex link of ``bytes_per_s``; a message is delivered ``alpha_s`` after its last byte
    was sent; steps are synchronous as ``Schedule`` says. Exact when the vector divides evenly into the blocks of the
    algorithm.

    Raises
    ------
    InputError
        The algorithm has no closed form for this call.

    Examples
    --------
    >>> call = Call(op="allreduce", n=8, size_bytes=1_000_000)
    >>> round(closed_form_s(call, algorithm="ring", alpha_s=1e-6, bytes_per_s=10e9) * 1e6, 6)
    189.0
    """
    found, parameters = resolve(op=call.op, algorithm=algorithm)
    found.checked(call, parameters)
    if call.n == 1:
        return 0.0
    terms = None if found.cost is None else found.cost(call, **parameters)
    if terms is None:
        raise InputError(
            f"collective algorithm {found.name!r}",
            f"has no closed form for this call of {call.n} members",
            remedy="simulate its schedule on a star",
        )
    return float(np.float64(terms[0]) * alpha_s + np.float64(terms[1]) / bytes_per_s)
