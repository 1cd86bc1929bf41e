"""The process around a run: closed streams, full disks, Ctrl-C at any moment, no writable cache, a limit on memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import netsim
import netsim as ns
from netsim.cli.memory import available_bytes, limited

NETSIM = [sys.executable, "-m", "netsim"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="uses /dev/full, /proc and limits of Linux")


def shell(script, *words):
    return subprocess.run(
        ["sh", "-c", script, "sh", *NETSIM, *map(str, words)], capture_output=True, text=True, timeout=120
    )


def test_closed_streams_end_nothing(trace_file):
    assert shell('"$@" >&-', "trace", "info", trace_file).stderr == ""
    assert shell('"$@" >&-', "trace", "info", trace_file).returncode == 0
    assert shell('"$@" 2>&-', "trace", "info", trace_file.parent / "none").returncode == 2
    assert shell('"$@" <&-', "trace", "info", trace_file).returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["topologies"], ["replay", "--help"], ["trace", "info"]])
def test_a_reader_that_leaves_ends_us_quietly_as_sigpipe_would(trace_file, words):
    words = [*words, trace_file] if words[0] == "trace" else words
    for to in ("", "2>&1"):
        # The reader is gone before the first byte: read ends at once, and the shell tells the status of netsim.
        done = shell(f'{{ "$@" {to}; echo "$?" >&3; }} 3>&2 | true', *words)
        assert done.stderr == "141\n"


def test_a_reader_that_stays_gets_status_0(trace_file):
    done = shell('{ "$@"; echo "$?" >&2; } | cat', "trace", "info", trace_file)
    assert done.stderr == "0\n"
    assert "allreduce" in done.stdout


def test_a_mistake_stays_one_when_nobody_reads_the_output(trace_file):
    done = shell('{ "$@"; echo "status $?" >&2; } | true', "trace", "info", trace_file.parent / "none")
    assert done.stderr.splitlines()[-1] == "status 2"
    assert done.stderr.startswith("netsim: error: ")


@linux
@pytest.mark.parametrize("words", [["--help"], ["topologies"]])
def test_a_full_disk_is_one_line(words):
    done = shell('"$@" > /dev/full', *words)
    assert done.returncode == 1
    assert done.stderr == "netsim: error: output: cannot be read or written, got No space left on device\n"


@pytest.mark.parametrize("delay", [0.15, 0.3, 0.5])
def test_ctrl_c_is_never_a_traceback(trace_file, tmp_path, delay):
    process = subprocess.Popen(
        [*NETSIM, "replay", str(trace_file), "--topo", "star", "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # Ended by the signal while loading, interrupted, or already done.
    assert process.returncode in (-signal.SIGINT, 130, 0)
    assert "Traceback" not in err
    if (tmp_path / "out").exists():
        assert [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("width", ["1", "10", "1000"])
def test_any_width_of_terminal(trace_file, width):
    for words in (["--help"], ["replay", "--help"], ["trace", "info", trace_file]):
        done = subprocess.run([*NETSIM, *map(str, words)], env={**os.environ, "COLUMNS": width}, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_plain_locale_and_no_home(trace_file):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LANG": "C"}
    done = subprocess.run([*NETSIM, "trace", "info", str(trace_file)], env=env, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@linux
def test_no_writable_folder_for_kernels_costs_a_note(tmp_path):
    # Files stand where the cache folders would be: that stops root as well.
    package = tmp_path / "netsim"
    shutil.copytree(Path(netsim.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for kernels in package.rglob("_kernels.py"):
        (kernels.parent / "__pycache__").touch()
    code = "from netsim.core.jit import kernel; from netsim.traffic import _kernels; print(_kernels.__file__)"
    blocked = str(tmp_path / "blocked")
    Path(blocked).touch()
    env = {
        **os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/proc/none",
        "XDG_CACHE_HOME": blocked + "/x", "NUMBA_CACHE_DIR": blocked + "/x",
    }  # fmt: skip
    if env.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("nothing is compiled without JIT")
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(package))
    assert done.stderr.splitlines() == [
        "netsim: note: no writable folder for compiled kernels; set NUMBA_CACHE_DIR to keep them between runs"
    ]


@linux
def test_memory_is_limited_to_what_is_there_and_the_limit_is_lifted():
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited() as available:
        assert 0 < available <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with pytest.raises(MemoryError):
            np.ones(available // 8 + 2**27)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert available_bytes() > 0


def test_a_recorded_program_has_no_limit(run, tmp_path):
    out = tmp_path / "limit"
    code = f"import resource; open({str(out)!r}, 'w').write(str(resource.getrlimit(resource.RLIMIT_DATA)[0]))"
    run("capture", "-o", tmp_path / "t.parquet", "--", sys.executable, "-c", code)
    if not out.exists():
        pytest.skip("no MPI to record with")
    import resource

    assert int(out.read_text()) == resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_a_blocked_result_leaves_what_was_there(refused, trace_file, tmp_path):
    other = tmp_path / "out"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit) as stop:
        ns.cli.main(["replay", str(trace_file), "--topo", "star", "-o", str(other)])
    assert stop.value.code == 0
    assert (other / "notes.txt").read_text() == "mine"
    line = refused("replay", trace_file, "--topo", "star", "-o", trace_file / "below")
    assert line == f"output folder {trace_file}/below: must be writable, got Not a directory; choose another with -o"
