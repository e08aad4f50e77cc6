"""Tables in memory: Arrow, pandas, polars. A frame is taken as it is: it is the table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from conspectus.data.columns.arrays import TEXT, marked, mended, tidied, tidy
from conspectus.data.columns.values import spelled
from conspectus.data.records.canonical_form import CANONICAL, canonical
from conspectus.data.records.fingerprints import FINGERPRINTS, fingerprints
from conspectus.data.records.record_encoding import is_odd
from conspectus.interrupts import pressed

from .origin import Connection, Origin, SourceError, guarded

_ROWS = 1 << 16
_NOT_COMPUTED = "the lazy frame cannot be computed: collect it first, and pass what comes of it"


def is_frame(source: object) -> bool:
    """Whether an object is a table in memory."""
    if isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    return _library(source) in ("pandas", "polars") and type(source).__name__ in ("DataFrame", "LazyFrame")


def one_table(source: Any) -> Any:
    """A frame that can be read again; a batch of Arrow is a table."""
    if isinstance(source, pa.RecordBatchReader):
        raise SourceError("a RecordBatchReader can be read only once: pass reader.read_all(), or a Parquet file")
    return pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source


def collected(frame: Any) -> Any:
    """A frame of polars that is computed. Where that fails, the message of polars would quote a value."""
    try:
        return frame.collect() if hasattr(frame, "collect") else frame
    except Exception:
        raise SourceError(_NOT_COMPUTED) from None


def open_frame(
    source: Any, wanted: Collection[str], *, records: Collection[str] = (), memory_limit: str | None = None
) -> Origin:
    """A table in memory, of which the wanted columns are kept; those that hold `records` as fingerprints."""
    source = one_table(source)
    with guarded("the table"):
        names, columns = _held(source, wanted, records)
    table = pa.table({name: column.values for name, column in columns.items()})
    connection = Connection(memory_limit=memory_limit)
    held = list(columns)
    places = {name: f"c{held.index(name) if name in held else 0}" for name in names}

    def arrays(positions: Sequence[int], rows: int) -> Iterator[list[pa.Array]]:
        """One pass over some columns in the types that are read here, whatever values they hold."""
        apart = sorted(set(positions))
        for batch in table.select(apart).to_batches(max_chunksize=rows):
            found = {}
            for at, values in zip(apart, batch.columns):
                found[at] = tidy(values, mended=columns[held[at]].mended, other=_others)
            yield [found[position] for position in positions]

    def relation(wanted: Collection[str]) -> Any:
        positions = [position for position in range(len(held)) if f"c{position}" in wanted] or [0]
        kind = pa.schema([(f"c{position}", tidied(table.schema.field(position).type)) for position in positions])
        batches = (pa.RecordBatch.from_arrays(found, schema=kind) for found in arrays(positions, _ROWS))
        return connection.cursor().from_arrow(pa.RecordBatchReader.from_batches(kind, batches))

    def batches(wanted: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        positions = [int(name.removeprefix("c")) for name in wanted]
        if not positions:
            sizes = [min(rows, len(table) - start) for start in range(0, len(table), rows)]
            return (pa.RecordBatch.from_arrays([pa.nulls(size)], names=["c"]) for size in sizes)
        return (pa.RecordBatch.from_arrays(found, names=list(wanted)) for found in arrays(positions, rows))

    fingerprinted = frozenset(places[name] for name in names if name in records)
    return Origin(connection, relation, places, fingerprinted=fingerprinted, rows=table.num_rows, batches=batches)


@dataclass(frozen=True)
class _Held:
    """A column in memory; `mended` says that its texts have been, as those of objects are: once is enough."""

    values: pa.Array | pa.ChunkedArray
    mended: bool = False


def _held(source: Any, wanted: Collection[str], records: Collection[str]) -> tuple[list[str], dict[str, _Held]]:
    """The names of a frame, and its wanted columns; those of records as fingerprints."""
    library = _library(source)
    names = _names(source)
    if twice := next((name for name in wanted if names.count(name) > 1), None):
        raise SourceError(f'the table has two columns "{twice}": rename one of them')
    chosen = [place for place, name in enumerate(names) if name in wanted] or [0][: len(names)]
    if library == "polars":
        held = collected(source.select([names[place] for place in chosen])).get_columns()
    else:
        held = [source.iloc[:, place] if library == "pandas" else source.column(place) for place in chosen]
    columns = {}
    for place, column in zip(chosen, held):
        if names[place] in records:
            values = fingerprints(column) if library == "pyarrow" else FINGERPRINTS.of_series(column)
            columns[names[place]] = _Held(pa.array(values))
        elif library == "pandas":
            columns[names[place]] = _of_pandas(column)
        else:
            columns[names[place]] = _of_polars(column) if library == "polars" else _Held(column)
    return names, columns


def _names(source: Any) -> list[str]:
    if _library(source) == "pandas":
        return [str(name) for name in source.columns]
    if _library(source) != "polars":
        return list(source.column_names)
    try:
        return list(source.collect_schema().names())
    except Exception:
        raise SourceError(_NOT_COMPUTED) from None


def _others(values: pa.Array) -> pa.Array:
    """Lists and the like as texts: each is unreadable, and like no other one. A union is the values that it holds."""
    if pa.types.is_union(values.type):
        return _objects(_python(value) for value in values)
    return pa.array([_digest(form) for form in CANONICAL.of(values)], TEXT)


def _python(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except Exception:  # dates that Python does not have, bytes that are no text
        return None


def _library(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _of_pandas(series: Any) -> _Held:
    if type(series.dtype).__name__ == "CategoricalDtype":
        codes, known = series.cat.codes.to_numpy(), _objects(series.cat.categories)
        return _Held(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), known), mended=True)
    if series.dtype != object:
        try:
            found = pa.array(series, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
            pass  # Arrow does not know the type, or one of the values: read each one as text, like objects
        else:
            if not isinstance(found.type, pa.BaseExtensionType) and not pa.types.is_nested(found.type):
                return _Held(found)
    # The type of an object column would be guessed from its rows: read each value by itself instead.
    return _Held(_objects(series), mended=True)


def _of_polars(series: Any) -> _Held:
    """A column of polars; objects and long integers one by one, for Arrow has addresses in memory for them, or none."""
    odd = is_odd(series.dtype)
    return _Held(_objects(series.to_list()) if odd else series.to_arrow(), mended=odd)


def _objects(values: Iterable[object]) -> pa.Array:
    return pa.array([_text(value) for value in values], TEXT)


def _text(value: object) -> str | None:
    """One object as text, None where it has none; ids that are no text stay different from one another."""
    try:
        if isinstance(value, str | bytes | bytearray | memoryview):
            return mended(str.__str__(value) if isinstance(value, str) else bytes(memoryview(value)))
        if type(value).__name__ in ("NAType", "NaTType"):
            return None
        text = spelled(value)
        return _digest(canonical(value)) if text is None else text
    except BaseException as problem:  # objects run code of their own: one that fails or exits must not show elsewhere
        if isinstance(problem, KeyboardInterrupt) and pressed():
            raise KeyboardInterrupt from None  # whoever runs this may stop it
        return None


def _digest(form: bytes) -> str | None:
    """The unreadable text of a value that no column reads, by its canonical form."""
    return None if form == CANONICAL.missing else marked(hashlib.sha256(form).hexdigest())
