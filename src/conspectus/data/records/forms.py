"""What is the same record: a record of any kind as its form, which is a kind and its contents.

Whole numbers of any type are one kind, also 1.0 and 1 (a missing value turns a column of integers into one of floats,
a complex number one of floats), and so are decimals of up to 400 digits that are whole; texts by their UTF-8; bytes;
true and false, which are no numbers; dates; moments to the microsecond in UTC; spans of time to the microsecond;
times of day as texts; tuples, lists and arrays by their parts in order; sets; mappings and structs by their keys, with
the value of each, in any order. Objects of other types are what they print. Missing, None and NaN are one, and so is
what cannot be read: moments beyond the years 1 to 9999, tuples deeper than 64 or with more than 65,536 parts in all (a
small list that holds another one twice, and so on, has endlessly many), objects that print no value. Every value has a
form: nothing fails, whatever it is, and nothing of it is said. The form of a value depends on that value alone. Two
values are the same record if and only if their forms are equal.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from conspectus.data.columns.arrays import EPOCH, FIRST_DAY, LAST_DAY, mended, plain_time
from conspectus.interrupts import pressed

NULL, TRUTH, WHOLE, NEGATIVE, LONG, REAL, TEXT, BYTES, DAY, MOMENT, DECIMAL, TUPLE, SPAN, SET, MAP = range(1, 16)
HOLDING = (TUPLE, SET, MAP)
"""The kinds whose contents are forms; those of a mapping are pairs of a key and its value."""

DEEPEST = 64
MOST_PARTS, MOST_BYTES = 1 << 16, 1 << 26
"""What a tuple may hold, in all the tuples within it: parts, and bytes of texts and the like."""

SHIFT = 1 << 62
"""Added to days and microseconds since 1970, so that none is negative."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST, _END = FIRST_DAY * 86_400 * 10**6, (LAST_DAY + 1) * 86_400 * 10**6
_DIGITS = 400

Form = tuple[int, Any]
"""A kind, and contents: a number below 2**64, bytes, or for tuples, sets and mappings the forms of the parts."""

MISSING: Form = (NULL, b"")


class _Beyond(Exception):
    """A tuple within more than `DEEPEST` tuples (one that holds itself, say), or of more parts than are read."""


class _Room:
    """How much more the tuples of one record may hold."""

    def __init__(self) -> None:
        self.parts, self.bytes = MOST_PARTS, MOST_BYTES

    def take(self, parts: int = 0, size: int = 0) -> None:
        self.parts -= parts
        self.bytes -= size
        if self.parts < 0 or self.bytes < 0:
            raise _Beyond


def form_of(record: object, depth: int = 0) -> Form:
    """The form of one record, which stands in this many tuples: 1 for the values of a row of several columns."""
    try:
        return _form(record, depth, _Room())
    except _Beyond:
        return MISSING


def _form(record: object, depth: int, room: _Room) -> Form:
    try:
        form = _written(record, depth, room)
        return form if _sound(form) else MISSING
    except _Beyond:
        raise
    except BaseException as problem:  # objects run code of their own: one that fails or exits must not show elsewhere
        if isinstance(problem, KeyboardInterrupt) and pressed():
            raise KeyboardInterrupt from None  # whoever runs this may stop it
        return MISSING


def _sound(form: Form) -> bool:
    """Whether a form holds what its kind does: a subclass of a plain type may answer anything."""
    kind, held = form
    if kind in (WHOLE, NEGATIVE, TRUTH, REAL, MOMENT):
        return type(held) is int and 0 <= held < 1 << 64
    if kind == DAY:
        return type(held) is int and FIRST_DAY <= held - SHIFT <= LAST_DAY
    return type(held) is (tuple if kind in HOLDING else bytes)


def _written(record: Any, depth: int, room: _Room) -> Form:
    if isinstance(record, np.datetime64 | np.timedelta64):
        record = plain_time(record)  # None beyond the years 1 to 9999
    elif isinstance(record, np.longdouble):
        record = float(record)
    elif isinstance(record, np.clongdouble):
        record = complex(record)
    elif isinstance(record, np.generic):
        record = record.item()
    if record is None or type(record).__name__ in ("NAType", "NaTType"):
        return MISSING
    if isinstance(record, bool):
        return TRUTH, int(record)
    if isinstance(record, decimal.Decimal):
        return _decimal(decimal.Decimal(record))
    if isinstance(record, complex) and not record.imag:
        record = record.real
    if isinstance(record, float):
        return _real(float.__float__(record))
    if isinstance(record, int):
        return _whole(int.__int__(record))
    if isinstance(record, str):
        return TEXT, mended(str.__str__(record)).encode()
    if isinstance(record, bytes | bytearray | memoryview):
        return BYTES, bytes(memoryview(record))
    if isinstance(record, datetime.date | datetime.time | datetime.timedelta):
        return _time(record)
    if isinstance(record, np.ndarray):
        return _written(record.tolist(), depth, room) if record.ndim == 0 else _tuple(record, depth, room)
    if isinstance(record, tuple | list):
        return _tuple(record, depth, room)
    if isinstance(record, dict):
        return MAP, tuple(sorted(set(_tuple(dict.items(record), depth, room)[1]), key=_place))
    if isinstance(record, set | frozenset):
        return SET, tuple(sorted(set(_tuple(record, depth, room)[1]), key=_place))
    if type(record).__name__ == "Interval" and type(record).__module__.startswith("pandas"):
        ends = (record.left, record.right, record.closed)  # a missing one turns 0 of the others into 0.0
        return _tuple(ends, depth, room)
    text = str(record)
    if record != record or " at 0x" in text:
        return MISSING  # an object that prints its place in memory has no value of its own
    return TEXT, mended(text).encode()


def _tuple(parts: Collection[object], depth: int, room: _Room) -> Form:
    if depth >= DEEPEST:
        raise _Beyond
    if len(parts) > room.parts:
        raise _Beyond  # before any of them is read: an array may repeat one number without holding it
    return TUPLE, tuple([_part(part, depth + 1, room) for part in parts])


def _part(record: object, depth: int, room: _Room) -> Form:
    room.take(1)
    form = _form(record, depth, room)
    if isinstance(form[1], bytes):
        room.take(size=len(form[1]))
    return form


def _place(form: Form) -> tuple[int, int, Any]:
    """Where a form stands among the parts of a set: an order of forms, whatever it is."""
    kind, held = form
    if kind in HOLDING:
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
