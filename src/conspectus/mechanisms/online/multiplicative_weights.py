"""Private multiplicative weights: the online loop with a dense histogram as its guess (the book's Algorithms 5 and 6).

Primed by default: a share of the budget first buys all marginals of a low order, and the session starts from the
maximum-entropy histogram that agrees with them; each measured surprise refits it to everything measured so far. With
`priming=0` it is the book's: from uniform weights, one multiplicative step a surprise, to where the answer is met.

Privacy: composes the row total, one measurement of the priming marginals, and the loop; the rest post-processes.
Accuracy: T(α) = 4 ln|X|/α² updates at rate α/2 (Theorem 4.10), so that with `theorem` every answer is within 3α. The
refit has no such count; its answers are as good as the loop's margins say, as long as there are hits left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from conspectus.curator.curator import Curator
from conspectus.mechanisms.iterative import MultiplicativeWeights, Refit, Step
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Refusal, SettingError, no_histogram
from conspectus.mechanisms.rule import State, Stream
from conspectus.mechanisms.sparse_vector import FAILURE, Plan, make_plan
from conspectus.mechanisms.total import SHARE, find_total
from conspectus.privacy.events import Noise
from conspectus.queries.marginals import Marginal
from conspectus.queries.one_by_one import OneByOne
from conspectus.queries.query import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .loop import CITES, OnlineConstruction, read_state, stored_marginals, theorem_plan

MOST_MARGINALS, MOST_PRIMED = 5_000, 1 << 20
NOISIEST = 0.02
"""Marginals of a higher order are bought while the noise of one count stays below this part of the rows."""
EVALUATIONS, RIDGE = 200, 1.0
PRIMED_HITS = 5


def updates(alpha: float, cells: int) -> float:
    """T(α) = 4 ln|X|/α²: how often multiplicative weights at rate α/2 can be off by α (Theorem 4.10)."""
    return 4 * math.log(cells) / alpha**2


class FullStep(MultiplicativeWeights):
    """The same step, as long as it takes to meet the measured answer: η = logit(answer) − logit(guess).

    The book's η = α/2 proves the number of updates and wastes most of them. Answers are kept a noise away from 0 and 1.
    """

    def update(self, step: Step, total: float) -> None:
        near = min(step.law.scale / total, 0.25)
        answer, guess = (np.clip(counts / total, near, 1 - near) for counts in (step.noisy, step.guessed))
        self.rate = float(abs(np.log(answer / (1 - answer)) - np.log(guess / (1 - guess)))[0])
        super().update(step, total)


class DenseGuess:
    """A histogram over all columns, stepped or refitted, that answers single queries from marginals it keeps."""

    def __init__(self, rule: MultiplicativeWeights | Refit, problem: Stream, total: Total) -> None:
        self._domain = problem.workload.domain
        self._rule = rule
        self._total = total
        self._cells = OneByOne(self._domain, rule.weights)

    def of(self, query: Workload) -> float:
        return min(max(float(self._cells.of(query.query(0))), 0.0), 1.0)

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        guessed = np.array([self.of(query) * self._total.divisor])
        self._rule.update(Step(query, np.array([noisy]), guessed, law), self._total.divisor)
        self._cells = OneByOne(self._domain, self._rule.weights)

    def synopsis(self) -> Histogram:
        return Histogram(self._domain, self._rule.weights, self._total)


@dataclass(frozen=True, kw_only=True)
class Pmw:
    """`priming` is the share of the budget that buys marginals of `order` columns first (0: the book's algorithm).

    `hits` is the number of surprises that the rest pays for, `threshold` (a fraction of the rows) from where an error
    is one, `measuring` the share of a hit that buys its answer; what is not given follows from public facts. `theorem`
    takes all parameters from Theorem 5.13 and its kin instead, where the number of rows is public.
    """

    priming: float | None = None
    order: int | None = None
    hits: int | None = None
    threshold: float | None = None
    measuring: float | None = None
    theorem: bool = False

    name: ClassVar[str] = "pmw"

    def __post_init__(self) -> None:
        if not 0 <= (self.priming or 0) < 1 or (self.order is not None and self.order < 1):
            raise SettingError("priming lies in [0, 1), order at 1 or above")
        if (self.hits is not None and self.hits < 1) or (self.threshold is not None and not 0 <= self.threshold < 1):
            raise SettingError("hits is at least 1, and threshold a fraction of the rows")
        if self.measuring is not None and not 0 < self.measuring < 1:
            raise SettingError("measuring lies strictly between 0 and 1")
        if self.theorem and (self.priming or self.hits or self.threshold is not None or self.measuring):
            raise SettingError("theorem chooses hits, threshold and measuring itself, and knows no priming")

    @property
    def _priming(self) -> Fraction:
        if self.theorem:
            return Fraction(0)
        return Fraction(1, 2) if self.priming is None else Fraction(self.priming)

    def claim(self, problem: Stream) -> Claim | Refusal:
        reason = no_histogram(problem)
        if reason is None and self.theorem and not (problem.total_is_public and problem.rows):
            reason = "its theorem needs a public number of rows: leave theorem out"
        if reason is not None:
            return Refusal(mechanism=self.name, reason=reason)
        rows = float(problem.rows or 1)
        left = problem.cap * (1 if problem.total_is_public else 1 - SHARE)
        try:
            plan, alpha = self._plan(problem, left, rows)
        except SettingError as vacuous:
            return Refusal(mechanism=self.name, reason=str(vacuous))
        passed = plan.passed(problem.questions).counts_at(1 - FAILURE)
        bound = None
        if alpha is not None:
            value = max(passed, plan.measured.counts_at(1 - FAILURE)) / rows
            bound = ErrorBound(value=value, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        primed = self._priming_law(problem, left, rows)
        # Typical, from measurements: a primed guess is off by a fraction of its noise, the book's by what is no hit.
        mean = plan.threshold / 4 if primed is None else primed[1].scale / 4
        return Claim(
            mechanism=self.name,
            expected_max=plan.threshold if primed is None else primed[1].scale,
            expected_mean=mean,
            bound=bound,
            memory=8 * 14 * problem.cells,
            citations=(*CITES, "Hardt & Rothblum 2010"),
            notes=(
                f"at most {plan.hits:,} of {problem.questions:,} questions are paid for",
                f"an answer is within {passed / rows:.3g} of the truth while there are hits left"
                if problem.rows
                else f"an answer is within {passed:.0f} rows of the truth while there are hits left",
            ),
        )

    def _marginals(self, problem: Stream, price: Fraction, rows: float) -> Workload:
        """All marginals of the order asked for, or of the highest one that is not too noisy."""
        domain = problem.workload.domain
        orders = [min(self.order, len(domain))] if self.order else range(min(3, len(domain)), 0, -1)
        for order in orders:
            sets = list(combinations(range(len(domain)), order))
            many = len(sets) > MOST_MARGINALS or sum(math.prod(domain.shape(c)) for c in sets) > MOST_PRIMED
            if many and order > 1:
                continue
            workload = Workload(domain, tuple(Marginal(domain, columns) for columns in sets))
            law = problem.law(problem.sensitivity(workload), price)
            if self.order or order == 1 or law.scale <= NOISIEST * rows:
                return workload
        raise SettingError(f"marginals of {self.order} columns are too many to begin with: choose a lower order")

    def _priming_law(self, problem: Stream, left: Fraction, rows: float) -> tuple[Workload, Noise] | None:
        price = left * self._priming
        if not price:
            return None
        workload = self._marginals(problem, price, rows)
        return workload, problem.law(problem.sensitivity(workload), price)

    def _plan(self, problem: Stream, left: Fraction, rows: float) -> tuple[Plan, float | None]:
        """The sparse vector with what priming leaves, and the theorem's level where it was asked for."""
        cells = problem.cells
        if self.theorem:
            return theorem_plan(problem, left, rows=rows, updates=lambda alpha: updates(alpha, cells), name=self.name)
        primed = self._priming_law(problem, left, rows)
        # A primed guess is left with few surprises; the book's learns everything through them.
        usual = PRIMED_HITS if primed else max(10, round(7 * math.log(cells)))
        hits = min(self.hits or usual, problem.questions)
        # Typical, measured on NLTCS: half a noise where it was primed, what so many steps leave where it was not.
        guess_error = primed[1].scale / 2 if primed else rows * 0.1 * math.sqrt(math.log(cells) / hits)
        plan = make_plan(
            problem,
            left * (1 - self._priming),
            hits=hits,
            questions=problem.questions,
            threshold=None if self.threshold is None else self.threshold * rows,
            measuring=self.measuring,
            guess_error=guess_error,
        )
        return plan, None

    def _loop(
        self, curator: Curator, problem: Stream, total: Total, left: Fraction, state: State | None
    ) -> OnlineConstruction:
        rows = total.divisor
        plan, alpha = self._plan(problem, left, rows)
        primed = self._priming_law(problem, left, rows)
        domain, held = problem.workload.domain, problem.held
        if primed is None:
            book = None if alpha is None else MultiplicativeWeights(domain, held, alpha / 2)
            guess = DenseGuess(book or FullStep(domain, held), problem, total)
            return OnlineConstruction(curator, problem, plan=plan, guess=guess, total=total)
        workload, law = primed
        if state is None:
            counts = curator.measure(workload, law).astype(np.float64)
        else:
            counts = stored_marginals(state, workload)
        rule = Refit(domain, held, evaluations=EVALUATIONS, ridge=RIDGE)
        rule.update(Step(workload, counts, counts, law), rows)
        return OnlineConstruction(
            curator,
            problem,
            plan=plan,
            guess=DenseGuess(rule, problem, total),
            total=total,
            primed=NoisyAnswers(domain, workload, counts, (law,), total),
        )

    def open(self, curator: Curator, problem: Stream) -> OnlineConstruction:
        curator.keep()
        total, left = find_total(curator, problem)
        return self._loop(curator, problem, total, left, None)

    def restore(self, curator: Curator, problem: Stream, state: State) -> OnlineConstruction:
        total = read_state(state, problem)[0]
        left = problem.cap * (1 if problem.total_is_public else 1 - SHARE)
        loop = self._loop(curator, problem, total, left, state)
        loop.adopt(state)
        return loop

    def parameters(self, problem: Stream) -> dict[str, Any]:
        """What was asked for, and what follows from it where the number of rows is known."""
        said: dict[str, Any] = {"priming": float(self._priming), "theorem": self.theorem}
        if problem.rows:
            rows = float(problem.rows)
            left = problem.cap * (1 if problem.total_is_public else 1 - SHARE)
            primed = self._priming_law(problem, left, rows)
            if primed is not None:
                said["marginals"], said["priming_scale"] = len(primed[0].blocks), primed[1].scale
            said |= self._plan(problem, left, rows)[0].to_json()
        return said
