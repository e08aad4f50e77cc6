"""Which expected error a plan compares: what was asked for, or what suits the workload."""

from __future__ import annotations

import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.mechanism import ProblemError

SCHEMA, TABLE = people()
FACTS = {"rows": 2000, "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    ("workload", "suits"),
    [
        (cs.marginals(SCHEMA, 2), "mean"),
        (cs.marginals(SCHEMA, 2) + cs.marginals(SCHEMA, 3), "mean"),
        (cs.marginals(SCHEMA, 1), "max"),
        (cs.marginals(SCHEMA, 2) + cs.sql(SCHEMA, ["ill"]), "max"),
        (cs.sql(SCHEMA, ["smoker AND ill"]), "max"),
        (cs.prefixes(SCHEMA, "age"), "max"),
    ],
)
def test_whole_tables_are_planned_by_their_mean_and_single_questions_by_their_worst(workload, suits):
    plan = cs.plan(SCHEMA, workload, **FACTS)
    assert plan.problem.objective == plan.to_json()["objective"] == suits
    for objective in ("max", "mean"):
        claims = cs.plan(SCHEMA, workload, objective=objective, **FACTS).claims
        errors = [getattr(claim, f"expected_{objective}") for claim in claims]
        assert errors == sorted(errors)
        assert len(claims) == len(plan.claims)


def test_a_release_takes_the_best_by_its_objective():
    workload = cs.marginals(SCHEMA, 3)
    for objective in ("max", "mean"):
        best = cs.plan(SCHEMA, workload, objective=objective, **FACTS).best.mechanism
        release = cs.release(TABLE, workload, objective=objective, epsilon=1.0, delta=1e-6)
        assert release.mechanism == best


def test_a_wide_table_goes_to_adaptive():
    columns = {f"c{i}": {"type": "integer", "min": 0, "max": 9 + 3 * i} for i in range(14)}
    wide = cs.Schema.from_dict({"name": "wide", "columns": columns, "neighbours": "add-remove"})
    for order in (2, 3):
        plan = cs.plan(wide, cs.marginals(wide, order), rows=50_000, epsilon=1.0, delta=1e-9)
        assert plan.best.mechanism == "adaptive"
        assert plan.best.memory < 2**32


def test_a_small_universe_goes_to_whichever_is_nearer_there():
    """Seven columns of 336,000 cells, as of Adult: the fit of a whole histogram is better from ε = 1 on, not at 0.1."""
    sizes = (2, 2, 5, 7, 15, 16, 10)
    columns = {
        f"c{i}": {"type": "categorical", "values": [str(value) for value in range(size)]}
        for i, size in enumerate(sizes)
    }
    small = cs.Schema.from_dict({"name": "small", "columns": columns, "neighbours": "add-remove"})
    for epsilon, expected in ((0.1, "adaptive"), (1.0, "projection")):
        plan = cs.plan(small, cs.marginals(small, 3), rows=48_813, epsilon=epsilon, delta=4e-10)
        assert plan.best.mechanism == expected


def test_other_words_are_refused():
    with pytest.raises(ProblemError, match='objective is "max" or "mean"'):
        cs.plan(SCHEMA, cs.marginals(SCHEMA, 2), objective="median", **FACTS)
