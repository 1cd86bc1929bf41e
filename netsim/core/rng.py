"""Random streams keyed by name, so that adding a draw in one place never changes another.

>>> float(stream(1, "traffic", "sizes").random()) == float(stream(1, "traffic", "sizes").random())
True
>>> float(stream(1, "traffic", "sizes").random()) == float(stream(1, "placement").random())
False
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["hash64", "stream"]


def stream(seed: int, *names: str) -> np.random.Generator:
    """A generator (Philox) whose key is the seed and the path of names, the same on every machine and in every process."""
    digest = hashlib.sha256("\x1f".join([str(int(seed)), *names]).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def hash64(seed: int, *columns: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Counter-based hash of integer columns: one well-mixed 64-bit word per row (SplitMix64 finaliser, Steele et al. 2014).

    Used where a decision must depend on who asks and never on when: ECMP choices, placements of single items.

    Parameters
    ----------
    seed : int
        Any integer; it salts the whole hash.
    *columns : array_like of int, shape (n,) or scalar
        Broadcast against each other.

    Examples
    --------
    >>> a = hash64(7, [0, 1, 2], 5)
    >>> bool((a == hash64(7, [0, 1, 2], [5, 5, 5])).all()), len(set(a.tolist()))
    (True, 3)
    """
    with np.errstate(over="ignore"):
        state: Any = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
        state = _mix(state + np.uint64(0x9E3779B97F4A7C15))
        for column in columns:
            word = np.asarray(column, dtype=np.int64).astype(np.uint64)
            state = _mix((state ^ word) + np.uint64(0x9E3779B97F4A7C15))
    return np.asarray(state, dtype=np.uint64)


def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
