"""One line, one row: how the bytes of a delimited file become fields.

What stands in one line never changes how another line is read. The kernel that splits a line is given that line and
nothing else, so this holds whatever the line holds. The rule:

- A line ends at a line feed, quoted or not, and at the end of the file. The carriage returns just before its end belong
  to the end; all others are ordinary signs.
- Of a line the first 2,097,152 bytes are read.
- An empty line is no row. In a file of one column it is a row whose value is missing.
- A field that starts with a quotation mark, after spaces or none, ends at the next quotation mark that is not doubled;
  two of them inside stand for one. What follows up to the separator is dropped.
- Where no such mark follows in the line, and in every other field, quotation marks are ordinary signs, and the field
  ends at the next separator.
- Fields that a line lacks are missing, surplus ones are dropped, and an empty field is missing.
- Each byte that is no UTF-8 reads as U+FFFD, which makes its value missing, and its two hexadecimal digits, which keep
  it different from other values, so that no two ids become one. So do the three bytes of a true U+FFFD. Zero bytes and
  byte order marks are ordinary signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from operator import add
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.compiled import compiled

LONGEST = 1 << 21
_BLOCK = 1 << 21
_SPANS = 1 << 20  # fields that are held at once
_MENDED = 5  # bytes in the place of one that is no UTF-8
_FEED, _RETURN, _SPACE, _QUOTE, _ASCII = 10, 13, 32, 34, 128


@dataclass(frozen=True)
class Tally:
    """What the lines of a file look like: exact counts, for the owner alone."""

    rows: int = 0
    odd_quotes: int = 0
    wrong_fields: int = 0
    too_long: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Rows:
    """Some rows: where the fields of each begin and end in a block of bytes."""

    block: NDArray[np.uint8]
    spans: NDArray[np.int32]  # rows × fields × (begin, end, whether quotation marks are doubled)
    tally: Tally

    def column(self, position: int) -> pa.Array:
        """One column as texts; absent and empty fields are null."""
        offsets, data, valid = _gather(self.block, self.spans[:, position])
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.StringArray.from_buffers(len(valid), pa.py_buffer(offsets), pa.py_buffer(data), bits)


def read_rows(raw: IO[bytes], separator: str, fields: int) -> Iterator[Rows]:
    """The rows after the header line, in pieces whose memory is bounded whatever the file holds."""
    mark = ord(separator)
    most = max(1, _SPANS // fields)
    first = 1  # the header
    for data in _whole_lines(raw):
        block = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(block == _FEED)
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(block))
        starts = np.concatenate(([0], ends[:-1] + 1))
        for place in range(first, len(ends), most):
            piece = slice(place, place + most)
            spans, counts = _split_all(block, starts[piece], ends[piece], mark, fields)
            yield Rows(block, spans, Tally(*map(int, counts)))
        first = 0


def split(line: bytes, separator: str) -> tuple[list[str], bool]:
    """The fields of one line without its end, and whether all quotation marks in it enclose whole fields."""
    block = np.frombuffer(line, np.uint8)
    spans = np.zeros((1, line.count(separator.encode()) + 1, 3), np.int32)
    count, odd = _split(block, 0, ord(separator), spans[0])
    rows = Rows(block, spans, Tally())
    return [rows.column(position)[0].as_py() or "" for position in range(count)], not odd


def _whole_lines(raw: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a file in pieces that end where lines end; of an overlong line at least its readable start."""
    rest = b""
    while more := raw.read(_BLOCK):
        data = rest + more
        cut = data.rfind(b"\n") + 1
        if cut:
            yield data[:cut]
        # What is cut off here lies beyond the readable start of its line, and so does what will come after it.
        rest = data[cut : cut + LONGEST + 1]
    if rest:
        yield rest


