"""The number of rows up to each code of a column, as it was measured, and which codes may be a quantile by it.

A quantile is a code v with at most a share q of the rows below it and at least q up to it: two sums, whose noise is
known. Everything here is about one and the same measurement: its numbers, and how far these may be off.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Ranks(Protocol):
    """What was measured of the numbers of rows up to each code of a column."""

    @property
    def counts(self) -> Vector:
        """The number of rows with each code."""

    @property
    def basis(self) -> Basis:
        """What it rests on."""

    def tested(self, q: float, failure: float) -> tuple[Vector, Vector]:
        """P − q·N at each code, and how far it may be off, but for this probability."""


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

    @cached_property
    def counts(self) -> Vector:
        """The number of rows with each code; see `Ranks`."""
        return _by_code(self.codes, self.cells.measured, self.size)

    def tested(self, q: float, failure: float) -> tuple[Vector, Vector]:
        """P − q·N at each code, and how far it may be off; see `Ranks`."""
        sums = np.cumsum(self.counts)
        looked = np.linspace(0, self.size - 1, FEW).astype(np.int64).tolist()
        near = int(np.argmin(np.abs(sums - q * sums[-1])))
        lines = [(self.codes <= code).astype(np.float64) - q for code in {near, *looked}]
        times = self.cells.multiple(lines, failure)
        deviations = self.cells.rank_deviations(self.codes, self.size, q, self.column)
        return sums - q * float(sums[-1]), times * deviations


@dataclass(frozen=True, eq=False)
class RanksApart:
    """Ranks from what was measured of each: the rows up to a code and those beyond it, with their noises."""

    vectors: Sequence[NoisyVector]
    basis: Basis = "measured"

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

    def tested(self, q: float, failure: float) -> tuple[Vector, Vector]:
        """P − q·N at each code, and how far it may be off; see `Ranks`."""
        counts, spread = self._sides
        parts = np.array([1 - q, -q])
        excess = counts @ parts
        deviations = np.sqrt(np.maximum(np.einsum("i,cij,j->c", parts, spread, parts), 0.0))
        looked = {int(np.argmin(np.abs(excess))), *np.linspace(0, len(counts) - 1, FEW).astype(np.int64).tolist()}
        times = 0.0
        for code in looked:
            if deviations[code] > 0:
                vector = self.vectors[code]
                times = max(times, vector.margin(parts[: len(vector.counts)], 1 - failure) / float(deviations[code]))
        return excess, times * deviations


@dataclass(frozen=True)
class QuantileCodes:
    """A quantile as codes: where it is, how far into its bin, and between which codes it lies; None where unknown."""

    code: int
    into: float
    low: int | None
    high: int | None
    basis: Basis


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


def quantile(
    cells: CellCounts, codes: NDArray[np.int64], size: int, q: float, failure: float, *, column: int | None = None
) -> QuantileCodes | None:
    """A quantile of an ordered column whose cells have these codes, as SQL has it; None where there may be no row and
    nothing is known.

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
    fitted = found_code(_by_code(codes, np.maximum(cells.counts, 0.0), size), q)
    code, into = found_code(ranks.counts, q) or fitted or (size // 2, 0.5)
    if not cells.known:
        empty = maybe_empty(cells, np.ones(len(codes)), failure)
        return None if empty else QuantileCodes(code, into, None, None, "unguaranteed")
    # Quantiles between two values are interpolated from the q(n − 1)th row and the next: give or take a row.
    low, high = possible_codes(*ranks.tested(q, failure), slack=(q, 1 - q))
    if (low, high) == (0, size - 1):
        if not cells.lawful:
            empty = maybe_empty(cells, np.ones(len(codes)), failure)
            return None if empty else QuantileCodes(code, into, None, None, "unguaranteed")
        code, into = fitted or (code, into)  # noise leaves everything possible: a fitted table is the better guess
    return QuantileCodes(code, into, min(low, code), max(high, code), cells.basis)
