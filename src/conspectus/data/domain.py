"""The universe X as a finite product of codes.

A record is one code per column, code j of a column of size s lying in 0..s-1. Everything the mathematics needs of a
table is here; what the codes *mean* is the schema's business.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.unsignedinteger[Any]]
Array = TypeVar("Array", bound=NDArray[Any])


def code_dtype(size: int) -> type[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds the codes of a column of this size."""
    if size <= 1 << 16:
        return np.uint8 if size <= 1 << 8 else np.uint16
    return np.uint32 if size <= 1 << 32 else np.uint64


def in_words(cells: int) -> str:
    """A number of cells for people: exact while it is short, a power of ten beyond any float."""
    # Digits from the logarithm: an integer of many thousand digits is not written out.
    return f"{cells:,}" if cells < 10**12 else f"about 10^{math.floor(math.log10(cells) + 1e-12)}"


@dataclass(frozen=True)
class Domain:
    """Named columns with their numbers of codes; cells are numbered in row-major order."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise ValueError("a domain needs one size for each of its distinct column names")
        if any(size < 1 for size in self.sizes):
            raise ValueError("every column of a domain needs at least one code")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def cells(self) -> int:
        """|X|, as an exact integer: it may be astronomically large."""
        return math.prod(size**times for size, times in Counter(self.sizes).items())

    def position(self, name: str) -> int:
        return self.names.index(name)

    def project(self, columns: Sequence[int]) -> Domain:
        """The domain of some columns, given by position, in the order given."""
        return Domain(tuple(self.names[c] for c in columns), tuple(self.sizes[c] for c in columns))

    def shape(self, columns: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.sizes[c] for c in columns)


RECORDS = Domain(("record",), ((1 << 61) - 1,))
"""The universe of `open_records`: one column whose codes are fingerprints of records of any kind."""


class CodedRows(Protocol):
    """The role of a chunk: some rows of a table, whose codes can be read column by column."""

    @property
    def rows(self) -> int: ...

    def column(self, position: int) -> Codes: ...


def fitting(codes: Array, size: int, rows: int) -> Array:
    """The codes of so many rows of a column of this size; refused where they are not."""
    if len(codes) != rows or (rows and int(codes.max()) >= size):
        raise ValueError("a chunk does not fit its domain: it must come from a table of the same schema")
    return codes


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a table as codes, column by column. Columns that are not needed may be absent (None).

    `records` are the canonical forms of the rows, where they were asked for and each row is one record of any kind.
    """

    columns: tuple[Codes | None, ...]
    rows: int
    records: NDArray[np.object_] | None = None

    @classmethod
    def of(
        cls, width: int, columns: Mapping[int, Codes], rows: int, records: NDArray[np.object_] | None = None
    ) -> Chunk:
        """A chunk of a table of so many columns, from those that were read, by position."""
        return cls(tuple(columns.get(position) for position in range(width)), rows, records)

    def column(self, position: int) -> Codes:
        codes = self.columns[position]
        if codes is None:
            raise LookupError(f"column {position} was not read")
        return codes
