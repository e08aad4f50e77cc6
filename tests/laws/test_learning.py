"""`release.best`: the rule that errs the least, by what the release says and by brute force at a huge budget."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from tests.made import people

import conspectus as cs
from conspectus.mechanisms import top
from conspectus.privacy.prices import cost_of
from conspectus.privacy.relation import Neighbours
from conspectus.queries.formulas import TooManyBoxes
from conspectus.releases.learning import HypothesisError
from conspectus.synopses.synopsis import CannotAnswer

RULES = ["smoker", "age >= 54", "smoker AND age >= 54", "NOT smoker", "region = 'north' OR smoker"]


@pytest.mark.parametrize("mechanism", ["laplace", "mwem"])
def test_at_a_huge_budget_it_is_the_best_by_brute_force(mechanism):
    schema, table = people()
    settings = {"rounds": 8, "evaluations": 200} if mechanism == "mwem" else {}
    release = cs.release(table, cs.marginals(schema, 4), epsilon=1e6, delta=1e-6, mechanism=mechanism, **settings)
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    region, old, smoker, ill = codes[:, 0] == 0, codes[:, 1] >= 3, codes[:, 2] == 1, codes[:, 3] == 1
    said = [smoker, old, smoker & old, ~smoker, region | smoker]
    errors = [float(np.mean(rule != ill)) for rule in said]
    found = release.best(RULES, "ill")
    assert found.errors == pytest.approx(errors, abs=2e-3)
    assert found.position == int(np.argmin(errors))
    assert found.hypothesis == RULES[found.position]
    assert found.error.fraction == min(found.errors)


def test_intervals_come_with_it_and_nothing_is_spent():
    schema, table = people()
    release = cs.release(table, cs.marginals(schema, 3), epsilon=1.0, delta=1e-6, mechanism="gaussian")
    found = release.best(["smoker", "age < 42"], "ill", confidence=0.9)
    assert found.error.low <= found.error.fraction <= found.error.high
    assert found.error.confidence == 0.9


def test_what_cannot_be_learned():
    schema, table = people(rows=200)
    release = cs.release(table, cs.marginals(schema, 1), epsilon=1.0, mechanism="laplace")
    for nothing in ([], "smoker"):
        with pytest.raises(HypothesisError, match="list"):
            release.best(nothing, "ill")
    with pytest.raises(CannotAnswer):
        release.best(["smoker"], "ill")


def test_the_table_itself_is_asked_by_the_exponential_mechanism():
    """At a huge budget `cs.best` finds the least error by brute force; its act is one draw of a monotone score."""
    _, table = people()
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    region, old, smoker, ill = codes[:, 0] == 0, codes[:, 1] >= 3, codes[:, 2] == 1, codes[:, 3] == 1
    said = [smoker, old, smoker & old, ~smoker, region | smoker]
    errors = [float(np.mean(rule != ill)) for rule in said]
    for neighbours in ("replace", "add-remove"):
        found = cs.best(table, RULES, "ill", epsilon=1e4, neighbours=neighbours)
        assert found.position == int(np.argmin(errors))
        assert found.hypothesis == RULES[found.position]
        assert found.error == pytest.approx(min(errors), abs=2e-3)
        assert found.low <= found.error <= found.high
        assert 0 < found.excess < 0.01
    named = cs.best(table, RULES, "ill", epsilon=1.0, counts=0.0)
    assert (named.error, named.low, named.high) == (None, None, None)
    assert named.excess > found.excess
    assert len(named.release.events) == 2  # the number of rows, which is public, and one draw
    assert named.release.guarantee.epsilon == 1.0


def test_a_learned_rule_is_as_good_as_its_bound_says():
    """Theorem 3.11 at ε = 0.05: each run fails with probability 0.05 at most, 17 of 60 with one below 10⁻⁷."""
    _, table = people()
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    region, old, smoker, ill = codes[:, 0] == 0, codes[:, 1] >= 3, codes[:, 2] == 1, codes[:, 3] == 1
    right = [int((rule == ill).sum()) for rule in (smoker, old, smoker & old, ~smoker, region | smoker)]
    missed = 0
    for _ in range(60):
        found = cs.best(table, RULES, "ill", epsilon=0.05, counts=0.0)
        missed += (max(right) - right[found.position]) / len(codes) > found.excess
    assert missed <= 16


def test_without_rules_nothing_is_learned():
    _, table = people()
    for rules in ([], "smoker"):
        with pytest.raises(HypothesisError):
            cs.best(table, rules, "ill", epsilon=1.0)


def made(rows, right):
    """Rows on which "a" predicts the label so often, "b" never, and "c" is missing."""
    columns = {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean", "missing": True}}
    schema = cs.Schema.from_dict({"name": "t", "columns": columns | {"label": {"type": "boolean"}}})
    label = np.arange(rows) % 2 == 0
    a = np.where(np.arange(rows) < right, label, ~label)
    return cs.open_table(pa.table({"a": a, "b": ~label, "c": [None] * rows, "label": label}), schema)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("rows", [0, 1, 5, 400])
@pytest.mark.parametrize("more", [{"epsilon": 0.01}, {"epsilon": 0.5}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 50.0}])
def test_errors_and_bounds_are_shares_whatever_the_noise(neighbours, rows, more, tmp_path):
    """They are never missing where they were paid for; and what was debited is what was done, also for a reader."""
    table = made(rows, rows * 3 // 4)
    for counts in (0.0, 0.2):
        found = cs.best(table, ["a", "b", "c", "a AND c"], "label", neighbours=neighbours, counts=counts, **more)
        assert 0 <= found.excess <= 1
        assert 0 <= found.generalisation <= 1
        if counts:
            assert 0 <= found.low <= found.error <= found.high <= 1
        guarantee = found.release.guarantee
        assert guarantee.rho <= 50 if "rho" in more else 0.99 * more["epsilon"] <= guarantee.epsilon <= more["epsilon"]
        found.release.save(tmp_path / "x.conspectus")
        assert cs.load(tmp_path / "x.conspectus").events == found.release.events


def test_right_and_wrong_rows_are_both_counted_for_the_price_of_one():
    """ε = 0.5 and a fifth of it: noise of scale 10 on each of two counts, that add up to the rows; nothing else is
    bought. The choice has all of the rest."""
    found = cs.best(made(400, 300), ["a", "b"], "label", epsilon=0.5, neighbours="add-remove")
    held = found.release.synopsis
    assert (held.counts.size, held.total.terms, held.total.scale) == (2, 2, pytest.approx(10.0, rel=1e-6))
    assert held.total.value == pytest.approx(held.counts.sum())
    assert len(found.release.events) == 2
    paid = [cost_of(event, "pure", Neighbours.ADD_REMOVE).price for event in found.release.events]
    assert Fraction(1, 2) - Fraction(1, 10**9) <= sum(paid) <= Fraction(1, 2)
    wrong = float(held.counts[1])
    assert found.error == pytest.approx(min(max(wrong / float(held.counts.sum()), 0), 1))


def test_the_error_of_a_rule_lies_in_its_interval_as_often_as_it_says():
    """12 choices under add-remove, 80 % intervals: more misses than the quantile have a chance below 10⁻⁶."""
    missed, table, true = 0, made(400, 300), {"a": 0.25, "b": 1.0}
    for _ in range(12):
        found = cs.best(table, ["a", "b"], "label", epsilon=0.5, neighbours="add-remove", confidence=0.8)
        missed += not found.low <= true[found.hypothesis] <= found.high
    assert missed <= binom.ppf(1 - 1e-6, 12, 0.2)


def test_a_rule_that_is_the_label_or_its_negation_is_learned():
    """All rows are right, or none: then nobody is wrong, or everybody."""
    for rules, error in ((["label", "b"], 0.0), (["NOT label"], 1.0)):
        found = cs.best(made(400, 300), rules, "label", epsilon=50.0, neighbours="add-remove")
        assert found.error == pytest.approx(error, abs=0.02)
        assert found.low <= error <= found.high


def test_where_the_negation_of_a_rule_is_too_long_all_rows_are_counted_in_its_place(monkeypatch, tmp_path):
    """For the same price, with noise for two counts of which one row moves both."""

    def too_long(*_):
        raise TooManyBoxes("made")

    monkeypatch.setattr(top, "opposite", too_long)
    found = cs.best(made(400, 300), ["a", "b"], "label", epsilon=5.0, neighbours="add-remove")
    held = found.release.synopsis
    assert (held.counts.size, held.total.terms, held.total.scale) == (2, 1, pytest.approx(2.0, rel=1e-6))
    assert held.total.value == held.counts[1]
    assert 0 <= found.low <= found.error <= found.high <= 1
    found.release.save(tmp_path / "x.conspectus")
    assert cs.load(tmp_path / "x.conspectus").guarantee.epsilon == 5.0


LABELS = ["sick", "sick OR NOT sure", "dose >= 2", "kind = 'b'", "dose IS NULL"]
ANSWERS = ["sick", "sure", "NOT sick", "dose < 2", "kind IN ('a', 'b') OR dose = 1", "kind IS NULL", "sick IS NOT NULL"]


def with_holes(rows=600):
    """A table of which every column misses values, and its rows in DuckDB."""
    draws = np.random.default_rng(5)

    def holed(values):
        return [None if hole < 0.3 else value for hole, value in zip(draws.random(rows), values)]

    held = pa.table(
        {
            "sick": holed((draws.random(rows) < 0.4).tolist()),
            "sure": holed((draws.random(rows) < 0.7).tolist()),
            "dose": holed(draws.integers(0, 4, rows).tolist()),
            "kind": holed(draws.choice(["a", "b", "c"], rows).tolist()),
        }
    )
    columns = {
        "sick": {"type": "boolean", "missing": True},
        "sure": {"type": "boolean", "missing": True},
        "dose": {"type": "integer", "min": 0, "max": 3, "missing": True},
        "kind": {"type": "categorical", "values": ["a", "b", "c"], "missing": True},
    }
    schema = cs.Schema.from_dict({"name": "holes", "columns": columns})
    database = duckdb.connect()
    database.register("holes", held)
    return schema, cs.open_table(held, schema), database


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", ["laplace", "histogram", "mwem"])
def test_a_row_where_something_is_missing_is_an_error(mechanism, neighbours):
    """At a huge budget `release.best` is brute force and `cs.best`, whatever is missing in rules or in the label."""
    schema, table, database = with_holes()
    settings = {"rounds": 8, "evaluations": 400} if mechanism == "mwem" else {}
    asked, near = cs.marginals(schema, 4), 4e-3 if mechanism == "mwem" else 1e-3
    release = cs.release(table, asked, epsilon=1e6, delta=1e-6, mechanism=mechanism, neighbours=neighbours, **settings)
    for label in LABELS:
        wrong = [f"avg((({rule}) IS DISTINCT FROM ({label}) OR ({rule}) IS NULL)::int)" for rule in ANSWERS]
        [true] = database.execute(f"SELECT {', '.join(wrong)} FROM holes").fetchall()
        found = release.best(ANSWERS, label)
        assert found.errors == pytest.approx(true, abs=near)
        assert found.error.low - near <= true[found.position] <= found.error.high + near
        assert found.error.fraction == found.errors[found.position] == min(found.errors)
        learned = cs.best(table, ANSWERS, label, epsilon=1e6, neighbours=neighbours)
        assert true[learned.position] == pytest.approx(min(true))
        assert learned.error == pytest.approx(found.errors[learned.position], abs=near)


def test_a_release_of_the_agreement_alone_says_the_rest_of_it():
    schema, table, database = with_holes()
    learned = cs.best(table, ["sure"], "sick", epsilon=1e4)
    said = learned.release.best(["sure"], "sick")
    [[true]] = database.execute("SELECT avg((sure IS DISTINCT FROM sick OR sure IS NULL)::int) FROM holes").fetchall()
    assert said.error.fraction == pytest.approx(true, abs=1e-3)
    assert said.error.low <= true <= said.error.high
    assert said.error.count == pytest.approx(600 * true, abs=0.6)
    released = cs.release(
        table, cs.sql(schema, ["(sure AND sick) OR (NOT sure AND NOT sick)"]), epsilon=1.0, mechanism="laplace"
    )
    found = released.best(["sure"], "sick").error
    right = released.ask("(sure AND sick) OR (NOT sure AND NOT sick)")
    assert (found.fraction, found.low, found.high) == (1 - right.fraction, 1 - right.high, 1 - right.low)
