"""Synthetic rows: a table of records that nobody has, with the answers of the true one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.counters import count
from conspectus.data.chunks import MOST_ROWS, SetChunk
from conspectus.data.domain import Chunk, Codes, Domain, code_dtype
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.fitting.rounding import systematic

from .synopsis import BadSynopsis, Synopsis, Total, numbers_of, part, public_sampler

WIDE = 1024
"""From more columns on, codes are held and filed as one matrix."""

_CHUNK = 1 << 17
_ALONE = "synthetic rows hold codes of their columns alone"


@suggest_keywords
@dataclass(frozen=True, eq=False)
class Rows(Synopsis):
    """Records as codes, column by column, each with a multiplicity (one by default).

    Wide tables hold their codes as one matrix, a row of it for each column: half a million arrays would be slow.
    `columns` are those that the rows were made from, all of them by default: the codes of any other mean nothing.
    """

    domain: Domain
    codes: Sequence[Codes] | NDArray[np.integer[Any]]
    total: Total
    multiplicities: NDArray[np.int64] | None = None
    columns: tuple[int, ...] | None = None

    kind: ClassVar[str] = "rows"
    title: ClassVar[str] = "synthetic rows"

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.domain) or not len(self.codes):
            raise BadSynopsis("synthetic rows need one array of codes for each column")
        if len(self.domain) > WIDE or isinstance(self.codes, np.ndarray):
            object.__setattr__(self, "codes", _matrix(self.codes, self.domain))
        else:
            object.__setattr__(self, "codes", _columns(self.codes, self.domain))
        if self.multiplicities is not None:
            copies = np.array(self.multiplicities, dtype=np.int64)
            if copies.shape != self.codes[0].shape or (copies.size and int(copies.min()) < 0):
                raise BadSynopsis("each synthetic row has one multiplicity, zero or more")
            object.__setattr__(self, "multiplicities", fixed(copies))
        if self.size < 1:
            raise BadSynopsis("synthetic rows without a single row answer nothing")
        made_from = self.columns
        if made_from is not None and len(set(made_from)) == len(self.domain):
            object.__setattr__(self, "columns", None)
        if made_from is not None and not all(type(c) is int and 0 <= c < len(self.domain) for c in made_from):
            raise BadSynopsis("synthetic rows are made from columns of their table")

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns that the rows were made from."""
        return super().known_columns if self.columns is None else self.columns

    @property
    def records(self) -> int:
        """The number of records that are held."""
        return int(self.codes[0].size)

    @property
    def size(self) -> int:
        """The number of synthetic rows, copies included."""
        return self.records if self.multiplicities is None else int(self.multiplicities.sum())

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """The fraction of the synthetic rows that satisfy each query, or the share that each function finds in them."""
        self._check_asked(workload)
        if self.multiplicities is None:
            counts, _ = count(workload, self._chunks(None))
            return self._shares(workload, counts)
        if not workload.linear:
            # A function of the table sees each copy as a row of its own.
            copies = np.repeat(np.arange(self.records), self.multiplicities)
            return self._shares(workload, count(workload, self._chunks(copies))[0])
        # Binary digits of the multiplicities: each digit is one count of the records that have it.
        totals = np.zeros(len(workload), dtype=np.int64)
        for digit in range(int(self.multiplicities.max()).bit_length()):
            holders = np.flatnonzero(self.multiplicities >> digit & 1)
            if holders.size:
                totals += count(workload, self._chunks(holders))[0] << digit
        return self._shares(workload, totals)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the rows, repeated or thinned out to the total; see `Synopsis.integer_marginal`."""
        shape = self.domain.shape(tuple(columns))
        cells = np.ravel_multi_index([self.codes[c].astype(np.int64) for c in columns], shape)
        return np.bincount(cells, weights=self._copies, minlength=math.prod(shape)).astype(np.int64)

    @cached_property
    def _copies(self) -> NDArray[np.int64]:
        """How often each record stands in a table of `total` rows: its share of them, rounded down or up.

        Records go in the order of their codes, so that what is rounded up in one is rounded down in one like it.
        """
        shares = np.ones(self.records) if self.multiplicities is None else self.multiplicities.astype(np.float64)
        order = np.lexsort(self.codes[::-1]) if len(self.domain) <= WIDE else np.arange(self.records)
        copies = np.empty(self.records, dtype=np.int64)
        copies[order] = systematic(shares[order], self.total.rows, 0.5)
        return copies

    def _shares(self, workload: Workload, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values in steps as shares, of the synthetic rows or of what a share of one amounts to."""
        return np.asarray(values / ((workload.denominator or self.size) * workload.grid), dtype=np.float64)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows by systematic resampling: each record as often as its share says, rounded down or up; then shuffled."""
        rng = public_sampler(public_seed)
        shares = np.ones(self.records) if self.multiplicities is None else self.multiplicities.astype(np.float64)
        # A random order first, so that which records are rounded up has nothing to do with their places.
        order = rng.permutation(self.records)
        places = np.repeat(order, systematic(shares[order], rows, float(rng.random())))
        rng.shuffle(places)
        if isinstance(self.codes, np.ndarray):
            return Chunk(tuple(self.codes[:, places]), rows)
        return Chunk(tuple(codes[places] for codes in self.codes), rows)

    def _chunks(self, places: NDArray[np.int64] | None) -> Iterator[Chunk | SetChunk]:
        held = self.records if places is None else places.size
        two = isinstance(self.codes, np.ndarray) and set(self.domain.sizes) == {2}
        step = MOST_ROWS if two else _CHUNK
        for start in range(0, held, step):
            at = slice(start, start + step) if places is None else places[start : start + step]
            if isinstance(self.codes, np.ndarray):
                part = self.codes[:, at]
                rows = part.shape[1]
                yield SetChunk.of_codes(range(len(part)), part, rows=rows) if two else Chunk(tuple(part), rows)
            else:
                columns = tuple(codes[at] for codes in self.codes)
                yield Chunk(columns, int(columns[0].size))

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        if isinstance(self.codes, np.ndarray):
            packed = _packed(self.codes, self.domain)
            record = pa.binary(packed.shape[1])
            held = pa.Array.from_buffers(record, len(packed), [None, pa.py_buffer(packed.tobytes())])
            tables = {"records": pa.table({"codes": held})}
        else:
            tables = {"rows": pa.table(dict(zip(self.domain.names, self.codes)))}
        if self.multiplicities is not None:
            tables["multiplicities"] = pa.table({"copies": self.multiplicities})
        made_from = {} if self.columns is None else {"columns": list(self.columns)}
        return {"total": self.total.to_json(), **made_from}, tables

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        copies = None
        if "multiplicities" in tables:
            copies = numbers_of(part(tables, "multiplicities", [("copies", pa.int64())])["copies"])
        total, columns = Total.from_json(meta.get("total")), meta.get("columns")
        if columns is not None and not isinstance(columns, list):
            raise BadSynopsis("synthetic rows are made from columns of their table")
        made_from = None if columns is None else tuple(columns)
        if "records" in tables:
            return cls(domain, _unpacked(tables, domain), total, copies, made_from)
        types = {np.uint8: pa.uint8(), np.uint16: pa.uint16(), np.uint32: pa.uint32()}
        fields = [(name, types[code_dtype(size)]) for name, size in zip(domain.names, domain.sizes)]
        rows = part(tables, "rows", fields)
        codes = tuple(numbers_of(rows.column(position)) for position in range(len(domain)))
        return cls(domain, codes, total, copies, made_from)


def _columns(codes: Sequence[Codes], domain: Domain) -> tuple[Codes, ...]:
    """The columns one by one, each checked and in its own type."""
    columns = []
    for given, size in zip(codes, domain.sizes):
        values = np.asarray(given)
        wrong = values.dtype.kind not in "iu" or values.shape != codes[0].shape or values.ndim != 1
        if wrong or (values.size and (int(values.min()) < 0 or int(values.max()) >= size)):
            raise BadSynopsis(_ALONE)
        columns.append(fixed(np.array(values, dtype=code_dtype(size))))
    return tuple(columns)


def _matrix(codes: Sequence[Codes] | NDArray[np.integer[Any]], domain: Domain) -> Codes:
    """All columns at once, checked and in one type."""
    try:
        values = np.asarray(codes)
    except ValueError as problem:
        raise BadSynopsis(_ALONE) from problem
    if values.dtype.kind not in "iu" or values.ndim != 2:
        raise BadSynopsis(_ALONE)
    sizes = np.array(domain.sizes)
    if values.size and (int(values.min()) < 0 or (values.max(axis=1) >= sizes).any()):
        raise BadSynopsis(_ALONE)
    return fixed(np.array(values, dtype=code_dtype(int(sizes.max())), order="C"))


def _packed(codes: NDArray[Any], domain: Domain) -> NDArray[np.uint8]:
    """The records of a matrix as bytes, one after another: a bit a column where all have two values."""
    records = np.ascontiguousarray(codes.T)
    if max(domain.sizes) <= 2:
        return np.packbits(records, axis=1, bitorder="little")
    return records.astype(records.dtype.newbyteorder("<")).view(np.uint8)


def _unpacked(tables: Mapping[str, pa.Table], domain: Domain) -> NDArray[Any]:
    """The inverse of `_packed`; refuses records of another length."""
    two = max(domain.sizes) <= 2
    kind = np.dtype(code_dtype(max(domain.sizes))).newbyteorder("<")
    width = (len(domain) + 7) // 8 if two else len(domain) * kind.itemsize
    held = part(tables, "records", [("codes", pa.binary(width))])["codes"].combine_chunks()
    data = b"".join(held.to_pylist())
    records = np.frombuffer(data, dtype=np.uint8).reshape(len(held), width)
    if two:
        records = np.unpackbits(records, axis=1, bitorder="little")
        if records[:, len(domain) :].any():
            raise BadSynopsis(_ALONE)
        return records[:, : len(domain)].T
    return records.view(kind).T
