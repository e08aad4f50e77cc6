"""What the book proves of one draw from a net: Proposition 5.2, and for all small databases Lemma 4.3 to Theorem 4.5.

Everything is for the draw that really runs: the exact number of members in place of a bound on it, sizes that are whole
numbers, and scores that are rounded to a grid.
"""

from __future__ import annotations

import math
from fractions import Fraction

from conspectus.curator.acts import selection_rate
from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import Problem

from .net_draws import level_sensitivity

SMALL_DB_BOOK = "Dwork & Roth 2014, Algorithm 4, Proposition 4.4 and Theorem 4.5 (sizes rounded up)"
NET_BOOK = "Dwork & Roth 2014, Algorithm 7 and Proposition 5.2"
FLOOR = 2.0**-39
"""What the draw's floor and rounding add to the failure probability, at most."""


def net_error(problem: Problem, price: Fraction, *, log_mass: float, coarse: int) -> float:
    """How much worse than the best member the drawn one is, in counts, except with probability `FAILURE`.

    Theorem 3.11: where one unit moves scores by r levels, the level of the drawn member exceeds that of the best one by
    less than (ln|N| + ln(1/β))/rate = 2r(ln|N| + ln(1/β))/ε, except with probability β. Rounding guesses to the grid
    moves an error by half a step, and a level is rounded down: together (coarse + 1)/ERROR_STEPS counts.

    Args:
        problem: The public facts.
        price: What the draw may cost.
        log_mass: ln|N|, where each member counts as often as it does in the draw.
        coarse: The grid steps of a level.
    """
    rate = selection_rate(level_sensitivity(problem, coarse), problem.selection(price))
    levels = (log_mass + math.log(1 / (FAILURE - FLOOR))) / float(rate)
    return (coarse * (levels + 1) + 1) / ERROR_STEPS


def sampling_error(queries: int, size: int) -> float:
    """The α of Lemma 4.3: some database of this many rows answers every query to within it.

    A sample of the table misses none by more with a probability above 0 where 2|Q|·exp(−2Mα²) is below 1.
    """
    return math.sqrt(math.log(2 * queries) / (2 * size)) * (1 + 1e-9)


def theorem_size(queries: int, alpha: float) -> int:
    """The size of Theorem 4.2 and Algorithm 4, ln|Q|/α², as a whole number of rows; it needs more than two queries."""
    return math.ceil(math.log(max(queries, 3)) / alpha**2)


def theorem_alpha(records: int, queries: int, *, epsilon: float, rows: int) -> float:
    """The α of Theorem 4.5 (4.2), as printed: ((16 ln|X| ln|Q| + 4 ln(1/β))/(εn))^(1/3), where it is at most 1."""
    logs = math.log(max(records, 2)) * math.log(max(queries, 3))
    return math.cbrt((16 * logs + 4 * math.log(1 / FAILURE)) / (epsilon * rows))
