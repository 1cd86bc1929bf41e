"""Which MPI does a command use? The recorder must fit it: handles are numbers in one family and addresses in another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netsim.core.errors import InputError
from netsim.traces.capture.build import Mpi, inspect_mpicc

__all__ = ["LAUNCHERS", "Detected", "detect_mpi", "in_rank", "linked_library", "program_of"]

LAUNCHERS = frozenset(
    (
        *("mpiexec", "mpirun", "mpiexec.hydra", "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"),
        *("orterun", "prterun", "prun", "srun", "jsrun", "aprun", "flux"),
    )
)
_WRAPPERS = frozenset(
    [
        "env",
        "bash",
        "sh",
        "dash",
        "zsh",
        "nice",
        "time",
        "timeout",
        "taskset",
        "numactl",
        "stdbuf",
        "xargs",
        "nohup",
        "setsid",
    ]
)
_LIBRARY = re.compile(r"^\s*(lib(?:mpi|mpich|mpi_abi|pmpi)\.so\S*) => (\S+)", re.MULTILINE)

# Run by the program's own Python, with the program's environment: which library does its mpi4py load?
_ASK_MPI4PY = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
for line in open("/proc/self/maps"):
    path = line.split(None, 5)[-1].strip()
    if "/libmpi" in path and ("/libmpi." in path or "/libmpich." in path or "/libmpi_abi." in path):
        print(path)
        break
"""


@dataclass(frozen=True)
class Detected:
    """The MPI to build for, and how it was found.

    Attributes
    ----------
    mpi : Mpi
    library : Path or None
        MPI library of the program, when it could be told.
    why : str
    """

    mpi: Mpi
    library: Path | None
    why: str


def in_rank(env: Mapping[str, str]) -> tuple[int, int] | None:
    """Rank and number of ranks when this process was itself started by an MPI launcher.

    >>> in_rank({"PMI_RANK": "2", "PMI_SIZE": "4"}), in_rank({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}), in_rank({})
    ((2, 4), None, None)
    """
    for rank, size in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        ("PMIX_RANK", "PMIX_SIZE"),
    ):
        if rank in env and size in env:
            return int(env[rank]), int(env[size])
    # Slurm sets SLURM_PROCID in a batch script and an interactive shell too; only a step of several tasks is a run.
    if "SLURM_PROCID" in env and int(env.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        return int(env["SLURM_PROCID"]), int(env["SLURM_STEP_NUM_TASKS"])
    return None


def _which(word: str, cwd: Path | None, env: Mapping[str, str]) -> Path | None:
    if "/" in word:
        path = (cwd or Path.cwd()) / word
        return path if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(word, path=env.get("PATH"))
    return Path(found) if found else None


def program_of(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str]) -> list[Path]:
    """Executables named in a command, launchers and wrappers left out, in order."""
    found = []
    for word in command:
        path = None if word.startswith("-") or re.fullmatch(r"[\d.:,]+", word) else _which(word, cwd, env)
        if path is not None and path.name not in LAUNCHERS | _WRAPPERS:
            found.append(path)
    return found


