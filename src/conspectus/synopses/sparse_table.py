"""Keys that were published with noisy counts: what is left of a table over an unknown universe.

A key that is not there has a count below about the threshold, and is answered by 0. A key was published because its
noisy count reached the threshold. So the noise of published counts is a little too high on average, and that of a count
just above the threshold may be far too high. Intervals allow for that.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain, code_dtype
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import shown_interval, sum_quantile, weighted_quantile
from conspectus.queries.addresses import codes_at, exact
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.builders.sparse import written_out
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .addressed import Addressed
from .estimate import Estimate
from .evidence import Evidence
from .rows import Rows
from .synopsis import BadSynopsis, CannotAnswer, Synopsis, Total, checked_noise, numbers_of, part

Margins = tuple[float, float]
"""How far below an answer the truth may be, and how far above."""

MOST_LISTED = 1 << 16
"""Records that a predicate may stand for and still have an interval."""


@suggest_keywords
class PublishedKeys(Synopsis):
    """What both kinds of published keys do alike: each key has a noisy count, and what has none is answered by 0."""

    answers_alone: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    counts: NDArray[np.int64]

    @abstractmethod
    def interval(self, question: Workload, confidence: float) -> tuple[float, Margins | None]:
        """The count of one query, and how far the truth may be below it and above it; None where that is not known."""

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with what noise and threshold may have done to it; see `Synopsis.estimate`."""
        count, margins = self.interval(query, confidence)
        if margins is None:
            return Estimate.unguaranteed(count / self.total.divisor, self.total.divisor)
        return Estimate.within(count, *margins, basis="guessed")


@suggest_keywords
@dataclass(frozen=True, eq=False)
class SparseTable(Addressed, PublishedKeys):
    """Keys (addresses of records), each with a noisy count of at least `threshold`."""

    counts: NDArray[np.int64]
    threshold: int
    noise: Noise
    total: Total

    kind: ClassVar[str] = "sparse-table"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep("counts", np.array(self.counts, dtype=np.int64))
        check_threshold(self.counts, self.threshold)
        object.__setattr__(self, "noise", checked_law(self.noise))

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Fractions: weights times the counts of published keys."""
        self._check_domain(workload)
        found = [
            block.weighed(self._taken(block.index.distinct, self.counts, 0))
            if isinstance(block, SparseQueries)
            else self._shares(Workload(self.domain, (block,)))
            for block in workload.blocks
        ]
        return np.concatenate(found) / self.total.divisor if found else np.zeros(0)

    def _shares(self, workload: Workload) -> NDArray[np.float64]:
        """The counts of other questions among the published rows."""
        if not len(self.keys):
            return np.zeros(len(workload))
        return self._rows.answer(workload) * self._rows.size

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the published rows, each as often as its count says; see `Synopsis.integer_marginal`.

        Rows that were not published are in no cell: the counts sum to those of the published ones, not to the total.
        """
        if not len(self.keys):
            return np.zeros(math.prod(self.domain.shape(tuple(columns))), dtype=np.int64)
        return self._rows.integer_marginal(columns)

    @cached_property
    def _rows(self) -> Rows:
        if not exact(self.domain):
            raise CannotAnswer("the keys of so large a universe are fingerprints: ask with cs.sparse")
        if not len(self.keys):
            raise CannotAnswer("no key reached the threshold, so there are no rows to give: allow a larger budget")
        sizes = zip(codes_at(self.domain, self.keys), self.domain.sizes)
        codes = tuple(column.astype(code_dtype(size)) for column, size in sizes)
        published = Total(value=float(self.counts.sum()), exact=True)
        return Rows(self.domain, codes, published, self.counts)

    def interval(self, question: Workload, confidence: float) -> tuple[float, Margins | None]:
        """The count of one sparse query, and how far the truth may be below it and above it.

        Of m records, let Z be the noises. A published count is off by its Z; one that was not published lies between 0
        and the threshold less its Z. So the truth exceeds the answer by at most the threshold times the weights that
        were not published, less Σ wZ. It falls short by what the published records may lack: each has a lowest count
        that holds given that it was published (`shown_interval`), at a share 1/m of the failures. That a record was
        published makes its Z larger, so that for published records the other end holds given that as well.
        """
        block = question.blocks[0]
        if not isinstance(block, SparseQueries):
            try:
                block = written_out(question, MOST_LISTED)
            except WorkloadError:
                return float(self.answer(question)[0]) * self.total.divisor, None
        counts, (places, there) = self._taken(block.addresses, self.counts, 0), self._found(block.addresses)
        weights = block.steps / block.grid
        count = float((weights * counts).sum())
        share = (1 + confidence) / 2
        each = sum_quantile(self.noise.kind, self.noise.scale, 1, 1 - (1 - share) / max(len(weights), 1))
        together = min(weighted_quantile(self.noise, weights, share), each * float(weights.sum()))
        above = self.threshold * float(weights[~there].sum()) + together
        if not there.any():
            return count, (0.0, above)
        shown, each_may_fail = self.counts[places[there]], (1 - confidence) / len(weights)
        low, high = shown_interval(self.noise.scale, shown, self.threshold, 1 - each_may_fail)
        below = float((weights[there] * (shown - low)).sum())
        if not there.all():
            return count, (below, above)
        if len(weights) > 1:
            # Which of two ends is nearer hangs on the noise: they share the half of the failures that is for this side.
            _, high = shown_interval(self.noise.scale, shown, self.threshold, 1 - each_may_fail / 2)
            return count, (below, min(above, float((weights * (high - shown)).sum())))
        return count, (below, float((weights * (high - shown)).sum()))

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Published rows, each as often as its count says."""
        return self._rows.sample(rows, public_seed=public_seed)

    def published_at(self) -> tuple[Noise, int]:
        """The noise on the counts, and the least count that was shown."""
        return self.noise, self.threshold

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        meta = facts(self.threshold, self.noise, self.total)
        return meta, {"keys": pa.table({"key": self.keys, "count": self.counts})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        stored = part(tables, "keys", [("key", pa.uint64()), ("count", pa.int64())])
        keys, counts = numbers_of(stored["key"]), numbers_of(stored["count"])
        return cls(domain, keys, counts, *read_facts(meta))


Facts = tuple[int, Noise, Total]


def facts(threshold: int, noise: Noise, total: Total) -> dict[str, Any]:
    """What is written of published keys besides themselves."""
    return {"threshold": threshold, "noise": list(noise), "total": total.to_json()}


def read_facts(meta: Mapping[str, Any]) -> Facts:
    """The inverse of `facts`; refuses anything else."""
    noise, threshold = meta.get("noise"), meta.get("threshold")
    if not isinstance(noise, list) or len(noise) != 2:
        raise BadSynopsis("published keys have one law of noise")
    if type(threshold) is not int:
        raise BadSynopsis("published keys have a threshold")
    return threshold, checked_law(Noise(*noise)), Total.from_json(meta.get("total"))


def checked_law(noise: Noise) -> Noise:
    """The noise of published keys, which is Laplace noise: refused otherwise."""
    law = checked_noise(*noise)
    if law.kind != "laplace":
        raise BadSynopsis("published keys have Laplace noise on their counts")
    return law


def check_threshold(counts: NDArray[np.int64], threshold: int) -> None:
    if type(threshold) is not int or threshold < 1 or (len(counts) and counts.min() < threshold):
        raise BadSynopsis("a published key has a count that reaches the threshold")
