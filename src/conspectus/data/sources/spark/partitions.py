"""What runs inside Spark's executors: rows to codes, codes to the vectors of a fold. No noise is drawn here.

A task may run twice, and all that it returns is a line for its partition, so that whoever adds the lines up sees which
are there. What fails here must not be raised: Spark would write it into logs, values and all. So a failure is a line,
too, without a word about it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from conspectus.data.columns.arrays import TEXT, tidy
from conspectus.data.domain import Chunk, code_dtype
from conspectus.data.fold import Fold
from conspectus.data.schema import Schema
from conspectus.data.sources.batches import cut
from conspectus.data.sources.many_files import Part
from conspectus.data.sources.origin import Connection
from conspectus.data.sources.parquet import read_footer
from conspectus.data.sources.units import bounded, people

from .frame_files import opened
from .typed_values import typed

LINES = "part int, rows bigint, place int, numbers binary"
"""A line of what a partition holds: which one it is, its rows, and one of its vectors; place −1 is its receipt, a
digest of all that, and −2 says that it failed."""
RECEIPT, FAILED = -1, -2
_LINES = pa.schema([("part", pa.int32()), ("rows", pa.int64()), ("place", pa.int32()), ("numbers", pa.binary())])
_BATCH = 1 << 16
_HANDED = 1 << 12  # rows that are handed to Spark at a time, since texts are written out for each

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Reading:
    """How rows become codes: by a schema, from columns in its order, and then the id where there is one.

    Columns at the `coded` places are codes already, and where `named` says so the ids are texts.
    """

    schema: dict[str, Any]
    seed: int
    coded: frozenset[int] = frozenset()
    named: bool = False

    def declared(self) -> Schema:
        return Schema.from_dict(self.schema)


@dataclass(frozen=True)
class FileRows:
    """The rows of Parquet files whose addresses stand in batches, beside what their folders say: read here, and not by
    Spark.

    A column that a file lacks, or has twice, is missing in its rows, as in a folder that is opened without Spark. Names
    are compared as Spark does.

    Attributes:
        reading: How rows become codes.
        inputs: Columns that Spark computes with, and their types.
        codes: Places in the schema, and the columns of the files that become codes.
        person: The column of the id, where it is one of the files.
        capitals: Whether names that differ in capitals alone are different.
    """

    reading: Reading
    inputs: tuple[tuple[str, str], ...]
    codes: tuple[tuple[int, str], ...]
    person: str | None
    capitals: bool

    def __call__(self, batches: Batches) -> Batches:
        schema = self.reading.declared()
        who = () if self.person is None else (self.person,)
        wanted = [name for name, _ in self.inputs] + [name for _, name in self.codes] + [*who]
        for part in _parts(batches):
            held = [self._held(part, name) for name in wanted]
            for columns, rows in part.columns(list(dict.fromkeys(name for name in held if name is not None))):
                found = dict(zip(dict.fromkeys(name for name in held if name is not None), columns))
                raw = [pa.nulls(rows, TEXT) if name is None else found[name] for name in held]
                given = [typed(column, kind) for column, (_, kind) in zip(raw, self.inputs)]
                behind = raw[len(given) :]
                coded = [pa.array(schema.encode(place, column)) for column, (place, _) in zip(behind, self.codes)]
                people_ = [_people(schema, column) for column in behind[len(coded) :]]
                every = [*given, *coded, *people_, pa.nulls(rows, pa.bool_())]
                yield pa.RecordBatch.from_arrays(every, names=self.names)

    @property
    def names(self) -> list[str]:
        """The names of the columns: inputs, codes, the id, and an empty one, so that there always is one."""
        given = [f"k{place}" for place in range(len(self.inputs))]
        return [*given, *(f"c{place}" for place, _ in self.codes), *([] if self.person is None else ["person"]), "row"]

    def _held(self, part: Part, name: str) -> str | None:
        """What a file calls a column, if it has it once."""
        if name in part.keys or part.names.count(name) == 1:
            return name
        like = [] if self.capitals or name in part.names else [each for each in part.names if _alike(each, name)]
        return like[0] if len(like) == 1 else None


def _parts(batches: Batches) -> Iterator[Part]:
    for batch in batches:
        for address, said in zip(*(column.to_pylist() for column in batch.columns)):
            yield Part(read_footer(opened(address), "a file"), json.loads(said))


def _alike(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def handed(rows: FileRows, batches: Batches) -> Batches:
    """The rows of files for Spark, which has no unsigned numbers. What fails says nothing, since Spark logs it."""
    try:
        for batch in rows(batches):
            columns = [column.cast(pa.int64()) if _unsigned(column) else column for column in batch.columns]
            yield from cut(pa.RecordBatch.from_arrays(columns, names=rows.names), _HANDED)
    except Exception:
        raise ValueError("a file could not be read") from None


def _unsigned(column: pa.Array) -> bool:
    return bool(pa.types.is_unsigned_integer(column.type))


def of_files(rows: FileRows, work: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """Work over the rows of files, where Spark has nothing to do between reading and working."""
    yield from work(rows(batches))


def folded(reading: Reading, fold: Fold[Any], batches: Batches) -> Batches:
    """The vectors of a fold over the columns that it reads, of one partition."""
    yield from _told(lambda: _fold(fold, _coded(reading, fold.columns, batches)))


def bounded_rows(reading: Reading, batches: Batches) -> Batches:
    """The codes of all columns and the ids, of at most max_rows rows of each id in this partition."""
    schema = reading.declared()
    kinds = pa.schema([*((f"c{c}", pa.int64()) for c in range(len(schema.columns))), ("person", pa.string())])
    try:
        every = range(len(schema.columns))
        coded = (_bounded(reading, schema, every, batch, kinds) for batch in batches)
        yield from _kept(schema, reading.seed, coded, kinds, person=True)
    except Exception:  # a row of another kind says so: whoever counts finds a code that no column has
        yield pa.RecordBatch.from_arrays([pa.array([-1])] * len(schema.columns) + [pa.array([""])], schema=kinds)


def _bounded(
    reading: Reading, schema: Schema, every: Sequence[int], batch: pa.RecordBatch, kinds: pa.Schema
) -> pa.RecordBatch:
    codes = (pa.array(codes.astype(np.int64)) for codes in _codes(schema, reading, every, batch))
    return pa.RecordBatch.from_arrays([*codes, _who(reading, schema, batch)], schema=kinds)


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


def _coded(reading: Reading, columns: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    schema = reading.declared()
    wanted = sorted(set(columns))
    width = len(schema.columns)
    for batch in batches:
        codes: list[Any] = [None] * width
        for position, found in zip(wanted, _codes(schema, reading, wanted, batch)):
            codes[position] = found
        yield Chunk(tuple(codes), batch.num_rows)


def _codes(schema: Schema, reading: Reading, columns: Sequence[int], batch: pa.RecordBatch) -> list[Any]:
    return [
        batch.column(place).to_numpy().astype(code_dtype(schema.domain.sizes[position]), copy=False)
        if position in reading.coded
        else schema.encode(position, tidy(batch.column(place)))
        for place, position in enumerate(columns)
    ]


def _who(reading: Reading, schema: Schema, batch: pa.RecordBatch) -> pa.Array:
    column = batch.column(len(schema.columns))
    return column.cast(pa.string()) if reading.named else _people(schema, tidy(column))


def _people(schema: Schema, values: pa.Array) -> pa.Array:
    return people(values, schema.nulls).cast(pa.string())


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
