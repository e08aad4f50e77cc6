"""What a SELECT may ask elsewhere and not here: why, and the nearest thing that can be answered."""

from __future__ import annotations

from sqlglot import exp

from conspectus.queries.sensitivity import WorkloadError

from .bounded_parser import written


class CannotQuery(WorkloadError):
    """A SELECT that cannot be answered; the message says why, and what can be asked instead."""


_ONE_PERSON = "one person can move it as far as the range goes"
_NAMES: dict[str, str] = {
    "min": f"MIN is a single person's value, and {_ONE_PERSON}: ask for a low quantile, as in QUANTILE(x, 0.01)",
    "max": f"MAX is a single person's value, and {_ONE_PERSON}: ask for a high quantile, as in QUANTILE(x, 0.99)",
    "mode": "MODE would name a value by a hair's breadth: GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1 shows the count",
    "distinct": "how many different values there are hangs on single rows: GROUP BY the column shows the count of each",
    "listed": "it hands out values of single rows: ask for counts, with GROUP BY",
    "first": "it hands out the value of a single row: ask for MEDIAN or AVG",
    "join": "a release is about one table: join before it is opened (a SELECT can be a source), and release that",
    "subquery": "it asks a question inside another one: ask the inner one first, and write its answer as a number",
    "cte": "it has a WITH: ask its SELECTs one by one",
    "window": "window functions look at single rows in order: GROUP BY, and compare the groups of the result",
    "star": "rows stay with their owner: ask for aggregates, as in SELECT COUNT(*), or make synthetic rows",
    "distinct_rows": "SELECT DISTINCT lists rows: write GROUP BY with COUNT(*)",
    "set": "UNION, INTERSECT and EXCEPT put several SELECTs together: ask them one by one",
    "write": "a release cannot be changed: only a SELECT is answered",
    "several": "one SELECT is answered at a time: ask them one by one",
    "grouping": "GROUPING SETS, ROLLUP and CUBE are several questions: ask each GROUP BY by itself",
    "sample": "a sample of rows stays with the owner: make synthetic rows, or leave TABLESAMPLE out",
    "parameter": "a placeholder has no value: write the value",
    "qualify": "QUALIFY needs window functions: use HAVING, ORDER BY and LIMIT",
    "nested": "an aggregate stands inside another one: ask the inner one first",
    "product": "a product hangs on every single row: ask for SUM or AVG",
    "bits": "bits of values hang on single rows: COUNT(*) FILTER (WHERE …) counts rows",
    "shape": "this moment hangs on few far values: ask for VARIANCE, or for several quantiles",
}

_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Min: "min",
    exp.Max: "max",
    exp.ApproxDistinct: "distinct",
    exp.GroupConcat: "listed",
    exp.ArrayAgg: "listed",
    exp.AnyValue: "first",
    exp.First: "first",
    exp.Last: "first",
    exp.ArgMax: "first",
    exp.ArgMin: "first",
    exp.Window: "window",
    exp.Subquery: "subquery",
    exp.Select: "subquery",
    exp.Exists: "subquery",
    exp.Star: "star",
    exp.Placeholder: "parameter",
    exp.Parameter: "parameter",
    exp.TableSample: "sample",
}

_WORDS = {
    "mode": "mode",
    "first": "first",
    "last": "first",
    "any_value": "first",
    "arg_max": "first",
    "arg_min": "first",
    "max_by": "first",
    "min_by": "first",
    "string_agg": "listed",
    "group_concat": "listed",
    "listagg": "listed",
    "list": "listed",
    "array_agg": "listed",
    "histogram": "listed",
    "json_group_array": "listed",
    "approx_count_distinct": "distinct",
    "product": "product",
    "bit_and": "bits",
    "bit_or": "bits",
    "bit_xor": "bits",
    "bool_and": "bits",
    "bool_or": "bits",
    "skewness": "shape",
    "kurtosis": "shape",
    "entropy": "shape",
}
SERVED = "COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE, CORR and COVAR_POP are answered, by group, with FILTER"


def cannot(why: str) -> CannotQuery:
    """The refusal for one of the reasons above."""
    return CannotQuery(_NAMES[why])


def refused(node: exp.Expression) -> CannotQuery:
    """Why an expression of a SELECT cannot be answered."""
    for kind, why in _FUNCTIONS.items():
        if isinstance(node, kind):
            return cannot(why)
    name = node.name.casefold() if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) else node.key
    for word in (name, node.sql_name().casefold() if isinstance(node, exp.Func) else name):
        if word in _WORDS:
            return cannot(_WORDS[word])
    shown = " ".join(written(node).split())
    return CannotQuery(f"{shown[:60]!r} is beyond what is answered: {SERVED}")
