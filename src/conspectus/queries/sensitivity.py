"""How far one unit moves the values of questions, in whole steps: three norms, and the rule for counting queries."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.relation import Neighbours, Relation

_Number = TypeVar("_Number", bound=np.generic)


class WorkloadError(ValueError):
    """A workload that cannot be made: an impossible request, or a file that does not hold one."""


@dataclass(frozen=True)
class Sensitivity:
    """How far one unit moves a vector of whole numbers: the L1 norm, the squared L2 norm and the largest coordinate."""

    l1: int
    l2_squared: int
    linf: int

    def times(self, factor: int) -> Sensitivity:
        """The same in steps that are `factor` times finer."""
        return Sensitivity(self.l1 * factor, self.l2_squared * factor * factor, self.linf * factor)

    def each(self, other: Sensitivity) -> Sensitivity:
        """A bound for either of two changes."""
        linf = max(self.linf, other.linf)
        return Sensitivity(max(self.l1, other.l1), max(self.l2_squared, other.l2_squared), linf)

    def beside(self, other: Sensitivity) -> Sensitivity:
        """A bound for two vectors side by side."""
        linf = max(self.linf, other.linf)
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared, linf)


class CountingBlock:
    """A block of counting queries: each is 0 or 1 on a record, and its value is the number of rows with a 1.

    A kind of counting query says how many of its queries one record satisfies and on how many two records differ. Its
    joint sensitivity follows from these two numbers, by `counting_sensitivity`.
    """

    grid = 1
    denominator = None

    def max_satisfied(self) -> int:
        """A bound on the number of its queries that one record satisfies."""
        raise NotImplementedError

    def max_differing(self) -> int:
        """A bound on the number of its queries on which two records differ."""
        raise NotImplementedError

    def sensitivity(self, relation: Relation) -> Sensitivity:
        return counting_sensitivity(self.max_satisfied(), self.max_differing(), relation)


def counting_sensitivity(satisfied: int, differing: int, relation: Relation) -> Sensitivity:
    """How far one unit moves the counts of 0/1 queries together.

    Guarantee: let every record satisfy at most `satisfied` of the queries, and every two records differ on at most
    `differing`. Then one unit of at most m rows moves the counts by at most m·w in L1, m²·w in squared L2 and m in L∞.
    Here w is `satisfied` under add-remove and `differing` under replace where rows are units. Where a unit may replace
    one with another number of rows, some of its rows pair up and others are added or removed: w is the larger of both.

    Args:
        satisfied: how many of the queries one record satisfies, at most.
        differing: on how many of them two records differ, at most.
        relation: who are neighbours.
    """
    match relation.neighbours:
        case Neighbours.ADD_REMOVE:
            width = satisfied
        case Neighbours.REPLACE:
            width = differing if relation.rows_are_units else max(satisfied, differing)
    return Sensitivity(width, width, min(width, 1)).times(relation.max_rows)


def moved_rows(added: Sensitivity, replaced: Sensitivity, relation: Relation) -> Sensitivity:
    """How far a unit moves values, from how far a row that is added or removed does, and one that is replaced."""
    if not relation.replace:
        return added.times(relation.max_rows)
    # Where units may have different numbers of rows, those that pair up are replaced, the others added or removed.
    return (replaced if relation.rows_are_units else added.each(replaced)).times(relation.max_rows)


class ArrayValue:
    """A frozen dataclass with arrays among its fields: equal where all of them are, and hashed once."""

    @property
    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._fields, other._fields)
        return self is other or (
            self._hash == other._hash
            and all(
                np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
                for mine, theirs in pairs
            )
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in self._fields))


def fixed(array: NDArray[_Number]) -> NDArray[_Number]:
    """The array, read-only: a sensitivity holds for the array as it was when the sensitivity was computed.

    A view of an array that can be written to would change with it, and is copied.
    """
    base: object = array.base
    changes = base is not None and not isinstance(base, bytes)
    if changes and not (isinstance(base, np.ndarray) and base.base is None and not base.flags.writeable):
        array = array.copy()
    array.flags.writeable = False
    return array
