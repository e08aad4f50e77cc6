"""Arrow arrays in the few types that are read here, whatever types and values they arrive with.

Nothing here fails on a value, and nothing that is done to one value depends on another one: the type of a result
depends on the type of the array alone. Dates beyond the years 1 to 9999 become null. Bytes that are no UTF-8 become
signs that make their text unreadable and keep it different from all other texts, so that no two ids become one. Spans
of time have no place in a column of texts, numbers or dates: they become unreadable texts too.

One person's long text may ask for much memory in the place of many short ones. So a dictionary stays one: its texts are
read once each and never written out for every row.
"""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

EPOCH = datetime.date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = 1 - EPOCH, datetime.date.max.toordinal() - EPOCH
UNREADABLE = "\ufffd"
TEXT = pa.large_string()
_SECONDS = 86_400
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST_SECONDS = (1 << 63) // 10**6 - 1
"""Spans of time from here on have too many microseconds for 64 bits."""
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_wrong = re.compile(f"[\ud800-\udfff{UNREADABLE}]")
_MARK = f"{UNREADABLE}ff"
_LONGEST = 400  # digits before or after the point: no number beyond has a place on any axis
_loose = re.compile(f"{UNREADABLE}(?![89a-f][0-9a-f])")
_PLAIN = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_null, pa.types.is_float32, pa.types.is_float64)


def no_texts(values: pa.Array) -> pa.Array:
    """As many missing texts."""
    return pa.nulls(len(values), TEXT)


