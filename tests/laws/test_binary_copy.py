"""The bytes of PostgreSQL's binary COPY become the values that were sent; other bytes are refused."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.data.sources.postgres import copying
from conspectus.data.sources.postgres.copying import CopyError, Decoder

HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
END = b"\xff\xff"
DAY = datetime.date(2000, 1, 1)
MOMENT = datetime.datetime(2000, 1, 1)
PACKED = {"bool": ">?", "int2": ">h", "int4": ">i", "int8": ">q", "float4": ">f", "float8": ">d"}


def sent(kind: str, value: object) -> bytes:
    """A field as the server writes it."""
    if value is None:
        return struct.pack(">i", -1)
    if kind == "text":
        body = str(value).encode()
    elif kind == "bytea":
        body = bytes(value)  # type: ignore[call-overload]
    elif kind == "date":
        body = struct.pack(">i", (value - DAY).days)  # type: ignore[operator]
    elif kind == "timestamp":
        body = struct.pack(">q", (value - MOMENT) // datetime.timedelta(microseconds=1))  # type: ignore[operator]
    else:
        body = struct.pack(PACKED[kind], value)
    return struct.pack(">i", len(body)) + body


def row(kinds: Sequence[str], values: Sequence[object]) -> bytes:
    return struct.pack(">h", len(kinds)) + b"".join(map(sent, kinds, values))


def read(kinds: Sequence[str], *blocks: bytes) -> list[tuple[object, ...]]:
    decoder = Decoder(kinds)
    found = []
    for block in blocks:
        batch = decoder.batch(np.frombuffer(block, dtype=np.uint8))
        batch.validate(full=True)
        found += list(zip(*(column.to_pylist() for column in batch.columns)))
    return found


VALUES: dict[str, st.SearchStrategy[object]] = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float4": st.floats(width=32, allow_nan=False),
    "float8": st.floats(allow_nan=False),
    "text": st.text(max_size=9),
    "bytea": st.binary(max_size=9),
    "date": st.dates(),
    "timestamp": st.datetimes(),
}


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_was_sent_is_read(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    rows = data.draw(st.lists(st.tuples(*(st.none() | VALUES[kind] for kind in kinds)), max_size=8))
    cut = data.draw(st.integers(0, len(rows)))
    written = [row(kinds, values) for values in rows]
    blocks = [HEAD + b"".join(written[:cut]), b"".join(written[cut:]) + END]
    assert read(kinds, *blocks) == rows


def test_values_without_a_counterpart_are_missing() -> None:
    def field(form: str, value: int) -> bytes:
        return struct.pack(">hi", 1, struct.calcsize(form)) + struct.pack(form, value)

    for kind, form, values in (
        ("date", ">i", (2**31 - 1, -(2**31))),
        ("timestamp", ">q", (2**63 - 1, -(2**63), 9223371331199999999)),
    ):
        assert read([kind], HEAD + b"".join(field(form, value) for value in values) + END) == [(None,)] * len(values)
    (found,) = read(["float8"], HEAD + row(["float8"], [math.nan]) + END)
    assert isinstance(found[0], float)
    assert math.isnan(found[0])


def test_bytes_that_are_not_of_the_format_are_refused() -> None:
    kinds = ["int2", "text"]
    good = HEAD + row(kinds, [1, "abc"]) + row(kinds, [2, None]) + END
    assert len(read(kinds, good)) == 2
    for end in range(19, len(good)):
        rows = 19, 19 + len(row(kinds, [1, "abc"])), len(good) - 2
        if end not in rows:
            with pytest.raises(CopyError):
                read(kinds, good[:end])
    for bad in (b"", b"PGCOPY", good.replace(b"PGCOPY", b"PGCOPX"), good + b"\0", HEAD + row(["int2"], [1]) + END):
        with pytest.raises(CopyError):
            read(kinds, bad)
    with pytest.raises(CopyError):  # nine bytes are no number
        read(["int8"], HEAD + struct.pack(">hi", 1, 9) + bytes(9) + END)


class _Wire:
    """A connection that hands over messages, and then says how it ended."""

    def __init__(self, messages: Sequence[bytes], end: int) -> None:
        self._messages, self._end = list(messages), end

    def get_copy_data(self, async_: int) -> tuple[int, memoryview]:
        if not self._messages:
            return self._end, memoryview(b"")
        found = self._messages.pop(0)
        return len(found), memoryview(found)


def test_messages_are_joined_into_blocks_and_a_broken_end_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "libpq", lambda: None)
    monkeypatch.setattr(copying, "BLOCK", 100)
    kinds = ["text"]
    messages = [HEAD + row(kinds, ["a"]), *(row(kinds, ["b" * size]) for size in range(0, 300, 7)), END]
    blocks = [block.tobytes() for block in copying.blocks(_Wire(messages, -1))]
    assert len(blocks) > 10
    assert [len(str(value)) for (value,) in read(kinds, *blocks)] == [1, *range(0, 300, 7)]
    with pytest.raises(CopyError):
        list(copying.blocks(_Wire(messages, -2)))
