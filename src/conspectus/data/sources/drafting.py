"""What looks at the data for its owner, and says so: a schema drafted from it, and how a schema fits it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from conspectus.data.columns.ordered import Ordered
from conspectus.data.columns.values import by_distinct, day_of, number_of, text_of
from conspectus.data.schema import Schema
from conspectus.real_path import as_text
from conspectus.server_address import is_server, name_of, without

from . import open_pairs, open_table, open_unknown
from .drafted_columns import Seen, drafted_column, toml
from .lines import Tally
from .origin import guarded, quoted

NOT_PRIVATE = "NOT PRIVATE"
NO_HEADER = (
    "the names of all columns look like values: the file seems to have no header line, but a first row",
    "write a line with a name for each column at the top of the file, and draft again: names are public",
)

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

    def verdict(column: Any, value: object) -> int:
        if schema.nulls_of(column).match(value):
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
class UnitCheck:
    """How many rows lie beyond `max_rows` of their id, and are in no count. NOT PRIVATE: exact counts."""

    column: str
    max_rows: int
    rows: int
    kept: int

    @property
    def dropped(self) -> int:
        """The rows that no release sees."""
        return self.rows - self.kept

    def __str__(self) -> str:
        share = f" ({self.dropped / self.rows:.1%})" if self.dropped else ""
        return (
            f"{NOT_PRIVATE} unit: {self.dropped:,} of {self.rows:,} rows{share} lie beyond the {self.max_rows:,} that "
            f'are used of each "{self.column}", and are in no count'
        )


def check_unit(schema: Schema, source: Any) -> UnitCheck | None:
    """How many rows of ids are left out by `max_rows`; None where the unit is no id."""
    unit = schema.unit
    if unit.kind != "id":
        return None
    with open_table(source, schema) as table:
        rows = sum(batch.num_rows for batch in table.raw([0]))
        kept = sum(chunk.rows for chunk in table.chunks([0]))
    return UnitCheck(str(unit.column), unit.max_rows, rows, kept)


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


def draft(source: Any, *, nulls: Iterable[str] = (), bins: int | None = None) -> str:
    """A schema file for a source, to be edited by its owner: every value in it comes from the data, so NOT PRIVATE.

    Args:
        source: What `open_table` reads.
        nulls: Texts that mean missing, besides those that always do.
        bins: The most bins of a column of numbers.
    """
    texts = [text for text in map(text_of, nulls) if text is not None]
    origin = open_unknown(source)
    try:
        with guarded("the source"):
            names = list(origin.names)
            relation = origin.relation(list(origin.names.values()))
            select = ", ".join(f"CAST({quoted(origin.names[name])} AS VARCHAR)" for name in names)
            batches = relation.query("_source", f"SELECT {select} FROM _source").to_arrow_reader(1 << 16)
            seen = [Seen(frozenset(texts)) for _ in names]
            for batch in batches:
                for position, one in enumerate(seen):
                    counted = batch.column(position).value_counts()
                    one.add(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist()))
    finally:
        origin.close()
    marks = [*texts, *sorted({mark for one in seen for mark in one.marks})]
    lines = [f"# WARNING: {NO_HEADER[0]}.", f"# So {NO_HEADER[1]}."] if origin.tally and _no_header(names, seen) else []
    lines += [
        f"# {NOT_PRIVATE}: drafted from the data; every value, bound and bin below was read off the rows.",
        "# Replace what is not public knowledge, then remove the line draft = true.",
        "draft = true",
        f"name = {toml(_called(source))}",
        f"null_values = [{', '.join(map(toml, marks))}]",
        "",
        "[unit]",
        'kind = "row"                      # or: kind = "id", column = "…", max_rows = 3',
    ]
    for column, one in zip(names, seen):
        lines += ["", *drafted_column(column, one, alone=len(names) == 1, bins=bins)]
    return "\n".join(lines) + "\n"


def _no_header(names: list[str], seen: list[Seen]) -> bool:
    """Whether the names of all columns look like values: numbers and dates, or what the column holds elsewhere, too."""
    plain = [number_of(name) is not None or day_of(name) is not None for name in names]
    return any(plain) and all(value or name in one.distinct for value, name, one in zip(plain, names, seen))


def draft_pairs(source: Any, user: str, item: str) -> str:
    """A schema file for pairs of a user and an item, to be edited: its items come from the data, so NOT PRIVATE."""
    with open_pairs(source, user, item) as table:
        names = [toml(name) for name in table.domain.names]
    return "\n".join(
        [
            f"# {NOT_PRIVATE}: drafted from the data; the list of items was read off the pairs.",
            "# Replace it by a list that is public knowledge, then remove the line draft = true.",
            "draft = true",
            f"name = {toml(_called(source))}",
            "items = [",
            *(f"  {name}," for name in names),
            "]",
            "",
            "[unit]",
            'kind = "pairs"',
            f"column = {toml(user)}",
            f"item = {toml(item)}",
            "# users = 1000                    # how many there are, where that is public; else those with a pair",
            "",
        ]
    )


def _called(source: Any) -> str:
    if is_server(source):
        return without(source, "table", "table")[1].rpartition(".")[2]
    named = isinstance(source, str | Path) and " " not in str(source)
    return as_text(name_of(source).partition(".")[0]) if named else "table"
