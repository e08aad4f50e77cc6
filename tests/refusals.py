"""Refusals, one by one: what is asked, and what the answer has to be on each of two neighbouring tables."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

import conspectus as cs
from conspectus.data.sources import Table, many_files
from conspectus.privacy.guarantee import Budget
from conspectus.queries.workload import Workload

PEOPLE = [
    {"person": str(i // 2), "sex": "fm"[i % 2], "age": str((7 * i) % 40), "ill": str(i % 5 == 0).lower()}
    for i in range(40)
]
ODD = {"sex": 'it\'s "nobody"', "age": "-99999999999999999999", "ill": "maybe\x00"}
SETTINGS = [(relation, unit) for relation in ("replace", "add-remove") for unit in ("row", "id")]
SOURCES = ("csv", "parquet", "frame")


def neighbours(relation: str, unit: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Two tables that one unit tells apart, in ways that no schema allows for."""
    odd = [{"person": "3", **ODD}]
    if unit == "id":
        odd += [{"person": "3", "sex": "m", "age": str(age), "ill": ""} for age in range(3)]
    others = [row for place, row in enumerate(PEOPLE) if (row["person"] != "3" if unit == "id" else place != 6)]
    return (PEOPLE if relation == "replace" else others), [*others, *odd]


@dataclass(frozen=True)
class Side:
    """One of the two tables, in a folder of its own in which all names are the same."""

    place: Path
    rows: list[dict[str, str]]
    relation: str
    unit: str
    kind: str

    @cached_property
    def schema(self) -> cs.Schema:
        return cs.Schema.from_dict(self.declared)

    @property
    def declared(self) -> dict[str, Any]:
        unit = {"kind": "row"} if self.unit == "row" else {"kind": "id", "column": "person", "max_rows": 2}
        columns = {
            "sex": {"type": "categorical", "values": ["f", "m"], "other": True},
            "age": {"type": "integer", "min": 0, "max": 39, "width": 10},
            "ill": {"type": "boolean", "missing": True},
        }
        return {"name": "people", "unit": unit, "neighbours": self.relation, "columns": columns}

    @property
    def ledger(self) -> Path:
        return self.place / "people.ledger"

    @cached_property
    def source(self) -> Any:
        """The rows as this kind of source."""
        if self.kind == "frame":
            return pd.DataFrame(self.rows)
        return self.file if self.kind == "csv" else self.parquet

    @property
    def file(self) -> Path:
        return self.place / "people.csv"

    @property
    def parquet(self) -> Path:
        return self.place / "people.parquet"

    @cached_property
    def table(self) -> Table:
        return cs.open_table(self.source, self.schema)

    @cached_property
    def asked(self) -> Workload:
        return cs.marginals(self.schema, 2)

    def make(self) -> None:
        """Write everything down."""
        (self.place / "folder").mkdir(parents=True)
        frame = pd.DataFrame(self.rows)
        frame.to_csv(self.file, index=False)
        frame.to_parquet(self.parquet)
        (self.place / "people.toml").write_text(toml(self.declared))
        bound = {"schema_fingerprint": self.schema.fingerprint, "unit": str(self.schema.unit), "table": "people"}
        cs.Ledger.create(self.ledger, budget=Budget(epsilon=1.0), neighbours=self.relation, **bound)

    def release(self, **asked: Any) -> Any:
        """A release with all that is asked for, and one's own table and questions."""
        asked = {"epsilon": 0.5, "ledger": self.ledger, "mechanism": "laplace"} | asked
        return cs.release(self.table, asked.pop("workload", self.asked), **asked)

    def session(self, **asked: Any) -> Any:
        return cs.open_session(self.table, **{"epsilon": 0.5, "mechanism": "perceptron", "ledger": self.ledger} | asked)

    def put(self, question: Any, **asked: Any) -> Any:
        """Put a question to a session that costs nothing until then."""
        with self.session(ledger=None) as session:
            return session.ask(question, **asked)


@dataclass(frozen=True)
class Case:
    """A refusal: the class of its error, where it is raised if rows can be seen there, and how to get it."""

    name: str
    kind: str
    act: Callable[[Side], Any]
    site: str = ""


