"""Which contingency tables to count: marginals that fit into one small joint table are read off it at the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from .kernels import covered, lacking_one
from .marginal_tree import marginal_tree

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
    width = max(map(len, sets), default=0)
    members = np.array([[*columns, *[-1] * (width - len(columns))] for columns in sets], dtype=np.int64)
    members = members.reshape(len(sets), width)
    waiting = np.ones(len(sets), dtype=bool)
    cover: dict[tuple[int, ...], tuple[int, ...]] = {}
    for at, columns in enumerate(sets):
        if not waiting[at]:
            continue
        inside = _grown(sizes, members, waiting, columns)
        table = tuple(np.flatnonzero(inside).tolist())
        waiting[at] = False
        cover[columns] = table
        for index in covered(members, waiting, inside).tolist():
            cover[sets[index]] = table
    return cover


def _grown(
    sizes: tuple[int, ...], members: NDArray[np.int64], waiting: NDArray[np.bool_], columns: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Add columns to a set while the table stays small and each brings in at least one more wanted set."""
    inside = np.zeros(len(sizes), dtype=bool)
    inside[list(columns)] = True
    cells = math.prod(sizes[c] for c in columns)
    cost = np.log2(1.0 + np.array(sizes))
    while True:
        gain = lacking_one(members, waiting, inside) / cost
        gain[np.array(sizes) * cells > JOINT_CELLS] = 0
        best = int(gain.argmax())
        if gain[best] == 0:
            return inside
        inside[best] = True
        cells *= sizes[best]


def projections(
    tables: Mapping[tuple[int, ...], NDArray[np.int64]],
    sizes: tuple[int, ...],
    cover: Mapping[tuple[int, ...], tuple[int, ...]],
) -> dict[tuple[int, ...], NDArray[np.int64]]:
    """Every wanted marginal from the table that was counted for it. Counts are below 2^53, where doubles are exact."""
    wanted: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for columns, joint in cover.items():
        wanted.setdefault(joint, []).append(columns)
    found: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for joint, sets in wanted.items():
        shape = tuple(sizes[c] for c in joint)
        if sets == [joint]:
            found[joint] = tables[joint].reshape(shape)
            continue
        inside = [tuple(joint.index(c) for c in columns) for columns in sets]
        marginals = marginal_tree(shape, tuple(inside)).marginals(tables[joint].astype(np.float64))
        for columns, marginal in zip(sets, marginals):
            found[columns] = marginal.astype(np.int64).reshape(tuple(sizes[c] for c in columns))
    return found
