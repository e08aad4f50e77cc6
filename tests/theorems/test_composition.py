"""The worked numbers of the papers, their errata, and brute force in 50 digits; every bound is rounded outward."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import exact_optimal, exact_zcdp, theorem_4_2, theorem_4_3

from conspectus.privacy import composition
from conspectus.privacy.composition import (
    CompositionError,
    advanced,
    advanced_approximate,
    advanced_heterogeneous,
    advanced_share,
    advanced_sharp,
    basic,
    classical_sigma,
    corollary_share,
    expected_loss,
    gaussian_delta,
    loss_distribution_epsilon,
    optimal_delta,
    optimal_epsilon,
    optimal_share,
    zcdp,
    zcdp_share,
    zcdp_simple,
)

TINY = math.exp(-32)


def dual_query_draws(eta: float, rounds: int, draws: int, rows: int) -> list[float]:
    return [2 * eta * t / rows for t in range(1, rounds) for _ in range(draws)]


KDD99 = {"eta": 1.2, "rounds": 170, "draws": 1750, "rows": 494_021}


def test_randomised_response_and_the_names_example() -> None:
    assert math.log(0.75 / 0.25) == pytest.approx(1.098612, abs=1e-6)
    assert math.log(10_000 / 0.05) == pytest.approx(12.20607, abs=1e-5)
    assert basic([(math.log(3), 0.0)] * 2 + [(0.5, 1e-6)]) == pytest.approx((2 * math.log(3) + 0.5, 1e-6))


def test_theorem_iii_1_adds_up() -> None:
    """Bob and 100 releases of (0.01, 1e-8): (1, 1e-6)."""
    assert basic([(0.01, 1e-8)] * 100) == pytest.approx((1, 1e-6))
    assert basic([]) == (0, 0)


@pytest.mark.parametrize(("epsilon", "worst", "bound"), [(0.1, 0.0049958, 0.0105171), (1.0, 0.4621172, 1.7182818)])
def test_lemma_iii_2_bounds_the_loss_of_every_pair_of_distributions(epsilon: float, worst: float, bound: float) -> None:
    """Over a grid of all pairs on two points whose log-ratios stay within ε; the worst is randomised response."""
    grid = [i / 400 for i in range(1, 400)]
    response = 1 / (1 + math.exp(-epsilon))
    largest = 0.0
    for p, q in (*itertools.product(grid, grid), (response, 1 - response)):
        if abs(math.log(p / q)) <= epsilon + 1e-9 and abs(math.log((1 - p) / (1 - q))) <= epsilon + 1e-9:
            largest = max(largest, p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
    assert expected_loss(epsilon) == pytest.approx(bound, abs=1e-7)
    assert largest == pytest.approx(worst, abs=1e-6) == epsilon * math.tanh(epsilon / 2)
    assert largest <= expected_loss(epsilon) <= 2 * epsilon**2


def test_theorem_iii_3_for_approximate_acts() -> None:
    """100 acts of (0.1, 1e-8) at δ' = 1e-6: √(200·13.8155)·0.1 + 10·0.10517, and δ = 2e-6."""
    assert advanced_approximate(0.1, 1e-8, 100, 1e-6) == pytest.approx((6.30823, 2e-6), abs=5e-6)
    assert advanced_approximate(0.1, 0.0, 100, 1e-6) == pytest.approx((advanced(0.1, 100, 1e-6), 1e-6))
    for slack in (0.0, 1.0):
        with pytest.raises(CompositionError):
            advanced_approximate(0.1, 0.0, 100, slack)
    with pytest.raises(CompositionError):
        advanced_approximate(0.1, -1e-9, 100, 1e-6)


def test_theorem_iii_3_without_its_slack_is_false() -> None:
    """Eight randomised responses of 0.1 lose 0.8 when all agree: more than 0.467 at δ' = 0.4, so that δ' is owed."""
    epsilon = advanced(0.1, 8, 0.4)
    assert epsilon == pytest.approx(0.46703, abs=1e-5)
    assert 0 < optimal_delta(epsilon, 8, 0.1) <= 0.4


