"""The base generator for arbitrary questions: synthetic rows by local search against noisy answers.

All it needs of a question is that it can be asked of rows. Rows drift where the sample does not look. So the one-way
marginals are measured once, for a share of the budget; every search starts from them and is held near them. Everything
after the two measurements is post-processing.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np

from conspectus.compiled import processors
from conspectus.counting.statistic_counts import Integers
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.data.domain import Domain
from conspectus.mechanisms.iterative import fitted_deviation
from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.statistic import Statistic
from conspectus.queries.query import Literal, Predicate, Query
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.fitting.row_fitting import (
    OneWay,
    RowFitter,
    Wanted,
    can_fit,
    independent_rows,
)
from conspectus.synopses.fitting.row_trials import TrialFitter
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total, public_sampler

from .generators import as_rows, measured

ANCHOR = Fraction(1, 10)
"""The share of the budget that buys the one-way marginals."""

ROWS, TRIED_ROWS = 1024, 128
"""Synthetic rows: where each change costs little, and where it costs an evaluation of every function."""

TRIES, FURTHER_TRIES, EVALUATIONS = 70_000, 40_000, 20_000
"""Changes that one search tries, in the first round and in a later one, which goes on from the rows before; and at most
how many evaluations of functions, where each change needs all of them."""

MOST_SAMPLED, FIRST = 900, 100
"""Questions that are measured in all, at most; and in the first round, at least."""

SEARCHES = 3
"""Independent searches, whose rows are put together: where nothing was measured each drifts its own way."""

STUCK = 0.1
"""A search is stuck if its squared distance from an answer, in deviations of its noise, is more than this on average;
or if it is more than this above that of the best search."""


HEAT = 2.0
"""By about how much a search that starts again may let the distance grow at a change, at first."""


def one_way(domain: Domain, columns: tuple[int, ...]) -> Workload:
    """The marginals of single columns that the search is anchored on."""
    return Workload(domain, tuple(Marginal(domain, (c,)) for c in columns))


def public_rows(domain: Domain, total: Total, rng: np.random.Generator) -> Rows:
    """Rows that anyone could make: what stands in for a search that found none."""
    return as_rows(domain, np.stack([rng.integers(0, size, TRIED_ROWS) for size in domain.sizes], axis=1), total)


class RowSearch:
    """Rows that fit noisy answers; with `history`, all that were ever measured, starting from the rows before.

    The first call measures the one-way marginals for `anchor`, its own price; every call measures its sample.
    """

    def __init__(
        self,
        problem: Problem,
        total: Total,
        *,
        anchor: Fraction,
        history: bool = True,
        public_seed: int | None = None,
    ) -> None:
        self.problem = problem
        self.total = total
        self.anchor = anchor
        self.history = history
        self.stepwise = can_fit(problem.workload.queries())
        self.searches = SEARCHES if self.stepwise else 1
        self.rows = ROWS if self.stepwise else TRIED_ROWS
        self.rng = public_sampler(public_seed)
        self.near: OneWay | None = None
        self.known: list[tuple[Workload, Vector, float]] = []
        self.found: list[Integers] = []

    def generate(self, curator: Curator, sample: Workload, *, price: Fraction, last: bool) -> Rows | None:
        if self.near is None:
            self.near = self._anchored(curator)
        sample = measured_instead(sample)
        noisy, law = measured(curator, self.problem, sample, price)
        scale = sample.grid * self.total.divisor
        shares = noisy / scale
        if not self.history:
            self.known, self.found = [], []
        self.known.append((sample, shares, fitted_deviation(law) / scale))
        fitter, tries = self._fitter(), FURTHER_TRIES if self.found else TRIES
        if not self.found:
            # More starts than searches: one that got stuck is given up.
            tries = tries // 2
            begun = self._searched(fitter, [self._independent() for _ in range(2 * self.searches)], tries)
            self.found = [rows for rows, _ in sorted(begun, key=lambda result: result[1])[: self.searches]]
        ended = self._searched(fitter, self.found, tries)
        allowed = STUCK * fitter.questions
        if min(left for _, left in ended) > allowed and self.history:
            # What was measured since contradicts a direction that earlier rows took: start again with all of it.
            ended += self._searched(fitter, [self._independent() for _ in range(self.searches)], 2 * tries, heat=HEAT)
        ended.sort(key=lambda result: result[1])
        best, least = ended[0]
        if not math.isfinite(least):
            return None
        kept = [best]
        for rows, left in ended[1 : self.searches]:
            # Rows that took opposite directions fit alone and not together: a question here is not linear.
            if left <= least + allowed and fitter.left(np.concatenate([*kept, rows])) <= least + allowed:
                kept.append(rows)
        # A search that got stuck goes on from the rows of the best one.
        self.found = kept + [best] * (self.searches - len(kept))
        return as_rows(sample.domain, np.concatenate(kept), self.total)

    def _searched(
        self, fitter: RowFitter | TrialFitter, starts: list[Integers], tries: int, *, heat: float = 0.0
    ) -> list[tuple[Integers, float]]:
        """Independent searches, each with coins of its own; the loops run without the interpreter's lock."""
        rng = self.rng.spawn(len(starts))
        if isinstance(fitter, TrialFitter):
            # Foreign code is called from one thread at a time.
            return [fitter.fit(start, tries, own) for start, own in zip(starts, rng)]
        with ThreadPoolExecutor(min(processors(), len(starts))) as pool:
            return list(pool.map(lambda pair: fitter.fit(pair[0], tries, pair[1], heat=heat), zip(starts, rng)))

    def _anchored(self, curator: Curator) -> OneWay:
        """The one-way shares of the columns asked about; a column that nobody asks about is spread evenly."""
        domain, held = self.problem.workload.domain, self.problem.held
        marginals = one_way(domain, held)
        noisy, law = measured(curator, self.problem, marginals, self.anchor)
        parts = dict(zip(held, np.split(noisy, marginals.offsets[1:-1])))
        # All marginals sum to the number of rows, so their mean says what a share is of: no other total is needed.
        rows = max(float(np.mean([part.sum() for part in parts.values()])), 1.0)
        even = [np.full(size, 1 / size) for size in domain.sizes]
        shares = tuple(parts[c] / rows if c in parts else even[c] for c in range(len(domain)))
        off = fitted_deviation(law) / rows
        return OneWay(shares, tuple(off if c in parts else 1.0 for c in range(len(domain))))

    def _independent(self) -> Integers:
        assert self.near is not None
        return independent_rows(self.near, self.rows, self.rng)

    def _fitter(self) -> RowFitter | TrialFitter:
        assert self.near is not None
        domain = self.problem.workload.domain
        answers = np.concatenate([shares for _, shares, _ in self.known])
        deviations = np.concatenate([np.full(len(shares), off) for _, shares, off in self.known])
        if self.stepwise:
            queries: list[Query] = [query for sample, _, _ in self.known for query in sample.queries()]
            return RowFitter(domain, Wanted(queries, answers, deviations), self.near)
        samples = [sample for sample, _, _ in self.known]
        return TrialFitter(samples, answers, deviations, self.near, evaluations=EVALUATIONS)


