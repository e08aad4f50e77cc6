"""Nets: public ranges of guesses at all answers together, scored by their worst error (the book's Algorithms 4 and 7).

A net is data-independent: its members, and how often each counts, are public. It says how many members each level of
the score has, and which one has a given rank; the curator draws a level and a rank (`privacy.levels`). A score is a
number of whole steps of `coarse` grid steps, so that a net of any size has few levels.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.privacy.events import ByRelation
from conspectus.privacy.relation import Relation
from conspectus.queries.workload import Workload

from .scores import error_sensitivity, steps_of, to_grid

HIGHEST = 1 << 20
"""Levels of a listed or enumerated net; worse errors count as this one, which moves no score further."""

MOST_MASS = 1 << 62
"""The most databases, up to the order of rows, that are enumerated: their masses are added in 64-bit words."""

_BLOCK = 1 << 16

Levels = NDArray[np.int64]
Member = NDArray[np.int64]


class Ranked(Protocol):
    """The levels of a net on one table: distances from the best, masses, and the member of a rank. It never leaves."""

    @property
    def distances(self) -> Sequence[int]: ...

    @property
    def masses(self) -> Sequence[int]: ...

    def member(self, level: int, rank: int) -> Member: ...


def net_sensitivity(workload: Workload, coarse: int, relation: Relation) -> ByRelation:
    """How many levels of `coarse` grid steps one unit moves the worst error by: ⌈16·m/coarse⌉ for counting queries."""
    moved = error_sensitivity(workload, relation)
    return moved.mapped(lambda step: Fraction(-(-step // coarse)))


def answer_levels(counts: NDArray[np.int64], size: int, total: float, coarse: int) -> Levels:
    """For each query and each j = 0 … size the level of the error when j of `size` rows satisfy it."""
    guesses = to_grid(total * np.arange(size + 1) / size)
    return np.asarray(np.abs(steps_of(counts, 1)[:, None] - guesses[None, :]) // coarse, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ListedNet:
    """A net given member by member: a line of guesses in counts for each, and how often it counts (`masses`).

    Guarantee: one unit that moves any query by at most Δ grid steps (16·m for counting queries and m rows) moves every
    score by at most ⌈Δ/coarse⌉ levels.
    """

    workload: Workload
    guesses: NDArray[np.float64]
    masses: tuple[int, ...]
    coarse: int = 1
    _guesses: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.guesses.shape != (len(self.masses), len(self.workload)) or not self.masses:
            raise ValueError("a net has one line of guesses for each member, one number for each query")
        if any(type(mass) is not int or mass < 1 for mass in self.masses):
            raise ValueError("each member of a net counts a whole number of times, at least once")
        _check_coarse(self.coarse)
        object.__setattr__(self, "_guesses", to_grid(self.guesses))

    @cached_property
    def mass(self) -> int:
        return sum(self.masses)

    def sensitivity(self, relation: Relation) -> ByRelation:
        return net_sensitivity(self.workload, self.coarse, relation)

    def ranked(self, counts: NDArray[np.int64], farthest: int) -> Ranked:
        """The levels; those beyond `farthest` from the best one need not be told apart, and are."""
        worst, steps = np.empty(len(self.masses), np.int64), steps_of(counts, self.workload.grid)
        for start in range(0, len(worst), _BLOCK):
            part = slice(start, start + _BLOCK)
            worst[part] = np.abs(steps[None, :] - self._guesses[part]).max(axis=1, initial=0)
        return _ListedLevels(np.minimum(worst // self.coarse, HIGHEST), self.masses)


class _ListedLevels:
    """Members sorted by level; a member is told by its number, and its copies follow one another."""

    def __init__(self, levels: Levels, masses: Sequence[int]) -> None:
        self._order = np.argsort(levels, kind="stable")
        found, starts = np.unique(levels[self._order], return_index=True)
        self._ends = [*starts.tolist(), len(levels)]
        self._sums = list(accumulate((masses[place] for place in self._order.tolist()), initial=0))
        self.distances: list[int] = (found - found[0]).tolist()
        self.masses: list[int] = [self._sums[b] - self._sums[a] for a, b in pairwise(self._ends)]

    def member(self, level: int, rank: int) -> Member:
        first, last = self._ends[level], self._ends[level + 1]
        place = bisect_right(self._sums, self._sums[first] + rank, first, last) - 1
        return np.array([self._order[place]], np.int64)


@dataclass(frozen=True, eq=False)
class Databases:
    """All databases of `size` rows over classes of records, however they are counted.

    `truth[c, q]` says whether query q holds on the records of class c, of which there are `sizes[c]`; a member is told
    by its number of rows in each class, and counts as often as there are databases with these numbers. Fractions are
    made counts by `total`, which is public or was paid for.

    Guarantee: one unit of at most m rows moves every score by at most ⌈16·m/coarse⌉ levels, under both relations.
    """

    workload: Workload
    truth: NDArray[np.bool_]
    sizes: tuple[int, ...]
    size: int
    total: float
    coarse: int = 1

    def __post_init__(self) -> None:
        """Refuse classes that do not fit the workload: public facts, checked all the same."""
        shape = (len(self.sizes), len(self.workload))
        if not self.workload.counting or self.truth.shape != shape or self.truth.dtype != np.bool_ or not self.sizes:
            raise ValueError("classes of records have one truth for each counting query, and there is at least one")
        if any(type(number) is not int or number < 1 for number in (*self.sizes, self.size)):
            raise ValueError("classes hold at least one record, and small databases at least one row")
        _check_coarse(self.coarse)

    @cached_property
    def mass(self) -> int:
        return databases(sum(self.sizes), self.size)

    def sensitivity(self, relation: Relation) -> ByRelation:
        return net_sensitivity(self.workload, self.coarse, relation)


@dataclass(frozen=True, eq=False)
class SmallDatabases(Databases):
    """All small databases, enumerated in blocks: Algorithm 4.

    Guarantee: that of `Databases`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mass > MOST_MASS:
            raise ValueError("so many databases are not enumerated: their masses would not fit a word")

    def ranked(self, counts: NDArray[np.int64], farthest: int) -> Ranked:
        """The levels, all of them, in one pass over the databases."""
        levels = np.minimum(answer_levels(counts, self.size, self.total, self.coarse), HIGHEST)
        ways = np.array([[databases(w, j) for j in range(self.size + 1)] for w in self.sizes], dtype=np.uint64)
        return _Enumerated(self.truth, levels.astype(np.int32), ways, self.size)


