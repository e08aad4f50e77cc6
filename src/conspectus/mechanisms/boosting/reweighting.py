"""The numbers of re-weighting: how strong a weak synopsis must be, how fast weights move, and what draws by them cost.

All are functions of public facts. With rates α_1 … α_T, a generator that is right on ½ + η of the mass in every round
leaves Z_T ≤ |Q|·Π_j ((½+η)e^(−α_j) + (½−η)e^(α_j)) (Claim 6.3, one factor a round), and Z_T < 1 means that the weighted
median, with the same α_j as weights, is within λ + μ on every question. For equal rates α = ½ ln((1+2η)/(1−2η)) the
product is (1 − 4η²)^(T/2), which is what the proof shows and less than the exp(−η²T) that is printed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from scipy.optimize import brentq

from conspectus.curator.acts import selection_range
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, WIDEST, reweighting_sensitivity
from conspectus.mechanisms.mechanism import Problem

RATE = Fraction(1, LOG_WEIGHT_STEPS * LOG_WEIGHT_STEPS)
"""One step of a reweighting's score, in log-weight."""

# Beyond this one round decides everything: a question that it gets wrong outweighs nine million that it gets right.
_FASTEST = 8.0

# Chosen with the growth of these rates on 20,000 functions of Adult.
_STEEPEST = 6.0


def rate_of(edge: float) -> float:
    """α = ½ ln((1+2η)/(1−2η)): the rate that suits an edge of η."""
    return 0.5 * math.log((1 + 2 * edge) / (1 - 2 * edge))


FLOOR = 2.0**-40
"""What a draw's weights are raised to, as a share of the largest: at most |Q| times this of the mass is drawn amiss."""


def rounds_as_drawn(queries: int, edge: float, rate: int) -> int:
    """The fewest rounds that suffice for the weights as they are kept and drawn; `rate` is in 1/LOG_WEIGHT_STEPS.

    A synopsis that is right on ½ + η of what was drawn is right on ½ + η − |Q|·2⁻⁴⁰ of the weights, since raised ones
    take at most that; and marks are rounded down by less than 1/LOG_WEIGHT_STEPS, which raises a weight by that much of
    α.
    """
    alpha, edge = rate / LOG_WEIGHT_STEPS, edge - queries * FLOOR
    factor = math.log((0.5 + edge) * math.exp(-alpha) + (0.5 - edge) * math.exp(alpha)) + alpha / LOG_WEIGHT_STEPS
    if factor >= 0:
        raise ValueError("no number of rounds suffices for an edge this small at this rate")
    return math.floor(math.log(max(queries, 1)) / -factor) + 1


def rate_for(queries: int, rounds: int) -> float:
    """α_T, the rate that suits the edge η_T = ½√(1 − |Q|^(−2/T)) with which T rounds just suffice.

    It is artanh of 2η_T, in a form that loses nothing where η_T is nearly ½.
    """
    part = math.log(max(queries, 2)) / rounds
    return part + math.log1p(math.sqrt(-math.expm1(-2 * part)))


def growing_rates(queries: int, rounds: int, growth: float) -> tuple[int, ...]:
    """Rates in steps of 1/LOG_WEIGHT_STEPS: each `growth` times the one before; their sum is that of equal rates."""
    total = rounds * min(rate_for(queries, rounds), _FASTEST)
    shape = [growth**turn for turn in range(rounds)]
    return tuple(max(1, round(LOG_WEIGHT_STEPS * total * part / sum(shape))) for part in shape)


def unclipped_rates(rounds: int) -> tuple[int, ...]:
    """Rates for synopses with a history and many questions to tell apart, of which few are badly answered.

    The gap μ that a budget allows is in proportion to the rates. With large rates it is wider than the errors: no
    question counts as wholly wrong, and draws tell errors of any size apart. Later synopses know more and get more
    weight. The last rate is never paid for; it and the one before hold about half of the weight. Of two or three
    synopses the last one alone has seen nearly all, and holds more than half.
    """
    shape = [_STEEPEST * 1.1 ** (turn + 2 - rounds) for turn in range(rounds - 1)]
    shape.append((0.8 if rounds > 3 else 1.2) * sum(shape) if shape else _STEEPEST)
    return tuple(round(LOG_WEIGHT_STEPS * rate) for rate in shape)


