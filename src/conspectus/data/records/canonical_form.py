"""The canonical form of a record: bytes that say which record it is, exactly, and from which it can be read back.

    N missing                          T text, in UTF-8                      D day     8 bytes, high ones first,
    B true or false, a byte            Y bytes                               M moment  of its number plus 2**62
    + whole number   8 bytes, high     E decimal, as digits E power          ( tuple   a number of parts, then each
    - negative one   ones first        S span, as microseconds in digits     { set     part: its length, its bytes
                                                                             = mapping pairs of key and value, so too
    R real number    of its 64 bits    L whole number beyond 63 bits         ~ more than 65,536 bytes: `shortened`

Numbers of parts and lengths have 8 bytes. The first byte tells the kind, everything but the last part of a form has a
known length, and lengths come before contents: so different forms (`forms`) have different bytes. Two records may
share a fingerprint; their bytes tell them apart. Sorted bytes stand by kind, texts in the order of their code points,
numbers of one kind by size. The bytes of a row depend on that row alone.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conspectus.data.columns.arrays import EPOCH, UNREADABLE

from .field import P
from .fingerprints import of_form
from .forms import (
    BYTES,
    DAY,
    DECIMAL,
    HOLDING,
    LONG,
    MAP,
    MOMENT,
    NEGATIVE,
    NULL,
    REAL,
    SET,
    SHIFT,
    SPAN,
    TEXT,
    TRUTH,
    TUPLE,
    WHOLE,
    Form,
    form_of,
)
from .record_encoding import Encoded, RecordEncoding

LONGEST = 1 << 16
"""Bytes of a canonical form that is kept whole."""

_TAGS = {
    NULL: b"N", TRUTH: b"B", WHOLE: b"+", NEGATIVE: b"-", LONG: b"L", REAL: b"R", TEXT: b"T", BYTES: b"Y", DAY: b"D",
    MOMENT: b"M", DECIMAL: b"E", TUPLE: b"(", SPAN: b"S", SET: b"{", MAP: b"=",
}  # fmt: skip
_KINDS = {tag[0]: kind for kind, tag in _TAGS.items()}
_WORDS = (WHOLE, NEGATIVE, REAL, DAY, MOMENT)
_SHORTENED = b"~"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNREADABLE = (ValueError, ArithmeticError, LookupError, TypeError, struct.error)
_spelled = re.compile(f"{UNREADABLE}ef{UNREADABLE}bf{UNREADABLE}bd|{UNREADABLE}[89a-f][0-9a-f]")
_part = struct.Struct(">Q")


class NotCanonical(ValueError):
    """Bytes that are no canonical form of a record."""


@dataclass(frozen=True, order=True)
class LongRecord:
    """A record whose canonical form is too long to keep: how many bytes it has, their SHA-256, and the fingerprint."""

    length: int
    sha256: str
    fingerprint: int


@dataclass(frozen=True, order=True)
class OpaqueRecord:
    """The canonical form of a record that Python has no value for, as a set of two numbers that are equal in Python."""

    form: bytes


def canonical(record: object, depth: int = 0) -> bytes:
    """The canonical form of one record, whole."""
    return _encoded(form_of(record, depth))


def _encoded(form: Form) -> bytes:
    kind, held = form
    if kind in _WORDS:
        return _TAGS[kind] + _part.pack((1 << 64) - held if kind == NEGATIVE else held)
    if kind == TRUTH:
        return _TAGS[kind] + bytes([held])
    if kind in HOLDING:
        parts = [_encoded(part) for part in held]
        return _joined(_TAGS[kind], parts if kind == TUPLE else sorted(parts))
    return _TAGS[kind] + bytes(held)


def _joined(tag: bytes, parts: Sequence[bytes]) -> bytes:
    return tag + _part.pack(len(parts)) + b"".join([_part.pack(len(part)) + part for part in parts])


def shortened(whole: bytes) -> bytes:
    """A canonical form; in place of one with more than `LONGEST` bytes its length, its digest and its fingerprint.

    What is kept of a record depends on that record alone, whatever other records there are.
    """
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(whole).digest()
    return b"".join([_SHORTENED, _part.pack(len(whole)), digest, _part.pack(of_form(_form(whole, 0)))])


def address(kept: bytes) -> int:
    """The fingerprint of the record whose canonical form, or what `shortened` left of it, these bytes are."""
    return int.from_bytes(kept[-8:]) if kept.startswith(_SHORTENED) else of_form(_form(kept, 0))


def read(kept: bytes) -> object:
    """The record itself, from its canonical form or from what `shortened` left of it.

    This is None, a truth, a number, a text, bytes, a date, a moment in UTC, a span of time, a tuple, a frozenset or a
    dict. A record that was shortened is a `LongRecord`, and one that Python has no value for an `OpaqueRecord`. Other
    bytes raise `NotCanonical`."""
    if kept.startswith(_SHORTENED):
        if len(kept) != 49 or (length := int.from_bytes(kept[1:9])) <= LONGEST or address(kept) >= P:
            raise NotCanonical("these bytes are no canonical form of a record")
        return LongRecord(length, kept[9:41].hex(), address(kept))
    try:
        if len(kept) <= LONGEST:
            form = _form(kept, 0)
            record = _record(form)
            if canonical(record) == kept:
                return record
            if _encoded(form) == kept and _sound(form):
                return OpaqueRecord(kept)
    except _UNREADABLE:
        pass
    raise NotCanonical("these bytes are no canonical form of a record")


def _record(form: Form) -> object:
    """The value of a form, if it has one."""
    try:
        return _value(form)
    except _UNREADABLE:
        return None


def _sound(form: Form) -> bool:
    """Whether each plain value in a form reads back as itself, and sets and mappings are sorted and distinct."""
    kind, held = form
    if kind in (SET, MAP) and any(after <= before for before, after in pairwise(map(_encoded, held))):
        return False
    if kind == MAP and any(part[0] != TUPLE or len(part[1]) != 2 for part in held):
        return False
    return all(map(_sound, held)) if kind in HOLDING else canonical(_value(form)) == _encoded(form)


def _form(raw: bytes, depth: int) -> Form:
    kind, held = _KINDS[raw[0]], raw[1:]
    if kind in _WORDS:
        (word,) = _part.unpack(held)
        return kind, (1 << 64) - word if kind == NEGATIVE else word
    if kind == TRUTH:
        return kind, int.from_bytes(held)
    if kind not in HOLDING:
        return kind, held
    if depth > 64:
        raise NotCanonical("these bytes are no canonical form of a record")
    parts, at = [], 8
    while at < len(held):
        (length,) = _part.unpack_from(held, at)
        parts.append(_form(held[at + 8 : at + 8 + length], depth + 1))
        at += 8 + length
    return kind, tuple(parts)


def _value(form: Form) -> Any:
    kind, held = form
    return _READERS[kind](held)


def _unspelled(signs: re.Match[str]) -> str:
    """What `mended` spelled out: a true U+FFFD, or one byte, as a text holds what is no UTF-8.

    Bytes are read one by one: neighbours that were wrong each by itself do not become a sign together.
    """
    return UNREADABLE if len(signs[0]) > 3 else chr(0xDC00 | int(signs[0][1:], 16))


_READERS: dict[int, Callable[[Any], Any]] = {
    NULL: lambda held: None,
    TRUTH: bool,
    WHOLE: int,
    NEGATIVE: lambda held: -held,
    LONG: lambda held: int.from_bytes(held, "little", signed=True),
    REAL: lambda held: struct.unpack(">d", _part.pack(held))[0],
    TEXT: lambda held: _spelled.sub(_unspelled, held.decode()),
    BYTES: bytes,
    DAY: lambda held: datetime.date.fromordinal(held - SHIFT + EPOCH),
    MOMENT: lambda held: _EPOCH + datetime.timedelta(microseconds=held - SHIFT),
    DECIMAL: lambda held: decimal.Decimal(held.decode()),
    SPAN: lambda held: datetime.timedelta(microseconds=int(held)),
    TUPLE: lambda held: tuple(map(_value, held)),
    SET: lambda held: frozenset(map(_value, held)),
    MAP: lambda held: dict(map(_value, held)),
}


def _plain(values: pa.Array) -> Encoded:
    """Arrays of plain types: what `canonical` says of each value."""
    kind = values.type
    if pa.types.is_null(kind):
        return _gathered([b"N"] * len(values))
    if kind in (pa.large_string(), pa.large_binary()):
        tag = _TAGS[TEXT if kind == pa.large_string() else BYTES]
        return _gathered([tag + (raw or b"") for raw in pc.cast(values, pa.large_binary()).to_pylist()])
    filled = pc.fill_null(values, False if pa.types.is_boolean(kind) else 0)
    if pa.types.is_boolean(kind):
        return _gathered([b"B\1" if value else b"B\0" for value in filled.to_pylist()])
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        width, tag = (pa.int32(), b"D") if pa.types.is_date32(kind) else (pa.int64(), b"M")
        return _words(tag, filled.view(width).to_numpy(zero_copy_only=False).astype(np.int64) + SHIFT)
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        whole = pc.cast(filled, pa.int64()).to_numpy(zero_copy_only=False)
        found = np.where(whole < 0, _words(b"-", whole), _words(b"+", whole))
        for place in np.flatnonzero(whole == np.iinfo(np.int64).min).tolist():  # it alone has no 63-bit size
            found[place] = canonical(int(whole[place]))
        return found
    return _gathered([canonical(value) for value in filled.to_pylist()])


def _words(tag: bytes, numbers: Any) -> Encoded:
    raw = np.empty((len(numbers), 9), dtype=np.uint8)
    raw[:, 0] = tag[0]
    raw[:, 1:] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)  # in two's complement, 2**64 − |n| for −|n|
    whole = raw.tobytes()
    return _gathered([whole[at : at + 9] for at in range(0, len(whole), 9)])


def _tuples(parts: Sequence[Encoded], rows: int, depth: int) -> Encoded:
    return _rows_of(b"(", parts, rows)


def _maps(pairs: Sequence[Encoded], rows: int, depth: int) -> Encoded:
    """Pairs of keys that differ, and are the same in each row: their order is that of the first row."""
    return _rows_of(b"=", sorted(pairs, key=lambda pair: bytes(pair[0])) if rows else pairs, rows)


def _rows_of(tag: bytes, parts: Sequence[Encoded], rows: int) -> Encoded:
    head = tag + _part.pack(len(parts))
    columns = [[_length(len(raw)) + raw for raw in part] for part in parts]
    return _gathered([head + b"".join(row) for row in zip(*columns)] if columns else [head] * rows)


@lru_cache(maxsize=1 << 10)
def _length(length: int) -> bytes:
    return _part.pack(length)


def _gathered(raw: list[bytes]) -> Encoded:
    return np.fromiter(raw, dtype=object, count=len(raw))


CANONICAL = RecordEncoding(missing=b"N", dtype=object, one=canonical, plain=_plain, tuples=_tuples, maps=_maps)
"""Canonical forms of many records, whole."""


def shortened_forms(whole: Encoded) -> Encoded:
    """The canonical forms that are kept: each shortened by itself."""
    return _gathered([shortened(raw) for raw in whole])
