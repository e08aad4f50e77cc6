"""Queries as flat arrays of boxes and parities over numbered literals: what a search for rows works on.

The literal "column c has code v" has the number first[c] + v; literals with several codes follow. A workload is held
block by block, in memory linear in its queries and columns. Rows are put to the whole workload 64 at a time, one bit
for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.counting.kernels import count_ones
from conspectus.data.domain import Domain
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.literals import LiteralArrays
from conspectus.queries.ordering import starts_of, stretches
from conspectus.queries.query import Indices
from conspectus.queries.workload import Workload

BATCH = 64
"""Rows that are put to a workload at once: the bits of a word."""

_STRETCH = 1 << 16


@dataclass(frozen=True, eq=False)
class Clauses:
    """Signed boxes and parities: a row is worth the sum of the values of those that hold on it.

    `boxes` are rows of literal numbers, `parities` rows of columns (even holds), both padded with −1.
    """

    literals: LiteralNumbers
    boxes: NDArray[np.int32]
    box_values: NDArray[np.int64]
    parities: NDArray[np.int32]
    parity_values: NDArray[np.int64]

    @cached_property
    def columns(self) -> Indices:
        """The columns that are read, sorted."""
        numbers = np.unique(self.boxes[self.boxes >= 0])
        read = np.concatenate([self.literals.column_of(numbers), self.parities[self.parities >= 0]])
        return np.unique(read).astype(np.int64)

    def value(self, row: NDArray[np.integer[Any]]) -> int:
        """What a row (one code for each column of the domain) is worth, by the definition."""
        codes = np.asarray(row, dtype=np.int64)
        numbers = np.unique(self.boxes[self.boxes >= 0])
        holds = np.ones(self.literals.count + 1, dtype=bool)  # number −1 is the padding, which is always true
        holds[numbers] = [self.literals.holds(int(number), codes) for number in numbers]
        total = int(self.box_values[holds[self.boxes].all(axis=1)].sum())
        ones = np.where(self.parities >= 0, codes[self.parities], 0).sum(axis=1)
        return total + int(self.parity_values[ones % 2 == 0].sum())


class LiteralNumbers:
    """The numbering of literals: one for each code of each column, then those with several codes."""

    def __init__(self, domain: Domain) -> None:
        self.sizes = np.array(domain.sizes, dtype=np.int64)
        self.first = starts_of(self.sizes)
        self._columns: list[NDArray[np.int64]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._codes: list[NDArray[np.int64]] = []
        self.count = int(self.first[-1])

    def add(
        self, columns: NDArray[np.int64], lengths: NDArray[np.int64], codes: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """The numbers of some literals, given by column, number of codes and the codes one after another."""
        starts = np.cumsum(lengths) - lengths
        numbers = np.empty(len(columns), dtype=np.int32)
        one = lengths == 1
        numbers[one] = self.first[columns[one]] + codes[starts[one]]
        numbers[~one] = self.count + np.arange(int((~one).sum()))
        self._columns.append(columns[~one])
        self._lengths.append(lengths[~one])
        self._codes.append(codes[np.repeat(~one, lengths)])
        self.count += int((~one).sum())
        return numbers

    def close(self) -> None:
        """Lay the literals with several codes out: `inside[start[w] + v]` says whether the w-th holds code v."""
        empty = np.zeros(0, dtype=np.int64)
        self.columns = np.concatenate([empty, *self._columns])
        lengths = np.concatenate([empty, *self._lengths])
        codes = np.concatenate([empty, *self._codes])
        sizes = self.sizes[self.columns]
        self.start = np.cumsum(sizes) - sizes
        self.inside = np.zeros(int(sizes.sum()), dtype=np.uint8)
        self.inside[np.repeat(self.start, lengths) + codes] = 1

    def column_of(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The column of each literal."""
        single = int(self.first[-1])
        found = np.searchsorted(self.first, numbers, side="right") - 1
        wide = np.asarray(numbers) >= single
        if wide.any():
            found[wide] = self.columns[np.asarray(numbers)[wide] - single]
        return found.astype(np.int64)

    def codes_of(self, number: int) -> tuple[int, NDArray[np.int64]]:
        """The column of one literal and its codes."""
        single = int(self.first[-1])
        if number < single:
            column = int(np.searchsorted(self.first, number, side="right")) - 1
            return column, np.array([number - self.first[column]], dtype=np.int64)
        column, start = int(self.columns[number - single]), int(self.start[number - single])
        return column, np.flatnonzero(self.inside[start : start + int(self.sizes[column])])

    def holds(self, number: int, row: NDArray[np.int64]) -> bool:
        column, codes = self.codes_of(number)
        return bool(row[column] in codes)


