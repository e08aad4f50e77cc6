"""Tails of noise and of its sums, against brute force; quantiles are exact or wide, and cover what they say."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom
from tests.reference import noise_law, quantile_of_sum

from conspectus.privacy import tails
from conspectus.privacy.events import Noise
from conspectus.privacy.noise import UnsafeSeededSampler, discrete_gaussian, discrete_laplace
from conspectus.privacy.tails import Kind, deviation_of, gaussian_tail, laplace_tail, lower_quantile, sum_quantile

ALPHA = 1e-6
KINDS: tuple[Kind, ...] = ("laplace", "gaussian")


@pytest.mark.parametrize("scale", [0.15, 1.0, 7.3])
@pytest.mark.parametrize("t", [-1, 0, 0.5, 3, 20, 90])
def test_tails_of_one_noise(scale: float, t: float) -> None:
    with mpmath.workdps(40):
        support = range(-900, 901)
        for kind, tail in (("laplace", laplace_tail), ("gaussian", gaussian_tail)):
            weight = {z: mpmath.exp(-abs(z) / mpmath.mpf(scale)) for z in support}
            if kind == "gaussian":
                weight = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * mpmath.mpf(scale) ** 2)) for z in support}
            true = sum(w for z, w in weight.items() if abs(z) > t) / sum(weight.values())
            assert tail(scale, t) == pytest.approx(float(true), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("t", [0, 900, 2_500, 9_000])
def test_wide_gaussian_tails_agree_at_the_change_of_method(t: int) -> None:
    terms = np.arange(t + 1, 60_000, dtype=float)
    every = np.arange(1, 60_000, dtype=float)
    upper, all_upper = (np.exp(-(x**2) / (2 * 1001.0**2)).sum() for x in (terms, every))
    assert gaussian_tail(1001.0, t) == pytest.approx(2 * upper / (1 + 2 * all_upper), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.2, 1.5, 4.0])
@pytest.mark.parametrize("terms", [1, 2, 3, 8])
def test_quantiles_of_sums_are_exact(kind: Kind, scale: float, terms: int) -> None:
    for confidence in (0.3, 0.9, 0.95, 0.999, 1 - 1e-6):
        assert sum_quantile(kind, scale, terms, confidence) == quantile_of_sum(kind, scale, terms, confidence)


@pytest.mark.parametrize(("scale", "terms"), [(300.0, 2), (300.0, 50), (40.0, 4_000)])
def test_beyond_the_cap_quantiles_are_wide_but_hardly(
    scale: float, terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = sum_quantile("laplace", scale, terms, 0.95)
    tails._sum_quantile.cache_clear()
    monkeypatch.setattr(tails, "CAP", 1 << 14)
    coarse = sum_quantile("laplace", scale, terms, 0.95)
    assert exact < coarse < 1.25 * exact
    tails._sum_quantile.cache_clear()
    monkeypatch.setattr(tails, "CAP", 1)
    assert exact < sum_quantile("laplace", scale, terms, 0.95) < 2 * exact
    tails._sum_quantile.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_what_they_say(kind: Kind) -> None:
    """Misses of a 90 % interval over 20,000 seeded sums are binomial; an interval 10 % too short is found out."""
    draw = discrete_laplace if kind == "laplace" else discrete_gaussian
    sums = draw(np.zeros(5 * 20_000, np.int64), 12.0, UnsafeSeededSampler(11)).reshape(5, -1).sum(axis=0)
    wide = sum_quantile(kind, 12.0, 5, 0.9)
    assert binom.sf(int(np.sum(np.abs(sums) > wide)) - 1, len(sums), 0.1) > ALPHA
    short = int(0.9 * wide)
    assert binom.sf(int(np.sum(np.abs(sums) > short)) - 1, len(sums), 0.1) < ALPHA


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.4, 5.0, 2e6])
def test_lower_quantile_is_the_smallest(kind: Kind, scale: float) -> None:
    tail = laplace_tail if kind == "laplace" else gaussian_tail
    for failure in (0.4, 0.05, 1e-9):
        t = lower_quantile(Noise(kind, scale), failure)
        assert tail(scale, t) / 2 <= failure
        assert t == 0 or tail(scale, t - 1) / 2 > failure * (1 - 1e-6)


def test_confidence_must_be_a_probability() -> None:
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="confidence"):
            sum_quantile("laplace", 1.0, 3, confidence)
    assert sum_quantile("laplace", 1.0, 0, 0.95) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.1, 0.3, 1.0, 2.9, 3.1, 40.0])
def test_the_deviation_is_that_of_the_discrete_law(kind: Kind, scale: float) -> None:
    law = noise_law(kind, scale)
    reach = len(law) // 2
    brute = math.sqrt(float(law @ np.arange(-reach, reach + 1) ** 2.0))
    assert deviation_of(Noise(kind, scale)) == pytest.approx(brute, rel=1e-9)


def test_narrow_noise_is_hardly_ever_drawn() -> None:
    """The continuous law's deviation, √2·b, would be fifteen times too large at b = 0.1."""
    assert deviation_of(Noise("laplace", 0.1)) == pytest.approx(0.0095, abs=5e-5)
    assert math.sqrt(2) * 0.1 == pytest.approx(0.1414, abs=5e-5)
    assert deviation_of(Noise("laplace", 1e-3)) == deviation_of(Noise("gaussian", 1e-3)) == 0
    wide = deviation_of(Noise("laplace", 50.0))
    assert wide < math.sqrt(2) * 50
    assert wide == pytest.approx(math.sqrt(2) * 50, rel=1e-4)


@pytest.mark.parametrize("scale", [0.0005, 0.01, 0.3, 2.0, 500.0])
def test_moments_of_laplace_noise_stay_in_the_floats_up_to_where_they_end(scale: float) -> None:
    """M(λ) = (1 − p)² / ((1 − p·e^λ)(1 − p·e^(−λ))), for λ below 1/scale; a warning would fail."""
    shares = np.concatenate((np.geomspace(1e-6, 0.999, 50), [1.5]))
    spread = tails.laplace_spread(scale, shares / scale)
    ratio = math.exp(-1 / scale)
    for share, found in zip(shares[:-1], spread):
        moment = -math.expm1(-1 / scale) / -math.expm1((share - 1) / scale)
        moment *= -math.expm1(-1 / scale) / (1 - ratio * math.exp(-share / scale))
        assert 1 / (1 - found) == pytest.approx(moment, rel=1e-6)
    assert spread[-1] > 1
