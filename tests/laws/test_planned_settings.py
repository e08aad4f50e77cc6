"""A plan of one mechanism with its settings says what a release with the same words would, before anything is spent."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism, SettingError

SCHEMA = cs.Schema.from_dict({"name": "tiny", "columns": {name: {"type": "boolean"} for name in "ab"}})
TABLE = cs.open_table(pa.table({"a": [True, True, False, True, False, True], "b": [True] * 3 + [False] * 3}), SCHEMA)
BUDGET = {"epsilon": 3000, "delta": 1e-6, "mechanism": "boosting", "theorem": True}


def test_a_promise_is_seen_before_it_is_bought():
    for workload in (cs.marginals(SCHEMA, 2), cs.mode_shares(SCHEMA)):
        plan = cs.plan(SCHEMA, workload, rows=6, **BUDGET)
        assert [claim.mechanism for claim in plan.claims] == ["boosting"]
        assert plan.refusals == ()
        assert plan.best.bound.theorem.startswith("Dwork & Roth 2014, Theorem 6.1")
        assert cs.release(TABLE, workload, **BUDGET).claim == plan.best
    refused = cs.plan(SCHEMA, cs.marginals(SCHEMA, 2), rows=6, **BUDGET | {"epsilon": 1})
    assert "promises an error of" in refused.refusals[0].reason
    with pytest.raises(NoMechanism, match="promises an error of"):
        _ = refused.best


def test_settings_of_any_mechanism_are_planned_with():
    schema, _ = people(rows=20)
    workload = cs.marginals(schema, 2)
    asked = {"rows": 2000, "epsilon": 1, "delta": 1e-6, "mechanism": "mwem"}
    few, many = (cs.plan(schema, workload, **asked, rounds=rounds) for rounds in (2, 6))
    assert few.best.expected_max != many.best.expected_max


def test_words_that_no_plan_knows_are_answered_as_a_release_does():
    schema, table = people(rows=20)
    workload = cs.marginals(schema, 2)
    for call in (lambda **k: cs.plan(schema, workload, rows=20, **k), lambda **k: cs.release(table, workload, **k)):
        with pytest.raises(SettingError, match=r'takes no "theorem": it is a setting of .*boosting'):
            call(epsilon=1, theorem=True)
        with pytest.raises(SettingError, match='did you mean "theorem"'):
            call(epsilon=1, mechanism="boosting", theorm=True)
        with pytest.raises(NoMechanism, match='did you mean "boosting"'):
            call(epsilon=1, mechanism="bosting")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"generator": "entropy"}, "take brute or syntheticizer"),
        ({"generator": "rows"}, "take brute or syntheticizer"),
        ({"aggregate": "weighted"}, "is about the median"),
        ({"growth": 3.0}, "sets growth itself"),
        ({"selection": 0.9}, "sets selection itself"),
        ({"history": False, "ridge": 2.0}, "sets history and ridge itself"),
        ({"rounds": 2, "first": 3, "draws": 4}, "sets rounds, first and draws itself"),
    ],
)
def test_what_the_theorem_fixes_is_no_setting(setting, said):
    with pytest.raises(SettingError, match=said):
        cs.plan(SCHEMA, cs.marginals(SCHEMA, 2), rows=6, **BUDGET, **setting)


def test_what_the_theorem_leaves_open_can_be_set():
    free = {"certificate": 0.1, "public_seed": 3, "aggregate": "median"}
    for generator in ("brute", "syntheticizer"):
        release = cs.release(TABLE, cs.marginals(SCHEMA, 2), **BUDGET | {"epsilon": 1e5}, **free, generator=generator)
        assert release.parameters["generator"] == generator
        assert release.parameters["aggregate"] == "median"
