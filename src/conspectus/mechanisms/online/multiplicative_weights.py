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

from conspectus.counting.single_query import SingleQueryCounts
from conspectus.curator.curator import Curator
from conspectus.mechanisms.iterative import MultiplicativeWeights, Refit, Step
from conspectus.mechanisms.mechanism import SettingError, no_histogram
from conspectus.mechanisms.online_mechanism import SessionProblem, State
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.synopsis import Total

from .loop import CITES, OnlineConstruction, on_cells, stored_marginals
from .parameters import OnlineSettings

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

    def __init__(self, rule: MultiplicativeWeights | Refit, problem: SessionProblem, total: Total) -> None:
        self._domain = problem.workload.domain
        self._rule = rule
        self._total = total
        self._cells = SingleQueryCounts(self._domain, rule.weights)

    def of(self, query: Workload) -> float:
        return min(max(float(self._cells.of(on_cells(query))), 0.0), 1.0)

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        guessed = np.array([self.of(query) * self._total.divisor])
        self._rule.update(Step(query, np.array([noisy]), guessed, law), self._total.divisor)
        self._cells = SingleQueryCounts(self._domain, self._rule.weights)

    def synopsis(self) -> Histogram:
        return Histogram(self._domain, self._rule.weights, self._total)


@dataclass(frozen=True, kw_only=True)
class Pmw(OnlineSettings):
    """`priming` is the share of the budget that buys marginals of `order` columns first (0: the book's algorithm).

    The other settings say how surprises are found; `theorem` takes all of them from Theorem 5.13 and its kin, without
    priming.
    """

    priming: float | None = None
    order: int | None = None

    name: ClassVar[str] = "pmw"
    citations: ClassVar[tuple[str, ...]] = (*CITES, "Hardt & Rothblum 2010")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= (self.priming or 0) < 1 or (self.order is not None and self.order < 1):
            raise SettingError("priming lies in [0, 1), order at 1 or above")
        if self.theorem and self.priming:
            raise SettingError("the theorem knows no priming: leave one of them out")

    def refuses(self, problem: SessionProblem) -> str | None:
        return no_histogram(problem)

    def memory(self, problem: SessionProblem) -> int:
        return 8 * 14 * problem.cells

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        return updates(alpha, problem.cells)

    def usual(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[int, float]:
        """A primed guess is left with few surprises and is off by half a noise; the book's learns through them all.

        Typical, measured on NLTCS.
        """
        primed = self._primed(problem, left, rows)
        if primed is not None:
            return PRIMED_HITS, primed[1].scale / 2
        many = max(10, round(7 * math.log(problem.cells)))
        return many, rows * 0.1 * math.sqrt(math.log(problem.cells) / (self.hits or many))

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> DenseGuess:
        domain, held = problem.workload.domain, problem.held
        rule = FullStep(domain, held) if alpha is None else MultiplicativeWeights(domain, held, alpha / 2)
        return DenseGuess(rule, problem, total)

    def share(self) -> Fraction:
        return 1 - self._priming

    @property
    def _priming(self) -> Fraction:
        if self.theorem:
            return Fraction(0)
        return Fraction(1, 2) if self.priming is None else Fraction(self.priming)

    def _marginals(self, problem: SessionProblem, price: Fraction, rows: float) -> Workload:
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

    def _primed(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[Workload, Noise] | None:
        """What is bought first, and with which noise."""
        price = left * self._priming
        if not price:
            return None
        workload = self._marginals(problem, price, rows)
        return workload, problem.law(problem.sensitivity(workload), price)

    def begin(
        self, curator: Curator, problem: SessionProblem, total: Total, left: Fraction, state: State | None
    ) -> OnlineConstruction:
        primed = self._primed(problem, left, total.divisor)
        if primed is None:
            return super().begin(curator, problem, total, left, state)
        workload, law = primed
        if state is None:
            counts = curator.measure(workload, law).astype(np.float64)
        else:
            counts = stored_marginals(state, workload)
        domain = workload.domain
        rule = Refit(domain, problem.held, evaluations=EVALUATIONS, ridge=RIDGE)
        rule.update(Step(workload, counts, counts, law), total.divisor)
        return OnlineConstruction(
            curator,
            problem,
            plan=self.plan(problem, left, total.divisor)[0],
            guess=DenseGuess(rule, problem, total),
            total=total,
            primed=NoisyAnswers(domain, workload, counts, (law,), total),
        )

    def parameters(self, problem: SessionProblem) -> dict[str, Any]:
        said = {"priming": float(self._priming), **super().parameters(problem)}
        primed = self._primed(problem, self.left(problem), float(problem.rows)) if problem.rows else None
        if primed is not None:
            said["marginals"], said["priming_scale"] = len(primed[0].blocks), primed[1].scale
        return said
