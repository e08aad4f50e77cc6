"""Proved bounds on how many listed predicates one record satisfies, and on how many two records differ.

A bound below the truth would understate the noise that a release needs. So each group of queries that read the same
columns is counted exactly where that is affordable or its queries are cells, and bounded from above elsewhere. The
bounds of groups are added up: a sum of maxima is at least the maximum of the sum.

A file may come from anyone, and a short one may speak of long columns. So codes that no literal of a group tells apart
are looked at together, and what is affordable grows with the numbers that the list holds, never with those it names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.literals import LiteralRuns
from conspectus.queries.ordering import distinct_keys, groups, row_keys, stretches
from conspectus.queries.query import Literal

WORK_OF_A_NUMBER = 1 << 15
"""Steps, a nanosecond each or so, that may be spent for each number that a list of predicates holds."""

WORK_OF_A_LIST = 1 << 18
"""Steps that may be spent on any list besides."""

MOST_TABLE = 1 << 24
"""Entries of one truth table; below it, sums in single precision are exact."""

MOST_PAIRS = 1 << 22
"""Pairs of different cells that are compared in one group."""

_GROUP, _RUN, _SUMS, _ENTRY, _CELL, _WORD = 1 << 17, 1 << 7, 8, 2, 1 << 9, 2
"""Steps for a group, for a run of a literal; sums that one step adds up; steps for an entry of a truth table, for a
cell that is put in order, and for words of two cells that are compared."""

_WORDS = np.dtype(np.uint64 if hasattr(np, "bitwise_count") else np.uint16)
_ONES = np.array([number.bit_count() for number in range(1 << 16)], dtype=np.uint8)


def work_for(numbers: int) -> int:
    """How many steps may be spent on a list that holds so many numbers."""
    return WORK_OF_A_LIST + WORK_OF_A_NUMBER * numbers


def conjunction_bounds(
    domain: Domain,
    literals: tuple[Literal, ...],
    terms: NDArray[np.int32],
    starts: NDArray[np.int64],
    most: int | None = None,
) -> tuple[int, int]:
    """Bounds on how many listed predicates one record satisfies, and on how many two records differ.

    Guarantee: neither number is below the truth, for any two records of the domain, however little work may be spent on
    them (`most` steps; left out, as many as `work_for` says). Query i is the union of the disjoint boxes from
    `starts[i]` up to `starts[i + 1]`.
    """
    runs = LiteralRuns(literals)
    work = work_for(terms.size + starts.size + 2 * len(runs.first)) if most is None else most
    columns = runs.column[terms]
    equality = runs.length[terms] <= 1
    each = np.diff(starts)
    single = each == 1
    satisfied = differing = 0
    queries_left = np.arange(len(each))
    if single.all():
        # Mostly every group is cells, and there may be a group for every query: all of them at once.
        cells = row_keys(terms, len(literals))
        satisfied, differing, queries_left = _all_cells(domain, columns, cells, equality)
    tables = []
    for over, queries in _by_columns(domain, columns, starts, queries_left):
        if not over:
            # Constant queries: true everywhere, or never. Two records never differ on them.
            satisfied += int(single[queries].sum())
        elif single[queries].all() and equality[starts[queries]].all():
            here = _cells(terms[starts[queries]], len(literals))
            satisfied, differing = satisfied + here[0], differing + here[1]
        elif len(queries) == 1 and single[queries[0]]:
            # One box that is neither empty nor all: some record lies in it, and some does not.
            satisfied, differing = satisfied + 1, differing + 1
        else:
            boxes = stretches(starts[queries], each[queries])
            tables.append(_Group(runs, terms[boxes], each[queries], over, domain.shape(over)))
    # The cheapest first, so that as many as possible are exact. The order follows from the list alone.
    for group in sorted(tables, key=lambda group: group.reading):
        work -= group.read(work)
    for group in sorted(tables, key=lambda group: group.cells * len(group.terms)):
        here, spent = group.bounds(work)
        satisfied, differing, work = satisfied + here[0], differing + here[1], work - spent
    return satisfied, differing


def _all_cells(
    domain: Domain, columns: NDArray[np.int32], cells: NDArray[np.int64], equality: NDArray[np.bool_]
) -> tuple[int, int, NDArray[np.int64]]:
    """Both bounds for the groups that hold nothing but cells or a single box, and the other queries.

    A record lies in at most one cell of a group, and two records in at most two. A cell may be listed several times. So
    a record satisfies at most as many queries as the most repeated cell has, and two records differ on at most those
    of the two most repeated cells. A single box is one of two cells, of which the other is not asked for.
    """
    first, group = distinct_keys(row_keys(columns, len(domain)))
    plain = np.ones(len(first), dtype=bool)
    np.logical_and.at(plain, group, equality.all(axis=1))
    alone = np.bincount(group, minlength=len(first)) == 1
    chosen = ((plain | alone) & (columns[first] >= 0).any(axis=1))[group]
    # A cell names its literals and with them its columns, so equal cells are of one group.
    _, place, times = np.unique(cells[chosen], return_index=True, return_counts=True)
    owner = group[chosen][place]
    order = np.lexsort((-times, owner))
    owner, times = owner[order], times[order]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    seconds = starts[np.diff(np.append(starts, len(owner))) > 1] + 1
    satisfied = int(times[starts].sum())
    return satisfied, satisfied + int(times[seconds].sum()), np.flatnonzero(~chosen)


def _by_columns(
    domain: Domain, columns: NDArray[np.int32], starts: NDArray[np.int64], queries_left: NDArray[np.int64]
) -> list[tuple[tuple[int, ...], NDArray[np.int64]]]:
    """The queries by the sets of columns that they read; `columns` holds those of every box."""
    counts = np.diff(starts)
    ones = queries_left[counts[queries_left] == 1]
    found: dict[tuple[int, ...], list[NDArray[np.int64]]] = {}
    for members in groups(row_keys(columns[starts[ones]], len(domain))):
        queries = ones[members]
        found.setdefault(_set(columns[starts[queries[0]]]), []).append(queries)
    for query in np.flatnonzero(counts != 1).tolist():
        # Boxes of one query may read different columns: the query reads their union.
        over = _set(columns[starts[query] : starts[query + 1]])
        found.setdefault(over, []).append(np.array([query]))
    return [(over, np.concatenate(queries)) for over, queries in found.items()]


def _set(columns: NDArray[np.int32]) -> tuple[int, ...]:
    return tuple(sorted(set(columns.ravel().tolist()) - {-1}))


def _cells(rows: NDArray[np.int32], literals: int) -> tuple[int, int]:
    """Cells of one marginal: a record lies in one, two records in two; a repeated cell counts each time."""
    times = np.sort(np.unique(row_keys(rows, literals), return_counts=True)[1])[::-1]
    return int(times[0]), int(times[:2].sum())


@dataclass
class _Group:
    """Queries that read the same columns, over the stretches of codes that their literals do not tell apart.

    `each` counts the boxes of every query. `cells` counts combinations of stretches once `read` found them.
    """

    runs: LiteralRuns
    terms: NDArray[np.int32]
    each: NDArray[np.int64]
    over: tuple[int, ...]
    shape: tuple[int, ...]
    cells: int = MOST_TABLE + 1

    def __post_init__(self) -> None:
        used = np.unique(self.terms[self.terms >= 0])
        self.used = {column: used[self.runs.column[used] == column] for column in self.over}
        self.reading = _GROUP + _RUN * int(self.runs.runs[used].sum())

    def cuts(self) -> list[NDArray[np.int64]]:
        """Where the stretches of each column begin."""
        return [self.runs.cuts(self.used[column], size) for column, size in zip(self.over, self.shape)]

    def read(self, work: int) -> int:
        """Count the stretches, if so many steps are enough for it; how many it took."""
        if self.reading > work:
            return 0
        self.cells = math.prod(map(len, self.cuts()))
        return self.reading

    def bounds(self, work: int) -> tuple[tuple[int, int], int]:
        """Both bounds, from at most so many steps, and how many these were; at worst the number of queries for both."""
        queries, boxes = len(self.each), len(self.terms)
        entries = self.cells * max(boxes, queries)
        if entries > MOST_TABLE or (spent := self.reading + entries // _SUMS) > work:
            return (queries, queries), 0
        cuts = self.cuts()
        first = _halves([len(each) for each in cuts])
        spent += _ENTRY * boxes * sum(math.prod(map(len, part)) for part in (cuts[:first], cuts[first:]))
        if spent > work:
            return (queries, queries), self.reading
        sides = [self._side(column, each) for column, each in zip(self.over, cuts)]
        satisfied = int((_products(sides[:first], boxes).T @ _products(sides[first:], boxes)).max())
        table = _ENTRY * entries + _CELL * self.cells
        if self.cells**2 <= 16 * MOST_PAIRS and spent + table <= work:
            spent += table
            patterns = self._patterns(sides)
            pairs = _WORD * len(patterns) ** 2 * patterns.shape[1]
            if len(patterns) ** 2 <= MOST_PAIRS and spent + pairs <= work:
                return (satisfied, _farthest(patterns)), spent + pairs
        return (satisfied, min(self._changing(), 2 * satisfied)), spent

    def _side(self, column: int, cuts: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Which boxes hold which stretches of a column."""
        numbers = np.append(self.used[column], np.int32(-1))
        row = np.searchsorted(numbers[:-1], held := self.runs.on(self.terms, column))
        return self.runs.truth(numbers, cuts)[np.where(held < 0, len(numbers) - 1, row)]

    def _patterns(self, sides: list[NDArray[np.uint8]]) -> NDArray[np.unsignedinteger]:
        """The different columns of the truth table, each as the bits of some words."""
        truth = _products(sides, len(self.terms), np.uint8)
        if len(self.terms) > len(self.each):
            truth = np.add.reduceat(truth, np.cumsum(self.each) - self.each, axis=0)
        bits = np.packbits(truth, axis=0)
        room = np.zeros((bits.shape[1], -(-bits.shape[0] // _WORDS.itemsize) * _WORDS.itemsize), dtype=np.uint8)
        room[:, : bits.shape[0]] = bits.T
        words = room.view(_WORDS)
        return np.unique(room.view(f"V{room.shape[1]}").ravel()).view(_WORDS).reshape(-1, words.shape[1])

    def _changing(self) -> int:
        """How many of the queries are true of some records, and not of all."""
        constant = 0
        full, begins = math.prod(self.shape), np.cumsum(self.each) - self.each
        size = dict(zip(self.over, self.shape))
        for first, many in zip(begins.tolist(), self.each.tolist()):
            if many != 1:
                # Boxes are disjoint: what they hold together says whether they hold all.
                rows = self.terms[first : first + many].tolist()
                constant += sum(self._volume(row, full, size) for row in rows) == full
        return len(self.each) - constant

    def _volume(self, row: list[int], full: int, size: dict[int, int]) -> int:
        """How many cells of all codes a box holds."""
        for number in row:
            if number >= 0:
                full = full // size[int(self.runs.column[number])] * int(self.runs.length[number])
        return full


def _halves(sizes: list[int]) -> int:
    """How many columns to take first, so that combinations of these and combinations of the others are few."""
    return min(range(len(sizes)), key=lambda at: math.prod(sizes[:at]) + math.prod(sizes[at:]))


def _products(sides: list[NDArray[np.uint8]], boxes: int, kind: type[np.generic] = np.float32) -> NDArray[Any]:
    """Which boxes hold which combinations of the stretches of some columns."""
    held = np.ones((boxes, 1), dtype=np.uint8)
    for side in sides:
        held = (held[:, :, None] & side[:, None, :]).reshape(boxes, -1)
    return held.astype(kind, copy=False)


def _farthest(patterns: NDArray[np.unsignedinteger]) -> int:
    """The largest number of bits on which two patterns differ."""
    most, step = 0, max(1, (1 << 16) // len(patterns))
    for start in range(0, len(patterns), step):
        apart = np.zeros((min(step, len(patterns) - start), len(patterns) - start), dtype=np.int32)
        for word in range(patterns.shape[1]):
            apart += _bits(patterns[start : start + step, word, None] ^ patterns[None, start:, word])
        most = max(most, int(apart.max()))
    return most


def _bits(words: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
    """How many bits of each word are set."""
    return np.asarray(np.bitwise_count(words) if _WORDS.itemsize == 8 else _ONES[words])
