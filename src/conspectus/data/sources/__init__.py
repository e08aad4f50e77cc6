"""Sources of rows: files, DuckDB relations, SQL, and tables in memory, all through one door."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conspectus.data.columns.kinds import Boolean, Categorical
from conspectus.data.columns.values import text_of
from conspectus.data.records.record import Record
from conspectus.data.schema import Schema, Unit
from conspectus.interrupts import attentive
from conspectus.server_address import is_server, name_of
from conspectus.whole_numbers import SEED, is_seed

from .delimited import SUFFIXES, is_delimited, open_delimited
from .delimited import open_unknown as open_unknown_csv
from .frames import is_frame, open_frame
from .many_files import is_many, open_many
from .origin import Connection, Origin, SourceError, guarded, kept
from .pairs import PairsTable, discovered
from .parquet import SUFFIXES as PARQUET
from .parquet import open_parquet
from .postgres.pages import open_postgres
from .record_tables import frame_records, open_records
from .spark.spark_table import SparkTable, is_spark
from .sql import WHAT, is_query, is_relation, open_query, open_relation
from .table import Table


@attentive()
def open_table(
    source: Any,
    schema: Schema | None,
    *,
    table: str | None = None,
    public_seed: int = 0,
    memory_limit: str | None = None,
) -> Table:
    """Open a source as the table that the schema declares. What the source is decides how it is read.

    Each row is read by itself: a value that the schema does not know takes a code, and never stops anything.

    Args:
        source: a path to a CSV (.csv, .tsv, also .gz) or Parquet file; a folder or a pattern of such files, hive
            partitions included, here or in an object store ("s3://…"); a SELECT over a file, a DuckDB relation, an
            Arrow table, a pandas or polars frame, a Spark frame,
            or the address of a PostgreSQL database with `table`. Where the unit
            of the schema is made of pairs, it holds the pairs.
        schema: the declaration of the table. With None the rows are records of any kind, as in `open_records`.
        table: of a database the name of the table, as in "visits" or "clinic.visits"; or a SELECT over one table that
            maps each row by itself. The option `?table=visits` of the address says the same. It is read from one
            snapshot, as long as it is open.
        public_seed: keys the rule that decides which rows of an id are kept.
        memory_limit: what DuckDB may hold before it spills to disk, as in "2GB".

    Returns:
        The table, for `cs.release` and `cs.open_session`.

    Raises:
        SourceError: the source cannot be read, lacks a column, or does not map each row by itself.

    Example:
        >>> import pyarrow as pa
        >>> rows = {"sex": ["female", "male"], "age": [31, 64], "smoker": [True, False], "diagnosis": ["none", "heart"]}
        >>> table = cs.open_table(pa.table(rows), schema)
        >>> cs.release(table, cs.marginals(schema, 1), epsilon=1.0, mechanism="laplace").answers.shape
        (12,)
    """
    if table is not None and not is_server(source):
        raise SourceError("table= names a table of a database, whose address is the source: postgresql://host/database")
    if schema is None:
        return open_records(source)
    if not isinstance(schema, Schema):
        raise SourceError("open_table needs a schema as its second argument: cs.Schema.load reads one from a file")
    _check_seed(public_seed)
    if is_spark(source):
        if schema.unit.kind == "pairs":
            raise SourceError("pairs are not read from a Spark frame: write it to Parquet and open that")
        return SparkTable(source, schema, public_seed=public_seed)
    if schema.unit.kind == "pairs":
        raw = _two_columns(str(schema.unit.column), str(schema.unit.item))
        what, origin = _origin(source, raw, memory_limit, table)
        with kept(origin):
            return PairsTable(origin, schema, what=what, public_seed=public_seed)
    what, origin = _origin(source, schema, memory_limit, table)
    with kept(origin):
        alone = len(schema.columns) == 1 and isinstance(schema.columns[0], Record) and schema.unit.kind == "row"
        beside = frame_records(source, [schema.columns[0].name], schema) if alone and is_frame(source) else None
        return Table(origin, schema, what=what, public_seed=public_seed, beside=beside)


@attentive()
def open_pairs(
    source: Any,
    user: str = "user",
    item: str = "item",
    *,
    users: int | None = None,
    items: Iterable[object] | None = None,
    name: str | None = None,
    public_seed: int = 0,
    memory_limit: str | None = None,
) -> PairsTable:
    """Open pairs of a user and an item as a table with one row for each user and a boolean column for each item.

    The unit of privacy is the user, with any number of pairs.

    Args:
        source: what `open_table` reads.
        user: the column that holds the user.
        item: the column that holds the item.
        users: how many users there are, those without a pair included. Else they are the users that appear.
        items: the items, which are then public. Else the list comes from the data and lies outside the guarantee,
            which every release says.
        name: what the table is called; by default as its file.
        public_seed: keys the rules that read the pairs.
        memory_limit: what DuckDB may hold before it spills to disk, as in "2GB".

    Returns:
        The table, with `.schema` holding one two-valued column for each item.

    Raises:
        SourceError: the source cannot be read, lacks a column, or names no item.
        SchemaError: the items or the number of users are not of their form.

    Example:
        >>> import pyarrow as pa
        >>> pairs = pa.table({"user": ["ada", "ada", "bob"], "item": ["tea", "jam", "tea"]})
        >>> cs.open_pairs(pairs, items=["tea", "jam", "milk"]).schema.domain.names
        ('tea', 'jam', 'milk')
    """
    _check_seed(public_seed)
    unit = Unit("pairs", user, item=item, users=users)
    what, origin = _origin(source, _two_columns(user, item), memory_limit)
    called = name or (Path(source).name.partition(".")[0] if isinstance(source, Path) else "pairs")
    with kept(origin):
        if items is not None:
            texts = [text for text in map(text_of, items) if text is not None]
            schema = Schema(called, tuple(map(Boolean, texts)), unit)
            return PairsTable(origin, schema, what=what, public_seed=public_seed)
        names, found, renumber = discovered(origin, [origin.column(user, what), origin.column(item, what)], what)
        if not names:
            raise SourceError(f"{what} names no item: list the items with items=")
        table = PairsTable(
            origin, Schema(called, tuple(map(Boolean, names)), unit, draft=True), what=what, public_seed=public_seed
        )
        table.hold(found, renumber)
        return table


def _check_seed(public_seed: object) -> None:
    if not is_seed(public_seed):
        raise SourceError(SEED)


def _two_columns(user: str, item: str) -> Schema:
    """How pairs are read: both columns as what they are, or as texts where they are no more."""
    return Schema("pairs", (Categorical(item, ("item",), other=True),), Unit("id", user))


def _origin(source: Any, schema: Schema, memory_limit: str | None, table: str | None = None) -> tuple[str, Origin]:
    """Where the rows of a source come from, and what to call it."""
    wanted = [column.name for column in schema.columns]
    if schema.unit.column is not None and schema.unit.column not in wanted:
        wanted.append(schema.unit.column)
    if is_server(source):
        return "the table of the database", open_postgres(source, table, schema, memory_limit=memory_limit)
    if isinstance(source, str) and is_query(source):
        return WHAT, open_query(source, schema, memory_limit=memory_limit)
    if is_relation(source):
        return "the DuckDB relation", open_relation(source, schema, memory_limit=memory_limit)
    if isinstance(source, str | Path):
        return f'"{name_of(source)}"', _open_file(source, wanted, memory_limit)
    if is_frame(source):
        records = [column.name for column in schema.columns if isinstance(column, Record)]
        if schema.unit.column in records:
            raise SourceError(f'column "{schema.unit.column}" is the id and a record: copy it into a second column')
        return "the table", open_frame(source, wanted, records=records, memory_limit=memory_limit)
    raise SourceError(
        f"a {type(source).__name__} is no source of rows: pass a CSV or Parquet file, a SELECT, a DuckDB relation, "
        "an Arrow table, or a pandas or polars frame"
    )


def open_unknown(source: Any) -> Origin:
    """The raw rows of a source for its owner, who has no schema yet: nothing is checked and nothing is private."""
    if is_server(source):
        return open_postgres(source, None, None)
    if isinstance(source, str | Path) and not is_query(source):
        return _open_file(source, None, None)
    if is_frame(source):
        names = source.column_names if hasattr(source, "column_names") else [str(name) for name in source.columns]
        return open_frame(source, names)
    if not is_relation(source) and not isinstance(source, str):
        raise SourceError(f"a {type(source).__name__} is no source of rows: pass a CSV or Parquet file")
    connection = Connection()
    with guarded(WHAT):
        relation = source if is_relation(source) else connection.cursor().sql(source)
        return Origin(connection, lambda columns: relation, {name: name for name in relation.columns})


def _open_file(source: str | Path, wanted: list[str] | None, memory_limit: str | None) -> Origin:
    if is_many(source):
        return open_many(source, wanted, memory_limit=memory_limit)
    path = Path(source).absolute()  # a pass may come after a chdir
    if not path.exists():
        raise SourceError(f'there is no file "{path.name}": check the path')
    if is_delimited(path):
        return open_unknown_csv(path) if wanted is None else open_delimited(path, wanted, memory_limit=memory_limit)
    if not path.name.casefold().endswith(PARQUET):
        endings = ", ".join((*SUFFIXES, *PARQUET))
        raise SourceError(f'"{path.name}" is no kind of file that is read here: name a file that ends in {endings}')
    return open_parquet(path, wanted, memory_limit=memory_limit)


__all__ = ["PairsTable", "SourceError", "Table", "open_pairs", "open_records", "open_table", "open_unknown"]
