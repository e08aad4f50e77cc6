"""Sums of weights over the rows that satisfy predicates: tables of sums, which add, and the queries that follow.

For each weighting and each set of columns that its predicates read, one table holds the sum of the weights of the rows
in each cell. A predicate is then a sum of cells, as it is for plain counts. Where the cells are too many for a table,
the sums are those of the single boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows, fitting
from conspectus.data.fold import Vectors
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.query import Box, Indices, Weighting
from conspectus.queries.workload import Workload

from .block_counter import BlockCounter
from .evaluation import answers_from_marginals

MOST_CELLS = 1 << 22
"""Cells of one table of sums; predicates about more are summed box by box."""

_ROWS = 1 << 20
"""Rows that are summed at once: their weights, as floats, add up exactly below 2**53 steps."""


class _Tables(NamedTuple):
    """Predicates that share a weighting: the queries they are, and the tables of sums that they need, or none."""

    places: Indices
    given: Conjunctions
    columns: tuple[tuple[int, ...], ...]

    @property
    def boxes(self) -> list[Box]:
        """Where a table would be too large: all boxes, one by one."""
        return [] if self.columns else [self.given.box(number) for number in range(len(self.given.terms))]


@dataclass(frozen=True, eq=False)
class _Layout:
    """What the one vector of a counter holds, weighting by weighting."""

    parts: tuple[tuple[Weighting, _Tables], ...]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, block: LinearQueries) -> _Layout:
        parts, lengths = [], []
        for weighting, places, given in block.by_weighting():
            sets = tuple(columns for columns, _ in given.column_groups())
            cells = [block.domain.project(columns).cells for columns in sets]
            fits = max(cells, default=0) <= MOST_CELLS
            parts.append((weighting, _Tables(places, given, sets if fits else ())))
            lengths += cells if fits else [1] * len(given.terms)
        return cls(tuple(parts), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))


class LinearCounts(BlockCounter):
    """Adds up the weights of the rows, cell by cell."""

    def __init__(self, block: LinearQueries) -> None:
        self._block = block
        self._layout = _Layout.of(block)
        self.held = np.zeros(int(self._layout.starts[-1]), dtype=np.int64)

    def add(self, chunk: CodedRows) -> None:
        codes = {column: chunk.column(column).astype(np.int64) for column in self._block.columns}
        for start in range(0, chunk.rows, _ROWS):
            rows = min(_ROWS, chunk.rows - start)
            self._add({column: held[start : start + rows] for column, held in codes.items()}, rows)

    def _add(self, codes: dict[int, NDArray[np.int64]], rows: int) -> None:
        domain, at = self._block.domain, 0
        for weighting, tables in self._layout.parts:
            cell = self._cells(codes, weighting.columns, rows)
            weights = weighting.steps[cell].astype(np.float64)
            for columns in tables.columns:
                first, end = self._layout.starts[at : at + 2]
                cells = self._cells(codes, columns, rows)
                sums = np.bincount(cells, weights=weights, minlength=domain.project(columns).cells)
                self.held[first:end] += sums.astype(np.int64)
                at += 1
            for box in tables.boxes:
                inside = np.ones(rows, dtype=bool)
                for literal in box:
                    inside &= np.isin(codes[literal.column], np.array(literal.codes))
                self.held[self._layout.starts[at]] += int(weights[inside].sum())
                at += 1

    def _cells(self, codes: dict[int, NDArray[np.int64]], columns: tuple[int, ...], rows: int) -> NDArray[np.int64]:
        """The cell of each row among the combinations of codes of some columns."""
        found = np.zeros(rows, dtype=np.int64)
        for column in columns:
            size = self._block.domain.sizes[column]
            found = found * size + fitting(codes[column], size, rows)
        return found

    def of_parts(self, parts: Vectors, rows: int) -> NDArray[np.int64]:
        found = np.zeros(len(self._block), dtype=np.int64)
        at = 0
        for _, tables in self._layout.parts:
            if tables.columns:
                stretch = self._layout.starts[at : at + len(tables.columns) + 1].tolist()
                held = [parts[0][first:end] for first, end in pairwise(stretch)]
                sums = dict(zip(tables.columns, held))
                asked = Workload(self._block.domain, (tables.given,))
                found[tables.places] = answers_from_marginals(asked, sums.__getitem__, dtype=np.int64)
                at += len(tables.columns)
            else:
                first = int(self._layout.starts[at])
                boxes = parts[0][first : first + len(tables.given.terms)]
                found[tables.places] = tables.given.of_boxes(boxes)
                at += len(boxes)
        return found
