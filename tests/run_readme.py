"""Run the commands that a page of documentation shows, as a reader would.

    python tests/run_readme.py PAGE main|test|all

Fenced blocks marked ``console`` hold shell commands, one per line; blocks marked ``python`` hold programs. A block whose opening
line carries a word after the language belongs to that part: ``console main`` is the set-up and main job, ``console test`` the
set-up and tests; the set-up (``pip install``) has been done by the caller. ``all`` runs every block without such a word, in order, in
one fresh folder that sees the checkout's ``examples``; ``skip`` blocks are for machines we do not have, and are listed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main(page: str, part: str) -> int:
    root = Path(__file__).resolve().parents[1]
    blocks = re.findall(r"^```(console|python)[ \t]*(\w*)[ \t]*\n(.*?)^```", (root / page).read_text(), re.M | re.S)
    chosen = [(language, body) for language, word, body in blocks if word == ("" if part == "all" else part)]
    skipped = sum(word == "skip" for _, word, _ in blocks)
    with tempfile.TemporaryDirectory() as folder:
        # The tests run in the checkout; everything else where nothing of the checkout can be imported by accident.
        here = root if part == "test" else Path(folder)
        if here != root:
            (here / "examples").symlink_to(root / "examples")
        for language, body in chosen:
            if language == "python":
                print(f">>> {body.splitlines()[0]} ...", flush=True)
                subprocess.run([sys.executable, "-c", body], cwd=here, check=True)
                continue
            for line in body.splitlines():
                command = re.sub(r"\s+#.*", "", line).strip()
                # "pip install X && rest": the installation has been done, and with what.
                command = re.sub(r"^pip install \S+( && |$)", "", command)
                if command:
                    print(f"$ {command}", flush=True)
                    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=here, check=True)
    print(f"{page}, {part}: {len(chosen)} blocks run{f', {skipped} marked skip' if skipped else ''}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
