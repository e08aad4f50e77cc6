"""What a session said, its release says: every question and SELECT, by every mechanism, also when nothing is left."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import conspectus as cs
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import Noise
from conspectus.synopses.measured_sums import NoisySum
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.pooled_marginals import put_together
from conspectus.synopses.synopsis import Total

ROWS = 2_000
COLUMNS = {
    "ill": {"type": "boolean"},
    "smoker": {"type": "boolean", "missing": True},
    "age": {"type": "integer", "min": 0, "max": 9},
    "region": {"type": "categorical", "values": ["north", "south", "east"]},
}
QUESTIONS = [
    "smoker",
    "NOT smoker",
    "ill AND age >= 5",
    "ill AND smoker AND age >= 5 AND region = 'north'",
    "region = 'south' OR ill",
    "smoker IS NULL",
    "ill AND NOT smoker AND region <> 'east' AND age < 3",
    "ill OR (smoker AND age >= 5 AND region = 'north')",
    "age >= 0",
]
SELECTS = [
    "SELECT COUNT(*) AS v FROM made WHERE ill AND smoker",
    "SELECT COUNT(*) AS n, SUM(age) AS v FROM made WHERE ill",
    "SELECT AVG(age) AS v FROM made WHERE ill",
    "SELECT AVG(age) AS v FROM made WHERE ill AND smoker AND region = 'north'",
    "SELECT VARIANCE(age) AS v FROM made",
    "SELECT MEDIAN(age) AS v FROM made WHERE smoker",
    "SELECT RATE(ill) AS v FROM made WHERE smoker",
    "SELECT SHARE(ill) AS v FROM made",
    "SELECT RATE(smoker) AS r, COUNT(*) AS n, COUNT(*) FILTER (WHERE smoker) AS k FROM made WHERE ill AND age < 5",
    "SELECT region, COUNT(*) AS n, RATE(ill) AS v FROM made GROUP BY region",
]
MEANS = [("means", "age", "smoker"), ("sums", "age", "ill")]


def made(neighbours):
    draws = np.random.default_rng(3)
    ill = draws.random(ROWS) < 0.3
    smoker = [
        None if hole < 0.1 else bool(yes) for hole, yes in zip(draws.random(ROWS), ill ^ (draws.random(ROWS) < 0.2))
    ]
    rows = pa.table(
        {
            "ill": ill,
            "smoker": smoker,
            "age": draws.integers(0, 10, ROWS),
            "region": draws.choice(["north", "south", "east"], ROWS, p=[0.7, 0.2, 0.1]),
        }
    )
    schema = cs.Schema.from_dict({"name": "made", "neighbours": neighbours, "columns": COLUMNS})
    return schema, cs.open_table(rows, schema)


def answered(door, question):
    found = door.ask(question)
    return found.fraction, found.low, found.high, found.value, found.basis


def selected(door, select):
    lines = door.query(select).to_arrow().to_pylist()
    return [value for line in lines for value in line.values()]


def same(one, other, what):
    for mine, theirs in zip(one, other, strict=True):
        near = (
            mine == theirs
            if isinstance(mine, str | None) or isinstance(theirs, str | None)
            else (mine == pytest.approx(theirs, rel=1e-9, abs=1e-9))
        )
        assert near, (what, one, other)


PURE, BOTH = {"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}
SESSIONS = [
    ("pmw", PURE, {}),
    ("pmw", BOTH, {}),
    ("pmw", PURE, {"order": 1}),
    ("pmw", PURE, {"priming": 0.0}),
    ("pmw", PURE, {"threshold": 0.0}),
    ("median", PURE, {"databases": 50}),
    ("perceptron", BOTH, {}),
    ("laplace", PURE, {}),
    ("laplace", BOTH, {}),
    ("gaussian", BOTH, {}),
]


@pytest.mark.parametrize(
    ("neighbours", "questions"),
    [
        ("replace", 8),
        ("add-remove", 400),
        pytest.param("replace", 400, marks=pytest.mark.audit),
        pytest.param("add-remove", 8, marks=pytest.mark.audit),
    ],
)
@pytest.mark.parametrize(("mechanism", "budget", "settings"), SESSIONS)
def test_the_release_of_a_session_says_what_the_session_said(
    mechanism, budget, settings, questions, neighbours, tmp_path
):
    schema, table = made(neighbours)
    if neighbours == "add-remove":
        settings = {**settings, "rows": ROWS}
    with cs.open_session(table, **budget, questions=questions, mechanism=mechanism, **settings) as session:
        served, selects = [], []
        asked = [*QUESTIONS, *(getattr(cs, kind)(schema, column, where=where) for kind, column, where in MEANS)]
        for question in asked:
            try:
                session.ask(question)
            except ValueError:  # no guess is held and the budget is spent, or it takes no sums of values
                assert mechanism in ("laplace", "gaussian", "median")
            else:
                served.append(question)
            if question == QUESTIONS[3]:
                for bought in (QUESTIONS[0], QUESTIONS[3]):
                    try:
                        session.measure(bought)
                    except ValueError:
                        assert session.remaining < 0.5
        for select in SELECTS:
            try:
                session.query(select)
            except ValueError:
                assert mechanism in ("laplace", "gaussian", "median")
            else:
                selects.append(select)
        release = session.release()
        release.save(tmp_path / "kept.release")
        for kept in (release, cs.load(tmp_path / "kept.release")):
            for question in served:
                same(answered(kept, question), answered(session, question), question)
            for select in selects:
                same(selected(kept, select), selected(session, select), select)


def test_records_too(tmp_path):
    """Weights on listed records: what was asked of them, a release says the same."""
    records = [f"word {number % 7}" for number in range(500)]
    with cs.open_session(cs.open_records(records), epsilon=4.0, questions=6, mechanism="sparse-mw") as session:
        lists = [[f"word {number}", "nobody's"] for number in range(8)]
        asked = [cs.sparse([dict.fromkeys(words, 1.0)]) for words in lists]
        for question in asked:
            session.ask(question)
        session.measure(asked[0])
        release = session.release()
        release.save(tmp_path / "kept.release")
        for kept in (release, cs.load(tmp_path / "kept.release")):
            for question in asked:
                same(answered(kept, question), answered(session, question), question)


def test_what_marginals_tell_uses_up_no_question():
    """Sixty cells of a SELECT, and as many questions as one likes, leave all declared questions to the watch."""
    _, table = made("replace")
    with cs.open_session(table, epsilon=2.0, questions=20, mechanism="pmw", order=2) as session:
        quote = session.quote("SELECT AVG(age) AS v FROM made WHERE ill")
        assert (quote.cost, quote.questions, quote.counted, quote.left, quote.affordable) == (0.0, 10, 0, 20, True)
        session.query("SELECT AVG(age) AS v FROM made WHERE ill")
        for code in range(10):
            for region in ("north", "south", "east"):
                assert session.ask(f"age = {code} AND region = '{region}'").basis == "measured"
        assert (session.asked, session.counted, session.exhausted) == (40, 0, False)
        watched = "ill AND smoker AND age >= 5 AND region = 'north'"
        quote = session.quote(watched)
        assert (quote.counted, quote.left) == (1, 20)
        assert "1 new question (20 left)" in str(quote)
        session.ask(watched)
        assert session.counted == 1
        assert session.quote("ill AND smoker AND age >= 4 AND region = 'north'").left == 19
        assert "1 of 20 questions" in str(session)


def test_all_declared_questions_are_watched_and_what_marginals_tell_stays_measured(tmp_path):
    """After the last declared question: measured where marginals tell, unguaranteed where they do not."""
    _, table = made("replace")
    path = tmp_path / "live.session"
    watched = [f"ill AND smoker AND age >= {age} AND region = 'north'" for age in range(1, 10)]
    with cs.open_session(
        table, epsilon=20.0, questions=6, mechanism="pmw", order=2, threshold=0.5, path=path
    ) as session:
        session.ask("smoker")
        assert [session.ask(question).basis for question in watched] == ["guessed"] * 6 + ["unguaranteed"] * 3
        assert session.exhausted
        assert session.remaining > 0
        assert session.counted == 6
        before = session.ask("ill AND age >= 5")
        assert before.basis == "measured"
        assert session.quote("age >= 3").affordable
        assert not session.quote("ill AND smoker AND age < 2 AND region = 'south'").affordable
    with cs.resume_session(path, table) as session:  # another process counts the same
        assert (session.asked, session.counted, session.exhausted) == (11, 6, True)
        assert answered(session, "ill AND age >= 5") == answered(session.release(), "ill AND age >= 5")
        session.end()
        assert session.ask("age >= 7").basis == "measured"
        assert session.ask(watched[0]).basis == "guessed"


def test_fresh_noise_tells_what_its_answers_add_up_to_after_the_last():
    _, table = made("replace")
    with cs.open_session(table, epsilon=2.0, delta=1e-6, questions=2, mechanism="gaussian") as session:
        ill, _ = session.ask("ill"), session.ask("age >= 5")
        assert session.exhausted
        other = session.ask("NOT ill")
        assert (other.basis, other.cost) == ("measured", 0.0)
        assert (other.fraction, other.low, other.high) == pytest.approx((1 - ill.fraction, 1 - ill.high, 1 - ill.low))
        assert session.counted == 2
        with pytest.raises(BudgetExceeded, match="spent"):
            session.ask("ill AND age >= 5")


def width(answer):
    return answer.high - answer.low


@pytest.mark.parametrize("budget", [PURE, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}])
@pytest.mark.parametrize("questions", [60, 5000])
def test_what_is_bought_is_never_wider_than_what_was_known(budget, questions):
    _, table = made("replace")
    with cs.open_session(table, **budget, questions=questions, mechanism="pmw") as session:
        for question in ("smoker", "ill AND age >= 5", "region = 'south' OR ill", "age = 3"):
            known, quote = session.ask(question), session.quote(question, outright=True)
            bought = session.measure(question)
            assert width(bought) <= width(known) + 1e-12
            assert bought.cost == pytest.approx(quote.cost)
            assert (bought.cost > 0) == (width(bought) < width(known))
            assert bought.repeated == (bought.cost == 0)
            again = session.ask(question)
            assert (again.fraction, again.low, again.high) == (bought.fraction, bought.low, bought.high)
            same(answered(session.release(), question), answered(session, question), question)
        assert session.counted == 0


def test_nothing_is_sold_that_would_not_narrow_what_is_known():
    """Noise far wider than that of the marginals: the laws are public, and say so before anything is paid."""
    _, table = made("replace")
    with cs.open_session(table, epsilon=2.0, questions=60, mechanism="pmw", priming=0.999, order=1) as session:
        known, left = session.ask("smoker"), session.remaining
        quote = session.quote("smoker", outright=True)
        assert (quote.cost, str(quote).startswith("costs nothing")) == (0.0, True)
        bought = session.measure("smoker")
        assert (bought.fraction, bought.low, bought.high, bought.cost) == (known.fraction, known.low, known.high, 0.0)
        assert session.remaining == left
        assert session.measure("age < 2").basis == "measured"  # and what was never asked is told
        assert session.remaining == left


@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("scales", [(30.0, 30.0), (30.0, 8.0), (8.0, 30.0), (1.0, 0.3), (0.2, 0.2)])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_two_measurements_together_hold_as_often_as_they_say(kind, scales, confidence):
    """Of 4,000 draws no more miss than a binomial count does with probability 1e-6; and wide noise is not wasted."""
    draws, runs = np.random.default_rng(11), 4_000
    schema, _ = made("replace")
    workload = cs.marginals(schema, 2)
    query = cs.sql(schema, ["ill AND age >= 5"]).query(0)
    fresh, bought = (Noise(kind, scale) for scale in scales)

    def noise(law, size):
        if law.kind == "laplace":
            p = 1 - np.exp(-1 / law.scale)
            return draws.geometric(p, size) - draws.geometric(p, size)
        steps = np.arange(-math.ceil(12 * law.scale) - 1, math.ceil(12 * law.scale) + 2)
        chances = np.exp(-np.square(steps) / (2 * law.scale**2))
        return draws.choice(steps, size, p=chances / chances.sum())

    missed, total = 0, Total(value=float(ROWS), exact=True)
    held = NoisyAnswers(schema.domain, workload, np.zeros(len(workload)), (bought,), total).narrowest(query)
    weights = np.array(
        [
            NoisyAnswers(schema.domain, workload, unit, (bought,), total).narrowest(query).count - held.count
            for unit in np.eye(len(workload))
        ]
    )
    alone = min(held.margin(confidence), NoisySum(count=0.0, kind=kind, scale=scales[0], terms=1).margin(confidence))
    first, others = noise(fresh, runs), noise(bought, (runs, len(weights))) @ weights
    for own, moved in zip(first, others):
        mine = NoisySum(count=float(own), kind=kind, scale=scales[0], terms=1)
        both = put_together(mine, replace(held, count=float(moved)))
        margin = both.margin(confidence)
        missed += abs(both.count) > margin
    assert missed <= binom.isf(1e-6, runs, 1 - confidence)
    assert margin <= alone * (1.02 if confidence == 0.9 else 1.1)
    if min(scales) >= 8:  # and they are no wider than they need be
        assert missed >= binom.ppf(1e-6, runs, (1 - confidence) * 0.85)


def test_bought_answers_hold_as_often_as_they_say():
    """The same through sessions: at a confidence of 0.5 more than 66 misses in 90 have a probability below 1e-5."""
    _, table = made("replace")
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    true = float(np.mean((codes[:, 0] == 1) & (codes[:, 2] >= 5)))
    missed = 0
    for _ in range(90):
        with cs.open_session(table, epsilon=2.0, questions=60, mechanism="pmw", order=2) as session:
            session.ask("ill AND age >= 5")
            found = session.measure("ill AND age >= 5", confidence=0.5)
            missed += not found.low <= true <= found.high
    assert missed <= 66


def test_a_rate_is_the_quotient_of_counts_that_were_asked_for():
    """In a session whose noise is fresh: what was bought says it, nothing more is bought, and no count contradicts."""
    _, table = made("replace")
    rate = "SELECT RATE(ill) AS v FROM made WHERE smoker"
    with cs.open_session(table, epsilon=2.0, delta=1e-6, questions=60, mechanism="gaussian") as session:
        above = session.query("SELECT COUNT(*) AS n FROM made WHERE ill AND smoker").to_pandas().n[0]
        below = session.query("SELECT COUNT(*) AS n FROM made WHERE smoker").to_pandas().n[0]
        assert session.quote(rate).cost == 0
        spent = session.spent
        found = session.query(rate).to_pandas()
        assert session.spent == spent
        assert found.v[0] == pytest.approx(above / below, abs=1e-2)  # counts are printed whole
        assert found.v_low[0] <= found.v[0] <= found.v_high[0]
        beside = "SELECT RATE(ill) AS v, COUNT(*) AS n, COUNT(*) FILTER (WHERE ill) AS k FROM made WHERE age < 4"
        assert session.quote(beside).questions == 2
        line = session.query(beside).to_pandas()
        assert line.v[0] == pytest.approx(line.k[0] / line.n[0])


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_rates_of_known_counts_hold_as_often_as_they_say(mechanism):
    """At a confidence of 0.8 more than 28 misses in 50 have a probability below 1e-8."""
    _, table = made("replace")
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    ill, smoker = codes[:, 0] == 1, codes[:, 1] == 1
    true, missed = float((ill & smoker).sum() / smoker.sum()), 0
    for _ in range(50):
        with cs.open_session(table, epsilon=1.0, delta=1e-6, questions=20, mechanism=mechanism) as session:
            session.ask("ill AND smoker")
            session.ask("smoker")
            found = session.query("SELECT RATE(ill) AS v FROM made WHERE smoker", confidence=0.8).to_pandas()
            missed += not found.v_low[0] <= true <= found.v_high[0]
    assert missed <= 28
