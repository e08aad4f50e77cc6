"""Tables in memory: Arrow, pandas, polars. A frame is taken as it is: it is the table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from conspectus.data.columns.arrays import TEXT, marked, mended, tidied, tidy
from conspectus.data.columns.values import spelled
from conspectus.data.records.canonical_form import CANONICAL, canonical
from conspectus.data.records.fingerprints import FINGERPRINTS, fingerprints
from conspectus.data.records.record_reading import is_odd

from .origin import Connection, Origin, SourceError, guarded

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
    with guarded("the table"):
        names, table = _held(source, wanted, records)
    connection = Connection(memory_limit=memory_limit)
    held = table.column_names
    places = {name: f"c{held.index(name) if name in held else 0}" for name in names}

    def relation(columns: Collection[str]) -> Any:
        positions = [position for position in range(len(held)) if f"c{position}" in columns] or [0]
        kind = pa.schema([(f"c{position}", _tidied(table.schema.field(position).type)) for position in positions])
        batches = (pa.RecordBatch.from_arrays(found, schema=kind) for found in _arrays(table, positions, _ROWS))
        return connection.cursor().from_arrow(pa.RecordBatchReader.from_batches(kind, batches))

    def batches(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        positions = [int(column.removeprefix("c")) for column in columns]
        if not positions:
            sizes = [min(rows, len(table) - start) for start in range(0, len(table), rows)]
            return (pa.RecordBatch.from_arrays([pa.nulls(size)], names=["c"]) for size in sizes)
        names = [f"c{position}" for position in positions]
        return (pa.RecordBatch.from_arrays(found, names=names) for found in _arrays(table, positions, rows))

    fingerprinted = frozenset(places[name] for name in names if name in records)
    return Origin(connection, relation, places, fingerprinted=fingerprinted, batches=batches)


def _held(source: Any, wanted: Collection[str], records: Collection[str]) -> tuple[list[str], pa.Table]:
    """The names of a frame, and its wanted columns."""
    if _library(source) == "pandas":
        return _from_pandas(source, wanted, records)
    if _library(source) == "polars":
        return _from_polars(source, wanted, records)
    table = _pick(source, source.column_names, wanted)
    for name in set(records) & set(source.column_names):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(fingerprints(table.column(name))))
    return source.column_names, table


def _arrays(table: pa.Table, positions: Sequence[int], rows: int) -> Iterator[list[pa.Array]]:
    """One pass over some columns in the types that are read here, whatever values they hold."""
    chosen = table.select(sorted(set(positions)))
    for batch in chosen.to_batches(max_chunksize=rows):
        found = dict(zip(sorted(set(positions)), map(_tidy, batch.columns)))
        yield [found[position] for position in positions]


def _tidy(values: pa.Array) -> pa.Array:
    """Values in the types that are read here. A list, say, is an unreadable text, and like no other list."""
    if pa.types.is_nested(values.type):
        return pa.array([_digest(form) for form in CANONICAL.of(values)], TEXT)
    return tidy(values)


def _tidied(kind: pa.DataType) -> pa.DataType:
    return TEXT if pa.types.is_nested(kind) else tidied(kind)


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
    if type(series.dtype).__name__ == "CategoricalDtype":
        codes = series.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _objects(series.cat.categories))
    if series.dtype != object:
        try:
            found = pa.array(series, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
            pass  # Arrow does not know the type, or one of the values: read each one as text, like objects
        else:
            if not isinstance(found.type, pa.BaseExtensionType) and not pa.types.is_nested(found.type):
                return found
    # The type of an object column would be guessed from its rows: read each value by itself instead.
    return _objects(series)


def _objects(values: Iterable[object]) -> pa.Array:
    return pa.array([_text(value) for value in values], TEXT)


def _text(value: object) -> str | None:
    """One object as text, None where it has none; ids that are no text stay different from one another."""
    try:
        if isinstance(value, str | bytes | bytearray | memoryview):
            return mended(value if isinstance(value, str) else bytes(value))
        if type(value).__name__ in ("NAType", "NaTType"):
            return None
        text = spelled(value)
        return _digest(canonical(value)) if text is None else text
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None  # whoever runs this may stop it
    except BaseException:  # objects run code of their own, and one that fails or exits must not show in any other row
        return None


def _digest(form: bytes) -> str | None:
    """The unreadable text of a value that no column reads, by its canonical form."""
    return None if form == CANONICAL.missing else marked(hashlib.sha256(form).hexdigest())


def _from_polars(frame: Any, wanted: Collection[str], records: Collection[str]) -> tuple[list[str], pa.Table]:
    names = list(frame.collect_schema().names())
    frame = _pick(frame, names, wanted)
    frame = frame.collect() if hasattr(frame, "collect") else frame
    columns = {
        series.name: pa.array(FINGERPRINTS.of_series(series)) if series.name in records else _of_polars(series)
        for series in frame.get_columns()
    }
    return names, pa.table(columns)


def _of_polars(series: Any) -> pa.Array:
    """A column of polars; objects and long integers one by one, for Arrow has addresses in memory for them, or none."""
    return _objects(series.to_list()) if is_odd(series.dtype) else series.to_arrow()
