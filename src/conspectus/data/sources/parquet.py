"""A Parquet file, read so that no value stops a pass.

DuckDB refuses a whole file for one text that is no UTF-8. So Arrow reads the pages, each value is made readable or
unreadable by itself, and DuckDB takes over from there. The names and types of the columns come from the footer; lists
and the like read as missing. A writer may have guessed a type from the values, so nothing hangs on it: a value means
the same in every type that can hold it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from conspectus.data.columns.arrays import tidied, tidy

from .batches import cut
from .delimited import ahead
from .origin import Connection, Origin, SourceError, guarded

SUFFIXES = (".parquet", ".pq")
_ROWS = 1 << 16


@dataclass(frozen=True)
class Parquet:
    """A Parquet file whose footer has been read; it lies at a path, or in an object store."""

    path: Any
    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    rows: int

    def reader(self, positions: Sequence[int] | None = None) -> pa.RecordBatchReader:
        """One pass over the columns at some positions, or over all, in the types that are read here, named c0, c1, …"""
        places = range(len(self.names)) if positions is None else positions
        kind = pa.schema([(f"c{position}", tidied(self.kinds[position])) for position in places])
        return pa.RecordBatchReader.from_batches(kind, ahead(self._batches(places, kind)))

    def _batches(self, places: Sequence[int], kind: pa.Schema) -> Iterator[pa.RecordBatch]:
        # Of two columns of one name none is read: nobody could say which one is meant.
        once = [place for place in places if self.names.count(self.names[place]) == 1]
        read = [self.names[place] for place in once if not pa.types.is_nested(self.kinds[place])]
        try:
            with closing(_open(self.path)) as file:
                for batch in file.iter_batches(_ROWS, columns=read):
                    held = {name: place for place, name in enumerate(batch.schema.names)}
                    yield pa.RecordBatch.from_arrays(
                        [
                            tidy(batch.column(held[self.names[place]]))
                            if self.names[place] in read
                            else pa.nulls(batch.num_rows, kind.field(at).type)
                            for at, place in enumerate(places)
                        ],
                        schema=kind,
                    )
        except OSError:
            raise pa.ArrowInvalid("damaged") from None


def read_footer(file: Any, what: str) -> Parquet:
    """A file at a path or in an object store, by its footer; `what` is how messages call it."""
    with guarded(what):
        try:
            with closing(_open(file)) as opened:
                schema, rows = opened.schema_arrow, int(opened.metadata.num_rows)
        except OSError:
            raise pa.ArrowInvalid("damaged") from None
    return Parquet(file, tuple(schema.names), tuple(schema.types), rows)


def open_parquet(path: Path, wanted: Collection[str] | None, *, memory_limit: str | None = None) -> Origin:
    """A Parquet file that lies here."""
    what = f'"{path.name}"'
    file = read_footer(path, what)
    check_twins(file.names, wanted or file.names, what)
    connection = Connection(memory_limit=memory_limit)
    names = {name: f"c{position}" for position, name in enumerate(file.names)}

    def relation(columns: Collection[str]) -> Any:
        positions = [position for position in range(len(file.names)) if f"c{position}" in columns]
        return connection.cursor().from_arrow(file.reader(positions or [0]))

    def batches(columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        positions = [int(column.removeprefix("c")) for column in columns]
        for batch in file.reader(sorted(set(positions)) or [0]):
            held = [batch.column(f"c{position}") for position in positions] or [pa.nulls(batch.num_rows)]
            names = [f"c{position}" for position in positions] or ["c"]
            yield from cut(pa.RecordBatch.from_arrays(held, names=names), rows)

    return Origin(connection, relation, names, rows=file.rows, batches=batches)


def check_twins(names: Sequence[str], wanted: Collection[str], what: str) -> None:
    """Refuse two columns of one wanted name."""
    if twice := next((name for name in wanted if list(names).count(name) > 1), None):
        raise SourceError(f'{what} has two columns "{twice}": rename one of them')


def _open(file: Any) -> pq.ParquetFile:
    # Old files count nanoseconds, which end in the year 2262. Arrow knows no name that is no UTF-8.
    place = file if isinstance(file, Path) and _encodes(str(file)) else file.open("rb")
    return pq.ParquetFile(place, pre_buffer=False, buffer_size=1 << 20, coerce_int96_timestamp_unit="us")


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
