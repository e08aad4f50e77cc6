"""Every pair of columns as a table: what was measured of it, its strength at each level, and the fit to all of that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled, one_thread, processors

from .budgeting import SCALE_OF_EFFECTS
from .coding import Coding
from .pair_scores import HALF_NORMAL
from .smoothing import Floats
from .tilting import MARGIN_RIDGE, Part, tilted

Job = TypeVar("Job")
Done = TypeVar("Done")

RIDGE, RIDGE_POWER, LEAST_EFFECT = 4.5, 1.45, 0.02
"""λ = RIDGE·(σ/n)^RIDGE_POWER / effect, for noise σ on each of n rows' cells. Chosen on Adult and NLTCS."""

TINY = 1e-15


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy residual: its level, its values in counts and in the shape of the level, and its σ in counts."""

    level: int
    residual: Floats
    sigma: float


@dataclass(frozen=True, eq=False)
class Pair:
    """What is known of two columns: at which levels they can be looked at, and how strong each is, in counts."""

    columns: tuple[int, int]
    levels: tuple[int, ...]
    increments: Mapping[int, float]
    measured: Measurement | None = None

    @property
    def strength(self) -> float:
        """Its distance to independence, in counts."""
        return math.sqrt(sum(each**2 for each in self.increments.values()))


@dataclass(eq=False)
class Model:
    """Columns, pairs, and the table of each pair as it is believed now."""

    codings: Sequence[Coding]
    total: float
    evaluations: int
    pairs: dict[tuple[int, int], Pair] = field(default_factory=dict)
    tables: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def independent(self, columns: tuple[int, int]) -> Floats:
        """The table of two columns that have nothing to do with one another."""
        a, b = columns
        return np.outer(self.codings[a].law, self.codings[b].law)

    def table(self, a: int, b: int) -> Floats:
        """The table of two columns in this order; independent where the pair is not among those looked at."""
        if a < b:
            found = self.tables.get((a, b))
            return self.independent((a, b)) if found is None else found
        return self.table(b, a).T

    def merged(self, table: Floats, columns: Sequence[int], level: int) -> Floats:
        """A table of groups of level 0 as one of a coarser level."""
        for axis, column in enumerate(columns):
            starts = self.codings[column].starts[level]
            if len(starts) < table.shape[axis]:
                table = np.add.reduceat(table, starts, axis=axis)
        return table

    def shape(self, columns: Sequence[int], level: int) -> tuple[int, ...]:
        """The shape of a table at a level."""
        return tuple(len(self.codings[column].starts[level]) for column in columns)

    def levels(self, columns: Sequence[int], among: Iterable[int], most_cells: int) -> tuple[int, ...]:
        """The levels at which some columns make different tables, of a size that can be measured, finest first."""
        found: dict[tuple[int, ...], int] = {}
        for level in among:
            shape = self.shape(columns, level)
            if min(shape) > 1 and math.prod(shape) <= most_cells:
                found.setdefault(shape, level)
        return tuple(found.values())

    def misfit(self, pair: Pair, table: Floats) -> float:
        """How far a table is from what was measured of its pair: χ²."""
        assert pair.measured is not None
        at_level = self.merged(table, pair.columns, pair.measured.level)
        return self.misfit_at_level(pair.measured, at_level)

    def misfit_at_level(self, measured: Measurement, table: Floats) -> float:
        """The same for a table of the level that was measured."""
        return float(_squares(measured.residual, table, self.total)) / measured.sigma**2

    def fitted(self, pair: Pair, base: Floats, increments: Mapping[int, float]) -> Floats:
        """A base table tilted towards what was measured of its pair, its margins met."""
        measured = pair.measured
        assert measured is not None
        a, b = pair.columns
        rows, columns = np.indices(base.shape, dtype=np.int32)
        parts = [
            Part(rows.ravel(), self.codings[a].law, MARGIN_RIDGE, residual=False),
            Part(columns.ravel(), self.codings[b].law, MARGIN_RIDGE, residual=False),
        ]
        known = self.total * self.merged(self.independent(pair.columns), pair.columns, measured.level)
        # Margins are known from the columns themselves, so that coarser levels of the residual have a meaning.
        known += measured.residual - without_margins(known)
        for level in pair.levels:
            if level < measured.level:
                continue
            coarse = self.coarser(known, pair.columns, measured.level, level)
            sigma = measured.sigma * math.sqrt(known.size / coarse.size)
            parts.append(
                Part(
                    self.cells(pair.columns, level),
                    without_margins(coarse) / self.total,
                    ridge_of(sigma / self.total, increments[level] / self.total),
                    residual=True,
                )
            )
        return tilted(base, parts, self.evaluations)

    def cells(self, columns: Sequence[int], level: int) -> NDArray[np.int32]:
        """For each cell of a pair at level 0 the cell of a coarser level that it lies in, flat."""
        a, b = (self.codings[column].maps[level] for column in columns)
        return (a[:, None] * (int(b[-1]) + 1) + b[None, :]).astype(np.int32).ravel()

    def coarser(self, table: Floats, columns: Sequence[int], level: int, coarser: int) -> Floats:
        """A table of one level as one of a coarser level."""
        for axis, column in enumerate(columns):
            starts = self.codings[column].starts
            inside = np.searchsorted(starts[level], starts[coarser])
            if len(inside) < table.shape[axis]:
                table = np.add.reduceat(table, inside, axis=axis)
        return table

    def expected_distance(self) -> float:
        """About how far the pair tables are from the truth on average, in L1, by what was measured of them."""
        pairs = [
            HALF_NORMAL * float((self.tables[r] * np.sqrt(self._variance(pair))).sum())
            for r, pair in self.pairs.items()
        ]
        single = [
            HALF_NORMAL * float(np.minimum(coding.deviations, np.maximum(coding.law * self.total, 1.0)).sum())
            for coding in self.codings
        ]
        return (float(np.mean(pairs)) if pairs else 0.0) + float(np.mean(single)) / self.total

    def _variance(self, pair: Pair) -> Floats:
        """The relative variance of each cell of a pair, given what was measured of it."""
        found = np.zeros(tuple(self.codings[column].size for column in pair.columns))
        measured = pair.measured
        for level in pair.levels:
            prior = (SCALE_OF_EFFECTS * pair.increments[level] / self.total) ** 2
            if measured is None or level < measured.level or prior <= 0:
                found += prior
                continue
            guess = self.merged(self.independent(pair.columns), pair.columns, level)
            sigma = measured.sigma * math.sqrt(measured.residual.size / guess.size)
            left = 1 / (1 / prior + (self.total * guess / sigma) ** 2)
            a, b = (self.codings[column].maps[level] for column in pair.columns)
            found += left[np.ix_(a, b)]
        return found


def ridge_of(noise: float, strength: float) -> float:
    """λ of a level, from its noise and its strength as shares of the rows."""
    return RIDGE * math.pow(noise, RIDGE_POWER) / max(SCALE_OF_EFFECTS * strength, LEAST_EFFECT)


@compiled
def _squares(residual: Any, table: Any, total: float) -> Any:
    """The squared distance of a residual from that of a table of shares, in counts."""
    rows, columns = residual.shape
    across, down, whole = np.zeros(rows), np.zeros(columns), 0.0
    for i in range(rows):
        for j in range(columns):
            across[i] += table[i, j]
            down[j] += table[i, j]
        whole += across[i]
    found = 0.0
    for i in range(rows):
        for j in range(columns):
            own = table[i, j] - across[i] / columns - down[j] / rows + whole / (rows * columns)
            found += (residual[i, j] - total * own) ** 2
    return found


def without_margins(table: Floats) -> Floats:
    """The residual of a table: without the mean along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def in_parallel(work: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
    """The work on each job, spread over the processors; compiled code and matrix products leave the lock."""
    if len(jobs) < 2 or processors() < 2:
        return [work(job) for job in jobs]
    with one_thread(), ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(work, jobs, chunksize=1))
