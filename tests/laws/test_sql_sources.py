"""SQL as a source: nothing stands in the place of the rows, and no value stops a pass or shows itself."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conspectus.data.columns.kinds import Integer
from conspectus.data.schema import Schema
from conspectus.data.sources import SourceError, open_table
from conspectus.data.sources.origin import Connection, fresh
from conspectus.data.sources.sql_functions import FUNCTIONS

SCHEMA = Schema("t", (Integer("x", 0, 99, missing=True),))
MISSING = 100


def codes(source: Any, schema: Schema = SCHEMA) -> Counter[int]:
    found: Counter[int] = Counter()
    with open_table(source, schema) as table:
        for chunk in table.chunks():
            found.update(chunk.column(0).tolist())
    return found


def csv(folder: Path, *values: object) -> Path:
    (folder / "p.csv").write_text("\n".join(["x,s", *(f"{value},{value}" for value in values), ""]), encoding="utf-8")
    return folder / "p.csv"


def parquet(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "p.parquet")
    return folder / "p.parquet"


MANY = "SELECT x FROM read_csv('{file}', all_varchar = true), range(1000)"
CAPTURES = [
    "WITH {name} AS (" + MANY + ") SELECT x FROM '{file}'",
    "SELECT x FROM (WITH {name} AS (" + MANY + ") SELECT x FROM '{file}')",
    "WITH {name} AS (" + MANY + "), q AS (SELECT x FROM '{file}') SELECT x FROM q",
    "WITH q AS (WITH {name} AS (" + MANY + ") SELECT x FROM '{file}') SELECT x FROM q",
    "WITH {name} AS (SELECT count(*) AS x FROM '{file}') SELECT x FROM '{file}'",
    "WITH {name} AS (SELECT x FROM '{file}') SELECT x FROM '{file}'",
]


NAMES = ["_lines", "_source", "_rows_0", "_lines_0", "_asked_0", '"p"', '"p.csv"']


@pytest.mark.parametrize(
    ("query", "name"), [*((query, "_csv") for query in CAPTURES), *((CAPTURES[0], name) for name in NAMES)]
)
def test_no_name_stands_in_the_place_of_the_file(query: str, name: str, tmp_path: Path) -> None:
    """What nothing reads used to be accepted unexamined, and took the place of the rows by its name."""
    for file in (csv(tmp_path, 1, 2, 3), parquet(tmp_path, x=[1, 2, 3])):
        with pytest.raises(SourceError):
            codes(query.format(name=name, file=file))
    assert codes(f"WITH {name} AS (SELECT x FROM '{file}') SELECT x FROM {name}") == Counter([1, 2, 3])


def test_fresh_names_are_mentioned_nowhere() -> None:
    assert fresh("_rows", "select 1") == "_rows_0"
    assert fresh("_rows", "WITH _ROWS_0 AS (FROM t)", '"_rows_1"') == "_rows_2"


@pytest.mark.parametrize("name", ["nullif", "if", "upper", "greatest"])
def test_a_name_that_the_owner_has_given_another_meaning_is_refused(name: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS x FROM range(5)")
    call = f"SELECT {name}(x, 0, 0) AS x FROM t" if name == "if" else f"SELECT {name}(x, 0) AS x FROM t"
    if name != "upper":
        assert codes(connection.sql(call)).total() == 5
    parameters = "a, b, c" if name == "if" else "a, b"
    connection.execute(f"CREATE MACRO {name}({parameters}) AS (SELECT max(x) FROM t)")
    with pytest.raises(SourceError, match=f"the function {name}"):
        codes(connection.sql(call))


def test_only_listed_functions_are_known(tmp_path: Path) -> None:
    path = parquet(tmp_path, x=[1], s=["a"])
    for call in (
        "error(s)", "random()", "repeat(s, x)", "lpad(s, x, 'a')", "getvariable('a')", "stats(s)", "range(x)",
        "current_setting(s)", "write_log(s)", "replace(s, 'a', s)", "regexp_replace(s, s, 'a')", "date_part(s, x)",
        "main.upper(s)", "s[1:2:0]", "s LIKE 'a' ESCAPE s", "list_transform([x], lambda e: e)", "uuid()", "now()",
        "regexp_matches('7', s)",
    ):  # fmt: skip
        with pytest.raises(SourceError):
            codes(f"SELECT {call} AS x FROM '{path}'")
    known = {name.casefold() for (name,) in Connection().run("SELECT function_name FROM duckdb_functions()")}
    assert known >= FUNCTIONS


ODD = [None, "7", "n/a", "", "2020-01-31", "9" * 40, "-1", "é(", "\\", "infinity", "x" * 3000]
FAILING = [
    "strptime(s, '%d')::VARCHAR",
    "day(strptime(s, '%Y-%m-%d'))",
    "s::INT",
    "s::DOUBLE::INT + 2147483647",
    "date_part('week', s::DATE)",
    "regexp_extract(s, '[0-9]+')::INT",
    "i * 12",
    "-i",
    "i + 1",
    "chr(i::INT)",
    "ln(i)",
    "sqrt(i)",
    "i % 0",
    "CASE WHEN s::BIGINT > 3 THEN i * 12 ELSE 2 END",
    "make_date(i, i, i)::VARCHAR",
    "to_days(i::INT)::VARCHAR",
    "epoch(d)::INT",
    "date_diff('day', d, DATE '2020-01-01')",
    "weekday(d)",
    "weekday(d - INTERVAL 1 DAY)",
    "year(d + INTERVAL 100000 YEAR)",
    "coalesce(s::INT, i * 12, 3)",
]
NUMBERS = [None, 7, 2**62, -(2**63), 0, -1, 2**63 - 1, 5, 3, 1, 2]
DAYS = ["2020-01-31", None, "5881580-07-10", "infinity", "-infinity", "0001-01-01", *["2020-02-02"] * 5]


def owned() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (s VARCHAR, i BIGINT, d DATE)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row) for row in zip(ODD, NUMBERS, DAYS)])
    return connection


def test_an_expression_that_fails_on_a_row_is_missing_there() -> None:
    """One row at a time or all together: the same codes, and no failure. Twice, so that parts could be shared."""
    twice = [*FAILING, *FAILING]
    schema = Schema("t", tuple(Integer(f"x{place}", 0, 99, missing=True) for place in range(len(twice))))
    query = f"SELECT {', '.join(f'{part} AS x{place}' for place, part in enumerate(twice))} FROM t"

    def rows(connection: Any) -> Counter[Any]:
        found: Counter[Any] = Counter()
        with open_table(connection.sql(query), schema) as table:
            for chunk in table.chunks():
                found.update(zip(*(chunk.column(place).tolist() for place in range(len(twice)))))
        return found

    together, alone = rows(owned()), Counter[Any]()
    for place in range(len(ODD)):
        connection = owned()
        connection.execute(f"DELETE FROM t WHERE rowid <> {place}")
        alone += rows(connection)
    assert together == alone
    assert together.total() == len(ODD)


def test_a_filter_that_fails_on_a_row_leaves_it_out(tmp_path: Path) -> None:
    connection = owned()
    for expression in FAILING:
        kept = codes(connection.sql(f"SELECT i AS x FROM t WHERE ({expression}) IS NOT NULL"))
        assert kept.total() <= len(ODD)
    connection.execute("CREATE VIEW v AS SELECT * FROM t")
    connection.execute("CREATE VIEW w AS SELECT s::INT AS x FROM v WHERE s::INT > 3")
    assert codes(connection.view("w")) == Counter([7])
    path = parquet(tmp_path, s=ODD)
    assert codes(f"SELECT s::INT AS x FROM '{path}' WHERE s::INT > 3") == Counter([7])


def test_an_optimizer_would_move_a_failure_out_of_its_try() -> None:
    """The twin: with all optimizers one shared product fails for everybody, with ours it fails for its row alone."""
    made = "CREATE TABLE t AS SELECT CASE range WHEN 777 THEN 4611686018427387904 ELSE range END AS x FROM range(3000)"
    query = "SELECT TRY(x * 12 + 1) AS a, TRY(x * 12 + 2) AS b FROM t"
    twin = duckdb.connect()
    twin.execute(made)
    with pytest.raises(duckdb.OutOfRangeException):
        twin.sql(query).fetchall()
    ours = Connection()
    ours.run(made)
    rows = ours.run(query)
    assert sum(a is None for a, _ in rows) == sum(b is None for _, b in rows) == 1
    ours.close()


def test_the_named_leaks_are_closed(tmp_path: Path) -> None:
    for s, query in (
        (["2020-01-01", "2020-01-02", "n/a"], "SELECT day(strptime(s, '%Y-%m-%d')) AS x FROM '{}'"),
        ([1, 2, 2**62], "SELECT s // 1 * 12 // 12 AS x FROM '{}'"),
    ):
        path = parquet(tmp_path, s=s)
        assert codes(query.format(path)) == Counter([1, 2, MISSING])
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest(['1', '2', 'n/a']) AS s")
    assert codes(connection.sql("SELECT s::INT AS x FROM t")) == Counter([1, 2, MISSING])


def test_a_query_runs_as_it_was_examined(tmp_path: Path) -> None:
    """Settings, views and names of the owner's connection do not reach it."""
    connection = owned()
    connection.execute("CREATE SCHEMA o; CREATE TABLE o.t AS SELECT 5 AS x; CREATE VIEW o.v AS SELECT * FROM t")
    with pytest.raises(SourceError, match="another schema"):
        codes(connection.sql("SELECT * FROM o.v"))
    assert codes(connection.sql("SELECT x FROM o.t")) == Counter([5])
    assert codes(connection.sql("SELECT a AS x FROM o.t AS u(a)")) == Counter([5])
    connection.execute("CREATE TABLE _asked_0 AS SELECT 1 AS x; CREATE TABLE _rows_0 AS SELECT 2 AS x")
    assert codes(connection.sql("FROM _asked_0")) == Counter([1])
    assert codes(connection.sql("WITH q AS (FROM _rows_0) FROM q")) == Counter([2])
    connection.execute("CREATE TABLE h AS SELECT 3::HUGEINT AS x, TIME '10:00' AS clock, [1] AS many")
    assert codes(connection.sql("FROM h")) == Counter([3])
    assert codes(connection.sql("SELECT hour(clock::TIME) AS x FROM h")) == Counter([10])


