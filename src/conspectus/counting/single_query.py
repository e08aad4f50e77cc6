"""Queries answered one at a time from one table of weights or counts: what was summed for one is kept for the next."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.query import VALUE_STEPS, Box, Linear, Parity, Predicate, Query, Sparse
from conspectus.queries.sensitivity import WorkloadError

from .evaluation import even_cells, indicator

_KEPT_CELLS = 1 << 22
_WIDEST = 1 << 12  # cells of a marginal that is worth keeping; a query about more columns leaves few cells to sum
_FEW = 1 << 14  # cells that are summed in a hundredth of the time that a marginal of their table takes


class SingleQueryCounts:
    """A table over the cells of all columns of a domain, in row-major order, asked one query at a time.

    The marginal of the columns that a query reads is summed once and kept, as long as all that is kept stays small.
    """

    def __init__(self, domain: Domain, table: NDArray[Any]) -> None:
        self._domain = domain
        self._table = np.asarray(table).reshape(domain.sizes)
        self._marginals: dict[tuple[int, ...], NDArray[Any]] = {}
        self._cells = 0

    def of(self, query: Query) -> Any:
        """The sum of the table over the records on which the query is true."""
        if isinstance(query, Parity):
            table = self._marginal(query.columns)
            return table.ravel()[even_cells(table.ndim)].sum()
        if isinstance(query, Sparse):
            cells = self._table.ravel()[np.array(query.addresses, dtype=np.int64)]
            return (cells * np.array(query.steps)).sum() / query.grid
        if isinstance(query, Linear):
            return self.steps_of(query) / VALUE_STEPS
        if not isinstance(query, Predicate):
            raise WorkloadError("a function of the table is no sum over records: measure it instead")
        return sum((self._box(box) for box in query.boxes), self._table.dtype.type(0))

    def steps_of(self, query: Linear) -> Any:
        """The weights of a linear query over the table, in steps: a whole number where the table holds counts."""
        columns = query.columns
        table = self._marginal(columns)
        _, inside = indicator(query.given, self._domain)
        shapes = [
            tuple(size if c in read else 1 for c, size in zip(columns, table.shape))
            for read in (query.given.columns, query.weighting.columns)
        ]
        weights = query.weighting.steps.reshape(shapes[1]).astype(np.int64)
        return (table * (inside.reshape(shapes[0]) * weights)).sum()

    def _box(self, box: Box) -> Any:
        columns = tuple(literal.column for literal in box)
        if columns not in self._marginals:
            wide = math.prod(self._domain.shape(columns)) > _WIDEST
            if wide or self._table.size // math.prod(self._domain.shape(columns)) <= _FEW:
                return self._slice(box)
        table = self._marginal(columns)
        if all(len(literal.codes) == 1 for literal in box):
            return table[tuple(literal.codes[0] for literal in box)]
        return table[np.ix_(*(literal.codes for literal in box))].sum()

    def _slice(self, box: Box) -> Any:
        """The box cut out of the table itself: single codes drop their axis, several are taken from it."""
        several = [literal for literal in box if len(literal.codes) > 1]
        sides: list[Any] = [slice(None)] * len(self._domain)
        for literal in box:
            codes = literal.codes
            sides[literal.column] = codes[0] if len(codes) == 1 else slice(codes[0], codes[-1] + 1)
        table = self._table[tuple(sides)]
        dropped = [literal.column for literal in box if len(literal.codes) == 1]
        for literal in several:
            if len(literal.codes) != literal.codes[-1] + 1 - literal.codes[0]:
                axis = literal.column - sum(column < literal.column for column in dropped)
                table = table.take(np.array(literal.codes) - literal.codes[0], axis=axis)
        return table.sum()

    def _marginal(self, columns: tuple[int, ...]) -> NDArray[Any]:
        known = self._marginals.get(columns)
        if known is None:
            others = tuple(axis for axis in range(len(self._domain)) if axis not in columns)
            known = np.asarray(self._table.sum(axis=others))
            if self._cells + known.size > _KEPT_CELLS:
                self._marginals.clear()
                self._cells = 0
            self._marginals[columns] = known
            self._cells += known.size
        return known
