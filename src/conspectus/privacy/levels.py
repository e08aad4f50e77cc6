"""The exponential mechanism over ranges too large to list: first a level of the score, then a member of that level.

All members with the same score have the same weight, so what is needed of a range is how many members each level has
(its *mass*, an exact integer of any length) and a way to find the member of a given rank. Sealed, as `exponential` is:
only the curator selects by the truth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from .exponential import exp_series
from .noise import Sampler

DEPTH = 40
"""Everything beyond the cutoff weighs at most 2⁻⁴⁰ of the best level, all members together."""

_GUARD = 64
_DIGIT = 1 << 10
_LN2 = Fraction(69315, 100000)  # a little above ln 2


def cutoff(mass: int, rate: Fraction) -> int:
    """A distance from the best score beyond which all members weigh the same. A function of public numbers."""
    return max(1, -(-steepest(mass) // rate))


def steepest(mass: int) -> Fraction:
    """The highest rate that is drawn by: there, all members one level below the best weigh 2⁻⁴⁰ of it together."""
    return (DEPTH + mass.bit_length()) * _LN2


def draw_levels(
    distances: Sequence[int], masses: Sequence[int], *, total: int, rate: Fraction, draws: int, sampler: Sampler
) -> list[tuple[int, int]]:
    """Levels, each with the rank of a member: every member has probability ∝ exp(−rate·min(distance, cutoff)).

    `distances` are from the best score, at least one of them 0; `total` is the public number of all members, which
    fixes the cutoff. A rate above `steepest` is lowered to it: less is spent than was asked for. Draws are independent,
    with replacement.

    Guarantee: if between neighbouring tables the changes of all scores lie in an interval of length r, every draw has
    bounded range rate·r + exponential.slack(): it is that differentially private, an eighth of its square concentrated.
    """
    if len(distances) != len(masses) or not masses or min(distances) != 0 or min(masses) < 0 or sum(masses) != total:
        raise ValueError("levels are distances from the best one, each with its mass, of all members together")
    weights = level_weights(distances, total=total, rate=rate)
    sums = list(accumulate((mass * weight for mass, weight in zip(masses, weights)), initial=0))
    drawn = []
    for _ in range(draws):
        goal = uniform_below(sums[-1], sampler)
        level = bisect_right(sums, goal) - 1
        # What is left of the same integer is uniform over the level's members, each of which owns `weight` integers.
        drawn.append((level, (goal - sums[level]) // weights[level]))
    return drawn


def level_weights(distances: Sequence[int], *, total: int, rate: Fraction) -> list[int]:
    """The very integer weight of one member of each level: 2^B·exp(−rate·distance), rounded down (or one less).

    The rate is at most `steepest`, so exponents stay near it and integers short, whatever ε was asked for.
    """
    rate = min(rate, steepest(total))
    farthest = cutoff(total, rate)
    # The smallest power, at the cutoff, still has 56 bits. A million levels need but two short tables of powers.
    bits = _bits(rate * farthest) + 56
    fine = bits + 8
    digits = [divmod(min(distance, farthest), _DIGIT) for distance in distances]
    low = {below: _exp_minus(rate * below, fine) for below in {below for _, below in digits}}
    high = {above: _exp_minus(rate * above * _DIGIT, fine) for above in {above for above, _ in digits}}
    return [low[below] * high[above] >> (2 * fine - bits) for above, below in digits]


def _bits(exponent: Fraction) -> int:
    """At least exponent/ln 2: the power exp(−exponent) is at least 2 to the minus this."""
    return int(exponent * Fraction(1442696, 1000000)) + 1


def _exp_minus(exponent: Fraction, bits: int) -> int:
    """⌊2^bits·exp(−exponent)⌋ or one less."""
    halvings = int(exponent).bit_length() + 12
    working = bits + _bits(exponent) + halvings + _GUARD
    result = exp_series(exponent, working, halvings)
    return max(1, (result - (1 << (working - bits - _GUARD // 2))) >> (working - bits))


def uniform_below(bound: int, sampler: Sampler) -> int:
    """A uniform integer in 0 … bound − 1: as many bits as the bound has, drawn again until they are below it.

    Guarantee: every integer in 0 … bound − 1 has the same probability, exactly; `bound` is at least 1.
    """
    bits = bound.bit_length()
    while True:
        found = int.from_bytes(sampler.bytes(-(-bits // 8)), "little") & ((1 << bits) - 1)
        if found < bound:
            return found
