"""What the DualQuery paper proves: its prices (Theorems 4.2 and 4.3), its accuracy (Theorem 4.6) and its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from conspectus.curator.scores import LOG_WEIGHT_STEPS
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import Problem
from conspectus.privacy.accounting import epsilon_of
from conspectus.privacy.composition import advanced

from .schedule import Schedule

LEAST_ACCURACY = 1e-5
"""Half of it is the rate, which is a few steps of the grid of weights at least."""

PAPER = "Gaboardi, Gallego Arias, Hsu, Roth & Wu 2014, Algorithm 2"


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """η, T and s with which all answers are within `alpha`, except with the failure probability (Theorem 4.6)."""

    alpha: float
    eta: float
    rounds: int
    draws: int


def theorem_4_6(alpha: float, *, candidates: int, log_universe: float, failure: float = FAILURE) -> TheoremParameters:
    """T = 8 ln|𝒬|/α², η = α/2 and s = 8 ln(|X|T/β)/α², with an oracle that finds the best row.

    Payoffs A(x, q) = q(D) − q(x) lie in [−1, 1]. The queries' player loses at most ln|𝒬|/ηT + η/2 a round against the
    best query (Hoeffding's lemma), which is α/2; η is rounded to the grid of weights, and T is the smallest for that.
    Let q̃ be the mean of s draws. Then A(x, q̃) is below A(x, Q^t) by more than α/2 with probability at most exp(−sα²/8)
    (Hoeffding's inequality): for no x and no t, except with β. The best row has A(x^t, q̃) ≤ 0, since a row of D drawn
    at random has 0 on average. So A(x^t, Q^t) ≤ α/2, and every query of 𝒬 has an error of at most α.

    The paper has 16 ln|𝒬|/α², α/4 and 48 ln(2|X|T/β)/α², and allows an oracle that is wrong by α/4.

    Args:
        alpha: The accuracy that is wanted, as a fraction of the rows.
        candidates: |𝒬|, negations counted.
        log_universe: ln|X|.
        failure: β.
    """
    eta = max(1, math.floor(alpha / 2 * LOG_WEIGHT_STEPS)) / LOG_WEIGHT_STEPS
    rounds = math.ceil(2 * math.log(candidates) / (eta * (alpha - eta)))
    draws = math.ceil(8 * (math.log(rounds / failure) + log_universe) / alpha**2)
    return TheoremParameters(alpha=alpha, eta=eta, rounds=rounds, draws=draws)


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
