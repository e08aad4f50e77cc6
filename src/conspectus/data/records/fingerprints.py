"""A public fingerprint of a record of any kind: one element of the field of p = 2**61 − 1 elements.

The form of a record (`forms`) is written as words w_0, w_1, …, w_L: w_0 holds its kind and its length, the others its
contents, each below p. Its fingerprint is w_0·a^(L+1) + w_1·a^L + … + w_L·a modulo p, with a public constant a. The
words of a tuple are the fingerprints of its parts, and its constant is another one: each depth at which a tuple stands
within tuples has its own. Values that are written differently have different polynomials of degree at most L + 1, so
two given ones collide for at most L + 1 of the p values that a can have. Two tuples collide if all their parts do, or
for the constant of their depth: two given records collide with probability below D/p, where D adds up, over the depths,
the most words of a value there, and two more. Among N records less than N²·D/2**62 pairs are expected to collide, if
the constants have nothing to do with the records; the constants are public, so records can be made that do collide. A
record is fingerprinted by itself, so a collision costs accuracy and nothing else: the guarantee is about a table of
fingerprints. Where records themselves are published, they are told apart by their canonical forms (`canonical_form`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .field import Elements, P, horner, times
from .forms import (
    BYTES,
    DAY,
    DEEPEST,
    HOLDING,
    MAP,
    MOMENT,
    NEGATIVE,
    REAL,
    SHIFT,
    TEXT,
    TRUTH,
    TUPLE,
    WHOLE,
    Form,
    form_of,
)
from .record_encoding import RecordEncoding


def _constant(what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"conspectus: the key of the public {what}".encode()).digest()) % P


KEY = _constant("fingerprint of records")
"""The constant a of plain values."""
ADDRESS_KEY = _constant("address of a tuple of codes")
"""The constant of `of_tuples`: codes may be fingerprints themselves, so it is none of theirs."""

_a = np.uint64(KEY)
_48, _32 = np.uint64(48), np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)
_MISSING = (1 << 48) * KEY % P


@lru_cache(maxsize=DEEPEST + 1)
def tuple_key(depth: int) -> int:
    """The constant of tuples that stand within this many others."""
    return _constant(f"fingerprint of tuples at depth {depth}")


def fingerprint(record: object, depth: int = 0) -> int:
    """The fingerprint of one record: what every other way to compute it agrees with.

    `depth` says in how many tuples the record stands: 1 for the values of a row of several columns.
    """
    return of_form(form_of(record, depth), depth)


def of_form(form: Form, depth: int = 0) -> int:
    """The fingerprint of a record of this form."""
    kind, held = form
    words: Sequence[int]
    if kind in HOLDING:
        words = [of_form(part, depth + 1) for part in held]
        words, key, length = (words if kind == TUPLE else sorted(words)), tuple_key(depth), len(words)
    elif isinstance(held, int):
        words, key, length = (held & 0xFFFFFFFF, held >> 32), KEY, 2
    else:
        words = [int.from_bytes(held[at : at + 7], "little") for at in range(0, len(held), 7)]
        key, length = KEY, len(held)
    state = kind << 48 | length
    for word in words:
        state = (state * key + word) % P
    return state * key % P


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
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        width, form = (pa.int32(), DAY) if pa.types.is_date32(kind) else (pa.int64(), MOMENT)
        shifted = filled.view(width).to_numpy(zero_copy_only=False).astype(np.int64) + SHIFT
        return _of_halves(shifted.view(np.uint64), np.full(len(shifted), form, dtype=np.uint64), _a)
    whole = filled if pa.types.is_uint64(kind) else pc.cast(filled, pa.int64())
    return _of_integers(whole.to_numpy(zero_copy_only=False))


def _of_integers(whole: NDArray[np.int64] | NDArray[np.uint64]) -> Elements:
    kinds = np.where(whole < 0, np.uint64(NEGATIVE), np.uint64(WHOLE))
    sizes = np.abs(whole).view(np.uint64)
    found = _of_halves(sizes, kinds, _a)
    for place in np.flatnonzero(sizes >> np.uint64(63)).tolist():  # −2**63, and numbers from 2**63 on
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


def tuples(parts: Sequence[Elements], rows: int, depth: int = 0) -> Elements:
    """The fingerprints of tuples, from those of their parts at the depth below."""
    return _combined(parts, rows, tuple_key(depth))


def maps(pairs: Sequence[Elements], rows: int, depth: int = 0) -> Elements:
    """The fingerprints of mappings, from those of their pairs of a key and its value at the depth below."""
    held = np.sort(np.stack(pairs), axis=0) if pairs else ()
    return _combined(list(held), rows, tuple_key(depth), MAP)


def of_tuples(parts: Sequence[Elements], rows: int) -> Elements:
    """The addresses of tuples of codes, which are any words below p."""
    return _combined(parts, rows, ADDRESS_KEY)


def _combined(parts: Sequence[Elements], rows: int, key: int, kind: int = TUPLE) -> Elements:
    state = np.full(rows, kind << 48 | len(parts), dtype=np.uint64)
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


FINGERPRINTS = RecordEncoding(
    missing=np.uint64(_MISSING), dtype=np.uint64, one=fingerprint, plain=_of_plain, tuples=tuples, maps=maps
)


def fingerprints(records: Any, depth: int = 0) -> Elements:
    """The fingerprints of many records: an Arrow or numpy array, a series, or any sequence of values."""
    return FINGERPRINTS.of(records, depth)
