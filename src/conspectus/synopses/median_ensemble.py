"""Several synopses that answer together: each question gets the weighted median of their answers.

If members of more than half of the weight are within some distance of the truth, so is the median; that is all that
boosting needs. Each member may be wrong anywhere as long as not too many are wrong at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain, code_dtype, in_words
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Predicate
from conspectus.queries.rules import demand
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.fitting.max_entropy import fit_histogram
from conspectus.synopses.fitting.measured_parts import as_measured
from conspectus.synopses.fitting.row_fitting import OneWay, RowFitter, Wanted, can_fit

from .estimate import Estimate
from .evidence import Evidence
from .histogram import MOST_CELLS, Histogram
from .printed_tables import PrintedTables, near_answers
from .rows import Rows
from .synopsis import (
    BadSynopsis,
    CannotAnswer,
    Ends,
    Synopsis,
    Total,
    load_synopsis,
    public_sampler,
    read_workload,
    workload_part,
)

MOST_MEMBERS = 200
MOST_FITTED = 1 << 18
"""The most answers of an ensemble that a histogram is fitted to."""

MOST_SEARCHED = 1000
"""The most answers that rows are fitted to at once."""

_SEED = 1
_STEPS = 200
_TRIES = 60_000
_CLOSE = 0.002
"""How far off an answer may be, as a share, before it matters to the rows that are fitted to it."""


@suggest_keywords
@dataclass(frozen=True, eq=False)
class MedianEnsemble(Synopsis):
    """Members with whole-numbered weights; `workload` holds the questions that they were made for."""

    domain: Domain
    members: tuple[Synopsis, ...]
    weights: tuple[int, ...]
    workload: Workload
    total: Total

    kind: ClassVar[str] = "median-ensemble"
    additive: ClassVar[bool] = False  # a sum of medians is not the median of the sums

    def __post_init__(self) -> None:
        few = 0 < len(self.members) <= MOST_MEMBERS and len(self.weights) == len(self.members)
        integers = all(type(weight) is int and 0 <= weight < 1 << 48 for weight in self.weights) and any(self.weights)
        alike = {self.workload.domain, *(member.domain for member in self.members)} == {self.domain}
        demand(
            BadSynopsis,
            (few, f"an ensemble has between 1 and {MOST_MEMBERS} members, and a weight for each"),
            (integers, "the weights of an ensemble are whole numbers, zero or more, and not all zero"),
            (alike, "the members of an ensemble and its questions are about one table"),
        )

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns of the questions that the members were made for."""
        return self.workload.columns

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """The weighted median of the members' answers, question by question."""
        self._check_asked(workload)
        return self._medians(workload)

    def _medians(self, workload: Workload) -> NDArray[np.float64]:
        return weighted_median(np.stack([member.answer(workload) for member in self.members]), self.weights)

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The median, with the interval of the bound where it was released; else with that of sums of released cells.

        A sum of medians is not the median of the sums, so that the bound says nothing of the median of what was not
        released. It does say how far the released cells that add up to it are from the truth, each by one bound.
        """
        found = super().estimate(query, confidence, beside)
        asked = canonical_query(self.domain, query.query(0))
        if found.low is not None or beside is None or not isinstance(asked, Predicate):
            return found
        columns = tuple(sorted(asked.columns))
        covering = list(self._covering(columns, beside))
        if not covering or beside.bound is None:
            return found
        held = np.zeros(self.domain.shape(columns), dtype=bool)
        for box in asked.boxes:
            codes = {literal.column: literal.codes for literal in box}
            held[np.ix_(*(codes.get(column, range(self.domain.sizes[column])) for column in columns))] = True
        chosen = held.ravel()
        sums = [(flat[chosen].sum(keepdims=True), flat.sum(), copies * chosen.sum()) for flat, copies in covering]
        low, high = self._ends(sums, covering, beside.bound.counts_at(confidence))
        count = min(max(found.count, float(low[0])), float(high[0]))
        return Estimate(count=count, low=float(low[0]), high=float(high[0]), basis="guessed", share=found.share)

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """As `estimate` takes them, for every cell of one marginal."""
        ends = super().intervals(cells, confidence, beside)
        if beside is None or beside.bound is None or not np.isnan(ends[0]).all():
            return ends
        covering = list(self._covering(cells.blocks[0].columns, beside))
        if not covering:
            return ends
        sums = [(flat, flat.sum(), copies) for flat, copies in covering]
        return self._ends(sums, covering, beside.bound.counts_at(confidence))

    def _covering(self, columns: tuple[int, ...], beside: Evidence) -> Iterator[tuple[NDArray[np.float64], int]]:
        """The counts of all cells of some columns by each released marginal that covers them, and of how many cells of
        it each is the sum."""
        for number, block in enumerate(beside.workload.blocks):
            if not isinstance(block, Marginal) or not set(columns) <= set(block.columns):
                continue
            start, end = beside.workload.offsets[number : number + 2]
            table = beside.answers[start:end].reshape(self.domain.shape(block.columns)) * self.total.divisor
            kept = [column for column in block.columns if column in columns]
            outside = tuple(axis for axis, column in enumerate(block.columns) if column not in columns)
            flat = table.sum(axis=outside).transpose([kept.index(column) for column in columns]).ravel()
            yield flat, len(block) // len(flat)

    def _ends(
        self,
        sums: Sequence[tuple[NDArray[np.float64], float, int]],
        covering: Sequence[tuple[NDArray[np.float64], int]],
        reach: float,
    ) -> Ends:
        """The ends of intervals of sums of released cells, each of which is within `reach` of the truth.

        The bound holds for all released answers at once: so do the intervals that follow from each marginal, and where
        the total is exact from what its other cells leave of it. The truth lies in all of them. If nothing does, the
        bound fails, which it may as often as was asked for; then the narrowest one is taken.

        Args:
            sums: For each marginal the sums, the sum of all its cells, and how many cells each sum has.
            covering: What the sums are made of.
            reach: The bound, in counts.
        """
        ways = []
        for (found, whole, summed), (flat, copies) in zip(sums, covering):
            ways.append((found, reach * summed))
            if self.total.exact:
                ways.append((self.total.value - (whole - found), reach * (copies * len(flat) - summed)))
        low = np.max([found - margin for found, margin in ways], axis=0)
        high = np.min([found + margin for found, margin in ways], axis=0)
        best, margin = min(ways, key=lambda way: way[1])
        fails = low > high
        return np.where(fails, best - margin, low), np.where(fails, best + margin, high)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows of the histogram that fits the ensemble's answers, or of rows that do where they are no counts."""
        if any(isinstance(member, Rows) for member in self.members):
            return self.fitted_rows(public_seed=public_seed).sample(rows, public_seed=public_seed)
        return self.fitted.sample(rows, public_seed=public_seed)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the integer table near the histogram that fits the answers, or of rows that do."""
        return self._printed.integer_marginal(columns)

    @cached_property
    def _printed(self) -> Histogram | Rows | PrintedTables:
        """What all printed tables are counted from."""
        with suppress(CannotAnswer):
            return self.fitted
        if any(isinstance(member, Rows) for member in self.members):
            return self.fitted_rows(public_seed=_SEED)
        blocks = self.workload.distinct().blocks
        sets = [tuple(sorted(block.columns)) for block in blocks if isinstance(block, Marginal)]
        return near_answers(self, sets, [1.0] * len(sets)) if sets else self.fitted

    def fitted_rows(self, *, public_seed: int | None = None) -> Rows:
        """Rows near the ensemble's answers to the questions that it was made for: post-processing.

        The search starts from the rows of the heaviest member and looks at `MOST_SEARCHED` of the questions, drawn with
        public rng. Functions that only their name is left of cannot be asked: then that member's rows it is.
        """
        members = [(weight, member) for weight, member in zip(self.weights, self.members) if isinstance(member, Rows)]
        heaviest = max(members, key=lambda pair: pair[0])[1]
        asked = self.workload.distinct()
        rng = public_sampler(public_seed)
        if not can_fit(asked.queries()):
            return heaviest
        chosen = asked.take(np.sort(rng.permutation(len(asked))[:MOST_SEARCHED]))
        marginals = Workload(self.domain, tuple(Marginal(self.domain, (c,)) for c in range(len(self.domain))))
        shares = np.split(self._medians(marginals), marginals.offsets[1:-1])
        one_way = OneWay(tuple(shares), (_CLOSE,) * len(shares))
        wanted = Wanted(list(chosen.queries()), self.answer(chosen), np.full(len(chosen), _CLOSE))
        start = np.stack([codes.astype(np.int64) for codes in heaviest.codes], axis=1)
        codes, _ = RowFitter(self.domain, wanted, one_way).fit(start, _TRIES, rng)
        columns = tuple(codes[:, c].astype(code_dtype(size)) for c, size in enumerate(self.domain.sizes))
        return Rows(self.domain, columns, self.total)

    @cached_property
    def fitted(self) -> Histogram:
        """One histogram near the ensemble's answers to the questions that it was made for: post-processing.

        Medians of marginals are marginals of no table in general, so the fit is near them and not equal to them.
        """
        asked = self.workload.distinct()
        if not asked.linear:
            raise CannotAnswer("no histogram has these answers: they are functions of the table, and no counts")
        held = asked.columns or (0,)
        domain = self.domain.project(held)
        if domain.cells > MOST_CELLS or len(asked) > MOST_FITTED:
            raise CannotAnswer(
                f"{in_words(domain.cells)} cells and {len(asked):,} answers are too many to fit rows to (limits "
                f"{MOST_CELLS:,} and {MOST_FITTED:,}): ask about fewer columns, or release with projection"
            )
        counts = self.answer(asked) * self.total.divisor
        wanted = list(as_measured(asked, held, counts, 1.0, self.total.divisor))  # each to a row
        fit = fit_histogram(domain, wanted, self.total.divisor, steps=_STEPS)
        return Histogram(self.domain, fit.weights, self.total, held)

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        tables = {"asked": workload_part(self.workload)}
        listed = []
        for number, (member, weight) in enumerate(zip(self.members, self.weights)):
            meta, inner = member.parts()
            listed.append({"kind": member.kind, "meta": meta, "weight": weight})
            tables |= {f"member-{number}-{name}": table for name, table in inner.items()}
        return {"total": self.total.to_json(), "members": listed}, tables

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        workload = read_workload(tables, "asked")
        listed = meta.get("members")
        if (
            not isinstance(listed, list)
            or len(listed) > MOST_MEMBERS
            or any(not isinstance(entry, dict) or set(entry) != {"kind", "meta", "weight"} for entry in listed)
            or any(not isinstance(entry["kind"], str) for entry in listed)
        ):
            raise BadSynopsis("the members of the ensemble are not readable")
        # An ensemble of ensembles has no use, and a file could nest them without end.
        if any(entry["kind"] == cls.kind or not isinstance(entry["meta"], dict) for entry in listed):
            raise BadSynopsis("the members of the ensemble are of no kind that it can have")
        members = []
        for number, entry in enumerate(listed):
            head = f"member-{number}-"
            inner = {name.removeprefix(head): table for name, table in tables.items() if name.startswith(head)}
            members.append(load_synopsis(domain, entry["kind"], entry["meta"], inner))
        weights = tuple(entry["weight"] for entry in listed)
        return cls(domain, tuple(members), weights, workload, Total.from_json(meta.get("total")))


def weighted_median(values: NDArray[np.float64], weights: tuple[int, ...]) -> NDArray[np.float64]:
    """The midpoint of the lower and the upper weighted median of each column.

    Where more than half of the weight lies in an interval, so do both medians, and so does their midpoint.
    """
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    up_to = 2 * np.cumsum(np.array(weights, dtype=np.int64)[order], axis=0)
    lower = (up_to >= up_to[-1] // 2).argmax(axis=0)
    upper = (up_to > up_to[-1] // 2).argmax(axis=0)
    every = np.arange(values.shape[1])
    return np.asarray((ranked[lower, every] + ranked[upper, every]) / 2)
