"""The table held ready for single questions, so that a stream of them does not read it again for each. Never leaves.

Small universes are held as their exact histogram; beyond, the rows are held as codes, and a question looks at the rows
that the literals before have left over, or joins its records with the distinct ones there are. Whatever else is asked
is folded over the rows that are held: the histogram has them too, in another order, which means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.counters import Counting
from conspectus.counting.single_query import SingleQueryCounts
from conspectus.data.domain import Chunk, Codes, Domain, code_dtype
from conspectus.data.fold import CodesInMemory, Fold
from conspectus.data.records.field import Elements
from conspectus.queries.addresses import addresses
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Box, Linear, Parity, Predicate, Query, Sparse, Weighting
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

MOST_CELLS = 1 << 22
"""The largest universe that is held as a histogram of counts: 32 MiB."""

_ROWS = 1 << 17


class HeldTable(Protocol):
    """Exact counts of single queries, from memory; and the rows, for anything else."""

    @property
    def rows(self) -> int: ...

    def count(self, query: Query) -> int:
        """The exact count; of weights in steps of the query's own grid."""

    def chunks(self, columns: Sequence[int]) -> Iterator[Chunk]:
        """The codes of some columns of all rows, in any order."""


class HistogramInMemory:
    """One exact count for each cell of the universe."""

    def __init__(self, domain: Domain, counts: NDArray[np.int64]) -> None:
        self.rows = int(counts.sum())
        self._domain = domain
        self._cells = SingleQueryCounts(domain, counts)
        self._flat = counts

    def count(self, query: Query) -> int:
        if isinstance(query, Sparse):
            return int((self._flat[np.array(query.addresses, dtype=np.int64)] * np.array(query.steps)).sum())
        if isinstance(query, Linear):
            return int(self._cells.steps_of(query))
        return int(self._cells.of(query))

    def chunks(self, columns: Sequence[int]) -> Iterator[Chunk]:
        filled = np.flatnonzero(self._flat)
        ends = np.cumsum(self._flat[filled])
        for start in range(0, self.rows, _ROWS):
            places = np.arange(start, min(start + _ROWS, self.rows))
            cells = filled[np.searchsorted(ends, places, side="right")]
            found, sizes = np.unravel_index(cells, self._domain.sizes), self._domain.sizes
            codes = {column: found[column].astype(code_dtype(sizes[column])) for column in columns}
            yield Chunk.of(len(sizes), codes, len(places))


class RowsInMemory:
    """The codes of all rows, column by column."""

    def __init__(self, domain: Domain, columns: Sequence[Codes]) -> None:
        self._domain = domain
        self._columns = tuple(columns)
        self.rows = len(columns[0]) if columns else 0

    @cached_property
    def _records(self) -> tuple[Elements, NDArray[np.int64]]:
        """The addresses of the distinct records, sorted, and how many rows each has."""
        found, counts = np.unique(addresses(self._domain, self._columns, self.rows), return_counts=True)
        return found, counts.astype(np.int64)

    def count(self, query: Query) -> int:
        if isinstance(query, Sparse):
            keys, counts = self._records
            if not len(keys):
                return 0
            asked = np.array(query.addresses, dtype=np.uint64)
            places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
            there = keys[places] == asked
            return int((np.where(there, counts[places], 0) * np.array(query.steps, dtype=np.int64)).sum())
        if isinstance(query, Parity):
            odd = np.zeros(self.rows, dtype=np.uint8)
            for column in query.columns:
                odd ^= self._columns[column].astype(np.uint8)
            return int(self.rows - np.count_nonzero(odd))
        if isinstance(query, Linear):
            return sum(self._weighed(box, query.weighting) for box in query.given.boxes)
        if not isinstance(query, Predicate):
            raise WorkloadError("a function of the table is no sum over records: measure it instead")
        return sum(self._box(box) for box in query.boxes)

    def _weighed(self, box: Box, weighting: Weighting) -> int:
        left = self._rows_of(box)
        codes = [self._columns[c] if left is None else self._columns[c][left] for c in weighting.columns]
        cells = np.zeros(len(codes[0]), dtype=np.int64)
        for column, held in zip(weighting.columns, codes):
            cells = cells * self._domain.sizes[column] + held
        return int(weighting.steps[cells].astype(np.int64).sum())

    def _box(self, box: Box) -> int:
        left = self._rows_of(box)
        return self.rows if left is None else len(left)

    def _rows_of(self, box: Box) -> NDArray[np.int64] | None:
        """The rows in a box; None where that is all of them."""
        left: NDArray[np.int64] | None = None
        for literal in box:
            column = self._columns[literal.column]
            codes = column if left is None else column[left]
            wanted = np.array(literal.codes, dtype=codes.dtype)
            inside = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
            left = np.flatnonzero(inside) if left is None else left[inside]
            if not len(left):
                break
        return left

    def chunks(self, columns: Sequence[int]) -> Iterator[Chunk]:
        for start in range(0, self.rows, _ROWS):
            here = slice(start, min(start + _ROWS, self.rows))
            codes = {column: self._columns[column][here] for column in columns}
            yield Chunk.of(len(self._domain), codes, here.stop - start)


def hold(domain: Domain, read: Callable[[Fold[Any]], Any]) -> HeldTable:
    """The table in the smaller of the two forms, by the public size of its universe; `read` runs a fold over it."""
    every = tuple(range(len(domain)))
    if domain.cells <= MOST_CELLS:
        return HistogramInMemory(domain, read(Counting(Workload(domain, (Marginal(domain, every),))))[0])
    return RowsInMemory(domain, read(CodesInMemory(domain, every)))
