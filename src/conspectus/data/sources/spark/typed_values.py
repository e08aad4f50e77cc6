"""The values of files in the types of a frame, for the steps that Spark computes.

Spark reads every file in the types of the frame, and a file that has others ends its job: where the writer guessed
types from values, one person's missing value does that. So values are brought into the frame's types here, each by
itself, and one that the type cannot hold is missing in its own row. Where file and frame agree nothing is changed.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conspectus.data.columns.arrays import TEXT
from conspectus.data.columns.values import canonical_texts, date_at, day_of, distinct_of, number_of, text_of, truth_of

_LONGEST, _KEPT = 1 << 15, 1 << 13  # bytes of a text, and the characters that are read of a longer one, as in a SELECT
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_REALS = ("float", "double")
_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": TEXT,
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_FARTHEST = 400  # more than the exponents of all types
_WIDE = decimal.Context(prec=80)
_decimal = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(kind: str) -> pa.DataType | None:
    """The type of Arrow that a type of Spark travels in, by the name that Spark's JSON gives it; None for others."""
    if found := _decimal.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES.get(kind)


def typed(column: pa.Array, kind: str) -> pa.Array:
    """A tidy column in a type of Spark. Each value depends on its own alone."""
    target = arrow_type(kind)
    held = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if held == target or (pa.types.is_timestamp(held) and kind == "timestamp"):
        if pa.types.is_dictionary(column.type):
            return _short(column.dictionary.view(target)).take(column.indices)
        return _short(column.view(target))
    distinct, places = distinct_of(column, mended=True)
    if kind == "string":
        found = _short(canonical_texts(distinct))
    else:
        read = _reader(kind, target)
        found = pa.array([None if value is None else read(value) for value in distinct.to_pylist()], target)
    return pa.concat_arrays([found, pa.nulls(1, target)]).take(pa.array(places))


def _short(values: pa.Array) -> pa.Array:
    """Texts and bytes of bounded length: one long value in many rows may ask for any memory."""
    if values.type not in (TEXT, pa.large_binary()):
        return values
    long = pc.greater(pc.binary_length(values), _LONGEST)
    if not pc.any(long).as_py():
        return values
    kept = pc.utf8_slice_codeunits(values, 0, _KEPT) if values.type == TEXT else pa.scalar(None, values.type)
    return pc.if_else(long, kept, values)


def _reader(kind: str, target: pa.DataType) -> Callable[[Any], Any]:
    if kind in _BITS:
        return lambda value: _whole(value, 1 << (_BITS[kind] - 1))
    if kind in _REALS:
        return _real
    if pa.types.is_decimal(target):
        return lambda value: _exact(value, target.precision, target.scale)
    return {"boolean": truth_of, "binary": _bytes, "date": _date}.get(kind, _moment)


def _whole(value: Any, end: int) -> int | None:
    number = value if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool) else number_of(value)
    if isinstance(value, str) and number is not None:  # a float holds no long number to its last digit
        number = _written(value)
    return int(number) if number is not None and number == int(number) and -end <= number < end else None


def _real(value: Any) -> float | None:
    number = value if isinstance(value, float) else number_of(value)
    return None if number is None else float(number)


def _exact(value: Any, precision: int, scale: int) -> decimal.Decimal | None:
    text = text_of(value)
    number = None if text is None or number_of(value) is None else _written(text)
    if number is None or abs(number) >= decimal.Decimal(10) ** (precision - scale):
        return None
    exact = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_WIDE)
    return exact if exact == number else None


def _written(text: str) -> decimal.Decimal | None:
    """A number to its last digit; None for one whose exponent no type holds, at which arithmetic would stop."""
    try:
        number = decimal.Decimal(text)
    except ArithmeticError:
        return None
    if not number:
        return decimal.Decimal(0)
    return number if number.is_finite() and abs(number.adjusted()) <= _FARTHEST else None


def _bytes(value: Any) -> bytes | None:
    text = text_of(value)
    return None if text is None or len(text.encode()) > _LONGEST else text.encode()


def _date(value: Any) -> datetime.date | None:
    day = day_of(value)
    return None if day is None else date_at(day)


def _moment(value: Any) -> datetime.datetime | None:
    if isinstance(value, datetime.datetime):
        return value
    day = _date(value)
    return None if day is None else datetime.datetime.combine(day, datetime.time(), datetime.UTC)
