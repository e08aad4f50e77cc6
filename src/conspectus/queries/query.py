"""Queries as values: one question about a table.

A counting query has a value in {0, 1} on every record: a `Predicate` (a union of disjoint boxes) or a `Parity`. A
`Linear` query has a value in [0, 1]: where a predicate holds, a weight by the codes of some columns. A `Sparse` query
puts weights on a few listed records; a `TableFunction` is any function of the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, code_set, common
from conspectus.data.domain import Domain

from .disjoint_boxes import disjoint_boxes
from .literals import LiteralRuns
from .sensitivity import ArrayValue, WorkloadError, fixed

VALUE_STEPS = 1 << 24
"""Steps to one in a linear query's value on a record: rounding moves a sum over a million rows by 0.03 at most."""

MOST_WEIGHTS = 1 << 22
"""The most combinations of codes that one weighting lists."""

WEIGHT_STEPS = 1 << 16
"""Steps to one in the weight of a record: what is lost by rounding is below 1/65,536 of it."""

FEW_BOXES = 8
"""As many are compared one by one, more of them all at once."""

_NO_LITERAL = "a literal needs a column and a non-empty sorted set of codes"

Indices = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Literal:
    """`column` takes one of `codes`, at least one, sorted and distinct; many in few runs are held as `Runs`."""

    column: int
    codes: CodeSet

    def __post_init__(self) -> None:
        codes = self.codes
        if self.column < 0 or not codes or codes[0] < 0:
            raise WorkloadError(_NO_LITERAL)
        if len(codes) > 1 or not isinstance(codes, tuple):
            try:
                object.__setattr__(self, "codes", code_set(codes))
            except ValueError as unsorted:
                raise WorkloadError(_NO_LITERAL) from unsorted


Box = tuple[Literal, ...]
"""A conjunction of literals, at most one for each column, sorted by column; the empty box is always true."""


def cells_of(box: Box, sizes: Sequence[int], columns: Iterable[int] | None = None) -> int:
    """How many cells of some columns, or of all, a box holds."""
    chosen = {literal.column: len(literal.codes) for literal in box}
    return math.prod(chosen.get(c, sizes[c]) for c in (range(len(sizes)) if columns is None else columns))


@dataclass(frozen=True)
class Predicate:
    """A union of disjoint boxes: its count is the sum of theirs. No boxes are never true; `((),)` is always true."""

    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        for box in self.boxes:
            if any(a.column >= b.column for a, b in pairwise(box)):
                raise WorkloadError("a box needs its literals sorted by column, one for each")
        # Overlapping boxes would count a record twice, and sensitivities would be understated.
        if not _all_disjoint(self.boxes):
            raise WorkloadError("the boxes of a predicate must be disjoint")

    @classmethod
    def of_disjoint(cls, boxes: tuple[Box, ...]) -> Self:
        """From boxes that were looked at before, in sorted order: a list of predicates hands out its own this way."""
        made = object.__new__(cls)
        object.__setattr__(made, "boxes", boxes)
        return made

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({literal.column for box in self.boxes for literal in box}))

    @property
    def decided(self) -> bool | None:
        """What the schema alone says of every record, in a canonical predicate; None where records differ."""
        return bool(self.boxes) if self.boxes in ((), ((),)) else None


@dataclass(frozen=True)
class Parity:
    """True on records with an even number of second values among `columns`, all of them two-valued."""

    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.columns, self.columns[1:])):
            raise WorkloadError("a parity needs its columns sorted and distinct")


