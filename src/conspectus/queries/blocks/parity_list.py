"""Parities of two-valued columns, as the fraction of rows with an even number of second values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.block import check_length
from conspectus.queries.query import Indices, Parity
from conspectus.queries.sensitivity import CountingBlock, WorkloadError, fixed


@dataclass(frozen=True)
class Parities(CountingBlock):
    """The parities of all combinations of k of some two-valued columns, in lexicographic order.

    Guarantee: `max_satisfied` and `max_differing` are the exact maxima over records and pairs of records.
    """

    domain: Domain
    columns: tuple[int, ...]
    k: int

    def __post_init__(self) -> None:
        _check_columns(self.domain, self.columns)
        if not 0 <= self.k <= len(self.columns):
            raise WorkloadError(f"a parity takes between 0 and {len(self.columns)} two-valued columns, not {self.k}")
        # Not len(self), which ends at 64 bits.
        check_length(comb(len(self.columns), self.k), f"all {self.k}-way parities of {len(self.columns)} columns")

    def __len__(self) -> int:
        return comb(len(self.columns), self.k)

    @cached_property
    def matrix(self) -> NDArray[np.int32]:
        """The columns of every parity."""
        flat = (c for chosen in combinations(self.columns, self.k) for c in chosen)
        return fixed(np.fromiter(flat, dtype=np.int32, count=len(self) * self.k).reshape(len(self), self.k))

    def query(self, index: int) -> Parity:
        return Parity(tuple(self.matrix[index].tolist()))

    def take(self, indices: Indices) -> ParityList:
        return ParityList(self.domain, tuple(map(tuple, self.matrix[indices].tolist())))

    def max_satisfied(self) -> int:
        """All of them: a record of first values is even everywhere."""
        return len(self)

    def max_differing(self) -> int:
        """Two records that differ on s columns differ on the parities that take an odd number of these s."""
        d, k = len(self.columns), self.k
        # At least k − (d − s) of the s are taken. Where k is near d these are few, and the sum is short.
        return max(
            sum(comb(s, odd) * comb(d - s, k - odd) for odd in range(max(0, k - d + s) | 1, min(k, s) + 1, 2))
            for s in range(d + 1)
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "parities", "columns": list(self.columns), "k": self.k}


@dataclass(frozen=True)
class ParityList(CountingBlock):
    """Parities listed one by one.

    Guarantee: `max_satisfied` is the exact maximum over records; `max_differing` is never below the truth.
    """

    domain: Domain
    sets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for columns in self.sets:
            _check_columns(self.domain, columns)

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        return cls(blocks[0].domain, tuple(columns for block in blocks for columns in block.sets))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({c for columns in self.sets for c in columns}))

    @cached_property
    def matrix(self) -> NDArray[np.int32]:
        """The columns of every parity, padded with −1."""
        width = max(map(len, self.sets), default=0)
        rows = [[*columns, *[-1] * (width - len(columns))] for columns in self.sets]
        return fixed(np.array(rows, dtype=np.int32).reshape(len(self.sets), width))

    def __len__(self) -> int:
        return len(self.sets)

    def query(self, index: int) -> Parity:
        return Parity(self.sets[index])

    def take(self, indices: Indices) -> ParityList:
        return ParityList(self.domain, tuple(self.sets[i] for i in np.asarray(indices).tolist()))

    def max_satisfied(self) -> int:
        """All of them: a record of first values is even everywhere."""
        return len(self)

    def max_differing(self) -> int:
        """At most the parities that read anything at all."""
        return sum(1 for columns in self.sets if columns)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "parity-list", "sets": [list(columns) for columns in self.sets]}


def _check_columns(domain: Domain, columns: tuple[int, ...]) -> None:
    if any(a >= b for a, b in pairwise(columns)) or not all(0 <= c < len(domain) for c in columns):
        raise WorkloadError("a parity needs sorted, distinct columns of its table")
    if any(domain.sizes[c] != 2 for c in columns):
        raise WorkloadError("a parity needs columns with exactly two values")
