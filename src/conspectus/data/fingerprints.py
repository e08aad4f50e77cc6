"""A public fingerprint of a record of any kind: one element of the field of p = 2**61 − 1 elements.

A record is written as words w_0, w_1, …, w_L: w_0 holds its kind and its length, the others its contents, each below p.
Its fingerprint is w_0·a^(L+1) + w_1·a^L + … + w_L·a modulo p, with a public constant a. The words of a tuple are the
fingerprints of its parts, and its constant is another one: each depth at which a tuple stands within tuples has its
own. Values that are written differently have different polynomials of degree at most L + 1, so two given ones collide
for at most L + 1 of the p values that a can have. Two tuples collide if all their parts do, or for the constant of
their depth: two given records collide with probability below D/p, where D adds up, over the depths, the most words
of a value there, and two more. Among N records less than N²·D/2**62 pairs are expected to collide, if the
constants have nothing to do with the records. A record is fingerprinted by itself, so a collision costs accuracy and
nothing else: the guarantee is about a table of fingerprints.

What is the same record: whole numbers of any type, also 1.0 and 1 (a missing value turns a column of integers into one
of floats, a complex number one of floats), and decimals of up to 400 digits; texts by their UTF-8; bytes; true and
false, which are no numbers; dates; moments to the microsecond in UTC; spans of time to the microsecond; times of day as
texts; tuples, lists, arrays and structs by their parts in order; sets. Objects of other types are what they print.
Missing, None and NaN are one, and so is what cannot be read: moments beyond the years 1 to 9999, tuples deeper than 64,
objects that print no value. Every value has a fingerprint: nothing fails, whatever it is, and nothing of it is said.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from conspectus.data.arrays import EPOCH, FIRST_DAY, LAST_DAY, mended, tidy
from conspectus.data.field import Elements, P, compiled, horner, times

NULL, TRUTH, WHOLE, NEGATIVE, LONG, REAL, TEXT, BYTES, DAY, MOMENT, DECIMAL, TUPLE, SPAN, SET = range(1, 15)


def _constant(what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"conspectus: the key of the public {what}".encode()).digest()) % P


KEY = _constant("fingerprint of records")
"""The constant a of plain values."""
ADDRESS_KEY = _constant("address of a tuple of codes")
"""The constant of `of_tuples`: codes may be fingerprints themselves, so it is none of theirs."""
DEEPEST = 64

_a = np.uint64(KEY)
_48, _32 = np.uint64(48), np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST, _END = FIRST_DAY * 86_400 * 10**6, (LAST_DAY + 1) * 86_400 * 10**6
_PLAIN = {str: pa.large_string(), bytes: pa.large_binary(), int: None, float: pa.float64(), bool: pa.bool_()}
_DIGITS = 400
_MISSING = (1 << 48) * KEY % P

Written = tuple[int, Iterable[int], int]
"""A kind, words, a length."""


class _TooDeep(Exception):
    """A tuple within more than `DEEPEST` tuples: one that holds itself, say."""


@lru_cache(maxsize=DEEPEST + 1)
def tuple_key(depth: int) -> int:
    """The constant of tuples that stand within this many others."""
    return _constant(f"fingerprint of tuples at depth {depth}")


def fingerprint(record: object, depth: int = 0) -> int:
    """The fingerprint of one record: what every other way to compute it agrees with.

    `depth` says in how many tuples the record stands: 1 for the values of a row of several columns.
    """
    try:
        return _fingerprint(record, depth)
    except _TooDeep:
        return _MISSING


def _fingerprint(record: object, depth: int) -> int:
    try:
        kind, words, length = _written(record, depth)
        key = tuple_key(depth) if kind in (TUPLE, SET) else KEY
        state = kind << 48 | length
        for word in words:
            state = (state * key + word) % P
        return state * key % P
    except _TooDeep:
        raise
    except Exception:  # objects run code of their own, and one that fails must not show in any other row
        return _MISSING


def _written(record: Any, depth: int) -> Written:
    """How a record is written."""
    if isinstance(record, np.datetime64 | np.timedelta64):
        record = record.astype(f"{record.dtype.kind}8[us]").item()
        if isinstance(record, int):
            return NULL, (), 0  # beyond the years 1 to 9999
    elif isinstance(record, np.longdouble):
        record = float(record)
    elif isinstance(record, np.generic):
        record = record.item()
    if record is None or type(record).__name__ in ("NAType", "NaTType"):
        return NULL, (), 0
    if isinstance(record, bool):
        return TRUTH, (int(record), 0), 2
    if isinstance(record, decimal.Decimal):
        return _decimal(record)
    if isinstance(record, complex) and not record.imag:
        record = record.real
    if isinstance(record, float):
        return _real(record)
    if isinstance(record, int):
        return _whole(record)
    if isinstance(record, str):
        return _bytes(TEXT, mended(record).encode())
    if isinstance(record, bytes | bytearray | memoryview):
        return _bytes(BYTES, bytes(record))
    if isinstance(record, datetime.date | datetime.time | datetime.timedelta):
        return _time(record)
    if isinstance(record, np.ndarray):
        return _written(record.tolist(), depth) if record.ndim == 0 else _tuple(list(record), depth)
    if isinstance(record, tuple | list):
        return _tuple(record, depth)
    if isinstance(record, dict):
        return _tuple(list(record.values()), depth)
    if isinstance(record, set | frozenset):
        _, words, length = _tuple(list(record), depth)
        return SET, sorted(words), length
    if type(record).__name__ == "Interval" and type(record).__module__.startswith("pandas"):
        return _tuple((record.left, record.right, record.closed), depth)  # a missing one turns 0 of the others into 0.0
    text = str(record)
    if record != record or " at 0x" in text:
        return NULL, (), 0  # an object that prints its place in memory has no value of its own
    return _bytes(TEXT, mended(text).encode())


def _tuple(parts: Sequence[object], depth: int) -> Written:
    if depth >= DEEPEST:
        raise _TooDeep
    return TUPLE, (_fingerprint(part, depth + 1) for part in parts), len(parts)


def _whole(number: int) -> Written:
    if abs(number) >= 1 << 63:
        return _bytes(LONG, number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))
    return (NEGATIVE if number < 0 else WHOLE), _halves(abs(number)), 2


def _real(number: float) -> Written:
    if math.isnan(number):
        return NULL, (), 0
    if number.is_integer():
        return _whole(int(number))
    return REAL, _halves(int(np.float64(number).view(np.uint64))), 2


def _decimal(number: decimal.Decimal) -> Written:
    if not number.is_finite():
        return (NULL, (), 0) if number.is_nan() else _real(float(number))
    sign, digits, exponent = number.as_tuple()  # not normalize(), which rounds to the digits of its context
    text = "".join(map(str, digits))
    kept = text.rstrip("0")
    power = int(exponent) + len(text) - len(kept)
    if not kept or (power >= 0 and number.adjusted() < _DIGITS):
        return _whole(int(number))
    return _bytes(DECIMAL, f"{'-' * sign}{kept.lstrip('0')}E{power}".encode())


def _time(record: Any) -> Written:
    if isinstance(record, datetime.timedelta):
        return _bytes(SPAN, str(record // _MICROSECOND).encode())
    if isinstance(record, datetime.time):
        text = record.isoformat()
        return _bytes(TEXT, (text.rstrip("0") if record.microsecond and record.tzinfo is None else text).encode())
    if not isinstance(record, datetime.datetime):
        return DAY, _halves(record.toordinal() - EPOCH + (1 << 62)), 2
    moment = record if record.utcoffset() is not None else record.replace(tzinfo=datetime.UTC)
    at = (moment - _EPOCH) // _MICROSECOND
    return (MOMENT, _halves(at + (1 << 62)), 2) if _FIRST <= at < _END else (NULL, (), 0)


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def _bytes(kind: int, raw: bytes) -> Written:
    return kind, (int.from_bytes(raw[at : at + 7], "little") for at in range(0, len(raw), 7)), len(raw)


def fingerprints(records: Any, depth: int = 0) -> Elements:
    """The fingerprints of many records: an Arrow or numpy array, a series, or any sequence of values."""
    if isinstance(records, pa.ChunkedArray):
        parts = [fingerprints(chunk, depth) for chunk in records.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
    if isinstance(records, pa.Array):
        return _of_array(records, depth)
    if isinstance(records, np.ndarray):
        if (
            records.ndim == 1
            and records.dtype.kind in "iufb"
            and records.dtype.itemsize <= 8
            and records.dtype.isnative
        ):
            return _of_array(pa.array(records), depth)
        # Moments are taken as such, not as the integers that numpy may make of them.
        return _of_values(list(records) if records.dtype.kind in "mM" else records.tolist(), depth)
    return _of_values(records.tolist() if hasattr(records, "tolist") else list(records), depth)


def _of_values(values: list[Any], depth: int) -> Elements:
    """Values of any kinds: those of one plain type together, which is the same as one by one, and faster."""
    found = np.full(len(values), _MISSING, dtype=np.uint64)
    places: dict[type, list[int]] = {}
    for place, value in enumerate(values):
        if value is not None:
            places.setdefault(type(value), []).append(place)
    for kind, here in places.items():
        held = values if len(here) == len(values) else [values[place] for place in here]
        found[here] = _of_kind(held, kind, depth)
    return found


def _of_kind(values: list[Any], kind: type, depth: int) -> Elements:
    if kind in _PLAIN and len(values) > 8:
        try:
            return _of_array(pa.array(values, _PLAIN[kind]), depth)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # whole numbers beyond 64 bits, texts with halves of signs
    return np.fromiter((fingerprint(value, depth) for value in values), dtype=np.uint64, count=len(values))


def _of_array(values: pa.Array, depth: int) -> Elements:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _of_array(values.storage, depth)
    if pa.types.is_run_end_encoded(kind):
        return _of_array(pc.run_end_decode(values), depth)
    if pa.types.is_dictionary(kind):
        table = np.append(_of_array(values.dictionary, depth), np.uint64(_MISSING))
        places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(table) - 1).to_numpy(zero_copy_only=False)
        found: Elements = table[places]
        return found
    if pa.types.is_struct(kind) and not any(pa.types.is_nested(field.type) for field in kind):
        parts = [_of_array(part, depth + 1) for part in values.flatten()]
        return _with_nulls(values, tuples(parts, len(values), depth))
    if any(check(kind) for check in _ONE_BY_ONE):
        return np.fromiter((_of_scalar(value, depth) for value in values), dtype=np.uint64, count=len(values))
    plain = tidy(values)
    return _with_nulls(plain, _of_plain(plain))


_ONE_BY_ONE = (pa.types.is_nested, pa.types.is_decimal, pa.types.is_duration, pa.types.is_interval)


def _of_scalar(value: pa.Scalar, depth: int) -> int:
    try:
        record = value.as_py()
    except Exception:  # dates that Python does not have, bytes that are no text, places that no clock knows
        return _MISSING
    return fingerprint(record, depth)


def _of_plain(values: pa.Array) -> Elements:
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), dtype=np.uint64)
    if kind in (pa.large_string(), pa.large_binary()):
        offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset : values.offset + len(values) + 1]
        data = values.buffers()[2]
        raw = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
        return _of_bytes(offsets, raw, TEXT if kind == pa.large_string() else BYTES, _a)
    filled = pc.fill_null(values, False if pa.types.is_boolean(kind) else 0)
    if pa.types.is_boolean(kind):
        numbers = filled.to_numpy(zero_copy_only=False).astype(np.uint64)
        return _of_halves(numbers, np.full(len(numbers), TRUTH, dtype=np.uint64), _a)
    if pa.types.is_floating(kind):
        return _of_floats(filled.to_numpy(zero_copy_only=False).astype(np.float64))
    if pa.types.is_uint64(kind):
        large = filled.to_numpy(zero_copy_only=False)
        found = _of_halves(large, np.full(len(large), WHOLE, dtype=np.uint64), _a)
        for place in np.flatnonzero(large >> np.uint64(63)).tolist():
            found[place] = fingerprint(int(large[place]))
        return found
    if pa.types.is_date32(kind):
        shifted = filled.view(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64) + (1 << 62)
        return _of_halves(shifted.view(np.uint64), np.full(len(shifted), DAY, dtype=np.uint64), _a)
    if pa.types.is_timestamp(kind):
        shifted = filled.view(pa.int64()).to_numpy(zero_copy_only=False) + (1 << 62)
        return _of_halves(shifted.view(np.uint64), np.full(len(shifted), MOMENT, dtype=np.uint64), _a)
    whole = pc.cast(filled, pa.int64()).to_numpy(zero_copy_only=False)
    return _of_integers(whole)


def _of_integers(whole: NDArray[np.int64]) -> Elements:
    kinds = np.where(whole < 0, np.uint64(NEGATIVE), np.uint64(WHOLE))
    sizes = np.abs(whole).view(np.uint64)
    found = _of_halves(sizes, kinds, _a)
    for place in np.flatnonzero(sizes >> np.uint64(63)).tolist():  # −2**63 alone has no 63-bit size
        found[place] = fingerprint(int(whole[place]))
    return found


def _of_floats(reals: NDArray[np.float64]) -> Elements:
    whole = (reals == np.floor(reals)) & np.isfinite(reals)
    large = whole & (np.abs(reals) >= 2.0**63)
    whole &= ~large
    numbers = np.where(whole, reals, 0.0).astype(np.int64)
    bits = _of_halves(reals.view(np.uint64), np.full(len(reals), REAL, dtype=np.uint64), _a)
    found = np.where(whole, _of_integers(numbers), bits)
    found[np.isnan(reals)] = _MISSING
    for place in np.flatnonzero(large).tolist():
        found[place] = fingerprint(float(reals[place]))
    return found


def _with_nulls(values: pa.Array, found: Elements) -> Elements:
    if values.null_count:
        found[pc.is_null(values).to_numpy(zero_copy_only=False)] = _MISSING
    return found


def tuples(parts: Sequence[Elements], rows: int, depth: int = 0) -> Elements:
    """The fingerprints of tuples, from those of their parts at the depth below."""
    return _combined(parts, rows, tuple_key(depth))


def of_tuples(parts: Sequence[Elements], rows: int) -> Elements:
    """The addresses of tuples of codes, which are any words below p."""
    return _combined(parts, rows, ADDRESS_KEY)


def _combined(parts: Sequence[Elements], rows: int, key: int) -> Elements:
    state = np.full(rows, TUPLE << 48 | len(parts), dtype=np.uint64)
    for words in parts:
        _absorb(state, words, np.uint64(key))
    _absorb(state, np.zeros(rows, dtype=np.uint64), np.uint64(key))
    return state


def tuple_powers(parts: int) -> tuple[int, NDArray[np.uint64]]:
    """The constant c and the factors f with which `of_tuples` is c + Σ f·part modulo p, for tuples of this length."""
    powers = [pow(ADDRESS_KEY, parts - place, P) for place in range(parts)]
    start = TUPLE << 48 | parts
    return start * pow(ADDRESS_KEY, parts + 1, P) % P, np.array(powers, dtype=np.uint64)


@compiled
def _absorb(state: Any, words: Any, key: Any) -> None:
    for place in range(len(state)):
        state[place] = horner(state[place], key, words[place])


@compiled
def _of_halves(numbers: Any, kinds: Any, key: Any) -> Elements:
    found = np.empty(len(numbers), dtype=np.uint64)
    for place in range(len(numbers)):
        state = horner((kinds[place] << _48) | np.uint64(2), key, numbers[place] & _HALF)
        found[place] = times(horner(state, key, numbers[place] >> _32), key)
    return found


@compiled
def _of_bytes(offsets: Any, raw: Any, kind: int, key: Any) -> Elements:
    found = np.empty(len(offsets) - 1, dtype=np.uint64)
    for place in range(len(found)):
        start, end = offsets[place], offsets[place + 1]
        state: Any = (np.uint64(kind) << _48) | np.uint64(end - start)
        while start < end:
            word = np.uint64(0)
            for digit in range(min(7, end - start)):
                word |= np.uint64(raw[start + digit]) << np.uint64(8 * digit)
            state = horner(state, key, word)
            start += 7
        found[place] = times(state, key)
    return found
