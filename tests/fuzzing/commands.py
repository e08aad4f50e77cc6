"""A folder with a small table and files of every kind; changed copies of them, and the commands that read these."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sqlite3
import time
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from tests.edges.conftest import ROWS, SCHEMA, write_table
from tests.fuzzing.mutations import mutated_bytes, mutated_json, nudged
from tests.fuzzing.releases import arrow, changed_release, changed_table, unpacked
from tests.fuzzing.toml_text import toml_text

import conspectus as cs
from conspectus.cli import app, run
from conspectus.cli.exit_codes import explain
from conspectus.service.analysts import Analysts

KINDS = ("synopsis",) * 9 + ("schema",) * 8 + ("ledger",) * 6 + ("csv", "parquet", "session")
LATER = ("later_synopsis",) * 6 + ("stream",) * 2 + ("analysts",) * 2 + ("mixture_session", "values")
"""Kinds that came later, with numbers of their own: those of the others keep their meaning."""
SLOW, LARGE = 30.0, 700 << 10
"""Seconds and KiB beyond which a small file has stopped a command."""
OLD = Path(__file__).parent.parent / "files" / "v0.1"
PREDICATES = ("ill", "age >= 10 AND sex = 'f'", "sex = 'm' OR ill", "age IS NULL", "smoker", "TRUE")
SELECTS = (
    "SELECT sex, COUNT(*), AVG(age) FROM small GROUP BY sex",
    "SELECT MEDIAN(age) FROM small WHERE ill",
    "SELECT SUM(age), VAR_POP(age) FROM small",
)
TABLE = "table.csv"
ODD = (
    b'"',
    b",",
    b"\r",
    b"\x00",
    b"\xff",
    b"'",
    b"\\",
    b"1e999",
    b"NaN",
    b"9" * 40,
    b"-",
    b"2020-02-30",
    b"\xef\xbb\xbf",
)


def kind_of(number: int, *, later: bool = False) -> str:
    kinds = LATER if later else KINDS
    return kinds[number % len(kinds)]


@dataclass(frozen=True)
class Case:
    """A command on a changed file, the ledger that it may debit, and whether it has to succeed.

    Where no command reads such a file, `act` does: a function of the library, whose errors end as those of a command.
    """

    command: tuple[str, ...]
    ledger: str | None = None
    must: bool = False
    act: Callable[[], Any] | None = None


class Bench:
    """The files, and what the commands make of changed ones."""

    def __init__(self, folder: Path, *, later: bool = False) -> None:
        self._later = later
        warnings.simplefilter("ignore")  # as the entry point does
        if isinstance(app.app, typer.Typer):  # else it would be built anew by every command
            app.app = typer.main.get_command(app.app)  # type: ignore[assignment]
        self._folder = folder
        (folder / "table.toml").write_text(SCHEMA, encoding="utf-8")
        write_table(folder / TABLE, ROWS[:30])
        pa.parquet.write_table(pa.csv.read_csv(folder / TABLE), folder / "table.parquet")
        self._must("ledger", "init", "table.ledger", "--schema", "table.toml", "--epsilon", "1000")
        self._must(*_release(TABLE, "table.toml", Random(0)))
        made = self._folder / "out.conspectus"
        session = ("session", TABLE, "--schema", "table.toml", "--path", "live.session", "--questions", "20")
        releases = [*sorted(OLD.glob("*.conspectus")), made]
        self._releases = [unpacked(path.read_bytes()) for path in releases]
        self._must(*session, "--epsilon", "500", "--quiet")
        for predicate in PREDICATES[:2]:
            self._must(*_ask(predicate))
        if later:
            self._make_later()
        self._kept = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("out.")}

    def _make_later(self) -> None:
        """Releases of the mechanisms that came later, a stream with some steps, a list of analysts, a wide session."""
        schema = cs.Schema.load(self._folder / "table.toml")
        table = cs.open_table(self._folder / TABLE, schema)
        pairs, budget = cs.marginals(schema, 2), {"epsilon": 20.0, "delta": 1e-6}
        with cs.open_stream(schema, pairs, horizon=12, path=self._folder / "live.stream", **budget) as stream:
            for _ in range(5):
                stream.append(table)
            made = [stream.release()]
        made += [
            cs.release(table, pairs, mechanism="adaptive", **budget),
            cs.release(table, pairs, mechanism="projection", **budget),
            cs.release(table, cs.ranges(schema, "age"), mechanism="tree", **budget),
            cs.release(table, pairs, mechanism="histogram", **budget),
            cs.release(table, pairs, mechanism="top", count=3, **budget),
            cs.release(table, cs.means(schema, "age", by=["sex"]), mechanism="gaussian", **budget),
            cs.release(table, cs.variances(schema, "age"), mechanism="projection", **budget),
        ]
        self._later_releases = [self._unpacked(release) for release in made]
        whole = {"epsilon": 5.0, "delta": 1e-6}
        mean = cs.aggregated(schema, lambda codes: codes[:, 0].mean(), blocks=4, range=(0, 9), by="mean")
        pair = cs.aggregated(schema, lambda codes: (1, 2), blocks=4, range={"a": (0, 9), "b": (0, 3)})
        self._values = [
            self._unpacked(cs.release_value(table, wanted, mechanism=mechanism, **how, **whole))
            for wanted, mechanism, how in (
                (mean, "laplace", {}),
                (mean, "gaussian", {}),
                (pair, "permute-and-flip", {}),
                (pair, "stable", {}),
                (cs.aggregated(schema, lambda codes: "a", blocks=4, values=["a", "b"]), "noisy-max", {}),
                (cs.column_mode(schema, "sex"), "stable", {}),
                (cs.column_median(schema, "age"), "exponential", {}),
                (cs.column_median(schema, "age"), "propose-test-release", {"within": 1}),
                (cs.interquartile_range(schema, "age", bins=1), "stable", {}),
            )
        ]
        Analysts(self._folder).add("ann", questions=20, share=0.5, names=["live"])
        Analysts(self._folder).add("bob")
        wide = ("session", TABLE, "--schema", "table.toml", "--path", "wide.session", "--questions", "20")
        self._must(*wide, "--epsilon", "200", "--delta", "1e-6", "--mechanism", "live-mixture", "--quiet")
        self._must(*_ask(PREDICATES[0], "wide.session"))

    def _unpacked(self, made: Any) -> dict[str, bytes]:
        """The members of the file of a release."""
        made.save(self._folder / "out.conspectus")
        found = unpacked((self._folder / "out.conspectus").read_bytes())
        (self._folder / "out.conspectus").unlink()
        return found

    def judged(self, seed: int, number: int) -> tuple[str, str]:
        """ "accepted", "refused" or "stopped" of the file of a number, and what was said."""
        random = Random(f"{seed}:{number}")
        for path in self._folder.iterdir():
            path.unlink()
        for name, content in self._kept.items():
            (self._folder / name).write_bytes(content)
        case: Case = getattr(self, kind_of(number, later=self._later))(random)
        before, peak, started = self._lines(case.ledger), _peak(), time.process_time()
        code, out, err = self._run(*case.command) if case.act is None else self._call(case.act)
        took, grown = time.process_time() - started, _peak() - peak
        told = f"{err.strip()} {' '.join(case.command)}"
        if code not in (0, 2, 3, 4) or "Traceback" in out + err:
            return "stopped", f"exit {code}: {told}"
        if code and before is not None and self._lines(case.ledger) != before:
            return "stopped", f"a refusal changed the ledger: {told}"
        if (
            code
            and (self._folder / case.command[-1]).name.startswith("out.")
            and (self._folder / case.command[-1]).exists()
        ):
            return "stopped", f"a refusal left a file: {told}"
        if took > SLOW or grown > LARGE:
            return "stopped", f"{took:.0f} s, {grown >> 10} MiB: {told}"
        if code and case.must:
            return "stopped", f"rows stopped a release: {told}"
        return ("refused" if code else "accepted"), err.strip()

    def _run(self, *command: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run(command)
            except BaseException as problem:  # nothing may come out of `run`
                return -1, "", f"{type(problem).__name__}: {problem}"
        return code, out.getvalue(), err.getvalue()

    def _call(self, act: Callable[[], Any]) -> tuple[int, str, str]:
        try:
            act()
        except Exception as problem:
            code, said = explain(problem)
            return code, "", said
        return 0, "", ""

    def _must(self, *command: str) -> None:
        code, _, err = self._run(*command)
        if code:
            raise AssertionError(f"{command}: {err}")

    def _lines(self, ledger: str | None) -> object:
        """What a ledger has reserved and debited, read past our own code; None where it cannot be read."""
        if ledger is None:
            return None
        try:
            with contextlib.closing(sqlite3.connect(self._folder / ledger)) as connection:
                return connection.execute("SELECT * FROM entries WHERE kind <> 'settle' ORDER BY id").fetchall()
        except (sqlite3.Error, UnicodeDecodeError, OverflowError):
            return None

    def _write(self, name: str, content: bytes | str) -> None:
        data = content.encode("utf-8", errors="surrogatepass") if isinstance(content, str) else content
        (self._folder / name).write_bytes(data)

    # One method for each kind of file: it writes a changed one, and says which command reads it.

    def synopsis(self, random: Random) -> Case:
        self._write("file.conspectus", changed_release(random, random.choice([*self._releases, self._releases[-1]])))
        commands = {
            "ask": (
                "ask",
                "file.conspectus",
                random.choice(PREDICATES),
                *random.choice(((), ("--json",), ("--snap",))),
            ),
            "export": ("export", "file.conspectus", "--table", random.choice(("sex", "age,ill")), "-o", "out.csv"),
            "synthesize": ("synthesize", "file.conspectus", "-n", "5", "-o", "out.parquet"),
            "report": ("report", "file.conspectus", "-o", "out.html"),
        }
        return Case(commands[random.choice(("ask",) * 6 + tuple(commands))])

    def schema(self, random: Random) -> Case:
        declared = tomllib.loads(SCHEMA)
        if random.random() < 0.8:
            change = random.choice((nudged, mutated_json, mutated_json))
            text: bytes | str = toml_text(change(random, declared))
        else:
            text = mutated_bytes(random, SCHEMA.encode())
        self._write("file.toml", text)
        asked = ("--rows", "30", "--marginals", "1", "--epsilon", "1", "--mechanism", "laplace")
        if random.random() < 0.85:
            return Case(("plan", "--schema", "file.toml", *asked))
        if random.random() < 0.3:
            return Case(("ledger", "init", "--schema", "file.toml", "--epsilon", "1", "out.ledger"))
        return Case(
            random.choice((_release(TABLE, "file.toml", random), ("schema", "check", "file.toml", TABLE))),
            "table.ledger",
        )

    def csv(self, random: Random) -> Case:
        head, _, body = self._kept[TABLE].partition(b"\n")
        if random.random() < 0.85:
            self._write("file.csv", head + b"\n" + _cells(random, body))
            return Case(_release("file.csv", "table.toml", random), "table.ledger", must=True)
        self._write("file.csv", mutated_bytes(random, self._kept[TABLE]))
        draft, check = ("schema", "draft", "file.csv"), ("schema", "check", "table.toml", "file.csv")
        return Case(random.choice((_release("file.csv", "table.toml", random), draft, check)), "table.ledger")

    def parquet(self, random: Random) -> Case:
        if random.random() < 0.5:
            self._write("file.parquet", mutated_bytes(random, self._kept["table.parquet"]))
        else:
            table = pa.parquet.read_table(io.BytesIO(self._kept["table.parquet"]))
            for _ in range(random.choice((1, 2, 3))):
                table = changed_table(random, table) if table.num_rows < 1 << 20 else table[:30]
            out = io.BytesIO()
            try:
                pa.parquet.write_table(table[: 1 << 16], out, row_group_size=random.choice((None, 7)))
            except pa.ArrowException:
                out.write(arrow(random, table[:30]))
            self._write("file.parquet", out.getvalue())
        return Case(_release("file.parquet", "table.toml", random), "table.ledger")

    def ledger(self, random: Random) -> Case:
        if random.random() < 0.3:
            self._write("table.ledger", mutated_bytes(random, self._kept["table.ledger"]))
        else:
            _change_rows(random, self._folder / "table.ledger")
        if random.random() < 0.1:
            return Case(_release(TABLE, "table.toml", random), "table.ledger")
        return Case(("ledger", "show", "table.ledger", *random.choice(((), ("--json",)))), "table.ledger")

    def later_synopsis(self, random: Random) -> Case:
        self._write("file.conspectus", changed_release(random, random.choice(self._later_releases)))
        shown = ("--json",) if random.random() < 0.5 else ()
        commands = {
            "ask": ("ask", "file.conspectus", random.choice(PREDICATES), *shown),
            "sql": ("sql", "file.conspectus", random.choice(SELECTS)),
            "export": ("export", "file.conspectus", "--table", random.choice(("sex", "age,ill")), "-o", "out.csv"),
            "synthesize": ("synthesize", "file.conspectus", "-n", "5", "-o", "out.parquet"),
            "report": ("report", "file.conspectus", "-o", "out.html"),
        }
        return Case(commands[random.choice(("ask",) * 4 + ("sql",) * 2 + tuple(commands))])

    def values(self, random: Random) -> Case:
        self._write("file.conspectus", changed_release(random, random.choice(self._values)))
        return Case(("report", "file.conspectus", "-o", "out.html"))

    def stream(self, random: Random) -> Case:
        path = self._folder / "live.stream"
        if random.random() < 0.3:
            self._write("live.stream", mutated_bytes(random, self._kept["live.stream"]))
        else:
            _change_rows(random, path)

        def go_on() -> None:
            with cs.resume_stream(path) as stream:
                tree = stream._plan.horizon.tree_at(stream.steps)
                going_on = stream._plan.horizon.going_on(stream.steps)
                assert set(stream._file.state().noises) == going_on, "a noise that was paid for is gone"
                stream.append(cs.open_table(self._folder / TABLE, stream.schema))
                stream.value(0)
                assert tree.levels <= 40

        return Case(("a stream",), act=go_on)

    def analysts(self, random: Random) -> Case:
        if random.random() < 0.3:
            self._write("analysts.db", mutated_bytes(random, self._kept["analysts.db"]))
        else:
            _change_rows(random, self._folder / "analysts.db")
        words = random.choice((("list",), ("list",), ("add", "carl"), ("revoke", "bob")))
        return Case(("serve", "token", *words, "--folder", "."))

    def mixture_session(self, random: Random) -> Case:
        return self.session(random, "wide.session")

    def session(self, random: Random, of: str = "live.session") -> Case:
        name = random.choice((of,) * 3 + (f"{of}.ledger",))
        if random.random() < 0.25:
            self._write(name, mutated_bytes(random, self._kept[name]))
        else:
            _change_rows(random, self._folder / name)
        return Case(_ask(random.choice(PREDICATES), of), f"{of}.ledger")


def _release(data: str, schema: str, random: Random) -> tuple[str, ...]:
    asked = random.choice((("--marginals", "1"), ("--marginal", "sex,ill"), ("--parities", "1")))
    bought = ("--mechanism", "laplace", "--epsilon", "0.5", "--quiet", "--ledger", "table.ledger")
    return ("release", data, "--schema", schema, *asked, *bought, "-o", "out.conspectus")


def _ask(predicate: str, session: str = "live.session") -> tuple[str, ...]:
    return ("ask", "--session", session, predicate, "--data", TABLE, "--schema", "table.toml")


def _cells(random: Random, body: bytes) -> bytes:
    """The rows of a CSV file with odd cells, lines cut and repeated, and bytes of any kind."""
    lines = body.split(b"\n")
    for _ in range(random.choice((1, 2, 4))):
        place = random.randrange(len(lines))
        match random.randrange(5):
            case 0:
                lines[place] = mutated_bytes(random, lines[place])
            case 1:
                cells = lines[place].split(b",")
                cells[random.randrange(len(cells))] = random.choice(ODD)
                lines[place] = b",".join(cells)
            case 2:
                lines[place : place + 2] = lines[place : place + 2] * random.choice((0, 2, 40))
                lines = lines or [b""]
            case 3:
                lines[place] += random.choice(ODD) * random.choice((1, 3, 3000))
            case _:
                cut = random.randrange(len(lines[place]) + 1)
                lines[place] = lines[place][:cut] + random.choice((b"", b"\n", *ODD)) + lines[place][cut:]
    return b"\n".join(lines)


def _change_rows(random: Random, path: Path) -> None:
    """One or two values of a SQLite file changed: texts that are JSON as trees, blobs as bytes."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        named = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        tables = [name for kind, name, _ in named if kind == "table" and name != "sqlite_sequence"]
        triggers = [(name, sql) for kind, name, sql in named if kind == "trigger"]
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for _ in range(random.choice((1, 1, 2))):
            table = random.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
            column = random.choice(columns)
            if not rows:
                continue
            row = random.choice(rows)
            (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                match random.random():
                    case chance if chance < 0.1:
                        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
                    case chance if chance < 0.15:
                        connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO another")
                    case chance if chance < 0.2:
                        moves = f"BEGIN UPDATE {table} SET {column} = 0; END"
                        connection.execute(f"CREATE TRIGGER other AFTER INSERT ON {table} {moves}")
                    case _:
                        changed = _stored(random, value)
                        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
        for _, sql in triggers if random.random() < 0.9 else ():
            with contextlib.suppress(sqlite3.Error):
                connection.execute(sql)


def _stored(random: Random, value: Any) -> Any:
    if isinstance(value, bytes):
        return mutated_bytes(random, value)
    if isinstance(value, str):
        try:
            tree = json.loads(value)
        except ValueError:
            tree = value
        changed = random.choice((nudged, mutated_json))(random, tree)
        return changed if isinstance(tree, str) and isinstance(changed, str | float) else json.dumps(changed)
    return mutated_json(random, value)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
