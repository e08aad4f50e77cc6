"""How far one unit moves the values of questions, in whole steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.relation import Neighbours, Relation

_Number = TypeVar("_Number", bound=np.generic)


class WorkloadError(ValueError):
    """A workload that cannot be made: an impossible request, or a file that does not hold one."""


@dataclass(frozen=True)
class Sensitivity:
    """How far one unit moves a vector of counts: the L1 norm, the squared L2 norm and the largest coordinate."""

    l1: int
    l2_squared: int
    linf: int

    def times(self, factor: int) -> Sensitivity:
        """The same in steps that are `factor` times finer."""
        return Sensitivity(self.l1 * factor, self.l2_squared * factor * factor, self.linf * factor)

    def beside(self, other: Sensitivity) -> Sensitivity:
        """A bound for two vectors side by side."""
        linf = max(self.linf, other.linf)
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared, linf)


class CountingBlock:
    """A block of counting queries: each is 0 or 1 on a record, and its value is the number of rows with a 1."""

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
    """How far one unit moves counts of 0/1 queries of which a record satisfies `satisfied`, and two differ on
    `differing`.

    A unit of m rows that is added or removed moves a count by at most m, all counts together by at most m·satisfied,
    and hence the squared L2 norm by at most m·m·satisfied. Replacing a row moves at most `differing` counts, each by
    one. Persons who replace one another may have different numbers of rows: rows that pair up move `differing`, the
    others `satisfied`.
    """
    match relation.neighbours:
        case Neighbours.ADD_REMOVE:
            width = satisfied
        case Neighbours.REPLACE:
            width = differing if relation.rows_are_units else max(satisfied, differing)
    m = relation.max_rows
    return Sensitivity(m * width, m * m * width, m if width else 0)


def fixed(array: NDArray[_Number]) -> NDArray[_Number]:
    """The same array, which nobody can write to: sensitivities are of what it said when they were computed."""
    array.flags.writeable = False
    return array
