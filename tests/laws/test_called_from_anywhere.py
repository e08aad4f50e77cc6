"""Every public method of a session, called after it was closed and from inside whatever a session calls.

None ends in an error of SQLite's, a deadlock, or a file that disagrees with its ledger. What there is to call is found
by looking, so that a method that is added later is tried, too.
"""

from __future__ import annotations

import inspect
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.curator.truth import Truth
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.sessions.oracle import Oracle
from conspectus.sessions.session import Session
from conspectus.sessions.store import SessionError

SCHEMA = cs.Schema.from_dict(
    {"name": "made", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}}
)
ROWS = pa.table({"ill": [n % 3 == 0 for n in range(600)], "age": [n % 10 for n in range(600)]})
LATER = "ill AND age = 7"  # a question that no other call asks
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ask": (LATER,),
    "measure": (LATER,),
    "above": ([LATER], 5.0),  # and a small share, as below
    "oracle": (0.4,),
    "query": ("SELECT COUNT(*) FROM made WHERE age = 7",),
    "quote": (LATER,),
    "__exit__": (None, None, None),
    "__call__": (LATER,),
}
"""What a method is called with; one that is not here is called with nothing."""
SPECIAL = ("__enter__", "__exit__", "__str__", "__call__")
FACTS = {"path", "budget", "currency", "questions", "expectation", "schema", "guarantee", "mechanism", "claim"}
"""What was agreed on when a session was opened, which it says at any time."""
AT_ANY_TIME = {"session": FACTS | {"__enter__", "__str__"}, "oracle": {"tolerance", "questions", "failure", "asked"}}


def called(kind: type, made: Any, name: str) -> Any:
    """Call a method, or read an attribute."""
    found = getattr(made, name)
    if not inspect.isroutine(getattr(kind, name, None)):
        return found
    return found(*ARGUMENTS.get(name, ()), **({"share": 0.001} if name == "above" else {}))


def public(kind: type, made: Any) -> list[str]:
    return [name for name in dir(made) if not name.startswith("_") or (name in SPECIAL and name in vars(kind))]


def opened(path: Path | None, mechanism: str | cs.mechanisms.Pmw = "laplace") -> Session:
    ledger = None
    if path is not None:
        ledger = Ledger.create(
            path.with_name("made.ledger"),
            budget=Budget(epsilon=40.0),
            neighbours="replace",
            unit="row",
            schema_fingerprint=SCHEMA.fingerprint,
            table="made",
        )
    table = cs.open_table(ROWS, SCHEMA)
    return cs.open_session(table, epsilon=40.0, questions=20, mechanism=mechanism, ledger=ledger, path=path)


def agree(path: Path) -> None:
    """File, ledger and a session that goes on from them say the same acts and the same spending."""
    ledger = Ledger.open(path.with_name("made.ledger"))
    with closing(sqlite3.connect(path)) as file:
        marks = [mark for (mark,) in file.execute("SELECT mark FROM acts ORDER BY position")]
        ended = file.execute("SELECT ended FROM standing").fetchone()[0]
    lines = ledger.entries_of(1)
    debits = [line for line in lines if line.event is not None]
    assert [line.label for line in debits] == marks
    assert (lines[-1].kind == "settle") == bool(ended)
    with cs.resume_session(path, cs.open_table(ROWS, SCHEMA)) as again:
        assert again.spent == pytest.approx(float(sum(line.price for line in debits)))
        assert again.remaining == pytest.approx(0 if ended else 40 - again.spent)
        assert len(again.release().workload) == again.asked
        if not ended:
            assert again.ask("age = 9").basis != "unguaranteed"


with opened(None) as _one:
    SESSION, ORACLE = public(Session, _one), public(Oracle, _one.oracle(0.4))
CALLS = [*(("session", name) for name in SESSION), *(("oracle", name) for name in ORACLE)]


def caller(session: Session) -> Callable[[str, str], Any]:
    oracle = session.oracle(0.4)
    return lambda whose, name: called(*((Session, session) if whose == "session" else (Oracle, oracle)), name)


