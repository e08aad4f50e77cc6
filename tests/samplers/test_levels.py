"""Draws by level: weights against 60 digits, every uniform integer to its member, the range on neighbours.

Nothing here is random but the inputs: integers are counted, so there is no sampling error.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.privacy.exponential import slack
from conspectus.privacy.levels import cutoff, draw_levels, level_weights, steepest, uniform_below

RATES = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=40, max_denominator=10**9),
    st.floats(min_value=1e-9, max_value=1e3).map(Fraction),
)
TOTALS = st.one_of(st.integers(1, 10**4), st.integers(1, 400).map(lambda bits: 3**bits))


class Told:
    """Coins that say one integer."""

    private = False

    def __init__(self, number: int) -> None:
        self.number = number

    def bytes(self, count: int) -> bytes:
        return self.number.to_bytes(count, "little")


@settings(max_examples=150, deadline=None)
@given(rate=RATES, total=TOTALS, data=st.data())
def test_weights_are_exact_to_their_claimed_error(rate: Fraction, total: int, data: st.DataObject) -> None:
    farthest = cutoff(total, rate)
    distances = [0, *data.draw(st.lists(st.integers(0, farthest + 5), max_size=6)), farthest, farthest + 1]
    weights = level_weights(distances, total=total, rate=rate)
    assert weights[-1] == weights[-2] >= 2**54
    with mpmath.workdps(400):
        used = min(rate, steepest(total))
        exact = mpmath.mpf(used.numerator) / used.denominator
        # One factor, the same for all, is free: the weight of distance 0 fixes it to a power of two.
        whole = mpmath.mpf(2) ** weights[0].bit_length()
        for distance, weight in zip(distances, weights):
            error = mpmath.mpf(weight) / (whole * mpmath.exp(-exact * min(distance, farthest))) - 1
            assert -(2.0**-54) <= error <= 0
        # The cutoff is deep enough: everything beyond it weighs less than 2⁻⁴⁰ of the best.
        assert total * mpmath.exp(-exact * farthest) <= mpmath.mpf(2) ** -40


@settings(max_examples=50, deadline=None)
@given(rate=st.floats(min_value=1.0, max_value=1e16).map(Fraction), total=TOTALS)
def test_integers_stay_short_however_high_the_rate(rate: Fraction, total: int) -> None:
    """A higher rate than needed is not drawn by: weights have 2⁻⁴⁰ of the best within one level, and few bits."""
    weights = level_weights([0, 1, 2, 10**9], total=total, rate=rate)
    assert weights[0].bit_length() <= 4 * (total.bit_length() + 40) + 60
    assert weights == level_weights([0, 1, 2, 10**9], total=total, rate=min(rate, steepest(total)))
    if rate >= steepest(total):
        assert weights[1] == weights[2] == weights[3]
        assert total * weights[1] <= weights[0] >> 40


def test_every_uniform_integer_goes_to_its_member() -> None:
    """Each member owns exactly its weight's worth of integers, whatever the masses; a level of mass 0 owns none."""
    distances, masses, rate = [0, 2, 3, 9], [2, 0, 5, 10**30], Fraction(1, 3)
    total = sum(masses)
    weights = level_weights(distances, total=total, rate=rate)
    start = 0
    for level, (mass, weight) in enumerate(zip(masses, weights)):
        for rank in {0, 1, mass - 1} & set(range(mass)) if mass < 10 else {0, 1, mass - 1}:
            for goal in (start + rank * weight, start + (rank + 1) * weight - 1):
                (found,) = draw_levels(distances, masses, total=total, rate=rate, draws=1, sampler=Told(goal))
                assert found == (level, rank)
        start += mass * weight


@settings(max_examples=80, deadline=None)
@given(rate=RATES, data=st.data())
def test_the_range_on_neighbours_is_kept(rate: Fraction, data: st.DataObject) -> None:
    """Scores that move by at most r levels: log-weights of all members move within 2·rate·r + slack."""
    reach = data.draw(st.integers(1, 3))
    widest = int(60 / rate) + 3
    scores = data.draw(st.lists(st.integers(-widest, 0), min_size=2, max_size=8))
    moved = [score + data.draw(st.integers(-reach, reach)) for score in scores]
    with mpmath.workdps(80):
        logs = [mpmath.log(a) - mpmath.log(b) for a, b in zip(_weights(scores, rate), _weights(moved, rate))]
        allowed = 2 * mpmath.mpf(rate.numerator) / rate.denominator * reach
        assert max(logs) - min(logs) <= allowed + mpmath.mpf(slack().numerator) / slack().denominator


def _weights(scores: list[int], rate: Fraction) -> list[int]:
    best = max(scores)
    return level_weights([best - score for score in scores], total=len(scores), rate=rate)


def test_members_that_are_dropped_would_break_the_range() -> None:
    """The twin: what is beyond the cutoff is dropped instead of raised to it, and the range is endless."""
    rate, total = Fraction(1), 2
    farthest = cutoff(total, rate)

    def dropped(distance: int) -> int:
        return 0 if distance > farthest else level_weights([distance], total=total, rate=rate)[0]

    assert dropped(farthest) > 0 == dropped(farthest + 1)
    kept = level_weights([farthest, farthest + 1], total=total, rate=rate)
    assert math.log(kept[0] / kept[1]) == 0


def test_uniform_integers_below_any_bound() -> None:
    seen = [uniform_below(5, _Counting(3 * i)) for i in range(40)]
    assert set(seen) == set(range(5))
    assert uniform_below(1, Told(0)) == 0


class _Counting:
    private = False

    def __init__(self, start: int) -> None:
        self.at = start

    def bytes(self, count: int) -> bytes:
        self.at += 1
        return np.full(count, self.at % 256, np.uint8).tobytes()


@pytest.mark.parametrize(
    ("distances", "masses", "total"), [([], [], 0), ([1], [4], 4), ([0], [4], 5), ([0, 1], [4], 4)]
)
def test_levels_that_are_none(distances: list[int], masses: list[int], total: int) -> None:
    with pytest.raises(ValueError, match="levels are distances"):
        draw_levels(distances, masses, total=total, rate=Fraction(1), draws=1, sampler=Told(0))