@compiled
def _split_all(
    block: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], separator: int, fields: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The spans of the fields of every line that is a row, and the counts of a Tally."""
    spans = np.zeros((starts.size, fields, 3), np.int32)
    counts = np.zeros(4, np.int64)
    rows = 0
    for place in range(starts.size):
        start, end = starts[place], ends[place]
        if end - start > LONGEST:
            end = start + LONGEST
            counts[3] += 1
        while end > start and block[end - 1] == _RETURN:
            end -= 1
        if end == start and fields > 1:
            continue
        found, odd = _split(block[start:end], start, separator, spans[rows])
        counts[1] += odd
        counts[2] += found != fields
        rows += 1
    counts[0] = rows
    return spans[:rows], counts


@compiled
def _split(line: NDArray[np.uint8], start: int, separator: int, spans: NDArray[np.int32]) -> tuple[int, bool]:
    """Write the spans of one line's fields, counted from `start`; return their number and whether a mark is odd."""
    size = line.size
    position, count, odd = 0, 0, False
    while True:
        begin, end, doubled = position, -1, False
        while begin < size and line[begin] == _SPACE:
            begin += 1
        if begin < size and line[begin] == _QUOTE:
            begin += 1
            end = begin
            while end < size:
                if line[end] == _QUOTE:
                    if end + 1 == size or line[end + 1] != _QUOTE:
                        break
                    doubled = True
                    end += 1
                end += 1
            if end < size:
                position = end + 1
                while position < size and line[position] != separator:
                    odd |= line[position] != _SPACE
                    position += 1
            else:
                end = -1
        if end < 0:
            begin, doubled = position, False
            while position < size and line[position] != separator:
                odd |= line[position] == _QUOTE
                position += 1
            end = position
        if count < spans.shape[0]:
            spans[count, 0], spans[count, 1], spans[count, 2] = start + begin, start + end, doubled
        count += 1
        if position == size:
            return count, odd
        position += 1


@compiled
def _gather(
    block: NDArray[np.uint8], spans: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.bool_]]:
    """Arrow's offsets and bytes of one column, and which of its fields are not empty."""
    rows = spans.shape[0]
    offsets = np.zeros(rows + 1, np.int32)
    valid = np.empty(rows, np.bool_)
    size = 0
    for row in range(rows):
        size += spans[row, 1] - spans[row, 0]
    data = np.empty(_MENDED * size, np.uint8)
    size = 0
    for row in range(rows):
        begin, end, doubled = spans[row, 0], spans[row, 1], spans[row, 2]
        valid[row] = begin < end
        place, seen = size, np.uint8(doubled << 7)
        for position in range(begin, end):
            data[place] = block[position]
            seen |= block[position]
            place += 1
        # Nearly all fields are done with that; the others are written anew over it.
        size = place if seen < _ASCII else _mend(block, begin, end, doubled, data, size)
        offsets[row + 1] = size
    return offsets, data[:size], valid


@compiled
def _mend(block: NDArray[np.uint8], begin: int, end: int, doubled: int, data: NDArray[np.uint8], size: int) -> int:
    """Write a field as UTF-8 from data[size] on, doubled quotation marks as one; return where it ends."""
    position = begin
    while position < end:
        width = _width(block, position, end)
        for place in range(width):
            data[size + place] = block[position + place]
        if not width:
            high, low = block[position] >> 4, block[position] & 15
            data[size], data[size + 1], data[size + 2] = 0xEF, 0xBF, 0xBD
            data[size + 3], data[size + 4] = _digit(high), _digit(low)
        size += width if width else _MENDED
        position += 2 if doubled and block[position] == _QUOTE else max(width, 1)
    return size


@compiled
def _digit(value: int) -> int:
    return value + (48 if value < 10 else 87)


@compiled
def _width(block: NDArray[np.uint8], begin: int, end: int) -> int:
    """The number of bytes of the UTF-8 sign at `begin`, or 0 where there is none, or U+FFFD."""
    lead = np.int64(block[begin])
    if lead < _ASCII:
        return 1
    width = 2 if 0xC0 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF8 else 0
    if width == 0 or width > end - begin:
        return 0
    sign = lead & (0x7F >> width)
    for place in range(1, width):
        byte = np.int64(block[begin + place])
        if byte & 0xC0 != 0x80:
            return 0
        sign = (sign << 6) | (byte & 0x3F)
    least = 0x80 if width == 2 else 0x800 if width == 3 else 0x10000
    return 0 if sign < least or sign > 0x10FFFF or 0xD800 <= sign < 0xE000 or sign == 0xFFFD else width
