"""Sessions on resuming: links share one lock, changed terms are refused, and what is left is told truly."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made import people

import conspectus as cs
from conspectus.curator.curator import Curator
from conspectus.data.sources import Table
from conspectus.privacy.accounting import rho_of
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger, LedgerError
from conspectus.privacy.relation import Neighbours
from conspectus.sessions.session_terms import Terms
from conspectus.sessions.store import SessionError

FAR = "smoker AND ill AND age >= 78"


@pytest.fixture
def table():
    return people()[1]


def test_a_link_to_a_session_shares_its_lock(table, tmp_path: Path) -> None:
    path, link = tmp_path / "a.session", tmp_path / "link.session"
    with cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron") as session:
        link.symlink_to(path)
        with cs.resume_session(link, table) as other:
            assert other.path == session.path
            assert session.ask("smoker").fraction == other.ask("smoker").fraction
    assert not (tmp_path / "link.session.lock").exists()


def _by_another_name(link: Path, table: Table, said) -> None:
    try:
        with cs.resume_session(link, table) as other:
            said.put(str(other.ask("smoker").fraction))
    except SessionError as refused:
        said.put(str(refused))


def test_a_hard_link_to_a_session_is_refused_in_every_process(table, tmp_path: Path) -> None:
    """The write-ahead log lies under one name: whoever came by the other would answer from a file without it."""
    path, link = tmp_path / "a.session", tmp_path / "link.session"
    with cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron") as session:
        first = session.ask("smoker").fraction
        link.hardlink_to(path)
        fork = multiprocessing.get_context("fork")
        said: multiprocessing.Queue[str] = fork.Queue()
        child = fork.Process(target=_by_another_name, args=(link, table, said))
        child.start()
        assert "2 names (hard links)" in said.get(timeout=60)
        child.join(timeout=60)
        assert not (tmp_path / "link.session-wal").exists()
        with pytest.raises(SessionError, match="hard links"):
            session.ask("ill")
        link.unlink()
        assert session.ask("smoker").fraction == first
        child = fork.Process(target=_by_another_name, args=(path, table, said))
        child.start()
        assert said.get(timeout=60) == str(first)
        child.join(timeout=60)


def test_a_session_whose_file_was_replaced_goes_no_further(table, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron") as session:
        session.ask("smoker")
        path.rename(tmp_path / "moved.session")
        with pytest.raises(SessionError, match="move it back"):
            session.ask("ill")
        path.write_bytes(b"")
        with pytest.raises(SessionError, match="not the file any more"):
            session.ask("ill")
        (tmp_path / "moved.session").replace(path)
        session.ask("ill")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("budget", '"epsilon": 2.0', '"epsilon": 1.5'),
        ("larger budget", '"epsilon": 2.0', '"epsilon": 20.0'),
        ("delta", '"delta": 0.0', '"delta": 0.1'),
        ("neighbours", '"neighbours": "replace"', '"neighbours": "add-remove"'),
        ("unit", '"unit": "row"', '"unit": "person"'),
        ("questions", '"questions": 10000', '"questions": 10'),
        ("mechanism", '"mechanism": "perceptron"', '"mechanism": "pmw"'),
        ("fingerprint", '"fingerprint": "', '"fingerprint": "0'),
        ("reservation", '"reservation": 1', '"reservation": null'),
    ],
)
def test_changed_terms_are_refused_before_the_table_is_read(table, tmp_path, monkeypatch, name, old, new) -> None:
    path = tmp_path / "a.session"
    cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron").close()
    with sqlite3.connect(path) as connection:
        (before,) = connection.execute("SELECT content FROM terms").fetchone()
        assert before.count(old) == 1
        connection.execute("UPDATE terms SET content = ?", (before.replace(old, new),))
    connection.close()

    def read(*_, **__):
        raise AssertionError("the table was read")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "chunks", read)
        patched.setattr(Table, "fold", read)
        patched.setattr(Curator, "hold_in_memory", read)
        with pytest.raises(SessionError, match="terms"):
            cs.resume_session(path, table)


OTHERS = {
    "mechanism": "pmw",
    "settings": {"hits": 3},
    "budget": {"epsilon": None, "delta": 0.0, "rho": rho_of(2.0, 1e-6)},
    "questions": 10,
    "rows": 301,
    "filtered": True,
    "concentrated": True,
    "source": {"data": "others.csv"},
}
"""For each term another value that the ledger's label, price and bounds alone would not tell, where there is one."""


