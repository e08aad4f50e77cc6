"""Weights on the records that were learned about, and one weight for each of the others: sparse multiplicative weights.

A record that no surprise ever listed has the common weight `free`. A question lists its records, so nothing here
depends on the size of the universe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.queries.listed_records import Listed, listed_records
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .addressed import Addressed
from .histogram import MOST_CELLS, Histogram
from .synopsis import BadSynopsis, CannotAnswer, Total, numbers_of, part


@suggest_keywords
@dataclass(frozen=True, eq=False)
class RecordWeights(Addressed):
    """Addresses of records, sorted and distinct, with their weights; `free` is the weight of any other record.

    `sparsity` is the number of records that a question may list.
    """

    weights: NDArray[np.float64]
    free: float
    sparsity: int
    total: Total

    kind: ClassVar[str] = "record-weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = np.array(self.weights, dtype=np.float64)
        self._keep("weights", weights)
        numbers = np.append(weights, self.free)
        shares = np.isfinite(numbers).all() and (numbers >= 0).all() and weights.sum() <= 1 + 1e-9
        demand(
            BadSynopsis,
            (shares, "the weights of records are zero or more, and add up to at most one"),
            (type(self.sparsity) is int and self.sparsity >= 1, "a question may list at least one record"),
        )

    def value(self, listed: Listed) -> float:
        """The fraction of the rows that a list of records holds."""
        addresses, shares = listed
        return min(float((shares * self._taken(addresses, self.weights, self.free)).sum()), 1.0)

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        self._check_domain(workload)
        try:
            return np.array([self.value(listed_records(query, self.sparsity)) for query in workload])
        except WorkloadError as dense:
            raise CannotAnswer(str(dense)) from dense

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the integer table near the weights of all records, where they can be listed."""
        return self._histogram.integer_marginal(columns)

    @cached_property
    def _histogram(self) -> Histogram:
        if self.domain.cells > MOST_CELLS:
            raise CannotAnswer("weights on so many records hold no tables: ask questions that list few of them")
        weights = np.full(self.domain.cells, self.free)
        weights[self.keys.astype(np.int64)] = self.weights
        return Histogram(self.domain, weights if weights.any() else np.ones_like(weights), self.total)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Records are known by their addresses alone; this always raises `CannotAnswer`."""
        raise CannotAnswer("weights on records have no rows to give: there is no way back from an address")

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        meta = {"total": self.total.to_json(), "free": self.free, "sparsity": self.sparsity}
        return meta, {"records": pa.table({"key": self.keys, "weight": self.weights})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        stored = part(tables, "records", [("key", pa.uint64()), ("weight", pa.float64())])
        free, sparsity = meta.get("free"), meta.get("sparsity")
        if type(free) not in (int, float) or not math.isfinite(free) or type(sparsity) is not int:  # type: ignore[arg-type]
            raise BadSynopsis("the synopsis does not say what an unknown record weighs")
        keys, weights = numbers_of(stored["key"]), numbers_of(stored["weight"])
        return cls(domain, keys, weights, float(free), sparsity, Total.from_json(meta.get("total")))  # type: ignore[arg-type]
