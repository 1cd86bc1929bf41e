"""What lowering approximated, assumed or found odd: counted, named, never silent."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Note", "NoteBook"]


@dataclass(frozen=True, kw_only=True)
class Note:
    """One line of the account.

    Attributes
    ----------
    kind : str
        Stable name for scripts, for example ``orphan_eager_sends``.
    count : int
        How many rows, messages or collectives it concerns.
    text : str
        What was found and what was done about it, for people.

    Examples
    --------
    >>> print(Note(kind="orphan_eager_sends", count=3, text="eager sends without a receive: they complete"))
    3 eager sends without a receive: they complete
    """

    kind: str
    count: int
    text: str

    def __str__(self) -> str:
        return f"{self.count} {self.text}"


class NoteBook:
    """Collects notes; counts of the same kind add up, zero counts leave no note."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    def add(self, kind: str, count: int, text: str) -> None:
        """Count something."""
        if count:
            self._counts[kind] = self._counts.get(kind, 0) + int(count)
            self._texts.setdefault(kind, text)

    def notes(self) -> tuple[Note, ...]:
        """All notes, in the order of their first count."""
        return tuple(Note(kind=kind, count=count, text=self._texts[kind]) for kind, count in self._counts.items())
