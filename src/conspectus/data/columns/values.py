"""What a raw value means, whatever type it arrives in.

The same person may arrive as the number 1, the number 1.0 or the text " 1 ", depending on what *other* people's values
made of the column's type. So may a moment of Berlin, as such or as a moment in UTC. A code may not depend on that, so
every reading here goes through one canonical text: moments are read in UTC and to the microsecond, lists and spans of
time mean nothing in any column. Nothing here fails on a value: what cannot be read is missing (None).
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

from .arrays import EPOCH, FIRST_DAY, LAST_DAY, MOST_SECONDS, TEXT, UNREADABLE, digits, marked, plain_time, span, tidy

SPACES = " \t\r\n"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_number = re.compile(NUMBER)
_day = re.compile(r"^(\d{4})-(\d{2})-(\d{2})($|[T ])", re.ASCII)
_GREATEST = 1 << 1023  # integers from here on are no finite double
LARGEST = 2.0**1022  # sums and differences of two numbers up to here are finite doubles
EXACT = 1 << 53  # integers up to here are the same number as int64, as double and as text
DAY = 86_400_000_000  # in microseconds
_INTEGERS = 1 << 64  # a missing value turns the integers below it into floats
_INT64 = 2.0**63
_MICROSECOND = datetime.timedelta(microseconds=1)
_CONTAINERS = (tuple, list, dict, set, frozenset, np.ndarray, datetime.timedelta)
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
    value = _plain(value)
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
        return digits(value)
    if isinstance(value, float | np.floating):
        real = float(value)
        if not math.isfinite(real):
            return None
        return str(int(real)) if real.is_integer() and abs(real) < _INTEGERS else repr(real)
    if isinstance(value, datetime.datetime):
        moment = _moment(value)
        return moment.date().isoformat() if moment.time() == datetime.time() else moment.isoformat(sep=" ")
    if isinstance(value, datetime.time):
        text = value.isoformat()
        return text.rstrip("0") if value.microsecond and value.tzinfo is None else text
    if type(value).__name__ == "Interval" and hasattr(value, "closed_left"):
        return _interval(value)
    return None if value is None or isinstance(value, _CONTAINERS) else str(value)


def _plain(value: object) -> object:
    """The value of Python that one of another library stands for, where there is one.

    A typed column would hold the plain value of a subclass, whatever the subclass says about itself.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    if isinstance(value, decimal.Decimal):
        return decimal.Decimal(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        try:
            return plain_time(value)
        except (ValueError, ArithmeticError, TypeError):
            return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    if isinstance(value, complex | np.complexfloating) and not value.imag:
        return value.real  # one complex number makes complex numbers of a column of floats
    return value


def _moment(value: datetime.datetime) -> datetime.datetime:
    """A moment by the wall clock in UTC, to the microsecond below: pandas has nanoseconds, and they go."""
    at = value if value.utcoffset() is None else value.astimezone(datetime.UTC)
    return datetime.datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)


def _interval(value: Any) -> str:
    """An interval of pandas: a missing one beside it turns the ends of whole numbers into floats."""
    low, high = text_of(value.left), text_of(value.right)
    return f"{'[' if value.closed_left else '('}{low}, {high}{']' if value.closed_right else ')'}"


def spelled(value: object) -> str | None:
    """The canonical text of a value, or an unreadable one of a span of time or an infinite number.

    No column reads those, but as ids they are different from one another. None where there is nothing at all.
    """
    text = text_of(value)
    value = _plain(value)
    if text is not None:
        return text
    if isinstance(value, datetime.timedelta):
        at = value // _MICROSECOND
        return span(at) if -MOST_SECONDS <= at // 10**6 < MOST_SECONDS else None
    if isinstance(value, decimal.Decimal | float | np.floating):
        real = math.nan if isinstance(value, decimal.Decimal) and value.is_nan() else float(value)
        return None if math.isnan(real) else marked(str(real))
    return None


def number_of(value: object) -> int | float | None:
    """The finite number a value stands for, or None."""
    value = _plain(value)
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
    value = _plain(value)
    if isinstance(value, datetime.datetime):
        try:
            return _moment(value).toordinal() - EPOCH
        except (ValueError, ArithmeticError, TypeError):  # beyond the years 1 to 9999 in UTC, or pandas' missing one
            return None
    if isinstance(value, datetime.date):
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


