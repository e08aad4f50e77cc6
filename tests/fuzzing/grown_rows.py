"""Files that are gone on with, in which a number, a text, a list or a row has grown: sessions, streams, series,
analysts, ledgers and single values.

`grown_files` judges them, behind `--later`. Whatever uses such a file reads it or refuses it, and what is refused has
spent nothing.
"""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from tests.fuzzing.mutations import at, paths
from tests.fuzzing.releases import packed, unpacked

import conspectus as cs
from conspectus.cli import ledger_commands
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.service.analysts import Analysts
from conspectus.service.refusing import Refused

KINDS = ("session", "fresh_session", "mixture_session", "stream", "series", "analysts", "kept_ledger", "any_value")
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 7, 1 << 16, 1 << 24, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63), 10**30, 10**400, -(10**400)),
    *(0.5, 1e-9, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan),
)
TEXTS = ("9" * 4_000, "1/" + "7" * 4_000, "-1/3", "0", "1/0", "1e400", "1e-400", "nan", "a" * 60_000, "é" * 9, "\x00")
Files = dict[str, bytes]

SCHEMA = cs.Schema.from_dict(
    {"name": "made", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}}
)
ROWS = pa.table({"ill": [True, False, False] * 40, "age": list(range(10)) * 12})


def _table() -> cs.Table:
    return cs.open_table(ROWS, SCHEMA)


def _ledger(folder: Path) -> Ledger:
    return cs.Ledger.create(
        folder / "made.ledger",
        budget=Budget(epsilon=50.0, delta=1e-6),
        neighbours="replace",
        unit="row",
        schema_fingerprint=SCHEMA.fingerprint,
        table="made",
    )


@cache
def _sound(kind: str) -> Files:
    """The files of one kind, as they were written."""
    budget = {"epsilon": 40.0, "delta": 1e-6}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        match kind:
            case "session" | "fresh_session" | "mixture_session":
                mechanism = {"session": "pmw", "fresh_session": "gaussian", "mixture_session": "live-mixture"}[kind]
                with cs.open_session(
                    _table(), mechanism=mechanism, questions=20, ledger=_ledger(folder), path=folder / "made", **budget
                ) as session:
                    session.ask("ill AND age = 3")
                    session.measure("age < 4")
                    session.above(["age = 1"], 5, share=0.01)
            case "stream":
                ledger, asked = _ledger(folder), cs.marginals(SCHEMA, 2)
                with cs.open_stream(SCHEMA, asked, horizon=12, ledger=ledger, path=folder / "made", **budget) as stream:
                    for _ in range(3):
                        stream.append(_table())
            case "series":
                series = cs.open_series(
                    SCHEMA,
                    cs.marginals(SCHEMA, 1),
                    periods=["May", "June", "July"],
                    ledger=_ledger(folder),
                    path=folder / "made",
                    mechanism="gaussian",
                    **budget,
                )
                series.release(_table())
            case "analysts":
                kept = Analysts(folder)
                kept.add("ann", questions=20, share=0.5, names=["live", "other"])
                kept.add("bob")
                kept.count("ann", most=20)
                kept.spend("ann", "live", 0.25)
                if kept._connection is not None:
                    kept._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    kept._connection.close()
            case "kept_ledger":
                ledger = _ledger(folder)
                one_way, bought = cs.marginals(SCHEMA, 1), {"epsilon": 2.0, "delta": 1e-8, "mechanism": "gaussian"}
                cs.release(_table(), one_way, ledger=ledger, **bought)
                ledger.declare_study("s", purpose="made", budget=Budget(epsilon=20.0, delta=1e-7))
                cs.release(_table(), one_way, ledger=ledger.for_study("s", by="ann"), **bought)
            case _:
                return {"made": b""}
        return {
            path.name: path.read_bytes() for path in folder.iterdir() if "-" not in path.name and path.suffix != ".lock"
        }


