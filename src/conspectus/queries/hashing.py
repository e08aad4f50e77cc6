"""Public hash functions with a proved degree of independence: random polynomials over the field of 2**61 − 1 elements.

A polynomial of degree below r with independent uniform coefficients takes independent uniform values at any r different
points: for any r points and any r values exactly one of the p^r polynomials fits. So of a matrix with one such
polynomial for each row, any r entries of a row are independent. Coefficients come from a public seed by SHAKE-256.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.data.records.field import Elements, P, horner

SIGNS = 16
"""Signs that are taken from one value: 16 bits of a uniform element are uniform up to a part in 2**45."""

_ONE = np.uint64(1)


def polynomials(public_seed: int, functions: int, independence: int) -> Elements:
    """The coefficients of some polynomials, each of degree below `independence`: independent and uniform in the field.

    They depend on the seed, and not on how many polynomials are drawn after them.
    """
    wanted = functions * independence
    seed = b"conspectus: polynomials %d " % public_seed
    words = np.frombuffer(hashlib.shake_256(seed).digest(8 * (wanted + 64)), dtype="<u8") & np.uint64(P)
    kept: Elements = words[words != np.uint64(P)][:wanted].astype(np.uint64)  # one word in 2**61 is refused
    return kept.reshape((functions, independence))


@compiled
def value_at(coefficients: Any, point: Any) -> Any:
    """The value of one polynomial at one point."""
    state = coefficients[0]
    for power in range(1, len(coefficients)):
        state = horner(state, point, coefficients[power])
    return state


@compiled
def add_signs(coefficients: Any, points: Any, weights: Any, sums: Any) -> None:
    """sums[i] ±= weight for every point: the dense form, `SIGNS` coordinates from each value.

    Four points go side by side: each step of a polynomial waits for the step before it, and meanwhile the processor
    works on the other points.
    """
    padded = -(-len(points) // 4) * 4
    four, shares = np.zeros(padded, dtype=np.uint64), np.zeros(padded, dtype=np.int64)
    four[: len(points)] = points
    shares[: len(points)] = weights
    for group in range(len(coefficients)):
        mine = coefficients[group]
        found = np.zeros(SIGNS, dtype=np.int64)
        for place in range(0, padded, 4):
            a = b = c = d = mine[0]
            for power in range(1, len(mine)):
                a = horner(a, four[place], mine[power])
                b = horner(b, four[place + 1], mine[power])
                c = horner(c, four[place + 2], mine[power])
                d = horner(d, four[place + 3], mine[power])
            for digit in range(SIGNS):
                shift = np.uint64(digit)
                found[digit] += (
                    shares[place] * (1 - 2 * np.int64((a >> shift) & _ONE))
                    + shares[place + 1] * (1 - 2 * np.int64((b >> shift) & _ONE))
                    + shares[place + 2] * (1 - 2 * np.int64((c >> shift) & _ONE))
                    + shares[place + 3] * (1 - 2 * np.int64((d >> shift) & _ONE))
                )
        first = group * SIGNS
        for digit in range(min(SIGNS, len(sums) - first)):
            sums[first + digit] += found[digit]


@compiled
def dot_signs(coefficients: Any, points: Any, sums: Any) -> NDArray[np.float64]:
    """For every point Σ ±sums[i]."""
    found = np.zeros(len(points), dtype=np.float64)
    for place in range(len(points)):
        total = 0.0
        for group in range(len(coefficients)):
            bits = value_at(coefficients[group], points[place])
            first = group * SIGNS
            for digit in range(min(SIGNS, len(sums) - first)):
                total += sums[first + digit] * (1 - 2 * np.float64((bits >> np.uint64(digit)) & _ONE))
        found[place] = total
    return found


@compiled
def add_buckets(coefficients: Any, points: Any, weights: Any, buckets: int, sums: Any) -> None:
    """Every point has one ±weight in each block of `buckets` coordinates: the sparse form."""
    for place in range(len(points)):
        for block in range(len(coefficients)):
            value = value_at(coefficients[block], points[place])
            at = block * buckets + np.int64((value >> _ONE) % np.uint64(buckets))
            sums[at] += weights[place] * (1 - 2 * np.int64(value & _ONE))


@compiled
def dot_buckets(coefficients: Any, points: Any, buckets: int, sums: Any) -> NDArray[np.float64]:
    """For every point the sum over the blocks of ±sums at its bucket."""
    found = np.zeros(len(points), dtype=np.float64)
    for place in range(len(points)):
        for block in range(len(coefficients)):
            value = value_at(coefficients[block], points[place])
            at = block * buckets + np.int64((value >> _ONE) % np.uint64(buckets))
            found[place] += sums[at] * (1 - 2 * np.float64(value & _ONE))
    return found
