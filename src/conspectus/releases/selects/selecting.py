"""A SELECT that was read, answered from counts: group by group, measure by measure, then HAVING, ORDER BY and LIMIT.

Nothing here touches a table: a source of counts answers, and everything after it is post-processing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.blocks.moments import KINDS, Moment, Numbers
from conspectus.queries.formulas import Formula, all_of, literal, predicate, under_one_limit
from conspectus.queries.language.numbers import code_values
from conspectus.queries.language.select_plan import Measure, Select, columns_in
from conspectus.queries.language.unanswerable import CannotQuery
from conspectus.queries.query import Literal, Predicate
from conspectus.releases.answer import standing_notes
from conspectus.releases.cells import cell_estimates as cells
from conspectus.releases.cells import cell_moments
from conspectus.releases.cells.binned_cells import code_ends, with_inside
from conspectus.releases.cells.cell_estimates import CellCounts, Interval, Values
from conspectus.releases.cells.ranks import QuantileCodes, quantile
from conspectus.releases.cells.released_ranks import ReleasedRanks
from conspectus.releases.cells.samples import of_sample
from conspectus.releases.within_bins import BinValues
from conspectus.synopses.moment_estimates import RARELY
from conspectus.synopses.synopsis import CannotAnswer

from .agreement import agreed
from .count_source import CountSource
from .query_result import QueryResult
from .select_lines import Line, QuantileValue, rank_of, result_of, value_of
from .select_notes import VAGUE, sums_note, value_notes, without_interval

MOST_CELLS = 1 << 20
Mask = NDArray[np.bool_]


@under_one_limit()
def answer_select(plan: Select, source: CountSource, confidence: float) -> QueryResult:
    """The result of a SELECT."""
    asked = _Asked(plan, source, 1 - confidence)
    groups = plan.groups(source.schema.domain)
    rows = [formulas for _, formulas in groups]
    # Counts first: what they cost need not be paid for again by a rate.
    order = sorted(range(len(plan.measures)), key=lambda at: not source.free and plan.measures[at].kind != "count")
    taken = {at: asked.measured(plan.measures[at], rows) for at in order}
    found = [taken[at] for at in range(len(plan.measures))]
    means = partial(asked.free_means, rows)
    known = (asked.free_count, means, asked.span)
    found = agreed(plan, source.schema.domain, rows, found, *known, complete=not source.partial)
    lines = [Line(keys, tuple(column[at] for column in found)) for at, (keys, _) in enumerate(groups)]
    if plan.having is not None:
        lines = [line for line in lines if value_of(plan.having, line) is True]
    for expression, down in reversed(plan.order):
        lines.sort(key=lambda line: rank_of(value_of(expression, line), down))
    lines = lines[plan.offset :][: plan.limit]
    return result_of(source.schema, plan, lines, confidence, (*asked.notes, *standing_notes(source.schema)))


def measured_alone(
    source: CountSource, measure: Measure, where: Formula, failure: float
) -> tuple[Interval, tuple[str, ...]]:
    """One measure over the rows that satisfy a formula, and what must be said besides."""
    plan = Select(keys=(), where=where, measures=(measure,), outputs=())
    asked = _Asked(plan, source, failure)
    found: Interval = asked.measured(measure, [()])[0]
    return found, tuple(asked.notes)


class _Asked:
    """Answers the measures of one SELECT."""

    def __init__(self, plan: Select, source: CountSource, failure: float) -> None:
        self.plan, self.source, self.failure = plan, source, failure
        self.schema, self.domain = source.schema, source.schema.domain
        self.notes: dict[str, None] = dict.fromkeys(plan.notes)
        self.known: dict[tuple[int, ...], CellCounts] = {}
        self.from_cells: set[Measure] = set()
        self.ranks: dict[tuple[int, Predicate], ReleasedRanks | None] = {}

    def measured(self, measure: Measure, groups: Sequence[tuple[Formula, ...]]) -> list[Any]:
        """What a measure is in each group."""
        if not groups:
            return []
        if measure.kind == "count":
            counts = [self._count(measure.where, group) for group in groups]
            if measure.where is True and self.plan.where is True and self.plan.keys:
                self.notes |= dict.fromkeys(sums_note(self.source, counts))
            return counts
        whole = self.plan.where is True and measure.over is True
        alone = all(part is True for group in groups for part in group) and not self.source.partial
        if whole and (measure.kind == "share" or (measure.kind == "ratio" and alone)):
            return [self._share(measure.where, group) for group in groups]
        self.notes |= dict.fromkeys(self.source.partial if measure.kind != "share" else ())
        if measure.kind == "quantile" and (ranked := self._ranked(measure, groups)) is not None:
            return ranked
        moments = []
        for group in groups:
            if (one := self._moment(measure, group)) is None:
                return self._from_cells(measure, groups)
            moments.append(one)
        for at in measure.columns:
            self._say_values(at, bins=any(one.low is not None for one in moments))
        return moments

    def _ranked(self, measure: Measure, groups: Sequence[tuple[Formula, ...]]) -> list[Any] | None:
        """Quantiles by the ranks of a source that knows them; None where they follow from cells."""
        at, found = measure.columns[0], []
        for group in groups:
            rows = predicate(self.domain, all_of(self.domain, [self.plan.where, measure.where, *group]))
            if (at, rows) not in self.ranks:
                self.ranks[at, rows] = self.source.ranks(at, rows)
            if (ranks := self.ranks[at, rows]) is None:
                return None
            found.append(self._in_values(at, ranks.quantile(measure.q, self.failure)))
            if ranks.span is not None and found[-1].low is None:
                self.notes[VAGUE if ranks.ranks.known else without_interval(self.domain, ranks.columns)] = None
        self._say_values(at, bins=any(one.low is not None for one in found))
        return found

    def _say_values(self, at: int, *, bins: bool) -> None:
        self.notes |= dict.fromkeys(value_notes(self.schema.columns[at], bins=bins))

    def _moment(self, measure: Measure, group: tuple[Formula, ...]) -> Interval | None:
        """A moment that the source takes as one question; None where it takes cells."""
        kind = "variance" if measure.kind == "deviation" else measure.kind
        columns = [self.schema.columns[c] for c in sorted(set(measure.columns))]
        numbers = all(column.kind in ("boolean", "integer", "number") for column in columns)
        if kind not in KINDS or not numbers or len(columns) != len(measure.columns):
            return None
        rows = predicate(self.domain, all_of(self.domain, [self.plan.where, measure.where, *group]))
        axes = tuple(Numbers(self.domain.position(column.name), code_values(column)) for column in columns)
        found = self.source.moment(Moment(kind, rows, axes), self._left(measure))
        if found is None:
            return None
        told = Interval(value=found.value, low=found.low, high=found.high, basis=found.basis)
        told = of_sample(told, found.count or 0.0, found.rows) if measure.sample else told
        return _rooted(told) if measure.kind == "deviation" else told

    def _count(self, where: Formula, group: tuple[Formula, ...], *, noted: bool = True) -> Interval:
        rows = predicate(self.domain, all_of(self.domain, [self.plan.where, where, *group]))
        if rows.decided is not None:
            return self._by_schema(rows.decided)
        found, total = self.source.count(rows, self.failure), self.source.total
        most = total.value if total.exact else math.inf
        possible = min(max(found.value or 0.0, 0.0), most)
        value = min(possible, max(total.value, 0.0))  # a reader compares it with the total, also with a noisy one
        if found.low is None or found.high is None:
            self.notes |= {without_interval(self.domain, tuple(sorted(rows.columns))): None} if noted else {}
            return Interval(value=value, low=None, high=None, basis=found.basis)
        moved = possible - (found.value or 0.0)  # around the nearest possible count, which is no farther from the truth
        low, high = max(found.low + moved, 0.0), min(found.high + moved, most)
        return Interval(value=value, low=min(low, value), high=max(high, value), basis=found.basis)

    def _share(self, where: Formula, group: tuple[Formula, ...]) -> Interval:
        """A share of all rows: of a public number of them by its count, of a private one as `ask` says it."""
        total = self.source.total
        if total.exact:
            return self._count(where, group).scaled(1 / max(total.value, 1.0))
        rows = predicate(self.domain, all_of(self.domain, [where, *group]))
        told = self.source.share(rows, self.failure)
        if told.low is None:
            self.notes[without_interval(self.domain, tuple(sorted(rows.columns)))] = None
        value, low, high = (
            None if end is None else min(max(end, 0.0), 1.0) for end in (told.fraction, told.low, told.high)
        )
        return Interval(value=value, low=low, high=high, basis=told.basis)

    def free_count(self, where: Formula, group: tuple[Formula, ...]) -> Interval | None:
        """A count that nobody asked for; None where it would cost something."""
        rows = predicate(self.domain, all_of(self.domain, [self.plan.where, where, *group]))
        return self._count(where, group, noted=False) if self.source.free or rows.decided is not None else None

    def free_means(self, groups: Sequence[tuple[Formula, ...]], summed: Measure) -> list[Any] | None:
        """The means of the values of a sum, of which nothing is said; None where they would cost something."""
        said, mean = dict(self.notes), replace(summed, kind="mean")
        found: list[Any] | None = None
        if self.source.free:
            found = self.measured(mean, groups)
        elif summed in self.from_cells:  # what was asked for the sum is kept
            found = self._from_cells(mean, groups)
        self.notes = said
        return found

    def span(self, measure: Measure, group: tuple[Formula, ...]) -> tuple[float, float] | None:
        """The least and the greatest value of a column among the rows of a group; None where there are none."""
        rows, at = (
            predicate(self.domain, all_of(self.domain, [self.plan.where, measure.where, *group])),
            measure.columns[0],
        )
        everything = range(self.schema.columns[at].regular)
        held = {c for box in rows.boxes for c in next((part.codes for part in box if part.column == at), everything)}
        codes = sorted(held & set(everything))
        low, high = code_ends(self.schema.columns[at])
        return (float(low[codes].min()), float(high[codes].max())) if codes else None

    def _by_schema(self, every: bool) -> Interval:
        """What the schema says of every row is no estimate: it is all rows or none."""
        total = self.source.total
        value, off = (total.value, total.margin(1 - self.failure)) if every else (0.0, 0.0)
        return Interval(value=max(value, 0.0), low=max(value - off, 0.0), high=max(value + off, 0.0), basis="measured")

    def _from_cells(self, measure: Measure, groups: Sequence[tuple[Formula, ...]]) -> list[Any]:
        read = {c for f in (self.plan.where, measure.where, measure.over) for c in columns_in(f)}
        read |= {c for group in groups for formula in group for c in columns_in(formula)} | set(measure.columns)
        self.from_cells.add(measure)
        columns = tuple(sorted(read))
        shape = self.domain.shape(columns)
        if math.prod(shape) > MOST_CELLS:
            names = ", ".join(self.domain.names[c] for c in columns)
            raise CannotQuery(f"{names} together have more than {MOST_CELLS:,} cells: ask about fewer columns at once")
        rows = _mask(self.plan.where, columns, shape)
        kept, over = (_mask(f, columns, shape) for f in (measure.where, measure.over))
        ranked = measure.kind == "quantile"
        if ranked:  # rows without a value have no rank
            at = measure.columns[0]
            kept = kept & _mask(literal(self.domain, at, range(self.schema.columns[at].regular)), columns, shape)
        held = [reduce(operator.and_, [_mask(f, columns, shape) for f in group], rows) for group in groups]
        wanted = rows if measure.kind == "share" else reduce(operator.or_, held, np.zeros(shape, dtype=bool))
        needed = wanted & (over | kept if measure.kind in ("share", "ratio") else kept)
        part = not (rows & kept & ~over).any()
        asked = np.ascontiguousarray(needed).ravel()
        if measure.kind == "ratio" and not self.source.cells_known(columns, asked):
            known = [self._known_rate(measure, group, part=part) for group in groups]
            if all(one is not None for one in known):
                return known
        try:
            counts = self._cells(columns, asked)
        except CannotAnswer:  # single counts may be known where cells are not
            if measure.kind not in ("ratio", "share"):
                raise
            return self._quotients(measure, groups, columns, part=part)
        values = [self._values(c, columns, shape, codes=ranked) for c in measure.columns]
        if measure.kind in ("ratio", "share"):
            if not counts.known and self.source.free:  # else more would be asked for where an answer has no bound
                return self._quotients(measure, groups, columns, part=part)
            found = [self._rate(counts, g & kept, (rows if measure.kind == "share" else g) & over) for g in held]
        else:
            found = [self._one(measure, counts, values, np.ascontiguousarray(g & kept).ravel(), shape) for g in held]
        if self._inside(measure, shape) is None and any(one.low is not None for one in found):
            for c in measure.columns:
                self._say_values(c, bins=True)
        if counts.known and not counts.lawful and any(one.low is None and one.value is not None for one in found):
            self.notes[VAGUE] = None
        return found

    def _quotients(
        self, measure: Measure, groups: Sequence[tuple[Formula, ...]], columns: tuple[int, ...], *, part: bool
    ) -> list[Interval]:
        """Rates from single counts, where cells together have no interval; the note that says so goes with it."""
        found = [self._quotient(measure, group, 1.0 if part else math.inf) for group in groups]
        if all(one.low is not None for one in found):
            self.notes.pop(without_interval(self.domain, columns), None)
        return found

    def _quotient(self, measure: Measure, group: tuple[Formula, ...], most: float) -> Interval:
        """A count over a count, where single counts have intervals and cells together have none.

        Both counts share what may go wrong. A part is no more than its whole; anything else has no bound.
        """
        within = group if measure.kind == "ratio" else ()
        asked = [[self.plan.where, measure.where, *group], [self.plan.where, measure.over, *within]]
        above, below = (
            self.source.count(predicate(self.domain, all_of(self.domain, each)), self.failure / 2) for each in asked
        )
        part = most <= 1
        if not below.value or (below.value < 0 and not part):
            return Interval(value=None, low=None, high=None, basis="unguaranteed")
        above = above.cut(0.0, math.inf)
        value = (above.value or 0.0) / max(below.value, 1e-9)
        unknown = Interval(value=min(value, most), low=None, high=None, basis="unguaranteed")
        if above.low is None or above.high is None or below.low is None or below.high is None:
            return unknown
        if below.low <= 0 and not part:
            return unknown
        low = above.low / max(below.high, 1e-9)
        high = above.high / below.low if below.low > 0 else most
        found = Interval(value=value, low=min(low, value), high=max(high, value), basis=above.basis)
        return found.cut(0.0, most)

    def _known_rate(self, measure: Measure, group: tuple[Formula, ...], *, part: bool) -> Interval | None:
        """A rate by two counts that were asked for before; None where one of them was not."""
        formulas = ([self.plan.where, one, *group] for one in (measure.where, measure.over))
        above, below = (predicate(self.domain, all_of(self.domain, each)) for each in formulas)
        return self.source.rate(above, below, self.failure, part=part)

    def _rate(self, counts: CellCounts, above: Mask, below: Mask) -> Interval:
        held = np.ascontiguousarray(below | above).ravel()
        ones = [np.ascontiguousarray(mask).ravel()[held].astype(np.float64) for mask in (above, below)]
        return cells.ratio(counts.taken(held), Values.of(ones[0]), ones[1], self.failure)

    def _one(self, measure: Measure, counts: CellCounts, values: list[Values], held: Mask, shape: Any) -> Any:
        chosen = counts.taken(held)
        taken = [one.taken(held) for one in values]
        inside = self._inside(measure, shape)
        if inside is not None:
            chosen, taken[0] = with_inside(chosen, inside, np.flatnonzero(held))
        rows = self.source.total.value if self.source.total.exact else math.inf
        every = bool(held.all()) and self.source.total.exact
        if measure.kind == "sum":
            return cells.total(chosen, taken[0], self.failure, rows if every else None, rows)
        if measure.kind == "mean":
            return cells.mean(chosen, taken[0], self.failure, rows if every else None)
        if measure.kind == "quantile":
            return self._quantile(measure, chosen, taken[0])
        if measure.kind in ("variance", "deviation"):
            found = cell_moments.variance(chosen, taken[0], self._left(measure))
            found = self._of_sample(found, counts.taken(held), rows if every else None) if measure.sample else found
            return _rooted(found) if measure.kind == "deviation" else found
        if measure.kind == "covariance":
            found = cell_moments.covariance(chosen, taken[0], taken[1], self._left(measure))
            return self._of_sample(found, chosen, rows if every else None) if measure.sample else found
        return cell_moments.correlation(chosen, taken[0], taken[1], self.failure)

    def _left(self, measure: Measure) -> float:
        """What may go wrong: of a sample the number of rows needs a little of it."""
        return self.failure * (1 - RARELY) if measure.sample else self.failure

    def _of_sample(self, found: Interval, chosen: CellCounts, known: float | None) -> Interval:
        """A variance or covariance as that of a sample, of a number of rows that is public or as noisy as the cells."""
        if known is not None:
            return of_sample(found, known, (known, known))
        count = float(chosen.measured.sum())
        off = chosen.margin(np.ones(len(chosen.counts)), RARELY * self.failure) if chosen.known else math.inf
        return of_sample(found, count, (count - off, count + off))

    def _inside(self, measure: Measure, shape: tuple[int, ...]) -> BinValues | None:
        """What is known inside bins, where the cells are those of the column alone: then all rows of a bin count."""
        within, served = self.source.within, measure.kind in ("sum", "mean", "variance", "deviation")
        return within.values(measure.columns[0]) if within is not None and served and len(shape) == 1 else None

    def _quantile(self, measure: Measure, chosen: CellCounts, codes: Values) -> Any:
        at, places = measure.columns[0], codes.middle.astype(np.int64)
        size = self.schema.columns[at].regular
        return self._in_values(at, quantile(chosen, places, size, measure.q, self.failure, column=at))

    def _in_values(self, at: int, found: QuantileCodes | None) -> Any:
        """A quantile in the values of its column."""
        if found is None:
            return Interval(value=None, low=None, high=None, basis="unguaranteed")
        within = self.source.within
        return QuantileValue.of(self.schema.columns[at], found, None if within is None else within.values(at))

    def _cells(self, columns: tuple[int, ...], needed: Mask) -> CellCounts:
        key = (*columns, hash(needed.tobytes()))
        if key not in self.known:
            self.known[key] = self.source.cells(columns, needed)
        found = self.known[key]
        if not found.known:
            self.notes[without_interval(self.domain, columns)] = None
        return found

    def _values(self, at: int, columns: tuple[int, ...], shape: tuple[int, ...], *, codes: bool) -> Values:
        """The values of a column in every cell; for a quantile its codes."""
        column = self.schema.columns[at]
        low, high = code_ends(column)
        middle, inner = (low + high) / 2, np.zeros(column.size)
        known = None if self.source.within is None else self.source.within.values(at)
        if known is not None:
            middle[: column.regular], inner[: column.regular] = known.mean, known.variance
        self._say_values(at, bins=False)
        if codes:
            low = high = middle = np.arange(column.size, dtype=np.float64)
        axes = [1] * len(shape)
        axes[columns.index(at)] = column.size
        return Values(*(np.broadcast_to(end.reshape(axes), shape).ravel() for end in (middle, low, high, inner)))


def _mask(formula: Formula, columns: tuple[int, ...], shape: tuple[int, ...]) -> Mask:
    """Which cells of some columns satisfy a formula about them."""
    if isinstance(formula, bool):
        return np.full(shape, formula)
    if isinstance(formula, Literal):
        axis = columns.index(formula.column)
        held = np.zeros(shape[axis], dtype=bool)
        held[np.asarray(formula.codes)] = True
        return np.broadcast_to(held.reshape([-1 if n == axis else 1 for n in range(len(shape))]), shape)
    parts = [_mask(part, columns, shape) for part in formula.parts]
    return reduce(operator.and_ if formula.conjunctive else operator.or_, parts)


def _rooted(found: Interval) -> Interval:
    ends = (found.value, found.low, found.high)
    value, low, high = (None if end is None else math.sqrt(max(end, 0.0)) for end in ends)
    return Interval(value=value, low=low, high=high, basis=found.basis)
