"""What runs inside Spark's executors: rows to codes, codes to the vectors of a fold. No noise is drawn here.

A task may run twice, and all that it returns is a line for its partition, so that whoever adds the lines up sees which
are there. What fails here must not be raised: Spark would write it into logs, values and all. So a failure is a line,
too, without a word about it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from conspectus.data.columns.arrays import tidy
from conspectus.data.domain import Chunk, code_dtype
from conspectus.data.fold import Fold
from conspectus.data.schema import Schema
from conspectus.data.sources.many_files import ObjectFile
from conspectus.data.sources.origin import Connection
from conspectus.data.sources.parquet import read_footer
from conspectus.data.sources.units import bounded, people

LINES = "part int, rows bigint, place int, numbers binary"
"""A line of what a partition holds: which one it is, its rows, and one of its vectors; place −1 is its receipt, a
digest of all that, and −2 says that it failed."""
RECEIPT, FAILED = -1, -2
_LINES = pa.schema([("part", pa.int32()), ("rows", pa.int64()), ("place", pa.int32()), ("numbers", pa.binary())])
_BATCH = 1 << 16

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Reading:
    """How raw rows become codes: by a schema, from columns in its order, and then the id where there is one."""

    schema: dict[str, Any]
    seed: int

    def declared(self) -> Schema:
        return Schema.from_dict(self.schema)


def folded(reading: Reading, fold: Fold[Any], batches: Batches) -> Batches:
    """The vectors of a fold over the raw columns that it reads, of one partition."""
    yield from _told(lambda: _fold(fold, _coded(reading.declared(), fold.columns, batches)))


def folded_files(reading: Reading, fold: Fold[Any], names: Sequence[str], batches: Batches) -> Batches:
    """The same, of Parquet files whose addresses stand in the rows: read here, and not by Spark."""

    def rows() -> Batches:
        for batch in batches:
            for address in batch.column(0).to_pylist():
                store, place = fs.FileSystem.from_uri(address)
                file = read_footer(ObjectFile(store, place), "a file")
                yield from file.reader([file.names.index(name) for name in names] or [0])

    yield from _told(lambda: _fold(fold, _coded(reading.declared(), fold.columns, rows())))


def bounded_rows(reading: Reading, batches: Batches) -> Batches:
    """The codes of all columns and the ids, of at most max_rows rows of each id in this partition."""
    schema = reading.declared()
    kinds = pa.schema([*((f"c{c}", pa.int64()) for c in range(len(schema.columns))), ("person", pa.string())])
    try:
        every = range(len(schema.columns))
        coded = (
            pa.RecordBatch.from_arrays(
                [*(pa.array(codes.astype(np.int64)) for codes in _codes(schema, every, batch)), _who(schema, batch)],
                schema=kinds,
            )
            for batch in batches
        )
        yield from _kept(schema, reading.seed, coded, kinds, person=True)
    except Exception:  # a row of another kind says so: whoever counts finds a code that no column has
        yield pa.RecordBatch.from_arrays([pa.array([-1])] * len(schema.columns) + [pa.array([""])], schema=kinds)


def folded_people(reading: Reading, fold: Fold[Any], batches: Batches) -> Batches:
    """The vectors of a fold over codes and ids, of which all rows of an id are in this partition."""

    def chunks() -> Iterator[Chunk]:
        schema = reading.declared()
        width = len(schema.columns)
        kinds = pa.schema([*((f"c{c}", pa.int64()) for c in range(width)), ("person", pa.string())])
        for batch in _kept(schema, reading.seed, batches, kinds, person=False):
            codes = [batch.column(c).to_numpy() for c in range(width)]
            if any(len(each) and each.min() < 0 for each in codes):
                raise ValueError("a partition could not be read")
            sizes = schema.domain.sizes
            yield Chunk(tuple(each.astype(code_dtype(size)) for each, size in zip(codes, sizes)), batch.num_rows)

    yield from _told(lambda: _fold(fold, chunks()))


def _kept(schema: Schema, seed: int, batches: Iterable[pa.RecordBatch], kinds: pa.Schema, *, person: bool) -> Batches:
    width = len(schema.columns)
    query = bounded("_codes", range(width), columns=width, max_rows=schema.unit.max_rows, seed=seed)
    if person:
        query = query.replace(" FROM ", ", person FROM ", 1)
    with closing(Connection()) as connection:
        reader = pa.RecordBatchReader.from_batches(kinds, iter(batches))
        yield from connection.cursor().from_arrow(reader).query("_codes", query).to_arrow_reader(_BATCH)


def _coded(schema: Schema, columns: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    wanted = sorted(set(columns))
    width = len(schema.columns)
    for batch in batches:
        codes: list[Any] = [None] * width
        for position, found in zip(wanted, _codes(schema, wanted, batch)):
            codes[position] = found
        yield Chunk(tuple(codes), batch.num_rows)


def _codes(schema: Schema, columns: Sequence[int], batch: pa.RecordBatch) -> list[Any]:
    return [schema.encode(position, tidy(batch.column(place))) for place, position in enumerate(columns)]


def _who(schema: Schema, batch: pa.RecordBatch) -> pa.Array:
    found = people(tidy(batch.column(batch.num_columns - 1)), schema.nulls)
    return found.cast(pa.string())


def _fold(fold: Fold[Any], chunks: Iterable[Chunk]) -> tuple[tuple[np.ndarray[Any, Any], ...], int]:
    part, rows = fold.start(), 0
    for chunk in chunks:
        part.add(chunk)
        rows += chunk.rows
    return part.vectors(), rows


def _told(work: Callable[[], tuple[tuple[np.ndarray[Any, Any], ...], int]]) -> Batches:
    """The lines of one partition; of one that failed, that it did."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = -1 if context is None else context.partitionId()
    try:
        vectors, rows = work()
    except Exception:
        yield _line(part, 0, FAILED, b"")
        return
    numbers = [np.ascontiguousarray(vector, dtype="<i8").tobytes() for vector in vectors]
    for place, each in enumerate(numbers):
        yield _line(part, rows, place, each)
    yield _line(part, rows, RECEIPT, receipt(part, rows, numbers))


def receipt(part: int, rows: int, vectors: Sequence[bytes]) -> bytes:
    """What a partition signs for: its number, its rows, and every vector in its place."""
    digest = hashlib.sha256(f"{part} {rows} {[len(each) for each in vectors]}".encode())
    for each in vectors:
        digest.update(each)
    return digest.digest()


def _line(part: int, rows: int, place: int, numbers: bytes) -> pa.RecordBatch:
    values = [[part], [rows], [place], [numbers]]
    arrays = [pa.array(value, field.type) for value, field in zip(values, _LINES)]
    return pa.RecordBatch.from_arrays(arrays, schema=_LINES)
