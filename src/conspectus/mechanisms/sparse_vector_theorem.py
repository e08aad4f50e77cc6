"""The book's constants of the sparse vector, for queries that one unit moves by at most 1 (§3.6, errata applied).

σ is the scale of the threshold's noise, and a comparison has twice as much. Error bounds hold for all k questions
except with probability β, where at most c of them are near or above the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from conspectus.curator.curator import HALF
from conspectus.privacy.accounting import scale_up
from conspectus.privacy.events import Noise

from .mechanism import Problem
from .sparse_vector import FAILURE, Plan

_ROOT = math.sqrt(512)


def sparse_scale(hits: int, epsilon: float, delta: float = 0.0) -> float:
    """σ of Sparse (Algorithm 2): 2c/ε, or √(32 c ln(1/δ))/ε."""
    return 2 * hits / epsilon if not delta else math.sqrt(32 * hits * math.log(1 / delta)) / epsilon


def above_threshold_error(questions: int, epsilon: float, failure: float) -> float:
    """α of AboveThreshold (Theorem 3.24): 8(ln k + ln(2/β))/ε."""
    return 8 * (math.log(questions) + math.log(2 / failure)) / epsilon


def sparse_error(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """α of Sparse (Theorem 3.26)."""
    logs = math.log(questions) + math.log(2 * hits / failure)
    return logs * (8 * hits if not delta else math.sqrt(512 * hits * math.log(1 / delta))) / epsilon


def numeric_shares(epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """ε₁ for finding and ε₂ for answering in NumericSparse (Algorithm 3); its noise makes of ε₂ what is left of ε."""
    if not delta:
        return 8 * epsilon / 9, 2 * epsilon / 9
    return _ROOT / (_ROOT + 1) * epsilon, 2 / (_ROOT + 1) * epsilon


def numeric_scales(hits: int, epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """σ(ε₁) of thresholds and σ(ε₂) of released answers: 2c/ε, or √(32 c ln(2/δ))/ε."""
    finding, answering = numeric_shares(epsilon, delta)
    half = delta / 2
    return sparse_scale(hits, finding, half), sparse_scale(hits, answering, half)


def numeric_error(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """α of NumericSparse. Theorem 3.28 leaves out that a released answer may miss it by its own noise: the maximum."""
    logs = math.log(questions) + math.log(4 * hits / failure)
    if not delta:
        finding = 9 * hits * logs / epsilon
    else:
        finding = logs * math.sqrt(hits * math.log(2 / delta)) * (_ROOT + 1) / epsilon
    return max(finding, numeric_scales(hits, epsilon, delta)[1] * math.log(2 * hits / failure))


def online_threshold(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """T of Algorithms 6 and 11, twice the α of the NumericSparse that is asked both signs of each question.

    The root covers c·ln(2/δ) alone (printed over the whole product).
    """
    logs = math.log(2 * questions) + math.log(4 * hits / failure)
    if not delta:
        return 18 * hits * logs / epsilon
    return (2 + 32 * math.sqrt(2)) * math.sqrt(hits * math.log(2 / delta)) * logs / epsilon


def book_level(problem: Problem, questions: int, rows: float, updates: Callable[[float], float]) -> float | None:
    """The α of Theorems 5.13 to 5.15 with the book's constants, for comparison; None where it promises nothing."""
    budget = problem.budget
    if budget.epsilon is None:
        return None
    epsilon, delta = budget.epsilon, budget.delta

    def keeps(alpha: float) -> bool:
        hits = updates(alpha)
        if not math.isfinite(hits):
            return False
        wanted = online_threshold(questions, max(1, math.ceil(hits)), epsilon, FAILURE, delta) / 2
        return wanted * problem.max_rows <= alpha * rows

    low, high = 0.0, 1.0
    if not keeps(high):
        return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def book_plan(problem: Problem, *, hits: int, threshold: float) -> Plan:
    """NumericSparse with the book's constants, scaled by what one unit moves; costs at most the problem's budget."""
    budget = problem.budget
    if budget.epsilon is None:
        raise ValueError("the book's constants are for a budget of epsilon, with or without delta")
    finding, answering = numeric_scales(hits, budget.epsilon, budget.delta)
    moved = problem.max_rows
    return Plan(
        hits=hits,
        threshold=threshold,
        epsilon=2 / Fraction(math.nextafter(finding, math.inf)),
        share=HALF,
        law=Noise("laplace", scale_up(Fraction(math.nextafter(answering, math.inf)) * moved)),
        max_rows=moved,
    )
