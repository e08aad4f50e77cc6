"""Numbers of a SELECT: an aggregate or a ratio of two of them, with the factor, the casts and the rounding around it.

Nothing that stands around an aggregate is passed over. A factor is kept, a cast has to keep the number, and rounding is
the last thing that is done: a number that was rounded is not multiplied or divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sqlglot import exp

from conspectus.queries.formulas import Formula, all_of, predicate

from .casts import check_casts
from .from_sql import bare, plain_number
from .measures import MeasureReader
from .select_plan import Measure
from .unanswerable import CannotQuery, cannot, refused

MOST_DIGITS = 15


@dataclass(frozen=True)
class Scaled:
    """A measure times a factor, perhaps rounded, and the expression inside it that it is named after."""

    measure: Measure
    named: exp.Expression
    factor: float = 1.0
    digits: int | None = None
    whole: bool = False


class NumberReader:
    """Reads numbers over the columns of one schema."""

    def __init__(self, measured: MeasureReader) -> None:
        self.measured = measured
        self.schema, self.domain = measured.schema, measured.schema.domain

    def read(self, node: exp.Expression) -> Scaled:
        """The number that an expression asks for.

        Raises:
            CannotQuery: It is none that can be answered.
        """
        node = bare(node)
        if isinstance(node, exp.Round):
            return self._rounded(node)
        if isinstance(node, exp.Cast):
            inner = self._plain(node.this, "casts")
            check_casts([node], whole=inner.whole or inner.digits == 0)
            return inner
        if isinstance(node, exp.Neg):
            return self._times(node.this, -1.0)
        if isinstance(node, exp.Mul):
            for constant, other in ((node.this, node.expression), (node.expression, node.this)):
                if (number := factor_of(constant)) is not None:
                    return self._times(other, number)
            raise CannotQuery("a number is multiplied by a constant alone: ask for both numbers by themselves")
        if isinstance(node, exp.Div):
            if (number := factor_of(node.expression)) is not None:
                if not number:
                    raise CannotQuery("this divides by 0: divide by another number")
                return self._times(node.this, 1.0, number)
            return self._ratio(node)
        measure = self.measured.read(node)
        return Scaled(measure, node, whole=self._whole(measure))

    def _whole(self, measure: Measure) -> bool:
        """Whether a measure is a whole number in every table."""
        if measure.kind == "sum":
            return self.schema.columns[measure.columns[0]].kind == "integer"
        return measure.kind == "count"

    def _plain(self, node: exp.Expression, what: str) -> Scaled:
        """A number, refused where it is a date."""
        found = self.read(node)
        if found.measure.kind == "quantile" and self.schema.columns[found.measure.columns[0]].kind == "date":
            raise CannotQuery(f"a quantile of dates is a date, and no number for {what}: ask for it by itself")
        return found

    def _rounded(self, node: exp.Round) -> Scaled:
        found = self._plain(node.this, "ROUND")
        decimals = node.args.get("decimals")
        if decimals is not None and not (isinstance(decimals, exp.Literal) and decimals.name.isdecimal()):
            raise refused(node)
        digits = 0 if decimals is None else int(decimals.name[:9])
        if found.digits is not None or digits > MOST_DIGITS:
            raise CannotQuery(f"a number is rounded once, to at most {MOST_DIGITS} digits: write one ROUND around it")
        return replace(found, digits=digits)

    def _unrounded(self, node: exp.Expression) -> Scaled:
        found = self._plain(node, "arithmetic")
        if found.digits is not None:
            raise CannotQuery("what is computed with a rounded number is not answered: put ROUND around all of it")
        return found

    def _times(self, node: exp.Expression, number: float, divisor: float = 1.0) -> Scaled:
        found = self._unrounded(node)
        whole = found.whole and number.is_integer() and divisor == 1
        return replace(found, factor=_finite(found.factor * number / divisor), whole=whole)

    def _ratio(self, node: exp.Div) -> Scaled:
        """A count over a count, a sum over the count of its values, or the share of a group in all of them."""
        above, divisor = self._unrounded(node.this), _divisor(node.expression)
        if isinstance(divisor, exp.Window):
            if above.measure != Measure("count") or not self._all_rows(divisor):
                raise cannot("window")
            return replace(above, measure=Measure("share"), named=node, whole=False)
        below = self._unrounded(divisor)
        if below.factor == 0:
            raise CannotQuery("this divides by 0: divide by another number")
        named = exp.Div(this=above.named.copy(), expression=below.named.copy())
        measure = self._quotient(above.measure, below.measure)
        return Scaled(measure, named, _finite(above.factor / below.factor))

    def _all_rows(self, window: exp.Window) -> bool:
        """Whether a window is SUM(COUNT(*)) OVER (): nothing but the number of all rows."""
        plain = {name for name, value in window.args.items() if value} <= {"this", "over"}
        total = window.this
        counted = bare(total.this) if isinstance(total, exp.Sum) else None
        return plain and isinstance(counted, exp.Count) and self.measured.read(counted) == Measure("count")

    def _quotient(self, first: Measure, second: Measure) -> Measure:
        if first.kind == "count" and second.kind == "count":
            return Measure("ratio", where=first.where, over=second.where)
        if first.kind == "sum" and second.kind == "count":
            if self._same(first.where, second.where):
                return replace(first, kind="mean")
            name = self.domain.names[first.columns[0]]
            raise CannotQuery(
                f'SUM("{name}") is divided by a count of other rows than those that have a value: divide by '
                f'COUNT("{name}") with the same FILTER, which is AVG("{name}"), or ask for both numbers by themselves'
            )
        raise CannotQuery("only counts are divided by counts: ask for AVG, or for both numbers by themselves")

    def _same(self, first: Formula, second: Formula) -> bool:
        """Whether two formulas hold on the same rows."""
        one, other = (predicate(self.domain, all_of(self.domain, [formula])) for formula in (first, second))
        return one == other


def factor_of(node: exp.Expression) -> float | None:
    """A constant number that may stand before an aggregate; None for anything else.

    Raises:
        CannotQuery: It is too large for a number.
    """
    node, sign = bare(node), 1.0
    if isinstance(node, exp.Neg):
        node, sign = bare(node.this), -1.0
    number = plain_number(node)
    return None if number is None else _finite(sign * number)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise CannotQuery("a constant is too large for a number: write a smaller one")
    return number


def _divisor(node: exp.Expression) -> exp.Expression:
    """What is divided by: a number over 0 is not known anyway, so that NULLIF(…, 0) says nothing new."""
    node = bare(node)
    while isinstance(node, exp.Cast):
        if not isinstance(bare(node.this), exp.Window | exp.Nullif):
            return node
        check_casts([node], whole=True)
        node = bare(node.this)
    if isinstance(node, exp.Nullif):
        if factor_of(node.expression) != 0:
            raise CannotQuery("NULLIF is understood around what is divided by, as in NULLIF(COUNT(*), 0)")
        return bare(node.this)
    return node
