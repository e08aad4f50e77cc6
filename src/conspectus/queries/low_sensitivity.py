"""Arbitrary functions of a whole table whose sensitivity their owner declares.

`unsafe_functions` runs foreign code on the private rows, in this process and with all of the table in memory: that is
why its name says unsafe. What such code prints, stores or sends is outside every guarantee, and so is how long it
takes. What it returns is not: a value is clamped to [0, 1], anything that is not a number (an exception included)
becomes 0, and the declared sensitivity is what is charged. It has to hold for the function as it is clamped, for every
two tables that one unit tells apart; a search over made tables refuses what it can refute.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows, Domain

from .declared import DeclaredSchema, check_schema, told
from .moves import Sensitivity, WorkloadError, check_unit
from .query import BLOCK_KINDS, Block, Counter, Indices, TableFunction, Workload

GRID = 256
"""Steps to one count: what the rounding of values adds to a sensitivity is below one part in a hundred."""

FALLBACK = 0.0
"""The share that stands for an exception and for everything that is not a number."""

_MOST_WHOLE = 1 << 40
_MOST_NAME = 200

Share = Callable[[NDArray[np.int64]], float]
"""From codes (rows × columns in schema order, any number of rows) to a share in [0, 1]."""


class ForgottenFunction(WorkloadError, LookupError):
    """A function was asked for that a file does not hold: files keep names and sensitivities, never code."""


@dataclass(frozen=True, eq=False)
class DeclaredFunction(TableFunction):
    """A named function with its declared sensitivity, as a share; known by its name and by the very object it calls."""

    name: str
    sensitivity: Fraction
    function: Share | None
    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _MOST_NAME:
            raise WorkloadError(f"a function has a name of at most {_MOST_NAME} letters")
        if not 0 < self.sensitivity <= 1:
            raise WorkloadError(f"the sensitivity of {self.name!r} lies above 0 and is at most 1, like shares do")

    @property
    def columns(self) -> tuple[int, ...]:
        """All of them: what foreign code reads is not known."""
        return tuple(range(self.width))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeclaredFunction):
            return NotImplemented
        return self.function is other.function and (self.name, self.sensitivity) == (other.name, other.sensitivity)

    def __hash__(self) -> int:
        return hash((self.name, self.sensitivity, id(self.function)))

    def share(self, codes: NDArray[np.int64]) -> float:
        """The clamped value on these rows. Nothing that goes wrong inside is told."""
        if self.function is None:
            raise ForgottenFunction(
                f"the function {self.name!r} was not stored, only its name: build the workload anew to ask it again"
            )
        seen = codes.view()
        seen.flags.writeable = False  # the same for made and true rows, and no function changes what the next one sees
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A warning about an empty mean, printed, would be an answer for free.
            warnings.simplefilter("ignore")
            try:
                value: Any = self.function(seen)
                share = float(value) if isinstance(value, numbers.Real | np.number | np.bool_) else math.nan
            except KeyboardInterrupt:
                raise KeyboardInterrupt from None
            except BaseException:  # whatever foreign code raises must not get out: it may depend on the rows
                share = math.nan
        return FALLBACK if math.isnan(share) else min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class UnsafeFunctions:
    """Declared functions, in order, with the public number `whole` that a share of one amounts to.

    Guarantee: if each clamped function moves by at most its declared sensitivity when one unit changes, up to a
    rounding error of 1/(whole·grid), then `moved` bounds what one unit does to all values together.
    """

    domain: Domain
    functions: tuple[DeclaredFunction, ...]
    whole: int

    def __post_init__(self) -> None:
        if not 1 <= self.whole <= _MOST_WHOLE or self.whole & (self.whole - 1):
            raise WorkloadError("functions are counted in a public number that is a power of two")
        if any(function.width != len(self.domain) for function in self.functions):
            raise WorkloadError("a function reads all columns of its table")

    @property
    def grid(self) -> int:
        return GRID

    @cached_property
    def columns(self) -> tuple[int, ...]:
        return tuple(range(len(self.domain)))

    def __len__(self) -> int:
        return len(self.functions)

    def query(self, index: int) -> DeclaredFunction:
        return self.functions[index]

    def take(self, indices: Indices) -> UnsafeFunctions:
        """Some functions, in the order given."""
        return UnsafeFunctions(self.domain, tuple(self.functions[i] for i in indices.tolist()), self.whole)

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        return cls(blocks[0].domain, tuple(f for block in blocks for f in block.functions), blocks[0].whole)

    def steps(self, share: float) -> int:
        """A share in whole steps; the product is exact, as the scale is a power of two."""
        return math.floor(share * (self.whole * GRID))

    def charged(self, index: int) -> int:
        """How many steps one unit may move a function: what was declared, rounded up, and one for rounding errors."""
        return math.ceil(self.functions[index].sensitivity * self.whole * GRID) + 1

    def moved(self, neighbours: str, max_rows: int, rows_are_units: bool) -> Sensitivity:
        """The declared sensitivities, which are per unit, whatever a unit is and however it changes."""
        check_unit(neighbours, max_rows, rows_are_units)
        steps = [self.charged(index) for index in range(len(self))]
        return Sensitivity(sum(steps), sum(step * step for step in steps), max(steps, default=0))

    def values(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of all functions on these rows, in steps."""
        ordered = in_order(codes)
        return np.array([self.steps(function.share(ordered)) for function in self.functions], dtype=np.int64)

    def counter(self) -> Counter:
        for function in self.functions:
            if function.function is None:
                function.share(np.zeros((0, function.width), dtype=np.int64))  # says that it was not stored
        return _Gathered(self)

    def to_json(self) -> dict[str, Any]:
        """Names and sensitivities. The functions themselves stay behind: a file holds no code."""
        listed = [[f.name, f.sensitivity.numerator, f.sensitivity.denominator] for f in self.functions]
        return {"kind": "unsafe-functions", "whole": self.whole, "functions": listed}


