"""`session.above`: AboveThreshold and Sparse as a user calls them. What they find, what they cost, what they refuse."""

from __future__ import annotations

import math
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from tests.reference import noise_law

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import ThresholdWatch
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.relation import Neighbours
from conspectus.queries.language.from_sql import NotAPredicate
from conspectus.sessions.above import Search

ALPHA = 1e-6
COUNTS = [30, 700, 20, 10, 900, 40, 800]


def opened(epsilon=4.0, **budget):
    values = [f"v{i}" for i in range(len(COUNTS))]
    schema = cs.Schema.from_dict({"name": "t", "columns": {"v": {"type": "categorical", "values": values}}})
    rows = pa.table({"v": [value for value, count in zip(values, COUNTS) for _ in range(count)]})
    table = cs.open_table(rows, schema)
    plain = "gaussian" if "delta" in budget else "laplace"  # nothing is bought before the first question
    return (
        cs.open_session(table, epsilon=epsilon, questions=20, mechanism=plain, **budget),
        cs.marginal(schema, ["v"]),
        table,
    )


@pytest.mark.parametrize("budget", [{}, {"delta": 1e-6}])
def test_the_first_few_are_found_in_order_and_no_more_is_looked_at(budget):
    session, asked, _ = opened(epsilon=60.0, **budget)
    with session:
        found = session.above(asked, 400, hits=2, share=0.5)
        assert (found.found, found.looked, found.first) == ((1, 4), 5, 1)
        none = session.above(asked, 5000, share=0.2)
        assert (none.found, none.looked, none.first) == ((), 7, None)
        assert session.above((f"v = 'v{i}'" for i in (2, 4, 6)), 400, share=0.1).found == (1,)


def test_it_costs_one_part_for_each_search_that_began():
    session, asked, _ = opened(epsilon=50.0)
    with session:
        before = session.spent
        found = session.above(asked[:6], 400, hits=5, share=0.5)  # two are there: three searches began
        assert found.found == (1, 4)
        assert found.cost == pytest.approx(3 / 5 * 0.5 * 50)
        assert session.spent == pytest.approx(before + found.cost)
        watches = [event for event in session.release().events if isinstance(event, ThresholdWatch)]
        assert [event.epsilon.replace for event in watches] == [Fraction(5)] * 3
        with pytest.raises(BudgetExceeded, match="smaller"):
            session.above(asked, 400, share=0.9)
        assert session.spent == pytest.approx(before + found.cost)


def test_what_was_found_holds_within_its_bound():
    """Both sides of the threshold at once, in 100 searches: the bound fails with probability 0.05 at most."""
    wrong = 0
    session, asked, _ = opened(epsilon=100.0)
    with session:
        for _ in range(100):
            found = session.above(asked, 500, hits=2, share=0.0099)
            passed = [COUNTS[i] for i in range(found.looked) if i not in found.found]
            low, high = 500 - found.within, 500 + found.within
            wrong += any(COUNTS[i] < low for i in found.found) or any(count > high for count in passed)
    assert wrong <= binom.ppf(1 - ALPHA, 100, 0.05)


def test_the_bound_is_better_than_the_books():
    """α = 8(ln k + ln(2/β))/ε = 84.77 for ε = 1, k = 1000, β = 0.05 (Theorem 3.24)."""
    spending = Filter("pure", Fraction(1), Neighbours.REPLACE)
    search = Search.of(spending, count=10, hits=1, share=1.0)
    book = 8 * (math.log(1000) + math.log(2 / 0.05))
    assert book == pytest.approx(84.7731, abs=1e-3)
    assert 0.5 * book < search.within(1, 1000) < book


def test_a_tiny_search_has_its_law():
    """The chance that the first hit is at each place, summed over all noises; half the noise is caught."""
    counts, threshold, epsilon, runs = [1, 4, 6], 5, 2.0, 3000
    schema = cs.Schema.from_dict({"name": "t", "columns": {"v": {"type": "categorical", "values": ["a", "b", "c"]}}})
    rows = pa.table({"v": [value for value, count in zip("abc", counts) for _ in range(count)]})

    def law(scale: float) -> np.ndarray:
        reach = int(40 * 2 * scale * ERROR_STEPS)
        tau, nu = (noise_law("laplace", s * scale * ERROR_STEPS, reach) for s in (1, 2))
        tail = np.cumsum(nu[::-1])[::-1]  # P(noise ≥ place − reach)
        places = np.arange(-reach, reach + 1)
        above = [tail[np.clip(places + ERROR_STEPS * (threshold - count) + reach, 0, 2 * reach)] for count in counts]
        none, found = np.ones(len(places)), []
        for chance in above:
            found.append(float((tau * none * chance).sum()))
            none = none * (1 - chance)
        return np.array([*found, float((tau * none).sum())])

    spending = Filter("pure", Fraction(10**9), Neighbours.REPLACE)
    sampler = UnsafeSeededSampler(5)
    curator = Curator(cs.open_table(rows, schema), spending, neighbours=Neighbours.REPLACE, sampler=sampler)
    search = Search(count=threshold, hits=1, price=Fraction(epsilon), pure=True)
    asked = list(cs.marginal(schema, ["v"]))
    first = [search.run(curator, asked, lambda: nullcontext(spending))[0] for _ in range(runs)]
    seen = np.bincount([place[0] if place else 3 for place in first], minlength=4)
    expected = law(2 / epsilon)
    for place in range(4):
        assert binom.cdf(seen[place], runs, expected[place]) > ALPHA / 8
        assert binom.sf(seen[place] - 1, runs, expected[place]) > ALPHA / 8
    wrong = law(1 / epsilon)
    assert any(min(binom.cdf(seen[p], runs, wrong[p]), binom.sf(seen[p] - 1, runs, wrong[p])) < ALPHA for p in range(4))


def test_a_search_survives_in_the_ledger_and_answers_do_too(tmp_path):
    session, asked, table = opened(epsilon=40.0, path=tmp_path / "t.session")
    with session:
        before = session.ask("v = 'v1'")
        session.above(asked, 400, share=0.25)
        spent = session.spent
    with cs.resume_session(tmp_path / "t.session", table) as again:
        assert again.spent == pytest.approx(spent)
        assert again.ask("v = 'v1'").fraction == before.fraction
        again.end()
        with pytest.raises(BudgetExceeded, match="ended"):
            again.above(asked, 400)


def test_what_is_no_search_is_refused_before_anything_is_spent():
    session, asked, _ = opened()
    with session:
        spent = session.spent
        for count, more in ((0, {}), (math.nan, {}), (5, {"hits": 0}), (5, {"share": 0.0}), (5, {"share": 1.5})):
            with pytest.raises(SettingError):
                session.above(asked, count, **more)
        with pytest.raises(NotAPredicate):
            session.above(["v = 'v0'", "v +"], 5)
        with pytest.raises(NotAPredicate):
            session.above([asked], 5)
        assert session.spent == spent
        assert session.ask("v = 'v1'").count == pytest.approx(700, abs=100)
