"""Option types shared by commands: quantities with units, key=value lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from netsim.core.errors import InputError, closest
from netsim.core.units import parse_bytes, parse_part, parse_rate, parse_time

__all__ = ["NUMBER", "PART", "PATH", "RATE", "SIZE", "TEXT", "TIME", "WHOLE", "Choice", "key_values"]


class _Quantity(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    def __init__(self, name: str, parse: Callable[..., Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return self._parse(value, subject=f"option {param.opts[-1]}" if param is not None else self.name)


class _NotEmpty(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Text that says something: an empty word is nearly always a shell variable that was not set."""

    def __init__(self, name: str, rule: str) -> None:
        self.name = name
        self._rule = rule

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.strip():
            subject = self.name
            if param is not None:
                subject = (
                    f"option {param.opts[-1]}" if isinstance(param, click.Option) else f"{param.human_readable_name}"
                )
            raise InputError(subject, self._rule, got=repr(value))
        return value


class _Number(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number, refused in the form of all other errors."""

    def __init__(self, name: str, kind: type[int] | type[float], rule: str) -> None:
        self.name = name
        self._kind = kind
        self._rule = rule

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind(value)
        except (ValueError, OverflowError):
            subject = f"option {param.opts[0]}" if param is not None else self.name
            raise InputError(subject, self._rule, got=repr(shortened(value))) from None


class Choice(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """One of some words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, or an error that names all."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            subject = f"option {param.opts[0]}" if param is not None else "value"
            raise InputError(
                subject, "unknown value", got=repr(value), remedy=closest(str(value), [str(c) for c in self.choices])
            ) from None


def shortened(value: object, most: int = 40) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 3] + "..."


TEXT = _NotEmpty("text", "must be a name")
PATH = _NotEmpty("path", "must be a path")
SIZE = _Quantity("size", parse_bytes)
RATE = _Quantity("rate", parse_rate)
PART = _Quantity("part", parse_part)
TIME = _Quantity("time", parse_time)
WHOLE = _Number("integer", int, "must be a whole number")
NUMBER = _Number("float", float, "must be a number")


def key_values(words: Iterable[str], option: str) -> dict[str, str]:
    """``["p=4", "a=8"]`` as a dictionary.

    >>> key_values(["p=4", "a=8"], "-p")
    {'p': '4', 'a': '8'}
    """
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise InputError(f"option {option}", "must be NAME=VALUE", got=repr(word))
        if key in pairs:
            raise InputError(f"option {option}", f"{key} was given twice", got=f"{pairs[key]!r} and {value!r}")
        pairs[key] = value
    return pairs