def toml(declared: dict[str, Any]) -> str:
    """A declaration as a schema file."""
    lines = [f"{key} = {json.dumps(declared[key])}" for key in ("name", "neighbours")]
    tables = {"unit": declared["unit"], **{f"columns.{name}": each for name, each in declared["columns"].items()}}
    for name, fields in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items())]
    return "\n".join(lines)


def cut(path: Path) -> Path:
    """A file that ends too early."""
    short = path.with_name("short" + "".join(path.suffixes))
    short.write_bytes(path.read_bytes()[:-40])
    return short


def torn(side: Side) -> Any:
    """A compressed file that begins well."""
    path = side.place / "zipped.csv.gz"
    path.write_bytes(gzip.compress(side.file.read_bytes()))
    table = cs.open_table(cut(path), side.schema)
    return cs.release(table, side.asked, epsilon=0.5, mechanism="laplace", ledger=side.ledger)


def written(side: Side, text: str) -> Path:
    path = side.place / "written.csv"
    path.write_text(text)
    return path


def grown(side: Side) -> Any:
    """A file that has another number of rows when it is read than when it was opened."""
    path = side.place / "grown.parquet"
    path.write_bytes(side.parquet.read_bytes())
    table = cs.open_table(path, Side(side.place, [], "replace", "row", "csv").schema)
    pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path)
    return cs.release(table, cs.marginals(table.schema, 1), epsilon=0.5, mechanism="laplace")


def other_schema(side: Side, **changes: Any) -> cs.Schema:
    return cs.Schema.from_dict({**side.declared, **changes})


def heavier(side: Side) -> cs.Schema:
    columns = {**side.declared["columns"], "weight": {"type": "boolean"}}
    return other_schema(side, columns=columns)


def narrower(side: Side) -> cs.Schema:
    columns = {name: each for name, each in side.declared["columns"].items() if name != "ill"}
    return other_schema(side, columns=columns)


def threshold(codes: Any) -> float:
    return float((codes[:, 0] == 0).mean() > 0.5)


def failing(side: Side) -> pl.LazyFrame:
    """A computation that fails, whatever the rows are."""

    def fail(rows: pl.DataFrame) -> pl.DataFrame:
        raise ArithmeticError(str(rows))

    return pl.LazyFrame(side.rows).map_batches(fail)


def taken(side: Side) -> Any:
    with side.session(ledger=None, path=side.place / "a.session"):
        pass
    try:
        return side.session(ledger=None, path=side.place / "a.session")
    finally:
        for path in side.place.glob("a.session*"):
            path.unlink()


def closed(side: Side) -> Any:
    session = side.session(ledger=None)
    session.close()
    return session.ask("ill")


def measured(side: Side, question: Any, *, ended: bool = False, **asked: Any) -> Any:
    with side.session(ledger=None) as session:
        if ended:
            session.end()
        return session.measure(question, **asked)


def beyond(side: Side) -> Any:
    """One question more than plain noise was bought for."""
    with side.session(ledger=None, mechanism="laplace", questions=1) as session:
        session.ask("ill")
        return session.ask("sex = 'f'")


class InAFolder:
    """What stands for the object stores that Arrow knows: one that looks into a folder."""

    FileType, FileSelector = fs.FileType, fs.FileSelector

    def __init__(self, folder: Path) -> None:
        self._store, self.FileSystem = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), self

    def from_uri(self, address: str) -> tuple[fs.FileSystem, str]:
        return self._store, address.removeprefix("s3://")


def in_store(side: Side, write: Callable[[Path, pd.DataFrame], Any], address: str = "s3://bucket") -> Any:
    """A release of files in a store, in which the rows of the table are written in a certain way."""
    bucket = side.place / "bucket"
    bucket.mkdir()
    usual, many_files.fs = many_files.fs, InAFolder(side.place)  # type: ignore[misc, assignment]
    try:
        write(bucket, pd.DataFrame(side.rows))
        table = cs.open_table(address, side.schema)
        return cs.release(table, side.asked, epsilon=0.5, mechanism="laplace", ledger=side.ledger)
    finally:
        many_files.fs = usual  # type: ignore[misc]
        shutil.rmtree(bucket)


