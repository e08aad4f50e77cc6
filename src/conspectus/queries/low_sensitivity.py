"""Arbitrary functions of a whole table whose sensitivity their owner declares.

`unsafe_functions` runs foreign code on the private rows, in this process and with all of the table in memory: that is
why its name says unsafe. What such code prints, stores or sends is outside every guarantee, and so is how long it
takes. What it returns is not: a value is clamped to the declared range, [0, 1] by default, anything that is not a
number (an exception included) becomes a fixed public value, and the declared sensitivity is what is charged. It has to
hold for the function as it is clamped, for every two tables that one unit tells apart; a search over made tables
refuses what it can refute.
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

RANGE = (0.0, 1.0)
"""Where shares lie unless a narrower range is declared; what is no number becomes its lower end."""

_MOST_WHOLE = 1 << 40
_MOST_NAME = 200
_NOT_STORED = "this is not a stored workload: a function is a name and a fraction, perhaps with a range and a fallback"

Share = Callable[[NDArray[np.int64]], float]
"""From codes (rows × columns in schema order, any number of rows) to a share in [0, 1]."""


class ForgottenFunction(WorkloadError, LookupError):
    """A function was asked for that a file does not hold: files keep names and sensitivities, never code."""


@dataclass(frozen=True, eq=False)
class DeclaredFunction(TableFunction):
    """A named function with its declared sensitivity, as a share; known by its name and by the very object it calls.

    Values are clamped to `range`, and `fallback` stands for everything that is not a number.
    """

    name: str
    sensitivity: Fraction
    function: Share | None
    width: int
    range: tuple[float, float] = RANGE
    fallback: float = RANGE[0]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _MOST_NAME:
            raise WorkloadError(f"a function has a name of at most {_MOST_NAME} letters")
        if not 0 < self.sensitivity <= 1:
            raise WorkloadError(f"the sensitivity of {self.name!r} lies above 0 and is at most 1, like shares do")
        low, high = self.range
        if not 0 <= low < high <= 1:
            raise WorkloadError(
                f"the range of {self.name!r} is a low and a high number between 0 and 1: map other values onto it, as "
                "in (value - low) / (high - low), and divide their sensitivity by high - low too"
            )
        if not low <= self.fallback <= high:
            raise WorkloadError(f"the fallback of {self.name!r} is a number in its range, from {low:g} to {high:g}")

    @property
    def most(self) -> Fraction:
        """How far one unit may move it: as far as was declared, and never by more than its range is wide."""
        return min(self.sensitivity, Fraction(self.range[1]) - Fraction(self.range[0]))

    @property
    def declared(self) -> tuple[str, Fraction, tuple[float, float], float]:
        """Everything about it that is public."""
        return self.name, self.sensitivity, self.range, self.fallback

    @property
    def columns(self) -> tuple[int, ...]:
        """All of them: what foreign code reads is not known."""
        return tuple(range(self.width))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeclaredFunction):
            return NotImplemented
        return self.function is other.function and self.declared == other.declared

    def __hash__(self) -> int:
        return hash((*self.declared, id(self.function)))

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
                share = _number(self.function(seen))
            except KeyboardInterrupt:
                raise KeyboardInterrupt from None
            except BaseException:  # whatever foreign code raises must not get out: it may depend on the rows
                share = math.nan
        low, high = self.range
        return self.fallback if math.isnan(share) else min(max(share, low), high)


def _number(value: Any) -> float:
    """A number, also where it is the only one of an array, as numpy's functions like to return it; else NaN."""
    if isinstance(value, np.ma.MaskedArray):
        return math.nan if value.size != 1 or np.ma.getmaskarray(value).any() else _number(value.data)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if not isinstance(value, numbers.Real | np.integer | np.floating | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a number that is too large for a float is clamped as any other
        return math.inf if bool(value > 0) else -math.inf  # type: ignore[operator]


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
        return math.ceil(self.functions[index].most * self.whole * GRID) + 1

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
        """What was declared about each. The functions themselves stay behind: a file holds no code."""
        return {"kind": "unsafe-functions", "whole": self.whole, "functions": [_written(f) for f in self.functions]}


def _written(function: DeclaredFunction) -> list[Any]:
    """A name and a fraction; then, where they are not the usual ones, the ends of the range and the fallback."""
    usual = (function.range, function.fallback) == (RANGE, RANGE[0])
    sensitivity = function.sensitivity
    named = [function.name, sensitivity.numerator, sensitivity.denominator]
    return named if usual else [*named, *function.range, function.fallback]


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
        if not isinstance(entry, list) or len(entry) not in (3, 6) or any(type(n) is not int for n in entry[1:3]):
            raise WorkloadError(_NOT_STORED)
        name, above, below, *more = entry
        if below < 1 or any(type(number) is not float for number in more):
            raise WorkloadError(_NOT_STORED)
        low, high, fallback = more or (*RANGE, RANGE[0])
        functions.append(DeclaredFunction(name, Fraction(above, below), None, len(domain), (low, high), fallback))
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
    schema: DeclaredSchema,
    functions: Mapping[str, tuple[Share, float]],
    *,
    range: tuple[float, float] | Mapping[str, tuple[float, float]] = RANGE,
    fallback: float | Mapping[str, float] | None = None,
    rows: int | None = None,
) -> Workload:
    """Arbitrary functions of the whole table, each with its declared sensitivity, as {name: (function, sensitivity)}.

    A function receives an integer array of codes, rows × columns in schema order, with any number of rows, and returns
    a share between 0 and 1. Its sensitivity is how far one unit may move it in a table of as many rows as the released
    one has; where the number of rows is private, in a table of any number of rows. The functions run on the private
    rows, in this process.

    Values are clamped to `range`, a part of [0, 1], and `fallback` stands for an exception and for what is no number:
    the lower end of the range by default. Both are for all functions, or {name: …} for some; both are public. With
    `rows` the declared sensitivities are put to the test at once, on made tables of that many rows; a release and a
    plan do that anyway.
    """
    check_schema(schema)
    from .refuter import examine

    if not isinstance(functions, Mapping):
        raise WorkloadError("give functions as a mapping {name: (function, sensitivity)}")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise WorkloadError(f"rows, the number of rows of made tables, is a positive integer, not {told(rows)}")
    ranges = _each(functions, range, RANGE, "range")
    fallbacks = _each(functions, fallback, None, "fallback")
    width = len(schema.domain)
    listed = tuple(_declared(name, given, width, ranges[name], fallbacks[name]) for name, given in functions.items())
    least = min((function.most for function in listed), default=Fraction(1))
    whole = 1 << max(0, math.ceil(1 / least) - 1).bit_length()
    if whole > _MOST_WHOLE:
        raise WorkloadError(f"a sensitivity or range below 1/{_MOST_WHOLE:,} is too small to count in: declare more")
    workload = Workload(schema.domain, (UnsafeFunctions(schema.domain, listed, whole),) if listed else ())
    if rows is not None:
        unit: Any = getattr(schema, "unit", None)
        relation = getattr(schema, "neighbours", None) or "replace"
        examine(workload, relation, rows=rows, max_rows=getattr(unit, "max_rows", 1))
    return workload


