"""``netsim capture``: run a command with the recorder in its MPI processes, and turn what they recorded into a trace.

The recorder gets into the ranks through ``LD_PRELOAD``, set for the command and all that it starts; MPICH's and Open MPI's
launchers hand their environment on to ranks on the same machine (for ranks on other machines, Open MPI needs
``-x LD_PRELOAD -x NETSIM_TRACE_DIR``). It does nothing in processes that do not call MPI_Init.

Inside a launcher (``mpiexec -n 4 netsim capture -o run.parquet -- ./program``) each process runs its own rank and records into one
folder beside the output; the process whose program ends last makes the trace.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.core.errors import InputError
from netsim.core.text import count
from netsim.core.units import format_bytes
from netsim.traces.capture.build import build_recorder
from netsim.traces.capture.convert import GAP_CLOCKS, TIMESTAMPS, _checked, convert
from netsim.traces.capture.detect import LAUNCHERS, Detected, detect_mpi, in_rank, linked_library, program_of
from netsim.traces.capture.records import find_jobs, read_rank
from netsim.traces.io import write_trace
from netsim.traces.trace import Trace

__all__ = ["CaptureReport", "assemble", "capture"]


@dataclass(frozen=True, kw_only=True)
class CaptureReport:
    """What a capture did.

    Attributes
    ----------
    exit_status : int
        Of the command: 128 + n when signal n ended it, as shells have it.
    outputs : tuple of Path
        The traces: one per MPI job of the command, the first under the name that was asked for. Empty in a rank that left the
        assembly to another.
    traces : tuple of Trace
    mpi : str
        The MPI the recorder was built for.
    notes : tuple of str
    """

    exit_status: int
    outputs: tuple[Path, ...] = ()
    traces: tuple[Trace, ...] = ()
    mpi: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_ranks(self) -> int:
        """Ranks of the first job."""
        return self.traces[0].n_ranks if self.traces else 0

    @property
    def n_rows(self) -> int:
        """Rows of all traces."""
        return sum(trace.n_rows for trace in self.traces)

    @property
    def complete(self) -> bool:
        """Whether all ranks reached MPI_Finalize."""
        return all(trace.meta.complete == "true" for trace in self.traces)

    def lines(self) -> list[str]:
        """The report for a terminal."""
        out = []
        for path, trace in zip(self.outputs, self.traces, strict=True):
            size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.iterdir())
            state = "" if trace.meta.complete == "true" else f", incomplete ({trace.meta.complete})"
            what = f"{count(trace.n_rows, 'row')} of {count(trace.n_ranks, 'rank')}, {format_bytes(size)}{state}"
            out.append(f"netsim: wrote {path}: {what}")
            out += [f"  {note}" for note in trace.meta.notes]
        out += [f"netsim: {note}" for note in self.notes]
        if self.exit_status:
            out.append(f"netsim: the command ended with status {self.exit_status}")
        return out


def _say(line: str) -> None:
    print(f"netsim: {line}", file=sys.stderr, flush=True)


def capture(
    command: Sequence[str],
    *,
    output: str | os.PathLike[str],
    mpi: str | os.PathLike[str] | None = None,
    gap_clock: str = "thread-cpu",
    timestamps: str = "auto",
    keep_records: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None] = _say,
) -> CaptureReport:
    """Run a command and record the MPI calls of all ranks that it starts.

    Parameters
    ----------
    command : sequence of str
        For example ``["mpiexec", "-n", "8", "./program"]``; or, inside a launcher, the program alone.
    output : path
        Trace to write. Further MPI jobs of the same command go to ``<stem>.job2<suffix>`` and so on.
    mpi : path, optional
        The ``mpicc`` (or installation folder) of the program's MPI, when it is not found by itself.
    gap_clock, timestamps : str
        See ``netsim.traces.capture.convert``.
    keep_records : bool
        Keep the raw records beside the output; ``assemble`` reads them.
    cwd, env : optional
        Working directory and environment of the command.
    say : callable
        Takes progress lines.

    Returns
    -------
    CaptureReport
        A command that crashed or was killed still gives the trace of what it did, marked incomplete.

    Raises
    ------
    InputError
        The command or the output cannot be used, no MPI compiler is found, or nothing was recorded: then the message says why.
    """
    _checked("gap clock", gap_clock, GAP_CLOCKS)
    _checked("timestamps", timestamps, TIMESTAMPS)
    options: dict[str, Any] = {"gap_clock": gap_clock, "timestamps": timestamps}
    words = [os.fspath(word) for word in command]
    if not words:
        raise InputError("capture", "needs a command", remedy="netsim capture -o run.parquet -- mpiexec -n 8 ./program")
    target = Path(output).absolute()
    place = Path(cwd).absolute() if cwd is not None else None
    environment = dict(os.environ if env is None else env)
    _writable(target)
    # A command that names a launcher starts ranks of its own, wherever it is started itself.
    rank = None if any(Path(word).name in LAUNCHERS for word in words) else in_rank(environment)
    detected = detect_mpi(words, mpi=mpi, env=environment, cwd=place)
    recorder, notes = build_recorder(detected.mpi, say=say)
    if rank is None:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".records", dir=target.parent))
    else:
        folder = target.with_name(f".{target.name}.records")
        folder.mkdir(exist_ok=True)
    token = secrets.token_hex(16)
    environment["LD_PRELOAD"] = " ".join(filter(None, [str(recorder), environment.get("LD_PRELOAD", "")]))
    environment["NETSIM_TRACE_DIR"] = str(folder)
    environment["NETSIM_CAPTURE_TOKEN"] = token
    began = time.time_ns()
    try:
        status = _run(words, place, environment)
        if rank is None:
            report = _collect(folder, target, words, options, detected, notes, status, place, environment)
        else:
            report = _collect_in_rank(
                folder, target, words, options, detected, notes, status, token, environment, began
            )
    except InputError:
        # Nothing was recorded, or it cannot be written: keep what there is only if there is something.
        if list(folder.glob("*.rec")):
            say(f"the records are kept in {folder}; netsim.traces.capture.assemble makes a trace of them")
        elif rank is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if keep_records:
        report = _with_note(report, f"records kept in {folder}")
    elif rank is None:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def assemble(
    folder: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str],
    command: Sequence[str] = (),
    gap_clock: str = "thread-cpu",
    timestamps: str = "auto",
) -> CaptureReport:
    """Make traces of raw records, for example those that a killed ``netsim capture`` left behind.

    Parameters
    ----------
    folder : path
        ``.<output>.….records``, beside the output.
    output : path

    Raises
    ------
    InputError
        The folder holds no records.
    """
    source = Path(folder)
    if not source.is_dir() or not find_jobs(source):
        raise InputError(str(folder), "must be a folder with records of a capture (*.rec)", got="none")
    target = Path(output).absolute()
    _writable(target)
    options = {"gap_clock": gap_clock, "timestamps": timestamps}
    outputs, traces = _write(source, target, command, options)
    return CaptureReport(exit_status=0, outputs=outputs, traces=traces)


# ---- running the command


def _writable(target: Path) -> None:
    """Fail before the run, not after it."""
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise InputError(
            f"output {target}", "its folder must be writable", got=error.strerror, remedy="choose another -o"
        ) from None
    if target.is_dir() and any(target.iterdir()) and not (target / "ops.parquet").exists():
        raise InputError(f"output {target}", "must be a file name", got="a folder", remedy="choose another -o")


def _run(command: list[str], cwd: Path | None, env: Mapping[str, str]) -> int:
    """Run to the end, whatever happens to us: the program gets our signals, we stay to save its records."""
    try:
        # Descriptors stay open: MPICH's ranks talk to their launcher through one that they inherit.
        process = subprocess.Popen(command, cwd=cwd, env=dict(env), close_fds=False)
    except OSError as error:
        raise InputError(
            f"command {command[0]!r}", "cannot be run", got=error.strerror, remedy="check the words after --"
        ) from None
    with _forward(process):
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                # Ctrl-C reached the program too; a second one ends it for good.
                with contextlib.suppress(KeyboardInterrupt):
                    code = process.wait(timeout=None)
                    break
                process.kill()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _forward(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGTERM on to the command while it runs (batch systems send it first to us)."""

    def terminate(signum: int, frame: object) -> None:
        process.terminate()

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ---- from records to traces


