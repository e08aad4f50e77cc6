"""Cells of one column together with what was bought inside its bins: as if every row's value had been seen.

With w the place of a value in its bin, the value is x = middle + width·(w − ½). So a sum of x over some bins is a sum
of middles, by the counts of the cells, and of width·(a − c)/2, where a and c are the sums of w² and (1 − w)² that were
measured; a sum of (x − t)² is a combination of the same numbers. All of these carry noise of known laws, and intervals
count the noise and what narrow bins do not tell. Of other groups of rows than whole bins nothing is known inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.data.columns.kinds import Column
from conspectus.privacy.mixed_noise import mixed_margin, wide_margin
from conspectus.queries.query import VALUE_STEPS
from conspectus.releases.within_bins import BinValues

from .cell_estimates import CellCounts, Values, Vector


def code_ends(column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest number that each code stands for; of codes without a number 0, which nobody asks."""
    low = np.zeros(column.size)
    if column.kind == "date":  # quantiles alone are asked of dates, and take the codes
        return low, low
    if column.kind == "boolean":
        low[1] = 1.0
        return low, low
    if not column.ordered:
        low[: column.regular] = [float(column.own_value(code)) for code in range(column.regular)]
        return low, low
    high = low.copy()
    low[: column.regular] = column.lows  # type: ignore[attr-defined]
    high[: column.regular] = column.highs  # type: ignore[attr-defined]
    return low, high


@dataclass(frozen=True, eq=False, kw_only=True)
class BinnedCells(CellCounts):
    """Counts of bins, and behind them the three sums of each: `bins` and `inside` hold one of both alone."""

    bins: CellCounts
    inside: CellCounts

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far the bins may be off; of what is inside it always does."""
        return self.bins.lawful

    @property
    def known(self) -> bool:
        """Whether intervals are honest."""
        return self.bins.known

    def margin(self, weights: Vector, failure: float) -> float:
        """How far a weighted sum is off at most, but for this probability."""
        cells, sums = self._apart(weights)
        if not self.lawful:
            return self.bins.margin(cells, failure / 2) + self.inside.margin(sums, failure / 2)
        narrow = self.bins.narrow(cells, failure / 2)
        if narrow is not None:
            return narrow + self.inside.margin(sums, failure / 2)
        terms = (*self.bins.terms(cells), *self.inside.terms(sums))
        if (closed := wide_margin(terms, 1 - failure)) is not None:
            return closed
        return mixed_margin(tuple(sorted(terms, key=lambda term: (-term[1], term[2]))), 1 - failure)

    def deviation(self, weights: Vector) -> float:
        """The standard deviation of a weighted sum; without a law what takes its place."""
        cells, sums = self._apart(weights)
        if not self.lawful:
            reach = 1.0 if self.reach is None else self.reach(0.05)
            return self.bins.deviation(cells) * reach + 2 * self.inside.deviation(sums)
        return math.hypot(self.bins.deviation(cells), self.inside.deviation(sums))

    def _apart(self, weights: Vector) -> tuple[Vector, Vector]:
        cut = len(weights) - len(self.inside.counts)
        return weights[:cut], weights[cut:]


@dataclass(frozen=True, eq=False)
class BinnedValues(Values):
    """What bins and their sums add to a sum of values: see the module.

    `bins` has the middle, the width and the slack of each bin.
    """

    bins: tuple[Vector, ...] = ()

    @classmethod
    def made(cls, middle: Vector, width: Vector, slack: Vector) -> BinnedValues:
        """From the bins that are asked about."""
        sums = np.concatenate([width / 2, np.zeros(len(middle)), -width / 2])
        least, most = np.concatenate([middle - slack, sums]), np.concatenate([middle + slack, sums])
        return cls((least + most) / 2, least, most, bins=(middle, width, slack))

    @property
    def ones(self) -> Vector:
        bins = len(self.bins[0])
        return np.concatenate([np.ones(bins), np.zeros(3 * bins)])

    @property
    def possible(self) -> tuple[float, float]:
        middle, width, *_ = self.bins
        return float((middle - width / 2).min()), float((middle + width / 2).max())

    def minus(self, centre: float) -> BinnedValues:
        middle, width, slack = self.bins
        return BinnedValues.made(middle - centre, width, slack)

    def squared(self) -> Values:
        middle, width, slack = self.bins
        far, near = np.abs(middle) + width / 2, np.maximum(np.abs(middle) - width / 2, 0.0)
        moved = 2 * far * slack + slack**2
        sums = np.concatenate([middle * width + width**2 / 4, -(width**2) / 4, -middle * width + width**2 / 4])
        least, most = np.concatenate([middle**2 - moved, sums]), np.concatenate([middle**2 + moved, sums])
        ends = float(np.square(near).min()), float(np.square(far).max())
        return _Squares((least + most) / 2, least, most, ends=ends)


@dataclass(frozen=True, eq=False)
class _Squares(Values):
    """Squares of binned values, and between what their mean lies."""

    ends: tuple[float, float] = (0.0, math.inf)

    @property
    def possible(self) -> tuple[float, float]:
        return self.ends


def with_inside(cells: CellCounts, known: BinValues, codes: NDArray[np.int64]) -> tuple[BinnedCells, BinnedValues]:
    """The cells of these codes of a column with what is known inside: all rows of the table in these bins count."""
    finer = known.finer
    sums = known.sums[:, codes].ravel()
    inside = CellCounts(counts=sums, measured=sums, law=known.law, grid=VALUE_STEPS)
    both = BinnedCells(
        counts=np.concatenate([cells.counts, sums]),
        measured=np.concatenate([cells.measured, sums]),
        law=cells.law,
        reach=cells.reach,
        basis=cells.basis,
        bins=cells,
        inside=inside,
    )
    low, width = finer.low[codes], finer.width[codes]
    return both, BinnedValues.made(low + width / 2, width, finer.slack[codes])
