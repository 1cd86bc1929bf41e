"""Compiled loops of the traffic layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.core.jit import kernel

__all__ = ["peel"]


@kernel
def peel(ptr: Any, succ: Any, indegree: Any) -> Any:
    """Remove vertices without predecessors again and again; returns which vertices are left (on a cycle, or behind one)."""
    n = indegree.size
    missing = indegree.copy()
    left = np.ones(n, np.bool_)
    stack = np.empty(n, np.int64)
    top = 0
    for v in range(n):
        if missing[v] == 0:
            stack[top] = v
            top += 1
    while top:
        top -= 1
        v = stack[top]
        left[v] = False
        for e in range(ptr[v], ptr[v + 1]):
            w = succ[e]
            missing[w] -= 1
            if missing[w] == 0:
                stack[top] = w
                top += 1
    return left
