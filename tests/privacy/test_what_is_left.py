"""A ledger that counts ρ says which ε is left, and what it says can be asked for."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conspectus.privacy.accounting import BudgetExceeded, rho_of
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.what_is_left import affordable

BOUND = {"neighbours": "replace", "unit": "row"}


@given(st.fractions(Fraction(1, 10**12), 100), st.sampled_from([1e-12, 1e-6, 1e-3, 0.1]))
def test_what_is_affordable_fits_and_hardly_more_does(rho: Fraction, delta: float) -> None:
    epsilon = affordable(rho, delta)
    if epsilon:
        assert rho_of(epsilon, delta) <= rho
        assert rho_of(epsilon * 1.002, delta) > rho
    else:
        assert rho_of(1e-8, delta) > rho


@pytest.mark.parametrize(
    ("budget", "aside"),
    [
        (Budget(epsilon=2.0, delta=1e-6), 0.0),
        (Budget(epsilon=2.0, delta=1e-6), 0.5),
        (Budget(rho=0.1), 0.0),
        (Budget(rho=0.1, delta=1e-5), 0.0),
    ],
)
def test_a_refusal_names_an_epsilon_that_is_granted(tmp_path: Path, budget: Budget, aside: float) -> None:
    ledger = Ledger.create(
        tmp_path / "ledger", budget=budget, schema_fingerprint="f00", table="people", aside=aside, **BOUND
    )
    ledger.reserve(Budget(rho=float(ledger.cap) / 3), "first", fingerprint="f00", **BOUND)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(Budget(rho=1.0), "second", fingerprint="f00", **BOUND)
    found = re.search(
        r"rho ([0-9.e-]+) of ([0-9.e-]+) \(epsilon ([0-9.e-]+) at delta ([0-9.e-]+)\) left", str(refused.value)
    )
    assert found is not None
    left, cap, epsilon, delta = map(float, found.groups())
    assert (left, cap) == (pytest.approx(float(ledger.remaining), rel=1e-5), pytest.approx(float(ledger.cap), rel=1e-5))
    assert epsilon == ledger.epsilon_remaining
    assert delta == pytest.approx(ledger.shown_delta)
    ledger.reserve(Budget(epsilon=epsilon, delta=ledger.shown_delta), "third", fingerprint="f00", **BOUND)
    with pytest.raises(BudgetExceeded, match=r"nothing|epsilon"):
        ledger.reserve(Budget(epsilon=epsilon, delta=ledger.shown_delta), "fourth", fingerprint="f00", **BOUND)


def test_a_pure_ledger_says_the_epsilon_that_it_counts(tmp_path: Path) -> None:
    bound = {"schema_fingerprint": "f00", "table": "people", **BOUND}
    ledger = Ledger.create(tmp_path / "ledger", budget=Budget(epsilon=1.0), **bound)
    ledger.reserve(Budget(epsilon=0.75), "first", fingerprint="f00", **BOUND)
    assert ledger.epsilon_remaining == pytest.approx(0.25)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon 0.5, and the ledger has epsilon 0.25 of 1 left: ask"):
        ledger.reserve(Budget(epsilon=0.5), "second", fingerprint="f00", **BOUND)


def test_a_ledger_of_a_large_epsilon_says_so(tmp_path: Path) -> None:
    bound = {"schema_fingerprint": "f00", "table": "people", **BOUND}
    large = Ledger.create(tmp_path / "large", budget=Budget(epsilon=11.0), **bound)
    assert "epsilon = 11 is above 10" in str(large.guarantee())
    assert not Ledger.create(tmp_path / "small", budget=Budget(epsilon=10.0), **bound).guarantee().warnings
