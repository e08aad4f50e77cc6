"""The theorems of the online family: how often each rule can be surprised, and what OnlineIC then promises.

Accuracy (the book's Theorems 5.13 to 5.15, for the noise that really runs): let every threshold and comparison err by
at most A together, and every measured answer by at most B, in counts. An answer that was no surprise is within T + A. A
surprise was wrong by at least T − A. So with T − A ≥ αn and B < αn every update is one of level α, of which a rule with
T(α) updates makes no more: with c = T(α) hits the loop never ends. With A ≤ αn and T = 2αn every answer is within 3α.

The level with the book's own constants follows, with the errata applied, for queries that one unit moves by at most 1
(§3.6). It is there to be compared with. The bounds hold for all k questions except with probability β, where at most c
of them are near or above the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.iterative import multiplicative_updates
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.sparse_vector import SparsePlan, plan_sparse

CITES = ("Dwork & Roth 2014, Algorithms 3 and 11, Theorems 5.13 to 5.15",)


# --- T(α): how often a rule can be off by α


def sparse_variables(sparsity: int, alpha: float) -> int:
    """The smallest s with s/(ln s + 1) ≥ m/2α²: more than m·T(α), so that a variable is left for every record.

    Blum and Roth's has 4m/α² (Theorem 3.5), for updates at the rate α/2.
    """
    wanted = sparsity / (2 * alpha**2)
    low, high = 1, 2
    while high / (math.log(high) + 1) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle / (math.log(middle) + 1) < wanted else (low, middle)
    return high


def sparse_updates(alpha: float, sparsity: int) -> float:
    """T(α) = ln s/2α², for questions of at most m records and s variables, at the rate 4α.

    It is the count of multiplicative weights over s cells. The printed proof drops the weight of records that never get
    a variable. Spread over the free variables, of which one is left, it is a table over the s variables.
    """
    return multiplicative_updates(alpha, sparse_variables(sparsity, alpha))


def book_sparse_updates(alpha: float, sparsity: int) -> float:
    """B(α) = 4 (ln s + 1)/α² as the paper prints it, with its own s (Theorem 3.5)."""
    return 4 * (math.log(sparse_variables(sparsity, alpha / math.sqrt(8))) + 1) / alpha**2


# --- the level of OnlineIC, for the noise that really runs


def theorem_plan(
    problem: SessionProblem, price: Fraction, *, rows: float, updates: Callable[[float], float]
) -> tuple[SparsePlan, float] | None:
    """The smallest level α that the theorem promises and its plan, or None where it promises nothing.

    The plan has T(α) hits, and the threshold at 2αn. All noises together fail with probability `FAILURE`.
    """

    def at(alpha: float) -> SparsePlan:
        hits = min(max(1, math.ceil(updates(alpha))), problem.questions)  # no more surprises than questions
        return plan_sparse(problem, price, hits=hits, threshold=2 * alpha * rows)

    def keeps(alpha: float) -> bool:
        if math.isinf(updates(alpha)):
            return False
        plan, wanted = at(alpha), alpha * rows
        compared = plan.comparison_half_width(problem.questions, FAILURE / 2)
        return compared <= wanted and plan.measured_half_width(1 - FAILURE / 2) < wanted

    level = _smallest_level(keeps)
    return None if level is None else (at(level), level)


def _smallest_level(keeps: Callable[[float], bool]) -> float | None:
    """The smallest level in (0, 1] that is kept, to forty binary digits; None if not even 1 is."""
    low, high = 0.0, 1.0
    if not keeps(high):
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


# --- the book's own constants


def online_threshold(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """T of Algorithms 6 and 11, twice the α of the NumericSparse that is asked both signs of each question.

    The root covers c·ln(2/δ) alone (printed over the whole product).
    """
    logs = math.log(2 * questions) + math.log(4 * hits / failure)
    if not delta:
        return 18 * hits * logs / epsilon
    return (2 + 32 * math.sqrt(2)) * math.sqrt(hits * math.log(2 / delta)) * logs / epsilon


def measured_error(hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """How far the c measured answers of Algorithm 3 may be off: σ(ε₂)·ln(2c/β).

    Theorem 3.28 forgets it where δ > 0. There σ(ε₂) = (√512 + 1)·√(8c ln(2/δ))/ε, which can be more than what the
    comparisons are off by.
    """
    if not delta:
        scale = 9 * hits / epsilon
    else:
        scale = (math.sqrt(512) + 1) * math.sqrt(8 * hits * math.log(2 / delta)) / epsilon
    return scale * math.log(2 * hits / failure)


def book_level(problem: SessionProblem, rows: float, updates: Callable[[float], float]) -> float | None:
    """The α of Theorems 5.13 to 5.15 with the book's constants, for comparison; None where it promises nothing.

    `updates` is T(α) as the book prints it. The α covers the measured answers, too, which the book's does not.
    """
    budget = problem.budget
    if budget.epsilon is None:
        return None
    epsilon, delta = budget.epsilon, budget.delta

    def keeps(alpha: float) -> bool:
        printed = updates(alpha)
        if not math.isfinite(printed):
            return False
        hits = max(1, math.ceil(printed))
        compared = online_threshold(problem.questions, hits, epsilon, FAILURE, delta) / 2
        wanted = max(compared, measured_error(hits, epsilon, FAILURE, delta))
        return wanted * problem.max_rows <= alpha * rows

    return _smallest_level(keeps)
