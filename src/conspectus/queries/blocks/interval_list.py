"""Intervals and prefixes of an ordered column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.block import check_length
from conspectus.queries.query import Indices, Literal, Predicate
from conspectus.queries.sensitivity import CountingBlock, WorkloadError, fixed

from .conjunction_list import Conjunctions


@dataclass(frozen=True)
class Intervals(CountingBlock):
    """All intervals of the first `regular` codes of a column, ordered by low, then high; or all prefixes 0..high.

    Codes from `regular` on stand for other and missing values, which lie in no interval.

    Guarantee: `max_satisfied` and `max_differing` are the exact maxima over records and pairs of records.
    """

    domain: Domain
    column: int
    regular: int
    prefixes_only: bool

    def __post_init__(self) -> None:
        if not 0 <= self.column < len(self.domain) or not 1 <= self.regular <= self.domain.sizes[self.column]:
            raise WorkloadError("intervals need a column of their table and some of its ordinary codes")
        check_length(len(self), "all intervals of this column")

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    def __len__(self) -> int:
        return self.regular if self.prefixes_only else self.regular * (self.regular + 1) // 2

    @cached_property
    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and the last code of every interval, in order."""
        if self.prefixes_only:
            return fixed(np.zeros(self.regular, dtype=np.int64)), fixed(np.arange(self.regular))
        low, high = np.triu_indices(self.regular)
        return fixed(low.astype(np.int64)), fixed(high.astype(np.int64))

    def query(self, index: int) -> Predicate:
        low, high = int(self.bounds[0][index]), int(self.bounds[1][index])
        if high - low + 1 == self.domain.sizes[self.column]:
            return Predicate(((),))
        return Predicate(((Literal(self.column, tuple(range(low, high + 1))),),))

    def take(self, indices: Indices) -> Conjunctions:
        """Some intervals, listed."""
        return Conjunctions.of(self.domain, [self.query(int(i)) for i in indices])

    def max_satisfied(self) -> int:
        """Code j lies in (j + 1)(r − j) intervals, most in the middle; code 0 lies in all prefixes."""
        return self.regular if self.prefixes_only else (self.regular + 1) ** 2 // 4

    def max_differing(self) -> int:
        """Codes that are d apart differ on d prefixes, or on d·(r + 1 − d) intervals; special codes lie in none."""
        special = self.regular < self.domain.sizes[self.column]
        if self.prefixes_only or self.regular == 1:
            return self.regular if special else self.regular - 1
        return (self.regular + 1) ** 2 // 4

    def to_json(self) -> dict[str, Any]:
        kind = "prefixes" if self.prefixes_only else "ranges"
        return {"kind": kind, "column": self.column, "regular": self.regular}
