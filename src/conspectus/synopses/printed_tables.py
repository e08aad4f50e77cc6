"""Tables to print from noisy answers: whole counts that agree wherever tables overlap, and intervals around the truth.

A cell is estimated from all measurements together (`best_estimates`); the estimates of different tables agree, but are
no whole numbers and may be negative. So one table of whole rows is found whose marginals are nearest to all of them
(`nearest_table`), and every printed table is counted from it.

What is proved. Let B be the bound that the noise keeps in all k measured cells at once, except with probability
`FAILURE`. An estimate e has at most the variance of one noise, and a radius r with |truth − e| ≤ r in all k cells at
once, except with the same probability. True counts are not negative. So the truth lies between max(e − r, 0) and e + r;
a printed count p is within max(p − max(e − r, 0), e + r − p) of it, and within B wherever p lies between e + r − B and
max(e − r, 0) + B. The search for the table looks for one with all counts there. Whether it found one is known and
public: `within` is the largest of these distances, the bound that printed counts have. It is at most B where there is
such a table, which overlapping marginals leave room for; a single marginal of many empty cells may leave none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import mixture_quantile, sum_quantile, variance_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Query
from conspectus.queries.workload import Workload

from .evidence import NoisyCount
from .fitting.best_estimates import BestEstimates, CellEstimates, NoisyMarginal
from .fitting.nearest_table import Goal, TooManyGoals, nearest_table
from .histogram import MOST_CELLS
from .rows import Rows
from .synopsis import CannotAnswer, Synopsis, Total

Vector = NDArray[np.float64]

FAILURE = 0.05
"""How often the bound on all printed counts may fail."""

_LARGE = 20.0
"""How much more a large count weighs than one that may be noise alone, at most."""

LEAST_VARIANCE = 1e-9

MOST_LISTED = 4096
"""The most cells of a table that are looked up one by one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PrintedTables:
    """What noisy answers make of tables.

    Attributes:
        domain: The columns of the table.
        marginals: The marginals that were measured, each with independent noise in its cells.
        others: Further tables that noisy answers add up to: cells of lists, or differences of prefixes.
        total: The number of rows.
        law: The law of the noise in all marginals and in a paid total, in steps; None where they differ.
        grid: How many steps make one count.
    """

    domain: Domain
    marginals: Sequence[NoisyMarginal]
    others: Sequence[NoisyMarginal]
    total: Total
    law: Noise | None
    grid: int

    def knows(self, columns: Sequence[int]) -> bool:
        """Whether the columns were measured together, or are few enough for one table of all that were measured."""
        known = any(set(table.columns).issuperset(columns) for table in (*self.marginals, *self.others))
        return known or (self.domain.project(self._held).cells <= MOST_CELLS and set(self._held).issuperset(columns))

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A printed table over columns in the order given, flat; raises `CannotAnswer`."""
        missing = [self.domain.names[c] for c in columns if c not in self._held]
        if missing:
            raise CannotAnswer(f"nothing was measured of {', '.join(missing)}: ask a synopsis whose workload does")
        if self._rows is None:
            return np.zeros(math.prod(self.domain.shape(tuple(columns))), dtype=np.int64)
        return self._rows.integer_marginal([self._held.index(c) for c in columns])

    def best(self, columns: Sequence[int]) -> CellEstimates | None:
        """The best linear estimate of every cell from all marginals; None where these do not cover the columns."""
        known = self._estimates
        return known.of(columns) if known is not None and known.cover(columns) else None

    def margin(self, cell: CellEstimates, failure: float) -> float | None:
        """How far such an estimate is from the truth, except with this probability; None where no law is known."""
        if self.law is None:
            return None
        squares = cell.variance * self.grid**2 / max(variance_of(self.law), LEAST_VARIANCE)
        return mixture_quantile(self.law, squares, cell.largest, failure) / self.grid

    @cached_property
    def within(self) -> float | None:
        """How far any printed count of a measured marginal is from the truth at most, except with `FAILURE`."""
        if self._radius is None or self._estimates is None:
            return None
        farthest = 0.0
        for marginal in self.marginals:
            cell = self._estimates.of(marginal.columns)
            low, high = self._plausible(cell)
            printed = self.integer_marginal(marginal.columns)
            farthest = max(farthest, float((printed - low).max()), float((high - printed).max()))
        return farthest

    @cached_property
    def _held(self) -> tuple[int, ...]:
        return tuple(sorted({c for known in (*self.marginals, *self.others) for c in known.columns}))

    @cached_property
    def _estimates(self) -> BestEstimates | None:
        if not self.marginals or not BestEstimates.worthwhile(self.marginals):
            return None
        total = self.total
        noisy = 0.0
        if not total.exact and total.kind is not None:
            noisy = variance_of(Noise(total.kind, total.scale)) * total.terms / total.averaged**2
        return BestEstimates(self.domain.sizes, self.marginals, total.value, noisy)

    @cached_property
    def _radius(self) -> float | None:
        """B: what all noises of the marginals keep together, except with `FAILURE`."""
        if self.law is None:
            return None
        each = FAILURE / max(self._cells, 1)
        if self.law.kind == "gaussian":
            return self.law.scale * math.sqrt(2 * math.log(2 / each)) / self.grid
        return sum_quantile(self.law.kind, self.law.scale, 1, 1 - each) / self.grid

    @property
    def _cells(self) -> int:
        return sum(marginal.counts.size for marginal in self.marginals)

    def _plausible(self, cell: CellEstimates) -> tuple[Vector, Vector]:
        """Between which counts the truth lies in all cells at once, except with `FAILURE`."""
        reach = self.margin(cell, FAILURE / self._cells) or 0.0
        return np.maximum(cell.counts - reach, 0.0), cell.counts + reach

    @cached_property
    def _rows(self) -> Rows | None:
        """The table that all printed ones are counted from; None where there is no row."""
        rows = self.total.rows
        if not rows:
            return None
        sizes = self.domain.project(self._held).sizes
        try:
            found = nearest_table(sizes, [self._goal(known) for known in (*self.marginals, *self.others)], rows)
        except TooManyGoals as problem:
            raise CannotAnswer(f"{problem}: ask single questions, or release fewer marginals") from problem
        columns = tuple(found.codes.T)
        return Rows(self.domain.project(self._held), columns, Total(value=float(rows), exact=True), found.copies)

    def _goal(self, known: NoisyMarginal) -> Goal:
        """What the printed table over some columns should be near to, and the band in which it keeps the bound."""
        columns = tuple(self._held.index(c) for c in known.columns)
        cell = self.best(known.columns) if self._estimates is not None else None
        counts = known.counts if cell is None else cell.counts
        spread = math.sqrt(max(known.variance if cell is None else cell.variance, 1 / 12))
        # Cutting off what is negative adds rows. They are taken from counts that may be noise alone, before large ones.
        weights = (1 + np.clip(counts / (4 * spread), 0, _LARGE)) / max(known.variance, 1 / 12)
        low, high = np.full(counts.size, -np.inf), np.full(counts.size, np.inf)
        if cell is not None and self._radius is not None:
            reach = self.margin(cell, FAILURE / self._cells) or 0.0
            # Within B of all that is plausible; where that leaves next to no room, a quarter of the radius, and a row.
            room = max(self._radius - reach, reach / 4, 0.75)
            low, high = counts - room, np.maximum(counts + room, self._radius)
        return Goal(columns, counts, weights, low, high)


def near_answers(synopsis: Synopsis, sets: Sequence[tuple[int, ...]], variances: Sequence[float]) -> PrintedTables:
    """Tables near the answers of a synopsis to some marginals: what it prints.

    Args:
        synopsis: What answers.
        sets: The columns of each marginal, ascending.
        variances: How far off the answers to each marginal typically are, squared, in counts: nearer ones weigh more.

    Raises:
        CannotAnswer: The synopsis does not hold one of the marginals.
    """
    domain, total = synopsis.domain, synopsis.total
    asked = Workload(domain, tuple(Marginal(domain, columns) for columns in sets))
    answers = np.split(synopsis.answer(asked) * total.divisor, asked.offsets[1:-1])
    known = [NoisyMarginal(*each) for each in zip(sets, answers, variances)]
    return PrintedTables(domain=domain, marginals=(), others=known, total=total, law=None, grid=1)


Find = Callable[[Query], NoisyCount | None]
"""What noisy answers add up to for a query; None where they do not."""


def listed_tables(
    domain: Domain, blocks: Iterable[Block], known: Sequence[NoisyMarginal], find: Find
) -> list[NoisyMarginal]:
    """The tables whose every cell some noisy answers add up to, though no marginal that is `known` covers them.

    Lists may hold all cells of a few columns, and all prefixes of a column hold its cells as differences.
    """
    covered = [frozenset(marginal.columns) for marginal in known]
    tables: list[NoisyMarginal] = []
    for columns in sorted({asked for block in blocks for asked in _columns_of(block)}):
        if any(held.issuperset(columns) for held in covered):
            continue
        cells = Marginal(domain, columns)
        found: list[NoisyCount] = []
        for i in range(len(cells) if len(cells) <= MOST_LISTED else 0):
            count = find(cells.query(i))
            if count is None:
                break
            found.append(count)
        if len(found) == len(cells):
            variance = float(np.mean([count.variance for count in found]))
            tables.append(NoisyMarginal(columns, np.array([count.count for count in found]), variance))
    return tables


def _columns_of(block: Block) -> Iterator[tuple[int, ...]]:
    """The sets of columns whose cells a block may list."""
    if isinstance(block, Intervals):
        yield (block.column,)
    elif isinstance(block, Conjunctions):
        yield from (columns for columns, _ in block.column_groups() if columns)
