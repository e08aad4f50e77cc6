"""The parts of SQL that a SELECT is made of: a closed list of kinds of expressions, and of what each may carry.

A parser knows far more SQL than is answered, and hangs it on the same expressions: a percentage on a LIMIT, a frame on
a window, an order inside an aggregate. What a reader does not look at would be left out without a word, and another
question answered. So whatever is not listed here is refused, once all else was read.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from sqlglot import exp

from .bounded_parser import written
from .unanswerable import CannotQuery, refused

_TWO = frozenset({"this", "expression"})
_ONE = frozenset({"this"})
_UNDERSTOOD: dict[type[exp.Expression], AbstractSet[str]] = {
    exp.Select: {"expressions", "from", "from_", "where", "group", "having", "order", "limit", "offset"},
    **dict.fromkeys((exp.From, exp.Where, exp.Having, exp.Column, exp.Paren, exp.Boolean, exp.Var), _ONE),
    **dict.fromkeys((exp.TableAlias, exp.Not, exp.Neg, exp.Year, exp.Floor), _ONE),
    **dict.fromkeys((exp.CountIf, exp.Sum, exp.Avg, exp.Median, exp.Variance, exp.VariancePop), _ONE),
    **dict.fromkeys((exp.Stddev, exp.StddevSamp, exp.StddevPop), _ONE),
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is), _TWO),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Nullif, exp.Extract), _TWO),
    **dict.fromkeys((exp.Filter, exp.WithinGroup, exp.Corr, exp.CovarPop, exp.CovarSamp), _TWO),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), _TWO),
    **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), frozenset({"this", "quantile"})),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), frozenset({"this", "unit"})),
    exp.Group: {"expressions", "all"},
    exp.Order: {"expressions"},
    **dict.fromkeys((exp.Limit, exp.Offset), frozenset({"expression"})),
    **dict.fromkeys((exp.Star, exp.Null), frozenset()),
    exp.Table: {"this", "alias"},
    exp.Alias: {"this", "alias"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Ordered: {"this", "desc"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Case: {"ifs", "default"},
    exp.If: {"this", "true"},
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"},
    exp.DataType: {"this", "expressions"},
    exp.DataTypeParam: {"this"},
    exp.Count: {"this", "big_int"},
    exp.Round: {"this", "decimals"},
    exp.Window: {"this", "over"},
    exp.Anonymous: {"this", "expressions"},
}
_CURES = {
    "nulls_first": "NULLS FIRST is beyond what is answered: what is not known comes last, so leave it out",
    "limit_options": "LIMIT takes a number of lines, and no percentage and no ties: write the number",
    "db": "FROM names the table alone: leave out what stands before the dot",
    "catalog": "FROM names the table alone: leave out what stands before the dot",
}


def check_understood(tree: exp.Expression) -> None:
    """Refuse a SELECT of which some part is not on the list.

    Raises:
        CannotQuery: A part is of another kind, or carries something that is not read.
    """
    for node in tree.walk():
        known = _UNDERSTOOD.get(type(node))
        if known is None:
            raise refused(node)
        for name, value in node.args.items():
            if _is_set(value) and name not in known:
                where = " ".join(written(node).split())[:60]
                cure = _CURES.get(name, f"{name.replace('_', ' ')!r} of {where!r} is not read: leave it out")
                raise CannotQuery(cure)


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != []
