"""Numbers of one result that agree: a part is no more than its whole, and a rate is the count over the count beside it.

Each number of a SELECT is the best estimate of itself, and may come from other measurements than its neighbours: a
reader who divides one by the other, or compares them, would find a contradiction. So values are made to agree here:

- a count is no more than any count of the same line that holds all its rows, or than the rows that shares are of;
- a share is its count over the count of all rows, as a SELECT of each says them;
- a rate is the one count over the other, where the line has both;
- a sum is the mean times the number of values, where the line has all three.

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
from conspectus.queries.language.select_plan import Select
from conspectus.queries.query import Predicate
from conspectus.releases.cells.cell_estimates import Interval

Counting = Callable[[Formula, tuple[Formula, ...]], Interval | None]
"""How many rows of a group satisfy a formula; None where asking would cost something."""


def agreed(
    plan: Select, domain: Domain, groups: Sequence[tuple[Formula, ...]], found: list[list[Any]], count: Counting
) -> list[list[Any]]:
    """What was found for each measure in each group, so that it agrees within each line.

    Args:
        plan: The SELECT.
        domain: The columns of the table.
        groups: The conditions on the rows of each line.
        found: For each measure of the plan what it is in each group.
        count: What else is known of counts.
    """
    if not groups or (len(plan.measures) == 1 and plan.measures[0].kind != "share"):
        return found
    here = _Agreement(plan, domain)
    wholes = {at: count(plan.measures[at].over, ()) for at in here.of_kind["share"]}
    lines = []
    for place, group in enumerate(groups):
        line = [column[place] for column in found]
        here.cap_counts(line, wholes)
        for at, whole in wholes.items():
            own = here.counted(line, at) or count(plan.measures[at].where, group)
            line[at] = _with_quotient(line[at], own, whole, most=1.0)
        here.make_rates(line)
        here.make_sums(line)
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

    def make_sums(self, line: list[Any]) -> None:
        """A sum is a mean times a count; or the mean is the sum over it, if that alone keeps to the intervals."""
        for at in self.of_kind["sum"]:
            count, mean = (
                self.counted(line, at),
                next((one for one in self.of_kind["mean"] if self._same(one, at)), None),
            )
            if mean is None or count is None or line[mean].value is None:
                continue
            rows = count.value or 0.0
            summed = line[mean].value * rows
            if not _inside(line[at], summed) and rows and _inside(line[mean], line[at].value / rows):
                line[mean] = _with_value(line[mean], line[at].value / rows)
            else:
                line[at] = _with_value(line[at], summed)

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
