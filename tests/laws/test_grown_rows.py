"""Numbers that no release and no session ever writes are refused where they are read, before they spoil anything.

`python -m tests.fuzzing.grown_files --later` found each of these; here they stand by themselves.
"""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.online_mechanism import BadState
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.ledger_terms import LedgerError
from conspectus.queries.rules import LARGEST, possible
from conspectus.releases.series_terms import SeriesError
from conspectus.service.analysts import AnalystError, Analysts
from conspectus.sessions.store import SessionError
from conspectus.synopses.synopsis import BadSynopsis, Total, checked_noise

SCHEMA = cs.Schema.from_dict(
    {"name": "made", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}}
)
ROWS = pa.table({"ill": [True, False, False] * 40, "age": list(range(10)) * 12})
IMPOSSIBLE = (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e100)


def table() -> cs.Table:
    return cs.open_table(ROWS, SCHEMA)


def ledger_at(path: Path) -> Ledger:
    return Ledger.create(
        path,
        budget=Budget(epsilon=40.0, delta=1e-6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=SCHEMA.fingerprint,
        table="made",
    )


def changed(path: Path, statement: str, *values: Any) -> None:
    """A SQLite file after one statement, and with the triggers that it had."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        triggers = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            file.execute(f"DROP TRIGGER {name}")
        assert file.execute(statement, values).rowcount
        for _, sql in triggers:
            file.execute(sql)


@pytest.mark.parametrize("number", IMPOSSIBLE)
def test_no_count_and_no_scale_is_so_large(number: float) -> None:
    assert not possible([0.0, number])
    assert possible([0.0, LARGEST, -float(1 << 63)])
    with pytest.raises(BadSynopsis):
        checked_noise("laplace", number)
    with pytest.raises(BadSynopsis):
        Total(value=number, exact=False, kind="laplace", scale=1.0, terms=1)
    with pytest.raises(ValueError, match="offset"):
        Margin.from_json({**Margin(offset=1.0).to_json(), "offset": number})


@pytest.mark.parametrize("number", IMPOSSIBLE)
@pytest.mark.parametrize(
    ("mechanism", "asked"),
    [
        ("gaussian", cs.marginals(SCHEMA, 2)),
        ("projection", cs.marginals(SCHEMA, 2)),
        ("tree", cs.ranges(SCHEMA, "age")),
        ("mwem", cs.marginals(SCHEMA, 1)),
    ],
)
def test_every_synopsis_of_noisy_counts_refuses_it(mechanism: str, asked: cs.Workload, number: float) -> None:
    made = cs.release(table(), asked, mechanism=mechanism, epsilon=5.0, delta=1e-6)
    tried = 0
    for held in (made.synopsis, made.measured):
        if not dataclasses.is_dataclass(held):
            continue
        for name in {"counts", "values"} & {field.name for field in dataclasses.fields(held)}:
            numbers = np.array(getattr(held, name), dtype=np.float64)
            numbers[-1] = number
            with pytest.raises(BadSynopsis):
                dataclasses.replace(held, **{name: numbers})
            tried += 1
    assert tried


@pytest.mark.parametrize("part", ["learned", "primed"])
def test_a_session_refuses_such_a_state_before_it_spends(part: str, tmp_path: Path) -> None:
    """Counts at the end of the floats made guesses that are no numbers, and then an error of SQLite's."""
    path, ledger = tmp_path / "made.session", ledger_at(tmp_path / "made.ledger")
    with cs.open_session(
        table(), mechanism="pmw", epsilon=40.0, delta=1e-6, questions=20, ledger=ledger, path=path
    ) as session:
        session.measure("ill AND age = 2")
        _, tables = session._learned().state()
    counts = tables[part]["count"].to_pylist()
    sink = pa.BufferOutputStream()
    grown = pa.table({"count": pa.array([*counts[:-1], 1e308], pa.float64())})
    with pa.ipc.new_stream(sink, grown.schema) as writer:
        writer.write_table(grown)
    changed(path, "UPDATE learned SET content = ? WHERE name = ?", sink.getvalue().to_pybytes(), part)
    spent = ledger.spent
    with cs.resume_session(path, table(), ledger=ledger) as session, pytest.raises(BadState):
        session.ask("age = 7")
    assert ledger.spent == spent


def test_a_session_refuses_an_answer_beyond_all_counts(tmp_path: Path) -> None:
    path = tmp_path / "made.session"
    with cs.open_session(table(), mechanism="laplace", epsilon=5.0, questions=9, path=path) as session:
        session.ask("ill")
    changed(path, "UPDATE answers SET count = ?", math.inf)
    with cs.resume_session(path, table()) as session, pytest.raises(SessionError, match="damaged"):
        session.ask("ill")


@pytest.mark.parametrize("statement", ["UPDATE standing SET version = ?", "UPDATE answers SET number = ?"])
@pytest.mark.parametrize("number", [(1 << 63) - 1, -7])
def test_a_session_refuses_numbers_after_which_there_is_no_next(statement: str, number: int, tmp_path: Path) -> None:
    """The next version did not fit into its column, which was found out after a question was paid for."""
    path, ledger = tmp_path / "made.session", ledger_at(tmp_path / "made.ledger")
    with cs.open_session(
        table(), mechanism="gaussian", epsilon=40.0, delta=1e-6, questions=9, ledger=ledger, path=path
    ) as session:
        session.ask("ill")
    changed(path, statement, number)
    acts = len(ledger.entries_of(1))
    with pytest.raises(SessionError, match="damaged"), cs.resume_session(path, table(), ledger=ledger) as session:
        session.ask("age = 7")
    assert len(ledger.entries_of(1)) == acts


def test_a_ledger_refuses_a_cap_below_the_least_float(tmp_path: Path) -> None:
    ledger_at(tmp_path / "made.ledger")
    changed(tmp_path / "made.ledger", "UPDATE terms SET cap = ?", "1/" + "7" * 4_000)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(tmp_path / "made.ledger")


@pytest.mark.parametrize("number", [0, -1, 1 << 63, -(1 << 64), 10**400])
def test_a_ledger_has_no_line_of_such_a_number(number: int, tmp_path: Path) -> None:
    """Files of sessions, streams and series name their reservation, and may name any."""
    assert ledger_at(tmp_path / "made.ledger").entries_of(number) == ()


def test_a_series_refuses_acts_of_a_period_that_it_does_not_have(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path / "made.ledger")
    budget = {"epsilon": 30.0, "delta": 1e-6}
    path = tmp_path / "made.series"
    cs.open_series(
        SCHEMA,
        cs.marginals(SCHEMA, 1),
        periods=["May", "June"],
        ledger=ledger,
        path=path,
        mechanism="gaussian",
        **budget,
    ).release(table())
    changed(tmp_path / "made.ledger", "UPDATE entries SET content = replace(content, 'May', 'MayMay')")
    with pytest.raises(SeriesError, match="does not have"):
        cs.resume_series(path, ledger=Ledger.open(tmp_path / "made.ledger")).release(table())


@pytest.mark.parametrize(
    ("column", "value"),
    [("asked", -1), ("questions", -5), ("share", 2.0), ("share", math.inf), ("share", -0.5), ("digest", "é" * 64)],
)
def test_analysts_refuse_what_they_never_write(column: str, value: float | str, tmp_path: Path) -> None:
    """A digest with another letter was an error of the comparison's, at every request."""
    Analysts(tmp_path).add("ann", questions=3, share=0.5)
    changed(tmp_path / "analysts.db", f"UPDATE analysts SET {column} = ?", value)
    with pytest.raises(AnalystError, match="damaged"):
        Analysts(tmp_path).find("cs_nobody")


@pytest.mark.parametrize("spent", [-1.0, math.inf])
def test_analysts_refuse_spending_out_of_range(spent: float, tmp_path: Path) -> None:
    kept = Analysts(tmp_path)
    kept.add("ann")
    kept.spend("ann", "live", 0.5)
    changed(tmp_path / "analysts.db", "UPDATE spending SET spent = ?", spent)
    with pytest.raises(AnalystError, match="damaged"):
        Analysts(tmp_path).spent("ann", "live")
