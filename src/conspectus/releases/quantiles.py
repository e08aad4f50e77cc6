"""Quantiles, medians and box plots from any synopsis that knows a column, with intervals.

Let P be the number of rows up to a value, and N that of all rows that count. The q-quantile is the first value with
P − q·N ≥ 0. Its interval holds every value for which the noise could explain that P − q·N is not below 0 there, and is
below 0 one value earlier. The true quantile is left out only if one of two noises is beyond its quantile on one side,
so the interval holds with its confidence, however the noise of different values goes together. That is true of the
numbers that the noise was added to, so P and N are taken from these, and not from a table that was fitted to them: of
a fitted table nobody knows how far P − q·N is off, and in the tails it is off by more than the noise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
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
from conspectus.synopses.estimate import Basis
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.noisy_vectors import NoisyVector, noisy_vector
from conspectus.synopses.synopsis import CannotAnswer, Synopsis
from conspectus.synopses.tree_counts import TreeCounts

from .answer import Answer, checked_confidence, count_confidence
from .cells.cell_estimates import CellCounts, Vector
from .cells.known_cells import measured_cells, simulated_cells
from .cells.ranks import Ranks, RanksApart, RanksTogether, found_code, possible_codes
from .within_bins import BinValues, WithinBins

BOX = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
"""The quantiles of a box plot: whiskers, box and median."""

PROBES = 12
"""At how many codes a release without noise of a known law is asked how far it may be off."""

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

    @cached_property
    def ranks(self) -> Ranks | None:
        """Numbers of rows up to each code, of one and the same measurement as how far they may be off."""
        if isinstance(self.synopsis, TreeCounts):
            return self._apart(self.synopsis.vector)
        measured = self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.evidence.measured
        columns = tuple(sorted({self.place, *self.where.columns}))
        cells = measured_cells(measured, columns)
        # Ranges that were measured may say more than single values do.
        if isinstance(measured, NoisyAnswers) and (cells is None or measured.interval_blocks):
            return self._apart(partial(noisy_vector, measured))
        if cells is None and (cells := self._rerun(columns)) is None:
            return None
        inside = values_on(self.up_to(0, self.declared.regular - 1), self.schema.domain, columns) > 0
        shape = self.schema.domain.shape(columns)
        codes = np.unravel_index(np.flatnonzero(inside), shape)[columns.index(self.place)]
        return RanksTogether(cells.taken(inside), codes, self.declared.regular, self.place)

    def _rerun(self, columns: tuple[int, ...]) -> CellCounts | None:
        """The cells of some columns with what reruns tell of them; None where there were none."""
        if self.synopsis.simulated_columns < len(columns) or self.evidence.bound is not None:
            return None
        asked = Workload(self.schema.domain, (Marginal(self.schema.domain, columns),))
        return simulated_cells(self.synopsis, columns, self.synopsis.answer(asked) * self.synopsis.total.divisor)

    def _apart(self, vector: Callable[[Sequence[Predicate]], NoisyVector | None]) -> RanksApart | None:
        """Ranks from measurements of each; None where some of them were not measured."""
        found = []
        for code in range(self.declared.regular):
            one = vector(self.both_sides(code))
            if one is None:
                return None
            found.append(one)
        return RanksApart(found)

    def estimated(self, q: float, confidence: float) -> tuple[Vector, Vector, Basis] | None:
        """P − q·N at each code and how far it may be off, from estimates of both sides; None where one has no interval.

        Estimates take time, so that some codes are looked at: between two of them the larger margin is taken. Where an
        estimate is not the synopsis's own answer, what lies between them counts as off, too.
        """
        domain, regular = self.schema.domain, self.declared.regular
        each = count_confidence(self.synopsis.total, (1 + confidence) / 2)
        sums = np.cumsum(self.counts())
        excess = sums - q * float(sums[-1])
        probes, reach, bases = np.unique(np.linspace(0, regular - 1, PROBES).astype(np.int64)), [], set[Basis]()
        for code in probes.tolist():
            seen, off = 0.0, 0.0
            for side, part in zip(self.both_sides(code), (1 - q, -q)):
                asked = Workload(domain, (Conjunctions.of(domain, [side]),))
                found = self.synopsis.estimate(asked, each, self.evidence)
                if found.low is None or found.high is None:
                    return None
                seen += part * found.count
                off += abs(part) * max(found.high - found.count, found.count - found.low)
                bases.add(found.basis)
            reach.append(off + abs(seen - float(excess[code])))
        after = np.searchsorted(probes, np.arange(regular))
        margins = np.maximum(np.array(reach)[after], np.array(reach)[np.maximum(after - 1, 0)])
        # The weakest of what the sides rest on, in the order of the list of all of them.
        return excess, margins, max(bases, key=get_args(Basis).index)

    def both_sides(self, code: int) -> list[Predicate]:
        """The rows up to a code, and those beyond it where there is one."""
        last = self.declared.regular - 1
        return [self.up_to(0, code), *([self.up_to(code + 1, last)] if code < last else [])]


def quantile_answer(asked: Ordered, q: float, confidence: float) -> Answer:
    """The q-quantile of a column in its own units; see `Release.quantile`."""
    if isinstance(q, bool) or not isinstance(q, int | float) or not math.isfinite(q) or not 0 <= q <= 1:
        raise WorkloadError(f"a quantile lies between 0 and 1, not at {q!r}")
    column, ranks, fitted = asked.declared, asked.ranks, asked.counts()
    counts = fitted if ranks is None or ranks.counts.sum() <= 0 else ranks.counts
    kept, basis = _kept(asked, ranks, q, confidence)
    if kept == (0, len(counts) - 1) and len(counts) > 1:
        if ranks is None or ranks.basis != "measured":
            kept = None  # a bound on single counts that leaves every value possible says nothing
        counts = fitted if fitted.sum() > 0 else counts
    found = found_code(counts, q)
    if found is None:
        raise CannotAnswer(f"by this release no row counts here, so that {asked.column!r} has no quantile")
    (place, into), rows = found, float(counts.sum())
    low, high = float(_low(column, place)), float(_high(column, place))
    value = low + (high - low) * into if asked.inside is None else asked.inside.quantile(place, into)
    notes = () if column.kind != "date" else (f"days since 1970-01-01; {column.label(place)}",)
    return Answer(
        fraction=rows / asked.synopsis.total.divisor,
        count=rows,
        value=value,
        low=None if kept is None else float(_low(column, min(kept[0], place))),
        high=None if kept is None else float(_high(column, max(kept[1], place))),
        basis="unguaranteed" if kept is None else basis,
        confidence=confidence,
        notes=notes,
    )


def _kept(asked: Ordered, ranks: Ranks | None, q: float, confidence: float) -> tuple[tuple[int, int] | None, Basis]:
    """The first and the last code that may be the quantile, None where it is not known; and what that rests on."""
    if ranks is not None:
        return ranks.kept(q, 1 - confidence), ranks.basis
    found = asked.estimated(q, confidence)
    return (None, "unguaranteed") if found is None else (possible_codes(*found[:2]), found[2])


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
