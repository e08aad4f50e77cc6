"""Counters of blocks that are not counts of records one by one: weights, projections, functions of the table.

The kinds are a closed list, `BLOCK_COUNTERS`, in this place alone. A counter of each kind holds one vector of whole
numbers, which adds up over any split of the rows, and knows the values that follow from the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors
from conspectus.data.domain import CodedRows, fitting
from conspectus.data.fold import Vectors
from conspectus.data.records.field import Elements
from conspectus.queries.addresses import addresses_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistics
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions

from .block_counter import BlockCounter
from .linear_counts import LinearCounts
from .statistic_counts import StatisticCounts, layout_of


class SparseCounts(BlockCounter):
    """Joins the rows with the records that are listed; memory is linear in these."""

    def __init__(self, block: SparseQueries) -> None:
        self._block = block
        self.held = np.zeros(len(block.index), dtype=np.int64)

    def add(self, chunk: CodedRows) -> None:
        self._block.index.tally(addresses_of(self._block.domain, chunk), self.held)

    def of_parts(self, parts: Vectors, rows: int) -> NDArray[np.int64]:
        return self._block.counts_of(parts[0])


class GroupedCounts(BlockCounter):
    """Tabulates the rows by groups of their codes."""

    def __init__(self, block: GroupedMarginal) -> None:
        self._block = block
        self.held = np.zeros(len(block), dtype=np.int64)
        self._lookups = [None if grouping is None else np.array(grouping) for grouping in block.groups]

    def add(self, chunk: CodedRows) -> None:
        cells = np.zeros(chunk.rows, dtype=np.int64)
        for column, groups, size in zip(self._block.columns, self._lookups, self._block.shape):
            codes = fitting(chunk.column(column), self._block.domain.sizes[column], chunk.rows)
            cells *= size
            cells += codes if groups is None else groups[codes]
        self.held += np.bincount(cells, minlength=len(self.held))


class ProjectionCounts(BlockCounter):
    """Adds up the columns of the rows, chunk by chunk."""

    def __init__(self, projection: SparseProjection) -> None:
        self._projection = projection
        self.held = np.zeros(projection.size, dtype=np.int64)

    def add(self, chunk: CodedRows) -> None:
        places = addresses_of(self._projection.domain, chunk)
        if not self._projection.dense:
            self._add(places, self.held)
            return
        # A dense column costs T operations: the rows are shared by the processors, each with sums of its own.
        shares = np.array_split(places, processors())
        sums = [np.zeros_like(self.held) for _ in shares]
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(self._add, shares, sums))
        self.held += sum(sums)

    def _add(self, places: Elements, sums: NDArray[np.int64]) -> None:
        self._projection.add(places, np.ones(len(places), dtype=np.int64), sums)


class GatheredRows(BlockCounter):
    """Keeps all rows, since nothing is known about what the functions make of them."""

    gathers = True

    def __init__(self, block: UnsafeFunctions) -> None:
        for function in block.functions:
            if function.function is None:
                function.share(np.zeros((0, function.width), dtype=np.int64))  # says that it was not stored
        self._block = block
        self._chunks: list[NDArray[np.int64]] = []

    def add(self, chunk: CodedRows) -> None:
        columns = [chunk.column(place).astype(np.int64) for place in self._block.columns]
        self._chunks.append(np.stack(columns, axis=1))

    def parts(self) -> Vectors:
        return (np.concatenate([np.zeros((0, self._width), dtype=np.int64), *self._chunks]).ravel(),)

    def of_parts(self, parts: Vectors, rows: int) -> NDArray[np.int64]:
        return self._block.values(parts[0].reshape(-1, self._width))

    @property
    def _width(self) -> int:
        return len(self._block.domain)


BLOCK_COUNTERS: dict[type, Callable[[Any], BlockCounter]] = {
    LinearQueries: LinearCounts,
    GroupedMarginal: GroupedCounts,
    SparseQueries: SparseCounts,
    SparseProjection: ProjectionCounts,
    Statistics: lambda block: StatisticCounts(layout_of(block)),
    UnsafeFunctions: GatheredRows,
}
"""The kinds of blocks that are no lists of counting queries, each with its counter."""


def block_counter(block: Block) -> BlockCounter:
    """The counter of a block that is not a list of counting queries."""
    if type(block) not in BLOCK_COUNTERS:
        raise TypeError(f"there is no counter for a block of kind {type(block).__name__}")
    return BLOCK_COUNTERS[type(block)](block)
