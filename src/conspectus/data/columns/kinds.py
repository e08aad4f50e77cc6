"""The kinds of column that a schema may declare, and the reading of one declaration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from conspectus.data.records.record import Record
from conspectus.suggestions import closest, did_you_mean

from .column import Column, ComparisonError, CutsBin, NotOrdered, SchemaError, UnknownValue
from .dates import WIDTHS, Date
from .discrete import Boolean, Categorical
from .ordered import Integer, Number, Ordered
from .values import LARGEST, date_at, day_of

_KEYS: dict[str, tuple[str, ...]] = {
    "categorical": ("values", "values_file", "other"),
    "integer": ("edges", "min", "max", "width"),
    "number": ("edges", "min", "max", "width"),
    "boolean": ("values",),
    "date": ("min", "max", "width"),
    "record": (),
}
_COMMON = ("type", "missing", "default", "null_values")
_NEEDED = {"categorical": ("values",), "integer": ("min", "max"), "date": ("min", "max")}
_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, Integer, Number, Boolean, Date, Record)}


def check_keys(given: Iterable[Any], known: Sequence[str], who: str, error: Callable[[str], SchemaError]) -> None:
    """Refuse a key that is not known, with the nearest one that is."""
    for key in given:
        if key not in known:
            cure = did_you_mean(str(key), known) or f": {who} knows {', '.join(known)}"
            raise error(f'"{key}" is not known here{cure}')


MOST_BINS = 1 << 20
"""Bins of numbers that a schema may declare by their widths: a few digits would fill the memory with edges."""


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
    check_keys(entries, (*_COMMON, *_KEYS[kind]), f"a column of type {kind}", error)
    given = {key: value for key, value in entries.items() if key not in ("type", "values_file")}
    width = [key for key in ("min", "max", "width") if key in given]
    needed = _NEEDED.get(kind, ())
    if "edges" in given and width:
        raise error(f"edges and {width[0]} do not go together: leave one of them out")
    if kind == "number" and "edges" not in given:
        if not width:
            raise error("a number column needs edges, as in edges = [0, 10, 100], or min, max and width")
        needed = ("min", "max", "width")
    elif kind == "integer" and "edges" in given:
        return Integer.between(name, **given)
    for key in needed:
        if key not in given:
            raise error(f"a column of type {kind} needs {' and '.join(needed)}: {key} is not there")
    if kind == "number" and width:
        given["edges"] = _edges(error, *(given.pop(key) for key in needed))
    if kind == "date":
        given |= {key: _date(given[key]) for key in ("min", "max", "default") if key in given}
    return _KINDS[kind](name, **given)


def columns_from(named: Iterable[tuple[str, Any]]) -> tuple[Column, ...]:
    """The columns of a schema from their declarations, in order. Bins that are declared by a width are all listed."""
    found, bins = [], 0
    for name, declared in named:
        column = column_from_dict(name, declared)
        bins += column.regular if isinstance(column, Number) and "edges" not in declared else 0
        if bins > MOST_BINS:
            raise SchemaError(f"the bins of number columns are at most {MOST_BINS:,} together: give larger widths")
        found.append(column)
    return tuple(found)


def _edges(error: Any, low: Any, high: Any, width: Any) -> tuple[float, ...]:
    for key, value in (("min", low), ("max", high), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise error(f"{key} is a finite number, at most 2^1022, as in {key} = 10")
    if not low < high:
        raise error(f"min = {low} is not below max = {high}: exchange them")
    if width <= 0:
        raise error(f"width = {width} is not positive: write how wide a bin is")
    bins = (high - low) / width  # may be infinite
    if bins > MOST_BINS:
        raise error(f"at most {MOST_BINS:,} codes are served, and it would have more: give a larger width")
    inner = (low + width * step for step in range(math.ceil(bins)))
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
    "check_keys",
    "column_from_dict",
    "columns_from",
]
