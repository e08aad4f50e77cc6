"""Theorem 6.1 with Theorem 6.6's generator: arbitrary functions, on universes small enough to try all tables."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from tests.made import people, truth

import conspectus as cs
from conspectus.curator.scores import ERROR_STEPS, ROUNDED
from conspectus.mechanisms.boosting import theorem as boosting_theorem
from conspectus.mechanisms.boosting.theorem import theorem_parameters
from conspectus.mechanisms.mechanism import NoMechanism, maximum_bound
from conspectus.privacy.guarantee import Budget
from conspectus.releases.planning import problem_of
from conspectus.synopses.rows import Rows

ALPHA = 1e-6
RUNS = 40
SCHEMA = cs.Schema.from_dict({"name": "tiny", "columns": {name: {"type": "boolean"} for name in "ab"}})


def tiny(rows: int):
    a, b = np.arange(rows) % 3 > 0, np.arange(rows) % 2 > 0
    return cs.open_table(pa.table({"a": a, "b": b}), SCHEMA)


def both(codes):
    return (codes[:, 0] & codes[:, 1]).sum() / max(len(codes), 1)


ASKED = {
    "modes": cs.mode_shares(SCHEMA),
    "many": cs.mode_shares(SCHEMA, given=[{}, {"a": True}]) + cs.independence_gaps(SCHEMA),
    "mixed": cs.mode_shares(SCHEMA) + cs.marginals(SCHEMA, 2),
    "own": cs.unsafe_functions(SCHEMA, {"both": (both, 1 / 6), "first": (lambda c: c[:, 0].mean(), 1 / 6)}),
}


@pytest.mark.parametrize(("asked", "epsilon", "delta"), [("modes", 600, 0.0), ("many", 2500, 1e-6), ("own", 600, 0.0)])
def test_functions_of_the_table_are_promised_and_the_promise_is_kept(asked, epsilon, delta):
    """Over 40 runs; a promise that holds with probability 0.95 fails this with probability ALPHA at most."""
    workload, table = ASKED[asked], tiny(6)
    values, rows = truth(table, workload)
    shares = values / (workload.grid * (workload.denominator or rows))
    wrong = 0
    for _ in range(RUNS):
        release = cs.release(table, workload, epsilon=epsilon, delta=delta, mechanism="boosting", theorem=True)
        bound = release.claim.bound
        assert release.parameters["generator"] == "brute"
        assert all(isinstance(member, Rows) for member in release.synopsis.members)
        assert 0 < bound.value < 1
        error = np.abs(release.answers - shares).max()
        wrong += error > bound.value
    assert wrong <= binom.ppf(1 - ALPHA, RUNS, 0.05)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_sample_has_more_noise_than_was_promised(asked, delta):
    """Every sample that can be drawn, on its own grid and at its own sensitivity, is within λ of the truth twice."""
    workload = ASKED[asked]
    problem = problem_of(SCHEMA, workload, budget=Budget(epsilon=30, delta=delta), neighbours=None, rows=6)
    found = theorem_parameters(problem, problem.cap)
    distinct = workload.distinct()
    for chosen in range(1, 2 ** len(distinct)):
        sample = distinct.take([i for i in range(len(distinct)) if chosen >> i & 1])
        law = problem.law(problem.sensitivity(sample), problem.cap / 2 / found.rounds)
        half = maximum_bound(law, len(sample), found.failure)
        # One table off by half and another off by half the other way, both rounded to the grid of errors.
        assert 2 * half / sample.grid * ERROR_STEPS + ROUNDED <= found.sampling.lam


def test_noise_of_a_wrong_grid_would_break_the_promise(monkeypatch):
    """The twin: functions charged as if a step of their grid were a row have 256 times less noise than they get."""
    problem = problem_of(SCHEMA, ASKED["modes"], budget=Budget(epsilon=30), neighbours=None, rows=6)
    right = boosting_theorem._most_moved
    monkeypatch.setattr(boosting_theorem, "_most_moved", lambda problem, draws, grid: right(problem, draws, 1))
    found = theorem_parameters(problem, problem.cap)
    law = problem.law(problem.sensitivity(problem.workload), problem.cap / 2 / found.rounds)
    assert 2 * maximum_bound(law, 2, found.failure) / 256 * ERROR_STEPS + ROUNDED > found.sampling.lam


def test_what_the_theorem_cannot_serve_is_said():
    schema, table = people(300)
    with pytest.raises(NoMechanism, match=r"Theorem 6\.6\) needs .*2,048 possible tables: leave theorem=True out"):
        cs.release(table, cs.mode_shares(schema), epsilon=1, mechanism="boosting", theorem=True)
    with pytest.raises(NoMechanism, match="promises an error of"):
        cs.release(tiny(6), ASKED["modes"], epsilon=1, mechanism="boosting", theorem=True)
    with pytest.raises(NoMechanism, match="replaced rows"):
        cs.release(
            tiny(6), ASKED["modes"], epsilon=3000, mechanism="boosting", theorem=True, neighbours="add-remove", rows=6
        )
    for kind in ("entropy", "syntheticizer"):
        with pytest.raises(NoMechanism, match="leave generator out, or take brute or rows"):
            cs.release(tiny(6), ASKED["modes"], epsilon=1, mechanism="boosting", generator=kind)


def test_a_promise_takes_the_generator_that_was_asked_for():
    problem = problem_of(SCHEMA, cs.marginals(SCHEMA, 2), budget=Budget(epsilon=3000), neighbours=None, rows=6)
    price = Fraction(3000)
    assert theorem_parameters(problem, price, "brute").generator == "brute"
    assert theorem_parameters(problem, price, "syntheticizer").generator == "syntheticizer"
    best = min(theorem_parameters(problem, price, kind).counts for kind in ("brute", "syntheticizer"))
    assert theorem_parameters(problem, price).counts == best
