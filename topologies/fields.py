"""Finite fields GF(p^k), on arrays: what Slim Fly and PolarFly are built from."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from netsim.core.arrays import Int64
from netsim.core.errors import InputError

__all__ = ["Field", "is_prime_power", "prime_power"]


def prime_power(q: int) -> tuple[int, int] | None:
    """The prime p and the exponent k with q = p^k, or None.

    >>> prime_power(9), prime_power(13), prime_power(12), prime_power(1)
    ((3, 2), (13, 1), None, None)
    """
    if q < 2:
        return None
    p = next((d for d in range(2, math.isqrt(q) + 1) if q % d == 0), q)
    k = 0
    while q % p == 0:
        q //= p
        k += 1
    return (p, k) if q == 1 else None


def is_prime_power(q: int) -> bool:
    """Whether there is a field of q elements."""
    return prime_power(q) is not None


class Field:
    """The field of q = p^k elements.

    Elements are the numbers 0 .. q-1: the base-p digits of a number, lowest first, are the coefficients of a polynomial
    modulo a primitive one of degree k. 0 and 1 are zero and one.

    Parameters
    ----------
    q : int
        Prime power.

    Raises
    ------
    InputError
        ``q`` is no prime power.

    Notes
    -----
    Products go through logarithms to a primitive element, sums through digits. R. Lidl, H. Niederreiter, "Finite
    Fields", 1997, chapters 2 and 3.

    Examples
    --------
    >>> field = Field(4)
    >>> field.add([1, 2, 3], 1).tolist(), field.multiply(2, [0, 1, 2, 3]).tolist()
    ([0, 3, 2], [0, 2, 3, 1])
    >>> Field(6)
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: field: the number of elements must be a prime power, got 6
    """

    def __init__(self, q: int) -> None:
        found = prime_power(q)
        if found is None:
            raise InputError("field", "the number of elements must be a prime power", got=q)
        self.q = q
        self.p, self.k = found

    @cached_property
    def powers(self) -> Int64:
        """Powers 0 .. q-2 of a primitive element: every element but 0 once; int64, shape (q - 1,)."""
        p, k, q = self.p, self.k, self.q
        if k == 1:
            for root in range(1, p):
                found = _orbit(partial(self._times_root, root), q)
                if found is not None:
                    return found
        # x^k = tail(x): a polynomial x^k - tail is primitive when the powers of x run through all elements but 0.
        for tail in range(1, q):
            found = _orbit(partial(self._times_x, [self._scale(tail, c) for c in range(p)]), q)
            if found is not None:
                return found
        raise AssertionError("every finite field has a primitive element")

    def _times_root(self, root: int, a: int) -> int:
        return a * root % self.p

    def _times_x(self, carried: list[int], a: int) -> int:
        top, rest = divmod(a, self.q // self.p)
        return self._plus(rest * self.p, carried[top])

    def _plus(self, a: int, b: int) -> int:
        total, place = 0, 1
        for _ in range(self.k):
            total += (a + b) % self.p * place
            a, b, place = a // self.p, b // self.p, place * self.p
        return total

    def _scale(self, a: int, c: int) -> int:
        total, place = 0, 1
        for _ in range(self.k):
            total += a * c % self.p * place
            a, place = a // self.p, place * self.p
        return total

    @cached_property
    def _log(self) -> Int64:
        log = np.zeros(self.q, dtype=np.int64)
        log[self.powers] = np.arange(self.q - 1)
        return log

    def add(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
        """Sum, elementwise with broadcasting."""
        return self._digitwise(a, b, 1)

    def subtract(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
        """Difference, elementwise with broadcasting."""
        return self._digitwise(a, b, -1)

    def _digitwise(self, a: npt.ArrayLike, b: npt.ArrayLike, sign: int) -> Int64:
        x, y = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        if self.k == 1:
            return np.asarray((x + sign * y) % self.p, dtype=np.int64)
        if self.p == 2:
            return np.asarray(x ^ y, dtype=np.int64)
        total, place = np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.int64), 1
        for _ in range(self.k):
            total += (x + sign * y) % self.p * place
            x, y, place = x // self.p, y // self.p, place * self.p
        return total

    def multiply(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
        """Product, elementwise with broadcasting."""
        x, y = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        product = self.powers[(self._log[x] + self._log[y]) % (self.q - 1)]
        return np.where((x == 0) | (y == 0), 0, product).astype(np.int64)

    def divide(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64:
        """Quotient, elementwise with broadcasting; ``b`` has no zeros."""
        x, y = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        quotient = self.powers[(self._log[x] - self._log[y]) % (self.q - 1)]
        return np.where(x == 0, 0, quotient).astype(np.int64)


def _orbit(times: Callable[[int], int], q: int) -> Int64 | None:
    """1, t, t^2, ... until 1 comes again, if those are all q - 1 elements but 0."""
    x = 1
    orbit: list[int] = []
    while len(orbit) < q - 1:
        orbit.append(x)
        x = times(x)
        if x in (0, 1):
            break
    return np.array(orbit, dtype=np.int64) if len(orbit) == q - 1 and x == 1 else None
