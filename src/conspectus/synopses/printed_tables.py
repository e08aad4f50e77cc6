"""Tables to print from noisy answers: whole counts that agree wherever tables overlap, and intervals around the truth.

A cell is estimated from all measurements together (`pooled_marginals`). The estimates of different tables agree, but
are no whole numbers and may be negative. So one table of whole rows is found whose marginals are nearest to all of them
(`nearest_table`), and every printed table is counted from it. Near to all of them: to the measured marginals, and to
the tables of one and two columns that these hold.

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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import mixture_quantile, sum_quantile
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Query
from conspectus.queries.workload import Workload

from .evidence import NoisyCount
from .fitting.nearest_table import Goal, TooManyGoals, nearest_table
from .histogram import MOST_CELLS
from .pooled_marginals import CellEstimates, MeasuredMarginal, PooledMarginals
from .rows import Rows
from .synopsis import CannotAnswer, Synopsis, Total, check_known

Vector = NDArray[np.float64]

FAILURE = 0.05
"""How often the bound on all printed counts may fail."""

_LARGE = 20.0
"""How much more a large count weighs than one that may be noise alone, at most."""

_LEAST_VARIANCE = 1 / 12
"""Of a count that is rounded to a whole one."""

_OVERVIEW = (1, 2)
"""How many columns tables have that are read first."""

MOST_LISTED = 4096
"""The most cells of a table that are looked up one by one."""


@dataclass(frozen=True, eq=False)
class KnownTable:
    """A table over ascending columns that is known somehow: flat counts, and the typical variance of one."""

    columns: tuple[int, ...]
    counts: Vector
    variance: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PrintedTables:
    """What noisy answers make of tables.

    Attributes:
        domain: The columns of the table.
        pool: The marginals that were measured.
        others: Further tables that noisy answers add up to: cells of lists, or differences of prefixes.
        total: The number of rows.
    """

    domain: Domain
    pool: PooledMarginals
    others: Sequence[KnownTable]
    total: Total

    def knows(self, columns: Sequence[int]) -> bool:
        """Whether the columns were measured together, or are few enough for one table of all that were measured."""
        known = any(set(held).issuperset(columns) for held in self._sets)
        return known or (self.domain.project(self._held).cells <= MOST_CELLS and set(self._held).issuperset(columns))

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A printed table over columns in the order given, flat; raises `CannotAnswer`."""
        check_known(self.domain, columns, self._held)
        if self._rows is None:
            return np.zeros(math.prod(self.domain.shape(tuple(columns))), dtype=np.int64)
        return self._rows.integer_marginal([self._held.index(c) for c in columns])

    def margin(self, cell: CellEstimates, failure: float) -> float | None:
        """How far a pooled estimate is from the truth, except with this probability; None where laws are mixed."""
        if self._law is None:
            return None
        law, grid = self._law
        squares = cell.variance / self.pool.marginals[0].variance
        return mixture_quantile(law, squares, cell.largest, failure) / grid

    @cached_property
    def within(self) -> float | None:
        """How far any printed count of a measured marginal is from the truth at most, except with `FAILURE`."""
        farthest = 0.0
        for marginal in self.pool.marginals:
            cell = self.pool.cells(marginal.columns)
            reach = None if cell is None else self.margin(cell, self._each)
            if cell is None or reach is None:
                return None
            printed = self.integer_marginal(marginal.columns)
            low, high = np.maximum(cell.counts - reach, 0.0), cell.counts + reach
            farthest = max(farthest, float((printed - low).max()), float((high - printed).max()))
        return farthest if self.pool.marginals else None

    @cached_property
    def _held(self) -> tuple[int, ...]:
        return tuple(sorted({c for columns in self._sets for c in columns}))

    @property
    def _sets(self) -> list[tuple[int, ...]]:
        """The columns of each table that is known."""
        return [marginal.columns for marginal in self.pool.marginals] + [table.columns for table in self.others]

    @cached_property
    def _law(self) -> tuple[Noise, int] | None:
        """The law of the noise in all marginals, in steps, and the steps to a count; None where they differ."""
        laws = {(marginal.law, marginal.grid) for marginal in self.pool.marginals}
        return laws.pop() if len(laws) == 1 else None

    @cached_property
    def _each(self) -> float:
        """The share of `FAILURE` that each measured cell has."""
        return FAILURE / max(sum(marginal.table.size for marginal in self.pool.marginals), 1)

    @cached_property
    def _radius(self) -> float:
        """B: what all noises of the marginals keep together, except with `FAILURE`."""
        if self._law is None:
            return math.inf
        law, grid = self._law
        if law.kind == "gaussian":
            return law.scale * math.sqrt(2 * math.log(2 / self._each)) / grid
        return sum_quantile(law.kind, law.scale, 1, 1 - self._each) / grid

    @cached_property
    def _rows(self) -> Rows | None:
        """The table that all printed ones are counted from; None where there is no row."""
        rows = self.total.rows
        if not rows:
            return None
        held = self.domain.project(self._held)
        goals = [self._measured(marginal) for marginal in self.pool.marginals if marginal.columns]
        goals += [self._goal(known.columns, known.counts, known.variance) for known in self.others]
        goals += self._overviews()
        try:
            found = nearest_table(held.sizes, goals, rows)
        except TooManyGoals as problem:
            raise CannotAnswer(f"{problem}: ask single questions, or release fewer marginals") from problem
        return Rows(held, tuple(found.codes.T), Total(value=float(rows), exact=True), found.copies)

    def _measured(self, marginal: MeasuredMarginal) -> Goal:
        """What the printed table of a measured marginal should be near to, and where it keeps the bound."""
        cell = self.pool.cells(marginal.columns)
        if cell is None:
            return self._goal(marginal.columns, marginal.table.ravel(), marginal.variance)
        reach = self.margin(cell, self._each)
        # Within B of all that is plausible; where that leaves next to no room, a quarter of the radius, and a row.
        room = math.inf if reach is None else max(self._radius - reach, reach / 4, 0.75)
        return self._goal(marginal.columns, cell.counts, cell.variance, room)

    def _overviews(self) -> list[Goal]:
        """The tables of one or two columns that measured marginals hold: people read these first.

        Cells below 0 are cut off, and where a marginal has hundreds of empty ones, all of these cuts add up in a table
        of one column. So that is wanted, too, by the noise that it has itself, and within its own interval.
        """
        measured = {marginal.columns for marginal in self.pool.marginals}
        held = {s for columns in measured for size in _OVERVIEW for s in combinations(columns, size)}
        found = []
        for columns in sorted(held - measured):
            if (cell := self.pool.cells(columns)) is not None:
                margin = self.margin(cell, FAILURE)
                room = math.inf if margin is None else margin
                goal = self._goal(columns, cell.counts, cell.variance, room)
                found.append(replace(goal, high=goal.counts + room))
        return found

    def _goal(self, columns: tuple[int, ...], counts: Vector, variance: float, room: float = math.inf) -> Goal:
        spread = math.sqrt(max(variance, _LEAST_VARIANCE))
        # Cutting off what is negative adds rows. They are taken from counts that may be noise alone, before large ones.
        weights = (1 + np.clip(counts / (4 * spread), 0, _LARGE)) / spread**2
        places = tuple(self._held.index(c) for c in columns)
        return Goal(places, counts, weights, counts - room, np.maximum(counts + room, self._radius))


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
    known = [KnownTable(*each) for each in zip(sets, answers, variances)]
    return PrintedTables(domain=domain, pool=PooledMarginals(domain, (), total), others=known, total=total)


Find = Callable[[Query], NoisyCount | None]
"""What noisy answers add up to for a query; None where they do not."""


def listed_tables(domain: Domain, blocks: Iterable[Block], pool: PooledMarginals, find: Find) -> list[KnownTable]:
    """The tables whose every cell some noisy answers add up to, though no measured marginal covers them.

    Lists may hold all cells of a few columns, and all prefixes of a column hold its cells as differences.
    """
    covered = [frozenset(marginal.columns) for marginal in pool.marginals]
    tables: list[KnownTable] = []
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
            tables.append(KnownTable(columns, np.array([count.count for count in found]), variance))
    return tables


def _columns_of(block: Block) -> Iterator[tuple[int, ...]]:
    """The sets of columns whose cells a block may list."""
    if isinstance(block, Intervals):
        yield (block.column,)
    elif isinstance(block, Conjunctions):
        yield from (columns for columns, _ in block.column_groups() if columns)