class _Enumerated:
    """The levels of all small databases; a member is found in a second pass, so memory is that of the levels alone."""

    def __init__(
        self, truth: NDArray[np.bool_], levels: NDArray[np.int32], ways: NDArray[np.uint64], size: int
    ) -> None:
        # Queries by classes, so that the classes of one query lie side by side.
        self._truth, self._levels = np.ascontiguousarray(truth.T).astype(np.int32), levels
        self._ways, self._size = ways, size
        highest = int(levels.max(initial=0)) + 1
        # One task for each first row; the last row is the inner loop.
        tasks = range(len(truth) if size > 1 else 1)
        mass = np.zeros(highest, np.uint64)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for part in pool.map(lambda first: self._walk(first, np.zeros(highest, np.uint64)), tasks):
                mass += part
        levels_met = np.flatnonzero(mass)
        self._tasks, self._first_level = tasks, int(levels_met[0])
        self.distances: list[int] = (levels_met - levels_met[0]).tolist()
        self.masses = [int(mass[level]) for level in levels_met]

    def _walk(self, first: int, mass: NDArray[np.uint64]) -> NDArray[np.uint64]:
        nothing = np.zeros(0, np.int64)
        _enumerate(first, self._size, self._truth, self._levels, self._ways, mass, -1, np.uint64(0), nothing)
        return mass

    def member(self, level: int, rank: int) -> Member:
        goal = self._first_level + self.distances[level]
        found = np.zeros(self._truth.shape[1], np.int64)
        for first in self._tasks:
            mass = np.zeros(1, np.uint64)
            _enumerate(first, self._size, self._truth, self._levels, self._ways, mass, goal, np.uint64(rank), found)
            if rank < int(mass[0]):
                return found
            rank -= int(mass[0])
        raise AssertionError("a rank below the mass of its level has a member")


def databases(records: int, rows: int) -> int:
    """The number of databases of so many rows over so many records, up to the order of rows."""
    return math.comb(records + rows - 1, rows) if rows else 1


def _check_coarse(coarse: int) -> None:
    if type(coarse) is not int or coarse < 1:
        raise ValueError("a level is a whole number of grid steps, at least one")


@compiled
def _enumerate(
    first: int,
    size: int,
    truth: NDArray[np.int32],
    levels: NDArray[np.int32],
    ways: NDArray[np.uint64],
    mass: NDArray[np.uint64],
    goal: int,
    rank: np.uint64,
    found: NDArray[np.int64],
) -> None:
    """Add up the mass of every level over the databases whose lowest class is `first` (any, for one row).

    With a goal from 0 on, `mass[0]` is that of this level alone, until it exceeds the rank: then `found` gets the rows.
    """
    queries, classes = truth.shape
    fixed = size - 1
    rows = np.full(max(fixed, 1), first, np.int64)
    held = np.zeros((fixed + 1, queries), np.int64)  # answers of the first d rows
    weight = np.ones(fixed + 1, np.uint64)  # databases with these first d rows
    before = np.ones(fixed + 1, np.uint64)  # the same without the last run of equal rows
    run = np.zeros(fixed + 1, np.int64)
    without, within = np.empty(queries, np.int32), np.empty(queries, np.int32)
    worst = np.empty(classes, np.int32)
    place = 0
    while True:
        for depth in range(place, fixed):
            row = rows[depth]
            same = depth > 0 and rows[depth - 1] == row
            before[depth + 1] = before[depth] if same else weight[depth]
            run[depth + 1] = run[depth] + 1 if same else 1
            weight[depth + 1] = before[depth + 1] * ways[row, run[depth + 1]]
            for q in range(queries):
                held[depth + 1, q] = held[depth, q] + truth[q, row]
        for q in range(queries):
            without[q] = levels[q, held[fixed, q]]
            within[q] = levels[q, held[fixed, q] + 1]
        start = rows[fixed - 1] if fixed else 0
        worst[start:] = 0
        for q in range(queries):
            # Rows innermost, without a branch: this loop is nearly all of the work, and runs many rows at once.
            base, step = without[q], within[q] - without[q]
            for row in range(start, classes):
                worst[row] = max(worst[row], base + step * truth[q, row])
        for row in range(start, classes):
            if fixed and row == start:
                here = before[fixed] * ways[row, run[fixed] + 1]
            else:
                here = weight[fixed] * ways[row, 1]
            if goal < 0:
                mass[worst[row]] += here
            elif worst[row] == goal:
                mass[0] += here
                if mass[0] > rank:
                    for depth in range(fixed):
                        found[rows[depth]] += 1
                    found[row] += 1
                    return
        place = fixed - 1
        while place > 0 and rows[place] == classes - 1:
            place -= 1
        if place <= 0:
            return
        rows[place] += 1
        for depth in range(place + 1, fixed):
            rows[depth] = rows[place]
