"""Sessions: one answer to a question, for good; nothing spent twice; old copies and forks refused."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.made import people
from tests.standin import ENTRY, StandIn, StandInLoop

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.curator.watch import WatchOver
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.mechanism import NoMechanism, ProblemError
from conspectus.mechanisms.online_mechanism import Reply
from conspectus.mechanisms.registry import ONLINE
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import BudgetExceeded, Filter
from conspectus.privacy.events import ByRelation, Noise, ThresholdWatch
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy
from conspectus.queries.language.from_sql import NotAPredicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.sessions.account import debits
from conspectus.sessions.questions import canonical
from conspectus.sessions.store import SessionError, Store

LARGE = {"epsilon": 1280.0, "mechanism": "standin"}  # so much that a surprise is one, and a guess none
SURPRISE, GUESS = "region = 'north'", "smoker AND ill AND age >= 78"
SURPRISES = ["smoker", "NOT smoker", "ill", "NOT ill", "region = 'west'", "NOT smoker AND NOT ill", "NOT ill OR smoker"]


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ONLINE, "standin", ENTRY)


@pytest.fixture
def table():
    return people()[1]


def ledger_for(table, path: Path, budget: Budget) -> Ledger:
    return Ledger.create(
        path,
        budget=budget,
        neighbours="replace",
        unit=str(table.schema.unit),
        schema_fingerprint=table.schema.fingerprint,
        table=table.schema.name,
    )


def test_only_surprises_cost_a_measurement(table) -> None:
    with cs.open_session(table, **LARGE) as session:
        assert (session.spent, session.remaining, session.asked) == (0, 1280, 0)
        guessed = session.ask(GUESS)
        assert (guessed.basis, guessed.cost, guessed.repeated) == ("guessed", 128.0, False)  # the first watch
        other = session.ask("NOT smoker AND ill AND age >= 78")
        assert (other.basis, other.cost) == ("guessed", 0.0)
        measured = session.ask(SURPRISE)
        assert (measured.basis, measured.cost, session.spent, session.remaining) == ("measured", 128.0, 256, 1024)
        assert measured.low <= measured.fraction <= measured.high
        assert guessed.high - guessed.low > measured.high - measured.low
        assert session.currency == "epsilon"
        assert session.guarantee.epsilon == 1280
        assert "3 of 10,000 questions" in str(session)


def test_an_interval_at_another_confidence_is_of_the_same_answer(table) -> None:
    with cs.open_session(table, epsilon=10.0, mechanism="standin") as session:
        narrow = session.ask(SURPRISE, confidence=0.5)
        wide = session.ask(SURPRISE, confidence=0.999)
        assert (narrow.fraction, narrow.basis) == (wide.fraction, wide.basis)
        assert wide.high - wide.low > narrow.high - narrow.low
        with pytest.raises(ValueError, match="confidence"):
            session.ask(SURPRISE, confidence=1.0)


SAME = [
    "smoker AND NOT ill",
    "NOT (ill OR NOT smoker)",
    "ill = false AND smoker = TRUE",
    "(smoker AND NOT ill AND age < 30) OR (NOT ill AND smoker AND age >= 30)",
]


def test_a_question_with_the_same_meaning_is_the_same_question(table) -> None:
    schema = table.schema
    asked = [*SAME, cs.sql(schema, SAME[:1]), cs.conjunctions(schema, [{"ill": False, "smoker": True}])]
    cell = cs.marginal(schema, ["smoker", "ill"])[2]
    with cs.open_session(table, **LARGE) as session:
        answers = [session.ask(question) for question in [*asked, cell]]
        assert len({answer.fraction for answer in answers}) == 1
        assert [answer.repeated for answer in answers] == [False] + [True] * (len(answers) - 1)
        assert [answer.cost for answer in answers[1:]] == [0.0] * (len(answers) - 1)
        assert session.asked == 1


@pytest.mark.parametrize("k", [1, 2])
def test_a_small_parity_is_the_predicate_that_it_means(table, k: int) -> None:
    schema = table.schema
    text = {1: "NOT smoker", 2: "smoker AND ill OR NOT smoker AND NOT ill"}[k]
    parity = cs.parities(schema, k)[0]
    assert canonical(schema, parity).key == canonical(schema, text).key
    other = cs.parities(schema, 1)[1]
    assert canonical(schema, other).key != canonical(schema, parity).key


def test_what_is_no_single_question_of_this_table_is_refused_and_costs_nothing(table) -> None:
    other = people()[0]
    elsewhere = cs.Schema.from_dict({"name": "x", "columns": {"a": {"type": "boolean"}}})
    with cs.open_session(table, **LARGE) as session:
        for question in (cs.marginals(other, 1), Workload(other.domain, ()), 3):
            with pytest.raises(NotAPredicate):
                session.ask(question)
        with pytest.raises(WorkloadError):
            session.ask(cs.sql(elsewhere, ["a"]))
        with pytest.raises(LookupError):
            session.ask("height > 3")
        assert (session.asked, session.spent) == (0, 0)


def test_an_exhausted_session_says_so_and_goes_on(table) -> None:
    with cs.open_session(table, hits=2, **LARGE) as session:
        answers = [session.ask(question) for question in SURPRISES]
        assert [a.basis for a in answers].count("measured") == 2
        assert answers[-1].basis == "unguaranteed"
        assert (answers[-1].low, answers[-1].high, answers[-1].cost) == (None, None, 0.0)
        assert session.exhausted
        again = [session.ask(question) for question in SURPRISES]
        assert [a.fraction for a in again] == [a.fraction for a in answers]
        assert [a.basis for a in again] == [a.basis for a in answers]


def test_after_the_last_question_new_ones_are_unguaranteed_and_old_ones_repeated(table) -> None:
    with cs.open_session(table, questions=2, **LARGE) as session:
        first = [session.ask(question).fraction for question in (GUESS, SURPRISE)]
        spent = session.spent
        assert session.exhausted
        assert session.ask("region = 'east' AND age < 30").basis == "unguaranteed"
        assert [session.ask(question).fraction for question in (GUESS, SURPRISE)] == first
        assert session.spent == spent


def test_a_resumed_session_repeats_for_nothing_and_pays_for_a_new_watch(table, tmp_path: Path) -> None:
    path = tmp_path / "people.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        before = [session.ask(question) for question in (GUESS, SURPRISE, "smoker AND ill AND age < 30")]
        spent = session.spent
    assert before[-1].cost == 128.0  # the watch after the hit
    with cs.resume_session(path, table) as session:
        after = [session.ask(question) for question in (GUESS, SURPRISE, "smoker AND ill AND age < 30")]
        assert [(a.fraction, a.low, a.high) for a in after] == [(a.fraction, a.low, a.high) for a in before]
        assert session.spent == spent
        assert session.ask("NOT smoker AND ill AND age < 30").cost == 128.0
        assert session.ask("NOT smoker AND ill AND age >= 78").cost == 0.0
    own = Ledger.open(tmp_path / "people.session.ledger")
    assert sum(isinstance(entry.event, ThresholdWatch) for entry in own.entries()) == 3


def test_the_file_never_holds_a_threshold(table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    original = Curator.above_threshold

    def spied(self, *args, **kwargs):
        watch = original(self, *args, **kwargs)
        watch._threshold += 7_777_000_111_222_333_000  # a number that is found if it is anywhere, and no digest has it
        drawn.append(watch._threshold)
        return watch

    monkeypatch.setattr(Curator, "above_threshold", spied)
    path = tmp_path / "people.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        session.ask(GUESS)
    rows = [str(row) for row in sqlite3.connect(path).iterdump()]
    assert drawn
    assert not any(str(threshold)[:15] in row for threshold in drawn for row in rows)
    assert not any(
        threshold.to_bytes(8, order) in path.read_bytes() for threshold in drawn for order in ("big", "little")
    )


def test_an_old_copy_is_refused(table, tmp_path: Path) -> None:
    path, copy = tmp_path / "a.session", tmp_path / "b.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        session.ask(GUESS)
    shutil.copy(path, copy)
    with cs.resume_session(path, table) as session:
        session.ask(SURPRISE)
        spent = session.spent
    with pytest.raises(SessionError, match="old copy"):
        cs.resume_session(copy, table, ledger=f"{path}.ledger")
    shutil.copy(copy, path)  # a roll-back
    with pytest.raises(SessionError, match="old copy"):
        cs.resume_session(path, table)
    assert float(sum(e.price for e in Ledger.open(f"{path}.ledger").entries() if e.kind == "debit")) == spent


def test_of_two_copies_in_use_one_can_go_on(table, tmp_path: Path) -> None:
    path, copy = tmp_path / "a.session", tmp_path / "b.session"
    with cs.open_session(table, path=path, **LARGE):
        pass
    shutil.copy(path, copy)
    one, other = cs.resume_session(path, table), cs.resume_session(copy, table, ledger=f"{path}.ledger")
    one.ask(GUESS)
    for _ in range(2):  # the second time it finds its own intention, with an equal act of the other in the ledger
        with pytest.raises(SessionError, match=r"old copy|not those of its ledger"):
            other.ask(GUESS)
    other.close()
    with pytest.raises(SessionError):
        cs.resume_session(copy, table, ledger=f"{path}.ledger")
    assert one.ask(SURPRISE).basis == "measured"
    one.close()


def test_another_ledger_table_or_file_is_refused(table, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        session.ask(GUESS)
    with cs.open_session(table, path=tmp_path / "b.session", **LARGE):
        pass
    with pytest.raises(LedgerError, match="no such session"):
        cs.resume_session(path, table, ledger=tmp_path / "b.session.ledger")
    with pytest.raises(SessionError, match="number of rows"):
        cs.resume_session(path, people(1999)[1])
    with pytest.raises(SessionError, match="already exists"):
        cs.open_session(table, path=path, **LARGE)
    with pytest.raises(SessionError, match="there is no session"):
        cs.resume_session(tmp_path / "none", table)
    (tmp_path / "text").write_text("this is no database, and long enough to look like one" * 30)
    for wrong in ("text", "b.session.ledger"):
        with pytest.raises(SessionError, match="is not a session"):
            cs.resume_session(tmp_path / wrong, table)
    (tmp_path / "a.session.ledger").rename(tmp_path / "moved")
    with pytest.raises(LedgerError, match="no ledger"):
        cs.resume_session(path, table)
    assert cs.resume_session(path, table, ledger=tmp_path / "moved").asked == 1


def test_a_changed_file_is_noticed(table, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        session.ask(SURPRISE)
    whole = path.read_bytes()
    for change in (
        "DELETE FROM acts WHERE position = 1",
        "DELETE FROM acts",
        "UPDATE acts SET content = replace(content, '128', '1')",
        "UPDATE acts SET mark = 'f00'",
        "UPDATE acts SET content = '{}'",
        "UPDATE learned SET content = X'00'",
        "UPDATE terms SET content = replace(content, '1280.0', '1.0')",
        "UPDATE terms SET content = '[]'",
        "DELETE FROM terms",
    ):
        path.write_bytes(whole)
        with sqlite3.connect(path) as connection:
            connection.execute(change)
        connection.close()
        with pytest.raises(SessionError):
            cs.resume_session(path, table)
    path.write_bytes(whole)
    cs.resume_session(path, table).close()


def test_a_session_spends_from_the_ledger_it_is_given_and_gives_back(table, tmp_path: Path) -> None:
    ledger = ledger_for(table, tmp_path / "ledger", Budget(epsilon=2000.0))
    with cs.open_session(table, ledger=ledger, **LARGE) as session:
        session.ask(SURPRISE)
        assert ledger.spent == 1280
        with pytest.raises(BudgetExceeded):
            cs.open_session(table, ledger=tmp_path / "ledger", **LARGE)
    assert ledger.spent == 256  # in memory: closed is ended
    path = tmp_path / "a.session"
    with cs.open_session(table, ledger=ledger, path=path, **LARGE) as session:
        answer = session.ask(SURPRISE)
        left = cs.resume_session(path, table)
    assert ledger.spent == 1536  # in a file: closed is not ended
    left.end()
    left.end()
    assert ledger.spent == 512
    assert left.exhausted
    assert left.ask(SURPRISES[0]).basis == "unguaranteed"
    left.close()
    with cs.resume_session(path, table) as again:
        assert again.ask(SURPRISE).fraction == answer.fraction
        assert again.ask(SURPRISES[1]).basis == "unguaranteed"
    assert ledger.spent == 512


def test_a_refusal_leaves_nothing_behind(table, tmp_path: Path) -> None:
    refusals = {
        NoMechanism: {"epsilon": 1.0, "delta": 1e-6, "mechanism": "standin"},
        SettingError: {"epsilon": 1.0, "mechanism": "standin", "hit": 3},
        ProblemError: {"epsilon": 1.0, "mechanism": "standin", "questions": 0},
    }
    for kind, arguments in refusals.items():
        with pytest.raises(kind):
            cs.open_session(table, path=tmp_path / "a.session", **arguments)
    with pytest.raises(SettingError, match='did you mean "questions"'):
        cs.open_session(table, epsilon=1.0, mechanism="standin", question=3)
    with pytest.raises(NoMechanism, match="release"):
        cs.open_session(table, epsilon=1.0, mechanism="mwem")
    assert list(tmp_path.iterdir()) == []


class Failing(StandIn):
    """Dies while it is opened, after an act."""

    name = "standin"

    def open(self, curator, problem, plan):
        curator.above_threshold(Fraction(10), problem.cap / 10)
        raise LookupError("no luck")


def test_a_session_that_cannot_be_opened_frees_its_name_and_keeps_its_debits(table, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tests.standin.StandIn", Failing)
    ledger = ledger_for(table, tmp_path / "ledger", Budget(epsilon=2000.0))
    with pytest.raises(LookupError, match="no luck"):
        cs.open_session(table, ledger=ledger, path=tmp_path / "a.session", **LARGE)
    assert ledger.spent == 128
    assert {path.name for path in tmp_path.iterdir()} <= {"ledger", "ledger-journal"}
    with pytest.raises(LookupError, match="no luck"):
        cs.open_session(table, path=tmp_path / "a.session", **LARGE)
    with pytest.raises(SessionError, match="ledger of another session"):
        cs.open_session(table, path=tmp_path / "a.session", **LARGE)


def test_a_session_that_died_while_it_was_opened_says_so_and_gives_back(table, tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.session"
    ledger = ledger_for(table, tmp_path / "ledger", Budget(epsilon=2000.0))
    monkeypatch.setattr(Store, "learn", lambda self, state: os._exit(9))
    child = os.fork()
    if not child:
        cs.open_session(people()[1], ledger=tmp_path / "ledger", path=path, **LARGE)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert ledger.spent == 1280
    with pytest.raises(SessionError, match="died while it was being opened"):
        cs.resume_session(path, table)
    assert ledger.spent == 0


STEPS = ("intend", "debit", "keep")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_death_at_any_step_loses_budget_and_never_privacy(table, tmp_path, monkeypatch, step, moment) -> None:
    """A child asks a surprise and dies at one step; the file, the ledger and what was shown agree afterwards."""
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as session:
        known = session.ask(GUESS)
    shown, show = os.pipe()
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
        os.write(show, repr(mine.ask(SURPRISE).fraction).encode())
        os._exit(0)
    os.close(show)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert os.read(shown, 100) == b""  # nobody saw an answer that might not be kept
    os.close(shown)
    with cs.resume_session(path, table) as session:
        expected = {"intend": 0, "debit": 0 if moment == "before" else 1, "keep": 2}[step]
        assert session.spent == 128 * (1 + expected)
        assert session.ask(GUESS).fraction == known.fraction
        answer = session.ask(SURPRISE)
        assert answer.repeated == ((step, moment) == ("keep", "after"))
        ledger = Ledger.open(f"{path}.ledger")
        assert debits(Reservation(ledger, 1)) == session._store.acts()
        assert session.spent == float(sum(entry.price for entry in ledger.entries() if entry.kind == "debit"))


def test_an_interrupted_question_is_as_a_crash(table, tmp_path, monkeypatch) -> None:
    with cs.open_session(table, path=tmp_path / "a.session", **LARGE) as session:
        first = session.ask(GUESS)

        def interrupted(self, query):
            self.seen.append(1e9)  # what was half done must not stay
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(StandInLoop, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.ask(SURPRISE)
        assert session.ask(GUESS).fraction == first.fraction
        answer = session.ask(SURPRISE)
        assert (answer.basis, answer.cost) == ("measured", 256.0)  # a new watch, and the measurement
        assert session.release().answers[-1] == answer.fraction


@pytest.mark.parametrize("path", [None, "a.session"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interruption_at_any_step_is_survived_in_place(table, tmp_path, monkeypatch, step, moment, path) -> None:
    """Ctrl-C at each step of a surprise: the same session object goes on, and agrees with its file and its ledger."""
    file = None if path is None else tmp_path / path
    with cs.open_session(table, path=file, **LARGE) as session:
        known = session.ask(GUESS)
        owner = Reservation if step == "debit" else Store
        original = getattr(owner, step)

        def interrupted(self, *args, **kwargs):
            if moment == "after":
                original(self, *args, **kwargs)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, interrupted)
            if file is not None or step != "debit":
                with pytest.raises(KeyboardInterrupt):
                    session.ask(SURPRISE)
        assert session.ask(GUESS).fraction == known.fraction
        answer = session.ask(SURPRISE)
        assert answer.basis == "measured"
        assert session.ask(SURPRISES[0]).basis == "measured"
        acts = session._store.acts()
        assert tuple(event for _, event in acts) == session._account.filter.events
        if file is not None:
            assert debits(Reservation(Ledger.open(f"{file}.ledger"), 1)) == acts


def test_a_file_that_cannot_be_written_says_so(table, tmp_path: Path) -> None:
    with cs.open_session(table, path=tmp_path / "a.session", **LARGE) as session:
        session.ask(GUESS)
        session._store._connection.execute("PRAGMA query_only = 1")
        with pytest.raises(SessionError, match="cannot be written"):
            session.ask(SURPRISE)
        session._store._connection.execute("PRAGMA query_only = 0")
        assert session.ask(SURPRISE).basis == "measured"


def test_a_question_that_the_rule_refuses_keeps_the_watch(table, monkeypatch) -> None:
    with cs.open_session(table, **LARGE) as session:
        session.ask(GUESS)

        def refuses(self, query):
            raise LookupError("not this one")

        with monkeypatch.context() as patched:
            patched.setattr(StandInLoop, "ask", refuses)
            with pytest.raises(LookupError, match="not this one"):
                session.ask(SURPRISE)
        assert session.ask(SURPRISE).cost == 128.0


def test_a_fork_cannot_ask(table) -> None:
    session = cs.open_session(table, **LARGE)
    session.ask(GUESS)
    watch = session._loop.watch
    child = os.fork()
    if not child:
        code = 0
        try:
            session.ask(SURPRISE)
        except SessionError:
            code += 1
        try:
            watch.exceeds(canonical(table.schema, SURPRISE).workload, 0.0)
        except WatchOver:
            code += 2
        session.close()  # the parent's session must survive this
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert session.ask(SURPRISE).basis == "measured"
    session.close()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        session.ask(GUESS)


def test_a_release_of_a_session_is_a_release(table, tmp_path: Path) -> None:
    with cs.open_session(table, **LARGE) as session:
        answers = [session.ask(question) for question in (GUESS, SURPRISE, *SURPRISES, SURPRISE)]
        release = session.release()
    assert len(release.workload) == len(release.workload.blocks[0]) == 2 + len(SURPRISES)
    assert release.answers.tolist() == [answer.fraction for answer in answers[:-1]]
    release.save(tmp_path / "a.conspectus")
    loaded = cs.load(tmp_path / "a.conspectus")
    assert np.array_equal(loaded.answers, release.answers)
    assert loaded.mechanism == "standin"
    assert loaded.guarantee.epsilon == 1280
    assert len(loaded.synthetic(10)) == 10
    with cs.open_session(table, **LARGE) as session:
        assert len(session.release().workload) == 0


def test_threads_share_one_session(table, tmp_path: Path) -> None:
    asked = [f"age < {18 + 12 * i} AND region = '{r}'" for i in range(1, 6) for r in ("north", "east", "west")] * 4
    seen: dict[str, set[float]] = {question: set() for question in asked}
    costs: list[float] = []
    with cs.open_session(
        table, path=tmp_path / "a.session", epsilon=100.0, mechanism="standin", threshold=60
    ) as session:

        def analyst(number: int) -> None:
            for place in np.random.Generator(np.random.PCG64(number)).permutation(len(asked)):
                answer = session.ask(asked[place])
                seen[asked[place]].add(answer.fraction)
                costs.append(answer.cost)

        threads = [threading.Thread(target=analyst, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(costs) == 16 * len(asked)
        assert {len(answers) for answers in seen.values()} == {1}
        assert sum(costs) == pytest.approx(session.spent)
        assert 0 < session.spent <= 100
        assert session.asked == len(seen)


def test_two_processes_learn_from_one_another(table, tmp_path: Path) -> None:
    """Two sessions on one file: each has its own watch; what one measured the other repeats."""
    path = tmp_path / "a.session"
    with cs.open_session(table, path=path, **LARGE) as one, cs.resume_session(path, table) as other:
        first = one.ask(SURPRISES[0])
        assert other.ask(SURPRISES[0]).repeated
        assert other.ask(SURPRISES[0]).fraction == first.fraction
        for question in SURPRISES[1:]:
            other.ask(question)
        assert other.exhausted
        assert one.exhausted
        assert one.spent == other.spent <= 1280
        assert [one.ask(q).fraction for q in SURPRISES] == [other.ask(q).fraction for q in SURPRISES]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_everybody_learns_of_an_act_that_a_crash_left_open(table, tmp_path: Path, monkeypatch, moment) -> None:
    """One dies between its draw and its commit, a second settles that, and a third was open all the time."""
    path = tmp_path / "a.session"
    with (
        cs.open_session(table, path=path, **LARGE) as dying,
        cs.resume_session(path, table) as second,
        cs.resume_session(path, table) as third,
    ):
        for session in (third, second, dying):
            session.ask(GUESS)
        spent = third.spent
        owner, step = (Reservation, "debit") if moment == "before" else (Store, "keep")

        def interrupted(self, *args, **kwargs):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                dying.ask(SURPRISE)
        assert (second.spent > spent) == (moment == "after")
        assert (third.spent, third.remaining) == (second.spent, second.remaining)
        version = third._store.look().version
        assert (second._version, third._version) == (version, version)
        assert third.ask(SURPRISE).basis == "measured"
        assert third._version == third._store.look().version
        assert dying.spent == second.spent == third.spent > spent


def test_without_the_lock_the_file_itself_refuses_a_second_answer(table, tmp_path: Path, monkeypatch) -> None:
    """The twin without a lock: another process answers the question in between. The late answer is never shown."""
    monkeypatch.setattr(Store, "alone", lambda self: nullcontext())
    path = tmp_path / "a.session"
    one = cs.open_session(table, path=path, **LARGE)
    other = cs.resume_session(path, table)
    one.ask(GUESS)
    other.ask(GUESS.replace("smoker", "NOT smoker"))
    original = StandInLoop.guess

    def overtaken(self, query):
        monkeypatch.setattr(StandInLoop, "guess", original)
        other.ask(SURPRISE)
        return original(self, query)

    monkeypatch.setattr(StandInLoop, "guess", overtaken)
    with pytest.raises((sqlite3.IntegrityError, SessionError)):
        one.ask(SURPRISE)
    assert other.ask(SURPRISE).repeated
    for session in (one, other):
        session.close()


def test_acts_beyond_the_budget_are_refused_before_they_are_written(table, tmp_path: Path) -> None:
    with cs.open_session(table, path=tmp_path / "a.session", hits=1, **LARGE) as session:
        with pytest.raises(BudgetExceeded):
            session._curator.above_threshold(Fraction(1), Fraction(1281))
        assert (session.spent, len(session._store.acts())) == (0, 1)  # the number of rows alone


def test_a_ledger_refuses_an_act_from_behind(table, tmp_path: Path) -> None:
    ledger = ledger_for(table, tmp_path / "ledger", Budget(epsilon=1.0))
    bound = {"fingerprint": table.schema.fingerprint, "neighbours": "replace", "unit": str(table.schema.unit)}
    reservation = ledger.reserve(Budget(epsilon=1.0), "x", **bound)
    watch = ThresholdWatch(epsilon=ByRelation(replace=Fraction(1, 10), add_remove=Fraction(1, 10)))
    reservation.debit(watch, after=0, label="a")
    for wrong in (0, 2):
        with pytest.raises(StaleCopy):
            reservation.debit(watch, after=wrong)
    reservation.debit(watch, after=1)
    assert debits(reservation) == (("a", watch), ("", watch))


def test_margins_and_replies_are_checked() -> None:
    margin = Margin(offset=3.0, noises=((Noise("laplace", 2.0), 5), (Noise("gaussian", 1.5), 1)))
    assert Margin.from_json(margin.to_json()) == margin
    sums = Margin(offset=1.0, summed=(Noise("gaussian", 3.0), 16, 4))
    assert Margin.from_json(sums.to_json()) == sums
    assert sums.counts_at(0.95) == pytest.approx(1 + 1.96 * 3, abs=0.3)
    assert margin.counts_at(0.99) > margin.counts_at(0.9) > 3
    assert Margin(offset=2.5).counts_at(0.9) == 2.5
    whole = {"offset": 0, "noises": [], "summed": None, "grid": 1}
    wrongs = ({"offset": -1}, {"noises": [["laplace", 1.0, 0]]}, {"summed": ["gaussian", 1.0, 0, 1]}, {"grid": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError):
            Margin.from_json(whole | wrong)
    with pytest.raises(ValueError):
        Reply(count=1.0, basis="guessed", margin=None)


def test_a_filter_of_the_whole_budget_is_the_promise(table) -> None:
    with cs.open_session(table, epsilon=2.0, mechanism="standin") as session:
        assert session.guarantee == Filter.of(Budget(epsilon=2.0), "replace").guarantee("row")


def test_a_pure_session_under_a_concentrated_ledger_has_a_price_for_every_act(table, tmp_path: Path) -> None:
    """One threshold for several hits has a pure price alone: under such a ledger every hit has its own."""
    ledger = ledger_for(table, tmp_path / "ledger", Budget(epsilon=400.0, delta=1e-6))
    with cs.open_session(table, epsilon=20.0, ledger=ledger, priming=0.0, hits=4, threshold=0.02) as session:
        answers = [session.ask(question) for question in ("smoker", "ill", SURPRISE)]
        assert [answer.basis for answer in answers] == ["measured"] * 3
        assert session.release().parameters["one_threshold"] is False
        assert session.spent <= 20
    with cs.open_session(table, epsilon=20.0, priming=0.0, hits=4, threshold=0.02) as session:
        assert session.release().parameters["one_threshold"] is True
