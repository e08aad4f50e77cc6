"""Lines of a result: HAVING, ORDER BY and what is printed of them, all after the numbers were found."""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.language.select_plan import Measure, Output, Select, ends_of
from conspectus.releases.cells.ranks import QuantileCodes
from conspectus.releases.within_bins import BinValues
from conspectus.synopses.estimate import Basis

from .query_result import QueryResult, table_of


@dataclass(frozen=True)
class Line:
    """One line of a result: the values of its keys, and what was found for each measure."""

    keys: tuple[Any, ...]
    measures: tuple[Any, ...]


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def value_of(expression: Any, line: Line) -> Any:
    """A condition or a number over one line; None where it is not known, by SQL's logic of three values."""
    what, *parts = expression
    if what == "key":
        return line.keys[parts[0]]
    if what == "measure":
        return line.measures[parts[0]].value
    if what == "value":
        return parts[0]
    if what == "rank":
        value = value_of(parts[0], line)
        return None if value is None else parts[1][value]
    if what == "round":
        value = value_of(parts[1], line)
        return None if value is None else rounded(value, parts[0], nearest)
    found = [value_of(part, line) for part in parts]
    if what in ("and", "or"):
        decisive = what == "or"
        return decisive if decisive in found else None if None in found else not decisive
    if None in found:
        return None
    return not found[0] if what == "not" else _OPERATORS[what](*found)


def nearest(value: float) -> int:
    """The nearest whole number; of two the one farther from 0, as SQL rounds."""
    whole = math.floor(abs(value) + 0.5)
    return whole if value >= 0 else -whole


def rounded(value: Any, digits: int | None, way: Callable[[float], int]) -> Any:
    """A number to some digits, by a way to round."""
    if value is None or digits is None or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    shift = 10**digits
    found = way(value * shift) / shift
    return int(found) if digits == 0 else found


def rank_of(value: Any, down: bool) -> tuple[bool, Any]:
    """What lines are sorted by: what is not known comes last."""
    if value is None:
        return True, 0
    return False, _Downward(value) if down else value


@dataclass(frozen=True)
class _Downward:
    value: Any

    def __lt__(self, other: _Downward) -> bool:
        return bool(other.value < self.value)


def number_of(output: Output, line: Line) -> Any:
    assert output.measure is not None
    return line.measures[output.measure].scaled(output.factor)


def example_of(schema: Schema, measure: Measure, factor: float, digits: int | None) -> Any:
    """A value of the type that a measure has, whether or not there is a line: a date, a whole number or another."""
    if measure.kind == "quantile":
        column = schema.columns[measure.columns[0]]
        if column.kind == "date":
            return datetime.date.min
        if column.kind == "integer" and getattr(column, "one_value_each", False) and factor == 1:
            return 0
    return 0 if digits == 0 else 0.0


@dataclass(frozen=True)
class QuantileValue:
    """A quantile in the values of its column: numbers or dates."""

    value: Any
    low: Any
    high: Any
    basis: Basis

    @classmethod
    def of(cls, column: Column, found: QuantileCodes, inside: BinValues | None) -> QuantileValue:
        """In its bin a quantile is as far in as it lies among the rows of it; of dates a whole day."""
        first, last = column.bounds(found.code)  # type: ignore[attr-defined]
        if first == last:
            value = first
        elif inside is not None:
            value = inside.quantile(found.code, found.into)
        elif column.kind == "date":
            value = first + datetime.timedelta(days=math.floor(found.into * (last - first).days))
        else:
            value = first + found.into * (last - first)
        if found.low is None or found.high is None:
            return cls(value, None, None, "unguaranteed")
        low, high = column.bounds(found.low)[0], column.bounds(found.high)[1]  # type: ignore[attr-defined]
        return cls(value, low, high, found.basis)

    def scaled(self, factor: float) -> QuantileValue:
        if factor == 1:
            return self
        value, low, high = (None if end is None else end * factor for end in (self.value, self.low, self.high))
        low, high = (low, high) if factor >= 0 else (high, low)
        return QuantileValue(value, low, high, self.basis)


def result_of(
    schema: Schema, plan: Select, lines: Sequence[Line], confidence: float, notes: tuple[str, ...]
) -> QueryResult:
    """The lines as a result: every number rounded as it is written, its interval outward."""
    names: list[str] = []
    columns: list[list[Any]] = []
    alike: list[Sequence[Any]] = []
    measures: list[tuple[str, str, str]] = []
    labels: list[str] = []
    for output in plan.outputs:
        if output.key is not None:
            names.append(output.name)
            labels.append(output.name)
            columns.append([line.keys[output.key] for line in lines])
            alike.append([value for value, _ in plan.keys[output.key].groups])
            continue
        found = [number_of(output, line) for line in lines]
        ends = (output.name, *ends_of(output.name))
        measures.append(ends)
        names += ends
        whole = plan.measures[output.measure or 0].kind == "count" and output.factor == 1
        digits = 0 if whole else output.digits
        columns.append([rounded(one.value, digits, nearest) for one in found])
        columns.append([rounded(one.low, digits, math.floor) for one in found])
        columns.append([rounded(one.high, digits, math.ceil) for one in found])
        alike += [[example_of(schema, plan.measures[output.measure or 0], output.factor, digits)]] * 3
    arrow = table_of(names, columns, alike)
    return QueryResult(arrow, tuple(labels), tuple(measures), notes, confidence)
