"""What the DualQuery paper proves: its prices (Theorems 4.2 and 4.3), its accuracy (Theorem 4.6) and its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from conspectus.mechanisms.mechanism import ErrorBound, Problem
from conspectus.privacy.accounting import epsilon_of
from conspectus.privacy.composition import advanced

from .schedule import Schedule

PAPER = "Gaboardi, Gallego Arias, Hsu, Roth & Wu 2014, Algorithm 2"
FAILURE = 0.05
"""β: how often Theorem 4.6 may fail."""


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """η, T and s with which all answers are within `alpha`, except with the failure probability (Theorem 4.6)."""

    alpha: float
    eta: float
    rounds: int
    draws: int


def theorem_4_6(alpha: float, *, candidates: int, log_universe: float, failure: float = FAILURE) -> TheoremParameters:
    """T = 16 ln|𝒬|/α², η = α/4 and s = 48 ln(2|X|T/β)/α².

    Args:
        alpha: The accuracy that is wanted, as a fraction of the rows.
        candidates: |𝒬|, negations counted.
        log_universe: ln|X|.
        failure: β.
    """
    rounds = math.ceil(16 * math.log(candidates) / alpha**2)
    draws = math.ceil(48 * (math.log(2 * rounds / failure) + log_universe) / alpha**2)
    return TheoremParameters(alpha=alpha, eta=alpha / 4, rounds=rounds, draws=draws)


def promise(alpha: float) -> ErrorBound:
    """What Theorem 4.6 promises of a run with its parameters and the exact oracle."""
    return ErrorBound(value=alpha, statistic="max", probability=1 - FAILURE, theorem=PAPER)


def cost_by_theorems(problem: Problem, schedule: Schedule) -> dict[str, float]:
    """ε of the draws: by Theorem 4.2, and where there is a δ also by Theorem 4.3 and by the accountant.

    The theorems are printed for equal steps and one row a unit. The proof of Theorem 4.2 adds up what each draw costs,
    for any steps; that of Theorem 4.3 charges every draw what the dearest costs.
    """
    delta = problem.budget.delta
    added = sum((times * moved for times, moved in zip(schedule.draws[1:], schedule.ranges)), Fraction(0))
    found = {"epsilon_by_theorem_4_2": float(added)}
    if delta:
        rho = sum((times * moved**2 / 8 for times, moved in zip(schedule.draws[1:], schedule.ranges)), Fraction(0))
        dearest = float(max(schedule.ranges, default=Fraction(0)))
        found["epsilon_by_theorem_4_3"] = advanced(dearest, sum(schedule.draws[1:]), delta)
        found["epsilon_of_the_draws"] = min(epsilon_of(rho, delta), float(added))
    return found
