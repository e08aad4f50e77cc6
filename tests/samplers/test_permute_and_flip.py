"""The largest score with one-sided noise: its law on tiny scores, exactly and in draws; its coins bit by bit.

Randomised tests raise a false alarm with probability ALPHA = 1e-6, with fixed seeds; each has a broken twin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chi2

from conspectus.privacy.exponential import SelectionError
from conspectus.privacy.noise import SystemSampler, UnsafeSeededSampler
from conspectus.privacy.permute_and_flip import _bounds, _enclosed, _is_below, permute_and_flip

ALPHA = 1e-6


def law(scores: Sequence[int], rate: float) -> list[float]:
    """Brute force: over all sets of candidates that may be kept, one of them uniformly."""
    kept = [math.exp(-rate * (max(scores) - score)) for score in scores]
    chances = [0.0] * len(scores)
    for heads in itertools.product((False, True), repeat=len(scores)):
        chance = math.prod(p if head else 1 - p for p, head in zip(kept, heads))
        for candidate in itertools.compress(range(len(scores)), heads):
            chances[candidate] += chance / sum(heads)
    return chances


def largest_with_noise(scores: Sequence[int], rate: float) -> list[float]:
    """The same with exponential noise: the density of each noisy score times the chance that all others are below."""
    return [
        quad(
            lambda value, own=own: (
                rate
                * math.exp(-rate * (value - scores[own]))
                * math.prod(1 - math.exp(-rate * (value - s)) for i, s in enumerate(scores) if i != own)
            ),
            max(scores),
            max(scores) + 80 / rate,
            limit=200,
        )[0]
        for own in range(len(scores))
    ]


def test_the_worked_numbers_and_why_it_is_not_the_exponential_mechanism() -> None:
    """Theorem 3.13 says that the two laws are one; for scores 0, 1, 2 at rate ½ they are not."""
    found = law([0, 1, 2], 0.5)
    assert found == pytest.approx([0.1467, 0.2661, 0.5872], abs=1e-4)
    assert found == pytest.approx(largest_with_noise([0, 1, 2], 0.5), abs=1e-9)
    weights = np.exp(0.5 * np.arange(3))
    assert weights / weights.sum() == pytest.approx([0.186324, 0.307196, 0.506480], abs=1e-6)
    # Two candidates: half of e^(−λc), where the exponential mechanism errs with 1/(1 + e^(λc)).
    assert law([0, 4], 0.5)[0] == pytest.approx(0.5 * math.exp(-2))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 1)), min_size=2, max_size=6),
    st.sampled_from([0.2, 1.0, 3.0]),
)
def test_neighbours_are_told_apart_by_no_more_than_the_rate_times_the_spread(
    pairs: list[tuple[int, int]], rate: float
) -> None:
    scores, moves = [score for score, _ in pairs], [move for _, move in pairs]
    spread = max(moves) - min(moves)
    here, there = law(scores, rate), law([score + move for score, move in pairs], rate)
    assert all(abs(math.log(p / q)) <= rate * spread + 1e-9 for p, q in zip(here, there))


def test_a_choice_that_moves_apart_costs_all_of_its_spread() -> None:
    """The bound is attained: one score falls by one where the others rise by one, and all were equal."""
    here, there = law([5] * 6, 1.0), law([4, 6, 6, 6, 6, 6], 1.0)
    assert math.log(here[0] / there[0]) == pytest.approx(2.0, abs=1e-9)


def p_value(chosen: NDArray[np.int64], chances: Sequence[float]) -> float:
    expected = np.array(chances) * len(chosen)
    observed = np.bincount(chosen, minlength=len(chances))
    return float(chi2.sf(np.sum((observed - expected) ** 2 / expected), len(chances) - 1))


def test_draws_follow_the_law() -> None:
    """A rate that is off by a fifth is caught, and so is the exponential mechanism."""
    scores = np.array([0, 3, 5, 6, 6], np.int64)
    sampler = UnsafeSeededSampler(4)
    chosen = np.array([permute_and_flip(scores, rate=Fraction(2, 5), sampler=sampler) for _ in range(30_000)])
    assert p_value(chosen, law(scores.tolist(), 0.4)) > ALPHA
    assert p_value(chosen, law(scores.tolist(), 0.48)) < ALPHA
    weights = np.exp(0.4 * scores)
    assert p_value(chosen, (weights / weights.sum()).tolist()) < ALPHA


@settings(max_examples=80, deadline=None)
@given(
    rate=st.fractions(min_value=Fraction(1, 10**9), max_value=30, max_denominator=10**9),
    distances=st.lists(st.integers(0, 10**7), min_size=1, max_size=6),
)
def test_integer_bounds_enclose_the_probability(rate: Fraction, distances: list[int]) -> None:
    scores = np.array([0, *(-d for d in distances)], np.int64)
    low, high = _bounds(scores, rate)
    with mpmath.workdps(80):
        for distance, least, most in zip([0, *distances], low, high):
            if distance:
                exact = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator * distance) * 2**64
                assert int(least) <= exact <= int(most) + 1


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=300, max_denominator=10**6), st.sampled_from([64, 128, 512])
)
def test_decimal_bounds_enclose_it_too(exponent: Fraction, bits: int) -> None:
    least, most = _enclosed(exponent, bits)
    with mpmath.workdps(400):
        exact = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
        assert mpmath.mpf(least.numerator) / least.denominator < exact
        assert exact < mpmath.mpf(most.numerator) / most.denominator
        assert most - least < Fraction(1, 1 << (bits - 2))


class Told:
    """Coins that say what they are told to, and then zeros."""

    private = False

    def __init__(self, content: bytes) -> None:
        self.content = content

    def bytes(self, count: int) -> bytes:
        said, self.content = self.content[:count], self.content[count:]
        return said.ljust(count, b"\0")


@pytest.mark.parametrize("exponent", [Fraction(1), Fraction(7, 3), Fraction(1, 1000), Fraction(40)])
def test_a_coin_that_falls_onto_the_first_64_bits_is_decided_by_the_next(exponent: Fraction) -> None:
    with mpmath.workdps(100):
        digits = int(mpmath.floor(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**128))
    first, rest = digits >> 64, digits & (2**64 - 1)
    assert _is_below(first, exponent, Told((rest - 1).to_bytes(8, "little")))
    assert not _is_below(first, exponent, Told((rest + 1).to_bytes(8, "little")))
    assert not _is_below(first + 1, exponent, Told(b""))
    assert _is_below(first - 1, exponent, Told(b"\xff" * 8))


def test_far_candidates_are_kept_by_their_own_probability_and_not_by_the_floor() -> None:
    """A coin of zeros keeps whatever can be kept at all; one just above the true probability keeps nothing."""
    far = Fraction(45)  # e^(−45) is about 2⁻⁶⁵, below the floor of the weights
    assert _is_below(0, far, Told(b"\0" * 64))
    assert not _is_below(1, far, Told(b""))


def test_a_selection_without_a_rate_is_refused() -> None:
    with pytest.raises(SelectionError, match="budget"):
        permute_and_flip(np.zeros(2, np.int64), rate=Fraction(0), sampler=UnsafeSeededSampler(1))


@pytest.mark.parametrize("power", [2, 40, 64, 200, 360, 368, 369, 370, 400, 1100])
def test_candidates_that_are_hardly_told_apart_are_chosen_alike(power: int) -> None:
    """At a tiny rate a weight is not told from the best one's, and the candidate is kept nearly always, not never."""
    scores = np.array([0, 1], np.int64)
    rate = Fraction(1, 1 << power)
    low, high = _bounds(scores, rate)
    with mpmath.workprec(3000):
        chance = 2**64 * mpmath.exp(-(mpmath.mpf(2) ** -power))
        assert int(low[0]) <= chance <= int(high[0]) + 1
    if power >= 64:  # 60 draws of one candidate alone: once in 2⁵⁹ runs
        assert {permute_and_flip(scores, rate=rate, sampler=SystemSampler()) for _ in range(60)} == {0, 1}