def by_distinct(
    values: pa.Array | pa.ChunkedArray, code_of: Callable[[Any], int], null_code: int, dtype: Any
) -> NDArray[Any]:
    """Encode by reading each distinct value once: exact for every type, fast when values repeat."""
    if isinstance(values, pa.ChunkedArray):
        parts = [by_distinct(chunk, code_of, null_code, dtype) for chunk in values.chunks]
        return np.concatenate([np.zeros(0, dtype=dtype), *parts])
    distinct, places = distinct_of(values)
    read = distinct.to_pylist()
    table = np.empty(len(read) + 1, dtype=dtype)
    for position, value in enumerate(read):
        table[position] = null_code if value is None else code_of(value)
    table[-1] = null_code
    codes: NDArray[Any] = table[places]
    return codes


def distinct_of(values: pa.Array, *, mended: bool = False) -> tuple[pa.Array, NDArray[Any]]:
    """The values that an array holds, and where each of its own stands among them; nulls stand behind the last.

    Values may be there twice, or not be there: a dictionary says what it says.
    """
    if not pa.types.is_dictionary(values.type):
        values = tidy(values, mended=mended).dictionary_encode()
        distinct, indices = values.dictionary, values.indices
    else:
        distinct, indices = values.dictionary, values.indices
        if len(distinct) > len(indices):  # a slice of a long column
            used = pc.drop_null(pc.unique(indices))
            distinct, indices = distinct.take(used), pc.index_in(indices, used)
        distinct = tidy(distinct, mended=mended)
    if indices.null_count:
        indices = pc.fill_null(pc.cast(indices, pa.int64()), len(distinct))
    places: NDArray[Any] = indices.to_numpy(zero_copy_only=False)
    return distinct, places


def canonical_texts(values: pa.Array) -> pa.Array:
    """Tidy values, their texts mended, as what `spelled` writes, each without the spaces around it."""
    kind = values.type
    if pa.types.is_integer(kind):
        return pc.cast(values, TEXT)
    if pa.types.is_floating(kind):
        return _of_floats(pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False).astype(np.float64))
    if kind == TEXT:
        return pc.utf8_trim(values, SPACES)
    if pa.types.is_large_binary(kind):
        # Bytes that are no UTF-8 are mended as texts are.
        return pc.utf8_trim(tidy(values.view(TEXT)), SPACES)
    return pa.array([spelled(value) for value in values.to_pylist()], TEXT)


def _of_floats(reals: NDArray[np.float64]) -> pa.Array:
    whole = np.abs(reals) < _INT64
    whole &= reals == np.floor(reals)
    texts = pc.cast(pa.array(np.where(whole, reals, 0.0).astype(np.int64)), TEXT)
    if whole.all():
        return texts
    others = pa.array([spelled(value) for value in reals[~whole].tolist()], TEXT)
    return pc.replace_with_mask(texts, pa.array(~whole), others)


def numbers(values: pa.Array | pa.ChunkedArray, nulls: Nulls) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The numbers of an array as int64 or float64, and which of them are valid (None: all)."""
    if isinstance(values, pa.ChunkedArray):
        return _joined([numbers(chunk, nulls) for chunk in values.chunks or [pa.nulls(0, values.type)]])
    if pa.types.is_dictionary(values.type):
        distinct, places = distinct_of(values)
        return _spread(*numbers(distinct, nulls), places)
    values = tidy(values)
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


def _joined(
    parts: list[tuple[NDArray[Any], NDArray[np.bool_] | None]],
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """What was read of the chunks of one array, in one."""
    found = np.concatenate([read for read, _ in parts])
    if all(valid is None for _, valid in parts):
        return found, None
    return found, np.concatenate([np.ones(len(read), bool) if valid is None else valid for read, valid in parts])


def _spread(
    read: NDArray[Any], valid: NDArray[np.bool_] | None, places: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """What was read of each distinct value, for the values that stand at these places among them."""
    known = np.ones(len(read), bool) if valid is None else valid
    return np.append(read, read.dtype.type(0))[places], np.append(known, False)[places]


def _parse(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal(kind):
        return pc.cast(pc.cast(values, pa.large_string()), pa.float64())  # as their texts are read, to the last bit
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
    if isinstance(values, pa.ChunkedArray):
        return _joined([days(chunk, nulls) for chunk in values.chunks or [pa.nulls(0, values.type)]])
    if pa.types.is_dictionary(values.type):
        distinct, places = distinct_of(values)
        return _spread(*days(distinct, nulls), places)
    values = tidy(values)
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
