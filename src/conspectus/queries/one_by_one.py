"""Queries answered one at a time from one table of weights or counts: what was summed for one is kept for the next."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain

from .evaluation import even_cells
from .query import Box, Parity, Query

_KEPT_CELLS = 1 << 22
_WIDEST = 1 << 12  # cells of a marginal that is worth keeping; a query about more columns leaves few cells to sum


class OneByOne:
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
        return sum((self._box(box) for box in query.boxes), self._table.dtype.type(0))

    def _box(self, box: Box) -> Any:
        columns = tuple(literal.column for literal in box)
        single = all(len(literal.codes) == 1 for literal in box)
        if math.prod(self._domain.shape(columns)) > _WIDEST:
            sides: list[Any] = [slice(None)] * len(self._domain)
            table = self._table
            for literal in box:
                # Codes are dropped column by column, so that what is left shrinks before it is copied.
                sides[literal.column] = slice(literal.codes[0], literal.codes[-1] + 1)
            table = table[tuple(sides)]
            for literal in box:
                if len(literal.codes) != literal.codes[-1] + 1 - literal.codes[0]:
                    table = table.take(np.array(literal.codes) - literal.codes[0], axis=literal.column)
            return table.sum()
        table = self._marginal(columns)
        if single:
            return table[tuple(literal.codes[0] for literal in box)]
        return table[np.ix_(*(literal.codes for literal in box))].sum()

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