def test_example_37_needs_813_and_not_801() -> None:
    assert advanced(1 / 801, 10_000, TINY) == pytest.approx(1.01435, abs=5e-6)
    assert advanced(1 / 813, 10_000, TINY) == pytest.approx(0.99915, abs=5e-6)
    assert 1 / advanced_share(1.0, 10_000, TINY) == pytest.approx(812.32, abs=0.005)
    assert 1 / optimal_share(1.0, 10_000, TINY) == pytest.approx(715.5, abs=0.05)
    assert optimal_delta(1.0, 10_000, 1 / 801) == pytest.approx(1.4e-17, rel=0.02)
    sharp = advanced_sharp([1 / 806.2] * 10_000, TINY)
    concentrated = zcdp_simple(10_000 / 806.2**2 / 2, TINY)
    assert sharp == pytest.approx(1.0, abs=1e-4)
    assert concentrated == pytest.approx(1.0, abs=1e-4)


def test_corollary_321_and_where_it_fails() -> None:
    below = 1 - 1e-12
    assert 1 / corollary_share(below, 10_000, TINY) == pytest.approx(1600, rel=1e-9)
    assert advanced(1 / 1600, 10_000, TINY) == pytest.approx(0.504, abs=0.01)
    k = 100
    share = 0.99 / (2 * math.sqrt(2 * k * math.log(1 / 0.9)))
    assert advanced(share, k, 0.9) == pytest.approx(1.72, abs=0.01)
    with pytest.raises(CompositionError, match="near 1"):
        corollary_share(0.99, k, 0.9)
    with pytest.raises(CompositionError, match="between 0 and 1"):
        corollary_share(1.5, k, 1e-6)


@pytest.mark.parametrize(
    ("samples", "rounds", "pure", "approximate"),
    [
        (35, 47, 1.00351, 0.18436),
        (40, 62, 2.00623, 0.30345),
        (45, 71, 2.96598, 0.39819),
        (50, 78, 3.98249, 0.48709),
        (55, 83, 4.96426, 0.56425),
    ],
)
def test_dual_query_on_adult(samples: int, rounds: int, pure: float, approximate: float) -> None:
    assert theorem_4_2(eta=0.4, rounds=rounds, draws=samples, rows=30_162) == pytest.approx(pure, abs=6e-6)
    assert theorem_4_3(eta=0.4, rounds=rounds, draws=samples, rows=30_162, delta=1e-3) == pytest.approx(
        approximate, abs=6e-6
    )


def test_dual_query_on_kdd99_by_every_theorem() -> None:
    assert theorem_4_3(**KDD99, delta=1e-3) == pytest.approx(1.85902, abs=5e-6)
    assert theorem_4_2(**KDD99) == pytest.approx(122.126, abs=5e-4)
    draws = dual_query_draws(**KDD99)
    assert len(draws) == 295_750
    assert advanced_heterogeneous(draws, 1e-3) == pytest.approx(1.02947, abs=5e-6)
    assert advanced_sharp(draws, 1e-3) == pytest.approx(0.99593, abs=5e-6)
    as_pure = math.fsum(e * e / 2 for e in draws)
    as_bounded_range = math.fsum(e * e / 8 for e in draws)
    assert zcdp_simple(as_pure, 1e-3) == pytest.approx(0.99593, abs=5e-6)
    assert zcdp_simple(as_bounded_range, 1e-3) == pytest.approx(0.48959, abs=5e-6)
    assert zcdp(as_bounded_range, 1e-3) == pytest.approx(0.320, abs=5e-4)
    within = [t for t in range(100, 130) if theorem_4_3(**{**KDD99, "rounds": t}, delta=1e-3) <= 1]
    assert max(within) == 116


