"""One law for every source: the same rows give the same codes; and no row stops a release or shows itself."""

from __future__ import annotations

import datetime
import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conspectus.data.columns.kinds import Boolean, Categorical, Date, Integer, Number
from conspectus.data.domain import code_dtype
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError, Table, open_table
from conspectus.data.sources.origin import Connection
from conspectus.data.sources.rowwise import examine

SCHEMA = Schema(
    "people",
    (
        Integer("age", 0, 99, width=10, missing=True),
        Categorical("sex", ("M", "F"), other=True, missing=True),
        Number("paid", (0, 10, 100), missing=True),
        Boolean("ok", missing=True),
        Date("seen", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31), width="month", missing=True),
    ),
    null_values=("?",),
)
NAMES = [column.name for column in SCHEMA.columns]
Row = tuple[str | None, ...]


def rows_of(table: Table, **options: Any) -> Counter[tuple[int, ...]]:
    """The rows of a table as a multiset of codes."""
    found: Counter[tuple[int, ...]] = Counter()
    for chunk in table.chunks(**options):
        for position, column in enumerate(table.schema.columns):
            assert chunk.column(position).dtype == code_dtype(column.size)
        found.update(zip(*(chunk.column(position).tolist() for position in range(len(NAMES)))))
    return found


def expected(rows: list[Row]) -> Counter[tuple[int, ...]]:
    return Counter(
        tuple(column.code_of(value, SCHEMA.nulls) for column, value in zip(SCHEMA.columns, row)) for row in rows
    )


def csv_text(rows: list[Row], separator: str = ",") -> str:
    def cell(value: str | None) -> str:
        # A field of a CSV cannot hold a line break, and a space has the same meaning in this schema.
        return "" if value is None else '"' + value.replace('"', '""').replace("\n", " ") + '"'

    return "\n".join([separator.join(NAMES), *(separator.join(map(cell, row)) for row in rows)]) + "\n"


def arrow(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(NAMES)})


def as_csv(rows: list[Row], folder: Path) -> Any:
    (folder / "t.csv").write_text(csv_text(rows), encoding="utf-8")
    return folder / "t.csv"


def as_gzip(rows: list[Row], folder: Path) -> Any:
    (folder / "t.csv.gz").write_bytes(gzip.compress(csv_text(rows, ";").encode()))
    return str(folder / "t.csv.gz")


def as_parquet(rows: list[Row], folder: Path) -> Any:
    pq.write_table(arrow(rows), folder / "t.parquet")
    return folder / "t.parquet"


def as_relation(rows: list[Row], folder: Path) -> Any:
    connection = duckdb.connect()
    made = ", ".join(f"{name} VARCHAR" for name in NAMES)
    connection.execute(f"CREATE TABLE t ({made})")
    if rows:
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [list(row) for row in rows])
    return connection.table("t")


def as_query(rows: list[Row], folder: Path) -> Any:
    return f"SELECT * FROM '{as_parquet(rows, folder)}'"


SOURCES: dict[str, Callable[[list[Row], Path], Any]] = {
    "csv": as_csv,
    "csv.gz": as_gzip,
    "parquet": as_parquet,
    "relation": as_relation,
    "query": as_query,
    "arrow": lambda rows, folder: arrow(rows),
    "batch": lambda rows, folder: arrow(rows).combine_chunks().to_batches()[0] if rows else arrow(rows),
    "pandas": lambda rows, folder: pd.DataFrame(rows, columns=NAMES, dtype=object),
    "polars": lambda rows, folder: pl.from_arrow(arrow(rows)),
    "lazy": lambda rows, folder: pl.from_arrow(arrow(rows)).lazy(),
}

values = (
    st.none()
    | st.sampled_from(
        [
            "0",
            " 35",
            "99.9",
            "-4",
            "1e9",
            "M",
            "F ",
            "X",
            "?",
            "true",
            "no",
            "2020-02-03",
            "2021-01-01",
            "2020-02-31",
            "nan",
        ]
    )
    | st.text("aé,;\"'\n|0", min_size=1, max_size=4)
)
tables = st.lists(st.tuples(*[values] * len(NAMES)), max_size=12)


