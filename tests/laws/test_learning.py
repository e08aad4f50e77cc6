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
