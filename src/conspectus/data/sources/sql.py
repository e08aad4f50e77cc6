"""SELECTs over files, and DuckDB relations: what they read is read here, and they run on a connection of ours.

So nothing that a query or its owner's catalogue names can stand in the place of the rows, no setting of the owner can
change what an expression means, and no optimizer undoes what `rowwise` has made safe.
"""

from __future__ import annotations

import json
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from conspectus.data.columns.arrays import tidied, tidy
from conspectus.data.schema import Schema

from .delimited import read_header
from .lines import Tally
from .many_files import matching_parquet
from .origin import Connection, Origin, SourceError, exported, fresh, guarded, kept, quoted, text
from .parquet import read_footer
from .rowwise import FILES, Verdict, examine
from .sql_growth import LONGEST_TEXT, in_pieces
from .sql_types import allowed, check_types

WHAT = "the SQL source"
_QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)
_TYPES = {"integer": "DOUBLE", "number": "DOUBLE", "date": "TIMESTAMP"}
_ROWS = 31 << 11  # of the longest texts that are read these are less than 2 GiB, the most in a batch of Arrow
_FIRST_MOMENT = "TIMESTAMP '290309-12-22 (BC) 00:00:00'"


def is_query(source: object) -> bool:
    """Whether a text is SQL rather than the name of a file, such as "with spaces.csv"."""
    return isinstance(source, str) and bool(_QUERY.match(source)) and not source.casefold().endswith(FILES)


def is_relation(source: object) -> bool:
    """Whether an object is a DuckDB relation."""
    return isinstance(source, duckdb.DuckDBPyRelation)


@dataclass(frozen=True)
class Base:
    """What a query reads: columns by position, each pass as Arrow batches of columns c0, c1, …"""

    names: tuple[str, ...]
    reader: Callable[[Sequence[int]], pa.RecordBatchReader]
    types: dict[str, str]
    tally: Callable[[], Tally] | None = None

    def select(self, positions: Sequence[int], relation: str) -> str:
        """A SELECT of some columns under their own names, texts in the types that the schema gives them.

        Unreadable values become NULL. The types come from the schema, so no value changes how another one is read.
        """
        columns = []
        for position in positions:
            field, kind = f"c{position}", self.types.get(self.names[position])
            field = f"TRY_CAST(trim({field}, ' ' || chr(9) || chr(13) || chr(10)) AS {kind})" if kind else field
            columns.append(f"{field} AS {quoted(self.names[position])}")
        return f"SELECT {', '.join(columns)} FROM {relation}"

    def pieces(self, positions: Sequence[int]) -> pa.RecordBatchReader:
        """One pass over some columns, in pieces that stay small enough to be worked on."""
        whole = self.reader(positions)
        return pa.RecordBatchReader.from_batches(whole.schema, (piece for batch in whole for piece in in_pieces(batch)))


def open_relation(relation: Any, schema: Schema, *, memory_limit: str | None = None) -> Origin:
    """A relation over a table of its own connection, or over a file, that maps each row by itself."""
    connection = Connection(memory_limit=memory_limit)
    with kept(connection), guarded("the DuckDB relation"):
        query = relation.sql_query()
        asked = fresh("_asked", query)
        verdict = examine(query, lambda question: list(relation.query(asked, question).fetchall()))
        base = _table(relation, verdict.table) if verdict.table is not None else _file(verdict, schema)
        return _open(connection, query, verdict, base, schema)


def open_query(query: str, schema: Schema, *, memory_limit: str | None = None) -> Origin:
    """A SELECT over one CSV or Parquet file that maps each row by itself."""
    connection = Connection(memory_limit=memory_limit)
    with kept(connection), guarded(WHAT):
        verdict = examine(query, connection.run, empty=True)
        return _open(connection, query, verdict, _file(verdict, schema), schema)


