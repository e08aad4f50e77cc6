"""Rows of small integers in lexicographic order, by one integer key for each row."""

from __future__ import annotations

from collections.abc import Sequence

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


def starts_of(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of some lists begins when they are put one behind the other, and at the end their length."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.array(lengths, dtype=np.int64))])


def stretches(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers that count up from each first one, as many as `counts` says, one stretch behind the other."""
    return np.arange(int(counts.sum())) + np.repeat(first - starts_of(counts)[:-1], counts)


def groups(keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The positions of equal keys, group by group in the order of the keys."""
    if not len(keys):
        return []
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def distinct_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first place of each different key, in the order of the keys; and for every key its number in that order."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # numpy's unstable sort is several times faster than its stable one; the smallest place repairs the order.
    order = np.argsort(keys)
    ordered = keys[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    number = np.empty(len(keys), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    return np.minimum.reduceat(order, np.flatnonzero(new)), number


def first_of_each(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first occurrences in order of appearance, and for every key the number of its first occurrence."""
    first, number = distinct_keys(keys)
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return first[order], rank[number]
