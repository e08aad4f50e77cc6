"""How long a source's texts may become, by the form of its expressions alone.

A text that is joined with itself, and the result again, doubles each time: a long value in one row would end the
memory, and so the pass, where short ones do not. So each text of a column counts as one, expressions add up what they
may write, and a query beyond a bound is refused by its form. Names are followed: through the aliases of one SELECT,
which are evaluated anew wherever they are mentioned, and through SELECTs inside one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .origin import SourceError
from .sql_functions import arguments_of, written

LONGEST_TEXT = 1 << 15
"""The most bytes of one text of a column that a source's expressions see."""

_MOST_TEXTS = 16  # columns' texts in one value
_MOST_WRITTEN = 1 << 16  # bytes in one value beside them
_MOST_WORK = 1024  # columns' texts in all values of a row together, those in between included
_MOST_BYTES = 1 << 20  # bytes in all values of a row together beside them
_MOST_STEPS = 20_000
_PLAIN = 128  # bytes that hold any number, date or interval as text
_VECTOR = 2048  # rows that DuckDB evaluates together
_MOST_TOGETHER = 1 << 19  # bytes of texts that it is given together, where there is more than one row
_SHORT = frozenset(
    ["trim", "ltrim", "rtrim", "left", "right", "substring", "substr", "reverse", "regexp_extract", "split_part"]
    + ["if", "nullif", "greatest", "least", "list_value"]
)
_FACTORS = {"upper": 2, "ucase": 2, "lower": 2, "lcase": 2, "strip_accents": 3, "translate": 4}
_JOINED = frozenset(["||", "concat", "concat_ws"])
_TWICE = {"nullif": 2, "fmod": 3}  # macros that evaluate an argument as often
_SPLIT = 16  # a list of parts takes as much memory as so many texts


@dataclass(frozen=True)
class Size:
    """A bound: so many texts of columns and so many bytes beside them."""

    texts: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.texts + other.texts, self.bytes + other.bytes)

    def __mul__(self, times: int) -> Size:
        return Size(self.texts * times, self.bytes * times)

    def __or__(self, other: Size) -> Size:
        return Size(max(self.texts, other.texts), max(self.bytes, other.bytes))


@dataclass(frozen=True)
class Measure:
    """The bound of a value, of all values that were made on the way to it, and the number of steps."""

    size: Size = Size(0, _PLAIN)
    work: Size = Size()
    steps: int = 1


COLUMN = Measure(Size(1, _PLAIN))


@dataclass
class Columns:
    """What a SELECT reads or gives, by name; `widest` bounds what is named in no way known here."""

    known: dict[str, Measure] = field(default_factory=dict)
    widest: Size = COLUMN.size

    def named(self, name: str) -> Measure:
        return self.known.get(name.casefold(), Measure(self.widest))

    def give(self, name: str, size: Size) -> None:
        """Have a column under a name, beside others of that name."""
        self.known[name.casefold()] = Measure(self.known.get(name.casefold(), Measure()).size | size)
        self.widest |= size

    def renamed(self) -> Columns:
        """The same columns under unknown names."""
        return Columns({}, self.widest)