def usual_sample(problem: Problem, first: int | None, *, of: int, rounds: int) -> tuple[int, tuple[int, ...]]:
    """How many questions the first round measures and each later one draws, from public facts.

    About 6.5·√s in all, where s is the number of rows over the noise of one answer that costs the whole budget: the
    better the answers that the budget buys, the more of them. A third of them, or FIRST, come first: they are spread
    evenly and cost nothing but their noise. Later rounds draw ever fewer, since errors get smaller and finding them
    gets dearer. Chosen on 20,000 functions of Adult, 30,162 rows.

    Args:
        problem: The public facts.
        first: The questions of the first round, if that is set.
        of: The number of questions that there are.
        rounds: The number of rounds.
    """
    rho = float(problem.cap if problem.currency == "zcdp" else problem.cap**2 / 8)
    whole = problem.planned_denominator
    total = round(6.5 * math.sqrt(whole * math.sqrt(rho) * ERROR_STEPS / problem.error_sensitivity))
    total = max(15, min(total, MOST_SAMPLED))
    later = rounds - 1
    first = min(first or max(total // 3, FIRST), of)
    if not later:
        return first, ()
    each = max(later, min(total - total // 3, of - first)) / later
    # From 7/4 of the mean down to 1/4; a single later round draws the mean.
    shares = [1.75 - 1.5 * turn / (later - 1) for turn in range(later)] if later > 1 else [1.0]
    return first, tuple(min(max(1, round(each * share)), of) for share in shares)


def measured_instead(sample: Workload) -> Workload:
    """What is measured of a sample: the questions, but for distances from independence in tables of two by two.

    Such a distance does not say its direction, and rows that took the wrong one have to be searched anew. The number of
    rows in the first cell does say it, moves by a row as the distance does, and with the one-way shares implies it.
    """
    cells = [_first_cell(query) for query in sample.queries()]
    counts = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
    if not counts:
        return sample
    kept = sample.take(np.flatnonzero([cell is None for cell in cells]))
    return kept + Workload(sample.domain, (Conjunctions.of(sample.domain, counts),))


def _first_cell(query: Query) -> Predicate | None:
    """Rows that satisfy the condition of a distance from independence and are of its first class both times."""
    if not isinstance(query, Statistic) or query.kind != "independence" or query.shape != (2, 2):
        return None
    inside = {literal.column: set(literal.codes) for literal in query.given[0]}
    for column, classes in zip(query.over, query.classes):
        first = {code for code, of in enumerate(classes) if of == 0}
        inside[column] = inside.get(column, first) & first
    if not all(inside.values()):
        return None
    return Predicate((tuple(Literal(column, tuple(sorted(codes))) for column, codes in sorted(inside.items())),))
