"""Arrow tables from bytes that anybody may have written: message by message, and nothing is unpacked.

A buffer may be stored compressed, and a reader unpacks it on sight: two thousand bytes become a gigabyte before they
can be compared with anything. Releases and sessions never compress. So each message is looked at before it is read, and
a table is put together from these messages alone; the footer of a file, which may point elsewhere, is not followed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_MAGIC = b"ARROW1\0\0"
"""How a file begins; what follows is a stream."""
_SCHEMA, _BATCH, _COMPRESSION = 1, 3, 3
"""The numbers of a schema and a record batch among the headers of a message, and of a batch's compression among its
fields."""


def read_file(data: bytes) -> pa.Table:
    """The table of an Arrow IPC file; raises `ValueError` where it is none."""
    with _damage():
        named = pa.ipc.open_file(pa.py_buffer(data)).schema
    table = read_stream(data[len(_MAGIC) :])
    if named != table.schema:
        raise ValueError("the footer of an Arrow file speaks of another table")
    return table


def read_stream(data: bytes) -> pa.Table:
    """The table of an Arrow IPC stream, checked, and no larger than its bytes; raises `ValueError` where it is none."""
    with _damage():
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
        if (first := _next(messages)) is None or not _sound(first.metadata.to_pybytes(), _SCHEMA):
            raise ValueError("a table begins with its schema")
        schema = pa.ipc.read_schema(first)
        batches = []
        while (message := _next(messages)) is not None:
            if message.type != "record batch" or not _sound(message.metadata.to_pybytes(), _BATCH):
                raise ValueError("a table is stored as plain record batches")
            batches.append(pa.ipc.read_record_batch(message, schema))
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
    if table.nbytes > len(data):  # several buffers in one place
        raise ValueError("a table is larger than its bytes")
    return table


@contextmanager
def _damage() -> Iterator[None]:
    """Arrow has several words for a damaged file."""
    try:
        yield
    except (pa.ArrowException, OSError, TypeError, LookupError, MemoryError) as problem:
        raise ValueError("this is no Arrow table, or a damaged one") from problem


def _next(messages: pa.ipc.MessageReader) -> pa.ipc.Message | None:
    try:
        return messages.read_next_message()
    except StopIteration:
        return None


def _sound(metadata: bytes, kind: int) -> bool:
    """Whether a message has a header of this kind, without compression, whose lists end within the message.

    Arrow believes the lengths of these lists: with a length that was changed it reads on until the process ends.
    """
    try:
        (root,) = struct.unpack_from("<I", metadata, 0)
        told, place = _field(metadata, root, 1), _field(metadata, root, 2)
        if told is None or place is None or metadata[told] != kind:
            return False
        header = _followed(metadata, place)
        if kind == _BATCH:
            plain = _field(metadata, header, _COMPRESSION) is None
            return plain and all(_listed(metadata, header, number, 16) is not None for number in (1, 2))
        fields = _listed(metadata, header, 1, 4)
        return fields is not None and all(_plain(metadata, _followed(metadata, each)) for each in fields)
    except (struct.error, IndexError):
        return False


def _plain(metadata: bytes, field: int) -> bool:
    """Whether a field of a schema has no dictionary and no fields inside it: tables here are flat."""
    return _field(metadata, field, 4) is None and not _listed(metadata, field, 5, 4)


def _followed(buffer: bytes, place: int) -> int:
    (offset,) = struct.unpack_from("<I", buffer, place)
    return place + int(offset)


def _listed(buffer: bytes, table: int, number: int, size: int) -> range | None:
    """Where the items of a list are, each of this size; None if it does not end within the buffer."""
    if (place := _field(buffer, table, number)) is None:
        return range(0)
    first = _followed(buffer, place) + 4
    (count,) = struct.unpack_from("<I", buffer, first - 4)
    return range(first, first + size * count, size) if first + size * count <= len(buffer) else None


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Where a field of a table of a flat buffer is; None where the table does not have it."""
    (back,) = struct.unpack_from("<i", buffer, table)
    places = table - back
    (size,) = struct.unpack_from("<H", buffer, places)
    at = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", buffer, places + at) if at < size else (0,)
    return table + offset if offset else None
