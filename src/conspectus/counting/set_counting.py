"""Listed conjunctions over chunks of sets: sorted lists or bitmaps of the rows that hold a column's second value."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.data.chunks import SetChunk
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.literals import LiteralArrays

from .bitmaps import Task
from .set_kernels import count_sets
from .trie import Trie, build_trie

_PARTS = 4
"""Parts of the tree for each thread, so that an unlucky one does not keep the others waiting."""


class SetCounts:
    """Counts listed predicates over two-valued columns.

    A literal is a column's set or its complement. Sets stand nearer to the root than complements, and large sets nearer
    than small ones: what a root holds is looked up by the short lists of its children.
    """

    def __init__(self, block: Conjunctions, threads: int) -> None:
        self._block = block
        arrays = LiteralArrays(block.literals)
        if any(block.domain.sizes[column] != 2 for column in block.columns):
            raise ValueError("a chunk does not fit its domain: it must come from a table of the same schema")
        self._columns = arrays.column[:-1].astype(np.int64)
        self._inverted = arrays.codes == 0
        self._threads = threads
        self._trie: Trie | None = None
        self._parts: list[tuple[int, int]] = []
        self._totals = np.zeros(0, dtype=np.int64)

    def tasks(self, chunk: SetChunk) -> list[Task]:
        """The work of one chunk: every part of the tree by itself, with totals that no other part writes to."""
        slot = chunk.slots(self._columns)
        if self._trie is None:
            size = np.where(self._inverted, chunk.rows - chunk.ones[slot], chunk.ones[slot])
            rank = np.lexsort((-size, self._inverted))
            order = np.empty(len(rank), dtype=np.int64)
            order[rank] = np.arange(len(rank))
            self._trie = build_trie(self._block.terms, order)
            self._totals = np.zeros(len(self._trie.literal), dtype=np.int64)
            self._parts = _parts(self._trie, _PARTS * self._threads if self._threads > 1 else 1)
        trie = self._trie
        return [
            partial(
                count_sets, chunk.rows, chunk.ends, chunk.places, chunk.bitmap, chunk.bits, chunk.ones, slot,
                self._inverted, trie.literal, trie.depth, trie.after, trie.deepest, begin, stop, self._totals,
            )
            for begin, stop in self._parts
        ]  # fmt: skip

    def counts(self, rows: int) -> NDArray[np.int64]:
        boxes = np.zeros(len(self._block.terms), dtype=np.int64)
        if self._trie is not None:
            boxes = np.append(self._totals, rows)[self._trie.node_of]
        return self._block.of_boxes(boxes)


def _parts(trie: Trie, parts: int) -> list[tuple[int, int]]:
    """Stretches of whole trees with about equally many nodes each."""
    nodes = len(trie.literal)
    roots = np.append(np.flatnonzero(trie.depth == 0), nodes)
    wanted = np.linspace(0, nodes, parts + 1)
    bounds = np.unique(roots[np.searchsorted(roots, wanted)]) if nodes else np.zeros(1, dtype=np.int64)
    return [(int(begin), int(stop)) for begin, stop in pairwise(bounds)]