@pytest.mark.parametrize(
    ("rows", "samples", "rounds"),
    [
        (30_162, 1000, (7, 10, 16, 24, 30, 36, 40)),
        (494_021, 1000, (41, 64, 99, 152, 193, 227, 257)),
        (480_189, 5000, (24, 37, 57, 87, 111, 130, 147)),
    ],
)
def test_dual_query_rounds_of_figure_2(rows: int, samples: int, rounds: tuple[int, ...]) -> None:
    for epsilon, most in zip((0.25, 0.5, 1, 2, 3, 4, 5), rounds):
        assert theorem_4_3(eta=2.0, rounds=most, draws=samples, rows=rows, delta=1e-3) <= epsilon
        assert theorem_4_3(eta=2.0, rounds=most + 1, draws=samples, rows=rows, delta=1e-3) > epsilon


def test_a_thousandth_of_delta_costs_less_than_root_two() -> None:
    for eta, rounds, samples, ratio in ((1.2, 170, 1750, 1.3698), (2.0, 100, 1000, 1.3879)):
        cost = {d: theorem_4_3(eta=eta, rounds=rounds, draws=samples, rows=494_021, delta=d) for d in (1e-3, 1e-6)}
        assert cost[1e-6] / cost[1e-3] == pytest.approx(ratio, abs=1e-3)
        assert cost[1e-6] / cost[1e-3] <= math.sqrt(2)


def test_the_delta_of_gaussian_noise_is_never_below_the_true_one() -> None:
    """Against 60 digits; from ε of some hundreds on it is rounded up by up to 2e-6 of its larger term."""
    for sigma, epsilon in itertools.product(
        (1e-3, 0.03, 0.1, 0.5, 1.0, 3.0, 40.0), (0.0, 1e-6, 0.1, 1.0, 7.5, 100.0, 690.0, 5e3, 1e5, 6e5)
    ):
        with mpmath.workdps(60):
            s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
            first = mpmath.ncdf(1 / (2 * s) - e * s)
            true = first - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
            if first > 1e-290:
                off = (gaussian_delta(sigma, epsilon) - true) / first
                assert 0 <= off <= (4e-12 if 1 / (2 * sigma) + epsilon * sigma < 37 else 2e-6) or true > 1 - 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 4.114e-8), (10, 2.265e-5), (20, 1.527e-3)])
def test_the_classical_gaussian_is_loose_below_one_and_false_above(epsilon: float, delta: float) -> None:
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
    assert gaussian_delta(sigma, epsilon) == pytest.approx(delta, rel=1e-3)
    if epsilon > 1:
        assert gaussian_delta(sigma, epsilon) > 1e-5
    with pytest.raises(CompositionError, match="between 0 and 1"):
        classical_sigma(epsilon, 1e-5)
    assert gaussian_delta(classical_sigma(0.9, 1e-5), 0.9) < 1e-7


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-8, 1e4), st.floats(1e-15, 0.5))
def test_tight_conversion_is_exact_and_rounded_up(rho: float, delta: float) -> None:
    with mpmath.workdps(50):
        true = exact_zcdp(rho, delta)
    found = zcdp(rho, delta)
    assert true <= found <= true * (1 + 1e-9) + 1e-12
    assert found <= zcdp_simple(rho, delta) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1e-12, 0.1))
def test_tight_conversion_inverted(epsilon: float, delta: float) -> None:
    rho = zcdp_share(epsilon, delta)
    assert zcdp(rho, delta) <= epsilon
    assert zcdp(rho * (1 + 1e-6), delta) > epsilon


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.floats(1e-3, 3), st.floats(0, 1))
def test_optimal_composition_against_enumeration(count: int, share: float, part: float) -> None:
    epsilon = part * count * share
    with mpmath.workdps(50):
        true = exact_optimal(epsilon, [share] * count)
    found = optimal_delta(epsilon, count, share)
    assert true <= found <= true * (1 + 1e-9) + 1e-13


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 1_000_000), st.floats(1e-4, 1), st.sampled_from([1e-3, 1e-6, 1e-12]))
def test_optimal_composition_is_never_worse(count: int, share: float, delta: float) -> None:
    best = optimal_epsilon(count, share, delta)
    assert optimal_delta(best, count, share) <= delta or best >= count * share
    others = (count * share, advanced(share, count, delta), zcdp(count * share * share / 2, delta))
    assert best <= min(others) * (1 + 1e-9)
    assert best >= 0


