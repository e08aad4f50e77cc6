"""A table as a stream of codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from conspectus.data.domain import Chunk, Codes, Domain
from conspectus.data.schema import Schema
from conspectus.data.sources.lines import Tally
from conspectus.data.sources.origin import Origin, guarded, quoted
from conspectus.data.sources.units import bounded

_PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_KNOWN = (*_PLAIN, "FLOAT", "DOUBLE", "DATE", "VARCHAR", "BLOB")


class Table:
    """The rows of a source in the codes of a schema, as many passes as one likes, in memory bounded by one chunk.

    `filtered` is True when the number of rows is private: a filter left rows out, or units are ids. There is no `len`.
    """

    def __init__(self, origin: Origin, schema: Schema, *, what: str, public_seed: int) -> None:
        self.schema = schema
        self._origin = origin
        self._what = what
        self._seed = public_seed
        self._names = [origin.column(column.name, what) for column in schema.columns]
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

    def chunks(self, columns: Sequence[int] | None = None, rows: int = 1 << 17) -> Iterator[Chunk]:
        """One pass over the rows, at most `rows` at a time, reading only the columns at the given positions."""
        width = len(self.schema.columns)
        wanted = sorted(set(range(width) if columns is None else columns))
        for batch in self.raw(wanted, rows):
            codes: list[Codes | None] = [None] * width
            for place, position in enumerate(wanted):
                codes[position] = self.schema.encode(position, batch.column(place))
            yield Chunk(tuple(codes), batch.num_rows)

    def raw(self, columns: Sequence[int], rows: int = 1 << 17) -> Iterator[pa.RecordBatch]:
        """One pass over the raw values of some columns, for encoding and for the owner's own checks."""
        with guarded(self._what):
            relation = self._origin.relation(self._read(columns))
            batches = relation.query("_source", self._sql(relation, columns)).to_arrow_reader(rows)
        try:
            while True:
                with guarded(self._what):
                    batch = next(batches, None)
                if batch is None:
                    return
                if batch.num_rows:
                    yield batch
        finally:
            batches.close()

    def tally(self) -> Tally | None:
        """How many lines of the source are odd, where its rows are lines, for the owner's own checks."""
        return None if self._origin.tally is None else self._origin.tally()

    def _read(self, wanted: Sequence[int]) -> list[str]:
        """The columns that a pass needs: which rows of an id are kept depends on all of them."""
        if self._identity is None:
            return [self._names[position] for position in wanted]
        return [*self._names, self._identity]

    def _sql(self, relation: Any, wanted: Sequence[int]) -> str:
        types = dict(zip(relation.columns, map(str, relation.types)))
        select = [_readable(self._names[position], types) for position in wanted] or ["1"]
        if self._identity is None:
            return f"SELECT {', '.join(select)} FROM _source"
        return bounded(
            "_source",
            select,
            identity=quoted(self._identity),
            columns={quoted(name): types[name] for name in self._names},
            max_rows=self.schema.unit.max_rows,
            nulls=self.schema.null_values,
            seed=self._seed,
        )

    def close(self) -> None:
        """Let go of the source and of everything it put aside."""
        self._origin.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def _readable(name: str, types: dict[str, str]) -> str:
    """A column as a type that encoding reads; all others become text."""
    kind = types[name]
    if kind in _KNOWN or (kind.startswith(("TIMESTAMP", "DECIMAL", "ENUM")) and not kind.endswith("[]")):
        return quoted(name)
    return f"CAST({quoted(name)} AS VARCHAR)"
