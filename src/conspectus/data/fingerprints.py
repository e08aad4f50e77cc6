"""A public fingerprint of a record of any kind: one element of the field of p = 2**61 − 1 elements.

A record is written as words w_0, w_1, …, w_L: w_0 holds its kind and its length, the others its contents, each below p.
Its fingerprint is w_0·a^(L+1) + w_1·a^L + … + w_L·a modulo p, with one public constant a. Records that are written
differently have different polynomials of degree at most L + 1, so two given records collide for at most L + 1 of the p
values that a can have: among N records of at most 7·L bytes less than N²·(L + 1)/2**62 pairs are expected to collide,
if a has nothing to do with the records. A record is fingerprinted by itself, so a collision costs accuracy and nothing
else: the guarantee is about a table of fingerprints.

What is the same record: whole numbers of any type, also 1.0 and 1; texts by their UTF-8; bytes; true and false; dates;
moments to the microsecond in UTC; tuples, lists and structs by their parts in order. Missing, None and NaN are one.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from conspectus.data.arrays import EPOCH, mended, tidy
from conspectus.data.field import Elements, P, compiled, horner, times

NULL, TRUTH, WHOLE, NEGATIVE, LONG, REAL, TEXT, BYTES, DAY, MOMENT, DECIMAL, TUPLE = range(1, 13)
KEY = int.from_bytes(hashlib.sha256(b"conspectus: the key of the public fingerprint of records").digest()) % P
"""The constant a."""

_a = np.uint64(KEY)
_48, _32 = np.uint64(48), np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_PLAIN = (str, bytes, int, float)


def fingerprint(record: object) -> int:
    """The fingerprint of one record: what every other way to compute it agrees with."""
    kind, words, length = _written(record)
    state = kind << 48 | length
    for word in words:
        state = (state * KEY + word) % P
    return state * KEY % P


def _written(record: object) -> tuple[int, Iterable[int], int]:
    """The kind of a record, its words and its length."""
    if isinstance(record, np.generic):
        record = record.item()
    if isinstance(record, bool):
        return TRUTH, (int(record), 0), 2
    if isinstance(record, float) and not math.isnan(record):
        if not record.is_integer() or abs(record) >= 1 << 63:
            return REAL, _halves(int(np.float64(record).view(np.uint64))), 2
        record = int(record)
    if isinstance(record, decimal.Decimal) and record.is_finite():
        if record != record.to_integral_value():
            return _bytes(DECIMAL, format(record.normalize(), "f").encode())
        record = int(record)
    if isinstance(record, int):
        if abs(record) >= 1 << 63:
            return _bytes(LONG, str(record).encode())
        return (NEGATIVE if record < 0 else WHOLE), _halves(abs(record)), 2
    if isinstance(record, str):
        return _bytes(TEXT, mended(record).encode())
    if isinstance(record, bytes | bytearray | memoryview):
        return _bytes(BYTES, bytes(record))
    if isinstance(record, datetime.datetime) and record == record:
        moment = record if record.tzinfo is not None else record.replace(tzinfo=datetime.UTC)
        return MOMENT, _halves((moment - _EPOCH) // _MICROSECOND + (1 << 62)), 2
    if isinstance(record, datetime.date):
        return DAY, _halves(record.toordinal() - EPOCH + (1 << 62)), 2
    if isinstance(record, tuple | list):
        return TUPLE, map(fingerprint, record), len(record)
    if isinstance(record, dict):
        return TUPLE, map(fingerprint, record.values()), len(record)
    if record is None or record != record or type(record).__name__ == "NAType":
        return NULL, (), 0
    return _bytes(TEXT, mended(str(record)).encode())


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def _bytes(kind: int, raw: bytes) -> tuple[int, Iterable[int], int]:
    return kind, (int.from_bytes(raw[at : at + 7], "little") for at in range(0, len(raw), 7)), len(raw)


def fingerprints(records: Any) -> Elements:
    """The fingerprints of many records: an Arrow or numpy array, a series, or any sequence of values."""
    if isinstance(records, pa.ChunkedArray):
        parts = [fingerprints(chunk) for chunk in records.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)
    if isinstance(records, pa.Array):
        return _of_array(records)
    if isinstance(records, np.ndarray) and records.ndim == 1 and records.dtype.kind in "iufbUS":
        return _of_array(pa.array(records.tolist() if records.dtype.kind in "US" else records))
    values = records.tolist() if hasattr(records, "tolist") else list(records)
    kinds = set(map(type, values)) - {type(None)}
    # Arrow may read values of several types as one: only where they have one type is that the same record.
    if len(kinds) == 1 and kinds <= set(_PLAIN):
        try:
            return _of_array(pa.array(values))
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # whole numbers beyond 64 bits, texts with halves of signs
    return np.fromiter(map(fingerprint, values), dtype=np.uint64, count=len(values))


def _of_array(values: pa.Array) -> Elements:
    kind = values.type
    if pa.types.is_dictionary(kind):
        table = np.append(_of_array(values.dictionary), np.uint64(fingerprint(None)))
        places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(table) - 1).to_numpy(zero_copy_only=False)
        found: Elements = table[places]
        return found
    if pa.types.is_struct(kind):
        return _with_nulls(values, of_tuples([_of_array(part) for part in values.flatten()], len(values)))
    if pa.types.is_nested(kind) or pa.types.is_decimal(kind):
        return np.fromiter(map(fingerprint, values.to_pylist()), dtype=np.uint64, count=len(values))
    plain = tidy(values)
    return _with_nulls(plain, _of_plain(plain))


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
    whole = (reals == np.floor(reals)) & (np.abs(reals) < 2.0**63)
    numbers = np.where(whole, reals, 0.0).astype(np.int64)
    bits = _of_halves(reals.view(np.uint64), np.full(len(reals), REAL, dtype=np.uint64), _a)
    found = np.where(whole, _of_integers(numbers), bits)
    found[np.isnan(reals)] = fingerprint(None)
    return found


def _with_nulls(values: pa.Array, found: Elements) -> Elements:
    if values.null_count:
        found[pc.is_null(values).to_numpy(zero_copy_only=False)] = fingerprint(None)
    return found


def of_tuples(parts: Sequence[Elements], rows: int) -> Elements:
    """The fingerprints of tuples, from those of their parts (or from any words below p)."""
    state = np.full(rows, TUPLE << 48 | len(parts), dtype=np.uint64)
    for words in parts:
        _absorb(state, words, _a)
    _absorb(state, np.zeros(rows, dtype=np.uint64), _a)
    return state


def tuple_powers(parts: int) -> tuple[int, NDArray[np.uint64]]:
    """The constant c and the factors f with which `of_tuples` is c + Σ f·part modulo p, for tuples of this length."""
    key = int(_a)
    powers = [pow(key, parts - place, P) for place in range(parts)]
    start = TUPLE << 48 | parts
    return start * pow(key, parts + 1, P) % P, np.array(powers, dtype=np.uint64)


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
