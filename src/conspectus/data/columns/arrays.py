"""Arrow arrays in the few types that are read here, whatever types and values they arrive with.

Nothing here fails on a value, and nothing that is done to one value depends on another one: the type of a result
depends on the type of the array alone. Dates beyond the years 1 to 9999 become null. Bytes that are no UTF-8 become
signs that make their text unreadable and keep it different from all other texts, so that no two ids become one.
"""

from __future__ import annotations

import datetime
import re
import uuid

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
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_wrong = re.compile(f"[\ud800-\udfff{UNREADABLE}]")
_loose = re.compile(f"{UNREADABLE}(?![89a-f][0-9a-f])")
_PLAIN = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_null, pa.types.is_float32, pa.types.is_float64)


def tidy(values: pa.Array, *, mended: bool = False) -> pa.Array:
    """An array as truths, numbers, large texts, large bytes, days or microseconds; lists and the like are all null.

    `mended` says that the texts of the array have been mended already. Mending them twice would raise no error, but
    would turn them into other texts.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _uuids(values.storage) if isinstance(kind, pa.UuidType) else tidy(values.storage, mended=mended)
    if pa.types.is_dictionary(kind):
        return tidy(values.dictionary, mended=mended).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return tidy(pc.run_end_decode(values), mended=mended)
    if any(check(kind) for check in _PLAIN):
        return values
    if kind in (pa.string(), TEXT, pa.string_view()):
        return _settled(values) if mended else _texts(values)
    if pa.types.is_fixed_size_binary(kind) or kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        return pc.cast(values, pa.large_binary())
    if pa.types.is_float16(kind):
        return pc.cast(values, pa.float32())
    if pa.types.is_decimal(kind):
        return _decimals(values)
    if pa.types.is_date32(kind):
        return _within(pc.cast(values, pa.int32()), FIRST_DAY, LAST_DAY).view(pa.date32())
    if pa.types.is_date64(kind):
        return _days(values)
    if pa.types.is_timestamp(kind):
        return _moments(values)
    if pa.types.is_time(kind):
        return _times(values)
    return pa.nulls(len(values), TEXT)


def tidied(kind: pa.DataType) -> pa.DataType:
    """The type that `tidy` gives arrays of a type."""
    return tidy(pa.nulls(0, kind)).type


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
    return pc.cast(values, TEXT if pa.types.is_decimal256(kind) else pa.decimal128(kind.precision, kind.scale))


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


def _moments(values: pa.Array) -> pa.Array:
    """Moments in microseconds by the wall clock in UTC, which is the same in every place."""
    parts = _PARTS[values.type.unit]
    day = _SECONDS * parts
    whole, absent = _whole(_within(pc.cast(values, pa.int64()), FIRST_DAY * day, (LAST_DAY + 1) * day - 1))
    whole = whole // (parts // _PARTS["us"]) if parts > _PARTS["us"] else whole * (_PARTS["us"] // parts)
    return pa.array(whole, mask=absent).view(pa.timestamp("us"))


def _times(values: pa.Array) -> pa.Array:
    """Times of day as texts, as in 09:30:00 and 09:30:00.5."""
    narrow = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
    inside = _within(pc.cast(values, narrow), 0, _SECONDS * _PARTS[values.type.unit] - 1)
    text = pc.cast(inside.view(values.type), TEXT)
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"\.0+$", ""), r"(\.[0-9]*[1-9])0+$", r"\1")
