"""Sums, means and rates from the counts of cells, each with an interval.

What is known of a table of cells is a count for each and how far it may be off: noise of a known law, or a bound that
holds for all of them together. Everything here follows from that one table, the printed value too: a value from other
numbers than its interval, such as a table that was fitted to the noisy one, may lie far out in it or beyond its end.

- A weighted sum is off by the same weighted sum of noises.
- A ratio r of two sums is Fieller's: for the true r the sum of (a − r·b)·count is 0, so that all r are kept for which
  the noise of that sum could explain what is seen.

Noise may put an estimate beyond what is possible, and cut there, the interval would be a point. So it is taken around
the nearest possible number: the end on the possible side moves as far as the estimate does. Ends move outward alone
before they are cut, and what is cut off is not the truth: such an interval holds whenever the first one does.

Where a code stands for a bin, a row may hold any value in it. The lower end counts each as the least and the upper end
as the greatest, so that intervals hold for the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import Term, mixed_margin
from conspectus.privacy.tails import variance_of, weighted_quantile
from conspectus.synopses.estimate import Basis
from conspectus.synopses.noisy_vectors import NARROW

Vector = NDArray[np.float64]
_STEPS = 60


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number with the ends of its interval; None where no interval is honest, or where there is no number."""

    value: float | None
    low: float | None
    high: float | None
    basis: Basis

    def cut(self, least: float, most: float) -> Interval:
        """The same as far as it is possible, around the nearest possible number: no point unless that is certain."""
        if self.value is None:
            return self
        value = min(max(self.value, least), most)
        if self.low is None or self.high is None:
            return replace(self, value=value)
        moved = value - self.value
        low, high = max(self.low + min(moved, 0.0), least), min(self.high + max(moved, 0.0), most)
        return replace(self, value=value, low=min(low, value), high=max(high, value))

    def moved(self, by: float) -> Interval:
        """The same counted from another number."""
        value, low, high = (None if end is None else end + by for end in (self.value, self.low, self.high))
        return Interval(value=value, low=low, high=high, basis=self.basis)

    def scaled(self, factor: float) -> Interval:
        """The same in other units."""
        ends = [None if end is None else end * factor for end in (self.low, self.high)]
        low, high = ends if factor >= 0 else ends[::-1]
        value = None if self.value is None else self.value * factor
        return Interval(value=value, low=low, high=high, basis=self.basis)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellCounts:
    """Counts of cells, flat, and how far they may be off. Noise of a law is independent from cell to cell.

    Attributes:
        counts: What the synopsis says of each cell, in rows: the best guess where noise leaves everything possible.
        measured: The noisy counts that values and intervals rest on, where there are any; else the counts themselves.
        law: The law of the noise of each, in steps; None where there is no noise of a known law.
        grid: How many steps make one count.
        copies: How many noises are in each count.
        reach: A bound on all cells together, in rows, for a failure probability; None where there is none.
        basis: What it rests on.
    """

    counts: Vector
    measured: Vector
    law: Noise | None
    grid: int = 1
    copies: int = 1
    reach: Callable[[float], float] | None = None
    basis: Basis = "measured"

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far the cells may be off."""
        return self.law is not None

    @property
    def known(self) -> bool:
        """Whether intervals are honest."""
        return self.lawful or self.reach is not None

    def taken(self, places: NDArray[np.bool_]) -> CellCounts:
        """Some of the cells."""
        return replace(self, counts=self.counts[places], measured=self.measured[places])

    def margin(self, weights: Vector, failure: float) -> float:
        """How far a weighted sum of the cells is off at most, but for this probability."""
        if not self.lawful:
            return float(np.abs(weights).sum()) * (math.inf if self.reach is None else self.reach(failure))
        narrow = self.narrow(weights, failure)
        if narrow is not None:
            return narrow
        terms = tuple(sorted(self.terms(weights)))
        return mixed_margin(terms, 1 - failure) if terms else 0.0

    def narrow(self, weights: Vector, failure: float) -> float | None:
        """The margin where noise is hardly ever drawn, and so has no smooth law: a moment bound, a step at least."""
        if self.law is None or self.law.scale >= NARROW:
            return None
        sizes = np.repeat(np.abs(weights[weights != 0]), self.copies) / self.grid
        return max(weighted_quantile(self.law, sizes, 1 - failure), float(sizes.max(initial=0.0)))

    def terms(self, weights: Vector) -> list[Term]:
        """The noises of a weighted sum: law, weight, and how many."""
        assert self.law is not None
        # Noise of a weight that differs in the last digits alone has the same law, to more than those digits.
        sizes, times = np.unique(np.abs(weights[weights != 0]), return_counts=True)
        rounded: dict[float, int] = {}
        for size, often in zip(sizes.tolist(), times.tolist()):
            near = float(f"{size / self.grid:.6g}") * (1 + 1e-5)
            rounded[near] = rounded.get(near, 0) + often * self.copies
        return [(self.law, size, often) for size, often in rounded.items()]

    def deviation(self, weights: Vector) -> float:
        """The standard deviation of a weighted sum; without a law the margin itself takes its place."""
        if self.law is None:
            return float(np.abs(weights).sum())
        return math.sqrt(variance_of(self.law) * self.copies * float(np.square(weights).sum())) / self.grid

    def along(self, above: Vector, below: Vector) -> Callable[[float], float]:
        """Of a ratio r: the deviation of the sum with the weights above − r·below."""
        return lambda r: self.deviation(above - r * below)

    def rank_deviations(self, codes: NDArray[np.int64], size: int, q: float, column: int | None) -> Vector:
        """Of each of `size` codes: the deviation of the number of rows up to it less q times that of all rows.

        `column` is the one whose codes they are, for cells that share their noises.
        """
        held = np.cumsum(np.bincount(codes, minlength=size))
        if self.law is None:
            return np.asarray((1 - q) * held + q * (len(codes) - held))
        unit = self.deviation(np.ones(1))
        return np.asarray(unit * np.sqrt((1 - q) ** 2 * held + q**2 * (len(codes) - held)))

    def multiple(self, lines: Iterable[Vector], failure: float) -> float:
        """The margin of sums like these as a multiple of their deviation: the largest of theirs."""
        found = [(self.margin(line, failure), self.deviation(line)) for line in lines]
        return max((margin / spread for margin, spread in found if spread > 0), default=0.0)


@dataclass(frozen=True, eq=False)
class Values:
    """What rows of each cell add: what is estimated, the least and the greatest; and the variance inside the cell."""

    middle: Vector
    low: Vector
    high: Vector
    inner: Vector | float = 0.0

    @classmethod
    def of(cls, exact: Vector) -> Values:
        return Values(exact, exact, exact)

    def taken(self, places: NDArray[np.bool_]) -> Values:
        """Those of some cells."""
        inner = self.inner if isinstance(self.inner, float) else self.inner[places]
        return Values(self.middle[places], self.low[places], self.high[places], inner)

    @property
    def ones(self) -> Vector:
        """What each cell adds to the number of rows."""
        return np.ones(len(self.middle))

    @property
    def possible(self) -> tuple[float, float] | None:
        """Between what a mean of the values lies, where the cells do not tell it."""
        return None

    def times(self, other: Values) -> Values:
        """Products, by cell."""
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Values(self.middle * other.middle, np.minimum.reduce(corners), np.maximum.reduce(corners))

    def minus(self, centre: float) -> Values:
        return Values(self.middle - centre, self.low - centre, self.high - centre, self.inner)

    def squared(self) -> Values:
        ends = np.square(self.low), np.square(self.high)
        least = np.where((self.low < 0) & (self.high > 0), 0.0, np.minimum(*ends))
        return Values(np.square(self.middle) + self.inner, least, np.maximum(*ends))


def total(
    cells: CellCounts, values: Values, failure: float, known: float | None = None, most: float = math.inf
) -> Interval:
    """A weighted sum. `known` is the public number of rows in all cells together, which centres the weights; `most` how
    many rows there are at most.

    Without noise of a known law the cells may be those of some rows alone, or otherwise not add up to `known`. What
    they say of a row on average is then taken for all rows: never a value that no cell has.
    """
    centre = 0.0 if known is None or not len(values.low) else float(values.low.min() + values.high.max()) / 2
    rest = 0.0 if known is None else centre * known
    middle, below, above = (line - centre * values.ones for line in (values.middle, values.low, values.high))
    if not below.any() and not above.any():  # every row adds the same, or there is none
        return Interval(value=rest, low=rest, high=rest, basis="measured")
    # Negative counts may turn the least and the greatest of bins around: the estimate lies between both.
    sums = [rest + float(line @ cells.measured) for line in (below, middle, above)]
    value = sums[1]
    if known is not None and not cells.lawful:
        each = _quotient(cells.measured, values, values.ones, ends_of_values(values))
        value = value if each is None else each * known
    if not cells.known:
        nothing = known is not None and maybe_empty(cells, values.ones, failure)
        return Interval(value=None if nothing else value, low=None, high=None, basis="unguaranteed")
    low, high = min(*sums, value) - cells.margin(below, failure), max(*sums, value) + cells.margin(above, failure)
    found = Interval(value=value, low=low, high=high, basis=cells.basis)
    if not math.isfinite(most):
        return found
    least, highest = ends_of_values(values)
    ends = (most * min(least, 0.0), most * max(highest, 0.0)) if known is None else (known * least, known * highest)
    return said(cells, found.cut(*ends), *ends)


def mean(cells: CellCounts, values: Values, failure: float, known: float | None = None) -> Interval:
    """A sum over the number of rows. `known` is that number where it is public: then only the sum is uncertain."""
    if known is None or known <= 0 or not len(values.low):
        return by_rows(cells, values, failure)
    ends = ends_of_values(values)
    return said(cells, total(cells, values, failure, known).scaled(1 / known).cut(*ends), *ends)


def by_rows(cells: CellCounts, values: Values, failure: float) -> Interval:
    """A sum over a number of rows that is not known.

    Values are counted from their middle: of noise with values far from 0 floats would lose what tells these apart.
    """
    if not len(values.low):
        return ratio(cells, values, values.ones, failure)
    least, most = ends_of_values(values)
    middle = (least + most) / 2
    return ratio(cells, values.minus(middle), values.ones, failure).moved(middle)


def ends_of_values(values: Values) -> tuple[float, float]:
    """Between what the values lie."""
    return values.possible or (float(values.low.min()), float(values.high.max()))


def said(cells: CellCounts, found: Interval, least: float, most: float) -> Interval:
    """The interval, unless it is a bound on single cells that leaves everything possible: that says nothing."""
    vague = not cells.lawful and least < most and (found.low, found.high) == (least, most)
    return Interval(value=found.value, low=None, high=None, basis="unguaranteed") if vague else found


def ratio(cells: CellCounts, above: Values, below: Vector, failure: float) -> Interval:
    """The sum of `above` over the sum of `below`, which is nowhere negative: Fieller's interval."""
    nothing = Interval(value=None, low=None, high=None, basis="unguaranteed")
    if not len(below) or not below.any():
        return nothing
    counted = below > 0
    ends = above.possible
    if ends is None:  # rows that are not divided by may move it as far as they like, on their side
        lowest, highest = (above.low[counted] / below[counted]).min(), (above.high[counted] / below[counted]).max()
        least = -math.inf if (above.low[~counted] < 0).any() else float(lowest)
        most = math.inf if (above.high[~counted] > 0).any() else float(highest)
    else:
        least, most = ends
    if least == most:  # it is the same for every row
        return Interval(value=least, low=least, high=most, basis="measured")
    value = _quotient(cells.measured, above, below, (least, most))
    if value is None:
        return nothing
    unknown = nothing if maybe_empty(cells, below, failure) else replace(nothing, value=value)
    if not cells.known:
        return unknown
    far = 1e6 * (abs(value) + 1.0)
    tried = max(least, value - far), min(most, value + far)
    low, high = _fieller(cells, above, below, failure, (value, *tried))
    if (low == tried[0] and least < low) or (high == tried[1] and most > high):
        return unknown
    if (low, high) == (least, most):  # noise leaves everything possible: a fitted table is the better guess
        value = _quotient(cells.counts, above, below, (least, most))
    shown = value if value is None else min(max(value, low), high)
    found = said(cells, Interval(value=shown, low=low, high=high, basis=cells.basis), least, most)
    return unknown if found.low is None else found


