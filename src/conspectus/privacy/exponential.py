"""The exponential mechanism in exact integers, at a million draws. Sealed: only the curator selects by the truth.

A candidate with score s is drawn with probability proportional to exp(rate·s): scores are integers, the rate is a
rational, the weights are integers made by integer arithmetic alone, and so is the draw. What the weights lose to
rounding is proved in `exponential.proof.md` and charged by `slack`; there is no float between the truth and the coin.

How: the distance d of a score from the best one is cut into 11-bit digits, and exp(−rate·d) is the product of one
64-bit mantissa for each digit, from tables made with 320-bit integers. A weight is that product as a 96-bit integer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .noise import Sampler, discrete_laplace

FLOOR_BITS = 40
"""Weights below 2⁻⁴⁰ of the largest are raised to that floor. It costs no privacy, and moves at most |Q|·2⁻⁴⁰ of the
mass."""

MOST_CANDIDATES = 1 << 31
"""So many 96-bit weights sum below 2¹²⁸."""

_DIGIT = 11
_BLOCK = 256  # candidates whose weights are summed ahead; a draw walks through one such block
_SPARE = 8  # low bits of a mantissa that a weight drops at most, besides one for rounding at the floor
_PRECISION = 320

_U0, _U1, _U32, _U63, _U64 = (np.uint64(bits) for bits in (0, 1, 32, 63, 64))
_LOW = np.uint64(0xFFFFFFFF)
_DIGIT_BITS, _DIGIT_MASK = np.uint64(_DIGIT), np.uint64((1 << _DIGIT) - 1)
_TOP = np.uint64(1 << 63)
_FLOOR_WEIGHT = np.uint64(1 << (63 - _SPARE))
_SHIFT = FLOOR_BITS - _SPARE

Indices = NDArray[np.int64]
Words = NDArray[np.uint64]


class SelectionError(ValueError):
    """A selection that cannot be drawn: no candidates, too many, or a rate or a number of draws below 0."""


def slack() -> Fraction:
    """What rounding adds, at most, to the range of one draw: charge rate·(range of the scores) + slack for each."""
    return Fraction(1, 1 << 51)


def draw(scores: NDArray[np.int64], *, rate: Fraction, draws: int, sampler: Sampler) -> Indices:
    """Indices of `draws` candidates, independent and with replacement, each with probability ∝ exp(rate·score).

    Guarantee: if between neighbouring tables the changes of all scores lie in an interval of length r, every draw has
    bounded range rate·r + slack(): it is that differentially private, and an eighth of its square concentrated.
    """
    _check(scores, rate)
    if draws < 0:
        raise SelectionError(f"a number of draws cannot be {draws}: give 0 or more")
    powers, best = _powers(rate), np.max(scores)
    high, low = _cumulative(scores, best, powers, _BLOCK)
    uniform = _uniform_below((int(high[-1]) << 64) | int(low[-1]), draws, sampler)
    chosen = np.empty(draws, np.int64)
    _locate(*uniform, scores, best, powers.cutoff, powers.mantissas, powers.exponents, high, low, _BLOCK, chosen)
    return chosen


def peel(scores: NDArray[np.int64], barred: Indices, *, rate: Fraction, draws: int, sampler: Sampler) -> Indices:
    """`draws` different candidates, none of them `barred`: each drawn as by `draw` from those that are left.

    Guarantee: if `barred` is public, each draw has, given those before it, the bounded range of a draw of `draw`.
    """
    return peeled(scores, barred, draws, lambda left: int(draw(left, rate=rate, draws=1, sampler=sampler)[0]))


def peeled(
    scores: NDArray[np.int64], barred: Indices, draws: int, choose: Callable[[NDArray[np.int64]], int]
) -> Indices:
    """`draws` different candidates, none of them `barred`: each is `choose` of the scores that are left."""
    left = np.delete(np.arange(len(scores), dtype=np.int64), barred)
    if draws > len(left):
        raise SelectionError(f"{draws} different candidates cannot be drawn from {len(left)}")
    found = np.empty(draws, np.int64)
    for turn in range(draws):
        place = choose(scores[left])
        found[turn] = left[place]
        left = np.delete(left, place)
    return found


def report_noisy_max(scores: NDArray[np.int64], *, scale: float, sampler: Sampler) -> int:
    """The index of the largest score after discrete Laplace noise on each; the first one where several are equal.

    A draw of `draw` has bounded range and costs less in ρ, and `permute_and_flip` is never worse in pure ε. It is here
    as the book's own, with its proof, which corrects the book's.

    Only the index may leave. The noisy maximum itself is *not* free (the book's Example 3.4 is wrong about that: for m
    candidates it costs m times as much): measure the winner afresh, with its own noise and price.

    Guarantee: if no score changes by more than Δ between neighbours, the index is 2Δ/scale-differentially private; and
    Δ/scale only where all scores change in the same direction, as counts do when a row is added (not when one is
    replaced, and not for errors). Bounded range does not hold: in ρ it is a pure act.
    """
    _check(scores, Fraction(1))
    return int(np.argmax(discrete_laplace(scores, scale, sampler)))


def integer_weights(scores: NDArray[np.int64], *, rate: Fraction) -> list[int]:
    """The weights w_q by which `draw` draws, as exact integers: a function of the truth, which may not leave.

    No mechanism calls it. The proof of `draw` is about these numbers, and what it says of them (their error, their
    range on neighbours) is tested on the numbers themselves, as the same code makes them.
    """
    _check(scores, rate)
    high, low = _cumulative(scores, np.max(scores), _powers(rate), 1)
    sums = [(int(upper) << 64) | int(lower) for upper, lower in zip(high, low)]
    return [after - before for before, after in zip([0, *sums], sums)]


def weight_words(scores: NDArray[np.int64], *, rate: Fraction) -> tuple[Words, Words]:
    """The weights of `integer_weights` as pairs of words, (high, low): for coins that are thrown by them."""
    _check(scores, rate)
    powers = _powers(rate)
    high, low = np.empty(len(scores), np.uint64), np.empty(len(scores), np.uint64)
    _weigh(scores, np.max(scores), powers.cutoff, powers.mantissas, powers.exponents, high, low)
    return high, low


def _check(scores: NDArray[np.int64], rate: Fraction) -> None:
    """Looks at the public number of candidates and at the rate alone."""
    if scores.dtype != np.int64 or scores.ndim != 1:
        raise TypeError("scores are a one-dimensional array of 64-bit integers")
    if not 0 < len(scores) <= MOST_CANDIDATES:
        raise SelectionError(f"a selection needs between 1 and 2**31 candidates, not {len(scores)}")
    if rate <= 0:
        raise SelectionError("a selection needs a rate above 0: give it a budget")


@dataclass(frozen=True, eq=False)
class _Powers:
    """exp(−rate·i·2^(11j)) = mantissa[j, i]·2^(−63−exponent[j, i]), rounded down, for distances up to the cutoff."""

    cutoff: np.uint64
    mantissas: Words
    exponents: NDArray[np.int64]


@lru_cache(maxsize=32)
def _powers(rate: Fraction) -> _Powers:
    cutoff = min(_cutoff(rate), (1 << 64) - 1)
    levels = max(1, -(-cutoff.bit_length() // _DIGIT))
    mantissas = np.full((levels, 1 << _DIGIT), _TOP)
    exponents = np.zeros((levels, 1 << _DIGIT), np.int64)
    for level in range(levels):
        last = min(cutoff >> (_DIGIT * level), (1 << _DIGIT) - 1)
        if not last:
            continue  # the rate alone is below the floor: only distance 0 has a power
        unit = _exp_minus(rate * (1 << (_DIGIT * level)))
        power = 1 << _PRECISION
        for digit in range(1, last + 1):
            power = (power * unit) >> _PRECISION
            exponents[level, digit] = _PRECISION + 1 - power.bit_length()
            mantissas[level, digit] = power >> (power.bit_length() - 64)
    return _Powers(np.uint64(cutoff), mantissas, exponents)


def _cutoff(rate: Fraction) -> int:
    """⌊40 ln 2 / rate⌋: the largest distance whose weight is not below the floor."""
    precision = _PRECISION
    while True:
        # ln 2 = Σ 1/(k·2^k): every term is rounded down by less than 1, and the rest of the series adds less than 1.
        below = sum((1 << precision) // (k << k) for k in range(1, precision + 1))
        first, last = (
            FLOOR_BITS * bound * rate.denominator // (rate.numerator << precision)
            for bound in (below, below + precision + 1)
        )
        if first == last:
            return first
        precision *= 2


def _exp_minus(exponent: Fraction) -> int:
    """2³²⁰·exp(−exponent) for 0 < exponent ≤ 28, to within 2⁻²⁸⁰ of its value."""
    return exp_series(exponent, _PRECISION + 64, 16) >> 64


def exp_series(exponent: Fraction, working: int, halvings: int) -> int:
    """About 2^working·exp(−exponent): a Taylor series at exponent/2^halvings, then squarings, in integers."""
    small = (exponent.numerator << (working - halvings)) // exponent.denominator
    term = total = 1 << working
    order = 0
    while term:
        order += 1
        term = (term * small >> working) // order
        total += -term if order % 2 else term
    for _ in range(halvings):
        total = total * total >> working
    return total


def _cumulative(scores: NDArray[np.int64], best: np.int64, powers: _Powers, block: int) -> tuple[Words, Words]:
    """Running sums of the weights at the end of every block, as pairs of 64-bit words."""
    blocks = -(-len(scores) // block)
    high, low = np.empty(blocks, np.uint64), np.empty(blocks, np.uint64)
    _sum_blocks(scores, best, powers.cutoff, powers.mantissas, powers.exponents, block, high, low)
    return high, low


def _uniform_below(total: int, count: int, sampler: Sampler) -> tuple[Words, Words]:
    """`count` independent uniform integers in 0 … total − 1, as pairs of words: bits of the right number, or again."""
    bits = total.bit_length()
    masks = np.uint64((1 << max(bits - 64, 0)) - 1), np.uint64((1 << min(bits, 64)) - 1)
    limit_high, limit_low = np.uint64(total >> 64), np.uint64(total & ((1 << 64) - 1))
    found_high, found_low = np.empty(0, np.uint64), np.empty(0, np.uint64)
    while len(found_high) < count:
        words = np.frombuffer(sampler.bytes(32 * (count - len(found_high)) + 64), "<u8").reshape(-1, 2)
        high, low = words[:, 0] & masks[0], words[:, 1] & masks[1]
        below = (high < limit_high) | ((high == limit_high) & (low < limit_low))
        found_high, found_low = np.append(found_high, high[below]), np.append(found_low, low[below])
    return found_high[:count], found_low[:count]


@compiled(inline=True)
def _times(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The 128-bit product of two words, as (high, low)."""
    a1, a0, b1, b0 = a >> _U32, a & _LOW, b >> _U32, b & _LOW
    lowest, cross, other = a0 * b0, a1 * b0, a0 * b1
    middle = (lowest >> _U32) + (cross & _LOW) + (other & _LOW)
    high = a1 * b1 + (cross >> _U32) + (other >> _U32) + (middle >> _U32)
    return high, (middle << _U32) | (lowest & _LOW)


