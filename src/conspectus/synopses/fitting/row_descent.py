"""Rows moved towards tables of two and three columns, one value at a time.

Rows that were drawn miss the tables that they were drawn from by the noise of drawing. A try takes the value of another
row for one column of a row, and keeps it where Σ (count − wanted)²/(wanted + 3) over all tables falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

Codes = NDArray[np.int32]

MOST_TRIPLES = 400
WIDEST = 32
"""A column of a triple has at most so many groups: its most common codes by themselves, and one of all others."""

MOST_FINE = 1 << 16
"""Up to so many cells, pairs are told apart code by code."""

WORK = 250_000_000
"""The most cells that all tries look at: a few seconds."""

_TRIES_PER_CODE = 4
_SOFT = np.float32(3)


def groups_of(shares: NDArray[np.float64]) -> NDArray[np.int32]:
    """The group of every code of a column with these shares: the most common ones by themselves."""
    if len(shares) <= WIDEST:
        return np.arange(len(shares), dtype=np.int32)
    groups = np.full(len(shares), WIDEST - 1, dtype=np.int32)
    groups[np.argsort(-shares, kind="stable")[: WIDEST - 1]] = np.arange(WIDEST - 1)
    return groups


def tables_to_meet(columns: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """All pairs of columns, and all triples or `MOST_TRIPLES` of them."""
    pairs: list[tuple[int, ...]] = list(combinations(range(columns), 2))
    many = columns * (columns - 1) * (columns - 2) // 6
    if many <= MOST_TRIPLES:
        return pairs + list(combinations(range(columns), 3))
    chosen = {tuple(sorted(rng.choice(columns, 3, replace=False).tolist())) for _ in range(MOST_TRIPLES)}
    return pairs + sorted(chosen)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Tables of groups of codes, side by side: what rows are moved towards.

    Attributes:
        shares: All tables, flat, one after another.
        first: Where each table begins.
        columns: The columns of each, padded with −1.
        strides: How far one group further is, for each of them.
        fine: Whether a table tells all codes apart, and not their groups.
        groups: The group of every code, column after column; `starts` is where each column begins.
        starts: See `groups`.
        of_column: The tables that each column is in, padded with −1.
    """

    shares: NDArray[np.float32]
    first: NDArray[np.int64]
    columns: NDArray[np.int32]
    strides: NDArray[np.int64]
    fine: NDArray[np.bool_]
    groups: NDArray[np.int32]
    starts: NDArray[np.int64]
    of_column: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[NDArray[np.int32]],
        table: Callable[[tuple[int, ...], bool], NDArray[np.float64]],
    ) -> Wanted:
        """For some sets of two or three columns what `table` says of all their codes, or of the groups of these."""
        full, merged = [len(one) for one in groups], [int(one.max()) + 1 for one in groups]
        fine = [len(held) == 2 and full[held[0]] * full[held[1]] <= MOST_FINE for held in sets]
        tables = [table(held, whole).astype(np.float32).ravel() for held, whole in zip(sets, fine)]
        columns = np.full((len(sets), 3), -1, dtype=np.int32)
        strides = np.zeros((len(sets), 3), dtype=np.int64)
        for row, held in enumerate(sets):
            sizes = full if fine[row] else merged
            columns[row, : len(held)] = held
            for place, _ in enumerate(held):
                strides[row, place] = np.prod([sizes[c] for c in held[place + 1 :]], dtype=np.int64)
        listed = [np.flatnonzero((columns == c).any(axis=1)) for c in range(len(groups))]
        of_column = np.full((len(groups), max(map(len, listed), default=0)), -1, dtype=np.int32)
        for line, numbers in zip(of_column, listed):
            line[: len(numbers)] = numbers
        return cls(
            shares=np.concatenate([np.zeros(0, dtype=np.float32), *tables]),
            first=np.cumsum([0, *map(len, tables)])[:-1].astype(np.int64),
            columns=columns,
            strides=strides,
            fine=np.array(fine, dtype=bool),
            groups=np.concatenate(groups),
            starts=np.cumsum([0, *map(len, groups)]).astype(np.int64),
            of_column=of_column,
        )


def moved(rows: Codes, wanted: Wanted, rng: np.random.Generator) -> Codes:
    """The rows, with values moved so that they meet the tables better; as many tries as `WORK` pays for.

    Args:
        rows: Rows × columns.
        wanted: What to meet.
        rng: Public coins.
    """
    found = np.array(rows, dtype=np.int32)
    if len(found) < 2 or wanted.of_column.shape[1] == 0:
        return found
    goal = wanted.shares * np.float32(len(found))
    counts = np.zeros(len(goal), dtype=np.int32)
    shape = (wanted.first, wanted.columns, wanted.strides, wanted.fine, wanted.groups, wanted.starts)
    _tally(found, counts, *shape)
    tables = max(float((wanted.of_column >= 0).sum(axis=1).mean()), 1.0)
    tries = int(min(_TRIES_PER_CODE * found.size, WORK / tables))
    _descend(found, counts, goal, 1 / (goal + _SOFT), wanted.of_column, *shape, tries, rng)
    return found


@compiled
def _tally(rows: Any, counts: Any, first: Any, columns: Any, strides: Any, fine: Any, groups: Any, starts: Any) -> None:
    for table in range(len(first)):
        for row in range(len(rows)):
            cell = first[table]
            for place in range(columns.shape[1]):
                column = columns[table, place]
                if column >= 0:
                    code = rows[row, column]
                    cell += strides[table, place] * (code if fine[table] else groups[starts[column] + code])
            counts[cell] += 1


@compiled
def _descend(
    rows: Any,
    counts: Any,
    goal: Any,
    weights: Any,
    of_column: Any,
    first: Any,
    columns: Any,
    strides: Any,
    fine: Any,
    groups: Any,
    starts: Any,
    tries: Any,
    rng: Any,
) -> None:
    before = np.empty(of_column.shape[1], dtype=np.int64)
    after = np.empty(of_column.shape[1], dtype=np.int64)
    for _ in range(tries):
        row, column = int(rng.random() * len(rows)), int(rng.random() * rows.shape[1])
        old, new = rows[row, column], rows[int(rng.random() * len(rows)), column]
        if old == new:
            continue
        old_group, new_group = groups[starts[column] + old], groups[starts[column] + new]
        change = np.float32(0)
        held = 0
        for number in range(of_column.shape[1]):
            table = of_column[column, number]
            if table < 0:
                break
            if old_group == new_group and not fine[table]:
                continue
            cell, stride = first[table], np.int64(0)
            for place in range(columns.shape[1]):
                other = columns[table, place]
                if other == column:
                    stride = strides[table, place]
                elif other >= 0:
                    code = rows[row, other]
                    cell += strides[table, place] * (code if fine[table] else groups[starts[other] + code])
            one = cell + stride * (old if fine[table] else old_group)
            two = cell + stride * (new if fine[table] else new_group)
            before[held], after[held] = one, two
            held += 1
            change += weights[one] * (1 - 2 * (counts[one] - goal[one]))
            change += weights[two] * (1 + 2 * (counts[two] - goal[two]))
        if change < 0:
            rows[row, column] = new
            for number in range(held):
                counts[before[number]] -= 1
                counts[after[number]] += 1
