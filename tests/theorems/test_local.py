"""Randomised response: the book's numbers, its law, its guarantee on every pair of answers, and intervals that hold."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import conspectus as cs
from conspectus.local.randomised_response import LEAST_EPSILON, MOST_EPSILON
from conspectus.privacy.exponential import integer_weights, slack
from conspectus.privacy.noise import UnsafeSeededSampler

ALPHA = 1e-6


def survey(epsilon, k=2, seed=1):
    return cs.local.RandomisedResponse(values=tuple(range(k)), epsilon=epsilon, _sampler=UnsafeSeededSampler(seed))


def test_two_coins_are_ln_3():
    """Claim 3.5: 3/4 and 1/4; the estimate is 2·yes − 1/2."""
    asked = survey(math.log(3))
    assert (asked.truth, asked.other) == pytest.approx((0.75, 0.25))
    told = asked.decode([1] * 60 + [0] * 40)[1]
    assert told.share == pytest.approx(2 * 0.6 - 0.5)


SMALLEST = math.nextafter(LEAST_EPSILON, 1)


@pytest.mark.parametrize("epsilon", [SMALLEST, 1e-15, 3e-15, 1e-12, 0.01, 1.0, 12.0, MOST_EPSILON])
def test_the_weights_that_are_drawn_by_keep_the_promise(epsilon):
    """The exact integers: their ratio is at most e^ε, and no less than it has to be."""
    rates = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "conspectus.local.randomised_response.draw", lambda scores, *, rate, **others: rates.append(rate) or [0]
        )
        survey(epsilon).respond(1)
    (rate,) = rates
    assert rate == Fraction(epsilon) - slack() > 0
    high, low = integer_weights(np.array([1, 0], np.int64), rate=rate)
    with mpmath.workdps(60):
        assert mpmath.log(mpmath.mpf(high) / low) <= mpmath.mpf(epsilon)
    if epsilon <= 27:
        assert math.log(high / low) == pytest.approx(epsilon, rel=1e-6) or epsilon < 1e-10


@pytest.mark.parametrize("epsilon", [LEAST_EPSILON, 1e-16, 1e-20, 1e-300, 5e-324])
def test_an_epsilon_that_rounding_would_exceed_is_refused(epsilon):
    """At ε = 10⁻²⁰ the rate ε/2 gave weights that differ by a factor above e^ε."""
    with pytest.raises(ValueError, match="rounding"):
        survey(epsilon)
    rate = Fraction(1e-20) / 2
    high, low = integer_weights(np.array([1, 0], np.int64), rate=rate)
    assert Fraction(high, low) > 1 + Fraction(1e-20) * 2  # the twin


@pytest.mark.parametrize("k", [2, 3, 1_000])
def test_the_smallest_epsilon_is_decoded(k):
    told = survey(SMALLEST, k=k).decode(list(range(k)))
    assert all(math.isfinite(each.share) and 0 <= each.low <= each.high <= 1 for each in told)


def test_reports_follow_their_law():
    """Four answers at ε = 1; an ε off by a third is caught."""
    asked = survey(1.0, k=4)
    seen = np.bincount([asked.respond(2) for _ in range(5_000)], minlength=4)

    def likely(truth):
        return all(
            ALPHA / 4 < binom.cdf(count, 5_000, chance) < 1 - ALPHA / 4
            for count, chance in zip(seen, [(1 - truth) / 3] * 2 + [truth, (1 - truth) / 3])
        )

    assert likely(asked.truth)
    assert not likely(survey(1.3, k=4).truth)


def test_intervals_hold_as_often_as_they_say():
    """60 surveys of 80 people, 90 %: the first value's interval misses with probability 0.1 at most."""
    rng = np.random.Generator(np.random.PCG64(7))
    missed, width = 0, []
    for seed in range(60):
        asked = survey(1.0, k=3, seed=seed)
        answers = rng.choice(3, 80, p=[0.2, 0.5, 0.3])
        reports = [asked.respond(int(answer)) for answer in answers]
        told = asked.decode(reports, confidence=0.9)[1]
        missed += not told.low <= np.mean(answers == 1) <= told.high
        width.append(told.high - told.low)
    assert missed <= binom.ppf(1 - ALPHA, 60, 0.1)
    assert np.mean(width) < 0.75


def test_the_interval_is_the_exact_one_by_brute_force():
    asked = survey(0.7)
    (_, told) = asked.decode([1] * 8 + [0] * 4, confidence=0.8)
    inside = []
    for holders in range(13):
        law = np.convolve(
            binom.pmf(np.arange(holders + 1), holders, asked.truth),
            binom.pmf(np.arange(13 - holders), 12 - holders, asked.other),
        )
        if law[8:].sum() > 0.1 and law[:9].sum() > 0.1:
            inside.append(holders)
    assert (told.low, told.high) == pytest.approx((inside[0] / 12, inside[-1] / 12))


def test_the_error_is_the_root_of_the_number_of_people():
    """Where a trusted curator's count is off by 1/ε: the deviation of an estimate at n = 10,000 is about √n."""
    asked = survey(1.0)
    deviation = math.sqrt(asked.truth * asked.other / 10_000) / (asked.truth - asked.other)
    assert 0.3 * 100 < deviation * 10_000 < 1.2 * 100


def test_what_is_no_survey():
    with pytest.raises(cs.local.LocalError, match="different"):
        cs.local.RandomisedResponse(values=["yes", "yes"], epsilon=1.0)
    odd = (
        math.nan,
        np.float64("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        ("a", math.nan),
        frozenset({math.nan}),
        [],
        pd.NA,
    )
    for value in (*odd, pd.NaT, np.array([1, 2])):
        with pytest.raises(cs.local.LocalError, match="equals itself"):
            cs.local.RandomisedResponse(values=["yes", value], epsilon=1.0)
    for epsilon in (0, -1, 31, math.nan, "1"):
        with pytest.raises(cs.local.LocalError, match="epsilon"):
            cs.local.RandomisedResponse(values=[0, 1], epsilon=epsilon)
    asked = survey(1.0)
    with pytest.raises(cs.local.LocalError, match="declared"):
        asked.respond(7)
    for reports, confidence in (([], 0.9), ([7], 0.9), ([1], 1.0), ([[]], 0.9), ([math.nan], 0.9)):
        with pytest.raises(cs.local.LocalError):
            asked.decode(reports, confidence=confidence)