@cache
def _values() -> list[Files]:
    whole, found = {"epsilon": 5.0, "delta": 1e-6}, []
    mean = cs.aggregated(SCHEMA, lambda codes: codes[:, 0].mean(), blocks=4, range=(0, 9), by="mean")
    pair = cs.aggregated(SCHEMA, lambda codes: (1, 2), blocks=4, range={"a": (0, 9), "b": (0, 3)})
    with tempfile.TemporaryDirectory() as folder:
        for wanted, mechanism, how in (
            (mean, "laplace", {}),
            (pair, "permute-and-flip", {}),
            (cs.aggregated(SCHEMA, lambda codes: "a", blocks=4, values=["a", "b"]), "noisy-max", {}),
            (cs.column_mode(SCHEMA, "age"), "stable", {}),
            (cs.column_median(SCHEMA, "age"), "exponential", {}),
            (cs.column_median(SCHEMA, "age"), "propose-test-release", {"within": 1}),
            (cs.interquartile_range(SCHEMA, "age", bins=1), "stable", {}),
        ):
            cs.release_value(_table(), wanted, mechanism=mechanism, **how, **whole).save(path := Path(folder) / "made")
            found.append(unpacked(path.read_bytes()))
    return found


def _grown(random: Random, here: Any) -> Any:
    """One value made huge, negative, not a number, or repeated."""
    match here:
        case bool() | None:
            return random.choice((*NUMBERS, here, [here] * 5_000))
        case int() | float():
            return random.choice(NUMBERS)
        case str():
            return random.choice((*TEXTS, here * random.choice((2, 5_000)), random.choice(NUMBERS)))
        case list():
            like = here[-1] if here else 0
            many = random.choice((3, 300, 20_000))
            return random.choice(
                ([], here * 2, here + [like] * many, here + list(range(many)), [here] * min(many, 300))
            )
        case dict():
            return {**here, **{str(place): 0 for place in range(random.choice((1, 5_000)))}}
    return here


def _tree(random: Random, tree: Any) -> Any:
    """A tree of JSON values in which one place, or two, has grown."""
    for _ in range(random.choice((1, 1, 2))):
        path = random.choice(paths(tree))
        if not path:
            tree = _grown(random, tree) if random.random() < 0.2 else tree
        else:
            at(tree, path[:-1])[path[-1]] = _grown(random, at(tree, path))
    return tree


def _text(random: Random, text: str) -> Any:
    try:
        tree = json.loads(text)
    except ValueError:
        return _grown(random, text)
    return json.dumps(_tree(random, tree))


