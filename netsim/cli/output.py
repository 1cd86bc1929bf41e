"""Lines for a terminal: folded to its width, untouched where the output goes to a file or a pipe."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

import click

__all__ = ["folded", "one_line", "show"]


def folded(lines: Iterable[str], width: int, indent: int) -> list[str]:
    """Fold long lines at spaces; what follows is indented.

    >>> folded(["name   a longer text is folded here"], 27, 7)
    ['name   a longer text is', '       folded here']
    """
    out: list[str] = []
    for line in lines:
        if len(line) <= width:
            out.append(line)
            continue
        out += textwrap.wrap(
            line,
            max(width, indent + 20),
            subsequent_indent=" " * indent,
            replace_whitespace=False,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return out


def one_line(text: object) -> str:
    """Text in which names of files and words of the user cannot break the line or steer the terminal.

    >>> one_line("a\\nb\\x1b[1m \u00e9")
    'a\\\\nb\\\\x1b[1m \u00e9'
    """
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in str(text))


def show(lines: Iterable[str], indent: int = 18) -> None:
    """Print lines on standard output."""
    if sys.stdout.isatty():
        lines = folded(lines, shutil.get_terminal_size().columns, indent)
    for line in lines:
        click.echo(one_line(line))
