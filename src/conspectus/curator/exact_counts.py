"""The table held ready for single questions, so that a stream of them does not read it again for each. Never leaves.

Small universes are kept as their exact histogram; beyond, the rows are kept as codes, and a question looks at the rows
that the literals before have left over, or joins its records with the distinct ones there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.counters import count
from conspectus.counting.single_query import SingleQueryCounts
from conspectus.data.domain import CodedRows, Codes, Domain
from conspectus.data.records.field import Elements
from conspectus.queries.addresses import addresses
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Box, Parity, Predicate, Query, Sparse
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

MOST_CELLS = 1 << 22
"""The largest universe that is kept as a histogram of counts: 32 MiB."""


class ExactCounts(Protocol):
    """Exact counts of single queries, from memory."""

    @property
    def rows(self) -> int: ...

    def count(self, query: Query) -> int:
        """The exact count; of weighted records in steps of the query's own grid."""
        ...


class HistogramInMemory:
    """One exact count for each cell of the universe."""

    def __init__(self, domain: Domain, chunks: Iterable[CodedRows]) -> None:
        whole = Workload(domain, (Marginal(domain, tuple(range(len(domain)))),))
        counts, self.rows = count(whole, chunks)
        self._cells = SingleQueryCounts(domain, counts)
        self._flat = counts

    def count(self, query: Query) -> int:
        if isinstance(query, Sparse):
            return int((self._flat[np.array(query.addresses, dtype=np.int64)] * np.array(query.steps)).sum())
        return int(self._cells.of(query))


class RowsInMemory:
    """The codes of all rows, column by column."""

    def __init__(self, domain: Domain, chunks: Iterable[CodedRows]) -> None:
        self._domain = domain
        parts: list[list[Codes]] = [[] for _ in domain.sizes]
        self.rows = 0
        for chunk in chunks:
            self.rows += chunk.rows
            for column, codes in enumerate(parts):
                codes.append(chunk.column(column))
        self._columns = [np.concatenate(codes) if codes else np.zeros(0, dtype=np.uint8) for codes in parts]

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
        if not isinstance(query, Predicate):
            raise WorkloadError("a function of the table is no sum over records: measure it instead")
        return sum(self._box(box) for box in query.boxes)

    def _box(self, box: Box) -> int:
        left: NDArray[np.int64] | None = None
        for literal in box:
            column = self._columns[literal.column]
            codes = column if left is None else column[left]
            if len(literal.codes) == 1:
                inside = codes == literal.codes[0]
            else:
                inside = np.isin(codes, np.array(literal.codes, dtype=codes.dtype))
            left = np.flatnonzero(inside) if left is None else left[inside]
            if not len(left):
                return 0
        return self.rows if left is None else len(left)


def keep(domain: Domain, chunks: Iterable[CodedRows]) -> ExactCounts:
    """The table in the smaller of the two forms, by the public size of its universe."""
    return HistogramInMemory(domain, chunks) if domain.cells <= MOST_CELLS else RowsInMemory(domain, chunks)
