"""What a user waits for: import, help, first and later replays of a shipped trace.

    python benchmarks/startup.py [TRACE]

Each figure is the median of five whole processes (wall seconds); the first replay, with an empty kernel cache, is run once.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEFAULT = Path(__file__).parents[1] / "examples" / "traces" / "lammps-64.parquet"
BUDGET_S = {"import netsim": 0.1, "netsim --help": 0.3, "replay, warm": 2.0}


def seconds(command: list[str], runs: int = 5, **environment: str) -> float:
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main(trace: Path) -> None:
    python = sys.executable
    bare = seconds([python, "-c", "pass"])
    with tempfile.TemporaryDirectory() as cache:
        replay = [python, "-m", "netsim", "replay", str(trace), "--topo", "dragonfly"]
        rows = {
            "import netsim": seconds([python, "-c", "import netsim"]) - bare,
            "netsim --help": seconds([python, "-m", "netsim", "--help"]),
            "replay, first (compiles)": seconds(replay, runs=1, NUMBA_CACHE_DIR=cache),
            "replay, warm": seconds(replay, NUMBA_CACHE_DIR=cache),
        }
    print(f"bare Python start {bare:.3f} s (subtracted from the import)")
    for name, value in rows.items():
        budget = f"   budget {BUDGET_S[name]:g} s" if name in BUDGET_S else ""
        print(f"{name:<26} {value:7.3f} s{budget}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
