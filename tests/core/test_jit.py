"""Kernels where their cache cannot be kept, and what is said on the first run."""

from __future__ import annotations

import os
import subprocess
import sys

KERNEL = """
from netsim.core.jit import kernel

@kernel
def twice(x):
    return 2 * x
"""


def run(folder, **environment):
    (folder / "user_kernels.py").write_text(KERNEL)
    env = {**os.environ, "NUMBA_DISABLE_JIT": "0", **environment}
    outcome = subprocess.run(
        [sys.executable, "-c", "import user_kernels as k; print(k.twice(21.0))"],
        cwd=folder, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == "42.0\n"
    return outcome.stderr


def test_compilation_is_announced_once_and_cached(tmp_path):
    cache = tmp_path / "cache"
    first = run(tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert first == "netsim: compiling kernels once, about half a minute, and cached for the next run\n"
    assert run(tmp_path, NUMBA_CACHE_DIR=str(cache)) == ""


def test_a_cache_that_cannot_be_written_costs_a_note(tmp_path):
    # A file where each folder should be: no user, not even root, can write there.
    (tmp_path / "file").write_text("")
    (tmp_path / "__pycache__").write_text("")
    blocked = str(tmp_path / "file" / "cache")
    said = run(tmp_path, NUMBA_CACHE_DIR=blocked, XDG_CACHE_HOME=blocked, HOME=blocked).splitlines()
    assert said == [
        "netsim: note: no writable folder for compiled kernels; set NUMBA_CACHE_DIR to keep them between runs",
        "netsim: compiling kernels once, about half a minute, and cannot be cached here",
    ]


def test_without_numba_compilation_the_answers_are_the_same(tmp_path):
    assert run(tmp_path, NUMBA_DISABLE_JIT="1") == ""
