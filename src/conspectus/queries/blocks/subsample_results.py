"""What a function of one's own finds on disjoint subsamples of the table, counted: subsample and aggregate.

The function may be anything, and promises nothing. Every unit lies in one subsample, so one unit changes the result of
one subsample when it is added or removed, and of two when it is replaced. A result is a whole number from 0 to
`levels` − 1, whatever the function did. So how far one unit moves these counts is known, and nobody has to be believed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.block import ReadsAll
from conspectus.queries.query import Indices, TableFunction
from conspectus.queries.sensitivity import Sensitivity, WorkloadError

SUM_STEPS = 1 << 16
"""Steps from one end of a range to the other, where results are summed up: rounding is far below any noise."""

Function = Callable[[NDArray[np.int64]], Any]
"""From codes (rows × columns in schema order, any number of rows) to a result."""


@dataclass(frozen=True)
class Numbers:
    """Results that are numbers, one for each range: rounded to the nearest of `levels` equal steps between its ends.

    What lies outside is moved to the nearest end. `default` stands for all numbers of one whose function failed.
    """

    ranges: tuple[tuple[float, float], ...]
    levels: int
    default: tuple[int, ...]

    @property
    def outputs(self) -> int:
        return len(self.ranges)

    def steps(self, result: Any) -> tuple[int, ...]:
        """A result in steps. Raises, in any way it likes, where it is not of its form."""
        found = [result] if self.outputs == 1 and not _listed(result) else list(result)
        if len(found) != self.outputs:
            raise ValueError("another number of results than was declared")
        return tuple(self._step(number, place) for place, number in enumerate(found))

    def _step(self, given: Any, place: int) -> int:
        number = float(given)
        if isinstance(given, str | bytes) or math.isnan(number):
            raise ValueError("not a number")
        low, high = self.ranges[place]
        return round((min(max(number, low), high) - low) / (high - low) * (self.levels - 1))

    def value(self, step: float, place: int = 0) -> float:
        """What a step stands for."""
        low, high = self.ranges[place]
        return low + (high - low) * step / (self.levels - 1)


@dataclass(frozen=True)
class Listed:
    """Results that are one of some listed values; `default` is the position that stands for all others."""

    values: tuple[Any, ...]
    default: tuple[int, ...]
    outputs: ClassVar[int] = 1

    @property
    def levels(self) -> int:
        return len(self.values)

    def steps(self, result: Any) -> tuple[int, ...]:
        """The position of a result in the list."""
        given = result.item() if isinstance(result, np.generic | np.ndarray) else result
        return (self.values.index(given),)

    def value(self, step: float, place: int = 0) -> Any:
        """The value at a position."""
        return self.values[int(step)]


def _listed(result: Any) -> bool:
    if isinstance(result, np.ndarray):
        return result.ndim > 0
    return isinstance(result, Sequence) and not isinstance(result, numbers.Number)


Results = Numbers | Listed


@dataclass(frozen=True, eq=False)
class Subsampling:
    """A function, into how many subsamples the table is divided for it, and how its results are read.

    `seconds` is the longest that it may run on one subsample; `public_seed` decides which unit goes to which subsample.
    """

    function: Function
    count: int
    results: Results
    seconds: float
    public_seed: int

    def changed(self, relation: Relation) -> int:
        """How many subsamples one unit changes: that which it is in, and where it is replaced that of the other."""
        return min(self.count, 2 if relation.replace else 1)


class Found(TableFunction):
    """One number that is counted over the subsamples of a table."""

    columns: tuple[int, ...] = ()

    def rounding(self, rows: float, most: float) -> float:
        return 0.0


class _SubsampleCounts(ReadsAll):
    """What the two kinds of block have in common: they are counted whole, and leave no file."""

    subsampling: Subsampling

    @property
    def denominator(self) -> int:
        return self.subsampling.count

    def query(self, index: int) -> Found:
        return Found()

    def take(self, indices: Indices) -> NoReturn:
        """Refused: the results of all subsamples are counted together."""
        raise WorkloadError("the results of a function on subsamples of the table are counted together, or not at all")

    def to_json(self) -> NoReturn:
        """Refused: a file holds no code."""
        raise WorkloadError("what a function finds on subsamples of the table is not stored: a file holds no code")


@dataclass(frozen=True, eq=False)
class SubsampleVotes(_SubsampleCounts):
    """For each result how many subsamples have it. Each votes once, with one of the numbers that its function gave.

    Guarantee: one unit moves the votes by at most the three norms of `sensitivity`: 2, 2 and 1 where it is added or
    removed, and 4, 8 and 2 where it is replaced.
    """

    domain: Domain
    subsampling: Subsampling
    output: int = 0
    grid: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 <= self.output < self.subsampling.results.outputs:
            raise WorkloadError("a subsample votes with one of the numbers that its function returns")

    def __len__(self) -> int:
        return self.subsampling.results.levels

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """A subsample that changes its vote takes it from one result and gives it to another."""
        changed = self.subsampling.changed(relation)
        if len(self) == 1:
            return Sensitivity(0, 0, 0)
        return Sensitivity(2 * changed, 2 * changed * changed, changed)

    def counts(self, results: NDArray[np.int64]) -> NDArray[np.int64]:
        """The votes, from the results of all subsamples (subsamples × outputs)."""
        return np.bincount(results[:, self.output], minlength=len(self)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SubsampleSums(_SubsampleCounts):
    """For each output of the function the sum of its results over all subsamples, in steps.

    Guarantee: one unit moves each sum by at most the whole range, where it is added or removed, and by twice that where
    it is replaced.
    """

    domain: Domain
    subsampling: Subsampling
    grid: ClassVar[int] = SUM_STEPS

    def __post_init__(self) -> None:
        if self.subsampling.results.levels != SUM_STEPS + 1 or not isinstance(self.subsampling.results, Numbers):
            raise WorkloadError("results that are summed up are numbers, in steps of their range")

    def __len__(self) -> int:
        return self.subsampling.results.outputs

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """A subsample that changes its result may change all of its numbers, each by the whole range."""
        step = self.subsampling.changed(relation) * SUM_STEPS
        return Sensitivity(len(self) * step, len(self) * step * step, step)

    def counts(self, results: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums, from the results of all subsamples (subsamples × outputs)."""
        found: NDArray[np.int64] = results.sum(axis=0, dtype=np.int64)
        return found
