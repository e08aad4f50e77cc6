"""Quantiles, medians and box plots from any synopsis that knows a column, with intervals.

Let P be the number of rows up to a value, and N that of all rows that count. The q-quantile is the first value with
P − q·N ≥ 0. Its interval holds every value for which the noise could explain that P − q·N is not below 0 there, and is
below 0 one value earlier. The true quantile is left out only if one of two noises is beyond its quantile on one side,
so the interval holds with its confidence, however the noise of different values goes together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.arguments import position, positions
from conspectus.queries.formulas import all_of, any_box, literal, predicate
from conspectus.queries.language.numbers import Where, where_predicate
from conspectus.queries.query import Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector, noisy_vector
from conspectus.synopses.synopsis import CannotAnswer, Synopsis
from conspectus.synopses.tree_counts import TreeCounts

from .answer import Answer, checked_confidence, count_confidence
from .within_bins import BinValues, WithinBins

BOX = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
"""The quantiles of a box plot: whiskers, box and median."""

PROBES = 12
"""Values whose noise is looked at: the largest of their margins is taken for all."""

LOOKS, NEARLY = 3, 0.05
"""How often the values that are left are looked at again, unless all of them have nearly the same noise."""

TRUE = Predicate(((),))


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """What a quantile needs to know: a release's synopsis and evidence, and the column with the rows that count."""

    schema: Schema
    synopsis: Synopsis
    evidence: Evidence
    column: str
    where: Predicate
    inside: BinValues | None = None

    @property
    def place(self) -> int:
        """The position of the column."""
        return position(self.schema, self.column)

    @property
    def declared(self) -> Column:
        """The column, which must have an order."""
        column = self.schema.column(self.column)
        if not column.ordered:
            raise WorkloadError(f"{self.column!r} has no order: quantiles need an integer, number or date column")
        return column

    def up_to(self, first: int, last: int) -> Predicate:
        """The rows that count whose code lies between two."""
        domain = self.schema.domain
        inside = literal(domain, self.place, range(first, last + 1))
        return predicate(domain, all_of(domain, [any_box(domain, self.where.boxes), inside]))

    @property
    def everything(self) -> Workload:
        """How many rows count: a question about all columns that a quantile reads."""
        asked = Conjunctions.of(self.schema.domain, [self.up_to(0, self.declared.regular - 1)])
        whole = Marginal(self.schema.domain, (self.place,))
        return Workload(self.schema.domain, (asked, whole))

    def counts(self) -> NDArray[np.float64]:
        """The estimated number of rows with each ordinary code."""
        domain, regular = self.schema.domain, self.declared.regular
        if self.where == TRUE:
            asked = Workload(domain, (Marginal(domain, (self.place,)),))
        else:
            asked = Workload(domain, (Conjunctions.of(domain, [self.up_to(c, c) for c in range(regular)]),))
        return np.asarray(self.synopsis.answer(asked)[:regular] * self.synopsis.total.divisor)

    def margin(self, code: int, q: float, confidence: float) -> float | None:
        """How far P − q·N is from the truth at this code at most, one side with half of what may go wrong."""
        last = self.declared.regular - 1
        sides = [self.up_to(0, code), *([self.up_to(code + 1, last)] if code < last else [])]
        parts = np.array([1 - q, -q][: len(sides)])
        vector = self._vector(sides)
        if vector is not None:
            return vector.margin(parts, confidence)
        domain, reach = self.schema.domain, 0.0
        each = count_confidence(self.synopsis.total, 1 - (1 - confidence) / len(sides))
        for side, part in zip(sides, parts):
            asked = Workload(domain, (Conjunctions.of(domain, [side]),))
            found = self.synopsis.estimate(asked, each, self.evidence)
            if found.low is None or found.high is None:
                return None
            reach += abs(float(part)) * max(found.high - found.count, found.count - found.low)
        return reach

    @property
    def measured(self) -> bool:
        """Whether noise of a known law tells how far P − q·N may be off."""
        return self._vector([self.up_to(0, self.declared.regular - 1)]) is not None

    def _vector(self, sides: Sequence[Predicate]) -> NoisyVector | None:
        if isinstance(self.synopsis, TreeCounts):
            return self.synopsis.vector(sides)
        measured = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        return noisy_vector(measured, sides) if isinstance(measured, NoisyAnswers) else None


def quantile_answer(asked: Ordered, q: float, confidence: float) -> Answer:
    """The q-quantile of a column in its own units; see `Release.quantile`."""
    if isinstance(q, bool) or not isinstance(q, int | float) or not math.isfinite(q) or not 0 <= q <= 1:
        raise WorkloadError(f"a quantile lies between 0 and 1, not at {q!r}")
    column, counts = asked.declared, asked.counts()
    total = asked.synopsis.total
    sums = np.cumsum(counts)
    rows = float(sums[-1])
    if rows <= 0:
        raise CannotAnswer(f"by this release no row counts here, so that {asked.column!r} has no quantile")
    rising = np.maximum.accumulate(sums)
    place = min(int(np.searchsorted(rising, q * rows - 1e-9)), len(sums) - 1)
    value = _within(column, place, q * rows, rising, asked.inside)
    notes = () if column.kind != "date" else (f"days since 1970-01-01; {column.label(place)}",)
    kept = _kept(asked, q, confidence, sums, place)
    if kept == (0, len(sums) - 1) and len(sums) > 1 and not asked.measured:
        kept = None  # a bound on single counts that leaves every value possible says nothing
    low = None if kept is None else float(_low(column, min(kept[0], place)))
    high = None if kept is None else float(_high(column, max(kept[1], place)))
    return Answer(
        fraction=rows / total.divisor,
        count=rows,
        value=value,
        low=low,
        high=high,
        basis="unguaranteed" if low is None else "measured",
        confidence=confidence,
        notes=notes,
    )


