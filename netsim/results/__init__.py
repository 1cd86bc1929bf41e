"""What a run tells: tables of ops, flows, links and ranks, a summary, and the provenance to run it again."""

from __future__ import annotations

from netsim.results.result import Result, read_result
from netsim.results.schema import COLUMNS, data_dictionary

__all__ = ["COLUMNS", "Result", "data_dictionary", "read_result"]
