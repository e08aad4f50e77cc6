"""The noise has the law it claims: chi-square against the exact probabilities, and a scale off by 10 % is caught.

Every randomised test raises a false alarm with probability ALPHA = 1e-6; the wrong twins fail with overwhelming odds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2
from tests.reference import noise_law

from conspectus.privacy.events import LARGEST_SCALE, ScaleError
from conspectus.privacy.noise import (
    Sampler,
    SystemSampler,
    UnsafeSeededSampler,
    discrete_gaussian,
    discrete_laplace,
)

ALPHA = 1e-6
DRAWS = 30_000
Draw = Callable[[NDArray[np.int64], float, Sampler], NDArray[np.int64]]


def p_value(draws: NDArray[np.int64], kind: str, scale: float) -> float:
    """Chi-square over cells that each expect at least 50 draws."""
    chances = noise_law(kind, scale)
    support = np.arange(len(chances)) - len(chances) // 2
    needed = 50 / len(draws)
    edges, mass = [], 0.0
    for value, chance in zip(support, chances):
        mass += chance
        if mass >= needed and 1 - chances[: value - support[0] + 1].sum() >= needed:
            edges.append(value)
            mass = 0.0
    cells = np.searchsorted(edges, draws)
    expected = np.bincount(np.searchsorted(edges, support), chances, minlength=len(edges) + 1) * len(draws)
    observed = np.bincount(cells, minlength=len(edges) + 1)
    return float(chi2.sf(np.sum((observed - expected) ** 2 / expected), len(edges)))


DRAWN = [("laplace", discrete_laplace), ("gaussian", discrete_gaussian)]


@pytest.mark.parametrize("sampler", [SystemSampler(), UnsafeSeededSampler(7)], ids=["system", "seeded"])
@pytest.mark.parametrize("scale", [0.7, 3.25, 40.0])
@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_noise_has_its_law_and_no_other(kind: str, draw: Draw, scale: float, sampler: Sampler) -> None:
    draws = draw(np.zeros(DRAWS, np.int64), scale, sampler)
    assert p_value(draws, kind, scale) > ALPHA
    for wrong in (0.9 * scale, 1.1 * scale):
        assert p_value(draws, kind, wrong) < ALPHA


@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_noise_is_added_to_the_value_in_its_place(kind: str, draw: Draw) -> None:
    values = np.arange(20_000, dtype=np.int64) * 1_000  # several calls of the library
    noisy = draw(values, 2.0, SystemSampler())
    assert noisy.dtype == np.int64
    assert np.all(np.abs(noisy - values) < 200)  # a miss has probability below e^-100 a draw
    assert p_value(noisy - values, kind, 2.0) > ALPHA


@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_neighbouring_draws_are_independent(kind: str, draw: Draw) -> None:
    draws = draw(np.zeros(20_000, np.int64), 5.0, SystemSampler())
    correlation = np.corrcoef(draws[:-1], draws[1:])[0, 1]
    assert abs(correlation) < 4.9 / np.sqrt(len(draws))  # two-sided 1e-6
    repeated = np.repeat(draws[::2], 2)
    assert abs(np.corrcoef(repeated[:-1], repeated[1:])[0, 1]) > 4.9 / np.sqrt(len(draws))


@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_large_counts_and_scales_never_wrap_around(kind: str, draw: Draw) -> None:
    values = np.full(2_000, 2**53, np.int64)
    noisy = draw(values, LARGEST_SCALE, SystemSampler())
    assert np.all(np.abs(noisy - values).astype(float) < 2.0**57)  # beyond it with probability e^-128 at most
    # Beyond any count the sum stops at the end of the type instead of changing sign.
    assert np.all(draw(np.full(100, 2**63 - 1, np.int64), 1e9, SystemSampler()) > 2**62)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**51])
@pytest.mark.parametrize(("kind", "draw"), DRAWN)
def test_scales_without_meaning_are_refused(kind: str, draw: Draw, scale: float) -> None:
    with pytest.raises(ScaleError, match="change the budget"):
        draw(np.zeros(3, np.int64), scale, SystemSampler())


def test_noise_is_for_integers_alone() -> None:
    with pytest.raises(TypeError, match="integers"):
        discrete_laplace(np.zeros(3), 1.0, SystemSampler())  # type: ignore[arg-type]
    assert len(discrete_gaussian(np.zeros(0, np.int64), 1.0, SystemSampler())) == 0


def test_coins_say_whether_they_are_private() -> None:
    assert SystemSampler().private
    assert not UnsafeSeededSampler(1).private
    assert SystemSampler().bytes(32) != SystemSampler().bytes(32)
    assert UnsafeSeededSampler(1).bytes(32) == UnsafeSeededSampler(1).bytes(32)
    same = [discrete_laplace(np.zeros(50, np.int64), 9.0, UnsafeSeededSampler(3)) for _ in range(2)]
    assert np.array_equal(*same)
    fresh = [discrete_laplace(np.zeros(50, np.int64), 9.0, SystemSampler()) for _ in range(2)]
    assert not np.array_equal(*fresh)
