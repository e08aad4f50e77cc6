"""Aggregates of a SELECT: which rows they count, whose values they take."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.formulas import Formula, all_of, literal

from .from_sql import NotAPredicate, Reader
from .select_plan import Measure
from .unanswerable import CannotQuery, cannot, refused

_VARIANCES: dict[type[exp.Expression], tuple[str, bool]] = {
    exp.Variance: ("variance", True),
    exp.VariancePop: ("variance", False),
    exp.Stddev: ("deviation", True),
    exp.StddevSamp: ("deviation", True),
    exp.StddevPop: ("deviation", False),
}
_PAIRS: dict[type[exp.Expression], tuple[str, bool]] = {
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
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Filter):
            kept = self.reader.formula(node.expression.this, truth=True)
            inner = self.read(node.this)
            return replace(inner, where=self._both(inner.where, kept), over=self._both(inner.over, kept))
        if isinstance(node, exp.Count):
            return self._count(node)
        if isinstance(node, exp.CountIf):
            return Measure("count", where=self.reader.formula(node.this, truth=True))
        if isinstance(node, exp.Div):
            return self._ratio(node)
        if isinstance(node, exp.Sum | exp.Avg):
            return self._sum_or_mean(node)
        if isinstance(node, exp.Median):
            return Measure("quantile", self._ordered(node.this), q=0.5)
        if isinstance(node, exp.WithinGroup):
            return self._within_group(node)
        if isinstance(node, _QUANTILES):
            return self._quantile(node.this, node.args.get("quantile") or node.expression)
        for kinds in (_VARIANCES, _PAIRS):
            if type(node) in kinds:
                return self._moment(*kinds[type(node)], node)
        if isinstance(node, exp.Anonymous):
            return self._named(node)
        raise refused(node)

    def _named(self, node: exp.Anonymous) -> Measure:
        word, given = node.name.casefold(), node.expressions
        if word in _QUANTILE_WORDS and len(given) == 2:
            return self._quantile(*given)
        if word in _WORDS:
            return self._moment(*_WORDS[word], node)
        if word in ("count_if", "countif") and len(given) == 1:
            return Measure("count", where=self.reader.formula(given[0], truth=True))
        if word in ("share", "rate") and len(given) <= 1:
            if not given or isinstance(given[0], exp.Star):
                return Measure("share")
            return Measure("ratio", where=self.reader.formula(given[0], truth=True))
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

    def _ratio(self, node: exp.Div) -> Measure:
        """Counts over counts: a conditional rate, or the share of a group in all of them."""
        below = node.expression
        while isinstance(below, exp.Paren | exp.Cast):
            below = below.this
        above = node.this
        while isinstance(above, exp.Paren | exp.Cast):
            above = above.this
        if isinstance(above, exp.Mul):
            above = next((p for p in (above.this, above.expression) if not isinstance(p, exp.Literal)), above)
        if isinstance(below, exp.Window):
            summed = below.this
            if (
                isinstance(summed, exp.Sum)
                and isinstance(summed.this, exp.Count)
                and not below.args.get("partition_by")
            ):
                first = self.read(above)
                if first == Measure("count"):
                    return Measure("share")
            raise cannot("window")
        if isinstance(below, exp.Nullif):
            below = below.this
        first, second = self.read(above), self.read(below)
        if first.kind == "count" and second.kind == "count":
            return Measure("ratio", where=first.where, over=second.where)
        if first.kind == "sum" and second.kind == "count" and second.where in (True, first.where):
            at = first.columns[0]
            present = self._present(at, self.schema.columns[at])
            if self._both(second.where, present) == self._both(first.where, present):
                return replace(first, kind="mean")
        raise CannotQuery("only counts are divided by counts: ask for AVG, or for both numbers by themselves")

    def _sum_or_mean(self, node: exp.Sum | exp.Avg) -> Measure:
        inner = node.this
        if inner.find(exp.AggFunc):
            raise cannot("nested")
        mean = isinstance(node, exp.Avg)
        while isinstance(inner, exp.Paren | exp.Cast):
            inner = inner.this
        if isinstance(inner, exp.Case):
            where = self._cases(inner, zeros=True)
            whole = inner.args.get("default") is not None
            if mean and not whole:
                raise CannotQuery("an average of a CASE without ELSE leaves rows out: write ELSE 0, or use FILTER")
            return Measure("ratio" if mean else "count", where=where)
        if isinstance(inner, exp.Distinct):
            raise cannot("distinct")
        if not isinstance(inner, exp.Column):
            try:
                return Measure("ratio" if mean else "count", where=self.reader.formula(inner, truth=True))
            except NotAPredicate:
                raise CannotQuery(
                    "sums and averages are of columns or conditions, and arithmetic inside them is not served: "
                    "ask for each column by itself"
                ) from None
        at, column = self.reader.column(inner)
        if column.kind == "boolean":
            truth = literal(self.domain, at, column.codes_where("=", True))
            return Measure("ratio" if mean else "count", where=truth, over=self._present(at, column))
        return Measure("mean" if mean else "sum", (self._numeric(inner),), self._present(at, column))

    def _within_group(self, node: exp.WithinGroup) -> Measure:
        order = node.expression.expressions
        if not isinstance(node.this, _QUANTILES) or len(order) != 1:
            raise refused(node.this)
        column, down = order[0].this, bool(order[0].args.get("desc"))
        found = self._quantile(column, node.this.this)
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

    def _numeric(self, node: exp.Expression) -> int:
        if node.find(exp.AggFunc):
            raise cannot("nested")
        at, column = self.reader.column(node)
        native = getattr(column, "arrow_type", None)
        if column.kind in ("integer", "number", "boolean"):
            return at
        if column.kind == "categorical" and str(native) in ("int64", "double"):
            return at
        cure = "MEDIAN and QUANTILE are answered" if column.kind == "date" else "GROUP BY it, and count"
        raise CannotQuery(f'"{column.name}" is of type {column.kind} and has no numbers to add: {cure}')

    def _ordered(self, node: exp.Expression) -> tuple[int]:
        if node.find(exp.AggFunc):
            raise cannot("nested")
        at, column = self.reader.column(node)
        if not column.ordered:
            raise CannotQuery(f'"{column.name}" is of type {column.kind}, without an order: GROUP BY it, and count')
        return (at,)

    def _present(self, at: int, column: Column) -> Formula:
        null = set(column.null_codes())
        return True if not null else literal(self.domain, at, [c for c in range(column.size) if c not in null])

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
        zero = default is None or isinstance(default, exp.Null)
        zero = zero or (
            zeros and isinstance(default, exp.Literal) and not default.is_string and float(default.name) == 0
        )
        if not plain or not zero:
            raise CannotQuery("inside an aggregate a CASE counts rows: write CASE WHEN … THEN 1 ELSE 0 END")
        return self.reader.formula(branches[0].this, truth=True)

    def _both(self, first: Formula, second: Formula) -> Formula:
        return all_of(self.domain, [first, second])


def _is_number(node: exp.Expression, number: float) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) == number


def label_of(node: exp.Expression) -> str:
    """What a column of the result is called where the SELECT does not say."""
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count"
    text = re.sub(r"\W+", "_", node.sql("duckdb").casefold()).strip("_")
    return text[:40] or "number"
