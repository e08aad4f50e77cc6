"""One form for each meaning.

The same question may be asked as a list of records, as a parity or as a predicate, and must not be paid for twice. So a
list or a parity that is short enough is written as the predicate that it means.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from conspectus.data.domain import Domain

from .addresses import exact
from .formulas import union
from .query import Linear, Literal, Parity, Predicate, Query, Sparse

_WIDEST_PARITY = 6
"""Parities of more columns are not written as predicates: their boxes double with every column."""

_MOST_LISTED, _WIDEST_COLUMN = 64, 1 << 16
"""Lists of more records, or of columns with more values, stay lists: the boxes of their meaning take long to find."""


def canonical_query(domain: Domain, query: Query) -> Query:
    """The predicate that a query means, with the disjoint boxes of that meaning. Long lists and wide parities stay."""
    if isinstance(query, Parity) and len(query.columns) <= _WIDEST_PARITY:
        query = even_boxes(query)
    if isinstance(query, Sparse) and _few_whole(domain, query):
        query = _cells_of(domain, query)
    if isinstance(query, Linear):
        return Linear(union(domain, query.given.boxes), query.weighting) if len(query.given.boxes) != 1 else query
    # The same meaning can be cut into disjoint boxes in several ways: take the one that `formulas` finds.
    return union(domain, query.boxes) if isinstance(query, Predicate) and len(query.boxes) != 1 else query


def even_boxes(parity: Parity) -> Predicate:
    """A parity as its cells, one by one."""
    even = [codes for codes in product((0, 1), repeat=len(parity.columns)) if sum(codes) % 2 == 0]
    return Predicate(tuple(tuple(Literal(c, (code,)) for c, code in zip(parity.columns, codes)) for codes in even))


def _few_whole(domain: Domain, listed: Sparse) -> bool:
    """Whether a list of records, each with the weight 1, is short enough to be written as a predicate."""
    plain = all(steps == listed.grid for steps in listed.steps)
    return plain and len(listed.addresses) <= _MOST_LISTED and exact(domain) and max(domain.sizes) <= _WIDEST_COLUMN


def _cells_of(domain: Domain, listed: Sparse) -> Predicate:
    codes = np.unravel_index(np.array(listed.addresses, dtype=np.int64), domain.sizes)
    records = np.stack(codes, axis=1).tolist()
    return union(domain, [tuple(Literal(column, (code,)) for column, code in enumerate(record)) for record in records])
