"""What a raw value means, whatever type it arrives in.

The same person may arrive as the number 1, the number 1.0 or the text " 1 ", depending on what *other* people's values
made of the column's type. A code may not depend on that, so every reading here goes through one canonical form. Nothing
here fails on a value: what cannot be read is missing (None).
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .arrays import EPOCH, FIRST_DAY, LAST_DAY, UNREADABLE, tidy

SPACES = " \t\r\n"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_number = re.compile(NUMBER)
_day = re.compile(r"^(\d{4})-(\d{2})-(\d{2})($|[T ])", re.ASCII)
_LONGEST = 400  # digits before or after the point: no number beyond has a place on any axis
_GREATEST = 1 << 1023  # integers from here on are no finite double
EXACT = 1 << 53  # integers up to here are the same number as int64, as double and as text
DAY = 86_400_000_000  # in microseconds
_true = frozenset({"true", "t", "yes", "y", "1"})
_false = frozenset({"false", "f", "no", "n", "0"})


def text_of(value: object) -> str | None:
    """The canonical text of a value without the spaces around it; None when there is nothing to read."""
    try:
        text = _text_of(value)
    except (ValueError, ArithmeticError, TypeError):  # too long to be written, or half a sign
        return None
    # U+FFFD stands for bytes that were no text.
    return None if text is None or UNREADABLE in text else text.strip(SPACES) or None


def _text_of(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, str):
        value.encode("utf-8")
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return None
        return format(value.normalize(), "f") if abs(value.adjusted()) < _LONGEST else str(value)
    if isinstance(value, float | np.floating):
        real = float(value)
        if not math.isfinite(real):
            return None
        return str(int(real)) if real.is_integer() and abs(real) <= EXACT else repr(real)
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    return None if value is None else str(value)


def number_of(value: object) -> int | float | None:
    """The finite number a value stands for, or None."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value) if abs(int(value)) < _GREATEST else None
    if isinstance(value, float | np.floating):
        real = float(value)
    else:
        text = text_of(value)
        if text is None or isinstance(value, bool | np.bool_) or not _number.match(text):
            return None
        real = float(text)
    if not math.isfinite(real):
        return None
    return int(real) if real.is_integer() and abs(real) <= EXACT else real


def day_of(value: object) -> int | None:
    """The day a value stands for, counted from 1970-01-01, or None. A time of day is dropped."""
    if isinstance(value, datetime.date):  # a datetime is one too
        return value.toordinal() - EPOCH
    text = text_of(value) if isinstance(value, str | bytes) else None
    found = _day.match(text) if text else None
    if not found:
        return None
    try:
        return datetime.date(*map(int, found.groups()[:3])).toordinal() - EPOCH
    except ValueError:
        return None


def truth_of(value: object) -> bool | None:
    """True or False for the usual words and for 1 and 0; None for anything else."""
    text = text_of(value)
    number = number_of(value)
    word = text.casefold() if number is None and text else str(number)
    return True if word in _true else False if word in _false else None


def date_at(day: int) -> datetime.date:
    """The date of a day counted from 1970-01-01."""
    return datetime.date.fromordinal(day + EPOCH)


@dataclass(frozen=True)
class Nulls:
    """The texts that the owner declares to mean missing. They also match numbers and dates of the same meaning."""

    texts: tuple[str, ...] = ()

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(text.strip(SPACES) for text in self.texts)

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        return tuple(float(n) for n in map(number_of, self.texts) if n is not None)

    @cached_property
    def days(self) -> tuple[int, ...]:
        return tuple(n for n in map(day_of, self.texts) if n is not None)

    def match(self, value: object) -> bool:
        """Whether a value is missing: nothing to read, or one of the declared texts."""
        text = text_of(value)
        if text is None or text in self.words:
            return True
        if self.numbers and (number := number_of(value)) is not None and float(number) in self.numbers:
            return True
        return bool(self.days) and day_of(value) in self.days


def flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array of a type that the readers below know."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays([tidy(chunk) for chunk in (values.chunks or [pa.nulls(0, values.type)])])
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, tidy(values.dictionary))
    return tidy(values)


def by_distinct(values: pa.Array, code_of: Callable[[Any], int], null_code: int, dtype: Any) -> NDArray[Any]:
    """Encode by reading each distinct value once: exact for every type, fast when values repeat."""
    values = flat(values)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    distinct = values.dictionary.to_pylist()
    table = np.empty(len(distinct) + 1, dtype=dtype)
    for position, value in enumerate(distinct):
        table[position] = null_code if value is None else code_of(value)
    table[-1] = null_code
    indices = values.indices
    if indices.null_count:
        indices = pc.fill_null(pc.cast(indices, pa.int64()), len(distinct))
    codes: NDArray[Any] = table[indices.to_numpy(zero_copy_only=False)]
    return codes


def numbers(values: pa.Array | pa.ChunkedArray, nulls: Nulls) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The numbers of an array as int64 or float64, and which of them are valid (None: all)."""
    values = flat(values)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = pa.array([text_of(value) for value in values.to_pylist()], pa.large_string())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        values = _parse(values)
    elif pa.types.is_uint64(kind) or pa.types.is_floating(kind):
        values = pc.cast(values, pa.float64(), safe=False)
    valid = None if values.null_count == 0 else pc.is_valid(values).to_numpy(zero_copy_only=False)
    result = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    if result.dtype.kind == "f":
        finite = np.isfinite(result)
        if not finite.all():
            valid = finite if valid is None else valid & finite
            result = np.where(finite, result, 0.0)
    for null in nulls.numbers:
        differs = result != null
        valid = differs if valid is None else valid & differs
    return result, valid


def _parse(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal(kind):
        return pc.cast(values, pa.float64(), safe=False)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return pa.nulls(len(values), pa.float64())  # truths and dates are no numbers
    text = pc.utf8_trim(values, SPACES)
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        readable = pc.match_substring_regex(text, NUMBER)
        text = pc.if_else(readable, pc.utf8_ltrim(text, "+"), pa.scalar(None, text.type))
        return pc.cast(text, pa.float64())


def days(values: pa.Array | pa.ChunkedArray, nulls: Nulls) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """The days of an array, counted from 1970-01-01, and which of them are valid (None: all)."""
    values = flat(values)
    kind = values.type
    if pa.types.is_timestamp(kind):
        whole = pc.fill_null(pc.cast(values, pa.int64()), 0).to_numpy(zero_copy_only=False) // DAY
    elif pa.types.is_date32(kind):
        whole = pc.fill_null(pc.cast(values, pa.int32()), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        outside = LAST_DAY + 1
        whole = by_distinct(values, lambda value: outside if (day := day_of(value)) is None else day, outside, np.int64)
    valid = (whole >= FIRST_DAY) & (whole <= LAST_DAY)
    if values.null_count:
        valid &= pc.is_valid(values).to_numpy(zero_copy_only=False)
    for null in nulls.days:
        valid &= whole != null
    return whole, None if valid.all() else valid
