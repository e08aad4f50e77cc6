"""What a session says before it is opened, and whether it keeps it: questions that pass, widths, few questions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from tests.reference import noise_law
from tests.watching import share_that_passes

import conspectus as cs
from conspectus.mechanisms.choosing import make_online
from conspectus.mechanisms.false_alarms import chance_of_alarms, least_margin
from conspectus.mechanisms.online.widths import Primed
from conspectus.mechanisms.online_mechanism import SessionProblem, propose_online
from conspectus.mechanisms.registry import ONLINE
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.relation import Relation
from conspectus.queries.workload import Workload
from conspectus.sessions.forecast import USEFUL, ranked
from conspectus.sessions.opening import begin, session_problem


def coins(columns: int, rows: int):
    """A table of fair coins."""
    rng = np.random.Generator(np.random.PCG64(0))
    names = [f"c{i}" for i in range(columns)]
    schema = cs.Schema.from_dict({"name": "coins", "columns": {name: {"type": "boolean"} for name in names}})
    return cs.open_table(pa.table({name: rng.random(rows) < 0.5 for name in names}), schema)


SCHEMA = coins(12, 1).schema


def problem(rows: int, questions: int, *, relation: str = "replace", **budget: float) -> SessionProblem:
    facts = {"relation": Relation(relation), "rows": rows, "questions": questions, "ledgered": True}
    return SessionProblem(workload=Workload(SCHEMA.domain, ()), budget=Budget(**budget), **facts)


def seeded(table, questions: int, *, delta: float = 0.0, epsilon: float, **settings):
    """A session of `pmw` whose noise is the same in every run."""
    rule, budget = make_online("pmw", settings), Budget(epsilon=epsilon, delta=delta)
    asked = session_problem(table, budget, rule, questions=questions, neighbours=None, rows=None)
    return begin(table, asked, rule, sampler=UnsafeSeededSampler(1))


# --- false alarms


@pytest.mark.parametrize(
    ("hiding", "comparing", "margin"), [(2.0, 3.0, 12), (0.7, 5.0, 9), (4.0, 0.5, 3), (3.0, 3.0, -2)]
)
def test_false_alarms_are_those_of_the_definition(hiding, comparing, margin):
    """Summed over every value of both noises; with a new threshold after a hit the bound is above the exact chance."""
    thresholds, noise = (noise_law("laplace", scale, 400) for scale in (hiding, comparing))
    values = np.arange(-400, 401)
    each = np.array([noise[values >= margin + z].sum() for z in values])
    for questions, alarms in ((1, 1), (5, 1), (5, 3), (40, 2)):
        known = {"questions": questions, "alarms": alarms}
        one = chance_of_alarms(hiding, comparing, margin, one_threshold=True, **known)
        counted = [math.comb(questions, n) * each**n * (1 - each) ** (questions - n) for n in range(alarms)]
        assert one == pytest.approx(float(thresholds @ (1 - sum(counted))), abs=1e-9)
        restarted = chance_of_alarms(hiding, comparing, margin, one_threshold=False, **known)
        assert restarted >= _restarted(thresholds, each, questions, alarms) - 1e-9
        assert restarted <= 1


def _restarted(thresholds: np.ndarray, each: np.ndarray, questions: int, alarms: int) -> float:
    """The exact chance of so many hits where each has a threshold of its own."""
    ends = np.array([float(thresholds @ (each * (1 - each) ** (n - 1))) for n in range(1, questions + 1)])
    law = np.eye(1, questions + 1)[0]
    for _ in range(alarms):
        law = np.array([sum(law[n - m] * ends[m - 1] for m in range(1, n + 1)) for n in range(questions + 1)])
    return float(law.sum())


def test_no_smaller_margin_would_do():
    for one in (True, False):
        known = {"questions": 1_000, "alarms": 3, "one_threshold": one}
        margin = least_margin(100.0, 200.0, failure=0.02, **known)
        assert chance_of_alarms(100.0, 200.0, margin, **known) <= 0.02
        assert chance_of_alarms(100.0, 200.0, round(0.998 * margin), **known) > 0.02


# --- all that was declared is answered


GRID = list(product((21_574, 300_000), (0.5, 4.0), (0.0, 1e-6), (100, 100_000)))


def test_plans_say_how_many_sessions_answer_everything():
    """The watch in law, 20,000 runs with every guess as wrong as the plan allows for: 0.95 at least, and as was said.

    A run fails with a probability of at most 0.004, so its share has a deviation below 0.0005.
    """
    for rows, epsilon, delta, questions in GRID:
        found = propose_online(make_online("pmw", {}), problem(rows, questions, epsilon=epsilon, delta=delta))
        sparse, right = found.plan.sparse, found.plan.guess_error
        passed = share_that_passes(sparse, questions, right, runs=20_000, seed=questions)
        assert passed >= 0.95
        assert passed >= found.claim.answered - 0.003
        # A guess that is wrong by more than the threshold is a surprise, however many hits there are.
        wrong = share_that_passes(sparse, questions, 2 * sparse.threshold, runs=100, seed=1)
        assert wrong < 0.05


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.0), (0.5, 1e-6)])
def test_a_session_on_a_table_of_coins_answers_all_that_it_declared(epsilon, delta):
    """Fresh noise fails it with a probability below 0.004 where the guess is right: this noise is fixed."""
    table = coins(8, 300_000)
    asked = list(cs.random_conjunctions(table.schema, 4, count=300, public_seed=1))
    with seeded(table, 300, epsilon=epsilon, delta=delta) as session:
        assert session.claim.answered > 0.95
        bases = [session.ask(question).basis for question in asked]
    assert "unguaranteed" not in bases


def test_more_columns_than_marginals_hold_are_guessed_about_as_wrong_as_expected():
    """The mean error of 4-way guesses over what the model says: seven independent runs lay between 0.6 and 1.1. This
    noise is fixed."""
    table = coins(8, 300_000)
    asked = list(cs.random_conjunctions(table.schema, 4, count=200, public_seed=1))
    with seeded(table, 1_000, epsilon=2.0, order=3, priming=0.5) as session:
        plan = session._proposal.plan
        off = np.abs([session.ask(question).fraction - 1 / 16 for question in asked]) * 300_000
    expected = plan.priming.expected(300_000)
    assert 0.3 < off.mean() / (expected.deviation(4) * math.sqrt(2 / math.pi)) < 2
    assert expected.largest_error(10) < expected.largest_error(1_000)


def test_a_guess_of_all_columns_has_only_noise():
    exact = Primed.of(SCHEMA.domain, order=2, law=Noise("gaussian", 1e-3), rows=1_000.0)
    assert exact.deviation(1) == exact.deviation(2) == 0 < exact.deviation(3)


# --- few questions, small tables


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_auto_takes_the_narrowest_interval(relation, delta):
    for rows, questions in product((1_306, 50_000), (1, 20, 1_000, 100_000)):
        asked = problem(rows, questions, relation=relation, epsilon=1.0, delta=delta)
        proposals, refusals = ranked(asked, None)
        widths = [proposal.claim.expected_width for proposal in proposals]
        assert widths == sorted(widths)
        assert {item.mechanism for item in refusals} == (set() if delta else {"gaussian"})
        best = proposals[0].claim.mechanism
        assert best == ("gaussian" if delta else "laplace") or questions >= 1_000
        assert best == "pmw" or questions < 100_000


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("questions", [20, None])
def test_a_small_table_gets_answers_that_say_something(delta, questions):
    """1,306 rows at ε = 1: within 0.05 of the rows, declared or not; each interval misses with probability 0.05."""
    table = coins(6, 1_306)
    with cs.open_session(table, epsilon=1.0, delta=delta, questions=questions) as session:
        assert session.questions >= 20
        assert session.claim.expected_width <= USEFUL * 1_306
        answers = [session.ask(q) for q in cs.random_conjunctions(table.schema, 2, count=20, public_seed=2)]
        assert "answers within about ±0.0" in session.expectation
    assert all(answer.basis == "measured" for answer in answers)
    assert all(answer.high - answer.fraction <= 0.05 or answer.fraction < 0 for answer in answers)


def test_a_number_of_questions_that_was_declared_is_kept():
    table = coins(6, 1_306)
    with cs.open_session(table, epsilon=1.0, questions=9_999) as session:
        assert session.questions == 9_999
    with cs.open_session(table, epsilon=1.0, mechanism="laplace") as session:
        assert session.questions == 10_000
    with cs.open_session(coins(6, 1_000_000), epsilon=1.0) as session:
        assert session.questions == 10_000


def test_a_plan_of_a_session_is_what_opens_it():
    table = coins(8, 20_000)
    for questions in (20, 100_000):
        plan = cs.plan_session(table.schema, rows=20_000, epsilon=1.0, questions=questions)
        with cs.open_session(table, epsilon=1.0, questions=questions) as session:
            assert session.claim == plan.best
        said = plan.to_json()
        assert said["questions"] == questions
        assert said["claims"][0]["expected_width_counts"] == plan.best.expected_width


ODD = {
    "records": cs.open_records(["tea", "milk"]).schema,
    "pairs": cs.open_pairs(pa.table({"user": [1, 2], "item": ["a", "b"]}), user="user", item="item").schema,
    "one column": cs.Schema.from_dict({"name": "one", "columns": {"a": {"type": "boolean"}}}),
    "one value": cs.Schema.from_dict({"name": "same", "columns": {"a": {"type": "categorical", "values": ["x"]}}}),
    "a long column": cs.Schema.from_dict(
        {"name": "l", "columns": {"a": {"type": "integer", "min": 0, "max": 16_000_000}}}
    ),
    "long columns": cs.Schema.from_dict(
        {"name": "long", "columns": {name: {"type": "integer", "min": 0, "max": 1 << 20} for name in "abcde"}}
    ),
    "many columns": cs.Schema.from_dict(
        {"name": "wide", "columns": {f"c{place}": {"type": "boolean"} for place in range(300)}}
    ),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("mechanism", ["auto", *ONLINE])
def test_every_mechanism_plans_a_session_or_says_why_not(kind, mechanism):
    """No schema is a fault: one mechanism or more can serve it, the others refuse in a sentence."""
    for delta in (0.0, 1e-9):
        plan = cs.plan_session(ODD[kind], rows=1_000, epsilon=1.0, delta=delta, mechanism=mechanism, questions=50)
        assert plan.claims or mechanism != "auto"
        assert all(claim.expected_mean <= claim.expected_max for claim in plan.claims)
        assert all(claim.expected_mean > 0 for claim in plan.claims) or kind == "one value"
        assert all(refusal.reason for refusal in plan.refusals)


def test_settings_without_a_name_are_those_of_pmw():
    with cs.open_session(coins(6, 1_306), epsilon=1.0, questions=20, hits=2) as session:
        assert session.mechanism == "pmw"
    with pytest.raises(ValueError, match='pmw has no setting "hit", did you mean "hits"'):
        cs.open_session(coins(6, 1_306), epsilon=1.0, hit=2)