def tidy(values: pa.Array, *, mended: bool = False, other: Callable[[pa.Array], pa.Array] = no_texts) -> pa.Array:
    """An array as truths, numbers, large texts, large bytes, days or microseconds.

    A dictionary stays one, of such values, and so do runs of equal values. Of lists and the like `other` makes texts.

    `mended` says that the texts of the array have been mended already. Mending them twice would raise no error, but
    would turn them into other texts.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return tidy(stored(values), mended=mended, other=other)
    if pa.types.is_run_end_encoded(kind):
        return tidy(runs(values), mended=mended, other=other)
    if pa.types.is_dictionary(kind):
        return _at(values.indices, tidy(values.dictionary, mended=mended, other=other))
    if any(check(kind) for check in _PLAIN):
        return values
    if kind in (pa.string(), TEXT, pa.string_view()):
        return _settled(values) if mended else _texts(values)
    if pa.types.is_fixed_size_binary(kind) or kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        return pc.cast(values, pa.large_binary())
    return next((read for check, read in _READERS if check(kind)), other)(values)


def stored(values: pa.ExtensionArray) -> pa.Array:
    """What an array of an extension type holds, as the values that it stands for."""
    if isinstance(values.type, pa.UuidType):
        return _uuids(values.storage)
    return pc.not_equal(values.storage, 0) if isinstance(values.type, pa.Bool8Type) else values.storage


def runs(values: pa.RunEndEncodedArray) -> pa.DictionaryArray:
    """Runs of equal values as a dictionary: written out, one long text might ask for any memory."""
    places = pa.array(np.arange(len(values.values), dtype=np.int32))
    whole = pa.RunEndEncodedArray.from_arrays(values.run_ends, places)
    return _at(pc.run_end_decode(whole.slice(values.offset, len(values))), values.values)


def _at(places: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """The values that stand at some places, as a dictionary of no dictionary."""
    if pa.types.is_dictionary(values.type):
        return _at(values.indices.take(places), values.dictionary)
    return pa.DictionaryArray.from_arrays(places, values)


def tidied(kind: pa.DataType) -> pa.DataType:
    """The type that `tidy` gives arrays of a type."""
    return tidy(pa.nulls(0, kind)).type


def marked(what: str) -> str:
    """The unreadable text of a value that no column reads, such as a span of time. As an id it is like no other."""
    return _MARK + what


def span(microseconds: int) -> str:
    """The unreadable text of a span of time."""
    return marked(f"span {microseconds}")


def plain_time(value: np.datetime64 | np.timedelta64) -> datetime.datetime | datetime.timedelta | None:
    """A moment or a span of numpy as one of Python, to the microsecond below; None where Python has none."""
    micro = value.astype(f"{value.dtype.kind}8[us]")
    unit, count = np.datetime_data(value.dtype)
    if unit in _FINER:
        ticks = int(value.astype(np.int64)) * count
        micro = np.array(ticks // _FINER[unit]).astype(micro.dtype)[()] if value == value else micro
    elif value == value and micro.astype(value.dtype) != value:
        return None  # too many microseconds for 64 bits, and numpy goes round
    found = micro.item()
    return found if isinstance(found, datetime.datetime | datetime.timedelta) else None


def digits(number: decimal.Decimal) -> str | None:
    """A decimal as its digits, all of them, without zeros at the end; None where it is no finite number."""
    if not number.is_finite():
        return None
    if number and abs(number.adjusted()) >= _LONGEST:
        return str(number)
    text = format(number, "f")  # not normalize(), which rounds to the digits of its context
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if not number else text


def mended(raw: bytes | str) -> str:
    """Bytes as text. Each byte that is no UTF-8 reads as U+FFFD and its two hexadecimal digits.

    A true U+FFFD reads as if its three bytes were wrong: so different bytes are different texts.
    """
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "surrogateescape")
    return _wrong.sub(_spelled, raw)


def _spelled(sign: re.Match[str]) -> str:
    code = ord(sign[0])
    # Half a pair of UTF-16 that stands for a single byte is spelled as that byte, any other one by its three.
    raw = bytes([code & 0xFF]) if 0xDC80 <= code < 0xDD00 else sign[0].encode("utf-8", "surrogatepass")
    return "".join(f"{UNREADABLE}{byte:02x}" for byte in raw)


def _texts(values: pa.Array) -> pa.Array:
    plain = pc.cast(values, pa.large_binary())
    try:
        values.validate(full=True)
        whole = pc.cast(values, TEXT)
        odd = pc.any(pc.match_substring(whole, UNREADABLE)).as_py()
    except pa.ArrowInvalid:
        odd = True
    return pa.array([None if raw is None else mended(raw) for raw in plain.to_pylist()], TEXT) if odd else whole


def _settled(values: pa.Array) -> pa.Array:
    """Texts that were mended stay as they are. An expression may have cut through a sign: what it left is mended."""
    whole = pc.cast(values, TEXT)
    if not pc.any(pc.match_substring(whole, UNREADABLE)).as_py():
        return whole
    return pa.array([None if text is None else _loose.sub(_spelled, text) for text in whole.to_pylist()], TEXT)


def _uuids(values: pa.Array) -> pa.Array:
    return pa.array([None if raw is None else str(uuid.UUID(bytes=raw)) for raw in values.to_pylist()], TEXT)


def _decimals(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal128(kind):
        return values
    if pa.types.is_decimal256(kind):
        return pa.array([None if number is None else digits(number) for number in values.to_pylist()], TEXT)
    return pc.cast(values, pa.decimal128(kind.precision, kind.scale))


def _within(values: pa.Array, low: int, high: int) -> pa.Array:
    """Integers, null where they lie outside."""
    inside = pc.and_(pc.greater_equal(values, max(low, _LEAST)), pc.less_equal(values, min(high, _MOST)))
    return pc.if_else(inside, values, pa.scalar(None, values.type))


def _whole(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    absent = pc.is_null(values).to_numpy(zero_copy_only=False)
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False), absent


def _days(values: pa.Array) -> pa.Array:
    parts = _SECONDS * _PARTS["ms"]
    whole, absent = _whole(_within(pc.cast(values, pa.int64()), FIRST_DAY * parts, (LAST_DAY + 1) * parts - 1))
    return pa.array((whole // parts).astype(np.int32), mask=absent).view(pa.date32())


def _microseconds(values: pa.Array, low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Ticks of a type with a unit in microseconds, rounded down; and which are null, or not from `low` to `high` − 1.

    The bounds are whole seconds.
    """
    parts, micro = _PARTS[values.type.unit], _PARTS["us"]
    ticks = pc.cast(pc.cast(values, pa.int32()) if pa.types.is_time32(values.type) else values, pa.int64())
    whole, absent = _whole(_within(ticks, low * parts, high * parts - 1))
    return (whole // (parts // micro) if parts > micro else whole * (micro // parts)), absent


def _moments(values: pa.Array) -> pa.Array:
    """Moments in microseconds by the wall clock in UTC, which is the same in every place."""
    whole, absent = _microseconds(values, FIRST_DAY * _SECONDS, (LAST_DAY + 1) * _SECONDS)
    return pa.array(whole, mask=absent).view(pa.timestamp("us"))


def _times(values: pa.Array) -> pa.Array:
    """Times of day to the microsecond as texts, as in 09:30:00 and 09:30:00.5. After 24 hours it is 00:00:00 again."""
    whole, absent = _microseconds(values, -MOST_SECONDS, MOST_SECONDS)
    text = pc.cast(pa.array(whole % (_SECONDS * _PARTS["us"]), mask=absent).view(pa.time64("us")), TEXT)
    plain = pc.replace_substring_regex(text, r"\.0+$", "")
    return pc.replace_substring_regex(plain, r"(\.[0-9]*[1-9])0+$", r"\1")


def _spans(values: pa.Array) -> pa.Array:
    """Spans of time to the microsecond as unreadable texts; null where they have too many."""
    whole, absent = _microseconds(values, -MOST_SECONDS, MOST_SECONDS)
    return pa.array([None if gone else span(at) for at, gone in zip(whole.tolist(), absent.tolist())], TEXT)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_float16, lambda values: pc.cast(values, pa.float32())),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date32, lambda values: _within(pc.cast(values, pa.int32()), FIRST_DAY, LAST_DAY).view(pa.date32())),
    (pa.types.is_date64, _days),
    (pa.types.is_timestamp, _moments),
    (pa.types.is_time, _times),
    (pa.types.is_duration, _spans),
)
"""How arrays of other types are read, the first that fits."""
