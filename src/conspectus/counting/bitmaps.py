"""Listed conjunctions and parities over bit-packed literals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, complement
from conspectus.data.domain import Codes
from conspectus.queries.blocks.conjunction_list import Conjunctions

from .kernels import count_conjunctions, count_odd
from .trie import Trie, build_trie

_MOST_EXPANDED = 3
"""Boxes up to this width have their negated literals expanded; beyond it the terms would outgrow what they save."""

Task = Callable[[], None]


class Packing:
    """Which literals the codes of each column satisfy, as flat lists that the kernels read."""

    def __init__(self, literals: list[tuple[int, CodeSet]], place: dict[int, int], sizes: tuple[int, ...]) -> None:
        used = sorted({column for column, _ in literals})
        self.columns = np.array([place[c] for c in used], dtype=np.int64)
        lengths = np.array([sizes[c] for c in used], dtype=np.int64)
        self.first = np.cumsum(lengths) - lengths
        start = dict(zip(used, self.first.tolist()))
        owner = np.concatenate(
            [np.asarray(codes, dtype=np.int64) + start[c] for c, codes in literals] or [np.zeros(0, dtype=np.int64)]
        )
        number = np.repeat(np.arange(len(literals), dtype=np.int32), [len(codes) for _, codes in literals])
        order = np.argsort(owner, kind="stable")
        self.items = number[order]
        self.listed = np.searchsorted(owner[order], np.arange(int(lengths.sum()) + 1))
        self.literals = len(literals)

    def weights(self, buffer: Codes, rows: int) -> NDArray[np.int64]:
        """How many of the rows satisfy each literal."""
        weight = np.zeros(self.literals, dtype=np.int64)
        for column, first, end in zip(self.columns, self.first, [*self.first[1:], len(self.listed) - 1]):
            here = np.bincount(buffer[column, :rows], minlength=int(end - first))
            span = slice(self.listed[first], self.listed[end])
            np.add.at(weight, self.items[span], np.repeat(here, np.diff(self.listed[first : end + 1])))
        return weight


class ConjunctionCounts:
    """Counts listed predicates: signed sums of the counts of conjunctions of packed literals."""

    def __init__(self, block: Conjunctions, place: dict[int, int], threads: int) -> None:
        self._block = block
        sizes = block.domain.sizes
        expand = block.terms.shape[1] <= _MOST_EXPANDED
        number: dict[tuple[int, CodeSet], int] = {}
        packed = np.full(len(block.literals) + 1, -1, dtype=np.int32)
        negated = np.zeros(len(block.literals) + 1, dtype=bool)
        for i, literal in enumerate(block.literals):
            codes = literal.codes
            if expand and 2 * len(codes) > sizes[literal.column]:
                codes = complement(codes, sizes[literal.column])
                negated[i] = True
            packed[i] = number.setdefault((literal.column, codes), len(number))
        self._packing = Packing(list(number), place, sizes)
        self._box, self._sets, self._sign = _expanded(packed[block.terms], negated[block.terms])
        self._threads = threads
        self._trie: Trie | None = None
        self._totals: list[NDArray[np.int64]] = []

    def tasks(self, buffer: Codes, rows: int) -> list[Task]:
        """The work of one buffer, every thread with totals of its own."""
        if self._trie is None:
            # Rare literals go near the root: where they are absent, everything below them is passed over.
            self._trie = build_trie(self._sets, self._packing.weights(buffer, rows))
            self._sets = self._sets[:0]
            self._totals = [np.zeros(len(self._trie.literal), dtype=np.int64) for _ in range(self._threads)]
        pack, trie = self._packing, self._trie
        return [
            partial(
                count_conjunctions, buffer, rows, pack.columns, pack.first, pack.listed, pack.items, pack.literals,
                trie.literal, trie.depth, trie.after, trie.deepest, part, self._threads, totals,
            )
            for part, totals in enumerate(self._totals)
        ]  # fmt: skip

    def counts(self, rows: int) -> NDArray[np.int64]:
        boxes = np.zeros(len(self._block.terms), dtype=np.int64)
        if self._trie is not None:
            totals = np.append(sum(self._totals), rows)
            np.add.at(boxes, self._box, self._sign * totals[self._trie.node_of])
        return self._block.of_boxes(boxes)


def _expanded(
    terms: NDArray[np.int32], negated: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Boxes as signed sums of sets of packed literals, by inclusion and exclusion over the negated ones."""
    box, sets, sign = [], [], []
    width = terms.shape[1]
    for chosen in range(1 << width if negated.any() else 1):
        taken = np.array([chosen >> at & 1 for at in range(width)], dtype=bool)
        fits = (negated | ~taken).all(axis=1)
        keep = ~negated[fits] | taken
        box.append(np.flatnonzero(fits))
        sets.append(np.where(keep, terms[fits], -1).astype(np.int32))
        sign.append(np.full(int(fits.sum()), (-1) ** int(taken.sum()), dtype=np.int64))
    return np.concatenate(box), np.concatenate(sets), np.concatenate(sign)


class ParityCounts:
    """Counts parities by XOR of the second values of their columns."""

    def __init__(self, matrix: NDArray[np.int32], place: dict[int, int], threads: int) -> None:
        columns = sorted(set(matrix.ravel().tolist()) - {-1})
        number = np.full(max(columns, default=0) + 2, -1, dtype=np.int32)
        number[columns] = np.arange(len(columns))
        sizes = tuple(2 for _ in range(max(columns, default=0) + 1))
        self._packing = Packing([(c, (1,)) for c in columns], place, sizes)
        self._trie = build_trie(number[matrix], np.arange(len(columns)))
        self._totals = [np.zeros(len(self._trie.literal), dtype=np.int64) for _ in range(threads)]

    def tasks(self, buffer: Codes, rows: int) -> list[Task]:
        pack, trie = self._packing, self._trie
        return [
            partial(
                count_odd, buffer, rows, pack.columns, pack.first, pack.listed, pack.items, pack.literals,
                trie.literal, trie.depth, trie.deepest, part, len(self._totals), totals,
            )
            for part, totals in enumerate(self._totals)
        ]  # fmt: skip

    def counts(self, rows: int) -> NDArray[np.int64]:
        odd = np.append(sum(self._totals), 0)
        return rows - odd[self._trie.node_of]
