"""No certainty that is none: what a schema cannot tell apart is refused, or the answer says so.

Values beyond the bins are clamped into the outer ones, and missing values of a column that declares none count as one
of its values. A question about them must not be answered as if they were not there.
"""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.columns.column import CutsBin
from conspectus.mechanisms.registry import ONLINE
from conspectus.queries.language.from_sql import NotAPredicate, parse, read

SCHEMA = cs.Schema.from_dict(
    {
        "name": "visits",
        "neighbours": "replace",
        "columns": {
            "visits": {"type": "integer", "min": 0, "max": 4},
            "age": {"type": "integer", "min": 20, "max": 49, "width": 10, "missing": True},
            "income": {"type": "number", "edges": [0, 10, 100]},
            "day": {"type": "date", "min": "2020-01-01", "max": "2020-03-31", "width": "month"},
        },
    }
)
DAYS = [datetime.date(*day) for day in ((2019, 5, 1), (2020, 1, 1), (2020, 2, 11), (2020, 3, 31), (2021, 1, 1))]
RAW = pa.table(
    {
        "visits": [-3, 0, 1, 4, 9, 2, 4, 0],
        "age": pa.array([5, 20, 29, 30, 49, 80, None, 41], pa.int64()),
        "income": [-1.0, 0.0, 9.5, 10.0, 100.0, 100.5, 50.0, 2.0],
        "day": [*DAYS, DAYS[0], DAYS[2], DAYS[4]],
    }
)
TABLE = cs.open_table(RAW, SCHEMA)


def held(text: str, *, snap: bool = False) -> int:
    """How many rows satisfy a predicate, as the schema reads them."""
    return int(count(cs.sql(SCHEMA, [text], snap=snap), TABLE.chunks())[0][0])


def true(text: str) -> int:
    """How many rows satisfy it, as they are."""
    with duckdb.connect() as judge:
        judge.register("raw", RAW)
        return judge.execute(f"SELECT count(*) FROM raw WHERE {text}").fetchall()[0][0]


def comparisons() -> st.SearchStrategy[str]:
    order = st.sampled_from(["<", "<=", ">", ">=", "=", "<>"])
    return st.one_of(
        st.builds("visits {} {}".format, order, st.sampled_from([-1, 0, 1, 3, 4, 5, 9])),
        st.builds("age {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from([0, 20, 30, 40, 50, 99])),
        st.builds(
            "income {} {}".format, st.sampled_from(["<", ">=", ">", "<="]), st.sampled_from([-5, 0, 10, 100, 101])
        ),
        st.builds("day {} '{}'".format, st.sampled_from(["<", ">="]), st.sampled_from(["2019-01-01", "2020-02-01"])),
        st.sampled_from(["age IS NULL", "age IS NOT NULL", "visits BETWEEN 1 AND 4", "visits NOT IN (4, 1)"]),
    )


PREDICATES = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(text=PREDICATES)
def test_an_answer_without_a_word_is_about_the_rows_as_they_are(text: str) -> None:
    """Of rows far beyond the bins as well: SQL on the raw rows agrees, or there is a note, or a refusal."""
    try:
        reading = read(SCHEMA, text)
    except (CutsBin, LookupError):
        return
    if not any("count as" in note for note in reading.notes):
        assert held(text) == true(text)


@pytest.mark.parametrize("text", ["visits > 4", "visits >= 5", "visits < 0", "age >= 50", "income > 100", "age < 20"])
def test_what_clamped_values_alone_satisfy_is_refused_and_may_snap(text: str) -> None:
    with pytest.raises(CutsBin, match=r"in which all values (above|below) it are counted"):
        parse(SCHEMA, text)
    assert true(text) > 0
    widened = read(SCHEMA, text, snap=True)
    assert widened.notes[0] == "widened to whole bins"
    assert parse(SCHEMA, widened.words) == widened.query
    assert held(text, snap=True) >= true(text)


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("visits >= 4", 0), ("visits < 4", 0), ("visits = 2", 0), ("visits <> 2", 0), ("age >= 30 AND age < 40", 0),
        ("visits = 4", 1), ("visits <> 4", 1), ("visits <= 4", 2), ("visits BETWEEN 0 AND 4", 3), ("income <= 100", 2),
        ("visits = 0", 1), ("age < 99 AND visits = 1", 1),
    ],
)  # fmt: skip
def test_clamped_values_are_spoken_of_where_they_count(text: str, notes: int) -> None:
    assert len(read(SCHEMA, text).notes) == notes


@pytest.mark.parametrize("text", ["age = NULL", "visits IN (1, NULL)", "NULL", "NOT visits <> NULL", "age > NULL"])
def test_a_comparison_with_null_is_refused(text: str) -> None:
    with pytest.raises(NotAPredicate, match="NULL, which no row satisfies"):
        parse(SCHEMA, text)


@pytest.mark.parametrize("text", ["visits IS NULL", "visits IS NOT NULL", "NOT visits IS NULL AND age >= 30"])
def test_missing_values_that_were_not_declared_cannot_be_asked_for(text: str) -> None:
    with pytest.raises(NotAPredicate, match="declare missing = true"):
        parse(SCHEMA, text)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", ["laplace", "tree", "histogram", "projection", "mwem", "adaptive", "dual-query"])
def test_what_the_schema_decides_is_no_estimate_of_a_release(name: str, neighbours: str) -> None:
    asked = cs.marginals(SCHEMA, 1)
    release = cs.release(TABLE, asked, epsilon=1.0, delta=1e-6, mechanism=name, neighbours=neighbours)
    for text, share in (("visits = 1 AND visits = 2", 0), ("age IS NULL OR age IS NOT NULL", 1)):
        answer = release.ask(text)
        assert (answer.fraction, answer.low, answer.high) == (share, share, share)
        assert answer.count == pytest.approx(share * release.total.divisor)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", [name for name in ONLINE if name != "sparse-mw"])  # which counts listed records
def test_what_the_schema_decides_costs_a_session_nothing(name: str, neighbours: str) -> None:
    terms = {"epsilon": 2.0, "delta": 1e-6, "questions": 3, "neighbours": neighbours}
    with cs.open_session(TABLE, mechanism=name, **terms) as session:
        spent = session.spent
        for text, share in (("visits = 1 AND visits = 2", 0), ("age IS NULL OR age IS NOT NULL", 1)):
            assert session.quote(text).cost == 0
            for answer in (session.ask(text), session.measure(text)):
                assert (answer.fraction, answer.low, answer.high, answer.cost) == (share, share, share, 0)
        assert session.spent == spent


def test_what_the_schema_decides_is_certain_and_says_why() -> None:
    release = cs.release(TABLE, cs.marginals(SCHEMA, 1), epsilon=1.0, mechanism="laplace")
    nothing, everything = release.ask("visits = 1 AND visits = 2"), release.ask("age IS NULL OR age IS NOT NULL")
    assert (nothing.low, nothing.high, nothing.notes) == (0, 0, ("by the schema no row satisfies this question",))
    assert (everything.low, everything.high) == (1, 1)
    assert str(everything).endswith("measured; by the schema every row satisfies this question")
