"""Exact counts that were made once, addressed by question. They never leave the curator.

A mechanism measures parts of what it asked about: one cell of a marginal, one conjunction of ten thousand. Such a part
is a block of its own, which nobody has counted. If counts were found by block, each part would be counted again. So
they are found by question: a conjunction by its literals, a cell by its codes, an interval by its ends, a parity by its
columns, listed records by their weights, a function by itself. A union of boxes is the sum of its boxes.

Everything here is exact: two questions share a count only where they are the same question. The index is made when a
block is missed for the first time, and looks at each query once; 500,000 of them take a second or two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistics
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.ordering import groups, row_keys
from conspectus.queries.query import WEIGHT_STEPS, Literal

Counts = NDArray[np.int64]
Keys = NDArray[np.bytes_]


class ExactCounts:
    """The counts of all blocks that were counted, each in the block's own steps, and what follows from them."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self._blocks: dict[Block, Counts] = {}
        self._new: list[Block] = []
        self._marginals: dict[tuple[int, ...], Counts] = {}
        self._intervals: dict[int, tuple[Intervals, Counts]] = {}
        self._literals: dict[Literal, int] = {}
        self._boxes = _Sorted()
        self._parities = _Sorted()
        self._named: dict[object, int] = {}

    def add(self, block: Block, counts: Counts) -> None:
        """Keep the counts of one block."""
        if block not in self._blocks:
            self._blocks[block] = counts
            self._new.append(block)

    def find(self, block: Block) -> Counts | None:
        """The counts of a block in its own steps, where all its questions were counted before; None otherwise."""
        if block in self._blocks:
            return self._blocks[block]
        if self.rows is None:
            return None
        self._index()
        match block:
            case Marginal():
                table = self._marginals.get(_told_apart(block))
                return None if table is None else _arranged(block, table)
            case GroupedMarginal():
                # Its cells are sums of those of the marginal over all codes, where that was counted.
                counted = _told_apart(block) in self._marginals
                whole = self.find(Marginal(block.domain, block.columns)) if counted else None
                return None if whole is None else block.coarsened(whole)
            case Conjunctions():
                return self._unions(block)
            case Parities() | ParityList():
                return self._parities.find(_keys(block.matrix + 1))
            case SparseQueries() | Statistics() | UnsafeFunctions() | LinearQueries():
                held = [self._named.get(name) for name in _names(block)]
                return None if None in held else np.array(held, dtype=np.int64) // _finer(block)
        return None

    def _index(self) -> None:
        """Take in the blocks that were counted since the last miss."""
        for block in self._new:
            counts = self._blocks[block]
            match block:
                case Marginal():
                    self._marginals[_told_apart(block)] = _in_order(block, counts)
                case Intervals():
                    if block.column not in self._intervals or not block.prefixes_only:
                        self._intervals[block.column] = block, counts
                case Conjunctions():
                    self._listed(block, counts)
                case Parities() | ParityList():
                    self._parities.add(_keys(block.matrix + 1), counts)
                case SparseQueries() | Statistics() | UnsafeFunctions() | LinearQueries():
                    self._named.update(zip(_names(block), (counts * _finer(block)).tolist()))
        self._new = []

    def _listed(self, block: Conjunctions, counts: Counts) -> None:
        for literal in block.literals:
            self._literals.setdefault(literal, len(self._literals))
        keys = self._box_keys(block)
        boxes = np.diff(block.starts)
        alone = np.flatnonzero(boxes == 1)
        self._boxes.add(keys[block.starts[alone]], counts[alone])
        for place in np.flatnonzero(boxes != 1).tolist():
            self._named[_union(keys[block.starts[place] : block.starts[place + 1]])] = int(counts[place])

    def _unions(self, block: Conjunctions) -> Counts | None:
        """Each query as the sum of its boxes; a union of which a box is missing may be known as a whole."""
        values, known = self._of_boxes(block)
        found = np.diff(np.append(0, np.cumsum(values))[block.starts])
        if known.all():
            return found
        missed = np.unique(np.repeat(np.arange(len(block)), np.diff(block.starts))[~known])
        if (np.diff(block.starts)[missed] == 1).any():
            return None
        strange: NDArray[np.bool_] = np.any(self._strange(block)[block.terms], axis=1)
        keys = self._box_keys(block)
        for place in missed.tolist():
            boxes = slice(block.starts[place], block.starts[place + 1])
            value = self._named.get(_union(keys[boxes]))
            if value is None or strange[boxes].any():
                return None
            found[place] = value
        return found

    def _of_boxes(self, block: Conjunctions) -> tuple[Counts, NDArray[np.bool_]]:
        """The count of each box of a block, and which of them are known."""
        assert self.rows is not None
        known: NDArray[np.bool_] = np.all(block.terms < 0, axis=1)
        values = np.where(known, self.rows, 0)
        self._from_lists(block, values, known)
        if self._marginals and not known.all():
            self._from_cells(block, values, known)
        if self._intervals and not known.all():
            self._from_intervals(block, values, known)
        return values, known

    def _from_lists(self, block: Conjunctions, values: Counts, known: NDArray[np.bool_]) -> None:
        left = np.flatnonzero(~known & ~self._strange(block)[block.terms].any(axis=1))
        places = self._boxes.places(self._box_keys(block, left))
        held = left[places >= 0]
        values[held] = self._boxes.counts[places[places >= 0]]
        known[held] = True

    def _from_cells(self, block: Conjunctions, values: Counts, known: NDArray[np.bool_]) -> None:
        codes = _codes(block, lambda literal: literal.codes[0] if len(literal.codes) == 1 else -1)
        columns = _codes(block, lambda literal: literal.column)
        left = np.flatnonzero(~known & ((codes >= 0) | (columns < 0)).all(axis=1))
        for group in groups(row_keys(columns[left], len(block.domain))):
            here = left[group]
            among = tuple(c for c in columns[here[0]].tolist() if c >= 0)
            table = self._marginals.get(among)
            if table is not None:
                values[here] = table[tuple(codes[here, : len(among)].T)]
                known[here] = True

    def _from_intervals(self, block: Conjunctions, values: Counts, known: NDArray[np.bool_]) -> None:
        for place in np.flatnonzero(~known & ((block.terms >= 0).sum(axis=1) == 1)).tolist():
            literal = block.box(place)[0]
            low, high = literal.codes[0], literal.codes[-1]
            intervals, counts = self._intervals.get(literal.column, (None, None))
            if intervals is None or counts is None or high - low + 1 != len(literal.codes) or high >= intervals.regular:
                continue
            if not (intervals.prefixes_only and low):
                values[place] = counts[high if intervals.prefixes_only else _number(intervals.regular, low, high)]
                known[place] = True

    def _strange(self, block: Conjunctions) -> NDArray[np.bool_]:
        """Which literals of a block stand in no listed question, and so have no number in keys; padding has one."""
        return np.array([literal not in self._literals for literal in block.literals] + [False], dtype=bool)

    def _box_keys(self, block: Conjunctions, boxes: NDArray[np.int64] | None = None) -> Keys:
        """One key for each box, equal exactly for boxes of the same literals, whatever block they stand in."""
        number = np.array([self._literals.get(literal, 0) + 1 for literal in block.literals] + [0], dtype=np.int64)
        # Literals are sorted by their own number here, and padding, which is 0, comes last.
        return _keys(-np.sort(-number[block.terms if boxes is None else block.terms[boxes]], axis=1))


