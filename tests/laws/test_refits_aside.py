"""A refit that another thread does: until it is done the guess is the one before, and nothing else differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.made import people, truth

import conspectus as cs
from conspectus.sessions.at_home import put, refit_aside
from conspectus.sessions.questions import canonical
from conspectus.sessions.session import Session

SURPRISE, OTHER = "smoker AND ill", "NOT smoker AND ill"
PRIMED = {"priming": 0.25, "order": 1, "threshold": 0.02, "hits": 5}
Work = tuple[tuple[int, ...], int, Callable[[], None]]


@pytest.fixture
def table() -> cs.Table:
    return people()[1]


def opened(table: cs.Table, **settings: object) -> tuple[Session, list[Work]]:
    """A session with so large a budget that noise is nothing, and what it hands over."""
    handed: list[Work] = []
    session = cs.open_session(table, epsilon=2000.0, questions=100, mechanism=cs.mechanisms.Pmw(**settings))
    refit_aside(session, lambda columns, known, work: handed.append((columns, known, work)))
    return session, handed


def guess(session: Session, where: str) -> float:
    return session._learned().guess(canonical(session.schema, where).workload)


def test_the_guess_is_the_one_before_until_the_work_is_done(table: cs.Table) -> None:
    session, handed = opened(table, **PRIMED)
    before = guess(session, OTHER)
    first = session.ask(SURPRISE)
    assert first.basis == "measured"
    assert guess(session, OTHER) == before
    ((columns, known, work),) = handed
    assert known == 1
    assert {session.schema.domain.names[column] for column in columns} == {"smoker", "ill"}
    meanwhile = session.ask("region = 'north' AND age >= 42")  # compared with the guess before
    spent = session.spent
    work()
    assert guess(session, OTHER) != before
    assert abs(guess(session, SURPRISE) - first.count) < 2
    assert session.spent == spent
    for where, answer in ((SURPRISE, first), ("region = 'north' AND age >= 42", meanwhile)):
        again = session.ask(where)
        assert (again.fraction, again.repeated) == (answer.fraction, True)
        share = float(truth(table, cs.sql(session.schema, [where]))[0][0]) / 2000
        assert answer.low <= share <= answer.high
    session.close()


def test_the_same_is_learned_as_in_the_lock(table: cs.Table, tmp_path: Path) -> None:
    """The file has the measured answer before anything is refitted: whoever resumes it learns from that."""
    path = tmp_path / "live.session"
    handed: list[Work] = []
    mechanism = cs.mechanisms.Pmw(**PRIMED)
    with cs.open_session(table, epsilon=2000.0, questions=100, mechanism=mechanism, path=path) as session:
        refit_aside(session, lambda columns, known, work: handed.append((columns, known, work)))
        answer, spent = session.ask(SURPRISE), session.spent
        before = guess(session, OTHER)  # and here the process ends, with its refit not done
    with cs.resume_session(path, table) as resumed:
        assert resumed.ask(SURPRISE).fraction == answer.fraction
        assert resumed.spent == spent
        learned = guess(resumed, OTHER)
    handed[0][2]()  # of a session that is closed: it changes nothing but its own table
    assert session._closed
    assert learned != before
    fitted = opened(table, **PRIMED)
    fitted[0].ask(SURPRISE)
    fitted[1][0][2]()
    assert guess(fitted[0], OTHER) == pytest.approx(learned, abs=1)
    fitted[0].close()


def test_two_surprises_before_a_refit(table: cs.Table) -> None:
    session, handed = opened(table, **PRIMED)
    wheres = [SURPRISE, "NOT smoker AND age < 54"]
    answers = [session.ask(where) for where in wheres]
    assert [answer.basis for answer in answers] == ["measured"] * 2
    for *_, work in handed:
        work()
    for where, answer in zip(wheres, answers):
        assert guess(session, where) == pytest.approx(answer.count, abs=3)
    session.close()


@pytest.mark.parametrize("settings", [{"priming": 0.0}, {"theorem": True}])
def test_steps_of_the_theorem_are_never_handed_over(table: cs.Table, settings: dict[str, object]) -> None:
    session, handed = opened(table, **settings)
    before = guess(session, OTHER)
    assert session.ask(SURPRISE).basis == "measured"
    assert not handed
    assert guess(session, OTHER) != before
    session.close()


def test_a_question_that_was_read_before_is_put_as_ask_puts_it(table: cs.Table) -> None:
    session, _ = opened(table, **PRIMED)
    asked = canonical(session.schema, SURPRISE)
    first = put(session, asked, confidence=0.9)
    again = session.ask("ill AND smoker", confidence=0.9)
    assert (again.fraction, again.low, again.high, again.repeated) == (first.fraction, first.low, first.high, True)
    bought = put(session, canonical(session.schema, OTHER), confidence=0.95, outright=True)
    assert (bought.basis, bought.cost > 0) == ("measured", True)
    with pytest.raises(ValueError, match="confidence"):
        put(session, asked, confidence=1.0)
    session.close()


def test_a_session_that_goes_on_learns_all_at_once(table: cs.Table, tmp_path: Path) -> None:
    """After several surprises the guess of whoever resumes is the guess of whoever was there, to within the fit's
    tolerance; and there is one refit, however many surprises there were."""
    path = tmp_path / "live.session"
    mechanism = cs.mechanisms.Pmw(**PRIMED)
    surprises = (SURPRISE, "region = 'north' AND ill", "age >= 54 AND smoker")
    questions = (OTHER, "age >= 42 AND ill", "region = 'east' AND NOT smoker")
    with cs.open_session(table, epsilon=2000.0, questions=100, mechanism=mechanism, path=path) as session:
        bought = [session.measure(where) for where in surprises]
        there = [guess(session, where) for where in questions]
    with cs.resume_session(path, table) as resumed:
        assert [guess(resumed, where) for where in questions] == pytest.approx(there, abs=0.5)
        for where, answer in zip(surprises, bought):
            assert guess(resumed, where) == pytest.approx(answer.count, abs=2)
            assert resumed.ask(where).fraction == answer.fraction
        rule = resumed._learned()._guess._rule
        assert len(rule.measured) == len(surprises) + len(table.schema.columns)
        assert rule._fit.converged
