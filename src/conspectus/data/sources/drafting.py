"""What looks at the data for its owner, and says so: a schema drafted from it, and how a schema fits it."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conspectus.data.columns.ordered import Ordered
from conspectus.data.columns.values import by_distinct, date_at, day_of, number_of, text_of, truth_of
from conspectus.data.schema import Schema
from conspectus.server_address import is_server, without

from . import open_pairs, open_table, open_unknown
from .lines import Tally
from .origin import guarded, quoted

NOT_PRIVATE = "NOT PRIVATE"
_MARKS = ("?", "NA", "N/A", "NULL", "null", "nan", "NaN")
_LISTED = 200
_BINS = 50
_KEPT = 20_000  # distinct values that are looked at before a column counts as one of many values

_OK, _CLAMPED, _RECODED, _MISSING = range(4)


@dataclass(frozen=True)
class ColumnCheck:
    """How the values of one column meet the schema. NOT PRIVATE: exact counts, for the owner alone."""

    name: str
    rows: int
    clamped: int
    recoded: int
    missing: int

    def __str__(self) -> str:
        counts = f"{self.clamped:,} clamped, {self.recoded:,} recoded, {self.missing:,} missing"
        return f"{NOT_PRIVATE} {self.name}: {counts} of {self.rows:,} rows"


def check(schema: Schema, source: Any) -> list[ColumnCheck]:
    """For each column: the rows whose values lie outside its range, are not listed or unreadable, or are missing."""
    nulls = schema.nulls

    def verdict(column: Any, value: object) -> int:
        if nulls.match(value):
            return _MISSING
        if column.find(value) is None:
            return _RECODED
        return _CLAMPED if isinstance(column, Ordered) and not column.holds(value) else _OK

    counts = np.zeros((len(schema.columns), 4), dtype=np.int64)
    rows = 0
    with open_table(source, schema) as table:
        for batch in table.raw(range(len(schema.columns))):
            rows += batch.num_rows
            for position, column in enumerate(schema.columns):
                found = by_distinct(batch.column(position), partial(verdict, column), _MISSING, np.uint8)
                counts[position] += np.bincount(found, minlength=4)
    return [
        ColumnCheck(column.name, rows, *(int(count) for count in counts[position, _CLAMPED:]))
        for position, column in enumerate(schema.columns)
    ]


@dataclass(frozen=True)
class LineCheck(Tally):
    """How the lines of a CSV file look. NOT PRIVATE: exact counts, for the owner alone."""

    def __str__(self) -> str:
        return (
            f"{NOT_PRIVATE} lines: {self.odd_quotes:,} with quotation marks that enclose no whole field, "
            f"{self.wrong_fields:,} with too few or too many fields, {self.too_long:,} too long of {self.rows:,} rows"
        )


def check_lines(schema: Schema, source: Any) -> LineCheck | None:
    """The rows of a CSV file, also behind a SELECT, whose lines are odd; None where rows are no lines of text."""
    with open_table(source, schema) as table:
        found = table.tally()
    return None if found is None else LineCheck(**asdict(found))


@dataclass
class _Seen:
    """What a draft has seen of one column."""

    rows: int = 0
    empty: int = 0
    distinct: Counter[object] = field(default_factory=Counter)
    overflow: bool = False
    numbers: bool = True
    whole: bool = True
    days: bool = True
    truths: bool = True
    low: float = math.inf
    high: float = -math.inf
    marks: set[str] = field(default_factory=set)

    def add(self, values: Iterable[tuple[object, int]]) -> None:
        for value, count in values:
            self.rows += count
            text = text_of(value)
            if text is None or text in _MARKS:
                self.empty += count
                if text is not None:
                    self.marks.add(text)
                continue
            # A guess that has failed is not tried again: reading every value in every way is what takes the time.
            number = number_of(value) if self.numbers else None
            day = day_of(value) if self.days else None
            self.numbers = number is not None
            self.days = day is not None
            self.truths = self.truths and truth_of(value) is not None
            point = number if number is not None else day
            if point is not None:
                self.whole &= float(point).is_integer()
                self.low, self.high = min(self.low, point), max(self.high, point)
            if len(self.distinct) < _KEPT or text in self.distinct:
                self.distinct[text] += count
            else:
                self.overflow = True


def draft(source: Any) -> str:
    """A schema file for a source, to be edited by its owner: every value in it comes from the data, so NOT PRIVATE."""
    origin = open_unknown(source)
    try:
        with guarded("the source"):
            names = list(origin.names)
            relation = origin.relation(list(origin.names.values()))
            select = ", ".join(f"CAST({quoted(origin.names[name])} AS VARCHAR)" for name in names)
            batches = relation.query("_source", f"SELECT {select} FROM _source").to_arrow_reader(1 << 16)
            seen = [_Seen() for _ in names]
            for batch in batches:
                for position, one in enumerate(seen):
                    counted = batch.column(position).value_counts()
                    one.add(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist()))
    finally:
        origin.close()
    marks = sorted({mark for one in seen for mark in one.marks})
    lines = [
        f"# {NOT_PRIVATE}: drafted from the data; every value, bound and bin below was read off the rows.",
        "# Replace what is not public knowledge, then remove the line draft = true.",
        "draft = true",
        f"name = {_toml(_called(source))}",
        f"null_values = [{', '.join(map(_toml, marks))}]",
        "",
        "[unit]",
        'kind = "row"                      # or: kind = "id", column = "…", max_rows = 3',
    ]
    for column, one in zip(names, seen):
        lines += ["", *_column(column, one, alone=len(names) == 1)]
    return "\n".join(lines) + "\n"


def draft_pairs(source: Any, user: str, item: str) -> str:
    """A schema file for pairs of a user and an item, to be edited: its items come from the data, so NOT PRIVATE."""
    with open_pairs(source, user, item) as table:
        names = [_toml(name) for name in table.domain.names]
    return "\n".join(
        [
            f"# {NOT_PRIVATE}: drafted from the data; the list of items was read off the pairs.",
            "# Replace it by a list that is public knowledge, then remove the line draft = true.",
            "draft = true",
            f"name = {_toml(_called(source))}",
            "items = [",
            *(f"  {name}," for name in names),
            "]",
            "",
            "[unit]",
            'kind = "pairs"',
            f"column = {_toml(user)}",
            f"item = {_toml(item)}",
            "# users = 1000                    # how many there are, where that is public; else those with a pair",
            "",
        ]
    )


def _called(source: Any) -> str:
    if is_server(source):
        return without(source, "table", "table")[1].rpartition(".")[2]
    named = isinstance(source, str | Path) and " " not in str(source)
    return Path(source).name.partition(".")[0] if named else "table"


def _column(name: str, seen: _Seen, *, alone: bool) -> list[str]:
    head = f"[columns.{_toml(name)}]"
    filled = seen.rows - seen.empty
    missing = ["missing = true"] if seen.empty else []
    if not filled:
        return [f"# {_toml(name)} holds no value: left out"]
    if seen.truths:
        return [head, 'type = "boolean"', *missing]
    if seen.days:
        first, last = date_at(int(seen.low)), date_at(int(seen.high))
        return [head, 'type = "date"', f"min = {first}", f"max = {last}", f'width = "{_span(first, last)}"', *missing]
    if alone and not seen.numbers and len(seen.distinct) > _LISTED:
        # One column of many texts: nobody needs a list of them to ask about some.
        return [head, 'type = "record"                   # any text; cs.sparse and cs.overlap ask about named ones']
    if _identity(name, seen, filled):
        return [f"# {_toml(name)} looks like an id: left out; as the unit of privacy it goes under [unit]"]
    if seen.numbers and seen.whole and abs(seen.low) < 1e15 and abs(seen.high) < 1e15:
        low, high = int(seen.low), int(seen.high)
        width = _nice(math.ceil((high - low + 1) / _BINS)) if high - low >= 2 * _BINS else 1
        bins = [f"width = {int(width)}"] if width > 1 else []
        return [head, 'type = "integer"', f"min = {low}", f"max = {high}", *bins, *missing]
    if seen.numbers:
        step = _nice((seen.high - seen.low) / 20) or 1.0
        start = math.floor(seen.low / step)
        edges = [float(f"{step * k:.12g}") for k in range(start, math.ceil(seen.high / step) + 1)]
        if len(edges) < 2:
            edges.append(edges[0] + step)
        return [head, 'type = "number"', f"edges = {edges}", *missing]
    if seen.overflow or len(seen.distinct) > _LISTED:
        listed = sorted(str(text) for text, _ in seen.distinct.most_common(_LISTED))
        note = [
            f"# only the {_LISTED} most frequent values are listed; for a table of this column alone,",
            '# type = "record" lists none of them, and cs.sparse and cs.overlap ask about named ones',
        ]
    else:
        listed, note = sorted(map(str, seen.distinct)), []
    values = [text for text in listed if text not in ("other", "missing")]
    return [
        head,
        'type = "categorical"',
        *note,
        f"values = [{', '.join(map(_toml, values))}]",
        "other = true",
        *missing,
    ]


def _identity(name: str, seen: _Seen, filled: int) -> bool:
    """Whether a column looks like an id: nearly every row has its own value, or the name says so and values abound."""
    many = seen.overflow or len(seen.distinct) > 0.9 * filled
    named = name.casefold().endswith(("id", "_nbr", "key")) and len(seen.distinct) > _LISTED
    whole = not seen.numbers or seen.whole
    return whole and filled > _LISTED and (named or (many and not seen.numbers))


def _span(first: datetime.date, last: datetime.date) -> str:
    days = (last - first).days
    return "day" if days < 60 else "week" if days < 400 else "month" if days < 6000 else "year"


def _nice(width: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten."""
    if width <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-12))


def _toml(text: str) -> str:
    """A text as a TOML string; JSON's escapes are TOML's, but for the one control sign that JSON leaves bare."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