def _kept(asked: Ordered, q: float, confidence: float, sums: NDArray[np.float64], place: int) -> tuple[int, int] | None:
    """The first and the last code that the noise could explain as the quantile; None where it is not known.

    The noise of P − q·N is not the same at all codes. A first look takes the largest of all; only codes that are left
    by it are possible, and a second look takes the largest of these.
    """
    far = sums - q * float(sums[-1])
    first, last = 0, len(sums) - 1
    for _ in range(LOOKS):
        ends = max(first - 1, 0), max(last - 1, 0)
        looked = {*np.linspace(*ends, PROBES).astype(np.int64).tolist(), min(max(place, ends[0]), ends[1])}
        margins = [asked.margin(code, q, confidence) for code in sorted(looked)]
        known = [margin for margin in margins if margin is not None]
        if len(known) < len(margins):
            return None
        reach, before = max(known), (first, last)
        # The last value is always possible, and so is the first: nothing lies beyond them.
        first = max(first, int(np.argmax(np.append(far[:-1] >= -reach, True))))
        last = min(last, len(sums) - 1 - int(np.argmax(np.append((far[:-1] < reach)[::-1], True))))
        if first > last:
            return before
        if min(known) > (1 - NEARLY) * reach:
            break
    return first, last


def _within(column: Column, place: int, wanted: float, rising: NDArray[np.float64], known: BinValues | None) -> float:
    """A value of a bin: as far into it as the quantile lies among its rows."""
    low, high = float(_low(column, place)), float(_high(column, place))
    before = float(rising[place - 1]) if place else 0.0
    inside = float(rising[place]) - before
    share = min(max((wanted - before) / inside, 0.0), 1.0) if inside > 0 else 0.5
    return low + (high - low) * share if known is None else known.quantile(place, share)


def _low(column: Column, code: int) -> float:
    return column.lows[code]  # type: ignore[attr-defined, no-any-return]


def _high(column: Column, code: int) -> float:
    return column.highs[code]  # type: ignore[attr-defined, no-any-return]


def box_table(asked: Ordered, by: Iterable[str], confidence: float) -> pa.Table:
    """The quantiles of a box plot, a line for each group; see `Release.box`."""
    schema = asked.schema
    groups = positions(schema, by)
    columns: dict[str, list[object]] = {schema.domain.names[c]: [] for c in groups}
    for name in BOX:
        columns |= {name: [], f"{name}_low": [], f"{name}_high": []}
    domain = schema.domain
    for codes in product(*(range(domain.sizes[c]) for c in groups)):
        cell = [literal(domain, c, (code,)) for c, code in zip(groups, codes)]
        given = predicate(domain, all_of(domain, [any_box(domain, asked.where.boxes), *cell]))
        here = dataclasses.replace(asked, where=given)
        for c, code in zip(groups, codes):
            columns[domain.names[c]].append(schema.columns[c].label(code))
        for name, q in BOX.items():
            try:
                found = quantile_answer(here, q, confidence)
                line = (found.value, found.low, found.high)
            except CannotAnswer:
                line = (None, None, None)  # a group in which no row seems to be
            for suffix, each in zip(("", "_low", "_high"), line):
                columns[name + suffix].append(each)
    return pa.table(columns)


@suggest_keywords
class Quantiles:
    """Quantiles of a release: what `Release` inherits."""

    schema: Schema
    synopsis: Synopsis
    within: WithinBins | None

    @property
    def evidence(self) -> Evidence:
        raise NotImplementedError

    def _check_seen(self, asked: Workload) -> None:
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
            An answer whose `value`, `low` and `high` are in the column's units; of dates, in days since 1970-01-01.

        Raises:
            CannotAnswer: The release does not know the column, or no row counts.
            WorkloadError: The column has no order, or q is no share.
        """
        return quantile_answer(self._ordered(column, where), q, checked_confidence(confidence))

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
        return box_table(self._ordered(column, where), by, checked_confidence(confidence))

    def _ordered(self, column: str, where: Where) -> Ordered:
        """What is asked about a column: it, and the rows that count. Refused where the release never saw it."""
        chosen = where_predicate(self.schema, where)
        inside = None if self.within is None else self.within.values(position(self.schema, column))
        asked = Ordered(
            schema=self.schema,
            synopsis=self.synopsis,
            evidence=self.evidence,
            column=column,
            where=chosen,
            inside=inside,
        )
        self._check_seen(asked.everything)
        return asked
