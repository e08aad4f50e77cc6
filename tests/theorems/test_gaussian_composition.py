"""Composition of discrete Gaussian noise: never below exact sums, hardly above continuous noise, and below zCDP."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conspectus as cs
from conspectus.privacy.accounting import BudgetExceeded, Declared, best
from conspectus.privacy.composition import continuous_epsilon, gaussian_delta, gaussian_epsilon, gaussian_share, zcdp
from conspectus.privacy.events import ByRelation, GaussianNoise, LaplaceNoise, MixedGaussianNoise, RowTotal
from conspectus.privacy.gaussian_filter import GaussianFilter, GaussianTerms
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.kept_promises import keeps
from conspectus.privacy.relation import Neighbours, Relation


def exact_delta(sigma: float, moved: tuple[int, ...], epsilon: float) -> float:
    """δ of a vector of counts that moves by whole numbers: the privacy loss is linear in the noise, and the law of its
    integer part is a convolution."""
    most = math.ceil(14 * sigma)
    z = np.arange(-most, most + 1)
    law = np.exp(-(z**2) / (2 * sigma**2))
    law /= law.sum()
    total = np.ones(1)
    for v in moved:
        spread = np.zeros(2 * most * v + 1)
        spread[::v] = law
        total = np.convolve(total, spread)
    steps = np.arange(len(total)) - len(total) // 2
    loss = (sum(v * v for v in moved) + 2 * steps) / (2 * sigma**2)
    return float((total * np.maximum(0, -np.expm1(epsilon - loss))).sum())


CASES = [
    (0.5, (1,)),
    (0.7, (1, 1)),
    (1.0, (2,)),
    (1.0, (1, 1, 1, 1)),
    (2.0, (1,)),
    (2.0, (3, 1)),
    (5.0, (1,) * 9),
    (8.0, (1,)),
    (20.0, (1, 2, 2)),
]


@pytest.mark.parametrize(("sigma", "moved"), CASES)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_the_bound_is_never_below_exact_sums(sigma: float, moved: tuple[int, ...], delta: float) -> None:
    shift = sum(v * v for v in moved) / sigma**2
    epsilon = gaussian_epsilon([(shift, sigma**2)], delta)
    if math.isfinite(epsilon):
        assert exact_delta(sigma, moved, epsilon) <= delta
    if sigma >= 8:
        assert continuous_epsilon(shift, delta) <= epsilon <= 1.05 * continuous_epsilon(shift, delta)


def test_continuous_noise_alone_would_promise_too_much() -> None:
    """The twin: the formula for continuous noise is refuted by exact sums where noise is as narrow as a step."""
    assert max(exact_delta(0.5, (1,), e) / gaussian_delta(0.5, e) for e in np.linspace(1, 10, 91)) > 2
    assert max(exact_delta(2.0, (1,), e) / gaussian_delta(2.0, e) for e in np.linspace(0.5, 2.5, 41)) > 1.2


def test_it_gains_what_is_said_of_it() -> None:
    """ρ at δ = 1e-9 against the tight conversion: a tenth at ε = 1; with discrete noise of parameter 100 all but a
    thousandth of it."""
    gain = gaussian_share(1.0, 1e-9) / cs.composition.zcdp_share(1.0, 1e-9)
    assert 1.09 < gain < 1.12
    rho = gaussian_share(1.0, 1e-9) * (1 - 1e-3)
    assert gaussian_epsilon([(2 * rho, 1e4)], 1e-9) <= 1.0
    assert zcdp(rho, 1e-9) > 1.04


def test_acts_of_different_noise_add_up() -> None:
    """Many acts are one: splitting an act changes nothing, and the smallest noise decides what discreteness costs."""
    whole = gaussian_epsilon([(0.04, 400.0)], 1e-6)
    assert gaussian_epsilon([(0.01, 400.0)] * 4, 1e-6) == pytest.approx(whole, rel=1e-9)
    assert gaussian_epsilon([(0.02, 400.0), (0.02, 1e6)], 1e-6) <= whole * (1 + 1e-9)
    assert gaussian_epsilon([], 1e-6) == 0
    assert gaussian_epsilon([(0.0, 1.0)], 1e-6) == 0


def test_what_makes_no_sense_is_refused() -> None:
    for acts, delta in (([(1.0, 1.0)], 0.0), ([(1.0, 0.0)], 0.1), ([(-1.0, 1.0)], 0.1), ([(math.inf, 1.0)], 0.1)):
        with pytest.raises(cs.composition.CompositionError):
            gaussian_epsilon(acts, delta)


def both(number: int | Fraction) -> ByRelation:
    return ByRelation(replace=Fraction(number), add_remove=Fraction(number))


def test_declared_lists_of_gaussian_noise_pay_the_sharper_theorem() -> None:
    acts = [
        GaussianNoise(l2_squared=both(9), sigma_squared=Fraction(10_000)),
        MixedGaussianNoise(shift_squared=both(Fraction(1, 100)), sigma_squared=Fraction(10_000)),
    ]
    epsilon, rho, theorem = best(acts, 1e-9, Neighbours.ADD_REMOVE)
    assert theorem == "composition of Gaussian noise"
    assert rho == Fraction(9, 20_000) + Fraction(1, 200)
    assert epsilon is not None
    assert float(epsilon) < zcdp(float(rho), 1e-9) / 1.03
    assert float(epsilon) >= continuous_epsilon(2 * float(rho), 1e-9)
    budget = Budget(epsilon=float(epsilon) * (1 + 1e-12), delta=1e-9)
    declared = Declared(acts, budget, Neighbours.ADD_REMOVE)
    promised = declared.guarantee("row")
    relation = Relation(Neighbours.ADD_REMOVE)
    assert keeps(promised, acts, relation, allowed="declared")
    assert not keeps(promised, acts, relation, allowed="filtered")
    assert not keeps(promised, [*acts, acts[0]], relation, allowed="declared")
    with pytest.raises(BudgetExceeded):
        Declared(acts, Budget(epsilon=float(epsilon) * 0.999, delta=1e-9), Neighbours.ADD_REMOVE)


def test_other_noise_among_them_is_priced_as_before() -> None:
    gaussian = GaussianNoise(l2_squared=both(1), sigma_squared=Fraction(100))
    laplace = LaplaceNoise(l1=both(1), l2_squared=both(1), linf=both(1), scale=Fraction(100))
    assert best([gaussian, laplace], 1e-9, Neighbours.REPLACE)[2].startswith("zero-concentrated")
    assert best([gaussian, RowTotal()], 1e-9, Neighbours.REPLACE)[2] == "composition of Gaussian noise"


def test_noise_narrower_than_a_step_is_left_to_concentrated_composition() -> None:
    narrow = GaussianNoise(l2_squared=both(1), sigma_squared=Fraction(1, 16))
    assert best([narrow], 1e-9, Neighbours.REPLACE)[2].startswith("zero-concentrated")


TERMS = GaussianTerms(rho=Fraction(1, 100), least_square=Fraction(400))


def noise(square: int, moved: int | Fraction = 1) -> GaussianNoise:
    return GaussianNoise(l2_squared=both(moved), sigma_squared=Fraction(square))


def test_a_filter_of_gaussian_noise_promises_its_terms_whatever_was_spent() -> None:
    budget = Budget(epsilon=TERMS.epsilon(1e-9), delta=1e-9)
    gate = GaussianFilter(TERMS, budget, Neighbours.REPLACE)
    promised = gate.guarantee("row")
    gate.admit(noise(400, 4))  # half of ρ
    gate.admit(RowTotal())
    assert gate.spent == Fraction(1, 200)
    with pytest.raises(BudgetExceeded):
        gate.admit(noise(400, 5))
    gate.admit(noise(400, 4))
    assert gate.spent == TERMS.rho
    assert not gate.admits(noise(10**9))
    assert gate.guarantee("row") == promised
    assert keeps(promised, gate.events, Relation(Neighbours.REPLACE), allowed="gaussian")
    assert not keeps(promised, gate.events, Relation(Neighbours.REPLACE), allowed="filtered")
    assert promised.epsilon is not None
    assert continuous_epsilon(2 / 100, 1e-9) < promised.epsilon < zcdp(0.01, 1e-9)
    with pytest.raises(BudgetExceeded):
        GaussianFilter(TERMS, Budget(epsilon=promised.epsilon * 0.999, delta=1e-9), Neighbours.REPLACE)
    with pytest.raises(BudgetExceeded):
        GaussianFilter(TERMS, Budget(rho=1.0), Neighbours.REPLACE)


def test_a_filter_of_gaussian_noise_admits_nothing_else() -> None:
    gate = GaussianFilter(TERMS, Budget(epsilon=2.0, delta=1e-9), Neighbours.ADD_REMOVE)
    laplace = LaplaceNoise(l1=both(1), l2_squared=both(1), linf=both(1), scale=Fraction(1000))
    narrow = MixedGaussianNoise(shift_squared=both(Fraction(1, 10**9)), sigma_squared=Fraction(399))
    for refused in (laplace, narrow, noise(399)):
        assert not gate.admits(refused)
        with pytest.raises(BudgetExceeded):
            gate.admit(refused)
    assert gate.events == ()
    gate.admit(MixedGaussianNoise(shift_squared=both(Fraction(1, 100)), sigma_squared=Fraction(400)))
    assert gate.spent == Fraction(1, 200)


@given(
    st.floats(1e-4, 3.0),
    st.floats(4.0, 1e5),
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 1e6)), min_size=1, max_size=8),
    st.sampled_from([1e-3, 1e-6, 1e-9, 1e-12]),
)
def test_no_acts_within_terms_cost_more_than_the_terms(
    shift: float, least: float, parts: list[tuple[float, float]], delta: float
) -> None:
    """Whatever is drawn behind the filter, the acts priced afresh keep its promise: a saved release can be read."""
    whole = sum(share for share, _ in parts)
    acts = [(shift * share / whole, least * wider) for share, wider in parts]
    terms = gaussian_epsilon([(math.fsum(each for each, _ in acts), least)], delta)
    assert gaussian_epsilon(acts, delta) <= terms * (1 + 1e-12)


def test_a_game_in_which_precision_follows_what_was_seen_costs_what_one_gaussian_does() -> None:
    """Loss of 100,000 plays: mean μ²/2 and deviation μ = 1, each within 6 deviations of its own (2e-9)."""
    rng = np.random.Generator(np.random.PCG64(3))
    left, loss = np.ones(100_000), np.zeros(100_000)
    for turn in range(40):
        step = left if turn == 39 else np.minimum(left, np.where(loss > 0, 0.3, 0.02))
        loss += step / 2 + np.sqrt(step) * rng.normal(size=len(loss))
        left -= step
    assert abs(loss.mean() - 0.5) < 6 / math.sqrt(len(loss))
    assert abs(loss.std() - 1) < 6 / math.sqrt(2 * len(loss))
    for epsilon in (0.5, 1.0, 2.0):
        excess = np.maximum(0, -np.expm1(epsilon - loss))
        assert abs(excess.mean() - gaussian_delta(1.0, epsilon)) < 6 * excess.std() / math.sqrt(len(loss))
