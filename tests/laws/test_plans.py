"""Plans: a release makes one, which says before anything is spent what it will do; every setting is explained."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.boosting import parameters
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.iterative_construction import promised_alpha
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import OFFLINE
from conspectus.mechanisms.settings import SettingError
from conspectus.mechanisms.total import SHARE
from conspectus.mechanisms.typical.expectations import ROWS_ASSUMED, UNKNOWN_ROWS
from conspectus.privacy.guarantee import Budget
from conspectus.releases.planning import problem_of

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


ITERATED = ("mwem", "iterative", "projection", "boosting")
OF_PAPERS = ("dual-query", "small-db", "net", "sparse-project", "stable-histogram")


def asked(name, schema):
    """A workload that the mechanism serves, and the settings that it cannot do without."""
    if name in ITERATED:
        return cs.marginals(schema, 2), {}
    return cs.prefixes(schema, "age"), {"net": cs.net(schema, [np.ones(schema.domain.cells)])} if name == "net" else {}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", [*ITERATED, *OF_PAPERS])
def test_a_release_plans_once(name, neighbours, monkeypatch):
    rows, budget = (300, {"epsilon": 1}) if name in ITERATED else (200, {"epsilon": 1, "delta": 1e-6})
    schema, table = people(rows, neighbours=neighbours)
    workload, settings = asked(name, schema)
    kind = OFFLINE[name].load()
    made, plan = [], kind.plan

    def counted(self, problem):
        made.append(plan(self, problem))
        return made[-1]

    monkeypatch.setattr(kind, "plan", counted)
    release = cs.release(table, workload, **budget, mechanism=name, **settings)
    assert len(made) == 1
    assert dataclasses.is_dataclass(made[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made[0].price = 0
    if name == "boosting":
        assert release.parameters["draws"] == list(made[0].sampling.draws)
        assert release.parameters["rates"] == [rate / (1 << 20) for rate in made[0].sampling.rates]
    if name == "projection":
        assert release.parameters["scale"] == made[0].law.scale


@pytest.mark.parametrize("name", OF_PAPERS)
def test_what_is_declared_is_what_happens(name):
    """A declared list is complete: the acts of the release are those that the plan declares."""
    schema, table = people(200)
    workload, settings = asked(name, schema)
    budget = Budget(epsilon=1.0, delta=1e-6)
    problem = problem_of(schema, workload, budget=budget, neighbours=None, rows=200)
    mechanism = make(name, settings)
    plan = mechanism.plan(problem)
    declared = mechanism.declare(problem, plan)
    release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism=name, **settings)
    assert (declared is None) == (name in ("dual-query", "small-db", "net"))
    assert declared is None or tuple(declared) == release.events
    assert mechanism.claim(problem, plan).citations == release.claim.citations


def test_the_parts_of_a_plan_are_not_planned_again(monkeypatch):
    """The search for the gap μ, and the solution for α, are the expensive parts of their plans."""
    schema, table = people(300)
    searched, solved = [], []
    sampling = parameters.plan_sampling
    monkeypatch.setattr(parameters, "plan_sampling", lambda *a, **k: searched.append(1) or sampling(*a, **k))
    home = "conspectus.mechanisms.iterative_construction.promised_alpha"
    monkeypatch.setattr(home, lambda *a, **more: solved.append(1) or promised_alpha(*a, **more))
    cs.release(table, cs.marginals(schema, 2), epsilon=1, mechanism="boosting")
    cs.release(table, cs.marginals(schema, 2), epsilon=1e5, mechanism="iterative", theorem=True)
    assert (len(searched), len(solved)) == (1, 1)


@pytest.mark.parametrize("name", [name for name in OFFLINE if name not in ("net", "top")])
def test_an_unknown_number_of_rows_is_the_same_number_to_all(name):
    """Claims are compared with one another: each takes a private number of rows to be the same one, and says so."""
    columns = {f"c{i}": {"type": "boolean"} for i in range(1, 4)} | {"c0": {"type": "integer", "min": 0, "max": 7}}
    schema = cs.Schema.from_dict({"name": "made", "neighbours": "add-remove", "columns": columns})
    workloads = [cs.marginals(schema, 2), cs.random_conjunctions(schema, 2, 40, 1), cs.ranges(schema, "c0")]
    served = 0
    for workload, delta in product(workloads, (0.0, 1e-6)):
        facts = {"mechanism": name, "epsilon": 1.0, "delta": delta}
        unknown, known = (cs.plan(schema, workload, rows=rows, **facts) for rows in (None, UNKNOWN_ROWS))
        assert unknown.refusals == known.refusals
        assert unknown.efforts == known.efforts
        for claim, declared in zip(unknown.claims, known.claims, strict=True):
            assert ROWS_ASSUMED in claim.notes
            assert ROWS_ASSUMED not in declared.notes
            assert dataclasses.replace(claim, notes=declared.notes) == declared
            served += 1
    assert served


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.1}])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_plan_shares_out_the_whole_budget_and_no_more(neighbours, budget):
    schema, _ = people(300, neighbours=neighbours)
    workload = cs.marginals(schema, 2)
    problem = problem_of(schema, workload, budget=Budget(**budget), neighbours=None, rows=300)
    left = problem.cap * (1 if neighbours == "replace" else 1 - SHARE)
    for settings in ({}, {"generator": "rows"}, {"history": False}):
        plan = make("boosting", settings).plan(problem)
        assert sum(plan.prices) + plan.sampling.price + plan.anchor + plan.certificate == left
    mwem, iterative = make("mwem", {}), make("iterative", {})
    plan = mwem.plan(problem)
    assert plan.rounds * (plan.select + plan.measure) + problem.cap * Fraction(mwem.certificate) == left
    assert iterative.plan(problem).price + problem.cap * Fraction(iterative.certificate) == left


@pytest.mark.parametrize("name", [*ITERATED, *OF_PAPERS])
def test_every_setting_is_explained_with_an_example(name):
    kind = OFFLINE[name].load()
    text, _, example = kind.__doc__.partition("Example:")
    assert ">>> " in example
    for setting in dataclasses.fields(kind):
        assert f"\n        {setting.name}: " in text.split("Args:")[1]
