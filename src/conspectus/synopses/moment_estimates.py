"""Sums, means, variances and covariances from what a synopsis says about their parts, with intervals.

A mean is a ratio N/D of two combinations of the parts. Where the noise of the parts is known, its interval is
Fieller's: all r for which N − r·D, whose noise is a weighted sum of known noises, could be 0. It holds with its
confidence however noisy the count is, and is the whole range of the column where nothing is known.

A variance is E(x − m)². With the estimated mean c in place of m it is a ratio of the same kind, too large by (m − c)².
The interval of that ratio is widened by the square of how far c may be from m: that is of second order, and much
smaller than the interval itself wherever the count is known to within a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.moments import Moment
from conspectus.queries.query import VALUE_STEPS

from .estimate import Basis, Estimate
from .noisy_vectors import NoisyVector

Coefficients = NDArray[np.float64]
Bounding = Callable[[Coefficients], tuple[float, float]]
"""From what a row adds to the numerator of a ratio, by part, to the ends of the ratio."""
_ROUNDING = 8 / VALUE_STEPS
"""How far rounding the places of values may move a moment, in spans of what is possible."""

RARELY = 0.02
"""Of a failure probability, what the number of rows may take where a variance is that of a sample."""

SURE = 0.999
"""With this confidence a centre is as near to the mean as is assumed where a variance is widened for it."""


@dataclass(frozen=True, kw_only=True)
class MomentEstimate:
    """A moment in the units of its columns, with an interval, and over how many rows it is.

    Attributes:
        value: The estimate.
        low: The truth is at least this, with the confidence that was asked for; None where no bound is honest.
        high: The truth is at most this.
        count: The number of rows that it is over; None for a sum, of which rows are not counted.
        basis: What it rests on.
        rows: Between which numbers of rows it is over, but for `RARELY` of what may go wrong besides; None where that
            is not known, or nobody needs it.
    """

    value: float
    low: float | None
    high: float | None
    count: float | None
    basis: Basis
    rows: tuple[float, float] | None = None


def moment_value(moment: Moment, parts: Coefficients) -> float:
    """The moment that follows from the counts of its parts; the middle of what is possible where no row counts."""
    if moment.kind == "sum":
        return float(_sum(moment) @ parts)
    count = float(parts.sum())
    low, high = _range(moment)
    if count <= 0:
        return (low + high) / 2
    value = float(_ratio(moment, _centres(moment, parts)) @ parts) / count
    return min(max(value, low), high)


def estimate_noisy(moment: Moment, parts: NoisyVector, confidence: float, rows: float) -> MomentEstimate:
    """A moment from parts with noise of known laws.

    Args:
        moment: What is asked.
        parts: Its parts, all of them.
        confidence: The probability with which the interval holds.
        rows: The largest number of rows that there may be, for what rounding did.
    """
    value = moment_value(moment, parts.counts)
    if moment.kind == "sum":
        reach = reach_of_sum(moment, parts, confidence, rows)
        return MomentEstimate(value=value, low=value - reach, high=value + reach, count=None, basis="measured")
    found = _within(
        moment,
        value,
        parts.counts,
        "measured",
        lambda line: _fieller(line, parts, confidence, _range(moment)),
        lambda mean: _fieller(mean, parts, SURE, (float(mean.min()), float(mean.max()))),
    )
    if moment.kind == "mean":
        return found
    count, off = float(parts.counts.sum()), parts.margin(np.ones(len(parts.counts)), 1 - RARELY * (1 - confidence))
    return replace(found, rows=(count - off, count + off))


def reach_of_sum(moment: Moment, parts: NoisyVector, confidence: float, rows: float) -> float:
    """How far the interval of a sum reaches before it is cut to what is possible, of a mean that of rows times it.

    It follows from the laws of the noises alone, where parts of a mean add up to a number of rows that is public.
    """
    if moment.kind == "sum":
        combination = _sum(moment)
        return parts.margin(combination, confidence) + _rounded(combination, rows)
    line = _ratio(moment, ())
    least, most = _range(moment)
    return parts.margin(line - (least + most) / 2, confidence) + rows * (most - least) * _ROUNDING


def estimate_boxed(moment: Moment, parts: Sequence[Estimate], total: float | None = None) -> MomentEstimate:
    """A moment from parts that each have an interval, all of which hold together; or without one.

    A ratio of linear functions takes its extremes over a box in the corners, unless its denominator may vanish there.

    Args:
        moment: What is asked.
        parts: What is known of its parts; of all but the last where `total` is given.
        total: The number of rows, where it is public and the last part is what the others leave of it.
    """

    def whole(counts: Sequence[float]) -> Coefficients:
        known = np.array(counts, dtype=np.float64)
        return known if total is None else np.append(known, total - known.sum())

    counts = whole([part.count for part in parts])
    value = moment_value(moment, counts)
    count = None if moment.kind == "sum" else float(counts.sum())
    known = [(part.low, part.high) for part in parts if part.low is not None and part.high is not None]
    if len(known) < len(parts):
        return MomentEstimate(value=value, low=None, high=None, count=count, basis="unguaranteed")
    basis: Basis = "measured" if all(part.basis == "measured" for part in parts) else "guessed"
    corners = [np.maximum(whole(corner), 0.0) for corner in product(*known)]
    if moment.kind == "sum":
        sums = [float(_sum(moment) @ corner) for corner in corners]
        return MomentEstimate(value=value, low=min(sums), high=max(sums), count=None, basis=basis)
    sizes = [float(corner.sum()) for corner in corners]
    rows = min(sizes), max(sizes)
    if rows[0] <= 0:
        low, high = _range(moment)
        return MomentEstimate(value=value, low=low, high=high, count=count, basis=basis, rows=rows)

    def ends(line: Coefficients) -> tuple[float, float]:
        found = [float(line @ corner) / float(corner.sum()) for corner in corners]
        return min(found), max(found)

    return replace(_within(moment, value, counts, basis, ends, ends), rows=rows)


def _within(
    moment: Moment, value: float, counts: Coefficients, basis: Basis, ratio_ends: Bounding, mean_ends: Bounding
) -> MomentEstimate:
    """The interval of the ratio at the centres, widened for these and for rounding, and cut to what is possible."""
    centres = _centres(moment, counts)
    low, high = ratio_ends(_ratio(moment, centres))
    means = [(centre, *mean_ends(mean)) for mean, centre in zip(_means(moment), centres)]
    slack = math.prod(max(last - centre, centre - first) for centre, first, last in means) if means else 0.0
    least, most = _range(moment)
    rounding = (most - least) * _ROUNDING
    # (m − c)·(m′ − c′) is taken away from the ratio at the centres, and may have moved the ratio by as much again.
    below, above = low - 2 * slack - rounding, high + slack + rounding
    low, high = min(max(below, least), value), max(min(above, most), value)
    return MomentEstimate(value=value, low=low, high=high, count=float(counts.sum()), basis=basis)


def _fieller(
    line: Coefficients, parts: NoisyVector, confidence: float, possible: tuple[float, float]
) -> tuple[float, float]:
    """All ratios r with |(line − r)·counts| within what the noise may be, as far as they are possible.

    The bound on the noise of (line − r)·counts is nearly a multiple of its deviation. The multiple is taken as large
    as it is at the estimate and at both ends, so that the ends solve a quadratic equation. Its coefficients are squares
    of what rows add, and values far from 0 would leave nothing of their difference: so they are taken from the middle.
    """
    middle = float(line.min() + line.max()) / 2
    line, possible = line - middle, (possible[0] - middle, possible[1] - middle)
    ones = np.ones(len(line))
    spread = parts.covariance
    n, d = float(line @ parts.counts), float(parts.counts.sum())
    centre = min(max(n / d, possible[0]), possible[1]) if d > 0 else (possible[0] + possible[1]) / 2

    def multiple(r: float) -> float:
        along = line - r * ones
        deviation = math.sqrt(max(float(along @ spread @ along), 0.0))
        reach = parts.margin(along, confidence)
        return reach / deviation if deviation > 0 else 0.0

    moments = (float(line @ spread @ line), float(line @ spread @ ones), float(ones @ spread @ ones))
    times = multiple(centre)
    ends = _solved(n, d, moments, times, possible)
    times = max(times, *(multiple(end) for end in ends))
    low, high = _solved(n, d, moments, times, possible)
    return low + middle, high + middle


def _solved(
    n: float, d: float, spread: tuple[float, float, float], times: float, possible: tuple[float, float]
) -> tuple[float, float]:
    """Where (n − r·d)² ≤ times²·(s_nn − 2·r·s_nd + r²·s_dd) within what is possible: the ends of all such r."""
    a = d * d - times**2 * spread[2]
    b = n * d - times**2 * spread[1]
    c = n * n - times**2 * spread[0]
    inside = b * b - a * c
    if a <= 0 or d <= 0 or inside < 0:  # the count itself may be 0: anything is possible
        return possible
    low, high = (b - math.sqrt(inside)) / a, (b + math.sqrt(inside)) / a
    return min(max(low, possible[0]), possible[1]), min(max(high, possible[0]), possible[1])


def _rounded(combination: Coefficients, rows: float) -> float:
    return float(np.abs(combination).sum()) * rows * 0.5 / VALUE_STEPS


def _sum(moment: Moment) -> Coefficients:
    axis = moment.numbers[0]
    largest = max(abs(axis.low), abs(axis.high))
    kept = [sign * largest for sign, there in ((1.0, axis.high > 0), (-1.0, axis.low < 0)) if there]
    return np.array(kept or [0.0])


def _range(moment: Moment) -> tuple[float, float]:
    """Between what the moment lies for any rows."""
    spans = [axis.high - axis.low for axis in moment.numbers]
    if moment.kind == "mean":
        return moment.numbers[0].low, moment.numbers[0].high
    if moment.kind == "variance":
        return 0.0, spans[0] ** 2 / 4
    return -spans[0] * spans[1] / 4, spans[0] * spans[1] / 4


def _means(moment: Moment) -> list[Coefficients]:
    """The means that a variance or covariance is taken around, as combinations of its parts."""
    first = moment.numbers[0]
    if moment.kind == "variance":
        line = np.array([first.high, (first.low + first.high) / 2, first.low])
        return [line, line]
    second = moment.numbers[-1]
    if moment.kind == "covariance":
        return [
            np.array([first.high, first.high, first.low, first.low]),
            np.array([second.high, second.low, second.high, second.low]),
        ]
    return []


def _centres(moment: Moment, parts: Coefficients) -> list[float]:
    count = float(parts.sum())
    return [
        min(max(float(line @ parts) / count, float(line.min())), float(line.max())) if count > 0 else float(line.mean())
        for line in _means(moment)
    ]


def _ratio(moment: Moment, centres: Sequence[float]) -> Coefficients:
    """What a row adds to the numerator, by part: its value, or the product of its distances from the centres."""
    first = moment.numbers[0]
    if moment.kind == "mean":
        return np.array([first.high, first.low])
    c, d = centres
    if moment.kind == "variance":
        return np.array([(first.high - c) ** 2, (first.high - c) * (first.low - c), (first.low - c) ** 2])
    second = moment.numbers[1]
    return np.array([(a - c) * (b - d) for a in (first.high, first.low) for b in (second.high, second.low)])
