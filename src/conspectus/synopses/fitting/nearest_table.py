"""One table of whole rows whose marginals are as near as can be to wanted ones, however many columns there are.

Tables that are counted from one table agree wherever they overlap, are never negative, and add up. No joint of all
columns is made: the table is a list of records, each with a whole multiplicity, and its size is that of the answers.

    1. start: records of the largest wanted marginal; each further column is drawn given the one it depends on most
    2. for each record in turn: move some of its copies to a neighbour (one column changed), where that brings
       Σ weight·(count − wanted)² down the most
    3. repeat while it helps

Step 2 is coordinate descent in whole numbers: a move of m copies changes the sum by 2m·(slope at the neighbour − slope
here) + m²·(weights of all cells that change), so the best neighbour and the best m are known from the slopes. Cells
that must stay within a band, and are outside when a round ends, weigh twice as much in the next round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .least_squares import project_simplex
from .rounding import round_to_total

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]
Columns = tuple[int, ...]

FIRST = 4096
"""With how many records the search starts at most; moves divide them further."""

MOST_RECORDS = 1 << 17
LEAST_WORK, MOST_WORK = 6e8, 2e10
"""How many cells are looked at before the search ends: a few seconds, or a minute for thousands of marginals."""

_VISITS = 24_000
"""How many times a record is looked at, at least, before the search ends."""

MOST_ROUNDS = 2000
_PATIENCE, _LONG = 6, 40
_ENOUGH = 1e-3
_STEEP = 64.0


@dataclass(frozen=True, eq=False)
class Goal:
    """The wanted counts of a marginal over ascending columns, flat, with their weights and the bands to stay in."""

    columns: Columns
    counts: Vector
    weights: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True, eq=False)
class WholeTable:
    """Distinct or repeated records as codes, a row of the matrix for each, and how often each occurs."""

    codes: Integers
    copies: Integers


@compiled
def _round(
    codes: Any,
    copies: Any,
    held: int,
    order: Any,
    sizes: Any,
    goals: tuple[Any, Any, Any, Any],
    by_column: tuple[Any, Any, Any],
    misses: Any,
    weights: Any,
    slopes: Any,
    least: float,
) -> tuple[int, int]:
    # One move for each record, at most. Records that are divided are appended while there is room.
    starts, columns, strides, offsets = goals
    column_starts, column_goals, column_strides = by_column
    cells = np.empty(offsets.size, np.int64)
    pulls = np.empty(sizes.max())
    width, room, moved = codes.shape[1], codes.shape[0], 0
    for place in range(order.size):
        record = order[place]
        for goal in range(offsets.size):
            cell = offsets[goal]
            for at in range(starts[goal], starts[goal + 1]):
                cell += strides[at] * codes[record, columns[at]]
            cells[goal] = cell
        most, best_column, best_code, best_many = least, -1, 0, 0
        for column in range(width):
            here, size = codes[record, column], sizes[column]
            first, last = column_starts[column], column_starts[column + 1]
            pulls[:size] = 0.0
            for at in range(first, last):
                stride = column_strides[at]
                cell = cells[column_goals[at]] - here * stride
                for code in range(size):
                    pulls[code] += slopes[cell]
                    cell += stride
            there = 0
            for code in range(1, size):
                if pulls[code] < pulls[there]:
                    there = code
            drop = pulls[here] - pulls[there]
            if drop <= 0:
                continue
            bend = 0.0
            for at in range(first, last):
                cell = cells[column_goals[at]]
                bend += weights[cell] + weights[cell + (there - here) * column_strides[at]]
            many = min(max(np.int64(drop / bend + 0.5), 1), copies[record])
            if held >= room:
                many = copies[record]
            gain = many * (2 * drop - many * bend)
            if gain > most:
                most, best_column, best_code, best_many = gain, column, there, many
        if best_column < 0:
            continue
        step = best_code - codes[record, best_column]
        for at in range(column_starts[best_column], column_starts[best_column + 1]):
            cell = cells[column_goals[at]]
            misses[cell] -= best_many
            slopes[cell] = weights[cell] * misses[cell]
            cell += step * column_strides[at]
            misses[cell] += best_many
            slopes[cell] = weights[cell] * misses[cell]
        moved += 1
        if best_many < copies[record]:
            codes[held] = codes[record]
            copies[held] = best_many
            copies[record] -= best_many
            record = held
            held += 1
        codes[record, best_column] = best_code
    return held, moved


class TooManyGoals(ValueError):
    """More marginals than a table can be found for in a minute."""


class _Search:
    """The goals as flat arrays: cells one goal after the other, goals by the columns that they read."""

    def __init__(self, sizes: Sequence[int], goals: Sequence[Goal]) -> None:
        self.sizes = np.array(sizes, dtype=np.int64)
        read = [(goal.columns, _strides(sizes, goal.columns)) for goal in goals]
        lengths = [goal.counts.size for goal in goals]
        self.ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in read])]).astype(np.int64)
        columns = np.array([c for columns, _ in read for c in columns], dtype=np.int64)
        strides = np.array([stride for _, every in read for stride in every], dtype=np.int64)
        self.goals = (starts, columns, strides, self.ends[:-1])
        owners = np.repeat(np.arange(len(goals)), np.diff(starts))
        order = np.argsort(columns, kind="stable")
        counted = np.bincount(columns, minlength=len(sizes))
        self.by_column = (np.concatenate([[0], np.cumsum(counted)]).astype(np.int64), owners[order], strides[order])
        effort = float(self.sizes @ counted) + 1
        self.visits = int(max(LEAST_WORK / effort, _VISITS))
        if self.visits * effort > MOST_WORK:
            raise TooManyGoals("too many marginals, or too many columns, to find one table for all of them")
        self.wanted = np.concatenate([goal.counts for goal in goals])
        self.weights = np.concatenate([goal.weights for goal in goals])
        self.few = max(0.01 * self.wanted.size, 2000.0)
        self.low = np.concatenate([goal.low for goal in goals])
        self.high = np.concatenate([goal.high for goal in goals])

    def counts(self, table: WholeTable) -> Vector:
        """The marginals of a table, one goal after the other."""
        starts, columns, strides, _ = self.goals
        counts = np.empty(int(self.ends[-1]))
        for goal, (start, end) in enumerate(pairwise(self.ends.tolist())):
            part = slice(starts[goal], starts[goal + 1])
            cells = table.codes[:, columns[part]] @ strides[part]
            counts[start:end] = np.bincount(cells, weights=table.copies, minlength=end - start)
        return counts

    def run(self, start: WholeTable, public_seed: int) -> WholeTable:
        """The best table seen: within all bands where one is, else with the least sum of squares."""
        rng = np.random.Generator(np.random.PCG64(public_seed))
        rows, held = int(start.copies.sum()), len(start.copies)
        room = max(held, min(rows, MOST_RECORDS, self.visits // 3))
        codes = np.zeros((room, len(self.sizes)), dtype=np.int64)
        copies = np.zeros(room, dtype=np.int64)
        codes[:held], copies[:held] = start.codes, start.copies
        misses, weights = self.counts(start) - self.wanted, self.weights.copy()
        visits, idle = self.visits, 0
        best, fewest, least, level = start, math.inf, math.inf, 0.0
        for _ in range(MOST_ROUNDS):
            if visits <= 0 or idle > (_LONG if 0 < fewest <= self.few else _PATIENCE):
                break
            visits -= held
            order = rng.permutation(held)
            held, moved = _round(
                codes,
                copies,
                held,
                order,
                self.sizes,
                self.goals,
                self.by_column,
                misses,
                weights,
                weights * misses,
                level,
            )
            outside = (misses + self.wanted < self.low) | (misses + self.wanted > self.high)
            squares, many = float(self.weights @ np.square(misses)), int(outside.sum())
            idle = 0 if many < fewest or squares < least * (1 - _ENOUGH) else idle + 1
            if (many > 0, squares) < (fewest > 0, least) or not math.isfinite(least):
                best = WholeTable(codes[:held].copy(), copies[:held].copy())
                least = squares
            fewest = min(fewest, many)
            if not moved and not many:
                break
            # Many cells outside say that no table is within all bands: pressing for it would only add noise.
            if many <= self.few:
                weights[outside] += np.minimum(weights, _STEEP * self.weights)[outside]
                level = -1e-9 * float(self.weights.max())
        return best


def nearest_table(sizes: Sequence[int], goals: Sequence[Goal], rows: int, *, public_seed: int = 1) -> WholeTable:
    """A table of so many rows whose marginals are near the wanted ones. Every column is in at least one goal."""
    search = _Search(sizes, goals)
    return search.run(_start(sizes, goals, rows, public_seed), public_seed)


def _strides(sizes: Sequence[int], columns: Columns) -> list[int]:
    return [math.prod(sizes[c] for c in columns[i + 1 :]) for i in range(len(columns))]


def _start(sizes: Sequence[int], goals: Sequence[Goal], rows: int, public_seed: int) -> WholeTable:
    """The largest goal as records; then one column after the other, given the column that it depends on most."""
    root = max(goals, key=lambda goal: goal.counts.size)
    whole = round_to_total(project_simplex(root.counts, float(rows)), rows)
    cells = np.flatnonzero(whole)
    copies = whole[cells]
    left = set(range(len(sizes))).difference(root.columns)
    if left:
        # Equal shares of the rows, so that further columns can be drawn for each.
        ends = np.arange(min(rows, FIRST) + 1) * rows // min(rows, FIRST)
        cells = cells[np.searchsorted(np.cumsum(copies), ends[:-1], side="right")]
        copies = np.diff(ends)
    codes = np.zeros((len(cells), len(sizes)), dtype=np.int64)
    for column, stride in zip(root.columns, _strides(sizes, root.columns)):
        codes[:, column] = cells // stride % sizes[column]
    rng = np.random.Generator(np.random.PCG64(public_seed))
    pairs = _pairs(sizes, goals)
    strength = {pair: _dependence(table) for pair, table in pairs.items()}
    while left:
        tied = [(strength[a, b], a, b) for a, b in pairs if a not in left and b in left]
        if tied:
            _, given, column = max(tied)
            shares = pairs[given, column]
        else:
            given, column = root.columns[0] if root.columns else 0, min(left)
            shares = np.tile(_one_way(sizes, goals, column), (sizes[given], 1))
        for code in range(sizes[given]):
            at = np.flatnonzero(codes[:, given] == code)
            codes[at, column] = rng.permutation(_spread(shares[code], len(at)))
        left.discard(column)
    return WholeTable(codes, copies)


def _spread(shares: Vector, many: int) -> Integers:
    """So many codes in the proportion of their shares; equally many of each where none has any."""
    ends = np.cumsum(shares if shares.any() else np.ones_like(shares))
    drawn = np.searchsorted(ends, (np.arange(many) + 0.5) * (ends[-1] / max(many, 1)), side="right")
    return np.asarray(drawn, dtype=np.int64)


def _pairs(sizes: Sequence[int], goals: Sequence[Goal]) -> dict[tuple[int, int], Vector]:
    """For each two columns that a goal holds together their table, zero or more, either way round."""
    found: dict[tuple[int, int], Vector] = {}
    for goal in goals:
        table = goal.counts.reshape([sizes[c] for c in goal.columns])
        for i, a in enumerate(goal.columns):
            for j in range(i + 1, len(goal.columns)):
                b = goal.columns[j]
                if (a, b) not in found:
                    others = tuple(k for k in range(table.ndim) if k not in (i, j))
                    found[a, b] = np.maximum(table.sum(axis=others), 0.0)
                    found[b, a] = found[a, b].T
    return found


def _one_way(sizes: Sequence[int], goals: Sequence[Goal], column: int) -> Vector:
    goal = next(goal for goal in goals if column in goal.columns)
    table = goal.counts.reshape([sizes[c] for c in goal.columns])
    others = tuple(k for k, c in enumerate(goal.columns) if c != column)
    return np.asarray(np.maximum(table.sum(axis=others), 0.0))


def _dependence(pair: Vector) -> float:
    """The mutual information of two columns, from their table of counts."""
    total = pair.sum()
    if total <= 0:
        return 0.0
    shares = pair / total
    alone = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / alone[there])).sum())