@pytest.mark.parametrize(("count", "share"), [(1_000, 0.02), (1_000_000, 2e-4)])
def test_optimal_composition_of_many_acts(count: int, share: float) -> None:
    """A million acts, against a sum in 30 digits."""
    with mpmath.workdps(30):
        epsilon = 1.0
        chance = 1 / (1 + mpmath.exp(-mpmath.mpf(share)))
        first = math.ceil((epsilon / share + count) / 2)
        term = mpmath.binomial(count, first) * chance**first * (1 - chance) ** (count - first)
        total, i = mpmath.mpf(0), first
        while i <= count and (term > 1e-40 or i == first):
            total += term * max(0, 1 - mpmath.exp(epsilon - (2 * i - count) * mpmath.mpf(share)))
            term *= mpmath.mpf(count - i) / (i + 1) * chance / (1 - chance)
            i += 1
    found = optimal_delta(epsilon, count, share)
    assert total <= found <= total * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 20), st.integers(1, 100_000), st.sampled_from([1e-3, 1e-9]))
def test_shares_keep_the_budget_and_use_it_up(epsilon: float, count: int, delta: float) -> None:
    share = optimal_share(epsilon, count, delta)
    assert optimal_delta(epsilon, count, share) <= delta or count * share <= epsilon
    assert optimal_delta(epsilon, count, share * (1 + 1e-5)) > delta or share * (1 + 1e-5) >= epsilon
    assert advanced(advanced_share(epsilon, count, delta), count, delta) <= epsilon


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=30), min_size=1, max_size=6),
    st.sampled_from([1e-2, 1e-4, 1e-6]),
)
def test_loss_distributions_of_unequal_acts_against_enumeration(shares: list[Fraction], delta: float) -> None:
    acts = {share: shares.count(share) for share in shares}
    found = loss_distribution_epsilon(acts, delta)
    floats = [float(share) for share in shares]
    with mpmath.workdps(30):
        assert exact_optimal(found, floats) <= delta
        if found > 0.01:
            assert exact_optimal(found * (1 - 2e-3), floats) > delta * (1 - 2e-3)


def test_loss_distributions_agree_with_optimal_composition() -> None:
    """Equal acts on their own lattice, and the same acts where no common lattice is coarse enough."""
    exact = optimal_epsilon(100, 0.01, 1e-6)
    assert exact <= loss_distribution_epsilon({Fraction(1, 100): 100}, 1e-6) <= exact * 1.001
    uneven = {Fraction(1, 100): 50, Fraction(10_001, 1_000_003): 50}
    assert exact <= loss_distribution_epsilon(uneven, 1e-6) * 1.0001
    assert loss_distribution_epsilon(uneven, 1e-6) <= exact * 1.01


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, math.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    for theorem in (zcdp_simple, zcdp, zcdp_share):
        with pytest.raises(CompositionError):
            theorem(1.0, delta)
    for counted in (advanced, advanced_share, optimal_share):
        with pytest.raises(CompositionError):
            counted(1.0, 10, delta)
    with pytest.raises(CompositionError):
        loss_distribution_epsilon({Fraction(1): 2}, delta)


