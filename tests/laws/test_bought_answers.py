"""Answers that are bought: fresh noise for every question of a session, and one answer outright. Paid before drawn."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.made import people, truth
from tests.standin import ENTRY

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.mechanisms.choosing import make_online
from conspectus.mechanisms.online_mechanism import NoGuess, SessionProblem
from conspectus.mechanisms.registry import ONLINE
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.workload import Workload
from conspectus.sessions.account import debits
from conspectus.sessions.store import SessionError, Store

LARGE = {"epsilon": 1280.0, "mechanism": "standin"}  # so much that a surprise is one, and a guess none
GUESS = "smoker AND ill AND age >= 78"
FRESH = ("laplace", "gaussian")


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)


@pytest.fixture
def table():
    return people()[1]


# --- the laws of all answers together, on neighbouring tables


class Scales(UnsafeSeededSampler):
    """Remembers the scale of every noise that it draws."""

    def __init__(self) -> None:
        super().__init__(1)
        self.drawn: list[tuple[str, float]] = []

    def discrete_laplace(self, count: int, scale: float):
        self.drawn += [("laplace", scale)] * count
        return super().discrete_laplace(count, scale)

    def discrete_gaussian(self, count: int, sigma: float):
        self.drawn += [("gaussian", sigma)] * count
        return super().discrete_gaussian(count, sigma)


class WholeBudgetEach(Curator):
    """Broken on purpose: each question is measured as if it were the only one."""

    def measure(self, what, law):
        return super().measure(what, Noise(law.kind, law.scale / 8))


def loss(kind: type[Curator], name: str, neighbours: Neighbours) -> tuple[Fraction, Fraction]:
    """What eight answers lose, by the noise that was drawn, if one person moves each by one; and the budget."""
    schema, table = people(rows=60, neighbours=str(neighbours))
    budget = Budget(epsilon=2.0) if name == "laplace" else Budget(rho=0.5)
    problem = SessionProblem(
        workload=Workload(schema.domain, ()), budget=budget, relation=Relation(neighbours), rows=60, questions=8
    )
    sampler, allowance = Scales(), Filter(problem.currency, 1000 * problem.cap, neighbours)
    curator = kind(table, allowance, neighbours=neighbours, sampler=sampler)
    mechanism = make_online(name, {})
    run = mechanism.open(curator, problem, mechanism.plan(problem))
    for i in range(8):
        run.ask(cs.sql(schema, [f"age < {30 + 12 * (i % 4)} AND {'NOT ' * (i // 4)}smoker"]))
    scales = [Fraction(scale) for law, scale in sampler.drawn if law == name]
    assert len(scales) == 8 + (neighbours is Neighbours.ADD_REMOVE)
    # P(x + z = y)/P(x' + z = y) = exp((|y − x'| − |y − x|)/b) at most e^(1/b); discrete Gaussian noise has 1/2σ² of ρ.
    each = (1 / b for b in scales) if name == "laplace" else (1 / (2 * b * b) for b in scales)
    return sum(each, Fraction(0)), problem.cap


@pytest.mark.parametrize("name", FRESH)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_all_answers_together_keep_the_budget_and_a_twin_does_not(name, neighbours):
    lost, allowed = loss(Curator, name, neighbours)
    assert 0.97 * allowed < lost <= allowed, "what was drawn is what was paid for, and no more noise than that"
    assert loss(WholeBudgetEach, name, neighbours)[0] > allowed


@pytest.mark.parametrize("name", FRESH)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_declared_question_is_answered_and_the_next_one_is_refused(name, neighbours):
    schema, table = people(neighbours=neighbours)
    asked = list(cs.random_conjunctions(schema, 2, count=13, public_seed=1))
    exact, rows = truth(table, sum(asked[1:], asked[0]))
    with cs.open_session(table, epsilon=1.0, delta=1e-6, questions=12, mechanism=name) as session:
        answers = [session.ask(question) for question in asked[:12]]
        assert [answer.basis for answer in answers] == ["measured"] * 12
        assert session.remaining < 1e-9
        assert session.exhausted
        # At 95 % each; more than 6 misses of 12 have a chance of 5e-7.
        assert sum(not a.low <= t / rows <= a.high for a, t in zip(answers, exact)) <= 6
        spent = session.spent
        for act in (session.ask, session.measure):
            with pytest.raises(BudgetExceeded):
                act(asked[12])
        with pytest.raises(NoGuess, match="holds no guess"):
            session.ask(asked[12])
        again = session.ask(asked[3])
        assert (again.repeated, again.fraction, session.spent) == (True, answers[3].fraction, spent)
        release = session.release()
    assert release.ask(asked[3]).fraction == pytest.approx(answers[3].fraction)
    assert release.answers == pytest.approx([answer.fraction for answer in answers], abs=0.2)


def test_many_processes_with_one_question_each_cost_no_more_than_one(table, tmp_path: Path) -> None:
    path, asked = tmp_path / "a.session", list(cs.random_conjunctions(table.schema, 2, count=6, public_seed=1))
    cs.open_session(table, epsilon=1.0, questions=6, path=path, mechanism="laplace").close()
    for question in asked:
        with cs.resume_session(path, table) as session:
            assert session.ask(question).basis == "measured"
            assert session.mechanism == "laplace"
    with cs.resume_session(path, table) as session:
        assert session.spent == pytest.approx(1.0)
        assert [session.ask(question).repeated for question in asked] == [True] * 6


# --- one answer outright


def test_a_guess_is_replaced_by_what_was_bought_and_that_stays(table, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        guessed = session.ask(GUESS)
        assert guessed.basis == "guessed"
        spent, asked = session.spent, session.asked
        bought = session.measure(GUESS)
        assert (bought.basis, bought.repeated, bought.cost) == ("measured", False, 128.0)
        assert (session.spent, session.asked) == (spent + 128, asked)
        for again in (session.measure("age >= 78 AND ill AND smoker"), session.ask(GUESS)):
            assert (again.fraction, again.repeated, again.cost) == (bought.fraction, True, 0.0)
        new = session.measure("smoker")
        assert (new.basis, session.asked) == ("measured", asked + 1)
    with cs.resume_session(path, table) as session:
        assert session.ask(GUESS).fraction == bought.fraction
        assert session.measure("smoker").repeated
        ledger = Ledger.open(f"{path}.ledger")
        assert session._store.acts() == debits(Reservation(ledger, 1))
        assert float(ledger.spent) == session.spent + session.remaining
        assert session.release().answers == pytest.approx([bought.fraction, new.fraction])


def test_what_cannot_be_paid_for_is_refused_and_changes_nothing(table) -> None:
    with cs.open_session(table, hits=1, **LARGE) as session:
        session.measure("smoker")
        session.measure("ill")
        assert session.remaining < 1e-9
        with pytest.raises(BudgetExceeded):
            session.measure(GUESS)
        assert session.asked == 2
        assert session.ask(GUESS).basis == "unguaranteed"
        session.end()
        with pytest.raises(BudgetExceeded, match="ended"):
            session.measure("NOT ill")
    with pytest.raises(SessionError, match="closed"):
        session.measure("ill")


@pytest.mark.parametrize("name", ["pmw", "perceptron", "median"])
def test_the_guess_learns_from_what_was_bought(table, name) -> None:
    """At ε = 200 the noise is a few rows: a bought answer is the truth, and the guess comes nearer to it."""
    (count,), rows = truth(table, cs.sql(table.schema, ["smoker"]))
    settings = {"priming": 0.0} if name == "pmw" else {}
    with cs.open_session(table, epsilon=200.0, questions=50, mechanism=name, **settings) as session:
        before = session._loop.guess(cs.sql(table.schema, ["smoker"]))
        answer = session.measure("smoker")
        after = session._loop.guess(cs.sql(table.schema, ["smoker"]))
    assert abs(answer.count - count) < 40
    assert abs(after - count) < abs(before - count)
    assert rows == 2000


@pytest.mark.parametrize("step", ["intend", "debit", "keep"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_death_while_an_answer_is_bought_loses_budget_and_never_privacy(table, tmp_path, step, moment) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        guessed = session.ask(GUESS)
    child = os.fork()
    if not child:
        mine = cs.resume_session(path, people()[1])
        owner = Reservation if step == "debit" else Store
        original = getattr(owner, step)

        def deadly(self, *args, **kwargs):
            if moment == "before":
                os._exit(9)
            original(self, *args, **kwargs)
            os._exit(9)

        setattr(owner, step, deadly)
        mine.measure(GUESS)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with cs.resume_session(path, table) as session:
        paid = (step, moment) in (("debit", "after"), ("keep", "before"), ("keep", "after"))
        assert session.spent == 128 * (1 + paid)
        kept = session.ask(GUESS)
        assert kept.repeated
        assert (kept.fraction == guessed.fraction) == ((step, moment) != ("keep", "after"))


def test_old_sessions_buy_answers_too(tmp_path: Path) -> None:
    """A session that version 0.1 wrote goes on with the marginals that it bought then."""
    from tests.laws.test_old_files import copied
    from tests.laws.test_old_files import table as old_table

    path, _ = copied(tmp_path, "pmw.session", "pmw.session.ledger")
    with cs.resume_session(path, old_table(), ledger=tmp_path / "pmw.session.ledger") as session:
        left = session.remaining
        assert session._proposal.mechanism.priming == 0.5
        assert np.isfinite(session._loop.guess(cs.marginals(session.schema, 1)[0]))
        assert left >= 0
