"""The same column in narrower bins: where in its bin a value lies, as far as that matters.

Every bin is split by itself, so that a narrow bin lies in one wide one, and a value that had no code of its own still
has none. What is computed here follows from the declaration alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .column import Column
from .ordered import Integer, Number

MOST_PARTS = 256
"""Parts of one bin: a value is known to within half of one of them."""
MOST_CODES = 1 << 20
"""Narrow bins of one column."""


@dataclass(frozen=True, eq=False)
class FinerBins:
    """A column in narrower bins.

    Attributes:
        column: The column, under the same name.
        owner: The wide bin in which each narrow one lies.
        place: Where the middle of each narrow bin lies in its wide one, from 0 at the low end to 1 at the high end.
        low: The least value of each wide bin.
        width: How far the greatest value of each wide bin is from the least; 0 for a bin of one value.
        slack: How far a value may be from the middle of its narrow bin, for each wide bin.
    """

    column: Integer | Number
    owner: NDArray[np.int64]
    place: NDArray[np.float64]
    low: NDArray[np.float64]
    width: NDArray[np.float64]
    slack: NDArray[np.float64]

    @property
    def wide(self) -> NDArray[np.int64]:
        """The bins that hold several values."""
        return np.flatnonzero(self.width > 0)

    def narrow(self, code: int) -> range:
        """The narrow bins of a wide one."""
        first, last = np.searchsorted(self.owner, [code, code + 1])
        return range(int(first), int(last))


def finer_bins(column: Column) -> FinerBins | None:
    """A column of integers or numbers in narrower bins; None where a bin is one value, or cannot be split."""
    if not isinstance(column, Integer | Number) or column.one_value_each:
        return None
    parts = min(MOST_PARTS, MOST_CODES // column.regular)
    if parts < 2:
        return None
    low, high = column.lows.astype(np.float64), column.highs.astype(np.float64)
    finer: Integer | Number
    if isinstance(column, Integer):
        starts: list[NDArray[Any]] = [_whole(int(a), int(b), parts) for a, b in zip(column.lows, column.highs)]
        lows = np.concatenate(starts)
        highs = np.append(lows[1:] - 1, column.max)
        # The last bin between edges is closed: one more than the greatest value, so that it may hold that one alone.
        finer = replace(column, max=column.max + 1, width=1, edges=(*lows.tolist(), column.max + 1))
    else:
        starts = [_real(a, b, parts) for a, b in zip(low.tolist(), high.tolist())]
        lows = np.concatenate(starts)
        highs = np.append(lows[1:], column.edges[-1])
        finer = replace(column, edges=(*lows.tolist(), column.edges[-1]))
    owner = np.repeat(np.arange(column.regular), [len(each) for each in starts])
    width = high - low
    middle = (lows.astype(np.float64) + highs.astype(np.float64)) / 2
    place = np.divide(middle - low[owner], width[owner], out=np.zeros(len(owner)), where=width[owner] > 0)
    slack = np.zeros(column.regular)
    np.maximum.at(slack, owner, (highs - lows) / 2)
    return FinerBins(finer, owner, np.clip(place, 0.0, 1.0), low, width, slack)


def _whole(low: int, high: int, parts: int) -> NDArray[np.int64]:
    """The least values of the parts of a bin of whole numbers, the high end included."""
    values = high - low + 1
    held = min(values, parts)
    return np.array([low + part * values // held for part in range(held)], dtype=np.int64)


def _real(low: float, high: float, parts: int) -> NDArray[np.float64]:
    """The lower edges of the parts of a bin; fewer where floats are not dense enough."""
    edges = np.unique(low + (high - low) * (np.arange(parts) / parts))
    return edges[(edges >= low) & (edges < high)]