def open_over(
    query: str, schema: Schema, found: Callable[[str, str], Base], *, memory_limit: str | None = None
) -> Origin:
    """A SELECT that maps each row by itself over one table that lies elsewhere.

    `found` is given the schema and the name of the table as the query writes them; DuckDB sees a table of that name
    without rows while the query is examined.
    """
    connection = Connection(memory_limit=memory_limit)
    with kept(connection), guarded(WHAT):
        space, name = _one_table(query, connection)
        base = found(space, name)
        place = ".".join(quoted(part) for part in (space, name) if part)
        if space:
            connection.cursor().execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(space)}")
        nothing = base.reader(range(len(base.names))).schema.empty_table().rename_columns(list(base.names))
        shown = connection.cursor().from_arrow(nothing)
        shown.query(fresh("_nothing", query), f"CREATE TABLE {place} AS SELECT * FROM {fresh('_nothing', query)}")
        verdict = examine(query, connection.run)
        if verdict.table is None:
            raise SourceError(f"{WHAT} reads a file and not a table of the database: open the file by itself")
        return _open(connection, query, verdict, base, schema)


def _one_table(query: str, connection: Connection) -> tuple[str, str]:
    """The schema and the name of the one table that a query reads, as they are written."""
    places, named = set(), set()
    waiting: list[Any] = [json.loads(connection.run(f"SELECT json_serialize_sql({text(query)})")[0][0])]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                places.add((str(node.get("schema_name") or ""), str(node["table_name"])))
            named |= {str(entry["key"]).casefold() for entry in node.get("cte_map", {}).get("map", ())}
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    places = {(space, name) for space, name in places if space or name.casefold() not in named}
    if len(places) != 1:
        raise SourceError(f"{WHAT} has to read one table of the database: write a plain SELECT … FROM table")
    return places.pop()


def _open(connection: Connection, query: str, verdict: Verdict, base: Base, schema: Schema) -> Origin:
    said = query + json.dumps(verdict.tree)
    lines, rows = fresh("_lines", said), fresh("_rows", said)
    verdict.read_instead(rows)
    positions = _needed(verdict, base.names, schema)
    nothing = base.reader(positions).schema.empty_table()
    shown = connection.cursor().from_arrow(nothing).query(lines, base.select(positions, lines))
    read = _cut(shown.columns, shown.types, f"({base.select(positions, lines)})")

    def spelled(tree: dict[str, Any]) -> str:
        plain = connection.run(f"SELECT json_deserialize_sql({text(json.dumps(tree))})")[0][0]
        return f"WITH {rows} AS ({read}) SELECT * FROM ({plain})"

    def bound(tree: dict[str, Any]) -> list[str]:
        return list(map(str, connection.cursor().from_arrow(nothing).query(lines, spelled(tree)).types))

    check_types(verdict.levels, bound)
    given = connection.cursor().from_arrow(nothing).query(lines, spelled(verdict.tree))
    checked = _cut(given.columns, given.types, f"({spelled(verdict.tree)})")
    # What fails whatever the rows are, such as a pattern that is none, fails here, on a row of nothing.
    absent = pa.table([pa.nulls(1, field.type) for field in nothing.schema], schema=nothing.schema)
    connection.cursor().from_arrow(absent).query(lines, checked).fetchall()

    def relation(columns: Collection[str]) -> Any:
        return connection.cursor().from_arrow(base.pieces(positions)).query(lines, checked)

    names = {name: name for name in given.columns}
    return Origin(connection, relation, names, filtered=verdict.filtered, computed=True, tally=base.tally)


def _cut(names: Sequence[str], kinds: Sequence[Any], relation: str) -> str:
    """A SELECT of columns whose values are of a known type and of a bounded length.

    Of a text of more than 32,768 bytes the first 8,192 characters are read, which have no more; longer bytes are
    missing, and so are moments beyond the calendar, which cannot be written. So no single value asks for more memory
    than an expression's form shows, or ends a pass.
    """
    columns = [f"{_bounded(name, kind)} AS {name}" for name, kind in zip(map(quoted, names), map(str, kinds))]
    return f"SELECT {', '.join(columns)} FROM {relation}"


def _bounded(value: str, kind: str) -> str:
    """An expression of a type that is written out, as one of bounded length; the functions are DuckDB's own."""
    if not allowed(kind):
        return _bounded(f"TRY(CAST({value} AS VARCHAR))", "VARCHAR")
    if kind == "VARCHAR":
        short = f"system.main.left({value}, {LONGEST_TEXT // 4})"
        return f"CASE WHEN system.main.strlen({value}) <= {LONGEST_TEXT} THEN {value} ELSE {short} END"
    if kind == "TIMESTAMP":
        return f"CASE WHEN {value} >= {_FIRST_MOMENT} OR system.main.isinf({value}) THEN {value} END"
    if kind == "BLOB":
        return f"CASE WHEN system.main.octet_length({value}) <= {LONGEST_TEXT // 4} THEN {value} END"
    return value


