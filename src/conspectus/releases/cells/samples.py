"""Variances and covariances as those of a sample: over one row less than there are."""

from __future__ import annotations

import math

from .cell_estimates import Interval

_TWO_ROWS = 1.5
"""A noisy count from here on is nearer to two rows than to one."""


def of_sample(found: Interval, count: float, rows: tuple[float, float] | None) -> Interval:
    """A variance or covariance as that of a sample; null of what is one row or none.

    Of few rows that is up to twice as much, and how much it is hangs on their number, which is noisy, too.

    Args:
        found: The same over all rows.
        count: How many there seem to be.
        rows: Between which numbers they lie; None where that is not known.
    """
    if found.value is None or count < _TWO_ROWS:
        return Interval(value=None, low=None, high=None, basis="unguaranteed")
    value = found.value * _one_less(count)
    if found.low is None or found.high is None or rows is None:
        return Interval(value=value, low=None, high=None, basis="unguaranteed")
    most, least = map(_one_less, rows)
    low, high = found.low * (least if found.low > 0 else most), found.high * (most if found.high > 0 else least)
    return Interval(value=min(max(value, low), high), low=low, high=high, basis=found.basis)


def _one_less(rows: float) -> float:
    """A number of rows over one less; there are two or more, or nothing to divide."""
    return 1.0 if rows == math.inf else max(rows, 2.0) / (max(rows, 2.0) - 1)
