"""A table of PostgreSQL is read as the same rows in memory are: value by value, from one snapshot, without a word."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.laws.test_folds import BLOCKS, SCHEMA

import conspectus as cs
from conspectus.cli import run
from conspectus.counting.counters import Counting
from conspectus.data.fold import Fold, RowCount
from conspectus.data.sources import SourceError, Table
from conspectus.data.sources.postgres import copying, pages
from conspectus.queries.workload import Workload

from .postgres_server import Server

SECRET = "pneumonoultramicroscopic"
EDGES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN age AS int CHECK (VALUE > -100);
CREATE TABLE edges (b bool, i2 int2, i4 age, i8 int8, f4 float4, f8 float8, n numeric, t text, v varchar(9), c char(4),
    d date, ts timestamp, tz timestamptz, by bytea, u uuid, j jsonb, tm time, m mood, list int[])
"""
ROWS = [
    "(true, 1, 2, 3, 0.5, 0.25, 12.50, 'a', 'b', 'c', '2020-02-29', '2020-02-29 10:00', '2020-02-29 23:30-02', 'yes',"
    " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', '10:30', 'glad', '{1,2}')",
    f"({', '.join(['NULL'] * 19)})",
    "(false, -32768, -9, 9223372036854775807, 'NaN', 'Infinity', 'NaN', 'ü', '', '', 'infinity', '-infinity',"
    " 'infinity', '\\xff', NULL, '[]', '24:00', 'sad', NULL)",
    "(false, 32767, 7, -9223372036854775808, '-Infinity', -1e308, 1e40, ' 7 ', '?', '9', '4713-01-01 BC',"
    " '294276-12-31', '0001-01-01 BC', '', NULL, 'null', '00:00', 'sad', '{}')",
]
EDGE_SCHEMA = cs.Schema.from_dict(
    {
        "name": "edges",
        "null_values": ["?"],
        "columns": {
            "b": {"type": "boolean", "missing": True},
            "i2": {"type": "integer", "min": -5, "max": 5, "missing": True},
            "i4": {"type": "integer", "min": -5, "max": 9, "missing": True},
            "i8": {"type": "integer", "min": -5, "max": 5, "missing": True},
            "f4": {"type": "number", "edges": [0, 0.5, 1], "missing": True},
            "f8": {"type": "number", "edges": [0, 0.5, 1], "missing": True},
            "n": {"type": "number", "edges": [0, 12, 13, 99], "missing": True},
            "t": {"type": "categorical", "values": ["a", "ü", "7"], "other": True, "missing": True},
            "v": {"type": "categorical", "values": ["b"], "other": True, "missing": True},
            "c": {"type": "categorical", "values": ["c", "9"], "other": True, "missing": True},
            "d": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "month", "missing": True},
            "ts": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "day", "missing": True},
            "tz": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "width": "day", "missing": True},
            "by": {"type": "categorical", "values": ["yes"], "other": True, "missing": True},
            "m": {"type": "categorical", "values": ["sad", "glad"], "missing": True},
            "u": {"type": "categorical", "values": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], "missing": True},
        },
    }
)


def codes(table: Table) -> list[tuple[int, ...]]:
    """The rows as codes, in an order of their own."""
    width = len(table.domain)
    found = [row for chunk in table.chunks() for row in zip(*(chunk.column(c).tolist() for c in range(width)))]
    return sorted(found)


def python_rows(server: Server, names: list[str]) -> pa.Table:
    """The rows as another library reads them, dates of no calendar as missing."""
    columns = []
    for name in names:
        kind = server.run(f"SELECT pg_typeof({name})::text FROM edges LIMIT 1")[0][0]
        value = f"CASE WHEN isfinite({name}) AND {name} >= '0001-01-01' AND {name} < '9999-01-01' THEN {name} END"
        columns.append(value if kind in ("date", "timestamp without time zone", "timestamp with time zone") else name)
    values = [
        server.run(f"SELECT ({column})::text FROM edges" if name in ("m", "u", "n") else f"SELECT {column} FROM edges")
        for name, column in zip(names, columns)
    ]
    return pa.table({name: pa.array([row[0] for row in rows]) for name, rows in zip(names, values)})


