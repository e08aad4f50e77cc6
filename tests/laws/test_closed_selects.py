"""SELECTs of a closed language: one person's value never decides whether a pass ends, or what is said."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conspectus.data.columns.kinds import Categorical, Integer
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError, open_table
from conspectus.data.sources.sql_functions import expanded
from conspectus.data.sources.sql_growth import LONGEST_TEXT, in_pieces

SCHEMA = Schema("t", (Integer("x", 0, 99, missing=True),))
BY_ID = Schema("t", (Integer("x", 0, 99, missing=True),), Unit("id", "k", max_rows=1))
DOUBLED = "t"
for _ in range(9):
    DOUBLED = f"({DOUBLED} || {DOUBLED})"


def outcome(query: str, folder: Path, schema: Schema = SCHEMA, **columns: Any) -> tuple[str, str]:
    """What somebody outside sees of opening and reading a table."""
    pq.write_table(pa.table(columns), folder / "p.parquet")
    try:
        table = open_table(query.format(folder / "p.parquet"), schema)
    except SourceError as problem:
        return "refused", str(problem)
    with table:
        for _ in table.chunks():
            pass
    return "read", ""


BREAKS = [
    ("SELECT CAST(CAST(v AS BIGNUM) AS TINYINT) AS x FROM '{}'", SCHEMA, 1000, "BIGNUM"),
    (
        "SELECT CAST(CAST(CASE WHEN v = 666 THEN '\"a\"' END AS JSON) AS BIT) AS x FROM '{}'",
        *(SCHEMA, 666, "BIT"),
    ),
    ("SELECT v AS x, make_timestamp(v) AS k FROM '{}'", BY_ID, -(2**63) + 1000, "make_timestamp"),
    (f"SELECT length({DOUBLED}) AS x FROM (SELECT v, CAST(v AS VARCHAR) AS t FROM '{{}}')", SCHEMA, 7, "too long"),
    ("SELECT v AS x, epoch_ms(v) AS k FROM '{}'", BY_ID, -9223372030000000, "epoch_ms"),
    (
        "SELECT CASE WHEN v = 666 THEN date_diff('year', TIME '10:00', TIME '11:00') END AS x FROM '{}'",
        *(SCHEMA, 666, "date_diff"),
    ),
    ("SELECT CASE WHEN v = 666 THEN date_diff('era', NULL::DATE, NULL::DATE) END AS x FROM '{}'", SCHEMA, 666, "step"),
]


@pytest.mark.parametrize(("query", "schema", "value", "word"), BREAKS)
def test_a_stop_by_one_value_is_a_refusal_by_form(
    query: str, schema: Schema, value: int, word: str, tmp_path: Path
) -> None:
    """Each of these was accepted, and stopped only where somebody had the value."""
    with_it, without = (outcome(query, tmp_path, schema, v=[1, last]) for last in (value, 2))
    assert with_it == without
    assert with_it[0] == "refused"
    assert word in with_it[1]


@pytest.mark.parametrize("text", ["maybe", "2", "\x00", "infinity", "9" * 40])
def test_a_filter_that_is_no_truth_leaves_its_row_out(text: str, tmp_path: Path) -> None:
    """A text as a filter was cast outside the TRY: any text but true and false ended the pass."""
    pq.write_table(pa.table({"v": ["true", text, None]}), tmp_path / "p.parquet")
    with open_table(f"SELECT 1 AS x FROM '{tmp_path}/p.parquet' WHERE v", SCHEMA) as table:
        assert sum(chunk.rows for chunk in table.chunks()) == 1


def test_texts_grow_by_no_more_than_a_form_shows(tmp_path: Path) -> None:
    """Sixteen texts in one value, whichever way they come together."""
    twice = "SELECT {0} || {0} AS {1}{2} FROM "
    inside = "'{}'"
    for level in range(5):
        inside = "(" + twice.format(f"t{level}" if level else "t", f"t{level + 1}", "") + inside + ")"
    refused = [
        f"SELECT length(t5) AS x FROM {inside}",
        "SELECT t || t AS a, a || a AS b, b || b AS c, c || c AS d, d || d AS x FROM '{}'",
        "WITH q(a) AS (SELECT t || t || t || t FROM '{}') SELECT concat(a, a, a, a, a) AS x FROM q",
        "SELECT regexp_replace(t, '', 'seventeen letters', 'g') AS x FROM '{}'",
        "SELECT replace(t, 'a', '" + "b" * 17 + "') AS x FROM '{}'",
        "SELECT concat_ws(t, t, t, t, t, t, t, t, t, t) AS x FROM '{}'",
        "SELECT " + "nullif(" * 20 + "t" + ", 'a')" * 20 + " AS x FROM '{}'",
        "SELECT " + "fmod(" * 12 + "v" + ", 2)" * 12 + " AS x FROM '{}'",
        "SELECT v + v AS a1" + "".join(f", a{n} + a{n} AS a{n + 1}" for n in range(1, 30)) + ", a30 AS x FROM '{}'",
    ]
    started = time.process_time()  # work of this process alone: a busy machine makes no difference
    for query in refused:
        assert outcome(query, tmp_path, t=["a"], v=[1])[1].startswith("the SQL source may make texts"), query
    assert time.process_time() - started < 10
    for query in (
        "SELECT " + " || ".join(["t"] * 16) + " AS x FROM '{}'",
        "SELECT upper(trim(t)) || lower(t) AS a, replace(a, 'a', 'bb') AS x FROM '{}'",
        "SELECT regexp_replace(t, '[ \t]+', ' ', 'g') AS x FROM '{}'",
        "SELECT " + ", ".join(f"upper(trim(t)) AS x{n}" for n in range(200)) + ", v AS x FROM '{}'",
        "SELECT CASE " + " ".join(f"WHEN v = {n} THEN 'label {n}'" for n in range(300)) + " END AS x FROM '{}'",
    ):
        assert outcome(query, tmp_path, t=["a"], v=[1]) == ("read", ""), query


@pytest.mark.parametrize("signs", ["ab" * (1 << 20), "\U0001f600" * (1 << 18), "a" * (LONGEST_TEXT + 1)])
def test_a_long_text_is_cut_and_stops_nobody(signs: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["ab", signs], "b": [b"a", signs.encode()]}), tmp_path / "p.parquet")
    schema = Schema("t", (Integer("x", 0, 1 << 20, missing=True), Categorical("y", ("None",), missing=True)))
    query = f"SELECT length(t) AS x, CAST(b IS NULL AS VARCHAR) AS y FROM '{tmp_path}/p.parquet'"
    with open_table(query, schema) as table:
        lengths = [code for chunk in table.chunks() for code in chunk.column(0).tolist()]
    assert sorted(lengths) == [2, LONGEST_TEXT // 4]


def test_a_text_at_the_bound_is_whole(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["a" * LONGEST_TEXT]}), tmp_path / "p.parquet")
    schema = Schema("t", (Integer("x", 0, 1 << 20, missing=True),))
    with open_table(f"SELECT length(t) AS x FROM '{tmp_path}/p.parquet'", schema) as table:
        assert [code for chunk in table.chunks() for code in chunk.column(0).tolist()] == [LONGEST_TEXT]


def test_rows_are_worked_on_in_pieces_of_a_bounded_size() -> None:
    small = pa.record_batch({"t": pa.array(["a"] * 10_000, pa.large_string()), "n": range(10_000)})
    assert [piece.num_rows for piece in in_pieces(small)] == [10_000]
    texts = ["a" * 20_000] * 500 + ["b"] * 5000 + ["c" * (5 << 20)] * 2 + [None]
    for held in (pa.array(texts, pa.large_string()), pa.array(texts, pa.large_string()).dictionary_encode()):
        large = pa.record_batch({"t": held})
        pieces = list(in_pieces(large))
        assert sum(piece.num_rows for piece in pieces) == len(texts)
        assert pa.concat_arrays([piece.column(0) for piece in pieces]).to_pylist() == texts
        for piece in pieces:
            seen = sum(min(LONGEST_TEXT, len(text or "")) for text in piece.column(0).to_pylist())
            assert seen <= 1 << 19 or piece.num_rows == 1
        assert len(pieces) < 30  # a long text in a dictionary is no reason to work row by row


REFUSED = [
    *(f"CAST(s AS {kind})" for kind in ("BIGNUM", "BIT", "JSON", "UUID", "BLOB", "TIMESTAMP_NS", "UHUGEINT", "TIMETZ")),
    *(f"CAST(s AS {kind})" for kind in ("INTEGER[]", "STRUCT(a INTEGER)", "ENUM('a')", "MAP(VARCHAR, INTEGER)")),
    *("s::main.VARCHAR", "s::mine", "s::VARIANT", "s::GEOMETRY", "s::DECIMAL(s, 1)", "s::UNION(a INTEGER)"),
    *(
        "[s]",
        "[s]::VARCHAR",
        "row(s, s)",
        "(s, s) = (s, s)",
        "s COLLATE nocase",
        "99999999999999999999999999999999999999999",
    ),
    *("s LIKE s", "s ILIKE s", "s GLOB s", "s ~ s", "regexp_extract(s, s)", "translate(s, s, s)", "trim(s, s)"),
    *("strptime(s, s)", "strftime(TIMESTAMP '2020-01-01', s)", "date_trunc(s, DATE '2020-01-01')", "COLUMNS('s')"),
    *("regexp_matches(s, '((a{100}){100}){100}')", "regexp_matches(s, '(')", "make_timestamp(length(s))", "p"),
    "NOT " * 300 + "true",
    "(" * 300 + "s" + " || s)" * 300,
    *(
        "date_trunc('hour', TIME '10:00')",
        "date_sub('year', s::TIME, s::TIME)",
        "list_contains(s, s)",
        "s[1]",
        "s[1:2]",
    ),
]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_lies_beyond_the_closed_list_is_refused_whatever_the_rows(expression: str, tmp_path: Path) -> None:
    query = f"SELECT {expression.replace('{', '{{').replace('}', '}}')} AS x FROM '{{}}'"
    found = [outcome(query, tmp_path, s=pa.array(rows, pa.string())) for rows in ([], ["a"], ["9" * 70_000, None])]
    assert found[0][0] == "refused"
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("query", ["SELECT " + "abs(" * 5000 + "1" + ")" * 5000, "SELECT '" + "a" * (1 << 19) + "'"])
def test_a_query_that_is_too_deep_or_too_long_is_refused(query: str, tmp_path: Path) -> None:
    assert outcome(query + " AS x FROM '{}'", tmp_path, v=[1])[0] == "refused"


def test_a_pattern_counts_as_written_out() -> None:
    assert expanded("a") < expanded("a{50}") < expanded("(ab{5}){50}")
    assert expanded(r"^\d{4}-\d{2}-\d{2}$") < 100
    assert expanded("(aaaa[)]aaaa){1000}") > 8000
    assert expanded("([[:alpha:]]a){1000}") > 2000
    assert expanded(r"(a\)b){1000}") > 2000


@pytest.mark.parametrize(
    "value", ["[{}]", "{{'a': {}}}", "map([1], [{}])", "{}::VARIANT", "union_value(a := {})", "{}"]
)
@pytest.mark.parametrize("moment", ["make_timestamp(-9223372036854775000)", "make_timestamp(5)"])
def test_moments_beyond_the_calendar_stop_nobody(value: str, moment: str) -> None:
    """Such a moment within a list ended the pass, and the owner's own connection with it."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT {value.format(moment)} AS x, 1 AS k")
    for query, schema in (("SELECT x FROM t", SCHEMA), ("SELECT k AS x, x AS k FROM t", BY_ID), ("FROM t", BY_ID)):
        with open_table(connection.sql(query), schema) as table:
            assert sum(chunk.rows for chunk in table.chunks()) == 1
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("clock", ["current_date", "current_timestamp", "localtime", "CURRENT_TIME", "localtimestamp"])
def test_a_clock_is_no_column(clock: str, tmp_path: Path) -> None:
    """Another pass would read other rows."""
    assert "present moment" in outcome(f"SELECT {clock} AS x FROM '{{}}'", tmp_path, v=[1])[1]


def test_types_of_the_owner_are_read_as_texts() -> None:
    """Whatever types a table has, an expression sees its values in listed ones."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT 5::BIGNUM AS a, '101'::BIT AS b, '7'::JSON AS c, [1] AS d, {'a': 1} AS e, "
        "7::UHUGEINT AS f, uuid() AS g, TIME '10:00' AS h, INTERVAL 1 DAY AS i, 'u'::ENUM('u') AS j"
    )
    for name in "abcdefghij":
        with open_table(connection.sql(f"SELECT upper({name}::VARCHAR) AS x FROM t"), SCHEMA) as table:
            assert sum(chunk.rows for chunk in table.chunks()) == 1
