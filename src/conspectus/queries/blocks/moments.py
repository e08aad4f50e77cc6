"""Sums, means, variances and covariances of columns: what is asked, and the linear queries that it is computed from.

A moment is no sum over records itself: a mean is a sum divided by a count. So what is measured are linear queries, its
parts, and the moment follows from their answers. The parts of a mean are Σ w and Σ (1 − w), where w in [0, 1] is the
place of a value in the range of its column: every row adds one to the two of them together, so that one row moves both
by no more than it would move a single count. Those of a variance are the three squares (1 − w)², 2w(1 − w) and w², and
those of a covariance the four products of (1 − v, v) and (1 − w, w), for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.query import (
    MOST_WEIGHTS,
    VALUE_STEPS,
    FunctionList,
    Linear,
    Predicate,
    TableFunction,
    Weighting,
)
from conspectus.queries.sensitivity import ArrayValue, Sensitivity, WorkloadError, fixed
from conspectus.queries.stored_parts import REFUSAL

from .conjunction_list import Conjunctions
from .linear_queries import LinearQueries

KINDS = ("sum", "mean", "variance", "covariance")
LARGEST = 1e15
"""The largest value of a column that sums are made of: their last digits are still whole numbers."""
MOST_WEIGHED = 1 << 24
"""Combinations of codes that the moments of one table may weigh: a quarter of a gigabyte."""
WEIGHED_FOR_A_NUMBER, WEIGHED_ANYWAY = 1 << 12, 1 << 16
"""The most that those of one list may weigh for each number that it holds, and besides: sizes are only declared."""


@dataclass(frozen=True, eq=False)
class Numbers(ArrayValue):
    """What the codes of a column stand for: a number for each ordinary code; the other codes are left out."""

    column: int
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64).ravel()
        if type(self.column) is not int or self.column < 0 or not values.size:
            raise WorkloadError("numbers belong to a column, and there is one for each of its ordinary codes")
        if not np.isfinite(values).all() or np.abs(values).max() > LARGEST or (np.diff(values) <= 0).any():
            raise WorkloadError("the numbers of a column rise from code to code, and none is beyond 1e15")
        object.__setattr__(self, "values", fixed(values))

    @property
    def low(self) -> float:
        """The least number."""
        return float(self.values[0])

    @property
    def high(self) -> float:
        """The largest number."""
        return float(self.values[-1])

    def places(self) -> NDArray[np.float64]:
        """Where each number lies between the least and the largest, from 0 to 1."""
        span = self.high - self.low
        return (self.values - self.low) / span if span else np.zeros(self.values.size)


@dataclass(frozen=True)
class Moment(TableFunction):
    """One sum, mean, variance or covariance of columns, over the rows that satisfy a predicate and have the values."""

    kind: str
    given: Predicate
    numbers: tuple[Numbers, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS or len(self.numbers) != (2 if self.kind == "covariance" else 1):
            raise WorkloadError("a moment is a sum, mean or variance of one column, or a covariance of two")
        if self.kind == "covariance" and self.numbers[0].column >= self.numbers[1].column:
            raise WorkloadError("the columns of a covariance are two different ones, in the order of the schema")

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({*self.given.columns, *(axis.column for axis in self.numbers)}))

    def rounding(self, rows: float, most: float) -> float:
        return rows * 0.5 / VALUE_STEPS

    def parts(self, domain: Domain, *, total_known: bool = False) -> tuple[Linear, ...]:
        """The linear queries that it is computed from. Where the number of rows is known and every row has a value, the
        last one is what the others leave of it, and is left out."""
        weightings = _weightings(self.kind, self.numbers, domain)
        if total_known and self.complete(domain):
            weightings = weightings[:-1]
        return tuple(Linear(self.given, weighting) for weighting in weightings)

    def complete(self, domain: Domain) -> bool:
        """Whether every row counts, so that its parts add up to the number of rows."""
        every = all(axis.values.size == domain.sizes[axis.column] for axis in self.numbers)
        return self.kind != "sum" and every and self.given == Predicate(((),))


@lru_cache(maxsize=1024)
def _weightings(kind: str, numbers: tuple[Numbers, ...], domain: Domain) -> tuple[Weighting, ...]:
    columns = tuple(axis.column for axis in numbers)
    first = numbers[0]
    if kind == "sum":
        steps = [_steps(table) for table in _signed(first)]
    else:
        w = first.places()
        if kind == "mean":
            tables = [w, 1 - w]
        elif kind == "variance":
            tables = [w * w, 2 * w * (1 - w), (1 - w) ** 2]
        else:
            v = numbers[1].places()
            tables = [np.multiply.outer(a, b) for a in (w, 1 - w) for b in (v, 1 - v)]
        # The middle one of a variance takes what rounding leaves: together they are one, to the step.
        last = 1 if kind == "variance" else len(tables) - 1
        steps = [_steps(table) for place, table in enumerate(tables) if place != last]
        steps.insert(last, np.maximum(VALUE_STEPS - sum(steps[1:], start=steps[0]), 0))
    return tuple(Weighting(columns, _over_all_codes(each, numbers, domain)) for each in steps)


def _over_all_codes(steps: NDArray[np.int32], numbers: tuple[Numbers, ...], domain: Domain) -> NDArray[np.int32]:
    """Weights of ordinary codes beside zeros for those that are left out."""
    table = np.zeros([domain.sizes[axis.column] for axis in numbers], dtype=np.int32)
    table[tuple(slice(axis.values.size) for axis in numbers)] = steps
    return table


def _signed(axis: Numbers) -> list[NDArray[np.float64]]:
    """The parts of a sum above and below 0, as shares of the largest number in size."""
    largest = max(abs(axis.low), abs(axis.high))
    if largest == 0:
        return [axis.values]
    both = [np.maximum(axis.values, 0) / largest, np.maximum(-axis.values, 0) / largest]
    return [part for part in both if part.max() > 0]


def _steps(shares: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.rint(shares * VALUE_STEPS).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Moments(ArrayValue, FunctionList[Moment]):
    """Listed moments, in order. What is counted and measured are their parts: see `Workload.measured`.

    Guarantee: `sensitivity` is that of all parts together, and bounds what one unit does to them.
    """

    grid: ClassVar[int] = VALUE_STEPS
    denominator: ClassVar[None] = None

    def __post_init__(self) -> None:
        sizes = self.domain.sizes
        for axis in {axis for moment in self.functions for axis in moment.numbers}:
            if axis.column >= len(sizes) or axis.values.size > sizes[axis.column]:
                raise WorkloadError("a moment speaks of a column or of codes that its table does not have")
        check_weighed([self])
        self._given  # refuses predicates about other tables  # noqa: B018

    @cached_property
    def _given(self) -> Conjunctions:
        return Conjunctions.of(self.domain, [moment.given for moment in self.functions])

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for moment in self.functions for column in moment.columns}))

    def parts(self, *, total_known: bool = False) -> LinearQueries:
        """The linear queries that they are computed from, those of each moment in turn."""
        listed = [part for moment in self.functions for part in moment.parts(self.domain, total_known=total_known)]
        return LinearQueries.of(self.domain, listed)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves the parts together, in steps."""
        return self.parts().sensitivity(relation)

    def to_json(self) -> dict[str, Any]:
        numbers: dict[Numbers, int] = {}
        listed = [
            [KINDS.index(moment.kind), *(numbers.setdefault(axis, len(numbers)) for axis in moment.numbers)]
            for moment in self.functions
        ]
        stored = [[axis.column, axis.values.tolist()] for axis in numbers]
        return {"kind": "moments", "given": self._given.to_json(), "numbers": stored, "functions": listed}


