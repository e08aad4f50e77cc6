"""A question of any length is read or refused with bounded work: the parser's, that of its formulas, and our own.

A question may come from anyone. Work is counted here, not timed: calls of functions, or what an expansion looks at.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from random import Random

import pytest
import sqlglot
from tests.fuzzing import nested_sql
from tests.made import people

import conspectus as cs
from conspectus.queries import formulas
from conspectus.queries.formulas import TooManyBoxes
from conspectus.queries.language import bounded_parser
from conspectus.queries.language.bounded_parser import NestedTooDeeply, Unreadable, conditions, statements, written
from conspectus.queries.language.from_select import read_select
from conspectus.queries.language.from_sql import NotAPredicate, parse
from conspectus.queries.language.unanswerable import CannotQuery

SCHEMA = nested_sql.SCHEMA
READ_AGAIN = ("INT(", "ROW(", "STRUCT(", "DATE(", "TEXT(", "DECIMAL(", "ARRAY[", "MAP(", "TIMESTAMP(", "VARCHAR(")
WRITTEN_AGAIN = ("TO_BOOLEAN(", "BITMAP_BUCKET_NUMBER(", "CHECK_JSON(", "ARRAYS_ZIP(", "MONTHS_BETWEEN(1, ", "CEIL(1, ")


def nested(name: str, depth: int) -> str:
    return name * depth + "b" + ("]" if name.endswith("[") else ")") * depth


@pytest.mark.parametrize(
    "depth", [pytest.param(15, marks=pytest.mark.audit), 25, pytest.param(40, marks=pytest.mark.audit), 300]
)
@pytest.mark.parametrize("name", [*READ_AGAIN, *WRITTEN_AGAIN])
def test_names_nested_in_themselves_are_refused_at_every_door(name: str, depth: int) -> None:
    for door in nested_sql.DOORS:
        verdict, said = nested_sql.judged(door, nested(name, depth))
        assert verdict == "refused", (door, said)


@pytest.mark.parametrize(
    ("name", "limit"), [("INT(", "_STEPS"), ("ARRAY[", "_STEPS"), ("TO_BOOLEAN(", "_PARTS"), ("CEIL(1, ", "_PARTS")]
)
def test_without_its_limit_such_a_name_is_found(name: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what is not counted takes too much work, and the scan sees it."""
    monkeypatch.setattr(bounded_parser, limit, 1 << 60)
    assert nested_sql.judged("condition", nested(name, 17))[0] == "broken"


def test_words_of_the_parser_in_every_place_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    counts = nested_sql.run(seed=5, count=120)
    assert counts["broken"] == 0, capsys.readouterr().out
    assert counts["refused"] > 90


@pytest.mark.audit
@pytest.mark.parametrize("part", range(40))
def test_all_words_of_the_parser_in_every_place_are_read_or_refused(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = nested_sql.run(seed=5, part=part, parts=40)
    assert counts["broken"] == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "(" * 25 + "b = 1" + ")" * 25,
        "NOT (" * 15 + "b = 1" + ")" * 15,
        " OR ".join(["(b = 1 AND NOT a)", "b IN (1, 2, 3)", "d < DATE '2020-03-01'"] * 600),
        "b IN (" + ", ".join(["3"] * 9_000) + ")",
    ],
)
def test_long_and_deep_texts_are_read_in_a_step_or_two_for_each_token(text: str) -> None:
    parser, tokens = bounded_parser._prepared(text)
    before = parser.steps_left
    parser.parse_into(sqlglot.exp.Condition, tokens, text)
    assert before - parser.steps_left <= 2 * len(tokens)
    assert parse(SCHEMA, text).boxes


def test_what_the_parser_fails_on_is_refused() -> None:
    for text in ("VAR_MAP(VAR_MAP(b))", "DATETIME((DATETIME(b)))", "b = ' AND a", "b b b", "a = 1 )"):
        with pytest.raises(NotAPredicate):
            parse(SCHEMA, text)
        with pytest.raises((CannotQuery, NotAPredicate)):
            read_select(SCHEMA, f"SELECT COUNT(*) FROM t WHERE {text}")
    with pytest.raises(Unreadable):
        statements("SELECT (")
    with pytest.raises(NestedTooDeeply, match="brackets"):
        conditions("b" + "[1]" * 60)
    (tree,) = conditions("(" * 20 + "b" + ")" * 20)
    assert written(tree) == "(" * 20 + "b" + ")" * 20


def test_the_parser_quotes_no_question_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither where it reads nor where it writes; for others it goes on as before."""
    caplog.set_level(logging.DEBUG)
    for text in ("GRANT secret TO b", "CALL secret(b)", "SHOW secret b", "ALTER TABLE t secret b c d"):
        with pytest.raises(CannotQuery):
            read_select(SCHEMA, text)
    (tree,) = conditions("REGEXP_REPLACE(b, 'secret', 'secret', 1, 2, 'secret')")
    written(tree)
    assert not caplog.records
    sqlglot.parse("GRANT something TO b")
    assert "unsupported" in caplog.text


def test_the_filter_of_the_log_stays_as_it_is_while_others_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that goes through the filters skips one where another thread takes away one before it."""
    logger = logging.getLogger("sqlglot")
    before, seen = list(logger.filters), []
    prepared = bounded_parser._prepared

    def looking(text: str) -> object:
        seen.append(list(logger.filters))
        return prepared(text)

    monkeypatch.setattr(bounded_parser, "_prepared", looking)
    conditions("b = 1")
    with pytest.raises(Unreadable):
        statements("SELECT (")
    assert seen == [before, before]
    assert logger.filters == before
    assert logger.filter(logging.makeLogRecord({}))


