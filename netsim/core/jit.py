"""Compiled kernels: one decorator, a cache that never fails a run, and an announced first compilation.

Kernel files (``_kernels.py``) write ``from netsim.core.jit import kernel`` and nothing else from numba.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, cast

import numba
from numba.core import event

__all__ = ["bare_kernel", "kernel", "on_compile"]

Kernel = Callable[..., Any]

_announced = False
_cacheless = False


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def on_compile() -> None:
    """Called when numba starts to compile (not when it loads from its cache): says so, once per process."""
    global _announced
    if not _announced:
        _announced = True
        where = "and cannot be cached here" if _cacheless else "and cached for the next run"
        _say(f"netsim: compiling kernels once, about half a minute, {where}")


class _Announcer(event.Listener):
    def on_start(self, event: Any) -> None:
        on_compile()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call,unused-ignore]


def kernel(function: Kernel) -> Kernel:
    """``numba.njit`` with netsim's policy: cached, numpy error model, no fast-math, no explicit signatures.

    Where no cache folder is writable the kernel still compiles, for this process only, and says so once.
    """
    return _compiled(function, {"error_model": "numpy"})


def bare_kernel(function: Kernel) -> Kernel:
    """A kernel that allocates nothing and calls only such kernels: compiled without reference counting, parts in place.

    Each access to an array in a named tuple counts references, atomically; in loops made of such accesses that was 60 % of the time
    and more (a ring of dependent messages ran 4.4 times faster without). Functions whose names begin with an underscore are
    inlined: a call passes every array of a named tuple through memory (inlined, the ring ran 3 times faster again). The option
    behind the first is not a public one of numba: where a version does not know it, the kernel is compiled as any other, with
    the same results.
    """
    options = {"error_model": "numpy", "forceinline": function.__name__.startswith("_")}
    try:
        return _compiled(function, {**options, "_nrt": False})
    except (KeyError, TypeError):
        return _compiled(function, options)


def _compiled(function: Kernel, options: dict[str, Any]) -> Kernel:
    global _cacheless
    if not _cacheless:
        try:
            return cast(Kernel, _SafeCache.protect(numba.njit(cache=True, **options)(function)))
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _cacheless = True
            _say("netsim: note: no writable folder for compiled kernels; set NUMBA_CACHE_DIR to keep them between runs")
    return cast(Kernel, numba.njit(**options)(function))


class _SafeCache:
    """Wrap a dispatcher's cache so that a full disk or a folder turned read-only costs a note, not the run."""

    @staticmethod
    def protect(dispatcher: Any) -> Any:
        cache = getattr(dispatcher, "_cache", None)
        save = getattr(cache, "save_overload", None)
        if cache is None or save is None:
            return dispatcher

        def save_or_note(sig: Any, data: Any) -> None:
            try:
                save(sig, data)
            except OSError as error:
                global _cacheless
                if not _cacheless:
                    _cacheless = True
                    _say(f"netsim: note: compiled kernels could not be cached ({error}); set NUMBA_CACHE_DIR")

        with contextlib.suppress(AttributeError):
            cache.save_overload = save_or_note
        return dispatcher
