"""What a stream has published by one moment: noisy counts, each with the sum of several noises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import noise_margin
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Query
from conspectus.queries.rules import possible
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence
from .synopsis import (
    BadSynopsis,
    CannotAnswer,
    Synopsis,
    Total,
    checked_noise,
    numbers_of,
    part,
    read_workload,
    workload_part,
)


@suggest_keywords
@dataclass(frozen=True, eq=False)
class StreamAnswers(Synopsis):
    """The counts of a stream so far: it answers the questions that were counted, and no others.

    Attributes:
        domain: The columns of the events.
        workload: What was counted.
        counts: One noisy count for each query.
        law: The noise of one draw, in steps of the workload's grid.
        terms: How many draws are in each count, at most.
        total: The number of events.
    """

    domain: Domain
    workload: Workload
    counts: NDArray[np.float64]
    law: Noise
    terms: int
    total: Total

    kind: ClassVar[str] = "stream-answers"
    title: ClassVar[str] = "the noisy counts of a stream"
    all_measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.float64).ravel()
        if self.workload.domain != self.domain or counts.size != len(self.workload) or not possible(counts):
            raise BadSynopsis("the counts of a stream are one number for each query of its workload")
        if type(self.terms) is not int or self.terms < 1:
            raise BadSynopsis("a count of a stream carries one draw of noise or more")
        counts.flags.writeable = False
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "law", checked_noise(*self.law))

    @property
    def known_columns(self) -> Sequence[int]:
        return self.workload.columns

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        self._check_domain(workload)
        if workload == self.workload:
            return np.asarray(self.counts / self.total.divisor)
        return np.array([self._count(query) for query in workload.queries()]) / self.total.divisor

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with the quantile of its noise; see `Synopsis.estimate`."""
        margin = noise_margin(self.law.kind, self.law.scale, self.terms, confidence) / self.workload.grid
        return Estimate.within(self._count(query.query(0)), margin, basis="measured")

    def _count(self, query: Query) -> float:
        wanted = (query, canonical_query(self.domain, query))
        for place, held in enumerate(self.workload.queries()):
            if held in wanted or canonical_query(self.domain, held) == wanted[1]:
                return float(self.counts[place])
        raise CannotAnswer("this stream does not count that: ask one of the questions that it was opened with")

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Counts describe no distribution; this always raises `CannotAnswer`."""
        raise CannotAnswer("a stream has no rows to give: release the table with a mechanism that makes a histogram")

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The counts, each once, by one of their draws; see `Synopsis.measurements`."""
        return [(self.workload.distinct(), self.law, self.workload.grid)]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        meta = {"total": self.total.to_json(), "law": list(self.law), "terms": self.terms}
        return meta, {"counts": pa.table({"count": self.counts}), "measured": workload_part(self.workload)}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        law, terms = meta.get("law"), meta.get("terms")
        if not isinstance(law, list) or len(law) != 2 or type(terms) is not int:
            raise BadSynopsis("the counts of the stream are not readable")
        total = Total.from_json(meta.get("total"))
        return cls(domain, read_workload(tables, "measured"), counts, checked_noise(*law), terms, total)
