"""Where a record stands in its universe, as one number below p = 2**61 − 1.

A universe of at most p cells is numbered in row-major order: different records have different addresses. In a larger
one a record's address is the public fingerprint of its tuple of codes, and two records may share it, with a proved
small probability. The address of a row depends on that row alone, so a collision costs accuracy and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows, Domain
from conspectus.data.records.field import Elements, P
from conspectus.data.records.fingerprints import of_tuples


def exact(domain: Domain) -> bool:
    """Whether different records have different addresses."""
    return domain.cells <= P


def addresses(domain: Domain, columns: Sequence[NDArray[Any]], rows: int) -> Elements:
    """The addresses of rows, given as codes column by column."""
    if len(domain) == 1:
        return np.ascontiguousarray(columns[0], dtype=np.uint64)
    if not exact(domain):
        return of_tuples([np.ascontiguousarray(codes, dtype=np.uint64) for codes in columns], rows)
    found = np.zeros(rows, dtype=np.uint64)
    for codes, size in zip(columns, domain.sizes):
        found *= np.uint64(size)
        found += codes.astype(np.uint64)
    return found


def addresses_of(domain: Domain, chunk: CodedRows) -> Elements:
    """The addresses of the rows of a chunk, all of whose columns were read."""
    return addresses(domain, [chunk.column(position) for position in range(len(domain))], chunk.rows)


def codes_at(domain: Domain, places: Elements) -> tuple[NDArray[np.uint64], ...]:
    """The codes of records from their addresses, column by column; where addresses are exact."""
    rest, found = places.copy(), []
    for size in reversed(domain.sizes):
        rest, codes = np.divmod(rest, np.uint64(size))
        found.append(codes)
    return tuple(reversed(found))
