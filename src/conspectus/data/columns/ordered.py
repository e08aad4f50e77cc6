"""Columns with an order, in bins: integers and numbers; dates stand in `dates`."""

from __future__ import annotations

import abc
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, complement, of_runs
from conspectus.data.domain import Codes, code_dtype

from .column import COMPARISONS, NO_NULLS, Column, CutsBin, SchemaError, UnknownValue
from .values import EXACT, LARGEST, Nulls, number_of, numbers

SNAP = "let it snap to whole bins, with snap=True, or --snap on the command line"


@dataclass(frozen=True)
class Ordered(Column):
    """What integers, numbers and dates share: bins in ascending order, and values outside them clamped.

    There may be millions of bins. What asks about one value finds its bin by bisection, and lists none of the others.
    """

    ordered: ClassVar[bool] = True
    comparisons: ClassVar[tuple[str, ...]] = COMPARISONS

    @property
    @abc.abstractmethod
    def lows(self) -> NDArray[Any]:
        """The least value of each bin."""

    @property
    @abc.abstractmethod
    def highs(self) -> NDArray[Any]:
        """The greatest value of each bin; for numbers the upper edge, which belongs to the last bin only."""

    @abc.abstractmethod
    def _low(self, code: int) -> Any:
        """The least value of one bin, as `lows` has it."""

    @abc.abstractmethod
    def _high(self, code: int) -> Any:
        """The greatest value of one bin, as `highs` has it."""

    @property
    @abc.abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The least and the greatest value of all: known before any bin is listed, as a short file may say many."""

    def _read(self, value: object) -> int | float | None:
        """One value on the axis of the bins."""
        return number_of(value)

    def _print(self, point: float) -> str:
        """A point of the axis as people write it."""
        return str(self._value(point))

    def _check(self) -> None:
        super()._check()
        low, high = self._ends
        point = self._read(self.default)
        if point is not None and not low <= point <= high:
            raise self._error(
                f"default is not a value of the column: write one from {self._print(low)} to {self._print(high)}"
            )

    def bounds(self, code: int) -> tuple[Any, Any]:
        """The least and the greatest value of a bin; for numbers its edges, the upper one open but in the last bin."""
        if not 0 <= code < self.regular:
            raise LookupError(f'column "{self.name}" has bins 0 to {self.regular - 1}, not {code}')
        return self._value(self._low(code)), self._value(self._high(code))

    @abc.abstractmethod
    def _value(self, point: Any) -> Any:
        """A point of the axis as a Python value."""

    def regular_label(self, code: int) -> str:
        low, high = self._print(self._low(code)), self._print(self._high(code))
        if low == high:
            return low
        return f"{low} to {high}" if low.startswith("-") else f"{low}–{high}"

    @cached_property
    def one_value_each(self) -> bool:
        """Whether every bin holds a single value: there are as many bins as values."""
        low, high = self._ends
        return self.kind != "number" and high - low + 1 == self.regular

    def own_value(self, code: int) -> Any:
        exact = self.one_value_each and code < self.regular
        return self._value(self._low(code)) if exact else super().own_value(code)

    @property
    def shown_type(self) -> pa.DataType:
        return self.arrow_type if self.one_value_each else pa.string()

    def find(self, value: object) -> int | None:
        point = self._read(value)
        if point is None:
            return None
        return max(0, bisect_right(range(self.regular), point, key=self._low) - 1)

    def _understands(self, value: object) -> bool:
        return self._read(value) is not None

    def holds(self, value: object) -> bool:
        """Whether a value lies within the bins, so that it is not clamped."""
        point = self._read(value)
        if point is None:
            return False
        low, high = self._ends
        return low <= (math.floor(point) if self.kind == "integer" else point) <= high

    def _fill(self, codes: NDArray[Any], valid: NDArray[np.bool_] | None) -> Codes:
        codes = codes.astype(code_dtype(self.size), copy=False)
        if valid is not None:
            codes[~valid] = self.null_code
        return codes

    def _codes_where(self, op: str, literal: Any, snap: bool) -> CodeSet:
        point = self._read(literal)
        if point is None:
            kind = "a date, as in '2020-01-31'" if self.kind == "date" else "a number"
            raise UnknownValue(f'column "{self.name}" is compared with {kind}, not with "{literal}"')
        least, most = self._ends
        if op in ("=", "<>") and not least <= point <= most:
            span = f"from {self._print(least)} to {self._print(most)}"
            raise UnknownValue(f'column "{self.name}" goes {span}: compare it with a value in between')
        some, every = self._holds("=" if op == "<>" else op, point)
        if len(some) != len(every) and not snap:
            raise self._cut(op, str(literal), every.stop if op in ("<", "<=") else some.start)
        # Clamped values are in the outer bins. What asks for them alone would count none of them, and sound certain.
        outer = {"<": 0, "<=": 0, ">": self.regular - 1, ">=": self.regular - 1}.get(op)
        if outer is not None and not some:
            if not snap:
                raise self._cut_beyond(op, str(literal), outer)
            some = range(outer, outer + 1)
        return complement(_run(every), self.regular) if op == "<>" else _run(some)

    def caveats(self, op: str, codes: CodeSet) -> tuple[str, ...]:
        """Which clamped values are counted as if the comparison held for them, or as if it did not."""
        last = self.regular - 1
        beyond = {"<": (last,), "<=": (last,), ">": (0,), ">=": (0,)}.get(op, (0, last))
        sides = {0: ("below", self._ends[0]), last: ("above", self._ends[1])} if last else {}
        return tuple(
            f'values of "{self.name}" {side} {self._print(edge)} count as {self.label(code)}'
            for code, (side, edge) in sides.items()
            if code in beyond and (code in codes) != (op == "<>")
        )

    def _holds(self, op: str, x: float) -> tuple[range, range]:
        """The bins of whole values in which a comparison holds somewhere, and those in which it holds everywhere."""
        begins, ends, bins = self._before(self._low, x), self._before(self._high, x), self.regular
        if op == "<":
            return range(begins[0]), range(ends[0])
        if op == "<=":
            return range(begins[1]), range(ends[1])
        if op == ">":
            return range(ends[1], bins), range(begins[1], bins)
        if op == ">=":
            return range(ends[0], bins), range(begins[0], bins)
        inside = range(ends[0], begins[1]) if x == math.floor(x) else range(0)
        return inside, inside if inside and self._low(inside[0]) == self._high(inside[0]) else range(0)

    def _before(self, point: Callable[[int], Any], x: float) -> tuple[int, int]:
        """How many bins have their point below x, and how many below x or at it."""
        bins = range(self.regular)
        return bisect_left(bins, x, key=point), bisect_right(bins, x, key=point)

    def _cut_beyond(self, op: str, literal: str, code: int) -> CutsBin:
        """Of a comparison that only values beyond the bins satisfy: they are in the first or the last bin."""
        upper = code > 0 or op in (">", ">=")
        edges = (self._value(self._low(code if upper or self.regular == 1 else code + 1)),)
        place, side = ("last", "above") if upper else ("first", "below")
        whole = f"write {'>=' if upper else '<'} {edges[0]}, " if self.regular > 1 else ""
        return CutsBin(
            f'"{self.name}" {op} {literal} cuts the {place} bin, {self.label(code)}, in which all values {side} it are '
            f"counted: {whole}declare a wider range, or {SNAP}",
            edges,
        )

    def _cut(self, op: str, literal: str, code: int) -> CutsBin:
        edges = [self._value(self._low(code))] if code or op not in ("<", "<=") else []
        if code + 1 < self.regular:
            edges.append(self._value(self._low(code + 1)))
        name = f'"{self.name}" {op} {literal} cuts the bin {self.label(code)}'
        if op in ("=", "<>"):
            cure = f"ask for the whole bin, from {edges[0]}" + (f" to below {edges[1]}" if edges[1:] else "")
        else:
            plain = "<" if op in ("<", "<=") else ">="
            cure = "write " + " or ".join(f"{plain} {edge}" for edge in edges) if edges else "it is the only one"
        return CutsBin(f"{name}: {cure}, or {SNAP}", tuple(edges))


def _run(codes: range) -> CodeSet:
    return of_runs([(codes[0], codes[-1])] if codes else [])


@dataclass(frozen=True)
class Integer(Ordered):
    """Integers from `min` to `max`, in bins of `width` of them; a fraction counts as the integer below it.

    With `edges` bins are of any width: each holds the integers from one edge to below the next, the last both.
    """

    min: int
    max: int
    width: int = field(default=1, kw_only=True)
    edges: tuple[int, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str] = "integer"
    arrow_type = pa.int64()

    @classmethod
    def between(cls, name: str, edges: Any, **rest: Any) -> Integer:
        """A column by the edges of its bins."""
        listed = isinstance(edges, Sequence) and not isinstance(edges, str) and len(edges) > 1
        whole = listed and all(type(edge) is int for edge in edges)
        if not whole or any(low >= high for low, high in pairwise(edges)):
            raise SchemaError(f'column "{name}": edges are ascending integers, as in edges = [0, 18, 65, 120]')
        return cls(name, edges[0], edges[-1], edges=tuple(edges), **rest)

    def __post_init__(self) -> None:
        for key, value in (("min", self.min), ("max", self.max), ("width", self.width)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._error(f"{key} is an integer, as in {key} = 10")
            if abs(value) > EXACT:
                raise self._error(f"{key} lies beyond 2^53: use smaller numbers")
        if self.min > self.max:
            raise self._error(f"min = {self.min} is above max = {self.max}: exchange them")
        if self.width < 1:
            raise self._error(f"width = {self.width} is not positive: write how many integers a bin holds")
        if self.edges and (self.edges[0], self.edges[-1], self.width) != (self.min, self.max, 1):
            raise self._error("edges go from min to max, and need no width")
        self._check()

    @property
    def _ends(self) -> tuple[int, int]:
        return self.min, self.max

    @property
    def regular(self) -> int:
        if self.edges:
            return len(self.edges) - 1
        return (self.max - self.min) // self.width + 1

    @cached_property
    def lows(self) -> NDArray[np.int64]:
        if self.edges:
            return np.array(self.edges[:-1], dtype=np.int64)
        return self.min + self.width * np.arange(self.regular, dtype=np.int64)

    @cached_property
    def highs(self) -> NDArray[np.int64]:
        if self.edges:
            return np.append(self.lows[1:] - 1, self.max)
        return np.minimum(self.lows + (self.width - 1), self.max)

    def _low(self, code: int) -> int:
        return self.edges[code] if self.edges else self.min + self.width * code

    def _high(self, code: int) -> int:
        return self.max if code == self.regular - 1 else self._low(code + 1) - 1

    def _value(self, point: Any) -> int:
        return int(point)

    def encode(self, values: pa.Array | pa.ChunkedArray, *, nulls: Nulls = NO_NULLS) -> Codes:
        whole, valid = numbers(values, nulls)
        if whole.dtype.kind == "f":
            whole = np.floor(np.clip(whole, self.min, self.max)).astype(np.int64)
            offset = whole - self.min
        else:
            # A type too narrow for the bounds cannot hold values beyond them either: widen before clipping.
            if not np.iinfo(whole.dtype).min <= self.min <= self.max <= np.iinfo(whole.dtype).max:
                whole = whole.astype(np.int64)
            offset = np.clip(whole, self.min, self.max)
            wide = self.max - self.min > np.iinfo(offset.dtype).max
            offset = (offset.astype(np.int64) if wide else offset) - self.min
        if self.edges:
            inner = self.lows[1:] - self.min
            return self._fill(np.searchsorted(inner, offset.astype(np.int64, copy=False), side="right"), valid)
        return self._fill(offset // self.width if self.width > 1 else offset, valid)

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        return rng.integers(self.lows[codes], self.highs[codes], endpoint=True)

    def _declared(self) -> dict[str, Any]:
        plain = {"min": self.min, "max": self.max, "width": self.width}
        return {"edges": list(self.edges)} if self.edges else plain


@dataclass(frozen=True)
class Number(Ordered):
    """Real numbers in half-open bins between `edges`, the last bin closed."""

    edges: tuple[float, ...]

    kind: ClassVar[str] = "number"
    arrow_type = pa.float64()

    def __post_init__(self) -> None:
        if isinstance(self.edges, str) or not isinstance(self.edges, Sequence) or len(self.edges) < 2:
            raise self._error("edges is a list of at least two numbers, as in edges = [0, 10, 100]")
        for edge in self.edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not abs(edge) <= LARGEST:
                raise self._error("edges are finite numbers, at most 2^1022: leave out everything else")
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        for low, high in zip(self.edges, self.edges[1:]):
            if not low < high:
                raise self._error(f"edges do not increase at {self._print(high)}: write them in ascending order")
        self._check()

    @property
    def _ends(self) -> tuple[float, float]:
        return self.edges[0], self.edges[-1]

    @property
    def regular(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def lows(self) -> NDArray[np.float64]:
        return np.array(self.edges[:-1])

    @cached_property
    def highs(self) -> NDArray[np.float64]:
        return np.array(self.edges[1:])

    def _value(self, point: Any) -> float | int:
        real = float(point)
        return int(real) if real.is_integer() and abs(real) < 1e15 else real

    def _low(self, code: int) -> float:
        return self.edges[code]

    def _high(self, code: int) -> float:
        return self.edges[code + 1]

    def _read(self, value: object) -> float | None:
        number = number_of(value)
        return None if number is None else float(number)

    def _holds(self, op: str, x: float) -> tuple[range, range]:
        some, every = super()._holds(op, x)
        at_most, bins, last = self._before(self._high, x)[1], self.regular, self.edges[-1]
        # A bin ends before its upper edge, but the last one ends with it.
        reached = range(bins - 1 if x == last else at_most, bins)
        if op == "<":
            return some, range(bins - 1 if x == last else at_most)
        if op == ">=":
            return reached, every
        return (range(reached.start, self._before(self._low, x)[1]), range(0)) if op == "=" else (some, every)

    def encode(self, values: pa.Array | pa.ChunkedArray, *, nulls: Nulls = NO_NULLS) -> Codes:
        reals, valid = numbers(values, nulls)
        inner = self.lows[1:]
        return self._fill(np.searchsorted(inner, reals.astype(np.float64, copy=False), side="right"), valid)

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        low, high = self.lows[codes], self.highs[codes]
        drawn = low + (high - low) * rng.random(len(codes))
        # Rounding may reach the open upper edge, which belongs to the next bin.
        return np.minimum(drawn, np.nextafter(high, low))

    def _declared(self) -> dict[str, Any]:
        return {"edges": [self._value(edge) for edge in self.edges]}
