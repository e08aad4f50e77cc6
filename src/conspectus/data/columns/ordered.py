"""Columns with an order, in bins: integers and numbers; dates stand in `dates`."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, code_set
from conspectus.data.domain import Codes, code_dtype

from .column import COMPARISONS, NO_NULLS, Column, CutsBin, SchemaError, UnknownValue
from .values import EXACT, Nulls, number_of, numbers

SNAP = "let it snap to whole bins, with snap=True, or --snap on the command line"
_COMPARE: dict[str, np.ufunc] = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class Ordered(Column):
    """What integers, numbers and dates share: bins in ascending order, and values outside them clamped."""

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
        return self._value(self.lows[code]), self._value(self.highs[code])

    @abc.abstractmethod
    def _value(self, point: Any) -> Any:
        """A point of the axis as a Python value."""

    def regular_label(self, code: int) -> str:
        low, high = self._print(self.lows[code]), self._print(self.highs[code])
        if low == high:
            return low
        return f"{low} to {high}" if low.startswith("-") else f"{low}–{high}"

    @cached_property
    def one_value_each(self) -> bool:
        """Whether every bin holds a single value."""
        return self.kind != "number" and bool((self.lows == self.highs).all())

    def own_value(self, code: int) -> Any:
        exact = self.one_value_each and code < self.regular
        return self._value(self.lows[code]) if exact else super().own_value(code)

    @property
    def shown_type(self) -> pa.DataType:
        return self.arrow_type if self.one_value_each else pa.string()

    def find(self, value: object) -> int | None:
        point = self._read(value)
        if point is None:
            return None
        return max(0, int(np.searchsorted(self.lows, point, side="right")) - 1)

    def _understands(self, value: object) -> bool:
        return self._read(value) is not None  # of which bin it is need not be known, and there may be millions

    def holds(self, value: object) -> bool:
        """Whether a value lies within the bins, so that it is not clamped."""
        point = self._read(value)
        if point is None:
            return False
        return bool(self.lows[0] <= (math.floor(point) if self.kind == "integer" else point) <= self.highs[-1])

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
        low, high = self._print(self.lows[0]), self._print(self.highs[-1])
        if op in ("=", "<>") and not self.lows[0] <= point <= self.highs[-1]:
            raise UnknownValue(f'column "{self.name}" goes from {low} to {high}: compare it with a value in between')
        some, every = self._holds(op, point)
        cut = np.flatnonzero(some != every)
        if len(cut) and not snap:
            raise self._cut(op, str(literal), int(cut[0] if op != "<>" else cut[-1]))
        # Clamped values are in the outer bins. What asks for them alone would count none of them, and sound certain.
        outer = {"<": 0, "<=": 0, ">": -1, ">=": -1}.get(op)
        if outer is not None and not some[outer]:
            if not snap:
                raise self._cut_beyond(op, str(literal), outer % self.regular)
            some[outer] = True
        return code_set(np.flatnonzero(some))

    def caveats(self, op: str, codes: CodeSet) -> tuple[str, ...]:
        """Which clamped values are counted as if the comparison held for them, or as if it did not."""
        last = self.regular - 1
        beyond = {"<": (last,), "<=": (last,), ">": (0,), ">=": (0,)}.get(op, (0, last))
        sides = {0: ("below", self.lows[0]), last: ("above", self.highs[-1])} if last else {}
        return tuple(
            f'values of "{self.name}" {side} {self._print(edge)} count as {self.label(code)}'
            for code, (side, edge) in sides.items()
            if code in beyond and (code in codes) != (op == "<>")
        )

    def _holds(self, op: str, x: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For each bin of whole values: whether the comparison holds somewhere in it, and everywhere."""
        low, high = self.lows, self.highs
        if op in _COMPARE:
            least, most = (low, high) if op in ("<", "<=") else (high, low)
            return _COMPARE[op](least, x), _COMPARE[op](most, x)
        inside, only = (low <= x) & (x <= high) & (x == math.floor(x)), (low == x) & (high == x)
        return (inside, only) if op == "=" else (~only, ~inside)

    def _cut_beyond(self, op: str, literal: str, code: int) -> CutsBin:
        """Of a comparison that only values beyond the bins satisfy: they are in the first or the last bin."""
        upper = code > 0 or op in (">", ">=")
        edges = (self._value(self.lows[code] if upper or self.regular == 1 else self.lows[code + 1]),)
        place, side = ("last", "above") if upper else ("first", "below")
        whole = f"write {'>=' if upper else '<'} {edges[0]}, " if self.regular > 1 else ""
        return CutsBin(
            f'"{self.name}" {op} {literal} cuts the {place} bin, {self.label(code)}, in which all values {side} it are '
            f"counted: {whole}declare a wider range, or {SNAP}",
            edges,
        )

    def _cut(self, op: str, literal: str, code: int) -> CutsBin:
        edges = [self._value(self.lows[code])] if code or op not in ("<", "<=") else []
        if code + 1 < self.regular:
            edges.append(self._value(self.lows[code + 1]))
        name = f'"{self.name}" {op} {literal} cuts the bin {self.label(code)}'
        if op in ("=", "<>"):
            cure = f"ask for the whole bin, from {edges[0]}" + (f" to below {edges[1]}" if edges[1:] else "")
        else:
            plain = "<" if op in ("<", "<=") else ">="
            cure = "write " + " or ".join(f"{plain} {edge}" for edge in edges) if edges else "it is the only one"
        return CutsBin(f"{name}: {cure}, or {SNAP}", tuple(edges))


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
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not math.isfinite(edge):
                raise self._error("edges are finite numbers: leave out everything else")
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

    def _holds(self, op: str, x: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        low, high = self.lows, self.highs
        last = np.arange(self.regular) == self.regular - 1
        if op == "<":
            return low < x, np.where(last, high < x, high <= x)
        if op == "<=":
            return low <= x, high <= x
        if op == ">":
            return high > x, low > x
        if op == ">=":
            return np.where(last, high >= x, high > x), low >= x
        inside, never = (low <= x) & np.where(last, x <= high, x < high), np.zeros(self.regular, dtype=bool)
        return (inside, never) if op == "=" else (~never, ~inside)

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
