"""Cells of a release with the noise that they were measured with, or with what reruns tell of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.mixed_noise import Term, mixed_margin, wide_as_one
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.marginal import Marginal
from conspectus.synopses.evidence import Measured
from conspectus.synopses.histogram import HeldColumns
from conspectus.synopses.intervals.simulated_errors import SimulatedErrors
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import Synopsis, Total

from .cell_estimates import CellCounts


def simulated_cells(synopsis: Synopsis, columns: tuple[int, ...], counts: NDArray[np.float64]) -> SimulatedCells | None:
    """Cells whose sums have the margins of reruns; None where there were none, or not of so many columns."""
    errors = synopsis.errors if isinstance(synopsis, HeldColumns) else None
    told = tuple(column for column in columns if synopsis.domain.sizes[column] > 1)
    if errors is None or errors.margins("sum", told, counts[:1], 0.95) is None:
        return None
    return SimulatedCells(
        counts=counts,
        measured=counts,
        law=None,
        basis="simulated",
        errors=errors,
        columns=told,
        total=synopsis.total,
        every=len(counts),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedCells(CellCounts):
    """Cells of a fitted table, of whose sums reruns tell how far they usually are off.

    Reruns know it of sets of cells. With weights the sum is one over such sets: a cell of the weight w lies in all sets
    {cells of a weight of t or more} with 0 < t ≤ w, so that the sum is that of their counts, each times how far t may
    go until the next weight; and so below 0. The errors are added up as if all sets were off together, which is never
    less than their sum usually is.

    Attributes:
        errors: What reruns found.
        columns: The columns of the table that have several codes.
        total: The number of rows, which is what all cells hold.
        every: How many cells the whole table has.
    """

    errors: SimulatedErrors
    columns: tuple[int, ...]
    total: Total
    every: int

    @property
    def known(self) -> bool:
        """Whether intervals are honest: as far as reruns tell."""
        return True

    def margin(self, weights: NDArray[np.float64], failure: float) -> float:
        """How far a weighted sum of the cells is off at most, but for this probability."""
        return sum(self._layers(side * weights, failure) for side in (1.0, -1.0))

    def deviation(self, weights: NDArray[np.float64]) -> float:
        """What takes the place of a standard deviation: a margin."""
        return self.margin(weights, 0.05)

    def rank_deviations(self, codes: NDArray[np.int64], size: int, q: float, column: int | None) -> NDArray[np.float64]:
        """Of each of `size` codes: the margin of the number of rows up to it less q times that of all rows."""
        sums = np.cumsum(np.bincount(codes, weights=self.counts, minlength=size), dtype=np.float64)
        held = np.cumsum(np.bincount(codes, minlength=size))
        below = self._margins(sums, held, 0.05)
        return (1 - q) * below + q * self._margins(sums[-1] - sums, held[-1] - held, 0.05)

    def _layers(self, weights: NDArray[np.float64], failure: float) -> float:
        """The margin of the part of a sum that has weights above 0."""
        order = np.argsort(-weights, kind="stable")
        falling = weights[order]
        steps = np.maximum(falling, 0.0) - np.maximum(np.append(falling[1:], 0.0), 0.0)
        kept = np.flatnonzero(steps > 0)
        if not len(kept):
            return 0.0
        return float(steps[kept] @ self._margins(np.cumsum(self.counts[order])[kept], kept + 1, failure))

    def _margins(self, sums: NDArray[np.float64], held: NDArray[np.int64], failure: float) -> NDArray[np.float64]:
        """The margins of sets with these counts, of so many cells each; all cells together are the total."""
        found = self.errors.margins("sum", self.columns, sums, 1 - failure)
        if found is None:
            return np.full(len(sums), math.inf)
        all_rows = self.total.margin(1 - failure)
        return np.where(held == 0, 0.0, np.where(held == self.every, all_rows, np.maximum(*found)))


def measured_cells(measured: Measured | None, columns: tuple[int, ...]) -> CellCounts | None:
    """The cells of some columns in schema order as they were measured, with their noise; None where they were not."""
    if isinstance(measured, ResidualAnswers):
        table = measured.table(columns)
        return (
            None
            if table is None
            else ResidualCells(
                counts=table,
                measured=table,
                law=None,
                residuals=measured,
                columns=columns,
                places=np.arange(len(table)),
            )
        )
    return summed_cells(measured, columns) if isinstance(measured, NoisyAnswers) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class ResidualCells(CellCounts):
    """Cells that were put together from residuals, which share their noises: a sum is taken apart into these.

    Attributes:
        residuals: What was measured.
        columns: The columns of the table, in schema order.
        places: Where in that table the cells stand.
    """

    residuals: ResidualAnswers
    columns: tuple[int, ...]
    places: NDArray[np.int64]

    @property
    def lawful(self) -> bool:
        """Whether noise of a known law tells how far the cells may be off: it does."""
        return True

    def taken(self, places: NDArray[np.bool_]) -> ResidualCells:
        """Some of the cells."""
        return replace(self, counts=self.counts[places], measured=self.measured[places], places=self.places[places])

    def margin(self, weights: NDArray[np.float64], failure: float) -> float:
        """How far a weighted sum of the cells is off at most, but for this probability."""
        terms, moved = wide_as_one(self.terms(weights))
        return mixed_margin(terms, 1 - failure) + moved if terms else 0.0

    def terms(self, weights: NDArray[np.float64]) -> list[Term]:
        """The noises of a weighted sum: law, weight, and how many."""
        return list(self.residuals.noise_terms_of(self._apart(weights)))

    def deviation(self, weights: NDArray[np.float64]) -> float:
        """The standard deviation of a weighted sum."""
        return math.sqrt(self._covariance(*[self._apart(weights)] * 2))

    def along(self, above: NDArray[np.float64], below: NDArray[np.float64]) -> Callable[[float], float]:
        """Of a ratio r: the deviation of the sum with the weights above − r·below."""
        first, second = self._apart(above), self._apart(below)
        square, mixed, rest = (self._covariance(*pair) for pair in ((first, first), (first, second), (second, second)))
        return lambda r: math.sqrt(max(square - 2 * r * mixed + r * r * rest, 0.0))

    def rank_deviations(self, codes: NDArray[np.int64], size: int, q: float, column: int | None) -> NDArray[np.float64]:
        """Of each of `size` codes: the deviation of the number of rows up to it less q times that of all rows.

        Let h_c be a residual over other columns of the cells with the code c, n how many codes the column has, and C
        the sum of h_c up to a code less q times the sum of all. The residual over these columns alone weighs C/n, and
        the one with the column (1 − q)·h_c up to the code and −q·h_c beyond it, less C/n in each.
        """
        domain, shape = self.residuals.domain, self.residuals.domain.shape(self.columns)
        assert column is not None
        inside = np.zeros(math.prod(shape))
        inside[self.places] = 1.0
        table = np.moveaxis(inside.reshape(shape), self.columns.index(column), 0)
        others = [c for c in self.columns if c != column]
        found = np.zeros(len(table))
        for many in range(len(others) + 1):
            for chosen in combinations(range(len(others)), many):
                if any(domain.sizes[others[a]] == 1 for a in chosen):
                    continue
                part = table.mean(axis=tuple(a + 1 for a in range(len(others)) if a not in chosen))
                for a in range(many):
                    part = part - part.mean(axis=a + 1, keepdims=True)
                part = part.reshape(len(table), -1)
                sums, squares = np.cumsum(part, axis=0), np.cumsum(np.square(part).sum(axis=1))
                common = np.square(sums - q * sums[-1]).sum(axis=1) / len(table)
                alone = tuple(others[a] for a in chosen)
                found += self.residuals.variance_of_part(alone) * common / len(table)
                if len(table) > 1:
                    apart = (1 - q) ** 2 * squares + q**2 * (squares[-1] - squares) - common
                    found += self.residuals.variance_of_part(tuple(sorted((*alone, column)))) * apart
        return np.sqrt(np.maximum(found, 0.0))[:size]

    def _apart(self, weights: NDArray[np.float64]) -> dict[tuple[int, ...], NDArray[np.float64]]:
        whole = np.zeros(math.prod(self.residuals.domain.shape(self.columns)))
        whole[self.places] = weights
        return self.residuals.taken_apart(self.columns, whole) or {}

    def _covariance(
        self, first: dict[tuple[int, ...], NDArray[np.float64]], second: dict[tuple[int, ...], NDArray[np.float64]]
    ) -> float:
        return math.fsum(
            self.residuals.variance_of_part(chosen) * float((first[chosen] * second[chosen]).sum())
            for chosen in first
            if chosen in second
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AddingUp(CellCounts):
    """Cells that were moved, all by as much, so that those of the whole table add up to a public number of rows.

    That is the estimate of least variance. What it leaves of the noise of a sum is that of its weights less their mean
    over the whole table, of cells that are not taken, too.

    Attributes:
        every: How many cells the whole table has.
    """

    every: int

    @classmethod
    def of(cls, cells: CellCounts, rows: float) -> AddingUp:
        """All cells of a table, moved."""
        many = len(cells.measured)
        moved = cells.measured + (rows - float(cells.measured.sum())) / many
        return cls(counts=moved, measured=moved, law=cells.law, grid=cells.grid, copies=cells.copies, every=many)

    def terms(self, weights: NDArray[np.float64]) -> list[Term]:
        """The noises of a weighted sum: law, weight, and how many."""
        return super().terms(self._centred(weights))

    def narrow(self, weights: NDArray[np.float64], failure: float) -> float | None:
        """The margin where noise is hardly ever drawn; see `CellCounts.narrow`."""
        return super().narrow(self._centred(weights), failure)

    def deviation(self, weights: NDArray[np.float64]) -> float:
        """The standard deviation of a weighted sum."""
        left = float(np.square(weights).sum()) - float(weights.sum()) ** 2 / self.every
        return self._unit * math.sqrt(max(left, 0.0))

    def rank_deviations(self, codes: NDArray[np.int64], size: int, q: float, column: int | None) -> NDArray[np.float64]:
        """Of each of `size` codes: the deviation of the number of rows up to it less q times that of all rows."""
        held = np.cumsum(np.bincount(codes, minlength=size))
        squares = (1 - q) ** 2 * held + q**2 * (len(codes) - held)
        left = squares - np.square(held - q * len(codes)) / self.every
        return np.asarray(self._unit * np.sqrt(np.maximum(left, 0.0)))

    @property
    def _unit(self) -> float:
        assert self.law is not None
        return math.sqrt(variance_of(self.law) * self.copies) / self.grid

    def _centred(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        mean = float(weights.sum()) / self.every
        centred = np.append(weights - mean, np.full(self.every - len(weights), -mean))
        # What is left of equal weights is what floats lose.
        return np.where(np.abs(centred) > 1e-9 * np.abs(weights).max(initial=0.0), centred, 0.0)


def summed_cells(noisy: NoisyAnswers, columns: tuple[int, ...]) -> CellCounts | None:
    """The cells of some columns as sums of those of one measured marginal, of the least noise; None where none covers.

    The sums have no noise in common, but for what adds them up to the number of rows where it is public.
    """
    best: tuple[float, CellCounts] | None = None
    wanted, domain, workload = set(columns), noisy.domain, noisy.workload
    seen = set()
    for number, block in enumerate(workload.blocks):
        if not isinstance(block, Marginal) or not wanted <= set(block.columns) or block in seen:
            continue
        seen.add(block)
        law, grid = noisy.noise[number], noisy.grids[number]
        copies = math.prod(domain.sizes[c] for c in block.columns if c not in wanted)
        variance = variance_of(law) * copies / grid**2
        if best is not None and variance >= best[0]:
            continue
        counts = noisy.counts[workload.offsets[number] : workload.offsets[number + 1]]
        table = counts.reshape(domain.shape(block.columns))
        outside = tuple(axis for axis, c in enumerate(block.columns) if c not in wanted)
        kept = [c for c in block.columns if c in wanted]
        flat = table.sum(axis=outside).transpose([kept.index(c) for c in columns]).ravel()
        best = variance, CellCounts(counts=flat, measured=flat, law=law, grid=grid, copies=copies)
    if best is None or not noisy.total.exact:
        return None if best is None else best[1]
    return AddingUp.of(best[1], noisy.total.value)
