"""Keys that were published with noisy counts: what is left of a table over an unknown universe.

A key that is not there has a count below about the threshold, and is answered by 0. Noise was added to the key's count
before it was compared, so that a published count is a little too high on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain, code_dtype
from conspectus.data.field import Elements, P
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import sum_quantile, weighted_quantile
from conspectus.queries.addresses import codes_at, exact
from conspectus.queries.query import Workload, WorkloadError
from conspectus.queries.sparse import SparseQueries
from conspectus.queries.supports import written_out
from conspectus.spelling import spelled_methods

from .rows import Rows
from .synopsis import BadSynopsis, CannotAnswer, Total, checked_noise, part

MOST_LISTED = 1 << 16
"""Records that a predicate may stand for and still have an interval."""


@spelled_methods
@dataclass(frozen=True, eq=False)
class SparseTable:
    """Keys (addresses of records), sorted and distinct, each with a noisy count of at least `threshold`."""

    domain: Domain
    keys: Elements
    counts: NDArray[np.int64]
    threshold: int
    noise: Noise
    total: Total

    kind: ClassVar[str] = "sparse-table"

    def __post_init__(self) -> None:
        keys, counts = np.array(self.keys, dtype=np.uint64), np.array(self.counts, dtype=np.int64)
        if keys.ndim != 1 or counts.shape != keys.shape or (keys[1:] <= keys[:-1]).any():
            raise BadSynopsis("published keys are sorted and distinct, with a count for each")
        if type(self.threshold) is not int or self.threshold < 1 or (len(counts) and counts.min() < self.threshold):
            raise BadSynopsis("a published key has a count that reaches the threshold")
        if len(keys) and int(keys[-1]) >= min(self.domain.cells, P):
            raise BadSynopsis("a published key is no record of its table")
        object.__setattr__(self, "noise", checked_noise(*self.noise))
        for name, array in (("keys", keys), ("counts", counts)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Fractions: weights times the counts of published keys."""
        if workload.domain != self.domain:
            raise CannotAnswer("the workload asks about another table: build it from the schema of this synopsis")
        found = [
            block.weighed(self._found(block.index.distinct)[0])
            if isinstance(block, SparseQueries)
            else self._shares(Workload(self.domain, (block,)))
            for block in workload.blocks
        ]
        return np.concatenate(found) / self.total.divisor if found else np.zeros(0)

    def _found(self, addresses: Elements) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The counts of some records, 0 where they were not published; and which ones were."""
        if not len(self.keys):
            return np.zeros(len(addresses)), np.zeros(len(addresses), dtype=bool)
        places = np.minimum(np.searchsorted(self.keys, addresses), len(self.keys) - 1)
        there = self.keys[places] == addresses
        return np.where(there, self.counts[places], 0).astype(np.float64), there

    def _shares(self, workload: Workload) -> NDArray[np.float64]:
        """The counts of other questions among the published rows."""
        if not len(self.keys):
            return np.zeros(len(workload))
        return self._rows.answer(workload) * self._rows.size

    @cached_property
    def _rows(self) -> Rows:
        if not exact(self.domain):
            raise CannotAnswer("the keys of so large a universe are fingerprints: ask with cs.sparse")
        if not len(self.keys):
            raise CannotAnswer("no key reached the threshold, so there are no rows to give: allow a larger budget")
        sizes = zip(codes_at(self.domain, self.keys), self.domain.sizes)
        codes = tuple(column.astype(code_dtype(size)) for column, size in sizes)
        return Rows(self.domain, codes, self.total, self.counts)

    def interval(self, question: Workload, confidence: float) -> tuple[float, float | None]:
        """The count of one sparse query, and how far it may be from the truth.

        Of m records, let Z be the noises. A published count is off by its Z; one that was not published lies between 0
        and the threshold less its Z. So the truth exceeds the answer by at most the threshold times the weights that
        were not published, less Σ wZ; and falls short by at most the published weights times the largest of m noises.
        """
        block = question.blocks[0]
        if not isinstance(block, SparseQueries):
            try:
                block = written_out(question, MOST_LISTED)
            except WorkloadError:
                return float(self.answer(question)[0]) * self.total.divisor, None
        counts, there = self._found(block.addresses)
        weights = block.steps / block.grid
        count = float((weights * counts).sum())
        share = (1 + confidence) / 2
        each = sum_quantile(self.noise.kind, self.noise.scale, 1, 1 - (1 - share) / max(len(weights), 1))
        below = each * float(weights[there].sum())
        together = min(weighted_quantile(self.noise, weights, share), each * float(weights.sum()))
        return count, max(below, self.threshold * float(weights[~there].sum()) + together)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Published rows, each as often as its count says."""
        return self._rows.sample(rows, public_seed=public_seed)

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        meta = {"threshold": self.threshold, "noise": list(self.noise), "total": self.total.to_json()}
        return meta, {"keys": pa.table({"key": self.keys, "count": self.counts})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        noise = meta.get("noise")
        if not isinstance(noise, list) or len(noise) != 2:
            raise BadSynopsis("published keys have one law of noise")
        stored = part(tables, "keys", [("key", pa.uint64()), ("count", pa.int64())])
        keys, counts = stored["key"].to_numpy(), stored["count"].to_numpy()
        total = Total.from_json(meta.get("total"))
        return cls(domain, keys, counts, meta.get("threshold"), checked_noise(*noise), total)  # type: ignore[arg-type]
