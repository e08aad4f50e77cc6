"""Rows of small integers in lexicographic order, by one integer key for each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROOM = 1 << 62


def row_keys(rows: NDArray[np.integer], bound: int) -> NDArray[np.int64]:
    """One key per row, ordered and equal exactly as the rows are; entries lie in -1..bound-1."""
    keys = np.zeros(len(rows), dtype=np.int64)
    base, room = bound + 1, 1
    for column in range(rows.shape[1]):
        if room * base >= _ROOM:
            # Ranks keep order and equality and are no larger than the number of rows.
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64).reshape(-1)
            room = len(rows) + 1
        keys = keys * base + (rows[:, column].astype(np.int64) + 1)
        room *= base
    return keys


def groups(keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The positions of equal keys, group by group in the order of the keys."""
    if not len(keys):
        return []
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def first_of_each(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first occurrences in order of appearance, and for every key the number of its first occurrence."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return first[order].astype(np.int64), rank[inverse.reshape(-1)]