def maybe_empty(cells: CellCounts, below: Vector, failure: float) -> bool:
    """Whether there may be no rows to divide by: less than half a row, or as far as reruns tell."""
    rows = float(below @ cells.counts)
    return rows < 0.5 or (cells.basis == "simulated" and rows <= cells.margin(below, failure))


def _quotient(counts: Vector, above: Values, below: Vector, possible: tuple[float, float]) -> float | None:
    """A ratio by these counts, as far as it is possible; the middle of that where there seem to be no rows, or None."""
    weight = float(below @ counts)
    least, most = possible
    if weight > 0:
        return min(max(float(above.middle @ counts) / weight, least), most)
    return (least + most) / 2 if math.isfinite(most - least) else None


def _fieller(
    cells: CellCounts, above: Values, below: Vector, failure: float, start: tuple[float, float, float]
) -> tuple[float, float]:
    """All ratios that the noise could explain, within what is possible.

    For the least possible ratio the sum of (above − r·below) is 0 or more. Where noise made it less, it is taken as 0,
    which is nearer to the truth: then fewer ratios are too large for what is seen, and never all of them. Likewise for
    the greatest one.
    """
    value, least, most = start
    rows = float(below @ cells.measured)
    sums = [float(line @ cells.measured) for line in (above.low, above.middle, above.high)]
    fewest, greatest = min(*sums, most * rows), max(*sums, least * rows)
    low, high = value, value
    times = 0.0
    for _ in range(2):  # the multiple hardly depends on the ratio: the ends of a first interval tell it well enough
        lines = [values - end * below for values in (above.low, above.high) for end in {low, high, value}]
        times = max(times, cells.multiple(lines, failure))
        # Both tests change their sign once: one is concave in r, the other convex.
        low = _crossing(_test(cells, above.low, below, fewest, -times), least, most, rising=False)
        high = _crossing(_test(cells, above.high, below, greatest, times), least, most, rising=True)
    return low, high


def _test(cells: CellCounts, above: Vector, below: Vector, first: float, times: float) -> Callable[[float], float]:
    """Of a ratio: what is seen of (above − r·below), the sum of `above` being `first`, moved by what noise may be."""

    spread, second = cells.along(above, below), float(below @ cells.measured)

    def seen(r: float) -> float:
        return first - r * second + times * spread(r)

    return seen


def _crossing(test: Callable[[float], float], least: float, most: float, *, rising: bool) -> float:
    """The smallest r at which a test that starts positive is no longer so; with `rising` the largest at which it is."""
    if test(least) <= 0 and not rising:
        return least
    if rising and test(most) >= 0:
        return most
    if rising and test(least) < 0:
        return least
    if not rising and test(most) > 0:
        return most
    low, high = least, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if (test(middle) >= 0) if rising else (test(middle) > 0):
            low = middle
        else:
            high = middle
    return high if rising else low