def _each(functions: Iterable[str], given: Any, usual: Any, what: str) -> dict[str, Any]:
    """What was given for all functions, or for those that are named."""
    names = list(functions)
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    strange = [name for name in given if name not in names]
    if strange:
        raise WorkloadError(f"a {what} is declared for {strange[0]!r}, and no function is called that")
    return {name: given.get(name, usual) for name in names}


def _declared(name: str, given: object, width: int, span: object, fallback: object) -> DeclaredFunction:
    if not isinstance(given, Iterable) or len(pair := tuple(given)) != 2 or not callable(pair[0]):
        raise WorkloadError(f"give {name!r} as a pair: a function of the codes, and its sensitivity")
    function, sensitivity = pair
    if not _real(sensitivity) or not 0 < sensitivity <= 1:
        raise WorkloadError(f"the sensitivity of {name!r} lies above 0 and is at most 1, like shares do")
    ends = tuple(span) if isinstance(span, Sequence) else ()
    if len(ends) != 2 or not all(map(_real, ends)):
        raise WorkloadError(f"the range of {name!r} is a pair of numbers: its low and its high end")
    if fallback is not None and not _real(fallback):
        raise WorkloadError(f"the fallback of {name!r} is a number in its range")
    low, high = float(ends[0]), float(ends[1])
    stands: Any = low if fallback is None else fallback
    return DeclaredFunction(name, Fraction(sensitivity), function, width, (low, high), float(stands))


def _real(number: Any) -> bool:
    return isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)