class _Sorted:
    """Counts by keys, found by bisection."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, dtype="S1")
        self.counts: Counts = np.zeros(0, dtype=np.int64)
        self._new: list[tuple[Keys, Counts]] = []

    def add(self, keys: Keys, counts: Counts) -> None:
        self._new.append((keys, counts))

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """Where each key stands, −1 for none."""
        if self._new:
            every = np.concatenate([self._keys, *(new for new, _ in self._new)])
            order = np.argsort(every)
            self._keys = every[order]
            self.counts = np.concatenate([self.counts, *(counts for _, counts in self._new)])[order]
            self._new = []
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[places] == keys, places, -1)

    def find(self, keys: Keys) -> Counts | None:
        places = self.places(keys)
        return None if (places < 0).any() else self.counts[places]


def _keys(rows: NDArray[Any]) -> Keys:
    """Rows of numbers, padded at the end with 0, as bytes: equal exactly where the rows are, whatever their width."""
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype="S1")
    wide = np.ascontiguousarray(rows, dtype=">u4")
    # Bytes of one length are compared without the zeros at their end, which are padding, or the same in both.
    return wide.view(f"S{wide.shape[1] * 4}").reshape(-1)


def _union(boxes: Keys) -> object:
    """The name of a union of boxes, in whatever order they stand."""
    return Conjunctions, tuple(sorted(boxes.tolist()))


def _told_apart(block: Marginal | GroupedMarginal) -> tuple[int, ...]:
    """The columns of a marginal in order, without those that have one code."""
    return tuple(sorted(c for c in block.columns if block.domain.sizes[c] > 1))


def _in_order(block: Marginal, counts: Counts) -> Counts:
    """The counts of a marginal as a table of its columns in order, without those that have one code."""
    order = sorted(range(len(block.columns)), key=block.columns.__getitem__)
    return counts.reshape(block.shape).transpose(order).reshape(block.domain.shape(_told_apart(block)))


def _arranged(block: Marginal, table: Counts) -> Counts:
    """The table of `_in_order` as the counts of a marginal, whatever the order of its columns."""
    columns = sorted(block.columns)
    full = table.reshape(block.domain.shape(columns))
    return np.ascontiguousarray(full.transpose([columns.index(c) for c in block.columns])).ravel()


def _codes(block: Conjunctions, of: Any) -> NDArray[np.int64]:
    """A number of each literal of each box, −1 where there is none."""
    return np.array([*map(of, block.literals), -1], dtype=np.int64)[block.terms]


def _number(regular: int, low: int, high: int) -> int:
    """The place of an interval among all, which are ordered by low, then high."""
    return low * regular - low * (low - 1) // 2 + high - low


Named = SparseQueries | Statistics | UnsafeFunctions | LinearQueries


def _names(block: Named) -> Iterator[object]:
    """One name for each question: its weights on listed records or on codes, or the function."""
    if isinstance(block, SparseQueries):
        return ((SparseQueries, block.written(place)) for place in range(len(block)))
    if isinstance(block, LinearQueries):
        return ((LinearQueries, block.query(place)) for place in range(len(block)))
    return ((type(block), block.grid, block.denominator, function) for function in block.functions)


def _finer(block: Named) -> int:
    """Values of weighted records are kept in the finest steps that there are, whatever block they stood in.

    Exact both ways: the weights of a question are whole steps of its grid, and so is its value.
    """
    return WEIGHT_STEPS // block.grid if isinstance(block, SparseQueries) else 1
