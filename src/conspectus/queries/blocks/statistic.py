"""Ready functions of a whole table whose sensitivity is proved: one function as a value, and blocks of them.

A function looks at the rows that satisfy its condition (`given`), sorts them into classes by one or two columns, and is
computed from the numbers of rows in these classes, exactly, and rounded to whole steps of 1/`STATISTIC_STEPS` row. Its
answer is that number as a share of all rows. One row moves each by one row's worth at most: `statistic.proof.md` says
why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.query import Box, FunctionList, Literal, Predicate, TableFunction
from conspectus.queries.sensitivity import ArrayValue, Sensitivity, WorkloadError
from conspectus.queries.stored_parts import REFUSAL, integers

from .conjunction_list import Conjunctions

STATISTIC_STEPS = 256
"""Steps to one row. A value is rounded to them once, when all rows are counted."""

MOST_CLASSES = 1 << 16
"""The most classes that one function may sort rows into."""

MOST_LOOKED_THROUGH = 1 << 25
"""Codes with their classes that are looked through to read a list of functions, however often one list is named."""

FINEST = 1 << 30
"""The most units that a row's worth of weight may have: products with 2³¹ rows fit into 64 bits."""

KINDS = ("mode", "mean", "quantile", "balance", "reference", "independence", "satisfied")
_COLUMNS = {"satisfied": 0, "independence": 2}
_WEIGHTED = ("mean", "quantile", "reference")


@dataclass(frozen=True)
class Statistic(TableFunction):
    """One function: a kind, the condition, the columns with the class of each of their codes (−1: left out), numbers.

    Its value is in steps, rounded to the nearest. Let v be the numbers of rows by class and t their sum. Weights and
    shares are whole numbers between 0 and `whole`, which stands for one.

    mode: the largest v.
    mean: Σ weight·v.
    quantile: Σ weight·v over the lowest ⌊t·a/b⌋ rows; `numbers` holds a, b and rising weights.
    balance: the smaller of two v.
    reference: the largest |v up to a class − t·cumulated share|.
    independence: a quarter of Σ |v − row sum·column sum/t|.
    satisfied: how many conditions the rows satisfy in all, divided by the number of conditions.
    """

    kind: str
    given: tuple[Box, ...]
    over: tuple[int, ...] = ()
    classes: tuple[tuple[int, ...], ...] = ()
    numbers: tuple[int, ...] = ()
    whole: int = STATISTIC_STEPS

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise WorkloadError(f"no function is of the kind {self.kind!r}: there are {', '.join(KINDS)}")
        if not self.given or (len(self.given) > 1 and self.kind != "satisfied"):
            raise WorkloadError("a function has one condition; only a count of satisfied predicates has several")
        for box in self.given:
            if any(a.column >= b.column for a, b in pairwise(box)):
                raise WorkloadError("a condition needs its literals sorted by column, one for each")
        if len(set(self.over)) != len(self.over) or len(self.over) != _COLUMNS.get(self.kind, 1):
            raise WorkloadError("a function sorts rows by as many distinct columns as its kind has")
        if len(self.classes) != len(self.over) or any(not c or min(c) < -1 for c in self.classes):
            raise WorkloadError("each column of a function has a class, −1 or more, for each of its codes")
        if not 1 <= self.cells <= MOST_CLASSES:
            raise WorkloadError(f"a function sorts rows into 1 to {MOST_CLASSES:,} classes: take coarser bins")
        self._check_numbers()

    def _check_numbers(self) -> None:
        """The proofs rest on these: weights within a row, rising where they are cumulated."""
        numbers, cells = self.numbers, self.cells
        if any(type(number) is not int for number in (*numbers, self.whole)) or not 1 <= self.whole <= FINEST:
            raise WorkloadError("the numbers of a function are integers")
        if self.whole != STATISTIC_STEPS and self.kind not in _WEIGHTED:
            raise WorkloadError("functions without weights count in steps")
        if self.kind == "quantile":
            if len(numbers) != 2 + cells or not 0 <= numbers[0] <= numbers[1] <= FINEST or numbers[1] < 1:
                raise WorkloadError("a quantile is a fraction between 0 and 1, and has a weight for each class")
            numbers = numbers[2:]
        elif self.kind not in _WEIGHTED:
            if numbers or (self.kind == "balance" and cells > 2):
                raise WorkloadError("a balance has two classes, and functions other than means have no weights")
            return
        if len(numbers) != cells or any(not 0 <= number <= self.whole for number in numbers):
            raise WorkloadError(f"each class has a weight between 0 and {self.whole}, which stands for one")
        rising = all(a <= b for a, b in pairwise(numbers))
        if not rising and self.kind != "mean":
            raise WorkloadError("the weights of a quantile and the cumulated shares of a reference rise")
        if self.kind == "reference" and numbers[-1] != self.whole:
            raise WorkloadError("the shares of a reference sum to one")

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes of each column."""
        return tuple(max(classes) + 1 for classes in self.classes)

    @property
    def cells(self) -> int:
        """The number of classes altogether; a count of satisfied predicates keeps one number."""
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that it reads."""
        read = {literal.column for box in self.given for literal in box}
        return tuple(sorted(read.union(self.over)))

    @property
    def counts_rows(self) -> bool:
        """A mode and a balance are numbers of rows that hold something; means and distances are not."""
        return self.kind in ("mode", "balance")

    @property
    def divisor(self) -> int:
        """What a row may add to the number that is divided by it: conditions, or units of weight."""
        return len(self.given) if self.kind == "satisfied" else self.whole

    def rounding(self, rows: float, most: float) -> float:
        """A step, for rounding the value. Weights of a reference may be rounded too, to the finest ones.

        Files that were written before have weights that were rounded down to steps, row by row.
        """
        if self.counts_rows:
            return 0.0
        weights = {STATISTIC_STEPS: 1 / STATISTIC_STEPS, FINEST: 0.5 / FINEST}.get(self.whole, 0.0)
        return 1 / STATISTIC_STEPS + (rows * weights if self.kind in _WEIGHTED else 0.0)

    @property
    def replaced(self) -> int:
        """How many rows' worth a replaced row moves it, at most; an added or removed one moves it by one."""
        return 2 if self.kind == "independence" and self.cells > 4 else 1


