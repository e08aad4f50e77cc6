"""Counters of blocks that are not counts of records one by one: weights, projections, functions of one's own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors
from conspectus.data.domain import CodedRows
from conspectus.data.records.field import Elements
from conspectus.queries.addresses import addresses_of
from conspectus.queries.blocks.low_sensitivity import UnsafeFunctions
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.queries.blocks.sparse_queries import SparseQueries


class SparseCounts:
    """Joins the rows with the records that are listed; memory is linear in these."""

    def __init__(self, block: SparseQueries) -> None:
        self._block = block
        self._counts = np.zeros(len(block.index), dtype=np.int64)

    def add(self, chunk: CodedRows) -> None:
        self._block.index.tally(addresses_of(self._block.domain, chunk), self._counts)

    def counts(self) -> NDArray[np.int64]:
        return self._block.counts_of(self._counts)


class ProjectionCounts:
    """Adds up the columns of the rows, chunk by chunk."""

    def __init__(self, projection: SparseProjection) -> None:
        self._projection = projection
        self._sums = np.zeros(projection.size, dtype=np.int64)

    def add(self, chunk: CodedRows) -> None:
        places = addresses_of(self._projection.domain, chunk)
        if not self._projection.dense:
            self._add(places, self._sums)
            return
        # A dense column costs T operations: the rows are shared by the processors, each with sums of its own.
        shares = np.array_split(places, processors())
        sums = [np.zeros_like(self._sums) for _ in shares]
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(self._add, shares, sums))
        self._sums += sum(sums)

    def _add(self, places: Elements, sums: NDArray[np.int64]) -> None:
        self._projection.add(places, np.ones(len(places), dtype=np.int64), sums)

    def counts(self) -> NDArray[np.int64]:
        return self._sums.copy()


class GatheredRows:
    """Keeps all rows, since nothing is known about what the functions make of them."""

    def __init__(self, block: UnsafeFunctions) -> None:
        for function in block.functions:
            if function.function is None:
                function.share(np.zeros((0, function.width), dtype=np.int64))  # says that it was not stored
        self._block = block
        self._chunks: list[NDArray[np.int64]] = []

    def add(self, chunk: CodedRows) -> None:
        columns = [chunk.column(place).astype(np.int64) for place in self._block.columns]
        self._chunks.append(np.stack(columns, axis=1))

    def counts(self) -> NDArray[np.int64]:
        empty = np.zeros((0, len(self._block.domain)), dtype=np.int64)
        return self._block.values(np.concatenate([empty, *self._chunks]))
