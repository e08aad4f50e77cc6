"""Parquet files, read so that no value stops a pass.

DuckDB refuses a whole file for one text that is no UTF-8. So Arrow reads the pages, each value is made readable or
unreadable by itself, and DuckDB takes over from there. The names and types of the columns come from the footer of the
first file, which is public; lists and the like read as missing.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from conspectus.data.columns.arrays import TEXT, tidied, tidy

from .batches import cut
from .delimited import ahead
from .origin import Connection, Origin, SourceError, guarded

SUFFIXES = (".parquet", ".pq")
_ROWS = 1 << 16
_MARKS = "*?["


@dataclass(frozen=True)
class Parquet:
    """One or more Parquet files with the same columns, whose footers have been read."""

    paths: tuple[Any, ...]
    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    rows: int

    def reader(self, positions: Sequence[int] | None = None) -> pa.RecordBatchReader:
        """One pass over the columns at some positions, or over all, in the types that are read here, named c0, c1, …"""
        places = range(len(self.names)) if positions is None else positions
        kind = pa.schema([(f"c{position}", tidied(self.kinds[position])) for position in places])
        return pa.RecordBatchReader.from_batches(kind, ahead(self._batches(places, kind)))

    def _batches(self, places: Sequence[int], kind: pa.Schema) -> Iterator[pa.RecordBatch]:
        read = [self.names[place] for place in places if not pa.types.is_nested(self.kinds[place])]
        try:
            for path in self.paths:
                with closing(_open(path)) as file:
                    for batch in file.iter_batches(_ROWS, columns=read or None):
                        held = {name: place for place, name in enumerate(batch.schema.names)}
                        yield pa.RecordBatch.from_arrays(
                            [
                                tidy(batch.column(held[self.names[place]]))
                                if self.names[place] in read
                                else pa.nulls(batch.num_rows, TEXT)
                                for place in places
                            ],
                            schema=kind,
                        )
        except OSError:
            raise pa.ArrowInvalid("damaged") from None


def read_footer(path: Path) -> Parquet:
    """The file of a path, or all files that it matches where it holds *, ? or [."""
    what = f'"{path.name}"'
    paths = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not paths:
        raise SourceError(f"there is no file {what}: check the path")
    return read_footers(paths, what)


def read_footers(paths: Sequence[Any], what: str) -> Parquet:
    """Some files with the same columns, here or in an object store."""
    with guarded(what):
        try:
            footers = [_footer(each) for each in paths]
        except OSError:
            raise pa.ArrowInvalid("damaged") from None
    first = footers[0][0]
    forms = [{field.name: tidied(field.type) for field in schema} for schema, _ in footers]
    if any(form != forms[0] for form in forms):
        raise SourceError(f"the files {what} differ in their columns or types: write them alike, or name one of them")
    return Parquet(tuple(paths), tuple(first.names), tuple(first.types), sum(rows for _, rows in footers))


def open_parquet(path: Path, wanted: Collection[str] | None, *, memory_limit: str | None = None) -> Origin:
    """A Parquet file, or several with the same columns."""
    file = read_footer(path)
    check_twins(file.names, wanted or file.names, f'"{path.name}"')
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
    # Old files count nanoseconds, which end in the year 2262.
    place = file if isinstance(file, Path) else file.open()
    return pq.ParquetFile(place, pre_buffer=False, buffer_size=1 << 20, coerce_int96_timestamp_unit="us")


def _footer(path: Any) -> tuple[pa.Schema, int]:
    with closing(_open(path)) as file:
        return file.schema_arrow, int(file.metadata.num_rows)
