"""Variances, covariances and correlations from the counts of cells, each with an interval.

A variance is the ratio with (x − t)² for the true mean t. All t in an interval of the mean are tried, and the failure
probability is shared. A covariance takes the corners of two such intervals: both sides of the test are convex or
concave in the two means. Both are cut as those that were released by themselves are: to what is possible for any rows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from .cell_estimates import CellCounts, Interval, Values, Vector, by_rows, ends_of_values, ratio, said

_GRID = 9
"""Of how many means a variance is tried around."""


def variance(cells: CellCounts, values: Values, failure: float) -> Interval:
    """The mean squared distance from the mean: no less than 0, and at most a quarter of the squared range."""
    if not len(values.low):
        return by_rows(cells, values, failure)
    ones, most = values.ones, _range(values) ** 2 / 4
    mean = by_rows(cells, values, failure / 2)
    if mean.value is None:
        return mean
    found = ratio(cells, values.minus(mean.value).squared(), ones, failure / 2)
    if found.low is None or found.high is None or mean.low is None or mean.high is None or found.value is None:
        return found if found.value is None else replace(found, value=_product(cells.measured, (values,), (0.0, most)))
    span = mean.high - mean.low
    lows, highs = [found.low], [found.high]
    if span > 0:
        for centre in np.linspace(mean.low, mean.high, _GRID):
            tried = ratio(cells, values.minus(float(centre)).squared(), ones, failure / 2)
            lows += [tried.low] if tried.low is not None else []
            highs += [tried.high] if tried.high is not None else []
    between = span * span / (_GRID - 1)  # how much E(x − t)² may change from one centre to the next
    around = replace(found, low=min(lows) - between, high=max(highs) + between)
    return _cut(cells, (values,), around, (0.0, most))


def covariance(cells: CellCounts, first: Values, second: Values, failure: float) -> Interval:
    """The mean product of distances from two means: at most a quarter of the product of the ranges, on either side."""
    if not len(first.low):
        return by_rows(cells, first, failure)
    ones, most = np.ones(len(first.middle)), _range(first) * _range(second) / 4
    a, b = (by_rows(cells, values, failure / 3) for values in (first, second))
    if a.value is None or b.value is None:
        return a
    found = ratio(cells, first.minus(a.value).times(second.minus(b.value)), ones, failure / 3)
    if found.value is None or a.low is None or a.high is None or b.low is None or b.high is None or found.low is None:
        possible = (-most, most)
        return (
            found if found.value is None else replace(found, value=_product(cells.measured, (first, second), possible))
        )
    tried = [
        ratio(cells, first.minus(s).times(second.minus(t)), ones, failure / 3)
        for s in (a.low, a.high)
        for t in (b.low, b.high)
    ]
    low = min(one.low for one in [found, *tried] if one.low is not None)
    high = max(one.high for one in [found, *tried] if one.high is not None)
    return _cut(cells, (first, second), replace(found, low=low, high=high), (-most, most))


def _cut(
    cells: CellCounts,
    columns: tuple[Values, ...],
    around: Interval,
    possible: tuple[float, float],
) -> Interval:
    """A variance or covariance with its interval, both cut to what is possible, as one that was released by itself is.

    Where noise leaves everything possible a fitted table is the better guess.
    """
    found = around.cut(*possible)
    value = _product(cells.counts if (found.low, found.high) == possible else cells.measured, columns, possible)
    if found.low is not None and found.high is not None:
        found = replace(found, value=min(max(value, found.low), found.high))
    return said(cells, found, *possible)


def _product(counts: Vector, columns: tuple[Values, ...], possible: tuple[float, float]) -> float:
    """The mean product of distances from means by these counts, cut to what is possible; without rows its middle."""
    ones = columns[0].ones
    rows = float(ones @ counts)
    if rows <= 0:
        return sum(possible) / 2
    moved = []
    for values in columns:
        least, most = ends_of_values(values)
        from_middle = values.minus((least + most) / 2)
        reach = (most - least) / 2
        moved.append(from_middle.minus(min(max(float(from_middle.middle @ counts) / rows, -reach), reach)))
    products = moved[0].squared() if len(moved) == 1 else moved[0].times(moved[1])
    return min(max(float(products.middle @ counts) / rows, possible[0]), possible[1])


def _range(values: Values) -> float:
    least, most = ends_of_values(values)
    return most - least


def correlation(cells: CellCounts, first: Values, second: Values, failure: float) -> Interval:
    """Pearson's correlation: a covariance over two deviations, whose intervals share what may go wrong."""
    together = covariance(cells, first, second, failure / 2)
    spreads = [variance(cells, values, failure / 4) for values in (first, second)]
    if together.value is None or any(not one.value for one in spreads):
        return Interval(value=None, low=None, high=None, basis="unguaranteed")
    middle = math.sqrt(math.prod(one.value or 0.0 for one in spreads))
    value = together.value / middle
    if together.low is None or together.high is None or any(one.low is None for one in spreads):
        return Interval(value=value, low=None, high=None, basis="unguaranteed").cut(-1.0, 1.0)
    least = math.sqrt(math.prod(one.low or 0.0 for one in spreads))
    most = math.sqrt(math.prod(one.high or 0.0 for one in spreads))

    def end(of: float, toward: float) -> float:
        divisor = least if of * toward > 0 else most
        return of / divisor if divisor > 0 else toward

    low, high = end(together.low, -1.0), end(together.high, 1.0)
    found = Interval(value=value, low=min(low, value), high=max(high, value), basis=together.basis)
    return found.cut(-1.0, 1.0)
