"""Tables in memory: Arrow, pandas, polars. A frame is taken as it is: it is the table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from conspectus.data.sources.origin import Origin, SourceError, connect
from conspectus.data.values import text_of


def is_frame(source: object) -> bool:
    """Whether an object is a table in memory."""
    if isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    return _library(source) in ("pandas", "polars") and type(source).__name__ in ("DataFrame", "LazyFrame")


def open_frame(source: Any, wanted: Collection[str], *, memory_limit: str | None = None) -> Origin:
    """A table in memory, of which the wanted columns are kept."""
    if isinstance(source, pa.RecordBatchReader):
        raise SourceError("a RecordBatchReader can be read only once: pass reader.read_all(), or a Parquet file")
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    library = _library(source)
    if library == "pandas":
        names, table = _from_pandas(source, wanted)
    elif library == "polars":
        names, table = _from_polars(source, wanted)
    else:
        names, table = source.column_names, _pick(source, source.column_names, wanted)
    connection, close = connect(memory_limit=memory_limit)
    return Origin(lambda columns: connection.cursor().from_arrow(table), {name: name for name in names}, close=close)


def _library(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _pick(table: Any, names: list[str], wanted: Collection[str]) -> Any:
    _check_twins(names, wanted)
    return table.select([name for name in names if name in wanted] or names[:1])


def _check_twins(names: list[str], wanted: Collection[str]) -> None:
    if twice := next((name for name in wanted if names.count(name) > 1), None):
        raise SourceError(f'the table has two columns "{twice}": rename one of them')


def _from_pandas(frame: Any, wanted: Collection[str]) -> tuple[list[str], pa.Table]:
    names = [str(name) for name in frame.columns]
    _check_twins(names, wanted)
    columns = {}
    for position, name in enumerate(names):
        if name in wanted or (position == 0 and not set(names) & set(wanted)):
            columns[name] = _from_series(frame.iloc[:, position])
    return names, pa.table(columns)


def _from_series(series: Any) -> pa.Array:
    if series.dtype != object:
        try:
            return pa.array(series, from_pandas=True)
        except pa.ArrowException:
            pass  # a type of pandas that Arrow does not know: read its values as texts, like objects
    # The type of an object column would be guessed from its rows: read each value by itself instead.
    absent = series.isna()
    return pa.array([None if gone else text_of(value) for value, gone in zip(series, absent)], pa.large_string())


def _from_polars(frame: Any, wanted: Collection[str]) -> tuple[list[str], pa.Table]:
    names = list(frame.collect_schema().names())
    frame = _pick(frame, names, wanted)
    return names, (frame.collect() if hasattr(frame, "collect") else frame).to_arrow()
