"""DualQuery's numbers: rounds, draws and step sizes, what they cost, and what its theorems say of them.

Round t draws queries with log-weights that one unit of m rows moves within 2·m·Σ_{τ<t} η_τ/n: a price that grows from
round to round, and is nothing in the first. Theorem 4.3 charges every round what the last one costs; here every round
pays its own, and an eighth of its square in ρ. All are functions of public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from conspectus.curator.acts import selection_range
from conspectus.curator.scores import FASTEST, LOG_WEIGHT_STEPS
from conspectus.mechanisms.mechanism import Problem
from conspectus.privacy.accounting import epsilon_of

MOST_ROUNDS = 4096
FASTEST_STEP = 16.0
"""Beyond it one round decides everything: budgets that would pay for a larger step are not used up."""

MOST_DRAWS = 1 << 17
"""So many draws are made in a round at most, however little they cost."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Round by round: step sizes in steps of 1/LOG_WEIGHT_STEPS and numbers of draws; the range of a draw, and what
    draws cost.

    `ranges` and `prices` are those of the second round and the later ones: the first is free.
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
    """As many rounds as `left` pays for, and what they leave put into the step, or into the draws where it is fixed.

    Where the rounds are given, draws or step give way. None where not even two rounds can be paid for.
    """

    def made(step: float, times: int, length: int) -> Schedule | None:
        return lay_out(problem, total=total, rates=shape.rates(step, length), draws=(times,) * length)

    if rounds is None:
        low, high = 1, MOST_ROUNDS + 1
        while high - low > 1:
            middle = (low + high) // 2
            tried = made(eta, draws, middle)
            low, high = (middle, high) if tried is not None and tried.price <= left else (low, middle)
        length = max(low, 2)
    else:
        length = rounds
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


def theorem_4_2(*, eta: float, rounds: int, draws: int, rows: int) -> float:
    """ε = ηT(T − 1)s/n: pure, by basic composition."""
    return eta * rounds * (rounds - 1) * draws / rows


def theorem_4_3(*, eta: float, rounds: int, draws: int, rows: int, delta: float) -> float:
    """ε at δ by advanced composition, every draw charged what one of the last round costs."""
    return advanced(2 * eta * (rounds - 1) / rows, draws * (rounds - 1), delta)


def advanced(epsilon: float, times: int, delta: float) -> float:
    """√(2k ln(1/δ))·ε′ + k·ε′·(e^ε′ − 1)."""
    return math.sqrt(2 * times * math.log(1 / delta)) * epsilon + times * epsilon * math.expm1(epsilon)


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The parameters with which all answers are within `alpha`, except with probability `beta` (Theorem 4.6)."""

    alpha: float
    eta: float
    rounds: int
    draws: int


def for_accuracy(alpha: float, *, candidates: int, log_universe: float, beta: float) -> Accuracy:
    """T = 16 ln|Q|/α², η = α/4 and s = 48 ln(2|X|T/β)/α², |Q| counting negations; `log_universe` is ln|X|."""
    rounds = math.ceil(16 * math.log(candidates) / alpha**2)
    draws = math.ceil(48 * (math.log(2 * rounds / beta) + log_universe) / alpha**2)
    return Accuracy(alpha=alpha, eta=alpha / 4, rounds=rounds, draws=draws)


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """The draws of a schedule priced by the theorems of the source and by what they really cost."""

    numbers: dict[str, float]
    notes: tuple[str, ...]


def best_theorem(problem: Problem, schedule: Schedule) -> Accounts:
    """ε of the draws: by Theorem 4.2 where δ = 0, else by Theorem 4.3; and by the accountant.

    The theorems are for equal steps and one row a unit; Theorem 4.3's proof charges every draw what the dearest costs,
    and Theorem 4.2's adds up what each costs, for any steps.
    """
    delta = problem.budget.delta
    added = sum((times * spread for times, spread in zip(schedule.draws[1:], schedule.ranges)), Fraction(0))
    numbers = {"epsilon_by_theorem_4_2": float(added)}
    if delta:
        rho = sum((t * spread * spread / 8 for t, spread in zip(schedule.draws[1:], schedule.ranges)), Fraction(0))
        dearest = float(max(schedule.ranges, default=Fraction(0)))
        numbers["epsilon_by_theorem_4_3"] = advanced(dearest, sum(schedule.draws[1:]), delta)
        numbers["epsilon_of_the_draws"] = min(epsilon_of(rho, delta), float(added))
        said = f"{numbers['epsilon_by_theorem_4_3']:.3g} by Theorem 4.3, {numbers['epsilon_of_the_draws']:.3g} by ours"
    else:
        said = f"{numbers['epsilon_by_theorem_4_2']:.3g} by Theorem 4.2"
    return Accounts(numbers=numbers, notes=(f"the draws cost epsilon {said}",))