def _write(
    folder: Path, target: Path, command: Sequence[str], options: Mapping[str, Any], only: str | None = None
) -> tuple[tuple[Path, ...], tuple[Trace, ...]]:
    outputs: list[Path] = []
    traces: list[Trace] = []
    for job in find_jobs(folder):
        if only is not None and job.name != only:
            continue
        trace = convert(job, command=command, **options)
        number = len(outputs) + 1
        path = target if number == 1 else target.with_name(f"{target.stem}.job{number}{target.suffix}")
        write_trace(trace, path)
        outputs.append(path)
        traces.append(trace)
    return tuple(outputs), tuple(traces)


def _with_note(report: CaptureReport, note: str) -> CaptureReport:
    from dataclasses import replace

    return replace(report, notes=(*report.notes, note))


def _collect(
    folder: Path,
    target: Path,
    command: list[str],
    options: Mapping[str, Any],
    detected: Detected,
    notes: list[str],
    status: int,
    cwd: Path | None,
    env: Mapping[str, str],
) -> CaptureReport:
    if not find_jobs(folder):
        raise _nothing(folder, command, detected, status, cwd, env)
    outputs, traces = _write(folder, target, command, options)
    if len(outputs) > 1:
        notes = [*notes, f"the command ran {len(outputs)} MPI jobs: one trace each"]
    return CaptureReport(exit_status=status, outputs=outputs, traces=traces, mpi=detected.mpi.name, notes=tuple(notes))


