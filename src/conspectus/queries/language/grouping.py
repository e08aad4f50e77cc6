"""What a GROUP BY groups by: columns and their bins, coarser bins, conditions, and CASE."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.builders.arguments import check_listable
from conspectus.queries.formulas import Formula, all_of, any_of, literal, opposite

from .bounded_parser import written
from .casts import check_casts, uncast
from .from_sql import NotAPredicate, Reader, bare, plain_number
from .select_plan import Key
from .unanswerable import CannotQuery, refused

_PERIODS = ("year", "quarter", "month")
_MOST_BRANCHES = 1_000


def named_key(schema: Schema, reader: Reader, node: exp.Expression) -> str:
    """The name of a column as the schema has it."""
    return schema.domain.names[reader.column(node)[0]]


def key_of(schema: Schema, reader: Reader, node: exp.Expression, name: str = "") -> Key:
    """The groups of one expression of a GROUP BY.

    Args:
        schema: The declaration of the table.
        reader: Reads conditions.
        node: The expression.
        name: What the result calls it, where the SELECT says so.

    Raises:
        CannotQuery: It is none that rows are grouped by.
    """
    node = bare(node)
    if node.find(exp.AggFunc):
        raise CannotQuery("rows are grouped by columns, and an aggregate is known of groups only: use HAVING for it")
    if isinstance(node, exp.Column):
        at, column = reader.column(node)
        check_listable(schema, (at,))
        groups = [(column.own_value(code), literal(schema.domain, at, [code])) for code in range(column.size)]
        return Key(name or column.name, tuple(groups))
    if isinstance(node, exp.Case):
        return _cases(schema, reader, node, name or "case")
    coarser = _coarser(node)
    if coarser is not None:
        inner, label, said = coarser
        at, column = reader.column(inner)
        return Key(name or said, _binned(schema, at, column, label, node))
    try:
        true, false = reader.truths(node)
    except NotAPredicate:
        raise refused(node) from None
    # Widened to whole bins both may hold in one: a row is in one group, that of the condition as it is written.
    false = all_of(schema.domain, [false, opposite(schema.domain, true)])
    neither = _rest(schema, [true, false])
    groups = [(value, rows) for value, rows in ((True, true), (False, false), (None, neither)) if rows is not False]
    return Key(name or " ".join(written(node).casefold().split())[:40], tuple(groups))


def _cases(schema: Schema, reader: Reader, node: exp.Case, name: str) -> Key:
    """The groups of a CASE: the first WHEN that is true decides; a condition that is not known is not true."""
    if node.this is not None:
        raise CannotQuery("write CASE WHEN column = value THEN …: a CASE with a column in front is not served")
    found: dict[Any, list[Formula]] = {}
    rest: Formula = True
    if len(node.args.get("ifs") or []) > _MOST_BRANCHES:
        raise CannotQuery(f"a CASE has more than {_MOST_BRANCHES:,} WHENs: write fewer, with IN and OR")
    _check_alike([branch.args["true"] for branch in node.args.get("ifs") or []] + [node.args.get("default")])
    for branch in node.args.get("ifs") or []:
        here = reader.rows(branch.this)
        value = reader.constant(branch.args["true"])
        found.setdefault(value, []).append(all_of(schema.domain, [here, rest]))
        rest = all_of(schema.domain, [rest, opposite(schema.domain, here)])
    default = node.args.get("default")
    value = None if default is None else reader.constant(default)
    found.setdefault(value, []).append(rest)
    groups = [(value, any_of(schema.domain, parts)) for value, parts in found.items()]
    return Key(name, tuple((value, formula) for value, formula in groups if formula is not False))


def _check_alike(values: list[exp.Expression | None]) -> None:
    """Refuse values of several types, which a database would turn into one."""
    kinds = {
        "text" if isinstance(value, exp.Literal) and value.is_string else type(bare(value, exp.Neg)).__name__
        for value in map(bare, values)
        if value is not None and not isinstance(value, exp.Null)
    }
    if len(kinds) > 1 or "Cast" in kinds:
        raise CannotQuery("the values of a CASE are all texts, all numbers or all truths: write them alike")
    # A database tells decimals apart that are one float.
    numbers = (bare(value, exp.Neg) for value in values if value is not None)
    digits = {number.name for number in numbers if plain_number(number) is not None}
    with suppress(InvalidOperation):
        if len({Decimal(text) for text in digits}) > len({float(text) for text in digits}):
            raise CannotQuery("two numbers of a CASE are too close to be told apart: write them with fewer digits")


def _rest(schema: Schema, formulas: list[Formula]) -> Formula:
    """The rows on which none of some formulas is true."""
    return all_of(schema.domain, [opposite(schema.domain, formula) for formula in formulas])


Label = Callable[[Any], Any]


def _coarser(node: exp.Expression) -> tuple[exp.Expression, Label, str] | None:
    """The column, the value that a group of its values has, and a name, of an expression that makes coarser bins."""
    if isinstance(node, exp.Mul):
        for part, width in ((node.this, node.expression), (node.expression, node.this)):
            inner = _floored(part)
            if inner is not None and (size := _number(width)) == inner[1] and size is not None:
                return inner[0], _times(inner[2], size), "bin"
    if (inner := _floored(node)) is not None:
        return inner[0], inner[2], "bin"
    if isinstance(node, exp.Anonymous) and node.name.casefold() == "bin" and len(node.expressions) == 2:
        size = _number(node.expressions[1])
        if size:
            return node.expressions[0], lambda value: _whole(math.floor(value / size) * size), "bin"
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        unit = node.text("unit").casefold()
        if unit in _PERIODS:
            return node.this, lambda day: _start(day, unit), unit
    if isinstance(node, exp.Year):
        return node.this, lambda day: day.year, "year"
    if isinstance(node, exp.Extract) and node.name.casefold() == "year":
        return node.expression, lambda day: day.year, "year"
    return None


def _times(label: Label, size: float) -> Label:
    return lambda value: _whole(label(value) * size)


def _floored(node: exp.Expression) -> tuple[exp.Expression, float, Label] | None:
    """The column, the number and the value of a group of FLOOR(column / number), or of column // number."""
    node, casts = uncast(node)
    if isinstance(node, exp.Floor):
        inner = bare(node.this)
        if isinstance(inner, exp.Div) and (size := _number(inner.expression)):
            check_casts(casts, whole=True)
            return inner.this, size, lambda value: math.floor(value / size)
    # Of a number with a point or an exponent // is a division of floats: 3 // 4.0 is 0.75.
    if isinstance(node, exp.IntDiv) and (size := _number(node.expression)) and bare(node.expression).name.isdecimal():
        check_casts(casts, whole=True)
        return node.this, size, lambda value: _toward_zero(value, size)
    return None


