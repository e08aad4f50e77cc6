"""The largest of scores with one-sided exponential noise, drawn exactly. Sealed: only the curator selects by the truth.

The book's Report One-Sided Noisy Arg-Max (§3.4) adds exponential noise of this rate to every score and reports the
largest. It is said there to be the exponential mechanism, and is not (Theorem 3.13): it is *permute-and-flip*, which is
never worse. That form needs no real number: a candidate at distance d from the best one is kept with probability
exp(−rate·d), and one of those that were kept is drawn uniformly.

Every coin is exact. Sixty-four bits of a uniform number decide against integer bounds on exp(−rate·d); where they fall
between the bounds, more bits are drawn and finer bounds computed.
"""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .exponential import SelectionError, weight_words
from .levels import uniform_below
from .noise import Sampler

_BITS = 64
_EVERY = np.uint64((1 << _BITS) - 1)
_CLAMPED = np.uint64(1 << 24)
"""What a candidate below the floor of the weights has of 2⁶⁴, at most: its bound from below is 0."""

Words = NDArray[np.uint64]


def permute_and_flip(scores: NDArray[np.int64], *, rate: Fraction, sampler: Sampler) -> int:
    """The index of one candidate: that of the largest score after exponential noise of this rate on each.

    Guarantee: if between neighbouring tables the changes of all scores lie in an interval of length r, the index is
    rate·r-differentially private: for scores that move by at most Δ with r = 2Δ, and r = Δ where all move in the same
    direction. There is no slack for rounding. Bounded range does not hold: in ρ it is a pure act.
    """
    low, high = _bounds(scores, rate)
    coins = np.frombuffer(sampler.bytes(8 * len(scores)), "<u8")
    best = scores.max()
    kept = (coins < low) | (scores == best)
    for place in np.flatnonzero(~kept & (coins <= high)):
        exponent = rate * (int(best) - int(scores[place]))
        kept[place] = _is_below(int(coins[place]), exponent, sampler)
    able = np.flatnonzero(kept)
    return int(able[uniform_below(len(able), sampler)])


def _bounds(scores: NDArray[np.int64], rate: Fraction) -> tuple[Words, Words]:
    """For every candidate integers l and h such that l ≤ 2⁶⁴·exp(−rate·d) and 2⁶⁴·exp(−rate·d) ≤ h + 1."""
    if rate <= 0:
        raise SelectionError("a selection needs a rate above 0: give it a budget")
    high, low = weight_words(scores, rate=rate)
    # A weight is 2⁹⁵ of the best one's: its upper 64 bits of 95. It errs downwards, by less than 2⁻⁵³ of itself.
    # One that is not told from the best one's has a bit more, and all of the 64 bits.
    near = np.where(high >> np.uint64(31), _EVERY, (high << np.uint64(33)) | (low >> np.uint64(31)))
    upper = near + (near >> np.uint64(51)) + np.uint64(2)
    upper[upper < near] = _EVERY
    lower = np.where(near > np.uint64(2), near - np.uint64(2), np.uint64(0))
    return np.where(near <= _CLAMPED, np.uint64(0), lower), upper


def _is_below(drawn: int, exponent: Fraction, sampler: Sampler) -> bool:
    """Whether a uniform real number, whose first 64 bits are given, is below exp(−exponent); exactly."""
    bits = _BITS
    while True:
        least, most = _enclosed(exponent, bits)
        if Fraction(drawn + 1, 1 << bits) <= least:
            return True
        if Fraction(drawn, 1 << bits) >= most:
            return False
        drawn = (drawn << bits) | int.from_bytes(sampler.bytes(bits // 8), "little")
        bits *= 2


def _enclosed(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rational numbers with exp(−exponent) between them, to about so many bits."""
    digits = bits // 3 + 10
    ends = []
    for rounding in (decimal.ROUND_CEILING, decimal.ROUND_FLOOR):
        with decimal.localcontext() as exact:
            exact.prec, exact.rounding = digits, rounding
            exact.Emin, exact.Emax = -(10**6), 10**6  # a number below 10⁻¹⁰⁰⁰⁰⁰⁰ has the smallest one as its bound
            exact.clear_traps()
            power = (-(decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator))).exp()
            # `exp` is rounded to the nearest number: the next one on either side encloses it.
            ends.append(power.next_minus() if rounding == decimal.ROUND_CEILING else power.next_plus())
    return max(Fraction(ends[0]), Fraction(0)), Fraction(ends[1])
