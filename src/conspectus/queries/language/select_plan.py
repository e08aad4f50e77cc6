"""A SELECT as a plan: groups of rows, and what is asked of each. Values, and no SQL."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from conspectus.queries.formulas import Compound, Formula
from conspectus.queries.query import Literal as ColumnLiteral

MeasureKind = Literal[
    "count", "sum", "mean", "share", "ratio", "variance", "deviation", "covariance", "correlation", "quantile"
]


@dataclass(frozen=True)
class Key:
    """What rows are grouped by: a name, and each group's value with the rows that are in it."""

    name: str
    groups: tuple[tuple[Any, Formula], ...]


@dataclass(frozen=True)
class Measure:
    """What is asked of the rows of each group.

    Attributes:
        kind: What it is.
        columns: The positions of the columns whose values it takes.
        where: Which rows of the group count, as FILTER says.
        over: For a ratio of counts, the rows that are divided by.
        q: For a quantile, which one.
        sample: Whether a variance divides by one less than the number of rows.
    """

    kind: MeasureKind
    columns: tuple[int, ...] = ()
    where: Formula = True
    over: Formula = True
    q: float = 0.5
    sample: bool = False


@dataclass(frozen=True)
class Output:
    """A column of the result: a key, or a measure times a factor, perhaps rounded."""

    name: str
    key: int | None = None
    measure: int | None = None
    factor: float = 1.0
    digits: int | None = None


@dataclass(frozen=True)
class Select:
    """A SELECT that was read.

    Attributes:
        keys: What rows are grouped by; nothing for one group of all rows.
        where: Which rows there are.
        measures: What is asked of each group, also for HAVING and ORDER BY.
        outputs: The columns of the result.
        having: Which lines stay, as an expression over keys and measures.
        order: What lines are ordered by: an expression, and whether downward.
        limit: The most lines.
        offset: How many lines are left out first.
        notes: What must be said besides.
    """

    keys: tuple[Key, ...]
    where: Formula
    measures: tuple[Measure, ...]
    outputs: tuple[Output, ...]
    having: Any = None
    order: tuple[tuple[Any, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    notes: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[tuple[Any, ...], tuple[Formula, ...]]]:
        """Every group: the values of its keys, and the conditions on its rows."""
        for chosen in product(*(key.groups for key in self.keys)):
            yield tuple(value for value, _ in chosen), tuple(formula for _, formula in chosen)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return math.prod(len(key.groups) for key in self.keys)


def columns_in(formula: Formula) -> set[int]:
    """The columns that a formula reads."""
    if isinstance(formula, Compound):
        return {column for part in formula.parts for column in columns_in(part)}
    return {formula.column} if isinstance(formula, ColumnLiteral) else set()
