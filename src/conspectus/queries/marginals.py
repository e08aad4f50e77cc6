"""Marginals: every cell of a table over some columns, as one block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from conspectus.data.domain import Domain

from .declared import DeclaredSchema, check_listable, check_schema, positions, told
from .moves import ZeroOne
from .predicates import Conjunctions
from .query import (
    BLOCK_KINDS,
    Counter,
    Indices,
    Literal,
    Predicate,
    Workload,
    WorkloadError,
    check_length,
    total_length,
)


@dataclass(frozen=True)
class Marginal(ZeroOne):
    """The cells of one marginal, in row-major order of the columns' codes, the columns in the order given."""

    domain: Domain
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or not all(0 <= c < len(self.domain) for c in self.columns):
            raise WorkloadError("a marginal needs distinct columns of its table")
        check_length(math.prod(self.shape), "this marginal")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its columns, in its own order."""
        return self.domain.shape(self.columns)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def query(self, index: int) -> Predicate:
        """The cell with this number."""
        codes = np.unravel_index(index, self.shape) if self.columns else ()
        cell = sorted((c, int(code)) for c, code in zip(self.columns, codes) if self.domain.sizes[c] > 1)
        return Predicate((tuple(Literal(c, (code,)) for c, code in cell),))

    def take(self, indices: Indices) -> Conjunctions:
        """Some cells, listed."""
        kept = [i for i in np.argsort(self.columns) if self.shape[i] > 1]
        codes = np.unravel_index(indices, self.shape) if self.columns else ()
        literals = tuple(Literal(self.columns[i], (code,)) for i in kept for code in range(self.shape[i]))
        starts = np.cumsum([0, *(self.shape[i] for i in kept)])
        terms = np.full((len(indices), len(kept)), -1, dtype=np.int64)
        for place, i in enumerate(kept):
            terms[:, place] = starts[place] + codes[i]
        return Conjunctions.build(self.domain, literals, terms)

    def reach(self) -> int:
        """One: a record lies in exactly one cell."""
        return 1

    def contrast(self) -> int:
        """Two, as two records lie in two cells at most; none when there is one cell only."""
        return 2 if len(self) > 1 else 0

    def counter(self) -> Counter:
        from .counting import counter_of

        return counter_of(self)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "marginal", "columns": list(self.columns)}


def _read(domain: Domain, stored: Mapping[str, Any]) -> Marginal:
    return Marginal(domain, tuple(stored["columns"]))


BLOCK_KINDS["marginal"] = _read


def marginals(schema: DeclaredSchema, k: int, columns: Iterable[str] | None = None) -> Workload:
    """Every k-way marginal over the named columns (all of them by default), the combinations in schema order."""
    check_schema(schema)
    domain = schema.domain
    chosen = sorted(positions(schema, columns)) if columns is not None else list(range(len(domain)))
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= len(chosen):
        raise WorkloadError(f"a marginal takes between 0 and {len(chosen)} of these columns, not {told(k)}")
    if k:
        check_listable(schema, chosen)
    what = f"all {k}-way marginals of {len(chosen)} columns"
    check_length(math.comb(len(chosen), k), what)
    check_length(_cells(domain.shape(chosen), k), what)
    return Workload(domain, total_length((Marginal(domain, chosen_k) for chosen_k in combinations(chosen, k)), what))


def marginal(schema: DeclaredSchema, columns: Sequence[str]) -> Workload:
    """The cells of the marginal over these columns, in the order given."""
    check_schema(schema)
    chosen = positions(schema, columns)
    check_listable(schema, chosen)
    return Workload(schema.domain, (Marginal(schema.domain, chosen),))


def _cells(sizes: tuple[int, ...], k: int) -> int:
    """The number of cells of all k-way marginals: the elementary symmetric polynomial of the sizes."""
    sums = [1, *[0] * k]
    for size in sizes:
        for degree in range(k, 0, -1):
            sums[degree] += size * sums[degree - 1]
    return sums[k]
