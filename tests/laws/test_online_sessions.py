"""The online rules in sessions: resumed from files under every budget and relation; what priming bought is used."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.made import people, truth

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import ONLINE
from conspectus.releases.answer import ConfidenceError

GUESS = "smoker AND ill AND age >= 78"
SURPRISES = ["smoker", "ill", "region = 'west'", "NOT smoker AND NOT ill"]


@pytest.fixture
def table():
    return people()[1]


@pytest.mark.parametrize("budget", [{"epsilon": 5.0}, {"epsilon": 5.0, "delta": 1e-6}, {"rho": 0.5}])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_rule_goes_on_from_its_file(tmp_path: Path, budget, neighbours) -> None:
    """Each online rule, stopped and resumed: the same answers, one more watch, and never beyond the budget."""
    _, table = people(neighbours=neighbours)
    for name in sorted(ONLINE):
        path = tmp_path / name
        rows = {"rows": 2000} if neighbours == "add-remove" else {}
        try:
            session = cs.open_session(table, mechanism=name, questions=50, path=path, **budget, **rows)
        except NoMechanism:
            continue  # a rule may refuse this table; what it serves it must serve again
        with session:
            before = [session.ask(question) for question in SURPRISES]
            whole = session.spent + session.remaining
        with cs.resume_session(path, table) as session:
            assert [session.ask(question).fraction for question in SURPRISES] == [a.fraction for a in before]
            assert session.spent + session.remaining == pytest.approx(whole)
            # Fresh noise may take a small count below zero; 400 rows are twenty times its scale.
            assert -0.2 <= session.ask(GUESS).fraction <= 1.2
            assert session.spent <= whole * (1 + 1e-12)
            release = session.release()
        release.save(tmp_path / f"{name}.conspectus")
        loaded = cs.load(tmp_path / f"{name}.conspectus")
        assert np.array_equal(loaded.answers, release.answers)
        assert loaded.guarantee.neighbours == neighbours


def test_what_was_bought_in_advance_is_answered_without_a_watch(table) -> None:
    """The priming marginals answer their own questions, with their own noise, for nothing, and when all is spent."""
    with cs.open_session(table, epsilon=1.0, delta=1e-6, questions=50, mechanism="pmw") as session:
        spent = session.spent
        known = session.ask("smoker AND ill")
        assert (known.basis, known.cost, session.spent) == ("measured", 0.0, spent)
        wide = session.ask("smoker AND ill AND age < 30 AND region = 'west'")
        assert wide.cost > 0


def test_intervals_of_what_was_bought_hold(table) -> None:
    """At confidence 0.8, 40 sessions: more than 22 misses have a chance below 1e-6. A tenth of the interval fails."""
    question = cs.sql(table.schema, ["smoker AND ill"])
    (count,), rows = truth(table, question)
    misses, twin = 0, 0
    for _ in range(40):
        with cs.open_session(table, epsilon=1.0, delta=1e-6, questions=10, mechanism="pmw") as session:
            answer = session.ask(question, confidence=0.8)
        error, half = abs(answer.fraction - count / rows), (answer.high - answer.low) / 2
        misses += error > half
        twin += error > half / 10
    assert misses <= 22 < twin


@pytest.mark.parametrize("confidence", [5e-324, 1e-13, 1 - 1e-13, math.nextafter(1.0, 0.0)])
def test_a_confidence_next_to_0_or_1_is_refused_before_it_is_paid_for(confidence: float) -> None:
    """Rounding would leave nothing of it for the single noises; what is a little further away is answered."""
    _, table = people()
    with cs.open_session(table, epsilon=5.0, questions=50, mechanism="laplace") as session:
        for put in (session.ask, session.measure):
            with pytest.raises(ConfidenceError, match="1e-12 or more"):
                put(GUESS, confidence=confidence)
        assert (session.asked, session.spent) == (0, 0.0)
        narrow, wide = (session.ask(GUESS, confidence=each) for each in (1e-12, 1 - 1e-12))
        assert wide.low <= narrow.low <= narrow.high <= wide.high
