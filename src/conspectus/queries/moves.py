"""How far one unit moves the values of questions, in whole steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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


class ZeroOne:
    """A block of counting queries: each is 0 or 1 on a record, and its value is the number of rows with a 1."""

    grid = 1
    whole = None

    def reach(self) -> int:
        """A bound on the number of its queries that one record satisfies."""
        raise NotImplementedError

    def contrast(self) -> int:
        """A bound on the number of its queries on which two records differ."""
        raise NotImplementedError

    def moved(self, neighbours: str, max_rows: int, rows_are_units: bool) -> Sensitivity:
        return zero_one(self.reach(), self.contrast(), neighbours, max_rows, rows_are_units)


def zero_one(reach: int, contrast: int, neighbours: str, max_rows: int, rows_are_units: bool) -> Sensitivity:
    """How far one unit moves counts of 0/1 queries of which a record satisfies `reach`, and two differ on `contrast`.

    A unit of m rows that is added or removed moves a count by at most m, all counts together by at most m·reach, and
    hence the squared L2 norm by at most m·m·reach. Replacing a row moves at most `contrast` counts, each by one.
    Persons who replace one another may have different numbers of rows: rows that pair up move `contrast`, the others
    `reach`.
    """
    if neighbours == "add-remove":
        width = reach
    else:
        width = contrast if rows_are_units else max(reach, contrast)
    return Sensitivity(max_rows * width, max_rows * max_rows * width, max_rows if width else 0)


def check_unit(neighbours: str, max_rows: int, rows_are_units: bool) -> None:
    """Refuse a relation that is none, and a unit that cannot be."""
    if neighbours not in ("replace", "add-remove"):
        raise WorkloadError(f'neighbours are "replace" or "add-remove", not {neighbours!r}')
    if max_rows < 1 or (rows_are_units and max_rows != 1):
        raise WorkloadError("a unit has at least one row, and exactly one when rows are the units")


def fixed(array: NDArray[_Number]) -> NDArray[_Number]:
    """The same array, which nobody can write to: sensitivities are of what it said when they were computed."""
    array.flags.writeable = False
    return array
