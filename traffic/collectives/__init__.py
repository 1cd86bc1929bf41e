"""Collectives: algorithms from a ``Call`` to a ``Schedule`` of messages, how libraries choose, and what it costs.

>>> from netsim.traffic.collectives import Call, build, select
>>> call = Call(op="allreduce", n=6, size_bytes=1_000_000)
>>> select(call), build(call, algorithm=select(call)).n_steps
('allreduce/rabenseifner', 6)
"""

from __future__ import annotations

# The four families register themselves.
from netsim.traffic.collectives import exchanges, pipelines, reductions, rooted  # noqa: F401
from netsim.traffic.collectives.call import OPS, PAIR_OPS, ROOTED_OPS, VECTOR_OPS, Call, PairBytes, chunk_bytes
from netsim.traffic.collectives.check import check_schedule, contributions
from netsim.traffic.collectives.explain import Explanation, explain
from netsim.traffic.collectives.registry import (
    Algorithm,
    algorithm,
    algorithms,
    build,
    closed_form_s,
    resolve,
    steady_flows,
)
from netsim.traffic.collectives.rules import Rule, RuleSet, rule_sets, select
from netsim.traffic.collectives.schedule import Schedule, Steps
from netsim.traffic.collectives.steady import Steady

__all__ = [
    "OPS",
    "PAIR_OPS",
    "ROOTED_OPS",
    "VECTOR_OPS",
    "Algorithm",
    "Call",
    "Explanation",
    "PairBytes",
    "Rule",
    "RuleSet",
    "Schedule",
    "Steady",
    "Steps",
    "algorithm",
    "algorithms",
    "build",
    "check_schedule",
    "chunk_bytes",
    "closed_form_s",
    "contributions",
    "explain",
    "resolve",
    "rule_sets",
    "select",
    "steady_flows",
]
