"""A random projection of the table: signed sums of its rows, by a public hash.

A projection has T coordinates in s sections of T/s. Each record has in each section one coordinate and one sign, both
from a polynomial hash of its address, so that the table's value at a coordinate is the number of its rows there with
sign +1 less those with −1: an integer. With s = T every section is one coordinate and the matrix is the dense one of ±1
entries (Blum and Roth 2011, Algorithm 2, before the division by √T); with s = 1 it is a count-sketch; between, a sparse
Johnson–Lindenstrauss matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.records.field import Elements
from conspectus.privacy.relation import Relation
from conspectus.queries import hashing
from conspectus.queries.block import ReadsAll
from conspectus.queries.query import Indices, Query
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import Sensitivity, WorkloadError

MOST_COORDINATES = 1 << 24
MOST_INDEPENDENCE = 1 << 12
MOST_COEFFICIENTS = 1 << 25
_NO_QUESTION = "a coordinate of a projection is a sum of signs, and no question of its own"


@dataclass(frozen=True)
class SparseProjection(ReadsAll):
    """`size` coordinates (T) in `nonzeros` blocks (s), by an `independence`-wise independent hash (r).

    Guarantee: a row that is added or removed moves one coordinate of each of the s blocks by 1: L1 s, squared L2 s. A
    replaced row moves in each block one coordinate by 2 (same place, opposite sign), two by 1, or none: L1 at most 2s,
    squared L2 at most 4s. m rows move at most m times as far in every norm, whatever the hash.
    """

    domain: Domain
    size: int
    nonzeros: int
    independence: int
    public_seed: int

    grid = 1
    denominator = None

    def __post_init__(self) -> None:
        numbers = (self.size, self.nonzeros, self.independence, self.public_seed)
        if any(type(number) is not int for number in numbers) or self.public_seed < 0:
            raise WorkloadError("a projection is given by whole numbers: size, nonzeros, independence, public_seed")
        even = 1 <= self.nonzeros <= self.size and self.size % self.nonzeros == 0
        demand(
            WorkloadError,
            (
                1 <= self.size <= MOST_COORDINATES,
                f"a projection has between 1 and {MOST_COORDINATES:,} coordinates, not {self.size:,}",
            ),
            (even, "the coordinates of a projection are divided evenly among its nonzeros"),
            (
                1 <= self.independence <= MOST_INDEPENDENCE,
                f"the independence of a projection lies between 1 and {MOST_INDEPENDENCE:,}",
            ),
            (
                self._functions * self.independence <= MOST_COEFFICIENTS,
                f"a projection has at most {MOST_COEFFICIENTS:,} coefficients, one for each of its functions and each "
                "degree of independence: lower nonzeros, size or independence",
            ),
        )

    @property
    def dense(self) -> bool:
        """Whether every record has a sign at every coordinate."""
        return self.nonzeros == self.size

    @property
    def buckets(self) -> int:
        """Coordinates in a section."""
        return self.size // self.nonzeros

    def __len__(self) -> int:
        return self.size

    def query(self, index: int) -> Query:
        raise WorkloadError(_NO_QUESTION)

    def take(self, indices: Indices) -> SparseProjection:
        raise WorkloadError(_NO_QUESTION)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves the coordinates together."""
        far, s = 2 if relation.replace else 1, self.nonzeros
        return Sensitivity(far * s, far * far * s, far).times(relation.max_rows)

    @property
    def _functions(self) -> int:
        return -(-self.size // hashing.SIGNS) if self.dense else self.nonzeros

    @cached_property
    def _coefficients(self) -> Elements:
        return hashing.polynomials(self.public_seed, self._functions, self.independence)

    def add(self, places: Elements, weights: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        """Add the columns of some records, times their weights, to a vector."""
        if self.dense:
            hashing.add_signs(self._coefficients, places, weights, sums)
        else:
            hashing.add_buckets(self._coefficients, places, weights, self.buckets, sums)

    def dot(self, places: Elements, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inner product of each record's column with a vector, divided by s: an unbiased estimate of its count."""
        if self.dense:
            return hashing.dot_signs(self._coefficients, places, values) / self.nonzeros
        return hashing.dot_buckets(self._coefficients, places, self.buckets, values) / self.nonzeros

    def dot_section(self, section: int, places: Elements, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same from one section alone: each has polynomials of its own, so that sections are independent."""
        if self.dense:
            raise WorkloadError("a section of the dense form is one coordinate, and no estimate")
        mine = slice(section * self.buckets, (section + 1) * self.buckets)
        return hashing.dot_buckets(self._coefficients[section : section + 1], places, self.buckets, values[mine])

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("size", "nonzeros", "independence", "public_seed")}
