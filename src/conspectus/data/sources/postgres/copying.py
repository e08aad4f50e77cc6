"""Rows of PostgreSQL's binary COPY as Arrow arrays.

The server sends one message a row, and libraries that turn each of them into objects spend more time on that than
everything else here together. So messages are put one after the other into a block of bytes, and machine code reads the
blocks. The bytes come from libpq, which psycopg has made the connection with: directly, where the library can be found,
or through psycopg, which takes longer and gives the same bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from conspectus.compiled import compiled

BLOCK = 1 << 20
"""Bytes that are gathered before they are read: so many stay in a processor's own memory."""
KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "bytea": pa.large_binary(),
    "text": pa.large_string(),
}
"""The types that are sent as what they are, by their names there, and what they are here."""
_LONG = ("text", "bytea")
_SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
_ONE, _TWO, _FOUR, _EIGHT = map(np.uint64, (1, 2, 4, 8))
_MISSING, _END = np.uint64(2**32 - 1), np.uint64(2**16 - 1)
_FULL, _ENDED, _FAILED = 0, -1, -2  # the last two are libpq's own
_DAYS = 10957  # from 1970 to 2000
_MICROSECONDS = _DAYS * 86_400_000_000
_Bytes = NDArray[np.uint8]


class CopyError(Exception):
    """Rows that did not come, or not as they should."""


class Decoder:
    """The rows of one COPY, block after block.

    Args:
        kinds: The types of the columns, by the names of `KINDS`.
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = list(kinds)
        self._long = np.array([kind in _LONG for kind in kinds], dtype=np.bool_)
        self._begun = False
        self._values = np.empty((len(kinds), 0), dtype=np.int64)
        self._lengths = np.empty((len(kinds), 0), dtype=np.int32)

    def batch(self, block: _Bytes) -> pa.RecordBatch:
        """The rows whose bytes are one block: whole rows, of which the first block has the head of the format.

        Raises:
            CopyError: The bytes are not of the format.
        """
        start = 0 if self._begun else _head(block)
        self._begun = True
        width = len(self._kinds)
        room = len(block) // (2 + 4 * width) + 1  # a row has the number of its fields, and the length of each
        if room > self._values.shape[1]:
            self._values = np.empty((width, room), dtype=np.int64)
            self._lengths = np.empty((width, room), dtype=np.int32)
        rows = int(_read(block, np.uint64(start), self._long, self._values, self._lengths))
        if rows < 0:
            raise CopyError
        arrays = [
            _array(kind, self._values[place, :rows], self._lengths[place, :rows], block)
            for place, kind in enumerate(self._kinds)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{place}" for place in range(width)])


def blocks(connection: Any) -> Iterator[_Bytes]:
    """The bytes of a COPY that a connection of psycopg has begun, in blocks of whole rows.

    Raises:
        CopyError: The server or the network failed before the end.
    """
    yield from _from_library(connection, *functions) if (functions := libpq()) else _from_psycopg(connection)


def _from_psycopg(connection: Any) -> Iterator[_Bytes]:
    held: list[bytes] = []
    size = 0
    while (got := connection.get_copy_data(0))[0] > 0:
        held.append(bytes(got[1]))
        size += got[0]
        if size >= BLOCK:
            yield np.frombuffer(b"".join(held), dtype=np.uint8)
            held, size = [], 0
    if got[0] != _ENDED:
        raise CopyError
    if held:
        yield np.frombuffer(b"".join(held), dtype=np.uint8)


def _from_library(connection: Any, get: int, free: int) -> Iterator[_Bytes]:
    pending = np.zeros(2, dtype=np.uint64)  # a message that found no room: where it is, and its length
    pointer = np.uint64(connection.pgconn_ptr)
    status = _FULL
    while status == _FULL:
        block = np.empty(max(BLOCK, int(pending[1])), dtype=np.uint8)
        filled, status = _gather(np.uint64(get), np.uint64(free), pointer, pending, block)
        if filled:
            yield block[:filled]
    if status != _ENDED:
        raise CopyError


@cache
def libpq() -> tuple[int, int] | None:
    """The places of PQgetCopyData and PQfreemem in the one libpq of this process, where that can be told for sure."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    words = (line.split(maxsplit=5) for line in lines)
    found = {each[5] for each in words if len(each) == 6 and Path(each[5]).name.startswith("libpq")}
    if len(found) != 1:
        return None
    try:
        library = ctypes.CDLL(found.pop())  # the one that is loaded
        names = (library.PQgetCopyData, library.PQfreemem)
    except (OSError, AttributeError):
        return None
    get, free = (ctypes.cast(name, ctypes.c_void_p).value for name in names)
    return None if get is None or free is None else (get, free)


