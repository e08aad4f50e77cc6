"""Prices, filters, declared lists and calibration: exact, and never a better promise than a theorem gives."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.privacy import composition
from conspectus.privacy.accounting import (
    BudgetExceeded,
    Declared,
    Filter,
    Unpriced,
    best,
    calibrate_gaussian,
    calibrate_laplace,
    epsilon_of,
    price_pure,
    price_rho,
    rho_of,
    scale_up,
)
from conspectus.privacy.composition import optimal_epsilon
from conspectus.privacy.events import (
    ByRelation,
    Event,
    ExponentialDraws,
    GaussianNoise,
    LaplaceNoise,
    RowTotal,
    ThresholdWatch,
    from_json,
    read_fraction,
    to_json,
)
from conspectus.privacy.guarantee import Budget, BudgetError, printed
from conspectus.privacy.prices import add_up, pure_acts

ONE_ACT = Fraction(1, 10)


def reach(replace: Fraction | int, add_remove: Fraction | int | None = None) -> ByRelation:
    return ByRelation(replace=Fraction(replace), add_remove=None if add_remove is None else Fraction(add_remove))


def laplace(l1: int, scale: Fraction | int, l2_squared: int | None = None, linf: int = 1) -> LaplaceNoise:
    squared = reach(l1 if l2_squared is None else l2_squared)
    return LaplaceNoise(l1=reach(l1), l2_squared=squared, linf=reach(linf), scale=Fraction(scale))


def watch(epsilon: Fraction) -> ThresholdWatch:
    return ThresholdWatch(epsilon=reach(epsilon, epsilon))


MARGINAL = LaplaceNoise(l1=reach(2, 1), l2_squared=reach(2, 1), linf=reach(1, 1), scale=Fraction(4))


@pytest.mark.parametrize(
    ("event", "pure", "rho"),
    [
        (MARGINAL, Fraction(1, 2), Fraction(2, 32)),
        (laplace(6, 3, 12, 2), Fraction(2), Fraction(12, 18)),
        (GaussianNoise(l2_squared=reach(2), sigma_squared=Fraction(9, 4)), None, Fraction(4, 9)),
        (ExponentialDraws(range=reach(Fraction(1, 5)), draws=7), Fraction(7, 5), Fraction(7, 200)),
        (watch(Fraction(1, 3)), Fraction(1, 3), Fraction(1, 18)),
        (RowTotal(), Fraction(0), Fraction(0)),
    ],
)
def test_prices_are_exact(event: Event, pure: Fraction | None, rho: Fraction) -> None:
    assert price_rho(event, "replace") == rho
    if pure is None:
        with pytest.raises(Unpriced, match="never pure"):
            price_pure(event, "replace")
    else:
        assert price_pure(event, "replace") == pure


def test_prices_follow_the_relation() -> None:
    assert price_pure(MARGINAL, "add-remove") == Fraction(1, 4)
    for event in (RowTotal(), ExponentialDraws(range=reach(1), draws=1), laplace(1, 1)):
        with pytest.raises(Unpriced):
            price_pure(event, "add-remove")
        with pytest.raises(Unpriced):
            price_rho(event, "add-remove")


@pytest.mark.parametrize(
    "event",
    [laplace(1, 0), laplace(1, -1), laplace(-1, 1, -1), ExponentialDraws(range=reach(1), draws=-3)],
)
def test_acts_without_meaning_have_no_price(event: Event) -> None:
    for price in (price_pure, price_rho):
        with pytest.raises(Unpriced):
            price(event, "replace")


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_scales_are_rounded_up_by_less_than_a_unit(number: Fraction) -> None:
    scale = scale_up(number)
    assert Fraction(math.nextafter(scale, 0.0)) < number <= Fraction(scale)


@given(st.lists(st.fractions(min_value=0, max_value=1, max_denominator=10**9), max_size=200))
def test_sums_stay_short_and_never_shrink(prices: list[Fraction]) -> None:
    total = Fraction(0)
    for price in prices:
        total = add_up(total, price)
    exact = sum(prices, Fraction(0))
    assert exact <= total < exact + Fraction(1, 2**4000)
    assert total.denominator.bit_length() <= 4098


def test_a_pure_filter_spends_its_cap_to_the_last_unit() -> None:
    spending = Filter.of(Budget(epsilon=1.0), "replace")
    for _ in range(3):
        spending.admit(laplace(1, 3))
    assert (spending.spent, spending.remaining) == (1, 0)
    before = spending.events
    with pytest.raises(BudgetExceeded, match="left"):
        spending.admit(watch(Fraction(1, 10**40)))
    assert spending.events == before
    promise = spending.guarantee("row", ("beware",))
    assert (promise.epsilon, promise.delta, promise.rho, promise.warnings) == (1.0, 0.0, None, ("beware",))


def test_a_filter_counts_acts_afresh_or_stays_as_it_was() -> None:
    spending = Filter.of(Budget(epsilon=1.0), "replace")
    spending.admit(watch(Fraction(1, 2)))
    with pytest.raises(BudgetExceeded):
        spending.recount([watch(Fraction(1, 2)), watch(Fraction(2, 3))])
    assert (spending.spent, spending.events) == (Fraction(1, 2), (watch(Fraction(1, 2)),))
    spending.recount([watch(Fraction(1, 3))])
    assert (spending.spent, spending.events) == (Fraction(1, 3), (watch(Fraction(1, 3)),))
    assert spending.guarantee("row") == Filter.of(Budget(epsilon=1.0), "replace").guarantee("row")


def test_a_filter_promises_its_cap_whatever_was_spent() -> None:
    """What was spent may depend on the draws, and is then no promise."""
    budget = Budget(epsilon=1.0, delta=1e-9)
    spending = Filter.of(budget, "replace")
    assert spending.cap == Fraction(rho_of(1.0, 1e-9))
    spending.admit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(100)))
    promise = spending.guarantee("row")
    assert spending.spent == Fraction(1, 200)
    assert promise.rho == rho_of(1.0, 1e-9) > 0.005
    assert promise.epsilon == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(BudgetExceeded):
        spending.admit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(45)))
    spending.admit(GaussianNoise(l2_squared=reach(1), sigma_squared=1 / (2 * spending.remaining)))
    assert spending.remaining == 0
    whole = spending.guarantee("row").epsilon
    assert whole is not None
    assert 1 - 1e-12 < whole <= 1


def test_rho_budgets_show_epsilon_only_at_a_named_delta() -> None:
    assert Filter.of(Budget(rho=0.5), "replace").guarantee("row").epsilon is None
    spending = Filter.of(Budget(rho=0.5, delta=1e-6), "replace")
    spending.admit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(1)))
    assert spending.guarantee("row").epsilon == epsilon_of(0.5, 1e-6)
    with pytest.raises(Unpriced):
        Filter("pure", Fraction(1), "replace").admit(GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(1)))


def test_a_declared_list_admits_exactly_itself() -> None:
    acts = (RowTotal(), watch(ONE_ACT), laplace(2, 40))
    declared = Declared(acts, Budget(epsilon=1.0), "replace")
    with pytest.raises(BudgetExceeded, match="declare"):
        declared.admit(acts[1])
    for act in acts:
        declared.admit(act)
    assert declared.events == acts
    with pytest.raises(BudgetExceeded, match="declare"):
        declared.admit(acts[2])
    assert declared.guarantee("row").epsilon == scale_up(Fraction(3, 20))
    with pytest.raises(BudgetExceeded, match="more than the budget"):
        Declared((watch(Fraction(2)),), Budget(epsilon=1.0), "replace")


def test_a_declared_list_takes_the_best_theorem() -> None:
    many = (laplace(1000, 300),)
    epsilon, rho, theorem = best(many, 1e-9, "replace")
    assert theorem.startswith("optimal")
    assert epsilon == Fraction(optimal_epsilon(1000, scale_up(Fraction(1, 300)), 1e-9))
    assert rho == Fraction(1000, 2 * 300**2)
    assert epsilon < epsilon_of(rho, 1e-9)
    few = (watch(ONE_ACT),)
    assert best(few, 0.0, "replace")[0] == ONE_ACT
    uneven = tuple(watch(Fraction(k, 500)) for k in range(1, 40))
    epsilon, rho, theorem = best(uneven, 1e-6, "replace")
    assert theorem.startswith("composition of privacy loss")
    assert epsilon is not None
    assert epsilon < min(epsilon_of(rho, 1e-6), Fraction(780, 500))
    gaussian = (GaussianNoise(l2_squared=reach(1), sigma_squared=Fraction(9)),)
    epsilon, rho, theorem = best(gaussian, 1e-6, "replace")
    assert theorem == "composition of Gaussian noise"
    assert epsilon == Fraction(composition.gaussian_epsilon([(1 / 9, 9.0)], 1e-6)) < epsilon_of(rho, 1e-6)
    assert best(gaussian, 0.0, "replace")[0] is None


def test_laplace_counts_part_into_unit_acts_only_where_none_moves_by_more() -> None:
    assert pure_acts((laplace(5, 2),), "replace") == {Fraction(1, 2): 5}
    assert pure_acts((laplace(6, 2, 12, 2),), "replace") == {Fraction(3): 1}
    assert pure_acts((RowTotal(), ExponentialDraws(range=reach(1), draws=3)), "replace") == {Fraction(1): 3}


BUDGETS = [
    Budget(epsilon=0.7),
    Budget(epsilon=0.01, delta=1e-3),
    Budget(epsilon=1.0, delta=1e-9),
    Budget(epsilon=20.0, delta=1e-6),
    Budget(rho=0.02),
    Budget(rho=0.02, delta=1e-6),
]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(BUDGETS), st.integers(1, 20_000), st.integers(1, 3))
def test_calibrated_noise_fits_the_budget_and_little_less_does_not(budget: Budget, moved: int, linf: int) -> None:
    l1, squared = moved * linf, moved * linf * linf
    scale = calibrate_laplace(Fraction(l1), Fraction(squared), Fraction(linf), budget)
    assert scale == Fraction(float(scale))
    Declared((laplace(l1, scale, squared, linf),), budget, "replace")
    with pytest.raises(BudgetExceeded):
        Declared((laplace(l1, scale * Fraction(99_999, 100_000), squared, linf),), budget, "replace")


@given(
    st.fractions(min_value=Fraction(1, 1000), max_value=10**6), st.fractions(min_value=Fraction(1, 10**9), max_value=9)
)
def test_gaussian_calibration_is_the_smallest_float(squared: Fraction, rho: Fraction) -> None:
    sigma = calibrate_gaussian(squared, rho)
    assert price_rho(GaussianNoise(l2_squared=reach(squared), sigma_squared=sigma**2), "replace") <= rho
    less = Fraction(math.nextafter(math.nextafter(float(sigma), 0.0), 0.0))
    assert price_rho(GaussianNoise(l2_squared=reach(squared), sigma_squared=less**2), "replace") > rho


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1.0, 6, "1"), (0.12345649, 6, "0.123457"), (1.0049e-5, 3, "1.01e-05"), (0.9999996, 6, "1"), (0.0, 3, "0")],
)
def test_printed_prices_are_rounded_up(value: float, digits: int, text: str) -> None:
    assert printed(value, digits) == text


HOSTILE = ["1e40000000", "1e5", "0.5", "1/0", " 1", "1_0", "9" * 4301, "1/" + "9" * 4301, "nan"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(9))
def test_stored_fractions_are_whole_numbers_of_bounded_length(text):
    """A short text with an exponent would be a number that fills the memory."""
    one = ByRelation(replace=None, add_remove=Fraction(1))
    event = LaplaceNoise(l1=one, l2_squared=one, linf=one, scale=Fraction(1, 3))
    stored = to_json(event)
    assert from_json(stored) == event
    for hostile in ({"scale": text}, {"l2_squared": {"replace": None, "add_remove": text}}):
        with pytest.raises(ValueError, match="not a private event"):
            from_json({**stored, **hostile})
    assert read_fraction(str(Fraction(3, 1 << 4096))) == Fraction(3, 1 << 4096)


@pytest.mark.parametrize(
    "changed",
    [{"draws": 7.9}, {"draws": True}, {"draws": "3/2"}, {"draws": "7"}, {"more": "1"}, {"range": {"replace": "2/4"}}],
)
def test_a_stored_act_is_read_to_the_letter(changed):
    """A float was rounded down: 7.9 draws were read, and charged, as 7."""
    event = ExponentialDraws(range=ByRelation(replace=Fraction(1, 2), add_remove=None), draws=7)
    stored = to_json(event)
    assert from_json(stored) == event
    with pytest.raises(ValueError, match="not a private event"):
        from_json({**stored, **changed})


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float32, np.float64, int, Fraction, Decimal])
def test_a_budget_holds_floats_of_python_alone(kind):
    """Numbers of 64 bits wrap around within fractions: 32 acts of 1/3 once fitted into a budget of 1."""
    held = Budget(epsilon=kind(1), delta=kind(0))
    assert (type(held.epsilon), type(held.delta), held.epsilon) == (float, float, 1.0)
    assert type(Budget(rho=kind(1)).rho) is float


@pytest.mark.parametrize("odd", ["1", True, np.True_, None, [1], 1j, 10**400, Decimal("sNaN"), Decimal("NaN")])
def test_what_is_no_number_is_no_budget(odd):
    for fields in ({"epsilon": odd}, {"rho": odd}, {"epsilon": 1.0, "delta": odd}):
        with pytest.raises(BudgetError):
            Budget(**fields)
