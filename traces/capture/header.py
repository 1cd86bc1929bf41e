"""Prototypes of an installed MPI, taken from what its compiler makes of ``#include <mpi.h>``.

>>> text = "extern int MPI_Send(const void *buf, int count, MPI_Datatype t, int dest, int tag, MPI_Comm comm) ;"
>>> [function] = parse_prototypes(text)
>>> function.name, function.parameters[0], function.parameters[2]
('MPI_Send', Parameter(type='const void *', suffix=''), Parameter(type='MPI_Datatype', suffix=''))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Parameter", "Prototype", "parse_prototypes"]

_WORDS = frozenset({"int", "char", "void", "long", "short", "unsigned", "signed", "float", "double", "const"})
_FUNCTION = re.compile(r"\bint\s+(MPIX?_[A-Za-z]\w*)\s*\(")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(")


@dataclass(frozen=True)
class Parameter:
    """One parameter: ``type name suffix``, for example ``const int counts[]``."""

    type: str
    suffix: str

    def declare(self, name: str) -> str:
        """The declaration under another name."""
        if "(*" in self.type:  # pointer to function, written in place
            return self.type.replace("(*", f"(*{name}", 1)
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{name}{self.suffix}"


@dataclass(frozen=True)
class Prototype:
    """A function that returns ``int`` (all of MPI that can communicate does)."""

    name: str
    parameters: tuple[Parameter, ...]
    variadic: bool = False


def _closing(text: str, start: int) -> int:
    """Position after the parenthesis that closes the one before ``start``."""
    depth = 1
    while depth and start < len(text):
        depth += (text[start] == "(") - (text[start] == ")")
        start += 1
    return start


def _without_attributes(text: str) -> str:
    parts, at = [], 0
    while match := _ATTRIBUTE.search(text, at):
        parts.append(text[at : match.start()])
        at = _closing(text, match.start() + text[match.start() :].index("(") + 1)
    parts.append(text[at:])
    return " ".join(parts)


def _split(parameters: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(parameters):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append(parameters[start:i])
            start = i + 1
    return [part.strip() for part in [*parts, parameters[start:]] if part.strip() not in ("", "void")]


def _parameter(text: str) -> Parameter:
    if "(*" in text or re.search(r"\(\s*\*", text):
        return Parameter(re.sub(r"\(\s*\*\s*\w*", "(*", text, count=1), "")
    match = re.fullmatch(r"(.*?)((?:\s*\[[^\]]*\])*)", text, re.DOTALL)
    assert match is not None
    head, suffix = match.group(1).strip(), "".join(match.group(2).split())
    named = re.fullmatch(r"(.*[\s*])([A-Za-z_]\w*)", head, re.DOTALL)
    if named and named.group(2) not in _WORDS:
        head = named.group(1).strip()
    return Parameter(" ".join(head.split()), suffix)


def parse_prototypes(text: str) -> list[Prototype]:
    """All ``int MPI_...(...)`` and ``int MPIX_...(...)`` in preprocessed C, in the order of their names.

    Parameters
    ----------
    text : str
        Output of ``mpicc -E``.

    Returns
    -------
    list of Prototype
    """
    text = re.sub(r"^#[^\n]*$", "", text, flags=re.MULTILINE)
    text = _without_attributes(text)
    found: dict[str, Prototype] = {}
    for match in _FUNCTION.finditer(text):
        if text[max(0, match.start() - 60) : match.start()].rstrip().endswith("typedef"):
            continue
        end = _closing(text, match.end())
        if not re.match(r"\s*;", text[end : end + 200]):
            continue
        parts = _split(text[match.end() : end - 1])
        variadic = bool(parts) and parts[-1] == "..."
        parameters = tuple(_parameter(part) for part in parts if part != "...")
        found.setdefault(match.group(1), Prototype(match.group(1), parameters, variadic))
    return [found[name] for name in sorted(found)]