def _toward_zero(value: Any, size: float) -> int:
    """What // is for whole numbers; it is another thing for others."""
    if not isinstance(value, int) or not float(size).is_integer():
        raise TypeError("// is of whole numbers")
    whole = abs(value) // int(size)
    return whole if value >= 0 else -whole


def _binned(
    schema: Schema, at: int, column: Column, label: Label, node: exp.Expression
) -> tuple[tuple[Any, Formula], ...]:
    """The groups of coarser bins; refused where one of them would cut a bin of the schema."""
    if not column.ordered:
        raise CannotQuery(f'"{column.name}" is of type {column.kind}, without an order: group by the column itself')
    found: dict[Any, list[int]] = {}
    for code in range(column.regular):
        low, high = column.bounds(code)  # type: ignore[attr-defined]
        if column.kind == "number" and high != low:
            high = math.nextafter(high, low)
        try:
            ends = label(low), label(high)
        except (AttributeError, TypeError):
            raise refused(node) from None
        if ends[0] != ends[1]:
            raise CannotQuery(
                f'{written(node)!r} cuts the bin {column.label(code)} of "{column.name}": group by the column '
                "itself, or by bins that its own fit into"
            )
        found.setdefault(ends[0], []).append(code)
    groups = [(value, literal(schema.domain, at, codes)) for value, codes in found.items()]
    if column.missing_code is not None:
        groups.append((None, literal(schema.domain, at, [column.missing_code])))
    return tuple(groups)


def _start(day: datetime.date, unit: str) -> datetime.date:
    month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1, "month": day.month}[unit]
    return datetime.date(day.year, month, 1)


def _number(node: exp.Expression) -> float | None:
    number = plain_number(node)
    return number if number is not None and 0 < number < math.inf else None


def _whole(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number
