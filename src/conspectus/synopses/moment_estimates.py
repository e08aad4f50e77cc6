"""Sums, means, variances and covariances from what a synopsis says about their parts, with intervals.

A mean is a ratio N/D of two combinations of the parts. Where the noise of the parts is known, its interval is
Fieller's: all r for which N − r·D, whose noise is a weighted sum of known noises, could be 0. It holds with its
confidence however noisy the count is, and is the whole range of the column where nothing is known.

A variance is E(x − m)² around the true mean m, and a covariance E(x − m)(y − m′). Around fixed centres each is a ratio
of the same kind, and the noise tells in which interval the true means lie. So all centres in there are tried, and every
ratio is kept that the noise could explain around one of them (`_around_means`). What may go wrong is shared: the means
take `RARELY` of it and the ratio the rest, and the interval holds with its confidence, whatever that is.
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
RARELY = 0.02
"""Of a failure probability, what the means may take that a variance is around; and what the number of rows may take
where it is that of a sample."""

_CENTRES = {"variance": 129, "covariance": 33}
"""How many values of each mean are tried."""


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
    low, high = range_of(moment)
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
        combination = _sum(moment)
        reach = parts.margin(combination, confidence) + _rounded(combination, rows)
        return MomentEstimate(value=value, low=value - reach, high=value + reach, count=None, basis="measured")
    if moment.kind == "mean":
        ends = _fieller(_ratio(moment, ())[np.newaxis], parts, confidence, range_of(moment))
        return _cut(moment, value, ends, parts.counts, "measured")
    found = _cut(moment, value, _around_means(moment, parts, confidence), parts.counts, "measured")
    count, off = float(parts.counts.sum()), parts.margin(np.ones(len(parts.counts)), 1 - RARELY * (1 - confidence))
    return replace(found, rows=(count - off, count + off))


def deviation(moment: Moment, parts: NoisyVector) -> float:
    """The standard deviation of a sum; of a mean that of the number of rows times it, near the middle of its range.

    It follows from weights and laws alone, so that a choice by it does not hang on the noise.
    """
    line = _sum(moment) if moment.kind == "sum" else _ratio(moment, ()) - sum(range_of(moment)) / 2
    return math.sqrt(max(float(line @ parts.covariance @ line), 0.0))


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
    rows_at_most = math.inf if total is None else max(total, 0.0)
    known = [box for part in parts if (box := part.possible_ends(rows_at_most)) is not None]
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
        low, high = range_of(moment)
        return MomentEstimate(value=value, low=low, high=high, count=count, basis=basis, rows=rows)

    def ends(line: Coefficients) -> tuple[float, float]:
        found = [float(line @ corner) / float(corner.sum()) for corner in corners]
        return min(found), max(found)

    # For the true means m and m′ the moment is what it is around the centres, less (m − c)·(m′ − c′).
    centres = _centres(moment, counts)
    low, high = ends(_ratio(moment, centres))
    means = [(centre, *ends(mean)) for mean, centre in zip(_means(moment), centres)]
    slack = math.prod(max(last - centre, centre - first) for centre, first, last in means) if means else 0.0
    around = low - slack, high + (slack if moment.kind == "covariance" else 0.0)  # of a variance it is a square
    return replace(_cut(moment, value, around, counts, basis), rows=rows)


def _cut(moment: Moment, value: float, ends: tuple[float, float], counts: Coefficients, basis: Basis) -> MomentEstimate:
    """An interval, widened for what rounding did and cut to what is possible."""
    least, most = range_of(moment)
    rounding = (most - least) * 8 / VALUE_STEPS
    low, high = min(max(ends[0] - rounding, least), value), max(min(ends[1] + rounding, most), value)
    return MomentEstimate(value=value, low=low, high=high, count=float(counts.sum()), basis=basis)


def _around_means(moment: Moment, parts: NoisyVector, confidence: float) -> tuple[float, float]:
    """The ends of all variances or covariances that the noise could explain around means that it could explain.

    Let L(t) be what a row adds around the centres t, m the true means, and v the truth. (L(m) − v)·counts is the noise
    of weights that are fixed, and within its margin but for 1 − `RARELY` of what may go wrong. The means share the rest
    of it, and lie in the intervals that they have then. By the union bound both hold with the confidence, and v is
    among all r for which |(L(t) − r)·counts| is within its margin for centres t in these intervals.

    The centres are a grid. To the nearest of its points s the distance is at most h, so that L(t) − L(s), which is
    (t − s)(t′ − s′) − (t − s)(y − s′) − (t′ − s′)(x − s), changes both sides of the test by no more than `slack`.
    """
    means, failure = _means(moment), 1 - confidence
    shared = RARELY * failure / (1 if moment.kind == "variance" else len(means))
    around = [_fieller(mean[np.newaxis], parts, 1 - shared, (float(mean.min()), float(mean.max()))) for mean in means]
    axes = [np.linspace(first, last, _CENTRES[moment.kind]) for first, last in around]
    grid = list(zip(*axes)) if moment.kind == "variance" else list(product(*axes))
    centres = [tuple(_centres(moment, parts.counts)), *((float(s), float(t)) for s, t in grid)]
    steps = [(last - first) / (2 * (_CENTRES[moment.kind] - 1)) for first, last in around]

    def slack(times: float) -> Coefficients:
        def moved(lines: Coefficients) -> Coefficients:
            """How far both sides of the test move for each unit of such weights."""
            deviations = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", lines, parts.covariance, lines), 0.0))
            return np.asarray(np.abs(lines @ parts.counts) + times * deviations)

        one, other = (
            moved(mean - np.array([each[n] for each in centres])[:, np.newaxis]) for n, mean in enumerate(means)
        )
        whole = moved(np.ones((1, len(parts.counts))))[0]
        return np.asarray(steps[0] * other + steps[1] * one + steps[0] * steps[1] * whole)

    lines = np.array([_ratio(moment, each) for each in centres])
    return _fieller(lines, parts, 1 - (1 - RARELY) * failure, range_of(moment), slack)


def _fieller(
    lines: Coefficients,
    parts: NoisyVector,
    confidence: float,
    possible: tuple[float, float],
    slack: Callable[[float], Coefficients] | None = None,
) -> tuple[float, float]:
    """The ends of all ratios r with |(line − r)·counts| within what the noise may be, for one of the lines.

    The bound on the noise of (line − r)·counts is nearly a multiple of its deviation. The multiple is taken as large
    as it is at the estimate and at both ends, so that the ends solve a quadratic equation. With `slack`, by multiple,
    each test may fail by so much.
    """
    d = float(parts.counts.sum())
    first = float(lines[0] @ parts.counts) / d if d > 0 else sum(possible) / 2

    def multiple(line: Coefficients, r: float) -> float:
        along = line - r
        deviation = math.sqrt(max(float(along @ parts.covariance @ along), 0.0))
        return parts.margin(along, confidence) / deviation if deviation > 0 else 0.0

    def ends(times: float) -> tuple[float, float]:
        found = _solved(lines, parts, times, possible)
        if found is None:  # the count itself may be 0: anything is possible
            return possible
        low, high = found
        if slack is not None:
            # Beyond an end the test fails by as much as the number of rows, less its own noise, for each unit of r.
            steep = d - times * math.sqrt(float(parts.covariance.sum()))
            low, high = low - slack(times) / steep, high + slack(times) / steep
        return max(float(low.min()), possible[0]), min(float(high.max()), possible[1])

    times = multiple(lines[0], min(max(first, possible[0]), possible[1]))
    tried = [lines[0]] if len(lines) == 1 else [lines[0], lines[1], lines[-1]]
    times = max(times, *(multiple(line, end) for end in ends(times) for line in tried))
    return ends(times)


def _solved(
    lines: Coefficients, parts: NoisyVector, times: float, possible: tuple[float, float]
) -> tuple[Coefficients, Coefficients] | None:
    """Of each line where (n − r·d)² ≤ times²·(s_nn − 2·r·s_nd + r²·s_dd): the least and the greatest r; or None.

    The coefficients are squares of what rows add, and values far from 0 would leave nothing of their difference: so
    they are taken from the middle.

    Noise may put n/d beyond what is possible. For the least end n is then no more than d times the greatest possible
    ratio, and for the greatest end no less than d times the least one: that is nearer to the truth. Both ends rise with
    n, so that each moves outward alone, and the interval is no point.
    """
    middle = (lines.min(axis=1) + lines.max(axis=1)) / 2
    lines = lines - middle[:, np.newaxis]
    spread, d = parts.covariance, float(parts.counts.sum())
    n, beside = lines @ parts.counts, spread.sum(axis=1)
    a = d * d - times**2 * float(beside.sum())
    if a <= 0 or d <= 0:
        return None
    along, across = lines @ beside, np.einsum("ij,jk,ik->i", lines, spread, lines)

    def end(n: Coefficients, side: float) -> Coefficients:
        b, c = n * d - times**2 * along, n * n - times**2 * across
        root = np.sqrt(np.maximum(b * b - a * c, 0.0))  # at r = n/d the test holds, so that there are roots
        return np.asarray((b + side * root) / a + middle)

    least, most = possible
    low, high = end(np.minimum(n, (most - middle) * d), -1.0), end(np.maximum(n, (least - middle) * d), 1.0)
    return np.clip(low, *possible), np.clip(high, *possible)


def _rounded(combination: Coefficients, rows: float) -> float:
    return float(np.abs(combination).sum()) * rows * 0.5 / VALUE_STEPS


def _sum(moment: Moment) -> Coefficients:
    axis = moment.numbers[0]
    largest = max(abs(axis.low), abs(axis.high))
    kept = [sign * largest for sign, there in ((1.0, axis.high > 0), (-1.0, axis.low < 0)) if there]
    return np.array(kept or [0.0])


def range_of(moment: Moment) -> tuple[float, float]:
    """Between what a mean, variance or covariance lies for any rows."""
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