class Growth:
    """Adds up what the SELECTs of one query may write."""

    def __init__(self) -> None:
        self._work = Size()
        self._steps = 0

    def select(self, items: Iterable[dict[str, Any]], where: dict[str, Any] | None, inside: Columns) -> Columns:
        """Measure the expressions of one SELECT over the columns that it reads; return those that it gives."""
        aliases: dict[str, Measure] = {}
        given, renamed = Columns({}, inside.widest), False
        for item in items:
            if item["class"] == "STAR":
                for name, column in inside.known.items():
                    given.give(name, column.size)
                renamed |= bool(item.get("rename_list"))
                parts = [entry["value"] for entry in item.get("replace_list", ())]
                names = [str(entry["key"]) for entry in item.get("replace_list", ())]
            else:
                parts, names = [item], [item.get("alias") or str(item.get("column_names", [""])[-1])]
            for name, part in zip(names, parts):
                found = self._counted(part, aliases, inside)
                aliases[name.casefold()] = found
                given.give(name, found.size)
        if where is not None:
            self._counted(where, aliases, inside)
        return given.renamed() if renamed else given

    def _counted(self, part: dict[str, Any], aliases: dict[str, Measure], inside: Columns) -> Measure:
        found = self._measure(part, aliases, inside)
        self._work += found.work
        self._steps += found.steps
        self._check(Size(), self._work, self._steps)
        return found

    def _measure(self, part: dict[str, Any], aliases: dict[str, Measure], inside: Columns) -> Measure:
        kind = part.get("class")
        if kind == "COLUMN_REF":
            name = str(part["column_names"][-1]).casefold()
            column = inside.named(name)
            again = aliases.get(name, column)
            return Measure(column.size | again.size, again.work, again.steps)
        if kind == "CONSTANT":
            return Measure(Size(0, max(_PLAIN, len((written(part) or "").encode()))))
        parts = list(children(part))
        found = [self._measure(each, aliases, inside) for each in parts]
        size = _size(part, parts, [each.size for each in found])
        name = str(part.get("function_name", "")).casefold()
        often = _TWICE.get(name, 1)
        work = sum((each.work * often for each in found), size * (_SPLIT if name == "split_part" else 1))
        steps = 1 + sum(each.steps * often for each in found)
        self._check(size, work, steps)
        return Measure(size, work, steps)

    @staticmethod
    def _check(size: Size, work: Size, steps: int) -> None:
        if (
            size.texts > _MOST_TEXTS
            or size.bytes > _MOST_WRITTEN + _PLAIN * _MOST_TEXTS
            or work.texts > _MOST_WORK
            or work.bytes > _MOST_BYTES
            or steps > _MOST_STEPS
        ):
            raise SourceError(
                "the SQL source may make texts that are too long for any memory: join fewer columns and texts in one "
                "expression, and nest fewer of them"
            )


def children(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The expressions right below one."""
    for key, value in part.items():
        if key == "type_expr":
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                if item.get("class") is not None:
                    yield item
                elif key != "order_bys":
                    yield from children(item)


def _size(part: dict[str, Any], parts: list[dict[str, Any]], sizes: list[Size]) -> Size:
    """The bound of the value of an expression by those of its parts."""
    kind, plain = part.get("class"), Size(0, _PLAIN)
    greatest = reduce(or_, sizes, plain)
    if kind == "CASE" or kind == "CAST" or part.get("type") in ("OPERATOR_COALESCE", "OPERATOR_TRY"):
        return greatest
    if kind != "FUNCTION":
        return plain
    name = part["function_name"].casefold()
    first = (sizes[0] if sizes else plain) | plain
    if name in _JOINED:
        return sum((size | plain for size in sizes), plain) + first * (len(sizes) if name == "concat_ws" else 0)
    if name in _SHORT:
        return greatest
    if name in _FACTORS:
        return first * _FACTORS[name]
    values = [written(value) or "" for value in arguments_of(part)]
    if name == "replace" and len(values) == 3:
        old, new = len(values[1].encode()), len(values[2].encode())
        return first * max(1, -(-new // old) if old else 1)
    if name == "regexp_replace" and len(values) >= 3:
        new, copies = len(values[2].encode()), values[2].count("\\")
        everywhere = any("g" in options for options in values[3:])
        return first * (1 + copies + (new if everywhere else 0)) + Size(0, new)
    if name == "strftime":
        return Size(0, _PLAIN * (1 + sum(map(len, values))))
    return plain


def in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, so that none of the pieces that DuckDB evaluates together is large by more than one row."""
    rows = batch.num_rows
    texts = sum(map(_lengths, batch.columns), np.zeros(rows, dtype=np.int64))
    ends = np.append(0, np.cumsum(texts))
    windows = np.append(np.arange(0, rows, _VECTOR), rows)
    if (np.diff(ends[windows]) <= _MOST_TOGETHER).all():
        yield batch
        return
    start = 0
    while start < rows:
        stop = int(np.searchsorted(ends, ends[start] + _MOST_TOGETHER, side="right")) - 1
        stop = min(max(stop, start + 1), start + _VECTOR, rows)
        yield batch.slice(start, stop - start)
        start = stop


def _lengths(values: pa.Array) -> NDArray[np.int64]:
    """How many bytes of each text or of each value of bytes an expression sees; of other values none."""
    kind = values.type
    found: NDArray[np.int64] = np.zeros(len(values), dtype=np.int64)
    if pa.types.is_dictionary(kind):
        places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(values.dictionary))
        found = np.append(_lengths(values.dictionary), 0)[places.to_numpy(zero_copy_only=False)]
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        found = np.minimum(lengths, LONGEST_TEXT)
    return found
