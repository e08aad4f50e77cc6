"""Rows of two-valued columns as sets: for each column, which rows hold its second value.

A wide table is mostly first values: a user has touched few of the items. So a column of a chunk is kept as a sorted
list of 16-bit places or as a bitmap, whichever is smaller, and a chunk costs what its second values cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .domain import Codes

MOST_ROWS = 1 << 16
"""Rows of one chunk at most: places within it fit into 16 bits, and a bitmap into the first-level cache."""


@dataclass(frozen=True, eq=False)
class SetChunk:
    """Some rows of a table whose columns have two values, as one set of places for each column that is held.

    `columns` are their positions in the table, sorted. The set of the j-th is the list `places[ends[j] : ends[j + 1]]`,
    or, where `bitmap[j]` is not negative, that row of `bits`; `ones` holds the sizes of the sets.
    """

    columns: NDArray[np.int64]
    rows: int
    ends: NDArray[np.int64]
    places: NDArray[np.uint16]
    bitmap: NDArray[np.int32]
    bits: NDArray[np.uint64]
    ones: NDArray[np.int64]

    @classmethod
    def of_pairs(cls, columns: NDArray[np.int64], which: NDArray[Any], places: NDArray[Any], *, rows: int) -> SetChunk:
        """From pairs in any order, each meaning that a row (its place) holds the second value of `columns[which]`.

        A pair that is repeated means the same as once.
        """
        _check_rows(rows)
        keys = (which.astype(np.uint64) << np.uint64(16)) | places.astype(np.uint64)
        keys.sort()
        if len(keys):
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        ends = np.searchsorted(keys, np.arange(len(columns) + 1, dtype=np.uint64) << np.uint64(16)).astype(np.int64)
        if len(keys) and (ends[-1] != len(keys) or int((keys & np.uint64(0xFFFF)).max()) >= rows):
            raise ValueError("a pair lies outside the rows and columns of its chunk")
        found = (keys & np.uint64(0xFFFF)).astype(np.uint16)
        ones = np.diff(ends)
        # A list takes 16 bits a place, a bitmap one bit a row.
        long = np.flatnonzero(16 * ones > rows)
        bitmap = np.full(len(columns), -1, dtype=np.int32)
        bitmap[long] = np.arange(len(long))
        bits = np.zeros((len(long), _words(rows)), dtype=np.uint64)
        for number, slot in enumerate(long.tolist()):
            bits[number] = _packed(found[ends[slot] : ends[slot + 1]], rows)
        if len(long):
            kept = np.repeat(bitmap < 0, ones)
            ends = np.concatenate([[0], np.cumsum(np.where(bitmap < 0, ones, 0))]).astype(np.int64)
            found = found[kept]
        return cls(columns, rows, ends, found, bitmap, bits, ones)

    @classmethod
    def of_bits(cls, columns: NDArray[np.int64], bits: NDArray[np.uint64], *, rows: int) -> SetChunk:
        """From bitmaps, one row of words for each column; bits beyond the rows must be zero."""
        _check_rows(rows)
        if bits.shape != (len(columns), _words(rows)):
            raise ValueError("a chunk of bitmaps needs one bit for each row of each column")
        ones = np.zeros(len(columns), dtype=np.int64)
        for start in range(0, len(columns), 1 << 14):
            ones[start : start + (1 << 14)] = np.bitwise_count(bits[start : start + (1 << 14)]).sum(axis=1)
        bitmap = np.arange(len(columns), dtype=np.int32)
        ends = np.zeros(len(columns) + 1, dtype=np.int64)
        return cls(columns, rows, ends, np.zeros(0, dtype=np.uint16), bitmap, bits, ones)

    @classmethod
    def of_codes(cls, columns: Sequence[int], codes: NDArray[np.integer[Any]], *, rows: int) -> SetChunk:
        """From a matrix of the codes 0 and 1, a row of it for each column."""
        return cls.of_bits(np.asarray(columns, dtype=np.int64), packed(codes), rows=rows)

    def slots(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the sets of some columns stand."""
        found = np.searchsorted(self.columns, columns)
        held = np.append(self.columns, -1)
        if (held[found] != columns).any():
            raise LookupError("a column was not read")
        return found.astype(np.int64)

    def column(self, position: int) -> Codes:
        """The codes of one column, a row each."""
        slot = int(self.slots(np.array([position]))[0])
        if self.bitmap[slot] >= 0:
            row = np.unpackbits(self.bits[self.bitmap[slot]].view(np.uint8), bitorder="little")
            return row[: self.rows]
        codes = np.zeros(self.rows, dtype=np.uint8)
        codes[self.places[self.ends[slot] : self.ends[slot + 1]]] = 1
        return codes


def packed(codes: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """A matrix of 0 and 1 as words of 64 bits along its rows, the first column in the lowest bit."""
    rows = codes.shape[1]
    whole = np.zeros((len(codes), 8 * _words(rows)), dtype=np.uint8)
    whole[:, : (rows + 7) // 8] = np.packbits(codes.astype(np.uint8, copy=False), axis=1, bitorder="little")
    return whole.view(np.uint64)


def _packed(places: NDArray[np.uint16], rows: int) -> NDArray[np.uint64]:
    codes = np.zeros(64 * _words(rows), dtype=np.uint8)
    codes[places] = 1
    return np.packbits(codes, bitorder="little").view(np.uint64)


def _words(rows: int) -> int:
    return (rows + 63) // 64


def _check_rows(rows: int) -> None:
    if not 0 <= rows <= MOST_ROWS:
        raise ValueError(f"a chunk of sets holds at most {MOST_ROWS:,} rows")
