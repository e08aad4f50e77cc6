"""Many literals at once, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conspectus.queries.ordering import starts_of, stretches

from .query import Literal


class LiteralArrays:
    """Columns and codes of a table of literals in flat arrays; number −1 is the literal that is always true."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        self.column = np.array([literal.column for literal in literals] + [-1], dtype=np.int32)
        self.length = np.array([len(literal.codes) for literal in literals] + [0], dtype=np.int64)
        self.start = starts_of(self.length)
        listed = [np.asarray(literal.codes, dtype=np.int64) for literal in literals]
        self.codes = np.concatenate([np.zeros(0, dtype=np.int64), *listed])

    def on(self, terms: NDArray[np.int32], column: int) -> NDArray[np.int32]:
        """For each box (a row of literal numbers) its literal on this column, or −1."""
        here = self.column[terms] == column
        return np.asarray(np.where(here, terms, -1).max(axis=1, initial=-1))

    def indicator(self, numbers: NDArray[np.int32], size: int) -> NDArray[np.uint8]:
        """One row of 0 and 1 over the codes of a column for each literal number."""
        rows = np.zeros((len(numbers), size), dtype=np.uint8)
        rows[numbers < 0] = 1
        length = self.length[numbers]
        places = stretches(self.start[numbers], length)
        rows[np.repeat(np.arange(len(numbers)), length), self.codes[places]] = 1
        return rows