@pytest.mark.parametrize("kind", SOURCES)
@given(rows=tables)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_source_gives_the_same_codes(kind: str, rows: list[Row], tmp_path: Path) -> None:
    # A line of nothing but empty fields is still a row: its separators say so.
    with open_table(SOURCES[kind](rows, tmp_path), SCHEMA) as table:
        assert not table.filtered
        assert table.name == "people"
        assert table.domain == SCHEMA.domain
        assert rows_of(table) == expected(rows)
        assert rows_of(table, rows=3) == expected(rows)  # a second pass starts anew


def test_typed_columns_give_the_codes_of_their_texts(tmp_path: Path) -> None:
    typed = pa.table(
        {
            "age": pa.array([5, None, 250, -3], pa.int16()),
            "sex": pa.array(["M", "F", None, "X"]).dictionary_encode(),
            "paid": pa.array([1.5, float("nan"), 100.0, float("inf")], pa.float32()),
            "ok": pa.array([True, False, None, True]),
            "seen": pa.array([datetime.datetime(2020, 5, 6, 7), None, datetime.datetime(1999, 1, 1), None]),
        }
    )
    texts: list[Row] = [
        ("5", "M", "1.5", "true", "2020-05-06"),
        (None, "F", None, "false", None),
        ("250", None, "100", None, "1999-01-01"),
        ("-3", "X", None, "true", None),
    ]
    pq.write_table(typed, tmp_path / "t.parquet")
    for source in (typed, typed.to_pandas(), pl.from_arrow(typed), tmp_path / "t.parquet"):
        with open_table(source, SCHEMA) as table:
            assert rows_of(table) == expected(texts), type(source)
    odd = pa.table(
        {
            "age": pa.array([1, 2]).cast(pa.decimal128(25, 3)),
            "sex": pa.array([b"M", b"\xff"], pa.binary()),
            "paid": pa.array([[1], None]),
            "ok": pa.array([1.0, 0.0]),
            "seen": pa.array([datetime.time(1, 2), None]),
        }
    )
    with open_table(odd, SCHEMA) as table:
        assert rows_of(table) == expected([("1", "M", None, "1", None), ("2", None, None, "0", None)])


def test_a_file_may_be_named_like_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_csv(PEOPLE, tmp_path).rename(tmp_path / "with people.csv")
    as_parquet(PEOPLE, tmp_path).rename(tmp_path / "select people.parquet")
    monkeypatch.chdir(tmp_path)
    for name in ("with people.csv", "select people.parquet"):
        with open_table(name, SCHEMA) as table:
            assert rows_of(table) == expected(PEOPLE)


def test_only_the_asked_columns_are_read(tmp_path: Path) -> None:
    with open_table(as_csv([("5", "M", "1", "yes", None)] * 10, tmp_path), SCHEMA) as table:
        (chunk,) = table.chunks([1, 3])
        assert [codes is None for codes in chunk.columns] == [True, False, True, False, True]
        assert chunk.rows == 10
        assert sum(chunk.rows for chunk in table.chunks([])) == 10
        assert max(chunk.rows for chunk in table.chunks(rows=4)) <= 4
        assert not hasattr(table, "__len__")
        first, second = table.chunks(rows=2), table.chunks(rows=2)
        assert next(first).rows == next(second).rows == 2  # passes do not disturb one another


