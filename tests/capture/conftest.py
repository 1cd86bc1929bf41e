"""Fixtures for tests that run real MPI programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from capture_mpis import Installed, installed


@pytest.fixture(params=[one.name for one in installed()] or ["none"])
def mpi(request: Any) -> Installed:
    """Each MPI of this machine in turn."""
    for one in installed():
        if one.name == request.param:
            return one
    pytest.skip("no MPI with mpicc and mpiexec is installed")


@pytest.fixture
def any_mpi() -> Installed:
    """The first MPI there is."""
    if not installed():
        pytest.skip("no MPI with mpicc and mpiexec is installed")
    return installed()[0]
