"""Numbers for raw values: each distinct value is looked at once, whatever type it arrives in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from conspectus.data.columns.arrays import tidy
from conspectus.data.columns.values import distinct_of

_WIDEST = 1 << 27
"""Integers within a span up to this are looked up in a table, others in a dictionary."""

_NEW = -2


class Numbering:
    """Maps arrays of values to numbers by a rule for one value; −1 stands for nothing."""

    def __init__(self, rule: Callable[[object], int]) -> None:
        self._rule = rule
        self._known: dict[tuple[type, object], int] = {}
        self._low = 0
        self._table: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

    def of(self, values: pa.Array | pa.ChunkedArray) -> NDArray[np.int32]:
        """The numbers of the values, in order."""
        if isinstance(values, pa.ChunkedArray):
            return np.concatenate([np.zeros(0, dtype=np.int32), *map(self.of, values.chunks)])
        if not pa.types.is_dictionary(values.type):
            values = tidy(values)
        if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
            valid = pc.is_valid(values).to_numpy(zero_copy_only=False) if values.null_count else None
            whole = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            present = whole if valid is None else whole[valid]
            if not len(present):
                return np.full(len(values), -1, dtype=np.int32)
            if self._spans(int(present.min()), int(present.max())):
                numbers = self._looked_up(present)
                if valid is None:
                    return numbers
                found = np.full(len(values), -1, dtype=np.int32)
                found[valid] = numbers
                return found
        distinct, places = distinct_of(values)
        table = np.array([*map(self._number, distinct.to_pylist()), -1], dtype=np.int32)
        coded: NDArray[np.int32] = table[places]
        return coded

    def _number(self, value: Any) -> int:
        if value is None:
            return -1
        # Arrays may be of several types, and values of two types are equal that mean different things: 1 and true.
        key = (type(value), value)
        if key not in self._known:
            self._known[key] = self._rule(value)
        return self._known[key]

    def _spans(self, low: int, high: int) -> bool:
        """Make the table reach from `low` to `high`, if it may."""
        size = len(self._table)
        if size and self._low <= low and high < self._low + size:
            return True
        if size:
            low, high = min(low, self._low), max(high, self._low + size - 1)
        if high - low >= _WIDEST:
            return False
        # Room for as much again: a table that grows value by value would be copied each time.
        table = np.full(min(_WIDEST, max(1 << 16, 2 * (high - low + 1))), _NEW, dtype=np.int32)
        if size:
            table[self._low - low : self._low - low + size] = self._table
        self._low, self._table = low, table
        return True

    def _looked_up(self, values: NDArray[np.int64]) -> NDArray[np.int32]:
        places = values - self._low
        numbers: NDArray[np.int32] = self._table[places]
        new = numbers == _NEW
        if new.any():
            for place in np.unique(places[new]).tolist():
                self._table[place] = self._number(place + self._low)
            numbers = self._table[places]
        return numbers
