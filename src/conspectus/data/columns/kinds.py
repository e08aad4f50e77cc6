"""The kinds of column that a schema may declare, and the reading of one declaration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from conspectus.data.records.record import Record
from conspectus.suggestions import closest, did_you_mean

from .column import MOST_CODES, Column, ComparisonError, CutsBin, NotOrdered, SchemaError, UnknownValue
from .dates import WIDTHS, Date
from .discrete import Boolean, Categorical
from .ordered import Integer, Number, Ordered
from .values import date_at, day_of

_KEYS: dict[str, tuple[str, ...]] = {
    "categorical": ("values", "values_file", "other"),
    "integer": ("min", "max", "width"),
    "number": ("edges", "min", "max", "width"),
    "boolean": (),
    "date": ("min", "max", "width"),
    "record": (),
}
_COMMON = ("type", "missing", "default")


def column_from_dict(name: str, declared: Mapping[str, Any]) -> Column:
    """A column from its declaration: a table of the schema file (`values_file` inlined), or `Column.to_dict`."""

    def error(message: str) -> SchemaError:
        return SchemaError(f'column "{name}": {message}')

    if not isinstance(declared, Mapping):
        raise error('a column is a table, as in [columns.sex] with type = "categorical"')
    entries = {key: value for key, value in declared.items() if key != "name" and value is not None}
    kind = entries.get("type")
    if kind == "boolean" and len(entries) == 1 + ("missing" in entries):
        return Boolean(name, missing=entries.get("missing", False))  # there may be half a million of them
    if kind is None:
        if (near := closest("type", map(str, entries))) is not None:
            raise error(f'"{near}" is not known here, did you mean "type"?')
        raise error(f"it has no type: write one of {', '.join(_KEYS)}")
    if not isinstance(kind, str) or kind not in _KEYS:
        cure = did_you_mean(str(kind), _KEYS) or f": write one of {', '.join(_KEYS)}"
        raise error(f'type "{kind}" is not known{cure}')
    known = (*_COMMON, *_KEYS[kind])
    for key in entries:
        if key not in known:
            cure = did_you_mean(key, known) or f": a column of type {kind} knows {', '.join(known)}"
            raise error(f'"{key}" is not known here{cure}')
    rest = {key: entries[key] for key in ("missing", "default") if key in entries}

    def need(*keys: str) -> None:
        for key in keys:
            if key not in entries:
                raise error(f"a column of type {kind} needs {' and '.join(keys)}: {key} is not there")

    if kind == "categorical":
        need("values")
        return Categorical(name, entries["values"], other=entries.get("other", False), **rest)
    if kind == "boolean":
        return Boolean(name, **rest)
    if kind == "record":
        return Record(name, **rest)
    if kind == "integer":
        need("min", "max")
        return Integer(name, entries["min"], entries["max"], width=entries.get("width", 1), **rest)
    if kind == "date":
        need("min", "max")
        low, high = (_date(entries[key]) for key in ("min", "max"))
        if isinstance(rest.get("default"), str):
            rest["default"] = _date(rest["default"])
        return Date(name, low, high, width=entries.get("width", "day"), **rest)
    if "edges" in entries:
        if extra := [key for key in ("min", "max", "width") if key in entries]:
            raise error(f"edges and {extra[0]} do not go together: leave one of them out")
        return Number(name, entries["edges"], **rest)
    if not entries.keys() & {"min", "max", "width"}:
        raise error("a number column needs edges, as in edges = [0, 10, 100], or min, max and width")
    need("min", "max", "width")
    return Number(name, _edges(error, entries["min"], entries["max"], entries["width"]), **rest)


def _edges(error: Any, low: Any, high: Any, width: Any) -> tuple[float, ...]:
    for key, value in (("min", low), ("max", high), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise error(f"{key} is a finite number, as in {key} = 10")
    if not low < high:
        raise error(f"min = {low} is not below max = {high}: exchange them")
    if width <= 0:
        raise error(f"width = {width} is not positive: write how wide a bin is")
    bins = math.ceil((high - low) / width)
    if bins > MOST_CODES - 2:
        raise error(f"it would have {bins:,} codes and at most {MOST_CODES - 2:,} are served: give a larger width")
    inner = (low + width * step for step in range(bins))
    return (*(edge for edge in inner if edge < high), high)


def _date(value: Any) -> Any:
    """A date from a date or its ISO text; anything else is left for the column to refuse."""
    day = day_of(value) if isinstance(value, str) else None
    return value if day is None else date_at(day)


__all__ = [
    "WIDTHS",
    "Boolean",
    "Categorical",
    "Column",
    "ComparisonError",
    "CutsBin",
    "Date",
    "Integer",
    "NotOrdered",
    "Number",
    "Ordered",
    "Record",
    "SchemaError",
    "UnknownValue",
    "column_from_dict",
]