def potential_bound(queries: int, rates: Sequence[int], edge: float) -> float:
    """|Q|·Π ((½+η)e^(−α_j) + (½−η)e^(α_j)): what Z is at most, if every round had this edge."""
    alphas = [rate / LOG_WEIGHT_STEPS for rate in rates]
    return queries * math.prod((0.5 + edge) * math.exp(-a) + (0.5 - edge) * math.exp(a) for a in alphas)


def needed_edge(queries: int, rates: Sequence[int]) -> float:
    """The smallest η with which these rates bring Z below 1; ½ where none does."""
    if potential_bound(queries, rates, 0.5) >= 1:
        return 0.5
    return float(brentq(lambda edge: potential_bound(queries, rates, edge) - 1, 0.0, 0.5))


@dataclass(frozen=True, kw_only=True)
class DrawPlan:
    """How the rounds draw, from public facts: `rates` are α_1 … α_T, in steps of 1/LOG_WEIGHT_STEPS.

    `lam` is λ, up to which an error counts as right; `mu` is μ, and from λ + μ on an error counts as wrong. Both are in
    grid steps of 1/ERROR_STEPS count. `draws` is k, `ranges` the range of one draw and `prices` the price of all k,
    each for every round after the first, which draws from the uniform distribution and is free.
    """

    rates: tuple[int, ...]
    draws: tuple[int, ...]
    lam: int
    mu: int
    ranges: tuple[Fraction, ...]
    prices: tuple[Fraction, ...]

    @property
    def price(self) -> Fraction:
        """The price of all draws of all rounds."""
        return sum(self.prices, Fraction(0))

    @property
    def inaccurate(self) -> float:
        """λ + μ in counts."""
        return (self.lam + self.mu) / ERROR_STEPS


def plan_sampling(
    problem: Problem, *, rates: tuple[int, ...], draws: Sequence[int], lam: float, price: Fraction
) -> DrawPlan | None:
    """Plan draws with the narrowest gap μ that `price` affords, or one that is hardly wider.

    Round t draws with log-weights that one unit moves by 2Δ/μ·Σ_{j<t} α_j, up or down: an interval of twice that
    (Lemma 6.4, with the rates of the rounds that were). In ρ a draw costs an eighth of its square.

    Args:
        problem: The public facts.
        rates: α_1 … α_T in steps of 1/LOG_WEIGHT_STEPS.
        draws: k for every round after the first.
        lam: λ in counts.
        price: What all draws together may cost, in the currency of the problem.

    Returns:
        The plan; None where no gap is wide enough.
    """
    moved = [Fraction(so_far, LOG_WEIGHT_STEPS) for so_far in accumulate(rates[:-1])]
    unit = problem.error_sensitivity
    steps = max(0, round(lam * ERROR_STEPS))
    if not moved:
        return DrawPlan(rates=rates, draws=(), lam=steps, mu=unit, ranges=(), prices=())
    if problem.currency == "pure":
        gap = 4 * unit * sum(k * share for k, share in zip(draws, moved, strict=True)) / price
        mu = max(1, math.floor(min(gap, Fraction(WIDEST + 1))))
    else:
        square = 2 * unit * unit * sum(k * share * share for k, share in zip(draws, moved, strict=True)) / price
        mu = max(1, math.floor(math.sqrt(min(square, Fraction(WIDEST + 1) ** 2))))
    while max(mu, steps) <= WIDEST:
        moves = [reweighting_sensitivity(rates[:turn], mu, unit) for turn in range(1, len(rates))]
        ranges = tuple(selection_range(move, RATE) for move in moves)
        prices = tuple(k * (r if problem.currency == "pure" else r * r / 8) for k, r in zip(draws, ranges))
        if sum(prices) <= price:
            return DrawPlan(rates=rates, draws=tuple(draws), lam=steps, mu=mu, ranges=ranges, prices=prices)
        if mu >= 2 * unit * LOG_WEIGHT_STEPS:
            return None  # one unit moves a score by a single step already: no wider gap is cheaper
        mu += max(1, mu >> 12)
    return None
