"""Noise and a shift of known mean square: tails of weighted sums by convolution, quantiles against the worst shifts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.reference import noise_law, weighted_sum_law

from conspectus.privacy.events import Noise
from conspectus.privacy.noise_plus_shift import shifted_quantile, weighted_tail
from conspectus.privacy.tails import moments_of, sum_quantile

LAWS = [Noise("laplace", 1.5), Noise("laplace", 0.4), Noise("gaussian", 1.3), Noise("gaussian", 0.7)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("weights", [[1], [1, -1, 2], [3, -6, 0, 9], [5] * 4])
def test_tails_of_weighted_sums_are_those_of_their_law(law, weights):
    chances = weighted_sum_law(noise_law(law.kind, law.scale, 60), [weight for weight in weights if weight])
    middle = len(chances) // 2
    unit = 0.25
    tail = weighted_tail(law, np.array(weights), unit)
    for z in (0, 1, 2, 3, 5, 9, 18):
        exact = float(chances[middle + z + 1 :].sum())
        found = float(tail(np.array([(z + 0.5) * unit]))[0])
        assert exact <= found <= exact + 1e-8
    assert tail(np.array([-0.1]))[0] == 1
    assert (weighted_tail(law, np.zeros(3, dtype=np.int64), 1.0)(np.array([-1.0, 0.0, 1.0])) == [1, 0, 0]).all()


@pytest.mark.parametrize("law", [Noise("laplace", 300.0), Noise("gaussian", 500.0)])
def test_beyond_the_transform_tails_are_wide_but_hardly(law):
    """A thousand weights up to 65,536: the bound holds for what a Gaussian of the same variance says, within e."""
    weights = np.arange(64_537, 65_537)
    tail = weighted_tail(law, weights, 1.0)
    deviation = math.sqrt(moments_of(law)[0] * float((weights.astype(float) ** 2).sum()))
    for z in (1.0, 2.0, 3.0):
        found = float(tail(np.array([z * deviation]))[0])
        assert math.erfc(z / math.sqrt(2)) / 2 <= found <= 1.05 * math.exp(-z * z / 2)


def worst(tail, t, square):
    """The largest P(|N + D| > t) over shifts that are 0 or ±d, the law that Chebyshev's inequality is sharp for."""
    found = 0.0
    for d in np.geomspace(math.sqrt(square), 50 * math.sqrt(square) + 3 * t, 400):
        q = square / d**2
        still, moved = (float(tail(np.array([t - x]))[0] + tail(np.array([t + x]))[0]) for x in (0.0, d))
        found = max(found, (1 - q) * still + q * min(moved, 1.0))
    return found


@pytest.mark.parametrize("failure", [0.2, 0.05, 0.01])
@pytest.mark.parametrize("share", [0.05, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("law", [Noise("laplace", 2.0), Noise("gaussian", 4.0)])
def test_quantiles_hold_for_the_worst_shift_and_hardly_more(law, share, failure):
    """Three quarters of the quantile are not enough, nor is one for a tenth of the mean square if that matters."""
    weights = np.ones(100, dtype=np.int64)
    tail = weighted_tail(law, weights, 1.0)
    deviation = math.sqrt(100 * moments_of(law)[0])
    square = (share * deviation) ** 2
    t = shifted_quantile(tail, square, failure, deviation)
    assert worst(tail, t, square) <= failure
    assert worst(tail, 0.75 * t, square) > failure
    assert t >= sum_quantile(law.kind, law.scale, 100, 1 - failure) - 1
    if share >= 1:
        assert worst(tail, shifted_quantile(tail, square / 10, failure, deviation), square) > failure
    assert shifted_quantile(tail, 2 * square, failure, deviation) >= t


def test_without_noise_it_is_chebyshevs_inequality():
    tail = weighted_tail(Noise("laplace", 1.0), np.zeros(1, dtype=np.int64), 1.0)
    assert shifted_quantile(tail, 0.0, 0.05, 0.0) < 1e-6
    found = shifted_quantile(tail, 4.0, 0.05, 0.0)
    assert 2 / math.sqrt(0.05) <= found <= 1.06 * 2 / math.sqrt(0.05)
