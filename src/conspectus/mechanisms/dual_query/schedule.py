"""DualQuery's schedule: rounds, draws and steps, with the exact price of every round.

Round t draws queries with log-weights that one unit of m rows moves within 2·m·Σ_{τ<t} η_τ/n: a price that grows from
round to round, and is nothing in the first. Theorem 4.3 charges every round what the last one costs. Here every round
pays its own price: that range in ε, an eighth of its square in ρ.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from conspectus.curator.acts import selection_range
from conspectus.curator.scores import FASTEST, LOG_WEIGHT_STEPS
from conspectus.mechanisms.mechanism import Problem

MOST_ROUNDS = 4096
FASTEST_STEP = 16.0
"""With a larger step one round decides everything. A budget that would pay for one is not used up."""

MOST_DRAWS = 1 << 17
"""So many draws are made in a round at most, however little they cost."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Round by round: the step η_t (`rates`, in units of 1/LOG_WEIGHT_STEPS), the draws, and what they cost.

    The first round is free: `ranges` (how far one unit moves the log-weights of a draw) and `prices` (of all draws of
    a round) begin with the second. All is for a table of `total` rows.
    """

    total: int
    rates: tuple[int, ...]
    draws: tuple[int, ...]
    ranges: tuple[Fraction, ...]
    prices: tuple[Fraction, ...]

    @property
    def rounds(self) -> int:
        return len(self.rates)

    @property
    def price(self) -> Fraction:
        return sum(self.prices, Fraction(0))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the step changes, η_t = η·t^(−decay); `responses` rows share it, in whole steps each."""

    decay: float = 0.0
    responses: int = 1

    def rates(self, eta: float, rounds: int) -> tuple[int, ...]:
        each = (eta * LOG_WEIGHT_STEPS * turn**-self.decay / self.responses for turn in range(1, rounds + 1))
        return tuple(self.responses * max(1, math.floor(rate)) for rate in each)


def lay_out(problem: Problem, *, total: int, rates: tuple[int, ...], draws: tuple[int, ...]) -> Schedule | None:
    """The schedule with its exact prices; None where the rates add up to more than a score can hold."""
    if sum(rates) > FASTEST:
        return None
    ranges = tuple(
        selection_range(Fraction(so_far * problem.max_rows), Fraction(1, total * LOG_WEIGHT_STEPS))
        for so_far in accumulate(rates[:-1])
    )
    pure = problem.currency == "pure"
    prices = tuple(times * (r if pure else r * r / 8) for times, r in zip(draws[1:], ranges))
    return Schedule(total=total, rates=rates, draws=draws, ranges=ranges, prices=prices)


def fit(
    problem: Problem,
    left: Fraction,
    *,
    total: int,
    shape: Shape,
    eta: float,
    draws: int,
    rounds: int | None = None,
    fixed_draws: bool = False,
    fixed_eta: bool = False,
) -> Schedule | None:
    """The schedule that uses `left` up: as many rounds as it pays for, and the rest goes into a larger step.

    `rounds` fixes the rounds: then draws or step are lowered until they fit. `fixed_draws` keeps the draws. `fixed_eta`
    keeps the step, and the rest goes into more draws. None where not even two rounds can be paid for.
    """

    def made(step: float, times: int, length: int) -> Schedule | None:
        return lay_out(problem, total=total, rates=shape.rates(step, length), draws=(times,) * length)

    def too_dear(length: int) -> bool:
        tried = made(eta, draws, length)
        return tried is None or tried.price > left

    length = rounds or 2 + bisect_left(range(3, MOST_ROUNDS + 1), True, key=too_dear)
    found = made(eta, draws, length)
    if found is not None and found.price > left and not fixed_draws:
        draws = max(1, math.floor(draws * left / found.price))
        found = made(eta, draws, length)
    if found is None or (found.price > left and fixed_eta):
        return None
    if fixed_eta:
        more = math.floor(draws * left / found.price) if found.price and not fixed_draws else draws
        return made(eta, max(1, min(more, MOST_DRAWS)), length)
    step = eta
    for _ in range(40):
        spent = found.price
        if not spent or (spent <= left and float(spent) >= 0.9995 * float(left)):
            return found
        factor = float(left / spent)
        step *= (factor if problem.currency == "pure" else math.sqrt(factor)) * (1 - 2**-20)
        if step > FASTEST_STEP or step * LOG_WEIGHT_STEPS < shape.responses:
            break
        again = made(step, draws, length)
        if again is None:
            break
        found = again
    return found if found.price <= left else None
