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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole simulations that only compiled kernels finish are marked, and left out without the compiler."""
    if JIT:
        return
    for item in items:
        if item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.skip(reason="kernels run as plain Python"))


@pytest.fixture(scope="session")
def jit() -> bool:
    """Whether kernels are compiled; without, tests use small sizes."""
    return JIT


@pytest.fixture(scope="session")
def shipped() -> Path:
    """Folder of the shipped traces."""
    return Path(__file__).parents[1] / "examples" / "traces"
