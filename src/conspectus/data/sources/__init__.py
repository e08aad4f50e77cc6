"""Sources of rows: files, DuckDB relations, SQL, and tables in memory, all through one door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conspectus.data.schema import Schema
from conspectus.data.sources.delimited import SUFFIXES, is_delimited, open_delimited
from conspectus.data.sources.delimited import open_unknown as open_unknown_csv
from conspectus.data.sources.frames import is_frame, open_frame
from conspectus.data.sources.origin import Connection, Origin, SourceError, guarded
from conspectus.data.sources.parquet import SUFFIXES as PARQUET
from conspectus.data.sources.parquet import open_parquet
from conspectus.data.sources.records import open_records
from conspectus.data.sources.sql import WHAT, is_query, is_relation, open_query, open_relation
from conspectus.data.sources.table import Table


def open_table(source: Any, schema: Schema | None, *, public_seed: int = 0, memory_limit: str | None = None) -> Table:
    """Open a source as the table that the schema declares: what the source is decides how it is read.

    A path to a CSV (.csv, .tsv, also .gz) or Parquet file, a SELECT over such files, a DuckDB relation, an Arrow table,
    a pandas or polars frame. `public_seed` keys the rule that bounds the rows of an id; `memory_limit` (as in "2GB") is
    what DuckDB may hold before it spills to disk. Without a schema (None) the rows are records of any kind, as in
    `open_records`.
    """
    if schema is None:
        return open_records(source)
    if not isinstance(schema, Schema):
        raise SourceError("open_table needs a schema as its second argument: cs.Schema.load reads one from a file")
    wanted = [column.name for column in schema.columns]
    if schema.unit.column is not None and schema.unit.column not in wanted:
        wanted.append(schema.unit.column)
    if isinstance(source, str) and is_query(source):
        what, origin = WHAT, open_query(source, schema, memory_limit=memory_limit)
    elif is_relation(source):
        what, origin = "the DuckDB relation", open_relation(source, schema, memory_limit=memory_limit)
    elif isinstance(source, str | Path):
        path = Path(source)
        what = f'"{path.name}"'
        origin = _open_file(path, wanted, memory_limit)
    elif is_frame(source):
        what, origin = "the table", open_frame(source, wanted, memory_limit=memory_limit)
    else:
        raise SourceError(
            f"a {type(source).__name__} is no source of rows: pass a CSV or Parquet file, a SELECT, a DuckDB relation, "
            "an Arrow table, or a pandas or polars frame"
        )
    try:
        return Table(origin, schema, what=what, public_seed=public_seed)
    except SourceError:
        origin.close()
        raise


def open_unknown(source: Any) -> Origin:
    """The raw rows of a source for its owner, who has no schema yet: nothing is checked and nothing is private."""
    if isinstance(source, str | Path) and not is_query(source):
        path = Path(source)
        return _open_file(path, None, None)
    if is_frame(source):
        names = source.column_names if hasattr(source, "column_names") else [str(name) for name in source.columns]
        return open_frame(source, names)
    if not is_relation(source) and not isinstance(source, str):
        raise SourceError(f"a {type(source).__name__} is no source of rows: pass a CSV or Parquet file")
    connection = Connection()
    with guarded(WHAT):
        relation = source if is_relation(source) else connection.cursor().sql(source)
        return Origin(connection, lambda columns: relation, {name: name for name in relation.columns})


def _open_file(path: Path, wanted: list[str] | None, memory_limit: str | None) -> Origin:
    name = path.name.casefold()
    if path.is_dir():
        raise SourceError(f'"{path.name}" is a folder: name a file in it, or all of them as in {path.name}/*.parquet')
    if not path.exists() and not any(mark in str(path) for mark in "*?["):
        raise SourceError(f'there is no file "{path.name}": check the path')
    if is_delimited(path):
        return open_unknown_csv(path) if wanted is None else open_delimited(path, wanted, memory_limit=memory_limit)
    if not name.endswith(PARQUET):
        endings = ", ".join((*SUFFIXES, *PARQUET))
        raise SourceError(f'"{path.name}" is no kind of file that is read here: name a file that ends in {endings}')
    return open_parquet(path, wanted, memory_limit=memory_limit)


__all__ = ["SourceError", "Table", "open_records", "open_table", "open_unknown"]
