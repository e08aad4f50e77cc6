"""Many literals at once, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, runs_of
from conspectus.queries.ordering import starts_of, stretches


class Literal(Protocol):
    """What is needed of a literal: its column and its codes."""

    @property
    def column(self) -> int: ...

    @property
    def codes(self) -> CodeSet: ...


class LiteralArrays:
    """Columns and codes of a table of literals in flat arrays; number −1 is the literal that is always true."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        self.column = np.array([literal.column for literal in literals] + [-1], dtype=np.int32)
        self.length = np.array([len(literal.codes) for literal in literals] + [0], dtype=np.int64)
        self.start = starts_of(self.length)
        listed = [np.asarray(literal.codes, dtype=np.int64) for literal in literals]
        self.codes = np.concatenate([np.zeros(0, dtype=np.int64), *listed])

    def indicator(self, numbers: NDArray[np.int32], size: int) -> NDArray[np.uint8]:
        """One row of 0 and 1 over the codes of a column for each literal number."""
        rows = np.zeros((len(numbers), size), dtype=np.uint8)
        rows[numbers < 0] = 1
        length = self.length[numbers]
        places = stretches(self.start[numbers], length)
        rows[np.repeat(np.arange(len(numbers)), length), self.codes[places]] = 1
        return rows


class LiteralRuns:
    """The same with the first and the last code of each run: as long as the literals are written, whatever they say.

    A range over two thousand million codes is one run. Number −1 is the literal that is always true, without runs.
    """

    def __init__(self, literals: Sequence[Literal]) -> None:
        listed = [runs_of(literal.codes) for literal in literals]
        self.column = np.array([literal.column for literal in literals] + [-1], dtype=np.int32)
        self.length = np.array([len(literal.codes) for literal in literals] + [0], dtype=np.int64)
        self.runs = np.array([*map(len, listed), 0], dtype=np.int64)
        self.start = starts_of(self.runs)
        flat = np.array([run for runs in listed for run in runs], dtype=np.int64).reshape(-1, 2)
        self.first, self.beyond = flat[:, 0], flat[:, 1] + 1

    def on(self, terms: NDArray[np.int32], column: int) -> NDArray[np.int32]:
        """For each box (a row of literal numbers) its literal on this column, or −1."""
        here = self.column[terms] == column
        return np.asarray(np.where(here, terms, -1).max(axis=1, initial=-1))

    def cuts(self, numbers: NDArray[np.int32], size: int) -> NDArray[np.int64]:
        """The first code of each stretch of a column that none of these literals tells apart, in order.

        Literals are constant on a stretch: only where a run begins, or the code before was the last of one, can the
        truth of a literal change.
        """
        runs = stretches(self.start[numbers], self.runs[numbers])
        found = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), self.first[runs], self.beyond[runs]]))
        return found[found < size]

    def truth(self, numbers: NDArray[np.int32], cuts: NDArray[np.int64]) -> NDArray[np.uint8]:
        """One row of 0 and 1 over the stretches of a column for each literal number."""
        counts = self.runs[numbers]
        runs, owner = stretches(self.start[numbers], counts), np.repeat(np.arange(len(numbers)), counts)
        # One up where a run begins and one down behind it, added up along the column.
        steps = np.zeros((len(numbers), len(cuts) + 1), dtype=np.int8)
        steps[numbers < 0, 0] = 1
        np.add.at(steps, (owner, np.searchsorted(cuts, self.first[runs])), 1)
        np.add.at(steps, (owner, np.searchsorted(cuts, self.beyond[runs])), -1)
        return np.cumsum(steps[:, :-1], axis=1, dtype=np.int8).view(np.uint8)