@pytest.fixture(scope="module")
def edges(server: Server) -> Iterator[Server]:
    server.run(*EDGES.strip().split(";\n"), *(f"INSERT INTO edges VALUES {row}" for row in ROWS))
    yield server
    server.run("DROP TABLE edges", "DROP TYPE mood", "DROP DOMAIN age")


def test_every_type_reads_as_in_memory(edges: Server) -> None:
    names = list(EDGE_SCHEMA.domain.names)
    with cs.open_table(edges.address, EDGE_SCHEMA, table="edges") as far:
        assert codes(far) == codes(cs.open_table(python_rows(edges, names), EDGE_SCHEMA))


def test_rows_are_the_same_with_and_without_the_library_at_hand(edges: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with cs.open_table(edges.address, EDGE_SCHEMA, table="edges") as far:
        assert sys.platform != "linux" or copying.libpq() is not None
        expected = codes(far)
        monkeypatch.setattr(copying, "libpq", lambda: None)
        assert codes(far) == expected
        monkeypatch.undo()
        monkeypatch.setattr(copying, "BLOCK", 64)  # shorter than a row
        assert codes(far) == expected


def test_a_type_that_is_not_listed_is_refused_where_it_is_asked_for(edges: Server) -> None:
    schema = cs.Schema.from_dict({"name": "e", "columns": {"list": {"type": "boolean"}}})
    with pytest.raises(SourceError, match=r'column "list" .* has a type that is not read here'):
        cs.open_table(edges.address, schema, table="edges")


def copied(server: Server, rows: pa.Table, *, gone: bool = False) -> None:
    """Write rows into the table, and with `gone` some more that are to be deleted."""
    with (
        psycopg.connect(server.address, autocommit=True) as connection,
        connection.cursor() as cursor,
        cursor.copy('COPY "Folded" FROM STDIN') as copy,
    ):
        for row in zip(*(rows.column(name).to_pylist() for name in rows.column_names)):
            copy.write_row((*row, "x" * 100))
            if gone and row[0] == 5:
                copy.write_row((*row, "gone"))


@pytest.fixture(scope="module")
def folded(server: Server) -> Iterator[tuple[Server, pa.Table]]:
    """Rows over many pages, with holes where some were deleted."""
    draw = np.random.Generator(np.random.PCG64(5))
    size = 4000
    made = pa.table(
        {
            "a": draw.integers(0, 6, size),
            "b": draw.integers(0, 2, size).astype(bool),
            "c": draw.choice(["x", "y", "z", "w"], size),
            "d": draw.integers(0, 2, size).astype(bool),
        }
    )
    server.run('CREATE TABLE "Folded" (a int, b bool, c text, d bool, filler text)')
    copied(server, made, gone=True)
    server.run("""DELETE FROM "Folded" WHERE filler = 'gone'""")
    yield server, made
    server.run('DROP TABLE "Folded"')


@pytest.mark.parametrize("kind", BLOCKS)
def test_page_ranges_add_up_for_every_kind_of_block(
    folded: tuple[Server, pa.Table], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, rows = folded
    counting = Counting(Workload(SCHEMA.domain, BLOCKS[kind]))
    expected, count = cs.open_table(rows, SCHEMA).fold(counting)
    for ranges in (1, 16):
        monkeypatch.setattr(pages, "RANGES", ranges)
        with cs.open_table(server.address, SCHEMA, table="Folded") as far:
            found, seen = far.fold(Counting(Workload(SCHEMA.domain, BLOCKS[kind])))
        assert seen == count
        assert (found == expected).all()


def test_all_passes_see_one_snapshot_while_others_write(folded: tuple[Server, pa.Table]) -> None:
    server, rows = folded
    with cs.open_table(server.address, SCHEMA, table="Folded") as far:
        first = far.fold(RowCount())
        server.run("""INSERT INTO "Folded" SELECT 1, true, 'x', true, 'late' FROM generate_series(1, 5000)""")
        server.run("""UPDATE "Folded" SET c = 'y' WHERE a = 2""", """DELETE FROM "Folded" WHERE a = 3""")
        stopped = threading.Event()

        def insert() -> None:
            while not stopped.is_set():
                server.run("""INSERT INTO "Folded" VALUES (1, true, 'x', true, 'later')""")

        writer = threading.Thread(target=insert)
        writer.start()
        try:
            assert far.fold(RowCount()) == first == rows.num_rows
            assert codes(far) == codes(cs.open_table(rows, SCHEMA))
        finally:
            stopped.set()
            writer.join()
    # What was written is there, for whoever opens it now; the other tests want the old rows.
    with cs.open_table(server.address, SCHEMA, table="Folded") as later:
        assert later.fold(RowCount()) > first
    server.run('TRUNCATE "Folded"')
    copied(server, rows)


def test_nobody_can_exchange_the_table_while_it_is_open(folded: tuple[Server, pa.Table]) -> None:
    server, _ = folded
    with cs.open_table(server.address, SCHEMA, table="Folded"):
        for change in ("TRUNCATE {0}", "ALTER TABLE {0} ENABLE ROW LEVEL SECURITY", "ALTER TABLE {0} DROP COLUMN a"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                server.run("SET lock_timeout = '50ms'", change.format('"Folded"'))


def test_a_select_of_the_owner_runs_here(folded: tuple[Server, pa.Table]) -> None:
    server, rows = folded
    query = "SELECT a, b, CASE WHEN c = 'w' THEN 'x' ELSE c END AS c, NOT d AS d FROM \"Folded\" WHERE a < 4"
    with cs.open_table(server.address, SCHEMA, table=query) as far:
        assert far.filtered
        expected = [
            (a, int(b), "xyz".index("x" if c == "w" else c), int(not d))
            for a, b, c, d in zip(*(rows.column(name).to_pylist() for name in rows.column_names))
            if a < 4
        ]
        assert codes(far) == sorted(expected)
    assert "CASE" not in server.log()


def test_ids_keep_the_same_rows(server: Server) -> None:
    declared = {"name": "v", "unit": {"kind": "id", "column": "who", "max_rows": 2}}
    declared["columns"] = {"k": {"type": "integer", "min": 0, "max": 9}}
    schema = cs.Schema.from_dict(declared)
    server.run(
        "CREATE TABLE visits AS SELECT i * 7 % 300 AS who, i % 10 AS k FROM generate_series(1, 3000) AS i",
    )
    rows = server.run("SELECT who, k FROM visits")
    frame = pa.table({"who": [who for who, _ in rows], "k": [k for _, k in rows]})
    with cs.open_table(server.address, schema, table="visits") as far:
        assert codes(far) == codes(cs.open_table(frame, schema))
    server.run("DROP TABLE visits")


def test_partitions_are_read_and_what_is_no_table_is_refused(server: Server) -> None:
    schema = cs.Schema.from_dict({"name": "p", "columns": {"k": {"type": "integer", "min": 0, "max": 9}}})
    server.run(
        "CREATE TABLE parted (k int) PARTITION BY RANGE (k)",
        "CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (5) TO (10) PARTITION BY RANGE (k)",
        "CREATE TABLE parted_top PARTITION OF parted_high FOR VALUES FROM (5) TO (10)",
        "INSERT INTO parted SELECT i % 10 FROM generate_series(1, 1000) AS i",
        "CREATE VIEW seen AS SELECT * FROM parted",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM parted",
        "CREATE TABLE ruled (k int)",
        "CREATE RULE twice AS ON INSERT TO ruled DO INSTEAD NOTHING",
        "CREATE TABLE secured (k int)",
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY",
    )
    with cs.open_table(server.address, schema, table="parted") as far:
        assert far.fold(RowCount()) == 1000
        assert codes(far) == sorted((i % 10,) for i in range(1000))
    for name, why in (
        ("seen", "a view"),
        ("kept", "materialized views"),
        ("ruled", "rules"),
        ("secured", "row security"),
        ("nowhere", "no table"),
        ("", "name one"),
        ("SELECT * FROM parted AS a JOIN parted AS b USING (k)", "a join|one table"),
        ("SELECT k FROM parted LIMIT 1", "LIMIT"),
        ("SELECT k FROM 'rows.parquet'", "cannot be|one table|not a table|no table"),
    ):
        with pytest.raises(SourceError, match=why):
            cs.open_table(server.address, schema, table=name)
    server.run("DROP MATERIALIZED VIEW kept", "DROP VIEW seen", "DROP TABLE parted, ruled, secured")


class _Interrupted(Fold[int]):
    columns, records, gathers = (0,), False, False

    def start(self, threads: int = 1, pool: object = None) -> _Interrupted:
        return self

    def add(self, chunk: object) -> None:
        raise KeyboardInterrupt

    def vectors(self) -> tuple[()]:
        return ()

    def finish(self, vectors: object, rows: int) -> int:
        return rows


def test_a_pass_that_is_given_up_leaves_no_connection(folded: tuple[Server, pa.Table]) -> None:
    server, _ = folded
    before = threading.active_count()
    with cs.open_table(server.address, SCHEMA, table="Folded") as far:
        with pytest.raises(KeyboardInterrupt):
            far.fold(_Interrupted())
        others = "SELECT count(*) FROM pg_stat_activity WHERE application_name <> '' OR query ILIKE '%ctid%'"
        reading = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%ctid%' AND query NOT LIKE '%activity%'"
        assert server.run(others)
        assert server.run(reading)[0][0] == 0
        assert threading.active_count() <= before
        assert far.fold(RowCount()) > 0


def test_a_failure_says_nothing_of_rows_or_passwords(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    schema = cs.Schema.from_dict({"name": "s", "columns": {"t": {"type": "boolean"}}})
    server.run("CREATE TABLE secret (t text)", f"INSERT INTO secret VALUES ('{SECRET}')")
    wrong = server.address.replace("127.0.0.1", "127.0.0.1:1").replace(f":{server.port}", "", 1)
    said = []
    for address, table in (
        (wrong, "secret"),
        (server.address + "?nonsense=1", "secret"),
        ("postgresql://owner:not@to@be-seen@127.0.0.1/x", "secret"),
        ("postgresql://owner:not-to-be-seen#x@127.0.0.1/x", "secret"),
        (server.address, "absent"),
    ):
        with pytest.raises(SourceError) as caught:
            cs.open_table(address, schema, table=table)
        assert caught.value.__cause__ is None
        said.append(str(caught.value))
    with cs.open_table(server.address, schema, table="secret") as far:
        passes = far.chunks()
        others = "pid <> pg_backend_pid() AND datname IS NOT NULL"
        server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        with pytest.raises(SourceError) as caught:
            list(passes)
        said.append(str(caught.value))
    whole = "\n".join(said) + capfd.readouterr().err + server.log()
    assert SECRET not in whole.replace(f"VALUES ('{SECRET}')", "")
    for word in ("not-to-be-seen", "be-seen"):
        assert word not in "\n".join(said)
    server.run("DROP TABLE secret")


def test_the_command_line_drafts_and_releases(
    folded: tuple[Server, pa.Table],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, _ = folded
    data = f"{server.address}?table=Folded"
    assert run(["schema", "draft", data]) == 0
    drafted = capsys.readouterr().out
    assert 'name = "Folded"' in drafted
    (tmp_path / "schema.toml").write_text(drafted.replace("draft = true\n", ""))
    ledger = f"{server.address}?ledger=released"
    bound = ["--schema", str(tmp_path / "schema.toml")]
    assert run(["ledger", "init", ledger, *bound, "--epsilon", "1"]) == 0
    out = tmp_path / "folded.conspectus"
    asked = ["--marginal", "a,b", "--epsilon", "0.5", "--ledger", ledger, "-o", str(out)]
    assert run(["release", data, *bound, *asked]) == 0
    assert run(["release", data, *bound, *asked[:3], "0.75", *asked[4:]]) == 3
    session = ["session", data, *bound, "--path", str(tmp_path / "live"), "--ledger", ledger, "--epsilon", "0.25"]
    monkeypatch.setattr("sys.stdin", io.StringIO("b AND d\n"))
    assert run([*session, "--questions", "5"]) == 0
    shown = capsys.readouterr()
    assert "not-to-be-seen" not in shown.out + shown.err
    for file in tmp_path.rglob("*"):
        assert b"not-to-be-seen" not in file.read_bytes()
