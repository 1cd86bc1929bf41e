"""Words around numbers: the plural of what is counted."""

from __future__ import annotations

__all__ = ["count", "plural"]


def plural(number: float, thing: str, many: str | None = None) -> str:
    """The thing alone, in the singular or plural; of several words the first noun before "of" takes the ending.

    >>> plural(1, "host"), plural(2, "switch"), plural(0, "entry"), plural(3, "pair of ranks")
    ('host', 'switches', 'entries', 'pairs of ranks')
    >>> plural(2, "was", "were")
    'were'
    """
    if number == 1:
        return thing
    if many is not None:
        return many
    head, of, rest = thing.partition(" of ")
    if head.endswith("entry"):
        head = head[:-1] + "ies"
    elif head.endswith("vertex"):
        head = head[:-2] + "ices"
    else:
        head += "es" if head.endswith(("ch", "x", "ss")) else "s"
    return head + of + rest


def count(number: int, thing: str) -> str:
    """A number and its thing.

    >>> count(1, "host"), count(1200, "switch"), count(1, "other kind")
    ('1 host', '1,200 switches', '1 other kind')
    """
    return f"{number:,} {plural(number, thing)}"
