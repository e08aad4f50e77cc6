"""Marginals: every cell of a table over some columns, as one block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from conspectus.data.domain import Domain
from conspectus.queries.block import check_length
from conspectus.queries.query import Indices, Literal, Predicate
from conspectus.queries.sensitivity import CountingBlock, WorkloadError

from .conjunction_list import Conjunctions


@dataclass(frozen=True)
class Marginal(CountingBlock):
    """The cells of one marginal, in row-major order of the columns' codes, the columns in the order given.

    Guarantee: a record lies in exactly one cell. So a unit of m rows that is added or removed moves all cells together
    by m in L1, m² in squared L2 and m in L∞; replaced, by 2m, 2m² and m, however many cells there are.
    """

    domain: Domain
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or not all(0 <= c < len(self.domain) for c in self.columns):
            raise WorkloadError("a marginal needs distinct columns of its table")
        check_length(math.prod(self.shape), "this marginal")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its columns, in its own order."""
        return self.domain.shape(self.columns)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def query(self, index: int) -> Predicate:
        """The cell with this number."""
        codes = np.unravel_index(index, self.shape) if self.columns else ()
        cell = sorted((c, int(code)) for c, code in zip(self.columns, codes) if self.domain.sizes[c] > 1)
        return Predicate((tuple(Literal(c, (code,)) for c, code in cell),))

    def take(self, indices: Indices) -> Conjunctions:
        """Some cells, listed."""
        kept = [i for i in np.argsort(self.columns) if self.shape[i] > 1]
        codes = np.unravel_index(indices, self.shape) if self.columns else ()
        literals = tuple(Literal(self.columns[i], (code,)) for i in kept for code in range(self.shape[i]))
        starts = np.cumsum([0, *(self.shape[i] for i in kept)])
        terms = np.full((len(indices), len(kept)), -1, dtype=np.int64)
        for place, i in enumerate(kept):
            terms[:, place] = starts[place] + codes[i]
        return Conjunctions.build(self.domain, literals, terms)

    def max_satisfied(self) -> int:
        """One: a record lies in exactly one cell."""
        return 1

    def max_differing(self) -> int:
        """Two, as two records lie in two cells at most; none when there is one cell only."""
        return 2 if len(self) > 1 else 0

    def to_json(self) -> dict[str, Any]:
        return {"kind": "marginal", "columns": list(self.columns)}
