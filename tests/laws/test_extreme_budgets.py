"""Budgets from next to nothing to far too much: plans and releases come, or are refused in a sentence of our own."""

from __future__ import annotations

import math

import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.mechanism import NoMechanism, propose
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.guarantee import Budget, BudgetError
from conspectus.releases.planning import problem_of

EPSILONS = (1e-6, 1e-2, 60.0, 300.0, 1e3, 1e6, 1e15)
DELTAS = (0.0, 1e-300, 1e-9, 0.5)
LISTED = cs.sparse([[1, 2, 3], [4]])


def records(rows=20):
    return cs.open_records(list(range(rows)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_budget_has_a_plan(epsilon, delta):
    schema, _ = people(30)
    for asked, of in ((cs.marginals(schema, 1), schema), (LISTED, records().schema)):
        plan = cs.plan(of, asked, rows=30, epsilon=epsilon, delta=delta)
        assert {said.mechanism for said in (*plan.claims, *plan.refusals)} == set(OFFLINE)
        assert all(math.isfinite(claim.expected_max) for claim in plan.claims)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_listed_records_are_released_at_every_budget(epsilon, delta, neighbours):
    for mechanism in ("auto", "laplace", "gaussian", "sparse-project", "stable-histogram"):
        try:
            release = cs.release(
                records(), LISTED, epsilon=epsilon, delta=delta, mechanism=mechanism, neighbours=neighbours, rows=20
            )
        except (NoMechanism, BudgetError):
            refused = True
        else:
            refused = False
        # Some need a δ, and thresholds one that is not next to nothing; for the planner something is always left.
        assert not refused or (mechanism in ("gaussian", "stable-histogram") and delta < 1e-9)
        if refused:
            continue
        assert release.answers.shape == (2,)
        assert release.guarantee.epsilon <= epsilon


@pytest.mark.parametrize("delta", [5e-324, 1e-320, 2e-308, 9e-301])
def test_a_delta_that_has_no_digits_is_refused(delta):
    """It once ended in a division by 0."""
    with pytest.raises(BudgetError, match="leave it out"):
        cs.release(records(), LISTED, epsilon=1.0, delta=delta)


@pytest.mark.parametrize("epsilon", [1e-6, 1e15])
@pytest.mark.parametrize("mechanism", OFFLINE)
def test_marginals_are_released_or_refused_at_the_extremes(mechanism, epsilon):
    """Only a budget that is too small for a draw is refused."""
    schema, table = people(30)
    settings = needed(mechanism, schema)
    budget = {"epsilon": epsilon, "delta": 1e-9}
    try:
        release = cs.release(table, cs.marginals(schema, 1), mechanism=mechanism, **budget, **settings)
    except NoMechanism:
        release = None
    assert release is not None or (epsilon < 1 and mechanism in ("boosting", "dual-query"))
    assert release is None or release.guarantee.epsilon <= epsilon


def shape(rows, m, epsilon, schema=None, **settings):
    """The default projection for one question about m records."""
    schema = schema or records(1).schema
    asked = cs.sparse([list(range(m))]) if len(schema.domain) == 1 else cs.sparse(cs.marginals(schema, 1))
    problem = problem_of(schema, asked, budget=Budget(epsilon=epsilon), neighbours=None, rows=rows)
    proposed = propose(make("sparse-project", settings), problem)
    return proposed.plan.projection, proposed.claim


def test_coordinates_stop_where_no_record_is_shared():
    """At any ε 100 rows and m = 3 need no more than m·n/0.05 coordinates with one block, in steps of 1,024."""
    sizes = [shape(100, 3, epsilon, nonzeros=1)[0].size for epsilon in (1.0, 60.0, 600.0, 1e6, 1e15)]
    assert shape(100, 3, 1e15)[0].size < 8192  # the median of three, which noise no longer makes dear
    assert sizes[0] == 1024
    assert sizes[1] <= 4096
    assert sizes[2:] == [6 * 1024] * 3
    # Below that the rule is kept: the worst distortion m·n/T is less than the noise σ√m.
    for epsilon in (0.1, 1.0, 10.0, 60.0):
        assert 3 * 100 / shape(100, 3, epsilon)[0].size <= 2 * math.sqrt(2) / epsilon * math.sqrt(3)


def test_a_small_universe_needs_few_coordinates_however_many_rows_there_are():
    schema, _ = people(30)
    cells, m = schema.domain.cells, schema.domain.cells // 2
    projection, _ = shape(10**9, m, 1e6, schema=schema, nonzeros=1)
    assert projection.size <= 1024 * math.ceil(m * cells / 0.05 / 1024)
    assert shape(10**9, m, 1e6, nonzeros=1)[0].size == 1 << 22
    assert any("takes a while" in note for note in shape(10**9, m, 1e6)[1].notes)


def test_rows_of_a_small_universe_are_not_claimed_to_be_different():
    """n rows over |X| records have Σ count² ≥ n²/|X|: what is claimed of T coordinates grows with n."""
    schema, _ = people(30)
    _, claim = shape(10**6, 1, 1.0, schema=schema, size=4096)
    assert claim.expected_mean > 10**6 * math.sqrt(2 / schema.domain.cells / 4096)
    for epsilon in (1.0, 60.0, 1e3, 1e6):
        assert cs.plan(schema, cs.marginals(schema, 2), rows=100, epsilon=epsilon).best.mechanism != "sparse-project"
