"""Quotes: what a question costs is never more, and asking for a quote spends nothing and looks at nothing."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.online_mechanism import NoGuess
from conspectus.queries import formulas
from conspectus.queries.language.from_select import is_select
from conspectus.queries.language.from_sql import NotAPredicate

QUESTIONS = [
    "smoker",
    "smoker AND ill",
    "age < 42 OR region = 'north'",
    "NOT ill AND region IN ('east', 'west')",
    "smoker AND age >= 54 AND region = 'south'",
    "ill AND smoker",
    "age >= 66",
    "TRUE",
]
KINDS = [
    ("laplace", {"epsilon": 1.0}),
    ("gaussian", {"rho": 0.1}),
    ("pmw", {"epsilon": 1.0}),
    ("pmw", {"epsilon": 1.0, "delta": 1e-6}),
    ("median", {"epsilon": 2.0}),
    ("perceptron", {"epsilon": 2.0}),
]


@pytest.mark.parametrize(("mechanism", "budget"), KINDS, ids=[f"{name}-{len(kind)}" for name, kind in KINDS])
def test_a_question_never_costs_more_than_was_quoted(mechanism, budget) -> None:
    _, table = people()
    with cs.open_session(table, mechanism=mechanism, questions=12, **budget) as session:
        for question in QUESTIONS:
            before = session.spent
            quote = session.quote(question)
            assert session.spent == before
            answer = session.ask(question)
            spent = session.spent - before
            assert answer.cost <= quote.cost * (1 + 1e-12)
            assert spent <= quote.cost * (1 + 1e-12)
            assert quote.remaining == pytest.approx(session.remaining + spent)
            assert quote.repeated == int(answer.repeated)
            assert quote.questions == 1 - int(answer.repeated)
            again = session.quote(question)
            assert (again.cost, again.repeated) == (0.0, 1)
            assert str(again).startswith("costs nothing")


@pytest.mark.parametrize(
    "text",
    [
        'SELECT"region", COUNT(*) FROM people GROUP BY 1',
        "SELECT(COUNT(*)) FROM people",
        "select/**/count(*) from people",
        "-- how many\nSELECT COUNT(*) FROM people",
        "/* how many */ SELECT COUNT(*) FROM people",
        ";SELECT COUNT(*) FROM people",
        "FROM people SELECT COUNT(*)",
        "SELECT-COUNT(*) FROM people",
    ],
)
def test_a_select_is_quoted_however_it_begins(text) -> None:
    """What `query` answers has a price that can be asked for."""
    _, table = people()
    with cs.open_session(table, mechanism="laplace", epsilon=1.0, questions=12) as session:
        quote = session.quote(text)
        session.query(text)
        assert session.spent <= quote.cost * (1 + 1e-12)


@pytest.mark.parametrize("text", ["/*" * 100_000, "/**/" * 50_000 + "x", " ;(" * 50_000, "--" * 100_000, "from_x"])
def test_telling_a_select_takes_one_pass(text) -> None:
    assert not is_select(text)


def test_fresh_noise_costs_exactly_what_was_quoted_and_then_nothing_is_left() -> None:
    _, table = people()
    with cs.open_session(table, mechanism="laplace", epsilon=1.0, questions=2) as session:
        for question in QUESTIONS[:2]:
            quote = session.quote(question)
            assert quote.cost == session.ask(question).cost == pytest.approx(0.5)
            assert quote.affordable
        last = session.quote(QUESTIONS[2])
        assert (last.cost, last.affordable) == (0.0, False)


def test_bought_outright_costs_what_measure_costs() -> None:
    _, table = people()
    with cs.open_session(table, mechanism="pmw", epsilon=3.0, questions=50) as session:
        session.ask("smoker")
        quote = session.quote("smoker", outright=True)
        assert quote.questions == 1 - int(session.measure("smoker").repeated)
        assert session.quote("smoker", outright=True).cost == 0
        quote = session.quote("ill AND age < 30", outright=True)
        assert session.measure("ill AND age < 30").cost == quote.cost > 0


def test_quotes_do_not_depend_on_the_rows() -> None:
    """Two tables that could not differ more, with the same public facts: the same quotes."""
    schema, _ = people()
    said = []
    for value in (True, False):
        rows = {"region": ["north"] * 500, "age": [20] * 500, "smoker": [value] * 500, "ill": [value] * 500}
        with cs.open_session(cs.open_table(pa.table(rows), schema), mechanism="pmw", epsilon=1.0) as session:
            said.append([dataclasses.asdict(session.quote(question)) for question in QUESTIONS])
    assert said[0] == said[1]


def test_what_cannot_be_asked_cannot_be_quoted() -> None:
    _, table = people()
    with cs.open_session(table, mechanism="laplace", epsilon=1.0, questions=2) as session:
        with pytest.raises(NotAPredicate):
            session.quote("age")
        with pytest.raises(ValueError, match="cuts the bin"):
            session.quote("age < 40")
        assert session.quote("age < 40", snap=True).cost == pytest.approx(0.5)


RATES = (
    "SELECT COUNT(*) FILTER (WHERE smoker AND ill) / COUNT(*) FILTER (WHERE ill) AS a, "
    "COUNT(*) FILTER (WHERE region = 'north') / COUNT(*) FILTER (WHERE age > 41) AS b, "
    "COUNT(*) FILTER (WHERE smoker AND ill) / COUNT(*) FILTER (WHERE age > 41) AS c FROM people",
    "SELECT region, AVG(CASE WHEN ill THEN 1 ELSE 0 END) AS r, COUNT(*) AS n FROM people GROUP BY region",
    "SELECT SHARE(ill) AS s, COUNT_IF(ill) / COUNT_IF(smoker) AS r, AVG(age) AS m FROM people WHERE smoker",
)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(
    ("mechanism", "settings"), [("laplace", {}), ("gaussian", {"delta": 1e-6}), ("pmw", {"priming": 0.0}), ("pmw", {})]
)
def test_no_select_costs_or_asks_more_than_its_quote(mechanism, settings, neighbours):
    """Whatever is known beforehand, and of several rates in one SELECT, whose counts tell each other."""
    _, table = people(400, neighbours=neighbours)
    for first in range(len(RATES) if neighbours == "replace" else 1):
        with cs.open_session(table, epsilon=20.0, questions=200, mechanism=mechanism, **settings) as session:
            for select in (*RATES[first:], *RATES[:first]):
                quote, asked, left = session.quote(select), session.asked, session.remaining
                found = session.query(select)
                assert found.cost <= quote.cost * (1 + 1e-9)
                assert left - session.remaining <= quote.cost * (1 + 1e-9)
                assert session.asked - asked <= quote.questions
                again = session.quote(select)
                assert (again.questions, again.cost) == (0, 0.0)


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
def test_a_select_that_fresh_noise_cannot_pay_for_is_refused_whole(mechanism, delta):
    _, table = people(400)
    for select in RATES:
        with cs.open_session(table, epsilon=1.0, delta=delta, questions=3, mechanism=mechanism) as session:
            left = session.remaining
            assert not session.quote(select).affordable
            with pytest.raises(NoGuess):
                session.query(select)
            assert (session.remaining, session.asked) == (left, 0)
            assert session.ask("ill").basis == "measured"


def test_a_select_that_is_too_much_work_is_refused_before_anything_is_spent(monkeypatch):
    """It is tried out and then asked: wherever in that its limit comes, it is refused whole, or answered whole."""
    _, table = people(400)
    hard = "(smoker OR age > 41) AND (ill OR NOT (smoker AND region = 'north')) AND (age < 30 OR region <> 'east')"
    select = f"SELECT region, COUNT(*) AS n, COUNT_IF(ill) / COUNT_IF(smoker) AS r FROM people WHERE {hard} GROUP BY 1"
    answered, limit = [], 100
    while not answered:
        limit += limit // 20
        monkeypatch.setattr(formulas, "MOST_WORK_TOGETHER", limit)
        with cs.open_session(table, epsilon=20.0, questions=200, mechanism="laplace") as session:
            try:
                answered.append(session.query(select))
            except formulas.TooManyBoxes:
                assert (session.spent, session.asked) == (0, 0)
    assert limit > 2_000