def two_kinds(bucket: Path, rows: pd.DataFrame) -> None:
    rows.to_parquet(bucket / "a.parquet")
    rows.to_csv(bucket / "b.csv", index=False)


def other_columns(bucket: Path, rows: pd.DataFrame) -> None:
    rows.rename(columns=str.upper).to_parquet(bucket / "a.parquet")


def ends_early(bucket: Path, rows: pd.DataFrame) -> None:
    rows.to_parquet(bucket / "a.parquet")
    file = bucket / "a.parquet"
    file.write_bytes(file.read_bytes()[:-40])


def appended(side: Side, *batches: Any, horizon: int = 1, **asked: Any) -> Any:
    """A stream over a table of events, to which rows are appended, and of which something is asked."""
    schema = Side(side.place, [], side.relation, "row", side.kind).schema
    with cs.open_stream(schema, cs.marginals(schema, 1), horizon=horizon, epsilon=0.5, **asked) as stream:
        for rows in batches:
            stream.append(rows(side, schema))
        return stream.value(99)


def as_rows(side: Side, schema: cs.Schema) -> pd.DataFrame:
    return pd.DataFrame(side.rows)


def filtered(side: Side, schema: cs.Schema) -> Table:
    return cs.open_table("SELECT * FROM 'people.csv' WHERE age <> '7'", schema)


def overwritten(side: Side) -> Any:
    """A stream at a place where there is a file already."""
    return appended(side, path=side.file)


def _opening(*given: Any) -> Iterator[Case]:
    for name, site, source in given:
        yield Case(name, "SourceError", lambda side, source=source: cs.open_table(source(side), side.schema), site)


