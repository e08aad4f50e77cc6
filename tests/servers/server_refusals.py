"""Refusals of servers and clusters, one by one: what is asked of each of two neighbouring tables that lie there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from tests.refusals import Case, Side, heavier, narrower, threshold

import conspectus as cs
from conspectus.data.fold import RowCount
from conspectus.data.sources import Table
from conspectus.data.sources.origin import text
from conspectus.privacy.guarantee import Budget

from .postgres_server import Server

SOURCES = "data/sources/"
MADE = """
CREATE TABLE people (person text, sex text, age text, ill text);
CREATE VIEW seen AS SELECT * FROM people;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM people;
CREATE TABLE ruled AS SELECT * FROM people;
CREATE RULE twice AS ON INSERT TO ruled DO INSTEAD NOTHING;
CREATE TABLE secured AS SELECT * FROM people;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE TABLE parted (person text, sex text, age text, ill text) PARTITION BY LIST (sex);
CREATE TABLE guarded (person text, sex text, age text, ill text) PARTITION BY LIST (sex);
CREATE TABLE guarded_all PARTITION OF guarded DEFAULT;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE TABLE lists (person text, sex text, age int[], ill text);
"""


@dataclass(frozen=True)
class Far(Side):
    """One of two neighbouring tables in a database of its own, in which all names are the same."""

    server: Server | None = None
    name: str = ""

    def make(self) -> None:
        super().make()
        columns = ("person", "sex", "age", "ill")
        # A NUL is left out: no text of the server holds one.
        values = ["(" + ", ".join(text(row[c].replace("\x00", "")) for c in columns) + ")" for row in self.rows]
        filled = [f"INSERT INTO people VALUES {', '.join(values)}", "INSERT INTO guarded SELECT * FROM people"]
        self.run(*MADE.strip().split(";\n"), *filled)
        bound = {"schema_fingerprint": self.schema.fingerprint, "unit": str(self.schema.unit), "table": "people"}
        cs.Ledger.create(self.kept, budget=Budget(epsilon=1.0), neighbours=self.relation, **bound)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Statements in this side's own database; the rows of the last."""
        import psycopg

        found: list[tuple[Any, ...]] = []
        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.rstrip(";"))  # type: ignore[call-overload]
                found = cursor.fetchall() if cursor.description else []
        return found

    @property
    def address(self) -> str:
        assert self.server is not None
        return self.server.address.replace("/postgres", f"/{self.name}")

    @property
    def kept(self) -> str:
        """The ledger of this side, in its database."""
        return f"{self.address}?ledger=kept"

    def opened(self, table: str = "people", schema: cs.Schema | None = None, address: str | None = None) -> Table:
        return cs.open_table(address or self.address, schema or self.schema, table=table)

    @cached_property
    def table(self) -> Table:
        return self.opened()

    def spent(self) -> list[tuple[Any, ...]]:
        """What both of its ledgers say."""
        there = self.run("SELECT id, kind, price FROM kept.entries ORDER BY id")
        return [*there, *((entry.number, entry.kind, entry.price) for entry in cs.Ledger.open(self.ledger).entries())]


def terminated(side: Far) -> Any:
    """A server that ends its connections in the middle of a pass."""
    table = side.opened()
    passes = table.chunks()
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    side.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    return list(passes)


