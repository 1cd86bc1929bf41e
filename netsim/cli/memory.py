"""A limit on memory: what does not fit ends in one clear line, not in a killed process or a machine that swaps."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_bytes", "limited"]


def available_bytes() -> int | None:
    """Memory that can be had without swapping: what the machine and the control group leave; None where unknown."""
    found: list[int] = []
    with contextlib.suppress(OSError, AttributeError):
        match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if match:
            found.append(int(match.group(1)) * 1024)
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            group = Path("/sys/fs/cgroup")
            found.append(int((group / most).read_text()) - int((group / used).read_text()))
    return max(min(found), 0) if found else None


@contextlib.contextmanager
def limited() -> Iterator[int | None]:
    """Let this process take only the memory that is there, where the system can say and enforce that (Linux).

    Yields
    ------
    int or None
        Bytes that were available.
    """
    available = available_bytes()
    try:
        import resource

        match = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if match is None or available is None:
            raise OSError
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = int(match.group(1)) * 1024 + available
        if soft != resource.RLIM_INFINITY:
            limit = min(limit, soft)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError):
        yield None
        return
    try:
        yield available
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
