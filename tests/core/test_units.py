"""Quantities: what is read, what is refused, and round trips."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.core.errors import InputError
from netsim.core.units import format_bytes, format_rate, format_time, parse_bytes, parse_rate, parse_time


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100Gbps", 1.25e10), ("100 Gb/s", 1.25e10), ("100GB/s", 1e11), ("100GiB/s", 107374182400.0), ("1.6Tbps", 2e11),
        ("8bps", 1.0), ("1Gibps", 2**30 / 8), ("inf Gbps", math.inf), ("0Gbps", 0.0),
    ],
)  # fmt: skip
def test_rates(text, value):
    assert parse_rate(text) == value


@pytest.mark.parametrize("text", ["100", "100gb", "100Gb", "100GB", "", "fast", "-1Gbps", "nanGbps", "100 G", "1e400x"])
def test_ambiguous_or_impossible_rates_are_refused(text):
    with pytest.raises(InputError, match=r"^rate: "):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0B", 0), ("16KiB", 16384), ("1.5kB", 1500), ("3GiB", 3 * 2**30), ("10TB", 10**13)]
)
def test_sizes(text, value):
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["1", "1.5B", "3Gb", "-1B", "infB", "1 bit"])
def test_bad_sizes(text):
    with pytest.raises(InputError, match=r"^size: "):
        parse_bytes(text)


@pytest.mark.parametrize("value", [-1, math.nan, 0.5, math.inf])
def test_bad_numbers_as_sizes(value):
    with pytest.raises(InputError, match=r"^size: size must be a whole number of bytes, 0 or more, got "):
        parse_bytes(value)


@pytest.mark.parametrize("text", ["5", "5 minutes", "-1us", "nan s"])
def test_bad_times(text):
    with pytest.raises(InputError, match=r"^time: "):
        parse_time(text)


@given(st.floats(1e-9, 1e5))
def test_printed_times_read_back(seconds):
    assert parse_time(format_time(seconds, 9)) == pytest.approx(seconds, rel=1e-7)


@given(st.floats(1, 1e15))
def test_printed_rates_read_back(rate):
    assert parse_rate(format_rate(rate, 9)) == pytest.approx(rate, rel=1e-7)


@given(st.integers(0, 10**15))
def test_printed_sizes_are_close(size):
    number, unit = format_bytes(size, 9).split()
    assert float(number) * parse_bytes(f"1{unit}") == pytest.approx(size, rel=1e-7)


def test_the_factor_eight_between_bits_and_bytes_occurs_in_one_file():
    # By convention only core/units.py converts; look for the usual spellings elsewhere.
    root = Path(netsim.__file__).parent
    conversion = re.compile(r"[*/]\s*8(\.0)?\b(?!\s*\*)|[*/]\s*BITS")
    found = []
    for path in sorted(root.rglob("*.py")):
        if path.name == "units.py" or "collectives" in path.parts:
            continue
        for i, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("#")[0]
            if conversion.search(code) and ("rate" in code or "bps" in code or "capacity" in code):
                found.append(f"{path.name}:{i}: {line.strip()}")
    assert found == []