def foreign(side: Far) -> Any:
    """A database whose texts are written in an encoding that is not read here."""
    assert side.server is not None
    name = f"foreign_{side.name}"
    side.server.run(f"CREATE DATABASE {name} ENCODING 'EUC_JP' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        there = Far(side.place, side.rows, side.relation, side.unit, side.kind, server=side.server, name=name)
        there.run("CREATE TABLE people (person text, sex text, age text, ill text)")
        return there.opened()
    finally:
        side.server.run(f"DROP DATABASE {name} WITH (FORCE)")


def unrelated(side: Far) -> Any:
    """A ledger that somebody changed."""
    side.run("DROP TRIGGER IF EXISTS entries_follow ON kept.entries")
    try:
        return side.release(ledger=side.kept)
    finally:
        side.run(
            "CREATE TRIGGER entries_follow BEFORE INSERT ON kept.entries FOR EACH ROW EXECUTE FUNCTION kept.follows()"
        )


def _opens(name: str, site: str, act: Callable[[Far], Any]) -> Case:
    return Case(name, "SourceError", act, f"{SOURCES}{site}")  # type: ignore[arg-type]


POSTGRES: list[Case] = [
    _opens("no such table", "postgres/snapshot.py:Database._locked", lambda side: side.opened("nobody")),
    _opens("a materialized view", "postgres/snapshot.py:Database._locked", lambda side: side.opened("kept")),
    _opens(
        "an address that is none",
        "postgres/pages.py:open_postgres",
        lambda s: s.opened(address="postgresql://u:pa#ss@127.0.0.1/x"),
    ),
    _opens("another encoding", "postgres/snapshot.py:Database.__init__", foreign),
    _opens("no name", "postgres/pages.py:open_postgres", lambda side: side.opened("")),
    _opens("a view", "postgres/pages.py:Pages._leaf", lambda side: side.opened("seen")),
    _opens("rules", "postgres/pages.py:Pages._leaf", lambda side: side.opened("ruled")),
    _opens("row security", "postgres/pages.py:Pages._leaf", lambda side: side.opened("secured")),
    _opens("no partitions", "postgres/pages.py:Pages._parts", lambda side: side.opened("parted")),
    _opens("guarded partitions", "postgres/pages.py:Pages._parts", lambda side: side.opened("guarded")),
    _opens("a list", "postgres/pages.py:Pages.check", lambda side: side.opened("lists")),
    _opens("a missing column", "origin.py:Origin.column", lambda side: side.opened(schema=heavier(side))),
    _opens(
        "no server", "postgres/snapshot.py:_Guard.__exit__", lambda s: s.opened(address="postgresql://x@127.0.0.1:1/x")
    ),
    Case("a server that goes", "SourceError", terminated),  # type: ignore[arg-type]
    *(
        Case(f"SELECT {number}", "SourceError", lambda side, form=form: side.opened(form))  # type: ignore[attr-defined]
        for number, form in enumerate(
            (
                "SELECT * FROM people LIMIT 3",
                "SELECT a.* FROM people a JOIN people b USING (person)",
                "SELECT max(age) AS age, sex, ill, person FROM people GROUP BY sex, ill, person",
                "SELECT error(age) AS age, sex, ill, person FROM people",
                "SELECT * FROM nobody",
            )
        )
    ),
    Case("too much of a ledger there", "BudgetExceeded", lambda side: side.release(epsilon=2.0, ledger=side.kept)),  # type: ignore[attr-defined]
    Case(
        "another currency there",
        "LedgerMismatch",
        lambda side: side.release(delta=1e-6, mechanism="gaussian", ledger=side.kept),
    ),  # type: ignore[attr-defined]
    Case(
        "another schema there",
        "LedgerMismatch",
        lambda side: cs.release(
            side.opened(schema=narrower(side)),
            cs.marginals(narrower(side), 1),
            epsilon=0.5,
            mechanism="laplace",
            ledger=side.kept,
        ),
    ),  # type: ignore[attr-defined]
    Case("no ledger there", "LedgerError", lambda side: side.release(ledger=f"{side.address}?ledger=nobody")),  # type: ignore[attr-defined]
    Case("a changed ledger there", "LedgerError", unrelated),  # type: ignore[arg-type]
    Case("a session too large there", "BudgetExceeded", lambda side: side.session(epsilon=2.0, ledger=side.kept)),  # type: ignore[attr-defined]
]


FAR_COMMANDS = [
    ["release", "DATA?table=people", "--epsilon", "2", "--ledger", "DATA?ledger=kept", "--marginals", "2"],
    ["release", "DATA?table=people", "--epsilon", ".5", "--ledger", "DATA?ledger=nobody", "--marginals", "2"],
    ["release", "DATA?table=people", "--epsilon", ".5", "--ledger", "DATA?ledger=kept", "--marginals", "9"],
    ["release", "DATA?table=people", "--epsilon", ".5", "--mechanism", "gaussian", "--marginals", "2"],
    ["release", "DATA?table=nobody", "--epsilon", ".5", "--marginals", "2"],
    ["release", "DATA?table=secured", "--epsilon", ".5", "--marginals", "2"],
    ["release", "DATA?table=lists", "--epsilon", ".5", "--marginals", "2"],
    ["release", "DATA", "--epsilon", ".5", "--marginals", "2"],
    ["session", "DATA?table=people", "--epsilon", "2", "--ledger", "DATA?ledger=kept", "--path", "a.session"],
]
"""Commands whose data lie in a database, and their ledger; DATA is its address."""


@dataclass(frozen=True)
class Spread(Side):
    """One of two neighbouring tables as a frame of Spark over Parquet files."""

    cluster: Any = None

    @property
    def folder(self) -> Path:
        return self.place / "parts"

    def make(self) -> None:
        super().make()
        self.write(self.folder)

    def write(self, folder: Path) -> Path:
        folder.mkdir()
        whole = pa.Table.from_pandas(pd.DataFrame(self.rows), preserve_index=False)
        for part in range(2):
            pq.write_table(whole.slice(20 * part, 20 if part == 0 else None), folder / f"{part}.parquet")
        return folder

    @property
    def frame(self) -> Any:
        return self.cluster.read.parquet(str(self.folder))

    @cached_property
    def table(self) -> Table:
        return cs.open_table(self.frame, self.schema)

    def spent(self) -> list[tuple[Any, ...]]:
        return [(entry.number, entry.kind, entry.price) for entry in cs.Ledger.open(self.ledger).entries()]


def cut_short(side: Spread) -> Any:
    """A frame over a file that ends too early."""
    folder = side.write(side.place / "cut")
    try:
        frame = side.cluster.read.parquet(str(folder))
        file = folder / "1.parquet"
        file.write_bytes(file.read_bytes()[:-40])
        table = cs.open_table(frame, side.schema)
        return cs.release(table, side.asked, epsilon=0.5, mechanism="laplace", ledger=side.ledger)
    finally:
        shutil.rmtree(folder)


def changed(side: Spread) -> Any:
    """A frame whose file has other rows in the second pass."""
    folder = side.write(side.place / "changed")
    try:
        table = cs.open_table(side.cluster.read.parquet(str(folder)), side.schema)
        table.fold(RowCount())
        rows = pq.read_table(folder / "0.parquet")
        others = pa.array([f"{person}-too" for person in rows["person"].to_pylist()], rows["person"].type)
        more = rows.set_column(rows.column_names.index("person"), "person", others)
        pq.write_table(pa.concat_tables([rows, more]), folder / "0.parquet")
        return table.fold(RowCount())
    finally:
        shutil.rmtree(folder)


PLAN = "spark/spark_plan.py"


def _frames(name: str, site: str, change: Callable[[Spread, Any], Any]) -> Case:
    def act(side: Any) -> Any:
        return cs.open_table(change(side, side.frame), side.schema)

    return Case(name, "SourceError", act, f"{SOURCES}{site}")


def _functions() -> Any:
    from pyspark.sql import functions

    return functions


def _connect(side: Spread, frame: Any) -> Any:
    return type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "columns": frame.columns})()