REFUSED = {
    "basic": [(0.1,), ([0.1],), ([(-0.1, 0)],), ([(0.1, 2)],), ("ab",), ([("a", 0)],), (None,)],
    "expected_loss": [(-0.1,), ("a",), (math.nan,), (True,)],
    "advanced": [(-0.1, 100, 1e-6), (0.1, -1, 1e-6), (0.1, 1.5, 1e-6), (0.1, 100, 0), ("a", 1, 0.1), (0.1, True, 0.1)],
    "advanced_approximate": [(0.1, -1e-9, 5, 1e-6), (-0.1, 0, 5, 1e-6), (0.1, 0, 5, 0), (0.1, "a", 5, 0.1)],
    "advanced_heterogeneous": [([0.1, -0.1], 1e-6), (0.1, 1e-6), ([0.1], 1), (["a"], 0.1)],
    "advanced_sharp": [([0.1, -0.1], 1e-6), (0.1, 1e-6), ("ab", 1e-6)],
    "advanced_share": [(-1, 5, 1e-6), (1, -5, 1e-6), (1, 5, 2), (math.inf, 5, 0.1)],
    "corollary_share": [(-0.5, 5, 1e-6), (0.5, 1.5, 1e-6), (1.5, 5, 1e-6)],
    "zcdp": [(-0.1, 1e-6), (0.1, 0), ("a", 1e-6)],
    "zcdp_share": [(-0.1, 1e-6), (0.1, 1)],
    "zcdp_simple": [(-0.1, 1e-6), (0.1, 1)],
    "group": [(-1, 0.0, 1), (1.0, 2.0, 1), (1.0, 0.0, 1.5), (1.0, True, 2)],
    "group_rho": [(-1.0, 2), (1.0, -2), ("a", 2)],
    "optimal_delta": [(-1, 5, 0.1), (1, -5, 0.1), (1, 5, -0.1)],
    "optimal_epsilon": [(-5, 0.1, 1e-6), (5, -0.1, 1e-6), (5, 0.1, 0)],
    "optimal_share": [(-1, 5, 1e-6), (1, 2.5, 1e-6), (1, 5, None)],
    "loss_distribution_epsilon": [([0.1], 1e-6), ({-0.1: 3}, 1e-6), ({0.1: -3}, 1e-6), ({0.1: 3}, 1e-12)],
    "gaussian_epsilon": [([(-1.0, 4.0)], 1e-6), ([(1.0, 0.0)], 1e-6), ([(1.0, 4.0)], 0), ([(math.inf, 4.0)], 1e-6)],
    "continuous_epsilon": [(-1.0, 1e-6), (1.0, 0), ("a", 1e-6)],
    "gaussian_share": [(-1.0, 1e-6), (1.0, 0), (1.0, 1)],
    "gaussian_delta": [(0, 1), (-1, 1), (1, -1), ("a", 1)],
    "classical_sigma": [(2, 1e-6), (-0.5, 1e-6), (0.5, 0)],
}


def test_every_theorem_is_public_and_has_a_line_in_its_page() -> None:
    from pathlib import Path

    import conspectus as cs

    assert set(REFUSED) | {"CompositionError"} == set(cs.composition.__all__)
    page = (Path(__file__).parents[2] / "docs" / "composition.md").read_text(encoding="utf-8")
    assert [name for name in REFUSED if f"`{name}(" not in page] == []


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for name, each in REFUSED.items() for bad in each])
def test_parameters_for_which_a_theorem_says_nothing_are_refused(name: str, bad: tuple[object, ...]) -> None:
    import conspectus as cs

    with pytest.raises(CompositionError):
        getattr(cs.composition, name)(*bad)


def test_no_acts_cost_nothing_and_huge_ones_everything() -> None:
    assert basic([]) == (0.0, 0.0)
    assert advanced(0.5, 0, 1e-6) == optimal_epsilon(0, 0.5, 1e-6) == 0.0
    assert advanced(1000.0, 3, 1e-6) == math.inf
    assert 0 < advanced_share(1000.0, 3, 1e-6) < 1000


def test_deltas_stay_within_one_and_tiny_shares_cost_nothing():
    assert composition.optimal_delta(1.0, 5, 1e-320) == 0.0
    assert composition.optimal_delta(1.0, 8, 0.125) == 0.0
    assert composition.optimal_delta(0.999, 8, 0.125) > 0.0
    assert composition.basic([(0.1, 0.7), (0.1, 0.7)])[1] == 1.0
    assert composition.advanced_approximate(0.1, 0.2, 10, 0.1)[1] == 1.0
    assert composition.gaussian_delta(1e-9, 0.1) == 1.0
