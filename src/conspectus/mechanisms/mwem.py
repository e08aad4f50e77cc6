"""MWEM: multiplicative weights with the exponential mechanism, on whole marginals and with a memory.

Hardt, Ligett and McSherry 2012, as the book's Algorithm 8 without its stopping rule: a fixed number of rounds, each of
which selects the worst-answered candidate and measures it; a marginal is one candidate, measured as one vector. After
each round the guess is refitted to everything measured so far.

Privacy: composes one selection and one measurement a round, the row total, and the certificate.
Accuracy: no theorem covers the refit, so the maximum error is measured privately and certified (`certificate`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.privacy.events import Event

from .histograms import outcome
from .interactions import Interactions, deviation
from .iterative import Candidates, Refit, check_rounds, steps, unmeasured
from .mechanism import Claim, Outcome, Problem, Refusal, SettingError, expected_maximum, expected_size, no_histogram
from .total import find_total

RIDGE = 0.1
"""Few marginals are measured, each well: a lighter ridge than for noise on everything (measured on NLTCS)."""


@dataclass(frozen=True, kw_only=True)
class Mwem:
    """`rounds` of select and measure (by default from public facts).

    `selection` is the share of a round that finds the question, `certificate` the share of the budget that buys the
    bound, `evaluations` how long each refit may take.
    """

    rounds: int | None = None
    selection: float = 0.15
    certificate: float = 0.03
    evaluations: int = 15

    name: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        check_rounds(self.rounds, selection=self.selection, certificate=self.certificate)
        if self.evaluations < 1:
            raise SettingError("evaluations, how long each refit may take, must be at least 1")

    def _rounds(self, candidates: Candidates) -> int:
        """Four a column by default: more hardly help and fewer leave columns out, at any budget (measured)."""
        return self.rounds or min(len(candidates), max(4 * len(candidates.workload.columns), 10))

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        refused = no_histogram(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        candidates = Candidates.of(problem.workload.distinct())
        rounds = self._rounds(candidates)
        mean, largest = self._expected(problem, candidates)
        return Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=None,
            memory=8 * 6 * problem.cells + 64 * len(problem.workload),
            citations=("Hardt, Ligett & McSherry 2012", "Dwork & Roth 2014, Algorithm 8"),
            notes=(f"{rounds} rounds; the error depends on the table and is certified after the fact",),
        )

    def _expected(self, problem: Problem, candidates: Candidates) -> tuple[float, float]:
        """Typical errors, mean and largest, in counts."""
        rounds = self._rounds(candidates)
        price = problem.cap * (1 - Fraction(self.certificate)) / rounds
        select = price * Fraction(self.selection)
        law = problem.law(problem.sensitivity(candidates[0]), price - select)
        interactions, rows = Interactions.of(candidates.workload), problem.rows
        if interactions is not None and rows:
            noise, share = deviation(law) / rows, rounds / len(candidates)
            found = interactions.fitted(noise, ridge=RIDGE, share=share, chosen=True)
            blind = interactions.fitted(noise, ridge=RIDGE, share=share)
            # Among errors below the selection's own, about ln|candidates|/ε of Theorem 3.11, it chooses blindly.
            seen = math.log(len(candidates)) * problem.max_rows / float(problem.selection(select)) / rows
            return found.mean * rows, max(found.largest, min(blind.largest, seen)) * rows
        # What is not measured is about as wrong as what is, and the largest error is that of any question; of single
        # questions, which tell little of one another, the theorems' shape.
        hidden = unmeasured(problem, candidates, rounds)
        largest = max(0.85 * expected_maximum(law, len(candidates.workload)), hidden)
        return max(0.7 * expected_size(law), 0.15 * hidden), largest

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        asked = problem.workload.distinct()
        curator.count_ahead(asked)
        total, left = find_total(curator, problem)
        rows = total.divisor
        candidates = Candidates.of(asked)
        rounds = self._rounds(candidates)
        certificate_price = problem.cap * Fraction(self.certificate)
        round_price = (left - certificate_price) / rounds
        select = round_price * Fraction(self.selection)
        rule = Refit(asked.domain, problem.held, evaluations=self.evaluations, ridge=RIDGE)
        turns = steps(
            curator,
            problem,
            candidates=candidates,
            rule=rule,
            total=rows,
            rounds=rounds,
            select=select,
            measure=round_price - select,
        )
        for turn in turns:
            rule.update(turn, rows)
        fit = rule.finish(rows, 10 * self.evaluations)
        parameters = {
            "rounds": rounds,
            "selection": self.selection,
            "certificate": self.certificate,
            "evaluations": self.evaluations,
        }
        return outcome(
            curator, problem, weights=fit.weights, total=total, price=certificate_price, parameters=parameters
        )