SPARK: list[Case] = [
    _frames("a limit", f"{PLAN}:Plan.__init__", lambda side, frame: frame.limit(3)),
    _frames("a join", f"{PLAN}:Plan.__init__", lambda side, frame: frame.join(frame.select("person"), "person")),
    _frames("distinct rows", f"{PLAN}:Plan.__init__", lambda side, frame: frame.distinct()),
    _frames(
        "a cast",
        f"{PLAN}:_check_expression",
        lambda side, frame: frame.withColumn("age", frame.age.cast("int")),
    ),
    _frames("a draw", f"{PLAN}:_check_expression", lambda side, frame: frame.filter(_functions().rand() > 0.5)),
    _frames(
        "rows of Python",
        f"{PLAN}:Plan.__init__",
        lambda side, frame: side.cluster.createDataFrame(list(side.rows)),
    ),
    _frames(
        "rows in memory",
        f"{PLAN}:Plan.__init__",
        lambda side, frame: side.cluster.createDataFrame(pa.Table.from_pylist([dict(row) for row in side.rows])),
    ),
    _frames(
        "facts about files",
        "spark/scan.py:scan_of",
        lambda side, frame: frame.select("*", "_metadata"),
    ),
    _frames(
        "a CSV file",
        "spark/frame_files.py:check_files",
        lambda side, frame: side.cluster.read.csv(str(side.file), header=True),
    ),
    _frames("a frame of Connect", "spark/spark_table.py:SparkTable.__init__", _connect),
    _frames("a column less", "spark/spark_table.py:SparkTable._column", lambda side, frame: frame.drop("age")),
    _frames("a column twice", "spark/spark_table.py:SparkTable._column", lambda side, frame: frame.select("*", "age")),
    Case("a file that is cut", "SourceError", cut_short, f"{SOURCES}spark/spark_table.py:SparkTable._checked"),  # type: ignore[arg-type]
    Case("a frame that changes", "SourceError", changed, f"{SOURCES}spark/spark_table.py:SparkTable._checked"),  # type: ignore[arg-type]
    Case(
        "rows one by one",
        "FoldError",
        lambda side: next(iter(side.table.chunks())),
        f"{SOURCES}spark/spark_table.py:SparkTable.chunks",
    ),
    Case(
        "raw rows",
        "SourceError",
        lambda side: next(iter(side.table.raw([0]))),
        f"{SOURCES}spark/spark_table.py:SparkTable.raw",
    ),
    Case(
        "functions of all rows",
        "FoldError",
        lambda side: side.release(workload=cs.unsafe_functions(side.schema, {"f": (threshold, 1.0)}), rows=40),
        f"{SOURCES}spark/spark_table.py:SparkTable.fold",
    ),
    Case("too much", "BudgetExceeded", lambda side: side.release(epsilon=2.0)),
    Case("another currency", "LedgerMismatch", lambda side: side.release(delta=1e-6, mechanism="gaussian")),
    Case("a session too large", "BudgetExceeded", lambda side: side.session(epsilon=2.0)),
]
SITES = {case.site for case in (*POSTGRES, *SPARK) if case.site}
"""The places of these refusals."""
