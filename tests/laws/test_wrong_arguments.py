"""What is no question, no list of columns and no number is refused by a sentence that says how to write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.queries.language.from_sql import NotAPredicate
from conspectus.queries.language.unanswerable import CannotQuery
from conspectus.queries.sensitivity import WorkloadError
from conspectus.releases.answer import ConfidenceError
from conspectus.synopses.synopsis import CannotAnswer

SCHEMA = cs.Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "sex": {"type": "categorical", "values": ["Female", "Male"]},
            "age": {"type": "integer", "min": 0, "max": 9},
        },
    }
)
TABLE = pa.table({"sex": ["Male", "Female"] * 20, "age": [3, 4] * 20})
NO_QUESTIONS: tuple[Any, ...] = (3, None, {"sex": "Male"}, ["sex = 'Male'"], b"sex", 2.5, cs.sql)


@pytest.fixture(scope="module")
def release() -> cs.Release:
    return cs.release(cs.open_table(TABLE, SCHEMA), cs.marginals(SCHEMA, 2), epsilon=1.0)


@pytest.mark.parametrize("wrong", NO_QUESTIONS, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_question(release: cs.Release, wrong: Any) -> None:
    with pytest.raises(NotAPredicate, match=r"a question is a predicate as a text, as in .*, not a "):
        release.ask(wrong)
    with pytest.raises(CannotQuery, match=r"a query is a SELECT as a text, as in SELECT .*, not a "):
        release.query(wrong)
    with cs.open_session(cs.open_table(TABLE, SCHEMA), epsilon=1.0, questions=10) as session:
        for call in (session.ask, session.measure, session.quote):
            with pytest.raises(NotAPredicate, match="a question is a predicate as a text"):
                call(wrong)
        with pytest.raises(CannotQuery, match="a query is a SELECT as a text"):
            session.query(wrong)
        assert session.asked == 0


def test_a_mapping_is_answered_with_the_predicate_that_it_means(release: cs.Release) -> None:
    with pytest.raises(NotAPredicate, match="as in \"sex = 'Male' AND age = 3\", or a workload"):
        release.ask({"sex": "Male", "age": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [3, None, [], (), {"sex": "Male"}, 2.5])
def test_what_is_no_list_of_columns(release: cs.Release, wrong: Any) -> None:
    with pytest.raises(WorkloadError, match=r'by their names, as in table\(\["sex", "age"\]\)'):
        release.table(wrong)


WRONG: dict[str, tuple[type[Exception], Callable[[cs.Release], object]]] = {
    "confidence as a text": (ConfidenceError, lambda release: release.ask("sex = 'Male'", confidence="high")),
    "no confidence": (ConfidenceError, lambda release: release.query("SELECT COUNT(*)", confidence=None)),
    "rows as a text": (CannotAnswer, lambda release: release.synthetic("many")),
    "a seed as a text": (CannotAnswer, lambda release: release.synthetic(3, public_seed="one")),
    "a seed below zero": (CannotAnswer, lambda release: release.synthetic(3, public_seed=-1)),
    "a list for one column": (LookupError, lambda release: release.quantile(["age"], 0.5)),
    "a number for a column": (LookupError, lambda release: release.quantile(3, 0.5)),
    "a column that is none": (LookupError, lambda release: SCHEMA.column(["age"])),
    "a share as a text": (WorkloadError, lambda release: release.quantile("age", "half")),
    "a number for a condition": (WorkloadError, lambda release: release.quantile("age", 0.5, where=3)),
}


@pytest.mark.parametrize("what", WRONG)
def test_other_arguments_of_a_release(release: cs.Release, what: str) -> None:
    refusal, call = WRONG[what]
    with pytest.raises(refusal) as raised:
        call(release)
    assert "object" not in str(raised.value)
