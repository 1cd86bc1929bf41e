"""Entry point: the command group, and how errors end a run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, NoReturn

import click

import netsim
from netsim.cli.capture import capture
from netsim.cli.catalogue import collectives, doctor, explain, placements, routings, topologies, warmup, workloads
from netsim.cli.coflows import coflows
from netsim.cli.generate import generate
from netsim.cli.jobs import jobs
from netsim.cli.memory import limited
from netsim.cli.optics import optics
from netsim.cli.output import one_line
from netsim.cli.replay import replay
from netsim.cli.saturate import patterns, saturate
from netsim.cli.topo import topo
from netsim.cli.trace import trace
from netsim.cli.usage import Group, usage_error
from netsim.cli.validate import validate
from netsim.core.errors import NetsimError, StuckError

__all__ = ["cli", "main"]

REPORT_LINES = 20


# As a shell reports a program that was ended by SIGPIPE (git, grep): what it had to say did not arrive.
READER_GONE = 128 + 13


class _ReaderGone(Exception):
    """The reader of our output went away; click would make an error with status 1 of it."""


class _Group(Group):
    def make_context(self, *words: Any, **options: Any) -> Any:
        try:
            return super().make_context(*words, **options)
        except BrokenPipeError:
            raise _ReaderGone from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(netsim.__version__, prog_name="netsim")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Replay what applications really communicate on electrical and optical networks.

    \b
    netsim capture -o run.parquet -- mpiexec -n 8 ./program     record a run
    netsim replay run.parquet --topo dragonfly                  and see it on a network
    """


for _command in (
    replay, jobs, capture, generate, trace, topo, explain, topologies, routings, collectives, placements, workloads, patterns, saturate,
    optics, coflows, validate, doctor, warmup,
):  # fmt: skip
    cli.add_command(_command)


def _terminate(signum: int, frame: object) -> NoReturn:
    # A killed run leaves its partial tables behind just as an interrupted one does.
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its status."""
    try:
        _main(arguments)
    except (BrokenPipeError, _ReaderGone):
        # | head: nothing more can be said, and nothing is wrong. Python would complain about its buffers at exit.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
                continue
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(READER_GONE) from None


def _main(arguments: list[str] | None) -> NoReturn:
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words[: words.index("--")] if "--" in words else "--debug" in words
    # --debug works anywhere before a "--", not only in front of the command.
    head = words[: words.index("--")] if "--" in words else words
    tail = words[len(head) :]
    clean = [word for word in head if word != "--debug"] + tail
    # Python has no streams where the caller closed them (>&-).
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Names of files and links may be anything; printing one must not end a run.
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # A recorded program is none of our business: it may use what memory it wants.
    records = "capture" in clean[:1]
    try:
        signal.signal(signal.SIGTERM, _terminate)
        if not clean:
            clean = ["--help"]
        with contextlib.nullcontext() if records else limited():
            status = cli.main(args=clean, prog_name="netsim", standalone_mode=False)
        sys.stdout.flush()
        raise SystemExit(status if isinstance(status, int) else 0)
    except (SystemExit, click.exceptions.Exit) as stop:
        code = stop.code if isinstance(stop, SystemExit) else stop.exit_code
        raise SystemExit(code) from None
    except NetsimError as error:
        if debug:
            raise
        click.echo(f"netsim: error: {one_line(error)}", err=True)
        if isinstance(error, StuckError):
            for line in error.report[:REPORT_LINES]:
                click.echo(f"  {one_line(line)}", err=True)
            if len(error.report) > REPORT_LINES:
                click.echo(f"  ... and {len(error.report) - REPORT_LINES} more", err=True)
        raise SystemExit(error.exit_code) from None
    except click.ClickException as error:
        click.echo(f"netsim: error: {one_line(usage_error(error))}", err=True)
        raise SystemExit(2) from None
    except (KeyboardInterrupt, click.Abort):
        click.echo("netsim: interrupted", err=True)
        raise SystemExit(130) from None
    except (BrokenPipeError, _ReaderGone):
        raise
    except OSError as error:
        if debug:
            raise
        where = error.filename if error.filename is not None else "output"
        with contextlib.suppress(OSError):
            click.echo(
                f"netsim: error: {one_line(where)}: cannot be read or written, got {error.strerror or error}", err=True
            )
        # What is still buffered cannot be written either; Python would complain about it at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except MemoryError:
        if debug:
            raise
        click.echo(
            "netsim: error: memory: this needs more than the machine has free; use a smaller network or trace, or --bins 0",
            err=True,
        )
        raise SystemExit(1) from None
    except Exception as error:
        if debug:
            raise
        click.echo(
            f"netsim: internal error: {type(error).__name__}: {error}; please report it with the output of --debug",
            err=True,
        )
        raise SystemExit(70) from None
