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

from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.sparse_vector import FAILURE, SparsePlan, plan_sparse

CITES = ("Dwork & Roth 2014, Algorithms 3 and 11, Theorems 5.13 to 5.15",)
MOST_MEMBERS = 1 << 15
"""The largest net of databases that a median is taken of."""


# --- T(α): how often a rule can be off by α


def multiplicative_updates(alpha: float, cells: int) -> float:
    """T(α) = 4 ln|X|/α², for multiplicative weights at rate α/2 (Theorem 4.10)."""
    return 4 * math.log(cells) / alpha**2


def sparse_variables(sparsity: int, alpha: float) -> int:
    """The smallest s with s/(ln s + 1) ≥ 4m/α² (Blum & Roth, Theorem 3.5)."""
    wanted = 4 * sparsity / alpha**2
    low, high = 1, 2
    while high / (math.log(high) + 1) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle / (math.log(middle) + 1) < wanted else (low, middle)
    return high


def sparse_updates(alpha: float, sparsity: int) -> float:
    """T(α) = 4 ln s/α², for questions of at most m records and s variables.

    The printed proof drops the weight of records that never get a variable. Spread over the free variables it gives
    this count.
    """
    return 4 * math.log(sparse_variables(sparsity, alpha)) / alpha**2


def net_size(cells: int, rows: int) -> int:
    """The number of databases of so many rows: C(|X| + m − 1, m)."""
    return math.comb(cells + rows - 1, rows)


def net_rows(cells: int, alpha: float) -> int:
    """How many rows make the databases of that many an α-net for any class of queries: m ≥ |X|/4α.

    Rounding the fractions of a table over |X| cells to multiples of 1/m, by largest remainders, moves any query by at
    most |X|/4m: if k remainders are rounded up, the rises add up to at most k(1 − k/|X|)/m.
    """
    return math.ceil(cells / (4 * alpha))


def finest_net(cells: int) -> int:
    """The most rows that the databases of a net of at most `MOST_MEMBERS` can have."""
    rows = 1
    while net_size(cells, rows + 1) <= MOST_MEMBERS:
        rows += 1
    return rows


def median_updates(alpha: float, cells: int) -> float:
    """T(α) = log₂|N|, for an α-net N (Theorem 5.8); infinite where the net is too large to hold.

    The member nearest to the table is never removed by an update of level α, and each update removes at least half.
    """
    size = net_size(cells, net_rows(cells, alpha))
    return math.log2(size) if size <= MOST_MEMBERS else math.inf


def perceptron_updates(alpha: float, cells: int) -> float:
    """T(α) = |X|/α² (Theorem 5.11, with a public bound on the private norm of the table: ‖x*‖₂ ≤ ‖x*‖₁ = 1).

    ‖x* − x‖² falls by at least α²/‖f‖² ≥ α²/|X| in every update of level α, from ‖x*‖² at first, where x* is the table
    as fractions.
    """
    return cells / alpha**2


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


def book_level(problem: SessionProblem, rows: float, updates: Callable[[float], float]) -> float | None:
    """The α of Theorems 5.13 to 5.15 with the book's constants, for comparison; None where it promises nothing."""
    budget = problem.budget
    if budget.epsilon is None:
        return None
    epsilon, delta = budget.epsilon, budget.delta

    def keeps(alpha: float) -> bool:
        hits = updates(alpha)
        if not math.isfinite(hits):
            return False
        wanted = online_threshold(problem.questions, max(1, math.ceil(hits)), epsilon, FAILURE, delta) / 2
        return wanted * problem.max_rows <= alpha * rows

    return _smallest_level(keeps)
