"""Every example runs, alone, and says something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
ARGUMENTS = {
    "compare_networks.py": ["traces/lammps-64.parquet"],
    "tensorflow_on_hpc.py": ["{folder}/speed.svg"],
    "optics_study.py": ["--ranks", "27", "--iterations", "2", "--picture", "{folder}/study.svg"],
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example(name, tmp_path):
    words = [word.format(folder=tmp_path) for word in ARGUMENTS.get(name, [])]
    outcome = subprocess.run([sys.executable, name, *words], cwd=EXAMPLES, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.strip()
    assert "Warning" not in outcome.stderr