SOURCE = "data/sources/"
FORM = [
    "SELECT * FROM 'people.csv' LIMIT 3",
    "SELECT sex, avg(age) AS age, true AS ill, '1' AS person FROM 'people.csv' GROUP BY sex",
    "SELECT a.* FROM 'people.csv' a JOIN 'people.csv' b USING (person)",
    "SELECT error(age) AS age, sex, ill, person FROM 'people.csv'",
    "SELECT age, sex, ill, (SELECT max(age) FROM 'people.csv') AS person FROM 'people.csv'",
    "SELECT",
]
THEOREMS = ("iterative", "boosting", "projection")
CASES = [
    *_opening(
        ("no source", f"{SOURCE}__init__.py:_origin", lambda side: 3),
        ("a folder", f"{SOURCE}many_files.py:_files", lambda side: side.place / "folder"),
        ("no file", f"{SOURCE}__init__.py:_open_file", lambda side: side.place / "nobody.csv"),
        ("no kind of file", f"{SOURCE}__init__.py:_open_file", lambda side: side.place / "people.toml"),
        ("no parquet file", f"{SOURCE}many_files.py:_files", lambda side: side.place / "no*.parquet"),
        ("a footer that is cut", f"{SOURCE}origin.py:guarded", lambda side: cut(side.parquet)),
        ("a header twice", f"{SOURCE}delimited.py:read_header", lambda side: written(side, "age,age\n1,2\n")),
        ("no header", f"{SOURCE}delimited.py:read_header", lambda side: written(side, "1,2\n3,4\n")),
        ("a stream", f"{SOURCE}frames.py:one_table", lambda side: pa.table({"a": [1]}).to_reader()),
        ("names twice", f"{SOURCE}frames.py:_held", lambda side: pa.table([[1], [2]], names=["age", "age"])),
        ("a lazy frame that fails", f"{SOURCE}frames.py:collected", failing),
        ("a lazy frame of nothing", f"{SOURCE}frames.py:_names", lambda side: pl.LazyFrame(side.rows).select("nobody")),
        ("no SQL file", f"{SOURCE}sql.py:_file", lambda side: "SELECT * FROM 'nobody.csv'"),
        (
            "no SQL files",
            f"{SOURCE}many_files.py:matching_parquet",
            lambda side: "SELECT * FROM 'no*.parquet'",
        ),
    ),
    *(
        Case(f"SQL {number}", "SourceError", lambda side, form=form: cs.open_table(form, side.schema))
        for number, form in enumerate(FORM)
    ),
    Case(
        "no schema", "SourceError", lambda side: cs.open_table(side.file, "schema"), f"{SOURCE}__init__.py:open_table"
    ),
    Case(
        "a missing column",
        "SourceError",
        lambda s: cs.open_table(s.source, heavier(s)),
        f"{SOURCE}origin.py:Origin.column",
    ),
    Case("a stream that is cut", "SourceError", torn, f"{SOURCE}origin.py:guarded"),
    Case("a grown file", "SourceError", grown, f"{SOURCE}table.py:Table._complete"),
    Case("no records", "SourceError", lambda side: cs.open_records(b"x"), f"{SOURCE}record_tables.py:open_records"),
    Case(
        "no record file", "SourceError", lambda s: cs.open_records("nobody.csv"), f"{SOURCE}record_tables.py:_from_file"
    ),
    Case(
        "no record column",
        "SourceError",
        lambda s: cs.open_records(s.file, "nobody"),
        f"{SOURCE}record_tables.py:_chosen",
    ),
    # Budgets, problems, mechanisms and settings
    Case("a negative budget", "BudgetError", lambda side: side.release(epsilon=-1.0)),
    Case("two budgets", "BudgetError", lambda side: side.release(rho=1.0)),
    Case("no questions", "ProblemError", lambda side: side.release(workload=cs.sql(side.schema, []))),
    Case("another schema", "ProblemError", lambda side: side.release(workload=cs.marginals(heavier(side), 1))),
    Case("no rows", "ProblemError", lambda side: side.release(rows=0)),
    Case("no mechanism", "NoMechanism", lambda side: side.release(mechanism="magic")),
    Case("pure noise asked of gaussian", "NoMechanism", lambda side: side.release(mechanism="gaussian")),
    Case("keys without delta", "NoMechanism", lambda side: side.release(mechanism="stable-histogram")),
    *(
        Case(
            f"theorem of {name}",
            "NoMechanism",
            lambda s, name=name: s.release(mechanism=name, theorem=True, epsilon=0.01),
        )
        for name in THEOREMS
    ),
    Case("no setting", "SettingError", lambda side: side.release(speed=3)),
    Case("a wrong setting", "SettingError", lambda side: side.release(mechanism="mwem", rounds=-1)),
    Case("no relation", "RelationError", lambda side: side.release(neighbours="both")),
    Case(
        "refuted",
        "RefutedSensitivity",
        lambda s: s.release(workload=cs.unsafe_functions(s.schema, {"f": (threshold, 1e-3)})),
    ),
    # Ledgers
    Case("too much", "BudgetExceeded", lambda side: side.release(epsilon=2.0)),
    Case("another currency", "LedgerMismatch", lambda side: side.release(delta=1e-6, mechanism="gaussian")),
    Case("no ledger", "LedgerError", lambda side: side.release(ledger=side.place / "nobody.ledger")),
    Case("no file of a ledger", "LedgerError", lambda side: side.release(ledger=side.file)),
    # Sessions
    Case("a session too large", "BudgetExceeded", lambda side: side.session(epsilon=2.0)),
    Case("no questions declared", "ProblemError", lambda side: side.session(questions=0)),
    Case("no online mechanism", "NoMechanism", lambda side: side.session(mechanism="laplacian")),
    Case("a session that is there", "SessionError", taken),
    Case("a session that is none", "SessionError", lambda side: cs.resume_session(side.file, side.table)),
    Case("a closed session", "SessionError", closed),
    Case("no predicate", "NotAPredicate", lambda side: side.put("DROP TABLE people")),
    Case("no column", "UnknownColumn", lambda side: side.put("weight > 3")),
    Case("no value", "UnknownValue", lambda side: side.put("sex = 'nobody'")),
    Case("no order", "NotOrdered", lambda side: side.put("sex < 'm'")),
    Case("a cut bin", "CutsBin", lambda side: side.put("age < 15")),
    Case("two questions", "NotAPredicate", lambda side: side.put(side.asked)),
    Case("no confidence", "ConfidenceError", lambda side: side.put("ill", confidence=2.0)),
    Case("another table's question", "WorkloadError", lambda side: side.put(cs.sql(heavier(side), ["weight"]))),
    Case("measured with nothing left", "BudgetExceeded", lambda side: measured(side, "ill", ended=True)),
    Case("no predicate measured", "NotAPredicate", lambda side: measured(side, side.asked)),
    Case("measured without confidence", "ConfidenceError", lambda side: measured(side, "ill", confidence=1.0)),
    Case("a question too many", "NoGuess", beyond),
    # Object stores
    *(
        Case(name, "SourceError", lambda s, write=write: in_store(s, write), f"{SOURCE}many_files.py:{place}")
        for name, write, place in (
            ("an empty store", lambda bucket, rows: None, "_files"),
            ("two kinds in a store", two_kinds, "open_many"),
            ("other columns in a store", other_columns, "open_many"),
        )
    ),
    Case("a cut file in a store", "SourceError", lambda s: in_store(s, ends_early), f"{SOURCE}origin.py:guarded"),
    Case(
        "no store",
        "SourceError",
        lambda side: in_store(side, two_kinds, "s3://nobody"),
        f"{SOURCE}many_files.py:_in_store",
    ),
    # Streams
    Case("a step too many", "StreamError", lambda side: appended(side, as_rows, as_rows)),
    Case("no question of a stream", "StreamError", lambda side: appended(side, as_rows)),
    Case("nothing in a stream", "StreamError", lambda side: appended(side)),
    Case("chosen rows in a stream", "StreamError", lambda side: appended(side, filtered)),
    Case(
        "another table in a stream",
        "StreamError",
        lambda s: appended(s, lambda a, b: cs.open_table(a.file, narrower(a))),
    ),
    Case(
        "a column less in a stream",
        "SourceError",
        lambda s: appended(s, lambda a, b: pd.DataFrame(a.rows).drop(columns="ill")),
    ),
    Case("no horizon", "StreamError", lambda side: appended(side, horizon=0)),
    Case("a stream over a file", "StreamError", overwritten),
    Case("a stream that is none", "StreamError", lambda side: cs.resume_stream(side.file)),
    Case("persons under a ledger", "StreamError", lambda side: appended(side, events=2, ledger=side.ledger)),
    # What was released already
    Case("asked of a release", "UnknownColumn", lambda side: side.release(ledger=None).ask("weight")),
    Case("no certainty", "ConfidenceError", lambda side: side.release(ledger=None).ask("ill", confidence=0.0)),
]
COMMANDS = [
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", "2", "--ledger", "people.ledger"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", "-2", "--ledger", "people.ledger"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "9", "--epsilon", ".5", "--ledger", "people.ledger"],
    ["release", "DATA", "--schema", "people.toml", "--sql", "weight > 3", "--epsilon", ".5"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".5", "--mechanism", "magic"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".5", "--set", "speed=3"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".5", "--neighbours", "both"],
    ["release", "nobody.csv", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".5"],
    ["release", "DATA", "--schema", "nobody.toml", "--marginals", "2", "--epsilon", ".5"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".01", "--mechanism", "iterative"]
    + ["--set", "theorem=true", "--ledger", "people.ledger"],
    ["release", "DATA", "--schema", "people.toml", "--marginals", "2", "--epsilon", ".5", "--mechanism", "gaussian"],
    ["plan", "--schema", "people.toml", "--marginals", "2", "--epsilon", "-1", "--rows", "40"],
    ["session", "DATA", "--schema", "people.toml", "--epsilon", "2", "--ledger", "people.ledger", "-o", "a.session"],
    ["ask", "people.csv", "ill"],
    ["ledger", "show", "people.csv"],
    ["ledger", "init", "people.ledger", "--schema", "people.toml", "--epsilon", "1"],
]