def _collect_in_rank(
    folder: Path,
    target: Path,
    command: list[str],
    options: Mapping[str, Any],
    detected: Detected,
    notes: list[str],
    status: int,
    token: str,
    env: Mapping[str, str],
    began: int,
) -> CaptureReport:
    """One of many: say that this rank is done; the last one to say so makes the trace."""
    mine = None
    for path in folder.glob("*.rec"):
        rank = read_rank(path)
        if rank is not None and rank.token == token:
            mine = rank
            break
    if mine is None:
        raise _nothing(folder, command, detected, status, None, env)
    job = mine.path.name.split("-")[0]
    (folder / f"{job}-{mine.rank}.done").touch()
    quiet = CaptureReport(exit_status=status, mpi=detected.mpi.name, notes=())
    if len(list(folder.glob(f"{job}-*.done"))) < mine.size:
        return quiet
    try:
        # Two may see all marks at the same time; one of them gets to create this file.
        with (folder / f"{job}.assembling").open("x"):
            pass
    except FileExistsError:
        return quiet
    outputs, traces = _write(folder, target, command, options, only=job)
    for path in folder.glob(f"{job}*"):
        path.unlink(missing_ok=True)
    for path in folder.glob("loaded-*"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return CaptureReport(exit_status=status, outputs=outputs, traces=traces, mpi=detected.mpi.name, notes=tuple(notes))


def _nothing(
    folder: Path, command: list[str], detected: Detected, status: int, cwd: Path | None, env: Mapping[str, str]
) -> InputError:
    """No rank recorded anything: the likely reason, from what the recorder left word of and from the program itself."""
    subject = f"capture of {' '.join(command)}"
    ended = f" (the command ended with status {status})" if status else ""
    other = sorted(folder.glob("other-mpi-*.txt"))
    if other:
        return InputError(
            subject,
            f"the program uses another MPI than the recorder, which was built for {detected.mpi.name} ({detected.why})",
            got=other[0].read_text().strip(),
            remedy="name the mpicc of the program's MPI with --mpi",
        )
    if any(folder.glob("sessions-*.txt")):
        return InputError(
            subject,
            "recorded nothing",
            got="a program that uses MPI sessions without MPI_Init" + ended,
            remedy="only programs with MPI_COMM_WORLD can be recorded",
        )
    loaded = sorted({path.read_text().strip() for path in folder.glob("loaded-*.txt")} - {""})
    names = sorted({Path(line).name for line in loaded})
    for program in program_of(command, cwd=cwd, env=env):
        if _static(program):
            return InputError(
                subject,
                "recorded nothing",
                got=f"{program}, which is statically linked{ended}",
                remedy="link it with the shared MPI library",
            )
        # A command that failed may not have come so far as to start the program.
        if (
            not status
            and program.name not in names
            and program.resolve().name not in names
            and linked_library(program, env=env, cwd=cwd)
        ):
            return InputError(
                subject,
                "recorded nothing: the recorder was not loaded into the program",
                got=f"programs {', '.join(names) or 'none'}{ended}",
                remedy="let the launcher pass LD_PRELOAD and NETSIM_TRACE_DIR on (Open MPI: -x LD_PRELOAD -x NETSIM_TRACE_DIR)",
            )
    return InputError(
        subject,
        "recorded nothing: no process called MPI_Init",
        got=f"processes of {', '.join(names) or 'no program'}{ended}",
        remedy="run an MPI program that is linked with a shared MPI library"
        if not status
        else "see the command's own error messages first",
    )


def _static(program: Path) -> bool:
    """An ELF executable without a dynamic section's interpreter."""
    try:
        with program.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env={"LC_ALL": "C"}, check=False)
    except OSError:
        return False
    return "not a dynamic executable" in done.stdout + done.stderr or "statically linked" in done.stdout