BROKEN = [
    ("short lines", b"age,sex,paid,ok,seen\n5\n6,M\n", [("5", *[None] * 4), ("6", "M", None, None, None)]),
    ("long lines", b"age,sex,paid,ok,seen\n5,M,1,1,2020-02-02,7,8\n", [("5", "M", "1", "1", "2020-02-02")]),
    ("blank lines", b"age,sex,paid,ok,seen\n\n5,M,1,1,?\n\n", [("5", "M", "1", "1", None)]),
    ("other line ends", b"age,sex,paid,ok,seen\r\n5,M,1,1,\r\n6,F,1,1,\r\n",
     [("5", "M", "1", "1", None), ("6", "F", "1", "1", None)]),
    ("no last line end", b"age,sex,paid,ok,seen\n5,M,1,1,?", [("5", "M", "1", "1", None)]),
    ("byte order mark", b"\xef\xbb\xbfage,sex,paid,ok,seen\n5,M,1,1,?\n", [("5", "M", "1", "1", None)]),
    ("wrong bytes", b"age,sex,paid,ok,seen\n5,\xff\xfe,1,1,?\n6,M\xe9,1,1,?\n7,M,1,1,?\n",
     [("5", None, "1", "1", None), ("6", None, "1", "1", None), ("7", "M", "1", "1", None)]),
    ("stray quotes", b'age,sex,paid,ok,seen\n5,"M"x,1,1,?\n6,F,1,1,?\n',
     [("5", "M", "1", "1", None), ("6", "F", "1", "1", None)]),
    ("lines within quotes", b'age,sex,paid,ok,seen\n5,"M\n",1,1,?\n',
     [("5", '"M', None, None, None), ('"', "1", "1", None, None)]),
    ("tabs and other columns", b"x\tseen\tok\tpaid\tsex\tage\n9\t?\t1\t1\tM\t5\n", [("5", "M", "1", "1", None)]),
    ("zero bytes", b"age,sex,paid,ok,seen\n5,\x00,1,1,?\n", [("5", "\x00", "1", "1", None)]),
    ("spaces", b"age, sex, paid, ok, seen\n 5, M , 1,\t1, ?\n", [("5", "M", "1", "1", None)]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "rows"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_no_line_of_a_csv_stops_a_release(content: bytes, rows: list[Row], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with open_table(tmp_path / "t.csv", SCHEMA) as table:
        assert rows_of(table) == expected(rows)


def test_no_row_decides_how_another_is_read() -> None:
    """Guessed types would let one odd value change what the others mean."""
    plain = pd.DataFrame(
        {"age": [1, 2], "sex": ["M", "F"], "paid": [1.0, 2.0], "ok": [True, False], "seen": ["?", "?"]}
    )
    odd = plain.astype(object)
    odd.loc[2] = ["many", 3, "x", "perhaps", 5]
    with open_table(plain, SCHEMA) as first, open_table(odd, SCHEMA) as second:
        assert rows_of(second) - rows_of(first) == expected([("many", "3", "x", "perhaps", "5")])


SECRET = "Ziegelstein"


def refusals(folder: Path) -> Iterator[tuple[str, Any, str]]:
    def file(name: str, content: bytes) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    line = f"{SECRET},{SECRET},{SECRET}\n".encode()
    yield "no header", file("no_header.csv", line * 3), "header"
    yield "empty", file("empty.csv", b""), "header"
    yield "picture", file("picture.csv", bytes(range(256)) * 9), "header"
    yield "missing column", file("few.csv", b"age,sex,paid,ok\n" + line), 'no column "seen"'
    yield "close name", file("close.csv", b"age,sex,paid,ok,sen\n" + line), 'did you mean "sen"'
    yield "twins", file("twins.csv", b"age,sex,paid,ok,seen,age\n" + line), "two columns"
    yield "name in two lines", file("two.csv", b'age,sex,paid,ok,"seen\n",x\n' + line), "quotation mark"
    yield "old line ends", file("old.csv", b"age,sex,paid,ok,seen,x\r" + line.replace(b"\n", b"\r")), "line feeds"
    yield "not gzip", file("x.csv.gz", line), "cannot be read"
    yield "cut gzip", file("y.csv.gz", gzip.compress(csv_text([(SECRET,) * 5] * 99).encode())[:-20]), "cannot be read"
    yield "not parquet", file("x.parquet", line * 9), "cannot be read as a table"
    yield "cut parquet", file("y.parquet", as_parquet([(SECRET,) * 5], folder).read_bytes()[:-9]), "cannot be read"
    yield "other ending", file("x.xlsx", line), "ends in"
    yield "folder", folder, "folder"
    yield "nothing there", folder / "none.csv", "no file"
    yield "no source", 7, "no source of rows"
    yield "reader", arrow([]).to_reader(), "only once"
    yield "case", arrow([(SECRET,) * 5]).rename_columns(["Age", *NAMES[1:]]), 'did you mean "Age"'
    yield "twins in memory", pa.table([pa.array([SECRET])] * 6, names=[*NAMES, "age"]), "two columns"


def test_a_refusal_shows_nothing_of_the_rows(tmp_path: Path) -> None:
    for name, source, message in refusals(tmp_path):
        with pytest.raises(SourceError) as problem:
            for _ in open_table(source, SCHEMA).chunks():
                pass
        said = str(problem.value)
        assert message in said, name
        assert SECRET not in said, name
        assert "\n" not in said, name
    with pytest.raises(SourceError, match="schema"):
        open_table(arrow([]), "people.toml")  # type: ignore[arg-type]


def test_a_damaged_file_found_midway_is_refused_without_its_rows(tmp_path: Path) -> None:
    path = as_parquet([(SECRET, str(n), None, None, None) for n in range(50_000)], tmp_path)
    content = bytearray(path.read_bytes())
    content[200:2000] = b"\xee" * 1800
    path.write_bytes(content)
    with pytest.raises(SourceError) as problem:
        for _ in open_table(path, SCHEMA).chunks():
            pass
    assert SECRET not in str(problem.value)
    assert problem.value.__cause__ is None
    assert problem.value.__suppress_context__


PEOPLE: list[Row] = [(str(age), sex, "5", "yes", "2020-05-05") for age in (5, 15, 25) for sex in "MF"]

ROWWISE = [
    ("SELECT * FROM t", False),
    ("FROM t", False),
    ("SELECT * REPLACE (upper(sex) AS sex) FROM t ORDER BY age", False),
    ("SELECT * FROM t WHERE sex = 'M' AND seen IS NOT NULL", True),
    ("SELECT * FROM (SELECT * FROM t WHERE sex IN ('M')) AS inside", True),
    ("WITH q AS (SELECT * FROM t) SELECT * FROM q", False),
    ("WITH q AS (SELECT * FROM t WHERE ok = 'yes') SELECT * FROM q", True),
    (
        "SELECT CAST(age AS INT) AS age, nullif(sex, 'F') AS sex, coalesce(paid, '1') AS paid, ok, seen FROM t",
        False,
    ),
    (
        "SELECT age, CASE WHEN sex = 'M' THEN 'F' END AS sex, paid, ok, seen FROM t WHERE age::INT BETWEEN 1 AND 20",
        True,
    ),
]
NOT_ROWWISE = [
    "SELECT * FROM t LIMIT 3",
    "SELECT * FROM t OFFSET 1",
    "SELECT DISTINCT * FROM t",
    "SELECT DISTINCT ON (sex) * FROM t",
    "SELECT max(age) AS age, sex, max(paid) AS paid, max(ok) AS ok, max(seen) AS seen FROM t GROUP BY sex",
    "SELECT max(age) AS age, 'M' AS sex, 1 AS paid, true AS ok, '?' AS seen FROM t",
    "SELECT count(*) FILTER (WHERE sex = 'M') AS age, 'M' AS sex, 1 AS paid, true AS ok, '?' AS seen FROM t",
    "SELECT t.* FROM t, t AS u",
    "SELECT t.* FROM t JOIN t AS u ON t.age = u.age",
    "SELECT t.* FROM t POSITIONAL JOIN t AS u",
    "SELECT t.* FROM t SEMI JOIN t AS u ON t.age < u.age",
    "SELECT * FROM t UNION ALL SELECT * FROM t",
    "SELECT * FROM t EXCEPT SELECT * FROM t",
    "SELECT * FROM t TABLESAMPLE 50%",
    "SELECT * FROM t USING SAMPLE 3",
    "SELECT * FROM t QUALIFY row_number() OVER () < 3",
    "SELECT * REPLACE (row_number() OVER () AS age) FROM t",
    "SELECT * REPLACE (unnest([1, 2]) AS age) FROM t",
    "SELECT t.* FROM t, unnest([1, 2])",
    "SELECT * FROM t WHERE age::INT > (SELECT avg(age::INT) FROM t)",
    "SELECT * FROM t WHERE age IN (SELECT age FROM t)",
    "SELECT * FROM t WHERE EXISTS (FROM t)",
    "SELECT * FROM t WHERE random() < 0.5",
    "SELECT * FROM t WHERE rowid < 2",
    "SELECT * REPLACE (stats(age) AS age) FROM t",
    "WITH q AS (SELECT * FROM t LIMIT 2) SELECT * FROM q",
    "SELECT * FROM (SELECT * FROM t LIMIT 2) AS q",
    "WITH RECURSIVE q AS (SELECT * FROM t UNION ALL SELECT * FROM q WHERE false) SELECT * FROM q",
    "SELECT * FROM few",
    "SELECT * FROM fewer",
    "SELECT * FROM odd_macro()",
    "SELECT * REPLACE (odd(age) AS age) FROM t",
    "PIVOT t ON sex USING count(*)",
    "SELECT * FROM (VALUES ('1', 'M', '1', 'yes', '?')) v(age, sex, paid, ok, seen)",
    "SELECT * FROM range(3)",
]


@pytest.fixture(scope="module")
def connection() -> Any:
    made = duckdb.connect()
    made.execute("CREATE TABLE t (age VARCHAR, sex VARCHAR, paid VARCHAR, ok VARCHAR, seen VARCHAR)")
    made.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [list(row) for row in PEOPLE])
    made.execute("CREATE VIEW all_rows AS SELECT * FROM t WHERE sex = 'M'")
    made.execute("CREATE VIEW few AS SELECT * FROM t LIMIT 2")
    made.execute("CREATE VIEW fewer AS SELECT * FROM few")
    made.execute("CREATE MACRO odd(x) AS (SELECT max(age) FROM t)")
    made.execute("CREATE MACRO odd_macro() AS TABLE SELECT * FROM t LIMIT 1")
    return made


@pytest.fixture(scope="module")
def ours() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.close()


@pytest.mark.parametrize(("query", "filtered"), ROWWISE)
def test_queries_that_map_each_row_are_served(query: str, filtered: bool, connection: Any, tmp_path: Path) -> None:
    true = Counter(tuple(map(str, row)) for row in connection.sql(query).fetchall())
    relation = open_table(connection.sql(query), SCHEMA)
    csv, parquet = as_csv(PEOPLE, tmp_path), as_parquet(PEOPLE, tmp_path)
    over_csv = open_table(query.replace("FROM t", f"FROM '{csv}' AS t"), SCHEMA)
    over_parquet = open_table(query.replace("FROM t", f"FROM read_parquet('{parquet}') AS t"), SCHEMA)
    rows: list[Row] = [tuple(None if v == "None" else v for v in row) for row in true.elements()]
    for table in (relation, over_csv, over_parquet):
        assert table.filtered is filtered
        assert rows_of(table) == expected(rows)
        table.close()


@pytest.mark.parametrize("query", NOT_ROWWISE)
def test_queries_that_mix_rows_are_refused(query: str, connection: Any, ours: Connection) -> None:
    with pytest.raises(SourceError) as problem:
        open_table(connection.sql(query), SCHEMA)
    assert "\n" not in str(problem.value)
    if "FROM t" in query and not query.startswith("PIVOT"):
        with pytest.raises(SourceError):
            examine(query.replace("FROM t", "FROM 't.parquet' AS t"), ours.run)


def test_relations_built_by_methods(connection: Any, tmp_path: Path) -> None:
    table = connection.table("t")
    served = open_table(table.filter("sex = 'M'").project("*"), SCHEMA)
    assert served.filtered
    assert rows_of(served) == expected([row for row in PEOPLE if row[1] == "M"])
    assert open_table(connection.view("all_rows"), SCHEMA).filtered
    assert rows_of(open_table(connection.read_parquet(str(as_parquet(PEOPLE, tmp_path))), SCHEMA)) == expected(PEOPLE)
    assert rows_of(open_table(connection.read_csv(str(as_csv(PEOPLE, tmp_path))), SCHEMA)) == expected(PEOPLE)
    frame = arrow(PEOPLE)
    for mixing in (
        table.limit(2),
        table.distinct(),
        table.union(table),
        table.aggregate("max(age) AS age, sex, max(paid) AS paid, max(ok) AS ok, max(seen) AS seen", "sex"),
        table.join(table.set_alias("u"), "age"),
        connection.view("few"),
        connection.from_arrow(frame),
        connection.sql("SELECT * FROM frame"),
    ):
        with pytest.raises(SourceError):
            open_table(mixing, SCHEMA)


def test_a_csv_inside_sql_takes_its_types_from_the_schema(tmp_path: Path) -> None:
    """Guessed types would turn the whole column into text because of one odd value, or stop at it."""
    rows: list[Row] = [
        ("5", "007", "2", "yes", "2020-05-05"),
        ("15", "M", "3", "no", "?"),
        ("old", "F", "x", "no", "soon"),
    ]
    path = as_csv(rows, tmp_path)
    table = open_table(f"SELECT * FROM '{path}' WHERE age > 4 AND seen >= DATE '2020-01-01'", SCHEMA)
    assert rows_of(table) == expected(rows[:1])
    table = open_table(f"SELECT * FROM read_csv('{path}', header = true) AS t WHERE t.paid < 10", SCHEMA)
    assert rows_of(table) == expected(rows[:2])
    for options in (
        "header = false",
        "header = true, skip = 1",
        "header = true, ignore_errors = true",
        "filename = true",
    ):
        with pytest.raises(SourceError, match="option"):
            open_table(f"SELECT * FROM read_csv('{path}', {options})", SCHEMA)
    for query in (
        "SELECT * FROM 'none.csv'",
        "SELECT * FROM read_json('x.json')",
        "SELECT * FROM",
        "SELECT 1; SELECT 2",
    ):
        with pytest.raises(SourceError):
            open_table(query, SCHEMA)


def test_memory_stays_with_the_chunk_and_not_with_the_table(tmp_path: Path) -> None:
    """A pass over four million rows never holds more than a few chunks of them in Arrow, however far it reads ahead."""
    count = 4_000_000
    rng = np.random.Generator(np.random.PCG64(5))
    schema = Schema("wide", (Integer("a", 0, 99), Integer("b", 0, 99)))
    big = pa.table({"a": rng.integers(0, 100, count), "b": rng.integers(0, 100, count)})
    pq.write_table(big, tmp_path / "big.parquet", row_group_size=50_000)
    true = np.bincount(big["a"].to_numpy(), minlength=100)
    whole = big.nbytes
    del big
    before = pa.total_allocated_bytes()
    counts = np.zeros(100, dtype=np.int64)
    with open_table(tmp_path / "big.parquet", schema) as table:
        for chunk in table.chunks(rows=1 << 16):
            counts += np.bincount(chunk.column(0), minlength=100)
            assert pa.total_allocated_bytes() - before < whole / 4
    assert (counts == true).all()


def test_what_is_put_aside_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "aside"))
    (tmp_path / "aside").mkdir()
    (tmp_path / "t.csv").write_bytes(b"age,sex,paid,ok,seen\n5,\xff,1,1,?\n")
    table = open_table(tmp_path / "t.csv", SCHEMA)
    assert sum(rows_of(table).values()) == 1
    assert any((tmp_path / "aside").iterdir())
    table.close()
    assert not any((tmp_path / "aside").iterdir())


def test_an_id_unit_needs_its_column(tmp_path: Path) -> None:
    schema = Schema("people", SCHEMA.columns, Unit("id", "patient", 2))
    with pytest.raises(SourceError, match='no column "patient"'):
        open_table(as_csv(PEOPLE, tmp_path), schema)