def in_order(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same rows sorted: a table is a multiset, and the order in which a source gives its rows is no part of it."""
    return codes[np.lexsort(codes.T[::-1])] if codes.size else codes


class _Gathered:
    """Keeps all rows, since nothing is known about what the functions make of them."""

    def __init__(self, block: UnsafeFunctions) -> None:
        self._block = block
        self._chunks: list[NDArray[np.int64]] = []

    def add(self, chunk: CodedRows) -> None:
        columns = [chunk.column(place).astype(np.int64) for place in self._block.columns]
        self._chunks.append(np.stack(columns, axis=1))

    def counts(self) -> NDArray[np.int64]:
        empty = np.zeros((0, len(self._block.domain)), dtype=np.int64)
        return self._block.values(np.concatenate([empty, *self._chunks]))


def _read(domain: Domain, stored: Mapping[str, Any]) -> UnsafeFunctions:
    functions = []
    for entry in stored["functions"]:
        if not isinstance(entry, list) or len(entry) != 3 or type(entry[1]) is not int or type(entry[2]) is not int:
            raise WorkloadError("this is not a stored workload: a function is a name and a fraction")
        name, above, below = entry
        if below < 1:
            raise WorkloadError("this is not a stored workload: a function is a name and a fraction")
        functions.append(DeclaredFunction(name, Fraction(above, below), None, len(domain)))
    return UnsafeFunctions(domain, tuple(functions), stored["whole"])


BLOCK_KINDS["unsafe-functions"] = _read


def told_apart(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks as read from a file, where functions without code have nothing but their names: each gets its own."""
    seen: dict[str, int] = {}
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, UnsafeFunctions):
            named = []
            for function in block.functions:
                times = seen[function.name] = seen.get(function.name, 0) + 1
                named.append(function if times == 1 else replace(function, name=f"{function.name[:180]} ({times})"))
            block = UnsafeFunctions(block.domain, tuple(named), block.whole)
        found.append(block)
    return tuple(found)


def unsafe_functions(
    schema: DeclaredSchema, functions: Mapping[str, tuple[Share, float]], *, rows: int | None = None
) -> Workload:
    """Arbitrary functions of the whole table, each with its declared sensitivity, as {name: (function, sensitivity)}.

    A function receives an integer array of codes, rows × columns in schema order, with any number of rows, and returns
    a share between 0 and 1. Its sensitivity is how far one unit may move it in a table of as many rows as the released
    one has; where the number of rows is private, in a table of any number of rows. The functions run on the private
    rows, in this process. With `rows` the declared sensitivities are put to the test at once, on made tables of that
    many rows; a release and a plan do that anyway.
    """
    check_schema(schema)
    from .refuter import examine

    if not isinstance(functions, Mapping):
        raise WorkloadError("give functions as a mapping {name: (function, sensitivity)}")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise WorkloadError(f"rows, the number of rows of made tables, is a positive integer, not {told(rows)}")
    listed = tuple(_declared(name, given, len(schema.domain)) for name, given in functions.items())
    least = min((function.sensitivity for function in listed), default=Fraction(1))
    whole = 1 << max(0, math.ceil(1 / least) - 1).bit_length()
    if whole > _MOST_WHOLE:
        raise WorkloadError(f"a sensitivity below 1/{_MOST_WHOLE:,} is too small to be counted in steps: declare more")
    workload = Workload(schema.domain, (UnsafeFunctions(schema.domain, listed, whole),) if listed else ())
    if rows is not None:
        unit: Any = getattr(schema, "unit", None)
        relation = getattr(schema, "neighbours", None) or "replace"
        examine(workload, relation, rows=rows, max_rows=getattr(unit, "max_rows", 1))
    return workload


def _declared(name: str, given: object, width: int) -> DeclaredFunction:
    if not isinstance(given, Iterable) or len(pair := tuple(given)) != 2 or not callable(pair[0]):
        raise WorkloadError(f"give {name!r} as a pair: a function of the codes, and its sensitivity")
    function, sensitivity = pair
    real = isinstance(sensitivity, numbers.Real) and not isinstance(sensitivity, bool)
    if not real or not math.isfinite(sensitivity) or not 0 < sensitivity <= 1:
        raise WorkloadError(f"the sensitivity of {name!r} lies above 0 and is at most 1, like shares do")
    return DeclaredFunction(name, Fraction(sensitivity), function, width)