class TableFunction:
    """A question whose value is a function of the whole table, not a number of records: see `statistic`."""

    @property
    def counts_rows(self) -> bool:
        """Whether its value is nevertheless a share of the rows, so that it can be shown as a number of rows."""
        return False

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that it reads, sorted."""
        raise NotImplementedError

    def rounding(self, rows: float, most: float) -> float:
        """How far, in counts, its value in whole steps may lie from its real value, of a table with so many rows.

        `most` is the largest that the value in steps may be, in counts.
        """
        raise NotImplementedError


FunctionKind = TypeVar("FunctionKind", bound=TableFunction)


@dataclass(frozen=True, eq=False)
class FunctionList(Generic[FunctionKind]):
    """Functions of a table, listed in order: what blocks of them have in common."""

    domain: Domain
    functions: tuple[FunctionKind, ...]

    def __len__(self) -> int:
        return len(self.functions)

    def query(self, index: int) -> FunctionKind:
        return self.functions[index]

    def take(self, indices: Indices) -> Self:
        """Some functions, in the order given."""
        return replace(self, functions=tuple(self.functions[i] for i in indices.tolist()))

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        return replace(blocks[0], functions=tuple(function for block in blocks for function in block.functions))


@dataclass(frozen=True)
class Sparse:
    """Weights on listed records: addresses, sorted and distinct, each with a weight in steps, `grid` of them to one."""

    addresses: tuple[int, ...]
    steps: tuple[int, ...]
    grid: int

    def __post_init__(self) -> None:
        if len(self.addresses) != len(self.steps) or any(a >= b for a, b in pairwise(self.addresses)):
            raise WorkloadError("a sparse query needs its records sorted and distinct, with a weight for each")
        if any(not 0 < step <= self.grid for step in self.steps):
            raise WorkloadError("the weights of a sparse query lie in [0, 1], and those of listed records above 0")

    def rounding(self, rows: float, most: float) -> float:
        """How far, in counts, rounded weights may have moved its value: by a step for each row with a listed record.

        Where all weights are one, nothing was rounded. Else `most` counts are at most so many rows of the least weight.
        """
        least = min(self.steps, default=self.grid)
        return 0.0 if least == self.grid else min(rows, max(most, 0.0) * self.grid / least) / WEIGHT_STEPS

    def written(self) -> bytes:
        """Records and weights as bytes, whatever the grid: equal for equal queries."""
        weights = np.array([0, *self.steps], dtype=np.uint64) * np.uint64((1 << 32) // self.grid)
        return np.array(self.addresses, dtype=np.uint64).tobytes() + weights[1:].astype(np.uint64).tobytes()


@dataclass(frozen=True, eq=False)
class Weighting(ArrayValue):
    """A weight in [0, 1] for each combination of codes of some columns, row-major, in steps of 1/`VALUE_STEPS`."""

    columns: tuple[int, ...]
    steps: NDArray[np.int32]

    def __post_init__(self) -> None:
        if not self.columns or self.columns[0] < 0 or any(a >= b for a, b in pairwise(self.columns)):
            raise WorkloadError("a weighting needs its columns sorted and distinct")
        steps = np.array(self.steps, dtype=np.int32).ravel()
        if not 1 <= steps.size <= MOST_WEIGHTS or int(steps.min()) < 0 or int(steps.max()) > VALUE_STEPS:
            raise WorkloadError(
                f"a weighting has 1 to {MOST_WEIGHTS:,} weights in [0, 1], one for each combination of codes: "
                "declare wider bins"
            )
        object.__setattr__(self, "steps", fixed(steps))

    def table(self, domain: Domain) -> NDArray[np.int32]:
        """The weights in the shape of the columns' sizes."""
        return self.steps.reshape(domain.shape(self.columns))


@dataclass(frozen=True)
class Linear:
    """The sum, over the records that satisfy `given`, of their weights: a linear query with values in [0, 1]."""

    given: Predicate
    weighting: Weighting

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({*self.given.columns, *self.weighting.columns}))

    def rounding(self, rows: float, most: float) -> float:
        """How far, in counts, rounded weights may have moved its value: by half a step for each row."""
        return rows * 0.5 / VALUE_STEPS


Query = Predicate | Parity | TableFunction | Sparse | Linear


def _all_disjoint(boxes: tuple[Box, ...]) -> bool:
    if len(boxes) <= FEW_BOXES:
        return all(_disjoint(a, b) for a, b in combinations(boxes, 2))
    number: dict[Literal, int] = {}
    rows = [[number.setdefault(literal, len(number)) for literal in box] for box in boxes]
    width = max(map(len, rows))
    terms = np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=np.int32)
    return disjoint_boxes(LiteralRuns(list(number)), terms)


def _disjoint(a: Box, b: Box) -> bool:
    codes = {literal.column: literal.codes for literal in a}
    return any(literal.column in codes and not common(codes[literal.column], literal.codes) for literal in b)
