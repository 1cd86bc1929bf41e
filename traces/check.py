"""Integrity of a trace across ranks: do the calls fit together? Names the first offender, counts the rest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.traces._validate import validate
from netsim.traces.trace import Trace

__all__ = ["CheckReport", "Finding", "check_trace"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One rule that a trace breaks.

    Attributes
    ----------
    rule : str
        Name of the rule.
    severity : str
        ``error``: the trace cannot be replayed as it is; ``warning``: it can, with the loss described.
    count : int
        How many offenders.
    first : str
        The first of them.
    """

    rule: str
    severity: str
    count: int
    first: str


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """What ``check_trace`` found.

    Attributes
    ----------
    findings : tuple of Finding
        Errors first.
    rules : tuple of str
        All rules that were checked.
    n_rows, n_ranks : int
    """

    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    n_rows: int
    n_ranks: int

    @property
    def ok(self) -> bool:
        """No errors; there may be warnings."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that are errors."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for ``json.dumps``."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> list[str]:
        """The report for a terminal."""
        errors = len(self.errors)
        warnings = len(self.findings) - errors
        head = f"{count(self.n_rows, 'row')} of {count(self.n_ranks, 'rank')}, {count(len(self.rules), 'rule')}: "
        if not self.findings:
            return [head + "all hold"]
        parts = [count(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n]
        out = [head + ", ".join(parts)]
        for f in self.findings:
            more = f" (and {f.count - 1:,} more)" if f.count > 1 else ""
            out.append(f"  {f.severity} {f.rule}: {f.first}{more}")
        return out


def check_trace(trace: Trace, *, max_duration_s: float = 86400.0) -> CheckReport:
    """Check that the calls of all ranks fit together.

    Rules for calls: every collective instance has one operation on all members, one root, agreeing sizes and vectors,
    and what one member of an irregular all-to-all sends is what the other expects; per source, destination,
    communicator and tag there are as many sends as receives, of fitting sizes; waits complete requests, each once;
    clocks do not run backwards and durations are believable; explicit edges form no cycle.

    Parameters
    ----------
    trace : Trace
    max_duration_s : float
        A call that lasted longer, or local work before a call, is reported as absurd.

    Returns
    -------
    CheckReport

    Examples
    --------
    >>> trace = Trace.from_rows(n_ranks=4, rows=[
    ...     {"rank": r, "op": "allgather", "bytes": 8} for r in (0, 0, 1, 1, 2, 3)])
    >>> for line in check_trace(trace).lines(): print(line)
    6 rows of 4 ranks, 23 rules: 1 error
      error collective-members: comm 0 (WORLD): allgather called 2 times by ranks 0-1, but once by ranks 2-3
    """
    from netsim.traces import _rules

    try:
        validate(trace)
    except InputError as error:
        broken = Finding(rule="schema", severity="error", count=1, first=str(error))
        return CheckReport(findings=(broken,), rules=("schema",), n_rows=trace.n_rows, n_ranks=trace.n_ranks)
    rules = ["schema", "empty"]
    findings: list[Finding] = []
    if trace.n_rows == 0:
        findings.append(Finding(rule="empty", severity="warning", count=1, first="no rows: nothing was communicated"))
    for names, rule in _rules.RULES[trace.profile]:
        rules += names
        if trace.n_rows:
            findings += [
                Finding(rule=r, severity=s, count=n, first=text) for r, s, n, text in rule(trace, max_duration_s)
            ]
    findings.sort(key=lambda f: (f.severity != "error", rules.index(f.rule)))
    return CheckReport(findings=tuple(findings), rules=tuple(rules), n_rows=trace.n_rows, n_ranks=trace.n_ranks)
