"""The book's Algorithm 8, the iterative construction mechanism, with the multiplicative-weights rule.

Find the question the guess gets most wrong, measure it; stop when it is right enough, update otherwise. With free
parameters the weights are now and then solved to agree with everything measured so far, which is post-processing.

Privacy: composes one selection and one measurement a round, the row total, and the certificate.
Accuracy: Theorem 5.4 for the noise that really runs, under replace with a public number of rows; Theorem 5.7 with its
constants corrected (32 for pure, 64 for approximate budgets) stands beside it. T(α) = 4 ln|X|/α² updates at level α;
the rule runs at level α/2 with rate α/4. If every measurement and the distinguisher are within α/8: a round that does
not stop had an error of at least 3α/4 − α/8 ≥ α/2, so the rule's count T(α/2) applies; a round that stops leaves no
error above 3α/4 + α/8 + α/8 = α.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from conspectus.curator.curator import Curator
from conspectus.privacy.events import Event
from conspectus.queries.sensitivity import Sensitivity
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram

from .histograms import outcome
from .iterative import Candidates, MultiplicativeWeights, check_rounds, measurements, steps
from .mechanism import (
    Claim,
    ErrorBound,
    Outcome,
    Problem,
    Refusal,
    SettingError,
    expected_maximum,
    expected_size,
    maximum_bound,
    no_histogram,
)
from .total import find_total

FAILURE = 0.05
REFIT, RIDGE = 20, 0.1
CITES = ("Dwork & Roth 2014, Theorems 5.4 to 5.7 (constants corrected)", "Dwork & Roth 2014, Algorithms 5 and 8")


def updates(alpha: float, cells: int) -> float:
    """T(α) = 4 ln|X| / α²: how often multiplicative weights can be off by α (Theorem 4.10)."""
    return 4 * math.log(cells) / alpha**2


def remaining_error(rounds: int, cells: int) -> float:
    """What multiplicative weights typically leaves after this many updates; T(α) solved for α would be √(4 ln|X|/T)."""
    return 0.1 * math.sqrt(math.log(cells) / rounds)


def printed_alpha(problem: Problem, failure: float = FAILURE) -> float:
    """The α of Theorem 5.7 with its own composition theorem, constants corrected; for comparison.

    Pure: α = 32 T(α/2) ln(|Q|/γ)/(nε). Approximate: α = 64 √(T(α/2) ln(1/δ)) ln(|Q|/γ)/(nε). γ = β/2T(α/2).
    """
    rows, budget = problem.rows, problem.budget
    if not rows or budget.epsilon is None:
        return math.inf
    cells, queries, epsilon = problem.cells, len(problem.workload), budget.epsilon

    def excess(alpha: float) -> float:
        turns = max(1.0, updates(alpha / 2, cells))
        log_term = math.log(queries * 2 * turns / failure)
        factor = 32 * turns if budget.pure else 64 * math.sqrt(turns * math.log(1 / budget.delta))
        return alpha - factor * log_term / (rows * epsilon)

    return _root(excess)


def promised_alpha(problem: Problem, certificate: float, failure: float = FAILURE) -> float:
    """The smallest α that Theorem 5.4 promises for the noise that really runs; 1 or more promises nothing.

    The theorem asks that all T(α/2) measurements are within α/8 (with probability 1 − β/2) and that the distinguisher
    is, F = (2/ε₀) ln(2T|Q|/β) ≤ α/8 in counts (Theorem 5.5). Each is taken at the exact price of a round.
    """
    if not problem.rows:
        return math.inf
    queries, rows, cells = len(problem.workload), problem.rows, problem.cells
    single = problem.sensitivity(problem.workload[:1])

    def excess(alpha: float) -> float:
        turns = max(1, math.ceil(updates(alpha / 2, cells)))
        half = problem.cap * (1 - Fraction(certificate)) / turns / 2
        tail = maximum_bound(problem.law(single, half), turns, failure / 2)
        distinguisher = 2 / float(problem.selection(half)) * math.log(2 * turns * queries / failure)
        return alpha - 8 * max(tail, distinguisher) / rows

    return _root(excess)


def _root(excess: Callable[[float], float], low: float = 1e-4, high: float = 1e9) -> float:
    """Where a growing function crosses zero; the end of the interval that it stays on the near side of, otherwise."""
    if excess(low) >= 0:
        return low
    return float(brentq(excess, low, high)) if excess(high) > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class IterativeConstruction:
    """Free parameters by default; `theorem=True` takes all of them from Theorem 5.4 and refuses where it is vacuous.

    `alpha` is the accuracy aimed at (the rule's level is half of it), `rounds` the most rounds to run.
    """

    theorem: bool = False
    alpha: float | None = None
    rounds: int | None = None
    selection: float = 0.5
    certificate: float = 0.03

    name: ClassVar[str] = "iterative"

    def __post_init__(self) -> None:
        check_rounds(self.rounds, selection=self.selection, certificate=self.certificate)
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise SettingError("alpha, the error aimed at, lies strictly between 0 and 1")
        if self.theorem and (self.alpha is not None or self.rounds is not None):
            raise SettingError("theorem=True sets alpha and rounds itself: leave them out")

    def settings(self, problem: Problem, rows: float) -> tuple[float, int]:
        """(α, rounds): the theorem's, or by default as many rounds as keep the noise below a quarter of α."""
        cells, single = problem.cells, problem.sensitivity(problem.workload[:1])
        if self.theorem:
            alpha = promised_alpha(problem, self.certificate)
            return alpha, math.ceil(updates(alpha / 2, cells))
        if self.rounds is not None:
            return self.alpha or self._affordable(problem, single, rows, self.rounds), self.rounds
        if self.alpha is not None:
            return self.alpha, max(1, math.ceil(updates(self.alpha / 2, cells)))
        # Balance: what the rule typically leaves after T updates against the noise that T rounds cost.
        best = min(range(1, 301), key=lambda T: self._affordable(problem, single, rows, T) + remaining_error(T, cells))
        return self._affordable(problem, single, rows, best), best

    def _affordable(self, problem: Problem, single: Sensitivity, rows: float, rounds: int) -> float:
        price = problem.cap * Fraction(1 - self.selection) / rounds
        law = problem.law(single, price)
        return min(0.9, 4 * expected_size(law) / rows)

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        refused = no_histogram(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        alpha = promised_alpha(problem, self.certificate)
        if self.theorem and not problem.total_is_public:
            return Refusal(mechanism=self.name, reason="Theorem 5.4 is for replaced rows and a public number of rows")
        if self.theorem and not alpha < 1:
            reason = f"Theorem 5.4 promises an error of {alpha:.3g} here, which says nothing: leave theorem=True out"
            return Refusal(mechanism=self.name, reason=reason)
        rows = float(problem.rows or 10_000)
        aim, rounds = self.settings(problem, rows)
        law = problem.law(
            problem.sensitivity(problem.workload[:1]), problem.cap * Fraction(1 - self.selection) / rounds
        )
        left = remaining_error(rounds, problem.cells) * rows
        bound = None
        if self.theorem:
            bound = ErrorBound(value=alpha, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        return Claim(
            mechanism=self.name,
            expected_max=expected_maximum(law, rounds) + left,
            expected_mean=expected_size(law) + left / 10,
            bound=bound,
            memory=8 * 4 * problem.cells + 64 * len(problem.workload),
            citations=CITES,
            notes=(
                f"at most {rounds} rounds, aiming at {aim:.3g}; Theorem 5.4 would promise {alpha:.3g} "
                f"(as printed in Theorem 5.7, corrected: {printed_alpha(problem):.3g})",
            ),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        asked = problem.workload.distinct()
        curator.count_ahead(asked)
        total, left = find_total(curator, problem)
        rows = total.divisor
        alpha, rounds = self.settings(problem, rows)
        certificate_price = problem.cap * Fraction(self.certificate)
        round_price = (left - certificate_price) / rounds
        select = round_price * (Fraction(1, 2) if self.theorem else Fraction(self.selection))
        # The book's rule asks single questions: each is a candidate, marginals included.
        candidates = Candidates(asked, np.arange(len(asked), dtype=np.int64))
        rate = alpha / 4 if self.theorem else None
        rule = MultiplicativeWeights(asked.domain, problem.held, rate)
        asked_rounds = 0
        held = asked.domain.project(problem.held)
        known: list[Measurement] = []
        for turn in steps(
            curator,
            problem,
            candidates=candidates,
            rule=rule,
            total=rows,
            rounds=rounds,
            select=select,
            measure=round_price - select,
        ):
            asked_rounds += 1
            known.extend(measurements(turn.question, problem.held, turn.noisy, turn.law, rows))
            if turn.surprise < 0.75 * alpha * rows:
                break
            rule.update(turn, rows)
            # Each update forgets a little of the ones before: weights that agree with all of them cost nothing.
            if not self.theorem and asked_rounds % REFIT == 0:
                rule.weights = fit_histogram(held, known, rows, steps=REFIT, ridge=RIDGE).weights
        weights = rule.weights if self.theorem else fit_histogram(held, known, rows, steps=400, ridge=RIDGE).weights
        parameters = {"alpha": alpha, "rounds": rounds, "rounds_used": asked_rounds, "rate": rate}
        return outcome(curator, problem, weights=weights, total=total, price=certificate_price, parameters=parameters)