def _call_get(context: Any, function: Any, connection: Any, cell: Any) -> Any:
    """`int PQgetCopyData(connection, &cell, 0)`, called where it is."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(number, [byte, byte.as_pointer(), number])
        place = builder.inttoptr(values[0], kind.as_pointer())
        given = [builder.inttoptr(values[1], byte), builder.inttoptr(values[2], byte.as_pointer()), number(0)]
        return builder.call(place, given)

    return types.int32(types.uint64, types.uint64, types.uint64), generate


def _call_take(context: Any, function: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy some bytes from one place to another, and `PQfreemem(source)`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte])
        source = builder.inttoptr(values[2], byte)
        cgutils.raw_memcpy(builder, builder.inttoptr(values[1], byte), source, values[3], 1)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), [source])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), generate


_get_copy_data = intrinsic(_call_get)
_take = intrinsic(_call_take)


@compiled
def _gather(
    get: np.uint64, free: np.uint64, connection: np.uint64, pending: NDArray[np.uint64], block: _Bytes
) -> tuple[int, int]:
    """Put messages into a block until the next one does not fit, or there is none: how many bytes, and why it ended."""
    filled: Any = 0
    target, cell = np.uint64(block.ctypes.data), np.uint64(pending.ctypes.data)
    while True:
        if pending[0] == 0:
            status = _get_copy_data(get, connection, cell)
            if status < 0:
                return filled, status
            pending[1] = np.uint64(status)
        if filled + np.int64(pending[1]) > len(block):
            return filled, 0
        _take(free, target + np.uint64(filled), pending[0], pending[1])
        filled += np.int64(pending[1])
        pending[0] = np.uint64(0)


def _head(block: _Bytes) -> int:
    """Where the first row begins."""
    if len(block) < 19 or block[:11].tobytes() != _SIGNATURE or block[11:15].any():
        raise CopyError
    return 19 + int.from_bytes(block[15:19].tobytes(), "big")


@compiled
def _read(
    block: _Bytes,
    start: Any,
    long: NDArray[np.bool_],
    values: NDArray[np.int64],
    lengths: NDArray[np.int32],
) -> int:
    """The fields of all rows of a block: their lengths, −1 for a missing one, and their values; of long ones where they
    begin. The number of rows, or −1 where the bytes are not of the format.

    Places are numbers without a sign: looking for those that count from the end would cost as much again.
    """
    at, end, rows = start, np.uint64(len(block)), 0
    width = len(long)
    while at < end:
        if at + _TWO > end:
            return -1
        fields = (np.uint64(block[at]) << _EIGHT) | np.uint64(block[at + _ONE])
        at += _TWO
        if fields == _END:  # the end of all rows
            return rows if at == end else -1
        if fields != np.uint64(width) or rows == values.shape[1]:
            return -1
        for column in range(width):
            if at + _FOUR > end:
                return -1
            size = np.uint64(0)
            for place in range(at, at + _FOUR):
                size = (size << _EIGHT) | np.uint64(block[place])
            at += _FOUR
            if size == _MISSING:
                lengths[column, rows] = -1
                values[column, rows] = 0
                continue
            if at + size > end:
                return -1
            lengths[column, rows] = np.int32(size)
            if long[column]:
                values[column, rows] = np.int64(at)
            elif size == _TWO:
                values[column, rows] = np.int16((np.uint16(block[at]) << np.uint16(8)) | np.uint16(block[at + _ONE]))
            elif _ONE <= size <= _EIGHT:
                value = np.int64(np.int8(block[at]))
                for place in range(at + _ONE, at + size):
                    value = (value << np.int64(8)) | np.int64(block[place])
                values[column, rows] = value
            else:
                return -1
            at += size
        rows += 1
    return rows


@compiled
def _joined(block: _Bytes, starts: NDArray[np.int64], lengths: NDArray[np.int32], offsets: NDArray[np.int64]) -> _Bytes:
    """The bytes of long fields, one after the other; where each ends is written into `offsets`."""
    for row in range(len(starts)):
        offsets[row + 1] = offsets[row] + max(0, lengths[row])
    found = np.empty(offsets[len(starts)], dtype=np.uint8)
    for row in range(len(starts)):
        for place in range(max(0, lengths[row])):
            found[offsets[row] + place] = block[starts[row] + place]
    return found


def _array(kind: str, values: NDArray[np.int64], lengths: NDArray[np.int32], block: _Bytes) -> pa.Array:
    """A column of a block, in the type of its kind."""
    arrow = KINDS[kind]
    missing = lengths < 0
    if kind == "date":  # without an end, before and after all others
        missing |= (values == 2**31 - 1) | (values == -(2**31))
        values = values + _DAYS
    elif kind.startswith("timestamp"):  # the same, and those so far away that 64 bits do not reach them from 1970
        missing |= (values > 2**63 - 1 - _MICROSECONDS) | (values == -(2**63))
        values = np.where(missing, 0, values) + _MICROSECONDS
    valid = pa.array(~missing).buffers()[1] if missing.any() else None
    if kind in _LONG:
        offsets = np.zeros(len(values) + 1, dtype=np.int64)
        data = _joined(block, values, lengths, offsets)
        return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
    if kind == "bool":
        return pa.array(values != 0, mask=missing)
    if kind == "float4":
        plain = values.astype(np.int32)
    else:
        plain = values.astype(f"int{arrow.bit_width}")  # a copy: the next block is read into the same place
    return pa.Array.from_buffers(arrow, len(values), [valid, pa.py_buffer(plain)])
