"""Keys of unknown universes: the threshold by its exact tail, (ε, δ) by enumeration, its price, and what it answers."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from tests.made import people, truth
from tests.reference import hockey_stick, laplace_upper_tail, renyi_divergence, shown_law

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.curator.acts import keys_act
from conspectus.data.domain import RECORDS
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.privacy.accounting import (
    BudgetExceeded,
    Declared,
    Filter,
    Unpriced,
    best,
    price,
    price_approximate,
)
from conspectus.privacy.events import (
    ByRelation,
    GaussianNoise,
    LaplaceNoise,
    Noise,
    RowTotal,
    StableKeys,
    ThresholdWatch,
    from_json,
    to_json,
)
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.prices import cost_of
from conspectus.privacy.relation import Neighbours
from conspectus.synopses.files import BadSynopsisFile
from conspectus.synopses.published_records import PublishedRecords
from conspectus.synopses.sparse_table import SparseTable
from conspectus.synopses.synopsis import BadSynopsis, Total, load_synopsis

ALPHA = 1e-6


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize(("scale", "delta"), [(1.0, 1e-6), (2.0, 1e-6), (0.5, 0.01), (30.0, 1e-9)])
def test_the_threshold_is_the_least_whose_tail_fits(scale, delta, m):
    level = threshold(scale, m, delta)
    assert m * laplace_upper_tail(scale, level - m) <= delta
    assert level == m + 1 or m * laplace_upper_tail(scale, level - 1 - m) > delta * (1 - 1e-9)
    assert level <= m + scale * math.log(m / (2 * delta)) + 2


TABLES = {
    "add-remove": [((3, 0), (3, 1)), ((3, 1), (3, 0)), ((2, 2), (3, 2)), ((0, 1), (0, 0)), ((1, 0), (2, 0))],
    "replace": [((3, 0), (2, 1)), ((2, 1), (3, 0)), ((2, 2), (3, 1)), ((0, 1), (1, 0)), ((1, 1), (2, 0))],
}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_neighbours_are_indistinguishable_by_enumeration(neighbours):
    """The exact δ at ε over all outputs, and a threshold that is two lower breaks it somewhere."""
    epsilon, delta = 1.5, 0.02
    scale = (2 if neighbours == "replace" else 1) / epsilon
    level = threshold(scale, 1, delta)
    worst = broken = 0.0
    for here, there in TABLES[neighbours]:
        most = 60
        worst = max(worst, hockey_stick(*(shown_law(t, scale, level, most) for t in (here, there)), epsilon))
        broken = max(broken, hockey_stick(*(shown_law(t, scale, level - 2, most) for t in (here, there)), epsilon))
    assert worst <= delta
    assert broken > delta


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_units_of_several_rows(neighbours):
    """A person of two rows with keys of their own, both alike or different, against none or against other keys."""
    epsilon, delta, m = 1.0, 0.05, 2
    scale = (2 * m if neighbours == "replace" else m) / epsilon
    level = threshold(scale, m, delta)
    if neighbours == "replace":
        pairs = [((2, 2, 0), (2, 0, 2)), ((3, 1, 0), (1, 1, 2)), ((2, 0, 0), (1, 1, 0)), ((1, 1, 2), (1, 3, 0))]
    else:
        pairs = [((2, 2, 0), (2, 0, 0)), ((2, 1, 1), (2, 0, 0)), ((3, 2, 0), (2, 1, 0)), ((2, 0, 0), (2, 1, 1))]
    for here, there in pairs:
        laws = [shown_law(table, scale, level, 45) for table in (here, there)]
        assert hockey_stick(*laws, epsilon) <= delta
        assert hockey_stick(*reversed(laws), epsilon) <= delta


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 8.0, 64.0])
@pytest.mark.parametrize(
    ("neighbours", "m", "pairs"),
    [
        ("add-remove", 1, [((9,), (8,)), ((30,), (31,)), ((1,), (2,))]),
        ("replace", 1, [((9, 9), (8, 10)), ((2, 30), (1, 31)), ((9, 9), (8, 9))]),
        ("add-remove", 3, [((9,), (6,)), ((9, 9), (7, 8)), ((9, 9, 9), (8, 8, 8))]),
        ("replace", 3, [((9, 9), (6, 12)), ((9, 9, 9), (6, 10, 11)), ((9, 9, 9), (7, 8, 12))]),
    ],
)
def test_common_keys_are_concentrated_at_their_price(alpha, neighbours, m, pairs):
    """Given that no key of one table alone is shown, all orders of divergence are at most α·ρ; some beat half of it."""
    scale, level, most = 25.0, m + 1, 1000
    rho = float(cost_of(act(scale, level, m), "zcdp", neighbours).price)
    found = []
    for here, there in [*pairs, *((there, here) for here, there in pairs)]:
        laws = [[shown_law((amount,), scale, level, most) for amount in table] for table in (here, there)]
        # Windows of 1,000 either way leave out e^-40, and what lies at their ends is beyond the other's.
        shared = [(set(one) & set(other), one, other) for one, other in zip(*laws)]
        parts = [({key: one[key] for key in keys}, other) for keys, one, other in shared]
        found.append(sum(renyi_divergence(one, other, alpha) for one, other in parts))
    assert max(found) <= alpha * rho * (1 + 1e-9)
    if alpha < 2:
        assert max(found) > alpha * rho / 2


def act(scale=2.0, level=30, m=1):
    return keys_act(scale, level, max_rows=m)


def test_an_act_with_a_delta_is_never_priced_without_it():
    event = act()
    assert from_json(to_json(event)) == event
    epsilon, delta = price_approximate(event, "replace")
    assert epsilon == 1
    assert float(delta) == pytest.approx(laplace_upper_tail(2.0, 29), rel=1e-9)
    assert float(delta) >= laplace_upper_tail(2.0, 29)
    for currency in ("pure", "zcdp"):
        with pytest.raises(Unpriced):
            price(event, currency, "replace")
    with pytest.raises(Unpriced):
        price_approximate(act(level=1), "replace")
    with pytest.raises(BudgetExceeded):
        Filter("zcdp", Fraction(100), "replace").admit(event)
    held = Filter("zcdp", Fraction(1), "replace", missing=delta)
    held.admit(event)
    assert held.spent == Fraction(1, 4)  # squares of what moves: at most reach times rows, 2·1
    with pytest.raises(BudgetExceeded):
        held.admit(act(scale=1000.0, level=30_000))


def test_filters_set_a_delta_aside():
    budget = Budget(epsilon=2.0, delta=1e-5)
    purse = Filter.of(budget, "replace", missing=5e-6)
    assert purse.cap < Filter.of(budget, "replace").cap
    _, delta = price_approximate(act(scale=20.0, level=260), "replace")
    assert float(delta) < 5e-6
    purse.admit(act(scale=20.0, level=260))
    promise = purse.guarantee("row")
    assert (promise.delta, promise.rho, promise.missing) == (1e-5, float(purse.cap), 5e-6)
    assert promise.epsilon <= 2.0
    with pytest.raises(BudgetExceeded):
        Filter.of(budget, "replace", missing=1e-5)


def test_declared_lists_take_the_delta_from_the_budget():
    event = act()
    epsilon, delta = price_approximate(event, "replace")
    enough = Budget(epsilon=1.0, delta=float(delta) * 1.01)
    found = Declared((RowTotal(), event), enough, Neighbours.REPLACE).guarantee("row")
    assert (found.epsilon, found.rho) == (1.0, None)
    assert found.delta > 0
    for budget in (Budget(epsilon=1.0, delta=float(delta) / 2), Budget(epsilon=0.99, delta=0.1), Budget(rho=100.0)):
        with pytest.raises(BudgetExceeded):
            Declared((RowTotal(), event), budget, Neighbours.REPLACE)
    one = ByRelation(replace=Fraction(1), add_remove=Fraction(1))
    noisy = GaussianNoise(l2_squared=one, sigma_squared=Fraction(100))
    mixed, rho, _ = best((event, noisy), 1e-4, "replace")
    alone, _, _ = best((noisy,), 1e-4 - float(delta), "replace")
    assert rho is None
    assert mixed == pytest.approx(float(alone + epsilon), rel=1e-6)
    pure = LaplaceNoise(l1=one, l2_squared=one, linf=one, scale=Fraction(10))
    assert best((event, pure), 1e-4, "replace")[0] <= epsilon + Fraction(1, 10)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_heavy_keys_are_shown_sorted_and_light_ones_are_not(neighbours):
    """One of a thousand rare records is shown with probability 1e-7."""
    rows, delta = ["a"] * 500 + ["b"] * 200 + [f"rare {i}" for i in range(1000)], 1e-10
    asked = cs.sparse([["a"], ["b"], ["rare 1"], {"a": 0.5, "b": 1}])
    table = cs.open_records(rows)
    release = cs.release(table, asked, epsilon=1.0, delta=delta, mechanism="stable-histogram", neighbours=neighbours)
    held = release.synopsis
    assert isinstance(held, PublishedRecords)
    assert held.records == ("a", "b")
    scale = (2 if neighbours == "replace" else 1) / (1.0 if neighbours == "replace" else 0.98)
    assert release.parameters["scale"] == pytest.approx(scale)
    assert release.parameters["threshold"] == threshold(release.parameters["scale"], 1, delta)
    assert release.guarantee.delta == delta
    assert release.guarantee.epsilon <= 1 + 1e-12
    found = release.answers * release.total.divisor
    assert np.abs(found - [500, 200, 0, 450]).max() < 40 * scale


def test_what_has_no_budget_for_it_is_refused(tmp_path):
    table, asked = cs.open_records(["a"]), cs.sparse([["a"]])
    for budget in ({"epsilon": 1.0}, {"rho": 0.1}, {"rho": 0.1, "delta": 1e-6}):
        with pytest.raises(NoMechanism, match="delta above 0"):
            cs.release(table, asked, mechanism="stable-histogram", **budget)
    ledger = Ledger.create(
        tmp_path / "ledger",
        budget=Budget(epsilon=2.0, delta=1e-6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=table.schema.fingerprint,
        table="records",
    )
    with pytest.raises(NoMechanism, match=r"aside=0\.5"):
        cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism="stable-histogram", ledger=ledger)
    assert ledger.spent == 0


def test_a_delta_that_shows_somebody_is_told_of():
    schema, asked = cs.open_records([0]).schema, cs.sparse([["a"]])
    for rows, delta, told in ((1000, 1e-6, False), (1_000_000, 1e-6, True), (1_000_000, 1e-9, False)):
        claims = cs.plan(schema, asked, rows=rows, epsilon=1.0, delta=delta).claims
        notes = next(claim for claim in claims if claim.mechanism == "stable-histogram").notes
        assert ("choose a delta far below 1e-06" in notes[-1]) == told


def test_full_rows_of_a_schema_are_keys_too(tmp_path):
    schema, table = people(rows=20_000)
    asked = cs.marginals(schema, 2)
    counts, rows = truth(table, asked)
    release = cs.release(table, asked, epsilon=4.0, delta=1e-6, mechanism="stable-histogram")
    # At most 96 keys, each lost below the threshold or off by its noise.
    assert np.abs(release.answers * rows - counts).max() < 24 * release.parameters["threshold"]
    made = release.synthetic(1000, public_seed=1)
    assert made.num_rows == 1000
    path = tmp_path / "keys.conspectus"
    release.save(path)
    again = cs.load(path)
    assert np.array_equal(again.synopsis.answer(asked), release.answers)
    assert again.guarantee == release.guarantee


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_intervals_of_keys_cover_on_either_side(neighbours):
    """Each end holds with probability 0.9 at least (binomial quantile, ALPHA)."""
    rows = ["a"] * 100 + ["b"] * 30 + ["c"] * 24 + ["d"] * 3
    questions = cs.sparse([["a"], ["b"], ["c", "d"], {"a": 0.5, "c": 1, "zero": 1}])
    counts, n = count(questions, cs.open_records(rows).chunks())
    exact = counts / questions.grid / n
    low = high = 0
    budget = {"epsilon": 1.0, "delta": 1e-5, "neighbours": neighbours}
    for _ in range(60):
        release = cs.release(cs.open_records(rows), questions, mechanism="stable-histogram", **budget)
        for place in range(4):
            answer = release.ask(questions[place], confidence=0.9)
            low += answer.low <= exact[place]
            high += answer.high >= exact[place]
    assert min(low, high) >= binom.ppf(ALPHA, 240, 0.9)


def test_broken_keys_are_refused():
    held = SparseTable(RECORDS, np.array([3, 9], dtype=np.uint64), np.array([40, 50]), 30, Noise("laplace", 2.0), TOTAL)
    meta, tables = held.parts()
    assert np.array_equal(load_synopsis(RECORDS, "sparse-table", meta, tables).keys, held.keys)
    for broken in ({**meta, "threshold": 45}, {**meta, "threshold": None}, {**meta, "noise": []}, {**meta, "total": 1}):
        with pytest.raises(BadSynopsis):
            load_synopsis(RECORDS, "sparse-table", broken, tables)
    with pytest.raises(BadSynopsis):
        SparseTable(RECORDS, held.keys[::-1], held.counts, 30, held.noise, TOTAL)


TOTAL = Total(value=100.0, exact=True)


def test_stored_keys_without_the_act_that_published_them_are_refused(tmp_path):
    records = cs.open_records(["a"] * 500 + ["b"] * 500)
    release = cs.release(records, cs.sparse([["a"]]), epsilon=1.0, delta=1e-6, mechanism="stable-histogram")
    release.save(tmp_path / "whole")
    assert cs.load(tmp_path / "whole").guarantee == release.guarantee
    noise = ByRelation(replace=Fraction(1, 9), add_remove=Fraction(1, 9))
    other = tuple(event for event in release.events if not isinstance(event, StableKeys))
    dataclasses.replace(release, events=(*other, ThresholdWatch(epsilon=noise))).save(tmp_path / "other")
    with pytest.raises(BadSynopsisFile, match="did not draw the noise"):
        cs.load(tmp_path / "other")
