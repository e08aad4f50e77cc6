"""What is promised to a group, against mechanisms of a few outputs whose divergences are sums of a few terms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.privacy.composition import CompositionError, group, group_rho


def excess(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The exact δ at ε between two laws: the larger of both directions of the hockey stick."""
    ratio = math.exp(epsilon)
    return max(np.maximum(first - ratio * second, 0).sum(), np.maximum(second - ratio * first, 0).sum())


laws = st.lists(st.floats(0.001, 1), min_size=4, max_size=4).map(lambda weights: np.array(weights) / sum(weights))


@given(st.lists(laws, min_size=2, max_size=6), st.floats(0, 1.5))
def test_every_chain_of_laws_keeps_the_promise_to_its_ends(chain: list[np.ndarray], epsilon: float) -> None:
    delta = max(excess(first, second, epsilon) for first, second in pairwise(chain))
    together, missing = group(epsilon, min(delta, 1.0), len(chain) - 1)
    assert excess(chain[0], chain[-1], together) <= missing + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_no_smaller_delta_holds(epsilon: float, units: int) -> None:
    """The chain of the proof reaches the bound; kδ, which books of old print, does not hold."""
    delta, likely = 1e-4, [0.0]
    for _ in range(units):
        likely.append(math.exp(epsilon) * likely[-1] + delta)
    chain = [np.array([share, 1 - share]) for share in likely]
    for first, second in pairwise(chain):
        assert excess(first, second, epsilon) <= delta * (1 + 1e-9)
    found = excess(chain[0], chain[-1], units * epsilon)
    assert group(epsilon, delta, units)[1] == pytest.approx(found, rel=1e-9)
    assert found <= delta * units * math.exp((units - 1) * epsilon) * (1 + 1e-12)
    assert units == 1 or found > units * delta


ORDERS = [*(1 + place / 20 for place in range(1, 60)), *range(4, 61)]


def divergence(first: list[float], second: list[float], order: float) -> float:
    """The Rényi divergence of an order."""
    return math.log(math.fsum(q * (p / q) ** order for p, q in zip(first, second))) / (order - 1)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 50), min_size=3, max_size=3), min_size=3, max_size=5))
def test_rho_grows_with_the_square_of_the_group(weights: list[list[int]]) -> None:
    """For orders up to 12; each step is priced at the worst of many orders, which misses its ρ by less than 0.1 %."""
    chain = [[weight / sum(line) for weight in line] for line in weights]
    units = len(chain) - 1
    ways = [pair for first, second in pairwise(chain) for pair in ((first, second), (second, first))]
    rho = max(divergence(*pair, order) / order for pair in ways for order in ORDERS)
    rho = max(rho, *(_near_one(*pair) for pair in ways))
    for order in range(2, 13):
        for ends in ((chain[0], chain[-1]), (chain[-1], chain[0])):
            assert divergence(*ends, order) <= order * group_rho(rho, units) * 1.001


def _near_one(first: list[float], second: list[float]) -> float:
    return sum(p * math.log(p / q) for p, q in zip(first, second))


def test_a_shift_of_discrete_gaussian_noise_needs_all_of_it() -> None:
    """Noise of variance 4 shifted by 3 steps has nine times the ρ of one step: no smaller multiple would do."""
    points = np.arange(-60, 61)
    law = np.exp(-(points**2) / 8)
    law /= law.sum()

    def rho(shift: int) -> float:
        moved = np.exp(-((points - shift) ** 2) / 8) / np.exp(-((points - shift) ** 2) / 8).sum()
        return max(np.log(np.sum(moved**order * law ** (1.0 - order))) / (order - 1) / order for order in (1.5, 2))

    assert rho(3) == pytest.approx(9 * rho(1), rel=1e-6)
    assert rho(3) <= group_rho(1 / 8, 3)


def test_pure_promises_and_extremes() -> None:
    assert group(0.5, 0.0, 4) == pytest.approx((2.0, 0.0))
    assert group(0.0, 0.125, 4) == pytest.approx((0.0, 0.5))
    assert group(1e15, 1e-300, 2)[1] == 1.0
    assert group(1.0, 0.5, 9)[1] == 1.0
    assert group(0.7, 1e-3, 0) == (0.0, 0.0)
    for wrong in ((-1, 0.0, 1), (1.0, -0.1, 1), (1.0, 2.0, 1), (1.0, 0.0, -1), (1.0, 0.0, 1.5), (1.0, True, 2)):
        with pytest.raises(CompositionError):
            group(*wrong)
    with pytest.raises(CompositionError):
        group_rho(-1.0, 2)
    with pytest.raises(CompositionError, match="the number of units"):
        group_rho(1.0, 2.5)