def cnf(columns: int, clauses: int, width: int = 3) -> tuple[cs.Schema, str]:
    """A random formula of clauses, each any of some columns or of their opposites."""
    random = Random(f"{columns}:{clauses}:{width}")
    said = [
        " OR ".join(random.choice(("", "NOT ")) + f"c{at}" for at in random.sample(range(columns), width))
        for _ in range(clauses)
    ]
    schema = {"name": "t", "columns": {f"c{at}": {"type": "boolean"} for at in range(columns)}}
    return cs.Schema.from_dict(schema), " AND ".join(f"({clause})" for clause in said)


@pytest.mark.parametrize(
    ("columns", "clauses", "width"),
    [(40, 170, 3), pytest.param(100, 430, 3, marks=pytest.mark.audit), (16, 600, 8)],
)
def test_hard_formulas_are_refused_by_a_count_of_what_is_looked_at(columns: int, clauses: int, width: int) -> None:
    schema, text = cnf(columns, clauses, width)
    with pytest.raises(TooManyBoxes):
        nested_sql.work_of(lambda: parse(schema, text), 12 * formulas.MOST_WORK)


def test_without_that_count_a_hard_formula_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin, with a limit of an eighth on both sides, so that it ends soon."""
    schema, text = cnf(40, 170)
    most = 12 * formulas.MOST_WORK // 8
    monkeypatch.setattr(formulas._Expansion, "_charge", lambda self, work: None)
    with pytest.raises(nested_sql.TooMuchWork):
        nested_sql.work_of(lambda: parse(schema, text), most)


@pytest.mark.parametrize(("columns", "clauses"), [(12, 20), (16, 10), (18, 60), (20, 400)])
def test_formulas_of_some_size_are_expanded_and_true_on_the_same_rows(columns: int, clauses: int) -> None:
    schema, text = cnf(columns, clauses)
    found = parse(schema, text)
    random = Random(columns)
    for _ in range(300):
        row = [random.random() < 0.5 for _ in range(columns)]
        names = {f"c{at}": value for at, value in enumerate(row)}
        true = eval(text.replace("AND", "and").replace("OR", "or").replace("NOT", "not"), {}, names)
        held = [all(row[one.column] in {bool(code) for code in one.codes} for one in box) for box in found.boxes]
        assert sum(held) == true


SELECTS = {
    "outputs of one name": lambda many: "SELECT " + "b, " * many + "COUNT(*) FROM t GROUP BY b",
    "numbers": lambda many: "SELECT " + ", ".join(f"COUNT(*) * {n}" for n in range(1, many)) + " FROM t",
    "names": lambda many: (
        "SELECT " + "".join(f"b = 1 OR b = {n % 10} AS x{n}, " for n in range(many)) + "COUNT(*) FROM t GROUP BY 1"
    ),
    "whens": lambda many: f"SELECT CASE {'WHEN b = 1 THEN 1 ' * many} END, COUNT(*) FROM t GROUP BY 1",
    "having": lambda many: (
        f"SELECT COUNT(*) FROM t GROUP BY a HAVING {'COUNT(*) > 1 OR ' * min(many, 120)} COUNT(*) = 1"
    ),
    "having the key": lambda many: (
        f"SELECT COUNT(*) FROM t GROUP BY {'a OR ' * 60} a HAVING {'a OR ' * min(many, 120)} a"
    ),
}


@pytest.mark.parametrize("kind", SELECTS)
def test_a_select_is_read_with_work_in_proportion_to_its_length(kind: str) -> None:
    few, many = SELECTS[kind](60), SELECTS[kind](480)

    def work(text: str) -> int:
        def read() -> None:
            with suppress(CannotQuery, NotAPredicate):
                read_select(SCHEMA, text)

        return nested_sql.work_of(read, 20_000_000)

    assert work(many) / len(many) <= 3 * work(few) / len(few)


def test_more_branches_than_anyone_writes_are_refused() -> None:
    with pytest.raises(CannotQuery, match="WHENs"):
        read_select(SCHEMA, SELECTS["whens"](1_001))
    assert read_select(SCHEMA, SELECTS["whens"](900)).keys


def test_the_groups_of_a_select_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group has a formula of its own, with the same condition in it: what they look at is added up."""
    schema, table = people(50)
    release = cs.release(table, cs.marginals(schema, 4), epsilon=1.0, mechanism="laplace")
    where = "(smoker OR age < 42) AND (ill OR age > 65)"
    one, many = (f"SELECT {keys} COUNT(*) AS n FROM people WHERE {where}" for keys in ("", "region, age,"))
    many += " GROUP BY region, age"
    assert release.query(many).num_rows == 24
    monkeypatch.setattr(formulas, "MOST_WORK_TOGETHER", 15_000)
    assert release.query(one).num_rows == 1
    assert release.query(one).num_rows == 1  # each SELECT has its own
    with pytest.raises(TooManyBoxes, match="together"):
        release.query(many)
