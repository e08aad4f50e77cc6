"""Tables in memory: Arrow, pandas, polars. A frame is taken as it is: it is the table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from conspectus.data.columns.arrays import mended, tidied, tidy
from conspectus.data.columns.values import text_of
from conspectus.data.records.fingerprints import FINGERPRINTS, fingerprints
from conspectus.interrupts import pressed

from .origin import Connection, Origin, SourceError

_ROWS = 1 << 16


def is_frame(source: object) -> bool:
    """Whether an object is a table in memory."""
    if isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    return _library(source) in ("pandas", "polars") and type(source).__name__ in ("DataFrame", "LazyFrame")


def open_frame(
    source: Any, wanted: Collection[str], *, records: Collection[str] = (), memory_limit: str | None = None
) -> Origin:
    """A table in memory, of which the wanted columns are kept; those that hold `records` as fingerprints."""
    if isinstance(source, pa.RecordBatchReader):
        raise SourceError("a RecordBatchReader can be read only once: pass reader.read_all(), or a Parquet file")
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if _library(source) == "pandas":
        names, table = _from_pandas(source, wanted, records)
    elif _library(source) == "polars":
        names, table = _from_polars(source, wanted, records)
    else:
        names, table = source.column_names, _pick(source, source.column_names, wanted)
        for name in set(records) & set(names):
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.array(fingerprints(table.column(name))))
    connection = Connection(memory_limit=memory_limit)
    held = table.column_names
    places = {name: f"c{held.index(name) if name in held else 0}" for name in names}

    def relation(columns: Collection[str]) -> Any:
        positions = [position for position in range(len(held)) if f"c{position}" in columns] or [0]
        return connection.cursor().from_arrow(_reader(table, positions))

    fingerprinted = frozenset(places[name] for name in names if name in records)
    return Origin(connection, relation, places, fingerprinted=fingerprinted, rows=table.num_rows)


def _reader(table: pa.Table, positions: list[int]) -> pa.RecordBatchReader:
    """One pass over some columns in the types that are read here, whatever values they hold."""
    kind = pa.schema([(f"c{position}", tidied(table.schema.field(position).type)) for position in positions])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=_ROWS):
            yield pa.RecordBatch.from_arrays([tidy(batch.column(position)) for position in positions], schema=kind)

    return pa.RecordBatchReader.from_batches(kind, batches())


def _library(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _pick(table: Any, names: list[str], wanted: Collection[str]) -> Any:
    _check_twins(names, wanted)
    return table.select([name for name in names if name in wanted] or names[:1])


def _check_twins(names: list[str], wanted: Collection[str]) -> None:
    if twice := next((name for name in wanted if names.count(name) > 1), None):
        raise SourceError(f'the table has two columns "{twice}": rename one of them')


def _from_pandas(frame: Any, wanted: Collection[str], records: Collection[str]) -> tuple[list[str], pa.Table]:
    names = [str(name) for name in frame.columns]
    _check_twins(names, wanted)
    columns = {}
    for position, name in enumerate(names):
        if name in wanted or (position == 0 and not set(names) & set(wanted)):
            series = frame.iloc[:, position]
            columns[name] = pa.array(FINGERPRINTS.of_series(series)) if name in records else _from_series(series)
    return names, pa.table(columns)


def _from_series(series: Any) -> pa.Array:
    if series.dtype != object:
        try:
            found = pa.array(series, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
            pass  # Arrow does not know the type, or one of the values: read each one as text, like objects
        else:
            if not isinstance(found.type, pa.BaseExtensionType):
                return found
    # The type of an object column would be guessed from its rows: read each value by itself instead.
    return pa.array([_text(value) for value in series], pa.large_string())


def _text(value: object) -> str | None:
    """One object as text, None where it has none; ids that are no text stay different from one another."""
    try:
        if isinstance(value, str | bytes):
            return mended(value)
        if _library(value) == "pandas" and type(value).__name__ in ("NAType", "NaTType"):
            return None
        return text_of(value)
    except BaseException as problem:  # objects run code of their own: one that fails or exits must not show elsewhere
        if isinstance(problem, KeyboardInterrupt) and pressed():
            raise KeyboardInterrupt from None  # whoever runs this may stop it
        return None


def _from_polars(frame: Any, wanted: Collection[str], records: Collection[str]) -> tuple[list[str], pa.Table]:
    names = list(frame.collect_schema().names())
    frame = _pick(frame, names, wanted)
    frame = frame.collect() if hasattr(frame, "collect") else frame
    columns = {
        series.name: pa.array(FINGERPRINTS.of_series(series)) if series.name in records else series.to_arrow()
        for series in frame.get_columns()
    }
    return names, pa.table(columns)
