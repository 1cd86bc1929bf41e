"""Tables of checks: for a terminal, and for a page of documentation between two marks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netsim.core.errors import InputError

__all__ = ["BEGIN", "END", "Check", "Report", "Table", "write_into"]

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of a table.

    Attributes
    ----------
    name : str
    ok : bool
    cells : tuple of str
        What the table shows.
    expected_s, found_s : float
        Closed form and simulated time; for replays of traces, the lower bound and the makespan; NaN where no times are compared.
    error, limit : float
        Worst error found and what is allowed; NaN where the check is of another kind.
    """

    name: str
    ok: bool
    cells: tuple[str, ...]
    expected_s: float = float("nan")
    found_s: float = float("nan")
    error: float = float("nan")
    limit: float = float("nan")


Table = tuple[str, tuple[str, ...], tuple[Check, ...]]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables of checks.

    Attributes
    ----------
    tables : tuple of (title, head, checks)
    """

    tables: tuple[Table, ...]

    @property
    def ok(self) -> bool:
        """Whether all checks passed."""
        return all(check.ok for _, _, checks in self.tables for check in checks)

    def lines(self) -> list[str]:
        """Tables for a terminal, and how many checks passed."""
        lines = self.plain()
        total = sum(len(checks) for _, _, checks in self.tables)
        failed = [check.name for _, _, checks in self.tables for check in checks if not check.ok]
        lines += [
            "",
            f"{total - len(failed)} of {total} checks passed" + (f"; failed: {', '.join(failed)}" if failed else ""),
        ]
        return lines

    def plain(self) -> list[str]:
        """Tables for a terminal."""
        lines: list[str] = []
        for title, head, checks in self.tables:
            rows = [head, *(check.cells for check in checks)]
            width = [max(len(row[i]) for row in rows) for i in range(len(head))]
            lines += ["", title]
            lines += [
                "  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, width, strict=True)).rstrip() for row in rows
            ]
        return lines

    def markdown(self) -> list[str]:
        """Tables for a page of documentation."""
        lines: list[str] = []
        for title, head, checks in self.tables:
            lines += ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
            lines += ["| " + " | ".join(check.cells) + " |" for check in checks]
        return lines


def write_into(page: Path, report: Report, *, mark: str = "tables", notes: tuple[str, ...] = ()) -> None:
    """Replace what stands between the two marks of a page by the tables of a report, and notes after them.

    Raises
    ------
    InputError
        The page lacks the marks.
    """
    begin_mark, end_mark = (text.replace("tables", mark, 1) for text in (BEGIN, END))
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(begin_mark)
    _, end, tail = rest.partition(end_mark)
    if not begin or not end:
        raise InputError(str(page), f"must hold the lines {begin_mark!r} and {end_mark!r}")
    below = [line for note in notes for line in ("", note)]
    page.write_text("\n".join([head + begin_mark, *report.markdown(), *below, "", end_mark + tail]), encoding="utf-8")