@pytest.mark.parametrize("term", [field.name for field in dataclasses.fields(Terms)])
def test_every_term_of_a_session_is_pinned_by_its_ledger(table, tmp_path: Path, term: str) -> None:
    path, budget = tmp_path / "a.session", {"epsilon": 2.0, "delta": 1e-6}
    cs.open_session(table, path=path, mechanism="perceptron", **budget).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        stored = json.loads(connection.execute("SELECT content FROM terms").fetchone()[0])
        stored[term] = OTHERS.get(term, f"{stored[term]}0" if isinstance(stored[term], str) else 2)
        connection.execute("UPDATE terms SET content = ?", (json.dumps(stored),))
    known = Ledger.open(f"{path}.ledger")
    before = known.entries()
    with pytest.raises((SessionError, LedgerError)) as refused:
        cs.resume_session(path, table, ledger=known.path if term == "session" else None)
    if term not in ("session", "neighbours", "ledger", "reservation"):  # these name no session, or no terms, at all
        assert "terms of this session are not those of its ledger" in str(refused.value)
    assert known.entries() == before


@given(
    text=st.text(max_size=5),
    settings=st.dictionaries(st.text(max_size=5), st.floats() | st.integers() | st.booleans() | st.text(max_size=5)),
    rows=st.none() | st.integers(0, 1 << 60),
)
def test_terms_keep_their_digest_through_a_file(text, settings, rows) -> None:
    terms = Terms(
        session=text,
        mechanism=text,
        settings=settings,
        budget=Budget(epsilon=0.1, delta=1e-7),
        neighbours=Neighbours.REPLACE,
        questions=1,
        rows=rows,
        fingerprint=text,
        unit=text,
        filtered=False,
    )
    placed = dataclasses.replace(terms, ledger="/somewhere", reservation=3)
    assert Terms.from_json(json.loads(json.dumps(placed.to_json()))).digest == terms.digest
    assert dataclasses.replace(terms, settings={**settings, "more": 1}).digest != terms.digest
    assert dataclasses.replace(terms, filtered=True).digest != terms.digest


@pytest.mark.parametrize("budget", [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-6}])
def test_a_session_that_cannot_pay_for_a_watch_says_so(table, tmp_path: Path, budget) -> None:
    path = tmp_path / "a.session"
    cs.open_session(table, path=path, mechanism="perceptron", hits=2, threshold=0.9, **budget).close()
    for number in range(30):
        with cs.resume_session(path, table) as session:
            said = session.exhausted
            spent = session.spent
            answer = session.ask(
                f"{FAR} AND region = 'west'"
                if number == 0
                else f"age < {18 + 12 * (number % 6 + 1)}"
                f" AND region = '{('north', 'east', 'south', 'west')[number // 6 % 4]}'"
            )
            assert (answer.basis == "unguaranteed") == said
            if said:
                assert session.spent == spent
                assert session.remaining > 0
                return
    raise AssertionError("the budget has no end")


def test_an_ended_session_has_nothing_left(table, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    with cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron") as session:
        assert session.remaining == 2.0
        other = cs.resume_session(path, table)
        session.end()
        assert (session.remaining, other.remaining) == (0.0, 0.0)
        other.close()
        assert "of 2 spent" in str(session)
    with cs.resume_session(path, table) as session:
        assert (session.remaining, session.exhausted) == (0.0, True)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM standing",
        "DROP TABLE standing",
        "DROP TABLE learned",
        "DROP TABLE answers",
        "DROP TABLE acts",
        "DROP TABLE terms",
        "DELETE FROM learned WHERE name = 'meta'",
    ],
)
def test_a_damaged_file_is_called_one(table, tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.session"
    cs.open_session(table, epsilon=2.0, path=path, mechanism="perceptron").close()
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(SessionError, match="damaged"), cs.resume_session(path, table) as session:
        session.ask("smoker")