@compiled(inline=True)
def _weight(
    distance: np.uint64, cutoff: np.uint64, mantissas: Words, exponents: NDArray[np.int64]
) -> tuple[np.uint64, np.uint64]:
    """The weight of a candidate at this distance from the best one, as (high, low)."""
    if distance > cutoff:
        return _U0, _FLOOR_WEIGHT
    digit = distance & _DIGIT_MASK
    mantissa, exponent = mantissas[0, digit], exponents[0, digit]
    distance >>= _DIGIT_BITS
    level = 1
    while distance:
        digit = distance & _DIGIT_MASK
        high, low = _times(mantissa, mantissas[level, digit])
        exponent += exponents[level, digit]
        if high >= _TOP:
            mantissa = high
            exponent -= 1
        else:
            mantissa = (high << _U1) | (low >> _U63)
        distance >>= _DIGIT_BITS
        level += 1
    shift = _SHIFT - exponent
    if shift > 0:
        return mantissa >> (_U64 - np.uint64(shift)), mantissa << np.uint64(shift)
    return _U0, mantissa >> np.uint64(-shift)


@compiled
def _weigh(
    scores: NDArray[np.int64],
    best: np.int64,
    cutoff: np.uint64,
    mantissas: Words,
    exponents: NDArray[np.int64],
    high: Words,
    low: Words,
) -> None:
    for candidate in range(len(scores)):
        distance = np.uint64(best) - np.uint64(scores[candidate])
        high[candidate], low[candidate] = _weight(distance, cutoff, mantissas, exponents)