class AskedClauses:
    """A whole workload as clauses: pick some as a `Clauses`, or put rows to all of them."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.literals = LiteralNumbers(workload.domain)
        self._columns = np.array(workload.columns, dtype=np.int64)
        self._parts = [self._part(block) for block in workload.blocks]
        self.literals.close()

    def _part(self, block: Block) -> Any:
        if isinstance(block, Conjunctions):
            arrays = LiteralArrays(block.literals)
            numbers = self.literals.add(
                arrays.column[:-1].astype(np.int64), arrays.length[:-1], arrays.codes.astype(np.int64)
            )
            terms = np.append(numbers, np.int32(-1))[block.terms]
            return np.ascontiguousarray(terms, dtype=np.int32), block.starts
        if isinstance(block, Intervals):
            low, high = block.bounds
            lengths = high - low + 1
            narrow = lengths < block.domain.sizes[block.column]
            kept = lengths[narrow]
            terms = np.full((len(block), 1), -1, dtype=np.int32)
            codes = stretches(low[narrow], kept)
            terms[narrow, 0] = self.literals.add(np.full(len(kept), block.column), kept, codes)
            return terms, np.arange(len(block) + 1)
        if isinstance(block, Parities | ParityList):
            return np.ascontiguousarray(block.matrix, dtype=np.int32)
        if isinstance(block, Marginal):
            return block
        raise TypeError(f"no way to put rows to a block of {type(block).__name__}")

    def pick(self, queries: Indices, values: NDArray[np.int64]) -> tuple[Clauses, Indices, Indices]:
        """Some queries with their values, and for each box and each parity the place of its query among them."""
        order = np.argsort(queries, kind="stable")
        cuts = np.searchsorted(queries[order], self.workload.offsets)
        boxes: list[NDArray[np.int32]] = []
        parities: list[NDArray[np.int32]] = []
        box_owner, parity_owner = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for part, offset, start, end in zip(self._parts, self.workload.offsets, cuts, cuts[1:]):
            if start == end:
                continue
            places = order[start:end]
            local = queries[places] - offset
            if isinstance(part, Marginal):
                cells = np.stack(np.unravel_index(local, part.shape), axis=1) if part.columns else local[:, None][:, :0]
                boxes.append((self.literals.first[np.array(part.columns, dtype=np.int64)] + cells).astype(np.int32))
                box_owner.append(places)
            elif isinstance(part, tuple):
                terms, starts = part
                times = np.diff(starts)[local]
                boxes.append(terms[stretches(starts[local], times)])
                box_owner.append(np.repeat(places, times))
            else:
                parities.append(part[local])
                parity_owner.append(places)
        of_box, of_parity = np.concatenate(box_owner), np.concatenate(parity_owner)
        clauses = Clauses(self.literals, _stacked(boxes), values[of_box], _stacked(parities), values[of_parity])
        return clauses, of_box, of_parity

    def tally(
        self, rows: NDArray[np.integer[Any]], into: NDArray[np.int64], rate: int, pool: Executor | None = None
    ) -> None:
        """Add `rate` to a query's entry for each of some rows that satisfies it; rows hold a code for every column."""
        for start in range(0, len(rows), BATCH):
            self._tally(np.ascontiguousarray(rows[start : start + BATCH]), into, rate, pool)

    def _tally(self, rows: NDArray[np.integer[Any]], into: NDArray[np.int64], rate: int, pool: Executor | None) -> None:
        numbers = self.literals
        truth = np.zeros(numbers.count, dtype=np.uint64)
        single = int(numbers.first[-1])
        mark_codes(rows, self._columns, numbers.first, truth)
        mark_sets(rows, numbers.columns, numbers.start, numbers.inside, truth[single:])
        every = np.uint64((1 << len(rows)) - 1)
        work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        for part, offset, block in zip(self._parts, self.workload.offsets, self.workload.blocks):
            here = into[offset : offset + len(block)]
            if isinstance(part, Marginal):
                codes = [rows[:, column].astype(np.int64) for column in part.columns]
                cells = np.ravel_multi_index(codes, part.shape) if codes else np.zeros(len(rows), dtype=np.int64)
                np.add.at(here, cells, rate)
                continue
            for low in range(0, len(block), _STRETCH):
                high = min(low + _STRETCH, len(block))
                if isinstance(part, tuple):
                    work.append((tally_boxes, (*part, truth, every, low, high, rate, here)))
                else:
                    work.append((tally_parities, (part, numbers.first, truth, every, low, high, rate, here)))
        if pool is None:
            for task, arguments in work:
                task(*arguments)
        else:
            for done in [pool.submit(task, *arguments) for task, arguments in work]:
                done.result()


def _stacked(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    width = max((part.shape[1] for part in parts), default=0)
    rows = sum(len(part) for part in parts)
    stacked = np.full((rows, width), -1, dtype=np.int32)
    at = 0
    for part in parts:
        stacked[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return stacked


@compiled
def mark_codes(rows: Any, columns: Any, first: Any, truth: Any) -> None:
    """Set bit r of the literal "column has code" for the code of row r."""
    for r in range(len(rows)):
        bit = np.uint64(1) << np.uint64(r)
        for column in columns:
            truth[first[column] + np.int64(rows[r, column])] |= bit


@compiled
def mark_sets(rows: Any, columns: Any, start: Any, inside: Any, truth: Any) -> None:
    """The same for literals with several codes."""
    for number in range(len(columns)):
        column, at = columns[number], start[number]
        word = np.uint64(0)
        for r in range(len(rows)):
            if inside[at + np.int64(rows[r, column])]:
                word |= np.uint64(1) << np.uint64(r)
        truth[number] = word


@compiled
def tally_boxes(terms: Any, starts: Any, truth: Any, every: Any, low: int, high: int, rate: int, into: Any) -> None:
    """Add the rate once for each row that satisfies one of a query's boxes, which are disjoint."""
    width = terms.shape[1]
    for query in range(low, high):
        rows = np.uint64(0)
        for box in range(starts[query], starts[query + 1]):
            word = every
            for place in range(width):
                number = terms[box, place]
                if number < 0:
                    break
                word &= truth[number]
            rows += count_ones(word)
        into[query] += rate * np.int64(rows)


@compiled
def tally_parities(columns: Any, first: Any, truth: Any, every: Any, low: int, high: int, rate: int, into: Any) -> None:
    """Add the rate once for each row with an even number of second values among a parity's columns."""
    width = columns.shape[1]
    for query in range(low, high):
        odd = np.uint64(0)
        for place in range(width):
            column = columns[query, place]
            if column < 0:
                break
            odd ^= truth[first[column] + 1]
        into[query] += rate * np.int64(count_ones(every & ~odd))
