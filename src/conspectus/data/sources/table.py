"""A table as a stream of codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.chunks import SetChunk
from conspectus.data.domain import Chunk, Codes, Domain, code_dtype
from conspectus.data.fold import Fold, Result, Tell, fold_chunks
from conspectus.data.records.canonical_form import CANONICAL, shortened_forms
from conspectus.data.records.fingerprints import FINGERPRINTS
from conspectus.data.records.record import Record
from conspectus.data.records.record_encoding import Encoded
from conspectus.data.schema import Schema
from conspectus.interrupts import attentive
from conspectus.suggestions import suggest_keywords

from .batches import gathered
from .lines import Tally
from .origin import Far, Origin, SourceError, exported, guarded
from .units import bounded, people

_ROWS = 1 << 16


@suggest_keywords
class Table:
    """The rows of a source in the codes of a schema, as many passes as one likes, in memory bounded by one chunk.

    `fold` is how rows are read for counting, and the curator alone calls it; `raw` and `tally` are for the owner's own
    checks, in `drafting`.

    `beside` is the same source as records, where the origin holds no more than their fingerprints.
    `filtered` is True when the number of rows is private: a filter left rows out, or units are ids. There is no `len`.
    """

    in_memory = False
    """Whether the table holds its own codes, so that a second fold does not read the source again."""

    _far: Far | None = None

    elsewhere = False
    """Whether the rows stay where they lie: every fold is a job there, and nothing of them is put aside here."""

    def __init__(
        self, origin: Origin, schema: Schema, *, what: str, public_seed: int, beside: Table | None = None
    ) -> None:
        self.schema = schema
        self._ranked_by = schema
        self._beside = beside
        self._origin = origin
        self._far = origin.far
        self._what = what
        self._seed = public_seed
        named = schema.domain.names
        self._names = [origin.column(name, what, named) for name in named]
        self._identity = None if schema.unit.column is None else origin.column(schema.unit.column, what)

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def filtered(self) -> bool:
        return self._origin.filtered or self._identity is not None

    @property
    def known_rows(self) -> int | None:
        """How many rows there are, where the source says so without a pass and no row is left out; else None."""
        return None if self.filtered else self._origin.rows

    @attentive()
    def fold(self, fold: Fold[Result], tell: Tell | None = None) -> Result:
        """Run a public program over the rows: one pass over the source.

        Args:
            fold: What to compute; it says which columns it reads.
            tell: Told how many parts of the rows are done, where they lie elsewhere in several.

        Returns:
            What the fold makes of all rows. It is exact, and as private as the rows.
        """
        chunks = self._complete(self._stream(fold.columns, records=fold.records))
        far = self._far
        if far is None:
            return fold_chunks(fold, chunks)
        told = 0

        def look() -> None:
            nonlocal told
            done, total = far.parts
            if tell is not None and done > told:
                told = done
                tell(done, total)

        result = fold_chunks(fold, chunks, each=look, stop=far.stop)
        look()
        return result

    def _complete(self, chunks: Iterable[Chunk | SetChunk]) -> Iterator[Chunk | SetChunk]:
        """The chunks, which hold as many rows as the source said it has."""
        rows = 0
        for chunk in chunks:
            rows += chunk.rows
            yield chunk
        if self.known_rows not in (None, rows):
            raise SourceError(f"{self._what} has another number of rows than it says: check that it is complete")

    def _stream(self, columns: Sequence[int], *, records: bool) -> Iterator[Chunk | SetChunk]:
        """One pass over the rows, with their canonical forms where they are asked for and can be read."""
        if not records:
            yield from self.chunks(columns)
        elif self._beside is not None:
            yield from self._beside._stream(columns, records=True)
        else:
            for batch in self.raw([0], _ROWS):
                with guarded(self._what):
                    forms = shortened_forms(CANONICAL.of(batch.column(0), mended=True))
                    codes = self._codes(0, batch.column(0)) if columns else None
                yield Chunk((codes,), batch.num_rows, forms)

    def chunks(self, columns: Sequence[int] | None = None, rows: int = 1 << 17) -> Iterator[Chunk | SetChunk]:
        """One pass over the rows, at most `rows` at a time, reading only the columns at the given positions."""
        width = len(self.schema.columns)
        wanted = sorted(set(range(width) if columns is None else columns))
        found = self._coded(self.raw(wanted, rows), wanted) if self._identity is None else self._bounded(wanted, rows)
        for batch in gathered(found, rows):
            codes: list[Codes | None] = [None] * width
            for place, position in enumerate(wanted):
                codes[position] = batch.column(place).to_numpy(zero_copy_only=False)
            yield Chunk(tuple(codes), batch.num_rows)

    def raw(self, columns: Sequence[int], rows: int = 1 << 17) -> Iterator[pa.RecordBatch]:
        """One pass over the raw values of some columns, of all rows, for encoding and for the owner's own checks.

        Their texts are mended (`arrays.mended`), each once: every origin does so before DuckDB sees them.
        """
        return read(self._origin, [self._names[position] for position in columns], what=self._what, rows=rows)

    def _coded(
        self, batches: Iterable[pa.RecordBatch], columns: Sequence[int], *, ids: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The codes of raw values; whatever stands behind them passes through, but `ids` become the texts of people."""
        for batch in batches:
            with guarded(self._what):
                codes = [pa.array(self._codes(c, batch.column(place))) for place, c in enumerate(columns)]
                rest = batch.columns[len(columns) :]
                rest = [people(values, self.schema.nulls) for values in rest] if ids else rest
                names = [*(f"c{c}" for c in columns), *("person" for _ in rest)]
                if ids and self._ranked_by is not self.schema:
                    rest += [
                        pa.array(self._ranked_by.encode(c, batch.column(place))) for place, c in enumerate(columns)
                    ]
                    names += [f"r{c}" for c in columns]
                coded = pa.RecordBatch.from_arrays([*codes, *rest], names=names)
            yield coded

    def _codes(self, position: int, values: pa.Array) -> Codes:
        if self._names[position] in self._origin.fingerprinted:
            done: Codes = values.to_numpy(zero_copy_only=False)
            return done
        if isinstance(self.schema.columns[position], Record):
            return FINGERPRINTS.of(values, mended=True)
        return self.schema.encode(position, values)

    def units(self, key: int, rows: int = 1 << 17) -> Iterator[tuple[Chunk | SetChunk, NDArray[np.uint64] | None]]:
        """One pass over the codes of all columns, with a hash of each row's id, or None where each row is a unit.

        All rows of an id have the same hash, keyed with a public number.
        """
        if self.schema.unit.kind != "id":
            yield from ((chunk, None) for chunk in self._complete(self.chunks()))
            return
        every = range(len(self.schema.columns))
        for batch in gathered(self._bounded(every, rows, key=key), rows):
            *codes, ids = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            yield Chunk(tuple(codes), batch.num_rows), ids.astype(np.uint64)

    def _bounded(self, wanted: Sequence[int], rows: int, *, key: int | None = None) -> Iterator[pa.RecordBatch]:
        """The codes of the rows that are kept of each id. Which ones are kept depends on all columns."""
        width, identity = len(self.schema.columns), str(self._identity)
        every = range(width)
        raw = read(self._origin, [*self._names, identity], what=self._what, rows=_ROWS)
        with guarded(self._what):
            kinds = [(f"c{c}", _code_type(self.schema, c)) for c in every]
            ranked = self._ranked_by is not self.schema
            ranks = [(f"r{c}", _code_type(self._ranked_by, c)) for c in every if ranked]
            coded = self._coded(raw, every, ids=True)
            held = pa.schema([*kinds, ("person", pa.large_string()), *ranks])
            codes = pa.RecordBatchReader.from_batches(held, coded)
            kept = {"columns": width, "max_rows": self.schema.unit.max_rows, "seed": self._seed}
            query = bounded("_codes", wanted, **kept, key=key, ranked=ranked)
            batches = self._origin.connection.cursor().from_arrow(codes).query("_codes", query).to_arrow_reader(rows)
        yield from _each(batches, self._what)

    @property
    def reads_records(self) -> bool:
        """Whether each row is one record of any kind whose value can be read: then `records` has them."""
        if [column.kind for column in self.schema.columns] != [Record.kind] or self.schema.unit.kind != "row":
            return False
        return self._beside is not None or self._names[0] not in self._origin.fingerprinted

    def records(self) -> Iterator[Encoded]:
        """One pass over the canonical forms of the rows, each of its row alone; where they can be read."""
        for chunk in self._stream((), records=True):
            assert isinstance(chunk, Chunk)
            assert chunk.records is not None
            yield chunk.records

    def recoded(self, schema: Schema) -> Table:
        """The same rows in the codes of another schema, whose columns have the same names.

        Of an id the same rows are kept: they are ranked by the codes of this table, and rows that tie by their own.
        """
        other = Table(self._origin, schema, what=self._what, public_seed=self._seed, beside=self._beside)
        other._ranked_by = self.schema
        return other

    def tally(self) -> Tally | None:
        """How many lines of the source are odd, where its rows are lines, for the owner's own checks."""
        return None if self._origin.tally is None else self._origin.tally()

    def close(self) -> None:
        """Let go of the source and of everything it put aside."""
        self._origin.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def read(origin: Origin, names: Sequence[str], *, what: str, rows: int) -> Iterator[pa.RecordBatch]:
    """One pass over the raw values of some columns of an origin, at most `rows` at a time."""
    if origin.batches is not None:
        yield from _each(origin.batches(names, rows), what)
        return
    with guarded(what):
        relation = origin.relation(names)
        types = _types(relation)
        select = [exported(name, types[name]) for name in names] or ["1"]
        batches = relation.query("_source", f"SELECT {', '.join(select)} FROM _source").to_arrow_reader(rows)
    yield from _each(batches, what)


def _each(batches: Any, what: str) -> Iterator[pa.RecordBatch]:
    try:
        while True:
            with guarded(what):
                batch = next(batches, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch
    finally:
        batches.close()


def _code_type(schema: Schema, column: int) -> pa.DataType:
    return pa.from_numpy_dtype(code_dtype(schema.columns[column].size))


def _types(relation: Any) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types)))