def test_the_walk_sees_what_there_is() -> None:
    assert {"ask", "measure", "above", "oracle", "query", "quote", "release", "end", "close", "spent"} <= set(SESSION)
    assert {"__call__", "cost", "affordable"} <= set(ORACLE)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_after_it_was_closed(kept: bool, ended: bool, tmp_path: Path) -> None:
    session = opened(tmp_path / "made.session" if kept else None)
    call = caller(session)
    session.ask("ill")
    if ended:
        session.end()
    session.close()
    for whose, name in CALLS:
        if name in {"close", "__exit__"} | AT_ANY_TIME[whose]:
            call(whose, name)
        else:
            with pytest.raises(SessionError, match="closed"):
                call(whose, name)
    mean = cs.means(SCHEMA, "age")
    for asked in (session.ask, session.quote):
        with pytest.raises(SessionError, match="closed"):
            asked(mean)
    if kept:
        agree(tmp_path / "made.session")


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(("whose", "name"), [call for call in CALLS if call[1] not in AT_ANY_TIME[call[0]]])
def test_from_inside_the_questions_of_a_search(whose: str, name: str, thread: bool, tmp_path: Path) -> None:
    """They come from a generator that uses the session, or waits for a thread that does."""
    path = tmp_path / "made.session"
    session = opened(path, "pmw")
    call = caller(session)

    def questions() -> Iterator[str]:
        yield "age = 3 AND NOT ill AND age = 4"
        if thread:
            done: Future[Any] = Future()
            threading.Thread(target=lambda: done.set_result(call(whose, name)), daemon=True).start()
            done.result(60)  # a deadlock ends here
        else:
            call(whose, name)
        yield "age = 1"

    before = session.spent
    if name in ("close", "__exit__"):
        with pytest.raises(SessionError, match="this session is closed"):
            session.above(questions(), 30)
    elif name == "end":
        with pytest.raises(BudgetExceeded, match="this session was ended"):
            session.above(questions(), 30)
    else:
        found = session.above(questions(), 30, share=0.1)
        assert found.looked == 2
        assert found.cost == pytest.approx(4.0)
        assert session.spent >= before + 4.0
    session.close()
    agree(path)


@pytest.mark.parametrize("inside", ["ask", "measure", "above", "query", "__call__"])
def test_from_inside_an_act(inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar, or whatever else is told that counting goes on: nothing but facts, and the act goes on."""
    path = tmp_path / "made.session"
    session = opened(path)
    call, plain, said = caller(session), Truth.counts, {}

    def told(truth: Truth, *given: Any) -> Any:
        if not said:
            for whose, name in CALLS:
                said[whose, name] = ""
                try:
                    call(whose, name)
                except SessionError as problem:
                    said[whose, name] = str(problem)
        return plain(truth, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Truth, "counts", told)
        call("oracle" if inside == "__call__" else "session", inside)
    assert said
    for (whose, name), words in said.items():
        assert ("at work" in words) == (name not in AT_ANY_TIME[whose]), name
    assert session.ask(LATER).cost >= 0
    session.close()
    agree(path)


def test_what_was_learned_inside_a_search_stays_learned(tmp_path: Path) -> None:
    # Without marginals that tell the answer already.
    session = opened(tmp_path / "made.session", cs.mechanisms.Pmw(priming=0.0))
    bought = []

    def questions() -> Iterator[str]:
        bought.append(session.measure("ill AND age = 2"))
        yield "age = 1"

    with session:
        session.above(questions(), 30)
        learned = session._learned().state()
        assert learned[1]["learned"].num_rows == 1
        assert session.ask("ill AND age = 2").fraction == bought[0].fraction
        kept = session._store.state()
        assert kept is not None
        assert (kept[0], kept[1]["learned"].num_rows) == (learned[0], 1)
    agree(tmp_path / "made.session")


def test_a_search_among_threads_that_close() -> None:
    """The questions wait for another thread, which closes the session: no deadlock, and an error of ours."""
    session = opened(None)
    waiting, closed = threading.Event(), threading.Event()

    def questions() -> Iterator[str]:
        yield "age = 3 AND NOT ill AND age = 4"
        waiting.set()
        assert closed.wait(60)
        yield "age = 1"

    def close() -> None:
        assert waiting.wait(60)
        session.close()
        closed.set()

    other = threading.Thread(target=close)
    other.start()
    with pytest.raises(SessionError, match="closed"):
        session.above(questions(), 30)
    other.join()


def test_a_second_session_on_the_same_file_inside_a_search(tmp_path: Path) -> None:
    path = tmp_path / "made.session"
    session = opened(path)
    beside = cs.resume_session(path, cs.open_table(ROWS, SCHEMA))

    def questions() -> Iterator[str]:
        for age in (1, 2):
            beside.ask(f"age = {age} AND ill")
            yield f"age = {age} AND age = 0"

    with session, beside:
        found = session.above(questions(), 30)
        assert (found.found, found.looked, session.asked) == ((), 2, 2)
        assert session.spent == beside.spent
    agree(path)
