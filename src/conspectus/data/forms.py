"""What is the same record: a record of any kind as its form, which is a kind and its contents.

Whole numbers of any type are one kind, also 1.0 and 1 (a missing value turns a column of integers into one of floats,
a complex number one of floats), and so are decimals of up to 400 digits that are whole; texts by their UTF-8; bytes;
true and false, which are no numbers; dates; moments to the microsecond in UTC; spans of time to the microsecond;
times of day as texts; tuples, lists, arrays and structs by their parts in order; sets. Objects of other types are
what they print. Missing, None and NaN are one, and so is what cannot be read: moments beyond the years 1 to 9999,
tuples deeper than 64, objects that print no value. Every value has a form: nothing fails, whatever it is, and nothing
of it is said. The form of a value depends on that value alone. Two values are the same record if and only if their
forms are equal.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from conspectus.data.arrays import EPOCH, FIRST_DAY, LAST_DAY, mended

NULL, TRUTH, WHOLE, NEGATIVE, LONG, REAL, TEXT, BYTES, DAY, MOMENT, DECIMAL, TUPLE, SPAN, SET = range(1, 15)

DEEPEST = 64
SHIFT = 1 << 62
"""Added to days and microseconds since 1970, so that none is negative."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST, _END = FIRST_DAY * 86_400 * 10**6, (LAST_DAY + 1) * 86_400 * 10**6
_DIGITS = 400

Form = tuple[int, Any]
"""A kind, and contents: a number below 2**64, bytes, or for tuples and sets the forms of the parts."""

MISSING: Form = (NULL, b"")


class _TooDeep(Exception):
    """A tuple within more than `DEEPEST` tuples: one that holds itself, say."""


def form_of(record: object, depth: int = 0) -> Form:
    """The form of one record, which stands in this many tuples: 1 for the values of a row of several columns."""
    try:
        return _form(record, depth)
    except _TooDeep:
        return MISSING


def _form(record: object, depth: int) -> Form:
    try:
        return _written(record, depth)
    except _TooDeep:
        raise
    except Exception:  # objects run code of their own, and one that fails must not show in any other row
        return MISSING


def _written(record: Any, depth: int) -> Form:
    if isinstance(record, np.datetime64 | np.timedelta64):
        record = record.astype(f"{record.dtype.kind}8[us]").item()
        if isinstance(record, int):
            return MISSING  # beyond the years 1 to 9999
    elif isinstance(record, np.longdouble):
        record = float(record)
    elif isinstance(record, np.generic):
        record = record.item()
    if record is None or type(record).__name__ in ("NAType", "NaTType"):
        return MISSING
    if isinstance(record, bool):
        return TRUTH, int(record)
    if isinstance(record, decimal.Decimal):
        return _decimal(record)
    if isinstance(record, complex) and not record.imag:
        record = record.real
    if isinstance(record, float):
        return _real(record)
    if isinstance(record, int):
        return _whole(record)
    if isinstance(record, str):
        return TEXT, mended(record).encode()
    if isinstance(record, bytes | bytearray | memoryview):
        return BYTES, bytes(record)
    if isinstance(record, datetime.date | datetime.time | datetime.timedelta):
        return _time(record)
    if isinstance(record, np.ndarray):
        return _written(record.tolist(), depth) if record.ndim == 0 else _tuple(list(record), depth)
    if isinstance(record, tuple | list):
        return _tuple(record, depth)
    if isinstance(record, dict):
        return _tuple(list(record.values()), depth)
    if isinstance(record, set | frozenset):
        return SET, tuple(sorted(set(_tuple(list(record), depth)[1]), key=_place))
    if type(record).__name__ == "Interval" and type(record).__module__.startswith("pandas"):
        return _tuple((record.left, record.right, record.closed), depth)  # a missing one turns 0 of the others into 0.0
    text = str(record)
    if record != record or " at 0x" in text:
        return MISSING  # an object that prints its place in memory has no value of its own
    return TEXT, mended(text).encode()


def _tuple(parts: Sequence[object], depth: int) -> Form:
    if depth >= DEEPEST:
        raise _TooDeep
    return TUPLE, tuple([_form(part, depth + 1) for part in parts])


def _place(form: Form) -> tuple[int, int, Any]:
    """Where a form stands among the parts of a set: an order of forms, whatever it is."""
    kind, held = form
    if kind in (TUPLE, SET):
        return kind, len(held), [_place(part) for part in held]
    return kind, 0, held


def _whole(number: int) -> Form:
    if abs(number) >= 1 << 63:
        return LONG, number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return (NEGATIVE if number < 0 else WHOLE), abs(number)


def _real(number: float) -> Form:
    if math.isnan(number):
        return MISSING
    if number.is_integer():
        return _whole(int(number))
    return REAL, int(np.float64(number).view(np.uint64))


def _decimal(number: decimal.Decimal) -> Form:
    if not number.is_finite():
        return MISSING if number.is_nan() else _real(float(number))
    sign, digits, exponent = number.as_tuple()  # not normalize(), which rounds to the digits of its context
    text = "".join(map(str, digits))
    kept = text.rstrip("0")
    power = int(exponent) + len(text) - len(kept)
    if not kept or (power >= 0 and number.adjusted() < _DIGITS):
        return _whole(int(number))
    return DECIMAL, f"{'-' * sign}{kept.lstrip('0')}E{power}".encode()


def _time(record: Any) -> Form:
    if isinstance(record, datetime.timedelta):
        return SPAN, str(record // _MICROSECOND).encode()
    if isinstance(record, datetime.time):
        text = record.isoformat()
        return TEXT, (text.rstrip("0") if record.microsecond and record.tzinfo is None else text).encode()
    if not isinstance(record, datetime.datetime):
        return DAY, record.toordinal() - EPOCH + SHIFT
    moment = record if record.utcoffset() is not None else record.replace(tzinfo=datetime.UTC)
    at = (moment - _EPOCH) // _MICROSECOND
    return (MOMENT, at + SHIFT) if _FIRST <= at < _END else MISSING
