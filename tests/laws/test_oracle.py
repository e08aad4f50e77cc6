"""`session.oracle`: every answer within the tolerance with the stated probability, or refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.sessions.oracle import Promise
from conspectus.sessions.store import SessionError
from conspectus.synopses.synopsis import Total

ROWS = 1_000
SCHEMA = cs.Schema.from_dict(
    {
        "name": "made",
        "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}},
    }
)
COLUMNS = {"ill": [n % 5 < 2 for n in range(ROWS)], "age": [n % 10 for n in range(ROWS)]}
EXACT = Total(value=float(ROWS), exact=True)


def opened(**more: object) -> cs.Ledger:
    given = {"epsilon": 4.0, "questions": 10, "mechanism": "laplace", **more}
    return cs.open_session(cs.open_table(pa.table(COLUMNS), SCHEMA), **given)  # type: ignore[arg-type, return-value]


def outside(kind: str, scale: float, room: int) -> float:
    """The probability that one draw leaves ±room, term by term."""
    steps = np.arange(-60 * math.ceil(scale) - 60, 60 * math.ceil(scale) + 61)
    logs = -np.abs(steps) / scale if kind == "laplace" else -(steps**2) / (2 * scale**2)
    weights = np.exp(logs)
    return float(weights[np.abs(steps) > room].sum() / weights.sum())


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(("tolerance", "questions", "failure"), [(0.02, 1, 0.05), (0.05, 100, 0.05), (0.003, 7, 0.3)])
def test_the_noise_is_the_most_that_keeps_the_tolerance(
    kind: str, tolerance: float, questions: int, failure: float
) -> None:
    promise = Promise(tolerance=tolerance, questions=questions, failure=failure, total=EXACT)
    room = math.floor(tolerance * ROWS)
    scale = promise.law(kind, 1).scale  # type: ignore[arg-type]
    assert outside(kind, scale, room) <= failure / questions
    assert outside(kind, 1.1 * scale, room) > failure / questions  # a tenth more would break it


def test_the_book_s_number_of_rows_is_enough() -> None:
    """k answers cost about k·ln(k/β)/(τ·n): the Laplace simulation of an oracle, with its constant."""
    promise = Promise(tolerance=0.05, questions=50, failure=0.05, total=Total(value=1e5, exact=True))
    cost = 50 / promise.law("laplace", 1).scale
    assert cost == pytest.approx(50 * math.log(50 / 0.05) / (0.05 * 1e5), rel=1e-3)


@pytest.mark.parametrize("budget", [{"epsilon": 40.0}, {"epsilon": 20.0, "delta": 1e-6}, {"rho": 2.0}])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_answers_are_within_the_tolerance(budget: dict[str, float], neighbours: str) -> None:
    with opened(**{"epsilon": None, **budget}, neighbours=neighbours, rows=ROWS) as session:  # type: ignore[attr-defined]
        oracle = session.oracle(0.08, questions=20, failure=1e-7)
        before, cost = session.spent, oracle.cost
        for age in range(10):
            assert abs(oracle(f"age = {age} AND ill") - (0.1 if age % 5 < 2 else 0.0)) <= 0.08
            assert oracle(f"ill AND age BETWEEN {age} AND {age}") == oracle(f"age = {age} AND ill")
        assert oracle.asked == 10
        assert session.spent - before == pytest.approx(10 * cost)


def test_values_between_zero_and_one_are_means_too() -> None:
    with opened(epsilon=40.0) as session:  # type: ignore[attr-defined]
        oracle = session.oracle(0.05, questions=5, failure=1e-7)
        (block,) = cs.sums(SCHEMA, "age").measured(total_known=True).blocks
        weighted = cs.Workload(SCHEMA.domain, (block,))[0]
        assert abs(oracle(weighted) - np.mean([age / 9 for age in COLUMNS["age"]])) <= 0.05


def test_it_refuses_when_it_no_longer_can() -> None:
    with opened() as session:  # type: ignore[attr-defined]
        oracle = session.oracle(0.02, questions=20)
        affordable = oracle.affordable
        assert affordable == math.floor(4.0 / oracle.cost)
        for age in range(10):
            oracle(f"age = {age}")
        for age in range(affordable - 10):
            oracle(f"age = {age} AND ill")
        spent = session.spent
        for _ in range(2):
            with pytest.raises(BudgetExceeded, match=r"no answer within 0\.02"):
                oracle("age = 9 AND ill")
        assert (session.spent, oracle.affordable) == (spent, 0)
        oracle("age = 1")  # what was answered stays answered
        wider = session.oracle(0.5)
        assert 0 <= wider("age = 9 AND ill") <= 1


def test_more_questions_than_were_promised_are_refused() -> None:
    with opened() as session:  # type: ignore[attr-defined]
        oracle = session.oracle(0.1, questions=2)
        oracle("ill")
        oracle("age = 1")
        spent = session.spent
        with pytest.raises(BudgetExceeded, match="promised 2 answers"):
            oracle("age = 2")
        assert (session.spent, oracle.affordable) == (spent, 0)


def test_a_paid_total_leaves_less_room() -> None:
    total = Total(value=1000.0, exact=False, kind="laplace", scale=4.0, terms=1)
    promise = Promise(tolerance=0.05, questions=10, failure=0.1, total=total)
    slip = total.margin(0.95)
    assert promise.room == 50 - slip
    assert promise.each == 0.005
    worst = 0.0  # over all true totals and counts that are possible within both margins
    for rows in (1000 - slip, 1000, 1000 + slip):
        for count in (0, rows / 3, rows):
            for noisy in (count - promise.room, count + promise.room):
                worst = max(worst, abs(min(max(noisy / 1000, 0), 1) - count / rows))
    assert worst <= 0.05 + 1e-12


@pytest.mark.parametrize(
    ("tolerance", "more"),
    [
        (0, {}),
        (1, {}),
        (float("nan"), {}),
        ("x", {}),
        (0.1, {"questions": 0}),
        (0.1, {"failure": 0.0}),
        (0.1, {"failure": 1.0}),
        (1e-4, {}),
        (0.1, {"questions": 2.5}),
    ],
)
def test_what_is_no_oracle_is_refused(tolerance: object, more: dict[str, object]) -> None:
    with opened() as session:  # type: ignore[attr-defined]
        with pytest.raises(SettingError):
            session.oracle(tolerance, **more)
        assert session.spent == 0


def test_acts_are_in_the_ledger_before_they_are_drawn(tmp_path: Path) -> None:
    ledger = Ledger.create(
        tmp_path / "l",
        budget=Budget(epsilon=4.0),
        neighbours="replace",
        unit="row",
        schema_fingerprint=SCHEMA.fingerprint,
        table="made",
    )
    with opened(ledger=ledger, path=tmp_path / "s") as session:  # type: ignore[attr-defined]
        oracle = session.oracle(0.1, questions=3)
        oracle("ill")
        assert len([e for e in ledger.entries() if e.kind == "debit"]) == 2  # the row total, and the answer
        spent = session.spent
    with pytest.raises(SessionError, match="closed"):
        oracle("age = 1")
    table = cs.open_table(pa.table(COLUMNS), SCHEMA)
    with cs.resume_session(tmp_path / "s", table) as again:
        assert again.spent == spent
        assert 0 <= again.ask("ill").fraction <= 1
        again.end()
        with pytest.raises(BudgetExceeded, match="was ended"):
            again.oracle(0.1)("age = 1")


def test_the_price_is_that_of_a_question_that_somebody_moves() -> None:
    """The first column has one code: nobody moves its count where rows are replaced."""
    columns = {"unit": {"type": "integer", "min": 1, "max": 1}, "ill": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    rows = cs.open_table(pa.table({"unit": [1] * 100, "ill": [True] * 40 + [False] * 60}), schema)
    with cs.open_session(rows, epsilon=4.0, questions=10, mechanism="laplace") as session:
        oracle = session.oracle(0.2, questions=5)
        cost = oracle.cost
        assert cost > 0
        assert oracle.affordable == 5
        oracle("ill")
        assert session.spent == pytest.approx(cost)
        oracle("unit = 1")
        assert oracle.affordable == 3
    lone = cs.Schema.from_dict({"name": "lone", "columns": {"unit": columns["unit"]}})
    with cs.open_session(cs.open_table(pa.table({"unit": [1] * 100}), lone), epsilon=1.0, questions=2) as session:
        assert session.oracle(0.2, questions=5).affordable == 5  # nobody moves anything, and nothing costs
