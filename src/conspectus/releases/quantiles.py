"""Quantiles, medians and box plots of a release: the numbers that a SELECT has, from the same ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pyarrow as pa

from conspectus.data.columns.kinds import Column
from conspectus.data.columns.values import day_of
from conspectus.data.schema import Schema
from conspectus.queries.builders.arguments import position, positions
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.language.numbers import Where, where_predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.synopsis import CannotAnswer

from .answer import Answer, checked_confidence
from .cells.released_ranks import ReleasedRanks
from .released_counts import ReleasedCounts
from .selects.select_lines import QuantileValue

BOX = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
"""The quantiles of a box plot: whiskers, box and median."""


def quantile_answer(source: ReleasedCounts, ranks: ReleasedRanks, q: float, confidence: float) -> Answer | None:
    """The q-quantile of a column in its own units, None where there may be no row; see `Release.quantile`."""
    if isinstance(q, bool) or not isinstance(q, int | float) or not math.isfinite(q) or not 0 <= q <= 1:
        raise WorkloadError(f"a quantile lies between 0 and 1, not at {q!r}")
    column, found = source.schema.columns[ranks.place], ranks.quantile(q, 1 - confidence)
    if found is None:
        return None
    told = QuantileValue.of(column, found, None if source.within is None else source.within.values(ranks.place))
    return Answer(
        fraction=found.rows / source.total.divisor,
        count=found.rows,
        value=_number(told.value),
        low=None if told.low is None else _number(told.low),
        high=None if told.high is None else _number(told.high),
        basis=told.basis,
        confidence=confidence,
        notes=() if column.kind != "date" else (f"days since 1970-01-01; {column.label(found.code)}",),
    )


def _number(value: object) -> float:
    """A value of a column as a number: of a date its day."""
    return float(value) if isinstance(value, int | float) else float(day_of(value) or 0)


def ordered_place(schema: Schema, name: str) -> int:
    """The position of a column, which must have an order."""
    column: Column = schema.column(name)
    if not column.ordered:
        raise WorkloadError(f"{name!r} has no order: quantiles need an integer, number or date column")
    return position(schema, name)


@suggest_keywords
class Quantiles:
    """Quantiles of a release: what `Release` inherits."""

    schema: Schema

    @property
    def counts(self) -> ReleasedCounts:
        raise NotImplementedError

    def quantile(self, column: str, q: float, where: Where = None, *, confidence: float = 0.95) -> Answer:
        """The q-quantile of a column: the first value up to which at least the share q of the rows lies.

        Args:
            column: The name of an integer, number or date column.
            q: The share of the rows, from 0 to 1; 0.5 for the median.
            where: Which rows count: a SQL predicate, a mapping as in `cs.conjunctions`, or a workload of one predicate.
                Rows without a value do not count.
            confidence: The probability, over the noise, with which the interval holds the true quantile.

        Returns:
            An answer whose `value`, `low` and `high` are in the column's units; of dates, in days since 1970-01-01. A
            SELECT says the same.

        Raises:
            CannotAnswer: The release does not know the column, or no row counts.
            WorkloadError: The column has no order, or q is no share.
        """
        place, rows, source = ordered_place(self.schema, column), where_predicate(self.schema, where), self.counts
        found = quantile_answer(source, source.released_ranks(place, rows), q, checked_confidence(confidence))
        if found is None:
            raise CannotAnswer(f"by this release no row counts here, so that {column!r} has no quantile")
        return found

    def box(self, column: str, by: Sequence[str] = (), where: Where = None, *, confidence: float = 0.95) -> pa.Table:
        """What a box plot shows, by group: the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 with their intervals.

        Args:
            column: The name of an integer, number or date column.
            by: The columns to group by; none by default.
            where: Which rows count, as in `quantile`.
            confidence: The probability with which each interval holds.

        Returns:
            A line for each group: its labels, then `q05`, `q25`, `median`, `q75`, `q95`, each with `_low` and `_high`.

        Raises:
            CannotAnswer: The release does not know the columns together.
            WorkloadError: The column has no order.
        """
        checked_confidence(confidence)
        place, rows, source = ordered_place(self.schema, column), where_predicate(self.schema, where), self.counts
        domain, groups = self.schema.domain, positions(self.schema, by)
        columns: dict[str, list[object]] = {domain.names[c]: [] for c in groups}
        for name in BOX:
            columns |= {name: [], f"{name}_low": [], f"{name}_high": []}
        for codes in product(*(range(domain.sizes[c]) for c in groups)):
            cell = [literal(domain, c, (code,)) for c, code in zip(groups, codes)]
            given = predicate(domain, all_of(domain, [any_box(domain, rows.boxes), *cell]))
            ranks = source.released_ranks(place, given)
            for c, code in zip(groups, codes):
                columns[domain.names[c]].append(self.schema.columns[c].label(code))
            for name, q in BOX.items():
                found = quantile_answer(source, ranks, q, confidence)
                line = (None, None, None) if found is None else (found.value, found.low, found.high)
                for suffix, each in zip(("", "_low", "_high"), line):
                    columns[name + suffix].append(each)
        return pa.table(columns)
