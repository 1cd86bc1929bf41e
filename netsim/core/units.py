"""Quantities with units: people write "400Gbps", "50GB/s", "1us", "16KiB"; inside are bytes, bytes per second, seconds.

The factor 8 between bits and bytes occurs in this file only. Prefixes are decimal (k, M, G, T = powers of 1000) or binary
(Ki, Mi, Gi, Ti = powers of 1024). A bare number, or a unit that could mean two things, is an error that names the choices.
"""

from __future__ import annotations

import math
import re
from typing import Any

from netsim.core.errors import InputError

__all__ = [
    "format_bytes",
    "format_rate",
    "format_time",
    "from_gbps",
    "parse_bytes",
    "parse_part",
    "parse_rate",
    "parse_time",
    "to_gbps",
]

BITS_PER_BYTE = 8

_PREFIX = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}
_TIME = {"ps": 1e12, "ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, "min": 1 / 60.0, "h": 1 / 3600.0}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|nan)\s*(.*?)\s*", re.IGNORECASE)
_RATE = re.compile(r"(Ki|Mi|Gi|Ti|Pi|[kKMGTP]?)(?:(bps|bit/s|b/s)|(Bps|B/s))")
_SIZE = re.compile(r"(Ki|Mi|Gi|Ti|Pi|[kKMGTP]?)B")


def _split(text: str, subject: str, kind: str, default: str, units: tuple[str, str]) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    # The remedy repeats the number of the user where there is a usable one.
    shown = match.group(1) if match is not None and match.group(1)[0] not in "-+iInN" else default
    choices = f"'{shown}{units[0]}' or '{shown}{units[1]}'"
    if match is None:
        raise InputError(
            subject, f"must be a number with a unit of {kind}", got=repr(text), remedy=f"write e.g. {choices}"
        )
    value = float(match.group(1))
    if math.isnan(value) or value < 0:
        raise InputError(subject, f"{kind} must not be negative or NaN", got=repr(text), remedy=f"write e.g. {choices}")
    if not match.group(2):
        if value == 0:
            # Nothing is nothing in any unit.
            return 0.0, units[1]
        raise InputError(
            subject, f"a bare number could mean several units of {kind}", got=repr(text), remedy=f"write {choices}"
        )
    return value, match.group(2)


def parse_rate(value: str | float, *, subject: str = "rate") -> float:
    """Bytes per second from text such as ``"400Gbps"`` (bits) or ``"50GB/s"`` (bytes).

    A float is taken as bytes per second already: that is the Python API's unit.

    >>> parse_rate("100Gbps"), parse_rate("100GB/s"), parse_rate("100GiB/s"), parse_rate("0")
    (12500000000.0, 100000000000.0, 107374182400.0, 0.0)
    >>> parse_rate("100")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: rate: a bare number could mean several units of rate, got '100'; write '100Gbps' or '100GB/s'
    """
    if not isinstance(value, str):
        return _checked(value, subject, "rate in bytes per second")
    number, unit = _split(value, subject, "rate", "100", ("Gbps", "GB/s"))
    match = _RATE.fullmatch(unit)
    if match is None:
        raise InputError(
            subject,
            "unknown or ambiguous unit of rate",
            got=repr(value),
            remedy="bits are 'Gbps' or 'Gb/s', bytes are 'GB/s' or 'GiB/s'",
        )
    scale = _PREFIX[match.group(1)]
    return number * scale / BITS_PER_BYTE if match.group(2) else number * scale


def parse_bytes(value: str | int, *, subject: str = "size") -> int:
    """Bytes from text such as ``"16KiB"`` or ``"1.5MB"``; an int is bytes already.

    >>> parse_bytes("16KiB"), parse_bytes("1.5MB"), parse_bytes(10)
    (16384, 1500000, 10)
    >>> parse_bytes("3Gb")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: size: unknown or ambiguous unit of size, got '3Gb'; write bytes as 'B', 'kB', 'MB', 'KiB', 'MiB'
    """
    if not isinstance(value, str):
        if value != value or value < 0 or value == math.inf or int(value) != value:
            raise InputError(subject, "size must be a whole number of bytes, 0 or more", got=value)
        return int(value)
    number, unit = _split(value, subject, "size", "64", ("B", "KiB"))
    match = _SIZE.fullmatch(unit)
    if match is None:
        raise InputError(
            subject,
            "unknown or ambiguous unit of size",
            got=repr(value),
            remedy="write bytes as 'B', 'kB', 'MB', 'KiB', 'MiB'",
        )
    size = number * _PREFIX[match.group(1)]
    if not math.isfinite(size) or size != math.floor(size):
        raise InputError(subject, "size must be a whole number of bytes", got=repr(value))
    return int(size)


