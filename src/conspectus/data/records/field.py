"""Arithmetic in the field of p = 2**61 − 1 elements, for public hashing in machine code. Imports nothing of ours.

Elements are 64-bit words below p. A product of two has 122 bits; it is gathered from four products of halves, and
folded with 2**61 ≡ 1. The kernels release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

P = (1 << 61) - 1
"""The number of elements of the field: a Mersenne prime."""

Elements = NDArray[np.uint64]

_LOW = np.uint64((1 << 31) - 1)
_MIDDLE = np.uint64((1 << 30) - 1)
_WHOLE = np.uint64(P)
_31, _30, _61, _1 = np.uint64(31), np.uint64(30), np.uint64(61), np.uint64(1)


@compiled
def reduced(number: Any) -> Any:
    """A word modulo p."""
    folded = (number & _WHOLE) + (number >> _61)
    return folded - _WHOLE if folded >= _WHOLE else folded


@compiled
def times(a: Any, b: Any) -> Any:
    """The product of two elements."""
    high_a, low_a = a >> _31, a & _LOW
    high_b, low_b = b >> _31, b & _LOW
    middle = low_a * high_b + high_a * low_b
    return reduced(((high_a * high_b) << _1) + (middle >> _30) + ((middle & _MIDDLE) << _31) + low_a * low_b)


@compiled
def horner(state: Any, key: Any, word: Any) -> Any:
    """state·key + word."""
    return reduced(times(state, key) + word)
