"""Counts of a release for a SELECT: as `ask` finds them, and cells with the noise that they were measured with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.query import Predicate, Query
from conspectus.queries.workload import Workload
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.moment_estimates import MomentEstimate
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.sparse_table import PublishedKeys
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import Synopsis, Total
from conspectus.synopses.tree_counts import TreeCounts

from .answer import Answer, answer_of, count_confidence
from .cells.binned_cells import code_ends
from .cells.cell_estimates import CellCounts, Interval
from .cells.known_cells import measured_cells, simulated_cells
from .cells.released_ranks import ReleasedRanks
from .cells.stream_cells import stream_cells
from .cells.tree_cells import TreeCells
from .numbers_from_parts import moment_estimate, one_value_each, over_all_rows
from .shares import with_ratio
from .within_bins import WithinBins


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """What answers counts from a release: everything is post-processing, and costs nothing.

    Attributes:
        schema: The schema of the table.
        synopsis: What answers.
        evidence: What is published beside it.
        check_seen: Refuses what the release never saw.
        within: What was bought about values inside bins.
        moments: The sums, means, variances and covariances that were released by themselves.
        free: Whether counts cost nothing: they do not.
    """

    schema: Schema
    synopsis: Synopsis
    evidence: Evidence
    check_seen: Callable[[Workload], None]
    within: WithinBins | None = None
    moments: tuple[Moment, ...] = ()
    free: ClassVar[bool] = True

    @property
    def total(self) -> Total:
        return self.synopsis.total

    @property
    def partial(self) -> tuple[str, ...]:
        """That numbers of values are of the published rows, where others are in no count."""
        if not isinstance(self.synopsis, PublishedKeys):
            return ()
        published, rows = int(self.synopsis.counts.sum()), self.total.rows
        return (f"numbers of values rest on the published rows alone: about {published:,} of {rows:,}",)

    def count(self, query: Predicate, failure: float) -> Interval:
        """How many rows satisfy a predicate."""
        domain = self.schema.domain
        asked = Workload(domain, (Conjunctions.of(domain, [query]),))
        self.check_seen(asked)
        return counted(self._estimate(asked, 1 - failure), self.total)

    def share(self, query: Predicate, failure: float) -> Answer:
        """What share of all rows satisfies a predicate, as `ask` says it."""
        asked = Workload(self.schema.domain, (Conjunctions.of(self.schema.domain, [query]),))
        self.check_seen(asked)
        return self.answer(asked, 1 - failure)

    def answer(self, asked: Workload, confidence: float) -> Answer:
        """The answer to one question about the rows: the same at every door, whether it is called a share or not.

        Of a session it is what the session said: that of the count and the total, as it keeps no cells.
        """
        query = asked.query(0)
        estimate = self._estimate(asked, count_confidence(self.total, confidence))
        fitted = as_counted(estimate, query, self.total, lambda one: self.count(one, 1 - confidence))
        answer = answer_of(fitted, self.total, confidence, query)
        return answer if self.evidence.guesses is not None else with_ratio(self, answer, estimate, query)

    def _estimate(self, asked: Workload, confidence: float) -> Estimate:
        """One question, in counts."""
        return self.synopsis.estimate(asked, confidence, self.evidence)

    def cells_known(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> bool:
        """Whether the cells that are needed are known already: whatever a release says of them, it says for nothing."""
        return True

    def rate(self, above: Predicate, below: Predicate, failure: float, *, part: bool) -> Interval | None:
        """Rates follow from cells."""
        return None

    def moment(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment that was released, of the same rows; None for any other, which follows from the cells.

        A sum over a public number of rows is as good as released where their mean is, and a mean where their sum is. A
        released mean counts each bin as its middle: that of the values is off by half of the widest bin at most.
        """
        released = self._released.get(self._key(moment)) if self._released else None
        if released is None and self._released and one_value_each(self.schema, moment):
            twin = over_all_rows(moment, self.schema.domain, self.total)
            released = moment if twin is not None and self._key(twin) in self._released else None
        binned = released is not None and not one_value_each(self.schema, released)
        if released is None or (binned and (released.kind != "mean" or self.within is not None)):
            return None
        found = moment_estimate(self.synopsis, self.evidence, released, 1 - failure)
        if not binned or found.low is None or found.high is None:
            return found
        low, high = code_ends(self.schema.columns[released.numbers[0].column])
        half = float((high - low).max()) / 2
        return replace(found, low=found.low - half, high=found.high + half)

    def moment_said(self, moment: Moment, failure: float) -> MomentEstimate | None:
        """A moment as a session said it, whose release this is; None for any other."""
        return None

    @cached_property
    def _released(self) -> dict[object, Moment]:
        return {self._key(moment): moment for moment in self.moments}

    def _key(self, moment: Moment) -> object:
        """The same for all moments that mean the same: rows without a value are in none, whether or not it says so."""
        domain = self.schema.domain
        there = [literal(domain, axis.column, range(axis.values.size)) for axis in moment.numbers]
        rows = predicate(domain, all_of(domain, [any_box(domain, moment.given.boxes), *there]))
        return moment.kind, rows, moment.numbers

    def ranks(self, column: int, rows: Predicate) -> ReleasedRanks | None:
        """The ranks for a SELECT; None where they follow from cells."""
        return self.released_ranks(column, rows)

    def released_ranks(self, column: int, rows: Predicate) -> ReleasedRanks:
        """The ranks of an ordered column among the rows that satisfy a predicate: what every quantile is found by."""
        columns = tuple(sorted({column, *rows.columns}))
        self.check_seen(Workload(self.schema.domain, (Marginal(self.schema.domain, columns),)))
        return ReleasedRanks(
            schema=self.schema,
            synopsis=self.synopsis,
            evidence=self.evidence,
            place=column,
            where=rows,
            table=self._table,
        )

    @cached_property
    def _tables(self) -> dict[tuple[int, ...], CellCounts | None]:
        return {}

    def _table(self, columns: tuple[int, ...]) -> CellCounts | None:
        """The cells of some columns, measured or by reruns; kept, as every group of a SELECT asks for them."""
        if columns not in self._tables:
            self._tables[columns] = self._known(columns)
        return self._tables[columns]

    def _known(self, columns: tuple[int, ...]) -> CellCounts | None:
        if isinstance(self.synopsis, TreeCounts):
            return TreeCells.of(self.synopsis, columns)
        if isinstance(self.synopsis, StreamAnswers):
            return stream_cells(self.synopsis, columns)
        measured = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        noisy = measured_cells(measured, columns)
        if noisy is not None and isinstance(self.synopsis, NoisyAnswers):
            return noisy
        if noisy is None and self.synopsis.simulated_columns < len(columns):
            return None
        counts = self._answered(columns)
        return simulated_cells(self.synopsis, columns, counts) if noisy is None else replace(noisy, counts=counts)

    def _answered(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        asked = Workload(self.schema.domain, (Marginal(self.schema.domain, columns),))
        return self.synopsis.answer(asked) * self.total.divisor

    def cells(self, columns: tuple[int, ...], needed: NDArray[np.bool_]) -> CellCounts:
        """The counts of all cells of some columns; intervals may hold for those alone that are needed."""
        domain = self.schema.domain
        table = Marginal(domain, columns)
        self.check_seen(Workload(domain, (table,)))
        if (known := self._table(columns)) is not None:
            return known
        counts = self._answered(columns)
        told = partial(self.evidence.cells_margin, table, needed, additive=self.synopsis.additive)
        if told(0.95) is None:
            return CellCounts(counts=counts, measured=counts, law=None, basis="unguaranteed")

        def reach(failure: float) -> float:
            margin = told(1 - failure)
            return math.inf if margin is None else margin

        return CellCounts(counts=counts, measured=counts, law=None, reach=reach, basis="guessed")


def counted(found: Estimate, total: Total) -> Interval:
    """An estimate as a number of rows.

    An answer in shares lies in the interval that was cut to what is possible, as that of `ask` does: the two say the
    same, and noise far below 0 leaves a fitted count where it is.
    """
    if found.share is None:
        return Interval(value=found.count, low=found.low, high=found.high, basis=found.basis)
    fitted = found.share * total.divisor
    ends = found.possible_ends(max(total.value, 1.0) if total.exact else math.inf)
    if ends is None:
        return Interval(value=fitted, low=None, high=None, basis=found.basis)
    low, high = ends
    return Interval(value=min(max(fitted, low), high), low=low, high=high, basis=found.basis)


def as_counted(estimate: Estimate, query: Query, total: Total, count: Callable[[Predicate], Interval]) -> Estimate:
    """An estimate for a share of the rows, with the number of rows that `count` finds.

    Where the number of rows is private, a share has a wider interval than its count, since both are uncertain. The
    fitted count lies in the narrower one, whether it is asked for as a count or as a share.
    """
    if estimate.share is None or total.exact or not isinstance(query, Predicate):
        return estimate
    value = count(query).value
    return estimate if value is None else replace(estimate, share=value / total.divisor)
