"""A table of records of any kind, without a schema: one column or several, each row one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from conspectus.data.domain import RECORDS, Chunk
from conspectus.data.records.canonical_form import CANONICAL, shortened_forms
from conspectus.data.records.fingerprints import FINGERPRINTS
from conspectus.data.records.record import Record
from conspectus.data.records.record_encoding import Encoded, RecordEncoding
from conspectus.data.schema import Schema, Unit
from conspectus.interrupts import attentive
from conspectus.suggestions import suggest_keywords

from .delimited import is_delimited, open_unknown, unknown_names
from .frames import collected, is_frame, one_table
from .origin import SourceError, guarded
from .parquet import SUFFIXES, check_twins, read_footer
from .sql import is_relation
from .table import Table

_ROWS = 1 << 16

Batch = tuple[int, Callable[[RecordEncoding], Encoded]]
"""A number of rows, and what they are written as."""

Part = Callable[[slice, RecordEncoding], Encoded]
"""What some values of a column in memory are written as."""


@suggest_keywords
class RecordTable(Table):
    """Rows as fingerprints of records, mapped one by one; the unit of privacy is the row, and no row is left out."""

    def __init__(
        self,
        batches: Callable[[], Iterator[Batch]],
        schema: Schema,
        *,
        what: str,
        rows: int | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.schema = schema
        self._batches = batches
        self._what = what
        self._rows = rows
        self._close = close

    @property
    def filtered(self) -> bool:
        return False

    @property
    def known_rows(self) -> int | None:
        return self._rows

    def chunks(self, columns: Sequence[int] | None = None, rows: int = 1 << 17) -> Iterator[Chunk]:
        """One pass over the rows, at most `rows` at a time; without the column they are only counted."""
        for chunk in self._stream((0,) if columns is None else columns, records=False):
            codes = chunk.columns[0]
            for start in range(0, chunk.rows, rows):
                here = min(rows, chunk.rows - start)
                yield Chunk((None if codes is None else codes[start : start + here],), here)

    def _stream(self, columns: Sequence[int], *, records: bool) -> Iterator[Chunk]:
        batches = self._batches()
        while True:
            with guarded(self._what):
                size, written = next(batches, (0, None))
                codes = written(FINGERPRINTS) if written is not None and 0 in columns else None
                forms = shortened_forms(written(CANONICAL)) if written is not None and records else None
            if written is None:
                return
            yield Chunk((codes,), size, forms)

    @property
    def reads_records(self) -> bool:
        return True

    def raw(self, columns: Sequence[int], rows: int = 1 << 17) -> Iterator[pa.RecordBatch]:
        raise SourceError("records have no schema to check them against: nothing of them is clamped or recoded")

    def tally(self) -> None:
        return None

    def close(self) -> None:
        """Let go of the source."""
        if self._close is not None:
            self._close()


@attentive()
def open_records(source: Any, columns: str | Sequence[str] | None = None, *, neighbours: str | None = None) -> Table:
    """Open a source as records of any kind: an unbounded universe, unit = row, no schema.

    A record of several columns is a tuple. Fields of a CSV file are texts.

    Guarantee: every row is mapped to its fingerprint alone, so neighbouring sources are neighbouring tables.

    Args:
        source: a path to a CSV or Parquet file, an Arrow table, a pandas or polars frame; an array, a series, or a list
            of values.
        columns: of a file or frame the column, or the columns whose values together are a record; all by default.
        neighbours: "replace" or "add-remove", the relation that releases take by default.

    Returns:
        The table, for `cs.release` with `cs.sparse` questions, or with `mechanism="stable-histogram"`.

    Raises:
        SourceError: the source cannot be read, or is no list of records.

    Example:
        >>> cs.open_records(["10.0.0.1", "10.0.0.2", "10.0.0.1"]).schema.name
        'records'
    """
    schema = Schema("records", (Record(RECORDS.names[0]),), Unit(), neighbours)  # type: ignore[arg-type]
    wanted = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
    if isinstance(source, str | Path):
        return _from_file(Path(source).absolute(), wanted, schema)
    if is_frame(source):
        return frame_records(source, wanted, schema)
    if is_relation(source):
        raise SourceError("a DuckDB relation needs a schema: open_table reads it, or pass its to_arrow_table()")
    if wanted is not None:
        raise SourceError("columns are named for a file or a frame: a list of records has none")
    if isinstance(source, np.ndarray) and source.ndim == 2:
        depth = int(source.shape[1] != 1)
        return _in_memory([_part(column, depth) for column in source.T], len(source), schema)
    if isinstance(source, bytes | dict | set | frozenset) or not hasattr(source, "__len__"):
        raise SourceError(
            f"a {type(source).__name__} is no list of records: pass a list, an array, a frame, or a CSV or Parquet file"
        )
    return _in_memory([_part(source)], len(source), schema)


def _in_memory(parts: Sequence[Part], rows: int, schema: Schema) -> Table:
    def batch(start: int) -> Batch:
        here = slice(start, min(start + _ROWS, rows))
        return here.stop - start, lambda encoding: _records([part(here, encoding) for part in parts], encoding)

    return RecordTable(lambda: map(batch, range(0, rows, _ROWS)), schema, what="the records", rows=rows)


def _part(values: Any, depth: int = 0) -> Part:
    """A column in memory: Arrow and numpy arrays are read again in each pass, other values are fingerprinted once."""
    if isinstance(values, pa.Array | pa.ChunkedArray) or (isinstance(values, np.ndarray) and values.dtype != object):
        return lambda here, encoding: encoding.of(values[here], depth)
    series = _is_series(values)
    held = values if series else values.tolist() if hasattr(values, "tolist") else list(values)

    @cache
    def done() -> Encoded:
        return FINGERPRINTS.of_series(held, depth) if series else FINGERPRINTS.of(held, depth)

    def part(here: slice, encoding: RecordEncoding) -> Encoded:
        if encoding is FINGERPRINTS:
            return done()[here]
        if not series:
            return encoding.of(held[here], depth)
        return encoding.of_series(held.iloc[here] if hasattr(held, "iloc") else held[here], depth)

    return part


def _is_series(source: object) -> bool:
    return type(source).__name__ == "Series" and hasattr(source, "to_numpy")


def _records(columns: Sequence[Encoded], encoding: RecordEncoding) -> Encoded:
    """Each row as one record: its value, or the tuple of its values, which were read at depth 1."""
    return columns[0] if len(columns) == 1 else encoding.tuples(columns, len(columns[0]), 0)


def frame_records(source: Any, wanted: list[str] | None, schema: Schema) -> Table:
    """The rows of a frame as records of some of its columns."""
    source = collected(one_table(source))
    names = source.column_names if isinstance(source, pa.Table) else [str(name) for name in source.columns]
    chosen = _chosen(names, wanted, "the table")
    if isinstance(source, pa.Table):
        held: list[Any] = [source.column(place) for place in chosen]
    elif hasattr(source, "get_columns"):
        held = [source.get_columns()[place] for place in chosen]
    else:
        held = [source.iloc[:, place] for place in chosen]
    depth = int(len(held) > 1)
    return _in_memory([_part(column, depth) for column in held], len(source), schema)


def _from_file(path: Path, wanted: list[str] | None, schema: Schema) -> Table:
    what = f'"{path.name}"'
    if not path.is_file():
        raise SourceError(f"there is no file {what}: check the path")
    if is_delimited(path):
        return _from_csv(path, wanted, schema)
    if not path.name.casefold().endswith(SUFFIXES):
        raise SourceError(f"{what} is no kind of file that is read here: name a CSV or Parquet file")
    footer = read_footer(path, what)
    places = _chosen(list(footer.names), wanted, what)
    names = [footer.names[place] for place in places]

    def batches() -> Iterator[Batch]:
        try:
            with closing(pq.ParquetFile(path, pre_buffer=False, coerce_int96_timestamp_unit="us")) as file:
                for batch in file.iter_batches(_ROWS, columns=names):
                    yield _batch([batch.column(name) for name in names])
        except OSError:
            raise pa.ArrowInvalid("damaged") from None

    return RecordTable(batches, schema, what=what, rows=footer.rows)


def _batch(columns: Sequence[pa.Array], *, mended: bool = False) -> Batch:
    depth = int(len(columns) > 1)

    def records(encoding: RecordEncoding) -> Encoded:
        return _records([encoding.of(column, depth, mended=mended) for column in columns], encoding)

    return len(columns[0]), records


def _from_csv(path: Path, wanted: list[str] | None, schema: Schema) -> Table:
    what = f'"{path.name}"'
    names = unknown_names(path)
    if wanted is None and len(set(names)) < len(names):
        # Which name is not said: the first line of a CSV file without a header would be somebody's record.
        raise SourceError(f"{what} has two columns of one name: rename one of them, or name the columns to read")
    places = _chosen(names, wanted, what)
    origin = open_unknown(path)
    held = [origin.names[names[place]] for place in places]

    def batches() -> Iterator[Batch]:
        relation = origin.relation(held)
        with closing(relation.to_arrow_reader(_ROWS)) as reader:
            for batch in reader:
                yield _batch([batch.column(name) for name in held], mended=True)

    return RecordTable(batches, schema, what=what, close=origin.close)


def _chosen(names: list[str], wanted: list[str] | None, what: str) -> list[int]:
    """Where the columns of a record stand."""
    asked = names if wanted is None else wanted
    check_twins(names, asked, what)
    if not asked:
        raise SourceError(f"{what} has no column: a record needs at least one")
    for name in asked:
        if name not in names:
            # The names are not listed: the first line of a CSV file without a header would be somebody's record.
            raise SourceError(f'{what} has no column "{name}": check the name')
    return [names.index(name) for name in asked]