def check_weighed(lists: Sequence[Moments]) -> None:
    """Refuse lists of moments of one table that name more weights than memory holds: products of declared sizes."""
    named = {moment.numbers: each.domain.sizes for each in lists for moment in each.functions}
    weights = [math.prod(sizes[axis.column] for axis in numbers) for numbers, sizes in named.items()]
    if max(weights, default=0) > MOST_WEIGHTS or sum(weights) > MOST_WEIGHED:
        raise WorkloadError(
            f"a moment weighs at most {MOST_WEIGHTS:,} combinations of codes, and all of them {MOST_WEIGHED:,}: "
            "declare wider bins, or ask fewer questions"
        )
    if len(lists) == 1:
        held = sum(axis.values.size for axis in {axis for numbers in named for axis in numbers})
        if sum(weights) > WEIGHED_FOR_A_NUMBER * held + WEIGHED_ANYWAY:
            raise WorkloadError(
                f"moments weigh {sum(weights):,} combinations of codes, for which their columns have too few numbers "
                f"({held:,}): declare wider bins, or ask fewer questions"
            )


def read_moments(domain: Domain, given: object, stored: Mapping[str, Any]) -> Moments:
    """The block of a JSON value whose predicates were read before; refuses anything that is none."""
    numbers = []
    for entry in stored["numbers"]:
        known = isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int and isinstance(entry[1], list)
        if not known or not set(map(type, entry[1])) <= {float}:
            raise WorkloadError(REFUSAL + "the numbers of moments are a column and a list of numbers")
        numbers.append(Numbers(entry[0], np.array(entry[1], dtype=np.float64)))
    listed = stored["functions"]
    if not isinstance(given, Conjunctions) or len(given) != len(listed):
        raise WorkloadError(REFUSAL + "each moment is given by a predicate")
    moments = []
    for place, entry in enumerate(listed):
        whole = isinstance(entry, list) and len(entry) in (2, 3) and set(map(type, entry)) <= {int}
        if not whole or not 0 <= entry[0] < len(KINDS) or any(not 0 <= axis < len(numbers) for axis in entry[1:]):
            raise WorkloadError(REFUSAL + "a moment is a kind and the numbers of its columns")
        axes = tuple(numbers[axis] for axis in entry[1:])
        moments.append(Moment(KINDS[entry[0]], given.query(place), axes))
    return Moments(domain, tuple(moments))
