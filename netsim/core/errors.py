"""The errors of netsim: one clear line each, "subject: rule, got value; remedy".

>>> raise InputError("link 3", "capacity must be positive", got=-1.0, remedy="write it as '100Gbps'")
Traceback (most recent call last):
...
netsim.core.errors.InputError: link 3: capacity must be positive, got -1.0; write it as '100Gbps'
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["InputError", "NetsimError", "StuckError", "closest"]

_NOTHING = object()


class NetsimError(Exception):
    """Base of every error netsim raises on purpose.

    Parameters
    ----------
    subject : str
        What the error is about: a file, a link, a rank, an option.
    rule : str
        The rule that was broken.
    got : object, optional
        The offending value.
    remedy : str, optional
        What to do about it.

    Attributes
    ----------
    exit_code : int
        Exit status of the command line when this error ends a run.
    """

    exit_code = 1

    def __init__(self, subject: str, rule: str, *, got: object = _NOTHING, remedy: str | None = None) -> None:
        self.subject = subject
        self.rule = rule
        self.got = None if got is _NOTHING else got
        self.remedy = remedy
        text = f"{subject}: {rule}"
        if got is not _NOTHING:
            text += f", got {got}"
        if remedy:
            text += f"; {remedy}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only parameters would be lost when a worker process sends the error back.
        return (_rebuild, (type(self), self.subject, self.rule, self.args[0], self.got, self.remedy))


def _rebuild(
    cls: type[NetsimError], subject: str, rule: str, text: str, got: object, remedy: str | None
) -> NetsimError:
    error = cls.__new__(cls)
    Exception.__init__(error, text)
    error.subject, error.rule, error.got, error.remedy = subject, rule, got, remedy
    return error


class InputError(NetsimError):
    """The input (a file, a parameter, a combination of them) cannot be used."""

    exit_code = 2


class StuckError(NetsimError):
    """A run that cannot finish: work is left and no event will ever release it.

    Attributes
    ----------
    report : sequence of str
        One line for each thing that waits, and what for.
    """

    exit_code = 3
    report: Sequence[str] = ()


def closest(name: str, valid: Iterable[str]) -> str:
    """Say which names are valid, and which of them was probably meant.

    >>> closest("dragonfy", ["torus", "dragonfly"])
    "did you mean 'dragonfly'? valid: dragonfly, torus"
    """
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}valid: {', '.join(names) if names else '(none)'}"
