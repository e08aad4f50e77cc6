"""The number of rows up to each code of a column, as it was measured, and which codes may be a quantile by it.

A quantile is a code v with at most a share q of the rows below it and at least q up to it: two sums, whose noise is
known. Everything here is about one and the same measurement: its numbers, and how far these may be off.

Let P be the rows up to a code and N all of them. At the quantile v, P − q·N is a ≥ 0, and one code earlier −b ≤ 0; v is
left out if noise takes the first below −r, or the second above r. With half of the failure probability for either side
that holds, but more often than it has to: a and b together are the f rows of v, so that not both sides are near. Let
T(t) be the larger of the chances that one of the two noises exceeds t. With a ≤ b, b is 3f/4 or more, or a is f/4 or
more and b is f/2 or more. So v is left out with a chance of at most the larger of

    T(r) + T(r + 3f/4)   and   T(r + f/4) + T(r + f/2),

whatever the shape of T. `reach_beside` finds a small r for which both are at most what may fail. It falls as f grows.
So f may be what it is at least, but for a failure probability of its own: v is left out with that f only if it is with
the true one. Where the noise of a rank exceeds the rows of a value by far, nothing changes, and where it does not,
intervals are up to a sixth shorter. They still hold more often than they say: where among its rows the quantile lies
is not known, and it rarely is the first or the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.synopses.estimate import Basis
from conspectus.synopses.noisy_vectors import NoisyVector

from .cell_estimates import CellCounts, Vector, maybe_empty

FEW = 5
"""At how many codes the quantile of the noise is looked at, as a multiple of its deviation, which hardly depends on
the code; the deviation itself is known at every code."""

OF_ROWS = 0.02
"""Of what may fail, for the number of rows of one code."""

SPLITS = (0.5, 0.8, 0.95)
"""How much of what may fail one side gets, and the other what is left: half each, or more for the nearer one."""


class Ranks(Protocol):
    """What is known of the numbers of rows up to each code of a column."""

    @property
    def counts(self) -> Vector:
        """The number of rows with each code."""

    @property
    def basis(self) -> Basis:
        """What it rests on."""

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far they may be off."""

    @property
    def known(self) -> bool:
        """Whether it is known at all how far they may be off."""

    def maybe_empty(self, failure: float) -> bool:
        """Whether there may be no row to have a rank."""

    def kept(self, q: float, failure: float, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[int, int] | None:
        """The first and the last code that may be the quantile, but for this probability; see `possible_codes`. None
        where that is not known."""


@dataclass(frozen=True, eq=False)
class RanksTogether:
    """Ranks from the cells of one table: those whose rows count, and the code of the column in each."""

    cells: CellCounts
    codes: NDArray[np.int64]
    size: int
    column: int | None = None

    @property
    def basis(self) -> Basis:
        """What it rests on: that of the cells."""
        return self.cells.basis

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far the cells may be off."""
        return self.cells.lawful

    @property
    def known(self) -> bool:
        """Whether intervals of the cells are honest."""
        return self.cells.known

    def maybe_empty(self, failure: float) -> bool:
        """Whether there may be no row; see `Ranks`."""
        return maybe_empty(self.cells, np.ones(len(self.codes)), failure)

    @cached_property
    def counts(self) -> Vector:
        """The number of rows with each code; see `Ranks`."""
        return _by_code(self.codes, self.cells.measured, self.size)

    def deviations(self, q: float) -> Vector:
        """The deviation of P − q·N at each code."""
        return self.cells.rank_deviations(self.codes, self.size, q, self.column)

    def kept(self, q: float, failure: float, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[int, int] | None:
        """The first and the last code that may be the quantile; see `Ranks` and the module."""
        if not self.known:
            return None
        closer = self.cells.lawful and failure <= 0.5
        allowed = failure * (1 - OF_ROWS) if closer else failure
        excess, reach = self.tested(q, allowed)
        low, high = possible_codes(excess, reach, slack)
        deviations = self.deviations(q)
        if not closer or self.counts[[low, high]].max() <= 0.5 * float(deviations[low : high + 1].min()):
            return low, high  # codes of few rows, by the noise of all, would be left in
        ends = {max(low - 1, 0), high}
        times = {side: self._times(ends, q, 2 * side * allowed) for split in SPLITS for side in (split, 1 - split)}

        def possible(code: int) -> bool:
            sides = slice(max(code - 1, 0), code + 1)
            spread, rows = float(deviations[sides].max()), float(self.counts[code])
            rows -= self.cells.margin((self.codes == code).astype(np.float64), 2 * OF_ROWS * failure)
            r = reach_beside({side: each * spread for side, each in times.items()}, max(rows, 0.0))
            if r >= float(reach[sides].min()):  # half for either side is no worse
                return True
            reaches_it = code == self.size - 1 or excess[code] >= -r - slack[0]
            return bool(reaches_it and (code == 0 or excess[code - 1] <= r + slack[1]))

        while low < high and not possible(low):
            low += 1
        while low < high and not possible(high):
            high -= 1
        return low, high

    def tested(self, q: float, failure: float) -> tuple[Vector, Vector]:
        """P − q·N at each code, and how far it may be off, but for this probability."""
        sums = np.cumsum(self.counts)
        excess = sums - q * float(sums[-1])
        looked = {int(np.argmin(np.abs(excess))), *np.linspace(0, self.size - 1, FEW).astype(np.int64).tolist()}
        return excess, self._times(looked, q, failure) * self.deviations(q)

    def _times(self, looked: Iterable[int], q: float, failure: float) -> float:
        """How many deviations P − q·N may be off at these codes, but for this probability."""
        return self.cells.multiple([(self.codes <= code).astype(np.float64) - q for code in looked], failure)


@dataclass(frozen=True, eq=False)
class RanksApart:
    """Ranks from what was measured of each: the rows up to a code and those beyond it, with their noises."""

    vectors: Sequence[NoisyVector]
    basis: Basis = "measured"
    lawful: bool = True
    known: bool = True

    @cached_property
    def _sides(self) -> tuple[Vector, Vector]:
        """The counts and the covariances of both sides."""
        regular = len(self.vectors)
        counts, spread = np.zeros((regular, 2)), np.zeros((regular, 2, 2))
        for code, vector in enumerate(self.vectors):
            many = len(vector.counts)
            counts[code, :many], spread[code, :many, :many] = vector.counts, vector.covariance
        return counts, spread

    @cached_property
    def counts(self) -> Vector:
        """The number of rows with each code; see `Ranks`."""
        return np.diff(self._sides[0][:, 0], prepend=0.0)

    def maybe_empty(self, failure: float) -> bool:
        """Whether there may be no row; see `Ranks`."""
        return float(self.counts.sum()) < 0.5

    def deviations(self, q: float) -> Vector:
        """The deviation of P − q·N at each code."""
        parts = np.array([1 - q, -q])
        return np.asarray(np.sqrt(np.maximum(np.einsum("i,cij,j->c", parts, self._sides[1], parts), 0.0)))

    def kept(self, q: float, failure: float, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[int, int]:
        """The first and the last code that may be the quantile; see `Ranks`."""
        parts = np.array([1 - q, -q])
        excess, deviations = self._sides[0] @ parts, self.deviations(q)
        looked = {int(np.argmin(np.abs(excess))), *np.linspace(0, len(excess) - 1, FEW).astype(np.int64).tolist()}
        times = 0.0
        for code in looked:
            if deviations[code] > 0:
                vector = self.vectors[code]
                times = max(times, vector.margin(parts[: len(vector.counts)], 1 - failure) / float(deviations[code]))
        return possible_codes(excess, times * deviations, slack)


@dataclass(frozen=True)
class QuantileCodes:
    """A quantile as codes: where it is, how far into its bin, and between which codes it lies, None where unknown; and
    of how many rows it is one."""

    code: int
    into: float
    low: int | None
    high: int | None
    basis: Basis
    rows: float


def _by_code(codes: NDArray[np.int64], counts: Vector, size: int) -> Vector:
    return np.bincount(codes, weights=counts, minlength=size).astype(np.float64)


def found_code(counts: Vector, q: float) -> tuple[int, float] | None:
    """The code of a quantile and how far into its rows it lies, by the numbers of rows of all codes; None of none."""
    rising = np.maximum.accumulate(np.cumsum(counts))
    rows = float(counts.sum())
    if not rows > 0:
        return None
    code = min(int(np.searchsorted(rising, q * rows - 1e-9)), len(counts) - 1)
    before = float(rising[code - 1]) if code else 0.0
    inside = float(rising[code]) - before
    return code, min(max((q * rows - before) / inside, 0.0), 1.0) if inside > 0 else 0.5


def possible_codes(excess: Vector, reach: Vector, slack: tuple[float, float] = (0.0, 0.0)) -> tuple[int, int]:
    """The first and the last code that may be the quantile, by P − q·N at each code and how far that may be off.

    `slack` is in rows: by how much P − q·N may miss 0 at the quantile, and exceed it one code earlier.
    """
    enough = np.append(excess[:-1] >= -reach[:-1] - slack[0], True)  # nothing lies beyond the last value
    below = np.concatenate(([True], excess[:-1] <= reach[:-1] + slack[1]))
    held = np.flatnonzero(enough & below)
    return (int(held[0]), int(held[-1])) if len(held) else (0, len(excess) - 1)


def reach_beside(quantiles: Mapping[float, float], rows: float) -> float:
    """How far P − q·N may miss 0 at a quantile of so many rows, or exceed it one code earlier; see the module.

    Args:
        quantiles: For each side of each of the `SPLITS`, what the noise exceeds with that share of what may fail.
        rows: How many rows the code has at least.
    """

    def shared(nearer: float, farther: float) -> float:
        ways = ((quantiles[split] - nearer, quantiles[1 - split] - farther) for split in SPLITS)
        return min(max(way) for way in ways)

    return max(shared(0.0, 0.75 * rows), shared(0.25 * rows, 0.5 * rows))


def quantile_in(
    ranks: Ranks, fitted: Callable[[], Vector], span: tuple[int, int], q: float, failure: float
) -> QuantileCodes | None:
    """A quantile of an ordered column, the same whoever asks for it; None where there may be no row and nothing is
    known.

    Args:
        ranks: What is known of the column among the rows that count.
        fitted: The number of rows with each code by a fitted table: the better guess where noise leaves all possible.
        span: The first and the last code that such a row can have.
        q: Between 0 and 1.
        failure: How likely the interval may fail.
    """
    first, last = span
    counts, found = ranks.counts, found_code(ranks.counts, q)
    # Quantiles between two values are interpolated from the q(n − 1)th row and the next: give or take a row.
    kept = ranks.kept(q, failure, (q, 1 - q))
    if kept is not None:
        low, high = (min(max(code, first), last) for code in kept)
        kept = None if (low, high) == span and first < last and not ranks.lawful else (low, high)
    if kept is None and ranks.maybe_empty(failure):
        return None
    if found is None or kept == span:
        guess = np.maximum(fitted(), 0.0)
        better = found_code(guess, q)
        counts, found = (guess, better) if better is not None else (counts, found or ((first + last) // 2, 0.5))
    code, rows = min(max(found[0], first), last), max(float(counts.sum()), 0.0)
    if kept is None:
        return QuantileCodes(code, found[1], None, None, "unguaranteed", rows)
    return QuantileCodes(code, found[1], min(kept[0], code), max(kept[1], code), ranks.basis, rows)


def quantile(
    cells: CellCounts, codes: NDArray[np.int64], size: int, q: float, failure: float, *, column: int | None = None
) -> QuantileCodes | None:
    """A quantile of an ordered column whose cells have these codes; see `quantile_in`.

    Args:
        cells: The cells whose rows have a value.
        codes: The code of the column in each of them.
        size: How many ordinary codes the column has.
        q: Between 0 and 1.
        failure: How likely the interval may fail.
        column: The position of the column, for cells that share their noises.
    """
    if not len(codes):
        return None
    ranks = RanksTogether(cells, codes, size, column)
    span = int(codes.min()), int(codes.max())
    return quantile_in(ranks, lambda: _by_code(codes, np.maximum(cells.counts, 0.0), size), span, q, failure)