def _blob(random: Random, content: bytes) -> bytes:
    """Bytes repeated, or all alike; of an Arrow table also more rows, and other numbers."""
    with suppress(ValueError, RecursionError):
        return str(_text(random, content.decode())).encode()
    with suppress(pa.ArrowException, OSError):
        table = pa.ipc.open_stream(content).read_all()
        changed = {}
        for name, column in zip(table.column_names, table.columns):
            values = column.to_pylist()
            if values and random.random() < 0.5:
                values[random.randrange(len(values))] = random.choice((math.nan, math.inf, -1e308, 1e308, None, -1.0))
            values = values * random.choice((1, 1, 2, 500)) if len(table) < 3_000 else values
            with suppress(pa.ArrowException, OverflowError):
                changed[name] = pa.array(values, type=column.type)
        with suppress(pa.ArrowException, ValueError):
            made, sink = pa.table(changed), pa.BufferOutputStream()
            packing = pa.ipc.IpcWriteOptions(compression=random.choice((None, None, None, "zstd")))
            with pa.ipc.new_stream(sink, made.schema, options=packing) as writer:
                writer.write_table(made)
            return bytes(sink.getvalue().to_pybytes())
    size = len(content)
    return random.choice(
        (content * 2, content * 300, b"\xff" * size, b"\x7f" * size, b"\0" * size, content[: size // 2])
    )


def _grow_rows(random: Random, path: Path) -> None:
    """One or two values of a SQLite file grown, or one row of it repeated."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        named = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        triggers = [(name, sql) for kind, name, sql in named if kind == "trigger"]
        tables = [name for kind, name, _ in named if kind == "table" and name != "sqlite_sequence"]
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for _ in range(random.choice((1, 1, 2))):
            table = random.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
            if not rows:
                continue
            row, column = random.choice(rows), random.choice(columns)
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                if random.random() < 0.15:
                    _repeat(random, connection, table, columns, row)
                    continue
                (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
                grow = {bytes: _blob, str: _text}.get(type(value), _grown)
                changed = grow(random, value)  # type: ignore[operator]
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
        for _, sql in triggers:
            connection.execute(sql)


def _repeat(random: Random, connection: sqlite3.Connection, table: str, columns: list[str], row: int) -> None:
    """A row many times, each time under the next number and another name."""
    values = list(connection.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone())
    (last,) = connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()
    length = max(1, sum(len(value) for value in values if isinstance(value, str | bytes)))
    connection.execute("BEGIN")
    for place in range(min(random.choice((1, 300, 3_000)), (1 << 18) // length)):
        made = [value if at else (value if isinstance(value, bytes) else None) for at, value in enumerate(values)]
        made[0] = last + 1 + place if isinstance(values[0], int) else f"{values[0]}{place}"
        if len(values) > 1 and isinstance(values[1], str) and table in ("answers", "analysts"):
            made[1] = f"{values[1]}{place}"
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", made)
    connection.execute("COMMIT")


def case_of(kind: str, random: Random, folder: Path) -> None:
    """Write the files of one case into a folder."""
    if kind == "any_value":
        members = dict(random.choice(_values()))
        manifest = json.loads(members["manifest.json"])
        manifest["release"] = _tree(random, manifest["release"])
        (folder / "made").write_bytes(packed(members, top=manifest))
        return
    for name, content in _sound(kind).items():
        (folder / name).write_bytes(content)
    if kind == "series" and random.random() < 0.6:
        grown = _text(random, (folder / "made").read_text(encoding="utf-8"))
        (folder / "made").write_text(str(grown), encoding="utf-8")
        return
    names = sorted(_sound(kind), key=len)  # the file itself, then its ledger
    ledger = kind == "series" or random.random() < 0.25
    _grow_rows(random, folder / names[-1 if ledger else 0])


@contextmanager
def _session(folder: Path) -> Iterator[cs.Session]:
    with cs.resume_session(folder / "made", _table(), ledger=folder / "made.ledger") as session:
        yield session


def acts_of(kind: str, folder: Path) -> Iterator[Callable[[], object]]:
    """What is done with such a file, one act after the other: each is judged by itself."""
    file, ledger = folder / "made", folder / "made.ledger"
    if kind.endswith("session"):
        with _session(folder) as session:
            yield lambda: (session.spent, session.remaining, session.exhausted, str(session))
            yield lambda: session.ask("ill AND age = 3")
            yield lambda: session.quote("SELECT ill, COUNT(*) FROM made GROUP BY ill")
            yield lambda: session.ask("age = 7")
            yield lambda: session.measure("age = 8")
            yield lambda: session.above(["age = 1"], 5, share=0.001)
            yield lambda: session.release().ask("age < 4")
    elif kind == "stream":
        with cs.resume_stream(file, ledger=ledger) as stream:
            yield lambda: stream.value(0)
            yield lambda: stream.append(_table())
            yield stream.release
    elif kind == "series":
        series = cs.resume_series(file, ledger=ledger)
        yield lambda: (series.next, series.ended, series.to_arrow())
        yield lambda: series.plan(rows=120)
        yield lambda: series.release(_table())
    elif kind == "analysts":
        kept = Analysts(folder)
        try:
            yield kept.all
            yield lambda: kept.find("cs_nobody")
            yield lambda: kept.spent("ann", "live")
            yield lambda: _counted(kept)
            yield lambda: kept.spend("ann", "live", 0.125)
            yield lambda: kept.spent("ann", "live")
        finally:
            if kept._connection is not None:
                kept._connection.close()
    elif kind == "kept_ledger":
        opened = Ledger.open(ledger)
        yield lambda: (opened.spent, opened.remaining, opened.burn_rate(), opened.entries())
        with redirect_stdout(StringIO()):
            yield lambda: ledger_commands.show(str(ledger))
        release = {"epsilon": 1.0, "delta": 1e-8, "mechanism": "gaussian"}
        yield lambda: cs.release(_table(), cs.marginals(SCHEMA, 1), ledger=opened.for_study("s", by="ann"), **release)
    else:
        value = cs.load_value(file)
        yield lambda: (str(value), repr(value))


def _counted(kept: Analysts) -> None:
    with suppress(Refused):  # who may ask no more is told so
        for analyst in kept.all():
            kept.count(analyst.name, most=analyst.questions)


def debits(folder: Path) -> int | None:
    """How many acts a ledger has been told; None where it has none, or cannot be read."""
    ledger = folder / "made.ledger"
    if not ledger.is_file():
        return None
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(ledger)) as connection:
        return int(connection.execute("SELECT count(*) FROM entries WHERE kind = 'debit'").fetchone()[0])
    return None