@dataclass(frozen=True, eq=False)
class Statistics(ArrayValue, FunctionList[Statistic]):
    """Listed functions of the table, in order.

    Guarantee: `sensitivity` bounds what one unit of at most m rows does to all values together, under both relations.
    """

    grid: ClassVar[int] = STATISTIC_STEPS
    denominator: ClassVar[None] = None

    def __post_init__(self) -> None:
        sizes = self.domain.sizes
        for function in dict.fromkeys(self.functions):
            if (function.columns and function.columns[-1] >= len(sizes)) or any(c < 0 for c in function.columns):
                raise WorkloadError("a function speaks of a column that its table does not have")
            if any(a.codes[-1] >= sizes[a.column] for box in function.given for a in box):
                raise WorkloadError("a function speaks of a code that its table does not have")
            if any(len(classes) != sizes[c] for classes, c in zip(function.classes, function.over)):
                raise WorkloadError("a function needs a class for each code of its columns")

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for function in set(self.functions) for column in function.columns}))

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves all values together, in steps."""
        l1 = squared = linf = 0
        for rows, count, satisfied in self._by_rows:
            # Where units may have different numbers of rows, some rows of a replaced unit are added or removed.
            touched = min(count, 2 * satisfied) if relation.replace else satisfied
            step = STATISTIC_STEPS * relation.max_rows * (rows if relation.replace else 1)
            if touched:
                l1, squared, linf = l1 + step * touched, squared + step * step * touched, max(linf, step)
        return Sensitivity(l1, squared, linf)

    @cached_property
    def _by_rows(self) -> list[tuple[int, int, int]]:
        """Functions by how many rows' worth a replaced row moves them: how many there are, how many read one row."""
        found = []
        for rows in (1, 2):
            here = [function for function in self.functions if function.replaced == rows]
            if here:
                conditions = [Predicate((f.given[0],)) if len(f.given) == 1 else Predicate(((),)) for f in here]
                found.append((rows, len(here), Conjunctions.of(self.domain, conditions).max_satisfied()))
        return found

    def to_json(self) -> dict[str, Any]:
        """Conditions and classes that many functions share are stored once, by number."""
        given: dict[tuple[Box, ...], int] = {}
        classes: dict[tuple[int, ...], int] = {}
        listed = []
        for f in self.functions:
            condition = given.setdefault(f.given, len(given))
            sorts = [classes.setdefault(each, len(classes)) for each in f.classes]
            finer = [] if f.whole == STATISTIC_STEPS else [f.whole]
            listed.append([KINDS.index(f.kind), condition, list(f.over), sorts, list(f.numbers), *finer])
        boxes = [[[[a.column, *a.codes] for a in box] for box in condition] for condition in given]
        return {"kind": "statistics", "given": boxes, "classes": [list(each) for each in classes], "functions": listed}


_PARTS = "a function is a kind, a condition, columns, classes and numbers"
_REFUSAL = REFUSAL + _PARTS


def read_statistics(domain: Domain, stored: Mapping[str, Any]) -> Statistics:
    given = [tuple(tuple(_literal(entry) for entry in _list(box)) for box in _list(each)) for each in stored["given"]]
    classes = [tuple(_integers(each)) for each in stored["classes"]]
    functions, work = [], 0
    for entry in stored["functions"]:
        if len(_list(entry)) not in (5, 6) or type(entry[0]) is not int or type(entry[1]) is not int:
            raise WorkloadError(_REFUSAL)
        kind, condition, over, sorts, numbers, *finer = entry
        known = 0 <= kind < len(KINDS) and 0 <= condition < len(given)
        if not known or any(not 0 <= each < len(classes) for each in _integers(sorts)):
            raise WorkloadError(_REFUSAL)
        # A list of classes is stored once, and looked through for each function that names it.
        work += sum(len(classes[each]) for each in sorts) + len(given[condition])
        if work > MOST_LOOKED_THROUGH:
            raise WorkloadError(f"{REFUSAL}its functions sort codes more than {MOST_LOOKED_THROUGH:,} times")
        parts = (tuple(_integers(over)), tuple(classes[each] for each in sorts), tuple(_integers(numbers)))
        functions.append(Statistic(KINDS[kind], given[condition], *parts, *finer))
    return Statistics(domain, tuple(functions))


def _literal(entry: object) -> Literal:
    values = _integers(entry)
    if len(values) < 2:
        raise WorkloadError(_REFUSAL)
    return Literal(values[0], tuple(values[1:]))


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise WorkloadError(_REFUSAL)
    return value


def _integers(value: object) -> list[int]:
    return integers(value, _PARTS, -1, FINEST)
