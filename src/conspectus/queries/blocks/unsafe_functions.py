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
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.interrupts import attentive
from conspectus.privacy.relation import Relation
from conspectus.queries.block import Block, ReadsAll
from conspectus.queries.query import FunctionList, TableFunction
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import Sensitivity, WorkloadError

FUNCTION_STEPS = 256
"""Steps to one count: what the rounding of values adds to a sensitivity is below one part in a hundred."""

RANGE = (0.0, 1.0)
"""Where shares lie unless a narrower range is declared; what is no number becomes its lower end."""

MOST_DENOMINATOR = 1 << 40
_MOST_NAME = 200
_HALVES = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs, which can be held and neither shown nor written."""
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
        low, high = self.range
        demand(
            WorkloadError,
            (
                isinstance(self.name, str) and 0 < len(self.name) <= _MOST_NAME and not _HALVES.search(self.name),
                f"a function has a name of at most {_MOST_NAME} letters",
            ),
            (
                0 < self.sensitivity <= 1,
                f"the sensitivity of {self.name!r} lies above 0 and is at most 1, like shares do",
            ),
            (
                0 <= low < high <= 1,
                f"the range of {self.name!r} is a low and a high number between 0 and 1: map other values onto it, as "
                "in (value - low) / (high - low), and divide their sensitivity by high - low too",
            ),
            (
                low <= self.fallback <= high,
                f"the fallback of {self.name!r} is a number in its range, from {low:g} to {high:g}",
            ),
        )

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

    def rounding(self, rows: float, most: float) -> float:
        """Values are rounded down to whole steps."""
        return 1 / FUNCTION_STEPS

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
        with attentive(), warnings.catch_warnings(), np.errstate(all="ignore"):
            # A warning about an empty mean, printed, would be an answer for free.
            warnings.simplefilter("ignore")
            try:
                share = _number(self.function(seen))
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
class UnsafeFunctions(ReadsAll, FunctionList[DeclaredFunction]):
    """Declared functions, in order, with the public number `denominator` that a share of one amounts to.

    Guarantee: if each clamped function moves by at most its declared sensitivity when one unit changes, up to a
    rounding error of 1/(denominator·grid), then `sensitivity` bounds what one unit does to all values together.
    """

    denominator: int

    def __post_init__(self) -> None:
        power = 1 <= self.denominator <= MOST_DENOMINATOR and not self.denominator & (self.denominator - 1)
        whole = all(function.width == len(self.domain) for function in self.functions)
        demand(
            WorkloadError,
            (power, "functions are counted in a public number that is a power of two"),
            (whole, "a function reads all columns of its table"),
        )

    grid: ClassVar[int] = FUNCTION_STEPS

    def steps(self, share: float) -> int:
        """A share in whole steps; the product is exact, as the scale is a power of two."""
        return math.floor(share * (self.denominator * FUNCTION_STEPS))

    def single_sensitivity(self, index: int) -> int:
        """How many steps one unit may move a function: what was declared, rounded up, and one for rounding errors."""
        return math.ceil(self.functions[index].most * self.denominator * FUNCTION_STEPS) + 1

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """The declared sensitivities, which are per unit, whatever a unit is and however it changes."""
        steps = [self.single_sensitivity(index) for index in range(len(self))]
        return Sensitivity(sum(steps), sum(step * step for step in steps), max(steps, default=0))

    def values(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of all functions on these rows, in steps."""
        ordered = in_order(codes)
        return np.array([self.steps(function.share(ordered)) for function in self.functions], dtype=np.int64)

    def to_json(self) -> dict[str, Any]:
        """What was declared about each. The functions themselves stay behind: a file holds no code."""
        return {
            "kind": "unsafe-functions",
            "whole": self.denominator,
            "functions": [_written(f) for f in self.functions],
        }


def _written(function: DeclaredFunction) -> list[Any]:
    """A name and a fraction; then, where they are not the usual ones, the ends of the range and the fallback."""
    usual = (function.range, function.fallback) == (RANGE, RANGE[0])
    sensitivity = function.sensitivity
    named = [function.name, sensitivity.numerator, sensitivity.denominator]
    return named if usual else [*named, *function.range, function.fallback]


def in_order(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same rows, sorted.

    A table is a multiset of rows. A function that looked at their order would move by more than one row's worth when a
    source gives them in another one.
    """
    return codes[np.lexsort(codes.T[::-1])] if codes.size else codes


def read_functions(domain: Domain, stored: Mapping[str, Any]) -> UnsafeFunctions:
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


def told_apart(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks as read from a file, with a different name for each function.

    Two functions may share a name and differ in their code. A file holds no code, so without a name of its own each
    would be taken for the other.
    """
    seen: dict[str, int] = {}
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, UnsafeFunctions):
            named = []
            for function in block.functions:
                times = seen[function.name] = seen.get(function.name, 0) + 1
                named.append(function if times == 1 else replace(function, name=f"{function.name[:180]} ({times})"))
            block = replace(block, functions=tuple(named))
        found.append(block)
    return tuple(found)
