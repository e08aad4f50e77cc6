"""SQL predicates: against DuckDB as the judge of SQL, back and forth, and what is refused."""

from __future__ import annotations

import datetime
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import is_true, records

from conspectus.data.columns.column import CutsBin, NotOrdered, UnknownValue
from conspectus.data.schema import Schema
from conspectus.queries.builders.arguments import UnknownColumn
from conspectus.queries.builders.parities import parities
from conspectus.queries.builders.random_conjunctions import random_conjunctions
from conspectus.queries.formulas import MOST_BOXES, TooManyBoxes
from conspectus.queries.language.from_sql import NotAPredicate, parse, sql, to_sql
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError

SCHEMA = Schema.from_dict(
    {
        "name": "ward",
        "columns": {
            "sex": {"type": "categorical", "values": ["Male", "Fe'male"], "other": True},
            "age": {"type": "integer", "min": 20, "max": 45, "width": 10, "missing": True},
            "kids": {"type": "integer", "min": 0, "max": 2, "missing": True},
            "income": {"type": "number", "edges": [0, 1.5, 25]},
            "getting in/out of bed": {"type": "boolean", "missing": True},
            "admitted": {
                "type": "date",
                "min": datetime.date(2020, 1, 1),
                "max": datetime.date(2020, 3, 31),
                "width": "month",
            },
        },
    }
)
DOMAIN = SCHEMA.domain
RECORDS = records(DOMAIN)
VALUES: list[list[list[object]]] = [
    # for each column, the values of each code: the least and the greatest
    [["Male", "Male"], ["Fe'male", "Fe'male"], ["other", "other"]],
    [[20, 29], [30, 39], [40, 45], [None, None]],
    [[0, 0], [1, 1], [2, 2], [None, None]],
    [[0.0, 1.4], [1.5, 25.0]],
    [[False, False], [True, True], [None, None]],
    [
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 31)],
        [datetime.date(2020, 2, 1), datetime.date(2020, 2, 29)],
        [datetime.date(2020, 3, 1), datetime.date(2020, 3, 31)],
    ],
]


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    """Every record twice: with the least and with the greatest values of its codes."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE ward (n INTEGER, sex VARCHAR, age INTEGER, kids INTEGER, income DOUBLE,"
        ' "getting in/out of bed" BOOLEAN, admitted DATE)'
    )
    rows = [
        (number, *(VALUES[c][code][end] for c, code in enumerate(record)))
        for number, record in enumerate(RECORDS)
        for end in (0, 1)
    ]
    connection.executemany("INSERT INTO ward VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return connection


def comparisons() -> st.SearchStrategy[str]:
    listed = st.sampled_from(["'Male'", "'Fe''male'"])
    several = st.lists(listed, min_size=1, max_size=3).map(", ".join)
    kids = st.sampled_from(["0", "1", "2", "(1)", "'2'"])
    low, high = st.sampled_from(["20", "30", "40"]), st.sampled_from(["29", "39", "45"])
    month = st.sampled_from(["DATE '2020-02-01'", "'2020-02-01'", "CAST('2020-03-01' AS DATE)"])
    bed = '"getting in/out of bed"'
    inside = st.sampled_from(["IN", "NOT IN"])
    return st.one_of(
        st.builds("sex {} {}".format, st.sampled_from(["=", "<>", "!=", "=="]), listed),
        st.builds("{} {} sex".format, listed, st.sampled_from(["=", "<>"])),
        st.builds("sex {} ({})".format, inside, several),
        st.builds("age {} {}".format, st.sampled_from([">=", "<"]), st.sampled_from(["20", "30", "40", "-7", "99"])),
        st.builds("age {} {}".format, st.sampled_from([">", "<="]), high),
        st.builds("{} {} age".format, low, st.sampled_from([">", "<="])),
        st.builds("age {} {} AND {}".format, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), low, high),
        st.builds("kids {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), kids),
        st.builds("kids {} ({}, 1)".format, inside, kids),
        st.sampled_from(["TRUE", "FALSE"]),
        st.sampled_from(["income < 1.5", "income >= 1.5", "1.5 <= income", "income > 30", "income >= 15e-1"]),
        st.sampled_from([bed, f"{bed} = TRUE", f"{bed} <> TRUE", f"{bed} IS FALSE", f"{bed} IS NOT TRUE"]),
        st.builds("admitted {} {}".format, st.sampled_from([">=", "<"]), month),
        st.sampled_from(["age IS NULL", "KIDS IS NOT NULL", "kids IS NULL", f"{bed} IS NOT NULL"]),
    )


def predicates() -> st.SearchStrategy[str]:
    return st.recursive(
        comparisons(),
        lambda inner: st.one_of(
            inner.map("NOT ({})".format),
            st.builds("({}) AND ({})".format, inner, inner),
            st.builds("({}) OR {}".format, inner, inner),
        ),
        max_leaves=6,
    )


@settings(max_examples=150, deadline=None)
@given(text=predicates())
def test_predicates_mean_what_they_mean_in_sql_and_come_back(judge: duckdb.DuckDBPyConnection, text: str) -> None:
    try:
        query = parse(SCHEMA, text)
    except CutsBin:  # what values beyond the bins alone satisfy: see test_certainty
        return
    spelled = to_sql(SCHEMA, query)
    expected = [record for record in RECORDS if is_true(query, record)]
    for words in (text, spelled):
        rows = judge.execute(f"SELECT n, count(*) FROM ward WHERE {words} GROUP BY n ORDER BY n").fetchall()
        assert [(RECORDS[n], times) for n, times in rows] == [(record, 2) for record in expected]
    assert parse(SCHEMA, spelled) == query


def test_predicates_with_the_same_meaning_are_the_same_query() -> None:
    asked = sql(
        SCHEMA,
        [
            "kids = 1 OR sex = 'Male'",
            "NOT (kids <> 1 OR kids IS NULL) OR NOT sex <> 'Male'",
            "(sex = 'Male' AND kids = 1) OR (sex = 'Male' AND (kids <> 1 OR kids IS NULL)) OR kids BETWEEN 1 AND 1",
        ],
    )
    assert len(set(asked.queries())) == 1
    assert len(asked.distinct()) == 1


def test_missing_values_satisfy_neither_side() -> None:
    missing = DOMAIN.sizes[2] - 1
    for text in ("kids = 1", "NOT kids = 1", "NOT (kids = 1 OR kids = 2)", "kids NOT IN (0)"):
        query = parse(SCHEMA, text)
        assert query.boxes
        assert all(missing not in literal.codes for box in query.boxes for literal in box)
    assert parse(SCHEMA, "NOT (kids = 1 AND kids IS NOT NULL)") == parse(SCHEMA, "kids <> 1 OR kids IS NULL")


def test_the_codes_of_plain_predicates() -> None:
    thirties = parse(SCHEMA, "age >= 30 AND age < 40 AND sex = 'Male'")
    assert thirties == Predicate(((Literal(0, (0,)), Literal(1, (1,))),))
    assert parse(SCHEMA, "sex = 'other'") == Predicate(((Literal(0, (2,)),),))
    assert parse(SCHEMA, "sex <> 'Male'") == Predicate(((Literal(0, (1, 2)),),))
    assert parse(SCHEMA, "kids = 0 AND kids = 1") == Predicate(())
    assert parse(SCHEMA, "TRUE OR kids = 1") == Predicate(((),))
    assert parse(SCHEMA, "AGE IS NULL;") == Predicate(((Literal(1, (3,)),),))


def test_cutting_a_bin_is_refused_unless_it_may_snap() -> None:
    with pytest.raises(CutsBin, match="30"):
        parse(SCHEMA, "age < 33")
    assert parse(SCHEMA, "age < 33", snap=True) == parse(SCHEMA, "age < 40")
    assert sql(SCHEMA, ["age BETWEEN 33 AND 41"], snap=True).query(0) == parse(SCHEMA, "age >= 30")


def test_random_conjunctions_and_parities_can_be_spelled(judge: duckdb.DuckDBPyConnection) -> None:
    for query in random_conjunctions(SCHEMA, 3, 60, 4, negations=True).queries():
        assert parse(SCHEMA, to_sql(SCHEMA, query)) == query
    flags = Schema.from_dict({"name": "f", "columns": {f"c{i}": {"type": "boolean"} for i in range(12)}})
    for query in parities(flags, 2)[:3].queries():
        spelled = parse(flags, to_sql(flags, query))
        for record in product((0, 1), repeat=4):
            assert is_true(spelled, record + (0,) * 8) == is_true(query, record + (0,) * 8)
    with pytest.raises(WorkloadError, match="too long"):
        to_sql(flags, parities(flags, 10).query(0))


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "SELECT 1", "DROP TABLE ward", "age >= 30; kids = 1", "age >= 30 kids", "(", "age =", "'x'", "1",
        "1 = 1", "age + 1 = 3", "lower(sex) = 'male'", "age IN (SELECT 1)", "EXISTS (SELECT 1)", "sex LIKE 'M%'",
        "kids = age", "sex = Male", "town.age >= 30", "CASE WHEN kids = 1 THEN TRUE END", "kids IS DISTINCT FROM 1",
        "sex", "NOT kids", "age BETWEEN SYMMETRIC 39 AND 30", "kids = ?", "kids::VARCHAR = '1'",
        "age >= 30 UNION SELECT 1", "(" * 3000 + "TRUE" + ")" * 3000, "NOT " * 3000 + "TRUE",
        "kids = 1 -- " + "x" * (1 << 20), "kids = CURRENT_DATE", "-- nothing", "kids = 1 OR",
        "admitted = TIMESTAMP '2020-01-01 10:00:00'", "(kids, age) = (1, 30)", "kids < 1 < 2",
    ],
)  # fmt: skip
def test_what_is_no_predicate_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(NotAPredicate) as refusal:
        parse(SCHEMA, text)
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 300


def test_unknown_names_and_values_are_answered_with_the_closest() -> None:
    with pytest.raises(UnknownColumn, match="did you mean 'kids'"):
        parse(SCHEMA, "kid = 1")
    with pytest.raises(UnknownColumn, match="did you mean 'getting in/out of bed'"):
        parse(SCHEMA, '"getting in or out of bed"')
    with pytest.raises(UnknownValue, match="Male"):
        parse(SCHEMA, "sex = 'Mal'")
    with pytest.raises(NotOrdered):
        parse(SCHEMA, "sex < 'Male'")


def test_a_predicate_of_too_many_parts_is_refused() -> None:
    wide = Schema.from_dict({"name": "w", "columns": {f"c{i}": {"type": "boolean"} for i in range(40)}})
    pairs = " OR ".join(f"(c{2 * i} AND c{2 * i + 1})" for i in range(20))
    with pytest.raises(TooManyBoxes, match=str(MOST_BOXES)):
        parse(wide, pairs)
    any_of = " OR ".join(f"c{i}" for i in range(40))
    assert len(parse(wide, any_of).boxes) == 40


def test_long_lists_are_read() -> None:
    values = [f"v{i}" for i in range(5000)]
    many = Schema.from_dict({"name": "m", "columns": {"code": {"type": "categorical", "values": values}}})
    listed = ", ".join(f"'v{i}'" for i in range(0, 5000, 2))
    query = parse(many, f"code IN ({listed})")
    assert query.boxes[0][0].codes == tuple(range(0, 5000, 2))
    assert parse(many, to_sql(many, query)) == query
    chain = " OR ".join(f"code = 'v{i}'" for i in range(1500))
    assert len(parse(many, chain).boxes[0][0].codes) == 1500
