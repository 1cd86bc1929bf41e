"""Build the recorder for one MPI with that MPI's own compiler, once, and keep it.

Built recorders lie in ``$XDG_CACHE_HOME/netsim/capture`` (default ``~/.cache/netsim/capture``), one per MPI: the name holds a
hash of the preprocessed header, the compiler, the generator and the machine, so that nothing stale is ever used.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from netsim.core.errors import InputError
from netsim.traces.capture.generate import GENERATOR_VERSION, generate
from netsim.traces.capture.header import parse_prototypes

__all__ = ["Mpi", "build_recorder", "cache_folder", "inspect_mpicc"]

_QUESTIONS = (
    "OMPI_MAJOR_VERSION|OMPI_MINOR_VERSION|OMPI_RELEASE_VERSION|MPICH_VERSION|MPI_ABI|MPI_VERSION|MPI_SUBVERSION"
)
_RUNTIME = Path(__file__).with_name("recorder")


@dataclass(frozen=True)
class Mpi:
    """An installed MPI, as its compiler wrapper sees it.

    Attributes
    ----------
    mpicc : Path
    family : str
        ``Open MPI``, ``MPICH`` (and all that share its handles) or ``MPI ABI`` (the standard ABI of MPI 5).
    version : str
    header : str
        Preprocessed ``mpi.h``.
    """

    mpicc: Path
    family: str
    version: str
    header: str

    @property
    def name(self) -> str:
        """For people: ``Open MPI 5.0.11``."""
        return f"{self.family} {self.version}"

    @cached_property
    def libraries(self) -> tuple[Path, ...]:
        """The MPI libraries that programs built with this compiler may load, symbolic links resolved."""
        shown = _run([str(self.mpicc), "-show"]).stdout
        folders = [Path(word) for word in re.findall(r"-L\s*(\S+)", shown)]
        found = [p.resolve() for folder in folders for p in sorted(folder.glob("libmpi*.so*"))]
        return tuple(dict.fromkeys(found))


def _run(command: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    # The recorder itself must not be loaded into the compiler.
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"LC_ALL": "C"}
    return subprocess.run(command, input=text, capture_output=True, text=True, env=env, errors="replace", check=False)


def inspect_mpicc(mpicc: Path) -> Mpi:
    """Ask a compiler wrapper which MPI it belongs to and what its header declares.

    Raises
    ------
    InputError
        It does not run, there is no C compiler behind it, or it finds no ``mpi.h``.
    """
    # One line with the answers, recognisable after the preprocessor has been over it.
    question = "#include <mpi.h>\nnetsim_answers: " + " | ".join(_QUESTIONS.split("|")) + "\n"
    try:
        done = _run([str(mpicc), "-E", "-x", "c", "-"], question)
    except OSError as error:
        raise InputError(
            str(mpicc), "cannot be run", got=error.strerror, remedy="give the mpicc of the MPI in use"
        ) from None
    if done.returncode != 0 or "netsim_answers:" not in done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        raise InputError(
            str(mpicc),
            "must preprocess a C program with mpi.h",
            got=lines[-1].strip(),
            remedy="install a C compiler (Debian: apt-get install gcc libc6-dev)",
        )
    header, _, answers = done.stdout.rpartition("netsim_answers:")
    words = [word.strip().strip('"') for word in " ".join(answers.split()).split("|")]
    major, minor, release, mpich, abi, version, subversion = words
    if major != "OMPI_MAJOR_VERSION":
        family, number = "Open MPI", f"{major}.{minor}.{release}"
    elif abi != "MPI_ABI":
        family, number = "MPI ABI", f"{version}.{subversion}"
    else:
        family, number = "MPICH", mpich if mpich != "MPICH_VERSION" else f"{version}.{subversion}"
    # Line markers name folders: without them the same header gives the same hash wherever it lies.
    text = "\n".join(line for line in header.splitlines() if line.strip() and not line.startswith("#"))
    return Mpi(mpicc, family, number, text)


def cache_folder() -> tuple[Path, str | None]:
    """Where built recorders are kept, and a note when it had to be a temporary folder."""
    wanted = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "netsim" / "capture"
    if _usable(wanted):
        return wanted, None
    # A fixed name in a folder that all users share: only trust it when it is ours alone.
    shared = Path(tempfile.gettempdir()) / f"netsim-{os.getuid()}" / "capture"
    if _usable(shared, private=True):
        return shared, f"recorder kept in {shared}: {wanted} is not writable (set XDG_CACHE_HOME)"
    fresh = Path(tempfile.mkdtemp(prefix="netsim-capture-"))
    return fresh, f"recorder kept in {fresh}: {wanted} is not writable (set XDG_CACHE_HOME)"


def _usable(folder: Path, *, private: bool = False) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.parent.stat()
        if private and (about.st_uid != os.getuid() or about.st_mode & 0o022):
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def build_recorder(
    mpi: Mpi, *, folder: Path | None = None, say: Callable[[str], None] = lambda line: None
) -> tuple[Path, list[str]]:
    """The shared library that records programs of this MPI; builds it unless it is there already.

    Parameters
    ----------
    mpi : Mpi
    folder : Path, optional
        Where to keep it; default: ``cache_folder()``.
    say : callable
        Told when a build starts.

    Returns
    -------
    library : Path
    notes : list of str

    Raises
    ------
    InputError
        The compiler fails.
    """
    notes = []
    if folder is None:
        folder, note = cache_folder()
        notes += [note] if note else []
    runtime = {path.name: path.read_text() for path in sorted(_RUNTIME.glob("*.h"))}
    recorder = generate(parse_prototypes(mpi.header))
    parts = [
        mpi.header,
        *runtime.values(),
        recorder.source,
        str(mpi.mpicc.resolve()),
        platform.machine(),
        str(GENERATOR_VERSION),
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    stem = re.sub(r"[^a-z0-9.]+", "-", mpi.name.lower())
    library = folder / f"recorder-{stem}-{key}.so"
    if library.exists():
        return library, notes
    say(f"building the recorder for {mpi.name} once, with {mpi.mpicc}")
    work = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
    try:
        (work / "recorder.c").write_text(recorder.source)
        for name, text in runtime.items():
            (work / name).write_text(text)
        # As-needed: the recorder refers to no symbol of MPI, so it does not drag the library into other programs.
        flags = ["-O2", "-w", "-fPIC", "-shared", "-pthread", "-Wl,--as-needed"]
        done = _run([str(mpi.mpicc), *flags, "-o", str(work / "recorder.so"), str(work / "recorder.c"), "-ldl"])
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["?"]
            raise InputError(
                f"recorder for {mpi.name}",
                f"{mpi.mpicc} must compile it",
                got=errors[0].strip(),
                remedy="report this with the version of the MPI",
            )
        # Several ranks or runs may build at once: the last one to finish wins, all results are alike.
        os.replace(work / "recorder.so", library)
        shutil.copy(work / "recorder.c", library.with_suffix(".c"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return library, notes
