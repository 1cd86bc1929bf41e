"""What all tests share: smaller sizes when the kernels run as plain Python, and a folder of shipped traces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")

# Examples are derandomised: the same input gives the same verdict on every machine.
settings.register_profile("compiled", deadline=None, derandomize=True)
settings.register_profile("plain", deadline=None, derandomize=True, max_examples=10)
settings.load_profile("compiled" if JIT else "plain")


@pytest.fixture(scope="session")
def jit() -> bool:
    """Whether kernels are compiled; without, tests use small sizes."""
    return JIT


@pytest.fixture(scope="session")
def shipped() -> Path:
    """Folder of the shipped traces."""
    return Path(__file__).parents[1] / "examples" / "traces"