def _output(command: list[str], env: Mapping[str, str], cwd: Path | None) -> str:
    clean = {k: v for k, v in env.items() if k != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=clean, cwd=cwd, timeout=60, errors="replace", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def linked_library(program: Path, *, env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """The MPI library that the loader would give an executable."""
    found = _LIBRARY.search(_output(["ldd", str(program)], env, cwd))
    return Path(found.group(2)) if found and found.group(2).startswith("/") else None


def _python_of(program: Path) -> Path | None:
    """The interpreter, when the program is Python or a script with Python in its first line."""
    if re.fullmatch(r"python[\d.]*", program.name):
        return program
    try:
        with program.open("rb") as file:
            first = file.readline(300).decode("ascii", "replace")
    except OSError:
        return None
    match = re.match(r"#!\s*(\S*python[\d.]*)\b", first)
    return Path(match.group(1)) if match else None


def program_library(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None
) -> tuple[Path | None, str]:
    """MPI library of the first program of a command that has one, and how it was found."""
    for program in program_of(command, cwd=cwd, env=env):
        library = linked_library(program, env=env, cwd=cwd)
        if library is not None:
            return library, f"{program.name} is linked with {library}"
        python = _python_of(program)
        if python is not None:
            answer = _output([str(python), "-c", _ASK_MPI4PY], env, cwd).strip()
            if answer.startswith("/"):
                return Path(answer), f"mpi4py of {python} loads {answer}"
    return None, "the program's MPI library is not known"


def _family(library: Path) -> str:
    """Family by the name of the library: Open MPI has used libmpi.so.40 since 3.0 (before: .20, .12 with libopen-rte beside)."""
    name = library.name
    if name.startswith("libmpi_abi"):
        return "MPI ABI"
    number = re.search(r"\.so\.(\d+)", name) or re.search(r"\.so\.(\d+)", library.resolve().name)
    if name.startswith("libmpi.") and number and int(number.group(1)) in (20, 40, 80):
        return "Open MPI"
    return "MPICH"


def _compilers(launcher: Path | None, library: Path | None, env: Mapping[str, str]) -> Iterator[Path]:
    """Compiler wrappers worth a look: beside the library, beside the launcher, on the path, beside this Python."""
    names = ("mpicc", "mpicc_abi", "mpicc.openmpi", "mpicc.mpich")
    folders: list[Path] = []
    if library is not None:
        for start in (library, library.resolve()):
            folders += [parent / "bin" for parent in list(start.parents)[1:5]]
    if launcher is not None:
        folders += [launcher.parent, launcher.resolve().parent]
    folders += [Path(p) for p in env.get("PATH", "").split(os.pathsep) if p]
    folders.append(Path(sys.executable).parent)
    seen: set[Path] = set()
    for folder in folders:
        for name in names:
            path = folder / name
            if path not in seen and path.is_file() and os.access(path, os.X_OK):
                seen.add(path)
                yield path


def _chosen(mpi: str, env: Mapping[str, str]) -> Path:
    """What the user named: a compiler wrapper, a name on the path, or the folder where an MPI is installed."""
    path = Path(mpi).expanduser()
    if path.is_dir():
        for candidate in (path / "bin" / "mpicc", path / "mpicc"):
            if candidate.is_file():
                return candidate
        raise InputError("--mpi", "a folder must hold bin/mpicc", got=str(path), remedy="give the path of mpicc itself")
    found = _which(mpi, None, env)
    if found is None:
        raise InputError(
            "--mpi", "must be an mpicc or the folder of an MPI", got=mpi, remedy="give the path of its mpicc"
        )
    return found


def detect_mpi(
    command: Sequence[str],
    *,
    mpi: str | os.PathLike[str] | None = None,
    env: Mapping[str, str],
    cwd: Path | None = None,
) -> Detected:
    """Find the MPI that a command uses, and a compiler wrapper for it.

    In this order: what the user names; the library the program is linked with, or its mpi4py loads; the compiler beside the
    launcher; the first compiler on the path.

    Raises
    ------
    InputError
        There is no compiler for it.
    """
    if mpi is not None:
        return Detected(inspect_mpicc(_chosen(os.fspath(mpi), env)), None, "chosen by --mpi")
    library, why = program_library(command, env=env, cwd=cwd)
    launcher = next(
        (path for word in command if Path(word).name in LAUNCHERS and (path := _which(word, cwd, env)) is not None),
        None,
    )
    alike: Mpi | None = None
    failed: InputError | None = None
    for mpicc in _compilers(launcher, library, env):
        if library is None and mpicc.name == "mpicc_abi":
            continue
        try:
            candidate = inspect_mpicc(mpicc)
        except InputError as error:
            failed = failed or error
            continue
        if library is None:
            where = "beside the launcher" if launcher and mpicc.parent == launcher.parent else "first on the path"
            return Detected(candidate, None, f"{why}; took the compiler {where}")
        if candidate.family == _family(library):
            if library.resolve() in candidate.libraries:
                return Detected(candidate, library, why)
            alike = alike or candidate
    if alike is not None:
        return Detected(alike, library, f"{why}; built with the compiler of another {alike.name}")
    if failed is not None:
        raise failed
    what = f"the mpicc of {library}" if library is not None else "mpicc"
    raise InputError(
        "capture",
        f"needs {what} to build the recorder",
        got="none beside the program's MPI, its launcher or on PATH",
        remedy="install it (pip install 'netsim-eo[mpi]', Debian: apt-get install libopenmpi-dev) or name it with --mpi",
    )
