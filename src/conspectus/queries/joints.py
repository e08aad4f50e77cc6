"""Which contingency tables to count: marginals that fit into one small joint table are read off it at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

JOINT_CELLS = 1 << 16
"""The largest joint table that is counted in place of the marginals inside it; it stays in the second-level cache."""

_MOST_GROUPED = 1 << 14


def joint_tables(sizes: tuple[int, ...], wanted: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each wanted set of columns (sorted), the set whose table is counted for it.

    Greedy: start from a set that nothing covers, and add the column that brings in most others while the table stays
    small. With very many sets each is counted by itself, since the search would cost more than it saves.
    """
    sets = sorted(set(wanted), key=lambda columns: (-math.prod(sizes[c] for c in columns), columns))
    if len(sets) > _MOST_GROUPED:
        return {columns: columns for columns in sets}
    member = np.zeros((len(sets), len(sizes)), dtype=bool)
    for row, columns in zip(member, sets):
        row[list(columns)] = True
    open_sets = np.ones(len(sets), dtype=bool)
    cover: dict[tuple[int, ...], tuple[int, ...]] = {}
    for at, columns in enumerate(sets):
        if not open_sets[at]:
            continue
        inside = _grow(sizes, member[open_sets], member[at].copy())
        table = tuple(np.flatnonzero(inside).tolist())
        covered = open_sets & ~(member & ~inside).any(axis=1)
        for index in np.flatnonzero(covered).tolist():
            cover[sets[index]] = table
        open_sets &= ~covered
        cover[columns] = table
    return cover


def _grow(sizes: tuple[int, ...], member: NDArray[np.bool_], inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add columns to a set while the table stays small and each brings in at least one more wanted set."""
    cells = math.prod(size for size, taken in zip(sizes, inside) if taken)
    while True:
        lacking = member & ~inside
        gain = lacking[lacking.sum(axis=1) == 1].sum(axis=0)
        best, worth = -1, 0.0
        for column in np.flatnonzero(gain).tolist():
            value = gain[column] / math.log2(1 + sizes[column])
            if cells * sizes[column] <= JOINT_CELLS and value > worth:
                best, worth = column, value
        if best < 0:
            return inside
        inside[best] = True
        cells *= sizes[best]


def project(table: NDArray[np.int64], columns: tuple[int, ...], onto: tuple[int, ...]) -> NDArray[np.int64]:
    """The marginal over some of the columns of a table; both tuples are sorted."""
    drop = tuple(axis for axis, column in enumerate(columns) if column not in onto)
    return table.sum(axis=drop) if drop else table
