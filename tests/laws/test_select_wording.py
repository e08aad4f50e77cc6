"""What a SELECT may be written like, which lines and types its result has, and what is said beside it."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.queries.builders.arguments import UnknownColumn
from conspectus.queries.language.from_sql import NotAPredicate
from conspectus.queries.language.unanswerable import CannotQuery

COLUMNS = {
    "sex": {"type": "categorical", "values": ["female", "male"]},
    "age": {"type": "integer", "min": 17, "max": 96, "width": 10},
    "visits": {"type": "integer", "min": 0, "max": 5, "missing": True},
    "hours-per-week": {"type": "integer", "min": 0, "max": 60, "width": 20},
    "day.off": {"type": "boolean"},
    "since": {"type": "date", "min": "1993-01-01", "max": "1998-12-31", "width": "month"},
}
SCHEMA = cs.Schema.from_dict({"name": "people", "columns": COLUMNS})


@pytest.fixture(scope="module")
def release() -> cs.Release:
    many = range(1400)
    rows = {
        "sex": ["female" if n % 3 else "male" for n in many],
        "age": [17 + n % 80 for n in many],
        "visits": [None if n % 7 == 6 else n % 6 for n in many],
        "hours-per-week": [n % 61 for n in many],
        "day.off": [n % 2 == 0 for n in many],
        "since": [datetime.date(1993 + n % 6, n % 12 + 1, 1) for n in many],
    }
    table = cs.open_table(pa.table(rows), SCHEMA)
    return cs.release(table, cs.marginals(SCHEMA, 2), epsilon=1e6, mechanism="laplace")


def test_a_widened_condition_is_named_as_it_is_answered(release: cs.Release) -> None:
    found = release.query("SELECT COUNT(*) FROM people WHERE age > 30", snap=True)
    assert 'widened to whole bins: "age" > 30 is answered as "age" >= 27' in found.notes
    inside = release.query("SELECT COUNT(*) FILTER (WHERE NOT age <> 40) FROM people", snap=True)
    assert 'widened to whole bins: "age" = 40 is answered as "age" >= 37 AND "age" < 47' in inside.notes
    assert not any("widened" in note for note in release.query("SELECT COUNT(*) FROM people", snap=True).notes)


def test_groups_that_the_schema_and_where_exclude_have_no_line(release: cs.Release) -> None:
    quarters = "SELECT DATE_TRUNC('quarter', since) AS q, COUNT(*) FROM people WHERE since >= '1998-01-01' GROUP BY q"
    assert release.query(quarters).to_dict()["q"] == [datetime.date(1998, month, 1) for month in (1, 4, 7, 10)]
    some = "SELECT visits, AVG(age), COUNT(*) FROM people WHERE visits >= 3 GROUP BY visits LIMIT 5"
    assert release.query(some).to_dict()["visits"] == [3, 4, 5]
    either = "SELECT sex, visits, COUNT(*) FROM people WHERE sex = 'male' OR visits = 2 GROUP BY ALL"
    lines = release.query(either)
    assert [
        visits for sex, visits in zip(lines["sex"].to_pylist(), lines["visits"].to_pylist()) if sex == "female"
    ] == [2]
    assert len(lines) == 8
    together = "SELECT visits, visits > 2 AS many, COUNT(*) FROM people GROUP BY visits, many"
    assert len(release.query(together)) == 7
    nothing = "SELECT visits, AVG(age) FROM people WHERE visits > 3 AND visits < 2 GROUP BY visits"
    assert len(release.query(nothing)) == 0
    assert len(release.query("SELECT COUNT(*) FROM people WHERE visits > 3 AND visits < 2")) == 1


def test_a_session_asks_for_no_group_that_where_excludes() -> None:
    table = cs.open_table(pa.table({name: [None] * 50 for name in COLUMNS}), SCHEMA)
    with cs.open_session(table, epsilon=1.0, questions=50) as session:
        select = "SELECT visits, COUNT(*) FROM people WHERE visits >= 4 GROUP BY visits"
        assert session.quote(select).questions == 2
        assert session.query(select).to_dict()["visits"] == [4, 5]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT p.sex, COUNT(*) FROM people p WHERE p.visits > 1 GROUP BY p.sex HAVING p.sex = 'male' ORDER BY p.sex",
        "SELECT people.sex, COUNT(*) FROM people WHERE People.visits > 1 GROUP BY sex HAVING sex = 'male'",
        "SELECT sex, COUNT(*) FROM people AS p WHERE people.visits > 1 GROUP BY p.sex HAVING sex = 'male'",
        "SELECT sex, COUNT(*) FROM people WHERE visits > 1 GROUP BY ALL HAVING sex = 'male'",
    ],
)
def test_the_table_may_stand_before_a_column(release: cs.Release, select: str) -> None:
    plain = "SELECT sex, COUNT(*) FROM people WHERE visits > 1 GROUP BY sex HAVING sex = 'male'"
    assert release.query(select).equals(release.query(plain))
    assert release.ask("people.visits > 1").fraction == release.ask("visits > 1").fraction


def test_another_table_is_refused_by_name(release: cs.Release) -> None:
    for wrong in ("other.sex", "db.people.sex"):
        with pytest.raises(CannotQuery, match=r'is not the table that this is about, "people": write the column alone'):
            release.query(f"SELECT {wrong}, COUNT(*) FROM people p GROUP BY 1")
        with pytest.raises(NotAPredicate, match="is not the table that this is about"):
            release.ask(f"{wrong} = 'male'")
    with pytest.raises(UnknownColumn, match="no column 'n'"):
        release.query("SELECT sex, COUNT(*) AS n FROM people p GROUP BY sex ORDER BY p.n")
    for rows in ("SELECT p.* FROM people p", "SELECT p.*, COUNT(*) FROM people p GROUP BY ALL"):
        with pytest.raises(CannotQuery, match="rows stay with their owner"):
            release.query(rows)


@pytest.mark.parametrize("condition", ["hours-per-week >= 40", "hours - per-week IN (1, 2)", "HOURS-per-week IS NULL"])
def test_a_name_that_reads_as_arithmetic_is_told_to_be_quoted(release: cs.Release, condition: str) -> None:
    cure = 'write "hours-per-week", in double quotes'
    with pytest.raises(NotAPredicate, match=cure):
        release.ask(condition)
    with pytest.raises(CannotQuery, match=cure):
        release.query(f"SELECT COUNT(*) FROM people WHERE {condition}")


def test_names_with_other_signs_are_told_to_be_quoted(release: cs.Release) -> None:
    for select in ("SELECT AVG(hours-per-week) FROM people", "SELECT hours-per-week, COUNT(*) FROM people GROUP BY 1"):
        with pytest.raises(CannotQuery, match='write "hours-per-week", in double quotes'):
            release.query(select)
    with pytest.raises(NotAPredicate, match=r'day\.off is the name of a column, and has a dot: write "day\.off"'):
        release.ask("day.off")
    spaced = cs.Schema.from_dict({"name": "made", "columns": {"night shift": {"type": "boolean"}}})
    with pytest.raises(NotAPredicate, match='"night shift" needs its double quotes'):
        cs.sql(spaced, ["night shift = TRUE"])
    found = release.query("SELECT COUNT(*) AS n, COUNT(visits) AS m FROM people HAVING n - m > 0")
    assert len(found) == 1


def test_group_by_all_groups_by_whatever_is_no_aggregate(release: cs.Release) -> None:
    every = "SELECT sex, visits > 2 AS many, COUNT(*), RATE(visits >= 4), QUANTILE(visits, 0.9) FROM people GROUP BY "
    assert release.query(every + "ALL").equals(release.query(every + "1, 2"))
    assert release.query("SELECT COUNT(*) FROM people GROUP BY ALL").to_dict()["count"] == [1400]
    with pytest.raises(CannotQuery, match="ROLLUP"):
        release.query("SELECT sex, COUNT(*) FROM people GROUP BY ROLLUP (sex)")


def test_a_result_without_lines_has_the_types_of_one_with_lines(release: cs.Release) -> None:
    one = (
        "SELECT visits, YEAR(since) AS year, DATE_TRUNC('year', since) AS start, visits > 2 AS many, COUNT(*), "
        "AVG(visits), MEDIAN(visits), MEDIAN(since), ROUND(AVG(visits)) AS whole FROM people GROUP BY 1, 2, 3, 4"
    )
    for text in (one, "SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age"):
        full, empty = release.query(text + " LIMIT 3"), release.query(text + " LIMIT 0")
        assert (len(full), len(empty)) == (3, 0)
        assert full.to_arrow().schema == empty.to_arrow().schema
    nothing = release.query("SELECT sex, COUNT(*) FROM people GROUP BY 1 LIMIT 0")
    assert pa.types.is_string(nothing.to_arrow().schema.field("sex").type)


def test_labels_are_no_quantities_and_null_is_no_missing_interval(release: cs.Release) -> None:
    text = str(release.query("SELECT YEAR(since) AS year, visits, COUNT(*) FROM people GROUP BY 1, 2 ORDER BY 1, 2"))
    assert "1993" in text
    assert "1,993" not in text
    assert "NULL" in text
    assert "—" not in text
    assert "1,400" in str(release.query("SELECT COUNT(*) FROM people"))
    page = release.query("SELECT visits, COUNT(*) FROM people GROUP BY 1")._repr_html_()
    assert "<td>NULL</td>" in page
    assert "NULL" in str(release.table(["visits"]))


def test_all_lines_can_be_shown(release: cs.Release) -> None:
    found = release.query("SELECT since, COUNT(*) FROM people GROUP BY since")
    assert str(found).splitlines()[21] == "… and 52 more lines"
    assert len(found.to_text(None).splitlines()) == 73


def test_notes_say_what_was_chosen_and_of_how_many_columns(release: cs.Release) -> None:
    chosen = "each interval is for its own number: which lines are shown was chosen by noisy numbers"
    grouped = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    for plain in (" LIMIT 1", " ORDER BY sex LIMIT 1", " ORDER BY n", " HAVING sex = 'male'", ""):
        assert chosen not in release.query(grouped + plain).notes, plain
    for noisy in (" ORDER BY n LIMIT 1", " HAVING n > 3", " ORDER BY n OFFSET 1", " ORDER BY sex, n LIMIT 1"):
        assert chosen in release.query(grouped + noisy).notes, noisy
    fitted = cs.release(
        cs.open_table(pa.table({name: [None] * 50 for name in COLUMNS}), SCHEMA),
        cs.sql(SCHEMA, ["visits > 2", "sex = 'male'"]),
        epsilon=1.0,
        mechanism="mwem",
    )
    notes = fitted.query("SELECT AVG(visits) FROM people").notes
    assert 'no noise or bound is known for "visits": numbers from there have no interval' in notes, notes


def test_no_two_columns_of_a_result_have_one_name(release: cs.Release) -> None:
    for select in (
        "SELECT COUNT(*) AS count_low, COUNT(*) AS count FROM people",
        "SELECT COUNT(*), COUNT(*) AS count_low, COUNT(*) AS count, COUNT(*) AS count_2 FROM people",
        "SELECT sex AS n_high, COUNT(*) AS n FROM people GROUP BY sex",
    ):
        names = release.query(select).column_names
        assert len(set(names)) == len(names), names


def test_a_cut_bin_names_the_switch(release: cs.Release) -> None:
    with pytest.raises(
        ValueError, match=r"cuts the bin 27–36: write >= 27 or >= 37, or let it snap .*snap=True.*--snap"
    ):
        release.ask("age > 30")


def test_only_close_names_are_suggested(release: cs.Release) -> None:
    with pytest.raises(UnknownColumn, match="no column 'nope' in the schema: its columns are"):
        cs.sql(cs.Schema.from_dict({"name": "made", "columns": {"income": {"type": "boolean"}}}), ["nope"])
    for wrong, right in {"aeg": "age", "visit": "visits", "hours_per_week": "hours-per-week", "Sexx": "sex"}.items():
        with pytest.raises(UnknownColumn, match=f"did you mean '{right}'"):
            release.table([wrong])


def test_an_empty_text_is_missing_whether_or_not_it_is_listed() -> None:
    """As docs/schema.md says: a schema without null_values reads it so, too."""
    listed = {"type": "categorical", "values": ["a"], "missing": True}
    schema = cs.Schema.from_dict({"name": "made", "columns": {"x": listed}})
    assert schema.encode(0, pa.array(["", "  ", None, "a"])).tolist() == [1, 1, 1, 0]


def test_groups_of_a_widened_condition_share_no_row(release: cs.Release) -> None:
    """Both a condition and its opposite may hold in a bin that they cut: the condition as it is written is widened."""
    rows = release.query("SELECT COUNT(*) AS n FROM people")["n"].to_pylist()[0]
    for condition in ("age > 30", "age < 30", "NOT age > 30", "age BETWEEN 30 AND 50", "visits > 2 AND age > 30"):
        found = release.query(f"SELECT {condition} AS it, COUNT(*) AS n FROM people GROUP BY it", snap=True)
        lines = {line["it"]: line["n"] for line in found.to_arrow().to_pylist()}
        assert sum(lines.values()) == pytest.approx(rows, abs=len(lines))
        asked = release.query(f"SELECT COUNT(*) AS n FROM people WHERE {condition}", snap=True)
        assert lines[True] == asked["n"].to_pylist()[0]
        assert not any("add up" in note for note in found.notes)
        assert [note for note in found.notes if "widened" in note] == [n for n in asked.notes if "widened" in n]


@pytest.mark.parametrize("condition", ["age <> 30", "NOT age = 30", "NOT age BETWEEN 30 AND 32", "age >= 20"])
def test_what_would_be_widened_to_all_rows_is_refused(release: cs.Release, condition: str) -> None:
    """It would be the number of rows with certainty, in answer to another question."""
    for door in (release.ask, lambda text, snap: release.query(f"SELECT COUNT(*) FROM people WHERE {text}", snap=snap)):
        with pytest.raises(ValueError, match="widened to whole bins it holds for every row"):
            door(condition, snap=True)
