"""Every setting of every mechanism, next to nothing and next to all: it is refused, or planned for in true numbers.

A share of 1e-300 left the numbers that floats hold, and ended a plan with an internal error.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import conspectus as cs
from conspectus.cli.exit_codes import BUG, explain
from conspectus.mechanisms.registry import OFFLINE, ONLINE

EXTREMES = [5e-324, 1e-16, 1e-9, 1e-3, 0.0, 1 - 2**-53, 1.0, -1.0, 1e300, math.nan, math.inf, 2, 10**18]
BUDGETS: list[dict[str, Any]] = [{"epsilon": 1.0}, {"epsilon": 1e-8, "delta": 1e-6, "neighbours": "add-remove"}]
COLUMNS = {
    "kind": {"type": "categorical", "values": ["x", "y", "z"]},
    "age": {"type": "integer", "min": 0, "max": 9},
    **{name: {"type": "boolean"} for name in "abc"},
}
SCHEMA = cs.Schema.from_dict({"name": "made", "columns": COLUMNS})
QUESTIONS = (cs.marginals(SCHEMA, 2), cs.random_conjunctions(SCHEMA, 2, 50, 1))


def settings_of(table: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, field.name) for name, entry in table.items() for field in dataclasses.fields(entry.load())]


def planned(plan: Callable[[], Any]) -> Any:
    """What is planned; None where it is refused in a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            return plan()
        except (ValueError, LookupError) as error:
            if explain(error)[0] == BUG:
                raise
            return None


def check(plan: Callable[..., Any], *questions: Any, **asked: Any) -> None:
    made = planned(lambda: plan(SCHEMA, *questions, **asked))
    claims = () if made is None else made.claims
    numbers = [number for claim in claims for number in (claim.expected_mean, claim.expected_max)]
    assert all(number is None or 0 <= number < math.inf for number in numbers), asked


@pytest.mark.parametrize(("mechanism", "setting"), settings_of(OFFLINE))
def test_a_release_is_planned_or_refused(mechanism: str, setting: str) -> None:
    for questions in QUESTIONS:
        for budget in BUDGETS:
            for value in EXTREMES:
                check(cs.plan, questions, rows=1000, mechanism=mechanism, **{setting: value}, **budget)


@pytest.mark.parametrize(("mechanism", "setting"), settings_of(ONLINE))
def test_a_session_is_planned_or_refused(mechanism: str, setting: str) -> None:
    for budget in BUDGETS:
        for value in EXTREMES:
            for rows in (1, 1000):
                check(cs.plan_session, rows=rows, questions=10, mechanism=mechanism, **{setting: value}, **budget)


def test_an_error_that_takes_more_rounds_than_anybody_waits_for_is_refused() -> None:
    [refused] = cs.plan(SCHEMA, QUESTIONS[0], rows=1000, epsilon=1.0, mechanism="iterative", alpha=1e-3).refusals
    assert "rounds, more than 1,048,576" in refused.reason


def test_thousands_of_columns_are_refused_before_their_pairs_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = cs.Schema.from_dict({"name": "wide", "columns": {f"c{i}": {"type": "boolean"} for i in range(1000)}})
    monkeypatch.setattr(cs.mechanisms.LiveMixture, "_first", None)
    asked = {"rows": 1000, "epsilon": 1.0, "delta": 1e-6, "mechanism": "live-mixture"}
    [refused] = cs.plan_session(wide, **asked).refusals
    assert "pairs of 1,000 columns (limit 400)" in refused.reason
