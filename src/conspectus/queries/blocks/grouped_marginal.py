"""Marginals of coarser columns: every cell of a table over groups of codes, as one block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.block import check_length
from conspectus.queries.query import Indices, Literal, Predicate
from conspectus.queries.sensitivity import Sensitivity, WorkloadError, counting_sensitivity

from .conjunction_list import Conjunctions

Grouping = tuple[int, ...] | None
"""The group of each code of a column, numbered from 0 on without gaps; None where every code is a group by itself."""


@dataclass(frozen=True)
class GroupedMarginal:
    """The cells of one marginal whose columns are coarsened first, row-major, the columns in the order given.

    Guarantee: a record lies in exactly one cell, as in a `Marginal`: the same norms, whatever the public groups are.

    Args:
        domain: The columns of the table.
        columns: The positions of the columns, distinct.
        groups: For each of them its grouping.

    Raises:
        WorkloadError: A column or a grouping does not fit the table.

    Example:
        >>> from conspectus.data.domain import Domain
        >>> grouped = GroupedMarginal(Domain(("age", "ill"), (4, 2)), (0, 1), ((0, 0, 1, 1), None))
        >>> len(grouped), grouped.shape
        (4, (2, 2))
    """

    domain: Domain
    columns: tuple[int, ...]
    groups: tuple[Grouping, ...]

    grid = 1
    denominator = None

    def __post_init__(self) -> None:
        check_groups(self.domain, self.columns, self.groups)
        check_length(math.prod(self.shape), "this marginal")

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of groups of its columns, in its own order."""
        return grouped_shape(self.domain, self.columns, self.groups)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def query(self, index: int) -> Predicate:
        """The cell with this number."""
        numbers = np.unravel_index(index, self.shape) if self.columns else ()
        cell = []
        for column, grouping, number in sorted(zip(self.columns, self.groups, map(int, numbers)), key=lambda it: it[0]):
            codes = (number,) if grouping is None else tuple(np.flatnonzero(np.equal(grouping, number)).tolist())
            if len(codes) < self.domain.sizes[column]:
                cell.append(Literal(column, codes))
        return Predicate((tuple(cell),))

    def take(self, indices: Indices) -> Conjunctions:
        """Some cells, listed."""
        return Conjunctions.of(self.domain, [self.query(int(i)) for i in indices])

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """A record lies in one cell; two lie in two cells at most."""
        return counting_sensitivity(1, 2 if len(self) > 1 else 0, relation)

    def coarsened(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its counts, from those of the marginal of all codes over the same columns, in any shape."""
        counts = table.reshape(self.domain.shape(self.columns))
        for axis, (grouping, size) in enumerate(zip(self.groups, self.shape)):
            if grouping is not None:
                summed = np.zeros((*counts.shape[:axis], size, *counts.shape[axis + 1 :]), dtype=np.int64)
                np.add.at(np.moveaxis(summed, axis, 0), np.array(grouping), np.moveaxis(counts, axis, 0))
                counts = summed
        return np.ascontiguousarray(counts).ravel()

    def to_json(self) -> dict[str, Any]:
        groups = [None if grouping is None else list(grouping) for grouping in self.groups]
        return {"columns": list(self.columns), "groups": groups}


def check_groups(domain: Domain, columns: Sequence[int], groups: Sequence[Grouping]) -> None:
    """Refuse columns and groupings that do not fit a table."""
    if len(set(columns)) != len(columns) or not all(0 <= c < len(domain) for c in columns):
        raise WorkloadError("a marginal needs distinct columns of its table")
    if len(groups) != len(columns):
        raise WorkloadError("a marginal of groups needs one grouping, or None, for each of its columns")
    for column, grouping in zip(columns, groups):
        if grouping is None:
            continue
        fits = len(grouping) == domain.sizes[column] and all(type(number) is int for number in grouping)
        if not fits or set(grouping) != set(range(max(grouping) + 1)):
            raise WorkloadError("a grouping names a group for each code of its column, from 0 on without gaps")


def grouped_shape(domain: Domain, columns: Sequence[int], groups: Sequence[Grouping]) -> tuple[int, ...]:
    """How many groups each column has."""
    return tuple(domain.sizes[c] if grouping is None else max(grouping) + 1 for c, grouping in zip(columns, groups))
