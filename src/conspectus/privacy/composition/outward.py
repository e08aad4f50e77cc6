"""Numbers rounded outward: away from what would promise too much; and parameters that no theorem speaks of, refused."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable
from fractions import Fraction

from conspectus.whole_numbers import MOST

MARGIN = 2.0**-40


class CompositionError(ValueError):
    """Parameters for which a theorem of composition says nothing."""


def up(value: float, size: float | None = None) -> float:
    """`value` enlarged beyond any rounding error of the sum it came from, whose terms have this total size."""
    return value + MARGIN * (abs(value) if size is None else size)


def largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number found in [low, high] for which a decreasing property was checked to hold; low must have it."""
    if holds(high):
        return high
    while high - low > 2.0**-50 * high:
        # Halving exponents first: the answer may lie many orders of magnitude below `high`.
        middle = math.sqrt(low * high) if low > 0 and high > 4 * low else (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check(
    *losses: float | Fraction, delta: float = 0.5, count: int = 0, name: str = "an epsilon", counted: str = "acts"
) -> None:
    """Refuse parameters of which no theorem speaks; what a theorem does not have is left out."""
    if not is_real(delta) or not 0 < delta < 1:
        raise CompositionError(f"this theorem needs a delta above 0 and below 1, not {delta!r}")
    for loss in losses:
        if not is_real(loss) or not 0 <= loss < math.inf:
            raise CompositionError(f"{name} is a number from 0 on, not {loss!r}")
        if loss > sys.float_info.max:
            raise CompositionError(f"{name} is at most {sys.float_info.max:.4g}, as large as numbers are here")
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 0:
        raise CompositionError(f"the number of {counted} is a whole number from 0 on, not {count!r}")
    if count > MOST:
        raise CompositionError(f"the number of {counted} is at most {MOST:,}")
