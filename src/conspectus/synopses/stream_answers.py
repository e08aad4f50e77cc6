"""What a stream has published by one moment: noisy counts, each with the sum of several noises.

Where the number n of events is public, a count y of a question says n − y of its negation. If a question is counted at
a places and its negation at b, all of them are estimates of one number with independent noises of one law, and their
mean is taken: its noise is the sum of (a + b) times as many draws, divided by a + b, as draws are symmetric. The
negation has the same mean, taken from n, and so the same noise but for its sign.

A question that is not counted itself is answered where cells of a counted marginal add up to it: its noise is the sum
of theirs, which are independent. Where n is public, n less the other cells says the same. The side with fewer cells is
taken, and the mean of both where they have equally many: so such a question and its negation add up to n, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
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
    Ends,
    Synopsis,
    Total,
    checked_noise,
    ends_of,
    numbers_of,
    part,
    read_workload,
    workload_part,
)

EVERY, NONE = Predicate(((),)), Predicate(())
_MOST_NAMED = 8


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
    """The counts of a stream so far: it answers the questions that were counted, what cells of a counted marginal add
    up to, the number of events, and where that is public negations. It answers no others.

    Attributes:
        domain: The columns of the events.
        workload: What was counted.
        counts: One noisy count for each query.
        law: The noise of one draw, in steps of the workload's grid.
        terms: How many draws are in each count, at most.
        total: The number of events. Where it is public, a count and its negation add up to it.
        adding_up: Whether they do where both were counted, too. Files from before they did go on as they did.
        alike: Whether each count has exactly so many draws of this very law. Otherwise some may be narrower.
    """

    domain: Domain
    workload: Workload
    counts: NDArray[np.float64]
    law: Noise
    terms: int
    total: Total
    adding_up: bool = True
    alike: bool = False

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

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """For every cell of one marginal the quantiles of its noise; see `Synopsis.intervals`."""
        self._check_domain(cells)
        return ends_of([self.sum_for(query) for query in cells.queries()], confidence)

    def sum_for(self, query: Query) -> NoisySum:
        """The noisy count of one question, with the law of its noise.

        Raises:
            CannotAnswer: Neither it was counted, nor what it follows from.
        """
        known, total = counted_queries(self.workload), self.total
        meaning = known.meaning(query)
        if total.exact and self.adding_up and meaning in (EVERY, NONE):
            return self._of_total(every=meaning == EVERY)
        same = known.places(meaning)
        if same and not self.adding_up:
            same, negated = same[:1], []
        else:
            negated = known.of_negation(meaning) if total.exact else []
        ways = [*self.counts[same].tolist(), *(total.value - self.counts[negated]).tolist()]
        if ways:
            return self._averaged(ways, 1)
        if meaning in (EVERY, NONE):
            return self._of_total(every=meaning == EVERY)
        if (summed := self._of_cells(meaning)) is None:
            raise CannotAnswer(f"this stream does not count that, nor cells that add up to it: {self._counted()}")
        return summed

    def cells(self, columns: Sequence[int]) -> tuple[NDArray[np.float64], int] | None:
        """The counts of all cells of some columns in schema order, as sums of those of one counted marginal, and how
        many of these are in each: the fewest there are. None where no counted marginal has these columns."""
        shape, best = self.domain.shape, None
        for block, start, end in self._marginals():
            outside = tuple(axis for axis, c in enumerate(block.columns) if c not in columns)
            many = math.prod(shape(block.columns)[axis] for axis in outside)
            if set(columns) <= set(block.columns) and (best is None or many < best[1]):
                summed = self.counts[start:end].reshape(shape(block.columns)).sum(axis=outside)
                kept = [c for c in block.columns if c in columns]
                best = np.asarray(summed.transpose([kept.index(c) for c in columns]).ravel()), many
        return best

    def _marginals(self) -> Iterator[tuple[Marginal, int, int]]:
        """The marginals that were counted, and where their counts are."""
        for block, start, end in zip(self.workload.blocks, self.workload.offsets, self.workload.offsets[1:]):
            if isinstance(block, Marginal):
                yield block, start, end

    def _of_cells(self, meaning: Query) -> NoisySum | None:
        """A question as a sum of the fewest cells of one marginal; None where there is no such sum."""
        best: NoisySum | None = None
        for block, start, end in self._marginals():
            if not isinstance(meaning, Predicate) or not set(meaning.columns) <= set(block.columns):
                continue
            counts, inside = self.counts[start:end], values_on(meaning, self.domain, block.columns) > 0
            sides = [(int(inside.sum()), float(counts[inside].sum()))]
            if self.total.exact and self.adding_up:
                sides.append((int((~inside).sum()), self.total.value - float(counts[~inside].sum())))
            many = min(cells for cells, _ in sides)
            found = self._averaged([count for cells, count in sides if cells == many], many)
            best = found if best is None or found.variance < best.variance else best
        return best

    def _averaged(self, ways: list[float], cells: int) -> NoisySum:
        """The mean of several estimates, each of which has the independent noises of so many counts."""
        many = len(ways)
        return NoisySum(
            count=float(np.mean(ways)),
            kind=self.law.kind,
            scale=self.law.scale,
            terms=self.terms * many * cells,
            averaged=self.workload.grid * many,
        )

    def _of_total(self, *, every: bool) -> NoisySum:
        """The number of all events, or that of none."""
        total = self.total
        if not every or total.exact:
            return NoisySum(count=total.value if every else 0.0, kind=None, scale=0.0, terms=0)
        return NoisySum(
            count=total.value, kind=total.kind, scale=total.scale, terms=total.terms, averaged=total.averaged
        )

    def _counted(self) -> str:
        """What was counted, for a refusal."""
        names = self.domain.names
        found = [f"every cell of {' × '.join(names[c] for c in block.columns)}" for block, _, _ in self._marginals()]
        others = [block for block in self.workload.blocks if not isinstance(block, Marginal)]
        if listed := sum(map(len, others)):
            about = sorted({c for block in others for c in block.columns})
            told = ", ".join(names[c] for c in about[:_MOST_NAMED]) + (", …" if len(about) > _MOST_NAMED else "")
            found.append(f"{listed:,} listed question{'s' * (listed > 1)} about {told or 'all events'}")
        found = list(dict.fromkeys(found))
        more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
        return f"it counts {', '.join(found[:_MOST_NAMED])}{more}"

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Counts describe no distribution; this always raises `CannotAnswer`."""
        raise CannotAnswer("a stream has no rows to give: release the table with a mechanism that makes a histogram")

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The counts, each once, by one of their draws; see `Synopsis.measurements`."""
        return [(self.workload.distinct(), self.law, self.workload.grid)]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        adding_up = {"adding_up": True} if self.adding_up else {}
        alike = {"alike": True} if self.alike else {}
        meta = {"total": self.total.to_json(), "law": list(self.law), "terms": self.terms, **adding_up, **alike}
        return meta, {"counts": pa.table({"count": self.counts}), "measured": workload_part(self.workload)}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        law, terms = meta.get("law"), meta.get("terms")
        adding_up, alike = meta.get("adding_up", False), meta.get("alike", False)
        flags = isinstance(adding_up, bool) and isinstance(alike, bool)
        if not isinstance(law, list) or len(law) != 2 or type(terms) is not int or not flags:
            raise BadSynopsis("the counts of the stream are not readable")
        total = Total.from_json(meta.get("total"))
        measured = read_workload(tables, "measured")
        return cls(domain, measured, counts, checked_noise(*law), terms, total, adding_up, alike)
