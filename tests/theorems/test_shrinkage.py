"""Noisy shares that are read together: far better where most are near 0, about as good everywhere else."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from conspectus.mechanisms.dual_query.shrinkage import FEWEST, LEAST_SCALE, posterior_means
from conspectus.privacy.events import Noise

TOTAL = 10_000.0


def errors(shares: NDArray[np.float64], noise: float, kind: str) -> tuple[float, float]:
    """Mean errors: of the posterior means, and of clipping."""
    rng = np.random.Generator(np.random.PCG64(11))
    drawn = rng.standard_normal(len(shares)) if kind == "gaussian" else rng.laplace(size=len(shares))
    noisy = shares + noise * drawn
    law = Noise("gaussian" if kind == "gaussian" else "laplace", noise * TOTAL)
    found = posterior_means(noisy, law, total=TOTAL)
    assert found.min() >= 0
    assert found.max() <= 1
    return float(np.abs(found - shares).mean()), float(np.abs(np.clip(noisy, 0, 1) - shares).mean())


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_rare_items_lose_their_noise(kind: str) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    better, clipped = errors(np.minimum(rng.exponential(0.001, 5000), 1), 0.03, kind)
    assert better < clipped / 5
    better, clipped = errors(1 - np.minimum(rng.exponential(0.001, 5000), 1), 0.03, kind)
    assert better < clipped / 5


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("noise", [0.003, 0.03, 0.3])
def test_even_shares_lose_nothing(kind: str, noise: float) -> None:
    better, clipped = errors(np.random.Generator(np.random.PCG64(2)).random(4000), noise, kind)
    assert better < 1.1 * clipped


def test_few_shares_and_little_noise_are_left_alone() -> None:
    noisy = np.linspace(-0.1, 1.1, FEWEST - 1)
    assert np.array_equal(posterior_means(noisy, Noise("gaussian", 500.0), total=TOTAL), np.clip(noisy, 0, 1))
    many = np.linspace(-0.1, 1.1, 5 * FEWEST)
    law = Noise("laplace", 0.9 * LEAST_SCALE * TOTAL)
    assert np.array_equal(posterior_means(many, law, total=TOTAL), np.clip(many, 0, 1))


def test_one_value_for_all() -> None:
    same = np.full(1000, 0.25)
    found = posterior_means(same, Noise("gaussian", 300.0), total=TOTAL)
    assert np.allclose(found, found[0])
    assert abs(found[0] - 0.25) < 0.03
