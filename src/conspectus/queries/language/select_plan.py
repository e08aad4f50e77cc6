"""A SELECT as a plan: groups of rows, and what is asked of each. Values, and no SQL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from conspectus.data.domain import Domain
from conspectus.queries.formulas import Compound, Formula, TooManyBoxes, all_of, predicate
from conspectus.queries.query import Literal as ColumnLiteral

MeasureKind = Literal[
    "count", "sum", "mean", "share", "ratio", "variance", "deviation", "covariance", "correlation", "quantile"
]
Group = tuple[tuple[Any, ...], tuple[Formula, ...]]


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

    def groups(self, domain: Domain) -> list[Group]:
        """Every group that may have a row: the values of its keys, and the conditions on its rows.

        Those that the schema and WHERE exclude are left out, as a database would; no row is looked at for it. Without
        keys there is one group of all rows, whether or not there can be any.

        Args:
            domain: The codes of the columns, which say what can hold together.
        """
        if not self.keys:
            return [((), ())]
        left = [
            [one for one in key.groups if _possible(domain, all_of(domain, [self.where, one[1]]))] for key in self.keys
        ]
        read = [{column for _, rows in key.groups for column in columns_in(rows)} for key in self.keys]
        narrowed = columns_in(self.where)
        # keys about different columns, of which WHERE narrows one: what holds one by one then holds together, too
        apart = sum(map(len, read)) == len(set().union(*read)) and sum(not narrowed.isdisjoint(r) for r in read) <= 1
        found = []
        for chosen in product(*left):
            rows = tuple(formula for _, formula in chosen)
            if apart or _possible(domain, all_of(domain, [self.where, *rows])):
                found.append((tuple(value for value, _ in chosen), rows))
        return found

    @property
    def size(self) -> int:
        """How many groups there are at most."""
        return math.prod(len(key.groups) for key in self.keys)


def _possible(domain: Domain, rows: Formula) -> bool:
    """Whether some record satisfies a formula; a formula that has too many parts to say so may."""
    if not isinstance(rows, Compound):
        return rows is not False
    try:
        return bool(predicate(domain, rows).boxes)
    except TooManyBoxes:
        return True


def columns_in(formula: Formula) -> set[int]:
    """The columns that a formula reads."""
    if isinstance(formula, Compound):
        return {column for part in formula.parts for column in columns_in(part)}
    return {formula.column} if isinstance(formula, ColumnLiteral) else set()


def by_numbers(expression: Any) -> bool:
    """Whether what lines are kept or ordered by reads a number that was measured, and not groups alone."""
    if not isinstance(expression, tuple) or expression[0] == "value":
        return False
    return expression[0] == "measure" or any(by_numbers(part) for part in expression[1:])


def ends_of(name: str) -> tuple[str, str]:
    """The columns beside a number that hold the ends of its interval."""
    return f"{name}_low", f"{name}_high"
