"""DualQuery, SmallDB, the net mechanism, SparseProject and stable keys: planned once, and explained by examples."""

from __future__ import annotations

import dataclasses
import doctest
import importlib

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.mechanism import Refusal
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.guarantee import Budget
from conspectus.releases.planning import problem_of

NAMES = ("dual-query", "small-db", "net", "sparse-project", "stable-histogram")


def asked(name, schema):
    settings = {"net": cs.net(schema, [np.ones(schema.domain.cells)])} if name == "net" else {}
    return cs.prefixes(schema, "age"), settings


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", NAMES)
def test_a_release_plans_once(name, neighbours, monkeypatch):
    schema, table = people(200, neighbours=neighbours)
    workload, settings = asked(name, schema)
    made, plan = [], OFFLINE[name].load().plan

    def counted(self, problem):
        made.append(plan(self, problem))
        return made[-1]

    monkeypatch.setattr(OFFLINE[name].load(), "plan", counted)
    cs.release(table, workload, epsilon=1, delta=1e-6, mechanism=name, **settings)
    assert len(made) == 1
    assert dataclasses.is_dataclass(made[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        made[0].price = 0


@pytest.mark.parametrize("name", NAMES)
def test_what_is_declared_is_what_happens(name):
    """A declared list is complete: the acts of the release are those that the plan declares."""
    schema, table = people(200)
    workload, settings = asked(name, schema)
    budget = Budget(epsilon=1.0, delta=1e-6)
    problem = problem_of(schema, workload, budget=budget, neighbours=None, rows=200)
    mechanism = make(name, settings)
    plan = mechanism.plan(problem)
    assert not isinstance(plan, Refusal)
    declared = mechanism.declare(problem, plan)
    release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism=name, **settings)
    assert (declared is None) == (name in ("dual-query", "small-db", "net"))
    assert declared is None or tuple(declared) == release.events
    assert mechanism.claim(problem, plan).citations == release.claim.citations


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_explained_and_the_example_runs(name):
    kind = OFFLINE[name].load()
    text, _, example = kind.__doc__.partition("Example:")
    assert example
    for setting in dataclasses.fields(kind):
        assert f"\n        {setting.name}: " in text
    module = importlib.import_module(kind.__module__)
    (test,) = [test for test in doctest.DocTestFinder(recurse=False).find(kind, name, module) if test.examples]
    said = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)
