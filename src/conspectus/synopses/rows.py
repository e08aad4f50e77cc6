"""Synthetic rows: a table of records that nobody has, with the answers of the true one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Codes, Domain, code_dtype
from conspectus.queries.counting import count
from conspectus.queries.query import Workload

from .rounding import systematic
from .synopsis import BadSynopsis, CannotAnswer, Total, part, public_coins

_CHUNK = 1 << 17


@dataclass(frozen=True, eq=False)
class Rows:
    """Records as codes, column by column, each with a multiplicity (one by default)."""

    domain: Domain
    codes: tuple[Codes, ...]
    total: Total
    multiplicities: NDArray[np.int64] | None = None

    kind: ClassVar[str] = "rows"

    def __post_init__(self) -> None:
        if len(self.codes) != len(self.domain) or not self.codes:
            raise BadSynopsis("synthetic rows need one array of codes for each column")
        columns = []
        for codes, size in zip(self.codes, self.domain.sizes):
            values = np.asarray(codes)
            wrong = values.dtype.kind not in "iu" or values.shape != self.codes[0].shape or values.ndim != 1
            if wrong or (values.size and (int(values.min()) < 0 or int(values.max()) >= size)):
                raise BadSynopsis("synthetic rows hold codes of their columns alone")
            columns.append(_frozen(np.array(values, dtype=code_dtype(size))))
        object.__setattr__(self, "codes", tuple(columns))
        if self.multiplicities is not None:
            copies = np.array(self.multiplicities, dtype=np.int64)
            if copies.shape != columns[0].shape or (copies.size and int(copies.min()) < 0):
                raise BadSynopsis("each synthetic row has one multiplicity, zero or more")
            object.__setattr__(self, "multiplicities", _frozen(copies))
        if self.size < 1:
            raise BadSynopsis("synthetic rows without a single row answer nothing")

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
        if workload.domain != self.domain:
            raise CannotAnswer("the workload asks about another table: build it from the schema of this synopsis")
        if self.multiplicities is None:
            counts, _ = count(workload, self._chunks(None))
            return self._shares(workload, counts)
        if not workload.counting:
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

    def _shares(self, workload: Workload, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values in steps as shares, of the synthetic rows or of what a share of one amounts to."""
        return np.asarray(values / ((workload.whole or self.size) * workload.grid), dtype=np.float64)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows by systematic resampling: each record as often as its share says, rounded down or up; then shuffled."""
        coins = public_coins(public_seed)
        shares = np.ones(self.records) if self.multiplicities is None else self.multiplicities.astype(np.float64)
        # A random order first, so that which records are rounded up has nothing to do with their places.
        order = coins.permutation(self.records)
        places = np.repeat(order, systematic(shares[order], rows, float(coins.random())))
        coins.shuffle(places)
        return Chunk(tuple(codes[places] for codes in self.codes), rows)

    def _chunks(self, places: NDArray[np.int64] | None) -> Iterator[Chunk]:
        held = self.records if places is None else places.size
        for start in range(0, held, _CHUNK):
            at = slice(start, start + _CHUNK) if places is None else places[start : start + _CHUNK]
            columns = tuple(codes[at] for codes in self.codes)
            yield Chunk(columns, int(columns[0].size))

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        tables = {"rows": pa.table(dict(zip(self.domain.names, self.codes)))}
        if self.multiplicities is not None:
            tables["multiplicities"] = pa.table({"copies": self.multiplicities})
        return {"total": self.total.to_json()}, tables

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        types = {np.uint8: pa.uint8(), np.uint16: pa.uint16(), np.uint32: pa.uint32()}
        fields = [(name, types[code_dtype(size)]) for name, size in zip(domain.names, domain.sizes)]
        rows = part(tables, "rows", fields)
        copies = None
        if "multiplicities" in tables:
            copies = part(tables, "multiplicities", [("copies", pa.int64())])["copies"].to_numpy()
        codes = tuple(rows.column(position).to_numpy() for position in range(len(domain)))
        return cls(domain, codes, Total.from_json(meta.get("total")), copies)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