@compiled
def _sum_blocks(
    scores: NDArray[np.int64],
    best: np.int64,
    cutoff: np.uint64,
    mantissas: Words,
    exponents: NDArray[np.int64],
    block: int,
    sums_high: Words,
    sums_low: Words,
) -> None:
    high, low = _U0, _U0
    for number in range(len(sums_high)):
        for candidate in range(number * block, min((number + 1) * block, len(scores))):
            # Differences of 64-bit integers are exact modulo 2⁶⁴, and the true one lies in 0 … 2⁶⁴ − 1.
            distance = np.uint64(best) - np.uint64(scores[candidate])
            upper, lower = _weight(distance, cutoff, mantissas, exponents)
            low += lower
            high += upper + (_U1 if low < lower else _U0)
        sums_high[number], sums_low[number] = high, low


@compiled
def _locate(
    uniform_high: Words,
    uniform_low: Words,
    scores: NDArray[np.int64],
    best: np.int64,
    cutoff: np.uint64,
    mantissas: Words,
    exponents: NDArray[np.int64],
    sums_high: Words,
    sums_low: Words,
    block: int,
    chosen: Indices,
) -> None:
    """For each uniform integer u, the first candidate whose running sum of weights exceeds u."""
    for position in range(len(chosen)):
        goal_high, goal_low = uniform_high[position], uniform_low[position]
        first, last = 0, len(sums_high) - 1
        while first < last:
            middle = (first + last) // 2
            if sums_high[middle] > goal_high or (sums_high[middle] == goal_high and sums_low[middle] > goal_low):
                last = middle
            else:
                first = middle + 1
        high, low = (sums_high[first - 1], sums_low[first - 1]) if first else (_U0, _U0)
        candidate = first * block - 1
        while high < goal_high or (high == goal_high and low <= goal_low):
            candidate += 1
            distance = np.uint64(best) - np.uint64(scores[candidate])
            upper, lower = _weight(distance, cutoff, mantissas, exponents)
            low += lower
            high += upper + (_U1 if low < lower else _U0)
        chosen[position] = candidate
