"""Aggregates of a SELECT: which rows they count, whose values they take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from conspectus.data.code_sets import complement
from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.formulas import Formula, all_of, any_of, literal

from .bounded_parser import written
from .casts import check_casts, uncast
from .from_sql import NotAPredicate, Reader, bare, plain_number
from .select_plan import Measure, MeasureKind
from .unanswerable import CannotQuery, cannot, refused

_MOMENTS: dict[type[exp.Expression], tuple[str, bool]] = {
    exp.Variance: ("variance", True),
    exp.VariancePop: ("variance", False),
    exp.Stddev: ("deviation", True),
    exp.StddevSamp: ("deviation", True),
    exp.StddevPop: ("deviation", False),
    exp.Corr: ("correlation", False),
    exp.CovarPop: ("covariance", False),
    exp.CovarSamp: ("covariance", True),
}
_WORDS: dict[str, tuple[str, bool]] = {
    "var": ("variance", True),
    "stddev": ("deviation", True),
    "std": ("deviation", True),
    "covar": ("covariance", False),
    "cov": ("covariance", False),
    "covariance": ("covariance", False),
    "correlation": ("correlation", False),
}
_QUANTILES = (exp.Quantile, exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile)
_QUANTILE_WORDS = ("quantile", "percentile", "quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc")


class MeasureReader:
    """Reads aggregates over the columns of one schema."""

    def __init__(self, schema: Schema, reader: Reader) -> None:
        self.schema, self.domain, self.reader = schema, schema.domain, reader

    def read(self, node: exp.Expression) -> Measure:
        """The measure that an aggregate asks for.

        Raises:
            CannotQuery: It is none that can be answered.
        """
        node = bare(node)
        for kind, read in _READERS.items():
            if isinstance(node, kind):
                return read(self, node)
        if type(node) in _MOMENTS:
            return self._moment(*_MOMENTS[type(node)], node)
        raise refused(node)

    def _filtered(self, node: exp.Filter) -> Measure:
        kept = self.reader.rows(node.expression.this)
        inner = self.read(node.this)
        return replace(inner, where=self._both(inner.where, kept), over=self._both(inner.over, kept))

    def _named(self, node: exp.Anonymous) -> Measure:
        word, given = node.name.casefold(), node.expressions
        if word in _QUANTILE_WORDS and len(given) == 2:
            return self._quantile(*given)
        if word in _WORDS:
            return self._moment(*_WORDS[word], node)
        if word in ("count_if", "countif") and len(given) == 1:
            return Measure("count", where=self.reader.rows(given[0]))
        if word in ("share", "rate") and len(given) <= 1:
            if not given or isinstance(given[0], exp.Star):
                return Measure("share")
            return Measure("ratio", where=self.reader.rows(given[0]))
        raise refused(node)

    def _count(self, node: exp.Count) -> Measure:
        inner = node.this
        if isinstance(inner, exp.Star) or inner is None or isinstance(inner, exp.Literal):
            return Measure("count")
        if isinstance(inner, exp.Distinct):
            raise cannot("distinct")
        if isinstance(inner, exp.Case):
            return Measure("count", where=self._cases(inner, zeros=False))
        at, column = self.reader.column(inner)
        return Measure("count", where=self._present(at, column))

    def _sum_or_mean(self, node: exp.Sum | exp.Avg) -> Measure:
        inner = node.this
        if inner.find(exp.AggFunc):
            raise cannot("nested")
        mean = isinstance(node, exp.Avg)
        of_rows: MeasureKind = "ratio" if mean else "count"
        inner, casts = uncast(inner)
        if isinstance(inner, exp.Case):
            check_casts(casts, whole=True)
            where = self._cases(inner, zeros=True)
            if mean and not _zero(inner.args.get("default")):
                raise CannotQuery("an average of a CASE without ELSE leaves rows out: write ELSE 0, or use FILTER")
            return Measure(of_rows, where=where)
        if isinstance(inner, exp.Distinct):
            raise cannot("distinct")
        if not isinstance(inner, exp.Column):
            try:
                truths = self.reader.truths(inner)
            except NotAPredicate:
                raise CannotQuery(
                    "sums and averages are of columns or conditions, and arithmetic inside them is not served: "
                    "ask for each column by itself"
                ) from None
            check_casts(casts, whole=True)
            # a condition that is not known is left out, as any other missing value is
            return Measure(of_rows, where=truths[0], over=any_of(self.domain, truths) if mean else True)
        at, column = self.reader.column(inner)
        if column.kind == "boolean":
            check_casts(casts, whole=True)
            truth = literal(self.domain, at, column.codes_where("=", True))
            return Measure(of_rows, where=truth, over=self._present(at, column) if mean else True)
        return Measure("mean" if mean else "sum", (self._numeric(node.this),), self._present(at, column))

    def _within_group(self, node: exp.WithinGroup) -> Measure:
        order = node.expression.expressions
        called = node.this
        second = called.args.get("quantile") or called.args.get("expression")
        if not isinstance(called, _QUANTILES) or len(order) != 1 or second is not None:
            raise refused(called)
        column, down = order[0].this, bool(order[0].args.get("desc"))
        found = self._quantile(column, called.this)
        return replace(found, q=1 - found.q) if down else found

    def _quantile(self, column: exp.Expression, q: exp.Expression | None) -> Measure:
        share = None if q is None else self.reader.constant(q)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise CannotQuery("a quantile takes a column and a share between 0 and 1, as in QUANTILE(age, 0.9)")
        if share in (0, 1):
            raise cannot("max" if share else "min")
        return Measure("quantile", self._ordered(column), q=float(share))

    def _moment(self, kind: str, sample: bool, node: exp.Expression) -> Measure:
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.args.get("expression")]
        columns = [one for one in given if one is not None]
        wanted = 2 if kind in ("covariance", "correlation") else 1
        if len(columns) != wanted:
            raise CannotQuery(f"{label_of(node).upper()} takes {wanted} column{'s' if wanted > 1 else ''}")
        places = tuple(self._numeric(column) for column in columns)
        present = [self._present(at, self.schema.columns[at]) for at in places]
        return Measure(kind, places, all_of(self.domain, present), sample=sample)  # type: ignore[arg-type]

    def _column(self, node: exp.Expression) -> tuple[int, Column]:
        if node.find(exp.AggFunc):
            raise cannot("nested")
        return self.reader.column(node)

    def _numeric(self, node: exp.Expression) -> int:
        inner, casts = uncast(node)
        at, column = self._column(inner)
        kind = str(getattr(column, "arrow_type", None)) if column.kind == "categorical" else column.kind
        if kind in ("int64", "double", "integer", "number", "boolean"):
            check_casts(casts, whole=kind in ("int64", "integer", "boolean"))
            return at
        cure = "MEDIAN and QUANTILE are answered" if column.kind == "date" else "GROUP BY it, and count"
        raise CannotQuery(f'"{column.name}" is of type {column.kind} and has no numbers to add: {cure}')

    def _ordered(self, node: exp.Expression) -> tuple[int]:
        at, column = self._column(node)
        if not column.ordered:
            raise CannotQuery(f'"{column.name}" is of type {column.kind}, without an order: GROUP BY it, and count')
        return (at,)

    def _present(self, at: int, column: Column) -> Formula:
        return literal(self.domain, at, complement(column.null_codes(), column.size))

    def _cases(self, case: exp.Case, *, zeros: bool) -> Formula:
        """The rows on which a CASE of ones and zeros, or of something and nothing, counts."""
        branches = case.args.get("ifs") or []
        default = case.args.get("default")
        if case.this is not None or len(branches) != 1:
            raise CannotQuery("inside an aggregate a CASE has one WHEN: write one aggregate for each, with FILTER")
        one = branches[0].args["true"]
        plain = isinstance(one, exp.Literal) and (
            not zeros or float(one.name or 0) == 1 if not one.is_string else not zeros
        )
        zero = default is None or isinstance(default, exp.Null) or (zeros and _zero(default))
        if not plain or not zero:
            raise CannotQuery("inside an aggregate a CASE counts rows: write CASE WHEN … THEN 1 ELSE 0 END")
        return self.reader.rows(branches[0].this)

    def _both(self, first: Formula, second: Formula) -> Formula:
        return all_of(self.domain, [first, second])


_READERS: dict[type[exp.Expression], Callable[[MeasureReader, Any], Measure]] = {
    exp.Filter: MeasureReader._filtered,
    exp.Count: MeasureReader._count,
    exp.CountIf: lambda here, node: Measure("count", where=here.reader.rows(node.this)),
    exp.Sum: MeasureReader._sum_or_mean,
    exp.Avg: MeasureReader._sum_or_mean,
    exp.Median: lambda here, node: Measure("quantile", here._ordered(node.this), q=0.5),
    exp.WithinGroup: MeasureReader._within_group,
    **dict.fromkeys(
        _QUANTILES, lambda here, node: here._quantile(node.this, node.args.get("quantile") or node.expression)
    ),
    exp.Anonymous: MeasureReader._named,
}
"""How each kind of aggregate is read."""


def _zero(node: exp.Expression | None) -> bool:
    return node is not None and plain_number(node) == 0


def is_aggregate(node: exp.Expression) -> bool:
    """Whether an expression is about all rows of a group, and not what rows are grouped by."""
    named = (one for one in node.find_all(exp.Anonymous) if one.name.casefold() != "bin")
    return node.find(exp.AggFunc, exp.Window, exp.Filter) is not None or next(named, None) is not None


def label_of(node: exp.Expression) -> str:
    """What a column of the result is called where the SELECT does not say."""
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count"
    text = re.sub(r"\W+", "_", written(node).casefold()).strip("_")
    return text[:40] or "number"