def _needed(verdict: Verdict, names: Sequence[str], schema: Schema) -> list[int]:
    """The positions of the columns that a query can mean: those that it mentions, and the schema's, for a star."""
    said = json.dumps(verdict.tree, ensure_ascii=False).casefold()
    wanted = {column.name for column in schema.columns} | {schema.unit.column}
    spelled = [json.dumps(name, ensure_ascii=False)[1:-1].casefold() for name in names]
    found = [place for place, name in enumerate(names) if name in wanted or spelled[place] in said]
    return list(range(len(names))) if verdict.whole or not found else found


def _file(verdict: Verdict, schema: Schema) -> Base:
    path = Path(verdict.file or "").absolute()
    # An id is its text: as a number it might meet another one, or none.
    types = {
        column.name: _TYPES.get(column.kind, "VARCHAR")
        for column in schema.columns
        if column.name != schema.unit.column
    }
    if not verdict.csv and path.exists():
        parquet = read_footer(path, f'"{path.name}"')
        return Base(parquet.names, parquet.reader, {})
    if not verdict.csv:
        # Files may differ in their types, for the sake of one value. An expression has one type: that of the schema.
        parts = matching_parquet(path)
        numeric = {name for name, kind in types.items() if kind == "DOUBLE"}
        others = {name: types.get(name, "VARCHAR") for name in parts.names if name not in numeric}
        return Base(parts.names, lambda positions: parts.texts(positions, numeric), others)
    if not path.is_file():
        raise SourceError(f'there is no file "{path.name}": check the path')
    file = read_header(path, [column.name for column in schema.columns])
    return Base(file.header, file.reader, {name: types.get(name, "VARCHAR") for name in file.header}, file.tally)


def _table(relation: Any, table: str) -> Base:
    """A table of the owner's connection, streamed into ours: its texts are cut there, or Arrow would refuse many."""
    asked = fresh("_asked", table)
    one = threading.Lock()  # passes may overlap, and a connection refuses two calls at a time
    passes: weakref.WeakSet[_Pass] = weakref.WeakSet()
    whole = relation.query(asked, f"SELECT * FROM {table}")
    names, kinds = tuple(whole.columns), list(map(str, whole.types))

    def reader(positions: Sequence[int]) -> pa.RecordBatchReader:
        columns = ", ".join(f"{_exported(names[place], kinds[place])} AS c{place}" for place in positions)
        with one:
            for other in passes:
                other.put_aside()
            found = _Pass(relation.query(asked, f"SELECT {columns} FROM {table}").to_arrow_reader(_ROWS))
            passes.add(found)
        kind = pa.schema([(field.name, tidied(field.type)) for field in found.schema])

        def batches() -> Iterator[pa.RecordBatch]:
            while True:
                with one:
                    batch = found.next()
                if batch is None:
                    return
                yield pa.RecordBatch.from_arrays([tidy(column) for column in batch.columns], schema=kind)

        return pa.RecordBatchReader.from_batches(kind, batches())

    return Base(names, reader, {})


class _Pass:
    """A pass over the owner's connection, which has one open result: where another pass begins, the rest is kept."""

    def __init__(self, reader: Any) -> None:
        self.schema = reader.schema
        self._reader = reader
        self._kept: deque[pa.RecordBatch] = deque()

    def put_aside(self) -> None:
        self._kept.extend(self._reader)

    def next(self) -> pa.RecordBatch | None:
        return self._kept.popleft() if self._kept else next(self._reader, None)


def _exported(name: str, kind: str) -> str:
    plain = exported(name, kind)
    if kind == "TIMESTAMP_NS":  # the one type whose infinite moments are days of the calendar in Arrow
        return f"CASE WHEN system.main.isfinite({plain}) THEN {plain} END"
    if plain == quoted(name) and kind not in ("VARCHAR", "BLOB"):
        return plain  # DuckDB's own type means the same in Arrow, and is short
    return _bounded(plain, kind if kind == "BLOB" else "VARCHAR")
