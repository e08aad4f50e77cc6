"""`release.best`: the rule that errs the least, by what the release says and by brute force at a huge budget."""

from __future__ import annotations

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
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
