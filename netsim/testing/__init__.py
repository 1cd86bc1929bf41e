"""Oracles: slow and plain code to check the engine, and your own extensions, against.

`certificate` proves an allocation, `exact_rates` computes it in rational numbers, `lexicographic_rates` by linear programming, and
`exact_simulation` replays a small task graph in rational numbers.
"""

from __future__ import annotations

from netsim.testing.exact import ExactResult, exact_simulation
from netsim.testing.maxmin import Verdict, certificate, exact_rates, lexicographic_rates

__all__ = ["ExactResult", "Verdict", "certificate", "exact_rates", "exact_simulation", "lexicographic_rates"]
