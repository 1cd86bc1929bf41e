"""Fixtures of the lowering tests."""

from __future__ import annotations

import sys
from pathlib import Path

# Tests are imported by file, so a helper module beside them needs its folder on the path.
sys.path.insert(0, str(Path(__file__).parent))
