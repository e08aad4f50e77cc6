"""What a stream has published by one moment: noisy counts, each with the sum of several noises.

Where the number n of events is public, a count y of a question says n − y of its negation. If a question is counted at
a places and its negation at b, all of them are estimates of one number with independent noises of one law, and their
mean is taken: its noise is the sum of (a + b) times as many draws, divided by a + b, as draws are symmetric. The
negation has the same mean, taken from n, and so the same noise but for its sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.formulas import TooManyBoxes, any_box, opposite, predicate, union
from conspectus.queries.query import Predicate, Query
from conspectus.queries.rules import possible
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence
from .measured_sums import NoisySum
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

EVERY, NONE = Predicate(((),)), Predicate(())


class CountedQueries:
    """Where the questions of a workload are counted, each noise once, by their meaning."""

    def __init__(self, workload: Workload) -> None:
        self._domain, distinct = workload.domain, workload.distinct()
        _, firsts = np.unique(workload.positions_in(distinct), return_index=True)
        self._places: dict[Query, list[int]] = {}
        for place, query in zip(firsts.tolist(), distinct.queries()):
            self._places.setdefault(self.meaning(query), []).append(place)

    def meaning(self, query: Query) -> Query:
        """The same for all questions that mean the same."""
        same = canonical_query(self._domain, query)
        return union(self._domain, same.boxes) if isinstance(same, Predicate) else same

    def places(self, meaning: Query) -> list[int]:
        """Where a question is counted."""
        return self._places.get(meaning, [])

    def of_negation(self, meaning: Query) -> list[int]:
        """Where its negation is counted."""
        if not isinstance(meaning, Predicate):
            return []
        with suppress(TooManyBoxes):
            return self.places(predicate(self._domain, opposite(self._domain, any_box(self._domain, meaning.boxes))))
        return []


@lru_cache(maxsize=8)
def counted_queries(workload: Workload) -> CountedQueries:
    """The same for every moment of a stream."""
    return CountedQueries(workload)


@suggest_keywords
@dataclass(frozen=True, eq=False)
class StreamAnswers(Synopsis):
    """The counts of a stream so far: it answers the questions that were counted, and where the number of events is
    public their negations. It answers no others.

    Attributes:
        domain: The columns of the events.
        workload: What was counted.
        counts: One noisy count for each query.
        law: The noise of one draw, in steps of the workload's grid.
        terms: How many draws are in each count, at most.
        total: The number of events. Where it is public, a count and its negation add up to it.
        adding_up: Whether they do where both were counted, too. Files from before they did go on as they did.
    """

    domain: Domain
    workload: Workload
    counts: NDArray[np.float64]
    law: Noise
    terms: int
    total: Total
    adding_up: bool = True

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
        if workload == self.workload and not (self.total.exact and self.adding_up):
            return np.asarray(self.counts / self.total.divisor)
        return np.array([self.sum_for(query).count for query in workload.queries()]) / self.total.divisor

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with the quantile of its noise; see `Synopsis.estimate`."""
        found = self.sum_for(query.query(0))
        return Estimate.within(found.count, found.margin(confidence), basis="measured")

    def sum_for(self, query: Query) -> NoisySum:
        """The noisy count of one question, with the law of its noise.

        Raises:
            CannotAnswer: Neither it nor what follows from a public number of events was counted.
        """
        known, total = counted_queries(self.workload), self.total
        meaning = known.meaning(query)
        if total.exact and self.adding_up and meaning in (EVERY, NONE):
            return NoisySum(count=total.value if meaning == EVERY else 0.0, kind=None, scale=0.0, terms=0)
        same = known.places(meaning)
        if same and not self.adding_up:
            same, negated = same[:1], []
        else:
            negated = known.of_negation(meaning) if total.exact else []
        ways = [*self.counts[same].tolist(), *(total.value - self.counts[negated]).tolist()]
        if not ways:
            raise CannotAnswer("this stream does not count that: ask one of the questions that it was opened with")
        many = len(ways)
        return NoisySum(
            count=float(np.mean(ways)),
            kind=self.law.kind,
            scale=self.law.scale,
            terms=self.terms * many,
            averaged=self.workload.grid * many,
        )

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Counts describe no distribution; this always raises `CannotAnswer`."""
        raise CannotAnswer("a stream has no rows to give: release the table with a mechanism that makes a histogram")

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The counts, each once, by one of their draws; see `Synopsis.measurements`."""
        return [(self.workload.distinct(), self.law, self.workload.grid)]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        adding_up = {"adding_up": True} if self.adding_up else {}
        meta = {"total": self.total.to_json(), "law": list(self.law), "terms": self.terms, **adding_up}
        return meta, {"counts": pa.table({"count": self.counts}), "measured": workload_part(self.workload)}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        law, terms, adding_up = meta.get("law"), meta.get("terms"), meta.get("adding_up", False)
        if not isinstance(law, list) or len(law) != 2 or type(terms) is not int or not isinstance(adding_up, bool):
            raise BadSynopsis("the counts of the stream are not readable")
        total = Total.from_json(meta.get("total"))
        measured = read_workload(tables, "measured")
        return cls(domain, measured, counts, checked_noise(*law), terms, total, adding_up)
