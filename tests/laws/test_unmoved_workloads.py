"""Questions whose answers nobody in the table moves: every mechanism and session answers, or refuses in a sentence.

A price, a scale or a rate is a quotient of how far one unit moves something. Here that is 0.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.curator.acts import selection
from conspectus.curator.scores import LargestCounts
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.privacy.exponential import slack
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.workload import Workload

COLUMNS = {
    "nil": {"type": "integer", "min": 0, "max": 0},
    "one": {"type": "integer", "min": 1, "max": 1},
    "ill": {"type": "boolean"},
}
SCHEMA = cs.Schema.from_dict({"name": "made", "columns": COLUMNS})
TABLE = cs.open_table(pa.table({"nil": [0] * 40, "one": [1] * 40, "ill": [True, False] * 20}), SCHEMA)
UNMOVED: dict[str, Workload] = {
    "a sum of zeros": cs.sums(SCHEMA, "nil"),
    "sums of zeros by group": cs.sums(SCHEMA, "nil", by=["ill"]),
    "the parts of such a sum": cs.sums(SCHEMA, "nil").measured(),
    "never true": cs.sql(SCHEMA, ["ill AND NOT ill"]),
    "a mean of one value": cs.means(SCHEMA, "one"),  # the number of rows, where units are added or removed
    "always true": cs.sql(SCHEMA, ["TRUE"]),
    "one cell": cs.marginal(SCHEMA, ["nil"]),
    "cells of constant columns": cs.marginals(SCHEMA, 2).take([0]),
    "none": cs.marginals(SCHEMA, 1).take([]),
    "some of them": cs.sql(SCHEMA, ["ill AND NOT ill", "ill"]),
}
BUDGETS: tuple[dict[str, float], ...] = ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6})
NEVER = ("net", "sparse-project", "tree", "adaptive", "small-db", "dual-query")
"""Mechanisms that may refuse all of these questions."""
SETTINGS: dict[str, dict[str, Any]] = {"top": {"count": 1}}


class Told:
    """Around what may refuse: an error that users are told about is a refusal, and any other one is a failure."""

    def __init__(self, *said: object) -> None:
        self.said, self.refused = said, False

    def __enter__(self) -> Told:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> bool:
        if not isinstance(problem, ValueError | LookupError):
            return False
        self.refused = any(each.__module__.split(".")[0] == "conspectus" for each in type(problem).__mro__)
        if not self.refused:
            raise AssertionError(f"{self.said}: {problem!r}")
        return True


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", OFFLINE)
def test_a_release_answers_or_refuses(mechanism: str, neighbours: str) -> None:
    answered = 0
    for name, workload in UNMOVED.items():
        for budget in BUDGETS[:1] if mechanism == "sparse-project" else BUDGETS:
            settings = {"mechanism": mechanism, "neighbours": neighbours, **SETTINGS.get(mechanism, {}), **budget}
            with Told(name, budget) as told:
                release = cs.release(TABLE, workload, **settings)
                assert len(release.answers) == len(workload), name
            answered += not told.refused
    assert answered or mechanism in NEVER


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", ONLINE)
def test_a_session_answers_or_refuses(mechanism: str, neighbours: str) -> None:
    said = 0
    for budget in BUDGETS:
        with (
            Told(budget),
            cs.open_session(TABLE, questions=30, mechanism=mechanism, neighbours=neighbours, **budget) as session,
        ):
            for name, workload in UNMOVED.items():
                for act in (session.quote, session.ask, session.measure):
                    with Told(name, act) as told:
                        act(workload)
                    said += not told.refused
    assert said > 10


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_stream_answers_or_refuses(tmp_path: Path, neighbours: str) -> None:
    answered = 0
    for place, (name, workload) in enumerate(UNMOVED.items()):
        for budget in BUDGETS:
            path = tmp_path / f"{place}{len(budget)}.stream"
            with (
                Told(name, budget) as told,
                cs.open_stream(SCHEMA, workload, horizon=4, path=path, neighbours=neighbours, **budget) as stream,
            ):
                stream.append(TABLE)
                stream.release()
            answered += not told.refused
    assert answered


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_single_values_of_constant_columns_are_told_or_refused(neighbours: str) -> None:
    wanted = {
        "mode": lambda: cs.column_mode(SCHEMA, "nil"),
        "median": lambda: cs.column_median(SCHEMA, "one"),
        "scale": lambda: cs.interquartile_range(SCHEMA, "nil"),
        "constant": lambda: cs.aggregated(SCHEMA, lambda codes: 1.0, blocks=2, range=(0, 2), levels=2),
    }
    for name, each in wanted.items():
        for mechanism in ("auto", "stable", "exponential", "noisy-max", "permute-and-flip"):
            for budget in BUDGETS:
                with Told(name, mechanism):
                    cs.release_value(TABLE, each(), mechanism=mechanism, neighbours=neighbours, **budget)


def test_a_choice_that_nobody_moves_costs_no_more_than_its_rounding() -> None:
    score = LargestCounts(cs.sums(SCHEMA, "nil").measured())
    for each in Neighbours:
        act, rate = selection(score, Fraction(1), relation=Relation(each))
        assert act.range.under(each) == slack()
        assert rate > 0


def test_top_says_why_it_does_not_serve() -> None:
    for neighbours in ("replace", "add-remove"):
        with pytest.raises(LookupError, match="nobody in the table moves these counts"):
            cs.release(TABLE, UNMOVED["a sum of zeros"], epsilon=1.0, mechanism="top", count=1, neighbours=neighbours)
    plan = cs.plan(SCHEMA, UNMOVED["a sum of zeros"], rows=40, epsilon=1.0)
    assert np.isfinite(plan.best.expected_max)