def parse_time(value: str | float, *, subject: str = "time") -> float:
    """Seconds from text such as ``"1.5us"``; a float is seconds already.

    >>> parse_time("1us"), parse_time("500ns"), parse_time("2min"), parse_time(0.5)
    (1e-06, 5e-07, 120.0, 0.5)
    >>> parse_time("5")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: time: a bare number could mean several units of time, got '5'; write '5ns' or '5us'
    """
    if not isinstance(value, str):
        return _checked(value, subject, "time in seconds")
    number, unit = _split(value, subject, "time", "1", ("ns", "us"))
    if unit not in _TIME:
        raise InputError(subject, "unknown unit of time", got=repr(value), remedy="use ns, us, ms, s, min or h")
    return number / _TIME[unit]


def parse_part(value: str | float, *, subject: str = "part") -> float:
    """A part of 1 from text such as ``"1%"`` or ``"0.01"``; a float is one already.

    >>> parse_part("1%"), parse_part("0.01"), parse_part(0.5)
    (0.01, 0.01, 0.5)
    """
    if not isinstance(value, str):
        return _checked(value, subject, "part")
    percent = value.strip().endswith("%")
    try:
        number = float(value.strip().removesuffix("%"))
    except ValueError:
        raise InputError(
            subject, "must be a part of 1 or per cent", got=repr(value), remedy="write '1%' or '0.01'"
        ) from None
    return _checked(number / 100 if percent else number, subject, "part")


def _checked(value: float, subject: str, kind: str) -> float:
    number = float(value)
    if math.isnan(number) or number < 0:
        raise InputError(subject, f"{kind} must not be negative or NaN", got=value)
    return number


def to_gbps(bytes_per_s: Any) -> Any:
    """Bytes per second in Gb/s, numbers or arrays; `from_gbps` is the way back.

    >>> to_gbps(12.5e9), from_gbps(100.0)
    (100.0, 12500000000.0)
    """
    return bytes_per_s * BITS_PER_BYTE / 1e9


def from_gbps(gbps: Any) -> Any:
    """Gb/s in bytes per second."""
    return gbps * 1e9 / BITS_PER_BYTE


def _scaled(value: float, steps: list[tuple[float, str]], digits: int) -> str:
    if value != value or value in (math.inf, -math.inf):
        return f"{value} {steps[-1][1]}"
    for factor, unit in steps:
        # The threshold keeps 999.96 us from being printed as "1000 us".
        if abs(value) >= factor * (1 - 0.5 * 10.0**-digits):
            return f"{value / factor:.{digits}g} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.{digits}g} {unit}"


def format_time(seconds: float, digits: int = 4) -> str:
    """Seconds for people.

    >>> format_time(1.5e-6), format_time(0.25), format_time(0), format_time(7200)
    ('1.5 us', '250 ms', '0 s', '2 h')
    """
    if seconds == 0:
        return "0 s"
    return _scaled(
        seconds, [(3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")], digits
    )


def format_bytes(size: float, digits: int = 4) -> str:
    """Bytes for people, in decimal prefixes.

    >>> format_bytes(1_500_000), format_bytes(12)
    ('1.5 MB', '12 B')
    """
    if size == 0:
        return "0 B"
    return _scaled(size, [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")], digits)


def format_rate(bytes_per_s: float, digits: int = 4) -> str:
    """Rates for people, in bits per second as network data sheets give them.

    >>> format_rate(12.5e9)
    '100 Gb/s'
    """
    return _scaled(
        bytes_per_s * BITS_PER_BYTE,
        [(1e15, "Pb/s"), (1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")],
        digits,
    )