def test_a_table_that_computes_its_columns_is_refused() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (s VARCHAR, x INTEGER AS (s::INTEGER)); CREATE VIEW v AS SELECT x FROM t")
    for source in (connection.table("t"), connection.view("v")):
        with pytest.raises(SourceError, match="generated columns"):
            codes(source)
    connection.execute('CREATE TABLE "a.b" AS SELECT 5 AS x')
    assert codes(connection.sql('SELECT "a.b".x FROM "a.b"')) == Counter([5])


def test_passes_over_a_relation_do_not_disturb_one_another() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 7 AS x FROM range(2_000_000)")
    with open_table(connection.table("t"), SCHEMA) as table:
        passes = [table.chunks(rows=10_000) for _ in range(3)]
        read = [[0 if chunk is None else chunk.rows for chunk in chunks] for chunks in zip_longest(*passes)]
    assert [sum(rows) for rows in zip(*read)] == [2_000_000] * 3


def test_long_texts_of_an_owner_are_cut_by_functions_that_nobody_gave_another_meaning() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT unnest([repeat('é', 20_000), repeat('x', 32_768), 'x']) AS s")
    for macro in ("strlen(a) AS 0", '"left"(a, b) AS 1', "isfinite(a) AS false"):
        connection.execute(f"CREATE MACRO {macro}")
    schema = Schema("t", (Integer("x", 0, 99_999, missing=True),))
    assert codes(connection.sql("SELECT length(s) AS x FROM t"), schema) == Counter([8192, 32_768, 1])


def test_all_files_of_a_pattern_are_read(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        pq.write_table(pa.table({"x": [value], "l": [[1]]}), tmp_path / f"{name}.parquet")
    for source in (tmp_path / "*.parquet", f"SELECT * FROM '{tmp_path}/*.parquet'"):
        assert codes(source) == Counter([1, 2])
    pq.write_table(pa.table({"x": ["3"], "l": [[1]]}), tmp_path / "c.parquet")
    for source in (tmp_path / "*.parquet", f"SELECT * FROM '{tmp_path}/*.parquet'"):
        assert codes(source) == Counter([1, 2, 3])
    with pytest.raises(SourceError, match="no file"):
        codes(f"SELECT * FROM '{tmp_path}/no*.parquet'")
