"""SELECTs over files, and DuckDB relations."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import duckdb

from conspectus.data.schema import Schema
from conspectus.data.sources.delimited import Delimited, is_delimited, read_header, typed
from conspectus.data.sources.origin import Origin, SourceError, connect, guarded, text
from conspectus.data.sources.rowwise import FILES, Verdict, examine

WHAT = "the SQL source"
_QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)
_TYPES = {"integer": "DOUBLE", "number": "DOUBLE", "date": "TIMESTAMP"}


def is_query(source: object) -> bool:
    """Whether a text is SQL rather than the name of a file, such as "with spaces.csv"."""
    return isinstance(source, str) and bool(_QUERY.match(source)) and not source.casefold().endswith(FILES)


def is_relation(source: object) -> bool:
    """Whether an object is a DuckDB relation."""
    return isinstance(source, duckdb.DuckDBPyRelation)


def open_relation(relation: Any, schema: Schema, *, memory_limit: str | None = None) -> Origin:
    """A relation over a table of its own connection, or over a file, that maps each row by itself."""
    with guarded("the DuckDB relation"):
        query = relation.sql_query()
        verdict = examine(query, lambda asked: relation.query("_asked", asked).fetchall())
        if verdict.file is None:
            names = {name: name for name in relation.columns}
            return Origin(lambda columns: relation, names, filtered=verdict.filtered)
    # A relation over a file has guessed its types from the rows, where the file is a CSV: read the file anew instead.
    return open_query(query, schema, memory_limit=memory_limit)


def open_query(query: str, schema: Schema, *, memory_limit: str | None = None) -> Origin:
    """A SELECT over one CSV or Parquet file that maps each row by itself, on a connection of its own."""
    connection, close = connect(memory_limit=memory_limit)
    try:
        with guarded(WHAT):
            verdict = examine(query, lambda asked: connection.sql(asked).fetchall())
            file, rows = None, ""
            if verdict.file is not None and _is_csv(verdict):
                if not Path(verdict.file).is_file():
                    raise SourceError(f'there is no file "{Path(verdict.file).name}": check the path')
                file = read_header(Path(verdict.file), [column.name for column in schema.columns])
                rows = f"WITH _csv AS ({_replace_csv(verdict, file, schema)}) "
            tree = text(json.dumps(verdict.tree))
            plain = connection.sql(f"SELECT json_deserialize_sql({tree})").fetchall()[0][0]
            checked = f"{rows}SELECT * FROM ({plain})"

            def relation(columns: Collection[str]) -> Any:
                cursor = connection.cursor()
                if file is None:
                    return cursor.sql(checked)
                return cursor.from_arrow(file.reader()).query("_lines", checked)

            names = {name: name for name in relation(()).columns}
    except SourceError:
        close()
        raise
    tally = None if file is None else file.tally
    return Origin(relation, names, filtered=verdict.filtered, tally=tally, close=close)


def _is_csv(verdict: Verdict) -> bool:
    """Whether a query reads its file as a CSV, whatever the file is called."""
    return verdict.node.get("type") == "TABLE_FUNCTION" or is_delimited(Path(verdict.file or ""))


def _replace_csv(verdict: Verdict, file: Delimited, schema: Schema) -> str:
    """Let the query read `_csv` in place of its file, and return the SELECT of that: the file in the schema's types."""
    types = {column.name: _TYPES[column.kind] for column in schema.columns if column.kind in _TYPES}
    alias = verdict.node.get("alias") or Path(verdict.file or "").name.partition(".")[0]
    reference = {
        "type": "BASE_TABLE",
        "alias": alias,
        "sample": None,
        "schema_name": "",
        "table_name": "_csv",
        "column_name_alias": verdict.node.get("column_name_alias", []),
        "catalog_name": "",
        "at_clause": None,
        "qualified_name": {"path": ["_csv"]},
    }
    verdict.node.clear()
    verdict.node.update(reference)
    return typed(file, types, "_lines")
