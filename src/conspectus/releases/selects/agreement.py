"""Numbers of one result that agree: a part is no more than its whole, and a rate is the count over the count beside it.

Each number of a SELECT is the best estimate of itself, and may come from other measurements than its neighbours: a
reader who divides one by the other, or compares them, would find a contradiction. So values are made to agree here:

- a count is no more than any count of the same line that holds all its rows, or than the rows that shares are of;
- a share is its count over the count of all rows, as a SELECT of each says them, and `ask`; so is a rate of all rows;
- a rate is the one count over the other, where the line has both;
- a sum is the mean times the number of values, where the line has that number, whether or not it has the mean;
- a sum is one that as many rows can have, of each count in the line that holds all its rows.

Counts are taken as they are printed there: whole. A mean that was not asked for is found only where it costs nothing.

Intervals stay as they are, and are widened to hold a value that was moved out of them: so each holds the truth at
least as often as it did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from conspectus.data.domain import Domain
from conspectus.queries.formulas import Formula, TooManyBoxes, all_of, predicate
from conspectus.queries.language.select_plan import Measure, Select
from conspectus.queries.query import Predicate
from conspectus.releases.cells.cell_estimates import Interval

from .select_lines import nearest

Counting = Callable[[Formula, tuple[Formula, ...]], Interval | None]
"""How many rows of a group satisfy a formula; None where asking would cost something."""

Means = Callable[[Measure], list[Any] | None]
"""The means of the values that a sum adds, group by group; None where asking would cost something."""

Span = Callable[[Measure, tuple[Formula, ...]], tuple[float, float] | None]
"""The least and the greatest value that a sum may add in a group."""


def agreed(
    plan: Select,
    domain: Domain,
    groups: Sequence[tuple[Formula, ...]],
    found: list[list[Any]],
    count: Counting,
    means: Means = lambda measure: None,
    span: Span = lambda measure, group: None,
    *,
    complete: bool = True,
) -> list[list[Any]]:
    """What was found for each measure in each group, so that it agrees within each line.

    Args:
        plan: The SELECT.
        domain: The columns of the table.
        groups: The conditions on the rows of each line.
        found: For each measure of the plan what it is in each group.
        count: What else is known of counts.
        means: What is known of means that were not asked for.
        span: Between what values lie.
        complete: Whether counts add up to all rows, so that a rate of all rows is a count over their number.
    """
    here = _Agreement(plan, domain)
    of_all = [at for at in here.of_kind["ratio"] if here.divisors[at] == predicate(domain, True) and not plan.keys]
    rates = of_all if complete else []
    if not groups or (len(plan.measures) == 1 and plan.measures[0].kind != "share" and not rates):
        return found
    wholes = {at: count(plan.measures[at].over, ()) for at in (*here.of_kind["share"], *rates)}
    beside = {at: means(plan.measures[at]) for at in here.without_mean()}
    lines = []
    for place, group in enumerate(groups):
        line = [column[place] for column in found]
        here.cap_counts(line, wholes)
        for at, whole in wholes.items():
            own = here.counted(line, at) or count(plan.measures[at].where, group)
            line[at] = _with_quotient(line[at], own, whole, most=1.0)
        here.make_rates(line)
        here.make_sums(line, {at: column[place] for at, column in beside.items() if column is not None})
        here.cap_sums(line, lambda measure: span(measure, group))  # noqa: B023 - called at once
        lines.append(line)
    return [list(column) for column in zip(*lines)]


class _Agreement:
    """What the measures of one SELECT have to do with each other, by the meaning of their conditions."""

    def __init__(self, plan: Select, domain: Domain) -> None:
        self.plan, self.domain = plan, domain
        kinds = ("count", "share", "ratio", "sum", "mean")
        self.of_kind = {kind: [at for at, one in enumerate(plan.measures) if one.kind == kind] for kind in kinds}
        self.rows = [self._meaning(one.where) for one in plan.measures]
        self.divisors = [self._meaning(one.over) for one in plan.measures]
        pairs = [(at, other) for at in self.of_kind["count"] for other in range(len(plan.measures)) if other != at]
        self.parts = [(at, o) for at, o in pairs if plan.measures[o].kind == "count" and self._holds(o, "where", at)]
        self.shared = [(at, o) for at, o in pairs if plan.measures[o].kind == "share" and self._holds(o, "over", at)]
        sums, counts = self.of_kind["sum"], self.of_kind["count"]
        self.added = [(at, whole) for at in sums for whole in counts if self._holds(whole, "where", at)]

    def counted(self, line: list[Any], at: int, *, divisor: bool = False) -> Interval | None:
        """The count in a line of the rows that a measure is about, or divides by; None where it is not asked for."""
        wanted = self.divisors[at] if divisor else self.rows[at]
        counts = (line[other] for other in self.of_kind["count"] if self.rows[other] == wanted)
        return None if wanted is None else next(counts, None)

    def cap_counts(self, line: list[Any], wholes: dict[int, Interval | None]) -> None:
        """Parts are no more than their wholes: in the line, and among all rows that a share is of."""
        values = [one.value for one in line]
        above = [(at, values[other]) for at, other in self.parts]
        above += [(at, whole.value) for at, other in self.shared if (whole := wholes[other]) is not None]
        for at, most in above:
            line[at] = _with_value(line[at], min(line[at].value, most))

    def make_rates(self, line: list[Any]) -> None:
        """A rate is a count of the line over another one."""
        for at in self.of_kind["ratio"]:
            line[at] = _with_quotient(line[at], self.counted(line, at), self.counted(line, at, divisor=True))

    def without_mean(self) -> list[int]:
        """The sums beside a count of their values whose mean was not asked for."""
        counted = {self.rows[at] for at in self.of_kind["count"]} - {None}
        return [at for at in self.of_kind["sum"] if self.rows[at] in counted and self._mean_of(at) is None]

    def make_sums(self, line: list[Any], beside: dict[int, Any]) -> None:
        """A sum is a mean times a count; or the mean is the sum over it, if that alone keeps to the intervals.

        `beside` has means that are not in the line: the sum is the same as if they were.
        """
        for at in self.of_kind["sum"]:
            count, place = self.counted(line, at), self._mean_of(at)
            mean = beside.get(at) if place is None else line[place]
            if count is None or mean is None or mean.value is None or line[at].value is None:
                continue
            rows = nearest(count.value or 0.0)
            summed = mean.value * rows
            if _inside(line[at], summed) or not rows or not _inside(mean, line[at].value / rows):
                line[at] = _with_value(line[at], summed)
            elif place is not None:
                line[place] = _with_value(mean, line[at].value / rows)

    def cap_sums(self, line: list[Any], span: Callable[[Measure], tuple[float, float] | None]) -> None:
        """A sum is one that as many rows can have as are counted in the line."""
        for at, whole in self.added:
            ends = span(self.plan.measures[at])
            if ends is None or line[at].value is None:
                continue
            rows, own = nearest(line[whole].value or 0.0), self.rows[whole] == self.rows[at]
            least, most = ends if own else (min(ends[0], 0.0), max(ends[1], 0.0))
            line[at] = _with_value(line[at], min(max(line[at].value, least * rows), most * rows))

    def _mean_of(self, at: int) -> int | None:
        """The measure that is the mean of the values that a sum adds; None where it is not asked for."""
        return next((one for one in self.of_kind["mean"] if self._same(one, at)), None)

    def _same(self, one: int, other: int) -> bool:
        """Whether two measures take the same values of the same rows."""
        columns = [self.plan.measures[at].columns for at in (one, other)]
        return self.rows[one] is not None and self.rows[one] == self.rows[other] and columns[0] == columns[1]

    def _holds(self, whole: int, what: Literal["where", "over"], at: int) -> bool:
        """Whether all rows that a measure is about are among those of another one."""
        both = all_of(self.domain, [getattr(self.plan.measures[whole], what), self.plan.measures[at].where])
        return self.rows[at] is not None and self._meaning(both) == self.rows[at]

    def _meaning(self, where: Formula) -> Predicate | None:
        """The one form of a condition; None where it has too many parts to tell."""
        try:
            return predicate(self.domain, all_of(self.domain, [self.plan.where, where]))
        except TooManyBoxes:
            return None


def _inside(one: Interval, value: float) -> bool:
    return one.low is None or one.high is None or one.low <= value <= one.high


def _with_quotient(one: Interval, above: Interval | None, below: Interval | None, most: float = math.inf) -> Interval:
    """A rate by two counts; as it is where one of them is not known, or there seem to be no rows."""
    if above is None or below is None or one.value is None or above.value is None or not below.value:
        return one
    return _with_value(one, min(above.value / below.value, most))


def _with_value(one: Interval, value: float) -> Interval:
    """Another value, in an interval that holds it."""
    if one.low is None or one.high is None:
        return replace(one, value=value)
    return replace(one, value=value, low=min(one.low, value), high=max(one.high, value))
